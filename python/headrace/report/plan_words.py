"""A plan in sentences: the answer with its reasons, the headline, and the steps to take next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from headrace.base.core import describe_day
from headrace.planner.goals import MAX_HEADROOM_PERCENT
from headrace.planner.market.durability import LEAST_PERCENT, format_small_percent
from headrace.report.view import Mark
from headrace.report.words import (
    describe_goal,
    describe_storage,
    format_latency,
    format_number,
    format_percent,
    format_span,
    format_usd,
)

if TYPE_CHECKING:
    from headrace.planner import Choice
    from headrace.planner.result import Plan, Saving

REGRET = "Regret is the money lost if the calibration is off: on a choice that costs more than needed, or on one that misses the goals and must be replaced."
CENT = 0.005  # USD: a smaller difference does not show on a bill
# A line of the answer: a sentence and its mark.
Line: TypeAlias = tuple[str, Mark]


def list_answer_lines(plan: Plan) -> list[Line]:
    """Returns the answer in a few sentences, each with a mark: "good", "warn" or ""."""
    lines: list[Line] = [(words, "warn") for words in plan.doubts.warnings]
    if plan.recommended is not None:
        lines += _describe_recommended(plan, plan.recommended)
    elif plan.choices.closest:
        near = plan.choices.closest[0]
        cost = f"{near.place}, {format_usd(near.cost_usd_month)} USD a month"
        lines.append((f"Nothing meets every goal. Closest: {cost}: {'; '.join(near.misses)}.", "warn"))
    else:
        # A plan that an earlier version wrote does not say it.
        why = plan.choices.why_nothing or "the families of volumes say why"
        lines.append((f"Nothing meets every goal, and nothing comes close: {why}.", "warn"))
    lines += _describe_regret(plan)
    if plan.choices.compared is not None:
        lines += _describe_today(plan, plan.choices.compared)
    for check in plan.doubts.checks:
        means = f"recorded {format_latency(check['recorded_ms'])}, model {format_latency(check['model_ms'])} (means)"
        lines.append((f"Recorded I/O latency and the model's on today's storage, {check['what']}: {means}.", ""))
    return [*lines, (_describe_search(plan), ""), (f"{plan.search.prices}.", "")]


def _describe_recommended(plan: Plan, best: Choice) -> list[Line]:
    """Returns sentences on the recommended choice, on a cheaper one if there is, and warnings."""
    cheapest, why = plan.winner, plan.choices.why_recommended
    same = cheapest is not None and cheapest.key == best.key
    named = "Recommended, and the cheapest that meets every goal" if same else "Recommended"
    first = f"{named}: {best.place}, {format_usd(best.cost_usd_month)} USD a month; {_describe_facts(plan, best)}."
    lines: list[Line] = [(first, "good")]
    if cheapest is not None and not same and why:
        # The cheapest of all, or what would be recommended if it needed no migration.
        named = "Cheapest that meets every goal" if why.startswith(f"{cheapest.place} ") else "Cheaper"
        lines.append((f"{named}: {why}{_describe_required_changes(cheapest)}", ""))
    if not best.persistent:
        words = "The data are on local disks: all gone when the instance stops, hibernates or terminates."
        lines.append((words, "warn"))
    if best.headroom_percent == 0:
        lines.append(("It has no head-room: any growth of the demand breaks a goal.", "warn"))
    if below := plan.search.stepped_up:
        verb = "miss a goal" if len(below) > 1 else "misses a goal"
        how = "when simulated request by request, or in an unlucky run"
        lines.append((f"One step above {', '.join(below)}, which {verb} {how}.", ""))
    lines.extend((words, "warn") for words in best.far_from_runs)
    if best.runs_dry:
        lines.append((f"Credits: {best.runs_dry['words']}.", "warn"))
    if best.first_day:
        lines.append((_compare_first_day(best, best.first_day), ""))
    return lines


def _describe_facts(plan: Plan, choice: Choice) -> str:
    """Returns rate or latency, head-room and durability of a choice in one line."""
    if plan.subject == "database":
        tps, p95 = format_number(choice.metrics["tps"]), format_latency(choice.metrics["p95_ms"])
        parts = [f"{tps} tps, p95 {p95}, probability {format_percent(choice.probability)}"]
    else:
        parts = [f"I/O p99 of the worst 5 min {format_latency(choice.metrics['p99_ms'])}"]
    if choice.headroom_percent is not None:
        parts.append(f"head-room {describe_headroom(choice)}")
    return "; ".join([*parts, describe_durability(choice)])


def describe_headroom(choice: Choice) -> str:
    """Says the head-room in %, as in `+21 %`, or that there is none."""
    if choice.headroom_percent is None:
        return "-"
    if choice.headroom_percent >= MAX_HEADROOM_PERCENT:
        return f"{MAX_HEADROOM_PERCENT} % or more"
    return f"+{format_number(choice.headroom_percent)} %" if choice.headroom_percent else "none"


def describe_durability(choice: Choice) -> str:
    """Says how likely the data are lost in a year, in %."""
    if not choice.persistent:
        return "the data are gone when the instance stops"
    if choice.durability_afr_percent is None:
        return "no annual failure rate is published"
    chance = format_small_percent(choice.durability_afr_percent)
    if choice.durability_afr_percent < LEAST_PERCENT:
        return f"data-loss risk {chance} a year"
    return f"data-loss risk up to {chance} a year (1 in {format_number(100.0 / choice.durability_afr_percent, 2)})"


def _compare_first_day(choice: Choice, first: dict) -> str:
    """Returns a sentence on the first day, with full credits, and days once they are spent."""
    settled, parts = choice.metrics, []
    if first.get("tps") is not None:
        parts.append(
            f"{format_number(first['tps'])} tps on average on the first day, {format_number(settled['tps'])} once they are spent"
        )
    if (lowest := first.get("lowest_balance_percent")) is not None:
        later = format_number(settled["lowest_balance_percent"])
        parts.append(f"credits fall to {format_number(lowest)} % on the first day, to {later} % once days repeat")
    if first.get("p99_ms") is not None and settled["p99_ms"] is not None:
        parts.append(
            f"I/O p99 of the worst 5 min {format_latency(first['p99_ms'])} on the first day, {format_latency(settled['p99_ms'])} then"
        )
    return f"With full credits: {'; '.join(parts)}."


def _describe_today(plan: Plan, today: Choice) -> list[Line]:
    """Returns sentences on today's storage: its cost in USD a month, whether it meets the goals,
    and what the recommendation and the choice in place would save."""
    best, saving, in_place = plan.recommended, plan.choices.saving, plan.choices.in_place
    meets = "meets every goal" if today.meets_goals else f"fails: {'; '.join(today.misses)}"
    cost = f"Today {today.place} costs {format_usd(today.cost_usd_month)} USD a month"
    lines: list[Line] = [(f"{cost} and {meets}.", "" if today.meets_goals else "warn")]
    if today.runs_dry:
        lines.append((f"Today's credits: {today.runs_dry['words']}.", "warn"))
    differs = saving is not None and (abs(saving.as_planned) >= CENT or saving.equal_space)
    if best is not None and saving is not None and best.key != today.key and differs:
        lines.append((_describe_saving(saving, best, today), ""))
    if best is not None and best.migration:
        lines.append((f"From today to the recommendation: {best.migration}.", ""))
    if in_place is not None and (best is None or in_place.key != best.key) and in_place.key != today.key:
        less = today.cost_usd_month - in_place.cost_usd_month
        against = f"{format_usd(abs(less))} {'less' if less >= 0 else 'more'} than today"
        cost = f"{format_usd(in_place.cost_usd_month)} USD a month ({against})"
        settings = "".join(f", and {words}" for words in in_place.changes)
        volumes = f"modify today's volumes into {in_place.storage}{_describe_log_change(in_place, today)}"
        if (in_place.storage, in_place.log_storage) == (today.storage, today.log_storage):
            volumes = "keep today's volumes"
        lines.append((f"Without moving data: {volumes}{settings}, for {cost}; {_describe_facts(plan, in_place)}.", ""))
    return lines


def _describe_log_change(place: Choice, now: Choice) -> str:
    return "" if place.log_storage == now.log_storage else f", the log's into {place.log_storage}"


def _describe_required_changes(choice: Choice) -> str:
    """Returns a sentence for each setting that must change before the figures of a choice hold."""
    return "".join(f" These figures require a change: {words}." for words in choice.changes)


def _describe_saving(saving: Saving, best: Choice, now: Choice) -> str:
    """Says what the recommendation saves in USD a month and a year, at equal usable space if the
    sizes differ."""

    def describe_amount(amount: float) -> str:
        return f"{'saves' if amount >= 0 else 'costs'} {format_usd(abs(amount))} USD a month{'' if amount >= 0 else ' more'}"

    if saving.equal_space is None:
        return f"The recommendation {describe_amount(saving.as_planned)}; it holds less than today's."
    if abs(saving.equal_space - saving.as_planned) < CENT:
        # A year of it: what a budget is made of.
        return f"The recommendation {describe_amount(saving.as_planned)}, {format_usd(abs(saving.as_planned) * 12)} a year."
    holds = [format_number(choice.usable_gib + choice.log_gib, 6) for choice in (best, now)]
    return (
        f"At equal usable space ({format_number(saving.gib, 6)} GiB) the recommendation {describe_amount(saving.equal_space)}, "
        f"{format_usd(abs(saving.equal_space) * 12)} a year; as planned it {describe_amount(saving.as_planned)}, because it holds {holds[0]} GiB "
        f"and today's {holds[1]} GiB."
    )


def _describe_regret(plan: Plan) -> list[Line]:
    """Says which choice has the least expected regret, in USD a month; empty where it was not
    computed."""
    best = plan.choices.least_regret
    if best is None:
        return []
    figures = (
        f"{format_usd(best.regret_expected_usd)} USD a month expected, {format_usd(best.regret_worst_usd)} USD at worst"
    )
    if plan.recommended and best.key == plan.recommended.key:
        lines: list[Line] = [(f"It also has the least expected regret: {figures}. {REGRET}", "")]
    else:
        less = "" if best.meets_goals else ", below the requested confidence"
        place = f"{best.place}, {format_usd(best.cost_usd_month)} USD a month, probability {format_percent(best.probability)}{less}"
        named = f"Least expected regret, given the uncertainty of the calibration: {place}; regret {figures}."
        lines = [(f"{named}{_describe_required_changes(best)} {REGRET}", "")]
    if plan.doubts.undecided:
        share = f"In {format_percent(plan.doubts.undecided)} of the cases within the uncertainty of the calibration"
        lines.append((f"{share}, no candidate meets the goals; the regret does not count these cases.", "warn"))
    return lines


def _describe_search(plan: Plan) -> str:
    """Says how many candidates were evaluated and how, and what the probabilities are based on."""
    search, draws = plan.search, plan.doubts.draws
    on = f" on {search.instances:,} instance type{'s' * (search.instances != 1)}" if search.instances else ""
    database = plan.subject == "database"
    cannot = "unable to reach the goals" if database else "unable to deliver the demand"
    counts = ((search.simulated, "simulated"), (search.bounded, cannot), (search.invalid, "not possible"))
    counts_text = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    if not search.considered:
        # No family can hold the data, or has a price: there are no probabilities either.
        return f"There was no candidate to evaluate{on}."
    words = f"{search.considered:,} candidates{on} evaluated: {counts_text}"
    if not database:
        return f"{words}. Every other candidate is proven to cost more or to miss a goal."
    if not draws:
        return (
            f"{words}. Probabilities reflect only how runs vary: the parameters of this workload come without an "
            "uncertainty, because no calibration fitted them."
        )
    drawn = "1 database" if draws == 1 else f"{draws:,} databases"
    return f"{words}. Probabilities are based on {drawn} drawn from the calibration."


def make_title(plan: Plan) -> str:
    """Returns workload, goals and conditions of a plan in a line."""
    load = plan.load
    parts = [f"{plan.name}: {' and '.join(map(str, plan.goals))}", _describe_load(plan)]
    if plan.subject == "database":
        parts += [f"{load.start} start", f"{load.hours:g} h"]
    else:
        parts.append("credits of the settled day" if load.cycle == "settled" else "credits of the first day")
    data = f"{load.size_gib:,.5g} GiB of data with {load.free_percent:g} % free: {load.needed_gib:,.6g} GiB"
    return ", ".join([*parts, data, plan.search.region, describe_day(plan.search.as_of)])


def _describe_load(plan: Plan) -> str:
    """Returns the clients or arrivals of a database, or the factor on a demand, in words."""
    load = plan.load
    if plan.subject != "database":
        return f"demand x {load.demand_growth:.4g}"
    return f"{load.threads} clients" if load.threads else f"{load.arrivals_tps:g} transactions a second arrive"


def list_next_lines(plan: Plan) -> list[str]:
    """Returns the next steps, with the lines to paste and how to undo them; then the same for the
    alternative in place."""
    steps, place = plan.steps, plan.choices.in_place
    lines = _list_action_lines(steps.actions)
    if place is not None and steps.in_place_actions:
        lines.append(f"Instead, without moving data, {place.place}:")
        lines += _list_action_lines(steps.in_place_actions)
    if steps.alarms:
        lines.append("CloudWatch alarms worth having:")
        lines += [f"    {describe_alarm(alarm)}" for alarm in steps.alarms]
    return lines


def _list_action_lines(actions: Sequence[dict]) -> list[str]:
    """Lists the steps, each with its lines to paste and how to undo them."""
    lines = []
    for action in actions:
        lines.append(f"{action['what']}:")
        lines += [f"    {line}" for line in action["lines"]]
        lines += [f"    undo: {action['undo']}"] if action["undo"] else []
    return lines


def describe_alarm(alarm: dict) -> str:
    """Returns a CloudWatch alarm in a line: metric, threshold, periods and reason."""
    period = format_span(alarm["period_s"])
    when = f"{alarm['points']} of {alarm['of']} x {period}" if alarm["of"] > 1 else period
    level = f"{alarm['statistic']} {alarm['comparison']} {format_number(alarm['threshold'])}"
    return f"{alarm['namespace']} {alarm['metric']} {level}, {when}: {alarm['why']}"


def make_headline(plan: Plan) -> str:
    """Says in a sentence what to buy and what it saves."""
    best, saving, now = plan.recommended, plan.choices.saving, plan.choices.compared
    if best is None:
        return f"No storage meets every goal of {plan.name}"
    words = f"{describe_place(best, brief=True)} meets every goal of {plan.name} for {format_usd(best.cost_usd_month)} USD a month"
    if saving is None or now is None or now.key == best.key or abs(saving.as_planned) < CENT:
        return words
    return f"{words}, {format_usd(abs(saving.as_planned))} {'less' if saving.as_planned > 0 else 'more'} than today"


def describe_conditions(plan: Plan) -> str:
    """Returns what the answer holds for, in a reader's words: goals, data, load, region, day."""
    goals = ", ".join(describe_goal(goal) for goal in plan.goals)
    data = f"{format_number(plan.load.size_gib, 5)} GiB of data with {plan.load.free_percent:g} % free"
    load = [] if plan.subject == "demand" and plan.load.demand_growth == 1 else [_describe_load(plan)]
    market = f"{plan.search.region}, limits and prices of {plan.search.as_of}"
    return f"{'; '.join([f'Goals: {goals}', data, *load, market])}; simulated"


def describe_place(choice: Choice, brief: bool = False) -> str:
    """Returns storage and instance of a choice in words; `brief`: without IOPS, MiB/s and log."""
    if choice.service != "ec2":
        return choice.place
    words = describe_storage(choice.storage, brief)
    if choice.log_storage is not None and not brief:
        words = f"{words}, log on {describe_storage(choice.log_storage)}"
    return f"{choice.instance} with {words}" if choice.instance else words
