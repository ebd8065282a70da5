"""Waits until a replica has applied: while the source's writes go on, and after they have
stopped."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from headrace.mysql.connection import limit_answer_time
from headrace.mysql.gtid import GtidSet
from headrace.mysql.state import ServerState, read_executed_now
from headrace.mysql.statements import ask_row
from headrace.servers.failover.hosts import CHANGE_S, AddressHost, ConnectionPool
from headrace.servers.failover.planning.members import Seen, refuse
from headrace.servers.failover.planning.progress import AnyEvent, Hurried, Noted, Unhurried

# Time that a replica needs to apply its relay log, s, at which a switchover stops the writes: at
# best NEAR_S; after WISHED_FOR_S of waiting, NEAR_ENOUGH_S (guesses; half of the second for which
# the writes may be out).
NEAR_S, NEAR_ENOUGH_S, WISHED_FOR_S = 0.05, 0.5, 3.0
LOOK_S = 0.1  # between two looks at how near it is, a guess
# It comes nearer when that time is shorter by a tenth than it ever was; when it has not become so
# for this long, s, it stands (guesses).
NEARER, STANDS_S = 0.9, 5.0
MOMENT_S = 0.1  # a replica that needs no longer to apply what it has is left as it is, a guess
# Length of one query for the wait, s, so that progress and errors show meanwhile.
WAIT_S = 1.0
REPORT_EVERY_S = 1.0  # between two words of how far behind it is, a guess


@dataclass
class Draining:
    """Waits for replicas. `drain_s`: longest wait for a relay log, and for a replica of a
    switchover to catch up; `max_wait_s`: longest time for which a switchover stops writes."""

    pool: ConnectionPool
    log: Callable[[AnyEvent], None]
    say: Callable[[str], None]
    drain_s: float
    max_wait_s: float

    @contextlib.contextmanager
    def hurry_replica(self, host: AddressHost, state: ServerState, gtids: GtidSet, moment_s: float) -> Iterator[None]:
        """Lets a replica apply without a flush for each transaction during the block, and flushes
        everything after it. It does nothing for a replica that executes `gtids` within `moment_s`,
        and for one whose relay log is flushed, for a power cut of both servers."""
        durability = state.durability
        settings = {"sync_binlog": durability.sync_binlog, "innodb_flush_log_at_trx_commit": durability.flush_log}
        with self.pool.hold_connection(host) as connection:
            row = ask_row(connection, state.dialect.wait_for(gtids, moment_s))
        if (row and row[0] == 0) or durability.sync_relay_log == 1 or not state.channels:
            yield
            return
        self.log(Hurried(host.name, settings))
        self.pool.change(host, "SET GLOBAL sync_binlog = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        try:
            yield
        finally:
            self.end_hurry(host, settings)

    def end_hurry(self, host: AddressHost, settings: Mapping[str, int]) -> None:
        """Restores the settings of a hurried replica, flushes its logs, and logs that."""
        self.pool.change(host, *(f"SET GLOBAL {name} = {int(value)}" for name, value in settings.items()))
        self.pool.change(host, "FLUSH NO_WRITE_TO_BINLOG BINARY LOGS", "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS")
        self.log(Unhurried(host.name))

    def wait_until_near(
        self,
        host: AddressHost,
        source: AddressHost,
        state: ServerState,
        hurry: contextlib.ExitStack,
        stands_s: float = STANDS_S,
    ) -> None:
        """Waits until a replica needs only a moment for its backlog, while writes go on. It applies
        hurried until `hurry` is closed, unless it is near at once. Returns as well if it comes no
        nearer for `stands_s` and needs less than half of `max_wait_s`; else, and after `drain_s`,
        raises CouldNotRun."""
        began = best_at = reported_at = self.pool.surroundings.read_now_s()
        best = math.inf
        with self.pool.hold_connection(source) as above, self.pool.hold_connection(host) as below:
            target = read_executed_now(above, state)
            hurry.enter_context(self.hurry_replica(host, state, target, MOMENT_S))
            before, at = read_executed_now(below, state), began
            while True:
                self.pool.surroundings.sleep(LOOK_S)
                target = read_executed_now(above, state)
                executed, now = read_executed_now(below, state), self.pool.surroundings.read_now_s()
                missing, done = target.minus(executed).count(), executed.minus(before).count()
                need_s = 0.0 if not missing else math.inf if not done else missing * (now - at) / done
                if done:
                    before, at = executed, now
                elif missing:
                    self._read_applied(host)
                if need_s <= (NEAR_S if now - began < WISHED_FOR_S else NEAR_ENOUGH_S):
                    self.log(Noted("near", host.name, missing, round(need_s, 3)))
                    return
                if need_s < best * NEARER:
                    best, best_at = need_s, now
                if now - best_at > stands_s and need_s <= self.max_wait_s / 2:
                    self.say(f"{host.name} comes no nearer: writes will be out for some {need_s:.1f} s")
                    return
                if now - best_at > stands_s or now - began > self.drain_s:
                    rule = (
                        f"is {missing:,} transactions behind and comes no nearer, so the writes were not stopped for it"
                    )
                    hint = (
                        "Choose another (--to), let there be fewer writes, or let them be out for longer: --max-wait."
                    )
                    raise refuse.run(host.name, rule, hint)
                if now - reported_at > REPORT_EVERY_S:
                    reported_at = now
                    self.say(f"{host.name} is {missing:,} transactions behind {source.name}; writes go on")

    def wait(
        self, host: AddressHost, state: ServerState, gtids: GtidSet, longest_s: float, received: bool = False
    ) -> None:
        """Waits until a replica has executed these GTIDs. `received`: it has received them, and
        nobody sends them again. Raises CouldNotRun after `longest_s`, or if it cannot."""
        until = self.pool.surroundings.read_now_s() + longest_s
        # A replica that hangs blocks the writes: its answer may not outlast the wait itself.
        limit_s = min(CHANGE_S, longest_s + WAIT_S)
        with self.pool.hold_connection(host) as connection, limit_answer_time(connection, limit_s):
            while True:
                wait_s = max(0.0, min(WAIT_S, until - self.pool.surroundings.read_now_s()))
                row = ask_row(connection, state.dialect.wait_for(gtids, wait_s))
                if row and row[0] == 0:
                    return
                missing = gtids.minus(self._read_applied(host, gtids if received else None)).count()
                if not missing:
                    return
                if self.pool.surroundings.read_now_s() > until:
                    rule = f"has not applied what it received after {longest_s:g} s: {missing:,} transactions are left"
                    option = "--max-wait" if longest_s == self.max_wait_s else "--drain-s"
                    raise refuse.run(host.name, rule, f"Begin again with a longer {option}.")
                self.say(f"{host.name} has {missing:,} transactions to apply")

    def count_missing(self, host: AddressHost, state: ServerState, gtids: GtidSet) -> int:
        """Returns the number of these transactions that a replica has not executed."""
        with self.pool.hold_connection(host) as connection:
            return gtids.minus(read_executed_now(connection, state)).count()

    def check_no_own_writes(self, host: AddressHost, seen: Seen, target: GtidSet) -> None:
        """Raises CouldNotRun if somebody wrote on a replica since it was observed: it has more than
        the source whose writes have stopped."""
        state = seen.state
        assert state is not None
        with self.pool.hold_connection(host) as connection:
            extra = read_executed_now(connection, state).minus(target)
        if not extra.is_empty:
            rule = f"has transactions of its own: {str(extra)[:200]}"
            raise refuse.run(host.name, rule, "Find out who writes there; nothing was changed.")

    def _read_applied(self, host: AddressHost, gtids: GtidSet | None = None) -> GtidSet:
        """Returns the GTIDs that a replica has executed. Raises CouldNotRun if its applier has
        failed, or it will never have `gtids`, because a part of its relay log is gone."""
        state = self.pool.query_state(host)
        if gtids is not None:
            received = state.executed
            for channel in state.channels:
                received = received.union(channel.received)
            if not received.contains(gtids):
                rule = "or its threads were started anew, and a part of what it had received is lost"
                raise refuse.run(host.name, rule, "Begin again: what each replica has now decides.")
        errors = [channel.apply_error for channel in state.channels if channel.apply_error]
        if errors:
            hint = "Correct it there and begin again; or elect another."
            raise refuse.run(host.name, f"cannot apply what it received: {errors[0]}", hint)
        return state.executed
