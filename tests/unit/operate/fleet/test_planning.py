"""A fleet: points from what AWS writes, the check on what is, and advice that equals the planner's.

Fleets come from a seed (benchmarks/seeded_fleet.py), so what each volume asks for is known. `FLEET`
says of how many volumes (`make soak`: 200)."""

from __future__ import annotations

import gzip
import json
import os
import random
from functools import cache

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import headrace
from headrace.cli.operate.fleet import app
from headrace.errors import InputError
from headrace.operate.fleet.answer import FleetSettings, build_answers_frame, make_answers, rank_answers
from headrace.operate.fleet.batch import answer_batch, is_weaker
from headrace.operate.fleet.history import DeviceHistory, build_history
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.inventory import parse_inventory
from headrace.operate.fleet.planning import plan_fleet
from headrace.operate.fleet.points import METRICS, SCHEMA, index_volumes, read_points, write_points
from headrace.operate.fleet.recordings import RecordingHints
from headrace.workload import OpenWorkload
from headrace.workload.points import make_points
from seeded_fleet import BEGIN, SeededFleet, seeded_fleet

VOLUMES = int(os.environ.get("FLEET", "24"))
QUICK = FleetSettings(fortnights=0)


@cache
def fleet() -> SeededFleet:
    return seeded_fleet(VOLUMES, 7)


@cache
def answers():
    return answer_batch(fleet().devices, fleet().points, QUICK)


# --- what is advised ------------------------------------------------------------------------------


def test_advice_is_the_planners_own_in_place_row():
    changed = [answer for answer in answers() if answer.verdict == "change"]
    assert len(changed) >= VOLUMES / 4
    # A volume at a limit gets no less of what it is short of, which the planner does not know.
    changed = [entry for entry in changed if not entry.censored_share and not entry.today_throttled_min]
    for member in random.Random(1).sample(changed, min(len(changed), max(4, VOLUMES // 10))):
        rows = fleet().points[member.key]
        reads, writes = rows["read_ops"] / 300, rows["write_ops"] / 300
        sizes = [
            (rows[f"{name}_bytes"] / rows[f"{name}_ops"] / 1024).fill_nan(0.0).to_list() for name in ("read", "write")
        ]
        points = make_points(
            rows["t_unix"] - BEGIN, rows["period_s"], reads, writes, *(np.maximum(size, 0.5) for size in sizes)
        )
        size_gib = float(member.today.split(":")[1])
        load = OpenWorkload(name="v", kind="constant", points=points, size_gib=size_gib)
        bound = max(QUICK.p99_ms, member.today_p99_ms or 0.0)
        goals = [f"p99_ms<={bound!r}", "throttled_min<=0", f"headroom_percent>={QUICK.headroom_percent}"]
        plan = headrace.plan(load, goals=goals, compare=member.today, free_percent=0, exclude="standard")
        assert plan.choices.in_place is not None
        assert member.proposed == plan.choices.in_place.storage
        assert member.usd_proposed == pytest.approx(plan.choices.in_place.cost_usd_month)


def test_what_is_advised_carries_the_demand_per_io():
    """Every request simulated over the busiest hours: nothing waits for a limit, and the p99 holds."""
    changed = rank_answers([answer for answer in answers() if answer.verdict == "change"])[: max(3, VOLUMES // 20)]
    for entry in changed:
        demand = fleet().demand[entry.key]
        busiest = int(np.argmax(np.convolve(demand[1] + demand[2], np.ones(6), "valid")))
        part = slice(busiest, busiest + 6)
        points = make_points(
            np.arange(6) * 300.0,
            demand[0][part],
            demand[1][part],
            demand[2][part],
            demand[3][part] / 1024,
            demand[4][part] / 1024,
        )
        run = headrace.simulate(OpenWorkload(name="v", kind="constant", points=points), entry.proposed, form="events")
        assert run.summary["p99_ms"] <= max(QUICK.p99_ms, entry.today_p99_ms or 0.0)


def test_nothing_shrinks_and_no_limited_volume_gets_less_of_what_it_is_short_of():
    devices = {device.key: device for device in fleet().devices}
    for answer in answers():
        if not answer.proposed:
            continue
        assert int(answer.proposed.split(":")[1]) >= int(answer.today.split(":")[1])
        assert (answer.verdict == "grow") == (answer.saves_usd < max(0.5, 0.02 * answer.usd_today))
        if answer.censored_share:
            short_of = build_history(devices[answer.key], fleet().points, 7).find_shortage(answer.today, None)
            assert any(short_of) and not is_weaker(answer.proposed, answer.today, None, short_of)


def test_an_answer_does_not_depend_on_its_batch():
    alone = [answer_batch([device], fleet().points, QUICK)[0] for device in fleet().devices[:6]]
    assert alone == answers()[:6]
    backwards = answer_batch(fleet().devices[5::-1], fleet().points, replaced(fortnights=3))
    assert backwards[::-1] == answer_batch(fleet().devices[:6], fleet().points, replaced(fortnights=3))


def replaced(**settings) -> FleetSettings:
    return FleetSettings(**{"fortnights": 0, **settings})


def test_answers_survive_their_table():
    assert make_answers(build_answers_frame(answers())) == list(answers())


# --- the check on what is -------------------------------------------------------------------------


def test_honest_volumes_are_believed():
    withheld = [answer for answer in answers() if answer.verdict == "withheld"]
    assert len(withheld) <= 0.05 * VOLUMES, [entry.why for entry in withheld]  # O12 of the specification


def test_lying_inventories_are_found():
    """gp2 volumes whose credits moved, said to be of another size: their balance is another."""
    moved = [
        volume
        for volume in fleet().inventory.volumes
        if volume.type == "gp2"
        and volume.size_gib <= 1_000
        and (fleet().points[volume.id]["balance_percent"] < 90).sum() > 12
    ]
    lies = []
    for entry in moved:
        for size in (entry.size_gib * 3, max(1, entry.size_gib // 3)):
            lies += [(entry, parse_inventory([described(entry, size)]).list_devices()[0])]
    if not lies:
        pytest.skip("no volume of this fleet has spent credits: FLEET=100 has some")
    answers = [answer_batch([lie], fleet().points, QUICK)[0] for _, lie in lies]
    caught = [answer for answer in answers if answer.verdict == "withheld" and answer.why.startswith("not modelled")]
    assert len(caught) >= 0.95 * len(lies), [(answer.today, answer.why) for answer in answers if answer not in caught]


def described(volume, size: int) -> dict:
    return {
        "VolumeId": volume.id, "VolumeType": "gp2", "Size": size, "Iops": max(100, 3 * size),
        "AvailabilityZone": "us-east-1a", "State": "in-use", "Attachments": [],
    }  # fmt: skip


def test_scrambled_points_are_found():
    """Points of a volume whose credits moved, in another order: the balance does not follow."""
    draw = random.Random(3)
    scrambled = {}
    for volume in fleet().inventory.volumes:
        rows = fleet().points[volume.id]
        # A volume whose credits are always gone gives one rate all day: in any order the same.
        if volume.type == "gp2" and (rows["balance_percent"] < 80).sum() > 48 and rows["balance_percent"].median() > 0:
            order = list(range(rows.height))
            draw.shuffle(order)
            ios = rows.select("read_ops", "write_ops", "read_bytes", "write_bytes")[order]
            scrambled[volume.id] = rows.with_columns(ios)
    if not scrambled:
        pytest.skip("no volume of this fleet has spent many credits: FLEET=100 has some")
    devices = [device for device in fleet().devices if device.key in scrambled]
    answers = answer_batch(devices, scrambled, QUICK)
    assert sum(answer.verdict == "withheld" for answer in answers) >= 0.95 * len(answers), [
        answer.why for answer in answers
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"MultiAttachEnabled": True, "VolumeType": "io2", "Iops": 3_000}, "several instances"),
        ({"Operator": {"Managed": True, "Principal": "workspaces"}}, "managed by"),
        ({"VolumeType": "gp4"}, "gp4"),
    ],
)
def test_strange_volumes_get_no_advice(changed, message):
    volume = fleet().inventory.volumes[0]
    device = parse_inventory([described(volume, 100) | changed]).list_devices()[0]
    (answer,) = answer_batch([device], fleet().points, QUICK)
    assert answer.verdict == "withheld" and message in answer.why


def test_an_instance_that_is_not_known_stops_its_own_volume_only():
    """New types appear before a catalog knows them: the others are answered as ever."""
    at = [{"Attachments": [{"InstanceId": f"i-{n:017x}", "Device": "/dev/sdf", "State": "attached"}]} for n in range(2)]
    described_at = [described(fleet().inventory.volumes[n], 100) | at[n] for n in range(2)]
    instances = [
        {"InstanceId": f"i-{n:017x}", "InstanceType": kind, "State": {"Name": "running"}, "Tags": []}
        for n, kind in enumerate(("m5.large", "zz9.large"))
    ]
    devices = parse_inventory(described_at, [{"OwnerId": "1", "Instances": instances}]).list_devices()
    idle = pl.lit(0.0).alias("read_ops"), pl.lit(0.0).alias("write_ops"), pl.lit(100.0).alias("balance_percent")
    points = {device.key: fleet().points[device.key].with_columns(*idle) for device in devices}
    reference, unknown = answer_batch(devices, points, QUICK)
    assert unknown.verdict == "withheld" and "zz9.large" in unknown.why
    assert reference == answer_batch(devices[:1], points, QUICK)[0] and reference.verdict != "withheld"


def test_short_and_missing_points_get_no_advice():
    device = fleet().devices[0]
    rows = fleet().points[device.key]
    short, none = {device.key: rows.head(100)}, {}
    holes = {device.key: rows.filter(pl.int_range(rows.height) % 3 > 0)}
    for points, message in ((short, "at least 7"), (none, "no points"), (holes, "33 %")):
        (answer,) = answer_batch([device], points, QUICK)
        assert answer.verdict == "withheld" and message in answer.why


def test_points_of_volumes_that_the_inventory_does_not_name(tmp_path):
    """Some are told, and the others answered; where all are strangers it is the wrong inventory."""
    points, messages = tmp_path / "points.parquet", []
    ids = [device.key for device in fleet().devices[:3]]
    write_points(points, [fleet().points[key] for key in sorted(ids)])
    inventory = parse_inventory(
        [described(volume, 100) for volume in fleet().inventory.volumes if volume.id in ids[:2]]
    )
    answers = plan_fleet(inventory, points, QUICK, tmp_path / "a.parquet", note=messages.append)
    assert [answer.key for answer in answers] == sorted(ids[:2]) and messages == [
        f"Points of volumes that are not in the inventory were left out: {ids[2]}."
    ]
    other = parse_inventory([described(fleet().inventory.volumes[9], 100)])
    assert other.volumes[0].id not in ids
    with pytest.raises(InputError, match="none of its 3 volumes is in the inventory"):
        plan_fleet(other, points, QUICK, tmp_path / "b.parquet", note=messages.append)
    assert not (tmp_path / "b.parquet").exists()


def test_weekends_are_no_spread_of_the_days():
    """Working days alike and weekends alike: drawn fortnights have the two levels and no other."""
    count = 14 * 288
    level = np.where(np.arange(count) // 288 % 7 >= 5, 50.0, 100.0)  # BEGIN is a Monday
    columns = {name: np.zeros(count) for name in DeviceHistory.COLUMNS} | {"reads_per_s": level}
    nothing = np.full(count, np.nan)
    history = DeviceHistory(BEGIN, 300.0, columns, nothing, nothing, (False, False), nothing, level, level, 0.0)
    drawn = history.sample_fortnights(5, 1)
    assert drawn is not None and set(drawn[1]) == {1.0} and len(drawn[0]) == 5 * 14 and set(drawn[0]) <= set(range(14))
    # Days of one kind that differ do spread.
    uneven = columns | {"reads_per_s": level * (1 + np.arange(count) // 288 % 2)}
    history = DeviceHistory(BEGIN, 300.0, uneven, nothing, nothing, (False, False), nothing, level, level, 0.0)
    spread = history.sample_fortnights(5, 1)
    assert spread is not None and spread[0] == drawn[0] and len(set(spread[1])) > 10


# --- the whole fleet, stopped and continued -------------------------------------------------------


def test_a_stopped_run_goes_on_and_ends_with_the_same_bytes(tmp_path, monkeypatch):
    from headrace.operate.fleet import planning

    monkeypatch.setattr(planning, "VOLUMES_AT_ONCE", 4)
    points = tmp_path / "points.parquet"
    write_points(points, fleet().points.values())
    whole = plan_fleet(fleet().inventory, points, QUICK, tmp_path / "whole.parquet")
    assert [entry.key for entry in whole] == sorted(volume.id for volume in fleet().inventory.volumes)
    numbers = []

    def stopped(batches, *rest):
        for number, content in planning.answer_in_process(batches, *rest):
            if len(numbers) == 2:
                raise KeyboardInterrupt
            numbers.append(number)
            yield number, content

    with pytest.raises(KeyboardInterrupt):
        plan_fleet(fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=stopped)
    counts = []

    def counted(batches, *rest):
        counts.append(len(batches))
        return planning.answer_in_process(batches, *rest)

    messages = []
    again = plan_fleet(
        fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=counted, answered=messages.append
    )
    # Answers are told as soon as they are there, those of the run before first, each once.
    assert sorted(key for frame in messages for key in frame["key"]) == [entry.key for entry in whole]
    total = len(list(planning.make_batches(fleet().inventory, index_volumes(points))))
    assert again == whole and counts == [total - 2]
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not (tmp_path / "again.parquet.parts").exists()
    other = replaced(p99_ms=9.0)
    plan_fleet(fleet().inventory, points, other, tmp_path / "again.parquet", runner=counted)
    assert counts[-1] == total  # other settings: nothing that was kept counts
    numbers.clear()
    with pytest.raises(KeyboardInterrupt):
        plan_fleet(fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=stopped)
    monkeypatch.setattr(planning, "__version__", "the next one")
    plan_fleet(fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=counted)
    assert counts[-1] == total  # nor what another version answered
    numbers.clear()
    with pytest.raises(KeyboardInterrupt):
        plan_fleet(fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=stopped)
    monkeypatch.setattr(planning, "SCHEMA", dict.fromkeys(planning.SCHEMA) | {"more": None})
    plan_fleet(fleet().inventory, points, QUICK, tmp_path / "again.parquet", runner=counted)
    assert counts[-1] == total  # nor answers of other columns, which cannot stand below these


# --- the points' file -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_volumes_are_found_and_read_wherever_they_lie(tmp_path, monkeypatch, seed):
    """Against a naive filter: volumes of any length, read in slices that cut them anywhere."""
    from headrace.operate.fleet import points as module

    chance = random.Random(seed)
    monkeypatch.setattr(module, "ROWS_AT_ONCE", chance.randint(1, 20))
    monkeypatch.setattr(module, "ROWS_OF_A_GROUP", chance.randint(1, 20))
    lengths = {f"vol-{chance.randrange(1 << 40):010x}": chance.randint(1, 30) for _ in range(chance.randint(1, 12))}
    names = [name for name, length in lengths.items() for _ in range(length)]
    rows = pl.DataFrame({"volume": names, "t_unix": np.arange(len(names), dtype=float)})
    rows = rows.with_columns(pl.lit(1.0).alias(name) for name in SCHEMA if name not in ("volume", "t_unix", "account"))
    rows = rows.with_columns(pl.lit("").alias("account")).select(list(SCHEMA))
    file = tmp_path / "points.parquet"
    write_points(file, [rows])
    places = index_volumes(file)
    assert list(places) == list(lengths) and [length for _, length in places.values()] == list(lengths.values())
    expected = chance.sample(list(lengths), chance.randint(1, len(lengths)))
    read = read_points(file, places, [*expected, "vol-elsewhere"])
    assert set(read) == set(expected)
    assert all(read[name].equals(rows.filter(pl.col("volume") == name)) for name in expected)
    if len(lengths) > 1:
        write_points(file, [pl.concat([rows, rows.head(1)])])
        with pytest.raises(InputError, match="several places"):
            index_volumes(file)


# --- import ---------------------------------------------------------------------------------------


def stream_line(volume: str, metric: str, at_s: float, figure: float, **more) -> str:
    entry = {"count": 1.0, "sum": figure, "max": figure, "min": figure}
    return json.dumps(
        {
            "metric_stream_name": "s", "account_id": "1", "region": "us-east-1", "namespace": "AWS/EBS", "metric_name": metric,
            "dimensions": {"VolumeId": volume}, "timestamp": int(at_s * 1000), "value": entry,
            "unit": "Bytes" if metric.endswith("Bytes") else "Count",
        }
        | more
    )  # fmt: skip


def stream(rows: pl.DataFrame) -> list[str]:
    return [
        stream_line(row["volume"], metric, row["t_unix"], row[column])
        for row in rows.iter_rows(named=True)
        for metric, (column, _) in METRICS.items()
        if row[column] == row[column]
    ]


def test_a_stream_in_any_order_with_repeated_lines_gives_the_points(tmp_path):
    heads = {point: fleet().points[point].head(40) for point in list(fleet().points)[:3]}
    lines = [line for rows in heads.values() for line in stream(rows)]
    lines += lines[::7]
    random.Random(1).shuffle(lines)
    with gzip.open(tmp_path / "stream.json.gz", "wt") as file:
        file.write("\n".join([*lines, '{"metric_stream_name": "cut o']))
    files = [tmp_path / "stream.json.gz"]
    volumes, rows, notes = import_points(files, tmp_path / "p.parquet", hints=RecordingHints(300.0))
    assert (volumes, rows) == (3, 120) and "cut off" in notes[0]
    tables = read_points(tmp_path / "p.parquet", index_volumes(tmp_path / "p.parquet"), list(heads))
    for name, given in heads.items():
        assert tables[name].drop("account").equals(given.drop("account"), null_equal=True)
        assert tables[name]["account"].unique().to_list() == ["1"]
    import_points([tmp_path / "p.parquet"], tmp_path / "again.parquet")
    assert pl.read_parquet(tmp_path / "again.parquet").equals(pl.read_parquet(tmp_path / "p.parquet"))


def test_pages_of_get_metric_data_newest_first(tmp_path):
    names = {"VolumeReadOps": 300.0, "VolumeWriteOps": 600.0, "VolumeReadBytes": 3e6, "VolumeWriteBytes": 6e6}
    times = [f"2026-03-02T00:{minute:02d}:00Z" for minute in (10, 5, 0)]
    page = {
        "MetricDataResults": [
            {"Id": f"m{index}", "Label": f"vol-0123456789abcdef0 {name}", "Timestamps": times, "Values": [value] * 3}
            for index, (name, value) in enumerate(names.items())
        ]
    }
    (tmp_path / "page.json").write_text(json.dumps(page))
    assert import_points([tmp_path / "page.json"], tmp_path / "p.parquet", period_s=300.0)[:2] == (1, 3)
    rows = pl.read_parquet(tmp_path / "p.parquet")
    assert rows["t_unix"].to_list() == [BEGIN, BEGIN + 300, BEGIN + 600] and rows["period_s"].unique().to_list() == [
        300
    ]
    (tmp_path / "page.json").write_text(json.dumps(page | {"NextToken": "more"}))
    with pytest.raises(InputError, match="more pages follow"):
        import_points([tmp_path / "page.json"], tmp_path / "q.parquet")
    assert not (tmp_path / "q.parquet").exists()


VOL = "vol-0123456789abcdef0"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([stream_line(VOL, "VolumeReadOps", BEGIN, -1.0)], "0 or more"),
        ([stream_line(VOL, "VolumeReadOps", BEGIN, 1.0, value={"count": 0, "sum": 1, "max": 1, "min": 1})], "above 0"),
        (
            ['{"metric_stream_name": "s", "metric_name": 5}', stream_line(VOL, "VolumeReadOps", BEGIN, 1.0)],
            "not a point",
        ),
        ([stream_line(VOL, "VolumeReadOps", BEGIN, 1.0, namespace="AWS/RDS")], "no points"),
    ],
)
def test_bad_lines_are_refused_and_nothing_is_written(tmp_path, lines, message):
    (tmp_path / "s.json").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=message):
        import_points([tmp_path / "s.json"], tmp_path / "p.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def test_cut_gzip_binary_and_two_accounts_are_refused(tmp_path):
    lines = "\n".join(stream(fleet().points[fleet().devices[0].key].head(40)))
    cut = gzip.compress(lines.encode())
    (tmp_path / "cut.json.gz").write_bytes(cut[: len(cut) // 2])
    (tmp_path / "other.bin").write_bytes((b"\x0a\x0a\x08" + b"\x00" * 8) * 20)
    both = [stream_line(VOL, metric, BEGIN, 1.0, account_id=account) for metric in METRICS for account in "12"]
    (tmp_path / "two.json").write_text("\n".join(both) + "\n")
    for name, message in (
        ("cut.json.gz", "cut off or damaged"),
        ("other.bin", "not a record of a metric stream in OpenTelemetry"),
        ("two.json", "one account"),
    ):
        with pytest.raises(InputError, match=message):
            import_points([tmp_path / name], tmp_path / "p.parquet", period_s=300.0)
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_of_a_stream_in_any_unit_of_time(tmp_path, unit):
    rows = [json.loads(line) for line in stream(fleet().points[fleet().devices[0].key].head(20))]
    frame = pl.DataFrame(rows).with_columns(pl.from_epoch("timestamp", "ms").dt.cast_time_unit(unit))
    frame.write_parquet(tmp_path / "s.parquet")
    import_points([tmp_path / "s.parquet"], tmp_path / "p.parquet", period_s=300.0)
    assert pl.read_parquet(tmp_path / "p.parquet")["t_unix"].to_list() == [BEGIN + 300 * index for index in range(20)]


def test_minutes_become_five_minutes(tmp_path):
    metrics = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes", "VolumeQueueLength")
    lines = [stream_line(VOL, metric, BEGIN + 60 * minute, 60.0) for minute in range(10) for metric in metrics]
    (tmp_path / "s.json").write_text("\n".join(lines) + "\n")
    import_points([tmp_path / "s.json"], tmp_path / "p.parquet", period_s=300, hints=RecordingHints(60.0))
    rows = pl.read_parquet(tmp_path / "p.parquet")
    assert rows["read_ops"].to_list() == [300, 300] and rows["queue"].to_list() == [60, 60]
    with pytest.raises(InputError, match="finer"):
        import_points([tmp_path / "p.parquet"], tmp_path / "q.parquet", period_s=60)


def test_members_of_an_array_are_one_device():
    """Two volumes in one array, each with half of the demand, get what one pair needs."""
    first = fleet().inventory.volumes[0]
    tags = [{"Key": "headrace:array", "Value": "md0"}]
    at = [{"InstanceId": "i-0123456789abcdef0", "Device": "/dev/sdf", "State": "attached"}]
    both = [
        described(first, 500) | {"VolumeId": f"vol-{index:017x}", "Tags": tags, "Attachments": at} for index in (1, 2)
    ]
    instance = {
        "InstanceId": "i-0123456789abcdef0",
        "InstanceType": "m5.xlarge",
        "State": {"Name": "running"},
        "Tags": [],
    }
    (device,) = parse_inventory(both, [{"OwnerId": "1", "Instances": [instance]}]).list_devices()
    rows = fleet().points[first.id].with_columns(
        pl.lit(float("nan")).alias("balance_percent"), pl.lit(0.0).alias("iops_exceeded"), pl.lit(0.0).alias("queue"),
        *(pl.lit(value).alias(name) for name, value in (("read_ops", 3e4), ("write_ops", 3e4), ("read_bytes", 5e8), ("write_bytes", 5e8))),
    )  # fmt: skip
    (answer,) = answer_batch([device], {member.id: rows for member in device.members}, QUICK)
    assert answer.today == "2xgp2:500" and answer.proposed == "2xgp3:500" and len(answer.volumes) == 2


def test_settings_are_checked():
    for bad in ({"p99_ms": 0.0}, {"headroom_percent": -1.0}, {"fortnights": -1}):
        with pytest.raises(InputError):
            replaced(**bad).validate()


def test_answers_are_printed_as_lines(tmp_path):
    """`--output jsonl`: the same answers as `--output json`, a line each."""
    some = [volume for volume in fleet().described if volume["VolumeId"] in sorted(fleet().points)[:3]]
    write_points(tmp_path / "points.parquet", [fleet().points[volume["VolumeId"]] for volume in some])
    (tmp_path / "volumes.json").write_text(json.dumps({"Volumes": some}))
    printed = {}
    for output in ("json", "jsonl"):
        command = ["plan", str(tmp_path / "points.parquet"), "--inventory", str(tmp_path / "volumes.json")]
        ran = CliRunner().invoke(app, [*command, "--to", str(tmp_path / f"{output}.parquet"), "--output", output])
        assert ran.exit_code == 0, ran.stderr
        printed[output] = ran.stdout
    lines = [json.loads(line) for line in printed["jsonl"].splitlines()]
    by_key = {load["key"]: load for load in json.loads(printed["json"])}
    assert len(lines) == 3 and {line["key"]: line for line in lines} == by_key
