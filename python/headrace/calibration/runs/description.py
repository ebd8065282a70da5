"""RUN.toml: its keys and their rules. `check_description` applies every rule that needs no measured
file.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from headrace.base import core
from headrace.base.checks import check_name, quote_value
from headrace.base.core import translate_core_errors
from headrace.base.documents import (
    DocumentKind,
    DocumentTable,
    annotate_range,
    annotate_rule,
    convert,
    refuse_unknown_keys,
    require_keys,
)
from headrace.base.instances import check_fits_memory, check_fits_vcpus
from headrace.base.units import GIB
from headrace.calibration.runs.model import CLIENT_HOSTS, LOCAL_DISKS, BenchmarkLoad, RunFacts, RunMachine
from headrace.errors import InputError
from headrace.observe.clock import FIRST_YEAR, LAST_YEAR, Stamp, from_datetime, parse_iso
from headrace.observe.run_files.status import COMMITS, READS, WRITES
from headrace.observe.run_storage import Caps, check_storage
from headrace.observe.series import DOC, refuse
from headrace.observe.settings import DISTRIBUTIONS, SCRIPTS, check_settings, check_version
from headrace.workload.points import MAX_RECORDED_POINT_S, MAX_SIZE_GIB, MAX_SPAN_S, MIN_POINT_S
from headrace.workload.unexplained import find_core_speed

FORMAT = "headrace-run"
HEAD = ("format", "version")  # checked by parse_toml
VERSION = 1  # of the format; no other has been written yet
MAX_TOML_BYTES = 1024 * 1024  # a description has a few KB; ours
GIB_PER_GB = 1e9 / GIB  # decimal gigabytes
EXACTLY_ONE = "exactly one of {0}_gib (2^30 bytes) and {0}_gb (10^9 bytes) is needed"

KIND = DocumentKind(
    "a run description",
    FORMAT,
    VERSION,
    DOC,
    begin=f'A run description begins with format = "{FORMAT}"; a workload file is what is calibrated from runs.',
    other="Write a description that names the measured file under [files].",
)
INTERVAL_KEYS = {
    "sysbench": "interval_s",
    "iostat": "iostat_interval_s",
    "vmstat": "vmstat_interval_s",
    "status": "status_interval_s",
}
FILE_KEYS = ("sysbench", "iostat", "vmstat", "disk", "status")

_Text = Annotated[str, annotate_rule("must be text", least=1, most=400, pattern=r"\S")]
_Path = Annotated[
    str,
    annotate_rule(
        "must be the path of a file, relative to the description", most=4_000, pattern=r"\A[^\0]*[^\0\s][^\0]*\Z"
    ),
]
_Gib = Annotated[float, annotate_range(0.001, MAX_SIZE_GIB, "GiB")]
_Gb = Annotated[float, annotate_range(0.001, MAX_SIZE_GIB, "GB")]
_Interval = Annotated[float, annotate_range(MIN_POINT_S, MAX_RECORDED_POINT_S, "s")]
_ColumnName = Annotated[str, annotate_rule("must be a name in the header of the CSV", pattern=r"\S")]
_Counter = Literal[(*COMMITS, *WRITES, *READS)]


class _Columns(DocumentTable):
    """Names of the columns of the benchmark's CSV."""

    t_s: _ColumnName | None = None
    time: _ColumnName | None = None
    threads: _ColumnName | None = None
    tps: _ColumnName | None = None
    qps: _ColumnName | None = None
    lat_p95_ms: _ColumnName | None = None
    busy_share: _ColumnName | None = None
    pages_flushed_ps: _ColumnName | None = None


class FilesTable(DocumentTable):
    """[files] as it is written."""

    sysbench: _Path | None = None
    iostat: _Path | None = None
    vmstat: _Path | None = None
    disk: _Path | None = None
    status: _Path | None = None
    device: _Text | None = None
    log_device: _Text | None = None
    columns: _Columns = msgspec.field(default_factory=_Columns)
    status_relative: bool | None = None
    transactions: (
        Annotated[list[str], annotate_rule('must be a list of counters, such as ["com_commit"]', least=1)] | None
    ) = None
    clock_start: object = None
    interval_s: _Interval | None = None
    iostat_interval_s: _Interval | None = None
    vmstat_interval_s: _Interval | None = None
    status_interval_s: _Interval | None = None


class _Benchmark(DocumentTable):
    """[benchmark] as it is written, but for the parameters of a distribution."""

    name: Literal["sysbench-tpcc", "sysbench-oltp", "hammerdb-tprocc", "own"]
    tables: Annotated[int, annotate_range(1, 1_000_000)] | None = None
    scale: Annotated[int, annotate_range(1, 10**12)] | None = None
    data_gib: _Gib | None = None
    data_gb: _Gb | None = None
    script: object = None
    distribution: object = None


class MachineKeys(DocumentTable, kw_only=True):
    """Keys of a run description that tell of its machines."""

    busy_before: Annotated[float, annotate_range(0.0, 1.0)] | None = None
    processor: _Text | None = None
    clock_ghz: Annotated[float, annotate_range(0.5, 10.0, "GHz")] | None = None
    local_disk: Literal[LOCAL_DISKS] | None = None  # pyright: ignore[reportInvalidTypeForm]
    client_host: Literal[CLIENT_HOSTS] | None = None  # pyright: ignore[reportInvalidTypeForm]


class RunFile(DocumentTable, kw_only=True):
    """A run description as it is written, but for its head and the keys of its machines."""

    name: object
    engine: Literal["innodb", "myrocks"]
    engine_version: object = None
    flavor: object = None
    storage: object
    log_storage: object = None
    as_of: object
    instance: _Text | None = None
    cache_gib: _Gib | None = None
    cache_gb: _Gb | None = None
    threads: Annotated[int, annotate_range(1, 100_000)]
    start: Literal["cold", "warm"]
    start_balance_percent: Annotated[float, annotate_range(0.0, 100.0, "%")] | None = None
    seconds: Annotated[float, annotate_range(1.0, MAX_SPAN_S, "s")] | None = None
    p95_ms: Annotated[float, annotate_range(1e-6, 1e7, "ms")] | None = None
    caveats: Annotated[list[str], annotate_rule("must be a list of sentences")] = []
    benchmark: dict
    settings: dict = {}
    files: FilesTable


@dataclass(frozen=True)
class Files:
    """The [files] table, checked. `paths` and `intervals` (seconds, if a file has no times) are by
    the keys of the files, `columns` by those of a row; `clock_start` is the time at which t_s is 0.
    """

    paths: dict[str, Path]
    device: str | None
    log_device: str | None
    columns: dict[str, str]
    status_relative: bool | None
    transactions: (
        tuple[str, ...] | None
    )  # counters of the server that are the transactions, in a run without the benchmark's reports
    clock_start: Stamp | None
    intervals: dict[str, float]  # by file key


@dataclass(frozen=True, eq=False, kw_only=True)
class Description(RunFacts):
    """RUN.toml, checked."""

    log_caps: Caps | None
    files: Files


def check_description(document: dict, folder: Path) -> Description:
    """Returns the description in a parsed RUN.toml, with its paths below `folder`. Raises
    InputError for the first key that breaks a rule."""
    machine_keys = MachineKeys.__struct_fields__
    rest = {key: value for key, value in document.items() if key not in (*HEAD, *machine_keys)}
    table = convert(rest, RunFile, source=DOC, where="a run description")
    keys = {key: value for key, value in document.items() if key in machine_keys}
    machine = convert(keys, MachineKeys, source=DOC, where="a run description")
    engine, instance = table.engine, table.instance
    version, flavor = check_version(table.engine_version, table.flavor, engine)
    as_of = _parse_day(table.as_of)
    cache_gib = _convert_size(table.cache_gib, table.cache_gb, "cache")
    if cache_gib is None:
        raise refuse.input("cache_gib is missing", EXACTLY_ONE.format("cache"))
    storage, caps, host = check_storage("storage", table.storage, as_of, instance)
    log_storage = log_caps = None
    if table.log_storage is not None:
        log_storage, log_caps, _ = check_storage("log_storage", table.log_storage, as_of, instance)
    settings = check_settings(table.settings, engine)
    _check_against_instance(host, cache_gib, settings)
    benchmark = _check_benchmark(table.benchmark)
    if benchmark.name == "hammerdb-tprocc" and engine != "innodb":
        hint = 'Say name = "own" with data_gib.'
        raise refuse.input(f"engine = {engine!r} with hammerdb-tprocc", "its standard is of InnoDB alone", hint)
    if benchmark.data_gib is not None and benchmark.data_gib > caps.usable_gib:
        rule = f"does not fit on storage {storage} with {caps.usable_gib:g} GiB"
        hint = "data_gib is what the data take on disk, in GiB; data_gb takes decimal GB."
        raise refuse.input(f"benchmark.data_gib = {benchmark.data_gib:g}", rule, hint)
    return Description(
        name=check_name(table.name),
        engine=engine,
        engine_version=version,
        flavor=flavor,
        storage=storage,
        log_storage=log_storage,
        as_of=as_of,
        instance=instance,
        cache_gib=cache_gib,
        threads=table.threads,
        start=table.start,
        seconds=table.seconds,
        benchmark=benchmark,
        settings=settings,
        caveats=tuple(table.caveats),
        caps=caps,
        log_caps=log_caps,
        files=_check_files(table.files, folder),
        p95_ms=table.p95_ms,
        start_balance_percent=table.start_balance_percent,
        machine=RunMachine(
            core_speed=_choose_speed(machine, instance, as_of),
            alone_faster=_find_alone_faster(machine),
            busy_before=machine.busy_before,
            local_disk=machine.local_disk,
            client_host=machine.client_host,
        ),
    )


def _choose_speed(read: MachineKeys, instance: str | None, as_of: date) -> float | None:
    """Returns the speed of a core: of the processor and clock that are described, else of the
    instance; None where neither is known. Raises InputError."""
    if read.processor is None and read.clock_ghz is None:
        return find_core_speed(instance, as_of.isoformat())
    if instance is not None:
        hint = "Take processor and clock_ghz out."
        raise InputError(f"instance = {instance!r}", "says what its processor is", "data/instances.csv", hint)
    if read.processor is None or read.clock_ghz is None:
        missing = "processor" if read.processor is None else "clock_ghz"
        hint = "clock_ghz is what its cores run at while all of them work."
        raise refuse.input(f"{missing} is missing", "processor and clock_ghz together tell how fast a core is", hint)
    with translate_core_errors():
        return core.core_speed(read.processor, read.clock_ghz)


def _find_alone_faster(read: MachineKeys) -> float | None:
    """Returns the clock of a core that works alone over that of all cores at work; None if no
    processor is described."""
    if read.processor is None or read.clock_ghz is None:
        return None
    with translate_core_errors():
        return core.alone_faster(read.processor, read.clock_ghz)


def _check_against_instance(host: core.Instance | None, cache_gib: float, settings: dict) -> None:
    """Raises InputError if the instance has less memory than the cache, or fewer virtual CPUs than
    described."""
    if host is None:
        return
    name, hint = host["instance_type"], "Check cache and instance; cache_gb takes decimal GB."
    check_fits_memory(f"cache_gib = {cache_gib:g}", cache_gib, name, host["memory_mib"], hint)
    vcpus = settings.get("vcpus", 0)
    check_fits_vcpus(f"settings.vcpus = {vcpus}", vcpus, name, host["vcpus"], "Take it out.")


def _check_benchmark(table: dict) -> BenchmarkLoad:
    """Returns the load in [benchmark], whose keys depend on the benchmark and the distribution of
    its accesses. Raises InputError."""
    distribution_keys = {name for ranges in DISTRIBUTIONS.values() for name in ranges}
    read = convert(
        {key: value for key, value in table.items() if key not in distribution_keys},
        _Benchmark,
        source=DOC,
        at="benchmark",
    )
    ranges: dict[str, tuple[float, float, float]] = {}
    script = distribution = None
    keys = ["name", "tables", "scale", "data_gib", "data_gb"]
    if read.name == "sysbench-oltp":
        hint = "sysbench 1.0 takes --rand-type=special unless told otherwise."
        require_keys(table, ("script", "distribution"), DOC, "benchmark", hint)
        script = convert(read.script, Literal[SCRIPTS], source=DOC, at="benchmark.script")
        distribution = convert(
            read.distribution, Literal[tuple(DISTRIBUTIONS)], source=DOC, at="benchmark.distribution"
        )
        ranges = DISTRIBUTIONS[distribution]
        keys += ["script", "distribution", *ranges]
    refuse_unknown_keys(table, keys, f"[benchmark] of {read.name}", DOC, "benchmark")
    if read.name != "own":
        require_keys(table, ("scale",) if read.name == "hammerdb-tprocc" else ("tables", "scale"), DOC, "benchmark")
    return BenchmarkLoad(
        name=read.name,
        tables=read.tables,
        scale=read.scale,
        data_gib=_convert_size(read.data_gib, read.data_gb, "benchmark.data"),
        script=script,
        distribution=distribution,
        parameters={
            key: convert(
                table.get(key, usual), Annotated[float, annotate_range(low, high)], source=DOC, at=f"benchmark.{key}"
            )
            for key, (usual, low, high) in ranges.items()
        },
    )


def _check_files(read: FilesTable, folder: Path) -> Files:
    """Returns the checked [files]. Raises InputError if a key is missing or contradicts another."""
    if read.sysbench is None and read.status is None:
        rule = "the benchmark's reports, or samples of the server (files.status), are needed"
        hint = "Without a benchmark record SHOW GLOBAL STATUS: headrace workload capture does."
        raise refuse.input("files.sysbench is missing", rule, hint)
    if read.device is not None and read.iostat is None and read.disk is None:
        hint = "Take it out."
        raise refuse.input("files.device", "names a device of the iostat or disk file, and there is none", hint)
    if read.log_device is not None and (read.disk is None or read.device is None):
        rule = "needs files.disk, with the devices of the data named in files.device"
        raise refuse.input("files.log_device", rule, "Name the data devices in files.device, or take it out.")
    if read.transactions is not None and read.sysbench is not None:
        hint = "Take it out."
        raise refuse.input("files.transactions", "the benchmark's reports say what the transactions are", hint)
    counters = [name.lower() for name in read.transactions or ()]
    convert(counters, list[_Counter], source=DOC, at="files.transactions")
    columns = read.columns
    return Files(
        paths={key: folder / path for key in FILE_KEYS if (path := getattr(read, key)) is not None},
        device=read.device,
        log_device=read.log_device,
        columns={key: name for key in columns.__struct_fields__ if (name := getattr(columns, key)) is not None},
        status_relative=read.status_relative,
        transactions=tuple(dict.fromkeys(counters)) or None,
        clock_start=_parse_clock_start(read.clock_start),
        intervals={key: seconds for key, name in INTERVAL_KEYS.items() if (seconds := getattr(read, name)) is not None},
    )


def _parse_clock_start(value: object) -> Stamp | None:
    """Reads `clock_start`: a date and time of TOML, or ISO text; None where it is not given. Raises
    InputError."""
    if value is None:
        return None
    stamp = (
        from_datetime(value) if isinstance(value, datetime) else parse_iso(value) if isinstance(value, str) else None
    )
    if stamp is None or not FIRST_YEAR <= stamp.local.year <= LAST_YEAR:
        rule = "must be a date and time like 2018-08-15T10:00:00"
        raise InputError(f"files.clock_start = {quote_value(value)}", rule, "ISO 8601")
    return stamp


def _parse_day(value: object) -> date:
    """Reads `as_of` of a run description: a date of TOML, or its ISO text. Raises InputError."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value)
    except ValueError:
        pass
    hint = "Limits and prices are those of that day."
    raise InputError(f"as_of = {quote_value(value)}", "must be a day like 2018-08-15", "ISO 8601", hint)


def _convert_size(gib: float | None, gb: float | None, what: str) -> float | None:
    """Returns the given size in GiB; None without either. Raises InputError for both."""
    if gib is not None and gb is not None:
        raise refuse.input(f"{what}_gib and {what}_gb", EXACTLY_ONE.format(what.rpartition(".")[2]))
    return gib if gb is None else gb * GIB_PER_GB
