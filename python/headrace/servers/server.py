"""Servers on the lab: up, stop, start, destroy, find, list.

>>> from headrace import servers
>>> from headrace.lab import Lab
>>> server = servers.bring_up(Lab(), name="db", storage="gp3:20", memory_gib=1)        # doctest: +SKIP
>>> server.address("shop").label                                              # doctest: +SKIP
'mysql://headrace@/shop?socket=/run/headrace/mysql/0f3a5e1c9d2b/db/sock/mysql.sock'
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from headrace.base.encoding import Document, pick_fields
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.base.storage import Storage
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab, NoLab
from headrace.mysql.address import Address
from headrace.servers import access, creation, datadir, running, volumes
from headrace.servers import record as records
from headrace.servers.config import check, check_memory, check_settings
from headrace.servers.flavors import CLIENTS, find_program
from headrace.servers.record import Record, ServerPaths, ServerVolumes, find_data_dir, make_server_paths, refuse
from headrace.servers.running import READY_S, STOP_S, Progress, discard_progress
from headrace.servers.topology import links
from headrace.servers.topology.links import find_free_host

# Seconds between two looks at a log that is followed.
LOOK_EVERY_S = 0.25
SNAPSHOT = re.compile(r"snap-[0-9a-f]{17}")  # as EC2 names them


@dataclass(frozen=True)
class AttachedVolumes(ServerVolumes):
    """The volumes of a server, and their devices, data first; none while the lab is down."""

    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Server(Document, omitted=("lab", "paths", "volumes")):
    """A server of a lab, as it was when it was asked. `state`: running, stopped (with `stop`), or
    dead (it should run and does not). `clean`: it was shut down last. `paths`: its files. `notes`:
    options that were left out of its option file. `problems`: each in words."""

    name: str
    flavor: str
    version_text: str
    engine: str
    port: int | None
    pid: int | None
    state: str
    storage: str
    log_storage: str | None
    volumes: AttachedVolumes
    config: str
    settings: dict[str, str | None]
    server_path: str | None
    memory_gib: float | None
    clean: bool
    paths: ServerPaths
    host: str = "127.0.0.1"
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    lab: Lab = field(compare=False, repr=False, kw_only=True)

    def make_address(self, database: str | None = None, tcp: bool = False) -> Address:
        """Returns the address of Headrace's account with the password: its socket, or with `tcp`
        its port over TLS. Raises InputError without a port, CouldNotRun."""
        if tcp and self.port is None:
            raise refuse.input(self.name, "has no port", "Make it with --port.")
        return access.make_address(self.paths, self.port if tcp else None, database, self.host)

    def list_entries(self) -> dict[str, object]:
        """Returns the attributes by name, without secrets; the address as text, and the paths of
        files that an administrator opens."""
        paths, volumes = self.paths, self.volumes
        address = {"address": Address(access.ACCOUNT, socket=str(paths.socket)).label}
        storage = {"data_volume": volumes.data, "log_volume": volumes.log, "devices": volumes.devices}
        files = {"config_file": paths.config, "folder": paths.state, "client_file": paths.client}
        return address | super().list_entries() | storage | pick_fields(paths, "socket", "datadir", "log") | files


def bring_up(
    lab: Lab,
    *,
    name: str = "db",
    flavor: str | None = None,
    engine: str | None = None,
    storage: str | None = None,
    log_storage: str | None = None,
    config: str | Path | None = None,
    memory_gib: float | None = None,
    settings: Mapping[str, str | None] | None = None,
    server_path: str | os.PathLike | None = None,
    port: int | None = None,
    unpaced: bool = False,
    encrypted: bool = False,
    seed_from: str | os.PathLike | None = None,
    log_seed_from: str | None = None,
    own_address: bool = False,
    host: str | None = None,
    only_new: bool = False,
    progress: Progress = discard_progress,
    timeout_s: float = READY_S,
) -> Server:
    """Creates a server and starts it, or starts an existing server again with its data.

    For an existing server only `settings` (added to its own) and `unpaced` may be given.

    `storage`, `log_storage`: as `gp3:500:6000`; redo, binary log and write-ahead log go to the
    second. `engine`: innodb or myrocks. `config`: default (the server's own), tuned
    (`headrace.advice`), or an option file. `memory_gib`: 3/4 of it caches data, unless the advice
    decides. `unpaced`: its volumes have no limits until the next start, to load data. `encrypted`:
    its volumes are encrypted. `seed_from`: a folder of `save_data`, or a snapshot (`snap-...`) of
    the data volume of a server that had no log volume; its blocks are loaded when they are first
    used. `log_seed_from`: with a snapshot, that of the log volume of the same moment. `progress`:
    told a share (0 to 1) and what is done. `timeout_s`: longest wait for the server to answer.
    `own_address`: not at 127.0.0.1 but with an address of its own in a network namespace, whose
    link can be cut (`topology.links`); at port 3306, if no other is named; `host`: that very
    address. `only_new`: an existing server is refused, and stays as it is.

    Raises InputError, CouldNotRun, LabRefused. When `up` fails or is interrupted, nothing is left
    of a new server, and an old one is stopped.
    """
    access.check_root()
    where = make_server_paths(find_data_dir(lab), name)
    lab.status()  # nothing is begun without one
    new = {
        "flavor": flavor,
        "engine": engine,
        "storage": storage,
        "log_storage": log_storage,
        "config": config,
        "memory_gib": memory_gib,
        "server_path": None if server_path is None else os.path.abspath(server_path),
        "port": port,
        "seed_from": seed_from,
        "log_seed_from": log_seed_from,
        "encrypted": encrypted or None,
    }
    with records.lock_server(where), ends_as_interrupts():
        record = records.load(where)
        if record is not None and record.created:
            _refuse_other(record, _read_specs(lab, record), new, only_new)
            record = _start_existing(lab, where, record, settings, unpaced, progress, timeout_s)
            return _observe_server(lab, where, record)
        if storage is None:
            rule = "is not a server of this lab yet, and no storage was named for it"
            raise refuse.input(name, rule, "Add --storage, for example --storage gp3:20.")
        program = find_program(flavor or "mariadb", server_path)
        new_record = Record(
            name=name,
            flavor=program.flavor,
            version_text=program.version_text,
            engine=engine or "innodb",
            storage=storage,
            log_storage=log_storage,
            server_path=new["server_path"],
            config=str(config or "default"),
            memory_gib=check_memory(memory_gib),
            port=port,
            settings=check_settings(settings),
            volumes=ServerVolumes(unpaced=unpaced, encrypted=encrypted),
        )
        if own_address or host is not None:
            host = host or find_free_host(where, records.list_hosts(find_data_dir(lab)))
            new_record = new_record.with_(host=host, port=port or links.PORT)
        seed = None if seed_from is None else os.fspath(seed_from)  # the id of a snapshot, or the path of a folder
        seed = seed if seed is None or SNAPSHOT.fullmatch(seed) else Path(seed)
        request = creation.check_request(program, new_record, seed, log_seed_from)
        if where.state.exists():
            creation.destroy(lab, where, name)  # left by an `up` that was killed
        return _observe_server(lab, where, creation.create(lab, where, request, progress, timeout_s))


def refuse_other_storage(name: str, has: tuple[str, str | None], data: object, log: object) -> None:
    """Raises InputError if `data` or `log`, storage that the user asks for (None: not), differs
    from what a server `has`, data and log."""
    for option, volume, present, requested in (("storage", "data", has[0], data), ("log-storage", "log", has[1], log)):
        if requested is None or (present is not None and is_same_storage(str(requested), present)):
            continue
        where = "without a log volume" if present is None else f"on {present}"
        hint = f"Use headrace volume modify {name}-{volume}."
        if present is None:
            hint = "Make another server with one: headrace mysql up, headrace replica up."
        raise refuse.input(name, f"exists {where}; --{option} cannot change it", hint)


def is_same_storage(spec: str, other: str) -> bool:
    """Returns whether two notations name equal layout, size and limits: gp3:20, gp3:20:3000."""
    if spec == other:
        return True
    try:
        first, second = (Storage.parse(text) for text in (spec, other))
        limits, others = ([dict(each) | {"spec": ""} for each in storage.list_limits()] for storage in (first, second))
    except HeadraceError:
        return False
    return first.layout == second.layout and first.size_gib == second.size_gib and limits == others


def _refuse_other(record: Record, specs: tuple[str, str | None], new: dict[str, object], only_new: bool) -> None:
    """Raises InputError if an existing server would get other values (`new`, by option; None: not
    given) than it has, or any with `only_new`. `specs`: its data and log storage now."""
    if only_new:
        raise refuse.input(record.name, "is there already: it was made meanwhile", "Name a new server.")
    refuse_other_storage(record.name, specs, new["storage"], new["log_storage"])
    for what, value in new.items():
        if what in ("storage", "log_storage"):
            continue
        has = getattr(record, what, None)
        same = value == has or str(value) == str(has) or (what == "config" and str(Path(str(value)).absolute()) == has)
        if value is not None and not same:
            rule = f"is there already, with {what.replace('_', ' ')} {has if has is not None else '(none)'}"
            hint = "Start it without this, or make another with its own name."
            raise refuse.input(f"{record.name}: {what.replace('_', '-')} {value}", rule, hint)


def _start_existing(
    lab: Lab,
    where: ServerPaths,
    record: Record,
    settings: Mapping[str, str | None] | None,
    unpaced: bool,
    progress: Progress,
    timeout_s: float,
) -> Record:
    """Starts an existing server, after a shutdown if its settings or `unpaced` change, and returns
    and saves its record. `settings`: added to its own. Raises InputError, CouldNotRun."""
    lasting = record.merge_settings(check_settings(settings))
    changes = {"settings": lasting, "volumes": replace(record.volumes, unpaced=unpaced)}
    other = record.with_(**changes) != record
    if changes["settings"] != record.settings:
        _check_settings(where, record.with_(**changes))
    if other and running.find_process(where, record) is not None:
        record = running.stop(where, record, kill=False, progress=progress)
    started = running.start(lab, where, record.with_(**changes), progress, timeout_s)
    records.save(where, started)
    return started


def _check_settings(where: ServerPaths, record: Record) -> None:
    """Lets the server program check settings before they are saved. Raises InputError."""
    program, draft = running.find_record_program(record), where.config.with_name("asked.cnf")
    running.write_config(where, record, program, access.find_service_user(), draft)
    try:
        check(program, draft, "settings")
    finally:
        draft.unlink(missing_ok=True)


def start(
    server: Server,
    settings: Mapping[str, str | None] | None = None,
    unpaced: bool = False,
    progress: Progress = discard_progress,
    timeout_s: float = READY_S,
) -> Server:
    """Starts a server with `settings` added to its own, and returns it; if they change, it is shut
    down first. `unpaced` and errors: as for `bring_up`."""
    return bring_up(
        server.lab, name=server.name, settings=settings, unpaced=unpaced, progress=progress, timeout_s=timeout_s
    )


def stop(
    server: Server, kill: bool = False, progress: Progress = discard_progress, timeout_s: float = STOP_S
) -> Server:
    """Shuts a server down, or kills it, unmounts its filesystems, and returns it; its volumes stay
    attached. A server that does not run is left so. Raises CouldNotRun."""
    access.check_root()
    where = server.paths
    with records.lock_server(where):
        stopped = running.stop(where, records.require_record(where), kill, progress, timeout_s)
        return _observe_server(server.lab, where, stopped)


def destroy(server: Server) -> None:
    """Removes process, filesystems, volumes and data of a server. Raises as Lab, CouldNotRun."""
    access.check_root()
    with records.lock_server(server.paths):
        creation.destroy(server.lab, server.paths, server.name)


def find(lab: Lab, name: str = "db") -> Server:
    """Returns a server of a lab, which may be down if its directory is given. Raises InputError."""
    where = make_server_paths(find_data_dir(lab), name)
    return _observe_server(lab, where, records.require_record(where))


def with_room(server: Server) -> Server:
    """Returns a server with a problem for each full volume, if it does not run. Volumes that are
    not mounted are read for that, which takes some I/Os."""
    if server.state == "running" or server.problems:
        return server
    full = volumes.list_full(server.lab, server.paths, records.require_record(server.paths), unmounted=True)
    return replace(server, problems=tuple(full))


@dataclass(frozen=True)
class MountedVolume:
    """A mounted volume of a server. `role`: data or log; `place`: the mount point; `size_bytes`,
    `free_bytes`: of its filesystem."""

    volume: str
    role: str
    place: Path
    size_bytes: int
    free_bytes: int


def mount(server: Server) -> list[MountedVolume]:
    """Mounts the volumes of a server that is down, so that its files can be reached: a full volume
    is emptied that way. `stop` unmounts them again, and so does the next start. The volumes of a
    running server are mounted already. Raises InputError, CouldNotRun, LabRefused."""
    access.check_root()
    where = server.paths
    with records.lock_server(where), ends_as_interrupts():
        record = records.require_record(where)
        if running.find_process(where, record) is None:
            try:
                volumes.bring_back(server.lab, where, record)
            except BaseException:
                with ignore_interrupts():
                    volumes.unmount_quietly(where)
                raise
        mounted = []
        for (volume, place), role in zip(volumes.list_own_mounts(where, record), ("data", "log"), strict=False):
            room = os.statvfs(place)
            label = server.lab.describe(volume).get("name") or volume
            sizes = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
            mounted.append(MountedVolume(label, role, place, *sizes))
    return mounted


def list_servers(lab: Lab) -> list[Server]:
    """Lists the servers of the lab, by name. Raises CouldNotRun if this user may not read them."""
    data_dir = find_data_dir(lab)
    places = [make_server_paths(data_dir, name) for name in records.list_names(data_dir)]
    return [_observe_server(lab, where, record) for where in places if (record := records.load(where)) is not None]


def save_data(server: Server, folder: str | os.PathLike) -> Path:
    """Copies the data of a server that was shut down into a new folder, for `seed_from`. Raises
    InputError for a server that runs or was killed, CouldNotRun."""
    access.check_root()
    where, folder = server.paths, Path(os.path.abspath(folder))
    with records.lock_server(where):
        record = records.require_record(where)
        if running.find_process(where, record) is not None or not record.clean:
            hint = f"headrace mysql up {record.name}, then down, without --kill."
            raise refuse.input(record.name, "was not shut down, so its data files may not be consistent", hint)
        version = list(running.find_record_program(record).version)
        about = {"flavor": record.flavor, "version": version, "engine": record.engine}
        try:
            # Without the volumes' limits, which come back below.
            for volume, place in volumes.list_own_mounts(where, record):
                volumes.unmount(place, lazily=True)
                volumes.mount(volumes.attach_fresh(server.lab, volume, unpaced=True), place)
            datadir.copy_out(where, folder, record.log_storage is not None, about)
        finally:
            with ignore_interrupts():
                volumes.unmount_quietly(where)
                for volume in record.volumes.ids:
                    volumes.attach_fresh(server.lab, volume)
    return folder


def _observe_server(lab: Lab, where: ServerPaths, record: Record) -> Server:
    """Returns a server by its record, process and volumes, with its problems in words."""
    process = running.find_process(where, record)
    (devices, problems), specs = _examine_volumes(lab, where, record, process is not None), _read_specs(lab, record)
    state = "running" if process else "dead" if record.should_run else "stopped"
    if state == "dead":
        problems.insert(0, f"the server ended by itself: {running.explain_death(where.log, record.log_begun)}")
    if not record.created:
        problems.insert(0, "was never finished: its `up` was killed. `up` makes it again, `destroy` removes it")
    unpaced = ["its volumes have no limits; the next `up` gives them back"] if record.volumes.unpaced else []
    seen = {
        "pid": process.pid if process else None,
        "state": state,
        "storage": specs[0],
        "log_storage": specs[1],
        "volumes": AttachedVolumes(**asdict(record.volumes), devices=devices),
        "paths": where,
        "notes": (*record.notes, *unpaced),
        "problems": tuple(problems),
        "lab": lab,
    }
    recorded = {each.name: getattr(record, each.name) for each in fields(Server) if each.name not in seen}
    return Server(**recorded, **seen)


def _read_specs(lab: Lab, record: Record) -> tuple[str, str | None]:
    """Returns the notations of data and log storage, in the lab or else in the record."""
    specs = [record.storage, record.log_storage]
    for index, volume in enumerate(record.volumes.ids):
        with contextlib.suppress(HeadraceError):
            specs[index] = lab.describe(volume)["spec"]
    return specs[0], specs[1]


def _examine_volumes(
    lab: Lab, where: ServerPaths, record: Record, is_running: bool
) -> tuple[tuple[str, ...], list[str]]:
    """Returns the devices of a server's volumes (none without the lab), and problems in words."""
    try:
        problems = volumes.list_obstacles(lab, where, record, is_running)
        if not problems:
            problems = volumes.list_full(lab, where, record)
        return volumes.list_devices(lab, record), problems
    except NoLab as gone:
        return (), [f"the lab is down: {gone.rule} ({gone.value})"]
    except HeadraceError as error:
        return (), [running.describe_error(error)]


# --- its client and its log -----------------------------------------------------------------------


def build_client_command(server: Server, arguments: tuple[str, ...] = ()) -> list[str]:
    """Returns the command of a server's client with further arguments, which logs in by an option
    file that only root may read. Raises InputError if the server does not run, CouldNotRun."""
    if server.state != "running":
        raise refuse.input(server.name, f"is {server.state}", f"Start it: headrace mysql up {server.name}")
    client = find_program(server.flavor, server.server_path).find_tool(*CLIENTS[server.flavor])
    return [*client, f"--defaults-file={server.paths.client}", *arguments]


def read_log_lines(server: Server, lines: int, follow: bool = False) -> Iterator[str]:
    """Yields the last lines of a server's error log, `lines` of them, and with `follow` then waits
    for each new one, without end. Raises CouldNotRun."""
    try:
        with open(server.paths.log, encoding="utf-8", errors="replace") as file:
            yield from (line.rstrip("\n") for line in deque(file, lines))
            rest = ""
            while follow:
                part = file.readline()
                if not part:
                    time.sleep(LOOK_EVERY_S)
                elif part.endswith("\n"):
                    yield (rest + part).rstrip("\n")
                    rest = ""
                else:
                    rest += part  # a line that is being written
    except OSError as error:
        hint = "Servers belong to root: run it with sudo."
        raise CouldNotRun(str(server.paths.log), f"cannot be read: {error.strerror}", "", hint) from None
