"""Runs studies on the lab: real servers on the lab's volumes, compared with published figures and
with the model.

>>> from headrace import studies
>>> studies.run_on_lab("iops-900-vs-3000", quick=True).verdicts          # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module

from headrace.bench.drivers.benchmark import Say, stay_silent
from headrace.experiment.cell import Progress
from headrace.studies.base import StudyResult
from headrace.studies.measured.session import LabOptions, run

__all__ = ["LabOptions", "run_study"]


def run_study(
    module: str, options: LabOptions, progress: Progress = stay_silent, say: Say = stay_silent
) -> StudyResult:
    """Runs a study by the name of its module here. A study whose cells are not benchmarks of one
    server has a `run` of its own. Raises as `session.run`."""
    study_module = import_module(f"headrace.studies.measured.{module}")
    if hasattr(study_module, "run"):
        return study_module.run(options, progress, say)
    return run(study_module, options, progress, say)
