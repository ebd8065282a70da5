"""Commands and options under the names they had before: they do the same, with a note on stderr."""

from __future__ import annotations

import json

import pytest
from places import DATA

from headrace import workload
from headrace.cli.app import commands
from headrace.cli.former import OF_DATABASES, OPTIONS, as_today

RECORD = DATA / "volume.rec"  # 30 requests of dd on a gp3:1 of a lab

COMMANDS = dict(commands())


def options_of(name: str) -> set[str]:
    return {option for param in COMMANDS[name].params for option in (*param.opts, *param.secondary_opts)}


def test_former_names_lead_to_options_that_exist_and_are_gone_themselves():
    for command, names in OPTIONS.items():
        known = options_of(" ".join(("headrace", *command)))
        assert set(names.values()) <= known and not set(names) & known, command
    assert set(OF_DATABASES) <= options_of("headrace predict") and not set(OF_DATABASES) & options_of(
        "headrace simulate"
    )


def test_one_meaning_has_one_name():
    """Options whose values mean the same are called the same in every command."""
    metavars: dict[str, set[str]] = {}
    for command in COMMANDS.values():
        for param in command.params:
            if param.param_type_name == "option" and param.metavar and not getattr(param, "is_flag", False):
                metavars.setdefault(param.metavar, set()).update(name for name in param.opts if name.startswith("--"))
    of_replicas = {"--replica", "--replica-log-storage", "--relay-storage"}
    assert metavars["SPEC"] == {"--storage", "--log-storage"} | of_replicas
    assert (
        metavars["YYYY-MM-DD"] == {"--as-of"}
        and metavars["REGION"] == {"--region", "--kms-region"}
        and metavars["TYPE"] == {"--instance", "--type", "--replica-instance"}
    )
    for metavar, ending in (("GIB", "-gib"), ("KIB", "-kib"), ("SHARE", "")):
        assert all(name.endswith(ending) for name in metavars[metavar]), metavar
    everywhere = {name for names in metavars.values() for name in names}
    assert not everywhere & {"--plot", "--memory", "--instance-type", "--duration", "--html", "--current", "--data"}


@pytest.mark.parametrize(
    ("typed", "today", "notes"),
    [
        ("plan x --discount 5", "plan x --discount-percent 5", 1),
        ("workload show x --plot=a.svg", "workload show x --report=a.svg", 1),
        ("advise --memory 8 --storage gp3:5", "advise --memory-gib 8 --storage gp3:5", 1),
        ("simulate x --storage gp3:5 --plot a.html", "simulate x --storage gp3:5 --report a.html", 1),
        (
            "simulate x --storage gp3:5 --threads 3 --plot a.html",
            "predict x --storage gp3:5 --threads 3 --report a.html",
            2,
        ),
        ("simulate --replay a.rec --output json", "replay a.rec --output json", 1),
        ("simulate --replay=a.rec", "replay a.rec", 1),
        ("mysql cli db -- --memory 3", "mysql cli db -- --memory 3", 0),
        ("mysql up db --memory 3 -- --memory 3", "mysql up db --memory-gib 3 -- --memory 3", 1),
        ("plan x --plot a.svg", "plan x --plot a.svg", 0),
        ("", "", 0),
    ],
)
def test_a_line_is_read_as_today(typed, today, notes):
    told: list[str] = []
    assert as_today(typed.split(), told.append) == today.split()
    assert len(told) == notes and all("this still works in this version" in note for note in told)


def test_a_former_option_does_the_same(call, tmp_path):
    path = tmp_path / "day.toml"
    workload.save(workload.new_daily(300, 100, size_gib=50), path)
    words = ("plan", str(path), "--max-volumes", "1", "--output", "json")
    code, today, err = call(*words, "--discount-percent", "50")
    assert (code, err) == (0, "")
    code, former, err = call(*words, "--discount", "50")
    assert (code, former) == (0, today)
    assert err == "note: --discount is now --discount-percent; this still works in this version\n"


def test_replay_compares_every_decision(call, tmp_path):
    code, out, err = call("replay", str(RECORD))
    assert (code, err) == (0, "") and "30 requests" in out and "Every decision is equal to the nanosecond." in out
    document = json.loads(call("replay", str(RECORD), "--output", "json")[1])
    assert document["schema"] == "headrace-replay/1" and document["equal"] == document["requests"] == 30
    code, out, err = call("simulate", "--replay", str(RECORD), "--output", "json")
    assert (code, json.loads(out)) == (0, document)
    assert err == "note: `headrace simulate --replay` is now `headrace replay`; this still works in this version\n"
    (tmp_path / "cut.rec").write_bytes(RECORD.read_bytes()[:-3])
    assert "ends inside a frame" in call("replay", str(tmp_path / "cut.rec"))[1]
    assert call("replay", str(RECORD), "--output", "csv")[0] == 2
