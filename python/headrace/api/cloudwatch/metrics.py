"""Serves metrics: takes values, lists names, computes statistics and expressions."""

from __future__ import annotations

from headrace.api.cloudwatch.shown import metric_of, moment, seconds, with_next
from headrace.api.handling import ApiRequest, Members, serves

_ONE_ACCOUNT = "the lab has one account"
_NO_ENTITIES = "the lab does not relate metrics to entities"


@serves(
    "cloudwatch",
    "PutMetricData",
    handled="Namespace MetricData",
    refused={"EntityMetricData": _NO_ENTITIES, "StrictEntityValidation": _NO_ENTITIES},
)
def put_metric_data(request: ApiRequest) -> Members:
    """Adds values: all of them, or none."""
    data = [
        {**datum, "Timestamp": seconds(datum["Timestamp"])} if datum.get("Timestamp") else datum
        for datum in request.params.get("MetricData", [])
    ]
    request.change("cloudwatch.put_metric_data", namespace=request.params["Namespace"], data=data)
    return {}


@serves(
    "cloudwatch",
    "ListMetrics",
    handled="Namespace MetricName Dimensions NextToken RecentlyActive",
    refused={"IncludeLinkedAccounts": _ONE_ACCOUNT, "OwningAccount": _ONE_ACCOUNT},
)
def list_metrics(request: ApiRequest) -> Members:
    """Lists metrics that have points."""
    params = request.params
    answer = request.lab.call(
        "cloudwatch.list_metrics",
        namespace=params.get("Namespace"),
        name=params.get("MetricName"),
        dimensions=params.get("Dimensions"),
        recently_active=params.get("RecentlyActive") == "PT3H",
        next_token=params.get("NextToken"),
    )
    return with_next({"Metrics": [metric_of(name) for name in answer["metrics"]]}, answer["next_token"])


@serves(
    "cloudwatch",
    "GetMetricStatistics",
    handled="Namespace MetricName Dimensions StartTime EndTime Period Statistics ExtendedStatistics Unit",
)
def get_metric_statistics(request: ApiRequest) -> Members:
    """Returns statistics of one metric."""
    params = request.params
    answer = request.lab.call(
        "cloudwatch.get_metric_statistics",
        namespace=params["Namespace"],
        name=params["MetricName"],
        start_s=seconds(params["StartTime"]),
        end_s=seconds(params["EndTime"]),
        period_s=params["Period"],
        dimensions=params.get("Dimensions"),
        statistics=params.get("Statistics"),
        extended=params.get("ExtendedStatistics"),
        unit=params.get("Unit"),
    )
    extended = "ExtendedStatistics" in params
    points = [
        {"Timestamp": moment(point["t_s"]), "Unit": point["unit"]}
        | ({"ExtendedStatistics": point["values"]} if extended else point["values"])
        for point in answer["datapoints"]
    ]
    return {"Label": answer["label"], "Datapoints": points}


@serves(
    "cloudwatch",
    "GetMetricData",
    handled="MetricDataQueries StartTime EndTime NextToken ScanBy MaxDatapoints",
    refused={"LabelOptions": "labels of the lab have no times in them"},
)
def get_metric_data(request: ApiRequest) -> Members:
    """Returns points of metrics and of expressions over them."""
    params = request.params
    answer = request.lab.call(
        "cloudwatch.get_metric_data",
        queries=params["MetricDataQueries"],
        start_s=seconds(params["StartTime"]),
        end_s=seconds(params["EndTime"]),
        scan_by=params.get("ScanBy"),
        max_datapoints=params.get("MaxDatapoints"),
        next_token=params.get("NextToken"),
    )
    results = [
        {
            "Id": result["id"],
            "Label": result["label"],
            "Timestamps": [moment(t_s) for t_s in result["times_s"]],
            "Values": result["values"],
            "StatusCode": result["status"],
        }
        for result in answer["results"]
    ]
    return with_next({"MetricDataResults": results, "Messages": []}, answer["next_token"])
