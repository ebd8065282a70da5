"""Parses texts of one line: closed loads in fio's terms, standard benchmarks, events of volumes.

>>> parse_closed_load("fio:rw=randread,bs=16k,iodepth=8").bs_kib
16.0
"""

from __future__ import annotations

import math
import re

from headrace.base.checks import quote_value, suggest_nearest
from headrace.errors import InputError, Refusals
from headrace.workload.model import ClosedWorkload

FIO_KEYS = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "size", "name")
# fio HOWTO, "Parameter types": k is 1024 unless kb_base says otherwise, a bare number is bytes.
SIZE_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{ending}": 2 ** (10 * power) for power, prefix in enumerate("kmgt", 1) for ending in ("", "b", "ib")
}
refuse_fio = Refusals("fio HOWTO; docs/reference/cli.md, simulate")
FIO_EXAMPLE = "For example fio:rw=randread,bs=16k,iodepth=16,numjobs=1."
refuse_standard = Refusals("docs/reference/workload-file.md, Standard benchmarks")
STANDARD_EXAMPLE = (
    "For example sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16, "
    "hammerdb-tprocc:warehouses=1000,cache_gib=25,threads=16 or "
    "sysbench:script=oltp_read_write,tables=20,table_size=10000000,cache_gib=24,threads=32."
)
TPCC_KEYS = ("warehouses", "engine", "cache_gib", "threads", "size_gib")
TPROCC_KEYS = (
    "warehouses", "cache_gib", "threads", "size_gib", "redo_gib", "flush_log_at_trx_commit", "sync_binlog", "log_bin", "doublewrite",
    "flavor", "client_host",
)  # fmt: skip
OLTP_KEYS = (
    "script", "tables", "table_size", "engine", "cache_gib", "threads", "distribution", "redo_gib",
    "flush_log_at_trx_commit", "sync_binlog", "log_bin", "io_capacity", "doublewrite", "memtable_mib", "skip_trx", "range_size",
    "flavor", "client_host",
)  # fmt: skip
SWITCHES = ("log_bin", "doublewrite", "skip_trx")
COUNTS = ("threads", "tables", "table_size", "sync_binlog", "flush_log_at_trx_commit", "range_size")
# The longest a time may be, s: a leap year, as everywhere in simulations.
YEAR_S = 366 * 86_400
# The least that is left of a member's limits, percent, and the most latency that is added, ms: what
# the lab's faults allow too.
LEAST_CAPS_PERCENT, MOST_EXTRA_MS = 0.1, 60_000
refuse = Refusals("headrace simulate --help")


def parse_closed_load(text: str) -> ClosedWorkload:
    """Reads `fio:rw=randread,bs=16k,iodepth=16,numjobs=1` as a closed workload. Raises
    InputError."""
    given = _parse_settings(text.removeprefix("fio:"), FIO_KEYS, refuse_fio.source, FIO_EXAMPLE)
    if "rw" not in given:
        raise refuse_fio.input(quote_value(text), "a fio load needs rw", FIO_EXAMPLE)
    return ClosedWorkload(
        name=given.get("name", text[:200]),
        rw=given["rw"],
        bs_kib=_parse_size("bs", given.get("bs", "4k")) / 1024,
        iodepth=parse_whole("iodepth", given.get("iodepth", "1")),
        numjobs=parse_whole("numjobs", given.get("numjobs", "1")),
        rwmixread=parse_whole("rwmixread", given.get("rwmixread", "50")),
        size_gib=_parse_size("size", given["size"]) / 2**30 if "size" in given else None,
    )


def parse_standard_settings(text: str) -> dict:
    """Returns the arguments of `headrace.sysbench_tpcc`, `headrace.hammerdb_tprocc` or
    `headrace.sysbench_oltp` in a text such as `sysbench-tpcc:warehouses=10,cache_gib=2,...`,
    `hammerdb-tprocc:...` or `sysbench:script=...`. Raises InputError."""
    benchmark, _, rest = text.partition(":")
    keys = {"sysbench-tpcc": TPCC_KEYS, "hammerdb-tprocc": TPROCC_KEYS}.get(benchmark, OLTP_KEYS)
    required = ("cache_gib", "threads", *(("warehouses",) if "warehouses" in keys else ()))
    given = {
        key: _parse_value(key, value)
        for key, value in _parse_settings(rest, keys, refuse_standard.source, STANDARD_EXAMPLE).items()
    }
    for key in required:
        if key not in given:
            raise refuse_standard.input(quote_value(text), f"needs {key}", STANDARD_EXAMPLE)
    return given


def _parse_settings(text: str, keys: tuple[str, ...], source: str, example: str) -> dict[str, str]:
    """Reads `KEY=VALUE,KEY=VALUE`, each key once. Raises InputError."""
    given: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in keys:
            rule = f"each part is KEY=VALUE with one of {', '.join(keys)}"
            raise InputError(quote_value(part), rule, source, suggest_nearest(key, keys) or example)
        if key in given:
            raise InputError(f"{key}={value[:40]}", f"{key} was given before", source, "Give it once.")
        given[key] = value
    return given


def _parse_value(key: str, value: str) -> object:
    """Returns the value of a key: a text, a distribution, a switch or a number. Raises
    InputError."""
    if key in ("engine", "script", "flavor", "client_host"):
        return value
    if key == "distribution":
        return {"type": value}
    if key in SWITCHES:
        if value not in ("on", "off", "1", "0", "true", "false"):
            raise refuse_standard.input(f"{key}={value[:40]}", "must be on or off")
        return value in ("on", "1", "true")
    if key in COUNTS:
        return parse_whole(key, value)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value):
        rule = "must be a number that is not negative, of up to twelve digits and without an exponent"
        raise refuse_standard.input(f"{key}={value[:40]}", rule, STANDARD_EXAMPLE)
    return float(value)


def _parse_size(what: str, text: str) -> float:
    """Reads a size such as `16k`, `1m`, `4096` in bytes, by fio's rules. Raises InputError."""
    match = re.fullmatch(r"(\d{1,30}(?:\.\d{1,30})?)\s*([a-zA-Z]*)", text)
    if not match or match[2].lower() not in SIZE_UNITS:
        raise refuse_fio.input(f"{what}={text[:40]}", "must be a size such as 16k, 1m or 4096 (bytes)", FIO_EXAMPLE)
    return float(match[1]) * SIZE_UNITS[match[2].lower()]


def parse_whole(what: str, text: str) -> int:
    """Reads a whole number of at most nine digits. Raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"{what}={text[:40]}", "must be a whole number from 0 to 999,999,999", "", "For example 16.")
    return int(text)


def _parse_quantity(what: str, text: str, unit: str, low: float, high: float, example: str) -> float:
    """Reads a number from `low` to `high`; `unit` is that of the refusal. Raises InputError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise refuse.input(f"{what} = {quote_value(text, 40)}", f"must be {unit}, {low:,.10g} to {high:,.10g}", example)
    return value


def _parse_seconds(what: str, text: str) -> float:
    return _parse_quantity(what, text, "seconds", 0, YEAR_S, "600 is ten minutes.")


def parse_degradation(text: str) -> tuple[int, dict]:
    """Reads `MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]` as an entry of the option
    `degradations`. Raises InputError."""
    parts = text.split(":")
    if len(parts) not in (4, 5):
        hint = "0:600:180:50:20 halves the first volume for three minutes from ten minutes on and adds 20 ms."
        raise refuse.input(quote_value(text), "must be MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]", hint)
    start, length = _parse_seconds("START_S", parts[1]), _parse_seconds("LENGTH_S", parts[2])
    unit = "percent of the limits that are left"
    caps = _parse_quantity("CAPS_PERCENT", parts[3], unit, LEAST_CAPS_PERCENT, 100, "50 is half.")
    extra = parts[4] if len(parts) == 5 else "0"
    extra_ms = _parse_quantity("EXTRA_MS", extra, "milliseconds", 0, MOST_EXTRA_MS, "20 adds 20 ms to each request.")
    event = {
        "from": int(start * 1e9),
        "until": int((start + length) * 1e9),
        "caps_per_mille": round(caps * 10),
        "extra_latency": int(extra_ms * 1e6),
    }
    return parse_whole("MEMBER", parts[0].strip()), event


def parse_modification(text: str) -> dict:
    """Reads `SPEC@START..END` as the option `modify`: the target, and the seconds at which
    `modifying` and `optimizing` end. Raises InputError."""
    match = re.fullmatch(r"([^@]+)@([^@]+?)\.\.([^@]+)", text)
    if not match:
        raise refuse.input(text[:60], "must be SPEC@START..END, times in seconds", "For example gp3:500:6000@60..7200.")
    start, end = _parse_seconds("START", match[2]), _parse_seconds("END", match[3])
    if end < start:
        raise refuse.input(text[:60], "END comes before START", "For example gp3:500:6000@60..7200.")
    return {"storage": match[1], "modifying_until_s": start, "optimizing_until_s": end}
