"""A moment as lines for a terminal of 80 x 24 and up: pure, and the same for every terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len, set_cell_size

from headrace.base import caps
from headrace.base.credits import CreditsLeft, empty_words, left_words
from headrace.base.units import DAY_S, in_percent, span_in_words
from headrace.operate.watching.moment import Moment, VolumeNow

LEAST_COLUMNS, LEAST_LINES = 80, 24
# A part of a line and its style, by rich's names.
Part = tuple[str, str]
Line = list[Part]
# Width and title of each column of a table.
Columns = Sequence[tuple[int, str]]

STYLE_OF = {
    "binds": "bold red",
    "degraded": "bold red",
    "will bind": "bold yellow",
    "touched": "yellow",
    "misconfigured": "yellow",
    "not storage": "bold cyan",
    "fine": "green",
    "cannot tell": "dim",
}
KEYS = "q quit  space freeze  arrows: back in time  d against an hour ago  j write JSON"
# Shares that are coloured: over a limit from the share on that counts as binding (operate_page
# 1.4), and where nothing is left. Ours.
OVER_SHARE, LOW_SHARE, FULL_SHARE = 0.05, 0.2, 0.75
# Waits below this share are not worth a line. Ours.
LEAST_SHARE = 0.005
# Lines that a verdict or a message takes at most, and more columns or lines than there are. Ours.
MOST_FOOTER, UNBOUNDED = 3, 100_000
# Columns of a bar, with its brackets.
BAR = 12


@dataclass(frozen=True)
class ScreenState:
    """The state that the keys have set: `frozen`; `back_s`: how old the moment shown is; `before`:
    the moment an hour ago that is subtracted; `message`: what a key did."""

    frozen: bool = False
    back_s: float = 0.0
    before: Moment | None = None
    message: str = ""
    ascii: bool = False


def lines(moment: Moment, width: int, height: int, state: ScreenState | None = None) -> list[Line]:
    """Returns the screen, at most `height` lines of `width` columns."""
    state = state or ScreenState()
    if width < LEAST_COLUMNS or height < LEAST_LINES:
        message = f"{width} x {height} is too small: watch takes {LEAST_COLUMNS} x {LEAST_LINES} and up"
        return [[(_fit(message, max(1, width)), "bold")]][:height]
    head = _head(moment, width, state)
    footer = _folded(state.message or KEYS, width)[:MOST_FOOTER]
    rows = [*head, *_server(moment, state)]
    room = height - len(rows) - len(footer)
    rows[len(head) : len(head)] = _volumes(moment, room, state)
    notes = [piece for note in moment.notes for piece in _folded(note, width)]
    rows += [[(note, "dim")] for note in notes[: max(0, height - len(rows) - len(footer))]]
    rows = rows[: height - len(footer)]
    rows += [[] for _ in range(height - len(footer) - len(rows))]
    rows += [[(_fit(line, width), "reverse")] for line in footer]
    return [_cut(line, width) for line in rows]


def whole(moment: Moment, width: int | None = None) -> list[Line]:
    """Returns everything there is to show, as many lines as it takes, and nothing cut: for
    `--once`. `width`: where sentences are broken between words; None: nowhere."""
    state, room = ScreenState(), max(LEAST_COLUMNS, width or UNBOUNDED)
    rows = [*_head(moment, room, state), *_volumes(moment, UNBOUNDED, state, uncut=True), *_server(moment, state)]
    return rows + [[(piece, "dim")] for note in moment.notes for piece in _folded(note, room)]


def _folded(text: str, width: int) -> list[str]:
    """Returns a sentence on as many lines as it takes."""
    return textwrap.wrap(_printable(text), width, break_on_hyphens=False) or [""]


def as_text(rows: Sequence[Line]) -> str:
    """Returns lines as text without styles, for `--once` and tests."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in rows).rstrip() + "\n"


def _head(moment: Moment, width: int, state: ScreenState) -> list[Line]:
    """Returns the verdict with the credits that are empty first, and a line with target, time and
    state."""
    first = moment.empty_first
    empty = "" if first is None else f"{first[0]} {empty_words(first[1], brief=True)}"
    verdict = moment.verdict
    room = width - cell_len(empty) - (2 if empty else 0)
    first_line, *rest = _folded(verdict.headline(room), room)[:MOST_FOOTER]
    style = STYLE_OF.get(verdict.word, "")
    top: Line = [(_fit(first_line, room) if width < UNBOUNDED else first_line, style)]
    top += [("  ", ""), (empty, _empty_style(first and first[1]))] if empty else []
    below: list[Line] = [[(line, style)] for line in rest]
    if moment.t_unix < DAY_S:  # a recording without times counts from its beginning
        at = f"{span_in_words(round(moment.t_unix))} after the start"
    else:
        at = f"{datetime.fromtimestamp(moment.t_unix):%Y-%m-%d %H:%M:%S}"
    words = [f"{moment.target}  {at}  every {moment.grain_s:g} s"]
    words += [f"{span_in_words(round(state.back_s))} back"] if state.back_s else []
    words += ["frozen"] if state.frozen else []
    words += ["less an hour ago"] if state.before is not None else []
    return [top, *below, [("  ".join(words), "bold" if state.frozen or state.back_s else "dim")]]


# Width and title of the two lines of a volume.
RATES = ((12, "volume"), (7, "IOPS"), (7, "read"), (7, "write"), (7, "MiB/s"), (6, "KiB"), (6, "queue"), (7, "rd p50"),
         (7, "p99 ms"), (7, "wr p50"), (7, "p99 ms"))  # fmt: skip
LIMITS = ((18, "  time over:"), (6, "IOPS"), (7, "MiB/s"), (8, "ec2IOPS"), (7, "MiB/s"), (13, "balance"), (6, ""),
          (9, "empty in"), (6, "room"))  # fmt: skip


def _volumes(moment: Moment, room: int, state: ScreenState, uncut: bool = False) -> list[Line]:
    """Returns the table of volumes in `room` lines, or with rates only where both lines of each do
    not fit. `uncut`: columns as wide as names and storages need."""
    if not moment.volumes:
        return []
    rates, limits = RATES, LIMITS
    if uncut:
        names = max(cell_len(volume.label) for volume in moment.volumes)
        specs = max(cell_len(volume.spec or volume.device or "") for volume in moment.volumes)
        rates = ((max(RATES[0][0], names), RATES[0][1]), *RATES[1:])
        limits = ((max(LIMITS[0][0], specs + 2), LIMITS[0][1]), *LIMITS[1:])
    before = {volume.id: volume for volume in state.before.volumes} if state.before else {}
    rows: list[Line] = [[(_row(rates, [title for _, title in rates]), "bold")]]
    # With both lines of each if they fit, else what does not fit has its rates only.
    whole = 2 + 2 * len(moment.volumes) <= room
    if whole:
        rows.append([(_row(limits, [title for _, title in limits]), "bold")])
    for volume in moment.volumes[: max(1, room - 2)]:
        rows.append(_rates_line(volume, before.get(volume.id), rates))
        if whole:
            rows.append(_limits_line(volume, state.ascii, limits))
    if not whole:
        hidden = len(moment.volumes) - (len(rows) - 1)
        more = f"and {hidden} more; " if hidden > 0 else ""
        rows.append([(f"{more}a taller terminal shows limits and balances", "dim")])
    return rows


def _row(columns: Sequence[tuple[int, str]], cells: Sequence[str]) -> str:
    first, *rest = zip(columns, cells, strict=True)
    return _fit(first[1], first[0][0]) + "".join(_right(cell, width) for (width, _), cell in rest)


def _rates_line(volume: VolumeNow, before: VolumeNow | None, columns: Columns) -> Line:
    """Returns the first line of a volume: rates, queue and latencies in ms, less those of `before`,
    if given."""
    if volume.gone:
        return [(_fit(volume.label, columns[0][0]), ""), (f" {volume.gone}", "bold red")]
    cells = [volume.label]
    cells += [
        _number(_less(read(volume), before and read(before)), digits, before is not None) for read, digits in RATE_CELLS
    ]
    return [(_row(columns, cells), "")]


RATE_CELLS: tuple[tuple[Callable[[VolumeNow], float | None], int], ...] = (
    (lambda volume: volume.iops, 0),
    (lambda volume: volume.reads.iops, 0),
    (lambda volume: volume.writes.iops, 0),
    (lambda volume: volume.mib_s, 1),
    (lambda volume: volume.io_kib, 0),
    (lambda volume: volume.queue, 1),
    (lambda volume: volume.reads.p50_ms, 2),
    (lambda volume: volume.reads.p99_ms, 2),
    (lambda volume: volume.writes.p50_ms, 2),
    (lambda volume: volume.writes.p99_ms, 2),
)


def _limits_line(volume: VolumeNow, ascii: bool, columns: Columns) -> Line:
    """Returns the second line of a volume: the share of the time over each limit, balance, when
    credits are empty, and head-room."""
    cells: Line = [(_fit(f"  {volume.spec or volume.device or ''}", columns[0][0]), "dim")]
    for (width, _), limit in zip(LIMITS[1:5], caps.COUNTED, strict=True):
        share = volume.exceeded.get(limit)
        style = "" if share is None or share < OVER_SHARE else "bold red"
        cells.append((_right("-" if share is None else in_percent(share), width), style))
    if volume.balance is None:
        cells += [
            (_right("no credits" if volume.spec and not volume.bursts else "-", LIMITS[5][0] + LIMITS[6][0]), "dim")
        ]
    else:
        style = "red" if volume.balance < LOW_SHARE else "green"
        cells += [
            (" ", ""),
            (bar(volume.balance, BAR, ascii), style),
            (_right(in_percent(volume.balance), LIMITS[6][0]), ""),
        ]
    cells.append(
        (
            _right("" if volume.time_to_empty is None else left_words(volume.time_to_empty), LIMITS[7][0]),
            _empty_style(volume.time_to_empty),
        )
    )
    room = volume.headroom
    cells.append(
        (
            _right("" if room is None else in_percent(room), LIMITS[8][0]),
            "bold yellow" if room is not None and room < LOW_SHARE else "",
        )
    )
    return cells


def _server(moment: Moment, state: ScreenState) -> list[Line]:
    """Returns the lines on instance, server and replicas, with what changed since
    `state.before`."""
    rows: list[Line] = []
    if moment.instance is not None and moment.instance.balances:
        parts = []
        for unit, share in moment.instance.balances.items():
            time_to_empty = moment.instance.time_to_empty.get(unit)
            parts.append(
                f"{unit} {bar(share, BAR, state.ascii)} {in_percent(share)}"
                + (f" {empty_words(time_to_empty)}" if time_to_empty else "")
            )
        rows.append([(f"instance {moment.instance.type or ''}: " + ", ".join(parts), "")])
    server, before = moment.server, state.before.server if state.before else None
    if server is None:
        return rows
    if not server.up:
        rows.append([(f"{server.label} does not answer", "bold red")])
        return rows
    differs = before is not None
    rates = [
        (name, _number(_less(value, was), digits, differs))
        for name, value, was, digits in (
            ("tps", server.tps, before and before.tps, 0),
            ("reads", server.reads_s, before and before.reads_s, 0),
            ("flushed", server.flushed_s, before and before.flushed_s, 0),
            ("log waits", server.log_waits_s, before and before.log_waits_s, 0),
            ("free waits", server.free_waits_s, before and before.free_waits_s, 0),
        )
        if value is not None
    ]
    rows.append(
        [(server.version or server.label, "bold"), ("  " + " ".join(f"{name} {text}" for name, text in rates), "")]
    )
    levels: Line = []
    for name, share in (("checkpoint age", server.checkpoint_age), ("dirty", server.dirty)):
        if share is not None:
            style = "yellow" if name == "checkpoint age" and share > FULL_SHARE else "green"
            levels += [(f"{name} ", ""), (bar(share, BAR - 2, state.ascii), style), (f" {in_percent(share)}  ", "")]
    if server.io_wait is not None:
        levels.append((f"clients in I/O {in_percent(server.io_wait)}", "bold" if server.io_wait >= 0.1 else ""))
    if server.running is not None:
        levels.append((f"  run {_number(_less(server.running, before and before.running), 0, differs)}", ""))
    rows.append(levels)
    if any(share >= LEAST_SHARE for share in server.waits.values()):
        shown = sorted(server.waits.items(), key=lambda entry: -entry[1])
        rows.append([("waits: " + ", ".join(f"{name} {in_percent(share)}" for name, share in shown), "")])
    for replica in moment.replicas:
        lag = "lag not known" if replica.lag_s is None else f"lag {replica.lag_s:,.0f} s"
        works = "applies" if replica.applies and replica.receives else replica.error or "stopped"
        rows.append(
            [(f"replica {replica.channel or '(default)'}: {lag}, {works}", "" if replica.applies else "bold red")]
        )
    return rows


def bar(share: float, width: int, ascii: bool = False) -> str:
    """Returns a bar with brackets, `width` columns, that is filled for `share` (0 to 1) of its
    inside."""
    inside = width - 2
    full = min(inside, max(0, round(share * inside)))
    return f"[{'#' * full}{'-' * (inside - full)}]" if ascii else f"[{'█' * full}{'░' * (inside - full)}]"


def _empty_style(time_to_empty: CreditsLeft | None) -> str:
    if time_to_empty is None or math.isinf(time_to_empty.seconds):
        return ""
    return "bold red" if time_to_empty.seconds < 600 else "bold yellow" if time_to_empty.seconds < 3_600 else ""


def _less(value: float | None, before: float | None) -> float | None:
    return value if value is None or before is None else value - before


def _number(value: float | None, digits: int, signed: bool) -> str:
    """Writes a number with `digits` decimals and, if `signed`, its sign; in thousands from 100,000
    on; `-` for None and what is not finite."""
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) >= 99_999.5:
        return f"{value / 1000:{'+' if signed else ''},.0f}k"
    if digits and abs(value) >= 1_000:
        digits = 0
    return f"{value:{'+' if signed else ''},.{digits}f}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _fit(text: str, width: int) -> str:
    text = _printable(text)
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)) + "~"


def _right(text: str, width: int) -> str:
    text = _printable(text)
    return " " * (width - cell_len(text)) + text if cell_len(text) < width else " " + _fit(text, width - 1)


def _cut(line: Line, width: int) -> Line:
    """Returns the line cut off after `width` columns, its last part with a `~`."""
    parts, room = [], width
    for text, style in line:
        if room <= 0:
            break
        text = _printable(text)
        if cell_len(text) > room:
            text = _fit(text, room)
        parts.append((text, style))
        room -= cell_len(text)
    return parts
