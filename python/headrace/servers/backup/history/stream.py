"""Streams a server's binary log, as it is written, into the archive of a target.

The server's own tool receives it (mysqlbinlog --raw --stop-never) into a folder of this machine.
Every event is tested, complete transactions are stored as a piece a few times a second, and each
file must continue the file before it: a gap is noticed when it arises, not at a restore. Behind a
gap a new timeline begins, so a timeline never has two histories. Pieces are joined while the
file is still written (`joining`).

After `kill -9` the next stream fetches the current file again, tests that it is the same, and
continues behind the last piece.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.base.machine import add_death_signal
from headrace.base.processes import find_telling_lines, spawn
from headrace.base.units import MIB
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.address import TOOL_ENVIRONMENT
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.history import archive
from headrace.servers.backup.history import events as binlog
from headrace.servers.backup.history.joining import FilePieces, Joiner
from headrace.servers.backup.targets.target import DAMAGED, MISSING, TAKEN, BackupTarget, refuse
from headrace.servers.backup.unfinished import RunMark, make_own_mark, read_mark, write_mark
from headrace.servers.copies.folders import hold_folder, make_id
from headrace.servers.copies.pipeline import END_S, choose_pack
from headrace.servers.copies.source import CopySource, fetch_rows, make_client_file
from headrace.servers.flavors import READERS

# A piece is stored at least this often while something is written, s: a quarter of the second that
# a crash may cost (docs/guide/backups.md, "How much a crash may cost").
EVERY_S = 0.25
LOOK_EVERY_S = 0.02
# Seconds after which the index says again how far the archive goes, and no more often than pieces
# are stored: damage behind the last index can hide no more than a crash may cost.
INDEX_S = 1.0
LIVE_BYTES = 8 * MIB  # a guess: what is held in memory
READ_BYTES = 4 * MIB
# Most bytes on this machine: the receiver is stopped beyond them until the target has caught up.
SPOOL_BYTES = 2 << 30
# Time that a target may refuse before the stream gives up, and between tries of a source, s.
TARGET_S, SOURCE_S = 60.0, 1.0
# Ids of replicas have 32 bits; two with one id end each other's connections, so it is drawn.
LEAST_ID, MOST_ID = 1 << 30, (1 << 31) - 1
MOST_NOTES = 1_000
ONE_STREAM = "One stream for a server and target: end the other one, and stream again."


@dataclass
class StreamState:
    """The progress of a stream. `file`: the current binary log; `stored_to`: bytes of it that are
    stored. `pieces`, `transactions`: numbers of those stored by this stream; `last_us`: when the
    last one was committed, µs, Unix. `ages_s`: age of the first transaction of each piece when it
    was stored, s, by the server's clock; with MariaDB's whole seconds up to 1 s too much."""

    timeline: str = ""
    file: str = ""
    stored_to: int = 0
    pieces: int = 0
    transactions: int = 0
    stored_bytes: int = 0
    last_gtid: str = ""
    last_us: int = 0
    ages_s: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Stream:
    """Streams the binary log of one server into one target until `stop` is set."""

    def __init__(
        self,
        source: CopySource,
        target: BackupTarget,
        key: bytes | None = None,
        every_s: float = EVERY_S,
        pack: str | None = None,
        tell: Callable[[StreamState], None] = lambda state: None,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Takes the server and the target. `key`: encrypts pieces, None for plain ones; `every_s`:
        longest time between pieces while something is written, s; `pack`: program that packs joined
        pieces, None for `choose_pack`. `tell` gets the state after each piece, `note` each
        message."""
        self.source, self.target, self.key, self.every_s = source, target, key, every_s
        self.pack = pack or choose_pack()
        self.tell, self._note = tell, note
        self.stop = threading.Event()
        self.state = StreamState()
        self.archived = GtidSet(source.flavor)
        self._reader: binlog.Reader | None = None
        self._parser: binlog.TransactionParser | None = None
        self._waiting: list[binlog.Transaction] = []  # complete, and not stored yet
        self._read = 0  # bytes of the current file that were read
        self._about: dict[str, object] = {}  # the timeline's server, for the index
        self._pieces = FilePieces()  # of the current file
        self._indexed, self._indexed_s = archive.ArchiveEnd(), 0.0
        self._claimed = GtidSet(source.flavor)  # the end in the index before this stream
        self._joiner = Joiner(target, key, self.pack, self._note)
        self._unverified: tuple[archive.Entry, ...] = ()  # stored, and not compared with the file received again
        self._last_numbers: dict[str, int] = {}  # by domain (MariaDB)
        self._first, self._begun = False, False  # file of its timeline; its earlier GTIDs were checked
        self._child: subprocess.Popen[bytes] | None = None
        self._receiver_stopped = False
        self._marked: tuple[str, RunMark] | None = None

    def run(self, begin: str | None = None) -> StreamState:
        """Streams until `stop` is set, and returns the state. `begin`: the binary log with which a
        new archive begins, None for the oldest. Raises InputError for a server that cannot be
        streamed or an account without rights, CouldNotRun if the target refuses for a minute."""
        _check_source(self.source)
        self.spool = Path(tempfile.gettempdir()) / f"headrace-{make_id(self.source.name)}"
        with hold_folder(self.spool), make_client_file(self.source.address) as account:
            self.spool.mkdir(mode=0o700)
            self.account = account
            self._resume(begin)
            try:
                self._mark()
                while not self.stop.is_set():
                    self._receive()
                    self._follow()
                self._store()
                self._write_index(now=True)
            finally:
                self._end_child()
                self._joiner.close()
                self._unmark()
        return self.state

    def _mark(self) -> None:
        """Marks the timeline as streamed by this process."""
        name, mark = f"binlogs/{self.state.timeline}/{archive.STREAMING}", make_own_mark(self.source.name, None)
        self._retry(lambda: write_mark(self.target, name, mark))
        self._marked = name, mark

    def _unmark(self) -> None:
        """Removes this stream's mark, unless another process has replaced it; ignores errors."""
        if self._marked is not None:
            name, mark = self._marked
            with contextlib.suppress(HeadraceError, OSError):
                if read_mark(self.target, name) == mark:
                    self.target.remove(name)

    # --- where to go on ---------------------------------------------------------------------------

    def _resume(self, begin: str | None) -> None:
        """Sets the stream to the end of this server's archive. Begins an archive at `begin` if
        there is none, and a new timeline if the server no longer has what follows the last one."""
        stem = archive.make_stem(self.source.name, self.source.id)
        mine = [each for each in archive.read_timelines(self.target, self.key) if each.id.rpartition("-")[0] == stem]
        there = self._list_logs()
        if not mine or not mine[-1].files and not mine[-1].damages:
            number = archive.parse_timeline_number(mine[-1].id) if mine else 1
            first = begin or there[0]
            if first not in there:
                rule = f"is not a binary log of {self.source.name}: it has {there[0]} to {there[-1]}"
                raise refuse.input(repr(first)[:80], rule, "Leave --from out to begin with the oldest.")
            self._begin_timeline(number, first)
            return
        last = mine[-1]
        self.state.timeline = last.id
        self._refuse_second(last.id)
        if why := _explain_unusable(last):
            self._begin_after_gap(f"the archive of timeline {last.id} is damaged at its end ({why})", there[0])
            return
        for problem in last.problems:
            self._tell(f"problem: {problem}")
        self.archived, self._claimed = last.ends, GtidSet.parse(last.end.gtid, last.flavor)
        self._about, self._indexed = archive.read_description(self.target, last.id, self.key), last.end
        file = last.files[-1]
        if file.ended:
            # A server may skip numbers: it names a file by the highest number in its folder.
            following = _find_later(there, file.name)
            if not following and file.name in there:
                # It has not been made yet: the receiver waits for it behind this one.
                self._open(file, stored=file.ends)
                return
            if following and (file.name in there or following == binlog.make_next_name(file.name)):
                self._open_file(following)
                return
        elif file.name in there:
            self._open(file, stored=file.ends)
            return
        self._begin_after_gap(
            f"{self.source.name} no longer has what follows {file.name} of timeline {last.id}", there[0]
        )

    def _refuse_second(self, timeline: str) -> None:
        """Raises InputError if another process of this machine streams the timeline. A process of
        another machine collides at a piece or at the index: then the one that is behind ends."""
        by = read_mark(self.target, f"binlogs/{timeline}/{archive.STREAMING}")
        if by is not None and by.here and by.alive and by.pid != os.getpid():
            began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(by.began_unix))
            rule = f"is being streamed by process {by.pid}, since {began}"
            raise refuse.input(f"timeline {timeline}", rule, ONE_STREAM)

    def _list_logs(self) -> list[str]:
        """Lists the names of the server's binary logs, oldest first. Raises InputError if they are
        not plain names."""
        with self.source.connect() as connection:
            names = [str(row[0]) for row in fetch_rows(connection, "SHOW BINARY LOGS")]
        if not names or not binlog.FILE.fullmatch(names[0]):
            rule = f"its binary logs have no names that can be kept: {names[:1]}"
            raise refuse.input(self.source.name, rule, "Set log_bin to a plain name.")
        return names

    def _begin_timeline(self, number: int, file: str) -> None:
        """Begins the timeline of this number at the binary log `file`: writes its index to the
        target, and sets the stream to the start of the file."""
        self.state.timeline = f"{archive.make_stem(self.source.name, self.source.id)}-{number}"
        self.archived = self._claimed = GtidSet(self.source.flavor)
        self._about = {
            "flavor": self.source.flavor,
            "version": self.source.version_text,
            "source": self.source.name,
            "source_id": self.source.id,
            "began_unix": time.time(),
            "begins": file,
        }
        self._indexed = end = archive.ArchiveEnd()
        # An existing index is of a stream that was killed here, before it stored a piece.
        new = not self.target.exists(f"binlogs/{self.state.timeline}/{archive.INDEX}")
        about, timeline = self._about, self.state.timeline
        self._retry(lambda: archive.write_index(self.target, timeline, about, end, self.key, new))
        if self._marked is not None:  # a mark of the timeline before says nothing about this one
            self._unmark()
            self._mark()
        self._first = True
        self._open_file(file)

    def _tell(self, text: str) -> None:
        """Adds a message to the notes of the state, and gives it to `note`."""
        self.state.notes.append(text)
        self._note(text)

    def _begin_after_gap(self, why: str, file: str) -> None:
        """Begins a new timeline at the binary log `file`, behind the gap `why` (in words)."""
        number = archive.parse_timeline_number(self.state.timeline) + 1
        stem = archive.make_stem(self.source.name, self.source.id)
        self._tell(f"{why}: timeline {stem}-{number} begins; take a new backup as its base")
        self._end_child()
        if self._about:
            self._write_index(now=True)
        self._begin_timeline(number, file)

    def _open_file(self, name: str) -> None:
        """Sets the stream to the start of a binary log of which nothing is read or stored yet."""
        self.state.file, self.state.stored_to = name, 0
        self._read, self._pieces, self._waiting = 0, FilePieces(), []
        self._unverified, self._begun, self._last_numbers = (), False, {}
        self._reader, self._parser = binlog.Reader(name), binlog.TransactionParser(name)

    def _open(self, file: archive.ArchivedFile, stored: int) -> None:
        """Continues inside of a file, of which the first `stored` bytes are stored."""
        self._open_file(file.name)
        self.state.stored_to, self._unverified, self._first = stored, tuple(file.entries), False
        self._pieces = FilePieces(file.pieces)
        self._begun = True

    # --- receiving --------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Starts the receiver at the current file, if it does not run."""
        if self._child is not None and self._child.poll() is None:
            return
        if self._child is not None:
            self._handle_receiver_end()
        for old in self.spool.iterdir():
            old.unlink()
        # The receiver sends the file from its beginning: stored bytes are compared, and skipped.
        self._reader, self._parser = binlog.Reader(self.state.file), binlog.TransactionParser(self.state.file)
        self._read, self._waiting, self._unverified = 0, [], tuple(self._pieces.entries)
        command = build_receiver_command(self.source, self.account, self.spool, self.state.file)
        self._output_path = self.spool / "said"
        with open(self._output_path, "wb") as output:
            self._receiver_stopped = False
            environment = {**os.environ, **TOOL_ENVIRONMENT}
            self._child = spawn(command, stdout=output, stderr=output, folder=None, environment=environment)

    def _handle_receiver_end(self) -> None:
        """Handles the end of the receiver by what it said. If its source is down it waits SOURCE_S
        seconds; if that has purged the file, another file or timeline is begun."""
        output = self._output_path
        message = find_telling_lines(output.read_text(errors="replace")) if output.exists() else ""
        self._child = None
        if "Access denied" in message or "REPLICATION SLAVE" in message:
            rule = f"may not read the binary log: {message}"
            raise refuse.input(self.source.address.label, rule, "GRANT REPLICATION SLAVE, REPLICATION CLIENT.")
        if "Could not find first log" in message or "purged" in message:
            there = self._list_logs()
            following = _find_later(there, self.state.file)
            if following and not self.state.stored_to and not self._first:
                self._open_file(following)  # the server has skipped a number, if it joins on
                return
            self._begin_after_gap(f"{self.source.name} no longer has {self.state.file}", there[0])
            return
        text = f"{self.source.name} is away: {message}"
        if not self.state.notes or self.state.notes[-1] != text:
            self._tell(text)
        self.stop.wait(SOURCE_S)

    def _end_child(self) -> None:
        """Kills the receiver if there is one, waits up to END_S seconds for its end, and removes
        its output."""
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        self._output_path.unlink(missing_ok=True)

    # --- storing ----------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Reads and stores what the receiver writes, until that has ended or `stop` is set."""
        stored = time.monotonic()
        while not self.stop.is_set() and self._child is not None:
            # Both are read before the file: then the bytes read from it are complete. A receiver at
            # a later file has written all of this one.
            alive, newer = self._child.poll() is None, _find_later(os.listdir(self.spool), self.state.file)
            followed = bool(newer) and (self.spool / self.state.file).exists()
            came = self._take()
            parser = self._parser
            assert parser is not None
            full = self._find_reach() - self.state.stored_to >= LIVE_BYTES
            done = bool(parser.next_file or parser.stopped)
            if full or done or time.monotonic() - stored >= self.every_s:
                self._store()
                stored = time.monotonic()
            self._write_index()
            if self._pieces.due and not self._unverified and not self._joiner.busy:
                self._joiner.begin(self.spool / self.state.file, self._pieces, ended=False)
            if not came and (self._read >= parser.whole_to if done else followed):
                self._finish()
                continue
            if not came and not alive:
                return
            if not came:
                self.stop.wait(LOOK_EVERY_S)
            self._pause_receiver()

    def _find_reach(self) -> int:
        """Returns the byte up to which the file can be stored: the end of a transaction, or a place
        inside of one that is larger than a piece, and perhaps larger than the memory."""
        assert self._parser is not None and self._reader is not None
        whole, read = self._parser.whole_to, self._reader.offset
        return read if read - max(whole, self.state.stored_to) >= LIVE_BYTES else whole

    def _pause_receiver(self) -> None:
        """Stops the receiver (SIGSTOP) while more than SPOOL_BYTES are not read, and resumes it
        below half of them. A source that waits too long ends the connection."""
        child = self._child
        if child is None:
            return
        waiting = sum(file.stat().st_size for file in self.spool.iterdir()) - self._read
        if not self._receiver_stopped and waiting > SPOOL_BYTES:
            self._receiver_stopped, number = True, signal.SIGSTOP
        elif self._receiver_stopped and waiting < SPOOL_BYTES // 2:
            self._receiver_stopped, number = False, signal.SIGCONT
        else:
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended, and is started again
            os.killpg(child.pid, number)

    def _take(self) -> bool:
        """Reads the next bytes of the current file, adds the transactions that they complete to
        `_waiting`, and returns whether there were any bytes."""
        path, reader, parser = self.spool / self.state.file, self._reader, self._parser
        assert reader is not None and parser is not None
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(self._read)
                data = file.read(READ_BYTES)
        except FileNotFoundError:
            # The receiver makes its files in order: one that is missing before another never comes.
            if (later := _find_later(os.listdir(self.spool), self.state.file)) and not path.exists():
                self._open_file(later)
            return False
        if not data:
            return False
        self._read += len(data)
        for event in reader.feed(data):
            ended = parser.see(event)
            if parser.earlier is not None and not self._begun:
                self._begun = True
                self._check_join(GtidSet.parse(parser.earlier, self.source.flavor))
                if self._parser is not parser:
                    return True
            if ended is not None and ended.ends > self.state.stored_to:
                self._check_next(ended)
                self._waiting.append(ended)
        return True

    def _check_join(self, earlier: GtidSet) -> None:
        """Begins a new timeline if the current file does not continue the archive. `earlier`: the
        GTIDs executed before the file, which become the archive's at its first file."""
        if self._first:
            self._first, self.archived = False, earlier
            return
        archived = archive.as_position(self.archived)
        missing, extra = earlier.minus(archived), archived.minus(earlier)
        if not missing.is_empty:
            self._begin_after_gap(
                f"{missing.count():,} transactions before {self.state.file} never came", self.state.file
            )
        elif not extra.is_empty:
            why = f"{self.source.name} has lost {extra.count():,} transactions that are stored ({str(extra)[:80]})"
            self._begin_after_gap(why, self.state.file)

    def _check_next(self, transaction: binlog.Transaction) -> None:
        """Adds a note for a transaction of MariaDB whose number does not follow the last one of its
        domain. No bytes are missing, their chain was tested, but the server has skipped numbers."""
        if self.source.flavor != "mariadb" or not transaction.gtid:
            return
        domain, _, number = transaction.gtid.split("-")
        last = self._last_numbers.get(domain) or self.archived.get_last_number(domain)
        self._last_numbers[domain] = int(number)
        if last and int(number) != last + 1 and len(self.state.notes) < MOST_NOTES:
            self.state.notes.append(f"after {domain}-*-{last} came {transaction.gtid}")

    def _find_ending(self) -> str:
        """Returns how the file ended: "rotate", "stop", or "" if its end was not read."""
        assert self._parser is not None
        return "rotate" if self._parser.next_file else "stop" if self._parser.stopped else ""

    def _store(self, ended: str = "") -> None:
        """Stores the complete transactions that are not stored yet, as one piece or several.
        `ended`: how the file ended, "" to see that from its events."""
        parser = self._parser
        if parser is None or not self._begun:
            return
        self._check_prefix()
        if self._parser is not parser:  # another file was begun
            return
        start = self.state.stored_to
        end = max(start, self._find_reach())
        ended = ended or (self._find_ending() if self._read >= end else "")
        if end <= start and ended != "crash":
            return
        while start < end or ended == "crash":
            stop = self._find_cut(start, end)
            piece, data = self._make_piece(start, stop, ended if stop == end else "")
            self._retry(lambda piece=piece, data=data: self._put(piece, data))
            self._count_piece(piece, data)
            start = stop
            if start >= end:
                break

    def _put(self, piece: archive.Piece, data: bytes) -> None:
        """Stores a piece. Accepts the same one if it exists: the answer to an earlier try was lost.
        Raises InputError for another one."""
        try:
            archive.write_piece(self.target, piece, data, self.key)
        except InputError:
            name = archive.make_piece_name(piece)
            if not self.target.exists(name):
                raise
            there = archive.read_piece(self.target, name, self.key)
            if replace(there, stored="") != replace(piece, stored=""):
                raise

    def _find_cut(self, start: int, end: int) -> int:
        """Returns the byte where a piece ends that begins at byte `start`, at most at `end`: with a
        transaction, up to 8 MiB on; a larger transaction lies in several pieces."""
        if end - start <= LIVE_BYTES:
            return end
        fit = [transaction.ends for transaction in self._waiting if start < transaction.ends <= start + LIVE_BYTES]
        return fit[-1] if fit else start + LIVE_BYTES

    def _check_prefix(self) -> None:
        """Compares what was received again with what is stored, as far as it was read. Begins a new
        timeline if the file is another."""
        while self._unverified and self._unverified[0].offset + self._unverified[0].length <= self._read:
            entry, self._unverified = self._unverified[0], self._unverified[1:]
            if hashlib.sha256(self._read_bytes(entry.offset, entry.offset + entry.length)).hexdigest() != entry.sha256:
                self._begin_after_gap(
                    f"{self.state.file} of {self.source.name} is not the file that is stored", self._list_logs()[0]
                )
                return

    def _read_bytes(self, start: int, end: int) -> bytes:
        """Reads the bytes from `start` to `end` of the current file."""
        with open(self.spool / self.state.file, "rb", buffering=0) as file:
            file.seek(start)
            return file.read(end - start)

    def _make_piece(self, start: int, end: int, ended: str) -> tuple[archive.Piece, bytes]:
        """Returns the piece from byte `start` to `end` of the current file, with these bytes, and
        takes its transactions off `_waiting`. `ended`: how the file ends, "" if it goes on."""
        assert self._parser is not None
        data = self._read_bytes(start, end)
        mine = [transaction for transaction in self._waiting if start < transaction.ends <= end]
        self._waiting = self._waiting[len(mine) :]
        entry = archive.Entry(
            start,
            end - start,
            hashlib.sha256(data).hexdigest(),
            len(mine),
            mine[0].gtid if mine else "",
            mine[-1].gtid if mine else "",
            mine[0].time_us if mine else 0,
            mine[-1].time_us if mine else 0,
        )
        gtids = archive.make_set((transaction.gtid for transaction in mine), self.source.flavor)
        piece = archive.Piece(
            kind="live",
            timeline=self.state.timeline,
            file=self.state.file,
            offset=start,
            length=end - start,
            flavor=self.source.flavor,
            gtids=archive.encode_set(gtids),
            begins=start == 0,
            earlier=self._parser.earlier or "" if start == 0 else "",
            ended=ended,
            packed="none",
            encrypted=self.key is not None,
            stored="",
            entries=(entry,) if data else (),
        )
        return piece, data

    def _count_piece(self, piece: archive.Piece, data: bytes) -> None:
        """Adds a stored piece with the bytes `data` to the state, and gives that to `tell`."""
        state = self.state
        self.archived = self.archived.union(piece.set)
        self._pieces.add(piece)
        state.stored_to, state.pieces, state.stored_bytes = piece.ends, state.pieces + 1, state.stored_bytes + len(data)
        for entry in piece.entries:
            state.transactions += entry.transactions
            if entry.transactions:
                state.last_gtid, state.last_us = entry.last_gtid, entry.last_us
                state.ages_s.append(time.time() - entry.first_us / 1e6)
                del state.ages_s[:-100_000]
        self.tell(state)

    def _write_index(self, now: bool = False) -> None:
        """Writes the end of the archive to the index, if INDEX_S seconds have passed or `now` is
        set. The index never goes back: an end with lost transactions stays until they are stored
        again. Raises InputError if another stream has written a later end."""
        state = self.state
        wait = max(INDEX_S, self.every_s)
        if not state.stored_to or not now and time.monotonic() - self._indexed_s < wait:
            return
        archived = archive.as_position(self.archived)
        end = archive.ArchiveEnd(state.file, state.stored_to, str(archived))
        if end == self._indexed or not archived.contains(self._claimed):
            return

        def write() -> None:
            there = archive.read_end(self.target, state.timeline, self.key)
            beyond = (archive.split_name(there.file), there.offset) > (archive.split_name(end.file), end.offset)
            # This stream is behind another one, and its pieces would never be read.
            if there != self._indexed and beyond:
                rule = "says something else than this stream wrote: does another stream write to it?"
                place = f"{self.target.label}/binlogs/{state.timeline}/{archive.INDEX}"
                raise refuse.input(place, rule, ONE_STREAM, kind=DAMAGED)
            archive.write_index(self.target, state.timeline, self._about, end, self.key)

        self._retry(write)
        self._indexed, self._indexed_s = end, time.monotonic()

    def _finish(self) -> None:
        """Stores the end of the current file, has its pieces joined, and begins the next."""
        self._store(ended=self._find_ending() or "crash")
        self._write_index(now=True)
        name = self.state.file
        if not self._unverified:
            self._joiner.begin(self.spool / name, self._pieces, ended=True)
        (self.spool / name).unlink(missing_ok=True)
        self._open_file(self._find_next())
        self._first = False

    def _find_next(self) -> str:
        """Returns the name of the binary log behind the current one: by its rotation, else the next
        one that was received, else the one with the next number."""
        assert self._parser is not None
        name, ending = self.state.file, self._parser.next_file or ""
        if binlog.FILE.fullmatch(ending):
            return ending
        return _find_later(os.listdir(self.spool), name) or binlog.make_next_name(name)

    def _retry(self, work: Callable[[], object]) -> None:
        """Does the work, and repeats it while it raises CouldNotRun, for TARGET_S seconds or until
        `stop` is set. Raises InputError, and then CouldNotRun."""
        until, wait, reported = time.monotonic() + TARGET_S, 0.1, False
        while True:
            try:
                work()
                return
            except InputError as error:
                if error.kind not in (TAKEN, MISSING):
                    raise  # its own hint says what to do: about keys, a bucket
                raise refuse.run(error.value, f"{error.rule}: does another stream write to it?", ONE_STREAM) from None
            except CouldNotRun as error:
                if self.stop.is_set() or time.monotonic() >= until:
                    raise (self._make_final_error(error) if reported else error) from None
                if not reported:
                    self._note(f"{error.value} {error.rule}; trying again for {TARGET_S:.0f} s")
                    reported = True
                self.stop.wait(wait)
                wait = min(5.0, 2 * wait)

    def _make_final_error(self, error: CouldNotRun) -> CouldNotRun:
        """Returns the error that ends a stream whose target refuses, after its reason."""
        since = f"what came after {self.state.last_gtid}" if self.state.last_gtid else "what came"
        there = f"from {self.state.file} on" if self.state.file else "from its begin"
        hint = f"{error.hint} Then stream again: it goes on {there}, as long as the server has that."
        return refuse.run(self.target.label, f"took no more, so the stream ended: {since} is not stored", hint.strip())


def _find_later(names: Iterable[str], file: str) -> str:
    """Returns the first of the binary logs behind `file`, by their numbers; "" if there is none."""
    base, number = archive.split_name(file)
    numbers = {each: archive.split_name(each)[1] for each in names if archive.split_name(each)[0] == base}
    return min((each for each in numbers if numbers[each] > number), key=numbers.__getitem__, default="")


def build_receiver_command(source: CopySource, account: Path, folder: Path, file: str) -> list[str]:
    """Returns the command that receives binary logs from `file` on. It reads `account` alone."""
    number = random.SystemRandom().randint(LEAST_ID, MOST_ID)
    name = "--stop-never-slave-server-id" if source.flavor == "mariadb" else "--connection-server-id"
    command = [*add_death_signal(*source.find_tool(*READERS[source.flavor])), f"--defaults-file={account}"]
    command += ["--read-from-remote-server", "--raw", "--stop-never", f"{name}={number}"]
    return [*command, f"--result-file={folder}/", file]


def _explain_unusable(last: archive.Timeline) -> str:
    """Returns why no piece can be stored behind a timeline, in words; "" if one can: its index is
    missing, or pieces lie behind a damaged one."""
    if not last.files or not last.source_id:
        return next(iter(last.problems), "")
    end = archive.split_name(last.files[-1].name)
    at_end = [each for each in last.damages if each.name and not each.harmless and archive.split_name(each.file) >= end]
    return at_end[0].words if at_end else ""


def _check_source(source: CopySource) -> None:
    """Raises InputError for a server whose binary log cannot be archived for a restore."""
    if not source.log_bin:
        rule = "writes no binary log"
        raise refuse.input(source.name, rule, "Start it with log_bin: headrace mysql up NAME --set log_bin=ON.")
    with source.connect() as connection:
        if source.flavor == "mysql" and str(fetch_rows(connection, "SELECT @@gtid_mode")[0][0]) != "ON":
            hint = "Set gtid_mode=ON and enforce_gtid_consistency=ON."
            raise refuse.input(source.name, "has no GTIDs, so a gap could not be found", hint)
        if str(fetch_rows(connection, "SELECT @@binlog_checksum")[0][0]).upper() == "NONE":
            rule = "writes its binary log without checksums, so damage could not be found"
            raise refuse.input(source.name, rule, "SET GLOBAL binlog_checksum = CRC32.")
