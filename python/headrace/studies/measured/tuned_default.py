"""Tuned against default: the whitepaper's two servers (its table 3) and Headrace's advice, measured
on a scaled database."""

from __future__ import annotations

import math

from headrace.advice import tune_settings
from headrace.base.units import MIB
from headrace.bench import SysbenchOltp
from headrace.experiment.cell import SERVER_CELL_S, Cell, DataSet, OnServer, compute_seconds_each
from headrace.experiment.run import MeasuredCell
from headrace.experiment.simulate import SimulatedCell
from headrace.servers import find_program
from headrace.studies import whitepaper_2017 as model
from headrace.studies.base import ChartData, StudyTable, Verdict, make_role_series, tabulate
from headrace.studies.measured import tables, verdicts
from headrace.studies.measured.session import (
    DIRECT_COLD_POOL,
    Judgement,
    LabOptions,
    Session,
    compute_rows_gib,
    estimate_loading_s,
)

STUDY, WORDS = model.STUDY, "tuned_default"
DAY = model.DAY
ENGINES = ("innodb",)

# One of the paper's tables (studies/whitepaper_2017.py says why one); what ten minutes allow of it.
AUTO_SCALE = 1 / 20
# The least that the server takes.
LEAST_POOL_MIB, LEAST_REDO_MIB = 6, 4
# 1,024 clients keep a server as busy as 64 do here, and cost this machine memory that is not their
# load.
THREADS = 64
SECONDS, WARMUP_S = (15, 120), 8  # guesses
# Table 3 without pool and redo, as MariaDB knows it. O_DIRECT in both: the memory of this machine
# would otherwise be the default server's cache.
COMMON = DIRECT_COLD_POOL | {"innodb_flush_log_at_trx_commit": "1"}
SERVERS = {
    "default": "the default server",
    "tuned": "table 3's tuned server",
    "advice": "Headrace's advice for this storage and memory",
}
# exp(2 sd) of what the standard database does not know of the rate at which pages are flushed (sd
# of its logarithm 0.5, docs/semantics.md), which binds the tuned server.
SPREAD = math.exp(2.0 * 0.5)


def count_rows(options: LabOptions) -> int:
    """Returns the rows of the single table."""
    return max(10_000, round(model.ROWS * options.choose_scale(AUTO_SCALE)))


def data_gib(options: LabOptions) -> float:
    """Returns the size of the table, GiB."""
    return compute_rows_gib(count_rows(options))


def make_settings(server: str, storage: str, options: LabOptions) -> dict[str, str]:
    """Returns the settings of `default`, `tuned` or `advice`, scaled."""
    scale = options.choose_scale(AUTO_SCALE)
    # 193 GiB hold the table many times over; so does this, without taking the machine's memory.
    all_of_it = max(
        LEAST_POOL_MIB, math.ceil(min(model.SERVERS["tuned"][0] * scale / MIB, 1.5 * data_gib(options) * 1024 + 64))
    )
    if server == "advice":
        program = find_program("mariadb")
        advised = tune_settings(
            storage=storage, memory_gib=max(0.25, all_of_it / 768), flavor=program.flavor, version=program.version
        )
        # Buffer pool of the paper's tuned server, so that only the other settings differ.
        return dict(advised) | COMMON | {"innodb_buffer_pool_size": f"{all_of_it}M"}
    pool, redo = model.SERVERS[server]
    pool_mib = all_of_it if server == "tuned" else max(LEAST_POOL_MIB, round(pool * scale / MIB))
    return COMMON | {
        "innodb_buffer_pool_size": f"{pool_mib}M",
        "innodb_log_file_size": f"{max(LEAST_REDO_MIB, round(redo * scale / MIB))}M",
    }


def cells(options: LabOptions) -> list[Cell]:
    """Returns three servers on both volumes of the paper; quick: two on io1."""
    storages = model.VOLUMES[-1:] if options.quick else model.VOLUMES
    servers = ("default", "tuned") if options.quick else tuple(SERVERS)
    # Table 4's totals: 10 selects and 4 writes a transaction, no ranges.
    shape = {
        "point_selects": 10,
        "simple_ranges": 0,
        "sum_ranges": 0,
        "order_ranges": 0,
        "distinct_ranges": 0,
        "index_updates": 1,
        "non_index_updates": 1,
        "delete_inserts": 1,
    }
    load = SysbenchOltp(tables=1, rows=count_rows(options), distribution="uniform", shape=shape)
    data = DataSet(
        "sbtest", SysbenchOltp(tables=1, rows=count_rows(options), distribution="uniform"), data_gib(options)
    )
    count = len(storages) * len(servers)
    seconds = compute_seconds_each(
        options.time_s, estimate_loading_s(data.gib), count, SERVER_CELL_S + WARMUP_S + 4.0, *SECONDS
    )
    all_cells = []
    for storage in storages:
        for server in servers:
            # The tuned pool is full after a minute of the paper's hour; here it is read in
            # beforehand.
            place = OnServer(data, storage, make_settings(server, storage, options), scan=server != "default")
            all_cells.append(
                Cell((server, storage), f"{server} on {storage}", place, load, THREADS, WARMUP_S, seconds, options.seed)
            )
    return all_cells


def judge(session: Session, measured: dict[tuple, MeasuredCell], simulated: dict[tuple, SimulatedCell]) -> Judgement:
    """Compares the ratio on each volume with table 4's."""
    paper = model.FIGURES
    storages = tuple(dict.fromkeys(storage for _, storage in measured))
    published = paper["tuned_tps"].value / paper["default_tps"].value
    all_verdicts = []
    for storage in storages:
        tuned, default, advice = (("tuned", storage), ("default", storage), ("advice", storage))
        pair = verdicts.compare_cells(storage, measured, simulated, tuned, default, published)
        all_verdicts.append(
            verdicts.judge_winner(f"tuned beats default on {storage}", "approximately 16 times", [pair], model.PAPER)
        )
        all_verdicts.append(_judge_ratio(storage, pair, measured))
        if advice in measured:
            advised = verdicts.compare_cells(storage, measured, simulated, advice, default)
            what = f"Headrace's advice beats default on {storage}"
            all_verdicts.append(verdicts.judge_winner(what, "not published", [advised], model.PAPER))
    all_verdicts.append(verdicts.compare_with_model(simulated, measured, model.PAPER))
    options = session.options
    small, large = (make_settings(server, model.VOLUMES[-1], options) for server in ("default", "tuned"))
    values = {
        "published_rows": model.ROWS,
        "rows": count_rows(options),
        "scale": options.choose_scale(AUTO_SCALE),
        "default_pool": small["innodb_buffer_pool_size"],
        "tuned_pool": large["innodb_buffer_pool_size"],
        "default_redo": small["innodb_log_file_size"],
        "tuned_redo": large["innodb_log_file_size"],
        "least_redo_mib": LEAST_REDO_MIB,
        "volumes": ", ".join(model.VOLUMES),
        "clients": model.CLIENTS,
        "threads": THREADS,
    }
    return Judgement(all_verdicts, _draw_charts(measured, simulated, storages), values, [_tabulate_settings(measured)])


def _judge_ratio(storage: str, pair: verdicts.Pair, measured: dict[tuple, MeasuredCell]) -> Verdict:
    """Judges the ratio within the simulation's own doubt. There is no lower bound but 1 if the
    tuned server ended at the processors: those of this machine, or others' work on them, limit it.
    """
    ends = {server: tables.binds(measured[server, storage]) for server in ("tuned", "default")}
    low, high = pair.simulated / SPREAD, pair.simulated * SPREAD
    why = (
        f"the simulation of this scale, a factor of {SPREAD:.1f} either way for the flushing rate the "
        f"standard database guesses; the tuned server ends at {ends['tuned']}, the default one at {ends['default']}"
    )
    if ends["tuned"] == tables.PROCESSORS:
        low, why = 1.0, f"{why}: so no more is asked than that it wins"
    return verdicts.judge_ratio(f"tuned over default on {storage}", pair, max(1.0, low), high, model.PAPER, why)


def _tabulate_settings(measured: dict[tuple, MeasuredCell]) -> StudyTable:
    """Tabulates the settings of each server as they were run."""
    rows = [
        (
            SERVERS[server],
            storage,
            ", ".join(f"{name}={value}" for name, value in sorted(measurement.cell.server.settings.items())),
        )
        for (server, storage), measurement in measured.items()
    ]
    return tabulate("Settings", "server | storage | settings", rows)


def _draw_charts(measured: dict, simulated: dict, storages: tuple) -> list[ChartData]:
    """Draws the tps of both servers and their ratio on each storage: published, simulated,
    measured."""
    paper = model.FIGURES
    charts = []
    for storage in storages:
        names = tuple(server for server, place in measured if place == storage)
        published_servers = tuple(name for name in names if name in model.SERVERS)
        series = (
            *make_role_series(published_servers, published=[paper[f"{name}_tps"].value for name in published_servers]),
            *tables.make_tps_series(names, [(name, storage) for name in names], measured, simulated),
        )
        title = f"{storage}: published at full size on 32 vCPUs, simulated and measured at this scale"
        charts.append(ChartData(title, "bar", "server", "tps", series))
        ratios = make_role_series(
            ("tuned over default",),
            published=(paper["tuned_tps"].value / paper["default_tps"].value,),
            simulated=(simulated["tuned", storage].tps / simulated["default", storage].tps,),
            measured=(measured["tuned", storage].tps / measured["default", storage].tps,),
        )
        charts.append(ChartData(f"{storage}: the ratio", "bar", "", "times", ratios))
    return charts
