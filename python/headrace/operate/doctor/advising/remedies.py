"""Computes the remedy for a limit within one modification of a volume, or one change of the
instance: the cheapest that is sold, never smaller, never more than the instance can use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.storage import Storage
from headrace.base.units import HOURS_PER_MONTH, KIB, MIB
from headrace.catalog.price_list import PriceList
from headrace.errors import InputError
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.operate.doctor.model import Remedy
from headrace.operate.doctor.signals import VolumeSignals
from headrace.planner.actions import VOLUME_ID, describe_modification
from headrace.planner.candidates import Candidate, Space
from headrace.planner.modifying import can_be_modified, list_modified_shapes, list_types
from headrace.planner.search import Search, rank

# Shares of a limit from here up count as the same limit: gp2 below 170 GiB gives 128 MiB/s, and 125
# are included in a gp3. A guess.
SAME = 0.97
# Times the most MiB/s that were seen, for what a change must keep of those that came with the type:
# the planner's margin of a censored demand (thresholds.csv, spare_rate).
UNBOUGHT_SPARE = 1.25
# Times today's limit, from which on another is better. A guess.
BETTER = 1.01


@dataclass(frozen=True)
class Change:
    """A remedy and the storage or instance after it."""

    remedy: Remedy
    storage: str | None = None
    instance: str | None = None


def find_change(volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None) -> Change | None:
    """Returns the change that lifts the limit `subject` to `factor` times today's rates, of the
    instance or of the volume; see `find_instance_change` and `find_volume_change`. Raises
    HeadraceError."""
    find = find_instance_change if subject.startswith("instance") else find_volume_change
    return find(volume, subject, factor, region, as_of)


def find_volume_change(
    volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None
) -> Change | None:
    """Returns the cheapest modification that gives `factor` times today's rates, or as much as can
    be had. None where nothing better is within one modification. Raises InputError where no price
    is known."""
    limits = volume.limits
    if limits is None:
        return None
    if volume.facts.state in ("modifying", "optimizing") or volume.facts.storage is None:
        return None
    today = Storage.parse(volume.facts.storage)
    judge = LimitJudge(volume, today, limits, subject, factor, PriceList(region, as_of))
    storage = judge.find_cheapest()
    return None if storage is None else _describe_change(volume, judge, storage)


def _describe_change(volume: VolumeSignals, judge: LimitJudge, storage: Storage) -> Change:
    """Returns the modification of today's volumes into `storage`, with its lines and its price."""
    today, limits, prices = judge.today, judge.limits, judge.prices
    usd_today, usd = prices.compute_volume_totals([today.text, storage.text])
    more = usd - usd_today
    lines = describe_modification(storage, today, prices.as_of)
    volume_id = volume.facts.id if len(today.members) == 1 else None
    cost = f"{more:+,.2f} USD a month ({usd:,.2f} instead of {usd_today:,.2f}; list prices of {prices.region})"
    new_limits = judge.compute_limits(storage)
    if new_limits.burst_bytes_s < SAME * _compute_movable_bytes(limits):
        less, seen = (f"{value / MIB:,.0f} MiB/s" for value in (new_limits.burst_bytes_s, volume.most_bytes_s))
        cost += f"; {less} are enough for the {seen} that were seen at the most, though {today} may give more"
    remedy = Remedy(
        f"Make it {storage}",
        tuple(line.replace(VOLUME_ID, volume_id or VOLUME_ID) for line in lines["lines"]),
        lines["undo"].replace(VOLUME_ID, volume_id or VOLUME_ID),
        cost,
        more,
        lines["what"],
        lines.get("source") or "",
        storage.text,
    )
    return Change(remedy, storage.text, limits.instance)


class LimitJudge:
    """Judges for the planner's search what today's volumes can be modified into: a storage meets
    the goal if it lifts a limit to what is needed, or to as much of it as any type gives, and takes
    away nothing that was bought or used."""

    def __init__(
        self,
        volume: VolumeSignals,
        today: Storage,
        limits: HoldingLimits,
        subject: str,
        factor: float,
        prices: PriceList,
    ) -> None:
        """Computes the rates that are needed: `factor` times those of `volume`, for the limit
        `subject`."""
        self.today, self.limits, self.subject, self.prices = today, limits, subject, prices
        self.ios, self.bytes_s = _compute_needed_rates(volume, limits, factor)
        self.kept_bytes = _compute_least_bytes(volume, today, limits, self.bytes_s)
        self.share = 1.0  # of the needed rates, that some type gives

    def find_cheapest(self) -> Storage | None:
        """Finds the cheapest storage that meets the goal; None where nothing is better."""
        spaces = self._list_spaces()
        strongest = [
            self.compute_limits(self._read(space.make_candidate((space.shape.x[1], space.shape.y[1]))))
            for space in spaces
        ]
        # In hundredths: the last half of one is not worth another type.
        most = max((self._compute_given_share(limits) for limits in strongest if self._is_better(limits)), default=0.0)
        self.share = math.floor(100.0 * most) / 100.0
        results = Search(self, self.meets, lambda space: math.inf).run(spaces)
        cheapest = min((result for result in results if result.best is not None), key=rank, default=None)
        return None if cheapest is None else self._read(cheapest.candidate)

    def _list_spaces(self) -> list[Space]:
        """Lists what the volumes can become: more of their own type, gp3 or io2; nothing where they
        differ from each other. Raises InputError where none of these types was sold at a known
        price."""
        first, *others = self.today.members
        if not can_be_modified(self.today) or any(other != first for other in others):
            return []
        types = [family for family in list_types(self.prices) if family.volume_type in (first.type, "gp3", "io2")]
        if not types:
            rule = f"no type that it can become has a known price in {self.prices.region} on {self.prices.as_of}"
            raise InputError(self.today.text, rule, "data/prices_volumes.csv", "Name a later day.")
        shapes = list_modified_shapes(types, self.today.layout, len(self.today.members), first.size_gib)
        return [Space(shape, None, 0) for shape in shapes]

    def compute_cost(self, candidate: Candidate) -> float:
        """Returns what a candidate costs, USD a month; NaN where no price is known."""
        return self.prices.compute_volume_totals([candidate[0]])[0]

    def meets(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Returns which candidates meet the goal."""
        every = [self.compute_limits(self._read(candidate)) for candidate in candidates]
        return [self._is_better(limits) and self._compute_given_share(limits) >= self.share for limits in every]

    def _read(self, candidate: Candidate) -> Storage:
        """Returns the storage of a candidate, with the chunks of today's array."""
        storage = Storage.parse(candidate[0])
        return Storage.of(storage.members, self.today.level, self.today.chunk_kib if self.today.level else None)

    def compute_limits(self, storage: Storage) -> HoldingLimits:
        """Returns the limits of a storage on today's instance."""
        return get_holding_limits(storage.text, self.limits.instance, self.prices.as_of)

    def _compute_given_share(self, new_limits: HoldingLimits) -> float:
        """Returns the share of the needed rates that limits give for good, at most 1."""
        rates = ((new_limits.iops, self.ios), (new_limits.bytes_s, self.bytes_s))
        return min([1.0, *(given / need for given, need in rates if need)])

    def _is_better(self, new_limits: HoldingLimits) -> bool:
        """Returns whether the limit is higher, and none is lower than what was bought or used."""
        before = self.limits
        if new_limits.burst_iops < before.burst_iops and before.credit_unit != "bytes":
            return False
        if new_limits.burst_bytes_s < SAME * self.kept_bytes:
            return False
        in_bytes = self.subject.endswith("throughput") or before.credit_unit == "bytes"
        if self.subject == "volume-credits":
            return new_limits.bytes_s > BETTER * before.bytes_s if in_bytes else new_limits.iops > BETTER * before.iops
        if self.subject.endswith("throughput"):
            return new_limits.burst_bytes_s > BETTER * before.burst_bytes_s
        return new_limits.burst_iops > BETTER * before.burst_iops


def _compute_needed_rates(volume: VolumeSignals, limits: HoldingLimits, factor: float) -> tuple[float, float]:
    """Returns I/Os and bytes a second of all members, at most what the instance carries."""
    ios, bytes_s = volume.charged_iops * factor, volume.bytes_s * factor
    if limits.instance_iops:
        ios = min(ios, max(limits.instance_iops, volume.charged_iops))
    if limits.instance_bytes_s:
        bytes_s = min(bytes_s, max(limits.instance_bytes_s, volume.bytes_s))
    return ios, bytes_s


def _compute_movable_bytes(limits: HoldingLimits) -> float:
    """Returns the bytes a second that a volume can move: its throughput, or its IOPS of 256 KiB."""
    return min(limits.burst_bytes_s, limits.burst_iops * 256 * KIB)


def _compute_least_bytes(volume: VolumeSignals, today: Storage, limits: HoldingLimits, need_bytes: float) -> float:
    """Returns bytes a second that no change may take away: those that were bought, all of them;
    those that come with a type and are not bought, as far as they were used, with some to spare."""
    given = _compute_movable_bytes(limits)
    if any(member.type == "gp3" for member in today.members):
        return given
    return min(given, max(need_bytes, UNBOUGHT_SPARE * volume.most_bytes_s))


def _compute_share(rate: float, allowed: float | None) -> float:
    return rate / allowed if allowed else 0.0


def find_instance_change(
    volume: VolumeSignals, subject: str, factor: float, region: str, as_of: str | None
) -> Change | None:
    """Returns the change to the larger type of the same family with the fewest vCPUs whose baseline
    carries `factor` times today's rate; if none does, to the one with the fewest vCPUs and a higher
    baseline than today's, and the words say that it is too small. None without an instance, or
    where no type of the family has a higher baseline."""
    limits = volume.limits
    if limits is None or limits.instance is None:
        return None
    family = limits.instance.partition(".")[0]
    prices = PriceList(region, as_of)
    with translate_core_errors():
        larger = [
            instance for instance in core.instances(as_of) if instance["instance_type"].partition(".")[0] == family
        ]
    in_bytes = subject == "instance-throughput" or (
        subject == "instance-credits"
        and _compute_share(volume.bytes_s, limits.instance_bytes_s)
        > _compute_share(volume.charged_iops, limits.instance_iops)
    )
    need = (volume.bytes_s if in_bytes else volume.charged_iops) * factor
    options = []
    for instance in larger:
        base = instance["baseline_bytes_s"] if in_bytes else instance["baseline_iops"]
        today = limits.instance_bytes_s if in_bytes else limits.instance_iops
        if not base or not today or base <= today:
            continue
        options.append((base < need, instance["vcpus"], instance["instance_type"], base))
    if not options:
        return None
    too_small, _, name, base = min(options)
    what = f"Change the instance from {limits.instance} to {name}; a larger volume does not help"
    if too_small:
        unit, divisor = ("MiB/s", MIB) if in_bytes else ("I/Os a second", 1)
        needed, given = (f"{rate / divisor:,.0f}" for rate in (need, base))
        what += f". It is too small: {needed} {unit} are needed, no {family} carries them for good, and {name} carries {given}"
    before, after = (prices.compute_instance_hour_usd(instance) for instance in (limits.instance, name))
    more = None if after is None or before is None else (after - before) * HOURS_PER_MONTH
    cost = "no price is known" if more is None else f"{more:+,.2f} USD a month (list prices of {region})"
    remedy = Remedy(
        what,
        (
            "aws ec2 stop-instances ...",
            f"aws ec2 modify-instance-attribute --instance-id INSTANCE --instance-type {name}",
            "aws ec2 start-instances ...",
        ),
        f"the same with --instance-type {limits.instance}",
        cost,
        more,
        "the instance stops for some minutes: the server with it",
        "data/instances.csv",
    )
    return Change(remedy, None, name)
