"""The lease that lets a single watcher or failover act: a named lock on a majority of replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.errors import CouldNotRun
from headrace.mysql.statements import SqlConnection, ask_row, run
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.planning.members import refuse
from headrace.servers.failover.surroundings import REAL, Surroundings

LEASE = "headrace_failover"
LEASE_S = 2.0  # how long each server may take to grant it, a guess
WAIT_TIMEOUT_S = 86_400  # wait_timeout of a connection that has the lock, s: a day, longer than any drain

# Time for which a lock may outlive its killed holder, s: until the server notices its end.
LAST_S = 0.5


class LeaseTaken(CouldNotRun):
    """Raised when another watcher or failover holds the lease."""


@dataclass
class Lease:
    """A named lock on a majority of the replicas, so that of two watchers a single one acts.
    `locks`: the connections that hold it, by server; it ends with its process."""

    hosts: Mapping[str, AddressHost]
    surroundings: Surroundings = REAL
    locks: dict[str, SqlConnection] = field(default_factory=dict)
    _ready: dict[str, SqlConnection] = field(default_factory=dict)
    _warming: set[str] = field(default_factory=set)

    def take(self, source: str | None) -> None:
        """Takes the lock on all servers but `source`, which may be dead (None: on all). Raises
        LeaseTaken if another process has it, CouldNotRun if no majority answers."""
        replicas = [host for name, host in sorted(self.hosts.items()) if name != source]
        remaining = [host for host in replicas if host.name not in self.locks]
        refused = []
        # A single server first, the same for everybody: of two processes at once, each with a part
        # of the servers, neither would act.
        while remaining and not self.locks and not refused:
            refused = list(filter(None, [self._take_on(remaining.pop(0))]))
        if not refused:
            calls = [lambda host=host: self._take_on(host) for host in remaining]
            refused = list(filter(None, self.surroundings.run_all(calls)))
        if not self._has_majority(source):
            self.release()
            if refused:
                rule = f"another watcher or failover holds the lease on {', '.join(refused)}"
                raise LeaseTaken("the lease", rule, refuse.source, "Wait for it; it ends with the one who holds it.")
            rule = f"fewer than a majority of {len(replicas)} servers answer"
            raise refuse.run("the lease", rule, "Bring replicas back.")

    def warm(self, hosts: Sequence[AddressHost]) -> None:
        """Begins to connect to the servers in the background, without taking the lock."""

        def connect_ahead(host: AddressHost) -> None:
            with contextlib.suppress(Exception):
                self._ready[host.name] = host.open_connection(LEASE_S)
            self._warming.discard(host.name)

        for host in hosts:
            if host.name not in {*self._ready, *self.locks, *self._warming}:
                self._warming.add(host.name)
                self.surroundings.begin(lambda host=host: connect_ahead(host))

    def _open_connections(self, host: AddressHost) -> Iterator[SqlConnection]:
        """Yields the connection that `warm` opened, if any, then a new one, if it answers."""
        ready = self._ready.pop(host.name, None)
        if ready is not None:
            yield ready
        with contextlib.suppress(Exception):
            yield host.open_connection(LEASE_S)

    def _take_on(self, host: AddressHost) -> str:
        """Takes the lock on a server; returns its name if another process holds it, else ""."""
        for connection in self._open_connections(host):
            try:
                # A server whose own wait_timeout is short would end it in a long drain, unseen.
                run(connection, (f"SET SESSION wait_timeout = {WAIT_TIMEOUT_S}",))
                if ask_row(connection, f"SELECT GET_LOCK('{LEASE}', {LAST_S})")[:1] == (1,):
                    self.locks[host.name] = connection
                    return ""
                connection.close()
                return host.name
            except Exception:
                continue  # a connection that was made beforehand may have died since
        return ""

    def check(self, source: str | None) -> bool:
        """Returns whether the lease was held all the time; False: it was lost and is taken again,
        so that another may have acted in between. Raises CouldNotRun if it cannot be taken
        again."""
        for name, connection in list(self.locks.items()):
            try:
                if ask_row(connection, f"SELECT IS_USED_LOCK('{LEASE}') = CONNECTION_ID()")[:1] != (1,):
                    raise CouldNotRun(name, "no longer holds the lease")
            except Exception:
                del self.locks[name]
        unbroken = self._has_majority(source)
        self.take(source)
        return unbroken

    def _has_majority(self, source: str | None) -> bool:
        """Returns whether the lock is held on more than half of the servers but `source`."""
        return len(self.locks) * 2 > sum(name != source for name in self.hosts)

    def list_connection_ids(self, name: str) -> set[int]:
        """Returns the connection id, as the server counts it, of the connection that holds the lock
        there; empty for none."""
        return {self.locks[name].thread_id()} if name in self.locks else set()

    def release(self) -> None:
        """Gives the lock back on all servers and closes all connections; errors are ignored."""
        for connection in (*self.locks.values(), *self._ready.values()):
            with contextlib.suppress(Exception):
                # A closed connection releases its lock some time later.
                ask_row(connection, f"SELECT RELEASE_LOCK('{LEASE}')")
                connection.close()
        self.locks, self._ready = {}, {}
