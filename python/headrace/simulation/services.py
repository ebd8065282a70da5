"""A database on EC2, RDS and Aurora: transactions a second, lag, failover, bill, side by side.

>>> import headrace
>>> shop = headrace.sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=24, threads=16)
>>> from headrace.simulation.services import compare
>>> comparison = compare(shop, "gp3:500", on=["ec2", "aurora"], instance="r6g.xlarge", seconds=60)
>>> [outcome.deployment for outcome in comparison.outcomes]
['ec2', 'aurora:standard', 'aurora:io-optimized']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from headrace.base import core
from headrace.base.checks import Shown, check_number, check_whole
from headrace.base.core import translate_core_errors
from headrace.base.encoding import Document
from headrace.base.instances import check_fits_memory
from headrace.base.units import GIB, Day, normalise_day
from headrace.errors import InputError, Refusals
from headrace.simulation.database import (
    DRAWS,
    check_run_settings,
    count_transactions,
    find_usual_cap,
    warn_of_bursts,
)
from headrace.simulation.replica import Replica, predict_replica
from headrace.simulation.settings import MOST_READERS
from headrace.workload.parameters import count_data_bytes
from headrace.workload.transactions import RESPONSES, TransactionWorkload
from headrace.workload.unexplained import compute_interval

refuse = Refusals("headrace predict --help")
SECONDS = 600  # of a comparison: a warm cache changes no more
SECONDS_A_MONTH = 730.0 * 3_600.0  # of the AWS pricing calculator's month
MILLION = 1e6
# Errors of tps that no calibration covers, relative standard deviations. RDS: its engine settings
# and hosts are not ours to see (guess). Aurora: the scatter of the published runs that were not
# fitted (12 to 22 %), and twice that where no published run is near (guess).
UNSEEN = {"rds:single-az": 0.10, "rds:multi-az": 0.15, "rds:multi-az-cluster": 0.15}
UNSEEN_AURORA, UNSEEN_AURORA_FAR = 0.20, 0.40
# A published run is near when processors, clients, and data over cache are within this factor.
NEAR_FACTOR = 2.0
# Deployments without MariaDB: Aurora, and Multi-AZ clusters of RDS.
MYSQL_ONLY = ("aurora", "rds:multi-az-cluster")
# A published figure that is a rate of work.
RATES = ("tps", "writes_s", "reads_s", "tpmC")


@dataclass(frozen=True)
class Fact:
    """A figure of a service with its source, the day of the source and a note; `confirmed` is False
    for a guess, and for one that was not read in a stored source."""

    value: float | None
    source: str
    as_of: str
    confirmed: bool
    note: str = ""


@dataclass(frozen=True)
class ReaderLag:
    """Lag of a reader. `ms`: mean and maximum in the second half of the run, None without a reader
    or a model of it; `words`: how it replicates. `keeps_up`: share of the drawn databases with
    which a replica by binary log keeps up. `cpu_share`: share of its processors that apply
    (Aurora)."""

    ms: tuple[float, float] | None
    words: str
    keeps_up: float | None = None
    cpu_share: float | None = None


@dataclass(frozen=True)
class ServiceBill:
    """Bill of a month in USD. `usd_month`: its total, None if a price is missing; `missing`: items
    without a price. `million_ios`: millions of I/Os in the month, which Aurora Standard bills."""

    items: tuple[core.CostItem, ...] = ()
    missing: tuple[str, ...] = ()
    usd_month: float | None = None
    million_ios: float = 0.0


@dataclass(frozen=True)
class ServiceOutcome:
    """Result for one deployment of a service.

    `refusal`: why it is not possible, or None; then the other fields have values. `volumes`: the
    EBS volumes behind it in storage notation, None for Aurora. `tps` with its 80 % interval,
    `p50_ms`, `p95_ms` and `p99_ms` of response times, `cap` (what binds). `rto_s`: low and high end
    of a failover; `rpo_s`: lost when the instance is lost, and when its zone is. `ios_per_tx`:
    billed reads and writes of a transaction (Aurora). `cannot`: its limitations. `confidence`: the
    evidence behind the answer.
    """

    deployment: str
    class_name: str
    refusal: str | None = None
    volumes: str | None = None
    tps: float | None = None
    tps_low: float | None = None
    tps_high: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    cap: str | None = None
    reads_per_tx: float | None = None
    lag: ReaderLag | None = None
    rto_s: tuple[Fact, Fact] | None = None
    rpo_s: tuple[Fact, Fact] | None = None
    ios_per_tx: tuple[float, float] | None = None
    bill: ServiceBill = ServiceBill()
    cannot: tuple[core.ServiceLimit, ...] = ()
    confidence: str = ""


@dataclass(frozen=True)
class BreakEven:
    """Point from which Aurora I/O-Optimized costs no more than Standard: I/O of `usd` or
    `million_ios` a month, `share_percent` of the Standard bill; `ios_per_s` the same as a rate."""

    usd: float
    million_ios: float
    ios_per_s: float
    share_percent: float


@dataclass(frozen=True, eq=False, repr=False)
class ServiceComparison(Shown, Document, schema="headrace-services/1"):
    """The answer of `compare`: `outcomes` in the order of the services, and what was asked."""

    workload: str
    outcomes: tuple[ServiceOutcome, ...]
    storage: str
    instance: str
    region: str
    as_of: str
    cache_gib: float
    threads: int | None
    readers: int
    busy_percent: float
    data_gib: float
    break_even: BreakEven | None = None
    notes: tuple[str, ...] = field(default=())

    def describe_briefly(self) -> str:
        """Returns tps and bill of each; see `Shown`."""
        rates = [
            f"{outcome.deployment} {outcome.tps:,.4g} tps"
            if outcome.tps is not None
            else f"{outcome.deployment} not possible"
            for outcome in self.outcomes
        ]
        return f"{self.workload} on {self.instance}: {', '.join(rates)}"


def compare(
    workload: TransactionWorkload,
    storage: str,
    *,
    instance: str,
    on: Sequence[str] = ("ec2", "rds", "aurora"),
    region: str = "us-east-1",
    cache_gib: float | None = None,
    threads: int | None = None,
    arrivals_tps: float | None = None,
    as_of: Day = None,
    seconds: int = SECONDS,
    start: Literal["cold", "warm"] = "warm",
    growth: float = 1.0,
    readers: int = 1,
    busy_percent: float = 100.0,
    seed: int | None = 1,
    draws: int = DRAWS,
) -> ServiceComparison:
    """Predicts the database on each service: `on` names services (`rds`) or deployments
    (`rds:multi-az`).

    `storage`: that of EC2; RDS gets one volume of the same type, size and rates by its own rules,
    Aurora has none to choose. `instance`: an EC2 type; the services' class is `db.` and its name.
    `readers` of an Aurora cluster. `busy_percent`: how much of the month the load runs, for what is
    billed by use. Raises InputError where nothing can be said; what one service cannot is its
    outcome's `refusal`.
    """
    if not isinstance(workload, TransactionWorkload):
        raise refuse.input(f"{workload!r}", "is not a database in transactions", "Give what headrace calibrates.")
    day = normalise_day(as_of)
    cache = workload.cache_gib if cache_gib is None else cache_gib
    clients = None if arrivals_tps is not None else (workload.threads if threads is None else threads)
    check_run_settings(seconds, cache, clients, growth, draws)
    check_whole("readers", readers, 0, MOST_READERS)
    check_number("busy-percent", busy_percent, 0.0, 100.0, "%")
    database = workload.scale_data(growth) if growth != 1.0 else workload
    with translate_core_errors():
        deployments = core.deployments(list(on))
        region = core.region_code(region)
        core.instance(instance.removeprefix("db."), day)
        core.parse_storage(storage)
    if not deployments:
        raise refuse.input("on", "names no service", "For example --on ec2,rds,aurora.")
    comparison = _Comparison(
        database,
        storage,
        instance,
        region,
        day,
        cache,
        clients,
        arrivals_tps,
        seconds,
        start,
        readers,
        busy_percent,
        seed,
        draws,
    )
    answers = [comparison.predict_outcome(deployment) for deployment in deployments]
    outcomes = tuple(outcome for outcome, _ in answers)
    warnings = [warning for _, warnings in answers for warning in warnings]
    return ServiceComparison(
        database.name,
        outcomes,
        storage,
        instance,
        region,
        day or core.newest_date(),
        cache,
        clients,
        readers,
        busy_percent,
        comparison.compute_data_gib(),
        comparison.find_break_even(outcomes),
        (*comparison.list_notes(), *warnings),
    )


@dataclass(frozen=True)
class _Comparison:
    """One question, and its answer for a deployment."""

    workload: TransactionWorkload
    storage: str
    instance: str
    region: str
    day: str | None
    cache_gib: float
    clients: int | None
    arrivals_tps: float | None
    seconds: int
    start: str
    readers: int
    busy_percent: float
    seed: int | None
    draws: int

    def predict_outcome(self, deployment: str) -> tuple[ServiceOutcome, list[str]]:
        """Returns the outcome of a deployment, with a refusal if it is not possible, and warnings
        of burst credits that run out."""
        aurora = deployment.startswith("aurora")
        name = self.instance if deployment == "ec2" else f"db.{self.instance.removeprefix('db.')}"
        try:
            if self.workload.server.is_mariadb and not runs_mariadb(deployment):
                raise refuse.input("MariaDB", "is a server that this service does not run", "Leave the service out.")
            with translate_core_errors():
                service_class = core.service_class(deployment, self.instance, self.day)
                volumes = self._find_volumes(deployment)
                rows = self._run(self.workload.database, deployment, volumes, self.seed)
                value, memory_mib = f"cache of {self.cache_gib:,.4g} GiB", service_class["limits"]["memory_mib"]
                check_fits_memory(value, self.cache_gib, service_class["class"], memory_mib, "Take a larger class.")
        except InputError as error:
            return ServiceOutcome(deployment, name, refusal=f"{error.value}: {error.rule}"), []
        half = rows[rows.height // 2 :]
        tps = float(half["tps"].mean() or 0.0)  # pyright: ignore[reportArgumentType]
        reads = float(half["reads_per_tx"].mean() or 0.0)  # pyright: ignore[reportArgumentType]
        question = (service_class["limits"]["vcpus"], self.clients, self.compute_data_gib(), self.cache_gib)
        near = count_near_published(*question) if aurora else 0
        low, high = self._estimate_interval(deployment, volumes, rows, tps, near)
        million, per_tx = self._count_ios(deployment, half, reads, tps)
        lag = self._estimate_lag(deployment, volumes, rows, tps, service_class["limits"]["vcpus"])
        with translate_core_errors():
            bill = core.service_bill(
                deployment,
                self.instance,
                self.storage,
                self.region,
                self.day,
                self.readers,
                self.compute_data_gib(),
                million,
            )
        caps = half["cap"].value_counts().sort("count", descending=True)
        outcome = ServiceOutcome(
            deployment,
            service_class["class"],
            volumes=volumes,
            tps=tps,
            tps_low=low,
            tps_high=high,
            **{name: float(half[name].median() or 0.0) for name in RESPONSES},  # pyright: ignore[reportArgumentType]
            cap=str(caps["cap"][0]),
            reads_per_tx=reads,
            lag=lag,
            rto_s=get_failover_facts(deployment, self.day, self.readers),
            rpo_s=get_loss_facts(deployment, self.day),
            ios_per_tx=per_tx,
            bill=ServiceBill(tuple(bill["items"]), tuple(bill["missing"]), bill["total_usd"], million),
            cannot=tuple(core.service_limits(deployment)),
            confidence=describe_confidence(deployment, near),
        )
        warnings = warn_of_bursts(rows, "A longer run (--seconds) shows it.")
        return outcome, [f"{deployment}: {warning}" for warning in warnings]

    def compute_data_gib(self) -> float:
        """Returns the size of the data in GiB, which Aurora bills: the workload's, else that of its
        pages."""
        if self.workload.size_gib is not None:
            return self.workload.size_gib
        return count_data_bytes(self.workload.database) / GIB

    def find_break_even(self, outcomes: Sequence[ServiceOutcome]) -> BreakEven | None:
        """Returns the break-even of both configurations of Aurora; None if one has no price or is
        not among the outcomes."""
        by_deployment = {outcome.deployment: outcome for outcome in outcomes}
        pair = [by_deployment.get(name) for name in ("aurora:standard", "aurora:io-optimized")]
        items = [outcome.bill.items for outcome in pair if outcome is not None and outcome.bill.usd_month is not None]
        return compute_break_even(*items) if len(items) == 2 else None

    def list_notes(self) -> list[str]:
        """Returns notes on all outcomes, in sentences."""
        lines = [
            "A bill counts the server, its storage and its I/O; backups, snapshots, traffic and support are left out.",
            "ec2 and rds:single-az are one server without a replica; Aurora has the readers of --readers. The lag that "
            "stands with them is that of a replica of the same class and volumes, which the bill has not.",
        ]
        if self.clients is not None and self.busy_percent == 100.0:
            lines.append("Charges by use are those of a load that runs all month; --busy-percent says otherwise.")
        return lines

    def _find_volumes(self, deployment: str) -> str | None:
        """Returns the volumes behind a deployment, in storage notation; None for Aurora."""
        if deployment == "ec2":
            return self.storage
        return core.rds_storage(self.storage, self.day)["array"] if deployment.startswith("rds") else None

    def _run(self, database: dict, deployment: str, volumes: str | None, seed: int | None) -> pl.DataFrame:
        """Runs a database on a deployment and returns a row a second; with a `seed` of None means
        without scatter, in at most 60 rows."""
        run = {
            "deployment": deployment,
            "storage": volumes,
            "instance": self.instance,
            "as_of": self.day,
            "cache_bytes": self.cache_gib * GIB,
            "clients": self.clients,
            "arrivals": None if self.arrivals_tps is None else [self.arrivals_tps],
            "start": self.start,
            "seconds": self.seconds,
            # Means of a sixtieth of the run, or of a second if that is longer, are enough where
            # nothing is drawn.
            "step_s": 1.0 if seed is not None else max(1.0, self.seconds / 60.0),
            "seed": seed,
            "aurora": None,
        }
        return pl.DataFrame(core.service_runs(database, [run])[0])

    def _estimate_interval(
        self, deployment: str, volumes: str | None, rows: pl.DataFrame, tps: float, near: int
    ) -> tuple[float, float]:
        """Returns the ends of the 80 % interval of tps: from databases drawn from the calibration,
        the error that no parameter covers, and that of the service (`get_unseen`)."""
        logs = []
        with translate_core_errors():
            for database in self.workload.draw_databases(self.draws, 1):
                drawn = self._run(database, deployment, volumes, None)
                mean = drawn[drawn.height // 2 :]["tps"].mean()
                logs.append(math.log(max(float(mean or 0.0), 1e-9)))  # pyright: ignore[reportArgumentType]
            host = core.instance(self.instance.removeprefix("db."), self.day)
        centre = sum(logs) / len(logs) if logs else 0.0
        variance = sum((value - centre) ** 2 for value in logs) / max(1, len(logs) - 1)
        distances = self.workload.compute_distances(
            cache_gib=self.cache_gib,
            transactions=count_transactions(self.start, rows),
            threads=self.clients,
            # None for Aurora, whose storage is not in the catalog: `get_unseen` covers it.
            storage=volumes,
            limit=find_usual_cap(rows),
            release=None,  # the service's own, which `get_unseen` covers
            tps=tps,
            core_speed=host["core_speed"],
            vcpus=host["vcpus"],
        )
        spread = math.sqrt(
            variance + self.workload.compute_unexplained(distances) ** 2 + get_unseen(deployment, near) ** 2
        )
        low, high = compute_interval(tps, spread)
        # An open load never does more than arrives.
        return low, high if self.arrivals_tps is None else min(high, max(tps, self.arrivals_tps))

    def _count_ios(
        self, deployment: str, half: pl.DataFrame, reads: float, tps: float
    ) -> tuple[float, tuple[float, float] | None]:
        """Returns the millions of I/Os of a month, and for Aurora the billed reads and writes of a
        transaction (else None)."""
        used = self.busy_percent / 100.0 * SECONDS_A_MONTH / MILLION
        if not deployment.startswith("aurora"):
            return float(half["iops"].mean() or 0.0) * used, None  # pyright: ignore[reportArgumentType]
        billed = core.aurora_billed(self.workload.database, reads, tps)
        per_tx = (billed["reads"], billed["writes"])
        return sum(per_tx) * tps * used, per_tx

    def _estimate_lag(
        self, deployment: str, volumes: str | None, rows: pl.DataFrame, tps: float, vcpus: int
    ) -> ReaderLag:
        """Returns the lag of a reader: for Aurora from the redo log that it applies at `tps`, else
        that of a replica by binary log; without figures if a deployment has no reader."""
        if deployment.startswith("aurora"):
            if self.readers == 0:
                return ReaderLag(None, "no reader")
            # A reader of the same class has the same pages cached, as far as the load is the same.
            redo = self.workload.database["log"]["redo_bytes_per_tx"] * tps
            reader = core.aurora_reader(redo, 1.0, vcpus)
            mean, highest = reader["mean_ms"], reader["highest_ms"]
            if mean is None or highest is None:
                return ReaderLag(None, "does not keep up: it restarts", cpu_share=reader["cpu_share"])
            return ReaderLag((mean, highest), "applies redo to cached pages", cpu_share=reader["cpu_share"])
        if deployment == "rds:multi-az":
            return ReaderLag(None, "none: the standby serves no reads")
        words = "replicas apply the binary log"
        if deployment == "rds:multi-az-cluster":
            words = "readers apply the binary log; commits are held back beyond 120 s"
        return self._predict_applier_lag(volumes or self.storage, rows, words)

    def _predict_applier_lag(self, volumes: str, rows: pl.DataFrame, words: str) -> ReaderLag:
        """Predicts the lag of a replica of the same class and volumes, with the defaults of its
        version."""
        # A row may stand for several seconds; a replica follows them one by one.
        tps = [float(rows["tps"][second * rows.height // self.seconds]) for second in range(self.seconds)]
        host = self.instance.removeprefix("db.")
        try:
            prediction = predict_replica(
                self.workload,
                volumes,
                Replica(volumes),
                instance=host,
                cache_gib=self.cache_gib,
                as_of=self.day,
                seconds=self.seconds,
                source_tps=tps,
                seed=self.seed,
                draws=self.draws,
            )
        except InputError as error:
            return ReaderLag(None, f"{words}: not predicted, {error.rule}")
        half = prediction.rows.filter(pl.col("t_s").is_between(self.seconds // 2, self.seconds - 1))["lag_s"] * 1e3
        ms = (float(half.mean() or 0.0), float(half.max() or 0.0))  # pyright: ignore[reportArgumentType]
        summary = prediction.summary
        rate = f"up to {summary['applier_tps']:,.3g} tps with {prediction.settings['workers']} workers ({prediction.replica.release})"
        return ReaderLag(ms, f"{words}, {rate}", summary["keeps_up"])


def runs_mariadb(deployment: str) -> bool:
    """Returns whether a deployment offers MariaDB."""
    return not deployment.startswith(MYSQL_ONLY)


def find_option(deployment: str, readers: int) -> str | None:
    """Returns the option by which rules of a service differ: "reader" or "no-reader" for Aurora,
    None for others."""
    if not deployment.startswith("aurora"):
        return None
    return "reader" if readers else "no-reader"


def get_failover_facts(deployment: str, day: str | None, readers: int) -> tuple[Fact, Fact]:
    """Returns the least and the most time, in s, until the database is back after its server is
    lost (RTO)."""
    option = find_option(deployment, readers)
    return get_fact(deployment, "rto_low", day, option), get_fact(deployment, "rto_high", day, option)


def get_loss_facts(deployment: str, day: str | None) -> tuple[Fact, Fact]:
    """Returns the time, in s, of commits that are lost with the instance, and with its zone
    (RPO)."""
    return get_fact(deployment, "rpo_instance", day), get_fact(deployment, "rpo_zone", day)


def get_fact(deployment: str, key: str, day: str | None, option: str | None = None) -> Fact:
    """Returns a rule of a service on a day as a fact, without a value if none is known."""
    rule = core.managed_rule(deployment, key, day, option)
    if rule is None:
        return Fact(None, "unsourced", "", False, "not known")
    value = float(rule["value"]) if rule["value"] else None
    return Fact(value, rule["source"], rule["first_seen"], rule["confirmed"], rule["note"])


def get_unseen(deployment: str, near: int) -> float:
    """Returns the relative standard deviation of a deployment's tps that no calibration covers;
    `near` is the number of published runs near the question (`count_near_published`)."""
    if deployment.startswith("aurora"):
        return UNSEEN_AURORA if near else UNSEEN_AURORA_FAR
    return UNSEEN.get(deployment, 0.0)


def count_near_published(vcpus: int, clients: int | None, data_gib: float, cache_gib: float) -> int:
    """Returns the number of published runs of Aurora whose processors, clients, and data over cache
    are within NEAR_FACTOR of these."""

    def is_close(figure: float, other: float) -> bool:
        return 1 / NEAR_FACTOR <= figure / other <= NEAR_FACTOR

    count = 0
    for row in core.published_services():
        if row["service"] != "aurora" or row["metric"] not in RATES or row["clients"] is None:
            continue
        host = core.instance(row["class"].removeprefix("db."), None)
        cache_of_class = core.cache_gib_for(host["memory_mib"] / 1024)
        # Data that fit the cache are alike, however small they are.
        data_over_cache = [
            max(1.0, data / cache) for data, cache in ((row["data_gb"] or 0.0, cache_of_class), (data_gib, cache_gib))
        ]
        same_load = clients is None or is_close(row["clients"], clients)
        count += same_load and is_close(host["vcpus"], vcpus) and is_close(*data_over_cache)
    return count


def describe_confidence(deployment: str, near: int) -> str:
    """Returns a sentence on the evidence behind a deployment's figures."""
    if deployment.startswith("aurora"):
        rows = [row for row in core.published_services() if row["service"] == "aurora" and row["metric"] in RATES]
        within = f"{near} of {len(rows)} published Aurora figures lie near this question"
        return f"{within} (processors, clients, data over cache within a factor of 2); this project has run no Aurora."
    if deployment.startswith("rds"):
        return "EBS volumes as RDS lays them out, by its published limits; what RDS's own hosts add is guessed."
    return "The model of EBS volumes, as in `headrace predict`."


def compute_break_even(standard: Sequence[core.CostItem], optimized: Sequence[core.CostItem]) -> BreakEven | None:
    """Returns the I/O at which the bills of Aurora Standard and I/O-Optimized are equal; None if
    `standard` has no price of I/O."""
    price = next((item["unit_price_usd"] for item in standard if "I/O" in item["item"]), None)
    if not price:
        return None
    fixed = [sum(item["usd"] for item in bill if "I/O" not in item["item"]) for bill in (standard, optimized)]
    usd = fixed[1] - fixed[0]
    return BreakEven(usd, usd / price, usd / price * MILLION / SECONDS_A_MONTH, 100.0 * usd / (fixed[0] + usd))
