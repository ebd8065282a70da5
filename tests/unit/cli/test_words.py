"""Refusals and their words: units, plain numbers, no dangerous hints; files that are links; names
that are too long."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

from headrace import workload

DAY = "demo:hour"


@pytest.mark.parametrize(
    ("options", "value", "rule"),
    [
        ("--degrade 0:0:10:50:-3", "EXTRA_MS = '-3'", "milliseconds, 0 to 60,000"),
        ("--degrade 0:0:10:500", "CAPS_PERCENT = '500'", "percent of the limits that are left, 0.1 to 100"),
        ("--degrade 0:-1:10:50", "START_S = '-1'", "seconds, 0 to 31,622,400"),
        ("--snapshot-gib 501", "snapshot of 501 GiB", "more than gp2:500 holds: 500 GiB"),
        ("--snapshot-gib -1", "--snapshot-gib = -1.0 GiB", "0 to 1,048,576 GiB"),
        ("--snapshot-gib 10 --init-rate 1", "--init-rate 1", "100 to 300"),
        ("--snapshot-gib 10 --init-rate 99999", "--init-rate 99999", "100 to 300"),
        ("--degrade 0:3600:600:50", "member 0, 3,600 to 4,200 s at 50 %", "is not in the run, which ends at 3,599 s"),
        ("--modify gp3:500:6000@3600..7200", "gp3:500:6000 that takes effect at 3,600 s", "which ends at 3,599 s"),
        ("--xen --instance m6i.large", "--xen", "m6i.large is a Nitro instance"),
    ],
)
def test_a_wrong_option_is_refused_in_its_own_unit(call, options, value, rule):
    code, out, err = call(
        "simulate", DAY, *([] if "--storage" in options else ["--storage", "gp2:500"]), *options.split()
    )
    assert (code, out) == (2, "") and value in err and rule in err


@pytest.mark.parametrize("second", ["0:0:600:50", "0:300:600:50:10", "0:100:50:50"])
def test_degradations_of_a_member_do_not_overlap(call, second):
    words = ["simulate", DAY, "--storage", "gp3:500"]
    for order in (["0:0:600:1", second], [second, "0:0:600:1"]):
        code, out, err = call(*words, *(word for text in order for word in ("--degrade", text)))
        assert (code, out) == (2, "") and "0 to 600 s at 1 %" in err and "s at 50 %" in err and "overlaps" in err


def test_degradations_of_several_members_and_times_are_simulated(call):
    events = ["0:0:600:50", "0:600:600:20", "1:300:600:50"]
    words = ["simulate", DAY, "--storage", "2xgp3:500", "--output", "json"]
    code, out, _ = call(*words, *(word for text in events for word in ("--degrade", text)))
    assert code == 0 and json.loads(out)["summary"]["delivered_ios"] > 0


def test_what_fits_is_simulated(call):
    for words in (
        ["--storage", "gp2:500", "--xen", "--instance", "m4.large"],
        ["--storage", "gp2:500", "--start-balance", "30"],
        ["--storage", "gp3:500", "--instance", "m5.large", "--start-balance", "30"],  # the credits of the instance
        ["--storage", "gp3:500", "--snapshot-gib", "10", "--init-rate", "300"],
    ):
        assert call("simulate", "fio:rw=randread", "--seconds", "5", *words)[0] == 0, words


def test_no_hint_to_what_would_be_dangerous(call):
    _, _, err = call("simulate", DAY, "--storage", "raid6:4xgp3:100")
    assert "Did you mean" not in err and "raid0, raid1, raid5, raid10" in err
    _, _, err = call("catalog", "prices", "--region", "us-gov-west-1")
    assert "Did you mean" not in err
    _, _, err = call("simulate", DAY, "--storage", "io1:1")
    assert "an io1 volume is 4 to" in err
    code, _, err = call("import", "x")
    assert code == 2 and "Did you mean `headrace workload import` or `headrace fleet import`?" in err


@pytest.mark.parametrize("typed", ["\tgp3:500", "GP3:500", "gp3:500\n"])
def test_storage_is_written_one_way(call, typed):
    code, out, _ = call("simulate", "fio:rw=read", "--storage", typed, "--seconds", "1", "--output", "json")
    assert code == 0 and json.loads(out)["storage"] == "gp3:500"


def test_a_link_stays_and_its_target_is_written(call, tmp_path):
    (tmp_path / "target.toml").write_text("old")
    link = tmp_path / "link.toml"
    link.symlink_to("target.toml")
    assert call("workload", "show", "demo:hour", "--to", str(link))[0] == 2
    assert call("workload", "show", "demo:hour", "--to", str(link), "--force")[0] == 0
    assert link.is_symlink() and workload.load(tmp_path / "target.toml").name == workload.load(link).name
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    code, _, err = call("workload", "show", "demo:hour", "--to", str(tmp_path / "one"), "--force")
    assert code == 3 and "error: " in err and "bug" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.toml", "one", "target.toml", "two"]


@pytest.mark.parametrize(
    "words",
    [("workload", "show", DAY, "--to"), ("workload", "show"), ("workload", "import"), ("plan", DAY, "--report")],
)
def test_a_name_too_long_is_named_with_the_right_hint(call, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    name = "x" * 300 + (".html" if words[0] == "plan" else "")
    code, out, err = call(*words, name)
    assert code == 3 and out == "" or words[0] == "plan"
    assert "xxx" in err and "File name too long" in err and "255 bytes" in err and "space" not in err
    assert not list(tmp_path.iterdir())


def test_short_runs_say_that_the_saved_second_counts(call):
    load = ("simulate", "fio:rw=randread,bs=16k,iodepth=64", "--storage", "gp3:100")
    assert "the second of IOPS that a rested volume has saved: up to 50 %" in call(*load, "--seconds", "2")[1]
    assert "has saved" not in call(*load, "--seconds", "2", "--no-saved-second")[1]
    assert "has saved" not in call(*load, "--seconds", "200")[1]


def test_when_it_was_throttled_is_told_and_kept(call, tmp_path):
    path = tmp_path / "day.toml"
    workload.save(workload.new_daily(1500, 700, size_gib=50), path)
    code, out, _ = call("simulate", str(path), "--storage", "gp3:100", "--output", "json")
    windows = json.loads(out)["throttled_windows"]
    _, words, _ = call("simulate", str(path), "--storage", "gp3:100")
    assert code == 0 and bool(windows) == ("When: " in words)


def test_a_terminal_without_utf_8_gets_ascii():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "workload", "show", DAY], env=environment, capture_output=True, timeout=300
    )
    text = done.stdout.decode("ascii")
    assert done.returncode == 0 and "peak" in text and "?" not in text


def test_sources_of_the_catalog_are_shown_where_asked(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("volumes", "prices", "instances"):
        family = ("--family", "m5") if command == "instances" else ()
        without, with_them = call("catalog", command, *family)[1], call("catalog", command, *family, "--sources")[1]
        assert "source:" not in without and "--sources" in without and "source" in with_them.replace("--sources", "")
        assert max(map(len, without.splitlines())) <= 80


def test_without_memory_for_the_renderer_a_chart_is_refused_in_words(tmp_path):
    words = f"ulimit -v 3000000; exec {sys.executable} -m headrace simulate fio:rw=read --storage gp3:10 --seconds 2 --report x.svg"
    done = subprocess.run(["bash", "-c", words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3 and done.stdout == "" and "the chart: could not be drawn" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


def test_no_negative_zero_in_csv(call):
    for storage in ("gp2:100", "gp3:200"):
        out = call("simulate", DAY, "--storage", storage, "--output", "csv")[1]
        assert out.count("\n") > 10 and "-0.0" not in out


def test_warnings_of_a_database_count_and_compare_like_with_like(call, tmp_path):
    runs = tmp_path / "run.toml"
    path = tmp_path / "shop.toml"
    (tmp_path / "tpcc-run.txt").write_bytes((ROOT / "examples/tpcc-run.txt").read_bytes())
    runs.write_bytes((ROOT / "examples/tpcc-run.toml").read_bytes())
    assert call("calibrate", str(runs), "--to", str(path))[0] == 0
    options = ("--storage", "gp3:500:6000", "--seconds", "10", "--threads", "1", "--growth", "100")
    out = call("predict", str(path), *options)[1]
    assert "1 client is far from" in out and "times the data is as" in out and "2,400 GiB of the runs" not in out
