"""History that a restore follows: its own, that of the promoted server, or none without a word."""

from __future__ import annotations

import random
import struct
import tracemalloc
import uuid
from dataclasses import replace

import pytest
from made_histories import BEGAN, LogFile, base_of, keep, replayed

from headrace.errors import InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup import restore
from headrace.servers.backup.history import archive, moments
from headrace.servers.backup.history.events import select_lacking
from headrace.servers.backup.history.moments import RestoreGoal
from headrace.servers.backup.restore import RestoreRequest
from headrace.servers.backup.targets import open_target

A, C = "aaaaaaaa-0000-4000-8000-000000000001", "cccccccc-0000-4000-8000-000000000003"


def mysql_file(*gtids: str, earlier: str = "", rows: int = 40) -> LogFile:
    file = LogFile("mysql", earlier)
    for place, gtid in enumerate(gtids):
        file.commit(gtid, BEGAN + place, rows)
    return file


def mariadb_file(*gtids: str, earlier: str = "") -> LogFile:
    file = LogFile("mariadb", earlier)
    for place, gtid in enumerate(gtids):
        file.commit(gtid, BEGAN + place)
    return file


def numbers(server: str, first: int, last: int) -> list[str]:
    return [f"{server}:{number}" for number in range(first, last + 1)]


def collected(target, folder, base, goal=None, named=None):
    goal, folder = goal or RestoreGoal(), folder / f"relay-{random.randrange(1 << 60)}"
    folder.mkdir()
    at = GtidSet.parse(base.position.gtid, base.flavor)
    chain = moments.choose(archive.read_timelines(target), base, at, named, goal)
    return moments.collect(target, chain, at, goal, folder)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("seed", range(8))
def test_files_that_hold_nothing_new_are_not_read(tmp_path, seed, flavor):
    """A log of some files, and a replica that has the first transactions: those files are left out whose transactions it
    has, and only those."""
    chance = random.Random(seed)
    name = (lambda number: f"{A}:{number}") if flavor == "mysql" else (lambda number: f"0-1-{number}")
    upto = (
        (lambda number: f"{A}:1-{number}" if number else "")
        if flavor == "mysql"
        else (lambda n: f"0-1-{n}" if n else "")
    )
    rpartitions, paths, number = [], [], 0
    for place in range(chance.randrange(1, 7)):
        file = LogFile(flavor, upto(number))
        for _ in range(chance.randrange(4)):
            number += 1
            file.commit(name(number))
        rpartitions.append([int(gtid.rpartition(":" if flavor == "mysql" else "-")[2]) for gtid, _ in file.gtids])
        paths.append(tmp_path / f"binlog.{place + 1:06d}")
        paths[-1].write_bytes(bytes(file.raw))
    for has in range(number + 1):
        result = select_lacking(paths, GtidSet.parse(upto(has), flavor))
        numbers_ofs = [numbers_of for path, numbers_of in zip(paths, rpartitions, strict=True) if path not in result]
        retained = [numbers_of for path, numbers_of in zip(paths, rpartitions, strict=True) if path in result]
        assert all(entry <= has for numbers_of in numbers_ofs for entry in numbers_of)
        assert result == paths[len(numbers_ofs) :] and (len(retained) == 1 or any(entry > has for entry in retained[0]))
    # The newest was only just begun when the server died: it tells nothing, and the one before does.
    torn = tmp_path / "binlog.000099"
    torn.write_bytes(bytes(LogFile(flavor, upto(number)).raw)[:50])
    assert select_lacking([*paths, torn], GtidSet.parse(upto(number), flavor))[-1] == torn
    assert select_lacking([torn], GtidSet.parse("", flavor)) == [torn]


@pytest.mark.parametrize("seed", range(12))
def test_a_restore_follows_the_promoted_server(tmp_path, seed):
    """A source fails after its transaction `last`; its replica has them all, has purged its log up to
    `purged`, and takes `more` of its own. Any base and goal against what must be there."""
    chance = random.Random(seed)
    target, last = open_target(tmp_path / "t"), chance.randrange(6, 20)
    purged, more, at = chance.randrange(0, last), chance.randrange(1, 12), chance.randrange(1, last)
    keep(target, "a-1", "a", A, [mysql_file(*numbers(A, 1, last))], chance)
    own = [*numbers(A, purged + 1, last), *numbers(C, 1, more)]
    keep(target, "c-1", "c", C, [mysql_file(*own, earlier=f"{A}:1-{purged}" if purged else "")], chance)
    base = base_of("a", A, "mysql", f"{A}:1-{at}")
    plan = collected(target, tmp_path, base)
    assert replayed(plan.logs) == [*numbers(A, at + 1, last), *numbers(C, 1, more)]
    assert plan.executed == GtidSet.parse(f"{A}:1-{last},{C}:1-{more}", "mysql")
    assert plan.timeline == ("c-1" if purged <= at else "a-1, c-1")
    goal = chance.randrange(1, more + 1)
    plan = collected(target, tmp_path, base, RestoreGoal(GtidSet.parse(f"{C}:{goal}", "mysql")))
    assert replayed(plan.logs)[-1] == f"{C}:{goal}" and plan.transactions == last - at + goal
    if at < last:
        plan = collected(target, tmp_path, base, RestoreGoal(GtidSet.parse(f"{A}:{last}", "mysql")))
        assert replayed(plan.logs) == numbers(A, at + 1, last) and plan.timeline == "a-1"


def test_a_promoted_server_that_lost_some_is_not_followed_without_a_word(tmp_path):
    """A replica that never had the last two: which history is meant must be said."""
    target, chance = open_target(tmp_path / "t"), random.Random(14)
    keep(target, "a-1", "a", A, [mysql_file(*numbers(A, 1, 10))], chance)
    keep(target, "c-1", "c", C, [mysql_file(*numbers(C, 1, 5), earlier=f"{A}:1-8")], chance)
    base = base_of("a", A, "mysql", f"{A}:1-3")
    with pytest.raises(InputError, match="never had 2 transactions") as refusal:
        collected(target, tmp_path, base)
    assert "--timeline a-1" in refusal.value.hint and "--timeline c-1" in refusal.value.hint
    assert replayed(collected(target, tmp_path, base, named="a-1").logs) == numbers(A, 4, 10)
    other = collected(target, tmp_path, base, named="c-1")
    assert replayed(other.logs) == [*numbers(A, 4, 8), *numbers(C, 1, 5)]
    plan = collected(target, tmp_path, base, RestoreGoal(GtidSet.parse(f"{A}:9", "mysql")))
    assert replayed(plan.logs)[-1] == f"{A}:9"


def test_numbers_of_mariadb_that_were_used_again_are_seen(tmp_path):
    """Server 1 lost 9 and 10; server 2 used the numbers for others. By number alone the second
    would hold all of the first."""
    target, chance = open_target(tmp_path / "t"), random.Random(14)
    first = [f"0-1-{number}" for number in range(1, 11)]
    second = [f"0-2-{number}" for number in range(9, 16)]
    keep(target, "a-1", "a", "server-1", [mariadb_file(*first)], chance)
    keep(target, "c-1", "c", "server-2", [mariadb_file(*second, earlier="0-1-8")], chance)
    base = base_of("a", "server-1", "mariadb", "0-1-3")
    with pytest.raises(InputError, match="is of server 1 in the other history, and here 0-2-10"):
        collected(target, tmp_path, base)
    assert replayed(collected(target, tmp_path, base, named="a-1").logs) == first[3:]
    plan = collected(target, tmp_path, base, named="c-1")
    assert replayed(plan.logs) == [*first[3:8], *second] and str(plan.executed) == "0-2-15"
    # A base with a transaction that was lost does not go on in the second at all.
    with pytest.raises(InputError, match="is of server 1 in the other history"):
        collected(target, tmp_path, base_of("a", "server-1", "mariadb", "0-1-9"), named="c-1")


def test_another_server_of_the_same_id_is_another(tmp_path):
    """Most servers of MariaDB have server_id 1: their logs fit every base by number."""
    target, chance = open_target(tmp_path / "t"), random.Random(14)
    keep(target, "shop-1", "shop", "server-1", [mariadb_file(*(f"0-1-{n}" for n in range(1, 11)))], chance)
    keep(target, "till-1", "till", "server-1", [mariadb_file(*(f"0-1-{n}" for n in range(1, 21)))], chance)
    shop, till = (base_of(name, "server-1", "mariadb", "0-1-4") for name in ("shop", "till"))
    assert str(collected(target, tmp_path, shop).executed) == "0-1-10"
    assert str(collected(target, tmp_path, till).executed) == "0-1-20"
    with pytest.raises(InputError, match="no binary log of its source"):
        collected(target, tmp_path, base_of("depot", "server-1", "mariadb", "0-1-4"))


def test_a_hole_between_two_servers_is_refused(tmp_path):
    target, chance = open_target(tmp_path / "t"), random.Random(14)
    keep(target, "a-1", "a", A, [mysql_file(*numbers(A, 1, 10))], chance)
    keep(target, "c-1", "c", C, [mysql_file(*numbers(C, 1, 5), earlier=f"{A}:1-12")], chance)
    base = base_of("a", A, "mysql", f"{A}:1-3")
    with pytest.raises(InputError, match="the archive begins later: 9 transactions"):
        collected(target, tmp_path, base, named="c-1")
    with pytest.raises(InputError, match="after the end of timeline a-1"):
        collected(target, tmp_path, base, RestoreGoal(GtidSet.parse(f"{C}:1", "mysql")))
    assert replayed(collected(target, tmp_path, base).logs) == numbers(A, 4, 10)


def test_a_goal_inside_a_gap_is_refused_and_one_before_it_is_met(tmp_path):
    """The middle one of three files is gone: what lies in it or behind it cannot be had, by GTID or
    by moment; what lies before it can."""
    target = open_target(tmp_path / "t")
    files = []
    for first in (1, 11, 21):
        file = LogFile("mysql", f"{A}:1-{first - 1}" if first > 1 else "")
        for number in range(first, first + 10):
            file.commit(f"{A}:{number}", BEGAN + 60 * number)
        if first < 21:
            file.rotate(f"binlog.{(first + 19) // 10:06d}")
        files.append(file)
    keep(target, "a-1", "a", A, files, random.Random(14))
    base = base_of("a", A, "mysql", f"{A}:1-3")
    assert replayed(collected(target, tmp_path, base).logs) == numbers(A, 4, 30)
    for entry in target.list("binlogs/a-1/binlog.000002/"):
        target.remove(entry.name)
    for number in (11, 15, 20, 25, 30):
        moment = RestoreGoal(moment_us=(BEGAN + 60 * number + 30) * 1_000_000)
        for goal in (RestoreGoal(GtidSet.parse(f"{A}:1-{number}", "mysql")), moment):
            with pytest.raises(InputError) as refusal:
                collected(target, tmp_path, base, goal)
            assert refusal.value.hint, refusal.value
    for number in (4, 9):
        goal = RestoreGoal(GtidSet.parse(f"{A}:1-{number}", "mysql"))
        assert replayed(collected(target, tmp_path, base, goal).logs) == numbers(A, 4, number)
        moment = RestoreGoal(moment_us=(BEGAN + 60 * number + 30) * 1_000_000)
        assert replayed(collected(target, tmp_path, base, moment).logs) == numbers(A, 4, number)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_two_histories_of_one_server_in_one_folder(tmp_path, flavor):
    """The server lost 8 to 10 in a crash and used their numbers again: which is meant is asked for,
    and either can be had; what lies before both need not be asked. After a reset all of it is."""
    name = {"mysql": lambda n: f"{A}:{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    span = {"mysql": lambda n: f"{A}:1-{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    server = A if flavor == "mysql" else "server-1"
    target = open_target(tmp_path / "t")
    first, lost, second = (LogFile(flavor, earlier) for earlier in ("", span(7), span(7)))
    for number in range(1, 11):
        (first if number < 8 else lost).commit(name(number), BEGAN + 60 * number)
    first.rotate("binlog.000002")
    for number in range(8, 13):
        second.commit(name(number), BEGAN + 3600 + 60 * number, 44)
    keep(target, "a-1", "a", server, [first, lost], random.Random(14))
    keep(target, "a-2", "a", server, [second], random.Random(14))
    base = base_of("a", server, flavor, span(3))
    ends = [RestoreGoal(GtidSet.parse(span(number), flavor)) for number in (8, 10, 12)]
    for goal in (RestoreGoal(), *ends, RestoreGoal(moment_us=(BEGAN + 590) * 1_000_000)):
        with pytest.raises(InputError, match="used the numbers of 3 transactions again, in a-2") as refusal:
            collected(target, tmp_path, base, goal)
        assert "--timeline a-1, or --timeline a-2" in refusal.value.hint
    assert replayed(collected(target, tmp_path, base, named="a-1").logs) == [name(n) for n in range(4, 11)]
    assert replayed(collected(target, tmp_path, base, named="a-2").logs) == [name(n) for n in range(4, 13)]
    plan = collected(target, tmp_path, base, RestoreGoal(GtidSet.parse(span(7), flavor)))
    assert replayed(plan.logs) == [name(n) for n in range(4, 8)]
    plan = collected(target, tmp_path, base, RestoreGoal(moment_us=(BEGAN + 390) * 1_000_000))
    assert replayed(plan.logs) == [name(n) for n in range(4, 7)]
    with pytest.raises(InputError, match="used the numbers"):
        collected(target, tmp_path, base_of("a", server, flavor, span(9)))
    plan = collected(target, tmp_path, base_of("a", server, flavor, span(11)))
    assert replayed(plan.logs) == [name(12)], "only the second has the eleventh"


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_what_was_streamed_again_behind_damage_is_not_asked_for(tmp_path, flavor):
    """The end of the first timeline is lost, and the next stream began with the same file. A server
    that was reset, or whose file ended earlier, may have used the numbers again: then it is asked."""
    name = {"mysql": lambda n: f"{A}:{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    span = {"mysql": lambda n: f"{A}:1-{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    server = A if flavor == "mysql" else "server-1"
    base = base_of("a", server, flavor, span(3))

    def streamed(begun: int, last: int) -> LogFile:
        file = LogFile(flavor, "")
        for number in range(1, last + 1):
            file.commit(name(number), begun + 60 * number)
        return file

    cut = len(streamed(BEGAN, 6).raw)
    for kind, again in (
        ("streamed again", streamed(BEGAN, 12)),
        ("reset", streamed(BEGAN + 3600, 12)),
        ("shorter", streamed(BEGAN, 8)),
    ):
        target = open_target(tmp_path / kind)
        keep(target, "a-1", "a", server, [streamed(BEGAN, 10)], random.Random(15), places=[[cut]])
        [lost] = [entry.name for entry in target.list("binlogs/a-1/") if f"live-{cut:020d}" in entry.name]
        (tmp_path / kind / lost).write_bytes(b"damaged")
        later = [again]
        if kind == "shorter":  # it lost 9 and 10 in a crash, and goes on with others in its next file
            again.rotate("binlog.000002")
            later.append(LogFile(flavor, span(8)))
            for number in range(9, 13):
                later[1].commit(name(number), BEGAN + 7200 + number)
        keep(target, "a-2", "a", server, later, random.Random(15))
        if kind == "streamed again":
            assert replayed(collected(target, tmp_path, base).logs) == [name(n) for n in range(4, 13)]
            continue
        with pytest.raises(InputError, match="cannot be read to its end") as refusal:
            collected(target, tmp_path, base)
        assert "--timeline a-2" in refusal.value.hint
        assert replayed(collected(target, tmp_path, base, named="a-2").logs) == [name(n) for n in range(4, 13)]


@pytest.mark.parametrize("seed", range(6))
def test_a_goal_that_the_log_skips_is_refused(tmp_path, seed):
    """The binary log of a filtered replica has some of its source's numbers: a goal is reached exactly, or refused."""
    chance, target = random.Random(seed), open_target(tmp_path / "t")
    there = sorted(chance.sample(range(1, 30), chance.randrange(6, 12)))
    keep(target, "a-1", "a", "server-1", [mariadb_file(*(f"0-1-{number}" for number in there))], chance)
    base = base_of("a", "server-1", "mariadb", f"0-1-{there[1]}")
    for number in range(there[1] + 1, there[-1] + 1):
        goal = RestoreGoal(GtidSet.parse(f"0-1-{number}", "mariadb"))
        if number in there:
            plan = collected(target, tmp_path, base, goal)
            assert str(plan.executed) == f"0-1-{number}"
            assert replayed(plan.logs) == [f"0-1-{each}" for each in there[2:] if each <= number]
        else:
            with pytest.raises(InputError, match=f"number {number} of domain 0 is missing"):
                collected(target, tmp_path, base, goal)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("seed", range(4))
def test_a_moment_within_the_time_of_a_copy_is_refused_if_the_copy_is_later(tmp_path, seed, flavor):
    """A copy that runs from BEGAN on and has the data of its end, where a binary log ends too: no file that is read has a
    transaction of the copy."""
    chance = random.Random(seed)
    name = {"mysql": lambda n: f"{A}:{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    span = {"mysql": lambda n: f"{A}:1-{n}", "mariadb": lambda n: f"0-1-{n}"}[flavor]
    server, last = A if flavor == "mysql" else "server-1", chance.randrange(2, 6)
    first, second = LogFile(flavor, ""), LogFile(flavor, span(last))
    for number in range(1, last + 1):
        first.commit(name(number), BEGAN + 60 * number)
    first.rotate("binlog.000002")
    for number in range(last + 1, last + 4):
        second.commit(name(number), BEGAN + 3600 + 60 * number)
    target = open_target(tmp_path / "t")
    keep(target, "a-1", "a", server, [first, second], chance)
    base = base_of("a", server, flavor, span(last)).with_(began_unix=BEGAN - 5.0, ended_unix=BEGAN + 900.0)
    request = RestoreRequest(base.id, "back", "gp3:4")

    def collect(target, seconds: float, manifest):
        goal = RestoreGoal(moment_us=int((BEGAN + seconds) * 1_000_000))
        work = tmp_path / f"work-{random.randrange(1 << 60)}"
        work.mkdir()
        return restore._collect(target, manifest, replace(request, goal=goal), None, work, lambda share, what: None)

    for number in range(1, last):
        with pytest.raises(InputError, match="is before the backup"):
            collect(target, 60 * number + 30, base)
    for seconds in (60 * last + 30, 880, 1200):
        assert collect(target, seconds, base).transactions == 0
    assert replayed(collect(target, 3600 + 60 * (last + 2) + 30, base).logs) == [name(last + 1), name(last + 2)]
    # The binary logs of the copy are pruned: how late its data are is not known, but that it ended then.
    pruned = open_target(tmp_path / "pruned")
    keep(pruned, "a-1", "a", server, [second], chance)
    for seconds in (30, 60 * last + 30, 880):
        with pytest.raises(InputError, match="is before the backup"):
            collect(pruned, seconds, base)
    assert collect(pruned, 1200, base).transactions == 0
    # A dump has the data of its begin.
    assert collect(pruned, 30, base.with_(method="logical")).transactions == 0


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_a_clock_that_steps_by_an_hour(tmp_path, step_s, flavor):
    """A restore to a moment ends before the first transaction of a later time, in the log's order:
    never with a hole, whatever the clock did."""
    file, chance = LogFile(flavor, ""), random.Random(14)
    names = numbers(A, 1, 20) if flavor == "mysql" else [f"0-1-{number}" for number in range(1, 21)]
    times = [BEGAN + 60 * n + (step_s if n >= 10 else 0) for n in range(1, 21)]
    for name, time_s in zip(names, times, strict=True):
        file.commit(name, time_s)
    target, server = open_target(tmp_path / "t"), A if flavor == "mysql" else "server-1"
    keep(target, "a-1", "a", server, [file], chance)
    base = base_of("a", server, flavor, f"{A}:1-1" if flavor == "mysql" else "0-1-1")
    for _ in range(20):
        moment = chance.randrange(min(times[1:]), max(times))
        # MariaDB's times are whole seconds: those of the moment's own second are left out.
        later = next(place for place, at in enumerate(times) if at > moment or (at == moment and flavor == "mariadb"))
        if later < 2:
            continue
        plan = collected(target, tmp_path, base, RestoreGoal(moment_us=moment * 1_000_000))
        assert replayed(plan.logs) == names[1:later]


def test_the_tenth_timeline_is_the_last(tmp_path):
    target = open_target(tmp_path / "t")
    for number in (9, 10, 2):
        keep(target, f"a-{number}", "a", A, [mysql_file(*numbers(A, 1, number))], random.Random(number))
    assert [timeline.id for timeline in archive.read_timelines(target)] == ["a-2", "a-9", "a-10"]


def test_a_transaction_larger_than_a_piece_is_not_held_in_memory(tmp_path):
    """96 MiB in pieces of 1 MiB: what is collected at once stays far below (an 8 GB transaction
    goes the same way; one event, that is one row, is at most 1 GiB)."""
    file = LogFile("mysql", "")
    file.commit(f"{A}:1")
    size = 96 << 20
    total = 19 + 42 + 7 + 9 + 4 + 19 + 8 + 4
    whole = [(1 << 20) - 23] * (size >> 20)
    begun = len(file.raw)
    file.commit(f"{A}:2")
    del file.raw[begun:]
    body = struct.pack("<B16sqBqq", 0, uuid.UUID(A).bytes, 2, 2, 0, 1) + (BEGAN * 10**6).to_bytes(7, "little")
    total += sum(19 + entry + 4 for entry in whole) - 4 + 4
    file.add(33, body + b"\xfe" + struct.pack("<Q", total), BEGAN)
    for member in whole:
        file.add(30, b"r" * member, BEGAN)
    file.add(16, bytes(8), BEGAN)
    file.commit(f"{A}:3")
    target = open_target(tmp_path / "t")

    class Even(random.Random):
        """Cuts every MiB."""

        def randrange(self, start, stop=None, step=1):
            if stop is None:
                self.at = 0
                return len(whole)
            self.at += 1 << 20
            return min(self.at, stop - 1)

    keep(target, "a-1", "a", A, [file], Even())
    tracemalloc.start()
    plan = collected(target, tmp_path, base_of("a", A, "mysql", f"{A}:1-1"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert plan.transactions == 2 and plan.logs[0].stat().st_size > size
    # About eleven pieces are in hand at a time, whatever the size; what other threads of the test
    # program allocate meanwhile counts as well (1 MiB was seen), so the bound is three times that.
    assert most < size / 3


def test_a_piece_that_was_stored_already_is_not_an_error(tmp_path):
    """The answer to a first try was lost. Another stream's piece of the same place is one."""
    from dataclasses import replace
    from types import SimpleNamespace
    from typing import Any, cast

    from headrace.servers.backup.history.stream import Stream

    target = open_target(tmp_path / "t")
    keep(target, "a-1", "a", A, [mysql_file(*numbers(A, 1, 3))], random.Random(2))
    streaming = Stream(cast(Any, SimpleNamespace(flavor="mysql")), target)
    name = next(entry.name for entry in target.list("binlogs/") if "/live-" in entry.name)
    piece = archive.read_piece(target, name, None)
    data = b"".join(archive.read_piece_bytes(target, name, piece, None))
    streaming._put(piece, data)
    with pytest.raises(InputError, match="never overwritten"):
        streaming._put(replace(piece, gtids=[[], []]), data)
