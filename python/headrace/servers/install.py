"""Installs servers: MariaDB from the packages of this system, MySQL 9.7 from Debian unstable.

MySQL is not in the stable releases of Debian. apt fetches its packages and all libraries they need,
down to libc and the dynamic loader. It does so with an index, a cache and a state of their own: it
checks signatures and checksums, and the packages of the system stay as they are. They are unpacked
and not installed, so no scripts run and no service starts. The server is then started through its
own loader with its own libraries.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.base import settings
from headrace.base.checks import check_choice
from headrace.base.files import move_over
from headrace.base.machine import find_executable
from headrace.base.packaged import read_text
from headrace.base.processes import Command, find_telling_lines, run_to_end
from headrace.errors import CouldNotRun
from headrace.servers import flavors
from headrace.servers.flavors import FLAVORS, MANIFEST, NAMES, ServerProgram, find_program, list_installed, refuse

MIRROR_VARIABLE = "HEADRACE_DEBIAN_MIRROR"
SUITE = "sid"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MYSQL_PACKAGES = ("mysql-server-core", "mysql-client-core")
MARIADB_PACKAGES = ("mariadb-server", "mariadb-plugin-rocksdb", "mariadb-client")
# Packages that only scripts need, which are not run; and folders that no server needs.
NOT_UNPACKED = ("perl", "libperl", "debconf", "gcc-")
REMOVED = [f"usr/share/{name}" for name in ("doc", "man", "locale", "lintian", "gdb", "gcc")]
REMOVED += ["usr/lib/x86_64-linux-gnu/gconv", "etc"]
# MySQL 9.7.4 of November 2026: 66 MB of packages, 346 MB unpacked.
ROOM_BYTES = 600 << 20
# Guesses for a slow network and a slow disk.
APT_S = 1_800.0
UNPACK_S = 300.0
POLICY = Path("/usr/sbin/policy-rc.d")

Progress = Callable[[float, str], None]


def install(flavor: str, progress: Progress = lambda share, what: None, upgrade: bool = False) -> ServerProgram:
    """Installs a server, and returns its program. An installed server is not changed; with
    `upgrade` the newest MySQL is added. Raises InputError, CouldNotRun."""
    check_choice("flavor", flavor, FLAVORS, refuse)
    installed = list_installed(flavor)
    if flavor == "mysql":
        return installed[0] if installed and not upgrade else install_mysql(progress)
    if installed and "myrocks" in installed[0].engines:
        return installed[0]
    return install_mariadb(progress)


# --- MySQL, in its own folder ---------------------------------------------------------------------


def install_mysql(progress: Progress) -> ServerProgram:
    """Installs the newest MySQL in a new folder of `get_unpacked_folder`, and returns its program.
    Raises CouldNotRun, also without Debian's keyring, tools or room."""
    folder = flavors.get_unpacked_folder()
    apt, dpkg = _require("apt-get", "apt"), _require("dpkg-deb", "dpkg")
    if not KEYRING.is_file():
        rule = "is not there, so the signatures of packages cannot be checked"
        raise refuse.run(str(KEYRING), rule, "apt-get install debian-archive-keyring")
    created = False
    try:
        _check_room(folder)
        created = not folder.exists()
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as draft:
            program = _fetch_and_unpack(Path(draft), apt, dpkg, folder, progress)
    except OSError as error:
        hint = "Run it with sudo, or name another folder in HEADRACE_SERVERS."
        raise refuse.run(str(folder), f"cannot be written: {error.strerror or error}", hint) from None
    finally:
        if created and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    _make_user()
    return program


def _fetch_and_unpack(draft: Path, apt: str, dpkg: str, folder: Path, progress: Progress) -> ServerProgram:
    """Fetches MySQL's packages into `draft`, unpacks and tries them, and moves the tree into
    `folder`, unless that has this version already. Raises InputError, CouldNotRun."""
    options = _make_apt_options(draft / "apt")
    progress(0.05, "fetching the index of packages")
    _run([apt, *options, "update"], "apt-get update", APT_S)
    version = _read_candidate(options)
    target = folder / f"mysql-{version}"
    if (target / MANIFEST).is_file():
        return _ask_tree(target)
    progress(0.2, f"fetching MySQL {version} and its libraries")
    fetch = ["--yes", "--download-only", "--no-install-recommends", "install", *MYSQL_PACKAGES]
    _run([apt, *options, *fetch], "apt-get install --download-only", APT_S)
    packages = sorted((draft / "apt/archives").glob("*.deb"))
    tree = draft / "tree"
    for index, package in enumerate(packages):
        progress(0.5 + 0.4 * index / len(packages), "unpacking")
        if not package.name.startswith(NOT_UNPACKED):
            _run([dpkg, "--extract", str(package), str(tree)], f"unpacking {package.name}", UNPACK_S)
    for name in REMOVED:
        shutil.rmtree(tree / name, ignore_errors=True)
    progress(0.95, "trying it")
    manifest = {
        "flavor": "mysql",
        "version": version,
        "source": f"{_get_mirror()} {SUITE}",
        "command": _build_command(tree),
        "packages": [package.name for package in packages],
    }
    (tree / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    os.chmod(tree, 0o755)
    _ask_tree(tree)
    shutil.rmtree(target, ignore_errors=True)  # left by a try that was killed: it has no manifest
    move_over(tree, target)
    return _ask_tree(target)


def _make_apt_options(folder: Path) -> list[str]:
    """Creates files for apt in a new folder, and returns the options by which apt uses them alone,
    with proxies and keys of /etc/apt/apt.conf.d."""
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_get_mirror()} {SUITE} main\n")
    options = read_text("headrace.servers", "apt_options.txt").format(folder=folder).splitlines()
    return [argument for option in options for argument in ("-o", option)]


def _get_mirror() -> str:
    """Returns the URL of the Debian mirror to fetch from. Raises InputError for no URL."""
    named = settings.get_value(MIRROR_VARIABLE).rstrip("/")
    if not named.startswith(("http://", "https://", "file:/")) or any(character.isspace() for character in named):
        hint = f"For example {settings.VARIABLES[MIRROR_VARIABLE].default}."
        raise refuse.input(f"{MIRROR_VARIABLE}={named[:100]}", "must be the URL of a Debian mirror", hint)
    return named


def _read_candidate(options: list[str]) -> str:
    """Returns the version of MySQL in the index of packages. Raises CouldNotRun if it has none."""
    text = _run([_require("apt-cache", "apt"), *options, "policy", MYSQL_PACKAGES[0]], "apt-cache policy", APT_S)
    for line in text.splitlines():
        what, _, value = line.strip().partition(": ")
        if what == "Candidate" and value.strip() not in ("", "(none)"):
            return value.strip()
    rule = f"is not in Debian {SUITE} for {platform.machine()}"
    raise CouldNotRun(
        MYSQL_PACKAGES[0], rule, _get_mirror(), "Fetch MySQL from mysql.com and name it with --server-path."
    )


def _build_command(tree: Path) -> list[str]:
    """Returns the command of the server in an unpacked tree: loader, libraries, server; {} stands
    for the tree. Raises CouldNotRun if it has no server."""
    loaders = [*tree.glob("usr/lib/*/ld-linux*.so.*"), *tree.glob("usr/lib/ld-linux*.so.*")]
    server = tree / "usr/sbin/mysqld"
    if not loaders or not server.is_file():
        rule, hint = "hold no server with its loader", "Has Debian moved it? Use --server-path."
        raise CouldNotRun("the packages of MySQL", rule, f"{_get_mirror()} {SUITE}", hint)
    files = [path for path in tree.glob("usr/lib/**/lib*.so.*") if "plugin" not in path.parts]
    libraries = sorted({path.parent.relative_to(tree) for path in files})
    where = ":".join(f"{{}}/{folder}" for folder in libraries)
    # --inhibit-cache: the system's cache of libraries lists those of another libc.
    return [f"{{}}/{loaders[0].relative_to(tree)}", "--inhibit-cache", "--library-path", where, "{}/usr/sbin/mysqld"]


def _ask_tree(tree: Path) -> ServerProgram:
    """Runs the server of an unpacked tree and returns its program. Raises CouldNotRun."""
    return flavors.ask(flavors.read_command(tree / MANIFEST))


def _check_room(folder: Path) -> None:
    """Raises CouldNotRun if fewer than ROOM_BYTES are free where the folder is or will be."""
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    free = shutil.disk_usage(existing).free
    if free < ROOM_BYTES:
        rule = f"has {free >> 20} MiB free, and {ROOM_BYTES >> 20} MiB are needed"
        raise refuse.run(str(folder), rule, "Free some, or set HEADRACE_SERVERS.")


def _make_user() -> None:
    """Creates the user `mysql` if it does not exist and this process is root."""
    try:
        pwd.getpwnam("mysql")
    except KeyError:
        if os.geteuid() == 0:
            options = "--system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin mysql"
            _run([_require("useradd", "passwd"), *options.split()], "useradd mysql", 60.0)


# --- MariaDB, of the system -----------------------------------------------------------------------


def install_mariadb(progress: Progress) -> ServerProgram:
    """Installs MariaDB from the packages of the system, and returns its program. It is started
    neither now nor at boot, unless it was before. Raises CouldNotRun."""
    apt = _require("apt-get", "apt")
    if os.geteuid() != 0:
        rule = "installing packages takes root"
        raise CouldNotRun(f"user id {os.geteuid()}", rule, "apt-get(8)", "Run it with sudo.")
    progress(0.05, "asking apt")
    _refuse_removals(apt)
    was_installed = bool(list_installed("mariadb"))
    progress(0.2, "installing MariaDB")
    with _block_services():
        _run([apt, "--yes", "--no-install-recommends", "install", *MARIADB_PACKAGES], "apt-get install", APT_S)
    if not was_installed:
        _disable()
    return find_program("mariadb")


def _disable() -> None:
    """Keeps MariaDB from starting at boot, under systemd or System V."""
    for program, arguments in (("systemctl", "disable mariadb.service"), ("update-rc.d", "mariadb disable")):
        program_path = find_executable(program)
        if program_path:
            _run([program_path, *arguments.split()], f"{program} {arguments}", 120.0)
            return


def _refuse_removals(apt: str) -> None:
    """Raises CouldNotRun if apt would remove packages: MariaDB's and MySQL's exclude each other."""
    arguments = [apt, "--simulate", "--no-install-recommends", "install", *MARIADB_PACKAGES]
    text = _run(arguments, "apt-get --simulate install", APT_S)
    removed = [line.split()[1] for line in text.splitlines() if line.startswith("Remv ")]
    if removed:
        rule = f"installing it would remove {', '.join(removed[:6])}"
        hint = "Unpack MariaDB's tar archive somewhere and name it with --server-path."
        raise CouldNotRun(NAMES["mariadb"], rule, "apt-get --simulate", hint)


@contextmanager
def _block_services() -> Iterator[None]:
    """Keeps packages from starting services during the block, by a policy-rc.d with exit code 101
    (Debian policy 9.3.3.1). An existing one stays in force instead."""
    if POLICY.exists() or POLICY.is_symlink():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    try:
        POLICY.chmod(POLICY.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        yield
    finally:
        POLICY.unlink(missing_ok=True)


# --- both -----------------------------------------------------------------------------------------


def _require(name: str, package: str) -> str:
    """Returns the path of a program of a Debian package. Raises CouldNotRun without it."""
    program_path = find_executable(name)
    if program_path is None:
        hint = f"On Debian and Ubuntu it is in {package}. Elsewhere: --server-path FILE names any server."
        raise refuse.run(name, "is not here: servers are installed from Debian's packages", hint)
    return program_path


def _run(arguments: list[str], what: str, timeout_s: float) -> str:
    """Runs a command to its end and returns its output. `what`: its name in errors. Raises
    CouldNotRun, also for an index that `apt-get update` could not fetch."""
    command = Command(tuple(arguments), environment={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}, what=what)
    done = run_to_end(command, timeout_s, "Is the network slow?")
    # `apt-get update` ends well when an index could not be fetched.
    if done.code != 0 or ("apt-get update" in what and "\nErr:" in f"\n{done.output}"):
        last_lines = find_telling_lines(f"{done.errors}\n{done.output}")
        rule = f"failed (exit code {done.code}): {last_lines}"
        raise CouldNotRun(what, rule, arguments[0], "Does this machine reach its package mirrors?")
    return done.output
