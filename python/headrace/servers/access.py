"""The user a server runs as, its account for Headrace, and its certificates.

Headrace has an account of its own on every server: `headrace`, with a random password in a file
that only root may read. The server gets it by --init-file at its first start, before it lets anyone
in; that file is removed when the server is ready. Over TCP the server's certificate is signed by an
authority that was made for it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.base.files import explain_unwritable, move_over
from headrace.base.machine import require_program
from headrace.base.processes import Command, User, run_checked
from headrace.errors import CouldNotRun
from headrace.mysql.address import Address, Secret, write_client_file
from headrace.mysql.option_files import read_client
from headrace.servers.record import ServerPaths


def find_service_user() -> User:
    """Returns the user `mysql`. Raises CouldNotRun if this machine has none."""
    try:
        entry = pwd.getpwnam("mysql")
    except KeyError:
        rule = "there is no such user, and a server does not run as root"
        hint = "useradd --system --no-create-home --shell /usr/sbin/nologin mysql (`headrace mysql install` does it)"
        raise CouldNotRun("user mysql", rule, "docs/guide/mysql-on-the-lab.md", hint) from None
    return User(entry.pw_name, entry.pw_uid, entry.pw_gid)


def check_root() -> None:
    """Raises CouldNotRun unless this process is root."""
    if os.geteuid() != 0:
        rule = "mounting a volume and starting a server as another user takes root"
        raise CouldNotRun(f"user id {os.geteuid()}", rule, "mount(2), setuid(2)", "Run it with sudo.")


ACCOUNT = "headrace"
PASSWORD_BYTES = 24  # 192 random bits: more than the 128 that count as safe


def create_account(where: ServerPaths) -> None:
    """Makes a new password and writes the client's option file with it."""
    # URL-safe Base64: nothing in it needs quotes, in SQL or in an option file.
    password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
    write_client_file(Address(ACCOUNT, socket=str(where.socket), password=password), where.client)


def make_address(where: ServerPaths, port: int | None, database: str | None = None, host: str = "127.0.0.1") -> Address:
    """Returns the address of Headrace's account on a server: by its socket, or by `host` and `port`
    over TLS. The password is read from the client's option file."""
    password = Secret(read_client(where.client).get("password", ""))
    server_address = Address(ACCOUNT, socket=str(where.socket), password=password)
    if port is not None:
        authority = str(where.tls / "ca.pem")
        server_address = Address(ACCOUNT, host, port, password=password, ssl_mode="VERIFY_CA", ssl_ca=authority)
    return server_address if database is None else server_address.with_database(database)


def make_account_statements(password: str, flavor: str, host: str = "127.0.0.1") -> str:
    """Returns the SQL that creates Headrace's account, one statement a line, as --init-file reads
    it. It can be run again, and is not written to the binary log: a replica has its own account."""
    lines = ["SET SESSION sql_log_bin=0;"]
    patterns = [("localhost", ""), ("127.0.0.1", " REQUIRE SSL")]
    if host != "127.0.0.1":
        # From the lab's own network, which is on this machine: 198.18.7.%.
        patterns.append((f"{host.rpartition('.')[0]}.%", " REQUIRE SSL"))
    for pattern, tls in patterns:
        account = f"'{ACCOUNT}'@'{pattern}'"
        lines += [
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{password}'{tls};",
            f"ALTER USER {account} IDENTIFIED BY '{password}'{tls};",
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;",
        ]
    if flavor == "mysql":
        # --initialize-insecure gives root no password; MariaDB's root is the system's (unix_socket)
        lines.append("ALTER USER IF EXISTS 'root'@'localhost' ACCOUNT LOCK;")
    return "\n".join(lines) + "\n"


@contextmanager
def write_init_file(where: ServerPaths, flavor: str, user: User, host: str = "127.0.0.1") -> Iterator[Path]:
    """Writes the statements that create the account to a file that only the server may read, and
    yields its path; the file is removed after the block."""
    path = where.socket.with_name("init.sql")
    text = make_account_statements(read_client(where.client)["password"], flavor, host)
    with explain_unwritable(path, "Is there room in /run?"):
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400), "w") as file:
            os.fchown(file.fileno(), user.uid, user.gid)
            file.write(text)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


# --- TLS ------------------------------------------------------------------------------------------

# Making a key and two signatures takes a second; a guess for a machine that is busy.
OPENSSL_S = 60.0
# Ten years, longer than a lab lives; RFC 5280 sets no limit.
DAYS = "3650"
CURVE = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
EXTENSIONS = """subjectAltName=IP:127.0.0.1,DNS:localhost{more}
basicConstraints=CA:FALSE
extendedKeyUsage=serverAuth
"""
AUTHORITY = "source-{name}.pem"  # the authority of a source that this server replicates from
FILES = ("ca.pem", "server-cert.pem", "server-key.pem")


def create_certificates(where: ServerPaths, name: str, host: str = "127.0.0.1") -> None:
    """Creates a certificate authority, and the server's certificate and key for 127.0.0.1 and
    `host`, in the private folder. The authority's key is deleted once it has signed."""
    where.tls.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.state) as folder:
        draft = Path(folder)
        (draft / "extensions").write_text(EXTENSIONS.format(more="" if host == "127.0.0.1" else f",IP:{host}"))
        signer = ("-addext", "keyUsage=critical,keyCertSign,cRLSign", "-subj", f"/CN=Headrace CA of {name}")
        _run_openssl(draft, f"req -x509 {CURVE} -keyout ca-key.pem -out ca.pem -days {DAYS}", *signer)
        subject = f"/CN=Headrace server {name}"
        _run_openssl(draft, f"req {CURVE} -keyout server-key.pem -out request.pem", "-subj", subject)
        _run_openssl(
            draft,
            f"x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days {DAYS} -extfile extensions -out server-cert.pem",
        )
        for file in FILES:
            move_over(draft / file, where.tls / file)


def _run_openssl(folder: Path, arguments: str, *more: str) -> None:
    """Runs openssl in a folder, with `arguments` split at blanks, and `more` as they are."""
    command = Command((require_program("openssl", "openssl"), *arguments.split(), *more), folder, what="openssl")
    run_checked(command, OPENSSL_S, "TLS needs OpenSSL 1.1.1 or newer.")


def place_certificates(where: ServerPaths, user: User) -> None:
    """Copies the certificates to the folder in /run from which the server reads them. It is done at
    each start, because a boot empties /run."""
    with explain_unwritable(where.keys, "Make it again."):
        where.keys.mkdir(mode=0o750, exist_ok=True)
        os.chown(where.keys, 0, user.gid)
        authorities = [path.name for path in where.tls.glob(AUTHORITY.format(name="*"))]  # of servers that it follows
        for name in (*FILES, *authorities):
            shutil.copyfile(where.tls / name, where.keys / name)
            os.chown(where.keys / name, 0, user.gid)
            os.chmod(where.keys / name, 0o640)
