"""Recorded runs of a database: RUN.toml and the files it names, checked, on one time axis.

    load         load_run: the whole way from a path to a Run
    model        Run, BenchmarkLoad
    description  RUN.toml: keys and their rules
    replica      REPLICA.toml: a stretch in which a replica was behind
    server       the transactions a second where only the server counted them
    checks       contradictions between description and files
    series       stalls, outliers, whether the run warmed up; a run in sentences

The measured files are read in observe/run_files.
Nothing is modelled here; docs/reference/run-description.md has every key and rule.
"""

from headrace.calibration.runs.load import load_run
from headrace.calibration.runs.model import SERIES_COLUMNS, BenchmarkLoad, Run
from headrace.calibration.runs.series import describe

__all__ = ["SERIES_COLUMNS", "BenchmarkLoad", "Run", "describe", "load_run"]
