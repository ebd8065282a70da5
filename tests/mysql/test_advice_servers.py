"""The advice on real servers: what `headrace advise` writes starts, holds, and needs no change
afterwards. Servers run in temporary folders, without a lab."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from advised import advised
from waiting import wait_until

from headrace.advice import advise, tune_settings
from headrace.advice.current import read_server
from headrace.advice.table import read_parameters
from headrace.advice.values import are_same, as_number
from headrace.mysql import Address, connect
from headrace.mysql.option_files import format_value
from headrace.servers import find_program

USER = "mysql"
START_S = 60.0
MEMORY_GIB = 0.5
STORAGE = "gp3:100:6000:250"
# Little memory, and few files: MariaDB lowers table_open_cache_instances where the machine does not
# allow 2 x table_open_cache x instances of them.
SMALL = {"max_connections": "20", "skip_networking": "ON", "table_open_cache": "200"}


class TemporaryServer:
    """A server of a data directory of its own, on a socket, for as long as the `with` lasts."""

    def __init__(self, program, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.data, self.socket, self.log = folder / "data", folder / "s.sock", folder / "error.log"
        self.process: subprocess.Popen | None = None

    @property
    def address(self) -> Address:
        return Address("root", socket=str(self.socket))

    def install(self) -> None:
        words = [*self.program.command, "--no-defaults", *self._placed(), "--initialize-insecure"]
        if self.program.flavor == "mariadb":
            tool = self.program.find_companion("mariadb-install-db", "mysql_install_db")
            words = [
                str(tool),
                "--no-defaults",
                f"--user={USER}",
                f"--datadir={self.data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        self.data.mkdir()
        shutil.chown(self.data, USER, USER)
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _placed(self) -> list[str]:
        words = [
            f"--user={USER}",
            f"--datadir={self.data}",
            f"--socket={self.socket}",
            f"--log-error={self.log}",
            f"--basedir={self.program.basedir}",
        ]
        words += [f"--plugin-dir={self.program.plugin_dir}"] if self.program.plugin_dir else []
        if self.program.flavor == "mysql":
            words += [f"--lc-messages-dir={self.program.share_dir}", "--mysqlx=OFF", "--secure-file-priv=NULL"]
        return words

    def start(self, config: Path) -> None:
        words = [
            *self.program.command,
            f"--defaults-file={config}",
            *self._placed(),
            *(f"--{name}={value}" for name, value in SMALL.items()),
        ]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)

        def answers() -> bool:
            with contextlib.suppress(Exception):
                connect(self.address, timeout_s=5.0).close()
                return True
            text = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
            assert self.process is not None and self.process.poll() is None, (
                f"{self.program.label} did not start with {config.read_text()}\n{text}"
            )
            return False

        wait_until(answers, f"an answer of {self.program.label}", START_S)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(START_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


@pytest.fixture(scope="module")
def folders():
    """A folder the server's user may enter; those of pytest are its owner's alone."""
    base = Path(tempfile.mkdtemp(prefix="headrace-advice-"))
    base.chmod(0o755)
    yield base
    shutil.rmtree(base, ignore_errors=True)


def running(program, folders: Path, name: str):
    """A freshly installed server of its own folder, not started."""
    folder = folders / name
    folder.mkdir()
    shutil.chown(folder, USER, USER)
    server = TemporaryServer(program, folder)
    server.install()
    return server


@contextlib.contextmanager
def started(server: TemporaryServer, text: str):
    config = server.folder / "my.cnf"
    config.write_text(text)
    config.chmod(0o644)
    try:
        server.start(config)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def mariadb(folders):
    return running(find_program("mariadb"), folders, "mariadb")


@pytest.fixture(scope="module")
def mysql(folders, mysql_program):
    return running(mysql_program, folders, "mysql")


def holds(values: dict[str, str], result) -> list[str]:
    """Returns the active advice that a running server does not follow, in words."""
    wrong = []
    for item in result:
        if not item.active:
            continue
        names = [item.parameter] + (["tx_isolation"] if item.parameter == "transaction_isolation" else [])
        have = next((values[name] for name in names if name in values), None)
        if have is None:
            wrong.append(f"{item.parameter} is no variable")
        elif not are_same(read_parameters()[item.id].kind, have, item.value):
            wrong.append(f"{item.parameter}: {item.value} was given, the server has {have}")
    return wrong


def question(program, **more) -> dict:
    return {
        "storage": STORAGE,
        "memory_gib": MEMORY_GIB,
        "flavor": program.flavor,
        "version": ".".join(map(str, program.version)),
    } | more


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"durability": "relaxed", "replica": True, "vcpus": 4},
        {"engine": "myrocks"},
        {"engine": "myrocks", "durability": "relaxed", "replica": True, "vcpus": 16, "storage": "st1:2000"},
    ],
    ids=["innodb", "innodb-relaxed-replica", "myrocks", "myrocks-relaxed-replica"],
)
def test_mariadb_starts_with_the_cnf_and_needs_no_change(mariadb, more):
    request = question(mariadb.program, **more)
    advice = advise(**request)
    with started(mariadb, advice.to_cnf()):
        live = read_server(mariadb.address)
        assert (live.server.flavor, live.server.version) == ("mariadb", mariadb.program.version)
        assert holds(live.values, advice.settings) == []
        for name in ("flavor", "version"):
            request.pop(name)
        again = advise(address=mariadb.address, **request)
        # LZ4 is advised only once the server has said that it has it.
        assert [item.parameter for item in again.settings if item.differs and item.active] in (
            [],
            ["rocksdb_default_cf_options"],
        )
        if more.get("durability") == "relaxed":
            assert any("lose" in item.text for item in again.findings)
        assert "unknown variable" not in mariadb.log.read_text()


def test_myrocks_takes_lz4_where_the_server_says_it_has_it(mariadb):
    request = question(mariadb.program, engine="myrocks")
    with started(mariadb, advise(**request).to_cnf()):
        values = read_server(mariadb.address).values
    result = advised(**request, current=values)
    options = next(item.value for item in result if item.parameter == "rocksdb_default_cf_options")
    assert ("LZ4" in options) == ("LZ4" in values["rocksdb_supported_compression_types"].split(","))
    text = f"[mysqld]\nplugin_load_add=ha_rocksdb\nrocksdb_default_cf_options={format_value(options)}\n"
    with started(mariadb, text):
        connection = connect(mariadb.address)
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS advice")
            cursor.execute("CREATE OR REPLACE TABLE advice.t (a INT PRIMARY KEY) ENGINE=ROCKSDB")
            cursor.execute("INSERT INTO advice.t VALUES (1), (2)")
            cursor.execute("SET GLOBAL rocksdb_force_flush_memtable_now=1")
            cursor.execute("SELECT COUNT(*) FROM advice.t")
            assert cursor.fetchone()[0] == 2
        connection.close()


def test_tuned_settings_hold_for_innodb_and_myrocks(mariadb):
    for engine in ("innodb", "myrocks"):
        settings = tune_settings(**question(mariadb.program, engine=engine))
        plugin = "plugin_load_add=ha_rocksdb\n" if engine == "myrocks" else ""
        text = "[mysqld]\n" + plugin + "".join(f"{name}={format_value(value)}\n" for name, value in settings.items())
        with started(mariadb, text):
            values = read_server(mariadb.address).values
        for name, value in settings.items():
            have = values.get(name, values.get("tx_isolation"))
            assert (
                as_number(have) == as_number(value)
                if as_number(value) is not None
                else have.lower() in (value.lower(), "on", "off")
            ), name


OLD = """# of an older server
[client]
password = "not for anybody"
[mysqld]
innodb-buffer-pool-size = 64M
innodb_page_cleaners = 2
innodb_checksums = ON
loose-query_cache_size=0
skip-innodb-doublewrite
innodb_flush_log_at_trx_commit=2

[mysqldump]
quick
"""


def test_the_diff_makes_an_old_option_file_one_the_server_starts_with(mariadb):
    config = mariadb.folder / "old.cnf"
    config.write_text(OLD)
    request = question(mariadb.program) | {"config": config}
    before = advise(**request)
    assert {finding.parameter for finding in before.findings} >= {
        "innodb_page_cleaners",
        "innodb_checksums",
        "innodb_doublewrite",
    }
    diff = before.to_diff()
    assert "not for anybody" not in diff
    done = subprocess.run(["patch", "-p0", str(config)], input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    after = advise(**request)
    assert after.agrees and after.to_diff() == "", [item.text for item in after.findings]
    with started(mariadb, config.read_text()):
        assert holds(read_server(mariadb.address).values, after.settings) == []
        # A server and its file: the server says what holds, the file is what changes. 16 GiB hold a larger pool beside what
        # the connections may take; 1 GiB does not, and there the pool stays.
        both = advise(address=mariadb.address, config=config, storage=STORAGE, memory_gib=16.0)
        assert both.server.version == mariadb.program.version
        changed = both.to_diff()
        assert re.search(r"^-innodb[-_]buffer[-_]pool[-_]size = \S+$", changed, re.MULTILINE), changed
        assert f"--- {config}" in changed


@pytest.mark.parametrize(
    "more", [{}, {"durability": "relaxed", "replica": True, "vcpus": 16}], ids=["plain", "relaxed-replica"]
)
def test_mysql_starts_with_the_cnf_and_needs_no_change(mysql, more):
    request = question(mysql.program, **more)
    advice = advise(**request)
    with started(mysql, advice.to_cnf()):
        live = read_server(mysql.address)
        assert (live.server.flavor, live.server.version) == ("mysql", mysql.program.version)
        assert holds(live.values, advice.settings) == []
        for name in ("flavor", "version"):
            request.pop(name)
        again = advise(address=mysql.address, **request)
        assert [item.parameter for item in again.settings if item.differs and item.active] == []


def test_log_folders_are_used(mariadb, folders):
    """Redo logs that are moved as the advice says are found again."""
    logs = folders / "logs"
    logs.mkdir()
    shutil.chown(logs, USER, USER)
    request = question(mariadb.program, log_storage="gp3:20", log_dir=str(logs))
    for redo in mariadb.data.glob("ib_logfile*"):
        shutil.move(redo, logs / redo.name)
        shutil.chown(logs / redo.name, USER, USER)
    with started(mariadb, advise(**request).to_cnf()):
        assert read_server(mariadb.address).values["innodb_log_group_home_dir"].rstrip("/") == str(logs)
    for redo in logs.glob("ib_logfile*"):
        shutil.move(redo, mariadb.data / redo.name)
