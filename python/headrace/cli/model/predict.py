"""`headrace predict`: a database on a storage, on services side by side, or with a replica behind
it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import Region, StorageText, list_given
from headrace.cli.inputs import read_database
from headrace.cli.model.replica import ReplicaOptions, print_replica
from headrace.cli.options import (
    DatabaseArgument,
    Output,
    OutputOption,
    PageOrChartOption,
    SetOption,
    make_option,
)
from headrace.cli.output import print_csv, print_data, print_json, say, say_each, show, show_progress, write_report
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError, Refusals
from headrace.report.output import as_csv, check_chart_path
from headrace.simulation.settings import BusyPercent, PredictionSettings, Readers

if TYPE_CHECKING:
    from headrace.workload import TransactionWorkload

with defer_imports():
    from headrace.base import storage as base_storage
    from headrace.report import databases
    from headrace.report import services as service_report
    from headrace.simulation import database
    from headrace.simulation import services as simulation_services
    from headrace.workload import server_settings


refuse = Refusals("headrace predict --help")
# Settings of a prediction that a comparison of services does not have, and why.
NOT_WITH_ON = {
    "log_storage": "means nothing with --on: services lay out their storage",
    "start_balance_percent": "means nothing with --on: services lay out their storage",
    "vcpus": "means nothing with --on: a class has its own",
    "form": "is not there with --on",
}


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Options of a comparison of services; without --on they have no effect."""

    on: Annotated[
        str | None,
        make_option(
            "SERVICES",
            "Compare services: ec2, rds, aurora, or one deployment such as rds:multi-az. Needs --instance; --storage is that of EC2 and RDS.",
        ),
    ] = None
    region: Region = "us-east-1"
    readers: Readers = 1
    busy_percent: BusyPercent = 100.0


def refuse_without_on(services: ServiceSettings) -> None:
    """Raises InputError for an option of a comparison of services; called where --on is missing."""
    for setting in list_given(services):
        raise refuse.input(setting.flag, "is an option of --on", "Add --on ec2,rds,aurora, or leave it out.")


def print_services(
    workload: TransactionWorkload,
    storage: str,
    settings: PredictionSettings,
    services: ServiceSettings,
    output: Output,
    report: Path | None,
) -> None:
    """Compares a database on services, prints the comparison and writes its page; ends with exit
    code 1 where no service is possible. `settings`: those of `predict`. Raises InputError."""
    if settings.instance is None:
        raise refuse.input(
            "--on", "needs --instance: a class is an instance type", "For example --instance r6g.2xlarge."
        )
    for setting in list_given(settings):
        if (rule := NOT_WITH_ON.get(setting.name)) is not None:
            raise refuse.input(f"{setting.flag} {getattr(settings, setting.name)}", rule, "Leave it out.")
    given: dict[str, Any] = {
        name: getattr(settings, name)
        for name in ("instance", "as_of", "cache_gib", "threads", "arrivals_tps", "seed", "growth")
    }
    seconds = simulation_services.SECONDS if settings.seconds is None else settings.seconds
    if float(seconds).is_integer():
        seconds = int(seconds)
    comparison = simulation_services.compare(
        workload,
        storage,
        on=[name for name in (services.on or "").split(",") if name.strip()],
        region=services.region,
        readers=services.readers,
        busy_percent=services.busy_percent,
        seconds=seconds,  # pyright: ignore[reportArgumentType] (checked there: a whole number)
        start=settings.start or "warm",  # pyright: ignore[reportArgumentType] (checked there)
        **given,
    )
    possible = any(outcome.refusal is None for outcome in comparison.outcomes)
    write_report(report if possible else None, lambda: service_report.build_view(comparison))
    if output == "json":
        print_json(comparison)
    elif output == "csv":
        print_csv(service_report.list_csv_rows(comparison), service_report.CSV)
    else:
        show(service_report.build_view(comparison))
    if not possible:
        deployments = ", ".join(outcome.deployment for outcome in comparison.outcomes)
        say(f"none of {deployments} is possible with {settings.instance} and {storage}: nothing was predicted")
        if report is not None:
            say(f"{report} was not written: there is nothing to show")
        raise typer.Exit(1)


EPILOG = read_epilog("predict")


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
    refuse_without_on(services)
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
    """Predicts a database on a storage, prints the run and writes its page."""
    with show_progress("simulating") as tick:
        run = database.predict(workload, storage, **vars(replace(settings, progress=tick)))
    run = run.with_warnings(databases.list_log_warnings(run, workload))
    write_report(report, lambda: databases.build_view(run, workload))
    if output == "json":
        print_json(databases.build_document(run, workload))
    elif output == "csv":
        say_each("warning", run.warnings)
        print_data(as_csv(run.rows))
    else:
        show(*databases.describe_run(run, workload), "", databases.build_table(run))
