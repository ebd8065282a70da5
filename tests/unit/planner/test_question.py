"""Impossible questions are refused in words before anything is searched: by the library, with the
value, the rule and a hint."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_cases import certain, only, shop, steady

import headrace
from headrace.errors import InputError
from headrace.planner import plan, plan_against
from headrace.planner.question import PlanSettings, make_question
from headrace.workload import ClosedWorkload

DEMAND = [
    ({"goals": ["p99_mss<=2"]}, "not a known metric"),
    ({"goals": ["tps>=300"]}, "not a known metric"),
    ({"goals": "p99_ms"}, "METRIC<=NUMBER"),
    ({"region": "us-east-9"}, "region"),
    ({"as_of": "yesterday"}, "YYYY-MM-DD"),
    ({"as_of": "2024-13-01"}, "2024-13-01"),
    ({"size_gib": 0}, "above 0"),
    ({"size_gib": math.nan}, "must be"),
    ({"size_gib": 1e9}, "must be"),
    ({"free_percent": -1}, "free_percent"),
    ({"free_percent": 100}, "free_percent"),
    ({"free_percent": "a quarter"}, "free_percent"),
    ({"growth": 0}, "must be"),
    ({"growth": -1}, "must be"),
    ({"growth": math.inf}, "growth"),
    ({"demand_growth": 0}, "demand_growth"),
    ({"data_growth": math.nan}, "data_growth"),
    ({"growth": 2.0, "demand_growth": 3.0}, "is given together with demand_growth"),
    ({"growth": 2.0, "data_growth": 3.0}, "is given together with data_growth"),
    ({"size_gib": 100, "data_growth": 2.0}, "is given together with size_gib"),
    ({"months": -1}, "months"),
    ({"months": 121}, "months"),
    ({"on": "aurora"}, "cannot be planned for a demand"),
    ({"on": None}, "must name services"),
    ({"instances": ["r6i.lrge"]}, "r6i.lrge"),
    ({"instances": ["z9.*"]}, "matches no instance"),
    ({"instances": []}, "no instance"),
    ({"instances": [None]}, "matches no instance"),
    ({"max_volumes": 0}, "max_volumes"),
    ({"max_volumes": 129}, "max_volumes"),
    ({"max_volumes": 1.5}, "max_volumes"),
    ({"exclude": ["gp9"]}, "neither a volume type"),
    ({"exclude": [None]}, "neither a volume type"),
    ({"compare": "gp2"}, "size"),
    ({"compare": "gp2:99999"}, "16384"),
    ({"compare": ""}, "missing"),
    ({"compare": "gp3:500,"}, "after the comma comes log=STORAGE"),
    ({"compare": "gp3:500,log=gp3:20"}, "has a log volume"),
    ({"compare": "m5.lrge/gp3:500"}, "m5.lrge"),
    ({"compare": "/gp3:500"}, "names no instance type"),
    ({"start_balance": 101}, "start_balance"),
    ({"start_balance": 50, "cycle": "settled"}, "is the state of a first day"),
    ({"cycle": "second"}, "must be one of settled, first"),
    ({"discount_percent": -1}, "discount_percent"),
    ({"discount_percent": 101}, "discount_percent"),
    ({"commitment": "forever"}, "commitment"),
    ({"commitment": "savings-1y", "instances": "none"}, "--instances none plans volumes alone"),
    ({"price_file": "nowhere.toml"}, "nowhere.toml"),
    ({"nodes": 0}, "nodes"),
    ({"nodes": 1.5}, "nodes"),
    ({"snapshot_days": -1}, "snapshot_days"),
    ({"daily_change_percent": 101}, "daily_change_percent"),
    ({"daily_change_percent": 7}, "of snapshots, and none are kept"),
    ({"on": "ec2,rds", "readers": 2}, "of an Aurora cluster"),
    ({"top": 0}, "top"),
    ({"colour": "blue"}, "is not a setting of a plan"),
    ({"threads": 4}, "belongs to plans for databases"),
    ({"arrivals_tps": 4.0}, "belongs to plans for databases"),
    ({"start": "warm"}, "belongs to plans for databases"),
    ({"hours": 2.0}, "belongs to plans for databases"),
    ({"cache_share": 0.5}, "belongs to plans for databases"),
    ({"confidence": 0.9}, "belongs to plans for databases"),
    ({"draws": 3}, "belongs to plans for databases"),
    ({"seed": 3}, "belongs to plans for databases"),
]


@pytest.mark.parametrize(("changes", "word"), DEMAND, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_bad_input_is_refused_in_words(changes, word):
    with pytest.raises(headrace.HeadraceError, match=word):
        plan(steady(), **changes)


def test_a_size_that_is_given_does_not_grow_and_the_plan_says_so():
    growing = replace(steady(), growth_per_year=0.3)
    stays = "The data are those of --size-gib: they do not grow."
    for changes, factor in (({"months": 12}, 1.3), ({"growth": 1.3}, 1.3), ({"demand_growth": 1.3}, 1.3)):
        result = plan(growing, size_gib=100, exclude=only("gp3"), **changes)
        assert (result.load.size_gib, result.load.data_growth) == (100, 1.0)
        assert result.load.demand_growth == pytest.approx(factor)
        assert (stays in result.doubts.caveats) == ("demand_growth" not in changes)
        assert not any("data x" in note for note in result.doubts.caveats)


def test_a_commitment_without_instances_is_noted():
    words = "The commitment savings-1y is in no price"
    assert any(words in note for note in plan(steady(), commitment="savings-1y", compare="gp3:500").doubts.caveats)
    planned = plan(steady(), commitment="savings-1y", instances=["m5.large"])
    assert not any(words in note for note in planned.doubts.caveats)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(InputError, match="needs demand over time"):
        plan(ClosedWorkload(name="fio", rw="randread", bs_kib=16, iodepth=16, numjobs=1, size_gib=100))
    with pytest.raises(InputError, match="how many GiB"):
        plan(steady(size_gib=None))
    with pytest.raises(InputError, match="no I/O at all"):
        plan(steady(reads_per_s=0, writes_per_s=0))
    for nothing in (None, "demo:day", 3):
        with pytest.raises(InputError, match="a plan needs a workload"):
            plan(nothing)
    with pytest.raises(InputError, match="how many GiB"):
        plan(replace(shop(), size_gib=None), goals="tps>=300")


def test_growth_over_the_months_is_refused_by_the_names_of_both():
    # It said "growth = 819628286980801.0", which nobody had written.
    with pytest.raises(InputError, match="--months 120 with growth_per_year = 30.*8.2e.14 times.*fewer --months"):
        plan(replace(steady(), growth_per_year=30), months=120)


def test_a_peak_above_the_bounds_is_refused_as_it_was_recorded():
    # It said "12000000: reads a second must be ...": the head-room of 20 % is in that.
    with pytest.raises(
        InputError, match="10,000,000 reads a second x 1 for growth, and 20 % of head-room: are 12,000,"
    ):
        plan(steady(reads_per_s=10_000_000))
    with pytest.raises(InputError, match="9,000,000 writes a second x 2 for growth, and 0 % of head-room"):
        plan(steady(writes_per_s=9_000_000), demand_growth=2.0, goals=["headroom_percent>=0"])


DATABASE = [
    ({"goals": []}, "no goal on performance"),
    ({"goals": [None]}, "METRIC"),
    ({"goals": ["p999_ms<=20"]}, "not a known metric"),
    ({"goals": ["tps<=300"]}, "better the more"),
    ({"goals": ["p95_ms>=50"]}, "better the less"),
    ({"goals": ["tps>300"]}, "only <= and >="),
    ({"goals": ["tps>=nan"]}, "0 or more"),
    ({"goals": ["p95_ms<=0"]}, "a response time must be above 0 ms"),
    ({"goals": ["cost_usd_month<=500"]}, "no goal on performance"),
    ({"goals": ["backlog_s<=1"]}, "arrivals-tps"),
    ({"arrivals_tps": 250}, "only 250"),
    ({"arrivals_tps": 0}, "arrivals_tps"),
    ({"arrivals_tps": -3}, "arrivals_tps"),
    ({"arrivals_tps": "many"}, "arrivals_tps"),
    ({"threads": 0}, "threads"),
    ({"threads": 1.5}, "threads"),
    ({"start": "hot"}, "must be one of cold, warm"),
    ({"hours": 0}, "hours"),
    ({"hours": 1e6}, "hours"),
    ({"confidence": 0.3}, "confidence"),
    ({"confidence": 1}, "confidence"),
    ({"confidence": math.nan}, "confidence"),
    ({"confidence": True}, "confidence"),
    ({"cache_share": 1.5}, "cache_share"),
    ({"cache_share": 0}, "cache_share"),
    ({"cache_share": 0.5, "instances": "none"}, "of an instance's memory"),
    ({"draws": -1}, "draws"),
    ({"draws": 5_000}, "draws"),
    ({"draws": 2.5}, "draws"),
    ({"seed": -1}, "seed"),
    ({"seed": "x"}, "seed"),
    ({"demand_growth": 2.0}, "a database's demand is its goals"),
    ({"growth": 0}, "growth"),
    ({"size_gib": 0}, "above 0"),
    ({"instances": []}, "no instance"),
    ({"instances": ["t3.nano"]}, "t3.nano: 0.5 GiB of memory leave no 0.5 GiB of cache"),
    ({"compare": "r6i.large"}, "a storage is missing"),
    ({"compare": "r6i.lrge/gp2:500"}, "r6i.lrge"),
    ({"compare": "r6i.large/gp2:99999"}, "16384"),
    ({"compare": "r6i.large/gp2:1,log=gp2:2,log=gp2:3"}, "names one log volume at most"),
    ({"compare": "r6i.large/gp2:1,data=gp2:2"}, "after the comma comes log=STORAGE"),
    ({"compare": "+"}, "a member is missing"),
    ({"compare": 3}, "storage"),
    ({"top": 0}, "top"),
]


@pytest.mark.parametrize(("changes", "word"), DATABASE, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_bad_input_of_databases_is_refused_in_words(changes, word):
    with pytest.raises(InputError, match=word):
        plan(shop(), **{"goals": ["tps>=300"], "instances": ["r6i.large"]} | changes)


def test_two_databases_cannot_have_one_size():
    with pytest.raises(InputError, match="one size cannot hold"):
        plan_against(shop(), shop("myrocks", cache_gib=2.0), goals="tps>=300", size_gib=100)


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=8),
    st.lists(st.text(max_size=4), max_size=2),
)
NAMES = [name for name in PlanSettings.__dataclass_fields__ if name != "price_file"]


@settings(max_examples=150)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True),
    values=st.lists(ANY, min_size=3, max_size=3),
    database=st.booleans(),
)
def test_any_setting_is_taken_or_refused(names, values, database):
    """Nothing but InputError comes out of a question, whatever its settings are."""
    usual = {"goals": ["tps>=300"], "instances": ["r6i.large"]} if database else {}
    chosen = PlanSettings(**usual | dict(zip(names, values, strict=False)))
    try:
        make_question(shop() if database else steady(), chosen)
    except headrace.HeadraceError as error:
        assert error.exit_code in (2, 3) and str(error)


def test_a_stripe_meant_as_data_and_log_is_said():
    # B6: `plan W --compare 2xgp3:500+gp3:20` (data and log meant) said "holds 60 GiB, saves 73.60
    # USD".
    question = make_question(steady(), PlanSettings(compare="gp3:500+gp3:20"))
    assert str(question.today.data) == "raid0:gp3:500+gp3:20" and question.today.data.level == "raid0"
    assert any("RAID 0 of unlike members" in note and "gp3:500,log=gp3:20" in note for note in question.notes)
    answer = plan(steady(), compare="gp3:500+gp3:20", exclude=only("gp3"))
    # md fills a RAID 0 of unlike members to the end of each: 520 GiB, not twice the smallest.
    assert answer.choices.compared.usable_gib == 520


def test_need_is_the_data_over_what_is_not_free():
    def needed(**settings) -> int:
        return make_question(steady(), PlanSettings(**settings)).need.data_gib

    assert (needed(), needed(free_percent=0), needed(free_percent=50), needed(free_percent=20)) == (667, 500, 1000, 625)
    assert needed(size_gib=300) == 400 and needed(growth=1.5) == 1000 and needed(demand_growth=1.5) == 667


def test_no_draws_are_refused_and_no_drawn_database_is_claimed():
    """Without draws there is no probability to tell; a database that no calibration made has nothing to draw from."""
    database = headrace.sysbench_tpcc(warehouses=500, engine="innodb", cache_gib=24, threads=64)
    with pytest.raises(InputError, match="without draws there is none"):
        make_question(database, PlanSettings(goals=["tps>=300"], draws=0))
    with pytest.raises(InputError, match="a whole number 1 to"):
        make_question(database, PlanSettings(goals=["tps>=300"], draws=-1))
    quick = {"goals": ["tps>=300"], "instances": ["r6i.large"], "exclude": only("gp3")}
    answer = plan(database, draws=1, **quick)
    assert answer.doubts.draws == 1 and "Probabilities are based on 1 database drawn" in sentences(answer)
    bare = plan(certain(), draws=8, **quick)
    assert bare.doubts.draws == 0 and "because no calibration fitted them" in sentences(bare)


def sentences(result) -> str:
    from headrace.report.plan_words import list_answer_lines

    return " ".join(line for line, _ in list_answer_lines(result))
