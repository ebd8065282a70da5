"""Mistakes of a DBA in what doctor, watch, forecast and export read: each is refused in words, or
named beside an answer that is right all the same.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from doctored import evidence

from headrace.errors import CouldNotRun, InputError
from headrace.observe.evidence import aws, source
from headrace.observe.evidence.model import collect_evidence
from headrace.observe.evidence.volumes import DeviceVolumes
from headrace.observe.formats import import_file
from headrace.observe.live import host
from headrace.observe.remote.span import TimeSpan
from headrace.operate.doctor.advising.gains import Counsel
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.forecast.history import build_history
from headrace.operate.forecast.space import read_space
from headrace.operate.targets import SourceOptions, read_evidence
from headrace.operate.watching import opening
from headrace.operate.watching.following import TickFollower
from headrace.operate.watching.screen import as_text, build_whole

HOURS = 4
BUSY = range(60, 120)  # minutes, of HOURS


def cloudwatch(path, figures, minutes=HOURS * 60, begin=datetime(2026, 11, 20, 8)):
    """GetMetricData as JSON: a metric is a function of the minute."""
    times = [f"{begin + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(minutes)]
    results = [
        {"Id": f"m{at}", "Label": name, "Timestamps": times, "Values": [of(minute) for minute in range(minutes)]}
        for at, (name, of) in enumerate(figures.items())
    ]
    path.write_text(json.dumps({"MetricDataResults": results}))
    return path


def of_ebs(path, iops, ms, **more):
    """Reads of 16 KiB at `iops` in BUSY with a latency of `ms`, else 50 at 0.6."""

    def reads(minute):
        return 60 * (iops if minute in BUSY else 50)

    figures = {
        "VolumeReadOps": reads,
        "VolumeWriteOps": lambda minute: 600,
        "VolumeReadBytes": lambda minute: reads(minute) * 16_384,
        "VolumeWriteBytes": lambda minute: 600 * 16_384,
        "VolumeTotalReadTime": lambda minute: reads(minute) * (ms if minute in BUSY else 0.6) / 1e3,
        "VolumeTotalWriteTime": lambda minute: 0.4,
        "VolumeQueueLength": lambda minute: iops * ms / 1e3 if minute in BUSY else 0.04,
    }
    return cloudwatch(path, figures | more)


def of_rds(path):
    figures = {}
    for way, calm in (("Read", 300.0), ("Write", 100.0)):
        figures[f"{way}IOPS"] = lambda minute, calm=calm: 10 * calm if minute in BUSY else calm
        figures[f"{way}Throughput"] = lambda minute, calm=calm: 16_384 * (10 * calm if minute in BUSY else calm)
        figures[f"{way}Latency"] = lambda minute: 0.012 if minute in BUSY else 0.0006
    return cloudwatch(path, figures | {"DiskQueueDepth": lambda minute: 48.0 if minute in BUSY else 0.2})


def diagnose_file(path, **options):
    recorded = read_evidence(str(path), SourceOptions(**options))
    return diagnose(recorded, Counsel())


# --- figures of a minute --------------------------------------------------------------------------


def test_an_hour_at_no_limit_of_the_storage_named_is_not_fine(tmp_path):
    """Flat and 50 times as slow as usual: nobody says what holds it there, and with another volume's
    name it is no volume that is well. gp2:100 gives 300 and 3,000 IOPS."""
    path = of_ebs(tmp_path / "cw.json", 1_000, 30.0)
    assert diagnose_file(path).verdict == "cannot tell"
    result = diagnose_file(path, storage="gp2:100")
    assert (result.verdict, result.findings[0].subject, result.exit_code) == ("cannot tell", "storage", 3)
    for word in ("1,010 IOPS", "30.0 ms", "gp2:100", "300 IOPS", "09:00:00", "--instance"):
        assert word in result.headline, word
    assert (diagnose_file(path, storage="gp2:335").verdict, diagnose_file(path, storage="io1:100:1000").verdict) == (
        "binds",
        "binds",
    )


def test_balances_that_are_missing(tmp_path):
    """Without BurstBalance the credits are told by the rate; watch does not say that gp2 has none."""
    path = of_ebs(tmp_path / "cw.json", 290, 30.0)
    assert diagnose_file(path, storage="gp2:100").findings[0].subject == "volume-credits"
    recorded = read_evidence(str(path), SourceOptions(storage="gp2:100"))
    follower = TickFollower()
    moments = [follower.see(recorded.facts, tick) for tick in recorded.list_ticks()]
    assert "no credits" not in as_text(build_whole(moments[-1])) and moments[-1].volumes[0].bursts
    recorded = read_evidence(str(path), SourceOptions(storage="gp3:100"))
    assert "no credits" in as_text(build_whole(TickFollower().see(recorded.facts, recorded.list_ticks()[0])))


def test_metrics_of_rds_are_not_judged_as_one_volume(tmp_path):
    """From 400 GiB on RDS has four volumes: 12,000 IOPS with gp3:500, not 3,000."""
    path = of_rds(tmp_path / "rds.json")
    result = diagnose_file(path, storage="gp3:500")
    assert result.verdict == "cannot tell" and any("metrics of RDS" in note and "4x" in note for note in result.notes)
    assert not any("metrics of RDS" in note for note in diagnose_file(path, storage="4xgp3:125").notes)
    assert result.clock == "UTC"


@pytest.mark.parametrize("figures", [{}, {"idle_share": 0.85}, {"idle_share": 0.5, "read_ms": 40.0}])
def test_a_mean_that_hides_bursts_is_no_degraded_volume(figures):
    """450 IOPS at 4 ms of a minute may be 9 s of 3,000: EBS is not blamed for a burst at the limit. Half a
    minute in use changes nothing: 900 IOPS while there was a request is the least that a burst can have had."""
    none = {
        f"over_{name}": None for name in ("volume_iops", "volume_throughput", "instance_iops", "instance_throughput")
    }
    volume = none | {"read_iops": 450.0, "write_iops": 0.0, "charged_iops": 450.0, "read_ms": 4.1, "read_p50_ms": None}
    collected = evidence(volume | figures, with_server=False, grain_s=60.0, exact=False, storage="gp2:10")
    diagnosis = diagnose(collected)
    assert (diagnosis.verdict, diagnosis.findings[0].subject) == ("cannot tell", "bursts")
    assert "iostat" in diagnosis.headline
    exact = evidence(volume | {"over_volume_iops": 0.0}, with_server=False, storage="gp2:10")
    assert diagnose(exact).verdict == "degraded", "counted in microseconds there is no doubt"


def test_a_recording_of_minutes_hides_bursts_too(tmp_path):
    """Slow at rates that differ, an hour long, and no %util in CloudWatch. Only reads are slow, so the first
    touch is named first, and bursts of reads beside it."""
    path = of_ebs(
        tmp_path / "cw.json",
        450,
        9.0,
        VolumeReadOps=lambda minute: 60 * (300 + 7 * (minute % 37) if minute in BUSY else 50),
        VolumeReadBytes=lambda minute: 60 * 16_384 * (300 + 7 * (minute % 37) if minute in BUSY else 50),
    )
    result = diagnose_file(path, storage="gp3:500")
    assert (result.verdict, result.findings[0].subject) == ("cannot tell", "first-touch")
    assert "EBS" in result.headline and "Bursts of reads within 60 s" in result.headline


# --- time -----------------------------------------------------------------------------------------

IOSTAT = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
    "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz  aqu-sz  %util\n"
)
CPU = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00    1.00    0.00   92.00\n"
)


def local_days(path, days, shift):
    """A busy noon each day on a wall clock that is moved by `shift` at 2:00 of the third day."""
    text, begin = "Linux 6.1.0 (db1) \t03/27/2026 \t_x86_64_\t(4 CPU)\n\n", datetime(2026, 3, 27)
    for slot in range(days * 288):
        at = begin + timedelta(minutes=5 * slot)
        at += shift if at >= begin + timedelta(days=2, hours=2) else timedelta()
        reads = 500.0 if at.hour == 12 else 50.0
        text += f"{at:%m/%d/%Y %H:%M:%S}\n{CPU}\n{IOSTAT}nvme1n1 {reads:.2f} {16 * reads:.2f} 0.00 0.00 0.60 16.00 "
        text += "0.00 " * 12 + f"{reads * 6e-4:.2f} 1.00\n\n"
    path.write_text(text)
    return path


def test_a_day_of_23_hours_keeps_its_noon(tmp_path):
    """The hour that was not is filled; after it noon is at noon again on the clock of the machine."""
    demand = import_file(local_days(tmp_path / "spring.txt", 4, timedelta(hours=1)), gaps="hold")
    _, days = build_history(demand).list_whole_days()
    assert len(days) == 4 and any("summer time" in note for note in demand.list_notes())
    for day in days[:3]:
        busy = np.flatnonzero(day[:, 0] > 300)
        assert set(busy // 12) <= {11, 12} and 11 <= len(busy) <= 13, busy


def test_a_day_of_25_hours_is_refused_with_the_reason(tmp_path):
    with pytest.raises(InputError) as refused:
        import_file(local_days(tmp_path / "autumn.txt", 4, timedelta(hours=-1)))
    assert "summer time" in refused.value.hint and "TZ=UTC" in refused.value.hint


def test_used_space_over_a_change_of_the_clock(tmp_path):
    """Each line has its own offset: days are those of the place."""
    lines = ["time,used_gib"]
    for day in range(24, 32):
        lines.append(f"2026-03-{day}T23:30:00+0{1 if day < 29 else 2}:00,{day}")
    (tmp_path / "space.csv").write_text("\n".join(lines) + "\n")
    history = read_space(tmp_path / "space.csv")
    assert history.first == datetime(2026, 3, 24) and history.used_gib.tolist() == list(range(24, 32))


def test_a_window_of_zero_length(tmp_path):
    collected = evidence(seconds=5)
    begin = collected.volumes[0].rows["t_unix"][0]
    empty = collected.select_span(begin, begin)
    diagnosis = diagnose(empty)
    assert (diagnosis.verdict, diagnosis.exit_code) == ("cannot tell", 3) and empty.span_s == 0.0
    assert diagnose(collect_evidence(collected.facts, [])).verdict == "cannot tell"
    with pytest.raises(InputError, match="one time only"):
        import_file(cloudwatch(tmp_path / "one.json", {name: lambda _: 1 for name in METRICS}, minutes=1))


METRICS = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")

# --- AWS ------------------------------------------------------------------------------------------


class Cloud:
    """EC2 and CloudWatch with one volume. `busy`: whether it has points."""

    def __init__(self, busy=True, instances=("i-1",)):
        self.busy, self.spans = busy, []
        at = [{"State": "attached", "InstanceId": instance, "Device": "/dev/sdf"} for instance in instances]
        self.volume = {"VolumeId": "vol-1", "VolumeType": "io2", "Size": 100, "Iops": 3000, "Attachments": at}

    def __call__(self, service):
        return self

    def describe_volumes(self, VolumeIds):
        return {"Volumes": [self.volume]}

    def describe_volumes_modifications(self, VolumeIds):
        return {"VolumesModifications": []}

    def describe_instances(self, InstanceIds):
        result = [{"InstanceId": instance, "InstanceType": "m5.large"} for instance in InstanceIds]
        return {"Reservations": [{"Instances": result}]}

    def get_metric_data(self, MetricDataQueries, StartTime, EndTime):
        self.spans.append((StartTime, EndTime))
        moments = [EndTime - timedelta(minutes=3 - n) for n in range(3)] if self.busy else []
        return {
            "MetricDataResults": [
                {"Id": metric_data_query["Id"], "Timestamps": moments, "Values": [600.0] * len(moments)}
                for metric_data_query in MetricDataQueries
                if metric_data_query["MetricStat"]["Metric"]["MetricName"].endswith(("Ops", "Bytes"))
            ]
        }


def test_no_more_is_asked_than_cloudwatch_keeps():
    """A request that begins 15 days ago or earlier gets no point of a minute at all."""
    cloud = Cloud()
    assert aws.fetch_aws_evidence(["vol-1"], TimeSpan(15 * 24 * 3600.0), cloud).list_ticks()
    [(begin, end)] = cloud.spans
    assert timedelta(days=14, hours=23) < datetime.now(UTC) - begin < timedelta(days=15)
    assert end - begin > timedelta(days=14, hours=23)


def test_the_minute_of_an_attachment_has_no_idle_time():
    """Seconds in which it was not there are not idle: 6 s of load after 40 s would be 46 s busy."""

    class Idle(Cloud):
        def get_metric_data(self, MetricDataQueries, StartTime, EndTime):
            metric_data = super().get_metric_data(MetricDataQueries, StartTime, EndTime)
            key = next(
                q["Id"] for q in MetricDataQueries if q["MetricStat"]["Metric"]["MetricName"] == "VolumeIdleTime"
            )
            moments = metric_data["MetricDataResults"][0]["Timestamps"]
            idle = {"Id": key, "Timestamps": moments, "Values": [14.0, 54.0, 54.0]}
            return {"MetricDataResults": [*metric_data["MetricDataResults"], idle]}

    rows = aws.fetch_aws_evidence(["vol-1"], TimeSpan(3600.0), Idle()).volumes[0].rows
    assert rows["idle_share"].to_list() == [None, 0.9, 0.9]


def test_several_instances_and_options_that_aws_answers_itself(monkeypatch):
    monkeypatch.setattr(aws, "open_client", Cloud(instances=("i-1", "i-2")))
    recorded = read_evidence("aws:vol-1", SourceOptions(storage="gp3:500", instance="m4.large"))
    assert recorded.facts.volumes[0].storage == "io2:100:3000" and recorded.facts.instance == "m5.large"
    assert [note for note in recorded.notes if "Multi-Attach" in note and "i-1, i-2" in note]
    assert [note.split(" was")[0] for note in recorded.notes if "not used" in note] == [
        "--storage gp3:500",
        "--instance m4.large",
    ]


def test_a_volume_that_is_detached_while_cloudwatch_is_watched(monkeypatch):
    """The volume's points end; the screen stays, and with `seconds` it ends in time."""
    cloud = Cloud()
    monkeypatch.setattr(aws, "open_client", cloud)
    clock, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(source, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    with opening.open_target("aws:vol-1", SourceOptions(), seconds=150.0) as watched:
        details = 0
        for _ in watched.moments:
            cloud.busy, details = False, details + 1
    assert (details, slept) == (3, [60.0, 60.0, 30.0])
    cloud.busy = False
    with pytest.raises(CouldNotRun, match="no point"), opening.open_target("aws:vol-1", SourceOptions()):
        pass


def test_requests_that_fail_are_a_note_and_end_the_source_with_their_cause():
    """Credentials expire after some hours: an alarm that hears nothing would look healthy. A request
    that is answered in between begins the count anew."""
    collected = evidence({"queue": 1.0}, with_server=False)
    refused = InputError("CloudWatch", "AWS refuses: the token has expired")
    answers = iter([refused] * (source.MOST_FAILURES - 1) + [collected] + [refused] * source.MOST_FAILURES)

    def ask():
        answer = next(answers)
        if isinstance(answer, InputError):
            raise answer
        return answer

    followed = source.KeptSource(collected, ask, every_s=0.0)
    ticks = followed.stream_ticks()
    assert [next(ticks) for _ in collected.list_ticks()] == collected.list_ticks() and not followed.notes
    with pytest.raises(InputError, match="the token has expired"):
        next(ticks)
    assert next(answers, None) is None and followed.notes == ("a request failed: AWS refuses: the token has expired",)


# --- devices --------------------------------------------------------------------------------------


def test_a_device_over_others_names_its_members(monkeypatch):
    monkeypatch.setattr(host, "read_disks", lambda names=None: {"md0": {name: 1.0 for name in host.FIELDS}})
    monkeypatch.setattr(host.os, "listdir", lambda path: ["nvme2n1", "nvme1n1"] if "md0/slaves" in path else [])

    def page(device):
        raise InputError(device, "has no statistics page")

    volumes = DeviceVolumes(["md0"], page=page)
    volumes.read_facts()
    assert "over nvme1n1, nvme2n1" in volumes.notes[0] and "--storage" in volumes.notes[0]
