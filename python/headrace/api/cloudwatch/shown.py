"""Converts values between CloudWatch's API and the lab's calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from headrace.api.declared import answer_of
from headrace.api.protocol.shapes import Members
from headrace.lab.calls import Alarm, MetricName


def seconds(moment: datetime | None) -> float | None:
    """Returns a time in Unix seconds, for the lab's calls."""
    return None if moment is None else moment.timestamp()


def moment(unix_s: float) -> datetime:
    """Returns a time of the lab's answers as a datetime."""
    return datetime.fromtimestamp(unix_s, UTC)


def tags_of(listed: list[Mapping[str, str]] | None) -> dict[str, str]:
    """Returns tags by key."""
    return {tag["Key"]: tag["Value"] for tag in listed or []}


def metric_of(name: MetricName) -> Members:
    """Returns a metric's name as the API shows it."""
    dimensions = [{"Name": key, "Value": value} for key, value in name["dimensions"].items()]
    return {"Namespace": name["namespace"], "MetricName": name["name"], "Dimensions": dimensions}


def alarm_of(description: Alarm) -> Members:
    """Returns an alarm as DescribeAlarms shows it: the members of PutMetricAlarm, and its state."""
    alarm = dict(description["alarm"])
    if "MetricName" in alarm:
        alarm.setdefault("Dimensions", [])
    alarm |= answer_of("alarm state", description)
    if description["reason_data"] is not None:
        alarm["StateReasonData"] = description["reason_data"]
    return alarm


def with_next(answer: Members, token: str | None) -> Members:
    """Returns an answer with the token of the next page, if there is another page."""
    return answer | ({"NextToken": token} if token else {})
