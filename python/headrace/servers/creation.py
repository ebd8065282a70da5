"""Making a server: volumes, filesystems, data directory, first start.

When a step fails or is interrupted, everything that was made before it is removed again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from headrace.base import processes
from headrace.base.machine import required
from headrace.base.processes import undisturbed
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import access, config, datadir, running, volumes
from headrace.servers.access import service_user
from headrace.servers.flavors import ENGINES, GUIDE, NAMES, ServerProgram
from headrace.servers.record import Record, ServerPaths, save


@dataclass(frozen=True)
class CreateRequest:
    """The server to be made, checked as far as that goes without changing anything.

    `seed`: a folder of saved data, or the id of a snapshot of the data volume; `log_seed`: that of
    the log volume, of the same moment.
    """

    record: Record
    program: ServerProgram
    seed: Path | str | None
    log_seed: str | None = None


def checked_request(
    program: ServerProgram, wanted: Record, seed: Path | str | None, log_seed: str | None = None
) -> CreateRequest:
    """The request with the options of its kind of configuration.

    Raises InputError for what no server can have, CouldNotRun for what this machine lacks.
    """
    engine, port = wanted.engine, wanted.port
    if engine not in ENGINES:
        raise InputError(engine[:60], f"an engine is {' or '.join(ENGINES)}", GUIDE, "")
    if engine not in program.engines:
        hint = f"{NAMES['mariadb']} has it: --flavor mariadb."
        if program.flavor == "mariadb":
            hint = "headrace mysql install mariadb brings it for MariaDB."
        raise InputError(f"engine {engine}", f"{program.label} has no MyRocks here", GUIDE, hint)
    if port is not None and not 1 <= port <= 65_535:
        raise InputError(f"port {port}", "is 1 to 65,535", "TCP, RFC 9293", "")
    options, notes = config.choose(program, wanted)
    kind = wanted.config if wanted.config in config.KINDS else os.path.abspath(wanted.config)
    running.check_port(wanted)
    required("mkfs.xfs", "xfsprogs")
    if isinstance(seed, Path):
        datadir.read_saved(seed, program, engine)
    elif seed is not None and wanted.log_storage is not None and log_seed is None:
        raise InputError(
            f"--log-storage {wanted.log_storage}",
            f"a server from snapshot {seed} has its logs on the volume of its data",
            GUIDE,
            "Leave out --log-storage. A set of both volumes: headrace snapshot restore.",
        )
    return CreateRequest(wanted.with_(options=options, notes=notes, config=kind), program, seed, log_seed)


def create(lab: Lab, where: ServerPaths, wanted: CreateRequest, progress: running.Progress, timeout_s: float) -> Record:
    """Makes and starts it. On an error nothing is left of it, or the error says what is."""
    try:
        return _create(lab, where, wanted, progress, timeout_s)
    except BaseException as error:
        with undisturbed():
            kept = clear(lab, where, wanted.record.name)
        if kept:
            raise _with_remains(error, wanted.record.name, kept) from error
        raise


def _with_remains(error: BaseException, name: str, kept: list[str]) -> HeadraceError:
    """The error with what could not be removed again."""
    remains = f"Not removed: {'; '.join(kept)}. Remove it later: headrace mysql destroy {name}."
    if isinstance(error, HeadraceError):
        return error.but(hint=f"{error.hint} {remains}".strip())
    # 130: interrupted, as shells count.
    code = 130 if isinstance(error, KeyboardInterrupt) else None
    return CouldNotRun(name, f"could not be made: {error or 'interrupted'}", GUIDE, remains, code)


def _create(
    lab: Lab, where: ServerPaths, wanted: CreateRequest, progress: running.Progress, timeout_s: float
) -> Record:
    record, program, user = wanted.record, wanted.program, service_user()
    where.state.mkdir(mode=0o700, parents=True)
    save(where, record)
    access.create_account(where)
    if record.port is not None:
        access.create_certificates(where, record.name)
    running.write_config(where, record, program, user)
    adjusted = config.check(program, where.config, record.config if record.config not in config.KINDS else "settings")
    record = record.with_(notes=[*record.notes, *adjusted])
    progress(0.05, "creating the volumes")
    snapshot = wanted.seed if isinstance(wanted.seed, str) else None
    record = record.with_(data_volume=volumes.create(lab, record, "data", record.storage, snapshot))
    save(where, record)
    if record.log_storage is not None:
        log = volumes.create(lab, record, "log", record.log_storage, wanted.log_seed)
        record = record.with_(log_volume=log)
        save(where, record)
    if snapshot is None:
        _fill(lab, where, record, wanted, progress)
    progress(0.6, "attaching the volumes with their limits")
    for volume, place in volumes.mounts_of(where, record):
        volumes.mount(volumes.attach_fresh(lab, volume, record.unpaced), place)
    if snapshot is not None:
        datadir.adopt(where, record.log_storage is not None)
    progress(0.8, "starting the server")
    with access.init_file(where, record.flavor, user) as init_file:
        record = running.launch(where, record, program, init_file, progress, timeout_s)
    record = record.with_(made=True)
    save(where, record)
    return record


def _fill(lab: Lab, where: ServerPaths, record: Record, wanted: CreateRequest, progress: running.Progress) -> None:
    """Filesystems and data on new volumes, without the volumes' limits: nobody wants to wait for,
    or measure, a new data directory."""
    user, log_volume = service_user(), record.log_storage is not None
    for volume, place in volumes.mounts_of(where, record):
        device = volumes.attach_fresh(lab, volume, unpaced=True)
        volumes.make_filesystem(device)
        volumes.mount(device, place)
    progress(0.2, "making the data directory" if wanted.seed is None else "copying the data")
    datadir.folders(where, user, log_volume)
    if isinstance(wanted.seed, Path):
        datadir.copy_in(wanted.seed, where, user, log_volume)
    else:
        datadir.make(wanted.program, where.config, user)
    for _, place in volumes.mounts_of(where, record):
        volumes.unmount(place)


def clear(lab: Lab, where: ServerPaths, name: str) -> list[str]:
    """Removes process, mounts, volumes and folders of a server; in words, what could not be."""
    kept: list[str] = []
    user = service_user()
    # It may be the server, or the program that makes its data directory, which has children.
    while (left := processes.with_argument(f"--defaults-file={where.config}", user)) is not None:
        if not processes.end_process(left, signal.SIGKILL, running.KILL_S):
            kept.append(f"process {left.pid} does not end")
            break
    volumes.quietly_unmount(where)
    try:
        for volume in volumes.left_by(lab, name):
            volumes.remove(lab, volume)
    except (HeadraceError, OSError) as error:
        kept.append(running.described(error))
    if not kept:
        shutil.rmtree(where.run, ignore_errors=True)
        shutil.rmtree(where.state, ignore_errors=True)
        with contextlib.suppress(OSError):
            where.run.parent.rmdir()
    return kept


def destroy(lab: Lab, where: ServerPaths, name: str) -> None:
    """Removes all of it, with its data. Raises CouldNotRun for what remains."""
    with undisturbed():
        kept = clear(lab, where, name)
    if kept:
        raise CouldNotRun(name, f"could not be removed: {'; '.join(kept)}", GUIDE, "Try again: headrace mysql destroy.")
