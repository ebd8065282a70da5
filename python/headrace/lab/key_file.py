"""The file of an exported key: JSON with its id, description and material, and a check of them. It
is not encrypted, and is readable by its owner alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headrace.base.files import get_reason, read_bytes
from headrace.errors import CouldNotRun, InputError
from headrace.lab.calls import ExportedKey

FORMAT, VERSION = "headrace-key", 1
# Standard input or output in place of a file.
PIPE = Path("-")
# Longest file, bytes: a description has at most 8,192 (KMS API, CreateKey), the rest some hundred.
MOST_BYTES = 64 << 10
# Bytes of a key: AES-256.
KEY_BYTES = 32
# Characters of the check that are kept: 64 bits tell a damaged file.
CHECK_CHARS = 16


@dataclass(frozen=True, slots=True, repr=False)
class KeyFile:
    """The content of a file, the material in base64. It has no repr: traces show no material."""

    id: str
    description: str
    material: str


def _check(name: str, description: str, material: bytes) -> str:
    text = f"{FORMAT}\0{name}\0{description}\0".encode()
    return hashlib.sha256(text + material).hexdigest()[:CHECK_CHARS]


def format_key(exported: ExportedKey) -> str:
    """Returns the text of a key's file."""
    material = base64.b64decode(exported["material"])
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "id": exported["id"],
        "arn": exported["arn"],
        "description": exported["description"],
        "material": exported["material"],
        "check": _check(exported["id"], exported["description"], material),
    }
    return json.dumps(facts, indent=2) + "\n"


def check_free(path: Path) -> None:
    """Raises InputError if the path exists or its folder does not, or standard output is a
    terminal, which would show the key."""
    if path == PIPE:
        if sys.stdout.isatty():
            raise InputError("-", "would show the key on the terminal", "", "Name a file, or send it to a pipe.")
        return
    if path.exists() or path.is_symlink():
        raise InputError(str(path), "exists already", "", "Name a new file: no key is overwritten.")
    if not path.parent.is_dir():
        raise InputError(str(path), "is in a folder that does not exist", "", "Make the folder, or name another file.")


def write_key(path: Path, text: str) -> None:
    """Writes a new file for its owner alone; on disk on return. Raises CouldNotRun, and leaves no
    part of a file then.
    """
    if path == PIPE:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    is_created = False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        is_created = True
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if is_created:
            path.unlink(missing_ok=True)
        rule, hint = f"cannot be written: {get_reason(error)}", "Name a file on a disk with space that you may write."
        raise CouldNotRun(str(path), rule, "operating system", hint) from None


def read_key(path: Path, say: Callable[[str], None]) -> KeyFile:
    """Reads a key's file; `say` is called with a warning where others can read it. Raises
    InputError where it is not one, or is damaged."""
    source = "standard input" if path == PIPE else str(path)
    hint = "Give a file as `headrace lab key export` wrote it."
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise InputError(source, "is not the file of a key: it is larger than any", "", hint)
    content = sys.stdin.buffer.read(MOST_BYTES) if path == PIPE else read_bytes(path, MOST_BYTES)
    try:
        facts = json.loads(content)
        named = facts["format"], facts["version"]
        name, description, text, check = (facts[key] for key in ("id", "description", "material", "check"))
        material = base64.b64decode(text, validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        # The content is not shown: it may be a secret.
        raise InputError(source, "is not the file of a key", "", hint) from None
    if named != (FORMAT, VERSION):
        raise InputError(source, "is of another format or version than this headrace reads", "", hint)
    if len(material) != KEY_BYTES or _check(name, description, material) != check:
        raise InputError(source, "is damaged: its check is not that of its content", "", "Take another copy of it.")
    if path != PIPE and path.stat().st_mode & 0o077:
        say(f"{path} can be read by others than its owner: chmod 600 {path}")
    return KeyFile(name, description, text)
