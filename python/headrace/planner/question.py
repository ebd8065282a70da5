"""Checks the settings of a plan, and turns those of a command or a call into a question that the
engine can answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from headrace.base import core
from headrace.base.checks import quote_value
from headrace.base.core import translate_core_errors
from headrace.base.options import complete, list_given
from headrace.base.storage import Placement, parse_placement
from headrace.base.units import DAY_S
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError, Refusals
from headrace.planner.candidates import (
    AURORA,
    BY_YOU,
    DEFAULT_SHARE,
    LOCAL,
    NOT_ASKED_FOR,
    Host,
    Need,
    check_exclude,
    compute_cache_gib,
    get_instance_family,
    list_hosts,
    list_sensible_instances,
    make_lone_host,
    remove_dominated,
)
from headrace.planner.database import Conditions, LogRoom, compute_log_room
from headrace.planner.goals import Goal, compute_needed_tps, compute_required_tps, get_headroom, parse_goals
from headrace.planner.market.services import expand_deployments, list_managed_hosts
from headrace.planner.result import PlannedLoad
from headrace.planner.settings import FOR_DATABASES, PlanSettings
from headrace.workload import ClosedWorkload, OpenWorkload, TransactionWorkload
from headrace.workload.observed import note_length
from headrace.workload.points import MAX_GROWTH, MAX_OPS_PER_S, check_size

refuse = Refusals("headrace plan --help")


@dataclass(frozen=True)
class PlanQuestion:
    """Checked question of a plan. `settings`: complete, with `on` as deployments. `workload`: grown
    and, where a limit cut off the recording, raised to the demand that was there at least.
    `load`: as the plan names it; `need`: GiB the volumes must hold, free space included."""

    settings: PlanSettings
    workload: OpenWorkload | TransactionWorkload
    goals: tuple[Goal, ...]
    prices: PriceList
    load: PlannedLoad
    need: Need
    excluded: dict[str, str]
    hosts: list[Host]
    skipped: list[tuple[str, str]]
    today: Placement | None
    extra_items: tuple[dict, ...]
    notes: tuple[str, ...] = ()
    conditions: Conditions | None = None
    # Hosts the user did not choose: cheaper ones of other families are shown, but the
    # recommendation keeps to today's family.
    today_family: str | None = None
    recorded: OpenWorkload | None = None
    warnings: tuple[str, ...] = ()


def make_question(workload: object, settings: PlanSettings) -> PlanQuestion:
    """Checks everything that can be checked before anything is searched. Raises InputError."""
    if isinstance(workload, TransactionWorkload):
        return _make_database_question(workload, settings)
    for setting in list_given(settings, FOR_DATABASES):
        hint = "Give a database: a workload that `headrace calibrate` wrote, or sysbench-tpcc:..."
        raise refuse.input(setting.flag, "belongs to plans for databases; this workload is a demand in I/Os", hint)
    return _make_demand_question(workload, settings)


# --- what both have -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Factors on demand and on data, months included."""

    demand: float
    data: float


def _compute_growth(settings: PlanSettings, workload: OpenWorkload | None) -> Growth:
    """Returns the factors on demand and on data, the workload's growth over the months included;
    `workload`: a demand, whose data do not grow where their size is given. Raises InputError for a
    factor that is given together with another on the same."""
    by_months = 1.0 if workload is None else workload.compute_growth(settings.months)
    factors = []
    for name, given in (("demand_growth", settings.demand_growth), ("data_growth", settings.data_growth)):
        if given is not None and settings.growth != 1.0:
            rule, hint = f"is given together with {name}", "Give growth for both, or one for each."
            raise refuse.input(f"growth = {settings.growth:g}", rule, hint)
        factor = (settings.growth if given is None else given) * by_months
        if by_months != 1.0 and factor > MAX_GROWTH and workload is not None:
            rule = f"demand and data would be {factor:.3g} times today's, and at most {MAX_GROWTH:,.0f} times are planned for"
            hint = "Give fewer --months, or correct growth_per_year in the workload file."
            value = f"--months {settings.months:g} with growth_per_year = {workload.growth_per_year:g}"
            raise refuse.input(value, rule, hint)
        factors.append(factor)
    if workload is not None and settings.size_gib is not None:
        if settings.data_growth is not None:
            rule = "is given together with size_gib, which does not grow"
            hint = "Leave it out: give the size to plan for."
            raise refuse.input(f"data_growth = {settings.data_growth:g}", rule, hint)
        factors[1] = 1.0
    return Growth(*factors)


def _check_peak(workload: OpenWorkload, growth: float, goals: Sequence[Goal]) -> None:
    """Raises InputError where the peak of a demand, grown and with the head-room that goals ask
    for, is more than is simulated."""
    headroom = get_headroom(goals)
    factor = growth * (1.0 + headroom / 100.0)
    for name, what in (("reads_per_s", "reads"), ("writes_per_s", "writes")):
        peak = workload.points.select(pl.col(name).max()).item()
        if peak * factor > MAX_OPS_PER_S:
            value = f"{peak:,.0f} {what} a second x {growth:g} for growth, and {headroom:g} % of head-room"
            rule = f"are {peak * factor:,.0f}, and at most {MAX_OPS_PER_S:,.0f} are simulated"
            hint = "Correct the workload, or ask for less: --goal 'headroom_percent>=0'."
            raise refuse.input(value, rule, hint)


def _note_months(settings: PlanSettings, workload: OpenWorkload | None) -> list[str]:
    """Returns the note on what the months add, in a list: empty where no months were given."""
    months = settings.months
    if months <= 0:
        return []
    if workload is None or not workload.growth_per_year:
        words = (
            f"{months:g} months were given, but the workload does not say how much it grows a year: nothing was added."
        )
        return [f"{words} Give --growth" + ("." if workload is None else ", or write growth_per_year into its file.")]
    factor = workload.compute_growth(months)
    grows = "demand and data" if settings.size_gib is None else "demand"
    return [f"{months:g} months at {100 * workload.growth_per_year:g} % a year: {grows} x {factor:.3g}."]


def compute_data_size(workload: OpenWorkload | TransactionWorkload, settings: PlanSettings, growth: float) -> float:
    """Returns the GiB of data. A size that is given is taken as it is: it does not grow. Raises
    InputError where none is known."""
    given = check_size(settings.size_gib) if settings.size_gib is not None else None
    size_gib = given if given is not None else workload.size_gib and workload.size_gib * growth
    if not size_gib:
        hint = "Give size_gib (--size-gib), or write it into the workload file."
        raise InputError(
            workload.name,
            "does not say how many GiB of data there are, so no volume can be sized",
            "headrace plan",
            hint,
        )
    return float(size_gib)


def _compute_need(size_gib: float, free_percent: float, logged_gib: int = 0) -> Need:
    """Returns the GiB that data and log volumes must hold, free space included."""
    share = 1.0 - free_percent / 100.0
    return Need(math.ceil(round(size_gib / share, 6)), math.ceil(round(logged_gib / share, 6)))


def _make_planned_load(
    settings: PlanSettings, size_gib: float, need: Need, growth: Growth, conditions: Conditions | None = None
) -> PlannedLoad:
    """Returns the load as the plan names it; `conditions`: of a database."""
    return PlannedLoad(
        size_gib=size_gib,
        free_percent=settings.free_percent,
        needed_gib=float(need.data_gib),
        data_growth=growth.data,
        demand_growth=growth.demand,
        months=settings.months,
        cycle=settings.cycle,
        log_gib=None if conditions is None else need.log_gib,
        **{name: getattr(conditions, name, None) for name in ("threads", "arrivals_tps", "start", "hours")},
    )


def make_price_list(settings: PlanSettings) -> PriceList:
    """Returns the prices that the settings name. Raises InputError."""
    names = ("discount_percent", "price_file", "commitment")
    return PriceList(settings.region, settings.as_of, **{name: getattr(settings, name) for name in names})


def _complete_settings(settings: PlanSettings) -> PlanSettings:
    """Returns the settings complete, and checked as far as it needs no workload. Raises
    InputError."""
    if settings.draws == 0 and not isinstance(settings.draws, bool):
        rule = "a plan weighs probabilities, and without draws there is none"
        hint = (
            "Leave --draws out, or ask for 1 or more; for one run of the best estimate use headrace predict --draws 0."
        )
        raise refuse.input("draws = 0", rule, hint)
    settings = complete(settings)
    cycle = settings.cycle or ("settled" if settings.start_balance is None else "first")
    if cycle == "settled" and settings.start_balance is not None:
        raise refuse.input(
            f"start_balance = {settings.start_balance:g}",
            "is the state of a first day; a settled day has its own",
            "Give --cycle first.",
        )
    if _means_none(settings.instances) and settings.commitment != "on-demand":
        rule = "is a price of instances, and --instances none plans volumes alone"
        hint = "Leave one of the two out."
        raise refuse.input(f"commitment = {quote_value(settings.commitment)}", rule, hint)
    if settings.snapshot_days == 0 and _is_given(settings, "daily_change_percent"):
        raise refuse.input("--daily-change-percent", "is of snapshots, and none are kept", "Give --snapshot-days too.")
    return replace(settings, cycle=cycle, on=_list_deployments(settings))


def _is_given(settings: PlanSettings, name: str) -> bool:
    """Says whether a setting differs from its default."""
    return any(setting.name == name for setting in list_given(settings))


def _list_excluded(settings: PlanSettings) -> dict[str, str]:
    """Returns the volume types and layouts left out, each with the reason in words. Raises
    InputError for one that is not known."""
    excluded = dict.fromkeys(check_exclude(settings.exclude), BY_YOU)
    if not settings.allow_instance_store:
        excluded.setdefault(LOCAL, NOT_ASKED_FOR)
    return excluded


def _list_deployments(settings: PlanSettings) -> tuple[str, ...]:
    """Returns the deployments that `on` means. Raises InputError for settings that have no meaning
    at a service."""
    on = expand_deployments(settings.on)
    if on == ("ec2",):
        return on
    if _is_given(settings, "readers") and not any(service.startswith(AURORA) for service in on):
        raise refuse.input("--readers", "is of an Aurora cluster, and --on names none", "Leave it out, or add aurora.")
    named = {
        "commitment": settings.commitment != "on-demand",
        "price_file": settings.price_file is not None,
        "snapshot_days": settings.snapshot_days != 0,
    }
    for name, given in named.items():
        if given:
            hint = "Leave it out, or plan for EC2 alone. --discount-percent holds for services too."
            rule = "is of EC2 and EBS alone: the tables have on-demand prices of RDS and Aurora, and no backups"
            raise refuse.input(f"--{name.replace('_', '-')}", rule, hint)
    return on


def _list_snapshot_items(settings: PlanSettings, prices: PriceList, size_gib: float) -> tuple[dict, ...]:
    """Returns the items of the monthly bill, in USD, of daily snapshots of the data; those of one
    node suffice. Empty where none are kept."""
    days, change_gib = settings.snapshot_days, size_gib * settings.daily_change_percent / 100.0
    if days == 0:
        return ()
    return tuple({"part": "snapshots"} | item for item in prices.list_snapshot_items(size_gib, change_gib, days))


def _parse_today(settings: PlanSettings) -> tuple[Placement | None, list[str]]:
    """Returns today's storage and the notes of its notation; None where none is compared with.
    Raises InputError."""
    if settings.compare is None:
        return None, []
    placement = parse_placement(settings.compare)
    return placement, [placement.note] if placement.note else []


# --- demand ---------------------------------------------------------------------------------------


def _make_demand_question(workload: object, settings: PlanSettings) -> PlanQuestion:
    """Makes the question of a plan for demand in I/Os: the demand grown and, at points of a
    recording that met a limit, raised. Raises InputError."""
    if isinstance(workload, ClosedWorkload):
        hint = "Describe the demand over time: headrace workload new, or import a recording."
        raise InputError(
            workload.name,
            "a plan needs demand over time; a closed load sends as fast as it is served",
            "headrace plan",
            hint,
        )
    if not isinstance(workload, OpenWorkload):
        raise InputError(
            type(workload).__name__, "a plan needs a workload", "headrace plan", "Load one: headrace.load."
        )
    settings = _complete_settings(settings)
    goals = parse_goals(settings.goals, "demand", defaults=settings.default_goals)
    growth = _compute_growth(settings, workload)
    size = compute_data_size(workload, settings, growth.data)
    today, notes = _parse_today(settings)
    if today is not None and today.log is not None:
        raise refuse.input(
            f"compare = {settings.compare}",
            "has a log volume, and a demand on I/Os has one device",
            "Give the data volumes alone.",
        )
    # Points at a limit give less than the demand: they are raised, with a note.
    planned = workload.uncensor()
    _check_peak(planned, growth.demand, goals)
    grown = replace(planned.scale(growth.demand), size_gib=size)
    totals = grown.summarize()
    if not totals["mean_iops"]:
        raise InputError(
            workload.name,
            "has no I/O at all, so there is nothing to plan",
            "headrace plan",
            "Check the recording's device.",
        )
    prices = make_price_list(settings)
    need = _compute_need(size, settings.free_percent)
    hosts, skipped = _list_demand_hosts(settings, prices, today)
    on, hosts, skipped, more = _list_demand_services(tuple(settings.on), hosts, skipped, prices)
    notes += more
    if settings.commitment != "on-demand" and all(host.instance is None for host in hosts):
        notes.append(
            f"The commitment {settings.commitment} is in no price: no instances are planned; name --instances."
        )
    notes += _note_months(settings, workload)
    if settings.size_gib is not None and growth.demand != (settings.demand_growth or 1.0):
        notes.append("The data are those of --size-gib: they do not grow.")
    return PlanQuestion(
        settings=replace(settings, on=on),
        workload=grown,
        goals=goals,
        prices=prices,
        load=_make_planned_load(settings, size, need, growth),
        need=need,
        hosts=hosts,
        skipped=skipped,
        today=today,
        notes=(*notes, *planned.list_notes()),
        today_family=get_instance_family(today.instance) if today is not None and today.instance else None,
        warnings=_list_warnings(workload, planned),
        extra_items=_list_snapshot_items(settings, prices, size),
        recorded=workload,
        excluded=_list_excluded(settings),
    )


def _list_demand_hosts(
    settings: PlanSettings, prices: PriceList, today: Placement | None
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Returns the instances that were named, else today's, else none: volumes alone; and those
    skipped (name, reason)."""
    if not _means_none(settings.instances) and settings.instances is not None:
        return list_hosts(settings.instances, prices)
    if settings.instances is None and today is not None and today.instance is not None:
        return list_hosts(today.instance, prices)
    return make_lone_host(), []


# Deployment of RDS without a standby: a demand in I/Os does not contain the writes to a standby.
DEMAND_SERVICE = "rds:single-az"


def _list_demand_services(
    on: tuple[str, ...], hosts: list[Host], skipped: list[tuple[str, str]], prices: PriceList
) -> tuple[tuple[str, ...], list[Host], list[tuple[str, str]], list[str]]:
    """Returns the deployments that a demand in I/Os can be planned on, the hosts and the skipped
    instances with the classes of RDS added, and notes. Raises InputError for Aurora, and where no
    deployment is left."""
    if any(service.startswith("aurora") for service in on):
        hint = "Calibrate the database (headrace calibrate) and plan that; or leave Aurora out: --on ec2,rds."
        rule = "cannot be planned for a demand in I/Os: its storage takes log records, not pages"
        raise refuse.input("aurora", rule, hint)
    services = tuple(service for service in on if service in ("ec2", DEMAND_SERVICE))
    with_standby = [service for service in on if service not in services]
    if not services:
        hint = "Calibrate the database and plan that; or take rds:single-az."
        raise refuse.input(", ".join(on), "waits for a standby, which a demand in I/Os does not know", hint)
    notes = (
        [f"{', '.join(with_standby)} left out: they wait for a standby, which a demand in I/Os does not know."]
        if with_standby
        else []
    )
    if DEMAND_SERVICE not in services:
        return services, hosts, skipped, notes
    if hosts and hosts[0].instance is None:
        classes = [Host(None, service=DEMAND_SERVICE)]
        notes.append("RDS is planned by its storage alone: name --instances for its classes.")
    else:
        names = [host.name for host in hosts if host.name]
        classes, more = list_managed_hosts((DEMAND_SERVICE,), names, prices, None, 0)
        skipped = skipped + more
    return services, ([*hosts] if "ec2" in services else []) + classes, skipped, notes


def list_instances(instances: object) -> list:
    """Lists the instance types or patterns of the setting. Raises InputError for what is neither
    text nor a list."""
    if isinstance(instances, str):
        return [instances]
    if instances is not None and not isinstance(instances, Sequence):
        raise refuse.input(f"instances = {instances!r}", "must be types or patterns", "For example r6i.xlarge.")
    return list(instances or ())


def _means_none(instances: object) -> bool:
    """Says whether instances were given as "none": volumes are planned alone."""
    listed = list_instances(instances)
    return len(listed) == 1 and isinstance(listed[0], str) and listed[0].strip().lower() == "none"


def _list_warnings(workload: OpenWorkload, planned: OpenWorkload) -> tuple[str, ...]:
    """Lists what must be known before the answer: limits the recording met and what was made of
    them, and a recording of less than a day."""
    raised = [note for note in planned.list_notes() if note not in workload.list_notes()]
    short = [
        note
        for note in (note_length(workload.span_s),)
        if note and workload.kind == "recorded" and workload.span_s < DAY_S
    ]
    return (*workload.describe_limits(), *raised, *short)


# --- databases ------------------------------------------------------------------------------------


def _make_database_question(workload: TransactionWorkload, settings: PlanSettings) -> PlanQuestion:
    """Makes the question of a plan for a database in transactions: its data grown, its demand left
    to the goals. Raises InputError."""
    settings = _complete_settings(settings)
    arrivals = settings.arrivals_tps
    goals = parse_goals(settings.goals, "database", defaults=settings.default_goals, arrivals=arrivals is not None)
    conditions = _make_conditions(workload, settings, goals)
    growth = _compute_growth(settings, None)
    if settings.demand_growth is not None:
        hint = "Ask for more tps, more --threads or more --arrivals-tps."
        raise refuse.input("--demand-growth", "a database's demand is its goals", hint)
    grown = workload.scale_data(growth.data) if growth.data != 1.0 else workload
    size = compute_data_size(workload, settings, growth.data)
    prices = make_price_list(settings)
    today, notes = _parse_today(settings)
    if settings.cache_share is not None and _means_none(settings.instances) and (today is None or not today.instance):
        rule = "is of an instance's memory, and --instances none plans volumes alone"
        raise refuse.input(f"cache_share = {quote_value(settings.cache_share)}", rule, "Leave one of the two out.")
    today_family = _find_today_family(workload, today, settings)
    hosts, skipped = _list_hosts(workload, settings, prices, today_family)
    hosts, skipped = _add_services(tuple(settings.on), settings, prices, hosts, skipped)
    logged = _estimate_log_room(grown, settings, goals, conditions)
    conditions = replace(conditions, data_gib=size, logged=logged)
    need = _compute_need(size, settings.free_percent, logged.gib)
    if today is not None and today.instance is not None:
        notes += _describe_assumed_cache(workload, today.instance, settings.cache_share, prices.as_of)
    if today is not None and any("standard" in str(storage) for storage in (today.data, today.log)):
        notes.append(
            "Standard volumes are billed by the request too, and a database's requests to today's are not in their cost: "
            "it is higher, and so is the saving."
        )
    if settings.growth != 1.0:
        notes.append(
            "Growth multiplies the data of a database; its demand is its goals: ask for more tps, clients or arrivals."
        )
    excluded = _list_excluded(settings) | {
        "standard": "billed by the request and without a promise of IOPS: not planned for databases"
    }
    return PlanQuestion(
        settings=settings,
        workload=grown,
        goals=goals,
        prices=prices,
        load=_make_planned_load(settings, size, need, replace(growth, demand=1.0), conditions),
        need=need,
        hosts=hosts,
        skipped=skipped,
        today=today,
        notes=(*notes, *_note_months(settings, None)),
        conditions=conditions,
        extra_items=_list_snapshot_items(settings, prices, size),
        today_family=today_family,
        excluded=excluded,
    )


def _estimate_log_room(
    workload: TransactionWorkload, settings: PlanSettings, goals: Sequence[Goal], conditions: Conditions
) -> LogRoom:
    """Returns the room for redo and binary logs, at the transactions that are asked for: those that
    arrive or that goals name, head-room included; where neither says, those that meet the response
    time."""
    arriving = conditions.arrivals_tps and conditions.arrivals_tps * (1.0 + get_headroom(goals) / 100.0)
    tps = (
        arriving
        or compute_required_tps(goals)
        or compute_needed_tps(goals, conditions.threads, workload.compute_least_responses())
    )
    return compute_log_room(workload.database, tps, settings.binlog_days)


def _make_conditions(workload: TransactionWorkload, settings: PlanSettings, goals: Sequence[Goal]) -> Conditions:
    """Returns the conditions of a run (clients or transactions a second, start, hours). Raises
    InputError for a goal on tps above the transactions that arrive."""
    arrivals = settings.arrivals_tps
    for goal in goals:
        if arrivals is not None and goal.about.unit == "tps" and goal.limit > arrivals:
            rule, hint = f"only {arrivals:g} transactions a second arrive", "Ask for less, or let more arrive."
            raise InputError(str(goal), rule, "headrace plan --arrivals-tps", hint)
    return Conditions(
        threads=None if arrivals is not None else settings.threads or workload.threads,
        arrivals_tps=arrivals,
        start=settings.start,
        hours=settings.hours,
        start_balance=settings.start_balance,
        settled=settings.cycle == "settled",
        readers=settings.readers,
        busy_percent=settings.busy_percent,
    )


def _add_services(
    on: tuple[str, ...],
    settings: PlanSettings,
    prices: PriceList,
    hosts: list[Host],
    skipped: list[tuple[str, str]],
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Returns the hosts and the skipped instances (name, reason) with the classes of RDS and
    Aurora added; without EC2's own where `on` does not name it. Raises InputError where no class
    is left."""
    managed = [service for service in on if service != "ec2"]
    if not managed:
        return hosts, skipped
    if _means_none(settings.instances):
        raise refuse.input("--instances none", "has no meaning at a service", "A service sells classes: name some.")
    named = settings.instances
    listed = None if named is None else list_instances(named)
    share = DEFAULT_SHARE if settings.cache_share is None else settings.cache_share
    classes, more = list_managed_hosts(managed, listed, prices, share, settings.readers)
    own_hosts = hosts if "ec2" in on else []
    if not own_hosts and not classes:
        why = f"{more[0][0]}: {more[0][1]}" if more else "none has a price"
        raise InputError(", ".join(on), f"no class can be planned with ({why})", "data/managed", "Name others.")
    return own_hosts + classes, skipped + more


def _find_today_family(workload: TransactionWorkload, today: Placement | None, settings: PlanSettings) -> str | None:
    """Returns the instance family a recommendation keeps to where it can: today's, else that of the
    runs, unless instances were named."""
    if settings.instances is not None and (today is None or today.instance is None):
        return None
    name = today.instance if today is not None and today.instance else workload.instance
    return get_instance_family(name) if name else None


def _list_hosts(
    workload: TransactionWorkload, settings: PlanSettings, prices: PriceList, today_family: str | None
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Returns the hosts to plan on and the instances skipped (name, reason): those named, none, or
    today's family and the sensible others of the catalog."""
    named = settings.instances
    listed = list_instances(named)
    if _means_none(named):
        return make_lone_host(workload.cache_gib), []
    share = settings.cache_share
    if named is not None:
        return list_hosts(listed, prices, share if share is not None else DEFAULT_SHARE)
    own = f"{today_family}.*" if today_family else None
    wide = list_sensible_instances(prices.as_of)
    hosts, _ = list_hosts([*wide, *([own] if own else [])], prices, share if share is not None else DEFAULT_SHARE)
    return remove_dominated(hosts, frozenset({today_family} if today_family else ())), []


def _describe_assumed_cache(
    workload: TransactionWorkload, instance: str, cache_share: float | None, as_of: str
) -> list[str]:
    """Returns a note on the cache that today's instance is assumed to have, where no run was
    measured on it; empty elsewhere."""
    if workload.instance == instance:
        return []
    with translate_core_errors():
        cache = compute_cache_gib(core.instance(instance, as_of), cache_share)
    return [
        f"Today's {instance} is taken with a cache of {cache:.3g} GiB: no run was measured on it. "
        "If yours is another, set that (innodb_buffer_pool_size), or calibrate there."
    ]
