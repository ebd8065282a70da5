"""`headrace snapshot`: snapshots of volumes, their copies, locks, schedules and the recycle bin;
`take`, `sets`, `restore` and `prune` are of running servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.files import check_output, write_whole
from headrace.base.lazy import defer_imports
from headrace.base.units import read_span
from headrace.base.waiting import wait_until
from headrace.cli.lab.common import format_number, format_tags, read_tags
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    OutputOption,
    PasswordOptions,
    TagOption,
    YesOption,
    complete_volume,
    make_choice,
    make_flag,
    make_option,
)
from headrace.cli.output import (
    confirm,
    format_pairs,
    make_table,
    print_answer,
    print_data,
    print_rows,
    say,
    say_each,
    show_progress,
)
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import FORCE_HELP
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.lab import Lab, calls
    from headrace.operate.snapshots.restore import RestoredVolume
    from headrace.operate.snapshots.services import VolumeService
    from headrace.operate.snapshots.sets import SnapshotSet
    from headrace.operate.snapshots.take import SnapshotRequest, SnapshotScope, TakenSet
    from headrace.report.view import Table

with defer_imports():
    from headrace.lab import client as lab_client
    from headrace.lab import waiting
    from headrace.operate.snapshots import ec2 as snapshots_ec2
    from headrace.operate.snapshots import restore as snapshots_restore
    from headrace.operate.snapshots import retention, services, sets, targets, warming
    from headrace.operate.snapshots import take as snapshots_take


EPILOG = read_epilog("snapshot")

app = CommandGroup("Take, restore, copy, lock, schedule and delete snapshots of servers and volumes.", EPILOG)

# --- snapshots of running servers -----------------------------------------------------------------


SET_COLUMNS = ("id", "server", "flavor", "version", "taken_at", "gtid", "position", "frozen_ms", "whole")
On = Literal["lab", "ec2"]
WaitOption = Annotated[bool, make_flag("--wait", "Return when everything is stored.")]
SetArgument = Annotated[str, typer.Argument(metavar="SET", help="Id of the set, latest, or latest:SERVER.")]


@dataclass(frozen=True, kw_only=True)
class Ec2Options:
    """The place of the snapshots: the lab or EC2."""

    on: Annotated[On, make_choice("Place of the volumes.")] = "lab"
    profile: Annotated[str | None, make_option("NAME", "Profile of the AWS tools (EC2 only).")] = None
    region: Annotated[str | None, make_option("REGION", "Region (EC2 only). Default: the AWS tools' region.")] = None

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
        str | None,
        make_option("TIME", "Take no snapshot now: print a systemd service and timer that do so every 15m, 6h, 1d."),
    ] = None
    keep: Annotated[int | None, make_option("N", "Delete old sets after each run, and keep the newest N.", min=1)] = (
        None
    )
    keep_for: Annotated[
        str | None, make_option("TIME", "Delete old sets after each run, and keep those younger than this.")
    ] = None
    into: Annotated[
        Path | None,
        make_option("DIR", "Folder for the units, such as /etc/systemd/system. Default: print them.", "--into"),
    ] = None
    force: Annotated[bool, make_flag("--force", FORCE_HELP)] = False

    def check(self) -> bool:
        """Returns whether units are asked for. Raises InputError for options that need --every."""
        given = {"--keep": self.keep, "--keep-for": self.keep_for, "--into": self.into, "--force": self.force or None}
        for name, value in given.items():
            if value is not None and self.every is None:
                raise InputError(name, "belongs to --every", "headrace snapshot take --help", "Add --every 6h.")
        return self.every is not None

    def write(
        self, place: LabPlace, ec2: Ec2Options, account: Path | None, server: str, name: str | None, options: list[str]
    ) -> None:
        """Prints the units, or writes them to a folder. `account`: the option file with the
        password of the server's account; `options`: more options of `take`. Raises InputError."""
        server_name, take_arguments = server, ["snapshot", "take", server, *options]
        place_options = list_place_options(place)
        if "://" in server or ec2.on == "ec2":
            if name is None:
                raise InputError(server, "is an address, and its sets need a name", "", "Add --name.")
            server_name, place_options = name, ["--on", "ec2"]
            place_options += ["--profile", ec2.profile] if ec2.profile else []
            place_options += ["--region", ec2.region] if ec2.region else []
            take_arguments += ["--name", name]
            take_arguments += [] if account is None else ["--defaults-file", str(account.absolute())]
        prune_arguments = None
        if self.keep is not None or self.keep_for is not None:
            if self.keep_for is not None:
                read_span(self.keep_for, "--keep-for")
            limits = ["--keep", str(self.keep)] if self.keep else []
            limits += ["--keep-for", self.keep_for] if self.keep_for else []
            prune_arguments = ["snapshot", "prune", "--server", server_name, *limits, "--yes", *place_options]
        every_s = int(read_span(str(self.every), "--every"))
        program = [sys.executable, "-m", "headrace"]
        take_arguments += place_options
        self._write_units(retention.build_units(server_name, program, take_arguments, prune_arguments, every_s))

    def _write_units(self, units: dict[str, str]) -> None:
        """Prints the units, or writes them into the folder that was named. Raises InputError for
        one that is not there."""
        if self.into is None:
            for file, text in units.items():
                print_data(f"# {file}\n{text}\n")
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


def _list_lock_options(no_lock: bool, no_freeze: bool, wait_lock: float, hold: float) -> list[str]:
    """Returns the options of `take` about its locks that differ from their defaults; `wait_lock`
    and `hold` in seconds."""
    options = ["--no-lock"] * no_lock + ["--no-freeze"] * no_freeze
    options += [] if wait_lock == WAIT_LOCK_S else ["--wait-lock", f"{wait_lock:g}"]
    return options + ([] if hold == HOLD_S else ["--hold", f"{hold:g}"])


SERVER = "A server of the lab; or mysql://USER@... of one on this EC2 instance. Default: db."


@app.command()
def take(
    *,
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: Annotated[str, typer.Argument(metavar="[SERVER]", help=SERVER)] = "db",
    name: Annotated[
        str | None, make_option("NAME", "Server name to store in the set (EC2 only). Default: this host's name.")
    ] = None,
    tag: TagOption = None,
    description: Annotated[str, make_option("TEXT", "At most 255 characters.")] = "",
    wait_lock: Annotated[
        float, make_option("SECONDS", "Seconds to wait for the server's lock before giving up.", min=1)
    ] = WAIT_LOCK_S,
    hold: Annotated[float, make_option("SECONDS", "Longest freeze in seconds, whatever happens.", min=0.1)] = HOLD_S,
    no_lock: Annotated[bool, make_flag("--no-lock", "Do not lock the server; the position is then not known.")] = False,
    no_freeze: Annotated[bool, make_flag("--no-freeze", "Do not freeze the filesystems.")] = False,
    dry_run: Annotated[bool, make_flag("--dry-run", "Say what would be locked, frozen and taken; do nothing.")] = False,
    wait: WaitOption = False,
    timer: TimerOptions,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot of all volumes of a running server, with its commits held back and its
    filesystems frozen for a moment. With --every: print or write the systemd units that do so."""
    if timer.check():
        unit_options = _list_lock_options(no_lock, no_freeze, wait_lock, hold)
        unit_options += [text for pair in tag or () for text in ("--tag", pair)]
        unit_options += ["--description", description] if description else []
        return timer.write(place, ec2, password.defaults_file, server, name, unit_options)
    options: targets.SnapshotSettings = {
        "tags": read_tags(tag),
        "description": description,
        "lock": not no_lock,
        "freeze": not no_freeze,
        "wait_lock_s": wait_lock,
        "hold_s": hold,
    }
    with _open_request(place, ec2, password, server, name, options) as request:
        if dry_run:
            _print_plan(snapshots_take.plan(request), output)
            return
        taken = snapshots_take.take(request)
        if wait:
            with show_progress(f"storing {taken.snapshot_set.id}") as tick:
                wait_for_set(request.service, taken.snapshot_set, tick)
    say_each("note", taken.notes)
    times = {"locked_ms": round(taken.locked_ms, 1), "frozen_ms": round(taken.frozen_ms, 1)}
    document = taken.snapshot_set.to_dict() | times
    columns = (*SET_COLUMNS, "locked_ms")
    print_answer(document, output, [document], columns, lambda: (format_pairs(_list_set_facts(taken)),))


@contextmanager
def _open_request(
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: str,
    name: str | None,
    options: targets.SnapshotSettings,
) -> Iterator[SnapshotRequest]:
    """Yields the request for a snapshot set of a server: of the lab by its name, of EC2 by its
    address. Raises InputError, NoLab."""
    if "://" in server or ec2.on == "ec2":
        address = password.read_address(server)
        with replace(ec2, on="ec2").open(place) as service:
            yield targets.make_ec2_request(address, service, name, **options)
        return
    if name is not None:
        raise InputError(f"--name {name[:60]}", "is for a server at an address", "", "A server of the lab has its own.")
    with place.open() as lab:
        yield targets.make_lab_request(lab, server, **options)


def _list_set_facts(taken: TakenSet) -> list[tuple[str, object]]:
    """Returns names and values of a snapshot set that was just taken; times of its locks in ms."""
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


def wait_for_set(service: VolumeService, taken: SnapshotSet, tick: Callable[[float], None]) -> None:
    """Waits until all snapshots of a set that was just taken are stored. Raises CouldNotRun."""
    ids = {snapshot.id for snapshot in taken.snapshots}

    def read_states() -> list[str]:
        return [snapshot.state for snapshot in service.list_stored() if snapshot.id in ids]

    wait_until(lambda: len(read_states()) == len(ids), service.listed_within_s, services.LOOK_EVERY_S)
    while True:
        states = read_states()
        if len(states) < len(ids) or "error" in states:
            raise CouldNotRun(taken.id, "could not be stored", "", "See headrace snapshot sets.")
        done = states.count("completed")
        if done == len(ids):
            return
        tick(done / len(ids))
        time.sleep(service.look_every_s)


def _print_plan(prepared: SnapshotScope, output: str) -> None:
    """Prints which volumes a snapshot set would have, and that nothing was done."""
    rows = [
        {"volume": member.id, "spec": member.spec, "filesystem": use["place"], "kind": use["kind"]}
        for member, use in prepared.members
    ]
    print_rows(rows, output, ("volume", "spec", "filesystem", "kind"), "Nothing was done.")


@app.command("sets")
def list_sets(
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[str | None, make_option("NAME", "Only sets of this server.")] = None,
    output: OutputOption = "table",
) -> None:
    """List the snapshot sets, and what is wrong with those that are not whole."""
    with ec2.open(place) as service:
        snapshot_sets = _list_sets(service, server)
    rows = [snapshot_set.to_dict() for snapshot_set in snapshot_sets]
    cells = [
        (
            snapshot_set.id,
            snapshot_set.server,
            snapshot_set.taken_at,
            str(snapshot_set.size_gib),
            snapshot_set.gtid or snapshot_set.position,
            _describe_state(snapshot_set),
        )
        for snapshot_set in snapshot_sets
    ]
    columns = ("set", "server", "instant", "GiB", "GTID", "state")
    print_answer(rows, output, rows, SET_COLUMNS, lambda: (make_table(columns, cells, right=("GiB",)),))


def _list_sets(service: VolumeService, server: str | None) -> list[SnapshotSet]:
    """Returns the snapshot sets of a server, None: of all servers."""
    return [chosen for chosen in sets.build_sets(service.list_stored()) if server in (None, chosen.server)]


def _describe_state(snapshot_set: SnapshotSet) -> str:
    """Returns the state of a set in words: whole, being stored, or what is wrong with it."""
    if snapshot_set.problems:
        return f"not whole: {'; '.join(snapshot_set.problems)}"
    return "whole" if snapshot_set.stored else "being stored"


@app.command()
def restore(
    *,
    chosen: SetArgument,
    place: LabPlace,
    ec2: Ec2Options,
    name: Annotated[
        str | None, make_option("NAME", "Name of the restored server, or prefix for the restored volumes.")
    ] = None,
    volumes: Annotated[bool, make_flag("--volumes", "Make only the volumes, no server.")] = False,
    storage: Annotated[str | None, make_option("SPEC", "Other data volumes, not smaller.")] = None,
    log_storage: Annotated[str | None, make_option("SPEC", "Another log volume, not smaller.")] = None,
    memory_gib: Annotated[
        float | None, make_option("GIB", "Memory of the restored server in GiB. Default: as before.")
    ] = None,
    port: Annotated[int | None, make_option("PORT", "Also listen at 127.0.0.1, with TLS.")] = None,
    zone: Annotated[
        str | None, make_option("ZONE", "Availability Zone of the new volumes (EC2 only). Default: as before.")
    ] = None,
    warm: Annotated[bool, make_flag("--warm", "Load all blocks afterwards, the most needed first, and wait.")] = False,
    output: OutputOption = "table",
) -> None:
    """Make a new server, or volumes, from a snapshot set."""
    with ec2.open(place, zone) as service:
        snapshot_set = sets.choose_set(sets.build_sets(service.list_stored()), chosen)
        prefix = name or f"{snapshot_set.server[:20]}-restored"
        if volumes or ec2.on == "ec2":
            restored = snapshots_restore.restore_volumes(service, snapshot_set, prefix, storage)
            _print_volumes(restored, output)
            return
    with place.open() as lab, show_progress(f"restoring {snapshot_set.id}") as tick:
        server = snapshots_restore.restore_server(
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
    document = server.to_dict() | {"set": snapshot_set.id, "gtid": snapshot_set.gtid}
    columns = ("name", "set", "gtid", "address")
    facts = [
        ("server", server.name),
        ("set", snapshot_set.id),
        ("GTID", snapshot_set.gtid),
        ("address", document["address"]),
    ]
    print_answer(document, output, [document], columns, lambda: (format_pairs(facts),))


def _print_volumes(restored: list[RestoredVolume], output: str) -> None:
    """Prints the volumes that were made from a set, and on stderr how to go on."""
    rows = [
        {"volume": volume.volume, "snapshot": volume.snapshot, "place": volume.place, "spec": volume.spec}
        for volume in restored
    ]
    print_rows(rows, output, ("volume", "snapshot", "place", "spec"))
    say("Attach them, then:")
    for line in snapshots_restore.list_next_steps(restored):
        say(f"  {line}")


@app.command()
def prune(
    *,
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[
        str | None, make_option("NAME", "Only sets of this server. Default: those of all servers.")
    ] = None,
    keep: Annotated[int | None, make_option("N", "Keep the newest N of each server.", min=1)] = None,
    keep_for: Annotated[str | None, make_option("TIME", "Keep sets younger than this: 12h, 7d, 4w (lab time).")] = None,
    dry_run: Annotated[bool, make_flag("--dry-run", "Say which sets would be deleted; delete nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Delete old snapshot sets, never the last whole one of a server."""
    with ec2.open(place) as service:
        snapshot_sets = _list_sets(service, server)
        if server is not None and not snapshot_sets:
            raise InputError(f"--server {server[:60]}", "has no snapshot sets", "", "See headrace snapshot sets.")
        now = service.get_time()
        keep_for_s = None if keep_for is None else read_span(keep_for, "--keep-for")
        verdicts = retention.judge_servers(snapshot_sets, now, keep, keep_for_s)
        to_delete = [verdict for verdict in verdicts if verdict.goes]
        failures: dict[str, str] = {}
        if to_delete and not dry_run:
            confirm(yes, f"Delete {len(to_delete)} sets?", f"{len(to_delete)} sets", "are deleted")
            failures = retention.prune(service, verdicts)
    verdicts = [
        replace(verdict, goes=False, why=f"not deleted: {failures[verdict.chosen.id]}")
        if verdict.chosen.id in failures
        else verdict
        for verdict in verdicts
    ]
    rows = [verdict.to_dict() for verdict in verdicts]
    columns = ("id", "server", "taken_at", "goes", "why")
    fate = "goes" if dry_run else "deleted"
    cells = [(row["id"], row["server"], row["taken_at"], fate if row["goes"] else "stays", row["why"]) for row in rows]
    print_answer(rows, output, rows, columns, lambda: (make_table(("set", "server", "instant", "", "why"), cells),))
    if failures:
        raise CouldNotRun("prune", f"not deleted: {'; '.join(failures.values())}", "", "A locked snapshot stays.")


def list_place_options(place: LabPlace) -> list[str]:
    """Returns the options --lab and --socket of a command for the same lab, as far as they were
    given."""
    options = [] if place.data_dir is None else ["--lab", str(place.data_dir.absolute())]
    return options + ([] if place.socket is None else ["--socket", str(place.socket.absolute())])


# --- snapshots of volumes -------------------------------------------------------------------------


COLUMNS = ("id", "volume", "size_gib", "state", "progress_percent", "started_at", "completed_at", "stored_bytes", "full_bytes", "encrypted", "description")  # fmt: skip
Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Id.")]


def _format_mib(count: int) -> str:
    return f"{format_number(count / 2**20)} MiB"


def _build_snapshot_table(rows: Sequence[calls.Snapshot]) -> Table:
    """Returns snapshots as a table; stored and full sizes in MiB."""
    cells = [
        (
            row["id"],
            row["volume"] or row["source"],
            format_number(row["size_gib"]),
            row["state"] if row["state"] != "pending" else f"pending {row['progress_percent']} %",
            row["started_at"],
            _format_mib(row["blocks"]["stored_bytes"]),
            _format_mib(row["blocks"]["full_bytes"]),
            row["description"],
        )
        for row in rows
    ]
    columns = ("snapshot", "of", "GiB", "state", "instant", "stored", "in all", "description")
    return make_table(columns, cells, right=("GiB", "stored", "in all"))


def _print_snapshots(rows: Sequence[calls.Snapshot], output: str) -> None:
    print_answer(
        rows, output, [dict(row) | dict(row["blocks"]) for row in rows], COLUMNS, lambda: (_build_snapshot_table(rows),)
    )


@app.command()
def create(
    volumes: Annotated[
        list[str], typer.Argument(metavar="VOL...", help="Ids or names.", autocompletion=complete_volume)
    ],
    place: LabPlace,
    description: Annotated[str | None, make_option("TEXT", "At most 255 characters.")] = None,
    tag: TagOption = None,
    copy_tags: Annotated[bool, make_flag("--copy-tags", "Give the snapshots the tags of their volumes too.")] = False,
    wait: WaitOption = False,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot of volumes as they are now: all of one instant."""
    snapshot_tags = read_tags(tag)
    with place.open() as lab:
        snapshots = lab.create_snapshots(volumes, description, snapshot_tags or None, copy_tags)
        if wait:
            snapshots = [_wait_completed(lab, snapshot["id"]) for snapshot in snapshots]
    _print_snapshots(snapshots, output)


def _wait_completed(lab: Lab, snapshot: str) -> calls.Snapshot:
    """Waits until a snapshot is stored, and returns it; shows a progress bar."""
    with show_progress(f"storing {snapshot}") as tick:
        return waiting.wait_for_snapshot(lab, snapshot, tick)


@app.command("list")
def list_snapshots(
    place: LabPlace,
    snapshot: Annotated[
        str | None, typer.Argument(metavar="[SNAPSHOT]", help="One snapshot, in detail. Default: all.")
    ] = None,
    volume: Annotated[
        str | None, make_option("VOL", "Only snapshots of this volume.", autocompletion=complete_volume)
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List the snapshots of the lab; of one: size, what is stored, its lock and schedule."""
    if snapshot is not None and volume is not None:
        raise InputError(f"{snapshot} and --volume", "name one snapshot, and several", "", "Give one of them.")
    with place.open() as lab:
        if snapshot is not None:
            details = lab.describe_snapshot(snapshot)
            print_answer(
                details,
                output,
                [dict(details) | dict(details["blocks"])],
                COLUMNS,
                lambda: (format_pairs(_list_facts(details)),),
            )
            return
        rows = lab_client.list_all_snapshots(lab, volume)
    _print_snapshots(sorted(rows, key=lambda row: row["started_at"]), output)


def _print_bin(lab: Lab, output: str) -> None:
    """Prints the snapshots in the recycle bin."""
    rows = [dict(row) | dict(row["bin"] or {}) for row in lab_client.list_all_snapshots(lab, bin=True)]
    columns = ("id", "volume", "entered_at", "exit_at", "rule", "description")
    print_rows(rows, output, columns)


def _list_facts(snapshot: calls.Snapshot) -> list[tuple[str, object]]:
    """Returns names and values of a snapshot for a person."""
    lock = snapshot["lock"]
    return [
        ("snapshot", snapshot["id"]),
        ("of", snapshot["volume"] or snapshot["copy_of"] or snapshot["source"]),
        ("size", f"{format_number(snapshot['size_gib'])} GiB"),
        ("state", snapshot["state"]),
        ("why", snapshot["error"]),
        ("instant", snapshot["started_at"]),
        ("completed", snapshot["completed_at"]),
        (
            "stored",
            f"{_format_mib(snapshot['blocks']['stored_bytes'])} of {_format_mib(snapshot['blocks']['full_bytes'])}",
        ),
        ("uses blocks of", snapshot["parent"]),
        ("key", snapshot["kms_key"]),
        ("lock", lock and f"{lock['state']} until {lock['expires_at']}"),
        ("schedule", snapshot["schedule"]),
        ("tags", format_tags(snapshot["tags"])),
        ("description", snapshot["description"]),
    ]


@app.command()
def delete(snapshot: Snapshot, place: LabPlace, yes: YesOption = False) -> None:
    """Delete a snapshot, or move it to the recycle bin. Others keep the blocks they need."""
    with place.open() as lab:
        details = lab.describe_snapshot(snapshot)
        chosen = (details["tags"] or {}).get(sets.SET)
        also = "" if chosen is None else f" The snapshot set {chosen} is not whole without it."
        confirm(yes, f"Delete {snapshot} of {details['started_at']}?{also}", snapshot, "would be deleted")
        lab.delete_snapshot(snapshot)
    say(f"{snapshot}: deleted")


@app.command()
def copy(
    *,
    snapshot: Snapshot,
    place: LabPlace,
    lab_dir: Annotated[
        Path | None, make_option("DIR", "Directory of another lab on this machine that has the snapshot.", "--from-lab")
    ] = None,
    store: Annotated[str | None, make_option("URL", "Object store of another lab that has the snapshot.")] = None,
    region: Annotated[
        str | None, make_option("REGION", "Region that has the snapshot: see `headrace snapshot region`.")
    ] = None,
    description: Annotated[str | None, make_option("TEXT", "Default: that of the source.")] = None,
    encrypted: Annotated[bool, make_flag("--encrypted", "Encrypt the copy.")] = False,
    kms_key: Annotated[str | None, make_option("KEY", "Id, ARN or alias of the key.")] = None,
    wait: WaitOption = False,
    output: OutputOption = "table",
) -> None:
    """Copy a snapshot of this lab or of another one.

    An encrypted snapshot needs its KMS key: name the lab that has the key, or import the key first.
    """
    if lab_dir is not None:
        if store is not None or region is not None:
            raise InputError(str(lab_dir), "is one place, and another one is named too", "", "Give one of them.")
        store = f"lab://{lab_dir.absolute()}"
    with place.open() as lab:
        copied = lab.copy_snapshot(
            snapshot, store=store, region=region, encrypted=encrypted or None, kms_key=kms_key, description=description
        )
        copied = _wait_completed(lab, copied["id"]) if wait else copied
    _print_snapshots([copied], output)


@app.command("modify")
def modify_snapshot(
    *,
    snapshot: Snapshot,
    place: LabPlace,
    lock_days: Annotated[
        int | None, make_option("DAYS", "Lock it against deletion for this many days.", min=1, max=36_500)
    ] = None,
    lock_mode: Annotated[
        Literal["governance", "compliance"], make_choice("Mode of the lock; governance can be unlocked.")
    ] = "governance",
    cool_off: Annotated[
        int | None, make_option("HOURS", "Hours during which a compliance lock can still be removed.", min=1)
    ] = None,
    unlock: Annotated[bool, make_flag("--unlock", "Remove the lock.")] = False,
    fast_restore: Annotated[
        bool | None,
        make_flag(
            "--fast-restore/--no-fast-restore",
            "Fast snapshot restore: volumes from it are not slow at first touch, as credits allow. Default: as it is.",
        ),
    ] = None,
) -> None:
    """Change a snapshot's lock or its fast restore."""
    if (lock_days is None, unlock, fast_restore) == (True, False, None):
        hint = "Give --lock-days, --unlock or --fast-restore."
        raise InputError(snapshot, "has no change named", "headrace snapshot modify --help", hint)
    if lock_days is not None and unlock:
        raise InputError("--lock-days and --unlock", "exclude each other", "", "Give one of them.")
    with place.open() as lab:
        if unlock:
            lab.unlock_snapshot(snapshot)
            say(f"{snapshot}: unlocked")
        if lock_days is not None:
            lock = lab.lock_snapshot(snapshot, lock_mode, duration_days=lock_days, cool_off_hours=cool_off)["lock"]
            say(f"{snapshot}: {lock['state']} until {lock['expires_at']}" if lock else snapshot)
        if fast_restore is not None:
            _set_fast_restore(lab, snapshot, fast_restore)


def _set_fast_restore(lab: Lab, snapshot: str, enabled: bool) -> None:
    """Switches fast restore on or off. Raises InputError where that is refused."""
    answer = lab.set_fast_restore([snapshot], enabled)
    for failure in answer["failures"]:
        raise InputError(snapshot, failure["message"])
    for zone_state in answer["fast_restores"]:
        say(
            f"{snapshot}: {zone_state['state']} in {zone_state['zone']}, {zone_state['credits']:.1f} of {zone_state['credits_max']} credits"
        )


@app.command()
def recover(
    place: LabPlace,
    snapshot: Annotated[
        str | None, typer.Argument(metavar="[SNAPSHOT]", help="Id. Default: list the recycle bin.")
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot out of the recycle bin. Without one: list the bin."""
    with place.open() as lab:
        if snapshot is None:
            return _print_bin(lab, output)
        lab.recover_snapshot(snapshot)
    say(f"{snapshot}: recovered")


@app.command()
def rule(
    place: LabPlace,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the rule. Default: list the rules.")
    ] = None,
    days: Annotated[
        int | None, make_option("DAYS", "Days that deleted snapshots stay in the bin.", min=1, max=365)
    ] = None,
    tag: Annotated[list[str] | None, make_option("K=V", "Only snapshots with one of these tags. Repeatable.")] = None,
    remove: Annotated[bool, make_flag("--remove", "Remove the rule.")] = False,
    output: OutputOption = "table",
) -> None:
    """Add, change or remove a rule of the recycle bin. Without a name: list the rules."""
    _check_setting(name, days is not None, remove, "a rule has --days")
    with place.open() as lab:
        if name is None:
            return _print_rules(lab, output)
        if remove:
            lab.delete_retention_rule(name)
        else:
            lab.set_retention_rule(name, days or 0, read_tags(tag) or None)
    say(f"{name}: {'removed' if remove else f'keeps deleted snapshots for {days} days'}")


def _check_setting(name: str | None, is_set: bool, remove: bool, rule: str) -> None:
    """Refuses a named setting that is neither set nor removed, or both, and one without a name.
    Raises InputError."""
    if name is None and (is_set or remove):
        raise InputError("NAME", "is missing", "headrace snapshot --help", "Name what is set or removed.")
    if name is not None and remove == is_set:
        raise InputError(name, f"{rule}, or goes with --remove", "", "Give one of the two.")


def _print_rules(lab: Lab, output: str) -> None:
    """Prints the retention rules of the recycle bin, with their days."""
    retention_rules = lab.retention_rules()
    cells = [(rule["name"], rule["days"], format_tags(rule["tags"])) for rule in retention_rules]
    rows = [dict(rule) for rule in retention_rules]
    print_answer(rows, output, rows, ("name", "days"), lambda: (make_table(("rule", "days", "tags"), cells),))


@app.command()
def schedule(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the schedule. Default: list the schedules.")
    ] = None,
    place: LabPlace,
    tag: Annotated[list[str] | None, make_option("K=V", "Volumes with one of these tags. Repeatable.")] = None,
    every: Annotated[str | None, make_option("TIME", "Lab time between two runs: 60s, 12h, 1d.")] = None,
    keep: Annotated[int | None, make_option("N", "Snapshots of each volume that are kept.", min=1)] = None,
    keep_days: Annotated[int | None, make_option("DAYS", "Days that snapshots are kept.", min=1)] = None,
    copy_tags: Annotated[bool, make_flag("--copy-tags", "Snapshots get the tags of their volumes.")] = False,
    remove: Annotated[bool, make_flag("--remove", "Remove the schedule; its snapshots stay.")] = False,
    output: OutputOption = "table",
) -> None:
    """Add, change or remove a schedule. Without a name: list the schedules."""
    _check_setting(name, every is not None, remove, "a schedule has --every")
    with place.open() as lab:
        if name is None:
            return _print_schedules(lab, output)
        if remove:
            lab.delete_schedule(name)
        else:
            lab.set_schedule(
                name,
                int(read_span(every or "", "--every", least_s=0.0)),
                target_tags=read_tags(tag),
                keep=keep,
                keep_days=keep_days,
                copy_tags=copy_tags,
            )
    say(f"{name}: {'removed' if remove else 'set'}")


def _print_schedules(lab: Lab, output: str) -> None:
    """Prints the schedules; intervals in seconds."""
    rows = [dict(row) for row in lab.schedules()]
    columns = ("name", "interval_s", "keep", "keep_days", "enabled", "next_at", "last_at")
    print_rows(rows, output, columns)


@app.command()
def region(
    name: Annotated[str, typer.Argument(metavar="REGION", help="Name of the other region.")],
    place: LabPlace,
    url: Annotated[
        str | None, typer.Argument(metavar="[URL]", help="file:///FOLDER, s3://BUCKET/PREFIX or lab:///DATA-DIRECTORY.")
    ] = None,
) -> None:
    """Name another region: another lab, or its object store. Without a URL, forget it."""
    with place.open() as lab:
        lab.set_region(name, url)
    say(f"{name}: {url or 'forgotten'}")
