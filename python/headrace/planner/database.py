"""The judge of plans for databases: how many transactions a candidate does, and how sure that is.

The run is the interval form of `headrace.predict`, warm and over a day by default, so that burst
credits run dry; what is sustained is the worst hour. A scenario is a database drawn from the
calibration, times a factor on all its rates that no parameter covers, lognormal: the further a
candidate from the runs, the wider (`planner.widths`). This factor is integrated out: with clients,
the factor that a goal needs is known in closed form, since tps grow and response times shrink with
it.

    P(goals) = mean over databases of  P(factor > what the hardest goal needs)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import DAY_S, GIB
from headrace.catalog.price_list import PriceList
from headrace.planner.candidates import AURORA, Candidate, Family, Host, Need
from headrace.planner.demand import Counts
from headrace.planner.goals import Goal, get_headroom
from headrace.planner.judging import WeighingJudge
from headrace.planner.market.services import list_managed_items
from headrace.planner.widths import Widths
from headrace.simulation.services import SECONDS_A_MONTH, count_near_published
from headrace.workload.transactions import TransactionWorkload

FIGURES = (
    "tps", "tps_mean", "tps_p5", "p50_ms", "p95_ms", "p99_ms", "backlog_s", "reads_per_tx", "ios_per_tx", "mib_per_tx",
    "cached_share", "balance_percent", "dry_at_s",
)  # fmt: skip
TEXT = ("status", "why", "cap")
# Equal parts of the unexplained factor's distribution, where a scenario must have a number of it
# (a guess: more change no regret by a dollar).
QUANTILES = 5


# GiB of redo log or WAL files; innodb_redo_log_capacity is 100 MiB by default and several GiB on
# servers with many writes.
REDO_GIB = 8


@dataclass(frozen=True)
class LogRoom:
    """GiB that redo log and binary logs take, free space apart: `redo_gib` of redo log or WAL, and
    the binary logs of `days` at `tps` transactions a second (`binlog_gib`)."""

    tps: float = 0.0
    days: float = 0.0
    bytes_per_tx: float = 0.0

    @property
    def redo_gib(self) -> int:
        """GiB of redo log."""
        return REDO_GIB

    @property
    def binlog_gib(self) -> int:
        """GiB of binary logs."""
        return self.compute_binlog_gib(self.tps)

    @property
    def gib(self) -> int:
        """GiB in all."""
        return self.redo_gib + self.binlog_gib

    def compute_binlog_gib(self, tps: float) -> int:
        """Returns the GiB of binary logs of the same days at `tps` transactions a second."""
        return math.ceil(self.bytes_per_tx * tps * self.days * DAY_S / GIB)


@dataclass(frozen=True)
class Conditions:
    """Conditions that all candidates share: clients or arrivals, the start, the length, credits at
    the start (percent); `settled`: bursts are not counted on, since the load is the same day after
    day. For services: `readers` of an Aurora cluster, `busy_percent` of the month that is billed by
    use, `data_gib` that Aurora stores. `logged`: room for redo and binary logs."""

    threads: int | None
    arrivals_tps: float | None
    start: str
    hours: float
    start_balance: float | None
    settled: bool = True
    readers: int = 1
    busy_percent: float = 100.0
    data_gib: float = 0.0
    logged: LogRoom = field(default_factory=LogRoom)


class DatabaseJudge(WeighingJudge):
    """Judges candidates under one database; keeps followed caches. `confidence`: probability from
    which a goal counts as met."""

    subject = "database"

    def __init__(
        self,
        workload: TransactionWorkload,
        goals: Sequence[Goal],
        prices: PriceList,
        hosts: list[Host],
        conditions: Conditions,
        *,
        least_tps: float,
        confidence: float,
        draws: int,
        seed: int,
    ) -> None:
        """Splits the goals by what they need, starts the caches in the core and draws the
        scenarios. `least_tps`: transactions a second below which a candidate need not be followed;
        `seed`: of the draws."""
        super().__init__(prices, hosts, readers=conditions.readers)
        self.workload, self.database, self.goals = workload, workload.database, tuple(goals)
        self.conditions, self.least_tps, self.confidence = conditions, least_tps, confidence
        self.counts = Counts()
        self.headroom = get_headroom(goals)
        self.load_by = 1.0 + self.headroom / 100.0
        self.load_goals = [goal for goal in self.goals if goal.about.kind == "load"]
        self.load_metrics = tuple(dict.fromkeys(goal.metric for goal in self.load_goals))
        self.static_goals = [goal for goal in self.goals if goal.about.kind == "static"]
        self._verdicts: dict[Candidate, bool] = {}
        self._ios: dict[int, tuple[float, float, float]] = {}
        with translate_core_errors():
            self.core = core.TransactionCandidates(self.database)
        self.scenarios = Scenarios(self, workload, draws, seed)

    # --- performance ------------------------------------------------------------------------------

    def run(
        self,
        candidates: Sequence[Candidate],
        *,
        bounds: bool = True,
        names: Sequence[str] = (*TEXT, *FIGURES),
    ) -> dict[str, np.ndarray]:
        """Runs all candidates and returns columns in the order of `candidates`, under the load
        grown by the head-room that goals ask for: `status` ("ran", "bounded": cannot reach the
        least tps, its figures are the bound, "invalid"), and of `names`: `why`, `cap` and FIGURES
        (NaN where there are none). `bounds` False follows every candidate to its end."""
        least_tps = self.least_tps if bounds else 0.0
        [columns] = self.run_in([self.core], [self.load_by], candidates, least_tps, names=names)
        self.counts.note(candidates, columns["status"].tolist())
        return columns

    def run_ungrown(self, candidates: Sequence[Candidate]) -> dict[str, np.ndarray]:
        """Runs candidates under the load as it is, without the growth that head-room asks for, and
        returns columns as `run` does."""
        return self.run_in([self.core], [1.0], candidates)[0]

    def run_in(
        self,
        cores: Sequence,
        load_by: Sequence[float],
        candidates: Sequence[Candidate],
        least_tps: float = 0.0,
        names: Sequence[str] = (*TEXT, *FIGURES),
        first: bool = False,
    ) -> list[dict[str, np.ndarray]]:
        """Runs all candidates under several databases (`cores`), each with a factor on its clients
        or arrivals (`load_by`; whole clients, rounded up), and returns the columns `names` and
        `status` of each. `first`: of a first day with its bursts, whatever the conditions are."""
        data = [self.get_backing_volumes(candidate) for candidate in candidates]
        texts = {text: None for text in (*data, *(log for _, log, _ in candidates)) if text is not None}
        place = {text: index for index, text in enumerate(texts)}
        used = {index: None for *_, index in candidates}
        named = [index for index in used if self.hosts[index].instance is not None]
        host_place = {index: position for position, index in enumerate(named)}
        caches = list(dict.fromkeys(self.hosts[index].cache_gib for index in used))
        cache_place = {cache: index for index, cache in enumerate(caches)}
        conditions = self.conditions
        search = {
            "storages": list(texts),
            "instances": [self.hosts[index].name for index in named],
            "deployments": [self.hosts[index].service for index in named],
            "caches": [cache * GIB for cache in caches],
            "as_of": self.prices.as_of,
            "clients": conditions.threads,
            "arrivals_tps": conditions.arrivals_tps,
            "start": conditions.start,
            "seconds": conditions.hours * 3600.0,
            "start_balance_percent": conditions.start_balance,
            "settled": conditions.settled and not first,
            "least_tps": least_tps,
        }
        with translate_core_errors():
            answers = core.transaction_candidates(
                list(cores),
                search,
                # Aurora has no volumes: its place is not looked at.
                [0 if text is None else place[text] for text in data],
                [None if log is None else place[log] for _, log, _ in candidates],
                [host_place.get(index) for *_, index in candidates],
                [cache_place[self.hosts[index].cache_gib] for *_, index in candidates],
                load_by=list(load_by),
                names=list(names),
            )
        return [
            {name: np.array(values, dtype=object if name in TEXT else float) for name, values in raw.items()}
            for raw in answers
        ]

    def performs(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates meet every goal but that on cost by the best guess, head-room
        included."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._verdicts]
        if new:
            columns = self.run(new, names=self.load_metrics)
            meets = (columns["status"] == "ran") & self.meets_static(new)
            for goal in self.load_goals:
                meets &= goal.is_met(self.without_headroom(goal, columns[goal.metric]))
            self._verdicts.update(zip(new, meets.tolist(), strict=True))
        return [self._verdicts[candidate] for candidate in candidates]

    def meets_with_confidence(self, candidates: Sequence[Candidate], confidence: float | None = None) -> list[bool]:
        """Says which candidates meet the goals with the probability `confidence`, 0 to 1; None: the
        one required."""
        least = self.confidence if confidence is None else confidence
        meets = self.meets_static(candidates)
        likely = [doubt.probability >= least for doubt in self.scenarios.compute_doubts(candidates)]
        return (meets & np.array(likely, dtype=bool)).tolist()

    def meets_static(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Says which candidates meet the goals on durability, consistency and failover, which
        follow from type, layout and service alone."""
        meets = np.ones(len(candidates), dtype=bool)
        if self.static_goals:
            figures = self.compute_statics(candidates)
            for goal in self.static_goals:
                meets &= goal.is_met(figures[goal.metric])
        return meets

    def count_near_runs(self, host: Host) -> int:
        """Counts the published runs of Aurora that lie near a host's question; 0 for other
        services."""
        if not host.service.startswith(AURORA) or host.instance is None:
            return 0
        conditions = self.conditions
        return count_near_published(host.instance["vcpus"], conditions.threads, conditions.data_gib, host.cache_gib)

    def without_headroom(self, goal: Goal, value: np.ndarray) -> np.ndarray:
        """Returns transactions a second divided by the growth that head-room asks for, which is
        compared with the limit of a goal; times stay as they are."""
        return _scale_rate(goal, value, self.load_by)

    def holds_at(self, candidates: Sequence[Candidate], factor: float) -> list[bool]:
        """Says which candidates meet every goal on performance, by the best guess, under `factor`
        times the demand: that many times the clients or arrivals do that many times the tps within
        the same response times."""
        [columns] = self.run_in([self.core], [factor], candidates, names=self.load_metrics)
        meets = columns["status"] == "ran"
        for goal in self.load_goals:
            meets &= goal.is_met(_scale_rate(goal, columns[goal.metric], factor))
        return meets.tolist()

    def list_logs(self, families: Sequence[Family], need: Need) -> list[str | None]:
        """Lists volumes for the log alone, None first: it lies with the data."""
        return [None, *list_log_volumes(families, need.log_gib)]

    # --- cost -------------------------------------------------------------------------------------

    def list_service_items(self, candidate: Candidate) -> list[dict] | None:
        """Returns the items of a service's monthly bill, in USD; None where a price is missing."""
        data, _, place = candidate
        conditions, host = self.conditions, self.hosts[place]
        million = 0.0
        if host.service.startswith(AURORA):
            reads, writes, tps = self.compute_billed_ios(candidate)
            million = (reads + writes) * tps * conditions.busy_percent / 100.0 * SECONDS_A_MONTH / 1e6
        used = {"readers": conditions.readers, "data_gib": conditions.data_gib, "million_ios": million}
        return list_managed_items(host, data, self.prices, **used)

    def compute_billed_ios(self, candidate: Candidate) -> tuple[float, float, float]:
        """Returns the reads and writes that Aurora bills of a transaction, and the transactions
        a second they are billed at: what the goals ask for or what arrives, else what the
        clients do."""
        place = candidate[2]
        if place not in self._ios:
            [columns] = self.run_in([self.core], [1.0], [candidate], names=("tps_mean", "reads_per_tx"))
            tps, reads = (float(np.nan_to_num(columns[name][0])) for name in ("tps_mean", "reads_per_tx"))
            asked = [goal.limit for goal in self.goals if goal.metric in ("tps", "tps_p5") and goal.sign == ">="]
            rate = self.conditions.arrivals_tps or (max(asked) if asked else tps)
            with translate_core_errors():
                of_tx = core.aurora_billed(self.database, reads, rate)
            self._ios[place] = (of_tx["reads"], of_tx["writes"], rate)
        return self._ios[place]

    def list_items(self, candidate: Candidate) -> list[dict]:
        """Lists the items of a candidate's monthly bill, in USD."""
        data, log, place = candidate
        host = self.hosts[place]
        if host.service != "ec2":
            return self.list_service_items(candidate) or []
        instance = [] if host.name is None else self.prices.list_instance_items(host.name)
        items = [{"part": "instance"} | item for item in instance]
        for part, storage in (("data", data), ("log", log)):
            if storage is not None:
                items += [{"part": part} | item for item in self.prices.list_volume_items(storage, 0.0)]
        return items


@dataclass(frozen=True)
class Doubt:
    """Doubt about one candidate. `unexplained`: standard deviation of the logarithm of the factor
    that no parameter covers. For every database drawn: by how many of these deviations the factor
    must be above 1 so that all goals hold (`needs`), so that each holds (`each`, by the goal's
    text), and `tps`."""

    needs: np.ndarray
    each: dict[str, np.ndarray]
    tps: np.ndarray
    unexplained: float

    @property
    def probability(self) -> float:
        """Probability, 0..1, that all goals on performance hold."""
        return _compute_chance(self.needs)

    def compute_goal_probability(self, goal: str) -> float:
        """Returns the probability, 0..1, that one goal holds."""
        return _compute_chance(self.each[goal])

    @property
    def spread(self) -> float:
        """Relative standard deviation of the tps."""
        logs = np.log(np.maximum(self.tps, 1e-9))
        return math.sqrt(float(logs.var(ddof=1) if len(logs) > 1 else 0.0) + self.unexplained**2)


def _compute_chance(needs: np.ndarray) -> float:
    return float(np.mean([0.5 * math.erfc(need / math.sqrt(2.0)) for need in needs]))


class Scenarios:
    """The databases drawn, each with its followed caches, and the doubts about candidates."""

    def __init__(self, judge: DatabaseJudge, workload: TransactionWorkload, draws: int, seed: int) -> None:
        """Draws databases from the calibration's covariance (the best estimate alone where `draws`
        gives none), and the factors for what it leaves unexplained."""
        self.judge = judge
        drawn = workload.draw_databases(draws, seed)
        databases = drawn or [workload.database]
        self.drawn = len(drawn)
        with translate_core_errors():
            self.cores = [core.TransactionCandidates(database) for database in databases]
        # Only an open load needs the factor as a number: its backlog has no closed form. Spread
        # evenly over the databases, in an order of chance.
        order = np.random.default_rng(seed + 1).permutation(len(databases))
        self.deviations = compute_normal_middles(len(databases))[order]
        self.widths = Widths(judge)
        self.doubts: dict[Candidate, Doubt] = {}

    def compute_doubts(self, candidates: Sequence[Candidate]) -> list[Doubt]:
        """Returns the doubt about each candidate; cached."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self.doubts]
        if new:
            self._add_doubts(new)
        return [self.doubts[candidate] for candidate in candidates]

    def _add_doubts(self, candidates: Sequence[Candidate]) -> None:
        """Computes and caches the doubts about candidates; those with equally wide factors in one
        run."""
        self.widths.run(candidates)
        if self.judge.conditions.arrivals_tps is None:
            return self._run_scenarios(candidates, np.zeros(len(self.cores)))
        # The factor enters an open load's run as a number: candidates with equally wide factors are
        # run together.
        by_width: dict[float, list[Candidate]] = {}
        for candidate in candidates:
            by_width.setdefault(round(self.widths.compute_width(candidate), 4), []).append(candidate)
        for width, same_width in by_width.items():
            self._run_scenarios(same_width, width * self.deviations)

    def _run_scenarios(self, candidates: Sequence[Candidate], factors: np.ndarray) -> None:
        """Runs the candidates in every scenario and caches their doubts; `factors`: logarithm of
        the unexplained factor in each."""
        goals = self.judge.load_goals
        is_open = self.judge.conditions.arrivals_tps is not None
        widths = np.array([self.widths.compute_width(candidate) for candidate in candidates])
        names = ("tps", *(goal.metric for goal in goals))
        load_by = self.judge.load_by * np.exp(-factors)
        answers = self.judge.run_in(self.cores, load_by.tolist(), candidates, names=names)
        ran = np.stack([columns["status"] == "ran" for columns in answers])
        faster = np.exp(factors)[:, None]
        columns = {name: np.stack([answer[name] for answer in answers]) for name in names}
        tps = np.where(ran, columns["tps"] * faster, 0.0)
        needs = {}
        for goal in goals:
            # Everything faster by a factor: rates grow by it, times shrink by it.
            judged = self.judge.without_headroom(goal, columns[goal.metric])
            value = np.where(ran, judged * (faster if goal.sign == ">=" else 1.0 / faster), np.nan)
            needs[str(goal)] = (
                _compute_binary_need(goal, value) if is_open else _compute_needed_factor(goal, value) / widths
            )
        for place, candidate in enumerate(candidates):
            each = {text: matrix[:, place] for text, matrix in needs.items()}
            self.doubts[candidate] = Doubt(
                np.max(list(each.values()), axis=0), each, tps[:, place], float(widths[place])
            )


def _scale_rate(goal: Goal, value: np.ndarray, factor: float) -> np.ndarray:
    """Returns a rate under `factor` times the load divided by `factor`, to compare it with the
    limit of a goal on the load as it is; times stay as they are."""
    return value / factor if goal.about.unit == "tps" else value


def _compute_needed_factor(goal: Goal, value: np.ndarray) -> np.ndarray:
    """Returns the logarithm of the factor on all rates at which a goal is just met."""
    limit = max(goal.limit, 1e-9)
    ratio = limit / np.maximum(value, 1e-9) if goal.sign == ">=" else value / limit
    return np.where(np.isnan(value), np.inf, np.log(np.maximum(np.nan_to_num(ratio, nan=1.0), 1e-12)))


def _compute_binary_need(goal: Goal, value: np.ndarray) -> np.ndarray:
    """Returns the deviations that a goal needs where they are not known in closed form: minus
    infinity where it is met, infinity where it is not."""
    return np.where(goal.is_met(value), -np.inf, np.inf)


def compute_normal_middles(count: int) -> np.ndarray:
    """Returns the middles of `count` equally likely parts of a standard normal distribution."""
    return np.array([NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)])


@dataclass(frozen=True)
class Regret:
    """USD a month a choice is regretted by: its cost, and where it misses the goals that of the
    next dearer one that meets them (the money is spent twice), less the cost of the best choice in
    that state."""

    expected: float
    worst: float


def compute_regrets(costs: np.ndarray, doubts: Sequence[Doubt]) -> tuple[list[Regret], float]:
    """Returns the regret of each choice over all scenarios, USD a month, and the share of
    scenarios, 0 to 1, in which no choice meets the goals (those teach nothing and are left out)."""
    # One factor for all choices of a state: where a database is slower than thought, it is so
    # everywhere, most where least is known.
    deviations = compute_normal_middles(QUANTILES)
    needs = np.array([doubt.needs for doubt in doubts])  # choices x databases
    met = (needs[:, :, None] <= deviations[None, None, :]).reshape(len(doubts), -1)
    possible = met.any(axis=0)
    if not possible.any():
        return [Regret(math.nan, math.nan)] * len(doubts), 1.0
    met = met[:, possible]
    order = np.argsort(costs, kind="stable")
    cost, met = costs[order], met[order]
    meeting = np.where(met, cost[:, None], np.inf)
    best = meeting.min(axis=0)
    # From the dearest down: the cheapest that meets among those that cost as much or more; where
    # only cheaper ones do, the best of them.
    dearer = np.minimum.accumulate(meeting[::-1], axis=0)[::-1]
    instead = np.where(np.isfinite(dearer), dearer, best[None, :])
    regret = cost[:, None] + np.where(met, 0.0, instead) - best[None, :]
    regret_of: list[Regret] = [Regret(0.0, 0.0)] * len(doubts)
    for place, row in zip(order, regret, strict=True):
        regret_of[int(place)] = Regret(float(row.mean()), float(row.max()))
    return regret_of, float(1.0 - possible.mean())


# --- log volumes of a database --------------------------------------------------------------------

LOG_IOPS = (1000, 3000)  # of provisioned types: a commit's flush needs few; both ends are looked at
LOG_SIZES = (1, 4)  # times what the log needs: gp2 buys IOPS by size


def compute_log_room(database: dict, tps: float, days: float) -> LogRoom:
    """Returns the room that the redo log and the binary logs of `days` take at `tps`. It follows
    the transactions that are asked for, not the clients that wait for them."""
    return LogRoom(tps, days, database["log"]["binlog_bytes_per_tx"])


def list_log_volumes(families: Sequence[Family], size_gib: int) -> list[str]:
    """Lists small volumes for redo and binlog alone, of the SSD types among the families (single
    volumes), in sizes that are ordered."""
    storages: list[str] = []
    for family in families:
        if family.layout != "single" or family.volume_type not in ("gp2", "gp3", "io1", "io2"):
            continue
        gib = family.compute_ordered_gib(family.compute_member_gib(1, size_gib))
        if gib > family.max_gib:
            continue
        if family.axis == "size":
            sizes = [family.compute_ordered_gib(gib * times) for times in LOG_SIZES]
            storages += [family.write_notation(1, size) for size in sizes if size <= family.max_gib]
        elif family.buys_throughput:
            storages.append(family.write_notation(1, gib))
        else:
            per_gib = family.find_figure("iops", "per_gib") or float("inf")
            least = [family.compute_ordered_gib(math.ceil(iops / per_gib)) for iops in LOG_IOPS]
            storages += [
                family.write_notation(1, max(gib, size), iops) for size, iops in zip(least, LOG_IOPS, strict=True)
            ]
    return list(dict.fromkeys(storages))
