"""The exposition for Prometheus, written by prometheus-client from the table's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from headrace.operate.exports.samples import BinSample, Samples, collect_samples
from headrace.operate.exports.table import read_metrics
from headrace.operate.watching.moment import Moment

FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


class SampleCollector(Collector):
    """Turns samples into families of metrics, each declared whether it has samples or not.
    `spell_bound` writes the upper bound of a bucket."""

    def __init__(self, samples: Samples, spell_bound: Callable[[float], str]) -> None:
        self.samples = samples
        self.spell_bound = spell_bound

    def collect(self) -> Iterator[Metric]:
        """Yields a family for each metric, with the name, kind and help of the table."""
        for name, samples in self.samples.items():
            metric = read_metrics()[name]
            family = FAMILIES[metric.kind](name, metric.help)
            for sample in samples:
                labels = dict(zip(metric.labels, sample.labels, strict=True))
                if sample.member is not None:
                    labels["member"] = str(sample.member)
                if isinstance(sample, BinSample):
                    self._add_bins(family, name, labels, sample)
                else:
                    family.add_sample(name, labels, sample.value)
            yield family

    def _add_bins(self, family: Metric, name: str, labels: dict[str, str], sample: BinSample) -> None:
        """Adds a histogram to its family: requests up to each bound, their number and their sum."""
        for upper, below in sample.buckets:
            bound = "+Inf" if upper == float("inf") else self.spell_bound(upper)
            family.add_sample(f"{name}_bucket", {**labels, "le": bound}, below)
        family.add_sample(f"{name}_count", labels, sample.buckets[-1][1])
        family.add_sample(f"{name}_sum", labels, sample.total)


def format_samples(samples: Samples, spell_bound: Callable[[float], str] = repr) -> str:
    """Returns samples as the text that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SampleCollector(samples, spell_bound))
    return generate_latest(registry).decode()


def build_exposition(moments: Iterable[Moment]) -> str:
    """Returns the metrics of watched targets as the text that Prometheus scrapes."""
    return format_samples(collect_samples(moments))
