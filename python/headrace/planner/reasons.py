"""Why a family is or is not the answer, why the recommendation is not the cheapest, which engine
costs less, and the arithmetic, in words with numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.base import caps, core
from headrace.base.units import MIB, describe_span
from headrace.planner.actions import describe_migration
from headrace.planner.candidates import HDD, LOCAL, Candidate, Family, Need, get_instance_family
from headrace.planner.choice import DatabaseChooser, DemandChooser
from headrace.planner.database import Conditions
from headrace.planner.goals import DEMAND, MAX_HEADROOM_PERCENT, format_number
from headrace.planner.replay import RUNS
from headrace.planner.result import Choice, EngineComparison, FamilyVerdict, Plan
from headrace.planner.settings import MAX_VOLUMES
from headrace.workload import OpenWorkload

CENT = 0.005  # USD: a smaller difference does not show on a bill
SIGNIFICANTLY_DEARER = 1.005  # below this two costs are called the same
# Savings, in percent and in USD a month, from which on an array, another instance family or a
# migration is recommended; both must be reached. Each of these costs operations (multi-volume
# snapshots, growth, a larger chance of loss; another machine to test), which is a judgement, not a
# measurement.
SAVES_PERCENT, SAVES_USD = 20.0, 20.0
# Runs near a cap that differ by less than a percent are not told apart.
RUNS_DIFFER = 1.01
REASONS_SHOWN = 3  # families, in a sentence; the table has them all
LEAST_SAVING_USD = 1.0  # a month: below it a modification is not worth its risk (a judgement)
# Share of random requests up to which st1 and sc1 are recommended: a judgement. The simulation
# charges each of them a whole MiB and the latency of a seek; but the share is an estimate, and the
# first report or backup that reads at random finds the volume at its limit.
MOST_RANDOM_PERCENT = 20.0


def judge_family(
    best: Choice | None,
    family: Family,
    winner: Choice | None,
    overload: float | None,
    dear: float | None,
    needed_gib: int,
    refused: str = "",
) -> FamilyVerdict:
    """Gives the verdict on a family whose cheapest choice that meets the goals, or nearest, is
    `best`; `overload`: the demand over what that sustains; `dear`: USD a month that its cheapest
    costs at the least, where it was not looked at because of that; `refused`: why none of the
    candidates that were tried can be, "" where there was none to try."""
    name = family.name
    if best is None:
        if dear is not None:
            least = f"costs at least {dear:,.2f} USD a month, far more than the cheapest"
            return FamilyVerdict(name, "costs more", least)
        return FamilyVerdict(name, "impossible", refused or _explain_impossibility(family, needed_gib))
    ratio = best.cost_usd_month / winner.cost_usd_month if winner and winner.cost_usd_month > 0 else None
    if winner is not None and best.key == winner.key:
        sure = "" if best.probability is None else f" with {100 * best.probability:.0f} %"
        gone = "" if best.persistent else "; the data is gone with the instance"
        why = f"cheapest that meets every goal{sure}; bottleneck: {best.binds['words']}{gone}"
        return FamilyVerdict(name, "wins", why, best, 1.0)
    if not best.meets_goals:
        return FamilyVerdict(name, "fails", _explain_failure(best, overload), best, ratio, overload)
    if winner is None or ratio is None:
        return FamilyVerdict(name, "costs more", "meets every goal", best, ratio)
    if best.cost_usd_month - winner.cost_usd_month < CENT:
        volumes = ", with more volumes" if best.members > winner.members else ""
        return FamilyVerdict(name, "costs the same", f"meets every goal{volumes}", best, ratio)
    return FamilyVerdict(name, "costs more", _explain_cost(best, family, winner, ratio, needed_gib), best, ratio)


def _explain_impossibility(family: Family, needed_gib: int) -> str:
    """Says in words why there is no candidate of a family to try."""
    if family.service != "ec2":
        return f"holds less than the {needed_gib:,} GiB needed"
    if family.volume_type == LOCAL:
        return "no instance given has local disks of that layout that hold the data"
    least = family.compute_least_members(needed_gib)
    if family.most_gib >= needed_gib:
        return f"{needed_gib:,} GiB need {least} volumes or more, which no instance given can attach"
    if family.layout == "single":
        return f"holds {family.most_gib:,} GiB at most, {needed_gib:,} GiB needed"
    limited = f"holds {family.most_gib:,} GiB at most with {max(family.counts)} volumes, {needed_gib:,} GiB needed"
    return f"{limited} (--max-volumes {least} allows that)" if least <= MAX_VOLUMES else limited


def explain_nothing(
    verdicts: Sequence[FamilyVerdict], families: Sequence[Family], needed_gib: int, may_stripe: bool
) -> str:
    """Says why there is no candidate at all, nor one that comes near: the exclusion, the prices, or
    what limits the size. `families`: those that were searched; `may_stripe`: RAID 0 was not
    excluded."""
    own = [family for family in families if family.service == "ec2" and family.volume_type != LOCAL]
    if own and all(family.most_gib < needed_gib for family in own):
        largest = max(own, key=lambda family: family.most_gib)
        most = f"the most is {largest.name}'s {largest.most_gib:,} GiB with {max(largest.counts)} volumes at most"
        words = f"{needed_gib:,} GiB are needed, and {most} (--max-volumes)"
        least = min(family.compute_least_members(needed_gib) for family in own if family.layout == "single")
        return f"{words}; --max-volumes {least} would hold them" if may_stripe and least <= MAX_VOLUMES else words
    families_of: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.exists and verdict.family != LOCAL:
            families_of.setdefault(verdict.why.replace(f" of {verdict.family} ", " "), []).append(verdict.family)
    searched = {family.name for family in families}
    # First of those that could be searched; the reason of a single family says more than one that
    # all share.
    reasons = sorted(families_of.items(), key=lambda reason: (searched.isdisjoint(reason[1]), len(reason[1])))
    parts = [f"{', '.join(sorted(names))}: {why}" for why, names in reasons[:REASONS_SHOWN]]
    parts += ["others for other reasons (--families)"] if len(reasons) > REASONS_SHOWN else []
    return "; ".join(parts) or "no family of volumes was searched"


def _explain_cost(best: Choice, family: Family, winner: Choice, ratio: float, needed_gib: int) -> str:
    """Says in words by how much a family costs more than the winner, and which item of the bill
    that comes from. `ratio`: its cost over the winner's."""
    more = best.cost_usd_month - winner.cost_usd_month
    if ratio < SIGNIFICANTLY_DEARER:
        return f"costs {more:,.2f} USD a month more" + (" with more volumes" if best.members > winner.members else "")
    why = f"costs {ratio:.3g} x: {best.cost_usd_month:,.2f} against {winner.cost_usd_month:,.2f} USD a month"
    hosts = best.sum_usd("instance") - winner.sum_usd("instance")
    if best.instance != winner.instance and hosts > 0.5 * more:
        return f"{why}; {hosts:,.2f} more for the instance ({best.instance} instead of {winner.instance})"
    paid = {item["item"]: item["usd"] for item in winner.items}
    extra, item = max((item["usd"] - paid.get(item["item"], 0.0), item["item"]) for item in best.items)
    why += f"; {extra:,.2f} more for {item}" if extra > 0.5 * more else ""
    if family.service != "ec2":
        return why
    if family.min_gib > needed_gib * family.data_copies / best.members and family.min_gib > 1:
        why += f"; smallest size {family.min_gib:,} GiB a volume"
    elif best.usable_gib >= 1.5 * needed_gib and family.axis == "size":
        why += f"; performance is bought by size: {best.usable_gib:,.0f} GiB for {needed_gib:,} GiB"
    return why


def _explain_failure(best: Choice, overload: float | None) -> str:
    """Says in words which goals the nearest of a family misses. `overload`: the demand over what it
    sustains; None: it sustains it."""
    parts = []
    asks_too_much = best.asks is not None and best.asks["never"]
    if overload is not None and overload > 1 and not asks_too_much:
        parts.append(f"cannot deliver: the demand is {overload:.3g} x what {best.storage} sustains")
    if best.runs_dry:
        parts.append(best.runs_dry["words"])
    # Hours of backlog say nothing more once it is known that the demand cannot be delivered.
    hopeless = bool(parts) and overload is not None and overload > 1 and not asks_too_much
    parts += [miss for miss in best.misses if not hopeless or miss.startswith(("throttled", "monthly", "holds"))]
    if best.binds.get("throttled_s", 1.0) > 0:
        parts.append(f"bottleneck: {best.binds['words']}")
    return "; ".join(parts) or "not sure enough"


# --- the recommendation ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """Rule by which a recommendation is chosen: which choices it keeps, and why the others are
    passed over. `pays`: others are taken all the same where they save at least 20 % and 20 USD a
    month."""

    keep: Callable[[Choice], bool]
    why: str
    pays: bool = False


def recommend(
    choices: Sequence[Choice],
    today_family: str | None,
    least_host: tuple[float, int] | None = None,
    random_percent: float = 100.0,
) -> tuple[Choice | None, str]:
    """Recommends one of the choices that meet the goals, and says why it is not the cheapest of
    them ("" where it is).

    In this order: durable volumes; of a demand, no less memory and processors than today
    (`least_host`: GiB, virtual CPUs); types that suit the load (`random_percent` of its requests
    are random); the instance family of today, where it is known, unless leaving it saves at least
    20 % and 20 USD a month; one volume, unless more save as much; then the cheapest.
    """
    if not choices:
        return None, ""
    cheapest = min(choices, key=_rank_choice)
    pool, passed_over = list(choices), []
    for rule in _list_rules(today_family, least_host, random_percent):
        keeping = [choice for choice in pool if rule.keep(choice)]
        if not keeping or len(keeping) == len(pool):
            continue
        if rule.pays and _pays(_choose_fewest_volumes(keeping), _choose_fewest_volumes(pool)):
            continue
        if not rule.keep(cheapest):
            passed_over.append(rule.why)
        pool = keeping
    best = _choose_fewest_volumes(pool)
    if best.volumes < cheapest.volumes:
        passed_over.append(_explain_array(best, cheapest))
    if best.key == cheapest.key:
        return best, ""
    less = f"{cheapest.place} would cost {best.cost_usd_month - cheapest.cost_usd_month:,.2f} USD a month less"
    return best, f"{less}, but {'; '.join(passed_over) or 'is not better otherwise'}."


def _list_rules(today_family: str | None, least_host: tuple[float, int] | None, random_percent: float) -> list[Rule]:
    """Returns the rules of a recommendation before the number of volumes, in their order."""
    rules = [Rule(lambda choice: choice.persistent, "its data is gone when the instance stops")]
    if least_host is not None:
        memory, vcpus = least_host
        why = "it has less memory or fewer processors than today, with which the server's demand would be another"
        rules.append(Rule(lambda choice: (choice.memory_gib or 0) >= memory and (choice.vcpus or 0) >= vcpus, why))
    rules.append(Rule(lambda choice: choice.volume_type != "standard", "its type promises no IOPS"))
    if random_percent > MOST_RANDOM_PERCENT:
        why = (
            f"its type is made for sequential requests, and {random_percent:.0f} % of these are random: "
            "each costs a whole MiB and a seek"
        )
        rules.append(Rule(lambda choice: choice.volume_type not in HDD, why))
    if today_family is not None:
        why = (
            f"it leaves the instance family of today ({today_family}), which is recommended where it saves at least "
            f"{SAVES_PERCENT:.0f} % and {SAVES_USD:.0f} USD a month"
        )

        def is_of_today_family(choice: Choice) -> bool:
            return get_instance_family((choice.instance or "").removeprefix("db.")) == today_family

        rules.append(Rule(is_of_today_family, why, pays=True))
    return rules


def _pays(dear: Choice, cheap: Choice) -> bool:
    """Says whether the cheaper of two saves at least 20 % and 20 USD a month."""
    saved = dear.cost_usd_month - cheap.cost_usd_month
    return saved >= SAVES_USD and 100 * saved >= SAVES_PERCENT * dear.cost_usd_month


def recommend_staying(
    recommended: Choice | None, why: str, today: Choice | None, in_place: Choice | None
) -> tuple[Choice | None, str]:
    """Returns the recommendation with its reason (`why`); where it needs a migration that saves
    less than 20 % or 20 USD a month, today's storage or its modification `in_place` instead."""
    if recommended is None or today is None or not (describe_migration(today, recommended) or "").startswith("needs"):
        return recommended, why
    staying = [choice for choice in (today, in_place) if choice is not None and choice.meets_goals]
    if not staying:
        return recommended, why
    best = min(staying, key=lambda choice: (round(choice.cost_usd_month, 2), choice is not today))
    # For a cent nobody touches a volume.
    if best is not today and today.meets_goals and today.cost_usd_month - best.cost_usd_month < LEAST_SAVING_USD:
        best = today
    saved = best.cost_usd_month - recommended.cost_usd_month
    if _pays(best, recommended):
        return recommended, why
    if saved < CENT:
        return best, ""
    less = f"{recommended.place} would cost {saved:,.2f} USD a month less, but needs a migration"
    rule = f"which is recommended where it saves at least {SAVES_PERCENT:.0f} % and {SAVES_USD:.0f} USD a month."
    return best, f"{less}, {rule}"


def _rank_choice(choice: Choice) -> tuple:
    return (round(choice.cost_usd_month, 6), choice.members, choice.log_storage is not None, choice.place)


def _choose_fewest_volumes(pool: Sequence[Choice]) -> Choice:
    """Returns the cheapest choice with the fewest volumes; one with more volumes only where it
    saves enough."""
    best: Choice | None = None
    for volumes in sorted({choice.volumes for choice in pool}):
        cheapest = min((choice for choice in pool if choice.volumes == volumes), key=_rank_choice)
        if best is None or _pays(best, cheapest):
            best = cheapest
    assert best is not None
    return best


def _explain_array(best: Choice, cheapest: Choice) -> str:
    """Says in words why fewer volumes are recommended than the cheapest choice has, with the risk
    of both to lose everything."""
    cheapest_afr, best_afr = cheapest.durability_afr_percent, best.durability_afr_percent
    risk = ""
    if cheapest_afr and best_afr and cheapest_afr > best_afr:
        risk = f", and its risk of losing all data is {cheapest_afr:.2g} % a year instead of {best_afr:.2g} %"
    saves = f"where they save at least {SAVES_PERCENT:.0f} % and {SAVES_USD:.0f} USD a month"
    return f"it needs {cheapest.volumes} volumes instead of {best.volumes}{risk}: more volumes are recommended {saves}"


# --- two databases --------------------------------------------------------------------------------


def compare_engines(plans: tuple[Plan, Plan]) -> EngineComparison:
    """Says which of two databases meets the goals for fewer USD a month."""
    costs = [plan.recommended.cost_usd_month if plan.recommended else None for plan in plans]
    details = " ".join(_describe_engine(plan) for plan in plans)
    names = [plan.engine if plans[0].engine != plans[1].engine else plan.name for plan in plans]
    if costs[0] is None and costs[1] is None:
        return EngineComparison(plans, None, f"Neither meets the goals. {details}")
    if costs[0] is None or costs[1] is None:
        place = 0 if costs[1] is None else 1
        return EngineComparison(plans, place, f"Only {names[place]} meets the goals. {details}")
    place = 0 if costs[0] <= costs[1] else 1
    less = abs(costs[0] - costs[1])
    share = less / max(costs[0], costs[1])
    if share < SIGNIFICANTLY_DEARER - 1.0:
        return EngineComparison(plans, place, f"Both cost nearly the same, {less:,.2f} USD a month apart. {details}")
    words = f"{names[place]} costs {less:,.2f} USD a month less ({100 * share:.0f} %)."
    return EngineComparison(plans, place, f"{words} {details}")


def _describe_engine(plan: Plan) -> str:
    """Says in words what a database costs on its recommended storage, or on the closest where
    nothing meets the goals."""
    holds = f"{plan.engine} ({plan.load.size_gib:,.0f} GiB)"
    best = plan.nearest
    if best is None:
        return f"{holds}: nothing comes close."
    cost = f"{best.place}, cache {best.cache_gib:.3g} GiB, {best.cost_usd_month:,.2f} USD a month, {best.metrics['tps']:,.0f} tps"
    return f"{holds}: {cost}." if plan.recommended else f"{holds}: closest is {cost}: {'; '.join(best.misses)}."


# --- the arithmetic -------------------------------------------------------------------------------


def explain(chooser: DemandChooser | DatabaseChooser, choices: Sequence[tuple[Candidate, Choice]]) -> list[str]:
    """Explains the arithmetic of some choices, line by line: capacity, demand against limits, bill,
    head-room."""
    lines: list[str] = []
    by_key = {choice.key: (candidate, choice) for candidate, choice in choices}
    for place, (candidate, choice) in enumerate(by_key.values(), 1):
        if isinstance(chooser, DatabaseChooser):
            own = _list_database_lines(chooser, candidate, choice)
        else:
            own = _list_demand_lines(chooser, candidate, choice)
        lines.append(f"{place}. {choice.place}")
        lines += ["   " + line for line in [*own, *_list_bill_lines(choice)]]
    return lines


def _list_bill_lines(choice: Choice) -> list[str]:
    """Lists the items of the monthly bill in USD, its sum, durability and consistency, a line
    each."""
    lines = []
    for item in choice.items:
        price = f"{item['quantity']:,.10g} {item['unit']} x {item['unit_price_usd']:.10g} USD = {item['usd']:,.2f} USD"
        lines.append(f"bill: {item['part']}: {item['item']}: {price} ({item['source']}, {item['as_of']})")
    return [
        *lines,
        f"bill: together {choice.cost_usd_month:,.2f} USD a month",
        f"durability: {choice.durability}; consistency: {choice.consistency}",
    ]


def _list_demand_lines(chooser: DemandChooser, candidate: Candidate, choice: Choice) -> list[str]:
    """Explains a choice for a demand: capacity, peaks against limits, bottleneck, goals, replay and
    head-room, a line each."""
    limits = chooser.list_limits(candidate)[0]
    lines = [
        f"{chooser.need.data_gib:,} GiB needed, {choice.usable_gib:,.0f} GiB usable of {choice.members} x {limits['spec']['size_gib']:,} GiB"
    ]
    lines += _explain_capacity(chooser.directory.look_up(candidate[0], choice.service).family, limits)
    for used in chooser.list_utilisations(candidate, limits):
        whose = "all volumes together" if used["cap"].startswith("instance") else "a volume"
        lines.append(
            f"peak {chooser.describe_moment(used['at_s'])}: {used['asked']:,.1f} {used['unit']} demanded of {whose}, "
            f"{caps.describe_cap(used['cap'])} {used['allowed']:,.1f}: {100 * used['utilisation']:.1f} %"
        )
    if choice.metrics["lowest_balance_percent"] is not None and (limits["io_burst"] or limits["byte_burst"]):
        lines.append(f"lowest credit balance {choice.metrics['lowest_balance_percent']:.1f} %")
    lines += [choice.runs_dry["words"]] if choice.runs_dry else []
    lines.append(f"bottleneck: {choice.binds['words']}")
    for goal in chooser.judge.goals:
        value = choice.metrics[goal.metric]
        figure = "not known" if value is None else f"{value:,.4g}"
        lines.append(f"goal: {goal}: {figure} {'met' if goal.is_met(value) else 'MISSED'}")
    lines += _list_replay_lines(choice)
    if choice.headroom_percent is not None:
        lines.append(
            f"head-room: demand can grow by {choice.headroom_percent:.0f} % before a goal on performance fails or something is throttled "
            f"(1 % steps, up to {MAX_HEADROOM_PERCENT} %; data aside)"
        )
    return lines


def _list_replay_lines(choice: Choice) -> list[str]:
    """Explains the replay of a choice: requests, latencies in ms, the unluckiest run; empty where
    it was not replayed."""
    if choice.replayed is None:
        return []
    replayed = choice.replayed
    at = f"with {replayed.headroom_percent:g} % more demand, " if replayed.headroom_percent else ""
    figures = ", ".join(f"{DEMAND[name].words} {format_number(value)} ms" for name, value in replayed.metrics.items())
    lines = [f"replayed request by request, {at}{replayed.requests:,} requests of the worst minutes: {figures}"]
    for name, value in replayed.unlucky.items():
        mean = choice.metrics[name]
        if mean is not None and value > mean * RUNS_DIFFER:
            words = f"{DEMAND[name].words} {format_number(value)} ms in the unluckiest of {RUNS}"
            lines.append(
                f"near a cap runs differ by chance: {at}{words}, by which the goal is judged; in the mean {format_number(mean)} ms"
            )
    return lines


def _explain_capacity(family: Family, limits: core.VolumeLimits) -> list[str]:
    """Explains what one volume delivers: IOPS and MiB/s, and credits with the seconds that they
    last at full burst."""
    size = limits["spec"]["size_gib"]
    mib_s = limits["throughput_bytes_s"] / MIB
    if limits["io_burst"]:
        burst, per_gib = limits["io_burst"], family.find_figure("iops", "per_gib") or 0.0
        seconds = burst["capacity_ios"] / max(1, burst["iops"] - limits["iops"])
        return [
            f"baseline: {per_gib:g} IOPS/GiB x {size:,} GiB = {per_gib * size:,.0f}, "
            f"within limits {limits['iops']:,} IOPS a volume; {mib_s:,.0f} MiB/s",
            f"burst: {burst['iops']:,} IOPS; {burst['capacity_ios']:,} credits / ({burst['iops']:,} - {limits['iops']:,}) "
            f"= {seconds:,.0f} s at full burst",
        ]
    if limits["byte_burst"]:
        burst = limits["byte_burst"]
        baseline, capacity = burst["baseline_bytes_s"] / MIB, burst["capacity_bytes"] / MIB
        lines = [f"baseline: {baseline:,.1f} MiB/s a volume of {size:,} GiB; burst {mib_s:,.1f} MiB/s"]
        if mib_s > baseline:
            seconds = capacity / (mib_s - baseline)
            lines.append(
                f"credits: {capacity:,.0f} MiB / ({mib_s:,.1f} - {baseline:,.1f}) = {seconds:,.0f} s at full burst"
            )
        return lines
    return [f"capacity: {limits['iops']:,} IOPS and {mib_s:,.0f} MiB/s a volume"]


def _list_database_lines(chooser: DatabaseChooser, candidate: Candidate, choice: Choice) -> list[str]:
    """Explains a choice for a database: room, load, cache, I/Os of a transaction, processors, tps
    with interval, goals and regret, a line each."""
    judge = chooser.judge
    per, tps, need = choice.per_transaction or {}, choice.metrics["tps"], chooser.need
    limits = chooser.list_limits(candidate)
    iops, mib_s = (sum(limit[name] or 0 for limit in limits) for name in ("iops", "throughput_bytes_s"))
    conditions = judge.conditions
    load = (
        f"{conditions.threads} clients"
        if conditions.threads
        else f"{conditions.arrivals_tps:g} transactions a second arrive"
    )
    lines = [
        f"data: {need.data_gib:,} GiB with free space",
        _explain_log_room(conditions, need),
        f"{load}; {conditions.start} start, {conditions.hours:g} h; what is sustained is the worst hour",
    ]
    if choice.instance:
        lines.append(f"cache: {choice.memory_gib:,.4g} GiB of memory -> {choice.cache_gib:,.4g} GiB")
    lines += [
        f"a transaction: {per['reads']:.3g} page reads, {per['ios']:.3g} I/Os of up to 256 KiB, {per['mib'] * 1024:,.0f} KiB, on all devices, log included",
        f"{tps:,.0f} tps x {per['ios']:.3g} = {tps * per['ios']:,.0f} IOPS; x {per['mib'] * 1024:,.0f} KiB = {tps * per['mib']:,.0f} MiB/s",
        "Aurora writes log alone, and reads pages over the network: no volume is bought"
        if not limits
        else f"data volumes sell {iops:,} IOPS and {mib_s / MIB:,.0f} MiB/s ({choice.members} x {choice.volume_type}; writes to mirrors count twice)",
    ]
    if choice.vcpus and (instance := judge.hosts[candidate[2]].instance) is not None:
        most = core.processors_tps(judge.database["clients"], instance)
        lines.append(f"processors: {tps:,.0f} tps of the {most:,.0f} that {choice.vcpus} virtual CPUs could do")
    lines += [choice.runs_dry["words"]] if choice.runs_dry else []
    lines.append(f"bottleneck: {choice.binds['words']}")
    lines.append(
        f"tps {format_number(tps)}, 80 % interval {format_number(choice.tps_low or 0.0)} to {format_number(choice.tps_high or 0.0)}; one-second tps above "
        f"{format_number(choice.metrics['tps_p5'])} 95 % of the time; "
        f"response times p50 {format_number(choice.metrics['p50_ms'])}, p95 {format_number(choice.metrics['p95_ms'])}, p99 {format_number(choice.metrics['p99_ms'])} ms"
    )
    lines += [
        f"goal {goal}: holds with {100 * probability:.0f} %"
        for goal, probability in (choice.goal_probabilities or {}).items()
    ]
    if choice.regret_expected_usd is not None:
        lines.append(
            f"regret, given the uncertainty of the calibration: {choice.regret_expected_usd:,.2f} USD a month expected, {choice.regret_worst_usd:,.2f} worst"
        )
    return lines


def _explain_log_room(conditions: Conditions, need: Need) -> str:
    """Explains the room for redo and binary logs, GiB."""
    log = conditions.logged
    reason = "that arrive" if conditions.arrivals_tps else "that the goals ask for"
    days = "a day" if log.days == 1 else f"{log.days:g} days"
    return (
        f"log: redo {log.redo_gib:,} GiB; binary logs of {days} at the {format_number(log.tps)} tps {reason}, head-room included, "
        f"x {log.bytes_per_tx:,.0f} B: {log.binlog_gib:,} GiB; with free space {need.log_gib:,} GiB, with the data or on a "
        "volume of their own"
    )


# A rate this many times what the room for binary logs was planned for is worth a note.
FASTER = 1.1


def note_binlogs(conditions: Conditions, choice: Choice | None) -> str | None:
    """Returns a note on how long the binary logs can be kept where clients do more transactions
    than the goals ask for; None where they do not, or where no binary logs are kept."""
    log, tps = conditions.logged, 0.0 if choice is None else choice.metrics["tps"] or 0.0
    if choice is None or not log.bytes_per_tx or not log.days or tps < FASTER * log.tps:
        return None
    hours = 24.0 * log.days * log.tps / tps
    span = "a day" if log.days == 1 else f"{log.days:g} days"
    return (
        f"Room for binary logs is that of {span} at {format_number(log.tps)} tps, which the goals ask for ({log.binlog_gib:,} GiB). "
        f"At the {format_number(tps)} tps that its clients can do without a pause, it is {log.compute_binlog_gib(tps):,} GiB: keep them for "
        f"{hours:.0f} h (binlog_expire_logs_seconds = {round(hours) * 3600}), or ask for that rate."
    )


def compare_latency(
    workload: OpenWorkload, recorded: pl.DataFrame, rows: pl.DataFrame, clock: Callable[[float], str]
) -> list[dict]:
    """Compares recorded latency with the model's on today's storage: over the whole recording and
    in the hour whose recorded latency was highest.

    Dicts of `what`, `recorded_ms`, `model_ms`. A check of the model that costs nothing. Points at a
    limit are left out: what was recorded there is less than what was asked, so the model is given
    another question. `recorded`: frame of `t_s`, `mean_ms`; `rows`: of the simulation; `clock`:
    seconds to words.
    """
    span_s = workload.span_s
    both = recorded.join_asof(
        rows.select("t_s", pl.col("mean_ms").alias("model_ms"), "iops"), on="t_s", strategy="backward"
    ).drop_nulls()
    for window in workload.censored:
        both = both.filter((pl.col("t_s") < window.from_s) | (pl.col("t_s") >= window.to_s))
    if both.is_empty():
        return []
    apart = ", minutes at a limit left out" if workload.censored else ""

    def compute_mean(frame: pl.DataFrame, column: str) -> float:
        """Returns the mean latency of a column, ms, weighted by the I/Os of each point."""
        weight = float(frame["iops"].sum())
        if weight > 0:
            return float((frame[column] * frame["iops"]).sum()) / weight
        return float(frame[column].mean() or 0.0)  # pyright: ignore[reportArgumentType]

    checks = [
        {
            "what": f"over {describe_span(round(span_s))}{apart}",
            "recorded_ms": compute_mean(both, "mean_ms"),
            "model_ms": compute_mean(both, "model_ms"),
        }
    ]
    if span_s > 2 * 3_600:
        hours = both.with_columns((pl.col("t_s") // 3_600).alias("hour"))
        means = hours.group_by("hour", maintain_order=True).agg(pl.col("mean_ms").mean())
        worst = means.sort("mean_ms", descending=True)["hour"][0]
        part = hours.filter(pl.col("hour") == worst)
        what = f"in the hour {clock(float(worst) * 3_600)}"
        recorded_ms, model_ms = compute_mean(part, "mean_ms"), compute_mean(part, "model_ms")
        checks.append({"what": what, "recorded_ms": recorded_ms, "model_ms": model_ms})
    return checks
