"""The data directory of a server: creates it, copies saved data into it, or saves its data.

A volume holds `data` (the server's), `tmp` (its temporary files) and, without a volume of its own,
`log` (redo, binary log, write-ahead log).
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from headrace.base.files import move_over, write_whole
from headrace.base.processes import Command, User, describe_failure, run_checked, run_to_end
from headrace.errors import CouldNotRun
from headrace.servers.flavors import ServerProgram
from headrace.servers.record import ServerPaths, refuse
from headrace.servers.volumes import count_free_bytes, explain_full_volume

SAVED = "saved.json"
FORMAT = "headrace-data/1"
# Guesses. Creating a data directory takes seconds, on a busy machine minutes; a copy, by its size.
MAKE_S = 600.0
COPY_S = 3_600.0


def make_folders(where: ServerPaths, user: User, log_volume: bool) -> None:
    """Creates the folders data, tmp and log on a server's mounted volumes, owned by `user`."""
    log = where.log_mount if log_volume else where.data_mount
    for folder in (where.datadir, where.data_mount / "tmp", log / "log"):
        folder.mkdir(mode=0o750, exist_ok=True)
        os.chown(folder, user.uid, user.gid)


def make(program: ServerProgram, config: Path, user: User) -> None:
    """Creates the data directory that an option file names. Raises CouldNotRun."""
    if program.flavor == "mysql":
        arguments = [*program.command, f"--defaults-file={config}", "--initialize-insecure", "--skip-log-bin"]
    else:
        script = program.find_companion("mariadb-install-db", "mysql_install_db")
        if script is None:
            rule = "is not there: it makes data directories"
            raise CouldNotRun("mariadb-install-db", rule, str(program.path), "headrace mysql install mariadb")
        arguments = [
            str(script),
            f"--defaults-file={config}",
            "--skip-test-db",
            "--auth-root-authentication-method=socket",
        ]
        if not str(program.path).startswith("/usr/sbin/"):
            arguments.append(f"--basedir={program.basedir}")
    command = Command(tuple(arguments), user=user, what=f"making a data directory with {program.label}")
    done = run_to_end(command, MAKE_S, "Is the disk of this machine busy?")
    if done.code != 0:
        cause = describe_failure(done)
        raise CouldNotRun(command.label, cause, str(program.path), explain_full_volume(cause))


def read_saved(folder: Path, program: ServerProgram, engine: str) -> dict:
    """Returns the description of saved data. Raises InputError if they do not fit this server."""
    try:
        saved = json.loads((folder / SAVED).read_text())
        if saved["format"] != FORMAT:
            raise ValueError
    except FileNotFoundError:
        rule = f"holds no saved data directory ({SAVED})"
        raise refuse.input(str(folder), rule, "Save one: headrace mysql down NAME --save FOLDER.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise refuse.input(str(folder / SAVED), f"is not {FORMAT}", "Save the data again.") from None
    for what, expected in (("flavor", program.flavor), ("version", list(program.version)), ("engine", engine)):
        if saved.get(what) != expected:
            rule = (
                f"was saved with {what} {_format_value(saved.get(what))}, and this server has {_format_value(expected)}"
            )
            raise refuse.input(str(folder), rule, "Save the data again, with this server.")
    return saved


def _format_value(value: object) -> str:
    """Returns a value of a description as text; a version is a list there."""
    return ".".join(map(str, value)) if isinstance(value, list) else str(value)


def measure_size(folder: Path) -> int:
    """Returns the bytes of all files below a folder."""
    return sum(entry.stat().st_size for entry in folder.rglob("*") if entry.is_file() and not entry.is_symlink())


def copy_in(folder: Path, where: ServerPaths, user: User, log_volume: bool) -> None:
    """Copies saved data to a server's mounted volumes, without UUID and binary logs. Raises
    InputError if the volumes are too small."""
    log = where.log_mount if log_volume else where.data_mount
    sizes_bytes = {where.data_mount: measure_size(folder / "data")}
    sizes_bytes[log] = sizes_bytes.get(log, 0) + measure_size(folder / "log")
    for mount, size in sizes_bytes.items():
        room = count_free_bytes(mount)
        if size > room:
            rule = f"{size / 2**30:.2f} GiB of data do not fit into {room / 2**30:.2f} GiB"
            raise refuse.input(str(folder), rule, "Take a larger volume.")
    _copy(folder / "data", where.datadir, holes=False)
    _copy(folder / "log", log / "log", holes=False)
    _forget_uuid(where.datadir)
    # The index of the binary log has paths of the old server, and no replica follows this one yet.
    for old in (log / "log").glob("binlog.*"):
        old.unlink()
    for top in (where.datadir, log / "log"):
        give(top, user)


def give(folder: Path, user: User) -> None:
    """Makes a user the owner of a folder and of all that is in it."""
    for top, _, files in os.walk(folder):
        for name in (".", *files):
            os.chown(os.path.join(top, name), user.uid, user.gid, follow_symlinks=False)


def _forget_uuid(data: Path) -> None:
    """Deletes MySQL's UUID: two servers with the same do not replicate from each other."""
    (data / "auto.cnf").unlink(missing_ok=True)


def adopt(where: ServerPaths, log_volume: bool) -> None:
    """Adapts files that came from snapshots of another server to this one. The other may run on
    this machine: the lists of its binary log have its paths, and the new server would read, and
    purge, the files of the old one."""
    data, log = where.datadir, (where.log_mount if log_volume else where.data_mount) / "log"
    _forget_uuid(data)
    for folder in (data, log):
        # The index of the binary log, and those of the relay logs of each channel.
        for index in folder.glob("*.index"):
            about = index.stat()
            lines = index.read_text(errors="surrogateescape").splitlines()
            renamed = [str(folder / Path(line).name) if line.startswith("/") else line for line in lines]
            if renamed != lines:
                write_whole(index, "".join(f"{line}\n" for line in renamed).encode(errors="surrogateescape"))
                os.chown(index, about.st_uid, about.st_gid)
                os.chmod(index, about.st_mode & 0o777)


def copy_out(where: ServerPaths, folder: Path, log_volume: bool, about: dict) -> None:
    """Copies the data of a server whose volumes are mounted into a new folder, with the description
    `about`, whole or not at all. Raises InputError if the folder exists, CouldNotRun."""
    if folder.exists():
        raise refuse.input(str(folder), "is already there", "Name a folder that is to be made.")
    log = where.log_mount if log_volume else where.data_mount
    draft = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(mode=0o700, parents=True)
        _copy(where.datadir, draft / "data", holes=True)
        _copy(log / "log", draft / "log", holes=True)
        write_whole(draft / SAVED, (json.dumps({"format": FORMAT} | about, indent=2) + "\n").encode())
        move_over(draft, folder)
    except OSError as error:
        rule = f"cannot be written: {error.strerror}"
        raise CouldNotRun(str(folder), rule, "", "Is there room for the data?") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy(source: Path, target: Path, holes: bool) -> None:
    """Copies everything below `source`. With `holes`, blocks of zeros take no room. Without, every
    block is allocated, as a server does with its redo log: later writes need not allocate any."""
    target.mkdir(mode=0o750, exist_ok=True)
    arguments = ("cp", "--archive", f"--sparse={'always' if holes else 'never'}", f"{source}/.", str(target))
    command = Command(arguments, what=f"copying {source} to {target}")
    run_checked(command, COPY_S, "Is there room? Is a volume paused?")
