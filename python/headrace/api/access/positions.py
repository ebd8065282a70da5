"""Parses JSON with the line and column of every value, so that errors can point at it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from json import JSONDecodeError
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

# Nesting of a document: a policy has seven levels. A guess with room.
MAX_DEPTH = 32
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,30})(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a JSON document and where it begins. An object is a tuple of pairs of key and
    value, so that a repeated key is seen.
    """

    value: Any
    line: int
    column: int

    @property
    def is_object(self) -> bool:
        """True when the value is an object."""
        return isinstance(self.value, tuple)


class Misplaced(Exception):
    """A fault of a document, with its place."""

    def __init__(self, line: int, column: int, rule: str) -> None:
        super().__init__(rule)
        self.line, self.column, self.rule = line, column, rule


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def wrong(self, rule: str, at: int | None = None) -> Misplaced:
        where = self.at if at is None else at
        before = self.text[:where]
        return Misplaced(before.count("\n") + 1, where - (before.rfind("\n") + 1) + 1, rule)

    def skip(self) -> str:
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def string(self) -> str:
        begun = self.at
        try:
            string, self.at = scanstring(self.text, begun + 1, True)
        except JSONDecodeError as error:
            raise self.wrong(f"this is not a JSON text: {error.msg}", error.pos) from None
        return string

    def node(self, depth: int = 0) -> Node:
        first, begun = self.skip(), self.at
        if depth > MAX_DEPTH:
            raise self.wrong(f"a document has at most {MAX_DEPTH} levels")
        place = self.wrong("")
        if first == '"':
            value: object = self.string()
        elif first == "{":
            value = tuple(self.pairs(depth))
        elif first == "[":
            value = self.items(depth)
        else:
            value = self.word(begun)
        return Node(value, place.line, place.column)

    def word(self, begun: int) -> str | float | None:
        for word, value in _WORDS.items():
            if self.text.startswith(word, begun):
                self.at = begun + len(word)
                return value
        match = _NUMBER.match(self.text, begun)
        if match is None:
            raise self.wrong("a value is expected here: text, a number, true, false, null, a list or an object")
        self.at = match.end()
        text = match[0]
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def items(self, depth: int) -> list[Node]:
        nodes: list[Node] = []
        self.at += 1
        if self.skip() == "]":
            self.at += 1
            return nodes
        while True:
            nodes.append(self.node(depth + 1))
            if self.follows("]"):
                return nodes

    def pairs(self, depth: int) -> list[tuple[Node, Node]]:
        members: list[tuple[Node, Node]] = []
        self.at += 1
        if self.skip() == "}":
            self.at += 1
            return members
        while True:
            if self.skip() != '"':
                raise self.wrong('a name in double quotes is expected here, like "Effect"')
            key = self.node(depth + 1)
            if self.skip() != ":":
                raise self.wrong("a colon is expected here")
            self.at += 1
            members.append((key, self.node(depth + 1)))
            if self.follows("}"):
                return members

    def follows(self, end: str) -> bool:
        sign = self.skip()
        if sign not in (",", end) or not sign:
            raise self.wrong(f"a comma or {end} is expected here")
        self.at += 1
        return sign == end


def parse(text: str) -> Node:
    """Returns the single value of a JSON document. Raises Misplaced."""
    scanner = _Scanner(text)
    root = scanner.node()
    if scanner.skip():
        raise scanner.wrong("the document ends before this")
    return root
