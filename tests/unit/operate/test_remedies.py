"""Remedies can be carried out: one modification, never smaller, never beyond the instance, with its
cost and how to undo it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from doctored import evidence

from headrace.base.storage import Storage
from headrace.errors import HeadraceError
from headrace.observe.evidence.limits import get_holding_limits
from headrace.operate.doctor.advising.remedies import find_instance_change, find_volume_change
from headrace.operate.doctor.signals import compute_signals
from headrace.operate.doctor.thresholds import Thresholds


def volume(storage: str, iops: float, mib_s: float, instance: str | None = None, state: str = ""):
    figures = {"read_iops": iops, "write_iops": 0.0, "charged_iops": iops, "read_mib_s": mib_s, "write_mib_s": 0.0}
    collected = evidence(figures, storage=storage, instance=instance, state=state)
    return compute_signals(collected, Thresholds()).volumes[0]


def test_what_is_bought():
    change = find_volume_change(volume("gp3:500", 3_000, 46.9), "volume-iops", 1.25 * 2.0, "us-east-1", None)
    assert change is not None and change.storage == "gp3:500:7500"
    # 4,500 IOPS more than are included at 0.005 USD.
    assert change.remedy.usd_month == pytest.approx(22.5) and "--iops 3000" in change.remedy.undo
    assert "4 modifications" in change.remedy.rules or "modifications of a volume" in change.remedy.rules


def test_lines_to_paste_name_the_volume_where_it_is_known():
    new_volume = volume("gp3:500", 3_000, 46.9)
    for reference, answer in ((None, "VOLUME_ID"), ("vol-0e67", "vol-0e67")):
        new_volume.facts = replace(new_volume.facts, id=reference)
        change = find_volume_change(new_volume, "volume-iops", 2.5, "us-east-1", None)
        assert change is not None
        for line in (*change.remedy.lines, change.remedy.undo):
            assert f"--volume-id {answer} " in line


def test_gp2_without_credits_becomes_gp3():
    change = find_volume_change(volume("gp2:100", 300, 4.7), "volume-credits", 1.25 * 3, "us-east-1", None)
    assert change is not None and change.storage is not None and change.storage.startswith("gp3:100")
    assert change.remedy.usd_month is not None and change.remedy.usd_month < 0


@pytest.mark.parametrize(
    ("today", "iops", "mib_s", "subject", "expected", "more"),
    [
        # Round figures of a plan (planner.candidates). Prices of us-east-1: gp3 0.08 a GiB, 0.005 an IOPS above 3,000, 0.04 a MiB/s above 125; gp2 0.10.
        ("gp3:500:3000:500", 3_000, 47, "volume-iops", "gp3:500:4500:500", 7.50),
        ("gp2:1000", 3_000, 47, "volume-iops", "gp3:1000:4500", 80 + 7.5 - 100),
        ("gp3:500:16000:250", 1_000, 250, "volume-throughput", "gp3:500:16000:380", 5.2),
        ("gp2:500", 1_500, 23, "volume-credits", "gp3:500", 40 - 50),
        # io2 has 1,000 IOPS a GiB since 2023-11 (data/volumes/io2.toml): 120 GiB, of 0.125 USD, carry 120,000, of
        # which those above 64,000 cost 0.03185 (data/prices_volumes.csv).
        ("io2:90:80000", 80_000, 625, "volume-iops", "io2:120:120000", 30 * 0.125 + 40_000 * 0.03185),
    ],
)
def test_no_change_takes_away_what_was_bought(today, iops, mib_s, subject, expected, more):
    change = find_volume_change(volume(today, iops, mib_s), subject, 1.5, "us-east-1", None)
    assert change is not None and change.storage == expected
    assert change.remedy.usd_month == pytest.approx(more)


def test_what_came_with_the_type_is_bought_as_far_as_it_was_used():
    """gp2:300 may give 250 MiB/s, and 38 were seen at the most: 125, which a gp3 includes, are enough.
    900 IOPS are its baseline."""
    change = find_volume_change(volume("gp2:300", 900, 38), "volume-credits", 1.5, "us-east-1", None)
    assert change is not None and change.storage == "gp3:300"
    # 0.08 USD a GiB of gp3, 0.10 of gp2.
    assert change.remedy.usd_month == pytest.approx(24.0 - 30.0) and "38 MiB/s" in change.remedy.cost
    used = volume("gp2:300", 900, 38)
    used.most_bytes_s = 190 * 2**20  # once, in all that was seen
    change = find_volume_change(used, "volume-credits", 1.5, "us-east-1", None)
    # 1.25 times that are 237.5: the next round figure (planner.candidates.MIB_S_STEPS).
    assert change is not None and change.storage == "gp3:300:3000:240"


def test_nothing_while_it_is_optimizing():
    assert (
        find_volume_change(volume("gp3:500", 3_000, 40, state="optimizing"), "volume-iops", 2.0, "us-east-1", None)
        is None
    )


def test_never_more_than_the_instance_gives():
    change = find_volume_change(volume("gp3:500", 3_000, 20, "m4.large"), "volume-iops", 20.0, "us-east-1", None)
    assert change is not None and change.storage is not None
    assert get_holding_limits(change.storage).iops <= 3_700  # m4.large: 3,600, in steps of 100


def test_the_instance_is_changed_where_it_binds():
    change = find_instance_change(
        volume("gp3:500:6000", 3_600, 20, "m4.large"), "instance-iops", 1.5, "us-east-1", None
    )
    assert change is not None and change.instance == "m4.xlarge" and "larger volume does not help" in change.remedy.what
    assert "too small" not in change.remedy.what
    # The largest m4 carries 65,000 I/Os and 1,192 MiB a second (data/instances.csv), the next larger one 6,000 and 89.
    for subject, words in (
        ("instance-iops", "72,000 I/Os a second are needed, no m4 carries them for good, and m4.xlarge carries 6,000"),
        ("instance-throughput", "2,000 MiB/s are needed, no m4 carries them for good, and m4.xlarge carries 89"),
    ):
        small = find_instance_change(volume("gp3:500:6000", 3_600, 100, "m4.large"), subject, 20.0, "us-east-1", None)
        assert small is not None and small.instance == "m4.xlarge"
        assert small.remedy.what.endswith(f". It is too small: {words}")


def test_every_advice_can_be_taken():
    """Random volumes at random limits: what is advised is sold, not smaller, better at the limit, of
    the same layout, and has a price and an undo."""
    chance, answer = random.Random(3), 0
    for _ in range(150):
        kind = chance.choice(("gp2", "gp3", "io1", "io2", "st1"))
        size = chance.choice((20, 100, 500, 2_000, 10_000)) if kind != "st1" else chance.choice((500, 2_000))
        bought = {"io1": f":{min(50 * size, 2_000)}", "io2": f":{min(500 * size, 3_000)}"}.get(kind, "")
        text = chance.choice(("", "", "2x")) + f"{kind}:{size}{bought}"
        limits = get_holding_limits(text, chance.choice((None, "m5.4xlarge", "m4.large")))
        iops = limits.iops if kind != "st1" else 100.0
        new_volume = volume(text, iops, iops * 16 / 1024, limits.instance)
        subject = chance.choice(("volume-iops", "volume-throughput", "volume-credits"))
        try:
            change = find_volume_change(new_volume, subject, chance.uniform(1.1, 8.0), "us-east-1", None)
        except HeadraceError as error:
            pytest.fail(f"{text}: {error}")
        if change is None:
            continue
        answer += 1
        before, after = Storage.parse(text), Storage.parse(change.storage or "")
        assert after.list_limits() and (after.level, len(after.members)) == (before.level, len(before.members))
        assert all(new.size_gib >= old.size_gib for old, new in zip(before.members, after.members, strict=True))
        assert change.remedy.lines and change.remedy.undo and change.remedy.usd_month is not None
        then = get_holding_limits(after.text)
        assert then.burst_iops > limits.burst_iops or then.bytes_s > limits.bytes_s or then.iops > limits.iops
    assert answer > 60
