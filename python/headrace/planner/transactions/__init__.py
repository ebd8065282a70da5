"""The cheapest instance and volumes on which a database does the transactions asked for, with the probability that it does.

    >>> import headrace
    >>> from headrace.calibrating import sysbench_tpcc
    >>> shop = sysbench_tpcc(warehouses=1000, engine="innodb", cache_gib=25, threads=16)
    >>> made = headrace.plan(shop, goals=["tps>=100"], instances=["r6i.*"])
    >>> made.winner.probability >= made.confidence
    True

    goals.py       what must hold                        hosts.py       instances and their cache
    storages.py    data and log volumes, routes           evaluate.py    run and price candidates
    search.py      the least of a route, best guess       confidence.py  the same with the probability asked for
    doubt.py       states of the world, regret            choice.py      one candidate with all that speaks for it
    reasons.py     why families lose, the arithmetic      result.py      the answer

The run is the interval form of `headrace.predict`, warm and over a day by default, so that burst credits run dry; what is sustained is the worst hour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headrace import _core
from headrace.errors import InputError, core_errors
from headrace.planner.candidates import Family
from headrace.planner.goals import Goal
from headrace.planner.market import check_exclude, families_on
from headrace.planner.result import FamilyVerdict
from headrace.planner.transactions.choice import Chooser
from headrace.planner.transactions.confidence import KEPT, Sure, rank, surely
from headrace.planner.transactions.doubt import Regret, Worlds, regrets
from headrace.planner.transactions.evaluate import Conditions, Evaluator, Pick
from headrace.planner.transactions.goals import METRICS, TransactionGoal, needed_tps, parse_goals
from headrace.planner.transactions.hosts import CACHE_SHARE, Host, hosts_for
from headrace.planner.transactions.reasons import compare_engines, explain, family_verdict
from headrace.planner.transactions.result import EngineComparison, TransactionChoice, TransactionPlan, TransactionVerdict
from headrace.planner.transactions.search import Found, pick_of, search
from headrace.planner.transactions.storages import log_gib, log_volumes, routes
from headrace.workload.model import check_number, check_size, check_whole
from headrace.workload.transactions import TransactionWorkload

__all__ = [
    "METRICS",
    "EngineComparison",
    "TransactionChoice",
    "TransactionGoal",
    "TransactionPlan",
    "TransactionVerdict",
    "plan_against",
    "plan_transactions",
]

DRAWS = 32
MAX_VOLUMES = 128
CLOSEST_SHOWN = 5
HOSTS_AT_ONCE = 8
# A family dearer than so many times the best of all others is not searched to its end.
HOPELESS = 5.0
CURVE_POINTS = 14
CURVES = 6
CURVE_USD = 3.0  # the chart ends at so many times the winner's cost
STANDARD = "billed by the request and without a promise of IOPS: not planned for databases"


@dataclass
class Searched:
    """A family with what its search found, by best guess and with the confidence asked for."""

    family: Family
    found: Found
    sure: list[Sure]
    unsure: list[Sure]

    def nearest(self, evaluator: Evaluator, worlds: Worlds) -> Pick | None:
        """What comes closest where nothing is sure: the most probable, then the most tps, then the cheapest."""
        if self.unsure:
            doubts = worlds.of([pick_of(route, index) for route, index, _ in self.unsure])
            best = min(zip(self.unsure, doubts, strict=True), key=lambda pair: (-round(pair[1].probability, 4), *rank(pair[0])))[0]
            return pick_of(best[0], best[1])
        priced = [entry for entry in [*self.found.failing, *self.found.passing] if not math.isnan(entry[2])]
        if not priced:
            return None
        picks = [pick_of(route, index) for route, index, _ in priced]
        columns = evaluator.run(picks, bounds=False)
        distance = sum(
            np.array([goal.distance(float(value)) for value in columns[goal.metric]])
            for goal in evaluator.goals
            if goal.about.kind == "load"
        )
        distance = distance + np.array([goal_usd(evaluator, usd) for *_, usd in priced])
        order = min(range(len(picks)), key=lambda i: (round(float(distance[i]), 4), *rank(priced[i])))
        return picks[order]


def goal_usd(evaluator: Evaluator, usd: float) -> float:
    """How far a cost is above the budget, as distances of goals are measured."""
    return sum(goal.distance(usd) for goal in evaluator.goals if goal.about.kind == "cost")


def plan_transactions(
    workload: TransactionWorkload,
    *,
    goals: Sequence[str | Goal],
    size_gib: float | None = None,
    region: str = "us-east-1",
    as_of: str | None = None,
    growth: float = 1.0,
    instances: Sequence[str] | None = None,
    max_volumes: int = 8,
    exclude: Sequence[str] = (),
    compare: str | None = None,
    start_balance: float | None = None,
    top: int = 10,
    threads: int | None = None,
    arrivals_tps: float | None = None,
    start: str = "warm",
    hours: float = 24.0,
    cache_share: float = CACHE_SHARE,
    confidence: float = 0.8,
    draws: int = DRAWS,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> TransactionPlan:
    """Plans instance, data and log volumes for a database.

    `goals`: such as `"tps>=300"` (metrics: `METRICS`). `threads`: clients, None for the workload's; or `arrivals_tps`: an open load. `start`, `hours`: "warm" over 24 h unless said
    otherwise; what is sustained is the worst hour. `instances`: types or patterns; None: m, r, c and i of the two newest generations of the day; `["none"]`: volumes alone with
    the workload's cache. `cache_share`: of the memory for the cache, at least 2 GiB left. `confidence`: probability from which a goal counts as met, 0.5 to 0.99.
    `draws`, `seed`: databases drawn from the calibration. `growth`: times the data. `compare`: today's, `INSTANCE+STORAGE[+LOG_STORAGE]` or `STORAGE`. The rest as in
    `headrace.plan`. The same answer every time. Raises InputError.
    """
    setting = _setting(
        workload, goals, size_gib, region, as_of, growth, arrivals_tps, threads, start, hours, start_balance, confidence, draws
    )
    excluded = check_exclude(exclude) | {"standard"}
    check_whole("max_volumes", max_volumes, 1, MAX_VOLUMES)
    check_whole("top", top, 1, 1_000)
    conditions, database = setting.conditions, setting.workload
    check_whole("seed", seed, 0, 2**63 - 1)
    today = None if compare is None else _today(compare, conditions, cache_share)
    hosts, skipped = hosts_for(instances, conditions.region, conditions.as_of, cache_share, workload.cache_gib)
    families, verdicts = families_on(
        conditions.as_of, setting.prices, excluded, max_volumes, [host.instance or {"instance_store_devices": 0} for host in hosts]
    )
    verdicts = [_standard(one) for one in verdicts]
    least = needed_tps(setting.goals, conditions.threads, database.database["clients"]["p95_over_mean"])
    evaluator = Evaluator(database.database, hosts, conditions, setting.goals, least)
    worlds = Worlds(evaluator, database, draws, seed)
    searched = _search(evaluator, worlds, families, setting, confidence, progress)
    chooser = Chooser(evaluator, worlds, confidence, setting.data_gib, setting.log_gib)
    regret, undecided = _regrets(evaluator, worlds, searched)
    winners, least_regret = _winners(chooser, searched, regret, top)
    winner = winners[0] if winners else None
    lasting = _lasting(chooser, searched, regret)
    best = {one.family.name: _best(chooser, one, regret, bool(winners)) for one in searched}
    closest = [] if winner else _closest([choice for choice in best.values() if choice])
    told = [TransactionVerdict(one.family, one.outcome, one.why) for one in verdicts]
    told += [family_verdict(one.family, best[one.family.name], winner, one.found, setting.goals) for one in searched]
    compared = None if today is None else _compare(chooser, today, winner)
    shown = [choice for choice in (winner, lasting, least_regret, *closest[:1]) if choice]
    counts = evaluator.counts
    ran = len(counts.ran)
    return TransactionPlan(
        workload=workload.name, engine=workload.engine, winners=winners, least_regret=least_regret, lasting=lasting, closest=closest,
        families=sorted(told, key=_verdict_order), compared=compared,
        saving_usd_month=_saving(compared, winner, lasting), goals=setting.goals, confidence=confidence,
        draws=len(worlds.cores), undecided=undecided, threads=conditions.threads, arrivals_tps=arrivals_tps, start=start, hours=float(hours), cache_share=cache_share,
        growth=float(growth), size_gib=float(setting.data_gib), log_gib=setting.log_gib, region=conditions.region, as_of=conditions.as_of, instances=len(hosts),
        considered=ran + len(counts.bounded - counts.ran) + len(counts.invalid), simulated=ran, bounded=len(counts.bounded - counts.ran), invalid=len(counts.invalid),
        frontier=_frontier(chooser, searched, winner), skipped_instances=skipped, caveats=_caveats(database, shown, conditions, evaluator),
        explain=explain(evaluator, setting, shown),
    )  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What is planned for, checked: goals, conditions, the grown database, GiB of data and of log."""

    workload: TransactionWorkload
    goals: tuple[TransactionGoal, ...]
    conditions: Conditions
    data_gib: int
    log_gib: int
    prices: dict


def _setting(
    workload, goals, size_gib, region, as_of, growth, arrivals_tps, threads, start, hours, start_balance, confidence, draws
) -> Setting:
    parsed = parse_goals(goals, arrivals_tps is not None)
    if arrivals_tps is not None:
        check_number("arrivals_tps", arrivals_tps, 0.01, 1e6, "tps")
        _arrivals_suffice(parsed, arrivals_tps)
    clients = None if arrivals_tps is not None else check_whole("threads", workload.threads if threads is None else threads, 1, 65_536)
    if start not in ("cold", "warm"):
        raise InputError(f"start = {start!r}", "must be cold or warm", "headrace plan --help")
    check_number("hours", hours, 0.1, 24.0 * 31, "h")
    check_number("confidence", confidence, 0.5, 0.99)
    check_whole("draws", draws, 0, 1_000)
    if start_balance is not None:
        check_number("start_balance", start_balance, 0.0, 100.0, "percent")
    check_number("growth", growth, 0.001, 1_000.0)
    grown = workload.grown(growth) if growth != 1.0 else workload
    size = check_size(size_gib) if size_gib is not None else grown.size_gib
    if size is None:
        raise InputError(workload.name, "does not say how many GiB of data there are, so no volume can be sized", "headrace plan",
                         "Give size_gib (--size-gib), or write it into the workload file.")  # fmt: skip
    with core_errors():
        day = as_of or _core.newest_date()
        prices = _core.volume_prices(region, day)
    conditions = Conditions(clients, arrivals_tps, start, float(hours), prices["region"], day, start_balance)
    tps = arrivals_tps or needed_tps(parsed, clients, grown.database["clients"]["p95_over_mean"])
    return Setting(grown, parsed, conditions, math.ceil(size), log_gib(grown.database, tps), prices)


def _arrivals_suffice(goals: Sequence[Goal], arrivals_tps: float) -> None:
    for goal in goals:
        if goal.metric in ("tps", "tps_p5") and goal.limit > arrivals_tps:
            raise InputError(
                str(goal),
                f"only {arrivals_tps:g} transactions a second arrive",
                "headrace plan --arrivals-tps",
                "Ask for less, or let more arrive.",
            )


def _standard(verdict: FamilyVerdict) -> FamilyVerdict:
    return FamilyVerdict(verdict.family, "excluded", STANDARD) if verdict.family == "standard" else verdict


def _search(
    evaluator: Evaluator,
    worlds: Worlds,
    families: Sequence[Family],
    setting: Setting,
    confidence: float,
    progress: Callable[[float], None] | None,
) -> list[Searched]:
    """All families, single volumes first: what they cost bounds the rest."""
    logs = log_volumes(families, setting.log_gib)
    order = sorted(families, key=lambda family: (family.layout != "single", family.volume_type not in ("gp3", "gp2"), family.name))
    indexed = list(enumerate(evaluator.hosts))
    searched: list[Searched] = []
    best = math.inf
    for done, family in enumerate(order):
        if progress:
            progress(done / len(order))
        hosts = (
            [(i, host) for i, host in indexed if host.instance and host.instance["instance_store_devices"]]
            if family.volume_type == "instance-store"
            else indexed
        )
        one = Searched(family, Found(), [], [])
        every = routes(family, hosts, logs, setting.data_gib, setting.log_gib)
        places = [i for i, _ in hosts]
        for first in range(0, len(places), HOSTS_AT_ONCE):
            some = set(places[first : first + HOSTS_AT_ONCE])
            own = one.sure[0][2] if one.sure else math.inf
            part = search(evaluator, [route for route in every if route.host in some], min(HOPELESS * best, KEPT * own))
            sure, unsure = surely(evaluator, worlds, part, confidence, best, own)
            one.found.add(part)
            one.sure, one.unsure = sorted(one.sure + sure, key=rank), one.unsure + unsure
        searched.append(one)
        best = min([best, *(usd for *_, usd in one.sure)])
    if progress:
        progress(1.0)
    return searched


def _saving(compared: TransactionChoice | None, winner: TransactionChoice | None, lasting: TransactionChoice | None) -> float | None:
    """USD a month less than today. What keeps its data is set beside what keeps its data."""
    if compared is None or winner is None:
        return None
    answer = lasting if lasting is not None and compared.persistent else winner
    return compared.cost_usd_month - answer.cost_usd_month


def _regrets(evaluator: Evaluator, worlds: Worlds, searched: Sequence[Searched]) -> tuple[dict[Pick, Regret], float | None]:
    """Regret of every candidate that was looked at in all states of the world, nothing above the budget."""
    if not any(one.sure for one in searched):
        return {}, None
    picks = list(worlds.known)
    usd = evaluator.costs(picks)
    kept = [i for i, cost in enumerate(usd) if cost <= evaluator.most_usd]
    picks = [picks[i] for i in kept]
    found, undecided = regrets(usd[kept], worlds.of(picks))
    return dict(zip(picks, found, strict=True)), undecided


def _winners(
    chooser: Chooser, searched: Sequence[Searched], regret: dict[Pick, Regret], top: int
) -> tuple[list[TransactionChoice], TransactionChoice | None]:
    """The cheapest sure candidate of each family and instance, in order, at most `top`; and the one of least expected regret."""
    rows = []
    for one in searched:
        seen = set()
        for entry in one.sure:
            if entry[0].host not in seen:
                seen.add(entry[0].host)
                rows.append((one.family, entry))
    rows.sort(key=lambda row: rank(row[1]))
    winners = chooser.choose([(family, pick_of(route, index)) for family, (route, index, _) in rows[:top]], regret)
    # Losing everything with the instance is no small regret: local disks count only where the cheapest has them too.
    lasts = bool(winners and winners[0].persistent)
    known = [pick for pick, value in regret.items() if not math.isnan(value.expected) and not (lasts and "instance-store" in pick[0])]
    if not known:
        return winners, None
    least = min(known, key=lambda pick: (round(regret[pick].expected, 4), round(regret[pick].worst, 4), pick[0], pick[1] or "", pick[2]))
    return winners, chooser.choose([(_family_of(searched, least), least)], regret)[0]


def _lasting(chooser: Chooser, searched: Sequence[Searched], regret: dict[Pick, Regret]) -> TransactionChoice | None:
    """The cheapest sure candidate whose data survives a stop of the instance."""
    rows = [(one.family, one.sure[0]) for one in searched if one.sure and one.family.volume_type != "instance-store"]
    rows.sort(key=lambda row: rank(row[1]))
    return chooser.choose([(family, pick_of(route, index)) for family, (route, index, _) in rows[:1]], regret)[0] if rows else None


def _family_of(searched: Sequence[Searched], pick: Pick) -> Family:
    with core_errors():
        parsed = _core.parse_storage(pick[0])
    kind, layout = parsed["members"][0]["volume_type"], parsed["raid"] or "single"
    return next(one.family for one in searched if (one.family.volume_type, one.family.layout) == (kind, layout))


def _best(chooser: Chooser, one: Searched, regret: dict[Pick, Regret], won: bool) -> TransactionChoice | None:
    """The family's best or nearest; where no family wins and all of this one is above the budget, the cheapest of it."""
    pick = pick_of(*one.sure[0][:2]) if one.sure else one.nearest(chooser.evaluator, chooser.worlds)
    if pick is None and not won and one.found.dear is not None:
        pick = pick_of(*one.found.dear[:2])
    return None if pick is None else chooser.choose([(one.family, pick)], regret)[0]


def _closest(choices: Sequence[TransactionChoice]) -> list[TransactionChoice]:
    def distance(choice: TransactionChoice) -> float:
        return sum(
            TransactionGoal.parse(goal).distance(choice.metrics[TransactionGoal.parse(goal).metric]) for goal in choice.goal_probabilities
        )

    return sorted(
        choices, key=lambda choice: (-round(choice.probability, 3), round(distance(choice), 4), choice.cost_usd_month, choice.place)
    )[:CLOSEST_SHOWN]


@dataclass(frozen=True)
class Today:
    """What --compare names: volumes of data and log, and an instance or none."""

    host: Host | None
    volumes: list[str]


def _today(text: object, conditions: Conditions, cache_share: float) -> Today:
    """Reads `INSTANCE+STORAGE[+LOG_STORAGE]` or `STORAGE`, before anything is searched. Raises InputError."""
    parts = [part.strip() for part in text.split("+")] if isinstance(text, str) else []
    named, volumes = [part for part in parts if part and ":" not in part], [part for part in parts if ":" in part]
    if len(named) > 1 or not 1 <= len(volumes) <= 2 or len(named) + len(volumes) != len(parts):
        raise InputError(
            f"compare = {text}",
            "is written INSTANCE+STORAGE, INSTANCE+STORAGE+LOG_STORAGE or STORAGE",
            "headrace plan",
            "For example m5.2xlarge+gp2:1200.",
        )
    with core_errors():
        for volume in volumes:
            _core.storage_limits(volume, conditions.as_of, named[0] if named else None)
            _core.monthly_cost(volume, conditions.region, conditions.as_of, 0.0)
        volumes = [_core.parse_storage(volume)["text"] for volume in volumes]
    hosts = hosts_for(named, conditions.region, conditions.as_of, cache_share, 1.0)[0] if named else [None]
    return Today(hosts[0], volumes)


def _compare(chooser: Chooser, today: Today, winner: TransactionChoice | None) -> TransactionChoice:
    """Today's, judged like a candidate; without an instance on the winner's."""
    evaluator = chooser.evaluator
    names = [host.name for host in evaluator.hosts]
    name = today.host.name if today.host else winner.instance if winner else names[0]
    if name not in names:
        evaluator.hosts.append(today.host)
    with core_errors():
        parsed = _core.parse_storage(today.volumes[0])
        eras = {era["volume_type"]: era for era in _core.volume_eras(evaluator.conditions.as_of)}
    kind = parsed["members"][0]["volume_type"]
    family = Family(kind, parsed["raid"] or "single", eras[kind], (len(parsed["members"]),))
    place = [host.name for host in evaluator.hosts].index(name)
    return chooser.choose([(family, (today.volumes[0], today.volumes[1] if len(today.volumes) > 1 else None, place))])[0]


def _frontier(chooser: Chooser, searched: Sequence[Searched], winner: TransactionChoice | None) -> list[dict]:
    """Cost against tps along the best route of the cheapest families, with intervals."""
    starts = sorted(((one.family, one.sure[0]) for one in searched if one.sure), key=lambda pair: rank(pair[1]))[:CURVES]
    starts = starts or [(one.family, sorted(one.found.failing, key=rank)[0]) for one in searched if one.found.failing][:CURVES]
    wanted: dict[Pick, Family] = {}
    for family, (route, index, _) in starts:
        indices = {0, index, route.last} | {round(route.last ** (step / (CURVE_POINTS - 1))) for step in range(CURVE_POINTS) if route.last}
        wanted |= {pick_of(route, at): family for at in sorted(indices)}
    most = CURVE_USD * winner.cost_usd_month if winner else math.inf
    usd = chooser.evaluator.costs(list(wanted))
    picks = [(family, pick) for (pick, family), cost in zip(wanted.items(), usd, strict=True) if cost <= most]
    return [
        {
            "cost_usd_month": choice.cost_usd_month, "tps": choice.metrics["tps"], "tps_low": choice.tps_low, "tps_high": choice.tps_high,
            "probability": choice.probability, "instance": choice.instance, "storage": choice.storage, "log_storage": choice.log_storage, "family": choice.family,
            "meets_goals": choice.meets_goals,
        }
        for choice in chooser.choose(picks)
    ]  # fmt: skip


def _caveats(workload: TransactionWorkload, shown: Sequence[TransactionChoice], conditions: Conditions, evaluator: Evaluator) -> list[str]:
    found = [*workload.caveats]
    for choice in shown:
        found += workload.outside(cache_gib=choice.cache_gib, threads=conditions.threads or workload.threads)
        found += choice.caveats
    if any(host.instance for host in evaluator.hosts):
        if workload.database["clients"]["cpu_ms"] <= 0:
            found.append("The workload does not say what processor time a transaction takes: virtual CPUs bind nowhere in this plan.")
        else:
            found.append("A virtual CPU counts alike on every instance: generations and makers differ by tens of percent.")
    return list(dict.fromkeys(found))


def _verdict_order(one: TransactionVerdict) -> tuple:
    place = ("wins", "costs more", "fails", "impossible", "excluded").index(one.outcome)
    return (place, one.best.cost_usd_month if one.best else math.inf, one.family)


def plan_against(workload: TransactionWorkload, other: TransactionWorkload, **settings) -> EngineComparison:
    """The same goals for two databases, InnoDB against MyRocks as a rule. `settings`: as `plan_transactions`. Raises InputError."""
    if settings.get("size_gib") is not None:
        raise InputError(
            f"size_gib = {settings['size_gib']}",
            "one size cannot hold for two databases",
            "headrace plan --against",
            "Write it into both workload files.",
        )
    progress = settings.pop("progress", None)
    halves = [None, None] if progress is None else [lambda done: progress(0.5 * done), lambda done: progress(0.5 + 0.5 * done)]
    plans = tuple(plan_transactions(one, **settings, progress=half) for one, half in zip((workload, other), halves, strict=True))
    return compare_engines(plans)
