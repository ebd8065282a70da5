"""Advice as an option file, and as a change to one."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.advice.current import CurrentSettings, find_gone, find_standing, is_unknown
from headrace.advice.model import SAFE, AdvisedSetting, ServerVersion, refuse
from headrace.advice.table import index_names
from headrace.mysql.option_files import OptionFile, Setting, format_value

WIDTH = 110  # of comments
SECTION = "mysqld"  # every server reads it
CONTEXT = 3  # lines, as of diff -u
# Lines that may hold a password never become context of a diff.
SECRET = re.compile(r"(?i)pass(word|phrase)?|secret|key\s*=|credential|auth")
# The plugin of MyRocks in MariaDB; without it the server refuses every rocksdb_ setting.
MYROCKS_PLUGIN = "plugin_load_add = ha_rocksdb"


def list_columns() -> tuple[str, ...]:
    """Returns the columns of the csv form, in order."""
    own = ("value", "current", "differs", "default", "risk", "applies_to", "active", "group", "why", "effect", "source")
    return ("parameter", "change", *own)


def build_record(item: AdvisedSetting, change: str) -> dict:
    """Returns a setting as json and csv have it; `change`: what to do with it."""
    return {name: change if name == "change" else getattr(item, name) for name in list_columns()}


def as_cnf(advice: Sequence[AdvisedSetting], server: ServerVersion, situation: str, loads_myrocks: bool = False) -> str:
    """Returns an option file: safe settings (and the durability asked for) as lines, all else as
    comments.

    `situation`: for the head of the file. `loads_myrocks`: the server has the plugin already.
    """
    lines = [
        f"# {server.label}: {situation}",
        f"# Made by headrace advise; every parameter: {refuse.source}",
        "",
        f"[{SECTION}]",
    ]
    rocks = any(item.parameter.startswith("rocksdb_") for item in advice)
    if rocks and server.flavor == "mariadb" and not loads_myrocks:
        lines += ["", MYROCKS_PLUGIN]
    group = None
    for item in advice:
        if item.group != group:
            group = item.group
            lines += ["", f"# ---- {group}"]
        lines += _write_entry(item)
    return "\n".join(lines) + "\n"


def _write_entry(item: AdvisedSetting) -> list[str]:
    """Returns the lines of a setting in an option file: its reason as comments, then the setting, a
    comment too unless it is active."""
    for_whom = {
        "replicas": "replicas: ",
        "sources": "where a binlog is written: ",
        "client": "client machines: ",
        "host": "host: ",
    }.get(item.applies_to, "")
    risk = "" if item.risk == SAFE else f" ({item.risk})"
    default = " (the server's default)" if item.active and item.default == item.value else ""
    lines = [f"# {line}" for line in textwrap.wrap(f"{for_whom}{item.why}{risk}{default}", WIDTH)]
    text = f"{item.parameter} = {format_value(item.value)}"
    return [*lines, text if item.active else f"# {text}"]


@dataclass
class _Edit:
    """The changes of a file: new texts of its `lines` by number, from 1, and lines to add."""

    lines: list[str]
    replacements: dict[int, str]
    additions: list[str]


def as_diff(advice: Sequence[AdvisedSetting], current: CurrentSettings) -> str:
    """Returns a unified diff (for `patch -p0`, or -p1 without the leading /) that makes the file as
    advised.

    Values are changed where they stand, missing ones are added to the last section of the server,
    and what the server refuses, ignores or does not know becomes a comment; so does what it has
    deprecated, where the advice sets the successor. "" when nothing changes. Raises InputError
    without an option file.
    """
    file = current.file
    if file is None:
        raise refuse.input("--output diff", "needs an option file to change", "Name it with --config.")
    edits = {path: _Edit(text.split("\n"), {}, []) for path, text in file.texts.items()}
    ids = index_names()
    # The last line of a parameter decides.
    deciding = {ids.get(setting.name, setting.name): setting for setting in file.settings}
    advised = {item.parameter for item in advice if item.active}
    successors = _retire(current, file, edits, advised)
    for item in advice:
        if not item.active or item.applies_to in ("host", "client"):
            continue
        last = deciding.get(item.id)
        text = f"{item.parameter} = {format_value(item.value)}"
        if last is not None and _stays(find_gone(last.name, current.server), advised):
            if item.differs:
                edits[last.file].replacements[last.line] = text
                _comment_earlier(item.id, last, file, edits)
        elif item.differs or item.parameter in successors:
            edits[file.path].additions.append(text)
    return "".join(_build_file_diff(path, edit, file) for path, edit in edits.items())


def _comment_earlier(parameter: str, last: Setting, file: OptionFile, edits: dict[Path, _Edit]) -> None:
    """Comments out lines that a later line of the same parameter overrides: they would mislead."""
    ids = index_names()
    for setting in file.settings:
        if ids.get(setting.name, setting.name) == parameter and setting is not last:
            edit = edits[setting.file]
            edit.replacements.setdefault(setting.line, f"# set again below: {edit.lines[setting.line - 1].strip()}")


def _stays(row: dict[str, str] | None, advised: set[str]) -> bool:
    """Returns whether a line stays in force: nothing became of it, or the server still takes it and
    nothing that is advised does its work."""
    return row is None or (row["then"] == "deprecated" and row["instead"] not in advised)


def _retire(current: CurrentSettings, file: OptionFile, edits: dict[Path, _Edit], advised: set[str]) -> set[str]:
    """Makes comments of lines the server refuses or ignores, or will drop and that are `advised`
    under another name; returns the names of successors.

    A line that it does not know becomes one too, unless the line may hold a secret, which would
    then be shown.
    """
    successors = set()
    for setting in file.settings:
        row = find_standing(setting, current)
        edit = edits[setting.file]
        line = edit.lines[setting.line - 1].strip()
        if row is None:
            if is_unknown(setting) and not SECRET.search(line):
                edit.replacements[setting.line] = f"# not known to {current.server.label}: {line}"
        elif not _stays(row, advised) and not (setting.loose and row["then"] == "refused"):
            edit.replacements[setting.line] = f"# {row['then']} by {current.server.label}: {line}"
            successors.add(row["instead"])
    return successors


def _build_file_diff(path: Path, edit: _Edit, file: OptionFile) -> str:
    """Returns the unified diff of one file, "" where nothing changes; fewer lines of context where
    one may hold a secret."""
    new = [edit.replacements.get(number, line) for number, line in enumerate(edit.lines, start=1)]
    if edit.additions:
        at, headed = _find_place(file, edit.lines)
        block = edit.additions
        if not headed:
            block = [*([""] if at else []), f"[{SECTION}]", *block, *([] if at else [""])]
        new = [*new[:at], *block, *new[at:]]
    if new == edit.lines:
        return ""
    for context in (CONTEXT, 1, 0):
        lines = list(_compute_diff(str(path), edit.lines, new, context))
        if not any(SECRET.search(line) for line in lines if line.startswith(" ")):
            break
    return "".join(lines)


def _compute_diff(name: str, old: list[str], new: list[str], context: int):
    """Returns the diff of difflib, with the mark of a last line that does not end."""
    whole = [_end_lines(lines) for lines in (old, new)]
    for line in difflib.unified_diff(*whole, fromfile=name, tofile=name, n=context):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _end_lines(lines: list[str]) -> list[str]:
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _find_place(file: OptionFile, lines: list[str]) -> tuple[int, bool]:
    """Returns the line at which settings are added, as an index, and whether a section of the
    server is open there.

    The place is at the end of its last section, else at the end of the file. A last line that does
    not end is left alone, because a diff would have to show it, and it may be a secret: then the
    place is behind the head of the section, or before everything.
    """
    end, head, inside = None, 0, False
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if line.startswith("["):
            inside = line[1:].partition("]")[0].rstrip().lower() in file.groups
            head = number if inside else head
        if inside and line and not line.startswith("!"):
            end = number
    unended = bool(lines[-1])
    if end is None:
        return (0, False) if unended else (len(lines) - 1, False)
    return (head if unended and end == len(lines) else end), True
