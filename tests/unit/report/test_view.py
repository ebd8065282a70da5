"""Views: one value, the same words on a terminal, on a page and in Markdown."""

from __future__ import annotations

from html.parser import HTMLParser

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from headrace.report import html, tables, view
from headrace.report import html as markdown
from headrace.report.output import sanitize_text
from headrace.report.words import describe_storage

# Words whose blanks do not matter: a terminal wraps, HTML and Markdown join lines.
WORDS = st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters="\ue000"), min_size=1, max_size=12)
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TABLES = st.integers(1, 5).flatmap(
    lambda width: st.builds(
        view.Table,
        st.lists(
            st.builds(view.Column, WORDS, st.sampled_from(["", "number", "key", "prose"]), st.just(0), st.booleans()),
            min_size=width,
            max_size=width,
            unique_by=lambda column: column.title,
        ),
        st.lists(st.lists(SENTENCES, min_size=width, max_size=width), min_size=1, max_size=4),
    )
)
BLOCKS = st.lists(
    st.one_of(
        st.builds(view.Sentence, SENTENCES, st.sampled_from(["", "good", "warn"])),
        st.builds(view.Heading, SENTENCES),
        st.builds(view.Items, st.lists(SENTENCES, min_size=1, max_size=4)),
        st.builds(view.Code, st.lists(SENTENCES, min_size=1, max_size=4)),
        TABLES,
    ),
    max_size=5,
)


def words_of(block: view.Block) -> list[str]:
    """Returns every text of a block."""
    match block:
        case view.Sentence() | view.Heading():
            return [block.text]
        case view.Items() | view.Code():
            return list(block.lines)
        case view.Table():
            return [column.title for column in block.columns] + [str(cell) for row in block.rows for cell in row]
        case _:
            return []


def squeezed(text: str) -> str:
    """Returns a text without blanks of any kind."""
    return "".join(text.split())


class Reader(HTMLParser):
    """Collects the text between tags."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def read(page: str) -> str:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return squeezed(reader.text)


@given(BLOCKS)
def test_every_word_is_on_the_terminal_on_the_page_and_in_markdown(blocks):
    report = view.View("A title", blocks=blocks)
    terminal = squeezed("\n".join(_lines(part) for part in tables.list_parts(report)))
    page = read(html.render_page(report))
    rendered = MarkdownIt("commonmark").enable("table").render(markdown.render_markdown(report))
    described = read(rendered)
    for block in blocks:
        # Markdown has the short form of a table; the page has both, the terminal the whole.
        short = block.make_brief() if isinstance(block, view.Table) else None
        for text in words_of(block):
            assert squeezed(sanitize_text(text)) in terminal
            assert squeezed(sanitize_text(text)) in page
        for text in words_of(short or block):
            assert squeezed(sanitize_text(text)) in described, (text, rendered)


def _lines(part: object) -> str:
    if isinstance(part, tables.TerminalTable):
        return "\n".join(str(line) for line in part.render_lines(part.choose_layout(10_000), 10_000))
    return sanitize_text(str(part))


@given(TABLES)
def test_the_short_form_has_the_brief_columns_in_their_order(table):
    brief = table.make_brief()
    expected = [index for index, column in enumerate(table.columns) if column.brief]
    if brief is None:
        assert len(expected) in (0, len(table.columns))
    else:
        assert brief.columns == [table.columns[index] for index in expected]
        assert brief.rows == [[row[index] for index in expected] for row in table.rows]


def test_a_block_stands_only_where_it_belongs():
    chart = view.Chart(lambda: alt.Chart(alt.InlineData([{"x": 1}])).mark_point().encode(x="x:Q"), "one point")
    blocks = [
        view.Sentence("for a terminal", place="terminal"),
        view.Sentence("for a page", place="page"),
        view.Fold("Small print", [view.Items(["first", "second"])]),
        chart,
    ]
    report = view.View("t", "s", [view.Card("Recommended", "19.90 USD a month", "meets every goal", "good")], blocks)
    assert tables.list_parts(report) == ["for a terminal"]
    page = html.render_page(report)
    assert "for a terminal" not in page and "for a page" in page and 'aria-label="one point"' in page
    assert "<details><summary>Small print" in page and "(2)" in page
    assert '<li class="good"><p class="label">Recommended</p><p class="figure">19.90' in page
    assert "*Chart: one point.*" in markdown.render_markdown(report)


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("gp3:155:4500", "gp3 of 155 GiB with 4,500 IOPS"),
        ("gp3:155:4500:250", "gp3 of 155 GiB with 4,500 IOPS and 250 MiB/s"),
        ("6xgp3:26", "RAID 0 of 6 x gp3 of 26 GiB"),
        ("raid10:4xgp3:80", "RAID 10 of 4 x gp3 of 80 GiB"),
        ("gp2:100+gp3:50", "RAID 0 of gp2 of 100 GiB and gp3 of 50 GiB"),
    ],
)
def test_a_storage_in_a_readers_words(storage, words):
    assert describe_storage(storage) == words
