"""A recording as text, and the numbers in it.

These readers refuse or accept, for all formats, files that are empty, binary, huge or in another
encoding, that have Windows line ends, a byte-order mark or decimal commas, or NaN for a number.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.base.files import make_path, read_bytes
from headrace.errors import CouldNotRun, InputError, Refusals

refuse = Refusals("docs/reference/import-formats.md")
MAX_BYTES = 512 * 1024 * 1024  # a month of seconds of iostat; ours
STDIN = "-"  # standard input, where a file is named
MAX_NOTES = 20  # more are not read; ours

_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)?(?:[eE][+-]?[0-9]{1,2})?\Z")
_NOT_A_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)\Z", re.IGNORECASE)
_HUMAN = re.compile(r"[0-9]+([.,][0-9]+)?[kMGTB%]i?B?\Z")
# No counter of a disk comes near this; it keeps sums finite.
ABSURD = 1e15

# First bytes of files people hand over by mistake.
_MAGIC = (
    (b"\x1f\x8b", "a gzip archive", "Unpack it first: gunzip FILE."),
    (b"PK\x03\x04", "a zip archive or spreadsheet", "Export it as CSV."),
    (b"\xd5\x96", "a binary sar file", "Turn it into text: sadf -d FILE -- -d > sar.csv."),
    (b"\x96\xd5", "a binary sar file", "Turn it into text: sadf -d FILE -- -d > sar.csv."),
    (b"\x7fELF", "a program", "Name the recording."),
    (b"%PDF", "a PDF", "Name the recording as text."),
)


@dataclass
class Recording:
    """The text of a recording.

    `lines` are without line ends; line numbers in errors count from 1. `title`: the name of a
    workload that is made of it; None: `name` without its ending. `notes`: for the user.
    """

    name: str
    text: str
    sha256: str
    decimal: str | None = None  # "." or ",", once one was seen
    notes: list[str] = field(default_factory=list)
    title: str | None = None

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def note(self, text: str) -> None:
        """Adds a note for the user, unless it is there already or MAX_NOTES are."""
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def make_error(
        self, where: int | str, value: str, rule: str, hint: str = "", source: str = refuse.source
    ) -> InputError:
        """Returns an InputError that names file, place (a line number or a path in JSON) and value.

        The caller raises it.
        """
        place = f"line {where}" if isinstance(where, int) else where
        return InputError(
            f"{self.name}, {place}: {clip(value)}" if place else f"{self.name}: {clip(value)}", rule, source, hint
        )

    def parse_number(self, where: int | str, what: str, token: object) -> float:
        """Parses a word of text or a JSON value as a finite number >= 0. Raises InputError."""
        if isinstance(token, (int, float)) and not isinstance(token, bool):
            return self._check_range(where, what, token)
        text = token.strip() if isinstance(token, str) else "nothing" if token is None else type(token).__name__
        if _NUMBER.match(text):
            if "." in text or "," in text:
                self._check_decimal_mark(where, what, text)
            return self._check_range(where, what, float(text.replace(",", ".")))
        if _NOT_A_NUMBER.match(text):
            hint = "Take the report out, or record again."
            raise self.make_error(where, f"{what} = {text}", "must be a finite number", hint)
        if text.startswith("-") and _NUMBER.match(text[1:]):
            hint = "A counter wrapped or the clock went back: take the report out."
            raise self.make_error(where, f"{what} = {text}", "cannot be negative", hint)
        if _HUMAN.match(text):
            raise self.make_error(where, f"{what} = {text}", "must be a plain number", "Record without -h and --human.")
        hint = "The line is damaged: take its report out, or copy the file again."
        raise self.make_error(where, f"{what} = {text!r}", "must be a number", hint)

    def _check_range(self, where: int | str, what: str, value: float) -> float:
        """Returns a figure that a disk can have. Raises InputError for a negative one, NaN, and
        beyond 1e15."""
        if not -ABSURD <= value <= ABSURD:  # also catches NaN
            what_is_wrong = "NaN or infinite" if isinstance(value, float) and not abs(value) <= 1e308 else "beyond 1e15"
            raise self.make_error(
                where, f"{what} is {what_is_wrong}", "no disk does that", "Take the report out, or record again."
            )
        if value < 0:
            hint = "A counter wrapped or the clock went back: take the report out."
            raise self.make_error(where, f"{what} = {value:g}", "cannot be negative", hint)
        return float(value) + 0.0  # -0.0 becomes 0.0

    def _check_decimal_mark(self, where: int | str, what: str, text: str) -> None:
        """Raises InputError if a number has another decimal mark than those before it in the
        file."""
        mark = "," if "," in text else "."
        if self.decimal is None:
            self.decimal = mark
        elif self.decimal != mark:
            rule = f"the numbers before it use {self.decimal!r} as decimal mark"
            hint = "Two recordings were joined, or the file was edited: import them one by one."
            raise self.make_error(where, f"{what} = {text}", rule, hint)


def clip(text: str, limit: int = 100) -> str:
    """Returns a text that fits an error message: printable and short."""
    text = "".join(character if character.isprintable() else "?" for character in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 3] + "..."


def open_recording(path: str | os.PathLike[str]) -> Recording:
    """Returns the recording in a file; "-" is standard input.

    Raises InputError when it is not text, CouldNotRun when it cannot be read.
    """
    if str(path) == STDIN:
        name, content = "standard input", _read_standard_input()
    else:
        path = make_path(path)
        name, content = clip(path.name, 80), read_bytes(path, MAX_BYTES)
    return decode_recording(name, content)


def decode_recording(name: str, content: bytes) -> Recording:
    """Returns the recording in the content of a file. Raises InputError when it is not text."""
    if not content.strip():
        raise refuse.input(name, "the file is empty", "Was the recording stopped before its first report?")
    for magic, what, hint in _MAGIC:
        if content.startswith(magic):
            raise refuse.input(name, f"is {what}, text is needed", hint)
    digest = hashlib.sha256(content).hexdigest()
    return Recording(name, _decode(name, content).replace("\r\n", "\n").replace("\r", "\n"), digest)


def _read_standard_input() -> bytes:
    """Reads standard input to its end. Raises CouldNotRun if it cannot be read, InputError if it is
    too large."""
    try:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    except (OSError, ValueError, AttributeError) as error:  # closed, or none at all
        hint = "Name a file instead of -."
        raise CouldNotRun("standard input", f"cannot be read: {error}", "operating system", hint) from None
    if len(content) > MAX_BYTES:
        raise refuse.input("standard input", f"at most {MAX_BYTES / 2**20:,.0f} MiB are read", "Cut it into parts.")
    return content


def read_lines(recording: Recording, numbered: list[tuple], handle: Callable, begun: Callable[[], object]) -> None:
    """Calls `handle(number, line)` for each of `numbered`. A last line that it refuses is left out,
    with a note in the recording, if `begun` says that a report was read before: a tool that is
    stopped, or a copy that ends early, leaves half a line. Other errors of `handle` are raised.
    """
    last = max(
        (
            number
            for number, line in numbered
            if line and line != "^C" and not (isinstance(line, str) and line.isspace())
        ),
        default=0,
    )
    for number, line in numbered:
        try:
            handle(number, line)
        except InputError as error:
            if number < last or not begun():
                raise
            recording.notes.append(describe_cut(error))
            return


def describe_cut(error: InputError) -> str:
    """Returns the note on a recording whose end was left out."""
    return f"The recording is cut off or damaged at its end; a last report that is not whole was left out ({error.value}: {error.rule})."


def _decode(name: str, content: bytes) -> str:
    """Returns the text of a file in UTF-8 or UTF-16. Raises InputError where it is neither, or has
    zero bytes."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):  # PowerShell's > writes UTF-16
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            hint = "Save the recording as UTF-8."
            raise refuse.input(f"{name}, byte {error.start}", "is not valid UTF-16", hint) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        rule = "is not UTF-8 text"
        hint = "The file is binary, damaged, or in an old encoding: save it as UTF-8."
        raise refuse.input(f"{name}, line {line}: byte 0x{content[error.start]:02x}", rule, hint) from None
    zero = text.find("\0")
    if zero >= 0:
        line = text.count("\n", 0, zero) + 1
        hint = "A crash leaves such blocks: cut them out, or copy the file again."
        raise refuse.input(f"{name}, line {line}: a zero byte", "text is needed", hint)
    return text
