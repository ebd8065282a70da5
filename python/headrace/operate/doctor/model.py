"""Findings and diagnoses of the doctor, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headrace.base.encoding import Document

Verdict = Literal["binds", "touched", "degraded", "will bind", "misconfigured", "not storage", "fine", "cannot tell"]
VERDICTS: tuple[Verdict, ...] = (
    "binds", "touched", "degraded", "will bind", "misconfigured", "not storage", "fine", "cannot tell",
)  # fmt: skip
# Verdicts that say that storage is to blame, and those with which a command ends with 0.
OF_STORAGE = ("binds", "touched", "degraded", "will bind")
CALM = ("fine", "not storage", "touched")
# Evidence that a verdict rests on, best first.
Basis = Literal["felt", "seen", "inferred", "coming", "server", ""]


def exit_code_of(verdict: str) -> int:
    """Returns 0 where nothing needs doing, 1 with findings, 3 where nothing can be told."""
    if verdict == "cannot tell":
        return 3
    return 0 if verdict in CALM else 1


@dataclass(frozen=True)
class FindingFigure(Document):
    """A figure of the evidence: its name, value and unit, and all of it in words."""

    name: str
    value: float | None
    unit: str
    words: str


@dataclass(frozen=True)
class Gain(Document):
    """The effect of lifting the limit. `transactions`: relative change of transactions a second
    (0.4 is 40 % more), with its 80 % interval; None where no server was seen. `factor`: times
    today's I/O that the storage would carry then. `next_limit`: which binds next (names of
    base.caps), None where none is near, `at_factor` of today's load. `how`: what it rests on."""

    transactions: float | None
    low: float | None
    high: float | None
    factor: float | None
    next_limit: str | None
    at_factor: float | None
    how: str


@dataclass(frozen=True)
class Remedy(Document):
    """A way to correct a finding. `lines`: to paste. `usd_month`: more a month, None where it costs
    nothing or is not known (`cost` says which). `undo`: how to take it back. `rules`: how often it
    may be done and how long it takes. `source`: of the rules."""

    what: str
    lines: tuple[str, ...] = ()
    undo: str = ""
    cost: str = ""
    usd_month: float | None = None
    rules: str = ""
    source: str = ""
    storage: str | None = None


@dataclass(frozen=True)
class Finding(Document):
    """A verdict on one subject: a limit of base.caps, or another cause (`locks`,
    `processors`, `network`, `cold-cache`, `backup`, `redo`, `log-buffer`, `free-pages`, `applier`,
    `optimizing`, `first-touch`, `member`, `idle`, ...). `felt`: share of clients' time, None where
    no server was seen. `weight`: for the order within a verdict."""

    verdict: Verdict
    subject: str
    words: str
    volume: str | None = None
    basis: Basis = ""
    felt: float | None = None
    weight: float = 0.0
    figures: tuple[FindingFigure, ...] = ()
    grain: str = ""
    gain: Gain | None = None
    remedies: tuple[Remedy, ...] = ()
    from_unix: float | None = None
    to_unix: float | None = None


@dataclass(frozen=True)
class Window(Document):
    """A stretch of a recording at a limit. `recorded_ms`: mean latency then; `model_ms`: what the
    model gives for the same demand on the same storage, None where the storage is not known;
    `usual_ms`: the recording's own when nothing waits."""

    begins: str
    ends: str
    from_s: float
    to_s: float
    limit: str
    rate: float
    unit: str
    recorded_ms: float | None
    usual_ms: float | None
    model_ms: float | None
    model_p99_ms: float | None
    at_least_iops: float


@dataclass(frozen=True)
class Diagnosis(Document, schema="headrace-doctor/1"):
    """One headline and at most three findings; the headline is the first of `findings`. `others`:
    what else was found, shown with --all. `earlier`: what was found before the newest `judged_s`
    seconds, which the other findings are of (0: all that was seen). `missing`: what no source gave.
    """

    target: str
    verdict: Verdict
    headline: str
    findings: tuple[Finding, ...]
    others: tuple[Finding, ...] = ()
    windows: tuple[Window, ...] = ()
    earlier: tuple[Finding, ...] = ()
    grain: str = ""
    span_s: float = 0.0
    judged_s: float = 0.0
    clock: str = ""
    storage: tuple[str, ...] = ()
    instance: str | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The exit code of its verdict (`exit_code_of`)."""
        return exit_code_of(self.verdict)
