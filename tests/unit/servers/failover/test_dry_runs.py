"""Dry runs show what a run does: on the naive model of relay logs, where nothing happens in between,
every step is foreseen, in its order, and so is the end.

The same seed gives the same run. DRY_RUN_SEEDS=20000 for the soak.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest
from relay_logs import Cluster

from headrace.servers.failover.planning.dry_run import dry_run
from headrace.servers.failover.planning.election import required
from headrace.servers.failover.planning.members import FailoverPlan, FailoverWish
from headrace.servers.failover.planning.planner import plan

SEEDS = int(os.environ.get("DRY_RUN_SEEDS", "300"))
MOST_STAGES = 30  # more than a plan has, so that one that never ends shows


def made(chance: random.Random, kind: str) -> Cluster:
    replicas, flavor = chance.choice([1, 2, 3]), chance.choice(["mariadb", "mysql"])
    count = 1 if flavor == "mariadb" else chance.randint(1, replicas)
    fence = kind == "switchover" or chance.random() < 0.7
    cluster = Cluster(replicas, flavor, count, chance.choice([0.0, 1e9, 1e9]), fence)
    for one in cluster.servers[1:]:
        one.acks = cluster.timeout_s > 0 and chance.random() > 0.15
        one.delayed = chance.random() < 0.1
    for _ in range(chance.randint(3, 20)):
        cluster.write()
        for one in cluster.servers[1:]:
            if chance.random() < 0.8:
                cluster.receive(one.index)
            if chance.random() < 0.6:
                cluster.apply(one.index)
    cluster.look()
    return cluster


def carried_out(cluster: Cluster, wish: FailoverWish) -> tuple[list[tuple[str, str, str]], FailoverPlan]:
    """The steps that are done when nothing happens in between, and the last plan."""
    steps: list[tuple[str, str, str]] = []
    for _ in range(MOST_STAGES):
        found = plan(cluster.seen(), replace(wish, fenced_s=cluster.fenced_s, proof=cluster.proof))
        if found.refusal or not found.steps:
            return steps, found
        for step in found.stage:
            if wish.elected is None and step.action in ("leave-source", "writable"):
                wish = replace(wish, elected=found.elected, sure=(found.lossless, found.uncertain))
            done = step.action == "semi-sync-replica-on" or cluster.do(step)
            assert done, step
            steps.append((step.action, step.server, step.to))
            wish = replace(wish, clients_updated=wish.clients_updated or step.action == "clients")
            if step.action == "repoint-early":
                wish = replace(wish, moved=(*wish.moved, step.server), target=step.to)
    raise AssertionError("it never ended")


@pytest.mark.parametrize("kind", ["failover", "switchover"])
def test_every_step_is_foreseen(kind):
    ends = Counter()
    for seed in range(SEEDS):
        chance = random.Random(f"{kind} {seed}")
        cluster = made(chance, kind)
        accept = chance.random() < 0.5
        if kind == "failover":
            cluster.kill_source()
        wish = FailoverWish("s0", kind=kind, proof=cluster.proof, now_s=cluster.now, accept_loss=accept)
        shown = dry_run(cluster.seen(), wish)
        steps, last = carried_out(cluster, wish)
        foreseen = [(step.action, step.server, step.to) for step in shown.plan.steps]
        assert foreseen == steps, f"{kind}, seed {seed}"
        assert bool(shown.plan.refusal) == bool(last.refusal), f"{kind}, seed {seed}: {shown.plan.refusal}"
        ends["refused" if last.refusal else "done"] += 1
        if last.refusal:
            continue
        seen = cluster.seen()
        for name, one in shown.members.items():
            if one.state is None:
                assert seen[name].state is None, f"{kind}, seed {seed}: {name}"
                continue
            now, then = required(seen[name]), one.state
            same = now.read_only == then.read_only
            follows = [[each.source_host for each in state.channels] for state in (now, then)]
            assert same and follows[0] == follows[1], f"{kind}, seed {seed}: {name}"
        assert f"{shown.plan.elected} takes writes" in shown.end_state()
    assert ends["done"] > SEEDS / 10 and ends["refused"], ends


def test_a_rescue_is_shown_whole():
    """The order in which a real run does it: election, rescue, promotion, clients, the others."""
    cluster = Cluster(2, "mariadb", 1, 1e9, fence=True)
    for _ in range(3):
        cluster.write()
        for one in cluster.servers[1:]:
            cluster.receive(one.index)
            cluster.apply(one.index)
    cluster.kill_source()
    seen = cluster.seen()
    seen["s0"] = replace(seen["s0"], volume=True)
    shown = dry_run(seen, FailoverWish("s0", rescue=True, now_s=1.0))
    actions = [f"{step.action} {step.server}" for step in shown.plan.steps]
    assert actions == [
        "fence s0", "stop-receive s1", "stop-receive s2", "rescue s1", "leave-source s1", "semi-sync-replica-off s1",
        "semi-sync-source-on s1", "writable s1", "clients s1", "repoint s2",
    ]  # fmt: skip
    assert shown.end_state() == ["s1 takes writes", "s0 is down", "s2 follows s1"]


def test_what_a_run_refuses_is_refused():
    cluster = Cluster(2, "mariadb", 1, 1e9, fence=True)
    alive = cluster.look()
    shown = dry_run(alive, FailoverWish("s0", rescue=True, now_s=1.0))
    assert "alive and takes writes: there is nothing to fail over" in shown.plan.refusal and not shown.plan.steps
