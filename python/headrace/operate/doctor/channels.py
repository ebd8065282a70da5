"""Verdict on the replication channels of a server: those that do not follow their source."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.mysql.dialect import CHANNEL, Dialect
from headrace.mysql.state import parse_version
from headrace.observe.evidence.model import SeenChannel
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.signals import ServerSignals
from headrace.operate.doctor.verdicts import read_verdicts

STATES = {"off": "is stopped", "connecting": "does not connect"}


def judge_channels(server: ServerSignals, replica: Mapping[str, float | None]) -> list[Finding]:
    """Returns a finding for each channel with a thread that does not work. `replica`: the window's
    means of REPLICA_COLUMNS.

    A channel without an error was stopped by somebody: that is a finding only where another channel
    works, because a server without any was taken out of replication as a whole.
    """
    channels = server.facts.channels
    if all(replica.get(name) in (1.0, None) for name in ("sql_running", "io_running")):
        return []
    working = [channel.name for channel in channels if channel.works]
    return [
        _make_finding(server, channel, working, len(channels))
        for channel in channels
        if not channel.works and (channel.error or (working and channel.is_stopped))
    ]


def _make_finding(server: ServerSignals, channel: SeenChannel, working: list[str], count: int) -> Finding:
    """Returns the finding on a channel. `working`: names of the channels that work, of `count`."""
    threads = {"receive": channel.receive, "apply": channel.apply}
    states = [f"the {name} thread {STATES[state]}" for name, state in threads.items() if state != "on"]
    stopped = [name for name, state in threads.items() if state == "off"]
    start, stop = _write_statements(server, channel.name, stopped)
    if channel.error and stopped:
        then = "Remove the cause that the error names, and start it again; skip no transaction that you do not know"
    elif stopped:
        then = "Start it again, unless it was stopped on purpose"
    else:
        then = "Make the source reachable from this server, or correct the account of the channel"
    return read_verdicts()["channel"].make_finding(
        weight=0.9,
        channel=f"Replication channel {channel.name}" if channel.name else "The default replication channel",
        states=" and ".join(states),
        others=f", while {_describe_working(working)}" if working else "",
        error=f"The last error is {channel.error.rstrip('.')}." if channel.error else "There is no error.",
        channels_working=float(len(working)),
        channels=float(count),
        then=then,
        start=start,
        stop=stop,
    )


def _describe_working(names: list[str]) -> str:
    words = ", ".join(name or "the default channel" for name in names)
    return f"{words} {'works' if len(names) == 1 else 'work'}"


def _write_statements(server: ServerSignals, name: str, stopped: list[str]) -> tuple[str, str]:
    """Returns statements that start the stopped threads of a channel, and that stop them again; ""
    where no thread is stopped, or where the dialect takes no such name."""
    flavor, version = parse_version(server.facts.version, server.facts.flavor)
    dialect = Dialect(flavor, version)
    if not stopped or not CHANNEL.fullmatch(name):
        return "", ""
    if stopped == ["apply"]:
        starts, stops = dialect.start_apply(name), dialect.stop_apply(name)
    elif stopped == ["receive"]:
        starts, stops = dialect.start_receive(name), dialect.stop_receive(name)
    else:
        starts, stops = dialect.start(name), dialect.stop(name)
    return "; ".join(starts) + ";", "; ".join(stops)
