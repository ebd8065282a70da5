"""Serves CloudWatch: metrics and alarms. Every decision and all arithmetic are the daemon's; this
module changes names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from headrace.api.declared import collect_arguments, convert_answer
from headrace.api.handling import ApiRequest, Members, serves
from headrace.lab.calls import Alarm, MetricName

METRIC_ALARM = "MetricAlarm"


def _collect_tags(listed: list[Mapping[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in listed or []}


def _convert_metric(name: MetricName) -> Members:
    dimensions = [{"Name": key, "Value": value} for key, value in name["dimensions"].items()]
    return {"Namespace": name["namespace"], "MetricName": name["name"], "Dimensions": dimensions}


def _convert_alarm(description: Alarm) -> Members:
    """Returns an alarm as DescribeAlarms shows it: the members of PutMetricAlarm, and its state."""
    alarm = dict(description["alarm"])
    if "MetricName" in alarm:
        alarm.setdefault("Dimensions", [])
    alarm |= convert_answer("alarm state", description)
    if description["reason_data"] is not None:
        alarm["StateReasonData"] = description["reason_data"]
    return alarm


def _with_next(answer: Members, token: str | None) -> Members:
    return answer | ({"NextToken": token} if token else {})


@serves("cloudwatch", "PutMetricData")
def put_metric_data(request: ApiRequest) -> Members:
    """Adds values: all of them, or none."""
    data = [
        {**datum, "Timestamp": datum["Timestamp"].timestamp()} if datum.get("Timestamp") else datum
        for datum in request.params.get("MetricData", [])
    ]
    request.change("cloudwatch.put_metric_data", **collect_arguments(request), data=data)
    return {}


@serves("cloudwatch", "ListMetrics")
def list_metrics(request: ApiRequest) -> Members:
    """Lists metrics that have points."""
    active = request.params.get("RecentlyActive") == "PT3H"
    answer = request.lab.call("cloudwatch.list_metrics", **collect_arguments(request), recently_active=active)
    return _with_next({"Metrics": [_convert_metric(name) for name in answer["metrics"]]}, answer["next_token"])


@serves("cloudwatch", "GetMetricStatistics")
def get_metric_statistics(request: ApiRequest) -> Members:
    """Returns statistics of one metric."""
    answer = request.lab.call("cloudwatch.get_metric_statistics", **collect_arguments(request))
    extended = "ExtendedStatistics" in request.params
    points = [
        {"Timestamp": datetime.fromtimestamp(point["t_s"], UTC), "Unit": point["unit"]}
        | ({"ExtendedStatistics": point["values"]} if extended else point["values"])
        for point in answer["datapoints"]
    ]
    return {"Label": answer["label"], "Datapoints": points}


@serves("cloudwatch", "GetMetricData")
def get_metric_data(request: ApiRequest) -> Members:
    """Returns points of metrics and of expressions over them."""
    answer = request.lab.call("cloudwatch.get_metric_data", **collect_arguments(request))
    results = [convert_answer("metric result", result) for result in answer["results"]]
    return _with_next({"MetricDataResults": results, "Messages": []}, answer["next_token"])


def _without_metric_alarms(request: ApiRequest) -> bool:
    """Returns whether a request asks only for types of alarms that the lab does not have."""
    types = request.params.get("AlarmTypes")
    return bool(types) and METRIC_ALARM not in types


@serves("cloudwatch", "PutMetricAlarm")
def put_metric_alarm(request: ApiRequest) -> Members:
    """Makes an alarm, or replaces all of its configuration."""
    alarm = {name: value for name, value in request.params.items() if name != "Tags"}
    request.change("cloudwatch.put_alarm", alarm=alarm, tags=_collect_tags(request.params.get("Tags")))
    return {}


@serves("cloudwatch", "DescribeAlarms")
def describe_alarms(request: ApiRequest) -> Members:
    """Lists alarms by name."""
    if _without_metric_alarms(request):
        return {"MetricAlarms": [], "CompositeAlarms": []}
    answer = request.lab.call("cloudwatch.describe_alarms", **collect_arguments(request))
    alarms = [_convert_alarm(alarm) for alarm in answer["alarms"]]
    return _with_next({"MetricAlarms": alarms, "CompositeAlarms": []}, answer["next_token"])


@serves("cloudwatch", "DescribeAlarmsForMetric")
def describe_alarms_for_metric(request: ApiRequest) -> Members:
    """Lists the alarms on one metric alone."""
    answer = request.lab.call("cloudwatch.describe_alarms", metric=dict(request.params))
    return {"MetricAlarms": [_convert_alarm(alarm) for alarm in answer["alarms"]]}


@serves("cloudwatch", "DescribeAlarmHistory")
def describe_alarm_history(request: ApiRequest) -> Members:
    """Lists the events of alarms."""
    if _without_metric_alarms(request):
        return {"AlarmHistoryItems": []}
    oldest_first = request.params.get("ScanBy") == "TimestampAscending"
    answer = request.lab.call("cloudwatch.alarm_history", **collect_arguments(request), oldest_first=oldest_first)
    items = [convert_answer("alarm event", item) for item in answer["items"]]
    return _with_next({"AlarmHistoryItems": items}, answer["next_token"])
