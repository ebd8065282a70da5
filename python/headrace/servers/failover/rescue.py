"""Reads the tail of a dead source's binary log from its volume and applies it to the new source.

An EBS volume outlives its instance: what the source flushed is there, whether a replica received it
or not. The volume is detached from the dead source and mounted, and the transactions that the new
source lacks are applied to it with their own GTIDs.
"""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from headrace.base.processes import PRIVATE_ENVIRONMENT, spawn
from headrace.errors import HeadraceError
from headrace.mysql.gtid import GtidSet
from headrace.servers.backup.history.events import select_lacking
from headrace.servers.copies.dump import MOST_PACKET
from headrace.servers.copies.source import make_client_file
from headrace.servers.failover.hosts import CHANGE_S, AddressHost, change, query_host_state
from headrace.servers.failover.planning.election import describe_ranges
from headrace.servers.failover.planning.members import refuse
from headrace.servers.flavors import CLIENTS, READERS, ServerProgram, find_program
from headrace.servers.topology.threads import stop_applying

# A guess: a tail is what a replica had not received, seconds of writes.
APPLY_S = 600.0
# Errors of a reader at the end of a file that a crash cut off: all before it has been read.
CUT_OFF = re.compile(
    r"read error|corrupted|truncated|unexpected|event read|Could not read entry|Error in Log_event", re.I
)
# Error of mariadb-binlog for a log without a transaction beyond the start position (seen with
# 10.11.19: it compares numbers within a domain): everything has been read.
NOTHING_BEYOND = re.compile(r"Binary logs never reached expected GTID state")
# Statements that no reverse exists for; row events are comments or BINLOG statements here.
DDL = re.compile(rb"(?:CREATE|ALTER|DROP|TRUNCATE|RENAME|GRANT|REVOKE)\b", re.I)
MOST_LISTED = 100_000  # GTIDs that are kept of a tail; more are counted alone
MARIADB_GTID = re.compile(rb"#.*?\bGTID (\d+-\d+-\d+)\b")
MYSQL_GTID = re.compile(rb"SET @@SESSION\.GTID_NEXT= '([0-9a-f-]{36}(?::[a-z_0-9]+)?:\d+)'", re.I)


def rescue(old: AddressHost, new: AddressHost, has: GtidSet, say: Callable[[str], None]) -> int:
    """Applies to `new` the transactions in the binary log of `old`, a dead server, that `has`
    lacks, and returns their number. Nothing is written to the old volume. Raises CouldNotRun; then
    `new` applies again what it had received."""
    before = query_host_state(new)
    with old.open_binary_logs() as files:
        if not files:
            raise refuse.run(old.name, "its volume holds no binary log", "--accept-loss goes on without it.")
        files, total = select_lacking(files, has), len(files)
        say(f"reading {len(files)} of {total} binary logs of {old.name}")
        program = find_host_program(new, before.flavor)
        check_earlier(program, files, old.name)
        try:
            with contextlib.closing(new.open_connection(CHANGE_S)) as connection:
                for channel in before.channels:  # they release a transaction that was received in part
                    stop_applying(connection, before.dialect, channel.name)
            if before.flavor == "mysql":  # super_read_only blocks everybody, read_only all but administrators
                change(new, "SET GLOBAL super_read_only = 0", "SET GLOBAL read_only = 1")
            with make_client_file(new.address) as options:
                into = build_client_command(program, options)
                apply(build_reader_command(program, files, has), into, old.name)
            # A transaction that MySQL received in part, and the applier's error about it, prevent a
            # promotion. Everything else that it received is applied.
            for channel in before.channels if before.flavor == "mysql" else ():
                change(new, *before.dialect.stop(channel.name), *before.dialect.forget_received(channel.name))
        except BaseException:
            # It can be elected as before. Everything it received is applied, so nothing is lost if
            # MariaDB deletes its relay log.
            try:
                change(new, *(each for channel in before.channels for each in before.dialect.start_apply(channel.name)))
            except HeadraceError as error:
                say(f"{new.name} does not apply again: {error}")
            raise
    after = query_host_state(new)
    return after.executed.minus(before.executed).count()


def list_tail(old: AddressHost, has: GtidSet, flavor: str) -> list[str]:
    """Lists the GTIDs in the binary log of `old`, a dead server, that `has` lacks, in order, at
    most MOST_LISTED. Raises CouldNotRun."""
    with old.open_binary_logs() as files:
        if not files:
            return []
        files = select_lacking(files, has)
        program = find_host_program(old, flavor)
        check_earlier(program, files, old.name)
        pattern = MARIADB_GTID if flavor == "mariadb" else MYSQL_GTID
        names: dict[str, None] = {}
        with (
            tempfile.TemporaryFile() as error_output,
            _spawn(build_reader_command(program, files, has), stdout=subprocess.PIPE, stderr=error_output) as reader,
        ):
            for line in reader.stdout or ():
                match = pattern.match(line)
                if match and len(names) < MOST_LISTED:
                    names[match[1].decode()] = None
            code = reader.wait(APPLY_S)
            error_output.seek(0)
            _check_reader(code, error_output.read().decode(errors="replace"), old.name)
        return [name for name in names if not has.contains(GtidSet.parse(name, flavor))]


def format_ranges(names: list[str], flavor: str, longest: int = 500) -> str:
    """Returns GTIDs as ranges, cut off after `longest` characters."""
    if flavor == "mysql":
        text = str(GtidSet.parse(",".join(names), flavor))
    else:
        numbers: dict[tuple[int, int], list[int]] = {}
        for gtid in names:
            domain, server, number = map(int, gtid.split("-"))
            numbers.setdefault((domain, server), []).append(number)
        text = describe_ranges({key: (min(each), max(each)) for key, each in numbers.items()})
    return text if len(text) <= longest else text[:longest] + " ..."


def find_host_program(host: AddressHost, flavor: str) -> ServerProgram:
    """Returns the program of a host's server, to which its tools belong, else the newest."""
    server = getattr(host, "server", None)
    return find_program(flavor, None if server is None else server.server_path)


# Starts a program that Ctrl-C on the terminal ends as it ends this one. Raises OSError.
_spawn = functools.partial(spawn, folder=None, environment=PRIVATE_ENVIRONMENT, own_session=False)


def build_client_command(program: ServerProgram, account: Path) -> list[str]:
    """Returns the command of the client that applies what a reader prints. It reads no option file
    but `account`."""
    client = program.find_tool(*CLIENTS[program.flavor])
    return [*client, f"--defaults-file={account}", f"--max-allowed-packet={MOST_PACKET}"]


def build_reader_command(program: ServerProgram, files: list[Path], has: GtidSet) -> list[str]:
    """Returns the command that prints the transactions of binary logs that `has` lacks. Raises
    InputError for a set that MariaDB's reader cannot begin at."""
    reader = _find_reader(program)
    names = [str(file) for file in files]
    if program.flavor == "mysql":
        return [*reader, *([] if has.is_empty else [f"--exclude-gtids={has}"]), *names]
    if has.is_empty:
        return [*reader, *names]
    if not has.is_position:
        raise refuse.input(str(has)[:60], "is not a position, so MariaDB's log cannot be read from there")
    return [*reader, f"--start-position={has}", *names]


def apply(reader: list[str], client: list[str], name: str) -> None:
    """Runs a reader of binary logs and a client that applies its output, without a transaction that
    a crash cut off. `name`: of the logs' server. Raises CouldNotRun, also after APPLY_S seconds."""
    with (
        tempfile.TemporaryFile() as error_output,
        _spawn(reader, stdout=subprocess.PIPE, stderr=error_output) as source,
        _spawn(client, stdin=source.stdout, stderr=subprocess.PIPE) as applying,
    ):
        if source.stdout is not None:
            source.stdout.close()
        try:
            _, errors = applying.communicate(timeout=APPLY_S)
        except BaseException as error:
            # An interrupt may be meant for this process alone: neither program goes on unseen.
            applying.kill()
            source.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            rule = f"its tail was not applied within {APPLY_S:g} s"
            raise refuse.run(name, rule, "Begin again: what was applied stays.") from None
        code = source.wait()
        error_output.seek(0)
        _check_reader(code, error_output.read().decode(errors="replace"), name)
        if applying.returncode != 0:
            rule = f"its tail could not be applied: {_shorten_output(errors.decode(errors='replace'))}"
            raise refuse.run(name, rule, "See what it says, and begin again.")


def check_earlier(program: ServerProgram, files: list[Path], name: str) -> None:
    """Raises CouldNotRun if a file before the last is damaged: the reader stops at the first
    damage, and what follows would be missed silently. Only the last file may be cut off by a
    crash."""
    if len(files) < 2:
        return
    reader = [*_find_reader(program), *map(str, files[:-1])]
    if reason := write_reader_output(reader, subprocess.DEVNULL, APPLY_S):
        hint = "--accept-loss goes on without what only this server has."
        raise refuse.run(name, f"a binary log before its last is damaged: {reason}", hint)


def _find_reader(program: ServerProgram) -> list[str]:
    """Returns the begin of a reader's command. It reads no option file of this machine, which could
    make it leave out transactions (`database`, `offset`)."""
    return [*program.find_tool(*READERS[program.flavor]), "--no-defaults"]


def write_reader_output(reader: list[str], into: IO[bytes] | int, longest_s: float) -> str:
    """Runs a reader, writes its output to `into`, and returns its error if it did not read
    everything within `longest_s`, else ""."""
    try:
        done = subprocess.run(reader, stdout=into, stderr=subprocess.PIPE, env=PRIVATE_ENVIRONMENT, timeout=longest_s)
    except subprocess.TimeoutExpired:
        return f"it was not read within {longest_s:g} s"
    output = _shorten_output(done.stderr.decode(errors="replace"))
    return "" if done.returncode == 0 or NOTHING_BEYOND.search(output) else output or f"exit code {done.returncode}"


def _shorten_output(text: str) -> str:
    """Returns a program's output in a line of at most 300 characters."""
    return " ".join(text.split())[:300]


def _check_reader(code: int, output: str, name: str) -> None:
    """Raises CouldNotRun if a reader of binary logs failed, unless at the end of a log that was cut
    off."""
    if code != 0 and not CUT_OFF.search(output) and not NOTHING_BEYOND.search(output):
        raise refuse.run(name, f"its binary log could not be read: {_shorten_output(output)}")
