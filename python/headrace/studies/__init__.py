"""The published experiments: what they printed, what the model gives, and how far apart the two are.

    >>> from headrace import studies
    >>> [study.name for study in studies.list_studies()]
    ['gp2-burst', 'choices', 'raid-2009', 'queue-rule', 'published-latency', 'scaling-2018', 'iops-900-vs-3000', 'whitepaper-2017', 'first-hour']
    >>> burst = next(v for v in studies.run("gp2-burst").verdicts if v.published == 3600.0)
    >>> burst.what, burst.published, round(burst.ours)
    ('burst of 500 GiB, per I/O', 3600.0, 3600)

`StudyResult` holds verdicts, tables and chart data; `headrace.report` draws them. To add a study: a module with `STUDY` and `run`, its
published figures in `published/NAME.csv` with source and date, and a line in `_STUDIES`.
"""

from __future__ import annotations

from headrace.errors import InputError
from headrace.studies import (
    choices,
    first_hour,
    gp2_burst,
    iops_900_3000,
    published_latency,
    queue_rule,
    raid_2009,
    scaling_2018,
    whitepaper_2017,
)
from headrace.studies.base import ChartData, Progress, Series, Source, Study, StudyResult, Table, Verdict, error_percent
from headrace.workload.model import did_you_mean

__all__ = [
    "ChartData",
    "Series",
    "Source",
    "Study",
    "StudyResult",
    "Table",
    "Verdict",
    "error_percent",
    "get",
    "list_studies",
    "run",
]

_STUDIES = {module.STUDY.name: module for module in (
    gp2_burst, choices, raid_2009, queue_rule, published_latency, scaling_2018, iops_900_3000, whitepaper_2017, first_hour,
)}  # fmt: skip


def list_studies() -> tuple[Study, ...]:
    """All studies in the order they are shown."""
    return tuple(module.STUDY for module in _STUDIES.values())


def get(name: str) -> Study:
    """The study of that name. Raises InputError naming the nearest when there is none."""
    return _module(name).STUDY


def run(name: str, progress: Progress | None = None) -> StudyResult:
    """Runs a study: some seconds. `progress` is called with the share done (0-1). Same figures every time. Raises InputError."""
    return _module(name).run(progress)


def _module(name: str):
    if name not in _STUDIES:
        raise InputError(f"study {name}", f"must be one of {', '.join(_STUDIES)}", "headrace study list", did_you_mean(name, _STUDIES))
    return _STUDIES[name]
