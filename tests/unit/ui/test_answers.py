"""Answers of the page equal those that the command line prints, for random settings."""

from __future__ import annotations

import json
import os
import random
import shlex
from typing import cast

import pytest
from places import ROOT
from whatif_answers import read_answer

from headrace.base.options import list_settings
from headrace.errors import InputError
from headrace.planner.settings import PlanSettings
from headrace.report.view import Chart, Code, Column, Fold, Heading, Items, Sentence, Table, View
from headrace.simulation.settings import PredictionSettings, SimulationSettings
from headrace.ui import answers, modelling, replicas, workloads
from headrace.ui.asks import AskDoctor, AskReplica
from headrace.ui.doctoring import Recordings
from headrace.ui.examples import EXAMPLES
from headrace.ui.spelling import read_settings, spell_command, spell_settings

# Random settings, each answered twice: `make soak` takes 1,000.
ROUNDS = int(os.environ.get("PAGE_ANSWERS", "36"))
TPCC = "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16"
STEADY = "new:reads_per_s=400,writes_per_s=300,size_gib=80"


def random_question(rng: random.Random) -> tuple[str, str, dict, dict]:
    """A question: its name, workload, settings, and what else it has."""
    kind = rng.choice(("plan", "day", "day", "run", "run", "replica"))  # a plan takes a second, the others little

    def some(**choices: list) -> dict:
        return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}

    if kind == "plan":
        settings = some(growth=[0.5, 1, 1.75], free_percent=[0, 30, 12.5], max_volumes=[1, 4], months=[6], compare=["gp2:500"], exclude=[["st1", "sc1"], ["gp2"]],
                        goals=[["p99_ms<=10"], ["p99_ms<=50", "throttled_min<=5"]], discount_percent=[7.5], region=["eu-west-1"], nodes=[2], top=[3])  # fmt: skip
        return kind, STEADY, settings, {}
    if kind == "day":
        settings = some(growth=[0.5, 2], start_balance=[10, 60], as_of=["2024-03-01"])
        cycle = {} if "start_balance" in settings else {"cycle": "settled"}
        return (
            kind,
            STEADY,
            settings | cycle | {"form": "interval"},
            {"storage": rng.choice(("gp2:200", "gp3:100", "2xgp2:50", "io2:100:900"))},
        )
    settings = some(
        threads=[1, 64],
        cache_gib=[2, 12.5],
        growth=[1.5],
        start=["warm", "cold"],
        seconds=[60, 120],
        instance=["r6i.large"],
        seed=[3],
        start_balance_percent=[50],
    )
    more = {"storage": rng.choice(("gp2:200", "gp3:100:4000", "io1:100:2000"))}
    if kind == "replica":
        more |= {"replica": rng.choice(("gp3:100", "gp2:100")), "workers": rng.choice((None, 0, 8))}
    return kind, TPCC, settings | {"seconds": 60}, more


def answer_of(kind: str, workload: str, settings: dict, more: dict) -> dict:
    memory = workloads.Workloads()
    if kind == "plan":
        return answers.plan(memory, answers.Ask(workload, settings), lambda done: None)
    if kind == "day":
        return day_of(memory, workload, settings, **more)
    if kind == "replica":
        return replicas.run_replica(memory, AskReplica(workload, settings, **more))
    return answers.run(memory, answers.AskRun(workload, settings, **more))


def model_of(
    kind: str, workload: str, settings: dict, storage: str, replica: str = "", workers: int | None = None
) -> dict:
    """A run or a replica as the page asks the model for it (engine.js)."""
    memory = workloads.Workloads()
    about = modelling.describe_database(memory, modelling.AskLoad(workload))
    usual = cast("dict[str, object]", about["run"] if kind == "run" else about["replica_run"])
    question = {
        "ask": kind,
        "run": {name: settings.get(name, value) for name, value in usual.items()} | {"storage": storage},
    }
    if kind == "replica":
        question["replica"] = about["replica"] | {"storage": replica, "workers": workers}
    answer = read_answer(modelling.ServerModel(memory).answer(modelling.AskModel(workload, questions=[question])))
    columns, caps = answer["columns"], answer[kind].get("caps")
    return answer[kind] | {
        "columns": columns | ({"cap": [caps[int(place)] for place in columns["cap"]]} if caps else {})
    }


def day_of(memory: workloads.Workloads, workload: str, settings: dict, storage: str) -> dict:
    """The day as the page asks the model for it, and the command that gives the same (engine.js)."""
    about = modelling.describe_load(memory, modelling.AskLoad(workload))
    question = {
        "ask": "demand", "factor": settings.get("growth", 1), "storages": [storage], "instance": None, "as_of": settings.get("as_of"),
        "region": "us-east-1", "start_balance_percent": settings.get("start_balance"), "day_of": 0, "row_s": about["row_s"],
    }  # fmt: skip
    answer = read_answer(modelling.ServerModel(memory).answer(modelling.AskModel(workload, questions=[question])))
    before, named = memory.spell(workload)
    line = spell_command(["simulate", named, "--storage", storage, *spell_settings(SimulationSettings, settings)])
    summary = answer["demand"]["choices"][0]["summary"]
    return {"columns": answer["columns"], "summary": summary, "commands": [*before, line]}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_page_answers_what_its_command_prints(seed, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, workload, settings, more = random_question(random.Random(seed))
    answer = answer_of(kind, workload, settings, more)
    commands = answer["commands"]
    for line in commands[:-1]:
        assert call(*shlex.split(line)[1:])[0] == 0
    code, out, err = call(*shlex.split(commands[-1])[1:], "--output", "json")
    assert code in (0, 1), err
    printed = json.loads(out)
    if kind == "plan":
        assert json.loads(json.dumps(answer["result"])) == printed, commands
        return
    if kind == "day":
        assert answer["summary"] == {name: printed["summary"][name] for name in answer["summary"]}
        columns = answer["columns"]
    else:
        rows = printed.pop("rows")
        assert json.loads(json.dumps(answer["result"])) == printed
        model = model_of(kind, workload, settings, **more)
        for name in model.get("summary", ()):
            assert name in ("shares", "if_halved") or model["summary"][name] == printed["summary"][name], name
        columns, printed = model["columns"] | answer["columns"], {"rows": rows}
        assert all(model["columns"][name] == values for name, values in answer["columns"].items())
    for name, values in columns.items():
        assert values == [row[name] for row in printed["rows"]], name


@pytest.mark.parametrize("group", [PlanSettings, SimulationSettings, PredictionSettings])
def test_settings_are_read_by_their_options(group):
    """The default of each setting, or a value at the end of its range, is read as it is; another kind of value is refused."""
    for setting in list_settings(group):
        if setting.kind == "file":
            with pytest.raises(InputError):
                read_settings(group, {setting.name: "/etc/passwd"})
            continue
        value = (
            setting.choices[0]
            if setting.choices
            else {"switch": True, "text": "a", "number": setting.option.most or 1.0, "whole": 1}[setting.kind]
        )
        given = [value] if setting.many else value
        assert read_settings(group, {setting.name: given}) == {setting.name: given}
        for wrong in ({}, [[1]], True if setting.kind != "switch" else "true"):
            with pytest.raises(InputError, match=setting.name):
                read_settings(group, {setting.name: wrong})


def test_an_unknown_setting_is_refused_with_the_nearest_name():
    with pytest.raises(InputError, match="growth"):
        read_settings(PlanSettings, {"grwth": 2})


def test_defaults_are_not_spelled():
    values = {
        "growth": 1.0,
        "free_percent": 25.0,
        "goals": ["p99_ms<=10", "throttled_min<=0"],
        "exclude": ["st1", "sc1"],
        "default_goals": False,
        "months": 0.5,
    }
    assert spell_settings(PlanSettings, values) == [
        "--goal", "p99_ms<=10", "--goal", "throttled_min<=0", "--no-default-goals", "--months", "0.5", "--exclude", "st1,sc1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../day.toml",
        "examples/innodb-tpcc-day.toml",
        "demo:night",
        "file:00",
        "aws:vol-1",
        "prometheus:http://h",
        "-",
        "",
        "new:x=1",
        "new:reads_per_s",
    ],
)
def test_a_browser_names_no_path(text):
    with pytest.raises(InputError):
        workloads.Workloads().find(text)


def test_a_file_is_known_by_its_content():
    memory = workloads.Workloads()
    content = (ROOT / "examples/innodb-tpcc-day.toml").read_bytes()
    text = memory.add("C:\\Users\\me\\day; rm -rf.toml", content)
    assert memory.add("other.toml", content) == text and memory.find(text).name == "innodb-tpcc-day"
    recording = memory.add("../../iostat.txt", (ROOT / "examples/iostat.txt").read_bytes())
    assert memory.spell(recording) == (["headrace workload import iostat.txt --to iostat.toml"], "iostat.toml")


def test_a_workload_that_names_another_file_reads_none(tmp_path):
    content = b'format = "headrace-workload"\nversion = 1\nmodel = "open"\nname = "a"\nkind = "recorded"\npoints_file = "/etc/passwd"\npoints_sha256 = "0"\n'
    with pytest.raises(InputError, match="another file is not read here"):
        workloads.Workloads().add("a.toml", content)


def test_a_few_files_are_remembered():
    memory = workloads.Workloads()
    texts = [
        memory.add(
            "a.toml",
            f'format = "headrace-workload"\nversion = 1\nmodel = "closed"\nname = "n{at}"\nrw = "randread"\nbs_kib = 16\niodepth = 1\nnumjobs = 1\n'.encode(),
        )
        for at in range(workloads.MOST_FILES + 1)
    ]
    assert memory.find(texts[-1]).name == f"n{workloads.MOST_FILES}"
    with pytest.raises(InputError, match="again"):
        memory.find(texts[0])


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("a/b.txt", "b.txt"),
        ("..", "workload"),
        ("--help", "help"),
        ("x\n\x1b[31m.txt", "x__[31m.txt".replace("[", "_")),
        ("a" * 300, "a" * 80),
    ],
)
def test_names_of_files_are_plain(name, clean):
    assert workloads.clean_name(name) == clean


def test_a_view_is_what_its_blocks_say():
    view = View(
        "t",
        "s",
        blocks=[
            Sentence("x", "warn"),
            Sentence("not here", place="terminal"),
            Fold("f", [Items(["1", "2"]), Code(["c"])]),
            Heading("a chart alone"),
            *[Chart(pytest.fail, "drawn by the page itself")] * 2,
            Heading("a chart with its figures"),
            Chart(pytest.fail, "drawn by the page itself"),
            Table([Column("a", "number")], [[1.5]], marked=0),
        ],
    )
    plain = answers.make_plain_view(view)
    assert [block["block"] for block in cast("list[dict]", plain["blocks"])] == ["Sentence", "Fold", "Heading", "Table"]
    assert plain["blocks"][2]["text"] == "a chart with its figures"
    assert plain["blocks"][1]["count"] == 3 and plain["blocks"][3]["rows"] == [[1.5]]
    assert json.dumps(plain)


def test_every_example_is_answered():
    memory = workloads.Workloads()
    for example in EXAMPLES:
        assert answers.describe_workload(memory.find(example.workload))["kind"] == example.kind
        assert read_settings(PlanSettings, example.settings) == example.settings
    assert json.dumps(answers.start({}, None))


def test_a_database_is_not_simulated_as_demand_nor_the_reverse():
    memory = workloads.Workloads()
    with pytest.raises(InputError, match="Database view"):
        modelling.describe_load(memory, modelling.AskLoad(TPCC))
    with pytest.raises(InputError, match="Plan view"):
        answers.run(memory, answers.AskRun("demo:day", storage="gp3:100"))


@pytest.mark.parametrize("storage", ["gp2:1200", ""])
def test_a_recording_is_judged_as_the_doctor_judges_it(storage, call, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    recordings = Recordings()
    first = recordings.judge(AskDoctor("iostat.txt", (ROOT / "examples/iostat.txt").read_text(), storage="gp3:500"))
    answer = recordings.judge(AskDoctor(file=str(first["file"]), storage=storage))
    _, out, err = call(*shlex.split(answer["commands"][0])[1:], "--output", "json")
    assert json.loads(json.dumps(answer["result"])) == json.loads(out), err
    assert answer["ticks"] and json.dumps(answer["view"])


def test_a_study_is_what_its_command_prints(call):
    answer = answers.study(answers.AskStudy("services-2020"), lambda done: None)
    code, out, _ = call(*shlex.split(answer["commands"][0])[1:], "--output", "json")
    printed = json.loads(out)
    assert code in (0, 1) and len(answer["charts"]) == 2
    table = next(block for block in answer["view"]["blocks"] if block["block"] == "Table")
    assert len(table["rows"]) == len(printed["verdicts"])
