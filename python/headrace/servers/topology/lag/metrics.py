"""Serves lag for Prometheus, in its text format, on the loopback address."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

from headrace.base.packaged import read_rows
from headrace.errors import InputError
from headrace.lab.exporter import open_port
from headrace.servers.topology.lag.watch import LagReading, LagWatch

# Name, kind and help of each metric.
METRICS = read_rows("headrace.servers.topology.lag", "metrics.csv")


def text_of(watch: LagWatch) -> str:
    """Returns all metrics in Prometheus's text format."""
    readings = [figure for reading in watch.read() for figure in _of_reading(reading)]
    rows: dict[str, list[str]] = {row["name"]: [] for row in METRICS}
    for name, labels, value in [*readings, *watch.server_figures()]:
        rows[name].append(f"{name}{_labels(labels)} {float(value):.6g}")
    parts = []
    for row in METRICS:
        if lines := rows[row["name"]]:
            parts += ["# HELP {name} {help}".format(**row), "# TYPE {name} {kind}".format(**row), *lines]
    return "\n".join(parts) + "\n"


def _of_reading(reading: LagReading) -> Iterator[tuple[str, dict[str, str], float]]:
    labels = {"replica": reading.replica, "channel": reading.channel, "source": reading.source}
    clocks = {
        "gtid": reading.gtid_s,
        "heartbeat": reading.heartbeat_s,
        "server": reading.server_s,
        "commit": reading.commit_s,
    }
    clocks["estimate"] = reading.estimate_s
    for clock, value in clocks.items():
        if value is not None:
            yield "headrace_replica_lag_seconds", labels | {"clock": clock}, value
    figures = {
        "lag_exact": float(reading.exact),
        "backlog_transactions": reading.backlog,
        "unapplied_transactions": reading.unapplied,
        "applied_per_second": reading.applied_tps,
        "receive_up": float(reading.receive == "on"),
        "apply_up": float(reading.apply == "on"),
        "delay_seconds": reading.delay_s,
    }
    for name, value in figures.items():
        if value is not None:
            yield f"headrace_replica_{name}", labels, value
    for worker in reading.workers:
        yield "headrace_replica_worker_lag_seconds", labels | {"worker": str(worker.number)}, worker.age_s


def _labels(labels: dict[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def listen(port: int) -> socket.socket:
    """Listens at a port of the loopback address, 0 for a free one. Raises InputError,
    CouldNotRun."""
    if not 0 <= port <= 65_535:
        raise InputError(f"--prometheus {port}", "a port is 0 to 65,535", "TCP, RFC 9293", "")
    return open_port(port)


def names(readings: Sequence[LagReading]) -> list[str]:
    """Returns labels of channels for people: the replica, and the channel if it has a name."""
    return [reading.replica + (f" ({reading.channel})" if reading.channel else "") for reading in readings]
