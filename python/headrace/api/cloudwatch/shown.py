"""Values of CloudWatch's API as the lab's calls have them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def seconds(moment: datetime | None) -> float | None:
    """A time in Unix seconds, as the lab's calls take it."""
    return None if moment is None else moment.timestamp()


def moment(unix_s: float) -> datetime:
    """A time of the lab's answers."""
    return datetime.fromtimestamp(unix_s, UTC)


def tags_of(listed: list[Mapping[str, str]] | None) -> dict[str, str]:
    """Tags by key."""
    return {tag["Key"]: tag["Value"] for tag in listed or []}


def metric_of(name: Mapping[str, Any]) -> dict[str, Any]:
    """A metric's name as the API shows it."""
    dimensions = [{"Name": key, "Value": value} for key, value in name["dimensions"].items()]
    return {"Namespace": name["namespace"], "MetricName": name["name"], "Dimensions": dimensions}


def alarm_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """An alarm as DescribeAlarms shows it: the members of PutMetricAlarm, and where it stands."""
    alarm = dict(found["alarm"])
    if "MetricName" in alarm:
        alarm.setdefault("Dimensions", [])
    alarm |= {
        "AlarmArn": found["arn"],
        "AlarmConfigurationUpdatedTimestamp": moment(found["configured_s"]),
        "StateValue": found["state"],
        "StateReason": found["reason"],
        "StateUpdatedTimestamp": moment(found["state_s"]),
        "StateTransitionedTimestamp": moment(found["transitioned_s"]),
    }
    if found["reason_data"] is not None:
        alarm["StateReasonData"] = found["reason_data"]
    return alarm


def with_next(answer: dict[str, Any], token: str | None) -> dict[str, Any]:
    """An answer with the token of the next page, if there is more."""
    return answer | ({"NextToken": token} if token else {})
