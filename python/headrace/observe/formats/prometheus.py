"""Counters of node_exporter and mysqld_exporter, as Prometheus and its relatives answer a query.

Read are the bodies of /api/v1/query_range and of /api/v1/query with a range (`metric[1h]`), one or
several in a file or in a list, the JSON of `promtool query range`, and the lines of
VictoriaMetrics' /api/v1/export (PMM). Needed are the counters themselves: `rate()` and `sum()` take
the name of the metric away. A counter that goes back was reset; the interval around that is left
out. Counters are laid on an even grid, with straight lines between their samples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from headrace.base.packaged import read_rows
from headrace.errors import InputError
from headrace.observe.clock import EPOCH, FIRST_YEAR, LAST_YEAR, Stamp
from headrace.observe.formats.devices import (
    DeviceReport,
    Observed,
    Readings,
    ServerSample,
    VolumeDescription,
    make_sample,
)
from headrace.observe.formats.json_text import as_list, as_table, load_all_json
from headrace.observe.recording import Recording, clip
from headrace.workload.points import MAX_POINTS

SOURCE = "Prometheus HTTP API, expression query result formats"
NEEDED = ("reads", "writes", "read_bytes", "written_bytes")
# node_exporter's names (collector diskstats) since 0.16 of 2018 and before, and the factor to the
# unit here: counts, bytes, seconds.
DISK = {
    row["metric"]: (row["counter"], float(row["factor"]))
    for row in read_rows("headrace.observe.formats", "node_exporter.csv")
}
CPU = ("node_cpu_seconds_total", "node_cpu")
INFO = "node_disk_info"
STATUS = "mysql_global_status_"
# Metrics of mysqld_exporter that hold several names of SHOW GLOBAL STATUS
# (collector/global_status.go): the metric without STATUS, its label, and the name that the label's
# value completes.
SPLIT = {
    "commands_total": ("command", "com_{}"),
    "handlers_total": ("handler", "handler_{}"),
    "innodb_row_ops_total": ("operation", "innodb_rows_{}"),
    "buffer_pool_pages": ("state", "innodb_buffer_pool_pages_{}"),
    "buffer_pool_page_changes_total": ("operation", "innodb_buffer_pool_pages_{}"),
}
WHOLE = {"buffer_pool_dirty_pages": "innodb_buffer_pool_pages_dirty"}
# InnoDB's own I/O, where nothing counts that of a disk.
INNODB = {
    "reads": "innodb_data_reads",
    "writes": "innodb_data_writes",
    "read_bytes": "innodb_data_read",
    "written_bytes": "innodb_data_written",
}
INNODB_DEVICE = "innodb"
INNODB_NOTE = (
    "These are the reads and writes of InnoDB (mysqld_exporter), not those of a disk: the page cache, the binary log and other "
    "programs are not in them. node_exporter counts the disk's."
)
SERIAL = re.compile(r"vol-?(?P<id>[0-9a-f]{8}(?:[0-9a-f]{9})?)\Z")  # of an NVMe device of EBS (EBS user guide)
# Labels of one exporter that tell its series apart; all others tell exporters apart.
INNER = {"__name__", "device", "cpu", "mode", *(label for label, _ in SPLIT.values())}
HOST_LABELS = ("node_name", "instance", "hostname", "host")  # PMM names the node; Prometheus the instance
# Samples that are further apart than this, in usual distances, have a gap between them. One scrape
# that failed makes two distances, and costs nothing but the grain: the counters tell the mean of
# both. Ours.
GAP_DISTANCES = 2.5
# Share of the interval by which the grid may reach beyond the first and last sample: scrapes come a
# little early or late. Ours.
END_SHARE = 0.3
# Series and samples that a file has at most: a host of 64 disks and processors over two weeks of
# minutes has some 1,000 and 20 million; ours.
MAX_SERIES, MAX_SAMPLES = 20_000, 50_000_000
# Seconds since 1970 of the years of a recording, as `observe.clock` has them.
EARLIEST_S, LATEST_S = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (FIRST_YEAR, LAST_YEAR))
MS_PER_S = 1_000.0
KIB = 1_024.0


@dataclass
class _Counter:
    """A series: its labels, where it stands in the file, and its samples by seconds since 1970."""

    labels: dict[str, str]
    where: str
    samples: dict[float, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.labels["__name__"]

    @property
    def host(self) -> str:
        return next((self.labels[name] for name in HOST_LABELS if self.labels.get(name)), "")

    @property
    def exporter(self) -> tuple[tuple[str, str], ...]:
        """Returns the labels that all series of one exporter share."""
        return tuple(sorted((name, value) for name, value in self.labels.items() if name not in INNER))

    def build_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the times of the samples in order, in seconds since 1970, and their values."""
        at = np.array(sorted(self.samples))
        return at, np.array([self.samples[time] for time in at.tolist()])


def parse(recording: Recording, interval_s: float | None = None) -> Readings:
    """Returns the reports of disks, or of InnoDB, in answers of Prometheus. `interval_s`: between
    reports; None: the usual distance of the samples. Raises InputError."""
    counters = _read_counters(recording)
    disks = _select_finest(recording, [counter for counter in counters if counter.name in DISK])
    status = _select_finest(recording, [counter for counter in counters if counter.name.startswith(STATUS)])
    if not disks and not status:
        raise _make_missing_error(recording, counters)
    hosts = list(dict.fromkeys(counter.host for counter in (disks or status)))
    devices = (
        _collect_devices(recording, disks, len(hosts) > 1)
        if disks
        else _collect_innodb(recording, status, len(hosts) > 1)
    )
    interval_s = interval_s or _find_usual_distance(recording, devices)
    begin, count = _compute_grid(devices, interval_s)
    if count < 1:
        raise recording.make_error(
            "", "one sample of each counter", "a rate needs two", "Ask for a longer time.", SOURCE
        )
    if count > MAX_POINTS:
        hint = "A time is wrong, or the recording needs cutting."
        raise recording.make_error(
            "", f"{count:,} intervals of {interval_s:g} s", f"at most {MAX_POINTS:,} are taken", hint
        )
    edges = begin + interval_s * np.arange(count + 1)
    reports = [
        DeviceReport(_format_place(end), Stamp(float(end), EPOCH + timedelta(seconds=float(end)), "UTC"))
        for end in edges[1:].tolist()
    ]
    resets = 0
    for name, figures in devices.items():
        resets += _add_device(recording, reports, name, figures, edges, interval_s)
    if resets:
        recording.note(f"Counters began anew {resets} times (a restart of the host): those intervals were left out.")
    cpus = [counter for counter in counters if counter.name in CPU]
    processors = _compute_processors(cpus, hosts, edges, interval_s)
    described = _describe_volumes(counters, len(hosts) > 1)
    filled = [index for index, report in enumerate(reports) if report.devices]
    readings = Readings(
        "Prometheus",
        [reports[index] for index in filled],
        interval_s=interval_s,
        zone="UTC",
        absent_is_idle=False,
        described=described,
        server=_list_server_samples(recording, status, disks, edges),
    )
    for host, shares in processors.items():
        for index in filled:
            if shares[index]:
                reports[index].processors[host] = shares[index]
    return readings


# --- answers --------------------------------------------------------------------------------------


def _read_counters(recording: Recording) -> list[_Counter]:
    """Returns the series of a file; those without a name are noted. Raises InputError."""
    by_labels: dict[tuple, _Counter] = {}
    samples, unnamed = 0, None
    for where, result in _yield_results(recording):
        labels = as_table(recording, f"{where}.metric", result.get("metric"))
        if not all(isinstance(value, str) for value in labels.values()):
            raise recording.make_error(
                where, "a label that is not text", "labels are text", "The file is damaged.", SOURCE
            )
        if "__name__" not in labels:
            unnamed = unnamed or where
            continue
        key = tuple(sorted(labels.items()))
        counter = by_labels.setdefault(key, _Counter(labels, where))
        if len(by_labels) > MAX_SERIES:
            hint = "Ask for one instance, and for node_disk_.* and mysql_global_status_.* only."
            raise recording.make_error("", "too many series", f"at most {MAX_SERIES:,} are read", hint)
        samples += _add_samples(recording, where, result, counter)
        if samples > MAX_SAMPLES:
            hint = "Ask for a shorter time, or a longer step."
            raise recording.make_error("", "too many samples", f"at most {MAX_SAMPLES:,} are read", hint)
    if unnamed is not None and not by_labels:
        hint = 'Query the counters: {__name__=~"node_disk_.+",instance="HOST:9100"}.'
        rule = "has no __name__: rate(), sum() and other functions take it away, and it tells what was counted"
        raise recording.make_error(unnamed, "a series", rule, hint, SOURCE)
    if unnamed is not None:
        recording.note(
            f"Left out: series without a __name__ ({unnamed}), results of rate(), sum() or another function."
        )
    return list(by_labels.values())


def _yield_results(recording: Recording) -> Iterator[tuple[str, dict]]:
    """Yields (place, series) of all answers in a file. Raises InputError."""
    for number, body in enumerate(_read_bodies(recording), 1):
        place = f"answer {number}"
        if "metric" in body and ("values" in body or "value" in body):
            yield place, body
            continue
        if body.get("status") == "error":
            value = f"{body.get('errorType', 'error')}: {clip(str(body.get('error', '')))}"
            hint = "Correct the query, and ask again."
            raise recording.make_error(place, value, "Prometheus refused this query", hint, SOURCE)
        data = as_table(recording, place, body["data"]) if "data" in body else body
        warnings = body.get("warnings")
        for warning in warnings if isinstance(warnings, list) else ():
            recording.note(f"Prometheus warned: {clip(str(warning))}")
        kind = data.get("resultType")
        if kind not in ("matrix", None):
            rule = f"is a {clip(str(kind))}: a time for each series, not a range of times"
            hint = "Ask /api/v1/query_range with start, end and step; or /api/v1/query for metric[1h]."
            raise recording.make_error(f"{place}.data", clip(str(kind)), rule, hint, SOURCE)
        results = as_list(recording, f"{place}.data.result", data.get("result"))
        if not results:
            recording.note(f"The {place} is empty: no series matched.")
        for index, result in enumerate(results):
            where = f"{place}, result[{index}]"
            yield where, as_table(recording, where, result)


def _read_bodies(recording: Recording) -> list[dict]:
    """Returns the objects of a file: one behind the other, or in a list. Raises InputError."""
    text = recording.text.lstrip()
    if not text.startswith("["):
        return load_all_json(recording)
    try:
        listed = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        where = error.lineno if isinstance(error, json.JSONDecodeError) else ""
        hint = "The copy was cut off or damaged: fetch it again."
        rule = f"is not JSON: {clip(str(error))}"
        raise recording.make_error(where, "the list of answers", rule, hint, "RFC 8259") from None
    return [as_table(recording, f"answer {number}", body) for number, body in enumerate(listed, 1)]


def _add_samples(recording: Recording, where: str, result: dict, counter: _Counter) -> int:
    """Adds the samples of a result to its counter and returns their number. Raises InputError."""
    values = as_list(recording, f"{where}.values", result.get("values"))
    if "timestamps" in result:  # VictoriaMetrics' export: two lists, milliseconds
        times = as_list(recording, f"{where}.timestamps", result["timestamps"])
        if len(times) != len(values):
            rule = "must be as many"
            hint = "Fetch it again."
            raise recording.make_error(where, f"{len(times)} timestamps, {len(values)} values", rule, hint, SOURCE)
        pairs = [[_convert_to_seconds(time), value] for time, value in zip(times, values, strict=True)]
    else:
        pairs = values
    name = counter.labels["__name__"]
    for at, pair in enumerate(pairs):
        place = f"{where}.values[{at}]"
        if not isinstance(pair, list) or len(pair) != 2:
            hint = "The file is damaged: fetch it again."
            raise recording.make_error(place, clip(str(pair)), "must be a time and a value", hint, SOURCE)
        moment, value = _parse_moment(recording, place, pair[0]), pair[1]
        if value == "NaN":  # a stale marker of an older server
            continue
        number = _parse_figure(value)
        if number is None:
            number = recording.parse_number(place, name, value)
        before = counter.samples.setdefault(moment, number)
        if before != number:
            hint = "Two answers of different servers or series were joined: keep one of each time."
            raise recording.make_error(place, f"{name} = {number:g}", f"was {before:g} at this time", hint)
    return len(pairs)


def _convert_to_seconds(milliseconds: object) -> object:
    return milliseconds / MS_PER_S if isinstance(milliseconds, (int, float)) else milliseconds


def _parse_moment(recording: Recording, place: str, value: object) -> float:
    """Returns a time in seconds since 1970. Raises InputError."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and EARLIEST_S <= value <= LATEST_S:
        return float(value)
    hint = "Are its times in another unit? The file may be damaged, too."
    rule = "must be seconds since 1970, of the years 1990 to 2100"
    raise recording.make_error(place, clip(f"time {value}"), rule, hint, SOURCE)


def _parse_figure(value: Any) -> float | None:
    """Returns a counter's value, perhaps above 1e15; None if it is not a finite number from 0
    up."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0.0 <= number < 1e300 and not isinstance(value, bool) else None


def _make_missing_error(recording: Recording, counters: list[_Counter]) -> InputError:
    """Returns the error that says which counters the file has instead of those needed."""
    names = ", ".join(list(dict.fromkeys(counter.name for counter in counters))[:5]) or "no series at all"
    hint = 'Query {__name__=~"node_disk_.+",instance="HOST:9100"}; is that the instance\'s name?'
    rule = "the counters of node_exporter's disks (node_disk_..._total) or of mysqld_exporter are needed"
    return recording.make_error("", clip(names), rule, hint, "node_exporter, collector diskstats")


def _select_finest(recording: Recording, counters: list[_Counter]) -> list[_Counter]:
    """Returns the counters; where several exporters count for one host (PMM scrapes at three
    resolutions, pairs of Prometheus both), those of the exporter with the most samples."""
    by_host: dict[str, dict[tuple, list[_Counter]]] = {}
    for counter in counters:
        by_host.setdefault(counter.host, {}).setdefault(counter.exporter, []).append(counter)
    finest = []
    for host, exporters in by_host.items():
        best: dict[tuple[str, ...], _Counter] = {}
        for exporter in sorted(exporters):
            for counter in exporters[exporter]:
                key = tuple(counter.labels.get(name, "") for name in sorted(INNER))
                if key not in best or len(counter.samples) > len(best[key].samples):
                    best[key] = counter
        if len({counter.exporter for counter in best.values()}) < len(exporters):
            recording.note(
                f"{host or 'One host'} is counted by {len(exporters)} exporters: the one with the most samples was taken."
            )
        finest += best.values()
    return finest


# --- counters on an even grid ---------------------------------------------------------------------


def _collect_devices(recording: Recording, disks: list[_Counter], named: bool) -> dict[str, dict[str, tuple]]:
    """Returns the counters of each device by name: times, and values in counts, bytes or seconds. A
    device that lacks one of NEEDED is left out, with a note. `named`: whether the host stands
    before the device. Raises InputError where no device is left."""
    devices: dict[str, dict[str, tuple]] = {}
    for counter in disks:
        device = counter.labels.get("device", "")
        if not device:
            hint = "Ask without sum() or by()."
            raise recording.make_error(counter.where, counter.name, "has no label device", hint, SOURCE)
        figure, factor = DISK[counter.name]
        at, values = counter.build_arrays()
        if len(at):
            devices.setdefault(_name_device(counter.host, device, named), {})[figure] = (at, values * factor)
    whole = {name: figures for name, figures in devices.items() if all(figure in figures for figure in NEEDED)}
    lacking = sorted(set(devices) - set(whole))
    if lacking and whole:
        recording.note(f"Left out: {clip(', '.join(lacking))}, which lack one of the counters of I/Os and bytes.")
    if not whole:
        names = {figure: name for name, (figure, _) in reversed(DISK.items())}
        missing = [names[figure] for figure in NEEDED if not any(figure in figures for figures in devices.values())]
        hint = 'Query {__name__=~"node_disk_.+",instance="HOST:9100"}.'
        rule = "missing: reads, writes and the bytes of both are needed"
        raise recording.make_error("", ", ".join(missing) or "no device with all of them", rule, hint, SOURCE)
    return whole


def _collect_innodb(recording: Recording, status: list[_Counter], named: bool) -> dict[str, dict[str, tuple]]:
    """Returns InnoDB's own I/O as a device for each server, with a note. Raises InputError."""
    servers: dict[str, dict[str, tuple]] = {}
    figures_of = {name: figure for figure, name in INNODB.items()}
    for counter in status:
        figure = figures_of.get(_find_status_name(counter) or "")
        if figure is not None and counter.samples:
            servers.setdefault(_name_device(counter.host, INNODB_DEVICE, named), {})[figure] = counter.build_arrays()
    whole = {name: figures for name, figures in servers.items() if len(figures) == len(INNODB)}
    if not whole:
        hint = 'Query {__name__=~"node_disk_.+|mysql_global_status_.+"}.'
        rule = "neither a disk's counters nor all four of InnoDB are there"
        raise recording.make_error("", ", ".join(f"{STATUS}{name}" for name in INNODB.values()), rule, hint, SOURCE)
    recording.note(INNODB_NOTE)
    return whole


def _name_device(host: str, device: str, named: bool) -> str:
    return f"{host}/{device}" if named else device


def _find_usual_distance(recording: Recording, devices: dict[str, dict[str, tuple]]) -> float:
    """Returns the usual seconds between samples, rounded to a whole number. Raises InputError."""
    steps = np.concatenate([np.diff(figures["reads"][0]) for figures in devices.values()])
    if not len(steps):
        hint = "Ask for a longer time, or a shorter step."
        raise recording.make_error("", "one sample of each counter", "a rate needs two", hint, SOURCE)
    # The mean of the steps near the median, since each scrape comes a little early or late.
    usual = float(np.median(steps))
    near = steps[(steps > 0.5 * usual) & (steps < 1.5 * usual)]
    return max(1.0, float(round(float(near.mean()))))


def _compute_grid(devices: dict[str, dict[str, tuple]], interval_s: float) -> tuple[float, int]:
    """Returns the begin of the grid in seconds since 1970, and the number of its intervals."""
    begin = min(float(figures["reads"][0][0]) for figures in devices.values())
    end = max(float(figures["reads"][0][-1]) for figures in devices.values())
    # A last scrape that came a little early still closes its interval.
    return begin, int((end - begin) / interval_s + END_SHARE)


def _compute_increments(
    at: np.ndarray, values: np.ndarray, edges: np.ndarray, interval_s: float
) -> tuple[np.ndarray, int]:
    """Returns what a counter grew by in each interval of the grid (NaN where it was reset, or where
    samples are missing), and how often it was reset."""
    steps = np.diff(values)
    reset = steps < 0
    level = np.concatenate([[0.0], np.cumsum(np.where(reset, 0.0, steps))])
    grown = np.diff(np.interp(edges, at, level))
    broken = reset | (np.diff(at) > GAP_DISTANCES * interval_s)
    # An interval is not known where it reaches into a broken stretch, or beyond the samples.
    slack = interval_s * END_SHARE
    unknown = (edges[:-1] < at[0] - slack) | (edges[1:] > at[-1] + slack)
    for index in np.flatnonzero(broken):
        unknown |= (edges[:-1] < at[index + 1] - 1e-3) & (edges[1:] > at[index] + 1e-3)
    return np.where(unknown, np.nan, grown), int(reset.sum())


def _add_device(
    recording: Recording,
    reports: list[DeviceReport],
    name: str,
    figures: dict[str, tuple],
    edges: np.ndarray,
    interval_s: float,
) -> int:
    """Adds a device to the reports in which its counters are known; returns their resets."""
    grown, resets = {}, 0
    for figure, (at, values) in figures.items():
        grown[figure], count = _compute_increments(at, values, edges, interval_s)
        resets = max(resets, count)
    whole = ~np.isnan(np.array([grown[figure] for figure in NEEDED])).any(axis=0)
    listed = {figure: values.tolist() for figure, values in grown.items()}
    for index in np.flatnonzero(whole).tolist():
        interval = {figure: values[index] for figure, values in listed.items() if values[index] == values[index]}
        report = reports[index]
        sample = make_sample(
            recording,
            report.where,
            interval["reads"] / interval_s,
            interval["writes"] / interval_s,
            interval["read_bytes"] / KIB / interval_s,
            interval["written_bytes"] / KIB / interval_s,
            _make_observed(interval, interval_s),
        )
        report.add(recording, report.where, name, sample)
    return resets


def _make_observed(interval: dict[str, float], interval_s: float) -> Observed:
    """Returns latencies (ms), mean of outstanding requests and utilisation (%) of an interval."""
    return Observed(
        interval["read_s"] / interval["reads"] * 1e3 if "read_s" in interval and interval["reads"] > 0 else None,
        interval["write_s"] / interval["writes"] * 1e3 if "write_s" in interval and interval["writes"] > 0 else None,
        None,
        interval["queued_s"] / interval_s if "queued_s" in interval else None,
        interval["busy_s"] / interval_s * 100.0 if "busy_s" in interval else None,
    )


def _format_place(moment: float) -> str:
    """Returns a moment, seconds since 1970, as a place for errors."""
    return f"{EPOCH + timedelta(seconds=round(moment))} UTC"


# --- volumes, processors, server ------------------------------------------------------------------


def _describe_volumes(counters: list[_Counter], named: bool) -> dict[str, VolumeDescription]:
    """Returns the EBS volumes behind devices, by their serial numbers in node_disk_info."""
    volumes = {}
    for counter in counters:
        match = SERIAL.match(counter.labels.get("serial", "")) if counter.name == INFO else None
        if match:
            volumes[_name_device(counter.host, counter.labels.get("device", ""), named)] = VolumeDescription(
                f"vol-{match['id']}"
            )
    return volumes


def _compute_processors(
    cpus: list[_Counter], hosts: list[str], edges: np.ndarray, interval_s: float
) -> dict[str, list[dict[str, float]]]:
    """Returns by host, for each interval, the number of processors in each mode (user, system, idle
    ...); without a mode whose time is not known."""
    shares = {}
    for host in hosts:
        modes: dict[str, np.ndarray] = {}
        for counter in cpus:
            if counter.host != host or len(counter.samples) < 2:
                continue
            grown, _ = _compute_increments(*counter.build_arrays(), edges, interval_s)
            mode = counter.labels.get("mode", "")
            modes[mode] = modes[mode] + grown if mode in modes else grown
        if "idle" in modes:
            columns = {mode: (values / interval_s).tolist() for mode, values in modes.items()}
            shares[host] = [
                {mode: values[index] for mode, values in columns.items() if values[index] == values[index]}
                for index in range(len(edges) - 1)
            ]
    return shares


def _find_status_name(counter: _Counter) -> str | None:
    """Returns the name in SHOW GLOBAL STATUS, lower case, of a counter of mysqld_exporter."""
    name = counter.name.removeprefix(STATUS)
    if name in SPLIT:
        label, form = SPLIT[name]
        return form.format(counter.labels[label]) if label in counter.labels else None
    return WHOLE.get(name, name)


def _list_server_samples(
    recording: Recording, status: list[_Counter], disks: list[_Counter], edges: np.ndarray
) -> list[ServerSample]:
    """Returns the server's status at the samples nearest to the edges of the grid. Among several
    servers it is the one on the host of the disks; if that is not clear, none, with a note."""
    servers = sorted({counter.host for counter in status})
    if not servers:
        return []
    if len(servers) > 1:
        near = {disk.host.partition(":")[0] for disk in disks}
        same = [host for host in servers if host.partition(":")[0] in near]
        if len(near) != 1 or len(same) != 1:
            recording.note(
                f"The server was left out: there are {len(servers)} of mysqld_exporter ({clip(', '.join(servers))})."
            )
            return []
        servers = same
    samples: dict[float, dict[str, float]] = {}
    for counter in status:
        name = _find_status_name(counter)
        if counter.host != servers[0] or name is None or not counter.samples:
            continue
        at, values = counter.build_arrays()
        nearest = np.clip(np.searchsorted(at, edges), 1, max(1, len(at) - 1))
        nearest -= (edges - at[nearest - 1] < at[np.minimum(nearest, len(at) - 1)] - edges).astype(int)
        for index in np.unique(np.minimum(nearest, len(at) - 1)).tolist():
            samples.setdefault(float(at[index]), {})[name] = float(values[index])
    for values in samples.values():
        # The exporter leaves the sum out.
        parts = [values.get(f"innodb_buffer_pool_pages_{state}") for state in ("data", "free", "misc")]
        counts = [part for part in parts if part is not None]
        if len(counts) == len(parts):
            values.setdefault("innodb_buffer_pool_pages_total", sum(counts))
    return [ServerSample(at, samples[at]) for at in sorted(samples)]
