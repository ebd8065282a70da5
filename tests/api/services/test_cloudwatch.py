"""CloudWatch by boto3 against a real lab: values, statistics, expressions, alarms that act, tags, history, events."""

from __future__ import annotations

import http.server
import json
import mmap
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aws_labs import AwsLab, free_port, until
from botocore.exceptions import ClientError
from lab_folders import Labs

from headrace.lab import Lab

SPACE = "Shop"
ACTION = "arn:aws:headrace:us-east-1:000000000000:"


@pytest.fixture(scope="module")
def lab():
    labs = Labs()
    try:
        yield AwsLab(labs)
    finally:
        labs.close()


@pytest.fixture
def cloudwatch(lab: AwsLab):
    return lab.client("cloudwatch")


@pytest.fixture
def minute() -> datetime:
    """A whole minute that is over."""
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)


def metric(name: str, stat: str = "Average", period: int = 60, **more: Any) -> dict:
    return {"Metric": {"Namespace": SPACE, "MetricName": name} | more, "Period": period, "Stat": stat}


def refused(call, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 404)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


def test_values_come_back_as_statistics(cloudwatch, minute):
    data = [
        {"MetricName": "orders", "Timestamp": minute, "Value": 10.0, "Unit": "Count"},
        {
            "MetricName": "orders",
            "Timestamp": minute + timedelta(seconds=30),
            "Values": [1.0, 4.0],
            "Counts": [2.0, 1.0],
            "Unit": "Count",
        },
        {
            "MetricName": "orders",
            "Timestamp": minute + timedelta(minutes=1),
            "StatisticValues": {"SampleCount": 4, "Sum": 20, "Minimum": 2, "Maximum": 9},
            "Unit": "Count",
        },
    ]
    cloudwatch.put_metric_data(Namespace=SPACE, MetricData=data)
    metric_statistics = cloudwatch.get_metric_statistics(
        Namespace=SPACE,
        MetricName="orders",
        StartTime=minute,
        EndTime=minute + timedelta(minutes=2),
        Period=60,
        Statistics=["SampleCount", "Sum", "Average", "Minimum", "Maximum"],
    )
    first, second = metric_statistics["Datapoints"]
    # 10, 1, 1 and 4: four values, 16 together.
    assert first == {
        "Timestamp": minute,
        "SampleCount": 4,
        "Sum": 16,
        "Average": 4,
        "Minimum": 1,
        "Maximum": 10,
        "Unit": "Count",
    }
    assert (second["SampleCount"], second["Sum"], second["Average"]) == (4, 20, 5)
    percentiles = cloudwatch.get_metric_statistics(
        Namespace=SPACE,
        MetricName="orders",
        StartTime=minute,
        EndTime=minute + timedelta(minutes=2),
        Period=60,
        ExtendedStatistics=["p50", "p100"],
    )["Datapoints"]
    # A statistic set has no percentiles: the second minute is missing.
    assert [point["ExtendedStatistics"] for point in percentiles] == [{"p50": 1.0, "p100": 10.0}]
    names = cloudwatch.list_metrics(Namespace=SPACE, MetricName="orders")["Metrics"]
    assert names == [{"Namespace": SPACE, "MetricName": "orders", "Dimensions": []}]


def test_expressions_are_computed_and_paged(cloudwatch, minute):
    times = [minute + timedelta(minutes=index) for index in range(3)]
    for name, values in (("balance", (100.0, 50.0, 0.0)), ("none", (0.0, 0.0, 1.0))):
        data = [
            {"MetricName": name, "Timestamp": when, "Value": value} for when, value in zip(times, values, strict=True)
        ]
        cloudwatch.put_metric_data(Namespace=SPACE, MetricData=data)
    queries = [
        {"Id": "m1", "MetricStat": metric("balance"), "ReturnData": False},
        {"Id": "m2", "MetricStat": metric("none"), "ReturnData": False},
        {"Id": "left", "Expression": "m1*5400000/100/(3000-500*3)", "Label": "seconds, at most ${MAX}"},
        {"Id": "ratio", "Expression": "m1/m2"},
    ]
    request = {"MetricDataQueries": queries, "StartTime": times[0], "EndTime": times[2] + timedelta(minutes=1)}
    rest, ratio = cloudwatch.get_metric_data(**request)["MetricDataResults"]
    # A full bucket of 5,400,000 credits lasts 3,600 s at 3,000 IOPS on a volume that earns 1,500 a second.
    assert (rest["Timestamps"], rest["Values"]) == (times[::-1], [0.0, 1800.0, 3600.0])
    assert (rest["Label"], rest["StatusCode"]) == ("seconds, at most 3600", "Complete")
    assert (ratio["Timestamps"], ratio["Values"]) == ([times[2]], [0.0]), "100/0 and 50/0 are no points"
    pages = list(
        cloudwatch.get_paginator("get_metric_data").paginate(**request, ScanBy="TimestampAscending", MaxDatapoints=2)
    )
    points = [point for page in pages for result in page["MetricDataResults"] for point in result["Values"]]
    assert (len(pages), points) == (2, [3600.0, 1800.0, 0.0, 0.0])


def test_mistakes_have_cloudwatchs_codes(cloudwatch, minute):
    span = {"StartTime": minute, "EndTime": minute + timedelta(minutes=1)}
    code, message = refused(
        cloudwatch.get_metric_data,
        MetricDataQueries=[{"Id": "m1", "MetricStat": metric("x")}, {"Id": "e1", "Expression": "m1 +* 3"}],
        **span,
    )
    assert (code, "Error in expression 'e1' at position 5" in message) == ("ValidationError", True), message
    code, message = refused(
        cloudwatch.get_metric_data, MetricDataQueries=[{"Id": "e1", "Expression": "SEARCH('{X}', 'Sum')"}], **span
    )
    assert (code, "SEARCH is not supported" in message) == ("ValidationError", True), message
    put = cloudwatch.put_metric_data
    assert refused(put, Namespace="AWS/EBS", MetricData=[{"MetricName": "x", "Value": 1}])[0] == "InvalidParameterValue"
    assert refused(put, Namespace=SPACE, MetricData=[{"MetricName": "x"}])[0] == "MissingParameter"
    both = {"MetricName": "x", "Value": 1.0, "Values": [1.0]}
    assert refused(put, Namespace=SPACE, MetricData=[both])[0] == "InvalidParameterCombination"
    old = {"MetricName": "x", "Value": 1.0, "Timestamp": datetime.now(UTC) - timedelta(days=15)}
    assert refused(put, Namespace=SPACE, MetricData=[old])[0] == "InvalidParameterValue"
    statistics = {
        "Namespace": SPACE,
        "MetricName": "x",
        "Period": 60,
        "StartTime": minute,
        "EndTime": minute + timedelta(days=2),
    }
    assert (
        refused(cloudwatch.get_metric_statistics, Statistics=["Sum"], **statistics)[0] == "InvalidParameterCombination"
    )
    assert refused(cloudwatch.list_metrics, NextToken="nonsense")[0] in ("InvalidNextToken", "InvalidParameterValue")
    assert refused(cloudwatch.delete_alarms, AlarmNames=["no-such-alarm"])[0] == "ResourceNotFound"
    arn = "arn:aws:cloudwatch:us-east-1:000000000000:alarm:no-such-alarm"
    assert refused(cloudwatch.list_tags_for_resource, ResourceARN=arn)[0] == "ResourceNotFoundException"
    tag = {"Key": "a", "Value": "b"}
    assert refused(cloudwatch.tag_resource, ResourceARN=arn, Tags=[tag])[0] == "ResourceNotFoundException"
    assert refused(cloudwatch.untag_resource, ResourceARN=arn, TagKeys=["a"])[0] == "ResourceNotFoundException"
    own = {"Namespace": "AWS/EBS", "MetricData": [{"MetricName": "x", "Value": 1}]}
    assert refused(cloudwatch.put_metric_data, **own)[0] == "InvalidParameterValue"
    state = {"AlarmName": "no-such-alarm", "StateValue": "OK", "StateReason": "a drill"}
    assert refused(cloudwatch.set_alarm_state, **state)[0] == "ResourceNotFound"
    assert refused(cloudwatch.describe_alarms, NextToken="nonsense")[0] == "InvalidNextToken"
    assert refused(cloudwatch.describe_alarm_history, NextToken="nonsense")[0] == "InvalidNextToken"
    wrong = {"MetricDataQueries": [{"Id": "e1", "Expression": "1 +"}]} | span
    assert refused(cloudwatch.get_metric_data, **wrong)[0] == "ValidationError"
    alarm = {"AlarmName": "wrong", "Namespace": SPACE, "MetricName": "x", "Statistic": "Sum", "Period": 45}
    alarm |= {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "LessThanThreshold"}
    assert refused(cloudwatch.put_metric_alarm, **alarm)[0] == "InvalidParameterValue"


class Received(http.server.BaseHTTPRequestHandler):
    """Keeps what was posted; refuses the first."""

    bodies: list[dict] = []
    answers: list[int] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.answers.pop(0) if self.answers else 200
        self.bodies.append(body | {"status": status})
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None: ...


@pytest.fixture
def webhook():
    Received.bodies, Received.answers = [], [503]
    server = http.server.HTTPServer(("127.0.0.1", free_port()), Received)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def actions_of(lab: AwsLab, text: str) -> None:
    path = lab.folder / "actions.toml"
    path.write_text(text)
    path.chmod(0o600)


def state_of(cloudwatch, name: str) -> str:
    [alarm] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return alarm["StateValue"]


def test_an_alarm_changes_state_and_acts(lab: AwsLab, cloudwatch, webhook, tmp_path):
    seen = tmp_path / "seen.json"
    # The command runs as nobody: it may write this file and no other of ours.
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_uid == os.geteuid() and folder != tmp_path.root:
            folder.chmod(folder.stat().st_mode | 0o011)
    seen.touch()
    seen.chmod(0o666)
    actions_of(
        lab,
        f'[command.note]\nargv = ["/usr/bin/tee", "{seen}"]\n'
        f'[command.slow]\nargv = ["/bin/sleep", "100"]\ntimeout_s = 1\n'
        f'[webhook.chat]\nurl = "http://127.0.0.1:{webhook}/alarm"\n',
    )
    alarm = {
        "AlarmName": "errors",
        "AlarmDescription": "too many",
        "Namespace": SPACE,
        "MetricName": "errors",
        "Statistic": "Maximum",
        "Period": 10,
        "EvaluationPeriods": 1,
        "Threshold": 5.0,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        "AlarmActions": [f"{ACTION}command/note", f"{ACTION}webhook/chat", f"{ACTION}command/slow"],
        "Tags": [{"Key": "owner", "Value": "dba"}],
    }
    cloudwatch.put_metric_alarm(**alarm)
    until(lambda: state_of(cloudwatch, "errors"), lambda state: state == "OK", "without values")
    stop = threading.Event()

    def report() -> None:
        # A period must have a value when it is over.
        mine = lab.client("cloudwatch")
        while not stop.is_set():
            mine.put_metric_data(
                Namespace=SPACE, MetricData=[{"MetricName": "errors", "Value": 9.0, "StorageResolution": 1}]
            )
            stop.wait(1)

    reporting = threading.Thread(target=report)
    reporting.start()
    try:
        until(lambda: state_of(cloudwatch, "errors"), lambda state: state == "ALARM", "with nine errors")
        until(lambda: Received.bodies, lambda bodies: len(bodies) == 2, "posted and tried again")
    finally:
        stop.set()
        reporting.join()
    assert [body["status"] for body in Received.bodies] == [503, 200]
    answer = Received.bodies[1]
    assert (answer["alarmName"], answer["state"]["value"], answer["previousState"]["value"]) == (
        "errors",
        "ALARM",
        "OK",
    )
    assert json.loads(seen.read_text())["alarmName"] == "errors"

    def acted() -> list[str]:
        items = cloudwatch.describe_alarm_history(
            AlarmName="errors", HistoryItemType="Action", ScanBy="TimestampAscending"
        )
        return [item["HistorySummary"].split(" action")[0] for item in items["AlarmHistoryItems"]][:3]

    done = ["Successfully executed", "Successfully executed", "Failed to execute"]
    until(acted, lambda result: result == done, "what was done")
    changes = cloudwatch.describe_alarm_history(AlarmName="errors", HistoryItemType="StateUpdate")["AlarmHistoryItems"]
    assert changes[-1]["HistorySummary"] == "Alarm updated from INSUFFICIENT_DATA to OK"
    assert changes[-2]["HistorySummary"] == "Alarm updated from OK to ALARM"


def test_a_percentile_of_few_values_is_evaluated_or_ignored_as_asked(lab: AwsLab, cloudwatch):
    """Below 1,000 values a p99 has too few of them."""
    alarm = {"Namespace": SPACE, "MetricName": "few", "ExtendedStatistic": "p99", "Period": 10, "EvaluationPeriods": 1}
    alarm |= {"Threshold": 5.0, "ComparisonOperator": "GreaterThanThreshold"}
    for name in ("evaluate", "ignore"):
        cloudwatch.put_metric_alarm(AlarmName=name, EvaluateLowSampleCountPercentile=name, **alarm)
        [metric_alarm] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        assert metric_alarm["EvaluateLowSampleCountPercentile"] == name
    with pytest.raises(ClientError) as wrong:
        cloudwatch.put_metric_alarm(AlarmName="wrong", EvaluateLowSampleCountPercentile="skip", **alarm)
    assert "skip" in str(wrong.value)
    stop, times = threading.Event(), [1.0]

    def report() -> None:
        # A period must have a value when it is over.
        mine = lab.client("cloudwatch")
        while not stop.is_set():
            value = {"MetricName": "few", "Values": [9.0], "Counts": [times[0]], "StorageResolution": 1}
            mine.put_metric_data(Namespace=SPACE, MetricData=[value])
            stop.wait(1)

    reporting = threading.Thread(target=report)
    reporting.start()
    try:
        until(lambda: state_of(cloudwatch, "evaluate"), lambda state: state == "ALARM", "ten values")
        assert state_of(cloudwatch, "ignore") == "INSUFFICIENT_DATA"
        times[0] = 1_000.0
        until(lambda: state_of(cloudwatch, "ignore"), lambda state: state == "ALARM", "thousands of values")
    finally:
        stop.set()
        reporting.join()


def test_alarms_are_described_switched_tagged_and_deleted(lab: AwsLab, cloudwatch):
    alarm = {
        "Namespace": SPACE,
        "MetricName": "unheard-of",
        "Statistic": "Sum",
        "Period": 300,
        "EvaluationPeriods": 2,
        "Threshold": 1.0,
    }
    alarm |= {"ComparisonOperator": "LessThanThreshold", "TreatMissingData": "ignore"}
    for number in range(5):
        cloudwatch.put_metric_alarm(AlarmName=f"page-{number}", **alarm)
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmNamePrefix="page-", PaginationConfig={"PageSize": 2}
    )
    pages = [page["MetricAlarms"] for page in pages]
    assert [len(page) for page in pages] == [2, 2, 1]
    result = pages[0][0]
    assert {name: result[name] for name in alarm} == alarm
    assert (result["StateValue"], result["ActionsEnabled"]) == ("INSUFFICIENT_DATA", True)
    of_metric = cloudwatch.describe_alarms_for_metric(Namespace=SPACE, MetricName="unheard-of")["MetricAlarms"]
    assert len(of_metric) == 5
    cloudwatch.disable_alarm_actions(AlarmNames=["page-0", "not-there"])
    assert cloudwatch.describe_alarms(AlarmNames=["page-0"])["MetricAlarms"][0]["ActionsEnabled"] is False
    cloudwatch.enable_alarm_actions(AlarmNames=["page-0"])
    cloudwatch.set_alarm_state(AlarmName="page-0", StateValue="ALARM", StateReason="a drill", StateReasonData="{}")
    assert state_of(cloudwatch, "page-0") == "ALARM", "missing data is ignored: it stays"
    arn = result["AlarmArn"]
    cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    cloudwatch.untag_resource(ResourceARN=arn, TagKeys=["a"])
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    before = cloudwatch.describe_alarms(AlarmNamePrefix="page-")["MetricAlarms"]
    lab.down()
    lab.up()
    assert cloudwatch.describe_alarms(AlarmNamePrefix="page-")["MetricAlarms"] == before, "a restart forgets nothing"
    assert cloudwatch.list_metrics(Namespace=SPACE)["Metrics"], "nor the metrics that were put"
    cloudwatch.delete_alarms(AlarmNames=[f"page-{number}" for number in range(5)])
    assert cloudwatch.describe_alarms(AlarmNamePrefix="page-")["MetricAlarms"] == []


def test_alarms_and_their_history_by_pages_metrics_and_actions(lab: AwsLab, cloudwatch):
    """The calls of alarms can be narrowed by each of their filters, and return pages."""
    actions_of(lab, '[command.note]\nargv = ["/bin/true"]\n')
    action, space = f"{ACTION}command/note", "headrace/narrow"
    alarm = {"Namespace": space, "MetricName": "waits", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1.0}
    alarm |= {"ComparisonOperator": "GreaterThanThreshold", "Unit": "Seconds"}
    dimensions = [{"Name": "disk", "Value": "db"}]
    plain = {"AlarmName": "narrow-0", "Statistic": "Maximum", "InsufficientDataActions": [action]}
    tail = {"AlarmName": "narrow-1", "ExtendedStatistic": "p99.9", "Dimensions": dimensions, "OKActions": [action]}
    begun = datetime.now(UTC)
    for row in (plain, tail):
        cloudwatch.put_metric_alarm(**alarm, **row)
    metric_alarms = cloudwatch.describe_alarms(AlarmNames=["narrow-0", "narrow-1"])["MetricAlarms"]
    for details, row in zip(metric_alarms, (plain, tail), strict=True):
        assert {name: details[name] for name in (alarm | row)} == alarm | row
    assert len(cloudwatch.describe_alarms(ActionPrefix=action, AlarmNamePrefix="narrow-")["MetricAlarms"]) == 2
    assert cloudwatch.describe_alarms(ActionPrefix=f"{action}-of-nobody")["MetricAlarms"] == []
    assert cloudwatch.describe_alarms(AlarmTypes=["CompositeAlarm"])["MetricAlarms"] == []
    first = cloudwatch.describe_alarms(AlarmNamePrefix="narrow-", AlarmTypes=["MetricAlarm"], MaxRecords=1)
    second = cloudwatch.describe_alarms(AlarmNamePrefix="narrow-", MaxRecords=1, NextToken=first["NextToken"])
    names = [metric_alarm["AlarmName"] for page in (first, second) for metric_alarm in page["MetricAlarms"]]
    assert names == ["narrow-0", "narrow-1"] and "NextToken" not in second

    def on_metric(**more: Any) -> list[str]:
        members = cloudwatch.describe_alarms_for_metric(Namespace=space, MetricName="waits", **more)
        return [metric_alarm["AlarmName"] for metric_alarm in members["MetricAlarms"]]

    assert on_metric(Unit="Seconds") == ["narrow-0"] and on_metric(Unit="Bytes") == []
    assert on_metric(Dimensions=dimensions, ExtendedStatistic="p99.9") == ["narrow-1"]
    assert on_metric(Dimensions=dimensions, ExtendedStatistic="p50") == []
    history = {"AlarmName": "narrow-0", "StartDate": begun - timedelta(hours=1), "EndDate": begun + timedelta(hours=1)}
    cloudwatch.set_alarm_state(AlarmName="narrow-0", StateValue="OK", StateReason="a drill")
    whole = cloudwatch.describe_alarm_history(**history, AlarmTypes=["MetricAlarm"])["AlarmHistoryItems"]
    assert {item["HistoryItemType"] for item in whole} >= {"ConfigurationUpdate", "StateUpdate"}
    paged, token = [], {}
    while True:
        page = cloudwatch.describe_alarm_history(**history, MaxRecords=1, **token)
        paged += page["AlarmHistoryItems"]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert paged[-len(whole) :] == whole
    assert cloudwatch.describe_alarm_history(AlarmTypes=["CompositeAlarm"])["AlarmHistoryItems"] == []
    early = history | {"StartDate": begun - timedelta(days=2), "EndDate": begun - timedelta(days=1)}
    assert cloudwatch.describe_alarm_history(**early)["AlarmHistoryItems"] == []
    cloudwatch.put_metric_data(Namespace=space, MetricData=[{"MetricName": "waits", "Value": 1.0}])
    metrics = cloudwatch.list_metrics(Namespace=space, RecentlyActive="PT3H")["Metrics"]
    assert [metric["MetricName"] for metric in metrics] == ["waits"]
    cloudwatch.delete_alarms(AlarmNames=["narrow-0", "narrow-1"])


def test_alarms_are_refused_with_the_reason(lab: AwsLab, cloudwatch):
    alarm = {"AlarmName": "wrong", "Namespace": SPACE, "MetricName": "x", "Statistic": "Sum", "Period": 60}
    alarm |= {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "LessThanThreshold"}
    put = cloudwatch.put_metric_alarm
    actions_of(lab, "")  # an action that is not in the file is another refusal than a file that is not there
    for changes, code, words in (
        ({"AlarmActions": ["arn:aws:s3:::bucket"]}, "InvalidParameterValue", "arn:aws:s3"),
        ({"AlarmActions": ["page-me"]}, "InvalidParameterValue", "page-me"),
        ({"AlarmActions": [f"{ACTION}command/not-there"]}, "InvalidParameterValue", "command.not-there"),
        ({"Period": 45}, "InvalidParameterValue", "45"),
        ({"DatapointsToAlarm": 2}, "InvalidParameterValue", "DatapointsToAlarm"),
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "InvalidParameterValue", "GreaterThanUpperThreshold"),
        ({"EvaluationInterval": 60}, "InvalidParameterValue", "EvaluationInterval"),
    ):
        result, message = refused(put, **(alarm | changes))
        assert (result, words in message) == (code, True), (changes, message)
    # A command that is run must not be writable for other users.
    actions_of(lab, '[command.note]\nargv = ["/bin/true"]\n')
    (lab.folder / "actions.toml").chmod(0o666)
    assert "writable for its owner only" in refused(put, **(alarm | {"AlarmActions": [f"{ACTION}command/note"]}))[1]
    assert cloudwatch.describe_alarms(AlarmNames=["wrong"])["MetricAlarms"] == [], "nothing half-made"


def test_actions_of_aws_are_recorded_and_not_delivered(lab: AwsLab, cloudwatch):
    topic = "arn:aws:sns:us-east-1:000000000000:pages"
    alarm = {"AlarmName": "topic", "Namespace": SPACE, "MetricName": "none", "Statistic": "Sum", "Period": 60}
    alarm |= {"EvaluationPeriods": 1, "Threshold": 1.0, "ComparisonOperator": "LessThanThreshold"}
    cloudwatch.put_metric_alarm(**alarm, AlarmActions=[topic], OKActions=[topic])
    (metric_alarm,) = cloudwatch.describe_alarms(AlarmNames=["topic"])["MetricAlarms"]
    assert metric_alarm["AlarmActions"] == metric_alarm["OKActions"] == [topic]
    cloudwatch.set_alarm_state(AlarmName="topic", StateValue="ALARM", StateReason="a test")

    def list_actions() -> list[str]:
        items = cloudwatch.describe_alarm_history(AlarmName="topic", HistoryItemType="Action")["AlarmHistoryItems"]
        return [item["HistorySummary"] + item["HistoryData"] for item in items]

    (words,) = until(list_actions, bool)
    assert topic in words and "not delivered: the lab has no sns" in words
    cloudwatch.delete_alarms(AlarmNames=["topic"])


def test_times_that_do_not_follow_each_other_are_refused(cloudwatch):
    now = datetime.now(UTC)
    query = {"Id": "m", "MetricStat": {"Metric": {"Namespace": SPACE, "MetricName": "x"}, "Period": 60, "Stat": "Sum"}}
    for end, words in ((now, "must not equal"), (now - timedelta(hours=1), "must be less than")):
        times = {"StartTime": now, "EndTime": end}
        more = {"Namespace": SPACE, "MetricName": "x", "Period": 60, "Statistics": ["Sum"]}
        code, message = refused(cloudwatch.get_metric_statistics, **times, **more)
        assert (code, words in message) == ("InvalidParameterValue", True)
        code, message = refused(cloudwatch.get_metric_data, MetricDataQueries=[query], **times)
        assert (code, words in message) == ("ValidationError", True)


def test_a_volume_tells_events_and_has_a_statistics_page(lab: AwsLab):
    ec2, calls = lab.client("ec2"), Lab(lab.folder)
    cursor = calls.events_since("now")["cursor"]
    volume = ec2.create_volume(AvailabilityZone=lab.zone, Size=1, VolumeType="gp3")["VolumeId"]
    until(lambda: calls.describe(volume)["state"], lambda state: state == "available")
    calls.attach(volume)
    device = lab.device(volume)
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, 4096)
        for block in range(20):
            os.preadv(fd, [buffer], block * 4096)
    finally:
        os.close(fd)

    def reads() -> int:
        page = bytes.fromhex(calls.nvme_statistics(volume)["page_hex"])
        assert len(page) == 4096 and int.from_bytes(page[:4], "little") == 0x3C23B510
        return int.from_bytes(page[8:16], "little")

    # The loop device and udev read as well; rows are noted once a second.
    until(reads, lambda many: many >= 20, "reads on the page")
    calls.detach(volume)
    calls.delete(volume)

    def list_events() -> list[tuple[str, str]]:
        events = calls.events_since(cursor)["events"]
        assert all(event["source"] == "aws.ec2" and event["account"] == "000000000000" for event in events)
        assert all(event["resources"] == [f"arn:aws:ec2:us-east-1:000000000000:volume/{volume}"] for event in events)
        return [(event["detail"]["event"], event["detail"]["result"]) for event in events]

    assert list_events() == [
        ("createVolume", "available"),
        ("attachVolume", "attached"),
        ("detachVolume", "detached"),
        ("deleteVolume", "deleted"),
    ]
