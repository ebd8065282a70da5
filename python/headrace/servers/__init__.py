"""Real servers on the lab's volumes: MariaDB and MySQL, InnoDB and MyRocks.

    server      up, stop, start, destroy, find: what others use
    flavors     which server programs there are, and what they can
    install     getting them: from Debian's packages, MySQL in a folder of its own
    creation    makes a new server; running: starts and ends one that is made
    config      its option file
    access      as whom it runs, and who may reach it: account, password, certificates
    volumes     its volumes with their filesystems; datadir: the data directory on them
    record      where its files are, and what is known of it between two commands
    scratch     a folder for a lab that is ended again: in memory, if it fits
    topology/   replicas: made, observed, their lag by four clocks, groups, links that can be cut
    failover/   another server takes over: planned by a pure function, then done step by step
    copies/     a running server copied by five methods, under one lock
    backup/     copies in files, streamed binary logs, restores to a moment, proofs

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
