"""A recording of a device alone: why was it slow at 10:00."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import pytest
from doctored import iostat

from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.targets import SourceOptions, read_evidence


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


def diagnosis_of(path, **options):
    evidence = read_evidence(str(path), SourceOptions(**options))
    return diagnose(evidence, Counsel())


def test_why_it_was_slow_at_ten(tmp_path):
    """Spent credits from 10:00 to 10:02: the window, its limit, and the model's latency beside the
    recorded."""
    result = diagnosis_of(iostat(tmp_path / "io.txt", day(random.Random(1), (120, 240), 300.0)), storage="gp2:100")
    assert (result.verdict, result.findings[0].subject) == ("binds", "volume-credits")
    (window,) = result.windows
    assert window.begins.startswith("2026-11-20 10:00:0") and window.ends.startswith("2026-11-20 10:02:0")
    assert window.rate == pytest.approx(300, abs=1) and window.recorded_ms == pytest.approx(27, abs=0.5)
    # Eight outstanding at 300 a second: 26.7 ms each, by Little's law.
    assert window.model_ms == pytest.approx(26.7, rel=0.05)
    assert "10:00" in result.headline and result.findings[0].remedies[0].storage.startswith("gp3:100")
    assert result.exit_code == 1


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
    result = diagnosis_of(path, storage=volume or None, instance=instance or None)
    assert (result.verdict, result.findings[0].subject) == ("binds", limit)


def test_a_calm_recording(tmp_path):
    result = diagnosis_of(iostat(tmp_path / "io.txt", day(random.Random(3), (0, 0), 0.0)), storage="gp2:100")
    assert (result.verdict, result.windows, result.exit_code) == ("fine", (), 0)
    assert "slowest point" in result.headline


@pytest.mark.parametrize(
    ("storage", "level", "kib", "words"),
    [
        ("gp2:100", 3_577.0, 16.0, "nvme1n1 gave 3,577 IOPS, and gp2:100 gives at most 3,000 IOPS"),
        ("gp3:500", 3_577.0, 16.0, "nvme1n1 gave 3,577 IOPS, and gp3:500 gives at most 3,000 IOPS"),
        ("gp3:500", 2_500.0, 64.0, "nvme1n1 gave 156.2 MiB/s, and gp3:500 gives at most 125 MiB/s"),
        ("m4.large/gp3:500:6000:250", 4_000.0, 4.0, "and m4.large gives at most 3,600 IOPS"),
    ],
)
def test_a_recording_above_every_limit_is_not_of_that_storage(tmp_path, storage, level, kib, words):
    path = iostat(tmp_path / "io.txt", day(random.Random(21), (60, 240), level, kib, 70.0))
    instance, _, volume = storage.rpartition("/")
    result = diagnosis_of(path, storage=volume, instance=instance or None)
    assert (result.verdict, result.findings[0].subject, result.exit_code) == ("cannot tell", "storage", 3)
    assert words in result.headline and "below every limit" not in result.headline and not result.windows
    assert (
        result.headline.startswith("From 2026-11-20 09:59:0")
        and ("--instance" if instance else "--storage") in result.headline
    )


def test_what_a_rested_volume_has_saved_and_merged_requests_are_within_its_limits(tmp_path):
    """A second's worth above the limit in each of some seconds; and requests of 16 KiB that st1
    counts in MiB."""
    saved = day(random.Random(22), (60, 70), 3_250.0, 16.0, 0.7)
    assert diagnosis_of(iostat(tmp_path / "io.txt", saved), storage="gp3:500").findings[0].subject != "storage"
    merged = day(random.Random(23), (60, 240), 2_000.0, 16.0, 5.0)
    assert diagnosis_of(iostat(tmp_path / "io.txt", merged), storage="st1:2000").findings[0].subject != "storage"


def test_slow_at_many_rates_is_no_limit(tmp_path):
    chance = random.Random(4)
    rows = [(chance.uniform(100, 900), 16.0, chance.uniform(4, 30)) for _ in range(300)]
    result = diagnosis_of(iostat(tmp_path / "io.txt", rows), storage="gp3:500")
    # Slow below every limit of this storage: the volume's own trouble, whatever levels chance made.
    assert (result.verdict, result.windows) == ("degraded", ())


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
    result = diagnosis_of(path, storage="gp2:100")
    assert (result.verdict, result.findings[0].subject) == ("binds", "volume-credits")
    assert result.windows[0].begins == "2026-11-20 10:00:00" and result.windows[0].ends == "2026-11-20 11:00:00"
    assert "bursts shorter" in result.grain


# --- instances ------------------------------------------------------------------------------------


def spent(chance, level, kib, burst, calm_ms=0.6, slow_ms=13.3):
    """A flat level for four minutes of five, after a burst above it."""
    rows = [(chance.uniform(0.9, 1.1) * burst, kib, calm_ms) for _ in range(60)]
    return rows + [(level, kib, slow_ms + 0.3 * chance.random()) for _ in range(240)]


@pytest.mark.parametrize(
    ("instance", "storage", "level", "kib", "burst", "words"),
    [
        # Baselines of the EC2 user guide: m5.large 3,600 IOPS and 650 Mbit/s (81.25 MB/s), m5.xlarge 6,000.
        ("m5.large", "gp3:500:10000:500", 3_600.0, 16.0, 6_000, "a flat 3,600 IOPS, the baseline of m5.large"),
        ("r5.large", "gp3:500:10000:500", 3_600.0, 16.0, 6_000, "a flat 3,600 IOPS, the baseline of r5.large"),
        ("m5.xlarge", "gp3:500:16000:500", 6_000.0, 4.0, 9_000, "a flat 6,000 IOPS, the baseline of m5.xlarge"),
        ("m5.large", "gp3:500:10000:500", 81_250_000 / 65_536, 64.0, 2_500, "a flat 77.49 MiB/s, the baseline"),
    ],
)
def test_a_spent_burst_of_an_instance(tmp_path, instance, storage, level, kib, burst, words):
    path = iostat(tmp_path / "io.txt", spent(random.Random(5), level, kib, burst))
    result = diagnosis_of(path, storage=storage, instance=instance)
    assert (result.verdict, result.findings[0].subject) == ("binds", "instance-credits")
    assert words in result.headline and "explains the latency" in result.headline
    assert "Change the instance" in result.findings[0].remedies[0].what


@pytest.mark.parametrize(
    ("storage", "level", "kib", "burst", "names"),
    [
        ("gp3:500:10000:500", 3_600.0, 16.0, 6_000, "m5.large, r5.large"),
        (None, 3_600.0, 16.0, 6_000, "m5.large, r5.large"),
        ("gp3:500:10000:500", 81_250_000 / 65_536, 64.0, 2_500, "m5.large"),
        ("io2:500:32000", 18_750.0, 16.0, 18_000, "m5.4xlarge"),
    ],
)
def test_an_instance_that_nobody_named_is_asked_for(tmp_path, storage, level, kib, burst, names):
    """A dead-flat rate is a limit before EBS is blamed: it equals the baseline of known instances."""
    path = iostat(tmp_path / "io.txt", spent(random.Random(6), level, kib, burst))
    result = diagnosis_of(path, storage=storage)
    assert (result.verdict, result.findings[0].subject, result.exit_code) == ("cannot tell", "instance", 3)
    assert names in result.headline and "--instance" in result.headline and "EBS's fault" not in result.headline
    assert "e+" not in result.headline
    if kib == 64.0:
        assert "77.49 MiB/s" in result.headline


def test_a_flat_rate_at_no_known_limit_asks_for_the_storage(tmp_path):
    path = iostat(tmp_path / "io.txt", spent(random.Random(8), 1_234.0, 16.0, 2_000))
    result = diagnosis_of(path, storage="gp3:500:10000:500", instance="m5.4xlarge")
    assert (result.verdict, result.findings[0].subject) == ("cannot tell", "storage")
    assert "1,234 IOPS" in result.headline and "18,750 IOPS" in result.headline


# --- slow, and not for long -----------------------------------------------------------------------

OLD_HEAD = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await  svctm  %util"


def old_iostat(path, rows):
    """iostat -xt 1 of sysstat 9: (await, queue, per cent in use) by second, 300 writes of 16 KiB."""
    text = "Linux 3.13.0 (db1) \t11/20/2026 \t_x86_64_\t(4 CPU)\n\n"
    for second, (await_ms, queue, util) in enumerate([(2.0, 0.1, 5.0), *rows]):
        at = datetime(2026, 11, 20, 10, 0) + timedelta(seconds=second)
        text += f"{at:%m/%d/%Y %H:%M:%S}\n{OLD_HEAD}\n"
        text += f"xvde 0.00 0.00 0.00 {290 + 9 * second}.00 0.00 {16 * (290 + 9 * second)}.00 32.00 {queue} {await_ms} 3.0 {util}\n\n"
    path.write_text(text)
    return path


@pytest.mark.parametrize("storage", [None, "gp2:100", "gp3:500", "io1:500:2000"])
@pytest.mark.parametrize(
    ("rows", "worst"),
    [
        # Rows of two recordings in public issues: three reports with 168 to 464 ms, and one of 43
        # ms.
        ([(168.2, 138.0, 100.0), (464.49, 138.0, 100.0), (310.0, 120.0, 100.0)], "464 ms"),
        ([(43.0, 34.0, 94.0)] * 2, "43 ms"),
    ],
)
def test_too_short_is_never_fine(tmp_path, call, storage, rows, worst):
    path = old_iostat(tmp_path / "io.txt", rows)
    result = diagnosis_of(path, storage=storage)
    assert result.verdict == "cannot tell" and result.exit_code == 3
    assert worst in result.headline and "too short" in result.headline
    options = ("--storage", storage) if storage else ()
    code, out, _ = call("doctor", str(path), *options, "--output", "nagios")
    assert code == 3 and out.startswith("DOCTOR UNKNOWN - cannot tell")


def test_slow_seconds_of_a_long_recording_are_not_fine(tmp_path):
    chance = random.Random(9)
    rows = [(chance.uniform(60, 140), 16.0, 40.0 if second in (100, 101) else 0.6) for second in range(300)]
    result = diagnosis_of(iostat(tmp_path / "io.txt", rows), storage="gp3:500")
    assert (result.verdict, result.findings[0].subject) == ("cannot tell", "too short")
    assert "2 s in all" in result.headline and "40 ms" in result.headline


def test_every_sixth_point_slow_is_bursts(tmp_path):
    chance = random.Random(10)
    rows = [(chance.uniform(300, 500), 16.0, 15.6 if second % 6 == 0 else 0.6) for second in range(600)]
    result = diagnosis_of(iostat(tmp_path / "io.txt", rows), storage="gp3:500")
    assert (result.verdict, result.findings[0].subject) == ("cannot tell", "bursts")
    assert "iostat -xt 1" in result.headline and "shorter interval" in result.headline


# --- processors, members --------------------------------------------------------------------------


def with_processors(path, user, system):
    """The file with other figures of avg-cpu."""
    idle = 100.0 - user - system
    calm = "           5.00    0.00    2.00    1.00    0.00   92.00"
    path.write_text(
        path.read_text().replace(calm, f"          {user:.2f}    0.00    {system:.2f}    0.00    0.00    {idle:.2f}")
    )
    return path


def test_processors_of_the_same_file(tmp_path, call):
    """avg-cpu stands beside the disks: an idle disk and spent processors are no matter of storage. From
    85 % on; a fifth of the recording at least."""
    calm = day(random.Random(11), (0, 0), 0.0)
    result = diagnosis_of(with_processors(iostat(tmp_path / "io.txt", calm), 94.0, 4.0), storage="gp3:500")
    assert (result.verdict, result.findings[0].subject, result.exit_code) == ("not storage", "processors", 0)
    assert "98 % of 4 processors" in result.headline and "Storage kept up" in result.headline
    for user, verdict in ((84.0, "not storage"), (82.0, "fine")):
        assert (
            diagnosis_of(with_processors(iostat(tmp_path / "io.txt", calm), user, 2.0), storage="gp3:500").verdict
            == verdict
        )
    # At a limit as well: both are said, and not that storage keeps up.
    hot = day(random.Random(12), (60, 240), 3_000.0, await_ms=10.6)
    result = diagnosis_of(with_processors(iostat(tmp_path / "io.txt", hot), 94.0, 4.0), storage="gp3:500")
    assert [finding.subject for finding in result.findings] == ["volume-iops", "processors"]
    assert "kept up" not in result.findings[1].words and "nearly spent" in result.findings[1].words
    assert "bottleneck" not in result.findings[1].words, "one answer blames one thing"
    # Nothing is bought where the processors leave no room for what it would bring.
    assert not result.findings[0].remedies and "is not estimated: 98 % of the processors" in result.headline
    free = diagnosis_of(iostat(tmp_path / "io.txt", hot), storage="gp3:500")
    assert free.findings[0].remedies and "is not estimated" not in free.headline


# --- too short, and nothing answered ----------------------------------------------------------------


@pytest.mark.parametrize(("points", "expected"), [(40, ("cannot tell", "too short")), (70, ("fine", "fine"))])
def test_seconds_without_trouble_are_not_fine(tmp_path, points, expected):
    """Less than a minute says nothing of a server, quick as it may have been."""
    result = diagnosis_of(iostat(tmp_path / "io.txt", day(random.Random(14), (0, 0), 0.0)[:points]), storage="gp3:500")
    assert (result.verdict, result.findings[0].subject) == expected
    assert result.exit_code == (0 if expected[0] == "fine" else 3)


@pytest.mark.parametrize(("length", "verdict"), [(90, "degraded"), (20, "cannot tell")])
@pytest.mark.parametrize("storage", ["gp3:500", None])
def test_a_volume_that_answers_nothing_is_not_fine(tmp_path, length, verdict, storage):
    """No I/O completes while 32 wait, so no point has a latency; the next answers them."""
    path = iostat(tmp_path / "io.txt", day(random.Random(15), (0, 0), 0.0))
    lines, second = [], 0
    for line in path.read_text().splitlines():
        if line.startswith("nvme1n1"):
            second += 1
            if 100 <= second < 100 + length:
                line = f"nvme1n1 {'0.00 ' * 18}32.00 100.00"
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    result = diagnosis_of(path, storage=storage)
    assert (result.verdict, result.findings[0].subject) == (verdict, "stalled")
    assert "answered no I/O while 32 waited" in result.headline and not result.windows
    assert ("EBS's fault" in result.headline) == (verdict == "degraded")


def test_the_slow_member_is_named(tmp_path):
    """The third of four is slow, and the others, which do as much, are quick."""
    path, chance = tmp_path / "raid.txt", random.Random(13)
    iostat(path, day(chance, (0, 0), 0.0))
    lines = []
    for line in path.read_text().splitlines():
        if not line.startswith("nvme1n1"):
            lines.append(line)
            continue
        for member in range(1, 5):
            rate, ms = chance.uniform(190, 210), 18.0 if member == 3 else 0.8
            queue, util = rate * ms / 1e3, 97.0 if member == 3 else 15.0
            half = f"{rate / 2:.2f} {rate * 8:.2f} 0 0 {ms} 16.00"
            lines.append(f"nvme{member}n1 {half} {half} {'0 ' * 6} {queue:.2f} {util:.2f}")
    path.write_text("\n".join(lines) + "\n")
    every = "+".join(f"nvme{member}n1" for member in range(1, 5))
    result = diagnosis_of(path, storage="4xgp3:250", devices=(every,))
    assert (result.verdict, result.findings[0].subject) == ("degraded", "member")
    assert "nvme3n1 took 18.0 ms" in result.headline and "Open a case for nvme3n1" in result.headline
