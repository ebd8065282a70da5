"""Taking a snapshot of a running server, step by step.

    watchdog, lock, position, sync, freeze, ONE call, thaw, unlock, tags

Nothing stays frozen or locked in any case: the watchdog thaws when this process ends, however it
ends, and at its deadline; the server drops the locks when the connection ends, and when it was not
used for too long. A set whose freeze or lock did not hold to the end is deleted again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace.base.signals import ends_as_interrupts, ignore_interrupts
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, InputError
from headrace.mysql import Address
from headrace.operate.snapshots import sets
from headrace.operate.snapshots.freezing.filesystems import (
    Filesystem,
    escape_text,
    find_disks,
    find_filesystems,
    format_number,
)
from headrace.operate.snapshots.freezing.freeze import Freezer, FreezeTimes
from headrace.operate.snapshots.services import LOOK_EVERY_S, MemberVolume, VolumeService, delete_all
from headrace.operate.snapshots.sets import SnapshotSet, StoredSnapshot, refuse
from headrace.servers.copies.locks import ServerFacts, ServerLock, ServerPosition
from headrace.servers.copies.snapshot import capture, ignore

# In order, as `on_step` hears of them, each when it is done.
STEPS = ("watchdog", "locked", "synced", "frozen", "snapshot", "thawed", "unlocked", "tagged")
# Beyond the freeze, how long the lock may be held, s: what became dirty since the first sync is
# written between. A guess.
SYNC_S = 20.0

Step = Callable[[str], None]


@dataclass(frozen=True)
class SnapshotRequest:
    """The request for a set. `name`: of the server, for people. `service`: where its volumes are.
    `about`: what a restore wants to know. `lock`, `freeze`: leave a step out. `wait_lock_s`:
    longest wait for the lock. `hold_s`: longest freeze. `tags`: the user's own. `keep_off`: folders
    that are needed meanwhile, so must not be on a filesystem that is frozen."""

    name: str
    address: Address
    service: VolumeService
    about: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    lock: bool = True
    freeze: bool = True
    wait_lock_s: float = 5.0
    hold_s: float = 10.0
    keep_off: tuple[str, ...] = ()


@dataclass(frozen=True)
class SnapshotScope:
    """The server, filesystems and volumes of a snapshot set; volumes each with its use."""

    facts: ServerFacts
    filesystems: tuple[Filesystem, ...]
    members: tuple[tuple[MemberVolume, sets.TagDocument], ...]

    @property
    def volumes(self) -> list[str]:
        """Ids of the volumes, each once."""
        return list(dict.fromkeys(member.id for member, _ in self.members))


@dataclass(frozen=True)
class TakenSet:
    """A set that was taken. `locked_ms`, `frozen_ms`: how long commits, and all writers, were held
    back; `waited_ms`: how long the lock was waited for."""

    snapshot_set: SnapshotSet
    locked_ms: float
    frozen_ms: float
    waited_ms: float
    notes: tuple[str, ...]


@dataclass
class CreateCall:
    """The call that makes the snapshots of the set `name`. `count`: of snapshots that it may have
    begun, 0 before it is sent and where it was refused. `snapshots`: those of its answer."""

    name: str
    count: int = 0
    snapshots: list[StoredSnapshot] = field(default_factory=list)


def prepare(request: SnapshotRequest, facts: ServerFacts) -> SnapshotScope:
    """Finds the filesystems and volumes that a server's files are on. Changes nothing.

    Raises InputError for what cannot be frozen or is not on a volume, CouldNotRun.
    """
    paths = [_resolve_path(path, facts) for path in facts.folders]
    filesystems = find_filesystems(paths)
    numbers = {filesystem.number for filesystem in filesystems}
    for path in paths:
        if format_number(os.stat(path).st_dev) not in numbers:
            rule = "is on a filesystem that is mounted over another one"
            raise CouldNotRun(escape_text(path), rule, "proc_pid_mountinfo(5)", "See findmnt.")
    for path in request.keep_off:
        with contextlib.suppress(OSError):
            if format_number(os.stat(path).st_dev) in numbers:
                rule = "is on a filesystem that would be frozen, and it is needed to take the snapshot"
                raise refuse.input(escape_text(path), rule, "Move it to another filesystem.")
    members: list[tuple[MemberVolume, sets.TagDocument]] = []
    for filesystem in filesystems:
        device = find_disks(filesystem.device)
        for order, member in enumerate(request.service.find_members(device)):
            use: sets.TagDocument = {
                "place": filesystem.place,
                "kind": filesystem.kind,
                "order": order,
                "spec": member.spec,
            }
            use |= {"layout": list(device.layout)} if device.layout else {}
            use |= {"zone": member.zone} if member.zone else {}
            members.append((member, use))
    return SnapshotScope(facts, filesystems, tuple(members))


def _resolve_path(path: str, facts: ServerFacts) -> str:
    """Returns a path of the server, without symbolic links, if it is the same file for us. Raises
    InputError, CouldNotRun."""
    real = os.path.realpath(path)
    pid = _find_process(facts)
    try:
        own_stat, server_stat = os.stat(real), os.stat(f"/proc/{pid}/root{path}") if pid else None
    except OSError as error:
        rule = f"is a folder of the server, and cannot be seen here: {error.strerror}"
        raise refuse.input(escape_text(path), rule, "Run this on the server's own machine, as root.") from None
    if server_stat is not None and (own_stat.st_dev, own_stat.st_ino) != (server_stat.st_dev, server_stat.st_ino):
        rule = f"is another folder for the server (process {pid}), which has mounts of its own"
        hint = f"nsenter --target {pid} --mount headrace snapshot take ..."
        raise InputError(escape_text(path), rule, "mount_namespaces(7)", hint)
    return real


def _find_process(facts: ServerFacts) -> int | None:
    """Returns the process id of the server. Raises InputError for a server that is not on this
    machine."""
    try:
        pid = int(Path(facts.pid_file).read_text().split()[0])
        folder = os.readlink(f"/proc/{pid}/cwd")
    except (OSError, ValueError, IndexError):
        rule = f"the server's process is not found here: its pid file is {escape_text(facts.pid_file) or 'not set'}"
        raise refuse.input(facts.hostname, rule, "Run this on the server's own machine, as root.") from None
    # Both flavors work in their data directory.
    if os.path.realpath(folder) != os.path.realpath(facts.datadir):
        rule = f"process {pid} of its pid file works in {escape_text(folder)}, not in {escape_text(facts.datadir)}"
        raise refuse.input(facts.hostname, rule, "Is this the server's own machine?")
    return pid


def plan(request: SnapshotRequest) -> SnapshotScope:
    """Returns what `take` would lock, freeze and snapshot. Only a dry run of the call is made."""
    with ServerLock(request.address, request.wait_lock_s, request.hold_s) as lock:
        assert lock.facts is not None
        prepared = prepare(request, lock.facts)
    request.service.rehearse(prepared.volumes, _make_first_tags(request, prepared, "set-rehearsal", ServerPosition()))
    return prepared


def take(request: SnapshotRequest, on_step: Step = ignore) -> TakenSet:
    """Takes a snapshot set. `on_step` is called with each step of STEPS when it is done; it must
    not write to the server's filesystems.

    Raises InputError for what cannot be locked or frozen, CouldNotRun for what was not had in time
    or did not hold. Then there is no set, and nothing is frozen or locked; the hint names a set
    that EC2 may list later.
    """
    if request.freeze and os.geteuid() != 0:
        rule = "freezing a filesystem takes root"
        raise CouldNotRun(f"user id {os.geteuid()}", rule, "ioctl FIFREEZE", "Run it with sudo, or add --no-freeze.")
    call = CreateCall(sets.make_id())
    with ends_as_interrupts():
        try:
            with ServerLock(request.address, request.wait_lock_s, _compute_hold_s(request)) as lock:
                assert lock.facts is not None
                prepared = prepare(request, lock.facts)
                tags = _make_first_tags(request, prepared, call.name, ServerPosition())
                request.service.rehearse(prepared.volumes, tags)
                return _run_steps(request, prepared, lock, call, on_step)
        except BaseException as error:
            # The lock has ended: no commit waits for what is cleaned up here.
            hint = _delete_begun(request.service, call)
            if hint and isinstance(error, (InputError, CouldNotRun)):
                raise error.amend(hint=f"{error.hint} {hint}".strip()) from error
            raise


def _compute_hold_s(request: SnapshotRequest) -> float:
    return request.hold_s + SYNC_S


def _run_steps(
    request: SnapshotRequest, prepared: SnapshotScope, lock: ServerLock, call: CreateCall, on_step: Step
) -> TakenSet:
    """Takes the set of the call by STEPS and returns it with the times it took. Raises CouldNotRun
    if the freeze did not hold."""
    done = ["lock"] if request.lock else []
    with Freezer(prepared.filesystems, request.hold_s) as freezer:
        on_step("watchdog")

        def create(position: ServerPosition) -> FreezeTimes:
            if request.freeze:
                freezer.freeze()
                done.append("freeze")
                on_step("frozen")
            _create(request, prepared, call, _make_first_tags(request, prepared, call.name, position))
            on_step("snapshot")
            return freezer.thaw()

        position, frozen = capture(lock if request.lock else None, freezer.sync, create, on_step)
        on_step("thawed")
    if request.freeze and not frozen.unbroken:
        why = f"after {request.hold_s:g} s" if freezer.late else "by another program"
        rule = f"the filesystems were thawed before the snapshot had begun, {why}"
        raise refuse.run(request.name, rule, "Allow it more time (--hold), or see what is slow.")
    if request.lock:
        lock.release()
        on_step("unlocked")
    finished = _finish(request, prepared, call.snapshots, done, frozen)
    on_step("tagged")
    # By the answers of the calls: EC2 may list the snapshots and their tags only a moment later.
    [snapshot_set] = sets.build_sets(finished)
    frozen_ms = frozen.milliseconds if request.freeze else 0.0
    return TakenSet(snapshot_set, lock.held_ms, frozen_ms, lock.waited_ms, _collect_notes(request, prepared, position))


def _create(request: SnapshotRequest, prepared: SnapshotScope, call: CreateCall, tags: dict[str, str]) -> None:
    """Sends the call, and sets `count` and `snapshots` of `call`."""
    call.count = len(prepared.volumes)
    try:
        created = request.service.create(prepared.volumes, tags, request.description, call.name)
    except InputError:
        call.count = 0
        raise
    call.snapshots.extend(replace(snapshot, tags=tags) for snapshot in created)


def _delete_begun(service: VolumeService, call: CreateCall) -> str:
    """Deletes the snapshots that a call has begun, and returns in words what may remain, "" where
    that is nothing.

    Without an answer they are found by their tag, as soon as the service lists them: no client
    token lets CreateSnapshots be sent again. Another interrupt ends that wait.
    """

    def list_begun() -> list[StoredSnapshot]:
        with contextlib.suppress(InputError, CouldNotRun):  # the network may be what failed
            return [snapshot for snapshot in service.list_stored() if snapshot.tags.get(sets.SET) == call.name]
        return []

    is_lost = call.count > 0 and not call.snapshots
    if is_lost:
        with contextlib.suppress(KeyboardInterrupt):
            wait_until(lambda: len(list_begun()) >= call.count, service.listed_within_s, LOOK_EVERY_S)
    with ignore_interrupts():
        begun = list_begun() if is_lost else call.snapshots
        remaining = delete_all(service, [snapshot.id for snapshot in begun])
    words = [f"Not deleted: {'; '.join(remaining)}."] if remaining else []
    if is_lost and service.listed_within_s and len(begun) < call.count:
        later = f"headrace snapshot sets shows {call.name} later, and headrace snapshot prune deletes it."
        words.append(f"If the call was carried out, {later}")
    return " ".join(words)


def _make_first_tags(
    request: SnapshotRequest, prepared: SnapshotScope, name: str, position: ServerPosition
) -> dict[str, str]:
    """Returns the tags that the call itself adds, which are known before it."""
    facts = prepared.facts
    tags = dict(request.tags) | {
        sets.SET: name,
        # JSON without its quotes: a name with a newline is still one line.
        sets.SERVER: sets.as_json(request.name)[1:-1][: sets.VALUE_CHARACTERS],
        sets.FLAVOR: facts.flavor,
        sets.VERSION: facts.version[: sets.VALUE_CHARACTERS],
    }
    tags |= sets.make_long_tags(sets.VOLUMES, ",".join(prepared.volumes))
    # A set of GTIDs that is too long for tags can still be read from the restored server.
    for key, text in ((sets.GTID, position.gtid), (sets.REPLICA_GTID, position.replica_gtid)):
        tags |= sets.make_long_tags(key, text) if sets.fits(text) else {key: "too long for tags"}
    if position.text:
        tags[sets.POSITION] = position.text
    return tags


def _finish(
    request: SnapshotRequest,
    prepared: SnapshotScope,
    snapshots: list[StoredSnapshot],
    done: list[str],
    frozen: FreezeTimes,
) -> list[StoredSnapshot]:
    """Adds the tags that are known at the end, FINISHED last, and returns the snapshots with all
    their tags."""
    about = {"server_id": prepared.facts.server_id, "uuid": prepared.facts.uuid} | dict(request.about)
    common = sets.make_long_tags(sets.ABOUT, sets.as_json(about)) | {sets.STEPS: " ".join(done) or "none"}
    if request.freeze:
        common[sets.FROZEN] = f"{frozen.milliseconds:.1f}"
    uses: dict[str, list[sets.TagDocument]] = {}
    for member, use in prepared.members:
        uses.setdefault(member.id, []).append(use)
    finish = {sets.FINISHED: datetime.now(UTC).isoformat(timespec="seconds")}
    finished: list[StoredSnapshot] = []
    for snapshot in snapshots:
        use = uses[snapshot.volume]
        more = {"more": use[1:]} if len(use) > 1 else {}
        tags = common | sets.make_long_tags(sets.MEMBER, sets.as_json(use[0] | more))
        request.service.tag([snapshot.id], tags)
        finished.append(replace(snapshot, tags={**snapshot.tags, **tags, **finish}))
    request.service.tag([snapshot.id for snapshot in snapshots], finish)
    return finished


def _collect_notes(request: SnapshotRequest, prepared: SnapshotScope, position: ServerPosition) -> tuple[str, ...]:
    """Returns what a user should know of this set."""
    notes = []
    if prepared.facts.unsafe_tables:
        tables = ", ".join(escape_text(table) for table in prepared.facts.unsafe_tables)
        if not request.lock:
            notes.append(f"taken without a lock, and a crash may leave these tables torn: {tables}")
        elif prepared.facts.flavor == "mysql":
            notes.append(f"FLUSH TABLES WITH READ LOCK was needed, which stops all writes, for: {tables}")
    if not sets.fits(position.gtid):
        notes.append("its GTID set is too long for tags; the restored server has it")
    if any("dm" in layer for _, use in prepared.members for layer in use.get("layout", ())):
        notes.append("it is on LVM: volumes of the group without a logical volume are not found")
    if not request.lock:
        notes.append("taken without a lock: its position is not known")
    return tuple(notes)
