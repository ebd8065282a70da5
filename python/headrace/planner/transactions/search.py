"""The least of every route that meets the goals: bisection along the axis, all routes of a family at once.

Along a route more IOPS (or GiB) never make fewer transactions and never cost less, so the lowest value that meets the goals is the cheapest, to the step. Bounds save work:
a route whose next value costs too much more than the best on its host is dropped; the simulator decides the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.planner.transactions.evaluate import Evaluator, Pick
from headrace.planner.transactions.storages import Route

# Routes up to this much dearer than the best on the same host stay: those that may win once doubt is counted in.
KEPT = 1.3


@dataclass
class Found:
    """What a search came to: routes that meet the goals at an index, with their cost; of those that do not, the nearest at the most they sell; and the cheapest that was not
    looked at because of its cost (`dear`)."""

    passing: list[tuple[Route, int, float]] = field(default_factory=list)
    failing: list[tuple[Route, int, float]] = field(default_factory=list)
    dear: tuple[Route, int, float] | None = None

    @property
    def too_dear(self) -> bool:
        """Something was not looked at because of its cost."""
        return self.dear is not None

    @property
    def best_usd(self) -> float:
        """Cost of the cheapest that meets the goals."""
        return min((usd for *_, usd in self.passing), default=float("inf"))

    def add(self, other: Found) -> None:
        """Takes over what another search of the family found."""
        self.passing += other.passing
        self.failing += other.failing
        self.cut(other.dear)

    def cut(self, entry: tuple[Route, int, float] | None) -> None:
        """Takes note of a candidate that costs too much."""
        if entry is not None and (self.dear is None or entry[2] < self.dear[2]):
            self.dear = entry


def pick_of(route: Route, index: int) -> Pick:
    """The candidate at an index of a route."""
    return (route.storage(index), route.log, route.host)


def search(evaluator: Evaluator, routes: Sequence[Route], limit_usd: float) -> Found:
    """Searches routes of one family on some hosts. `limit_usd`: nothing dearer is looked at."""
    found = Found()
    Wave(evaluator, routes, found, min(limit_usd, evaluator.most_usd)).bisect()
    return found


class Wave:
    """Routes that are bisected together."""

    def __init__(self, evaluator: Evaluator, routes: Sequence[Route], found: Found, limit_usd: float) -> None:
        self.evaluator, self.routes, self.found, self.limit_usd = evaluator, routes, found, limit_usd
        self.best: dict[int, float] = {}  # USD a month by host

    def bisect(self) -> None:
        """Adds to what was found."""
        routes = self.routes
        at_low = self._judge(self._affordable({i: 0 for i in range(len(routes))}))
        rising = {i: routes[i].last for i, fine in at_low.items() if not fine and routes[i].last > 0}
        at_high = self._judge(rising, keep_passing=False)
        self.found.failing += [self._priced(i, 0) for i, fine in at_low.items() if not fine and routes[i].last == 0]
        self.found.failing += [self._priced(i, routes[i].last) for i, fine in at_high.items() if not fine]
        lowest(
            {i: (0, routes[i].last) for i, fine in at_high.items() if fine},
            judge=self._judge,
            affordable=self._affordable,
            last=lambda i, index: self._keep(i, index),
        )

    def _priced(self, i: int, index: int) -> tuple[Route, int, float]:
        return self.routes[i], index, float(self.evaluator.costs([pick_of(self.routes[i], index)])[0])

    def _keep(self, i: int, index: int) -> None:
        self._pass(self._priced(i, index))

    def _pass(self, entry: tuple[Route, int, float]) -> None:
        self.found.passing.append(entry)
        self.best[entry[0].host] = min(self.best.get(entry[0].host, float("inf")), entry[2])

    def _judge(self, indices: dict[int, int], keep_passing: bool = True) -> dict[int, bool]:
        if not indices:
            return {}
        picks = [pick_of(self.routes[i], index) for i, index in indices.items()]
        fine = self.evaluator.meets(self.evaluator.run(picks))
        if keep_passing:
            usd = self.evaluator.costs(picks)
            for (i, index), ok, cost in zip(indices.items(), fine, usd, strict=True):
                if ok:
                    self._pass((self.routes[i], index, float(cost)))
        return dict(zip(indices, fine.tolist(), strict=True))

    def _affordable(self, indices: dict[int, int]) -> dict[int, int]:
        if not indices:
            return indices
        usd = self.evaluator.costs([pick_of(self.routes[i], index) for i, index in indices.items()])
        most = [KEPT * self.best.get(self.routes[i].host, float("inf")) for i in indices]
        kept = (usd <= self.limit_usd) & (usd <= np.array(most))
        dear = np.where(kept | np.isnan(usd), np.inf, usd)
        if np.isfinite(dear).any():
            cheapest = int(dear.argmin())
            i, index = list(indices.items())[cheapest]
            self.found.cut((self.routes[i], index, float(dear[cheapest])))
        return {i: index for (i, index), fits in zip(indices.items(), kept, strict=True) if fits}


def lowest(
    bounds: dict[int, tuple[int, int]],
    *,
    judge: Callable[[dict[int, int]], dict[int, bool]],
    affordable: Callable[[dict[int, int]], dict[int, int]],
    last: Callable[[int, int], None],
) -> None:
    """Bisects all routes at once between an index that fails and one that passes; `last` hears the lowest that passes. Routes whose next index is not affordable are
    dropped."""
    for i, (low, high) in bounds.items():
        if high - low <= 1:
            last(i, high)
    bounds = {i: pair for i, pair in bounds.items() if pair[1] - pair[0] > 1}
    while bounds:
        worth = affordable({i: low + 1 for i, (low, _) in bounds.items()})
        fine = judge({i: (bounds[i][0] + bounds[i][1]) // 2 for i in worth})
        left = {}
        for i, good in fine.items():
            low, high = bounds[i]
            middle = (low + high) // 2
            low, high = (low, middle) if good else (middle, high)
            if high - low > 1:
                left[i] = (low, high)
            elif not good:
                last(i, high)
        bounds = left
