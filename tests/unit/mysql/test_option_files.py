"""Option files against `my_print_defaults`, the program of the servers that reads them, and edits
against `patch`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.advice import parse_server
from headrace.errors import HeadraceError, InputError
from headrace.mysql.option_files import list_server_groups, normalise_name, read_option_file

TOOL = shutil.which("my_print_defaults")
needs_tool = pytest.mark.skipif(TOOL is None, reason="my_print_defaults (mariadb-client-core) is not here")
PIECES = [
    "a",
    "b-c",
    "_x",
    "=",
    "=",
    "#",
    "'",
    '"',
    "\\",
    "\\n",
    "\\s",
    "\\q",
    " ",
    "\t",
    ";",
    "!",
    "[",
    "]",
    "é",
    "1",
    "K",
    "mysqld",
]
GROUPS = ["[mysqld]", "[client]", "[ mysqld]", "[mysqld ]", "[MySQLd]", "[mysqld] x", "[mysqld-10.11]", "[mysqld"]
DIRECTIVES = [
    "!include inc.cnf",
    "! include inc.cnf",
    "!includedir d",
    "!include missing.cnf",
    "!foo",
    "!includex a",
    "!include",
    " !includedir d ",
    "!include\tinc.cnf",
]


@st.composite
def line(draw, includes: bool) -> str:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.sampled_from(GROUPS))
    if kind == 1 and includes:
        return draw(st.sampled_from(DIRECTIVES))
    if kind == 2:
        return draw(st.sampled_from(["# c", "; c", "", "  "]))
    text = draw(st.sampled_from(["", "  "])) + "".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=10)))
    # Only the top file includes, and an option has a name: the tool prints what stood before it
    # otherwise.
    text = text if includes else text.replace("!", "x")
    return "" if text.strip(" \t").startswith(("=", "#=")) else text


@st.composite
def file(draw, includes: bool) -> str:
    head = draw(st.sampled_from(["[mysqld]\n"] * 12 + [""]))
    body = "\n".join(draw(st.lists(line(includes), max_size=6)))
    # Without a newline at its end the last letter of an include is cut off: refused here (test
    # below).
    last = body.rpartition("\n")[2].lstrip(" \t")
    return head + body + ("\n" if last.startswith("!") else draw(st.sampled_from(["", "\n"])))


@needs_tool
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(main=file(True), included=file(False), first=file(False), second=file(False))
def test_what_is_read_is_what_the_servers_read(tmp_path, main, included, first, second):
    (tmp_path / "d").mkdir(exist_ok=True)
    for name, text in (
        ("main.cnf", main),
        ("inc.cnf", included),
        ("d/a.cnf", first),
        ("d/b.cnf", second),
        ("d/c.txt", "[mysqld]\nnot-read=1\n"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert TOOL is not None
    printed = subprocess.run(
        [TOOL, "--defaults-file=main.cnf", "mysqld", "mysqld-10.11"], cwd=tmp_path, capture_output=True
    )
    try:
        options = read_option_file(tmp_path / "main.cnf", ("mysqld", "mysqld-10.11"))
    except HeadraceError:
        # An error in an included file is a warning to the servers, which pass over the rest of it.
        assert printed.returncode != 0 or printed.stderr.startswith(b"error:")
        return
    expected = "".join(
        f"--{setting.key}" + ("" if setting.value is None else f"={setting.value}") + "\n"
        for setting in options.settings
    )
    assert (printed.returncode, printed.stdout.decode()) == (0, expected)


def read(tmp_path: Path, text: str, *groups: str):
    path = tmp_path / "my.cnf"
    path.write_text(text)
    return read_option_file(path, groups or ("mysqld",))


def test_names_prefixes_and_values(tmp_path):
    options = read(tmp_path, "[mysqld]\nInnoDB-Buffer-Pool-Size=1G\nskip-innodb-doublewrite\nloose_innodb_io_capacity = 300 # c\ninnodb_file_per_table\nskip-name-resolve\n"
                 "enable-log_bin\nskip_slow_query_log=0\nsocket='/tmp/a b'\nmaximum-max_connections=9\n")  # fmt: skip
    assert options.values == {
        "innodb_buffer_pool_size": "1G", "innodb_doublewrite": "0", "innodb_io_capacity": "300", "innodb_file_per_table": "1", "skip_name_resolve": "1",
        "log_bin": "1", "slow_query_log": "1", "socket": "/tmp/a b", "max_connections": "9",
    }  # fmt: skip
    assert normalise_name("Loose-Skip-InnoDB_Doublewrite") == "innodb_doublewrite"


def test_later_settings_win_and_other_groups_do_not_count(tmp_path):
    options = read(
        tmp_path,
        "[client]\npassword=secret\nsync_binlog=7\n[mysqld]\nsync_binlog=0\n[mysqld-8.0]\nsync_binlog=1\n[mysqld]\nsync-binlog=5\n",
        "mysqld",
        "mysqld-8.0",
    )
    assert options.values["sync_binlog"] == "5"
    assert "secret" not in repr(options.settings) and len(options.settings) == 3


@pytest.mark.parametrize(
    ("flavor", "version", "group", "reads"),
    [
        ("mysql", "8.0.36", "mysqld-8.0", True), ("mysql", "8.4.1", "mysqld-8.0", False), ("mysql", "8.0.36", "mariadb", False), ("mariadb", "10.11.19", "mariadb-10.11", True),
        ("mariadb", "10.11.19", "mariadb-10.6", False), ("mariadb", "10.3.1", "mariadbd", False), ("mariadb", "11.8.6", "mariadbd-11.8", True), ("percona", "8.0.30", "server", True),
    ],
)  # fmt: skip
def test_groups_of_servers(flavor, version, group, reads):
    assert (group in list_server_groups(flavor, parse_server(flavor, version).version)) is reads


@needs_tool
def test_groups_are_those_the_server_of_this_machine_reads():
    """MariaDB's own list stands in its help."""
    program = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
    if program is None:
        pytest.skip("mariadbd is not here")
    version = (
        subprocess.run([program, "--no-defaults", "--version"], capture_output=True, text=True)
        .stdout.split("Ver ")[1]
        .split("-")[0]
    )
    help_text = subprocess.run(
        [program, "--no-defaults", "--user=nobody", "--verbose", "--help"], capture_output=True, text=True
    ).stdout
    groups = help_text.split("The following groups are read: ")[1].splitlines()[0].split()
    assert set(list_server_groups("mariadb", parse_server("mariadb", version).version)) == set(groups)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sync_binlog=1\n", "before the first"), ("[mysqld\n", "ends with ]"), ("[mysqld]\n=1\n", "names no option"), ("[mysqld]\n!include other.cnf", "last line"),
        ("[mysqld]\n!includedir nowhere\n", "cannot be read"), ("[mysqld]\nx=" + "y" * 5000 + "\n", "more than"), ("[mysqld]\n!include\n", "names nothing"),
        ("\ufeff[mysqld]\n", "before the first"), ("[mysqld]\na=\0\n", "zero bytes"),
    ],
)  # fmt: skip
def test_what_servers_refuse_is_refused_with_file_and_line(tmp_path, text, says):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert says in caught.value.rule and "my.cnf" in caught.value.value


def test_files_that_cannot_be_read(tmp_path):
    for path, says in ((tmp_path / "none.cnf", "no such file"), (tmp_path, "folder")):
        with pytest.raises(InputError) as caught:
            read_option_file(path, ("mysqld",))
        assert says in caught.value.rule
    (tmp_path / "open.cnf").write_text("[mysqld]\n")
    (tmp_path / "open.cnf").chmod(0o666)
    with pytest.raises(InputError, match="everybody"):
        read_option_file(tmp_path / "open.cnf", ("mysqld",))


def test_includes_that_never_end_are_passed_over_or_refused(tmp_path):
    (tmp_path / "my.cnf").write_text("[mysqld]\na=1\n!include my.cnf\n")
    # Ten levels deep, as the servers: each reads the line once.
    assert len(read_option_file(tmp_path / "my.cnf", ("mysqld",)).settings) == 11
    (tmp_path / "wide.cnf").write_text("[mysqld]\n" + "!include wide.cnf\n" * 3)
    with pytest.raises(InputError, match="more than"):
        read_option_file(tmp_path / "wide.cnf", ("mysqld",))


def test_other_encodings_are_read(tmp_path):
    (tmp_path / "my.cnf").write_bytes("[mysqld]\n# Größe\nsync_binlog=1\n".encode("latin-1"))
    assert read_option_file(tmp_path / "my.cnf", ("mysqld",)).values == {"sync_binlog": "1"}
