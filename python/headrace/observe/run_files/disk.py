"""Reads what the disks and processors did during the benchmark from reports of iostat or vmstat.

iostat has the I/Os and bytes of a device, vmstat the bytes of the whole host. The importers read
the files. Both print how busy the processors were: vmstat us, sy, id, wa, st (and gu) in percent of
all virtual CPUs, iostat %user, %nice, %system, %iowait, %steal and %idle. At work is what is
neither idle, waiting for I/O nor taken by other guests.
"""

from __future__ import annotations

from pathlib import Path

from headrace.base.files import detect
from headrace.base.units import format_percent
from headrace.observe.formats import iostat, vmstat
from headrace.observe.formats.devices import MAX_MISSING_SHARE, Readings, build_device_series
from headrace.observe.recording import Recording
from headrace.observe.run_files.align import infer_interval
from headrace.observe.series import DOC, RunFinding, TimeSeries, open_text

VMSTAT_WORK = ("us", "sy", "gu")
IOSTAT_WORK = ("%user", "%nice", "%system")


def read_disk(
    key: str,
    path: Path,
    device: str | None,
    interval_s: float | None,
    span_s: float,
    row_s: float,
    findings: list[RunFinding],
) -> TimeSeries:
    """Returns the columns `read_mib_s`, `write_mib_s`, of iostat `read_iops` and `write_iops`, and
    `busy_share` where known.

    `key`: iostat or vmstat; `span_s`, `row_s`: of the benchmark's rows, for files without times.
    Raises InputError.
    """
    recording = open_text(path)
    kind, looks_like = detect(recording.text)
    if kind != key:
        what = f"looks like {looks_like}" if looks_like else "is of no tool known here"
        hint = f"Record with {'iostat -xt 1' if key == 'iostat' else 'vmstat -t 1'}."
        raise recording.make_error("", what, f"files.{key} names a file of {key}", hint, DOC)
    readings = (iostat if key == "iostat" else vmstat).parse(recording)
    if device is not None and not all(member.strip() for member in device.split("+")):
        hint = "Write nvme1n1+nvme2n1."
        raise recording.make_error("", f"files.device = {device!r}", "a name is missing next to a +", hint, DOC)
    if interval_s is None and any(report.stamp is None for report in readings.reports):
        interval_s = infer_interval(recording, key, len(readings.reports), span_s, row_s, findings)
    _, interval_s, series = build_device_series(recording, readings, device, interval_s)
    _add_gap_finding(recording, readings, series, interval_s)
    columns = series.columns
    series.columns = {
        f"{way}_mib_s": [None if kib is None else kib / 1024 for kib in columns[f"{way}_kib_s"]]
        for way in ("read", "write")
    }
    if key == "iostat":
        series.columns = {"read_iops": columns["reads_per_s"], "write_iops": columns["writes_per_s"]} | series.columns
    shares = read_busy_shares(recording, key, len(series.start_s))
    if shares is not None:
        series.columns["busy_share"] = list(shares)
    findings += [
        RunFinding("disk", f"{recording.name}: {note}")
        for note in recording.notes
        if not note.startswith("vmstat counts KiB")
    ]
    if key == "vmstat":
        text = "vmstat counts KiB of all disks of the host, and no I/Os: read_iops and write_iops are null."
        findings.append(RunFinding("disk", f"{recording.name}: {text}"))
    return series


def _add_gap_finding(recording: Recording, readings: Readings, series: TimeSeries, interval_s: float) -> None:
    """Adds a finding to the series if reports are missing. Raises InputError if too large a share
    of them is."""
    total = round(series.span_s / interval_s)
    missing = total - len(series.start_s)
    if not missing:
        return
    longest, width_s = series.find_longest_gap()
    if missing > MAX_MISSING_SHARE * total:
        value = f"the time jumps forward by {width_s + interval_s:,.0f} s"
        rule = f"{format_percent(missing / total)} of the recording is missing, at most {format_percent(MAX_MISSING_SHARE)} may be"
        hint = "The clock was set, or the recording was stopped: cut the file there."
        raise recording.make_error(readings.reports[longest].where, value, rule, hint, DOC)
    text = f"{missing} of {total} reports are missing ({format_percent(missing / total, 1)}), the longest gap {width_s:,.0f} s: null there."
    series.gaps.append(RunFinding("gap", f"{recording.name}: {text}", series.start_s[longest] - width_s))


# --- processors -----------------------------------------------------------------------------------


def read_busy_shares(recording: Recording, tool: str, reports: int) -> list[float] | None:
    """Returns the share of all processors at work in each of the `reports` of disks; None where the
    file does not have it for all of them. The first report, the mean since boot, is not among them;
    `iostat -y` has none.
    """
    shares = _read_vmstat(recording.text) if tool == "vmstat" else _read_iostat(recording.text)
    if len(shares) == reports + 1:
        shares = shares[1:]
    if len(shares) != reports or any(not 0.0 <= share <= 1.0 for share in shares):
        return None
    return shares


def _read_vmstat(text: str) -> list[float]:
    """Returns the share of processors at work, 0 to 1, in each report of vmstat; NaN where
    a line lacks a column."""
    columns: list[str] = []
    shares = []
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["r", "b"]:
            columns = words
        elif columns and words and words[0].isdigit():
            shares.append(_compute_busy_share(words, columns, VMSTAT_WORK))
    return shares


def _read_iostat(text: str) -> list[float]:
    """Returns the share of processors at work, 0 to 1, in each report of iostat; NaN where
    a line lacks a column."""
    columns: list[str] = []
    shares = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["avg-cpu:"]:
            columns = words[1:]
        elif columns and words:
            shares.append(_compute_busy_share(words, columns, IOSTAT_WORK))
            columns = []
    return shares


def _compute_busy_share(words: list[str], columns: list[str], names: tuple[str, ...]) -> float:
    """Returns the sum of the percentages in these columns as a share, at most 1 (rounded figures
    may add up to a little more). It is NaN where the line does not have them.
    """
    try:
        figures = dict(zip(columns, words, strict=False))
        percent = sum(float(figures[name].replace(",", ".")) for name in names if name in figures)
    except ValueError:
        return float("nan")
    return min(percent / 100.0, 1.0) if any(name in figures for name in names) and percent <= 102.0 else float("nan")
