"""The journal of failovers: a file of JSON lines, each an event and its moment, that only its owner
may read. `planning/progress.py` has the events and what follows from them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headrace.base.files import explain_unwritable
from headrace.servers.failover.lease import LeaseTaken
from headrace.servers.failover.planning import progress as events
from headrace.servers.failover.planning.members import refuse
from headrace.servers.failover.planning.progress import AnyEvent, JournalHistory, Progress
from headrace.servers.failover.surroundings import REAL, Surroundings

# A journal is read whole; a failover writes some 50 lines of some 300 bytes.
MAX_BYTES = 16 << 20
# These survive this program but perhaps not this machine, as clients may be waiting: what they say
# is seen in the servers, is a moment of this boot, or can be done twice.
UNSYNCED = (
    events.StepBegan,
    events.StepDone,
    events.StepFailed,
    events.Proved,
    events.WritesClosed,
    events.Published,
    events.SettingsPostponed,
    events.SettingsStored,
    events.Noted,
)


class Line(msgspec.Struct, frozen=True):
    """A line of the journal: an event, and when it happened (UTC)."""

    at: datetime
    event: AnyEvent


ENCODER = msgspec.json.Encoder(order="deterministic")
DECODER = msgspec.json.Decoder(Line)


class Journal:
    """The journal's file, opened to append. `history`: the fold of its lines, read or written."""

    def __init__(self, path: Path, surroundings: Surroundings = REAL) -> None:
        self.path, self.surroundings, self.history = path, surroundings, JournalHistory()
        self._open()

    def _open(self) -> None:
        """Opens the journal to read and append; makes file and folder for this user alone. Raises
        CouldNotRun."""
        with explain_unwritable(self.path, "Name another folder.", refuse.source):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._file = os.fdopen(handle, "r+", encoding="utf-8")

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the file's lock during the block, so that two failovers of a cluster on this
        machine exclude each other; first removes a cut off line and reads the file. Raises
        LeaseTaken, without waiting, and InputError."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "Wait for it, or see what it does: headrace failover status."
            rule = "another failover of this cluster is under way"
            raise LeaseTaken(str(self.path), rule, refuse.source, hint) from None
        try:
            self._cut_partial_line()
            self.read()
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _cut_partial_line(self) -> None:
        """Removes a last line that a crash cut off, so that the next line is complete."""
        with open(self.path, "rb+") as file:
            content = file.read(MAX_BYTES + 1)
            if content and not content.endswith(b"\n") and len(content) <= MAX_BYTES:
                file.truncate(content.rfind(b"\n") + 1)

    def write(self, event: AnyEvent) -> None:
        """Appends an event to the file and to `history`, where it counts even if unwritten."""
        at = self.surroundings.read_unix_s()
        self.history = self.history.add_event(at, event)
        text = ENCODER.encode(Line(datetime.fromtimestamp(at, UTC), event)).decode() + "\n"
        # Early re-pointing leaves no trace on the servers.
        early = isinstance(event, events.StepBegan) and event.step.action == "repoint-early"
        self._append(text, early or not isinstance(event, UNSYNCED))

    def _append(self, text: str, sync: bool) -> None:
        """Appends a line, which is in the file when this returns, and with `sync` on the disk."""
        with explain_unwritable(self.path, "", refuse.source):
            self._file.write(text)
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())

    def _read_text(self) -> str:
        """Returns the file's content, at most MAX_BYTES and one."""
        self._file.seek(0)
        return self._file.read(MAX_BYTES + 1)

    def read_lines(self) -> Iterator[Line]:
        """Yields all lines, except a last line that a crash cut off. Raises InputError."""
        text = self._read_text()
        if len(text) > MAX_BYTES:
            raise refuse.input(str(self.path), f"a journal has at most {MAX_BYTES:,} bytes", "Set it aside.")
        *whole, _ = text.split("\n")
        for number, line in enumerate(whole, 1):
            try:
                yield DECODER.decode(line)
            except ValueError as error:  # msgspec's errors are ValueErrors
                rule, hint = f"is not a line of a journal: {error}", "Set the file aside."
                raise refuse.input(f"{self.path}:{number}", rule, hint) from None

    def read(self) -> JournalHistory:
        """Reads the file into `history`, and returns that. Raises InputError."""
        history = JournalHistory()
        for line in self.read_lines():
            history = history.add_event(line.at.timestamp(), line.event)
        self.history = history
        return history

    def read_unfinished(self) -> Progress | None:
        """Reads the file, and returns the change that began and did not end, as this boot of the
        machine may use it; None for none."""
        progress = self.read().progress
        return None if progress is None else progress.adapt_to_boot(self.surroundings.read_boot())
