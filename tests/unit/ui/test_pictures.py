"""The pictures of the page in README and docs are what the page looks like: taken here, and compared loosely.

`HEADRACE_PICTURES=1 pytest tests/unit/ui/test_pictures.py` writes them anew; look at each before you commit it."""

from __future__ import annotations

import base64
import json
import os
import re

import pytest
from places import ROOT
from samples import fleet_rows, proof
from test_replicas import MEMBERS, SilentLab, reading

from headrace.servers.failover.planning.members import Guarantee
from headrace.servers.topology import topology
from headrace.ui import replicas

FOLDER = ROOT / "docs/images"
MOST_BYTES = 150 * 1024
QUALITY = 70  # of WebP: text stays sharp, and a view has some 60 KiB
SIDE = 24  # squares a side in which two pictures are compared: a font of another machine changes none of them much
# Mean difference of a square's colour, of 255. Another font or the next version's figures change some 2; a view that lacks
# its chart, its cards or its stylesheet 15 and more.
ALIKE = 8.0
# Picture -> address, width, scheme, and what stands there when it is complete.
PICTURES = {
    "page-plan": ("plan?w=demo:day&compare=gp2:1200", 1400, "light", ".panel canvas"),
    "page-plan-phone": ("plan?w=demo:day&compare=gp2:1200", 400, "dark", ".panel canvas"),
    "page-fleet": ("fleet", 1400, "light", ".rows .all .row"),
    "page-replicas": ("replicas?w=sysbench-tpcc:warehouses=1000,cache_gib=25,threads=16&storage=gp3:500:6000&replica=gp3:500:3000", 1400, "dark", ".head .cards li:nth-child(3)"),
    "page-proof": ("proofs?proof=20261101-1", 400, "light", ".points"),
}  # fmt: skip
COMPARE = """async ([first, second, side]) => {
  const colours = async text => {
    const picture = new Image();
    picture.src = `data:image/webp;base64,${text}`;
    await picture.decode();
    const canvas = new OffscreenCanvas(side, side), context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, side, side);
    return { size: [picture.naturalWidth, picture.naturalHeight], values: [...context.getImageData(0, 0, side, side).data] };
  };
  const [picture, other] = [await colours(first), await colours(second)];
  return { sizes: [picture.size, other.size], difference: picture.values.reduce((sum, value, at) => sum + Math.abs(value - other.values[at]), 0) / (picture.values.length * 3 / 4) };
}"""


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_page_looks_like(name, visit, server, browser, tmp_path, monkeypatch):
    address, width, scheme, ready = PICTURES[name]
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path))
    (tmp_path / "20261101-1").mkdir()
    (tmp_path / "20261101-1/proof.json").write_text(json.dumps(proof().to_dict()))
    server.open_lab = SilentLab
    monkeypatch.setattr(topology, "list_topology", lambda lab: MEMBERS)
    monkeypatch.setattr(replicas, "read_lag", lambda lab: [reading("r1", 0.25), reading("r2", 1.8, "r1")])
    monkeypatch.setattr(
        replicas, "read_guarantee", lambda lab: (Guarantee("async", ("semi-sync is off on the source",)), "")
    )
    page = visit(address, width, ".bar", color_scheme=scheme)
    if name == "page-fleet":
        (tmp_path / "answers.json").write_text(json.dumps(fleet_rows(400)))
        page.locator("input[type=file]").first.set_input_files(tmp_path / "answers.json")
    page.locator(ready).first.wait_for()
    page.mouse.move(0, 0)
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})[
        "data"
    ]
    path = FOLDER / f"{name}.webp"
    if os.environ.get("HEADRACE_PICTURES"):
        path.write_bytes(base64.b64decode(taken))
    assert 5_000 < path.stat().st_size < MOST_BYTES
    blank = browser.new_page()
    compared = blank.evaluate(COMPARE, [base64.b64encode(path.read_bytes()).decode(), taken, SIDE])
    blank.close()
    assert compared["sizes"][0] == compared["sizes"][1] == [width, 900]
    assert compared["difference"] < ALIKE


def test_the_chart_of_a_day_is_current(call, tmp_path):
    """README's chart has the words and the colours that the command draws today."""
    path = FOLDER / "gp2-500-day.svg"
    written = path if os.environ.get("HEADRACE_PICTURES") else tmp_path / path.name
    code, _, err = call("simulate", "demo:day", "--storage", "gp2:500", "--report", str(written))
    assert code == 0, err
    parts = [sorted(re.findall(r">([^<>]+)</text>|(#[0-9A-Fa-f]{6})", file.read_text())) for file in (path, written)]
    assert parts[0] == parts[1] and parts[0]


def test_every_picture_is_shown_somewhere():
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    written = "".join(path.read_text() for path in texts)
    assert {path.stem for path in FOLDER.glob("page-*")} == set(PICTURES)
    assert all(f"images/{name}.webp" in written for name in PICTURES)
