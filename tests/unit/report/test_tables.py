"""Tables at any width: nothing is lost, nothing that is to be copied is broken."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from headrace.report import tables, view
from headrace.report.words import glue_units

COLUMNS = ("#", "storage", "instance", "USD/month", "goal", "bottleneck", "x")
ROWS = [
    (1, "raid10:4xgp3:700:12000:1000", "m8gd.24xlarge", "1,234.50", "p99 23 h 33 min", "the volume's MiB/s, for 40 min from 10:17 on, at 1,500 MiB/s", "ok"),
    (2, "instance-store:220", "c8gb.xlarge", "88.50", "1.5 ms", "", "ok"),
]  # fmt: skip


def printed_lines(table: view.Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(tables.lay_out_table(table))
    return out.getvalue().splitlines()


def example_table(**more) -> view.Table:
    return tables.make_table(
        COLUMNS, ROWS, right=("#", "USD/month"), keep=("storage", "instance"), prose=("bottleneck",), **more
    )


@pytest.mark.parametrize("width", range(30, 161, 7))
def test_specifications_numbers_and_units_are_whole_at_every_width(width):
    lines = printed_lines(example_table(), width)
    text = "\n".join(lines)
    for cell in (
        "raid10:4xgp3:700:12000:1000",
        "m8gd.24xlarge",
        "instance-store:220",
        "c8gb.xlarge",
        "1,234.50",
        "1.5 ms",
        "40 min",
        "1,500 MiB/s",
    ):
        assert cell in text, (width, cell)
    # The widest thing that may not be broken is the specification with its rank before it; all else
    # fits.
    assert max(map(cell_len, lines)) <= max(
        width, len("1  raid10:4xgp3:700:12000:1000"), len("    storage: raid10:4xgp3:700:12000:1000")
    )


def test_sentences_go_under_their_row_and_columns_of_drop_are_left_out_in_order():
    wide, narrow = (
        printed_lines(example_table(drop=("x", "goal")), 150),
        printed_lines(example_table(drop=("x", "goal")), 58),
    )
    assert "bottleneck" in wide[0] and wide[1].endswith("ok")
    assert "bottleneck" not in narrow[0] and any(
        line.startswith("    bottleneck: the volume's MiB/s") for line in narrow
    )
    assert "goal" not in narrow[0] and narrow[-1] == "Left out at 58 columns: x, goal."
    assert "raid10:4xgp3:700:12000:1000" in narrow[1]


words = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=12)


@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1, max_size=5), st.integers(20, 120))
def test_every_word_of_every_cell_is_there(rows, width):
    table = tables.make_table(("a", "b", "c"), rows, right=("b",))
    text = "\n".join(printed_lines(table, width))
    for row in rows:
        for cell in row:
            assert cell in text


@given(st.text(st.sampled_from("ab 1 GiB%"), max_size=80), st.integers(1, 40))
def test_wrapped_lines_fit_and_lose_nothing(text, width):
    lines = tables.wrap_text(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_numbers_hold_on_to_their_units():
    assert (
        glue_units("at 1,500 MiB/s for 40 min (60 %) of 3 members", "_")
        == "at 1,500_MiB/s for 40_min (60_%) of 3 members"
    )
    assert not re.search("_", glue_units("12 monkeys, 3 s-bends", "_").replace("3_s", ""))
