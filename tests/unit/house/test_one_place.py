"""Calls that go wrong when everybody makes them by himself: each has the modules that may make it, and no other does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from places import ROOT

PACKAGE = ROOT / "python/headrace"

# The call -> the module that makes it for all others.
PLACES = {
    "signal.signal": "base/signals.py",
    "subprocess.Popen": "base/processes.py",
    "os.replace": "base/files.py",
    "os.rename": "base/files.py",
    "Path.replace": "base/files.py",
    "connection.cursor": "mysql/statements.py",
    "import boto3": "aws/client.py",
}
# (call, module): why it makes the call by itself.
EXCEPTIONS = {
    ("signal.signal", "operate/snapshots/freezing/watchdog.py"): "a program of its own, which imports nothing of us",
}


def calls(source: str) -> Iterator[str]:
    """Yields the calls of a module that PLACES names, and imports of their functions by name. `x.replace(y)` is that of
    a path: text is replaced by a second argument, fields of a value by keywords."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name.partition('.')[0]}" for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield f"import {(node.module or '').partition('.')[0]}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if not isinstance(node, ast.Call):
            continue
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if isinstance(function, ast.Attribute):
            yield ast.unparse(function)
            if function.attr == "replace" and len(node.args) == 1 and not node.keywords:
                yield "Path.replace"
            if function.attr == "cursor":
                yield "connection.cursor"


def test_each_call_stands_in_its_module():
    wrong, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        module = str(path.relative_to(PACKAGE))
        for call in PLACES.keys() & set(calls(path.read_text())):
            used.add((call, module))
            if module != PLACES[call] and (call, module) not in EXCEPTIONS:
                wrong.append(f"{module}: calls {call}; use {PLACES[call]}")
    assert not wrong, "\n".join(wrong)
    assert used >= EXCEPTIONS.keys(), f"not needed: {EXCEPTIONS.keys() - used}"


@pytest.mark.parametrize(
    ("source", "call"),
    [
        ("signal.signal(1, end)", "signal.signal"),
        ("subprocess.Popen[bytes](words)", "subprocess.Popen"),
        ("from subprocess import Popen", "subprocess.Popen"),
        ("path.with_name('a').replace(other)", "Path.replace"),
        ("with self.server.cursor(DictCursor) as cursor: pass", "connection.cursor"),
        ("def client():\n    from boto3.session import Session", "import boto3"),
    ],
)
def test_calls_are_seen(source, call):
    assert call in set(calls(source))


# Statements that hold back a server's commits or changes of its files.
LOCKS = re.compile(r"BACKUP STAGE [A-Z_]+|FLUSH TABLES WITH READ LOCK|LOCK INSTANCE FOR BACKUP")


def locks(source: str) -> list[str]:
    """Returns the statements in a module's texts that hold back commits."""
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and LOCKS.fullmatch(text)]


def test_commits_are_held_back_in_one_module():
    places = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if locks(path.read_text())}
    # A proof reads with an account that may have RELOAD alone, and holds the lock for two statements.
    assert places == {"servers/copies/locks.py", "servers/backup/proving.py"}, "use ServerLock"


@pytest.mark.parametrize("source", ["text.replace('a', 'b')", "replace(value, name=1)", "moment.replace(hour=1)"])
def test_other_replacements_are_none_of_a_file(source):
    assert "Path.replace" not in set(calls(source))
