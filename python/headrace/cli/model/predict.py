"""`headrace predict`: a database in transactions on a storage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.base.options import StorageText
from headrace.cli.inputs import read_database
from headrace.cli.lazy import lazily
from headrace.cli.model.replica import ReplicaOptions, print_replica
from headrace.cli.model.services import ServiceSettings, print_services, refuse_alone
from headrace.cli.options import (
    DatabaseArgument,
    Output,
    OutputOption,
    PageOrChartOption,
    SetOption,
)
from headrace.cli.output import data, print_json, progress, say, show
from headrace.errors import InputError
from headrace.report.output import as_csv, check_chart_path
from headrace.simulation.settings import PredictionSettings

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


def predict(
    *,
    workload: DatabaseArgument,
    storage: StorageText,
    settings: PredictionSettings,
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
    settings: PredictionSettings,
    replica: ReplicaOptions,
    output: Output,
    report: Path | None,
) -> None:
    """Predicts and prints the database, or its replica where one is asked for."""
    replica.check()
    if replica.replica is None:
        return print_prediction(workload, storage, settings, output, report)
    print_replica(workload, storage, settings, replica, output, report)


def print_prediction(
    workload: TransactionWorkload, storage: str, settings: PredictionSettings, output: Output, report: Path | None
) -> None:
    """Predicts and prints."""
    with progress("simulating") as tick:
        run = database.predict(workload, storage, **vars(replace(settings, progress=tick)))
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
