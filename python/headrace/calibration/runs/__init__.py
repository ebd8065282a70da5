"""Recorded runs of a database: RUN.toml and the files it names, checked, on one time axis.

    load         load_run: the whole way from a path to a Run
    model        Run, Benchmark, Finding
    description  RUN.toml: keys and their rules
    settings     server settings and engine versions known by name
    storage      what the storage could give on that day
    reading      a measured file as text
    sysbench     the transactions a second: raw output or CSV
    disk         iostat and vmstat, through the importers
    counters     Headrace's own samples of /proc/diskstats
    status       samples of SHOW GLOBAL STATUS
    server       the transactions a second where only the server counted them
    align        one time axis: clocks, else a common beginning and correlation
    checks       contradictions between description and files
    series       stalls, outliers, and whether the run warmed up
    words        a run in sentences

Nothing is modelled here; docs/reference/run-description.md has every key and rule.
"""

from headrace.calibration.runs.description import FORMAT, VERSION
from headrace.calibration.runs.load import load_run
from headrace.calibration.runs.model import SERIES_COLUMNS, Benchmark, Run
from headrace.calibration.runs.words import describe
from headrace.catalog.run_storage import Caps
from headrace.observe.run_files.reading import Finding

__all__ = ["FORMAT", "SERIES_COLUMNS", "VERSION", "Benchmark", "Caps", "Finding", "Run", "describe", "load_run"]
