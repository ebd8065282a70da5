"""A database in transactions: what a calibration writes and a prediction reads.

Beside the database of the core stand the cache, clients and instance it was measured with, what
each parameter was identified from and how far it may lie, and the range the runs cover: a
prediction outside it must say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from headrace.base import core
from headrace.base.checks import Shown, check_choice, check_number, check_whole
from headrace.base.encoding import pick_fields
from headrace.errors import InputError, Refusals
from headrace.workload.life import measure_life, measure_size
from headrace.workload.misfit import find_misfit
from headrace.workload.parameters import scale_parameters
from headrace.workload.replica import ReplicaParameters
from headrace.workload.server import UNEXPLAINED_WHERE_FULL, SourceServer
from headrace.workload.unexplained import (
    Distances,
    classify_limit,
    classify_storage,
    compute_distance_from,
    compute_log_distance,
    compute_log_excess,
    find_core_speed,
    get_release_series,
    is_of_server,
    is_volume,
)

refuse = Refusals("docs/reference/workload-file.md")
ENGINES = ("innodb", "myrocks")
# Percentiles of the response times of transactions, ms.
RESPONSES = ("p50_ms", "p95_ms", "p99_ms")
# The core's limit of `p95_over_mean`: no response times are spread further.
MOST_P95_OVER_MEAN = 100.0
# Locks and sockets are not simulated: beyond this many times the virtual CPUs of the runs, or as
# small a part of them, a prediction says so.
FAR_VCPUS = 2.0
# Bounds of GiB of cache, of clients and of virtual CPUs: ours, beyond any server of today.
LEAST_CACHE_GIB, MOST_CACHE_GIB, MOST_COUNT = 1e-3, 65_536.0, 65_536


@dataclass(frozen=True)
class Covered:
    """Ranges that the runs cover: GiB of cache, clients, I/Os a second at the cap, transactions at
    their end, virtual CPUs (None too where they are not known). None: no run."""

    cache_gib: tuple[float, float] | None = None
    threads: tuple[int, int] | None = None
    iops: tuple[float, float] | None = None
    transactions: float = 0.0
    vcpus: tuple[int, int] | None = None
    grown: float = 1.0  # how many times the data of the runs this stands for; the rest grew with it


@dataclass(frozen=True, eq=False, repr=False)
class TransactionWorkload(Shown):
    """A MySQL database and its clients.

    `engine`: innodb or myrocks. `database`: the core's parameters, see
    docs/reference/workload-file.md, [database]. `cache_gib`: buffer pool or block cache. `threads`:
    clients of the closed load. `instance`, `storage`, `log_storage`, `start` ("cold" or "warm"),
    `as_of`: where and how it was measured, None where it was not; of several runs the one with most
    transactions, whose cache and clients these are. `parameters`: per identified parameter `name`,
    `words`, `value`, `spread` (relative standard deviation), `before` (the same without runs),
    `from`. `covariance`: of their logarithms, in the same order. `covered`: the range of the runs.
    `runs`: what was measured, by name. `caveats`: what the reader must know. `replica`: what was
    identified on a replica of it. `server`: flavor, version, binary log and processors of the
    server.
    """

    name: str
    engine: str
    database: dict
    cache_gib: float
    threads: int
    size_gib: float | None = None
    benchmark: str = "own"
    instance: str | None = None
    as_of: str | None = None
    parameters: tuple[dict, ...] = ()
    covariance: tuple[tuple[float, ...], ...] = ()
    covered: Covered = field(default_factory=Covered)
    runs: tuple[dict, ...] = ()
    caveats: tuple[str, ...] = ()
    storage: str | None = None
    log_storage: str | None = None
    start: str | None = None
    replica: ReplicaParameters | None = None
    server: SourceServer = field(default_factory=SourceServer)

    def describe_briefly(self) -> str:
        """Returns the name, engine, cache and clients; see `Shown`."""
        size = "" if self.size_gib is None else f"{self.size_gib:,.4g} GiB of data, "
        return f"{self.name}: {self.engine}, {size}cache {self.cache_gib:,.3g} GiB, {self.threads:,} clients"

    def __post_init__(self) -> None:
        """Checks engine, cache, clients and the parameters of the database. Raises InputError."""
        check_choice("engine", self.engine, ENGINES, refuse)
        check_number("cache_gib", self.cache_gib, LEAST_CACHE_GIB, MOST_CACHE_GIB, "GiB")
        check_whole("threads", self.threads, 1, MOST_COUNT)
        try:
            core.mysql_check(self.database)
        except core.CoreError as error:
            value_, rule, source, hint = (str(part) for part in error.args)
            raise InputError(value_, rule, source or refuse.source, hint) from None

    @property
    def missed(self) -> list[str]:
        """Returns a sentence for each run that the calibration does not describe."""
        misfits = [(run["name"], find_misfit(run)) for run in self.runs]
        return [misfit.describe(name) for name, misfit in misfits if misfit is not None and misfit.misses]

    @property
    def misfit(self) -> float:
        """Returns the largest relative error on a run of the calibration beyond its noise; 0
        without runs."""
        return max((misfit.beyond_noise for run in self.runs if (misfit := find_misfit(run)) is not None), default=0.0)

    def to_document(self) -> dict:
        """Returns what `headrace calibrate --output json` prints."""
        names = ("name", "engine", "parameters", "runs", "caveats", "database")
        return {"schema": "headrace-calibration/1", **pick_fields(self, *names)}

    def scale_data(self, factor: float) -> TransactionWorkload:
        """Returns the workload over `factor` times the data. The caches and transactions that the
        runs cover grow with it: a cache of twice the size over twice the data does the same."""
        size = None if self.size_gib is None else self.size_gib * factor
        cache = self.covered.cache_gib
        covered = replace(
            self.covered,
            cache_gib=cache and (cache[0] * factor, cache[1] * factor),
            transactions=self.covered.transactions * factor,
            grown=self.covered.grown * factor,
        )
        return replace(self, database=core.mysql_grown(self.database, float(factor)), size_gib=size, covered=covered)

    def on_release(self, release: str | None) -> TransactionWorkload:
        """Returns the workload on a server of a flavor and release, such as mariadb-12.2.2. Only
        HammerDB's TPROC-C changes, by the pages and log that another flavor writes; if either
        flavor is not known, it does not."""
        flavor, _, version = (release or "").partition("-")
        source, _, _ = (self.server.release or "").partition("-")
        if self.benchmark != "hammerdb-tprocc" or not flavor or not source or flavor == source:
            return self
        return replace(self, database=core.mysql_on_flavor(self.database, source, flavor, version))

    def compute_least_responses(self) -> dict[str, float]:
        """Returns the least ratio of each percentile of response times (RESPONSES) to their mean,
        on any storage."""
        clients, shape = self.database["clients"], self.database["shape"]
        ratios = [ratio for _, ratio in shape.get("response", ())] or [clients["p95_over_mean"]]
        if shape.get("statements_p95", 0.0) > 0.0:
            ratios.append(shape["statements_p95"])
        if shape.get("burst_pages", 0.0) > 0.0:
            # The longer a burst, the further the median falls below the mean.
            ratios.append(MOST_P95_OVER_MEAN)
        responses = [core.least_responses(clients | {"p95_over_mean": ratio}) for ratio in ratios]
        return {name: min(least[name] for least in responses) for name in responses[0]}

    def compute_distances(
        self,
        *,
        cache_gib: float,
        transactions: float | None,
        threads: int | None,
        storage: str | None,
        limit: str | None,
        release: str | None,
        tps: float | None,
        core_speed: float | None,
        vcpus: int | None,
    ) -> Distances:
        """Returns the distances of a prediction from the runs, which widen its interval.

        `transactions`: since a cold start, at the end of the prediction; None: settled. `limit`:
        the cap that binds most of the time. `release`: flavor and release of the server, such as
        mysql-8.4. `tps`: the predicted rate. `core_speed`, `vcpus`: the processors, which count if
        clients or processors bind. A value of None counts as that of the runs, a speed of None as
        not known.
        """
        covered, source_release = self.covered, self.server.release
        if covered.cache_gib is None:
            return Distances()
        run_limits = {classify_limit(misfit.limit) for run in self.runs if (misfit := find_misfit(run)) is not None}
        storage_kinds = {classify_storage(run["storage"]) for run in self.runs}
        counts = [run["threads"] for run in self.runs] or covered.threads or ()
        clients = compute_distance_from(counts, threads) if threads and counts else 0.0
        # A sharp cap lets through what it does, however many wait for it and however fast they are.
        capped = bool(limit and storage) and classify_limit(limit or "") == "storage" and is_volume(storage or "")
        load = min(clients, self._compute_load_distance(threads, tps)) if threads and tps else clients
        distances = Distances(
            cache=measure_size(self, cache_gib),
            life=measure_life(self, cache_gib, transactions),
            clients=clients,
            load=0.0 if capped else load,
            server=float(
                bool(release and source_release)
                and get_release_series(release or "") != get_release_series(source_release or "")
            ),
            limit=float(bool(limit and run_limits) and classify_limit(limit or "") not in {*run_limits, "demand"}),
            storage=float(bool(storage and storage_kinds) and classify_storage(storage or "") not in storage_kinds),
        )
        if limit is None or not is_of_server(limit):
            return distances
        return replace(
            distances,
            **self._compute_speed_distances(core_speed),
            vcpus=compute_log_excess(covered.vcpus, vcpus) if vcpus and covered.vcpus else 0.0,
        )

    def _compute_load_distance(self, threads: int, tps: float) -> float:
        """Returns the distance in e-folds of rate or response time, whichever is smaller, from the
        nearest run: with an equal rate or response time the number of clients changes little."""
        loads = [(run["threads"], misfit.measured_tps) for run in self.runs if (misfit := find_misfit(run)) is not None]
        return min(
            (
                min(compute_log_distance(tps, measured), compute_log_distance(threads / tps, clients / measured))
                for clients, measured in loads
            ),
            default=math.inf,
        )

    def _compute_speed_distances(self, core_speed: float | None) -> dict[str, float]:
        """Returns the distance of a core's speed from those of the runs: `speed` or `unknown_speed`
        of `Distances`, nothing if a run had it."""
        speeds = {find_core_speed(run.get("instance"), run.get("as_of")) for run in self.runs}
        if core_speed in speeds:
            return {}
        others = [speed for speed in speeds if speed is not None]
        if core_speed is None or not others:
            return {"unknown_speed": 1.0}
        return {"speed": min(compute_log_distance(core_speed, speed) for speed in others)}

    def compute_unexplained(self, distances: Distances) -> float:
        """Returns the relative standard deviation of a mean that no parameter covers: that of the
        distances, of the calibration's error on its own runs, and of full processors."""
        full = UNEXPLAINED_WHERE_FULL if self.server.is_full else 0.0
        return math.hypot(distances.spread, full, self.misfit)

    def draw_databases(self, count: int, seed: int) -> list[dict]:
        """Returns `count` databases with parameters drawn from the covariance of the calibration;
        none without one. More draws than parameters have exactly this covariance, so that few of
        them are enough. Equal seeds give equal draws."""
        if not self.parameters or count == 0:
            return []
        import numpy as np  # a tenth of a second that no other command should pay

        chance = np.random.default_rng(seed)
        names = [parameter["name"] for parameter in self.parameters]
        normals = chance.standard_normal((count, len(names)))
        if count > len(names):
            normals -= normals.mean(axis=0)
            normals = np.linalg.solve(np.linalg.cholesky(normals.T @ normals / (count - 1)), normals.T).T
        variances, axes = np.linalg.eigh(np.array(self.covariance))
        spread = normals * np.sqrt(np.maximum(variances, 0.0)) @ axes.T
        limits = np.array([3.0 * parameter["before"] for parameter in self.parameters])
        return [
            scale_parameters(self.database, self.engine, dict(zip(names, np.clip(row, -limits, limits), strict=True)))
            for row in spread
        ]

    def describe_extrapolation(
        self, *, cache_gib: float, threads: int, transactions: float | None = None, vcpus: int | None = None
    ) -> list[str]:
        """Returns a sentence for each figure of a prediction that is far from the runs; `vcpus` is
        None if no processor binds."""
        covered, notes = self.covered, []
        if covered.cache_gib is None:
            return ["No run stands behind this workload: every figure is the standard benchmark's."]
        low, high = covered.cache_gib
        if not 0.45 * low <= cache_gib <= 2.2 * high:
            runs = f"{_describe_range(low / covered.grown, high / covered.grown)} GiB"
            if covered.grown == 1.0:
                notes.append(f"A cache of {cache_gib:,.4g} GiB is far from the {runs} of the runs.")
            else:
                share = (
                    f"{cache_gib:,.4g} GiB over {covered.grown:,.4g} times the data is "
                    f"as {cache_gib / covered.grown:,.4g} GiB over that of the runs"
                )
                notes.append(f"A cache of {share}, which had {runs}: far from them.")
        few, many = covered.threads or (threads, threads)
        if not few / 3 <= threads <= many * 3:
            notes.append(
                f"{threads} {'client is' if threads == 1 else 'clients are'} far from the {_describe_range(few, many)} of the runs."
            )
        if (
            vcpus is not None
            and covered.vcpus is not None
            and not covered.vcpus[0] / FAR_VCPUS <= vcpus <= covered.vcpus[1] * FAR_VCPUS
        ):
            notes.append(
                f"{vcpus:,} virtual CPUs differ by more than a factor of 2 from the {_describe_range(*covered.vcpus)} of the runs."
            )
        if transactions is not None and transactions > 3.0 * covered.transactions > 0:
            notes.append(
                f"It goes on for {transactions:,.0f} transactions; the longest run ended after {covered.transactions:,.0f}."
            )
        return notes


def _describe_range(low: float, high: float) -> str:
    return f"{low:,.4g}" if low == high else f"{low:,.4g} to {high:,.4g}"
