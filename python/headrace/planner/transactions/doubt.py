"""How sure a choice is: the states of the world a calibration leaves possible, the probability that goals hold in them, and what a choice is regretted by.

A state of the world is a database drawn from the calibration, times a factor on all its rates that no parameter covers, lognormal: the further a candidate's cache from those
of the runs, the wider (`TransactionWorkload.unexplained`). That factor is integrated out: with clients, what a goal needs of it is known in closed form, since tps grow and
response times shrink with it.

    P(goals) = mean over databases of  P(factor > what the hardest goal needs)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace import _core
from headrace.errors import core_errors
from headrace.planner.transactions.evaluate import Evaluator, Pick
from headrace.workload.transactions import TransactionWorkload

# Equal parts of the unexplained factor's distribution, where a state must have a number.
QUANTILES = 5
Z80 = 1.2816  # a normal variable lies within this many standard deviations of its mean with 80 %


@dataclass(frozen=True)
class Doubt:
    """Of one candidate: for every database drawn, how many standard deviations of the unexplained factor (`unexplained`, of its logarithm) its goals need (`needs`), of each goal
    alone (`each`: goal text), and its tps."""

    needs: np.ndarray
    each: dict[str, np.ndarray]
    tps: np.ndarray
    unexplained: float

    @property
    def probability(self) -> float:
        """That all goals on performance hold."""
        return _chance(self.needs)

    def goal_probability(self, goal: str) -> float:
        """That one goal holds."""
        return _chance(self.each[goal])

    @property
    def spread(self) -> float:
        """Relative standard deviation of the tps."""
        logs = np.log(np.maximum(self.tps, 1e-9))
        return math.sqrt(float(logs.var(ddof=1) if len(logs) > 1 else 0.0) + self.unexplained**2)


def _chance(needs: np.ndarray) -> float:
    return float(np.mean([0.5 * math.erfc(need / math.sqrt(2.0)) for need in needs]))


class Worlds:
    """The databases drawn, each with its followed caches, and what came of candidates in them."""

    def __init__(self, evaluator: Evaluator, workload: TransactionWorkload, draws: int, seed: int) -> None:
        self.evaluator = evaluator
        databases = workload.draws(draws, seed) or [workload.database]
        with core_errors():
            self.cores = [_core.TransactionCandidates(database) for database in databases]
        # Only an open load needs the factor as a number: its backlog has no closed form. Spread evenly over the databases, in an order of chance.
        order = np.random.default_rng(seed + 1).permutation(len(databases))
        self.deviations = normal_middles(len(databases))[order]
        self.workload = workload
        self.known: dict[Pick, Doubt] = {}

    def of(self, picks: Sequence[Pick]) -> list[Doubt]:
        """The doubt of each candidate."""
        new = [pick for pick in dict.fromkeys(picks) if pick not in self.known]
        if new:
            self._look_at(new)
        return [self.known[pick] for pick in picks]

    def _width(self, pick: Pick) -> float:
        """Standard deviation of the logarithm of the unexplained factor, with the cache of the candidate's instance."""
        return self.workload.unexplained(self.evaluator.hosts[pick[2]].cache_gib)

    def _look_at(self, picks: Sequence[Pick]) -> None:
        if self.evaluator.conditions.arrivals_tps is None:
            return self._follow(picks, np.zeros(len(self.cores)))
        # The factor enters an open load's run as a number: candidates with equally wide factors are run together.
        by_width: dict[float, list[Pick]] = {}
        for pick in picks:
            by_width.setdefault(self._width(pick), []).append(pick)
        for width, alike in by_width.items():
            self._follow(alike, width * self.deviations)

    def _follow(self, picks: Sequence[Pick], factors: np.ndarray) -> None:
        """Runs the candidates in every world; `factors`: logarithm of the unexplained factor in each."""
        goals = [goal for goal in self.evaluator.goals if goal.about.kind == "load"]
        is_open = self.evaluator.conditions.arrivals_tps is not None
        widths = np.array([self._width(pick) for pick in picks])
        needs = {str(goal): np.empty((len(self.cores), len(picks))) for goal in goals}
        tps = np.empty((len(self.cores), len(picks)))
        answers = self.evaluator.run_in(self.cores, np.exp(-factors).tolist(), picks)
        for world, (columns, factor) in enumerate(zip(answers, factors, strict=True)):
            ran = columns["status"] == "ran"
            tps[world] = np.where(ran, columns["tps"] * math.exp(factor), 0.0)
            for goal in goals:
                # Everything faster by a factor: rates grow by it, times shrink by it.
                value = np.where(ran, columns[goal.metric] * math.exp(factor if goal.sign == ">=" else -factor), np.nan)
                needs[str(goal)][world] = _met_or_not(goal, value) if is_open else _needed(goal, value) / widths
        for place, pick in enumerate(picks):
            each = {text: matrix[:, place] for text, matrix in needs.items()}
            self.known[pick] = Doubt(np.max(list(each.values()), axis=0), each, tps[:, place], float(widths[place]))


def _needed(goal, value: np.ndarray) -> np.ndarray:
    """Logarithm of the factor on all rates at which a goal is just met."""
    limit = max(goal.limit, 1e-9)
    ratio = limit / np.maximum(value, 1e-9) if goal.sign == ">=" else value / limit
    return np.where(np.isnan(value), np.inf, np.log(np.maximum(np.nan_to_num(ratio, nan=1.0), 1e-12)))


def _met_or_not(goal, value: np.ndarray) -> np.ndarray:
    met = np.array([goal.met_by(float(one)) for one in value])
    return np.where(met, -np.inf, np.inf)


def normal_middles(count: int) -> np.ndarray:
    """Middles of `count` equally likely parts of a standard normal distribution."""
    from statistics import NormalDist

    return np.array([NormalDist().inv_cdf((index + 0.5) / count) for index in range(count)])


@dataclass(frozen=True)
class Regret:
    """USD a month a choice is regretted by: its cost, and where it misses the goals that of the next dearer one that meets them (the money is spent twice), less the cost of
    the best choice in that state."""

    expected: float
    worst: float


def regrets(costs: np.ndarray, doubts: Sequence[Doubt]) -> tuple[list[Regret], float]:
    """The regret of each choice over all states of the world, and the share of states in which no choice meets the goals (those teach nothing and are left out)."""
    # One factor for all choices of a state: where a database is slower than thought, it is so everywhere, most where least is known.
    deviations = normal_middles(QUANTILES)
    needs = np.array([doubt.needs for doubt in doubts])  # choices x databases
    met = (needs[:, :, None] <= deviations[None, None, :]).reshape(len(doubts), -1)
    possible = met.any(axis=0)
    if not possible.any():
        return [Regret(math.nan, math.nan)] * len(doubts), 1.0
    met = met[:, possible]
    order = np.argsort(costs, kind="stable")
    cost, met = costs[order], met[order]
    meeting = np.where(met, cost[:, None], np.inf)
    best = meeting.min(axis=0)
    # From the dearest down: the cheapest that meets among those that cost as much or more; where only cheaper ones do, the best of them.
    dearer = np.minimum.accumulate(meeting[::-1], axis=0)[::-1]
    instead = np.where(np.isfinite(dearer), dearer, best[None, :])
    regret = cost[:, None] + np.where(met, 0.0, instead) - best[None, :]
    found: list[Regret] = [Regret(0.0, 0.0)] * len(doubts)
    for place, row in zip(order, regret, strict=True):
        found[int(place)] = Regret(float(row.mean()), float(row.max()))
    return found, float(1.0 - possible.mean())
