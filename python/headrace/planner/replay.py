"""The recommendation of a plan for demand, replayed request by request: the worst minutes of the
recording in the per-I/O form of the simulation.

The search judges by the interval form, which knows latency as a distribution. The per-I/O form
knows every request, and decides: a candidate that misses a goal on latency there is set aside, and
the search goes on above it (`PlanEngine`). A day has too many requests to replay; the minutes in
which the interval form waits longest, and those of most I/Os and of most MiB/s, do not.

Near a cap runs differ by chance: in one of five the saved second ends, and p99 is seconds there. A
mean hides that, and a few replays may miss it. So a goal is judged by the unluckiest of the 64 runs
that the interval form follows there, before anything is replayed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.planner.candidates import HDD, Candidate
from headrace.planner.demand import CORE_NAMES, DemandJudge
from headrace.planner.goals import Goal, describe_miss
from headrace.planner.result import Replayed

# Length of what the goals look at, s: the worst five minutes.
WINDOW_S = 300.0
# Seconds before a window that are replayed too, so that it begins in the state of the day: if the
# interval form sees waits, at most an hour, after which a cap near its limit has settled
# (docs/semantics.md); else ten minutes, in which a busy volume spends the second that it saved.
LEAD_S, CALM_LEAD_S = 3_600.0, 600.0
# Size of the first look at a window without waits: the last two minutes of a window with half a
# minute before them, and half a million requests at the most: its p99 rests on 5,000 of them even
# then, and one far from its goal needs no second look.
FIRST_LOOK_S, FIRST_REQUESTS = 150.0, 5e5
# Requests of one window at the most, lead included: some 0.4 s of one core.
MOST_REQUESTS = 4e6
# Chance differs from seed to seed. Far from a goal one run says enough; nearer than by this factor
# the worst of several counts.
SEEDS, NEAR = (1, 2, 3, 4, 5), 4.0
# Runs that the interval form follows near a cap (WALKS in crates/sim/src/demand/near_cap.rs).
RUNS = 64
# Points whose demand is this near to the highest count as the busiest: the last of them has the
# longest queue before it.
AS_BUSY = 0.95


@dataclass(frozen=True)
class ReplayedWindow:
    """A part of the recording: what is replayed from `from_s` to `until_s`; the goals look at what
    begins at `start_s`, the rest is its lead."""

    from_s: float
    until_s: float
    start_s: float


class WinnerReplay:
    """Replays candidates of one judge under the demand grown by the head-room asked for."""

    def __init__(self, judge: DemandJudge) -> None:
        """Collects the goals on latency of the worst minutes, and the requests of the grown demand
        over time."""
        self.judge = judge
        self.factor = 1.0 + judge.headroom / 100.0
        worst = {name for name in CORE_NAMES if not name.startswith("overall_")}
        self.goals = [goal for goal in judge.goals if goal.metric in worst]
        self.points = judge.demand.workload.points
        self.cumulated = _accumulate_requests(self.points, self.factor)
        self.replays: dict[Candidate, Replayed | None] = {}

    def replay(self, candidate: Candidate) -> Replayed | None:
        """Returns the replay of a candidate, cached; None where no goal is on the latency of the
        worst minutes, or where no window gave a latency."""
        if candidate not in self.replays:
            self.replays[candidate] = self._replay_windows(candidate) if self.goals else None
        return self.replays[candidate]

    def _replay_windows(self, candidate: Candidate) -> Replayed | None:
        """Replays the worst minutes of a candidate request by request and compares latencies with
        the goals; where an unlucky run of the interval form misses one already, nothing is
        replayed. None where no window gave a latency."""
        answer = self._simulate_intervals(candidate)
        unlucky = self._find_unlucky_metrics(answer["summary"])
        misses = tuple(
            f"{describe_miss(goal, unlucky[goal.metric])} in an unlucky run: one of {RUNS}"
            for goal in self.goals
            if goal.metric in unlucky and not goal.is_met(unlucky[goal.metric])
        )
        if misses:
            cap = max(answer["summary"]["throttled_by_s"], key=lambda entry: entry[1], default=(None, 0.0))[0]
            return Replayed({}, 0, self.judge.headroom, misses, cap, unlucky)
        worst: dict[str, float] = {}
        waited: dict[str, float] = {}
        requests = 0.0
        for window in self._list_windows(candidate, answer):
            load = self._build_load(window)
            requests += _count_load_requests(load)
            balance = self._find_balance(answer, window.from_s)
            for seed in SEEDS:
                if seed == SEEDS[1] and answer["summary"]["worst_at_s"] is None:
                    # Near a goal though nothing waits: the whole window with its lead from here on.
                    window = self._extend_by_lead(window.start_s, CALM_LEAD_S)
                    load, balance = self._build_load(window), self._find_balance(answer, window.from_s)
                summary = self._simulate_events(candidate, load, balance, seed)
                for cap, seconds in summary["throttled_by_s"]:
                    waited[cap] = waited.get(cap, 0.0) + seconds
                values = {goal: summary[CORE_NAMES[goal.metric]] for goal in self.goals}
                for goal, value in values.items():
                    if value is not None:
                        worst[goal.metric] = max(worst.get(goal.metric, 0.0), value)
                if all(value is None or NEAR * value <= goal.limit for goal, value in values.items()):
                    break
        if not worst:
            return None
        misses = tuple(
            _describe_miss(goal, worst[goal.metric]) for goal in self.goals if not goal.is_met(worst[goal.metric])
        )
        cap = max(waited, key=lambda limit: waited[limit], default=None)
        return Replayed(worst, round(requests), self.judge.headroom, misses, cap, unlucky)

    def _find_unlucky_metrics(self, summary: core.Summary) -> dict[str, float]:
        """Returns the metrics that are goals, ms, in the unluckiest run that the interval form
        follows near a cap; {} where no requests wait in clumps."""
        unlucky = summary["unlucky"]
        return {} if unlucky is None else {goal.metric: unlucky[CORE_NAMES[goal.metric]] for goal in self.goals}

    def _simulate_events(self, candidate: Candidate, load: dict, balance: float | None, seed: int) -> core.Summary:
        """Simulates a window request by request and returns its summary. `balance`: percent of
        credits at its begin, None: as AWS gives them."""
        with translate_core_errors():
            return core.simulate(
                self.judge.get_backing_volumes(candidate),
                load,
                form="events",
                interval_s=WINDOW_S,
                instance=self.judge.hosts[candidate[2]].name,
                as_of=self.judge.prices.as_of,
                start_balance_percent=balance,
                seed=seed,
            )["summary"]

    def _simulate_intervals(self, candidate: Candidate) -> core.SimulationAnswer:
        """Simulates the whole grown demand in the interval form, in rows of five minutes at the
        most."""
        judge = self.judge
        with translate_core_errors():
            return core.simulate(
                judge.get_backing_volumes(candidate),
                judge.demand.scale_load(self.factor),
                form="interval",
                interval_s=min(WINDOW_S, judge.demand.longest_point_s),
                instance=judge.hosts[candidate[2]].name,
                as_of=judge.prices.as_of,
                start_balance_percent=judge.start_balance,
                cycle=judge.cycle,
            )

    def _list_windows(self, candidate: Candidate, answer: core.SimulationAnswer) -> list[ReplayedWindow]:
        """Lists the windows to replay: those of the longest waits, of most I/Os and of most
        MiB/s."""
        volumes = self.judge.get_backing_volumes(candidate)
        demand = self.judge.demand.compute_volume_demand(volumes)
        hdd = self.judge.directory.look_up(volumes).family.volume_type in HDD
        busiest = {_find_last_minutes(demand, column) for column in (("hdd_mib_s",) if hdd else ("iops", "mib_s"))}
        at_s = answer["summary"]["worst_at_s"]
        starts = sorted(busiest | ({float(at_s)} if at_s is not None else set()))
        windows = []
        for start in starts:
            # The first of windows that overlap is replayed.
            if windows and start < windows[-1].until_s:
                continue
            windows.append(self._choose_first_window(start) if at_s is None else self._extend_by_lead(start, LEAD_S))
        return windows

    def _choose_first_window(self, start_s: float) -> ReplayedWindow:
        """Returns the short window that is replayed first where nothing waits: the last two minutes
        and half a minute before them, or fewer requests."""
        until = min(start_s + WINDOW_S, self.judge.demand.totals["seconds"])
        requests = self._count_requests(max(0.0, until - FIRST_LOOK_S), until)
        length = FIRST_LOOK_S * min(1.0, FIRST_REQUESTS / max(requests, 1.0))
        return ReplayedWindow(max(0.0, until - length), until, start_s)

    def _extend_by_lead(self, start_s: float, most_lead_s: float) -> ReplayedWindow:
        """Returns a window of five minutes with the minutes before it, up to `most_lead_s`, as far
        as MOST_REQUESTS allow; a window with more requests than those is shortened."""
        until = min(start_s + WINDOW_S, self.judge.demand.totals["seconds"])
        requests = self._count_requests(start_s, until)
        lead, step = 0.0, 60.0
        while lead + step <= min(most_lead_s, start_s) and (
            requests + self._count_requests(start_s - lead - step, start_s) <= MOST_REQUESTS
        ):
            lead += step
        if requests > MOST_REQUESTS:
            until = start_s + max(30.0, (until - start_s) * MOST_REQUESTS / requests)
        return ReplayedWindow(start_s - lead, until, start_s)

    def _count_requests(self, from_s: float, until_s: float) -> float:
        return float(np.diff(np.interp([from_s, until_s], *self.cumulated))[0])

    def _build_load(self, window: ReplayedWindow) -> dict:
        """Returns the demand within a window as the core takes it, grown: seconds, requests a
        second and bytes a request by point."""
        ends = pl.col("t_s") + pl.col("duration_s")
        inside = self.points.filter((pl.col("t_s") < window.until_s) & (ends > window.from_s))
        begins = pl.max_horizontal(pl.col("t_s"), pl.lit(window.from_s))
        cut = inside.with_columns((pl.min_horizontal(ends, pl.lit(window.until_s)) - begins).alias("duration_s"))
        columns = {
            "duration_s": cut["duration_s"].to_list(),
            "reads_per_s": (cut["reads_per_s"] * self.factor).to_list(),
            "writes_per_s": (cut["writes_per_s"] * self.factor).to_list(),
            "read_bytes": (cut["read_kib"] * 1024.0).to_list(),
            "write_bytes": (cut["write_kib"] * 1024.0).to_list(),
        }
        return {**self.judge.demand.load, **columns}

    def _find_balance(self, answer: core.SimulationAnswer, at_s: float) -> float | None:
        """Returns the credits of the volumes when a window begins, percent; None: as AWS gives
        them, or none."""
        # A row has the balance at its end; the settled day begins as it ends.
        rows = pl.DataFrame(answer["rows"], strict=False)
        before = rows.filter(pl.col("t_s") + pl.col("duration_s") <= at_s)
        if before.is_empty() and self.judge.cycle != "settled":
            return self.judge.start_balance
        balance = (rows if before.is_empty() else before)["balance_percent"][-1]
        return None if balance is None else float(balance)


def _find_last_minutes(demand: pl.DataFrame, column: str) -> float:
    """Returns the begin, s, of the window that ends with the last of the busiest points of a
    column: credits that were saved are spent by then."""
    most = float(demand.select(pl.col(column).max()).item() or 0.0)
    busiest = demand.filter(pl.col(column) >= AS_BUSY * most)
    end_s = float((busiest["t_s"] + busiest["duration_s"])[-1])
    return max(0.0, end_s - WINDOW_S)


def _accumulate_requests(points: pl.DataFrame, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ends of the points, s, and the requests that have come by then, both from 0."""
    ends = points["t_s"] + points["duration_s"]
    requests = (points["reads_per_s"] + points["writes_per_s"]) * points["duration_s"] * factor
    return np.array([0.0, *ends]), np.cumsum([0.0, *requests])


def _count_load_requests(load: dict) -> float:
    """Returns the requests of a load in all."""
    rates = zip(load["duration_s"], load["reads_per_s"], load["writes_per_s"], strict=True)
    return sum(seconds * (reads + writes) for seconds, reads, writes in rates)


def _describe_miss(goal: Goal, value: float) -> str:
    return f"{describe_miss(goal, value)} where every request is simulated"
