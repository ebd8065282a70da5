"""`headrace volume`: make, attach, change and delete the volumes of a lab; what they have left,
what they do, and what goes wrong with them on purpose."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import typer

from headrace.base import caps
from headrace.base.checks import read_percent
from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText, InitializationRate, list_given
from headrace.base.units import format_percent
from headrace.cli import INTERRUPTED
from headrace.cli.lab.common import (
    VOLUME_CSV,
    build_volume_table,
    format_number,
    format_percent_cell,
    format_state_cell,
    format_tags,
    make_volume_row,
    read_tags,
)
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    MemberOption,
    Output,
    OutputOption,
    TagOption,
    VolumeArgument,
    YesOption,
    complete_storage,
    complete_volume,
    make_choice,
    make_flag,
    make_option,
)
from headrace.cli.output import (
    confirm,
    exit_if,
    format_pairs,
    make_table,
    print_answer,
    print_frame,
    say,
    say_each,
    show,
    show_progress,
)
from headrace.cli.sharing import read_epilog
from headrace.cli.writing import WRITES_FILE
from headrace.errors import CouldNotRun, InputError, Refusals
from headrace.lab import Lab
from headrace.lab.changes import FaultSettings, ModificationSettings

if TYPE_CHECKING:
    from headrace.lab.calls import Attachment, Fault, LabVolume, Member
    from headrace.report.view import Table

with defer_imports():
    from headrace.base import storage as base_storage
    from headrace.lab import balances, initializing, waiting
    from headrace.lab import metrics as lab_metrics
    from headrace.observe.live import nvme
    from headrace.servers import record
    from headrace.servers import volumes as servers_volumes


# --- faults ---------------------------------------------------------------------------------------


FAULT_EPILOG = read_epilog("volume-fault")

MEMBER_KINDS = ("fail", "slow", "restore", "replace")
Kind = Literal["pause", "latency", "error", "degraded", "power-cut", "fail", "slow", "restore", "replace"]
KINDS = (
    "pause, latency, error, degraded, power-cut; of a member: fail, slow, restore, replace. Default: list the faults."
)
refuse = Refusals("headrace volume fault --help")


def fault(
    *,
    volume: VolumeArgument,
    kind: Annotated[Kind | None, typer.Argument(metavar="[KIND]", help=KINDS)] = None,
    place: LabPlace,
    settings: FaultSettings,
    mib_s: Annotated[
        int | None,
        make_option("MIB_S", "Highest rate of the rebuild (replace only). Default: what the members can do.", min=1),
    ] = None,
    clear: Annotated[
        str | None, make_option("ID|all", "End the fault of this id; all: every fault, degraded times too.")
    ] = None,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Let a device fail for a while: it does not answer, answers late, with errors or slowly; or
    the power is cut, or a member of an array fails. Without a kind: list the planned and the
    active faults."""
    if kind is None and (mib_s is not None or any(list_given(settings))):
        raise refuse.input(volume, "has settings of a fault, and no kind of it", "For example pause.")
    if kind is not None and clear is not None:
        raise refuse.input(f"{kind} and --clear", "begin a fault and end one", "Give one of them.")
    if mib_s is not None and kind != "replace":
        raise refuse.input(f"--mib-s with {kind}", "belongs to replace alone", "Leave it out.")
    if kind in MEMBER_KINDS:
        return _change_member(place, volume, str(kind), settings, mib_s, yes)
    with place.open() as lab:
        if clear is not None:
            cleared = lab.clear_fault(volume, None if clear == "all" else clear)
            more = ", and every degraded time" if clear == "all" else ""
            say(f"{volume}: {cleared} fault{'s' * (cleared != 1)} cleared{more}")
        elif kind is None:
            faults = lab.faults(volume)
            print_answer(
                faults, output, [dict(fault) for fault in faults], FAULT_CSV, lambda: (_build_fault_table(faults),)
            )
        else:
            started = settings.begin(lab, volume, kind)
            print_answer(started, output, [dict(started)], FAULT_CSV, lambda: (_build_fault_table([started]),))


def _change_member(
    place: LabPlace, volume: str, kind: str, settings: FaultSettings, mib_s: int | None, yes: bool
) -> None:
    """Fails, slows down, restores or replaces a member of an array. Raises InputError."""
    caps_percent, index = settings.caps_percent, settings.member
    if index is None:
        raise refuse.input(kind, "is of one member of an array", "Name it: --member N, counted from 0.")
    fitting = ("member", "caps", "extra_ms") if kind == "slow" else ("member",)
    for setting in list_given(settings):
        if setting.name not in fitting:
            raise refuse.input(f"{setting.flag} with {kind}", "is not a setting of it", "Leave it out.")
    if kind == "slow" and caps_percent is None and settings.extra_ms is None:
        raise refuse.input("slow", "needs --caps, --extra-ms or both", "For example --caps 20%.")
    with place.open() as lab:
        if kind == "fail":
            _fail_member(lab, volume, index, yes)
        elif kind == "slow":
            lab.slow_member(volume, index, caps_percent, settings.extra_ms)
        elif kind == "restore":
            lab.restore_member(volume, index)
        else:
            lab.replace_member(volume, index, mib_s)
    done = {"fail": "failed", "slow": "slow", "restore": "restored", "replace": "replaced, rebuilding"}
    say(f"{volume}: member {index} {done[kind]}")


def _fail_member(lab: Lab, volume: str, index: int, yes: bool) -> None:
    """Fails a member, after a question where data would be lost with it unless `yes`; says which
    members then have the last copy of data."""
    members = lab.describe(volume)["members"]
    if index < len(members) and members[index]["last_copy"]:
        gone = ", ".join(str(member["index"]) for member in members if member["state"] in ("failed", "rebuilding"))
        question = f"Fail member {index} of {volume}? It has the last copy of data that was on member {gone} too."
        what = f"has the last copy of data that was on member {gone} too: they would be lost for good"
        confirm(yes, question, f"{volume}: member {index}", what, f"Replace member {gone} first, or add --yes.")
    after = lab.fail_member(volume, index)
    if alone := [str(member["index"]) for member in after["members"] if member["last_copy"]]:
        say(
            f"note: data are on member {', '.join(alone)} alone now: headrace volume fault {volume} replace --member {index}"
        )


FAULT_CSV = ("id", "kind", "starts_at", "ends_at", "seed")


def _build_fault_table(rows: Sequence[Fault]) -> Table:
    """Returns the faults of a volume as a table."""
    cells = [
        (row["id"], row["kind"], row.get("starts_at"), row.get("ends_at") or "until attached anew", row.get("seed"))
        for row in rows
    ]
    return make_table(("fault", "kind", "starts", "ends", "seed"), cells)


# --- balance, metrics, record ---------------------------------------------------------------------


def balance(
    volume: VolumeArgument,
    place: LabPlace,
    set_to: Annotated[str | None, make_option("PERCENT", "Set it, like 5%.", "--set")] = None,
    member: MemberOption = None,
    save: Annotated[Path | None, make_option("FILE", "Write the balances to a file."), WRITES_FILE] = None,
    load: Annotated[Path | None, make_option("FILE", "Restore the balances that --save wrote.")] = None,
    output: OutputOption = "table",
) -> None:
    """Show, set, save or restore credit balances."""
    target_percent = read_percent(set_to, "--set")
    if sum(given is not None for given in (set_to, save, load)) > 1:
        raise InputError(
            "--set, --save, --load", "only one of them", "headrace volume balance --help", "Run the command twice."
        )
    if member is not None and set_to is None:
        raise InputError(
            "--member", "belongs to --set", "headrace volume balance --help", "Every member is shown anyway."
        )
    saved = None if load is None else balances.load(load)
    with place.open() as lab:
        if target_percent is not None:
            lab.set_balance(volume, target_percent, member)
        if saved is not None:
            lab.restore_balance(volume, saved)
        answer = lab.balance(volume)
    if save is not None:
        balances.save(answer, save)
        say(f"{volume}: balances saved in {save}")
    rows = [{"member": index} | dict(credits or {}) for index, credits in enumerate(answer["members"])]
    columns = ("member", "credits", "capacity", "percent")
    print_answer(answer, output, rows, columns, lambda: _list_balance_parts(answer))


def _list_balance_parts(answer: Mapping[str, Any]) -> list[object]:
    """Returns the credit balances of the members as a table (I/Os or bytes), and those of the
    instance in percent."""
    rows = [
        (index, "-", "-", "no credits")
        if credits is None
        else (
            index,
            format_number(float(credits["credits"]), 0),
            format_number(float(credits["capacity"]), 0),
            format_percent_cell(credits["percent"]),
        )
        for index, credits in enumerate(answer["members"])
    ]
    parts: list[object] = [make_table(("member", "credits", "of", "balance"), rows, right=("credits", "of", "balance"))]
    instance = answer.get("instance")
    if instance:
        parts += [
            "",
            f"instance: IOPS {format_percent_cell(instance['iops_percent'])}, bytes {format_percent_cell(instance['bytes_percent'])}",
        ]
    return parts


def metrics(
    *,
    volume: VolumeArgument,
    place: LabPlace,
    minutes: Annotated[int | None, make_option("N", "The last N minutes, a row each.", min=1)] = None,
    seconds: Annotated[int | None, make_option("N", "The last N seconds, a row each. Default: 60.", min=1)] = None,
    resolution: Annotated[
        Literal["second", "minute"] | None, make_choice("Rows of seconds (an hour is kept) or of minutes (15 days).")
    ] = None,
    member: MemberOption = None,
    nvme_page: Annotated[
        bool,
        make_flag("--nvme", "The NVMe statistics page of the attached device instead: counters, latencies in bins."),
    ] = False,
    binary: Annotated[bool, make_flag("--binary", "With --nvme: write the 4,096 bytes of the page to stdout.")] = False,
    output: OutputOption = "table",
) -> None:
    """Print what a volume did: csv and json have every column, the table what a person reads."""
    if nvme_page or binary:
        if not nvme_page or (minutes, seconds, resolution) != (None, None, None):
            rule = "counts from the attachment on, and --binary is a form of it"
            raise InputError("--nvme", rule, "headrace volume metrics --help", "Give --nvme without a time.")
        return _print_nvme(place, volume, member, binary, output)
    unit, rows = lab_metrics.choose_stretch(seconds, minutes, resolution)
    with place.open() as lab:
        answer = lab.metrics(volume, unit, last=rows, member=member)
    if output == "table":
        cells = [make_rate_row(t_s, row) for t_s, row in lab_metrics.convert_volume_rows(answer).items()]
        show(make_table(RATE_COLUMNS, cells, right=RATE_COLUMNS[1:]))
    else:
        print_frame(lab_metrics.build_frame(answer), output)


def _print_nvme(place: LabPlace, volume: str, member: int | None, binary: bool, output: Output) -> None:
    """Prints the NVMe statistics page of an attached volume. Raises InputError for bytes on a
    terminal."""
    if binary and sys.stdout.isatty():
        hint = "Write `> page.bin` behind it, or a pipe."
        raise InputError("--binary", "does not write to a terminal", "headrace volume metrics --help", hint)
    with place.open() as lab:
        page = bytes.fromhex(lab.nvme_statistics(volume, member)["page_hex"])
    if binary:
        sys.stdout.buffer.write(page)
        return
    statistics = nvme.read_page(page)
    columns = ("field", "from_us", "until_us", "value")
    rows = statistics.list_rows()
    cells = [
        [
            value if isinstance(value, str) else "" if value is None else format_number(value, 0)
            for value in row.values()
        ]
        for row in rows
    ]
    print_answer(
        statistics.to_document(), output, rows, columns, lambda: [make_table(columns, cells, right=columns[1:])]
    )


RATE_COLUMNS = (
    "time (UTC)", "read IOPS", "write IOPS", "read MiB/s", "write MiB/s", "queue", "read p50 ms", "p99 ms", "write p50 ms", "p99 ms ",
    "at limit", "balance"
)  # fmt: skip


def make_rate_row(t_s: int, row: Mapping[str, float | None]) -> list[str]:
    """Returns metrics of a second or minute that begins at `t_s` (s since 1970) as a row of
    RATE_COLUMNS: rates, I/O p50 and p99 in ms, balance in percent, and the percentage of the time
    in which the demand was above the tightest limit."""
    at = datetime.fromtimestamp(t_s, UTC)
    counts = [format_number(round(row[name] or 0.0)) for name in ("read_iops", "write_iops")]
    sizes = [f"{row[name] or 0.0:,.1f}" for name in ("read_mib_s", "write_mib_s", "queue")]
    latencies = [row[f"{way}_{share}_ms"] for way in ("read", "write") for share in ("p50", "p99")]
    waits = ["-" if value is None else f"{value:,.2f}" for value in latencies]
    shares = [
        format_percent(max(row[name] or 0.0 for name in caps.OVER.values())),
        format_percent_cell(row["balance_percent"]),
    ]
    return [f"{at:%m-%d %H:%M:%S}", *counts, *sizes, *waits, *shares]


def record_decisions(
    volume: VolumeArgument,
    do: Annotated[Literal["start", "stop"], typer.Argument(metavar="start|stop", help="Begin or end the record.")],
    place: LabPlace,
    to: Annotated[
        Path | None, make_option("FILE", "start: the file. Default: in the lab's directory.", "--to", "-o"), WRITES_FILE
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Write every decision of the model to a file, for headrace replay."""
    if do == "stop" and to is not None:
        hint = "Leave it out: stop says where it was written."
        raise InputError("--to", "belongs to start", "headrace volume record --help", hint)
    with place.open() as lab:
        answer: Any = (
            lab.record(volume, None if to is None else to.absolute()) if do == "start" else lab.record_stop(volume)
        )
    requests = "" if do == "start" else f", {answer['requests']:,} requests"
    text = f"{'recording to' if do == 'start' else 'recorded in'} {answer['path']}{requests}"
    print_answer(answer, output, [dict(answer)], ("path", "requests"), lambda: (text,))


# --- volumes --------------------------------------------------------------------------------------


EPILOG = read_epilog("volume")

app = CommandGroup(
    "Create, attach, modify and fail volumes of the lab: block devices that perform like gp2, gp3, io1, io2, st1, sc1 and arrays.",
    EPILOG,
)
refuse_create = Refusals("headrace volume create --help")
SPEC_HELP = "Such as gp2:500, io2:100:8000 or raid10:4xgp3:500."


@app.command()
def create(
    *,
    spec: Annotated[
        str | None, typer.Argument(metavar="[SPEC]", help=SPEC_HELP, autocompletion=complete_storage)
    ] = None,
    place: LabPlace,
    name: Annotated[str | None, make_option("NAME", "A name to call it by, unique in the lab.")] = None,
    tag: TagOption = None,
    as_of: AsOfText = None,
    start_balance: Annotated[
        str | None, make_option("PERCENT", "Credits to begin with, like 5%. Default: full, as AWS starts them.")
    ] = None,
    copy_of: Annotated[
        str | None,
        make_option(
            "VOL",
            "Copy this volume as it is now, in use or not. Default of SPEC: gp2 of its size.",
            autocompletion=complete_volume,
        ),
    ] = None,
    snapshot: Annotated[
        str | None, make_option("SNAPSHOT", "Made from this snapshot: blocks load on first touch.")
    ] = None,
    initialization_mib_s: InitializationRate = None,
    encrypted: Annotated[bool, make_flag("--encrypted", "Encrypt it, and all snapshots of it.")] = False,
    kms_key: Annotated[
        str | None,
        make_option("KEY", "With --encrypted: id, ARN or alias of the key. Default: `headrace lab key default`."),
    ] = None,
    attach: Annotated[bool, make_flag("--attach", "Attach it at once, under the first free name.")] = False,
    output: OutputOption = "table",
) -> None:
    """Create a volume, or an array that is used as one. A copy is `creating` until it has all
    bytes."""
    volume_tags, balance = read_tags(tag), read_percent(start_balance, "--start-balance")
    settings: _NewVolume = {
        "as_of": as_of,
        "balance_percent": balance,
        "snapshot": snapshot,
        "initialization_rate_mib_s": initialization_mib_s,
        "encrypted": encrypted or None,
        "kms_key": kms_key,
    }
    if copy_of is None and spec is None:
        raise refuse_create.input("SPEC", "is missing", "For example gp3:100; or --copy-of VOL.")
    if copy_of is not None and (attach or any(value is not None for value in settings.values())):
        rule = "takes SPEC, --name and --tag alone: the copy has the bytes, the key and the day of the volume"
        raise refuse_create.input(f"--copy-of {copy_of}", rule, "Leave the other options out.")
    with place.open() as lab:
        if copy_of is not None:
            volume = lab.copy(copy_of, name, tags=volume_tags or None, **_parse_copy_settings(spec))
        else:
            volume = lab.create(str(spec), name, tags=volume_tags or None, **settings)
        if attach:
            volume = lab.attach(volume["id"])
    _print_warnings(volume)
    _print_volume(volume, output)


class _NewVolume(TypedDict):
    """The settings of a new volume that cannot be given for a copy."""

    as_of: str | None
    balance_percent: float | None
    snapshot: str | None
    initialization_rate_mib_s: int | None
    encrypted: bool | None
    kms_key: str | None


class _Copy(TypedDict, total=False):
    """Type, size, IOPS and MiB/s of a copy; those left out are the source's."""

    volume_type: str
    size_gib: int
    iops: int | None
    throughput_mib_s: int | None


def _parse_copy_settings(spec: str | None) -> _Copy:
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
            return _print_volume(lab.describe(volume), output)
        volumes = lab.volumes()
    print_answer(
        volumes,
        output,
        [make_volume_row(volume) for volume in volumes],
        VOLUME_CSV,
        lambda: (build_volume_table(volumes),),
    )


@app.command()
def attach(
    volume: VolumeArgument,
    place: LabPlace,
    name: Annotated[str | None, make_option("NAME", "Attach name, like sdf. Default: the first free one.")] = None,
    unpaced: Annotated[bool, make_flag("--unpaced", "Run as fast as this machine can: no limits, no model.")] = False,
    no_probe: Annotated[
        bool, make_flag("--no-probe", "Do not measure the machine's own latency and ceiling: quicker, less exact.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Attach a volume as a block device."""
    with place.open() as lab:
        attached = lab.attach(volume, name, unpaced, not no_probe)
    _print_warnings(attached)
    _print_volume(attached, output)


@app.command()
def detach(
    volume: VolumeArgument,
    place: LabPlace,
    force: Annotated[
        bool, make_flag("--force", "Detach it even while it is mounted: unwritten data are lost.")
    ] = False,
) -> None:
    """Detach a volume: remove its block device."""
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
    """Raises InputError for a volume of a database server of the lab, running or not."""
    server = (volume.get("tags") or {}).get(servers_volumes.TAG)
    if server is not None and server in record.list_names(record.find_data_dir(lab)):
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
    tag: Annotated[list[str] | None, make_option("K=V", "Add or change a tag, at once. Repeatable.")] = None,
    remove_tag: Annotated[
        list[str] | None, make_option("K", "Remove the tag of this key, at once. Repeatable.")
    ] = None,
    wait: Annotated[
        bool,
        make_flag(
            "--wait", "Return when the volume has its new size and type (optimizing); exit code 1 when it failed."
        ),
    ] = False,
    until: Annotated[
        Literal["optimizing", "completed"],
        make_choice("State that --wait waits for: optimizing (seconds) or completed (hours of lab time)."),
    ] = "optimizing",
    output: OutputOption = "table",
) -> None:
    """Change size, type, IOPS, MiB/s or tags of a volume in use: modifying, optimizing, completed.
    Without a change: list its modifications."""
    new_tags, is_changed = read_tags(tag), any(list_given(change))
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
            with show_progress(f"modifying {volume}") as tick:
                modified = waiting.wait_for_modification(lab, volume, modified["id"], tick, until)
    row = {"volume": volume} | dict(modified)
    print_answer(row, output, [row], MODIFICATION_CSV, lambda: (_build_modification_table([row]),))
    if modified["state"] == "optimizing":
        say(waiting.explain_optimizing(modified))
    exit_if(modified["state"] == "failed")


def _print_modifications(entries: Sequence[Mapping[str, object]], output: Output) -> None:
    rows = [dict(entry) for entry in entries]
    print_answer(entries, output, rows, MODIFICATION_CSV, lambda: (_build_modification_table(entries),))


def _tag(lab: Lab, volume: str, new_tags: dict[str, str], remove: list[str]) -> None:
    """Sets and removes tags of a volume, and says so. Raises InputError for a tag to remove that is
    not there."""
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
    threads: Annotated[int, make_option("N", "Blocks that are read at once.", min=1, max=256)] = 16,
) -> None:
    """Read every block of an attached volume that is not loaded from its snapshot yet."""
    with place.open() as lab, show_progress(f"initializing {volume}") as tick:
        try:
            done = initializing.initialize(lab, volume, threads, tick)
        except KeyboardInterrupt:
            remaining = format_number(lab.cold_blocks(volume, limit=1)["remaining"])
            words = f"Interrupted. {remaining} blocks of {volume} are left; headrace volume initialize {volume} goes on there."
            raise CouldNotRun("", words, exit_code=INTERRUPTED) from None
    say(f"{volume}: {format_number(done)} blocks of 512 KiB loaded")


app.command("balance")(balance)
app.command("metrics")(metrics)
app.command("record")(record_decisions)
app.command("fault", epilog=FAULT_EPILOG)(fault)


def _print_warnings(volume: LabVolume) -> None:
    say_each("note", (volume.get("attachment") or {}).get("warnings") or ())


def _print_volume(volume: LabVolume, output: Output) -> None:
    print_answer(volume, output, [make_volume_row(volume)], VOLUME_CSV, lambda: _list_parts(volume))


def _list_parts(volume: LabVolume) -> list[object]:
    """Returns the parts that are printed of a volume: its facts, its modification and, of an array,
    its members."""
    parts: list[object] = [format_pairs(_list_facts(volume) + _list_device_facts(volume.get("attachment")))]
    if modification := volume.get("modification"):
        parts += ["", _build_modification_table([{"volume": volume.get("name") or volume["id"], **modification}])]
    if volume.get("raid"):
        rows = [
            (member["index"], member["spec"], member["state"], _describe_member(member)) for member in volume["members"]
        ]
        parts += ["", make_table(("member", "storage", "state", ""), rows)]
    return parts


def _list_facts(volume: LabVolume) -> list[tuple[str, object]]:
    """Returns names and values of a volume for a person: size in GiB, limits in IOPS and MiB/s,
    balance in percent."""
    balance = volume.get("balance_percent")
    return [
        ("volume", volume["id"]),
        ("name", volume.get("name")),
        ("storage", volume["spec"]),
        ("state", format_state_cell(volume)),
        ("size", f"{format_number(volume['size_gib'])} GiB, {format_number(volume.get('used_gib'), 2)} GiB used"),
        (
            "limits",
            f"{format_number(volume['iops'])} IOPS, {format_number(volume['throughput_mib_s'])} MiB/s, as of {volume['as_of']}",
        ),
        ("balance", None if balance is None else format_percent_cell(balance)),
        ("tags", format_tags(volume.get("tags"))),
        ("snapshot", volume.get("snapshot")),
        ("key", volume.get("kms_key")),
        ("created", volume["created_at"]),
        ("recording", volume.get("recording")),
        ("faults", volume.get("faults")),
        ("resync", "under way: copies or parity may differ until it is through" if volume.get("resyncing") else None),
    ]


def _list_device_facts(attachment: Attachment | None) -> list[tuple[str, object]]:
    """Returns names and values of an attachment: device, own path in microseconds, limits of this
    machine; none without an attachment."""
    if attachment is None:
        return []
    path_us, ceiling = attachment.get("path_us"), attachment.get("ceiling")
    return [
        ("device", attachment.get("device")),
        ("attach name", attachment.get("name")),
        ("links", "  ".join(attachment.get("links") or ())),
        ("pacing", "none: as fast as this machine can" if attachment.get("unpaced") else None),
        ("own path", None if path_us is None else f"{format_number(path_us)} us, taken out of the model's latency"),
        (
            "this machine",
            f"at most {format_number(ceiling['iops'])} IOPS, {format_number(ceiling['mib_s'])} MiB/s"
            if ceiling
            else None,
        ),
    ]


def _describe_member(member: Member) -> str:
    """Returns a member of an array in words: limits in IOPS and MiB/s, balance in percent, delay of
    a slow one in ms, progress of a rebuild."""
    facts = []
    if member.get("iops") is not None:
        facts.append(f"{format_number(member['iops'])} IOPS, {format_number(member['throughput_mib_s'])} MiB/s")
    if member.get("balance_percent") is not None:
        facts.append(f"balance {format_percent_cell(member['balance_percent'])}")
    if member["state"] == "slow":
        caps, extra_ms = format_number(member.get("caps_percent")), format_number(member.get("extra_ms"))
        facts.append(f"{caps} % of that, {extra_ms} ms added")
    if member["state"] == "rebuilding":
        facts.append(f"{format_percent_cell(member.get('done_percent'))} rebuilt")
    return ", ".join(facts)


MODIFICATION_CSV = (
    "volume", "id", "state", "progress_percent", "from", "to", "start", "optimizing_at", "completed_at", "next_allowed_at", "end", "reason"
)  # fmt: skip


def _build_modification_table(rows: Sequence[Mapping[str, object]]) -> Table:
    """Returns modifications as a table; the column `done` is in percent."""
    ends = ("from", "to", "start", "end")
    cells = []
    for row in rows:
        values = [row.get(name) for name in ends]
        done = f"{row['progress_percent']} %"
        cells.append([row.get("volume") or "", row["state"], done, *values, row.get("reason") or ""])
    return make_table(("modification of", "state", "done", *ends, ""), cells, right=("done",))
