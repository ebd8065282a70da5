"""Points of a fleet from files of any form: what is taken for what, periods, accounts, and memory."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.errors import InputError
from headrace.operate.fleet import importing
from headrace.operate.fleet.importing import import_points
from headrace.operate.fleet.recordings import RecordingHints

BEGIN = 1_772_409_600  # 2026-03-02T00:00:00Z
VOL, OTHER = "vol-0123456789abcdef0", "vol-0123456789abcdef1"
SUMS = ("VolumeReadOps", "VolumeWriteOps", "VolumeReadBytes", "VolumeWriteBytes")


def page(begin: int, count: int, step_s: int, rate: float = 10.0, volume: str = VOL) -> str:
    """A page of get-metric-data: `rate` a second in each of the four."""
    times = [datetime.fromtimestamp(begin + step_s * at, UTC).isoformat() for at in range(count)]
    results = [
        {"Id": f"m{at}", "Label": f"{volume} {metric}", "Timestamps": times, "Values": [rate * step_s] * count}
        for at, metric in enumerate(SUMS)
    ]
    return json.dumps({"MetricDataResults": results})


def lines(begin: int, count: int, step_s: int, rate: float = 10.0, account: str = "1", volume: str = VOL) -> str:
    """A metric stream in JSON: `rate` a second in each of the four."""
    points = [
        point(volume, metric, begin + step_s * at, rate * step_s, account) for at in range(count) for metric in SUMS
    ]
    return "".join(json.dumps(point) + "\n" for point in points)


def point(volume: str, metric: str, at_s: float, figure: float, account: str = "1") -> dict[str, Any]:
    value = {"count": 1.0, "sum": figure, "max": figure, "min": figure}
    names = {"namespace": "AWS/EBS", "metric_name": metric, "dimensions": {"VolumeId": volume}}
    return {"metric_stream_name": "s", "account_id": account} | names | {"timestamp": int(at_s * 1000), "value": value}


def written(folder: Path, **files: str) -> list[Path]:
    """Files in the order given; those whose name ends with gz packed."""
    paths = []
    for name, text in files.items():
        path = folder / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        paths.append(path)
    return paths


def imported(
    folder: Path, files: list[Path], period_s: float | None = None, interval_s: float | None = 300.0
) -> pl.DataFrame:
    """The rows of an import; `interval_s`: of points that do not say their period."""
    import_points(files, folder / "points.parquet", period_s=period_s, hints=RecordingHints(interval_s))
    return pl.read_parquet(folder / "points.parquet")


# --- what a file is -------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 1])
def test_a_packed_page_is_a_page(tmp_path, indent):
    """The guide's first command; compact JSON is one line, and no line that is cut off."""
    text = json.dumps(json.loads(page(BEGIN, 4, 300)), indent=indent)
    plain = imported(tmp_path, written(tmp_path, page=text))
    assert plain.height == 4 and imported(tmp_path, written(tmp_path, page_gz=text)).equals(plain)
    beside = page(BEGIN, 4, 300, volume=OTHER)
    both = imported(tmp_path, written(tmp_path, other=beside, page_gz=text))
    assert sorted(both["volume"].unique()) == [VOL, OTHER]


def table(begin: int, count: int, step_s: int) -> str:
    """The console's CSV, with its line of periods: ten a second in each of the four."""
    heads = [["Label", *(f"{VOL} {metric}" for metric in SUMS)], ["Period", *[step_s] * 4]]
    rows = [[datetime.fromtimestamp(begin + step_s * at, UTC).isoformat(), *[10 * step_s] * 4] for at in range(count)]
    return "".join(",".join(map(str, row)) + "\n" for row in heads + rows)


def test_packed_csv_is_read_and_a_packed_stream_still(tmp_path):
    assert imported(tmp_path, written(tmp_path, csv_gz=table(BEGIN, 4, 300)), interval_s=None).height == 4
    assert imported(tmp_path, written(tmp_path, stream_gz=lines(BEGIN, 4, 300))).height == 4


@pytest.mark.parametrize("name", ["one", "one_gz"])
def test_an_only_line_is_never_called_cut_off(tmp_path, name):
    good = written(tmp_path, good=lines(BEGIN, 4, 300))
    bad = written(tmp_path, **{name: '{"metric_stream_name": "s", "metric_name": "VolumeRead'})
    with pytest.raises(InputError, match="not a point of a metric stream"):
        import_points([*good, *bad], tmp_path / "points.parquet")


# --- periods --------------------------------------------------------------------------------------


def rates(rows: pl.DataFrame) -> list[float]:
    """Returns the rate of each row, which all four counts share."""
    four = [rows[f"{name}"] / rows["period_s"] for name in ("read_ops", "write_ops", "read_bytes", "write_bytes")]
    assert all(entry.equals(four[0]) for entry in four)
    return [round(rate, 6) for rate in four[0].to_list()]


def stated(folder: Path, form: str, begin: int, count: int, step_s: int) -> list[Path]:
    """Points in a form that states their period: a CSV, or an import of what states none."""
    if form == "csv":
        return written(folder, **{f"csv-{begin}-{step_s}": table(begin, count, step_s)})
    text = (page if form == "page" else lines)(begin, count, step_s)
    to = folder / f"{form}-{begin}-{step_s}.parquet"
    import_points(written(folder, given=text), to, hints=RecordingHints(step_s))
    return [to]


PAIRS = [("csv", "csv"), ("csv", "page"), ("page", "stream"), ("stream", "csv"), ("page", "page")]


@pytest.mark.parametrize(("coarse", "fine"), PAIRS)
@pytest.mark.parametrize("begin", [BEGIN + 20 * 300, BEGIN + 300])  # behind the coarse ones, and over them
def test_points_of_two_periods_become_one_or_are_refused(tmp_path, coarse, fine, begin):
    """Ten a second throughout: of 300 s, taken as of 60 s, they were fifty."""
    files = stated(tmp_path, coarse, BEGIN, 20, 300) + stated(tmp_path, fine, begin, 100, 60)
    for order in (files, files[::-1]):
        with pytest.raises(InputError, match="the points of one volume must be of one period") as refused:
            import_points(order, tmp_path / "no.parquet")
        assert "--period 300" in refused.value.hint and VOL in refused.value.value
        rows = imported(tmp_path, order, period_s=300)
        assert set(rates(rows)) == {10.0} and rows["t_unix"].is_unique().all()
        assert set(rates(imported(tmp_path, order, period_s=600))) == {10.0}


@pytest.mark.parametrize("step_s", [60, 300])
@pytest.mark.parametrize("form", ["page", "stream", "parquet", "csv"])
def test_a_file_that_states_no_period_is_refused_and_works_with_one(tmp_path, form, step_s):
    """The refusal proposes the shortest step, and one point has none; with `--period` the file is imported."""
    if form == "parquet":
        stream_frame([(BEGIN + step_s * at) * 1000 for at in range(4)]).write_parquet(tmp_path / "given")
        files = [tmp_path / "given"]
    else:
        text = {"page": page, "stream": lines, "csv": table}[form](BEGIN, 4, step_s)
        files = written(tmp_path, given="".join(line for line in text.splitlines(True) if "Period" not in line))
    with pytest.raises(InputError, match="state no period") as refused:
        import_points(files, tmp_path / "no.parquet")
    assert (
        refused.value.value == f"given, {VOL}: points {step_s} s apart" and f"--period {step_s}" in refused.value.hint
    )
    rows = imported(tmp_path, files, period_s=step_s, interval_s=None)
    assert rows.height == 4 and set(rows["period_s"]) == {step_s}
    with pytest.raises(InputError, match="state no period") as refused:
        import_points(written(tmp_path, alone=page(BEGIN, 1, 300)), tmp_path / "no.parquet")
    assert refused.value.value == f"alone, {VOL}: points"


def test_periods_in_one_file_that_nothing_tells_apart(tmp_path):
    """Refused where the points lie no multiples of the period apart; as points of the shorter one the others leave holes,
    which is noted."""
    mixed = written(tmp_path, mixed=page(BEGIN, 100, 300) + "\n" + page(BEGIN + 100 * 300, 20, 60))
    with pytest.raises(InputError, match="must lie multiples of the period apart, which is given as 300 s") as refused:
        import_points(mixed, tmp_path / "no.parquet", period_s=300)
    assert refused.value.value == f"mixed, {VOL}: points 60 s apart" and "--interval 60" in refused.value.hint
    _, _, notes = import_points(mixed, tmp_path / "p.parquet", hints=RecordingHints(60.0))
    assert f"{VOL} has points in 120 of 520 periods of 60 s: most periods were taken as holes." in notes[0]


def demand_lines(figures: Mapping[int, float]) -> str:
    """A stream in which the four sums have these figures at these times."""
    points = [point(VOL, metric, at, figure) for at, figure in figures.items() for metric in SUMS]
    return "".join(json.dumps(point) + "\n" for point in points)


@pytest.mark.parametrize("seed", range(8))
def test_corrections_are_no_other_period(tmp_path, seed):
    """The last minute of each delivery is sent again, with what came late: evenly apart as points of five minutes are, and
    the last one read counts, as a plain dictionary has it."""
    chance = random.Random(seed)
    minutes = {BEGIN + 60 * at: float(chance.randrange(1, 9_000)) for at in range(240)}
    every = chance.choice([1, 5, 10])
    late = {at: round(figure * chance.uniform(0.9, 1.6)) for at, figure in list(minutes.items())[::every]}
    rows = imported(tmp_path, written(tmp_path, stream=demand_lines(minutes) + demand_lines(late)), interval_s=60)
    assert dict(zip(rows["t_unix"].to_list(), rows["read_ops"].to_list(), strict=True)) == minutes | late


@pytest.mark.parametrize(("step_s", "period_s"), [(60, 90), (300, 450), (60, 1000)])
def test_a_period_that_is_not_a_multiple_is_refused(tmp_path, step_s, period_s):
    """Points of 60 s made 90 s were sums of two and of one in turn."""
    with pytest.raises(InputError, match="not a multiple") as refused:
        imported(tmp_path, written(tmp_path, page=page(BEGIN, 20, step_s)), period_s, step_s)
    assert f"points of {step_s} s" in refused.value.value and "--period" in refused.value.hint


def test_holes_make_no_other_period(tmp_path):
    """A tenth of the minutes is missing, in pages of any length: 60 s all the same, and no rate changes."""
    chance = random.Random(3)
    whole = [json.loads(line) for line in lines(BEGIN, 2000, 60).splitlines()]
    gone = {BEGIN + 60 * at for at in range(2000) if chance.random() < 0.1}
    text = "".join(json.dumps(row) + "\n" for row in whole if row["timestamp"] / 1000 not in gone)
    files = written(tmp_path, stream=text)
    rows = imported(tmp_path, files, interval_s=60)
    assert set(rows["period_s"]) == {60.0} and rows.height == 2000 - len(gone)
    rows = imported(tmp_path, files, period_s=300, interval_s=60)
    assert set(rates(rows)) == {10.0} and rows.height >= 390


def test_short_pages_of_one_query_are_of_one_period(tmp_path):
    """Fetched every ten minutes: two points a file, and one of them once."""
    begins = [BEGIN + 600 * at for at in range(10)]
    files = written(tmp_path, **{f"page-{begin}": page(begin, 1 if begin == BEGIN else 2, 300) for begin in begins})
    rows = imported(tmp_path, files)
    assert rows.height == 19 and set(rates(rows)) == {10.0} and set(rows["period_s"]) == {300.0}


# --- accounts -------------------------------------------------------------------------------------


def test_a_page_tells_no_account_and_agrees_with_any(tmp_path):
    files = written(tmp_path, page=page(BEGIN, 4, 300), stream=lines(BEGIN + 1200, 4, 300, account="111111111111"))
    for order in (files, files[::-1]):
        rows = imported(tmp_path, order)
        assert rows.height == 8 and rows["account"].unique().to_list() == ["111111111111"]
    files += written(tmp_path, other=lines(BEGIN, 4, 300, account="222222222222"))
    with pytest.raises(InputError, match="belongs to one account") as refused:
        imported(tmp_path, files)
    assert refused.value.value == f"{VOL} in accounts 111111111111, 222222222222"


# --- Parquet --------------------------------------------------------------------------------------


def stream_frame(times: list[int] | None = None, **more: Any) -> pl.DataFrame:
    """Two periods of a metric stream, as Firehose writes them."""
    times = times or [(BEGIN + 300 * at) * 1000 for at in range(2)]
    rows = [point(VOL, metric, BEGIN, 3000.0) | {"timestamp": at} | more for at in times for metric in SUMS]
    return pl.DataFrame(rows)


def test_dimensions_may_be_a_map(tmp_path):
    """Glue's map is a list of key and value in Parquet."""
    dimensions = [{"key": "Other", "value": "x"}, {"key": "VolumeId", "value": VOL}]
    stream_frame(dimensions=dimensions).write_parquet(tmp_path / "map.parquet")
    stream_frame().write_parquet(tmp_path / "struct.parquet")
    rows = imported(tmp_path, [tmp_path / "map.parquet"])
    assert rows.height == 2 and rows.equals(imported(tmp_path, [tmp_path / "struct.parquet"]))


STRANGE = {
    "microseconds": (stream_frame([BEGIN * 10**6, (BEGIN + 300) * 10**6]), "between 2006"),
    "nanoseconds": (stream_frame([BEGIN * 10**9, (BEGIN + 300) * 10**9]), "between 2006"),
    "seconds": (stream_frame([BEGIN, BEGIN + 300]), "between 2006"),
    "dimensions as text": (stream_frame(dimensions="VolumeId=x"), "must be a struct with VolumeId"),
    "other dimensions": (stream_frame(dimensions={"InstanceId": "i-1"}), "must be a struct with VolumeId"),
    "values as numbers": (stream_frame(value=1.0), "must be a struct with count"),
    "times as text": (stream_frame(timestamp="2026-03-02"), "must be a timestamp"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_parquet_of_another_form_is_refused(tmp_path, case):
    frame, rule = STRANGE[case]
    frame.write_parquet(tmp_path / "given.parquet")
    with pytest.raises(InputError) as refused:
        import_points([tmp_path / "given.parquet"], tmp_path / "no.parquet")
    assert rule in refused.value.rule and refused.value.value.startswith("given.parquet: ") and refused.value.hint


def test_times_of_a_stream_in_another_unit_are_refused(tmp_path):
    text = "".join(json.dumps(point(VOL, metric, BEGIN * 1000, 1.0)) + "\n" for metric in SUMS)
    with pytest.raises(InputError, match="between 2006") as refused:
        import_points(written(tmp_path, stream=text), tmp_path / "no.parquet")
    assert refused.value.value.startswith("stream, line 1: VolumeReadOps at ")


def test_damaged_parquet_is_refused(tmp_path):
    """Cut or overwritten anywhere: refused, or read where the damage is in what is not used."""
    imported(tmp_path, written(tmp_path, page=page(BEGIN, 500, 300)))
    whole = (tmp_path / "points.parquet").read_bytes()
    chance = random.Random(4)
    for _ in range(40):
        cut = chance.randrange(4, len(whole))
        at = chance.randrange(4, len(whole) - 8)
        other = bytes(chance.randrange(256) for _ in range(8))
        for content, sure in ((whole[:cut], True), (whole[:at] + other + whole[at + 8 :], False)):
            (tmp_path / "damaged.parquet").write_bytes(content)
            try:
                import_points([tmp_path / "damaged.parquet"], tmp_path / "no.parquet")
                assert not sure
            except InputError as refused:
                assert refused.hint


def test_the_last_file_counts_whatever_its_form(tmp_path):
    """JSON waits in memory and Parquet does not; what is read later counts all the same."""
    imported(tmp_path, written(tmp_path, page=page(BEGIN, 4, 300, rate=10))).write_parquet(tmp_path / "ten.parquet")
    twenty = written(tmp_path, page=page(BEGIN, 4, 300, rate=20))
    ten = [tmp_path / "ten.parquet"]
    assert set(rates(imported(tmp_path, twenty + ten))) == {10.0}
    assert set(rates(imported(tmp_path, ten + twenty))) == {20.0}


def test_an_earlier_import_is_joined_by_slices(tmp_path, monkeypatch):
    """Any cut gives the same rows, and the rows in memory at once do not grow with the fleet."""
    volumes = [f"vol-{number:017x}" for number in range(40)]
    files = written(
        tmp_path, **{volume: page(BEGIN, 50, 300, rate=at + 1, volume=volume) for at, volume in enumerate(volumes)}
    )
    expected = imported(tmp_path, files)
    (tmp_path / "points.parquet").rename(tmp_path / "earlier.parquet")
    heights = []
    add_frame = importing._Spill.add_frame
    monkeypatch.setattr(
        importing._Spill, "add_frame", lambda self, rows: (heights.append(rows.height), add_frame(self, rows))
    )
    for points in (1000, 5000, 10**6):
        heights.clear()
        monkeypatch.setattr(importing, "POINTS_AT_ONCE", points)
        assert imported(tmp_path, [tmp_path / "earlier.parquet"]).equals(expected)
        assert max(heights) <= points and sum(heights) == 4 * expected.height
