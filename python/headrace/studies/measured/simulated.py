"""The same cells simulated, before any of them is run: the scaled configuration, on as many processors as this machine has, at their measured speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import polars as pl

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.units import GIB
from headrace.bench import SysbenchOltp
from headrace.studies.measured import machine
from headrace.studies.measured.bed import Bed
from headrace.studies.measured.cells import Found, Progress, kept, length_s, run_cells
from headrace.studies.measured.plan import SERVER_CELL_S, Cell, DataSet, OnServer, Options, Say

# Two runs tell a statement's processor time (many clients) from its round trip (one): the same two that the standard database has from a published table.
PROBE_ROWS = 20_000
PROBE_STORAGE = "io1:1000:20000"
PROBE_POOL = "256M"
PROBE_WARM_S, PROBE_S = 2, 5
PROBE_CLIENTS_EACH = 8  # a processor: enough that none waits for a client
# Bytes of a server's setting.
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True)
class Processors:
    """What this machine's processors need for a point select. `cpu_ms` of one of them, client and lab included; `trip_ms`: what a round trip takes beside. `runs`: they were
    measured by; `instance`, `vcpus`: an EC2 instance of this size, whose EBS limits bind nothing."""

    cpu_ms: float
    trip_ms: float
    instance: str
    vcpus: int
    runs: tuple[Found, ...] = ()

    def applied(self, database: Mapping) -> dict:
        """A standard database with its processor time and round trips as they are here."""
        made, standard = deepcopy(dict(database)), _point_select()
        clients = made["clients"]
        own, cpu = clients["base_ms"] - clients["cpu_ms"], clients["cpu_ms"]
        # Of the instance's vCPUs, which may be more than there are here.
        cpu_here = cpu * self.cpu_ms / standard["cpu_ms"] * self.vcpus / machine.cores()
        own_here = own * self.trip_ms / (standard["base_ms"] - standard["cpu_ms"])
        clients |= {"cpu_ms": cpu_here, "base_ms": cpu_here + own_here}
        return made


def _point_select() -> Mapping[str, float]:
    with core_errors():
        return core.mysql_sysbench({"script": "oltp_point_select"})["database"]["clients"]


def probe_cells(seed: int) -> tuple[Cell, Cell]:
    """One client, then many, on tables that fit the pool."""
    load = SysbenchOltp("oltp_point_select", tables=1, rows=PROBE_ROWS, distribution="uniform")
    place = OnServer(DataSet("probe", load, 0.01), PROBE_STORAGE, {"innodb_buffer_pool_size": PROBE_POOL}, scan=True)
    counts = (1, PROBE_CLIENTS_EACH * machine.cores())
    return tuple(Cell((n,), f"{n} clients, all in memory", place, load, n, PROBE_WARM_S, PROBE_S, seed) for n in counts)  # type: ignore[return-value]


# Two cells, as run_cells counts them.
PROBES_S = 2 * (PROBE_WARM_S + PROBE_S + SERVER_CELL_S)


def probed(bed: Bed, options: Options, facts: Mapping[str, object], progress: Progress, say: Say, day: str) -> Processors:
    """Measures the processors with two runs of point selects. Raises as run_cells."""
    cells = probe_cells(options.seed)
    have = kept("processors", cells, options, facts)
    for cell in cells:
        if cell.key in have:
            progress.skip(length_s(cell))
    one, many = run_cells("processors", cells, bed, options, facts, have, progress, say).values()
    return processors(one, many, day)


def processors(one: Found, many: Found, day: str) -> Processors:
    """Little's law twice: n processors busy at the highest rate; one client's round trip at the lowest."""
    cpu_ms = 1e3 * machine.cores() / many.tps
    trip_ms = max(1e-3, 1e3 / one.tps - cpu_ms)
    instance, vcpus = machine.like_this(day)
    return Processors(cpu_ms, trip_ms, instance, vcpus, (one, many))


def size_bytes(text: str) -> float:
    """`64M` in bytes."""
    return float(text[:-1]) * UNITS[text[-1].upper()] if text[-1:].upper() in UNITS else float(text)


def database(cell: Cell) -> dict:
    """The standard database of a sysbench OLTP cell under its settings."""
    place, load = cell.place, cell.benchmark
    assert isinstance(place, OnServer) and isinstance(load, SysbenchOltp)
    settings = {key.replace("-", "_"): value for key, value in place.settings.items()}
    counts = {key: int(value) for key, value in load.shape.items() if key in COUNTS}
    options = {
        "script": load.script, "distribution": _distribution(load), "statements": counts, "engine": place.data.engine, "tables": load.tables, "table_size": load.rows,
        "threads": cell.threads, "cache_gib": cache_bytes(place) / GIB, "log_bin": False,
        "flush_log_at_trx_commit": int(settings.get("innodb_flush_log_at_trx_commit", "1")),
    }  # fmt: skip
    if "innodb_log_file_size" in settings:
        options["redo_gib"] = size_bytes(settings["innodb_log_file_size"]) / GIB
    if "innodb_io_capacity" in settings:
        options["io_capacity"] = float(settings["innodb_io_capacity"])
    if "innodb_doublewrite" in settings:
        options["doublewrite"] = settings["innodb_doublewrite"].upper() in ("ON", "1")
    with core_errors():
        return core.mysql_sysbench(options)["database"]


COUNTS = (
    "point_selects",
    "simple_ranges",
    "sum_ranges",
    "order_ranges",
    "distinct_ranges",
    "index_updates",
    "non_index_updates",
    "delete_inserts",
)


def _distribution(load: SysbenchOltp) -> dict:
    from headrace.calibration.prior import DISTRIBUTION_OPTIONS

    return {"type": load.distribution} | {
        DISTRIBUTION_OPTIONS[name]: value for name, value in load.options()["parameters"].items() if name in DISTRIBUTION_OPTIONS
    }


def cache_bytes(place: OnServer) -> float:
    """Buffer pool or block cache of a server, bytes."""
    name = {"innodb": "innodb_buffer_pool_size", "myrocks": "rocksdb_block_cache_size"}[place.data.engine]
    return size_bytes(place.settings[name])


@dataclass(frozen=True)
class Simulated:
    """A cell as the model has it. `rows`: its seconds that count, t_s from their first; `tps`: mean over them."""

    tps: float
    p95_ms: float
    rows: pl.DataFrame


def simulate(cell: Cell, of: Mapping, here: Processors, day: str | None, start: str | float = "cold", form: str = "events") -> Simulated:
    """Every I/O of every client (`form` interval: second by second), its warm-up included and left out."""
    place = cell.place
    assert isinstance(place, OnServer)
    run = {
        "storage": place.storage, "log_storage": place.log_storage, "instance": here.instance, "as_of": day, "cache_bytes": cache_bytes(place), "clients": cell.threads,
        "arrivals": None, "start": "warm" if place.scan else start, "seconds": cell.warmup_s + cell.seconds, "step_s": 1.0, "seed": cell.seed,
        "start_balance_percent": place.balance_percent, "follow": None,
    }  # fmt: skip
    with core_errors():
        columns = core.mysql_clients(dict(of), run, None) if form == "events" else core.mysql_runs(dict(of), [run])[0]
    columns.pop("summary", None)
    rows = pl.DataFrame(columns)[cell.warmup_s :]
    return Simulated(statistics.fmean(rows["tps"]), float(rows["p95_ms"].median()), rows.with_columns(pl.col("t_s") - rows["t_s"][0]))


def simulate_all(
    cells: Sequence[Cell], here: Processors, day: str | None, progress: Progress, each_s: float = 0.5
) -> dict[tuple, Simulated]:
    """Every cell of sysbench OLTP."""
    found = {}
    for cell in cells:
        with progress.part(each_s, f"simulating {cell.words}"):
            found[cell.key] = simulate(cell, here.applied(database(cell)), here, day)
    return found
