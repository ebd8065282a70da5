"""sysbench-tpcc over 5,000 warehouses on EBS in 2018: the runs whose figures are known, and the
databases calibrated on one of them for each engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import msgspec

from headrace.simulation.database import Prediction, predict
from headrace.studies.base import Source, read_published
from headrace.workload.files import load
from headrace.workload.transactions import TransactionWorkload

DAY = "2018-08-15"
INSTANCE = "c5.9xlarge"
SECONDS = 3_600  # of each published run
ENGINES = {"innodb": "InnoDB", "myrocks": "MyRocks"}
# The runs the databases in calibrated/ were made from (calibrated/*.run.toml): they test nothing.
CALIBRATED_ON = ("innodb_io1_20000iops_72thr", "myrocks_io1_20000iops_72thr")
GIB_PER_GB = 1e9 / 1024.0**3  # the runs state GB


@dataclass(frozen=True)
class TpccRun:
    """A published run: means and quantiles of its one-second tps. `cache_gb` is `cache_known`:
    published, assumed, or inferred from the run."""

    name: str
    engine: str
    storage: str
    cache_gb: float
    cache_known: str
    threads: int
    mean: float
    quarters: tuple[float, ...]
    p5: float
    p50: float
    p95: float
    source: Source

    @property
    def calibrates(self) -> bool:
        """Returns whether the stored database was calibrated on this run."""
        return self.name in CALIBRATED_ON

    @property
    def label(self) -> str:
        """Returns the description that distinguishes the run in tables."""
        return f"{ENGINES[self.engine]}, {self.storage}, {self.cache_gb:g} GB, {self.threads} threads"


def list_measured_runs() -> tuple[TpccRun, ...]:
    """Returns the runs on c5.9xlarge. Runs of other data sets and machines in that table are left
    out."""
    return tuple(
        msgspec.convert(
            row
            | {
                "name": row["run"],
                "mean": row["mean_second_half"],
                "quarters": [row[name] for name in ("q1", "q2", "q3", "q4")],
                "source": {"citation": row["source"], "date": row["date"]},
            },
            TpccRun,
            strict=False,
        )
        for row in read_published("tpcc_runs")
        if row["instance"] == INSTANCE
    )


@cache
def calibrate_engine(engine: str) -> TransactionWorkload:
    """Returns the database of `innodb` or `myrocks`, calibrated on its io1 run with 20,000 IOPS."""
    with as_file(files("headrace.studies").joinpath("calibrated", f"{engine}-tpcc-2018.toml")) as path:
        workload = load(path)
    assert isinstance(workload, TransactionWorkload), engine
    return workload


def run_again(run: TpccRun, draws: int = 0) -> Prediction:
    """Predicts a published run on its storage, cache and clients."""
    return predict_hour(run.engine, run.storage, cache_gib=run.cache_gb * GIB_PER_GB, threads=run.threads, draws=draws)


def predict_hour(
    engine: str,
    storage: str,
    *,
    start: str = "cold",
    seed: int | None = 1,
    draws: int = 0,
    cache_gib: float | None = None,
    threads: int | None = None,
) -> Prediction:
    """Predicts an hour of the calibrated database on another storage; cache and clients as
    calibrated unless given."""
    return predict(
        calibrate_engine(engine),
        storage,
        instance=INSTANCE,
        as_of=DAY,
        seconds=SECONDS,
        start=start,
        seed=seed,
        draws=draws,
        cache_gib=cache_gib,
        threads=threads,
    )


def aggregate_minutes(
    values: list[float], of: Callable[[list[float]], float] = lambda part: sum(part) / len(part)
) -> tuple[float, ...]:
    """Returns a figure for each minute of one-second values: the mean unless `of` is given."""
    return tuple(of(values[i : i + 60]) for i in range(0, len(values) - 59, 60))
