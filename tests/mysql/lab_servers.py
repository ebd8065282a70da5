"""Servers of tests: on labs in folders of their own, ended and cleaned up whatever happened;
statements sent to them."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab"))

from lab_folders import Labs

from headrace.base import processes
from headrace.lab import Lab
from headrace.mysql import connect
from headrace.servers import access, record, volumes
from headrace.servers.server import Server
from headrace.servers.topology import links

# A volume that is quick enough for tests, and slow enough to be one.
SPEC = "gp3:4"


class ServerLabs(Labs):
    """Labs whose servers are ended first."""

    def close(self) -> None:
        for folder in self.folders:
            end_servers(folder)
        super().close()


def end_servers(folder: Path) -> None:
    """Kills the servers of a lab's folder and takes down their mounts and folders in /run."""
    user = access.find_service_user()
    for name in record.list_names(folder):
        where = record.make_server_paths(folder, name)
        while (process := processes.find_by_argument(f"--defaults-file={where.config}", user)) is not None:
            processes.end_process(process, signal.SIGKILL, 30)
        volumes.unmount_quietly(where)
        links.remove_named(where)
    with contextlib.suppress(OSError):
        shutil.rmtree(record.make_server_paths(folder, "any").run.parent)


def sql(server: Server, *statements: str, tcp: bool = False, timeout_s: float = 60.0) -> tuple:
    """Rows of the last statement."""
    with connect(server.make_address(tcp=tcp), timeout_s) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def left_of(lab: Lab, name: str) -> list[str]:
    """Returns everything that still exists of a server: volumes, mounts, processes, folders. It is
    empty for a server that was removed whole."""
    where = record.make_server_paths(record.find_data_dir(lab), name)
    texts = [f"volume {text}" for text in volumes.list_tagged(lab, name)]
    mounts = Path("/proc/self/mountinfo").read_text()
    texts += [f"mounted: {line}" for line in mounts.splitlines() if f" {where.run}" in line]
    running = processes.find_by_argument(f"--defaults-file={where.config}", access.find_service_user())
    texts += [] if running is None else [f"process {running.pid}"]
    texts += [str(folder) for folder in (where.state, where.run) if folder.exists()]
    return texts
