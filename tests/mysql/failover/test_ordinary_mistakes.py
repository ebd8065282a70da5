"""Ordinary mistakes with the commands that change, stop, replace or delete servers, typed as a user types
them: each is refused with its reason, or asked about, and nothing is changed by it.

The table is checked on three real servers (a the source, b and c its replicas) that are left as they
were, and on one more that follows nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_folders import CommandHere
from lab_servers import sql
from test_refused import from_a  # noqa: F401  (a is the source)
from under_load import Trio

from headrace import servers
from headrace.cli.app import run_command
from headrace.errors import InputError
from headrace.servers.topology.topology import Following, bring_up_replica, find_free_port

# Settings of a server that could be a source.
ON = {
    "mariadb": {"log_bin": "ON", "server_id": "55", "innodb_buffer_pool_size": "32M"},
    "mysql": {"gtid_mode": "ON", "enforce_gtid_consistency": "ON", "server_id": "55", "innodb_buffer_pool_size": "32M"},
}
# MySQL passes over what it has already, so that a channel to the same history does no harm there.
MARIADB_ALONE = ("replica up b --of c --channel x",)
OTHER = {"mariadb": "mysql", "mysql": "mariadb"}

# Command, mistake, exit code, what it says. Nobody can be asked here: a question is "Add --yes".
MISTAKES = [
    ("replica up lone --of a", "a name that exists: a server of its own", 2, "lone: exists and follows nobody; it has transactions of its own.*Choose a new name"),
    ("replica up b --of a", "twice", 0, "b: follows a already, by its unnamed channel: nothing was done"),
    ("replica up b --of a --channel x", "one channel too many", 0, "b: follows a already.*channel x was not made"),
    ("replica up b", "twice", 0, "b: runs already, and follows a: nothing was done"),
    ("replica up b --of a --storage gp3:50", "other storage for a name that exists", 2, "b: exists on gp3:[0-9]+; --storage cannot change it.*headrace volume modify b-data"),
    ("replica up b --of a --delay 5", "an option that the channel would not take", 2, "b: follows a already; --delay is for a new channel"),
    ("replica up b --of a --workers 8", "an option for a new replica alone", 2, "b: exists; --workers is for a new replica"),
    ("replica up b --of c", "one source too many", 2, "b: follows another source already by its channel.*--channel NAME"),
    ("replica up b --of c --channel x", "two sources of one history", 2, "b: follows a source in domain 0 already"),
    ("replica up a --of b", "the wrong way round", 2, "a: would follow itself, by b < a"),
    ("replica up lone", "the wrong role", 2, "lone: follows no server"),
    ("replica up d --of nobody", "a source that is not there", 2, "nobody: is not a server of this lab"),
    ("replica up d", "the source forgotten", 2, "d: is not a server of this lab"),
    ("mysql down lone --channel x --yes", "the wrong role", 2, "lone: --channel 'x': follows no such channel; there are: none"),
    ("mysql down b --channel x --yes", "a channel that is not there", 2, "follows no such channel; there are: ''"),
    ("mysql down b --channel=", "asked", 2, "b: would end a channel for good, and nobody can be asked"),
    ("mysql down nobody --channel x --yes", "a name that is not there", 2, "nobody: is not a server of this lab"),
    ("mysql down a", "a source with followers", 2, "b and c follow it, and would receive nothing.*Add --yes"),
    ("mysql destroy a", "a source with followers", 2, "b and c follow it, and would receive nothing.*Add --yes"),
    ("mysql destroy b", "asked", 2, "b: would be deleted with its data, and nobody can be asked"),
    ("mysql destroy nobody --yes", "a name that is not there", 2, "nobody: is not a server of this lab"),
    ("mysql up a --storage gp3:50", "other storage for a name that exists", 2, "a: exists on gp3:[0-9]+; --storage cannot change it.*headrace volume modify a-data"),
    ("mysql up a --storage {storage}:3000", "the same storage in other words", 0, ""),
    ("mysql up a --log-storage gp3:1", "a log volume for a name that exists", 2, "a: exists without a log volume; --log-storage cannot change it"),
    ("mysql up a --flavor {other}", "another flavor for a name that exists", 2, "a: flavor (mysql: is there already, with flavor mariadb|mariadb: is there already, with flavor mysql)"),
    ("mysql up new --storage gp9:1", "a storage that is none", 2, "gp9"),
    ("failover run --yes", "the source is alive", 3, "a: is alive and takes writes: there is nothing to fail over.*switchover --from a"),
    ("failover run --dry-run", "the source is alive", 3, "a: is alive and takes writes: there is nothing to fail over"),
    ("failover run", "the source is alive, before it asks", 3, "there is nothing to fail over"),
    ("failover run --from b --yes", "the wrong source", 3, "b: is a replica of a, not the source"),
    ("failover switchover", "asked", 2, "changes servers, and nobody can be asked"),
    ("failover switchover --to a --yes", "to the source itself", 3, "a: is the source already, so it cannot take over"),
    ("failover switchover --to nobody --yes", "to a name that is not there", 3, "nobody is not one of a, b, c"),
    ("failover switchover --to lone a b c lone --yes", "to a server that follows nobody", 3, "lone(: | takes| cannot|.*writable)"),
    ("failover switchover --from b --yes", "the wrong source", 3, "b: is a replica of a, not the source"),
    ("failover rejoin a --yes", "the source itself", 2, r"a: is the source \(b, c follow it\): there is nothing to rejoin"),
    ("failover rejoin a --from lone --yes --diverged seed", "the source, below a server of its own", 2, r"a: is the source \(b, c follow it\)"),
    ("failover rejoin b --yes", "twice: a replica that follows already", 0, "b follows a already: nothing was done"),
    ("failover rejoin b --from c --yes", "the wrong new source", 2, "c: is read-only, so it is not the source"),
    ("failover rejoin nobody --yes", "a name that is not there", 2, "nobody: is not one of a, b, c, lone"),
    ("failover watch --clients /nowhere/f", "a file that cannot be written", 2, "--clients /nowhere/f: cannot be written"),
    ("failover status --acknowledge", "nothing to acknowledge", 0, "no failover by watch is to be acknowledged"),
]  # fmt: skip


@pytest.fixture(scope="module")
def lone(trio) -> Iterator[str]:
    """A server of its own, with a transaction."""
    expected = {"flavor": trio.flavor, "storage": "gp3:1", "port": find_free_port(), "settings": ON[trio.flavor]}
    server = servers.bring_up(trio.lab, name="lone", unpaced=True, **expected)
    sql(server, "CREATE DATABASE its_own")
    yield server.name
    servers.destroy(servers.find(trio.lab, "lone"))


def test_ordinary_mistakes_change_nothing(trio: Trio, lone, tmp_path, monkeypatch, capfd, from_a):  # noqa: F811
    """In this process: forty interpreters take longer than forty refusals."""
    monkeypatch.setenv("HEADRACE_LAB", str(trio.lab.place.data_dir))
    before, wrong = picture(trio), []
    for command, mistake, code, words in MISTAKES:
        if trio.flavor == "mysql" and command in MARIADB_ALONE:
            continue
        typed = command.format(storage=trio.server("a").storage, other=OTHER[trio.flavor]).split()
        if typed[0] == "failover":
            named = () if typed[1] == "rejoin" or "lone" in typed else tuple(trio.names)
            typed = [*typed[:2], *named, *typed[2:], "--journal", str(tmp_path / "journal")]
        got = run_command(typed)
        out, error = capfd.readouterr()
        text = " ".join((error + out).split())
        if got != code or not re.search(words, text) or "Traceback" in error:
            wrong.append(f"{command} ({mistake}): {got}: {text[:300]}")
        assert picture(trio) == before, f"{command} ({mistake}) changed something: {text}"
    assert not wrong, "\n".join(wrong)


def test_a_replica_is_shut_down_twice(trio: Trio, tmp_path, from_a):  # noqa: F811
    """The second time nothing happens, and it says so; afterwards it follows on."""
    headrace = CommandHere(trio.lab.place.data_dir)
    assert "b: ended" in headrace("mysql", "down", "b", "--yes").stderr
    stopped = trio.server("b")
    assert "b: is stopped already" in headrace("mysql", "down", "b", "--yes").stderr
    assert "b: is stopped already" in headrace("mysql", "down", "b").stderr, "there is nothing to ask about"
    assert trio.server("b") == stopped
    headrace("replica", "up", "b")
    assert trio.equal()


def test_a_volume_that_is_too_small_is_refused_before_anything_is_copied(trio: Trio, from_a):  # noqa: F811
    """Not after minutes of copying, with the source down for it (--seed copy)."""
    before = picture(trio)
    filler = trio.server("a").paths.datadir / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 30)
    try:
        for seed in ("copy", "mariabackup" if trio.flavor == "mariadb" else "clone"):
            with pytest.raises(
                InputError, match=r"d: --storage gp3:1: has 1 GiB, and the data of a take 1\.[0-9]+ GiB"
            ):
                bring_up_replica(trio.lab, "d", "a", Following(seed=seed), storage="gp3:1")
    finally:
        filler.unlink()
    assert picture(trio) == before


def picture(trio: Trio) -> dict[str, tuple]:
    """Returns everything that a mistake must not change: who runs, who takes writes, who follows
    whom, the volumes."""
    volume_names: dict[str, tuple] = {}
    for name in trio.names:
        server = trio.server(name)
        [(closed,)] = sql(server, "SELECT @@global.read_only")
        channels = sql(server, "SHOW ALL SLAVES STATUS" if trio.flavor == "mariadb" else "SHOW REPLICA STATUS")
        follows = tuple((row[3], row[5]) if trio.flavor == "mariadb" else (row[1], row[3]) for row in channels)
        volume_names[name] = (server.pid, closed, follows)
    volume_names["volumes"] = tuple(sorted(volume["name"] or "" for volume in trio.lab.volumes()))
    return volume_names


def test_a_missing_privilege_is_named_and_the_source_goes_on(trio: Trio, tmp_path, from_a):  # noqa: F811
    """An account that may look and not change: a switchover and a failover by it."""
    grants = ["REPLICATION CLIENT"] if trio.flavor == "mysql" else ["REPLICA MONITOR", "BINLOG MONITOR"]
    sql(
        trio.server("a"),
        "CREATE USER weak@'%' IDENTIFIED BY 'not-a-secret-of-anyone'",
        f"GRANT {', '.join(grants)} ON *.* TO weak@'%'",
    )
    assert trio.equal()
    headrace = CommandHere(trio.lab.place.data_dir)
    headrace.environment["HEADRACE_MYSQL_PASSWORD"] = "not-a-secret-of-anyone"
    hosts = [f"mysql://weak@127.0.0.1:{trio.server(name).port}?ssl-mode=REQUIRED" for name in trio.names]
    before = picture(trio)
    try:
        done = headrace("failover", "switchover", *hosts, "--yes", "--journal", str(tmp_path), code=3)
        assert re.search(r"privilege|[Aa]ccess denied", done.stderr), done.stderr
        assert picture(trio) == before, done.stderr
        headrace.environment["HEADRACE_MYSQL_PASSWORD"] = "wrong"
        done = headrace("failover", "status", *hosts, "--journal", str(Path(tmp_path) / "b"), code=2)
        assert "error: Cannot log in to 127.0.0.1:" in done.stderr and "as weak: wrong password" in done.stderr
    finally:
        sql(trio.server("a"), "DROP USER weak@'%'")


def test_semi_sync_that_is_off_at_the_source_alone_is_warned_of(trio: Trio, from_a):  # noqa: F811
    headrace = CommandHere(trio.lab.place.data_dir)
    variable = "rpl_semi_sync_master_enabled" if trio.flavor == "mariadb" else "rpl_semi_sync_source_enabled"
    sql(trio.server("a"), f"SET GLOBAL {variable} = 0")
    try:
        stderr = headrace("replica", "status", "a").stderr
        assert "warning: a: semi-sync is off here and on at b, c: a commit waits for no replica" in stderr
    finally:
        sql(trio.server("a"), f"SET GLOBAL {variable} = 1")
    assert "semi-sync" not in headrace("replica", "status").stderr
