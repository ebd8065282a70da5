"""Serves lag for Prometheus, in its text format, on the loopback address."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from headrace.errors import CouldNotRun, InputError
from headrace.lab.exporter import MetricsServer
from headrace.servers.topology.lag.watch import LagReading, LagWatch

HELP = {
    "headrace_replica_lag_seconds": "Lag of a replica, s, by clock (gtid, heartbeat, server, commit, estimate).",
    "headrace_replica_lag_exact": "1 when the gtid clock knows the lag, 0 when it is at least what is shown.",
    "headrace_replica_backlog_transactions": "Transactions that the replica lacks.",
    "headrace_replica_unapplied_transactions": "Transactions that it has received and not applied.",
    "headrace_replica_applied_per_second": "Transactions applied over the last second.",
    "headrace_replica_receive_up": "1 when its receive thread is connected.",
    "headrace_replica_apply_up": "1 when its appliers run.",
    "headrace_replica_delay_seconds": "Intended delay of the replica, s.",
    "headrace_replica_worker_lag_seconds": "Age of the transaction a worker applies, 0 when it has none (MySQL).",
    "headrace_replica_server_up": "1 when the server answers.",
    "headrace_semi_sync_status": "1 when commits wait for a replica now; the setting does not matter.",
    "headrace_semi_sync_clients": "Replicas that answer for semi-sync.",
    "headrace_semi_sync_unanswered_total": "Commits that were acknowledged without an answer of a replica.",
}
COUNTERS = ("headrace_semi_sync_unanswered_total",)


def text_of(watch: LagWatch) -> str:
    """Returns all metrics in Prometheus's text format."""
    rows: dict[str, list[str]] = {name: [] for name in HELP}
    for reading in watch.read():
        for name, labels, value in _of_reading(reading):
            rows[name].append(f"{name}{_labels(labels)} {float(value):.6g}")
    for name, labels, value in watch.server_figures():
        rows[name].append(f"{name}{_labels(labels)} {float(value):.6g}")
    parts = []
    for name, lines in rows.items():
        if lines:
            kind = "counter" if name in COUNTERS else "gauge"
            parts += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}", *lines]
    return "\n".join(parts) + "\n"


def _of_reading(reading: LagReading) -> Iterator[tuple[str, dict[str, str], float]]:
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
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def listen(port: int) -> socket.socket:
    """Listens at a port of the loopback address, 0 for a free one. Raises InputError,
    CouldNotRun."""
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
