"""Studies on the lab: real servers on the lab's volumes beside what was published and what the model gives.

plan       options, data sets, cells
machine    what this machine lacks, and is
bed        a lab of the study's own; data loaded once, a copy for each cell
cells      running them, resuming, progress
simulated  the same cells on the model, beforehand
verdicts   directions, orders, ratios, and their tolerances
tables     what every page ends with
session    all of it in order
iops_threads, tuned_default, raid_arrays, burst_oltp, encryption, engines    the studies

>>> from headrace import studies
>>> studies.run_on_lab("iops-900-vs-3000", quick=True).verdicts          # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module

from headrace.studies.base import StudyResult
from headrace.studies.measured.plan import Options, Say, Tell, silent

__all__ = ["Options", "run_study", "silent"]


def run_study(module: str, options: Options, tell: Tell = silent, say: Say = silent) -> StudyResult:
    """A study by the name of its module here. Raises as `session.run`."""
    from headrace.studies.measured.session import run

    return run(import_module(f"headrace.studies.measured.{module}"), options, tell, say)
