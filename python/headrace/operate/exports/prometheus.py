"""The exposition for Prometheus, written by prometheus-client from the table's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headrace.operate.exports.samples import BinSample, Samples, samples_of
from headrace.operate.exports.table import exported
from headrace.operate.watching.moment import Moment


class MomentCollector(Collector):
    """Turns samples into families of metrics, each declared whether it has samples or not."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def collect(self) -> Iterator[Metric]:
        """Yields a family for each metric of the table."""
        for name, metric in exported().items():
            samples = self.samples[name]
            labels = list(metric.labels)
            if metric.kind == "histogram":
                histogram = HistogramMetricFamily(name, metric.help, labels=labels)
                for sample in samples:
                    assert isinstance(sample, BinSample)
                    buckets = [(_bound(upper), below) for upper, below in sample.buckets]
                    histogram.add_metric(list(sample.labels), buckets, sample.total)
                yield histogram
                continue
            family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(
                name, metric.help, labels=labels
            )
            for sample in samples:
                assert not isinstance(sample, BinSample)
                family.add_metric(list(sample.labels), sample.value)
            yield family


def _bound(upper: float) -> str:
    return "+Inf" if upper == float("inf") else repr(upper)


def exposition(moments: Iterable[Moment]) -> str:
    """Returns the text that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MomentCollector(samples_of(moments)))
    return generate_latest(registry).decode()
