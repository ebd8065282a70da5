"""Each view of the page in Debian's Chromium: its state stands in the address, the back button goes a step back, a reload shows the
same, the command line that gives the same is shown; every figure has its kind, whatever can be clicked can be reached by keyboard, and
nothing is cut off at 200 %; and axe finds nothing, light and dark, on a screen and on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from pages import violations
from places import ROOT
from samples import fleet_rows, proof
from test_replicas import MEMBERS, SilentLab, reading
from waiting import wait_until

from headrace.servers.topology import topology
from headrace.ui import replicas

STEADY = "new:reads_per_s=400,writes_per_s=300,size_gib=80"
TPCC = "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16"


def fill(label: str, text: str) -> Callable:
    """Types into a control, and leaves it."""

    def act(page) -> None:
        box = page.get_by_label(label, exact=True)
        box.fill(text)
        box.press("Tab")

    return act


def click(role, name: str) -> Callable:
    return lambda page: page.get_by_role(role, name=name).click()


def drop(path: str) -> Callable:
    return lambda page: page.locator("input[type=file]").first.set_input_files(path)


# View -> address, what stands there when it is complete, what changes it, what the address has then, and the command.
VIEWS = {
    "plan": (f"plan?w={STEADY}", ".frontier .point", fill("Data to hold", "90"), "size_gib=90", "--size-gib 90"),
    "database": (f"database?w={TPCC}&storage=gp3:100&seconds=60", ".density rect", fill("Notation", "gp3:200"), "storage=gp3%3A200", "--storage gp3:200"),
    "replicas": (f"replicas?w={TPCC}&storage=gp3:100&replica=gp3:100&seconds=60", ".tree", fill("Applier threads", "8"), "workers=8", "--workers 8"),
    "studies": ("studies?study=services-2020", ".points", click("link", "Queue length, I/O accounting, and the byte cap"), "study=queue-rule", "headrace study queue-rule"),
    "proofs": ("proofs", ".studies a", click("link", "shop, 2026-11-28: holds"), "proof=20261101-1", "headrace prove --show"),
    "doctor": ("doctor", ".drop", drop(str(ROOT / "examples/doctor/two-disks.txt")), "file=", "headrace doctor two-disks.txt"),
    "fleet": ("fleet", ".drop", drop("fleet.json"), "file=", "headrace fleet report"),
}  # fmt: skip


# Charts that name no kind, and a view whose head names none for all else (P8 of the page's figures).
WITHOUT_KIND = """() => {
  const kind = /published|simulated|measured/, charts = [...document.querySelectorAll("main figure")];
  const words = chart => `${chart.textContent} ${chart.closest("section")?.querySelector("h2")?.textContent ?? ""}`;
  const missing = charts.filter(chart => /\\d/.test(chart.textContent) && !kind.test(words(chart))).map(chart => chart.textContent.slice(0, 90));
  return kind.test(document.querySelector(".facts").textContent) ? missing : [...missing, "the view"];
}"""
# Elements that a pointer can click and a keyboard cannot reach, and controls that take no focus. The dots of a fleet are chosen in the
# table below them, too.
OUT_OF_REACH = """() => {
  const controls = "a[href], button, input, select, summary, [tabindex]", all = [...document.querySelectorAll("header *, main *")].filter(element => element.checkVisibility());
  const clicked = all.filter(element => getComputedStyle(element).cursor === "pointer" && !element.closest(`${controls}, label, .dots`));
  const deaf = all.filter(element => element.matches(controls) && !element.disabled && (element.focus(), document.activeElement !== element || element.tabIndex !== 0));
  return [...clicked, ...deaf].map(element => element.outerHTML.slice(0, 90));
}"""
# Movements that a reader who wants none would see.
MOVING = """() => [...document.getAnimations(), ...[...document.querySelectorAll("body *")].filter(element => getComputedStyle(element).transitionDuration !== "0s")].length"""
WIDTH_PX = 1400


def check_view(page) -> None:
    """A view as it stands, and at 200 %, which is a window of half as many pixels."""
    assert page.evaluate(WITHOUT_KIND) == []
    assert page.evaluate(OUT_OF_REACH) == []
    assert page.evaluate(MOVING) == 0
    if page.locator("main .panel").count():  # what a chart shows can be read
        page.locator("main details").evaluate_all("all => all.forEach(each => { each.open = true; })")
        page.locator("main table").first.wait_for(state="attached")
    page.set_viewport_size({"width": WIDTH_PX // 2, "height": 450})
    # Charts follow the window in a later frame.
    wait_until(
        lambda: page.evaluate("document.documentElement.scrollWidth") <= WIDTH_PX // 2,
        "nothing is wider than the window",
    )


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """A lab with replicas, a proof, and a fleet's answers, named before the window of a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path / "proofs"))
    (tmp_path / "proofs/20261101-1").mkdir(parents=True)
    (tmp_path / "proofs/20261101-1/proof.json").write_text(json.dumps(proof().to_dict()))
    (tmp_path / "fleet.json").write_text(json.dumps(fleet_rows(60)))
    monkeypatch.setattr(topology, "list_topology", lambda lab: MEMBERS)
    monkeypatch.setattr(replicas, "read_lag", lambda lab: [reading("r1", 0.25)])
    monkeypatch.setattr(replicas, "read_guarantee", lambda lab: (None, "db does not answer"))
    monkeypatch.setattr(
        "headrace.ui.live.find_target", lambda open_lab: str(ROOT / "examples/doctor/credits-gone.jsonl.gz")
    )


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_its_address(surroundings, visit, server, view):
    server.open_lab = SilentLab
    address, ready, change, part, command = VIEWS[view]
    page = visit(address, ready=ready)
    before = page.url
    change(page)
    page.locator(".copy pre", has_text=command).first.wait_for()
    assert part in page.url
    page.go_back()
    page.locator(ready).first.wait_for()
    assert page.url == before
    page.go_forward()
    page.locator(".copy pre", has_text=command).first.wait_for()
    page.reload()
    page.locator(".copy pre", has_text=command).first.wait_for()
    assert part in page.url and page.locator("h1").inner_text()
    check_view(page)


def test_what_is_typed_stays_while_answers_arrive(surroundings, visit, server):
    """A box in which a person types keeps the text when the view is drawn again, and gives it when it is left."""
    server.open_lab = SilentLab
    page = visit(f"replicas?w={TPCC}&storage=gp3:100&replica=gp3:100&seconds=60", ready=".tree")
    box = page.get_by_label("Applier threads", exact=True)
    box.fill("8")
    page.get_by_label("Clients, slider", exact=True).evaluate(
        "slider => { slider.value = 700; for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind, { bubbles: true })); }"
    )
    page.wait_for_url(re.compile("threads="))  # the view was drawn with other clients
    assert box.input_value() == "8"
    box.press("Tab")
    page.locator(".copy pre", has_text="--workers 8").first.wait_for()


@pytest.mark.parametrize(
    ("address", "ready", "file"),
    [("lab", ".volumes tbody tr", ""), ("doctor", ".panel canvas", str(ROOT / "examples/iostat.txt")), ("doctor", ".copy pre", "")],
    ids=["lab", "doctor", "doctor without a recording"],
)  # fmt: skip
@pytest.mark.parametrize("width", [1400, 400])
def test_lab_and_doctor_keep_nobody_out(surroundings, visit, address, ready, file, width):
    page = visit(address, width, ".bar", bypass_csp=True)
    if file:
        drop(file)(page)
    page.locator(ready).first.wait_for()
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if address == "lab":
        page.locator("details table").first.wait_for()  # what the charts show
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert violations(page) == [], scheme


def test_the_volumes_that_are_drawn_stand_in_the_address(surroundings, visit):
    page = visit("lab?drawn=none", ready=".volumes tbody tr")
    assert "drawn=none" in page.url and page.locator(".panel canvas").count() < 4  # of volumes, none is drawn
    check_view(page)
