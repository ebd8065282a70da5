"""Builds the documentation site with MkDocs and its built-in theme: `python packaging/docs_site.py target/site`.

    README.md                       the first page
    docs/                           guides, reference, semantics, decisions
    ARCHITECTURE.md and others      the pages of the top folder that are linked from there

The pages keep their places, so a link means the same on the site, on GitHub and in an editor. MkDocs checks every
link and anchor (strict), and the site loads nothing from other hosts. `make docs` runs this in an environment of
its own: nothing else needs MkDocs.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "data/README.md")
# Groups of the navigation; what stands in no group follows its folder.
FIRST_PAGES = (
    "docs/guide/first-hour.md",
    "docs/guide/planning.md",
    "docs/guide/databases.md",
    "docs/guide/first-volume.md",
)
FIRST_REFERENCE = ("docs/reference/commands.md", "docs/reference/cli.md", "docs/reference/python.md")
# The colours of pages and reports, and what the theme makes of them.
TOKENS, STYLE = ROOT / "python/headrace/report/page.css", ROOT / "packaging/site.css"
ROOT_RULE = re.compile(r":root \{.*?\}|@media \(prefers-color-scheme: dark\) \{\n.*?\}\n\}", re.DOTALL)
FENCE = re.compile(r"^(```|~~~)")
ITEM = re.compile(r"^( *)([-*]|\d+\.) ")
CODE, PIPE = re.compile(r"`([^`]+)`"), "\\|"
LINK = re.compile(r"(\]\()([^()\s]+)(\))")


def slug(heading: str, separator: str = "-") -> str:
    """Returns the anchor that GitHub gives to a heading: lower case, punctuation left out, spaces
    as hyphens."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", separator)


def pages() -> list[str]:
    """Returns the pages of the site, as paths from the top folder."""
    listed = subprocess.run(["git", "ls-files", "docs/*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [*TOP, *sorted(listed.stdout.splitlines())]


def for_python_markdown(text: str) -> str:
    """Writes lists as Python-Markdown reads them: a blank line before the first item, and four spaces for a list in a
    list. A bar in code within a table, which it would show with its backslash, becomes HTML. Fenced blocks stay as they
    are."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= bool(FENCE.match(line))
        item = None if fenced else ITEM.match(line)
        if item:
            before = lines[-1] if lines else ""
            if before.strip() and not ITEM.match(before) and not before.startswith((" ", "#")):
                lines.append("")
            line = " " * len(item[1]) + line
        if not fenced and line.startswith("|"):
            line = CODE.sub(
                lambda match: (
                    f"<code>{escape(match[1]).replace(PIPE, '&#124;')}</code>" if PIPE in match[1] else match[0]
                ),
                line,
            )
        lines.append(line)
    return "\n".join(lines) + "\n"


def with_links(text: str, page: str, texts: set[str], repository: str) -> str:
    """Lets a link to a file that is no page of the site lead to the repository."""

    def led(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        to = (ROOT / page).parent.joinpath(target).resolve()
        name = str(to.relative_to(ROOT))
        if name in texts or to.suffix in (".svg", ".png", ".webp"):
            return match[0]
        return f"{match[1]}{repository}/blob/main/{name}{'#' + anchor if anchor else ''}{match[3]}"

    return LINK.sub(led, text)


def stage(folder: Path) -> list[str]:
    """Writes the pages and images below a folder, in their places; returns the pages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = pages()
    for page in named:
        text = (ROOT / page).read_text(encoding="utf-8")
        text = with_links(for_python_markdown(text), page, set(named), project["urls"]["Homepage"])
        to = folder / page
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", folder / "docs/images")
    (folder / "site.css").write_text(stylesheet(), encoding="utf-8")
    return named


def stylesheet() -> str:
    """The colours of page.css, light and dark, and the look that the site takes from them."""
    tokens = ROOT_RULE.findall(TOKENS.read_text(encoding="utf-8"))
    return "\n".join([*tokens, STYLE.read_text(encoding="utf-8")])


def title_of(page: str) -> str:
    """Returns the heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"`", "", match[1]) if match else page


def navigation(named: list[str]) -> list[dict]:
    """Returns the menu: the first pages in the order in which they are read, all others by their
    titles."""

    def group(prefix: str, first: tuple[str, ...] = ()) -> list[dict]:
        rest = sorted(page for page in named if page.startswith(prefix) and page not in first)
        return [{title_of(page): page} for page in [*first, *rest]]

    background = [page for page in named if page.count("/") == 1 and page.startswith("docs/")]
    background += [page for page in named if page.startswith("docs/semantics/")]
    return [
        {"Headrace": "README.md"},
        {"Guides": group("docs/guide/", FIRST_PAGES)},
        {"Reference": group("docs/reference/", FIRST_REFERENCE)},
        {"Background": [{title_of(page): page} for page in background]},
        {"Development": [{title_of(page): page} for page in TOP[1:]] + group("docs/decisions/")},
    ]


def build(site: Path) -> None:
    """Builds the site into a folder, which is replaced. Raises mkdocs' Abort for a broken link."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config.defaults import MkDocsConfig

    with tempfile.TemporaryDirectory() as folder:
        named = stage(Path(folder))
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        levels = dict.fromkeys(("not_found", "absolute_links", "unrecognized_links", "anchors"), "warn")
        config = MkDocsConfig()
        config.load_dict(
            {
                "site_name": "Headrace",
                "site_description": project["description"],
                "repo_url": project["urls"]["Homepage"],
                "edit_uri": "edit/main/",
                "extra_css": ["site.css"],
                "docs_dir": folder,
                "site_dir": str(site.resolve()),
                "use_directory_urls": False,
                "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 3},
                "markdown_extensions": ["tables", "fenced_code", {"toc": {"slugify": slug, "permalink": True}}],
                "nav": navigation(named),
                "validation": {"nav": {"omitted_files": "warn", "not_found": "warn"}, "links": levels},
                "strict": True,
            }
        )
        errors, warnings = config.validate()
        if errors or warnings:
            raise SystemExit(f"error: MkDocs refuses its settings: {[*errors, *warnings]}")
        build_site(config)


def main(arguments: list[str]) -> int:
    """Builds the site. Returns an exit code."""
    if len(arguments) != 1:
        print("usage: python packaging/docs_site.py FOLDER", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    build(Path(arguments[0]))
    print(f"the documentation: {Path(arguments[0]) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
