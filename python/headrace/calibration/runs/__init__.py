"""Recorded runs of a database: RUN.toml and the files it names, checked, on one time axis.

The measured files are read in observe/run_files.
Nothing is modelled here; docs/reference/run-description.md has every key and rule.
"""

from headrace.calibration.runs.load import load_run
from headrace.calibration.runs.model import SERIES_COLUMNS, BenchmarkLoad, Run
from headrace.calibration.runs.series import describe

__all__ = ["SERIES_COLUMNS", "BenchmarkLoad", "Run", "describe", "load_run"]
