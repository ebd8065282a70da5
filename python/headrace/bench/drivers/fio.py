"""fio as a benchmark whose runs are stored (`FioJob`), and run once for its figures (`run_once`).

A stored run has requests a second and latencies of each second from fio's logs, and a histogram of
the whole run.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from headrace.base.machine import require_program
from headrace.base.processes import Command, run_checked, run_lines
from headrace.base.units import GIB, MIB
from headrace.bench.drivers.benchmark import (
    Benchmark,
    Histogram,
    IntervalReport,
    RunLoad,
    Say,
    ToolOutcome,
    check_choices,
    check_numbers,
    stay_silent,
)
from headrace.bench.drivers.files import check_folder, check_overwrite, is_file_whole, require_room
from headrace.bench.target import DOC, Target
from headrace.errors import CouldNotRun, InputError, Refusals

refuse = Refusals("fio(1)")
refuse_option = Refusals(f"{DOC}, fio")
MODES = ("read", "write", "randread", "randwrite", "rw", "randrw")
ENGINES = ("libaio", "io_uring", "psync", "sync")
FILE = "headrace-fio.data"
JSON, LOG = "fio.json", "log"
READ, WRITE = 0, 1  # directions in fio's logs
# fio's stat.h: 64 buckets for every power of two of nanoseconds; the value is the middle of a
# bucket.
BITS = 6
ERROR_PERCENT = 100 / (1 << BITS) / 2  # half a bucket
# Guesses: slower than 1 MiB/s something is wrong; laying out, starting and ending a run take less.
PREPARE_MIB_S, PREPARE_MORE_S = 1.0, 120.0
ONCE_MORE_S = 60.0  # a guess
PERCENTILES = (50.0, 99.0, 99.9)  # those that figures are published of


def _build_arguments(program: str, path: object, rw: str, bs_kib: float, iodepth: int, jobs: int) -> list[str]:
    """Returns the first arguments of every timed run of fio."""
    return [
        program,
        "--name=headrace",
        f"--filename={path}",
        f"--rw={rw}",
        f"--bs={bs_kib}k",
        f"--iodepth={iodepth}",
        f"--numjobs={jobs}",
        "--time_based",
        "--group_reporting",
        "--randrepeat=1",
    ]


@dataclass(frozen=True)
class FioJob(Benchmark):
    """`rw`: fio's name of the pattern.

    `bs_kib`: KiB a request. `iodepth`: requests in flight of each client (a client is a job).
    `size_gib`: the file, or the part of the device. `read_percent`: of mixed patterns. `fdatasync`:
    after this many writes, 0: never. `direct`: without the page cache. `overwrite`: allow writes to
    a block device, whose data they destroy. Raises InputError.
    """

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
        """Raises InputError for an option out of its bounds, or for several requests in flight with
        an engine that has one."""
        check_choices(refuse_option, rw=(self.rw, MODES), ioengine=(self.ioengine, ENGINES))
        check_numbers(
            refuse_option,
            bs_kib=(self.bs_kib, 1, 16_384),
            iodepth=(self.iodepth, 1, 4_096),
            size_gib=(self.size_gib, 2**-6, 65_536),
            read_percent=(self.read_percent, 0, 100),
            fdatasync=(self.fdatasync, 0, 1_000_000),
        )
        if self.iodepth > 1 and self.ioengine in ("psync", "sync"):
            rule = f"{self.ioengine} has one request in flight a client"
            raise refuse.input(f"iodepth = {self.iodepth}", rule, "Use libaio, or more clients.")

    @property
    def writes(self) -> bool:
        """Returns whether the load writes."""
        return self.rw not in ("read", "randread")

    def list_options(self) -> dict:
        return {key: value for key, value in asdict(self).items() if key != "overwrite"}

    def check_target(self, target: Target) -> None:
        """Raises InputError or CouldNotRun for a target that cannot be used, or a device whose data
        a writing load would destroy unasked."""
        check_folder(self.name, target)
        if self.writes:
            check_overwrite(target, self.overwrite)

    def is_prepared(self, target: Target, threads: int) -> bool:
        return target.files.is_block_device() or is_file_whole(target.files / FILE, self._bytes)

    def prepare(self, target: Target, folder: Path, threads: int, seed: int = 1, say: Say = stay_silent) -> None:
        """Writes the file of `size_gib` without holes; a block device needs nothing. Raises
        CouldNotRun, for a full disk too."""
        if target.files.is_block_device():
            return
        require_room(target.files, self._bytes, target.files / FILE)
        say(f"writing {self.size_gib:g} GiB")
        arguments = [
            self.get_tool().path,
            "--name=prepare",
            f"--filename={target.files / FILE}",
            "--rw=write",
            "--bs=1m",
        ]
        arguments += [f"--size={self._bytes}", "--ioengine=psync", "--direct=1", "--end_fsync=1", f"--randseed={seed}"]
        limit_s = PREPARE_MORE_S + self._bytes / MIB / PREPARE_MIB_S
        ended = run_lines(Command(tuple(arguments), folder), folder / "prepare.txt", limit_s)
        if ended.late or ended.code:
            reason = "no time left" if ended.late else ended.message
            raise refuse.run(f"fio in {target.files}", f"could not write the file: {reason}", "Is the disk full?")

    def build_command(self, target: Target, load: RunLoad, folder: Path) -> Command:
        """Returns fio's command: warm-up as ramp time, and logs of latencies, IOPS and bytes a
        second in `folder`."""
        path = target.files if target.files.is_block_device() else target.files / FILE
        arguments = _build_arguments(self.get_tool().path, path, self.rw, self.bs_kib, self.iodepth, load.threads)
        arguments += [
            f"--ioengine={self.ioengine}",
            f"--direct={int(self.direct)}",
            "--thread",
            f"--randseed={load.seed}",
        ]
        arguments += [f"--runtime={load.seconds}", f"--ramp_time={load.warmup_s}", f"--size={self._bytes}"]
        arguments += [f"--rwmixread={self.read_percent}", f"--fdatasync={self.fdatasync}"]
        # A log a second for all jobs together, with the wall clock in it.
        arguments += ["--output-format=json+", f"--output={folder / JSON}", "--per_job_logs=0", "--log_unix_epoch=1"]
        arguments += [f"--write_{what}_log={folder / LOG}" for what in ("hist", "iops", "bw")]
        arguments += ["--log_hist_msec=1000", "--log_avg_msec=1000"]
        return Command(tuple(arguments), folder)

    def read_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads fio's JSON and its logs in `folder`: a histogram, seconds, totals (ms, IOPS,
        MiB/s), and the wall clock of its start. Raises InputError, CouldNotRun."""
        try:
            text = (folder / JSON).read_text(errors="replace")
        except OSError:
            text = ""
        measured = read_result(text)
        sides = json.loads(text[text.index("{") :])["jobs"][0]
        reports, began = read_seconds(folder, load)
        figures = {
            "requests": float(measured.ios),
            "mean_ms": measured.mean_ms,
            "max_ms": max(sides[op]["clat_ns"]["max"] for op in ("read", "write")) / 1e6,
            "tool_iops": measured.iops,
            "tool_mib_s": measured.mib_s,
        }
        return ToolOutcome(read_histogram(sides), tuple(reports), figures, began_unix=began)

    def read_partial_outcome(self, raw: str, load: RunLoad, folder: Path) -> ToolOutcome:
        """Reads the summary that fio writes when it is ended early; returns a note alone without
        one."""
        try:
            return self.read_outcome(raw, load, folder)
        except (InputError, CouldNotRun, ValueError, KeyError):
            return super().read_partial_outcome(raw, load, folder)

    def remove_data(self, target: Target, folder: Path) -> None:
        if not target.files.is_block_device():
            (target.files / FILE).unlink(missing_ok=True)

    @property
    def _bytes(self) -> int:
        """Returns the size of the data in bytes, rounded down to whole MiB."""
        return int(self.size_gib * GIB) // MIB * MIB


def compute_bucket_ns(index: int) -> float:
    """Returns the middle of a bucket of fio's histogram, ns (stat.c, plat_idx_to_val)."""
    if index < 2 << BITS:
        return float(index)
    bits = (index >> BITS) - 1
    return (1 << (bits + BITS)) + ((index % (1 << BITS)) + 0.5) * (1 << bits)


def read_histogram(job: dict) -> Histogram | None:
    """Returns the histogram of completion latencies of reads and writes together in a job of a
    json+ report; None without buckets."""
    sums: dict[float, int] = {}
    for op in ("read", "write"):
        for value, count in job[op]["clat_ns"].get("bins", {}).items():
            sums[int(value) / 1e6] = sums.get(int(value) / 1e6, 0) + int(count)
    values = sorted(sums)
    return (
        Histogram(tuple(values), tuple(sums[value] for value in values), "fio json+", ERROR_PERCENT) if values else None
    )


def read_seconds(folder: Path, load: RunLoad) -> tuple[list[IntervalReport], float | None]:
    """Returns a report for each second after the warm-up from fio's logs in `folder`, and the Unix
    time, s, at which fio began (None without a log)."""
    iops = _read_log(folder / f"{LOG}_iops.log")
    bandwidth = _read_log(folder / f"{LOG}_bw.log")
    percentiles = _read_percentiles(folder / f"{LOG}_clat_hist.log")
    stamps = sorted({stamp for stamp, _ in iops})
    if not stamps:
        return [], None
    first = stamps[0]
    reports = []
    for stamp in stamps:
        ops = [
            sum(value for (at, op), value in iops.items() if at == stamp and op == direction)
            for direction in (READ, WRITE)
        ]
        # In KiB/s; sums over jobs are made by fio.
        kib = [
            sum(value for (at, op), value in bandwidth.items() if abs(at - stamp) <= 2 and op == direction)
            for direction in (READ, WRITE)
        ]
        p50, p95, p99 = (
            percentiles.get(min(percentiles, key=lambda at: abs(at - stamp)), (None,) * 3)
            if percentiles
            else (None,) * 3
        )
        more = {"tool_read_mib_s": kib[0] / 1024, "tool_write_mib_s": kib[1] / 1024}
        more |= {name: value for name, value in (("p50_ms", p50), ("p99_ms", p99)) if value is not None}
        reports.append(
            IntervalReport(
                load.warmup_s + round((stamp - first) / 1000) + 1.0, sum(ops), None, p95, None, load.threads, more
            )
        )
    return reports, first / 1000 - 1.0 - load.warmup_s


def _read_log(path: Path) -> dict[tuple[int, int], float]:
    """Returns the values of a log of fio by Unix time (ms, whole seconds) and direction; lines of
    the same second and direction are added up. Empty without the file."""
    totals: dict[tuple[int, int], float] = {}
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return totals
    # Stamps of one second differ by a few ms between jobs and directions.
    anchor = None
    for line in lines:
        cells = line.split(",")
        if len(cells) < 3 or not cells[0].strip().isdigit():
            continue
        stamp = int(cells[0])
        anchor = stamp if anchor is None else anchor
        key = (anchor + round((stamp - anchor) / 1000) * 1000, int(cells[2]))
        totals[key] = totals.get(key, 0.0) + float(cells[1])
    return totals


def _read_percentiles(path: Path) -> dict[int, tuple[float | None, float | None, float | None]]:
    """Returns p50, p95 and p99, ms, of reads and writes together by Unix time (ms, whole seconds),
    from a log of histograms; empty without the file."""
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
    percentiles = {}
    for stamp, counts in sums.items():
        histogram_ms = Histogram(
            tuple(compute_bucket_ns(index) / 1e6 for index in range(len(counts))), tuple(counts), "fio", ERROR_PERCENT
        )
        percentiles[stamp] = tuple(histogram_ms.percentile(share) for share in (0.5, 0.95, 0.99))
    return percentiles


@dataclass(frozen=True)
class FioLoad:
    """The load of `run_once`. `rw`: fio's name (randread ...). `bs_kib`: KiB a request. `iodepth`:
    requests in flight per job. `seconds`: the measured time, after `ramp_s` that do not count.
    `seed`: of the offsets. `size_gib`: the used part of the device, None: all of it."""

    rw: str
    bs_kib: int
    iodepth: int
    seconds: float
    numjobs: int = 1
    size_gib: float | None = None
    seed: int = 1
    ramp_s: float = 0.0


@dataclass(frozen=True)
class FioResult:
    """Reads and writes together. `sd_ms`: standard deviation of completion latencies; percentiles
    are those of fio's histogram, within 1 %. `seconds`: how long it ran."""

    ios: int
    iops: float
    mib_s: float
    mean_ms: float
    sd_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    seconds: float


def run_once(load: FioLoad, target: str | Path) -> FioResult:
    """Runs `load` with direct I/O on `target`, a block device or a file, whose data a writing load
    overwrites, and returns its figures. Raises CouldNotRun."""
    arguments = _build_arguments(
        require_program("fio", "fio"), target, load.rw, load.bs_kib, load.iodepth, load.numjobs
    )
    arguments += ["--ioengine=libaio", "--direct=1", f"--runtime={load.seconds:g}", f"--randseed={load.seed}"]
    arguments += ["--percentile_list=" + ":".join(f"{p:g}" for p in PERCENTILES), "--output-format=json+"]
    if load.ramp_s:
        arguments.append(f"--ramp_time={load.ramp_s:g}")
    if load.size_gib is not None:
        arguments.append(f"--size={int(load.size_gib * 1024)}m")
    # In the caller's folder: `target` may be relative.
    command = Command(tuple(arguments), Path.cwd(), what=f"fio on {target}")
    limit_s = load.ramp_s + load.seconds + ONCE_MORE_S
    return read_result(run_checked(command, limit_s, "Look at the device: is it paused or failing?"))


def read_result(text: str) -> FioResult:
    """Returns the figures of a JSON report with one group. Raises InputError for anything else, and
    CouldNotRun where no request was finished."""
    try:
        # Warnings come before the JSON.
        job = json.loads(text[text.index("{") :])["jobs"][0]
        sides = [job[op] for op in ("read", "write") if job[op]["total_ios"] > 0]
        if not sides:
            raise refuse.run("fio", "finished no request", "Look at the device: is it paused or failing?")
        total = sum(side["total_ios"] for side in sides)
        mean_ns = sum(side["total_ios"] * side["clat_ns"]["mean"] for side in sides) / total
        squares = sum(
            side["total_ios"] * (side["clat_ns"]["stddev"] ** 2 + (side["clat_ns"]["mean"] - mean_ns) ** 2)
            for side in sides
        )
        p50_ms, p99_ms, p999_ms = _compute_percentiles(job, sides)
        return FioResult(
            ios=total,
            iops=sum(side["iops"] for side in sides),
            mib_s=sum(side["bw_bytes"] for side in sides) / MIB,
            mean_ms=mean_ns / 1e6,
            sd_ms=math.sqrt(squares / total) / 1e6,
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            p999_ms=p999_ms,
            seconds=max(side["runtime"] for side in sides) / 1e3,
        )
    except (KeyError, IndexError, ValueError, TypeError) as error:
        hint = "Give one job group with --output-format=json+."
        raise refuse.input("fio's report", f"cannot be read: {error!r}", hint) from error


def _compute_percentiles(job: dict, sides: list[dict]) -> list[float]:
    """Returns PERCENTILES of all requests, ms: fio's own for reads or writes alone, those of the
    joint histogram for both. Raises KeyError, and ValueError without buckets."""
    if len(sides) == 1:
        percentile = {float(name): value / 1e6 for name, value in sides[0]["clat_ns"]["percentile"].items()}
        return [percentile[percent] for percent in PERCENTILES]
    histogram = read_histogram(job)
    if histogram is None:
        raise ValueError("it has percentiles of reads and of writes, and no buckets of both")
    values_ms = (histogram.percentile(round(percent / 100, 6)) for percent in PERCENTILES)
    return [value_ms for value_ms in values_ms if value_ms is not None]
