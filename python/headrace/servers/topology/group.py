"""MySQL's group replication: members on lab volumes, of which a single one takes writes.

A commit is acknowledged when a majority of the members has agreed on its order, so the death of a
member loses no commit; the others expel it and choose a new primary by themselves.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headrace.base.packaged import read_text
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab
from headrace.mysql.address import Address, Secret, write_client_file
from headrace.mysql.dialect import quote_literal, refuse
from headrace.mysql.gtid import GtidSet
from headrace.mysql.statements import SqlConnection, ask, ask_row, ask_value, run
from headrace.servers import access, running
from headrace.servers import record as records
from headrace.servers.record import check_name, find_data_dir, make_server_paths
from headrace.servers.running import Progress, discard_progress
from headrace.servers.server import Server, bring_up, destroy, find, list_servers
from headrace.servers.topology import accounts, links
from headrace.servers.topology.topology import find_free_port, find_free_server_id

ACCOUNT = "headrace_group"
FILE = "group.cnf"
CHANNEL = "group_replication_recovery"
# A majority that survives one loss takes three; nine is MySQL's limit (group-replication-limits).
SMALLEST, LARGEST = 3, 9
# s. A member recovers what it lacks first; a guess for a lab, where that is little.
ONLINE_S = 120.0
# s. STOP waits for a member that looks for its group, which it does for a minute or two; a guess.
LEAVES_S = 300.0
LOOK_EVERY_S = 0.1
ON_BOOT = "loose-group-replication-start-on-boot"  # whether a member that starts joins by itself
# Account of a member for the others: to stream the group's messages, and to recover from it.
GRANTS = "REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN, GROUP_REPLICATION_STREAM"


@dataclass(frozen=True)
class GroupMember:
    """A member of a group, in its own view. `state`: ONLINE, RECOVERING, UNREACHABLE, ERROR,
    OFFLINE, `down` if its server does not run, or why it does not answer. `waiting`: number of
    transactions that it has not certified or applied, None if unknown. `executed`: GTIDs."""

    name: str
    state: str
    role: str
    waiting: int | None
    executed: str

    @property
    def is_online(self) -> bool:
        """True if it takes part in the group."""
        return self.state == "ONLINE"


def group_up(
    lab: Lab,
    name: str,
    size: int,
    *,
    storage: str | None = None,
    log_storage: str | None = None,
    memory_gib: float | None = None,
    settings: dict[str, str | None] | None = None,
    own_address: bool = False,
    unpaced: bool = False,
    progress: Progress = discard_progress,
) -> list[Server]:
    """Creates a group of NAME-1, NAME-2, ... and starts it, or starts an existing group again.
    Raises InputError, CouldNotRun, LabRefused; then a new group is removed again."""
    access.check_root()
    check_name(name)
    if not SMALLEST <= size <= LARGEST:
        rule = f"a group has {SMALLEST} to {LARGEST} members: a majority of them decides"
        raise refuse.input(f"--group {size}", rule, "Take 3, or 5 to survive two losses.")
    names = [f"{name}-{number}" for number in range(1, size + 1)]
    existing = [member_name for member_name in names if member_name in records.list_names(find_data_dir(lab))]
    if len(existing) == size and all(_is_member(lab, member_name) for member_name in names):
        return _start_existing(lab, names, progress)
    if existing:
        rule = "is there already, and is not a whole group"
        raise refuse.input(", ".join(existing), rule, "headrace mysql destroy it, or take another name.")
    if storage is None:
        rule = "is not a group of this lab yet, and no storage was named for it"
        raise refuse.input(name, rule, "Add --storage, for example --storage gp3:20.")
    request = {"storage": storage, "log_storage": log_storage, "memory_gib": memory_gib, "own_address": own_address}
    try:
        members = _create_servers(lab, names, request | {"unpaced": unpaced}, dict(settings or {}), progress)
        progress(0.7, "forming the group")
        _form_group(members)
    except BaseException:
        for member_name in names:
            if make_server_paths(find_data_dir(lab), member_name).state.exists():
                destroy(find(lab, member_name))
        raise
    return [_join_on_boot(lab, member_name) for member_name in names]


def _create_servers(
    lab: Lab, names: list[str], request: dict, requested: dict[str, str | None], progress: Progress
) -> list[Server]:
    """Creates the servers of a group at the same time, as each waits for its disk, and returns
    them; they do not form a group yet. `request`, `requested`: options and settings of each."""
    group = str(uuid.uuid4())
    first_id = find_free_server_id(lab)
    taken = records.list_hosts(find_data_dir(lab))
    places: list[tuple[str, int]] = []
    for member_name in names:
        host, port = links.LOOPBACK, find_free_port()
        if request["own_address"]:
            host, port = links.find_free_host(make_server_paths(find_data_dir(lab), member_name), taken), links.PORT
            taken.append(host)
        while (host, port) in places:
            port = find_free_port()
        places.append((host, port))
    seeds = ",".join(f"{host}:{port}" for host, port in places)
    progress(0.1, f"making {len(names)} servers")

    def make(index: int) -> Server:
        host, port = places[index]
        text = read_text("headrace.servers.topology", "group_options.txt")
        text = text.format(group=group, host=host, port=port, seeds=seeds, server_id=first_id + index)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        settings = dict(line.split("=", 1) for line in lines) | requested
        own = {"port": port, "host": host if request["own_address"] else None}
        rest = {key: value for key, value in request.items() if key != "own_address"}
        with Lab(lab.place.data_dir, lab.place.socket) as mine:
            return bring_up(mine, name=names[index], flavor="mysql", settings=settings, **rest, **own)

    with ThreadPoolExecutor(len(names)) as pool:
        waiting = [pool.submit(make, index) for index in range(len(names))]
    for future in waiting:
        future.result()  # raises what went wrong, when all have ended
    return [find(lab, member_name) for member_name in names]


def _form_group(members: list[Server]) -> None:
    """Creates the group's account on each member, and starts its group replication; the first
    member bootstraps the group. Raises CouldNotRun."""
    password = Secret(secrets.token_urlsafe(access.PASSWORD_BYTES))
    for index, server in enumerate(members):
        write_client_file(Address(ACCOUNT, server.host, server.port, password=password), server.paths.state / FILE)
        with accounts.open_connection(server) as connection:
            _create_account(connection, server, password)
            _join(connection, server, first=index == 0)


def _create_account(connection: SqlConnection, server: Server, password: Secret) -> None:
    """Creates the group's account on a member: it must exist before the member can join."""
    pattern = "127.0.0.1" if server.host == links.LOOPBACK else f"{server.host.rpartition('.')[0]}.%"
    account, secret = f"{quote_literal(ACCOUNT)}@{quote_literal(pattern)}", quote_literal(password.reveal())
    statements = (
        "SET SESSION sql_log_bin = 0",
        f"CREATE USER {account} IDENTIFIED BY {secret} REQUIRE SSL",
        f"GRANT {GRANTS} ON *.* TO {account}",
        "SET SESSION sql_log_bin = 1",
        f"CHANGE REPLICATION SOURCE TO SOURCE_USER = {quote_literal(ACCOUNT)}, SOURCE_PASSWORD = {secret} FOR CHANNEL '{CHANNEL}'",
    )
    run(connection, statements)


def _join(connection: SqlConnection, server: Server, first: bool) -> None:
    """Starts group replication, and waits until it is online. `first`: bootstraps the group."""
    if first:
        run(connection, ("SET GLOBAL group_replication_bootstrap_group = ON",))
    try:
        run(connection, ("START GROUP_REPLICATION",))
    except CouldNotRun as error:
        rule = f"cannot join the group: {error.rule}"
        raise CouldNotRun(server.name, rule, str(server.paths.log), "See its log.") from None
    finally:
        if first:
            run(connection, ("SET GLOBAL group_replication_bootstrap_group = OFF",))
    _wait_online(connection, server)


def _read_own_state(connection: SqlConnection) -> str:
    """Returns a member's state in its group, as MySQL words it; "" for none."""
    members = "performance_schema.replication_group_members"
    return str(ask_value(connection, f"SELECT member_state FROM {members} WHERE member_id = @@server_uuid") or "")


def _wait_online(connection: SqlConnection, server: Server) -> None:
    """Waits until a member is online in its group. Raises CouldNotRun after ONLINE_S seconds."""
    if not wait_until(lambda: _read_own_state(connection) == "ONLINE", ONLINE_S, LOOK_EVERY_S):
        rule = f"is not online in its group after {ONLINE_S:g} s"
        raise CouldNotRun(server.name, rule, str(server.paths.log), f"headrace mysql log {server.name}")


def _join_on_boot(lab: Lab, name: str) -> Server:
    """Lets a member join the group at each start from now on."""
    where = make_server_paths(find_data_dir(lab), name)
    with records.lock_server(where):
        record = records.require_record(where)
        on: dict[str, str | None] = {ON_BOOT: "ON"}
        records.save(where, record.with_(settings=record.merge_settings(on)))
    return find(lab, name)


def _is_member(lab: Lab, name: str) -> bool:
    """Returns whether a server of the lab was made as a member of a group."""
    record = records.load(make_server_paths(find_data_dir(lab), name))
    return record is not None and record.created and "loose-group-replication-group-name" in record.settings


def _start_existing(lab: Lab, names: list[str], progress: Progress) -> list[Server]:
    """Starts members that are down, waits until all are online, and returns them. If none is
    online, the member that has all transactions of the others bootstraps the group. Raises
    CouldNotRun, also without such a member."""
    all_down = all(find(lab, member_name).state != "running" for member_name in names)
    for index, member_name in enumerate(names):
        progress(0.1 + 0.5 * index / len(names), f"starting {member_name}")
        if all_down:
            _start_alone(lab, member_name)
        else:
            bring_up(lab, name=member_name)
    members = [find(lab, member_name) for member_name in names]
    if not any(member.is_online for member in query_group_status(members)):
        _restart_group(members)
    for server in members:
        with accounts.open_connection(server) as connection:
            if _read_own_state(connection) in ("", "OFFLINE", "ERROR"):
                run(connection, ("STOP GROUP_REPLICATION",))
                _join(connection, server, first=False)
            _wait_online(connection, server)
    return members


def _start_alone(lab: Lab, name: str) -> None:
    """Starts a member that does not join its group, since no other member runs."""
    where = make_server_paths(find_data_dir(lab), name)
    with records.lock_server(where):
        record = records.require_record(where)
        alone: dict[str, str | None] = {ON_BOOT: "OFF"}
        started = running.start(lab, where, record.with_(settings=record.merge_settings(alone)))
        records.save(where, started.with_(settings=record.settings))


def _restart_group(members: list[Server]) -> None:
    """Bootstraps the group by the member that has all transactions of the others. Raises
    CouldNotRun if no member has them."""
    has: dict[str, GtidSet] = {}
    for server in members:
        with accounts.open_connection(server, LEAVES_S) as connection:
            run(connection, ("STOP GROUP_REPLICATION",))
            has[server.name] = GtidSet.parse(str(ask_row(connection, "SELECT @@GLOBAL.gtid_executed")[0]), "mysql")
    whole = (member for member in members if all(has[member.name].contains(other) for other in has.values()))
    first = next(whole, None)
    if first is None:
        rule = "has no member with all transactions of the others, so beginning it anew would lose some"
        raise refuse.run(members[0].name.rpartition("-")[0], rule, "Compare gtid_executed of its members.")
    with accounts.open_connection(first) as connection:
        _join(connection, first, first=True)


def list_members(lab: Lab, name: str) -> list[Server]:
    """Lists the servers NAME-1, NAME-2, ... of a group; none if a server has the name itself."""
    every = list_servers(lab)
    if any(server.name == name for server in every):
        return []
    return [server for server in every if server.name.rpartition("-")[0] == name and _is_member(lab, server.name)]


STATUS = """SELECT m.member_id, m.member_state, m.member_role, s.count_transactions_in_queue
+ s.count_transactions_remote_in_applier_queue FROM performance_schema.replication_group_members m
LEFT JOIN performance_schema.replication_group_member_stats s USING (member_id)"""


def query_group_status(members: Sequence[Server]) -> list[GroupMember]:
    """Returns each member in its own view: a member that is cut off may see the others wrongly."""
    statuses = []
    for server in members:
        if server.state != "running":
            statuses.append(GroupMember(server.name, "down", "", None, ""))
            continue
        try:
            with accounts.open_connection(server) as connection:
                own, executed = ask_row(connection, "SELECT @@server_uuid, @@GLOBAL.gtid_executed") or ("", "")
                seen = {row[0]: row[1:] for row in ask(connection, STATUS)}
            state, role, waiting = seen.get(own, ("OFFLINE", "", None))
            statuses.append(GroupMember(server.name, state, role, waiting, str(executed).replace("\n", "")))
        except HeadraceError as error:
            statuses.append(GroupMember(server.name, f"does not answer: {error.rule}", "", None, ""))
    return statuses
