"""The servers of a cluster with hands: how each is reached, fenced, and pointed at another source.

AddressHost   any server, by its address: SQL is all there is
LabHost       a server of the lab: its process can be ended, its volumes taken away
Ec2Host       a server on EC2: its instance is stopped, its volumes are detached, by the EC2 API
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.base import processes
from headrace.connect import connect
from headrace.connect.address import DEFAULT_PORT, Address, Secret
from headrace.connect.connection import cut
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.servers import record as records
from headrace.servers import running, volumes
from headrace.servers.failover.planning.members import GUIDE
from headrace.servers.topology import accounts
from headrace.servers.topology.dialect import Dialect, SourceOf
from headrace.servers.topology.state import observe

if TYPE_CHECKING:
    import pymysql

    from headrace.servers.server import Server

# How long a killed process is waited for, s (a guess: one without I/O under way goes in
# milliseconds, one on a paused volume not at all, and neither answers anybody any more).
KILLED_S = 0.1
ENDED_S = 30.0  # the same of one that is to be started anew: a volume's pause may be over soon
GONE_S = 5.0  # how long one that was killed may take until its volume can be taken from it, a guess
# A statement that changes replication waits for threads to end; those wait for the network.
CHANGE_S = 30.0
# How long the EC2 API is waited for, s (a guess; calls answer within one).
EC2_S = 20.0
PASSWORD_BYTES = 24
USER_DIGITS = 12  # hexadecimal, of a digest of a follower's name: MySQL's user names have 32 at most
EC2_PACE = {"Delay": 1, "MaxAttempts": 120}  # s; AWS detaches a volume by force within a minute or two
# Until an instance is stopped by force, or its volumes are detached, s: a guess.
EC2_FENCE_S = 30.0
LOOK_S = 0.5  # between two looks at what the EC2 API has begun, a guess
DEVICE_S = 30.0  # until the kernel shows an attached volume, a guess: it takes a second or two
# AWS, "Device names for volumes": /dev/sd[f-p] are recommended for EBS volumes.
DEVICE_NAMES = tuple(f"/dev/sd{letter}" for letter in "fghijklmnop")
DOWN = ("stopped", "terminated")  # states of an instance without a running machine
BY_ID = Path("/dev/disk/by-id")
# AWS, "Identify EC2 instances": the firmware of Nitro instances has the instance's id there.
ASSET_TAG = Path("/sys/devices/virtual/dmi/id/board_asset_tag")
LOG_DEPTH = 5  # folders below a mount point, a guess: lib/mysql/NAME are three
# First bytes of a binary log and of an encrypted one (log_event.h, rpl_log_encryption.h).
LOG_MAGIC, LOG_MAGIC_ENCRYPTED = b"\xfebin", b"\xfdbin"


@dataclass(frozen=True)
class AddressHost:
    """A server that is reached by SQL alone."""

    name: str
    address: Address
    can_fence: bool = False
    has_volume: bool = False

    @property
    def fence_s(self) -> float:
        """How long a fence takes, s."""
        return 0.0

    @property
    def host(self) -> str:
        """As the other servers reach it."""
        return self.address.host or "127.0.0.1"

    @property
    def port(self) -> int:
        return self.address.port or DEFAULT_PORT

    def connected(self, timeout_s: float) -> pymysql.Connection:
        """A connection of its own. Raises as `connect`."""
        return connect(self.address, timeout_s)

    def fence(self) -> str:
        """Takes away what it needs to acknowledge; says what was done. Raises CouldNotRun."""
        hint = "Stop it by hand and make sure that it stays down, then add --fenced."
        raise CouldNotRun(self.name, "is known by its address alone and cannot be ended from here", GUIDE, hint)

    def source_for(self, follower: Any, connection: pymysql.Connection, dialect: Dialect) -> SourceOf:
        """How `follower` follows this server: by an account of its own, made here now."""
        # Of this follower alone: many servers listen on one port, and a new password ends the old.
        own = hashlib.sha256(follower.name.encode()).hexdigest()[:USER_DIGITS]
        user, password = f"headrace_{own}", Secret(secrets.token_urlsafe(PASSWORD_BYTES))
        closed = not dialect.is_mariadb and accounts.one_row(connection, "SELECT @@GLOBAL.super_read_only") == (1,)
        if closed:
            # Nobody may make an account there; read_only stays.
            accounts.run(connection, ("SET GLOBAL super_read_only = 0",))
        try:
            accounts.run(connection, dialect.replication_account(user, "%", password))
        finally:
            if closed:
                accounts.run(connection, ("SET GLOBAL super_read_only = 1",))
        return SourceOf(self.host, self.port, user, password)

    def remember(self, **settings: str | None) -> None:
        """Settings for later starts; an address has no option file."""

    @contextlib.contextmanager
    def binary_logs(self) -> Iterator[list[Path]]:
        """The binary logs on the volume of this server, which is dead. Raises CouldNotRun."""
        raise CouldNotRun(self.name, "is known by its address alone: its volume cannot be read", GUIDE, "")
        yield []


@dataclass(frozen=True)
class LabHost(AddressHost):
    """A server of the lab."""

    server: Any = None

    @property
    def host(self) -> str:
        return getattr(self.server, "host", None) or "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.port

    def fence(self) -> str:
        """Kills the process and keeps it down. From SIGKILL on none of its threads runs again, so
        it answers nobody, even while it waits for a paused volume and cannot end."""
        where = self.server.paths
        known = records.required(where)
        process = running.process_of(where, known)
        said = "its process was down already"
        if process is not None:
            ended = processes.end_process(process, signal.SIGKILL, KILLED_S)
            said = f"killed process {process.pid}{'' if ended else ', which ends when its volume answers'}"
        with contextlib.suppress(HeadraceError), records.locked(where):
            records.save(where, records.required(where).with_(wanted=False, clean=False))
        return said

    def source_for(self, follower: Any, connection: pymysql.Connection, dialect: Dialect) -> SourceOf:
        if not isinstance(follower, LabHost):
            return super().source_for(follower, connection, dialect)
        if not (self.server.paths.state / accounts.FILE).exists():
            accounts.create_account(self.server.paths, connection, dialect, self.host)
        return accounts.follow(follower.server.paths, self.server)

    def remember(self, **settings: str | None) -> None:
        """Into its record, from which every start writes its option file."""
        changed = {name.replace("_", "-"): value for name, value in settings.items()}
        with records.locked(self.server.paths):
            known = records.required(self.server.paths)
            records.save(self.server.paths, known.with_(settings=known.settings_with(changed)))

    def started(self, settings: dict[str, str | None], once: dict[str, str | None]) -> None:
        """Starts it with `settings`, and this time with those of `once` too. One that runs without
        an answer is ended."""
        where = self.server.paths
        with records.locked(where):
            known = records.required(where)
            process = running.process_of(where, known)
            if process is not None and not processes.end_process(process, signal.SIGKILL, ENDED_S):
                rule = f"cannot be started yet: process {process.pid} of before waits for its volume"
                raise CouldNotRun(self.name, rule, GUIDE, "Begin again when the volume answers.")
            kept = known.settings_with(settings)
            started = running.start(self.server.lab, where, known.with_(settings=kept | once))
            records.save(where, started.with_(settings=kept))

    @contextlib.contextmanager
    def binary_logs(self) -> Iterator[list[Path]]:
        """Takes its volumes from it, attaches them again, and mounts them; they are released
        afterwards and stay whole."""
        where, lab = self.server.paths, self.server.lab
        with records.locked(where):
            known = records.required(where)
            process = running.process_of(where, known)
            if process is not None and not processes.wait_gone(process, GONE_S):
                rule = "still runs: its volume is not read while it writes"
                raise CouldNotRun(self.name, rule, GUIDE, "Fence it first.")
            try:
                for volume, place in volumes.mounts_of(where, known):
                    volumes.release(place)
                    volumes.mount(volumes.attach_fresh(lab, volume), place)
                yield self.own_binary_logs()
            finally:
                volumes.quietly_unmount(where)

    def own_binary_logs(self) -> list[Path]:
        """Its binary logs, where its volumes are mounted."""
        where = self.server.paths
        place = where.log_mount if self.server.log_volume else where.data_mount
        return log_files(place / "log", "binlog")


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

    def client(self) -> Any:
        """A client of the EC2 API. Raises CouldNotRun without boto3 or a region."""
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise CouldNotRun("boto3", "is not installed", "", "pip install boto3") from None
        limits = Config(connect_timeout=EC2_S, read_timeout=EC2_S, retries={"max_attempts": 2})
        try:
            return boto3.Session().client("ec2", region_name=self.region, config=limits)
        except Exception as error:
            raise CouldNotRun(self.name, f"EC2 cannot be asked: {_words(error)}", GUIDE, "Set AWS_REGION.") from None

    def fence(self) -> str:
        """Stops the instance by force and detaches the volumes by force, and waits until one of the
        two is so: a database without its volumes commits nothing. Raises CouldNotRun when both
        fail, or neither is so in time."""
        client, done, failed = self.client(), [], []
        for volume in self.volumes:
            try:
                client.detach_volume(VolumeId=volume, InstanceId=self.instance, Force=True)
                done.append(f"detached {volume}")
            except Exception as error:
                failed.append(f"detach-volume {volume}: {_words(error)}")
        try:
            client.stop_instances(InstanceIds=[self.instance], Force=True)
            done.append(f"stopped {self.instance}")
        except Exception as error:
            failed.append(f"stop-instances {self.instance}: {_words(error)}")
        detached = sum(one.startswith("detached") for one in done) == len(self.volumes) > 0
        if not detached and not any(one.startswith("stopped") for one in done):
            raise CouldNotRun(self.name, f"could not be fenced: {'; '.join(failed)}", GUIDE, "See to it by hand.")
        self._wait_cut_off(client, detached)
        return ", ".join(done)

    def _wait_cut_off(self, client: Any, detached: bool) -> None:
        """Both calls only begin: until the instance is down or has none of the volumes, it may go
        on answering its clients. Raises CouldNotRun."""
        longest_s, said = EC2_PACE["Delay"] * EC2_PACE["MaxAttempts"], ""
        until = time.monotonic() + longest_s
        while True:
            try:
                if self._is_cut_off(client, detached):
                    return
            except Exception as error:
                said = f" ({_words(error)})"
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        rule = f"its instance is not stopped and its volumes are not detached after {longest_s:g} s{said}"
        raise CouldNotRun(self.name, rule, GUIDE, "Look at it in EC2; when it is down, begin again.")

    def _is_cut_off(self, client: Any, detached: bool) -> bool:
        """Whether the instance is down, or has none of the volumes any more. That says something
        only of volumes it had: all were `detached` by this fence."""
        found = client.describe_instances(InstanceIds=[self.instance])["Reservations"]
        if any(one.get("State", {}).get("Name") in DOWN for each in found for one in each["Instances"]):
            return True
        left = [
            one
            for volume in self.volumes
            for one in client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"]
            if one["InstanceId"] == self.instance and one["State"] != "detached"
        ]
        return detached and not left

    @contextlib.contextmanager
    def binary_logs(self) -> Iterator[list[Path]]:
        """Takes its volumes from its instance, attaches them here, and mounts them read-only (which
        replays the filesystem's log); they are detached afterwards."""
        client, here = self.client(), self.rescuer or own_instance()
        with contextlib.ExitStack() as undo:
            places = []
            for volume in self.volumes:
                self._moved_here(client, volume, here)
                undo.callback(self._left, client, volume, here)
                place = Path(tempfile.mkdtemp(prefix="headrace-rescue-"))
                undo.callback(_removed, place)
                volumes.mount_to_read(self._device(volume), place)
                undo.callback(volumes.unmount, place, lazily=True)
                places.append(place)
            yield found_logs(places)

    def _moved_here(self, client: Any, volume: str, here: str) -> None:
        try:
            for one in client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"]:
                if one["State"] != "detaching":
                    client.detach_volume(VolumeId=volume, InstanceId=one["InstanceId"], Force=True)
            client.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig=EC2_PACE)
            taken = client.describe_instances(InstanceIds=[here])["Reservations"][0]["Instances"][0]
            used = {one["DeviceName"] for one in taken["BlockDeviceMappings"]}
            free = next(name for name in DEVICE_NAMES if name not in used)
            client.attach_volume(VolumeId=volume, InstanceId=here, Device=free)
            client.get_waiter("volume_in_use").wait(VolumeIds=[volume], WaiterConfig=EC2_PACE)
        except Exception as error:
            rule = f"{volume} cannot be attached to {here}: {_words(error)}"
            hint = f"Attach it there by hand, mount it, and give its binary log to {self.name}'s successor."
            raise CouldNotRun(self.name, rule, GUIDE, hint) from None

    def _device(self, volume: str) -> str:
        """The block device, by its serial number, as udev's links have it on Nitro instances."""
        name = f"nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}"
        until = time.monotonic() + DEVICE_S
        while time.monotonic() < until:
            for folder in self.links:
                if (folder / name).exists():
                    return str((folder / name).resolve())
            time.sleep(DEVICE_S / 100)
        rule = f"{volume} is attached, and {name} appears in none of {', '.join(map(str, self.links))}"
        raise CouldNotRun(self.name, rule, GUIDE, "Is this program running on the instance of --rescue-on?")

    def _left(self, client: Any, volume: str, here: str) -> None:
        with contextlib.suppress(Exception):
            client.detach_volume(VolumeId=volume, InstanceId=here)


def _removed(place: Path) -> None:
    """The folder alone: whatever is mounted there still is nobody's to delete."""
    with contextlib.suppress(OSError):
        place.rmdir()


def own_instance() -> str:
    """The EC2 instance that this program runs on, as its firmware says. Raises InputError."""
    try:
        found = ASSET_TAG.read_text().strip()
    except OSError:
        found = ""
    if not found.startswith("i-"):
        rule = "is needed to read the dead source's volume: this machine does not say which instance it is"
        raise InputError(
            "--rescue-on INSTANCE", rule, GUIDE, "Run this on an instance of the volume's zone, and name it."
        )
    return found


def found_logs(places: list[Path]) -> list[Path]:
    """The binary logs on mounted volumes, in order, wherever the server kept them; not its relay
    logs. Raises CouldNotRun for two servers' logs."""
    found = {}
    for place in places:
        for index in sorted(path for depth in range(LOG_DEPTH) for path in place.glob("*/" * depth + "*.index")):
            files = log_files(index.parent, index.stem)
            if files and "relay" not in index.name and _is_log(files[-1]):
                found[index] = files
    if len(found) > 1:
        rule = f"there are several binary logs: {', '.join(str(one) for one in found)}"
        raise CouldNotRun("the volumes", rule, GUIDE, "Name only the volume with the source's own.")
    return next(iter(found.values()), [])


def _is_log(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(LOG_MAGIC)) in (LOG_MAGIC, LOG_MAGIC_ENCRYPTED, b"")


def lab_host(server: Server) -> LabHost:
    """A server of the lab by its port. Raises InputError for one without."""
    if server.port is None:
        rule = "has no port, so no replica follows it"
        raise InputError(server.name, rule, GUIDE, "Make it with --port, or by headrace replica up.")
    address = server.address(tcp=True)
    host = getattr(server, "host", None) or "127.0.0.1"
    return LabHost(
        server.name, replace(address, host=host), can_fence=True, has_volume=bool(server.data_volume), server=server
    )


def log_files(folder: Path, base: str) -> list[Path]:
    """The binary logs of a folder, in order, by their index; without one, by their names."""
    index = folder / f"{base}.index"
    try:
        names = [os.path.basename(line.strip()) for line in index.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        names = []
    pattern = re.compile(rf"{re.escape(base)}\.\d{{6,10}}")
    there = {one.name for one in folder.iterdir() if pattern.fullmatch(one.name)}
    # A file that the crash left out of the index comes last.
    ordered = [name for name in dict.fromkeys(names) if name in there]
    ordered += sorted(there - set(ordered), key=lambda name: int(name.rpartition(".")[2]))
    return [folder / name for name in ordered]


class Hands:
    """Connections for one failover that are used again: a TLS handshake on a busy machine takes
    longer than most of its statements."""

    def __init__(self) -> None:
        self._idle: dict[str, list[Any]] = {}
        self._warming: set[str] = set()

    @contextlib.contextmanager
    def on(self, host: AddressHost) -> Iterator[Any]:
        """A connection to it, for one thread."""
        connection = self._again(host) or host.connected(CHANGE_S)
        try:
            yield connection
        except BaseException:
            cut(connection)
            raise
        self._idle.setdefault(host.name, []).append(connection)

    def _again(self, host: AddressHost) -> Any:
        while self._idle.get(host.name):
            connection = self._idle[host.name].pop()
            try:
                connection.ping(reconnect=False)
                return connection
            except Exception:
                cut(connection)
        return None

    def numbers(self, name: str) -> set[int]:
        """Those connections to a server that nobody uses now, as the server numbers them."""
        return {one.thread_id() for one in self._idle.get(name, ())}

    def warm(self, hosts: list[AddressHost]) -> None:
        """One connection to each that there is none to yet, as far as they answer."""

        def connected(host: AddressHost) -> None:
            with contextlib.suppress(Exception):
                self._idle.setdefault(host.name, []).append(host.connected(CHANGE_S))
            self._warming.discard(host.name)

        for host in hosts:
            if self._idle.get(host.name) or host.name in self._warming:
                continue
            self._warming.add(host.name)
            threading.Thread(target=connected, args=(host,), daemon=True).start()

    def change(self, host: AddressHost, *statements: str) -> None:
        """Runs statements; errors repeat no password."""
        with self.on(host) as connection:
            accounts.run(connection, statements)

    def state_of(self, host: AddressHost) -> Any:
        """Its state, asked now."""
        with self.on(host) as connection:
            return observe(connection, host.name, position=False)

    def close(self) -> None:
        for connection in [one for each in self._idle.values() for one in each]:
            with contextlib.suppress(Exception):
                cut(connection)
        self._idle = {}


def change(host: AddressHost, *statements: str, timeout_s: float = CHANGE_S) -> None:
    """Runs statements on a connection of its own; errors repeat no password."""
    with contextlib.closing(host.connected(timeout_s)) as connection:
        accounts.run(connection, statements)


def state_of(host: AddressHost, timeout_s: float = CHANGE_S) -> Any:
    """Its state, asked now."""
    with contextlib.closing(host.connected(timeout_s)) as connection:
        return observe(connection, host.name, position=False)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
