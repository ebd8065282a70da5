"""Snapshots of all volumes of a server at one instant. The lock fixes the position: every commit up
to it is on the volumes, and nothing after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from headrace.base.files import get_reason, write_back
from headrace.errors import CouldNotRun
from headrace.servers.copies.copy import CopyMethod, CopyResult, Destination, get_server
from headrace.servers.copies.locks import ServerLock, ServerPosition
from headrace.servers.copies.source import ANSWER_S, CopySource, estimate_data_bytes, refuse
from headrace.servers.server import Server

# Longest wait of the lock for the server's statements, s: a long SELECT would let everything behind
# it wait (a guess, as in the runbooks of FLUSH TABLES WITH READ LOCK).
LOCK_WAIT_S = 10.0
# The server drops the lock when it has heard nothing of us for this long, s. Most dirty pages were
# written before, so that the call comes within seconds: a guess.
HOLD_S = 60.0

Answer = TypeVar("Answer")


def ignore(step: str) -> None:
    """Discards the name of a step."""


def capture(
    lock: ServerLock | None,
    sync: Callable[[], None],
    create: Callable[[ServerPosition], Answer],
    on_step: Callable[[str], None] = ignore,
) -> tuple[ServerPosition, Answer]:
    """Locks the server, writes everything back, and calls `create`; returns the position of the
    lock, and what `create` answers. The lock stays: `ServerLock.release` tells whether it held.
    Without a `lock` the position is empty. `sync` writes dirty pages to the volumes."""
    sync()  # most of it, while nobody waits
    position = ServerPosition()
    if lock is not None:
        position = lock.take()
        on_step("locked")
    sync()
    on_step("synced")
    return position, create(position)


def list_volumes(server: Server) -> dict[str, str]:
    """Returns the ids of a server's volumes by their role, data first."""
    volumes = {"data": server.volumes.data, "log": server.volumes.log}
    return {role: volume for role, volume in volumes.items() if volume}


class SnapshotCopy(CopyMethod):
    """Snapshots of the volumes of a server of the lab. The filesystems are not frozen: xfs opens
    after a power cut, and what was committed is written back under the lock."""

    form = "snapshot"

    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Takes snapshots of all volumes of the server at one instant, with its commits held back
        meanwhile (`commits_held_ms` in the facts). Raises InputError, CouldNotRun."""
        server = get_server(source)
        roles, places = list_volumes(server), [server.paths.data_mount]
        places += [server.paths.log_mount] if server.volumes.log else []
        with source.connect() as connection:
            size = estimate_data_bytes(connection)
        with ServerLock(source.address, LOCK_WAIT_S, HOLD_S, answer_s=ANSWER_S, exact=True, options=False) as lock:
            position, snapshots = capture(
                lock,
                lambda: write_back_all(places),
                lambda position: server.lab.create_snapshots(list(roles.values()), into.label, dict(into.tags)),
            )
            lock.release()
        ids = {str(snapshot["volume"]): str(snapshot["id"]) for snapshot in snapshots}
        if set(ids) != set(roles.values()):
            rule = f"answered with snapshots of {sorted(ids)}, and {sorted(roles.values())} were asked for"
            raise refuse.run("the lab", rule, "See headrace snapshot list.")
        facts: dict[str, object] = {"commits_held_ms": round(lock.held_ms, 1), "roles": roles}
        if server.volumes.log:
            facts["log_storage"] = server.log_storage
        return CopyResult(position.make_binlog_position(source.flavor), size, ids, facts)


def write_back_all(places: Iterable[Path]) -> None:
    """Writes the dirty pages of mounted filesystems to their volumes. Raises CouldNotRun."""
    for place in places:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_back(handle)
        except OSError as error:
            raise CouldNotRun(str(place), f"could not be written back: {get_reason(error)}", "syncfs(2)") from None
        finally:
            os.close(handle)
