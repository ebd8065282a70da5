"""The stream beside its receiver, which writes on at any moment: whatever the two do in which order, the archive
has one timeline with all that was received."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_histories import BEGAN, LogFile

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
    look: the next file then did not join on, and a second timeline began."""
    chance, number, files = random.Random(seed), 0, []
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"

    def span(last: int) -> str:
        return "" if not last else f"{uuid}:1-{last}" if flavor == "mysql" else f"0-1-{last}"

    for place in range(1, FILES + 1):
        file = LogFile(flavor, span(number))
        for _ in range(chance.randrange(5)):
            number += 1
            file.commit(f"{uuid}:{number}" if flavor == "mysql" else f"0-1-{number}", BEGAN)
        # A server that crashed ends its file without a word.
        if place < FILES and chance.random() < 0.7:
            file.rotate(f"binlog.{place + 1:06d}")
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
        while following.is_alive() and not (stream.state.file == files[-1][0] and stream.state.stored_to == size):
            following.join(0.005)
    finally:
        stream.stop.set()
        following.join(60)
        stream._joiner.close()
    (line,) = archive.read_timelines(target)
    assert not notes and not line.problems, (notes, line.problems)
    assert [file.name for file in line.files] == [name for name, _ in files]
    assert line.ends == GtidSet.parse(span(number), flavor)
