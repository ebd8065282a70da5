"""`headrace volume`: make, attach, change and delete the volumes of a lab."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.cli import volume_faults, volume_metrics
from headrace.cli.common import AsOfOption, Output, OutputOption, complete_storage, complete_type, say
from headrace.cli.lab_common import (
    VOLUME_CSV,
    DataDirOption,
    SocketOption,
    VolumeArgument,
    number,
    pairs,
    percent,
    percent_cell,
    print_answer,
    state_cell,
    tags,
    volume_csv,
    volumes_table,
)

EPILOG = """\b
Examples:
  headrace volume create gp2:500 --name db --balance 5%
  headrace volume attach db                         then: mkfs.xfs and mount the device it prints
  headrace volume watch db
  headrace volume modify db --type gp3 --iops 6000 --wait
  headrace volume detach db && headrace volume delete db

A volume is named by its id or its unique name. The lab must be up: headrace lab up."""

app = typer.Typer(
    no_args_is_help=True, help="Volumes of the lab: block devices that perform like gp2, gp3, io1, io2, st1, sc1 and arrays of them.",
    epilog=EPILOG,
)  # fmt: skip


@app.command()
def create(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="gp2:500, io2:100:8000, raid10:4xgp3:500", autocompletion=complete_storage)],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="A name to call it by, unique in the lab.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="K=V", help="A tag. Repeatable.")] = None,
    as_of: AsOfOption = None,
    balance: Annotated[
        str | None, typer.Option("--balance", metavar="PERCENT", help="Credits to begin with, like 5%. Default: full, as AWS starts them.")
    ] = None,
    attach: Annotated[bool, typer.Option("--attach", help="Attach it at once, under the first free name.")] = False,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Create a volume, or an array that is used as one."""
    from headrace.lab import Lab

    wanted = tags(tag), percent(balance, "--balance")
    with Lab(data_dir, socket) as lab:
        made = lab.create(spec, name, wanted[0] or None, as_of, wanted[1])
        if attach:
            made = lab.attach(made["id"])
    _warn(made)
    _print(made, output)


@app.command("list")
def list_volumes(output: OutputOption = Output.table, data_dir: DataDirOption = None, socket: SocketOption = None) -> None:
    """List the volumes of the lab."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        volumes = lab.volumes()
    print_answer(volumes, output, [volume_csv(volume) for volume in volumes], VOLUME_CSV, lambda: (volumes_table(volumes),))


@app.command()
def show(volume: VolumeArgument, output: OutputOption = Output.table, data_dir: DataDirOption = None, socket: SocketOption = None) -> None:
    """Show a volume: limits, device, members, modification."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        found = lab.describe(volume)
    _print(found, output)


@app.command()
def attach(
    volume: VolumeArgument,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Attach name, like sdf. Default: the first free one.")] = None,
    unpaced: Annotated[bool, typer.Option("--unpaced", help="As fast as this machine can: no limits, no model.")] = False,
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Do not measure the machine's own latency and ceiling: quicker, less exact.")
    ] = False,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Make a block device of a volume."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        attached = lab.attach(volume, name, unpaced, not no_probe)
    _warn(attached)
    _print(attached, output)


@app.command()
def detach(
    volume: VolumeArgument,
    force: Annotated[bool, typer.Option("--force", help="Also while it is mounted: what is not written yet is lost.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Take the device of a volume away."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        lab.detach(volume, force)
    say(f"{volume}: detached")


@app.command()
def delete(
    volume: VolumeArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Delete a volume and its data."""
    import sys

    from headrace.errors import InputError
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        found = lab.describe(volume)
        if not yes and not sys.stdin.isatty():
            raise InputError(volume, "is deleted with all its data, and nobody can be asked here", "", "Say --yes.")
        what = f"Delete {found['id']} ({found.get('name') or 'no name'}, {found['spec']}) and its {found.get('used_gib') or 0:,.2f} GiB of data?"
        if not yes and not typer.confirm(what, err=True):
            say("nothing was deleted")
            raise typer.Exit(1)
        lab.delete(found["id"])
    say(f"{volume}: deleted")


class Until(StrEnum):
    """The state of a modification to wait for."""

    optimizing = "optimizing"
    completed = "completed"


@app.command()
def modify(
    volume: VolumeArgument,
    size_gib: Annotated[
        int | None, typer.Option("--size-gib", metavar="GIB", min=1, help="Larger, never smaller; of an array its usable size.")
    ] = None,
    type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Another type.", autocompletion=complete_type)] = None,
    iops: Annotated[int | None, typer.Option("--iops", metavar="N", min=1, help="Provisioned IOPS, of each member.")] = None,
    mib_s: Annotated[int | None, typer.Option("--mib-s", metavar="MIB_S", min=1, help="Provisioned MiB/s, of each member.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the volume has its new size and type (optimizing); exit code 1 when it failed.")
    ] = False,
    until: Annotated[
        Until, typer.Option("--until", help="What --wait waits for: optimizing (seconds) or completed (hours of lab time).")
    ] = Until.optimizing,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Change size, type, IOPS or MiB/s of a volume in use: modifying, optimizing, completed."""
    from headrace.cli.common import progress
    from headrace.lab import Lab
    from headrace.lab.watching import optimizing_note, wait_for_modification

    with Lab(data_dir, socket) as lab:
        started = lab.modify(volume, size_gib, type, iops, mib_s)
        if wait or until is Until.completed:
            with progress(f"modifying {volume}") as tick:
                started = wait_for_modification(lab, volume, started["id"], tick, until.value)
    started = {"volume": volume} | started
    print_answer(started, output, [started], MODIFICATION_CSV, lambda: (_modifications([started]),))
    if started["state"] == "optimizing":
        say(optimizing_note(started))
    if started["state"] == "failed":
        raise typer.Exit(1)


@app.command()
def modifications(
    volume: Annotated[str | None, typer.Argument(metavar="[VOL]", help="Of this volume alone.")] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """List the modifications of a volume, or of all."""
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        found = lab.modifications(volume)
    print_answer(found, output, found, MODIFICATION_CSV, lambda: (_modifications(found),))


@app.command("tag")
def tag_volume(
    volume: VolumeArgument,
    tag: Annotated[list[str] | None, typer.Argument(metavar="[K=V]...", help="Tags to add or change.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="K", help="Remove the tag of this key. Repeatable.")] = None,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Set and remove tags."""
    from headrace.errors import InputError
    from headrace.lab import Lab

    wanted = tags(tag)
    if not wanted and not remove:
        raise InputError(volume, "no tag is named", "headrace volume tag --help", "Give K=V, or --remove K.")
    with Lab(data_dir, socket) as lab:
        lab.tag(volume, wanted or None, remove)
    say(f"{volume}: tagged")


app.command("balance")(volume_metrics.balance)
app.command("metrics")(volume_metrics.metrics)
app.command("watch")(volume_metrics.watch)
app.command("record")(volume_metrics.record)
app.command("fault")(volume_faults.fault)
app.command("faults")(volume_faults.faults)
app.command("clear-fault")(volume_faults.clear_fault)
app.command("member")(volume_faults.member)


def _warn(volume: dict) -> None:
    for warning in (volume.get("attachment") or {}).get("warnings") or ():
        say(f"note: {warning}")


def _print(volume: dict, output: Output) -> None:
    print_answer(volume, output, [volume_csv(volume)], VOLUME_CSV, lambda: _parts(volume))


def _parts(volume: dict) -> list:
    """A volume as a person reads it."""
    from headrace.report.tables import table

    attachment = volume.get("attachment") or {}
    ceiling = attachment.get("ceiling") or {}
    parts = [
        pairs([
            ("volume", volume["id"]), ("name", volume.get("name")), ("storage", volume["spec"]), ("state", state_cell(volume)),
            ("size", f"{number(volume['size_gib'])} GiB, {number(volume.get('used_gib'), 2)} used"),
            ("limits", f"{number(volume['iops'])} IOPS, {number(volume['throughput_mib_s'])} MiB/s, as of {volume['as_of']}"),
            ("balance", percent_cell(volume.get("balance_percent")) if volume.get("balance_percent") is not None else None),
            ("tags", ", ".join(f"{key}={value}" for key, value in (volume.get("tags") or {}).items())),
            ("created", volume["created_at"]),
            ("device", attachment.get("device")), ("attach name", attachment.get("name")),
            ("links", "  ".join(attachment.get("links") or ())),
            ("pacing", "none: as fast as this machine can" if attachment.get("unpaced") else None),
            ("own path", f"{number(attachment['path_us'])} us, taken out of the model's latency" if attachment.get("path_us") is not None else None),
            ("this machine", f"at most {number(ceiling['iops'])} IOPS, {number(ceiling['mib_s'])} MiB/s" if ceiling else None),
            ("recording", volume.get("recording")), ("faults", volume.get("faults")),
        ])
    ]  # fmt: skip
    if volume.get("modification"):
        parts += ["", _modifications([{"volume": volume.get("name") or volume["id"]} | volume["modification"]])]
    if volume.get("raid"):
        rows = [(member["index"], member["spec"], member["state"], _rest(member)) for member in volume["members"]]
        parts += ["", table(("member", "storage", "state", ""), rows)]
    return parts


def _rest(member: dict) -> str:
    """What a member gives, how slow it is, how far it is rebuilt."""
    said = [f"{number(member['iops'])} IOPS, {number(member['throughput_mib_s'])} MiB/s"] if member.get("iops") is not None else []
    said += [f"balance {percent_cell(member['balance_percent'])}"] if member.get("balance_percent") is not None else []
    said += [f"{number(member['caps_percent'])} % of that, {number(member['extra_ms'])} ms added"] if member["state"] == "slow" else []
    said += [f"{percent_cell(member['done_percent'])} rebuilt"] if member["state"] == "rebuilding" else []
    return ", ".join(said)


MODIFICATION_CSV = (
    "volume",
    "id",
    "state",
    "progress_percent",
    "from",
    "to",
    "start",
    "optimizing_at",
    "completed_at",
    "next_allowed_at",
    "end",
    "reason",
)


def _modifications(rows: list[dict]):
    from headrace.report.tables import table

    cells = [
        [
            row.get("volume") or "", row["state"], f"{row['progress_percent']} %", row.get("from"), row.get("to"), row.get("start"),
            row.get("end"), row.get("reason") or "",
        ]
        for row in rows
    ]  # fmt: skip
    return table(("modification of", "state", "done", "from", "to", "start", "end", ""), cells, right=("done",))
