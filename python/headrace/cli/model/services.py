"""`headrace predict --on`: a database on EC2, RDS and Aurora, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.options import Region
from headrace.cli.lazy import lazily
from headrace.cli.options import Output, option
from headrace.cli.output import print_csv, print_json, say, show
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.workload import TransactionWorkload

with lazily():
    from headrace.report.services import page, words
    from headrace.simulation import services as simulation_services

HELP = "headrace predict --help"


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Options of a comparison of services; without --on they have no effect."""

    on: Annotated[
        str | None,
        option(
            "SERVICES",
            "Compare services: ec2, rds, aurora, or one deployment such as rds:multi-az. Needs --instance; --storage is that of EC2 and RDS.",
        ),
    ] = None
    region: Region = "us-east-1"
    readers: Annotated[int, option("N", "With --on: readers of an Aurora cluster, its writer not counted.")] = 1
    busy_percent: Annotated[
        float, option("PERCENT", "With --on: how much of the month the load runs, for what is billed by use.")
    ] = 100.0


def refuse_alone(services: ServiceSettings) -> None:
    """Raises InputError: options that mean something with --on alone."""
    plain = ServiceSettings()
    for name in ("region", "readers", "busy_percent"):
        if getattr(services, name) != getattr(plain, name):
            flag = f"--{name.replace('_', '-')}"
            raise InputError(flag, "is an option of --on", HELP, "Add --on ec2,rds,aurora, or leave it out.")


def print_services(
    workload: TransactionWorkload,
    storage: str,
    settings: Any,
    services: ServiceSettings,
    output: Output,
    report: Path | None,
) -> None:
    """Compares and prints. `settings`: the `RunSettings` of `predict`."""
    if settings.instance is None:
        raise InputError(
            "--on", "needs --instance: a class is an instance type", HELP, "For example --instance r6g.2xlarge."
        )
    for name in ("log_storage", "start_balance_percent"):
        if getattr(settings, name) is not None:
            flag = f"--{name.removesuffix('_percent').replace('_', '-')}"
            raise InputError(flag, "means nothing with --on: services lay out their storage", HELP, "Leave it out.")
    if settings.vcpus is not None:
        raise InputError("--vcpus", "means nothing with --on: a class has its own", HELP, "Leave it out.")
    if settings.form != "interval":
        raise InputError("--form events", "is not there with --on", HELP, "Leave it out.")
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
        start=settings.start or "warm",
        **given,
    )
    possible = any(outcome.refusal is None for outcome in comparison.outcomes)
    if report is not None and possible:
        page.write_comparison(report, comparison)
        say(f"chart written to {report}")
    if output == "json":
        print_json(words.document(comparison))
    elif output == "csv":
        print_csv(words.csv_rows(comparison), words.CSV)
    else:
        show(words.view_of(comparison))
    if not possible:
        asked = ", ".join(outcome.deployment for outcome in comparison.outcomes)
        say(f"none of {asked} is possible with {settings.instance} and {storage}: nothing was predicted")
        if report is not None:
            say(f"{report} was not written: there is nothing to show")
        raise typer.Exit(1)
