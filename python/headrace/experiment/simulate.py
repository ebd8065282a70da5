"""Simulates cells before any of them is run, on as many processors as this machine has. The
database is the standard one, with processor time and round trip of a statement as two runs measured
them here."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.options import as_bytes
from headrace.base.units import GIB
from headrace.bench import SysbenchOltp
from headrace.bench.drivers.sysbench_oltp import SHAPES, STATEMENTS
from headrace.experiment import machine
from headrace.experiment.cell import Cell, DataSet, OnServer, Parts
from headrace.experiment.data import CACHE_SETTING
from headrace.experiment.run import MeasuredCell
from headrace.experiment.standin import describe_distribution

# Two runs separate a statement's processor time (many clients) from its round trip (one client), on
# a volume that does not bind. The standard database has both from a published table.
PROBE_ROWS, PROBE_POOL, PROBE_STORAGE = 20_000, "256M", "io1:1000:20000"
PROBE_WARM_S, PROBE_S = 2, 5  # guesses
# Clients for each processor: enough that none of them waits for a client (a guess).
PROBE_CLIENTS_EACH = 8
# About how long simulating one cell takes, s (measured).
SIMULATE_S = 0.5
# Options of the OLTP scripts that are numbers of statements in a transaction.
STATEMENT_COUNTS = tuple(name for name, span in SHAPES.items() if span == STATEMENTS)


@dataclass(frozen=True)
class ProcessorSpeed:
    """The time of a point select on this machine: `cpu_ms` of one processor while all are at work,
    client and lab included; `trip_ms`: the rest of the round trip. `instance`, `vcpus`: an EC2
    instance of this size, whose EBS limits do not bind. `runs`: the runs that measured the times.
    """

    cpu_ms: float
    trip_ms: float
    instance: str
    vcpus: int
    runs: tuple[MeasuredCell, ...] = ()

    def apply_speed(self, database: Mapping) -> dict:
        """Returns a standard database with the processor time and round trips of this machine."""
        scaled, standard = deepcopy(dict(database)), _get_point_select()
        clients = scaled["clients"]
        # A transaction counts as point selects, by their processor time.
        selects = clients["cpu_ms"] / standard["cpu_ms"]
        # In time of the instance's vCPUs, which may be more than there are here.
        cpu_here = selects * self.cpu_ms * self.vcpus / machine.count_cores()
        # Processor time was measured here, so the speed of that instance's cores does not apply.
        clients |= {"cpu_ms": cpu_here, "core_speed": None}
        # The standard's clients are on the server's host, where a round trip is processor time:
        # what one takes beyond it here comes to every statement.
        clients["base_ms"] = core.core_ms(clients) + selects * self.trip_ms
        return scaled


def _get_point_select() -> core.Clients:
    with translate_core_errors():
        return core.mysql_sysbench({"script": "oltp_point_select"})["database"]["clients"]


def make_probe_cells(seed: int) -> tuple[Cell, ...]:
    """Returns a cell with a single client, then one with many, on tables that fit the pool."""
    load = SysbenchOltp("oltp_point_select", tables=1, rows=PROBE_ROWS, distribution="uniform")
    settings = {"innodb_buffer_pool_size": PROBE_POOL}
    place = OnServer(DataSet("probe", load, 0.01), PROBE_STORAGE, settings, scan=True)
    return tuple(
        Cell((count,), f"{count} clients, all in memory", place, load, count, PROBE_WARM_S, PROBE_S, seed)
        for count in (1, PROBE_CLIENTS_EACH * machine.count_cores())
    )


def derive_speed(single_client: MeasuredCell, many_clients: MeasuredCell, day: str) -> ProcessorSpeed:
    """Returns the speed of this machine from the runs of `make_probe_cells`: with many clients all
    processors are busy; the response time of a single one is processor time and round trip."""
    cpu_ms = 1e3 * machine.count_cores() / many_clients.tps
    trip_ms = max(1e-3, 1e3 / single_client.tps - core.core_ms({**_get_point_select(), "cpu_ms": cpu_ms}))
    instance, vcpus = machine.choose_instance(day)
    return ProcessorSpeed(cpu_ms, trip_ms, instance, vcpus, (single_client, many_clients))


def make_database(cell: Cell) -> core.Database:
    """Returns the standard database of a sysbench OLTP cell under its settings."""
    place, load = cell.place, cell.benchmark
    assert isinstance(place, OnServer) and isinstance(load, SysbenchOltp)
    settings = {key.replace("-", "_"): value for key, value in place.settings.items() if value is not None}
    options = {
        "script": load.script,
        "distribution": describe_distribution(load),
        "statements": {key: int(value) for key, value in load.shape.items() if key in STATEMENT_COUNTS},
        "engine": place.data.engine,
        "tables": load.tables,
        "table_size": load.rows,
        "threads": cell.threads,
        "cache_gib": get_cache_bytes(place) / GIB,
        "log_bin": False,
        "flush_log_at_trx_commit": int(settings.get("innodb_flush_log_at_trx_commit", "1")),
    }
    if "innodb_log_file_size" in settings:
        options["redo_gib"] = (as_bytes(settings["innodb_log_file_size"]) or 0.0) / GIB
    if "innodb_io_capacity" in settings:
        options["io_capacity"] = float(settings["innodb_io_capacity"])
    if "innodb_doublewrite" in settings:
        options["doublewrite"] = settings["innodb_doublewrite"].upper() in ("ON", "1")
    with translate_core_errors():
        return core.mysql_sysbench(options)["database"]


def get_cache_bytes(place: OnServer) -> float:
    """Returns the size of a server's buffer pool or block cache, bytes."""
    return as_bytes(place.settings[CACHE_SETTING[place.data.engine]]) or 0.0


@dataclass(frozen=True)
class SimulatedCell:
    """The simulation of a cell. `rows`: its seconds after the warm-up, `t_s` from the first of
    them; `tps`: their mean; `p95_ms`: the median of their 95th percentiles of response times."""

    tps: float
    p95_ms: float
    rows: pl.DataFrame


def simulate(
    cell: Cell,
    database: Mapping,
    speed: ProcessorSpeed,
    day: str | None,
    start: str | float = "cold",
    form: str = "events",
) -> SimulatedCell:
    """Simulates a cell with a database, I/O by I/O (with the form "interval" second by second), on
    the processors of `speed`. The warm-up is simulated too, and left out of the rows."""
    place = cell.place
    assert isinstance(place, OnServer)
    run = {
        "storage": place.storage,
        "log_storage": place.log_storage,
        "instance": speed.instance,
        "as_of": day,
        "cache_bytes": get_cache_bytes(place),
        "clients": cell.threads,
        "start": "warm" if place.scan else start,
        "seconds": cell.warmup_s + cell.seconds,
        "step_s": 1.0,
        "seed": cell.seed,
        "start_balance_percent": place.balance_percent,
        "snapshot_bytes": round(place.data.gib * GIB) if place.restored == "cold" else None,
    }
    with translate_core_errors():
        columns = (
            core.mysql_clients(dict(database), run, None)
            if form == "events"
            else core.mysql_runs(dict(database), [run])[0]
        )
    columns.pop("summary", None)
    rows = pl.DataFrame(columns)[cell.warmup_s :]
    counted = rows.with_columns(pl.col("t_s") - rows["t_s"][0])
    return SimulatedCell(
        statistics.fmean(rows["tps"]), float(np.median(rows["p95_ms"].drop_nulls().to_numpy())), counted
    )


def simulate_all(
    cells: Sequence[Cell], speed: ProcessorSpeed, day: str | None, parts: Parts
) -> dict[tuple, SimulatedCell]:
    """Simulates cells of sysbench OLTP and returns the simulations by key."""
    simulated = {}
    for cell in cells:
        with parts.begin_part(SIMULATE_S, f"simulating {cell.words}"):
            simulated[cell.key] = simulate(cell, speed.apply_speed(make_database(cell)), speed, day)
    return simulated
