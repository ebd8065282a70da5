"""aws:vol-... and aws:db-NAME through real clients of boto3: RDS answers in its wire format (query, XML), CloudWatch's and EC2's
answers are checked by botocore against their service models."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import boto3
import pytest
from botocore.config import Config
from botocore.stub import Stubber

from headrace.cli import main as cli
from headrace.errors import CouldNotRun, InputError
from headrace.observe.formats import ImportOptions, LoadedRecording
from headrace.observe.remote import aws
from headrace.observe.remote.span import TimeSpan
from headrace.operate.forecast.sources import read_target_demand
from headrace.operate.forecast.space import convert_free_space
from headrace.operate.targets import SourceOptions, read_evidence

VOLUME = "vol-0123456789abcdef0"
NOW = datetime.now(UTC).replace(second=0, microsecond=0)
MINUTES = 120
SETTINGS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "AKIAEXAMPLE",
    "aws_secret_access_key": "x",
    "config": Config(retries={"total_max_attempts": 1}),
}
# Answer of RDS to DescribeDBInstances (API version 2014-10-31), shortened to what an instance
# always has.
INSTANCE = """<DescribeDBInstancesResponse xmlns="http://rds.amazonaws.com/doc/2014-10-31/"><DescribeDBInstancesResult><DBInstances>
<DBInstance><DBInstanceIdentifier>{name}</DBInstanceIdentifier><DBInstanceClass>{kind}</DBInstanceClass><Engine>{engine}</Engine>
<DBInstanceStatus>available</DBInstanceStatus><AllocatedStorage>{size}</AllocatedStorage><StorageType>{storage}</StorageType>{more}
<MultiAZ>{multi_az}</MultiAZ><DbiResourceId>db-ABCDEFGHIJKLMNOPQRSTUVWXYZ</DbiResourceId></DBInstance></DBInstances>
</DescribeDBInstancesResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></DescribeDBInstancesResponse>"""
ERROR = """<ErrorResponse xmlns="http://rds.amazonaws.com/doc/2014-10-31/"><Error><Type>Sender</Type><Code>{code}</Code>
<Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"""
SHOP = {
    "name": "shop", "kind": "db.r6g.large", "engine": "mysql", "size": 500, "storage": "gp3", "multi_az": "true",
    "more": "<Iops>12000</Iops><StorageThroughput>500</StorageThroughput>",
}  # fmt: skip


class Rds(ThreadingHTTPServer):
    """An RDS of one instance; `denied`: of none, because nobody may ask."""

    def __init__(self, instance: dict, denied: bool = False) -> None:
        self.requests: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                content = handler.rfile.read(int(handler.headers["Content-Length"])).decode()
                request = {key: values[0] for key, values in parse_qs(content).items()}
                self.requests.append(request)
                code, body = 200, INSTANCE.format(**instance)
                if denied:
                    code, body = 403, ERROR.format(code="AccessDenied", message="is not authorized")
                elif request.get("DBInstanceIdentifier", instance["name"]) != instance["name"]:
                    code, body = 404, ERROR.format(code="DBInstanceNotFound", message="DBInstance not found.")
                handler.send_response(code)
                handler.send_header("Content-Type", "text/xml")
                handler.send_header("Content-Length", str(len(body.encode())))
                handler.end_headers()
                handler.wfile.write(body.encode())

            def log_message(handler, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def client(self):
        return boto3.client("rds", endpoint_url=f"http://127.0.0.1:{self.server_port}", **SETTINGS)


def answers(client, method: str, *responses: dict):
    """A client whose answers are these, each held against the service model."""
    stub = Stubber(client)
    for response in responses:
        stub.add_response(method, response)
    stub.activate()
    return client


def metric_data(figures: dict[str, float], metrics: list[str], minutes: int = MINUTES) -> dict:
    """An answer of GetMetricData: the same figure each minute, for the queries in their order."""
    times = [NOW - timedelta(minutes=minutes - number) for number in range(minutes)]
    results = []
    for number, metric in enumerate(metrics):
        recorded = metric in figures
        values = [figures[metric]] * minutes if recorded else []
        results.append({"Id": f"q{number}", "Label": metric, "Timestamps": times if recorded else [], "Values": values})
    return {"MetricDataResults": results}


RDS_METRICS = [*aws.RDS.needed, "BurstBalance", "DiskQueueDepth", "ReadLatency", "WriteLatency", *aws.RDS_HOST_METRICS]
RDS_FIGURES = {
    "ReadIOPS": 400.0, "WriteIOPS": 200.0, "ReadThroughput": 400 * 16_384.0, "WriteThroughput": 200 * 16_384.0,
    "ReadLatency": 0.0007, "WriteLatency": 0.0012, "DiskQueueDepth": 0.5, "CPUUtilization": 25.0,
    "FreeStorageSpace": 100 * 2.0**30,
}  # fmt: skip
EBS_METRICS = [*aws.EBS.needed, "VolumeQueueLength", "VolumeTotalReadTime", "VolumeTotalWriteTime", "VolumeIdleTime",
               "BurstBalance", *aws.CHECKS]  # fmt: skip
EBS_FIGURES = {"VolumeWriteOps": 6_000.0, "VolumeWriteBytes": 6_000 * 16_384.0, "VolumeTotalWriteTime": 6.0}
SPAN = TimeSpan(MINUTES * 60.0, NOW.timestamp())


@pytest.fixture
def rds() -> Iterator:
    running: list[Rds] = []

    def start(*given, **more) -> Rds:
        running.append(Rds(*given, **more))
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def clouded(monkeypatch):
    """Lets the clients of AWS be these."""

    def put(**clients) -> None:
        monkeypatch.setattr(aws, "open_client", lambda service: clients[service])

    return put


def cloudwatch(figures: dict[str, float], metrics: list[str]):
    return answers(boto3.client("cloudwatch", **SETTINGS), "get_metric_data", metric_data(figures, metrics))


def test_the_metrics_of_the_test_are_those_that_are_asked():
    """The stub answers queries by their order: a metric more or less would shift all of them."""
    metrics: list[str] = []

    class Asked:
        def get_metric_data(self, MetricDataQueries, **_):
            metrics.extend(
                metric_data_query["MetricStat"]["Metric"]["MetricName"] for metric_data_query in MetricDataQueries
            )
            raise InputError("seen", "enough")

    ec2 = boto3.client("ec2", **SETTINGS)
    described = [{"Volumes": [volume_of()]}]
    with pytest.raises(InputError, match="enough"):
        stubbed = {"ec2": answers(ec2, "describe_volumes", *described), "cloudwatch": Asked()}
        aws.fetch(f"aws:{VOLUME}", SPAN, stubbed.get)
    assert metrics == EBS_METRICS


# --- an RDS instance ------------------------------------------------------------------------------


def test_an_rds_instance_with_its_storage_and_class(rds, clouded):
    """500 GiB of gp3 are four volumes to RDS (data/managed/rds_storage.csv), and db.r6g.large is an r6g.large."""
    clouded(rds=rds(SHOP).client(), cloudwatch=cloudwatch(RDS_FIGURES, RDS_METRICS))
    recorded = read_evidence("aws:db-shop", SourceOptions(span=SPAN, storage="gp2:100"))
    volume = recorded.volumes[0]
    assert volume.facts.storage == "4xgp3:125:3000:125" and recorded.facts.instance == "r6g.large"
    assert recorded.demand.points["reads_per_s"].to_list() == [400.0] * MINUTES
    row = volume.rows.row(0, named=True)
    assert (row["read_ms"], row["write_ms"], row["queue"]) == (pytest.approx(0.7), pytest.approx(1.2), 0.5)
    # A quarter of two processors.
    assert recorded.host["user_cpus"].to_list() == [0.5] * MINUTES and recorded.facts.vcpus == 2
    assert any("--storage gp2:100 was not used" in note for note in recorded.notes)
    assert any("Multi-AZ" in note for note in recorded.notes)
    assert not any("named as" in note or "name such storage" in note for note in recorded.notes)


def test_forecast_knows_storage_and_instance_of_rds(rds, clouded):
    clouded(rds=rds(SHOP).client(), cloudwatch=cloudwatch(RDS_FIGURES, RDS_METRICS))
    demand = read_target_demand("aws:db-shop", SourceOptions(span=SPAN))
    assert (demand.load.name, demand.storage, demand.instance) == ("db-shop", "4xgp3:125:3000:125", "r6g.large")
    assert demand.space is None  # two hours are no week


def test_free_space_of_rds_is_used_space_of_days():
    """Eight days on 500 GiB: 100 GiB free, and 1 GiB less each day; the least of a day counts."""
    free = {
        86_400.0 * day + 3_600 * hour: (100 - day - 0.1 * (hour == 5)) * 2.0**30 for day in range(8) for hour in (2, 5)
    }
    history = convert_free_space("db-shop", free, 500.0)
    assert history.used_gib.tolist() == pytest.approx([400.1 + day for day in range(8)])
    assert convert_free_space("db-shop", dict(list(free.items())[:12]), 500.0) is None


@pytest.mark.parametrize(
    ("target", "name", "filters"),
    [
        ("aws:db-shop", "shop", ["shop"]),
        ("aws:db-shop", "db-shop", ["shop", "db-shop"]),  # an instance that is itself called so
    ],
)
def test_the_name_of_an_rds_instance(rds, target, name, filters):
    server = rds(SHOP | {"name": name})
    clients = {"rds": server.client(), "cloudwatch": cloudwatch(RDS_FIGURES, RDS_METRICS)}
    fetched = aws.fetch(target, SPAN, clients.get)
    assert [request["DBInstanceIdentifier"] for request in server.requests] == filters
    assert fetched.name == f"db-{name}"


def test_the_resource_id_of_an_rds_instance(rds):
    server = rds(SHOP)
    clients = {"rds": server.client(), "cloudwatch": cloudwatch(RDS_FIGURES, RDS_METRICS)}
    aws.fetch("aws:db-ABCDEFGHIJKLMNOPQRSTUVWXYZ", SPAN, clients.get)
    assert server.requests[0]["Filters.Filter.1.Name"] == "dbi-resource-id"


@pytest.mark.parametrize(
    ("instance", "storage", "caveat"),
    [
        ({"size": 100, "more": "<Iops>3000</Iops><StorageThroughput>125</StorageThroughput>"}, "gp3:100:3000:125", ""),
        ({"size": 1000, "storage": "io1", "more": "<Iops>8000</Iops>"}, "4xio1:250:2000", ""),
        ({"size": 100, "storage": "gp2", "more": ""}, "gp2:100", ""),
        ({"storage": "standard", "more": ""}, None, "has no limits that are known"),
        ({"engine": "aurora-mysql", "storage": "aurora", "size": 1, "more": ""}, None, "Aurora's storage"),
        ({"kind": "db.serverless"}, "4xgp3:125:3000:125", "is of no instance type"),
    ],
)
def test_storage_of_rds_in_the_words_of_ebs(rds, instance, storage, caveat):
    clients = {"rds": rds(SHOP | instance).client(), "cloudwatch": cloudwatch(RDS_FIGURES, RDS_METRICS)}
    fetched = aws.fetch("aws:db-shop", SPAN, clients.get)
    (description,) = fetched.described.values()
    assert description.storage == storage and (not caveat or any(caveat in note for note in fetched.notes))


def test_an_rds_instance_that_is_not_there(rds):
    with pytest.raises(InputError, match="no RDS instance nix") as caught:
        aws.fetch("aws:db-nix", SPAN, {"rds": rds(SHOP).client()}.get)
    assert "AWS_REGION" in caught.value.hint


def test_a_missing_permission_is_named(rds):
    with pytest.raises(InputError, match="AWS refuses") as caught:
        aws.fetch("aws:db-shop", SPAN, {"rds": rds(SHOP, denied=True).client()}.get)
    assert "rds:DescribeDBInstances" in caught.value.hint


def test_an_rds_instance_without_points(rds):
    clients = {"rds": rds(SHOP).client(), "cloudwatch": cloudwatch({}, RDS_METRICS)}
    with pytest.raises(CouldNotRun, match="has no point of"):
        aws.fetch("aws:db-shop", SPAN, clients.get)


# --- a volume -------------------------------------------------------------------------------------


def volume_of(**more) -> dict:
    attached = {"State": "attached", "InstanceId": "i-0123456789abcdef0", "Device": "/dev/sdf", "VolumeId": VOLUME}
    return {
        "VolumeId": VOLUME,
        "VolumeType": "gp3",
        "Size": 200,
        "Iops": 4000,
        "Throughput": 250,
        "Attachments": [attached],
    } | more


def ec2():
    client = boto3.client("ec2", **SETTINGS)
    stub = Stubber(client)
    stub.add_response("describe_volumes", {"Volumes": [volume_of()]})
    stub.add_client_error("describe_volumes_modifications", "InvalidVolumeModification.NotFound")
    instance = {"InstanceId": "i-0123456789abcdef0", "InstanceType": "m5.large"}
    stub.add_response("describe_instances", {"Reservations": [{"Instances": [instance]}]})
    stub.activate()
    return client


def test_a_volume_that_only_writes_has_no_reads_rather_than_no_recording():
    """On Xen a count of nothing is not published: it is zero while the other counts are there."""
    clients = {"ec2": ec2(), "cloudwatch": cloudwatch(EBS_FIGURES, EBS_METRICS)}
    fetched = aws.fetch(f"aws:{VOLUME}", SPAN, clients.get)
    workload = LoadedRecording(*fetched.make_readings()).build_workload()
    assert workload.points["writes_per_s"].to_list() == [100.0] * MINUTES
    assert workload.points["reads_per_s"].to_list() == [0.0] * MINUTES
    assert workload.points["write_await_ms"].to_list() == pytest.approx([1.0] * MINUTES)
    assert fetched.described[VOLUME].storage == "gp3:200:4000:250"
    assert fetched.described[VOLUME].instance == "m5.large"


def test_points_of_five_minutes_are_not_taken_for_minutes():
    """A volume that is monitored every five minutes answers each minute's question with the sum of five: the rate would be five
    times as high. Points that are missing here and there are holes."""
    every = [number for number in range(MINUTES) if (NOW - timedelta(minutes=MINUTES - number)).minute % 5 == 0]
    ragged = [number for number in range(MINUTES) if number % 7 < 3]
    for chosen, period, rate in ((every, 300.0, 20.0), (ragged, 60.0, 100.0)):
        answer = metric_data(EBS_FIGURES, EBS_METRICS)
        for metric_data_result in answer["MetricDataResults"]:
            for key in ("Timestamps", "Values"):
                metric_data_result[key] = [
                    value for number, value in enumerate(metric_data_result[key]) if number in chosen
                ]
        clients = {
            "ec2": ec2(),
            "cloudwatch": answers(boto3.client("cloudwatch", **SETTINGS), "get_metric_data", answer),
        }
        fetched = aws.fetch(f"aws:{VOLUME}", SPAN, clients.get)
        points = LoadedRecording(*fetched.make_readings()).build_workload(ImportOptions(gaps="zero")).points
        assert fetched.period_s == period and points["writes_per_s"].max() == rate


def test_import_of_a_volume(clouded, tmp_path, capsys):
    clouded(ec2=ec2(), cloudwatch=cloudwatch(EBS_FIGURES, EBS_METRICS))
    code = cli.main(["workload", "import", f"aws:{VOLUME}", "--last", "2h", "--to", str(tmp_path / "x.toml")])
    output = capsys.readouterr().out
    assert code == 0 and output.startswith(VOLUME) and "120 points of 60 s" in output
    assert "Source: CloudWatch" in output and (tmp_path / "x.toml").exists()


def test_cloudwatch_that_may_not_be_asked():
    client = boto3.client("cloudwatch", **SETTINGS)
    stub = Stubber(client)
    stub.add_client_error("get_metric_data", "AccessDenied", "not authorized", http_status_code=403)
    stub.activate()
    with pytest.raises(InputError, match="AWS refuses") as caught:
        aws.fetch(f"aws:{VOLUME}", SPAN, {"ec2": ec2(), "cloudwatch": client}.get)
    assert "cloudwatch:GetMetricData" in caught.value.hint


@pytest.mark.parametrize(
    ("span", "period"),
    [
        (TimeSpan(), 60),
        (TimeSpan(15 * 86_400.0), 60),
        (TimeSpan(28 * 86_400.0), 300),
        (TimeSpan(100 * 86_400.0), 3_600),
    ],
)
def test_the_period_is_one_that_is_still_kept(span, period):
    """Minutes for 15 days, five minutes for 63, hours for 455 (API_GetMetricStatistics)."""
    begin, end, step_s = aws.compute_bounds(span)
    # Ten minutes that are kept no longer, and two periods at the ends, are left out at the most.
    assert step_s == period and begin % period == 0 == end % period and span.last_s - (end - begin) <= 600 + 2 * period


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("aws:", "names no volume"),
        ("aws:vol-1,vol-1", "a volume twice"),
        ("aws:i-0123456789abcdef0", "is neither vol-... nor db-..."),
        ("aws:db-a,vol-1", "one RDS instance is read at a time"),
        ("aws:db-_", "is neither"),
    ],
)
def test_targets_that_are_none(target, message):
    with pytest.raises(InputError, match=message) as caught:
        aws.parse_names(target)
    assert caught.value.hint
