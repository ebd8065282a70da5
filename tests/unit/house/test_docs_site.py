"""The documentation site: what is written for MkDocs, and where its links lead. `make docs` builds it, and checks all of them."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import pytest
from places import ROOT

_spec = importlib.util.spec_from_file_location("docs_site", ROOT / "packaging/docs_site.py")
docs_site = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs_site)

PYTHON = ROOT / ".venv/docs/bin/python"


def test_lists_are_written_as_python_markdown_reads_them():
    text = "Three things:\n- one\n  goes on\n  - inner\n- two\n\n```\nno list:\n- here\n```\n\n1. first\n2. second\n"
    assert docs_site.for_python_markdown(text) == (
        "Three things:\n\n- one\n  goes on\n    - inner\n- two\n\n```\nno list:\n- here\n```\n\n1. first\n2. second\n"
    )


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("cli.md#headrace-plan", "cli.md#headrace-plan"),
        ("../../ARCHITECTURE.md", "../../ARCHITECTURE.md"),
        ("#here", "#here"),
        ("../images/day.svg", "../images/day.svg"),
        ("https://example.org/x", "https://example.org/x"),
        ("../../examples/scaling.py", "R/blob/main/examples/scaling.py"),
        ("../../tests/tidy.py#L1", "R/blob/main/tests/tidy.py#L1"),
    ],
)
def test_links_out_of_the_site_lead_to_the_repository(link, leads_to):
    pages = {"ARCHITECTURE.md", "docs/reference/cli.md"}
    assert docs_site.with_links(f"[a]({link})", "docs/reference/page.md", pages, "R") == f"[a]({leads_to})"


def test_the_menu_has_every_page_once(tmp_path):
    named = docs_site.stage(tmp_path)
    menu = docs_site.navigation(named)
    listed = []
    for entry in menu:
        for value in entry.values():
            listed += [value] if isinstance(value, str) else [page for item in value for page in item.values()]
    assert sorted(listed) == sorted(named)
    assert all((tmp_path / page).is_file() for page in named)


def test_the_site_has_the_colours_of_pages_and_reports():
    style = docs_site.stylesheet()
    named = set(re.findall(r"var\((--[\w-]+)\)", style))
    light, dark = style.split("@media (prefers-color-scheme: dark)", 1)
    # Sizes and fonts are the same in the dark, and so is the paper behind a picture.
    colours = {name for name in named if f"{name}: #" in light} - {"--paper"}
    assert colours and all(f"{name}:" in light for name in named) and all(f"{name}:" in dark for name in colours)
    assert style.count("{") == style.count("}")


@pytest.mark.skipif(not PYTHON.exists(), reason="`make docs` makes the environment with MkDocs")
def test_it_is_built_without_a_warning(tmp_path):
    words = [str(PYTHON), str(ROOT / "packaging/docs_site.py"), str(tmp_path / "site")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    page = (tmp_path / "site/index.html").read_text()
    assert "<h1" in page and 'src="http' not in page
