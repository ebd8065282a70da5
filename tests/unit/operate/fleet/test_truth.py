"""A fleet of closed clients whose right answers are known (benchmarks/closed_fleet.py), from the files of the AWS CLI to the
answers. 40 volumes; with `FLEET` of 200 or more 300 of them (`make soak`)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from closed_fleet import SERVICE_S, Made, fleet_of, served, write_fleet
from headrace.base.storage import Storage
from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer, rank_answers
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.inventory import read_inventory
from headrace.operate.fleet.planning import plan_fleet
from headrace.report.fleet import words

SEED = 4_711
SHARE = 1.0 if int(os.environ.get("FLEET", "24")) >= 200 else 0.1
DAYS = 8
# The bar of this fleet: 97 of 100 volumes get the right action, and none one that hurts.
LEAST_RIGHT = 0.97


@dataclass(frozen=True)
class Judged:
    answers: list[VolumeAnswer]
    of_volume: dict[str, VolumeAnswer]
    fleet: list[Made]
    notes: list[str]


@pytest.fixture(scope="module")
def judged(tmp_path_factory) -> Judged:
    folder: Path = tmp_path_factory.mktemp("truth")
    fleet = write_fleet(folder, SEED, SHARE, DAYS)
    points = folder / "points.parquet"
    *_, notes = import_points(sorted(folder.glob("metrics-*.gz")), points, period_s=300.0)
    inventory = read_inventory([folder / "volumes.json", folder / "instances.json"])
    answers = rank_answers(plan_fleet(inventory, points, FleetSettings(fortnights=3), folder / "answers.parquet"))
    return Judged(answers, {volume: answer for answer in answers for volume in answer.volumes}, fleet, notes)


def test_nearly_all_volumes_get_the_right_action(judged):
    wrong = [
        (entry.group, answer.verdict, answer.today, answer.proposed, answer.why)
        for entry in judged.fleet
        if (answer := judged.of_volume[entry.id]).verdict not in entry.right or entry.words not in answer.why
    ]
    assert len(wrong) <= (1 - LEAST_RIGHT) * len(judged.fleet), (SEED, wrong)


def test_no_action_hurts(judged):
    """Clients on the advised volumes, by the queue simulation that made the fleet, get as much as
    today, and wait no longer than today or 5 ms, the goal."""
    for at, entry in enumerate(judged.fleet):
        answer = judged.of_volume[entry.id]
        if not answer.proposed:
            continue
        member = Storage.parse(answer.proposed).members[0]
        days, seed = entry.days or DAYS, SEED * 10_007 + at
        today = served(entry, days, seed)
        then = served(entry, days, seed, (member.type, member.size_gib, member.iops, member.mib_s))
        # An I/O of gp3 takes 0.3 to 0.5 ms more than one of io1 or io2, and each cycle of a client that much longer; besides it
        # 0.5 % for the chance in the time of an I/O (3 % of 0.8 ms, of 5 ms or more).
        longer = max(0.0, SERVICE_S[member.type] - SERVICE_S[entry.kind]) / (entry.think_s + SERVICE_S[entry.kind])
        assert then["iops"].sum() >= 0.995 / (1 + longer) * today["iops"].sum(), (SEED, entry, answer)
        waited = {name: run["queue"].sum() / run["iops"].sum() for name, run in (("today", today), ("then", then))}
        assert waited["then"] <= max(1.02 * waited["today"], 0.005), (SEED, entry, answer)
        assert member.size_gib >= entry.gib


# USD a month in us-east-1: GiB, IOPS and MiB/s beyond what is included (AWS's EBS pricing page).
LIST = {
    "gp2": (0.10, 0.0, 0, 0.0, 0),
    "gp3": (0.08, 0.005, 3_000, 0.04, 125),
    "io1": (0.125, 0.065, 0, 0.0, 0),
    "io2": (0.125, 0.065, 0, 0.0, 0),
    "st1": (0.045, 0.0, 0, 0.0, 0),
}


def list_usd(text: str) -> float:
    """A bill by hand; of io2 up to 32,000 IOPS."""
    total = 0.0
    for member in Storage.parse(text).members:
        gib, iops, free_iops, mib_s, free_mib_s = LIST[member.type]
        total += gib * member.size_gib + iops * max(0, (member.iops or 0) - free_iops)
        total += mib_s * max(0, (member.mib_s or 0) - free_mib_s)
    return total


def test_savings_are_right_to_the_cent(judged):
    for answer in judged.answers:
        if answer.usd_today is None:
            continue
        assert answer.usd_today == pytest.approx(list_usd(answer.today), abs=0.005), answer  # half a cent
        then = list_usd(answer.proposed) if answer.proposed else 0.0
        if answer.proposed or answer.verdict == "unused":
            assert answer.saves_usd == pytest.approx(list_usd(answer.today) - then, abs=0.005), answer


def test_volumes_at_their_limit_say_what_waits_and_get_more(judged):
    for element in (element for element in judged.fleet if element.group.startswith("saturated")):
        answer = judged.of_volume[element.id]
        member = Storage.parse(answer.proposed).members[0]
        assert (member.iops or 3_000) > {"gp3": 3_000, "gp2": 300}[element.kind], answer
        if "VolumeQueueLength" not in element.lacks:
            assert "I/Os waited there" in answer.why, answer.why


def test_a_metric_that_is_not_there_is_named(judged):
    lacking = [judged.of_volume[entry.id] for entry in judged.fleet if entry.group == "lacks a metric"]
    assert all(entry.why.endswith("has points, but none of VolumeWriteBytes") for entry in lacking), lacking
    assert any("has no VolumeWriteBytes" in note for note in judged.notes)
    assert not any("CloudWatch's checks" in answer.why for answer in judged.answers)


def test_unused_volumes_come_first_and_the_less_durable_last(judged):
    verdicts = [answer.verdict for answer in judged.answers]
    unused = verdicts.count("unused")
    assert verdicts[:unused] == ["unused"] * unused and unused == sum(
        entry.right == ("unused",) for entry in judged.fleet
    )
    durable = [bool(answer.durability) for answer in judged.answers if answer.verdict == "change"]
    assert durable == sorted(durable) and any(durable)
    io2 = next(answer for answer in judged.answers if answer.durability)
    assert io2.durability == "99.999 % -> 99.8 to 99.9 %" and "99.999 %" in io2.why
    assert words.describe_p99(words.AnswerGroup((io2,))).startswith("0.5")


def test_an_instance_that_binds_is_named(judged):
    for member in (member for member in judged.fleet if member.group == "instance-bound"):
        answer = judged.of_volume[member.id]
        assert answer.bound_by == f"i-{member.instance} (m5.large)" and "3,600 IOPS" in answer.why


def test_equal_changes_are_one_row_with_names(judged):
    groups = words.group_answers(judged.answers, "change")
    alike = [group for group in groups if group.first.today == "gp2:1000"]
    count = sum(entry.group == "over gp2" for entry in judged.fleet)
    assert len(alike) == 1 and len(alike[0].answers) == count
    (row,) = words.list_rows(alike)
    assert row[0] == count and "over-gp2-" in row[1] and row[3] == "gp3:1000"
    assert row[6] == f"{20.0 * count:,.2f}"  # 0.02 USD a GiB between gp2 and gp3


def test_the_same_seed_makes_the_same_fleet():
    assert [entry.think_s for entry in fleet_of(1, 0.1)] == [entry.think_s for entry in fleet_of(1, 0.1)]
    assert len(fleet_of(1)) == 300
