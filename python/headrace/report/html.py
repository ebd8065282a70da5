"""Views as text for a file: one self-contained HTML page, the fragment of a page that a notebook
shows, and Markdown (GitHub's tables) for an issue or a chat.

A page has text, tables and charts as inline SVG; it needs no network and no script, and is readable
on paper and on dark screens. Every text is escaped here and nowhere else. In Markdown a chart is
named by what it describes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import InputError
from headrace.report.charts.drawing import prepare_inline_svg, render_phone_svg, render_png, render_svg
from headrace.report.live import WhatIf, build_live_parts
from headrace.report.output import PAGE_MARK, SVG_MARK, mark_markdown, mark_png, sanitize_text, write_bytes, write_text
from headrace.report.page_files import INKED, build_stylesheet
from headrace.report.view import Block, Card, Chart, Code, Fold, Heading, Items, Sentence, Table, View
from headrace.report.words import glue_units

if TYPE_CHECKING:
    import altair as alt


# In a notebook: the colours of its theme where it names them (JupyterLab, VS Code), ours otherwise.
FRAGMENT_CSS = """
.headrace { --ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, #2b2f36)); --quiet: #7c838d; --grid: #c9ced6; }
.headrace table { border-collapse: collapse; font-size: .85rem; } .headrace .scroll, .headrace figure { overflow-x: auto; margin: .5rem 0; }
.headrace th, .headrace td { padding: .2rem .6rem; text-align: left; vertical-align: top; }
.headrace .right { text-align: right; white-space: nowrap; } .headrace .whole { white-space: nowrap; } .headrace .marked td { font-weight: 600; }
""" + INKED.replace("svg ", ".headrace svg ")
WHOLE = 28  # characters; cells up to this are not broken
LARGER = 1.35  # times its own size, how large a chart becomes on a wide screen
PHONE_LETTERS = 46  # a table whose columns need no more stays a table on a phone; letters of 14 px
MOST_ON_PHONE = 5  # columns of such a table
BROAD = 9  # columns from which on a table may be wider than the text


def describe_origin() -> str:
    """Returns the footer of a page: the version of Headrace and the day of the catalog."""
    from importlib.metadata import version

    from headrace.base import core

    return f"Made by headrace {version('headrace')} with the catalog of {core.newest_date()}. Simulated, not measured, unless it says so."


def escape_html(value: object) -> str:
    """Returns a value as text that is safe in HTML; None is ""."""
    return escape(sanitize_text("" if value is None else value), quote=True)


def render_page(view: View, live: WhatIf | None = None) -> str:
    """Returns a view as a whole HTML page; with `live`, sliders follow the headline. Raises
    CouldNotRun."""
    head, moving = build_live_parts(live) if live is not None else ("", "")
    subtitle = f'<p class="sub">{_keep_names_whole(view.subtitle)}</p>\n' if view.subtitle else ""
    body = f"<h1>{_keep_names_whole(view.title)}</h1>\n{subtitle}{_render_cards(view.cards)}{moving}{_Body(phones=True).render_blocks(view.list_blocks('page'))}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{PAGE_MARK}\n'
        f"<title>{escape_html(view.title)}</title>\n<style>{build_stylesheet()}</style>{head}</head>\n<body><main>\n{body}\n</main>\n"
        f"<footer>{escape_html(describe_origin())}</footer>\n</body></html>\n"
    )


def render_fragment(view: View) -> str:
    """Returns the blocks of a view alone, with a style that touches nothing around them: what a
    notebook shows."""
    body = _Body().render_blocks(view.list_blocks("page"))
    # Ids must differ from those of every other output in the notebook, and be the same for the
    # same result.
    prefix = sha256(body.encode()).hexdigest()[:8]
    body = re.sub(r"(?<=[\"#])c(\d+)-", rf"h{prefix}-\1-", body)
    return f'<div class="headrace"><style>{FRAGMENT_CSS}</style>{body}</div>'


def write_view(path: Path, view: View, live: WhatIf | None = None) -> None:
    """Writes a view by the ending of `path`, whole or not at all: its first chart alone as .svg or
    .png, the view as Markdown (.md), else as a page. `live`: the question that sliders of the page
    ask again. Raises InputError for a chart of a view that has none, CouldNotRun."""
    match path.suffix.lower():
        case ".svg":
            # A picture has no page behind it, and its ink is dark.
            drawn = (
                render_svg(_draw_first_chart(path, view)).rstrip().replace("<svg ", '<svg style="background: #fff" ', 1)
            )
            write_text(path, f"{drawn}\n{SVG_MARK}\n")
        case ".png":
            write_bytes(path, mark_png(render_png(_draw_first_chart(path, view))))
        case ".md":
            write_text(path, mark_markdown(render_markdown(view)))
        case _:
            write_text(path, render_page(view, live))


def _draw_first_chart(path: Path, view: View) -> alt.TopLevelMixin:
    """Draws the first chart of a view. Raises InputError where it has none."""
    chart = next((block for block in view.blocks if isinstance(block, Chart)), None)
    if chart is None:
        raise InputError(str(path), "there is no chart of this result", "", "Write a page: .html.")
    return chart.draw()


def _keep_names_whole(words: str) -> str:
    """Returns a text as HTML in which short words with a hyphen, such as dates, are not broken."""
    return " ".join(
        f'<span class="whole">{escape_html(word)}</span>' if "-" in word and len(word) <= WHOLE else escape_html(word)
        for word in glue_units(words).split(" ")
    )


def _render_cards(cards: Sequence[Card]) -> str:
    """Returns the cards as HTML; empty without cards."""
    if not cards:
        return ""
    listed = "".join(
        f'<li class="{card.mark}"><p class="label">{escape_html(card.label)}</p><p class="figure">{_render_card_figure(card.figure)}</p>'
        f'<p class="meaning">{escape_html(glue_units(card.meaning))}</p></li>'
        for card in cards
    )
    return f'<ul class="cards">{listed}</ul>\n'


def _render_card_figure(words: str) -> str:
    """Returns the figure of a card as HTML: a number large and its unit small, a figure in several
    parts (7 h 51 min) large, words alone smaller."""
    figure, _, unit = words.partition(" ")
    has_digit = [any(character.isdigit() for character in part) for part in (figure, unit)]
    if not any(has_digit):
        return f'<span class="words">{escape_html(words)}</span>'
    if not unit or has_digit != [True, False]:
        return escape_html(glue_units(words))
    return f"{escape_html(figure)}\u00a0<small>{escape_html(unit)}</small>"


class _Body:
    """Renders blocks in their order, and counts the charts: ids differ from chart to chart.
    `phones`: whether each chart is there once more, as wide as a phone."""

    def __init__(self, phones: bool = False) -> None:
        self.charts = 0
        self.phones = phones

    def render_blocks(self, blocks: Iterable[Block]) -> str:
        return "\n".join(self._render_block(block) for block in blocks)

    def _render_block(self, block: Block) -> str:
        """Returns a block as HTML."""
        match block:
            case Sentence():
                mark = f' class="{block.mark}"' if block.mark else ""
                return f"<p{mark}>{escape_html(glue_units(block.text))}</p>"
            case Heading():
                return f"<h2>{escape_html(block.text)}</h2>"
            case Items():
                listed = "".join(f"<li>{escape_html(glue_units(line))}</li>" for line in block.lines)
                return f"<ul>{listed}</ul>" if listed else ""
            case Code():
                return _render_code(block.lines)
            case Table():
                return _render_table(block)
            case Chart():
                return self._render_chart(block)
            case Fold():
                return self._render_fold(block)

    def _render_chart(self, chart: Chart) -> str:
        """Returns a chart as inline SVG, twice if the page has charts for phones."""
        self.charts += 1
        chart_drawn = chart.draw()
        wide = self._render_figure("", render_svg(chart_drawn), chart.described)
        if self.phones and (narrow := render_phone_svg(chart_drawn)) is not None:
            return f"{wide}\n{self._render_figure('phone', narrow, chart.described)}"
        return wide

    def _render_figure(self, kind: str, drawn: str, described: str) -> str:
        """Returns a drawn SVG as a figure of class `kind` ("": none), with ids of its own."""
        attributes = f' class="{kind}"' if kind else ""
        inline = prepare_inline_svg(drawn, f"c{self.charts}{kind[:1]}")
        # A small chart keeps letters that are no larger than the page's.
        inline = re.sub(r'^<svg ([^>]*?width="([\d.]+)")', _limit_width, inline)
        return f'<figure{attributes} role="img" tabindex="0" aria-label="{escape_html(described)}">{inline}</figure>'

    def _render_fold(self, fold: Fold) -> str:
        count = f' <span class="count">({fold.count:,})</span>' if fold.count > 1 else ""
        return (
            f"<details><summary>{escape_html(fold.title)}{count}</summary>\n{self.render_blocks(fold.blocks)}</details>"
        )


def _limit_width(match: re.Match[str]) -> str:
    return f'<svg style="max-width:{LARGER * float(match[2]):.0f}px" {match[1]}'


def _render_code(lines: Sequence[str]) -> str:
    """Returns lines to copy. Unindented lines that describe the indented ones below
    them become sentences, each with its lines."""
    titles = [line for line in lines if not line.startswith(" ")]
    if not titles or len(titles) == len(lines) or not all(line.endswith(":") for line in titles):
        return f'<pre tabindex="0">{escape_html(chr(10).join(lines))}</pre>'
    steps: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(" ") and steps:
            steps[-1][1].append(line.removeprefix("    "))
        else:
            steps.append((line, []))
    return "\n".join(
        f'<p class="step">{escape_html(glue_units(title))}</p>{_render_code(inner) if inner else ""}'
        for title, inner in steps
    )


def _render_table(table: Table) -> str:
    """Returns a table; one with few brief columns is followed by the whole, folded. Many columns
    may be wider than the text; on a narrow screen each row is a card with the titles next to the
    cells."""
    brief = table.make_brief()
    if brief is None:
        return _render_grid(table)
    return f"{_render_grid(brief)}\n<details><summary>All {len(table.columns)} columns</summary>\n{_render_grid(table)}</details>"


def _render_grid(table: Table) -> str:
    """Returns a table as HTML that scrolls sideways, or is set small where it then fits a phone."""
    rows = [["" if cell is None else sanitize_text(cell) for cell in row] for row in table.rows]
    marks = []
    for index, column in enumerate(table.columns):
        if column.kind == "number":
            marks.append(' class="right"')
        elif column.kind == "prose":
            marks.append(' class="wide"')
        else:
            marks.append(' class="whole"' if all(len(row[index]) <= WHOLE for row in rows) else "")
    titles = [f' data-title="{escape_html(column.title)}"' for column in table.columns]
    head = "".join(
        f'<th scope="col"{mark}>{escape_html(column.title)}</th>'
        for column, mark in zip(table.columns, marks, strict=True)
    )
    body = []
    for index, row in enumerate(rows):
        cells = "".join(
            f"<td{mark}{title}>{escape_html(glue_units(cell))}</td>"
            for cell, mark, title in zip(row, marks, titles, strict=True)
        )
        mark = "marked" if index == table.marked else "failing" if index in table.failing else ""
        body.append(f'<tr class="{mark}">{cells}</tr>' if mark else f"<tr>{cells}</tr>")
    broad = " broad" if len(table.columns) >= BROAD else ""
    longest = [
        max(
            len(cell) if column.kind == "number" else max(map(len, cell.split()), default=0)
            for cell in (column.title, *cells)
        )
        for column, *cells in zip(table.columns, *rows, strict=True)
    ]
    if rows and sum(longest) + 2 * len(longest) <= PHONE_LETTERS and len(longest) <= MOST_ON_PHONE:
        broad = " small"
    caption = f"<caption>{escape_html(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll{broad}" tabindex="0"><table>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


# --- Markdown -------------------------------------------------------------------------------------


# Characters with a meaning in Markdown, within a line (CommonMark 0.31, 2.4 Backslash escapes).
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"})
ALIGNED = {"number": "---:", "key": "---", "prose": "---", "": "---"}


def render_markdown(view: View) -> str:
    """Returns a view as Markdown, ended by a newline."""
    parts = [f"# {escape_markdown(view.title)}"]
    if view.subtitle:
        parts.append(escape_markdown(view.subtitle))
    if view.cards:
        parts.append(
            "\n".join(
                f"- **{escape_markdown(card.label)}: {escape_markdown(card.figure)}**, {escape_markdown(card.meaning)}"
                for card in view.cards
            )
        )
    return "\n\n".join([*parts, *_render_markdown_blocks(view.list_blocks("page"), 2)]) + "\n"


def escape_markdown(value: object) -> str:
    """Returns text as one line in which nothing is read as Markdown."""
    return " ".join(sanitize_text("" if value is None else value).split()).translate(SPECIAL)


def _render_markdown_blocks(blocks: Iterable[Block], depth: int) -> list[str]:
    return [part for block in blocks for part in _render_markdown_block(block, depth) if part]


def _render_markdown_block(block: Block, depth: int) -> Sequence[str]:
    """Returns the Markdown paragraphs of a block; headings have `depth` signs."""
    match block:
        case Sentence():
            return [f"**{escape_markdown(block.text)}**" if block.mark else escape_markdown(block.text)]
        case Heading():
            return [f"{'#' * depth} {escape_markdown(block.text)}"]
        case Items():
            return ["\n".join(f"- {escape_markdown(line)}" for line in block.lines)]
        case Code():
            return ["\n".join(f"    {sanitize_text(line)}" for line in block.lines)]
        case Table():
            return [_render_markdown_table(block.make_brief() or block)]
        case Chart():
            return [f"*Chart: {escape_markdown(block.described)}.*"]
        case Fold():
            return [f"{'#' * depth} {escape_markdown(block.title)}", *_render_markdown_blocks(block.blocks, depth + 1)]


def _render_markdown_table(table: Table) -> str:
    """Returns a table in Markdown, with its title above."""
    head = " | ".join(escape_markdown(column.title) or " " for column in table.columns)
    rule = " | ".join(ALIGNED[column.kind] for column in table.columns)
    lines = [f"| {head} |", f"| {rule} |"]
    lines += [f"| {' | '.join(escape_markdown(cell) for cell in row)} |" for row in table.rows]
    title = [escape_markdown(table.title), ""] if table.title else []
    return "\n".join([*title, *lines])
