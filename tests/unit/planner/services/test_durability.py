"""Worth of the copies of a service: two of RDS Multi-AZ, three of its cluster, six of Aurora."""

from __future__ import annotations

import csv
import math
import random
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest

import headrace
from headrace.planner import plan
from headrace.planner.market.durability import Copies, compute_copies_afr_percent, find_copies, format_small_percent
from headrace.report import plan_words

SHOP = headrace.sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=24, threads=64)


def test_copies_are_lost_together_only_within_the_repair():
    """By hand: a = 0.2 %, r = -ln(0.998) = 0.0020020 a year. Two copies, 24 h = 1/365.25 of a year: 2 r x r T
    = 2 x 0.0020020^2 / 365.25 = 2.1947e-8 a year. Three: 3 r (r T)^2 = 3 x 0.0020020^3 / 365.25^2 = 1.804e-13."""
    copies, cluster = find_copies("rds:multi-az"), find_copies("rds:multi-az-cluster")
    assert compute_copies_afr_percent(0.2, copies) == pytest.approx(2.1947e-6, rel=1e-3)
    assert compute_copies_afr_percent(0.2, cluster) == pytest.approx(1.804e-11, rel=1e-3)
    assert find_copies("ec2") is None and find_copies("rds:single-az") is None
    assert find_copies("aurora:standard") == find_copies("aurora:io-optimized")
    # Without a chance to repair in the year, at most as probable as a mirror never repaired.
    assert compute_copies_afr_percent(50.0, replace(copies, repair=1e9)) == pytest.approx(100 * (1 - 0.5**2), rel=1e-6)


def test_a_stay_of_many_years_agrees_with_the_formula_of_copies():
    """A naive walk: failures of each copy as a Poisson process; lost when enough fail within the repair of one."""
    copies, chance = Copies(3, 2, 0.02, None, ""), random.Random(7)
    lost, years = 0, 20_000
    for _ in range(years):
        times = sorted(
            (at, which)
            for which in range(3)
            for at in accumulate(chance.expovariate(-math.log1p(-0.3)) for _ in range(12))
            if at < 1
        )
        lost += any(
            later - at < copies.repair and entry != other
            for index, (at, entry) in enumerate(times)
            for later, other in times[index + 1 :]
        )
    expected = compute_copies_afr_percent(30.0, copies) / 100
    # Four standard deviations of the count.
    assert abs(lost / years - expected) < 4 * math.sqrt(expected / years) + 0.01 * expected


def test_small_chances_are_not_told_to_more_than_is_known():
    texts = [format_small_percent(value) for value in (0.8, 12.0, 3.5e-5, 1e-9)]
    assert texts == ["0.8 %", "12 %", "0.000035 %", "below 0.000001 %"]


def test_every_figure_of_copies_has_a_source_and_a_day():
    rows = list(csv.DictReader((files("headrace.planner.market") / "copies.csv").read_text().splitlines()))
    table_id = set(pl.read_csv(Path(__file__).parents[4] / "data" / "sources.csv")["id"])
    for row in rows:
        assert row["source"] == "unsourced" or set(row["source"].split("+")) <= table_id, row
        assert row["as_of"] <= "2026-11-24" and row["note"] and row["confirmed"] in ("true", "false"), row
        assert row["source"] != "unsourced" or row["confirmed"] == "false", row


def test_a_standby_in_another_zone_is_a_second_copy():
    """RDS stripes 400 GiB over four volumes: one copy is lost with any of them, 1 - 0.998^4 = 0.7976 % a year.
    Two copies, repaired within 24 h: r = -ln(1 - 0.007976) = 0.0080080; 2 r (r / 365.25) = 3.511e-7, 3.5e-5 %."""
    result = plan(
        SHOP,
        on="rds:single-az,rds:multi-az,aurora",
        goals=["tps>=300"],
        instances=["r7g.2xlarge"],
        size_gib=100,
        draws=4,
    )
    best = {answer.deployment: answer.best for answer in result.services.answers}
    single, multi = best["rds:single-az"], best["rds:multi-az"]
    assert single.storage == multi.storage == "gp3:400"
    assert single.durability_afr_percent == pytest.approx(0.7976, rel=1e-3)
    assert multi.durability_afr_percent == pytest.approx(3.511e-5, rel=1e-3)
    assert multi.metrics["durability_afr_percent"] == multi.durability_afr_percent
    assert "assumed" in multi.durability and "24 h" in multi.durability and "rds-guide-2026-04" in multi.durability
    aurora = best["aurora:standard"]
    assert 0 < aurora.durability_afr_percent < 1e-6 and "sigmod-2017" in aurora.durability
    assert plan_words.describe_durability(aurora) == "data-loss risk below 0.000001 % a year"
    assert any(
        "copies in different zones" in line and line.startswith("rds:multi-az") for line in lines_of_rules(result)
    )


def lines_of_rules(result) -> list[str]:
    from headrace.report.services import list_storage_rules

    return list_storage_rules(result.services)
