"""Views: what a result shows, as values. A report makes one; the terminal (tables.py) and pages,
notebooks and Markdown (html.py) render it, and know nothing of results.

    View("gp3:155 meets both goals",
         cards=[Card("Recommended", "19.52 USD a month", "meets every goal", "good")],
         blocks=[Sentence("..."), Table(COLUMNS, rows), Chart(draw, "Cost against latency")])

All texts are plain: what renders them escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import altair as alt

Mark = Literal["", "good", "warn"]
# "number": set to the right, never broken. "key": never broken (a storage, an instance). "prose":
# sentences, which get room. "": words.
Kind = Literal["", "number", "key", "prose"]
# Places in which a block appears; a terminal has no charts, and a page has room for details that a
# terminal leaves out.
Place = Literal["both", "terminal", "page"]


@dataclass(frozen=True)
class Column:
    """A column of a table. `title`: with its unit. `drop`: the order in which a narrow terminal
    leaves it out, 1 first; 0: never. `brief`: whether it stands in the short form of its table."""

    title: str
    kind: Kind = ""
    drop: int = 0
    brief: bool = False


def make_columns(titles: Sequence[str], **kinds: Sequence[str]) -> tuple[Column, ...]:
    """Returns columns of these titles; `number=(...)`, `key=(...)` and `prose=(...)` name those of
    a kind, `drop` those that a narrow terminal leaves out, in this order, `brief` those of the
    table's short form."""
    drop, brief = list(kinds.pop("drop", ())), kinds.pop("brief", ())
    kind_of = {title: kind for kind, named in kinds.items() for title in named}
    return tuple(
        Column(title, kind_of.get(title, ""), drop.index(title) + 1 if title in drop else 0, title in brief)  # pyright: ignore[reportArgumentType]
        for title in titles
    )


@dataclass(frozen=True)
class Sentence:
    """A sentence or a few, on a line of its own; marked as good news or as a warning."""

    text: str
    mark: Mark = ""
    place: Place = "both"


@dataclass(frozen=True)
class Heading:
    """The heading of what follows, up to the next."""

    text: str
    place: Place = "both"


@dataclass(frozen=True)
class Items:
    """Sentences of equal rank: a list on a page, lines on a terminal."""

    lines: Sequence[str]
    place: Place = "both"


@dataclass(frozen=True)
class Code:
    """Lines that are shown as they are: commands to copy, or arithmetic."""

    lines: Sequence[str]
    place: Place = "both"


@dataclass(frozen=True)
class Table:
    """A table of text. `marked`: the index of the row that is the answer; `failing`: those of rows
    that miss a goal, which their cells say too."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[object]]
    title: str = ""
    marked: int | None = None
    place: Place = "both"
    failing: Sequence[int] = ()

    def make_brief(self) -> Table | None:
        """Returns the table with its brief columns alone; None where no column is brief or all
        are."""
        short = [index for index, column in enumerate(self.columns) if column.brief]
        if not short or len(short) == len(self.columns):
            return None
        rows = [[row[index] for index in short] for row in self.rows]
        return replace(self, columns=[self.columns[index] for index in short], rows=rows)


@dataclass(frozen=True)
class Chart:
    """A chart, drawn only where it is shown; `described`: for readers who cannot see it."""

    draw: Callable[[], alt.TopLevelMixin]
    described: str
    place: Place = "page"


def make_drawn_chart(chart: alt.TopLevelMixin, described: str) -> Chart:
    """Returns the block of a chart that has been drawn already."""
    return Chart(lambda: chart, described)


@dataclass(frozen=True)
class Fold:
    """Blocks that a page folds under a title with the count of their lines."""

    title: str
    blocks: Sequence[Block]
    place: Place = "page"

    @property
    def count(self) -> int:
        """Returns the number of lines and rows of the blocks."""
        return sum(
            len(block.rows) if isinstance(block, Table) else len(block.lines) if isinstance(block, (Items, Code)) else 1
            for block in self.blocks
        )


Block = Sentence | Heading | Items | Code | Table | Chart | Fold


def without_charts(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yields the blocks without the charts, and without headings that only charts follow."""
    for index, block in enumerate(blocks):
        if isinstance(block, Heading):
            under = list(takewhile(lambda following: not isinstance(following, Heading), blocks[index + 1 :]))
            if under and all(isinstance(following, Chart) for following in under):
                continue
        if not isinstance(block, Chart):
            yield block


@dataclass(frozen=True)
class Card:
    """A figure of the headline: its label, the figure with its unit, and what it means for the
    reader."""

    label: str
    figure: str
    meaning: str
    mark: Mark = ""

    def fill(self, figures: Mapping[str, str], mark: Mark = "") -> Card:
        """Returns the card with figures in the place of their names in braces, and with `mark`."""
        return Card(self.label, self.figure.format(**figures), self.meaning.format(**figures), mark)


@dataclass(frozen=True)
class View:
    """The parts of a shown result: answer as a title, reason, at most three cards, blocks."""

    title: str
    subtitle: str = ""
    cards: Sequence[Card] = ()
    blocks: Sequence[Block] = ()

    def list_blocks(self, place: Literal["terminal", "page"]) -> Iterator[Block]:
        """Returns the blocks that are shown at `place`, in order."""
        return (block for block in self.blocks if block.place in ("both", place))
