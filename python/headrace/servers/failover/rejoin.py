"""Rejoins the old source: read-only, without its extra transactions, as a replica of the new
source.

Extra transactions are written to a file before anything is done about them. MariaDB is started with
init_rpl_role=SLAVE, so that it cuts off what was flushed and never acknowledged (MDEV-33465).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, TypedDict

from headrace.base import processes
from headrace.base.processes import PRIVATE_ENVIRONMENT
from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.mysql.gtid import GtidSet
from headrace.servers import record as records
from headrace.servers import server as server_module
from headrace.servers.copies.source import make_client_file
from headrace.servers.failover import rescue
from headrace.servers.failover.changes import follow
from headrace.servers.failover.cluster import FailoverCluster
from headrace.servers.failover.executor import Say, discard_message
from headrace.servers.failover.hosts import CHANGE_S, AddressHost, LabHost, change, make_lab_host, query_host_state
from headrace.servers.failover.planning.election import (
    find_channel,
    find_extra,
    find_last_numbers,
    has_common_history,
    list_followers,
    list_heads,
    require_state,
)
from headrace.servers.failover.planning.members import Members, Seen, refuse
from headrace.servers.failover.planning.planner import has_taken_over
from headrace.servers.topology import checks, seeding
from headrace.servers.topology.topology import Following, bring_up_replica

Diverged = Literal["refuse", "rewind", "seed"]
# A server whose rewind was interrupted; its name stands before it.
REWOUND_IN_PART = (
    "may be rewound in part, and cannot be rewound twice. Give the same command with --diverged seed to finish."
)
FLASHBACK_S = 600.0  # a guess: what diverged is seconds of writes
CLOSE_S = 5  # longest wait for its writes to end, a guess
ROLE = "rpl-semi-sync-master-enabled"  # as the record of a server of MariaDB has it
# Started without threads: nothing is received before histories have been compared.
ONCE: dict[str, dict[str, str | None]] = {
    "mariadb": {"skip-slave-start": "ON", "init-rpl-role": "SLAVE", "rpl-semi-sync-slave-enabled": "ON"},
    "mysql": {"skip-replica-start": "ON"},
}


class RejoinAnswer(TypedDict):
    """The result of a rejoin. `state`: rejoined, diverged, rewound or seeded; `extra`: the
    transactions that only this server had, as text, and the `file` that lists them, "" for none."""

    server: str
    source: str
    state: str
    extra: str
    file: str


class RejoinInterrupted(KeyboardInterrupt):
    """An interrupt after which the same command does not finish. `state` describes the server, and
    what finishes it, in words."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.state = state


def rejoin(
    cluster: FailoverCluster,
    name: str,
    source: str | None = None,
    diverged: Diverged = "refuse",
    say: Say = discard_message,
) -> RejoinAnswer:
    """Brings the server `name` back as a replica of `source`, None for the server that has taken
    over, and returns what became of it. `diverged`: what to do if only it has some transactions.
    Raises InputError, CouldNotRun."""
    host = _find_host(cluster, name)
    with contextlib.closing(cluster.make_observer()) as observer:
        seen = observer.look()
        above = find_source_above(seen, name, source)
        answer: RejoinAnswer = {"server": name, "source": above, "state": "rejoined", "extra": "", "file": ""}
        if _is_back(seen[name], seen[above]):
            say(f"{name} follows {above} already: nothing was done")
            return answer
        old = seen[name]
        _check_related(old, seen[above], source)
        may_truncate = isinstance(host, LabHost) and _has_waited_for_replicas(cluster, host, old)
        if old.state is not None and not old.state.read_only and isinstance(host, LabHost):
            # Commits that wait for an acknowledgement would be confirmed when its role ends.
            say(f"ending {name}, which runs as a source still")
            host.fence()
            old = replace(old, state=None)
        if old.state is None:
            host = _start_without_threads(cluster, host, may_truncate, say)
        _make_read_only(host)
        seen = observer.look()
        old, new = seen[name], seen[above]
        if old.state is None:
            raise refuse.run(name, f"does not answer: {old.error}", f"Start it: headrace mysql up {name}.")
        if find_channel(old, new) is not None:
            return answer
        _check_related(old, new, source)
        answer["extra"] = find_extra(old, new)
        if answer["extra"]:
            _save_extra(cluster, host, old, new, answer, say)
            if diverged == "refuse":
                return {**answer, "state": "diverged"}
            if diverged == "seed":
                _seed_anew(host, cluster.hosts[above].name, _uses_semi_sync(new))
                return {**answer, "state": "seeded"}
            _check_reachable(cluster.hosts[above], old, _find_common(old, new))
            _rewind(host, old, new, say)
            answer["state"] = "rewound"
        else:
            _check_reachable(cluster.hosts[above], old, require_state(old).executed)
        change(host, *require_state(old).dialect.switch_semi_sync("replica", True)) if _uses_semi_sync(new) else None
        with contextlib.closing(host.open_connection(CHANGE_S)) as connection:
            follow(host, connection, cluster.hosts[above])
            channels = require_state(old).channels
            seeding.wait_connected(connection, name, channels[0].name if channels else "")
        return answer


@dataclass(frozen=True)
class RejoinStep:
    """A step that `rejoin` would take. `to`: the other server, "" for none."""

    action: str
    server: str
    to: str = ""
    why: str = ""


def rejoin_plan(
    cluster: FailoverCluster, name: str, source: str | None = None, diverged: Diverged = "refuse"
) -> tuple[str, list[RejoinStep], list[str]]:
    """Returns the server that `name` would follow, the steps, and the end state in words; it
    changes nothing. Raises InputError, CouldNotRun as `rejoin` does before its first change."""
    host = _find_host(cluster, name)
    with contextlib.closing(cluster.make_observer()) as observer:
        seen = observer.look()
    above = find_source_above(seen, name, source)
    old, new = seen[name], seen[above]
    if _is_back(old, new):
        return above, [], [f"{name} follows {above} already"]
    _check_related(old, new, source)
    steps, is_lab = [], isinstance(host, LabHost)
    if old.state is None and not is_lab:
        raise refuse.run(name, "does not answer", "Start it with read_only and skip_replica_start.")
    if old.state is not None and not old.state.read_only and is_lab:
        steps.append(RejoinStep("end", name, why="it runs as a source still"))
    if old.state is None or steps:
        steps.append(RejoinStep("start", name, why="read-only, without replication and events"))
    steps.append(RejoinStep("read-only", name, why="and without the source's role in semi-sync"))
    apart = "" if old.state is None or steps[0].action == "end" else find_extra(old, new)
    end = f"{name} follows {above}, read-only"
    if old.state is None:
        why = f"what only {name} has is not known while it is down: it is written to a file, then --diverged {diverged}"
        steps.append(RejoinStep("compare", name, above, why))
        if diverged == "refuse":
            end += f"; where it has transactions that {above} has not, it stays read-only and follows nobody"
    elif apart:
        steps.append(RejoinStep("list", name, above, f"only {name} has {apart}"))
        if diverged == "refuse":
            return above, steps, [f"{name} follows nobody: choose --diverged rewind or seed"]
        why = "deleted with its data, and made again" if diverged == "seed" else "taken back by its binary log"
        steps.append(RejoinStep(diverged, name, above, why))
        if diverged == "seed":
            return above, steps, [end]
    if _uses_semi_sync(new):
        steps.append(RejoinStep("semi-sync-replica-on", name, why="it acknowledges again"))
    return above, [*steps, RejoinStep("repoint", name, above)], [end]


def _find_host(cluster: FailoverCluster, name: str) -> AddressHost:
    """Returns the host of a server by its name. Raises InputError for a server outside of the
    cluster."""
    host = cluster.hosts.get(name)
    if host is None:
        raise refuse.input(name, f"is not one of {', '.join(sorted(cluster.hosts))}")
    return host


def find_source_above(seen: Members, name: str, source: str | None = None) -> str:
    """Returns the server that `name` is to follow: the named server, else the new source. Raises
    InputError if `name` is the source itself, or the other server takes no writes."""
    old = seen[name]
    if source == name:
        raise refuse.input(name, "cannot follow itself", "Name the new source with --from.")
    heads = [head for head in list_heads(seen) if head != name and has_taken_over(seen, seen[head], name)]
    # A replica belongs to the source that it follows, though other servers take writes too.
    heads = [head for head in heads if find_channel(old, seen[head])] or heads
    below = [follower.name for follower in list_followers(seen, old)]
    meant = [seen[head] for head in (heads if source is None else [source]) if head in seen]
    followed = [head for head in meant if list_followers(seen, head) and _may_be_related(old, head)]
    if below and old.state is not None and not old.state.read_only and not followed:
        verb = "follows" if len(below) == 1 else "follow"
        rule = f"is the source ({', '.join(below)} {verb} it): there is nothing to rejoin"
        raise refuse.input(name, rule, "headrace failover status shows who follows whom.")
    if source is None and len(heads) > 1:
        raise refuse.input(", ".join(heads), "take writes, all of them", "Name the new source: --from NAME.")
    if source is None and not heads:
        others = [member for member in seen.values() if member is not old]
        silent = [f"{member.name} does not answer ({member.error})" for member in others if not member.state]
        rule = f"nobody has taken over from it{': ' + ', '.join(silent) if silent else ''}"
        raise refuse.run(name, rule, "Fail over first (headrace failover run), or name the source: --from NAME.")
    above = source or heads[0]
    if above not in seen:
        raise refuse.input(above, f"is not one of {', '.join(sorted(seen))}")
    new = seen[above]
    if new.state is None or new.state.read_only:
        rule = "does not answer" if new.state is None else "is read-only, so it is not the source"
        raise refuse.input(above, rule, "Fail over first, or name the source: --from NAME.")
    return above


def _may_be_related(old: Seen, new: Seen) -> bool:
    """Returns whether two servers have a transaction in common, or one of them does not answer."""
    return old.state is None or new.state is None or has_common_history(old, new)


def _check_related(old: Seen, new: Seen, source: str | None) -> None:
    """Raises CouldNotRun for a new source that was not named (`source`: None), if the old one has
    no transaction in common with it: it may be another cluster's."""
    if source is None and not _may_be_related(old, new) and find_extra(old, new):
        rule = f"has no transaction in common with {new.name}, which may be the source of another cluster"
        raise refuse.run(old.name, rule, "Name the new source: --from NAME.")


def _check_reachable(new: AddressHost, old: Seen, gtids: GtidSet) -> None:
    """Raises InputError if the new source has purged what the old one, with `gtids`, needs."""
    with contextlib.closing(new.open_connection(CHANGE_S)) as connection:
        purged = seeding.read_purged(connection)
    try:
        checks.check_reachable(old.name, purged, gtids, new.name)
    except InputError as error:
        hint = "It stays read-only and follows nobody. Delete it and make it again: headrace mysql destroy, replica up."
        raise error.amend(hint=hint) from None


def _is_back(old: Seen, new: Seen) -> bool:
    """Returns whether the old source is a working, read-only replica of the new one."""
    channel = find_channel(old, new)
    return channel is not None and not channel.is_broken and require_state(old).read_only


def _save_extra(
    cluster: FailoverCluster, host: AddressHost, old: Seen, new: Seen, answer: RejoinAnswer, say: Say
) -> None:
    """Writes a file with the extra transactions of the old source, if its files can be read, sets
    `answer["file"]` to its path, and says so."""
    words = f"{old.name} has transactions that {new.name} has not: {answer['extra']}"
    if isinstance(host, LabHost):
        answer["file"] = str(_list_extra(cluster, host, old, new, answer["extra"]))
        say(f"{words}; they are in {answer['file']}")
    else:
        say(
            f"{words}; its files cannot be read from here, so they are in no list: keep its binary logs "
            "(mysqlbinlog --read-from-remote-server) before its data go"
        )


def _uses_semi_sync(new: Seen) -> bool:
    """Returns whether the source's side of semi-sync is on."""
    return require_state(new).semi_sync.source_enabled


def _has_waited_for_replicas(cluster: FailoverCluster, host: LabHost, old: Seen) -> bool:
    """Returns whether every commit waited for a replica: a running server's semi-sync works and was
    never without a replica since its start; a stopped server's record has the role of a source, and
    the failover from its last run is known to have lost nothing."""
    if old.state is None:
        record = records.require_record(host.server.paths)
        started = None if record.process is None else processes.find_start(record.process)
        last = cluster.find_last_failover(host.name)
        lossless = last is not None and last[1] and started is not None and started < last[0]
        return lossless and record.settings.get(ROLE) == "ON"
    semi_sync = old.state.semi_sync
    return semi_sync.source_enabled and semi_sync.source_status and not semi_sync.no_tx


def _start_without_threads(cluster: FailoverCluster, host: AddressHost, may_truncate: bool, say: Say) -> LabHost:
    """Starts a stopped server of the lab read-only, this time without replication threads, and
    returns its new host, which replaces that in `cluster`. `may_truncate`: every commit waited for
    a replica, so MariaDB's recovery may cut off those that no replica has."""
    if not isinstance(host, LabHost):
        raise refuse.run(host.name, "does not answer", "Start it with read_only and skip_replica_start.")
    say(f"starting {host.name} read-only")
    flavor = host.server.flavor
    # An event of MariaDB writes as its definer, whom read_only may not keep out.
    closed: dict[str, str | None] = {"read-only": "ON", "event-scheduler": "OFF"}
    once: dict[str, str | None] = dict(ONCE[flavor])
    if not may_truncate and flavor == "mariadb":
        # It acknowledged alone: its log may not be truncated before it is listed.
        once = {"skip-slave-start": "ON"}
    host.restart(closed | ({} if flavor == "mariadb" else {"super-read-only": "ON"}), once)
    again = make_lab_host(server_module.find(host.server.lab, host.name))
    cluster.hosts[host.name] = again
    return again


def _make_read_only(host: AddressHost) -> None:
    """Makes a server read-only, and switches off its source's side of semi-sync, for later starts
    too. Raises CouldNotRun if its writes do not end within CLOSE_S seconds."""
    state = query_host_state(host)
    statements = state.dialect.switch_read_only(True)
    if state.semi_sync.source_enabled:
        statements += state.dialect.switch_semi_sync("source", False)
        host.remember(**{state.dialect.name_semi_sync_variable("source", "enabled"): "OFF"})
    try:
        change(host, f"SET SESSION lock_wait_timeout = {CLOSE_S}", *statements)
    except CouldNotRun as error:
        rule = f"cannot be made read-only, perhaps as commits wait there for a replica: {error.rule}"
        raise refuse.run(host.name, rule, "End it and start it read-only, then rejoin it.") from None


def _list_extra(cluster: FailoverCluster, host: LabHost, old: Seen, new: Seen, apart: str) -> Path:
    """Writes the extra transactions of the old source (`apart`: their GTIDs), as statements of its
    binary log, into a new file in the cluster's folder; returns its path. Raises CouldNotRun."""
    folder = cluster.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    began = f"{host.name.replace('/', '_')}-diverged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    names = (f"{began}{f'-{number}' if number else ''}.sql" for number in itertools.count())
    path = next(path for name in names if not (path := folder / name).exists())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(f"-- {host.name}: transactions that {new.name} has not: {apart}\n".encode())
        file.flush()
        program = rescue.find_host_program(host, require_state(old).flavor)
        reader = rescue.build_reader_command(program, host.list_binary_logs(), _find_common(old, new))
        _require_reader_output([*reader, "--verbose"], file, host.name)
    return path


def _require_reader_output(reader: list[str], file: IO[bytes], name: str) -> None:
    """Writes the output of a reader of binary logs. Raises CouldNotRun if it is incomplete."""
    if reason := rescue.write_reader_output(reader, file, FLASHBACK_S):
        hint = "Nothing was thrown away. Read its binary logs by hand before it is seeded anew."
        raise refuse.run(name, f"what only it has could not be read: {reason}", hint)


def _find_common(old: Seen, new: Seen) -> GtidSet:
    """Returns the transactions that both servers have executed, up to where they diverge."""
    old_state, new_state = require_state(old), require_state(new)
    if old_state.flavor == "mysql":
        return old_state.executed.minus(old_state.executed.minus(new_state.executed))
    parts, last = [], find_last_numbers(new)
    for domain in sorted({key[0] for key in old.wrote}):
        keys = [key for key in old.wrote if key[0] == domain and last.get(key, 0)]
        if keys:
            number, server = max((min(old.wrote[key], last[key]), key[1]) for key in keys)
            parts.append(f"{domain}-{server}-{number}")
    return GtidSet.parse(",".join(parts), "mariadb")


def _rewind(host: AddressHost, old: Seen, new: Seen, say: Say) -> None:
    """Reverts the extra transactions of the old source by its binary log (mariadb-binlog
    --flashback). Raises CouldNotRun, and RejoinInterrupted if a part may be reverted."""
    state = require_state(old)
    if state.flavor != "mariadb" or not isinstance(host, LabHost):
        rule = "only MariaDB's binary log can be read backwards, and only where its files are"
        raise refuse.run(host.name, rule, "Seed it anew: --diverged seed.")
    if state.binary_log.format != "ROW" or state.binary_log.row_image not in ("FULL", ""):
        rule = f"logs {state.binary_log.format} with {state.binary_log.row_image} images: nothing can be taken back from that"
        raise refuse.run(host.name, rule, "Seed it anew: --diverged seed.")
    common = _find_common(old, new)
    if {key[0] for key in old.wrote} - {int(domain) for domain, _ in common.ranges}:
        # Without a start, its reader goes through everything that it ever logged.
        rule = f"and {new.name} are not known to have a transaction in common, so that it cannot be taken back to one"
        raise refuse.run(host.name, rule, "Seed it anew: --diverged seed.")
    program = rescue.find_host_program(host, "mariadb")
    reader = rescue.build_reader_command(program, host.list_binary_logs(), common)
    check = subprocess.run(reader, capture_output=True, env=PRIVATE_ENVIRONMENT, timeout=FLASHBACK_S)
    schema = [line for line in check.stdout.splitlines() if rescue.DDL.match(line)]
    if schema:
        rule = f"changed its schema meanwhile, which cannot be taken back: {schema[0][:120].decode(errors='replace')}"
        raise refuse.run(host.name, rule, "Seed it anew: --diverged seed.")
    try:
        say(f"rewinding {host.name} to {common}")
        with make_client_file(host.address) as options:
            client = [*rescue.build_client_command(program, options), "--init-command=SET SESSION sql_log_bin = 0"]
            rescue.apply([*reader, "--flashback"], client, host.name)
        change(host, *state.dialect.begin_at(common))
    # A transaction cannot be taken back twice.
    except HeadraceError as error:
        raise error.amend(hint="Seed it anew: --diverged seed.") from error
    except KeyboardInterrupt:
        raise RejoinInterrupted(REWOUND_IN_PART) from None


def _seed_anew(host: AddressHost, source: str, semi_sync: bool) -> None:
    """Deletes a server of the lab with its data, and creates it again as a replica of `source`,
    which acknowledges with `semi_sync`. If it is deleted and not created, RejoinInterrupted or
    CouldNotRun names the command that creates it."""
    if not isinstance(host, LabHost):
        raise refuse.run(host.name, "cannot be made again from here", "Seed it by hand.")
    server = host.server
    given = {"--storage": server.storage, "--log-storage": server.log_storage, "--port": server.port}
    options = [each for option, value in given.items() if value is not None for each in (option, str(value))]
    options += ["--semi-sync"] if semi_sync else []
    again = shlex.join(["headrace", "replica", "up", server.name, "--of", source, *options])
    try:
        server_module.destroy(server)
        bring_up_replica(
            server.lab,
            server.name,
            source,
            Following(semi_sync=semi_sync),
            storage=server.storage,
            log_storage=server.log_storage,
            port=server.port,
        )
    except KeyboardInterrupt:
        if records.load(server.paths) is None:
            raise RejoinInterrupted(f"is deleted and not made again yet. This finishes it: {again}") from None
        raise
    except HeadraceError as error:
        if records.load(server.paths) is None:
            hint = f"{error.hint} {server.name} is deleted; this makes it again: {again}".strip()
            raise error.amend(hint=hint) from error
        raise
