"""ARCHITECTURE.md against the code: the files of its walks, and the modules and functions of "Who does what"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"
PAGE = ROOT / "ARCHITECTURE.md"
FILE = re.compile(r"(?<![\w./-])([a-z_][\w/]*\.(?:py|rs))\b")
# `calls.rs` behind `crates/protocol:` or two spaces, `worker.py` behind `api` and two spaces.
PLACE = re.compile(r"(crates/[\w/]+|[a-z_]+)(?=:| {2}|$)")
# `module.py::name`, `module.py::Class.method`, or a file alone.
USE = re.compile(r"`([\w/]+\.(?:py|rs))(?:::([\w.]+))?`")


def section(text: str, title: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    begin = text.index(f"\n## {title}\n") + 1
    return text[begin : text.find("\n## ", begin)]


def walks(text: str) -> dict[str, str]:
    """The drawings of the walks by their titles."""
    titles = re.findall(r"^## (Walk \d+: .+)$", text, re.MULTILINE)
    return {title: "\n".join(re.findall(r"^```\n(.*?)^```", section(text, title), re.M | re.S)) for title in titles}


def folder_of(word: str) -> Path | None:
    """The folder that the first word of a line names: a crate, or a room of the package."""
    folder = ROOT / word if word.startswith("crates/") else PACKAGE / word
    return folder if folder.is_dir() else None


def files_of(drawing: str) -> Iterator[tuple[tuple[Path, ...], str]]:
    """(folders, file) of every file of a drawing. A line without a folder goes on in that of the lines before: in a
    folder that was named behind the line on the left, else in the last one at the beginning of a line."""
    inner = outer = ROOT
    for line in drawing.splitlines():
        if (place := PLACE.match(line.lstrip(" |▼:"))) and (folder := folder_of(place[1])):
            inner = folder
            outer = outer if line.lstrip().startswith("|") else folder
        for name in FILE.findall(line):
            yield (inner, outer), name


@cache
def sources() -> tuple[Path, ...]:
    return tuple(path for top in ("python/headrace", "crates") for path in (ROOT / top).rglob("*.*"))


def candidates(folders: tuple[Path, ...], name: str) -> list[Path]:
    """Files that a name in a drawing can mean: below the first folder that has one, or from the top of the package."""
    for folder in folders:
        below = [path for path in sources() if path.is_relative_to(folder) and str(path).endswith(f"/{name}")]
        if exact := [path for path in below if path in (folder / name, folder / "src" / name)] or below:
            return exact
    return [PACKAGE / name] if (PACKAGE / name).is_file() else []


@cache
def names_of(path: Path) -> frozenset[str]:
    """Functions, classes and their methods, and assigned names of a Python module; items of a Rust file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        return frozenset(re.findall(r"\b(?:fn|struct|enum|trait|const|type)\s+(\w+)", text))
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(names)


def rows(text: str) -> list[list[str]]:
    """The cells of the table's rows, without its head."""
    lines = [line for line in section(text, "Who does what").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def missing(use: tuple[str, str]) -> str:
    """Returns the parts of a reference of the table that the code does not have; "" if it has all
    of them."""
    name, item = use
    path = next((top / name for top in (PACKAGE, ROOT) if (top / name).is_file()), None)
    if path is None:
        return f"there is no file {name}"
    return f"{name} has no {item}" if item and item not in names_of(path) else ""


@pytest.mark.parametrize("title", walks(PAGE.read_text()))
def test_files_of_the_walks_exist(title):
    named = list(files_of(walks(PAGE.read_text())[title]))
    assert len(named) >= 10
    for folders, name in named:
        matches = candidates(folders, name)
        places = " and ".join(str(folder.relative_to(ROOT)) for folder in folders)
        assert len(matches) == 1, f"{title}: {name} means {len(matches)} files below {places}: {matches}"


def test_there_is_a_walk_for_each_kind_of_task():
    titles = [title.partition(": ")[2] for title in walks(PAGE.read_text())]
    tasks = {"one I/O", "one goal", "one calibration run", "one failover", "one backup", "one call of the AWS API"}
    assert tasks | {"one verdict"} == set(titles)


@pytest.mark.parametrize("row", rows(PAGE.read_text()), ids=lambda row: row[0])
def test_who_does_what_exists(row):
    job, use, _ = row
    assert job and use
    wrong = [words for cell in row for name in USE.findall(cell) if (words := missing(name))]
    assert not wrong, f"{job}: {'; '.join(wrong)}"


def test_jobs_stand_once():
    jobs = [row[0] for row in rows(PAGE.read_text())]
    assert len(set(jobs)) == len(jobs) > 30


def test_what_is_not_there_is_found():
    assert (
        missing(("base/files.py", "write_whole")) == "" == missing(("lab/http_server.py", "HttpServer.serve_forever"))
    )
    assert missing(("base/files.py", "write_half")) and missing(("base/file.py", ""))
    assert missing(("servers/failover/journal.py", "Journal.together"))
    drawing = " cli            model/plan.py     options\n   |            model/plans.py\n crates/sim   forms.py\n"
    assert [len(candidates(*named)) for named in files_of(drawing)] == [1, 0, 0]
