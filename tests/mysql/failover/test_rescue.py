"""The tail of a dead source's binary log, where a replica received a transaction in part."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields

import pytest
from lab_servers import sql
from waiting import wait_until

from headrace import servers
from headrace.errors import CouldNotRun
from headrace.servers.failover import rescue
from headrace.servers.failover.cluster import make_cluster
from headrace.servers.failover.hosts import AddressHost, LabHost, query_host_state
from headrace.servers.failover.planning.members import FailoverWish
from headrace.servers.topology.topology import Following, bring_up_replica

ROWS, ROW_BYTES = 2_000, 4_000  # of the transaction: 8 MB
CUT_AT = 2_000_000  # bytes of it that the replica gets
SOON_S = 30.0  # much more than applying 8 MB takes, and less than the 10 minutes that a tail may take
SMALL = {"innodb_buffer_pool_size": "32M", "sync_binlog": "1"}


@contextlib.contextmanager
def cut_link(port: int) -> Iterator[tuple[int, threading.Event]]:
    """A port that leads to another, and goes silent after CUT_AT bytes once the event is set; it
    sets it back then."""
    armed, ended = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)

        def pump(into: socket.socket, out: socket.socket, counted: bool) -> None:
            cut_at = CUT_AT
            with contextlib.suppress(OSError):
                while data := into.recv(16_384):
                    if counted and armed.is_set():
                        cut_at -= len(data)
                        if cut_at < 0:
                            armed.clear()
                            ended.wait()
                            return
                    out.sendall(data)

        def accept() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for pair in ((near, far, False), (far, near, True)):
                        threading.Thread(target=pump, args=pair, daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], armed
        finally:
            ended.set()
            thread.join(5)


@dataclass(frozen=True)
class LinkedHost(LabHost):
    """A server whose replicas reach it through a link."""

    link: int = 0

    @property
    def port(self) -> int:
        return self.link


def linked(host: AddressHost, port: int) -> LinkedHost:
    return LinkedHost(**{field.name: getattr(host, field.name) for field in fields(host)}, link=port)


def refuse(words: list[str], into: list[str], name: str) -> None:
    raise CouldNotRun(name, "its tail is not applied", "", "")


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_a_transaction_that_was_received_in_part(lab, tmp_path, monkeypatch, flavor):
    """The replica's applier holds the GTID and the rows, and would for ever: the rest comes from
    nobody."""
    monkeypatch.setattr(rescue, "APPLY_S", SOON_S)
    source = servers.bring_up(lab, name=f"part-{flavor}", storage="gp3:2", flavor=flavor, settings=SMALL)
    replica = bring_up_replica(lab, f"rest-{flavor}", source.name, Following(prepare_source=True, workers=4)).server
    source = servers.find(lab, source.name)
    cluster = make_cluster([source.name, replica.name], lab, tmp_path)
    hosts = cluster.hosts
    try:
        sql(
            source,
            "CREATE DATABASE part",
            "CREATE TABLE part.t (id INT PRIMARY KEY, b VARCHAR(5000)) CHARACTER SET latin1",
        )
        numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) "
        limit = "max_recursive_iterations" if flavor == "mariadb" else "cte_max_recursion_depth"
        with cut_link(source.port) as (port, armed):
            dialect, word = query_host_state(hosts[replica.name]).dialect, "MASTER" if flavor == "mariadb" else "SOURCE"
            change = f"CHANGE {'MASTER' if flavor == 'mariadb' else 'REPLICATION SOURCE'} TO {word}_PORT = {port}"
            sql(replica, *dialect.stop(), change, *dialect.start())
            sql(source, "INSERT INTO part.t VALUES (0, 'before')")
            wait_until(lambda: sql(replica, "SELECT COUNT(*) FROM part.t") == ((1,),), "a row through the link", SOON_S)
            armed.set()
            sql(
                source, f"SET SESSION {limit} = {2 * ROWS}",
                f"INSERT INTO part.t {numbers.format(rows=ROWS)} SELECT i, REPEAT('x', {ROW_BYTES}) FROM n",
            )  # fmt: skip
            wait_until(lambda: not armed.is_set(), "the cut of the link", SOON_S)
            time.sleep(1)  # what came before the cut reaches the applier
            messages: list[str] = []
            with contextlib.closing(cluster.make_executor(tmp_path / "clients", messages.append)) as executor:
                assert servers.find(lab, source.name).pid
                os.kill(servers.find(lab, source.name).pid or 0, signal.SIGKILL)
                # The replicas have the link for its address.
                executor.observer.hosts = {**hosts, source.name: linked(hosts[source.name], port)}
                wish = FailoverWish(source.name, rescue=True)
                with monkeypatch.context() as once:
                    once.setattr(rescue, "apply", refuse)
                    with pytest.raises(CouldNotRun, match="its tail is not applied"):
                        executor.run(wish)
                # It can be elected as before: by what it applies, though nobody sends it anything.
                assert query_host_state(hosts[replica.name]).channels[0].apply == "on", messages
                outcome = executor.run(wish)
            assert (outcome.elected, outcome.rescued, outcome.lossless) == (replica.name, 1, True), (outcome, messages)
        assert sql(replica, "SELECT COUNT(*), SUM(LENGTH(b)) FROM part.t")[0] == (ROWS + 1, ROWS * ROW_BYTES + 6)
    finally:
        for entry in (replica, source):
            servers.destroy(servers.find(lab, entry.name))
