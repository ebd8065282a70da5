"""Lists what EBS volumes can be modified into where they are: the same number of volumes in the
same layout, none of them smaller."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.base.storage import Storage
from headrace.catalog.price_list import PriceList
from headrace.planner.candidates import LOCAL, Directory, Family, Shape, list_families, make_lone_host, make_shape

# Types that cannot be modified into others: local disks, and magnetic volumes.
UNCHANGEABLE = (LOCAL, "standard")


def can_be_modified(today: Storage) -> bool:
    """Says whether a plan looks for a modification of these volumes: they are of one size, and
    neither local disks nor magnetic."""
    return len({member.size_gib for member in today.members}) == 1 and today.members[0].type not in UNCHANGEABLE


def list_types(prices: PriceList, exclude: Iterable[str] = ()) -> list[Family]:
    """Lists the types that single volumes are sold as on the day of the prices, without those of
    `exclude`."""
    families, _ = list_families(
        Directory(prices.as_of), prices, dict.fromkeys(exclude, "excluded"), 1, make_lone_host()
    )
    return families


def list_modified_shapes(
    families: Iterable[Family], layout: str, members: int, gib: int, least_gib: int = 0
) -> list[Shape]:
    """Lists a shape for each type of `families` that `members` volumes of `gib` each in a layout
    can become. A volume below `least_gib` grows to a size that is ordered; a type whose volumes are
    not made that large is left out."""
    shapes = []
    for family in families:
        if family.service != "ec2" or family.layout != "single" or family.volume_type == LOCAL:
            continue  # a layout of its own: only the type is taken, for the layout of today
        own = Family(family.volume_type, layout, family.era, (members,))
        size = max(gib, own.min_gib)
        if least_gib > size:
            size = own.compute_ordered_gib(least_gib)
        if size <= own.max_gib:
            shapes.append(make_shape(own, members, size))
    return shapes
