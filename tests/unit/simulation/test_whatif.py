"""Questions in JSON: the answers are those of the core's own functions, and the same bytes from the
model that runs in a browser."""

from __future__ import annotations

import gzip
import json
import os
import random
from importlib import resources
from pathlib import Path

import pytest
from whatif_answers import read_answer

from headrace.base import core
from headrace.base.units import GIB
from headrace.cli.inputs import read_database
from headrace.workload.files import load_demand

EXAMPLE = Path(__file__).parents[3] / "examples/innodb-tpcc-day.toml"
# Random questions: 60 take two seconds; `make soak` asks 1,000.
QUESTIONS = int(os.environ.get("WHATIF_QUESTIONS", "60"))
TYPES = ("gp2", "gp3", "io1", "io2", "st1", "4xgp2", "2xgp3")


@pytest.fixture(scope="module")
def load() -> dict:
    demand = dict(load_demand(EXAMPLE).to_core())
    # Every tenth minute: a tenth of the work, and the same shape.
    columns = {name: value[::10] if isinstance(value, list) else value for name, value in demand.items()}
    return {name: value for name, value in columns.items() if name != "kind"}


@pytest.fixture(scope="module")
def database() -> dict:
    return read_database("sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16").database


def storage(rng: random.Random) -> str:
    kind = rng.choice(TYPES)
    gib = rng.randrange(130, 2_000)
    if kind in ("io1", "io2"):
        return f"{kind}:{gib}:{rng.randrange(100, 6_000)}"
    return f"{kind}:{gib}:{rng.randrange(3_000, 9_000)}" if kind.endswith("gp3") else f"{kind}:{gib}"


def demand_question(rng: random.Random, load: dict) -> dict:
    return {
        "ask": "demand",
        "load": load,
        "factor": rng.uniform(0.25, 4.0),
        "storages": [storage(rng) for _ in range(3)],
        "instance": rng.choice([None, "m5.large", "r6i.2xlarge"]),
        "as_of": rng.choice([None, "2022-03-01"]),
        "region": "us-east-1",
        "start_balance_percent": rng.choice([None, 30.0]),
        "day_of": rng.choice([None, 2]),
        "row_s": rng.choice([None, 60.0, 200.0]),
    }


def database_question(rng: random.Random, database: dict) -> dict:
    choices = [
        {
            "storage": storage(rng),
            "log": rng.choice([None, "gp3:50"]),
            "instance": rng.choice([None, "m5.2xlarge", "r6i.xlarge"]),
            "cache_bytes": rng.uniform(4.0, 24.0) * GIB,
        }
        for _ in range(3)
    ]
    return {
        "ask": "database",
        "database": database,
        "growth": rng.uniform(0.5, 2.0),
        "settings": None,
        "choices": choices,
        "clients": rng.randrange(1, 65),
        "arrivals_tps": None,
        "start": rng.choice(["cold", "warm"]),
        "seconds": 7_200.0,
        "settled": rng.choice([True, False]),
        "as_of": None,
        "region": "us-east-1",
        "course_of": rng.choice([None, [1, 1_800]]),
    }


def run_question(rng: random.Random, database: dict) -> dict:
    """A run of a database: `headrace predict`, with settings that may be anything."""
    run = {
        "storage": storage(rng),
        "log_storage": rng.choice([None, "gp3:50"]),
        "instance": rng.choice([None, "m5.2xlarge"]),
        "vcpus": rng.choice([None, 4]),
        "vcpus_of_runs": rng.choice([None, 8]),
        "as_of": rng.choice([None, "2024-03-01"]),
        "cache_gib": rng.uniform(4.0, 24.0),
        "threads": rng.randrange(1, 65),
        "arrivals_tps": rng.choice([None, None, 200.0]),
        "start": rng.choice(["cold", "warm", 1e5]),
        "seconds": rng.choice([1, 60, 300]),
        "seed": rng.choice([None, 1, 2**53]),
        "start_balance_percent": rng.choice([None, 20.0]),
        "growth": rng.choice([1.0, 1.5]),
    }
    return {"ask": "run", "database": database, "run": run}


def replica_question(rng: random.Random, database: dict) -> dict:
    """A replica behind such a run: `headrace predict --replica`."""
    replica = {
        "storage": storage(rng),
        "workers": rng.choice([None, 0, 8]),
        "settings": core.replica_settings("mysql", rng.choice(["8.0.36", "8.4.3"])),
        "identified": rng.choice([{}, {"cpu_ms": 1.25}]),
        "drain_s": rng.choice([0, 600]),
    }
    return run_question(rng, database) | {"ask": "replica", "replica": replica}


def ask(question: dict) -> dict:
    return read_answer(core.WhatIf().answer(json.dumps(question)))


def test_a_demand_is_answered_as_the_planner_is(load: dict) -> None:
    rng = random.Random(5)
    for _ in range(8):
        question = demand_question(rng, load)
        own = core.DemandLoad({"kind": "open", **load}).times(question["factor"])
        expected = core.evaluate(
            own,
            question["storages"],
            [None if question["instance"] is None else 0] * 3,
            [] if question["instance"] is None else [question["instance"]],
            as_of=question["as_of"],
            start_balance_percent=question["start_balance_percent"],
            prune_above=float("inf"),
            cycle="settled",
        )
        for nth, choice in enumerate(ask(question)["demand"]["choices"]):
            assert choice["status"] == expected["status"][nth]
            if choice["status"] == "simulated":
                for name in ("throttled_s", "worst_p99_ms", "lowest_balance_percent", "queue_at_end"):
                    assert choice["summary"][name] == expected[name][nth], name
                assert choice["judged_p99_ms"] == expected["judged_p99_ms"][nth]


def test_a_bill_is_the_price_lists(load: dict) -> None:
    question = demand_question(random.Random(1), load) | {"storages": ["gp3:155:4500", "6xgp3:26"], "as_of": None}
    bills = [choice["usd_month"] for choice in ask(question)["demand"]["choices"]]
    assert bills == core.monthly_totals(["gp3:155:4500", "6xgp3:26"], "us-east-1")
    # 155 GiB x 0.08 and 1,500 IOPS above 3,000 x 0.005 (price list of us-east-1).
    assert bills[0] == pytest.approx(155 * 0.08 + 1_500 * 0.005)


def test_a_database_is_answered_as_the_planner_is(database: dict) -> None:
    rng = random.Random(6)
    for _ in range(4):
        question = database_question(rng, database)
        hosts = [choice["instance"] for choice in question["choices"] if choice["instance"]]
        search = {
            "storages": [choice["storage"] for choice in question["choices"]] + ["gp3:50"],
            "instances": hosts,
            "deployments": ["ec2"] * len(hosts),
            "caches": [choice["cache_bytes"] for choice in question["choices"]],
            "as_of": None,
            "start_balance_percent": None,
            "least_tps": 0.0,
        } | {name: question[name] for name in ("clients", "arrivals_tps", "start", "seconds", "settled")}
        places = iter(range(len(hosts)))
        [expected] = core.transaction_candidates(
            [core.TransactionCandidates(core.mysql_grown(database, question["growth"]))],
            search,
            [0, 1, 2],
            [None if choice["log"] is None else 3 for choice in question["choices"]],
            [next(places) if choice["instance"] else None for choice in question["choices"]],
            [0, 1, 2],
            load_by=[1.0],
        )
        for nth, choice in enumerate(ask(question)["database"]["choices"]):
            assert choice["status"] == expected["status"][nth]
            if choice["status"] == "ran":
                assert choice["cap"] == expected["cap"][nth]
                for name in ("tps", "p95_ms", "reads_per_tx", "balance_percent"):
                    assert choice["figures"][name] == expected[name][nth], name


def test_a_course_is_as_long_as_it_was_asked_for(database: dict) -> None:
    question = database_question(random.Random(2), database) | {"course_of": [0, 1_800]}
    course = ask(question)["columns"]
    # 360 rows at most: five seconds each.
    assert len(course["tps"]) == 360 and course["t_s"][-1] == 1_800.0


def test_a_run_is_what_the_core_says(database: dict) -> None:
    """The rows of `core.mysql_runs`; that they are those of `headrace predict`, tests/unit/ui/test_answers.py holds."""
    rng = random.Random(10)
    for _ in range(8):
        question = run_question(rng, database)
        run = question["run"]
        grown = database if run["growth"] == 1.0 else core.mysql_grown(database, run["growth"])
        measured_on = run["vcpus_of_runs"] if run["instance"] is None else None
        names = ("storage", "log_storage", "instance", "as_of", "start", "seconds", "seed", "start_balance_percent")
        request = {name: run[name] for name in names} | {
            "vcpus": measured_on if run["vcpus"] is None else run["vcpus"],
            "cache_bytes": run["cache_gib"] * GIB,
            "clients": None if run["arrivals_tps"] else run["threads"],
            "arrivals": [run["arrivals_tps"]] if run["arrivals_tps"] else None,
            "step_s": 1.0,
            "follow": None,
        }
        [expected] = core.mysql_runs(grown, [request])
        answer = ask(question)
        columns, caps = answer["columns"], answer["run"]["caps"]
        assert columns.pop("t_s") == [time - 1.0 for time in expected["t_s"]]
        assert [caps[int(place)] for place in columns.pop("cap")] == expected["cap"]
        balance = columns.pop("balance_percent", [None] * run["seconds"])  # one that nothing has is left out
        assert balance == expected["balance_percent"]
        for name, values in columns.items():
            assert values == expected[name], name


RUNS_REFUSED = [
    ({"storage": "gp4:100"}, "gp4"),
    ({"seconds": 0}, "seconds = 0"),
    ({"seconds": 604_801}, "604801"),
    ({"threads": 0}, "threads = 0"),
    ({"cache_gib": 0.0}, "cache-gib = 0"),
    ({"growth": -1.0}, "growth = -1"),
    ({"start": "lukewarm"}, "lukewarm"),
    ({"instance": "m5.tiny"}, "m5.tiny"),
]


@pytest.mark.parametrize("make", [run_question, replica_question])
@pytest.mark.parametrize(("change", "value"), RUNS_REFUSED)
def test_a_run_that_cannot_be_is_refused_with_its_value(database: dict, change: dict, value: str, make) -> None:
    question = make(random.Random(11), database)
    refused = ask(question | {"run": question["run"] | change})["refused"]
    assert value in refused["value"]
    assert refused["rule"] and refused["source"] and refused["hint"]


@pytest.mark.parametrize("identified", [{"cpu": 1.0}, {"cpu_ms": "much"}, {"written": []}])
def test_what_no_applier_has_is_refused(database: dict, identified: dict) -> None:
    question = replica_question(random.Random(12), database)
    assert "refused" in ask(question | {"replica": question["replica"] | {"identified": identified}})


def test_a_database_is_given_once(database: dict) -> None:
    model, rng = core.WhatIf(), random.Random(13)
    model.answer(json.dumps(run_question(rng, database)))
    for make in (run_question, replica_question):
        later = make(rng, database)
        assert model.answer(json.dumps(later | {"database": None})) == core.WhatIf().answer(json.dumps(later))
        assert ask(later | {"database": None})["refused"]["value"] == "database"


REFUSED = [
    ({"storages": ["gp4:100"]}, "gp4"),
    ({"region": "us-moon-1"}, "us-moon-1"),
    ({"as_of": "yesterday"}, "yesterday"),
    ({"instance": "m5.tiny"}, "m5.tiny"),
    ({"factor": -1.0}, "-"),
]


@pytest.mark.parametrize(("change", "value"), REFUSED)
def test_what_cannot_be_is_refused_with_its_value(load: dict, change: dict, value: str) -> None:
    refused = ask(demand_question(random.Random(3), load) | change)["refused"]
    assert value in refused["value"]
    assert refused["rule"] and refused["source"] and refused["hint"]


def test_columns_of_two_lengths_are_refused(load: dict) -> None:
    short = load | {"write_bytes": load["write_bytes"][:-1]}
    refused = ask(demand_question(random.Random(3), load) | {"load": short})["refused"]
    assert refused["value"] == str(len(short["write_bytes"])) and "durations" in refused["rule"]


@pytest.mark.parametrize("text", ["", "{}", "[" * 10_000, '{"ask":"demand","more":1}', "\x00", "nonsense"])
def test_what_is_no_question_is_refused(text: str) -> None:
    assert "is not a question" in read_answer(core.WhatIf().answer(text))["refused"]["rule"]


def test_what_is_remembered_changes_no_answer(load: dict, database: dict) -> None:
    rng, model = random.Random(8), core.WhatIf()
    for _ in range(12):
        kind = rng.choice((demand_question, database_question, run_question, replica_question))
        question = json.dumps(kind(rng, load if kind is demand_question else database))
        assert model.answer(question) == core.WhatIf().answer(question)


def test_a_load_is_given_once(load: dict) -> None:
    first, model = demand_question(random.Random(4), load), core.WhatIf()
    model.answer(json.dumps(first))
    later = demand_question(random.Random(7), load)
    assert model.answer(json.dumps(later | {"load": None})) == core.WhatIf().answer(json.dumps(later))
    assert ask(later | {"load": None})["refused"]["value"] == "load"


@pytest.mark.slow
def test_a_browser_gives_the_same_bytes(load: dict, database: dict) -> None:
    wasmtime = pytest.importorskip("wasmtime")
    packed = resources.files("headrace.report").joinpath("live", "model.wasm.gz")
    if not packed.is_file():
        pytest.skip("the model for browsers is not built here: Rust has no target wasm32-unknown-unknown")
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, gzip.decompress(packed.read_bytes()))
    exports = wasmtime.Instance(store, module, []).exports(store)

    def answer_in_browser(question: str) -> bytes:
        text = question.encode()
        at = exports["question_at"](store, len(text))
        exports["memory"].write(store, text, at)
        length = exports["answer"](store)
        at = exports["answer_at"](store)
        return bytes(exports["memory"].read(store, at, at + length))

    rng, model = random.Random(9), core.WhatIf()
    for nth in range(QUESTIONS):
        kind = (demand_question, database_question, run_question, replica_question)[nth % 4]
        question = json.dumps(kind(rng, load if kind is demand_question else database))
        assert answer_in_browser(question) == model.answer(question), f"question {nth}"
    assert answer_in_browser("nonsense") == model.answer("nonsense")
