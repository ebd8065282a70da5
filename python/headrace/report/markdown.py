"""Views as Markdown (GitHub's tables): for an issue, a pull request, a chat. A chart is named by
what it describes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.report.output import plain
from headrace.report.view import Block, Chart, Code, Fold, Heading, Items, Sentence, Table, View

# Characters with a meaning in Markdown, within a line (CommonMark 0.31, 2.4 Backslash escapes).
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"})
ALIGNED = {"number": "---:", "key": "---", "prose": "---", "": "---"}


def markdown_of(view: View) -> str:
    """Returns a view as Markdown, ended by a newline."""
    parts = [f"# {escaped(view.title)}"]
    if view.subtitle:
        parts.append(escaped(view.subtitle))
    if view.cards:
        parts.append(
            "\n".join(
                f"- **{escaped(card.label)}: {escaped(card.figure)}**, {escaped(card.meaning)}" for card in view.cards
            )
        )
    return "\n\n".join([*parts, *_blocks(view.at("page"), 2)]) + "\n"


def escaped(value: object) -> str:
    """Returns text as one line in which nothing is read as Markdown."""
    return " ".join(plain("" if value is None else value).split()).translate(SPECIAL)


def _blocks(blocks: Iterable[Block], depth: int) -> list[str]:
    return [part for block in blocks for part in _block(block, depth) if part]


def _block(block: Block, depth: int) -> Sequence[str]:
    match block:
        case Sentence():
            return [f"**{escaped(block.text)}**" if block.mark else escaped(block.text)]
        case Heading():
            return [f"{'#' * depth} {escaped(block.text)}"]
        case Items():
            return ["\n".join(f"- {escaped(line)}" for line in block.lines)]
        case Code():
            return ["\n".join(f"    {plain(line)}" for line in block.lines)]
        case Table():
            return [_table(block.brief() or block)]
        case Chart():
            return [f"*Chart: {escaped(block.described)}.*"]
        case Fold():
            return [f"{'#' * depth} {escaped(block.title)}", *_blocks(block.blocks, depth + 1)]


def _table(table: Table) -> str:
    head = " | ".join(escaped(column.title) or " " for column in table.columns)
    rule = " | ".join(ALIGNED[column.kind] for column in table.columns)
    lines = [f"| {head} |", f"| {rule} |"]
    lines += [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in table.rows]
    title = [escaped(table.title), ""] if table.title else []
    return "\n".join([*title, *lines])
