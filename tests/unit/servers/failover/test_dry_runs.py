"""Dry runs show what a run does: on the naive model of relay logs, where nothing happens in between,
every step is foreseen, in its order, and so is the end.

Equal seeds give equal runs. DRY_RUN_SEEDS=20000 for the soak.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace

import pytest
from relay_logs import Cluster, going

from headrace.servers.failover.planning.dry_run import build_dry_run, elects, make_election
from headrace.servers.failover.planning.election import require_state
from headrace.servers.failover.planning.members import FailoverPlan
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import Progress, StepBegan, StepDone

SEEDS = int(os.environ.get("DRY_RUN_SEEDS", "300"))
MOST_STAGES = 30  # more than a plan has, so that one that never ends shows


def build(chance: random.Random, kind: str) -> Cluster:
    replicas, flavor = chance.choice([1, 2, 3]), chance.choice(["mariadb", "mysql"])
    count = 1 if flavor == "mariadb" else chance.randint(1, replicas)
    fence = kind == "switchover" or chance.random() < 0.7
    cluster = Cluster(replicas, flavor, count, chance.choice([0.0, 1e9, 1e9]), fence)
    for replica in cluster.servers[1:]:
        replica.acks = cluster.timeout_s > 0 and chance.random() > 0.15
        replica.delayed = chance.random() < 0.1
    for _ in range(chance.randint(3, 20)):
        cluster.write()
        for replica in cluster.servers[1:]:
            if chance.random() < 0.8:
                cluster.receive(replica.index)
            if chance.random() < 0.6:
                cluster.apply(replica.index)
    cluster.look()
    return cluster


def carried_out(cluster: Cluster, progress: Progress) -> tuple[list[tuple[str, str, str]], FailoverPlan]:
    """The steps that are done when nothing happens in between, and the last plan."""
    steps: list[tuple[str, str, str]] = []
    for _ in range(MOST_STAGES):
        seen = cluster.seen()
        progress = replace(progress, fenced_s=cluster.fenced_s, proof=cluster.proof)
        planned = plan(seen, progress, cluster.now)
        if planned.refusal or not planned.steps:
            return steps, planned
        for step in planned.stage:
            if elects(step, progress):
                progress = progress.add_event(make_election(planned, progress, seen))
            done = step.action == "semi-sync-replica-on" or cluster.do(step)
            assert done, step
            steps.append((step.action, step.server, step.to))
            progress = progress.add_event(StepBegan(step)).add_event(StepDone(step, 0.0))
    raise AssertionError("it never ended")


@pytest.mark.parametrize("kind", ["failover", "switchover"])
def test_every_step_is_foreseen(kind):
    ends = Counter()
    for seed in range(SEEDS):
        chance = random.Random(f"{kind} {seed}")
        cluster = build(chance, kind)
        accept = chance.random() < 0.5
        if kind == "failover":
            cluster.kill_source()
        progress = going(kind=kind, proof=cluster.proof, accept_loss=accept)
        foreseen_run = build_dry_run(cluster.seen(), progress, cluster.now)
        steps, last = carried_out(cluster, progress)
        foreseen = [(step.action, step.server, step.to) for step in foreseen_run.plan.steps]
        assert foreseen == steps, f"{kind}, seed {seed}"
        assert bool(foreseen_run.plan.refusal) == bool(last.refusal), (
            f"{kind}, seed {seed}: {foreseen_run.plan.refusal}"
        )
        ends["refused" if last.refusal else "done"] += 1
        if last.refusal:
            continue
        seen = cluster.seen()
        for name, member in foreseen_run.members.items():
            if member.state is None:
                assert seen[name].state is None, f"{kind}, seed {seed}: {name}"
                continue
            now, then = require_state(seen[name]), member.state
            same = now.read_only == then.read_only
            follows = [[each.source_host for each in state.channels] for state in (now, then)]
            assert same and follows[0] == follows[1], f"{kind}, seed {seed}: {name}"
        assert f"{foreseen_run.plan.elected} takes writes" in foreseen_run.describe_end_state()
    assert ends["done"] > SEEDS / 10 and ends["refused"], ends


def test_a_rescue_is_shown_whole():
    """The order in which a real run does it: election, rescue, promotion, clients, the others."""
    cluster = Cluster(2, "mariadb", 1, 1e9, fence=True)
    for _ in range(3):
        cluster.write()
        for replica in cluster.servers[1:]:
            cluster.receive(replica.index)
            cluster.apply(replica.index)
    cluster.kill_source()
    seen = cluster.seen()
    seen["s0"] = replace(seen["s0"], volume=True)
    foreseen_run = build_dry_run(seen, going(rescue=True), 1.0)
    actions = [f"{step.action} {step.server}" for step in foreseen_run.plan.steps]
    assert actions == [
        "fence s0", "stop-receive s1", "stop-receive s2", "rescue s1", "leave-source s1", "semi-sync-replica-off s1",
        "semi-sync-source-on s1", "writable s1", "clients s1", "repoint s2",
    ]  # fmt: skip
    assert foreseen_run.describe_end_state() == ["s1 takes writes", "s0 is down", "s2 follows s1"]


def test_what_a_run_refuses_is_refused():
    cluster = Cluster(2, "mariadb", 1, 1e9, fence=True)
    alive = cluster.look()
    foreseen_run = build_dry_run(alive, going(rescue=True), 1.0)
    assert (
        "alive and takes writes: there is nothing to fail over" in foreseen_run.plan.refusal
        and not foreseen_run.plan.steps
    )
