"""Real servers on the lab's volumes: MariaDB and MySQL, InnoDB and MyRocks.

    flavors     which server programs there are, and what they can
    install     getting them: from Debian's packages, MySQL unpacked beside the system
    server      up, stop, start, destroy, find: what others use
    creation    a new one: volumes, filesystem, data directory; running: one that is there
    config      its option file; optionfile: a user's, read as the server reads it; accounts, tls: who may reach it
    client      its client and its log
    memory      where a lab of the moment lies
    volumes, filesystem, datadir, process, record, places: the parts

Linux and root for what starts servers; importing works on any Unix.
"""

from headrace.servers.client import client_command, log_lines
from headrace.servers.config import settings_of
from headrace.servers.flavors import Program, find_program
from headrace.servers.server import Server, destroy, find, save_data, servers, start, stop, up

__all__ = [
    "Program", "Server", "client_command", "destroy", "find", "find_program", "log_lines", "save_data", "servers", "settings_of", "start", "stop", "up",
]  # fmt: skip
