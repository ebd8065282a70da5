"""`headrace export`: what is watched, for Prometheus, OpenTelemetry and Grafana."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.base.files import write_whole
from headrace.base.lazy import defer_imports
from headrace.cli.operate.common import TargetsArgument, TodayOptions
from headrace.cli.options import CommandGroup, LabPlace, PasswordOptions, make_option
from headrace.cli.output import print_data, say
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import WRITES_FILE

with defer_imports():
    from headrace.lab import exporter
    from headrace.operate.exports import alerts as exports_alerts
    from headrace.operate.exports import grafana as exports_grafana
    from headrace.operate.exports import otlp as exports_otlp
    from headrace.operate.exports import prometheus as exports_prometheus
    from headrace.operate.exports import serving
    from headrace.operate.watching import light

EPILOG = read_epilog("export")

app = CommandGroup("Export what is watched to Prometheus, OpenTelemetry and Grafana.", EPILOG)


@app.command()
def prometheus(
    targets: TargetsArgument,
    place: LabPlace,
    password: PasswordOptions,
    today: TodayOptions,
    listen: Annotated[str, make_option("ADDRESS", "127.0.0.1:PORT, port 0 for a free one.")] = "127.0.0.1:9481",
) -> None:
    """Serve the metrics of targets for Prometheus on this machine, until Ctrl-C."""
    light.import_late()

    listener = serving.open_listener(listen)
    sources = serving.Targets(targets, today.make_source_options(place, password))
    sources.start()
    exposition = serving.ExpositionText(lambda: exports_prometheus.build_exposition(sources.list_moments()))
    exporter.serve(listener, exposition.text, lambda url: say(f"metrics: {url}"))


@app.command()
def otlp(
    targets: TargetsArgument,
    place: LabPlace,
    password: PasswordOptions,
    today: TodayOptions,
    endpoint: Annotated[str, make_option("URL", "The collector, OTLP over HTTP.")] = "http://127.0.0.1:4318/v1/metrics",
    every: Annotated[float, make_option("S", "Seconds between two pushes.", min=1)] = 15.0,
    seconds: Annotated[int | None, make_option("N", "End after N seconds. Default: at Ctrl-C.", min=1)] = None,
) -> None:
    """Send the metrics of targets to a collector of OpenTelemetry. Needs the extra `otlp`."""
    light.import_late()

    collector = exports_otlp.OtlpCollector(endpoint)
    sources = serving.Targets(targets, today.make_source_options(place, password))
    sources.start()
    begin_s, was_accepted = time.monotonic(), True
    while True:
        is_accepted = collector.send(sources.list_moments())
        if is_accepted != was_accepted:
            say(
                f"otlp: {endpoint} {'takes metrics again' if is_accepted else 'does not take metrics; it is tried again'}"
            )
        was_accepted = is_accepted
        pause_s = every if seconds is None else min(every, begin_s + seconds - time.monotonic())
        if pause_s <= 0:
            raise typer.Exit(0 if is_accepted else 3)
        time.sleep(pause_s)


@app.command()
def template(
    kind: Annotated[
        Literal["grafana", "alerts"],
        typer.Argument(metavar="grafana|alerts", help="A Grafana dashboard, or alert rules of Prometheus."),
    ],
    to: Annotated[
        Path | None, make_option("FILE", "Write it there. Default: stdout.", "--to", "-o"), WRITES_FILE
    ] = None,
) -> None:
    """Write the Grafana dashboard as JSON to import, or alert rules for Prometheus: on after a
    minute, off after three."""
    if kind == "grafana":
        text = json.dumps(exports_grafana.build_dashboard(), indent=2) + "\n"
    else:
        text = exports_alerts.build_rules_file()
    if to is None:
        print_data(text)
        return
    write_whole(to, text.encode())
    say(f"written: {to}")
