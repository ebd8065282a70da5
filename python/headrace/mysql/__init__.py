"""MySQL and MariaDB servers: how to reach them, and what they say. No password stands in arguments
or messages.

>>> from headrace.mysql import parse_address
>>> parse_address("mysql://watcher@db.example:3307/shop").label
'mysql://watcher@db.example:3307/shop'
"""

from headrace.mysql.address import Address, Secret, build_client_text, parse_address, write_client_file
from headrace.mysql.connection import connect

__all__ = ["Address", "Secret", "build_client_text", "connect", "parse_address", "write_client_file"]
