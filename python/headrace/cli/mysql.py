"""`headrace mysql`: real servers on volumes of the lab."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.common import Output, OutputOption, complete_storage, progress, say
from headrace.cli.lab_common import DataDirOption, SocketOption, pairs, print_answer
from headrace.errors import HeadraceError

EPILOG = """\b
Examples:
  sudo headrace mysql up --storage gp3:100:6000 --memory 2        MariaDB, InnoDB, its own defaults but for the cache
  sudo headrace mysql up shop --flavor mysql --storage io2:100:10000 --log-storage gp3:20 --config tuned --memory 4
  sudo headrace mysql cli shop                                    the client, logged in
  sudo headrace mysql down shop                                   it ends, its data stay; `up shop` starts it again
  sudo headrace mysql destroy shop

The lab must be up: sudo headrace lab up. After a crash of the server, the lab or the machine: `mysql status` says what is wrong, `mysql up NAME` brings it back."""

app = typer.Typer(
    no_args_is_help=True, help="Real servers on volumes of the lab: MariaDB and MySQL, InnoDB and MyRocks. Needs Linux and root.", epilog=EPILOG,
)  # fmt: skip


class Flavor(StrEnum):
    """Whose server."""

    mariadb = "mariadb"
    mysql = "mysql"


class Engine(StrEnum):
    """What stores the tables."""

    innodb = "innodb"
    myrocks = "myrocks"


COMPLETION_S = 1.0  # the shell waits for it


def complete_server(context: typer.Context, incomplete: str) -> list[str]:
    """Names of servers for the shell; nothing where this user may not look."""
    from headrace.lab import Lab
    from headrace.servers.record import data_dir_of, names

    try:
        with Lab(context.params.get("data_dir"), context.params.get("socket"), timeout_s=COMPLETION_S) as lab:
            return [name for name in names(data_dir_of(lab)) if name.startswith(incomplete)]
    except (HeadraceError, OSError, KeyError):
        return []


NameArgument = Annotated[str, typer.Argument(metavar="[NAME]", help="Which server. Default: db.", autocompletion=complete_server)]


@app.command()
def up(
    name: NameArgument = "db",
    flavor: Annotated[Flavor | None, typer.Option("--flavor", help="Default: mariadb.")] = None,
    engine: Annotated[Engine | None, typer.Option("--engine", help="Default: innodb. MyRocks comes with MariaDB.")] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="SPEC", help="Of a new server: gp3:100:6000, 2xgp2:500.", autocompletion=complete_storage),
    ] = None,
    log_storage: Annotated[
        str | None,
        typer.Option(
            "--log-storage",
            metavar="SPEC",
            help="A volume of its own for redo, binary and write-ahead log.",
            autocompletion=complete_storage,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="default|tuned|FILE",
            help="The server's own defaults, the advice for this storage, or an option file's [mysqld].",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory", metavar="GIB", help="Three quarters of it (half of less than 4 GiB) cache data. Default: the server's 128 MiB."
        ),
    ] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", metavar="K=V", help="An option of the server, on top. Repeatable.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", help="Also listen at 127.0.0.1, with TLS. Default: a Unix socket alone.")
    ] = None,
    server_path: Annotated[
        Path | None,
        typer.Option(
            "--server-path", metavar="FILE", readable=False, help="Another server: its mysqld or mariadbd, or its base directory."
        ),
    ] = None,
    unpaced: Annotated[
        bool, typer.Option("--unpaced", help="Volumes without their limits until the next `up`: to load data quickly.")
    ] = False,
    seed_from: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", readable=False, help="Begin with data of `headrace mysql save`, not with an empty server."
        ),
    ] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Make a server and start it; start one that is there again, with its data."""
    from headrace import servers as mysql
    from headrace.lab import Lab

    wanted = mysql.settings_of(setting)
    with Lab(data_dir, socket) as lab, progress("starting") as tick:
        server = mysql.up(
            lab, name=name, flavor=flavor and flavor.value, engine=engine and engine.value, storage=storage, log_storage=log_storage, config=config,
            memory_gib=memory, settings=wanted, server_path=server_path, port=port, unpaced=unpaced, seed_from=seed_from, progress=lambda share, what: tick(share),
        )  # fmt: skip
    _notes(server)
    _print(server, output)


@app.command()
def down(
    name: NameArgument = "db",
    kill: Annotated[bool, typer.Option("--kill", help="At once, as a crash would: the next start recovers.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """End a server, in order; its volumes and data stay."""
    from headrace import servers as mysql
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab, progress("ending") as tick:
        ended = mysql.stop(mysql.find(lab, name), kill, progress=lambda share, what: tick(share))
    say(f"{name}: ended" + ("" if ended.clean else ", not in order: the next start recovers"))


@app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which server. Default: all.", autocompletion=complete_server)
    ] = None,
    output: OutputOption = Output.table,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Show servers and what is wrong with them; exit code 1 when something is."""
    from headrace import servers as mysql
    from headrace.lab import Lab
    from headrace.report.tables import table

    with Lab(data_dir, socket) as lab:
        found = [mysql.find(lab, name)] if name else mysql.servers(lab)
    rows = [_csv(server) for server in found]
    if name:
        print_answer(found[0].as_dict(), output, rows, CSV, lambda: (pairs(_pairs(found[0])),))
    else:
        print_answer([one.as_dict() for one in found], output, rows, CSV, lambda: (table(COLUMNS, [_row(one) for one in found]),))
    for server in found:
        _notes(server)
    if any(server.problems for server in found):
        raise typer.Exit(1)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def cli(
    context: typer.Context,
    name: NameArgument = "db",
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Become the server's client, logged in. What stands behind NAME is the client's: -e 'SHOW STATUS'."""
    import os
    import sys

    from headrace import servers as mysql
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        words = mysql.client_command(mysql.find(lab, name), tuple(context.args))
    sys.stdout.flush()
    os.execv(words[0], words)


@app.command()
def destroy(
    name: NameArgument = "db",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """End a server and delete its volumes, with all data."""
    import sys

    from headrace import servers as mysql
    from headrace.errors import InputError
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        found = mysql.find(lab, name)
        if not yes and not sys.stdin.isatty():
            raise InputError(name, "deletes data, and nobody can be asked", "headrace mysql destroy --help", "Add --yes.")
        if not yes:
            typer.confirm(f"Delete {name} ({found.storage}) and all its data?", abort=True, err=True)
        mysql.destroy(found)
    say(f"{name}: gone")


@app.command()
def save(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="To be made; takes as much room as the data.")],
    name: NameArgument = "db",
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Copy the data of a server that is down, for `up --from FOLDER`."""
    from headrace import servers as mysql
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        made = mysql.save_data(mysql.find(lab, name), folder)
    say(f"{name}: saved in {made}")


@app.command()
def install(
    flavor: Annotated[Flavor, typer.Argument(metavar="mariadb|mysql", help="Which server.")],
    upgrade: Annotated[bool, typer.Option("--upgrade", help="MySQL: fetch the newest, though one is there.")] = False,
) -> None:
    """Get a server: MariaDB from this system's packages, MySQL from Debian's unstable suite, unpacked beside the system."""
    from headrace.servers.install import install as get

    with progress("installing") as tick:
        program = get(flavor.value, lambda share, what: tick(share), upgrade)
    say(f"{program.label} ({', '.join(program.engines)}): {program.path}")


@app.command()
def log(
    name: NameArgument = "db",
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=1, max=100_000, help="The last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="And those to come, until Ctrl-C.")] = False,
    data_dir: DataDirOption = None,
    socket: SocketOption = None,
) -> None:
    """Print a server's error log."""
    import sys

    from headrace import servers as mysql
    from headrace.lab import Lab

    with Lab(data_dir, socket) as lab:
        for line in mysql.log_lines(mysql.find(lab, name), lines, follow):
            print(line)
            sys.stdout.flush()


COLUMNS = ("name", "server", "engine", "state", "storage", "log", "memory", "port", "process")
CSV = ("name", "flavor", "version_text", "engine", "state", "storage", "log_storage", "memory_gib", "config", "port", "pid", "devices", "datadir",
       "socket", "address", "data_volume", "log_volume", "problems")  # fmt: skip


def _row(server) -> list[object]:
    memory = None if server.memory_gib is None else f"{server.memory_gib:g} GiB"
    return [server.name, _version(server), server.engine, server.state, server.storage, server.log_storage or "-", memory or "-",
            server.port or "-", server.pid or "-"]  # fmt: skip


def _version(server) -> str:
    return f"{'MySQL' if server.flavor == 'mysql' else 'MariaDB'} {server.version_text.split('-')[0].split()[0]}"


def _csv(server) -> dict[str, object]:
    """A server as a row of CSV; lists with spaces between."""
    shown = server.as_dict()
    return shown | {"devices": " ".join(server.devices), "problems": "; ".join(server.problems)}


def _pairs(server) -> list[tuple[str, object]]:
    settings = ", ".join(name if value is None else f"{name}={value}" for name, value in server.settings.items())
    log = server.log_storage and f"{server.log_storage} ({server.log_volume})"
    return [
        ("server", f"{server.name}: {_version(server)}, {server.engine}, {server.state}"), ("storage", f"{server.storage} ({server.data_volume})"), ("log", log),
        ("devices", ", ".join(server.devices)), ("memory", server.memory_gib and f"{server.memory_gib:g} GiB"), ("configuration", server.config),
        ("settings", settings), ("process", server.pid), ("address", server.as_dict()["address"]),
        ("TCP", server.port and f"127.0.0.1:{server.port}, TLS, CA {server.folder}/tls/ca.pem"), ("client's file", server.client_file),
        ("option file", server.config_file), ("data directory", server.datadir), ("error log", server.log),
    ]  # fmt: skip


def _print(server, output: Output) -> None:
    print_answer(server.as_dict(), output, [_csv(server)], CSV, lambda: (pairs(_pairs(server)),))


def _notes(server) -> None:
    for problem in server.problems:
        say(f"problem: {server.name}: {problem}")
    for note in server.notes:
        say(f"note: {server.name}: {note}")
