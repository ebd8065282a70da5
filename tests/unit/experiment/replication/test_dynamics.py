"""Lag from positions: against every transaction's own time."""

from __future__ import annotations

import contextlib
import random
from typing import cast

import pytest

import replica_plans
from headrace.bench import SysbenchOltp
from headrace.errors import CouldNotRun, InputError
from headrace.experiment import DataSet
from headrace.experiment.replication.cell import ReplicaCell, ReplicaLoad
from headrace.experiment.replication.counters import VOLUME, sum_volume_totals
from headrace.experiment.replication.dynamics import Course, Look, compute_lags
from headrace.lab.calls import VolumeTotals
from headrace.mysql.statements import ask_named_safely, run


def cell(**more) -> ReplicaCell:
    load = SysbenchOltp("oltp_write_only", 1, 1000, "uniform")
    return ReplicaCell(
        **(
            {
                "words": "a",
                "load": ReplicaLoad("l", DataSet("d", load, 0.1), load, 4, 5),
                "storage": "gp3:20",
                "cache_mib": 64,
            }
            | more
        )
    )


def looked(written_at: list[float], applied_at: list[float], every_s: float, until_s: float) -> list[Look]:
    """Returns the looks at a replica, every `every_s` seconds, from the times at which each
    transaction was written and applied."""
    looks, at = [], 0.0
    while at < until_s:
        looks.append(Look(at, sum(entry <= at for entry in written_at), sum(entry <= at for entry in applied_at)))
        at += every_s
    return looks


@pytest.mark.parametrize("seed", range(20))
def test_lag_is_the_age_of_the_last_transaction_applied(seed):
    """The truth: when the first transaction that is missing was written."""
    chance = random.Random(seed)
    written, applied, at, free = [], [], 0.0, 0.0
    slow = chance.uniform(0.5, 3.0)
    for _ in range(400):
        at += chance.expovariate(100)
        free = max(free, at) + chance.expovariate(100) * slow
        written.append(at)
        applied.append(free)
    looks = looked(written, applied, 0.1, free + 1)
    for look, (_, lag) in zip(looks, compute_lags(looks), strict=True):
        missing = [entry for entry, done in zip(written, applied, strict=True) if done > look.at_s >= entry]
        truth = look.at_s - min(missing) if missing else 0.0
        # Between two looks 0.1 s apart, and the gap to the next transaction (10 ms on average).
        assert lag == pytest.approx(truth, abs=0.25)


def test_a_constant_load_that_ends_is_as_the_formula_says():
    """lambda 200/s for 10 s, mu 100/s: lag at the end 10 (1 - 1/2) = 5 s; the backlog of 1,000 drains
    in 10 s, and the lag is 10 s just before it is gone: T (lambda / mu - 1)."""
    looks = [Look(t / 10, min(20 * t, 2000), min(10 * t, 2000)) for t in range(0, 210)]
    lag = dict(compute_lags(looks))
    assert lag[10.0] == pytest.approx(5.0, abs=0.01)
    assert max(lag.values()) == pytest.approx(10.0, abs=0.11)
    assert lag[20.0] == 0.0


def test_a_course_is_what_its_looks_say():
    """The constant load above as looks: everything else follows from them."""
    looks = tuple(Look(t / 10, min(20 * t, 2000), min(10 * t, 2000)) for t in range(0, 210))
    course = Course(cell(), looks, (0.0, 0.0))
    assert (course.load_s, course.rate) == (10.0, 200.0)
    assert course.onset_s == pytest.approx(2.0, abs=0.11)  # t (1 - 1/2) = 1 s
    assert course.lag_at_end_s == pytest.approx(5.0, abs=0.01)
    assert course.catch_up_s == 10.0
    assert course.peak == (pytest.approx(20.0, abs=0.11), pytest.approx(10.0, abs=0.11))


class Refusing:
    """A connection whose server repeats the statement in its error."""

    def __init__(self, text: str) -> None:
        self.text = text

    def cursor(self, *_):
        return contextlib.nullcontext(self)

    def execute(self, statement: str, _parameters: object) -> None:
        raise RuntimeError(1064, self.text.format(statement))


@pytest.mark.parametrize("ask", [ask_named_safely, lambda connection, text: run(connection, (text,))])
def test_errors_repeat_no_password(ask):
    statement = "CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PASSWORD = 'hunter2'"
    with pytest.raises(CouldNotRun) as refused:
        ask(Refusing("You have an error in your SQL syntax; use near '{}' at line 1"), statement)
    assert "hunter2" not in str(refused.value)
    assert "CHANGE MASTER TO" in str(refused.value)


def test_figures_of_a_volume_are_its_own():
    """An array counts once: its own row is there beside those of its members."""

    def row(volume: str, member: int | None, reads: int) -> VolumeTotals:
        named = {"volume": volume, "member": member, "reads": reads}
        return cast("VolumeTotals", dict.fromkeys(VOLUME, 1.5e-3) | named)

    rows = [row("vol-1", None, 12), row("vol-1", 0, 5), row("vol-1", 1, 7), row("vol-12", None, 100)]
    result = sum_volume_totals(rows, {"vol-1"})
    assert (result["reads"], result["write_s"]) == (12.0, 1.5e-3)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"mode": "fast"}, "mode = 'fast'"),
        ({"workers": 4}, "4 workers, serial"),
        ({"workers": 0, "mode": "optimistic"}, "0 workers"),
        ({"workers": 100_000, "mode": "optimistic"}, "workers"),
        ({"flush_log": 3}, "flush_log 3"),
        ({"sync_binlog": -1}, "negative"),
        ({"cache_mib": 1}, "cache of 1 MiB"),
        ({"storage": "gp9:20"}, "gp9"),
    ],
)
def test_cells_that_no_server_can_be(more, words):
    with pytest.raises(InputError, match=words):
        cell(**more)


def test_settings_say_what_the_cell_says():
    server_settings = cell(workers=4, mode="optimistic", flush_log=2, sync_binlog=0).server_settings
    assert (server_settings["slave-parallel-threads"], server_settings["slave-parallel-mode"]) == ("4", "optimistic")
    assert (server_settings["innodb-flush-log-at-trx-commit"], server_settings["sync-binlog"]) == ("2", "0")
    assert cell(binlog=False).server_settings["log-slave-updates"] == "OFF"
    assert cell(binlog=False).durable and not cell(sync_binlog=0).durable


# --- what the benchmark of planned replicas counts as held ---------------------------------------


def applied_at(rate: float, applies: float, load_s: int = 30) -> Course:
    """A load of `rate` on a replica that applies `applies` a second, looked at five times a second."""
    looks, at = [], 0.0
    while not looks or looks[-1].applied < rate * load_s:
        looks.append(Look(at, min(rate * at, rate * load_s), min(applies * at, rate * at, rate * load_s)))
        at += 0.2
    return Course(cell(), tuple(looks), (0.0, 0.0))


@pytest.mark.parametrize(
    ("applies", "lag_s", "state"),
    [
        (400.0, 1.0, True),
        (290.0, 2.0, False),  # a second behind after 30 s, two minutes after an hour
        (299.0, 1.0, True),  # a third of a percent cannot be told from chance
        (200.0, 5.0, False),
    ],
)
def test_a_replica_holds_if_it_applies_what_is_written(applies, lag_s, state):
    assert replica_plans.judged(applied_at(300.0, applies), lag_s)["held"] is state


def test_lag_beyond_the_bound_is_not_held_though_it_shrinks():
    """A pause of 3 s at the start, made up for afterwards."""
    looks = [Look(at / 5, 60.0 * at, 0.0 if at < 15 else min(60.0 * at, 180.0 * (at - 15))) for at in range(151)]
    answer = replica_plans.judged(Course(cell(), tuple(looks), (0.0, 0.0)), 2.0)
    assert answer["applied_share"] == pytest.approx(1.0) and answer["lag_s"] > 2.0 and not answer["held"]


def test_goals_come_from_the_seed_within_their_bounds():
    goals = replica_plans.goals()
    assert goals == replica_plans.goals()
    for goal in goals:
        low, high = replica_plans.RATES[goal.mode]
        assert low <= goal.tps <= high
