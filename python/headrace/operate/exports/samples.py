"""The samples of each metric of the table, from a moment: what is not known has no sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.base import caps
from headrace.base.units import US_PER_S
from headrace.operate.exports.table import select_exported_metrics
from headrace.operate.watching.moment import InstanceNow, Moment, ServerNow, VolumeNow

# Credits of a volume are I/Os on gp2 and bytes on st1 and sc1; the label says whose they are.
OF_VOLUME = "volume"


@dataclass(frozen=True)
class ValueSample:
    """A value with the values of its labels, in the table's order. `member`: index in an
    array, None for a whole volume and without one."""

    labels: tuple[str, ...]
    value: float
    member: int | None = None


@dataclass(frozen=True)
class BinSample:
    """A histogram: (upper bound, requests up to it) ascending, the last unbounded, and the sum."""

    labels: tuple[str, ...]
    buckets: tuple[tuple[float, int], ...]
    total: float
    member: int | None = None


Samples = dict[str, list[ValueSample | BinSample]]

# The histogram of the statistics page behind a metric, and the counter of its sum.
HISTOGRAMS = {
    "aws_ebs_csi_read_io_latency_seconds": ("read_io_latency_histogram", "total_read_time"),
    "aws_ebs_csi_write_io_latency_seconds": ("write_io_latency_histogram", "total_write_time"),
}
# Limits by what they are counted in.
IOPS_LIMITS = ("volume-iops", "baseline-iops", "instance-iops")
# Limits a verdict may name; each has a sample, so that an alert sees it end.
JUDGED = (*caps.COUNTED, "volume-credits", "instance-credits", "degraded")


def collect_samples(moments: Iterable[Moment]) -> Samples:
    """Returns the samples of all targets, by metric in the order of the table. A volume, server or
    instance that two targets share is exported once."""
    samples: Samples = {name: [] for name in select_exported_metrics()}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for moment in moments:
        for name, sample in _sample_moment(moment):
            if (name, sample.labels) not in seen:
                seen.add((name, sample.labels))
                samples[name].append(sample)
    return samples


def _sample_moment(moment: Moment) -> Iterator[tuple[str, ValueSample | BinSample]]:
    """Yields (metric, sample) of volumes, instance, server and replicas, as far as they are
    known."""
    for volume in moment.volumes:
        yield from _sample_volume(volume, moment)
    if moment.instance is not None:
        yield from _sample_instance(moment.instance)
    if moment.server is not None:
        yield from _sample_server(moment.server)
    for replica in moment.replicas:
        if replica.lag_s is not None and moment.server is not None:
            labels = (moment.server.label, replica.channel, "", "server")
            yield "headrace_replica_lag_seconds", ValueSample(labels, replica.lag_s)


def _sample_volume(volume: VolumeNow, moment: Moment) -> Iterator[tuple[str, ValueSample | BinSample]]:
    """Yields (metric, sample) of a volume: counters and histograms of its statistics page (seconds,
    bytes, requests), balance and use as shares, limits, time to empty in seconds, and 1 or 0 for
    each limit that may bind."""
    if volume.page is not None:
        for name, metric in select_exported_metrics().items():
            if metric.counter:
                per = US_PER_S if metric.unit == "seconds" else 1.0
                yield name, ValueSample((volume.id,), volume.page.counters[metric.counter] / per)
        for name, (histogram, spent) in HISTOGRAMS.items():
            buckets = _accumulate_bins(volume.page.histograms[histogram])
            yield name, BinSample((volume.id,), buckets, volume.page.counters[spent] / US_PER_S)
    if volume.balance is not None:
        yield "headrace_volume_balance_ratio", ValueSample((volume.id,), volume.balance)
    for limit, value in volume.limits.items():
        name = "headrace_limit_iops" if limit in IOPS_LIMITS else "headrace_limit_bytes"
        yield name, ValueSample((volume.id, limit), value)
    if volume.time_to_empty is not None:
        yield "headrace_time_to_empty_seconds", ValueSample((volume.id, OF_VOLUME), volume.time_to_empty.seconds)
    for limit, share in volume.used.items():
        yield "headrace_used_ratio", ValueSample((volume.id, limit), share)
    if volume.gone is None:
        for limit in JUDGED:
            binds = ("binds", volume.label, limit)
            present = any((finding.word, finding.where, finding.limit) == binds for finding in moment.findings)
            yield "headrace_verdict", ValueSample((volume.id, limit), float(present))


def _accumulate_bins(bins: Iterable[tuple[int, int, int]]) -> tuple[tuple[float, int], ...]:
    """Returns (upper bound in seconds, requests up to it) from bins of (lower, upper, count) in
    microseconds; the last bound is infinite."""
    below, buckets = 0, []
    for _, upper, count in sorted(bins):
        below += count
        if upper < 2**64 - 1:
            buckets.append((upper / US_PER_S, below))
    return (*buckets, (float("inf"), below))


def _sample_instance(instance: InstanceNow) -> Iterator[tuple[str, ValueSample]]:
    """Yields (metric, sample) of an instance: balances (shares), limits (I/Os or bytes a second),
    and the seconds until credits are empty."""
    for unit, share in instance.balances.items():
        yield "headrace_instance_balance_ratio", ValueSample((unit,), share)
    for limit, value in instance.limits.items():
        name = "headrace_instance_limit_iops" if limit in IOPS_LIMITS else "headrace_instance_limit_bytes"
        yield name, ValueSample((limit,), value)
    for unit, time_to_empty in instance.time_to_empty.items():
        yield "headrace_instance_time_to_empty_seconds", ValueSample((unit,), time_to_empty.seconds)


SERVER: Mapping[str, Callable[[ServerNow], float | None]] = {
    "headrace_client_io_wait_ratio": lambda server: server.io_wait,
    "headrace_checkpoint_age_ratio": lambda server: server.checkpoint_age,
    "headrace_dirty_pages_ratio": lambda server: server.dirty,
    "headrace_threads_running": lambda server: server.running,
}


def _sample_server(server: ServerNow) -> Iterator[tuple[str, ValueSample]]:
    """Yields (metric, sample) of a server: 1 if it answers, else 0 and nothing more; its counters
    and shares."""
    yield "headrace_server_up", ValueSample((server.label,), float(server.up))
    if not server.up:
        return
    for name, value in server.totals.items():
        yield name, ValueSample((server.label,), value)
    for name, read in SERVER.items():
        if (value := read(server)) is not None:
            yield name, ValueSample((server.label,), value)
