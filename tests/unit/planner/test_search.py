"""The search against enumeration: of upper sets drawn at random, and of every storage of a type on
a real day. Pure Python judges the first."""

from __future__ import annotations

import math
import os
import random
from types import SimpleNamespace

import numpy as np
import pytest
from planner_cases import as_ordered

from headrace.base import core
from headrace.base.storage import Storage
from headrace.planner import plan
from headrace.planner.candidates import GIB_STEPS, IOPS_STEPS, MIB_S_STEPS, find_rounding_range, round_figure_up
from headrace.planner.demand import PlannedDemand
from headrace.planner.search import CLOSE_ENOUGH, Search, SpaceResult
from headrace.workload import OpenWorkload
from headrace.workload.points import make_points

CASES = 2_000 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 200
# Costs are sums of products of floats of a few thousand: a relative 1e-12 is a hundred times their
# rounding.
ROUNDING = 1e-12


class Terrain:
    """Random space in which goals are met above at least one of `corners`; the cost grows along
    both axes, by tiers as io2's IOPS do, in steps as sizes that come with IOPS do."""

    def __init__(self, dice: random.Random, corners: int, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.corners = [(dice.randrange(width), dice.randrange(height)) for _ in range(corners)]
        self.slopes = [dice.choice([0.0, dice.uniform(0.001, 2.0), 10 ** dice.uniform(-3, 3)]) for _ in range(3)]
        self.bend, self.step, self.base = dice.randrange(width), dice.choice([1, 1, 50, 500]), dice.uniform(0, 50)
        self.questions: list[tuple[int, int]] = []
        self.space = SimpleNamespace(
            # Every figure of a terrain is one of its own: nothing is rounded.
            shape=SimpleNamespace(
                x=(0, width - 1), y=(0, height - 1), members=1, find_alike=lambda axis, value: (value, value)
            ),
            host=0,
            make_candidate=lambda point: (f"{point[0]}:{point[1]}", None, 0),
        )

    def usd(self, x: int, y: int) -> float:
        entry, two, three = self.slopes
        return (
            self.base
            + entry * min(x, self.bend)
            + 0.7 * entry * max(0, x - self.bend)
            + two * y
            + three * (x // self.step)
        )

    def meets(self, candidates) -> list[bool]:
        pairs = [text.split(":") for text, *_ in candidates]
        points = [(int(x), int(y)) for x, y in pairs]
        self.questions += points
        return [any(x >= rest and y >= low for rest, low in self.corners) for x, y in points]

    def compute_cost(self, candidate) -> float:
        return self.usd(*map(int, candidate[0].split(":")))

    def best(self) -> float:
        """The cheapest that meets the goals: cost rises along both axes, so it stands on a
        corner."""
        return min((self.usd(*corner) for corner in self.corners), default=math.inf)

    def search(self, limit: float = math.inf, start: SpaceResult | None = None) -> SpaceResult:
        return Search(self, self.meets, lambda space: limit).run([start or self.space])[0]


def terrains(corners):
    """Seeded: the failing one is named by its number."""
    for seed in range(CASES):
        dice = random.Random(seed)
        yield seed, dice, Terrain(dice, dice.randint(*corners), 2 ** dice.randint(0, 16), 2 ** dice.randint(0, 11))


def test_never_dearer_than_the_best_by_more_than_it_says():
    questions = []
    for seed, _, terrain in terrains((1, 40)):
        result = terrain.search()
        assert result.best is not None and not result.fails and result.dear is None, seed
        assert terrain.usd(*result.best) == result.usd, seed
        assert terrain.meets([terrain.space.make_candidate(result.best)]) == [True], seed
        best = terrain.best()
        assert best * (1 - ROUNDING) <= result.usd <= best / (1 - CLOSE_ENOUGH) * (1 + ROUNDING), (
            f"seed {seed}: {result.usd} against {best}"
        )
        # Nothing below `low` on either axis meets the goals.
        x, y = result.low
        assert x <= min(rest for rest, _ in terrain.corners) and y <= min(low for _, low in terrain.corners), seed
        questions.append(len(terrain.questions))
    print(
        f"{len(questions)} upper sets of up to 40 corners: {np.mean(questions):.0f} questions on average, at most {max(questions)}"
    )


def test_limits_that_bind_apart_are_found_exactly_and_with_few_questions():
    questions = []
    for seed, _, terrain in terrains((1, 1)):
        result = terrain.search()
        assert result.best is not None and result.usd == pytest.approx(terrain.best(), rel=ROUNDING), f"seed {seed}"
        # The low corner, the high one, their corner, and the halvings of both axes: floor(log2(n -
        # 1)) + 1 of n values.
        halvings = sum((size - 1).bit_length() for size in (terrain.width, terrain.height))
        assert len(terrain.questions) <= 3 + halvings, f"seed {seed}: {len(terrain.questions)} questions"
        questions.append(len(terrain.questions))
    print(f"{len(questions)} rectangles: {np.mean(questions):.0f} questions on average, at most {max(questions)}")


def test_a_space_that_nothing_in_meets_the_goals_costs_two_questions():
    for seed, _, terrain in terrains((0, 0)):
        result = terrain.search()
        assert result.fails and result.best is None and math.isinf(result.usd) and len(terrain.questions) <= 2, seed


def test_what_is_left_out_as_dear_is_dear():
    left_out = 0
    for seed, dice, terrain in terrains((1, 12)):
        best = terrain.best()
        limit = best * dice.choice([0.3, 0.9, 0.999, 1.001, 1.1, 3.0])
        result = terrain.search(limit)
        if best <= limit:
            assert result.dear is None and result.usd <= best / (1 - CLOSE_ENOUGH) * (1 + ROUNDING), (
                f"seed {seed}: {result.usd} against {best}"
            )
        elif result.dear is not None:
            left_out += 1
            # The proof: no point of the space that meets the goals costs less than `dear`, and
            # `dear` is above the limit.
            assert limit < result.dear <= best * (1 + ROUNDING), f"seed {seed}: {result.dear} against {best}"
        else:
            assert result.usd >= best * (1 - ROUNDING), f"seed {seed}"
    assert left_out > 0.3 * CASES


def test_a_space_without_a_price_is_never_searched():
    terrain = Terrain(random.Random(1), 1, 16, 16)
    terrain.slopes, terrain.base = [math.nan] * 3, math.nan
    result = terrain.search()
    assert result.best is None and result.dear == math.inf and not terrain.questions


def test_a_second_search_starts_where_the_first_ended():
    """A judge that asks for more: what it accepts is part of what the first accepted."""
    for seed, dice, terrain in terrains((1, 12)):
        first = terrain.search()
        higher = Terrain(dice, 0, terrain.width, terrain.height)
        higher.slopes, higher.bend, higher.step, higher.base, higher.space = (
            terrain.slopes,
            terrain.bend,
            terrain.step,
            terrain.base,
            terrain.space,
        )
        higher.corners = [
            (dice.randint(x, terrain.width - 1), dice.randint(y, terrain.height - 1)) for x, y in terrain.corners
        ]
        result = higher.search(start=SpaceResult(terrain.space, first.low, first.high))
        assert result.usd <= higher.best() / (1 - CLOSE_ENOUGH) * (1 + ROUNDING), (
            f"seed {seed}: {result.usd} against {higher.best()}"
        )


def test_many_spaces_are_searched_together_as_one_by_one():
    dice = random.Random(11)
    lone = [Terrain(dice, dice.randint(0, 5), 64, 64) for _ in range(20)]
    matches = [terrain.search() for terrain in lone]
    for terrain in lone:
        terrain.questions.clear()

    class All:
        """One judge of all: a candidate says of which space it is."""

        def meets(self, candidates):
            return [
                lone[int(text.partition("/")[0])].meets([(text.partition("/")[2], None, 0)])[0]
                for text, *_ in candidates
            ]

        def compute_cost(self, candidate):
            place, _, text = candidate[0].partition("/")
            return lone[int(place)].compute_cost((text, None, 0))

    spaces = [
        SimpleNamespace(
            shape=terrain.space.shape,
            host=0,
            make_candidate=lambda point, place=place: (f"{place}/{point[0]}:{point[1]}", None, 0),
        )
        for place, terrain in enumerate(lone)
    ]
    together = All()
    result = Search(together, together.meets, lambda space: math.inf).run(spaces)
    assert [(match.best, match.usd, match.fails) for match in result] == [
        (match.best, match.usd, match.fails) for match in matches
    ]


# --- a day of a real volume -----------------------------------------------------------------------

DAY_TYPES = ["standard", "gp2", "gp3", "io1", "io2", "st1", "sc1"]


def spiky(seed: int) -> OpenWorkload:
    """Three hours of minutes around 2,500 IOPS, with spikes in I/Os and spikes in bytes, 80 GiB."""
    dice = random.Random(seed)
    minutes = range(180)
    reads = [dice.uniform(500, 2_500) + (dice.uniform(500, 2_500) if dice.random() < 0.1 else 0) for _ in minutes]
    writes = [dice.uniform(100, 1_000) for _ in minutes]
    sizes = [dice.choice([16.0, 16.0, 16.0, 64.0]) for _ in minutes]
    points = make_points([60.0 * m for m in minutes], [60.0] * 180, reads, writes, sizes, [16.0] * 180)
    return OpenWorkload(name=f"spiky {seed}", kind="recorded", points=points, size_gib=80.0)


def judged(workload: OpenWorkload, storages: list[str], p99_ms: float, throttled_min: float) -> list[float]:
    """Returns the cost of each storage, infinite if it misses a limit: everything simulated,
    nothing pruned, judged one by one."""
    run = core.evaluate(
        workload.to_core(), storages, [None] * len(storages), [], prune_above=float("inf"), cycle="settled"
    )
    costs = core.monthly_totals(storages, "us-east-1")
    columns = zip(costs, run["status"], run["worst_p99_ms"], run["throttled_s"], strict=True)
    return [
        round(cost, 6)
        if status == "simulated" and p99 <= p99_ms and throttled <= 60 * throttled_min + 1e-6
        else math.inf
        for cost, status, p99, throttled in columns
    ]


def coarse(kind: str, members: int) -> list[str]:
    """Every storage of one type and RAID 0 member count as one orders it, up to well above what the
    demand needs."""
    front, gib = ("" if members == 1 else f"{members}x"), -(-80 // members)
    if kind == "gp3":
        every = [f"{front}gp3:{gib}:{iops}:{mib_s}" for iops in range(3_000, 6_550, 50) for mib_s in range(125, 305, 5)]
    elif kind == "io1":
        every = [f"{front}io1:{max(gib, -(-iops // 50))}:{iops}" for iops in range(100, 6_550, 50)]
    else:
        every = [f"{front}gp2:{gib}", *(f"{front}gp2:{size}" for size in range(gib + 1, 2_200))]
    return list(dict.fromkeys(as_ordered(text) for text in every))


def one_step_less(text: str) -> list[str]:
    """The storages next below in IOPS, MiB/s or GiB that one would order."""
    storage = Storage.parse(text)
    first = storage.members[0]
    storages = []
    if first.mib_s:
        storages.append(storage.with_(mib_s=find_rounding_range(first.mib_s, MIB_S_STEPS, 125, 2_000)[0] - 1))
    if first.iops:
        storages.append(storage.with_(iops=find_rounding_range(first.iops, IOPS_STEPS, 100, 256_000)[0] - 1))
    if not first.iops and first.type == "gp2":
        storages.append(storage.with_(size_gib=find_rounding_range(first.size_gib, GIB_STEPS, 1, 16_384)[0] - 1))
    return [str(storage) for storage in storages]


@pytest.mark.parametrize("steps", [IOPS_STEPS, MIB_S_STEPS, GIB_STEPS])
def test_figures_are_rounded_up_to_what_one_orders(steps):
    """Never below what is needed, by little, and in one direction."""
    before, most = 0, 65_536
    for value in range(3, most + 1):
        ordered, (first, last) = round_figure_up(value, steps, 3, most), find_rounding_range(value, steps, 3, most)
        assert ordered >= value and ordered >= before
        # 100 IOPS or 5 %; of the smallest figures a step, 2 GiB or 5 MiB/s. MiB/s above 500 come in 25.
        assert ordered - value <= {IOPS_STEPS: 100, MIB_S_STEPS: 5, GIB_STEPS: 2}[steps] + 0.05 * value
        # All that is alike is ordered alike, and what lies below is ordered as less.
        assert first <= value <= last and round_figure_up(first, steps, 3, most) == round_figure_up(
            last, steps, 3, most
        )
        assert round_figure_up(first, steps, 3, most) == ordered
        assert first == 3 or round_figure_up(first - 1, steps, 3, most) < ordered
        before = ordered
    assert round_figure_up(3_001, IOPS_STEPS, 3_000, 80_000) == 3_100
    assert round_figure_up(2_900, IOPS_STEPS, 3_000, 80_000) == 3_000
    assert round_figure_up(79_999, IOPS_STEPS, 3_000, 80_000) == 80_000


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("p99_ms", "throttled_min"), [(20.0, 0.0), (400.0, 6.0)])
@pytest.mark.parametrize("kind", ["gp2", "gp3", "io1"])
def test_nothing_cheaper_meets_the_goals(seed, p99_ms, throttled_min, kind):
    workload = spiky(seed)
    others = [other for other in DAY_TYPES if other != kind]
    goals = [f"p99_ms<={p99_ms}", f"throttled_min<={throttled_min}", "headroom_percent>=0"]
    answer = plan(workload, goals=goals, exclude=[*others, "raid10"], max_volumes=2, free_percent=0)
    best = min(min(judged(workload, coarse(kind, members), p99_ms, throttled_min)) for members in (1, 2))
    winner = answer.winner
    assert winner.cost_usd_month <= best / (1 - CLOSE_ENOUGH), f"seed {seed}: {winner.storage} against {best}"
    # It meets the goals itself, and what one would order next below does not.
    assert judged(workload, [winner.storage], p99_ms, throttled_min)[0] == pytest.approx(
        winner.cost_usd_month, abs=1e-6
    )
    below = [text for text in one_step_less(winner.storage) if Storage.parse(text).usable_gib >= 80]
    # The search stops within CLOSE_ENOUGH of the best if two limits trade for each other.
    if kind != "gp3":
        assert all(math.isinf(usd) for usd in judged(workload, below, p99_ms, throttled_min)), (winner.storage, below)


@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.parametrize("storage", ["gp3:80:3000", "2xgp3:40:3000", "raid10:4xgp3:40:3000", "st1:500", "2xst1:500"])
def test_demand_is_counted_as_the_core_counts_it(seed, storage):
    """A volume is throttled in some point exactly when our count of the demand says a limit is
    passed, up to the saved second."""
    workload = spiky(seed)
    limits = core.storage_limits(storage)[0]
    volume = PlannedDemand(workload).make_member_demand(storage, len(Storage.parse(storage).members))
    column, allowed = (
        ("hdd_mib_s", limits["throughput_bytes_s"] / 2**20) if limits["byte_burst"] else ("iops", limits["iops"])
    )
    excess = ((volume[column] / allowed - 1).clip(lower_bound=0.0) * volume["duration_s"]).sum()
    factor = 1.0 if excess > 0 else volume[column].max() / allowed
    run = core.simulate(storage, workload.to_core(), form="interval", interval_s=60.0)["summary"]
    # The saved second forgives an excess of one second's worth; the IOPS or the MiB/s of another
    # limit may still bind.
    if excess > 1.0:
        assert run["throttled_s"] > 0, f"seed {seed}"
    elif factor < 1.0 and not limits["byte_burst"]:
        assert all(cap != "volume-iops" for cap, _ in run["throttled_by_s"]), f"seed {seed}"
