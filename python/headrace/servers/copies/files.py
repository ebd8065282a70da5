"""The files of a server while it is down: a copy for every engine and version."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from headrace.base.processes import Command, run_checked
from headrace.base.signals import ignore_interrupts
from headrace.base.threads import work_through
from headrace.errors import CouldNotRun
from headrace.lab import Lab
from headrace.mysql.dialect import refuse
from headrace.servers import record as records
from headrace.servers import running, volumes
from headrace.servers.copies.copy import COPY_S, CopyMethod, CopyResult, Destination, get_server
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource

STREAMS = 4  # a guess: files that are copied at once, so that a volume always has requests
BLOCK, AHEAD, FLUSH_EVERY = 1 << 20, 8 << 20, 64 << 20  # bytes; an I/O of EBS is at most 256 KiB


class FileCopy(CopyMethod):
    """A copy of the files of a server while it is shut down. The copy's position has no GTIDs: a
    server that is started on it has them."""

    form = "files"

    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Shuts the server down, copies its files into the destination's folders, and starts it
        again, after an error too. Raises CouldNotRun, also if it did not shut down cleanly."""
        server = get_server(source)
        where, lab = server.paths, server.lab
        with records.lock_server(where):
            record = records.require_record(where)
            try:
                running.stop(where, record, kill=False)
                if not records.require_record(where).clean:
                    hint = "Start it, and try again."
                    raise CouldNotRun(source.name, "did not shut down cleanly", str(where.log), hint)
                volumes.bring_back(lab, where, record)
                log = get_log_folder(where, record)
                for folder, copy in ((where.data_mount / "data", into.folder), (log, into.log)):
                    arguments = ("cp", "--archive", "--attributes-only", f"{folder}/.", str(copy))
                    run_checked(
                        Command(arguments, what=f"copying {folder}"), COPY_S, "Is there room? Is a volume paused?"
                    )
                    copy_contents(folder, copy)
            finally:
                with ignore_interrupts():
                    _start_again(lab, where)
        logs = sorted(into.log.glob("binlog.[0-9]*"))
        position = BinlogPosition("", logs[-1].name, logs[-1].stat().st_size) if logs else BinlogPosition()
        return CopyResult(position)


def _start_again(lab: Lab, where: records.ServerPaths) -> None:
    """Starts a server that was shut down; waits first for the end of one that is shutting down, and
    leaves one that was not asked to end. Raises CouldNotRun if it does not end."""
    record = records.require_record(where)
    if running.find_process(where, record) is not None:
        if record.should_run:
            return
        try:
            running.stop(where, record, kill=False)
        except CouldNotRun as error:
            hint = f"{record.name} is still shutting down. When it has ended: headrace mysql up {record.name}"
            raise error.amend(hint=hint) from None
    volumes.unmount_quietly(where)
    records.save(where, running.start(lab, where, records.require_record(where)))


def get_log_folder(where: records.ServerPaths, record: records.Record) -> Path:
    """Returns the folder of a server's redo and binary logs."""
    return (where.log_mount if record.log_storage is not None else where.data_mount) / "log"


def copy_contents(folder: Path, copy: Path) -> None:
    """Copies the bytes of all files below a folder into existing, empty files below `copy`. A
    single stream would wait for each of its reads: several, with read-ahead, use a volume's
    throughput."""

    def copy_file(path: Path, ended: threading.Event) -> None:
        place = copy / path.relative_to(folder)
        with open(path, "rb", buffering=0) as source, open(place, "r+b", buffering=0) as target:
            at = flushed = 0
            while not ended.is_set() and (block := source.read(BLOCK)):
                at += len(block)
                os.posix_fadvise(source.fileno(), at, AHEAD, os.POSIX_FADV_WILLNEED)
                while block:
                    block = block[target.write(block) :]
                if at - flushed >= FLUSH_EVERY:
                    os.fdatasync(target.fileno())
                    flushed = at
            os.fdatasync(target.fileno())

    # The largest first: they take longest.
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: path.stat().st_size, reverse=True)
    try:
        work_through(files, copy_file, STREAMS)
    except OSError as error:
        rule = f"cannot be copied: {error.strerror}"
        raise refuse.run(str(error.filename or folder), rule, "Is there room? Is a volume paused?") from None
