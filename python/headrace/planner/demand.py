"""The judge of plans for demand: candidates in, metrics and verdicts out. The one place of such a
plan that asks the core to simulate.

The simulation is the interval form of `headrace.simulate`, in the settled cycle: the recording is
repeated until credits at its end equal those at its start, so that a plan that lives on yesterday's
credits does not pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import HOUR_S, HOURS_PER_MONTH
from headrace.catalog.price_list import PriceList
from headrace.planner.candidates import MIRRORED, Candidate, Directory, Host
from headrace.planner.goals import Goal, get_headroom
from headrace.planner.judging import CandidateJudge
from headrace.planner.market.services import list_managed_items
from headrace.workload import OpenWorkload

RATES = ("reads_per_s", "writes_per_s")
# Goals that any backlog breaks: with one of them, a candidate whose bound says "cannot deliver"
# need not be simulated.
NO_BACKLOG = ("throttled_min", "longest_wait_s", "peak_queue", "queue_at_end", "unserved_percent")
# Less than this is what adding up a day's intervals leaves of rounding, s.
THROTTLED_S = 1e-6
TEXT = ("status", "why", "cap")
# Metrics by the core's name: latency of the worst five minutes, and of the whole recording.
CORE_NAMES = {f"{name}_ms": f"worst_{name}_ms" for name in ("mean", "p50", "p95", "p99", "p999")} | {
    f"overall_{name}_ms": f"{name}_ms" for name in ("mean", "p50", "p95", "p99", "p999")
}


@dataclass
class Counts:
    """The last status of each candidate that was judged, and counts of them."""

    seen: dict[Candidate, str] = field(default_factory=dict)

    def note(self, candidates: Sequence[Candidate], statuses: Sequence[str]) -> None:
        """Keeps the status of each candidate; one that was simulated once stays simulated."""
        for candidate, status in zip(candidates, statuses, strict=True):
            if status != "bounded" or candidate not in self.seen:
                self.seen[candidate] = status

    def count(self, *statuses: str) -> int:
        """Counts the candidates whose last status was one of `statuses`."""
        return sum(1 for status in self.seen.values() if status in statuses)


class PlannedDemand:
    """Demand of an open workload on volumes, counted by the core's own measure."""

    def __init__(self, workload: OpenWorkload) -> None:
        """Converts the workload for the core. Raises InputError where the core refuses it."""
        self.workload = workload
        self.load = workload.to_core()
        with translate_core_errors():
            self._loads = {1.0: core.DemandLoad(self.load)}
        self._volume_demands: dict[str, pl.DataFrame] = {}

    @cached_property
    def totals(self) -> dict[str, float]:
        """Requests of the whole run (`reads`, `writes`), its length `seconds`."""
        points = self.workload.points
        seconds = points["duration_s"]
        reads, writes = (float((points[name] * seconds).sum()) for name in RATES)
        return {"reads": reads, "writes": writes, "seconds": float(seconds.sum())}

    @cached_property
    def random_percent(self) -> float:
        """Share of the requests that are random, %."""
        totals, load = self.totals, self.load
        reads, writes = (totals[name] * (1.0 - load[f"sequential_{name[:-1]}_share"]) for name in ("reads", "writes"))
        return 100.0 * (reads + writes) / max(totals["reads"] + totals["writes"], 1e-9)

    @cached_property
    def longest_point_s(self) -> float:
        """Length of the longest point, s."""
        return max(self.workload.points["duration_s"].to_list())

    def compute_volume_demand(self, storage: str) -> pl.DataFrame:
        """Returns the demand on all volumes of a storage together at each point: `t_s`,
        `duration_s`, `iops` (256 KiB units), `mib_s`, and `hdd_mib_s` as st1 and sc1 count it (a
        random I/O costs a whole MiB); cached."""
        if storage not in self._volume_demands:
            with translate_core_errors():
                self._volume_demands[storage] = pl.DataFrame(core.demand_on_volumes(self.load, storage))
        return self._volume_demands[storage]

    def make_member_demand(self, storage: str, members: int) -> pl.DataFrame:
        """Returns the columns of `compute_volume_demand` for one of the volumes: like members carry
        like shares."""
        return self.compute_volume_demand(storage).with_columns(pl.col("iops", "mib_s", "hdd_mib_s") / members)

    def scale_load(self, factor: float) -> core.DemandLoad:
        """Returns the load in the core's form, with `factor` times the requests; cached."""
        if factor not in self._loads:
            self._loads[factor] = self._loads[1.0].times(factor)
        return self._loads[factor]


class DemandJudge(CandidateJudge):
    """Judges candidates against one demand, one set of goals, one price list.

    `cycle`: "settled" or "first". `start_balance`: percent of credits at the start; None: as AWS
    gives them.
    """

    subject = "demand"

    def __init__(
        self,
        demand: PlannedDemand,
        goals: Sequence[Goal],
        prices: PriceList,
        hosts: list[Host],
        directory: Directory,
        cycle: str,
        start_balance: float | None,
    ) -> None:
        """Keeps demand, goals and prices, and finds the overload above which a candidate need not
        be simulated."""
        super().__init__(prices, hosts, directory)
        self.demand, self.goals = demand, tuple(goals)
        self.cycle, self.start_balance = cycle, start_balance
        self.counts = Counts()
        self.prune_above = 1.0 if any(goal.metric in NO_BACKLOG and goal.limit == 0 for goal in goals) else math.inf
        self.headroom = get_headroom(goals)
        self._verdicts: dict[Candidate, bool] = {}
        # Candidates that the per-I/O form refuted, with the goals that they miss there.
        self.refuted: dict[Candidate, tuple[str, ...]] = {}

    # --- performance ------------------------------------------------------------------------------

    def performs(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Says which candidates meet all goals but that on cost. With a goal on head-room the grown
        demand decides: what holds at more demand holds at less."""
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._verdicts]
        if new:
            meets = self.holds_at(new, 1 + self.headroom / 100)
            self._verdicts.update(zip(new, meets, strict=True))
        return [self._verdicts[candidate] for candidate in candidates]

    def forget_host(self, place: int) -> None:
        """Forgets what is known of the candidates on a host that leaves `hosts`, verdicts
        included."""
        super().forget_host(place)
        self._verdicts = {candidate: meets for candidate, meets in self._verdicts.items() if candidate[2] != place}

    def refute(self, candidate: Candidate, misses: tuple[str, ...]) -> None:
        """Sets the verdict on a candidate to a miss, as the per-I/O form says. `misses`: the goals
        that it misses there, in words."""
        self._verdicts[candidate] = False
        self.refuted[candidate] = misses

    def holds_at(self, candidates: Sequence[Candidate], factor: float) -> list[bool]:
        """Says whether each candidate meets the goals on performance when `factor` times the demand
        comes. The growing demand may not be throttled, whatever the goals allow today: head-room is
        never positive while anything waits for a limit."""
        columns = self.run(candidates, factor)
        meets = columns["status"] == "simulated"
        if factor > 1.0:
            meets &= columns["throttled_s"] <= THROTTLED_S
        for goal in self.goals:
            if goal.about.kind in ("load", "static"):
                meets &= goal.is_met(columns[goal.metric])
        return meets.tolist()

    def run(self, candidates: Sequence[Candidate], factor: float = 1.0, *, prune: bool = True) -> dict[str, np.ndarray]:
        """Runs candidates and returns columns in the order of `candidates`: `status` ("simulated",
        "bounded", "invalid"), `why`, `cap`, `overload`, every metric of a demand that is not a
        price or head-room (NaN where not known) and the core's own figures."""
        raw = self._evaluate(candidates, factor, self.prune_above if prune else math.inf)
        self.counts.note(candidates, raw["status"])
        columns = {name: np.array(values, dtype=object if name in TEXT else float) for name, values in raw.items()}
        asked_ios, ran = columns["asked_ios"], columns["status"] == "simulated"
        with np.errstate(divide="ignore", invalid="ignore"):
            unserved = np.where(asked_ios > 0, 100 * columns["queue_at_end"] / asked_ios, 0.0)
            delivered = columns["delivered_ios"] / columns["seconds"]
        lowest = columns["lowest_balance_percent"]
        # The cycle's own names come before the metrics': `p99_ms` of the core is the whole
        # recording's.
        metrics = {name: columns[core] for name, core in CORE_NAMES.items()} | {
            "throttled_min": columns["throttled_s"] / 60,
            "credits_empty_min": columns["credits_empty_s"] / 60,
            "instance_empty_min": columns["instance_empty_s"] / 60,
            "unserved_percent": np.where(ran, unserved, np.nan),
            # Without credits there is nothing to lose.
            "lowest_balance_percent": np.where(ran & np.isnan(lowest), 100.0, lowest),
            "delivered_iops": delivered,
        }
        return columns | metrics | self.compute_statics(candidates)

    def compute_overloads(self, candidates: Sequence[Candidate]) -> list[float | None]:
        """Returns the ratio of the demand to what each candidate sustains, where that is above 1:
        it cannot deliver. None elsewhere."""
        return list(self._evaluate(candidates, 1.0, 1.0)["overload"]) if candidates else []

    def get_backing_volumes(self, candidate: Candidate) -> str:
        """Returns the EBS volumes that serve a candidate."""
        volumes = super().get_backing_volumes(candidate)
        assert volumes is not None  # a demand in I/Os is not planned on Aurora
        return volumes

    def _evaluate(self, candidates: Sequence[Candidate], factor: float, prune_above: float) -> dict:
        """Simulates candidates in the core under `factor` times the demand: columns in their order.
        Those with an overload above `prune_above` are bounded, not simulated."""
        used = {place: None for *_, place in candidates if self.hosts[place].instance is not None}
        index = {place: i for i, place in enumerate(used)}
        with translate_core_errors():
            return core.evaluate(
                self.demand.scale_load(factor),
                [self.get_backing_volumes(candidate) for candidate in candidates],
                [index.get(place) for *_, place in candidates],
                [self.hosts[place].name or "" for place in used],
                as_of=self.prices.as_of,
                start_balance_percent=self.start_balance,
                prune_above=prune_above,
                cycle=self.cycle,
            )

    # --- cost -------------------------------------------------------------------------------------

    def list_service_items(self, candidate: Candidate) -> list[dict] | None:
        """Returns the items of a service's monthly bill, in USD; None where a price is missing."""
        return list_managed_items(self.hosts[candidate[2]], candidate[0], self.prices)

    def list_items(self, candidate: Candidate) -> list[dict]:
        """Lists the items of a candidate's monthly bill, in USD."""
        host = self.hosts[candidate[2]]
        if host.service != "ec2":
            return self.list_service_items(candidate) or []
        items = [
            {"part": "data"} | item
            for item in self.prices.list_volume_items(candidate[0], self.count_million_ios(candidate[0]))
        ]
        if host.name is not None:
            items += [{"part": "instance"} | item for item in self.prices.list_instance_items(host.name)]
        return items

    def count_million_ios(self, storage: str) -> float:
        """Returns the requests that the volumes get in a month, millions: standard volumes are
        billed by them, mirrors write twice."""
        totals = self.demand.totals
        requests = totals["reads"] + totals["writes"] * (2 if storage.startswith(MIRRORED) else 1)
        return requests / totals["seconds"] * HOURS_PER_MONTH * HOUR_S / 1e6
