"""Counters of a server as rates: those that go back, what counts as a transaction, what the reader adds."""

from __future__ import annotations

import random

import pytest

from headrace.observe.evidence.counters import OWN_SELECT, OWN_SHOW, make_status_row


def test_counters_that_go_back_are_no_rates():
    notes = []
    row = make_status_row(
        {"com_commit": 50.0, "questions": 100.0}, {"com_commit": 10.0, "questions": 200.0}, 1.0, {}, 1, notes.append
    )
    assert row["tps"] is None and row["questions_per_s"] == 100.0 and "went back" in notes[0]


def test_rates_against_a_naive_reference():
    chance = random.Random(5)
    for _ in range(100):
        before = {
            name: float(chance.randrange(10**9))
            for name in ("com_commit", "questions", "innodb_log_waits", "innodb_row_lock_time")
        }
        now = {name: value + chance.randrange(10**6) for name, value in before.items()}
        took = chance.uniform(0.5, 3.0)
        row = make_status_row(before, now, took, {}, 1)
        rate = {name: (now[name] - before[name]) / took for name in now}
        assert row["log_waits_per_s"] == pytest.approx(rate["innodb_log_waits"])
        assert row["lock_waiters"] == pytest.approx(rate["innodb_row_lock_time"] / 1_000)
        if rate["com_commit"] >= 0.01 * rate["questions"]:
            assert row["tps"] == pytest.approx(rate["com_commit"])


def test_transactions_that_are_counted_as_such_go_before_commits_and_statements():
    before = {"transactions": 0.0, "com_commit": 0.0, "com_update": 0.0, "questions": 0.0}
    now = {"transactions": 80.0, "com_commit": 1.0, "com_update": 3.0, "questions": 90.0}
    assert make_status_row(before, now, 2.0, {}, 1)["tps"] == 40.0
    # The instrument is off: commits are more than a hundredth of the questions.
    assert make_status_row(before, now | {"transactions": 0.0}, 2.0, {}, 1)["tps"] == 0.5


def test_prepared_transactions_are_commits():
    before = {"transactions": 0.0, "com_commit": 0.0, "com_xa_commit": 0.0, "questions": 0.0}
    now = {"transactions": 3.0, "com_commit": 0.0, "com_xa_commit": 50.0, "questions": 200.0}
    assert make_status_row(before, now, 1.0, {}, 1)["tps"] == 50.0


def test_the_reader_is_not_counted():
    """A reading is a question, a SELECT and a transaction."""
    before = {"transactions": 7.0, "com_select": 7.0, "com_update": 0.0, "com_commit": 0.0, "questions": 7.0}
    idle = before | {"transactions": 8.0, "com_select": 8.0, "questions": 8.0}
    row = make_status_row(before, idle, 1.0, {}, 1, own=OWN_SELECT)
    assert row["tps"] == 0.0 and row["questions_per_s"] == 0.0
    assert make_status_row(before, idle, 1.0, {}, 1)["tps"] == 1.0  # a file, which somebody else wrote
    details = before | {"questions": 8.0, "com_select": 9.0}
    row = make_status_row(before, details, 1.0, {}, 1, own=OWN_SHOW)
    assert row["tps"] == 2.0 and row["questions_per_s"] == 0.0


def test_what_may_have_written():
    """Those with COMMIT that also wrote, or each statement that wrote."""
    start = {"com_commit": 0.0, "com_update": 0.0, "com_select": 0.0, "questions": 0.0}
    explicit = {"com_commit": 50.0, "com_update": 20.0, "com_select": 500.0, "questions": 600.0}
    assert make_status_row(start, explicit, 1.0, {}, 1)["writing_per_s"] == 20.0
    mixed = {"com_commit": 20.0, "com_update": 1_000.0, "com_select": 0.0, "questions": 1_020.0}
    assert make_status_row(start, mixed, 1.0, {}, 1)["writing_per_s"] == 1_000.0, "most are committed by themselves"
    counted = mixed | {"transactions": 500.0}
    assert make_status_row(start | {"transactions": 0.0}, counted, 1.0, {}, 1)["writing_per_s"] == 500.0
    alone = {"com_commit": 0.0, "com_update": 20.0, "com_select": 500.0, "questions": 520.0}
    assert make_status_row(start, alone, 1.0, {}, 1)["writing_per_s"] == 20.0


def test_checkpoint_age_of_both_families():
    maria = make_status_row({}, {"innodb_checkpoint_age": 75.0, "innodb_checkpoint_max_age": 100.0}, 1.0, {}, 1)
    assert maria["checkpoint_share"] == 0.75
    lsn = {"innodb_redo_log_current_lsn": 1_700.0, "innodb_redo_log_checkpoint_lsn": 1_000.0}
    mysql = make_status_row({}, lsn, 1.0, {"innodb_redo_log_capacity": "1600"}, 1)
    assert mysql["checkpoint_share"] == 700 / (7 / 8 * 1_600)
