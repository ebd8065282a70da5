"""A measured file as text, as rows of CSV and as a series of means on its own clock.

Every reader of a run's files makes a `TimeSeries`: of the importers' reports of a device, of
samples of /proc/diskstats or SHOW GLOBAL STATUS. `run_files.align` finds their times in the run.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import Refusals
from headrace.observe.recording import Recording, open_recording

DOC = "docs/reference/run-description.md"
refuse = Refusals(DOC)


@dataclass(frozen=True)
class RunFinding:
    """A note on the figures of a run for the user. `kind` is one of the list in the reference;
    `t_s`: the second of the run that it is about, None for the whole run.
    """

    kind: str
    text: str
    t_s: float | None = None

    def shift_clock(self, seconds: float) -> RunFinding:
        """Returns the finding with its time on a clock that began that many seconds earlier."""
        return self if self.t_s is None else replace(self, t_s=self.t_s + seconds)


@dataclass
class TimeSeries:
    """Means over intervals, in order; an interval that was not measured is left out.

    `start_s`, `duration_s`: of each interval, from the file's own beginning. The beginning was at
    `begin_s` (seconds since 1970; None: the file has no clock); `begin_local_s` is the same as
    printed, without its zone. `columns`: a value for each interval, None where not measured.
    `gaps`: what is missing, placed in the file's own time. `name` and `sha256` are the file's.
    """

    name: str
    sha256: str
    start_s: list[float]
    duration_s: list[float]
    columns: dict[str, list[float | None]]
    begin_s: float | None = None
    begin_local_s: float | None = None
    gaps: list[RunFinding] = field(default_factory=list)

    @property
    def span_s(self) -> float:
        """Returns the seconds from the file's beginning to the end of its last interval."""
        return self.start_s[-1] + self.duration_s[-1]

    def find_longest_gap(self) -> tuple[int, float]:
        """Returns the interval behind the longest gap, and the gap's length in seconds (0.0: there
        is none)."""
        ends = [start + duration for start, duration in zip(self.start_s, self.duration_s, strict=True)]
        widths = [start - end for start, end in zip(self.start_s[1:], ends, strict=False)]
        longest = max(range(len(widths)), key=widths.__getitem__, default=None)
        return (0, 0.0) if longest is None else (longest + 1, max(0.0, widths[longest]))


def open_text(path: Path) -> Recording:
    """Returns the recording in a file. Raises InputError, also for blank lines, or CouldNotRun."""
    recording = open_recording(path)
    # Bytes that are not blank can still be: a lone mark of UTF-16, or separators Python counts as
    # blanks.
    if not recording.text.strip():
        hint = "Was the recording stopped before its first report?"
        raise recording.make_error("", "no text", "the file is empty", hint, DOC)
    return recording


def read_csv_rows(
    recording: Recording, findings: list[RunFinding], delimiter: str = ","
) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of a CSV, its header first. Blank lines are left out, and so is a
    last line that is cut off, with a finding in `findings`.

    Raises InputError for a line that has not as many cells as the header.
    """
    lines = recording.text.rstrip().split("\n")
    reader = csv.reader(lines, delimiter=delimiter)
    width = 0
    try:
        for cells in reader:
            number = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            width = width or len(cells)
            if len(cells) < width and number >= len(lines):
                findings.append(make_cut_finding(recording, number))
                return
            if len(cells) != width:
                hint = "The line is damaged: take it out."
                raise recording.make_error(number, f"{len(cells)} columns", f"the header has {width}", hint, DOC)
            yield number, cells
    except csv.Error as error:
        hint = "The file is damaged: copy it again."
        raise recording.make_error(reader.line_num, str(error), "is not CSV", hint, "RFC 4180") from None


def make_cut_finding(recording: Recording, line: int, what: str = "line") -> RunFinding:
    """Returns the finding on a last line, or sample, that is not whole."""
    return RunFinding("cut", f"{recording.name}, line {line}: the last {what} is cut off and was left out.")


def find_wide_intervals(durations: Iterable[float], usual: float, slack_s: float) -> list[int]:
    """Returns the indexes of intervals that are so long that samples are missing in them."""
    return [index for index, duration in enumerate(durations) if duration > 1.5 * usual + slack_s]
