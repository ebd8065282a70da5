"""Trusted Advisor's published checks, at their thresholds, and on a seeded fleet against a naive
reference."""

from __future__ import annotations

import random
import statistics

import pytest

from headrace.observe.evidence.limits import get_holding_limits
from headrace.observe.evidence.model import SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.operate.doctor.trusted_advisor import (
    INSTANCE,
    MAGNETIC,
    NOT_OPTIMIZED,
    OVER,
    SNAPSHOTS,
    UNDER,
    UNUSED,
    AdvisedVolume,
    check_volume,
    make_advised_volume,
    read_rules,
)  # fmt: skip


def result(check: str, **given) -> str:
    volume = AdvisedVolume(**({"volume": "vol-1", "volume_type": "gp2"} | given))
    return next(advice.result for advice in check_volume(volume) if advice.check_id == check)


def steady(level: float, varies: float = 0.0) -> list[float]:
    """A day around a median, whose furthest point lies `varies` of it away."""
    return [level] * 10 + [level * (1 + varies)]


@pytest.mark.parametrize(
    ("level", "varies", "busy", "expected"),
    [
        (95.1, 0.0, 7, "yellow"),
        (95.0, 0.0, 7, "ok"),  # "above 95"
        (120.0, 0.099, 7, "yellow"),
        (120.0, 0.101, 7, "ok"),
        (120.0, 0.0, 6, "ok"),
        (120.0, 0.0, 14, "yellow"),
    ],
)
def test_magnetic(level, varies, busy, expected):
    days = [steady(level, varies)] * busy + [steady(10.0)] * (14 - busy)
    assert result(MAGNETIC, volume_type="standard", days=days) == expected
    assert result(MAGNETIC, volume_type="gp2", days=days) == "ok"
    assert result(MAGNETIC, volume_type="standard", days=days, can_be_optimized=False) == "ok"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"attached": False}, "yellow"),
        ({"days": [[0.99]] * 7}, "yellow"),
        ({"days": [[0.99]] * 6 + [[1.0]]}, "ok"),
        ({"days": [[0.0]] * 6}, "not known"),
        ({"days": [[0.0]] * 7, "boot": True}, "ok"),
        ({"attached": False, "boot": True}, "ok"),
    ],
)
def test_unused(given, expected):
    assert result(UNUSED, **given) == expected


@pytest.mark.parametrize(
    ("kind", "can", "optimized", "expected"),
    [("io1", True, False, "yellow"), ("io2", True, False, "yellow"), ("io1", True, True, "ok"), ("io1", False, False, "ok"), ("gp3", True, False, "ok")],
)  # fmt: skip
def test_provisioned_iops_on_an_instance_that_is_not_optimized(kind, can, optimized, expected):
    assert result(NOT_OPTIMIZED, volume_type=kind, can_be_optimized=can, optimized=optimized) == expected


@pytest.mark.parametrize(
    ("above", "level", "expected"), [(145, 95.1, "yellow"), (144, 95.1, "ok"), (288, 95.0, "ok"), (288, 95.1, "yellow")]
)
def test_throughput_of_the_instance(above, level, expected):
    # A UTC day has 288 periods of five minutes: more than half are 145.
    assert result(INSTANCE, mib_s_periods=[level] * above + [10.0] * (288 - above), instance_mib_s=100.0) == expected


@pytest.mark.parametrize(
    ("age", "expected"), [(7.0, "ok"), (7.1, "yellow"), (30.0, "yellow"), (30.1, "red"), (None, "red")]
)
def test_snapshots(age, expected):
    assert result(SNAPSHOTS, snapshot_age_days=age, snapshots_known=True) == expected
    assert result(SNAPSHOTS, snapshot_age_days=age) == "not known"


def test_what_is_not_published_is_not_computed():
    assert {result(OVER), result(UNDER)} == {"not known"}


def test_the_table_of_facts():
    result = read_rules()
    assert list(result) == [MAGNETIC, UNUSED, NOT_OPTIMIZED, INSTANCE, OVER, UNDER, SNAPSHOTS]
    assert result[MAGNETIC].status == "withdrawn" and result[MAGNETIC].until == "2024-05-15"
    for rule in result.values():
        assert rule.as_of and rule.rule and (rule.source or rule.confirmed == "false"), rule.check_id


def test_a_seeded_fleet():
    """A thousand volumes, each judged again by a reference written from the rules' text alone."""
    chance, seen = random.Random(11), set()
    for number in range(1_000):
        level = chance.choice((0.0, 0.9, 1.1, 94.9, 95.0, 95.1, 300.0))
        varies = chance.choice((0.0, 0.05, 0.099, 0.101, 0.3))
        busy = chance.choice((5, 6, 7, 8, 14))
        days = [steady(level, varies)] * busy + [steady(0.0)] * (14 - busy)
        chance.shuffle(days)
        periods = [chance.choice((94.0, 96.0)) for _ in range(288)]
        volume = AdvisedVolume(
            f"vol-{number}", chance.choice(("standard", "gp2", "io1")), attached=chance.random() < 0.9, boot=chance.random() < 0.1,
            can_be_optimized=chance.random() < 0.8, optimized=chance.random() < 0.7, days=days, mib_s_periods=periods, instance_mib_s=100.0,
        )  # fmt: skip
        results = {advice.check_id: advice.result for advice in check_volume(volume)}
        over = sum(
            1
            for day in days
            if statistics.median(day) > 95 and max(day) - statistics.median(day) < 0.1 * statistics.median(day)
        )
        magnetic = volume.volume_type == "standard" and volume.can_be_optimized and over >= 7
        idle = not volume.boot and (not volume.attached or all(sum(day) / len(day) < 1 for day in days[-7:]))
        assert results[MAGNETIC] == ("yellow" if magnetic else "ok")
        assert results[UNUSED] == ("yellow" if idle else "ok")
        assert results[NOT_OPTIMIZED] == (
            "yellow"
            if volume.volume_type == "io1" and volume.attached and volume.can_be_optimized and not volume.optimized
            else "ok"
        )
        assert results[INSTANCE] == ("yellow" if periods.count(96.0) > 144 else "ok")
        seen |= set(results.items())
    assert {
        (MAGNETIC, "yellow"),
        (UNUSED, "yellow"),
        (NOT_OPTIMIZED, "yellow"),
        (INSTANCE, "yellow"),
        (INSTANCE, "ok"),
    } <= seen


@pytest.mark.parametrize(("share", "expected"), [(0.49, "yellow"), (0.47, "ok")])
def test_the_throughput_of_an_instance_is_that_of_all_its_volumes(share, expected):
    """Two volumes at 49 % of the instance's maximum each are at 98 %: above 95. Members of an array
    are not counted beside it, and the kind of an array is that of its members."""
    limits = get_holding_limits("2xio2:100:3000", "m5.large", None)
    mib_s = share * limits.instance_burst_bytes_s / 2**20
    row = {"read_iops": 10.0, "write_iops": 0.0, "read_mib_s": mib_s, "write_mib_s": 0.0}
    volumes = (
        SeenVolume("array", "2xio2:100:3000", None, limits),
        SeenVolume("array/0", "io2:100:3000", None, None, role="member"),
        SeenVolume("log", "gp3:100", None, get_holding_limits("gp3:100", "m5.large", None), role="log"),
    )
    facts = SourceFacts("aws:x", "cloudwatch", 60.0, "UTC", volumes, None, None, "m5.large", None, False, ())
    day = 1_790_035_200.0  # midnight, UTC
    assert day % 86_400 == 0
    ticks = [Tick(day + 60.0 * minute, 60.0, {volume.name: dict(row) for volume in volumes}) for minute in range(1_440)]
    evidence = collect_evidence(facts, ticks)
    result = make_advised_volume(evidence.volumes[0], evidence)
    assert result.volume_type == "io2" and len(result.mib_s_periods) == 288 and len(result.days) == 1
    assert result.mib_s_periods[0] == pytest.approx(2 * mib_s)
    assert next(entry.result for entry in check_volume(result) if entry.check_id == INSTANCE) == expected
