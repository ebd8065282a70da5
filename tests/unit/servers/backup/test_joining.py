"""Pieces of a binary log that are joined while it is written: few files, and never a byte less."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from made_histories import BEGAN, LogFile, keep
from waiting import wait_until

from headrace.errors import CouldNotRun, InputError
from headrace.servers.backup.history import archive, joining
from headrace.servers.backup.history.joining import FilePieces, Joiner, group_pieces
from headrace.servers.backup.targets.folder import FolderTarget

LIVE = 150  # transactions, and about as many pieces


@pytest.fixture
def log(tmp_path) -> tuple[FolderTarget, LogFile, Path]:
    """A binary log in an archive, a piece for each transaction, and its bytes on this machine."""
    file, places = LogFile("mariadb", ""), []
    for number in range(1, LIVE + 1):
        places.append(len(file.raw))
        file.commit(f"0-1-{number}", BEGAN + number, random.Random(number).randrange(40, 400))
    target = FolderTarget(tmp_path / "t")
    keep(target, "shop-server-1-1", "shop", "server-1", [file], None, [places])
    (tmp_path / "binlog.000001").write_bytes(bytes(file.raw))
    return target, file, tmp_path / "binlog.000001"


def content(target, line) -> bytes:
    (file,) = line.files
    return b"".join(
        part
        for name, piece in zip(file.names, file.pieces, strict=True)
        for part in archive.read_piece_bytes(target, name, piece, None)
    )


def join_all(target, path, pieces, ended) -> list[str]:
    messages: list[str] = []
    joiner = Joiner(target, None, "none", messages.append)
    joiner.begin(path, pieces, ended)
    joiner.close()
    return messages


def test_a_list_while_pieces_are_joined_has_every_byte(log, monkeypatch):
    """All pieces are joined, and another file's folder is removed, between the names and the sizes
    of a list; and a file that goes at every look takes no other file with it."""
    target, file, path = log
    (before,) = archive.read_timelines(target)
    target.put_new("binlogs/other/only", b"")
    assert not FolderTarget(path.parent / "missing").list()
    real, joined = os.stat, []

    def stat(place, **more):
        if "live-" in str(place) and not joined:
            joined.append(place)
            target.remove("binlogs/other/only")
            assert not join_all(target, path, FilePieces(before.files[0].pieces), ended=True)
        return real(place, **more)

    monkeypatch.setattr(os, "stat", stat)
    (after,) = archive.read_timelines(target)
    assert joined and not after.problems and content(target, after) == bytes(file.raw)

    def stat_others(place, **more):
        if "joined-" in str(place):
            raise FileNotFoundError(place)
        return real(place, **more)

    whole = [entry.name for entry in target.list()]
    monkeypatch.setattr(os, "stat", stat_others)
    assert [entry.name for entry in target.list()] == [name for name in whole if "joined-" not in name] != []


def test_a_joined_file_has_the_same_bytes_transactions_and_times(log):
    target, file, path = log
    (before,) = archive.read_timelines(target)
    pieces = FilePieces(before.files[0].pieces)
    assert not join_all(target, path, pieces, ended=False)
    (after,) = archive.read_timelines(target)
    assert len(after.files[0].pieces) == 1 and not after.problems
    assert content(target, after) == bytes(file.raw) and after.ends == before.ends
    was, now = before.files[0].entries, after.files[0].entries
    assert sum(entry.transactions for entry in was) == sum(entry.transactions for entry in now) == LIVE
    assert (now[0].first_us, now[-1].last_gtid) == (was[1].first_us, was[-1].last_gtid)
    assert pieces.all == [replace(piece, stored="") for piece in after.files[0].pieces]
    # A reader that listed the pieces before they were joined reads on.
    assert content(target, before) == bytes(file.raw)


def test_pieces_of_a_file_that_is_not_the_one_stored_stay(log):
    target, file, path = log
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    (before,) = archive.read_timelines(target)
    [text] = join_all(target, path, FilePieces(before.files[0].pieces), ended=False)
    assert "not the file of this server" in text
    assert content(target, archive.read_timelines(target)[0]) == bytes(file.raw)


def test_a_target_that_refused_is_tried_again_after_more_pieces_and_noted_once(log, monkeypatch):
    target, file, path = log
    (before,) = archive.read_timelines(target)
    all_pieces, messages, tries = before.files[0].pieces, [], []
    pieces = FilePieces()

    def try_to_join() -> None:
        """One try, as of a stream that is never stopped, until it has ended."""
        joiner.begin(path, pieces, ended=False)
        wait_until(lambda: not joiner.busy, "the end of a try")

    def refuse(*_):
        tries.append(pieces.live)
        raise CouldNotRun("the target", "is full")

    joiner = Joiner(target, None, "none", messages.append)
    monkeypatch.setattr(archive, "write_piece", refuse)
    for piece in all_pieces[: 2 * joining.JOIN_AFTER]:
        pieces.add(piece)
        if pieces.due:
            try_to_join()
    first, second = tries
    assert second - first == joining.JOIN_AFTER, "a try for every JOIN_AFTER pieces, not for each"
    [text] = messages
    assert "is full" in text and "tried again" in text
    monkeypatch.undo()
    try_to_join()  # there is room again
    assert pieces.live == 0 and not pieces.due and len(messages) == 1
    assert content(target, archive.read_timelines(target)[0]) == bytes(file.raw)
    monkeypatch.setattr(archive, "write_piece", refuse)
    for piece in all_pieces[2 * joining.JOIN_AFTER :]:
        pieces.add(piece)
    try_to_join()
    joiner.close()
    assert len(messages) == 2, "another failure, since a join"


@pytest.mark.parametrize("at", [0, 1, 2, LIVE // 2])
def test_a_stream_that_is_killed_while_it_joins_leaves_a_whole_archive(log, at, monkeypatch):
    """Before the joined piece is stored, or behind so many removals; the next one ends it."""
    target, file, path = log
    (before,) = archive.read_timelines(target)
    real, calls = FolderTarget.remove, []

    def remove(self, name):
        calls.append(name)
        if len(calls) > at:
            raise InputError(name, "killed")
        real(self, name)

    monkeypatch.setattr(FolderTarget, "remove", remove)
    join_all(target, path, FilePieces(before.files[0].pieces), ended=True)
    monkeypatch.undo()
    (timeline,) = archive.read_timelines(target)
    assert not timeline.problems and content(target, timeline) == bytes(file.raw)
    assert len(timeline.files[0].pieces) == 1 and len(timeline.files[0].spare) == len(before.files[0].pieces) - at
    join_all(target, path, FilePieces(timeline.files[0].pieces), ended=True)
    assert len([entry for entry in target.list("binlogs/") if "/joined-" in entry.name or "/live-" in entry.name]) == 1


def test_a_damaged_joined_piece_is_passed_over_where_the_small_ones_are_there(log, tmp_path):
    target, file, path = log
    (before,) = archive.read_timelines(target)
    whole = {entry.name: (tmp_path / "t" / entry.name).read_bytes() for entry in target.list("binlogs/")}
    join_all(target, path, FilePieces(before.files[0].pieces), ended=True)
    (joined,) = [entry.name for entry in target.list("binlogs/") if "/joined-" in entry.name]
    for name, raw in whole.items():
        if "/live-" in name:
            (tmp_path / "t" / name).write_bytes(raw)
    (tmp_path / "t" / joined).write_bytes(b"damaged")
    (line,) = archive.read_timelines(target)
    assert content(target, line) == bytes(file.raw)
    assert [damage.name for damage in line.damages] == [joined] and line.damages[0].harmless


def test_the_number_of_pieces_is_bounded(monkeypatch):
    """A stream of pieces of any sizes, joined whenever there are JOIN_AFTER live ones: the number of
    pieces stays below the full ones, JOIN_AFTER, and one for each doubling; a byte is written again
    no more often than there are doublings."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    monkeypatch.setattr(joining, "WHOLE_BYTES", 1 << 20)
    pieces, at, written = FilePieces(), 0, 0
    doublings = 20  # of 1 byte to 1 MiB
    for _ in range(5_000):
        size = chance.choice([100, 500, 3_000])
        gtids = [[], []]
        pieces.add(
            archive.Piece("live", "t-1", "b.000001", at, size, "mysql", gtids, False, "", "", "none", False, "", ())
        )
        at += size
        if pieces.due:
            for group in group_pieces(pieces.all, ended=False):
                first, last = group[0], group[-1]
                length = last.ends - first.offset
                assert length <= joining.WHOLE_BYTES
                pieces.put(
                    archive.Piece(
                        "joined",
                        "t-1",
                        "b.000001",
                        first.offset,
                        length,
                        "mysql",
                        gtids,
                        False,
                        "",
                        "",
                        "none",
                        False,
                        "",
                        (),
                    )
                )
                written += length
        ends = [piece.ends for piece in pieces.all]
        assert ends[:-1] == [piece.offset for piece in pieces.all][1:] and ends[-1] == at
        # Two neighbours that are not joined are together larger than WHOLE_BYTES, or differ by half.
        assert len(pieces.all) <= 2 * at / joining.WHOLE_BYTES + joining.JOIN_AFTER + doublings
    assert written <= doublings * at
