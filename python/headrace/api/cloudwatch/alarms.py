"""Serves alarms: makes, lists, sets and switches them, with their history and tags."""

from __future__ import annotations

from headrace.api.cloudwatch.shown import alarm_of, tags_of, with_next
from headrace.api.declared import answer_of, arguments
from headrace.api.handling import ApiRequest, Members, serves

_NO_COMPOSITES = "the lab has no composite alarms"
_NO_BANDS = "the lab trains no model of normal values"
_NO_QUERIES = "the lab evaluates metrics and metric math only"
METRIC_ALARM = "MetricAlarm"


def _without_metric_alarms(request: ApiRequest) -> bool:
    """True when a request asks only for types of alarms that the lab does not have."""
    types = request.params.get("AlarmTypes")
    return bool(types) and METRIC_ALARM not in types


@serves(
    "cloudwatch",
    "PutMetricAlarm",
    handled="AlarmName AlarmDescription ActionsEnabled OKActions AlarmActions InsufficientDataActions MetricName"
    " Namespace Statistic ExtendedStatistic Dimensions Period Unit EvaluationPeriods DatapointsToAlarm Threshold"
    " ComparisonOperator TreatMissingData EvaluateLowSampleCountPercentile Metrics Tags",
    refused={
        "ThresholdMetricId": _NO_BANDS,
        "EvaluationWindow": "periods slide by a minute",
        "WarmUpConfiguration": "alarms are evaluated from the start",
        "EvaluationCriteria": _NO_QUERIES,
        "EvaluationInterval": "alarms are evaluated once a minute, or once a period where that is shorter",
        "ActionConfiguration": "actions are not given tags",
    },
)
def put_metric_alarm(request: ApiRequest) -> Members:
    """Makes an alarm, or replaces all of its configuration."""
    alarm = {name: value for name, value in request.params.items() if name != "Tags"}
    request.change("cloudwatch.put_alarm", alarm=alarm, tags=tags_of(request.params.get("Tags")))
    return {}


@serves(
    "cloudwatch",
    "DescribeAlarms",
    handled="AlarmTypes",
    refused={"ChildrenOfAlarmName": _NO_COMPOSITES, "ParentsOfAlarmName": _NO_COMPOSITES},
)
def describe_alarms(request: ApiRequest) -> Members:
    """Lists alarms by name."""
    if _without_metric_alarms(request):
        return {"MetricAlarms": [], "CompositeAlarms": []}
    answer = request.lab.call("cloudwatch.describe_alarms", **arguments(request))
    alarms = [alarm_of(alarm) for alarm in answer["alarms"]]
    return with_next({"MetricAlarms": alarms, "CompositeAlarms": []}, answer["next_token"])


@serves(
    "cloudwatch",
    "DescribeAlarmsForMetric",
    handled="MetricName Namespace Statistic ExtendedStatistic Dimensions Period Unit",
)
def describe_alarms_for_metric(request: ApiRequest) -> Members:
    """Lists the alarms on one metric alone."""
    answer = request.lab.call("cloudwatch.describe_alarms", metric=dict(request.params))
    return {"MetricAlarms": [alarm_of(alarm) for alarm in answer["alarms"]]}


@serves(
    "cloudwatch",
    "DescribeAlarmHistory",
    handled="AlarmTypes ScanBy",
    refused={"AlarmContributorId": "alarms of the lab have one series each"},
)
def describe_alarm_history(request: ApiRequest) -> Members:
    """Lists the events of alarms."""
    if _without_metric_alarms(request):
        return {"AlarmHistoryItems": []}
    oldest_first = request.params.get("ScanBy") == "TimestampAscending"
    answer = request.lab.call("cloudwatch.alarm_history", **arguments(request), oldest_first=oldest_first)
    items = [answer_of("alarm event", item) for item in answer["items"]]
    return with_next({"AlarmHistoryItems": items}, answer["next_token"])
