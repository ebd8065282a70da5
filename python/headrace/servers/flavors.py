"""Server programs: MariaDB of this system, MySQL unpacked in a folder, any other by its path.

A program is asked for its version and its folders itself (`--version`, `--verbose --help`), so they
are those of the very binary that will run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from headrace.base import settings
from headrace.base.checks import check_choice
from headrace.base.machine import find_executable
from headrace.base.processes import PRIVATE_ENVIRONMENT, Command, describe_failure, run_to_end
from headrace.errors import CouldNotRun, InputError
from headrace.servers.record import refuse

FLAVORS = ("mariadb", "mysql")
NAMES = {"mariadb": "MariaDB", "mysql": "MySQL"}
ENGINES = ("innodb", "myrocks")
# `headrace mysql install mysql` writes one into each folder it makes. The folders are not below the
# lab's directory, which is private: a server must be able to read its own program.
MANIFEST = "server.json"
ASK_S = 60.0  # a guess: --help takes a second, on a busy machine more
MYROCKS_PLUGIN = "ha_rocksdb.so"
# Programs of a server by their names, and Debian's packages that have them.
CLIENTS = {"mariadb": ("mariadb", "mysql"), "mysql": ("mysql",)}
READERS = {"mariadb": ("mariadb-binlog", "mysqlbinlog"), "mysql": ("mysqlbinlog",)}
PACKAGES = {
    "mariadb": "mariadb-client-core",
    "mysql": "mysql-client-core",
    "mysqldump": "mysql-client-core",
    "mysqlbinlog": "mysql-client-core",
    "mariabackup": "mariadb-backup",
}


@dataclass(frozen=True)
class ServerProgram:
    """A server program that can be started. `command` may begin with a dynamic loader; `version`:
    as (10, 11, 19); `share_dir` has the error messages; `engines`: some of ENGINES. `defaults`: its
    options (with dashes) and their default values, as `--verbose --help` prints them."""

    flavor: str
    version: tuple[int, ...]
    version_text: str
    command: tuple[str, ...]
    basedir: Path
    share_dir: Path | None
    plugin_dir: Path | None
    engines: tuple[str, ...]
    defaults: dict[str, str] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @property
    def path(self) -> Path:
        """The path of the server's executable."""
        return Path(self.command[-1])

    @property
    def label(self) -> str:
        """The flavor and version for people, as MariaDB 10.11.19."""
        return f"{NAMES[self.flavor]} {'.'.join(map(str, self.version))}"

    def knows(self, variable: str) -> bool:
        """Returns whether the program has an option, with dashes or underscores, not of plugins."""
        return replace_underscores(variable) in self.defaults

    def find_tool(self, *names: str) -> tuple[str, ...]:
        """Returns the command of a program that belongs to the server, through the same loader, by
        its first name that is installed. Raises CouldNotRun."""
        companion = self.find_companion(*names)
        if companion is None:
            hint = f"apt-get install {PACKAGES.get(names[0], f'{self.flavor}-client')}"
            raise CouldNotRun(names[0], "is not installed", str(self.basedir), hint)
        return (*self.command[:-1], str(companion)) if companion.is_relative_to(self.basedir) else (str(companion),)

    def find_companion(self, *names: str) -> Path | None:
        """Returns the path of a program that belongs to the server: from its own folder, bin,
        scripts or sbin, else from PATH; None if there is none."""
        for folder in (self.path.parent, *(self.basedir / name for name in ("bin", "scripts", "sbin"))):
            for name in names:
                if os.access(folder / name, os.X_OK) and (folder / name).is_file():
                    return folder / name
        return next((Path(path) for name in names if (path := find_executable(name))), None)


def replace_underscores(variable: str) -> str:
    """Returns an option's name with dashes, as the server prints it."""
    return variable.strip().lower().replace("_", "-")


def get_unpacked_folder() -> Path:
    """Returns the folder of unpacked servers: $HEADRACE_SERVERS, else /opt/headrace/servers."""
    return settings.get_folder("HEADRACE_SERVERS")


def find_program(flavor: str = "mariadb", server_path: str | os.PathLike | None = None) -> ServerProgram:
    """Returns the newest installed server program of a flavor, or that at `server_path`, of either
    flavor. Raises InputError, CouldNotRun with how to install it."""
    check_choice("flavor", flavor, FLAVORS, refuse, "Any other server: --server-path.")
    if server_path is not None:
        return _find_given(os.fspath(server_path))
    programs = list_installed(flavor)
    if not programs:
        rule = "is not installed here"
        raise refuse.run(NAMES[flavor], rule, f"headrace mysql install {flavor}, or --server-path FILE.")
    return programs[0]


def list_installed(flavor: str) -> list[ServerProgram]:
    """Lists the server programs of a flavor on this machine, the newest first."""
    names = ("mariadbd", "mysqld") if flavor == "mariadb" else ("mysqld",)
    programs = []
    for command in list_unpacked(flavor) + [(path,) for name in names if (path := find_executable(name))][:1]:
        with contextlib.suppress(CouldNotRun, InputError):
            programs.append(ask(command))
    fit = [program for program in programs if program.flavor == flavor]
    return sorted(fit, key=lambda program: program.version, reverse=True)


def list_unpacked(flavor: str) -> list[tuple[str, ...]]:
    """Lists the commands of the server programs that were unpacked into folders."""
    commands = []
    for manifest in sorted(get_unpacked_folder().glob(f"{flavor}-*/{MANIFEST}")):
        # One that is half removed cannot be started.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            commands.append(read_command(manifest))
    return commands


def read_command(manifest: Path) -> tuple[str, ...]:
    """Returns the command of an unpacked server by its manifest, in which {} stands for the folder.
    Raises OSError, ValueError, KeyError or TypeError for a damaged one."""
    arguments = json.loads(manifest.read_text())["command"]
    return tuple(str(argument).replace("{}", str(manifest.parent)) for argument in arguments)


def _find_given(path: str) -> ServerProgram:
    """Returns the server program at a path, of its executable or its base directory."""
    where = Path(os.path.abspath(path))
    if where.is_dir():
        inside = [where / folder / name for folder in ("bin", "sbin") for name in ("mariadbd", "mysqld")]
        where = next((program for program in inside if program.is_file()), where)
    if not (where.is_file() and os.access(where, os.X_OK)):
        hint = "Name the server itself, like /usr/sbin/mysqld, or its base directory."
        raise refuse.input(path[:200], "is not a program that can be run", hint)
    return ask((str(where),))


@lru_cache(maxsize=32)
def _query(command: tuple[str, ...], changed_ns: int) -> ServerProgram:
    """Returns a server program by its output for --version and --help. The answer is cached, per
    command and change of its file (`changed_ns`, ns, Unix). Raises InputError, CouldNotRun."""
    text = _read_output((*command, "--no-defaults", "--version"))
    match = re.search(r"Ver\s+(\d+)\.(\d+)\.(\d+)(\S*)", text)
    if match is None:
        rule = f"does not answer --version as a MySQL or MariaDB server: {text[:80].strip()!r}"
        raise refuse.input(command[-1], rule, "Name mysqld or mariadbd.")
    flavor = "mariadb" if "MariaDB" in text else "mysql"
    version = tuple(int(part) for part in match.groups()[:3])
    defaults = parse_option_values(
        _read_output((*command, *_make_base_options(Path(command[-1])), "--verbose", "--help"))
    )
    basedir = Path(defaults.get("basedir") or Path(command[-1]).parents[1])
    plugins = _find_folder(defaults.get("plugin-dir"), basedir / "lib/plugin", basedir / "lib/mysql/plugin")
    charsets = defaults.get("character-sets-dir")
    share = _find_folder(Path(charsets).parent if charsets else None, basedir / "share/mysql", basedir / "share")
    rocks = flavor == "mariadb" and plugins is not None and (plugins / MYROCKS_PLUGIN).is_file()
    version_text = " ".join(text.partition(" Ver ")[2].split())
    return ServerProgram(
        flavor, version, version_text, command, basedir, share, plugins, ENGINES if rocks else ENGINES[:1], defaults
    )


def _make_base_options(path: Path) -> list[str]:
    """Returns the first options of a server program for --help: no option file, its base directory
    if it is not the system's, and a user other than root."""
    options = ["--no-defaults"]
    if not str(path).startswith(("/usr/sbin/", "/usr/bin/")):
        options.append(f"--basedir={path.parents[1]}")
    return [*options, "--user=mysql"] if os.geteuid() == 0 else options


def ask(command: tuple[str, ...]) -> ServerProgram:
    """Returns the server program of a command, which is run for its version and folders only if its
    file has changed since. Raises InputError for another program, CouldNotRun."""
    try:
        changed = os.stat(command[-1]).st_mtime_ns
    except OSError as error:
        raise refuse.input(command[-1], f"cannot be looked at: {error.strerror}", "Name mysqld or mariadbd.") from None
    return _query(command, changed)


def _read_output(arguments: tuple[str, ...]) -> str:
    """Runs a program, and returns its output. Raises CouldNotRun, also after ASK_S seconds."""
    command = Command(arguments, environment=PRIVATE_ENVIRONMENT, what=f"{arguments[0]} {arguments[-1]}")
    done = run_to_end(command, ASK_S, "Is it a server?")
    if done.code != 0:
        raise refuse.run(command.label, describe_failure(done), "Are its libraries there (ldd)?")
    return done.output


def parse_option_values(text: str) -> dict[str, str]:
    """Returns the values of options by name, from the table at the end of `--verbose --help`."""
    values: dict[str, str] = {}
    _, _, table = text.partition("\n---------")
    for line in table.splitlines()[1:]:
        name, _, value = line.partition(" ")
        if not name or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            continue
        value = value.strip()
        values[name] = "" if value == "(No default value)" else value
    return values


def _find_folder(named: str | Path | None, *others: Path) -> Path | None:
    """Returns the first of these that is a folder; None for none."""
    return next((Path(candidate) for candidate in (named, *others) if candidate and Path(candidate).is_dir()), None)
