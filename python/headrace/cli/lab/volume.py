"""`headrace volume`: make, attach, change and delete the volumes of a lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer

from headrace.base.checks import read_percent
from headrace.base.options import AsOfText, list_given
from headrace.cli import INTERRUPTED
from headrace.cli.lab import faults, metrics
from headrace.cli.lab.common import (
    VOLUME_CSV,
    number,
    percent_cell,
    state_cell,
    tags,
    volume_csv,
    volumes_table,
)
from headrace.cli.lazy import lazily
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    Output,
    OutputOption,
    VolumeArgument,
    YesOption,
    choice,
    complete_storage,
    complete_volume,
    flag,
    option,
)
from headrace.cli.output import confirm, pairs, print_answer, progress, say, table
from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab
from headrace.lab.changes import ModificationSettings

if TYPE_CHECKING:
    from headrace.lab.calls import Attachment, LabVolume, Member
    from headrace.report.view import Table

with lazily():
    from headrace.base import storage as base_storage
    from headrace.lab import waiting
    from headrace.lab.devices import initializing
    from headrace.servers import record
    from headrace.servers import volumes as servers_volumes

EPILOG = """\b
Examples:
  headrace volume create gp2:500 --name db --start-balance 5%
  headrace volume attach db                         then: mkfs.xfs and mount the device it prints
  headrace watch lab:db
  headrace volume modify db --type gp3 --iops 6000 --wait
  headrace volume create gp3:500 --copy-of db --name copy
  headrace volume detach db && headrace volume delete db

A volume is named by its id or its unique name. The lab must be up: headrace lab up."""

app = CommandGroup(
    "Create, attach, modify and fail volumes of the lab: block devices that perform like gp2, gp3, io1, io2, st1, sc1 and arrays.",
    EPILOG,
)
CREATE_SOURCE = "headrace volume create --help"
SPEC_HELP = "Such as gp2:500, io2:100:8000 or raid10:4xgp3:500."


@app.command()
def create(
    *,
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC]", help=SPEC_HELP, autocompletion=complete_storage)
    ] = None,
    place: LabPlace,
    name: Annotated[str | None, option("NAME", "A name to call it by, unique in the lab.")] = None,
    tag: Annotated[list[str] | None, option("K=V", "A tag. Repeatable.")] = None,
    as_of: AsOfText = None,
    start_balance: Annotated[
        str | None, option("PERCENT", "Credits to begin with, like 5%. Default: full, as AWS starts them.")
    ] = None,
    copy_of: Annotated[
        str | None,
        option(
            "VOL",
            "Copy this volume as it is now, in use or not. Default of SPEC: gp2 of its size.",
            autocompletion=complete_volume,
        ),
    ] = None,
    snapshot: Annotated[str | None, option("SNAPSHOT", "Made from this snapshot: blocks load on first touch.")] = None,
    initialization_mib_s: Annotated[
        int | None, option("MIB_S", "Rate at which the snapshot is loaded in the background.", min=100, max=300)
    ] = None,
    encrypted: Annotated[bool, flag("--encrypted", "Encrypt it, and all snapshots of it.")] = False,
    kms_key: Annotated[
        str | None, option("KEY", "With --encrypted: id, ARN or alias of the key. Default: `headrace lab key default`.")
    ] = None,
    attach: Annotated[bool, flag("--attach", "Attach it at once, under the first free name.")] = False,
    output: OutputOption = "table",
) -> None:
    """Create a volume, or an array that is used as one. A copy is `creating` until it has all
    bytes."""
    volume_tags, balance = tags(tag), read_percent(start_balance, "--start-balance")
    settings: _NewVolume = {
        "as_of": as_of,
        "balance_percent": balance,
        "snapshot": snapshot,
        "initialization_rate_mib_s": initialization_mib_s,
        "encrypted": encrypted or None,
        "kms_key": kms_key,
    }
    if copy_of is None and spec is None:
        raise InputError("SPEC", "is missing", CREATE_SOURCE, "For example gp3:100; or --copy-of VOL.")
    if copy_of is not None and (attach or any(value is not None for value in settings.values())):
        rule = "takes SPEC, --name and --tag alone: the copy has the bytes, the key and the day of the volume"
        raise InputError(f"--copy-of {copy_of}", rule, CREATE_SOURCE, "Leave the other options out.")
    with place.open() as lab:
        if copy_of is not None:
            volume = lab.copy(copy_of, name, tags=volume_tags or None, **_copy_settings(spec))
        else:
            volume = lab.create(str(spec), name, tags=volume_tags or None, **settings)
        if attach:
            volume = lab.attach(volume["id"])
    _warn(volume)
    _print(volume, output)


class _NewVolume(TypedDict):
    """The settings of a new volume that a copy takes from its volume."""

    as_of: str | None
    balance_percent: float | None
    snapshot: str | None
    initialization_rate_mib_s: int | None
    encrypted: bool | None
    kms_key: str | None


class _Copy(TypedDict, total=False):
    """The shape of a copy; a part that it lacks is that of the volume."""

    volume_type: str
    size_gib: int
    iops: int | None
    throughput_mib_s: int | None


def _copy_settings(spec: str | None) -> _Copy:
    """Returns type, size, IOPS and MiB/s of a copy. Raises InputError for an array: a copy is a
    single volume."""
    if spec is None:
        return {}
    storage = base_storage.Storage.parse(spec)
    if storage.level is not None:
        raise InputError(storage.text, "is an array, and a copy is a single volume", "CopyVolumes", "Name one volume.")
    member = storage.members[0]
    return {
        "volume_type": member.type,
        "size_gib": member.size_gib,
        "iops": member.iops,
        "throughput_mib_s": member.mib_s,
    }


@app.command("list")
def list_volumes(
    place: LabPlace,
    volume: Annotated[
        str | None,
        typer.Argument(metavar="[VOL]", help="One volume, in detail. Default: all.", autocompletion=complete_volume),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List the volumes of the lab; of one: limits, device, members, modification."""
    with place.open() as lab:
        if volume is not None:
            return _print(lab.describe(volume), output)
        volumes = lab.volumes()
    print_answer(
        volumes, output, [volume_csv(volume) for volume in volumes], VOLUME_CSV, lambda: (volumes_table(volumes),)
    )


@app.command()
def attach(
    volume: VolumeArgument,
    place: LabPlace,
    name: Annotated[str | None, option("NAME", "Attach name, like sdf. Default: the first free one.")] = None,
    unpaced: Annotated[bool, flag("--unpaced", "Run as fast as this machine can: no limits, no model.")] = False,
    no_probe: Annotated[
        bool, flag("--no-probe", "Do not measure the machine's own latency and ceiling: quicker, less exact.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Make a block device of a volume."""
    with place.open() as lab:
        attached = lab.attach(volume, name, unpaced, not no_probe)
    _warn(attached)
    _print(attached, output)


@app.command()
def detach(
    volume: VolumeArgument,
    place: LabPlace,
    force: Annotated[bool, flag("--force", "Detach it even while it is mounted: unwritten data are lost.")] = False,
) -> None:
    """Take the device of a volume away."""
    with place.open() as lab:
        lab.detach(volume, force)
    say(f"{volume}: detached")


@app.command()
def delete(volume: VolumeArgument, place: LabPlace, yes: YesOption = False) -> None:
    """Delete a volume and its data."""
    with place.open() as lab:
        details = lab.describe(volume)
        _refuse_servers_volume(lab, details)
        used = f"{details.get('used_gib') or 0:,.2f} GiB of data"
        question = f"Delete {details['id']} ({details.get('name') or 'no name'}, {details['spec']}) and its {used}?"
        confirm(yes, question, volume, "would be deleted with all its data")
        lab.delete(details["id"])
    say(f"{volume}: deleted")


def _refuse_servers_volume(lab: Lab, volume: LabVolume) -> None:
    """Refuses the volume of a database server that there is, running or not. Raises InputError."""
    server = (volume.get("tags") or {}).get(servers_volumes.TAG)
    if server is not None and server in record.names(record.data_dir_of(lab)):
        hint = f"Remove the server with its data: headrace mysql destroy {server}."
        raise InputError(volume["id"], f"is a volume of the server {server}, which would lose its data", "", hint)


@app.command()
def modify(
    *,
    volume: Annotated[
        str | None,
        typer.Argument(
            metavar="[VOL]", help="Id or name. Default: list all modifications.", autocompletion=complete_volume
        ),
    ] = None,
    place: LabPlace,
    change: ModificationSettings,
    tag: Annotated[list[str] | None, option("K=V", "Add or change a tag, at once. Repeatable.")] = None,
    remove_tag: Annotated[list[str] | None, option("K", "Remove the tag of this key, at once. Repeatable.")] = None,
    wait: Annotated[
        bool,
        flag("--wait", "Return when the volume has its new size and type (optimizing); exit code 1 when it failed."),
    ] = False,
    until: Annotated[
        Literal["optimizing", "completed"],
        choice("State that --wait waits for: optimizing (seconds) or completed (hours of lab time)."),
    ] = "optimizing",
    output: OutputOption = "table",
) -> None:
    """Change size, type, IOPS, MiB/s or tags of a volume in use: modifying, optimizing, completed.
    Without a change: list its modifications."""
    new_tags, is_changed = tags(tag), any(list_given(change))
    if volume is None and (is_changed or new_tags or remove_tag):
        raise InputError("VOL", "is missing", "headrace volume modify --help", "Name the volume to change.")
    with place.open() as lab:
        if volume is not None and (new_tags or remove_tag):
            _tag(lab, volume, new_tags, remove_tag or [])
            if not is_changed:
                return
        if volume is None or not is_changed:
            return _print_modifications(lab.modifications(volume), output)
        modified = change.begin(lab, volume)
        if wait or until == "completed":
            with progress(f"modifying {volume}") as tick:
                modified = waiting.wait_for_modification(lab, volume, modified["id"], tick, until)
    row = {"volume": volume} | dict(modified)
    print_answer(row, output, [row], MODIFICATION_CSV, lambda: (_modifications([row]),))
    if modified["state"] == "optimizing":
        say(waiting.optimizing_note(modified))
    if modified["state"] == "failed":
        raise typer.Exit(1)


def _print_modifications(entries: Sequence[Mapping[str, object]], output: Output) -> None:
    rows = [dict(entry) for entry in entries]
    print_answer(entries, output, rows, MODIFICATION_CSV, lambda: (_modifications(entries),))


def _tag(lab: Lab, volume: str, new_tags: dict[str, str], remove: list[str]) -> None:
    """Sets and removes tags. Raises InputError for a key that the volume does not have."""
    there = lab.describe(volume).get("tags") or {}
    unknown = [key for key in remove if key not in there]
    if unknown:
        has = f"It has {', '.join(sorted(there))}." if there else "It has no tags."
        raise InputError(f"{volume}: --remove-tag {unknown[0]}", "is not a tag of this volume", "", has)
    lab.tag(volume, new_tags or None, remove or None)
    say(f"{volume}: tagged" if new_tags else f"{volume}: {len(set(remove))} tags removed")


@app.command()
def initialize(
    volume: VolumeArgument,
    place: LabPlace,
    threads: Annotated[int, option("N", "Blocks that are read at once.", min=1, max=256)] = 16,
) -> None:
    """Read every block of an attached volume that is not loaded from its snapshot yet."""
    with place.open() as lab, progress(f"initializing {volume}") as tick:
        try:
            done = initializing.initialize(lab, volume, threads, tick)
        except KeyboardInterrupt:
            remaining = number(lab.cold_blocks(volume, limit=1)["remaining"])
            words = f"Interrupted. {remaining} blocks of {volume} are left; headrace volume initialize {volume} goes on there."
            raise CouldNotRun("", words, exit_code=INTERRUPTED) from None
    say(f"{volume}: {number(done)} blocks of 512 KiB loaded")


app.command("balance")(metrics.balance)
app.command("metrics")(metrics.metrics)
app.command("record")(metrics.record)
app.command("fault", epilog=faults.EPILOG)(faults.fault)


def _warn(volume: LabVolume) -> None:
    for warning in (volume.get("attachment") or {}).get("warnings") or ():
        say(f"note: {warning}")


def _print(volume: LabVolume, output: Output) -> None:
    print_answer(volume, output, [volume_csv(volume)], VOLUME_CSV, lambda: _parts(volume))


def _parts(volume: LabVolume) -> list[object]:
    """Returns a volume as a person reads it."""
    parts: list[object] = [pairs(_facts(volume) + _device_facts(volume.get("attachment")))]
    if modification := volume.get("modification"):
        parts += ["", _modifications([{"volume": volume.get("name") or volume["id"], **modification}])]
    if volume.get("raid"):
        rows = [
            (member["index"], member["spec"], member["state"], _member_facts(member)) for member in volume["members"]
        ]
        parts += ["", table(("member", "storage", "state", ""), rows)]
    return parts


def _facts(volume: LabVolume) -> list[tuple[str, object]]:
    balance = volume.get("balance_percent")
    return [
        ("volume", volume["id"]),
        ("name", volume.get("name")),
        ("storage", volume["spec"]),
        ("state", state_cell(volume)),
        ("size", f"{number(volume['size_gib'])} GiB, {number(volume.get('used_gib'), 2)} GiB used"),
        (
            "limits",
            f"{number(volume['iops'])} IOPS, {number(volume['throughput_mib_s'])} MiB/s, as of {volume['as_of']}",
        ),
        ("balance", None if balance is None else percent_cell(balance)),
        ("tags", ", ".join(f"{key}={value}" for key, value in (volume.get("tags") or {}).items())),
        ("snapshot", volume.get("snapshot")),
        ("key", volume.get("kms_key")),
        ("created", volume["created_at"]),
        ("recording", volume.get("recording")),
        ("faults", volume.get("faults")),
    ]


def _device_facts(attachment: Attachment | None) -> list[tuple[str, object]]:
    if attachment is None:
        return []
    path_us, ceiling = attachment.get("path_us"), attachment.get("ceiling")
    return [
        ("device", attachment.get("device")),
        ("attach name", attachment.get("name")),
        ("links", "  ".join(attachment.get("links") or ())),
        ("pacing", "none: as fast as this machine can" if attachment.get("unpaced") else None),
        ("own path", None if path_us is None else f"{number(path_us)} us, taken out of the model's latency"),
        (
            "this machine",
            f"at most {number(ceiling['iops'])} IOPS, {number(ceiling['mib_s'])} MiB/s" if ceiling else None,
        ),
    ]


def _member_facts(member: Member) -> str:
    """Returns a member's limits, its slowness, and how far it is rebuilt."""
    facts = (
        [f"{number(member['iops'])} IOPS, {number(member['throughput_mib_s'])} MiB/s"]
        if member.get("iops") is not None
        else []
    )
    facts += [f"balance {percent_cell(member['balance_percent'])}"] if member.get("balance_percent") is not None else []
    facts += (
        [f"{number(member.get('caps_percent'))} % of that, {number(member.get('extra_ms'))} ms added"]
        if member["state"] == "slow"
        else []
    )
    facts += [f"{percent_cell(member.get('done_percent'))} rebuilt"] if member["state"] == "rebuilding" else []
    return ", ".join(facts)


MODIFICATION_CSV = (
    "volume", "id", "state", "progress_percent", "from", "to", "start", "optimizing_at", "completed_at", "next_allowed_at", "end", "reason"
)  # fmt: skip


def _modifications(rows: Sequence[Mapping[str, object]]) -> Table:
    ends = ("from", "to", "start", "end")
    cells = [
        [
            row.get("volume") or "",
            row["state"],
            f"{row['progress_percent']} %",
            *(row.get(name) for name in ends),
            row.get("reason") or "",
        ]
        for row in rows
    ]
    return table(("modification of", "state", "done", *ends, ""), cells, right=("done",))
