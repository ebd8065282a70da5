"""Computes the probability of losing the data, and what the loss of a server or its zone costs.

Durability: published failure rates through the layout, and through the copies that a service keeps
(copies.csv). Survival: the time that a failover takes, and the data that are lost with a zone
(data/managed: figures of each service, with source and date). Rules of services that a database
there meets, in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from headrace.base import core
from headrace.base.packaged import read_rows
from headrace.planner.candidates import Candidate, Directory, Family
from headrace.simulation.services import get_failover_facts, get_loss_facts

# Percent; below it nothing but independent failures is reckoned with, so that more digits would
# claim what nobody knows (chosen by eye).
LEAST_PERCENT = 1e-6
# Lengths of a year in the units that copies.csv gives a time of repair in.
A_YEAR = {"h": 365.25 * 24, "s": 365.25 * 86_400}


def compute_static_figures(family: Family, members: int) -> tuple[float | None, float | None]:
    """Returns the durability (annual failure rate, percent, upper published figure, through the
    layout and the service's copies) and consistency (percent of the time)."""
    value = (family.era.get("consistency") or {}).get("value")
    promised = float(value["of_time_percent"]) if isinstance(value, dict) else None
    return compute_service_afr_percent(family, members), promised


def compute_candidate_figures(
    directory: Directory, candidate: Candidate, service: str
) -> tuple[float | None, float | None]:
    """Returns durability (annual failure rate, percent) and consistency (percent of the time) of a
    candidate at a service: with a log volume, the data are lost with either."""
    data, log, _ = candidate
    facts = directory.look_up(data, service)
    afr, promised = compute_static_figures(facts.family, facts.members)
    if log is not None:
        apart = directory.look_up(log)
        afr = combine_afr_percent([afr, compute_static_figures(apart.family, apart.members)[0]])
    return afr, promised


@dataclass(frozen=True)
class Copies:
    """Copies of the data that a service keeps: `copies` of them, lost with `lost_with` of them;
    `repair`: years until a lost copy is replaced; `afr_percent`: assumed of a copy, None: that of
    its volumes. `words`: the source, and what is assumed."""

    copies: int
    lost_with: int
    repair: float
    afr_percent: float | None
    words: str


@cache
def find_copies(service: str) -> Copies | None:
    """Returns the copies that a deployment keeps, by copies.csv; None: a single one."""
    rows = read_rows("headrace.planner.market", "copies.csv")
    name, _, option = service.partition(":")
    own = {row["key"]: row for row in rows if row["service"] == name and row["option"] in (option, "any")}
    if not own:
        return None
    repair, copies = own["repair"], own["copies"]
    afr = float(own["copy_afr"]["value"]) if "copy_afr" in own else None
    assumed = f" and that a copy fails as often as an EBS volume ({afr:g} % a year)" if afr is not None else ""
    doubt = "" if repair["confirmed"] == "true" else ", not confirmed"
    words = (
        f"{copies['value']} copies in different zones ({copies['source']}, {copies['as_of']}), lost with "
        f"{own['lost_with']['value']} of them; assumed that they fail independently, that a lost one is back after "
        f"{repair['value']} {repair['unit']} ({repair['source']}, {repair['as_of']}{doubt}){assumed}"
    )
    lost_with, repair_years = int(own["lost_with"]["value"]), float(repair["value"]) / A_YEAR[repair["unit"]]
    return Copies(int(copies["value"]), lost_with, repair_years, afr, words)


def compute_service_afr_percent(family: Family, members: int) -> float | None:
    """Returns the annual chance to lose the data at a service, percent: one copy's volumes through
    their layout, and the copies through the time that repair takes."""
    copy_percent = compute_layout_afr_percent(family.layout, members, find_published_afr_percent(family.era))
    copies = find_copies(family.service)
    if copies is None:
        return copy_percent
    copy_percent = copies.afr_percent if copies.afr_percent is not None else copy_percent
    return None if copy_percent is None else compute_copies_afr_percent(copy_percent, copies)


def compute_copies_afr_percent(copy_percent: float, copies: Copies) -> float:
    """Returns the annual chance to lose `lost_with` of n copies before one is back, percent.

    A copy fails at the rate r = -ln(1 - a) a year. Each failure of the n (n r a year) is fatal when
    at least k - 1 of the others fail within its repair time T: chance q = 1 - exp(-r T) each. So
    1 - exp(-n r B), B the binomial chance of at least k - 1 of n - 1.
    """
    rate, others = -math.log1p(-copy_percent / 100), copies.copies - 1
    within = -math.expm1(-rate * copies.repair)
    fatal = sum(
        math.comb(others, more) * within**more * (1 - within) ** (others - more)
        for more in range(copies.lost_with - 1, others + 1)
    )
    return -100 * math.expm1(-copies.copies * rate * fatal)


def find_published_afr_percent(era: core.Era) -> float | None:
    """Returns the upper published annual failure rate of one volume, percent; None where none is
    published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[-1]) if isinstance(value, (list, tuple)) else None


def find_lowest_afr_percent(era: core.Era) -> float | None:
    """Returns the lower published annual failure rate of one volume, percent; None where none is
    published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[0]) if isinstance(value, (list, tuple)) else None


def compute_layout_afr_percent(layout: str, members: int, member_percent: float | None) -> float | None:
    """Returns the annual chance of data loss of an array whose volumes fail independently, percent.

    RAID 0 is lost with any member: 1 - (1 - a)^n. A mirror is lost when all its copies are; how
    fast a lost member is replaced is not known, so copies failing in the same year are taken, which
    is an upper bound: 1 - (1 - a^2)^pairs for RAID 10 (n / 2 pairs) and 10 f2 (n neighbours), a^n
    for RAID 1, two or more of n for RAID 5.
    """
    if member_percent is None:
        return None
    a, n = member_percent / 100, members
    chance = {
        "raid0": 1 - (1 - a) ** n,
        "raid1": a**n,
        "raid5": 1 - (1 - a) ** n - n * a * (1 - a) ** (n - 1),
        "raid10": 1 - (1 - a * a) ** (n / 2),
        "raid10f2": 1 - (1 - a * a) ** n,
    }.get(layout, a)
    return 100 * chance


def format_small_percent(percent: float) -> str:
    """Writes a chance in percent with two significant figures, below LEAST_PERCENT as `below` that
    limit."""
    if percent < LEAST_PERCENT:
        return f"below {LEAST_PERCENT:f} %"
    places = max(0, 1 - math.floor(math.log10(percent)))
    text = f"{percent:.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if places else text} %"


def combine_afr_percent(parts: Sequence[float | None]) -> float | None:
    """Returns the annual chance to lose any of several storages, percent: data and log apart are
    lost with either. None where the rate of one of them is not known."""
    rates = [part for part in parts if part is not None]
    return 100 * (1 - math.prod(1 - part / 100 for part in rates)) if len(rates) == len(parts) else None


# Metrics of goals.
SURVIVAL = ("failover_s", "lost_with_zone_s")


def compute_survival(service: str, as_of: str, readers: int) -> dict[str, float]:
    """Returns two times, s. `failover_s`: until the database is back after its server is lost, at
    the most; `lost_with_zone_s`: seconds of commits that are lost with an availability zone. NaN:
    not known, or without a bound, as for a single server of EC2, whose volumes are gone with their
    zone."""
    facts = get_failover_facts(service, as_of, readers)[1], get_loss_facts(service, as_of)[1]
    return {name: math.nan if fact.value is None else fact.value for name, fact in zip(SURVIVAL, facts, strict=True)}


# Rules of a service that growing storage meets, with how each is said. Figures and
# sources are those of data/managed/rules.csv.
STORAGE_RULES = {
    "modification_cooldown": "storage can be changed again after {value} {unit}, or when it is optimized, whichever is later",
    "autoscaling_free": "autoscaling adds storage where {value} {unit} or less stays free for five minutes",
    "autoscaling_step": "a step of it adds {value} {unit}, 10 GiB or the growth of seven hours, whichever is most",
    "storage_full_large": "with {value} {unit} or less free of 100 GiB and more RDS stops the server",
    "switch_to_io_optimized": "it can be switched to I/O-Optimized once in {value} {unit}, and back at any time",
}


# Deployment without storage autoscaling (data/managed/cannot.csv).
NO_AUTOSCALING = "rds:multi-az-cluster"


def list_storage_rules(deployment: str, as_of: str) -> tuple[str, ...]:
    """Lists the rules for growing storage of a deployment, and the copies that it keeps, in
    sentences with sources."""
    sentences = []
    for key, words in STORAGE_RULES.items():
        if deployment == NO_AUTOSCALING and key.startswith("autoscaling"):
            continue
        rule = core.managed_rule(deployment, key, as_of)
        if rule is not None:
            doubt = "" if rule["confirmed"] else ", not confirmed"
            text = words.format(value=rule["value"], unit=rule["unit"])
            sentences.append(f"{text} ({rule['source']}, {rule['first_seen']}{doubt})")
    copies = find_copies(deployment)
    if copies is not None:
        sentences.append(f"the annual chance of losing the data is that of {copies.words}")
    return tuple(sentences)


def list_managed_caveats(deployment: str) -> list[str]:
    """Lists in sentences what a deployment cannot do, and for Aurora that its storage's latency is
    not known."""
    caveats = [f"{deployment} cannot {limit['what']}: {limit['detail']}." for limit in core.service_limits(deployment)]
    if deployment.startswith("aurora"):
        caveats.insert(
            0, "The latency of Aurora's storage cannot be looked into: its interval is wide for that reason."
        )
    return caveats
