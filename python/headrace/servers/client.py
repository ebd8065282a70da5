"""The server's own client, and its log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from headrace.errors import CouldNotRun, InputError
from headrace.servers.flavors import GUIDE, find_program
from headrace.servers.server import Server

LOOK_EVERY_S = 0.25
CLIENTS = {"mariadb": ("mariadb", "mysql"), "mysql": ("mysql",)}
PACKAGES = {"mariadb": "mariadb-client-core", "mysql": "mysql-client-core"}


def client_command(server: Server, words: tuple[str, ...] = ()) -> list[str]:
    """What runs the client, logged in: the password is in a file that only root may read. Raises InputError for a server that does not run, CouldNotRun."""
    if server.state != "running":
        raise InputError(server.name, f"is {server.state}", GUIDE, f"Start it: headrace mysql up {server.name}")
    program = find_program(server.flavor, server.server_path)
    client = program.tool(*CLIENTS[server.flavor])
    if client is None:
        raise CouldNotRun(CLIENTS[server.flavor][0], "is not installed", str(program.basedir), f"apt-get install {PACKAGES[server.flavor]}")
    return [*client, f"--defaults-extra-file={server.client_file}", *words]


def log_lines(server: Server, lines: int, follow: bool = False) -> Iterator[str]:
    """The last lines of its error log; with `follow` those to come too, for ever. Raises CouldNotRun."""
    try:
        with open(server.log, encoding="utf-8", errors="replace") as file:
            yield from (line.rstrip("\n") for line in deque(file, lines))
            rest = ""
            while follow:
                part = file.readline()
                if not part:
                    time.sleep(LOOK_EVERY_S)
                elif part.endswith("\n"):
                    yield (rest + part).rstrip("\n")
                    rest = ""
                else:
                    rest += part  # a line that is being written
    except OSError as error:
        raise CouldNotRun(str(server.log), f"cannot be read: {error.strerror}", "", "Servers belong to root: run it with sudo.") from None
