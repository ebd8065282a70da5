"""Evidence from every source, and what is wrong with what comes in: counters that go back, clocks
apart, restarts, volumes that are detached, files that are cut."""

from __future__ import annotations

import gzip
import json
import random
import statistics
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from types import SimpleNamespace

import pytest
from doctored import START, evidence

from headrace.errors import CouldNotRun, InputError
from headrace.lab.metrics import convert_volume_row
from headrace.mysql import parse_address
from headrace.observe.evidence import aws, evidence_file, model
from headrace.observe.evidence import server as reader
from headrace.observe.evidence import volumes as volumes_module
from headrace.observe.evidence.counters import explain_new_server, make_status_row
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.live import HostReader, LiveSource
from headrace.observe.evidence.model import SeenChannel, SeenVolume, SourceFacts, Tick, collect_evidence
from headrace.observe.evidence.source import KeptSource
from headrace.observe.evidence.volumes import DeviceVolumes, make_device_row
from headrace.observe.live import host
from headrace.observe.live.nvme import COUNTERS, NvmePage
from headrace.observe.remote.span import TimeSpan
from headrace.operate.doctor.diagnosis import diagnose
from headrace.operate.doctor.output import build_lines
from headrace.operate.targets import SourceOptions, open_live, read_evidence

# --- values ---------------------------------------------------------------------------------------


def test_ticks_are_put_in_order_and_the_first_of_a_moment_stays():
    facts = SourceFacts("x", "live", 1.0, "UTC", (SeenVolume("a"),))
    ticks = [
        Tick(START + 2, 1.0, {"a": {"queue": 2.0}}),
        Tick(START, 1.0, {"a": {"queue": 0.0}}),
        Tick(START, 1.0, {"a": {"queue": 9.0}}),
    ]
    rows = collect_evidence(facts, ticks).volumes[0].rows
    assert rows["t_unix"].to_list() == [START, START + 2] and rows["queue"].to_list() == [0.0, 2.0]


def test_every_source_gives_columns_of_a_tick_and_each_column_has_a_source():
    minute = aws.make_minute_row(dict.fromkeys(aws.CHECKS, 1.0), None)
    device = make_device_row("loop0", dict.fromkeys(host.FIELDS, 1.0), 1.0, None)
    assert {*convert_volume_row({}), *device, *minute} == set(model.VOLUME_COLUMNS)
    # Figures of the server's process and of its own clock, if it is on this machine.
    server = {*make_status_row({}, {}, 1.0, {}, 0), "server_cpus", "reading_s"}
    assert server == set(model.SERVER_COLUMNS)
    reader = HostReader()
    reader.read()
    assert set(reader.read()) <= set(model.HOST_COLUMNS)


def test_a_figure_that_is_missing_is_null_and_a_column_nobody_has_is_not_there():
    ticks = [
        Tick(START, 1.0, {"a": {"queue": 1.0, "read_ms": None}}),
        Tick(START + 1, 1.0, {"a": {"write_ms": 2.0}}),
        Tick(START + 2, 1.0),
    ]
    evidence = collect_evidence(SourceFacts("x", "live", 1.0, "UTC", (SeenVolume("a"),)), ticks)
    rows = evidence.volumes[0].rows
    assert rows.columns == ["t_unix", "duration_s", "queue", "write_ms"] and rows.height == 2
    assert rows["queue"].to_list() == [1.0, None] and not evidence.server.height


@pytest.mark.parametrize(
    ("storage", "instance", "expected"),
    [
        # data/volumes: gp3 includes 3,000 IOPS and 125 MiB/s; gp2 3 a GiB, 3,000 in a burst.
        ("gp3:500", None, (3_000, 3_000, 125, 125)),
        ("gp2:100", None, (300, 3_000, 128, 128)),
        ("2xgp2:100", None, (600, 6_000, 256, 256)),
        ("gp3:500:6000:250", "m4.large", (6_000, 6_000, 250, 250)),
    ],
)
def test_limits_that_hold(storage, instance, expected):
    limits = get_holding_limits(storage, instance)
    assert (limits.iops, limits.burst_iops, limits.bytes_s / 2**20, limits.burst_bytes_s / 2**20) == expected
    if instance:
        assert (limits.instance_iops, limits.instance_bytes_s) == (3_600, 56_250_000)


def test_large_requests_count_more_than_once():
    gp3 = get_holding_limits("gp3:500")
    assert gp3.compute_charged_rates(100.0, 0.0, 100.0, 0.0)[0] == 400.0  # a MiB is four I/Os of 256 KiB
    mirrored = get_holding_limits("raid10:4xgp3:100")
    assert mirrored.compute_charged_rates(100.0, 100.0, 1.0, 1.0)[0] == 300.0  # a write goes to two members


@pytest.mark.parametrize("storage", ["gp9:100", "io2:100:999999", "gp2:0", ""])
def test_storage_that_is_not_sold(storage):
    with pytest.raises(InputError):
        get_holding_limits(storage)


# --- counters -------------------------------------------------------------------------------------


def test_a_kernel_counter_that_wraps():
    """Milliseconds of /proc/diskstats are 32 bits wide."""
    before = {name: 0.0 for name in host.FIELDS} | {"read_ms": 2.0**32 - 100}
    now = before | {"reads": 50.0, "read_bytes": 50 * 16_384.0, "read_ms": 100.0}
    volumes = DeviceVolumes.__new__(DeviceVolumes)
    no_limits: dict[str, HoldingLimits | None] = {"nvme1n1": None}
    volumes._limits = no_limits
    volumes.notes = []
    row = volumes._make_row("nvme1n1", before, now, 1.0)
    assert row is not None and row["read_ms"] == pytest.approx(4.0) and not volumes.notes
    assert volumes._make_row("nvme1n1", now, before, 1.0) is None and "went back" in volumes.notes[0]


def test_flushes_are_no_ios_of_a_volume():
    change = {name: 0.0 for name in host.FIELDS} | {
        "writes": 30.0,
        "write_bytes": 20 * 16_384.0,
        "write_ms": 60.0,
        "flushes": 10.0,
    }
    row = make_device_row("nvme1n1", change, 2.0, None)
    assert (row["write_iops"], row["flush_iops"], row["read_ms"]) == (10.0, 5.0, None)


# --- a live server --------------------------------------------------------------------------------


class Server:
    """A server that answers from tables."""

    def __init__(self, variables=None, status=(), denied=(), clock=0.0, channels=()):
        self.variables = {
            "version": "10.11.6-MariaDB",
            "hostname": "elsewhere",
            "performance_schema": "OFF",
            "innodb_buffer_pool_size": "1",
        } | (variables or {})
        self.status, self.denied, self.clock = list(status), denied, clock
        self.statements, self.rows, self.description, self.channels = [], (), (), channels

    @contextmanager
    def cursor(self):
        yield self

    def execute(self, statement, _parameters):
        import pymysql

        self.statements.append(statement)
        if any(word in statement for word in self.denied):
            raise pymysql.err.OperationalError(1142, "SELECT command denied")
        self.description = ()
        if statement == "SHOW GLOBAL VARIABLES":
            self.rows = tuple(self.variables.items())
        elif statement.startswith("SHOW GLOBAL STATUS"):
            values = self.status.pop(0)
            if values is None:
                raise pymysql.err.OperationalError(2013, "Lost connection")
            self.rows = tuple(values.items())
        elif "UNIX_TIMESTAMP" in statement:
            self.rows = ((time.time() + self.clock,),)
        elif "PROCESSLIST" in statement:
            self.rows = ((0,),)
        elif "CURRENT_USER()" in statement:
            self.rows = (("monitor@%",),)
        elif statement.startswith("SHOW") and statement.endswith(("SLAVE STATUS", "SLAVES STATUS", "REPLICA STATUS")):
            named = "MariaDB" if "ALL" in statement else "MySQL" if "REPLICA" in statement else "old MySQL"
            version = self.variables["version"]
            old = version.startswith(("5.", "8.0.21"))
            if named != ("MariaDB" if "Maria" in version else "old MySQL" if old else "MySQL"):
                raise pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax")
            self.description = tuple((name,) for name in next(iter(self.channels), ()))
            self.rows = tuple(tuple(channel.values()) for channel in self.channels)
        else:
            self.rows = ()

    def fetchall(self):
        return self.rows

    def close(self):
        pass


@pytest.fixture
def server(monkeypatch):
    def make_server(**given):
        fake = Server(**given)
        monkeypatch.setattr(reader, "connect", lambda address, timeout: fake)
        return fake, reader.ServerReader(parse_address("mysql://monitor@db1"))

    return make_server


def status(uptime, **more):
    return {
        "Uptime": str(uptime),
        "Questions": str(100 * uptime),
        "Com_commit": str(50 * uptime),
        "Threads_running": "3",
    } | more


def test_one_statement_a_reading(server):
    fake, read = server(status=[status(10), status(11)])
    count = len(fake.statements)
    assert read.read()[0] == {}, "the first reading only begins the counters"
    row, _, took = read.read()
    assert len(fake.statements) == count + 2 and row["tps"] == pytest.approx(50 / took)
    assert row["threads_running"] == 2.0, "less the reader itself"


def test_performance_schema_off_and_no_privilege_are_named(server):
    _, read = server()
    assert any("performance_schema is off" in text for text in read.missing)
    _, read = server(variables={"performance_schema": "ON"}, denied=("events_waits",))
    assert any("GRANT SELECT ON performance_schema" in text for text in read.missing)


def channel(name, lag, delay=0, sql="Yes", io="Yes", names=("Slave", "Master")):
    who, source = names
    return {
        "Channel_Name": name,
        f"Seconds_Behind_{source}": lag,
        "SQL_Delay": delay,
        "Relay_Log_Space": 100,
        f"{who}_SQL_Running": sql,
        f"{who}_IO_Running": io,
    }


@pytest.mark.parametrize("version", ["10.11.6-MariaDB", "5.7.44-log", "8.0.21", "8.0.22", "9.7.0"])
def test_the_worst_of_all_channels_is_the_replica(server, version):
    """The first keeps up; the second is furthest behind; the third is late as it was told to be;
    the last is stopped, so its lag is not known."""
    names = ("Replica", "Source") if version in ("8.0.22", "9.7.0") else ("Slave", "Master")
    channels = [
        channel("a", 0, names=names),
        channel("b", 40, names=names),
        channel("late", 3_600, 3_600, names=names),
        channel("stopped", None, sql="No", names=names),
        channel("group_replication_recovery", None, sql="No", io="No", names=names),
    ]
    _, read = server(variables={"version": version}, channels=channels)
    assert read.facts.replica and not any("replica" in text for text in read.missing)
    assert read._ask_replica() == {
        "lag_s": 40.0,
        "delay_s": 0.0,
        "relay_log_bytes": 400.0,
        "sql_running": 0.0,
        "io_running": 1.0,
    }
    assert [(seen.name, seen.works) for seen in read.facts.channels] == [(a, True) for a in ("a", "b", "late")] + [
        ("stopped", False)
    ]


@pytest.mark.parametrize("version", ["10.11.6-MariaDB", "9.7.0"])
def test_a_channel_that_stops_is_seen_and_recorded_without_its_words(server, tmp_path, version):
    names = ("Replica", "Source") if version == "9.7.0" else ("Slave", "Master")
    well = {"Last_SQL_Errno": 0, "Last_SQL_Error": "", "Last_IO_Errno": 0, "Last_IO_Error": ""}
    error = well | {"Last_SQL_Errno": 1062, "Last_SQL_Error": "Duplicate entry 'secret'"}
    channels = [channel(name, 0, names=names) | well for name in ("a", "b")]
    seconds = [status(at) for at in range(10, 20)]
    fake, read = server(variables={"version": version}, channels=channels, status=seconds)
    source = LiveSource("mysql://db1", None, read, with_host=False)
    assert all(seen.works for seen in source.facts.server.channels)
    fake.channels[1] = channel("b", None, sql="No", names=names) | error
    collected = collect_ticks(source, 4)
    [first, second] = collected.facts.server.channels
    assert first.works
    assert second == SeenChannel("b", "on", "off", "1062: Duplicate entry 'secret'")
    assert [finding.subject for finding in diagnose(collected).findings][:1] == ["channel"]
    evidence_file.save(collected, tmp_path / "seen.jsonl")
    assert "secret" not in (tmp_path / "seen.jsonl").read_text()
    recorded = read_evidence(str(tmp_path / "seen.jsonl"))
    assert recorded.facts.server.channels[1].error == "1062"
    assert [finding.subject for finding in diagnose(recorded).findings][:1] == ["channel"]


def collect_ticks(source, readings):
    """Returns the evidence of some readings, each right after the one before."""
    ticks = [tick for _ in range(readings) for tick in source._read()]
    source.refresh()
    return collect_evidence(source.facts, ticks)


def test_a_replica_status_that_is_refused_is_named(server):
    _, read = server(denied=("SLAVES STATUS",))
    assert not read.facts.replica and any("whether the server is a replica" in text for text in read.missing)


def test_a_server_that_restarts_is_no_rate(server):
    _, read = server(status=[status(5_000), status(1), status(2)])
    read.read()
    assert read.read()[2] == 0.0 and "started again" in read.notes[0]
    assert read.read()[0]["tps"] > 0


def test_a_server_that_is_lost_is_asked_again(server):
    _, read = server(status=[status(5), None, status(7), status(8)])
    source = LiveSource("mysql://db1", None, read, with_host=False)
    assert source._read() == [] and source._read() == []
    assert "did not answer" in source.notes[0]
    assert source._read() == [] and source._read()[0].server["tps"] > 0


def test_two_clocks(server):
    _, read = server(clock=3_600.0)
    source = LiveSource("mysql://db1", None, read, with_host=False)
    assert "clock is +3,600 s" in source.notes[0] and source.facts.clocks_apart_s == pytest.approx(3_600, abs=2)
    _, read = server(clock=0.2)
    assert not LiveSource("mysql://db1", None, read, with_host=False).notes


def test_no_names_or_passwords_are_kept(server):
    _, read = server(
        variables={
            "datadir": "/secret/place",
            "report_password": "hunter2",
            "innodb_data_home_dir": "x" * 200,
            "sync_binlog": "1",
        }
    )
    assert dict(read.facts.variables) == {
        "performance_schema": "OFF",
        "innodb_buffer_pool_size": "1",
        "sync_binlog": "1",
    }


def test_a_volume_that_is_detached_while_it_is_watched(monkeypatch):
    disks = {"nvme1n1": {name: 1.0 for name in host.FIELDS}}
    monkeypatch.setattr(host, "read_disks", lambda names=None: {name: dict(row) for name, row in disks.items()})
    volumes = DeviceVolumes(["/dev/nvme1n1"], page=_no_page)
    volumes.read()
    disks["nvme1n1"]["reads"] += 10
    assert volumes.read()
    del disks["nvme1n1"]
    assert volumes.read() == {} and any("detached" in text for text in volumes.notes)
    assert not volumes.exact and any("inferred" in text for text in volumes.missing)


@pytest.mark.parametrize("seed", range(5))
def test_a_page_that_cannot_be_read_leaves_the_next_share_of_the_time_right(monkeypatch, seed):
    """The volume is over its limit for two fifths of the time; the next page that is read covers all
    the time since the last one."""
    draw, clock, broken = random.Random(seed), SimpleNamespace(now_s=0.0), set()
    fake = SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: clock.now_s)
    monkeypatch.setattr(volumes_module, "time", fake)
    monkeypatch.setattr(host, "read_disks", lambda names=None: {"nvme1n1": dict.fromkeys(host.FIELDS, clock.now_s)})

    def page(device):
        if clock.now_s in broken:
            raise CouldNotRun(device, "did not answer")
        return NvmePage("ebs", dict.fromkeys(COUNTERS, round(clock.now_s * 400_000)), {})

    volumes = DeviceVolumes(["/dev/nvme1n1"], page=page)
    shares = []
    for number in range(60):
        clock.now_s += draw.uniform(0.9, 1.6)
        if draw.random() < 0.4:
            broken.add(clock.now_s)
        for rows in volumes.read().values():
            share = rows["nvme1n1"].get("over_volume_iops")
            assert (share is None) == (clock.now_s in broken) and number
            shares += [] if share is None else [share]
    assert len(shares) > 10 and shares == pytest.approx([0.4] * len(shares), abs=1e-5)


def test_a_row_begins_with_its_interval_however_long_that_is(monkeypatch):
    """The first reading comes at any moment, the others a quarter of a second past a whole one; a
    server that does not answer holds them up."""
    clock = SimpleNamespace(now_s=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now_s, time=lambda: START + clock.now_s)
    monkeypatch.setattr(volumes_module, "time", fake)
    monkeypatch.setattr(host, "read_disks", lambda names=None: {"nvme1n1": dict.fromkeys(host.FIELDS, clock.now_s)})
    volumes = DeviceVolumes(["/dev/nvme1n1"], page=_no_page)
    source = LiveSource("/dev/nvme1n1", volumes, None, with_host=False)
    ticks = []
    for clock.now_s in (0.1, 0.25, 1.25, 2.25, 23.85, 24.25, 25.25):
        ticks += [(tick.t_unix - START, tick.duration_s) for tick in source._read()]
    assert ticks == [(-1.0, 1.0), (0.0, 1.0), (1.0, 1.0), (2.0, 21.0), (23.0, 1.0), (24.0, 1.0)]


def _no_page(device):
    raise InputError(device, "has no statistics page")


def test_a_device_over_others_is_said_to_be_one(monkeypatch):
    monkeypatch.setattr(host, "read_disks", lambda names=None: {"md0": {name: 1.0 for name in host.FIELDS}})
    volumes = DeviceVolumes(["md0"], page=_no_page)
    volumes.read_facts()
    assert "device over others" in volumes.notes[0]


def test_the_limits_of_a_log_device_are_its_own(monkeypatch):
    """gp3:20 for the logs has 3,000 IOPS; the data's 16,000 say nothing of it."""
    disks = {name: dict.fromkeys(host.FIELDS, 1.0) for name in ("nvme1n1", "nvme2n1")}
    monkeypatch.setattr(host, "read_disks", lambda names=None: disks)
    data, log = get_holding_limits("gp3:500:16000", None, None), get_holding_limits("gp3:20", None, None)
    for reference in (log, None):
        volumes = DeviceVolumes(["/dev/nvme1n1", "/dev/nvme2n1"], data, _no_page, "nvme2n1", reference)
        roles = {fact.name: (fact.role, fact.limits) for fact in volumes.read_facts()}
        assert roles == {"nvme1n1": ("data", data), "nvme2n1": ("log", reference)}
        volumes.read()
        assert set(next(iter(volumes.read().values()))) == {"nvme1n1", "nvme2n1"}


# --- AWS ------------------------------------------------------------------------------------------


class Cloud:
    """EC2 and CloudWatch, from tables; points come in two pages."""

    def __init__(self, points, storage="gp2", size=100, iops=300):
        self.points, self.volume = (
            points,
            {
                "VolumeId": "vol-1",
                "VolumeType": storage,
                "Size": size,
                "Iops": iops,
                "Attachments": [{"State": "attached", "InstanceId": "i-1", "Device": "/dev/sdf"}],
            },
        )
        self.pages = 0

    def __call__(self, service):
        return self

    def describe_volumes(self, VolumeIds):
        return {"Volumes": [self.volume] if "vol-1" in VolumeIds else []}

    def describe_volumes_modifications(self, VolumeIds):
        return {"VolumesModifications": []}

    def describe_instances(self, InstanceIds):
        return {"Reservations": [{"Instances": [{"InstanceId": "i-1", "InstanceType": "m5.large"}]}]}

    def get_metric_data(self, MetricDataQueries, StartTime, EndTime, NextToken=None):
        self.pages += 1
        results, half = [], len(MetricDataQueries) // 2
        metricdataqueries = MetricDataQueries[half:] if NextToken else MetricDataQueries[:half]
        for query in metricdataqueries:
            points = self.points.get(query["MetricStat"]["Metric"]["MetricName"], {})
            results.append(
                {
                    "Id": query["Id"],
                    "Timestamps": [datetime.fromtimestamp(at, UTC) for at in points],
                    "Values": list(points.values()),
                }
            )
        return {"MetricDataResults": results} | ({} if NextToken else {"NextToken": "more"})


def minutes(value, count=10):
    return {START + 60 * index: value for index in range(count)}


class KeptMinutes:
    """EC2 and CloudWatch of volumes, from what they published by volume and metric: longer periods
    join it by the statistic. `late_s`: by volume, how long before the end of a request its points
    end."""

    JOINED = {"Sum": sum, "Average": statistics.fmean, "Maximum": max}

    def __init__(self, published, late_s=None):
        self.published, self.late_s = published, late_s or {}

    def __call__(self, service):
        return self

    def describe_volumes(self, VolumeIds):
        attached = [{"State": "attached", "InstanceId": "i-1", "Device": "/dev/sdf"}]
        described = {"VolumeType": "gp2", "Size": 100, "Iops": 300, "Attachments": attached}
        return {"Volumes": [{"VolumeId": name} | described for name in VolumeIds]}

    def describe_volumes_modifications(self, VolumeIds):
        return {"VolumesModifications": []}

    def describe_instances(self, InstanceIds):
        return {"Reservations": [{"Instances": [{"InstanceId": "i-1", "InstanceType": "m5.large"}]}]}

    def get_metric_data(self, MetricDataQueries, StartTime, EndTime):
        results = []
        for query in MetricDataQueries:
            statistic = query["MetricStat"]
            name = statistic["Metric"]["Dimensions"][0]["Value"]
            published, end = self.published.get(name, {}), EndTime.timestamp() - self.late_s.get(name, 0.0)
            by_period = {}
            for at, value in published.get(statistic["Metric"]["MetricName"], {}).items():
                if StartTime.timestamp() <= at < end:
                    by_period.setdefault(at // statistic["Period"] * statistic["Period"], []).append(value)
            moments = [datetime.fromtimestamp(at, UTC) for at in by_period]
            values = [self.JOINED[statistic["Stat"]](part) for part in by_period.values()]
            results.append({"Id": query["Id"], "Timestamps": moments, "Values": values})
        return {"MetricDataResults": results}


@pytest.mark.parametrize(("days", "period_s", "every"), [(14, 60, 1), (28, 300, 5), (90, 3_600, 60)])
def test_a_check_of_a_longer_period_is_the_share_of_its_minutes(days, period_s, every):
    """One minute over the limit does not make an hour of it: 2 % of the time are no finding."""
    until = time.time() // 3_600 * 3_600
    over = {until - 60 * (minute + 1): float(minute % every == 0) for minute in range(240)}
    published = {"VolumeReadOps": dict.fromkeys(over, 18_000.0), "VolumeIOPSExceededCheck": over}
    cloud = KeptMinutes({"vol-1": published, "i-1": {"InstanceEBSIOPSExceededCheck": over}})
    evidence = aws.fetch_aws_evidence(["vol-1"], TimeSpan(days * 86_400.0, until), cloud)
    rows = evidence.volumes[0].rows
    assert set(rows["duration_s"]) == {period_s} and rows.height == 240 * 60 // period_s
    for column in ("over_volume_iops", "over_instance_iops"):
        assert rows[column].to_list() == pytest.approx([1 / every] * rows.height)
    assert (diagnose(evidence).verdict == "binds") == (every <= 5)


@pytest.mark.parametrize("span_s", [600.0, 900.0, 3_600.0, 7_200.0])
def test_each_volume_is_read_at_the_period_at_which_it_publishes(span_s):
    """vol-1 publishes the sums of five minutes and vol-2 those of each minute: neither changes the
    rates of the other, however short the time that is asked for."""
    until = time.time() // 300 * 300
    fives, ones = ([until - step * (number + 1) for number in range(10_800 // step)] for step in (300, 60))
    published = {
        "vol-1": {"VolumeReadOps": dict.fromkeys(fives, 30_000.0), "VolumeIdleTime": dict.fromkeys(fives, 150.0)},
        "vol-2": {
            "VolumeReadOps": {at: 600.0 * (at // 60 % 5) for at in ones},
            "BurstBalance": {at: 10.0 * (at // 60 % 5) for at in ones},
        },
    }
    cloud, span = KeptMinutes(published), TimeSpan(span_s, until)
    for names in (["vol-1"], ["vol-1", "vol-2"]):
        evidence = aws.fetch_aws_evidence(names, span, cloud)
        rows = evidence.volumes[0].rows
        assert evidence.facts.grain_s == 300 and rows.height == span_s // 300
        assert set(rows["read_iops"]) == {100.0} and set(rows["idle_share"]) == {None, 0.5}
    rows = evidence.volumes[1].rows
    assert rows.height == span_s // 300 and set(rows["read_iops"]) == {20.0} == set(rows["balance_percent"])
    alone = aws.fetch_aws_evidence(["vol-2"], span, cloud)
    assert alone.facts.grain_s == 60 and alone.volumes[0].rows.height == span_s // 60


@pytest.mark.parametrize("late", [0, 1, 3, 5])
def test_a_volume_whose_points_arrive_later_is_in_each_tick_and_in_the_verdict(late):
    """Each answer has newer minutes of vol-1 than of vol-2, which is over its limit."""
    until = time.time() // 60 * 60 - 600
    load = {until + 600 - 60 * (minute + 1): 18_000.0 for minute in range(120)}
    over = {"VolumeIOPSExceededCheck": dict.fromkeys(load, 1.0)}
    published = {"vol-1": {"VolumeReadOps": load}, "vol-2": {"VolumeReadOps": load} | over}
    cloud = KeptMinutes(published, {"vol-2": 60.0 * late})
    answers = (
        aws.fetch_aws_evidence(["vol-1", "vol-2"], TimeSpan(1_200.0, until + 60 * minute), cloud) for minute in range(6)
    )
    followed = KeptSource(next(answers), lambda: next(answers), every_s=0.0)
    ticks = list(islice(followed.stream_ticks(), 25 - late))
    assert [tick.t_unix for tick in ticks] == [until - 1_200 + 60 * minute for minute in range(25 - late)]
    assert all(set(tick.volumes) == {"vol-1", "vol-2"} for tick in ticks)
    diagnosis = diagnose(aws.fetch_aws_evidence(["vol-1", "vol-2"], TimeSpan(3_600.0, until), cloud))
    assert (diagnosis.verdict, diagnosis.findings[0].volume) == ("binds", "vol-2")


def test_a_volume_that_was_detached_does_not_hold_the_others_back():
    until = time.time() // 60 * 60
    load = {"VolumeReadOps": {until - 60 * (minute + 1): 18_000.0 for minute in range(120)}}
    cloud = KeptMinutes({"vol-1": load, "vol-2": load}, {"vol-2": 360.0})
    evidence = aws.fetch_aws_evidence(["vol-1", "vol-2"], TimeSpan(3_600.0, until), cloud)
    assert [volume.rows["t_unix"][-1] for volume in evidence.volumes] == [until - 60, until - 420]


def test_cloudwatch_every_page_and_what_it_says():
    points = {
        "VolumeReadOps": minutes(18_000.0),
        "VolumeReadBytes": minutes(18_000 * 16_384.0),
        "VolumeTotalReadTime": minutes(480.0),
        "VolumeQueueLength": minutes(8.0),
    }
    points |= {"BurstBalance": minutes(0.0), "VolumeIOPSExceededCheck": minutes(1.0)}
    cloud = Cloud(points)
    evidence = aws.fetch_aws_evidence(["vol-1"], TimeSpan(3600.0), cloud)
    assert cloud.pages == 2 and evidence.facts.instance == "m5.large" and evidence.facts.volumes[0].storage == "gp2:100"
    row = evidence.volumes[0].rows.row(0, named=True)
    assert (
        row["read_iops"] == 300.0
        and row["read_ms"] == pytest.approx(480 / 18_000 * 1e3)
        and row["over_volume_iops"] == 1.0
    )
    diagnosis = diagnose(evidence)
    assert (diagnosis.verdict, diagnosis.findings[0].subject) == ("binds", "volume-credits")
    assert any("blind below about half" in text for text in diagnosis.missing)


@pytest.mark.parametrize(("late", "rows"), [(2, 8), (5, 5), (6, 10)])
def test_counts_of_the_newest_minutes_that_have_not_arrived_are_not_zero(late, rows):
    points = {"VolumeReadOps": minutes(18_000.0, 10 - late), "VolumeWriteOps": minutes(600.0)}
    evidence = aws.fetch_aws_evidence(["vol-1"], TimeSpan(3600.0), Cloud(points))
    assert evidence.volumes[0].rows.height == rows
    assert evidence.volumes[0].rows["read_iops"][0] == 300.0


def test_what_bound_earlier_in_the_hour_is_told_with_its_clock_times():
    """Minutes 10 to 29 of 60 were over; the newest two, which are judged, were not."""
    over = {START + 60 * minute: float(10 <= minute < 30 and minute != 20) for minute in range(60)}
    points = {"VolumeReadOps": minutes(6_000.0, 60), "VolumeIOPSExceededCheck": over, "BurstBalance": minutes(90.0, 60)}
    points |= {"VolumeTotalReadTime": minutes(6.0, 60)}
    diagnosis = diagnose(aws.fetch_aws_evidence(["vol-1"], TimeSpan(3600.0), Cloud(points)))
    assert diagnosis.verdict == "fine" and (diagnosis.span_s, diagnosis.judged_s) == (3_600.0, 120.0)
    (earlier,) = diagnosis.earlier
    assert (earlier.verdict, earlier.subject, earlier.volume) == ("binds", "volume-iops", "vol-1")
    assert (earlier.from_unix, earlier.to_unix) == (START + 600, START + 1_800)
    clock = [datetime.fromtimestamp(START + at, UTC).strftime("%H:%M") for at in (600, 1_800)]
    assert f"{clock[0]} to {clock[1]} UTC" in earlier.words
    text = "\n".join(build_lines(diagnosis))
    assert f"Earlier: {earlier.words}." in text and "Judged: the newest 120 s." in text


def test_a_detached_volume_has_no_points_and_no_verdict():
    with pytest.raises(CouldNotRun, match="no point"):
        aws.fetch_aws_evidence(["vol-1"], TimeSpan(3600.0), Cloud({}))


def test_a_volume_of_another_account():
    with pytest.raises(InputError, match="not a volume of this account"):
        aws.fetch_aws_evidence(["vol-2"], TimeSpan(3600.0), Cloud({}))


def test_an_idle_minute_has_no_latency():
    row = aws.make_minute_row({"VolumeReadOps": 0.0, "VolumeTotalReadTime": 0.0, "VolumeIdleTime": 60.0}, None)
    assert row["read_ms"] is None and row["idle_share"] == 1.0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["seen.jsonl", "seen.jsonl.gz"])
def test_a_recording_gives_the_same_answer(tmp_path, name):
    collected = evidence({"over_volume_iops": 0.8, "read_ms": 20.0, "read_p50_ms": 20.0}, {"tps": 30.0})
    evidence_file.save(collected, tmp_path / name)
    again = read_evidence(str(tmp_path / name))
    assert again.demand is None and again.list_ticks() == collected.list_ticks() and again.facts == collected.facts
    assert diagnose(again).to_dict() == diagnose(collected).to_dict()


def test_a_recording_that_is_cut(tmp_path):
    collected = evidence()
    evidence_file.save(collected, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "b.jsonl").write_bytes(text[:-20])
    recorded = read_evidence(str(tmp_path / "b.jsonl"))
    assert len(recorded.list_ticks()) == len(collected.list_ticks()) - 1 and any(
        "cut off" in note for note in recorded.notes
    )
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(text)[:-30])
    with pytest.raises(InputError, match="cut off"):
        read_evidence(str(tmp_path / "c.jsonl.gz"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"t_unix": -1.0}, "line 4: t_unix = -1: must be seconds since 1970"),
        ({"t_unix": 1e3 * (START + 2)}, "line 4: t_unix = 1.79e+12: must be seconds since 1970"),
        ({"t_unix": START - 100.0}, "line 4: t_unix: lies 101 s before the tick above it"),
        ({"t_unix": START + 500 * 86_400.0}, "line 4: t_unix lies 500 days after the first tick"),
        ({"duration_s": 0.0}, "line 4: duration_s = 0.0 s: must be 1e-06 to 2,678,400 s"),
        ({"duration_s": 1e300}, "line 4: duration_s = 1e+300 s"),
        ({"volumes": {"db": {"read_iops": -1.0}}}, "line 4: volumes.db.read_iops = -1.0: must be 0 to 1e+15"),
        ({"server": {"tps": 1e300}}, "line 4: server.tps = 1e+300"),
        ({"host": {"user_cpus": -1.0}}, "line 4: host.user_cpus = -1.0"),
        ({"replica": {"lag_s": -1.0}}, "line 4: replica.lag_s = -1.0"),
    ],
)
def test_a_tick_that_no_source_gives_is_refused_with_its_line_and_field(tmp_path, change, words):
    """The other recordings have the same rule: `Recording.parse_number`."""
    path = tmp_path / "seen.jsonl"
    evidence_file.save(evidence(), path)
    lines = path.read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | change)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as error:
        read_evidence(str(path))
    assert words in str(error.value) and error.value.hint


@pytest.mark.parametrize(
    ("name", "value"), [("grain_s", 0.0), ("vcpus", 0), ("grain_s", 1e300), ("iops", -1.0), ("burst_bytes_s", 1e300)]
)
def test_facts_that_no_source_gives_are_refused(tmp_path, name, value):
    path = tmp_path / "seen.jsonl"
    evidence_file.save(evidence(), path)
    head, *ticks = path.read_text().splitlines()
    document = json.loads(head)
    holder = document["facts"] if name in document["facts"] else document["facts"]["volumes"][0]["limits"]
    holder[name] = value
    path.write_text("\n".join([json.dumps(document, separators=(",", ":")), *ticks]) + "\n")
    with pytest.raises(InputError, match=f"line 1.*{name}"):
        read_evidence(str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b'{"schema":"headrace-evidence/9","facts":{"target":"x","kind":"live","grain_s":1,"clock":"UTC"}}\n',
            "headrace-evidence/9",
        ),
        (b'{"schema":"headrace-evidence/1"}\n', "head of a recording"),
        (
            b'{"schema":"headrace-evidence/1","facts":{"target":"x","kind":"live","grain_s":1,"clock":"UTC"}}\n{"t_unix":"x"}\n{}\n',
            "line 2",
        ),
        (b"\x1f\x8bnonsense", "gzip"),
    ],
)
def test_a_recording_that_is_none(tmp_path, content, words):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_evidence(str(path))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("stamp", "given", "hour"),
    [
        ("2025-11-21T10:00:{:02}+0100", None, 9),
        ("2025-11-21T10:00:{:02}Z", None, 10),
        ("11/21/25 10:00:{:02}", None, 10),  # no zone is stated: as printed
        ("11/21/25 10:00:{:02}", "2025-11-21T10:00:00-05:00", 15),
    ],
)
def test_a_recording_begins_by_the_zone_of_its_clock(tmp_path, stamp, given, hour):
    head = "Device r/s rkB/s w/s wkB/s\n"
    reports = [f"{stamp.format(at)}\n{head}nvme1n1 {100 + at}.00 1600.00 5.00 80.00\n\n" for at in range(5)]
    path = tmp_path / "iostat.txt"
    path.write_text("Linux 6.1.0 (db1) \t11/21/25 \t_x86_64_\t(8 CPU)\n\n" + "".join(reports))
    rows = read_evidence(str(path), SourceOptions(clock_start=given)).volumes[0].rows
    printed = datetime(2025, 11, 21, hour, tzinfo=UTC).timestamp()
    # A report is stamped at the end of its second, and the first may be of the time since the boot.
    assert rows["t_unix"][0] == pytest.approx(printed, abs=1.0)


@pytest.mark.parametrize("target", ["nowhere.txt", "lab:", "lab:a,a", "aws:", "ftp://x"])
def test_a_target_that_is_none(target):
    with pytest.raises(InputError):
        read_evidence(target, SourceOptions(lab=lambda: None))
    with pytest.raises(InputError):
        open_live("file.txt")


def capture(folder, status_lines, disk_lines=None, extra=""):
    disk = 'disk = "disk.csv"\n' if disk_lines else ""
    (folder / "RUN.toml").write_text(
        f'format = "headrace-run"\nversion = 1\nname = "x"\nengine = "innodb"\nstorage = "gp2:100"\ncache_gib = 1.0\nthreads = 4\n{extra}'
        f'[benchmark]\nname = "own"\n[files]\nstatus = "status.csv"\n{disk}'
    )
    (folder / "status.csv").write_text("\n".join(status_lines) + "\n")
    if disk_lines:
        (folder / "disk.csv").write_text("\n".join(disk_lines) + "\n")
    return str(folder)


def test_a_captured_folder(tmp_path):
    lines = ["time,uptime,com_commit,questions,innodb_row_lock_time,threads_running"]
    lines += [f"{START + index},{100 + index},{50 * index},{200 * index},{1900 * index},5" for index in range(10)]
    disk = ["time,device,reads,read_bytes,read_ms,writes,write_bytes,write_ms,weighted_ms,io_ms"]
    disk += [
        f"{START + index},nvme1n1,{100 * index},{1_638_400 * index},{60 * index},0,0,0,{60 * index},{60 * index}"
        for index in range(10)
    ]
    recorded = read_evidence(capture(tmp_path, lines, disk, extra="[settings]\nbinlog = true\nsync_binlog = 1\n"))
    assert recorded.facts.server.variables["log_bin"] == "ON"
    assert recorded.facts.kind == "capture" and recorded.facts.volumes[0].storage == "gp2:100"
    assert recorded.server["tps"].to_list() == [50.0] * 9 and recorded.volumes[0].rows["read_ms"].to_list() == [0.6] * 9
    assert recorded.server["lock_waiters"].to_list() == pytest.approx([1.9] * 9)


def test_a_capture_over_a_restart_and_a_clock_set_back(tmp_path):
    lines = ["time,uptime,com_commit", f"{START},5000,100", f"{START + 1},1,3", f"{START + 2},2,8"]
    recorded = read_evidence(capture(tmp_path, lines))
    assert recorded.server.height == 1 and any("started again" in note for note in recorded.notes)
    lines = ["time,uptime,com_commit", f"{START},1,1", f"{START - 3600},2,3"]
    with pytest.raises(InputError, match="clock was set"):
        read_evidence(capture(tmp_path, lines))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["time,uptime,com_commit", f"{START},1,nan", f"{START + 1},2,3"], "finite"),
        (["time,uptime,com_commit", f"{START},1,-4", f"{START + 1},2,3"], "negative"),
        (["uptime,com_commit", "1,2"], "time"),
        (["time,uptime,com_commit", f"{START},1,4"], "no two samples"),
    ],
)
def test_a_capture_that_is_damaged(tmp_path, lines, words):
    with pytest.raises(InputError) as error:
        read_evidence(capture(tmp_path, lines))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"NextToken": "x"}, "NextToken"),
        ({"VolumeReadOps": [0.5, 0.5]}, "whole number"),
        ({"VolumeReadOps": [-5, 5]}, "negative"),
    ],
)
def test_cloudwatch_files_that_are_wrong(tmp_path, metrics, words):
    times = ["2026-11-20T09:00:00Z", "2026-11-20T09:05:00Z"]
    base = {name: [100, 100] for name in ("VolumeReadOps", "VolumeWriteOps")} | {
        name: [409_600, 409_600] for name in ("VolumeReadBytes", "VolumeWriteBytes")
    }
    base |= {name: values for name, values in metrics.items() if name != "NextToken"}
    document = {
        "MetricDataResults": [
            {"Id": f"m{at}", "Label": name, "Timestamps": times, "Values": values}
            for at, (name, values) in enumerate(base.items())
        ]
    }
    document |= {"NextToken": "x"} if "NextToken" in metrics else {}
    path = tmp_path / "cw.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        read_evidence(str(path))
    assert words in str(error.value)


def test_a_proxy_that_changes_the_server_is_noticed():
    """100,000 s and 900,000 s of uptime a second apart are two servers: their difference is no rate."""
    for before, now, took, words in (
        (100.0, 101.0, 1.0, ""),
        (100.0, 161.0, 60.0, ""),
        (100.0, 103.0, 1.0, ""),  # whole seconds of both, and half a second on the way
        (100_000.0, 900_000.0, 1.0, "another server"),
        (900_000.0, 100_000.0, 1.0, "started again"),
    ):
        assert words in explain_new_server({"uptime": before}, {"uptime": now}, took)
        assert bool(explain_new_server({"uptime": before}, {"uptime": now}, took)) == bool(words)
    assert explain_new_server({}, {"uptime": 1.0}, 1.0) == ""
