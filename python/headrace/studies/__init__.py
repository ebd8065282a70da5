"""The published experiments: what they printed, what the model gives, and how far apart the two
are.

    >>> from headrace import studies
    >>> len(studies.list_studies()), studies.list_studies()[0].name
    (11, 'gp2-burst')
    >>> queue = studies.run_study("queue-rule").verdicts[0]
    >>> queue.what, queue.published, round(queue.ours)
    ('IOPS of a 2,000 IOPS volume at queue length 10', 2000.0, 2001)

`StudyResult` holds verdicts, tables and chart data; `headrace.report` draws them. To add a study: a
module with `STUDY` and `run`, its published figures in `published/NAME.csv` with source and date,
its notes in `texts/NAME.toml`, and a line in `_STUDIES`. Some also run for real: `run_on_lab`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.base.checks import check_choice
from headrace.base.lazy import defer_imports
from headrace.errors import InputError, Refusals
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
from headrace.studies.base import Progress, Study, StudyResult, Verdict, read_study
from headrace.studies.replication import replication_2016, services_2020

with defer_imports():
    from headrace.studies import measured

refuse = Refusals("headrace study")
__all__ = [
    "StudyResult",
    "Verdict",
    "list_all_studies",
    "get",
    "list_studies",
    "run_on_lab",
    "list_places",
]

_STUDIES = {
    module.STUDY.name: module
    for module in (
        gp2_burst,
        choices,
        raid_2009,
        queue_rule,
        published_latency,
        scaling_2018,
        iops_900_3000,
        whitepaper_2017,
        first_hour,
        replication_2016,
        services_2020,
    )
}
# Studies that run on the lab: their module of headrace.studies.measured.
_ON_LAB = {
    "iops-900-vs-3000": "iops_threads",
    "raid-2009": "raid_arrays",
    "gp2-burst": "burst_oltp",
    "scaling-2018": "engines",
    "whitepaper-2017": "tuned_default",
    "encrypted-vs-not": "encryption",
    "restored-volume": "restored_volume",
    "replication-2016": "replica_lag",
}
_LAB_ONLY = {lab_study.name: lab_study for lab_study in map(read_study, ("encryption", "restored_volume"))}


def list_studies() -> tuple[Study, ...]:
    """Returns all studies of the model in the order they are shown."""
    return tuple(module.STUDY for module in _STUDIES.values())


def list_all_studies() -> tuple[Study, ...]:
    """Returns the studies of `list_studies`, and those that run on the lab alone."""
    return (*list_studies(), *_LAB_ONLY.values())


def list_places(name: str) -> tuple[str, ...]:
    """Returns where a study runs: model, lab, or both. Raises InputError."""
    get(name)
    return (*(("model",) if name in _STUDIES else ()), *(("lab",) if name in _ON_LAB else ()))


def get(name: str) -> Study:
    """Returns the study of that name. Raises InputError naming the nearest when there is none."""
    studies = {study.name: study for study in list_all_studies()}
    return studies[check_choice("study", name, studies, refuse)]


def run_study(name: str, progress: Progress | None = None) -> StudyResult:
    """Runs a study on the model, which takes some seconds. The figures are the same every time.

    `progress` is called with the share done (0-1). Raises InputError.
    """
    get(name)
    if name in _LAB_ONLY:
        rule = "runs on the lab alone: the model has nothing to say about it"
        raise InputError(f"study {name}", rule, "headrace study", "Add --on lab.")
    began = time.monotonic()
    return replace(_STUDIES[name].run(progress), seconds=time.monotonic() - began)


def run_on_lab(
    name: str,
    progress: Callable[[float, str], None] | None = None,
    say: Callable[[str], None] | None = None,
    **options: Any,
) -> StudyResult:
    """Runs a study on the lab: a real server on volumes of this machine, for minutes.

    Needs Linux, root and what `headrace lab doctor` looks at. `progress` gets the share done and
    what is done; `say` a line for each cell. `options`: those of `studies.measured.LabOptions`
    (scale, minutes, quick, resume, store, work, seed). Raises InputError, and CouldNotRun that
    names everything this machine lacks; after Ctrl-C the finished cells are in the store, for
    `resume`.
    """
    get(name)
    if name not in _ON_LAB:
        rule = f"does not run on the lab; these do: {', '.join(_ON_LAB)}"
        raise refuse.input(f"study {name}", rule, "Leave --on lab out.")
    return measured.run_study(
        _ON_LAB[name], measured.LabOptions(**options), progress or measured.stay_silent, say or measured.stay_silent
    )


def refuse_lab_options(given: dict[str, object]) -> None:
    """Raises InputError: options of the lab mean nothing on the model."""
    if given:
        raise InputError(
            f"--{sorted(given)[0]}",
            "is an option of --on lab",
            "headrace study --help",
            "Add --on lab, or leave it out.",
        )
