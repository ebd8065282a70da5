"""Carries out the steps of a plan. Every action may be repeated: it brings about a state."""

from __future__ import annotations

import contextlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from headrace.mysql.state import ServerState, observe
from headrace.servers.failover import rescue, scheduler
from headrace.servers.failover.changes import follow, leave_sources, make_empty_statements, move_below
from headrace.servers.failover.draining import MOMENT_S, NEAR_ENOUGH_S
from headrace.servers.failover.hosts import AddressHost
from headrace.servers.failover.outage import FirstClient
from headrace.servers.failover.planning import members
from headrace.servers.failover.planning.members import FailoverStep
from headrace.servers.failover.planning.progress import Fenced, Listed, Noted, Published, Rescued, WritesClosed
from headrace.servers.failover.planning.semisync import choose_timeout_ms
from headrace.servers.topology.threads import stop_receiving

if TYPE_CHECKING:
    from headrace.servers.failover.run import ChangeRun

EVENTS_S = 10.0  # of a question for events, or a change of them, a guess
# A replica that comes no nearer for so long, s, moves when the writes have stopped (a guess).
EARLY_STANDS_S = 1.0
EARLY_S = 5.0  # how long a replica may take to have applied all it received before it moves, a guess
FIRST_TRY_S = 2.0  # how long a replica may take to connect to its new source, or to be refused, a guess


class StepAction(ABC):
    """Carries out the steps of one action. `optional`: a failure does not end the change;
    `at_once`: it is done for several servers at the same time, as each may wait for a dead host;
    `leased`: the lease is checked before it."""

    optional = False
    at_once = False
    leased = True

    def prepare(self, run: ChangeRun, step: FailoverStep) -> None:  # noqa: B027
        """Makes what the step needs. If this fails, the step counts as not begun."""

    @abstractmethod
    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Carries out the step. Raises CouldNotRun, the driver's errors, and others."""

    def conclude(self, run: ChangeRun, step: FailoverStep) -> None:  # noqa: B027
        """Is called after the step, whether it succeeded or, as an optional one may, failed."""


class Fence(StepAction):
    """Ends the old source. Without a fence the replicas decide."""

    optional = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        how = run.hosts[step.server].fence()
        run.log(Fenced(step.server, how, run.surroundings.read_now_s()))
        run.observer.fenced.add(step.server)


class StartApply(StepAction):
    """Starts the applier."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        state = run.get_state(step.server)
        run.pool.change(run.hosts[step.server], *state.dialect.start_apply(_get_channel_name(state)))


class StopReceive(StepAction):
    """Ends the receive thread: the replica acknowledges no more."""

    at_once = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        state = run.get_state(step.server)
        with run.pool.hold_connection(run.hosts[step.server]) as connection:
            stop_receiving(connection, state, _get_channel_name(state))


class WaitNear(StepAction):
    """Waits until the replica needs a moment for its backlog, while writes go on."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Waits until the replica is near; from the second stage on it goes on applying hurried,
        until `run.hurry` is closed."""
        host, to = run.hosts[step.server], run.hosts[step.to]
        with contextlib.ExitStack() as hurry:
            run.draining.wait_until_near(host, to, run.get_state(step.server), hurry)
            if step.stage > 1:
                # The flush at the end takes less time than the hurry saves.
                run.hurry = hurry.pop_all()


class ReadOnly(StepAction):
    """Stops the writes of a switchover's source."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Stops the writes, and logs the source's GTIDs and the seconds that stopping took."""
        assert run.closing is not None
        gtids = run.closing.stop(
            run.say, run.pool.list_connection_ids(step.server) | run.lease.list_connection_ids(step.server)
        )
        # Attempts before the last one let clients write in between.
        at_s = run.closing.began_s
        run.log(WritesClosed(gtids, at_s, run.surroundings.read_now_s() - at_s))


class WaitApplied(StepAction):
    """Waits until the chosen replica has applied all it received, or a switchover's source has."""

    leased = False

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Waits until the replica has applied the GTIDs of the step, else all of a switchover's
        source. After an error a switchover's source takes writes again. Raises CouldNotRun, also
        for a replica with transactions of its own."""
        host, target = run.hosts[step.server], step.gtid or run.progress.pause.target
        member, draining, state = run.seen[step.server], run.draining, run.seen[step.server].state
        switching = run.progress.kind == "switchover" and bool(step.to)  # else it is to follow the new source
        assert target is not None and state is not None
        if switching:
            run.log(Noted("closed", host.name, draining.count_missing(host, state, target)))
        # A replica that is near already needs no more help.
        with draining.hurry_replica(host, state, target, NEAR_ENOUGH_S if switching else MOMENT_S):
            try:
                longest_s = draining.max_wait_s if switching else draining.drain_s
                draining.wait(host, state, target, longest_s, received=not switching)
            except (Exception, KeyboardInterrupt):
                if switching:
                    # First of all, because clients wait and the replica may not answer.
                    run.reopen()
                raise
        run.hurry.close()
        if switching:
            draining.check_no_own_writes(host, member, target)


class Rescue(StepAction):
    """Applies the rest of the dead source's binary log, from its volume."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        assert step.gtid is not None
        old, new = run.hosts[step.to], run.hosts[step.server]
        run.log(Rescued(rescue.rescue(old, new, step.gtid, run.say)))


class Inject(StepAction):
    """Writes empty transactions in place of those that another server wrote."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        assert step.gtid is not None
        run.pool.change(run.hosts[step.server], *make_empty_statements(step.gtid))


class LeaveSource(StepAction):
    """Ends all channels of the chosen server."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        with run.pool.hold_connection(run.hosts[step.server]) as connection:
            leave_sources(connection, run.get_state(step.server), step.gtid)


class SwitchSemiSync(StepAction):
    """Switches one side of semi-sync, now and for later starts."""

    def __init__(self, side: Literal["source", "replica"], on: bool) -> None:
        self.side, self.on = side, on
        self.leased = not (side == "source" and on)

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        host, state = run.hosts[step.server], run.get_state(step.server)
        timeout = choose_timeout_ms(run.progress, state, run.seen) if self.side == "source" and self.on else None
        run.store(host, state.dialect.make_semi_sync_settings(self.side, self.on, timeout, step.count))
        run.pool.change(host, *state.dialect.switch_semi_sync(self.side, self.on, timeout, step.count))


class Writable(StepAction):
    """Lets the new source take writes."""

    def prepare(self, run: ChangeRun, step: FailoverStep) -> None:
        run.store(run.hosts[step.server], run.get_state(step.server).dialect.make_read_only_settings(False))

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        run.pool.change(run.hosts[step.server], *run.get_state(step.server).dialect.switch_read_only(False))


class KeepRole(StepAction):
    """Stores the role that a new source has now for its later starts."""

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        state = run.get_state(step.server)
        settings, semi = state.dialect.make_read_only_settings(False), state.semi_sync
        if semi.source_enabled:
            settings |= state.dialect.make_semi_sync_settings("source", True, semi.timeout_ms, semi.wait_count)
        run.store(run.hosts[step.server], settings)


class Clients(StepAction):
    """Writes the file that clients read the source's address from. If that fails, the change goes
    on, and it is tried again at the end."""

    optional = True
    leased = False

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        self.publish(run, run.hosts[step.server])

    def publish(self, run: ChangeRun, host: AddressHost) -> None:
        """Writes the file, if there is one. Raises CouldNotRun."""
        if run.clients is not None:
            text = json.dumps({"host": host.host, "port": host.port, "name": host.name})
            run.surroundings.write(run.clients, (text + "\n").encode())

    def conclude(self, run: ChangeRun, step: FailoverStep) -> None:
        """Lets a first client connect, which measures the outage, and once the file is written logs
        for how many seconds the writes of a switchover were closed."""
        progress = run.progress
        pause = progress.pause
        since_s = pause.at_s if progress.kind == "switchover" else progress.written_s
        if since_s is not None and run.first_client is None:
            run.first_client = FirstClient(run.hosts[step.server], since_s, run.surroundings)
            run.first_client.begin()
        if progress.clients_updated and pause.at_s is not None and pause.seconds is None:
            run.log(Published(run.surroundings.read_now_s() - pause.at_s))
            parts = ", ".join(f"{name} {took:.3f} s" for name, took in run.progress.pause.parts.items())
            run.say(f"writes were closed for {run.progress.pause.seconds:.3f} s: {parts}")


class Events(StepAction):
    """Lets the new source run the old one's events."""

    optional = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        host, state = run.hosts[step.server], run.get_state(step.server)
        scheduler.enable(host, state, run.progress.events or (), EVENTS_S)


class ListLost(StepAction):
    """Writes a file of transactions in the dead source's binary log that the new source lacks."""

    optional = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Writes the GTIDs next to the journal, a line each, and logs their number and the file.
        Raises CouldNotRun."""
        assert step.gtid is not None
        old, flavor = run.hosts[step.to], run.get_state(step.server).flavor
        lost = rescue.list_tail(old, step.gtid, flavor)
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(run.surroundings.read_unix_s()))
        path = run.journal.path.with_name(f"{old.name.replace('/', '_')}-lost-{at}.txt")
        run.surroundings.write(path, "".join(f"{gtid}\n" for gtid in lost).encode())
        run.log(Listed(len(lost), rescue.format_ranges(lost, flavor), str(path)))
        run.say(f"{len(lost):,} transactions of {old.name} are lost: {path}")


class Repoint(StepAction):
    """Lets a server follow the new source."""

    at_once = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        host, to = run.hosts[step.server], run.hosts[step.to]
        with run.pool.hold_connection(host) as connection:
            follow(host, connection, to, run.following.get((to.name, host.name)), step.gtid)
            if run.progress.is_settled("clients"):  # nobody waits: the error of its first try is seen, if any
                until = run.surroundings.read_now_s() + FIRST_TRY_S
                while is_connecting(observe(connection, host.name)) and run.surroundings.read_now_s() < until:
                    run.surroundings.sleep(FIRST_TRY_S / 20)


class RepointEarly(StepAction):
    """Lets a replica follow the chosen one before the writes stop, or else later."""

    optional = True

    def run(self, run: ChangeRun, step: FailoverStep) -> None:
        """Waits until the replica is near, and lets it follow the chosen one. Raises CouldNotRun; a
        replica that needs longer than EARLY_S seconds follows its source as before."""
        host, to, source = run.hosts[step.server], run.hosts[step.to], run.hosts[run.progress.source]
        with contextlib.ExitStack() as hurry:
            run.draining.wait_until_near(host, source, run.get_state(step.server), hurry, EARLY_STANDS_S)
        with run.pool.hold_connection(host) as connection, run.pool.hold_connection(to) as above:
            move_below(host, connection, to, above, run.following.get((to.name, host.name)), EARLY_S)


ACTIONS: Mapping[members.Action, StepAction] = {
    "fence": Fence(),
    "start-apply": StartApply(),
    "stop-receive": StopReceive(),
    "wait-near": WaitNear(),
    "read-only": ReadOnly(),
    "wait-applied": WaitApplied(),
    "rescue": Rescue(),
    "inject": Inject(),
    "leave-source": LeaveSource(),
    "semi-sync-replica-off": SwitchSemiSync("replica", on=False),
    "semi-sync-replica-on": SwitchSemiSync("replica", on=True),
    "semi-sync-source-off": SwitchSemiSync("source", on=False),
    "semi-sync-source-on": SwitchSemiSync("source", on=True),
    "writable": Writable(),
    "keep-role": KeepRole(),
    "clients": Clients(),
    "events": Events(),
    "list-lost": ListLost(),
    "repoint": Repoint(),
    "repoint-early": RepointEarly(),
}
PUBLISH = Clients()


def is_connecting(state: ServerState) -> bool:
    """Returns whether a channel of a server is still connecting to its source."""
    return any(channel.receive == "connecting" for channel in state.channels)


def _get_channel_name(state: ServerState) -> str:
    """Returns the name of a server's first channel, "" for none."""
    return state.channels[0].name if state.channels else ""
