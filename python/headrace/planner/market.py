"""What can be bought on a day in a region: families of volumes and hosts, and why the rest cannot."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from headrace.base import core
from headrace.base.checks import check_number, did_you_mean, shown
from headrace.base.core import core_errors
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.planner.candidates import LAYOUTS, Directory, Family, Host, Shape, Space, local_shapes, member_counts, shapes_of
from headrace.planner.result import FamilyVerdict

TYPES = ("standard", "gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1", "instance-store")
EXCLUDABLE = (*TYPES, "raid0", "raid10")
SERVICES = ("ec2",)
LOCAL = "instance-store"
HOURS_PER_MONTH = 730.0  # AWS quotes months of 365 x 24 / 12 hours
LEAST_CACHE_GIB = 0.5
OWN_SHARE = -1.0  # of memory for the cache: the share all of Headrace takes
# General, memory, compute and storage families; sizes of a virtual machine; not -flex, whose processors are shared.
SENSIBLE = re.compile(r"^(?P<letter>[mrci])(?P<generation>\d+)[a-z]*\.\d*(?:large|xlarge|medium)$")
GENERATIONS = 2  # the newest ones of a letter that are looked at without being named
NOT_ASKED_FOR = "its data is gone when the instance stops (--allow-instance-store)"


def check_exclude(exclude: Sequence[str] | str) -> frozenset[str]:
    """Types and layouts the user does not want. Raises InputError for an unknown name."""
    names = list(exclude) if isinstance(exclude, Sequence) and not isinstance(exclude, str) else [exclude]
    for name in names:
        if not isinstance(name, str) or name.strip().lower() not in EXCLUDABLE:
            hint = did_you_mean(name, EXCLUDABLE) or f"Known: {', '.join(EXCLUDABLE)}."
            raise InputError(f"exclude = {shown(name)}", "is neither a volume type nor raid0 or raid10", "headrace plan", hint)
    return frozenset(name.strip().lower() for name in names)


def check_service(service: str) -> str:
    """The service that runs the server. Raises InputError for one that cannot be planned."""
    name = service.strip().lower() if isinstance(service, str) else ""
    if name not in SERVICES:
        raise InputError(
            f"service = {shown(service)}", f"is not planned yet; known: {', '.join(SERVICES)}", "headrace plan", "Leave it out."
        )
    return name


def families_on(
    directory: Directory, prices: PriceList, excluded: dict[str, str], max_volumes: int, hosts: Sequence[Host]
) -> tuple[list[Family], list[FamilyVerdict]]:
    """The families to search, and verdicts on types that are out before any search. `excluded`: types and layouts that are not wanted,
    with the reason."""
    families, verdicts = [], []
    local = any(host.instance and host.instance["instance_store_devices"] for host in hosts)
    for kind in TYPES:
        outcome, why = _out(kind, directory.eras, prices, excluded)
        if kind == LOCAL and not local:
            outcome, why = (outcome, why) if why else ("impossible", "no instance with local disks was given")
        if why:
            verdicts.append(FamilyVerdict(kind, outcome, why))
            continue
        for layout in LAYOUTS:
            family = Family(kind, layout, directory.eras[kind], member_counts(layout, max_volumes))
            if layout in excluded:
                verdicts.append(FamilyVerdict(family.name, "excluded", excluded[layout]))
            elif family.counts or kind == LOCAL:
                families.append(family)
    return families, verdicts


def _out(kind: str, eras: dict[str, core.Era], prices: PriceList, excluded: dict[str, str]) -> tuple[str, str]:
    """Why a type is out before any search, or ("", "")."""
    if kind in excluded:
        return "excluded", excluded[kind]
    if kind not in eras:
        return "impossible", f"does not exist on {prices.as_of}"
    if kind == "io2-block-express" and "io2" in eras and _same_limits(eras[kind], eras["io2"]):
        return "impossible", f"is what io2 is on {prices.as_of}: see io2"
    billed_as = "io2" if kind == "io2-block-express" else kind
    if kind != LOCAL and not prices.knows(billed_as):
        return "impossible", f"no price of {billed_as} is known in {prices.region}"
    return "", ""


def _same_limits(one: core.Era, other: core.Era) -> bool:
    def figures(era: core.Era) -> list:
        bounds = [era["size_gib"]["max"]["value"], era["iops"].get("max", {}).get("value"), era["iops"].get("per_gib", {}).get("value")]
        return bounds + [tier["cap_mib_s"]["value"] for tier in era["throughput"].get("tier", [])]

    return figures(one) == figures(other)


def spaces_of(family: Family, hosts: Sequence[Host], logs: Sequence[str | None], data_gib: int, log_gib: int) -> list[Space]:
    """All spaces of a family: without a log volume the log needs room beside the data. Hosts are given by their place in `hosts`."""
    sizes = {log: data_gib + (log_gib if log is None else 0) for log in logs}
    if family.volume_type == LOCAL:
        return [
            Space(shape, log, place)
            for place, host in enumerate(hosts)
            if host.instance
            for log in logs
            for shape in local_shapes(family, host.instance, sizes[log])
        ]
    shapes: dict[int, list[Shape]] = {size: shapes_of(family, size) for size in set(sizes.values())}
    return [
        Space(shape, log, place)
        for place, host in enumerate(hosts)
        for log in logs
        for shape in shapes[sizes[log]]
        if _attachable(host, shape.members + (log is not None))
    ]


def _attachable(host: Host, volumes: int) -> bool:
    """Whether the instance attaches so many volumes beside its root volume."""
    most = None if host.instance is None else host.instance["max_ebs_attachments"]
    return most is None or volumes < most


# --- hosts --------------------------------------------------------------------------------------------------------------


def hosts_alone(cache_gib: float = 0.0) -> list[Host]:
    """Volumes without an instance."""
    return [Host(None, 0.0, cache_gib)]


def hosts_named(
    patterns: Sequence[str] | str, prices: PriceList, cache_share: float | None = None
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Hosts of the instances that match, cheapest first, each with the cache it has room for (`cache_share` None: no cache is asked
    about); and those left out, with the reason. A pattern is a type or a glob (`r6i.*`). Raises InputError when one matches nothing, or
    nothing usable is left."""
    patterns = list(patterns) if isinstance(patterns, Sequence) and not isinstance(patterns, str) else [patterns]
    with core_errors():
        known = {entry["instance_type"]: entry for entry in core.instances(prices.as_of)}
    names: dict[str, None] = {}
    for pattern in patterns:
        names.update(dict.fromkeys(_matching(pattern, known, prices.as_of)))
    hosts, skipped = [], []
    for name in names:
        made = _host(known[name], prices, cache_share)
        if isinstance(made, str):
            skipped.append((name, made))
        else:
            hosts.append(made)
    if not hosts:
        why = f"{skipped[0][0]}: {skipped[0][1]}" if skipped else "none was named"
        named = ", ".join(map(str, patterns)) or "instances"
        raise InputError(named, f"no instance can be planned with ({why})", "data/instances_limits.csv",
                         "Name others, or leave instances out to plan the volumes alone.")  # fmt: skip
    hosts.sort(key=lambda host: (host.usd_month, host.name))
    return hosts, skipped


def _host(entry: core.Instance, prices: PriceList, cache_share: float | None) -> Host | str:
    """The host of an instance, or why it cannot be one."""
    usd = prices.instance_hour_usd(entry["instance_type"])
    if not any(entry[limit] for limit in ("baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s")):
        return f"its EBS limits are not known on {prices.as_of}"
    if usd is None:
        return f"no price is known in {prices.region}"
    cache = 0.0 if cache_share is None else cache_of(entry, cache_share)
    if cache_share is not None and cache < LEAST_CACHE_GIB:
        return f"{(entry['memory_mib'] or 0) / 1024:g} GiB of memory leave no {LEAST_CACHE_GIB:g} GiB of cache"
    return Host(entry, usd * HOURS_PER_MONTH, cache)


def cache_of(instance: core.Instance, cache_share: float | None = None) -> float:
    """GiB of cache an instance has room for: a share of its memory (None, or OWN_SHARE: the share all of Headrace takes)."""
    if cache_share == OWN_SHARE:
        cache_share = None
    if cache_share is not None:
        check_number("cache_share", cache_share, 0.05, 0.95, "of memory")
    return core.cache_gib_for((instance["memory_mib"] or 0) / 1024, cache_share)


def sensible_instances(as_of: str) -> list[str]:
    """The families m, r, c and i of a day, the two newest generations of each that are priced and whose EBS limits are known. Raises InputError for a bad day."""
    with core_errors():
        known = core.instances(as_of)
    matched = [(match, entry) for entry in known if (match := SENSIBLE.match(entry["instance_type"]))]
    matched = [
        (match, entry)
        for match, entry in matched
        if entry["memory_mib"] and any(entry[name] for name in ("baseline_iops", "baseline_bytes_s"))
    ]
    newest: dict[str, list[int]] = {}
    for match, _ in matched:
        newest.setdefault(match["letter"], []).append(int(match["generation"]))
    kept = {letter: set(sorted(set(generations))[-GENERATIONS:]) for letter, generations in newest.items()}
    return [entry["instance_type"] for match, entry in matched if int(match["generation"]) in kept[match["letter"]]]


def family_of(instance: str) -> str:
    """`m5` of `m5.4xlarge`."""
    return instance.partition(".")[0]


def undominated(hosts: Sequence[Host], kept_families: frozenset[str] = frozenset()) -> list[Host]:
    """Hosts that no cheaper one equals in virtual CPUs, cache, EBS limits and local disks: the others cannot be part of a cheapest answer.
    Those of `kept_families` stay, because a recommendation may keep to them."""
    kept: list[Host] = []
    seen: list[tuple] = []
    for host in hosts:
        worth = _worth(host)
        beaten = any(all(theirs >= ours for theirs, ours in zip(other, worth, strict=True)) for other in seen)
        if not beaten or family_of(host.name or "") in kept_families:
            kept.append(host)
            seen.append(worth)
    return kept


def _worth(host: Host) -> tuple:
    instance = host.instance
    assert instance is not None
    figures = tuple(
        float(instance[name] or 0)
        for name in ("vcpus", "baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s", "instance_store_gb")
    )
    # Local disks are told apart by their number too: it decides the layouts.
    return (*figures, host.cache_gib, float(instance["instance_store_devices"] or 0), float(instance["nitro"]))


def _matching(pattern: object, known: dict[str, core.Instance], as_of: str) -> list[str]:
    text = pattern.strip().lower() if isinstance(pattern, str) else ""
    found = [name for name in known if fnmatchcase(name, text)] if text else []
    if not found:
        if text and not set(text) & set("*?["):
            with core_errors():  # names the day a type was first seen, or the nearest name
                core.instance(text, as_of)
        hint = did_you_mean(pattern, known) or "See `headrace catalog instances`."
        raise InputError(f"instance {shown(pattern)}", f"matches no instance type of the catalog on {as_of}", "data/instances.csv", hint)
    return found


# --- log volumes of a database ------------------------------------------------------------------------------------------

LOG_IOPS = (1000, 3000)  # of provisioned types: a commit's flush needs few; both ends are looked at
LOG_SIZES = (1, 4)  # times what the log needs: gp2 buys IOPS by size
REDO_GIB = 8  # of redo log or WAL files; innodb_redo_log_capacity is 100 MiB by default and several GiB where writes are heavy
BINLOG_S = 86_400.0  # binlogs kept: a day


def log_gib(database: dict, tps: float) -> int:
    """GiB that redo and a day of binlogs take at `tps`."""
    kept = database["log"]["binlog_bytes_per_tx"] * tps * BINLOG_S / 1024**3
    return REDO_GIB + math.ceil(kept)


def log_volumes(families: Sequence[Family], size_gib: int) -> list[str]:
    """Small volumes for redo and binlog alone, of the SSD types among the families (single volumes)."""
    found: list[str] = []
    for family in families:
        if family.layout != "single" or family.volume_type not in ("gp2", "gp3", "io1", "io2"):
            continue
        gib = family.member_gib(1, size_gib)
        if family.axis == "size":
            found += [family.text(1, gib * times) for times in LOG_SIZES if gib * times <= family.max_gib]
        elif family.buys_throughput:
            found.append(family.text(1, gib))
        else:
            per_gib = family.figure("iops", "per_gib") or float("inf")
            found += [family.text(1, max(gib, math.ceil(iops / per_gib)), iops) for iops in LOG_IOPS]
    return list(dict.fromkeys(found))
