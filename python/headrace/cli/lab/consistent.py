"""`headrace snapshot take`, `sets`, `restore`, `prune`: snapshots of running servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.files import check_output, write_whole
from headrace.cli.lab.common import tags
from headrace.cli.lazy import lazily
from headrace.cli.options import CommandGroup, LabPlace, OutputOption, PasswordOptions, YesOption, choice, flag, option
from headrace.cli.output import confirm, data, pairs, print_answer, print_rows, progress, say, table
from headrace.cli.writing import FORCE_HELP
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.operate.snapshots.restore import RestoredVolume
    from headrace.operate.snapshots.services import VolumeService
    from headrace.operate.snapshots.sets import SnapshotSet
    from headrace.operate.snapshots.take import Prepared, SnapshotRequest, TakenSet

with lazily():
    from headrace.operate.snapshots import ec2 as snapshots_ec2
    from headrace.operate.snapshots import restore as snapshots_restore
    from headrace.operate.snapshots import retention, services, targets, warming
    from headrace.operate.snapshots import sets as snapshots_sets
    from headrace.operate.snapshots import take as snapshots_take

COLUMNS = ("id", "server", "flavor", "version", "taken_at", "gtid", "position", "frozen_ms", "whole")
On = Literal["lab", "ec2"]
SetArgument = Annotated[str, typer.Argument(metavar="SET", help="Id of the set, latest, or latest:SERVER.")]


@dataclass(frozen=True, kw_only=True)
class Ec2Options:
    """The place of the snapshots: the lab or EC2."""

    on: Annotated[On, choice("Place of the volumes.")] = "lab"
    profile: Annotated[str | None, option("NAME", "Profile of the AWS tools (EC2 only).")] = None
    region: Annotated[str | None, option("REGION", "Region (EC2 only). Default: the AWS tools' region.")] = None

    @contextmanager
    def open(self, place: LabPlace, zone: str | None = None) -> Iterator[VolumeService]:
        """Opens the service. Raises NoLab, CouldNotRun, InputError."""
        if self.on == "ec2":
            yield snapshots_ec2.Ec2Service(self.profile, self.region, zone)
            return
        if self.profile is not None or self.region is not None:
            raise InputError("--profile, --region", "need --on ec2", "", "Add --on ec2.")
        with place.open() as lab:
            yield services.LabService(lab)


@dataclass(frozen=True, kw_only=True)
class TimerOptions:
    """A systemd service and timer that take snapshot sets, and delete old ones."""

    every: Annotated[
        str | None, option("TIME", "Take nothing now: print a systemd service and timer that do each 15m, 6h, 1d.")
    ] = None
    keep: Annotated[int | None, option("N", "Delete old sets after each run, and keep the newest N.", min=1)] = None
    keep_for: Annotated[
        str | None, option("TIME", "Delete old sets after each run, and keep those younger than this.")
    ] = None
    into: Annotated[
        Path | None, option("DIR", "Folder for the units, such as /etc/systemd/system. Default: print them.", "--into")
    ] = None
    force: Annotated[bool, flag("--force", FORCE_HELP)] = False

    def check(self) -> bool:
        """Returns whether units are asked for. Raises InputError for options that need --every."""
        given = {"--keep": self.keep, "--keep-for": self.keep_for, "--into": self.into, "--force": self.force or None}
        for name, value in given.items():
            if value is not None and self.every is None:
                raise InputError(name, "belongs to --every", "headrace snapshot take --help", "Add --every 6h.")
        return self.every is not None

    def write(
        self, place: LabPlace, ec2: Ec2Options, account: Path | None, server: str, name: str | None, words: list[str]
    ) -> None:
        """Prints the units, or writes them to a folder. `account`: the option file with its
        password; `words`: more options of each run. Raises InputError."""
        server_name, take_words = server, ["snapshot", "take", server, *words]
        where = place_words(place)
        if "://" in server or ec2.on == "ec2":
            if name is None:
                raise InputError(server, "is an address, and its sets need a name", "", "Add --name.")
            server_name, given = name, {"--profile": ec2.profile, "--region": ec2.region}
            where = ["--on", "ec2", *(word for key, value in given.items() if value for word in (key, value))]
            take_words += ["--name", name]
            take_words += [] if account is None else ["--defaults-file", str(account.absolute())]
        prune_words = None
        if self.keep is not None or self.keep_for is not None:
            if self.keep_for is not None:
                retention.seconds(self.keep_for, "--keep-for")
            limits = ["--keep", str(self.keep)] if self.keep else []
            limits += ["--keep-for", self.keep_for] if self.keep_for else []
            prune_words = ["snapshot", "prune", "--server", server_name, *limits, "--yes", *where]
        every_s = retention.seconds(str(self.every), "--every")
        program = [sys.executable, "-m", "headrace"]
        self._put(retention.units(server_name, program, [*take_words, *where], prune_words, every_s))

    def _put(self, units: dict[str, str]) -> None:
        if self.into is None:
            for file, text in units.items():
                data(f"# {file}\n{text}\n")
            return
        if not self.into.is_dir():
            raise InputError(str(self.into), "is not a folder", "", "On most systems: /etc/systemd/system.")
        for file in units:
            check_output("--into", self.into / file, force=self.force)
        for file, text in units.items():
            write_whole(self.into / file, text.encode())
            say(f"wrote {self.into / file}")
        timer = next(name for name in units if name.endswith(".timer"))
        say(f"then: systemctl daemon-reload && systemctl enable --now {timer}")


# Longest waits of `take` in seconds: for the server's lock, and frozen.
WAIT_LOCK_S, HOLD_S = 5.0, 10.0


def _lock_words(no_lock: bool, no_freeze: bool, wait_lock: float, hold: float) -> list[str]:
    """Returns the options of `take` about its locks that differ from the usual."""
    words = ["--no-lock"] * no_lock + ["--no-freeze"] * no_freeze
    words += [] if wait_lock == WAIT_LOCK_S else ["--wait-lock", f"{wait_lock:g}"]
    return words + ([] if hold == HOLD_S else ["--hold", f"{hold:g}"])


SERVER = "A server of the lab; or mysql://USER@... of one on this EC2 instance. Default: db."


def take(
    *,
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: Annotated[str, typer.Argument(metavar="[SERVER]", help=SERVER)] = "db",
    name: Annotated[
        str | None, option("NAME", "Server name to store in the set (EC2 only). Default: this host's name.")
    ] = None,
    tag: Annotated[list[str] | None, option("K=V", "A tag. Repeatable.")] = None,
    description: Annotated[str, option("TEXT", "At most 255 characters.")] = "",
    wait_lock: Annotated[
        float, option("SECONDS", "Seconds to wait for the server's lock before giving up.", min=1)
    ] = WAIT_LOCK_S,
    hold: Annotated[float, option("SECONDS", "Longest freeze in seconds, whatever happens.", min=0.1)] = HOLD_S,
    no_lock: Annotated[bool, flag("--no-lock", "Do not lock the server; the position is then not known.")] = False,
    no_freeze: Annotated[bool, flag("--no-freeze", "Do not freeze the filesystems.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be locked, frozen and taken; do nothing.")] = False,
    wait: Annotated[bool, flag("--wait", "Return when everything is stored.")] = False,
    timer: TimerOptions,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot of all volumes of a running server, with its commits held back and its
    filesystems frozen for a moment. With --every: print or write the systemd units that do so."""
    if timer.check():
        words = [
            *_lock_words(no_lock, no_freeze, wait_lock, hold),
            *(word for pair in tag or () for word in ("--tag", pair)),
        ]
        words += ["--description", description] if description else []
        return timer.write(place, ec2, password.defaults_file, server, name, words)
    options: targets.SnapshotSettings = {
        "tags": tags(tag),
        "description": description,
        "lock": not no_lock,
        "freeze": not no_freeze,
        "wait_lock_s": wait_lock,
        "hold_s": hold,
    }
    with _request(place, ec2, password, server, name, options) as request:
        if dry_run:
            _print_plan(snapshots_take.plan(request), output)
            return
        taken = snapshots_take.take(request)
        if wait:
            with progress(f"storing {taken.snapshot_set.id}") as tick:
                stored_set(request.service, taken.snapshot_set.id, tick)
    for note in taken.notes:
        say(f"note: {note}")
    rows = taken.snapshot_set.as_dict() | {
        "locked_ms": round(taken.locked_ms, 1),
        "frozen_ms": round(taken.frozen_ms, 1),
    }
    print_answer(rows, output, [rows], (*COLUMNS, "locked_ms"), lambda: (pairs(_facts(taken)),))


@contextmanager
def _request(
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: str,
    name: str | None,
    options: targets.SnapshotSettings,
) -> Iterator[SnapshotRequest]:
    """Opens the request of a snapshot: for a server of the lab by its name, for others by
    address."""
    if "://" in server or ec2.on == "ec2":
        address = password.read_address(server)
        with replace(ec2, on="ec2").open(place) as service:
            yield targets.ec2_request(address, service, name, **options)
        return
    if name is not None:
        raise InputError(f"--name {name[:60]}", "is for a server at an address", "", "A server of the lab has its own.")
    with place.open() as lab:
        yield targets.lab_request(lab, server, **options)


def _facts(taken: TakenSet) -> list[tuple[str, object]]:
    snapshot_set = taken.snapshot_set
    return [
        ("set", snapshot_set.id),
        ("server", snapshot_set.server),
        ("GTID", snapshot_set.gtid or "none"),
        ("position", snapshot_set.position),
        ("held", f"locked {round(taken.locked_ms, 1)} ms, frozen {round(taken.frozen_ms, 1)} ms"),
        ("snapshots", ", ".join(f"{snapshot.id} of {snapshot.volume}" for snapshot in snapshot_set.snapshots)),
        ("restore", f"headrace snapshot restore {snapshot_set.id} --name NEW"),
    ]


# Between two looks at snapshots that are being stored, s: EC2 counts requests.
LOOK_EVERY_S = 1.0


def stored_set(service: VolumeService, name: str, tick: Callable[[float], None]) -> None:
    """Waits until all snapshots of a set are stored. Raises CouldNotRun."""
    while True:
        snapshot_set = next(
            (snapshot_set for snapshot_set in snapshots_sets.sets_of(service.stored()) if snapshot_set.id == name), None
        )
        if snapshot_set is None or any(snapshot.state == "error" for snapshot in snapshot_set.snapshots):
            raise CouldNotRun(name, "could not be stored", "", "See headrace snapshot sets.")
        done = sum(snapshot.state == "completed" for snapshot in snapshot_set.snapshots)
        if done == len(snapshot_set.snapshots):
            return
        tick(done / len(snapshot_set.snapshots))
        time.sleep(LOOK_EVERY_S)


def _print_plan(prepared: Prepared, output: str) -> None:
    rows = [
        {"volume": member.id, "spec": member.spec, "filesystem": use["place"], "kind": use["kind"]}
        for member, use in prepared.members
    ]
    print_rows(rows, output, ("volume", "spec", "filesystem", "kind"), "Nothing was done.")


def sets(
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[str | None, option("NAME", "Only sets of this server.")] = None,
    output: OutputOption = "table",
) -> None:
    """List the snapshot sets, and what is wrong with those that are not whole."""
    with ec2.open(place) as service:
        snapshot_sets = [
            snapshot_set
            for snapshot_set in snapshots_sets.sets_of(service.stored())
            if server is None or snapshot_set.server == server
        ]
    rows = [snapshot_set.as_dict() for snapshot_set in snapshot_sets]
    cells = [
        (
            snapshot_set.id,
            snapshot_set.server,
            snapshot_set.taken_at,
            str(snapshot_set.size_gib),
            snapshot_set.gtid or snapshot_set.position,
            _state(snapshot_set),
        )
        for snapshot_set in snapshot_sets
    ]
    columns = ("set", "server", "instant", "GiB", "GTID", "state")
    print_answer(rows, output, rows, COLUMNS, lambda: (table(columns, cells, right=("GiB",)),))


def _state(snapshot_set: SnapshotSet) -> str:
    if snapshot_set.problems:
        return f"not whole: {'; '.join(snapshot_set.problems)}"
    return "whole" if snapshot_set.stored else "being stored"


def restore(
    *,
    chosen: SetArgument,
    place: LabPlace,
    ec2: Ec2Options,
    name: Annotated[
        str | None, option("NAME", "Name of the restored server, or prefix for the restored volumes.")
    ] = None,
    volumes: Annotated[bool, flag("--volumes", "Make only the volumes, no server.")] = False,
    storage: Annotated[str | None, option("SPEC", "Other data volumes, not smaller.")] = None,
    log_storage: Annotated[str | None, option("SPEC", "Another log volume, not smaller.")] = None,
    memory_gib: Annotated[
        float | None, option("GIB", "Memory of the restored server in GiB. Default: as before.")
    ] = None,
    port: Annotated[int | None, option("PORT", "Also listen at 127.0.0.1, with TLS.")] = None,
    zone: Annotated[
        str | None, option("ZONE", "Availability Zone of the new volumes (EC2 only). Default: as before.")
    ] = None,
    warm: Annotated[bool, flag("--warm", "Afterwards load all blocks, in order of need, and wait.")] = False,
    output: OutputOption = "table",
) -> None:
    """Make a new server, or volumes, from a snapshot set."""
    with ec2.open(place, zone) as service:
        snapshot_set = snapshots_sets.chosen(snapshots_sets.sets_of(service.stored()), chosen)
        prefix = name or f"{snapshot_set.server[:20]}-restored"
        if volumes or ec2.on == "ec2":
            restored = snapshots_restore.to_volumes(service, snapshot_set, prefix, storage)
            _print_volumes(restored, output)
            return
    with place.open() as lab, progress(f"restoring {snapshot_set.id}") as tick:
        server = snapshots_restore.to_server(
            lab,
            snapshot_set,
            prefix,
            storage=storage,
            log_storage=log_storage,
            memory_gib=memory_gib,
            port=port,
            progress=lambda share, what: tick(share),
        )
        if warm:
            loaded = warming.warm_server(server, lambda share, what: tick(share))
            say(f"loaded {loaded / 2**20:,.0f} MiB in order of need")
    rows = server.as_dict() | {"set": snapshot_set.id, "gtid": snapshot_set.gtid}
    facts = [
        ("server", server.name),
        ("set", snapshot_set.id),
        ("GTID", snapshot_set.gtid),
        ("address", rows["address"]),
    ]
    print_answer(rows, output, [rows], ("name", "set", "gtid", "address"), lambda: (pairs(facts),))


def _print_volumes(restored: list[RestoredVolume], output: str) -> None:
    rows = [
        {"volume": volume.volume, "snapshot": volume.snapshot, "place": volume.place, "spec": volume.spec}
        for volume in restored
    ]
    print_rows(rows, output, ("volume", "snapshot", "place", "spec"))
    say("Attach them, then:")
    for line in snapshots_restore.next_steps(restored):
        say(f"  {line}")


def prune(
    *,
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[str | None, option("NAME", "Only sets of this server. Default: those of all servers.")] = None,
    keep: Annotated[int | None, option("N", "Keep the newest N of each server.", min=1)] = None,
    keep_for: Annotated[str | None, option("TIME", "Keep sets younger than this: 12h, 7d, 4w (lab time).")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Say which sets would be deleted; delete nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Delete old snapshot sets, never the last whole one of a server."""
    with ec2.open(place) as service:
        snapshot_sets = [
            snapshot_set
            for snapshot_set in snapshots_sets.sets_of(service.stored())
            if server is None or snapshot_set.server == server
        ]
        if server is not None and not snapshot_sets:
            raise InputError(f"--server {server[:60]}", "has no snapshot sets", "", "See headrace snapshot sets.")
        now = service.now()
        keep_for_s = None if keep_for is None else retention.seconds(keep_for, "--keep-for")
        verdicts = [
            verdict
            for name in sorted({snapshot_set.server for snapshot_set in snapshot_sets} or {""})
            for verdict in retention.judge(
                [snapshot_set for snapshot_set in snapshot_sets if snapshot_set.server == name], now, keep, keep_for_s
            )
        ]
        going = [verdict for verdict in verdicts if verdict.goes]
        rows = [verdict.as_dict() for verdict in verdicts]
        if going and not dry_run:
            confirm(yes, f"Delete {len(going)} sets?", f"{len(going)} sets", "are deleted")
            for name in sorted({verdict.chosen.server for verdict in going}):
                locked = retention.prune(service, [verdict for verdict in verdicts if verdict.chosen.server == name])
                if locked:
                    raise CouldNotRun("prune", f"not deleted: {'; '.join(locked)}", "", "A locked snapshot stays.")
    columns = ("id", "server", "taken_at", "goes", "why")
    fate = "goes" if dry_run else "deleted"
    cells = [(row["id"], row["server"], row["taken_at"], fate if row["goes"] else "stays", row["why"]) for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(("set", "server", "instant", "", "why"), cells),))


def place_words(place: LabPlace) -> list[str]:
    """Returns the options that find the same lab again."""
    words = [] if place.data_dir is None else ["--lab", str(place.data_dir.absolute())]
    return words + ([] if place.socket is None else ["--socket", str(place.socket.absolute())])


def add_to(app: CommandGroup) -> None:
    """Registers them as commands of `headrace snapshot`."""
    for function in (take, sets, restore, prune):
        app.command(function.__name__)(function)
