"""Replicas in the page: a prediction is what `headrace predict --replica` prints; the lab's servers are drawn as they are seen."""

from __future__ import annotations

import json
import shlex
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.errors import CouldNotRun, InputError
from headrace.lab import Lab
from headrace.mysql.state import SemiSync
from headrace.report.replication import members as member_words
from headrace.report.view import Sentence
from headrace.servers.failover.planning.members import Guarantee
from headrace.servers.topology import topology
from headrace.ui import replicas, workloads
from headrace.ui.asks import AskReplica, Nothing

TPCC = "sysbench-tpcc:warehouses=100,cache_gib=4,threads=16"


@pytest.mark.parametrize(
    ("settings", "workers", "replica"),
    [({}, None, "gp3:100"), ({"threads": 64, "growth": 1.5, "seconds": 120}, 8, "gp2:100"), ({"start": "warm", "seconds": 60}, 0, "io1:100:900")],
)  # fmt: skip
def test_a_replica_is_what_its_command_prints(settings, workers, replica, call):
    answer = replicas.run_replica(
        workloads.Workloads(), AskReplica(TPCC, settings, storage="gp3:100:4000", replica=replica, workers=workers)
    )
    code, out, err = call(*shlex.split(answer["commands"][-1])[1:], "--output", "json")
    assert code in (0, 1), err
    printed = json.loads(out)
    rows = printed.pop("rows")
    assert json.loads(json.dumps(answer["result"])) == printed
    for name, values in cast("dict[str, list]", answer["columns"]).items():
        assert values == [row[name] for row in rows], name


@pytest.mark.parametrize(
    ("workload", "settings", "replica", "rule"),
    [(TPCC, {"form": "events"}, "gp3:100", "not a setting of a replica"), (TPCC, {}, "gp9:1", "gp9"), ("demo:day", {}, "gp3:100", "applies transactions")],
)  # fmt: skip
def test_what_cannot_be_predicted_is_refused(workload, settings, replica, rule):
    with pytest.raises(InputError, match=rule):
        replicas.run_replica(workloads.Workloads(), AskReplica(workload, settings, storage="gp3:100", replica=replica))


def channel(source_port: int, **more: object) -> SimpleNamespace:
    usual = {
        "name": "", "source_host": "127.0.0.1", "source_port": source_port, "receive": "on", "apply": "on", "seconds_behind": 0, "received": "0-1-9",
        "workers": 4, "delay_s": 0, "filters": (),
    }  # fmt: skip
    return SimpleNamespace(**(usual | more))


def member(name: str, port: int, *channels: SimpleNamespace, problems: tuple[str, ...] = (), up: bool = True) -> Any:
    state = SimpleNamespace(semi_sync=SemiSync(), executed="0-1-48211", read_only=bool(channels), channels=channels)
    server = SimpleNamespace(name=name, host="127.0.0.1", port=port, state="running" if up else "stopped")
    return SimpleNamespace(server=server, state=state if up else None, problems=problems, warnings=(), notes=())


def reading(replica: str, lag_s: float | None, source: str = "db") -> Any:
    """A reading of `servers.topology.lag.watch`, as far as it is shown."""
    figures = {"lag_s": lag_s, "exact": True, "at_least": False, "backlog": 5, "unapplied": 2, "applied_tps": 100.0}
    return SimpleNamespace(replica=replica, channel="", source=source, problem="", receive="on", apply="on", **figures)


MEMBERS = [
    member("db", 3306),
    member("r1", 3307, channel(3306)),
    member("r2", 3308, channel(3307)),
    member("old", 3309, up=False),
]


class SilentLab:
    """A lab whose servers a test makes up."""

    def status(self) -> dict:
        return {}

    def close(self) -> None: ...


def test_the_topology_is_drawn_as_it_is_seen(monkeypatch):
    guarantee = Guarantee("kept", (), ("1 of 2 acknowledging replicas can be reached at the failover",))
    monkeypatch.setattr(topology, "list_topology", lambda lab: MEMBERS)
    monkeypatch.setattr(replicas, "read_lag", lambda lab: [reading("r1", 0.25), reading("r2", None)])
    monkeypatch.setattr(replicas, "read_guarantee", lambda lab: (guarantee, ""))
    answer = replicas.show_topology(SilentLab, Nothing())
    assert answer["links"] == [{"from": "db", "to": "r1", "lag_s": 0.25}, {"from": "r1", "to": "r2", "lag_s": None}]
    assert [server["state"] for server in cast("list[dict]", answer["servers"])] == ["running"] * 3 + ["stopped"]
    text = json.dumps(answer["view"])
    assert answer["view"]["title"] == "2 servers follow another"
    assert "0.25 s" in text and "no acknowledged commit is lost" in text and "can be reached at the failover" in text
    assert answer["commands"][2] == "headrace failover status"


def test_what_is_wrong_comes_first_and_an_unknown_guarantee_says_why(monkeypatch):
    broken = [MEMBERS[0], member("r1", 3307, channel(3306, apply="off"), problems=("its applier is off",))]
    view = member_words.build_view(broken, [], None, "db: cannot be asked")
    first = view.blocks[0]
    assert isinstance(first, Sentence)
    assert view.title == "1 thing is wrong" and first.text == "r1: its applier is off"
    assert any("cannot be asked" in getattr(block, "text", "") for block in view.blocks)


def test_a_source_elsewhere_is_an_address():
    [row] = member_words.list_rows(member("r1", 3307, channel(4000, source_host="db.example")))
    assert member_words.find_source_name(row, MEMBERS) == "db.example:4000"
    assert member_words.list_cells(MEMBERS)[1][1] == "db" and member_words.list_cells(MEMBERS)[3][2] == "stopped"


def test_without_a_lab_it_is_said(tmp_path):
    with pytest.raises(CouldNotRun):
        replicas.show_topology(lambda: Lab(tmp_path), Nothing())
