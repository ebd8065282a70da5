"""The rights of a logical backup's account: a dump silently leaves out what the account may not
see.

Servers hide databases, tables, triggers and routines from accounts without rights to them, so a
dump alone cannot tell. SHOW GRANTS can, with the active roles and MySQL's partial revokes.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import CouldNotRun
from headrace.mysql.privileges import NEEDED, Rights, parse_grants
from headrace.mysql.statements import SqlConnection
from headrace.servers.copies.source import CopySource, fetch_rows, refuse

# Error 1290 of both servers: they run with --skip-grant-tables, and everybody may do everything.
NO_GRANTS = "error 1290"


def read_rights(connection: SqlConnection, source: CopySource) -> Rights:
    """Reads the rights of the connected account. Raises CouldNotRun."""
    statement = "SHOW GRANTS FOR CURRENT_USER()"
    if source.flavor == "mysql":
        roles = str(fetch_rows(connection, "SELECT CURRENT_ROLE()")[0][0])
        statement += f" USING {roles}" if roles != "NONE" else ""
    else:
        statement = "SHOW GRANTS"  # of the account and of the role that is active
    try:
        lines = [str(row[0]) for row in fetch_rows(connection, statement)]
    except CouldNotRun as error:
        if error.source == NO_GRANTS:
            return Rights((), everything=True)
        raise
    revokes = fetch_rows(connection, "SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")
    literal = bool(revokes) and str(revokes[0][1]).upper() == "ON"
    return Rights(tuple(parse_grants(lines)), patterns=not literal)


def refuse_blind(source: CopySource, rights: Rights, visible: Sequence[str], only: Sequence[str]) -> None:
    """Raises InputError if a dump would leave out what the account may not see. `visible`: the
    databases it sees, `only`: those that were asked for, none for the whole server."""
    if only:
        for database in only:
            _refuse_blind_to(source, rights, database, visible)
        return
    without = [right for right in NEEDED if not rights.may_everywhere(right)]
    revoked = rights.list_revoked()
    if not without and not revoked:
        return
    readable = rights.list_readable()
    account = f"{source.name}: the account {source.address.user}"
    whole = [database for database in visible if not rights.list_missing(database)]
    hint = "Or back a part up by its name, as one: --only DATABASE."
    if whole:
        hint = f"Or back up what it may see, as a part: {' '.join(f'--only {database}' for database in whole[:5])}."
    if without:
        rule = f"lacks {', '.join(without)} on *.*, so a dump leaves out {_describe_gaps(without)} without a word"
        rule += f"; it may read {', '.join(readable[:5])}" if readable else ""
        raise refuse.input(account, rule, f"GRANT {', '.join(without)} ON *.* TO the account. {hint}")
    rule = f"may not see all of {', '.join(revoked[:5])} (partial revokes), so a dump leaves it out without a word"
    raise refuse.input(account, rule, f"GRANT {', '.join(NEEDED)} ON those databases to it. {hint}")


def refuse_blind_reader(source: CopySource, rights: Rights) -> None:
    """Raises InputError if an account that compares all tables may not read all of them."""
    revoked = rights.list_revoked()
    if rights.may_everywhere("SELECT") and not revoked:
        return
    rule = "may not read all tables, so those of the backup would look as if they were too many"
    rule += f" (it may not see all of {', '.join(revoked[:5])})" if revoked else ""
    raise refuse.input(f"{source.name}: the account {source.address.user}", rule, "GRANT SELECT, RELOAD ON *.* TO it.")


def _refuse_blind_to(source: CopySource, rights: Rights, database: str, visible: Sequence[str]) -> None:
    """Raises InputError if the account does not see a database, or a dump of it would leave
    something out. `visible`: the databases that it sees."""
    if database not in visible:
        seen = ", ".join(visible[:5]) or "none"
        rule = f"is not a database of {source.name} that {source.address.user} may see; it sees {seen}"
        raise refuse.input(f"--only {database[:64]}", rule, "Names count as SHOW DATABASES writes them.")
    without = rights.list_missing(database)
    if not without:
        return
    value = f"{source.name}: the account {source.address.user}"
    if without == ["routines"]:
        rule = f"may not see the routines of {database}, so a dump leaves them out without a word"
        grant = "SHOW_ROUTINE ON *.*" if source.flavor == "mysql" else "SELECT ON mysql.proc"
        raise refuse.input(value, rule, f"GRANT {grant} TO the account.")
    parts = [name for name in rights.list_readable() if database in name]
    rule = f"lacks {', '.join(without)} on {database}.*, so a dump leaves out {_describe_gaps(without)} without a word"
    rule += f"; it may read {', '.join(parts[:5])}" if parts and "SELECT" in without else ""
    raise refuse.input(value, rule, f"GRANT {', '.join(without)} ON `{database}`.* TO the account.")


def _describe_gaps(without: Sequence[str]) -> str:
    """Returns, in words, what a dump leaves out without these rights."""
    return "what it may not read" if "SELECT" in without else ", ".join(NEEDED[right] for right in without)
