"""`headrace backup`: backups taken, streamed, restored to any moment, proved, and kept."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.encoding import pick_fields
from headrace.base.lazy import defer_imports
from headrace.base.signals import ignore_interrupts, set_handler
from headrace.base.units import describe_span
from headrace.cli import INTERRUPTED
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    Output,
    OutputOption,
    PasswordOptions,
    YesOption,
    make_choice,
    make_flag,
    make_option,
    make_storage_option,
)
from headrace.cli.output import (
    confirm,
    exit_if,
    make_table,
    print_answer,
    print_facts,
    print_rows,
    say,
    say_each,
    show_progress,
)
from headrace.cli.sharing import read_epilog
from headrace.errors import CouldNotRun, HeadraceError, InputError, Refusals

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headrace.lab import Lab
    from headrace.servers.backup.manifest import Backup
    from headrace.servers.backup.pacing import PaceLimits, Pacer
    from headrace.servers.backup.restore import Restored, RestoreRequest
    from headrace.servers.backup.retention import RetentionPlan
    from headrace.servers.backup.targets.target import BackupTarget
    from headrace.servers.copies.source import CopySource

with defer_imports():
    from headrace import servers
    from headrace.mysql import gtid as mysql_gtid
    from headrace.servers.backup import checking, copying, pacing, proving, retention, unfinished
    from headrace.servers.backup import forecast as backup_forecast
    from headrace.servers.backup import manifest as backup_manifest
    from headrace.servers.backup import restore as backup_restore
    from headrace.servers.backup import targets as backup_targets
    from headrace.servers.backup.history import archive, moments
    from headrace.servers.backup.history import stream as history_stream
    from headrace.servers.backup.targets import folder
    from headrace.servers.copies import pipeline
    from headrace.servers.copies import source as backup_source

EPILOG = read_epilog("backup")

Method = Literal["physical", "logical", "snapshot"]
Pack = Literal["zstd", "none"]

TargetOption = Annotated[
    str, make_option("TARGET", "Target of backups: file:///FOLDER, or s3://BUCKET/PREFIX.", "--to")
]
InOption = Annotated[str, make_option("TARGET", "Target of backups: file:///FOLDER, or s3://BUCKET/PREFIX.", "--in")]
KeyOption = Annotated[
    Path | None,
    make_option("FILE", "Key of 64 hexadecimal digits: data are encrypted, documents sealed.", "--key-file"),
]
WorkOption = Annotated[
    Path | None, make_option("FOLDER", "Folder to unpack the copy in. Default: the system's folder of temporary files.")
]


@dataclass(frozen=True, kw_only=True)
class SealOptions:
    """The options of all commands of this group."""

    key_file: KeyOption = None


app = CommandGroup(
    "Back servers up, stream their binary logs, restore to any moment, and prove it.", EPILOG, shares=(SealOptions,)
)
BackupArgument = Annotated[str, typer.Argument(metavar="ID", help="A backup's id; `latest` is the newest whole one.")]
SourceArgument = Annotated[
    str, typer.Argument(metavar="SERVER", help="A server of the lab by its name, or any by mysql://USER@HOST/.")
]


def _find_source(place: LabPlace, password: PasswordOptions, text: str) -> CopySource:
    """Returns the server of a lab's name or an address as a source of copies. Raises InputError for
    one that does not run."""
    if "://" in text:
        address = password.read_address(text)
        return backup_source.read_source(address, address.host or "local")
    lab = place.open()
    server = servers.find(lab, text)
    if server.state != "running":
        raise InputError(text, f"is {server.state}", "headrace backup --help", f"Start it: headrace mysql up {text}")
    return backup_source.read_source(server.make_address(), server.name, server)


def _open_existing_target(text: str) -> BackupTarget:
    """Opens the target of the option `--in`, from which backups are read. Raises InputError for
    a folder that is not there: it was mistyped, or its volume is not mounted."""
    target = backup_targets.open_target(text)
    if isinstance(target, folder.FolderTarget) and not target.folder.exists():
        raise InputError(target.label, "there is no such folder", "", "Is its name right, and its volume mounted?")
    return target


@contextlib.contextmanager
def _explain_interrupt(words: Callable[[], str]) -> Iterator[None]:
    """Turns Ctrl-C in the block into CouldNotRun. `words`: says what the interrupted work has left,
    and what finishes it."""
    try:
        yield
    except KeyboardInterrupt:
        with ignore_interrupts():
            raise CouldNotRun("", f"Interrupted. {words()}", exit_code=INTERRUPTED) from None


def _list_whole_ids(target: BackupTarget) -> set[str]:
    """Returns the ids of whole backups, those that have a manifest, without reading them; none
    where the target does not answer."""
    with contextlib.suppress(HeadraceError, OSError):
        return {
            entry.name.split("/")[1]
            for entry in target.list("backups/")
            if entry.name.endswith(f"/{backup_manifest.MANIFEST}")
        }
    return set()


def _describe_after_run(target: BackupTarget, before: set[str], spooled: list[str]) -> str:
    """Returns what an interrupted backup has left, in words. `before`: ids of whole backups before
    it; `spooled`: ids of copies that it left whole in the spool."""
    new_ids = sorted(_list_whole_ids(target) - before)
    if new_ids:
        return f"The backup {new_ids[-1]} is whole."
    if spooled:
        return "The copy is whole in the spool: give the same command again to send the rest."
    return "No backup was made, and what was copied is removed. Give the same command again to begin anew."


def _describe_after_restore(lab: Lab, name: str, what: str) -> str:
    """Returns what an interrupted restore has left, in words. `what`: what the same command does if
    it is given again."""
    with contextlib.suppress(HeadraceError):
        servers.find(lab, name)
        return f"The backup is as it was; the new server {name} is still there: headrace mysql destroy {name}."
    return f"The backup is as it was, and nothing is left of the new server. Give the same command again to {what}."


@dataclass(frozen=True, kw_only=True)
class PaceOptions:
    """Limits on the speed of a copy."""

    share: Annotated[
        float | None, make_option("SHARE", "Share of the volume's throughput the backup may use, 0 to 1.")
    ] = None
    mib_s: Annotated[float | None, make_option("MIB_S", "Most MiB/s to read from the source.", "--mib-s")] = None
    credit_floor: Annotated[
        float, make_option("PERCENT", "Pause while a credit balance that the copy uses is at or below this.")
    ] = 10.0
    lag_s: Annotated[
        float | None, make_option("S", "Slow down while the server, if a replica, is more than this behind.")
    ] = None
    latency_ratio: Annotated[
        float | None,
        make_option("RATIO", "Slow down while the volume's latency is above this multiple of its value before."),
    ] = None

    def make_limits(self) -> PaceLimits:
        """Returns the limits in the library's form. Raises InputError."""
        return pacing.PaceLimits(self.share, self.mib_s, self.credit_floor, self.lag_s, self.latency_ratio)


def _open_pacer(
    server: CopySource, target: BackupTarget, pace: PaceOptions, method: str
) -> AbstractContextManager[Pacer | None]:
    """Returns the pacer of the copy: of a server of the lab it watches credits and latency too,
    elsewhere MiB/s alone; a context of None where nothing is paced. Raises InputError."""
    limits = pace.make_limits()
    if method == "snapshot":
        return contextlib.nullcontext()
    if server.server is not None:
        return pacing.make_lab_pacer(server, limits, backup_forecast.find_target_volume(server.server.lab, target))
    if pace.share is not None or pace.lag_s is not None or pace.latency_ratio is not None:
        rule = "is not a server of the lab, so its volume cannot be seen"
        raise InputError(server.address.label, rule, "headrace backup run --help", "Pace it by --mib-s.")
    if pace.mib_s is None:
        return contextlib.nullcontext()
    return pacing.Pacer(limits, pace.mib_s, pacing.PaceSignals)


def _say_forecast(
    server: CopySource,
    target: BackupTarget,
    method: str,
    pack: Pack | None,
    pace: PaceOptions,
    only: list[str] | None,
    output: Output | None,
) -> None:
    """Forecasts the seconds of the copy, and prints them as an answer with `output`, else as a line
    on stderr."""
    if method == "physical" and server.server is not None:
        size = backup_source.count_physical_bytes(server.server)
    else:
        with server.connect() as connection:
            size = backup_source.estimate_data_bytes(connection, only)
    limits = pace.make_limits()
    most = limits.mib_s
    if limits.share is not None and server.server is not None and server.server.volumes.data is not None:
        cap = server.server.lab.describe(server.server.volumes.data)["throughput_mib_s"]
        most = min(rate for rate in (most, cap * limits.share) if rate is not None)
    estimate = backup_forecast.forecast(server, target, size, pack or pipeline.choose_pack(), most_mib_s=most)
    if output is None:
        if estimate.seconds:
            say(estimate.describe_duration(size))
        return
    answer = {"bytes": size, "seconds": round(estimate.seconds, 1), "binds": estimate.binds}
    answer |= {f"{name.replace(' ', '_')}_s": round(value, 1) for name, value in estimate.seconds_by.items()}
    print_facts(answer, output, "forecast")


@app.command()
def run(
    *,
    source: SourceArgument,
    to: TargetOption,
    place: LabPlace,
    password: PasswordOptions,
    pace: PaceOptions,
    method: Annotated[Method, make_choice("Method of the copy.")] = "physical",
    pack: Annotated[Pack | None, make_choice("Default: zstd where it is installed.")] = None,
    key_file: KeyOption = None,
    staging: Annotated[
        Path | None,
        make_option("FOLDER", "Folder for the first copy of MySQL's CLONE. Default: on the server's own volume."),
    ] = None,
    spool: Annotated[
        Path | None,
        make_option("FOLDER", "Folder to finish the copy in before it is sent: an interrupted run can resume."),
    ] = None,
    only: Annotated[
        list[str] | None,
        make_option("DATABASE", "Logical: only this database, as a part of the server. Repeatable.", "--only"),
    ] = None,
    anew: Annotated[
        bool, make_flag("--anew", "Start over: delete what an interrupted backup left instead of resuming it.")
    ] = False,
    dry_run: Annotated[
        bool, make_flag("--dry-run", "Say how long it will take and what binds, and copy nothing.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Take a backup of a server; print its id and position."""
    target, key = backup_targets.open_target(to), backup_manifest.read_key(key_file)
    server = _find_source(place, password, source)
    if method != "snapshot":
        _say_forecast(server, target, method, pack, pace, only, output if dry_run else None)
    if dry_run:
        return
    before = _list_whole_ids(target)
    spooled: list[str] = []
    with (
        _explain_interrupt(lambda: _describe_after_run(target, before, spooled)),
        show_progress("copying") as tick,
        _open_pacer(server, target, pace, method) as pacer,
    ):
        request = copying.BackupRequest(
            method=method,
            pack=pack,
            key=key,
            staging=staging,
            spool=spool.absolute() if spool is not None else None,
            anew=anew,
            progress=tick,
            only=tuple(dict.fromkeys(only or ())),
            note=lambda text: tick.say(f"note: {text}"),
            report_spooled=spooled.append,
            pace=pacer or pacing.Pace(),
        )
        manifest = copying.run(server, target, request)
    if pacer is not None:
        for why, seconds in sorted(pacer.report.held_s.items()):
            if seconds >= 1.0:
                say(f"note: held back {seconds:,.0f} s by {why}")

    _print_backups([backup_manifest.Backup(manifest, None)], output)


@app.command("list")
def list_(
    *,
    backup: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="With --verify: a backup. Default: all backups, and the binary logs."),
    ] = None,
    to: InOption,
    binlogs: Annotated[
        bool, make_flag("--binlogs", "The archived binary logs instead, by timeline; exit code 1 for a gap.")
    ] = False,
    verify: Annotated[
        bool,
        make_flag("--verify", "Read every byte in the target against its checksum; exit code 1 when one is wrong."),
    ] = False,
    key_file: KeyOption = None,
    output: OutputOption = "table",
) -> None:
    """Show backups, their age, and which were never restored; exit code 1 when one is damaged, or
    its last restore failed."""
    if verify and binlogs:
        raise refuse.input("--binlogs --verify", "exclude each other", "--verify reads the binary logs too.")
    if backup is not None and not verify:
        raise refuse.input(backup, "names a backup for --verify, which is not given", "Add --verify.")
    if verify:
        return _verify(_open_existing_target(to), backup, backup_manifest.read_key(key_file), output)
    if binlogs:
        return _list_binlogs(to, key_file, output)
    entries, problems = backup_manifest.read_backups(_open_existing_target(to), backup_manifest.read_key(key_file))
    _print_backups(entries, output)
    problems += [
        f"{backup.id}: its last restore failed: {backup.proof.failure}"
        for backup in entries
        if backup.proof and backup.failed
    ]
    say_each("problem", problems)
    exit_if(problems)


def _list_binlogs(to: str, key_file: Path | None, output: Output) -> None:
    """Prints the binary logs in a target by timeline, from where to where; exit code 1 for a
    gap."""
    names = ("timeline", "files", "bytes", "begins", "ends", "first_time", "last_time", "problems")
    rows: list[dict[str, object]] = []
    for timeline in archive.read_timelines(_open_existing_target(to), backup_manifest.read_key(key_file)):
        entries = [entry for file in timeline.files for entry in file.entries if entry.transactions]
        cells = (
            timeline.id,
            len(timeline.files),
            sum(file.ends for file in timeline.files),
            str(timeline.begins) if timeline.files else "",
            str(timeline.ends) if timeline.files else "",
            moments.format_moment(entries[0].first_us) if entries else "",
            moments.format_moment(entries[-1].last_us) if entries else "",
            "; ".join(timeline.problems),
        )
        rows.append(dict(zip(names, cells, strict=True)))
    print_rows(rows, output, names)
    exit_if(any(row["problems"] for row in rows))


refuse = Refusals("headrace backup list --help")
COLUMNS = ("id", "method", "server", "databases", "tables", "size", "stored", "age", "proved", "position")
CSV = (
    "id", "method", "flavor", "version", "source", "source_id", "ended_unix", "age_s", "data_bytes", "stored_bytes", "packed", "encrypted",
    "gtid", "file", "offset", "databases", "tables", "part", "proved", "proved_at_unix", "failed"
)  # fmt: skip


def _print_backups(entries: list[Backup], output: Output) -> None:
    """Prints the backups in the form asked for, with their age and their last proof."""
    now = time.time()
    rows = [_make_csv_row(backup, now) for backup in entries]
    table_rows = [_make_table_row(backup, now) for backup in entries]
    right = ("databases", "tables", "size", "stored", "age")
    print_answer(rows, output, rows, CSV, lambda: (make_table(COLUMNS, table_rows, right=right),))


def _make_csv_row(backup: Backup, now: float) -> dict[str, object]:
    """Returns a backup as a row of CSV. `now`: seconds since 1970."""
    manifest = backup.manifest
    plain = {name: getattr(part, name) for part in (manifest, manifest.packing) for name in CSV if hasattr(part, name)}
    proof = backup.proof if backup.proved else None
    return plain | {
        "databases": " ".join(manifest.databases),
        "failed": backup.proof.failure if backup.proof is not None and backup.failed else "",
        "age_s": round(backup.compute_age_s(now), 1),
        **pick_fields(manifest.position, "gtid", "file", "offset"),
        "proved": proof is not None,
        "proved_at_unix": proof and proof.at_unix,
    }


def _make_table_row(backup: Backup, now: float) -> list[object]:
    """Returns a backup as a row of COLUMNS. `now`: seconds since 1970."""
    manifest, proof = backup.manifest, backup.proof
    proved = f"unproved, {_format_age(backup.compute_age_s(now))} old"
    if proof is not None:
        proved = f"{_format_age(now - proof.at_unix)} ago" if proof.ok else "FAILED"
    gtid = manifest.position.gtid if len(manifest.position.gtid) <= 44 else f"{manifest.position.gtid[:41]}..."
    server = f"{manifest.source}, {manifest.flavor} {manifest.version.split('-')[0]}"
    place = gtid or manifest.position.file or "no binary log"
    return [
        manifest.id,
        f"{manifest.method}, a part" if manifest.only else manifest.method,
        server,
        manifest.part or len(manifest.databases),
        manifest.tables,
        _format_size(manifest.data_bytes),
        _format_size(manifest.stored_bytes),
        _format_age(backup.compute_age_s(now)),
        proved,
        place,
    ]


def _format_size(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def _format_age(seconds: float) -> str:
    """Returns an age in words, to the second; older than 2 min to the minute, than 2 days to the
    hour."""
    return describe_span(round(seconds))


@dataclass(frozen=True, kw_only=True)
class RestoreOptions:
    """The place of a restored server, and the point that it is restored to."""

    storage: Annotated[str | None, make_storage_option("The data volume of the new server: gp3:100:6000.")] = None
    log_storage: Annotated[str | None, make_storage_option("A volume of its own for redo and binary log.")] = None
    memory_gib: Annotated[float | None, make_option("GIB", "Memory of the new server.")] = None
    setting: Annotated[list[str] | None, make_option("K=V", "An option of the server. Repeatable.", "--set")] = None
    server_path: Annotated[Path | None, make_option("FILE", "Another server program.", readable=False)] = None
    unpaced: Annotated[
        bool, make_flag("--unpaced", "Leave the volumes without their limits until the next `mysql up`.")
    ] = False
    moment: Annotated[
        str | None,
        make_option("TIME", "Replay up to this time, with its time zone: 2026-11-22T21:50:00Z.", "--to-time"),
    ] = None
    gtid: Annotated[str | None, make_option("GTID", "Replay up to this transaction, and no further.", "--to-gtid")] = (
        None
    )
    latest: Annotated[bool, make_flag("--latest", "Replay all binary logs.")] = False
    timeline: Annotated[
        str | None, make_option("ID", "Timeline to replay, if the binary logs after the backup branch.")
    ] = None
    workers: Annotated[
        int | None, make_option("N", "Workers of the replay. Default: twice the processors.", min=0, max=1024)
    ] = None
    work: WorkOption = None
    read_only: Annotated[bool, make_flag("--read-only", "Leave it read-only.")] = False

    def make_goal(self, flavor: str) -> moments.RestoreGoal | None:
        """Returns the point to restore to; None: the backup as it is."""
        named = [
            name for name, on in (("--to-time", self.moment), ("--to-gtid", self.gtid), ("--latest", self.latest)) if on
        ]
        if len(named) > 1:
            raise InputError(" ".join(named), "exclude each other", "headrace backup restore --help", "Give one.")
        if self.moment is not None:
            return moments.RestoreGoal(moment_us=moments.parse_moment(self.moment))
        if self.gtid is not None:
            return moments.RestoreGoal(gtid=mysql_gtid.GtidSet.parse(self.gtid, flavor))
        return moments.RestoreGoal() if self.latest else None


def _resolve_id(target: BackupTarget, text: str, key: bytes | None) -> str:
    """Returns the id of a backup. `latest` stands for the newest whole one, and for a backup of
    single databases only where there is no other. Raises InputError where there is none."""
    if text != "latest":
        return text
    candidates, _ = backup_manifest.read_backups(target, key)
    if not candidates:
        raise InputError(
            target.label, "holds no whole backup", "headrace backup list", "Take one: headrace backup run."
        )
    return ([backup for backup in candidates if not backup.manifest.only] or candidates)[-1].id


@app.command()
def restore(
    backup: BackupArgument,
    to: InOption,
    place: LabPlace,
    options: RestoreOptions,
    name: Annotated[str, make_option("NAME", "Name of the new server.", "--as")],
    key_file: KeyOption = None,
    output: OutputOption = "table",
) -> None:
    """Restore a backup onto a new server of the lab, as it is or up to a GTID or a moment."""
    target, key = _open_existing_target(to), backup_manifest.read_key(key_file)
    with place.open() as lab, show_progress("restoring") as tick:
        request = _make_request(target, backup, name, options, key)
        with _explain_interrupt(lambda: _describe_after_restore(lab, name, "restore it")):
            restored = backup_restore.restore(lab, target, request, key, tick)
    _print_restored(restored, output)


def _make_request(
    target: BackupTarget, backup: str, name: str, options: RestoreOptions, key: bytes | None
) -> RestoreRequest:
    """Returns the request of a restore, after warnings about the backup. Raises InputError without
    storage, or where the backup is not there."""
    if options.storage is None:
        raise InputError(
            "--storage", "is needed for the new server", "headrace backup restore --help", "For example gp3:100."
        )
    manifest = backup_manifest.read_manifest(target, _resolve_id(target, backup, key), key)
    _warn_failed(target, manifest.id, key)
    if manifest.only:
        say(f"note: {manifest.id} is a part of its server, {manifest.part} alone")
    return backup_restore.RestoreRequest(
        backup=manifest.id,
        name=name,
        storage=options.storage,
        goal=options.make_goal(manifest.flavor),
        timeline=options.timeline,
        log_storage=options.log_storage,
        memory_gib=options.memory_gib,
        settings=servers.parse_settings(options.setting) or {},
        server_path=None if options.server_path is None else str(options.server_path),
        unpaced=options.unpaced,
        workers=options.workers,
        work=options.work,
        read_only=options.read_only,
    )


def _warn_failed(target: BackupTarget, backup: str, key: bytes | None) -> None:
    """Warns on stderr if the backup's last proof failed or cannot be read."""
    try:
        proof = backup_manifest.read_proof(target, backup, key)
    except InputError as error:
        say(f"warning: the proof of {backup} cannot be read: {error.rule}")
        return
    if proof is not None and not proof.ok:
        say(
            f"warning: the last restore of {backup} failed, {_format_age(time.time() - proof.at_unix)} ago: {proof.failure}"
        )


def _print_restored(restored: Restored, output: Output) -> None:
    """Prints the restored server with its times in seconds, and says which settings differ from the
    source's and which transactions may be missing."""
    replay = restored.replay
    answer = {
        "backup": restored.manifest.id,
        "server": restored.server.name,
        "executed": str(restored.executed),
        "copy_s": round(restored.copy_s, 3),
        "replay_s": round(restored.replay_s, 3),
        "transactions": replay.transactions if replay else 0,
        "last_gtid": replay.last_gtid if replay else "",
        "last_time": moments.format_moment(replay.last_us) if replay and replay.last_us else "",
        "doubt": replay.doubt if replay else 0,
        "part": restored.manifest.part,
        "other_settings": "; ".join(difference.words for difference in restored.otherwise),
    }
    print_facts(answer, output, "restored", ("other_settings",))
    for difference in restored.otherwise:
        say(f"note: not as in the source: {difference.words}")
    if replay and replay.doubt:
        say(
            f"note: MariaDB's binary log knows whole seconds: {replay.doubt:,} transactions, {replay.doubt_gtids[0]} to "
            f"{replay.doubt_gtids[1]}, may belong before the moment and were left out; --to-gtid takes them exactly"
        )


def _verify(target: BackupTarget, backup: str | None, key: bytes | None, output: Output) -> None:
    """Reads every byte of a backup (None: of all backups and binary logs) against its checksum;
    exit code 1 when one is wrong."""
    problems: list[str] = []
    if backup is None:
        entries, problems = backup_manifest.read_backups(target, key)
        checks = [checking.check_backup(target, entry.id, key) for entry in entries]
        histories = archive.read_timelines(target, key)
        checks += [checking.check_timeline(target, history, key) for history in histories]
        problems += checking.list_broken_chains(entries, histories)
    else:
        checks = [checking.check_backup(target, _resolve_id(target, backup, key), key)]
    rows: list[dict[str, object]] = [
        {"what": check.what, "files": check.files, "bytes": check.size, "problems": "; ".join(check.problems)}
        for check in checks
    ]
    names = ("what", "files", "bytes", "problems")
    print_rows(rows, output, names)
    say_each("problem", problems)
    exit_if(problems or any(check.problems for check in checks))


@app.command()
def stream(
    *,
    source: SourceArgument,
    to: TargetOption,
    place: LabPlace,
    password: PasswordOptions,
    key_file: KeyOption = None,
    every_s: Annotated[
        float,
        make_option(
            "S",
            "Longest time in seconds before new events are stored. Each time is a request to S3.",
            min=0.02,
            max=3600.0,
        ),
    ] = 0.25,
    begin: Annotated[
        str | None, make_option("FILE", "Begin a new archive with this binary log. Default: the oldest.", "--from")
    ] = None,
    for_s: Annotated[
        float | None, make_option("S", "End after this many seconds. Default: at Ctrl-C or SIGTERM.", min=0.0)
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Copy a server's binary log as it is written, and test that nothing is missing."""
    server = _find_source(place, password, source)
    streaming = history_stream.Stream(
        server,
        backup_targets.open_target(to),
        backup_manifest.read_key(key_file),
        every_s,
        note=lambda text: say(f"note: {text}"),
    )

    def end(*_: object) -> None:
        streaming.stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        set_handler(number, end)
    timer = threading.Timer(for_s, end) if for_s is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    state = streaming.run(begin)

    names = ("timeline", "file", "stored_to", "pieces", "transactions", "stored_bytes", "last_gtid")
    last_time = {"last_time": moments.format_moment(state.last_us) if state.last_us else ""}
    print_facts(pick_fields(state, *names) | last_time, output, "streamed")


@app.command()
def prove(
    *,
    backup: BackupArgument,
    to: InOption,
    place: LabPlace,
    password: PasswordOptions,
    storage: Annotated[str, make_storage_option("Volume to restore onto: gp3:100.")],
    against: Annotated[
        str | None, make_option("SERVER", "Compare every table with this server, its source, at one GTID.", "--against")
    ] = None,
    unpaced: Annotated[bool, make_flag("--unpaced", "Restore onto a volume without its limits.")] = False,
    work: WorkOption = None,
    key_file: KeyOption = None,
    output: OutputOption = "table",
) -> None:
    """Restore a backup onto a volume of the lab, replay, compare, and remove it again."""
    target, key = _open_existing_target(to), backup_manifest.read_key(key_file)
    source = None if against is None else _find_source(place, password, against)
    with place.open() as lab, show_progress("restoring") as tick:
        backup_id = _resolve_id(target, backup, key)
        name = proving.make_name()
        with _explain_interrupt(
            lambda: f"The proof before it counts. {_describe_after_restore(lab, name, 'prove it')}"
        ):
            proof = proving.prove(
                lab, target, backup_id, storage, source, key, work=work, unpaced=unpaced, progress=tick, name=name
            )
    answer = {"backup": backup_id, **vars(proof)}
    head = "NOT proved" if not proof.ok else "proved, a part" if proof.part else "proved"
    print_facts(answer, output, head, [name for name, value in answer.items() if value == ""])
    if proof.part:
        say(f"note: {backup_id} is a part of its server: {proof.part} alone was restored")
    if not proof.ok:
        say(f"problem: {backup_id} is not proved: {proof.failure}")
        raise typer.Exit(1)


@app.command()
def prune(
    *,
    to: InOption,
    place: LabPlace,
    keep: Annotated[int | None, make_option("N", "Keep the newest N of each server.", min=1)] = None,
    days: Annotated[float | None, make_option("DAYS", "Keep backups younger than this many days.", min=0.0)] = None,
    key_file: KeyOption = None,
    dry_run: Annotated[bool, make_flag("--dry-run", "Say what would be deleted, and delete nothing.")] = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Delete old backups and the binary logs before them; never the last provable chain."""
    target, key = _open_existing_target(to), backup_manifest.read_key(key_file)
    entries, problems = backup_manifest.read_backups(target, key)
    say_each("problem", problems)
    unreadable = backup_manifest.list_unreadable(target, entries)
    if unreadable:
        say(f"note: No binary log is deleted: what {', '.join(unreadable[:3])} needs of them cannot be read.")
    retention_plan = retention.plan(entries, archive.read_timelines(target, key), time.time(), keep, days, unreadable)
    fates = [(backup.id, "keep", why) for backup, why in retention_plan.keep]
    fates += [(backup.id, "delete", why) for backup, why in retention_plan.remove]
    fates += [(name, "delete", "before every kept backup") for name in retention_plan.files]
    names = ("what", "fate", "why")
    rows: list[dict[str, object]] = [dict(zip(names, fate, strict=True)) for fate in fates]
    print_rows(rows, output, names)
    if dry_run:
        return
    for leftover in unfinished.clear(target, place.open):
        say(f"note: {leftover.words}")
    if not (retention_plan.remove or retention_plan.files):
        return
    confirm(
        yes,
        f"Delete {len(retention_plan.remove)} backups and {len(retention_plan.files)} files of binary logs?",
        to,
        "deletes backups",
    )
    with contextlib.ExitStack() as stack:
        lab = None
        if any(backup.manifest.snapshots for backup, _ in retention_plan.remove):
            lab = stack.enter_context(place.open())
        stack.enter_context(_explain_interrupt(lambda: _describe_after_prune(target, retention_plan)))
        for text in retention.carry_out(target, retention_plan, archive.read_timelines(target, key), lab, key):
            say(f"kept: {text}")


def _describe_after_prune(target: BackupTarget, retention_plan: RetentionPlan) -> str:
    """Returns what an interrupted deletion of old backups has done, in words."""
    there = _list_whole_ids(target)
    remaining = [backup.id for backup, _ in retention_plan.remove if backup.id in there]
    gone = len(retention_plan.remove) - len(remaining)
    words = f"{gone} of {len(retention_plan.remove)} backups are deleted; the others are whole."
    return f"{words} Give the same command again to finish."
