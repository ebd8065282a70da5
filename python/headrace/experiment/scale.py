"""Scales a proof to this machine and divides its time.

Two factors (docs/semantics.md, Proving at a smaller scale, says what each keeps and what it
cannot). `data`: of the data set, the cache and the redo log together, which keeps the share of
pages found in the cache, and with it I/Os per transaction. `rate`: of IOPS, MiB/s and clients
together, which keeps I/Os per second and client, and with them waits and response times at a cap.
The two are independent: a cache of a tenth is full after a tenth of the transactions, and fewer
IOPS take longer for those.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from headrace.base.checks import check_number
from headrace.base.storage import Storage, Volume
from headrace.base.units import GIB, MIB
from headrace.bench import SysbenchOltp
from headrace.calibration.from_runs import sysbench_oltp
from headrace.experiment.request import Configuration, refuse
from headrace.experiment.standin import describe_distribution
from headrace.observe.settings import LAB_IO_CPU_US
from headrace.simulation.database import predict

# A smaller cache holds little more than what every statement passes: node pages, undo and the
# dictionary, a few thousand pages of 16 KiB (a guess).
LEAST_CACHE_GIB = 0.0625
# A guess: with less data the fixed costs of a server decide.
LEAST_DATA_GIB = 0.1
# io1 is sold from 100 IOPS on, at most 50 per GiB (data/volumes/io1.toml). A volume that another
# type does not offer at a smaller scale is taken as io1.
LEAST_IOPS, IOPS_PER_GIB = 100, 50
# gp3: least IOPS and MiB/s, most IOPS per GiB (data/volumes/gp3.toml).
GP3_IOPS, GP3_MIB_S, GP3_IOPS_PER_GIB = 3_000, 125, 500
# Volumes are larger than the data, for logs, undo and temporary files: a factor, and GiB (guesses).
ROOM, MORE_GIB = 1.5, 3.0
# Share of the processors that clients, server and lab may need together: above it they would bind,
# not the storage (a guess).
PROCESSOR_SHARE = 0.55
# For each processor: a page read, its eviction and what belongs to it (measured on 2 processors).
MOST_IOPS_PER_CPU = 3_500.0
PAGE_BYTES = 16_384  # InnoDB's default

# Loading by sysbench on two processors: 8 x 1,000,000 rows (1.84 GiB) take 90 to 220 s on a machine
# in use; and a fixed part for creating and saving the data directory.
LOAD_MIB_S, LOAD_MORE_S = 9.0, 12.0
LOADING_SHARE = 0.25  # of the time of a proof (a guess)
# Share of the time beyond the first minutes in which the benchmark runs before the data are kept,
# s: the first thousands of transactions in a fresh server make undo pages that later ones use
# again. With a pool of 0.25 GiB they wrote 7.7 pages a transaction at first and 6.6 after 20,000
# (MariaDB 10.11, 8 x 1,000,000 rows, 2026-11-21). More than MOST_SETTLE_S changes little.
SETTLE_SHARE, SETTLE_BEYOND_MIN, MOST_SETTLE_S = 0.06, 2.0, 60
# Copying the data, starting, looking at the machine, removing; samples before and after (measured).
AROUND_S = 14.0
# The calibration tells more the longer it is; it must also do as many transactions as the faster
# configurations will (a guess).
CALIBRATION_WEIGHT = 2.0
# A mean over fewer seconds says nothing; more than MOST_S adds nothing (guesses).
LEAST_S, LEAST_CALIBRATION_S, MOST_S = 12, 24, 600
# Share of a run that fills the cache and does not count (a guess).
WARMUP_SHARE, LEAST_WARMUP_S = 0.3, 3
LEAST_MINUTES, MOST_MINUTES = 1.5, 24 * 60.0  # guesses


@dataclass(frozen=True)
class Scale:
    """The factors of a smaller proof, at most 1: `data` on the GiB of data and caches, `rate` on
    IOPS, MiB/s and clients. `notes`: what the scale changes, in sentences."""

    data: float
    rate: float
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Returns whether nothing is scaled."""
        return self.data == 1.0 and self.rate == 1.0


@dataclass(frozen=True)
class Holds:
    """The capacity of this machine: the largest data set, GiB, and the number of processors."""

    data_gib: float
    processors: int


def read_scale(text: str) -> float | None:
    """Reads a scale: None for `auto`, else a factor for data and rate alike. Raises InputError."""
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 1e-5 <= value <= 1.0:
        raise refuse.input(f"--scale {text[:40]}", "must be auto, or a number from 0.00001 to 1", "For example 0.05.")
    return value


def choose(
    size_gib: float,
    configurations: list[Configuration],
    benchmark: SysbenchOltp,
    engine: str,
    holds: Holds,
    fill_s: float,
) -> Scale:
    """Returns the largest scale that fits the capacity `holds` of this machine. `size_gib`: the
    data before scaling; `benchmark`: the load on the data that fit; `fill_s`: seconds within which
    an empty cache must fill. Raises InputError if nothing fits."""
    data = min(1.0, holds.data_gib / size_gib)
    rate, fewest = 1.0, min(configuration.threads for configuration in configurations)
    for configuration in configurations:
        tps, ios_per_tx, cpu_ms = _expect_rates(configuration, benchmark, engine, data)
        busy_cpus = tps * (cpu_ms + ios_per_tx * LAB_IO_CPU_US / 1e3) / 1e3
        rate = min(
            rate,
            PROCESSOR_SHARE * holds.processors / busy_cpus,
            MOST_IOPS_PER_CPU * holds.processors / (tps * ios_per_tx),
        )
    if rate < 1.0:
        # Rounded down to whole clients.
        rate = max(1, math.floor(fewest * rate)) / fewest
    for configuration in configurations:
        pages = configuration.cache_gib * GIB / PAGE_BYTES
        data = min(
            data,
            max(sum_iops(configuration.storage) * rate * fill_s / pages, LEAST_CACHE_GIB / configuration.cache_gib),
        )
    smallest = min(configuration.cache_gib for configuration in configurations)
    least = min(1.0, max(LEAST_CACHE_GIB / smallest, LEAST_DATA_GIB / size_gib))
    if least * size_gib > 2.0 * holds.data_gib:
        value = f"a cache of {smallest:,.4g} GiB for {size_gib:,.4g} GiB of data"
        fit = f"scaled to the {holds.data_gib:.2f} GiB that fit"
        rule = f"{fit}, it leaves less than the {LEAST_CACHE_GIB:g} GiB a server needs"
        raise refuse.input(value, rule, "Give it more time (--minutes), or a machine with more room.")
    return Scale(max(data, least), rate)


def _expect_rates(
    configuration: Configuration, benchmark: SysbenchOltp, engine: str, data: float
) -> tuple[float, float, float]:
    """Returns transactions a second, I/Os a transaction, and processor time a transaction, ms, that
    the standard benchmark predicts for a configuration with `data` times its cache."""
    workload = sysbench_oltp(
        cache_gib=max(configuration.cache_gib * data, LEAST_CACHE_GIB),
        threads=configuration.threads,
        script=benchmark.script,
        tables=benchmark.tables,
        table_size=benchmark.rows,
        distribution=describe_distribution(benchmark),
        engine=engine,
    )
    log_storage = configuration.log_storage
    run = predict(
        workload, configuration.storage, log_storage=log_storage, start="warm", seconds=30, seed=None, draws=0
    )
    tps = max(statistics.fmean(run.rows["tps"]), 1e-6)
    return tps, max(statistics.fmean(run.rows["iops"]) / tps, 1e-6), workload.database["clients"]["cpu_ms"]


def sum_iops(storage: str) -> float:
    """Returns the I/Os a second that the volumes sustain together. Raises InputError."""
    return float(sum(limit["iops"] for limit in Storage.parse(storage).list_limits()))


def scale_configuration(configuration: Configuration, size_gib: float, scale: Scale) -> tuple[Configuration, list[str]]:
    """Returns the scaled configuration, and a sentence for each thing that could not be scaled;
    `size_gib` is the size of the data before scaling."""
    holds_gib = size_gib * scale.data * ROOM + MORE_GIB
    name, notes = configuration.name, []
    storage = _scale_storage(configuration.storage, scale.rate, holds_gib, notes)
    log = configuration.log_storage and _scale_storage(configuration.log_storage, scale.rate, MORE_GIB, notes)
    exact = configuration.threads * scale.rate
    threads = max(1, round(exact))
    if abs(threads / exact - 1.0) > 0.02:
        notes.append(f"{name}: {threads} clients stand for {exact:.2f}.")
    balance = configuration.balance_percent
    if balance is None and _bursts(storage):
        balance = 0.0
        notes.append(f"{name}: burst credits are gone from the start, as in the worst hour that plans go by.")
    cache = configuration.cache_gib * scale.data
    small = replace(
        configuration, storage=storage, log_storage=log, threads=threads, cache_gib=cache, balance_percent=balance
    )
    return small, notes


def _bursts(storage: str) -> bool:
    return any(member.type == "gp2" and member.size_gib < 1_000 for member in Storage.parse(storage).members)


def _scale_storage(spec: str, rate: float, holds_gib: float, notes: list[str]) -> str:
    """Returns the notation of a storage with the same layout, `rate` times the IOPS and MiB/s, and
    at least `holds_gib` GiB; appends to `notes` if the type changes. Raises InputError if it cannot
    be scaled."""
    storage = Storage.parse(spec)
    limits = storage.list_limits()[0]
    if rate >= 1.0 and storage.usable_gib >= holds_gib:
        return spec
    members, kind = storage.members, storage.volume_type
    if len(set(members)) > 1:
        raise refuse.input(spec, "an array of unlike members cannot be scaled", "A log volume is written DATA,log=LOG.")
    each_gib = math.ceil(holds_gib * storage.size_gib / storage.usable_gib / len(members))

    def write_notation(volume: Volume) -> str:
        return str(Storage.of([volume] * len(members), storage.level, storage.chunk_kib if storage.level else None))

    if limits["random_charges_full_unit"]:
        rule = "its limit is in MiB/s and cannot be scaled"
        raise refuse.input(spec, rule, "Prove it with --scale 1, or leave it out.")
    iops = int(limits["iops"] * rate)
    if kind == "gp3" and iops >= GP3_IOPS:
        mib_s = max(GP3_MIB_S, int(limits["throughput_bytes_s"] / MIB * rate))
        return write_notation(Volume("gp3", max(each_gib, math.ceil(iops / GP3_IOPS_PER_GIB)), iops, mib_s))
    if kind == "gp2" and rate >= 1.0:
        return write_notation(Volume("gp2", max(each_gib, members[0].size_gib)))
    if iops < LEAST_IOPS:
        rule = f"{iops} IOPS at this scale are fewer than io1's least of {LEAST_IOPS}"
        raise refuse.input(spec, rule, "Prove at a larger scale.")
    if kind not in ("io1", "io2"):
        notes.append(f"{spec}: at this scale an io1 with its {iops:,} IOPS: {kind} is not sold with so few.")
    return write_notation(
        Volume("io2" if kind == "io2" else "io1", max(each_gib, math.ceil(iops / IOPS_PER_GIB)), iops)
    )


@dataclass(frozen=True)
class Timing:
    """Seconds of the parts of a proof: `loading_s` (an estimate, with `settle_s`), `calibration_s`,
    and `each_s` for each other configuration, after `warmup_s`. `data_gib`: the data that can be
    loaded in the time of loading."""

    loading_s: float
    settle_s: int
    calibration_s: int
    each_s: int
    warmup_s: int
    data_gib: float


def divide_time(minutes: float, configurations: int) -> Timing:
    """Returns the times of loading, calibration and each of the other `configurations` that take
    `minutes` together. Raises InputError if that leaves too few seconds for each."""
    check_number("--minutes", minutes, LEAST_MINUTES, MOST_MINUTES, refusals=refuse)
    loading = LOADING_SHARE * minutes * 60.0
    settle = int(min(MOST_SETTLE_S, SETTLE_SHARE * max(0.0, minutes - SETTLE_BEYOND_MIN) * 60.0))
    data_gib = LOAD_MIB_S * max(0.0, loading - LOAD_MORE_S) / 1024.0
    remaining_s = minutes * 60.0 - loading - settle - (configurations + 1) * AROUND_S
    each = int(min(MOST_S, remaining_s / (configurations + CALIBRATION_WEIGHT)))
    calibration = int(min(CALIBRATION_WEIGHT * MOST_S, CALIBRATION_WEIGHT * each))
    if each < LEAST_S or calibration < LEAST_CALIBRATION_S:
        parts = LEAST_S * (configurations + CALIBRATION_WEIGHT) + (configurations + 1) * AROUND_S
        needed = parts / (1.0 - LOADING_SHARE) / 60.0
        rule = f"leave {max(each, 0)} s for each of {configurations} configurations, and {LEAST_S} s are the least"
        raise refuse.input(f"--minutes {minutes:g}", rule, f"Give it {needed:.1f} minutes or more.")
    warmup = max(LEAST_WARMUP_S, int(WARMUP_SHARE * each))
    return Timing(loading + settle, settle, calibration, each, warmup, data_gib)
