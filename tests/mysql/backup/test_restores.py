"""Restores to a GTID and to a moment, from a base under load and a streamed binary log.

RESTORES=20 restores so many times to each; by default once. DAMAGES: damages of the archive and of the
copy, by default 12 (`make soak`: 1000). The goals are drawn with a seed that is printed.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from backup_chains import Chain, build, gone_after, rows_of
from damaged_archives import damage, damages

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import checking, manifest, proving, restore
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target

RESTORES = int(os.environ.get("RESTORES", "1"))
FLIPS = int(os.environ.get("FLIPS", "10"))
DAMAGES = int(os.environ.get("DAMAGES", "12"))


@pytest.fixture(scope="module")
def chains() -> dict[str, Chain]:
    """The chain of each flavor once it is built: in random order pytest sets `chain` up again at each change of flavor."""
    return {}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def chain(request, lab, tmp_path_factory, machine, chains) -> Chain:
    if request.param == "mysql":
        request.getfixturevalue("mysql_program")
    if request.param not in chains:
        key = bytes(range(32)) if request.param == "mariadb" else None
        chains[request.param] = build(lab, request.param, tmp_path_factory.mktemp("target") / "b", key)
    return chains[request.param]


def restored(lab, chain: Chain, goal: RestoreGoal | None, name: str = "back"):
    request = RestoreRequest(chain.base.id, name, "gp3:4", goal, unpaced=True)
    return restore.restore(lab, chain.target, request, chain.key)


def drawn(chain: Chain, last: bool = True):
    """Commits at random; without the `last` one where a moment within it is asked for: the archive
    may have ended before that moment, and such a goal is refused."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed).sample(chain.behind_base()[: None if last else -1], RESTORES)


def test_a_restore_ends_at_the_gtid(lab, chain):
    for commit in drawn(chain):
        gtid = chain.gtid_of(commit)
        done = restored(lab, chain, RestoreGoal(gtid=GtidSet.parse(gtid, chain.source.flavor)))
        with gone_after(done.server):
            assert rows_of(done.server) == list(range(commit.row + 1)), (gtid, done.replay)
        assert done.replay is not None and done.replay.last_gtid == gtid


def test_a_restore_ends_at_the_moment(lab, chain):
    """All that was acknowledged before the moment is there on MySQL, but for the one transaction
    that was under way; nothing that was sent after it. MariaDB's log knows whole seconds, so what
    it may lack is said."""
    if RESTORES == 1 and chain.source.flavor == "mariadb":
        pytest.skip("one flavor by default: RESTORES=20 for both")
    for commit in drawn(chain, last=False):
        moment = (commit.before + commit.after) / 2
        try:
            done = restored(lab, chain, RestoreGoal(moment_us=int(moment * 1e6)))
        except InputError as error:
            # A moment within the last second of MariaDB's archive: it may not have ended.
            assert chain.source.flavor == "mariadb" and "end of timeline" in error.rule, error
            continue
        with gone_after(done.server):
            there = rows_of(done.server)
        assert there == list(range(len(there)))
        assert len(there) <= commit.row + 1, "a row from after the moment"
        assert done.replay is not None
        assert len(there) + done.replay.doubt >= commit.row, "a row from before the moment is missing, and not in doubt"
        if chain.source.flavor == "mysql":
            assert done.replay.doubt == 0


def test_a_backup_is_proved(lab, chain):
    """Restored up to now, and every table equal to the source's."""
    if RESTORES == 1 and chain.source.flavor == "mysql":
        pytest.skip("one flavor by default: RESTORES=20 for both")
    proof = proving.prove(lab, chain.target, chain.base.id, "gp3:4", chain.source, chain.key, unpaced=True)
    assert proof.ok and proof.tables == 1 and proof.against == chain.source.name
    assert manifest.read_proof(chain.target, chain.base.id, chain.key) == proof
    # A table that differs is found: the same proof against other checksums.
    truth = proving.read_table_sums(chain.source)
    other = replace(truth, by_table={name: 1 for name in truth.by_table})
    assert proving.describe_differences(truth, truth) == "" and "different from" in proving.describe_differences(
        other, truth
    )


def test_the_stream_is_at_most_a_second_behind(chain):
    """From the acknowledgement of a commit to its piece in the target."""
    ages = []

    def number(gtid: str) -> int:
        return int(gtid.rpartition("-" if mariadb else ":")[2] or 0)

    mariadb = chain.source.flavor == "mariadb"
    at = 0
    for commit in chain.commits:
        mine = number(chain.gtid_of(commit))
        while at < len(chain.arrived) and number(chain.arrived[at][1]) < mine:
            at += 1
        assert at < len(chain.arrived), "an acknowledged commit never came"
        ages.append(chain.arrived[at][0] - commit.after)
    ages.sort()
    print(
        f"RPO {chain.source.flavor}: p50 {ages[len(ages) // 2]:.3f} s, p99 {ages[int(len(ages) * 0.99)]:.3f} s, n {len(ages)}"
    )


def test_goals_out_of_reach_are_refused_before_anything_is_made(lab, chain, tmp_path):
    flavor = chain.source.flavor
    first = GtidSet.parse(chain.gtid_of(chain.commits[0]), flavor)
    late = int((time.time() + 3600) * 1e6)
    for goal, words in (
        (RestoreGoal(gtid=first), "before the backup"),
        (RestoreGoal(moment_us=late), "after the end"),
        (RestoreGoal(moment_us=int(chain.commits[0].before * 1e6) - 10_000_000), "before the backup"),
    ):
        with pytest.raises(InputError, match=words):
            restored(lab, chain, goal, "never")
    assert not [volume for volume in lab.volumes() if (volume["name"] or "").startswith("never")]
    with pytest.raises(InputError, match="never writes over data"):
        restored(lab, chain, None, chain.server.name)


def copied(chain: Chain, folder: Path):
    shutil.copytree(chain.target.folder, folder)  # type: ignore[attr-defined]
    return open_target(folder)


def collect(target, chain: Chain, folder: Path):
    """Collects the history that a restore tests before it creates anything."""
    base = GtidSet.parse(chain.base.position.gtid, chain.source.flavor)
    histories = archive.read_timelines(target, chain.key)
    folder.mkdir()
    return moments.collect(target, moments.choose(histories, chain.base, base), base, RestoreGoal(), folder, chain.key)


def test_a_damaged_archive_is_found_before_the_restore(chain, tmp_path):
    """A file of the archive is flipped, cut, removed, doubled or swapped, the first behind the base
    and the last among them: each time it is named, and a restore of all there is is refused, or
    brings all."""
    whole = collect(copied(chain, tmp_path / "whole"), chain, tmp_path / "relay")
    assert whole.transactions >= len(chain.behind_base())
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance, refused = random.Random(seed), 0
    result = damages(chain.target, "binlogs/", chance, DAMAGES)
    for number, entry in enumerate(result):
        target = copied(chain, tmp_path / str(number))
        damage(tmp_path / str(number), entry, chance)
        problems = [
            problem
            for line in archive.read_timelines(target, chain.key)
            for problem in checking.check_timeline(target, line, chain.key).problems
        ]
        assert problems, f"{entry} is not named"
        try:
            rest = collect(target, chain, tmp_path / f"relay-{number}")
        except InputError as error:
            refused += 1
            assert "damaged" in error.rule and error.hint and "--latest" not in error.hint, (entry, error)
        else:
            # Before the base nothing is needed.
            assert rest.transactions == whole.transactions, f"{entry}: lost in silence"
        shutil.rmtree(tmp_path / str(number))
    print(f"{len(result)} damages: {len(result)} named, {refused} refused, {len(result) - refused} before the base")
    assert refused


def test_the_first_piece_behind_the_base(chain, tmp_path):
    """An archive whose readable part ends just at the backup is refused, and is not "0
    transactions"."""
    target, base = copied(chain, tmp_path / "t"), GtidSet.parse(chain.base.position.gtid, chain.source.flavor)
    (line,) = archive.read_timelines(target, chain.key)
    name = next(
        name
        for file in line.files
        for name, piece in zip(file.names, file.pieces, strict=True)
        if not piece.set.is_empty and not base.contains(piece.set)
    )
    path = tmp_path / "t" / name
    raw = bytearray(path.read_bytes())
    raw[60] ^= 1
    path.write_bytes(bytes(raw))
    with pytest.raises(InputError, match="is damaged") as refusal:
        collect(target, chain, tmp_path / "relay")
    assert name in refusal.value.rule and "transactions lie behind" in refusal.value.rule and refusal.value.hint


def test_every_flipped_bit_is_found(chain, tmp_path):
    """In any file of the target, anywhere in it."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    target = copied(chain, tmp_path / "flipped")
    names = [entry for entry in target.list() if entry.size]
    for _ in range(FLIPS):
        choice = chance.choice(names)
        path, bit = tmp_path / "flipped" / choice.name, chance.randrange(8 * choice.size)
        data = bytearray(path.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
        problems = list(checking.check_backup(target, chain.base.id, chain.key).problems)
        for line in archive.read_timelines(target, chain.key):
            problems += checking.check_timeline(target, line, chain.key).problems
        assert problems, f"bit {bit} of {choice.name} was flipped, and nothing was found"
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
