"""Replicas on the lab: creates and starts them, and reports their state and problems.

>>> from headrace.lab import Lab
>>> from headrace.servers.topology.topology import bring_up_replica
>>> replica = bring_up_replica(Lab(), "replica", "db", storage="gp3:20")                 # doctest: +SKIP
>>> replica.state.channels[0].receive                                              # doctest: +SKIP
'on'
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.base.checks import check_choice
from headrace.base.encoding import Document
from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.base.storage import Storage
from headrace.base.waiting import wait_until
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.mysql.address import DEFAULT_PORT, Address
from headrace.mysql.dialect import NET_TIMEOUT_S, check_channel, check_filters, refuse
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import ServerState, observe, read_written
from headrace.mysql.statements import SqlConnection, ask_named_safely, run
from headrace.servers import access, creation, datadir, running
from headrace.servers import record as records
from headrace.servers.config import check_memory, check_settings
from headrace.servers.record import Record, ServerPaths, ServerVolumes, find_data_dir, make_server_paths
from headrace.servers.running import READY_S, Progress, discard_progress
from headrace.servers.server import Server, find, list_servers, refuse_other_storage
from headrace.servers.topology import accounts, checks, links, seeding
from headrace.servers.topology.lag.watch import LagWatch
from headrace.servers.topology.threads import leave_source

MODES = {
    "mariadb": ("none", "minimal", "conservative", "optimistic", "aggressive"),
    "mysql": ("DATABASE", "LOGICAL_CLOCK"),
}
MOST_WORKERS = 1_024  # replica_parallel_workers; MariaDB takes more, for nothing
MOST_DELAY_S = 2**31 - 1  # both flavors
# Settings of a source that are its own affair: a replica of a replica has not its filters.
OWN = re.compile(r"(loose-)?rpl-semi-sync|(super-)?read-only$|.*replicate-|.*-parallel-|replica-preserve")
FIRST_SERVER_ID = 101  # of a replica; users number theirs from 1
# Time that a replica may take until nothing is wrong with it, and between two looks, s: it connects
# and takes part in semi-sync within a second (guesses).
SETTLE_S, SETTLE_LOOK_S = 5.0, 0.2
# Settings of a server that is started to be inspected: it receives, applies and writes nothing.
INSPECTION_SETTINGS: dict[str, dict[str, str | None]] = {
    "mariadb": {"skip-slave-start": "ON", "read-only": "ON", "event-scheduler": "OFF"},
    "mysql": {"skip-replica-start": "ON", "read-only": "ON", "super-read-only": "ON", "event-scheduler": "OFF"},
}


@dataclass(frozen=True)
class Following:
    """The user's options of a new replica. `seed`: how its data are made, None for the best for its
    flavor; `position`: gtid, file, or a file and offset; `delay_s`: intended delay.
    `prepare_source`: the source may be restarted with settings that it lacks."""

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
class TopologyMember(Document, computed=("name",)):
    """A server of the lab with its state, None if it does not run. `problems`: what is wrong with
    it or its replication, in words; `warnings`: what works now and will cause trouble later;
    `notes`: what a command did not need to do."""

    server: Server
    state: ServerState | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the server."""
        return self.server.name


def bring_up_replica(
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
    progress: Progress = discard_progress,
    timeout_s: float = READY_S,
) -> TopologyMember:
    """Creates a replica of a server of the lab and starts it. An existing replica is started again,
    or follows an additional source, by another channel. Options that are not given are the
    source's. Raises InputError, CouldNotRun, LabRefused; then a new replica is removed again. A
    server that follows nobody is refused: its own transactions would be mixed with the source's."""
    access.check_root()
    following = _check_following(following or Following())
    where = make_server_paths(find_data_dir(lab), name)
    lab.status()
    given = {"storage": storage, "log_storage": log_storage, "memory_gib": memory_gib, "port": port}
    find(lab, source)
    checks.check_ring(name, list_sources(lab), source)
    if (there := records.load(where)) is not None and there.created:
        _check_existing(find(lab, name), following, given | {"set": settings or None, "unpaced": unpaced or None})
    followed = make_source_ready(lab, source, following, progress)
    if followed.state != "running":
        hint = f"Start it: headrace mysql up {source}"
        raise refuse.input(source, f"is {followed.state}, so nothing can follow it", hint)
    notes: tuple[str, ...] = ()
    with records.lock_server(where), ends_as_interrupts():
        existing = records.load(where)
        if existing is not None and existing.created:
            notes = _add_source(lab, where, existing, followed, following)
        else:
            record = _make_record(lab, name, followed, following, given, settings, unpaced)
            kind = following.seed or seeding.DEFAULT_SEED[record.flavor]
            _check_kind(kind, record, followed)
            _check_room(kind, record, followed)
            seed = seeding.KINDS[kind](followed, name, following.position, following.channel, following.delay_s)
            request = creation.check_request(running.find_record_program(record), record, seed)
            _check_before(followed, following)
            if where.state.exists():
                creation.destroy(lab, where, name)  # left by a `replica up` that was killed
            creation.create(lab, where, request, progress, timeout_s)
    if following.semi_sync:
        switch_semi_sync_on(find(lab, source))
    return replace(wait_settled(lab, name), notes=notes)


def wait_settled(lab: Lab, name: str, longest_s: float = SETTLE_S) -> TopologyMember:
    """Waits until a server has no problems, at most `longest_s` seconds, and returns it with its
    state and the problems that remain."""
    wait_until(lambda: not observe_member(find(lab, name), tables=False).problems, longest_s, SETTLE_LOOK_S)
    return observe_member(find(lab, name))


def _check_existing(server: Server, following: Following, given: Mapping[str, object]) -> None:
    """Raises InputError for options that only a new replica can have. `given`: values by option."""
    has = (server.storage, server.log_storage)
    refuse_other_storage(server.name, has, given["storage"], given["log_storage"])
    fresh = Following()
    only_new = {name: given[name] for name in ("memory_gib", "port", "set", "unpaced")}
    only_new |= {
        name: getattr(following, name)
        for name in ("workers", "parallel_mode", "preserve_order", "semi_sync")
        if getattr(following, name) != getattr(fresh, name)
    }
    for name, value in only_new.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            hint = f"Leave it out. For another setting: headrace mysql up {server.name} --set NAME=VALUE."
            raise refuse.input(server.name, f"exists; {option} is for a new replica", hint)


def _check_following(following: Following) -> Following:
    """Returns the options of a new replica if they are valid. Raises InputError."""
    check_channel(following.channel)
    check_filters(dict(following.filters))
    if following.seed is not None:
        check_choice("--seed", following.seed, seeding.SEEDS, refuse)
    if following.workers is not None and not 0 <= following.workers <= MOST_WORKERS:
        raise refuse.input(f"--workers {following.workers}", f"is 0 to {MOST_WORKERS:,}")
    if not 0 <= following.delay_s <= MOST_DELAY_S:
        raise refuse.input(f"--delay {following.delay_s}", "is a number of seconds from 0 on")
    return following


def _check_kind(kind: str, record: Record, source: Server) -> None:
    """Raises InputError for a kind of seeding that does not fit this pair."""
    if kind == "clone" and record.flavor != "mysql":
        raise refuse.input("--seed clone", "is MySQL's own", "For MariaDB: --seed mariabackup.")
    if kind == "mariabackup" and record.flavor != "mariadb":
        raise refuse.input("--seed mariabackup", "cannot read MySQL's redo log", "For MySQL: --seed clone.")
    if kind in ("clone", "mariabackup") and record.engine != "innodb":
        raise refuse.input(f"--seed {kind}", f"copies InnoDB, and {source.name} has {record.engine}", "--seed copy")
    if kind == "snapshot" and (record.log_storage is None) != (source.volumes.log is None):
        has = "has" if source.volumes.log else "has no"
        rule = f"copies volumes one by one, and {source.name} {has} log volume"
        raise refuse.input("--seed snapshot", rule, "Make it alike: with or without --log-storage.")


def _check_room(kind: str, record: Record, source: Server) -> None:
    """Raises InputError if the source's data would not fit on the new volume, before they are
    copied for minutes, or the source is shut down for it. The lab checks a snapshot's volume."""
    if kind not in ("copy", "clone", "mariabackup"):
        return
    folders = [source.paths.datadir]
    if kind == "copy" and record.log_storage is None and source.volumes.log is None:
        folders.append(source.paths.data_mount / "log")
    try:
        needs = sum(datadir.measure_size(folder) for folder in folders)
    except OSError:
        return  # a file that its server has just deleted
    storage = Storage.parse(record.storage)
    if needs > storage.usable_gib << 30:
        rule = f"has {storage.usable_gib} GiB, and the data of {source.name} take {needs / 2**30:.2f} GiB"
        raise refuse.input(f"{record.name}: --storage {record.storage}", rule, f"The source has {source.storage}.")


def _check_before(source: Server, following: Following) -> None:
    """Creates the account for replicas on a source, and loads semi-sync there if it is wanted.
    Raises InputError if the source cannot be followed as asked, whatever the replica."""
    gtid = following.position == "gtid"
    with accounts.open_connection(source) as connection:
        state = observe(connection, source.name)
        checks.check_source(state, gtid)
        if following.seed == "binlog":
            purged = seeding.read_purged(connection)
            checks.check_reachable("the new replica", purged, GtidSet(state.flavor), source.name)
        if following.semi_sync:
            # A replica asks for semi-sync when it connects: if the source has not loaded it by
            # then, the connection does without.
            seeding.load_semi_sync(connection, state.dialect, source.name)
        if source.port is None:
            raise refuse.input(source.name, "has no port, so no replica can reach it", checks.PREPARE + ".")
        if not (source.paths.state / accounts.FILE).exists():
            accounts.create_account(source.paths, connection, state.dialect, source.host)


def _make_record(
    lab: Lab,
    name: str,
    source: Server,
    following: Following,
    given: dict,
    settings: Mapping[str, str | None] | None,
    unpaced: bool,
) -> Record:
    """Returns the record of a new replica: the source's values, those `given` by the user (by
    option; None: not given), and the settings of a replica."""
    source_record = records.require_record(source.paths)
    inherited = {key: value for key, value in source_record.settings.items() if not OWN.match(key)}
    merged = inherited | _make_settings(lab, source_record.flavor, following) | check_settings(settings)
    # A cache by memory is in the source's options already.
    host = source_record.host
    if host != links.LOOPBACK:
        host = links.find_free_host(make_server_paths(find_data_dir(lab), name), records.list_hosts(find_data_dir(lab)))
    memory = source_record.memory_gib if given["memory_gib"] is None else check_memory(given["memory_gib"])
    return Record(
        name=name,
        flavor=source_record.flavor,
        version_text=source_record.version_text,
        engine=source_record.engine,
        storage=given["storage"] or source.storage,
        log_storage=given["log_storage"] or (source_record.log_storage if given["storage"] is None else None),
        server_path=source_record.server_path,
        config=source_record.config,
        memory_gib=memory,
        port=given["port"] or (find_free_port() if host == links.LOOPBACK else links.PORT),
        settings=merged,
        volumes=ServerVolumes(unpaced=unpaced, encrypted=source_record.volumes.encrypted),
        host=host,
    )


def _make_settings(lab: Lab, flavor: str, following: Following) -> dict[str, str | None]:
    """Returns the settings that make a server a replica, in addition to the source's."""
    options = dict(checks.SOURCE_SETTINGS[flavor])
    if following.position != "gtid" and flavor == "mysql":
        options = {key: value for key, value in options.items() if "gtid" not in key}
    options |= {"server-id": str(find_free_server_id(lab)), "relay-log-recovery": "ON", "event-scheduler": "OFF"}
    options["slave-net-timeout" if flavor == "mariadb" else "replica-net-timeout"] = str(NET_TIMEOUT_S)
    options |= make_workers_settings(flavor, following)
    for kind, values in following.filters.items():
        prefix = ""
        if following.channel and flavor == "mariadb":
            kind = f"{following.channel}.{kind}"
        elif following.channel:
            prefix = f"{following.channel}:"
        options[kind] = ",".join(prefix + value for value in values)
    if following.semi_sync:
        options |= make_semi_sync_settings(flavor)
    return options


def make_workers_settings(flavor: str, following: Following) -> dict[str, str | None]:
    """Returns options of parallel apply. Raises InputError for a mode of the other flavor."""
    options: dict[str, str | None] = {}
    mariadb = flavor == "mariadb"
    if following.workers is not None:
        options["slave-parallel-threads" if mariadb else "replica-parallel-workers"] = str(following.workers)
    if following.parallel_mode is not None:
        check_choice("--parallel-mode", following.parallel_mode, MODES[flavor], refuse)
        options["slave-parallel-mode" if mariadb else "replica-parallel-type"] = following.parallel_mode
    if following.preserve_order is not None:
        if mariadb and not following.preserve_order:
            rule = "MariaDB always commits in order within a domain"
            raise refuse.input("--no-preserve-order", rule, "Use gtid_domain_id on the source for more.")
        if not mariadb:
            options["replica-preserve-commit-order"] = "ON" if following.preserve_order else "OFF"
    return options


def make_semi_sync_settings(flavor: str) -> dict[str, str | None]:
    """Returns options that keep a replica's side of semi-sync on over restarts."""
    if flavor == "mariadb":
        return {"rpl-semi-sync-slave-enabled": "ON"}
    # The plugins are loaded permanently, by INSTALL PLUGIN.
    return {"loose-rpl-semi-sync-replica-enabled": "ON"}


def switch_semi_sync_on(source: Server) -> None:
    """Switches the source's side of semi-sync on, now and after later starts; a commit waits after
    the sync. It comes last, as without a replica commits would wait."""
    with accounts.open_connection(source) as connection:
        state = observe(connection, source.name)
        seeding.load_semi_sync(connection, state.dialect, source.name)
        run(connection, state.dialect.switch_semi_sync("source", True))
    where = source.paths
    prefix = "loose-" if source.flavor == "mysql" else ""  # as for a replica
    lasting = state.dialect.make_semi_sync_settings("source", True).items()
    options: dict[str, str | None] = {f"{prefix}{name.replace('_', '-')}": value for name, value in lasting}
    with records.lock_server(where):
        record = records.require_record(where)
        records.save(where, record.with_(settings=record.merge_settings(options)))


def start_replica(
    lab: Lab, name: str, progress: Progress = discard_progress, timeout_s: float = READY_S
) -> TopologyMember:
    """Starts an existing replica, and its receive threads and appliers. Raises InputError for a
    server that follows nobody, which is left as it was; CouldNotRun, LabRefused."""
    access.check_root()
    server = find(lab, name)
    with records.lock_server(server.paths), ends_as_interrupts():
        record = records.require_record(server.paths)
        with _open_existing(lab, server.paths, record, progress, timeout_s) as (connection, state, was_down):
            if not state.channels:
                raise refuse.input(name, "follows no server", f"headrace replica up {name} --of SOURCE")
            begun = _begin_threads(connection, state)
    notes = ()
    if not was_down and not begun:
        names = {(server.host, server.port): server.name for server in list_servers(lab)}
        sources = " and ".join(names.get(channel.place, channel.where) for channel in state.channels)
        notes = (f"runs already, and follows {sources}: nothing was done",)
    return replace(wait_settled(lab, name), notes=notes)


def _begin_threads(connection: SqlConnection, state: ServerState) -> bool:
    """Starts the stopped threads of a server's channels, and returns whether there were any.
    Receiving starts first: if an applier starts while nothing runs, MariaDB deletes the relay
    log."""
    begun = False
    for channel in state.channels:
        if channel.receive == "off":
            run(connection, state.dialect.start_receive(channel.name))
        if channel.apply == "off":
            run(connection, state.dialect.start_apply(channel.name))
        begun = begun or channel.is_broken
    return begun


@contextlib.contextmanager
def _open_existing(
    lab: Lab, where: ServerPaths, record: Record, progress: Progress = discard_progress, timeout_s: float = READY_S
) -> Iterator[tuple[SqlConnection, ServerState, bool]]:
    """Yields a connection to an existing server, its state, and whether it was down. A stopped
    server is started without replication, events and clients that write, and stopped again if the
    work on it fails."""
    was_down = running.find_process(where, record) is None
    if was_down:
        once = INSPECTION_SETTINGS[record.flavor]
        started = running.start(lab, where, record.with_(settings=record.merge_settings(once)), progress, timeout_s)
        records.save(where, started.with_(settings=record.settings))
    try:
        with accounts.open_connection(find(lab, record.name)) as connection:
            yield connection, observe(connection, record.name), was_down
    except BaseException:
        if was_down:
            with ignore_interrupts(), contextlib.suppress(HeadraceError):
                running.stop(where, records.require_record(where), kill=False)
        raise


def _add_source(lab: Lab, where: ServerPaths, record: Record, source: Server, following: Following) -> tuple[str, ...]:
    """Lets an existing replica follow this source too, if it does not yet; returns notes about what
    was not necessary. Raises InputError for a server that follows nobody."""
    with _open_existing(lab, where, record) as (connection, state, was_down):
        place = (source.host, source.port)
        present = next((channel for channel in state.channels if channel.place == place), None)
        if present is not None:
            _check_nothing_new(record.name, source.name, following)
            begun = _begin_threads(connection, state)
            by = f"channel {present.name}" if present.name else "its unnamed channel"
            if following.channel != present.name:
                return (f"follows {source.name} already, by {by}: channel {following.channel} was not made",)
            return () if was_down or begun else (f"follows {source.name} already, by {by}: nothing was done",)
        _check_one_more(lab, connection, state, source, following)
        _check_before(source, replace(following, seed=None))
        if following.filters:
            run(connection, state.dialect.set_filters(dict(following.filters), following.channel))
        seed = seeding.Follower(source, record.name, following.position, following.channel, following.delay_s)
        try:
            seed.add_source(where, record, connection)
        except BaseException:
            with contextlib.suppress(Exception):
                leave_source(connection, state.dialect, following.channel)
            raise
        _begin_threads(connection, observe(connection, record.name))
    return ()


def _check_nothing_new(name: str, source: str, following: Following) -> None:
    """Raises InputError for options that do not apply to an existing channel."""
    fresh = Following()
    for field_name, option in (("position", "position"), ("delay_s", "delay"), ("filters", "filter")):
        if getattr(following, field_name) != getattr(fresh, field_name):
            hint = f"End the channel first (headrace mysql down {name} --channel NAME), or change it in SQL."
            raise refuse.input(name, f"follows {source} already; --{option} is for a new channel", hint)


def _check_one_more(
    lab: Lab, connection: SqlConnection, state: ServerState, source: Server, following: Following
) -> None:
    """Raises InputError if an existing server cannot follow an additional source: it is of the
    other flavor, follows nobody, has transactions of its own, or its channel is in use."""
    name = state.name
    with accounts.open_connection(source) as above_connection:
        above = observe(above_connection, source.name)
        written = read_written(above_connection, above)
    checks.check_flavors(above, state)
    if not state.channels:
        alone = any(last > written.get(key, 0) for key, last in read_written(connection, state).items())
        if state.flavor == "mysql":
            alone = not state.executed.minus(above.executed).is_empty
        has = "it has transactions of its own" if alone else "what is in it would be mixed with the source's"
        hint = f"Choose a new name. An old source comes back as a replica by: headrace failover rejoin {name}."
        raise refuse.input(name, f"exists and follows nobody; {has}", hint)
    if state.find_channel(following.channel) is not None:
        rule = f"follows another source already by {'channel ' + following.channel if following.channel else 'its channel'}"
        raise refuse.input(name, rule, "Give this one a channel of its own: --channel NAME.")
    if following.seed not in (None, "binlog"):
        rule = "is there with data, which a seed would replace"
        raise refuse.input(f"{name}: --seed {following.seed}", rule, "Leave --seed out: it reads the binary log.")
    if own := _find_own_transactions(lab, connection, state, [(above, written)]):
        rule = f"has transactions of its own: {own[:120]}"
        raise refuse.input(name, rule, "Choose a new name, or seed it anew first.")
    domains = {key for key, _ in state.executed.ranges} & {key for key, _ in above.executed.ranges}
    if state.flavor == "mariadb" and domains and following.position == "gtid":
        rule = (
            f"follows a source in domain {', '.join(sorted(domains))} already, in which {source.name} numbers its own"
        )
        raise refuse.input(name, rule, "Give each source its own gtid_domain_id before it writes.")


Position = tuple[ServerState, dict[tuple[int, int], int]]


def _find_own_transactions(lab: Lab, connection: SqlConnection, state: ServerState, sources: list[Position]) -> str:
    """Returns the transactions that a replica wrote itself, as text: those of its own id in its
    binary log that neither `sources` nor its present sources have. "" if one of those does not
    answer."""
    server = find(lab, state.name)
    for channel in state.channels:
        source = find_source(lab, server, state, channel.name)
        if source is None or source.state != "running":
            return ""
        with accounts.open_connection(source) as above:
            seen = observe(above, source.name)
            sources = [*sources, (seen, read_written(above, seen))]
    if state.flavor == "mariadb":
        own = {key: last for key, last in read_written(connection, state).items() if key[1] == state.server_id}
        beyond = {key: last for key, last in own.items() if all(last > log.get(key, 0) for _, log in sources)}
        return ", ".join(f"{domain}-{number}-{last}" for (domain, number), last in sorted(beyond.items()))
    remaining = GtidSet(state.flavor)
    for key, _ in state.executed.ranges:
        if key.partition(":")[0] == state.uuid.lower():
            remaining = remaining.union(state.executed.select_key(key))
    for seen, _ in sources:
        remaining = remaining.minus(seen.executed)
    return str(remaining)


def make_source_ready(lab: Lab, name: str, following: Following, progress: Progress = discard_progress) -> Server:
    """Returns the server `name` as a source. If `following` allows it, it is restarted with a port
    and the settings that it lacks. Raises InputError."""
    source = find(lab, name)
    if source.port is not None and not following.prepare_source:
        return source
    if source.state != "running" and not following.prepare_source:
        return source
    paths = source.paths
    with accounts.open_connection(source) as connection:
        state = observe(connection, name)
    lacks = checks.list_missing(state, following.position == "gtid")
    if source.port is None:
        lacks.insert(0, "has no port")
    if not lacks:
        return source
    if not following.prepare_source:
        raise refuse.input(name, f"cannot be a source: it {', and it '.join(lacks)}", f"{checks.PREPARE}.")
    progress(0.02, f"restarting {name} as a source")
    options = dict(checks.SOURCE_SETTINGS[source.flavor])
    with records.lock_server(paths):
        record = records.require_record(paths)
        numbered = {"server-id": record.settings.get("server-id") or str(find_free_server_id(lab))}
        record = running.stop(paths, record, kill=False)
        record = record.with_(settings=record.merge_settings(options | numbered), port=record.port or find_free_port())
        if not (paths.tls / "ca.pem").exists():
            access.create_certificates(paths, name, record.host)
        records.save(paths, running.start(lab, paths, record))
    return find(lab, name)


# --- state ----------------------------------------------------------------------------------------


def observe_member(server: Server, tables: bool = True) -> TopologyMember:
    """Returns a server with its state. If it does not answer, the state is None, with a problem.
    `tables`: its tables are checked too."""
    problems = list(server.problems)
    if server.state != "running":
        return TopologyMember(server, None, tuple(problems))
    try:
        with accounts.open_connection(server) as connection:
            state = observe(connection, server.name)
            warnings = list(checks.list_warnings(state))
            if tables and (state.channels or ask_named_safely(connection, state.dialect.query_replica_hosts())):
                warnings += checks.list_table_warnings(connection, state)
    except HeadraceError as error:
        return TopologyMember(server, None, (*problems, f"does not answer: {error.rule}"))
    return TopologyMember(server, state, (*problems, *checks.list_problems(state)), tuple(warnings))


def list_topology(lab: Lab, name: str | None = None) -> list[TopologyMember]:
    """Lists the servers of the lab that follow or are followed, or only the server `name`."""
    chosen = None if name is None else find(lab, name).name
    members = [observe_member(server, tables=chosen in (None, server.name)) for server in list_servers(lab)]
    pair_warnings = list(checks.list_pair_warnings({each.server.name: each.state for each in members if each.state}))
    members = [
        replace(
            entry,
            problems=(*entry.problems, *_describe_stopped(entry.server, members)),
            warnings=(*entry.warnings, *(text for about, text in pair_warnings if about == entry.server.name)),
        )
        for entry in members
    ]
    if chosen is not None:
        return [entry for entry in members if entry.server.name == chosen]
    ports = {channel.place for each in members if each.state for channel in each.state.channels}
    return [
        entry
        for entry in members
        if (entry.state and entry.state.channels)
        or (entry.server.host, entry.server.port) in ports
        or any(entry.server.paths.tls.glob(access.AUTHORITY.format(name="*")))
    ]


def _describe_stopped(server: Server, members: Sequence[TopologyMember]) -> Iterator[str]:
    """Yields the problem of a stopped server that others follow."""
    if server.state == "running":
        return
    place = (server.host, server.port)
    states = {entry.server.name: entry.state for entry in members if entry.state}
    below = [name for name, state in states.items() if place in [channel.place for channel in state.channels]]
    if below:
        verb = "follows" if len(below) == 1 else "follow"
        yield (
            f"is {server.state}, and {', '.join(below)} {verb} it; headrace mysql up {server.name} starts it, "
            "headrace failover run lets a replica take over"
        )


def list_sources(lab: Lab) -> dict[str, tuple[str, ...]]:
    """Returns the servers that each running server of the lab follows, by name."""
    lab_servers = list_servers(lab)
    names = {(server.host, server.port): server.name for server in lab_servers if server.port is not None}
    states = {server.name: observe_member(server, tables=False).state for server in lab_servers}
    channels = {name: state.channels for name, state in states.items() if state is not None and state.channels}
    return {name: tuple(names.get(each.place, "?") for each in own) for name, own in channels.items()}


def find_source(lab: Lab, server: Server, state: ServerState, channel: str = "") -> Server | None:
    """Returns the server of the lab that a channel follows; None if it is not of this lab."""
    followed = state.find_channel(channel)
    if followed is None:
        return None
    return next((server for server in list_servers(lab) if (server.host, server.port) == followed.place), None)


# --- lag ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WatchedServers:
    """A watch of lag that is not entered yet, and the servers of the lab in it, by name."""

    watch: LagWatch
    servers: dict[str, Server]


def make_watch(
    lab: Lab, name: str | None = None, addresses: Sequence[Address] = (), heartbeat: bool = False
) -> WatchedServers:
    """Returns a watch of the lab's running servers, or of those at `addresses`. `heartbeat`: it
    writes heartbeats on the first server or head. Raises InputError for no replica."""
    if addresses:
        places = {(address.host or "", address.port or DEFAULT_PORT): address.label for address in addresses}
        watch = LagWatch({each.label: each for each in addresses}, places, addresses[0].label if heartbeat else None)
        return WatchedServers(watch, {})
    members = [entry for entry in list_topology(lab) if entry.server.state == "running"]
    if not any(entry.state and entry.state.channels for entry in members):
        raise refuse.input(name or "this lab", "no server here follows another", "headrace replica up NAME --of SOURCE")
    if name is not None and name not in {entry.server.name for entry in members}:
        raise refuse.input(name, "is not a replica that runs", "headrace replica status shows them.")
    heads = [entry.server.name for entry in members if entry.state and not entry.state.channels]
    places = {(entry.server.host, entry.server.port or 0): entry.server.name for entry in members}
    on = heads[0] if heartbeat and heads else None
    watch = LagWatch({entry.server.name: entry.server.make_address() for entry in members}, places, on)
    return WatchedServers(watch, {entry.server.name: entry.server for entry in members})


# --- numbers --------------------------------------------------------------------------------------


def find_free_server_id(lab: Lab) -> int:
    """Returns a server_id that no server of the lab has."""
    data_dir = find_data_dir(lab)
    taken = set[int]()
    for name in records.list_names(data_dir):
        record = records.load(make_server_paths(data_dir, name))
        if record is not None:
            text = (record.options | record.settings).get("server-id") or "1"
            taken.add(int(text) if text.isascii() and text.isdigit() else 1)
    return next(number for number in range(FIRST_SERVER_ID, FIRST_SERVER_ID + len(taken) + 1) if number not in taken)


def find_free_port(host: str = "127.0.0.1") -> int:
    """Returns a free TCP port; the start fails if another program takes it before the server."""
    import socket

    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
