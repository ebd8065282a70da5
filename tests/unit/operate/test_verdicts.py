"""The table of verdicts: every row is given by the code, and says all that it is told."""

from __future__ import annotations

import csv
import re
from string import Formatter

import pytest
from places import ROOT

from headrace.operate.doctor import verdicts
from headrace.operate.doctor.model import VERDICTS
from headrace.operate.doctor.thresholds import Thresholds

PLACE = ROOT / "python/headrace/operate/doctor"


def fields(row: verdicts.VerdictRow) -> set[str]:
    """Values that the texts of a verdict need, and the names of its figures."""
    texts = [row.because, row.then, row.lines, row.undo, *(figure.words for figure in row.figures)]
    needed = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}
    return needed | {figure.name for figure in row.figures}


def test_every_verdict_of_the_table_is_given_by_the_code_and_none_else():
    code = "".join(path.read_text() for path in PLACE.rglob("*.py"))
    # `"name"` inside the brackets, or handed to a function of the file that looks it up.
    for name, row in verdicts.read_verdicts().items():
        assert f'"{name}"' in code, f"{name} is in the table and not given"
        assert row.verdict in VERDICTS and row.because.strip(), name
    for name in re.findall(r'table\(\)\["([\w-]+)"\]', code):
        assert name in verdicts.read_verdicts(), f"{name} is given and not in the table"


def test_figures_belong_to_a_verdict():
    for name in (verdicts.FIGURES, verdicts.CONDITIONS):
        rows = csv.DictReader((PLACE / name).read_text().splitlines())
        assert {row["verdict"] for row in rows} <= set(verdicts.read_verdicts())


def test_all_conditions_of_a_verdict_have_to_hold():
    locks, limits = verdicts.read_verdicts()["locks"], Thresholds(lock_share=0.5, little_running=0.2)
    assert locks.holds(limits, lock_share=0.5, running=0.2)
    assert not locks.holds(limits, lock_share=0.49, running=4.0)
    assert not locks.holds(limits, lock_share=0.9, running=0.1)
    assert not locks.holds(limits, lock_share=None, running=4.0), "nothing holds of what is not known"
    with pytest.raises(KeyError):
        locks.holds(limits, lock_share=0.9)


@pytest.mark.parametrize("name", verdicts.read_verdicts())
def test_a_verdict_says_what_it_is_told_and_refuses_to_say_less(name):
    row = verdicts.read_verdicts()[name]
    own = {"volume", "felt", "felt_words", "clients_wait"}
    values = {field: 0.25 for field in fields(row) - own}
    given = row.make_finding("vol", 0.25, 0.5, **values)
    assert (given.verdict, given.subject, given.weight) == (row.verdict, row.subject, 0.5)
    assert [figure.name for figure in given.figures] == [figure.name for figure in row.figures]
    text = given.words + "".join(figure.words for figure in given.figures)
    assert "{" not in text and (not given.remedies or given.remedies[0].what)
    for field in values:
        with pytest.raises(KeyError):
            row.make_finding("vol", 0.25, 0.5, **{name: value for name, value in values.items() if name != field})
