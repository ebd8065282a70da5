"""How busy the processors were, from the reports of vmstat and iostat: what they print beside the disks.

vmstat prints us, sy, id, wa, st (and gu) in percent of all virtual CPUs, iostat %user, %nice, %system, %iowait, %steal and %idle. At work is what is neither idle, waiting for
I/O nor taken by other guests.
"""

from __future__ import annotations

from headrace.observe.formats.reading import Recording

VMSTAT_WORK = ("us", "sy", "gu")
IOSTAT_WORK = ("%user", "%nice", "%system")


def busy_shares(recording: Recording, tool: str, reports: int) -> list[float] | None:
    """Share of all processors at work in each of the `reports` that the reader of disks keeps; None where the file does not say so for every one of them.

    Readers leave out the first report, the mean since boot; `iostat -y` has none.
    """
    shares = _of_vmstat(recording.text) if tool == "vmstat" else _of_iostat(recording.text)
    if len(shares) == reports + 1:
        shares = shares[1:]
    if len(shares) != reports or any(not 0.0 <= share <= 1.0 for share in shares):
        return None
    return shares


def _of_vmstat(text: str) -> list[float]:
    columns: list[str] = []
    shares = []
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["r", "b"]:
            columns = words
        elif columns and words and words[0].isdigit():
            shares.append(_sum(words, columns, VMSTAT_WORK))
    return shares


def _of_iostat(text: str) -> list[float]:
    columns: list[str] = []
    shares = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["avg-cpu:"]:
            columns = words[1:]
        elif columns and words:
            shares.append(_sum(words, columns, IOSTAT_WORK))
            columns = []
    return shares


def _sum(words: list[str], columns: list[str], wanted: tuple[str, ...]) -> float:
    """Of percentages, as a share; rounded ones may add up to a little more than all. Not a number where the line has not what the header names."""
    try:
        figures = dict(zip(columns, words, strict=False))
        percent = sum(float(figures[name].replace(",", ".")) for name in wanted if name in figures)
    except ValueError:
        return float("nan")
    return min(percent / 100.0, 1.0) if any(name in figures for name in wanted) and percent <= 102.0 else float("nan")
