"""The verdicts in three tables: their sentences and remedies, the figures that they show, and the
conditions that must all hold, each a figure compared with a threshold of thresholds.csv.
`innocence` and `storage_verdicts` compute the figures, and hold the conditions that a table cannot
express: alternatives, and conclusions from several figures."""

from __future__ import annotations

import operator
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from headrace.base.packaged import read_rows
from headrace.base.units import describe_span, format_percent
from headrace.operate.doctor.model import Basis, Finding, FindingFigure, Remedy, Verdict
from headrace.operate.doctor.thresholds import Thresholds

PACKAGE = "headrace.operate.doctor"
TABLE, FIGURES, CONDITIONS = "verdicts.csv", "verdict_figures.csv", "verdict_conditions.csv"
COMPARISONS = {">=": operator.ge, ">": operator.gt, "<=": operator.le}


@dataclass(frozen=True)
class FigureRow:
    """A figure of a verdict; `words` has values in braces, as texts of VerdictRow have."""

    verdict: str
    name: str
    unit: str
    words: str


@dataclass(frozen=True)
class ConditionRow:
    """A condition of a verdict: a figure compared with a threshold, by their names."""

    verdict: str
    figure: str
    comparison: str
    threshold: str

    def holds(self, figures: Mapping[str, float | None], thresholds: Thresholds) -> bool:
        """Returns whether the condition holds; False for a figure that is None. Raises KeyError
        where the figure is not given."""
        value = figures[self.figure]
        return value is not None and COMPARISONS[self.comparison](value, getattr(thresholds, self.threshold))


@dataclass(frozen=True)
class VerdictRow:
    """One verdict: the sentence (`because`), and the remedy: what to do (`then`), a line to paste,
    how to take it back, its cost and the source of the rule; all "" without a remedy. Values in
    braces are formatted as Python does, shares (`:share`) and seconds (`:span`) in words."""

    name: str
    verdict: Verdict
    subject: str
    basis: Basis
    because: str
    then: str
    lines: str
    undo: str
    cost: str
    source: str
    figures: tuple[FigureRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()

    def holds(self, thresholds: Thresholds, **figures: float | None) -> bool:
        """Returns whether all its conditions hold."""
        return all(condition.holds(figures, thresholds) for condition in self.conditions)

    def make_finding(
        self,
        volume: str | None = None,
        felt: float | None = None,
        weight: float = 0.0,
        basis: Basis | None = None,
        figures: tuple[FindingFigure, ...] = (),
        **values: float | str | None,
    ) -> Finding:
        """Returns the finding with these values, by the names of the table; `figures` come after
        those of the table. Raises KeyError where a value of the texts is not given."""
        values |= {
            "volume": volume,
            "felt": felt,
            "felt_words": _describe_felt(felt),
            "clients_wait": describe_client_waits(felt),
        }
        rows = [(row, values[row.name], _format_text(row.words, values)) for row in self.figures]
        own = tuple(FindingFigure(row.name, cast(float | None, value), row.unit, words) for row, value, words in rows)
        then, line, undo = (_format_text(text, values) for text in (self.then, self.lines, self.undo))
        remedy = Remedy(then, (line,) if line else (), undo, self.cost, source=self.source)
        return Finding(
            self.verdict,
            self.subject,
            _format_text(self.because, values).strip(),
            volume,
            basis or self.basis,
            felt,
            weight,
            (*own, *figures),
            remedies=(remedy,) if then else (),
        )


class _TextFormatter(string.Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        """Writes a share (0 to 1) in percent and seconds as a span; all else as Python does."""
        if format_spec == "share":
            return format_percent(cast(float, value))
        if format_spec == "span":
            return describe_span(max(1, round(cast(float, value))))
        return super().format_field(value, format_spec)


def _format_text(text: str, values: dict[str, float | str | None]) -> str:
    return _TextFormatter().vformat(text, (), values)


def _describe_felt(felt: float | None) -> str:
    """Returns the share of the clients' time in waits as the words of a figure."""
    if felt is None:
        return "how long clients wait for I/O is not known"
    return f"{format_percent(felt)} of the clients' time in I/O waits"


def describe_client_waits(felt: float | None) -> str:
    """Returns the share of the clients' time in waits for a volume as a sentence; "" for None."""
    return "" if felt is None else f"Clients spend {format_percent(felt)} of their time waiting for it."


@cache
def read_verdicts() -> dict[str, VerdictRow]:
    """Returns all verdicts by name, in the order of the file."""
    figures = [FigureRow(**row) for row in read_rows(PACKAGE, FIGURES)]
    conditions = [ConditionRow(**row) for row in read_rows(PACKAGE, CONDITIONS)]
    rows = (VerdictRow(**row) for row in read_rows(PACKAGE, TABLE))  # type: ignore[arg-type]
    return {
        row.name: replace(
            row,
            figures=tuple(each for each in figures if each.verdict == row.name),
            conditions=tuple(each for each in conditions if each.verdict == row.name),
        )
        for row in rows
    }
