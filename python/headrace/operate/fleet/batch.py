"""The answers for a batch of devices: each first predicted as it is, then right-sized.

The search is the planner's own (`planner.search`), over the same spaces as its `in place` row:
types that today's volumes can be modified into, nothing smaller. All devices of a batch are
searched together, so that one call of the core answers one question of each. An answer depends on
its own device, the others of its instance (whose limits they share) and the settings alone: in
whatever batch it is computed, its bytes are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.storage import Storage
from headrace.base.units import DAY_S, MIB, span_in_words
from headrace.catalog.price_list import PriceList
from headrace.errors import HeadraceError
from headrace.operate.evidence.limits import holding
from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer
from headrace.operate.fleet.closed import WaitingClients, raised, waiting_clients
from headrace.operate.fleet.cost import PriceTable
from headrace.operate.fleet.durability import durability_lost
from headrace.operate.fleet.history import FORTNIGHT_DAYS, DeviceHistory, at_level, history_of
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.selfcheck import SelfCheck, check
from headrace.operate.fleet.unused import unused_because
from headrace.planner.candidates import LOCAL, Candidate, Directory, Family, Host, Shape, Space, families_on, shape_of
from headrace.planner.demand import THROTTLED_S
from headrace.planner.search import Search, SpaceResult, rank
from headrace.workload.model import MAX_OUTSTANDING

# A change that saves less than this is not worth a modification: ours, as for a plan
# (planner.reasons has a fifth for a move; a modification needs no move).
LEAST_SAVING = 0.02
LEAST_SAVING_USD = 0.5  # a month
# An instance's devices together this near its limit in a period: the instance binds.
AT_INSTANCE = 0.97
MOST_SHAPES = 1_024  # sizes whose shapes are kept: a fleet has some hundred; a guess
# Prices of storages that are kept, some 200 bytes each: a fleet of 10,000 asks for fewer; a guess.
MOST_USD = 262_144
# The share of a demand at which nothing waits for a limit, and latency is the storage's own; ours.
CALM = 1e-3
SLACK = 1e-9  # of a p99 against its bound: what summing leaves


@dataclass
class _Open:
    """A device that is being answered."""

    device: FleetDevice
    today: Storage
    history: DeviceHistory
    clients: WaitingClients | None = None
    still_ms: float | None = None  # what an I/O takes on the advised storage where as many wait
    checked: SelfCheck | None = None
    figures: dict[str, float] = field(default_factory=dict)
    bound_ms: float = math.inf
    best: SpaceResult | None = None
    risk: float | None = None
    short_of: tuple[bool, bool] | None = None


def answer_batch(
    devices: Sequence[FleetDevice], points: Mapping[str, pl.DataFrame], settings: FleetSettings
) -> list[VolumeAnswer]:
    """An answer for each device. `points`: of each volume id its rows (see `points.COLUMNS`)."""
    found: dict[str, VolumeAnswer] = {}
    open_devices: list[_Open] = []
    for device in devices:
        answer = _opened(device, points, settings)
        if isinstance(answer, VolumeAnswer):
            found[device.key] = answer
        else:
            open_devices.append(answer)
    if open_devices:
        _see_instances(open_devices, settings.as_of)
        found |= {one.key: one for one in _Batch(open_devices, settings).answers()}
    return [found[device.key] for device in devices]


def _opened(device: FleetDevice, points: Mapping[str, pl.DataFrame], settings: FleetSettings) -> VolumeAnswer | _Open:
    """A device with its history, or the answer where there is nothing to look at."""
    why, text = "", ""
    try:
        text = device.storage().text
        # Refuse what is not known: the storage on its instance, and its region's prices.
        limits = holding(text, device.members[0].instance_type or None, settings.as_of)
        families(device.members[0].region or settings.region, settings.as_of, settings.exclude)
        if (unused := unused_because(device, points, settings.least_days)) is not None:
            verdict, why = unused
            usd = _usd_of(device, text, settings) if verdict == "unused" else None
            return _answer(device, verdict, why, text, usd_today=usd, prices=settings.prices)
        why = _withheld(device)
        if not why:
            return _Open(device, device.storage(), history_of(device, points, settings.least_days, limits))
    except HeadraceError as error:
        why = _withheld(device) or f"{error.value}: {error.rule}"
    return _answer(device, "withheld", why, text, prices=settings.prices)


def _see_instances(devices: Sequence[_Open], as_of: str | None) -> None:
    """Notes where the volumes of an instance together had the rate of one of its limits."""
    together: dict[str, list[_Open]] = {}
    for one in devices:
        first = one.device.members[0]
        if first.instance_id and first.instance_type:
            together.setdefault(first.instance_id, []).append(one)
    for group in together.values():
        with core_errors():
            limits = core.instance(group[0].device.members[0].instance_type, as_of)
        length = min(len(one.history.given_iops) for one in group)
        iops = np.sum([one.history.given_iops[-length:] for one in group], axis=0)
        bytes_s = np.sum([one.history.given_bytes_s[-length:] for one in group], axis=0)
        held = (
            at_level(iops, limits["max_iops"])
            | at_level(bytes_s, limits["max_bytes_s"])
            | _at_baseline(iops, limits["baseline_iops"])
            | _at_baseline(bytes_s, limits["baseline_bytes_s"])
        )
        if held.any():
            for one in group:
                at_instance = np.zeros(len(one.history.given_iops), bool)
                at_instance[-length:] = held
                one.history = replace(one.history, at_instance=at_instance)


def _at_baseline(rates: np.ndarray, baseline: float | None) -> np.ndarray:
    """Which rates are those of an instance whose burst is spent: at the baseline, and not above."""
    return at_level(rates, baseline) & (rates <= (baseline or 0.0) / AT_INSTANCE)


def _withheld(device: FleetDevice) -> str:
    """Why a device gets no advice before anything is looked at."""
    for member in device.members:
        if member.managed_by:
            return f"{member.id} is managed by {member.managed_by}"
        if member.remarks:
            return f"{member.id}: {member.remarks[0]}"
        if member.multi_attach:
            return f"{member.id} may be attached to several instances: what each asks for is not known"
        if member.modifying:
            return f"{member.id} is {member.modifying}: its figures are those of two volumes"
    return ""


def _answer(device: FleetDevice, verdict: Any, why: str, today: str, **more: Any) -> VolumeAnswer:
    first = device.members[0]
    ids = tuple(member.id for member in device.members)
    about = (first.account, first.region, first.instance_type)
    return VolumeAnswer(device.key, ids, *about, verdict, why, today, name=device.name, **more)


class _Batch:
    """Devices with their demand in the core."""

    def __init__(self, devices: list[_Open], settings: FleetSettings) -> None:
        self.devices, self.settings = devices, settings
        self.instances = [one.device.members[0].instance_type or None for one in devices]
        for one, instance in zip(devices, self.instances, strict=True):
            one.clients = waiting_clients(one.history, one.today, instance, settings.as_of)
        # What was given is compared with today's storage; what is asked for may be more.
        self.given = _demands([one.history.columns for one in devices])
        closed = any(one.clients is not None for one in devices)
        self.demands = _demands([raised(one.history, one.clients) for one in devices]) if closed else self.given
        self._known: dict[Candidate, bool] = {}

    def answers(self) -> list[VolumeAnswer]:
        """The answers, in order."""
        self._check()
        trusted = [index for index, one in enumerate(self.devices) if one.checked is not None and not one.checked.why]
        self._today(trusted)
        self._search(trusted)
        self._risks(trusted)
        return [self._told(one) for one in self.devices]

    def _check(self) -> None:
        every = list(range(len(self.devices)))
        storages = [one.today.text for one in self.devices]
        starts = [one.history.first_balance for one in self.devices]
        with core_errors():
            followed = self.given.follow(every, storages, self.instances, starts, as_of=self.settings.as_of)
        for one, rows in zip(self.devices, followed, strict=True):
            one.checked = check(one.history, one.today, rows, one.clients)

    def _evaluate(self, indexes: Sequence[int], storages: Sequence[str], factor: float = 1.0) -> dict[str, list]:
        """Storages under so much of the demands of these indexes, in the settled cycle."""
        instances = [self.instances[index] for index in indexes]
        with core_errors():
            return self.demands.evaluate(
                indexes, storages, instances, [factor] * len(indexes), as_of=self.settings.as_of, prune_above=math.inf
            )

    def _today(self, trusted: Sequence[int]) -> None:
        """What today's storage gives, and what nothing may be worse than."""
        columns = self._evaluate(trusted, [self.devices[index].today.text for index in trusted])
        for place, index in enumerate(trusted):
            one = self.devices[index]
            one.figures["today_throttled_min"] = (columns["throttled_s"][place] or 0.0) / 60
            one.figures["today_p99_ms"] = columns["worst_p99_ms"][place]
            one.bound_ms = max(self.settings.p99_ms, columns["worst_p99_ms"][place] or 0.0)
        # A p99 of waiting for limits is nothing to hold another storage to: without it, then.
        waiting = [index for index in trusted if self.devices[index].figures["today_throttled_min"] > 0]
        calm = self._evaluate(waiting, [self.devices[index].today.text for index in waiting], CALM)
        for place, index in enumerate(waiting):
            self.devices[index].bound_ms = max(self.settings.p99_ms, calm["worst_p99_ms"][place] or 0.0)
            if (clients := self.devices[index].clients) is not None:
                self.devices[index].figures["today_p99_ms"] = clients.today_ms

    # --- search -----------------------------------------------------------------------------------

    def meets(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Which candidates meet the goals: no throttling and the p99, with the head-room."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._known]
        if new:
            places = [place for *_, place in new]
            with core_errors():
                found = self.demands.meets(
                    places,
                    [data for data, *_ in new],
                    [self.instances[place] for place in places],
                    [1.0 + self.settings.headroom_percent / 100.0] * len(new),
                    [self.devices[place].bound_ms * (1 + SLACK) for place in places],
                    THROTTLED_S,
                    as_of=self.settings.as_of,
                )
            for candidate, met in zip(new, found, strict=True):
                self._known[candidate] = met and not self._is_less(candidate)
        return [self._known[candidate] for candidate in candidates]

    def _is_less(self, candidate: Candidate) -> bool:
        """Whether it gives less of what a volume at its limit was short of: more was asked than is
        known."""
        one = self.devices[candidate[2]]
        if not self._fails(one):
            return False
        if one.short_of is None:
            one.short_of = one.history.short_of(one.today.text, self.settings.as_of)
        return weaker(candidate[0], one.today.text, self.settings.as_of, one.short_of)

    def costs(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """USD a month at the prices of each device's region and account."""
        return np.array([self._usd(self.devices[place], data) for data, _, place in candidates])

    def _region(self, one: _Open) -> str:
        return one.device.members[0].region or self.settings.region

    def _search(self, trusted: Sequence[int]) -> None:
        best: dict[int, float] = {}

        def note(found: SpaceResult) -> None:
            best[found.space.host] = min(best.get(found.space.host, math.inf), found.usd)

        spaces = [space for index in trusted for space in self._spaces(index)]
        search = Search(self, self.meets, lambda space: best.get(space.host, math.inf), note)  # pyright: ignore[reportArgumentType]
        for one in sorted((one for one in search.run(spaces) if one.best is not None), key=rank, reverse=True):
            self.devices[one.space.host].best = one  # the cheapest comes last

    def _spaces(self, index: int) -> list[Space]:
        """What today's volumes can be modified into: the planner's rule for its `in place` row."""
        today = self.devices[index].today
        if not can_be_searched(today):
            return []
        region, settings = self._region(self.devices[index]), self.settings
        count, gib = len(today.members), today.members[0].size_gib
        shapes = shapes_in(region, settings.as_of, settings.exclude, today.layout, count, gib)
        return [Space(shape, None, index) for shape in shapes]

    # --- risk -------------------------------------------------------------------------------------

    def _risks(self, trusted: Sequence[int]) -> None:
        """Fortnights drawn from the recorded days, each day's level moved by as much as days
        differ."""
        wanted = [index for index in trusted if self._wanted(self.devices[index])]
        if not wanted:
            return
        storages = [self._wanted(self.devices[index]) for index in wanted]
        columns = self._evaluate(wanted, storages)
        for place, index in enumerate(wanted):
            figures = self.devices[index].figures
            figures["wanted_throttled_min"] = (columns["throttled_s"][place] or 0.0) / 60
            figures["wanted_p99_ms"] = columns["worst_p99_ms"][place]
            if (clients := self.devices[index].clients) is not None:
                self.devices[index].still_ms = clients.ms_on(
                    storages[place], self.instances[index], self.settings.as_of
                )
        if not (count := self.settings.fortnights):
            return
        drawn = [self.devices[index].history.fortnights(count, self.settings.seed) for index in wanted]
        asked = [(index, storage, one) for index, storage, one in zip(wanted, storages, drawn, strict=True) if one]
        if not asked:
            return
        with core_errors():
            missing = self.demands.missing_draws(
                [index for index, *_ in asked],
                [storage for _, storage, _ in asked],
                [self.instances[index] for index, *_ in asked],
                [self.devices[index].bound_ms * (1 + SLACK) for index, *_ in asked],
                THROTTLED_S,
                [days for *_, (days, _) in asked],
                [levels for *_, (_, levels) in asked],
                [self.devices[index].history.per_day for index, *_ in asked],
                FORTNIGHT_DAYS,
                as_of=self.settings.as_of,
            )
        for (index, *_), failed in zip(asked, missing, strict=True):
            self.devices[index].risk = failed / count

    def _wanted(self, one: _Open) -> str:
        """The storage advised instead of today's, "" where today's stays."""
        if one.best is None:
            return ""
        text = one.best.candidate[0]
        if text == one.today.text:
            return ""
        return text if self._fails(one) or self._saves(one) else ""

    def _saves(self, one: _Open) -> bool:
        """Whether what was found costs noticeably less than today's storage."""
        assert one.best is not None  # asked only where something was found
        before = self._usd(one, one.today.text)
        return before - one.best.usd >= max(LEAST_SAVING * before, LEAST_SAVING_USD)

    def _fails(self, one: _Open) -> bool:
        """Whether today's storage throttles, or did in the recording."""
        return one.figures["today_throttled_min"] > 0 or one.history.censored_share > 0

    def _usd(self, one: _Open, storage: str) -> float:
        return _usd_of(one.device, storage, self.settings)

    # --- words ------------------------------------------------------------------------------------

    def _told(self, one: _Open) -> VolumeAnswer:
        checked, history = one.checked, one.history
        assert checked is not None  # every device was checked
        about = {
            "grain_s": history.grain_s,
            "days": history.span_s / DAY_S,
            "censored_share": history.censored_share,
            "balance_error": checked.balance_error,
            "throttled_f1": checked.throttled_f1,
            "queue_ratio": checked.queue_ratio,
            "prices": self.settings.prices,
        }
        if checked.why:
            return _answer(one.device, "withheld", f"not modelled: {checked.why}", one.today.text, **about)
        about |= {"usd_today": self._usd(one, one.today.text), **one.figures}
        bound = self._instance_bound(one)
        if bound and self._fails(one):
            first = one.device.members[0]
            about["bound_by"] = f"{first.instance_id} ({first.instance_type})"
            return _answer(one.device, "keep", bound, one.today.text, **about)
        wanted = self._wanted(one)
        if not wanted:
            return _answer(one.device, "keep", self._why_keep(one), one.today.text, **about)
        assert one.best is not None  # else nothing is wanted
        about |= {"wanted": wanted, "usd_wanted": one.best.usd, "risk": one.risk}
        about["durability"] = durability_lost(one.today.text, wanted, self.settings.as_of)
        if not self._saves(one):  # then today's fails
            return _answer(one.device, "grow", self._why_grow(one), one.today.text, **about)
        return _answer(one.device, "change", self._why_change(one, about["durability"]), one.today.text, **about)

    def _why_grow(self, one: _Open) -> str:
        count, total = int(one.history.censored.sum()), len(one.history.censored)
        if count:
            grain = span_in_words(one.history.grain_s)
            return (
                f"today's volume is at a limit in {count:,} of {total:,} periods of {grain}: what it gave is less than what was "
                f"asked{self._waiting(one)}"
            )
        waited = 60.0 * one.figures["today_throttled_min"]
        span = span_in_words(round(waited)) if waited >= 1.0 else "less than 1 s"
        return f"simulated with the recorded demand, today's volume makes requests wait for its limits for {span}"

    def _why_change(self, one: _Open, durability: str) -> str:
        lost = f"; less durable: {durability} a year" if durability else ""
        if one.clients is not None:
            return f"today's volume makes requests wait for its limits{self._waiting(one)}{lost}"
        carries = f"still {self.settings.headroom_percent:g} % head-room"
        p99_ms = one.figures.get("wanted_p99_ms")
        if p99_ms is None:  # nothing was asked of it
            return f"{carries}{lost}"
        if self._fails(one):
            return f"today's volume makes requests wait for its limits; with this one {carries}, I/O p99 {_ms(p99_ms)}{lost}"
        bound = f"the goal is {_ms(self.settings.p99_ms)}"
        if one.bound_ms > self.settings.p99_ms:
            bound = f"today's is {_ms(one.bound_ms)}"
        return f"{carries}, I/O p99 {_ms(p99_ms)} ({bound}){lost}"

    def _waiting(self, one: _Open) -> str:
        """How many waited, and what an I/O then takes today and on what is advised; "" where no
        clients waited."""
        if one.clients is None or one.best is None:
            return ""
        told = f"; {one.clients.queue:,.0f} I/Os waited there, {_ms(one.clients.today_ms)} each"
        if one.still_ms is None:
            return told
        return f"{told}; if as many wait again, each takes {_ms(one.still_ms)} on the advised one"

    def _instance_bound(self, one: _Open) -> str:
        """Where the instance binds while this volume is at a limit, a larger volume brings nothing;
        in words, "" where it does not."""
        first, history = one.device.members[0], one.history
        if history.at_instance is None or not history.censored.any():
            return ""
        # For most of the time at a limit it is that of the instance.
        if history.at_instance[history.censored].mean() <= 0.5:
            return ""
        together = [other.history for other in self.devices if other.device.members[0].instance_id == first.instance_id]
        length = min(len(other.given_iops) for other in together)
        at_limit = history.at_instance[-length:]
        with core_errors():
            limits = core.instance(first.instance_type, self.settings.as_of)
        of_unit = (
            ("IOPS", 1, "given_iops", limits["baseline_iops"], limits["max_iops"]),
            ("MiB/s", MIB, "given_bytes_s", limits["baseline_bytes_s"], limits["max_bytes_s"]),
        )
        for unit, scale, name, baseline, highest in of_unit:
            rates = np.sum([getattr(other, name)[-length:] for other in together], axis=0)
            taken = float(np.median(rates[at_limit]))
            for most in (baseline, highest):
                if most and AT_INSTANCE * most <= taken <= most / AT_INSTANCE:
                    spent = " without its burst" if most < (highest or most) else ""
                    return (
                        f"{first.instance_type} gives {most / scale:,.0f} {unit} to all its volumes{spent}, and they take it "
                        f"in {int(at_limit.sum()):,} of {length:,} periods: the instance binds, and a larger volume brings nothing"
                    )
        return ""

    def _why_keep(self, one: _Open) -> str:
        if one.best is None and not can_be_searched(one.today):
            return f"for {one.today.text} nothing is looked for: magnetic volumes and arrays of unequal ones stay"
        if one.best is None:
            return "no storage that it can be modified into meets the goals"
        if self._fails(one):
            return "it is at a limit at times, and nothing that gives as much of what it is short of costs less"
        return "nothing that meets the goals costs noticeably less"


def _ms(value: float) -> str:
    """A latency with three figures."""
    return f"{value:.3g} ms" if value < 100 else f"{value:,.0f} ms"


# --- the core, prices and families ----------------------------------------------------------------

NO_HOST = Host(None)


@cache
def prices_of(region: str, as_of: str | None) -> PriceList:
    """The list prices of a region."""
    return PriceList(region, as_of)


@cache
def usd_of(region: str, as_of: str | None, storage: str) -> float:
    """USD a month of a storage at list prices; NaN where none is known."""
    return float(prices_of(region, as_of).volume_totals([storage], 0.0)[0])


@lru_cache(maxsize=MOST_USD)
def usd_at(table: PriceTable, storage: str) -> float:
    """USD a month of a storage at an account's prices; NaN where none is known."""
    with core_errors():
        return core.monthly_totals([storage], table.region, table.table["as_of"], 0.0, table.table)[0]


def _usd_of(device: FleetDevice, storage: str, settings: FleetSettings) -> float:
    """USD a month of a storage in the place of a device."""
    first = device.members[0]
    region = first.region or settings.region
    table = _tables(settings.tables).get((region, first.account))
    return usd_of(region, settings.as_of, storage) if table is None else usd_at(table, storage)


@lru_cache(maxsize=4)  # of the settings of a run
def _tables(tables: tuple[PriceTable, ...]) -> dict[tuple[str, str], PriceTable]:
    """What each account pays in each region."""
    return {(table.region, table.account): table for table in tables}


def _demands(columns: Sequence[Mapping[str, np.ndarray]]) -> core.FleetDemands:
    """The demand of devices in the core, one after the other."""
    joined: dict[str, Any] = {name: np.concatenate([one[name] for one in columns]) for name in DeviceHistory.COLUMNS}
    lengths = [len(one["duration_s"]) for one in columns]
    return core.FleetDemands(**joined, lengths=lengths, max_outstanding=MAX_OUTSTANDING)


@cache
def weaker(wanted: str, today: str, as_of: str | None, short_of: tuple[bool, bool] = (True, True)) -> bool:
    """Whether a storage gives fewer IOPS or MiB/s than another, both with credits; of the two only
    those that are asked about count."""
    after, before = holding(wanted, as_of=as_of), holding(today, as_of=as_of)
    fewer = after.burst_iops < before.burst_iops, after.burst_bytes_s < before.burst_bytes_s
    return any(short and less for short, less in zip(short_of, fewer, strict=True))


def can_be_searched(today: Storage) -> bool:
    """Whether something else is looked for: of volumes that are alike and of a current type."""
    alike = len({member.size_gib for member in today.members}) == 1
    return alike and today.members[0].type not in (LOCAL, "standard")


@lru_cache(maxsize=MOST_SHAPES)
def shapes_in(
    region: str, as_of: str | None, exclude: tuple[str, ...], layout: str, members: int, gib: int
) -> tuple[Shape, ...]:
    """What `members` volumes of `gib` in a layout can be modified into. Volumes of one size share
    them, and so the notations made."""
    found: list[Shape] = []
    for family in families(region, as_of, exclude):
        own = Family(family.volume_type, layout, family.era, (members,))
        least = max(gib, family.min_gib)
        if least <= family.max_gib:
            found.append(shape_of(own, members, least))
    return tuple(found)


@cache
def families(region: str, as_of: str | None, exclude: tuple[str, ...]) -> tuple[Family, ...]:
    """Types that single volumes may be modified into."""
    prices = prices_of(region, as_of)
    found, _ = families_on(Directory(prices.as_of), prices, dict.fromkeys(exclude, "excluded"), 1, [NO_HOST])
    return tuple(family for family in found if family.layout == "single" and family.volume_type != LOCAL)
