"""Every relative link of the documents leads to a file, and every anchor to a heading of it. Standard library only."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

_spec = importlib.util.spec_from_file_location("docs_site", ROOT / "packaging/docs_site.py")
docs_site = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs_site)

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s>]+(?:\([^()]*\))?[^()\s>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
OWN_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def pages() -> list[Path]:
    """Every Markdown file that git knows, without those of the tests."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = listed.stdout.splitlines() if listed.stdout else []
    return [ROOT / name for name in names if not name.startswith("tests/") and (ROOT / name).exists()]


def without_code(text: str) -> str:
    """The text without fenced blocks and code spans, in which brackets are no links."""
    return CODE.sub("", FENCE.sub("", text))


def links(text: str) -> Iterator[str]:
    """The targets of all links and images of a page that do not name another host."""
    prose = without_code(text)
    for target in [*LINK.findall(prose), *REFERENCE.findall(prose)]:
        if not ELSEWHERE.match(target):
            yield target


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page. The second heading of one name has -1 behind it, the third -2."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    seen: dict[str, int] = {}
    names = set(OWN_ANCHOR.findall(text))
    for heading in HEADING.findall(text):
        name = docs_site.slug(heading)
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return frozenset(names)


def wrong(page: Path, target: str) -> str:
    """Returns the reason why a link of a page is broken; "" for a good one."""
    path, _, anchor = target.partition("#")
    to = (page.parent / path).resolve() if path else page
    if not to.exists():
        return "leads to no file"
    if not to.is_relative_to(ROOT):
        return "leads out of the repository"
    if anchor and to.suffix == ".md" and anchor not in anchors(to):
        return "leads to no heading of that page"
    return ""


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = [
        f"{page.relative_to(ROOT)}: ({target}) {reason}"
        for target in links(page.read_text(encoding="utf-8"))
        if (reason := wrong(page, target))
    ]
    assert not broken, "\n".join(broken)


def test_the_main_pages_are_checked():
    checked = {str(page.relative_to(ROOT)) for page in pages()}
    assert {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/semantics.md"} <= checked
    assert sum(1 for page in pages() for _ in links(page.read_text(encoding="utf-8"))) > 100


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a](other.md)", ""),
        ("[a](other.md#two-words)", ""),
        ("[a](other.md#two-words-1)", ""),
        ("[a](#here)", ""),
        ("[a](https://example.com/x)", None),
        ("`[a](none.md)`", None),
        ("```\n[a](none.md)\n```\n", None),
        ("[a](none.md)", "leads to no file"),
        ("![a](none.svg)", "leads to no file"),
        ("[a]: none.md", "leads to no file"),
        ("[a [b] c](none.md)", "leads to no file"),
        ("[a](other.md#three-words)", "leads to no heading of that page"),
        ("[a](#there)", "leads to no heading of that page"),
        ("[a](../outside.md)", "leads out of the repository"),
    ],
)
def test_a_broken_link_is_found(text, reason, tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setitem(globals(), "ROOT", root)
    (tmp_path / "outside.md").write_text("# Outside\n")
    (root / "other.md").write_text("# Two words\n\n```sh\n# three words\n```\n\n## Two `words`\n")
    page = root / "page.md"
    page.write_text(f"# Here\n\n{text}\n")
    problems = [wrong(page, target) for target in links(page.read_text())]
    assert problems == ([] if reason is None else [reason])
