"""A moment as lines for a terminal of 80 x 24 and up: pure, and the same for every terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from headrace.base import caps
from headrace.base.credits import CreditsLeft, describe_emptying, describe_remaining
from headrace.base.units import DAY_S, describe_span, format_percent
from headrace.operate.watching.moment import Moment, VolumeNow

LEAST_COLUMNS, LEAST_LINES = 80, 24
# Width and title of each column of a table.
Columns = Sequence[tuple[int, str]]
# A text and its style, by rich's names.
Part = tuple[str, str]
# The sign that rich puts where a text is cut.
CUT = "…"

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
# Shares that are coloured: over a limit from the share on that counts as binding
# (thresholds.csv, seen_share), and where nothing is left. Ours.
OVER_SHARE, LOW_SHARE, FULL_SHARE = 0.05, 0.2, 0.75
# Waits below this share are not worth a line. Ours.
LEAST_SHARE = 0.005
# Lines that a verdict or a message takes at most, and more columns or lines than there are. Ours.
MOST_FOOTER, UNBOUNDED = 3, 100_000
# Columns of a bar, with its brackets.
BAR = 12
# Width and title of the two lines of a volume.
RATES = ((12, "volume"), (7, "IOPS"), (7, "read"), (7, "write"), (7, "MiB/s"), (6, "KiB"), (6, "queue"), (7, "rd p50"),
         (7, "p99 ms"), (7, "wr p50"), (7, "p99 ms"))  # fmt: skip
LIMITS = ((18, "  time over:"), (6, "IOPS"), (7, "MiB/s"), (8, "ec2IOPS"), (7, "MiB/s"), (19, "balance      "),
          (9, "empty in"), (6, "room"))  # fmt: skip
# Decimals of the figures of the first line.
DIGITS = (0, 0, 0, 1, 0, 1, 2, 2, 2, 2)


@dataclass(frozen=True)
class ScreenState:
    """The state that the keys have set: `frozen`; `back_s`: how old the moment shown is; `before`:
    the moment an hour ago that is subtracted; `message`: what a key did."""

    frozen: bool = False
    back_s: float = 0.0
    before: Moment | None = None
    message: str = ""
    ascii: bool = False


def build_screen(moment: Moment, width: int, height: int, state: ScreenState | None = None) -> list[Text]:
    """Returns the screen, at most `height` lines of `width` columns."""
    state = state or ScreenState()
    if width < LEAST_COLUMNS or height < LEAST_LINES:
        message = f"{width} x {height} is too small: watch takes {LEAST_COLUMNS} x {LEAST_LINES} and up"
        return [_build_cell((message, "bold"), max(1, width))][:height]
    head = _build_head(moment, width, state)
    footer = [_build_cell((line, "reverse"), width) for line in _fold_text(state.message or KEYS, width)[:MOST_FOOTER]]
    rows = [*head, *_build_server(moment, state)]
    rows[len(head) : len(head)] = _tabulate_volumes(moment, height - len(rows) - len(footer), state)
    rows = [*rows, *_build_notes(moment, width)][: height - len(footer)]
    rows += [Text() for _ in range(height - len(footer) - len(rows))]
    for row in rows:
        row.plain, row.no_wrap = _replace_unprintable(row.plain), True
        row.truncate(width, overflow="ellipsis")
    return rows + footer


def build_whole(moment: Moment, width: int | None = None) -> list[Text]:
    """Returns the screen on as many lines as it takes, with nothing cut, for `--once`. `width`:
    columns at which sentences are broken between words; None: they are not."""
    state, room = ScreenState(), max(LEAST_COLUMNS, width or UNBOUNDED)
    table = _tabulate_volumes(moment, UNBOUNDED, state, uncut=True)
    return [*_build_head(moment, room, state), *table, *_build_server(moment, state), *_build_notes(moment, room)]


def as_text(rows: Sequence[Text]) -> str:
    """Returns lines as text without styles, for `--once` and tests."""
    return "\n".join(_replace_unprintable(line.plain).rstrip() for line in rows).rstrip() + "\n"


def _build_notes(moment: Moment, width: int) -> list[Text]:
    return [Text(piece, "dim") for note in moment.notes for piece in _fold_text(note, width)]


def _fold_text(text: str, width: int) -> list[str]:
    """Returns a sentence on as many lines as it takes."""
    return textwrap.wrap(_replace_unprintable(text), width, break_on_hyphens=False) or [""]


def _build_head(moment: Moment, width: int, state: ScreenState) -> list[Text]:
    """Returns the verdict with the credits that are empty first, and a line with target, time and
    state."""
    first = moment.empty_first
    empty = "" if first is None else f"  {first[0]} {describe_emptying(first[1], brief=True)}"
    verdict = moment.verdict
    style = STYLE_OF.get(verdict.word, "")
    room = width - cell_len(empty)
    top, *below = (Text(line, style) for line in _fold_text(verdict.build_headline(room), room)[:MOST_FOOTER])
    if first is not None:
        top.align("left", room if width < UNBOUNDED else cell_len(top.plain))
        top = Text.assemble(top, (empty, _choose_style(first[1])))
    if moment.t_unix < DAY_S:  # a recording without times counts from its beginning
        at = f"{describe_span(round(moment.t_unix))} after the start"
    else:
        at = f"{datetime.fromtimestamp(moment.t_unix):%Y-%m-%d %H:%M:%S}"
    words = [f"{moment.target}  {at}  every {moment.grain_s:g} s"]
    words += [f"{describe_span(round(state.back_s))} back"] if state.back_s else []
    words += ["frozen"] if state.frozen else []
    words += ["less an hour ago"] if state.before is not None else []
    return [top, *below, Text("  ".join(words), "bold" if state.frozen or state.back_s else "dim")]


def _tabulate_volumes(moment: Moment, room: int, state: ScreenState, uncut: bool = False) -> list[Text]:
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
    rows = [_build_row(rates, [(title, "") for _, title in rates], "bold")]
    # With both lines of each if they fit, else what does not fit has its rates only.
    whole = 2 + 2 * len(moment.volumes) <= room
    if whole:
        rows.append(_build_row(limits, [(title, "") for _, title in limits], "bold"))
    for volume in moment.volumes[: max(1, room - 2)]:
        rows.append(_build_rates_line(volume, before.get(volume.id), rates))
        if whole:
            rows.append(_build_limits_line(volume, state.ascii, limits))
    if not whole:
        hidden = len(moment.volumes) - (len(rows) - 1)
        more = f"and {hidden} more; " if hidden > 0 else ""
        rows.append(Text(f"{more}a taller terminal shows limits and balances", "dim"))
    return rows


def _build_row(columns: Columns, cells: Sequence[Part], style: str = "") -> Text:
    """Returns a line of a table: the first cell on the left, the others on the right of theirs."""
    row = zip(columns, cells, strict=True)
    return Text.assemble(*(_build_cell(cell, width, at > 0) for at, ((width, _), cell) in enumerate(row)), style=style)


def _build_cell(part: Part, width: int, right: bool = False) -> Text:
    """Returns a text cut and padded to that many columns; on the `right`, with a space before
    it."""
    cell = Text(_replace_unprintable(part[0]), part[1])
    cell.truncate(width - right, overflow="ellipsis")
    cell.align("right" if right else "left", width)
    return cell


def _list_figures(volume: VolumeNow) -> tuple[float | None, ...]:
    """Returns the figures of the first line of a volume, in the order of its columns."""
    reads, writes = volume.reads, volume.writes
    rates = (volume.iops, reads.iops, writes.iops, volume.mib_s, volume.io_kib, volume.queue)
    return (*rates, reads.p50_ms, reads.p99_ms, writes.p50_ms, writes.p99_ms)


def _build_rates_line(volume: VolumeNow, before: VolumeNow | None, columns: Columns) -> Text:
    """Returns the first line of a volume: rates, queue and latencies in ms, less those of `before`,
    if given."""
    if volume.gone:
        return Text.assemble(_build_cell((volume.label, ""), columns[0][0]), (f" {volume.gone}", "bold red"))
    past = _list_figures(before) if before else (None,) * len(DIGITS)
    figures = zip(_list_figures(volume), past, DIGITS, strict=True)
    cells = [_format_number(value, was, digits, before is not None) for value, was, digits in figures]
    return _build_row(columns, [(volume.label, ""), *((cell, "") for cell in cells)])


def _build_limits_line(volume: VolumeNow, ascii: bool, columns: Columns) -> Text:
    """Returns the second line of a volume: the share of the time over each limit, balance, when
    credits are empty, and head-room."""
    cells: list[Part] = [(f"  {volume.spec or volume.device or ''}", "dim")]
    for share in (volume.exceeded.get(limit) for limit in caps.COUNTED):
        over = share is not None and share >= OVER_SHARE
        cells.append(("-" if share is None else format_percent(share), "bold red" if over else ""))
    if volume.balance is None:
        cells.append(("no credits" if volume.spec and not volume.bursts else "-", "dim"))
    else:
        text = f"{draw_bar(volume.balance, BAR, ascii)}{format_percent(volume.balance):>6}"
        cells.append((text, "red" if volume.balance < LOW_SHARE else "green"))
    rest, room = volume.time_to_empty, volume.headroom
    cells.append(("" if rest is None else describe_remaining(rest), _choose_style(rest)))
    low = room is not None and room < LOW_SHARE
    cells.append(("" if room is None else format_percent(room), "bold yellow" if low else ""))
    return _build_row(columns, cells)


def _build_server(moment: Moment, state: ScreenState) -> list[Text]:
    """Returns the lines on instance, server and replicas, with what changed since
    `state.before`."""
    rows: list[Text] = []
    instance, server, before = moment.instance, moment.server, state.before.server if state.before else None
    if instance is not None and instance.balances:
        parts = []
        for unit, share in instance.balances.items():
            rest = instance.time_to_empty.get(unit)
            text = f"{unit} {draw_bar(share, BAR, state.ascii)} {format_percent(share)}"
            parts.append(text + (f" {describe_emptying(rest)}" if rest else ""))
        rows.append(Text(f"instance {instance.type or ''}: " + ", ".join(parts)))
    if server is None:
        return rows
    if not server.up:
        return [*rows, Text(f"{server.label} does not answer", "bold red")]
    differs = before is not None
    rates = [
        f"{name} {_format_number(value, was, 0, differs)}"
        for name, value, was in (
            ("tps", server.tps, before and before.tps),
            ("reads", server.reads_s, before and before.reads_s),
            ("flushed", server.flushed_s, before and before.flushed_s),
            ("log waits", server.log_waits_s, before and before.log_waits_s),
            ("free waits", server.free_waits_s, before and before.free_waits_s),
        )
        if value is not None
    ]
    rows.append(Text.assemble((server.version or server.label, "bold"), "  " + " ".join(rates)))
    levels = Text()
    for name, share in (("checkpoint age", server.checkpoint_age), ("dirty", server.dirty)):
        if share is not None:
            style = "yellow" if name == "checkpoint age" and share > FULL_SHARE else "green"
            levels.append(f"{name} ").append(draw_bar(share, BAR - 2, state.ascii), style).append(
                f" {format_percent(share)}  "
            )
    if server.io_wait is not None:
        levels.append(f"clients in I/O {format_percent(server.io_wait)}", "bold" if server.io_wait >= 0.1 else "")
    if server.running is not None:
        levels.append(f"  run {_format_number(server.running, before and before.running, 0, differs)}")
    rows.append(levels)
    if any(share >= LEAST_SHARE for share in server.waits.values()):
        largest_first = sorted(server.waits.items(), key=lambda entry: -entry[1])
        rows.append(Text("waits: " + ", ".join(f"{name} {format_percent(share)}" for name, share in largest_first)))
    for replica in moment.replicas:
        lag = "lag not known" if replica.lag_s is None else f"lag {replica.lag_s:,.0f} s"
        works = "applies" if replica.applies and replica.receives else replica.error or "stopped"
        text = f"replica {replica.channel or '(default)'}: {lag}, {works}"
        rows.append(Text(text, "" if replica.applies else "bold red"))
    return rows


def draw_bar(share: float, width: int, ascii: bool = False) -> str:
    """Returns a bar with brackets, `width` columns, that is filled for `share` (0 to 1) of its
    inside."""
    inside = width - 2
    full = min(inside, max(0, round(share * inside)))
    return f"[{'#' * full}{'-' * (inside - full)}]" if ascii else f"[{'█' * full}{'░' * (inside - full)}]"


def _choose_style(rest: CreditsLeft | None) -> str:
    if rest is None or math.isinf(rest.seconds):
        return ""
    return "bold red" if rest.seconds < 600 else "bold yellow" if rest.seconds < 3_600 else ""


def _format_number(value: float | None, before: float | None, digits: int, signed: bool) -> str:
    """Writes a number, less what it was `before` (None: 0), with `digits` decimals and, if
    `signed`, its sign; in thousands from 100,000 on; `-` for None and what is not finite."""
    value = math.nan if value is None else value - (before or 0.0)
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 99_999.5:
        return f"{value / 1000:{'+' if signed else ''},.0f}k"
    if digits and abs(value) >= 1_000:
        digits = 0
    return f"{value:{'+' if signed else ''},.{digits}f}"


def _replace_unprintable(text: str) -> str:
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)
