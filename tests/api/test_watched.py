"""doctor, watch, forecast and both imports of aws:vol-... by boto3 against a lab's endpoint: what a
user of AWS types, from EC2's words on the volume to CloudWatch's minutes. Tests of minutes wait for
one to end: AWS_MINUTES=1 (make soak).
"""

from __future__ import annotations

import json
import os
import subprocess
import time

import polars as pl
import pytest
from aws_labs import AwsLab

from headrace.observe.live.nvme import read_page
from headrace.workload import OpenWorkload, load

LOAD_S = 6  # at the burst of gp2:10: 18,000 I/Os
# The load begins in these seconds of a minute, so that its minute ends soon and has all of it.
BEGIN_S, END_S = 40, 52


def reads(lab: AwsLab, volume: str) -> int:
    page = read_page(bytes.fromhex(lab.lab.nvme_statistics(volume)["page_hex"]))
    return page.counters["total_read_ops"]


def loaded(lab: AwsLab, volume: str) -> tuple[int, int]:
    """Reads for some seconds of one minute; the minute's beginning and how many there were."""
    if not BEGIN_S <= time.time() % 60 <= END_S:
        time.sleep((BEGIN_S - time.time()) % 60)
    minute, before = int(time.time()) // 60 * 60, reads(lab, volume)
    words = ["fio", "--name=x", f"--filename={lab.device(volume)}", "--ioengine=libaio", "--direct=1", "--rw=randread"]
    words += ["--bs=16k", "--iodepth=16", "--size=1g", "--time_based", f"--runtime={LOAD_S}", "--output=/dev/null"]
    subprocess.run(words, check=True)
    time.sleep(2)  # the page is that of the last whole second
    return minute, reads(lab, volume) - before


@pytest.fixture
def gp2(labs) -> tuple[AwsLab, str]:
    """A lab at the pace of the wall with a volume that is attached."""
    lab = AwsLab(labs, time_scale=1, instance_type="m5.large")
    ec2 = lab.client("ec2")
    volume_id = ec2.create_volume(Size=10, VolumeType="gp2", AvailabilityZone=lab.zone)["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume_id], WaiterConfig={"Delay": 0.2, "MaxAttempts": 300})
    ec2.attach_volume(VolumeId=volume_id, InstanceId=lab.instance, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume_id], WaiterConfig={"Delay": 0.2, "MaxAttempts": 300})
    return lab, volume_id


@pytest.mark.skipif("AWS_MINUTES" not in os.environ, reason="AWS_MINUTES=1 waits for a minute to end")
def test_doctor_watch_and_forecast_of_a_volume_of_ec2(gp2):
    lab, volume = gp2
    minute, count = loaded(lab, volume)
    # The row of a second is written when it has ended, the minute's last one too.
    time.sleep(max(0.0, minute + 62 - time.time()))
    folder = lab.folder / "seen.jsonl"
    # Some seconds at the burst are a slow minute far below every limit: EBS is not blamed for it.
    document = json.loads(
        lab.headrace("doctor", f"aws:{volume}", "--output", "json", "--record", str(folder), code=3).stdout
    )
    assert (document["verdict"], document["storage"], document["instance"]) == ("cannot tell", ["gp2:10"], "m5.large")
    rows = [json.loads(line) for line in folder.read_text().splitlines()[1:]]
    [row] = [row["volumes"][volume] for row in rows if row["t_unix"] == minute]
    assert row["read_iops"] * 60 == pytest.approx(count, abs=1) and row["read_mib_s"] == pytest.approx(count / 64 / 60)
    assert row["balance_percent"] < 100
    lines = lab.headrace("watch", f"aws:{volume}", "--output", "jsonl", "--seconds", "1").stdout.splitlines()
    details = next(json.loads(line) for line in lines if json.loads(line)["t_unix"] == minute)["volumes"][0]
    assert details["spec"] == "gp2:10" and details["balance"] == pytest.approx(row["balance_percent"] / 100)
    assert "gp2:10" in lab.headrace("watch", f"aws:{volume}", "--once").stdout
    result = lab.folder / "volume.toml"
    document = lab.headrace("workload", "import", f"aws:{volume}", "--last", "10m", "--to", str(result)).stdout
    assert "Source: CloudWatch" in document and volume in document
    workload = load(result)
    assert isinstance(workload, OpenWorkload)
    points = workload.points
    assert set(points["duration_s"]) == {60.0}
    assert max(points["reads_per_s"]) * 60 == pytest.approx(count, abs=1) and points["writes_per_s"].sum() < 1
    lab.headrace("fleet", "import", f"aws:{volume}", "--last", "10m", "--to", str(lab.folder / "fleet.parquet"))
    [row] = pl.read_parquet(lab.folder / "fleet.parquet").filter(pl.col("t_unix") == minute).to_dicts()
    assert row["volume"] == volume and row["read_ops"] == pytest.approx(count, abs=1) and row["balance_percent"] < 100
    # Fourteen days are asked for; there are minutes.
    assert "at least an hour" in lab.headrace("forecast", f"aws:{volume}", code=2).stderr
    assert "does not exist" in lab.headrace("doctor", "aws:vol-0123456789abcdef0", code=2).stderr


def test_every_command_says_what_is_missing_of_a_volume_of_ec2(gp2):
    """It was attached a moment ago: EC2 knows it, CloudWatch has no minute of it yet."""
    lab, volume = gp2
    points, folder = str(lab.folder / "x.parquet"), str(lab.folder / "x.toml")
    commands = {
        ("doctor",): (),
        ("forecast",): (),
        ("workload", "import"): ("--to", folder),
        ("fleet", "import"): ("--to", points),
    }
    for words, more in commands.items():
        until = ("--last", "1h", "--until", "2026-01-01T00:00:00Z")  # before the lab was
        stderr = lab.headrace(*words, f"aws:{volume}", *more, *until, code=3).stderr
        assert "CloudWatch has no point" in stderr and "--last" in stderr, words
        stderr = lab.headrace(*words, "aws:vol-0123456789abcdef0", *more, code=2).stderr
        assert "does not exist" in stderr, words
    assert not (lab.folder / "x.parquet").exists() and not (lab.folder / "x.toml").exists()
