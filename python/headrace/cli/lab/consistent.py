"""`headrace snapshot take`, `sets`, `restore`, `prune`: snapshots of running servers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.lab.common import tags
from headrace.cli.options import LabPlace, OutputOption, PasswordOptions, YesOption, choice, flag, option
from headrace.cli.output import data, pairs, print_answer, progress, say, table
from headrace.cli.writing import FORCE_HELP
from headrace.errors import CouldNotRun, InputError

if TYPE_CHECKING:
    from headrace.operate.snapshots.restore import RestoredVolume
    from headrace.operate.snapshots.services import VolumeService
    from headrace.operate.snapshots.take import SnapshotRequest

COLUMNS = ("id", "server", "flavor", "version", "taken_at", "gtid", "position", "frozen_ms", "whole")
On = Literal["lab", "ec2"]
SetArgument = Annotated[str, typer.Argument(metavar="SET", help="Its id, latest, or latest:SERVER.")]


@dataclass(frozen=True, kw_only=True)
class Ec2Options:
    """Where snapshots are: in the lab or on EC2."""

    on: Annotated[On, choice("Where the volumes are.")] = "lab"
    profile: Annotated[str | None, option("NAME", "Of EC2: the profile of the AWS tools.")] = None
    region: Annotated[str | None, option("REGION", "Of EC2. Default: as the AWS tools find it.")] = None

    @contextmanager
    def open(self, place: LabPlace, zone: str | None = None) -> Iterator[VolumeService]:
        """The service. Raises NoLab, CouldNotRun, InputError."""
        from headrace.operate.snapshots.services import LabService

        if self.on == "ec2":
            from headrace.operate.snapshots.ec2 import Ec2Service

            yield Ec2Service(self.profile, self.region, zone)
            return
        if self.profile is not None or self.region is not None:
            raise InputError("--profile, --region", "are of EC2", "", "Add --on ec2.")
        with place.open() as lab:
            yield LabService(lab)


SERVER = "A server of the lab; or mysql://USER@... of one on this EC2 instance. Default: db."


def take(
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: Annotated[str, typer.Argument(metavar="[SERVER]", help=SERVER)] = "db",
    name: Annotated[str | None, option("NAME", "Of EC2: name of the server in the set. Default: of the host.")] = None,
    tag: Annotated[list[str] | None, option("K=V", "A tag. Repeatable.")] = None,
    description: Annotated[str, option("TEXT", "At most 255 characters.")] = "",
    wait_lock: Annotated[float, option("SECONDS", "Give up when the server's lock is not had by then.", min=1)] = 5.0,
    hold: Annotated[float, option("SECONDS", "Freeze no longer than this, whatever happens.", min=0.1)] = 10.0,
    no_lock: Annotated[bool, flag("--no-lock", "Leave the server's lock out: the position is then not known.")] = False,
    no_freeze: Annotated[bool, flag("--no-freeze", "Leave the freeze out.")] = False,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would be locked, frozen and taken; do nothing.")] = False,
    wait: Annotated[bool, flag("--wait", "Return when everything is stored.")] = False,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot of all volumes of a running server, with its commits held back and its
    filesystems frozen for a moment."""
    from headrace.operate.snapshots import take as taking

    options = {
        "tags": tags(tag),
        "description": description,
        "lock": not no_lock,
        "freeze": not no_freeze,
        "wait_lock_s": wait_lock,
        "hold_s": hold,
    }
    with _request(place, ec2, password, server, name, options) as request:
        if dry_run:
            _print_plan(taking.plan(request), output)
            return
        taken = taking.take(request)
        if wait:
            with progress(f"storing {taken.snapshot_set.id}") as tick:
                stored_set(request.service, taken.snapshot_set.id, tick)
    for note in taken.notes:
        say(f"note: {note}")
    rows = taken.snapshot_set.as_dict() | {
        "locked_ms": round(taken.locked_ms, 1),
        "frozen_ms": round(taken.frozen_ms, 1),
    }
    print_answer(rows, output, [rows], (*COLUMNS, "locked_ms"), lambda: (pairs(_facts(rows)),))


@contextmanager
def _request(
    place: LabPlace,
    ec2: Ec2Options,
    password: PasswordOptions,
    server: str,
    name: str | None,
    options: dict[str, Any],
) -> Iterator[SnapshotRequest]:
    """A server of the lab by its name, another one by its address."""
    from headrace.operate.snapshots.targets import ec2_request, lab_request

    if "://" in server or ec2.on == "ec2":
        address = password.read_address(server)
        with replace(ec2, on="ec2").open(place) as service:
            yield ec2_request(address, service, name, **options)
        return
    if name is not None:
        raise InputError(f"--name {name[:60]}", "is for a server at an address", "", "A server of the lab has its own.")
    with place.open() as lab:
        yield lab_request(lab, server, **options)


def _facts(row: dict[str, Any]) -> list[tuple[str, object]]:
    held = f"locked {row['locked_ms']} ms, frozen {row['frozen_ms']} ms"
    return [
        ("set", row["id"]),
        ("server", row["server"]),
        ("GTID", row["gtid"] or "none"),
        ("position", row["position"]),
        ("held", held),
        ("snapshots", ", ".join(f"{one['snapshot']} of {one['volume']}" for one in row["snapshots"])),
        ("restore", f"headrace snapshot restore {row['id']} --name NEW"),
    ]


# Between two looks at snapshots that are being stored, s: EC2 counts requests.
LOOK_EVERY_S = 1.0


def stored_set(service: VolumeService, name: str, tick: Callable[[float], None]) -> None:
    """Waits until all snapshots of a set are stored. Raises CouldNotRun."""
    from headrace.operate.snapshots.sets import sets_of

    while True:
        found = next((one for one in sets_of(service.stored()) if one.id == name), None)
        if found is None or any(one.state == "error" for one in found.snapshots):
            raise CouldNotRun(name, "could not be stored", "", "See headrace snapshot sets.")
        done = sum(one.state == "completed" for one in found.snapshots)
        if done == len(found.snapshots):
            return
        tick(done / len(found.snapshots))
        time.sleep(LOOK_EVERY_S)


def _print_plan(prepared: Any, output: str) -> None:
    rows = [
        {"volume": member.id, "spec": member.spec, "filesystem": use["place"], "kind": use["kind"]}
        for member, use in prepared.members
    ]
    columns = ("volume", "spec", "filesystem", "kind")
    cells = [[row[name] for name in columns] for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(columns, cells), "Nothing was done."))


def sets(
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[str | None, option("NAME", "Of this server alone.")] = None,
    output: OutputOption = "table",
) -> None:
    """List the snapshot sets, and what is wrong with those that are not whole."""
    from headrace.operate.snapshots.sets import sets_of

    with ec2.open(place) as service:
        found = [one for one in sets_of(service.stored()) if server is None or one.server == server]
    rows = [one.as_dict() for one in found]
    cells = [
        (one.id, one.server, one.taken_at, str(one.size_gib), one.gtid or one.position, _state(one)) for one in found
    ]
    columns = ("set", "server", "instant", "GiB", "GTID", "state")
    print_answer(rows, output, rows, COLUMNS, lambda: (table(columns, cells, right=("GiB",)),))


def _state(one: Any) -> str:
    if one.problems:
        return f"not whole: {'; '.join(one.problems)}"
    return "whole" if one.stored else "being stored"


def restore(
    chosen: SetArgument,
    place: LabPlace,
    ec2: Ec2Options,
    name: Annotated[str | None, option("NAME", "Of the new server, or the beginning of the volumes' names.")] = None,
    volumes: Annotated[bool, flag("--volumes", "Make the volumes alone, no server.")] = False,
    storage: Annotated[str | None, option("SPEC", "Other data volumes, not smaller.")] = None,
    log_storage: Annotated[str | None, option("SPEC", "Another log volume, not smaller.")] = None,
    memory_gib: Annotated[float | None, option("GIB", "Memory of the new server. Default: as it was.")] = None,
    port: Annotated[int | None, option("PORT", "Also listen at 127.0.0.1, with TLS.")] = None,
    zone: Annotated[str | None, option("ZONE", "Of EC2: of the new volumes. Default: as they were.")] = None,
    warm: Annotated[bool, flag("--warm", "Then load its blocks, in order of need, and wait.")] = False,
    output: OutputOption = "table",
) -> None:
    """Make a new server, or volumes, from a snapshot set."""
    from headrace.operate.snapshots import restore as restoring
    from headrace.operate.snapshots import sets as known

    with ec2.open(place, zone) as service:
        found = known.chosen(known.sets_of(service.stored()), chosen)
        prefix = name or f"{found.server[:20]}-restored"
        if volumes or ec2.on == "ec2":
            made = restoring.to_volumes(service, found, prefix, storage)
            _print_volumes(made, output)
            return
    with place.open() as lab, progress(f"restoring {found.id}") as tick:
        server = restoring.to_server(
            lab,
            found,
            prefix,
            storage=storage,
            log_storage=log_storage,
            memory_gib=memory_gib,
            port=port,
            progress=lambda share, what: tick(share),
        )
        if warm:
            from headrace.operate.snapshots.warming import warm_server

            loaded = warm_server(server, lambda share, what: tick(share))
            say(f"loaded {loaded / 2**20:,.0f} MiB in order of need")
    rows = server.as_dict() | {"set": found.id, "gtid": found.gtid}
    facts = [("server", server.name), ("set", found.id), ("GTID", found.gtid), ("address", rows["address"])]
    print_answer(rows, output, [rows], ("name", "set", "gtid", "address"), lambda: (pairs(facts),))


def _print_volumes(made: list[RestoredVolume], output: str) -> None:
    from headrace.operate.snapshots.restore import next_steps

    rows = [{"volume": one.volume, "snapshot": one.snapshot, "place": one.place, "spec": one.spec} for one in made]
    columns = ("volume", "snapshot", "place", "spec")
    cells = [[row[name] for name in columns] for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(columns, cells),))
    say("Attach them, then:")
    for line in next_steps(made):
        say(f"  {line}")


def prune(
    place: LabPlace,
    ec2: Ec2Options,
    server: Annotated[str | None, option("NAME", "Sets of this server alone. Default: of each server.")] = None,
    keep: Annotated[int | None, option("N", "Keep the newest N of each server.", min=1)] = None,
    keep_for: Annotated[str | None, option("TIME", "Keep what is younger: 12h, 7d, 4w (lab time).")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Say what would go; delete nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Delete old snapshot sets, never the last whole one of a server."""
    from headrace.operate.snapshots import retention
    from headrace.operate.snapshots.sets import sets_of

    with ec2.open(place) as service:
        found = [one for one in sets_of(service.stored()) if server is None or one.server == server]
        if server is not None and not found:
            raise InputError(f"--server {server[:60]}", "has no snapshot sets", "", "See headrace snapshot sets.")
        now = service.now()
        keep_for_s = None if keep_for is None else retention.seconds(keep_for, "--keep-for")
        verdicts = [
            verdict
            for name in sorted({one.server for one in found} or {""})
            for verdict in retention.judge([one for one in found if one.server == name], now, keep, keep_for_s)
        ]
        going = [one for one in verdicts if one.goes]
        rows = [one.as_dict() for one in verdicts]
        if going and not dry_run:
            _ask(len(going), yes)
            for name in sorted({one.chosen.server for one in going}):
                kept = retention.prune(service, [one for one in verdicts if one.chosen.server == name])
                if kept:
                    raise CouldNotRun("prune", f"not deleted: {'; '.join(kept)}", "", "A locked snapshot stays.")
    columns = ("id", "server", "taken_at", "goes", "why")
    said = "goes" if dry_run else "deleted"
    cells = [(row["id"], row["server"], row["taken_at"], said if row["goes"] else "stays", row["why"]) for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(("set", "server", "instant", "", "why"), cells),))


def _ask(count: int, yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise InputError(f"{count} sets", "are deleted, and nobody can be asked here", "", "Say --yes.")
    if not yes and not typer.confirm(f"Delete {count} sets?", err=True):
        say("nothing was deleted")
        raise typer.Exit(1)


def every(
    server: Annotated[str, typer.Argument(metavar="SERVER", help=SERVER)],
    interval: Annotated[str, typer.Argument(metavar="TIME", help="Between two runs: 15m, 6h, 1d.")],
    place: LabPlace,
    ec2: Ec2Options,
    name: Annotated[str | None, option("NAME", "Of EC2: name of the server in its sets.")] = None,
    defaults_file: Annotated[Path | None, option("FILE", "Of EC2: option file with the account's password.")] = None,
    keep: Annotated[int | None, option("N", "Afterwards keep the newest N.", min=1)] = None,
    keep_for: Annotated[str | None, option("TIME", "Afterwards keep what is younger.")] = None,
    into: Annotated[Path | None, option("DIR", "Write the units there, such as /etc/systemd/system.", "--into")] = None,
    force: Annotated[bool, flag("--force", FORCE_HELP)] = False,
) -> None:
    """Print or write a systemd service and timer that take snapshot sets on a schedule."""
    from headrace.base.files import check_output, write_whole
    from headrace.operate.snapshots import retention

    known, take_words = server, ["snapshot", "take", server]
    where = place_words(place)
    if "://" in server or ec2.on == "ec2":
        if name is None:
            raise InputError(server, "is an address, and its sets need a name", "", "Add --name.")
        known, given = name, {"--profile": ec2.profile, "--region": ec2.region}
        where = ["--on", "ec2", *(word for key, value in given.items() if value for word in (key, value))]
        take_words += ["--name", name]
        take_words += [] if defaults_file is None else ["--defaults-file", str(defaults_file.absolute())]
    prune_words = None
    if keep is not None or keep_for is not None:
        if keep_for is not None:
            retention.seconds(keep_for, "--keep-for")
        kept = [*(["--keep", str(keep)] if keep else []), *(["--keep-for", keep_for] if keep_for else [])]
        prune_words = ["snapshot", "prune", "--server", known, *kept, "--yes", *where]
    every_s = retention.seconds(interval, "every")
    program = [sys.executable, "-m", "headrace"]
    made = retention.units(known, program, [*take_words, *where], prune_words, every_s)
    timer = next(name for name in made if name.endswith(".timer"))
    if into is None:
        for file, text in made.items():
            data(f"# {file}\n{text}\n")
        return
    if not into.is_dir():
        raise InputError(str(into), "is not a folder", "", "On most systems: /etc/systemd/system.")
    for file in made:
        check_output("--into", into / file, force=force)
    for file, text in made.items():
        write_whole(into / file, text.encode())
        say(f"wrote {into / file}")
    say(f"then: systemctl daemon-reload && systemctl enable --now {timer}")


def place_words(place: LabPlace) -> list[str]:
    """The options that find the same lab again."""
    words = [] if place.data_dir is None else ["--data-dir", str(place.data_dir.absolute())]
    return words + ([] if place.socket is None else ["--socket", str(place.socket.absolute())])


def add_to(app: Any) -> None:
    """Registers them as commands of `headrace snapshot`."""
    for function in (take, sets, restore, prune, every):
        app.command(function.__name__)(function)
