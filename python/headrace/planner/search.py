"""The least that meets the goals, of every space, with a proof of what was left out.

Let f(x, y) say whether a candidate meets the goals. More IOPS, MiB/s or GiB never make it worse, so
what meets them is an upper set, and cost rises along both axes. In a space the cheapest is then
found without a grid:

    y |  *  . . . . . . .     1. the low corner meets the goals: nothing in the space is cheaper
      |  *  . . meets . .     2. the high corner does not: nothing in the space meets them
      |  A *. . . . . . .     3. the least x with y free, and the least y with x free, bound
      |     * * . . . . .        everything that meets them from below; where their corner meets
      |         * * * B *        the goals it is the cheapest (separate limits: the usual case)
      +------------------- x  4. else the cheapest lies on the stairs between A and B: boxes are
                                 cut in two at the middle y, and a box whose own low corner costs
                                 as much as the best known is left out, which proves it

A space is also left out where its low corner costs more than the caller's limit (`limit_usd`):
"dear", with that cost as the proof. All spaces are searched together, a generator each, so that one
call of the judge answers one question of every space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.planner.candidates import LOCAL, Candidate, Family, Host, Need, Shape, Space, get_instance_family
from headrace.planner.judging import CandidateJudge, WeighingJudge
from headrace.planner.market.services import list_service_spaces
from headrace.planner.reasons import SAVES_PERCENT, SAVES_USD

Point = tuple[int, int]
# The search of a space stops where what is left could be cheaper by less than a thousandth: half a
# cent of five dollars.
CLOSE_ENOUGH = 1e-3

Questions = Generator[list[Point], Sequence[bool], None]


class Pricing(Protocol):
    """Cost of a candidate, as the search of a space needs it: USD a month, NaN if no price is
    known."""

    def compute_cost(self, candidate: Candidate) -> float: ...


@dataclass(eq=False, slots=True)
class SpaceResult:
    """Result of the search of one space.

    `best`: the cheapest point that meets the goals, None where none does; `usd`: what it costs.
    `low`: no point below it on either axis meets the goals. `fails`: the high corner does not meet
    them. `dear`: left out at this cost, because `limit_usd` is below.
    """

    space: Space
    low: Point
    high: Point
    best: Point | None = None
    usd: float = math.inf
    fails: bool = False
    dear: float | None = None
    # Costs of points that were asked for.
    usd_of: dict[Point, float] = field(default_factory=dict, repr=False)

    @property
    def candidate(self) -> Candidate:
        """The candidate found; what comes nearest where none meets the goals."""
        return self.space.make_candidate(self.best or self.high)


@dataclass
class Search:
    """Searches spaces under one judge. `meets`: candidates to booleans. `limit_usd`: of a space,
    the most that is worth looking at now; it is asked again as the search goes on, so it may fall.
    `note`: is called with a space in which a cheaper point was found."""

    judge: Pricing
    meets: Callable[[list[Candidate]], Sequence[bool]]
    limit_usd: Callable[[Space], float]
    note: Callable[[SpaceResult], None] = lambda cheaper: None

    def run(self, spaces: Iterable[Space | SpaceResult]) -> list[SpaceResult]:
        """Searches each space. The result of an earlier search (of a judge that requires less)
        starts where that one ended."""
        answers = [
            entry if isinstance(entry, SpaceResult) else SpaceResult(entry, *_get_corners(entry)) for entry in spaces
        ]
        hunts: list[tuple[SpaceResult, Questions, list[Point]]] = []
        for answer in answers:
            hunt = self._hunt(answer)
            points = next(hunt, None)
            if points is not None:
                hunts.append((answer, hunt, points))
        while hunts:
            candidates = [answer.space.make_candidate(point) for answer, _, points in hunts for point in points]
            verdicts = self.meets(candidates)
            open_hunts, first = [], 0
            for answer, hunt, points in hunts:
                last = first + len(points)
                following = _send_verdicts(hunt, verdicts[first:last])
                first = last
                if following is not None:
                    open_hunts.append((answer, hunt, following))
            hunts = open_hunts
        return answers

    def _compute_usd(self, answer: SpaceResult, point: Point) -> float:
        """Returns the USD a month of a point, NaN where no price is known; cached."""
        usd = answer.usd_of.get(point)
        if usd is None:
            usd = answer.usd_of[point] = self.judge.compute_cost(answer.space.make_candidate(point))
        return usd

    def _keep(self, answer: SpaceResult, point: Point) -> None:
        """Sets a point that meets the goals as the best of its space where it is cheaper than the
        one so far, and calls `note`."""
        usd = self._compute_usd(answer, point)
        if usd < answer.usd:
            answer.best, answer.usd = point, usd
            self.note(answer)

    def _is_dear(self, answer: SpaceResult, point: Point) -> bool:
        """Says whether `point` costs more than the limit, so that no point above it is searched;
        sets `dear` then."""
        usd = self._compute_usd(answer, point)
        # A space without a price cannot be ranked.
        if math.isnan(usd) or usd > self.limit_usd(answer.space):
            answer.dear = math.inf if math.isnan(usd) else usd
            return True
        return False

    def _hunt(self, answer: SpaceResult) -> Questions:
        """Searches one space as the drawing above says: yields points to be judged, is sent whether
        they meet the goals, and fills `answer`."""
        low, high = answer.low, answer.high
        if self._is_dear(answer, low):
            return
        (meets,) = yield [low]
        if meets:
            return self._keep(answer, low)
        if low == high:
            answer.fails = True
            return
        (meets,) = yield [high]
        if not meets:
            answer.fails = True
            return
        corner = yield from self._find_corner(answer, low, high)
        if corner is None:
            return
        answer.low = corner
        (meets,) = yield [corner]
        if meets:
            return self._keep(answer, corner)
        yield from self._descend_stairs(answer, corner, high)

    def _find_corner(
        self, answer: SpaceResult, low: Point, high: Point
    ) -> Generator[list[Point], Sequence[bool], Point | None]:
        """Returns the least x with y free and the least y with x free; None where that point
        already costs more than the limit."""
        # Below `x` and `y` nothing meets the goals; at (right, high y) and (high x, top) it does.
        (x, y), (right, top) = low, high
        while x < right or y < top:
            if self._is_dear(answer, (x, y)):
                return None
            (x_first, x_last), (y_first, y_last) = _find_middle(answer, 0, x, right), _find_middle(answer, 1, y, top)
            if x < right and x_last == right:
                right = x_first
                continue
            if y < top and y_last == top:
                top = y_first
                continue
            points = [(x_last, high[1])] * (x < right) + [(high[0], y_last)] * (y < top)
            verdicts = list((yield points))
            if x < right:
                x, right = (x, x_first) if verdicts.pop(0) else (x_last + 1, right)
            if y < top:
                y, top = (y, y_first) if verdicts.pop(0) else (y_last + 1, top)
        return (x, y)

    def _descend_stairs(self, answer: SpaceResult, corner: Point, high: Point) -> Questions:
        """Finds the cheapest point on the stairs between A and B of the drawing above, where more
        of one axis replaces some of the other."""
        top_y = yield from self._find_least(answer, 1, corner[0], corner[1], high[1])
        right_x = yield from self._find_least(answer, 0, corner[1], corner[0], high[0])
        self._keep(answer, (corner[0], top_y))
        self._keep(answer, (right_x, corner[1]))
        # Each box lies strictly between two known points of the boundary: left x, right x, lower y,
        # upper y.
        boxes = [(corner[0], right_x, corner[1], top_y)]
        while boxes:
            left_x, right, lower, upper = boxes.pop()
            if right - left_x < 2 or upper - lower < 2:
                continue
            least = self._compute_usd(answer, (left_x + 1, lower + 1))
            if least >= answer.usd * (1 - CLOSE_ENOUGH) or least > self.limit_usd(answer.space):
                continue
            middle = (lower + upper) // 2
            x = yield from self._find_least(answer, 0, middle, left_x + 1, right)
            self._keep(answer, (x, middle))
            # Below the middle the same x may still do with fewer MiB/s.
            boxes += [(left_x, x, middle, upper), (x - 1, right, lower, middle)]

    def _find_least(
        self, answer: SpaceResult, axis: int, other: int, low: int, high: int
    ) -> Generator[list[Point], Sequence[bool], int]:
        """Finds the least value on an axis, from `low` to `high`, that meets the goals with `other`
        on the other axis; `high` is known to."""
        while low < high:
            first, last = _find_middle(answer, axis, low, high)
            if last == high:
                high = first
                continue
            (meets,) = yield [(last, other) if axis == 0 else (other, last)]
            low, high = (low, first) if meets else (last + 1, high)
        return low


def _send_verdicts(hunt: Questions, verdicts: Sequence[bool]) -> list[Point] | None:
    """Sends the verdicts to the search of a space and returns its next points to be judged; None
    where it has ended."""
    try:
        return hunt.send(verdicts)
    except StopIteration:
        return None


def _find_middle(answer: SpaceResult, axis: int, low: int, high: int) -> tuple[int, int]:
    """Returns the lowest and the highest figure that order the same as the middle of `low` and
    `high`, within both: one verdict holds for all of them."""
    first, last = answer.space.shape.find_alike(axis, (low + high) // 2)
    return max(first, low), min(last, high)


def _get_corners(space: Space) -> tuple[Point, Point]:
    """Returns the low and the high corner of a space, as points (x, y)."""
    (x_low, x_high), (y_low, y_high) = space.shape.x, space.shape.y
    return (x_low, y_low), (x_high, y_high)


# --- families -------------------------------------------------------------------------------------

# Hosts that are searched together, cheapest first: what they cost bounds the rest.
HOSTS_AT_ONCE = 8
# By the best guess alone a space is left out where another on its host costs a third: being sure of
# that one was never seen to cost three times as much.
BY_GUESS = 3.0
# A family this many times dearer than the best of all is not searched to its end (a guess).
HOPELESS = 5.0
# Spaces of a database raised together to the confidence asked for, in the order of their cost by
# the best guess: few at first, since what they come to bounds the rest.
RAISED_FIRST, RAISED_AT_ONCE = 3, 12
# Cost of a family over the best of all, from which on only its cheapest candidate is searched: that
# says by how much the family lost.
FAR = 1.5


@dataclass
class FamilyResult:
    """A family with what its search found: `guessed` by the best guess, `sure` with the confidence
    required (the same for demand)."""

    family: Family
    guessed: list[SpaceResult] = field(default_factory=list)
    sure: list[SpaceResult] = field(default_factory=list)

    @property
    def passing(self) -> list[SpaceResult]:
        """Results that meet every goal, cheapest first; ties: fewer volumes, then by name."""
        return sorted((result for result in self.sure if result.best is not None), key=rank)

    @property
    def dear(self) -> float | None:
        """USD a month of the cheapest space that was not searched because of its cost; None: there
        is none."""
        return min(
            (result.dear for result in self.guessed if result.dear is not None and math.isfinite(result.dear)),
            default=None,
        )


def compute_usd_limit(best_usd: float) -> float:
    """Returns the most, USD a month, that is worth looking at next to the cheapest of a family:
    fewer volumes may cost a fifth or 20 USD more (reasons.recommend)."""
    return max(best_usd / (1 - SAVES_PERCENT / 100), best_usd + SAVES_USD)


def rank(result: SpaceResult) -> tuple:
    """Orders results, cheapest first; ties: fewer volumes, then by name."""
    data, log, host = result.candidate
    return (round(result.usd, 6), result.space.volumes, data, log or "", host)


class FamilySearch:
    """Searches families of volumes under one judge. `affordable`: the most a candidate's own bill
    may be, USD a month. `today_family`: the instance family a recommendation keeps to, or None."""

    def __init__(
        self,
        judge: CandidateJudge,
        hosts: list[Host],
        need: Need,
        affordable: float,
        today_family: str | None,
    ) -> None:
        """Keeps the bounds of a search. `need`: GiB the volumes must hold."""
        self.judge, self.hosts, self.need = judge, hosts, need
        self.affordable, self.today_family = affordable, today_family
        self.as_of = judge.prices.as_of

    def run(self, families: Sequence[Family], progress: Callable[[float], None]) -> list[FamilyResult]:
        """Searches each family, single volumes first: what they cost bounds the rest."""
        logs: list[str | None] = [None]
        if isinstance(self.judge, WeighingJudge):
            logs = self.judge.list_logs([family for family in families if family.service == "ec2"], self.need)
        order = sorted(
            families,
            key=lambda family: (
                family.service != "ec2",
                family.layout != "single",
                family.volume_type not in ("gp3", "gp2"),
                family.name,
            ),
        )
        searched: list[FamilyResult] = []
        # Services are compared, so each is searched as if it were alone.
        best_of: dict[str, float] = {}
        for done, family in enumerate(order):
            progress(done / len(order))
            result = FamilyResult(family)
            searched.append(result)
            best = best_of.get(family.service, math.inf)
            self._search_family(result, logs, best)
            best_of[family.service] = min([best, *(sure.usd for sure in result.sure)])
        progress(1.0)
        return searched

    def _search_family(self, result: FamilyResult, logs: Sequence[str | None], best_of_all: float) -> None:
        """Searches one family, some hosts at a time, and fills `result`. `logs`: volumes for the
        log, None: with the data. `best_of_all`: the cheapest found in the service so far, USD a
        month."""
        alone = self._search_alone(result.family)
        # Most that is worth looking at by host and number of volumes: more volumes are worth a look
        # only where they cost less.
        limit_of_host: dict[tuple[int, int], float] = {}
        by_guess = BY_GUESS if isinstance(self.judge, WeighingJudge) else 1.0
        # The cheapest sure one, on instances of today's family and on others.
        own = {True: math.inf, False: math.inf}

        def compute_host_limit(host: int) -> float:
            return min(self.affordable, compute_usd_limit(own[self.is_of_today_family(host)]), HOPELESS * best_of_all)

        def compute_limit(space: Space) -> float:
            return min(limit_of_host.get((space.host, space.volumes), math.inf), host_limits[space.host])

        def note(cheaper: SpaceResult) -> None:
            """Bounds the same host with as many volumes or more by what was found, USD a month."""
            host, usd = cheaper.space.host, cheaper.usd * by_guess
            for volumes in range(cheaper.space.volumes, most_volumes + 1):
                limit_of_host[host, volumes] = min(limit_of_host.get((host, volumes), math.inf), usd)

        for first in range(0, len(self.hosts), HOSTS_AT_ONCE):
            places = [
                i
                for i in range(first, min(first + HOSTS_AT_ONCE, len(self.hosts)))
                if self.hosts[i].service == result.family.service and self.hosts[i].usd_month <= compute_host_limit(i)
            ]
            spaces = [
                Space(space.shape, space.log, places[space.host])
                for space in list_service_spaces(
                    result.family, [self.hosts[i] for i in places], logs, self.need, self.as_of
                )
            ]
            most_volumes = max((space.volumes for space in spaces), default=0)
            # Candidates with the required confidence change only between rounds.
            host_limits = {
                place: compute_host_limit(place)
                if len(self.hosts) > 1
                else min(self.affordable, HOPELESS * best_of_all)
                for place in places
            }
            starts = [start for space in spaces if (start := self._find_start(space, alone)) is not None]
            guessed = Search(self.judge, self.judge.performs, compute_limit, note).run(starts)
            result.guessed += guessed
            sure = (
                self._raise_to_confidence(self.judge, guessed, own, best_of_all)
                if isinstance(self.judge, WeighingJudge)
                else guessed
            )
            result.sure += sure
            own = {
                keeps: min([usd, *(best.usd for best in sure if self.is_of_today_family(best.space.host) == keeps)])
                for keeps, usd in own.items()
            }

    def is_of_today_family(self, host: int) -> bool:
        """Says whether a host (its index) is of the instance family that a recommendation keeps
        to."""
        return self.today_family is not None and get_instance_family(self.hosts[host].name or "") == self.today_family

    def _search_alone(self, family: Family) -> dict[Shape, SpaceResult] | None:
        """Searches each shape without an instance, in a plan for demand on instances, and returns
        the results by shape; None elsewhere. An instance only adds limits, so a shape that fails
        alone fails on all of them, and its least point alone is a lower bound on each."""
        if (
            isinstance(self.judge, WeighingJudge)
            or all(host.instance is None for host in self.hosts)
            or family.volume_type == LOCAL
        ):
            return None
        self.hosts.append(Host(None, service=family.service))
        spaces = [
            Space(space.shape, None, len(self.hosts) - 1)
            for space in list_service_spaces(family, [self.hosts[-1]], [None], self.need, self.as_of)
        ]
        results = Search(self.judge, self.judge.performs, lambda space: math.inf).run(spaces)
        self.hosts.pop()
        # The next host that is added has the same place: that of today, or of another service.
        self.judge.forget_host(len(self.hosts))
        return {result.space.shape: result for result in results}

    def _find_start(self, space: Space, alone: dict[Shape, SpaceResult] | None) -> Space | SpaceResult | None:
        """Returns where the search of a space begins: at its corners, or where that of its shape
        without an instance ended; None where that failed."""
        if alone is None:
            return space
        result = alone[space.shape]
        if result.fails:
            return None
        return SpaceResult(space, result.low, result.high)

    def _raise_to_confidence(
        self, judge: WeighingJudge, guessed: Sequence[SpaceResult], own: dict[bool, float], best_of_all: float
    ) -> list[SpaceResult]:
        """Searches the spaces that meet the goals by the best guess for points that meet them with
        the required confidence, the cheapest first, and returns their results. A point costs at
        least what the guess does, so the search ends where guesses cost more than sure points."""
        waiting = sorted((result for result in guessed if result.best is not None), key=rank)
        sure: list[SpaceResult] = []

        def compute_family_limit(keeps: bool) -> float:
            """Returns the most, USD a month, that is worth looking at on hosts of today's family
            (`keeps`), or on others."""
            best = min(
                [own[keeps], *(result.usd for result in sure if self.is_of_today_family(result.space.host) == keeps)]
            )
            return compute_usd_limit(best) if best < FAR * best_of_all else best

        def compute_limit(space: Space) -> float:
            """Returns the most, USD a month, that is worth looking at in a space, by what is known
            to be sure."""
            here = min(
                (
                    result.usd
                    for result in sure
                    if result.space.host == space.host and result.space.volumes <= space.volumes
                ),
                default=math.inf,
            )
            return min(
                self.affordable, compute_family_limit(self.is_of_today_family(space.host)), here, HOPELESS * best_of_all
            )

        first = 0
        while first < len(waiting) and waiting[first].usd <= max(
            compute_family_limit(False), compute_family_limit(True)
        ):
            last = first + (RAISED_AT_ONCE if sure or min(own.values()) < math.inf else RAISED_FIRST)
            starts = [
                SpaceResult(result.space, result.low, result.high)
                for result in waiting[first:last]
                if result.usd <= compute_limit(result.space)
            ]
            sure += [
                result
                for result in Search(judge, judge.meets_with_confidence, compute_limit).run(starts)
                if result.best is not None
            ]
            first = last
        return sure
