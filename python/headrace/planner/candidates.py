"""What can be chosen: families of volumes, the shapes each is sold in, and the places a candidate stands on.

    Family   a volume type in a layout (single, RAID 0, RAID 10), with what the catalog allows on the day
    Shape    a family with a number of volumes: two axes are left free, `x` (IOPS of a volume, or its GiB) and `y` (its MiB/s)
    Space    a shape with a log volume or none, on a host: what the search finds the least (x, y) of
    Host     an EC2 instance with the cache it has room for, or none: volumes alone
    Pick     one candidate: storage of the data, of the log or None, index of the host

Along both axes performance never falls and cost never falls, which is what the search (search.py) rests on. Both are whole numbers,
so nothing lies between two neighbours: there is no grid. What the types allow comes from the catalog's era of the day; nothing
about a type is written here except which rule has which axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.storage import Storage

LAYOUTS = ("single", "raid0", "raid10")
LAYOUT_NAMES = {"single": "", "raid0": " RAID 0", "raid1": " RAID 1", "raid5": " RAID 5", "raid10": " RAID 10", "raid10f2": " RAID 10 f2"}
MIRRORED = ("raid1", "raid10", "raid10f2")

# A data storage, a log storage or None, and the index of a host.
Pick = tuple[str, str | None, int]


@dataclass(frozen=True)
class Host:
    """An instance and the cache it has room for; `instance` None: volumes alone (a database then keeps its own cache). `service`: what
    runs the server; only EC2 today."""

    instance: core.Instance | None = field(repr=False)
    usd_month: float = 0.0
    cache_gib: float = 0.0
    service: str = "ec2"

    @property
    def name(self) -> str | None:
        """The instance type."""
        return None if self.instance is None else self.instance["instance_type"]


@dataclass(frozen=True)
class Family:
    """A volume type in a layout, with what the catalog allows on the day."""

    volume_type: str
    layout: str
    era: core.Era = field(repr=False, compare=False)
    counts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Such as `gp3` or `gp3 RAID 10`."""
        return self.volume_type + LAYOUT_NAMES[self.layout]

    @property
    def data_share(self) -> int:
        """One over the share of the bytes that holds data: mirrors hold everything twice."""
        return 2 if self.layout == "raid10" else 1

    @property
    def min_gib(self) -> int:
        """Smallest volume, GiB."""
        return int(self.era["size_gib"]["min"]["value"])

    @property
    def max_gib(self) -> int:
        """Largest volume, GiB."""
        return int(self.era["size_gib"]["max"]["value"])

    def member_gib(self, members: int, size_gib: int) -> int:
        """GiB a volume needs so that `members` of them hold `size_gib` of data."""
        return max(self.min_gib, -(-size_gib * self.data_share // members))

    def figure(self, rule: str, name: str) -> float | None:
        """A number of the era's `iops` or `throughput` rule; None where the rule has none of that name."""
        param = self.era[rule].get(name)
        return param["value"] if isinstance(param, dict) and isinstance(param.get("value"), (int, float)) else None

    @property
    def axis(self) -> str:
        """What performance is bought by: "iops", "size", or "none"."""
        return {"provisioned": "iops", "included-plus": "iops", "fixed": "none", "local-disk": "none"}.get(self.era["iops"]["rule"], "size")

    @property
    def buys_throughput(self) -> bool:
        """MiB/s are bought on their own (gp3)."""
        return self.era["throughput"]["rule"] == "included-plus"

    def text(self, members: int, size_gib: int, iops: int | None = None, mib_s: int | None = None) -> str:
        """The storage in notation. IOPS and MiB/s that come with the type anyway are left out."""
        volume = f"{self.volume_type}:{size_gib}"
        if mib_s is not None and mib_s > (self.figure("throughput", "included_mib_s") or 0):
            volume += f":{iops}:{mib_s}"
        elif iops is not None and iops > (self.figure("iops", "included") or 0):
            volume += f":{iops}"
        if self.layout == "single":
            return volume
        return f"{members}x{volume}" if self.layout == "raid0" else f"{self.layout}:{members}x{volume}"


@dataclass(frozen=True)
class Shape:
    """A family with a number of volumes that hold the data. `x`: IOPS of a volume (or its GiB where performance is bought by size);
    `y`: its MiB/s where they are bought; an axis with equal ends is not free. `local`: the notation of an instance's own disks."""

    family: Family
    members: int
    member_gib: int
    x: tuple[int, int] = (0, 0)
    y: tuple[int, int] = (0, 0)
    local: str | None = None
    # Notations made so far: a search asks for the same ones on every host.
    texts: dict[tuple[int, int], str] = field(default_factory=dict, compare=False, repr=False)

    def storage(self, point: tuple[int, int]) -> str:
        """Notation of the storage at a point. MiB/s that need more IOPS, and IOPS that need more GiB, bring them."""
        text = self.texts.get(point)
        if text is None:
            text = self.texts[point] = self._text(*point)
        return text

    def _text(self, x: int, y: int) -> str:
        family = self.family
        if self.local is not None:
            return self.local
        if family.axis != "iops":
            return family.text(self.members, x)
        if family.buys_throughput:
            x = max(x, math.ceil(y / (family.figure("throughput", "mib_s_per_iops") or math.inf)))
        gib = _gib_for(family, self.member_gib, x)
        return family.text(self.members, gib, x, y if family.buys_throughput else None)


@dataclass(frozen=True)
class Space:
    """A shape with a log volume (None: the log lies with the data) on a host: its (x, y) are searched."""

    shape: Shape
    log: str | None
    host: int

    def pick(self, point: tuple[int, int]) -> Pick:
        """The candidate at a point."""
        return (self.shape.storage(point), self.log, self.host)

    @property
    def family(self) -> Family:
        """Type and layout of the data volumes."""
        return self.shape.family

    @property
    def volumes(self) -> int:
        """Volumes in all."""
        return self.shape.members + (self.log is not None)


def _gib_for(family: Family, member_gib: int, iops: int) -> int:
    """GiB a volume needs to be given `iops`: types allow only so many a GiB."""
    per_gib = family.figure("iops", "per_gib")
    if not per_gib or iops <= (family.figure("iops", "included") or 0):
        return member_gib
    return max(member_gib, math.ceil(iops / per_gib))


def member_counts(layout: str, max_volumes: int) -> tuple[int, ...]:
    """How many volumes a layout may have: RAID 10 needs an even number, 4 or more."""
    return {"single": (1,), "raid0": tuple(range(2, max_volumes + 1)), "raid10": tuple(range(4, max_volumes + 1, 2))}[layout]


def shapes_of(family: Family, size_gib: int) -> list[Shape]:
    """All shapes of a family that hold `size_gib` of data, fewest volumes first. Empty when no number of volumes does."""
    found = []
    for members in family.counts:
        gib = family.member_gib(members, size_gib)
        if gib <= family.max_gib:
            found.append(_shape(family, members, gib))
    return found


def _shape(family: Family, members: int, gib: int) -> Shape:
    if family.axis == "none":
        return Shape(family, members, gib, (gib, gib))
    if family.axis == "size":
        return Shape(family, members, gib, (gib, family.max_gib))
    most = int(family.figure("iops", "max") or 0)
    low = int(family.figure("iops", "included") or family.figure("iops", "min") or 1)
    per_gib = family.figure("iops", "per_gib")
    if per_gib:
        most = max(low, min(most, int(per_gib * family.max_gib)))
    if not family.buys_throughput:
        return Shape(family, members, gib, (low, most))
    included, highest = int(family.figure("throughput", "included_mib_s") or 0), int(family.figure("throughput", "max_mib_s") or 0)
    ratio = family.figure("throughput", "mib_s_per_iops") or math.inf
    return Shape(family, members, gib, (low, most), (included, int(min(highest, most * ratio))))


def local_shapes(family: Family, instance: core.Instance, size_gib: int) -> list[Shape]:
    """An instance's own disks in the family's layout, where they hold the data. All disks are used, as they are paid for anyway."""
    disks = int(instance["instance_store_devices"])
    if not disks or not instance["instance_store_gb"]:
        return []
    # The catalog gives decimal GB of all disks together; the notation takes binary GiB of one.
    gib = int(instance["instance_store_gb"] * 1e9 / 2**30 / disks)
    fits = {"single": disks == 1, "raid0": disks > 1, "raid10": disks >= 4 and disks % 2 == 0}[family.layout]
    if gib < 1 or not fits or gib * disks // family.data_share < size_gib:
        return []
    return [Shape(family, disks, gib, local=family.text(disks, gib))]


# --- storages that are given, not searched ------------------------------------------------------------------------------


@dataclass(frozen=True)
class About:
    """What a storage's notation says: for storages of a search and those a user names alike."""

    storage: Storage
    family: Family
    members: int


# A type that did not exist on the day: nothing is known of it.
NO_ERA = cast("core.Era", {})


class Directory:
    """Families by type and layout on one day, and what each notation met so far says."""

    def __init__(self, as_of: str) -> None:
        with core_errors():
            self.eras = {era["volume_type"]: era for era in core.volume_eras(as_of)}
        self.known: dict[str, About] = {}

    def about(self, text: str) -> About:
        """Family and members of a storage. Raises InputError for notation that is none."""
        if text not in self.known:
            storage = Storage.parse(text)
            kind = storage.members[0].type
            family = Family(kind, storage.layout, self.eras.get(kind, NO_ERA), (len(storage.members),))
            self.known[text] = About(storage, family, len(storage.members))
        return self.known[text]


# --- durability ---------------------------------------------------------------------------------------------------------


def static_figures(family: Family, members: int) -> tuple[float | None, float | None]:
    """Durability (annual failure rate, percent, upper published figure, through the layout) and consistency (percent of the time)."""
    value = (family.era.get("consistency") or {}).get("value")
    promised = float(value["of_time_percent"]) if isinstance(value, dict) else None
    return layout_afr_percent(family.layout, members, published_afr_percent(family.era)), promised


def published_afr_percent(era: core.Era) -> float | None:
    """The upper published annual failure rate of one volume, percent; None where none is published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[-1]) if isinstance(value, (list, tuple)) else None


def lowest_afr_percent(era: core.Era) -> float | None:
    """The lower published annual failure rate of one volume, percent; None where none is published."""
    value = (era.get("durability_afr_percent") or {}).get("value")
    return float(value[0]) if isinstance(value, (list, tuple)) else None


def layout_afr_percent(layout: str, members: int, one: float | None) -> float | None:
    """Annual chance of data loss of an array whose volumes fail independently, percent.

    RAID 0 is lost with any member: 1 - (1 - a)^n. A mirror is lost when all its copies are; how fast a lost member is replaced is
    not known, so copies failing in the same year are taken, which is an upper bound: 1 - (1 - a^2)^pairs for RAID 10 (n / 2 pairs) and
    10 f2 (n neighbours), a^n for RAID 1, two or more of n for RAID 5.
    """
    if one is None:
        return None
    a, n = one / 100, members
    chance = {
        "raid0": 1 - (1 - a) ** n,
        "raid1": a**n,
        "raid5": 1 - (1 - a) ** n - n * a * (1 - a) ** (n - 1),
        "raid10": 1 - (1 - a * a) ** (n / 2),
        "raid10f2": 1 - (1 - a * a) ** n,
    }.get(layout, a)
    return 100 * chance


def combined_afr_percent(parts: Sequence[float | None]) -> float | None:
    """Annual chance to lose any of several storages, percent: data and log apart are lost with either."""
    known = [part for part in parts if part is not None]
    return 100 * (1 - math.prod(1 - part / 100 for part in known)) if known else None
