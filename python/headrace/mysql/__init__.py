"""MySQL and MariaDB servers: how to reach them, and what they say. No password stands in arguments
or messages.

address       which server, as whom; a password that is not printed
connection    an open connection, and its errors in words
option_files  option files as the servers read them
statements    questions and changes; only here a statement is run
dialect       the statements of replication, by flavor and version
state         what a server says of itself and of its channels
gtid          sets of transactions' global identifiers, of both flavors
privileges    the rights of an account, as SHOW GRANTS lists them
binary_events events of a binary log

>>> from headrace.mysql import parse_address
>>> parse_address("mysql://watcher@db.example:3307/shop").label
'mysql://watcher@db.example:3307/shop'
"""

from headrace.mysql.address import Address, Secret, client_text, parse_address, write_client_file
from headrace.mysql.connection import connect

__all__ = ["Address", "Secret", "client_text", "connect", "parse_address", "write_client_file"]
