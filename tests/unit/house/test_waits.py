"""Tests wait for what happens by the wall clock through `waiting.wait_until` alone, which knows the machine's load; the
package through `base/waiting.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from places import ROOT

SHARED = ROOT / "tests/unit/shared/waiting.py"
PACKAGE = ROOT / "python/headrace"
# Loops of the package with a deadline of their own, for more than a look at something: they go down only.
OWN = {
    "base/waiting.py": 1,  # what all others use
    "experiment/replication/run.py": 1,  # a measurement: samples, with several ends
    "lab/exporter.py": 2,  # tries again after an error, and raises the last one
    "observe/evidence/live.py": 1,  # samples on a grid of time
    "observe/evidence/source.py": 1,  # reads minute by minute
    "observe/live/record.py": 1,  # shows how time goes by
    "observe/live/sampler.py": 1,  # samples on a grid of time
    "servers/backup/history/stream.py": 2,  # reads what a receiver writes; tries again, more and more rarely
    "servers/failover/actions.py": 1,  # by the clock of the run, which a test simulates
    "servers/failover/run.py": 1,  # says each time what it waits for
    "servers/failover/outage.py": 1,  # ends at an event, and tries again after an error
    "servers/running.py": 1,  # tries again after an error, and raises the last one
    "servers/topology/lag/record.py": 1,  # samples on a grid of time
    "servers/topology/seeding.py": 1,  # raises what the server says
    "servers/topology/threads.py": 1,  # compares two looks
    "servers/volumes.py": 1,  # tries again after an error, and raises the last one
}
CLOCKS = frozenset({"read_now_s", "monotonic", "monotonic_ns", "time", "time_ns", "perf_counter"})
PAUSES = frozenset({"sleep", "wait"})


def called(node: ast.AST, names: frozenset[str]) -> bool:
    """Returns whether functions or methods of some names are called below a node."""
    calls = (entry.func for entry in ast.walk(node) if isinstance(entry, ast.Call))
    return any(getattr(call, "attr", getattr(call, "id", "")) in names for call in calls)


def own_waits(source: str) -> Iterator[int]:
    """Lines of loops that pause, compare the clock with a deadline, and end at what they look for. A loop
    that only goes on for a time, such as a load, looks for nothing."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.While | ast.For) or not called(node, PAUSES):
            continue
        compared = [entry for entry in ast.walk(node) if isinstance(entry, ast.Compare) and called(entry, CLOCKS)]
        alone = isinstance(node, ast.While) and compared == [node.test]
        leaves = any(isinstance(entry, ast.Break | ast.Return | ast.Raise) for entry in ast.walk(node))
        if compared and (leaves or not alone):
            yield node.lineno


def test_no_test_has_a_wait_of_its_own():
    waits = [
        f"{path.relative_to(ROOT)}:{line}: waits by itself; use waiting.wait_until, which knows the machine's load"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != SHARED
        for line in own_waits(path.read_text())
    ]
    assert not waits, "\n".join(waits)


def test_the_package_has_few_waits_of_its_own():
    loops = {str(path.relative_to(PACKAGE)): len(list(own_waits(path.read_text()))) for path in PACKAGE.rglob("*.py")}
    different = {path: (count, OWN.get(path, 0)) for path, count in loops.items() if count != OWN.get(path, 0)}
    assert not different, f"{different} (loops, allowed): use base/waiting.py, or correct OWN"


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("while not ready():\n    assert time.monotonic() < deadline\n    time.sleep(0.1)\n", 1),
        ("while not ready() and time.time() < end:\n    time.sleep(0.1)\n", 1),
        ("while time.monotonic() < end:\n    if ready():\n        break\n    stop.wait(0.1)\n", 1),
        ("while True:\n    if ready() or time.monotonic() > end:\n        return_it()\n    time.sleep(1)\n", 1),
        ("while time.monotonic() < end:\n    write()\n    time.sleep(0.1)\n", 0),
        ("while not stop.is_set():\n    write()\n    time.sleep(0.1)\n", 0),
        ("wait_until(ready, 'it')\n", 0),
    ],
)
def test_what_is_a_wait(source, count):
    assert len(list(own_waits(source))) == count
