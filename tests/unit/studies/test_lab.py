"""Studies on the lab without a lab: cells, configurations, the simulation beforehand, verdicts that can fail, pages, what is refused."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import polars as pl
import pytest

from headrace import InputError, studies
from headrace.base import core
from headrace.bench.comparison.statistics import estimate_standard_error
from headrace.errors import CouldNotRun
from headrace.experiment import machine, simulate
from headrace.experiment.cell import OnFiles, OnServer, compute_seconds_each
from headrace.experiment.run import MeasuredCell, find_reusable
from headrace.report.html import write_view
from headrace.report.study import build_view
from headrace.studies import scaling_2018
from headrace.studies.base import Source, read_published
from headrace.studies.measured import LabOptions, session, tables, verdicts
from headrace.studies.measured import engines as engines_study

MODULES = {"iops-900-vs-3000": "iops_threads", "raid-2009": "raid_arrays", "gp2-burst": "burst_oltp", "scaling-2018": "engines", "whitepaper-2017": "tuned_default",
           "encrypted-vs-not": "encryption", "restored-volume": "restored_volume"}  # fmt: skip
SOURCE = Source("somewhere", "2020")
HERE = simulate.ProcessorSpeed(0.05, 0.05, "m5.large", 2)


def module(name: str):
    return import_module(f"headrace.studies.measured.{MODULES[name]}")


def run_of(cell, values: list[float], busy: float = 0.02, **columns) -> MeasuredCell:
    """A run with these seconds, as the store would have it."""
    n = len(values)
    frame = pl.DataFrame({"t_s": [float(i) for i in range(n)], "tps": values, "phase": ["measure"] * n} | columns)
    summary = {
        "tps": sum(values) / n,
        "p95_ms": 5.0,
        "read_iops": 10.0,
        "write_iops": 10.0,
        "idle_cpus": 1.0,
        "cap_volume_iops": 0.9,
    }
    record = SimpleNamespace(
        id=f"20260101-000000-{abs(hash(cell.words)) % 9999}",
        summary=summary,
        findings=(),
        read_series=lambda: frame,
        document={"began_at": "2026-01-01T00:00:00", "environment": {"before": {"busy_share": busy}}},
    )
    return MeasuredCell(cell, record)


# --- what is asked of the lab -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("quick", [False, True])
def test_a_study_fits_the_time_and_its_cells_are_told_apart(name, quick):
    options = LabOptions(quick=quick)
    cells = module(name).cells(options)
    assert len({cell.key for cell in cells}) == len({cell.words for cell in cells}) == len(cells)
    names = {cell.make_run_name(name, {"host": "a"}) for cell in cells}
    assert len(names) == len(cells)
    # Loading and probing come on top; the least seconds of a cell may reach over the time by a quarter.
    assert sum(cell.length_s for cell in cells) <= 1.25 * options.time_s
    assert module(name).data_gib(options) < 2.0


def test_more_minutes_measure_longer_and_a_scale_decides_the_data():
    iops = module("iops-900-vs-3000")
    short, long = iops.cells(LabOptions(minutes=10)), iops.cells(LabOptions(minutes=20))
    assert long[0].seconds > short[0].seconds
    assert {cell.threads for cell in iops.cells(LabOptions(minutes=60))} == {1, 2, 4, 8, 16, 32, 64}
    half, whole = (iops.cells(LabOptions(scale=scale))[0] for scale in (0.01, 0.02))
    assert whole.benchmark.rows == 2 * half.benchmark.rows
    pools = [simulate.get_cache_bytes(cell.place) for cell in (half, whole)]
    assert pools[1] == pytest.approx(2 * pools[0], rel=0.01)  # whole MiB of 246


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.0},
        {"scale": 2.0},
        {"scale": math.nan},
        {"minutes": 0.1},
        {"minutes": math.inf},
        {"seed": 0},
        {"seed": 2**31},
        {"scale": True},
    ],
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        LabOptions(**wrong)


def test_seconds_of_a_cell_fill_the_time_between_bounds():
    assert compute_seconds_each(600.0, 40.0, 20, 10.0, 5, 60) == 18
    assert compute_seconds_each(60.0, 40.0, 20, 10.0, 5, 60) == 5
    assert compute_seconds_each(1e6, 40.0, 20, 10.0, 5, 60) == 60


def test_a_run_of_the_store_stands_for_a_cell_only_with_the_same_configuration():
    cell = module("iops-900-vs-3000").cells(LabOptions(quick=True))[0]
    name = cell.make_run_name("s", {"host": "a"})
    assert isinstance(cell.place, OnServer)
    others = [
        replace(cell, seed=2), replace(cell, seconds=cell.seconds + 1), replace(cell, threads=3), replace(cell, place=replace(cell.place, storage="gp3:100")),
        replace(cell, place=replace(cell.place, settings={"innodb_buffer_pool_size": "1G"})), replace(cell, place=replace(cell.place, balance_percent=3.0)),
        replace(cell, place=replace(cell.place, data=replace(cell.place.data, engine="myrocks"))),
    ]  # fmt: skip
    assert replace(cell).make_run_name("s", {"host": "a"}) == name
    assert (
        len(
            {
                name,
                *(other.make_run_name("s", {"host": "a"}) for other in others),
                cell.make_run_name("s", {"host": "b"}),
            }
        )
        == len(others) + 2
    )


def test_only_complete_runs_are_resumed_and_the_newest_counts():
    cell = module("iops-900-vs-3000").cells(LabOptions(quick=True))[0]
    name = cell.make_run_name("s", {})

    def record(number: int, state: str, named: str, tps: float | None):
        return SimpleNamespace(id=str(number), state=state, document={"name": named}, summary={"tps": tps})

    runs = [
        record(1, "complete", name, 5.0),
        record(2, "complete", name, 6.0),
        record(3, "interrupted", name, 7.0),
        record(4, "complete", "other", 8.0),
        record(5, "complete", name, None),
    ]
    store = SimpleNamespace(list_runs=lambda: runs)
    assert find_reusable("s", [cell], store, {})[cell.key].record.id == "2"
    for resume, retained in ((True, [cell.key]), (False, [])):
        assert list(session.find_resumable_cells(LabOptions(resume=resume), "s", [cell], store, {})) == retained


def test_volumes_that_differ_alone_share_their_data():
    encrypted = module("encrypted-vs-not").cells(LabOptions(quick=True))
    assert [cell.place.encrypted for cell in encrypted] == [False, True]
    restored = module("restored-volume").cells(LabOptions(quick=True))
    assert [cell.place.restored for cell in restored] == ["cold", "initialized"]
    for result in (encrypted, restored):
        assert result[0].place.data == result[1].place.data
        assert result[0].make_run_name("s", {}) != result[1].make_run_name("s", {})


def test_first_touches_are_simulated():
    """Every read of 16 KiB in a cold chunk waits some 30 ms: the first seconds are several times slower."""
    cold, initialized = module("restored-volume").cells(LabOptions(quick=True))
    tps = [
        simulate.simulate(cell, HERE.apply_speed(simulate.make_database(cell)), HERE, None).rows["tps"][0]
        for cell in (cold, initialized)
    ]
    assert 0 < 2.0 * tps[0] < tps[1]


# --- the simulation beforehand ----------------------------------------------------------------------------------------


def test_fewer_iops_are_simulated_slower_and_processors_bound_from_above():
    cells = {cell.key: cell for cell in module("iops-900-vs-3000").cells(LabOptions())}
    tps = {
        key: simulate.simulate(cells[key], HERE.apply_speed(simulate.make_database(cells[key])), HERE, "2020-07-13").tps
        for key in (("oltp", 3_000, 64), ("oltp", 900, 64))
    }
    assert tps["oltp", 3_000, 64] > 1.3 * tps["oltp", 900, 64]
    faster = replace(HERE, cpu_ms=HERE.cpu_ms / 4)
    cell = cells["select", 3_000, 64]
    slow, fast = (
        simulate.simulate(
            replace(cell, place=replace(cell.place, scan=True)),
            of.apply_speed(simulate.make_database(cell)),
            of,
            "2020-07-13",
        ).tps
        for of in (HERE, faster)
    )
    assert fast > 2.0 * slow


def test_the_processors_that_bind_are_those_that_may_be_used():
    measured = run_of(module("iops-900-vs-3000").cells(LabOptions())[0], [1.0])
    measured.record.document["environment"] |= {"cpus": 64, "cpus_usable": 2}
    measured.record.summary["cap_volume_iops"] = 0.0
    for idle, words in ((62.05, "processors"), (63.0, "latency")):
        measured.record.summary["idle_cpus"] = idle
        assert tables.binds(measured) == words


def test_processors_follow_from_littles_law(monkeypatch):
    monkeypatch.setattr(machine, "count_cores", lambda: 2)
    cell, many = simulate.make_probe_cells(1)
    speed = simulate.derive_speed(run_of(cell, [10_000.0] * 5), run_of(many, [40_000.0] * 5), "2020-07-13")
    assert speed.cpu_ms == pytest.approx(2e3 / 40_000)
    # One client has a core by itself: 0.685 of the time of a thread that shares one.
    assert speed.trip_ms == pytest.approx(1e3 / 10_000 - 0.685 * 2e3 / 40_000)
    # The standard database at its own speed stays as it is.
    same = simulate._get_point_select()
    standard = replace(speed, cpu_ms=same["cpu_ms"], trip_ms=same["base_ms"] - core.core_ms(same), vcpus=2)
    database = simulate.make_database(module("iops-900-vs-3000").cells(LabOptions())[0])
    assert standard.apply_speed(database)["clients"]["cpu_ms"] == pytest.approx(database["clients"]["cpu_ms"])
    assert standard.apply_speed(database)["clients"]["base_ms"] == pytest.approx(database["clients"]["base_ms"])


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_standard_error_sees_scatter_and_not_a_trend():
    random.seed(seed := 5)
    noise = [random.gauss(0.0, 10.0) for _ in range(400)]
    # 10 / sqrt(400) = 0.5; from 400 values it is known to 5 % or so, four deviations allowed.
    assert estimate_standard_error([100.0 + entry for entry in noise]) == pytest.approx(0.5, rel=0.2), seed
    assert estimate_standard_error([100.0 + 0.1 * i + entry for i, entry in enumerate(noise)]) == pytest.approx(
        0.5, rel=0.2
    ), seed
    assert estimate_standard_error([1.0, 2.0]) == math.inf


def pairs_of(*ratios: float) -> list[verdicts.Pair]:
    return [verdicts.Pair(f"pair {i}", None, 1.5, ratio, 0.05) for i, ratio in enumerate(ratios)]


def test_who_wins_needs_one_clear_pair_and_none_against():
    assert verdicts.judge_winner("w", "p", pairs_of(1.2, 1.0), SOURCE).within is True
    assert verdicts.judge_winner("w", "p", pairs_of(1.04, 0.97), SOURCE).within is False  # all alike: nobody wins
    lost = verdicts.judge_winner("w", "p", pairs_of(1.5, 0.9), SOURCE)
    assert lost.within is False and "pair 1" in lost.ours


@pytest.mark.parametrize(("measured_ratio", "state"), [(1.0, True), (3.33, True), (3.6, False), (0.9, False)])
def test_a_ratio_is_held_within_its_bounds_and_doubt(measured_ratio, state):
    pair = verdicts.Pair("p", 2.5, 2.0, measured_ratio, 0.05)
    verdict = verdicts.judge_ratio("r", pair, 1.0, 10 / 3, SOURCE, "caps")
    assert (
        verdict.within is state
        and verdict.simulated == 2.0
        and verdict.error_percent == pytest.approx(100 * (measured_ratio / 2.5 - 1))
    )


def test_the_order_counts_pairs_that_can_be_told_apart():
    reference = {"a": 1.0, "b": 2.0, "c": 3.0}
    assert verdicts.count_concordant(reference, {"a": 10, "b": 20, "c": 30}, lambda a, b: 0.0) == (3, 3)
    assert verdicts.count_concordant(reference, {"a": 30, "b": 20, "c": 10}, lambda a, b: 0.0) == (0, 3)
    assert verdicts.count_concordant(reference, {"a": 10, "b": 10.2, "c": 30}, lambda a, b: 0.05) == (2, 2)


def test_a_direction_of_2009_fails_where_the_model_has_it_and_the_measurement_not():
    raid = module("raid-2009")
    row = next(row for row in read_published("raid_2009") if row["claim"].startswith("RAID 0 of 4 clearly"))
    cell = raid.cells(LabOptions(quick=True))[0]

    def with_rates(array: float, single: float):
        result = {
            (name, "rndrd", 16): run_of(cell, [rate] * 6) for name, rate in (("raid0x4", array), ("single", single))
        }
        cells = {
            key: simulate.SimulatedCell(rate, 1.0, pl.DataFrame())
            for key, rate in ((("raid0x4", "rndrd", 16), 2_500.0), (("single", "rndrd", 16), 1_100.0))
        }
        return raid._judge_direction(row, result, cells, ("rndrd",))

    assert with_rates(2_500.0, 1_100.0).within is True
    assert with_rates(1_100.0, 1_100.0).within is False


def burst_result(dry_s: float, after: float):
    burst = module("gp2-burst")
    cell = burst.cells(LabOptions(quick=True))[0]
    n, start = cell.seconds, cell.place.balance_percent
    formula = burst.CREDITS * start / 100 / 2_700
    dry = formula * dry_s
    values = [150.0 if t < dry else after for t in range(n)]
    columns = {
        "balance_percent": [max(0.0, start * (1 - t / dry)) for t in range(n)], "p95_ms": [100.0 if t < dry else 900.0 for t in range(n)],
        "queue": [8.0 if t < dry else 14.0 for t in range(n)], "read_iops": [2_000.0 if t < dry else 200.0 for t in range(n)], "write_iops": [1_000.0 if t < dry else 100.0 for t in range(n)],
    }  # fmt: skip
    result = run_of(cell, values, **columns)
    options = LabOptions(quick=True)
    here = session.Session(
        options,
        {
            "host": "a",
            "cpu": "b",
            "cpus_usable": 2,
            "memory_gib": 4.0,
            "kernel": "6",
            "sysbench": "1.0.20",
            "server": "10.11",
        },
        HERE,
    )
    rows = pl.DataFrame(
        {
            "t_s": [float(t) for t in range(n)],
            "tps": values,
            "iops": [3_000.0 if t < dry else 300.0 for t in range(n)],
            **{k: columns[k] for k in ("balance_percent", "p95_ms")},
        }
    )
    return session.complete(burst, here, {cell.key: result}, {cell.key: simulate.SimulatedCell(100.0, 5.0, rows)})


def test_a_burst_that_ends_as_the_formula_says_holds_and_another_does_not(tmp_path):
    good = {verdict.what: verdict.within for verdict in burst_result(1.0, 15.0).verdicts}
    assert all(state is not False for state in good.values()) and sum(state is True for state in good.values()) >= 4
    early = {verdict.what: verdict.within for verdict in burst_result(0.5, 15.0).verdicts}
    assert early["the balance is gone after"] is False
    same = {verdict.what: verdict.within for verdict in burst_result(1.0, 149.0).verdicts}
    assert same["throughput in the burst over that without credits"] is False
    page = tmp_path / "burst.html"
    write_view(page, build_view(burst_result(1.0, 15.0)))
    text = page.read_text()
    for word in (
        "Published, simulated beforehand and measured",
        "20260101-000000",
        "Throughput",
        "Queue of the volume",
        "Burst balance",
        "The scale",
        "seed",
    ):
        assert word in text, word


@pytest.mark.parametrize("name", [name for name in MODULES if name != "gp2-burst"])
def test_a_study_judges_and_draws_what_its_cells_gave(name, tmp_path):
    options = LabOptions(quick=True)
    cells = module(name).cells(options)
    details = {
        cell.key: run_of(cell, [100.0 + 3.0 * place + (t % 3) for t in range(8)], p95_ms=[5.0] * 8)
        for place, cell in enumerate(cells)
    }
    rows = pl.DataFrame({"t_s": [float(t) for t in range(8)], "tps": [100.0 + t % 3 for t in range(8)], "p95_ms": 5.0})
    own = {cell.key: simulate.SimulatedCell(100.0 + 3.0 * place, 5.0, rows) for place, cell in enumerate(cells)}
    facts = {"cpu": "b", "cpus_usable": 2, "memory_gib": 4.0, "kernel": "6", "sysbench": "1.0.20", "server": "10.11"}
    result = session.complete(module(name), session.Session(options, facts, HERE), details, own)
    assert result.verdicts[-1].what == "the machine was at rest" and len(result.verdicts) > 2
    for table in result.tables:
        assert table.rows and all(len(row) == len(table.columns) for row in table.rows), table.title
    drawn = [part for chart in result.charts for part in (chart, *chart.panels)]
    roles = {series.role for part in drawn for series in part.series}
    assert {"simulated", "measured"} <= roles
    write_view(tmp_path / "page.html", build_view(result))


def test_a_busy_machine_is_a_finding():
    cell = module("iops-900-vs-3000").cells(LabOptions(quick=True))[0]
    calm, busy = (run_of(cell, [100.0] * 5, busy=share) for share in (0.04, 0.6))
    assert session.judge_rest({"a": calm}).within is True
    verdict = session.judge_rest({"a": calm, "b": busy})
    assert verdict.within is False and "1 of 2 cells" in verdict.ours and "60 %" in verdict.ours


# --- what is refused --------------------------------------------------------------------------------------------------


def test_everything_a_machine_lacks_is_said_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(machine.doctor.Machine, "locate_program", lambda self, name: None)
    monkeypatch.setattr(machine, "_measure_free_gib", lambda folder: 0.1)
    monkeypatch.setattr(
        machine.servers,
        "find_program",
        lambda *_: (_ for _ in ()).throw(
            CouldNotRun("mariadbd", "was not found", "", "headrace mysql install mariadb")
        ),
    )
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    with pytest.raises(CouldNotRun) as refused:
        studies.run_on_lab("iops-900-vs-3000", work=tmp_path, store=tmp_path)
    value = str(refused.value)
    for word in (
        "user id 1000",
        "mkfs.xfs",
        "sysbench",
        "mariadbd",
        "GiB free",
        "apt-get install",
        "headrace lab doctor",
    ):
        assert word in value, word
    assert refused.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


def test_studies_say_where_they_run():
    assert (
        studies.list_places("raid-2009") == ("model", "lab")
        and studies.list_places("choices") == ("model",)
        and studies.list_places("encrypted-vs-not") == ("lab",)
    )
    assert {study.name for study in studies.list_all_studies()} - {study.name for study in studies.list_studies()} == {
        "encrypted-vs-not",
        "restored-volume",
    }
    with pytest.raises(InputError, match="runs on the lab alone"):
        studies.run_study("encrypted-vs-not")
    with pytest.raises(InputError, match="does not run on the lab"):
        studies.run_on_lab("choices")
    for name in MODULES:
        assert "lab" in studies.list_places(name) and studies.get(name) == module(name).STUDY


def test_places_of_studies_are_what_their_engines_need():
    for name in MODULES:
        for cell in module(name).cells(LabOptions(quick=True)):
            assert isinstance(cell.place, OnFiles) == (not module(name).ENGINES)
            if isinstance(cell.place, OnServer):
                assert cell.place.data.engine in module(name).ENGINES
                assert simulate.get_cache_bytes(cell.place) > 0
    assert engines_study.compute_width(pl.Series([float(i) for i in range(101)])) == pytest.approx(90 / 50)
    assert scaling_2018.write_storage("io1", 1_000) == "io1:1024:1000"
    assert LabOptions(quick=True).time_s == 180.0
