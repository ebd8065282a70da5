"""One self-contained HTML page: text, tables and charts as inline SVG. No network, no script; readable on paper and on dark screens.

Everything that is put in is escaped here and nowhere else: pass plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape

from headrace.report import style
from headrace.report.drawing import drawn_png, drawn_svg
from headrace.report.output import plain

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
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; width: 100%; }
th { text-align: left; font-weight: 600; }
td:first-child { min-width: 5rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--grid); vertical-align: top; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.first td { background: var(--band); font-weight: 600; }
pre { font: .82rem/1.5 "DejaVu Sans Mono", monospace; background: var(--band); padding: .8rem; white-space: pre-wrap; }
.wide { min-width: 14rem; }
ul { padding-left: 1.2rem; margin: .4rem 0; } li { margin: .2rem 0; } figure { margin: 1rem 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
footer { margin-top: 2.5rem; color: var(--quiet); font-size: .82rem; border-top: 1px solid var(--grid); padding-top: .6rem; }
@media print { body { font-size: 11px; max-width: none; padding: 0; color: #000; background: #fff;
  } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""

# The ink of the charts follows the page: light, dark or printed.
CSS += "".join(
    f'svg [fill="{colour}"] {{ fill: var({name}); }} svg [stroke="{colour}"] {{ stroke: var({name}); }}\n'
    for colour, name in ((style.INK, "--ink"), (style.QUIET, "--quiet"), (style.GRID, "--grid"))
)


def origin() -> str:
    """What made the page: version and day of the catalog."""
    from importlib.metadata import version

    from headrace import _core

    return f"Made by headrace {version('headrace')} with the catalog of {_core.newest_date()}. Simulated, not measured, unless it says so."


def text(value: object) -> str:
    """Anything as escaped text."""
    return escape(plain("" if value is None else value), quote=True)


# Columns of sentences: they get room, the numbers beside them do not need it.
LONG = ("what", "binds", "why", "source", "note", "runs dry")


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
        self.parts.append(f'<p class="{mark}">{text(words)}</p>' if mark in ("good", "warn") else f"<p>{text(words)}</p>")

    def items(self, lines: Iterable[str]) -> None:
        listed = "".join(f"<li>{text(line)}</li>" for line in lines)
        if listed:
            self.parts.append(f"<ul>{listed}</ul>")

    def lines(self, lines: Iterable[str]) -> None:
        """Preformatted lines, such as arithmetic."""
        self.parts.append(f"<pre>{text(chr(10).join(lines))}</pre>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = (), first: bool = False) -> None:
        """A table; `right` names columns of numbers, `first` sets off the first row."""
        marks = [' class="right"' if column in right else ' class="wide"' if column in LONG else "" for column in columns]
        head = "".join(f"<th{mark}>{text(column)}</th>" for column, mark in zip(columns, marks, strict=True))
        body = []
        for index, row in enumerate(rows):
            cells = "".join(f"<td{mark}>{text(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
            body.append(f'<tr class="first">{cells}</tr>' if first and index == 0 else f"<tr>{cells}</tr>")
        self.parts.append(f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>')

    def chart(self, chart, described: str) -> None:
        """An Altair chart as inline SVG; `described` is read out where it cannot be seen."""
        self.charts += 1
        self.parts.append(f'<figure role="img" aria-label="{text(described)}">{inline_svg(chart, f"c{self.charts}")}</figure>')

    def render(self) -> str:
        body = "\n".join(self.parts)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{text(self.title)}</title>\n<style>{CSS}</style></head>\n<body>\n{body}\n"
            f"<footer>{text(origin())}</footer>\n</body></html>\n"
        )


def svg(chart) -> str:
    """An Altair chart as SVG text, drawn without a browser."""
    drawn = drawn_svg(chart.to_json(indent=None))
    # The renderer counts its clip paths on from chart to chart; counted from 0 the same chart is the same text every time.
    numbers = {name: f"clip{index}" for index, name in enumerate(dict.fromkeys(re.findall(r"\bclip\d+\b", drawn)))}
    return re.sub(r"\bclip\d+\b", lambda match: numbers[match[0]], drawn)


def png(chart, scale: float = 2.0) -> bytes:
    """An Altair chart as PNG on white, `scale` pixels for each CSS pixel."""
    spec = chart.to_dict()
    spec["config"]["background"] = "white"
    return drawn_png(json.dumps(spec), scale)


def inline_svg(chart, prefix: str) -> str:
    """SVG to put into a page: ids made unique, since charts on one page share a name space. Its ink follows the page by CSS."""
    drawn = re.sub(r"^<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", svg(chart)).strip()
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)
    return re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', drawn)
