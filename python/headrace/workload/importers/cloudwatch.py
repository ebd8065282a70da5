"""CloudWatch exports of an EBS volume: `get-metric-data` and `get-metric-statistics` JSON, and CSV.

Four metrics are needed, each as Sum over its period (EBS user guide, "CloudWatch metrics for Amazon EBS"): VolumeReadOps,
VolumeWriteOps, VolumeReadBytes, VolumeWriteBytes. A sum over the period divided by its length is the mean rate. A time marks
the start of its period.
"""

from __future__ import annotations

import csv
import re
import statistics

from headrace.workload.importers.clock import Stamp, parse_iso
from headrace.workload.importers.json_text import as_list, as_table, load_all_json
from headrace.workload.importers.reading import Recording
from headrace.workload.importers.series import Readings, Report, make_sample

METRICS = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")
VOLUME_ID = re.compile(r"vol-[0-9a-f]{8}(?:[0-9a-f]{9})?")
SOURCE = "EBS user guide, CloudWatch metrics for Amazon EBS"
ONLY_VOLUME = "volume"
UNITS = {"Count", "Bytes", "None", ""}
PERIOD_SLACK_S = 1.0

# (volume, metric) -> {epoch_s: (where, stamp, value)}
Series = dict[tuple[str, str], dict[float, tuple]]


def parse(recording: Recording) -> Readings:
    """Reports of a CloudWatch export. Raises InputError."""
    series: Series = {}
    periods: list[float] = []
    if recording.text.lstrip().startswith(("{", "[")):
        _read_json(recording, series)
    else:
        _read_csv(recording, series, periods)
    return _join(recording, series, periods)


def metric_in(text: str) -> str | None:
    """Which of the four metrics a label, id or column heading names; None for another or none."""
    plain = re.sub(r"[^a-z]", "", text.lower())
    found = [metric for metric in METRICS if metric.lower() in plain or plain == metric[6:].lower()]
    return found[0] if len(found) == 1 else None


def _volume_in(*texts: object) -> str:
    for text in texts:
        match = VOLUME_ID.search(text) if isinstance(text, str) else None
        if match:
            return match[0]
    return ONLY_VOLUME


def _put(recording: Recording, series: Series, where, volume: str, metric: str, stamp: Stamp | None, text: object, value: object) -> None:
    if stamp is None:
        raise recording.bad(where, f"time {text!r}", "is not a time CloudWatch writes", "Export again; ISO 8601 in UTC is best.")
    number = recording.number(where, metric, value)
    if abs(number - round(number)) > 1e-6 * max(1.0, number):
        raise recording.bad(
            where,
            f"{metric} = {number:g}",
            "a sum of I/Os or bytes is a whole number",
            "Export the statistic Sum, not Average and not a rate.",
            SOURCE,
        )
    points = series.setdefault((volume, metric), {})
    if stamp.epoch_s in points:
        raise recording.bad(where, f"{metric} at {stamp.local}", "is there twice", "Two exports overlap: keep one of each time.")
    points[stamp.epoch_s] = (where, stamp, number)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _read_json(recording: Recording, series: Series) -> None:
    documents = load_all_json(recording)
    for index, document in enumerate(documents):
        place = f"document {index + 1}: " if len(documents) > 1 else ""
        if "MetricDataResults" in document:
            _metric_data(recording, series, document, place)
            last_page = index == len(documents) - 1 or "MetricDataResults" not in documents[index + 1]
            if document.get("NextToken") and last_page:
                raise recording.bad(
                    f"{place}NextToken",
                    "is there",
                    "the export is cut off: more pages follow",
                    "Fetch the rest with --next-token and put the pages one after the other into one file.",
                )
        elif "Datapoints" in document:
            _metric_statistics(recording, series, document, place)
        else:
            raise recording.bad(
                place,
                f"keys {', '.join(list(document)[:5])}",
                "MetricDataResults or Datapoints is expected",
                "Export with aws cloudwatch get-metric-data.",
            )


def _metric_data(recording: Recording, series: Series, document: dict, place: str) -> None:
    for index, result in enumerate(as_list(recording, f"{place}MetricDataResults", document["MetricDataResults"])):
        where = f"{place}MetricDataResults[{index}]"
        result = as_table(recording, where, result)
        label, key = result.get("Label"), result.get("Id")
        metric = next((metric_in(text) for text in (label, key) if isinstance(text, str) and metric_in(text)), None)
        if metric is None:
            _note(recording, f"Left out: {str(label or key)[:60]!r}, not one of the four metrics of a volume's I/O.")
            continue
        times = as_list(recording, f"{where}.Timestamps", result.get("Timestamps"))
        values = as_list(recording, f"{where}.Values", result.get("Values"))
        if len(times) != len(values):
            raise recording.bad(
                where, f"{len(times)} times, {len(values)} values", "must be as many", "The export is damaged: fetch it again."
            )
        if result.get("StatusCode") in ("InternalError", "Forbidden"):
            raise recording.bad(
                where, f"StatusCode {result['StatusCode']}", "CloudWatch did not deliver this metric", "Fetch it again.", SOURCE
            )
        volume = _volume_in(label, key)
        for at, (time, value) in enumerate(zip(times, values, strict=True)):
            stamp = parse_iso(str(time)[:60]) if isinstance(time, (str, float)) or type(time) is int and abs(time) < 1e12 else None
            _put(recording, series, f"{where}[{at}]", volume, metric, stamp, type(time).__name__ if stamp is None else time, value)


def _metric_statistics(recording: Recording, series: Series, document: dict, place: str) -> None:
    label = document.get("Label")
    metric = metric_in(label) if isinstance(label, str) else None
    if metric is None:
        raise recording.bad(f"{place}Label", str(label)[:60], f"must be one of {', '.join(METRICS)}", "Export these four.", SOURCE)
    for index, point in enumerate(as_list(recording, f"{place}Datapoints", document["Datapoints"])):
        where = f"{place}Datapoints[{index}]"
        point = as_table(recording, where, point)
        if "Sum" not in point:
            raise recording.bad(
                where,
                f"statistics {', '.join(key for key in point if key not in ('Timestamp', 'Unit'))}",
                "the Sum is needed",
                "Export with --statistics Sum.",
                SOURCE,
            )
        if point.get("Unit", "") not in UNITS:
            raise recording.bad(where, f"unit {point['Unit']}", "EBS reports Count and Bytes", "Export without --unit.", SOURCE)
        time = point.get("Timestamp")
        stamp = parse_iso(time[:60]) if isinstance(time, str) else None
        _put(recording, series, where, _volume_in(label), metric, stamp, type(time).__name__ if stamp is None else time, point["Sum"])


# --- CSV --------------------------------------------------------------------------------------------------------------


def _read_csv(recording: Recording, series: Series, periods: list[float]) -> None:
    if not recording.text.endswith("\n"):
        _note(recording, "The file does not end with a line end: if it was cut off, its last figure is too small.")
    head = recording.text[:5_000]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = list(csv.reader(recording.text.split("\n"), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise recording.bad("", str(error), "is not CSV", "The file is cut off or damaged: export it again.", "RFC 4180") from None
    numbered = [(number, [cell.strip() for cell in row]) for number, row in enumerate(rows, start=1) if any(cell.strip() for cell in row)]
    for number, cells in numbered:
        low = [cell.lower() for cell in cells]
        if "metric" in low and any(word in low for word in ("timestamp", "time")):
            _long_form(recording, series, low, [row for row in numbered if row[0] > number])
            return
        if parse_iso(cells[0]):
            break
    _wide_form(recording, series, periods, numbered)


def _long_form(recording: Recording, series: Series, header: list[str], rows: list) -> None:
    """One line a figure: metric, timestamp, value, and perhaps volume, statistic, unit."""
    columns = {name: at for at, name in enumerate(header)}
    value_name = next((name for name in ("value", "sum") if name in columns), None)
    if value_name is None:
        raise recording.bad("header", ", ".join(header), "needs a column value (or sum)", "The columns are metric,timestamp,value.")
    time_at = columns.get("timestamp", columns.get("time"))
    for number, cells in rows:
        if len(cells) != len(header):
            raise recording.bad(number, f"{len(cells)} columns", f"the header has {len(header)}", "The line is cut off: export again.")
        metric = metric_in(cells[columns["metric"]])
        if metric is None:
            _note(recording, f"Left out: {cells[columns['metric']][:60]!r}, not one of the four metrics of a volume's I/O.")
            continue
        if "unit" in columns and cells[columns["unit"]] not in UNITS:
            raise recording.bad(number, f"unit {cells[columns['unit']]}", "EBS reports Count and Bytes", "Export without a unit.", SOURCE)
        if "statistic" in columns and cells[columns["statistic"]].lower() != "sum":
            raise recording.bad(
                number, f"statistic {cells[columns['statistic']]}", "the Sum is needed", "Export the statistic Sum.", SOURCE
            )
        volume = cells[columns["volume"]] if cells and "volume" in columns else _volume_in(cells[columns["metric"]])
        _put(
            recording, series, number, volume or ONLY_VOLUME, metric, parse_iso(cells[time_at]), cells[time_at], cells[columns[value_name]]
        )


def _wide_form(recording: Recording, series: Series, periods: list[float], rows: list) -> None:
    """The console's download: some lines about each column (label, statistic, period), then one line a time."""
    first = next((at for at, (_, cells) in enumerate(rows) if parse_iso(cells[0])), None)
    if first is None or first == 0:
        raise recording.bad(
            rows[0][0],
            ",".join(rows[0][1]),
            "no heading and then lines that begin with a time",
            "Download the four metrics as CSV from the console.",
        )
    width = len(rows[first][1])
    about: list[list[str]] = [[] for _ in range(width)]
    for number, cells in rows[:first]:
        kind = cells[0].lower()
        for at in range(1, min(width, len(cells))):
            about[at].append(cells[at])
            if kind == "statistic" and cells[at] and cells[at].lower() != "sum":
                raise recording.bad(
                    number, f"statistic {cells[at]}", "the Sum is needed", "Set the statistic to Sum and download again.", SOURCE
                )
            if kind == "period" and cells[at]:
                periods.append(recording.number(number, "period", cells[at].lower().replace("seconds", "").strip()))
    named = []
    for at in range(1, width):
        found = {metric_in(text) for text in about[at]} - {None}
        if len(found) == 1:
            named.append((at, found.pop(), _volume_in(*about[at])))
    for number, cells in rows[first:]:
        if len(cells) != width:
            raise recording.bad(
                number, f"{len(cells)} columns", f"the first line of figures has {width}", "The line is cut off: export again."
            )
        stamp = parse_iso(cells[0])
        for at, metric, volume in named:
            if cells[at]:  # the console leaves a cell empty where there is no figure
                _put(recording, series, number, volume, metric, stamp, cells[0], cells[at])


# --- the four metrics together ----------------------------------------------------------------------------------------


def _join(recording: Recording, series: Series, periods: list[float]) -> Readings:
    volumes = sorted({volume for volume, _ in series})
    for volume in volumes or [ONLY_VOLUME]:
        missing = [metric for metric in METRICS if not series.get((volume, metric))]
        if missing:
            raise recording.bad(
                "",
                f"{', '.join(missing)} of {volume}",
                "missing: all four metrics are needed",
                "Export VolumeReadOps, VolumeWriteOps, VolumeReadBytes and VolumeWriteBytes as Sum.",
                SOURCE,
            )
    period_s = _period(recording, series, periods)
    by_time: dict[float, Report] = {}
    uneven = 0
    for volume in volumes:
        reads, writes, read_bytes, write_bytes = (series[volume, metric] for metric in METRICS)
        for moment in sorted(set(reads) | set(writes) | set(read_bytes) | set(write_bytes)):
            if not (moment in reads and moment in writes and moment in read_bytes and moment in write_bytes):
                uneven += 1
                continue
            where, stamp, ops = reads[moment]
            sample = make_sample(
                recording,
                where,
                ops / period_s,
                writes[moment][2] / period_s,
                read_bytes[moment][2] / 1024 / period_s,
                write_bytes[moment][2] / 1024 / period_s,
            )
            by_time.setdefault(moment, Report(where, stamp, {})).devices[volume] = sample
    if uneven:
        _note(recording, f"{uneven} periods were left out: not all four metrics have a figure there.")
    return Readings("CloudWatch", [by_time[moment] for moment in sorted(by_time)], stamped_at="start", interval_s=period_s)


def _period(recording: Recording, series: Series, periods: list[float]) -> float:
    if len(set(periods)) > 1:
        raise recording.bad(
            "",
            f"periods {', '.join(f'{p:g}' for p in sorted(set(periods)))} s",
            "all metrics need the same one",
            "Export them with one period.",
        )
    found = {key: sorted(points) for key, points in series.items()}
    steps = {key: statistics.median_low([b - a for a, b in zip(at, at[1:], strict=False)]) for key, at in found.items() if len(at) > 1}
    if len(set(steps.values())) > 1:
        raise recording.bad(
            "",
            f"figures {', '.join(f'{step:g}' for step in sorted(set(steps.values())))} s apart",
            "all metrics need the same period",
            "Export them with one period.",
        )
    between = next(iter(steps.values()), None)
    if periods:
        if periods[0] < 1 or (between is not None and abs(between - periods[0]) > PERIOD_SLACK_S):
            raise recording.bad(
                "", f"period {periods[0]:g} s", f"the figures are {between or 0:g} s apart", "Export again with one period."
            )
        return periods[0]
    if between is None:
        raise recording.bad("", "one time only", "the period cannot be seen from it", "Export at least two periods.")
    return between


def _note(recording: Recording, note: str) -> None:
    if note not in recording.notes and len(recording.notes) < 20:
        recording.notes.append(note)
