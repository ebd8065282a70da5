"""One self-contained HTML page: text, tables and charts as inline SVG. No network, no script;
readable on paper and on dark screens.

Everything that is put in is escaped here and nowhere else: pass plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.report.charts import style
from headrace.report.charts.drawing import inline_svg, png, svg
from headrace.report.output import PAGE_MARK, SVG_MARK, marked_png, plain, write_bytes, write_text
from headrace.report.words import glued

if TYPE_CHECKING:
    import altair as alt

CSS = """
:root { color-scheme: light dark; --ink: #2b2f36; --quiet: #646b75; --grid: #c9ced6; --page: #ffffff; --band: #f2f4f7;
  --good: #00684c; --warn: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --quiet: #a4acb8; --grid: #4b525c; --page: #16191d; --band: #22262c; --good: #4fd1a5; --warn: #ff9d57; }
}
body { font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink); background: var(--page);
  margin: 0 auto; padding: 1.5rem; max-width: 68rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--grid); padding-bottom: .2rem; }
.sub { color: var(--quiet); margin: 0 0 1rem; } .good { color: var(--good); } .warn { color: var(--warn); }
.scroll, figure { overflow-x: auto; scrollbar-width: thin; scrollbar-color: var(--quiet) transparent;
  /* A shadow at an edge behind which there is more: covers that move with the content hide it at the ends. */
  background: linear-gradient(to right, var(--page) 30%, transparent) left / 3rem 100%, linear-gradient(to left, var(--page) 30%, transparent) right / 3rem 100%,
    linear-gradient(to right, var(--grid), transparent) left / .8rem 100%, linear-gradient(to left, var(--grid), transparent) right / .8rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
.scroll::-webkit-scrollbar, figure::-webkit-scrollbar { height: 8px; }
.scroll::-webkit-scrollbar-thumb, figure::-webkit-scrollbar-thumb { background: var(--quiet); border-radius: 4px; }
/* Tables of many columns may be wider than the text. */
.broad { width: 94vw; position: relative; left: 50%; transform: translateX(-50%); }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
.broad table { font-size: .82rem; } .broad th, .broad td { padding: .3rem .4rem; }
.broad th { white-space: normal; vertical-align: bottom; } .broad .wide { min-width: 9rem; }
th { text-align: left; font-weight: 600; }
td:first-child { min-width: 5rem; } .broad td:first-child { min-width: 0; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--grid); vertical-align: top; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.marked td { background: var(--band); font-weight: 600; }
pre { font: .82rem/1.5 "DejaVu Sans Mono", monospace; background: var(--band); padding: .8rem; white-space: pre-wrap; }
.wide { min-width: 14rem; } td.whole { white-space: nowrap; }
ul { padding-left: 1.2rem; margin: .4rem 0; } li { margin: .2rem 0; } figure { margin: 1rem 0; }
svg { width: 100%; height: auto; }
@media screen and (max-width: 48rem) {
  body { padding: .8rem; }
  /* A chart as wide as it was drawn can be read; it is moved sideways. */
  figure svg { width: auto; }
  /* A row becomes a card: a line for each cell, with the title of its column. */
  .broad { width: auto; left: 0; transform: none; }
  table, tbody, tr, td { display: block; } thead { display: none; }
  tr { border: 1px solid var(--grid); border-radius: .4rem; margin: .6rem 0; padding: .3rem .2rem; }
  td, .broad td { display: flex; gap: 1rem; justify-content: space-between; border: 0; padding: .15rem .5rem; min-width: 0; text-align: right; white-space: normal;
    overflow-wrap: anywhere; }
  td::before { content: attr(data-title); color: var(--quiet); text-align: left; flex: 0 0 auto; max-width: 45%; }
  td:empty { display: none; }
}
footer { margin-top: 2.5rem; color: var(--quiet); font-size: .82rem; border-top: 1px solid var(--grid); padding-top: .6rem; }
@media print { .broad { width: auto; left: 0; transform: none; } .scroll, figure { background: none; } body { font-size: 11px; max-width: none; padding: 0; color: #000; background: #fff;
  } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""

# The ink of the charts follows the page: light, dark or printed.
INKED = "".join(
    f'svg [fill="{colour}"] {{ fill: var({name}); }} svg [stroke="{colour}"] {{ stroke: var({name}); }}\n'
    for colour, name in ((style.INK, "--ink"), (style.QUIET, "--quiet"), (style.GRID, "--grid"))
)
CSS += INKED


# In a notebook: the colours of its theme where it names them (JupyterLab, VS Code), ours otherwise.
FRAGMENT_CSS = """
.headrace { --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, #2b2f36)); --quiet: #7c838d; --grid: #c9ced6; }
.headrace table { border-collapse: collapse; font-size: .85rem; } .headrace .scroll, .headrace figure { overflow-x: auto; margin: .5rem 0; }
.headrace th, .headrace td { padding: .2rem .6rem; text-align: left; vertical-align: top; }
.headrace .right { text-align: right; white-space: nowrap; } .headrace .whole { white-space: nowrap; } .headrace .marked td { font-weight: 600; }
""" + INKED.replace("svg ", ".headrace svg ")
EMPTY_TITLE = "<h1></h1>"


def origin() -> str:
    """Names the maker of the page: version and day of the catalog."""
    from importlib.metadata import version

    from headrace.base import core

    return f"Made by headrace {version('headrace')} with the catalog of {core.newest_date()}. Simulated, not measured, unless it says so."


def text(value: object) -> str:
    """Returns anything as escaped text."""
    return escape(plain("" if value is None else value), quote=True)


# Columns of sentences: they get room, numbers do not need it.
LONG = ("what", "bottleneck", "why", "source", "note", "credits")
WHOLE = 28  # characters; cells of other columns up to this are not broken
BROAD = 9  # columns from which on a table may be wider than the text


class Page:
    """Sections in the order they are added. `render()` gives the whole page."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title, self.parts, self.charts = title, [f"<h1>{text(title)}</h1>"], 0
        if subtitle:
            self.parts.append(f'<p class="sub">{text(subtitle)}</p>')

    def heading(self, words: str) -> None:
        self.parts.append(f"<h2>{text(words)}</h2>")

    def paragraph(self, words: str, mark: str = "") -> None:
        """`mark`: "", "good" or "warn"."""
        self.parts.append(
            f'<p class="{mark}">{text(words)}</p>' if mark in ("good", "warn") else f"<p>{text(words)}</p>"
        )

    def items(self, lines: Iterable[str]) -> None:
        listed = "".join(f"<li>{text(line)}</li>" for line in lines)
        if listed:
            self.parts.append(f"<ul>{listed}</ul>")

    def lines(self, lines: Iterable[str]) -> None:
        """Adds preformatted lines, such as arithmetic."""
        self.parts.append(f"<pre>{text(chr(10).join(lines))}</pre>")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        right: Sequence[str] = (),
        marked: int | None = None,
        prose: Sequence[str] = LONG,
    ) -> None:
        """Adds a table; `right` names columns of numbers, `prose` those of sentences; `marked` is
        the index of a row to set off. Short cells are not broken.

        Many columns may be wider than the text; on a narrow screen each row is a card with the
        titles next to the cells.
        """
        rows = [["" if cell is None else plain(cell) for cell in row] for row in rows]
        marks = []
        for index, column in enumerate(columns):
            if column in right:
                marks.append(' class="right"')
            elif column in prose:
                marks.append(' class="wide"')
            else:
                marks.append(' class="whole"' if all(len(row[index]) <= WHOLE for row in rows) else "")
        titles = [f' data-title="{text(column)}"' for column in columns]
        head = "".join(f"<th{mark}>{text(column)}</th>" for column, mark in zip(columns, marks, strict=True))
        body = []
        for index, row in enumerate(rows):
            cells = "".join(
                f"<td{mark}{title}>{text(glued(cell))}</td>"
                for cell, mark, title in zip(row, marks, titles, strict=True)
            )
            body.append(f'<tr class="marked">{cells}</tr>' if index == marked else f"<tr>{cells}</tr>")
        broad = " broad" if len(columns) >= BROAD else ""
        self.parts.append(
            f'<div class="scroll{broad}" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        )

    def chart(self, chart: alt.TopLevelMixin, described: str) -> None:
        """Adds an Altair chart as inline SVG; `described` is read out where it cannot be seen."""
        self.charts += 1
        self.parts.append(
            f'<figure role="img" tabindex="0" aria-label="{text(described)}">{inline_svg(chart, f"c{self.charts}")}</figure>'
        )

    def fragment(self) -> str:
        """Returns the parts alone, with a style that touches nothing around them: what a notebook
        shows."""
        body = "".join(part for part in self.parts if part != EMPTY_TITLE)
        # Ids must differ from those of every other output in the notebook, and be the same for the
        # same result.
        own = sha256(body.encode()).hexdigest()[:8]
        body = re.sub(r"(?<=[\"#])c(\d+)-", rf"h{own}-\1-", body)
        return f'<div class="headrace"><style>{FRAGMENT_CSS}</style>{body}</div>'

    def render(self) -> str:
        body = "\n".join(self.parts)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">{PAGE_MARK}\n'
            f"<title>{text(self.title)}</title>\n<style>{CSS}</style></head>\n<body>\n{body}\n"
            f"<footer>{text(origin())}</footer>\n</body></html>\n"
        )


def write_page(path: Path, page: Page) -> None:
    """Writes the page, whole or not at all. Raises CouldNotRun."""
    write_text(path, page.render())


def write_chart(path: Path, chart: alt.TopLevelMixin | None, page: Callable[[], Page]) -> None:
    """Writes a chart as .svg or .png, or the page around it as .html, by the ending of `path`.
    Raises CouldNotRun."""
    match path.suffix.lower():
        case ".svg" if chart is not None:
            write_text(path, f"{svg(chart).rstrip()}\n{SVG_MARK}\n")
        case ".png" if chart is not None:
            write_bytes(path, marked_png(png(chart)))
        case _:
            write_page(path, page())
