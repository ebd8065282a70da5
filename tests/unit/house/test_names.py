"""Names are the field's nouns: a pronoun or a participle says what the author thought of, not what a value is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"
OTHERS = ("tests", "benchmarks", "examples", "packaging")
# Names that no file may have, neither of the package nor beside it.
FORBIDDEN = frozenset({"one", "found", "told", "made", "known", "left", "said", "kept", "wanted", "held"})
# Participles and pronouns that only become fewer.
RARE = frozenset({"asked", "shown", "ours", "theirs"})
VAGUE = FORBIDDEN | RARE

# Most uses of the names of RARE per room, a ratchet: it goes down only. A room that is not in the table may have none. A use in
# `lab` is a key of the protocol in its generated calls; those in tests and benchmarks are attributes of the package. Rooms
# outside of the package are folders. Numbers of the package are rounded up to tens, so that what several people write at a time
# does not meet.
MOST = {
    "advice": 10,
    "api": 40,
    "base": 30,
    "bench": 10,
    "benchmarks": 1,
    "calibration": 10,
    "catalog": 10,
    "cli": 30,
    "lab": 10,
    "mysql": 20,
    "observe": 50,
    "operate": 50,
    "planner": 40,
    "report": 70,
    "servers": 20,
    "simulation": 10,
    "studies": 10,
    "tests/unit/base": 5,
    "tests/unit/servers": 1,
    "tests/unit/studies": 5,
    "ui": 10,
    "workload": 20,
}
# A room may fall this far below its number before somebody has to lower it: several people work in a room at a time.
SLACK = 50


# First words with which a function of the package may begin: imperatives, and the third person of those that answer yes or no.
VERBS = frozenset((Path(__file__).parent / "verbs.txt").read_text().split())
# A conversion begins with what becomes of its value.
CONVERSIONS = frozenset({"as", "to", "from", "of", "with", "without", "on"})
# Functions of the package that begin with another word (names of commands, of mathematics, of calls of a library), a ratchet: it
# goes down only.
MOST_WITHOUT_VERB = 72


# The field of a node that has its name.
FIELDS = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.keyword: "arg",
    ast.Attribute: "attr",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
}


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each use: variables, parameters, keywords of calls, attributes, functions, and classes."""
    for node in ast.walk(ast.parse(source)):
        field = FIELDS.get(type(node))
        if field is not None and (name := getattr(node, field)) in VAGUE:
            yield getattr(node, "lineno", 0), name


def room_of(path: Path) -> str:
    """Returns the room of a file: a file beside the rooms is a room of its own, and outside of the package a room is a
    folder, of tests the one below."""
    if path.is_relative_to(PACKAGE):
        return path.relative_to(PACKAGE).parts[0]
    folders = path.relative_to(ROOT).parts[:-1]
    return "/".join(folders[: 3 if folders[:2] == ("tests", "unit") else 2])


@cache
def files() -> dict[str, list[Path]]:
    """Lists the files of each room."""
    rooms: dict[str, list[Path]] = {}
    for folder in (PACKAGE, *(ROOT / name for name in OTHERS)):
        for path in folder.rglob("*.py"):
            rooms.setdefault(room_of(path), []).append(path)
    return rooms


def uses(room: str) -> list[tuple[str, str]]:
    """Returns place and name of each use in a room."""
    return [
        (f"{path.relative_to(ROOT)}:{line}", name)
        for path in files().get(room, ())
        for line, name in vague_names(path.read_text())
    ]


@pytest.mark.parametrize("room", sorted({*files(), *MOST}))
def test_a_room_has_no_more_vague_names_than_before(room):
    entries, most = uses(room), MOST.get(room, 0)
    forbidden = [f"{place}: {name}" for place, name in entries if name in FORBIDDEN]
    assert not forbidden, "\n".join(["use nouns of the field:", *forbidden])
    count = len(entries)
    words = ", ".join(sorted(RARE))
    assert count <= most, f"{room} has {count} uses of {words} as names, at most {most} are allowed: use nouns"
    assert count >= most - SLACK, f"{room} has {count} uses, {most} are allowed: lower its number in MOST"


def test_the_table_is_sorted():
    assert list(MOST) == sorted(MOST)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("one = two", ["one"]),
        ("def found(left): return left", ["found", "left", "left"]),
        ("call(told=1).made", ["made", "told"]),
        ("try:\n    pass\nexcept OSError as said:\n    pass", ["said"]),
        ("class known: pass", ["known"]),
        ("kept_bytes = row['kept']  # kept", []),
        ("from words import wanted as limit", []),
    ],
)
def test_what_is_a_vague_name(source, names):
    assert sorted(name for _, name in vague_names(source)) == names


# Comments, raw strings, strings and characters of Rust, which have no names; or a name.
RUST = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])'"""
    r"""|(?P<name>(?:r\#)?[A-Za-z_]\w*)""",
    re.DOTALL,
)


def vague_names_of_rust(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each use in code of Rust."""
    for token in RUST.finditer(source):
        if (name := token["name"]) in VAGUE:
            yield source.count("\n", 0, token.start()) + 1, name


@pytest.mark.parametrize(
    "crate", sorted(path.name for path in (ROOT / "crates").iterdir() if (path / "Cargo.toml").exists())
)
def test_a_crate_has_no_vague_names(crate):
    paths = sorted((ROOT / "crates" / crate).rglob("*.rs"))
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in vague_names_of_rust(path.read_text())
    ]
    assert not uses, "\n".join(["use nouns of the field:", *uses])


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("let one = two; // found", ["one"]),
        (
            "fn found<'kept>(left: &'kept str) -> bool { left == r#\"told\"# }",
            ["found", "kept", "kept", "left", "left"],
        ),
        ("/* told */ b\"made\\\"known\" 'a' '\\'' asked.shown", ["asked", "shown"]),
    ],
)
def test_what_is_a_vague_name_of_rust(source, names):
    assert sorted(name for _, name in vague_names_of_rust(source)) == names


def list_without_verb(source: str) -> Iterator[str]:
    """Yields functions that begin with no verb and are no property, conversion, command or call that AWS names."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
            continue
        decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
        word = node.name.strip("_").partition("_")[0]
        if word not in VERBS | CONVERSIONS and not re.search(r"property|command|serves|callback|setter", decorators):
            yield node.name


def test_functions_begin_with_a_verb():
    generated = PACKAGE / "lab/calls.py"  # its names are the protocol's
    names = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != generated
        for name in list_without_verb(path.read_text())
    ]
    assert len(names) <= MOST_WITHOUT_VERB, "\n".join(names)


def test_what_begins_with_a_verb():
    source = "def _share(): ...\nclass C:\n    @property\n    def size(self): ...\n    def to_row(self): ...\n    def read_row(self): ..."
    assert list(list_without_verb(source)) == ["_share"]
