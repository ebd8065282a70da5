"""A recording of a device alone: why was it slow at 10:00."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import pytest
from doctored import iostat

from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.recorded import diagnose_recording
from headrace.operate.evidence import SourceOptions, evidence_of


def day(chance, hot, level, kib=16.0, await_ms=26.5):
    """Five minutes: calm, and at a flat level in `hot`."""
    rows = []
    for second in range(300):
        at_limit = hot[0] <= second < hot[1]
        rows.append(
            (level, kib, await_ms + chance.random())
            if at_limit
            else (chance.uniform(60, 140), kib, chance.uniform(0.55, 0.7))
        )
    return rows


def told(path, **options):
    evidence, demand = evidence_of(str(path), SourceOptions(**options))
    return diagnose_recording(evidence, demand, Counsel())


def test_why_it_was_slow_at_ten(tmp_path):
    """Spent credits from 10:00 to 10:02: the window, its limit, and the model's latency beside the
    recorded."""
    found = told(iostat(tmp_path / "io.txt", day(random.Random(1), (120, 240), 300.0)), storage="gp2:100")
    assert (found.verdict, found.findings[0].subject) == ("binds", "volume-credits")
    (window,) = found.windows
    assert window.begins.startswith("2026-11-20 10:00:0") and window.ends.startswith("2026-11-20 10:02:0")
    assert window.rate == pytest.approx(300, abs=1) and window.recorded_ms == pytest.approx(27, abs=0.5)
    # Eight outstanding at 300 a second: 26.7 ms each, by Little's law.
    assert window.model_ms == pytest.approx(26.7, rel=0.05)
    assert "10:00" in found.headline and found.findings[0].remedies[0].storage.startswith("gp3:100")
    assert found.exit_code == 1


@pytest.mark.parametrize(
    ("storage", "level", "kib", "limit"),
    [
        ("io1:100:2000", 2_000.0, 16.0, "volume-iops"),
        ("gp3:500", 2_000.0, 64.0, "volume-throughput"),
        ("m4.large/gp3:500:6000:250", 3_600.0, 4.0, "instance-iops"),
        (None, 3_000.0, 16.0, "volume-iops"),
    ],
)
def test_the_limit_of_a_window(tmp_path, storage, level, kib, limit):
    path = iostat(tmp_path / "io.txt", day(random.Random(2), (100, 200), level, kib, 9.0))
    instance, _, volume = (storage or "").rpartition("/")
    found = told(path, storage=volume or None, instance=instance or None)
    assert (found.verdict, found.findings[0].subject) == ("binds", limit)


def test_a_calm_recording(tmp_path):
    found = told(iostat(tmp_path / "io.txt", day(random.Random(3), (0, 0), 0.0)), storage="gp2:100")
    assert (found.verdict, found.windows, found.exit_code) == ("fine", (), 0)
    assert "slowest point" in found.headline


def test_slow_at_many_rates_is_no_limit(tmp_path):
    chance = random.Random(4)
    rows = [(chance.uniform(100, 900), 16.0, chance.uniform(4, 30)) for _ in range(300)]
    found = told(iostat(tmp_path / "io.txt", rows), storage="gp3:500")
    # Slow below every limit of this storage: the volume's own trouble, whatever levels chance made.
    assert (found.verdict, found.windows) == ("degraded", ())


def test_cloudwatch_alone(tmp_path):
    """Five-minute points of a volume whose credits are gone for an hour."""
    start = datetime(2026, 11, 20, 9, 0)
    times = [(start + timedelta(minutes=5 * index)).isoformat() + "Z" for index in range(36)]
    reads = [90_000 if 12 <= index < 24 else 20_000 + 200 * index for index in range(36)]
    queues = [16.0 if count == 90_000 else 0.05 for count in reads]
    balance = [0.0 if count == 90_000 else 40.0 for count in reads]
    metrics = {
        "VolumeReadOps": reads,
        "VolumeWriteOps": [0] * 36,
        "VolumeReadBytes": [count * 16_384 for count in reads],
        "VolumeWriteBytes": [0] * 36,
    }
    metrics |= {"VolumeQueueLength": queues, "BurstBalance": balance}
    results = [
        {"Id": f"m{at}", "Label": name, "Timestamps": times, "Values": values}
        for at, (name, values) in enumerate(metrics.items())
    ]
    path = tmp_path / "cw.json"
    path.write_text(json.dumps({"MetricDataResults": results}))
    found = told(path, storage="gp2:100")
    assert (found.verdict, found.findings[0].subject) == ("binds", "volume-credits")
    assert found.windows[0].begins == "2026-11-20 10:00:00" and found.windows[0].ends == "2026-11-20 11:00:00"
    assert "bursts shorter" in found.grain
