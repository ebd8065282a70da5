"""Serves lag for Prometheus, in its text format, on the loopback address."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headrace.base.packaged import read_rows
from headrace.servers.topology.lag.watch import LagReading, LagWatch

METRICS = read_rows("headrace.servers.topology.lag", "metrics.csv")


class LagCollector(Collector):
    """Turns the present readings of a watch into metrics for Prometheus."""

    def __init__(self, watch: LagWatch) -> None:
        self.watch = watch

    def collect(self) -> Iterator[Metric]:
        """Yields a family for each metric that has samples, in the order of the table."""
        families = {
            row["name"]: Metric(row["name"].removesuffix("_total"), row["help"], row["kind"]) for row in METRICS
        }
        of_channels = (figure for reading in self.watch.read() for figure in _list_figures(reading))
        for name, labels, value in (*of_channels, *self.watch.list_server_figures()):
            families[name].add_sample(name, labels, float(value))
        yield from (family for family in families.values() if family.samples)


def format_metrics(watch: LagWatch) -> str:
    """Returns all metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LagCollector(watch))
    return generate_latest(registry).decode()


def _list_figures(reading: LagReading) -> Iterator[tuple[str, dict[str, str], float]]:
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
