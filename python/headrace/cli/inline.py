"""What is typed on one line: closed loads in fio's words, degradations, modifications."""

from __future__ import annotations

import math
import re

from headrace.base import core
from headrace.base.checks import did_you_mean, shown
from headrace.base.core import core_errors
from headrace.errors import InputError
from headrace.workload.model import ClosedWorkload

FIO_KEYS = ("rw", "bs", "iodepth", "numjobs", "rwmixread", "size", "name")
# fio HOWTO, "Parameter types": k is 1024 unless kb_base says otherwise, a bare number is bytes.
SIZE_UNITS = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "kib": 2**10, "m": 2**20, "mb": 2**20, "mib": 2**20,
              "g": 2**30, "gb": 2**30, "gib": 2**30,
              "t": 2**40, "tb": 2**40, "tib": 2**40}  # fmt: skip
FIO_SOURCE = "fio HOWTO; docs/reference/cli.md, simulate"
EXAMPLE = "For example fio:rw=randread,bs=16k,iodepth=16,numjobs=1."


def closed_load(text: str) -> ClosedWorkload:
    """`fio:rw=randread,bs=16k,iodepth=16,numjobs=1` as a closed workload. Raises InputError."""
    given: dict[str, str] = {}
    for part in filter(None, text.removeprefix("fio:").split(",")):
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals:
            raise InputError(shown(part), "each part of a fio load is KEY=VALUE", FIO_SOURCE, EXAMPLE)
        if key not in FIO_KEYS:
            raise InputError(f"{key[:40]}", f"is not one of {', '.join(FIO_KEYS)}", FIO_SOURCE, did_you_mean(key, FIO_KEYS) or EXAMPLE)
        if key in given:
            raise InputError(f"{key}={value[:40]}", f"{key} was given before", FIO_SOURCE, "Give it once.")
        given[key] = value.strip()
    if "rw" not in given:
        raise InputError(shown(text), "a fio load needs rw", FIO_SOURCE, EXAMPLE)
    return ClosedWorkload(
        name=given.get("name", text[:200]),
        rw=given["rw"],
        bs_kib=size_bytes("bs", given.get("bs", "4k")) / 1024,
        iodepth=whole("iodepth", given.get("iodepth", "1")),
        numjobs=whole("numjobs", given.get("numjobs", "1")),
        rwmixread=whole("rwmixread", given.get("rwmixread", "50")),
        size_gib=size_bytes("size", given["size"]) / 2**30 if "size" in given else None,
    )


STANDARD_SOURCE = "docs/reference/workload-file.md, Standard benchmarks"
STANDARD_EXAMPLE = "For example sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16 or sysbench:script=oltp_read_write,tables=20,table_size=10000000,cache_gib=24,threads=32."
TPCC_KEYS = ("warehouses", "engine", "cache_gib", "threads", "size_gib")
OLTP_KEYS = ("script", "tables", "table_size", "engine", "cache_gib", "threads", "distribution", "redo_gib", "flush_log_at_trx_commit", "sync_binlog", "log_bin",
             "io_capacity", "doublewrite", "memtable_mib", "skip_trx", "range_size")  # fmt: skip


def standard_benchmark(text: str):
    """`sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16` or `sysbench:script=...` as a database in transactions. Raises InputError."""
    from headrace.calibration.from_runs import sysbench_oltp, sysbench_tpcc

    head, _, rest = text.partition(":")
    keys = TPCC_KEYS if head == "sysbench-tpcc" else OLTP_KEYS
    given: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in keys:
            raise InputError(
                shown(part),
                f"each part is KEY=VALUE with one of {', '.join(keys)}",
                STANDARD_SOURCE,
                did_you_mean(key, keys) or STANDARD_EXAMPLE,
            )
        if key in given:
            raise InputError(f"{key}={value[:40]}", f"{key} was given before", STANDARD_SOURCE, "Give it once.")
        given[key] = _typed(key, value)
    for key in ("cache_gib", "threads", *(("warehouses",) if head == "sysbench-tpcc" else ())):
        if key not in given:
            raise InputError(shown(text), f"needs {key}", STANDARD_SOURCE, STANDARD_EXAMPLE)
    return sysbench_tpcc(**given) if head == "sysbench-tpcc" else sysbench_oltp(**given)


def _typed(key: str, value: str) -> object:
    if key in ("engine", "script"):
        return value
    if key == "distribution":
        return {"type": value}
    if key in ("log_bin", "doublewrite", "skip_trx"):
        if value not in ("on", "off", "1", "0", "true", "false"):
            raise InputError(f"{key}={value[:40]}", "must be on or off", STANDARD_SOURCE)
        return value in ("on", "1", "true")
    if key in ("threads", "tables", "table_size", "sync_binlog", "flush_log_at_trx_commit", "range_size"):
        return whole(key, value)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value):
        raise InputError(f"{key}={value[:40]}", "must be a number", STANDARD_SOURCE, STANDARD_EXAMPLE)
    return float(value)


def size_bytes(what: str, text: str) -> float:
    """`16k`, `1m`, `4096` in bytes, by fio's rules. Raises InputError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text)
    if not match or match[2].lower() not in SIZE_UNITS or len(match[1]) > 30:
        raise InputError(f"{what}={text[:40]}", "must be a size such as 16k, 1m or 4096 (bytes)", FIO_SOURCE, EXAMPLE)
    return float(match[1]) * SIZE_UNITS[match[2].lower()]


def whole(what: str, text: str) -> int:
    """A whole number of at most nine digits. Raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"{what}={text[:40]}", "must be a whole number", "", "For example 16.")
    return int(text)


def canonical(storage: str) -> str:
    """A storage as it is written everywhere: `gp3:500` for ` GP3:500`. Raises InputError."""
    with core_errors():
        return core.parse_storage(storage)["text"]


YEAR_S = 366 * 86_400


def seconds(what: str, text: str) -> float:
    """A time in seconds, 0 to a year. Raises InputError."""
    return quantity(what, text, "seconds", 0, YEAR_S, "600 is ten minutes.")


def quantity(what: str, text: str, unit: str, low: float, high: float, example: str) -> float:
    """A number of a unit from low to high. Raises InputError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InputError(f"{what} = {shown(text, 40)}", f"must be {unit}, {low:,.10g} to {high:,.10g}", DEGRADE_SOURCE, example)
    return value


DEGRADE_SOURCE = "headrace simulate --help"


def degradation(text: str, members: int) -> tuple[int, dict]:
    """`MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]` as the core takes it. Raises InputError."""
    parts = text.split(":")
    if len(parts) not in (4, 5):
        raise InputError(shown(text), "must be MEMBER:START_S:LENGTH_S:CAPS_PERCENT[:EXTRA_MS]", DEGRADE_SOURCE,
                         "0:600:180:50:20 halves the first volume for three minutes from ten minutes on and adds 20 ms.")  # fmt: skip
    index = member(parts[0], members)
    start, length = seconds("START_S", parts[1]), seconds("LENGTH_S", parts[2])
    caps = quantity("CAPS_PERCENT", parts[3], "percent of the limits that are left", 0.1, 100, "50 is half.")
    extra_ms = quantity("EXTRA_MS", parts[4], "milliseconds", 0, 60_000, "20 adds 20 ms to each request.") if len(parts) == 5 else 0.0
    event = {
        "from": int(start * 1e9),
        "until": int((start + length) * 1e9),
        "caps_per_mille": round(caps * 10),
        "extra_latency": int(extra_ms * 1e6),
    }
    return index, event


def member(text: str, members: int) -> int:
    """The number of a member of the array, counted from 0. Raises InputError."""
    index = whole("MEMBER", text.strip())
    if index >= members:
        raise InputError(
            f"member {index}", f"this storage has {members}, counted from 0", "headrace simulate --help", f"Use 0 to {members - 1}."
        )
    return index


def check_lost(lost: list[int], raid: str, members: int) -> None:
    """Refuses a closed load on an array of which nothing is left: each request would fail at once, and it would never get anywhere."""
    gone = len(set(lost))
    if gone >= members or (raid == "raid5" and gone > 1):
        raise InputError(f"{gone} of {members} members lost", "nothing is left that could answer a closed load", "headrace simulate --help",
                         "Lose fewer members, or use demand over time.")  # fmt: skip


def modification(text: str) -> dict:
    """`SPEC@START..END` as the core takes it: the target, when `modifying` ends, when `optimizing` ends. Raises InputError."""
    match = re.fullmatch(r"([^@]+)@([^@]+?)\.\.([^@]+)", text)
    if not match:
        raise InputError(text[:60], "must be SPEC@START..END, times in seconds", "headrace simulate --help", "gp3:500:6000@60..7200")
    start, end = seconds("START", match[2]), seconds("END", match[3])
    if end < start:
        raise InputError(text[:60], "END comes before START", "headrace simulate --help", "gp3:500:6000@60..7200")
    return {"storage": match[1], "modifying_until_s": start, "optimizing_until_s": end}


def check_modification(current: list[dict], target: list[dict], text: str) -> None:
    """A target of another layout, or smaller, is refused: AWS lets a volume grow only."""
    source = "Amazon EC2 API, ModifyVolume: the size may not be reduced"
    if len(current) != len(target) or any(member != target[0] for member in target):
        raise InputError(
            text[:60], "must have the layout of the storage, with equal members", source, "Only the volumes change, not the array."
        )
    if any(after["size_gib"] < before["size_gib"] for before, after in zip(current, target, strict=True)):
        raise InputError(text[:60], "a volume cannot be made smaller", source, "Copy the data to a smaller volume instead.")
