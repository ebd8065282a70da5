"""Tables on stdout, and the data of a chart over time as a table.

A table is wide enough not to cut anything when stdout is a file or a pipe; on a terminal nothing is
broken that is to be copied.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import polars as pl
from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from headrace.report import view
from headrace.report.charts.rows import group_by_clock
from headrace.report.output import sanitize_text
from headrace.report.view import Fold, Table, make_columns
from headrace.report.words import format_number, format_span, glue_units, list_row_labels

if TYPE_CHECKING:
    from rich.console import ConsoleOptions

    from headrace.report.charts.builders import Part


PROSE_WIDTH = 100  # characters; of sentences that nobody reads on a terminal, as wide as they are read well
PIPE_WIDTH = 240  # characters; without a terminal there is nothing to wrap for
GAP = 2  # blanks between columns
INDENT = 4  # of what stands under its row
PROSE_LEAST = 20  # a column of sentences narrower than this is hard to read
PROSE_WORDS, PROSE_LENGTH = 4, 28  # cells with this many words and characters are sentences
# Stands for the blank between a number and its unit, where lines are broken at blanks.
GLUE = "\ue000"


def make_console() -> Console:
    """Returns a console of rich on stdout, without markup in texts, and without colours where
    stdout is not a terminal."""
    width = None
    if not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdigit() and 20 < int(columns) < 10_000 else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, markup=False, highlight=False, emoji=False)


def wrap_text(text: str, width: int) -> list[str]:
    """Returns the lines of a text at most `width` characters wide, broken between words only; a
    number keeps its unit. A word wider than all of it is broken."""
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in glue_units(paragraph, GLUE).split(" "):
            word = word.replace(GLUE, " ")
            if line and cell_len(line) + 1 + cell_len(word) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}" if line else word
            while cell_len(line) > width:
                first, *_ = chop_cells(line, width)
                lines.append(first)
                line = line[len(first) :]
        lines.append(line)
    return lines


@dataclass(frozen=True)
class Layout:
    """The place of each column: side by side with its width in characters, under its row, or left
    out."""

    widths: dict[int, int]
    below: tuple[int, ...]
    dropped: tuple[int, ...]


class TerminalTable:
    """A table that chooses its layout by the width of the terminal; see `lay_out_table`."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        title: str | None,
        right: Sequence[str],
        keep: Sequence[str],
        prose: Sequence[str] | None,
        drop: Sequence[str],
    ) -> None:
        """Measures the cells. Columns are named in `right` (set flush right), `keep` (never
        folded), `prose` (folded first; None: found by their texts) and `drop` (left out first if
        room lacks)."""
        self.columns, self.title = [sanitize_text(name) for name in columns], sanitize_text(title)
        self.rows = [["" if cell is None else sanitize_text(cell) for cell in row] for row in rows]
        places = {name: index for index, name in reversed(list(enumerate(columns)))}
        self.right = {places[name] for name in right if name in places}
        self.prose = (
            tuple(places[name] for name in prose if name in places) if prose is not None else self._find_sentences()
        )
        self.keep = {places[name] for name in keep if name in places} | (self.right - set(self.prose))
        self.drop = tuple(places[name] for name in drop if name in places)
        count = range(len(self.columns))
        self.wide = [max([cell_len(line) for row in self.rows for line in row[i].split("\n")] or [0]) for i in count]
        self.head = [cell_len(name) for name in self.columns]

    def _find_sentences(self) -> tuple[int, ...]:
        """Returns the positions of the columns that hold sentences, by the length of their
        texts."""
        return tuple(
            index
            for index in range(len(self.columns))
            if index not in self.right
            and any(len(row[index]) > PROSE_LENGTH and row[index].count(" ") >= PROSE_WORDS - 1 for row in self.rows)
        )

    def _compute_least_width(self, index: int) -> int:
        """Returns the fewest characters that a column may be wide: nothing in it is broken inside a
        word, in `keep` nothing at all."""
        words = _measure_longest_word(self.columns[index])
        if index in self.keep:
            return max(words, self.wide[index])
        longest = max([_measure_longest_word(row[index]) for row in self.rows] or [0])
        if index in self.prose:
            return max(words, longest, min(self.wide[index], PROSE_LEAST))
        return max(words, longest)

    def _fit_widths(self, shown: list[int], width: int) -> dict[int, int] | None:
        """Returns the widths, in characters, of columns that stand side by side in `width`, or None
        when they do not fit."""
        least = {index: self._compute_least_width(index) for index in shown}
        full = {index: max(self.wide[index], self.head[index]) for index in shown}
        spare = width - GAP * (len(shown) - 1) - sum(least.values())
        if spare < 0:
            return None
        widths = dict(least)
        for index in sorted(shown, key=lambda index: (index in self.prose, full[index] - least[index])):
            widths[index] += min(spare, full[index] - least[index])
            spare -= widths[index] - least[index]
        return {index: widths[index] for index in shown}

    def choose_layout(self, width: int) -> Layout:
        """Returns the layout for `width` characters with the fewest lines in which nothing is
        broken. Sentences go under their rows first, then columns of `drop` are left out in its
        order, then the last columns go under their rows."""
        everything = list(range(len(self.columns)))
        best, fewest = None, 0
        for count in range(len(self.prose) + 1):
            below = tuple(sorted(self.prose[len(self.prose) - count :]))
            widths = self._fit_widths([index for index in everything if index not in below], width)
            if widths is not None:
                layout = Layout(widths, below, ())
                lines = len(self.render_lines(layout, width))
                if best is None or lines < fewest:
                    best, fewest = layout, lines
        if best is not None:
            return best
        below, dropped = set(self.prose), []
        shown = [index for index in everything if index not in below]
        for index in (*self.drop, *reversed(shown[1:])):
            if self._fit_widths(shown, width) is not None:
                break
            if index not in shown:
                continue
            shown.remove(index)
            if index in self.drop:
                dropped.append(index)
            else:
                below.add(index)
        widths = self._fit_widths(shown, width) or {index: self._compute_least_width(index) for index in shown}
        return Layout(widths, tuple(sorted(below)), tuple(dropped))

    def render_lines(self, layout: Layout, width: int) -> list[Text]:
        """Returns the lines of title, head and rows in a layout for `width` characters."""
        text_lines = [Text(line, style="italic") for line in (wrap_text(self.title, width) if self.title else [])]
        text_lines += [Text(line, style="bold") for line in self._render_row(self.columns, layout.widths)]
        for row in self.rows:
            text_lines += [Text(line) for line in self._render_row(row, layout.widths)]
            for index in layout.below:
                if row[index]:
                    sentence = f"{self.columns[index]}: {row[index]}" if self.columns[index] else row[index]
                    text_lines += [Text(" " * INDENT + line) for line in wrap_text(sentence, max(1, width - INDENT))]
        if layout.dropped:
            names = ", ".join(self.columns[index] for index in layout.dropped)
            text_lines += [
                Text(line, style="italic") for line in wrap_text(f"Left out at {width} columns: {names}.", width)
            ]
        return text_lines

    def _render_row(self, cells: Sequence[str], widths: dict[int, int]) -> list[str]:
        """Returns the lines of one row, its cells folded to `widths` (position to characters)."""
        folded = {
            index: [cells[index]] if cell_len(cells[index]) <= width else wrap_text(cells[index], width)
            for index, width in widths.items()
        }
        lines = []
        for row in range(max((len(part) for part in folded.values()), default=0)):
            line = ""
            for index, width in widths.items():
                text = folded[index][row] if row < len(folded[index]) else ""
                blank = " " * max(0, width - cell_len(text))
                line += (blank + text if index in self.right else text + blank) + " " * GAP
            lines.append(line.rstrip(" "))
        return lines

    def __rich_console__(self, to: Console, options: ConsoleOptions) -> Iterator[Text]:
        # A line wider than the terminal is left to the terminal: it breaks what is shown, not what
        # is copied.
        yield from (
            _keep_whole(line) for line in self.render_lines(self.choose_layout(options.max_width), options.max_width)
        )


def _keep_whole(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _measure_longest_word(text: str) -> int:
    return max(cell_len(word.replace(GLUE, " ")) for word in re.split(r"[ \n]", glue_units(text, GLUE)))


class TableLayout(TypedDict, total=False):
    """Arguments of `make_table` that describe the columns by their titles."""

    title: str
    right: Sequence[str]
    keep: Sequence[str]
    prose: Sequence[str]
    drop: Sequence[str]


def make_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    right: Sequence[str] = (),
    *,
    keep: Sequence[str] = (),
    prose: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> view.Table:
    """Returns a table whose columns are described by lists of titles; names that the table does not
    have are ignored.

    `right`: columns of numbers. `keep`: columns that are never broken, not even between words
    (storage specifications, instance types). `prose`: columns of sentences. `drop`: columns that a
    narrow terminal leaves out, the first one first.

        make_table(("storage", "USD", "why"), rows, right=("USD",), keep=("storage",))
    """
    keys = [name for name in keep if name not in right]
    return view.Table(view.make_columns(titles, number=right, key=keys, prose=prose, drop=drop), list(rows), title)


def lay_out_table(shown: view.Table) -> TerminalTable:
    """Returns a table of a view as the terminal sets it.

    A word is never broken in any column. If not all columns fit side by side, sentences wrap in
    their column or, where that takes fewer lines, stand under their row as `title: text`; then
    columns are left out in the order of their `drop`, and a line under the table says which; then
    the last columns go under their row. Without columns of prose, those whose cells look like
    sentences are.
    """
    by_kind = {
        kind: [column.title for column in shown.columns if column.kind == kind] for kind in ("number", "key", "prose")
    }
    drop = [column.title for column in sorted(shown.columns, key=lambda column: column.drop) if column.drop]
    titles = [column.title for column in shown.columns]
    return TerminalTable(
        titles, shown.rows, shown.title, by_kind["number"], by_kind["key"], by_kind["prose"] or None, drop
    )


def list_parts(shown: view.View) -> list[str | Text | TerminalTable]:
    """Returns what a terminal shows of a view: its blocks alone, since the first of them say what
    title and figures do on a page. A blank line stands before headings and tables."""
    parts = _list_block_parts(shown.list_blocks("terminal"))
    return parts[1:] if parts and parts[0] == "" else parts


def _list_block_parts(blocks: Iterable[view.Block]) -> list[str | Text | TerminalTable]:
    """Returns what a terminal shows of the blocks; charts are left out."""
    parts: list[str | Text | TerminalTable] = []
    for block in blocks:
        match block:
            case view.Sentence():
                parts.append(block.text)
            case view.Items():
                parts += block.lines
            case view.Heading():
                parts += ["", block.text] if block.text else [""]
            case view.Code():
                # Lines to copy are never broken.
                parts += [Text(f"  {line}") if line.startswith("    ") else f"  {line}" for line in block.lines]
            case view.Table():
                parts += ["", lay_out_table(block)]
            case view.Fold():
                parts += ["", block.title, *_list_block_parts(block.blocks)]
            case view.Chart():
                pass  # a terminal has none
    return parts


def show(*parts: object) -> None:
    """Prints views, tables and lines of text to stdout, in order."""
    out = make_console()
    for part in parts:
        if isinstance(part, view.View):
            show(*list_parts(part))
        elif isinstance(part, view.Table):
            out.print(lay_out_table(part))
        elif not isinstance(part, str):
            # A line given as Text is to be copied: the terminal may break what is shown, not what
            # is copied.
            out.print(part, soft_wrap=isinstance(part, Text))
        else:
            for line in sanitize_text(part).split("\n"):
                for piece in [line] if cell_len(line) <= out.width else _wrap_indented(line, out.width):
                    out.print(_keep_whole(Text(piece)))


def fold_line(line: str) -> list[str]:
    """Returns a line of prose on as many lines as it takes: of the terminal's width, of PROSE_WIDTH
    without a terminal."""
    is_plain = not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdigit()
    return _wrap_indented(line, PROSE_WIDTH if is_plain else make_console().width)


def _wrap_indented(line: str, width: int) -> list[str]:
    """Returns a long line as several of at most `width` characters, each indented as the first."""
    indent = min(len(line) - len(line.lstrip(" ")), width // 2)
    return [" " * indent + piece for piece in wrap_text(line.lstrip(" "), width - indent)]


SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 72  # leaves room for the unit on a terminal of 80 columns


def draw_sparkline(values: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """Returns the values as at most `width` blocks, each the highest of its stretch; the tallest
    block is the highest of all."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    peaks = [max(values[edges[i] : edges[i + 1]]) for i in range(count)]
    top = max(peaks) or 1.0
    return "".join(SPARKS[min(7, int(8 * max(0.0, peak) / top))] for peak in peaks)


def fold_of(title: str, rows: pl.DataFrame, panels: Sequence[tuple[str, Sequence[Part]]], start: object = None) -> Fold:
    """Returns the panels of a chart as a folded table of at most 24 rows, each the means of a
    stretch on the clock. `rows`: `t_s` and the columns that `panels` names; columns without a
    figure are left out. `start`: the clock at 0 s, None without a clock."""
    parts = [
        (name, words if words.startswith(label) else f"{label}, {words}")
        for words, panel in panels
        for name, label, _ in panel
        if name in rows.columns and rows[name].is_not_null().any()
    ]
    parted, step_s = group_by_clock(rows, rows["t_s"][-1], start)
    figures = pl.col([name for name, _ in parts]).cast(pl.Float64).mean()
    short = parted.group_by("group", maintain_order=True).agg(pl.col("t_s").first(), figures)
    labels = list_row_labels([float(t_s) for t_s in short["t_s"]], start)
    cells = [
        (next(labels), *("-" if row[name] is None else format_number(row[name], 4) for name, _ in parts))
        for row in short.iter_rows(named=True)
    ]
    titles = ("time", *(words for _, words in parts))
    when = f"{'Time of day' if start else 'Time since the start'}. Each row: the mean of {format_span(step_s)}."
    return Fold(title, [Table(make_columns(titles, number=titles), cells, when)])
