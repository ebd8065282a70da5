"""fio as a benchmark that is kept: requests a second and their latencies second by second from its logs, its histogram at the end."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from headrace.base.processes import Command, run_lines
from headrace.base.units import MIB
from headrace.bench.comparison import fio
from headrace.bench.drivers.benchmark import Benchmark, Load, Outcome, Report, Say, silent
from headrace.bench.drivers.files import check_folder, check_overwrite, file_whole, free_for
from headrace.bench.drivers.percentiles import Histogram
from headrace.bench.target import DOC, Target
from headrace.errors import CouldNotRun, InputError

MODES = ("read", "write", "randread", "randwrite", "rw", "randrw")
ENGINES = ("libaio", "io_uring", "psync", "sync")
FILE = "headrace-fio.data"
JSON, LOG = "fio.json", "log"
GIB_TEXT = 1 << 30
# fio's stat.h: 64 buckets for every power of two of nanoseconds; a value is named by the middle of its bucket.
BITS = 6
ERROR_PERCENT = 100 / (1 << BITS) / 2
PREPARE_MIB_S, PREPARE_MORE_S = 1.0, 120.0


@dataclass(frozen=True)
class FioJob(Benchmark):
    """`rw`: fio's name of the pattern. `bs_kib`: KiB a request; `iodepth`: in flight of each client (a client is a job). `size_gib`: the file, or the part of the device. `read_percent`: of
    mixed patterns. `fdatasync`: after so many writes, 0: never. `direct`: past the page cache. `overwrite`: allow writes to a block device, whose data they destroy."""

    name: ClassVar[str] = "fio"
    program: ClassVar[str] = "fio"
    needs: ClassVar[str] = "folder"
    unit: ClassVar[str] = "requests"
    reports_in_files: ClassVar[bool] = True
    kept_files: ClassVar[tuple[str, ...]] = (JSON,)

    rw: str = "randread"
    bs_kib: int = 16
    iodepth: int = 1
    size_gib: float = 1.0
    read_percent: int = 50
    ioengine: str = "libaio"
    direct: bool = True
    fdatasync: int = 0
    overwrite: bool = False

    def __post_init__(self) -> None:
        for what, value, known in (("rw", self.rw, MODES), ("ioengine", self.ioengine, ENGINES)):
            if value not in known:
                raise InputError(f"{what} {str(value)[:40]}", f"must be one of {', '.join(known)}", f"{DOC}, fio")
        for what, value, low, high in (
            ("bs_kib", self.bs_kib, 1, 16_384), ("iodepth", self.iodepth, 1, 4_096), ("size_gib", self.size_gib, 2**-6, 65_536),
            ("read_percent", self.read_percent, 0, 100), ("fdatasync", self.fdatasync, 0, 1_000_000),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise InputError(f"{what} = {value}", f"must be {low:g} to {high:,}", f"{DOC}, fio")
        if self.iodepth > 1 and self.ioengine in ("psync", "sync"):
            raise InputError(
                f"iodepth = {self.iodepth}", f"{self.ioengine} has one request in flight a client", "fio(1)", "Use libaio, or more clients."
            )

    @property
    def writes(self) -> bool:
        """Whether anything is written."""
        return self.rw not in ("read", "randread")

    def options(self) -> dict:
        return {key: value for key, value in asdict(self).items() if key != "overwrite"}

    def check_target(self, target: Target) -> None:
        check_folder(self.name, target)
        if self.writes:
            check_overwrite(target, self.overwrite)

    def prepared(self, target: Target, threads: int) -> bool:
        return target.folder.is_block_device() or file_whole(target.folder / FILE, self._bytes)

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = silent) -> None:
        if target.folder.is_block_device():
            return
        free_for(target.folder, self._bytes, target.folder / FILE)
        say(f"writing {self.size_gib:g} GiB")
        words = [
            self.tool().path, "--name=prepare", f"--filename={target.folder / FILE}", "--rw=write", "--bs=1m", f"--size={self._bytes}", "--ioengine=psync", "--direct=1",
            "--end_fsync=1", f"--randseed={seed}",
        ]  # fmt: skip
        limit_s = PREPARE_MORE_S + self._bytes / MIB / PREPARE_MIB_S
        ended = run_lines(Command(tuple(words), folder), folder / "prepare.txt", limit_s)
        if ended.late or ended.code:
            said = "no time left" if ended.late else ended.said
            raise CouldNotRun(f"fio in {target.folder}", f"could not write the file: {said}", fio.SOURCE, "Is the disk full?")

    def command(self, target: Target, load: Load, folder: Path) -> Command:
        path = target.folder if target.folder.is_block_device() else target.folder / FILE
        words = [
            self.tool().path, "--name=headrace", f"--filename={path}", f"--rw={self.rw}", f"--bs={self.bs_kib}k", f"--iodepth={self.iodepth}", f"--numjobs={load.threads}",
            f"--ioengine={self.ioengine}", f"--direct={int(self.direct)}", "--time_based", f"--runtime={load.seconds}", f"--ramp_time={load.warmup_s}", "--group_reporting",
            f"--randseed={load.seed}", "--randrepeat=1", f"--size={self._bytes}", f"--rwmixread={self.read_percent}", f"--fdatasync={self.fdatasync}", "--thread",
            # A log a second for all jobs together, with the wall clock beside it.
            "--output-format=json+", f"--output={folder / JSON}", f"--write_hist_log={folder / LOG}", "--log_hist_msec=1000", f"--write_iops_log={folder / LOG}",
            f"--write_bw_log={folder / LOG}", "--log_avg_msec=1000", "--per_job_logs=0", "--log_unix_epoch=1",
        ]  # fmt: skip
        return Command(tuple(words), folder)

    def outcome(self, raw: str, load: Load, folder: Path) -> Outcome:
        try:
            text = (folder / JSON).read_text(errors="replace")
        except OSError:
            text = ""
        measured = fio.read(text)
        sides = json.loads(text[text.index("{") :])["jobs"][0]
        reports, began = seconds(folder, load, self.bs_kib)
        figures = {"requests": float(measured.ios), "mean_ms": measured.mean_ms, "max_ms": max(sides[op]["clat_ns"]["max"] for op in ("read", "write")) / 1e6,
                   "tool_iops": measured.iops, "tool_mib_s": measured.mib_s}  # fmt: skip
        return Outcome(histogram(sides), tuple(reports), figures, began_unix=began)

    def partial(self, raw: str, load: Load, folder: Path) -> Outcome:
        try:
            return self.outcome(raw, load, folder)  # fio sums up when it is told to end
        except (InputError, ValueError, KeyError):
            return super().partial(raw, load, folder)

    def cleanup(self, target: Target, folder: Path) -> None:
        if not target.folder.is_block_device():
            (target.folder / FILE).unlink(missing_ok=True)

    @property
    def _bytes(self) -> int:
        """The size in whole MiB."""
        return int(self.size_gib * GIB_TEXT) // MIB * MIB


def bucket_ns(index: int) -> float:
    """The middle of bucket `index` (stat.c, plat_idx_to_val)."""
    if index < 2 << BITS:
        return float(index)
    bits = (index >> BITS) - 1
    return (1 << (bits + BITS)) + ((index % (1 << BITS)) + 0.5) * (1 << bits)


def histogram(job: dict) -> Histogram | None:
    """Completion latencies of reads and writes together, from json+."""
    sums: dict[float, int] = {}
    for op in ("read", "write"):
        for value, count in job[op]["clat_ns"].get("bins", {}).items():
            sums[int(value) / 1e6] = sums.get(int(value) / 1e6, 0) + int(count)
    values = sorted(sums)
    return Histogram(tuple(values), tuple(sums[value] for value in values), "fio json+", ERROR_PERCENT) if values else None


def seconds(folder: Path, load: Load, bs_kib: int) -> tuple[list[Report], float | None]:
    """A report a second from the logs, and when fio's time was 0 on the wall clock. The ramp is not in the logs."""
    iops = _log(folder / f"{LOG}_iops.log")
    bandwidth = _log(folder / f"{LOG}_bw.log")
    percentiles = _percentiles(folder / f"{LOG}_clat_hist.log")
    stamps = sorted({stamp for stamp, _ in iops})
    if not stamps:
        return [], None
    first = stamps[0]
    reports = []
    for stamp in stamps:
        ops = [sum(value for (at, op), value in iops.items() if at == stamp and op == wanted) for wanted in (0, 1)]
        # In KiB/s; sums over jobs are made by fio.
        kib = [sum(value for (at, op), value in bandwidth.items() if abs(at - stamp) <= 2 and op == wanted) for wanted in (0, 1)]
        p50, p95, p99 = percentiles.get(min(percentiles, key=lambda at: abs(at - stamp)), (None,) * 3) if percentiles else (None,) * 3
        more = {"tool_read_mib_s": kib[0] / 1024, "tool_write_mib_s": kib[1] / 1024}
        more |= {name: value for name, value in (("p50_ms", p50), ("p99_ms", p99)) if value is not None}
        reports.append(Report(load.warmup_s + round((stamp - first) / 1000) + 1.0, sum(ops), None, p95, None, load.threads, more))
    return reports, first / 1000 - 1.0 - load.warmup_s


def _log(path: Path) -> dict[tuple[int, int], float]:
    """`ms, value, direction, ...` of each line; several lines of one second and direction (jobs that began apart) are added up."""
    found: dict[tuple[int, int], float] = {}
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return found
    # Stamps of one second differ by a few ms between jobs and directions.
    anchor = None
    for line in lines:
        cells = line.split(",")
        if len(cells) < 3 or not cells[0].strip().isdigit():
            continue
        stamp = int(cells[0])
        anchor = stamp if anchor is None else anchor
        key = (anchor + round((stamp - anchor) / 1000) * 1000, int(cells[2]))
        found[key] = found.get(key, 0.0) + float(cells[1])
    return found


def _percentiles(path: Path) -> dict[int, tuple[float | None, float | None, float | None]]:
    """p50, p95 and p99 in ms of each second, of reads and writes together. Bins are counts of that second."""
    sums: dict[int, list[int]] = {}
    anchor = None
    if not path.exists():
        return {}
    with open(path, errors="replace") as lines:
        for line in lines:
            cells = line.split(",")
            if len(cells) < 10 or not cells[0].strip().isdigit():
                continue
            anchor = int(cells[0]) if anchor is None else anchor
            stamp = anchor + round((int(cells[0]) - anchor) / 1000) * 1000
            counts = [int(cell) for cell in cells[3:]]
            before = sums.get(stamp)
            sums[stamp] = counts if before is None else [a + b for a, b in zip(before, counts, strict=True)]
    found = {}
    for stamp, counts in sums.items():
        made = Histogram(tuple(bucket_ns(index) / 1e6 for index in range(len(counts))), tuple(counts), "fio", ERROR_PERCENT)
        found[stamp] = tuple(made.percentile(share) for share in (0.5, 0.95, 0.99))
    return found
