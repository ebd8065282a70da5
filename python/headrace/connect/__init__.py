"""Connections to MySQL and MariaDB servers, without passwords in arguments or messages.

address       which server, as whom; a password that is not printed
connection    an open connection, and its errors in words
option_files  option files as the servers read them

>>> from headrace.connect import parse_address
>>> parse_address("mysql://watcher@db.example:3307/shop").label
'mysql://watcher@db.example:3307/shop'
"""

from headrace.connect.address import Address, Secret, client_text, parse_address, write_client_file
from headrace.connect.connection import connect

__all__ = ["Address", "Secret", "client_text", "connect", "parse_address", "write_client_file"]
