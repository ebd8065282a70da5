"""`headrace mysql`: real servers on volumes of the lab."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.base.lazy import defer_imports
from headrace.base.options import spell_flag
from headrace.cli import INTERRUPTED
from headrace.cli.options import (
    CommandGroup,
    Engine,
    LabPlace,
    Output,
    OutputOption,
    SettingOption,
    YesOption,
    make_choice,
    make_flag,
    make_option,
    make_storage_option,
    open_lab,
)
from headrace.cli.output import (
    confirm,
    exit_if,
    format_pairs,
    make_table,
    print_answer,
    print_rows,
    say,
    say_each,
    show_progress,
)
from headrace.cli.sharing import read_epilog
from headrace.errors import CouldNotRun, HeadraceError, InputError

if TYPE_CHECKING:
    from headrace.servers import Server
    from headrace.servers.topology.group import GroupMember

with defer_imports():
    from headrace import servers
    from headrace.mysql import address as mysql_address
    from headrace.servers import install as servers_install
    from headrace.servers import record
    from headrace.servers.topology import ending as topology_ending
    from headrace.servers.topology import group as topology_group

EPILOG = read_epilog("mysql")

app = CommandGroup(
    "Run real servers on volumes of the lab: MariaDB and MySQL, InnoDB and MyRocks. Needs Linux and root.", EPILOG
)

Flavor = Literal["mariadb", "mysql"]


def complete_server(context: typer.Context, incomplete: str) -> list[str]:
    """Returns names of servers for the shell; nothing where this user may not look."""
    try:
        with open_lab(context) as lab:
            return [name for name in record.list_names(record.find_data_dir(lab)) if name.startswith(incomplete)]
    except (HeadraceError, OSError, KeyError):
        return []


ServerArgument = Annotated[
    str, typer.Argument(metavar="[NAME]", help="Name of the server. Default: db.", autocompletion=complete_server)
]
CONFIG = "The server's own defaults, the advice for this storage, or an option file's [mysqld]."
MEMORY = "Memory of the server; 3/4 of it is cache, but 2 GiB (half of 4 GiB or less) stay free. Default: a cache of 128 MiB."


@dataclass(frozen=True, kw_only=True)
class NewServerOptions:
    """Options of a new server; an existing server keeps its own."""

    flavor: Annotated[Flavor | None, make_choice("Flavor of the server. Default: mariadb.")] = None
    engine: Annotated[
        Engine | None, make_choice("Default storage engine; MyRocks comes with MariaDB. Default: innodb.")
    ] = None
    storage: Annotated[
        str | None, make_storage_option("The data volumes of a new server: gp3:100:6000, 2xgp2:500.")
    ] = None
    log_storage: Annotated[
        str | None, make_storage_option("A volume of its own for redo, binary or write-ahead log.")
    ] = None
    config: Annotated[str | None, make_option("default|tuned|FILE", CONFIG)] = None
    memory_gib: Annotated[float | None, make_option("GIB", MEMORY)] = None
    port: Annotated[
        int | None, make_option("PORT", "Also listen at 127.0.0.1, with TLS. Default: a Unix socket alone.")
    ] = None
    server_path: Annotated[
        Path | None,
        make_option("FILE", "Another server: its mysqld or mariadbd, or its base directory.", readable=False),
    ] = None
    unpaced: Annotated[
        bool,
        make_flag("--unpaced", "Leave the volumes without their limits until the next `up`, to load data quickly."),
    ] = False
    encrypted: Annotated[bool, make_flag("--encrypted", "Encrypt its volumes with the lab's key for EBS.")] = False
    own_address: Annotated[
        bool,
        make_flag("--own-address", "Listen at an address of its own (a network namespace), whose link can be cut."),
    ] = False
    seed_from: Annotated[
        str | None,
        make_option(
            "FOLDER|SNAPSHOT",
            "Begin with data of `headrace mysql down --save`, or with a snapshot of a data volume, not with an empty server.",
            "--from",
        ),
    ] = None


@app.command()
def up(
    place: LabPlace,
    new: NewServerOptions,
    name: ServerArgument = "db",
    group: Annotated[
        int | None, make_option("N", "MySQL's group replication: N members, NAME-1 to NAME-N, 3 at least.")
    ] = None,
    setting: SettingOption = None,
    output: OutputOption = "table",
) -> None:
    """Create a server and start it, or start an existing one with its data."""
    settings = servers.parse_settings(setting)
    if group is not None:
        return _group_up(place, new, name, group, settings, output)
    with place.open() as lab, show_progress("starting") as tick:
        server = servers.bring_up(lab, name=name, settings=settings, progress=tick, **vars(new))
    _say_notes(server)
    _print_server(server, output)


def _group_up(
    place: LabPlace,
    new: NewServerOptions,
    name: str,
    size: int,
    settings: dict[str, str | None] | None,
    output: Output,
) -> None:
    """Starts the servers of a group and prints them. Raises InputError for options that a group
    does not have. `size`: servers."""
    shared = ("storage", "log_storage", "memory_gib", "own_address", "unpaced")
    given = [key for key, value in vars(new).items() if value is not None and value is not False]  # 0 is given, too
    others = [key for key in given if key not in (*shared, "flavor")]
    if others:
        option_name = "--from" if others[0] == "seed_from" else spell_flag(others[0])
        raise InputError(option_name, "is not for a group", "headrace mysql up --help", "Leave it out, or use --set.")
    if new.flavor != "mysql":
        hint = "Add --flavor mysql. MariaDB: headrace replica up."
        raise InputError(f"--group {size}", "is group replication, which MySQL alone has", "", hint)
    with place.open() as lab, show_progress("starting") as tick:
        members = topology_group.group_up(
            lab, name, size, settings=settings, progress=tick, **{key: getattr(new, key) for key in shared}
        )
    _print_servers(members, output)


@app.command()
def down(
    *,
    place: LabPlace,
    name: ServerArgument = "db",
    channel: Annotated[
        str | None, make_option("NAME", "Leave the replica up and remove this channel of it ('' is the unnamed one).")
    ] = None,
    kill: Annotated[bool, make_flag("--kill", "End it at once, as a crash would: the next start recovers.")] = False,
    mount: Annotated[
        bool, make_flag("--mount", "Mount its volumes afterwards, to delete files on a full one, until `down` or `up`.")
    ] = False,
    save: Annotated[
        Path | None, make_option("FOLDER", "Copy its data afterwards to this new folder, for `mysql up --from FOLDER`.")
    ] = None,
    yes: YesOption = False,
    output: OutputOption = "table",
) -> None:
    """Shut a server down; its volumes and data stay, and a replica follows on at its next start.
    The command asks first if replicas follow it, or if a source waits for its
    acknowledgement."""
    if channel is not None and (mount or save is not None or kill):
        raise InputError("--channel", "leaves the server up", "headrace mysql down --help", "Leave the others out.")
    with place.open() as lab:
        server = servers.find(lab, name)
        if channel is not None:
            return _end_channel(server, channel, yes)
        _confirm_end(yes, name, topology_ending.list_consequences(lab, server))
        with _explain_ending(name), show_progress("ending") as tick:
            ended = servers.stop(server, kill, progress=tick)
        if server.state == "stopped":
            say(f"{name}: is stopped already")
        else:
            say(f"{name}: ended" + ("" if ended.clean else " without a clean shutdown: the next start recovers"))
        if save is not None:
            say(f"{name}: saved in {servers.save_data(ended, save)}")
        if mount:
            _mount(ended, output)


def _end_channel(server: Server, channel: str, yes: bool) -> None:
    """Ends a channel for good, after a question unless `yes`. Raises InputError where that is not
    possible."""
    topology_ending.check_channel(server, channel)  # before anybody is asked
    quoted = channel or "''"
    confirm(yes, f"End channel {quoted} of {server.name} for good?", server.name, "would end a channel for good")
    topology_ending.end_channel(server, channel)
    say(f"{server.name}: follows channel {quoted} no longer")


def _mount(server: Server, output: Output) -> None:
    """Mounts the volumes of a server that is down, and prints where they are, their size and free
    space."""
    mounts = servers.mount(server)
    rows = [{**vars(mount), "place": str(mount.place)} for mount in mounts]
    cells = [
        (mount.volume, mount.place, f"{mount.size_bytes / GIB:.2f} GiB", f"{mount.free_bytes / GIB:.2f} GiB")
        for mount in mounts
    ]
    print_answer(rows, output, rows, MOUNTED, lambda: (make_table(("volume", "mounted at", "size", "free"), cells),))
    say(
        f"{server.name}: binary logs are in log/ (keep the last of them), and other files of the server in data/ are not"
        f" to be touched. Then: headrace mysql up {server.name}, or headrace failover rejoin {server.name}"
    )


GIB = 1 << 30  # bytes
MOUNTED = ("volume", "role", "place", "size_bytes", "free_bytes")


@app.command()
def status(
    place: LabPlace,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a server, or of a group. Default: all servers.",
            autocompletion=complete_server,
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Show servers and what is wrong with them, or a group's members, as each sees itself; exit
    code 1 when something is wrong, or a member is not online."""
    with place.open() as lab:
        if name and (members := topology_group.list_members(lab, name)):
            return _print_group(topology_group.query_group_status(members), output)
        chosen = [servers.find(lab, name)] if name else servers.list_servers(lab)
        chosen = [servers.with_room(server) for server in chosen]
    if name:
        _print_server(chosen[0], output)
    else:
        _print_servers(chosen, output)
    for server in chosen:
        _say_notes(server)
    exit_if(any(server.problems for server in chosen))


def _print_group(members: Sequence[GroupMember], output: Output) -> None:
    """Prints the members of a group; exit code 1 when one is not online."""
    rows = [vars(member) for member in members]
    print_rows(rows, output, ("name", "state", "role", "waiting", "executed"))
    exit_if(not all(member.is_online for member in members))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def cli(context: typer.Context, place: LabPlace, name: ServerArgument = "db") -> None:
    """Open a SQL session on the server. Words after NAME are passed to the client: -e 'SHOW
    STATUS'."""
    with place.open() as lab:
        arguments = servers.build_client_command(servers.find(lab, name), tuple(context.args))
    sys.stdout.flush()
    os.execve(arguments[0], arguments, {**os.environ, **mysql_address.TOOL_ENVIRONMENT})


@app.command()
def destroy(place: LabPlace, name: ServerArgument = "db", yes: YesOption = False) -> None:
    """Shut a server down and delete its volumes, with all data."""
    with place.open() as lab:
        server = servers.find(lab, name)
        for reason in topology_ending.list_consequences(lab, server):
            say(f"{name}: {reason}")
        confirm(yes, f"Delete {name} ({server.storage}) and all its data?", name, "would be deleted with its data")
        servers.destroy(server)
    say(f"{name}: gone")


@app.command()
def install(
    flavor: Annotated[Flavor, typer.Argument(metavar="mariadb|mysql", help="Flavor of the server.")],
    upgrade: Annotated[bool, make_flag("--upgrade", "Fetch the newest MySQL even where one is installed.")] = False,
) -> None:
    """Get a server: MariaDB from this system's packages, MySQL from Debian's unstable suite,
    unpacked next to the system."""
    with show_progress("installing") as tick:
        program = servers_install.install(flavor, tick, upgrade)
    say(f"{program.label} ({', '.join(program.engines)}): {program.path}")


@app.command()
def log(
    place: LabPlace,
    name: ServerArgument = "db",
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=1, max=100_000, help="The last N lines.")
    ] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines as they come, until Ctrl-C.")] = False,
) -> None:
    """Print a server's error log."""
    with place.open() as lab:
        for line in servers.read_log_lines(servers.find(lab, name), lines, follow):
            print(line)
            sys.stdout.flush()


COLUMNS = ("name", "server", "engine", "state", "storage", "log", "memory", "port", "process")
CSV = (
    "name", "flavor", "version_text", "engine", "state", "storage", "log_storage", "memory_gib", "config", "host", "port", "pid", "devices", "datadir",
    "socket", "address", "data_volume", "log_volume", "problems"
)  # fmt: skip


def _make_table_row(server: Server) -> list[object]:
    """Returns a server as a row of COLUMNS."""
    memory = None if server.memory_gib is None else f"{server.memory_gib:g} GiB"
    storages = (server.storage, server.log_storage)
    cells = (_describe_version(server), server.engine, server.state, *storages, memory, server.port, server.pid)
    return [server.name, *(cell or "-" for cell in cells)]


def _describe_version(server: Server) -> str:
    return f"{'MySQL' if server.flavor == 'mysql' else 'MariaDB'} {server.version_text.split('-')[0].split()[0]}"


def _make_csv_row(server: Server) -> dict[str, object]:
    """Returns a server as a row of CSV; lists with spaces between."""
    return server.to_dict() | {"devices": " ".join(server.volumes.devices), "problems": "; ".join(server.problems)}


def _list_facts(server: Server) -> list[tuple[str, object]]:
    """Returns names and values of a server for a person."""
    settings = ", ".join(name if value is None else f"{name}={value}" for name, value in server.settings.items())
    return [
        ("server", f"{server.name}: {_describe_version(server)}, {server.engine}, {server.state}"),
        ("storage", f"{server.storage} ({server.volumes.data})"),
        ("log", server.log_storage and f"{server.log_storage} ({server.volumes.log})"),
        ("devices", ", ".join(server.volumes.devices)),
        ("memory", server.memory_gib and f"{server.memory_gib:g} GiB"),
        ("configuration", server.config),
        ("settings", settings),
        ("process", server.pid),
        ("address", server.to_dict()["address"]),
        ("TCP", server.port and f"{server.host}:{server.port}, TLS, CA {server.paths.state}/tls/ca.pem"),
        ("client's file", server.paths.client),
        ("option file", server.paths.config),
        ("data directory", server.paths.datadir),
        ("error log", server.paths.log),
    ]


def _print_server(server: Server, output: Output) -> None:
    print_answer(server, output, [_make_csv_row(server)], CSV, lambda: (format_pairs(_list_facts(server)),))


def _print_servers(chosen: Sequence[Server], output: Output) -> None:
    """Prints servers, a row each, in the form asked for."""
    rows, cells = [_make_csv_row(server) for server in chosen], [_make_table_row(server) for server in chosen]
    print_answer([server.to_dict() for server in chosen], output, rows, CSV, lambda: (make_table(COLUMNS, cells),))


def _say_notes(server: Server) -> None:
    """Says the problems and notes of a server on stderr."""
    say_each(f"problem: {server.name}", server.problems)
    say_each(f"note: {server.name}", server.notes)


def _confirm_end(yes: bool, name: str, reasons: Sequence[str]) -> None:
    """Says why others need a server that is to be shut down (`reasons`), and asks whether to do so
    all the same, unless `yes` or there are no reasons."""
    for reason in reasons:
        say(f"{name}: {reason}")
    if reasons:
        confirm(yes, f"Shut down {name} all the same?", name, "is needed by others")


@contextlib.contextmanager
def _explain_ending(name: str) -> Iterator[None]:
    """Turns Ctrl-C in the block into CouldNotRun, which says that the server goes on shutting
    down."""
    try:
        yield
    except KeyboardInterrupt:
        words = f"{name} goes on shutting down. headrace mysql down {name} waits for its end and unmounts its volumes."
        raise CouldNotRun("", f"Interrupted. {words}", exit_code=INTERRUPTED) from None
