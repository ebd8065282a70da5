"""MySQL's clone plugin: into a folder of the server's machine, or to a server that asks for it."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.base.files import move_over
from headrace.base.signals import ignore_interrupts
from headrace.base.waiting import wait_until
from headrace.errors import CouldNotRun, HeadraceError
from headrace.mysql.dialect import Dialect, quote_literal
from headrace.mysql.statements import SqlConnection, ask_row, load_plugin, run
from headrace.servers.access import find_service_user
from headrace.servers.copies.copy import COPY_S, CopyResult, Destination, PhysicalCopy, get_server
from headrace.servers.copies.folders import hold_folder, is_free
from headrace.servers.copies.pipeline import Flow, Stage
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource, count_physical_bytes, fetch_rows, read_position, refuse
from headrace.servers.flavors import ServerProgram

PLUGIN, LIBRARY = "clone", "mysql_clone.so"
# A CLONE statement of Headrace, and the longest wait for the end of a killed one, s (a guess).
CLONING = re.compile(r"CLONE LOCAL DATA DIRECTORY = '([^']*/headrace-[0-9A-Za-z_-]+)'")
CLONE_END_S, LOOK_EVERY_S = 30.0, 0.1
# ER_CLONE_...: the server wants a start, and nobody does it; 2006, 2013: gone while it answered.
ENDED = (3707, 2006, 2013)


class CloneCopy(PhysicalCopy):
    """A physical copy of a MySQL server of the lab."""

    form = "tar"

    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Lets the server clone into the destination's folder, and writes that as a tar stream into
        the destination's. Ends CLONE statements of killed runs first."""
        size, folder = count_physical_bytes(get_server(source)), into.folder
        assert into.stream is not None
        if not folder.parent.is_dir():
            raise refuse.input(str(folder.parent), "is not a folder", "Name one that the user mysql may write to.")
        with source.connect(COPY_S) as connection:
            load_plugin(connection, PLUGIN, LIBRARY, source.name)
            _end_clones(connection)
            with hold_folder(folder):
                before = read_position(connection, source)
                (number,), *_ = fetch_rows(connection, "SELECT CONNECTION_ID()")
                try:
                    fetch_rows(connection, f"CLONE LOCAL DATA DIRECTORY = '{_check_plain(folder)}'")
                except BaseException:
                    with ignore_interrupts():
                        _end_clone(source, int(number))
                    raise
                after = read_position(connection, source)
                expected = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
                command = (shutil.which("tar") or "tar", "--create", "--sparse", "--directory", str(folder), ".")
                into.stream.write(Flow([Stage(command, "tar", user=find_service_user())]), expected)
        # Only a server started on the clone can tell its position: it lies between these two.
        facts = {"position": "of the begin; the copy itself knows its own", "gtid_at_most": after.gtid}
        return CopyResult(before, size, facts=facts)

    def unpack(self, folder: Path) -> Stage:
        tar = shutil.which("tar") or "tar"
        return Stage((tar, "--extract", "--sparse", "--directory", str(folder)), tar)

    def prepare(self, data: Path, log: Path, program: ServerProgram) -> None:
        redo = data / "#innodb_redo"
        if redo.exists():
            move_over(redo, log / redo.name)


def fetch(connection: SqlConnection, dialect: Dialect, source: CopySource, name: str, authority: str) -> None:
    """Lets a new server fetch the data of `source`, waits until it has them, and lets it end
    itself. `connection`: to the new server, called `name`; `authority`: the file of the source's
    certificate authority. Raises CouldNotRun."""
    address = get_server(source).make_address(tcp=True)
    assert address.host is not None and address.password is not None  # of a server of the lab
    with source.connect() as donor:
        load_plugin(donor, PLUGIN, LIBRARY, source.name)
    load_plugin(connection, PLUGIN, LIBRARY, name)
    whose = f"{quote_literal(address.user)}@{quote_literal(address.host)}:{address.port}"
    clone = f"CLONE INSTANCE FROM {whose} IDENTIFIED BY {quote_literal(address.password.reveal())} REQUIRE SSL"
    statements = (
        *dialect.begin_session(),
        f"SET GLOBAL clone_valid_donor_list = {quote_literal(f'{address.host}:{address.port}')}",
        f"SET GLOBAL clone_ssl_ca = {quote_literal(authority)}",
    )
    run(connection, statements)
    try:
        run(connection, (clone,))
    except CouldNotRun as error:
        if not any(f"error {code} " in error.source for code in ENDED):
            hint = "See headrace mysql log of both."
            raise CouldNotRun(name, f"CLONE failed: {error.rule}", error.source, hint) from None


def read_fetched_position(connection: SqlConnection, name: str, log: Path) -> BinlogPosition:
    """Returns the position of the data that a new server has fetched. `log`: its error log, for
    errors. Raises CouldNotRun if CLONE did not complete."""
    columns = "STATE, ERROR_MESSAGE, BINLOG_FILE, BINLOG_POSITION"
    row = ask_row(connection, f"SELECT {columns} FROM performance_schema.clone_status")
    if not row or row[0] != "Completed":
        raise CouldNotRun(name, f"CLONE did not complete: {row[1] if row else 'no status'}", str(log), "")
    gtids = "".join(str(ask_row(connection, "SELECT @@GLOBAL.gtid_executed")[0]).split())
    return BinlogPosition(gtids, str(row[2]), int(row[3]))


def _end_clone(source: CopySource, number: int) -> None:
    """Kills the CLONE statement of the connection `number`, before its folder is removed. Errors
    are ignored: the next run kills it then."""
    with contextlib.suppress(HeadraceError), source.connect() as connection:
        _kill_clones(connection, lambda clone: clone[0] == number)


def _end_clones(connection: SqlConnection) -> None:
    """Kills the CLONE statements of runs that have ended."""

    def is_dead(clone: tuple[int, Path]) -> bool:
        lock = clone[1].with_name(f"{clone[1].name}.lock")  # of `hold_folder`
        return not lock.exists() or is_free(lock)

    _kill_clones(connection, is_dead)


def _kill_clones(connection: SqlConnection, is_dead: Callable[[tuple[int, Path]], bool]) -> None:
    """Kills the CLONE statements for whose connection and folder `is_dead` is true, and waits up to
    CLONE_END_S seconds for their end. A server continues them without their client."""
    text = "SELECT id, info FROM performance_schema.processlist WHERE info LIKE 'CLONE LOCAL DATA DIRECTORY%'"

    def have_ended() -> bool:
        running = [(int(number), CLONING.fullmatch(str(info))) for number, info in fetch_rows(connection, text)]
        dead = [number for number, match in running if match and is_dead((number, Path(match[1])))]
        for number in dead:
            with contextlib.suppress(CouldNotRun):  # it may have ended by itself
                fetch_rows(connection, f"KILL {number}")
        return not dead

    wait_until(have_ended, CLONE_END_S, LOOK_EVERY_S)


def _check_plain(path: Path) -> str:
    """Returns a path as text for an SQL statement. Raises InputError if it needs quoting."""
    if not re.fullmatch(r"[A-Za-z0-9/._-]+", str(path)):
        rule = "CLONE is given paths of letters, digits, / . _ - alone"
        raise refuse.input(repr(str(path))[:120], rule, "Name another --staging folder.")
    return str(path)
