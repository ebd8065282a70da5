"""Copies of running servers: the order of lock, sync and call; positions; which copies stay."""

from __future__ import annotations

import random

import pytest

from headrace.errors import CouldNotRun
from headrace.servers.copies.locks import ServerPosition
from headrace.servers.copies.mariabackup import POSITION
from headrace.servers.copies.methods import BY_FORM, METHODS, PHYSICAL
from headrace.servers.copies.retention import CopyRetention
from headrace.servers.copies.snapshot import capture


class Lock:
    def __init__(self, steps: list[str], refuses: bool = False) -> None:
        self.steps, self.refuses = steps, refuses

    def take(self) -> ServerPosition:
        if self.refuses:
            raise CouldNotRun("db", "did not get its lock", "")
        self.steps.append("take")
        return ServerPosition(gtid="0-1-5", file="b.1", offset=7)


def test_everything_is_written_back_before_the_lock_and_under_it():
    steps: list[str] = []
    position, answer = capture(
        Lock(steps),  # type: ignore[arg-type]
        lambda: steps.append("sync"),
        lambda position: f"call at {position.text}",
        lambda step: steps.append(f"said {step}"),
    )
    assert steps == ["sync", "take", "said locked", "sync", "said synced"]
    assert position.offset == 7 and answer == "call at b.1:7"


def test_without_its_lock_nothing_is_called():
    with pytest.raises(CouldNotRun, match="did not get its lock"):
        capture(Lock([], refuses=True), lambda: None, lambda position: pytest.fail("called"))  # type: ignore[arg-type]


def test_a_position_under_a_lock_has_what_a_replica_applied():
    """A MariaDB replica that does not log what it applies has it in its data all the same."""
    position = ServerPosition(gtid="0-2-3", file="b.2", offset=9, replica_gtid="0-1-8,1-1-4").make_binlog_position(
        "mariadb"
    )
    assert (str(position.parse_gtids("mariadb")), position.file, position.offset) == ("0-1-8,1-1-4", "b.2", 9)


@pytest.mark.parametrize(
    ("line", "groups"),
    [
        # Line of mariabackup 10.11, with a GTID and without one.
        ("[00] MySQL binlog position: filename 'b.1', position '328', GTID of the last change '0-1-5'", ("b.1", "328", "0-1-5")),
        ("[00] MySQL binlog position: filename 'b.1', position '328'", ("b.1", "328", None)),
    ],
)  # fmt: skip
def test_positions_that_mariabackup_writes(line, groups):
    match = POSITION.search(line)
    assert match is not None and match.groups() == groups


def test_every_form_has_one_method():
    assert len({method.form for method in METHODS.values()}) == len(METHODS) == 5
    assert set(BY_FORM.values()) == {METHODS[name] for name in PHYSICAL.values()}


@pytest.mark.parametrize("seed", range(20))
def test_retention_against_a_naive_reference(seed):
    """Copies are numbers; odd ones are good, and the age of a copy is its square root times 3."""
    chance = random.Random(seed)
    copies = sorted(chance.sample(range(100), chance.randint(1, 12)))
    count, age_s = chance.choice([None, 1, 3]), chance.choice([None, 9.0, 20.0])
    last = chance.choice([None, *copies])
    judged = list(
        CopyRetention(count, age_s).judge(copies, last, lambda copy: copy % 2 == 1, lambda copy: 3 * copy**0.5)
    )
    for copy, reason, newer in judged:
        better = [other for other in copies if other < copy and other % 2]
        among, young = count is not None and len(better) < count, age_s is not None and 9 * copy < age_s**2
        assert newer == len(better) and bool(reason) == (among or young or copy is last), (copy, reason)
        assert reason == ("count" if among else "age" if young else "last" if copy is last else "")
    assert [copy for copy, _, _ in judged] == copies
