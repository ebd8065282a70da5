"""RDS and Aurora as candidates: their families, the sizes each is sold in, their hosts and bills.

    RDS      a volume type in ranges of sizes, each with its own IOPS and MiB/s (data/managed/
             rds_storage.csv): the search finds on which side of 400 GiB it is cheaper
    Aurora   one space without axes: storage grows with the data, and its price depends on what is
             read and logged

A host is a class (`db.r6g.xlarge`) of one deployment (`rds:multi-az`). A class without a price is
left out and named, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError, Refusals
from headrace.planner.candidates import (
    AURORA,
    GIB_STEPS,
    IOPS_STEPS,
    MIB_S_STEPS,
    NO_ERA,
    SENSIBLE,
    Directory,
    Family,
    Host,
    Need,
    Shape,
    Space,
    list_spaces,
    make_host,
    match_instances,
    remove_dominated,
    round_figure_up,
)
from headrace.planner.result import FamilyVerdict
from headrace.simulation.services import runs_mariadb

refuse = Refusals("headrace plan --help")
RDS_TYPES = ("gp3", "gp2", "io1", "io2")
NO_CLASS = "no class that was looked at has a known price"
# RDS stripes over four volumes from 400 GiB on (data/managed/rds_storage.csv): IOPS that are
# bought by GiB are bought of each.
STRIPE = 4


def expand_deployments(on: Sequence[str] | str) -> tuple[str, ...]:
    """Returns the deployments of the names of services: `rds` stands for all of RDS. Raises
    InputError for an unknown name, and for none."""
    names = on.split(",") if isinstance(on, str) else list(on) if isinstance(on, Sequence) else [on]
    if not all(isinstance(name, str) for name in names):
        raise refuse.input(f"on = {on!r}", "must name services", "For example --on ec2,rds,aurora.")
    with translate_core_errors():
        deployments = tuple(core.deployments([name for name in names if name.strip()]))
    if not deployments:
        raise refuse.input("on", "names no service", "For example --on ec2,rds,aurora.")
    return deployments


# --- families and shapes --------------------------------------------------------------------------


def list_managed_families(
    deployments: Sequence[str],
    directory: Directory,
    excluded: dict[str, str],
    hosts: Sequence[Host],
    engine: str = "",
    is_mariadb: bool = False,
) -> tuple[list[Family], list[FamilyVerdict]]:
    """Returns the families of the services, and verdicts on those that are out before any search.
    `engine`: of a database; `is_mariadb`: of its server."""
    families, verdicts = [], []
    for service in deployments:
        if engine == "myrocks":
            verdicts.append(FamilyVerdict(service, "impossible", "does not run MyRocks"))
            continue
        if is_mariadb and not runs_mariadb(service):
            verdicts.append(FamilyVerdict(service, "impossible", "does not run MariaDB, but MySQL"))
            continue
        if all(host.service != service for host in hosts):
            verdicts.append(FamilyVerdict(service, "no price", NO_CLASS))
            continue
        if service.startswith(AURORA):
            families.append(Family(AURORA, "single", NO_ERA, (1,), service))
            continue
        for kind in RDS_TYPES:
            if kind not in directory.eras:
                continue
            family = Family(kind, "single", directory.eras[kind], (1,), service)
            if kind in excluded:
                verdicts.append(FamilyVerdict(family.name, "excluded", excluded[kind]))
            elif not core.rds_ranges(kind, directory.as_of):
                verdicts.append(FamilyVerdict(family.name, "impossible", f"RDS has no {kind} on {directory.as_of}"))
            else:
                families.append(family)
    return families, verdicts


@dataclass(frozen=True)
class ManagedShape(Shape):
    """Storage of RDS in one range of sizes. `x`: IOPS of all of it (of gp2 its GiB); `y`: its
    MiB/s. `included`: IOPS and MiB/s that come with the size; `per_gib`: most IOPS of a GiB;
    `mib_s_per_iops`: most MiB/s of an IOPS; `iops_per_included_mib_s`: IOPS that include one
    MiB/s."""

    included: tuple[int, int] = (0, 0)
    per_gib: float = 0.0
    mib_s_per_iops: float = math.inf
    iops_per_included_mib_s: float = math.inf

    def _write_storage(self, x: int, y: int) -> str:
        """Writes the storage of a point in the notation: IOPS and MiB/s rounded up to what is
        ordered, GiB raised where the IOPS need it."""
        kind, gib = self.family.volume_type, self.member_gib
        if self.family.axis == "size":
            return f"{kind}:{round_figure_up(x, GIB_STEPS, *self.x)}"
        if y:
            y = round_figure_up(y, MIB_S_STEPS, *self.y)
            x = max(x, math.ceil(y / self.mib_s_per_iops))
        x = round_figure_up(x, IOPS_STEPS, *self.x)
        if self.per_gib and x > gib // STRIPE * STRIPE * self.per_gib:
            gib = -(-math.ceil(x / self.per_gib) // STRIPE) * STRIPE
        if y > max(self.included[1], x / self.iops_per_included_mib_s):
            return f"{kind}:{gib}:{x}:{y}"
        return f"{kind}:{gib}:{x}" if x > self.included[0] else f"{kind}:{gib}"


def list_managed_shapes(family: Family, size_gib: int, as_of: str) -> list[Shape]:
    """Returns the shapes of a service's family that hold `size_gib`, smallest sizes first."""
    if family.volume_type == AURORA:
        return [Shape(family, 1, size_gib, local=AURORA)]
    shapes: list[Shape] = []
    for sizes in core.rds_ranges(family.volume_type, as_of):
        gib, rules = max(size_gib, sizes["from_gib"]), sizes["figures"]
        if gib > sizes["to_gib"]:
            continue
        gib = round_figure_up(gib, GIB_STEPS, sizes["from_gib"], sizes["to_gib"])
        if family.axis == "size":
            shapes.append(ManagedShape(family, 1, gib, (gib, sizes["to_gib"])))
            continue
        per_gib = rules.get("most_iops_per_gib", 0.0)
        low = int(rules.get("included_iops") or rules.get("least_iops") or 1)
        most = int(min(rules["most_iops"], per_gib * (sizes["to_gib"] // STRIPE * STRIPE) or math.inf))
        included = int(rules.get("included_mib_s", 0))
        ratio = rules.get("most_mib_s_per_iops", math.inf)
        highest = int(min(rules.get("most_mib_s", 0), ratio * most))
        shapes.append(
            ManagedShape(
                family,
                1,
                gib,
                (low, max(low, most)),
                (included, highest),
                included=(int(rules.get("included_iops", 0)), included),
                per_gib=per_gib,
                mib_s_per_iops=ratio,
                iops_per_included_mib_s=rules.get("iops_per_included_mib_s", math.inf),
            )
        )
    return shapes


def list_service_spaces(
    family: Family, hosts: Sequence[Host], logs: Sequence[str | None], need: Need, as_of: str
) -> list[Space]:
    """Lists all spaces of a family on the hosts of its service, given by their place in `hosts`.
    Services keep the log with the data."""
    places = [place for place, host in enumerate(hosts) if host.service == family.service]
    if family.service == "ec2":
        own = list_spaces(family, [hosts[place] for place in places], logs, need.data_gib, need.log_gib)
        return [Space(space.shape, space.log, places[space.host]) for space in own]
    shapes = list_managed_shapes(family, need.get_data_storage_gib(None), as_of)
    return [Space(shape, None, place) for place in places for shape in shapes]


# --- hosts ----------------------------------------------------------------------------------------


def list_managed_hosts(
    deployments: Sequence[str],
    named: Sequence[str] | None,
    prices: PriceList,
    cache_share: float | None,
    readers: int,
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Returns the classes of each deployment, cheapest first, and those left out with the reason.
    `named`: types or patterns of EC2; None: all of the families m, r, c and i that have a price."""
    with translate_core_errors():
        instances = {entry["instance_type"]: entry for entry in core.instances(prices.as_of)}
    if named is None:
        types = [name for name in instances if SENSIBLE.match(name)]
    else:
        stripped = [name.strip().removeprefix("db.") for name in named]
        types = list(
            dict.fromkeys(name for text in stripped for name in match_instances(text, instances, prices.as_of))
        )
    hosts: list[Host] = []
    skipped: list[tuple[str, str]] = []
    for service in deployments:
        own: list[Host] = []
        if (too_early := _explain_absence(service, prices.as_of)) is not None:
            skipped.append((service, too_early))
            continue
        for name in types:
            host = _make_managed_host(service, instances[name], prices, cache_share, readers)
            if isinstance(host, str):
                skipped.append((f"db.{name} of {service}", host))
            else:
                own.append(host)
        own.sort(key=lambda host: (host.usd_month, host.name))
        hosts += own if named is not None else remove_dominated(own)
        if not own and named is None:
            skipped.append((service, f"no class has a price in {prices.region}"))
    if named is None:
        # Nobody named a class: hundreds without a price would only hide the rest.
        skipped = [entry for entry in skipped if entry[0] in deployments]
    return hosts, skipped


def _explain_absence(service: str, as_of: str) -> str | None:
    """Says why a deployment cannot be had on a day before its launch; None from that on."""
    rule = core.managed_rule(service, "launched_on")
    if rule is None or rule["value"] <= as_of:
        return None
    return f"exists since {rule['value']}, and limits of {as_of} are asked for"


def _make_managed_host(
    service: str, entry: core.Instance, prices: PriceList, cache_share: float | None, readers: int
) -> Host | str:
    """Returns the host of a class, or why it cannot be one."""
    name = entry["instance_type"]
    try:
        with translate_core_errors():
            core.service_class(service, name, prices.as_of)
    except InputError as error:
        return f"{error.value} {error.rule}"
    usd = compute_class_usd(service, name, prices, readers)
    return make_host(entry, usd, prices.region, cache_share, service)


# --- bills ----------------------------------------------------------------------------------------

# Storage and class that stand in a bill of which only the other part is used.
ANY_STORAGE, ANY_CLASS = "gp3:20", "r6g.large"


def compute_class_usd(service: str, instance: str, prices: PriceList, readers: int) -> float | None:
    """Returns the USD a month of a class, readers of Aurora included; None: no price."""
    with translate_core_errors():
        bill = core.service_bill(
            service, instance, ANY_STORAGE, prices.region, prices.as_of, _count_readers(service, readers)
        )
    hours = [item["usd"] for item in bill["items"] if item["unit"] == "h"]
    return sum(hours) * _compute_paid_share(prices) if hours else None


def list_managed_items(
    host: Host, storage: str, prices: PriceList, *, readers: int = 0, data_gib: float = 0.0, million_ios: float = 0.0
) -> list[dict] | None:
    """Returns the items of a service's monthly bill, in USD, with `part`; None where a price is
    missing. A host without an instance: its storage alone."""
    with translate_core_errors():
        bill = core.service_bill(
            host.service,
            host.name or ANY_CLASS,
            ANY_STORAGE if storage == AURORA else storage,
            prices.region,
            prices.as_of,
            _count_readers(host.service, readers),
            data_gib,
            million_ios,
        )
    alone = host.instance is None
    if [name for name in bill["missing"] if not (alone and name.startswith(f"db.{ANY_CLASS}"))]:
        return None
    share = _compute_paid_share(prices)
    return [
        {"part": "instance" if item["unit"] == "h" else "data"}
        | item
        | {"unit_price_usd": item["unit_price_usd"] * share, "usd": item["usd"] * share}
        for item in bill["items"]
        if not (alone and item["unit"] == "h")
    ]


def _count_readers(service: str, readers: int) -> int:
    return readers if service.startswith(AURORA) else 0


def _compute_paid_share(prices: PriceList) -> float:
    """Returns the share of a list price that is paid, 0 to 1: a discount on instances is one on
    classes."""
    return 1.0 - prices.instance_discount_percent / 100.0
