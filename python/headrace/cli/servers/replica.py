"""`headrace replica`: servers that follow each other."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.base.lazy import lazily
from headrace.cli.options import (
    CommandGroup,
    LabPlace,
    OutputOption,
    PasswordOptions,
    ReportOption,
    choice,
    flag,
    option,
    storage_option,
)
from headrace.cli.output import data, exit_if, print_answer, print_json, progress, say, table
from headrace.cli.servers.mysql import complete_server
from headrace.cli.sharing import read_epilog
from headrace.errors import InputError
from headrace.report.output import PAGE_FORMATS, check_chart_path, plain

if TYPE_CHECKING:
    from headrace.servers.topology.lag.watch import LagReading
    from headrace.servers.topology.topology import TopologyMember

with lazily():
    from headrace import servers
    from headrace.lab import exporter
    from headrace.report import html
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
        choice("Method to copy the source's data. Default: MariaDB mariabackup, MySQL clone; binlog copies nothing."),
    ] = None
    position: Annotated[
        str,
        option(
            "gtid|file|FILE:OFFSET",
            "Position to follow from: by GTID, or by file position (of the seed, or one you name).",
        ),
    ] = "gtid"
    channel: Annotated[str, option("NAME", "Add a second source to an existing replica, under this channel name.")] = ""
    delay: Annotated[int, option("S", "Apply this many seconds after the source, on purpose.", min=0)] = 0
    filter: Annotated[
        list[str] | None, option("KIND=NAME", "replicate-do-db=shop and others of its kind. Repeatable.", "--filter")
    ] = None
    workers: Annotated[int | None, option("N", "Applier threads. Default: the server's.", min=0)] = None
    parallel_mode: Annotated[
        str | None, option("MODE", "MariaDB: minimal, conservative, optimistic, aggressive. MySQL: LOGICAL_CLOCK.")
    ] = None
    preserve_order: Annotated[
        bool | None,
        flag("--preserve-order/--no-preserve-order", "Commit in the source's order. Default: the server's."),
    ] = None
    semi_sync: Annotated[
        bool, flag("--semi-sync", "Let the source wait for this replica's answer before it acknowledges a commit.")
    ] = False
    prepare_source: Annotated[
        bool, flag("--prepare-source", "Restart the source with the port, binary log and GTIDs that it lacks.")
    ] = False

    def following(self) -> topology.Following:
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
        option(
            "SOURCE",
            "Server to follow. An existing replica starts without this option.",
            "--of",
            autocompletion=complete_server,
        ),
    ] = None,
    storage: Annotated[str | None, storage_option("Data volumes of the replica. Default: the source's.")] = None,
    log_storage: Annotated[str | None, storage_option("A volume for redo, binary and relay logs.")] = None,
    memory_gib: Annotated[float | None, option("GIB", "Memory of the replica in GiB. Default: the source's.")] = None,
    port: Annotated[int | None, option("PORT", "Port of the replica at 127.0.0.1. Default: a free port.")] = None,
    setting: Annotated[list[str] | None, option("K=V", "An option of the server, on top. Repeatable.", "--set")] = None,
    unpaced: Annotated[
        bool,
        flag("--unpaced", "Leave the replica's volumes without their limits until its next start, to seed quickly."),
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Make a replica; start one that exists; let it follow one source more (--channel)."""
    settings: Any = servers.settings_of(setting)
    following = follow.following()
    with place.open() as lab, progress("seeding") as tick:
        if of is None:
            given = (storage, log_storage, memory_gib, setting, port)
            if following != topology.Following() or unpaced or any(value is not None for value in given):
                rule = "is missing, and what else was given is for a new replica"
                raise InputError("--of", rule, "headrace replica up --help", "Add --of SOURCE, or give the name alone.")
            member = topology.replica_start(lab, name, progress=tick)
        else:
            member = topology.replica_up(
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
    _print([member], output)
    _notes([member])
    exit_if(member.problems)


@app.command()
def status(
    place: LabPlace,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of the server. Default: all.", autocompletion=complete_server),
    ] = None,
    explain: Annotated[
        bool, flag("--explain", "Show what the durability settings of each server cost, and what they can lose.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Show who follows whom, and what is wrong; exit code 1 when something is."""
    with place.open() as lab:
        members = topology.status(lab, name)
    if explain:
        _explain(members, output)
    else:
        _print(members, output)
    _notes(members)
    exit_if(any(member.problems for member in members))


def _explain(members: list[TopologyMember], output: str) -> None:
    """Prints the settings of each server that answers, with their costs and what they can lose."""
    columns = ("name", "setting", "value", "costs", "can_lose")
    rows = [
        {"name": member.server.name} | asdict(each)
        for member in members
        if member.state
        for each in topology_explain.explained(member.state)
    ]
    cells = [[row[key] for key in columns] for row in rows]
    print_answer(rows, output, rows, columns, lambda: (table(("server", *columns[1:4], "can lose"), cells),))


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
        option("ADDRESS", "Servers of your own instead: mysql://USER@HOST:PORT, source and replicas. Repeatable."),
    ] = None,
    seconds: Annotated[
        float | None, option("S", "Seconds to watch. Default: 2, with --watch until Ctrl-C.", min=0.5)
    ] = None,
    watch: Annotated[bool, flag("--watch", "A line for each channel and second, until Ctrl-C.")] = False,
    heartbeat: Annotated[
        bool, flag("--heartbeat", "Write a row on the source ten times a second, for another clock.")
    ] = False,
    prometheus: Annotated[
        int | None, option("PORT", "Serve metrics at 127.0.0.1 instead; 0: a free port.", min=0, max=65535)
    ] = None,
    report: ReportOption = None,
    output: OutputOption = "table",
) -> None:
    """Show how far replicas are behind, by four clocks; exit code 1 when one is broken."""
    if report is not None:
        check_chart_path(report, PAGE_FORMATS)
    listener = None if prometheus is None else exporter.open_port(prometheus)
    with place.open() as lab:
        addresses = [password.read_address(text) for text in server or ()]
        topology_watch = topology.watched(lab, name, addresses, heartbeat)
        with topology_watch.watch as watching:
            record = lag_record.LagRecord(watching, topology_watch.servers)
            if listener is not None:
                return exporter.serve(listener, lambda: metrics.text_of(watching), say)
            each = _lines(name) if watch and output == "table" else lambda readings: None
            with contextlib.suppress(KeyboardInterrupt):
                record.run(seconds or (None if watch else LOOK_S), each)
            last = [reading for reading in watching.read() if name in (None, reading.replica)]
            problems = watching.problems()
    if report is not None:
        html.write_page(report, measured.view_of(record.frame()))
        say(f"{report}: written")
    rows = [asdict(reading) for reading in last]
    if output == "csv" or not watch:
        cells = [_lag_cells(reading) for reading in last]
        print_answer(
            rows, output, record.frame().to_dicts(), tuple(lag_record.SCHEMA), lambda: (table(LAG_COLUMNS, cells),)
        )
    elif output == "json":
        print_json(record.frame().to_dicts())
    for who, problem in problems.items():
        say(f"problem: {who}: {problem}")
    for reading in last:
        if reading.problem:
            say(f"problem: {reading.replica}: {reading.problem}")
    exit_if(problems or any(reading.problem for reading in last))


# s. Long enough for rates, which are taken over a second.
LOOK_S = 2.0
LAG_COLUMNS = (
    "replica",
    "source",
    "lag s",
    "gtid s",
    "heartbeat s",
    "server s",
    "commit s",
    "estimate s",
    "backlog",
    "unapplied",
    "applied/s",
    "state",
)


def _lag_cells(reading: LagReading) -> list[object]:
    """Returns a reading of the lag as cells: lag and clocks in seconds, transactions waiting and
    applied a second, state."""

    def seconds(value: float | None, sign: str = "") -> str:
        return "-" if value is None else f"{sign}{value:.2f}"

    state = "ok" if not reading.problem else f"receive {reading.receive}, apply {reading.apply}"
    replica = reading.replica + (f" ({reading.channel})" if reading.channel else "")
    clocks = reading.clocks
    server_s = "-" if clocks.server_s is None else clocks.server_s
    ages = [seconds(clocks.gtid_s), seconds(clocks.heartbeat_s), server_s, seconds(clocks.commit_s)]
    sign = "" if reading.exact else ">= " if reading.at_least else "~ "
    counts = [
        "-" if value is None else f"{value:,.0f}" for value in (reading.backlog, reading.unapplied, reading.applied_tps)
    ]
    lag = seconds(reading.lag_s, sign)
    return [replica, reading.source, lag, *ages, seconds(clocks.estimate_s), *counts, state]


def _lines(name: str | None) -> Callable[[list[LagReading]], None]:
    """Returns a function that prints a line for each channel, once a second at most. `name`: of one
    replica, None: all."""
    printed = [0.0]

    def each(readings: list[LagReading]) -> None:
        if time.monotonic() - printed[0] < 1.0:
            return
        printed[0] = time.monotonic()
        for reading in readings:
            if name in (None, reading.replica):
                clock = time.strftime("%H:%M:%S", time.localtime(reading.at_unix))
                words = [
                    f"{label} {cell}" for label, cell in zip(LAG_COLUMNS[2:], _lag_cells(reading)[2:], strict=True)
                ]
                data(plain(f"{clock}  {_lag_cells(reading)[0]} < {reading.source}  " + "  ".join(words)) + "\n")

    return each


def _print(members: list[TopologyMember], output: str) -> None:
    """Prints the servers of a topology in the form asked for."""
    rows = [row for member in members for row in member_words.rows_of(member)]
    print_answer(
        [member.to_dict() for member in members],
        output,
        rows,
        member_words.CSV,
        lambda: (table(member_words.COLUMNS, member_words.cells_of(members)),),
    )


def _notes(members: list[TopologyMember]) -> None:
    """Says the problems, warnings and notes of all servers on stderr."""
    for member in members:
        for problem in member.problems:
            say(f"problem: {member.server.name}: {problem}")
        for warning in member.warnings:
            say(f"warning: {member.server.name}: {warning}")
        for note in member.notes:
            say(f"note: {member.server.name}: {note}")
