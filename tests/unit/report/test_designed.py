"""Every report has one design: the answer, at most three figures, the picture, then what stands behind it; and nobody is kept
out of it, on a screen, a phone or paper. Seen in Debian's Chromium, where it is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
from browsers import lacking, launched
from pages import violations
from places import ROOT
from report_views import VIEWS

from headrace.report import html
from headrace.report.charts import style
from headrace.report.page_files import build_stylesheet
from headrace.report.view import Block, Chart, Fold, Items, Sentence, Table

LONGEST_TITLE = 130  # characters: two lines of a page, four of a phone
MOST_BEFORE = 3  # sentences above the picture


@pytest.fixture(scope="module")
def browser() -> Iterator:
    if missing := lacking():
        pytest.skip(missing)
    with launched() as program:
        yield program


def every(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from every(block.blocks)


def test_colours_and_sizes_stand_once():
    """page.css has the tokens; the page, moving reports and the documentation use their names, and the charts are drawn in the
    same three colours."""
    tokens = build_stylesheet().lower()
    assert all(f"--{role}: {hue.lower()};" in tokens for role, hue in style.ROLE_COLOURS.items())
    for name in ("python/headrace/ui/static/ui.css", "python/headrace/report/live/live.css", "packaging/site.css"):
        text = (ROOT / name).read_text()
        assert not re.findall(r"#[0-9a-f]{3,8}\b", text, re.IGNORECASE), name
        assert set(re.findall(r"var\((--[a-z-]+)\)", text)) <= set(re.findall(r"(--[a-z-]+):", tokens + text)), name


@pytest.mark.parametrize("name", VIEWS)
def test_a_report_answers_and_then_explains(name, tmp_path, browser):
    report = VIEWS[name](tmp_path)
    blocks = list(report.list_blocks("page"))
    assert 1 <= len(report.cards) <= 3 and len(report.title) <= LONGEST_TITLE and not report.title.endswith(".")
    charts = [at for at, block in enumerate(blocks) if isinstance(block, Chart)]
    above = blocks[: charts[0]]
    assert not any(isinstance(block, (Items, Table)) for block in above)
    assert sum(isinstance(block, Sentence) for block in above) <= MOST_BEFORE
    assert any(isinstance(block, Table) and block.rows for block in every(blocks)), "a chart is a table too"

    path = tmp_path / "report.html"
    html.write_view(path, report)
    # axe, which a test puts into the page, is no script of the page's own.
    context = browser.new_context(viewport={"width": 1400, "height": 900}, bypass_csp=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    for width in (1400, 400):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.locator("figure svg:visible").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().width)"
    )
    assert len(sizes) == len([block for block in every(blocks) if isinstance(block, Chart)]) and max(sizes) <= 376
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": 800, "height": 900})
    folded = page.locator("details > :not(summary)")
    assert page.locator(".phone:visible").count() == 0 and (not folded.count() or folded.first.is_visible())
    context.close()
