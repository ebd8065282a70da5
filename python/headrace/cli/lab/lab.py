"""`headrace lab`: the daemon behind the block devices: start, end, look, examine the machine."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import AsOfText
from headrace.cli.lab import keys as key_commands
from headrace.cli.lab.common import VOLUME_CSV, build_volume_table, format_percent_cell, make_volume_row
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    OutputOption,
    ReportOption,
    YesOption,
    make_flag,
    make_instance_option,
    make_option,
)
from headrace.cli.output import (
    confirm,
    exit_if,
    format_pairs,
    make_table,
    print_answer,
    say,
    say_each,
    show_progress,
    write_report,
)
from headrace.cli.sharing import read_epilog
from headrace.errors import Refusals
from headrace.lab.place import API_PORT, METRICS_PORT
from headrace.report.output import PAGE_FORMATS, check_chart_path, sanitize_text

with defer_imports():
    from headrace import lab as lab_client
    from headrace.api.access import keys
    from headrace.api.server import startup
    from headrace.base import machine
    from headrace.bench.comparison import conformance
    from headrace.lab import doctor as lab_doctor
    from headrace.lab import launch, metrics
    from headrace.lab import place as lab_place
    from headrace.report import benchmarks

if TYPE_CHECKING:
    from headrace.lab.calls import LabStatus

EPILOG = read_epilog("lab")

app = CommandGroup("Run block devices on this machine that perform like EBS volumes. Needs Linux and root.", EPILOG)

# The region of a lab that is not up yet and was never told another: the daemon's own default.
REGION = "us-east-1"
refuse = Refusals("headrace lab user --help")

app.add_typer(key_commands.commands, name="key")


@app.command()
def events(
    place: LabPlace,
    follow: Annotated[bool, make_flag("--follow", "Print new events as they come, until Ctrl-C.")] = False,
    cursor: Annotated[str | None, make_option("CURSOR", "Only events after this cursor; `now`: only new ones.")] = None,
    as_json: Annotated[bool, make_flag("--json", "Events as EventBridge writes them, one a line.")] = False,
) -> None:
    """Print changes of state, oldest first; the cursor for the next time goes to stderr."""
    _print_events(place, follow, cursor, as_json)


EndpointPort = Annotated[int, make_option("PORT", "Port of the endpoint, where the lab is not up.", min=1, max=65535)]

INSTANCE = "EC2 type whose EBS limits all volumes share; `none`: the volumes alone. Default: as before."


@app.command()
def up(
    *,
    place: LabPlace,
    instance: Annotated[str | None, make_instance_option(INSTANCE)] = None,
    as_of: AsOfText = None,
    time_scale: Annotated[
        int | None, make_option("N", "Modifications go N times as fast. Devices never do. Default: as before.", min=1)
    ] = None,
    metrics_port: Annotated[
        int, make_option("PORT", "Prometheus endpoint on 127.0.0.1; 0: none.", min=0, max=65535)
    ] = METRICS_PORT,
    api_port: Annotated[
        int, make_option("PORT", "Endpoint of the AWS tools on 127.0.0.1; 0: none.", min=0, max=65535)
    ] = API_PORT,
    snapshot_store: Annotated[
        str | None,
        make_option(
            "URL",
            "Object store of snapshots: file:///FOLDER or s3://BUCKET/PREFIX. Default: as before; at first, the lab's folder.",
        ),
    ] = None,
    group: Annotated[
        str | None, make_option("GROUP", "Group whose members may use the lab too, by name or number.")
    ] = None,
    foreground: Annotated[
        bool, make_flag("--foreground", "Run in the foreground and log to stderr, for systemd and containers.")
    ] = False,
) -> None:
    """Start the lab, and wait until it answers.

    If the lab is up and its AWS endpoint has ended, the endpoint is started again.
    """
    settings = lab_client.Settings(instance, as_of, time_scale, metrics_port, group, api_port, snapshot_store)
    if foreground:
        return lab_client.become_daemon(place.data_dir, place.socket, settings)
    try:
        start = lab_client.start_lab(place.data_dir, place.socket, settings)
    except lab_client.LabRefused as refused:
        if refused.kind != "in-use" or not _restart_endpoint(place, api_port):
            raise
        return None
    with start as lab:
        say(f"lab up: process {lab.get_pid()}, {lab.place.socket}")
        say_each("note", lab_client.list_notes(lab.status()))


def _restart_endpoint(place: LabPlace, api_port: int) -> bool:
    """Starts the AWS endpoint of a lab that is up again where it has ended, at its former port
    unless another is named; returns whether it did."""
    with place.open() as lab:
        endpoint = startup.find_endpoint(Path(lab.status()["data_dir"]))
        if endpoint is None or endpoint.answers or not api_port:
            return False
        former_port = int(endpoint.url.rpartition(":")[2])
        lab_client.serve_again(lab, former_port if api_port == API_PORT else api_port)
    say("the lab is up already; its AWS endpoint had ended, and is started again")
    return True


@app.command()
def down(
    place: LabPlace,
    force: Annotated[
        bool, make_flag("--force", "End it even while volumes are mounted: unwritten data are lost.")
    ] = False,
) -> None:
    """Detach everything and end the lab; its volumes stay."""
    with place.open() as client:
        pid = lab_client.stop_lab(client, force)
    say(f"lab down: process {pid} has ended")


@app.command()
def status(place: LabPlace, output: OutputOption = "table") -> None:
    """Show the lab and its volumes; csv has a row a volume."""
    with place.open() as lab:
        answer = lab.status()
        volumes = lab.volumes()
    endpoint = startup.find_endpoint(Path(answer["data_dir"]))
    if endpoint is not None and not endpoint.answers:
        say(f"note: the AWS endpoint at {endpoint.url} has ended: headrace lab up starts it again")
    say_each("note", lab_client.list_notes(answer))
    api_url = endpoint.url if endpoint is not None and endpoint.answers else None
    rows = [make_volume_row(volume) for volume in volumes]
    print_answer(
        {**answer, "api_url": api_url, "volumes": volumes},
        output,
        rows,
        VOLUME_CSV,
        lambda: (format_pairs(_list_settings(answer, api_url)), "", build_volume_table(volumes)),
    )


def _list_settings(answer: LabStatus, api_url: str | None) -> list[tuple[str, object]]:
    """Returns the facts of the lab that a person asks for first."""
    balance, recording = answer.get("instance_balance"), answer.get("recording")
    broken = None if recording is None else recording["broken"]
    kinds = () if balance is None else (("iops", balance["iops_percent"]), ("bytes", balance["bytes_percent"]))
    balances = [f"{kind} {format_percent_cell(value)}" for kind, value in kinds if value is not None]
    scale = f"{answer['time_scale']} x as fast as the wall clock"
    return [
        ("lab", f"headraced {answer['version']}, process {answer['pid']}"),
        ("directory", answer["data_dir"]),
        ("socket", answer["socket"]),
        ("instance", answer.get("instance_type") or "none: the volumes alone"),
        ("its balance", ", ".join(balances)),
        ("limits as of", answer["as_of"]),
        ("lab time", f"{answer['lab_time']}, {scale}; up {metrics.describe_time(answer['uptime_s'])}"),
        ("volumes", f"{answer['volumes']}, {answer['attached']} attached"),
        ("metrics", answer.get("metrics_url")),
        ("AWS endpoint", api_url),
        ("recording", recording and recording["path"] + (f", ended early: {broken}" if broken else "")),
    ]


@app.command()
def doctor(place: LabPlace, output: OutputOption = "table") -> None:
    """Check whether this machine can run a lab and benchmarks; exit code 1 when something that a
    lab needs is missing."""
    checks = lab_doctor.examine(place.data_dir, place.socket)
    names = {check.what for check in checks}
    checks += [_check_tool(tool) for tool in machine.list_tools() if tool.tool not in names]
    rows = [(check.state, check.what, check.finding, check.do) for check in checks]
    documents = [{"what": check.what, "state": check.state, "found": check.finding, "do": check.do} for check in checks]
    missing = [check.what for check in checks if check.state == "missing"]
    verdict = f"A lab cannot run here yet: {', '.join(missing)}." if missing else "A lab can run here."
    parts = (make_table(("", "what", "found", "do"), rows), "", verdict)
    print_answer(documents, output, documents, ("what", "state", "found", "do"), lambda: parts)
    exit_if(lab_doctor.lacks(checks))


def _check_tool(tool: machine.ToolState) -> lab_doctor.Check:
    """Returns the state of a benchmark's program as a check: a lab runs without it."""
    facts = " ".join(part for part in (tool.version, tool.path) if part) or "not installed"
    state = lab_doctor.OK if tool.state == "fine" else lab_doctor.NOTE
    return lab_doctor.Check(tool.tool, state, f"{facts}; for {tool.used_by}", tool.hint)


@app.command()
def verify(
    place: LabPlace,
    quick: Annotated[
        bool,
        make_flag(
            "--quick", "Test three types for three seconds a load, about a minute. Default: nine types, some minutes."
        ),
    ] = False,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Measure with fio whether the lab's volumes do what the catalog and the model say; exit code 1
    when one does not."""
    check_chart_path(report, PAGE_FORMATS)
    with place.open() as lab, show_progress("measuring") as tick:
        findings = conformance.verify(lab, quick, tick)
    write_report(report, lambda: benchmarks.build_conformance_view(findings))
    rows = [asdict(finding) for finding in findings]
    columns = tuple(field.name for field in fields(conformance.ConformanceFinding))
    print_answer(
        rows,
        output,
        rows,
        columns,
        lambda: (benchmarks.build_conformance_table(findings), "", *benchmarks.describe_conformance(findings)),
    )
    exit_if(any(finding.within is False for finding in findings))


def _get_folder(place: LabPlace) -> Path:
    return launch.get_data_folder(lab_place.find_place(place.data_dir, place.socket))


@app.command()
def init(
    place: LabPlace,
    force: Annotated[bool, make_flag("--force", "Replace a profile of this name that says something else.")] = False,
    no_profile: Annotated[bool, make_flag("--no-profile", "Write no profile; print its lines.")] = False,
    api_port: EndpointPort = API_PORT,
) -> None:
    """Make the lab's key pair, and the profile `headrace` of the AWS tools.

    The key pair is made once; what else stands in ~/.aws stays as it is.
    """
    folder = _get_folder(place)
    pair, is_new = keys.ensure_root_pair(folder)
    startup.wait_for_keys(folder)
    say(f"{'made' if is_new else 'kept'} the key pair {pair.access_key} in {keys.get_key_folder(folder)}")
    endpoint = startup.find_endpoint(folder)
    url, region = (endpoint.url, endpoint.region) if endpoint else (f"http://127.0.0.1:{api_port}", REGION)
    parts = keys.build_profile_sections(pair.access_key, pair.secret, region, url)
    if no_profile:
        where = keys.find_profile_files()
        for kind, path in (("config", where.config), ("credentials", where.credentials)):
            say(f"for {path}:")
            print("\n".join([*keys.build_profile_lines(*parts[kind]), ""]))
        return
    for path in keys.write_profile(keys.find_profile_files(), parts, force) or [None]:
        say(f"wrote the profile {keys.PROFILE} to {path}" if path else f"the profile {keys.PROFILE} is as it has to be")
    if endpoint is None or not endpoint.answers:
        say("no endpoint of the lab answers yet: sudo $(command -v headrace) lab up")
    say(f"try: aws --profile {keys.PROFILE} ec2 describe-volumes")


@app.command()
def user(
    place: LabPlace,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the user. Default: list the users.")
    ] = None,
    policy: Annotated[
        list[Path] | None, make_option("FILE", "Make the user, with this IAM policy document (JSON). Repeatable.")
    ] = None,
    remove: Annotated[bool, make_flag("--remove", "Remove the user; its key is refused from then on.")] = False,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Make a user with a key pair and print the lines of a profile for it, or remove one. Without a
    name: list the users."""
    folder = _get_folder(place)
    if name is None:
        if policy or remove:
            raise refuse.input("NAME", "is missing", "Name the user to make or remove.")
        return _print_users(folder, output)
    if remove == bool(policy):
        raise refuse.input(name, "a user has --policy, or goes with --remove", "Give one of the two.")
    if remove:
        _remove_user(folder, name, yes)
    else:
        _add_user(folder, name, policy or [])


def _add_user(folder: Path, name: str, policy: list[Path]) -> None:
    """Makes a user, and prints its profile."""
    pair = keys.add_user(folder, name, policy)
    startup.wait_for_keys(folder)
    endpoint = startup.find_endpoint(folder)
    url, region = (endpoint.url, endpoint.region) if endpoint else (f"http://127.0.0.1:{API_PORT}", REGION)
    say(f"made user {name}; the secret is shown once, and lies in {keys.get_key_folder(folder)}")
    print(f"[headrace-{name}]\naws_access_key_id = {pair.access_key}\naws_secret_access_key = {pair.secret}")
    print(f"region = {region}\nendpoint_url = {url}")


def _print_users(folder: Path, output: str) -> None:
    """Prints the users, their keys and how many policies they have; no secrets."""
    columns = ("user", "access_key_id", "policies")
    rows = [
        {
            "user": pair.user,
            "access_key_id": pair.access_key,
            "policies": None if pair.policies is None else len(pair.policies),
        }
        for pair in keys.read_pairs(folder).values()
    ]
    cells = [(row["user"], row["access_key_id"], "all" if row["policies"] is None else row["policies"]) for row in rows]
    print_answer(rows, output, rows, columns, lambda: (make_table(columns, cells),))


def _remove_user(folder: Path, name: str, yes: bool) -> None:
    """Removes a user. Asks first: a key is never made again."""
    access_key = keys.get_user_key(folder, name)
    question = f"Remove {name}, whose key {access_key} is refused then?"
    confirm(yes, question, name, f"would lose its key {access_key} for good")
    keys.remove_user(folder, name)
    startup.wait_for_keys(folder)
    say(f"removed user {name}")


# Seconds between two requests for new events.
LOOK_EVERY_S = 0.5


def _print_events(place: LabPlace, follow: bool, cursor: str | None, as_json: bool) -> None:
    """Prints changes of state, and with `follow` new ones until an interrupt; says the cursor
    behind the last."""
    with place.open() as lab:
        while True:
            answer = lab.events_since(cursor)
            if answer["lost"]:
                say(f"note: {answer['lost']} events after the cursor are no longer kept")
            for event in answer["events"]:
                print(json.dumps(event) if as_json else sanitize_text(_describe_event(event)), flush=True)
            cursor = answer["cursor"]
            if answer["events"]:
                continue
            if not follow:
                break
            time.sleep(LOOK_EVERY_S)
    say(f"cursor: {cursor}")


def _describe_event(event: Mapping[str, Any]) -> str:
    """Returns an event of the lab as a line: time, type, what it is about, and the change of
    state."""
    detail = event["detail"]
    subject = " ".join(resource.rpartition(":")[2] for resource in event["resources"])
    if "event" in detail:
        words = f"{detail['event']} {detail['result']} {detail.get('cause') or ''}"
    elif "previousState" in detail:
        words = f"{detail['previousState']['value']} -> {detail['state']['value']}: {detail['state']['reason']}"
    else:
        words = " ".join(str(detail[name]) for name in ("state", "zone", "operation") if name in detail)
    return f"{event['time']}  {event['detail-type']}  {subject}  {words}".rstrip()
