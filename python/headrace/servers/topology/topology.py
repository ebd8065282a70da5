"""Replicas on the lab: made, ended, and shown with what is wrong.

>>> from headrace.lab import Lab
>>> from headrace.servers.topology.topology import replica_up
>>> made = replica_up(Lab(), "replica", "db", storage="gp3:20")                 # doctest: +SKIP
>>> made.state.channels[0].receive                                              # doctest: +SKIP
'on'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from headrace.base.processes import ends_as_interrupts
from headrace.connect.address import DEFAULT_PORT, Address
from headrace.errors import HeadraceError, InputError
from headrace.lab import Lab
from headrace.servers import access, creation, running
from headrace.servers import record as records
from headrace.servers.config import checked_memory, checked_settings
from headrace.servers.record import Record, ServerPaths, data_dir_of, server_paths
from headrace.servers.running import READY_S, STOP_S, Progress, quiet
from headrace.servers.server import Server, find, servers, start, stop
from headrace.servers.topology import accounts, checks, seeding
from headrace.servers.topology.dialect import GUIDE, NET_TIMEOUT_S, checked_channel, checked_filters
from headrace.servers.topology.lag.watch import LagWatch
from headrace.servers.topology.network import links
from headrace.servers.topology.state import ServerState, observe
from headrace.servers.topology.threads import leave_source

if TYPE_CHECKING:
    import pymysql

MODES = {
    "mariadb": ("none", "minimal", "conservative", "optimistic", "aggressive"),
    "mysql": ("DATABASE", "LOGICAL_CLOCK"),
}
MOST_WORKERS = 1_024  # replica_parallel_workers; MariaDB takes more, for nothing
MOST_DELAY_S = 2**31 - 1  # both flavors
# Settings of a source that are its own affair: a replica of a replica has not its filters.
OWN = re.compile(r"(loose-)?rpl-semi-sync|(super-)?read-only$|.*replicate-|.*-parallel-|replica-preserve")
FIRST_SERVER_ID = 101  # of a replica; users number theirs from 1


@dataclass(frozen=True)
class Following:
    """How a new replica follows. `position`: gtid, file, or a file and offset; `seed` None: as its
    flavor does it best. `delay_s`: on purpose. `prepare_source`: the source may be restarted with
    what it lacks."""

    seed: str | None = None
    position: str | tuple[str, int] = "gtid"
    channel: str = ""
    delay_s: int = 0
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    workers: int | None = None
    parallel_mode: str | None = None
    preserve_order: bool | None = None
    semi_sync: bool = False
    prepare_source: bool = False


@dataclass(frozen=True)
class TopologyMember:
    """A server of the lab and what it says; `state` None when it does not run. `problems`: what is
    wrong with it or its replication, in words; `warnings`: what works now and will bite one day."""

    server: Server
    state: ServerState | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        state = None if self.state is None else self.state.as_dict()
        return {
            "name": self.server.name,
            "server": self.server.as_dict(),
            "state": state,
            "problems": list(self.problems),
            "warnings": list(self.warnings),
        }


def replica_up(
    lab: Lab,
    name: str,
    source: str,
    following: Following | None = None,
    *,
    storage: str | None = None,
    log_storage: str | None = None,
    memory_gib: float | None = None,
    settings: Mapping[str, str | None] | None = None,
    port: int | None = None,
    unpaced: bool = False,
    progress: Progress = quiet,
    timeout_s: float = READY_S,
) -> TopologyMember:
    """Makes a replica of a server of the lab and starts it. One that is there is started again, or
    follows one source more, by another channel.

    What is not said is as the source has it. Raises InputError, CouldNotRun, LabRefused; then
    nothing is left of a new replica.
    """
    access.check_root()
    following = _checked(following or Following())
    where = server_paths(data_dir_of(lab), name)
    lab.status()
    checks.check_ring(name, sources_of(lab), source)
    followed = prepared(lab, source, following, progress)
    if followed.state != "running":
        hint = f"Start it: headrace mysql up {source}"
        raise InputError(source, f"is {followed.state}, so nothing can follow it", GUIDE, hint)
    with records.locked(where), ends_as_interrupts():
        known = records.load(where)
        if known is not None and known.made:
            _follow_too(lab, where, known, followed, following)
        else:
            given = {"storage": storage, "log_storage": log_storage, "memory_gib": memory_gib, "port": port}
            record = _record(lab, name, followed, following, given, settings, unpaced)
            kind = following.seed or seeding.DEFAULT_SEED[record.flavor]
            _check_kind(kind, record, followed)
            seed = seeding.KINDS[kind](followed, name, following.position, following.channel, following.delay_s)
            request = creation.checked_request(running.program_of(record), record, seed)
            _check_before(followed, following)
            if where.state.exists():
                creation.destroy(lab, where, name)  # left by a `replica up` that was killed
            creation.create(lab, where, request, progress, timeout_s)
    if following.semi_sync:
        switch_semi_sync_on(find(lab, source))
    return member(find(lab, name))


def replica_start(lab: Lab, name: str, progress: Progress = quiet, timeout_s: float = READY_S) -> TopologyMember:
    """Starts a replica that is there, and what it does not do of receiving and applying.

    Raises InputError for a server that follows nobody, CouldNotRun, LabRefused.
    """
    server = start(find(lab, name), progress=progress, timeout_s=timeout_s)
    with accounts.connected(server) as connection:
        state = observe(connection, name)
        if not state.channels:
            raise InputError(name, "follows no server", GUIDE, f"headrace replica up {name} --of SOURCE")
        for channel in state.channels:
            # Receiving first: MariaDB would throw away the relay log of one whose applier alone
            # starts while nothing runs, and then fetch all of it again.
            if channel.receive == "off":
                accounts.run(connection, state.dialect.start_receive(channel.name))
            if channel.apply == "off":
                accounts.run(connection, state.dialect.start_apply(channel.name))
    return member(find(lab, name))


def _checked(following: Following) -> Following:
    checked_channel(following.channel)
    checked_filters(dict(following.filters))
    if following.seed is not None and following.seed not in seeding.SEEDS:
        raise InputError(f"--seed {following.seed[:40]}", f"is one of {', '.join(seeding.SEEDS)}", GUIDE, "")
    if following.workers is not None and not 0 <= following.workers <= MOST_WORKERS:
        raise InputError(f"--workers {following.workers}", f"is 0 to {MOST_WORKERS:,}", GUIDE, "")
    if not 0 <= following.delay_s <= MOST_DELAY_S:
        raise InputError(f"--delay {following.delay_s}", "is a number of seconds from 0 on", GUIDE, "")
    return following


def _check_kind(kind: str, record: Record, source: Server) -> None:
    """Raises InputError for a seed that this pair cannot have."""
    if kind == "clone" and record.flavor != "mysql":
        raise InputError("--seed clone", "is MySQL's own", GUIDE, "For MariaDB: --seed mariabackup.")
    if kind == "mariabackup" and record.flavor != "mariadb":
        raise InputError("--seed mariabackup", "cannot read MySQL's redo log", GUIDE, "For MySQL: --seed clone.")
    if kind in ("clone", "mariabackup") and record.engine != "innodb":
        raise InputError(
            f"--seed {kind}", f"copies InnoDB, and {source.name} has {record.engine}", GUIDE, "--seed copy"
        )
    if kind == "snapshot" and (record.log_storage is None) != (source.log_volume is None):
        has = "has" if source.log_volume else "has no"
        rule = f"copies volumes one by one, and {source.name} {has} log volume"
        raise InputError("--seed snapshot", rule, GUIDE, "Make it alike: with or without --log-storage.")


def _check_before(source: Server, following: Following) -> None:
    """The rules that can be known before anything is made; and makes the source's account."""
    gtid = following.position == "gtid"
    with accounts.connected(source) as connection:
        state = observe(connection, source.name)
        checks.check_source(state, gtid)
        if following.seed == "binlog":
            nothing = seeding.GtidSet(state.flavor)
            checks.check_reachable("the new replica", seeding.purged_of(connection), nothing, source.name)
        if following.semi_sync:
            # A replica asks for it when it connects, and goes without for as long as it stays
            # connected if the source has not loaded it by then.
            seeding.load_semi_sync(connection, state.dialect, source.name)
        if source.port is None:
            hint = checks.PREPARE + "."
            raise InputError(source.name, "has no port, so no replica can reach it", GUIDE, hint)
        if not (source.paths.state / accounts.FILE).exists():
            accounts.create_account(source.paths, connection, state.dialect, source.host)


def _record(
    lab: Lab,
    name: str,
    source: Server,
    following: Following,
    given: dict,
    settings: Mapping[str, str | None] | None,
    unpaced: bool,
) -> Record:
    """The new replica's record: the source's, with what was said and what a replica needs."""
    theirs = records.required(source.paths)
    inherited = {key: value for key, value in theirs.settings.items() if not OWN.match(key)}
    wanted = inherited | _settings(lab, theirs.flavor, following) | checked_settings(settings)
    # A cache by memory is in the source's options already.
    host = theirs.host
    if host != links.LOOPBACK:
        host = links.free_host(server_paths(data_dir_of(lab), name), records.hosts(data_dir_of(lab)))
    memory = theirs.memory_gib if given["memory_gib"] is None else checked_memory(given["memory_gib"])
    return Record(
        name=name,
        flavor=theirs.flavor,
        version_text=theirs.version_text,
        engine=theirs.engine,
        storage=given["storage"] or source.storage,
        log_storage=given["log_storage"] or (theirs.log_storage if given["storage"] is None else None),
        server_path=theirs.server_path,
        config=theirs.config,
        memory_gib=memory,
        port=given["port"] or (free_port() if host == links.LOOPBACK else links.PORT),
        settings=wanted,
        unpaced=unpaced,
        encrypted=theirs.encrypted,
        host=host,
    )


def _settings(lab: Lab, flavor: str, following: Following) -> dict[str, str | None]:
    """What makes a server a replica, over the source's settings."""
    found = dict(checks.SOURCE_SETTINGS[flavor])
    if following.position != "gtid" and flavor == "mysql":
        found = {key: value for key, value in found.items() if "gtid" not in key}
    found |= {"server-id": str(free_server_id(lab)), "relay-log-recovery": "ON", "event-scheduler": "OFF"}
    found["slave-net-timeout" if flavor == "mariadb" else "replica-net-timeout"] = str(NET_TIMEOUT_S)
    found |= workers_settings(flavor, following)
    for kind, values in following.filters.items():
        prefix = ""
        if following.channel and flavor == "mariadb":
            kind = f"{following.channel}.{kind}"
        elif following.channel:
            prefix = f"{following.channel}:"
        found[kind] = ",".join(prefix + value for value in values)
    if following.semi_sync:
        found |= semi_sync_settings(flavor, "replica")
    return found


def workers_settings(flavor: str, following: Following) -> dict[str, str | None]:
    """Options of parallel apply. Raises InputError for a mode of the other flavor."""
    found: dict[str, str | None] = {}
    mariadb = flavor == "mariadb"
    if following.workers is not None:
        found["slave-parallel-threads" if mariadb else "replica-parallel-workers"] = str(following.workers)
    if following.parallel_mode is not None:
        if following.parallel_mode not in MODES[flavor]:
            rule = f"is one of {', '.join(MODES[flavor])} there"
            raise InputError(f"--parallel-mode {following.parallel_mode[:40]}", rule, GUIDE, "")
        found["slave-parallel-mode" if mariadb else "replica-parallel-type"] = following.parallel_mode
    if following.preserve_order is not None:
        if mariadb and not following.preserve_order:
            rule = "MariaDB always commits in order within a domain"
            raise InputError("--no-preserve-order", rule, GUIDE, "Use gtid_domain_id on the source for more.")
        if not mariadb:
            found["replica-preserve-commit-order"] = "ON" if following.preserve_order else "OFF"
    return found


def semi_sync_settings(flavor: str, side: str) -> dict[str, str | None]:
    """Options that keep one side of semi-sync on over restarts."""
    if flavor == "mariadb":
        return {f"rpl-semi-sync-{'slave' if side == 'replica' else 'master'}-enabled": "ON"}
    # The plugins are loaded for good, by INSTALL PLUGIN.
    return {f"loose-rpl-semi-sync-{side}-enabled": "ON"}


def switch_semi_sync_on(source: Server) -> None:
    """The source's side, now and after later starts; it waits after the sync and before the
    commit. Before the first replica has connected, commits would wait for the time-out: so this
    comes last."""
    with accounts.connected(source) as connection:
        state = observe(connection, source.name)
        seeding.load_semi_sync(connection, state.dialect, source.name)
        accounts.run(connection, state.dialect.semi_sync("source", True))
    where = source.paths
    kept = semi_sync_settings(source.flavor, "source")
    point = "loose-rpl-semi-sync-source-wait-point" if source.flavor == "mysql" else "rpl-semi-sync-master-wait-point"
    with records.locked(where):
        known = records.required(where)
        records.save(where, known.with_(settings=known.settings_with(kept | {point: "AFTER_SYNC"})))


def _follow_too(lab: Lab, where: ServerPaths, known: Record, source: Server, following: Following) -> None:
    """An existing server: started, and following this source too, if it does not yet."""
    running_now = running.process_of(where, known)
    if running_now is None:
        known = running.start(lab, where, known)
        records.save(where, known)
    server = find(lab, known.name)
    with accounts.connected(server) as connection:
        state = observe(connection, known.name)
        if any((one.source_host, one.source_port) == (source.host, source.port) for one in state.channels):
            return
        if state.channel(following.channel) is not None:
            rule = f"follows another source already by {'channel ' + following.channel if following.channel else 'its channel'}"
            raise InputError(known.name, rule, GUIDE, "Give this one a channel of its own: --channel NAME.")
        if following.seed not in (None, "binlog"):
            rule = "is there with data, which a seed would replace"
            raise InputError(
                f"{known.name}: --seed {following.seed}", rule, GUIDE, "Leave --seed out: it reads the binary log."
            )
        _check_before(source, replace(following, seed=None))
        if following.filters:
            accounts.run(connection, state.dialect.filters(dict(following.filters), following.channel))
        seed = seeding.Follower(source, known.name, following.position, following.channel, following.delay_s)
        seed.follow_too(where, known, connection)


def prepared(lab: Lab, name: str, following: Following, progress: Progress = quiet) -> Server:
    """The source, restarted with what it lacks if that was agreed to."""
    source = find(lab, name)
    if source.port is not None and not following.prepare_source:
        return source
    if source.state != "running" and not following.prepare_source:
        return source
    theirs = source.paths
    with accounts.connected(source) as connection:
        state = observe(connection, name)
    lacks = checks.lacking(state, following.position == "gtid")
    if source.port is None:
        lacks.insert(0, "has no port")
    if not lacks:
        return source
    if not following.prepare_source:
        hint = f"{checks.PREPARE}."
        raise InputError(name, f"cannot be a source: it {', and it '.join(lacks)}", GUIDE, hint)
    progress(0.02, f"restarting {name} as a source")
    wanted = dict(checks.SOURCE_SETTINGS[source.flavor])
    with records.locked(theirs):
        known = records.required(theirs)
        numbered = {"server-id": known.settings.get("server-id") or str(free_server_id(lab))}
        known = running.stop(lab, theirs, known, kill=False)
        known = known.with_(settings=known.settings_with(wanted | numbered), port=known.port or free_port())
        if not (theirs.tls / "ca.pem").exists():
            access.create_certificates(theirs, name, known.host)
        records.save(theirs, running.start(lab, theirs, known))
    return find(lab, name)


# --- ended, and shown -----------------------------------------------------------------------------


def replica_down(
    lab: Lab,
    name: str,
    channel: str | None = None,
    kill: bool = False,
    progress: Progress = quiet,
    timeout_s: float = STOP_S,
) -> Server:
    """Shuts a replica down: it follows on at its next start. With `channel`: it stays up and
    follows that source no longer, for good."""
    server = find(lab, name)
    if channel is None:
        return stop(server, kill, progress, timeout_s)
    with records.locked(server.paths), accounts.connected(server) as connection:
        state = observe(connection, name)
        if state.channel(channel) is None:
            there = ", ".join(one.name or "''" for one in state.channels) or "none"
            raise InputError(
                f"{name}: --channel {channel!r}", f"follows no such channel; there are: {there}", GUIDE, ""
            )
        leave_source(connection, state.dialect, channel)
    return find(lab, name)


def member(server: Server, tables: bool = True) -> TopologyMember:
    """A server with its state. One that does not answer has none, and a problem. `tables`: they
    are looked at too."""
    found = list(server.problems)
    if server.state != "running":
        return TopologyMember(server, None, tuple(found))
    try:
        with accounts.connected(server) as connection:
            state = observe(connection, server.name)
            warnings = list(checks.warnings(state))
            if tables and (state.channels or _is_followed(connection, state)):
                warnings += checks.warnings_of_tables(connection, state)
    except HeadraceError as error:
        return TopologyMember(server, None, (*found, f"does not answer: {error.rule}"))
    return TopologyMember(server, state, (*found, *checks.problems(state)), tuple(warnings))


def _is_followed(connection: pymysql.Connection, state: ServerState) -> bool:
    return bool(accounts.rows(connection, state.dialect.replica_hosts()))


def status(lab: Lab, name: str | None = None) -> list[TopologyMember]:
    """All servers of the lab that follow or are followed, or one."""
    if name is not None:
        return [member(find(lab, name))]
    members = [member(one) for one in servers(lab)]
    of_two = list(checks.warnings_of_all({one.server.name: one.state for one in members if one.state}))
    members = [
        replace(one, warnings=(*one.warnings, *(text for name, text in of_two if name == one.server.name)))
        for one in members
    ]
    ports = {(one.source_host, one.source_port) for each in members if each.state for one in each.state.channels}
    return [
        one
        for one in members
        if (one.state and one.state.channels) or (one.server.host, one.server.port) in ports or _is_replica(one.server)
    ]


def _is_replica(server: Server) -> bool:
    return (server.folder / "tls").is_dir() and any((server.folder / "tls").glob("source-*.pem"))


def sources_of(lab: Lab) -> dict[str, tuple[str, ...]]:
    """Whom each running server of the lab follows, by name."""
    found = servers(lab)
    names = {(one.host, one.port): one.name for one in found if one.port is not None}
    states = {one.name: member(one, tables=False).state for one in found}
    return {
        name: tuple(names.get((one.source_host, one.source_port), "?") for one in state.channels)
        for name, state in states.items()
        if state is not None and state.channels
    }


def source_of(lab: Lab, server: Server, state: ServerState, channel: str = "") -> Server | None:
    """The server of the lab that a channel follows; None when it is none of the lab."""
    found = state.channel(channel)
    if found is None:
        return None
    places = {(one.host, one.port): one for one in servers(lab)}
    return places.get((found.source_host, found.source_port))


# --- lag ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WatchedServers:
    """What is watched: a watch to be entered, and the servers of the lab in it, by name."""

    watch: LagWatch
    servers: dict[str, Server]


def watched(
    lab: Lab, name: str | None = None, addresses: Sequence[Address] = (), heartbeat: bool = False
) -> WatchedServers:
    """A watch of the lab's topology, or of servers anywhere. Raises InputError when nothing there
    follows anything."""
    if addresses:
        places = {(one.host or "", one.port or DEFAULT_PORT): one.label for one in addresses}
        watch = LagWatch({one.label: one for one in addresses}, places, addresses[0].label if heartbeat else None)
        return WatchedServers(watch, {})
    members = [one for one in status(lab) if one.server.state == "running"]
    if not any(one.state and one.state.channels for one in members):
        raise InputError(
            name or "this lab", "no server here follows another", GUIDE, "headrace replica up NAME --of SOURCE"
        )
    if name is not None and name not in {one.server.name for one in members}:
        raise InputError(name, "is not a replica that runs", GUIDE, "headrace replica status shows them.")
    heads = [one.server.name for one in members if one.state and not one.state.channels]
    places = {(one.server.host, one.server.port or 0): one.server.name for one in members}
    on = heads[0] if heartbeat and heads else None
    watch = LagWatch({one.server.name: one.server.address() for one in members}, places, on)
    return WatchedServers(watch, {one.server.name: one.server for one in members})


# --- numbers --------------------------------------------------------------------------------------


def free_server_id(lab: Lab) -> int:
    """A server_id that no server of the lab has."""
    data_dir = data_dir_of(lab)
    taken = set[int]()
    for name in records.names(data_dir):
        known = records.load(server_paths(data_dir, name))
        if known is not None:
            text = (known.options | known.settings).get("server-id") or "1"
            taken.add(int(text) if text.isascii() and text.isdigit() else 1)
    return next(number for number in range(FIRST_SERVER_ID, FIRST_SERVER_ID + len(taken) + 1) if number not in taken)


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port that nobody has now. Another may take it before the server does; then the start
    fails and says so."""
    import socket

    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
