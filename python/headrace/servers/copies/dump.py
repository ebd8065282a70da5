"""mariadb-dump and mysqldump: statements, of any server that can be reached."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.servers.copies.copy import CopyMethod, CopyResult, Destination
from headrace.servers.copies.grants import read_rights, refuse_blind
from headrace.servers.copies.pipeline import Flow, Stage
from headrace.servers.copies.position import BinlogPosition
from headrace.servers.copies.source import CopySource, estimate_data_bytes, list_databases, make_client_file, refuse

# Positions of the binary log as the tools write them at the head of a dump.
CHANGE = re.compile(rb"(?m)^-- CHANGE [^\n']*(?:MASTER|SOURCE)_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+)")
MARIADB_GTID = re.compile(rb"(?m)^-- SET GLOBAL gtid_slave_pos='([^']*)'")
MYSQL_GTID = re.compile(rb"GTID_PURGED=(?:/\*![^*]*\*/ *)?'\+?([^']*)'", re.DOTALL)
# Bytes of a dump that are searched for its position: the file and offset stand before the first
# table, the GTID there or (mariadb-dump 10.11.19) behind the last one.
HEAD_BYTES, TAIL_BYTES = 4 << 20, 1 << 20
# The largest max_allowed_packet of both flavors, bytes (MySQL and MariaDB manuals).
MOST_PACKET = 1 << 30


class DumpCopy(CopyMethod):
    """A dump in one transaction. One without position is an error: tools have ended so with 0."""

    form = "sql"

    def take(self, source: CopySource, into: Destination) -> CopyResult:
        """Dumps the databases of `only`, or all that the account sees, into the destination's
        stream. Raises InputError if the account does not see all of them, CouldNotRun for a dump
        without position."""
        with source.connect() as connection:
            visible = list_databases(connection)
            refuse_blind(source, read_rights(connection, source), visible, into.only)
            names = list(into.only) or visible
            size = estimate_data_bytes(connection, names)
        if not names:
            raise refuse.input(source.name, "has no databases to dump", "Take --method physical for the server itself.")
        head, tail = bytearray(), bytearray()

        def look(piece: bytes) -> None:
            if len(head) < HEAD_BYTES:
                head.extend(piece[: HEAD_BYTES - len(head)])
            tail.extend(piece)
            del tail[:-TAIL_BYTES]

        assert into.stream is not None
        with make_client_file(source.address) as account:
            tool, options = find_dump_tool(source, account)
            command = (*tool, *options, "--databases", "--", *names)
            plain_bytes = into.stream.write(Flow([Stage(command, tool[-1])]), size, look)
        position = read_dump_position(bytes(head), bytes(tail), source.flavor, source.log_bin)
        return CopyResult(position, plain_bytes, facts={"accounts": "not in a logical copy"})


def find_dump_tool(source: CopySource, account: Path) -> tuple[tuple[str, ...], list[str]]:
    """Returns the command of the tool that dumps a server, and its options. It reads no option file
    but `account`, as a `where` or `no-data` there would leave out rows."""
    options = [f"--defaults-file={account}", "--single-transaction", "--quick", "--routines", "--events", "--triggers"]
    options.append("--hex-blob")
    # The tools take 16 or 24 MiB by themselves; a row may be as large as a packet can be.
    options += ["--default-character-set=utf8mb4", f"--max-allowed-packet={MOST_PACKET}"]
    if source.flavor == "mariadb":
        options += ["--master-data=2", "--gtid"] if source.log_bin else []
        return source.find_tool("mariadb-dump", "mysqldump"), options
    options += ["--column-statistics=0", "--no-tablespaces"]
    options += ["--source-data=2", "--set-gtid-purged=COMMENTED"] if source.log_bin else ["--set-gtid-purged=OFF"]
    return source.find_tool("mysqldump"), options


def read_dump_position(head: bytes, tail: bytes, flavor: str, log_bin: bool) -> BinlogPosition:
    """Returns the position of a dump by its first and last bytes, an empty one of a server without
    binary log. Raises CouldNotRun if it is missing."""
    if not log_bin:
        return BinlogPosition()
    place = CHANGE.search(head)
    if flavor == "mariadb":
        # A row's text is never on a line of its own; that of a routine may be, and stands before.
        gtid = next(reversed([*MARIADB_GTID.finditer(tail)]), None) or MARIADB_GTID.search(head)
    else:
        gtid = MYSQL_GTID.search(head)
    if place is None or (flavor == "mariadb" and gtid is None):
        rule = "wrote no binary log position into the dump, so nothing could be replayed on top of it"
        raise refuse.run("the dump", rule, "Does the account have REPLICATION CLIENT (BINLOG MONITOR) and RELOAD?")
    text = "".join(gtid[1].decode().split()) if gtid else ""
    return BinlogPosition(text, place[1].decode(), int(place[2]))
