"""Decisions of `headrace.servers` without a server: names, option files, settings, the meaning of a
server's words, the fields of a record."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ledger
from headrace.base.machine import find_executable
from headrace.base.processes import Process
from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab, LabRefused
from headrace.servers import config, flavors, install, record, running, server, volumes
from headrace.servers.flavors import ServerProgram

MARIADB = ServerProgram("mariadb", (10, 11, 19), "10.11.19-MariaDB", ("/usr/sbin/mariadbd",), Path("/usr"), Path("/usr/share/mysql"), Path("/usr/lib/mysql/plugin"),
                  ("innodb", "myrocks"), {"innodb-io-capacity": "200"})  # fmt: skip
MYSQL = ServerProgram(
    "mysql",
    (9, 7, 4),
    "9.7.4",
    ("/x/ld.so", "--library-path", "/x/lib", "/x/usr/sbin/mysqld"),
    Path("/x/usr"),
    None,
    None,
    ("innodb",),
    {"mysqlx": "ON"},
)
WHERE = record.make_server_paths(Path("/data/lab"), "db")


def record_of(**changes) -> record.Record:
    plain = dict(name="db", flavor="mariadb", version_text="10.11.19", engine="innodb", storage="gp3:20", log_storage=None, server_path=None, config="default",
                 options={}, settings={}, memory_gib=None, port=None)  # fmt: skip
    return record.Record(**(plain | changes))


def test_a_setting_has_one_value_loose_or_not():
    """The last of an option file wins, wherever it came from."""
    server_record = record_of(settings={"rpl-semi-sync-source-enabled": "OFF", "loose-a-b": "1", "port-x": None})
    assert server_record.merge_settings({"loose_rpl_semi_sync_source_enabled": "ON", "a_b": "2"}) == {
        "port-x": None,
        "loose_rpl_semi_sync_source_enabled": "ON",
        "a_b": "2",
    }


# --- places ---------------------------------------------------------------------------------------


def test_a_socket_fits_into_its_address_however_long_the_names_are():
    longest = record.make_server_paths(Path("/" + "d" * 200), "x" * 32)
    assert len(os.fsencode(longest.socket)) <= 107  # unix(7)


def test_labs_do_not_share_folders():
    assert record.make_server_paths(Path("/a"), "db").run != record.make_server_paths(Path("/b"), "db").run


@given(st.text(max_size=40))
def test_a_name_is_a_folder_or_refused(name):
    try:
        checked = record.check_name(name)
    except InputError:
        return
    assert checked == name and Path(name).name == name and name not in (".", "..") and name.isascii()


# --- option files ---------------------------------------------------------------------------------

KEYS = st.from_regex(r"[a-z][a-z_]{2,20}", fullmatch=True)


@given(
    st.dictionaries(
        KEYS, st.text(max_size=30) | st.sampled_from(["a b", "#", '"', "\\n", "'x'", "a;b", " x ", "C:\\temp"])
    )
)
def test_what_is_written_into_an_option_file_is_read_out_of_it(settings):
    """By Headrace's reader, and by my_print_defaults, which is the servers' own, where it is
    installed."""
    try:
        options = config.check_settings(settings)
    except InputError:
        return  # placed by Headrace, or nothing an option file can hold
    text = config.render_options(options, "test")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "my.cnf"
        path.write_text(text)
        reader = find_executable("my_print_defaults")
        if reader:
            answer = subprocess.run(
                [reader, f"--defaults-file={path}", "mysqld"], capture_output=True, check=True
            ).stdout.decode()
            assert answer == "".join(f"--{name}={value}\n" for name, value in options.items())
        if options:
            assert config.read_file_options(MARIADB, path) == options


def test_an_option_file_of_a_user(tmp_path):
    path = tmp_path / "my.cnf"
    path.write_text("[client]\npassword=x\n[mysqld]\nplugin_load_add=a\nsync-binlog=0\nskip-name-resolve\n[mariadb-10.11]\n"
                    "plugin-load-add=b\nsync_binlog = 1\n[mysqld-9.7]\nsync_binlog=7\n")  # fmt: skip
    options = config.read_file_options(MARIADB, path)
    assert list(options.items()) == [("skip-name-resolve", None), ("plugin-load-add", "a;b"), ("sync-binlog", "1")]
    path.write_text("[client]\nuser=x\n")
    with pytest.raises(InputError, match="has no options for MariaDB 10.11.19"):
        config.read_file_options(MARIADB, path)
    with pytest.raises(InputError, match="no such option file"):
        config.read_file_options(MARIADB, tmp_path / "none.cnf")


@pytest.mark.parametrize(
    "key",
    [
        "datadir",
        "DATADIR",
        "loose_datadir",
        "skip-networking",
        "skip_ssl",
        "loose-skip-ssl",
        "port",
        "init_file",
        "skip-grant-tables",
    ],
)
def test_where_things_are_is_not_for_settings(key):
    with pytest.raises(InputError, match="is set by Headrace"):
        config.check_settings({key: "1"})


@pytest.mark.parametrize(
    "settings",
    [
        {"": "1"},
        {"a b": "1"},
        {"a\n[client]": "1"},
        {"=": "1"},
        {"sort_buffer_size": "1\n[mysqld]"},
        {"x": "y" * 5_000},
    ],
)
def test_settings_that_no_option_file_can_hold(settings):
    with pytest.raises(InputError):
        config.check_settings(settings)


def test_settings_of_the_command_line():
    assert config.parse_settings(["a=1", "b=", "c", "d=x=y"]) == {"a": "1", "b": "", "c": None, "d": "x=y"}
    assert config.parse_settings(None) is None
    with pytest.raises(InputError, match="was given before"):
        config.parse_settings(["sync_binlog=1", "sync-binlog=0"])


@pytest.mark.parametrize(
    "program, settings, on",
    [
        (MARIADB, {}, False),
        (MARIADB, {"log-bin": None}, True),
        (MARIADB, {"log-bin": "/var/log/mysql/bin"}, True),
        (MARIADB, {"log-bin": "OFF"}, False),
        (MYSQL, {}, True),
        (MYSQL, {"skip-log-bin": None}, False),
        (MYSQL, {"disable-log-bin": "ON"}, False),
        (MYSQL, {"log-bin": "0"}, False),
    ],
)
def test_the_binary_log_goes_to_the_volume_of_logs_where_there_is_one(program, settings, on):
    options = config.assemble_options(program, "innodb", WHERE, True, None, settings)
    assert options.get("log-bin") == (str(WHERE.log_mount / "log" / "binlog") if on else None)
    assert ("skip-log-bin" in options) == (program is MYSQL and not on)
    assert options["innodb-log-group-home-dir"] == str(WHERE.log_mount / "log")
    assert config.assemble_options(program, "innodb", WHERE, False, None, settings)["innodb-log-group-home-dir"] == str(
        WHERE.data_mount / "log"
    )


def test_places_stand_last_and_win():
    options = config.assemble_options(
        MARIADB, "myrocks", WHERE, False, 3307, {"sync-binlog": "1", "plugin-load-add": "a.so;ha_rocksdb.so"}
    )
    assert list(options)[0] == "sync-binlog"
    assert options["plugin-load-add"] == "ha_rocksdb.so;a.so"
    assert (
        options["require-secure-transport"] == "ON"
        and options["bind-address"] == "127.0.0.1"
        and "skip-networking" not in options
    )
    assert config.assemble_options(MYSQL, "innodb", WHERE, False, None, {})["mysqlx"] == "OFF"


def test_memory():
    # Half of a memory up to 4 GiB, three quarters from 8 GiB on: docs/decisions/0006.
    assert (config.compute_cache_bytes(2), config.compute_cache_bytes(16)) == (1 << 30, 12 << 30)
    assert config.choose(MARIADB, record_of(memory_gib=2))[0] == {"innodb-buffer-pool-size": str(1 << 30)}
    assert config.choose(MARIADB, record_of(engine="myrocks", memory_gib=2))[0] == {
        "rocksdb-block-cache-size": str(1 << 30)
    }
    assert config.choose(MARIADB, record_of())[0] == {}
    for wrong in (0, -1, float("nan"), float("inf"), 1e9):
        with pytest.raises(InputError):
            config.check_memory(wrong)


# --- what servers say -----------------------------------------------------------------------------

HELP = """mariadbd  Ver 10.11.19-MariaDB
Variables (--variable-name=value)
and boolean options {FALSE|TRUE}                                 Value (after reading options)
---------------------------------------------------------------- -------------
basedir                                                          /usr/
log-bin                                                          (No default value)
sql-mode                                                         STRICT_TRANS_TABLES,NO_ZERO_DATE

To see what values a running server is using, type
'SELECT * FROM INFORMATION_SCHEMA.GLOBAL_VARIABLES' instead of 'mysqld --verbose --help' or 'mariadbd --verbose --help'.
"""


def test_the_table_of_options():
    assert flavors.parse_option_values(HELP) == {
        "basedir": "/usr/",
        "log-bin": "",
        "sql-mode": "STRICT_TRANS_TABLES,NO_ZERO_DATE",
    }
    assert flavors.parse_option_values("") == {}
    assert MARIADB.knows("innodb_io_capacity") and not MARIADB.knows("innodb_buffer_pool_size")


@pytest.mark.parametrize(
    "text, full",
    [
        ("InnoDB: preallocating 3221225472 bytes for file ib_logfile101 failed with error 28", True),
        ("Operating system error number 28. Check", True),
        ('Disk full (Errcode: 28 "No space left on device")', True),
        ("error 285", False),
        ("Input/output error (errno: 5)", False),
    ],
)
def test_a_full_volume_is_recognised(text, full):
    assert bool(volumes.explain_full_volume(text)) == full
    # Data of a server that is being created are kept: room is needed where they are.
    assert ("headrace mysql down db --mount" in volumes.explain_full_volume(text, "db")) == full


@pytest.mark.parametrize(
    ("storage", "other", "same"),
    [
        ("gp3:20", "gp3:20:3000", True),
        ("gp3:20", "gp3:20:3000:125", True),
        ("2xgp3:20", "2xgp3:20:3000", True),
        ("gp3:20", "gp3:20:4000", False),
        ("gp3:20", "gp3:21", False),
        ("gp3:20", "gp2:20", False),
        ("2xgp3:20", "raid1:2xgp3:20", False),
        ("gp3:20", "no storage", False),
    ],
)
def test_storage_that_is_the_same_in_other_words(storage, other, same):
    assert server.is_same_storage(storage, other) is server.is_same_storage(other, storage) is same


def test_a_server_keeps_its_storage_and_says_what_changes_it():
    server.refuse_other_storage("db", ("gp3:20:3000", None), "gp3:20", None)
    with pytest.raises(InputError) as refused:
        server.refuse_other_storage("db", ("gp3:20:3000", "gp3:5"), "gp3:50", "gp3:5")
    assert f"{refused.value.value} {refused.value.rule}" == "db exists on gp3:20:3000; --storage cannot change it"
    assert refused.value.hint == "Use headrace volume modify db-data."
    with pytest.raises(InputError, match="db: exists on gp3:5; --log-storage cannot.*db-log"):
        server.refuse_other_storage("db", ("gp3:20", "gp3:5"), None, "gp3:6")
    with pytest.raises(InputError, match="exists without a log volume"):
        server.refuse_other_storage("db", ("gp3:20", None), None, "gp3:5")


# Lines that MariaDB 10.11.19 wrote next to a source that was killed, 2026-11-24.
NOISE = """2026-11-24 17:42:10 18 [ERROR] Slave I/O: error reconnecting to master 'headrace_repl@127.0.0.1:56001' - retry-time: 1  maximum-retries: 100000  message: Can't connect to server on '127.0.0.1' (111 "Connection refused"), Internal MariaDB error code: 2003
2026-11-24 17:42:10 18 [ERROR] Error reading packet from server: Lost connection to server during query (server_errno=2013)
2026-11-24 17:42:10 3 [Warning] Aborted connection 3 to db: 'app' user: 'app' host: 'localhost' (Got an error reading communication packets)
2026-11-24 17:42:11 0 [ERROR] Semisync ack receiver got error 1158
"""


def test_noise_of_replication_is_no_reason_of_a_death(tmp_path):
    log = tmp_path / "error.log"
    log.write_text(NOISE)
    assert "killed from outside" in running.explain_death(log, 0)
    reason = "2026-11-24 17:42:12 0 [ERROR] InnoDB: Operating system error number 5 in a file operation."
    log.write_text(f"{NOISE}{reason}\n{NOISE}")
    reason_text = running.explain_death(log, 0)
    assert (
        "Operating system error number 5" in reason_text
        and "Slave I/O" not in reason_text
        and "Semisync" not in reason_text
    )
    full = '2026-11-24 17:42:12 18 [ERROR] Slave SQL: Error writing file (Errcode: 28 "No space left on device")'
    log.write_text(NOISE + full)
    assert "No space left" in running.explain_death(log, 0), "a full disk is a reason"


def test_a_server_shows_where_it_listens():
    """One with an address of its own does not listen at 127.0.0.1."""
    from headrace.cli.servers.mysql import _list_facts

    server_fields = {field.name: None for field in fields(server.Server)} | {
        "name": "db", "flavor": "mariadb", "version_text": "10.11.19", "engine": "innodb", "state": "running",
        "storage": "gp3:20", "port": 3306, "host": "198.18.118.2", "settings": {}, "volumes": server.AttachedVolumes(),
        "paths": record.make_server_paths(Path("/data"), "db"),
    }  # fmt: skip
    running_server: Any = SimpleNamespace(**server_fields, to_dict=lambda: {"address": "mysql://headrace@/"})
    assert str(dict(_list_facts(running_server))["TCP"]).startswith("198.18.118.2:3306, TLS")


# --- records --------------------------------------------------------------------------------------


@pytest.fixture
def where(tmp_path):
    paths = record.make_server_paths(tmp_path, "db")
    paths.state.mkdir(parents=True)
    return paths


def test_a_record_comes_back_as_it_was(where):
    before = record_of(
        process=Process(1, 2, "b"),
        options={"a": None, "b": "1"},
        notes=["x"],
        volumes=record.ServerVolumes("vol-1"),
        created=True,
    )
    record.save(where, before)
    assert record.load(where) == before
    assert before.volumes.ids == ("vol-1",)
    assert record.list_names(where.state.parent.parent) == ["db"]


def test_a_record_of_a_later_headrace_is_read(where):
    record.save(where, record_of())
    document = json.loads(where.record.read_text()) | {"invented_later": 1}
    where.record.write_text(json.dumps(document))
    assert record.load(where) == record_of()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"format": "headrace-server/9"}',
        b"\xff",
        b'{"format": "headrace-server/1", "process": 3}',
        b"[" * 100_000,
    ],
)
def test_a_record_that_is_none(where, content):
    where.record.write_bytes(content)
    with pytest.raises(CouldNotRun, match="is not a record of a server"):
        record.load(where)


def test_no_such_server(tmp_path):
    with pytest.raises(InputError, match="is not a server of this lab.*There are: none"):
        record.require_record(record.make_server_paths(tmp_path, "db"))


def test_one_at_a_time(where):
    with record.lock_server(where), pytest.raises(LabRefused, match="another headrace"), record.lock_server(where):
        pass
    with record.lock_server(where):
        pass


# --- what is installed ----------------------------------------------------------------------------


def test_programs_that_are_none(tmp_path, monkeypatch):
    script = tmp_path / "mysqld"
    script.write_text("#!/bin/sh\necho mysqld  Ver nothing\n")
    script.chmod(0o755)
    with pytest.raises(InputError, match="does not answer --version"):
        flavors.find_program("mysql", script)
    script.write_text("#!/bin/sh\necho cannot find libaio >&2; exit 127\n")
    with pytest.raises(CouldNotRun, match="cannot find libaio"):
        flavors.find_program("mysql", script)
    for wrong in (tmp_path, tmp_path / "nothing", "/etc/passwd"):
        with pytest.raises(InputError, match="is not a program that can be run"):
            flavors.find_program("mysql", wrong)
    with pytest.raises(InputError, match="must be one of mariadb, mysql"):
        flavors.find_program("postgres")


def test_half_removed_servers_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SERVERS", str(tmp_path))
    for name, content in (("mysql-1", "{"), ("mysql-2", "{}"), ("mysql-3", '{"command": ["{}/usr/sbin/mysqld"]}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.json").write_text(content)
    assert flavors.list_unpacked("mysql") == [(f"{tmp_path}/mysql-3/usr/sbin/mysqld",)]
    assert all(
        program.path != Path(f"{tmp_path}/mysql-3/usr/sbin/mysqld") for program in flavors.list_installed("mysql")
    )


def test_tools_of_an_unpacked_server_run_through_its_loader(tmp_path):
    inside = tmp_path / "usr/bin/mysql"
    inside.parent.mkdir(parents=True)
    inside.write_text("")
    inside.chmod(0o755)
    program = ServerProgram(
        "mysql",
        (9, 7, 4),
        "",
        ("/x/ld.so", "--library-path", "/x", str(tmp_path / "usr/sbin/mysqld")),
        tmp_path / "usr",
        None,
        None,
        ("innodb",),
    )
    assert program.find_tool("mysql") == ("/x/ld.so", "--library-path", "/x", str(inside))
    with pytest.raises(CouldNotRun, match="no-such-tool: is not installed"):
        program.find_tool("no-such-tool")
    assert MARIADB.find_tool("sh") in (("/usr/bin/sh",), ("/bin/sh",))


def test_apt_is_given_a_state_of_its_own_and_signatures(tmp_path, monkeypatch):
    words = install._make_apt_options(tmp_path / "apt")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    assert options["Dir::State::status"].startswith(str(tmp_path)) and options["Dir::Cache::archives"].startswith(
        str(tmp_path)
    )
    assert (
        options["APT::Get::AllowUnauthenticated"] == "false"
        and "signed-by=" in (tmp_path / "apt/sources.list").read_text()
    )
    for wrong in ("ftp://x", "http://x y", "http://x\ndeb http://evil"):
        monkeypatch.setenv("HEADRACE_DEBIAN_MIRROR", wrong)
        with pytest.raises(InputError, match="must be the URL of a Debian mirror"):
            install._get_mirror()


def test_a_network_that_is_not_there(tmp_path, monkeypatch):
    """The real apt, sent to a port nobody listens at; what was begun is taken back."""
    if find_executable("apt-get") is None:
        pytest.skip("apt-get: not found")
    if not install.KEYRING.is_file():
        pytest.skip(f"{install.KEYRING}: not found")
    monkeypatch.setenv("HEADRACE_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    monkeypatch.setenv("HEADRACE_SERVERS", str(tmp_path / "servers"))
    monkeypatch.setattr(install, "list_installed", lambda flavor: [])
    with pytest.raises(CouldNotRun, match="apt-get update"):
        install.install("mysql")
    assert not (tmp_path / "servers").exists()


# --- the ledger -----------------------------------------------------------------------------------


def ledger_with(rows: list[tuple], acknowledged: list[list[float]]) -> ledger.Ledger:
    book = ledger.Ledger(None, clients=len(acknowledged))
    for client, times in zip(book.clients, acknowledged, strict=True):
        client.acknowledged = list(times)
    book._do = lambda *statements: tuple(rows)
    return book


def test_what_a_ledger_finds():
    # Client, rows, the highest, the counter.
    assert ledger_with([(1, 3, 3, 3)], [[1.0, 2.0, 3.0]]).check() == ledger.Loss(3, 3, 0, 0.0, ())
    # Committed, and the answer was lost on the way: fine.
    assert ledger_with([(1, 4, 4, 4)], [[1.0, 2.0, 3.0]]).check().torn == ()
    # The last two of three are gone; the older of them was acknowledged a second before the last.
    assert ledger_with([(1, 1, 1, 1)], [[1.0, 2.0, 3.0]]).check() == ledger.Loss(3, 1, 2, 1.0, ())
    # A power cut at 2.5: the third was acknowledged by a machine that had no power any more.
    assert ledger_with([(1, 1, 1, 1)], [[1.0, 2.0, 3.0]]).check(2.5) == ledger.Loss(2, 1, 1, 0.5, ())
    for torn in ((1, 2, 3, 3), (1, 3, 3, 2), (1, 5, 5, 5)):
        assert ledger_with([torn], [[1.0, 2.0, 3.0]]).check().torn
    # All of a client's rows are gone with its counter.
    assert ledger_with([], [[1.0]]).check().lost == 1


def test_the_lab_is_asked_for_its_directory_only_where_it_is_not_known(tmp_path):
    assert record.find_data_dir(Lab(tmp_path)) == tmp_path
