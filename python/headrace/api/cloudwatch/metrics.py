"""Serves metrics: takes values, lists names, computes statistics and expressions."""

from __future__ import annotations

from headrace.api.cloudwatch.shown import metric_of, moment, seconds, with_next
from headrace.api.declared import answer_of, arguments
from headrace.api.handling import ApiRequest, Members, serves

_ONE_ACCOUNT = "the lab has one account"
_NO_ENTITIES = "the lab does not relate metrics to entities"


@serves(
    "cloudwatch",
    "PutMetricData",
    handled="MetricData",
    refused={"EntityMetricData": _NO_ENTITIES, "StrictEntityValidation": _NO_ENTITIES},
)
def put_metric_data(request: ApiRequest) -> Members:
    """Adds values: all of them, or none."""
    data = [
        {**datum, "Timestamp": seconds(datum["Timestamp"])} if datum.get("Timestamp") else datum
        for datum in request.params.get("MetricData", [])
    ]
    request.change("cloudwatch.put_metric_data", **arguments(request), data=data)
    return {}


@serves(
    "cloudwatch",
    "ListMetrics",
    handled="RecentlyActive",
    refused={"IncludeLinkedAccounts": _ONE_ACCOUNT, "OwningAccount": _ONE_ACCOUNT},
)
def list_metrics(request: ApiRequest) -> Members:
    """Lists metrics that have points."""
    active = request.params.get("RecentlyActive") == "PT3H"
    answer = request.lab.call("cloudwatch.list_metrics", **arguments(request), recently_active=active)
    return with_next({"Metrics": [metric_of(name) for name in answer["metrics"]]}, answer["next_token"])


@serves("cloudwatch", "GetMetricStatistics")
def get_metric_statistics(request: ApiRequest) -> Members:
    """Returns statistics of one metric."""
    answer = request.lab.call("cloudwatch.get_metric_statistics", **arguments(request))
    extended = "ExtendedStatistics" in request.params
    points = [
        {"Timestamp": moment(point["t_s"]), "Unit": point["unit"]}
        | ({"ExtendedStatistics": point["values"]} if extended else point["values"])
        for point in answer["datapoints"]
    ]
    return {"Label": answer["label"], "Datapoints": points}


@serves("cloudwatch", "GetMetricData", refused={"LabelOptions": "labels of the lab have no times in them"})
def get_metric_data(request: ApiRequest) -> Members:
    """Returns points of metrics and of expressions over them."""
    answer = request.lab.call("cloudwatch.get_metric_data", **arguments(request))
    results = [answer_of("metric result", result) for result in answer["results"]]
    return with_next({"MetricDataResults": results, "Messages": []}, answer["next_token"])
