"""`headrace predict`: a database in transactions on a storage."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from headrace.base.options import AsOfText, Growth, InstanceType, Seed, StartBalance, StorageText
from headrace.cli.inputs import read_database
from headrace.cli.lazy import lazily
from headrace.cli.model.replica import REPLICA_SECONDS, ReplicaOptions, print_replica
from headrace.cli.model.services import ServiceSettings, print_services, refuse_alone
from headrace.cli.options import (
    DatabaseArgument,
    Output,
    OutputOption,
    PageOrChartOption,
    SetOption,
    choice,
    option,
    storage_option,
)
from headrace.cli.output import data, print_json, progress, say, show
from headrace.errors import InputError
from headrace.report.output import as_csv, check_chart_path

if TYPE_CHECKING:
    from headrace.workload import TransactionWorkload

with lazily():
    from headrace.base import storage as base_storage
    from headrace.report import databases
    from headrace.simulation import database
    from headrace.workload import server_settings

EPILOG = """\b
Examples:
  headrace predict shop.toml --storage gp3:500:6000
  headrace predict shop.toml --storage io1:1024:5000 --cache-gib 27 --threads 32 --start warm --output csv
  headrace predict sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16 --storage gp2:1200 --report run.html
  headrace predict shop.toml --storage gp3:500 --set innodb_io_capacity=2000 --set sync_binlog=0
  headrace predict shop.toml --storage gp3:500 --on ec2,rds,aurora --instance r6g.2xlarge      services side by side
  headrace predict shop.toml --storage gp3:500:6000 --replica gp3:500:3000 --workers 4 --report lag.html
  headrace predict shop.toml --storage gp3:500:6000 --replica gp3:500 --replica-version mariadb-10.11 --semi-sync 0.5

A row per second: transactions a second, percentiles of response times, IOPS, MiB/s, balances, the bottleneck,
dirty and cached share. The table shows them shortened; csv and json have every row. A demand of I/Os is run by
`headrace simulate`. Exit code 1: with --on, none of the services is possible."""

DATABASE_SECONDS = 3_600  # an hour: a cold cache has filled on most storages
EVENTS_SECONDS = 60  # every I/O of every client: about as long as such a run takes


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of `headrace.predict`; a length of None is the usual one."""

    log_storage: Annotated[str | None, storage_option("A volume of their own for redo and binlog.")] = None
    instance: InstanceType = None
    vcpus: Annotated[
        int | None,
        option("N", "Virtual CPUs the server may use. Default: the instance's; without one, those of the runs."),
    ] = None
    as_of: AsOfText = None
    cache_gib: Annotated[float | None, option("GIB", "Buffer pool or block cache. Default: as measured.")] = None
    threads: Annotated[int | None, option("N", "Clients. Default: as measured.")] = None
    arrivals_tps: Annotated[
        float | None, option("TPS", "This many transactions arrive a second, instead of clients that wait.")
    ] = None
    start: Annotated[
        Literal["cold", "warm"] | None,
        choice("The cache at the start: empty, or as full as it gets. Default: cold; warm with --on."),
    ] = None
    seconds: Annotated[float | None, option("S", "Length of the run. Default: 3,600; 60 with --form events.")] = None
    seed: Seed = 1
    start_balance_percent: StartBalance = None
    growth: Growth = 1.0
    form: Annotated[
        Literal["interval", "events"], choice("Simulate whole seconds, or every I/O of every client (events).")
    ] = "interval"


def predict(
    *,
    workload: DatabaseArgument,
    storage: StorageText,
    settings: RunSettings,
    services: ServiceSettings,
    replica: ReplicaOptions,
    server: SetOption = None,
    output: OutputOption = "table",
    report: PageOrChartOption = None,
) -> None:
    """Run a database (from `headrace calibrate`, or a standard benchmark) on a storage:
    transactions a second."""
    check_chart_path(report)
    load = server_settings.with_settings(read_database(workload), server or [])
    if settings.arrivals_tps is not None and settings.threads is not None:
        rule = "is for clients that wait; with --arrivals-tps none does"
        raise InputError("--threads", rule, "headrace predict --help", "Leave it out.")
    where = base_storage.Storage.parse(storage).text
    if services.on is not None:
        if replica.replica is not None:
            rule = "is not there with --on: a service has readers of its own"
            raise InputError("--replica", rule, "headrace predict --help", "Leave one of the two out.")
        return print_services(load, where, settings, services, output, report)
    refuse_alone(services)
    predict_load(load, where, settings, replica, output, report)


def predict_load(
    workload: TransactionWorkload,
    storage: str,
    settings: RunSettings,
    replica: ReplicaOptions,
    output: Output,
    report: Path | None,
) -> None:
    """Predicts and prints the database, or its replica where one is asked for."""
    replica.check()
    if replica.replica is None:
        return print_prediction(workload, storage, settings, output, report)
    seconds = whole_seconds(settings.seconds, REPLICA_SECONDS)
    print_replica(
        workload,
        storage,
        vars(settings) | {"seconds": seconds, "start": settings.start or "cold"},
        replica,
        output,
        report,
    )


def print_prediction(
    workload: TransactionWorkload, storage: str, settings: RunSettings, output: Output, report: Path | None
) -> None:
    """Predicts and prints."""
    seconds = whole_seconds(settings.seconds, EVENTS_SECONDS if settings.form == "events" else DATABASE_SECONDS)
    given: dict[str, Any] = vars(settings) | {"seconds": seconds, "start": settings.start or "cold"}
    with progress("simulating") as tick:
        run = database.predict(workload, storage, progress=tick, **given)
    run = run.with_warnings(databases.log_warnings(run, workload))
    if report is not None:
        databases.write_prediction(report, run, workload)
        say(f"chart written to {report}")
    if output == "json":
        print_json(databases.document(run, workload))
    elif output == "csv":
        for text in run.warnings:
            say(f"warning: {text}")
        data(as_csv(run.rows))
    else:
        show(*databases.in_words(run, workload), "", databases.table_of(run))


def whole_seconds(seconds: float | None, otherwise: int) -> int:
    """Length of a prediction: a row a second. Raises InputError."""
    if seconds is None:
        return otherwise
    if not 1 <= seconds <= database.MAX_SECONDS or seconds != int(seconds):
        rule = f"must be a whole number from 1 to {database.MAX_SECONDS:,}: a row is a second"
        raise InputError(f"seconds = {seconds:,.10g}", rule, "headrace predict --help", "For example 3600.")
    return int(seconds)
