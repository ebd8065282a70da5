"""`sar -d` as text, and `sadf -d` (CSV) and `sadf -j` (JSON) of the same record.

sar has the I/Os of a device in one figure (tps), and only the bytes of reads and writes apart. So
the I/Os are divided by the bytes, with one mean size for reads and writes: I/Os and bytes are
exact, the share of reads is not.
"""

from __future__ import annotations

import re
import statistics
from datetime import date, datetime, timedelta

from headrace.observe.clock import EPOCH, Stamp, parse_days, parse_iso, parse_stamps, parse_time_of_day
from headrace.observe.formats.devices import DeviceReport, Readings, Sample, make_sample
from headrace.observe.formats.iostat import make_observed
from headrace.observe.formats.json_text import as_table, get_sysstat_host, yield_tables
from headrace.observe.recording import Recording, read_lines

BANNER = re.compile(r"Linux \S+ \(.*?\)\s+(?P<day>\S+(?:\s\d\S*){0,2}?)\s+_")
READ_COLUMNS = {"rkB/s": 1.0, "rMB/s": 1024.0, "rd_sec/s": 0.5, "rkB": 1.0, "rd_sec": 0.5}
WRITE_COLUMNS = {"wkB/s": 1.0, "wMB/s": 1024.0, "wr_sec/s": 0.5, "wkB": 1.0, "wr_sec": 0.5}
SPLIT_NOTE = (
    "sar counts reads and writes of a device together: they were parted by their bytes, with one mean size for both. "
    "`iostat -x` tells them apart."
)
DISCARD_NOTE = "sar counts discards among the I/Os: there are a few more I/Os in the figures than reads and writes."
RESTART_NOTE = "The host or its sar was restarted during the recording."
NO_CLOCK_DAY = date(2000, 1, 1)  # stands for a day that the file does not name


def parse(recording: Recording) -> Readings:
    """Returns the reports in a recording of sar or sadf. Raises InputError."""
    start = recording.text.lstrip()
    if start.startswith("{"):
        readings = _parse_json(recording)
    elif start.startswith("#"):
        readings = _parse_csv(recording)
    else:
        readings = _parse_text(recording)
    if not readings.reports:
        hint = "Record disks (sadc -S DISK) and print them: sar -d."
        raise recording.make_error("", "no disk report", "sar -d was expected", hint)
    recording.notes.append(SPLIT_NOTE)
    return readings


def make_sar_sample(recording: Recording, where: int | str, figures: dict[str, float]) -> Sample:
    """Returns a line of sar as a sample: tps are divided into reads and writes by their bytes."""
    read_kib = next(figures[name] * factor for name, factor in READ_COLUMNS.items() if name in figures)
    write_kib = next(figures[name] * factor for name, factor in WRITE_COLUMNS.items() if name in figures)
    if figures.get("dkB/s", figures.get("dkB", 0.0)) > 0:
        recording.note(DISCARD_NOTE)
    tps, kib = figures["tps"], read_kib + write_kib
    reads = tps * read_kib / kib if kib else 0.0
    return make_sample(
        recording, where, reads, tps - reads if kib else 0.0, read_kib, write_kib, make_observed(figures)
    )


def check_columns(recording: Recording, where: int | str, columns: list[str]) -> None:
    """Raises InputError for a table without tps, or without the bytes of reads and writes apart."""
    for needed, names in (("tps", ("tps",)), ("rkB/s", READ_COLUMNS), ("wkB/s", WRITE_COLUMNS)):
        if not any(column in names for column in columns):
            hint = "Print the disks: sar -d."
            raise recording.make_error(where, f"no column {needed}", "sar -d has tps, rkB/s and wkB/s", hint)
    if len(set(columns)) != len(columns):
        raise recording.make_error(
            where, "a column twice", "each may be there once", "Print without -h: sadf -d FILE -- -d."
        )


# --- text -----------------------------------------------------------------------------------------


def _parse_text(recording: Recording) -> Readings:
    """Returns the reports in the text of `sar -d`. Raises InputError for a damaged line."""
    reader = _TextReader(recording)
    read_lines(recording, list(enumerate(recording.lines, start=1)), reader.read_line, lambda: reader.reports)
    days = parse_days(recording, reader.day_texts) if reader.day_texts else []
    _date_reports(reader, days)
    return Readings("sar", reader.reports)


class _TextReader:
    """Lines of `sar -d`: banners with a day, and tables whose rows begin with a time of day."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.reports: list[DeviceReport] = []
        self.times: list[tuple[int, int]] = []  # of each report: (which banner, second of the day)
        self.day_texts: list[tuple[int, str]] = []
        self.columns: list[str] = []  # none: no table is open
        self.header_may_follow = True
        self.restarted = False

    def read_line(self, number: int, line: str) -> None:
        """Reads one line; tables other than that of the devices are passed over. Raises InputError
        for a line that is not sar's."""
        words = line.split()
        if not words:
            self.columns, self.header_may_follow = [], True
            return
        if line.startswith("Linux "):
            banner = BANNER.match(line)
            if not banner:
                hint = "The line is damaged: copy the file again."
                raise self.recording.make_error(number, line, "is not the first line of sar", hint)
            self.day_texts.append((number, banner["day"]))
            self.columns, self.header_may_follow = [], True
            return
        if words[0].endswith(":") or (len(words) > 1 and words[1] == ":"):  # Average:, Moyenne :
            self.columns, self.header_may_follow = [], False
            return
        second_of_day, rest = _split_time(words)
        if second_of_day is None:
            if self.columns or self.header_may_follow:
                hint = "The line is damaged, or is not of sar -d: take its report out."
                raise self.recording.make_error(number, line.strip(), "every line of sar begins with a time", hint)
        elif rest[:2] == ["LINUX", "RESTART"] or rest[:1] == ["LINUX-RESTART"]:
            self.restarted, self.columns, self.header_may_follow = True, [], True
            self.recording.note(RESTART_NOTE)
        elif "DEV" in rest and "tps" in rest:
            check_columns(self.recording, number, rest)
            self.columns, self.header_may_follow = rest, False
        elif self.columns:
            self._read_row(number, second_of_day, rest)
        else:
            # a table of another kind (sar -A): left alone up to the next empty line
            self.header_may_follow = False

    def _read_row(self, number: int, second: int, words: list[str]) -> None:
        """Adds a device's line to the report of its time, `second` of the day; a new time begins a
        report. Raises InputError for a line that is cut off."""
        if len(words) != len(self.columns):
            rule = f"the header above has {len(self.columns)}"
            hint = "The line is cut off or two ran together: take its report out."
            raise self.recording.make_error(number, f"{len(words)} columns after the time", rule, hint)
        row = dict(zip(self.columns, words, strict=True))
        device = row.pop("DEV")
        moment = (len(self.day_texts), second)
        if not self.reports or self.times[-1] != moment:
            self.reports.append(DeviceReport(number, None, restarted=self.restarted))
            self.times.append(moment)
            self.restarted = False
        figures = {column: self.recording.parse_number(number, column, word) for column, word in row.items()}
        self.reports[-1].add(self.recording, number, device, make_sar_sample(self.recording, number, figures))


def _split_time(words: list[str]) -> tuple[int | None, list[str]]:
    """Returns the second of the day that a line begins with, None where it begins with no time,
    and the words behind it."""
    if len(words) > 1 and words[1].upper() in ("AM", "PM"):
        return parse_time_of_day(f"{words[0]} {words[1]}"), words[2:]
    return parse_time_of_day(words[0]), words[1:]


def _date_reports(reader: _TextReader, days: list[date]) -> None:
    """Sets the `stamp` of each report. sar prints times of day only: the day is that of the banner,
    and one later each time that the time falls by more than half a day."""
    banner, day, before = 0, days[0] if days else NO_CLOCK_DAY, None
    for report, (of_banner, second) in zip(reader.reports, reader.times, strict=True):
        if of_banner != banner and of_banner:
            banner, day, before = of_banner, days[of_banner - 1], None
        if before is not None and before - second > 43_200:
            day += timedelta(days=1)
        before = second
        local = datetime(day.year, day.month, day.day) + timedelta(seconds=second)
        report.stamp = Stamp((local - EPOCH).total_seconds(), local)


# --- sadf -----------------------------------------------------------------------------------------


def _parse_csv(recording: Recording) -> Readings:
    """Returns the reports of `sadf -d`. Raises InputError for a damaged line."""
    reader = _CsvReader(recording)
    read_lines(recording, list(enumerate(recording.lines, start=1)), reader.read_line, lambda: reader.reports)
    return _stamp_reports(recording, reader.reports, reader.stamps, reader.intervals)


class _CsvReader:
    """Lines of `sadf -d`: headers that begin with #, and rows with host, interval and time."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.columns: list[str] = []  # none: no table is open
        self.host: str | None = None
        self.reports: list[DeviceReport] = []
        self.stamps: list[tuple[int, str]] = []  # of each report
        self.intervals: list[float] = []
        self.restarted = False

    def read_line(self, number: int, line: str) -> None:
        """Reads one line of `sadf -d`; tables without devices are passed over. Raises
        InputError for a damaged line."""
        if not line.strip():
            return
        if line.startswith("#"):
            self._read_header(number, line)
            return
        cells = [cell.strip() for cell in line.split(";")]
        if any("LINUX-RESTART" in cell for cell in cells):
            self.restarted = True
            self.recording.note(RESTART_NOTE)
        elif self.columns and "DEV" in self.columns:  # else another report of the same sadf call
            self._read_row(number, cells)

    def _read_header(self, number: int, line: str) -> None:
        """Takes the columns that a header line names. Raises InputError for those of `sadf -h`."""
        columns = [column.strip() for column in line[1:].split(";")]
        if columns[-1].endswith("[...]"):
            hint = "Print without -h: sadf -d FILE -- -d."
            raise self.recording.make_error(
                number, columns[-1], "is the layout of sadf -h: all devices in one line", hint
            )
        if "DEV" in columns:
            check_columns(self.recording, number, columns)
        self.columns = columns

    def _read_row(self, number: int, cells: list[str]) -> None:
        """Adds a device's line to the report of its time. Raises InputError for a line that is cut
        off or of another host."""
        if len(cells) != len(self.columns):
            hint = "The line is cut off or two ran together: take its report out."
            raise self.recording.make_error(
                number, f"{len(cells)} columns", f"the header above has {len(self.columns)}", hint
            )
        row = dict(zip(self.columns, cells, strict=True))
        if self.host is not None and row.get("hostname") != self.host:
            hint = "Import the hosts one by one."
            raise self.recording.make_error(
                number, f"host {row.get('hostname')}", f"the file began with {self.host}", hint
            )
        self.host = row.get("hostname")
        stamp, interval = row.get("timestamp", ""), self.recording.parse_number(number, "interval", row.get("interval"))
        if not self.stamps or self.stamps[-1][1] != stamp:
            self.stamps.append((number, stamp))
            self.intervals.append(interval)
            self.reports.append(DeviceReport(number, None, restarted=self.restarted))
            self.restarted = False
        _add_row(self.recording, number, self.reports[-1], row, "DEV")


def _parse_json(recording: Recording) -> Readings:
    """Returns the reports of `sadf -j`; entries without disks are skipped. Raises InputError for a
    damaged document."""
    host = get_sysstat_host(recording)
    if host.get("restarts"):
        recording.note(RESTART_NOTE)
    intervals, stamps, reports = [], [], []
    for place, entry in yield_tables(recording, "statistics", host.get("statistics")):
        if "disk" not in entry:
            continue
        moment = as_table(recording, f"{place}.timestamp", entry.get("timestamp"))
        zone = "Z" if moment.get("utc") in (1, True) else ""
        stamps.append((place, f"{moment.get('date')} {moment.get('time')}{zone}"))
        intervals.append(recording.parse_number(place, "interval", moment.get("interval")))
        reports.append(DeviceReport(place, None))
        for where, row in yield_tables(recording, f"{place}.disk", entry["disk"]):
            check_columns(recording, where, list(row))
            _add_row(recording, where, reports[-1], row, "disk-device")
    return _stamp_reports(recording, reports, stamps, intervals)


def _add_row(recording: Recording, where: int | str, report: DeviceReport, row: dict, device: str) -> None:
    """Adds a row of sadf to a report; `device`: the column with its name."""
    labels = ("hostname", "interval", "timestamp", device)
    figures = {key: recording.parse_number(where, key, value) for key, value in row.items() if key not in labels}
    report.add(recording, where, row.get(device), make_sar_sample(recording, where, figures))


def _stamp_reports(recording: Recording, reports: list[DeviceReport], stamps: list, intervals: list[float]) -> Readings:
    """Sets the `stamp` of each report, and returns the readings with the median interval in seconds
    (None without reports)."""
    epochs = [parse_iso(text) if text[:10].isdigit() else None for _, text in stamps]
    moments = epochs if all(epochs) else parse_stamps(recording, stamps)
    for report, stamp in zip(reports, moments, strict=True):
        report.stamp = stamp
    return Readings("sar", reports, interval_s=statistics.median_low(intervals) if intervals else None)
