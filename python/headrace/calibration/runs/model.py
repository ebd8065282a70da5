"""A measured run of a database as a value: its description and its series."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.observe.run_storage import Caps
from headrace.observe.series import RunFinding

# Least seconds of a run, for its mean and its scatter; a guess.
LEAST_SECONDS = 120.0

# One row per report of the benchmark. Rates are means over the row; null where not measured.
SERIES_COLUMNS = {
    "t_s": pl.Float64,  # start of the row, seconds from the start of the run
    "duration_s": pl.Float64,
    "threads": pl.Int64,
    "tps": pl.Float64,
    "qps": pl.Float64,
    "p95_ms": pl.Float64,
    "read_iops": pl.Float64,
    "write_iops": pl.Float64,
    "read_mib_s": pl.Float64,
    "write_mib_s": pl.Float64,
    "busy_share": pl.Float64,  # of all virtual CPUs at work
    "pages_written_per_s": pl.Float64,  # by the server, as a CSV of the benchmark's rows has it
    "suspect": pl.Boolean,  # an outlier, or a row in which clients had already left
    "stall": pl.Boolean,
}


# Local disks without a figure in the catalog, and places of the clients, by the core's names.
LOCAL_DISKS = ("sata-ssd", "nvme-ssd")
CLIENT_HOSTS = ("same", "network", "region")


@dataclass(frozen=True)
class BenchmarkLoad:
    """Load of the benchmark's clients.

    `scale`: warehouses (hammerdb-tprocc; of each table set: sysbench-tpcc) or rows per table
    (sysbench-oltp).

    `data_gib`: data on disk before the run, GiB; None: not known. `script`, `distribution` and
    `parameters` (of the distribution, named as sysbench's options) are those of sysbench-oltp, else
    None and empty.
    """

    name: str
    tables: int | None = None
    scale: int | None = None
    data_gib: float | None = None
    script: str | None = None
    distribution: str | None = None
    parameters: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunMachine:
    """Machines of a run. `core_speed`: GHz x work per clock of a core (Skylake's is 1); None: not
    known. `alone_faster`: clock of a core that works alone over that of all cores at work; None if
    no processor is described. `busy_before`: share of the virtual CPUs that other programs used
    before the run. `local_disk`, `client_host`: one of LOCAL_DISKS and of CLIENT_HOSTS, None: not
    described."""

    core_speed: float | None = None
    alone_faster: float | None = None
    busy_before: float | None = None
    local_disk: str | None = None
    client_host: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class RunFacts:
    """Checked contents of RUN.toml: see `Run` for the units."""

    name: str
    engine: str
    engine_version: str | None
    flavor: str | None
    storage: str
    log_storage: str | None
    as_of: date
    instance: str | None
    cache_gib: float
    threads: int
    start: str
    seconds: float | None
    benchmark: BenchmarkLoad
    settings: dict[str, float | int | bool]
    caveats: tuple[str, ...]
    caps: Caps
    p95_ms: float | None = None
    start_balance_percent: float | None = None
    machine: RunMachine = RunMachine()


@dataclass(frozen=True)
class LogRates:
    """Writes and MiB a second of the volume of redo and binary log, means over the run."""

    write_iops: float
    write_mib_s: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(RunFacts):
    """One measured run: what was described, and what was measured.

    `storage`, `log_storage`: in the catalog's notation, checked. `cache_gib`: buffer pool or block
    cache, GiB. `seconds`: the length asked for, None when not said. `interval_s`: length of a row
    of `series`, whose columns are SERIES_COLUMNS. `status`: None, or one row per interval between
    samples: `t_s` (start), `duration_s`, and per counter `NAME_per_s` or, for levels, `NAME` at the
    end of the row. `files`: what was read, by key: name and sha256. `findings` in the order found.
    `p95_ms`: 95th percentile of response times over the whole run, where it was described or stands
    in sysbench's summary. `start_balance_percent`: burst credits of the volumes at the beginning,
    None: full, as AWS starts them. `log_rates`: of a log volume of its own, which `series` leaves
    out; None where there is none or it was not counted.
    """

    files: dict[str, tuple[str, str]]
    interval_s: float
    series: pl.DataFrame
    status: pl.DataFrame | None
    findings: tuple[RunFinding, ...]
    log_rates: LogRates | None = None

    @property
    def span_s(self) -> float:
        """Returns the seconds from the start of the first row to the end of the last."""
        return self.series["t_s"][-1] + self.series["duration_s"][-1] - self.series["t_s"][0]

    @property
    def vcpus(self) -> int | None:
        """Returns the virtual CPUs that the server may use: as described, else the instance's; None
        if neither is known."""
        if "vcpus" in self.settings:
            return int(self.settings["vcpus"])
        if self.instance is None:
            return None
        with translate_core_errors():
            return core.instance(self.instance, self.as_of.isoformat())["vcpus"] or None

    @property
    def threads_per_core(self) -> int:
        """Returns the virtual CPUs of a core: the instance's, else as described, else 2 as on most
        servers."""
        if self.instance is None:
            return int(self.settings.get("threads_per_core", 2))
        with translate_core_errors():
            return core.instance(self.instance, self.as_of.isoformat())["threads_per_core"] or 2

    @property
    def busy_share(self) -> float | None:
        """Returns the share of all virtual CPUs at work (0 to 1), the mean of the rows that have
        it; None if none has."""
        share = self.series["busy_share"].drop_nulls().mean()
        return None if share is None else float(share)  # pyright: ignore[reportArgumentType]

    @property
    def transactions(self) -> float:
        """Returns the number of transactions in all rows."""
        return float((self.series["tps"] * self.series["duration_s"]).sum())

    def select_findings(self, kind: str) -> tuple[RunFinding, ...]:
        """Returns the findings of a kind, such as "stall" or "start", in order."""
        return tuple(finding for finding in self.findings if finding.kind == kind)
