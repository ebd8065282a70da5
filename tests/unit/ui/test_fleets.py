"""A fleet in the page: what was dropped is read as `headrace fleet report` reads it, and what is chosen becomes its script."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import cast

import msgspec
import pytest
from places import ROOT

from headrace.errors import InputError
from headrace.operate.fleet.answer import VolumeAnswer, build_answers_frame
from headrace.report.fleet import words
from headrace.ui.fleets import COLUMNS, AskFleet, AskPatch, show_fleet, write_patch
from headrace.ui.opening import MOST_RESULTS, AskOpen, OpenedFiles

INVENTORY = ROOT / "examples/fleet/volumes.json"
GP2 = "vol-00000000000000000"  # orders, gp2 of 1,000 GiB
IO1 = "vol-00000000000000001"  # ledger, io1 of 400 GiB with 8,000 IOPS


def answer(key: str, today: str, proposed: str, **more: object) -> VolumeAnswer:
    usual: dict = {
        "volumes": (key,),
        "account": "",
        "region": "us-east-1",
        "instance": "",
        "verdict": "change",
        "why": "it fits",
    }
    bills: dict = {"usd_today": 50.0, "usd_proposed": 40.0, "risk": 0.0, "proposed_p99_ms": 1.5}
    return VolumeAnswer(key, today=today, proposed=proposed, **(usual | bills | more))


ANSWERS = [
    answer(IO1, "io1:400:8000", "gp3:400:3700", usd_today=570.0, usd_proposed=35.5),
    answer(GP2, "gp2:1000", "gp3:1000", usd_today=100.0, usd_proposed=80.0),
]


def drop(files: OpenedFiles, name: str, content: bytes) -> dict:
    return files.open(AskOpen(name, base64.b64encode(content).decode()))


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    build_answers_frame(ANSWERS).write_parquet(tmp_path / "answers.parquet")
    return tmp_path / "answers.parquet"


def test_a_fleet_is_what_its_command_prints(parquet, call):
    files = OpenedFiles()
    opened = drop(files, "answers.parquet", parquet.read_bytes())
    assert opened["kind"] == "fleet"
    answer = show_fleet(files, AskFleet(opened["file"]))
    code, out, err = call("fleet", "report", str(parquet), "--output", "json")
    assert code == 0, err
    printed = json.loads(out)["answers"]
    for name in COLUMNS:
        assert answer["columns"][name] == [row[name] for row in printed], name
    assert answer["view"]["subtitle"] == words.summarise_answers(ANSWERS) and len(answer["view"]["cards"]) == 1
    assert answer["commands"] == ["headrace fleet report answers.parquet"]
    # JSON of `fleet report` and of `fleet plan` shows the same fleet.
    for text in (out, json.dumps(printed)):
        again = show_fleet(files, AskFleet(drop(files, "fleet.json", text.encode())["file"]))
        assert again["columns"] == answer["columns"] and again["view"] == answer["view"]


@pytest.mark.parametrize("chosen", [None, [GP2]], ids=["all", "one of two"])
def test_a_patch_is_what_its_command_writes(parquet, call, tmp_path, chosen):
    files = OpenedFiles()
    opened, inventory = (
        drop(files, "answers.parquet", parquet.read_bytes()),
        drop(files, "volumes.json", INVENTORY.read_bytes()),
    )
    assert inventory["kind"] == "inventory"
    patch = write_patch(files, AskPatch(opened["file"], inventories=[inventory["file"]], keys=chosen, with_growth=True))
    assert patch["commands"] == [
        "headrace fleet report answers.parquet --inventory volumes.json --patch changes --with-growth"
    ]
    [script] = cast("list[dict[str, str]]", patch["scripts"])
    code, _, err = call(
        "fleet", "report", str(parquet), "--inventory", str(INVENTORY), "--patch", str(tmp_path / "changes"), "--with-growth"
    )  # fmt: skip
    assert code == 0
    whole = (tmp_path / "changes/patch.sh").read_text()
    if chosen is None:
        assert script["patch"] == whole and script["rollback"] == (tmp_path / "changes/rollback.sh").read_text()
        assert all(line in err for line in cast("list[str]", patch["lines"])) and patch["whole"]
    else:
        assert GP2 in script["patch"] and IO1 not in script["patch"] and IO1 in whole
        assert patch["lines"] == ["1 volumes to modify, saving 20.00 USD a month."] and not patch["whole"]


def test_a_risky_change_is_left_out_and_said(parquet):
    files = OpenedFiles()
    rows = [msgspec.structs.replace(ANSWERS[0], risk=0.5), ANSWERS[1]]
    opened = drop(files, "fleet.json", msgspec.json.encode([msgspec.to_builtins(row) for row in rows]))
    inventory = drop(files, "volumes.json", INVENTORY.read_bytes())
    patch = write_patch(files, AskPatch(opened["file"], inventories=[inventory["file"]], max_risk_percent=20.0))
    assert "1 devices are left out for their risk (--max-risk-percent)." in patch["lines"]
    assert "--max-risk-percent 20" in patch["commands"][0] and "answers.parquet" in patch["commands"][0]


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("a.json", b"", "is not JSON"),
        ("a.json", b"\xff\xfe", "is not JSON"),
        ("a.json", b'{"a": NaN}', "is not JSON"),
        ("a.json", b"7", "is not a result"),
        ("a.json", b'{"schema": "headrace-plan/3"}', "is damaged: subject"),
        ("a.json", b'[{"key": 1}]', "has no answers"),
        ("a.json", b'{"answers": [1]}', "has no answers"),
        ("a.json", b'{"schema": "headrace-proof/1"}', "is not a proof"),
        ("../../a.parquet", b"PAR1 and no more", "is not a Parquet file"),
        ("volumes.json", b'{"Volumes": [{"VolumeId": 1}]}', "Expected `str`"),
    ],
)
def test_what_is_no_result_is_refused_by_its_own_name(name, content, rule):
    with pytest.raises(InputError, match=rule) as refusal:
        drop(OpenedFiles(), name, content)
    assert "/tmp" not in str(refusal.value) and refusal.value.value.startswith(name.rpartition("/")[2])


def test_a_file_is_shown_as_what_it_is(parquet):
    files = OpenedFiles()
    inventory = drop(files, "volumes.json", INVENTORY.read_bytes())
    with pytest.raises(InputError, match="is an inventory, and not the answers for a fleet"):
        show_fleet(files, AskFleet(inventory["file"]))
    with pytest.raises(InputError, match="base64"):
        files.open(AskOpen("a", "%%%"))
    for number in range(MOST_RESULTS):
        drop(files, "fleet.json", json.dumps([], indent=number).encode() + b" " * number)
    with pytest.raises(InputError, match="again"):
        show_fleet(files, AskFleet(inventory["file"]))


def test_a_fleet_of_nothing_is_a_fleet():
    files = OpenedFiles()
    answer = show_fleet(files, AskFleet(drop(files, "fleet.json", b"[]")["file"]))
    assert answer["columns"]["key"] == [] and "0 volumes" in answer["view"]["subtitle"]
