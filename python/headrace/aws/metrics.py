"""Points of CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.aws.client import AwsAnswer, AwsClient, call

MOST_QUERIES = 500  # API_GetMetricData

Points = dict[float, float]  # value by the beginning of its period, Unix time, s


@dataclass(frozen=True)
class MetricOwner:
    """A volume or a database whose metrics are fetched: its `name` in the result, and namespace,
    dimension and value in CloudWatch. `statistics`: the statistic to fetch of each metric."""

    name: str
    namespace: str
    dimension: str
    value: str
    statistics: Mapping[str, str]


def fetch_points(
    cloudwatch: AwsClient, owners: Sequence[MetricOwner], begin: float, end: float, period: int
) -> dict[tuple[str, str], Points]:
    """Fetches points from CloudWatch, all pages, and returns them by owner's name and metric.
    `begin`, `end`: Unix time, s; `period`: of a point, s. Raises InputError, CouldNotRun."""
    queries, owners_and_metrics = [], {}
    for owner in owners:
        dimensions = [{"Name": owner.dimension, "Value": owner.value}]
        for metric, statistic in owner.statistics.items():
            key = f"q{len(queries)}"
            owners_and_metrics[key] = (owner.name, metric)
            metric_of_owner = {"Namespace": owner.namespace, "MetricName": metric, "Dimensions": dimensions}
            queries.append({"Id": key, "MetricStat": {"Metric": metric_of_owner, "Period": period, "Stat": statistic}})
    return {owners_and_metrics[key]: points for key, points in _fetch_pages(cloudwatch, queries, begin, end).items()}


def _fetch_pages(cloudwatch: AwsClient, queries: list[dict], begin: float, end: float) -> dict[str, Points]:
    """Fetches the points of queries from all pages, by the query's id. `begin`, `end`: Unix time,
    s. Raises InputError, CouldNotRun."""
    by_query: dict[str, Points] = {}
    for first in range(0, len(queries), MOST_QUERIES):
        arguments: AwsAnswer = {
            "MetricDataQueries": queries[first : first + MOST_QUERIES],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
        }
        while True:
            answer = call("CloudWatch", "cloudwatch:GetMetricData", cloudwatch.get_metric_data, **arguments)
            for result in answer["MetricDataResults"]:
                points = by_query.setdefault(result["Id"], {})
                for moment, value in zip(result["Timestamps"], result["Values"], strict=True):
                    points[moment.timestamp()] = float(value)
            if not answer.get("NextToken"):
                break
            arguments["NextToken"] = answer["NextToken"]
    return by_query
