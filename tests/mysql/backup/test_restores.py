"""Restores to a GTID and to a moment, from a base under load and a streamed binary log.

RESTORES=20 restores so many times to each; by default once. DAMAGES: pieces of the archive that are
damaged in each way, beside the last one (`make soak`: 1000, all). The goals are drawn with a seed that is
printed.
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

from headrace.errors import InputError
from headrace.servers.backup import checking, manifest, proving, restore
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets.opening import open_target
from headrace.servers.topology.gtid import GtidSet

RESTORES = int(os.environ.get("RESTORES", "1"))
FLIPS = int(os.environ.get("FLIPS", "10"))
DAMAGES = int(os.environ.get("DAMAGES", "4"))


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def chain(request, lab, tmp_path_factory, machine) -> Chain:
    if request.param == "mysql":
        request.getfixturevalue("mysql_program")
    key = bytes(range(32)) if request.param == "mariadb" else None
    return build(lab, request.param, tmp_path_factory.mktemp("target") / "b", key)


def restored(lab, chain: Chain, goal: RestoreGoal | None, name: str = "back"):
    wanted = RestoreRequest(chain.base.id, name, "gp3:4", goal, unpaced=True)
    return restore.restore(lab, chain.target, wanted, chain.key)


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
    truth = proving.table_sums(chain.source)
    other = replace(truth, by_table={name: 1 for name in truth.by_table})
    assert proving.compared(truth, truth) == "" and "differ" in proving.compared(other, truth)


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
    assert not [one for one in lab.volumes() if (one["name"] or "").startswith("never")]
    with pytest.raises(InputError, match="never writes over data"):
        restored(lab, chain, None, chain.server.name)


def copied(chain: Chain, folder: Path):
    shutil.copytree(chain.target.folder, folder)  # type: ignore[attr-defined]
    return open_target(folder)


def collect(target, chain: Chain, folder: Path):
    """What a restore tests before it makes anything."""
    base = GtidSet.parse(chain.base.position.gtid, chain.source.flavor)
    histories = archive.timelines(target, chain.key)
    folder.mkdir()
    return moments.collect(target, moments.choose(histories, chain.base, base), base, RestoreGoal(), folder, chain.key)


def test_a_damaged_archive_is_found_before_the_restore(chain, tmp_path):
    """A piece is removed, cut or altered: each time it is refused, or what is left is a shorter
    history that ends cleanly (the last piece removed)."""
    whole = collect(copied(chain, tmp_path / "whole"), chain, tmp_path / "relay")
    assert whole.transactions >= len(chain.behind_base())
    needed = [one.name for one in chain.target.list("binlogs/") if not one.name.endswith("timeline.json")]
    last, seed = needed[-1], random.randrange(1 << 32)
    print("seed", seed)
    needed = [*random.Random(seed).sample(needed[:-1], min(DAMAGES, len(needed) - 1)), last]
    for number, (name, how) in enumerate((name, how) for name in needed for how in ("removed", "cut", "altered")):
        folder = tmp_path / str(number)
        target, path = copied(chain, folder), folder / name
        if how == "removed":
            path.unlink()
        elif how == "cut":
            os.truncate(path, path.stat().st_size // 2)
        else:
            data = bytearray(path.read_bytes())
            data[len(data) * 2 // 3] ^= 1
            path.write_bytes(bytes(data))
        told = [
            one
            for line in archive.timelines(target, chain.key)
            for one in checking.check_timeline(target, line, chain.key).problems
        ]
        last_removed = how == "removed" and name == last
        try:
            left = collect(target, chain, tmp_path / f"relay-{number}")
        except InputError as error:
            assert error.hint, f"{name} {how}: nothing to do next"
        else:
            # Before the base nothing is needed, and a check says what is wrong there. Without its
            # last piece an archive is a shorter one.
            assert last_removed or told, f"{name} {how}: not found"
            assert last_removed or left.transactions == whole.transactions, f"{name} {how}: lost in silence"
        shutil.rmtree(folder)


def test_every_flipped_bit_is_found(chain, tmp_path):
    """In any file of the target, anywhere in it."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    target = copied(chain, tmp_path / "flipped")
    names = [one for one in target.list() if one.size]
    for _ in range(FLIPS):
        one = chance.choice(names)
        path, bit = tmp_path / "flipped" / one.name, chance.randrange(8 * one.size)
        data = bytearray(path.read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
        problems = list(checking.check_backup(target, chain.base.id, chain.key).problems)
        for line in archive.timelines(target, chain.key):
            problems += checking.check_timeline(target, line, chain.key).problems
        assert problems, f"bit {bit} of {one.name} was flipped, and nothing was found"
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(data))
