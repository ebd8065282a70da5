"""MariaDB's own tool: files and redo log are copied while they are written to."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.base.machine import add_death_signal
from headrace.base.processes import Command, describe_failure, run_checked, run_to_end
from headrace.errors import CouldNotRun
from headrace.mysql.option_files import quote_value
from headrace.servers.copies.copy import COPY_S, CopyResult, Destination, PhysicalCopy, get_server
from headrace.servers.copies.folders import hold_folder
from headrace.servers.copies.pipeline import Flow, Stage
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource, count_physical_bytes, make_client_file, refuse
from headrace.servers.flavors import ServerProgram
from headrace.servers.server import Server

# Position that mariabackup writes at its end, on its standard error.
POSITION = re.compile(
    r"MySQL binlog position: filename '([^']*)', position '(\d+)'(?:, GTID of the last change '([^']*)')?"
)
# While it holds back commits a pace would hold them back longer.
LOCKED = re.compile(r"BACKUP STAGE BLOCK_(?:DDL|COMMIT)|Waiting for log copy thread|FLUSH TABLES WITH READ LOCK")
# Files that it adds to the data, and that a server does not read.
NOTES = ("xtrabackup_*", "mariadb_backup_*", "*backup-my.cnf")
# The kernel's own read-ahead (include/linux/pagemap.h: VM_READAHEAD_PAGES), KiB: never less.
LEAST_STEP_KIB = 128
# Files that it copies at once into a stream, where one thread writes what it has read while the
# other reads; and into a folder, so that a volume always has requests (a guess).
STREAM_THREADS, FOLDER_THREADS = 2, 4


class MariabackupCopy(PhysicalCopy):
    """A physical copy of a MariaDB server of the lab."""

    form = "mbstream"

    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Runs mariabackup into the destination's stream, or into its folder without one. Raises
        CouldNotRun, also for a copy without position of a server with a binary log."""
        server, gentle = get_server(source), into.pace.gentle
        size, positions = count_physical_bytes(server), []
        tool = source.find_tool("mariabackup", "mariadb-backup")

        def watch_log(line: str) -> None:
            if LOCKED.search(line):
                into.pace.free()
            if match := POSITION.search(line):
                positions.append(BinlogPosition(match[3] or "", match[1], int(match[2])))

        # mariabackup reads one option file, so it has both: places of the server, and the account.
        more = f"[mariabackup]\nsocket={quote_value(str(server.paths.socket))}\n"
        # It reads 10 MiB at once (10.11.19, seen by strace): 80 ms of a gp3 of 125 MiB/s, in which
        # the load waits. Through the page cache it reads in steps of the kernel's read-ahead.
        more += "innodb_flush_method=fsync\n" if gentle else ""
        with (
            make_client_file(source.address, f"!include {server.paths.config}\n", more) as options,
            limit_read_ahead(server) if gentle else contextlib.nullcontext(),
        ):
            arguments = (*tool, f"--defaults-file={options}", "--backup", f"--target-dir={into.folder}")
            if into.stream is None:
                arguments = add_death_signal(*arguments, f"--parallel={FOLDER_THREADS}")
                command = Command(arguments, what="mariabackup, the backup")
                done = run_to_end(command, COPY_S, "Is there room?")
                if done.code != 0:
                    raise CouldNotRun(command.label, describe_failure(done), command.arguments[0], "Is there room?")
                for line in done.errors.splitlines():
                    watch_log(line)
            else:
                arguments += ("--stream=mbstream", *(() if gentle else (f"--parallel={STREAM_THREADS}",)))
                with hold_folder(into.folder):
                    into.folder.mkdir(mode=0o700)
                    into.stream.write(Flow([Stage(arguments, "mariabackup")], watch_log), size)
        if source.log_bin and not positions:
            rule = "told no binary log position, so nothing could be replayed on top of the copy"
            raise refuse.run("mariabackup", rule, "Does the account have BINLOG MONITOR?")
        return CopyResult(positions[-1] if positions else BinlogPosition(), size)

    def unpack(self, folder: Path) -> Stage:
        return Stage(("mbstream", "-x", "-C", str(folder)), "mbstream")

    def prepare(self, data: Path, log: Path, program: ServerProgram) -> None:
        """Applies the redo log to the files of the copy, and moves it to `log`. Raises
        CouldNotRun."""
        tool = program.find_tool("mariabackup", "mariadb-backup")
        arguments = add_death_signal(*tool, "--prepare", f"--target-dir={data}")
        run_checked(Command(arguments, what="mariabackup --prepare"), COPY_S, "Is there room?")
        for note in [note for pattern in NOTES for note in data.glob(pattern)]:
            note.unlink()
        for redo in [*data.glob("ib_logfile*")]:
            shutil.move(redo, log / redo.name)  # perhaps to another volume


@contextlib.contextmanager
def limit_read_ahead(server: Server) -> Iterator[None]:
    """Limits the kernel's read-ahead on a server's data volume during the block, so that other
    reads wait shortly behind it: two steps, doubled for a file read in order, take 1/128 s of the
    volume's throughput. Errors are ignored."""
    assert server.volumes.data is not None
    volume = server.lab.describe(server.volumes.data)
    device = Path(str((volume["attachment"] or {}).get("device", ""))).resolve().name
    knob, step_kib = Path(f"/sys/block/{device}/queue/read_ahead_kb"), int(volume["throughput_mib_s"] * 1024 / 512)
    before = ""
    with contextlib.suppress(OSError):
        before = knob.read_text()
        knob.write_text(str(max(LEAST_STEP_KIB, step_kib)))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            knob.write_text(before)
