"""Which storages are looked at: families, a coarse grid over each, and the lines along which the grid is refined.

A *family* is a volume type in a layout (single, RAID 0, RAID 10). Performance is bought along one axis of a family: provisioned
IOPS (gp3, io1, io2), or size (gp2, st1, sc1). A *line* is one member count (and for gp3 one MiB/s) with that axis free. More
along a line never performs worse and never costs less, so the cheapest storage on a line that meets the goals is found by
bisection. What the types allow comes from the catalog's era of the day; nothing about a type is written here except which rule
has which axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from headrace.workload import OpenWorkload

LAYOUTS = ("single", "raid0", "raid10")
LAYOUT_NAMES = {"single": "", "raid0": " RAID 0", "raid1": " RAID 1", "raid5": " RAID 5", "raid10": " RAID 10", "raid10f2": " RAID 10 f2"}
IOPS_STEP = 50
MIB_S_STEP = 5
THROUGHPUTS = 40
# Shares of the time whose demand the coarse grid is cut to, and margins above it.
QUANTILES = (0.5, 0.9, 0.99, 1.0)
MARGINS = (1.0, 1.25, 2.0)
SIZE_GROWTH = 1.08  # coarse sizes grow by this; the lines then find the GiB
UNIT_KIB = 256.0  # SSD types and instances count I/Os in these
HDD_MERGE_KIB = 32.0  # st1 and sc1 put sequential I/Os together only above this size (crates/model/src/accounting.rs)
SIZES = ("read_kib", "write_kib")
CHUNK_KIB = 256.0  # of an array, as the notation has it where none is written (crates/catalog/src/spec.rs)


@dataclass(frozen=True)
class Family:
    """A volume type in a layout, with what the catalog allows on the day."""

    volume_type: str
    layout: str
    era: dict = field(repr=False, compare=False)
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
        """GiB a member needs so that `members` of them hold `size_gib` of data."""
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
        return {"single": volume, "raid0": f"{members}x{volume}", "raid10": f"raid10:{members}x{volume}"}[self.layout]


@dataclass(frozen=True)
class Line:
    """One member count of a family with its axis free: values `low`, `low + step`, ... up to `high`."""

    family: Family
    members: int
    member_gib: int
    low: int
    high: int
    step: int
    mib_s: int | None = None

    @property
    def last(self) -> int:
        """Index of the highest value."""
        return max(0, -(-(self.high - self.low) // self.step))

    def storage(self, index: int) -> str:
        """Notation of the storage at an index of the line."""
        value = min(self.high, self.low + index * self.step)
        if self.family.axis == "iops":
            return self.family.text(self.members, size_for(self.family, self.member_gib, value), value, self.mib_s)
        return self.family.text(self.members, value)


def size_for(family: Family, member_gib: int, iops: int) -> int:
    """GiB a volume needs to be given `iops`: types allow only so many a GiB."""
    per_gib = family.figure("iops", "per_gib")
    if not per_gib or iops <= (family.figure("iops", "included") or 0):
        return member_gib
    return max(member_gib, math.ceil(iops / per_gib))


def write_cost(layout: str, members: int) -> float:
    """I/Os that reach the volumes for one write: mirrors write every copy, RAID 5 reads and writes data and parity."""
    return {"raid1": float(members), "raid5": 4.0, "raid10": 2.0, "raid10f2": 2.0}.get(layout, 1.0)


class Demand:
    """What an open workload asks, counted as volumes count it (crates/model/src/accounting.rs): I/Os in units of 256 KiB."""

    def __init__(self, workload: OpenWorkload) -> None:
        self.workload = workload

    @cached_property
    def totals(self) -> dict[str, float]:
        """Requests of the whole run (`reads`, `writes`), its length `seconds`."""
        points = self.workload.points
        seconds = points["duration_s"]
        reads, writes = (float((points[name] * seconds).sum()) for name in ("reads_per_s", "writes_per_s"))
        return {"reads": reads, "writes": writes, "seconds": float(seconds.sum())}

    def on_volumes(self, layout: str, members: int) -> pl.DataFrame:
        """What all volumes of an array together are asked for at each point: `t_s`, `duration_s`, `iops` (256 KiB units), `mib_s`, and
        `hdd_mib_s` as st1 and sc1 count it (a random I/O costs a whole MiB)."""
        writes = write_cost(layout, members)
        parts = {kib: (pl.col(kib) / CHUNK_KIB).ceil().clip(lower_bound=1.0) if layout != "single" else pl.lit(1.0) for kib in SIZES}
        shares = dict(zip(SIZES, (self.workload.sequential_read_share, self.workload.sequential_write_share), strict=True))

        def units(kib: str) -> pl.Expr:
            return parts[kib] * (pl.col(kib) / parts[kib] / UNIT_KIB).ceil()

        def hdd_kib(kib: str) -> pl.Expr:
            part = pl.col(kib) / parts[kib]
            share = pl.when(part > HDD_MERGE_KIB).then(shares[kib]).otherwise(0.0)
            return parts[kib] * (share * part + (1.0 - share) * (part / 1024.0).ceil() * 1024.0)

        def both(of) -> pl.Expr:
            return pl.col("reads_per_s") * of("read_kib") + writes * pl.col("writes_per_s") * of("write_kib")

        return self.workload.points.select(
            "t_s",
            "duration_s",
            both(units).alias("iops"),
            (both(pl.col) / 1024.0).alias("mib_s"),
            (both(hdd_kib) / 1024.0).alias("hdd_mib_s"),
        )

    def per_member(self, layout: str, members: int) -> pl.DataFrame:
        """The same for each volume: like members carry like shares."""
        return self.on_volumes(layout, members).with_columns(pl.col("iops", "mib_s", "hdd_mib_s") / members)

    def levels(self, layout: str, members: int, column: str, step: int) -> list[int]:
        """Rates worth buying per volume: demand at quantiles of time and its mean, with margins, rounded up to `step`."""
        frame = self.per_member(layout, members).sort(column)
        reached = frame["duration_s"].cum_sum() / frame["duration_s"].sum()
        rates = [frame[column][min(int(reached.search_sorted(q * (1 - 1e-12))), frame.height - 1)] for q in QUANTILES]
        rates.append(float((frame[column] * frame["duration_s"]).sum() / frame["duration_s"].sum()))
        return sorted({max(step, math.ceil(rate * margin / step - 1e-9) * step) for rate in rates for margin in MARGINS})


def member_counts(layout: str, max_volumes: int) -> tuple[int, ...]:
    """How many volumes a layout may have: RAID 10 needs an even number, 4 or more."""
    return {"single": (1,), "raid0": tuple(range(2, max_volumes + 1)), "raid10": tuple(range(4, max_volumes + 1, 2))}[layout]


def lines_of(family: Family, demand: Demand, size_gib: int) -> list[Line]:
    """All lines of a family that hold `size_gib` of data. Empty when no member count does."""
    lines = []
    for members in family.counts:
        gib = family.member_gib(members, size_gib)
        if gib > family.max_gib:
            continue
        if family.axis != "iops":
            high = family.max_gib if family.axis == "size" else gib
            lines.append(Line(family, members, gib, gib, high, 1))
            continue
        most = int(family.figure("iops", "max"))
        floor = int(family.figure("iops", "included") or family.figure("iops", "min") or 1)
        per_gib = family.figure("iops", "per_gib")
        if per_gib:
            most = max(floor, min(most, int(per_gib * family.max_gib)))
        if not family.buys_throughput:
            lines.append(Line(family, members, gib, floor, most, IOPS_STEP))
            continue
        lines += [
            Line(family, members, gib, low, most, IOPS_STEP, mib_s) for mib_s, low in _throughputs(family, demand, members, floor, most)
        ]
    return lines


def _throughputs(family: Family, demand: Demand, members: int, floor: int, most: int) -> list[tuple[int, int]]:
    """MiB/s worth buying for a volume, with the IOPS each needs at least: up to the peak asked, above which nothing waits for it."""
    included, highest = int(family.figure("throughput", "included_mib_s")), int(family.figure("throughput", "max_mib_s"))
    ratio = family.figure("throughput", "mib_s_per_iops") or math.inf
    peak = demand.per_member(family.layout, members)["mib_s"].max() or 0.0
    top = min(highest, max(included, math.ceil(peak / MIB_S_STEP) * MIB_S_STEP))
    # Far above what is included the steps widen, so that no member count has more than THROUGHPUTS lines; the peak is always one of them.
    step = MIB_S_STEP * max(1, math.ceil((top - included) / MIB_S_STEP / THROUGHPUTS))
    steps = [(mib_s, max(floor, math.ceil(mib_s / ratio))) for mib_s in sorted({*range(included, top + 1, step), top})]
    return [(mib_s, low) for mib_s, low in steps if low <= most]


def coarse(family: Family, demand: Demand, size_gib: int) -> list[tuple[str, int]]:
    """The coarse grid of a family: storages with their member counts, each once, in a fixed order."""
    found: dict[str, int] = {}
    by_members: dict[int, list[Line]] = {}
    for line in lines_of(family, demand, size_gib):
        by_members.setdefault(line.members, []).append(line)
    for members, lines in by_members.items():
        if family.axis == "iops":
            wanted = demand.levels(family.layout, members, "mib_s", MIB_S_STEP)
            bought = [line for line in lines if line.mib_s is None or line.mib_s in wanted]
            for line in dict.fromkeys([*bought, lines[0], lines[-1]]):
                found.update((storage, members) for storage in _iops_grid(line, demand))
        else:
            found.update((storage, members) for storage in _size_grid(lines[0], demand))
    return list(found.items())


def _iops_grid(line: Line, demand: Demand) -> list[str]:
    levels = demand.levels(line.family.layout, line.members, "iops", 100)
    if line.mib_s is None:  # throughput follows IOPS at up to 256 KiB each
        levels = levels + [math.ceil(mib * 1024 / UNIT_KIB) for mib in demand.levels(line.family.layout, line.members, "mib_s", MIB_S_STEP)]
    values = sorted({min(max(level, line.low), line.high) for level in [line.low, *levels, line.high]})
    return [line.family.text(line.members, size_for(line.family, line.member_gib, value), value, line.mib_s) for value in values]


def _size_grid(line: Line, demand: Demand) -> list[str]:
    sizes, size = {line.low, line.high}, line.low
    while size < line.high:
        sizes.add(size)
        size = max(math.ceil(size * SIZE_GROWTH), size + 1)
    per_gib = line.family.figure("iops", "per_gib") if line.family.axis == "size" else None
    if per_gib:
        levels = demand.levels(line.family.layout, line.members, "iops", 100)
        sizes |= {size for level in levels if line.low <= (size := math.ceil(level / per_gib)) <= line.high}
    return [line.family.text(line.members, size) for size in sorted(sizes)]


def local_disks(instance: dict) -> list[tuple[str, str, int]]:
    """Storages of an instance's own disks: layout, notation, members. All disks are used, as they are paid for anyway."""
    disks = int(instance["instance_store_devices"])
    if not disks or not instance["instance_store_gb"]:
        return []
    # The catalog gives decimal GB of all disks together; the notation takes binary GiB of one.
    gib = int(instance["instance_store_gb"] * 1e9 / 2**30 / disks)
    if gib < 1:
        return []
    if disks == 1:
        return [("single", f"instance-store:{gib}", 1)]
    found = [("raid0", f"{disks}xinstance-store:{gib}", disks)]
    if disks >= 4 and disks % 2 == 0:
        found.append(("raid10", f"raid10:{disks}xinstance-store:{gib}", disks))
    return found
