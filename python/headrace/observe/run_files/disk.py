"""What the disks did beside the benchmark: iostat (I/Os and bytes of a device) or vmstat (bytes of the whole host).

The files are read by the importers; here they only become steps on a time axis of seconds since the first report began.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.base.file_kinds import detect
from headrace.observe.formats import iostat, series, vmstat
from headrace.observe.formats.clock import EPOCH
from headrace.observe.formats.reading import Recording
from headrace.observe.formats.series import MAX_MISSING_SHARE
from headrace.observe.run_files.align import Steps, even_interval
from headrace.observe.run_files.processors import busy_shares
from headrace.observe.run_files.reading import DOC, Finding, open_text


@dataclass
class Disk:
    """`steps` with the columns measured; `sha256` of the file; `gaps` placed in the file's own time."""

    steps: Steps
    device: str
    sha256: str
    name: str
    gaps: list[Finding]


def read_disk(
    key: str, path: Path, device: str | None, interval_s: float | None, span_s: float, row_s: float, findings: list[Finding]
) -> Disk:
    """One file. `key`: iostat or vmstat; `span_s`, `row_s`: of the benchmark's rows, for files without times. Raises InputError."""
    recording = open_text(path)
    kind, looks_like = detect(recording.text)
    if kind != key:
        what = f"looks like {looks_like}" if looks_like else "is of no tool known here"
        raise recording.bad(
            "", what, f"files.{key} names a file of {key}", f"Record with {'iostat -xt 1' if key == 'iostat' else 'vmstat -t 1'}.", DOC
        )
    readings = (iostat if key == "iostat" else vmstat).parse(recording)
    if device is not None and not all(member.strip() for member in device.split("+")):
        raise recording.bad("", f"files.device = {device!r}", "a name is missing beside a +", "Write nvme1n1+nvme2n1.", DOC)
    device, samples = series._choose(recording, readings, device)
    if interval_s is None and any(report.stamp is None for report in readings.reports):
        interval_s = even_interval(recording, key, len(readings.reports), span_s, row_s, findings)
    interval_s = series._interval(recording, readings, interval_s)
    slots = series._slots(recording, readings, interval_s)
    gaps: list[Finding] = []
    _say_gaps(recording, readings, slots, interval_s, gaps)
    columns = {
        "read_mib_s": [sample.read_kib_s / 1024 for sample in samples],
        "write_mib_s": [sample.write_kib_s / 1024 for sample in samples],
    }
    if key == "iostat":
        columns = {
            "read_iops": [sample.reads_per_s for sample in samples],
            "write_iops": [sample.writes_per_s for sample in samples],
        } | columns
    shares = busy_shares(recording, key, len(samples))
    if shares is not None:
        columns["busy_share"] = shares
    findings += [Finding("disk", f"{recording.name}: {note}") for note in recording.notes if not note.startswith("vmstat counts KiB")]
    if key == "vmstat":
        text = "vmstat counts KiB of all disks of the host, and no I/Os: read_iops and write_iops are null."
        findings.append(Finding("disk", f"{recording.name}: {text}"))
    first = readings.reports[0].stamp
    starts = [slot * interval_s for slot in slots]
    begin = None if first is None else first.epoch_s - interval_s
    local = None if first is None else (first.local - EPOCH).total_seconds() - interval_s
    return Disk(Steps(starts, [interval_s] * len(starts), columns, begin, local), device, recording.sha256, recording.name, gaps)


def _say_gaps(recording: Recording, readings, slots: list[int], interval_s: float, findings: list[Finding]) -> None:
    total = slots[-1] + 1
    missing = total - len(slots)
    if not missing:
        return
    longest = max(range(1, len(slots)), key=lambda i: slots[i] - slots[i - 1])
    width_s = (slots[longest] - slots[longest - 1] - 1) * interval_s
    if missing > MAX_MISSING_SHARE * total:
        raise recording.bad(readings.reports[longest].where, f"the time jumps forward by {width_s + interval_s:,.0f} s",
                            f"{missing / total:.0%} of the recording is missing, at most {MAX_MISSING_SHARE:.0%} may be",
                            "The clock was set, or the recording was stopped: cut the file there.", DOC)  # fmt: skip
    text = (
        f"{recording.name}: {missing} of {total} reports are missing ({missing / total:.1%}), the longest gap {width_s:,.0f} s: null there."
    )
    findings.append(Finding("gap", text, (slots[longest - 1] + 1) * interval_s))
