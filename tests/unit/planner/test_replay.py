"""Recommendations replayed request by request: none misses its goal on latency where every request is
simulated. Seeded: a failing day is named by its number.

More of them with HEADRACE_REPLAYS=200 (`make soak`).
"""

from __future__ import annotations

import os
import random
from typing import cast

import pytest
from planner_cases import NO_ARRAYS, recorded, steady

import headrace
from headrace.planner import plan
from headrace.planner.engine import PlanEngine
from headrace.planner.question import PlanSettings, make_question
from headrace.planner.replay import WinnerReplay
from headrace.planner.result import Replayed

DAYS = range(int(os.environ.get("HEADRACE_REPLAYS", "4")))
# Seeds of the check, none of them one that the plan looked at.
SEEDS = (11, 12)


def drawn(seed: int):
    """Half an hour of minutes with a spike, and goals that leave little room: no head-room, a p99 of
    a few ms, waits allowed or not."""
    dice = random.Random(seed)
    peak = 10 ** dice.uniform(2.5, 3.9)
    minutes = [dice.uniform(0.3, 0.8) for _ in range(30)]
    start = dice.randrange(5, 22)
    minutes[start : start + 6] = [1.0] * 6
    share = dice.random()
    kib = {"read_kib": dice.choice([4.0, 16.0, 64.0]), "write_kib": dice.choice([8.0, 16.0, 128.0])}
    day = recorded(
        [peak * share * minute for minute in minutes],
        [peak * (1 - share) * minute for minute in minutes],
        interval_s=60.0,
        size_gib=round(10 ** dice.uniform(1.0, 3.0)),
        **kib,
    )
    goals = [f"p99_ms<={dice.choice([3, 5, 10, 20, 50])}", f"headroom_percent>={dice.choice([0, 0, 5, 20])}"]
    if dice.random() < 0.5:
        goals.append("throttled_min<=1000")
        goals = [goal for goal in goals if not goal.startswith("headroom")]
    settings = {"max_volumes": 1, "exclude": ["raid0", "raid10", "standard"], "free_percent": 0}
    return day, {"goals": goals, **settings}


@pytest.mark.parametrize("seed", DAYS)
def test_no_recommendation_misses_its_goal_request_by_request(seed):
    day, settings = drawn(seed)
    best = plan(day, **settings).recommended
    if best is None:
        return
    p99 = float(settings["goals"][0].partition("=")[2])
    for other in SEEDS:
        summary = headrace.simulate(day, best.storage, form="events", seed=other).summary
        # A first day begins with full credits; what the settled day costs more is the plan's affair.
        # One run's p99 scatters by chance: 10 % is what seeds differ by where requests wait in clumps
        # (docs/semantics.md, near a cap); elsewhere it is far below the goal.
        assert summary["worst_p99_ms"] <= 1.1 * p99, (seed, best.storage, settings["goals"])


@pytest.mark.parametrize(
    ("seed", "below", "above"), [(185, "gp3:670:5800", "gp3:670:5900"), (143, "gp3:34:5900", "gp3:34:6000")]
)
def test_a_saved_second_that_ends_in_few_runs_is_stepped_above(seed, below, above):
    """The mean meets the goal, but one run in five does not: a replay of five seeds may miss that."""
    day, settings = drawn(seed)
    answer = plan(day, **settings)
    assert answer.recommended is not None
    assert (answer.recommended.storage, answer.search.stepped_up) == (above, [below])
    summary = headrace.simulate(day, below, form="interval").summary
    limit_ms = float(settings["goals"][0].partition("=")[2])
    assert summary["worst_p99_ms"] <= limit_ms < summary["unlucky"]["worst_p99_ms"]


def test_the_unluckiest_run_near_a_cap_judges_and_is_explained():
    """2,940 of 3,000 IOPS: W is exponential with a mean of 2,940 / (2 x 60) = 24.5 requests, 8 ms, once the second is
    used up; the largest of 64 walks exceeds their mean."""
    day = steady(reads_per_s=1_470, writes_per_s=1_470, seconds=1_200, arrivals="poisson")
    settings = {"exclude": NO_ARRAYS, "free_percent": 0}

    def planned(limit_ms: int):
        answer = plan(day, goals=[f"p99_ms<={limit_ms}", "throttled_min<=1000"], **settings)
        assert answer.recommended is not None and answer.recommended.replayed is not None
        return answer, answer.recommended

    answer, choice = planned(100)
    mean_ms, unlucky_ms = choice.metrics["p99_ms"], choice.replayed.unlucky["p99_ms"]
    assert choice.storage == "gp3:500" and mean_ms < unlucky_ms <= 100
    assert any(
        "ms in the unluckiest of 64, by which the goal is judged; in the mean" in line
        for line in answer.choices.explain
    )
    # A goal between the two is one that the mean alone would meet.
    answer, choice = planned(round((mean_ms + unlucky_ms) / 2))
    assert answer.search.stepped_up[:1] == ["gp3:500"] and choice.storage != "gp3:500"


def test_what_the_replay_refutes_is_not_recommended_and_the_next_step_is():
    engine = PlanEngine(
        make_question(
            steady(seconds=600), PlanSettings(goals=["headroom_percent>=0"], exclude=NO_ARRAYS, free_percent=0)
        )
    )
    candidates = []

    class Stern:
        """Says of everything below 3,300 IOPS and of all gp2 that it misses."""

        replays = {}

        def replay(self, candidate):
            candidates.append(candidate[0])
            low = "gp2" in candidate[0] or candidate[0] in ("gp3:500", "gp3:500:3100", "gp3:500:3200")
            words = ("I/O p99 of the worst 5 min 24 ms against 20 ms",) if low else ()
            replayed = Replayed({"p99_ms": 1.0}, 1, 0.0, words, "volume-iops")
            return self.replays.setdefault(candidate, replayed)

    engine.replay = cast(WinnerReplay, Stern())
    reply = engine.answer()
    assert candidates[:1] == ["gp3:500"] and reply.recommended.storage == reply.winner.storage == "gp3:500:3300"
    assert reply.search.stepped_up == ["gp3:500", "gp3:500:3100", "gp3:500:3200"]
    assert reply.recommended.replayed.misses == () and reply.recommended.meets_goals
    assert all(choice.storage not in reply.search.stepped_up for choice in reply.choices.winners)


def test_nothing_is_recommended_that_was_not_replayed_however_many_steps_it_took(monkeypatch):
    monkeypatch.setattr("headrace.planner.engine.MOST_STEPS_UP", 3)
    engine = PlanEngine(
        make_question(
            steady(seconds=600), PlanSettings(goals=["headroom_percent>=0"], exclude=NO_ARRAYS, free_percent=0)
        )
    )

    class Sterner:
        """Says of all gp3 that it misses: its steps are more than are taken."""

        replays = {}

        def replay(self, candidate):
            words = ("I/O p99 of the worst 5 min 24 ms against 20 ms",) if "gp3" in candidate[0] else ()
            replayed = Replayed({"p99_ms": 1.0}, 1, 0.0, words, "volume-iops")
            return self.replays.setdefault(candidate, replayed)

    engine.replay = cast(WinnerReplay, Sterner())
    reply = engine.answer()
    assert reply.recommended is not None and reply.recommended.volume_type != "gp3"
    assert reply.recommended.replayed is not None and reply.recommended.meets_goals
    assert all(choice.volume_type != "gp3" for choice in reply.choices.winners)
    [words] = [note for note in reply.doubts.caveats if "steps up" in note]
    assert words.startswith("Above gp3:500:")


def test_the_replay_takes_the_worst_minutes_and_not_the_day():
    day = recorded([200.0] * 700 + [2_400.0] * 6 + [200.0] * 734, interval_s=60.0, size_gib=100, name="spike")
    answer = plan(day, exclude=NO_ARRAYS, goals=["p99_ms<=20"], max_volumes=1)
    replayed = answer.recommended.replayed
    # The end of six minutes of 2,400 I/Os a second, with a fifth more: nothing waits, so 150 s are enough.
    assert replayed.requests == pytest.approx(2_400 * 1.2 * 150, abs=1)
    assert replayed.metrics["p99_ms"] <= 20 and replayed.headroom_percent == 20
    assert any("replayed request by request, with 20 % more demand" in line for line in answer.choices.explain)
