"""A folder for the lab of a proof or a study, in memory if it fits, removed at its end.

A flush of a lab's volume waits for the disk below it. A busy disk can make it wait a second, and
the server stalls, which no prediction for an EBS volume contains. The data are thrown away at the
end, so they need not survive a crash of this machine.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headrace import lab as labs
from headrace.base.machine import read_memory_bytes
from headrace.base.mounts import read_mount_table
from headrace.base.signals import ignore_interrupts
from headrace.base.units import GIB
from headrace.errors import HeadraceError, Refusals
from headrace.servers.server import destroy, list_servers

MEMORY = Path("/dev/shm")
PREFIX = "headrace-lab-"
refuse = Refusals("docs/guide/mysql-on-the-lab.md")
# A guess. Loading writes more than the data that stay: undo, sort files of an index, the redo log.
DATA_SHARE, MORE_GIB = 3.0, 1.0
# Share of the available memory, a guess: the servers and the page cache need the rest.
MEMORY_SHARE = 0.6


@contextmanager
def make_lab_folder(otherwise: Path, data_gib: float) -> Iterator[Path]:
    """Yields a folder for a lab with `data_gib` of data: in memory if it fits, else `otherwise`. At
    the end the lab in it is ended, and the folder is removed."""
    _sweep()
    with ExitStack() as stack:
        folder = otherwise
        if fits(data_gib):
            folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY))
            # A container that shares this memory has numbers of its own for processes: the lock
            # holds there too.
            fcntl.flock(stack.enter_context(_open_folder(folder)), fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            with ignore_interrupts():
                _end(folder)


def fits(data_gib: float) -> bool:
    """Returns whether the memory of this machine has room for a lab with `data_gib` of data."""
    needed_gib = DATA_SHARE * data_gib + MORE_GIB
    try:
        shared = os.path.ismount(MEMORY) and shutil.disk_usage(MEMORY).free / GIB >= needed_gib
    except OSError:
        return False
    return shared and MEMORY_SHARE * read_memory_bytes("MemAvailable") / GIB >= needed_gib


def _sweep() -> None:
    """Ends the labs in memory whose process was killed, and removes their folders."""
    for folder in MEMORY.glob(f"{PREFIX}*"):
        if _is_abandoned(folder):
            _end(folder)


def _is_abandoned(folder: Path) -> bool:
    """Returns whether a folder is this user's, and the process that created it has ended. Everybody
    may write to memory: a link there may lead to a lab in use, and does not count."""
    owner = folder.name.removeprefix(PREFIX).partition("-")[0]
    if not owner.isdigit() or Path(f"/proc/{owner}").exists():
        return False
    try:
        with _open_folder(folder) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return os.fstat(handle).st_uid == os.getuid()
    except OSError:
        return False


@contextmanager
def _open_folder(folder: Path) -> Iterator[int]:
    """Yields a descriptor of a folder. Raises OSError, for a link too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield handle
    finally:
        os.close(handle)


def _end(folder: Path) -> None:
    """Ends the lab in a folder, removes its servers, and deletes the folder. Raises CouldNotRun."""
    try:
        with labs.Lab(folder) as lab:
            for server in list_servers(lab):
                with suppress(HeadraceError):
                    destroy(server)
            labs.stop_lab(lab, force=True)
    except labs.NoLab:
        pass
    except HeadraceError as error:
        rule = f"the lab could not be ended: {error.rule}"
        raise refuse.run(str(folder), rule, f"End it with: headrace lab down --force --lab {folder}") from None
    # A folder in which something is still mounted is not removed.
    if not any(entry.place.startswith(f"{folder}/") for entry in read_mount_table()):
        shutil.rmtree(folder, ignore_errors=True)
