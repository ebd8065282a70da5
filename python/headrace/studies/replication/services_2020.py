"""RDS and Aurora with 1, 16 and 128 clients (2020), published and ours side by side."""

from __future__ import annotations

from headrace.base import core
from headrace.studies import base
from headrace.studies.replication.replication_2016 import (
    AIM_PERCENT,
    HELD_OUT,
    RDS_2020,
    STUDY_2020_CACHE_GIB,
    STUDY_2020_DAY,
    STUDY_2020_INSTANCE,
    make_tpcc_database,
    select_rows,
    simulate_last_second,
)

STUDY = base.read_study("services_2020")
(PERCONA,) = STUDY.sources
WAREHOUSES = 500  # 5 tables of 100, as published
DEPLOYMENTS = {"aurora": "aurora:standard", "rds": "rds:single-az"}
# Storage that RDS sold then; that of the published runs is not stated.
STORAGES = (RDS_2020, "gp2:400", "gp2:3000", "io1:900:5000", "io1:900:20000")
STEPS = 6 + 3 * (len(STORAGES) - 1)


def _simulate(database: dict, service: str, clients: int, storage: str) -> dict:
    """Returns the figures of the last second of a service in the study of 2020."""
    place = (STUDY_2020_INSTANCE, STUDY_2020_DAY, STUDY_2020_CACHE_GIB)
    return simulate_last_second(database, DEPLOYMENTS[service], *place, clients, storage if service == "rds" else "")


def _find_published_runs(service: str, metric: str) -> dict[int, core.PublishedRun]:
    """Returns the published runs of a service by number of clients."""
    rows = select_rows(HELD_OUT, service, metric)
    return {clients: row for row in rows if (clients := row["clients"]) is not None}


def run(progress: base.Progress | None = None) -> base.StudyResult:
    """Runs all of it in some seconds."""
    steps, database = base.StepProgress(STEPS, progress), make_tpcc_database(WAREHOUSES)
    verdicts: list[base.Verdict] = []
    rows: list[tuple] = []
    charts: list[base.ChartData] = []
    tps_by_service: dict[str, dict[int, tuple[float, float]]] = {}
    for service, deployment in DEPLOYMENTS.items():
        tps, p95 = _find_published_runs(service, "tps"), _find_published_runs(service, "p95_ms")
        pairs = tps_by_service.setdefault(service, {})
        for clients, row in tps.items():
            simulated = _simulate(database, service, clients, RDS_2020)
            pairs[clients] = (row["value"], simulated["tps"])
            fitted = service == "rds" and clients == 1
            note = "fitted" if fitted else f"limited by {simulated['cap']}"
            figure = base.Figure(row["value"], row["unit"], PERCONA)
            what = f"{deployment}, {clients} client{'s' if clients > 1 else ''}"
            verdicts.append(base.compare(what, figure, simulated["tps"], None if fitted else AIM_PERCENT, note))
            error = f"{base.compute_error_percent(simulated['tps'], row['value']):+.0f} %"
            published_p95_ms = p95[clients]["value"]
            cells = (
                deployment,
                clients,
                row["value"],
                round(simulated["tps"]),
                error,
                published_p95_ms,
                round(simulated["p95_ms"]),
            )
            rows.append((*cells, simulated["cap"]))
            steps.step()
        x, published, predicted = zip(*((clients, *pair) for clients, pair in pairs.items()), strict=True)
        drawn = base.make_role_series(x, published=published, simulated=predicted)
        charts.append(base.ChartData(f"{deployment}, sysbench-tpcc", "line", "clients", "transactions a second", drawn))
    verdicts += [_judge_order(tps_by_service, clients) for clients in tps_by_service["rds"]]
    names = "service | clients | published tps | ours | error | published p95 ms | ours, ms | limited by"
    tables = (base.tabulate("sysbench-tpcc on db.r5.xlarge", names, rows), _tabulate_storages(database, steps))
    notes = base.read_notes("services_2020", storage=RDS_2020)
    return base.StudyResult(STUDY, tuple(verdicts), tables, tuple(charts), notes)


def _judge_order(tps: dict[str, dict[int, tuple[float, float]]], clients: int) -> base.Verdict:
    """Judges whether the service with more tps is the published one. `tps`: (published, simulated)
    by service and clients."""
    words = ["Aurora" if tps["aurora"][clients][which] > tps["rds"][clients][which] else "RDS" for which in (0, 1)]
    what = f"does more with {clients} client{'s' if clients > 1 else ''}"
    return base.judge_answers(what, words[0], words[1], PERCONA, words[0] == words[1])


def _tabulate_storages(database: dict, steps: base.StepProgress) -> base.StudyTable:
    """Returns the table of RDS on other storage: none is stated."""
    rows = []
    for storage in STORAGES:
        runs = [_simulate(database, "rds", clients, storage) for clients in (1, 16, 128)]
        rows.append((storage, *(round(run["tps"]) for run in runs), runs[-1]["cap"]))
        steps.step()
    published = [_find_published_runs("rds", "tps")[clients]["value"] for clients in (1, 16, 128)]
    rows.append(("published, not stated", *published, ""))
    names = "storage of RDS | 1 client | 16 clients | 128 clients | limited by, 128 clients"
    return base.tabulate("RDS on other storage (simulated)", names, rows)
