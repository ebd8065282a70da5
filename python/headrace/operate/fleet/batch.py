"""The answers for a batch of devices: first each is simulated on today's storage and compared with
its recording (`selfcheck`), then the cheapest storage that meets the goals is searched.

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
from headrace.base.core import translate_core_errors
from headrace.base.storage import Storage
from headrace.base.units import DAY_S, MIB, describe_span
from headrace.catalog.price_list import PriceList
from headrace.errors import HeadraceError
from headrace.observe.evidence.limits import get_holding_limits
from headrace.operate.fleet.answer import FleetSettings, Verdict, VolumeAnswer, describe_durability_loss
from headrace.operate.fleet.closed import WaitingClients, find_waiting_clients, raise_demand
from headrace.operate.fleet.cost import PriceTable
from headrace.operate.fleet.history import FORTNIGHT_DAYS, DeviceHistory, build_history, find_rates_at_limit, judge_use
from headrace.operate.fleet.inventory import FleetDevice
from headrace.operate.fleet.selfcheck import SelfCheck, check
from headrace.planner.candidates import Candidate, Family, Shape, Space
from headrace.planner.demand import THROTTLED_S
from headrace.planner.modifying import can_be_modified, list_modified_shapes, list_types
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
class _Case:
    """A device and what is computed of it. `bound_ms`: the highest I/O p99 allowed; `best`: the
    cheapest storage that meets the goals; `short_of`: as of `DeviceHistory.find_shortage`."""

    device: FleetDevice
    today: Storage
    history: DeviceHistory
    clients: WaitingClients | None = None
    still_ms: float | None = None  # time of an I/O on the advised storage with as many waiting
    self_check: SelfCheck | None = None
    figures: dict[str, float] = field(default_factory=dict)
    bound_ms: float = math.inf
    best: SpaceResult | None = None
    risk: float | None = None
    short_of: tuple[bool, bool] | None = None


def answer_batch(
    devices: Sequence[FleetDevice], points: Mapping[str, pl.DataFrame], settings: FleetSettings
) -> list[VolumeAnswer]:
    """Returns the answer for each device, in order. `points`: rows of `points.COLUMNS` by volume
    id."""
    answers: dict[str, VolumeAnswer] = {}
    cases: list[_Case] = []
    for device in devices:
        answer = _make_case(device, points, settings)
        if isinstance(answer, VolumeAnswer):
            answers[device.key] = answer
        else:
            cases.append(answer)
    if cases:
        _mark_instance_limits(cases, settings.as_of)
        answers |= {answer.key: answer for answer in _Batch(cases, settings).compute_answers()}
    return [answers[device.key] for device in devices]


def _make_case(
    device: FleetDevice, points: Mapping[str, pl.DataFrame], settings: FleetSettings
) -> VolumeAnswer | _Case:
    """Returns a device with its history, or the answer for a device that is not to be simulated."""
    why, text = "", ""
    try:
        text = device.make_storage().text
        # Refuses a storage on its instance, and a region, that are not known.
        limits = get_holding_limits(text, device.members[0].instance_type or None, settings.as_of)
        list_families(device.members[0].region or settings.region, settings.as_of, settings.exclude)
        if (unused := judge_use(device, points, settings.least_days)) is not None:
            verdict, why = unused
            usd = _compute_device_usd(device, text, settings) if verdict == "unused" else None
            return _make_answer(device, verdict, why, text, usd_today=usd, prices=settings.prices)
        why = _explain_withholding(device)
        if not why:
            return _Case(device, device.make_storage(), build_history(device, points, settings.least_days, limits))
    except HeadraceError as error:
        why = _explain_withholding(device) or f"{error.value}: {error.rule}"
    return _make_answer(device, "withheld", why, text, prices=settings.prices)


def _mark_instance_limits(cases: Sequence[_Case], as_of: str | None) -> None:
    """Sets `at_instance` of the histories of cases whose instance was at one of its limits: all of
    its volumes together had such a rate."""
    together: dict[str, list[_Case]] = {}
    for case in cases:
        first = case.device.members[0]
        if first.instance_id and first.instance_type:
            together.setdefault(first.instance_id, []).append(case)
    for group in together.values():
        with translate_core_errors():
            limits = core.instance(group[0].device.members[0].instance_type, as_of)
        length = min(len(case.history.given_iops) for case in group)
        iops = np.sum([case.history.given_iops[-length:] for case in group], axis=0)
        bytes_s = np.sum([case.history.given_bytes_s[-length:] for case in group], axis=0)
        binding = (
            find_rates_at_limit(iops, limits["max_iops"])
            | find_rates_at_limit(bytes_s, limits["max_bytes_s"])
            | _find_rates_at_baseline(iops, limits["baseline_iops"])
            | _find_rates_at_baseline(bytes_s, limits["baseline_bytes_s"])
        )
        if binding.any():
            for case in group:
                at_instance = np.zeros(len(case.history.given_iops), bool)
                at_instance[-length:] = binding
                case.history = replace(case.history, at_instance=at_instance)


def _find_rates_at_baseline(rates: np.ndarray, baseline: float | None) -> np.ndarray:
    """Returns which rates are at the baseline and not above it: the instance's burst is spent."""
    return find_rates_at_limit(rates, baseline) & (rates <= (baseline or 0.0) / AT_INSTANCE)


def _explain_withholding(device: FleetDevice) -> str:
    """Returns why a device gets no advice, whatever its points are; "" where it may get some."""
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


def _make_answer(device: FleetDevice, verdict: Verdict, why: str, today: str, **more: Any) -> VolumeAnswer:
    """Returns an answer on a device, with `more` of the fields of VolumeAnswer."""
    first = device.members[0]
    ids = tuple(member.id for member in device.members)
    place = (first.account, first.region, first.instance_type)
    return VolumeAnswer(device.key, ids, *place, verdict, why, today, name=device.name, **more)


class _Batch:
    """The cases of a batch, with their demands in the core: `recorded`, and `demands` as raised for
    clients that wait at limits."""

    def __init__(self, devices: list[_Case], settings: FleetSettings) -> None:
        """Finds the clients that wait at limits, and puts the demands into the core. Raises
        InputError."""
        self.devices, self.settings = devices, settings
        self.instances = [case.device.members[0].instance_type or None for case in devices]
        for case, instance in zip(devices, self.instances, strict=True):
            case.clients = find_waiting_clients(case.history, case.today, instance, settings.as_of)
        # Today's storage is judged with the demand as recorded; candidates with the raised one.
        self.recorded = _load_demands([case.history.columns for case in devices])
        closed = any(case.clients is not None for case in devices)
        self.demands = (
            _load_demands([raise_demand(case.history, case.clients) for case in devices]) if closed else self.recorded
        )
        self._meeting: dict[Candidate, bool] = {}

    def compute_answers(self) -> list[VolumeAnswer]:
        """Returns the answers, in order."""
        self._run_self_checks()
        trusted = [index for index, case in enumerate(self.devices) if case.self_check and not case.self_check.why]
        self._evaluate_today(trusted)
        self._search(trusted)
        self._evaluate_risks(trusted)
        return [self._choose_answer(case) for case in self.devices]

    def _run_self_checks(self) -> None:
        """Simulates each recorded demand on today's storage, and sets the self-check of each case:
        whether the model agrees with the recording."""
        every = list(range(len(self.devices)))
        storages = [case.today.text for case in self.devices]
        starts = [case.history.first_balance for case in self.devices]
        with translate_core_errors():
            followed = self.recorded.follow(every, storages, self.instances, starts, as_of=self.settings.as_of)
        for case, rows in zip(self.devices, followed, strict=True):
            case.self_check = check(case.history, case.today, rows, case.clients, as_of=self.settings.as_of)

    def _evaluate(self, indexes: Sequence[int], storages: Sequence[str], factor: float = 1.0) -> dict[str, list]:
        """Evaluates storages under these devices' demands in the settled cycle, and returns columns
        of figures with a value for each. `factor`: on the demand."""
        instances = [self.instances[index] for index in indexes]
        with translate_core_errors():
            return self.demands.evaluate(
                indexes, storages, instances, [factor] * len(indexes), as_of=self.settings.as_of, prune_above=math.inf
            )

    def _evaluate_today(self, trusted: Sequence[int]) -> None:
        """Evaluates today's storage, and sets the figures and the `bound_ms` of each case."""
        columns = self._evaluate(trusted, [self.devices[index].today.text for index in trusted])
        for place, index in enumerate(trusted):
            case = self.devices[index]
            case.figures["today_throttled_min"] = (columns["throttled_s"][place] or 0.0) / 60
            case.figures["today_p99_ms"] = columns["worst_p99_ms"][place]
            case.bound_ms = max(self.settings.p99_ms, columns["judged_p99_ms"][place] or 0.0)
        # A p99 with waits for limits bounds nothing, so it is that of hardly any demand then.
        waiting = [index for index in trusted if self.devices[index].figures["today_throttled_min"] > 0]
        calm = self._evaluate(waiting, [self.devices[index].today.text for index in waiting], CALM)
        for place, index in enumerate(waiting):
            self.devices[index].bound_ms = max(self.settings.p99_ms, calm["judged_p99_ms"][place] or 0.0)
            if (clients := self.devices[index].clients) is not None:
                self.devices[index].figures["today_p99_ms"] = clients.today_ms

    # --- search -----------------------------------------------------------------------------------

    def meets(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Returns which candidates meet the goals, no throttling and the p99, with head-room."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._meeting]
        if new:
            places = [place for *_, place in new]
            with translate_core_errors():
                meeting = self.demands.meets(
                    places,
                    [data for data, *_ in new],
                    [self.instances[place] for place in places],
                    [1.0 + self.settings.headroom_percent / 100.0] * len(new),
                    [self.devices[place].bound_ms * (1 + SLACK) for place in places],
                    THROTTLED_S,
                    as_of=self.settings.as_of,
                )
            for candidate, met in zip(new, meeting, strict=True):
                self._meeting[candidate] = met and not self._is_too_weak(candidate)
        return [self._meeting[candidate] for candidate in candidates]

    def _is_too_weak(self, candidate: Candidate) -> bool:
        """Returns whether a candidate gives less than today's volume of what that was short of: at
        a limit the demand was higher than what is recorded."""
        case = self.devices[candidate[2]]
        if not self._fails(case):
            return False
        if case.short_of is None:
            case.short_of = case.history.find_shortage(case.today.text, self.settings.as_of)
        return is_weaker(candidate[0], case.today.text, self.settings.as_of, case.short_of)

    def compute_cost(self, candidate: Candidate) -> float:
        """Returns USD a month at the prices of the device's region and account."""
        data, _, place = candidate
        return float(self._compute_usd(self.devices[place], data))

    def _get_region(self, case: _Case) -> str:
        return case.device.members[0].region or self.settings.region

    def _search(self, trusted: Sequence[int]) -> None:
        """Finds the cheapest storage that meets the goals for each of these devices, and notes it
        as their best."""
        best: dict[int, float] = {}

        def note(result: SpaceResult) -> None:
            best[result.space.host] = min(best.get(result.space.host, math.inf), result.usd)

        spaces = [space for index in trusted for space in self._list_spaces(index)]
        search = Search(self, self.meets, lambda space: best.get(space.host, math.inf), note)  # pyright: ignore[reportArgumentType]
        for result in sorted(
            (result for result in search.run(spaces) if result.best is not None), key=rank, reverse=True
        ):
            self.devices[result.space.host].best = result  # the cheapest comes last

    def _list_spaces(self, index: int) -> list[Space]:
        """Returns what today's volumes can be modified into, as the planner's `in place` row."""
        today = self.devices[index].today
        if not can_be_modified(today):
            return []
        region, settings = self._get_region(self.devices[index]), self.settings
        count, gib = len(today.members), today.members[0].size_gib
        shapes = list_shapes(region, settings.as_of, settings.exclude, today.layout, count, gib)
        return [Space(shape, None, index) for shape in shapes]

    # --- risk -------------------------------------------------------------------------------------

    def _evaluate_risks(self, trusted: Sequence[int]) -> None:
        """Sets the figures of the advised storages, and their risk: the share of fortnights, drawn
        from recorded days with their levels moved as far as days differ, that miss the goals."""
        advised = [index for index in trusted if self._choose_storage(self.devices[index])]
        if not advised:
            return
        storages = [self._choose_storage(self.devices[index]) for index in advised]
        columns = self._evaluate(advised, storages)
        for place, index in enumerate(advised):
            figures = self.devices[index].figures
            figures["proposed_throttled_min"] = (columns["throttled_s"][place] or 0.0) / 60
            figures["proposed_p99_ms"] = columns["worst_p99_ms"][place]
            if (clients := self.devices[index].clients) is not None:
                self.devices[index].still_ms = clients.estimate_ms(
                    storages[place], self.instances[index], self.settings.as_of
                )
        if not (count := self.settings.fortnights):
            return
        drawn = [self.devices[index].history.sample_fortnights(count, self.settings.seed) for index in advised]
        questions = [
            (index, storage, draw) for index, storage, draw in zip(advised, storages, drawn, strict=True) if draw
        ]
        if not questions:
            return
        with translate_core_errors():
            missing = self.demands.missing_draws(
                [index for index, *_ in questions],
                [storage for _, storage, _ in questions],
                [self.instances[index] for index, *_ in questions],
                [self.devices[index].bound_ms * (1 + SLACK) for index, *_ in questions],
                THROTTLED_S,
                [days for *_, (days, _) in questions],
                [levels for *_, (_, levels) in questions],
                [self.devices[index].history.per_day for index, *_ in questions],
                FORTNIGHT_DAYS,
                as_of=self.settings.as_of,
            )
        for (index, *_), failed in zip(questions, missing, strict=True):
            self.devices[index].risk = failed / count

    def _choose_storage(self, case: _Case) -> str:
        """Returns the storage advised instead of today's, "" where today's stays."""
        if case.best is None:
            return ""
        text = case.best.candidate[0]
        if text == case.today.text:
            return ""
        return text if self._fails(case) or self._saves(case) else ""

    def _saves(self, case: _Case) -> bool:
        """Returns whether the advised storage costs noticeably less than today's."""
        assert case.best is not None  # called only where a storage is advised
        before = self._compute_usd(case, case.today.text)
        return before - case.best.usd >= max(LEAST_SAVING * before, LEAST_SAVING_USD)

    def _fails(self, case: _Case) -> bool:
        """Returns whether today's storage throttles, or did in the recording."""
        return case.figures["today_throttled_min"] > 0 or case.history.censored_share > 0

    def _compute_usd(self, case: _Case, storage: str) -> float:
        return _compute_device_usd(case.device, storage, self.settings)

    # --- words ------------------------------------------------------------------------------------

    def _choose_answer(self, case: _Case) -> VolumeAnswer:
        """Returns the answer on a checked device: `withheld` if the model does not hold for it,
        `keep`, `grow` if today's storage is too weak, or `change` if another one saves."""
        self_check, history = case.self_check, case.history
        assert self_check is not None  # every device was checked
        fields = {
            "grain_s": history.grain_s,
            "days": history.span_s / DAY_S,
            "censored_share": history.censored_share,
            "balance_error": self_check.balance_error,
            "throttled_f1": self_check.throttled_f1,
            "queue_ratio": self_check.queue_ratio,
            "prices": self.settings.prices,
        }
        if self_check.why:
            return _make_answer(case.device, "withheld", f"not modelled: {self_check.why}", case.today.text, **fields)
        fields |= {"usd_today": self._compute_usd(case, case.today.text), **case.figures}
        bound = self._describe_instance_bound(case)
        if bound and self._fails(case):
            first = case.device.members[0]
            fields["bound_by"] = f"{first.instance_id} ({first.instance_type})"
            return _make_answer(case.device, "keep", bound, case.today.text, **fields)
        advised = self._choose_storage(case)
        if not advised:
            return _make_answer(case.device, "keep", self._explain_keeping(case), case.today.text, **fields)
        assert case.best is not None  # else no storage is advised
        fields |= {"proposed": advised, "usd_proposed": case.best.usd, "risk": case.risk}
        fields["durability"] = describe_durability_loss(case.today.text, advised, self.settings.as_of)
        if not self._saves(case):  # then today's fails
            return _make_answer(case.device, "grow", self._explain_growth(case), case.today.text, **fields)
        return _make_answer(
            case.device, "change", self._explain_change(case, fields["durability"]), case.today.text, **fields
        )

    def _explain_growth(self, case: _Case) -> str:
        """Returns why today's storage is too weak: at a limit as recorded, or else as simulated."""
        count, total = int(case.history.censored.sum()), len(case.history.censored)
        if count:
            grain = describe_span(case.history.grain_s)
            return (
                f"today's volume is at a limit in {count:,} of {total:,} periods of {grain}: what it gave is less than what was "
                f"asked{self._describe_waiting(case)}"
            )
        waited = 60.0 * case.figures["today_throttled_min"]
        span = describe_span(round(waited)) if waited >= 1.0 else "less than 1 s"
        return f"simulated with the recorded demand, today's volume makes requests wait for its limits for {span}"

    def _explain_change(self, case: _Case, durability: str) -> str:
        """Returns what the advised storage gives: head-room, I/O p99 in ms, and what it loses.
        `durability`: today's and the new one, % a year, in words; "" where it is not lower."""
        lost = f"; less durable: {durability} a year" if durability else ""
        if case.clients is not None:
            return f"today's volume makes requests wait for its limits{self._describe_waiting(case)}{lost}"
        carries = f"still {self.settings.headroom_percent:g} % head-room"
        p99_ms = case.figures.get("proposed_p99_ms")
        if p99_ms is None:  # there was no I/O
            return f"{carries}{lost}"
        if self._fails(case):
            return f"today's volume makes requests wait for its limits; with this one {carries}, I/O p99 {_format_ms(p99_ms)}{lost}"
        bound = f"the goal is {_format_ms(self.settings.p99_ms)}"
        if case.bound_ms > self.settings.p99_ms:
            bound = f"today's is {_format_ms(case.bound_ms)}"
        return f"{carries}, I/O p99 {_format_ms(p99_ms)} ({bound}){lost}"

    def _describe_waiting(self, case: _Case) -> str:
        """Returns in words how many I/Os waited, and how long an I/O then takes today and on the
        advised storage; "" where no clients waited."""
        if case.clients is None or case.best is None:
            return ""
        waited = f"; {case.clients.queue:,.0f} I/Os waited there, {_format_ms(case.clients.today_ms)} each"
        if case.still_ms is None:
            return waited
        return f"{waited}; if as many wait again, each takes {_format_ms(case.still_ms)} on the advised one"

    def _describe_instance_bound(self, case: _Case) -> str:
        """Returns in words that the instance binds while this volume is at a limit, so that a
        larger volume brings nothing; "" where it does not."""
        first, history = case.device.members[0], case.history
        if history.at_instance is None or not history.censored.any():
            return ""
        # For most of the time at a limit it is that of the instance.
        if history.at_instance[history.censored].mean() <= 0.5:
            return ""
        together = [other.history for other in self.devices if other.device.members[0].instance_id == first.instance_id]
        length = min(len(other.given_iops) for other in together)
        at_limit = history.at_instance[-length:]
        with translate_core_errors():
            limits = core.instance(first.instance_type, self.settings.as_of)
        of_unit = (
            ("IOPS", 1, "given_iops", limits["baseline_iops"], limits["max_iops"]),
            ("MiB/s", MIB, "given_bytes_s", limits["baseline_bytes_s"], limits["max_bytes_s"]),
        )
        for unit, scale, name, baseline, highest in of_unit:
            rates = np.sum([getattr(other, name)[-length:] for other in together], axis=0)
            typical_rate = float(np.median(rates[at_limit]))
            for most in (baseline, highest):
                if most and AT_INSTANCE * most <= typical_rate <= most / AT_INSTANCE:
                    spent = " without its burst" if most < (highest or most) else ""
                    return (
                        f"{first.instance_type} gives {most / scale:,.0f} {unit} to all its volumes{spent}, and they take it "
                        f"in {int(at_limit.sum()):,} of {length:,} periods: the instance binds, and a larger volume brings nothing"
                    )
        return ""

    def _explain_keeping(self, case: _Case) -> str:
        """Returns why today's storage stays: nothing is looked for, nothing meets the goals, or
        nothing saves."""
        if case.best is None and not can_be_modified(case.today):
            return f"for {case.today.text} nothing is looked for: magnetic volumes and arrays of unequal ones stay"
        if case.best is None:
            return "no storage that it can be modified into meets the goals"
        if self._fails(case):
            return "it is at a limit at times, and nothing that gives as much of what it is short of costs less"
        return "nothing that meets the goals costs noticeably less"


def _format_ms(value: float) -> str:
    """Returns a latency with three figures."""
    return f"{value:.3g} ms" if value < 100 else f"{value:,.0f} ms"


# --- the core, prices and families ----------------------------------------------------------------


@cache
def get_prices(region: str, as_of: str | None) -> PriceList:
    """Returns the list prices of a region."""
    return PriceList(region, as_of)


@cache
def compute_list_usd(region: str, as_of: str | None, storage: str) -> float:
    """Returns USD a month of a storage at list prices; NaN where none is known."""
    return float(get_prices(region, as_of).compute_volume_totals([storage], 0.0)[0])


@lru_cache(maxsize=MOST_USD)
def compute_account_usd(table: PriceTable, storage: str) -> float:
    """Returns USD a month of a storage at an account's prices; NaN where none is known."""
    with translate_core_errors():
        return core.monthly_totals([storage], table.region, table.table["as_of"], 0.0, table.table)[0]


def _compute_device_usd(device: FleetDevice, storage: str, settings: FleetSettings) -> float:
    """Returns USD a month of a storage in the place of a device, at the account's prices if they
    are known; NaN where none is known."""
    first = device.members[0]
    region = first.region or settings.region
    table = _index_tables(settings.tables).get((region, first.account))
    return compute_list_usd(region, settings.as_of, storage) if table is None else compute_account_usd(table, storage)


@lru_cache(maxsize=4)  # of the settings of a run
def _index_tables(tables: tuple[PriceTable, ...]) -> dict[tuple[str, str], PriceTable]:
    """Returns the price tables by region and account."""
    return {(table.region, table.account): table for table in tables}


def _load_demands(columns: Sequence[Mapping[str, np.ndarray]]) -> core.FleetDemands:
    """Puts the demand of devices into the core, one after the other."""
    joined = {name: np.concatenate([demand[name] for demand in columns]) for name in DeviceHistory.COLUMNS}
    lengths = [len(demand["duration_s"]) for demand in columns]
    return core.FleetDemands(**joined, lengths=lengths, max_outstanding=MAX_OUTSTANDING)


@cache
def is_weaker(storage: str, today: str, as_of: str | None, short_of: tuple[bool, bool] = (True, True)) -> bool:
    """Returns whether a storage gives fewer IOPS or MiB/s than today's, both with credits.
    `short_of`: whether IOPS count, and whether MiB/s do."""
    after, before = get_holding_limits(storage, as_of=as_of), get_holding_limits(today, as_of=as_of)
    fewer = after.burst_iops < before.burst_iops, after.burst_bytes_s < before.burst_bytes_s
    return any(short and less for short, less in zip(short_of, fewer, strict=True))


@lru_cache(maxsize=MOST_SHAPES)
def list_shapes(
    region: str, as_of: str | None, exclude: tuple[str, ...], layout: str, members: int, gib: int
) -> tuple[Shape, ...]:
    """Returns the shapes that `members` volumes of `gib` GiB in a layout can be modified into;
    kept, so that volumes of one size share them."""
    return tuple(list_modified_shapes(list_families(region, as_of, exclude), layout, members, gib))


@cache
def list_families(region: str, as_of: str | None, exclude: tuple[str, ...]) -> tuple[Family, ...]:
    """Returns the types that single volumes may be modified into."""
    return tuple(list_types(get_prices(region, as_of), exclude))
