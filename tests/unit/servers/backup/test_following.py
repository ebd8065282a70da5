"""The stream beside its receiver, which writes on at any moment: whatever the two do in which order, the archive
has one timeline with all that was received."""

from __future__ import annotations

import itertools
import random
import subprocess
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_histories import BEGAN, LogFile, keep
from waiting import wait_until

from headrace.errors import CouldNotRun, InputError
from headrace.mysql import binary_events as kinds
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.history import archive
from headrace.servers.backup.history.stream import Stream
from headrace.servers.backup.targets import open_target

FILES = 4


class BesideReceiver(Stream):
    """A stream whose receiver writes at random moments of it: between a look and a read, and while a piece is
    stored. At each of them it may write nothing, the rest of a file, or several files."""

    def begin(self, spool, files: list[tuple[str, bytes]], chance: random.Random) -> None:
        self.spool, self.chance, self.coming = spool, chance, files
        self._begin_timeline(1, files[0][0])
        self._child = cast(Any, SimpleNamespace(poll=lambda: None))

    def _end_child(self) -> None:
        """The stream ends where it would begin a second timeline."""
        self._child = None

    def receive(self) -> None:
        """Writes on, in order, some bytes."""
        for _ in range(self.chance.choice([0, 0, 1, 1, 2, 5])):
            if self.coming:
                (name, rest), *others = self.coming
                count = self.chance.choice([self.chance.randrange(1, 200), len(rest)])
                with open(self.spool / name, "ab") as file:
                    file.write(rest[:count])
                self.coming = [(name, rest[count:]), *others] if rest[count:] else others

    def _take(self) -> bool:
        self.receive()
        came = super()._take()
        self.receive()
        return came

    def _store(self, ended: str = "") -> None:
        super()._store(ended)
        self.receive()

    def _write_index(self, now: bool = False) -> None:
        super()._write_index(now)
        self.receive()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("seed", range(12))
def test_a_receiver_that_goes_on_to_the_next_file_loses_nothing(tmp_path, flavor, seed):
    """A file counted as ended when the next one was there, though its last bytes came between the read and that
    look: the next file then did not join on, and a second timeline began. Servers may skip numbers of files: they
    name one by the highest number in their folder."""
    chance, number, files = random.Random(seed), 0, []
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"

    def span(last: int) -> str:
        return "" if not last else f"{uuid}:1-{last}" if flavor == "mysql" else f"0-1-{last}"

    places = [*itertools.accumulate(chance.choice([1, 1, 3, 44]) for _ in range(FILES))]
    for place, behind in zip(places, [*places[1:], None], strict=True):
        file = LogFile(flavor, span(number))
        for _ in range(chance.randrange(5)):
            number += 1
            file.commit(f"{uuid}:{number}" if flavor == "mysql" else f"0-1-{number}", BEGAN)
        # A server that crashed ends its file without a word; one that was shut down does not know the next.
        if behind is not None and chance.random() < 0.5:
            file.rotate(f"binlog.{behind:06d}")
        elif behind is not None and chance.random() < 0.5:
            file.add(kinds.STOP, b"", BEGAN)
        files.append((f"binlog.{place:06d}", bytes(file.raw)))
    size = len(files[-1][1])
    target, spool = open_target(tmp_path / "t"), tmp_path / "spool"
    spool.mkdir()
    source = SimpleNamespace(flavor=flavor, name="a", id="server-1", version_text="10.11.19")
    notes: list[str] = []
    stream = BesideReceiver(cast(Any, source), target, every_s=0.0, note=notes.append)
    stream.begin(spool, files, chance)
    following = threading.Thread(target=stream._follow, daemon=True)
    following.start()
    try:
        wait_until(
            lambda: not following.is_alive() or stream.state.file == files[-1][0] and stream.state.stored_to == size,
            "the end of the last file",
        )
    finally:
        stream.stop.set()
        following.join(60)
        stream._joiner.close()
    (line,) = archive.read_timelines(target)
    assert not notes and not line.problems, (notes, line.problems)
    assert [file.name for file in line.files] == [name for name, _ in files]
    assert line.ends == GtidSet.parse(span(number), flavor)


class Resuming(Stream):
    """A stream of a server whose binary logs have these names."""

    def begin(self, spool, names: list[str]) -> None:
        self.spool, self.names = spool, names
        self._output_path = spool / "said"

    def _list_logs(self) -> list[str]:
        return self.names


@pytest.mark.parametrize("ended", [True, False])
def test_a_stream_goes_on_behind_a_skipped_number(tmp_path, ended):
    """The file behind the stored one has a number of its own; that there is none between them, only the list of the
    server's files says, or, once the stored one is purged, its GTIDs."""
    file, first, later = LogFile("mariadb", ""), "binlog.000001", "binlog.000051"
    file.commit("0-1-1", BEGAN)
    if ended:
        file.rotate(later)
    target = open_target(tmp_path / "t")
    keep(target, "a-server-1-1", "a", "server-1", [file], random.Random(15))
    source = SimpleNamespace(flavor="mariadb", name="a", id="server-1", version_text="10.11.19")
    (tmp_path / "said").write_text("ERROR: Could not find first log file name in binary log index file\n")

    def resume(*names: str) -> Resuming:
        stream = Resuming(cast(Any, source), target)
        stream.begin(tmp_path, [*names])
        stream._resume(None)
        return stream

    waiting = resume(first)
    assert (waiting.state.file, waiting.state.stored_to) == (first, len(file.raw))
    assert resume(first, "binlog.000002", later).state.file == ("binlog.000002" if ended else first)
    assert resume(first, later, "binlog.000052").state.file == (later if ended else first)
    # The receiver waited for 2, which was to come after a shutdown, and the server goes on with 51.
    for begun, expected in ((0, later), (120, first)):
        stream = resume(first)
        stream._open_file("binlog.000002")
        stream.state.stored_to, stream.names = begun, [first, later]
        stream._handle_receiver_end()
        assert stream.state.file == expected
        assert stream.state.timeline == ("a-server-1-1" if not begun else "a-server-1-2")
    assert resume(later).state.timeline == "a-server-1-2", "purged: what follows it is not known"


def make_stream(tmp_path) -> Resuming:
    source = SimpleNamespace(flavor="mariadb", name="a", id="server-1", version_text="10.11.19")
    stream = Resuming(cast(Any, source), open_target(tmp_path / "t"))
    stream.begin(tmp_path, ["binlog.000001"])
    return stream


def test_a_refusal_of_the_target_keeps_its_own_hint(tmp_path):
    """Another stream may write to it where a name is taken or gone, but not where keys have expired."""
    stream = make_stream(tmp_path)
    refusals = iter(
        [
            InputError("s3://b", "does not know the keys: ExpiredToken", "S3 error", "Set AWS_PROFILE."),
            stream.target.make_taken_error("binlogs/a/index"),
            stream.target.make_missing_error("binlogs/a/index"),
        ]
    )

    def refuse() -> None:
        raise next(refusals)

    with pytest.raises(InputError, match="ExpiredToken") as refusal:
        stream._retry(refuse)
    assert refusal.value.hint == "Set AWS_PROFILE." and "another stream" not in refusal.value.rule
    for _ in range(2):
        with pytest.raises(CouldNotRun, match="does another stream write to it"):
            stream._retry(refuse)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_receiver_that_has_ended_need_not_be_held(tmp_path, monkeypatch, stopped):
    stream = make_stream(tmp_path)
    child = subprocess.Popen(["true"], start_new_session=True)
    child.wait()
    (tmp_path / "binlog.000001").write_bytes(bytes(100))
    monkeypatch.setattr("headrace.servers.backup.history.stream.SPOOL_BYTES", 1_000 if stopped else 10)
    stream._child, stream._receiver_stopped = cast(Any, child), stopped
    stream._pause_receiver()
    assert stream._receiver_stopped is not stopped


def test_a_stream_marks_the_timeline_that_it_writes(tmp_path):
    """Behind a gap too: else a second stream of this machine begins beside it, and the older one may end."""
    stream = make_stream(tmp_path)
    stream._begin_timeline(1, "binlog.000001")
    stream._mark()
    stream._begin_after_gap("a gap", "binlog.000001")
    marks = [entry.name for entry in stream.target.list("binlogs/") if entry.name.endswith(archive.STREAMING)]
    assert marks == [f"binlogs/a-server-1-2/{archive.STREAMING}"]
    stream._unmark()
    assert not [entry for entry in stream.target.list("binlogs/") if entry.name.endswith(archive.STREAMING)]
