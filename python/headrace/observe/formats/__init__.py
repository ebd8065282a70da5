"""Imports the recordings of measuring tools.

iostat, vmstat, sar, cloudwatch, prometheus    one parser each; json_text: JSON that may be cut off
binary_log   events and dependencies of a server's transactions
devices      from the reports of a tool to the series of a device, and to a workload
"""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime

from headrace.base.checks import check_choice
from headrace.base.files import OWN_FILE, detect
from headrace.errors import InputError
from headrace.observe.formats import cloudwatch, iostat, prometheus, sar, vmstat
from headrace.observe.formats.devices import ImportOptions, Readings, build, rank_devices
from headrace.observe.recording import Recording, open_recording, refuse
from headrace.observe.remote.span import TimeSpan
from headrace.workload.model import OpenWorkload

FORMATS = ("auto", "iostat", "vmstat", "sar", "cloudwatch", "prometheus")

__all__ = [
    "FORMATS",
    "ImportOptions",
    "LoadedRecording",
    "ReadOptions",
    "import_file",
    "is_service",
    "load_recording",
    "parse_recording",
]

DEFAULT_OPTIONS = ImportOptions()
SERVICES = ("prometheus:", "aws:")  # what keeps recordings, before its address or name


@dataclass(frozen=True)
class ReadOptions:
    """Options with which a recording is read, besides what the file itself says. `format`: one of
    FORMATS. `read_kib`, `write_kib`: sizes assumed of one I/O where the tool counts none (vmstat
    only). `any_unit`: believe vmstat's bi and bo to be KiB though -S looks to be used. For a
    service (`prometheus:...`, `aws:...`): the `span` that it is asked for (None: 14 days), `step_s`
    between points and the `device`, where only one is wanted; `progress` is called with the share
    that has been fetched, 0 to 1."""

    format: str = "auto"
    read_kib: float | None = None
    write_kib: float | None = None
    any_unit: bool = False
    span: TimeSpan | None = None
    step_s: float | None = None
    device: str | None = None
    progress: Callable[[float], None] = lambda share: None


READ_PLAINLY = ReadOptions()


@dataclass(frozen=True)
class LoadedRecording:
    """A recording that was read once: its text, and what its tool reports of each device."""

    recording: Recording
    readings: Readings

    def build_workload(self, options: ImportOptions = DEFAULT_OPTIONS) -> OpenWorkload:
        """Returns the demand of the named device, else of the busiest. Raises InputError."""
        return build(*self.copy_parts(), options)

    def build_workloads(self, most: int, options: ImportOptions = DEFAULT_OPTIONS) -> dict[str, OpenWorkload | None]:
        """Returns the demand of each device by its name, those with the most I/Os first. It is None
        behind the first `most`, and for a device of which no workload can be made."""
        demands: dict[str, OpenWorkload | None] = {}
        for index, device in enumerate(rank_devices(self.readings)):
            try:
                demands[device] = self.build_workload(replace(options, device=device)) if index < most else None
            except InputError:
                demands[device] = None
        return demands

    def copy_parts(self) -> tuple[Recording, Readings]:
        """Returns copies of both, since `build` adds notes and may drop reports."""
        recording, readings = copy(self.recording), copy(self.readings)
        recording.notes, readings.reports = [*recording.notes], [*readings.reports]
        return recording, readings


def import_file(
    path: str | os.PathLike,
    format: str = "auto",
    device: str | None = None,
    interval_s: float | None = None,
    start: str | datetime | None = None,
    *,
    gaps: str | None = None,
    name: str | None = None,
    read_kib: float | None = None,
    write_kib: float | None = None,
    any_unit: bool = False,
) -> OpenWorkload:
    """Returns the demand of one device in a recording.

    `format`: one of FORMATS. `device`: its name in the file, or several joined by + (the members of
    an array); without it the device that clearly does most is taken. `interval_s`: seconds between
    reports, when the file has no times. `start`: when the recording began (ISO 8601), when the file
    does not say. `gaps`: "refuse" more than 10 % missing and hold the report before over the rest
    (the default), "hold" or "zero" whatever is missing. `read_kib`, `write_kib`: sizes assumed of
    one I/O where the tool counts none (vmstat only). `any_unit`: believe vmstat's bi and bo to be
    KiB though -S looks to be used.

    Raises InputError (file, line, value, rule, what to do) or CouldNotRun when the file cannot
    be read.
    """
    from_service = is_service(path)
    options = ReadOptions(
        format, read_kib, write_kib, any_unit, step_s=interval_s if from_service else None, device=device
    )
    chosen = ImportOptions(
        device=device, interval_s=None if from_service else interval_s, start=start, gaps=gaps, name=name
    )
    return load_recording(path, options).build_workload(chosen)


def is_service(target: str | os.PathLike) -> bool:
    """Returns True for a target that names a service, `prometheus:...` or `aws:...`, and not a
    file."""
    return isinstance(target, str) and target.startswith(SERVICES)


def load_recording(path: str | os.PathLike, options: ReadOptions = READ_PLAINLY) -> LoadedRecording:
    """Returns a recording with the reports of its tool in it. `path`: a file, "-" for standard
    input, or a service that keeps recordings: `prometheus:URL`, `aws:vol-...`, `aws:db-NAME`.
    Raises as `import_file`."""
    check_choice("format", options.format, FORMATS)
    if not is_service(path):
        return parse_recording(open_recording(path), options)
    target, span = str(path), options.span or TimeSpan()
    if target.startswith("prometheus:"):
        from headrace.observe.remote import prometheus as server

        recording, step_s = server.fetch(
            target, span, step_s=options.step_s, device=options.device, progress=options.progress
        )
        return LoadedRecording(recording, prometheus.parse(recording, step_s))
    from headrace.observe.remote import aws

    if options.step_s is not None:
        hint = "Leave it out."
        raise refuse.input(f"--interval {options.step_s:g}", "CloudWatch's points have their own period", hint)
    return LoadedRecording(*aws.fetch(target, span).make_readings())


def parse_recording(recording: Recording, options: ReadOptions = READ_PLAINLY) -> LoadedRecording:
    """Returns an opened recording with the reports of its tool in it. Raises InputError."""
    read_kib, write_kib, format = options.read_kib, options.write_kib, options.format
    kind, looks_like = detect(recording.text)
    if kind is None:
        what = f"looks like {looks_like}" if looks_like else "is of no tool known here"
        hint = (
            "It needs no import: headrace plan, simulate and forecast read it as it is."
            if looks_like == OWN_FILE
            else (
                "Record with iostat -xt 1, vmstat -t 1 or sar -d, export the volume's metrics from CloudWatch, or query Prometheus: "
                "docs/reference/import-formats.md."
            )
        )
        raise refuse.input(recording.name, f"{what}; read are {', '.join(FORMATS[1:])}", hint)
    if format not in ("auto", kind):
        hint = f"Use --format {kind}, or auto."
        raise refuse.input(f"{recording.name} as {format}", f"it looks like {looks_like}", hint)
    if looks_like and looks_like.endswith("JSON") and recording.text.lstrip()[0] not in "{[":
        first = next(line for line in recording.lines if line.strip())
        hint = "Take out the lines above the first {: a prompt or a message of the shell was copied with it."
        rule = f"stands before the JSON of {looks_like}"
        raise recording.make_error(recording.lines.index(first) + 1, first.strip(), rule, hint)
    if kind != "vmstat" and not (read_kib is None and write_kib is None):
        hint = "Leave them out."
        raise refuse.input("read_kib, write_kib", f"are for vmstat only; {looks_like} tells the sizes", hint)
    if kind == "vmstat":
        readings = vmstat.parse(recording, read_kib, write_kib, options.any_unit)
    else:
        readings = {"iostat": iostat, "sar": sar, "cloudwatch": cloudwatch, "prometheus": prometheus}[kind].parse(
            recording
        )
    return LoadedRecording(recording, readings)
