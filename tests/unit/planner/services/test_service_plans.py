"""Plans on EC2, RDS and Aurora: golden bills, the step at 400 GiB, the same physics as `compare` and
as the arrays behind RDS, and what is refused."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from planner_cases import BARE, only, recorded, steady

import headrace
from headrace import InputError
from headrace.base import core
from headrace.cli import main as cli
from headrace.planner import PlanEngine, plan
from headrace.planner.candidates import GIB_STEPS, Host, find_backing_volumes, round_figure_up
from headrace.planner.database import DatabaseJudge
from headrace.planner.market.services import list_managed_shapes
from headrace.planner.question import PlanSettings, make_question
from headrace.simulation.services import SECONDS_A_MONTH, compare
from headrace.workload.server import SourceServer

SHOP = headrace.sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=24, threads=64)
GOALS = ["tps>=300"]
QUICK = {"goals": GOALS, "draws": 4, "instances": ["r7g.2xlarge"]}
SHOP_TEXT = "sysbench-tpcc:warehouses=500,cache_gib=24,threads=64"


@pytest.fixture(scope="module")
def all_services():
    return plan(SHOP, on="ec2,rds,aurora", size_gib=100, free_percent=0, **QUICK)


def answer(result, deployment: str):
    return next(answer for answer in result.services.answers if answer.deployment == deployment)


def engine(on, **settings) -> PlanEngine:
    return PlanEngine(make_question(SHOP, PlanSettings(on=on, **QUICK | settings)))


def judge_of(plans: PlanEngine) -> DatabaseJudge:
    assert isinstance(plans.judge, DatabaseJudge)
    return plans.judge


# --- bills ----------------------------------------------------------------------------------------


def test_golden_bills(all_services):
    """Prices: data/managed/prices_classes.csv (2024-01-09 to 2024-08-09), prices_storage.csv (2026-07-28); 730 h.

    100 GiB and the logs fit below 400 GiB, where RDS has 3,000 IOPS. At 300 tps that is too little, so RDS buys 400 GiB:
    rds:single-az     0.956 x 730 + 400 x 0.115 = 697.88 + 46.00   = 743.88
    rds:multi-az      1.913 x 730 + 400 x 0.23  = 1,396.49 + 92.00 = 1,488.49
    aurora io-opt.    2 x 1.437 x 730 + 100 x 0.225 = 2,098.02 + 22.50 = 2,120.52
    aurora standard   2 x 1.106 x 730 + 100 x 0.10 = 1,614.76 + 10.00, and 0.20 a million I/Os
    """
    usd = {answer.deployment: answer.best and answer.best.cost_usd_month for answer in all_services.services.answers}
    assert round(usd["rds:single-az"], 2) == 743.88
    assert round(usd["rds:multi-az"], 2) == 1_488.49
    assert round(usd["aurora:io-optimized"], 2) == 2_120.52
    ios = 0.20 * all_services.services.million_ios
    assert round(usd["aurora:standard"] - ios, 2) == 1_624.76
    assert usd["rds:multi-az-cluster"] is None


def test_prices_of_infracost_come_out():
    """infracost@01c59b17 db_instance_test: db.t3.large on demand 99.28 a month (0.136 x 730), Multi-AZ 198.56; gp2 20 GB 2.30."""
    for service, usd in (("rds:single-az", 99.28), ("rds:multi-az", 198.56)):
        answer = plan(
            steady(reads_per_s=10, writes_per_s=0, size_gib=20), on="rds:single-az", instances=["t3.large"], **BARE
        )
        assert round(answer.recommended.sum_usd("instance"), 2) == 99.28
        assert (
            answer.recommended.storage in ("gp2:20", "gp3:20") and round(answer.recommended.sum_usd("data"), 2) == 2.30
        )
        bill = core.service_bill(service, "t3.large", "gp2:20", "us-east-1")
        assert round(bill["items"][0]["usd"], 2) == usd


def test_every_item_has_a_day_and_a_known_source(all_services):
    for answer in all_services.services.answers:
        for item in answer.best.items if answer.best else ():
            assert item["as_of"].startswith("20") and item["source"], item
        assert answer.confidence and answer.cannot
        for fact in (*answer.failover_s, *answer.lost_s):
            assert fact.source
    assert len(all_services.services.comparison) == 15


def test_a_discount_holds_for_services():
    full, less = (plan(SHOP, on="rds:single-az", discount_percent=percent, **QUICK) for percent in (0, 10))
    assert less.recommended.cost_usd_month == pytest.approx(0.9 * full.recommended.cost_usd_month, rel=1e-9)


def test_io_optimized_breaks_even_at_its_formula(all_services):
    """I = 0.30 C + 1.25 S: 30 % more compute, 2.25 x storage (data/managed/rules.csv)."""
    standard = answer(all_services, "aurora:standard").best
    compute, stored = standard.sum_usd("instance"), next(i["usd"] for i in standard.items if "storage" in i["item"])
    even = all_services.services.break_even
    assert even.usd == pytest.approx(0.30 * compute + 1.25 * stored, rel=0.01)
    # Billed at the rate the goals ask for, all month.
    billed = core.aurora_billed(SHOP.database, standard.per_transaction["reads"], 300.0)
    million = (billed["reads"] + billed["writes"]) * 300.0 * SECONDS_A_MONTH / 1e6
    assert all_services.services.million_ios == pytest.approx(million, rel=1e-6)
    # With just so many I/Os the two cost the same.
    share = even.million_ios / million / 2  # of twice the rate
    more = {**QUICK, "goals": ["tps>=600"]}
    ratio = core.aurora_billed(SHOP.database, standard.per_transaction["reads"], 600.0)
    share *= (billed["reads"] + billed["writes"]) / (ratio["reads"] + ratio["writes"])
    same = plan(SHOP, on="aurora", size_gib=100, free_percent=0, busy_percent=100 * share, **more)
    usd = [answer(same, name).best.cost_usd_month for name in ("aurora:standard", "aurora:io-optimized")]
    assert usd[0] == pytest.approx(usd[1], rel=1e-6)


# --- the step at 400 GiB --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "reads", "storage"),
    [
        (399, 2_000, "gp3:399"),
        (399, 5_000, "gp3:400"),  # one GiB more, 0.12 USD: four volumes
        (400, 5_000, "gp3:400"),
        (100, 2_000, "gp3:100"),
        (100, 5_000, "gp3:400"),
    ],
)
def test_the_step_is_found(size, reads, storage):
    request = steady(reads_per_s=reads, writes_per_s=0, size_gib=size, read_kib=4.0)
    answer = plan(request, on="rds", **BARE)
    assert answer.recommended.storage == storage
    assert round(answer.recommended.cost_usd_month, 2) == round(0.115 * int(storage.split(":")[1]), 2)
    own = plan(request, on="ec2", exclude=["raid0", "raid10"], **BARE).recommended
    assert own.storage.startswith(f"gp3:{-(-size // 10) * 10}") and own.service == "ec2"


def test_nothing_cheaper_meets_the_goals():
    """Random demands: of a plain list of everything RDS sells in steps, nothing that meets the goals costs less."""
    chance = random.Random(3)
    for _ in range(4):
        size, reads = chance.randint(20, 700), chance.randint(500, 16_000)
        request = steady(reads_per_s=reads, writes_per_s=0, size_gib=size, read_kib=chance.choice([4.0, 16.0]))
        engine = PlanEngine(make_question(request, PlanSettings(on="rds", **BARE)))
        best = engine.answer().recommended
        size = round_figure_up(size, GIB_STEPS, 20, 65_536)
        listed = [f"gp3:{max(size, 20)}"] * (size < 400)
        listed += [f"gp3:{max(size, 400)}:{iops}" for iops in range(12_000, 22_000, 1_000)]
        listed += [f"gp3:{max(size, 400)}:{iops}:{iops // 4}" for iops in range(12_000, 16_000, 2_000)]
        listed += [f"gp2:{gib}" for gib in range(max(size, 20), 6_000, 250)]
        listed += [f"io1:{max(size, 400)}:{iops}" for iops in range(1_000, 16_000, 1_500)]
        place = next(i for i, host in enumerate(engine.hosts) if host.service == "rds:single-az")
        candidates = [(text, None, place) for text in listed]
        fine = engine.judge.performs(candidates)
        costs = engine.judge.compute_costs(candidates)
        cheapest = min((cost for cost, good in zip(costs, fine, strict=True) if good), default=math.inf)
        assert best.cost_usd_month <= cheapest + 0.005, (size, reads, best.place)
        assert engine.judge.performs([(best.storage, None, place)]) == [True]


def test_notation_of_every_point_can_be_bought():
    """The corners of every range, and points between them: RDS takes them, and more never costs less."""
    result = engine("rds")
    families = [family for family in result.families if family.service == "rds:single-az"]
    assert {family.volume_type for family in families} == {"gp3", "gp2", "io1", "io2"}
    chance = random.Random(5)
    for family in families:
        for shape in list_managed_shapes(family, 150, result.directory.as_of):
            (x, x_high), (y, y_high) = shape.x, shape.y
            for _ in range(20):
                point = (chance.randint(x, x_high), chance.randint(y, y_high))
                more = (chance.randint(point[0], x_high), chance.randint(point[1], y_high))
                got = [core.rds_storage(shape.write_storage(entry), result.directory.as_of) for entry in (point, more)]
                assert got[0]["size_gib"] >= 150
                if family.axis == "iops":
                    assert point[0] <= (got[0]["iops"] or 0)
                assert (got[0]["throughput_mib_s"] or 0) <= (got[1]["throughput_mib_s"] or 0)
                candidates = [(shape.write_storage(entry), None, 0) for entry in (point, more)]
                place = next(i for i, host in enumerate(result.hosts) if host.service == "rds:single-az")
                usd = result.judge.compute_costs([(text, None, place) for text, *_ in candidates])
                assert usd[0] <= usd[1] + 1e-9


# --- the same physics -----------------------------------------------------------------------------


def test_rds_is_the_array_behind_it():
    """Single-AZ is an EC2 server on the volumes as RDS lays them out, to the last bit."""
    result = engine("ec2,rds:single-az")
    rds = next(i for i, host in enumerate(result.hosts) if host.service == "rds:single-az")
    ec2 = next(i for i, host in enumerate(result.hosts) if host.service == "ec2")
    request = ["gp3:200", "gp3:400", "gp3:800:20000:1500", "gp2:300", "gp2:2000", "io1:500:9000", "io2:300:4000"]
    own = judge_of(result).run([(text, None, rds) for text in request], bounds=False)
    behind = [find_backing_volumes(text, "rds:single-az", result.directory.as_of) for text in request]
    reference = judge_of(result).run([(text, None, ec2) for text in behind], bounds=False)
    for name in ("tps", "p95_ms", "reads_per_tx", "ios_per_tx"):
        assert own[name].tolist() == reference[name].tolist()


@pytest.mark.parametrize("deployment", ["rds:multi-az", "rds:multi-az-cluster", "aurora:standard"])
def test_plan_and_predict_agree(deployment):
    """`headrace predict --on` runs ten minutes second by second; the planner looks at settled steps of a minute."""
    # Ten minutes with full buckets, as the comparison has them.
    result = engine([deployment, "ec2"], cycle="first", hours=1 / 6)
    host = next((host for host in result.hosts if host.service == deployment), None)
    if host is None:  # no price of a cluster's class: its physics is looked at all the same
        with_price = next(host for host in result.hosts if host.service == "ec2")
        host = Host(with_price.instance, 0.0, with_price.cache_gib, deployment)
        result.hosts.append(host)
    storage = "aurora" if deployment.startswith("aurora") else "gp3:500"
    row = judge_of(result).run_ungrown([(storage, None, result.hosts.index(host))])
    comparison = compare(
        SHOP, "gp3:500", on=[deployment], instance="r7g.2xlarge", cache_gib=host.cache_gib, draws=0, seed=None
    )
    assert row["tps"][0] == pytest.approx(comparison.outcomes[0].tps, rel=0.01)
    assert row["p95_ms"][0] == pytest.approx(comparison.outcomes[0].p95_ms, rel=0.02)


def test_a_standby_costs_latency_and_aurora_is_least_known():
    few = plan(SHOP, on="rds:single-az,rds:multi-az", threads=1, goals=["tps>=1"], draws=4, instances=["r7g.2xlarge"])
    alone, twice = (answer(few, name).best.metrics["tps"] for name in ("rds:single-az", "rds:multi-az"))
    assert twice < 0.995 * alone
    # On the same volumes.
    result = engine("ec2,rds,aurora")
    storage = {"ec2": "4xgp3:100", "rds:single-az": "gp3:400", "rds:multi-az": "gp3:400", "aurora:standard": "aurora"}
    places = {host.service: place for place, host in enumerate(result.hosts)}
    doubts = judge_of(result).scenarios.compute_doubts([(text, None, places[name]) for name, text in storage.items()])
    width = [doubt.spread for doubt in doubts]
    assert width == sorted(width) and len(set(width)) == len(width)


def test_ec2_alone_is_the_plan_it_was():
    assert plan(SHOP, on="ec2", **QUICK).to_dict() == plan(SHOP, **QUICK).to_dict()
    assert plan(SHOP, **QUICK).services is None
    # Beside services, EC2's own choice is the same.
    both = plan(SHOP, on="ec2,aurora", **QUICK)
    alone = plan(SHOP, **QUICK).recommended
    assert alone is not None
    assert (answer(both, "ec2").best.storage, answer(both, "ec2").best.cost_usd_month) == (
        alone.storage,
        alone.cost_usd_month,
    )


def test_rds_beside_ec2_is_the_plan_that_it_is_alone():
    """Random sizes: four volumes of RDS burst to 12,000 IOPS, and that one of EC2 in the same notation fails says
    nothing of them."""
    chance = random.Random(11)
    for _ in range(4):
        size, reads = chance.randint(420, 900), chance.randint(4_000, 9_000)
        request = recorded([float(reads)] + [100.0] * 23, interval_s=3_600.0, size_gib=size, read_kib=4.0)
        settings = {"instances": ["r7g.4xlarge"], "exclude": only("gp2"), **BARE}
        alone = answer(plan(request, on="rds", **settings), "rds:single-az").best
        both = answer(plan(request, on="ec2,rds", **settings), "rds:single-az").best
        assert alone is not None and both is not None, (size, reads)
        assert (both.storage, both.cost_usd_month) == (alone.storage, alone.cost_usd_month), (size, reads)


# --- what is refused, and what has no price --------------------------------------------------------


def test_what_has_no_price_is_named(all_services):
    missing = answer(all_services, "rds:multi-az-cluster")
    assert missing.best is None and "no class" in missing.why
    skipped = all_services.search.skipped_instances
    assert any("rds:multi-az-cluster" in name and "no price" in why for name, why in skipped)
    elsewhere = plan(SHOP, on="ec2,rds:single-az", region="eu-west-1", **QUICK)
    assert elsewhere.recommended.service == "ec2"
    assert answer(elsewhere, "rds:single-az").best is None


def test_what_is_not_there_yet_or_holds_too_little_is_said():
    with pytest.raises(InputError, match="exists since 2015-07-27, and limits of 2012-01-01"):
        plan(SHOP, on="aurora", goals=GOALS, as_of="2012-01-01")
    # RDS holds 64 TiB: nothing was looked at, so no probability is told.
    from headrace.report.plan_words import list_answer_lines

    huge = plan(SHOP, on="rds", size_gib=70_000, **QUICK)
    text = " ".join(line for line, _ in list_answer_lines(huge))
    assert (
        f"holds less than the {huge.load.needed_gib:,.0f} GiB needed" in text
        and "There was no candidate to evaluate on 1 instance type." in text
    )
    assert "evaluated" not in text and "Probabilities" not in text


def test_aurora_does_not_run_myrocks():
    rocks = headrace.sysbench_tpcc(warehouses=500, engine="myrocks", cache_gib=24, threads=64)
    result = plan(rocks, on="ec2,aurora:standard", **QUICK)
    assert result.recommended.service == "ec2"
    assert answer(result, "aurora:standard").best is None
    assert "MyRocks" in answer(result, "aurora:standard").why


def test_a_mariadb_stays_one_and_goes_where_that_is_run():
    maria = replace(SHOP, server=SourceServer(flavor="mariadb", version="10.11.6-MariaDB"))
    result = plan(maria, on="rds,aurora", **QUICK)
    assert result.recommended is not None and result.recommended.service.startswith("rds:")
    [line] = [line for action in result.steps.actions for line in action["lines"] if "create-db-instance" in line]
    assert "--engine mariadb" in line and "--engine mysql" not in line
    for deployment in ("rds:multi-az-cluster", "aurora:standard", "aurora:io-optimized"):
        assert answer(result, deployment).best is None and "MariaDB" in answer(result, deployment).why
    outcomes = compare(maria, "gp3:500", on=["rds", "aurora"], instance="r6g.xlarge", seconds=60, draws=4).outcomes
    refused = {outcome.deployment for outcome in outcomes if outcome.refusal and "MariaDB" in outcome.refusal}
    assert refused == {"rds:multi-az-cluster", "aurora:standard", "aurora:io-optimized"}
    [line] = [line for line in plan(SHOP, on="rds", **QUICK).steps.actions[0]["lines"] if "create-db" in line]
    assert "--engine mysql" in line


@pytest.mark.parametrize(
    ("workload", "settings", "word"),
    [
        (SHOP, {"on": "rsd"}, "not a service"),
        (SHOP, {"on": ""}, "names no service"),
        (SHOP, {"on": [3]}, "must name services"),
        (SHOP, {"on": "rds", "commitment": "reserved-1y"}, "on-demand prices"),
        (SHOP, {"on": "rds", "snapshot_days": 7}, "no backups"),
        (SHOP, {"on": "rds", "instances": ["none"]}, "no meaning at a service"),
        (SHOP, {"on": "aurora", "instances": ["m6i.large"]}, "no class can be planned"),
        (SHOP, {"on": "rds", "compare": "gp3:500", "instances": ["r6g.large"]}, "is storage on EC2"),
        (SHOP, {"on": "aurora", "readers": 16}, "readers"),
        (SHOP, {"on": "aurora", "busy_percent": 101}, "busy_percent"),
        (steady(), {"on": "aurora"}, "log records"),
        (steady(), {"on": "rds:multi-az"}, "standby"),
    ],
)
def test_bad_input_is_refused(workload, settings, word):
    goals = {"goals": GOALS, "draws": 2} if workload is SHOP else {}
    with pytest.raises(InputError, match=word):
        plan(workload, **goals | {"instances": ["r7g.2xlarge"]} | settings)


def test_the_command(capsys):
    arguments = ["plan", SHOP_TEXT, "--goal", "tps>=300", "--instances", "r7g.2xlarge", "--draws", "2"]
    assert cli.main([*arguments, "--on", "rds,aurora", "--explain"]) == 0
    out = capsys.readouterr().out
    for words in ("Then and now", "RDS stops the server", "create-db-instance", "price of"):
        assert words in out
    assert "I/O-Optimized pays from" in out
    assert cli.main([*arguments, "--on", "rds", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["services"]["answers"][0]["deployment"] == "rds:single-az"
    assert cli.main([*arguments, "--on", "rds", "--output", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("rank,recommended,service")
    for more, word in (
        (["--readers", "2"], "option of --on"),
        (["--on", "rds", "--replica-lag-s", "1"], "not planned together with --replica-lag-s"),
    ):
        assert cli.main([*arguments, *more]) == 2
        assert word in capsys.readouterr().err
