"""Proofs without a lab: what is asked for, how it is scaled, how long it takes, what a result says, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from bench_runs import keep, store_in

import headrace
from headrace.base import core
from headrace.base.storage import Storage
from headrace.bench import RunRecord, SysbenchOltp
from headrace.calibration.runs import load_run
from headrace.errors import CouldNotRun, InputError
from headrace.experiment import (
    Configuration,
    MeasuredResult,
    PredictedResult,
    Proof,
    Step,
    from_plan,
    from_workload,
    predict,
    read,
    standin,
)
from headrace.experiment import (
    proof as proofs,
)
from headrace.experiment import request as requests
from headrace.experiment import scale as scaling
from headrace.experiment.proving import CALIBRATION, choose_calibration, plan_proof
from headrace.experiment.scale import AROUND_S, divide_time
from headrace.planner.result import Choice, Choices, FamilyVerdict, MarketSearch, Plan, PlannedLoad
from headrace.servers import scratch

SHOP = headrace.sysbench_tpcc(warehouses=1000, cache_gib=22.0, threads=32)


def filled(kind: Any, read: dict[str, Any]) -> Any:
    """A value with what is read of it, and None in its other fields."""
    return kind(**{name: read.get(name) for name in kind.__dataclass_fields__})


def choice(storage: str, cost: float, **more: Any) -> Choice:
    """A choice of a plan, of which a proof reads its place, cache and price."""
    return filled(Choice, {"storage": storage, "cache_gib": 22.0, "cost_usd_month": cost, "meets_goals": True} | more)


def plan(**more: Any) -> Plan:
    """A plan with a winner and a family that costs more."""
    winner, second = choice("gp3:500:6000", 100.0), choice("io1:500:5000", 300.0)
    families = [
        FamilyVerdict("gp3", "wins", "", winner),
        FamilyVerdict("io1", "costs more", "", second),
        FamilyVerdict("st1", "impossible", ""),
    ]
    read = {"subject": "database", "workload": {"name": "shop", "engine": "innodb"}, "size_gib": 88.0, "as_of": "2026-11-01", "data_growth": 1.0, "threads": 32}  # fmt: skip
    read |= {"recommended": winner, "winners": [winner], "closest": [], "families": families} | more
    parts = {"choices": Choices, "load": PlannedLoad, "search": MarketSearch}
    return filled(Plan, read | {name: filled(kind, read) for name, kind in parts.items()})


def test_a_plan_gives_winner_runner_up_and_todays():
    request = from_plan(plan(compared=choice("gp2:1200", 120.0)), "plan.json", SHOP)
    assert [(role, entry.storage, entry.threads) for role, entry in request.configurations] == [
        ("winner", "gp3:500:6000", 32), ("runner-up", "io1:500:5000", 32), ("current", "gp2:1200", 32),
    ]  # fmt: skip
    assert request.miss["winner"] == standin.compute_settled_miss(SHOP.database, 22.0)
    assert not request.notes


def test_the_runner_up_is_another_choice():
    twice = plan()
    twice.choices.winners.append(choice("gp3:500:6000", 100.0))
    request = from_plan(twice, "plan.json", SHOP)
    assert request.configurations[1][1].storage == "io1:500:5000"


def test_what_is_recommended_is_proved_before_the_cheapest():
    cheapest = choice("2xgp3:250", 90.0)
    request = from_plan(plan(winners=[cheapest, choice("gp3:500:6000", 100.0)]), "plan.json", SHOP)
    assert [(role, entry.storage) for role, entry in request.configurations] == [
        ("winner", "gp3:500:6000"),
        ("runner-up", "2xgp3:250"),
    ]


def test_where_nothing_meets_the_goals_the_closest_are_proved():
    near = choice("gp3:500", 40.0, meets_goals=False)
    request = from_plan(plan(recommended=None, winners=[], closest=[near]), "plan.json", SHOP)
    assert request.configurations[0][1].storage == "gp3:500"


def test_without_its_workload_the_skew_is_said_to_be_assumed():
    assert from_plan(plan(), "plan.json").notes == (requests.ASSUMED,)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"recommended": None, "winners": [], "closest": []}, "choice"),
        ({"threads": None}, "arrivals"),
        ({"subject": "demand"}, "a plan for a database"),
        ({"workload": {"engine": "aria"}}, "aria"),
        ({"recommended": choice("gp9:1", 1.0)}, "gp9"),
    ],
)
def test_a_plan_that_is_none_is_refused(change, word):
    with pytest.raises(InputError) as refused:
        from_plan(plan(**change), "plan.json", SHOP)
    assert word in str(refused.value)


def test_a_workload_needs_storages_and_its_size():
    with pytest.raises(InputError, match="name the storages"):
        from_workload(SHOP, [], "shop")
    with pytest.raises(InputError, match="how large"):
        from_workload(replace(SHOP, size_gib=None), ["gp3:500"], "shop")
    request = from_workload(SHOP, ["gp3:500:6000", "gp3:500:6000", "io1:500:3000,log=gp3:100"], "shop")
    assert [entry.log_storage for _, entry in request.configurations] == [None, "gp3:100"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("io1:500:3000+gp3:100", "io1:500:3000,log=gp3:100"),
        ("raid0:io1:500:3000+gp3:100", "DATA,log=LOG"),
        ("m5.large/gp3:500", "Write gp3:500"),
        ("m5.large/gp3:500,log=gp3:9", "Write gp3:500,log=gp3:9"),
    ],
)
def test_only_storages_of_one_kind_and_of_no_instance_are_proved(text, word):
    for ask in (
        lambda: from_workload(SHOP, [text], "shop"),
        lambda: from_workload(SHOP, ["gp3:500"], "shop").with_current(text),
    ):
        with pytest.raises(InputError) as refused:
            ask()
        assert word in refused.value.hint


def test_an_array_keeps_its_layout_and_chunk_at_a_scale():
    notes = []
    assert scaling._scale_storage("raid10:4xgp3:500:6000@512k", 0.25, 100.0, notes) == "raid10:4xio1:50:1500@512k"
    assert scaling._scale_storage("2xio2:500:6000", 0.5, 100.0, notes) == "2xio2:60:3000"
    assert scaling._scale_storage("raid0:gp3:500+gp3:500:3000", 1.0, 100.0, notes) == "raid0:gp3:500+gp3:500:3000"
    with pytest.raises(InputError, match="unlike members"):
        scaling._scale_storage("raid0:gp3:500+gp3:400", 0.5, 100.0, notes)


def test_todays_storage_is_the_one_calibrated_on():
    request = from_workload(SHOP, ["gp3:500:6000"], "shop").with_current("gp2:1200")
    calibrated, others = choose_calibration(request)
    assert calibrated.storage == "gp2:1200"
    assert [entry.storage for _, entry in others] == ["gp3:500:6000"]
    # Without it: between the others, and none of them.
    calibrated, others = choose_calibration(from_workload(SHOP, ["gp3:500:6000", "io1:500:1500"], "shop"))
    assert calibrated.name == CALIBRATION and 1500 < scaling.sum_iops(calibrated.storage) < 6000


def test_the_stand_in_misses_as_often_as_the_database():
    """Random databases and caches. A thousandth of h is its resolution; a few percent of the miss share at steep places: 3 % of it, and a thousandth."""
    for seed in range(12):
        chance = random.Random(seed)
        cache_share, target_miss = chance.uniform(0.1, 0.5), chance.uniform(0.02, 0.4)
        result = standin.make_stand_in("innodb", 2.0, 2.0 * cache_share, 16, target_miss)
        if result.h < standin.UNIFORM_H:
            assert result.miss == pytest.approx(target_miss, rel=0.03, abs=1e-3), f"seed {seed}"
        else:
            assert result.miss <= target_miss, f"seed {seed}"


def test_the_stand_in_needs_some_data():
    with pytest.raises(InputError, match="too few"):
        standin.make_stand_in("innodb", 0.001, 0.0003, 4, 0.2)


@pytest.mark.parametrize("text", ["0", "-1", "2", "nan", "inf", "big", ""])
def test_a_scale_is_a_share(text):
    with pytest.raises(InputError):
        scaling.read_scale(text)


def test_a_scale_keeps_what_it_says():
    """Ratios of data to cache and of IOPS to clients: whole clients and whole IOPS, so within one of each; whatever the seed."""
    for seed in range(40):
        chance = random.Random(seed)
        size = chance.uniform(20, 2_000)
        configuration = Configuration(
            "one",
            f"{chance.choice(['', '2x'])}io1:{int(size * 1.5)}:{chance.randrange(1_000, int(min(60_000, 50 * size)))}",
            size * chance.uniform(0.05, 0.6),
            chance.randrange(8, 200),
        )
        scale = scaling.Scale(chance.uniform(0.001, 0.9), chance.uniform(0.2, 0.9))
        small, _ = scaling.scale_configuration(configuration, size, scale)
        assert small.cache_gib / (size * scale.data) == pytest.approx(configuration.cache_gib / size), f"seed {seed}"
        members = len(core.parse_storage(configuration.storage)["members"])
        assert scaling.sum_iops(small.storage) == pytest.approx(
            scale.rate * scaling.sum_iops(configuration.storage), abs=members
        ), f"seed {seed}"
        assert abs(small.threads - scale.rate * configuration.threads) <= 0.5, f"seed {seed}"
        assert len(core.parse_storage(small.storage)["members"]) == members, f"seed {seed}"
        assert Storage.parse(small.storage).usable_gib >= size * scale.data * 1.35, f"seed {seed}"


def test_what_is_not_sold_so_small_becomes_io1_and_is_said():
    small, notes = scaling.scale_configuration(
        Configuration("one", "gp3:500:6000", 20.0, 32), 100.0, scaling.Scale(0.02, 0.25)
    )
    assert small.storage.startswith("io1:") and small.storage.endswith(":1500")
    assert "io1 with its 1,500 IOPS" in notes[0]
    retained, notes = scaling.scale_configuration(
        Configuration("one", "gp3:500:6000:250", 20.0, 32), 100.0, scaling.Scale(0.02, 1.0)
    )
    assert retained.storage == "gp3:500:6000:250" and not notes
    retained, notes = scaling.scale_configuration(
        Configuration("one", "gp3:500:12000:500", 20.0, 32), 100.0, scaling.Scale(0.02, 0.5)
    )
    assert retained.storage.endswith(":6000:250") and retained.storage.startswith("gp3:")


def test_credits_are_gone_as_plans_go_by():
    small, notes = scaling.scale_configuration(
        Configuration("one", "gp2:300", 20.0, 32), 100.0, scaling.Scale(0.02, 1.0)
    )
    assert small.balance_percent == 0.0 and "credits are gone" in notes[0]
    assert (
        scaling.scale_configuration(Configuration("one", "gp2:1500", 20.0, 32), 100.0, scaling.Scale(0.02, 1.0))[
            0
        ].balance_percent
        is None
    )


def test_scales_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="fewer than io1's least"):
        scaling.scale_configuration(Configuration("one", "io1:100:1000", 20.0, 32), 100.0, scaling.Scale(0.02, 0.01))
    with pytest.raises(InputError, match="MiB/s"):
        scaling.scale_configuration(Configuration("one", "st1:1000", 20.0, 32), 100.0, scaling.Scale(0.02, 0.5))
    with pytest.raises(InputError, match="at least"):
        Configuration("one", "gp3:100", 0.0, 4)
    with pytest.raises(InputError, match="clients"):
        Configuration("one", "gp3:100", 1.0, 0)


def test_time_is_divided_and_never_exceeded():
    for minutes in (2.0, 5.0, 15.0, 60.0):
        for others in (1, 2, 3):
            try:
                parts = divide_time(minutes, others)
            except InputError as refused:
                assert "or more" in refused.hint
                continue
            spent = parts.loading_s + parts.calibration_s + others * parts.each_s + (others + 1) * AROUND_S
            assert spent <= 60.0 * minutes and parts.warmup_s < parts.each_s
    with pytest.raises(InputError):
        divide_time(0.1, 2)


def test_a_whole_proof_is_planned_within_the_machine():
    proof = plan_proof(from_plan(plan(compared=choice("gp2:1200", 120.0)), "plan.json", SHOP), 10.0, None)
    assert [step.role for step in proof.steps] == [CALIBRATION, "winner", "runner-up"]
    assert proof.load.data_gib <= proof.timing.data_gib + 1e-9
    assert all(step.configuration.cache_gib >= scaling.LEAST_CACHE_GIB - 1e-9 for step in proof.steps)
    assert 0 < proof.scale.rate <= 1


def test_a_scale_too_large_for_the_time_is_refused():
    with pytest.raises(InputError, match="can be loaded"):
        plan_proof(from_plan(plan(), "plan.json", SHOP), 5.0, 1.0)


PREDICTED = PredictedResult(100.0, 95.0, 105.0, 50.0, 20.0, "volume-iops", (), (100.0, 100.0))
MEASURED = MeasuredResult("run", "complete", 60.0, 98.0, 52.0, 20.5, (), (97.0, 99.0))


def proof(*steps: Step, **more: object) -> Proof:
    given = {
        "name": "p", "folder": "/p", "state": "complete", "began_at": "2026-11-21T00:00:00+00:00", "source": "shop", "engine": "innodb", "server": "MariaDB", "load": "sysbench", "data_gib": 1.0,
        "data_scale": 0.1, "rate_scale": 0.5, "warmup_s": 10, "seconds": 60, "seed": 1, "steps": steps, "machine": {"cpus": 2},
    }  # fmt: skip
    return Proof(**(given | more))


def step(name: str, predicted_tps: float, measured_tps: float | None, p95_ms: float = 52.0, **more: object) -> Step:
    configuration = Configuration(name, "gp3:100", 1.0, 16)
    measured = None if measured_tps is None else replace(MEASURED, tps=measured_tps, p95_ms=p95_ms, **more)
    return Step("given", configuration, configuration, replace(PREDICTED, tps=predicted_tps), measured)


def test_verdicts():
    assert step("a", 100.0, 98.0).judge_result("innodb") == "holds"
    assert step("a", 100.0, 90.0).judge_result("innodb") == "off"
    assert step("a", 100.0, 90.0).judge_result("myrocks") == "holds"
    assert step("a", 100.0, 98.0, p95_ms=80.0).judge_result("innodb") == "off"
    assert step("a", 100.0, 70.0, processors_bound=True).judge_result("innodb") == "machine"
    assert step("a", 100.0, None).judge_result("innodb") == ""
    assert step("a", 100.0, 98.0, state="interrupted").judge_result("innodb") == ""


def test_the_verdict_says_how_many_lie_outside_their_interval():
    # PREDICTED is 95 to 105: 98 lies inside, 94 outside, though it is within 10 %.
    inside, outside, missing = step("a", 100.0, 98.0), step("b", 100.0, 94.0), step("c", 100.0, None)
    assert [each.inside_interval for each in (inside, outside, missing)] == [True, False, None]
    assert "1 of 2 measured outside the 80 % interval that was predicted." in proof(inside, outside).verdict
    assert "80 % interval" not in proof(inside).verdict


def test_the_processors_that_bind_are_those_that_may_be_used(tmp_path):
    record = keep(store_in(tmp_path), environment={"cpus": 64, "cpus_usable": 2})
    for busy, is_bound in ((1.95, True), (1.0, False)):
        figures = record.summary | {"idle_cpus": 64.0 - busy, "iowait_cpus": None}
        assert predict.make_measured_result(replace(record, summary=figures)).processors_bound is is_bound


def test_a_proof_holds_only_whole_and_in_order():
    assert proof(step("a", 100.0, 98.0), step("b", 200.0, 195.0)).holds is True
    assert proof(step("a", 100.0, 98.0), step("b", 200.0, 150.0)).holds is False
    assert proof(step("a", 100.0, 98.0), step("b", 200.0, None)).holds is None
    assert proof(step("a", 100.0, 98.0), step("b", 200.0, 150.0, processors_bound=True)).holds is None
    assert proof().holds is None and "Nothing was measured" in proof().verdict
    # Calibrated on a run that others disturbed, what is off says nothing; what holds does.
    busy = replace(step("calibration", 100.0, 60.0, processors_bound=True), role="calibration", predicted=None)
    assert proof(busy, step("a", 100.0, 98.0)).holds is True
    disturbed = proof(busy, step("a", 100.0, 98.0), step("b", 200.0, 150.0))
    assert disturbed.holds is None and "In 1 this machine's processors were all in use" in disturbed.verdict
    # Each within 10 %, the order is not.
    swapped = proof(step("a", 100.0, 108.0), step("b", 110.0, 102.0))
    assert swapped.order_holds is False and swapped.holds is False and "NOT" in swapped.verdict
    # Predicted alike: nothing to order.
    assert proof(step("a", 100.0, 103.0), step("b", 102.0, 100.0)).order_holds is None


def test_a_proof_is_read_as_it_was_written(tmp_path):
    result = proof(step("a", 100.0, 98.0), step("b", 200.0, None), folder=str(tmp_path), notes=("one",))
    proofs.write(result)
    again = read(tmp_path)
    assert again == result
    assert json.loads((tmp_path / "proof.json").read_text())["steps"][0]["verdict"] == "holds"


def test_damaged_proofs_are_refused(tmp_path):
    for text in ("", "{}", '{"schema": "headrace-proof/9"}', '{"schema": "headrace-proof/1", "steps": [{}]}', "[1]"):
        (tmp_path / "proof.json").write_text(text)
        with pytest.raises(InputError):
            read(tmp_path)
    with pytest.raises(CouldNotRun):
        read(tmp_path / "none")


def test_predictions_are_stored_with_their_hash(tmp_path):
    (tmp_path / "workload.toml").write_text("x")
    stored = predict.store(
        tmp_path, tmp_path / "workload.toml", "run-1", {"a": (Configuration("a", "gp3:100", 1.0, 16), PREDICTED)}
    )
    content = Path(stored.file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == stored.sha256
    document = json.loads(content)
    assert (
        document["predictions"]["a"]["tps"] == 100.0
        and document["made_at"] == stored.at
        and document["calibrated_on_run"] == "run-1"
    )


def test_predictions_are_the_same_for_the_same_seed():
    workload = headrace.sysbench_oltp(
        cache_gib=0.2, threads=8, tables=4, table_size=500_000, distribution={"type": "uniform"}
    )
    configuration = Configuration("a", "io1:20:900", 0.2, 8)
    first, second = (predict.predict_result(workload, configuration, seconds=20, warmup_s=5, draws=0) for _ in range(2))
    assert first == second
    assert len(first.series) == 25
    # 900 IOPS bind: I/Os a second are what the volume gives, within the second of saved tokens and the row that is cut.
    assert first.tps * first.ios_per_tx == pytest.approx(900, rel=0.03)


RUN_TOML = """
format = "headrace-run"
version = 1
name = "a"
engine = "myrocks"
storage = "io1:40:1500"
as_of = 2026-11-01
cache_gib = 0.5
threads = 8
start = "cold"
seconds = 60.0

[benchmark]
name = "sysbench-oltp"
tables = 8
scale = 1000000
script = "oltp_read_write"
distribution = "uniform"

[files]
sysbench = "transactions.csv"
disk = "disk.csv"
device = "loop3"
"""


def test_a_run_is_calibrated_from_what_the_volumes_counted(tmp_path):
    """Two volumes, the second asked a second later: their sums, second by second, on the transactions' time."""
    began = 1_800_000_000
    (tmp_path / "RUN.toml").write_text(RUN_TOML)
    rows = [f"{t + 1},{began + t + 1},8,50,1000,180" for t in range(60)]
    (tmp_path / "transactions.csv").write_text("\n".join(["t_s,time,threads,tps,qps,lat_p95_ms", *rows]) + "\n")
    for volume, late, reads in (("vol-1", 0, 900), ("vol-2", 1, 300)):
        seconds = range(began - 5 + late, began + 65)
        frame = {"t_s": [float(t) for t in seconds], "reads": [reads] * len(seconds), "read_bytes": [reads * 16_384] * len(seconds), "writes": [40] * len(seconds),
                 "write_bytes": [40 * 4_096] * len(seconds), "flushes": [30] * len(seconds)}  # fmt: skip
        pl.DataFrame(frame).write_parquet(tmp_path / f"lab-{volume}.parquet")
    record = RunRecord("run-1", tmp_path, "complete", {}, (), {})
    run = load_run(predict.write_lab_counts(record))
    middle = run.series.filter(pl.col("t_s").is_between(5, 55))
    assert middle["read_iops"].to_list() == pytest.approx([1_200.0] * middle.height)
    # Flushes ride on journal writes or do not: the volumes have counted either already.
    assert middle["write_iops"].to_list() == pytest.approx([80.0] * middle.height)
    (tmp_path / "lab-vol-1.parquet").unlink()
    (tmp_path / "lab-vol-2.parquet").unlink()
    with pytest.raises(CouldNotRun, match="no figures"):
        predict.write_lab_counts(record)


def test_a_smaller_pool_loses_a_larger_share_to_free_pages():
    """1,300 pages kept free of 32,768 (512 MiB) are as many of 16,384."""
    workload = headrace.sysbench_oltp(cache_gib=0.5, threads=8, tables=4, table_size=500_000)
    workload = replace(workload, database=workload.database | {"usable_share": 0.99 - 1_300 / 32_768})
    assert predict.with_cache(workload, 0.25).database["usable_share"] == pytest.approx(0.99 - 1_300 / 16_384)
    assert predict.with_cache(workload, 1.0).database["usable_share"] == pytest.approx(0.99 - 1_300 / 65_536)
    assert predict.with_cache(workload, 0.5).database["usable_share"] == pytest.approx(
        workload.database["usable_share"]
    )


def test_processors_of_the_machine_bound_what_is_predicted():
    workload = headrace.sysbench_oltp(
        cache_gib=0.4, threads=64, tables=4, table_size=500_000, distribution={"type": "uniform"}
    )
    configuration = Configuration("a", "io1:400:20000", 0.4, 64)
    free, two = (
        predict.predict_result(workload, configuration, seconds=10, warmup_s=3, draws=0, processors=count)
        for count in (None, 2)
    )
    most = 2e3 / workload.database["clients"]["cpu_ms"]
    # Over seven seconds the scatter of 5.5 % a second leaves 2.1 % (one standard deviation).
    assert two.tps < 1.07 * most < free.tps


def test_a_lab_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY", tmp_path)
    monkeypatch.setattr(scratch.os.path, "ismount", lambda path: True)
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda path: SimpleNamespace(free=10 * scratch.GIB))
    monkeypatch.setattr(scratch, "read_memory_bytes", lambda field: 20 * scratch.GIB)
    # 3 x data + 1: 10 GiB for 3; of 20 available six tenths, 12 GiB.
    assert scratch.fits(3.0) and not scratch.fits(3.01)
    monkeypatch.setattr(scratch, "read_memory_bytes", lambda field: 16 * scratch.GIB)
    assert not scratch.fits(3.0)
    with scratch.make_lab_folder(tmp_path / "disk", 1.0) as folder:
        (folder / "volume").write_text("data")
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    with scratch.make_lab_folder(tmp_path / "disk", 99.0) as folder:
        assert folder == tmp_path / "disk"


def test_what_a_killed_proof_left_in_memory_is_freed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "MEMORY", tmp_path)
    ended = subprocess.Popen(["true"])
    ended.wait()
    rest, of_another = tmp_path / f"{scratch.PREFIX}{ended.pid}-a", tmp_path / f"{scratch.PREFIX}{os.getpid()}-b"
    for folder in (rest, of_another):
        folder.mkdir()
    with scratch.make_lab_folder(tmp_path / "disk", 99.0):
        assert not rest.exists() and of_another.exists()


def test_only_folders_whose_maker_has_ended_are_freed(tmp_path, monkeypatch):
    memory, lab, disk = (tmp_path / name for name in ("memory", "lab", "disk"))
    for folder in (memory, lab):
        folder.mkdir()
    ended_labs: list[Path] = []
    monkeypatch.setattr(scratch, "MEMORY", memory)
    monkeypatch.setattr(scratch, "_end", ended_labs.append)
    monkeypatch.setattr(scratch, "fits", lambda data_gib: data_gib < 99.0)
    ended = subprocess.Popen(["true"])
    ended.wait()
    prefix = f"{scratch.PREFIX}{ended.pid}"
    # Everybody may write to memory: links to a lab in use and to nothing, and a file.
    (memory / f"{prefix}-link").symlink_to(lab)
    (memory / f"{prefix}-dangling").symlink_to(tmp_path / "nothing")
    (memory / f"{prefix}-file").touch()
    with scratch.make_lab_folder(disk, 99.0):
        assert ended_labs == []
    with scratch.make_lab_folder(disk, 1.0) as folder:
        # Another container that shares this memory sees the number of no process in its name.
        in_use = folder.rename(memory / f"{prefix}-use")
        with scratch.make_lab_folder(disk, 99.0):
            assert in_use not in ended_labs
    with scratch.make_lab_folder(disk, 99.0):
        assert in_use in ended_labs
    assert set(ended_labs) == {disk, folder, in_use}


def dirtier(popularity, changed, pages, other_pages):
    """Dirty share of the pages that leave a cache of `other_pages` over that in one of `pages`, as the core has it."""
    database = core.mysql_tpcc("innodb", 1.0)
    # All of the cache holds pages, and a share so small that no bound of the core's is met.
    database |= {
        "popularity": popularity,
        "usable_share": 1.0,
        "writes": database["writes"] | {"first_dirty": 1e-9, "later_dirty": 1e-9},
    }
    size, other_size = (count * database["cached_bytes"] for count in (pages, other_pages))
    writes = core.cache_after(database, size, other_size, changed)["writes"]
    assert writes["first_dirty"] == writes["later_dirty"]
    return writes["first_dirty"] / 1e-9


CLASSES = [{"pages": 1_000.0, "touches_per_tx": 1e-3}, {"pages": 100.0, "touches_per_tx": 1e-2}]


def test_what_leaves_a_larger_cache_is_cleaner_where_hot_pages_are_changed():
    # By hand: pages stay 100 transactions in a cache of 1,000 (1 - e^-0.1) + 100 (1 - e^-1) = 158.375 pages, and leave at e^-0.1 and e^-1 a transaction: 0.367879 of 1.272717
    # changed. 200 transactions: 267.736 pages, 0.135335 of 0.954066. The ratio is 0.141851 / 0.289050.
    assert dirtier(CLASSES, [0.0, 1.0], 158.375, 267.736) == pytest.approx(0.49075, abs=1e-4)
    assert dirtier(CLASSES, [1.0, 0.0], 158.375, 267.736) > 1.0
    assert dirtier(CLASSES, [0.3, 0.3], 158.375, 267.736) == pytest.approx(1.0)
    # Nothing is evicted, or nothing changed: the calibration's own share stays.
    assert dirtier(CLASSES, [0.0, 1.0], 158.375, 1_101.0) == dirtier(CLASSES, [0.0, 0.0], 158.375, 267.736) == 1.0


def test_dirtiness_of_two_caches_is_consistent():
    drawn = random.Random(5)
    for _ in range(50):
        classes = [
            {"pages": 10 ** drawn.uniform(1, 6), "touches_per_tx": 10 ** drawn.uniform(-7, -2)}
            for _ in range(drawn.randint(1, 6))
        ]
        changed = [drawn.random() for _ in classes]
        pages = sum(item["pages"] for item in classes)
        entry, other = (pages * drawn.uniform(0.05, 0.95) for _ in range(2))
        there = dirtier(classes, changed, entry, other)
        assert there * dirtier(classes, changed, other, entry) == pytest.approx(1.0)
        assert there * min(changed) <= max(changed) * (1 + 1e-9)


def test_the_standin_tells_which_touches_change_a_page():
    for kind, parameters in (
        ({"type": "uniform"}, {}),
        ({"type": "special", "percent": 10.0}, {"rand_spec_pct": 10.0}),
        ({"type": "pareto", "h": 0.1}, {"rand_pareto_h": 0.1}),
        ({"type": "zipfian", "exponent": 0.9}, {"rand_zipfian_exp": 0.9}),
    ):
        benchmark = SysbenchOltp(rows=1_000_000, distribution=str(kind["type"]), parameters=parameters)
        for engine in ("innodb", "myrocks"):
            shares = standin.compute_changed(engine, benchmark)
            options = {
                "script": benchmark.script,
                "engine": engine,
                "tables": 8,
                "table_size": 1_000_000,
                "distribution": kind,
            }
            assert len(shares) == len(core.mysql_sysbench(options)["database"]["popularity"])
            assert all(0.0 <= share <= 1.0 for share in shares) and shares[-1] == 0.0
    # oltp_read_write, uniform: 3 of the touches of row pages change one, all of those of index leaves do.
    rows, leaves, _ = standin.compute_changed("innodb", SysbenchOltp(rows=1_000_000, distribution="uniform"))
    assert 0.1 < rows < 0.2 and leaves == pytest.approx(1.0)


def test_percentiles_come_from_reads_and_bursts():
    # 16 clients at 112 tps take 142.9 ms, whose spread of a tenth is 14.3 ms. They write 7 I/Os a transaction, 6.59 pages: of bursts of 169 pages, which are 179 I/Os of
    # 3,000 a second, 105 / 169 = 62.4 % of all transactions meet one, and the 95th percentile waits 1 - 5 / 62.4 = 92 % of their 59.8 ms.
    # 4 clients at 115 tps take 34.8 ms, and 15.6 % of them meet one: they wait 68 %. One client in 26 meets none. While the cache fills nobody waits behind a burst,
    # unless the cleaner writes in rounds then too.
    shape = {"filling": [[0.0, 1.0]], "full": [[0.0, 1.0]], "response": [[5.0, 1.1]], "burst_pages": 169.0}
    database = SHOP.database | {"shape": shape}

    def predict_p95(clients: int, tps: float, cached_share: float, database: dict = database) -> float:
        rows = pl.DataFrame({"tps": [tps], "iops": [12.0 * tps], "reads_per_tx": [5.0], "cached_share": [cached_share]})
        return predict.predict_p95_ms(database, Configuration("a", "gp3:20:3000", 0.2, clients), rows)[0]

    assert predict_p95(16, 112.0, 1.0) == pytest.approx(142.9 + (14.3**2 + (59.8 * 0.92) ** 2) ** 0.5, abs=0.3)
    assert predict_p95(4, 115.0, 1.0) == pytest.approx(34.8 + (3.48**2 + (59.8 * 0.68) ** 2) ** 0.5, abs=0.3)
    assert predict_p95(1, 115.0, 1.0) == pytest.approx(1.1 * 1e3 / 115.0)
    assert predict_p95(16, 112.0, 0.9) == pytest.approx(1.1 * 142.9, abs=0.1)
    in_rounds = database | {"cleaner": core.page_cleaner("mysql", "8.4")}
    assert predict_p95(16, 112.0, 0.9, in_rounds) == predict_p95(16, 112.0, 1.0)
    by_age = database | {"cleaner": core.page_cleaner("mariadb", "10.11")}
    assert predict_p95(16, 112.0, 0.9, by_age) == predict_p95(16, 112.0, 0.9)
