"""Answers as money and changes, and their presentation."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from typer.testing import CliRunner

from headrace.cli.operate.fleet import app
from headrace.errors import HeadraceError
from headrace.operate.fleet.advised import list_advised_changes, read_answers, reprice
from headrace.operate.fleet.answer import VolumeAnswer, build_answers_frame
from headrace.operate.fleet.applying.changes import VolumeSetting, get_modification_limit
from headrace.operate.fleet.applying.scripts import build_patch_scripts
from headrace.operate.fleet.cost import FleetPrices
from headrace.operate.fleet.inventory import FleetInventory, KnownModification, parse_inventory
from headrace.report.fleet import words
from headrace.report.fleet.page import build_view
from headrace.report.html import render_page, write_view

MINE = "111111111111"


def describe(name: str, kind: str = "gp2", size: int = 500, tags: dict | None = None, **more: Any) -> dict[str, Any]:
    listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    place = {"AvailabilityZone": "us-east-1a", "State": "in-use", "Tags": listed}
    return {"VolumeId": name, "VolumeType": kind, "Size": size, **place, **more}


def answer(key: str, today: str = "gp2:500", proposed: str = "gp3:500", **more: Any) -> VolumeAnswer:
    given: dict[str, Any] = {
        "volumes": (key,),
        "account": MINE,
        "region": "us-east-1",
        "instance": "",
        "verdict": "change",
        "why": "it fits",
    }
    bills = {"usd_today": 50.0, "usd_proposed": 40.0, "risk": 0.0, "grain_s": 300.0, "proposed_p99_ms": 1.5}
    return VolumeAnswer(key, today=today, proposed=proposed, **(given | bills | more))


def inventory_of(*volumes: dict[str, Any]) -> FleetInventory:
    return parse_inventory(list(volumes))


def test_arrays_change_as_a_whole_and_in_the_order_of_savings():
    members = [describe(f"vol-{number}", tags={"headrace:array": "md0"}) for number in (2, 3)]
    devices = inventory_of(describe("vol-1"), *members)
    answers = [
        answer("vol-1"),
        answer(
            "unattached/md0",
            "2xgp2:500",
            "2xgp3:500:4000",
            volumes=("vol-2", "vol-3"),
            usd_today=100.0,
            usd_proposed=60.0,
        ),
    ]
    changes = list_advised_changes(answers, devices)
    assert [(change.volume_id, str(change.after), change.usd_month) for change in changes.changes] == [
        ("vol-2", "gp3 500 GiB 4000 IOPS 125 MiB/s", -20.0),
        ("vol-3", "gp3 500 GiB 4000 IOPS 125 MiB/s", -20.0),
        ("vol-1", "gp3 500 GiB 3000 IOPS 125 MiB/s", -10.0),
    ]
    state = inventory_of(
        describe("vol-1"), members[0], members[1] | {"Operator": {"Managed": True, "Principal": "eks"}}
    )
    changes = list_advised_changes(answers, state)
    assert [change.volume_id for change in changes.changes] == ["vol-1"]
    assert [entry.why for entry in changes.refused] == [
        "vol-3 of the same array is not changed",
        "it belongs to eks, which changes it itself",
    ]


def test_risk_and_growth_are_left_out_unless_wanted():
    devices = inventory_of(*(describe(f"vol-{number}") for number in range(5)))
    answers = [
        answer("vol-0", risk=0.2),
        answer("vol-1", risk=None),
        answer("vol-3", proposed="gp3:500:9000", verdict="grow", usd_proposed=70.0),
        answer("vol-4", verdict="withheld", proposed="", usd_proposed=None),
    ]
    changes = list_advised_changes(answers, devices, most_risk=0.1)
    assert (changes.changes, changes.risky) == ((), 2)
    changes = list_advised_changes(answers, devices, most_risk=1.0, grow=True)
    assert [(change.volume_id, change.usd_month) for change in changes.changes] == [
        ("vol-0", -10.0),
        ("vol-1", -10.0),
        ("vol-3", 20.0),
    ]


def test_what_lowers_the_durability_is_patched_only_when_asked_for():
    devices = inventory_of(describe("vol-1", "io2", 500, Iops=8000), describe("vol-2"))
    lost = {"durability": "99.999 % -> 99.8 to 99.9 %", "today_p99_ms": 0.57, "account": ""}
    answers = [answer("vol-1", "io2:500:8000", **lost), answer("vol-2", account="")]
    changes = list_advised_changes(answers, devices)
    assert [change.volume_id for change in changes.changes] == ["vol-2"] and changes.less_durable == 1
    changes = list_advised_changes(answers, devices, lower_durability=True)
    assert {change.volume_id for change in changes.changes} == {"vol-1", "vol-2"} and not changes.less_durable
    (scripts,) = build_patch_scripts(changes.changes)
    comment = "# durability 99.999 % -> 99.8 to 99.9 % a year; I/O p99 0.57 -> 1.5 ms"
    lines = [line.strip() for line in scripts.patch.splitlines()]
    assert lines[lines.index(comment) + 1].startswith("change vol-1 ")


@pytest.mark.parametrize(
    "tag", ["a\nrm -rf /", "a\r\nreboot", "x\u2028touch y", "$(touch z)", "`id`", "\x1b[2Jx", "e" * 500]
)
def test_a_name_tag_is_never_a_command(tag):
    """Tags are written by anybody: in the script one is a comment of one line."""
    devices = inventory_of(describe("vol-1", tags={"Name": tag}))
    (device,) = devices.list_devices()
    changes = list_advised_changes([answer("vol-1", account="", name=device.name)], devices)
    plain = list_advised_changes([answer("vol-1", account="")], devices)
    (with_name,), (without,) = (build_patch_scripts(entry.changes) for entry in (changes, plain))

    def commands(script: str) -> list[str]:
        return [line for line in script.splitlines() if not line.strip().startswith("#")]

    assert commands(with_name.patch) == commands(without.patch)
    assert commands(with_name.rollback) == commands(without.rollback)
    assert all(len(line) <= 240 for line in with_name.patch.splitlines() if line.strip().startswith("# "))


def test_another_inventory_is_refused():
    for devices in (inventory_of(describe("vol-9")), inventory_of(describe("vol-1", size=600))):
        with pytest.raises(HeadraceError, match="inventory"):
            list_advised_changes([answer("vol-1")], devices)


def test_modifications_count_as_a_naive_list_does():
    """Random starts; a volume is left out when four or more lie within 24 hours."""
    chance, now = random.Random(2), datetime(2026, 11, 23, tzinfo=UTC)
    assert get_modification_limit(None) == (4, 24)
    for _ in range(200):
        hours = [chance.uniform(0.1, 48) for _ in range(chance.randint(0, 7))]
        devices = inventory_of(describe("vol-1"))
        starts = tuple(now - timedelta(hours=hour) for hour in hours)
        [volume] = devices.volumes
        listed = tuple(KnownModification("completed", start, start) for start in sorted(starts))
        devices = msgspec.structs.replace(devices, volumes=(msgspec.structs.replace(volume, modifications=listed),))
        changes = list_advised_changes([answer("vol-1")], devices, now=now)
        assert bool(changes.refused) == (sum(hour < 24 for hour in hours) >= 4)
        assert bool(changes.refused) != bool(changes.changes)


def test_a_setting_says_what_ec2_says():
    back = VolumeSetting("io1", 400, 9000, None)
    assert str(back) == "io1 400 GiB 9000 IOPS"
    [change] = list_advised_changes(
        [answer("vol-1", "io1:400:9000", "gp3:500:9000:300")], inventory_of(describe("vol-1", "io1", 400, Iops=9000))
    ).changes
    assert change.invert().after == VolumeSetting("io1", 500, 9000, None) and change.invert().usd_month == 10.0


def test_other_prices_rank_and_keep_anew():
    """At 10 % off: gp2 45.00, gp3 36.00 (500 GiB at 0.10 and 0.08). Back to gp2 saves nothing."""
    answers = reprice(
        [answer("vol-1"), answer("vol-2", verdict="withheld", proposed="", usd_today=None)],
        FleetPrices(discount_percent=10),
    )
    assert [(answer.key, answer.usd_today, answer.usd_proposed) for answer in answers] == [
        ("vol-1", pytest.approx(45.0), pytest.approx(36.0)),
        ("vol-2", None, 40.0),
    ]
    [retained] = reprice([answer("vol-1", today="gp3:500", proposed="gp2:500")], FleetPrices())
    assert retained.verdict == "keep" and retained.proposed == "" and "prices that are paid" in retained.why


MANY = [
    answer(f"vol-{number:05d}", f"gp2:{number + 1}", risk=number % 11 / 10, usd_proposed=49.0 - number % 7)
    for number in range(700)
]
ODD = "<script>alert(1)</script>\x1b[31m"


def test_the_page_has_every_part_and_escapes(tmp_path):
    answers = [
        *MANY,
        answer(
            "vol-x",
            verdict="withheld",
            proposed="",
            usd_today=None,
            why=f"not modelled: its balance is off by 17 points {ODD}",
        ),
        answer(
            "vol-y",
            verdict="withheld",
            proposed="",
            usd_today=None,
            why=f"not modelled: its balance is off by 9 points {ODD}",
        ),
        answer("vol-z", verdict="grow", proposed="gp3:500:9000", usd_proposed=80.0, why="it is at a limit"),
        answer("vol-u", verdict="unused", proposed="", usd_proposed=None, why="no I/O in 14 days", name=ODD),
        answer("vol-i", verdict="keep", proposed="", usd_proposed=None, why="it binds", bound_by="i-1 (m5.large)"),
        answer("vol-d", "io2:500:8000", why="less durable", durability="99.999 % -> 99.8 to 99.9 %", today_p99_ms=0.57),
    ]
    path = tmp_path / "fleet.html"
    write_view(path, build_view(answers, "list prices", ["a note"]))
    page = path.read_text().replace("\u00a0", " ")
    assert (
        "<script" not in page
        and "\x1b" not in page
        and page.count("<figure role") == 1
        and "http://" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", page)
    )
    for part in (
        "Savings, the largest first",
        "enlarge them",
        "Unused: delete them",
        "The instance binds",
        "i-1 (m5.large)",
        "make the data less sure",
        ", durability",
        "0.57 ms -&gt; 1.5 ms",
        "Advice withheld",
        "The first 500 of 700",
        "a note",
        "list prices",
    ):
        assert part in page, part
    assert words.list_reason_rows(answers) == [(2, "not modelled: its balance is off by ... points ...")]
    for name in ("fleet.svg", "fleet.png"):
        write_view(tmp_path / name, build_view(answers, "list prices"))
        assert (tmp_path / name).stat().st_size > 1000
    nothing = render_page(words.build_view([], "list prices"))
    assert "Nothing can be changed" in nothing and "No volume was left" in nothing
    with pytest.raises(HeadraceError, match="no chart"):
        write_view(tmp_path / "none.svg", build_view([], "list prices"))


def test_sums_are_those_of_the_answers():
    answers = [
        answer("vol-1"),
        answer("vol-2", verdict="grow", usd_proposed=65.0),
        answer("vol-3", verdict="keep", proposed="", usd_proposed=None),
    ]
    text = " ".join(words.describe_answers(answers, "list prices"))
    assert "3 volumes: 1 is too small (15.00 USD more a month); 1 can be changed (saving 10.00 USD a month)" in text
    assert "cost 150.00 USD a month" in text and "changes save 10.00 (7 %)" in text
    document = words.build_document(answers, "list prices")
    assert (
        document["saves_usd_month"] == 10.0
        and document["answers"][0]["volumes"] == ["vol-1"]
        and document["usd_month"] == 150.0
    )


def test_the_command_writes_what_it_says(tmp_path):
    folder = tmp_path
    (folder / "volumes.json").write_text(
        json.dumps({"Volumes": [describe("vol-1"), describe("vol-2", "gp3", 500, Iops=3000, Throughput=125)]})
    )
    answers = [
        answer("vol-1", account=""),
        answer("vol-2", "gp3:500:3000:125", "", verdict="withheld", usd_today=None, why="too few days"),
    ]
    build_answers_frame(answers).write_parquet(folder / "answers.parquet")
    words_ = ["report", str(folder / "answers.parquet"), "--inventory", str(folder / "volumes.json")]
    run = CliRunner().invoke(
        app, [*words_, "--patch", str(folder / "out"), "--report", str(folder / "page.html"), "--output", "csv"]
    )
    assert run.exit_code == 0, run.output
    rows = pl.read_csv(run.stdout.encode())
    assert rows["key"].to_list() == ["vol-1", "vol-2"] and rows["saves_usd"].to_list() == [10.0, 0.0]
    assert "saving 10.00 USD a month" in run.stderr and (folder / "page.html").exists()
    assert "change vol-1 us-east-1 gp2 500 - - gp3 500 3000 125 -10.00 -" in (folder / "out/patch.sh").read_text()
    assert (folder / "out/rollback.sh").stat().st_mode & 0o111
    again = CliRunner().invoke(app, [*words_, "--patch", str(folder / "out")])
    assert isinstance(again.exception, HeadraceError) and "exists already" in str(again.exception)
    for wrong in (["--patch", str(folder / "o2")], ["--cost", "x.csv"], ["--terraform-state", "x"]):
        refused = CliRunner().invoke(app, [*words_[:2], *wrong])
        assert isinstance(refused.exception, HeadraceError) and refused.exception.hint
    with pytest.raises(HeadraceError):
        read_answers(folder / "volumes.json")
    with pytest.raises(HeadraceError):
        read_answers(Path(folder / "gone.parquet"))
