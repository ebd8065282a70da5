"""`headrace export`: what is watched, for Prometheus, OpenTelemetry and Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.operate.common import TargetsArgument, TodayOptions
from headrace.cli.options import CommandGroup, LabPlace, PasswordOptions, option
from headrace.cli.output import data, say
from headrace.cli.writing import WRITES_FILE

EPILOG = """\b
Examples:
  headrace export prometheus lab:db                          http://127.0.0.1:9481/metrics, until Ctrl-C
  headrace export prometheus mysql://watcher@db1 --defaults-file ~/.my.cnf
  headrace export otlp lab:db --endpoint http://127.0.0.1:4318/v1/metrics
  headrace export grafana --to headrace.json                 import it in Grafana: Dashboards, New, Import
  headrace export alerts --to headrace.rules.yml             rule_files of Prometheus 2.42 and newer

Names are those of the EBS CSI driver (aws_ebs_csi_*) where they mean the same. docs/guide/exports.md has all of them."""

app = CommandGroup("Export what is watched to Prometheus, OpenTelemetry and Grafana.", EPILOG)

ToOption = Annotated[Path | None, option("FILE", "Write it there. Default: stdout.", "--to", "-o"), WRITES_FILE]


@app.command()
def prometheus(
    targets: TargetsArgument,
    place: LabPlace,
    password: PasswordOptions,
    today: TodayOptions,
    listen: Annotated[str, option("ADDRESS", "127.0.0.1:PORT, port 0 for a free one.")] = "127.0.0.1:9481",
) -> None:
    """Serve the metrics of targets for Prometheus on this machine, until Ctrl-C."""
    from headrace.operate.watching.light import import_late

    import_late()
    from headrace.operate.exports import serving
    from headrace.operate.exports.prometheus import exposition

    listener = serving.listener(listen)
    followed = serving.Targets(targets, today.source(place, password))
    followed.start()
    written = serving.Written(lambda: exposition(followed.moments()))
    serving.serve(listener, written.text, lambda url: say(f"metrics: {url}"))


@app.command()
def otlp(
    targets: TargetsArgument,
    place: LabPlace,
    password: PasswordOptions,
    today: TodayOptions,
    endpoint: Annotated[str, option("URL", "The collector, OTLP over HTTP.")] = "http://127.0.0.1:4318/v1/metrics",
    every: Annotated[float, option("S", "Send this often.", min=1)] = 15.0,
    seconds: Annotated[int | None, option("N", "End after N seconds. Default: at Ctrl-C.", min=1)] = None,
) -> None:
    """Send the metrics of targets to a collector of OpenTelemetry. Needs the extra `otlp`."""
    import time

    from headrace.operate.watching.light import import_late

    import_late()
    from headrace.operate.exports import serving
    from headrace.operate.exports.otlp import OtlpCollector

    collector = OtlpCollector(endpoint)
    followed = serving.Targets(targets, today.source(place, password))
    followed.start()
    began, was = time.monotonic(), True
    while True:
        taken = collector.send(followed.moments())
        if taken != was:
            say(f"otlp: {endpoint} {'takes metrics again' if taken else 'does not take metrics; it is tried again'}")
        was = taken
        pause_s = every if seconds is None else min(every, began + seconds - time.monotonic())
        if pause_s <= 0:
            raise typer.Exit(0 if taken else 3)
        time.sleep(pause_s)


@app.command()
def grafana(to: ToOption = None) -> None:
    """Write the Grafana dashboard, as JSON to import."""
    import json

    from headrace.operate.exports.grafana import dashboard

    _write(json.dumps(dashboard(), indent=2) + "\n", to)


@app.command()
def alerts(to: ToOption = None) -> None:
    """Write alert rules for Prometheus: on after a minute, off after three."""
    from headrace.operate.exports.alerts import rules_file

    _write(rules_file(), to)


def _write(text: str, to: Path | None) -> None:
    from headrace.base.files import write_whole

    if to is None:
        data(text)
        return
    write_whole(to, text.encode())
    say(f"written: {to}")
