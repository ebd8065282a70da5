"""The answers for a batch of devices: each first predicted as it is, then right-sized.

The search is the planner's own (`planner.search`), over the same spaces as its `in place` row:
types that today's volumes can be modified into, nothing smaller. All devices of a batch are
searched together, so that one call of the core answers one question of each. An answer depends on
its own device, the others of its instance (whose limits they share) and the settings alone: in
whatever batch it is computed, its bytes are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.storage import Storage
from headrace.base.units import DAY_S, MIB
from headrace.catalog.price_list import PriceList
from headrace.errors import HeadraceError
from headrace.operate.evidence.limits import holding
from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer
from headrace.operate.fleet.history import FORTNIGHT_DAYS, DeviceHistory, history_of
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.selfcheck import SelfCheck, check
from headrace.planner.candidates import LOCAL, Candidate, Directory, Family, Host, Space, families_on, spaces_of
from headrace.planner.demand import THROTTLED_S
from headrace.planner.search import Search, SpaceResult, rank
from headrace.workload.model import MAX_OUTSTANDING

# A change that saves less than this is not worth a modification: ours, as for a plan
# (planner.reasons has a fifth for a move; a modification needs no move).
LEAST_SAVING = 0.02
LEAST_SAVING_USD = 0.5  # a month
# An instance's devices together this near its limit in a period: the instance binds.
AT_INSTANCE = 0.97
SLACK = 1e-9  # of a p99 against its bound: what summing leaves


@dataclass
class _Open:
    """A device that is being answered."""

    device: FleetDevice
    today: Storage
    history: DeviceHistory
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
        today, history, why = None, None, _withheld(device)
        try:
            today = device.storage()
            holding(today.text, device.members[0].instance_type or None, settings.as_of)  # refuses what is not known
            history = None if why else history_of(device, points, settings.least_days)
        except HeadraceError as error:
            why = why or f"{error.value}: {error.rule}"
        if history is None or today is None:
            found[device.key] = _answer(device, "withheld", why, "" if today is None else today.text)
        else:
            open_devices.append(_Open(device, today, history))
    if open_devices:
        found |= {one.key: one for one in _Batch(open_devices, settings).answers()}
    return [found[device.key] for device in devices]


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
    return VolumeAnswer(device.key, ids, first.account, first.region, first.instance_type, verdict, why, today, **more)


class _Batch:
    """Devices with their demand in the core."""

    def __init__(self, devices: list[_Open], settings: FleetSettings) -> None:
        self.devices, self.settings = devices, settings
        columns: dict[str, Any] = {
            name: np.concatenate([one.history.columns[name] for one in devices]) for name in DeviceHistory.COLUMNS
        }
        lengths = [len(one.history.columns["duration_s"]) for one in devices]
        self.demands = core.FleetDemands(**columns, lengths=lengths, max_outstanding=MAX_OUTSTANDING)
        self.instances = [one.device.members[0].instance_type or None for one in devices]
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
            followed = self.demands.follow(every, storages, self.instances, starts, as_of=self.settings.as_of)
        for one, rows in zip(self.devices, followed, strict=True):
            one.checked = check(one.history, one.today, rows)

    def _evaluate(self, indexes: Sequence[int], storages: Sequence[str]) -> dict[str, list]:
        """Storages under the demands of these indexes, in the settled cycle."""
        instances = [self.instances[index] for index in indexes]
        with core_errors():
            return self.demands.evaluate(
                indexes, storages, instances, [1.0] * len(indexes), as_of=self.settings.as_of, prune_above=math.inf
            )

    def _today(self, trusted: Sequence[int]) -> None:
        """What today's storage gives, and what nothing may be worse than."""
        columns = self._evaluate(trusted, [self.devices[index].today.text for index in trusted])
        for place, index in enumerate(trusted):
            one = self.devices[index]
            one.figures["today_throttled_min"] = (columns["throttled_s"][place] or 0.0) / 60
            one.figures["today_p99_ms"] = columns["worst_p99_ms"][place]
            one.bound_ms = max(self.settings.p99_ms, columns["worst_p99_ms"][place] or 0.0)

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
        """USD a month at the list prices of each device's region."""
        return np.array(
            [usd_of(self._region(self.devices[place]), self.settings.as_of, data) for data, _, place in candidates]
        )

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
        sizes = {member.size_gib for member in today.members}
        if len(sizes) > 1 or today.members[0].type in (LOCAL, "standard"):
            return []
        found = []
        for family in families(self._region(self.devices[index]), self.settings.as_of, self.settings.exclude):
            own = Family(family.volume_type, today.layout, family.era, (len(today.members),))
            shaped = spaces_of(own, [NO_HOST], [None], max(sizes) * len(today.members) // own.data_share, 0)
            found += [Space(space.shape, None, index) for space in shaped]
        return found

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
        before, after = self._usd(one), one.best.usd
        if text == one.today.text:
            return ""
        if self._fails(one):
            return text
        return text if before - after >= max(LEAST_SAVING * before, LEAST_SAVING_USD) else ""

    def _fails(self, one: _Open) -> bool:
        """Whether today's storage throttles, or did in the recording."""
        return one.figures["today_throttled_min"] > 0 or one.history.censored_share > 0

    def _usd(self, one: _Open) -> float:
        return usd_of(self._region(one), self.settings.as_of, one.today.text)

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
        }
        if checked.why:
            return _answer(one.device, "withheld", f"not modelled: {checked.why}", one.today.text, **about)
        about |= {"usd_today": self._usd(one), **one.figures}
        wanted = self._wanted(one)
        if not wanted:
            return _answer(one.device, "keep", self._why_keep(one), one.today.text, **about)
        assert one.best is not None  # else nothing is wanted
        about |= {"wanted": wanted, "usd_wanted": one.best.usd, "risk": one.risk}
        bound = self._instance_bound(one)
        if bound and self._fails(one):
            return _answer(one.device, "keep", bound, one.today.text, **(about | {"wanted": "", "usd_wanted": None}))
        if self._fails(one) and one.best.usd > self._usd(one):
            why = f"today's volume is at a limit {history.censored_share:.1%} of the time: what it gave is less than what was asked"
            return _answer(one.device, "grow", why, one.today.text, **about)
        why = f"meets p99 of {one.bound_ms:.3g} ms without throttling under {self.settings.headroom_percent:g} % more demand"
        return _answer(one.device, "change", why, one.today.text, **about)

    def _instance_bound(self, one: _Open) -> str:
        """Where the instance binds while this volume is at a limit, a larger volume brings nothing;
        in words, "" where it does not."""
        first = one.device.members[0]
        if not first.instance_id or not first.instance_type:
            return ""
        with core_errors():
            limits = core.instance(first.instance_type, self.settings.as_of)
        together = [other.history for other in self.devices if other.device.members[0].instance_id == first.instance_id]
        length = min(len(history.given_iops) for history in together)
        at_limit = one.history.censored[-length:]
        for unit, most, rates in (
            ("IOPS", limits["max_iops"], sum(history.given_iops[-length:] for history in together)),
            (
                "MiB/s",
                (limits["max_bytes_s"] or 0) / MIB,
                sum(history.given_bytes_s[-length:] for history in together) / MIB,
            ),
        ):
            if most and at_limit.any() and np.median(np.asarray(rates)[at_limit]) >= AT_INSTANCE * most:
                return f"{first.instance_type} gives {most:,.0f} {unit} to all its volumes, and they take that: a larger volume brings nothing"
        return ""

    def _why_keep(self, one: _Open) -> str:
        if one.best is None:
            return "no storage that it can be modified into meets the goals"
        if self._fails(one):
            return "it is at a limit at times, and nothing that gives as much of what it is short of costs less"
        return "nothing that meets the goals costs noticeably less"


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


@cache
def weaker(wanted: str, today: str, as_of: str | None, short_of: tuple[bool, bool] = (True, True)) -> bool:
    """Whether a storage gives fewer IOPS or MiB/s than another, both with credits; of the two only
    those that are asked about count."""
    after, before = holding(wanted, as_of=as_of), holding(today, as_of=as_of)
    fewer = after.burst_iops < before.burst_iops, after.burst_bytes_s < before.burst_bytes_s
    return any(short and less for short, less in zip(short_of, fewer, strict=True))


@cache
def families(region: str, as_of: str | None, exclude: tuple[str, ...]) -> tuple[Family, ...]:
    """Types that single volumes may be modified into."""
    prices = prices_of(region, as_of)
    found, _ = families_on(Directory(prices.as_of), prices, dict.fromkeys(exclude, "excluded"), 1, [NO_HOST])
    return tuple(family for family in found if family.layout == "single" and family.volume_type != LOCAL)
