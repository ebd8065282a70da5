"""`vmstat` of Linux (procps): KiB read and written a second for the whole host.

vmstat counts no I/Os, so their sizes must be assumed. The first report is the mean since boot and
is left out. The header comes again every screen; a restart shows as a header that comes too early.
"""

from __future__ import annotations

from headrace.base.checks import check_number
from headrace.observe.clock import looks_like_stamp, parse_stamps
from headrace.observe.formats.devices import DeviceReport, Readings, make_sample
from headrace.observe.recording import Recording, read_lines, refuse
from headrace.workload.daily import DEFAULT_READ_KIB, DEFAULT_WRITE_KIB, SIZES_SOURCE
from headrace.workload.points import MAX_IO_KIB, MIN_IO_KIB

COLUMNS = frozenset(
    ("r", "b", "swpd", "free", "buff", "cache", "inact", "active", "si", "so", "bi", "bo")
    + ("in", "cs", "us", "sy", "id", "wa", "st", "gu")
)
MEMORY = ("free", "buff", "cache", "inact", "active")
NEEDED = ("free", "bi", "bo")
HOST = "host"
# No host that runs MySQL has less memory than this; a smaller sum means the columns are not in KiB.
LEAST_MEMORY_KIB = 65_536


def parse(
    recording: Recording, read_kib: float | None = None, write_kib: float | None = None, any_unit: bool = False
) -> Readings:
    """Returns the reports in a recording of vmstat. `read_kib`, `write_kib`: sizes assumed of one
    I/O; `any_unit`: whether bi and bo are taken for KiB though the memory looks like another unit.
    Raises InputError.
    """
    read_size = check_number(
        "read_kib", DEFAULT_READ_KIB if read_kib is None else read_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB"
    )
    write_size = check_number(
        "write_kib", DEFAULT_WRITE_KIB if write_kib is None else write_kib, MIN_IO_KIB, MAX_IO_KIB, "KiB"
    )
    reader = _Reader(recording, read_size, write_size)
    read_lines(
        recording,
        [(number, line.split()) for number, line in enumerate(recording.lines, start=1)],
        reader.read_line,
        lambda: reader.reports,
    )
    reports, stamps = reader.reports[1:], reader.stamps[1:]
    if not reports:
        rule = "the first is the mean since boot, so two are needed"
        raise recording.make_error("", f"{len(reader.reports)} reports", rule, "Give vmstat an interval: vmstat -t 1.")
    if reader.most_memory < LEAST_MEMORY_KIB and not any_unit:
        rule = "looks like -S m or -S M, and the file does not name the unit"
        hint = "Record without -S; or say that bi and bo are KiB: headrace workload import --any-unit."
        raise recording.make_error("", f"{reader.most_memory:,.0f} of memory in all", rule, hint, "vmstat(8)")
    if reader.stamps[0]:
        for report, stamp in zip(reports, parse_stamps(recording, [stamp for stamp in stamps if stamp]), strict=True):
            report.stamp = stamp
    _add_notes(recording, reader, read_size, write_size, read_kib is None or write_kib is None)
    return Readings("vmstat", reports)


class _Reader:
    """Lines of vmstat: headers, which are repeated, and rows of the whole host."""

    def __init__(self, recording: Recording, read_size: float, write_size: float) -> None:
        """Begins before the first line; `read_size` and `write_size` are the assumed KiB of an
        I/O."""
        self.recording = recording
        self.read_size, self.write_size = read_size, write_size
        self.columns: list[str] = []
        self.stamped = False
        self.reports: list[DeviceReport] = []
        self.stamps: list[tuple[int, str] | None] = []
        self.since_header, self.rows_per_header = 0, None
        self.most_memory = 0.0
        self.swapped = False

    def read_line(self, number: int, words: list[str]) -> None:
        """Reads the words of one line. Raises InputError for figures before the first header."""
        if not words or words == ["^C"]:
            return
        if words[0].startswith(("procs", "--procs")):
            return
        if words[:2] == ["r", "b"]:
            self._read_header(number, words)
        elif not self.columns:
            hint = "The top of the file is missing: copy it again, or put the header line back."
            raise self.recording.make_error(number, " ".join(words), "comes before the header of vmstat", hint)
        else:
            self._read_row(number, words)

    def _read_header(self, number: int, words: list[str]) -> None:
        """Takes the columns that a header line names. Raises InputError for other columns than
        Linux has or than those above, and where vmstat was started again."""
        columns = list(words)
        stamped = columns[-1] not in COLUMNS  # -t ends the header with the name of the zone
        if stamped:
            columns.pop()
        unknown = [column for column in columns if column not in COLUMNS]
        missing = [column for column in NEEDED if column not in columns]
        if unknown or missing or len(set(columns)) != len(columns):
            what = f"column {unknown[0]}" if unknown else f"no column {missing[0]}" if missing else "a column twice"
            hint = "Record on Linux: vmstat -t 1."
            raise self.recording.make_error(number, what, "is not the header of Linux vmstat", hint, "vmstat(8)")
        if self.columns and (columns, stamped) != (self.columns, self.stamped):
            hint = "Two recordings were joined: import them one by one."
            raise self.recording.make_error(
                number, "other columns than above", "all headers of a file are the same", hint
            )
        if self.columns:
            if self.rows_per_header is None:
                self.rows_per_header = self.since_header
            elif self.since_header < self.rows_per_header:
                rule = f"vmstat prints one every {self.rows_per_header}"
                hint = "vmstat was started again here and its next line is a mean since boot: cut the file there and import the parts."
                raise self.recording.make_error(number, f"a header after {self.since_header} lines", rule, hint)
        self.columns, self.stamped, self.since_header = columns, stamped, 0

    def _read_row(self, number: int, words: list[str]) -> None:
        """Adds a report; KiB a second become I/Os by the assumed sizes. Raises InputError for a
        line that is cut off."""
        width = len(self.columns) + 2 * self.stamped
        if len(words) != width:
            hint = "The line is cut off or two ran together: take it out."
            raise self.recording.make_error(
                number, f"{len(words)} columns", f"the header has {width}", hint, "vmstat(8)"
            )
        words, stamp = words[: len(self.columns)], " ".join(words[len(self.columns) :])
        if self.stamped and not looks_like_stamp(stamp):
            hint = "The line is cut off, or not of vmstat -t."
            raise self.recording.make_error(number, stamp, "is not a date and time this reader knows", hint)
        figures = {
            column: self.recording.parse_number(number, column, word)
            for column, word in zip(self.columns, words, strict=True)
        }
        self.since_header += 1
        self.most_memory = max(self.most_memory, sum(figures.get(column, 0.0) for column in MEMORY))
        first = not self.reports
        self.swapped |= not first and figures.get("si", 0.0) + figures.get("so", 0.0) > 0
        sample = make_sample(
            self.recording,
            number,
            figures["bi"] / self.read_size,
            figures["bo"] / self.write_size,
            figures["bi"],
            figures["bo"],
        )
        self.reports.append(DeviceReport(number, None, {HOST: sample}))
        self.stamps.append((number, stamp) if stamp else None)


def _add_notes(recording: Recording, reader: _Reader, read_size: float, write_size: float, assumed: bool) -> None:
    """Adds notes to the recording on what vmstat does not have: I/Os, which follow from assumed
    sizes in KiB, and single disks."""
    where = f"default, {SIZES_SOURCE}" if assumed else "as given"
    recording.notes += [
        "The first report was left out: vmstat's first is the mean since boot.",
        f"vmstat counts KiB, not I/Os: {read_size:g} KiB reads and "
        f"{write_size:g} KiB writes were assumed ({where}), so the IOPS "
        "are only as good as that. `iostat -x` knows them.",
        "The figures are of all disks of the host together, the root volume too.",
    ]
    if reader.swapped:
        recording.notes.append(f"The host swapped; what it swapped is in the figures ({refuse.source}).")
