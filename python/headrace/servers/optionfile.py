"""[mysqld] of a user's option file, as the very server that will run reads it: its own my_print_defaults follows !include, groups of versions, quotes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from headrace.errors import CouldNotRun, InputError
from headrace.servers.flavors import GUIDE, ServerProgram, dashed

MAX_BYTES = 1 << 20
ASK_S = 30.0
# These add up instead of replacing each other.
LISTS = ("plugin-load-add",)


def server_options(program: ServerProgram, path: Path) -> dict[str, str | None]:
    """Options with dashes, None where one has no value; of one that is given twice the last. Raises InputError, CouldNotRun."""
    path = path.absolute()
    if not path.exists():
        raise InputError(str(path), "there is no such option file", GUIDE, "--config is default, tuned or an option file.")
    if not path.is_file() or not os.access(path, os.R_OK):
        raise InputError(str(path), "is no file that can be read", GUIDE, "Name an option file like /etc/mysql/my.cnf.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(str(path), f"is longer than {MAX_BYTES >> 20} MiB", GUIDE, "Is it an option file?")
    found: dict[str, str | None] = {}
    for line in _printed(program, path).splitlines():
        if not line.startswith("--") or len(line) < 3:
            continue
        key, equals, value = line[2:].partition("=")
        name = dashed(key)
        if name in LISTS and found.get(name):
            value = f"{found[name]};{value}"
        found.pop(name, None)  # it counts where it stands last
        found[name] = value if equals else None
    if not found:
        rule = f"has no options for {program.label}: nothing under [mysqld], [server] or a group of this server"
        raise InputError(str(path), rule, GUIDE, "Is it the server's option file, and not a client's?")
    return found


def _printed(program: ServerProgram, path: Path) -> str:
    tool = program.tool("my_print_defaults")
    if tool is None:
        rule = "is not there: it reads option files as the server does"
        hint = "apt-get install mariadb-client-core" if program.flavor == "mariadb" else "It is in the packages of MySQL's server."
        raise CouldNotRun("my_print_defaults", rule, str(program.path), hint)
    groups = {"mariadb": ["--mysqld"], "mysql": ["--show", "mysqld", "server", "mysqld-{}.{}".format(*program.version[:2])]}
    words = [*tool, f"--defaults-file={path}", *groups[program.flavor]]
    try:
        # In its folder: !include may be relative.
        done = subprocess.run(words, capture_output=True, timeout=ASK_S, stdin=subprocess.DEVNULL, cwd=path.parent)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CouldNotRun(tool[-1], f"could not be run: {error}", str(path), "") from None
    said = " ".join(done.stderr.decode(errors="replace").split())
    if done.returncode != 0 or "is ignored" in said:
        said = said.removesuffix(" Fatal error in defaults handling. ServerProgram aborted")[:300]
        raise InputError(
            str(path), f"cannot be read as an option file: {said}", tool[-1], "A file that all may write to is not read: chmod o-w."
        )
    try:
        return done.stdout.decode()
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text", GUIDE, "Name an option file.") from None
