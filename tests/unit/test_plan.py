"""The planner against cases whose answer can be worked out by hand. Prices: us-east-1, in data/prices_volumes.csv."""

from __future__ import annotations

import json

import pytest

import headrace
from headrace.errors import InputError
from headrace.planner import plan
from headrace.workload import ClosedWorkload, OpenWorkload
from headrace.workload.daily import new_constant, new_daily
from headrace.workload.model import make_points

SINGLE = ("raid0", "raid10")


def steady(**changes) -> OpenWorkload:
    """2,500 IOPS of 16 KiB all day on 500 GiB."""
    return new_constant(
        **{
            "reads_per_s": 1_500,
            "writes_per_s": 1_000,
            "write_kib": 16.0,
            "seconds": 86_400,
            "size_gib": 500,
            "arrivals": "even",
            **changes,
        }
    )


def burst_day() -> OpenWorkload:
    """200 IOPS for 12 h, 2,500 IOPS for one hour, 200 IOPS for 11 h; 16 KiB reads on 300 GiB."""
    rates = [200.0] * 12 + [2_500.0] + [200.0] * 11
    points = make_points([3_600.0 * h for h in range(24)], [3_600.0] * 24, rates, [0.0] * 24, [16.0] * 24, [0.0] * 24)
    return OpenWorkload(name="burst day", kind="recorded", points=points, size_gib=300.0)


def family(found, name):
    return next(verdict for verdict in found.families if verdict.family == name)


def test_independent_arrivals_leave_less_head_room_than_even_ones():
    # On 3,000 IOPS. Even arrivals may grow to 3,000, 20 %. Independent ones use up the saved second within a day once x = 2 x 3000/64 x (1 - u) / u is below
    # ln(1 + 65536/874) = 4.33: u > 0.9559, 2,868 IOPS, 14.7 %: 14 in steps of 1 %.
    independent = plan(steady(arrivals="poisson"), exclude=SINGLE).winner
    assert (independent.storage, independent.headroom_percent) == ("gp3:500", 14.0)


def test_gp3_carries_a_steady_2500_iops_with_what_it_includes():
    found = plan(steady(), exclude=SINGLE, compare="gp2:1000")
    assert found.winner.storage == "gp3:500"
    # 500 GiB x 0.08 USD; 3,000 IOPS and 125 MiB/s are included, 2,500 IOPS x 16 KiB are 39 MiB/s.
    assert found.winner.cost_usd_month == pytest.approx(40.0)
    # 2,500 may grow to 3,000 IOPS; beyond, a day's excess is far above the second of saved tokens.
    assert found.winner.headroom_percent == 20.0
    # gp2 lives on its baseline and 5.4 million credits: (2,500 - 3 S) x 86,400 s <= 5.4e6, so S >= 812.5.
    gp2 = family(found, "gp2")
    assert (gp2.outcome, gp2.storage) == ("costs more", "gp2:813")
    assert gp2.cost_ratio == pytest.approx(81.3 / 40)
    assert "costs 2.03 x" in gp2.why
    # io1: 500 x 0.125 + 2,500 x 0.065
    assert family(found, "io1").cost_usd_month == pytest.approx(225.0)
    # 40 IOPS of st1's 1 MiB units: hopeless for random I/O, and the bound says so without simulating.
    assert family(found, "st1").outcome == "fails" and family(found, "st1").overload > 1
    assert "cannot deliver" in family(found, "st1").why
    assert found.compared.cost_usd_month == pytest.approx(100.0)
    assert found.saving_usd_month == pytest.approx(60.0)
    assert found.considered == found.simulated + found.bounded + found.invalid


def test_credits_carry_a_burst_before_gp3_existed():
    found = plan(burst_day(), as_of="2018-08-15", exclude=SINGLE)
    # (2,500 - 3 S) x 3,600 s <= 5.4e6, so S >= 333.3; at 334 GiB the hour takes 1,498 x 3,600 = 5,392,800 credits.
    assert found.winner.storage == "gp2:334"
    assert found.winner.metrics["lowest_balance_percent"] == pytest.approx(100 * (1 - 5_392_800 / 5_400_000), abs=1e-3)
    assert family(found, "gp3").why == "does not exist on 2018-08-15"
    # Burst is 3,000 IOPS, but 1 % more demand needs 25 x 3,600 more credits than are left.
    assert found.winner.headroom_percent == 0.0


def test_what_runs_dry_is_told_with_time_and_rate():
    today = plan(burst_day(), as_of="2018-08-15", exclude=SINGLE, compare="gp2:300").compared
    # 5.4e6 credits / (2,500 - 900) = 3,375 s into the hour that begins at 43,200 s.
    assert today.runs_dry["empty_at_s"] == pytest.approx(43_200 + 3_375, abs=1.0)
    assert (today.runs_dry["falls_to"], today.runs_dry["asked"]) == (900, 2_500)
    assert not today.meets_goals and any("throttled" in miss for miss in today.misses)
    assert today.binds["cap"] == "volume-credits"


def test_head_room_as_a_goal_buys_it():
    found = plan(steady(), exclude=SINGLE, goals=["throttled_min<=0", "headroom_percent>=50"])
    # 2,500 x 1.5 = 3,750 IOPS: 750 above the included at 0.005 USD.
    assert found.winner.storage == "gp3:500:3750"
    assert found.winner.cost_usd_month == pytest.approx(43.75)
    assert found.winner.headroom_percent == 50.0


def test_durability_as_a_goal_chooses_io2_and_mirrors():
    found = plan(steady(), goals=["throttled_min<=0", "durability_afr_percent<=0.01"])
    # gp3 is 0.2 % a volume; a mirrored pair of 2 pairs: 1 - (1 - 0.002^2)^2 = 0.0008 %.
    assert found.winner.storage == "raid10:4xgp3:250"
    assert found.winner.durability_afr_percent == pytest.approx(100 * (1 - (1 - 0.002**2) ** 2))
    assert family(found, "gp3").outcome == "fails" and "durability" in family(found, "gp3").why
    assert family(found, "gp3 RAID 0").outcome == "fails"
    assert family(found, "io2").outcome == "costs more"


def test_when_nothing_fits_the_closest_are_named_with_what_they_miss():
    found = plan(steady(), goals=["p99_ms<=0.01", "throttled_min<=0"])
    assert found.winners == [] and found.winner is None and found.saving_usd_month is None
    assert 1 <= len(found.closest) <= 5
    for choice in found.closest:
        assert not choice.meets_goals and any(miss.startswith("p99 ") and "against 0.01" in miss for miss in choice.misses)
    assert all(verdict.outcome in ("fails", "impossible", "excluded") for verdict in found.families)
    json.dumps(found.to_dict(), allow_nan=False)


def test_too_dear_is_a_miss_like_any_other():
    found = plan(steady(), exclude=SINGLE, goals=["throttled_min<=0", "cost_usd_month<=39"])
    assert found.winners == []
    assert found.closest[0].storage == "gp3:500" and found.closest[0].misses == ("monthly cost 40 USD against 39",)


def test_a_bill_adds_up_and_names_its_sources():
    found = plan(steady(), compare="io1:500:2500")
    for choice in [*found.winners, found.compared]:
        assert choice.cost_usd_month == pytest.approx(sum(item["usd"] for item in choice.items))
        assert all(item["source"] and item["as_of"] for item in choice.items)
    costs = [choice.cost_usd_month for choice in found.winners]
    assert costs == sorted(costs)


def test_an_instance_adds_its_price_and_its_limits():
    alone = plan(steady(), exclude=SINGLE).winner
    found = plan(steady(), exclude=SINGLE, instances=["m5.large", "r6i.xlarge"])
    price = headrace._core.instance_price("m5.large", "us-east-1")["usd"]
    assert found.winner.storage == "gp3:500" and found.winner.instance == "m5.large"
    assert found.winner.cost_usd_month == pytest.approx(alone.cost_usd_month + 730 * price)
    # m5.large holds 3,600 IOPS; above it lives on a burst bucket: 8,000 IOPS all day run it dry.
    busy = plan(steady(reads_per_s=8_000, writes_per_s=0), exclude=SINGLE, instances=["m5.large"])
    assert busy.winners == []
    assert any("m5.large's EBS burst bucket empty" in verdict.why for verdict in busy.families)
    assert any(choice.runs_dry and choice.runs_dry["falls_to"] == 3_600 for choice in busy.closest)


def test_local_disks_are_offered_with_an_instance_that_has_them_and_say_what_is_lost():
    found = plan(steady(size_gib=300), instances=["i3.large"], exclude=["standard", "gp2", "gp3", "io1", "io2", "st1", "sc1"])
    assert found.winner.volume_type == "instance-store" and not found.winner.persistent
    assert any("gone" in caveat for caveat in found.winner.caveats)
    # 475 GB are 442 GiB: 500 GiB do not fit, and EBS is what is left.
    assert plan(steady(), instances=["i3.large"]).winner.persistent


def test_magnetic_volumes_are_billed_by_request():
    workload = new_constant(10, 10, write_kib=16.0, seconds=86_400, size_gib=50)
    found = plan(workload, goals=["throttled_min<=0"], exclude=["gp2", "gp3", "io1", "io2", "st1", "sc1"])
    assert found.winner.storage.endswith("standard:50")
    # 20 a second in 730 h are 52.56 million: 50 x 0.05 + 52.56 x 0.05 USD.
    assert found.winner.cost_usd_month == pytest.approx(50 * 0.05 + 52.56 * 0.05)
    assert family(found, "standard RAID 10").cost_usd_month == pytest.approx(100 * 0.05 + 1.5 * 52.56 * 0.05)


def test_a_price_from_after_the_day_is_a_caveat():
    # The oldest gp3 price in data/prices_volumes.csv was seen on 2022-02-10.
    found = plan(steady(), as_of="2021-01-01", exclude=SINGLE)
    assert found.winner.storage == "gp3:500"
    assert any("gp3 storage" in caveat and "later than 2021-01-01" in caveat for caveat in found.caveats)
    assert family(plan(steady(), as_of="2012-06-01"), "io1").why == "does not exist on 2012-06-01"


def test_growth_multiplies_demand_and_data():
    found = plan(steady(), exclude=SINGLE, growth=2.0)
    assert found.winner.storage == "gp3:1000:5000"
    assert plan(steady(), exclude=SINGLE, growth=2.0, size_gib=500).winner.storage == "gp3:500:5000"


def test_the_same_answer_every_time_and_in_any_order(monkeypatch):
    from headrace.planner import search

    day = new_daily(1_500, 900, shape="office", size_gib=400)
    goals = ["p99_ms<=30", "throttled_min<=5"]
    first = plan(day, goals=goals, instances=["r6i.large", "m5.large"]).to_dict()
    assert plan(day, goals=goals, instances=["r6i.large", "m5.large"]).to_dict() == first
    assert plan(day, goals=goals, instances=["m5.large", "r6i.large"]).to_dict() == first
    grid, lines = search.coarse, search.lines_of
    monkeypatch.setattr(search, "coarse", lambda *args: grid(*args)[::-1])
    monkeypatch.setattr(search, "lines_of", lambda *args: lines(*args)[::-1])
    backwards = plan(day, goals=goals, instances=["r6i.large", "m5.large"]).to_dict()
    assert backwards["winners"] == first["winners"]


@pytest.mark.parametrize("instances", [None, ["r6i.*", "i3.xlarge"]])
def test_winners_meet_the_goals_when_simulated_again(instances):
    day = new_daily(1_800, 1_400, shape="two-peaks", size_gib=350)
    goals = ["p99_ms<=25", "throttled_min<=2", "unserved_percent<=0"]
    found = plan(day, goals=goals, instances=instances)
    assert found.winners
    for choice in found.winners:
        run = headrace.simulate(day, choice.storage, instance=choice.instance, form="interval").summary
        assert run["p99_ms"] <= 25 and run["queue_at_end"] == 0
        # A row of the simulation is a minute, a point of the day an hour; cutting it may move the edge of a wait by rounding.
        assert run["throttled_s"] / 60 <= 2 + 1e-6
        assert headrace._core.parse_storage(choice.storage)["usable_gib"] >= 350


def test_the_arithmetic_and_the_frontier_are_there():
    found = plan(burst_day(), as_of="2018-08-15", exclude=SINGLE)
    text = "\n".join(found.explain)
    assert "3 IOPS/GiB x 334 GiB = 1,002" in text
    assert "5,400,000 credits / (3,000 - 1,002) = 2,703 s" in text
    gp2 = [point for point in found.frontier if point["family"] == "gp2"]
    assert [point["cost_usd_month"] for point in gp2] == sorted(point["cost_usd_month"] for point in gp2)
    assert any(point["meets_goals"] and point["storage"] == "gp2:334" for point in gp2)
    assert any(not point["meets_goals"] for point in found.frontier)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"goals": ["p99_mss<=2"]}, "no metric"),
        ({"region": "us-east-9"}, "region"),
        ({"as_of": "yesterday"}, "YYYY-MM-DD"),
        ({"size_gib": 0}, "above 0"),
        ({"size_gib": float("nan")}, "must be"),
        ({"size_gib": 1e9}, "must be"),
        ({"growth": 0}, "above 0"),
        ({"growth": -1}, "must be"),
        ({"instances": ["r6i.lrge"]}, "r6i.lrge"),
        ({"instances": ["z9.*"]}, "matches no instance"),
        ({"instances": []}, "no instance"),
        ({"instances": [None]}, "matches no instance"),
        ({"max_volumes": 0}, "max_volumes"),
        ({"max_volumes": 129}, "max_volumes"),
        ({"exclude": ["gp9"]}, "neither a volume type"),
        ({"compare": "gp2"}, "size"),
        ({"compare": "gp2:99999"}, "16384"),
        ({"start_balance": 101}, "start_balance"),
        ({"top": 0}, "top"),
    ],
)
def test_bad_input_is_refused_in_words(changes, word):
    with pytest.raises(InputError, match=word):
        plan(steady(), **changes)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(InputError, match="needs demand over time"):
        plan(ClosedWorkload(name="fio", rw="randread", bs_kib=16, iodepth=16, numjobs=1, size_gib=100))
    with pytest.raises(InputError, match="how many GiB"):
        plan(steady(size_gib=None))
    with pytest.raises(InputError, match="no I/O at all"):
        plan(steady(reads_per_s=0, writes_per_s=0))


def test_more_data_than_volumes_can_hold_is_a_verdict_not_an_error():
    found = plan(steady(), size_gib=1_000_000, max_volumes=1)
    assert found.winners == [] and found.closest == []
    assert "no gp3 holds 1,000,000 GiB" in family(found, "gp3").why
