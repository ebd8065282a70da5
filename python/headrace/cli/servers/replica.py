"""`headrace replica`: servers that follow each other."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    OutputOption,
    PasswordOptions,
    ReportOption,
    SettingOption,
    make_choice,
    make_flag,
    make_option,
    make_storage_option,
)
from headrace.cli.output import (
    exit_if,
    make_table,
    print_answer,
    print_data,
    print_json,
    say,
    say_each,
    show_progress,
    write_report,
)
from headrace.cli.servers.mysql import complete_server
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.report.output import PAGE_FORMATS, check_chart_path, sanitize_text

if TYPE_CHECKING:
    from headrace.servers.topology.lag.watch import LagReading
    from headrace.servers.topology.topology import TopologyMember

with defer_imports():
    from headrace import servers
    from headrace.lab import exporter
    from headrace.report.replication import measured
    from headrace.report.replication import members as member_words
    from headrace.servers.topology import explain as topology_explain
    from headrace.servers.topology import topology
    from headrace.servers.topology.lag import metrics
    from headrace.servers.topology.lag import record as lag_record

EPILOG = read_epilog("replica")

app = CommandGroup("Make replicas of servers of the lab, and see how far they are behind.", EPILOG)

Seed = Literal["copy", "snapshot", "clone", "mariabackup", "binlog"]
FILE_POSITION = re.compile(r"(?P<file>[A-Za-z0-9_./-]+):(?P<offset>[0-9]{1,12})", re.ASCII)
ReplicaArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The replica's name.", autocompletion=complete_server)
]


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
    """Options about the way a replica follows its source."""

    seed: Annotated[
        Seed | None,
        make_choice(
            "Method to copy the source's data. Default: MariaDB mariabackup, MySQL clone; binlog copies nothing."
        ),
    ] = None
    position: Annotated[
        str,
        make_option(
            "gtid|file|FILE:OFFSET",
            "Position to follow from: by GTID, or by file position (of the seed, or one you name).",
        ),
    ] = "gtid"
    channel: Annotated[
        str, make_option("NAME", "Add a second source to an existing replica, under this channel name.")
    ] = ""
    delay: Annotated[int, make_option("S", "Apply this many seconds after the source, on purpose.", min=0)] = 0
    filter: Annotated[
        list[str] | None,
        make_option("KIND=NAME", "Replication filter, such as replicate-do-db=shop. Repeatable.", "--filter"),
    ] = None
    workers: Annotated[int | None, make_option("N", "Applier threads. Default: the server's.", min=0)] = None
    parallel_mode: Annotated[
        str | None, make_option("MODE", "MariaDB: minimal, conservative, optimistic, aggressive. MySQL: LOGICAL_CLOCK.")
    ] = None
    preserve_order: Annotated[
        bool | None,
        make_flag("--preserve-order/--no-preserve-order", "Commit in the source's order. Default: the server's."),
    ] = None
    semi_sync: Annotated[
        bool, make_flag("--semi-sync", "Let the source wait for this replica's answer before it acknowledges a commit.")
    ] = False
    prepare_source: Annotated[
        bool, make_flag("--prepare-source", "Restart the source with the port, binary log and GTIDs that it lacks.")
    ] = False

    def make_following(self) -> topology.Following:
        """Returns the options in the library's form. Raises InputError."""
        match = FILE_POSITION.fullmatch(self.position)
        if self.position not in ("gtid", "file") and match is None:
            raise InputError(
                f"--position {self.position[:60]}",
                "is gtid, file, or FILE:OFFSET",
                "",
                "For example binlog.000004:157.",
            )
        position = (match["file"], int(match["offset"])) if match else self.position
        filters: dict[str, tuple[str, ...]] = {}
        for text in self.filter or ():
            kind, equals, name = text.partition("=")
            if not equals:
                raise InputError(f"--filter {text[:60]}", "is KIND=NAME", "", "Write it like replicate-do-db=shop.")
            filters[kind] = (*filters.get(kind, ()), name)
        return topology.Following(
            seed=self.seed,
            position=position,
            channel=self.channel,
            delay_s=self.delay,
            filters=filters,
            workers=self.workers,
            parallel_mode=self.parallel_mode,
            preserve_order=self.preserve_order,
            semi_sync=self.semi_sync,
            prepare_source=self.prepare_source,
        )


@app.command()
def up(
    *,
    place: LabPlace,
    follow: FollowOptions,
    name: ReplicaArgument,
    of: Annotated[
        str | None,
        make_option(
            "SOURCE",
            "Server to follow. An existing replica starts without this option.",
            "--of",
            autocompletion=complete_server,
        ),
    ] = None,
    storage: Annotated[str | None, make_storage_option("Data volumes of the replica. Default: the source's.")] = None,
    log_storage: Annotated[str | None, make_storage_option("A volume for redo, binary and relay logs.")] = None,
    memory_gib: Annotated[
        float | None, make_option("GIB", "Memory of the replica in GiB. Default: the source's.")
    ] = None,
    port: Annotated[int | None, make_option("PORT", "Port of the replica at 127.0.0.1. Default: a free port.")] = None,
    setting: SettingOption = None,
    unpaced: Annotated[
        bool,
        make_flag(
            "--unpaced", "Leave the replica's volumes without their limits until its next start, to seed quickly."
        ),
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Create a replica, start an existing one, or add a source to it (--channel)."""
    settings: Any = servers.parse_settings(setting)
    following = follow.make_following()
    with place.open() as lab, show_progress("seeding") as tick:
        if of is None:
            given = (storage, log_storage, memory_gib, setting, port)
            if following != topology.Following() or unpaced or any(value is not None for value in given):
                rule = "is missing, and what else was given is for a new replica"
                raise InputError("--of", rule, "headrace replica up --help", "Add --of SOURCE, or give the name alone.")
            member = topology.start_replica(lab, name, progress=tick)
        else:
            member = topology.bring_up_replica(
                lab,
                name,
                of,
                following,
                storage=storage,
                log_storage=log_storage,
                memory_gib=memory_gib,
                settings=settings,
                port=port,
                unpaced=unpaced,
                progress=tick,
            )
    _print_members([member], output)
    _say_notes([member])
    exit_if(member.problems)


@app.command()
def status(
    place: LabPlace,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of the server. Default: all.", autocompletion=complete_server),
    ] = None,
    explain: Annotated[
        bool, make_flag("--explain", "Show what the durability settings of each server cost, and what they can lose.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Show who follows whom, and what is wrong; exit code 1 when something is."""
    with place.open() as lab:
        members = topology.list_topology(lab, name)
    if explain:
        _explain_durability(members, output)
    else:
        _print_members(members, output)
    _say_notes(members)
    exit_if(any(member.problems for member in members))


def _explain_durability(members: list[TopologyMember], output: str) -> None:
    """Prints the durability settings of each server that answers, with their costs and what they
    can lose."""
    columns = ("name", "setting", "value", "costs", "can_lose")
    rows = [
        {"name": member.server.name} | asdict(each)
        for member in members
        if member.state
        for each in topology_explain.explain_settings(member.state)
    ]
    cells = [[row[key] for key in columns] for row in rows]
    print_answer(rows, output, rows, columns, lambda: (make_table(("server", *columns[1:4], "can lose"), cells),))


@app.command()
def lag(
    *,
    place: LabPlace,
    password: PasswordOptions,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of the replica. Default: all.", autocompletion=complete_server),
    ] = None,
    server: Annotated[
        list[str] | None,
        make_option("ADDRESS", "Servers of your own instead: mysql://USER@HOST:PORT, source and replicas. Repeatable."),
    ] = None,
    seconds: Annotated[
        float | None, make_option("S", "Seconds to watch. Default: 2, with --watch until Ctrl-C.", min=0.5)
    ] = None,
    watch: Annotated[bool, make_flag("--watch", "A line for each channel and second, until Ctrl-C.")] = False,
    heartbeat: Annotated[
        bool, make_flag("--heartbeat", "Write a row on the source ten times a second, for another clock.")
    ] = False,
    prometheus: Annotated[
        int | None, make_option("PORT", "Serve metrics at 127.0.0.1 instead; 0: a free port.", min=0, max=65535)
    ] = None,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Show how far replicas are behind, by up to five clocks; exit code 1 if one is broken."""
    if report is not None:
        check_chart_path(report, PAGE_FORMATS)
    listener = None if prometheus is None else exporter.open_port(prometheus)
    with place.open() as lab:
        addresses = [password.read_address(text) for text in server or ()]
        topology_watch = topology.make_watch(lab, name, addresses, heartbeat)
        with topology_watch.watch as watching:
            record = lag_record.LagRecord(watching, topology_watch.servers)
            if listener is not None:
                return exporter.serve(listener, lambda: metrics.format_metrics(watching), say)
            on_readings = _make_line_printer(name) if watch and output == "table" else lambda readings: None
            with contextlib.suppress(KeyboardInterrupt):
                record.run(seconds or (None if watch else LOOK_S), on_readings)
            last = [reading for reading in watching.read() if name in (None, reading.replica)]
            problems = watching.list_problems()
    write_report(report, lambda: measured.build_view(record.build_frame()))
    rows = [asdict(reading) for reading in last]
    if output == "csv" or not watch:
        cells = [member_words.list_clock_cells(reading) for reading in last]
        parts = (make_table(member_words.CLOCK_COLUMNS, cells),)
        print_answer(rows, output, record.build_frame().to_dicts(), tuple(lag_record.SCHEMA), lambda: parts)
    elif output == "json":
        print_json(record.build_frame().to_dicts())
    all_problems = [*problems.items(), *((reading.replica, reading.problem) for reading in last if reading.problem)]
    say_each("problem", (f"{server_name}: {problem}" for server_name, problem in all_problems))
    exit_if(all_problems)


# Seconds that `lag` watches by default: long enough for rates, which are taken over a second.
LOOK_S = 2.0


def _make_line_printer(name: str | None) -> Callable[[list[LagReading]], None]:
    """Returns a function that prints readings of lag, a line for each channel, at most once a
    second. `name`: of the replica whose channels are printed, None: all."""
    printed = [0.0]

    def print_lines(readings: list[LagReading]) -> None:
        if time.monotonic() - printed[0] < 1.0:
            return
        printed[0] = time.monotonic()
        for reading in readings:
            if name in (None, reading.replica):
                clock = time.strftime("%H:%M:%S", time.localtime(reading.at_unix))
                replica, source, *cells = member_words.list_clock_cells(reading)
                words = [f"{label} {cell}" for label, cell in zip(member_words.CLOCK_COLUMNS[2:], cells, strict=True)]
                print_data(sanitize_text(f"{clock}  {replica} < {source}  " + "  ".join(words)) + "\n")

    return print_lines


def _print_members(members: list[TopologyMember], output: str) -> None:
    """Prints the servers of a topology in the form asked for."""
    rows = [row for member in members for row in member_words.list_rows(member)]
    print_answer(
        [member.to_dict() for member in members],
        output,
        rows,
        member_words.CSV,
        lambda: (make_table(member_words.COLUMNS, member_words.list_cells(members)),),
    )


def _say_notes(members: list[TopologyMember]) -> None:
    """Says the problems, warnings and notes of all servers on stderr."""
    for member in members:
        say_each(f"problem: {member.name}", member.problems)
        say_each(f"warning: {member.name}", member.warnings)
        say_each(f"note: {member.name}", member.notes)
