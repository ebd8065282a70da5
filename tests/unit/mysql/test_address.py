"""Addresses of servers: what is read, what is refused, and that no password shows anywhere."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import os
import pickle
import socket
import tempfile
import threading
from pathlib import Path

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql import Address, Secret, connect, parse_address, write_client_file
from headrace.mysql.address import PASSWORD_VARIABLE
from headrace.mysql.connection import PRIVATE, REFUSALS
from headrace.mysql.option_files import quote_value, read_client

PASSWORD = "hunter2-Zebra"


@pytest.fixture(autouse=True)
def no_password_here(monkeypatch):
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


def test_what_an_address_says():
    assert parse_address("mysql://w@db.example/") == Address("w", "db.example", 3306)
    assert parse_address("mysql://w@db.example:3307/shop?ssl-mode=required") == Address(
        "w", "db.example", 3307, None, "shop", None, "REQUIRED"
    )
    assert parse_address("mysql://w@[::1]:3307").host == "::1"
    assert (
        parse_address("mysql://w%40x@10.0.0.1/a%2Fb".replace("a%2Fb", "a%20b")).label
        == "mysql://w%40x@10.0.0.1:3306/a%20b"
    )
    local = parse_address("mysql://w@/shop?socket=/run/mysqld/mysqld.sock")
    assert (local.host, local.port, local.socket, local.database) == (None, None, "/run/mysqld/mysqld.sock", "shop")
    assert local.with_database("other").label == "mysql://w@/other?socket=/run/mysqld/mysqld.sock"
    assert local.with_database(None).database is None


NAMES = st.text(
    st.characters(blacklist_categories=("Cc", "Cs", "Zl", "Zp", "Zs", "Cf", "Cn", "Co"), blacklist_characters="\0/"),
    min_size=1,
    max_size=30,
)


@given(
    user=NAMES,
    database=st.none() | NAMES,
    host=st.sampled_from(["db", "10.1.2.3", "::1", "a-b.example"]),
    port=st.integers(1, 65_535),
)
def test_a_label_reads_back(user, database, host, port):
    address = Address(user, host, port, None, database)
    assert parse_address(address.label) == address
    local = Address(user, None, None, "/tmp/a b.sock", database)
    assert parse_address(local.label) == local


WRONG = [
    ("db.example", "an address is"),
    ("http://w@db/", "an address is"),
    ("mysql:w@db", "an address is"),
    ("mysql://db.example/", "names no user"),
    ("mysql://w@/", "neither a host nor a socket"),
    ("mysql://w@db/?socket=/tmp/s", "a host and a socket"),
    ("mysql://w@/?socket=tmp/s", "absolute path"),
    ("mysql://w@/?socket=/" + "s" * 120, "absolute path"),
    ("mysql://w@db:99999/", "the port"),
    ("mysql://w@db:0/", "the port"),
    ("mysql://w@db:abc/", "the port"),
    ("mysql://w@[::1/", "an address is"),
    ("mysql://w@db/a/b", "one name"),
    ("mysql://w@db/#x", "an address is"),
    ("mysql://w@d_b!/", "name or an IP"),
    ("mysql://w@db/?ssl-mode=maybe", "must be one of DISABLED"),
    ("mysql://w@db/?ssl-mode=VERIFY_CA", "needs the CA"),
    ("mysql://w@db/?ssl-ca=/nonexistent.pem", "names no file"),
    ("mysql://w@db/?ssl-mode=REQUIRED&ssl-ca=/etc/hostname", "is not used with"),
    ("mysql://w@db/?charset=utf8", "must be one of socket"),
    ("mysql://w@db/?ssl_mod=REQUIRED", "Did you mean ssl-mode"),
    ("mysql://w@db/?ssl-mode", "KEY=VALUE"),
    ("mysql://w@db/?ssl-mode=REQUIRED&ssl-mode=DISABLED", "needs one value"),
    ("mysql://w@db/" + "d" * 65, "1 to 64"),
    ("mysql://" + "u" * 129 + "@db/", "1 to 128"),
    ("", "an address is"),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_what_is_refused(text, words):
    with pytest.raises(InputError, match=words) as caught:
        parse_address(text)
    assert caught.value.exit_code == 2 and caught.value.rule


@pytest.mark.parametrize(
    "text",
    [
        f"mysql://w:{PASSWORD}@db/",
        f"mysql://w:a/{PASSWORD}@db/",
        f"mysql://w:p@{PASSWORD}@db:x/",
        f"mysql:/w:{PASSWORD}@db/",
        f"mysql://w@db/?password={PASSWORD}",
        f"mysql://w@db/?pwd={PASSWORD}",
        f"mysql://:{PASSWORD}@db/",
        f"mysql://w:{PASSWORD}@db/?ssl-mode=maybe",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_repeated(text):
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert PASSWORD not in str(caught.value) + repr(caught.value) + str(caught.value.args)


def test_where_the_password_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "of the environment")
    assert parse_address("mysql://w@db/").password == Secret("of the environment")
    file = tmp_path / "client.cnf"
    file.write_text('[mysqld]\npassword=no\n[client]\nuser=x\npassword="of the file"\nhost=other\nport=1234\n')
    file.chmod(0o600)
    address = parse_address("mysql://w@db/", defaults_file=file)
    # The text wins over the file, the file over the environment.
    assert (address.user, address.host, address.port, address.password) == ("w", "db", 3306, Secret("of the file"))
    whole = parse_address("mysql://", defaults_file=file)
    assert (whole.user, whole.host, whole.port) == ("x", "other", 1234)
    file.write_text("[client]\nuser=x\nhost=localhost\nport=1\nsocket=/tmp/s\n")
    assert parse_address("mysql://", defaults_file=file).socket == "/tmp/s"


def test_an_option_file_others_may_read_is_refused(tmp_path):
    file = tmp_path / "client.cnf"
    file.write_text(f"[client]\nuser=w\npassword={PASSWORD}\n")
    for mode in (0o644, 0o640, 0o660):
        file.chmod(mode)
        with pytest.raises(InputError, match="others may read it") as caught:
            parse_address("mysql://db/", defaults_file=file)
        assert "chmod 600" in caught.value.hint and PASSWORD not in str(caught.value)
    if os.geteuid() == 0:
        file.chmod(0o600)
        os.chown(file, 12_345, 12_345)
        with pytest.raises(InputError, match="belongs to user id 12345"):
            parse_address("mysql://db/", defaults_file=file)
    file.write_text("[client]\nuser=w\n")
    file.chmod(0o644)  # nothing secret in it
    assert parse_address("mysql://db/", defaults_file=file).user == "w"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[client\nuser=w\n", "ends with ]"),
        (b"user=w\n", "before the first"),
        (b"[client]\nuser=w\n!include", "last line"),
        (b"[client]\nport=x\n", "1 to 65,535"),
        (b"\xff\xfe\x00", "zero bytes"),
    ],
)
def test_bad_option_files(tmp_path, text, words):
    (tmp_path / "c.cnf").write_bytes(text)
    with pytest.raises(InputError, match=words):
        read_client(tmp_path / "c.cnf")
    with pytest.raises(HeadraceError):
        read_client(tmp_path / "absent.cnf")
    with pytest.raises(HeadraceError):
        read_client(tmp_path)


@given(
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=40).filter(
        lambda text: text.splitlines() == [text] or "\n" in text or "\r" in text or "\t" in text
    )
)
def test_what_is_written_into_an_option_file_reads_back(text):
    """Only \\n, \\r and others that have an escape may break a line in an option file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.cnf"
        path.touch(0o600)
        path.write_bytes(f"[client]\npassword={quote_value(text)}\n".encode())
        assert read_client(path) == {"password": text}


def test_client_files_are_for_their_owner_alone(tmp_path):
    address = parse_address("mysql://w@db:3307/shop?ssl-mode=REQUIRED").with_password(Secret(PASSWORD))
    old = os.umask(0)
    try:
        path = write_client_file(address, tmp_path / "c.cnf")
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path) == ["c.cnf"]
    again = parse_address("mysql://", defaults_file=path)
    assert (again.user, again.host, again.port, again.password) == ("w", "db", 3307, Secret(PASSWORD))
    with pytest.raises(CouldNotRun, match="cannot be written"):
        write_client_file(address, tmp_path / "no" / "c.cnf")
    with pytest.raises(InputError, match="zero byte"):
        write_client_file(address.with_password(Secret("a\0b")), tmp_path / "d.cnf")
    assert os.listdir(tmp_path) == ["c.cnf"]


def test_a_secret_stays_one():
    secret = Secret(PASSWORD)
    address = Address("w", "db", 3306, password=secret)
    texts = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>10}",
        f"{secret!r}",
        repr(address),
        str(address),
        address.label,
    ]
    texts += [
        repr(copy.deepcopy(address)),
        repr(dataclasses.asdict(address)),
        repr(dataclasses.replace(address, port=1)),
        "%s" % secret,  # noqa: UP031
    ]
    assert not any(PASSWORD in text for text in texts)
    assert secret.reveal() == PASSWORD and copy.deepcopy(address).password.reveal() == PASSWORD
    assert (
        secret == Secret(PASSWORD) and secret != Secret("x") and secret != PASSWORD and bool(secret) and not Secret("")
    )
    for turn in (pickle.dumps, json.dumps):
        with pytest.raises(TypeError):
            turn(secret)


# --- what listens there is no server ------------------------------------------------------------------------------------------


class Answering:
    """A TCP port of this machine that says something and hangs up, or nothing at all."""

    def __init__(self, says: bytes | None) -> None:
        self.says, self.listener = says, socket.create_server(("127.0.0.1", 0))
        self.port, self.connections = self.listener.getsockname()[1], []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                talk, _ = self.listener.accept()
            except OSError:
                return
            if self.says is None:
                self.connections.append(talk)
                continue
            talk.sendall(self.says)
            talk.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for talk in self.connections:
            talk.close()


GREETING = b"5.7.0\0" + b"\x01\0\0\0" + b"12345678\0"


def packet(content: bytes, sequence: int = 0) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([sequence]) + content


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"", "does not answer like a MySQL server"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "does not answer like a MySQL server"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "does not answer like a MySQL server"),
        (packet(b"\x0a" + GREETING[:9]), "does not answer like a MySQL server"),
        (packet(b""), "does not answer like a MySQL server"),
        # the X protocol's notice
        (packet(b"\x05\0\0\0\x0b\x08\x05\x1a\0"), "does not answer like a MySQL server"),
        (packet(b"\xff\x10\x04Too many connections"), "takes no more connections"),
        (packet(b"\xff\x6a\x04Host '127.0.0.1' is not allowed to connect to this server"), "does not let this host in"),
        (packet(b"\xff\x69\x04Host is blocked"), "blocks this host"),
        (os.urandom(64), None),
        (None, "did not answer within|does not answer like"),
    ],
    ids=["hangs up", "ssh", "http", "cut", "empty", "x protocol", "full", "host", "blocked", "noise", "silent"],
)
def test_a_port_that_is_no_server(says, words):
    with Answering(says) as other, pytest.raises(HeadraceError, match=words) as caught:
        connect(Address("w", "127.0.0.1", other.port, password=Secret(PASSWORD)), timeout_s=0.5)
    assert caught.value.hint and PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def greeting_of(capabilities: int, plugin: bytes) -> bytes:
    """Returns the first packet of a server (protocol 10): its capabilities, and the plugin by which
    it takes the password."""
    head = b"\x0a8.0.0\0" + b"\x01\0\0\0" + b"12345678\0" + (capabilities & 0xFFFF).to_bytes(2, "little")
    rest = (capabilities >> 16).to_bytes(2, "little") + b"\x15" + b"\0" * 10 + b"123456789012\0"
    return head + b"\x21" + b"\x02\0" + rest + plugin + b"\0"


def test_a_server_without_tls_gets_no_password_when_tls_is_asked_for():
    """A greeting without the capability SSL (0x800): nothing but the hang-up may follow."""
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))
    greeting = greeting_of(0xFFFF_F7FF & ~0x0000_0800, b"mysql_clear_password")

    def serve():
        talk, _ = listener.accept()
        with talk:
            talk.sendall(packet(greeting))
            heard.append(talk.recv(4096))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener, pytest.raises(InputError, match="offers no TLS"):
        connect(
            Address("w", "127.0.0.1", listener.getsockname()[1], password=Secret(PASSWORD), ssl_mode="REQUIRED"),
            timeout_s=2,
        )
    thread.join(5)
    assert heard == [b""]


def test_a_server_that_asks_for_the_password_in_clear_does_not_get_it():
    heard = []
    listener = socket.create_server(("127.0.0.1", 0))
    greeting = greeting_of(0xFFFF_F7FF, b"mysql_native_password")

    def serve():
        talk, _ = listener.accept()
        with talk:
            talk.sendall(packet(greeting))
            heard.append(talk.recv(4096))
            talk.sendall(packet(b"\xfemysql_clear_password\0", 2))
            heard.append(talk.recv(4096))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener, pytest.raises(InputError, match="sent over TLS"):
        connect(Address("w", "127.0.0.1", listener.getsockname()[1], password=Secret(PASSWORD)), timeout_s=2)
    thread.join(5)
    assert not any(PASSWORD.encode() in received for received in heard)


def test_what_stands_in_brackets_and_is_no_address_is_not_called_a_port():
    # The words of the library about [short] hold the letters of port.
    with pytest.raises(InputError) as caught:
        parse_address("mysql://watcher@[short]/")
    assert "port" not in caught.value.rule and "IPv6" in caught.value.hint
    with pytest.raises(InputError, match="the port must be a number"):
        parse_address("mysql://watcher@host:port/")


def test_what_is_used_of_pymysql_beyond_its_public_interface_is_there():
    """A release of PyMySQL without one of these names would break authentication in clear, or
    cutting a connection.
    """
    connection = pymysql.connect(defer_connect=True)
    for name in ("_secure", "_auth_plugin_name"):  # set when a connection is made
        setattr(connection, name, None)
    assert all(hasattr(connection, name) for name in PRIVATE)
    source = inspect.getsource(pymysql.connections)
    assert all(f"self.{name}" in source for name in PRIVATE)


CODES = [int(cause) for cause, row in REFUSALS.items() if "{code}" in row["source"] and cause != "0"]


@pytest.mark.parametrize("code", [*CODES, 4000])
def test_a_refusal_is_told_by_its_number(code):
    words = b"#28000" + b"anything a translated server may say"
    with (
        Answering(packet(b"\xff" + code.to_bytes(2, "little") + words)) as other,
        pytest.raises(HeadraceError) as caught,
    ):
        connect(Address("w", "127.0.0.1", other.port, database="shop"), timeout_s=2)
    assert caught.value.hint and str(code) in caught.value.source and "does not answer like" not in caught.value.rule
