"""EC2, RDS and Aurora side by side: what the answer is made of, what is refused, and that doubt is said."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest

import headrace
from headrace import InputError
from headrace.base import core
from headrace.base.units import Z80
from headrace.cli import main as cli
from headrace.report.charts.predictions import draw_side_by_side
from headrace.simulation.services import SECONDS_A_MONTH, UNSEEN_AURORA, UNSEEN_AURORA_FAR, compare

SHOP = headrace.sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=24, threads=64)
SHORT = {"instance": "r6g.xlarge", "seconds": 60, "draws": 4}
ARGUMENTS = ["predict", "sysbench-tpcc:warehouses=500,cache_gib=24,threads=64", "--storage", "gp3:500"]


def of(result, deployment: str):
    return next(outcome for outcome in result.outcomes if outcome.deployment == deployment)


@pytest.fixture
def run(capsys):
    """Runs the command in this process: exit code, stdout, stderr."""

    def called(*arguments: str) -> tuple[int, str, str]:
        code = cli.main([*ARGUMENTS, *arguments])
        out = capsys.readouterr()
        assert "Traceback" not in out.out + out.err
        return code, out.out, out.err

    return called


def test_ec2_is_what_predict_says():
    comparison = compare(SHOP, "gp3:500", on=["ec2"], seed=None, **SHORT)
    alone = headrace.predict(SHOP, "gp3:500", instance="r6g.xlarge", seconds=60, start="warm", seed=None, draws=4)
    own = of(comparison, "ec2")
    # The comparison takes the same steps of a second.
    assert own.tps == pytest.approx(alone.summary["tps"], rel=1e-9)
    assert (own.tps_low, own.tps_high) == pytest.approx((alone.summary["tps_low"], alone.summary["tps_high"]), rel=1e-3)


def test_services_stand_in_order_and_each_has_its_doubt():
    comparison = compare(SHOP, "gp3:500", **SHORT)
    assert [outcome.deployment for outcome in comparison.outcomes] == core.deployments(["ec2", "rds", "aurora"])
    for outcome in comparison.outcomes:
        assert outcome.tps_low < outcome.tps < outcome.tps_high and outcome.confidence and outcome.cannot
        assert "measured" not in outcome.confidence
    width = {outcome.deployment: math.log(outcome.tps_high / outcome.tps_low) for outcome in comparison.outcomes}
    assert width["ec2"] < width["aurora:standard"] and width["rds:single-az"] < width["aurora:standard"]
    assert "published Aurora figures lie near" in of(comparison, "aurora:standard").confidence
    # 12,000 IOPS behind 500 GiB of RDS, 3,000 behind those of EC2.
    assert of(comparison, "rds:single-az").volumes == "4xgp3:125:3000:125"
    assert of(comparison, "rds:single-az").tps > 2 * of(comparison, "ec2").tps
    assert of(comparison, "aurora:standard").tps == of(comparison, "aurora:io-optimized").tps


def test_a_burst_that_outlasts_the_run_is_told_of_each_deployment():
    # gp2:400 has 1,200 IOPS once its 5.4 million credits are spent, and so have the four volumes of RDS behind it.
    short = {"instance": "r6g.xlarge", "draws": 4}
    bursts = [
        note
        for note in compare(SHOP, "gp2:400", on=["ec2", "rds:single-az", "aurora:standard"], **short).notes
        if "burst credits" in note
    ]
    assert [note.partition(": ")[0] for note in bursts] == ["ec2", "rds:single-az"]
    assert all("--seconds" in note and "--start-balance" not in note for note in bursts)
    lasting = compare(SHOP, "gp3:300", on=["ec2"], **short)
    assert not any("burst" in note for note in lasting.notes)


def test_a_question_far_from_all_published_ones_has_a_wider_interval():
    near = compare(SHOP, "gp3:500", on=["aurora:standard"], **SHORT).outcomes[0]
    far = compare(SHOP, "gp3:500", on=["aurora:standard"], threads=400, **SHORT).outcomes[0]
    assert near.confidence.startswith("1 of ") and far.confidence.startswith("0 of ")
    spreads = [math.log(each.tps_high / each.tps_low) / (2.0 * Z80) for each in (near, far)]
    # The doubt of the service differs; the databases drawn answer 400 clients a little
    # differently.
    more = UNSEEN_AURORA_FAR**2 - UNSEEN_AURORA**2
    assert spreads[1] ** 2 - spreads[0] ** 2 == pytest.approx(more, rel=0.1)


def test_a_bill_is_its_items_and_counts_the_month():
    comparison = compare(SHOP, "gp3:500", on=["aurora"], readers=2, busy_percent=50.0, seed=None, **SHORT)
    entry = of(comparison, "aurora:standard")
    assert entry.bill.usd_month == pytest.approx(sum(item["usd"] for item in entry.bill.items))
    assert entry.bill.items[0]["quantity"] == 3 * 730
    assert entry.ios_per_tx is not None
    assert entry.bill.million_ios == pytest.approx(sum(entry.ios_per_tx) * entry.tps * 0.5 * SECONDS_A_MONTH / 1e6)
    assert of(comparison, "aurora:io-optimized").bill.items[-1]["usd"] == 0.0


def test_data_of_unknown_size_are_billed_by_their_pages_on_disk():
    """MyRocks' blocks are compressed: those on disk count, not those in the cache."""
    for engine in ("innodb", "myrocks"):
        load = headrace.sysbench_tpcc(warehouses=500, engine=engine, cache_gib=24, threads=64)
        comparison = compare(replace(load, size_gib=None), "gp3:500", on=["aurora:standard"], seed=None, **SHORT)
        pages = sum(item["pages"] for item in load.database["popularity"])
        assert comparison.data_gib == pytest.approx(pages * load.database["read_bytes"] / 2**30)


def test_break_even_is_where_both_cost_the_same():
    comparison = compare(SHOP, "gp3:500", on=["aurora"], seed=None, **SHORT)
    even = comparison.break_even
    bills = [
        core.service_bill(entry, "r6g.xlarge", "gp3:500", "us-east-1", None, 1, comparison.data_gib, even.million_ios)[
            "total_usd"
        ]
        for entry in ("aurora:standard", "aurora:io-optimized")
    ]
    assert bills[0] == pytest.approx(bills[1], abs=0.005)
    assert even.usd / bills[0] * 100 == pytest.approx(even.share_percent)


def test_readers_decide_lag_and_failover():
    with_one = of(compare(SHOP, "gp3:500", on=["aurora:standard"], **SHORT), "aurora:standard")
    alone = of(compare(SHOP, "gp3:500", on=["aurora:standard"], readers=0, **SHORT), "aurora:standard")
    assert with_one.lag.ms is not None and alone.lag.ms is None
    assert (with_one.rto_s[1].value, alone.rto_s[1].value) == (60.0, 600.0)


def test_a_replica_by_binary_log_is_that_of_predict_replica():
    """The run, replica and source are those of `predict --replica`; at a tenth of it, it keeps
    up."""
    result = of(compare(SHOP, "gp3:500", on=["ec2"], **SHORT), "ec2")
    alone = headrace.predict_replica(
        SHOP, "gp3:500", headrace.Replica("gp3:500"), instance="r6g.xlarge", seconds=60, draws=0, seed=1,
    )  # fmt: skip
    assert f"up to {alone.summary['applier_tps']:,.3g} tps" in result.lag.words
    half = alone.rows.filter((alone.rows["t_s"] >= 30) & (alone.rows["t_s"] < 60))["lag_s"] * 1e3
    assert result.lag.ms == pytest.approx((half.mean(), half.max()), rel=0.05)  # the source's seconds are drawn
    cluster = of(compare(SHOP, "gp3:500", on=["rds:multi-az-cluster"], **SHORT), "rds:multi-az-cluster")
    assert cluster.lag.ms is not None and "120 s" in cluster.lag.words
    assert of(compare(SHOP, "gp3:500", on=["rds:multi-az"], **SHORT), "rds:multi-az").lag.ms is None
    idle = of(compare(SHOP, "gp3:500", on=["ec2"], arrivals_tps=0.1 * result.tps, **(SHORT | {"draws": 4})), "ec2")
    assert idle.lag.ms[1] < 1_000 and idle.lag.keeps_up == 1.0


def test_what_a_service_cannot_is_said_and_the_others_go_on():
    comparison = compare(SHOP, "st1:500", **SHORT)
    assert "does not offer st1" in of(comparison, "rds:multi-az").refusal
    assert of(comparison, "ec2").tps > 0 and of(comparison, "aurora:standard").tps > 0
    rocks = headrace.sysbench_tpcc(warehouses=100, engine="myrocks", cache_gib=4, threads=8)
    assert "Aurora" in of(compare(rocks, "gp3:500", **SHORT), "aurora:standard").refusal
    old = compare(SHOP, "gp2:500", as_of="2014-06-01", instance="r3.xlarge", seconds=60, draws=0)
    assert "2015-07-27" in of(old, "aurora:standard").refusal
    tiny = compare(SHOP, "gp3:500", cache_gib=64.0, **SHORT)
    assert all("GiB of memory" in outcome.refusal for outcome in tiny.outcomes)


def test_more_of_anything_is_never_slower():
    """Clients, processors: a random walk upwards, all services."""
    for smaller, larger in itertools.pairwise(("r6g.large", "r6g.xlarge", "r6g.4xlarge")):
        for name in ("ec2", "rds:multi-az", "aurora:standard"):
            rates = [
                compare(SHOP, "gp3:500", on=[name], instance=entry, cache_gib=12.0, seconds=60, draws=0, seed=None)
                .outcomes[0]
                .tps
                for entry in (smaller, larger)
            ]
            assert rates[0] <= rates[1] * (1 + 1e-9), (name, smaller, larger)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"on": ["rsd"]}, "not a service"),
        ({"on": []}, "names no service"),
        ({"readers": 16}, "readers"),
        ({"busy_percent": -1.0}, "busy-percent"),
        ({"region": "moon-1"}, "not a region"),
        ({"instance": "x9.large"}, "x9"),
        ({"threads": 0}, "threads"),
    ],
)
def test_bad_input_is_refused(changed, message):
    with pytest.raises(InputError) as caught:
        compare(SHOP, "gp3:500", **(SHORT | changed))
    assert message in str(caught.value)


def test_the_command_prints_table_json_csv_and_a_page(run, tmp_path):
    page = tmp_path / "page.html"
    common = ("--on", "ec2,rds,aurora", "--instance", "r6g.xlarge", "--seconds", "30")
    code, details, _ = run(*common, "--report", str(page))
    assert code == 0
    for word in ("rds:multi-az", "no price", "I/O-Optimized pays", "cannot shrink storage", "coroot-managed"):
        assert word in details
    assert "measured" not in details.lower()
    assert "<svg" in page.read_text() and "Bill of a month" in page.read_text()
    answer = json.loads(run(*common, "--output", "json")[1])
    assert answer["schema"] == "headrace-services/1" and len(answer["outcomes"]) == 6
    lines = run(*common, "--output", "csv")[1].splitlines()
    assert lines[0].startswith("deployment,class,possible") and len(lines) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on", "ec2"), "needs --instance"),
        (("--readers", "2"), "is an option of --on"),
        (("--on", "ec2", "--instance", "r6g.xlarge", "--form", "events"), "--form events"),
        (("--on", "ec2", "--instance", "r6g.xlarge", "--log-storage", "gp3:10"), "--log-storage"),
        (("--on", "ec2", "--instance", "r6g.xlarge", "--replica", "gp3:500"), "--replica"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(run, arguments, message):
    code, _, answer = run(*arguments)
    assert code == 2 and message in answer


@pytest.mark.parametrize("output", ["table", "json"])
def test_none_that_is_possible_is_a_finding(run, tmp_path, output):
    """It ended with 0, and drew a chart of nothing."""
    page = tmp_path / "page.html"
    code, details, answer = run("--on", "rds", "--instance", "t2.nano", "--output", output, "--report", str(page))
    assert code == 1 and "db.t2.nano" in details and not page.exists()
    assert "none of rds:single-az, rds:multi-az, rds:multi-az-cluster is possible with t2.nano" in answer


def test_the_chart_names_what_is_billed_and_nothing_else():
    """gp3:500 is billed by its size alone: a colour for IOPS stood in the legend of no bar. Each
    deployment has its row in both panels, that without a price too."""
    comparison = compare(SHOP, "gp3:500", on=["ec2", "rds"], **SHORT)
    drawn = draw_side_by_side(comparison, "shop").to_dict()
    bills = drawn["vconcat"][1]
    assert bills["encoding"]["color"]["scale"]["domain"] == ["server", "storage"]
    names = ["ec2", "rds:single-az", "rds:multi-az", "rds:multi-az-cluster"]
    assert bills["encoding"]["y"]["scale"]["domain"] == names
    assert bills["encoding"]["x"]["title"] == "USD a month; no bar: no price known"
    for panel in (bills["encoding"]["x"], _x_of(drawn["vconcat"][0])):
        # The last number was moved inwards, onto the one before it.
        assert panel["axis"]["labelFlush"] is False and panel["axis"]["tickCount"] <= 8


def _x_of(layers: dict) -> dict:
    return layers["layer"][0]["encoding"]["x"]
