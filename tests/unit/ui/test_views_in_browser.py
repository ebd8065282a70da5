"""Fleet, replicas, proofs and changes of the lab in Debian's Chromium; the model of the browser; and what goes wrong."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import pytest
from pages import violations
from places import ROOT
from samples import fleet_rows, proof
from test_changes import RecordingLab
from test_replicas import MEMBERS, SilentLab, reading
from waiting import patience

from headrace.errors import CouldNotRun, InputError
from headrace.report import words
from headrace.servers.failover.planning.members import Guarantee
from headrace.servers.topology import topology
from headrace.ui import replicas
from headrace.ui.server import MODEL_ADDRESS, PageServer, read_static_files

STEADY = "new:reads_per_s=400,writes_per_s=300,size_gib=80"
REPLICA = "replicas?w=sysbench-tpcc:warehouses=100,cache_gib=4,threads=16&storage=gp3:100&replica=gp3:100&seconds=120"
# Times and shares in each of the forms that they are written in, and what is rounded to an even number.
SPANS_S = [0, 0.0123, 0.9, 1, 4.27, 59, 61.5, 119, 120, 150, 600, 7_199, 7_260, 23_400, 172_000, 172_800, 400_000]
SHARES = [0, 0.00005, 0.0054, 0.125, 0.37, 0.995, 0.99999, 1]
MARKUP = '<img src=x onerror="document.title=1">'
has_model = pytest.mark.skipif(
    MODEL_ADDRESS not in read_static_files(), reason="the model for browsers is not built: make model"
)


@pytest.fixture
def fleet(visit, tmp_path):
    """Opens a fleet of so many devices by dropping its file."""

    def open_fleet(rows: list[dict], **more):
        (tmp_path / "fleet.json").write_text(json.dumps(rows))
        page = visit("fleet", ready=".drop", **more)
        page.locator("input[type=file]").first.set_input_files(tmp_path / "fleet.json")
        page.locator("[role=grid]").wait_for()
        return page

    return open_fleet


def test_ten_thousand_devices_are_sorted_filtered_and_reached_by_keyboard(fleet):
    rows = fleet_rows(10_000)
    page = fleet(rows)
    grid, cells = page.get_by_role("grid"), page.locator(".rows .all .row")
    assert grid.get_attribute("aria-rowcount") == "10001" and cells.count() < 40  # those in sight alone are drawn
    assert page.locator(".dots svg *").count() < 40  # a thousand dots are two elements
    page.get_by_role("button", name="saves").click()
    page.locator("[aria-sort=descending]").wait_for()
    best = max(50.0 if row["verdict"] == "unused" else 50.0 - row.get("usd_proposed", 50.0) for row in rows)
    assert cells.first.locator("span").nth(6).inner_text() == f"{best:.2f}" and "sort=-saves_usd" in page.url
    grid.focus()
    page.keyboard.press("End")
    page.locator(".row.active[aria-rowindex='10001']").wait_for()
    page.keyboard.press("Space")
    page.locator(".row.active[aria-selected=true]").wait_for()
    assert "1 chosen" in page.get_by_role("status").inner_text()
    page.get_by_label("Answer").select_option("grow")
    page.get_by_label("Words in id").fill("db 99")
    texts = [f"{row['key']} {row['name']} {row['today']}" for row in rows if row["verdict"] == "grow"]
    expected = sum("db" in text and "99" in text for text in texts)
    page.get_by_role("status").filter(has_text=re.compile(rf"^{expected} of 10,000")).wait_for()
    assert "verdict=grow" in page.url and "find=db+99" in page.url
    page.reload()  # the file is remembered by the server, the filters by the address
    page.get_by_role("status").filter(has_text=re.compile(rf"^{expected} of 10,000")).wait_for()


def test_what_is_chosen_becomes_a_script(fleet):
    rows = fleet_rows(3)
    for row, today in zip(rows, ("gp2:1000", "io1:400:8000", "gp2:1000"), strict=True):
        row |= {"verdict": "change", "today": today, "proposed": today.replace("gp2", "gp3").replace("io1:400:8000", "gp3:400:3700"),
                "usd_today": 100.0, "usd_proposed": 80.0, "risk": 0.0}  # fmt: skip
    for number, row in enumerate(rows):  # the volumes of examples/fleet
        row |= {"key": f"vol-{number:017d}", "volumes": [f"vol-{number:017d}"]}
    page = fleet(rows[:2])
    page.locator(".rows .all .row").first.click()
    page.locator("section input[type=file]").set_input_files(ROOT / "examples/fleet/volumes.json")
    page.get_by_role("button", name="Write the script").click()
    page.locator(".script pre", has_text="change vol-00000000000000000").first.wait_for()
    assert "vol-00000000000000001" not in page.locator(".script pre").first.inner_text()
    assert "--inventory volumes.json --patch changes" in page.locator(".copy pre").nth(2).inner_text()


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_any_number_of_devices_is_shown(fleet, count):
    rows = fleet_rows(count)
    if count == 1:
        rows[0] |= {
            "name": MARKUP + "\u202e" + "x" * 10_000,
            "why": MARKUP,
            "verdict": "change",
            "risk": None,
            "proposed_p99_ms": None,
        }
    page = fleet(rows)
    assert page.get_by_role("grid").get_attribute("aria-rowcount") == str(count + 1)
    assert page.locator(".rows .all .row").count() == min(count, page.locator(".rows .all .row").count())
    assert page.title() == "Fleet - Headrace" and page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


def test_a_file_of_512_mib_is_not_even_read(visit, tmp_path):
    with (tmp_path / "large.parquet").open("wb") as file:
        file.truncate(512 << 20)
    for address in ("fleet", "proofs"):
        page = visit(address, ready=".drop")
        page.locator("input[type=file]").set_input_files(tmp_path / "large.parquet")
        page.get_by_role("alert").filter(has_text="512 MiB").wait_for()
        assert "headrace fleet report" in page.get_by_role("alert").inner_text()


def test_a_written_plan_is_opened(visit, tmp_path, call):
    """The JSON of `headrace plan`, dropped into two views; then what is damaged and what is newer."""
    code, out, err = call("plan", "demo:day", "--compare", "gp2:1200", "--output", "json")
    assert code == 0, err
    file = tmp_path / "plan.json"
    file.write_text(out)
    page = visit("plan?w=" + STEADY)
    page.locator("input[type=file]").first.set_input_files(file)
    page.locator("h1", has_text="meets every goal of innodb-tpcc-day").wait_for()
    assert (
        "file=" in page.url and page.locator(".cards li").count() == 3 and page.locator(".frontier .point").count() > 5
    )
    assert "plan.json is shown as it was written" in page.locator(".side").inner_text()
    page.reload()
    page.locator("h1", has_text="meets every goal of innodb-tpcc-day").wait_for()
    page.locator(".workload select").select_option("demo:day")
    page.locator(".copy pre", has_text="headrace plan demo:day").wait_for()
    assert "file=" not in page.url
    page.get_by_role("link", name="Fleet", exact=True).click()
    for content, rule in (
        (out.replace("headrace-plan/3", "headrace-plan/4"), "newer Headrace"),
        (out.replace('"winners"', '"losers"'), "is damaged"),
        (out[: len(out) // 2], "is not JSON"),
    ):
        file.write_text(content)
        page.locator("input[type=file]").first.set_input_files(file)
        page.get_by_role("alert").filter(has_text=rule).wait_for()
    file.write_text(out)
    page.locator("input[type=file]").first.set_input_files(file)
    page.locator("h1", has_text="meets every goal of innodb-tpcc-day").wait_for()


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path))
    (tmp_path / "20261101-1").mkdir()
    (tmp_path / "20261101-1/proof.json").write_text(json.dumps(proof().to_dict()))
    return tmp_path


def test_a_proof_shows_both_figures(visit, store):
    page = visit("proofs", ready=".studies a")
    page.get_by_role("link", name="shop, 2026-11-28: holds").click()
    page.locator(".points g.simulated").wait_for()
    assert page.locator(".points g.measured rect").count() == 1 and page.locator(".panel canvas").count() == 2
    assert "proof=20261101-1" in page.url and "headrace prove --show" in page.locator(".copy pre").first.inner_text()
    page.go_back()
    page.locator("h1", has_text="Was the prediction right?").wait_for()
    page.locator("input[type=file]").set_input_files(store / "20261101-1/proof.json")
    page.locator(".sub", has_text="Proof 20261128").wait_for()


def test_replicas_are_predicted_and_measured(monkeypatch, visit, server):
    server.open_lab = SilentLab
    monkeypatch.setattr(topology, "list_topology", lambda lab: MEMBERS)
    monkeypatch.setattr(replicas, "read_lag", lambda lab: [reading("r1", 0.25)])
    monkeypatch.setattr(
        replicas, "read_guarantee", lambda lab: (Guarantee("async", ("semi-sync is off on the source",)), "")
    )
    page = visit(REPLICA, ready=".tree")
    page.locator("h1", has_text="A replica on gp3 of 100 GiB").wait_for()
    assert page.locator(".tree rect").count() == 4 and "r1 follows db, 0.25 s behind" in page.locator(
        ".tree svg"
    ).get_attribute("aria-label")
    page.locator(".copy pre", has_text="--replica gp3:100").first.wait_for()
    workers = page.get_by_role("spinbutton", name="Applier threads")
    workers.fill("8")
    workers.press("Tab")
    page.locator(".copy pre", has_text="--workers 8").wait_for()
    assert "workers=8" in page.url


@pytest.fixture
def patched_replicas(monkeypatch):
    """Named before the window of a test, it lasts until that is closed: the view looks again and again."""
    monkeypatch.setattr(topology, "list_topology", lambda lab: MEMBERS)
    monkeypatch.setattr(replicas, "read_lag", lambda lab: [reading("r1", 0.25)])
    monkeypatch.setattr(replicas, "read_guarantee", lambda lab: (None, "db does not answer"))


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize(
    ("address", "ready"),
    [("fleet", ".drop"), ("proofs?proof=20261101-1", ".points"), (REPLICA, ".tree")],
    ids=["fleet", "proof", "replicas"],
)
def test_the_new_views_keep_nobody_out(patched_replicas, visit, server, store, tmp_path, address, ready, width):
    server.open_lab = SilentLab
    page = visit(address, width, ready, bypass_csp=True)
    if address == "fleet":
        (tmp_path / "fleet.json").write_text(json.dumps(fleet_rows(200)))
        page.locator("input[type=file]").first.set_input_files(tmp_path / "fleet.json")
        page.locator("[role=grid]").wait_for()
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert violations(page) == [], scheme


@pytest.mark.parametrize(
    ("address", "words"),
    [("fleet", "headrace fleet plan"), ("proofs", "prove plan.json"), ("replicas", "replica up r1 --of db")],
)
def test_an_empty_view_says_what_to_run(visit, server, tmp_path, monkeypatch, address, words):
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path / "none"))
    server.open_lab = no_lab
    page = visit(address, ready=".copy pre")
    page.locator(".copy pre", has_text=words).first.wait_for()


def no_lab():
    raise InputError("the lab", "does not answer", "", "headrace lab up starts one.")


@pytest.fixture
def changing() -> Iterator[tuple[PageServer, RecordingLab]]:
    lab = RecordingLab()
    page = PageServer(open_lab=lambda: lab, allow_changes=True)
    page.streams.open_lab = no_lab
    thread = threading.Thread(target=page.run)
    thread.start()
    yield page, lab
    page.stop()
    thread.join(30)


def test_a_change_is_shown_with_its_command_and_confirmed(browser, changing):
    server, lab = changing
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{server.port}/lab#token={server.keys.token}")
    page.locator(".change select").first.select_option("fault")
    page.get_by_label("Volume", exact=True).fill("db")
    page.get_by_role("button", name="Begin a fault …").click()
    dialog = page.get_by_role("dialog")
    dialog.locator("pre", has_text="headrace volume fault db pause").wait_for()
    assert violations(page) == [] and lab.calls == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert lab.calls == []
    page.get_by_role("button", name="Begin a fault …").click()
    dialog.get_by_role("button", name="Begin a fault").click()
    page.get_by_role("status").filter(has_text="Done: headrace volume fault db pause").wait_for()
    assert lab.calls == [("fault", "db", "pause", {})]
    context.close()


@has_model
def test_the_browsers_model_answers_what_the_server_answers(visit, server):
    """The day of the page, computed in its worker, has the figures that the server has of the same question."""
    page = visit(f"plan?w={STEADY}&compare=gp2:100", ready="footer[data-engine=browser]")
    page.locator(".panel canvas").first.wait_for()
    requests = []
    page.on("request", lambda request: requests.append(request.url) if "/api/whatif" in request.url else None)
    answers = page.evaluate(
        """async workload => {
          const engine = await import("/static/engine.js"), asking = await import("/static/asking.js"), { readAnswers } = await import("/static/model.js");
          const choices = [{ role: "today", storage: "gp2:100" }, { role: "tried", storage: "gp3:200:4000" }], question = { workload, choices, growth: 1.7, as_of: null, region: null, start_balance_percent: null };
          const plain = part => ({ ...part, columns: Object.fromEntries(Object.entries(part.columns).map(([name, values]) => [name, Array.from(values, value => Number.isNaN(value) ? null : value)])) });
          const about = await asking.ask("/api/load", { workload });
          const questions = choices.map(({ storage }) => ({ ask: "demand", factor: 1.7, storages: [storage], instance: null, as_of: null, region: "us-east-1", start_balance_percent: null, day_of: 0, row_s: about.row_s }));
          return [engine.engineName(), (await engine.askDays(question)).runs.map(plain), readAnswers(await asking.ask("/api/whatif", { workload, questions })).map(plain)];
        }""",
        STEADY,
    )
    name, runs, server_answers = answers
    assert name == "browser" and len(requests) == 1  # the page's own question asked nobody
    for run, answer in zip(runs, server_answers, strict=True):
        assert run["columns"] == answer["columns"] and len(run["columns"]["iops"]) > 1
        assert run["summary"] == answer["demand"]["choices"][0]["summary"]


@has_model
@pytest.mark.parametrize("view", ["database", "replicas"])
def test_a_run_follows_a_slider_without_the_server(visit, view):
    """While a slider moves, title, cards and charts are of the browser's model, and a chart says that it is coarse; once it rests, the
    server's sentences have the same figures."""
    tpcc = "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16"
    page = visit(
        f"{view}?w={tpcc}&storage=gp3:100:4000&seconds=720" + ("&replica=gp3:100" if view == "replicas" else ""),
        ready="footer[data-engine=browser]",
    )
    page.locator(".copy pre").first.wait_for()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    page.route("**/api/run", lambda route: None)  # the server never answers
    page.route("**/api/replica", lambda route: None)
    title = page.locator("h1").inner_text()
    slider = page.get_by_role("slider", name="Clients, slider")
    slider.focus()
    for _ in range(30):
        slider.press("ArrowRight")
    page.locator("h1").filter(has_not_text=title).wait_for()
    assert "whatif" not in requests and "database" not in requests
    page.evaluate(COARSE, 1_000 * patience())
    page.locator(".plot[data-coarse]").first.wait_for(state="detached")
    page.evaluate(ANSWERED, STEADY)
    card = page.locator(".cards .figure").first.inner_text()
    page.unroute("**/api/run")
    page.unroute("**/api/replica")
    moved = page.locator("h1").inner_text()
    slider.press("ArrowLeft")
    slider.press("ArrowRight")
    page.locator(".copy pre", has_text="--threads").first.wait_for()
    assert page.locator("h1").inner_text() == moved
    assert page.locator(".cards .figure").first.inner_text() == card


# Moves the slider on until a chart says that it is coarse, which it does from the second picture within a moment on.
COARSE = """async most_ms => {
  const slider = document.activeElement, began = performance.now(), before = slider.value, word = chart => getComputedStyle(chart, "::after").content;
  for (let at = 0; !document.querySelector(".plot[data-coarse]"); at++) {
    if (performance.now() - began > most_ms) throw new Error("no chart was coarse");
    slider.value = Number(before) - 20 + at % 20; slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
  }
  if (!word(document.querySelector(".plot[data-coarse]")).includes("coarse")) throw new Error("the chart does not say so");
  slider.value = before; slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""

# Waits until the model has answered what the page asked it before. It answers in order, each subject's newest question; the page asks
# the newest of a slider once the one before is answered.
ANSWERED = """async workload => {
  const { askDays } = await import("/static/engine.js");
  for (let turn = 0; turn < 3; turn++) await askDays({ workload, choices: [{ role: "tried", storage: `gp3:${100 + turn}` }], growth: 1, as_of: null, region: null, start_balance_percent: null });
}"""

# Counts what crosses to and from the model's worker.
COUNTED = """(() => {
  const counts = window.counts = { sent: [], bytes: 0, texts: 0 }, Plain = Worker;
  window.Worker = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => { for (const part of data.answers ?? []) if (part instanceof ArrayBuffer) counts.bytes += part.byteLength; else counts.texts++; });
    }
    postMessage(message, ...more) { counts.sent.push(...(message.questions ?? [])); return super.postMessage(message, ...more); }
  };
})()"""


@has_model
def test_a_burst_of_movements_is_two_questions_and_no_text(visit):
    """The first movement is asked, and of all that come while it is answered, the last alone. The workload is sent once, and
    answers come back as bytes, which are moved and not copied: 60 seconds of 10 numbers and a head."""
    page = visit("studies?study=services-2020", ready=".points", bypass_csp=True)
    page.add_init_script(COUNTED)
    page.goto(page.url.partition("/studies")[0] + "/" + REPLICA.replace("replicas", "database").replace("=120", "=60"))
    page.locator("footer[data-engine=browser]").wait_for()
    page.locator(".copy pre").first.wait_for()
    move = """clients => { const slider = [...document.querySelectorAll("input[type=range]")].find(input => input.ariaLabel === "Clients, slider");
      for (const position of clients) { slider.value = position; slider.dispatchEvent(new Event("input", { bubbles: true })); } }"""
    for positions in (range(500, 530), range(700, 730)):
        page.evaluate("counts => { window.counts.sent = []; window.counts.bytes = 0; }")
        title = page.locator("h1").inner_text()
        page.evaluate(move, list(positions))
        page.locator("h1").filter(has_not_text=title).wait_for()
        page.locator(".copy pre", has_text="--threads").first.wait_for()
        counts = page.evaluate("window.counts")
        assert len(counts["sent"]) == 2 and counts["texts"] == 0
        assert counts["bytes"] < 2 * (60 * 10 * 8 + 1_000)
    assert not any('"database":{' in question for question in counts["sent"])


@pytest.mark.parametrize("broken", ["WebAssembly", "Worker"])
def test_without_webassembly_the_server_answers(browser, server, broken):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.add_init_script(f"delete globalThis.{broken};")
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"http://127.0.0.1:{server.port}/plan?w={STEADY}#token={server.keys.token}")
    page.locator(".panel canvas").first.wait_for()
    assert page.locator("footer").get_attribute("data-engine") == "server" and not faults
    context.close()


def test_two_tabs_ask_their_own_questions(visit):
    first, second = visit(f"plan?w={STEADY}&growth=2"), visit(f"plan?w={STEADY}")
    assert "--growth 2" in first.locator(".copy pre").first.inner_text()
    assert "--growth" not in second.locator(".copy pre").first.inner_text()
    growth = second.get_by_role("spinbutton", name="Growth", exact=True)
    growth.fill("3")
    growth.press("Tab")
    second.locator(".copy pre", has_text="--growth 3").wait_for()
    assert "--growth 2" in first.locator(".copy pre").first.inner_text()


def test_an_address_of_an_older_page_is_read_as_far_as_it_goes(visit):
    # A refused question is not asked again: the view rests as soon as it shows why.
    page = visit(f"plan?w={STEADY}&growth=many&retired=7", ready="main[aria-busy=false] [role=alert]")
    assert "retired" not in page.url
    page = visit("studies?study=", ready=".studies a")
    assert "study=" in page.url


def test_another_version_of_the_page_is_refused_in_words(visit, server):
    """Questions of an older page that this server does not know are refused in words, and the page
    goes on; what both write of times and shares is the same."""
    page = visit(f"plan?w={STEADY}")
    answer = page.evaluate(
        """async () => { const { ask } = await import("/static/asking.js"); return await ask("/api/run", { workload: "x", storage: "gp3:1", cache: 3 }).catch(refusal => refusal); }"""
    )
    assert answer["status"] == 400 and "cache" in answer["rule"]
    texts = page.evaluate(
        """async ([spans, shares]) => { const { percent, span } = await import("/static/figures.js"); return [spans.map(span), shares.map(percent)]; }""",
        [SPANS_S, SHARES],
    )
    assert texts == [[words.format_span(value) for value in SPANS_S], [words.format_percent(value) for value in SHARES]]


def test_a_daemon_of_another_version_is_named(visit, server):
    def open_lab():
        raise CouldNotRun(
            "/run/headrace/lab.sock: volume.list", "answered what is no answer", "docs/reference/lab-protocol.md", "Is it headraced, and of the same version?"
        )  # fmt: skip

    server.streams.open_lab = server.open_lab = open_lab
    page = visit("lab", ready="[role=alert]")
    assert "of the same version?" in page.get_by_role("alert").inner_text()
    page.get_by_role("link", name="Replicas", exact=True).click()
    page.get_by_role("alert").filter(has_text="of the same version?").wait_for()


def test_a_tab_that_slept_goes_on(visit, monkeypatch):
    """Chromium freezes a tab that nobody looks at: its scripts stand still, and go on where they were."""
    monkeypatch.setattr(
        "headrace.ui.live.find_target", lambda open_lab: str(ROOT / "examples/doctor/credits-gone.jsonl.gz")
    )
    page = visit("lab")
    session = page.context.new_cdp_session(page)
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    session.send("Page.setWebLifecycleState", {"state": "active"})
    page.locator("h1", has_text="credits gone").wait_for()
    page.get_by_role("link", name="Studies", exact=True).click()
    page.locator(".points").first.wait_for()


def test_figures_that_are_none_leave_a_gap_in_a_chart(visit):
    """JSON has no NaN: the server sends null, in lines and in points, and a chart of nothing else is not drawn."""

    def answer(route) -> None:
        reply = route.fetch()
        body = reply.json()
        charts = [panel for chart in body["charts"] for panel in chart.get("panels") or [chart]]
        for chart in charts:
            for series in chart["series"]:
                series["y"] = [None] * len(series["y"])
        charts[0]["series"][0]["y"][0] = 1e300
        route.fulfill(response=reply, body=json.dumps(body))

    page = visit("fleet", ready=".drop")
    page.route("**/api/study", answer)
    page.goto(page.url.partition("/fleet")[0] + "/studies?study=services-2020")
    page.locator(".points").first.wait_for()
    assert page.locator(".points").count() == 1 and "NaN" not in page.locator("main").inner_html()
