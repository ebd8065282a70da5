"""sysbench fileio: reads and writes of many files, with fsync as a database makes it or without."""

from __future__ import annotations

import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from headrace.base.checks import check_choice
from headrace.base.processes import Command, Ended
from headrace.base.units import GIB, MIB
from headrace.bench.drivers import sysbench
from headrace.bench.drivers.benchmark import (
    Benchmark,
    IntervalReport,
    RunLoad,
    Say,
    ToolOutcome,
    check_choices,
    check_numbers,
    stay_silent,
)
from headrace.bench.drivers.files import check_folder, is_file_whole, require_room
from headrace.bench.target import DOC, Target, refuse
from headrace.errors import InputError, Refusals

MODES = ("seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw")
IO_MODES, FLAGS, SYNCS = ("sync", "async", "mmap"), ("sync", "dsync", "direct"), ("fsync", "fdatasync")
FOLDER = "headrace-fileio"
PREPARE_MORE_S = 600.0  # a guess: what starting and syncing take at most
N = sysbench.NUMBER
REPORT = re.compile(rf"\[ (\d+)s \] reads: {N} MiB/s writes: {N} MiB/s fsyncs: {N}/s latency \(ms,95%\): {N}\Z")
TOTALS = {
    "tool_reads_per_s": r" +reads/s: +([0-9.]+)",
    "tool_writes_per_s": r" +writes/s: +([0-9.]+)",
    "tool_fsyncs_per_s": r" +fsyncs/s: +([0-9.]+)",
}


@dataclass(frozen=True)
class SysbenchFileio(Benchmark):
    """`mode`: of sysbench. `files` of together `size_gib`.

    `block_kib`: KiB a request. `io_mode`: sync, async (128 in flight a client) or mmap. `flags`: of
    open: direct, dsync, sync. `fsync_every`: after this many requests, 0: never; `fsync_all`: after
    each write; `fsync_mode`: fsync or fdatasync. `rw_ratio`: reads per write of rndrw. Raises
    InputError.
    """

    name: ClassVar[str] = "sysbench-fileio"
    program: ClassVar[str] = "sysbench"
    needs: ClassVar[str] = "folder"
    unit: ClassVar[str] = "requests"

    mode: str = "rndrw"
    size_gib: float = 1.0
    files: int = 16
    block_kib: int = 16
    io_mode: str = "sync"
    flags: tuple[str, ...] = ("direct",)
    fsync_every: int = 0
    fsync_all: bool = False
    fsync_mode: str = "fsync"
    rw_ratio: float = 1.5

    def __post_init__(self) -> None:
        """Raises InputError for an option out of its bounds, or for files smaller than one
        request."""
        refusals = Refusals(f"{DOC}, sysbench-fileio")
        check_choices(
            refusals, mode=(self.mode, MODES), io_mode=(self.io_mode, IO_MODES), fsync_mode=(self.fsync_mode, SYNCS)
        )
        for flag in self.flags:
            check_choice("flag", flag, FLAGS, refusals)
        check_numbers(
            refusals,
            size_gib=(self.size_gib, 2**-8, 65_536),
            files=(self.files, 1, 100_000),
            block_kib=(self.block_kib, 1, 16_384),
            fsync_every=(self.fsync_every, 0, 1_000_000),
            rw_ratio=(self.rw_ratio, 0, 1_000),
        )
        if self._file_bytes < self.block_kib * 1024:
            files, rule = (
                f"{self.files} files of {self.size_gib:g} GiB",
                f"are smaller than a request of {self.block_kib} KiB",
            )
            raise refusals.input(files, rule, "Use fewer files.")

    def list_options(self) -> dict:
        return asdict(self) | {"flags": sorted(self.flags)}

    def check_target(self, target: Target) -> None:
        """Raises InputError for a target that is not a folder, CouldNotRun for one that may not be
        written."""
        check_folder(self.name, target)
        if not target.files.is_dir():
            raise refuse.input(str(target.files), "sysbench fileio works in a folder", "Mount the device, or use fio.")

    def is_prepared(self, target: Target, threads: int) -> bool:
        """Returns whether all files are whole; False without their folder. Raises InputError for
        another number or size of files."""
        folder = target.files / FOLDER
        if not folder.exists():
            return False
        file_count = len(list(folder.glob("test_file.*")))
        if file_count != self.files:
            rule = f"holds {file_count} files, not {self.files}"
            raise InputError(str(folder), rule, f"{DOC}, Preparing", "Write them anew: --fresh.")
        return all(is_file_whole(folder / f"test_file.{number}", self._file_bytes) for number in range(self.files))

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Writes the files into a folder of their own in the target. Raises CouldNotRun where they
        do not fit, or take longer than at 1 MiB/s."""
        place = target.files / FOLDER
        require_room(target.files, self.files * self._file_bytes)
        place.mkdir(exist_ok=True)
        say(f"writing {self.files} files, {self.size_gib:g} GiB")
        # At 1 MiB/s and slower something is wrong.
        limit_s = PREPARE_MORE_S + self.files * self._file_bytes / MIB
        sysbench.run_untimed(
            self.get_tool(),
            ["fileio", f"--rand-seed={seed}", *self._build_arguments(), "prepare"],
            folder,
            "prepare",
            limit_s,
            work=place,
        )

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        arguments = [
            self.get_tool().path,
            "fileio",
            *sysbench.build_timing_arguments(load),
            *self._build_arguments(),
            "run",
        ]
        return Command(tuple(arguments), target.files / FOLDER)

    def parse_line(self, text: str) -> IntervalReport | None:
        """Returns the report in a line, None for other lines: `tps` is requests a second, computed
        from MiB/s, and `qps` includes the fsyncs."""
        match = REPORT.match(text.strip()) if "fsyncs:" in text else None
        if match is None:
            return None
        end, read, written, fsyncs, p95 = (
            float(value) if value.strip("-") not in ("nan", "inf") else 0.0 for value in match.groups()
        )
        requests = (read + written) * 1024 / self.block_kib
        return IntervalReport(
            end,
            requests,
            requests + fsyncs,
            p95 or None,
            None,
            None,
            {"tool_read_mib_s": read, "tool_write_mib_s": written, "tool_fsyncs_per_s": fsyncs},
        )

    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads totals and histogram, and adds reads, writes and fsyncs a second of the whole run.
        Raises InputError."""
        base = sysbench.parse_outcome(raw, load)
        last = raw[raw.rfind("File operations:") :]
        totals = {
            name: float(match[1])
            for name, pattern in TOTALS.items()
            if (match := re.search(rf"^{pattern}", last, re.MULTILINE))
        }
        # "events" are requests and fsyncs.
        return ToolOutcome(base.histogram, (), base.figures | totals, base.notes)

    def explain_failure(self, raw: str, ended: Ended) -> str:
        return sysbench.find_error(raw, ended)

    def remove_data(self, target: Target, folder: Path) -> None:
        """Removes the folder of the files; a symbolic link in its place is left alone."""
        place = target.files / FOLDER
        if place.is_symlink() or not place.is_dir():
            return
        shutil.rmtree(place, ignore_errors=True)

    @property
    def _file_bytes(self) -> int:
        """Returns the size of a file in bytes, in whole MiB if above one, else in whole
        requests."""
        each = int(self.size_gib * GIB / self.files)
        return each // MIB * MIB if each >= MIB else each // (self.block_kib * 1024) * self.block_kib * 1024

    def _build_arguments(self) -> list[str]:
        """Returns the options of sysbench that describe files and requests; sizes are bytes."""
        arguments = {
            "num": self.files,
            "total-size": self.files * self._file_bytes,
            "block-size": self.block_kib * 1024,
            "test-mode": self.mode,
            "io-mode": self.io_mode,
            "fsync-freq": self.fsync_every,
            "fsync-all": "on" if self.fsync_all else "off",
            "fsync-end": "off",
            "fsync-mode": self.fsync_mode,
            "rw-ratio": f"{self.rw_ratio:g}",
        }
        if self.flags:
            arguments["extra-flags"] = ",".join(sorted(self.flags))
        return [f"--file-{name}={value}" for name, value in arguments.items()]
