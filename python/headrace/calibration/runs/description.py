"""RUN.toml: its keys and their rules. What comes out has passed every rule that needs no measured file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from headrace.base.checks import did_you_mean, shown
from headrace.base.file_kinds import guess
from headrace.calibration.runs.model import BenchmarkLoad
from headrace.catalog.run_storage import Caps, check_storage
from headrace.errors import InputError
from headrace.observe.clock import Stamp, from_datetime, parse_iso
from headrace.observe.run_files.status import COMMITS, READS, WRITES
from headrace.observe.series import DOC
from headrace.observe.settings import DISTRIBUTIONS, ENGINES, SCRIPTS, check_settings, check_version
from headrace.workload.points import MAX_RECORDED_POINT_S, MAX_SIZE_GIB, MAX_SPAN_S, MIN_POINT_S

FORMAT = "headrace-run"
VERSION = 1
MAX_TOML_BYTES = 1024 * 1024
GIB_PER_GB = 1e9 / 2**30

KEYS = ("format", "version", "name", "engine", "engine_version", "flavor", "storage", "log_storage", "as_of", "instance",
        "cache_gib", "cache_gb", "threads", "start", "start_balance_percent", "seconds", "p95_ms", "caveats", "benchmark", "settings", "files")  # fmt: skip
NEEDED = ("name", "engine", "storage", "as_of", "threads", "start", "benchmark", "files")
BENCHMARKS = ("sysbench-tpcc", "sysbench-oltp", "own")
BENCHMARK_KEYS = ("name", "tables", "scale", "data_gib", "data_gb")
FILE_KEYS = ("sysbench", "iostat", "vmstat", "disk", "status")
INTERVAL_KEYS = {"sysbench": "interval_s", "iostat": "iostat_interval_s", "vmstat": "vmstat_interval_s", "status": "status_interval_s"}
FILES_KEYS = (*FILE_KEYS, "device", "columns", "status_relative", "transactions", "clock_start", *INTERVAL_KEYS.values())
TRANSACTION_COUNTERS = (*COMMITS, *WRITES, *READS)
COLUMNS = ("t_s", "time", "threads", "tps", "qps", "lat_p95_ms")


@dataclass(frozen=True)
class Files:
    """The [files] table. Intervals in seconds where the file does not tell; `clock_start`: the moment t_s is 0."""

    paths: dict[str, Path]
    device: str | None
    columns: dict[str, str]
    status_relative: bool | None
    transactions: tuple[str, ...] | None  # counters of the server that are the transactions, in a run without the benchmark's reports
    clock_start: Stamp | None
    intervals: dict[str, float]  # by file key


@dataclass(frozen=True)
class Description:
    """RUN.toml, checked."""

    name: str
    engine: str
    engine_version: str | None
    flavor: str | None
    storage: str
    log_storage: str | None
    as_of: date
    instance: str | None
    cache_gib: float
    threads: int
    start: str
    seconds: float | None
    benchmark: BenchmarkLoad
    settings: dict[str, float | int | bool]
    caveats: tuple[str, ...]
    caps: Caps
    log_caps: Caps | None
    files: Files
    p95_ms: float | None = None
    start_balance_percent: float | None = None


def parse_toml(name: str, content: bytes) -> dict:
    """The TOML document with its head checked. Raises InputError."""
    if not content.strip():
        raise InputError(name, "the file is empty", DOC, f'A run description begins with format = "{FORMAT}".')
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}: byte {error.start}", "a run description is UTF-8 text", DOC, "The measured files are named in it."
        ) from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        tool = guess(text)
        hint = f"It looks like {tool}: write a description that names it under [files]." if tool else "Mend the line named."
        raise InputError(f"{name}: {' '.join(str(error)[:120].split())}", "is not valid TOML", "toml.io, v1.0", hint) from None
    if document.get("format") != FORMAT:
        hint = (
            "This is a workload file: a run description is what a workload is calibrated from."
            if document.get("format") == "headrace-workload"
            else ""
        )
        raise InputError(f"format = {shown(document.get('format'))}", f'the file must begin with format = "{FORMAT}"', DOC, hint)
    version = document.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"version = {shown(version)}", f"must be a whole number from 1 to {VERSION}", DOC)
    if version > VERSION:
        raise InputError(f"version = {shown(version)}", f"was written for a newer Headrace; this one reads up to version {VERSION}", DOC,
                         "Use a newer Headrace, or write the description for this one.")  # fmt: skip
    return document


def check_description(document: dict, folder: Path) -> Description:
    """Every key of the document by its rule; paths become relative to `folder`. Raises InputError."""
    known_keys(document, KEYS, "a run description", "")
    needed_keys(document, NEEDED, "")
    engine = choice("engine", document["engine"], ENGINES)
    version, flavor = check_version(document.get("engine_version"), document.get("flavor"), engine)
    as_of, instance = _day(document["as_of"]), _text(document, "instance")
    cache_gib = _one_size(document, "cache", "", needed=True)
    storage, caps, host = check_storage("storage", document["storage"], as_of, instance)
    log_storage = log_caps = None
    if "log_storage" in document:
        log_storage, log_caps, _ = check_storage("log_storage", document["log_storage"], as_of, instance)
    settings = check_settings(_table(document, "settings"), engine)
    _against_instance(instance, host, cache_gib, settings)
    benchmark = _benchmark(_table(document, "benchmark"))
    if benchmark.data_gib is not None and benchmark.data_gib > caps.usable_gib:
        raise InputError(f"benchmark.data_gib = {benchmark.data_gib:g}", f"does not fit on storage {storage} with {caps.usable_gib:g} GiB",
                         DOC, "data_gib is what the data take on disk, in GiB; data_gb takes decimal GB.")  # fmt: skip
    seconds, p95_ms, balance = (document.get(key) for key in ("seconds", "p95_ms", "start_balance_percent"))
    return Description(
        name=_name(document["name"]), engine=engine, engine_version=version, flavor=flavor, storage=storage, log_storage=log_storage,
        as_of=as_of, instance=instance, cache_gib=cache_gib, threads=whole("threads", document["threads"], 1, 100_000),
        start=choice("start", document["start"], ("cold", "warm")),
        seconds=None if seconds is None else number("seconds", seconds, 1.0, MAX_SPAN_S, "s"),
        benchmark=benchmark, settings=settings, caveats=_caveats(document.get("caveats", [])), caps=caps, log_caps=log_caps,
        files=_files(_table(document, "files"), folder),
        p95_ms=None if p95_ms is None else number("p95_ms", p95_ms, 1e-6, 1e7, "ms"),
        start_balance_percent=None if balance is None else number("start_balance_percent", balance, 0.0, 100.0, "%"),
    )  # fmt: skip


def _against_instance(instance: str | None, host: dict | None, cache_gib: float, settings: dict) -> None:
    if host is None:
        return
    memory_gib = None if host["memory_mib"] is None else host["memory_mib"] / 1024
    if memory_gib is not None and cache_gib > memory_gib:
        raise InputError(f"cache_gib = {cache_gib:g}", f"{instance} has {memory_gib:g} GiB of memory", "data/instances.csv",
                         "Check cache and instance; cache_gb takes decimal GB.")  # fmt: skip
    if settings.get("vcpus", 0) > (host["vcpus"] or 2**31):
        raise InputError(f"settings.vcpus = {settings['vcpus']}", f"{instance} has {host['vcpus']}", "data/instances.csv", "Take it out.")


def _benchmark(table: dict) -> BenchmarkLoad:
    needed_keys(table, ("name",), "benchmark.")
    name = choice("benchmark.name", table["name"], BENCHMARKS)
    oltp = name == "sysbench-oltp"
    parameters: dict[str, tuple[float, float, float]] = {}
    if oltp:
        needed_keys(table, ("script", "distribution"), "benchmark.", "sysbench 1.0 takes --rand-type=special unless told otherwise.")
        choice("benchmark.script", table["script"], SCRIPTS)
        parameters = DISTRIBUTIONS[choice("benchmark.distribution", table["distribution"], tuple(DISTRIBUTIONS))]
    known_keys(table, (*BENCHMARK_KEYS, *(("script", "distribution") if oltp else ()), *parameters), f"[benchmark] of {name}", "benchmark.")
    if name != "own":
        needed_keys(table, ("tables", "scale"), "benchmark.")
    return BenchmarkLoad(
        name=name,
        tables=None if "tables" not in table else whole("benchmark.tables", table["tables"], 1, 1_000_000),
        scale=None if "scale" not in table else whole("benchmark.scale", table["scale"], 1, 10**12),
        data_gib=_one_size(table, "data", "benchmark."),
        script=table.get("script"),
        distribution=table.get("distribution"),
        parameters={key: number(f"benchmark.{key}", table.get(key, usual), low, high) for key, (usual, low, high) in parameters.items()},
    )


def _files(table: dict, folder: Path) -> Files:
    known_keys(table, FILES_KEYS, "[files]", "files.")
    if "sysbench" not in table and "status" not in table:
        raise InputError("files.sysbench is missing", "the benchmark's reports, or samples of the server (files.status), are needed", DOC,
                         "Without a benchmark record SHOW GLOBAL STATUS: headrace workload capture does.")  # fmt: skip
    paths = {}
    for key in FILE_KEYS:
        if key in table:
            value = table[key]
            if not isinstance(value, str) or not value.strip() or "\0" in value or len(value) > 4_000:
                raise InputError(f"files.{key} = {shown(value)}", "must be the path of a file, relative to the description", DOC)
            paths[key] = folder / value
    if "device" in table and not {"iostat", "disk"} & set(table):
        raise InputError("files.device", "names a device of the iostat or disk file, and there is none", DOC, "Take it out.")
    columns = table.get("columns", {})
    if not isinstance(columns, dict):
        raise InputError(f"files.columns = {shown(columns)}", 'must be a table such as { tps = "TPS" }', DOC)
    known_keys(columns, COLUMNS, "files.columns", "files.columns.")
    for key, value in columns.items():
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"files.columns.{key} = {shown(value)}", "must be a name in the header of the CSV", DOC)
    relative = table.get("status_relative")
    if relative is not None and not isinstance(relative, bool):
        raise InputError(f"files.status_relative = {shown(relative)}", "must be true or false", DOC)
    intervals = {
        key: number(f"files.{name}", table[name], MIN_POINT_S, MAX_RECORDED_POINT_S, "s")
        for key, name in INTERVAL_KEYS.items()
        if name in table
    }
    return Files(
        paths,
        _text(table, "device", "files."),
        dict(columns),
        relative,
        _transactions(table),
        _clock_start(table.get("clock_start")),
        intervals,
    )


def _transactions(table: dict) -> tuple[str, ...] | None:
    value = table.get("transactions")
    if value is None:
        return None
    if "sysbench" in table:
        raise InputError("files.transactions", "the benchmark's reports say what the transactions are", DOC, "Take it out.")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise InputError(f"files.transactions = {shown(value)}", 'must be a list of counters, such as ["com_commit"]', DOC)
    return tuple(dict.fromkeys(choice("files.transactions", item.lower(), TRANSACTION_COUNTERS) for item in value))


def _clock_start(value: object) -> Stamp | None:
    if value is None:
        return None
    stamp = from_datetime(value) if isinstance(value, datetime) else parse_iso(value) if isinstance(value, str) else None
    if stamp is None or not 1990 <= stamp.local.year <= 2100:
        raise InputError(f"files.clock_start = {shown(value)}", "must be a date and time like 2018-08-15T10:00:00", "ISO 8601")
    return stamp


def _day(value: object) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise InputError(f"as_of = {shown(value)}", "must be a day like 2018-08-15", "ISO 8601", "Limits and prices are those of that day.")


def _name(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or not value.isprintable():
        raise InputError(f"name = {shown(value)}", "must be 1 to 200 printable characters", DOC)
    return value


def _caveats(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f"caveats = {shown(value)}", "must be a list of sentences", DOC)
    return tuple(value)


def _text(table: dict, key: str, prefix: str = "") -> str | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value.strip() or len(value) > 400):
        raise InputError(f"{prefix}{key} = {shown(value)}", "must be text", DOC)
    return value


def _table(document: dict, key: str) -> dict:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{key} = {shown(value)}", f"must be a table: [{key}]", DOC)
    return value


def _one_size(table: dict, what: str, prefix: str, needed: bool = False) -> float | None:
    given = [key for key in (f"{what}_gib", f"{what}_gb") if key in table]
    if len(given) != 1 and (given or needed):
        value = f"{prefix}{what}_gib and {prefix}{what}_gb" if given else f"{prefix}{what}_gib is missing"
        raise InputError(value, f"exactly one of {what}_gib (2^30 bytes) and {what}_gb (10^9 bytes) is needed", DOC)
    if not given:
        return None
    size = number(f"{prefix}{given[0]}", table[given[0]], 0.001, MAX_SIZE_GIB, "GiB" if given[0].endswith("gib") else "GB")
    return size if given[0].endswith("gib") else size * GIB_PER_GB


# --- rules every table shares -----------------------------------------------------------------------------------------


def known_keys(table: dict, known, where: str, prefix: str) -> None:
    """Refuse a key that is not known, with the nearest that is."""
    for key in table:
        if key not in known:
            raise InputError(
                f"{prefix}{key[:60]}", f"is not a key of {where}", DOC, did_you_mean(key, known) or f"Known: {', '.join(known)}."
            )


def needed_keys(table: dict, needed: tuple[str, ...], prefix: str, hint: str = "") -> None:
    """Refuse a table that lacks a key."""
    for key in needed:
        if key not in table:
            raise InputError(f"{prefix}{key} is missing", "this key is needed", DOC, hint)


def choice(what: str, value: object, choices: tuple[str, ...]) -> str:
    """One of `choices`, or an InputError that suggests the nearest."""
    if isinstance(value, str) and value in choices:
        return value
    raise InputError(f"{what} = {shown(value)}", f"must be one of {', '.join(choices)}", DOC, did_you_mean(value, choices))


def number(what: str, value: object, low: float, high: float, unit: str = "") -> float:
    """A finite number from low to high, as float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{what} = {shown(value)}", "must be a number", DOC)
    unit = f" {unit}" if unit else ""
    if not low <= value <= high:  # NaN compares false
        raise InputError(f"{what} = {shown(value, 40)}{unit}", f"must be {low:g} to {high:g}{unit}", DOC)
    return float(value)


def whole(what: str, value: object, low: int, high: int) -> int:
    """A whole number from low to high."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{what} = {shown(value, 40)}", f"must be a whole number {low:,} to {high:,}", DOC)
    return value
