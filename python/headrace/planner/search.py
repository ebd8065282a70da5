"""The least that meets the goals, of every space, with a proof of what was left out.

Let f(x, y) say whether a candidate meets the goals. More IOPS, MiB/s or GiB never make it worse, so what meets them is an upper set, and
cost rises along both axes. In a space the cheapest is then found without a grid:

    y |  *  . . . . . . .       1. the low corner meets the goals: nothing in the space is cheaper
      |  *  . . meets . .       2. the high corner does not: nothing in the space meets them
      |  A *. . . . . . .       3. the least x with y free, and the least y with x free, bound everything that meets them from below;
      |     * * . . . . .          where their corner meets the goals it is the cheapest (limits that bind apart: the usual case)
      |         * * * B *       4. else the cheapest lies on the stairs between A and B: boxes are cut in two at the middle y, and a
      +------------------- x       box whose own low corner costs as much as the best known is left out, which proves it

A space is also left out where its low corner costs more than the caller's limit (`limit_usd`): "dear", with that cost as the proof. All
spaces are searched together, a generator each, so that one call of the judge answers one question of every space.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from headrace.planner.candidates import Candidate, Space

Point = tuple[int, int]
# The search of a space stops where what is left could be cheaper by less than a thousandth: half a cent of five dollars.
CLOSE_ENOUGH = 1e-3

Questions = Generator[list[Point], list[bool], None]


class Judging(Protocol):
    """What the search asks: which candidates meet the goals, and what each costs (USD a month, NaN where no price is known)."""

    def costs(self, candidates: Sequence[Candidate]) -> np.ndarray: ...


@dataclass(eq=False)
class SpaceResult:
    """What came of one space.

    `best`: the cheapest point that meets the goals, None where none does; `usd`: what it costs. `low`: no point below it on either
    axis meets the goals. `fails`: the high corner does not meet them. `dear`: left out at this cost, because `limit_usd` is below.
    """

    space: Space
    low: Point
    high: Point
    best: Point | None = None
    usd: float = math.inf
    fails: bool = False
    dear: float | None = None

    @property
    def candidate(self) -> Candidate:
        """The candidate found; what comes nearest where none meets the goals."""
        return self.space.candidate(self.best or self.high)


@dataclass
class Search:
    """Searches spaces under one judge. `meets`: candidates to booleans. `limit_usd`: of a space, the most that is worth looking at now; it is
    asked again as the search goes on, so it may fall. `found`: told when a space is known to have a cheaper point."""

    judge: Judging
    meets: Callable[[list[Candidate]], Sequence[bool]]
    limit_usd: Callable[[Space], float]
    found: Callable[[SpaceResult], None] = lambda found: None
    known_usd: dict[tuple[int, Point], float] = field(default_factory=dict)

    def run(self, spaces: Iterable[Space | SpaceResult]) -> list[SpaceResult]:
        """The answer for each space. A SpaceResult of an earlier search (of a judge that asks for less) starts where that one ended."""
        answers = [one if isinstance(one, SpaceResult) else SpaceResult(one, *_corners(one)) for one in spaces]
        talks: list[tuple[SpaceResult, Questions, list[Point]]] = []
        for answer in answers:
            talk = self._hunt(answer)
            asked = next(talk, None)
            if asked is not None:
                talks.append((answer, talk, asked))
        while talks:
            candidates = [answer.space.candidate(point) for answer, _, asked in talks for point in asked]
            said = iter(self.meets(candidates))
            left = []
            for answer, talk, asked in talks:
                with contextlib.suppress(StopIteration):
                    left.append((answer, talk, talk.send([bool(next(said)) for _ in asked])))
            talks = left
        return answers

    def _usd(self, answer: SpaceResult, point: Point) -> float:
        key = (id(answer), point)
        usd = self.known_usd.get(key)
        if usd is None:
            usd = self.known_usd[key] = float(self.judge.costs([answer.space.candidate(point)])[0])
        return usd

    def _keep(self, answer: SpaceResult, point: Point) -> None:
        usd = self._usd(answer, point)
        if usd < answer.usd:
            answer.best, answer.usd = point, usd
            self.found(answer)

    def _is_dear(self, answer: SpaceResult, point: Point) -> bool:
        """Whether nothing from `point` on is worth looking at."""
        usd = self._usd(answer, point)
        # A space without a price cannot be ranked.
        if math.isnan(usd) or usd > self.limit_usd(answer.space):
            answer.dear = math.inf if math.isnan(usd) else usd
            return True
        return False

    def _hunt(self, answer: SpaceResult) -> Questions:
        low, high = answer.low, answer.high
        if self._is_dear(answer, low):
            return
        (fine,) = yield [low]
        if fine:
            return self._keep(answer, low)
        if low == high:
            answer.fails = True
            return
        (fine,) = yield [high]
        if not fine:
            answer.fails = True
            return
        corner = yield from self._corner(answer, low, high)
        if corner is None:
            return
        answer.low = corner
        (fine,) = yield [corner]
        if fine:
            return self._keep(answer, corner)
        yield from self._stairs(answer, corner, high)

    def _corner(self, answer: SpaceResult, low: Point, high: Point) -> Generator[list[Point], list[bool], Point | None]:
        """Least x with y free and least y with x free; None where that already costs too much."""
        # Below `x` and `y` nothing meets the goals; at (right, high y) and (high x, top) it does.
        (x, y), (right, top) = low, high
        while x < right or y < top:
            if self._is_dear(answer, (x, y)):
                return None
            middle_x, middle_y = (x + right) // 2, (y + top) // 2
            asked = [(middle_x, high[1])] * (x < right) + [(high[0], middle_y)] * (y < top)
            said = list((yield asked))
            if x < right:
                x, right = (x, middle_x) if said.pop(0) else (middle_x + 1, right)
            if y < top:
                y, top = (y, middle_y) if said.pop(0) else (middle_y + 1, top)
        return (x, y)

    def _stairs(self, answer: SpaceResult, corner: Point, high: Point) -> Questions:
        """The cheapest of the boundary between two limits that trade for each other."""
        top_y = yield from self._least(lambda y: (corner[0], y), corner[1], high[1])
        right_x = yield from self._least(lambda x: (x, corner[1]), corner[0], high[0])
        self._keep(answer, (corner[0], top_y))
        self._keep(answer, (right_x, corner[1]))
        # Each box lies strictly between two known points of the boundary: left x, right x, lower y, upper y.
        boxes = [(corner[0], right_x, corner[1], top_y)]
        while boxes:
            left, right, lower, upper = boxes.pop()
            if right - left < 2 or upper - lower < 2:
                continue
            least = self._usd(answer, (left + 1, lower + 1))
            if least >= answer.usd * (1 - CLOSE_ENOUGH) or least > self.limit_usd(answer.space):
                continue
            middle = (lower + upper) // 2
            x = yield from self._least(lambda x, y=middle: (x, y), left + 1, right)
            self._keep(answer, (x, middle))
            # Below the middle the same x may still do with fewer MiB/s.
            boxes += [(left, x, middle, upper), (x - 1, right, lower, middle)]

    def _least(self, at: Callable[[int], Point], low: int, high: int) -> Generator[list[Point], list[bool], int]:
        """The least value from `low` to `high` that meets the goals; `high` is known to."""
        while low < high:
            middle = (low + high) // 2
            (fine,) = yield [at(middle)]
            low, high = (low, middle) if fine else (middle + 1, high)
        return low


def _corners(space: Space) -> tuple[Point, Point]:
    (x_low, x_high), (y_low, y_high) = space.shape.x, space.shape.y
    return (x_low, y_low), (x_high, y_high)
