"""Replicas: those of the lab as `headrace replica status` shows them, with their lag and what the
loss of the source would mean; and one that is predicted. Imported when it is first asked: it needs
the client of MySQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from headrace.base.encoding import to_plain
from headrace.base.options import list_given
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.report.replication import members as member_words
from headrace.report.replication import replicas
from headrace.servers.failover.cluster import find_source, make_cluster
from headrace.servers.failover.planning.guarantee import judge_guarantee
from headrace.servers.failover.planning.members import Guarantee
from headrace.servers.topology import topology
from headrace.servers.topology.lag.record import LagRecord
from headrace.servers.topology.lag.watch import LagReading
from headrace.simulation.replica import Replica, predict_replica
from headrace.simulation.settings import PredictionSettings
from headrace.ui.answers import describe_workload, make_plain_view, pick_columns
from headrace.ui.asks import AskReplica
from headrace.ui.modelling import REPLICA_SECONDS, START
from headrace.ui.spelling import read_settings, refuse, spell_command, spell_settings
from headrace.ui.workloads import Workloads
from headrace.workload import TransactionWorkload

# Long enough for rates, which are taken over a second, s.
LOOK_S = 2.0
# Settings of a prediction that a replica's has not (cli/model/replica.py).
OF_SOURCES = ("form", "release", "progress")
ROW_COLUMNS = ("t_s", "lag_s", "backlog", "source_tps", "applied_tps", "possible_tps", "balance_percent")


def show_topology(open_lab: Callable[[], Lab], _: object) -> dict[str, object]:
    """Returns the servers of the lab that follow each other, with the view of them. Raises
    CouldNotRun where no lab answers."""
    with closing(open_lab()) as lab:
        lab.status()  # says what to run where no lab answers
        members = topology.list_topology(lab)
        readings = read_lag(lab) if any(member.state and member.state.channels for member in members) else []
        guarantee, unknown = read_guarantee(lab) if len(members) > 1 else (None, "")
    lag_of = {(reading.replica, reading.channel): reading.lag_s for reading in readings}
    links = [
        {"from": source, "to": row["name"], "lag_s": lag_of.get((str(row["name"]), str(row.get("channel", ""))))}
        for member in members
        for row in member_words.list_rows(member)
        if (source := member_words.find_source_name(row, members))
    ]
    return {
        "servers": [
            {"name": member.server.name, "state": member.server.state, "problems": len(member.problems)}
            for member in members
        ],
        "links": to_plain(links),
        "view": make_plain_view(member_words.build_view(members, readings, guarantee, unknown)),
        "commands": [
            spell_command(words) for words in (["replica", "status"], ["replica", "lag"], ["failover", "status"])
        ],
    }


def read_lag(lab: Lab) -> Sequence[LagReading]:
    """Measures the lag of each replica for LOOK_S and returns the readings; none if they cannot be
    watched."""
    try:
        servers = topology.make_watch(lab)
        with servers.watch as watching:
            LagRecord(watching, servers.servers).run(LOOK_S)
            return watching.read()
    except HeadraceError:
        return []


def read_guarantee(lab: Lab) -> tuple[Guarantee | None, str]:
    """Returns the guarantee that would hold if the source were lost now, and ""; or None and the
    reason why it is not known."""
    try:
        cluster = make_cluster((), lab)
        with closing(cluster.make_observer()) as observer:
            seen = observer.look()
        return judge_guarantee(seen, seen[find_source(seen, None, cluster.read_unfinished())]), ""
    except HeadraceError as error:
        return None, str(error)


def run_replica(memory: Workloads, ask: AskReplica) -> dict[str, object]:
    """Predicts a replica behind a database, and returns its rows by column. Raises InputError."""
    load = memory.find(ask.workload)
    if not isinstance(load, TransactionWorkload):
        raise refuse.input(load.name, "is demand in I/Os, and a replica applies transactions")
    values = read_settings(PredictionSettings, ask.settings)
    for name in OF_SOURCES:
        if name in values:
            raise refuse.input(name, "is not a setting of a replica's prediction", "Leave it out.")
    given = {setting.name for setting in list_given(PredictionSettings(**values))}  # pyright: ignore[reportArgumentType]
    run = {"seconds": REPLICA_SECONDS, "start": START} | {
        name: value for name, value in values.items() if name in given
    }
    answer = predict_replica(load, ask.storage, Replica(ask.replica, workers=ask.workers), **run)  # pyright: ignore[reportArgumentType]
    commands, workload_argument = memory.spell(ask.workload)
    arguments = ["predict", workload_argument, "--storage", ask.storage, "--replica", ask.replica]
    arguments += [] if ask.workers is None else ["--workers", str(ask.workers)]
    document = replicas.build_document(answer)
    document.pop("rows")
    return {
        "workload": describe_workload(load),
        "result": to_plain(document),
        "view": make_plain_view(replicas.build_view(answer)),
        "columns": pick_columns(answer.rows, ROW_COLUMNS),
        "usual": {"threads": load.threads, "cache_gib": load.cache_gib},
        "commands": [*commands, spell_command([*arguments, *spell_settings(PredictionSettings, values)])],
    }
