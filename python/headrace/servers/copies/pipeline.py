"""Runs programs joined by pipes: one makes a copy, others pack and encrypt it; and the same
backwards.

    mariabackup | zstd | openssl | -> pieces for the target        `Flow.read_pieces`
    pieces of the target -> | openssl -d | zstd -d | mbstream -x   `Flow.feed`

No key and no password stands in an argument or the environment: openssl reads its key from a pipe.
Every program is in a session of its own and is ended with the flow, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.base.machine import add_death_signal, find_executable, require_program
from headrace.base.processes import PRIVATE_ENVIRONMENT, User, find_telling_lines, spawn
from headrace.base.units import MIB
from headrace.errors import CouldNotRun
from headrace.mysql.address import TOOL_ENVIRONMENT

READ_BYTES = MIB
# Pieces that a source may be ahead of its target: twice what a folder flushes at once (32 MiB).
AHEAD_PIECES = 64
# Lines of a program's messages that are kept: enough for the reason of its failure.
MOST_LINES = 400
# Longest time for a program to end once its output has ended or it was asked to, s: a guess.
END_S = 30.0
# The kind of error of a program that ended by itself, and not for want of room.
EXITED = "exited"
ZSTD_LEVEL = 1  # the fastest of zstd's normal levels (zstd(1)); a backup competes with its server


@dataclass(frozen=True)
class Stage:
    """A program of a flow, with its command line (`arguments`), and its name in errors (`what`).
    `secret`: sent to it through a pipe whose file number replaces {fd} in an argument. `user`: the
    user that it runs as, None for this one. `fine`: exit codes of a success."""

    arguments: tuple[str, ...]
    what: str
    secret: bytes | None = None
    user: User | None = None
    folder: Path = Path("/")
    fine: tuple[int, ...] = (0,)


def make_packer(pack: str) -> list[Stage]:
    """Returns the programs that pack bytes, by their name, zstd or none."""
    if pack == "none":
        return []
    return [Stage((require_program("zstd", "zstd"), f"-{ZSTD_LEVEL}", "-T1", "-q", "-c"), "zstd")]


def make_unpacker(pack: str) -> list[Stage]:
    """Returns the programs that unpack the output of those of `make_packer`."""
    return [] if pack == "none" else [Stage((require_program("zstd", "zstd"), "-d", "-q", "-c"), "zstd")]


def choose_pack() -> str:
    """Returns zstd if it is installed, else none."""
    return "zstd" if find_executable("zstd") else "none"


def make_cipher(key: bytes | None, back: bool = False) -> list[Stage]:
    """Returns the program that encrypts, or decrypts (`back`), none without a key: AES-256 in
    counter mode with a new salt for each file. The sealed manifest detects changed bytes: it has
    their SHA-256 under an HMAC with the same key."""
    if key is None:
        return []
    # The key has 256 random bits, so nothing is gained by deriving it slowly: one round.
    program = (require_program("openssl", "openssl"), "enc", "-aes-256-ctr")
    options = ("-pbkdf2", "-iter", "1", "-md", "sha256", "-salt", *(("-d",) if back else ()), "-pass", "fd:{fd}")
    return [Stage((*program, *options), "openssl", secret=key.hex().encode())]


class Flow:
    """Programs joined by pipes. Use as a context manager: leaving it ends them."""

    def __init__(self, stages: list[Stage], on_line: Callable[[str], None] = lambda line: None) -> None:
        """Takes the programs, which are not started yet. `on_line`: called with each line that the
        first program writes to its error output."""
        self.stages, self.on_line = stages, on_line
        self.children: list[subprocess.Popen[bytes]] = []
        self.outputs: list[deque[str]] = [deque(maxlen=MOST_LINES) for _ in stages]
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the programs that still run, and waits up to END_S seconds for the end of each."""
        for child in self.children:
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            for stream in filter(None, (child.stdin, child.stdout)):
                with contextlib.suppress(OSError):
                    stream.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_S)
        for reader in self._readers:
            reader.join(END_S)

    def read_pieces(self, given: Iterable[bytes] | None = None) -> Iterator[bytes]:
        """Yields the output of the last program, in pieces of up to 1 MiB. `given`: the bytes for
        the first program, written by a thread. Raises CouldNotRun if a program fails, and what
        `given` raises."""
        self._start(subprocess.DEVNULL if given is None else subprocess.PIPE, last_stdout=subprocess.PIPE)
        pipe, last = self.children[0].stdin, self.children[-1].stdout
        assert last is not None
        failed: list[BaseException] = []

        def give() -> None:
            assert pipe is not None
            try:
                for piece in given or ():
                    pipe.write(piece)
            except BaseException as error:
                failed.append(error)
            with contextlib.suppress(OSError):
                pipe.close()

        giver = threading.Thread(target=give, daemon=True)
        if given is not None:
            giver.start()
        while piece := last.read(READ_BYTES):
            yield piece
        if given is not None:
            giver.join()
        if failed and not isinstance(failed[0], BrokenPipeError):
            raise failed[0]
        self._check(END_S)

    def feed(
        self, pieces: Iterable[bytes], stdout: int = subprocess.DEVNULL, on_failure: Callable[[], None] = lambda: None
    ) -> None:
        """Writes bytes to the first program, and waits until all programs have ended, without a
        limit: a client still runs statements when all is written. `on_failure`: called when a
        program fails; it may raise an error that explains the failure by the bytes."""
        self._start(first_stdin=subprocess.PIPE, last_stdout=stdout)
        pipe = self.children[0].stdin
        assert pipe is not None
        try:
            for piece in pieces:
                pipe.write(piece)
            pipe.close()
        except BrokenPipeError:
            pass  # a program has ended: `_check` finds which, and why
        try:
            self._check(None)
        except CouldNotRun:
            on_failure()
            raise

    def pass_through(self, data: bytes) -> bytes:
        """Passes bytes, all in memory, through the programs, and returns the output."""
        return b"".join(self.read_pieces([data])) if self.stages else data

    def _start(self, first_stdin: int, last_stdout: int) -> None:
        """Starts all programs, each with the output of the one before; `first_stdin`,
        `last_stdout`: file numbers, or PIPE and DEVNULL of subprocess. Raises CouldNotRun."""
        before: int = first_stdin
        for index, stage in enumerate(self.stages):
            last = index == len(self.stages) - 1
            child = self._start_child(stage, before, last_stdout if last else subprocess.PIPE)
            if index and self.children[-1].stdout is not None:
                self.children[-1].stdout.close()  # the next program has it now
            self.children.append(child)
            if not last:
                assert child.stdout is not None
                before = child.stdout.fileno()
            reader = threading.Thread(target=self._listen, args=(child, index), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _start_child(self, stage: Stage, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
        """Starts a program between two file numbers; its secret passes through a pipe of its own.
        Raises CouldNotRun if it cannot be started."""
        arguments, passed = list(stage.arguments), ()
        read_end = -1
        if stage.secret is not None:
            read_end, write_end = os.pipe()
            os.write(write_end, stage.secret + b"\n")  # far below the 4 KiB a pipe always takes
            os.close(write_end)
            arguments, passed = [each.replace("{fd}", str(read_end)) for each in arguments], (read_end,)
        environment = {**(os.environ if stage.user is None else PRIVATE_ENVIRONMENT), **TOOL_ENVIRONMENT, "LC_ALL": "C"}
        try:
            return spawn(
                add_death_signal(*arguments),
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                folder=stage.folder,
                environment=environment,
                user=stage.user,
                passed=passed,
            )
        except OSError as error:
            rule = f"could not be started: {error.strerror}"
            raise CouldNotRun(stage.what, rule, stage.arguments[0], "Is it installed, and may it be run?") from None
        finally:
            if read_end >= 0:
                os.close(read_end)

    def _listen(self, child: subprocess.Popen[bytes], index: int) -> None:
        """Collects the last lines of a program's error output, each cut to 4,096 bytes, until that
        ends; calls `on_line` with those of the first program (`index` 0)."""
        pipe = child.stderr
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):
            for line in pipe:
                text = line[:4096].decode(errors="replace").rstrip()
                self.outputs[index].append(text)
                if index == 0:
                    self.on_line(text)
        pipe.close()

    def _check(self, longest_s: float | None) -> None:
        """Raises CouldNotRun for the first program that failed by itself, or does not end within
        `longest_s` seconds; None: without a limit."""
        failed = []
        for index, (stage, child) in enumerate(zip(self.stages, self.children, strict=True)):
            try:
                code = child.wait(longest_s)
            except subprocess.TimeoutExpired:
                raise CouldNotRun(stage.what, f"does not end within {longest_s:g} s", stage.arguments[0], "") from None
            self._readers[index].join(END_S)
            if code not in stage.fine:
                failed.append((stage, code, "\n".join(self.outputs[index])))
        # A program that lost its reader (SIGPIPE) failed because of another.
        own = [failure for failure in failed if failure[1] != -signal.SIGPIPE] or failed
        if own:
            stage, code, text = own[0]
            rule = f"failed (exit code {code}): {find_telling_lines(text)}"
            kind = EXITED if code > 0 and "No space left" not in text else ""
            hint = next((hint for sign, hint in HINTS if sign in text), "")
            raise CouldNotRun(stage.what, rule, stage.arguments[0], hint, kind=kind)


class ChainedFlow(Flow):
    """A flow, and further programs behind it. `see` is called with every piece that passes between
    them, and may wait: the first flow then waits too. `plain_bytes`: their number so far."""

    def __init__(self, first: Flow, behind: list[Stage], see: Callable[[bytes], None]) -> None:
        super().__init__(behind)
        self.first, self.see, self.plain_bytes = first, see, 0

    def read_pieces(self, given: Iterable[bytes] | None = None) -> Iterator[bytes]:
        """Yields the output of the last program, or of the first flow if there is none."""
        if not self.stages:
            yield from self._show_pieces(given)
            return
        try:
            yield from super().read_pieces(self._show_pieces(given))
        except GeneratorExit:
            self.first.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        self.first.__exit__()
        super().__exit__(*error)

    def _show_pieces(self, given: Iterable[bytes] | None) -> Iterator[bytes]:
        """Yields the output of the first flow, counts its bytes, and shows each piece to `see`."""
        with self.first as flow:
            for piece in flow.read_pieces(given):
                self.plain_bytes += len(piece)
                self.see(piece)
                yield piece


def read_ahead(pieces: Iterable[bytes], most: int = AHEAD_PIECES) -> Generator[bytes, None, None]:
    """Yields the same pieces, which a thread reads up to `most` pieces ahead: the source is read
    while the target flushes, and the other way round."""
    waiting: queue.Queue[bytes | BaseException | None] = queue.Queue(most)
    consumer_gone = threading.Event()

    def put(item: bytes | BaseException | None) -> None:
        while not consumer_gone.is_set():
            with contextlib.suppress(queue.Full):
                return waiting.put(item, timeout=0.1)

    def take() -> None:
        try:
            for piece in pieces:
                put(piece)
                if consumer_gone.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        consumer_gone.set()


REDO = (
    "The server wrote over its redo log before it was copied: enlarge it (innodb_log_file_size), or pace the copy less."
)
HINTS = (
    ("log block numbers mismatch", REDO),
    ("was overwritten", REDO),
    ("Was only able to copy log", REDO),
    ("No space left", "There is no room: free some, or name another place."),
    ("Access denied", "See the grants a backup needs: docs/guide/backups.md."),
)
