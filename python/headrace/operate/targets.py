"""From what a user types to evidence: lab:VOLUME, mysql://..., aws:vol-..., a folder, a file, - for
standard input."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.files import OWN_FILE, detect
from headrace.base.units import HOUR_S
from headrace.errors import HeadraceError, Refusals
from headrace.lab import Lab
from headrace.mysql import Address
from headrace.observe.evidence import aws, evidence_file, files
from headrace.observe.evidence.limits import HoldingLimits, get_holding_limits
from headrace.observe.evidence.live import LiveSource, collect
from headrace.observe.evidence.model import Evidence
from headrace.observe.evidence.server import ServerReader
from headrace.observe.evidence.source import KeptSource, TickSource
from headrace.observe.evidence.volumes import DeviceVolumes, LabVolumes
from headrace.observe.formats import (
    ImportOptions,
    LoadedRecording,
    ReadOptions,
    is_service,
    load_recording,
    parse_recording,
)
from headrace.observe.live.record import DESCRIPTION
from headrace.observe.recording import STDIN, open_recording
from headrace.observe.remote.aws import is_database, parse_names
from headrace.observe.remote.span import DEFAULT_S, TimeSpan
from headrace.servers import list_servers
from headrace.workload import OpenWorkload

refuse = Refusals("docs/guide/doctor.md")
FORMS = (
    "lab:VOLUME, mysql://USER@HOST, aws:vol-..., aws:db-NAME, prometheus:URL, a captured folder, a file of iostat, sar, vmstat, "
    "CloudWatch, Prometheus or --record, or - for standard input"
)
HEAD_CHARACTERS = 200  # enough for the first words of any form; ours
LIVE_SECONDS = 10.0  # ours: ten seconds of one second each; `--seconds` takes more
TIMES = ("--interval", "--clock-start", "--last", "--until")
LEAST_SECONDS = 60.0  # of CloudWatch: a point of a minute
# CloudWatch has a point a minute, and is asked as often; late points are asked for again, s: four
# points of volumes that publish every five minutes.
AWS_EVERY_S, AWS_AGAIN_S = 60.0, 1_200.0


@dataclass(frozen=True)
class SourceOptions:
    """Options besides the target. `storage`, `instance`, `as_of`: what today's storage is, where
    the source does not say, and `log_storage` that of a log volume. `devices`: block devices of
    this host. `read_address`: makes an address of a text (the password comes from there). `lab`:
    opens the lab, raises where none answers. `alone`: of lab:VOLUME, do not look for the server on
    it. `members`: of arrays of the lab, read each member too (volumes of role `member`, named
    NAME/0 and so on). `interval_s`, `clock_start`: of a recording that has no times, seconds
    between its reports and when it began (ISO 8601). `span`: what a service that keeps the past is
    asked for (None: 14 days), and `progress` is called with the share that has come."""

    storage: str | None = None
    instance: str | None = None
    as_of: str | None = None
    devices: tuple[str, ...] = ()
    read_address: Callable[[str], Address] | None = None
    lab: Callable[[], Lab] = Lab
    alone: bool = False
    members: bool = False
    log_storage: str | None = None
    interval_s: float | None = None
    clock_start: str | None = None
    span: TimeSpan | None = None
    progress: Callable[[float], None] = lambda share: None

    @property
    def times_given(self) -> dict[str, str]:
        """The options on the times of a recording that were given, by name."""
        span = self.span
        given = {
            "--interval": None if self.interval_s is None else f"{self.interval_s:g}",
            "--clock-start": self.clock_start,
            "--last": None if span is None or span.last_s == DEFAULT_S else f"{span.last_s:g}s",
            "--until": None if span is None or span.until is None else f"{span.until:g}",
        }
        return {name: value for name, value in given.items() if value is not None}


def is_live(target: str) -> bool:
    """Returns whether the target is watched second by second."""
    return target.startswith(("lab:", "mysql://"))


def open_live(target: str, options: SourceOptions = SourceOptions()) -> LiveSource:
    """Opens a source to watch. Raises InputError, CouldNotRun."""
    _check_options(options)
    if target.startswith("lab:"):
        return _open_lab(target, options)
    if target.startswith("mysql://"):
        return _open_server(target, options)
    raise refuse.input(target[:80], "is not watched live", f"Targets are {FORMS}.")


def open_source(
    target: str, options: SourceOptions = SourceOptions(), past: bool = True, seconds: float | None = None
) -> TickSource:
    """Opens any target as a source of ticks. Only for CloudWatch: `past`, with the last hour;
    `seconds`, for how long it is asked (None: for ever). Raises InputError, CouldNotRun."""
    if is_live(target):
        return open_live(target, options)
    if not target.startswith("aws:"):
        return KeptSource(read_evidence(target, options))

    def ask(span_s: float = AWS_AGAIN_S) -> Evidence:
        return read_evidence(target, options, span_s)

    return KeptSource(ask(HOUR_S if past else AWS_AGAIN_S), ask, AWS_EVERY_S, seconds)


def read_evidence(
    target: str,
    options: SourceOptions = SourceOptions(),
    seconds: float | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Evidence:
    """Returns the evidence of a target. A live one is watched for `seconds` (10); a service is
    asked for as many where they are given, else for the options' span; a recording takes none.
    Raises InputError, CouldNotRun."""
    if is_live(target):
        _refuse_times(target, options)
        with closing(open_live(target, options)) as source:
            return collect(source, seconds or LIVE_SECONDS, progress)
    _check_options(options)
    if is_service(target):
        return _load_service(target, options, seconds)
    if seconds is not None:
        rule = f"is how long a live target is watched, and {target[:80]} was recorded before"
        raise refuse.input(f"--seconds {seconds:g}", rule, "Leave it out.")
    if target == STDIN:
        return _load_recording(target, load_target(target, options), options)
    path = Path(target)
    if not target or not path.exists():  # the path of an empty name is the working folder
        raise refuse.input(target[:80] or "''", "is neither a target nor a file or folder", f"Targets are {FORMS}.")
    if path.is_dir():
        if not (path / DESCRIPTION).exists():
            rule = f"has no {DESCRIPTION}: it is not a captured folder"
            raise refuse.input(target[:80], rule, "Capture with headrace workload capture.")
        _refuse_times(target, options)
        captured = files.read_capture_evidence(path, options.storage, options.instance, options.as_of)
        return _select_volumes(captured, options.devices)
    if evidence_file.is_evidence_file(path):
        _refuse_times(target, options)
        return _add_description(_select_volumes(evidence_file.load(path), options.devices), options)
    return _load_recording(target, load_target(target, options), options)


def _check_is_no_workload(target: str, text: str) -> None:
    """Raises InputError for a file of a workload."""
    if detect(text)[1] == OWN_FILE:
        rule = "is a workload file: doctor and watch read recordings, not workload files"
        hint = "Give the recording itself (of iostat, sar, CloudWatch). Workload files are for forecast, plan and simulate."
        raise refuse.input(target[:80], rule, hint)


def load_target(target: str, options: SourceOptions = SourceOptions()) -> LoadedRecording | None:
    """Loads the recording that a target is, or that a service keeps; None for another kind of
    target (live, a captured folder, a recording of Headrace's own). Raises InputError,
    CouldNotRun."""
    check_times(target, options)
    if is_service(target):
        device = options.devices[0] if len(options.devices) == 1 else None
        read_options = ReadOptions(
            span=options.span, step_s=options.interval_s, device=device, progress=options.progress
        )
        return load_recording(target, read_options)
    path = Path(target)
    if is_live(target) or (
        target != STDIN and (path.is_dir() or (path.exists() and evidence_file.is_evidence_file(path)))
    ):
        return None
    recording = open_recording(target)
    if target == STDIN and evidence_file.looks_like_evidence(recording.text[:HEAD_CHARACTERS].encode()):
        rule = "is what --record keeps, which is read from a file"
        raise refuse.input(recording.name, rule, "Name the file instead of -.")
    _check_is_no_workload(target, recording.text)
    return parse_recording(recording)


def make_import_options(target: str, options: SourceOptions, gaps: str | None = None) -> ImportOptions:
    """Returns the options of importing a recording. Raises InputError for several devices."""
    if len(options.devices) > 1:
        several = ", ".join(options.devices)
        hint = "Name one, or the members of an array with + between them: --device nvme1n1+nvme2n1."
        raise refuse.input(f"--device {several}", "a recording is judged one device at a time", hint)
    # A service was asked for the interval, which is in its points.
    interval_s = None if is_service(target) else options.interval_s
    device = options.devices[0] if options.devices else None
    return ImportOptions(device=device, interval_s=interval_s, start=options.clock_start, gaps=gaps)


def find_description(loaded: LoadedRecording, workload: OpenWorkload) -> tuple[str | None, str | None]:
    """Returns storage and instance of a workload's device, where the source knows them."""
    description = loaded.readings.described.get(str(workload.source.get("device")))
    return (None, None) if description is None else (description.storage, description.instance)


def _load_service(target: str, options: SourceOptions, seconds: float | None) -> Evidence:
    """Returns the evidence that a service keeps: of EBS volumes with CloudWatch's checks, of an RDS
    instance and of Prometheus as of a recording. `seconds`: the span, None: as the options say."""
    if seconds is not None:
        options = replace(options, span=replace(options.span or TimeSpan(), last_s=max(LEAST_SECONDS, seconds)))
    if target.startswith("aws:") and not is_database(target):
        check_times(target, options)
        names = parse_names(target)
        return _add_notes(aws.fetch_aws_evidence(names, options.span or TimeSpan(), as_of=options.as_of), options)
    return _load_recording(target, load_target(target, options), options)


def _load_recording(target: str, loaded: LoadedRecording | None, options: SourceOptions) -> Evidence:
    """Returns the evidence in a tool's recording of one device or array. Raises InputError."""
    assert loaded is not None  # what is None was handled before
    storage, instance, unused = options.storage, options.instance, []
    described = loaded.readings.described.values()
    own = next((volume for volume in described if volume.storage), None) if len(described) == 1 else None
    if own is not None:
        if storage is not None:
            unused.append(f"--storage {storage} was not used: AWS says what it is")
        storage, instance = own.storage, own.instance or instance
    evidence = files.build_recording_evidence(
        loaded, make_import_options(target, options, gaps="hold"), storage, instance, options.as_of
    )
    facts = replace(evidence.facts, target="standard input" if target == STDIN else target)
    return replace(evidence, facts=facts, notes=(*evidence.notes, *unused))


def check_times(target: str, options: SourceOptions) -> None:
    """Raises InputError where --interval, --clock-start, --last or --until is given and is for
    another kind of target."""
    allowed = {"--last", "--until"} if is_service(target) else {"--interval", "--clock-start"}
    if target.startswith("prometheus:"):
        allowed.add("--interval")
    _refuse_times(target, options, set(TIMES) - allowed)


def _refuse_times(target: str, options: SourceOptions, names: Collection[str] = TIMES) -> None:
    """Raises InputError where one of these options is given and is for another kind of target."""
    for name, value in options.times_given.items():
        if name in names:
            for_what = "recordings without times" if name in ("--interval", "--clock-start") else "prometheus: and aws:"
            raise refuse.input(f"{name} {value}", f"is for {for_what}, not for {target[:80]}", "Leave it out.")


def _check_options(options: SourceOptions) -> None:
    """Raises InputError for options that cannot be, also where none of them will be used."""
    with translate_core_errors():
        core.volume_eras(options.as_of)
        if options.instance is not None:
            core.instance(options.instance, options.as_of)
    for storage in (options.storage, options.log_storage):
        if storage is not None:
            get_holding_limits(storage, options.instance, options.as_of)


def _select_volumes(evidence: Evidence, devices: tuple[str, ...]) -> Evidence:
    """Returns the volumes that were named (by name, id or device), with the members of arrays among
    them; all where none was. Raises InputError for one that is not there."""
    if not devices:
        return evidence
    names = {}
    for volume in evidence.volumes:
        for name in (volume.facts.name, volume.facts.id, volume.facts.device):
            if name:
                names[name.removeprefix("/dev/")] = volume.facts.name
    named = set()
    for device in devices:
        if device.removeprefix("/dev/") not in names:
            choices = ", ".join(
                f"{volume.facts.name} ({volume.facts.device})" if volume.facts.device else volume.facts.name
                for volume in evidence.volumes
            )
            hint = f"There are: {choices}." if choices else "It has no figures of disks at all."
            raise refuse.input(f"--device {device[:80]}", f"is not in {Path(evidence.facts.target).name}", hint)
        named.add(names[device.removeprefix("/dev/")])
    chosen = tuple(
        volume for volume in evidence.volumes if {volume.facts.name, volume.facts.name.partition("/")[0]} & named
    )
    return replace(
        evidence, facts=replace(evidence.facts, volumes=tuple(volume.facts for volume in chosen)), volumes=chosen
    )


def _add_description(evidence: Evidence, options: SourceOptions) -> Evidence:
    """Returns the evidence with the options' storage and limits for volumes that have none, or with
    a note that the options were not used."""
    unknown = [volume.facts.limits is None and volume.facts.role != "member" for volume in evidence.volumes]
    if options.storage is None or not any(unknown):
        return _add_notes(evidence, options, "the recording says")
    limits = get_holding_limits(options.storage, options.instance, options.as_of)
    volumes = tuple(
        replace(volume, facts=replace(volume.facts, storage=options.storage, limits=limits)) if is_unknown else volume
        for volume, is_unknown in zip(evidence.volumes, unknown, strict=True)
    )
    return replace(evidence, volumes=volumes)


def _add_notes(evidence: Evidence, options: SourceOptions, who: str = "AWS says") -> Evidence:
    """Returns the evidence with a note for each given option that its source ignores. `who`: knows
    better what a volume is."""
    given = {"--storage": options.storage, "--instance": options.instance}
    if evidence.facts.kind == "cloudwatch":
        given["--device"] = ", ".join(options.devices)
    unused = [f"{name} {value} was not used: {who} what the volume is" for name, value in given.items() if value]
    return replace(evidence, notes=(*evidence.notes, *unused))


def _parse_names(target: str, prefix: str, example: str) -> list[str]:
    """Returns the names behind the prefix of a target. Raises InputError for none, or one that is
    there twice."""
    names = [name.strip() for name in target.removeprefix(prefix).split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise refuse.input(target[:80], "names no volume, or names a volume twice", f"For example {example}.")
    return names


def _open_lab(target: str, options: SourceOptions) -> LiveSource:
    """Opens lab:VOLUME with the server on it, unless it is to be read alone. Raises InputError,
    CouldNotRun."""
    names = _parse_names(target, "lab:", "lab:db")
    if options.devices:
        given = f"--device {', '.join(options.devices)}"
        raise refuse.input(given, f"is not for {target[:80]}, which names its volumes itself", "Leave it out.")
    lab = options.lab()
    volumes = LabVolumes(lab, names, options.members)
    server = None if options.alone else _find_server(lab, names, volumes)
    return LiveSource(target, volumes, server, True, volumes.instance, volumes.as_of)


def _find_server(lab: Lab, names: list[str], volumes: LabVolumes) -> ServerReader | None:
    """Returns the reader of the lab's running server whose files lie on one of these volumes."""
    ids = {lab.describe(name)["id"]: name for name in names}
    try:
        for server in list_servers(lab):
            if server.state != "running" or not ({server.volumes.data, server.volumes.log} & set(ids)):
                continue
            if server.volumes.log in ids and server.volumes.log != server.volumes.data:
                volumes.data_roles[ids[server.volumes.log]] = "log"
            return ServerReader(server.make_address())
    except HeadraceError as error:
        volumes.missing.append(f"the server on it: {error.rule}")
    return None


def _open_server(target: str, options: SourceOptions) -> LiveSource:
    """Opens mysql://..., with the volumes below it. Closes the connection again if that fails."""
    from headrace.servers import parse_address

    server = ServerReader((options.read_address or parse_address)(target))
    try:
        return _with_volumes(target, server, options)
    except BaseException:
        server.close()
        raise


def _with_volumes(target: str, server: ServerReader, options: SourceOptions) -> LiveSource:
    """Returns the source of a server with the volumes of its files: of the lab, if they are the
    lab's; else devices of this host with the limits that the options state. A server of another
    machine has none."""
    limits: HoldingLimits | None = None
    if options.storage is not None:
        limits = get_holding_limits(options.storage, options.instance, options.as_of)
    devices = options.devices or tuple(dict.fromkeys(name for name in (server.data_device, server.log_device) if name))
    if not devices:
        return LiveSource(target, None, server, server.local, options.instance, options.as_of)
    of_lab = _find_lab_volumes(devices, server, options) if limits is None else None
    if of_lab is not None:
        return LiveSource(target, of_lab, server, True, of_lab.instance, of_lab.as_of)
    log = server.log_device if server.log_device != server.data_device else None
    of_log = None
    if options.log_storage is not None:
        of_log = get_holding_limits(options.log_storage, options.instance, options.as_of)
    volumes = DeviceVolumes(devices, limits, log=log, log_limits=of_log)
    if limits is None:
        volumes.missing.append("the limits: nobody said what the storage is (--storage)")
    elif log is not None and of_log is None:
        volumes.missing.append(
            f"the limits of {log}, which has the logs: --storage {options.storage},log=STORAGE says it"
        )
    return LiveSource(target, volumes, server, True, options.instance, options.as_of)


def _find_lab_volumes(devices: tuple[str, ...], server: ServerReader, options: SourceOptions) -> LabVolumes | None:
    """Returns the lab's volumes behind these devices; None without a lab or if not its own."""
    try:
        lab = options.lab()
        by_device = {
            str(attached["device"]).removeprefix("/dev/"): volume["name"] or volume["id"]
            for volume in lab.volumes()
            if (attached := volume["attachment"]) and attached["device"]
        }
        names = [by_device.get(device.removeprefix("/dev/")) for device in devices]
        if not names or any(name is None for name in names):
            return None
        volumes = LabVolumes(lab, [name for name in names if name], options.members)
    except HeadraceError:
        return None
    if server.log_device and server.log_device != server.data_device and server.log_device in by_device:
        volumes.data_roles[by_device[server.log_device]] = "log"
    return volumes
