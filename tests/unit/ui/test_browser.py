"""The page in Debian's Chromium: what is seen at 1400 and 400 px, light and dark, by pointer, keyboard and address.

Locators are waited for, never `wait_for_function`: it evaluates a text, which the page's policy forbids. axe is put into a
context of its own that ignores the policy."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from pages import violations
from places import ROOT

from headrace.lab import Lab

PLAN = "plan?w=demo:day&compare=gp2:1200"
STEADY = "new:reads_per_s=400,writes_per_s=300,size_gib=80"  # planned in less time than the recorded day
QUICK = f"plan?w={STEADY}&compare=gp2:100"
STUDY = "studies?study=services-2020"  # the quickest
DATABASE = "database?w=sysbench-tpcc:warehouses=100,cache_gib=4,threads=16&storage=gp3:100&seconds=120"
MARKUP = '<img src=x onerror="document.title=1">\u202e' + "x" * 10_000


def test_the_plan_answers_at_once_and_follows(visit, server):
    page = visit(PLAN)
    assert "token" not in page.url and "meets every goal of innodb-tpcc-day" in page.locator("h1").inner_text()
    assert page.locator(".cards li").count() == 3
    page.locator(".panel canvas").nth(1).wait_for()
    assert "headrace plan demo:day --compare gp2:1200" in page.locator(".copy pre").first.inner_text()
    growth = page.get_by_role("spinbutton", name="Growth", exact=True)
    growth.fill("7")
    growth.press("Tab")  # a plan that is not waited for: the next one calls it off
    growth.fill("2")
    growth.press("Tab")
    page.locator(".copy pre", has_text="--growth 2").wait_for()
    assert page.get_by_role("alert").count() == 0 and page.locator("main[aria-busy=true]").count() == 0
    assert "growth=2" in page.url
    page.go_back()
    page.go_back()
    page.locator("h1", has_text="19.90 USD").wait_for()
    assert "growth" not in page.url


def test_a_view_that_is_left_is_there_again(visit):
    page = visit(QUICK)
    page.get_by_role("link", name="Database", exact=True).click()
    page.locator("h1", has_text="transactions a second").wait_for()
    page.go_back()
    page.locator("h1", has_text="meets every goal").wait_for()
    page.locator(".panel canvas").first.wait_for()
    page.go_forward()
    page.locator("h1", has_text="transactions a second").wait_for()


def test_a_candidate_is_tried_by_a_click(visit):
    page = visit(QUICK)
    page.locator(".point.misses .catch").first.click(force=True)
    page.locator(".legend", has_text="tried").first.wait_for()
    assert "storage=" in page.url
    tried, chart = page.url, page.locator(".frontier [role=slider]")
    chart.press("End")  # the dearest, and by keyboard
    page.locator(".frontier [aria-valuetext*=USD]").wait_for()
    storage = (chart.get_attribute("aria-valuetext") or "").partition(": ")[0]
    chart.press("Enter")
    page.wait_for_url(lambda url: url != tried)
    assert f"storage={quote(storage, safe='')}" in page.url


def test_a_database_is_run_and_refusals_are_said(visit):
    page = visit(DATABASE)
    assert "transactions a second on gp3 of 100" in page.locator("h1").inner_text()
    assert page.locator(".panel canvas").count() >= 3 and page.locator(".density rect").count() > 10
    notation = page.get_by_label("Notation")
    notation.fill("gp3:1:9")
    notation.press("Tab")
    page.get_by_role("alert").wait_for()
    assert "gp3" in page.get_by_role("alert").inner_text()


@pytest.fixture
def changing_network(browser, monkeypatch):
    """The first request of a window for its address, and the next one for its program, are dropped, as Chromium does
    when an interface of the machine comes or goes; `visit` opens the address again."""
    new_context = browser.new_context

    def open_context(**settings):
        context = new_context(**settings)
        for address in ("**/studies?*", "**/static/main.js"):
            context.route(address, lambda route: route.abort("internetdisconnected"), times=1)
        return context

    monkeypatch.setattr(browser, "new_context", open_context)


@pytest.mark.usefixtures("changing_network")
def test_a_study_shows_both_figures(visit):
    page = visit(STUDY, ready=".points")
    assert page.locator(".points g.published").count() and page.locator(".points g.simulated").count()
    assert "headrace study services-2020" in page.locator(".copy pre").first.inner_text()
    page.get_by_role("link", name="Plan", exact=True).click()
    page.locator("h1", has_text="meets every goal").wait_for()


def test_a_file_is_dropped_in(visit, tmp_path):
    page = visit(QUICK)
    page.locator("input[type=file]").set_input_files(ROOT / "examples/innodb-tpcc-day.toml")
    page.locator(".copy pre", has_text="headrace plan innodb-tpcc-day.toml").wait_for()
    (tmp_path / "large.txt").write_bytes(b"x" * ((1 << 20) + 1))
    page.locator("input[type=file]").set_input_files(tmp_path / "large.txt")
    page.get_by_role("alert").wait_for()
    assert "headrace workload import" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize(
    ("address", "width", "ready"),
    [
        (QUICK, 1400, ".panel canvas"),
        (QUICK, 400, ".panel canvas"),
        (DATABASE, 1400, ".panel canvas"),
        (STUDY, 400, ".points"),
    ],
    ids=["plan", "plan on a phone", "database", "study on a phone"],
)
def test_nothing_keeps_anybody_out(visit, address, width, ready):
    page = visit(address, width, ready, bypass_csp=True)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert violations(page) == [], scheme


def test_the_keyboard_reaches_every_control(visit):
    page = visit(DATABASE)
    stops = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        stops.add(
            page.evaluate(
                "document.activeElement.ariaLabel || document.activeElement.textContent.slice(0, 30) || document.activeElement.tagName"
            )
        )
    assert {"Size", "Size, slider", "Clients", "Plan"} <= stops


def test_a_stranger_is_told_what_to_run(browser, server):
    page = browser.new_context().new_page()
    page.goto(f"http://127.0.0.1:{server.port}/plan")
    page.get_by_role("alert").wait_for()
    assert "headrace page" in page.get_by_role("alert").inner_text()
    page.context.close()


def test_a_browser_without_modules_or_scripts_is_told_what_to_run(browser, server):
    """A browser that knows no ES modules passes them by; the other runs no script at all."""

    def pass_by(route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, body=reply.text().replace('type="module"', 'type="unknown"'))

    for able, place, words in (
        (True, "#app", "This browser cannot run the page"),
        (False, "noscript", "This page needs JavaScript"),
    ):
        context = browser.new_context(java_script_enabled=able)
        context.route("**/plan", pass_by)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/plan")
        page.locator(f"{place} p").filter(visible=True).wait_for()
        text = page.locator(f"{place} p").text_content() or ""
        assert words in text and "headrace plan --help" in text
        context.close()


@pytest.mark.parametrize("rows", [0, 1, 10_000])
def test_whatever_is_answered_can_be_shown(visit, rows):
    """An answer with names of markup, figures that are none, and any number of rows."""

    def answer(route) -> None:
        reply = route.fetch()
        body = reply.json()
        body["view"]["title"] = MARKUP
        body["view"]["blocks"] = [
            {
                "block": "Table",
                "title": MARKUP,
                "columns": [{"title": "a", "kind": "key", "brief": False}],
                "rows": [[MARKUP[:40]]] * rows,
                "marked": None,
            }
        ]
        body["result"]["choices"]["frontier"] = [
            point | {"p99_ms": None, "storage": MARKUP} for point in body["result"]["choices"]["frontier"]
        ][:rows]
        route.fulfill(response=reply, body=json.dumps(body))

    page = visit("database", ready=".brand")
    page.route("**/api/plan", answer)
    page.goto(page.url.partition("/database")[0] + "/plan" + f"?w={STEADY}&growth=1.01")
    page.locator("h1", has_text="<img").wait_for()
    assert page.title() == "Plan - Headrace" and page.locator("main img").count() == 0
    assert "\u202e" not in page.locator("main").inner_text()  # it would turn the sentence after the name
    assert page.locator("tbody tr td.whole").count() == min(rows, 100)
    if rows > 100:
        page.get_by_role("button", name="Show all 10,000 rows").click()
        page.locator("tbody tr td.whole").nth(9_999).wait_for(state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


RECORDED = ROOT / "examples/doctor/credits-gone.jsonl.gz"


# Seconds of a lab as its stream tells them: some; the same again after the stream was lost; a day later, when a tab woke up; and after
# the clock was set back by a minute. Then seconds with a silence, which is a gap.
MOMENTS = """async () => {
  const { overDay, take } = await import("/static/lab.js"), lab = { moments: [] }, times = () => lab.moments.map(moment => moment.t_unix);
  const tell = seconds => { for (const t_unix of seconds) take(lab, { t_unix, grain_s: 1, volumes: [] }); return times(); };
  tell([100, 101]); lab.newest = -Infinity;
  const taken = tell([100, 101, 102]), asleep = tell([86500, 86501]), set_back = tell([86450, 86451]);
  const rows = overDay([0, 1, 2, 30].map(t_unix => ({ t_unix, grain_s: 1 }))).rows.map(row => row !== null);
  return { taken, asleep, set_back, rows };
}"""


def test_the_lab_is_followed(visit, monkeypatch):
    """A recording of the lab stands for a lab: it is read by the same function, and ends; what is asked again is not drawn twice."""
    monkeypatch.setattr("headrace.ui.live.find_target", lambda open_lab: str(RECORDED))
    page = visit("lab", ready=".cards", bypass_csp=True)
    page.locator("h1", has_text="p16-data, credits gone").wait_for()
    assert page.locator(".panel canvas").count() == 4
    assert page.locator("tbody tr").count() == 1 and "gp2:10" in page.locator("tbody").inner_text()
    assert "measured" in page.locator("main").inner_text()
    assert page.evaluate(MOMENTS) == {
        "taken": [100, 101, 102],
        "asleep": [86_500, 86_501],
        "set_back": [86_450, 86_451],
        "rows": [True, True, True, False, True],
    }
    assert violations(page) == []


def test_without_a_lab_it_says_what_to_run(visit, server, tmp_path):
    server.streams.open_lab = lambda: Lab(tmp_path)
    page = visit("lab", ready="[role=alert]")
    assert "headrace lab up" in page.locator("main").inner_text()


def test_a_recording_is_judged(visit, tmp_path):
    page = visit("doctor", ready=".drop")
    page.locator("input[type=file]").set_input_files(ROOT / "examples/iostat.txt")
    page.locator("h1", has_text="an I/O of nvme1n1 took").wait_for()
    storage = page.get_by_label("Today's storage")
    storage.fill("gp2:1200")
    storage.press("Tab")
    page.locator("h1", has_text="the volume's IOPS bound nvme1n1").wait_for()
    assert page.locator(".panel canvas").count() == 2
    assert "headrace doctor iostat.txt --storage gp2:1200" in page.locator(".copy pre").last.inner_text()
    assert "storage=gp2" in page.url
    page.go_back()  # the recording is remembered, and the storage was named later
    page.locator("h1", has_text="an I/O of nvme1n1 took").wait_for()
    page.go_forward()
    page.reload()
    page.locator("h1", has_text="the volume's IOPS bound nvme1n1").wait_for()
    (tmp_path / "none.txt").write_text("no recording")
    page.locator("input[type=file]").set_input_files(tmp_path / "none.txt")
    page.get_by_role("alert").wait_for()
