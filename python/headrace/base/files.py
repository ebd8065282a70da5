"""Reads files up to a size, writes them as a whole, detects the tool they come from, and words
their errors."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from headrace.base.packaged import read_text
from headrace.errors import CouldNotRun, InputError, Refusals

refuse = Refusals("docs/reference/workload-file.md")


def make_path(name: object) -> Path:
    """Returns a file's name as a path. Raises InputError for "", and for other types."""
    if name == "":
        raise refuse.input("''", "is empty, and no file name", "Name a file.")
    if isinstance(name, (str, os.PathLike)) and not isinstance(name, bytes):
        return Path(name)
    raise refuse.input(repr(name)[:60], "is not a file name", "Name a file.")


def read_bytes(path: Path, limit: int) -> bytes:
    """Returns a file's bytes. Raises InputError if there is no such file, or if it is larger than
    `limit` bytes, and CouldNotRun if it cannot be read."""
    try:
        refuse_folder(path)
        size = path.stat().st_size
        if size > limit:
            hint = "Cut it into parts or take means over a longer interval."
            raise refuse.input(f"{path} ({size / 2**20:,.0f} MiB)", f"at most {limit / 2**20:,.0f} MiB are read", hint)
        with path.open("rb") as file:
            # A pipe or /dev/zero has size 0 and no end: never read past the limit.
            content = file.read(limit + 1)
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "", "Check the name and the folder you are in.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CouldNotRun(
            shorten_name(path),
            f"cannot be read: {get_reason(error)}",
            "operating system",
            get_hint(error, "Check the owner and the permissions."),
        ) from None
    if len(content) > limit:
        raise refuse.input(str(path), f"at most {limit / 2**20:,.0f} MiB are read", "Cut it into parts.")
    return content


def refuse_folder(path: Path) -> None:
    """Raises InputError if the path of a file to read is a folder."""
    if path.is_dir():
        raise InputError(str(path), "is a folder, a file is needed", "", "Name a file in it.")


def check_output(
    option: str, path: Path, inputs: Iterable[Path] = (), *, endings: Sequence[str] = (), force: bool = True
) -> None:
    """Refuses an output file before any work is done. Raises InputError if its ending is not among
    `endings`, if its folder does not exist, if it is also read (by whatever name or link), or if it
    exists and `force` is off. `option`: the option that names it."""
    value = f"{option} {shorten_name(path)}"
    if endings and path.suffix.lower() not in endings:
        name = f"{path.stem or 'file'}{endings[0]}"
        raise InputError(value, f"must end in {' or '.join(endings)}", "", f"For example {option} {name}.")
    if not path.parent.is_dir():
        rule = f"the folder does not exist: {shorten_name(path.parent)}"
        raise InputError(value, rule, "", "Make it, or name another.")
    if path.is_dir():
        raise InputError(value, "is a folder, a file is needed", "", "Name a file in it.")
    for read_path in inputs:
        if is_same_file(path, read_path):
            rule = f"is the same file as {shorten_name(read_path)}, which is read: it would be overwritten"
            raise InputError(
                value, rule, "", f"Name another file; no option overwrites {shorten_name(read_path.name)}."
            )
    if path.is_file() and not force:
        raise InputError(value, "exists already", "", "Name another file, or overwrite it with --force.")


def is_same_file(path: Path, other: Path) -> bool:
    """Returns whether two paths lead to the same file; False if one of them does not exist."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # a file does not exist, or its name is impossible
        return False


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file under a temporary name next to it, then renames it: a reader sees the old
    content or the new.

    A symbolic link stays a link: the file it points to is written. Raises CouldNotRun.
    """
    try:
        if path.is_symlink():
            path = path.resolve(strict=False)
        # Renaming would put a file in the place of /dev/null.
        if path.exists() and not path.is_file():
            rule = f"is {'a folder' if path.is_dir() else 'a device or pipe'}, not a file"
            raise CouldNotRun(str(path), rule, "", "Name a file.")
        umask = os.umask(0)
        os.umask(umask)
        replace_file(path, content, 0o666 & ~umask)
    # ValueError: a NUL in the name; RuntimeError: links in a circle.
    except (OSError, ValueError, RuntimeError) as error:
        raise CouldNotRun(
            shorten_name(path),
            f"cannot be written: {get_reason(error)}",
            "operating system",
            get_hint(error, "Check the folder, its permissions and the space left."),
        ) from None


@contextlib.contextmanager
def explain_unwritable(path: Path, hint: str, source: str = "") -> Iterator[None]:
    """Turns an OSError of the block into CouldNotRun, which says that `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be written: {get_reason(error)}", source, hint) from None


def replace_file(path: Path, content: bytes, mode: int = 0o600, group: int | None = None) -> None:
    """Writes a file of this mode (and group of the operating system) under a temporary name next to
    it, flushes and renames it: nobody but this user can read it before. Raises OSError."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if group is not None:
                os.fchown(file.fileno(), -1, group)
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        move_over(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


@contextlib.contextmanager
def hold_draft(path: Path) -> Iterator[Path]:
    """Gives the path of a draft, in a hidden folder next to `path`, for tools that write files by
    their names. The draft takes the file's place when the block ends without an error; in any case
    the folder goes. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name[:80]}.", dir=path.parent.absolute()) as folder:
        draft = Path(folder) / f"draft{path.suffix}"
        yield draft
        move_over(draft, path)


def move_over(draft: str | Path, path: Path) -> None:
    """Renames a file or folder over another of the same filesystem, atomically: a reader sees the
    old or the new. Raises OSError."""
    os.replace(draft, path)


def write_back(handle: int) -> None:
    """Writes the dirty pages of an open file's whole filesystem to its device. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def shorten_name(path: object) -> str:
    """Returns a file's name for an error, shortened in the middle."""
    text = str(path)
    return text if len(text) <= 120 else f"{text[:40]}...{text[-40:]} ({len(text)} characters)"


def get_reason(error: Exception) -> str:
    """Returns the operating system's message without its number, else the error's first line."""
    return getattr(error, "strerror", None) or str(error).splitlines()[0]


def get_hint(error: Exception, otherwise: str) -> str:
    """Returns what to do about a file that cannot be opened, read or written, by the error's
    number; `otherwise` for numbers that are not known here."""
    return {
        errno.ENAMETOOLONG: "Use a shorter name: most file systems allow 255 bytes.",
        errno.ENOSPC: "Free some space or write elsewhere.",
        errno.EDQUOT: "Free some space or write elsewhere.",
        errno.EROFS: "This file system is read-only: write elsewhere.",
        errno.ENOENT: "Make the folder, or name another.",
        errno.ELOOP: "Links point at each other: name the file itself.",
    }.get(getattr(error, "errno", 0), otherwise)


# --- which tool a file comes from -----------------------------------------------------------------

OWN_FILE = "a Headrace workload file"
# Characters that are read to see which tool a file comes from (a guess: no head of a recording is
# longer).
HEAD_CHARACTERS = 200_000


@cache
def _read_signs() -> list[tuple[str | None, str, re.Pattern]]:
    """Returns the rows of signs.toml as (format that reads such a file or None, the tool's name,
    pattern); the first pattern that matches decides. The rows are read once."""
    # \s also matches line ends, and "^\s*" over many empty lines takes quadratic time: blanks are
    # meant.
    return [
        (kind or None, name, re.compile(sign.replace(r"\s", r"[ \t]"), re.MULTILINE))
        for kind, name, sign in tomllib.loads(read_text("headrace.base", "signs.toml"))["signs"]
    ]


def detect(text: str) -> tuple[str | None, str | None]:
    """Returns the format that can read a text or None, and the tool it looks like or None, from its
    first 200,000 characters."""
    head = text[:HEAD_CHARACTERS]
    for kind, name, sign in _read_signs():
        if sign.search(head):
            return kind, name
    return None, None


def guess(text: str) -> str | None:
    """Returns the tool that a file's text looks like, in words, or None."""
    return detect(text)[1]
