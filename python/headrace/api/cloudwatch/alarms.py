"""Serves alarms: makes, lists, sets and switches them, with their history and tags."""

from __future__ import annotations

from headrace.api.cloudwatch.shown import alarm_of, moment, seconds, tags_of, with_next
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
    handled="AlarmNames AlarmNamePrefix AlarmTypes StateValue ActionPrefix MaxRecords NextToken",
    refused={"ChildrenOfAlarmName": _NO_COMPOSITES, "ParentsOfAlarmName": _NO_COMPOSITES},
)
def describe_alarms(request: ApiRequest) -> Members:
    """Lists alarms by name."""
    params = request.params
    if _without_metric_alarms(request):
        return {"MetricAlarms": [], "CompositeAlarms": []}
    answer = request.lab.call(
        "cloudwatch.describe_alarms",
        names=params.get("AlarmNames"),
        prefix=params.get("AlarmNamePrefix"),
        state=params.get("StateValue"),
        action_prefix=params.get("ActionPrefix"),
        most=params.get("MaxRecords"),
        next_token=params.get("NextToken"),
    )
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


@serves("cloudwatch", "DeleteAlarms", handled="AlarmNames")
def delete_alarms(request: ApiRequest) -> Members:
    """Deletes alarms: all that are named, or none."""
    request.change("cloudwatch.delete_alarms", names=request.params["AlarmNames"])
    return {}


@serves("cloudwatch", "SetAlarmState", handled="AlarmName StateValue StateReason StateReasonData")
def set_alarm_state(request: ApiRequest) -> Members:
    """Sets a state until the alarm is evaluated again."""
    params = request.params
    request.change(
        "cloudwatch.set_alarm_state",
        name=params["AlarmName"],
        state=params["StateValue"],
        reason=params["StateReason"],
        reason_data=params.get("StateReasonData"),
    )
    return {}


@serves("cloudwatch", "EnableAlarmActions", handled="AlarmNames")
def enable_alarm_actions(request: ApiRequest) -> Members:
    """Switches actions on."""
    request.change("cloudwatch.enable_alarm_actions", names=request.params["AlarmNames"])
    return {}


@serves("cloudwatch", "DisableAlarmActions", handled="AlarmNames")
def disable_alarm_actions(request: ApiRequest) -> Members:
    """Switches actions off."""
    request.change("cloudwatch.disable_alarm_actions", names=request.params["AlarmNames"])
    return {}


@serves(
    "cloudwatch",
    "DescribeAlarmHistory",
    handled="AlarmName AlarmTypes HistoryItemType StartDate EndDate MaxRecords NextToken ScanBy",
    refused={"AlarmContributorId": "alarms of the lab have one series each"},
)
def describe_alarm_history(request: ApiRequest) -> Members:
    """Lists the events of alarms."""
    params = request.params
    if _without_metric_alarms(request):
        return {"AlarmHistoryItems": []}
    answer = request.lab.call(
        "cloudwatch.alarm_history",
        name=params.get("AlarmName"),
        kind=params.get("HistoryItemType"),
        start_s=seconds(params.get("StartDate")),
        end_s=seconds(params.get("EndDate")),
        oldest_first=params.get("ScanBy") == "TimestampAscending",
        most=params.get("MaxRecords"),
        next_token=params.get("NextToken"),
    )
    items = [
        {
            "AlarmName": item["name"],
            "AlarmType": METRIC_ALARM,
            "Timestamp": moment(item["t_s"]),
            "HistoryItemType": item["kind"],
            "HistorySummary": item["summary"],
            "HistoryData": item["data"],
        }
        for item in answer["items"]
    ]
    return with_next({"AlarmHistoryItems": items}, answer["next_token"])


@serves("cloudwatch", "ListTagsForResource", handled="ResourceARN")
def list_tags_for_resource(request: ApiRequest) -> Members:
    """Lists the tags of an alarm."""
    answer = request.lab.call("cloudwatch.alarm_tags", arn=request.params["ResourceARN"])
    return {"Tags": [{"Key": key, "Value": value} for key, value in answer["tags"].items()]}


@serves("cloudwatch", "TagResource", handled="ResourceARN Tags")
def tag_resource(request: ApiRequest) -> Members:
    """Sets tags of an alarm."""
    params = request.params
    request.change("cloudwatch.tag_alarm", arn=params["ResourceARN"], set=tags_of(params["Tags"]))
    return {}


@serves("cloudwatch", "UntagResource", handled="ResourceARN TagKeys")
def untag_resource(request: ApiRequest) -> Members:
    """Removes tags of an alarm."""
    params = request.params
    request.change("cloudwatch.tag_alarm", arn=params["ResourceARN"], remove=params["TagKeys"])
    return {}
