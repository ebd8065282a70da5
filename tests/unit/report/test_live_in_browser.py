"""A plan's report that recomputes, in Debian's Chromium: from a file, without a network; skipped by name where Chromium,
playwright or the model for browsers is missing."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import pytest
import whatif_answers
from browsers import lacking, launched
from pages import violations

from headrace import planner
from headrace.base import core
from headrace.planner.settings import PlanSettings
from headrace.report import html, live
from headrace.report import plan as plan_report
from headrace.workload.files import load_demand

EXAMPLE = Path(__file__).parents[3] / "examples/innodb-tpcc-day.toml"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> live.WhatIf:
    load = load_demand(EXAMPLE)
    return live.build_what_if(planner.plan(load, compare="gp2:1200"), load, PlanSettings())


@pytest.fixture(scope="module")
def page(model: live.WhatIf, tmp_path_factory: pytest.TempPathFactory):
    if missing := lacking():
        pytest.skip(missing)
    if not resources.files("headrace.report").joinpath("live", live.MODEL).is_file():
        pytest.skip("the model for browsers is not built here: Rust has no target wasm32-unknown-unknown")
    plan = planner.plan(load_demand(EXAMPLE), compare="gp2:1200")
    path = tmp_path_factory.mktemp("live") / "plan.html"
    path.write_text(html.render_page(plan_report.build_plan_view(plan, charts=False), model))
    with launched() as browser:
        # axe, which a test puts into the page, is no script of the page's own.
        tab = browser.new_context(bypass_csp=True).new_page()
        tab.faults = []
        tab.on("pageerror", lambda error: tab.faults.append(str(error)))
        tab.on("request", lambda request: tab.faults.append(request.url) if request.url.startswith("http") else None)
        tab.goto(path.as_uri())
        tab.locator("#whatif table").wait_for(timeout=120_000)
        yield tab


def cells_of(page, storage: str) -> list[str]:
    row = page.locator("#whatif tbody tr").filter(has_text=storage).first
    return row.locator("td").all_inner_texts()


def test_the_first_figures_are_the_plans(page) -> None:
    # 37.4 min throttled, 410 ms: what the plan says of today's volume (tests/unit/planner).
    today = cells_of(page, "gp2:1200 (today)")
    assert today[1] == "120.00" and today[2] == "410 ms" and today[3] == "37.4 min"
    assert cells_of(page, "gp3:155:4500 (recommended)")[-1] == "meets every goal"


def test_a_moved_slider_shows_what_the_core_says(page, model: live.WhatIf) -> None:
    slider = page.locator("#whatif input[type=range]").first
    slider.evaluate("slider => { slider.value = Math.log(1.5); slider.dispatchEvent(new Event('input')); }")
    page.locator("#whatif output").first.filter(has_text="x 1.").wait_for()
    factor = page.evaluate("() => Math.exp(Number(document.querySelector('#whatif input[type=range]').value))")
    question = dict(model.question) | {"factor": factor, "storages": ["gp3:155:4500"], "day_of": None}
    [choice] = whatif_answers.read_answer(core.WhatIf().answer(json.dumps(question)))["demand"]["choices"]
    minutes = choice["summary"]["throttled_s"] / 60
    assert minutes > 10
    expected = f"{minutes:.0f} min" if minutes >= 100 else f"{minutes:.1f} min"
    page.locator("#whatif tbody tr").filter(has_text="(recommended)").filter(has_text=expected).wait_for(timeout=60_000)


def test_a_storage_that_does_not_exist_is_refused_in_place(page) -> None:
    box = page.locator("#whatif input[type=text]")
    box.fill("gp4:100<b>")
    page.locator("#whatif .warn").filter(has_text="is not a volume type").wait_for(timeout=60_000)
    box.fill("gp3:155:4500")
    page.locator("#whatif .cards").wait_for(timeout=60_000)


def test_nothing_is_asked_of_the_network_and_nothing_fails(page) -> None:
    assert page.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_barriers(page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    assert violations(page) == []
