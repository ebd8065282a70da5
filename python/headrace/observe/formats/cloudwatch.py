"""CloudWatch exports of an EBS volume or an RDS instance: `get-metric-data` and
`get-metric-statistics` JSON, and CSV.

Four metrics of a volume are needed, each as Sum over its period (EBS user guide, "CloudWatch
metrics for Amazon EBS"): a sum over the period divided by its length is the mean rate. For an
instance they are the same four as Average, which are rates already (RDS user guide, "Amazon
CloudWatch metrics for Amazon RDS"). Queue, latencies and burst balance are taken where they are
there. A time marks the start of its period and is UTC unless it says otherwise.
"""

from __future__ import annotations

import csv
import re
import statistics
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from headrace.errors import InputError
from headrace.observe.clock import EPOCH, Stamp, parse_iso
from headrace.observe.formats.devices import DeviceReport, Observed, Readings, make_sample
from headrace.observe.formats.json_text import as_list, as_table, load_all_json
from headrace.observe.recording import Recording, describe_cut, read_lines


@dataclass(frozen=True)
class Service:
    """A service that publishes metrics. `needed`: reads, writes, bytes read, bytes written;
    `statistic`: that they are read with; `source`: of that, for errors; `only_device`: the name of
    a device whose name is not in the export."""

    name: str
    needed: tuple[str, str, str, str]
    statistic: str
    source: str
    only_device: str


EBS = Service(
    "EBS",
    ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes"),
    "Sum",
    "EBS user guide, CloudWatch metrics for Amazon EBS",
    "volume",
)
RDS = Service(
    "RDS",
    ("ReadIOPS", "WriteIOPS", "ReadThroughput", "WriteThroughput"),
    "Average",
    "RDS user guide, Amazon CloudWatch metrics for Amazon RDS",
    "database",
)
SERVICES = (EBS, RDS)
NEEDED = EBS.needed + RDS.needed
# Taken where they are there, with their statistic: mean outstanding, seconds spent by all I/Os of
# the period, seconds without any, seconds of one I/O, per cent of credits.
OPTIONAL_METRICS = {
    "VolumeQueueLength": "Average",
    "VolumeTotalReadTime": "Sum",
    "VolumeTotalWriteTime": "Sum",
    "VolumeIdleTime": "Sum",
    "BurstBalance": "Average",
    "DiskQueueDepth": "Average",
    "ReadLatency": "Average",
    "WriteLatency": "Average",
}
# 1 where the volume was asked for more than its limit; a fleet's points have them.
CHECKS = {"VolumeIOPSExceededCheck": "Maximum", "VolumeThroughputExceededCheck": "Maximum"}
STATISTICS = (
    {metric: service.statistic for service in SERVICES for metric in service.needed} | OPTIONAL_METRICS | CHECKS
)
# Metrics of other things, though their names hold one of the above: billed I/Os
# of Aurora, local disks, log volumes.
OTHERS = ("volumereadiops", "volumewriteiops", "localstorage", "logvolume")
VOLUME_ID = re.compile(r"vol-[0-9a-f]{8}(?:[0-9a-f]{9})?")
SOURCE = "user guides of EBS and RDS, CloudWatch metrics"
UNNAMED = ""
UNITS = {"Count", "Bytes", "Seconds", "Percent", "Count/Second", "Bytes/Second", "None", ""}
UNIT_NAMES = ", ".join(sorted(UNITS - {"", "None"}))
PERIOD_SLACK_S = 1.0  # times are printed in whole seconds
LEFT_OUT = "no metric of a volume's or an RDS instance's I/O that is used here"
RDS_NOTE = "RDS's metrics were taken as averages of a second; an export of their sums cannot be told from that."

# (volume, metric) -> {epoch_s: (where, stamp, value)}
Metrics = dict[tuple[str, str], dict[float, tuple]]


def parse(recording: Recording) -> Readings:
    """Returns the reports in a CloudWatch export. Raises InputError."""
    series, periods = read_metrics(recording)
    if not recording.text.lstrip().startswith(("{", "[")) and not recording.text.endswith("\n"):
        return _combine_cut_csv(recording, series, periods)
    return _combine_metrics(recording, series, periods)


def build_readings(
    recording: Recording, points: dict[tuple[str, str], dict[float, float]], period_s: float
) -> Readings:
    """Returns the readings in points of `period_s` seconds: by volume ("" for an RDS instance) and
    metric, a value by the beginning of its period in seconds since 1970. Raises InputError."""
    stamps: dict[float, Stamp] = {}
    series: Metrics = {}
    for key, values in points.items():
        by_time = series.setdefault(key, {})
        for at, value in values.items():
            stamp = stamps.get(at)
            if stamp is None:
                stamp = stamps[at] = Stamp(at, EPOCH + timedelta(seconds=at), "UTC")
            place = f"{key[1]} at {stamp.local} UTC"
            by_time[at] = (place, stamp, recording.parse_number(place, key[1], value))
    return _combine_metrics(recording, series, [], period_s)


def read_metrics(recording: Recording) -> tuple[Metrics, list[float]]:
    """Returns the metrics of an export by volume and name, and the periods that it states. Raises
    InputError."""
    series: Metrics = {}
    periods: list[float] = []
    if recording.text.lstrip().startswith(("{", "[")):
        _read_json(recording, series)
    else:
        _read_csv(recording, series, periods)
    return series, periods


def _combine_cut_csv(recording: Recording, series: Metrics, periods: list[float]) -> Readings:
    """Returns the readings of a CSV without a last line end: where they are refused, the last line
    counts as cut off and is left out, with a note. Raises InputError."""
    try:
        return _combine_metrics(recording, series, periods)
    except InputError as error:
        last = len(recording.lines)
        whole_lines = {
            key: {time: point for time, point in points.items() if point[0] != last} for key, points in series.items()
        }
        try:
            readings = _combine_metrics(recording, whole_lines, periods)
        except InputError:
            raise error from None
        recording.notes.append(describe_cut(error))
        return readings


def find_metric(text: str) -> str | None:
    """Returns the only metric of STATISTICS that a label, id or heading names, else None."""
    plain = re.sub(r"[^a-z]", "", text.lower())
    if any(other in plain for other in OTHERS):
        return None
    metrics = [
        metric for metric in STATISTICS if metric.lower() in plain or plain == metric.removeprefix("Volume").lower()
    ]
    return metrics[0] if len(metrics) == 1 else None


def find_volume(*texts: object) -> str:
    """Returns the first volume id in labels, ids or headings; "" where there is none."""
    for text in texts:
        match = VOLUME_ID.search(text) if isinstance(text, str) else None
        if match:
            return match[0]
    return UNNAMED


def _check_statistic(recording: Recording, where: int | str, metric: str, statistic: str) -> None:
    """Raises InputError if the statistic is not the one that this metric is read with."""
    if statistic.lower() != STATISTICS[metric].lower():
        needed = STATISTICS[metric]
        hint = f"Set the statistic to {needed} and export again."
        raise recording.make_error(where, f"statistic {statistic} of {metric}", f"the {needed} is needed", hint, SOURCE)


def _put(
    recording: Recording,
    series: Metrics,
    where: int | str,
    volume: str,
    metric: str,
    *,
    stamp: Stamp | None,
    text: object,
    value: object,
) -> None:
    """Adds one figure to the series of its volume and metric in `series`. `text`: what the error
    says of a time that gave no `stamp`. Raises InputError for such a time, for one that is there
    twice, and for a sum that is not a whole number."""
    if stamp is None:
        hint = "Export again; ISO 8601 in UTC is best."
        raise recording.make_error(where, f"time {text!r}", "is not a time CloudWatch writes", hint)
    number = recording.parse_number(where, metric, value)
    if metric in EBS.needed and abs(number - round(number)) > 1e-6 * max(1.0, number):
        hint = "Export the statistic Sum, not Average and not a rate."
        raise recording.make_error(
            where, f"{metric} = {number:g}", "a sum of I/Os or bytes is a whole number", hint, SOURCE
        )
    points = series.setdefault((volume, metric), {})
    if stamp.epoch_s in points:
        hint = "Two exports overlap: keep one of each time."
        raise recording.make_error(where, f"{metric} at {stamp.local}", "is there twice", hint)
    points[stamp.epoch_s] = (where, stamp, number)


# --- JSON -----------------------------------------------------------------------------------------


def _read_json(recording: Recording, series: Metrics) -> None:
    """Reads the answers of get-metric-data and get-metric-statistics into `series`. Raises
    InputError for other documents, and where further pages are missing."""
    documents = load_all_json(recording, element_of="Datapoints")
    for index, document in enumerate(documents):
        place = f"document {index + 1}: " if len(documents) > 1 else ""
        if "MetricDataResults" in document:
            _read_metric_data(recording, series, document, place)
            last_page = index == len(documents) - 1 or "MetricDataResults" not in documents[index + 1]
            if document.get("NextToken") and last_page:
                hint = "Fetch the rest with --next-token and put the pages one after the other into one file."
                raise recording.make_error(
                    f"{place}NextToken", "is there", "the export is cut off: more pages follow", hint
                )
        elif "Datapoints" in document:
            _read_metric_statistics(recording, series, document, place)
        else:
            rule = "MetricDataResults or Datapoints is expected"
            hint = "Export with aws cloudwatch get-metric-data."
            raise recording.make_error(place, f"keys {', '.join(list(document)[:5])}", rule, hint)


def _read_metric_data(recording: Recording, series: Metrics, document: dict, place: str) -> None:
    """Reads an answer of get-metric-data into `series`; metrics that are not used are left out with
    a note. Raises InputError for a damaged or undelivered result."""
    for index, result in enumerate(as_list(recording, f"{place}MetricDataResults", document["MetricDataResults"])):
        where = f"{place}MetricDataResults[{index}]"
        result = as_table(recording, where, result)
        label, key = result.get("Label"), result.get("Id")
        metric = next((find_metric(text) for text in (label, key) if isinstance(text, str) and find_metric(text)), None)
        if metric is None:
            recording.note(f"Left out: {str(label or key)[:60]!r}, {LEFT_OUT}.")
            continue
        times = as_list(recording, f"{where}.Timestamps", result.get("Timestamps"))
        values = as_list(recording, f"{where}.Values", result.get("Values"))
        if len(times) != len(values):
            hint = "The export is damaged: fetch it again."
            raise recording.make_error(where, f"{len(times)} times, {len(values)} values", "must be as many", hint)
        if result.get("StatusCode") in ("InternalError", "Forbidden"):
            rule = "CloudWatch did not deliver this metric"
            raise recording.make_error(where, f"StatusCode {result['StatusCode']}", rule, "Fetch it again.", SOURCE)
        volume = find_volume(label, key)
        for at, (time, value) in enumerate(zip(times, values, strict=True)):
            stamp = (
                parse_iso(str(time)[:60])
                if isinstance(time, (str, float)) or type(time) is int and abs(time) < 1e12
                else None
            )
            text = type(time).__name__
            _put(recording, series, f"{where}[{at}]", volume, metric, stamp=stamp, text=text, value=value)


def _read_metric_statistics(recording: Recording, series: Metrics, document: dict, place: str) -> None:
    """Reads an answer of get-metric-statistics into `series`. Raises InputError for a metric,
    statistic or unit other than those needed."""
    label = document.get("Label")
    metric = find_metric(label) if isinstance(label, str) else None
    if metric is None:
        hint = "Export these."
        raise recording.make_error(
            f"{place}Label", str(label)[:60], f"must be one of {', '.join(STATISTICS)}", hint, SOURCE
        )
    for index, point in enumerate(as_list(recording, f"{place}Datapoints", document["Datapoints"])):
        where = f"{place}Datapoints[{index}]"
        point = as_table(recording, where, point)
        statistic = STATISTICS[metric]
        if statistic not in point:
            value = f"statistics {', '.join(key for key in point if key not in ('Timestamp', 'Unit'))} of {metric}"
            hint = f"Export with --statistics {statistic}."
            raise recording.make_error(where, value, f"the {statistic} is needed", hint, SOURCE)
        if point.get("Unit", "") not in UNITS:
            hint = "Export without --unit."
            raise recording.make_error(where, f"unit {point['Unit']}", f"one of {UNIT_NAMES} is reported", hint, SOURCE)
        time = point.get("Timestamp")
        stamp = parse_iso(time[:60]) if isinstance(time, str) else None
        text, volume = type(time).__name__, find_volume(label)
        _put(recording, series, where, volume, metric, stamp=stamp, text=text, value=point[statistic])


# --- CSV ------------------------------------------------------------------------------------------


def _read_csv(recording: Recording, series: Metrics, periods: list[float]) -> None:
    """Reads a CSV file into `series`: in the long form if it has a column for metrics, else in the
    wide one. Raises InputError if it is not CSV."""
    if not recording.text.endswith("\n"):
        recording.note("The file does not end with a line end: if it was cut off, its last figure is too small.")
    head = recording.text[:5_000]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = list(csv.reader(recording.text.split("\n"), delimiter=delimiter, strict=True))
    except csv.Error as error:
        hint = "The file is cut off or damaged: export it again."
        raise recording.make_error("", str(error), "is not CSV", hint, "RFC 4180") from None
    numbered = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(rows, start=1)
        if any(cell.strip() for cell in row)
    ]
    for number, cells in numbered:
        low = [cell.lower() for cell in cells]
        if "metric" in low and any(word in low for word in ("timestamp", "time")):
            _read_long_form(recording, series, periods, low, [row for row in numbered if row[0] > number])
            return
        if parse_iso(cells[0]):
            break
    _read_wide_form(recording, series, periods, numbered)


def _read_long_form(recording: Recording, series: Metrics, periods: list[float], header: list[str], rows: list) -> None:
    """Reads a CSV with a figure in each line into `series`: columns metric, timestamp, value, and
    perhaps volume, statistic, unit and period. Raises InputError for a damaged line."""
    columns = {name: at for at, name in enumerate(header)}
    value_at = next((columns[name] for name in ("value", "sum") if name in columns), None)
    if value_at is None:
        hint = "The columns are metric,timestamp,value."
        raise recording.make_error("header", ", ".join(header), "needs a column value (or sum)", hint)
    time_at = columns["timestamp"] if "timestamp" in columns else columns["time"]

    def read_row(number: int, cells: list[str]) -> None:
        if len(cells) != len(header):
            hint = "The line is cut off: export again."
            raise recording.make_error(number, f"{len(cells)} columns", f"the header has {len(header)}", hint)
        metric = find_metric(cells[columns["metric"]])
        if metric is None:
            recording.note(f"Left out: {cells[columns['metric']][:60]!r}, {LEFT_OUT}.")
            return
        if "unit" in columns and cells[columns["unit"]] not in UNITS:
            rule = f"one of {UNIT_NAMES} is reported"
            raise recording.make_error(number, f"unit {cells[columns['unit']]}", rule, "Export without a unit.", SOURCE)
        if "statistic" in columns:
            _check_statistic(recording, number, metric, cells[columns["statistic"]])
        if "period" in columns and metric in NEEDED:
            _add_period(recording, periods, number, cells[columns["period"]])
        volume = cells[columns["volume"]] if cells and "volume" in columns else find_volume(cells[columns["metric"]])
        time = cells[time_at]
        _put(recording, series, number, volume, metric, stamp=parse_iso(time), text=time, value=cells[value_at])

    read_lines(recording, rows, read_row, lambda: series)


def _read_wide_form(recording: Recording, series: Metrics, periods: list[float], rows: list) -> None:
    """Reads the console's download into `series`: first lines with label, statistic and period of
    each column, then a line for each time. Raises InputError for another form."""
    first = next((at for at, (_, cells) in enumerate(rows) if parse_iso(cells[0])), None)
    if first is None or first == 0:
        hint = "Download the four metrics as CSV from the console."
        raise recording.make_error(
            rows[0][0], ",".join(rows[0][1]), "no heading and then lines that begin with a time", hint
        )
    width = len(rows[first][1])
    headings: list[list[str]] = [[] for _ in range(width)]
    statistics_at: dict[int, tuple[int, str]] = {}
    periods_at: dict[int, tuple[int, str]] = {}
    for number, cells in rows[:first]:
        kind = cells[0].lower()
        for at in range(1, min(width, len(cells))):
            headings[at].append(cells[at])
            if kind == "statistic" and cells[at]:
                statistics_at[at] = (number, cells[at])
            if kind == "period" and cells[at]:
                periods_at[at] = (number, cells[at])
    columns = []
    for at in range(1, width):
        metrics = {name for text in headings[at] if (name := find_metric(text)) is not None}
        if len(metrics) == 1:
            metric = metrics.pop()
            columns.append((at, metric, find_volume(*headings[at])))
            if at in statistics_at:
                _check_statistic(recording, statistics_at[at][0], metric, statistics_at[at][1])
            if at in periods_at and metric in NEEDED:
                _add_period(recording, periods, *periods_at[at])

    def read_line(number: int, cells: list[str]) -> None:
        if len(cells) != width:
            hint = "The line is cut off: export again."
            raise recording.make_error(number, f"{len(cells)} columns", f"the first line of figures has {width}", hint)
        stamp = parse_iso(cells[0])
        for at, metric, volume in columns:
            if cells[at]:  # the console leaves a cell without a figure empty
                _put(recording, series, number, volume, metric, stamp=stamp, text=cells[0], value=cells[at])

    read_lines(recording, rows[first:], read_line, lambda: series)


def _add_period(recording: Recording, periods: list[float], where: int, text: str) -> None:
    """Adds the period that a text states, in seconds, to `periods`, each once."""
    period_s = recording.parse_number(where, "period", text.lower().replace("seconds", "").strip())
    if period_s not in periods:
        periods.append(period_s)


# --- the four metrics together --------------------------------------------------------------------


def _combine_metrics(
    recording: Recording, series: Metrics, periods: list[float], period_s: float | None = None
) -> Readings:
    """Returns the readings of all volumes, with the metrics of each in one sample a period.
    `period_s`: of the points; None: that of `periods` (those that an export states), or of their
    times. Raises InputError where a needed metric is missing or periods differ."""
    service = _detect_service(recording, series)
    volumes = sorted({volume for volume, metric in series if metric in service.needed})
    for volume in volumes or [UNNAMED]:
        missing = [metric for metric in service.needed if not series.get((volume, metric))]
        if missing:
            value = f"{', '.join(missing)} of {volume or service.only_device}"
            hint = f"Export {', '.join(service.needed)} as {service.statistic}."
            raise recording.make_error("", value, "missing: all four metrics are needed", hint, service.source)
    if period_s is None:
        needed = {key: points for key, points in series.items() if key[1] in service.needed}
        period_s = _determine_period(recording, needed, periods)
    by_time: dict[float, DeviceReport] = {}
    uneven, sums = 0, service.statistic == "Sum"
    for volume in volumes:
        reads, writes, read_bytes, write_bytes = (series[volume, metric] for metric in service.needed)
        others = _collect_other_metrics(recording, series, volume, period_s)
        for moment in sorted(set(reads) | set(writes) | set(read_bytes) | set(write_bytes)):
            if not (moment in reads and moment in writes and moment in read_bytes and moment in write_bytes):
                uneven += 1
                continue
            where, stamp, _ = reads[moment]
            figures = [
                points[moment][2] / (period_s if sums else 1.0) for points in (reads, writes, read_bytes, write_bytes)
            ]
            observed = _make_observed(
                {name: points[moment][2] for name, points in others.items() if moment in points}, figures, period_s
            )
            sample = make_sample(
                recording, where, figures[0], figures[1], figures[2] / 1024, figures[3] / 1024, observed
            )
            by_time.setdefault(moment, DeviceReport(where, stamp, {})).devices[volume or service.only_device] = sample
    if uneven:
        recording.note(f"{uneven} periods were left out: not all four metrics have a figure there.")
    if service is RDS:
        recording.note(RDS_NOTE)
    return Readings(
        f"CloudWatch of {service.name}" if service is RDS else "CloudWatch",
        [by_time[moment] for moment in sorted(by_time)],
        stamped_at="start",
        interval_s=period_s,
        zone="UTC",
    )


def _detect_service(recording: Recording, series: Metrics) -> Service:
    """Returns the service whose needed metrics these are; EBS when there are none, so that the
    error names what is missing. Raises InputError for both services in one file."""
    services = [service for service in SERVICES if any(metric in service.needed for _, metric in series)]
    if len(services) > 1:
        raise recording.make_error(
            "", "metrics of EBS and of RDS", "are in one file", "Export and import them one by one."
        )
    return services[0] if services else EBS


def _collect_other_metrics(
    recording: Recording, series: Metrics, volume: str, period_s: float
) -> dict[str, dict[float, tuple]]:
    """Returns the metrics of OPTIONAL_METRICS of this volume, or of the unnamed one. A metric with
    another period is left out, with a note."""
    others = {}
    for metric in OPTIONAL_METRICS:
        points = series.get((volume, metric)) or series.get((UNNAMED, metric))
        if not points:
            continue
        times = sorted(points)
        step = statistics.median_low([b - a for a, b in pairwise(times)]) if len(times) > 1 else period_s
        if abs(step - period_s) > PERIOD_SLACK_S:
            recording.note(f"Left out: {metric}, every {step:g} s where the I/Os are every {period_s:g} s.")
        else:
            others[metric] = points
    return others


def _make_observed(others: dict[str, float], rates: list[float], period_s: float) -> Observed:
    """Returns queue, latencies (ms), utilisation and balance (per cent) of one period. `others`:
    values of OPTIONAL_METRICS; `rates`: reads and writes a second, then bytes."""

    def await_ms(latency: str, total: str, rate: float) -> float | None:
        """Returns a latency in ms, as published in seconds or from the total time of the period;
        None where neither is there."""
        if latency in others:
            return others[latency] * 1_000.0
        return others[total] / (rate * period_s) * 1_000.0 if total in others and rate > 0 else None

    idle = others.get("VolumeIdleTime")
    return Observed(
        await_ms("ReadLatency", "VolumeTotalReadTime", rates[0]),
        await_ms("WriteLatency", "VolumeTotalWriteTime", rates[1]),
        None,
        others.get("VolumeQueueLength", others.get("DiskQueueDepth")),
        None if idle is None else max(0.0, 100.0 - 100.0 * idle / period_s),
        others.get("BurstBalance"),
    )


def find_stated_period(recording: Recording, periods: list[float]) -> float | None:
    """Returns the period that a file states for its metrics, seconds; None where it states none.
    Raises InputError for several."""
    if len(set(periods)) > 1:
        rule = "all metrics need the same one"
        hint = "Export them with one period."
        raise recording.make_error("", f"periods {', '.join(f'{p:g}' for p in sorted(set(periods)))} s", rule, hint)
    return periods[0] if periods else None


def _determine_period(recording: Recording, series: Metrics, periods: list[float]) -> float:
    """Returns the seconds between the figures, the same for all metrics; `periods` are those that
    the file states. Raises InputError where they differ, or only one time is there."""
    stated_s = find_stated_period(recording, periods)
    times = {key: sorted(points) for key, points in series.items()}
    steps = {key: statistics.median_low([b - a for a, b in pairwise(at)]) for key, at in times.items() if len(at) > 1}
    if len(set(steps.values())) > 1:
        value = f"figures {', '.join(f'{step:g}' for step in sorted(set(steps.values())))} s apart"
        raise recording.make_error("", value, "all metrics need the same period", "Export them with one period.")
    spacing_s = next(iter(steps.values()), None)
    if stated_s is not None:
        if stated_s < 1 or (spacing_s is not None and abs(spacing_s - stated_s) > PERIOD_SLACK_S):
            hint = "Export again with one period."
            raise recording.make_error(
                "", f"period {stated_s:g} s", f"the figures are {spacing_s or 0:g} s apart", hint
            )
        return stated_s
    if spacing_s is None:
        raise recording.make_error(
            "", "one time only", "the period cannot be seen from it", "Export at least two periods."
        )
    return spacing_s
