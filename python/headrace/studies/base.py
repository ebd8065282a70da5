"""Defines what a study consists of: published figures, ours, the error, and what to draw.

A study never decides how it looks. It hands over tables and chart data; `headrace.report` draws
them, `headrace.cli` prints them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from headrace.base import core
from headrace.base.checks import Shown
from headrace.base.core import translate_core_errors
from headrace.base.packaged import read_rows, read_text
from headrace.simulation.demand import Simulation
from headrace.workload import OpenWorkload
from headrace.workload.points import make_points

Role = Literal["published", "simulated", "measured"]
ChartKind = Literal["line", "bar", "quantiles", "scatter", "ridge", "curves", "panels"]
Progress = Callable[[float], None]

REGION = "us-east-1"  # of all prices
ROLES: tuple[Role, ...] = ("published", "simulated", "measured")
# Errors are computed in floating point: an error of exactly the tolerance is within it.
ROUNDING = 1e-9
CHART_KINDS: tuple[ChartKind, ...] = ("line", "bar", "quantiles", "scatter", "ridge", "curves", "panels")


@dataclass(frozen=True)
class Source:
    """The source of a published figure, and its day (ISO; a month or year if no day is known)."""

    citation: str
    date: str

    def __str__(self) -> str:
        return f"{self.citation}, {self.date}"


@dataclass(frozen=True)
class Figure:
    """A published number with its unit and source."""

    value: float
    unit: str
    source: Source


@dataclass(frozen=True)
class Study:
    """A published experiment: `name` as users type it, its `title` and `question`, and the
    `sources` of its published figures."""

    name: str
    title: str
    question: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Verdict:
    """A published figure and ours.

    `published` and `ours` are numbers in `unit`, or words where only words or a direction were
    published. `error_percent` is 100 x (ours / published - 1), None for words. `within`: inside
    `tolerance_percent` (for words: the same answer); None if nothing was promised. `note` says why
    they differ and which parts are guesses. On the lab `ours` is measured and `simulated` what the
    model gives for the same; None elsewhere.
    """

    what: str
    published: float | str
    ours: float | str
    unit: str
    error_percent: float | None
    within: bool | None
    tolerance_percent: float | None
    source: Source
    note: str = ""
    simulated: float | str | None = None


@dataclass(frozen=True)
class StudyTable:
    """Rows to print; cells are text, numbers, or None where there is nothing to say."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple, ...]


@dataclass(frozen=True)
class ChartSeries:
    """One line or group of bars. `role` decides its colour: published, simulated or measured."""

    label: str
    role: Role
    x: tuple
    y: tuple

    def __post_init__(self) -> None:
        assert self.role in ROLES and len(self.x) == len(self.y), self.label


@dataclass(frozen=True)
class ChartData:
    """The data of a chart. Axis titles carry the unit.

    `kind` "quantiles": x is the quantile (0-1), y the latency. "ridge": a row for each label, from
    the first one at the bottom up; x the value, y how often it is seen (height 1 at its most
    frequent), or 0 for single marks on the row. "curves": lines named at their ends, published ones
    as points. "panels": no series of its own, but `panels` above each other on one x axis.
    """

    title: str
    kind: ChartKind
    x_title: str
    y_title: str
    series: tuple[ChartSeries, ...]
    panels: tuple[ChartData, ...] = ()

    def __post_init__(self) -> None:
        assert self.kind in CHART_KINDS and (self.kind == "panels") == bool(self.panels), self.kind


@dataclass(frozen=True, repr=False)
class StudyResult(Shown):
    """The result of a study. `seconds` is its duration on the wall clock; on the `model` all else
    is the same every time. `on`: model or lab."""

    study: Study
    verdicts: tuple[Verdict, ...]
    tables: tuple[StudyTable, ...]
    charts: tuple[ChartData, ...]
    notes: tuple[str, ...]
    seconds: float = 0.0
    on: str = "model"

    def describe_briefly(self) -> str:
        """Returns the name, and how many figures are within their bounds; see `Shown`."""
        judged = [verdict.within for verdict in self.verdicts if verdict.within is not None]
        return f"{self.study.name} on the {self.on}: {sum(judged)} of {len(judged)} figures within bounds"


def tabulate(title: str, columns: str, rows: Iterable[tuple]) -> StudyTable:
    """Returns a table whose column names are given as `a | b | c`."""
    return StudyTable(title, tuple(columns.split(" | ")), tuple(rows))


def make_role_series(x: tuple, label: str = "{role}", **y: Iterable[float]) -> tuple[ChartSeries, ...]:
    """Returns a series for each role (published, simulated, measured) on the same x; `label` names
    them."""
    return tuple(ChartSeries(label.format(role=role), cast(Role, role), x, tuple(values)) for role, values in y.items())


def get_limits(storage: str, day: str, instance: str | None = None) -> core.VolumeLimits:
    """Returns the catalog's limits of a single volume on a day. Raises InputError if the day has no
    such volume."""
    with translate_core_errors():
        return core.storage_limits(storage, day, instance)[0]


def compute_monthly_usd(storage: str, day: str) -> float:
    """Returns the cost of the storage alone in `REGION`, USD a month, at prices of a day."""
    with translate_core_errors():
        return sum(item["usd"] for item in core.monthly_cost(storage, REGION, day))


def make_constant_load(
    seconds: float, reads: float = 0.0, writes: float = 0.0, read_kib: float = 0.0, write_kib: float = 0.0
) -> OpenWorkload:
    """Returns an open load of that many requests a second of these sizes, KiB."""
    points = make_points([0.0], [seconds], [reads], [writes], [read_kib], [write_kib])
    return OpenWorkload(name="constant load", kind="constant", points=points)


def compute_iops(run: Simulation) -> float:
    """Returns the requests a second that a simulated storage delivered."""
    return run.summary["delivered_ios"] / run.summary["seconds"]


def require_figure(value: float | None) -> float:
    """Returns a figure of a simulation, which must not be None."""
    assert value is not None, "the simulation has no such figure"
    return value


def compute_error_percent(result: float, published: float) -> float:
    """Returns 100 x (result / published - 1)."""
    return 100.0 * (result / published - 1.0)


def compare(
    what: str, figure: Figure, result: float, tolerance_percent: float | None = None, note: str = ""
) -> Verdict:
    """Returns the verdict on a published figure and ours in its unit; without a tolerance `within`
    is None."""
    error = compute_error_percent(result, figure.value)
    within = None if tolerance_percent is None else abs(error) <= tolerance_percent + ROUNDING
    return Verdict(what, figure.value, result, figure.unit, error, within, tolerance_percent, figure.source, note)


def compare_figures(
    name: str, results: Mapping[str, float], derived: Mapping[str, Figure] | None = None, **values: object
) -> list[Verdict]:
    """Returns a verdict on each result, in their order. `[verdicts]` of `texts/NAME.toml` has for
    each the published figure, the description, the tolerance in percent ("": none) and the note.
    `derived` has figures that follow from published ones, `values` those that fill descriptions and
    notes."""
    by_name, verdicts = read_figures(name) | dict(derived or {}), []
    for key, result in results.items():
        figure, what, tolerance, note = _read_texts(name)["verdicts"][key]
        promised = None if tolerance == "" else tolerance
        verdicts.append(compare(what.format(**values), by_name[figure], result, promised, note.format(**values)))
    return verdicts


def judge_answers(what: str, published: str, result: str, source: Source, same: bool | None, note: str = "") -> Verdict:
    """Returns the verdict on two answers in words, which must be the same."""
    return Verdict(what, published, result, "", None, same, None, source, note)


def judge(
    what: str,
    published: float | str,
    result: float,
    unit: str,
    within: bool | None,
    source: Source,
    note: str = "",
    *,
    simulated: float | str | None = None,
) -> Verdict:
    """Returns the verdict on a figure whose bounds are not a percentage, and are explained in
    `note`."""
    error = None if isinstance(published, str) else compute_error_percent(result, published)
    return Verdict(what, published, result, unit, error, within, None, source, note, simulated)


def read_published(name: str) -> list[dict[str, str]]:
    """Returns the rows of `published/NAME.csv`: figures as printed by their source, each with
    `source` and `date`; empty cells are ""."""
    return read_rows("headrace.studies", "published", f"{name}.csv")


def read_figures(name: str) -> dict[str, Figure]:
    """Returns the numbers of `published/NAME.csv` (columns figure, value, unit, source, date, note)
    by their name."""
    return {
        row["figure"]: Figure(float(row["value"]), row["unit"], Source(row["source"], row["date"]))
        for row in read_published(name)
    }


def read_study(name: str) -> Study:
    """Returns the study whose words stand in `texts/NAME.toml`."""
    document = _read_texts(name)
    sources = tuple(Source(citation, date) for citation, date in document["sources"])
    return Study(document["name"], document["title"], document["question"], sources)


def read_notes(name: str, **values: object) -> tuple[str, ...]:
    """Returns the notes of `texts/NAME.toml`, with the values in their places."""
    return tuple(note.format(**values) for note in _read_texts(name)["notes"])


def find_reason(name: str, of: str) -> str:
    """Returns the reason why a figure of a study is off, from `texts/NAME.toml`; "" without one."""
    return _read_texts(name).get("reasons", {}).get(of, "")


def read_scale_rows(name: str, **values: object) -> tuple[tuple[str, ...], ...]:
    """Returns the rows on what a study on the lab scales, from `texts/NAME.toml`: what, published,
    here, why."""
    return tuple(tuple(cell.format(**values) for cell in row) for row in _read_texts(name)["scale"])


@cache
def _read_texts(name: str) -> dict:
    return tomllib.loads(read_text("headrace.studies", "texts", f"{name}.toml"))


class StepProgress:
    """Reports progress in equal steps to a function that takes the share done (0-1), if one is
    given."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total = max(total, 1)
        self.done = 0
        self.progress = progress

    def step(self) -> None:
        """Reports that another step is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done / self.total, 1.0))
