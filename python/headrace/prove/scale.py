"""A configuration at a scale this machine can hold. docs/semantics.md, Proving at a smaller scale, says what each rule keeps and what it cannot.

Two factors. `data`: of the data set, the cache and the redo log together, so that the share of pages found in the cache, and with it I/Os per transaction, stays. `rate`: of
IOPS, MiB/s and clients together, so that I/Os per second and client, and with them waits and response times at a cap, stay. Neither touches the other: a cache that is a tenth fills after a
tenth of the transactions, and fewer IOPS walk there more slowly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headrace.base.storage import Storage, Volume
from headrace.base.units import MIB
from headrace.bench import SysbenchOltp
from headrace.calibration.from_runs import sysbench_oltp
from headrace.errors import InputError
from headrace.prove.configuration import DOC, Configuration
from headrace.simulation.database import predict

# Below this a cache holds little more than what every statement passes: node pages, undo, dictionary (a few thousand pages of 16 KiB).
LEAST_CACHE_GIB = 0.0625
# The least a data set may be, and the least it may be beside its cache.
LEAST_DATA_GIB = 0.1
# io1 is sold from 100 IOPS on, and 50 IOPS a GiB (data/volumes); what cannot be had of another type at a smaller scale is had as io1.
LEAST_IOPS, IOPS_PER_GIB = 100, 50
# gp3: its least, and at most 500 IOPS a GiB.
GP3_IOPS, GP3_MIB_S, GP3_IOPS_PER_GIB = 3_000, 125, 500
# Volumes are made so much larger than the data: logs, undo, temporary files.
ROOM, MORE_GIB = 1.5, 3.0
# Of the processors, what clients, server and lab together may need: above it they would bind, not the storage.
PROCESSOR_SHARE = 0.55
# Processor of an I/O on the way through loop device, FUSE and daemon: 66,000 a second on two processors in the lab's trial (DESIGN of the lab, 2026), and as much again in the server.
IO_CPU_MS = 0.06
# Of 2 processors; a page read, its eviction and what belongs to it.
MOST_IOPS_PER_CPU = 3_500.0
PAGE_BYTES = 16_384


@dataclass(frozen=True)
class Scale:
    """`data`, `rate`: factors, at most 1. `notes`: what the scale changes, in sentences."""

    data: float
    rate: float
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Nothing is made smaller."""
        return self.data == 1.0 and self.rate == 1.0


@dataclass(frozen=True)
class Holds:
    """What the machine can hold: `data_gib` of a data set, `processors`."""

    data_gib: float
    processors: int


def read_scale(text: str) -> float | None:
    """`auto` is None, else a factor for data and rate alike. Raises InputError."""
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-5 <= value <= 1.0:
        raise InputError(f"--scale {text[:40]}", "must be auto, or a number from 0.00001 to 1", DOC, "For example 0.05.")
    return value


def choose(
    size_gib: float, configurations: list[Configuration], benchmark: SysbenchOltp, engine: str, holds: Holds, fill_s: float
) -> Scale:
    """The largest scale that fits. `benchmark`: the load as it would be with the data that fit; `fill_s`: an empty cache must be full by then. Raises InputError where nothing fits."""
    data = min(1.0, holds.data_gib / size_gib)
    rate, fewest = 1.0, min(configuration.threads for configuration in configurations)
    for configuration in configurations:
        tps, ios, cpu_ms = _expected(configuration, benchmark, engine, data)
        busy = tps * (cpu_ms + ios * IO_CPU_MS) / 1e3
        rate = min(rate, PROCESSOR_SHARE * holds.processors / busy, MOST_IOPS_PER_CPU * holds.processors / (tps * ios))
    if rate < 1.0:
        # Whole clients: the nearest below.
        rate = max(1, math.floor(fewest * rate)) / fewest
    for configuration in configurations:
        pages = configuration.cache_gib * 2**30 / PAGE_BYTES
        data = min(data, max(iops_of(configuration.storage) * rate * fill_s / pages, LEAST_CACHE_GIB / configuration.cache_gib))
    smallest = min(configuration.cache_gib for configuration in configurations)
    least = min(1.0, max(LEAST_CACHE_GIB / smallest, LEAST_DATA_GIB / size_gib))
    if least * size_gib > 2.0 * holds.data_gib:
        rule = f"beside {size_gib:,.4g} GiB of data, scaled to the {holds.data_gib:.2f} GiB that fit, leaves less than the {LEAST_CACHE_GIB:g} GiB a server needs"
        raise InputError(f"a cache of {smallest:,.4g} GiB", rule, DOC, "Give it more time (--minutes), or a machine with more room.")
    return Scale(max(data, least), rate)


def _expected(configuration: Configuration, benchmark: SysbenchOltp, engine: str, data: float) -> tuple[float, float, float]:
    """Transactions a second, I/Os and processor ms of one, as the standard benchmark says without a run."""
    kind = {"type": benchmark.distribution} | ({"h": benchmark.parameters["rand_pareto_h"]} if benchmark.distribution == "pareto" else {})
    workload = sysbench_oltp(
        cache_gib=max(configuration.cache_gib * data, LEAST_CACHE_GIB), threads=configuration.threads, script=benchmark.script, tables=benchmark.tables,
        table_size=benchmark.rows, distribution=kind, engine=engine,
    )  # fmt: skip
    rows = predict(
        workload, configuration.storage, log_storage=configuration.log_storage, start="warm", seconds=30, seed=None, draws=0
    ).rows
    tps = max(float(rows["tps"].mean() or 0.0), 1e-6)
    return tps, max(float(rows["iops"].mean() or 0.0) / tps, 1e-6), workload.database["clients"]["cpu_ms"]


def iops_of(storage: str) -> float:
    """What the volumes sustain together, I/Os a second. Raises InputError."""
    return float(sum(one["iops"] for one in Storage.parse(storage).limits()))


def scaled(configuration: Configuration, size_gib: float, scale: Scale) -> tuple[Configuration, list[str]]:
    """The configuration at a scale, and what could not be kept, in sentences. `size_gib`: of the data before scaling."""
    holds_gib = size_gib * scale.data * ROOM + MORE_GIB
    notes: list[str] = []
    storage = _storage(configuration.storage, scale.rate, holds_gib, notes)
    log = None if configuration.log_storage is None else _storage(configuration.log_storage, scale.rate, MORE_GIB, notes)
    threads = max(1, round(configuration.threads * scale.rate))
    cache = configuration.cache_gib * scale.data
    if abs(threads / (configuration.threads * scale.rate) - 1.0) > 0.02:
        notes.append(f"{configuration.name}: {threads} clients stand for {configuration.threads * scale.rate:.2f}.")
    balance = configuration.balance_percent
    if balance is None and _bursts(storage):
        balance = 0.0
        notes.append(f"{configuration.name}: burst credits are gone from the start, as in the worst hour that plans go by.")
    return replace(configuration, storage=storage, log_storage=log, threads=threads, cache_gib=cache, balance_percent=balance), notes


def _bursts(storage: str) -> bool:
    return any(member.type == "gp2" and member.size_gib < 1_000 for member in Storage.parse(storage).members)


def _storage(spec: str, rate: float, holds_gib: float, notes: list[str]) -> str:
    """The notation of the same layout with `rate` times the IOPS and MiB/s, large enough."""
    storage = Storage.parse(spec)
    of = storage.limits()[0]
    if rate >= 1.0 and storage.usable_gib >= holds_gib:
        return spec
    members, kind = storage.members, storage.volume_type
    if len(set(members)) > 1:
        raise InputError(spec, "an array of unlike members cannot be scaled", DOC, "A log volume is written DATA,log=LOG.")
    each_gib = math.ceil(holds_gib * storage.size_gib / storage.usable_gib / len(members))

    def of_volumes(volume: Volume) -> str:
        return str(Storage.of([volume] * len(members), storage.level, storage.chunk_kib if storage.level else None))

    if of["random_charges_full_unit"]:
        raise InputError(spec, "its limit is in MiB/s and cannot be scaled", DOC, "Prove it with --scale 1, or leave it out.")
    iops = int(of["iops"] * rate)
    if kind == "gp3" and iops >= GP3_IOPS:
        mib_s = max(GP3_MIB_S, int(of["throughput_bytes_s"] / MIB * rate))
        return of_volumes(Volume("gp3", max(each_gib, math.ceil(iops / GP3_IOPS_PER_GIB)), iops, mib_s))
    if kind == "gp2" and rate >= 1.0:
        return of_volumes(Volume("gp2", max(each_gib, members[0].size_gib)))
    if iops < LEAST_IOPS:
        rule = f"{iops} IOPS at this scale are fewer than io1's least of {LEAST_IOPS}"
        raise InputError(spec, rule, DOC, "Prove at a larger scale.")
    if kind not in ("io1", "io2"):
        notes.append(f"{spec}: at this scale an io1 with its {iops:,} IOPS: {kind} is not sold with so few.")
    return of_volumes(Volume("io2" if kind == "io2" else "io1", max(each_gib, math.ceil(iops / IOPS_PER_GIB)), iops))
