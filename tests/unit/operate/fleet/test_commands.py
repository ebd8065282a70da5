"""`headrace fleet` as it is typed: what is refused before any work, what an interrupt leaves, the words of an answer."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from places import ROOT

from headrace.cli.main import main
from headrace.operate.fleet import batch, planning
from headrace.operate.fleet.answer import FleetSettings, VolumeAnswer, build_answers_frame
from headrace.operate.fleet.batch import answer_batch
from headrace.operate.fleet.inventory import parse_inventory
from headrace.operate.fleet.points import write_points
from headrace.report.fleet import words
from headrace.report.fleet.page import draw_savings_against_risk
from seeded_fleet import SeededFleet, seeded_fleet

QUICK = FleetSettings(fortnights=0)


@pytest.fixture(scope="module")
def fleet() -> SeededFleet:
    return seeded_fleet(3, 7)


@pytest.fixture
def files(tmp_path, fleet) -> Path:
    """A folder with points, inventory and answers."""
    write_points(tmp_path / "points.parquet", list(fleet.points.values()))
    (tmp_path / "volumes.json").write_text(json.dumps({"Volumes": fleet.described}))
    build_answers_frame(answer_batch(fleet.devices, fleet.points, QUICK)).write_parquet(tmp_path / "answers.parquet")
    return tmp_path


def headrace(capsys, folder: Path, *typed: str) -> tuple[int, str, str]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        code = main(["fleet", *typed])
    finally:
        os.chdir(before)
    output = capsys.readouterr()
    return code, output.out, output.err


PLAN = ("plan", "points.parquet", "--inventory", "volumes.json", "--fortnights", "0")


# --- what is written never takes the place of what is read ----------------------------------------

OVER = {
    "plan over its points": (*PLAN, "--to", "points.parquet"),
    "plan over a link to them": (*PLAN, "--to", "link.parquet"),
    "plan over another name of them": (*PLAN, "--to", "hard.parquet"),
    "plan over its inventory": (*PLAN[:3], "volumes.parquet", "--to", "volumes.parquet"),
    "plan over its cost report": (*PLAN, "--cost", "cur.parquet", "--to", "cur.parquet"),
    "import over its file": ("import", "points.parquet", "--to", "points.parquet"),
    "import over a link to it": ("import", "points.parquet", "--to", "link.parquet"),
    "import over another name of it": ("import", "hard.parquet", "--to", "points.parquet"),
    "a page over the answers": ("report", "answers.parquet", "--report", "answers.html"),
    "a page over the inventory": ("report", "answers.parquet", "--inventory", "volumes.json", "--report", "i.html"),
    "a patch over the inventory": (
        "report", "answers.parquet", "--inventory", "volumes.json", "--patch", "changes", "--max-risk-percent", "100"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OVER)
def test_no_output_is_an_input(files, capsys, case):
    (files / "link.parquet").symlink_to("points.parquet")
    os.link(files / "points.parquet", files / "hard.parquet")
    shutil.copy(files / "volumes.json", files / "volumes.parquet")
    shutil.copy(files / "points.parquet", files / "cur.parquet")
    os.link(files / "answers.parquet", files / "answers.html")
    (files / "i.html").symlink_to("volumes.json")
    (files / "changes").mkdir()
    os.link(files / "volumes.json", files / "changes/patch.sh")
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    code, out, err = headrace(capsys, files, *OVER[case], "--force")
    assert code == 2 and out == "" and "is the same file as" in err and "which is read" in err
    assert {path: path.read_bytes() for path in files.rglob("*") if path.is_file()} == before


def test_what_is_there_is_overwritten_by_force_alone(files, capsys):
    code, _, err = headrace(capsys, files, *PLAN, "--to", "answers.parquet")
    assert code == 2 and "--to answers.parquet: exists already" in err and "--force" in err
    assert headrace(capsys, files, *PLAN, "--to", "answers.parquet", "--force")[0] == 0


REFUSED = {
    "another ending": ((*PLAN, "--to", "answers.txt"), "--to answers.txt: must end in .parquet"),
    "no ending": (("import", "points.parquet", "--to", "p"), "--to p: must end in .parquet"),
    "no such folder": ((*PLAN, "--to", "no/a.parquet"), "--to no/a.parquet: the folder does not exist: no"),
    "no such folder to import to": (("import", "points.parquet", "--to", "no/a.parquet"), "the folder does not exist: no"),
    "a page in no folder": (("report", "answers.parquet", "--report", "no/a.html"), "the folder does not exist"),
    "a folder to write": ((*PLAN, "--to", "folder.parquet"), "is a folder, a file is needed"),
    "a folder of points": (("plan", ".", *PLAN[2:], "--to", "a.parquet"), "is a folder, a file is needed"),
    "a folder of answers": (("report", "."), "is a folder, a file is needed"),
    "a folder to import": (("import", ".", "--to", "a.parquet"), "is a folder, a file is needed"),
    "a folder of costs": (
        ("report", "answers.parquet", "--inventory", "volumes.json", "--cost", "."), "is a folder, a file is needed"
    ),
    "a patch where a file is": (
        ("report", "answers.parquet", "--inventory", "volumes.json", "--patch", "volumes.json"), "is a file, and a folder"
    ),
    "a region mistyped": ((*PLAN, "--to", "a.parquet", "--region", "us-esat-1"), "Did you mean us-east-1?"),
    "no day": ((*PLAN, "--to", "a.parquet", "--as-of", "yesterday"), "yesterday: a date is written YYYY-MM-DD"),
    "a day before EBS": ((*PLAN, "--to", "a.parquet", "--as-of", "1999-01-01"), "the first volumes in the catalog"),
    "no day of a report": (("report", "answers.parquet", "--as-of", "yesterday"), "a date is written YYYY-MM-DD"),
    "no price file": ((*PLAN, "--to", "a.parquet", "--price-file", "no.toml"), "no.toml: no such file"),
    "no cost report": (
        (*PLAN, "--to", "a.parquet", "--cost", "points.parquet"), "this column is needed"
    ),
    "garbage": (("import", "garbage.bin", "--to", "a.parquet"), "is of no form that is read here"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_value_rule_and_what_to_do(files, capsys, case):
    (files / "folder.parquet").mkdir()
    (files / "garbage.bin").write_bytes(np.random.default_rng(1).bytes(4096))
    before = sorted(files.rglob("*"))
    typed, message = REFUSED[case]
    code, out, err = headrace(capsys, files, *typed)
    assert code == 2 and out == "" and message in err and "hint: " in err
    assert "parts" not in err and "OpenTelemetry" not in err
    assert sorted(files.rglob("*")) == before


# --- an interrupt ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "message"),
    [(0, "No batch of volumes was answered yet: the same command begins anew."),
     (1, "1 batch of volumes is answered and kept in a.parquet.parts: the same command goes on from there."),
     (2, "2 batches of volumes are answered and kept in a.parquet.parts: the same command goes on from there.")],
)  # fmt: skip
def test_an_interrupt_says_that_the_command_goes_on(files, capsys, monkeypatch, done, message):
    whole = planning.answer_in_process
    counts: list[int] = []

    def stopped(batches, *rest):
        counts.append(len(batches))
        for number, answer in enumerate(whole(batches, *rest)):
            if number == done and len(counts) == 1:
                raise KeyboardInterrupt
            yield answer

    monkeypatch.setattr(planning, "VOLUMES_AT_ONCE", 1)
    monkeypatch.setattr(planning, "answer_in_process", stopped)
    code, out, err = headrace(capsys, files, *PLAN, "--to", "a.parquet")
    assert (code, out) == (130, "") and message in err and not (files / "a.parquet").exists()
    assert headrace(capsys, files, *PLAN, "--to", "a.parquet")[0] == 0
    assert counts == [3, 3 - done] and not (files / "a.parquet.parts").exists()


def test_a_folder_of_someone_else_is_left_alone(files, capsys):
    (files / "a.parquet.parts").mkdir()
    (files / "a.parquet.parts/mine.txt").write_text("mine")
    code, _, err = headrace(capsys, files, *PLAN, "--to", "a.parquet")
    assert code == 2 and "holds files of something else" in err
    assert (files / "a.parquet.parts/mine.txt").read_text() == "mine"


# --- the files of the guide -----------------------------------------------------------------------


def test_the_examples_are_what_their_script_makes(tmp_path):
    there = ROOT / "examples/fleet"
    subprocess.run([sys.executable, there / "make_fleet.py", tmp_path], check=True, capture_output=True)
    paths = {path.name: path for path in tmp_path.iterdir()}
    assert set(paths) == {path.name for path in there.iterdir() if path.suffix not in (".py", ".pyc")}
    for name, path in paths.items():
        read = gzip.open if name.endswith(".gz") else open
        with read(path, "rb") as entry, read(there / name, "rb") as other:
            assert entry.read() == other.read(), name


# --- words ----------------------------------------------------------------------------------------


def test_the_first_line_has_a_currency(files, capsys):
    _, out, _ = headrace(capsys, files, *PLAN, "--to", "a.parquet")
    first = out.splitlines()[0]
    assert re.fullmatch(
        r"3 volumes: (\d (is|are) too small \([\d.,]+ USD more a month\); )?\d can be changed \(saving [\d.,]+ USD a month\)"
        r"(; \d (is right as it is|are right as they are))?(; \d gets? no advice)?\. Prices: list prices\.",
        first,
    ), first


def answer(key: str, verdict: str = "change", **more) -> VolumeAnswer:
    bills = {"usd_today": 50.0, "usd_proposed": 40.0, "risk": 0.0, "proposed": "gp3:500"} if verdict == "change" else {}
    bills |= {"usd_today": 50.0} if verdict == "unused" else {}
    return VolumeAnswer(key, (key,), "", "us-east-1", "", verdict, "it fits", "gp2:500", **(bills | more))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((0, 0, 1, 0, 0), "1 volume: 1 can be changed (saving 10.00 USD a month)."),
        ((1, 1, 2, 1, 1), "6 volumes: 1 is unused (deleting saves 50.00 USD a month); 1 is too small (0.00 USD more a month); "
                          "2 can be changed (saving 20.00 USD a month); 1 is right as it is; 1 gets no advice."),
        ((2, 2, 0, 2, 2), "8 volumes: 2 are unused (deleting saves 100.00 USD a month); 2 are too small (0.00 USD more a month); "
                          "2 are right as they are; 2 get no advice."),
    ],
)  # fmt: skip
def test_numbers_agree_with_their_verbs(counts, message):
    """A verdict that no volume has is left out."""
    verdicts = [kind for kind, count in zip(words.VERDICTS, counts, strict=True) for _ in range(count)]
    assert (
        words.describe_answers([answer(f"vol-{at}", kind) for at, kind in enumerate(verdicts)], "list prices")[0]
        == message
    )


def test_the_axis_of_risk_is_from_0_to_100():
    drawing = draw_savings_against_risk([answer(f"vol-{at}", risk=at / 10) for at in range(11)])
    assert drawing is not None
    scale = drawing.to_dict()["layer"][0]["encoding"]["x"]["scale"]
    assert scale["domain"] == [0, 100] and scale["nice"] is False and "padding" not in scale


def test_names_in_the_chart_do_not_cover_each_other():
    """Savings of 100, 99 and 60 of 100: the second lies within a line of text of the first. At a risk of 90 % the name is left
    of its point."""
    reference = [
        answer("vol-a", usd_today=140.0),
        answer("vol-b", usd_today=139.0),
        answer("vol-c", usd_today=640.0, risk=0.9),
    ]
    drawing = draw_savings_against_risk(reference)
    assert drawing is not None
    texts = [layer for layer in drawing.to_dict()["layer"] if layer["mark"]["type"] == "text"]
    named = {
        row["name"]: layer["mark"]["align"]
        for layer in texts
        for row in drawing.to_dict()["datasets"][layer["data"]["name"]]
    }
    assert named == {"vol-a": "left", "vol-c": "right"}


def throttled(kind: str, size: int, rate: float, busy: int, **more):
    """A device whose demand is above its limits in `busy` periods of two weeks, as far as its checks say; and its points."""
    described = {
        "VolumeId": "vol-00000000000000001", "VolumeType": kind, "Size": size, "AvailabilityZone": "us-east-1a", "State": "in-use",
        "Attachments": [], **more,
    }  # fmt: skip
    count = 14 * 288
    text = np.where(np.arange(count) % 288 < busy / 14, rate, 50.0) * 300
    rows = pl.DataFrame(
        {
            "volume": ["vol-00000000000000001"] * count, "t_unix": 1_772_409_600.0 + 300.0 * np.arange(count), "period_s": [300.0] * count,
            "read_ops": text, "write_ops": text, "read_bytes": text * 16_384, "write_bytes": text * 16_384, "queue": [1.0] * count,
            "balance_percent": [float("nan")] * count, "iops_exceeded": (text > 15_000.0).astype(float),
            "throughput_exceeded": [0.0] * count, "account": [""] * count,
        }
    )  # fmt: skip
    (device,) = parse_inventory([described]).list_devices()
    return device, {device.key: rows}


def test_reasons_of_a_throttled_volume_are_plain():
    """io1 of 1,000 IOPS that is asked for 1,000 and flagged: what it is short of costs less with gp3. No reason has a power of
    ten, nor a p99 of weeks, nor 0.0 %."""
    device, points = throttled("io1", 400, 500.0, 28, Iops=1000)
    (answer,) = answer_batch([device], points, QUICK)
    assert (answer.verdict, answer.proposed, answer.today_throttled_min) == (
        "change",
        "gp3:400",
        answer.today_throttled_min,
    )
    assert re.fullmatch(
        r"today's volume makes requests wait for its limits; with this one still 30 % head-room, I/O p99 [\d.]+ ms",
        answer.why,
    ), answer.why


def test_waiting_for_a_limit_is_no_goal_for_another_storage():
    """gp2 held at its 250 MiB/s by requests of 1 MiB: its p99 is 3.3 s of waiting, and 2.75 ms without. st1 would cost
    360 USD in place of 800: it is not advised where the goal is 5 ms, nor where 60 ms would do, because CloudWatch does not
    say that the requests are sequential."""
    device, points = throttled("gp2", 8000, 125.0, 14 * 24, Iops=16_000)
    ops = np.where(np.arange(14 * 288) % 288 < 24, 250.0, 20.0) * 300
    busy = ops > 30_000
    rows = points[device.key].with_columns(
        read_ops=ops, read_bytes=ops * 2**20, write_ops=0.0 * ops, write_bytes=0.0 * ops,
        queue=np.where(busy, 900.0, 0.5), iops_exceeded=0.0 * ops, throughput_exceeded=busy.astype(float),
    )  # fmt: skip
    (answer,) = answer_batch([device], {device.key: rows}, QUICK)
    assert answer.today_p99_ms is not None and answer.today_p99_ms > 1_000
    assert answer.verdict == "change" and answer.proposed.startswith("gp3:8000:"), answer
    assert answer.proposed_p99_ms is not None and answer.proposed_p99_ms <= 5.0
    (other,) = answer_batch([device], {device.key: rows}, FleetSettings(fortnights=0, p99_ms=60.0))
    assert other.proposed is not None and other.proposed.startswith("gp3:8000:"), other


def test_a_volume_at_a_limit_for_a_moment_says_in_how_many_periods():
    """gp3 of 3,000 IOPS: 14 of 4,032 periods are 0.3 %; shown as a count, which never rounds to nothing."""
    device, points = throttled("gp3", 100, 1_500.0, 14, Iops=3000, Throughput=125)
    (answer,) = answer_batch([device], points, QUICK)
    assert answer.verdict == "grow" and answer.usd_proposed is not None and answer.usd_today is not None
    assert answer.usd_proposed > answer.usd_today and "in 14 of 4,032 periods of 5 min" in answer.why


def test_what_fails_and_saves_nothing_noticeable_needs_more(monkeypatch):
    """An io1 volume whose least saving is 1e9 USD still must change, but nobody is promised a
    saving."""
    device, points = throttled("io1", 400, 500.0, 28, Iops=1000)
    monkeypatch.setattr(batch, "LEAST_SAVING_USD", 1e9)
    (answer,) = answer_batch([device], points, QUICK)
    assert (answer.verdict, answer.proposed) == ("grow", "gp3:400") and "periods" in answer.why
    calm, rows = throttled("io1", 400, 100.0, 0, Iops=1000)
    (other,) = answer_batch([calm], rows, QUICK)
    assert (other.verdict, other.proposed) == ("keep", "")


def test_reasons_without_figures_read_as_sentences():
    given = [
        msgspec.structs.replace(answer("vol-1", "withheld"), why=why)
        for why in (
            "not modelled: simulated, its requests wait for a limit 96 % of the time, and CloudWatch's checks do not show it",
            "not modelled: simulated, its requests wait for a limit 4 % of the time, and CloudWatch's checks do not show it",
            "not modelled: simulation and CloudWatch disagree on when it was throttled: their F1 is 0.31, and 0.5 is the least",
        )
    ]
    assert words.list_reason_rows(given) == [
        (2, "not modelled: simulated, its requests wait for a limit ... of the time, and CloudWatch's checks do not show it"),
        (1, "not modelled: simulation and CloudWatch disagree on when it was throttled: their F1 is ... and ... is the least"),
    ]  # fmt: skip
