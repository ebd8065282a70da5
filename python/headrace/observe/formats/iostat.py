"""`iostat -x`, as text (sysstat 9 to 12, with or without -t, -m, -k, -z) and as JSON (-o JSON).

The columns are found by their names, because sysstat reordered them in 11.6 and 12.0. The first
report after a start is the mean since boot and is left out. A command line that was copied with the
output tells the interval, and with -y that no report since boot was printed.
"""

from __future__ import annotations

import re

from headrace.observe.clock import looks_like_stamp, parse_stamps
from headrace.observe.formats.devices import DeviceReport, Observed, Readings, Sample, make_sample
from headrace.observe.formats.json_text import get_sysstat_host, yield_tables
from headrace.observe.recording import Recording, read_lines

BANNER = re.compile(r"Linux \S+ \(")
# A command line that was copied from a terminal: iostat and its arguments, behind a prompt or not.
COMMAND = re.compile(r"(?:.*[\s/#$%>])?iostat(?P<arguments>(?:\s+\S+)*)\s*\Z")
PROMPT = re.compile(r".*[#$%>]\s*\Z")
# KiB in one unit of the column; a sector is 512 B whatever the disk (kernel,
# Documentation/block/stat).
READ_COLUMNS = {"rkB/s": 1.0, "rMB/s": 1024.0, "rsec/s": 0.5}
WRITE_COLUMNS = {"wkB/s": 1.0, "wMB/s": 1024.0, "wsec/s": 0.5}
SIZE_COLUMNS = {"rareq-sz": 1.0, "wareq-sz": 1.0, "areq-sz": 1.0, "avgrq-sz": 0.5}
SINCE_BOOT_NOTE = "First report skipped (mean since boot; use iostat -y)."
OTHER_IO_NOTE = "Discards were left out: they move no data, though EBS may count them."


def parse(recording: Recording) -> Readings:
    """Returns the reports in a recording of iostat, as text or JSON. Raises InputError."""
    if recording.text.lstrip().startswith("{"):
        return _parse_json(recording)
    reader = _TextReader(recording)
    read_lines(recording, list(enumerate(recording.lines, start=1)), reader.read_line, lambda: reader.reports)
    return _make_readings(recording, reader.reports, reader.stamp_texts, reader.interval_s)


class _TextReader:
    """Reads iostat's text line by line: a banner, a time, the CPU block, a table of devices."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.reports: list[DeviceReport] = []
        self.stamp_texts: list[tuple[int, str] | None] = []  # of each report
        self.pending_stamp: tuple[int, str] | None = None
        self.columns: list[str] = []  # none: no table is open
        self.cpu_values_follow = False
        self.since_boot = True
        self.skips_boot = False  # the command line has -y
        self.interval_s: float | None = None  # of the command line

    def read_line(self, number: int, line: str) -> None:
        """Reads one line of the recording; what it means depends on the lines before. Raises
        InputError for a line that is not iostat's."""
        words = line.split()
        if not words:
            if not self.cpu_values_follow:
                self.columns = []
        elif BANNER.match(line):
            self.since_boot, self.columns, self.cpu_values_follow = not self.skips_boot, [], False
        elif looks_like_stamp(line.strip()):
            self.pending_stamp, self.columns = (number, line.strip()), []
        elif words[0] == "avg-cpu:":
            self.cpu_values_follow, self.columns = True, []
        elif words[0].rstrip(":") == "Device":
            self._read_header(number, words)
        elif command := COMMAND.match(line):
            self._read_command(number, command["arguments"].split())
        elif self.cpu_values_follow:
            for word in words:
                self.recording.parse_number(number, "a CPU figure", word)
            self.cpu_values_follow = False
        elif self.columns:
            self._read_device(number, words)
        elif line.strip() != "^C" and not PROMPT.match(line):
            self._refuse_line(number, line, words)

    def _read_command(self, number: int, arguments: list[str]) -> None:
        """Takes the interval and -y from the arguments of a command line of iostat. Raises
        InputError if its interval is not that of an earlier one."""
        arguments = arguments[: next((at for at, word in enumerate(arguments) if word[0] in ">|;&"), len(arguments))]
        interval = next((float(word) for word in arguments if word.isascii() and word.isdigit()), None)
        if self.interval_s is not None and interval is not None and interval != self.interval_s:
            hint = "Two recordings were joined: import them one by one."
            rule = f"the command line above it has {self.interval_s:g} s"
            raise self.recording.make_error(number, f"iostat with {interval:g} s", rule, hint)
        self.interval_s = interval or self.interval_s
        short = [word for word in arguments if word.startswith("-") and not word.startswith("--")]
        self.skips_boot = any("y" in word for word in short)
        self.since_boot, self.columns, self.cpu_values_follow = not self.skips_boot, [], False

    def _read_header(self, number: int, words: list[str]) -> None:
        """Begins a report and its table at a header line. Raises InputError for columns that are
        not known."""
        check_columns(self.recording, number, words[1:])
        self.columns, self.cpu_values_follow = words[1:], False
        # `restarted` marks the report since boot; it is taken out at the end.
        self.reports.append(DeviceReport(number, None, restarted=self.since_boot))
        self.stamp_texts.append(self.pending_stamp)
        self.since_boot, self.pending_stamp = False, None

    def _read_device(self, number: int, words: list[str]) -> None:
        """Adds a device's line to the report. Raises InputError where it has another number of
        columns than the header."""
        device, values = words[0], words[1:]
        if len(values) != len(self.columns):
            more = len(values) > len(self.columns)
            rule = f"the header above has {len(self.columns) + 1}"
            hint = (
                "Two lines ran into each other: take the report out."
                if more
                else "The line is cut off: take its report out, or copy the file again."
            )
            raise self.recording.make_error(number, f"{len(values) + 1} columns", rule, hint)
        figures = {
            column: self.recording.parse_number(number, column, word)
            for column, word in zip(self.columns, values, strict=True)
        }
        self.reports[-1].add(self.recording, number, device, make_iostat_sample(self.recording, number, figures))

    def _refuse_line(self, number: int, line: str, words: list[str]) -> None:
        """Raises InputError for a line that fits nowhere."""
        if words[-1] == "Device":
            hint = "Record without -h: iostat -xt 1."
            raise self.recording.make_error(number, line.strip(), "is the layout of iostat -h", hint)
        hint = "The file is damaged or edited: take the line out if it does not belong."
        raise self.recording.make_error(number, line.strip(), "is not a line of iostat", hint)


def check_columns(recording: Recording, where: int | str, columns: list[str]) -> None:
    """Raises InputError for a table that has reads and writes together (no -x, or -s)."""
    for needed, names in (("r/s", ("r/s",)), ("w/s", ("w/s",)), ("rkB/s", READ_COLUMNS), ("wkB/s", WRITE_COLUMNS)):
        matches = [column for column in columns if column in names]
        if not matches:
            hint = "Record with -x and without -s: iostat -xt 1."
            raise recording.make_error(
                where, f"no column {needed}", "reads and writes, I/Os and bytes are all needed", hint
            )
        if len(matches) > 1 or len(set(columns)) != len(columns):
            hint = "The header is damaged: copy the file again."
            raise recording.make_error(where, "a column is there twice", "each may be there once", hint)


def make_iostat_sample(recording: Recording, where: int | str, figures: dict[str, float]) -> Sample:
    """Returns a device's line as a sample. Raises InputError where sizes contradict its bytes."""
    read_kib = sum(figures[name] * factor for name, factor in READ_COLUMNS.items() if name in figures)
    write_kib = sum(figures[name] * factor for name, factor in WRITE_COLUMNS.items() if name in figures)
    reads, writes = figures["r/s"], figures["w/s"]
    unit = 1024.0 if "rMB/s" in figures or "wMB/s" in figures else 1.0
    for column, ops, kib in (
        ("rareq-sz", reads, read_kib),
        ("wareq-sz", writes, write_kib),
        ("areq-sz", reads + writes, read_kib + write_kib),
        ("avgrq-sz", reads + writes, read_kib + write_kib),
    ):
        # With discards among them, the size over all I/Os is not that of reads and writes.
        if column in figures and not (column.startswith("a") and figures.get("d/s", 0.0) > 0):
            _check_size(recording, where, column, ops, kib, figures[column] * SIZE_COLUMNS[column], unit)
    if figures.get("d/s", 0.0) > 0:
        recording.note(OTHER_IO_NOTE)
    return make_sample(recording, where, reads, writes, read_kib, write_kib, make_observed(figures))


def make_observed(figures: dict[str, float]) -> Observed:
    """Returns latencies (ms), queue and utilisation (per cent) of a line of sysstat, old or new."""
    apart = "r_await" in figures and "w_await" in figures
    return Observed(
        figures["r_await"] if apart else None,
        figures["w_await"] if apart else None,
        None if apart else figures.get("await"),
        _find_first(figures, "aqu-sz", "avgqu-sz"),
        _find_first(figures, "%util", "util", "util-percent"),
    )


def _find_first(figures: dict[str, float], *names: str) -> float | None:
    return next((figures[name] for name in names if name in figures), None)


def _check_size(
    recording: Recording, where: int | str, column: str, ops: float, kib: float, size_kib: float, unit: float
) -> None:
    """Raises InputError if I/Os a second times their mean size are not the KiB a second printed
    with them; `unit` is the smallest step that is printed."""
    # Each figure is printed to 2 decimals at worst, `--dec=0` to whole numbers: half a unit of
    # each, carried through the product, and 2 % for the interval being measured twice.
    tolerance = 0.5 * (ops + size_kib + 2 * unit) + 0.02 * max(kib, ops * size_kib)
    if abs(ops * size_kib - kib) > tolerance:
        rule = f"do not make the {kib:g} KiB/s in the same line"
        hint = "The line is damaged or its units are mixed: take its report out."
        raise recording.make_error(where, f"{ops:g} I/Os a second of {size_kib:g} KiB ({column})", rule, hint)


def _parse_json(recording: Recording) -> Readings:
    """Returns the reports of `iostat -o JSON`, without the first, the mean since boot. Raises
    InputError for a damaged document."""
    host = get_sysstat_host(recording)
    reports, stamps = [], []
    for place, entry in yield_tables(recording, "statistics", host.get("statistics")):
        report = DeviceReport(place, None, restarted=not reports)
        for where, row in yield_tables(recording, f"{place}.disk", entry.get("disk")):
            check_columns(recording, where, list(row))
            figures = {
                key: recording.parse_number(where, key, value) for key, value in row.items() if key != "disk_device"
            }
            report.add(recording, where, row.get("disk_device"), make_iostat_sample(recording, where, figures))
        reports.append(report)
        stamp = entry.get("timestamp")
        if stamp is not None and not isinstance(stamp, str):
            raise recording.make_error(place, "timestamp", "must be text", "The file is damaged.")
        stamps.append((place, stamp) if stamp else None)
    return _make_readings(recording, reports, stamps)


def _make_readings(
    recording: Recording, reports: list[DeviceReport], stamp_texts: list, interval_s: float | None = None
) -> Readings:
    """Returns the reports with their times, without those since boot (`restarted`), which are
    noted. `interval_s`: of the command line; times in the file count more. Raises InputError."""
    if not reports:
        raise recording.make_error("", "no table of devices", "is in the file", "Record with iostat -xt 1.")
    stamped = [text for text in stamp_texts if text]
    if stamped and len(stamped) != len(reports):
        missing = next(report for report, text in zip(reports, stamp_texts, strict=True) if not text)
        hint = "Import the parts one by one."
        raise recording.make_error(missing.where, "a report without a time", "others of this file have one", hint)
    if stamped:
        for report, stamp in zip(reports, parse_stamps(recording, stamped), strict=True):
            report.stamp = stamp
    measured, restarted = [], False
    for report in reports:
        if report.restarted:  # since boot
            restarted = bool(measured)
            continue
        report.restarted, restarted = restarted, False
        measured.append(report)
    if len(measured) < len(reports):
        recording.notes.append(SINCE_BOOT_NOTE)
    starts = sum(report.restarted for report in measured)
    if starts:
        recording.notes.append(f"iostat was started again {starts} times; each first report was left out.")
    if not measured:
        rule = "is in the file: a mean of weeks says nothing of the day"
        raise recording.make_error("", "only the report since boot", rule, "Give iostat an interval: iostat -xt 1.")
    if stamped:
        # A single report lasted since the time of the one before it, which was left out.
        interval_s = _find_only_interval(reports, measured)
    return Readings("iostat", measured, interval_s=interval_s)


def _find_only_interval(reports: list[DeviceReport], measured: list[DeviceReport]) -> float | None:
    """Returns the seconds between the only measured report and the one before it; None for more
    reports, or without times."""
    if len(measured) != 1:
        return None
    at = reports.index(measured[0])
    before, stamp = reports[at - 1].stamp if at else None, measured[0].stamp
    return (
        None if before is None or stamp is None or stamp.epoch_s <= before.epoch_s else stamp.epoch_s - before.epoch_s
    )
