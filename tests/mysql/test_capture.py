"""Captures of a real MariaDB under a real sysbench: what is counted, what is asked, what is refused, and what is kept when something dies.

Needs mariadb-server, sysbench and openssl; names what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from waiting import wait_until

from headrace.calibration.runs import load_run
from headrace.cli.workloads.capture import report
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql import Secret, connect, parse_address, write_client_file
from headrace.observe.live.profile import ask_account, read_profile
from headrace.observe.live.record import CaptureRequest
from headrace.observe.live.record import capture as capture_run
from headrace.observe.live.sampler import Sampler

PASSWORD = "pa\"ss#wo\\rd$ 'x"
NEEDED = ("mariadbd", "mariadb-install-db", "mariadb", "mariadb-admin", "sysbench", "openssl")
TABLES, ROWS = 2, 5_000
ACCOUNTS = f"""
CREATE DATABASE sb;
CREATE USER bench@'%' IDENTIFIED BY ''; GRANT ALL ON sb.* TO bench@'%';
CREATE USER watcher@'%' IDENTIFIED BY '{PASSWORD.replace(chr(92), chr(92) * 2).replace("'", "''")}'; GRANT PROCESS ON *.* TO watcher@'%';
CREATE USER poor@'%' IDENTIFIED BY 'x';
CREATE USER one@'%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1;
CREATE USER tls@'%' IDENTIFIED BY 'x' REQUIRE SSL;
"""


@pytest.fixture(scope="module", autouse=True)
def machine():
    lacking = [
        program for program in NEEDED if shutil.which(program) is None and not os.path.exists(f"/usr/sbin/{program}")
    ]
    if lacking:
        pytest.fail(
            f"tests of captures need {', '.join(lacking)}: apt-get install mariadb-server sysbench openssl",
            pytrace=False,
        )


class Live:
    """A MariaDB in a folder of its own, on a socket and a port of the loopback, ended with its test."""

    def __init__(self, folder: Path, template: Path, *options: str) -> None:
        self.folder, self.socket = folder, folder / "s"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        shutil.copytree(template / "data", folder / "data")
        own = ["--user=mysql"] if os.geteuid() == 0 else []
        if own:
            folder.chmod(0o755)
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, "mysql")
        words = [shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", *own, f"--datadir={folder}/data", f"--socket={self.socket}",
                 f"--port={self.port}", "--bind-address=127.0.0.1", f"--pid-file={folder}/pid", "--innodb-buffer-pool-size=32M",
                 "--innodb-log-file-size=16M", "--skip-name-resolve", *options]  # fmt: skip
        self.log = (folder / "log").open("wb")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT)

        def answers() -> bool:
            try:
                self.root().close()
            except HeadraceError:
                assert self.process.poll() is None, (folder / "log").read_text()[-2_000:]
                return False
            return True

        wait_until(answers, "an answer of the server", 60)

    def address(self, user: str = "watcher", password: str | None = PASSWORD, tcp: str = "", database: str = ""):
        text = (
            f"mysql://{user}@127.0.0.1:{self.port}/{database}{tcp}"
            if tcp
            else f"mysql://{user}@/{database}?socket={self.socket}"
        )
        return parse_address(text.replace("?tcp", "")).with_password(None if password is None else Secret(password))

    def root(self):
        return connect(self.address("root", None))

    def run(self, *statements: str) -> None:
        with self.root() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def is_sampled(self) -> None:
        """Returns once a capture has connected and asked for a while: interpreters start slowly beside others."""

        def connected() -> bool:
            with self.root() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'watcher'")
                return bool(cursor.fetchone()[0])

        wait_until(connected, "a capture that has connected")
        time.sleep(2.5)  # samples stand on whole seconds

    def sysbench(self, seconds: int, *options: str) -> int:
        """Runs oltp_read_write; the transactions it says it did."""
        words = ["sysbench", "oltp_read_write", f"--mysql-socket={self.socket}", "--mysql-user=bench", "--mysql-db=sb", f"--tables={TABLES}",
                 f"--table-size={ROWS}", "--threads=2", f"--time={seconds}", "--db-ps-mode=auto", *options, "run"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"transactions: +(\d+)", done.stdout)[1])

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def place():
    """A folder the server's own user may pass through; pytest's are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="headrace-capture-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def template(place) -> Path:
    """A data directory with the accounts and sysbench's tables, and certificates of a CA of its own."""
    folder = _sub(place, "template")
    own = ["--user=mysql"] if os.geteuid() == 0 else []
    words = [
        "mariadb-install-db",
        "--no-defaults",
        *own,
        f"--datadir={folder}/data",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]
    if own:
        shutil.chown(folder, "mysql")
    subprocess.run([*words, "--innodb-log-file-size=16M"], check=True, capture_output=True)
    _certificates(folder)
    live = Live(_sub(folder, "first"), folder)
    try:
        live.run(*filter(None, (line.strip() for line in re.split(r";\s", ACCOUNTS))))
        words = [
            "sysbench",
            "oltp_read_write",
            f"--mysql-socket={live.socket}",
            "--mysql-user=bench",
            "--mysql-db=sb",
            f"--tables={TABLES}",
        ]
        subprocess.run([*words, f"--table-size={ROWS}", "prepare"], check=True, capture_output=True)
    finally:
        live.close()
    shutil.rmtree(folder / "data")
    (folder / "first" / "data").rename(folder / "data")
    return folder


def _sub(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _certificates(folder: Path) -> None:
    """ca.pem and other.pem, and a certificate of the first for the IP address 127.0.0.1."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    for name in ("ca", "other"):
        openssl(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            f"{name}-key.pem",
            "-out",
            f"{name}.pem",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
        )
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=server")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        "x509",
        "-req",
        "-in",
        "request.pem",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca-key.pem",
        "-CAcreateserial",
        "-out",
        "cert.pem",
        "-days",
        "2",
        "-extfile",
        "names",
    )
    for path in folder.glob("*.pem"):
        path.chmod(0o644)


@pytest.fixture(scope="module")
def live(template, place):
    folder = _sub(place, "live")
    ssl = [f"--ssl-ca={template}/ca.pem", f"--ssl-cert={template}/cert.pem", f"--ssl-key={template}/key.pem"]
    live = Live(
        _sub(folder, "db"), template, *ssl, "--performance-schema=ON", f"--general-log-file={folder}/db/general.log"
    )
    yield live
    live.close()


def headrace(*words: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "headrace", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})  # fmt: skip


# --- what is counted ----------------------------------------------------------------------------------------------------------


def test_a_capture_counts_every_transaction(live, tmp_path):
    """Watched from before sysbench begins until after it has ended: the server's commits are sysbench's, to the last one."""
    begun, capture_runs = threading.Event(), []
    request = CaptureRequest(live.address(), 10.0, "gp3:500", threads=2, as_of=None)

    def watch():
        capture_runs.append(capture_run(request, tmp_path / "run", progress=lambda done: begun.set()))

    thread = threading.Thread(target=watch)
    thread.start()
    assert begun.wait(30)
    time.sleep(1.2)  # the first sample stands on the next whole second
    done = live.sysbench(5)
    thread.join()
    (captured,) = capture_runs
    run = load_run(captured.description)
    # Rates are over the time between samples as it was, rows last a second: milliseconds late make a thousandth.
    assert run.transactions == pytest.approx(done, rel=0.01) and captured.state == "whole"
    status = (captured.description.parent / "status.csv").read_text().splitlines()
    at = status[0].split(",").index("com_commit")
    assert int(status[-1].split(",")[at]) - int(status[1].split(",")[at]) == done
    assert (run.engine, run.flavor, run.threads, run.storage) == ("innodb", "mariadb", 2, "gp3:500")
    assert (
        run.cache_gib == 32 / 1024
        and run.settings["redo_gib"] == 16 / 1024
        and run.settings["flush_log_at_trx_commit"] == 1
    )
    size_gib = sum(path.stat().st_size for path in (live.folder / "data").rglob("*.ibd")) / 2**30
    # InnoDB's list has the system tablespace too (12 MiB), and little of its own.
    assert size_gib <= run.benchmark.data_gib <= size_gib + 64 / 1024
    assert any("SELECT ON performance_schema" in note for note in captured.notes)
    assert {path.name for path in captured.description.parent.iterdir()} <= {"RUN.toml", "status.csv", "disk.csv"}


def test_one_statement_a_second_and_nothing_but_reading(live, tmp_path):
    live.run("SET GLOBAL general_log = ON")
    try:
        captured = capture_run(CaptureRequest(live.address(), 10.0, "gp3:500"), tmp_path / "run")
    finally:
        live.run("SET GLOBAL general_log = OFF")
    rows = [line.split(",") for line in (tmp_path / "run" / "status.csv").read_text().splitlines()]
    at = rows[0].index("questions")
    request = [int(row[at]) for row in rows[1:]]
    assert len(request) >= 8
    # Nobody else is there: each sample is one request.
    assert [b - a for a, b in zip(request, request[1:], strict=False)] == [1] * (len(request) - 1)
    log = (live.folder / "general.log").read_text()
    matches = [text for text in re.findall(r"\d+ (?:Query|Execute|Prepare)\t(.*)", log) if "general_log" not in text]
    allowed = re.compile(
        r"SHOW (GLOBAL|GRANTS)|SELECT |SET NAMES|SET AUTOCOMMIT|SET SESSION TRANSACTION READ ONLY", re.IGNORECASE
    )
    assert matches and [text for text in matches if not allowed.match(text)] == []
    assert len(re.findall(r"\d+ Connect\twatcher", log)) <= 4  # one after the other: before, during, after
    # A server that did nothing makes no run, and the samples are kept.
    with pytest.raises(InputError, match="grows in the whole file") as caught:
        report(captured, "json", None, None)
    assert "The samples are in" in caught.value.hint and captured.description.exists()


# --- what is refused ----------------------------------------------------------------------------------------------------------


def test_wrong_accounts(live):
    cases = [
        (live.address(password="no"), InputError, "access denied for watcher with the password given"),
        (live.address(password=None), InputError, "access denied for watcher without a password"),
        (live.address("nobody", None), InputError, "access denied for nobody"),
        (live.address(database="sb"), InputError, "may not use database sb"),
        (live.address("root", None, database="nonesuch"), InputError, "no database nonesuch"),
    ]
    for address, kind, words in cases:
        with pytest.raises(kind, match=words) as caught:
            connect(address)
        assert caught.value.hint and PASSWORD not in str(caught.value)
    with connect(live.address("one", "x")), pytest.raises(CouldNotRun, match="no more connections"):
        connect(live.address("one", "x"))


def test_missing_privileges_are_named_as_a_grant(live, tmp_path):
    with pytest.raises(InputError, match="how large the data are") as caught:
        capture_run(CaptureRequest(live.address("poor", "x"), 10.0, "gp3:500"), tmp_path / "run")
    assert "GRANT PROCESS ON *.* TO 'poor'@'%'" in caught.value.hint and not (tmp_path / "run").exists()
    with live.root() as connection:
        profile = read_profile(connection, live.address("root", None))
        assert any("may write" in note for note in profile.notes) and ask_account(connection) == "'root'@'localhost'"
    with connect(live.address()) as connection:
        assert not read_profile(connection, live.address()).notes


def test_tls(live, template):
    def tcp(mode: str, user: str = "watcher", password: str = PASSWORD):
        return live.address(user, password, tcp=mode)

    def cipher(address) -> str:
        with connect(address) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return cursor.fetchone()[1]

    ca, other = f"&ssl-ca={template}/ca.pem", f"&ssl-ca={template}/other.pem"
    assert cipher(tcp("?ssl-mode=DISABLED")) == "" and cipher(live.address()) == ""
    for mode in (
        "?ssl-mode=PREFERRED",
        "?ssl-mode=REQUIRED",
        f"?ssl-mode=VERIFY_CA{ca}",
        f"?ssl-mode=VERIFY_IDENTITY{ca}",
    ):
        assert cipher(tcp(mode)).startswith(("TLS_", "ECDHE")), mode
    assert cipher(tcp("?ssl-mode=REQUIRED", "tls", "x"))
    for mode, words in (
        (f"?ssl-mode=VERIFY_CA{other}", "certificate is not accepted"),
        (f"?ssl-mode=VERIFY_IDENTITY{other}", "certificate is not accepted"),
    ):
        with pytest.raises(InputError, match=words):
            connect(tcp(mode))
    name = parse_address(
        tcp(f"?ssl-mode=VERIFY_IDENTITY{ca}").label.replace("127.0.0.1", "localhost") + f"?ssl-mode=VERIFY_IDENTITY{ca}"
    )
    with pytest.raises(HeadraceError, match="certificate is not accepted|no server listens"):
        connect(name.with_password(Secret(PASSWORD)))
    with pytest.raises(InputError, match="not a CA certificate"):
        connect(tcp(f"?ssl-mode=VERIFY_CA&ssl-ca={template}/names"))
    with pytest.raises(InputError, match="access denied for tls"):
        connect(tcp("?ssl-mode=DISABLED", "tls", "x"))
    live.run("SET GLOBAL require_secure_transport = ON")
    try:
        # MySQL says so (error 3159); MariaDB 10.11 denies access and leaves it to the reader.
        with pytest.raises(InputError, match="TLS only|access denied") as caught:
            connect(tcp("?ssl-mode=DISABLED"))
        assert "ssl-mode=REQUIRED" in caught.value.hint
    finally:
        live.run("SET GLOBAL require_secure_transport = OFF")


def test_the_clients_take_the_file_we_write(live, template, tmp_path):
    local = write_client_file(live.address(), tmp_path / "local.cnf")
    remote = write_client_file(
        live.address(tcp=f"?ssl-mode=VERIFY_CA&ssl-ca={template}/ca.pem"), tmp_path / "remote.cnf"
    )
    plain = write_client_file(live.address(tcp="?tcp"), tmp_path / "plain.cnf")  # TLS where the server has it
    for file in (local, remote, plain):
        request = [
            "mariadb",
            f"--defaults-file={file}",
            "-BNe",
            "SELECT CURRENT_USER(); SHOW SESSION STATUS LIKE 'Ssl_cipher'",
        ]
        done = subprocess.run(request, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("watcher@%"), done.stderr
        assert file is local or done.stdout.splitlines()[1].partition("\t")[2].startswith("TLS_")
        assert (
            subprocess.run(["mariadb-admin", f"--defaults-file={file}", "status"], capture_output=True).returncode == 0
        )
    # An account that needs TLS: Headrace's own connection prefers it, so the tools must.
    needs_tls = write_client_file(live.address("tls", "x", tcp="?tcp"), tmp_path / "tls.cnf")
    connect(live.address("tls", "x", tcp="?tcp")).close()
    done = subprocess.run(["mariadb", f"--defaults-file={needs_tls}", "-e", "DO 1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    chosen = write_client_file(live.address("bench", "", database="sb"), tmp_path / "chosen.cnf")
    done = subprocess.run(
        ["mariadb", f"--defaults-file={chosen}", "-BNe", "SELECT DATABASE()"], capture_output=True, text=True
    )
    assert done.stdout.strip() == "sb"


def test_folders_and_storage_that_cannot_be(live, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    (tmp_path / "file").write_text("")
    for folder, words in (("full", "not empty"), ("file", "not a folder"), ("no/folder", "parent folder")):
        with pytest.raises(InputError, match=words):
            capture_run(CaptureRequest(live.address(), 10.0, "gp3:500"), tmp_path / folder)
    for changes, words in (
        ({"seconds": 5.0}, "10 s to 7 days"), ({"storage": "gp9:1"}, "not a volume type"), ({"engine": "aria"}, "one of innodb"),
        ({"engine": "myrocks"}, "not loaded"), ({"threads": 0}, "1 to 100,000"), ({"interval_s": 0.5}, "whole seconds"), ({"devices": ["/dev/none"]}, "not a block device"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            capture_run(
                CaptureRequest(**{"address": live.address(), "seconds": 10.0, "storage": "gp3:500"} | changes),
                tmp_path / "new",
            )
    assert not (tmp_path / "new").exists()


# --- the command, and what dies under it --------------------------------------------------------------------------------------


def test_passwords_are_nowhere(live, tmp_path):
    options = tmp_path / "client.cnf"
    write_client_file(live.address(), options)
    words = [
        "workload",
        "capture",
        live.address().label,
        "--seconds",
        "10",
        "--storage",
        "gp3:500",
        "-o",
        str(tmp_path / "run"),
        "--output",
        "json",
    ]
    running = headrace(*words, "--defaults-file", str(options))
    time.sleep(1.5)
    command = Path(f"/proc/{running.pid}/cmdline").read_bytes()
    live.sysbench(4)
    out, stderr = running.communicate(timeout=60)
    written = "".join(path.read_text() for path in (tmp_path / "run").iterdir())
    assert running.returncode == 0, stderr
    for place in (command.decode(), out, stderr, written):
        assert PASSWORD not in place and "wo\\rd" not in place


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_an_interrupted_capture_keeps_what_it_has(live, tmp_path, number, code):
    running = headrace("workload", "capture", live.address().label, "--seconds", "600", "--storage", "gp3:500", "-o", str(tmp_path / "run"),
                       HEADRACE_MYSQL_PASSWORD=PASSWORD)  # fmt: skip
    live.is_sampled()
    live.sysbench(3)
    running.send_signal(number)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == code and "was interrupted after" in stderr and "Traceback" not in stderr, stderr
    run = load_run(tmp_path / "run" / "RUN.toml")
    assert run.transactions > 0 and 2 <= run.span_s < 60


def test_a_server_that_is_killed_leaves_what_was_sampled(template, place, tmp_path):
    own = Live(_sub(place, "killed"), template)
    try:
        running = headrace("workload", "capture", own.address().label, "--seconds", "600", "--storage", "gp3:500", "-o", str(tmp_path / "run"),
                           HEADRACE_MYSQL_PASSWORD=PASSWORD)  # fmt: skip
        own.is_sampled()
        own.sysbench(3)
        with Sampler(own.address()) as sampler:
            time.sleep(2.2)
            own.process.kill()
            own.process.wait()
            time.sleep(1.5)
        samples = sampler.stop()
        _, stderr = running.communicate(timeout=60)
    finally:
        own.close()
    # The server's series ended with a note; that of the host went on.
    assert sampler.ended == {"status"} and any("ended at" in note for note in samples.notes)
    assert samples.host["t_unix"][-1] > samples.status["t_unix"][-1]
    assert running.returncode == 3 and "lost the server" in stderr and "Traceback" not in stderr, stderr
    assert load_run(tmp_path / "run" / "RUN.toml").transactions > 0
    with pytest.raises(CouldNotRun, match="no server listens|no such socket"):
        connect(own.address())
