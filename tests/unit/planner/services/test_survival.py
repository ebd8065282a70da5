"""Services that survive the loss of a server and of a zone: goals, and one winner in table and bill."""

from __future__ import annotations

import math

import pytest

import headrace
from headrace.planner.goals import Goal
from headrace.planner.market.durability import compute_survival

ASKED = {"on": "ec2,rds,aurora", "instances": ["r7g.xlarge", "r7g.2xlarge"], "draws": 2}


@pytest.fixture(scope="module")
def shop():
    return headrace.sysbench_tpcc(warehouses=500, cache_gib=24, threads=64)


@pytest.fixture(scope="module")
def by_bill(shop):
    return headrace.plan(shop, goals=["tps>=300"], **ASKED)


def test_the_recommended_is_in_the_table_and_in_the_bill(by_bill):
    recommended = by_bill.recommended
    planned_rows = {answer.deployment: answer for answer in by_bill.services.answers}
    assert recommended.service == "ec2"
    assert planned_rows["ec2"].best.storage == recommended.storage
    assert planned_rows["ec2"].best.cost_usd_month == recommended.cost_usd_month
    assert sum(item["usd"] for item in planned_rows["ec2"].best.items) == pytest.approx(recommended.cost_usd_month)


def test_no_price_is_not_impossible(by_bill):
    cluster = [family for family in by_bill.choices.families if family.family.startswith("rds:multi-az-cluster")]
    assert [(family.family, family.outcome) for family in cluster] == [("rds:multi-az-cluster", "no price")]


def test_aurora_says_that_a_reader_is_in_its_bill(by_bill):
    from headrace.report.services import list_planned_rows

    cells = {row[0]: row[1] for row in list_planned_rows(by_bill.services)}
    assert "with 1 reader" in cells["aurora:standard"] and "reader" not in cells["rds:multi-az"]


def test_a_lost_zone_and_a_failover_are_goals(shop):
    result = headrace.plan(shop, goals=["tps>=300", "zone-loss", "failover_s<=120"], **ASKED)
    assert result.recommended.service in ("rds:multi-az", "aurora:standard", "aurora:io-optimized")
    assert all(winner.service not in ("ec2", "rds:single-az") for winner in result.choices.winners)
    assert result.recommended.metrics["lost_with_zone_s"] == 0.0 and result.recommended.metrics["failover_s"] <= 120.0
    for answer in result.services.answers:
        if answer.deployment in ("ec2", "rds:single-az"):
            assert not answer.best.meets_goals and "zone" in answer.why


def test_the_name_of_the_goal_is_read():
    assert str(Goal.parse("zone-loss", "database")) == "lost_with_zone_s<=0"
    assert Goal.parse("Zone-Loss").metric == "lost_with_zone_s"


def test_figures_are_those_of_the_tables():
    """data/managed, rules of each service."""
    day = "2026-11-21"
    assert compute_survival("rds:multi-az", day, 1) == {"failover_s": 120.0, "lost_with_zone_s": 0.0}
    assert (
        compute_survival("aurora:standard", day, 1)["failover_s"]
        < compute_survival("aurora:standard", day, 0)["failover_s"]
    )
    assert math.isnan(compute_survival("ec2", day, 1)["lost_with_zone_s"])
