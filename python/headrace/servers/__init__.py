"""Real servers on the lab's volumes: MariaDB and MySQL, InnoDB and MyRocks.

Starting servers takes Linux and root; importing works on any Unix.
"""

from headrace.mysql import Address, connect, parse_address
from headrace.servers.config import settings_of
from headrace.servers.flavors import find_program
from headrace.servers.server import (
    Server,
    client_command,
    destroy,
    find,
    log_lines,
    mount,
    save_data,
    servers,
    start,
    stop,
    up,
    with_room,
)

__all__ = [
    "Address",
    "Server",
    "client_command",
    "connect",
    "destroy",
    "find",
    "find_program",
    "log_lines",
    "mount",
    "parse_address",
    "save_data",
    "servers",
    "settings_of",
    "start",
    "stop",
    "up",
    "with_room",
]
