"""Reads option files like MySQL and MariaDB, with file, line and text of each setting, for edits
(mysys/my_default.c; MySQL manual, "Using Option Files").

    [group]    name    name = value    name = "quoted value"    # and ; comments
    !include FILE    !includedir FOLDER

Later settings win. Names may have dashes or underscores, and the prefixes loose-, skip-, disable-,
enable- and maximum-. Only the requested groups are returned: [client] may contain a password, so
no error repeats a line of a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base.files import read_bytes
from headrace.errors import Refusals

refuse = Refusals("MySQL manual, Using Option Files")
MAX_BYTES = 4 * 1024 * 1024  # a guess: real files have some kilobytes
MAX_DEPTH = 10  # my_default.c, MAX_RECURSION: deeper includes are skipped
MAX_FILES = 1_000
MAX_LINE = 4_000  # its buffer has 4,096 bytes
ENDINGS = (".cnf",)  # of files an includedir takes on Unix
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}
SPACE = " \t\r\n\v\f"
PREFIXES = {"skip_": "0", "disable_": "0", "enable_": "1"}


@dataclass(frozen=True)
class Setting:
    """A line of a group: `key` as written, `value` None for a key alone; file, line (from 1)."""

    group: str
    key: str
    value: str | None
    file: Path
    line: int

    @property
    def name(self) -> str:
        """The variable's name: lower case, underscores, without loose-, skip-, disable-, enable-
        and maximum-."""
        return normalise_name(self.key)

    @property
    def loose(self) -> bool:
        """True when a server that does not know the option may start all the same."""
        return self.key.lower().replace("-", "_").startswith("loose_")

    @property
    def text(self) -> str:
        """The resulting value: skip-NAME is 0, NAME alone 1."""
        name = self.key.lower().replace("-", "_").removeprefix("loose_")
        for prefix, value in PREFIXES.items():
            if name.startswith(prefix) and name not in KEEPS_PREFIX:
                # skip-x=0 means: do not skip.
                denied = (self.value or "").strip().lower() in ("0", "off", "false")
                return ("1" if value == "0" else "0") if denied else value
        return "1" if self.value is None else self.value


# Variables whose own name begins with a prefix.
KEEPS_PREFIX = (
    "skip_external_locking", "skip_name_resolve", "skip_networking", "skip_show_database", "skip_grant_tables", "skip_slave_start", "skip_replica_start",
    "skip_host_cache", "skip_stack_trace", "skip_parallel_replication", "skip_bdb", "disable_gtid_unsafe_statements",
    "disabled_storage_engines", "skip_replication", "skip_symbolic_links", "enable_named_pipe",
)  # fmt: skip


@dataclass(frozen=True)
class OptionFile:
    """An option file with everything it includes. `settings`: those of the requested groups, in the
    order in which the server reads them; `texts`: every file by path."""

    path: Path
    settings: tuple[Setting, ...]
    texts: dict[Path, str] = field(repr=False)
    groups: tuple[str, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        """Returns the effective values by variable: of several settings the last counts."""
        return {setting.name: setting.text for setting in self.settings}


def normalise_name(key: str) -> str:
    """Returns a variable's plain name: `Loose-skip-InnoDB-doublewrite` is innodb_doublewrite."""
    name = key.strip().lower().replace("-", "_").removeprefix("loose_")
    if name in KEEPS_PREFIX:
        return name
    for prefix in (*PREFIXES, "maximum_"):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def list_server_groups(flavor: str, version: Sequence[int]) -> tuple[str, ...]:
    """Returns the groups that a server reads: its own, and those of its series."""
    major, minor = version[:2]
    if flavor != "mariadb":
        return ("mysql_cluster", "mysqld", "server", f"mysqld-{major}.{minor}")
    series = [f"{name}-{major}.{minor}" for name in ("mysqld", "mariadb", "mariadbd")]
    both = ("mysqld", "server", "mariadb", "mariadbd", *series, "client-server", "galera")
    # 10.2 and 10.3 have no mariadbd groups (MDEV-21298, 10.4.6).
    return both if tuple(version) >= (10, 4, 6) else tuple(group for group in both if not group.startswith("mariadbd"))


def read_option_file(path: str | os.PathLike, groups: Sequence[str]) -> OptionFile:
    """Reads the settings of `groups` in a file and those it includes. Raises InputError for a file
    that the server would refuse, CouldNotRun for a file that cannot be read."""
    where = Path(os.path.abspath(Path(path).expanduser()))
    reader = _Reader(tuple(groups), where.parent)
    reader.read(where, 0)
    return OptionFile(where, tuple(reader.settings), reader.texts, tuple(groups))


class _Reader:
    """Reads option files with their includes into `settings`, and their texts into `texts`."""

    def __init__(self, groups: tuple[str, ...], base: Path) -> None:
        """Takes the groups to read, in lower case, and the folder in which relative includes
        begin."""
        self.groups, self.base = groups, base
        self.settings: list[Setting] = []
        self.texts: dict[Path, str] = {}
        self.read_files = 0

    def read(self, path: Path, depth: int) -> None:
        """Reads a file and those it includes. `depth`: the number of includes that lead to it.
        Raises InputError for a line that servers refuse, CouldNotRun for a file that cannot be
        read."""
        self.read_files += 1
        if self.read_files > MAX_FILES:
            raise refuse.input(str(path), f"more than {MAX_FILES} files are included", "Do files include each other?")
        text = _read_text(path)
        self.texts[path] = text
        group = None
        lines = text.split("\n")
        if lines[-1].strip(SPACE).startswith("!"):
            rule = "is an include on the last line without a line's end: the server cuts its last letter off"
            raise refuse.input(f"{path}, line {len(lines)}", rule, "Add a newline.")
        for number, raw in enumerate(lines, start=1):
            line = raw.strip(SPACE)
            if not line or line[0] in "#;":
                continue
            if line[0] == "!":
                self.include(line, path, number, depth)  # does not end the group
                continue
            if line[0] == "[":
                group = _parse_group(line, path, number)
                continue
            if group is None:
                rule = "stands before the first [group]: servers read no further"
                raise refuse.input(f"{path}, line {number}", rule, "Begin with [mysqld].")
            if group.lower() in self.groups:
                key, value = split_line(line)
                if not key:
                    rule = "names no option: servers read no further"
                    raise refuse.input(f"{path}, line {number}", rule, "Correct the line.")
                self.settings.append(Setting(group.lower(), key, value, path, number))

    def include(self, line: str, path: Path, number: int, depth: int) -> None:
        """Reads what an include line names, as my_default.c: spaces may follow the !, and any other
        word behind it is ignored. `number`: the line's, from 1; `depth`: the number of includes
        that lead to this file. Raises InputError."""
        rest = line[1:].strip(SPACE)
        for word, follow in (("includedir", self._read_folder), ("include", self._read_file)):
            if not rest.startswith(word) or (rest[len(word) :] or " ")[0] not in SPACE:
                continue
            if depth >= MAX_DEPTH:
                return  # the server skips it with a warning
            name = rest[len(word) :].strip(SPACE)
            if not name:
                rule = "names nothing: servers read no further"
                raise refuse.input(f"{path}, line {number}: !{word}", rule, "Correct the line.")
            # A relative name is relative to the folder that the server is started in, which is
            # unknown here: the folder of the first file is used instead.
            return follow(self.base / name, path, number, depth)

    def _read_file(self, target: Path, path: Path, number: int, depth: int) -> None:
        """Reads an included file if it exists."""
        if target.is_file():
            self.read(target, depth + 1)

    def _read_folder(self, target: Path, path: Path, number: int, depth: int) -> None:
        """Reads the option files of an included folder, by name. `path`, `number`: file and line of
        the include. Raises InputError."""
        try:
            names = sorted(os.listdir(target))
        except OSError as error:
            rule = f"the folder cannot be read ({error.strerror}): servers read no further"
            raise refuse.input(f"{path}, line {number}: {target}", rule, "Make it, or remove the line.") from None
        for name in names:
            if name.endswith(ENDINGS):
                self._read_file(target / name, path, number, depth)


def _read_text(path: Path) -> str:
    """Returns the text of an option file. Raises InputError for a folder, a file that everybody may
    write, zero bytes and a line that is too long; CouldNotRun if it cannot be read."""
    if path.is_dir():
        raise refuse.input(str(path), "is a folder, not an option file", "Name a my.cnf.")
    content = read_bytes(path, MAX_BYTES)
    if os.stat(path).st_mode & stat.S_IWOTH and path.is_file():
        raise refuse.input(str(path), "can be written by everybody: servers ignore such a file", f"chmod o-w {path}")
    if b"\0" in content:
        raise refuse.input(str(path), "is not text: it holds zero bytes", "Is it a my.cnf?")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE:
            rule = f"has more than {MAX_LINE:,} characters: the server would read it as two"
            raise refuse.input(f"{path}, line {number}", rule, "Shorten it.")
    return text


def _parse_group(line: str, path: Path, number: int) -> str:
    """Returns the group that a line names. Raises InputError without the closing bracket."""
    end = line.find("]")
    if end < 0:
        rule = "a group's name ends with ]: servers read no further"
        raise refuse.input(f"{path}, line {number}", rule, "Correct the line.")
    return line[1:end].rstrip(SPACE)


def split_line(line: str) -> tuple[str, str | None]:
    """Returns key and value of a line, without its comment, quotes and escapes."""
    line = line[: _find_comment(line)]
    key, equals, value = line.partition("=")
    if not equals:
        return key.rstrip(SPACE), None
    value = value.strip(SPACE)
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    # \n, \t, \r, \b, \s, \", \' and \\; other backslashes stay.
    value = re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[0]), value, flags=re.DOTALL)
    return key.rstrip(SPACE), value


def _find_comment(line: str) -> int:
    """Returns where a comment begins: a # outside quotes (my_default.c, find_end_comment)."""
    quote, escaped = "", False
    for index, character in enumerate(line):
        if character in "\"'" and not escaped:
            quote = "" if quote == character else quote or character
        if not quote and character == "#":
            return index
        escaped = bool(quote) and character == "\\" and not escaped
    return len(line)


def format_value(value: str) -> str:
    """Returns a value for an option file, in quotes where it would be misread without."""
    plain = value == value.strip() and not any(character in value for character in "#\"'\\\n\r\t\b")
    return value if value and plain else quote_value(value)


def quote_value(value: str) -> str:
    """Returns a value in quotes. Raises InputError for a value that no option file can hold."""
    if "\0" in value:
        raise refuse.input("a zero byte", "cannot stand in an option file")
    for plain, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\b", "\\b")):
        value = value.replace(plain, escape)
    return f'"{value}"'


# --- [client] -------------------------------------------------------------------------------------

CLIENT_KEYS = ("user", "password", "host", "port", "socket", "database", "ssl-mode", "ssl-ca")
# Others may neither read nor write a file with a password in it.
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_client(path: str | os.PathLike) -> dict[str, str]:
    """Returns the keys of [client] that Headrace uses, with dashes.

    Raises InputError for a file that breaks a rule, CouldNotRun if it cannot be read.
    """
    values: dict[str, str] = {}
    for setting in read_option_file(path, ("client",)).settings:
        key = setting.name.replace("_", "-")
        if key in CLIENT_KEYS and setting.value is not None:
            values[key] = setting.value
            if key == "password":
                _check_owner(setting.file)
    port = values.get("port", "3306")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65_535):
        raise refuse.input(f"{path}: port", "must be a number from 1 to 65,535")
    return values


def _check_owner(path: Path) -> None:
    """Raises InputError if users other than this one and root own the file, or may read or write
    it."""
    status = os.stat(path)
    if status.st_mode & OTHERS:
        rule = f"holds a password and others may read it (mode {stat.S_IMODE(status.st_mode):04o})"
        raise refuse.input(str(path), rule, f"chmod 600 {path}")
    if status.st_uid not in (os.geteuid(), 0):
        rule = f"holds a password and belongs to user id {status.st_uid}"
        raise refuse.input(str(path), rule, "Use a file of your own.")
