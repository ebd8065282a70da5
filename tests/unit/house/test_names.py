"""Names are the field's nouns: a pronoun or a participle says what the author thought of, not what a value is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"
VAGUE = frozenset({"one", "found", "told", "made", "known", "left", "said", "kept", "wanted", "held"})

# Most uses of these names per room, a ratchet: it goes down only. A room that is not in the table may have none. The use in
# `lab` is a key of the protocol in its generated calls.
MOST = {
    "lab": 1,
}
# A room may fall this far below its number before somebody has to lower it: several people work in a room at a time.
SLACK = 50


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each use: variables, parameters, keywords of calls, attributes, functions, and classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.alias):
            continue
        for field in ("id", "arg", "attr", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name in VAGUE:
                yield getattr(node, "lineno", 0), name


@cache
def uses() -> Counter[str]:
    """Counts the uses per room; a file beside the rooms is a room of its own."""
    counts: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        counts[path.relative_to(PACKAGE).parts[0]] += len(list(vague_names(path.read_text())))
    return counts


@pytest.mark.parametrize("room", sorted({*uses(), *MOST}))
def test_a_room_has_no_more_vague_names_than_before(room):
    count, most = uses()[room], MOST.get(room, 0)
    words = ", ".join(sorted(VAGUE))
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
