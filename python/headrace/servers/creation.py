"""Creates a server: volumes, filesystems, data directory, first start.

When a step fails or is interrupted, everything that was made before it is removed again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headrace.base import processes
from headrace.base.checks import check_choice
from headrace.base.machine import require_program
from headrace.base.signals import ignore_interrupts
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import access, config, datadir, running, volumes
from headrace.servers.access import find_service_user
from headrace.servers.flavors import ENGINES, NAMES, ServerProgram, refuse
from headrace.servers.record import Record, ServerPaths, save
from headrace.servers.topology import links


class Seeding(Protocol):
    """A way to bring the data of another server to a new one. The methods are called in this order;
    if one of them fails, the new server is removed again."""

    def prepare_snapshots(self, lab: Lab) -> Mapping[str, str]:
        """Returns the ids of the snapshots from which the volumes are made, by role (data, log);
        none for empty volumes. It may take them first."""
        ...

    def fill(self, where: ServerPaths, record: Record, program: ServerProgram) -> None:
        """Copies the data to the mounted volumes, or adapts volumes from snapshots."""
        ...

    def finish(self, lab: Lab, where: ServerPaths, record: Record) -> Record:
        """Completes the copy on the running server, and returns its record."""
        ...


@dataclass(frozen=True)
class CreateRequest:
    """A server to create, checked as far as possible without changing anything. `seed`: a folder of
    saved data, the id of a snapshot of the data volume, or another server's data as a `Seeding`;
    `log_seed`: a snapshot of the log volume, of the same moment."""

    record: Record
    program: ServerProgram
    seed: Path | str | Seeding | None
    log_seed: str | None = None


def check_request(
    program: ServerProgram, record: Record, seed: Path | str | Seeding | None, log_seed: str | None = None
) -> CreateRequest:
    """Returns a request to create the server of a record, which gets the options of its `config`.
    Raises InputError for values that no server can have, CouldNotRun for missing programs."""
    engine, port = record.engine, record.port
    check_choice("engine", engine, ENGINES, refuse)
    if engine not in program.engines:
        hint = f"{NAMES['mariadb']} has it: --flavor mariadb."
        if program.flavor == "mariadb":
            hint = "headrace mysql install mariadb brings it for MariaDB."
        raise refuse.input(f"engine {engine}", f"{program.label} has no MyRocks here", hint)
    if port is not None and not 1 <= port <= 65_535:
        raise InputError(f"port {port}", "is 1 to 65,535", "TCP, RFC 9293", "")
    options, notes = config.choose(program, record)
    kind = record.config if record.config in config.KINDS else os.path.abspath(record.config)
    running.check_port(record)
    require_program("mkfs.xfs", "xfsprogs")
    if isinstance(seed, Path):
        datadir.read_saved(seed, program, engine)
    elif isinstance(seed, str) and record.log_storage is not None and log_seed is None:
        rule = f"a server from snapshot {seed} has its logs on the volume of its data"
        hint = "Leave out --log-storage. A set of both volumes: headrace snapshot restore."
        raise refuse.input(f"--log-storage {record.log_storage}", rule, hint)
    return CreateRequest(record.with_(options=options, notes=notes, config=kind), program, seed, log_seed)


def create(
    lab: Lab, where: ServerPaths, request: CreateRequest, progress: running.Progress, timeout_s: float
) -> Record:
    """Creates and starts a server, and returns its record. An error removes it."""
    try:
        return _create(lab, where, request, progress, timeout_s)
    except BaseException as error:
        with ignore_interrupts():
            no_room = volumes.explain_full_disk(lab)  # before its own room is free again
            remains = clear(lab, where, request.record.name)
        if no_room and isinstance(error, CouldNotRun):
            error = error.amend(hint=no_room)
        if remains:
            raise _with_remains(error, request.record.name, remains) from error
        raise error


def _with_remains(error: BaseException, name: str, remains: list[str]) -> HeadraceError:
    """Returns an error whose hint lists what could not be removed (`remains`, in words)."""
    hint = f"Not removed: {'; '.join(remains)}. Remove it later: headrace mysql destroy {name}."
    if isinstance(error, HeadraceError):
        return error.amend(hint=f"{error.hint} {hint}".strip())
    # 130: interrupted, as shells count.
    code = 130 if isinstance(error, KeyboardInterrupt) else None
    return refuse.run(name, f"could not be made: {error or 'interrupted'}", hint, code)


def _create(
    lab: Lab, where: ServerPaths, request: CreateRequest, progress: running.Progress, timeout_s: float
) -> Record:
    """Creates volumes, filesystems and data, starts the server, and returns its record, which is
    saved after each step. It removes nothing after an error."""
    record, program, user = request.record, request.program, find_service_user()
    where.state.mkdir(mode=0o700, parents=True)
    save(where, record)
    access.create_account(where)
    if record.port is not None:
        access.create_certificates(where, record.name, record.host)
    running.write_config(where, record, program, user)
    adjusted = config.check(program, where.config, record.config if record.config not in config.KINDS else "settings")
    record = record.with_(notes=[*record.notes, *adjusted])
    progress(0.05, "creating the volumes")
    seeding = None if request.seed is None or isinstance(request.seed, Path | str) else request.seed
    snapshots = _prepare_snapshots(lab, request, seeding)
    data = volumes.create(lab, record, "data", record.storage, snapshots.get("data"))
    record = record.with_(volumes=replace(record.volumes, data=data))
    save(where, record)
    if record.log_storage is not None:
        log = volumes.create(lab, record, "log", record.log_storage, snapshots.get("log"))
        record = record.with_(volumes=replace(record.volumes, log=log))
        save(where, record)
    if not snapshots and seeding is None:
        _fill(lab, where, record, request, progress)
    progress(0.6, "attaching the volumes with their limits")
    for volume, place in volumes.list_own_mounts(where, record):
        device = volumes.attach_fresh(lab, volume, record.volumes.unpaced)
        if seeding is not None and not snapshots:
            volumes.make_filesystem(device)
        volumes.mount(device, place)
    if isinstance(request.seed, str):
        datadir.adopt(where, record.log_storage is not None)
    if seeding is not None:
        progress(0.65, "copying the source's data")
        seeding.fill(where, record, program)
    progress(0.8, "starting the server")
    with access.write_init_file(where, record.flavor, user, record.host) as init_file:
        # A copy knows the source's own source, and would follow it at once.
        skip = () if seeding is None else running.make_no_replication_option(program)
        record = running.launch(where, record, program, init_file, progress, timeout_s, skip)
    if seeding is not None:
        progress(0.95, "following the source")
        record = seeding.finish(lab, where, record)
    record = record.with_(created=True)
    save(where, record)
    return record


def _prepare_snapshots(lab: Lab, request: CreateRequest, seeding: Seeding | None) -> Mapping[str, str]:
    """Returns the ids of the snapshots from which the volumes are made, by role (data, log)."""
    if isinstance(request.seed, str):
        return {"data": request.seed} | ({"log": request.log_seed} if request.log_seed else {})
    return seeding.prepare_snapshots(lab) if seeding is not None else {}


def _fill(lab: Lab, where: ServerPaths, record: Record, request: CreateRequest, progress: running.Progress) -> None:
    """Creates filesystems and data, or copies saved data, on new volumes, without the volumes'
    limits, as nobody measures that; the volumes are unmounted afterwards."""
    user, log_volume = find_service_user(), record.log_storage is not None
    for volume, place in volumes.list_own_mounts(where, record):
        device = volumes.attach_fresh(lab, volume, unpaced=True)
        volumes.make_filesystem(device)
        volumes.mount(device, place)
    progress(0.2, "making the data directory" if request.seed is None else "copying the data")
    datadir.make_folders(where, user, log_volume)
    if isinstance(request.seed, Path):
        datadir.copy_in(request.seed, where, user, log_volume)
    else:
        datadir.make(request.program, where.config, user)
    for _, place in volumes.list_own_mounts(where, record):
        volumes.unmount(place)


def clear(lab: Lab, where: ServerPaths, name: str) -> list[str]:
    """Kills a server's processes, and removes its mounts, network, volumes, snapshots for seeding
    and folders; returns, in words, what could not be removed. The folders stay then."""
    remains: list[str] = []
    user = find_service_user()
    # It may be the server, or the program that makes its data directory, which has children.
    while (process := processes.find_by_argument(f"--defaults-file={where.config}", user)) is not None:
        if not processes.end_process(process, signal.SIGKILL, running.KILL_S):
            remains.append(f"process {process.pid} does not end")
            break
    volumes.unmount_quietly(where)
    try:
        links.remove_named(where)
        for volume in volumes.list_tagged(lab, name):
            volumes.remove(lab, volume)
        volumes.drop_seeds(lab, name)
    except (HeadraceError, OSError) as error:
        remains.append(running.describe_error(error))
    if not remains:
        shutil.rmtree(where.run, ignore_errors=True)
        shutil.rmtree(where.state, ignore_errors=True)
        with contextlib.suppress(OSError):
            where.run.parent.rmdir()
    return remains


def destroy(lab: Lab, where: ServerPaths, name: str) -> None:
    """Removes a server with its data. Raises CouldNotRun if something of it remains."""
    with ignore_interrupts():
        remains = clear(lab, where, name)
    if remains:
        raise refuse.run(name, f"could not be removed: {'; '.join(remains)}", "Try again: headrace mysql destroy.")
