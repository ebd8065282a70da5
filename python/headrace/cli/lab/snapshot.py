"""`headrace snapshot`: snapshots of volumes, their copies, locks, schedules and the recycle bin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.lab import consistent
from headrace.cli.lab.common import number, tags
from headrace.cli.lazy import lazily
from headrace.cli.options import CommandGroup, LabPlace, OutputOption, YesOption, choice, complete_volume, flag, option
from headrace.cli.output import confirm, pairs, print_answer, print_rows, progress, say, table
from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.lab import Lab, calls
    from headrace.report.view import Table

with lazily():
    from headrace.lab import pages, waiting
    from headrace.operate.snapshots import sets

EPILOG = """\b
Examples:
  sudo $(command -v headrace) snapshot take db                    a running server: locked, frozen, all volumes of one instant
  sudo $(command -v headrace) snapshot restore latest:db --name db2
  headrace snapshot prune --keep 7 --keep-for 4w --dry-run
  headrace snapshot create db --wait                volumes as they are
  headrace snapshot create data log                 both of one instant
  headrace volume create gp3:100 --snapshot snap-0123456789abcdef0 --name copy
  headrace snapshot schedule daily --tag backup=daily --every 1d --keep 7
  headrace snapshot rule kept --days 7              deleted snapshots stay in the recycle bin

The lab must be up: headrace lab up."""

app = CommandGroup("Take, restore, copy, lock, schedule and delete snapshots of servers and volumes.", EPILOG)
consistent.add_to(app)
COLUMNS = ("id", "volume", "size_gib", "state", "progress_percent", "started_at", "completed_at", "stored_bytes", "full_bytes", "encrypted", "description")  # fmt: skip
Snapshot = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="Id.")]
# Seconds of the units in which an interval is written.
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text.strip())
    if match is None:
        raise InputError(f"--every {text[:40]}", "is a number of seconds, or one with s, m, h or d", "", "Such as 12h.")
    return int(match[1]) * UNITS[match[2] or "s"]


def _mib(count: int) -> str:
    return f"{number(count / 2**20)} MiB"


def _table(rows: Sequence[calls.Snapshot]) -> Table:
    cells = [
        (
            row["id"],
            row["volume"] or row["source"],
            number(row["size_gib"]),
            row["state"] if row["state"] != "pending" else f"pending {row['progress_percent']} %",
            row["started_at"],
            _mib(row["blocks"]["stored_bytes"]),
            _mib(row["blocks"]["full_bytes"]),
            row["description"],
        )
        for row in rows
    ]
    columns = ("snapshot", "of", "GiB", "state", "instant", "stored", "in all", "description")
    return table(columns, cells, right=("GiB", "stored", "in all"))


def _print(rows: Sequence[calls.Snapshot], output: str) -> None:
    print_answer(rows, output, [dict(row) | dict(row["blocks"]) for row in rows], COLUMNS, lambda: (_table(rows),))


@app.command()
def create(
    volumes: Annotated[
        list[str], typer.Argument(metavar="VOL...", help="Ids or names.", autocompletion=complete_volume)
    ],
    place: LabPlace,
    description: Annotated[str | None, option("TEXT", "At most 255 characters.")] = None,
    tag: Annotated[list[str] | None, option("K=V", "A tag. Repeatable.")] = None,
    copy_tags: Annotated[bool, flag("--copy-tags", "Give the snapshots the tags of their volumes too.")] = False,
    wait: Annotated[bool, flag("--wait", "Return when everything is stored.")] = False,
    output: OutputOption = "table",
) -> None:
    """Take a snapshot of volumes as they are now: all of one instant."""
    snapshot_tags = tags(tag)
    with place.open() as lab:
        snapshots = lab.create_snapshots(volumes, description, snapshot_tags or None, copy_tags)
        if wait:
            snapshots = [_wait_completed(lab, snapshot["id"]) for snapshot in snapshots]
    _print(snapshots, output)


def _wait_completed(lab: Lab, snapshot: str) -> calls.Snapshot:
    with progress(f"storing {snapshot}") as tick:
        return waiting.stored(lab, snapshot, tick)


@app.command("list")
def list_snapshots(
    place: LabPlace,
    snapshot: Annotated[
        str | None, typer.Argument(metavar="[SNAPSHOT]", help="One snapshot, in detail. Default: all.")
    ] = None,
    volume: Annotated[
        str | None, option("VOL", "Only snapshots of this volume.", autocompletion=complete_volume)
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
                details, output, [dict(details) | dict(details["blocks"])], COLUMNS, lambda: (pairs(_facts(details)),)
            )
            return
        rows = pages.all_snapshots(lab, volume)
    _print(sorted(rows, key=lambda row: row["started_at"]), output)


def _print_bin(lab: Lab, output: str) -> None:
    """Prints the snapshots in the recycle bin."""
    rows = [dict(row) | dict(row["bin"] or {}) for row in pages.all_snapshots(lab, bin=True)]
    columns = ("id", "volume", "entered_at", "exit_at", "rule", "description")
    print_rows(rows, output, columns)


def _facts(snapshot: calls.Snapshot) -> list[tuple[str, object]]:
    lock = snapshot["lock"]
    return [
        ("snapshot", snapshot["id"]),
        ("of", snapshot["volume"] or snapshot["copy_of"] or snapshot["source"]),
        ("size", f"{number(snapshot['size_gib'])} GiB"),
        ("state", snapshot["state"]),
        ("why", snapshot["error"]),
        ("instant", snapshot["started_at"]),
        ("completed", snapshot["completed_at"]),
        ("stored", f"{_mib(snapshot['blocks']['stored_bytes'])} of {_mib(snapshot['blocks']['full_bytes'])}"),
        ("uses blocks of", snapshot["parent"]),
        ("key", snapshot["kms_key"]),
        ("lock", lock and f"{lock['state']} until {lock['expires_at']}"),
        ("schedule", snapshot["schedule"]),
        ("tags", ", ".join(f"{key}={value}" for key, value in (snapshot["tags"] or {}).items())),
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
        Path | None, option("DIR", "Directory of another lab on this machine that has the snapshot.", "--from-lab")
    ] = None,
    store: Annotated[str | None, option("URL", "Object store of another lab that has the snapshot.")] = None,
    region: Annotated[
        str | None, option("REGION", "Region that has the snapshot: see `headrace snapshot region`.")
    ] = None,
    description: Annotated[str | None, option("TEXT", "Default: that of the source.")] = None,
    encrypted: Annotated[bool, flag("--encrypted", "Encrypt the copy.")] = False,
    kms_key: Annotated[str | None, option("KEY", "Id, ARN or alias of the key.")] = None,
    wait: Annotated[bool, flag("--wait", "Return when everything is stored.")] = False,
    output: OutputOption = "table",
) -> None:
    """Copy a snapshot of this lab or of another one.

    The key of an encrypted snapshot is in its own lab: name the lab, not its store.
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
    _print([copied], output)


@app.command("modify")
def modify_snapshot(
    *,
    snapshot: Snapshot,
    place: LabPlace,
    lock_days: Annotated[
        int | None, option("DAYS", "Lock it against deletion for this many days.", min=1, max=36_500)
    ] = None,
    lock_mode: Annotated[
        Literal["governance", "compliance"], choice("Mode of the lock; governance can be unlocked.")
    ] = "governance",
    cool_off: Annotated[
        int | None, option("HOURS", "Hours during which a compliance lock can still be removed.", min=1)
    ] = None,
    unlock: Annotated[bool, flag("--unlock", "Take the lock away.")] = False,
    fast_restore: Annotated[
        bool | None,
        flag(
            "--fast-restore/--no-fast-restore",
            "Let volumes be made from it without first touch, as credits allow. Default: as it is.",
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
    days: Annotated[int | None, option("DAYS", "Days that deleted snapshots stay in the bin.", min=1, max=365)] = None,
    tag: Annotated[list[str] | None, option("K=V", "Only snapshots with one of these tags. Repeatable.")] = None,
    remove: Annotated[bool, flag("--remove", "Take the rule away.")] = False,
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
            lab.set_retention_rule(name, days or 0, tags(tag) or None)
    say(f"{name}: {'removed' if remove else f'keeps deleted snapshots for {days} days'}")


def _check_setting(name: str | None, is_set: bool, remove: bool, rule: str) -> None:
    """Refuses a named setting that is neither set nor removed, or both, and one without a name.
    Raises InputError."""
    if name is None and (is_set or remove):
        raise InputError("NAME", "is missing", "headrace snapshot --help", "Name what is set or removed.")
    if name is not None and remove == is_set:
        raise InputError(name, f"{rule}, or goes with --remove", "", "Give one of the two.")


def _print_rules(lab: Lab, output: str) -> None:
    retention_rules = lab.retention_rules()
    cells = [
        (rule["name"], rule["days"], ", ".join(f"{k}={v}" for k, v in (rule["tags"] or {}).items()))
        for rule in retention_rules
    ]
    rows = [dict(rule) for rule in retention_rules]
    print_answer(rows, output, rows, ("name", "days"), lambda: (table(("rule", "days", "tags"), cells),))


@app.command()
def schedule(
    *,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the schedule. Default: list the schedules.")
    ] = None,
    place: LabPlace,
    tag: Annotated[list[str] | None, option("K=V", "Volumes with one of these tags. Repeatable.")] = None,
    every: Annotated[str | None, option("TIME", "Lab time between two runs: 60s, 12h, 1d.")] = None,
    keep: Annotated[int | None, option("N", "Snapshots of each volume that are kept.", min=1)] = None,
    keep_days: Annotated[int | None, option("DAYS", "Days that snapshots are kept.", min=1)] = None,
    copy_tags: Annotated[bool, flag("--copy-tags", "Snapshots get the tags of their volumes.")] = False,
    remove: Annotated[bool, flag("--remove", "Take the schedule away; its snapshots stay.")] = False,
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
                _seconds(every or ""),
                target_tags=tags(tag),
                keep=keep,
                keep_days=keep_days,
                copy_tags=copy_tags,
            )
    say(f"{name}: {'removed' if remove else 'set'}")


def _print_schedules(lab: Lab, output: str) -> None:
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
