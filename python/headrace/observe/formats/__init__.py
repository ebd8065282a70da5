"""Import what a measuring tool recorded.

iostat, vmstat, sar, cloudwatch    one parser each; json_text: JSON that may be cut off
binary_log   events and dependencies of a server's transactions
devices      from the reports of a tool to the series of a device, and to a workload
"""

from __future__ import annotations

import os
from copy import copy
from datetime import datetime

from headrace.base.checks import check_choice
from headrace.base.files import OWN_FILE, detect
from headrace.errors import InputError
from headrace.observe.formats import cloudwatch, iostat, sar, vmstat
from headrace.observe.formats.devices import ImportOptions, Readings, build, ranked
from headrace.observe.recording import DOC, Recording, open_recording
from headrace.workload.model import OpenWorkload

FORMATS = ("auto", "iostat", "vmstat", "sar", "cloudwatch")

__all__ = ["FORMATS", "import_each", "import_file"]


def import_file(
    path: str | os.PathLike,
    format: str = "auto",
    device: str | None = None,
    interval_s: float | None = None,
    start: str | datetime | None = None,
    *,
    gaps: str = "refuse",
    name: str | None = None,
    read_kib: float | None = None,
    write_kib: float | None = None,
    any_unit: bool = False,
) -> OpenWorkload:
    """The demand of one device in a recording.

    `format`: one of FORMATS. `device`: its name in the file, or several joined by + (the members of
    an array); without it the device that clearly does most is taken. `interval_s`: seconds between
    reports, when the file has no times. `start`: when the recording began (ISO 8601), when the file
    does not say. `gaps`: "refuse" more than 10 % missing and hold the report before over the rest,
    "hold" or "zero" whatever is missing. `read_kib`, `write_kib`: sizes assumed of one I/O where
    the tool counts none (vmstat only). `any_unit`: believe vmstat's bi and bo to be KiB though -S
    looks to be used.

    Raises InputError (file, line, value, rule, what to do) or CouldNotRun when the file cannot be
    read.
    """
    recording, readings = _read(path, format, read_kib, write_kib, any_unit)
    options = ImportOptions(device=device, interval_s=interval_s, start=start, gaps=gaps, name=name)
    return build(recording, readings, options)


def import_each(path: str | os.PathLike, most: int) -> dict[str, OpenWorkload | None]:
    """The demand of each device of a recording by its name, those with the most I/Os first; None
    behind the first `most`, and where a device alone makes none. Raises as `import_file`."""
    recording, readings = _read(path)
    found: dict[str, OpenWorkload | None] = {}
    for index, device in enumerate(ranked(readings)):
        # Copies: building notes what it saw, and may leave out the last report.
        apart = copy(recording), copy(readings)
        apart[0].notes, apart[1].reports = [*recording.notes], [*readings.reports]
        try:
            found[device] = build(*apart, ImportOptions(device=device)) if index < most else None
        except InputError:
            found[device] = None
    return found


def _read(
    path: str | os.PathLike,
    format: str = "auto",
    read_kib: float | None = None,
    write_kib: float | None = None,
    any_unit: bool = False,
) -> tuple[Recording, Readings]:
    """The recording and what its tool reports in it."""
    check_choice("format", format, FORMATS)
    recording = open_recording(path)
    kind, looks_like = detect(recording.text)
    if kind is None:
        what = f"looks like {looks_like}" if looks_like else "is of no tool known here"
        hint = (
            "Load it as it is, it needs no import."
            if looks_like == OWN_FILE
            else ("Record with iostat -xt 1, vmstat -t 1 or sar -d, or export the volume's metrics from CloudWatch.")
        )
        raise InputError(recording.name, f"{what}; read are {', '.join(FORMATS[1:])}", DOC, hint)
    if format not in ("auto", kind):
        hint = f"Use --format {kind}, or auto."
        raise InputError(f"{recording.name} as {format}", f"it looks like {looks_like}", DOC, hint)
    if looks_like and looks_like.endswith("JSON") and recording.text.lstrip()[0] not in "{[":
        first = next(line for line in recording.lines if line.strip())
        hint = "Take out the lines above the first {: a prompt or a message of the shell was copied with it."
        rule = f"stands before the JSON of {looks_like}"
        raise recording.bad(recording.lines.index(first) + 1, first.strip(), rule, hint)
    if kind != "vmstat" and not (read_kib is None and write_kib is None):
        hint = "Leave them out."
        raise InputError("read_kib, write_kib", f"are for vmstat only; {looks_like} tells the sizes", DOC, hint)
    if kind == "vmstat":
        readings = vmstat.parse(recording, read_kib, write_kib, any_unit)
    else:
        readings = {"iostat": iostat, "sar": sar, "cloudwatch": cloudwatch}[kind].parse(recording)
    return recording, readings
