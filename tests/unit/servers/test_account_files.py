"""The tools of MySQL and MariaDB log in where their account file says, and nowhere else, whatever the option files of
their user say. The tools are real, and tell with --print-defaults what they have read."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.bench import Mysqlslap
from headrace.bench.drivers.benchmark import RunLoad
from headrace.bench.target import Target
from headrace.cli.servers import mysql as mysql_command
from headrace.errors import CouldNotRun
from headrace.mysql import Address, parse_address, write_client_file
from headrace.mysql.address import TOOL_ENVIRONMENT
from headrace.mysql.gtid import GtidSet
from headrace.servers import server
from headrace.servers.backup.history import stream
from headrace.servers.copies import dump
from headrace.servers.copies.pipeline import Flow, Stage
from headrace.servers.copies.source import CopySource
from headrace.servers.failover import rescue
from headrace.servers.flavors import ServerProgram, find_program

ADDRESS = Address("headrace", "replica.example", 3307)
# The account and the place of another server, and options that leave out rows, tables or transactions.
ELSEWHERE = """[client]
user=root
password=prod
host=primary.example
port=3399
[mysqldump]
no-data
where="1=0"
ignore-table=shop.orders
[mysqlbinlog]
database=shop
offset=3
[mysql]
database=shop
[mysqlslap]
create-schema=shop
"""
FOREIGN = re.compile(r"root|prod|primary|3399|no-data|where|ignore-table|database|offset|create-schema")


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def program(request) -> ServerProgram:
    try:
        chosen = find_program(request.param)
        chosen.find_tool("mysqldump")
    except CouldNotRun as lack:
        pytest.skip(f"{lack}")
    return chosen


@pytest.fixture
def home(tmp_path) -> Path:
    """The home of a user who mostly works with another server."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".my.cnf").write_text(ELSEWHERE)
    return folder


def run_tool(words: list[str], home: Path, environment: dict[str, str]) -> str:
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    done = subprocess.run(words, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def print_defaults(words: list[str], home: Path, environment: dict[str, str] = TOOL_ENVIRONMENT) -> str:
    """Returns the options that a command reads from files: its words up to the one that names them."""
    (at,) = [index for index, word in enumerate(words) if "-defaults" in word or "--defaults" in word]
    output = run_tool([*words[: at + 1], "--print-defaults"], home, environment)
    return output.rpartition("arguments:\n")[2]


Builder = Callable[[ServerProgram, CopySource, Path], list[str]]


def build_dump(program: ServerProgram, source: CopySource, account: Path) -> list[str]:
    tool, options = dump.find_dump_tool(source, account)
    return [*tool, *options]


def build_session(program: ServerProgram, source: CopySource, account: Path) -> list[str]:
    running = SimpleNamespace(
        state="running", flavor=program.flavor, server_path=None, paths=SimpleNamespace(client=account)
    )
    return server.build_client_command(cast(server.Server, running), ("-e", "SELECT 1"))


BUILDERS: dict[str, Builder] = {
    "dump": build_dump,
    "session": build_session,
    "stream": lambda program, source, account: stream.build_receiver_command(source, account, Path("/x"), "b.000001"),
    "rescue": lambda program, source, account: rescue.build_client_command(program, account),
}


@pytest.fixture
def source(program, monkeypatch) -> CopySource:
    monkeypatch.setattr(CopySource, "find_server_program", lambda source: program)
    monkeypatch.setattr(server, "find_program", lambda flavor, path: program)
    return CopySource(ADDRESS, "shop", program.flavor, program.version_text, program.version, "server-7", True, ())


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_tool_reads_its_account_and_no_other_option_file(program, source, home, tmp_path, builder):
    account = write_client_file(ADDRESS, tmp_path / "account.cnf")
    output = print_defaults(BUILDERS[builder](program, source, account), home)
    assert "--user=headrace" in output and "--host=replica.example" in output and "--port=3307" in output
    assert not FOREIGN.search(output.replace(str(tmp_path), "")), output


def test_the_load_of_mysqlslap_goes_to_its_server(home, tmp_path):
    try:
        command = Mysqlslap("key", rows=100).build_command(
            Target(address=ADDRESS.with_database("bench"), engine="innodb"), RunLoad(2, 0, 1, 1), tmp_path
        )
    except CouldNotRun as lack:
        pytest.skip(f"{lack}")
    output = print_defaults(list(command.arguments), home, dict(command.environment))
    assert "--host=replica.example" in output and not FOREIGN.search(output.replace(str(tmp_path), "")), output
    assert command.environment == TOOL_ENVIRONMENT


def test_a_reader_of_files_leaves_out_nothing_that_an_option_file_says(program, home):
    [*reader, option, _] = rescue.build_reader_command(program, [Path("/x/b.000001")], GtidSet(program.flavor))
    assert option == "--no-defaults"
    # The help ends with the values of all options.
    outputs = {more: run_tool([*reader, *more, "--help"], home, {}) for more in ((), ("--no-defaults",))}
    assert [re.search(r"^(database|offset) .*(shop|3)$", text, re.M) is None for text in outputs.values()] == [
        False,
        True,
    ]


@pytest.mark.parametrize("environment", [TOOL_ENVIRONMENT, {}], ids=["ours", "plain"])
def test_logins_that_mysql_keeps_do_not_count(program, home, tmp_path, environment):
    """MySQL's clients read ~/.mylogin.cnf even with --defaults-file. Without our environment it wins: the test is one."""
    if program.flavor != "mysql" or program.find_companion("mysql_config_editor") is None:
        pytest.skip("MariaDB's clients have no such file")
    editor = program.find_tool("mysql_config_editor")
    run_tool([*editor, "set", "--login-path=client", "--host=primary.example", "--user=root"], home, {})
    account = write_client_file(ADDRESS, tmp_path / "account.cnf")
    output = print_defaults(rescue.build_client_command(program, account), home, environment)
    assert ("primary.example" in output) is not bool(environment), output
    # Without a home there is no such file either: tools of a failover have none.
    words = [*rescue.build_client_command(program, account), "--print-defaults"]
    words = words[:-2] + words[-1:]
    bare = subprocess.run(words, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, cwd=home)
    assert bare.returncode == 0 and "primary.example" not in bare.stdout, bare.stderr


# --- the environment reaches the tools ------------------------------------------------------------

TELL = 'printf %s "$MYSQL_TEST_LOGIN_FILE"'


def test_programs_of_a_flow_have_it():
    assert Flow([Stage(("sh", "-c", TELL), "a tool")]).pass_through(b"") == b"/dev/null"


def test_the_receiver_of_a_stream_has_it(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "build_receiver_command", lambda *parts: ["sh", "-c", TELL])
    following = stream.Stream.__new__(stream.Stream)
    cast(Any, following).__dict__.update(
        _child=None, spool=tmp_path, state=stream.StreamState(file="b.000001"), source=None, account=tmp_path,
        _pieces=SimpleNamespace(entries=[]),
    )  # fmt: skip
    following._receive()
    child = following._child
    assert child is not None and child.wait(60) == 0
    assert (tmp_path / "said").read_text() == "/dev/null"


def test_a_session_has_it(call, monkeypatch):
    started: list[dict[str, str]] = []

    class Place:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    def execute(path: str, words: list[str], environment: dict[str, str]) -> None:
        started.append(environment)

    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setattr(os, "execv", lambda path, words: started.append(dict(os.environ)))
    monkeypatch.setattr(mysql_command.LabPlace, "open", lambda place: Place())
    monkeypatch.setattr("headrace.servers.find", lambda lab, name: name)
    monkeypatch.setattr("headrace.servers.build_client_command", lambda server, words: ["mysql"])
    code, _, errors = call("mysql", "cli", "db")
    assert code == 0, errors
    assert [environment["MYSQL_TEST_LOGIN_FILE"] for environment in started] == ["/dev/null"]


# --- TLS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "mariadb", "mysql"),
    [
        ("", "--ssl --skip-ssl-verify-server-cert", ""),
        ("?ssl-mode=preferred", "--ssl --skip-ssl-verify-server-cert", ""),
        ("?ssl-mode=disabled", "--skip-ssl", "DISABLED"),
        ("?ssl-mode=required", "--ssl", "REQUIRED"),
        ("?ssl-ca={ca}", "--ssl-ca={ca} --ssl", "VERIFY_CA"),
        ("?ssl-mode=verify-identity&ssl-ca={ca}", "--ssl-ca={ca} --ssl --ssl-verify-server-cert", "VERIFY_IDENTITY"),
    ],
)
def test_the_account_file_has_what_the_address_says_about_tls(program, home, tmp_path, mode, mariadb, mysql):
    """It is all that the tools hear of it: no option file of the user adds a CA."""
    authority = tmp_path / "ca.pem"
    authority.touch()
    address = parse_address(f"mysql://headrace@replica.example:3307/{mode.format(ca=authority)}")
    account = write_client_file(address, tmp_path / "account.cnf")
    options = print_defaults(rescue.build_client_command(program, account), home).split()
    tls_options = [option for option in options if "ssl" in option]
    mode_option = [f"--loose-ssl-mode={mysql}"] if mysql else []
    if program.flavor == "mariadb":
        assert tls_options == [*mode_option, *mariadb.format(ca=authority).split()]
    else:
        assert tls_options == [*mode_option, *([f"--ssl-ca={authority}"] if "ssl-ca" in mode else [])]
