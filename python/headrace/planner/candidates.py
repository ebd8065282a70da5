"""Lists the candidates of a day in a region: families of volumes, the shapes each is sold in, the
hosts, and why the rest cannot be chosen.

    Family     a volume type in a layout (single, RAID 0, RAID 10), with its limits on the day
    Shape      a family with a number of volumes: two axes are left free, `x` (IOPS of a volume, or
               its GiB) and `y` (its MiB/s)
    Space      a shape with a log volume or none, on a host: the search finds its least (x, y)
    Host       an EC2 instance with the cache it has room for, or none: volumes alone
    Candidate  storage of the data, of the log or None, index of the host

Along both axes performance never falls and cost never falls, which is what the search (search.py)
rests on. Both are whole numbers. A point is written down as a person would order it: the next round
figure at or above it (`round_figure_up`), or exactly what the type includes or at most sells. So a
search compares what can be ordered, at its own price, and many points are one storage. Limits of
the types come from the catalog's era of the day; nothing about a type is written here except which
rule has which axis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import cast

from headrace.base import core
from headrace.base.checks import check_number, quote_value, suggest_nearest
from headrace.base.core import translate_core_errors
from headrace.base.storage import Storage
from headrace.base.units import GIB, HOURS_PER_MONTH
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.planner.result import NOT_SOLD, SAME_AS_IO2, FamilyVerdict

LAYOUTS = ("single", "raid0", "raid10")
LAYOUT_NAMES = {
    "single": "",
    "raid0": " RAID 0",
    "raid1": " RAID 1",
    "raid5": " RAID 5",
    "raid10": " RAID 10",
    "raid10f2": " RAID 10 f2",
}
HDD = ("st1", "sc1")
MIRRORED = ("raid1", "raid10", "raid10f2")
AURORA = "aurora"  # its storage: nothing of it is chosen


# Round figures, as they are ordered: (up to, step). A step is at most 5 % of what it rounds, or 50
# IOPS, 5 MiB/s, 2 GiB (all chosen: what volumes of a type differ by is more).
IOPS_STEPS = ((1_000, 50), (10_000, 100), (20_000, 250), (40_000, 500), (math.inf, 1_000))
MIB_S_STEPS = ((200, 5), (400, 10), (500, 20), (math.inf, 25))
GIB_STEPS = ((20, 1), (50, 2), (200, 5), (1_000, 10), (5_000, 50), (math.inf, 100))


def round_figure_up(value: int, steps: Sequence[tuple[float, int]], least: int, most: int) -> int:
    """Returns the next round figure at or above `value`, in its unit; `least` and `most`, which a
    type includes and at most sells, are round enough. `steps`: (up to, step), rising."""
    if value <= least:
        return least
    step = next(step for up_to, step in steps if value <= up_to)
    return min(-(-value // step) * step, most)


def find_rounding_range(value: int, steps: Sequence[tuple[float, int]], least: int, most: int) -> tuple[int, int]:
    """Returns the lowest and the highest figure that `round_figure_up` rounds to the same as
    `value`."""
    if value <= least:
        return least, least
    step = next(step for up_to, step in steps if value <= up_to)
    last = -(-value // step) * step
    return max(last - step, least) + 1, min(last, most)


@dataclass(frozen=True)
class Need:
    """GiB that the storage must hold: of data, and of redo and binlog (0: the log is part of the
    data)."""

    data_gib: int
    log_gib: int = 0

    def get_data_storage_gib(self, log: str | None) -> int:
        """Returns the GiB the data storage must hold: the log too where it has no volume of its
        own."""
        return self.data_gib + (self.log_gib if log is None else 0)


# A data storage, a log storage or None, and the index of a host.
Candidate = tuple[str, str | None, int]


@dataclass(frozen=True)
class Host:
    """An instance and the cache it has room for; `instance` None: volumes alone (a database then
    keeps its own cache). `service`: what runs the server: `ec2`, or a deployment such as
    `rds:multi-az`."""

    instance: core.Instance | None = field(repr=False)
    usd_month: float = 0.0
    cache_gib: float = 0.0
    service: str = "ec2"

    @property
    def name(self) -> str | None:
        """The instance type."""
        return None if self.instance is None else self.instance["instance_type"]

    @property
    def label(self) -> str | None:
        """Name of the host where it is bought: the instance type, or the class of a service."""
        return self.name if self.name is None or self.service == "ec2" else f"db.{self.name}"


@dataclass(frozen=True)
class Family:
    """A volume type in a layout, with what the catalog allows on the day."""

    volume_type: str
    layout: str
    era: core.Era = field(repr=False, compare=False)
    counts: tuple[int, ...] = ()
    service: str = "ec2"
    # Cached figures: a search looks up the same few thousands of times.
    figures: dict[tuple[str, str], float | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Such as `gp3`, `gp3 RAID 10` or `rds:multi-az gp3`."""
        if self.service != "ec2":
            return self.service if self.volume_type == AURORA else f"{self.service} {self.volume_type}"
        return self.volume_type + LAYOUT_NAMES[self.layout]

    @property
    def data_copies(self) -> int:
        """Copies of the data that the layout stores: 2 on mirrors."""
        return 2 if self.layout == "raid10" else 1

    @property
    def min_gib(self) -> int:
        """Smallest volume, GiB."""
        return int(self.era["size_gib"]["min"]["value"])

    @property
    def max_gib(self) -> int:
        """Largest volume, GiB."""
        return int(self.era["size_gib"]["max"]["value"])

    @property
    def most_gib(self) -> int:
        """GiB of data that the largest array of the family holds."""
        return max(self.counts, default=1) * self.max_gib // self.data_copies

    def compute_least_members(self, size_gib: int) -> int:
        """Returns the least number of volumes, of the largest size, that hold `size_gib` of
        data."""
        return -(-size_gib * self.data_copies // self.max_gib)

    def compute_member_gib(self, members: int, size_gib: int) -> int:
        """Returns the GiB a volume needs so that `members` of them hold `size_gib` of data."""
        return max(self.min_gib, -(-size_gib * self.data_copies // members))

    def compute_ordered_gib(self, gib: int) -> int:
        """Returns the size that is ordered for a volume of at least `gib`."""
        return round_figure_up(gib, GIB_STEPS, self.min_gib, self.max_gib) if gib <= self.max_gib else gib

    def find_figure(self, rule: str, name: str) -> float | None:
        """Returns a number of the era's `iops` or `throughput` rule; None where the rule has none
        of that name."""
        key = (rule, name)
        if key not in self.figures:
            param = self.era[rule].get(name)
            is_number = isinstance(param, dict) and isinstance(param.get("value"), (int, float))
            self.figures[key] = param["value"] if is_number else None
        return self.figures[key]

    @cached_property
    def axis(self) -> str:
        """Figure by which performance is bought: "iops", "size", or "none"."""
        return {"provisioned": "iops", "included-plus": "iops", "fixed": "none", "local-disk": "none"}.get(
            self.era["iops"]["rule"], "size"
        )

    @cached_property
    def buys_throughput(self) -> bool:
        """MiB/s are bought on their own (gp3)."""
        return self.era["throughput"]["rule"] == "included-plus"

    def write_notation(self, members: int, size_gib: int, iops: int | None = None, mib_s: int | None = None) -> str:
        """Writes the storage of `members` volumes in notation; size, IOPS and MiB/s are those of
        each. IOPS and MiB/s that come with the type anyway are left out."""
        volume = f"{self.volume_type}:{size_gib}"
        if mib_s is not None and mib_s > (self.find_figure("throughput", "included_mib_s") or 0):
            volume += f":{iops}:{mib_s}"
        elif iops is not None and iops > (self.find_figure("iops", "included") or 0):
            volume += f":{iops}"
        if self.layout == "single":
            return volume
        return f"{members}x{volume}" if self.layout == "raid0" else f"{self.layout}:{members}x{volume}"


@dataclass(frozen=True)
class Shape:
    """A family with a number of volumes that hold the data, `member_gib` each at the least. `x`:
    IOPS of a volume (or its GiB where performance is bought by size); `y`: its MiB/s where they are
    bought; an axis with equal ends is not free. `local`: the notation of an instance's own
    disks."""

    family: Family
    members: int
    member_gib: int
    x: tuple[int, int] = (0, 0)
    y: tuple[int, int] = (0, 0)
    local: str | None = None
    # Cached notations by point, and ranges by axis and value: they are the same on every host.
    texts: dict[tuple[int, int], str] = field(default_factory=dict, compare=False, repr=False)
    ranges: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    def write_storage(self, point: tuple[int, int]) -> str:
        """Writes the notation of what is ordered at a point (x, y). MiB/s that need more IOPS, and
        IOPS that need more GiB, bring them."""
        text = self.texts.get(point)
        if text is None:
            text = self.texts[point] = self._write_storage(*point)
        return text

    def find_alike(self, axis: int, value: int) -> tuple[int, int]:
        """Returns the lowest and the highest figure on an axis (0: x, 1: y) that order the same
        storage as `value`; cached."""
        span = self.ranges.get((axis, value))
        if span is None:
            span = self.ranges[axis, value] = self._compute_alike(axis, value)
        return span

    def _compute_alike(self, axis: int, value: int) -> tuple[int, int]:
        """Computes the range that `find_alike` caches."""
        bounds = (self.x, self.y)[axis]
        if self.local is not None or bounds[0] == bounds[1]:
            return value, value
        if axis == 1:
            return find_rounding_range(value, MIB_S_STEPS, *bounds)
        return find_rounding_range(value, GIB_STEPS if self.family.axis == "size" else IOPS_STEPS, *bounds)

    def _write_storage(self, x: int, y: int) -> str:
        """Writes the volumes of a point in the storage notation, figures rounded up to what is
        ordered. `x`: IOPS, or GiB where performance follows from size; `y`: MiB/s."""
        family = self.family
        if self.local is not None:
            return self.local
        if family.axis != "iops":
            # The least size is what the data need, or what is there already.
            return family.write_notation(
                self.members, max(self.x[0], family.compute_ordered_gib(x)) if x > self.x[0] else x
            )
        if family.buys_throughput:
            y = round_figure_up(y, MIB_S_STEPS, *self.y)
            x = max(x, math.ceil(y / (family.find_figure("throughput", "mib_s_per_iops") or math.inf)))
        x = round_figure_up(x, IOPS_STEPS, *self.x)
        gib = _compute_gib(family, self.member_gib, x)
        return family.write_notation(self.members, gib, x, y if family.buys_throughput else None)


@dataclass(frozen=True, slots=True)
class Space:
    """A shape with a log volume (None: the log lies with the data) on a host: its (x, y) are
    searched."""

    shape: Shape
    log: str | None
    host: int

    def make_candidate(self, point: tuple[int, int]) -> Candidate:
        """Returns the candidate at a point (x, y) of the shape."""
        return (self.shape.write_storage(point), self.log, self.host)

    @property
    def family(self) -> Family:
        """Type and layout of the data volumes."""
        return self.shape.family

    @property
    def volumes(self) -> int:
        """Number of volumes, that of the log included."""
        return self.shape.members + (self.log is not None)


def _compute_gib(family: Family, member_gib: int, iops: int) -> int:
    """Returns the GiB a volume needs to be given `iops`: types limit the IOPS of a GiB."""
    per_gib = family.find_figure("iops", "per_gib")
    if not per_gib or iops <= (family.find_figure("iops", "included") or 0):
        return member_gib
    return max(member_gib, family.compute_ordered_gib(math.ceil(iops / per_gib)))


def list_member_counts(layout: str, max_volumes: int) -> tuple[int, ...]:
    """Returns the numbers of volumes that a layout may have, up to `max_volumes`: RAID 10 needs an
    even number, 4 or more."""
    counts = {"single": (1,), "raid0": range(2, max_volumes + 1), "raid10": range(4, max_volumes + 1, 2)}
    return tuple(counts[layout])


def list_shapes(family: Family, size_gib: int) -> list[Shape]:
    """Lists all shapes of a family that hold `size_gib` of data, fewest volumes first. Empty when
    no number of volumes does."""
    shapes = []
    for members in family.counts:
        gib = family.compute_member_gib(members, size_gib)
        if gib <= family.max_gib:
            shapes.append(make_shape(family, members, family.compute_ordered_gib(gib)))
    return shapes


def make_shape(family: Family, members: int, gib: int) -> Shape:
    """Returns the shape of `members` volumes of at least `gib` each, which is taken as it is."""
    if family.axis == "none":
        return Shape(family, members, gib, (gib, gib))
    if family.axis == "size":
        return Shape(family, members, gib, (gib, family.max_gib))
    most = int(family.find_figure("iops", "max") or 0)
    low = int(family.find_figure("iops", "included") or family.find_figure("iops", "min") or 1)
    per_gib = family.find_figure("iops", "per_gib")
    if per_gib:
        most = max(low, min(most, int(per_gib * family.max_gib)))
    if not family.buys_throughput:
        return Shape(family, members, gib, (low, most))
    included = int(family.find_figure("throughput", "included_mib_s") or 0)
    highest = int(family.find_figure("throughput", "max_mib_s") or 0)
    ratio = family.find_figure("throughput", "mib_s_per_iops") or math.inf
    return Shape(family, members, gib, (low, most), (included, int(min(highest, most * ratio))))


def list_local_shapes(family: Family, instance: core.Instance, size_gib: int) -> list[Shape]:
    """Returns, in a list, the shape of all of an instance's own disks in the family's layout; empty
    where they do not suit the layout or hold less than `size_gib` of data."""
    disks = int(instance["instance_store_devices"])
    if not disks or not instance["instance_store_gb"]:
        return []
    # The catalog gives decimal GB of all disks together; the notation takes binary GiB of one.
    gib = int(instance["instance_store_gb"] * 1e9 / GIB / disks)
    fits = {"single": disks == 1, "raid0": disks > 1, "raid10": disks >= 4 and disks % 2 == 0}[family.layout]
    if gib < 1 or not fits or gib * disks // family.data_copies < size_gib:
        return []
    return [Shape(family, disks, gib, local=family.write_notation(disks, gib))]


# --- storages that are given, not searched --------------------------------------------------------


@dataclass(frozen=True)
class StorageFacts:
    """Facts that follow from a storage's notation. `backing`: the EBS volumes, None for Aurora's
    storage; `usable_gib`: what the layout leaves for data."""

    backing: Storage | None
    family: Family
    members: int
    usable_gib: float

    @property
    def storage(self) -> Storage:
        """The EBS volumes of a storage that is not Aurora's."""
        assert self.backing is not None
        return self.backing


# A type that did not exist on the day: nothing is known of it.
NO_ERA = cast("core.Era", {})


class Directory:
    """The volume types of one day, and the facts of each storage that was looked up."""

    def __init__(self, as_of: str) -> None:
        """Reads the volume types of a day (YYYY-MM-DD)."""
        with translate_core_errors():
            self.eras = {era["volume_type"]: era for era in core.volume_eras(as_of)}
        self.as_of = as_of
        self.facts: dict[tuple[str, str], StorageFacts] = {}

    def look_up(self, text: str, service: str = "ec2") -> StorageFacts:
        """Returns the facts of a storage at a service; cached. Raises InputError for what is no
        notation."""
        key = (text, service)
        if key not in self.facts:
            self.facts[key] = self._read_notation(text, service)
        return self.facts[key]

    def _read_notation(self, text: str, service: str) -> StorageFacts:
        """Returns the facts of a storage by its notation; Aurora's has infinite usable GiB."""
        volumes = find_backing_volumes(text, service, self.as_of)
        if volumes is None:
            return StorageFacts(None, Family(AURORA, "single", NO_ERA, (1,), service), 1, math.inf)
        storage = Storage.parse(volumes)
        kind = storage.members[0].type
        family = Family(kind, storage.layout, self.eras.get(kind, NO_ERA), (len(storage.members),), service)
        usable = storage.usable_gib if service == "ec2" else Storage.parse(text).usable_gib
        return StorageFacts(storage, family, len(storage.members), usable)


@cache
def find_backing_volumes(text: str, service: str, as_of: str) -> str | None:
    """Returns the EBS volumes behind a storage, in notation: on EC2 the storage itself, on RDS the
    array that RDS makes of it; None for Aurora's storage, which has none."""
    if service == "ec2":
        return text
    if service.startswith(AURORA):
        return None
    with translate_core_errors():
        return core.rds_storage(text, as_of)["array"]


# --- what can be bought ---------------------------------------------------------------------------

TYPES = ("standard", "gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1", "instance-store")
EXCLUDABLE = (*TYPES, "raid0", "raid10")
LOCAL = "instance-store"
LEAST_CACHE_GIB = 0.5  # a guess: with less no server is worth planning
DEFAULT_SHARE = -1.0  # stands for the share of memory that Headrace gives a cache by default
# General, memory, compute and storage families; sizes of a virtual machine; not -flex, whose
# processors are shared.
SENSIBLE = re.compile(r"^(?P<letter>[mrci])(?P<generation>\d+)[a-z]*\.\d*(?:large|xlarge|medium)$")
GENERATIONS = 2  # the newest ones of a letter that are looked at without being named
BY_YOU = "excluded by you (--exclude)"  # reason of a type or layout that --exclude names
NOT_ASKED_FOR = "its data is gone when the instance stops (--allow-instance-store)"


def check_exclude(exclude: Sequence[str] | str) -> frozenset[str]:
    """Returns the types and layouts the user does not want, given as a sequence or as text with
    commas. Raises InputError for an unknown name."""
    names = exclude.split(",") if isinstance(exclude, str) else exclude if isinstance(exclude, Sequence) else [exclude]
    names = [name for name in names if not isinstance(name, str) or name.strip()]
    for name in names:
        if not isinstance(name, str) or name.strip().lower() not in EXCLUDABLE:
            hint = suggest_nearest(name, EXCLUDABLE) or f"Known: {', '.join(EXCLUDABLE)}."
            raise InputError(
                f"exclude = {quote_value(name)}", "is neither a volume type nor raid0 or raid10", "headrace plan", hint
            )
    return frozenset(name.strip().lower() for name in names)


def list_families(
    directory: Directory, prices: PriceList, excluded: dict[str, str], max_volumes: int, hosts: Sequence[Host]
) -> tuple[list[Family], list[FamilyVerdict]]:
    """Returns the families to search, and verdicts on types that are out before any search.
    `excluded`: types and layouts that are not wanted, with the reason. `max_volumes`: the most of
    an array."""
    families, verdicts = [], []
    local = any(host.instance and host.instance["instance_store_devices"] for host in hosts)
    for kind in TYPES:
        outcome, why = _explain_exclusion(kind, directory.eras, prices, excluded)
        if kind == LOCAL and not local:
            outcome, why = (outcome, why) if why else ("impossible", "no instance with local disks was given")
        if why:
            verdicts.append(FamilyVerdict(kind, outcome, why))
            continue
        for layout in LAYOUTS:
            family = Family(kind, layout, directory.eras[kind], list_member_counts(layout, max_volumes))
            if layout in excluded:
                verdicts.append(FamilyVerdict(family.name, "excluded", excluded[layout]))
            elif family.counts or kind == LOCAL:
                families.append(family)
    return families, verdicts


def _explain_exclusion(
    kind: str, eras: dict[str, core.Era], prices: PriceList, excluded: dict[str, str]
) -> tuple[str, str]:
    """Returns the outcome and the reason where a type is out before any search, else two empty
    texts."""
    if kind in excluded:
        return "excluded", excluded[kind]
    if kind not in eras:
        return "impossible", f"{NOT_SOLD} on {prices.as_of}"
    if kind == "io2-block-express" and "io2" in eras and _has_same_limits(eras[kind], eras["io2"]):
        return "impossible", f"{SAME_AS_IO2} on {prices.as_of}; see io2"
    preview = eras[kind].get("facts", {}).get("preview")
    if preview and preview["value"]:
        return "impossible", f"was a preview on {prices.as_of}, which cannot be counted on ({preview['source']})"
    billed_as = "io2" if kind == "io2-block-express" else kind
    unpriced = "" if kind == LOCAL else prices.explain_absence(billed_as)
    return ("impossible", unpriced) if unpriced else ("", "")


def _has_same_limits(era: core.Era, other: core.Era) -> bool:
    """Says whether two eras of volume types have equal limits of GiB, IOPS and MiB/s."""

    def list_figures(era: core.Era) -> list:
        """Lists the limits that are compared."""
        bounds = [
            era["size_gib"]["max"]["value"],
            era["iops"].get("max", {}).get("value"),
            era["iops"].get("per_gib", {}).get("value"),
        ]
        return bounds + [tier["cap_mib_s"]["value"] for tier in era["throughput"].get("tier", [])]

    return list_figures(era) == list_figures(other)


def list_spaces(
    family: Family, hosts: Sequence[Host], logs: Sequence[str | None], data_gib: int, log_gib: int
) -> list[Space]:
    """Lists all spaces of a family: without a log volume the log needs room with the data. Hosts
    are given by their place in `hosts`."""
    sizes = {log: data_gib + (log_gib if log is None else 0) for log in logs}
    if family.volume_type == LOCAL:
        return [
            Space(shape, log, place)
            for place, host in enumerate(hosts)
            if host.instance
            for log in logs
            for shape in list_local_shapes(family, host.instance, sizes[log])
        ]
    shapes: dict[int, list[Shape]] = {size: list_shapes(family, size) for size in set(sizes.values())}
    return [
        Space(shape, log, place)
        for place, host in enumerate(hosts)
        for log in logs
        for shape in shapes[sizes[log]]
        if _can_attach(host, shape.members + (log is not None))
    ]


def _can_attach(host: Host, volumes: int) -> bool:
    """Says whether the instance attaches this number of volumes, its root volume apart."""
    most = None if host.instance is None else host.instance["max_ebs_attachments"]
    return most is None or volumes < most


# --- hosts ----------------------------------------------------------------------------------------


def make_lone_host(cache_gib: float = 0.0) -> list[Host]:
    """Returns, in a list, the host that stands for volumes without an instance."""
    return [Host(None, 0.0, cache_gib)]


def list_hosts(
    patterns: Sequence[str] | str, prices: PriceList, cache_share: float | None = None
) -> tuple[list[Host], list[tuple[str, str]]]:
    """Lists the instances that match as hosts, cheapest first, and the (name, reason) of those that
    were left out.

    `patterns`: types or globs (`r6i.*`). `cache_share`: the share of its memory, 0 to 1, that a
    host has for its cache, or DEFAULT_SHARE; None: hosts of volumes alone, with a cache of 0 GiB.
    Raises InputError when a pattern matches nothing, or no instance can be planned with.
    """
    patterns = list(patterns) if isinstance(patterns, Sequence) and not isinstance(patterns, str) else [patterns]
    with translate_core_errors():
        instances = {entry["instance_type"]: entry for entry in core.instances(prices.as_of)}
    names: dict[str, None] = {}
    for pattern in patterns:
        exact = isinstance(pattern, str) and pattern in instances
        names.update(dict.fromkeys([pattern] if exact else match_instances(pattern, instances, prices.as_of)))
    hosts, skipped = [], []
    for name in names:
        host = _make_host(instances[name], prices, cache_share)
        if isinstance(host, str):
            skipped.append((name, host))
        else:
            hosts.append(host)
    if not hosts:
        why = f"{skipped[0][0]}: {skipped[0][1]}" if skipped else "none was named"
        named = ", ".join(map(str, patterns)) or "instances"
        raise InputError(
            named,
            f"no instance can be planned with ({why})",
            "data/instances_limits.csv",
            "Name others, or leave instances out to plan the volumes alone.",
        )
    hosts.sort(key=lambda host: (host.usd_month, host.name))
    return hosts, skipped


def _make_host(entry: core.Instance, prices: PriceList, cache_share: float | None) -> Host | str:
    """Returns the host of an instance, or why it cannot be one."""
    usd = prices.compute_instance_hour_usd(entry["instance_type"])
    if not any(entry[limit] for limit in ("baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s")):
        return f"its EBS limits are not known on {prices.as_of}"
    return make_host(entry, None if usd is None else usd * HOURS_PER_MONTH, prices.region, cache_share)


def make_host(
    entry: core.Instance, usd_month: float | None, region: str, cache_share: float | None, service: str = "ec2"
) -> Host | str:
    """Returns the host of an instance or class at a price, or why it cannot be one: the price is
    not known (None), or its memory has no room for a cache."""
    if usd_month is None:
        return f"no price is known in {region}"
    cache = 0.0 if cache_share is None else compute_cache_gib(entry, cache_share)
    if cache_share is not None and cache < LEAST_CACHE_GIB:
        return f"{(entry['memory_mib'] or 0) / 1024:g} GiB of memory leave no {LEAST_CACHE_GIB:g} GiB of cache"
    return Host(entry, usd_month, cache, service)


def compute_cache_gib(instance: core.Instance, cache_share: float | None = None) -> float:
    """Returns the GiB of cache an instance has room for: a share of its memory, 0.05 to 0.95; None
    or DEFAULT_SHARE: the share that Headrace gives a cache by default."""
    if cache_share == DEFAULT_SHARE:
        cache_share = None
    if cache_share is not None:
        check_number("cache_share", cache_share, 0.05, 0.95, "of memory")
    return core.cache_gib_for((instance["memory_mib"] or 0) / 1024, cache_share)


def list_sensible_instances(as_of: str) -> list[str]:
    """Lists the instances of the families m, r, c and i of a day: of each the two newest
    generations whose memory and EBS limits are known. Raises InputError for a bad day."""
    with translate_core_errors():
        instances = core.instances(as_of)
    matched = [(match, entry) for entry in instances if (match := SENSIBLE.match(entry["instance_type"]))]
    matched = [
        (match, entry)
        for match, entry in matched
        if entry["memory_mib"] and any(entry[name] for name in ("baseline_iops", "baseline_bytes_s"))
    ]
    newest: dict[str, list[int]] = {}
    for match, _ in matched:
        newest.setdefault(match["letter"], []).append(int(match["generation"]))
    generations_of = {letter: set(sorted(set(generations))[-GENERATIONS:]) for letter, generations in newest.items()}
    return [
        entry["instance_type"]
        for match, entry in matched
        if int(match["generation"]) in generations_of[match["letter"]]
    ]


def get_instance_family(instance: str) -> str:
    """Returns the family of an instance type: `m5` of `m5.4xlarge`."""
    return instance.partition(".")[0]


def remove_dominated(hosts: Sequence[Host], kept_families: frozenset[str] = frozenset()) -> list[Host]:
    """Lists the hosts (given cheapest first) that no cheaper one equals in processors, cache, EBS
    limits, attachments and local disks: the others cannot be part of a cheapest answer. Those of
    `kept_families` stay, because a recommendation may keep to them."""
    useful: list[Host] = []
    seen: list[tuple] = []
    for host in hosts:
        merits = _list_merits(host)
        beaten = any(all(figure >= least for figure, least in zip(other, merits, strict=True)) for other in seen)
        if not beaten or get_instance_family(host.name or "") in kept_families:
            useful.append(host)
            seen.append(merits)
    return useful


def _list_merits(host: Host) -> tuple:
    """Returns the figures in one of which a dearer host must be better than a cheaper one:
    processors, EBS limits, attachments, local disks, cache in GiB."""
    instance = host.instance
    assert instance is not None
    figures = tuple(
        float(instance[name] or 0)
        for name in ("vcpus", "baseline_iops", "max_iops", "baseline_bytes_s", "max_bytes_s", "instance_store_gb")
    )
    speed, attached = instance["core_speed"], instance["max_ebs_attachments"]
    # A core of unknown speed is taken to be as fast as those of the runs: it is no worse and no
    # better than any other.
    cores = (speed or 0.0, float(speed is None), float(instance["threads_per_core"] == 1))
    attachments = math.inf if attached is None else float(attached)
    # Local disks are told apart by their number too: it decides the layouts.
    disks = float(instance["instance_store_devices"] or 0)
    return (*figures, *cores, host.cache_gib, attachments, disks, float(instance["nitro"]))


def match_instances(pattern: object, instances: dict[str, core.Instance], as_of: str) -> list[str]:
    """Lists the names of instances that match a type or a pattern. Raises InputError where none
    does."""
    text = pattern.strip().lower() if isinstance(pattern, str) else ""
    names = [name for name in instances if fnmatchcase(name, text)] if text else []
    if not names:
        if text and not set(text) & set("*?["):
            with translate_core_errors():  # names the day a type was first seen, or the nearest name
                core.instance(text, as_of)
        hint = suggest_nearest(pattern, instances) or "See `headrace catalog instances`."
        raise InputError(
            f"instance {quote_value(pattern)}",
            f"matches no instance type of the catalog on {as_of}",
            "data/instances.csv",
            hint,
        )
    return names
