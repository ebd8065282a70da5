"""Reads the processors in a recording of disks: iostat's avg-cpu, vmstat's us, sy, id, wa and st,
and the table of sar -u next to that of sar -d.

A recording that cannot be read here has no processors: the readers of disks refuse damaged files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.errors import InputError
from headrace.observe.formats.json_text import load_json
from headrace.observe.recording import Recording

COUNT = re.compile(r"\((\d+) CPU\)")
# Columns of each tool, in the order of `ProcessorShares`.
IOSTAT = ("%user", "%nice", "%system", "%iowait", "%steal", "%idle")
JSON = ("user", "nice", "system", "iowait", "steal", "idle")
VMSTAT = ("us", None, "sy", "wa", "st", "id")
ALL_PROCESSORS = "all"  # sar's row of all processors


@dataclass(frozen=True)
class ProcessorShares:
    """Shares of all processors in one report, in per cent; `user` without `nice`."""

    user: float
    nice: float
    system: float
    iowait: float
    steal: float
    idle: float


@dataclass(frozen=True)
class RecordedProcessors:
    """The processors of a host: their `count` (None: not known), and shares in each report."""

    count: int | None
    reports: tuple[ProcessorShares, ...]


def read_processors(recording: Recording, tool: str, reports: int) -> RecordedProcessors | None:
    """Returns the processors of the last `reports` reports of a recording of this tool: those
    before are means since boot. None where it has fewer, or none at all."""
    readers = {"iostat": _read_iostat, "vmstat": _read_vmstat, "sar": _read_sar}
    if tool not in readers or not reports:
        return None
    try:
        count, shares = readers[tool](recording)
    except (InputError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return RecordedProcessors(count, tuple(shares[-reports:])) if len(shares) >= reports else None


def _read_iostat(recording: Recording) -> tuple[int | None, list[ProcessorShares]]:
    """Returns the number of processors (None: not named) and their shares, in %, in each report of
    iostat, as text or JSON."""
    if recording.text.lstrip().startswith("{"):
        host = load_json(recording, element_of="statistics")["sysstat"]["hosts"][0]
        shares = [_parse_shares([entry["avg-cpu"].get(name) for name in JSON]) for entry in host["statistics"]]
        return host.get("number-of-cpus"), shares
    shares, header = [], None
    for line in recording.lines:
        if line.startswith("avg-cpu:"):
            header = line.split()[1:]
        elif header is not None and line.strip():
            row = dict(zip(header, line.split(), strict=True))
            shares.append(_parse_shares([row.get(name) for name in IOSTAT]))
            header = None
    return _parse_count(recording), shares


def _read_vmstat(recording: Recording) -> tuple[int | None, list[ProcessorShares]]:
    """Returns None, as vmstat names no number of processors, and their shares, in %, in each
    of its reports."""
    shares, header = [], []
    for line in recording.lines:
        words = line.split()
        if words[:2] == ["r", "b"]:
            header = words
        elif header and words and words[0].isdigit():
            row = dict(zip(header, words, strict=False))
            shares.append(_parse_shares([row.get(name) if name else "0" for name in VMSTAT]))
    return None, shares


def _read_sar(recording: Recording) -> tuple[int | None, list[ProcessorShares]]:
    """Returns the number of processors (None: not named) and the shares of all together, in %, in
    each report of sar."""
    shares, header = [], []
    for line in recording.lines:
        words = line.split()
        if "%idle" in words and "CPU" in words:
            header = words[words.index("CPU") :]
        elif not words or words[0].endswith(":"):
            header = []
        elif header and words[-len(header)] == ALL_PROCESSORS:
            row = dict(zip(header, words[-len(header) :], strict=True))
            shares.append(_parse_shares([row.get(name, row.get(LONG.get(name, name))) for name in IOSTAT]))
    return _parse_count(recording), shares


LONG = {"%user": "%usr", "%system": "%sys"}  # as `sar -u ALL` calls them


def _parse_shares(values: list) -> ProcessorShares:
    """Returns the shares of these texts, 0 for None. Raises ValueError for other texts."""
    return ProcessorShares(*(float(str(value or 0).replace(",", ".")) for value in values))


def _parse_count(recording: Recording) -> int | None:
    match = COUNT.search(recording.text[:400])  # the banner stands in the first line
    return int(match[1]) if match else None
