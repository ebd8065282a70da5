"""Reaches, fences and reconfigures each server of a cluster.

AddressHost   any server, by its address: by SQL only
LabHost       a server of the lab: its process can be killed, its volumes detached
Ec2Host       a server on EC2: the EC2 API stops its instance and detaches its volumes
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.aws.client import AwsClient, CallLimits, make_client
from headrace.aws.instances import BY_ID, AwsInstance, read_own_instance
from headrace.base import processes
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, InputError
from headrace.lab import LabRefused
from headrace.mysql import connect
from headrace.mysql.address import DEFAULT_PORT, Address, Secret
from headrace.mysql.binary_events import ENCRYPTED_MAGIC, MAGIC
from headrace.mysql.connection import cut
from headrace.mysql.dialect import Dialect, SourceOf
from headrace.mysql.state import ServerState, observe
from headrace.mysql.statements import SqlConnection, ask_row, run
from headrace.servers import record as records
from headrace.servers import running, volumes
from headrace.servers.failover.planning.members import refuse
from headrace.servers.failover.surroundings import REAL, Surroundings
from headrace.servers.topology import accounts

if TYPE_CHECKING:
    from headrace.servers.server import Server

# Wait for a killed process to end, s (a guess: without I/O under way it ends in milliseconds, on a
# paused volume it does not end, and in neither case does it answer anybody any more).
KILLED_S = 0.1
ENDED_S = 30.0  # the same of one that is to be started anew: a volume's pause may be over soon
# Wait of a fence for a command that has the server's lock, s (a guess: a change of its settings
# takes milliseconds, a start takes longer, and clients wait meanwhile).
LOCKED_S = 1.0
GONE_S = 5.0  # how long one that was killed may take until its volume can be taken from it, a guess
# A statement that changes replication waits for threads to end; those wait for the network.
CHANGE_S = 30.0
# A guess: calls of the EC2 API answer within a second.
EC2_LIMITS = CallLimits(connect_s=20.0, answer_s=20.0, tries=3)
PASSWORD_BYTES = 24
USER_DIGITS = 12  # hexadecimal, of a digest of a follower's name: MySQL's user names have 32 at most
# Until an instance is stopped by force, or its volumes are detached, s: a guess.
EC2_FENCE_S = 30.0
LOG_DEPTH = 5  # folders below a mount point, a guess: lib/mysql/NAME are three


@dataclass(frozen=True)
class AddressHost:
    """A server that is reached by SQL alone."""

    name: str
    address: Address
    can_fence: bool = False
    has_volume: bool = False

    @property
    def fence_s(self) -> float:
        """The time that a fence takes, s."""
        return 0.0

    @property
    def host(self) -> str:
        """The host name or address at which the other servers reach it."""
        return self.address.host or "127.0.0.1"

    @property
    def port(self) -> int:
        return self.address.port or DEFAULT_PORT

    def open_connection(self, timeout_s: float) -> SqlConnection:
        """Returns a new connection. `timeout_s`: for connecting, and for every answer."""
        return connect(self.address, timeout_s)

    def is_log_flushed(self) -> bool:
        """Returns whether it is known, unasked, that each commit flushes its binary log."""
        return False

    def fence(self) -> str:
        """Ends the server's ability to acknowledge, and returns in words how. Raises
        CouldNotRun."""
        hint = "Stop it by hand and make sure that it stays down, then add --fenced."
        raise refuse.run(self.name, "is known by its address alone and cannot be ended from here", hint)

    def admit_follower(self, follower: AddressHost, connection: SqlConnection, dialect: Dialect) -> SourceOf:
        """Creates an account for `follower`, and returns the options with which that follows."""
        # The account is of this follower alone: servers may share a port, and passwords are new.
        own = hashlib.sha256(follower.name.encode()).hexdigest()[:USER_DIGITS]
        user, password = f"headrace_{own}", Secret(secrets.token_urlsafe(PASSWORD_BYTES))
        closed = not dialect.is_mariadb and ask_row(connection, "SELECT @@GLOBAL.super_read_only") == (1,)
        if closed:
            # On a read-only server no account can be created; read_only stays.
            run(connection, ("SET GLOBAL super_read_only = 0",))
        try:
            run(connection, dialect.create_replication_account(user, "%", password))
        finally:
            if closed:
                run(connection, ("SET GLOBAL super_read_only = 1",))
        return SourceOf(self.host, self.port, user, password)

    def remember(self, **settings: str | None) -> None:
        """Stores settings for later starts; an address has no option file, so nothing is done."""

    @contextlib.contextmanager
    def open_binary_logs(self) -> Iterator[list[Path]]:
        """Yields the binary logs on the volume of this dead server. Raises CouldNotRun."""
        raise refuse.run(self.name, "is known by its address alone: its volume cannot be read")
        yield []


@dataclass(frozen=True)
class LabHost(AddressHost):
    """A server of the lab."""

    server: Server = field(kw_only=True)

    @property
    def host(self) -> str:
        return self.server.host or "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.port or DEFAULT_PORT

    def fence(self) -> str:
        """Kills the process and keeps it down. From SIGKILL on none of its threads runs again, so
        it answers nobody, even while it waits for a paused volume and cannot end. Raises
        CouldNotRun if another command has the server's lock, and may be about to start it."""
        outcome = self._kill()
        if not wait_until(self._keep_down, LOCKED_S, LOCKED_S / 10):
            rule = f"is not kept down ({outcome}): another headrace is at work on it, and may start it again"
            raise refuse.run(self.name, rule, "Wait until that command has ended, or end it; then begin again.")
        return outcome

    def _kill(self) -> str:
        """Kills the process, if it runs; returns what was done."""
        where = self.server.paths
        process = running.find_process(where, records.require_record(where))
        if process is None:
            return "its process was down already"
        ended = processes.end_process(process, signal.SIGKILL, KILLED_S)
        return f"killed process {process.pid}{'' if ended else ', which ends when its volume answers'}"

    def _keep_down(self) -> bool:
        """Kills the process once more under the server's lock, and records that it is to stay down;
        returns False if another command has the lock. Raises CouldNotRun, InputError."""
        where = self.server.paths
        try:
            with records.lock_server(where):
                self._kill()  # one that the last command with the lock has started
                records.save(where, records.require_record(where).with_(should_run=False, clean=False))
        except LabRefused:
            return False
        return True

    def is_log_flushed(self) -> bool:
        """Returns whether it was started with sync_binlog = 1, which is MySQL's default."""
        record = records.load(self.server.paths)
        value = None if record is None else record.find_setting("sync-binlog")
        return value == "1" or (value is None and record is not None and record.flavor == "mysql")

    def admit_follower(self, follower: AddressHost, connection: SqlConnection, dialect: Dialect) -> SourceOf:
        """Returns the options with which `follower` follows this server. A follower of the lab has
        the server's account for replicas, which is created if it is missing."""
        if not isinstance(follower, LabHost):
            return super().admit_follower(follower, connection, dialect)
        if not (self.server.paths.state / accounts.FILE).exists():
            accounts.create_account(self.server.paths, connection, dialect, self.host)
        return accounts.make_source_options(follower.server.paths, self.server)

    def remember(self, **settings: str | None) -> None:
        """Stores settings in its record, from which every start writes its option file."""
        changed = {name.replace("_", "-"): value for name, value in settings.items()}
        with records.lock_server(self.server.paths):
            record = records.require_record(self.server.paths)
            records.save(self.server.paths, record.with_(settings=record.merge_settings(changed)))

    def restart(self, settings: dict[str, str | None], once: dict[str, str | None]) -> None:
        """Starts the server with `settings` from now on, and with those of `once` this time. A
        process that runs is killed first. Raises CouldNotRun."""
        where = self.server.paths
        with records.lock_server(where):
            record = records.require_record(where)
            process = running.find_process(where, record)
            if process is not None and not processes.end_process(process, signal.SIGKILL, ENDED_S):
                rule = f"cannot be started yet: process {process.pid} of before waits for its volume"
                raise refuse.run(self.name, rule, "Begin again when the volume answers.")
            lasting = record.merge_settings(settings)
            started = running.start(self.server.lab, where, record.with_(settings=lasting | once))
            records.save(where, started.with_(settings=lasting))

    @contextlib.contextmanager
    def open_binary_logs(self) -> Iterator[list[Path]]:
        """Attaches and mounts the dead server's volumes, and yields its binary logs; the volumes
        are unmounted after the block. Raises CouldNotRun if its process still runs."""
        where, lab = self.server.paths, self.server.lab
        with records.lock_server(where):
            record = records.require_record(where)
            process = running.find_process(where, record)
            if process is not None and not processes.wait_gone(process, GONE_S):
                raise refuse.run(self.name, "still runs: its volume is not read while it writes", "Fence it first.")
            try:
                for volume, place in volumes.list_own_mounts(where, record):
                    volumes.unmount(place, lazily=True)
                    volumes.mount(volumes.attach_fresh(lab, volume), place)
                yield self.list_binary_logs()
            finally:
                volumes.unmount_quietly(where)

    def list_binary_logs(self) -> list[Path]:
        """Lists its binary logs on its mounted volumes."""
        where = self.server.paths
        place = where.log_mount if self.server.volumes.log else where.data_mount
        return list_log_files(place / "log", "binlog")


@dataclass(frozen=True)
class Ec2Host(AddressHost):
    """A server on an instance of EC2, or of the lab's endpoint (AWS_ENDPOINT_URL)."""

    instance: str = ""
    volumes: tuple[str, ...] = ()
    region: str | None = None
    rescuer: str = ""  # the instance that this program runs on
    links: tuple[Path, ...] = (BY_ID,)

    @property
    def fence_s(self) -> float:
        return EC2_FENCE_S

    def make_ec2_client(self) -> AwsClient:
        """Returns a client of the EC2 API. Raises CouldNotRun without boto3 or a region."""
        try:
            return make_client("ec2", EC2_LIMITS, region=self.region, needs_keys=False)
        except InputError as error:
            raise refuse.run(self.name, f"EC2 cannot be asked: {error.rule}", "Set AWS_REGION.") from None

    def _make_instance(self) -> AwsInstance:
        return AwsInstance(self.make_ec2_client(), self.name, self.instance, self.volumes)

    def fence(self) -> str:
        """Stops the instance by force and detaches its volumes by force, and waits until one of the
        two is complete. Raises CouldNotRun if both fail, or neither is complete in time."""
        return self._make_instance().fence()

    @contextlib.contextmanager
    def open_binary_logs(self) -> Iterator[list[Path]]:
        """Moves the server's volumes to this instance, mounts them read-only (which replays the
        filesystem's log), and yields its binary logs; the volumes are detached after the block."""
        ec2, here = self._make_instance(), self.rescuer or read_own_instance()
        with contextlib.ExitStack() as undo:
            places = []
            for volume in self.volumes:
                ec2.move_volume(volume, here)
                undo.callback(ec2.detach, volume, here)
                place = Path(tempfile.mkdtemp(prefix="headrace-rescue-"))
                undo.callback(_remove_folder, place)
                volumes.mount_to_read(ec2.find_device(volume, self.links), place)
                undo.callback(volumes.unmount, place, lazily=True)
                places.append(place)
            yield find_logs(places)


def _remove_folder(place: Path) -> None:
    """Removes an empty folder; files that are still mounted there are never deleted."""
    with contextlib.suppress(OSError):
        place.rmdir()


def find_logs(places: list[Path]) -> list[Path]:
    """Lists the binary logs on mounted volumes, in order, in whatever folder; not the relay logs.
    Raises CouldNotRun for the logs of two servers."""
    logs = {}
    for place in places:
        for index in sorted(path for depth in range(LOG_DEPTH) for path in place.glob("*/" * depth + "*.index")):
            files = list_log_files(index.parent, index.stem)
            if not files or "relay" in index.name:
                continue
            with open(files[-1], "rb") as file:
                if file.read(len(MAGIC)) in (MAGIC, ENCRYPTED_MAGIC, b""):
                    logs[index] = files
    if len(logs) > 1:
        rule = f"there are several binary logs: {', '.join(str(index) for index in logs)}"
        raise refuse.run("the volumes", rule, "Name only the volume with the source's own.")
    return next(iter(logs.values()), [])


def make_lab_host(server: Server) -> LabHost:
    """Returns the host of a lab's server. Raises InputError if it has no port."""
    if server.port is None:
        rule = "has no port, so no replica follows it"
        raise refuse.input(server.name, rule, "Make it with --port, or by headrace replica up.")
    address = replace(server.make_address(tcp=True), host=server.host or "127.0.0.1")
    return LabHost(server.name, address, can_fence=True, has_volume=bool(server.volumes.data), server=server)


def list_log_files(folder: Path, base: str) -> list[Path]:
    """Lists the binary logs of a folder, in order, by their index; without one by their names."""
    index = folder / f"{base}.index"
    try:
        names = [os.path.basename(line.strip()) for line in index.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        names = []
    pattern = re.compile(rf"{re.escape(base)}\.\d{{6,10}}")
    there = {path.name for path in folder.iterdir() if pattern.fullmatch(path.name)}
    # A file that the crash left out of the index comes last.
    ordered = [name for name in dict.fromkeys(names) if name in there]
    ordered += sorted(there - set(ordered), key=lambda name: int(name.rpartition(".")[2]))
    return [folder / name for name in ordered]


@contextlib.contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turns the driver's errors within the block into CouldNotRun, which names the server."""
    from pymysql.err import MySQLError

    try:
        yield
    except MySQLError as error:
        number, message = error.args[:2] if len(error.args) > 1 else ("", error)
        raise CouldNotRun(name, str(message)[:300], f"error {number} of the server", "") from None


class ConnectionPool:
    """Connections for reuse: on a busy machine a TLS handshake takes longer than a statement."""

    def __init__(self, surroundings: Surroundings = REAL) -> None:
        self.surroundings = surroundings
        self._idle: dict[str, list[SqlConnection]] = {}
        self._warming: set[str] = set()

    @contextlib.contextmanager
    def hold_connection(self, host: AddressHost) -> Iterator[SqlConnection]:
        """Yields a connection to a host, for one thread, which is idle again after the block; an
        error in the block closes it, and becomes CouldNotRun if it is the driver's."""
        connection = self._take_idle(host) or host.open_connection(CHANGE_S)
        try:
            with translate_errors(host.name):
                yield connection
        except BaseException:
            cut(connection)
            raise
        self._idle.setdefault(host.name, []).append(connection)

    def _take_idle(self, host: AddressHost) -> SqlConnection | None:
        """Removes and returns an idle connection to a host that still works; None for none."""
        while self._idle.get(host.name):
            connection = self._idle[host.name].pop()
            try:
                connection.ping(reconnect=False)
                return connection
            except Exception:
                cut(connection)
        return None

    def list_connection_ids(self, name: str) -> set[int]:
        """Returns the connection ids, as the server counts them, of its idle connections."""
        return {connection.thread_id() for connection in self._idle.get(name, ())}

    def warm(self, hosts: list[AddressHost]) -> None:
        """Begins to open a connection to each host without one, and ignores errors."""

        def connect_ahead(host: AddressHost) -> None:
            with contextlib.suppress(Exception):
                self._idle.setdefault(host.name, []).append(host.open_connection(CHANGE_S))
            self._warming.discard(host.name)

        for host in hosts:
            if self._idle.get(host.name) or host.name in self._warming:
                continue
            self._warming.add(host.name)
            self.surroundings.begin(lambda host=host: connect_ahead(host))

    def change(self, host: AddressHost, *statements: str) -> None:
        """Runs statements on a host. Raises CouldNotRun, without passwords in its text."""
        with self.hold_connection(host) as connection:
            run(connection, statements)

    def query_state(self, host: AddressHost) -> ServerState:
        """Returns the state of a host, by its own answer."""
        with self.hold_connection(host) as connection:
            return observe(connection, host.name)

    def close(self) -> None:
        """Ends all idle connections at once, without a word to the servers."""
        for connection in [connection for each in self._idle.values() for connection in each]:
            with contextlib.suppress(Exception):
                cut(connection)
        self._idle = {}


def change(host: AddressHost, *statements: str, timeout_s: float = CHANGE_S) -> None:
    """Runs statements on a new connection to a host. Raises CouldNotRun, without passwords."""
    with contextlib.closing(host.open_connection(timeout_s)) as connection:
        run(connection, statements)


def query_host_state(host: AddressHost, timeout_s: float = CHANGE_S) -> ServerState:
    """Returns the state of a host, by its own answer on a new connection."""
    with contextlib.closing(host.open_connection(timeout_s)) as connection:
        return observe(connection, host.name)
