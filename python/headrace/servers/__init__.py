"""Real servers on the lab's volumes: MariaDB and MySQL, InnoDB and MyRocks.

Starting servers takes Linux and root; importing works on any Unix.
"""

from headrace.mysql import Address, connect, parse_address
from headrace.servers.config import parse_settings
from headrace.servers.flavors import find_program
from headrace.servers.server import (
    Server,
    bring_up,
    build_client_command,
    destroy,
    find,
    list_servers,
    mount,
    read_log_lines,
    save_data,
    start,
    stop,
    with_room,
)

__all__ = [
    "Address",
    "Server",
    "build_client_command",
    "connect",
    "destroy",
    "find",
    "find_program",
    "read_log_lines",
    "mount",
    "parse_address",
    "save_data",
    "list_servers",
    "parse_settings",
    "start",
    "stop",
    "bring_up",
    "with_room",
]
