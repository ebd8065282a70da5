"""Serves lag for Prometheus, in its text format, on the loopback address."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from headrace.base.packaged import read_rows
from headrace.errors import CouldNotRun, InputError
from headrace.lab.exporter import MetricsServer
from headrace.servers.topology.lag.watch import LagReading, LagWatch

METRICS = read_rows("headrace.servers.topology.lag", "metrics.csv")


def text_of(watch: LagWatch) -> str:
    """Returns all metrics in Prometheus's text format."""
    lines: dict[str, list[str]] = {}
    of_channels = (figure for reading in watch.read() for figure in _of_reading(reading))
    for name, labels, value in (*of_channels, *watch.server_figures()):
        lines.setdefault(name, []).append(f"{name}{_labels(labels)} {float(value):.6g}")
    parts = []
    for row in METRICS:
        if values := lines.get(name := row["name"]):
            parts += [f"# HELP {name} {row['help']}", f"# TYPE {name} {row['kind']}", *values]
    return "\n".join(parts) + "\n"


def _of_reading(reading: LagReading) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yields name, labels and value of a channel's metrics: lag in seconds, transactions,
    transactions a second, and 1 for true."""
    labels = {"replica": reading.replica, "channel": reading.channel, "source": reading.source}
    for name, value in asdict(reading.clocks).items():
        if value is not None:
            yield "headrace_replica_lag_seconds", labels | {"clock": name.removesuffix("_s")}, value
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
    """Returns labels as Prometheus reads them: in braces, with quotes and escapes."""

    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def listen(port: int) -> socket.socket:
    """Listens at a port of the loopback, 0 for a free one. Raises InputError, CouldNotRun."""
    if not 0 <= port <= 65_535:
        raise InputError(f"--prometheus {port}", "a port is 0 to 65,535", "TCP, RFC 9293", "")
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        rule = f"cannot be used: {error.strerror}"
        raise CouldNotRun(f"port {port} of 127.0.0.1", rule, "bind(2)", "Choose another, or 0.") from None


def serve(watch: LagWatch, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serves until it is interrupted, with the bounds of the lab's own metrics."""
    with MetricsServer(listener, lambda: text_of(watch)) as server:
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        server.serve_forever(poll_interval=0.5)


def names(readings: Sequence[LagReading]) -> list[str]:
    """Returns labels of channels for people: the replica, and the channel if it has a name."""
    return [reading.replica + (f" ({reading.channel})" if reading.channel else "") for reading in readings]
