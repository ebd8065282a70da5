"""[client] of a MySQL option file, as the clients read it (MySQL manual, "Using Option Files")."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from headrace.base.files import read_bytes
from headrace.errors import InputError

SOURCE = "MySQL manual, Using Option Files"
MAX_BYTES = 1024 * 1024  # an option file has a few KB; ours
KEYS = ("user", "password", "host", "port", "socket", "database", "ssl-mode", "ssl-ca")
ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\", '"': '"', "'": "'"}
# Others may neither read nor write a file with a password in it.
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_client(path: str | os.PathLike) -> dict[str, str]:
    """The keys of [client] this program uses.

    Raises InputError for a file that breaks a rule, CouldNotRun when it cannot be read.
    """
    path = Path(path).expanduser()
    content = read_bytes(path, MAX_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", SOURCE, "Name an option file such as ~/.my.cnf.") from None
    found = _parse(path, text)
    if "password" in found:
        _owner_only(path)
    port = found.get("port", "3306")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise InputError(f"{path}: port", "must be a number from 1 to 65,535", SOURCE)
    return found


def _owner_only(path: Path) -> None:
    status = os.stat(path)
    if status.st_mode & OTHERS:
        rule = f"holds a password and others may read it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise InputError(str(path), rule, SOURCE, f"chmod 600 {path}")
    if status.st_uid not in (os.geteuid(), 0):
        hint = "Use a file of your own."
        raise InputError(str(path), f"holds a password and belongs to user id {status.st_uid}", SOURCE, hint)


def _parse(path: Path, text: str) -> dict[str, str]:
    """Later lines win, as for the clients.

    Nothing of a line is repeated in an error: it may hold the password.
    """
    found: dict[str, str] = {}
    group = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            hint = "Name the file it names."
            raise InputError(f"{path}, line {number}: {line.split()[0][:20]}", "is not followed here", SOURCE, hint)
        if line[0] == "[":
            if "]" not in line:
                raise InputError(f"{path}, line {number}", "a group's name ends with ]", SOURCE, "Correct the line.")
            group = line[1 : line.index("]")].strip().lower()
            continue
        if group is None:
            hint = "An option file begins with [client]."
            raise InputError(f"{path}, line {number}", "stands before the first [group]", SOURCE, hint)
        if group != "client":
            continue
        key, equals, value = line.partition("=")
        key = key.strip().lower().replace("_", "-").removeprefix("loose-")
        if key in KEYS and equals:
            found[key] = _value(value)
    return found


def _value(text: str) -> str:
    """A value without its comment, quotes and escapes."""
    quote, kept, escaped = "", [], False
    for character in text:
        if character in "\"'" and not escaped:
            quote = "" if quote == character else quote or character
        elif character == "#" and not quote:
            break
        escaped = bool(quote) and character == "\\" and not escaped
        kept.append(character)
    value = "".join(kept).strip()
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    out, index = [], 0
    while index < len(value):
        if value[index] == "\\" and index + 1 < len(value) and value[index + 1] in ESCAPES:
            out.append(ESCAPES[value[index + 1]])
            index += 2
        else:
            out.append(value[index])
            index += 1
    return "".join(out)


def quoted(value: str) -> str:
    """A value as it may stand behind = in an option file.

    Raises InputError for what no option file can hold.
    """
    if "\0" in value:
        raise InputError("a zero byte", "cannot stand in an option file", SOURCE)
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b")):
        value = value.replace(plain, escape)
    return f'"{value}"'
