"""The topology of servers as tables and a view: sources, replicas, lag, and what the loss of the
source would mean now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.base.encoding import pick_fields
from headrace.report.tables import make_table
from headrace.report.view import Block, Card, Heading, Items, Sentence, View

if TYPE_CHECKING:
    from headrace.servers.failover.planning.members import Guarantee
    from headrace.servers.topology.lag.watch import LagReading
    from headrace.servers.topology.topology import TopologyMember

COLUMNS = ("server", "follows", "receive", "apply", "behind s", "executed", "read-only", "workers", "semi-sync")
CSV = (
    "name", "channel", "source_host", "source_port", "receive", "apply", "seconds_behind", "executed", "received", "read_only", "workers",
    "delay_s", "filters", "semi_sync", "problems",
)  # fmt: skip
LAG_COLUMNS = ("replica", "source", "lag s", "backlog", "received, not applied", "applied/s", "state")
CLOCK_COLUMNS = (
    "replica", "source", "lag s", "gtid s", "heartbeat s", "server s", "commit s", "estimate s", "backlog", "unapplied", "applied/s",
    "state",
)  # fmt: skip
# Consequence of the loss of the source, by the level of the guarantee.
GUARANTEES = {
    "kept": "no acknowledged commit is lost with the source, as long as",
    "async": "commits may be lost with the source",
    "none": "nobody could take over",
}
LONGEST_GTIDS = 44  # characters of a set of GTIDs that a table shows whole (chosen)


def list_rows(member: TopologyMember) -> list[dict[str, object]]:
    """Returns a row of CSV for each channel of a server, or a single one without channels."""
    state = member.state
    common: dict[str, object] = {"name": member.server.name, "problems": "; ".join(member.problems)}
    if state is None:
        return [common | {"receive": member.server.state}]
    sync = state.semi_sync
    side = "source" if sync.source_status else "replica" if sync.replica_status else ""
    enabled = sync.source_enabled or sync.replica_enabled
    common |= {"executed": str(state.executed), "read_only": state.read_only}
    common["semi_sync"] = side or ("OFF now" if enabled else "")
    names = ("source_host", "source_port", "receive", "apply", "seconds_behind", "workers", "delay_s")
    rows = [
        {
            "channel": channel.name,
            **pick_fields(channel, *names),
            "received": str(channel.received),
            "filters": " ".join(f"{kind}={value}" for kind, value in channel.filters),
        }
        for channel in state.channels
    ]
    return [common | row for row in rows] or [common]


def find_source_name(row: dict[str, object], members: Sequence[TopologyMember]) -> str:
    """Returns the name of the source in a row of `list_rows`; its address where it is none of
    `members`, "" without a source."""
    names: dict[tuple[str, object], str] = {
        (member.server.host, member.server.port): member.server.name for member in members
    }
    host, port = row.get("source_host"), row.get("source_port")
    return names.get((str(host), port), f"{host}:{port}") if host else ""


def list_cells(members: Sequence[TopologyMember]) -> list[list[object]]:
    """Returns the rows of COLUMNS for these servers."""
    table_cells = []
    for row in (row for member in members for row in list_rows(member)):
        follows = find_source_name(row, members)
        follows += f" ({row['channel']})" if row.get("channel") else ""
        executed = str(row.get("executed", ""))
        short = executed if len(executed) <= LONGEST_GTIDS else f"{executed[:8]}...{executed[-32:]}"
        read_only = row.get("read_only")
        read_only_text = "-" if read_only is None else "yes" if read_only else "no"
        figures = [row.get(name) for name in ("receive", "apply", "seconds_behind")]
        cells = [row["name"], follows, *figures, short, read_only_text, row.get("workers"), row.get("semi_sync")]
        table_cells.append(["-" if cell in (None, "") else cell for cell in cells])
    return table_cells


def list_lag_cells(reading: LagReading) -> list[object]:
    """Returns a row of LAG_COLUMNS: the lag and what makes it."""
    sign = "" if reading.exact else ">= " if reading.at_least else "~ "
    lag = _format_seconds(reading.lag_s, sign)
    counts = [
        "-" if value is None else f"{value:,.0f}" for value in (reading.backlog, reading.unapplied, reading.applied_tps)
    ]
    state = "ok" if not reading.problem else f"receive {reading.receive}, apply {reading.apply}"
    replica = reading.replica + (f" ({reading.channel})" if reading.channel else "")
    return [replica, reading.source, lag, *counts, state]


def list_clock_cells(reading: LagReading) -> list[object]:
    """Returns a row of CLOCK_COLUMNS: that of `list_lag_cells`, with the lag by each clock, s."""
    clocks, cells = reading.clocks, list_lag_cells(reading)
    server_s = "-" if clocks.server_s is None else clocks.server_s
    ages = [
        _format_seconds(clocks.gtid_s),
        _format_seconds(clocks.heartbeat_s),
        server_s,
        _format_seconds(clocks.commit_s),
    ]
    return [*cells[:3], *ages, _format_seconds(clocks.estimate_s), *cells[3:]]


def _format_seconds(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{sign}{value:.2f}"


def describe_guarantee(guarantee: Guarantee) -> list[str]:
    """Returns a sentence on what the loss of the source would mean now, then its reasons and
    conditions."""
    head = f"guarantee now: {guarantee.level}: {GUARANTEES[guarantee.level]}"
    return [head, *guarantee.reasons, *guarantee.conditions]


def build_view(
    members: Sequence[TopologyMember], readings: Sequence[LagReading], guarantee: Guarantee | None, unknown: str = ""
) -> View:
    """Returns the topology as a view. `unknown`: why the guarantee is not known."""
    problems = [f"{member.server.name}: {text}" for member in members for text in member.problems]
    warnings = [f"{member.server.name}: {text}" for member in members for text in member.warnings]
    count = sum(1 for member in members if member.state and member.state.channels)
    followers = f"{count} {'server follows' if count == 1 else 'servers follow'} another"
    title = f"{len(problems)} {'thing is' if len(problems) == 1 else 'things are'} wrong" if problems else followers
    blocks: list[Block] = [Sentence(text, "warn") for text in problems]
    blocks.append(make_table(COLUMNS, list_cells(members), right=("behind s", "workers"), keep=("server", "follows")))
    if readings:
        clocks = LAG_COLUMNS[2:-1]
        blocks += [Heading("Lag"), make_table(LAG_COLUMNS, map(list_lag_cells, readings), right=clocks)]
    if guarantee is not None:
        first, *conditions = describe_guarantee(guarantee)
        blocks += [Heading("If the source is lost"), Sentence(f"{first[0].upper()}{first[1:]}"), Items(conditions)]
    elif unknown:
        blocks += [Heading("If the source is lost"), Sentence(f"The guarantee is not known: {unknown}")]
    if warnings:
        blocks += [Heading("Warnings"), Items(warnings)]
    return View(title, followers if problems else "", list(_build_cards(readings, guarantee)), blocks)


def _build_cards(readings: Sequence[LagReading], guarantee: Guarantee | None) -> Iterator[Card]:
    """Yields cards with the longest lag, and with what the loss of the source would mean."""
    behind = [reading for reading in readings if reading.lag_s is not None]
    if behind:
        last = max(behind, key=lambda reading: reading.lag_s or 0.0)
        yield Card("Longest lag now", f"{last.lag_s:.2f} s", f"{last.replica} behind {last.source}, measured")
    if guarantee is not None:
        meaning = GUARANTEES[guarantee.level].removesuffix(", as long as")
        mark = "good" if guarantee.level == "kept" else "warn"
        yield Card("If the source is lost now", guarantee.level, f"{meaning[0].upper()}{meaning[1:]}.", mark)
