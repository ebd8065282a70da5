"""A plan's report that recomputes in the reader's browser: what it carries, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re
from importlib import resources
from pathlib import Path

import pytest
from whatif_answers import read_answer

from headrace import planner
from headrace.base import core
from headrace.cli.inputs import read_database
from headrace.errors import CouldNotRun, InputError
from headrace.planner.settings import PlanSettings
from headrace.report import html, live
from headrace.report import plan as plan_report
from headrace.workload.files import load_demand

EXAMPLE = Path(__file__).parents[3] / "examples/innodb-tpcc-day.toml"


@pytest.fixture(scope="module")
def demand():
    load = load_demand(EXAMPLE)
    return planner.plan(load, compare="gp2:1200"), load


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    """A model is there, whether or not this machine can build it: its bytes are not looked at."""
    if not resources.files("headrace.report").joinpath("live", live.MODEL).is_file():
        monkeypatch.setattr(live, "MODEL", "live.css")


def question_in(page: str) -> dict:
    [packed] = re.findall(r'id="whatif-question">([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b85decode(packed.replace(":", "<"))))


def test_a_page_carries_its_question_and_nothing_from_elsewhere(demand, model) -> None:
    plan, load = demand
    page = html.render_page(
        plan_report.build_plan_view(plan, charts=False), live.build_what_if(plan, load, PlanSettings())
    )
    question = question_in(page)
    assert question["choices"][0]["storage"] == plan.recommended.storage
    assert {choice["role"] for choice in question["choices"]} >= {"recommended", "today", "alternative"}
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page)
    # Modules were joined: what imports one from another fell away.
    assert not re.search(r"^(?:import|export) ", page, re.MULTILINE)


def test_a_page_with_its_model_is_below_a_megabyte(demand) -> None:
    """1,000,000 bytes with the charts, the model and the question (a bar of the page: one file of at most 1 MB)."""
    if not resources.files("headrace.report").joinpath("live", live.MODEL).is_file():
        pytest.skip("the model for browsers is not built here: Rust has no target wasm32-unknown-unknown")
    plan, load = demand
    page = html.render_page(plan_report.build_plan_view(plan), live.build_what_if(plan, load, PlanSettings()))
    assert len(page.encode()) <= 1_000_000


def test_bytes_become_letters_that_end_no_script() -> None:
    """Any bytes come back, however many are left over in the last group; the browser's half is in
    test_live_in_browser.py, which unpacks a question and a model."""
    for size in range(9):
        packed = bytes(range(250 - size, 250))
        letters = live.encode_letters(packed)
        assert "<" not in letters and base64.b85decode(letters.replace(":", "<")) == packed


def test_a_page_without_sliders_has_no_script(demand) -> None:
    assert "<script" not in html.render_page(plan_report.build_plan_view(demand[0], charts=False))


def test_the_same_plan_gives_the_same_page(demand, model) -> None:
    plan, load = demand
    pages = {
        html.render_page(
            plan_report.build_plan_view(plan, charts=False), live.build_what_if(plan, load, PlanSettings())
        )
        for _ in range(2)
    }
    assert len(pages) == 1


def test_the_page_asks_what_the_plan_was_judged_by(demand) -> None:
    plan, load = demand
    model = live.build_what_if(plan, load, PlanSettings())
    storages = [choice.storage for choice in model.choices]
    question = dict(model.question) | {"factor": plan.load.demand_growth, "storages": storages, "day_of": None}
    answer = read_answer(core.WhatIf().answer(json.dumps(question)))["demand"]["choices"]
    planned = {choice.storage: choice for choice in (plan.recommended, plan.choices.compared)}
    seen = 0
    for choice, now in zip(model.choices, answer, strict=True):
        if choice.storage in planned:
            metrics = planned[choice.storage].metrics
            assert now["summary"]["worst_p99_ms"] == metrics["p99_ms"]
            assert now["summary"]["throttled_s"] / 60 == metrics["throttled_min"]
            assert choice.rest_usd + choice.volumes_usd == pytest.approx(metrics["cost_usd_month"])
            seen += 1
    assert seen == 2


def test_a_database_has_clients_data_and_cache_to_move() -> None:
    load = read_database("sysbench-tpcc:warehouses=100,cache_gib=4,threads=16")
    plan = planner.plan(load, goals=["tps>=100"], instances=["r6i.large", "r6i.xlarge"], max_volumes=1, draws=4)
    model = live.build_what_if(plan, load, PlanSettings())
    assert [control.name for control in model.controls] == ["threads", "data_growth", "cache"]
    for control in model.controls:
        assert control.least <= control.value <= control.most


def test_prices_of_ones_own_are_refused(demand) -> None:
    plan, load = demand
    with pytest.raises(InputError, match="list prices alone"):
        live.build_what_if(plan, load, PlanSettings(price_file="mine.toml"))


def test_an_installation_without_the_model_says_so(demand, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, load = demand
    monkeypatch.setattr(live, "MODEL", "no-such-file")
    with pytest.raises(CouldNotRun, match="does not carry the model"):
        html.render_page(
            plan_report.build_plan_view(plan, charts=False), live.build_what_if(plan, load, PlanSettings())
        )
