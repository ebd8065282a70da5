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
from headrace.base.processes import required, undisturbed
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import access, config, datadir, running, volumes
from headrace.servers.access import service_user
from headrace.servers.flavors import GUIDE, NAMES, ServerProgram
from headrace.servers.record import Record, ServerPaths, save


@dataclass(frozen=True)
class CreateRequest:
    """The server to be made, checked as far as that goes without changing anything."""

    record: Record
    program: ServerProgram
    seed: Path | None


def checked_request(
    program: ServerProgram,
    *,
    name: str,
    engine: str,
    storage: str,
    log_storage: str | None,
    config_name: str | Path,
    memory_gib: float | None,
    settings: dict[str, str] | None,
    server_path: str | os.PathLike | None,
    port: int | None,
    unpaced: bool,
    seed_from: Path | None,
) -> CreateRequest:
    """Raises InputError for what no server can have, CouldNotRun for what this machine lacks."""
    if engine not in ("innodb", "myrocks"):
        raise InputError(engine[:60], "an engine is innodb or myrocks", GUIDE, "")
    if engine not in program.engines:
        rule = f"{program.label} has no MyRocks here"
        hint = (
            "headrace mysql install mariadb brings it for MariaDB."
            if program.flavor == "mariadb"
            else f"{NAMES['mariadb']} has it: --flavor mariadb."
        )
        raise InputError(f"engine {engine}", rule, GUIDE, hint)
    if port is not None and not 1 <= port <= 65_535:
        raise InputError(f"port {port}", "is 1 to 65,535", "TCP, RFC 9293", "")
    memory = config.checked_memory(memory_gib)
    on_top = config.checked_settings(settings)
    chosen = config.choose(program, engine, config_name, storage, log_storage, memory)
    kind = str(config_name) if str(config_name) in config.KINDS else str(Path(config_name).absolute())
    record = Record(
        name=name,
        flavor=program.flavor,
        version_text=program.version_text,
        engine=engine,
        storage=storage,
        log_storage=log_storage,
        server_path=None if server_path is None else os.path.abspath(server_path),
        config=kind,
        options=chosen.options,
        settings=on_top,
        memory_gib=memory,
        port=port,
        unpaced=unpaced,
        notes=chosen.notes,
    )
    running.check_port(record)
    required("mkfs.xfs", "xfsprogs")
    if seed_from is not None:
        datadir.read_saved(seed_from, program, engine)
    return CreateRequest(record, program, seed_from)


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
        return type(error)(error.value, error.rule, error.source, f"{error.hint} {remains}".strip(), error.exit_code)
    # 130: interrupted, as shells count.
    code = 130 if isinstance(error, KeyboardInterrupt) else None
    return CouldNotRun(name, f"could not be made: {error or 'interrupted'}", GUIDE, remains, code)


def _create(lab: Lab, where: ServerPaths, wanted: CreateRequest, progress: running.Progress, timeout_s: float) -> Record:
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
    record = record.with_(data_volume=volumes.create(lab, record.name, "data", record.storage))
    save(where, record)
    if record.log_storage is not None:
        record = record.with_(log_volume=volumes.create(lab, record.name, "log", record.log_storage))
        save(where, record)
    # Without the volumes' limits: nobody wants to wait for, or measure, a new data directory.
    for volume, place in volumes.mounts_of(where, record):
        device = volumes.attach_fresh(lab, volume, unpaced=True)
        volumes.make_filesystem(device)
        volumes.mount(device, place)
    progress(0.2, "making the data directory" if wanted.seed is None else "copying the data")
    datadir.folders(where, user, record.log_storage is not None)
    if wanted.seed is not None:
        datadir.copy_in(wanted.seed, where, user, record.log_storage is not None)
    else:
        datadir.make(program, where.config, user)
    progress(0.6, "attaching the volumes with their limits")
    for volume, place in volumes.mounts_of(where, record):
        volumes.unmount(place)
        volumes.mount(volumes.attach_fresh(lab, volume, record.unpaced), place)
    progress(0.8, "starting the server")
    with access.init_file(where, record.flavor, user) as init_file:
        record = running.launch(where, record, program, init_file, progress, timeout_s)
    record = record.with_(made=True)
    save(where, record)
    return record


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
