"""Words about a choice: its bill, its saving at equal space, the way there in place or by a
migration, the lines to paste, alarms."""

from __future__ import annotations

import re
import shlex

import pytest
from planner_cases import BARE, NO_ARRAYS, bare, burst_day, only, shop, steady

import headrace
from headrace.base import core
from headrace.base.storage import Storage
from headrace.planner import plan
from headrace.planner.actions import describe_migration, list_actions, list_alarms

ALL = ("standard", "gp2", "gp3", "io1", "io2", "io2-block-express", "st1", "sc1")


def today_and(storage: str, target: str, **settings):
    """Choices of two storages of one day, as a plan makes them."""
    entry = bare(steady(), exclude=NO_ARRAYS, compare=storage, **settings).choices.compared
    other = bare(steady(), exclude=NO_ARRAYS, compare=target, **settings).choices.compared
    return entry, other


# --- what it saves --------------------------------------------------------------------------------


def test_free_space_given_up_is_no_saving():
    # A8: 1,400 GiB of data on today's gp3:2048 "saved 51.84 USD a month": the whole saving was the
    # free space given up.
    answer = plan(steady(size_gib=1_400), compare="gp3:2048", exclude=only("gp3"))
    # 1,400 / 0.75 = 1,867 GiB, ordered as 1,900; at 2,048 both cost 163.84.
    assert answer.winner.storage == "gp3:1900" and answer.winner.cost_usd_month == pytest.approx(1_900 * 0.08)
    assert "needs a migration (a volume cannot be made smaller: 1,900 GiB instead of 2,048)" in answer.winner.migration
    # 11.84 USD a month are no reason to copy 1,400 GiB: what is there stays, and nothing is called
    # saved.
    assert (
        answer.recommended.storage == "gp3:2048"
        and "11.84 USD a month less, but needs a migration" in answer.choices.why_recommended
    )
    assert answer.choices.saving.as_planned == answer.choices.saving.equal_space == 0.0


def test_equal_space_enlarges_whichever_is_smaller():
    # Today holds too little: 300 GiB of gp3 enlarged to 670 cost 29.60 more.
    answer = plan(steady(), compare="gp3:300", exclude=only("gp3"))
    assert answer.choices.saving.as_planned == pytest.approx(300 * 0.08 - 670 * 0.08)
    assert answer.choices.saving.equal_space == pytest.approx(0.0) and answer.choices.saving.gib == 670
    # Mirrors hold half: two pairs of 335 for 670, of 1,024 for 2,048.
    mirrored = plan(steady(), compare="raid10:4xgp3:500", exclude=only("gp3"))
    assert mirrored.choices.saving.gib == 1_000
    assert mirrored.choices.saving.equal_space == pytest.approx(4 * 500 * 0.08 - 1_000 * 0.08)


def test_what_cannot_be_enlarged_has_no_equal_space():
    # 20,000 GiB on two gp2 volumes; one gp2 holds 16,384.
    answer = plan(steady(size_gib=10_000), compare="2xgp2:10000", exclude=only("gp2"))
    assert answer.recommended.storage == "gp2:13400"
    assert answer.choices.saving.gib == 20_000 and answer.choices.saving.equal_space is None


# --- from today's ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("today", "target", "words"),
    [
        ("gp3:500", "gp3:500", "nothing changes"),
        ("gp3:500", "gp3:500:6000", "in place"),
        ("gp2:1000", "gp3:1000", "in place"),
        ("gp2:1000", "gp3:1200:4000:200", "in place"),
        ("gp3:1000", "gp3:999", "a volume cannot be made smaller: 999 GiB instead of 1,000"),
        ("gp3:500", "2xgp3:250", "another layout: 2 volumes in RAID 0 instead of one volume"),
        ("2xgp3:500", "2xgp3:500:6000", "in place"),
        ("2xgp3:500", "raid10:4xgp3:500", "another layout"),
        ("2xgp3:500", "3xgp3:500", "another layout"),
        ("standard:500", "gp3:500", "standard volumes cannot become or be made of other types"),
        ("io1:500:3000", "io2:500:3000", "in place"),
    ],
)
def test_the_way_from_today_is_said(today, target, words):
    entry, other = today_and(today, target)
    text = describe_migration(entry, other)
    assert words in text
    assert text.startswith("needs a migration") == (words not in ("nothing changes", "in place"))


def test_another_instance_is_a_stop_and_a_start_another_architecture_a_migration():
    def on(instance: str):
        return bare(steady(), exclude=only("gp3"), compare=f"{instance}/gp3:500").choices.compared

    assert "stop the instance, change its type to m5.xlarge, start it" in describe_migration(
        on("m5.large"), on("m5.xlarge")
    )
    assert "another processor architecture" in describe_migration(on("m5.large"), on("m6g.large"))


def test_the_winner_says_how_to_get_there_only_where_today_is_known():
    assert bare(steady()).winner.migration is None
    result = bare(steady(), compare="gp2:1000", exclude=NO_ARRAYS)
    assert result.recommended.migration.startswith("needs a migration") and result.choices.compared.migration is None


@pytest.mark.parametrize(
    ("today", "size_gib"),
    [
        ("gp2:1000", 500),
        ("2xgp2:600", 500),
        ("raid10:4xgp2:600", 500),
        ("io1:500:2600", 400),
        ("gp3:700:5000:300", 500),
    ],
)
def test_in_place_keeps_the_volumes_and_never_shrinks_them(today, size_gib):
    answer = plan(steady(size_gib=size_gib), compare=today)
    place, now = answer.choices.in_place, answer.choices.compared
    before, after = Storage.parse(today), Storage.parse(place.storage)
    assert (after.level, len(after.members)) == (before.level, len(before.members))
    assert all(new.size_gib >= old.size_gib for old, new in zip(before.members, after.members, strict=True))
    assert place.meets_goals and place.usable_gib >= answer.load.needed_gib
    assert place.migration == "nothing changes" or place.migration.startswith("in place")
    # It is the cheapest such: no dearer than today's where today's meets the goals, never cheaper
    # than the cheapest of all.
    if now.meets_goals:
        assert place.cost_usd_month <= now.cost_usd_month + 1e-9
    assert place.cost_usd_month >= answer.winner.cost_usd_month - 1e-9


def test_in_place_is_not_for_unlike_members_or_what_cannot_be_modified():
    assert plan(steady(), compare="gp3:500+gp3:200", exclude=only("gp3")).choices.in_place is None
    assert plan(steady(), compare="standard:1000", exclude=only("gp3")).choices.in_place is None
    assert plan(steady(), exclude=only("gp3")).choices.in_place is None


# --- lines to paste -------------------------------------------------------------------------------


def parameters(line: str) -> dict[str, str]:
    """Options of a pasted line, as a shell splits it, without what follows the comment sign."""
    words = shlex.split(line, comments=True)
    return {
        words[i].removeprefix("--"): words[i + 1]
        for i in range(len(words) - 1)
        if words[i].startswith("--") and not words[i + 1].startswith("--")
    }


def bought(storage: str) -> dict[str, str]:
    """Returns the parameters of a volume for the EC2 API."""
    volume = Storage.parse(storage).members[0]
    iops = {"volume-type": volume.type, "size": str(volume.size_gib)}
    if volume.type == "gp3":
        iops |= {"iops": str(volume.iops or 3_000), "throughput": str(volume.mib_s or 125)}
    elif volume.iops:
        iops["iops"] = str(volume.iops)
    return iops


@pytest.mark.parametrize(
    ("today", "target"),
    [
        ("gp2:500", "gp3:500:6000:250"),
        ("gp3:500", "io1:600:4000"),
        ("io1:500:5000", "io2:500:4000"),
        ("gp3:500:6000", "gp2:1000"),
        ("2xgp2:400", "2xgp3:400:5000"),
    ],
)
def test_the_line_to_paste_has_the_right_numbers_and_can_be_undone(today, target):
    entry, other = today_and(today, target)
    result = list_actions(_with_way(other, entry), entry, core.newest_date())
    modify = result[0]
    line = modify["lines"][0]
    assert shlex.split(line)[:3] == ["aws", "ec2", "modify-volume"] and re.fullmatch(
        r"VOLUME_ID", parameters(line)["volume-id"]
    )
    answer = parameters(line)
    answer.pop("volume-id")
    assert answer == bought(target)
    undo = parameters(modify["undo"])
    undo.pop("volume-id")
    # A volume never shrinks: what is undone is all but the size.
    assert undo == {name: value for name, value in bought(today).items() if name != "size"}
    grows = Storage.parse(target).members[0].size_gib > Storage.parse(today).members[0].size_gib
    assert any("growfs" in text for text in modify["lines"]) == grows
    assert ("each of the 2 volumes" in modify["what"]) == today.startswith("2x")
    # Duration and frequency of modifications, with the source.
    assert "optimizing" in modify["what"] and "24 hours" in modify["what"]
    terraform = dict(re.split(r"\s+=\s+", text) for text in result[1]["lines"])
    assert {
        ("volume-type" if name == "type" else name): value.strip('"')
        for name, value in terraform.items()
        if name != "count"
    } == bought(target)
    assert result[-1]["lines"] == [
        f"headrace advise --config my.cnf --storage {target} --memory-gib MEMORY_GIB --output diff"
    ]


def _with_way(choice, today):
    from dataclasses import replace

    return replace(choice, migration=describe_migration(today, choice))


def test_modifications_had_a_wait_of_six_hours_before():
    entry, other = today_and("gp2:500", "gp3:500", as_of="2024-06-01")
    result = list_actions(_with_way(other, entry), entry, "2024-06-01")
    assert "one modification of a volume in 6 hours" in result[0]["what"]


def test_what_is_new_is_created_and_an_array_put_together():
    entry = bare(steady(), exclude=NO_ARRAYS, compare="2xgp3:250:4000").choices.compared
    result = list_actions(entry, None, core.newest_date())
    create = result[0]["lines"]
    assert shlex.split(create[0])[:3] == ["aws", "ec2", "create-volume"]
    assert {name: value for name, value in parameters(create[0]).items() if name in bought(entry.storage)} == bought(
        entry.storage
    )
    assert "--encrypted" in create[0]
    assert (
        "--level=0" in create[1]
        and "--raid-devices=2" in create[1]
        and f"--chunk={Storage.parse(entry.storage).chunk_kib}" in create[1]
    )
    # Numbers of devices are those of local disks and of volumes in use too.
    assert shlex.split(create[1], comments=True)[-1] == "DEVICE..." and "by-id" in create[1]
    assert shlex.split(result[0]["undo"], comments=True)[:3] == ["aws", "ec2", "delete-volume"]
    mirrored = bare(steady(), exclude=NO_ARRAYS, compare="raid10:4xgp3:250").choices.compared
    assert "--level=10" in list_actions(mirrored, None, core.newest_date())[0]["lines"][1]


def test_the_log_volume_is_bought_too():
    # The lines to paste were those of the data alone: a reader who followed them had nowhere to put
    # redo and binlog.
    def placed(today: str):
        settings = {"goals": ["tps>=300", "headroom_percent>=0"], "instances": ["r6i.large"], "exclude": only("gp3")}
        return plan(shop(), draws=1, compare=today, **settings).choices.compared

    apart, smaller, larger = (
        placed("r6i.large/gp3:100,log=gp3:80"),
        placed("r6i.large/gp3:100,log=gp3:60"),
        placed("r6i.large/gp3:100,log=gp3:90"),
    )
    created = [
        line
        for action in list_actions(apart, None, core.newest_date())
        for line in action["lines"]
        if line.startswith("aws ")
    ]
    assert [parameters(line)["size"] for line in created] == ["100", "80"]
    # From a log volume to a larger one: in place, the data stay as they are.
    grown = list_actions(_with_way(larger, apart), apart, core.newest_date())
    lines = [line for action in grown for line in action["lines"] if line.startswith("aws ")]
    assert [parameters(line)["size"] for line in lines] == ["90"] and lines[0].startswith("aws ec2 modify-volume")
    assert describe_migration(apart, larger).startswith(
        "in place"
    ) and "the log volume cannot be made smaller" in describe_migration(apart, smaller)


def test_nothing_to_do_needs_no_modification():
    result = bare(steady(), exclude=NO_ARRAYS, compare="gp3:500")
    assert result.recommended.storage == "gp3:500" and result.recommended.migration == "nothing changes"
    assert not [line for action in result.steps.actions for line in action["lines"] if line.startswith("aws ")]


def test_advise_understands_the_line_it_is_given(tmp_path, monkeypatch, capsys):
    from headrace.cli import main as cli

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.cnf").write_text("[mysqld]\ninnodb_buffer_pool_size=8G\n")
    result = bare(steady(), exclude=NO_ARRAYS, compare="m5.2xlarge/gp2:500")
    line = result.steps.actions[-1]["lines"][0].replace("MEMORY_GIB", "32")
    words = shlex.split(line)
    assert words[0] == "headrace"
    code = cli.main(words[1:])
    output = capsys.readouterr()
    assert code in (0, 1) and "error" not in output.err, output.err


# --- alarms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gp2:1000", "gp3:500", "io1:500:3000", "st1:500", "standard:500"])
@pytest.mark.parametrize("day", ["2024-06-01", "2026-11-21"])
def test_alarms_name_what_the_volume_can_run_out_of(kind, day):
    entry = bare(steady(), exclude=NO_ARRAYS, compare=kind, as_of=day).choices.compared
    result = {alarm["metric"]: alarm for alarm in list_alarms(entry, day)}
    # Only types with credits have a BurstBalance; the checks of exceeded limits came with 2024-10.
    assert ("BurstBalance" in result) == (kind[:3] in ("gp2", "st1"))
    assert ("VolumeIOPSExceededCheck" in result) == (day > "2024-10-01" and kind != "standard:500")
    assert "VolumeStalledIOCheck" in result
    for alarm in result.values():
        assert (
            alarm["points"] <= alarm["of"]
            and alarm["period_s"] % 60 == 0
            and alarm["comparison"] in ("<", ">", ">=")
            and alarm["why"]
        )
        assert alarm["namespace"] in ("AWS/EBS", "AWS/EC2")


def test_instances_that_burst_have_their_balances_watched():
    small = bare(steady(), exclude=NO_ARRAYS, compare="m5.large/gp3:500").choices.compared
    assert {"EBSIOBalance%", "EBSByteBalance%"} <= {alarm["metric"] for alarm in list_alarms(small, core.newest_date())}
    large = bare(steady(), exclude=NO_ARRAYS, compare="m5.24xlarge/gp3:500").choices.compared
    assert not {"EBSIOBalance%"} & {alarm["metric"] for alarm in list_alarms(large, core.newest_date())}


# --- the bill -------------------------------------------------------------------------------------


def test_two_nodes_cost_twice_and_are_as_good():
    entry = bare(steady(), instances=["m5.large"], exclude=only("gp3"))
    two = bare(steady(), instances=["m5.large"], exclude=only("gp3"), nodes=2, compare="gp3:600")
    assert two.winner.storage == entry.winner.storage and two.winner.cost_usd_month == pytest.approx(
        2 * entry.winner.cost_usd_month
    )
    assert two.choices.compared.cost_usd_month - two.winner.cost_usd_month == pytest.approx(2 * 100 * 0.08)
    # A budget is for all of them.
    assert (
        bare(steady(), nodes=2, goals=["headroom_percent>=0", "cost_usd_month<=79.99"], exclude=only("gp3")).winner
        is None
    )
    assert (
        bare(steady(), nodes=2, goals=["headroom_percent>=0", "cost_usd_month<=80"], exclude=only("gp3")).winner.storage
        == "gp3:500"
    )


def test_snapshots_are_on_the_bill_once_and_change_no_rank():
    plain = bare(steady(), exclude=NO_ARRAYS)
    retained = bare(steady(), exclude=NO_ARRAYS, snapshot_days=8, daily_change_percent=5, nodes=2)
    # 500 GiB once and seven days of 25 GiB, at 0.05 USD; of one node.
    assert retained.winner.sum_usd("snapshots") == pytest.approx((500 + 7 * 25) * 0.05)
    assert retained.winner.cost_usd_month == pytest.approx(2 * plain.winner.cost_usd_month + 33.75)
    many, few = ([choice.storage for choice in answer.choices.winners] for answer in (retained, plain))
    assert many == few


def test_a_discount_lowers_every_item():
    plain = bare(steady(), instances=["m5.large"], exclude=only("gp3"), snapshot_days=1)
    less = bare(steady(), instances=["m5.large"], exclude=only("gp3"), snapshot_days=1, discount_percent=12.5)
    assert less.winner.cost_usd_month == pytest.approx(0.875 * plain.winner.cost_usd_month)
    assert "12.5 %" in less.search.prices
    reserved = bare(steady(), instances=["m5.large"], exclude=only("gp3"), commitment="reserved-3y")
    assert reserved.winner.sum_usd("instance") < 0.75 * plain.winner.sum_usd("instance") and reserved.winner.sum_usd(
        "data"
    ) == plain.winner.sum_usd("data")


def test_prices_say_when_they_were_seen():
    # B5: "Prices of us-east-1, limits of 2026-11-21" stood over prices of 2022.
    result = bare(steady())
    assert (
        "List prices for us-east-1" in result.search.prices
        and "instance" not in result.search.prices
        and re.search(r"last verified between \d{4}-\d\d-\d\d and", result.search.prices)
    )


# --- durability and doubt -------------------------------------------------------------------------


def test_the_chance_to_lose_the_data_is_said_of_every_choice():
    answer = plan(steady(), top=30)
    for choice in answer.choices.winners:
        assert choice.durability_afr_percent is not None and "annual failure rate" in choice.durability
        if choice.layout == "raid0":
            alone = [other for other in answer.choices.winners if other.family == choice.volume_type]
            assert all(choice.durability_afr_percent > other.durability_afr_percent for other in alone)
            assert any("one lost volume loses the array" in caveat for caveat in choice.caveats)


def test_a_log_volume_can_lose_the_data_too():
    answer = plan(
        shop(),
        goals=["tps>=300", "headroom_percent>=0"],
        instances=["r6i.large"],
        exclude=only("gp3"),
        draws=1,
        compare="r6i.large/gp3:100,log=gp3:100",
    )
    assert answer.choices.compared.durability_afr_percent == pytest.approx(100 * (1 - 0.998**2))


def test_credits_that_fall_from_full_are_shown_beside_the_settled_day():
    answer = plan(burst_day(), as_of="2020-06-01", exclude=NO_ARRAYS, compare="gp2:120", **BARE)
    first, settled = answer.choices.compared.first_day, answer.choices.compared.metrics
    # 12 h at 200 of 360 IOPS fill the bucket; what differs between days is what the first began
    # with.
    assert first is None or first["lowest_balance_percent"] >= settled["lowest_balance_percent"] - 1e-9
    run = headrace.simulate(burst_day(), "gp2:120", as_of="2020-06-01", form="interval", cycle="settled").summary
    assert run["throttled_s"] / 60 == pytest.approx(settled["throttled_min"], abs=1e-6)
