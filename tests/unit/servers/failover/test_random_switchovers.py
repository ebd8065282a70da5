"""Switchovers of random topologies while clients write, with a kill of the one who switches between any two steps, on
the naive model of relay logs: at every moment one server takes writes at most; while the old source does, every commit
that was acknowledged is known to as many replicas as it waited for, and to one at least until the new one does (those that
follow in between fetch it again, and the old source has it too); in the end the new source has all of them.

Equal seeds give equal runs. SWITCHOVER_SEEDS=100000 for the soak.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from relay_logs import Cluster, going

from headrace.servers.failover.planning.dry_run import elects, make_election
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import StepBegan, StepDone, StepFailed, WritesClosing

SEEDS = int(os.environ.get("SWITCHOVER_SEEDS", "400"))
MOST_ROUNDS = 60  # more stages than a plan has, so that one that never ends shows


def build(chance: random.Random) -> Cluster:
    replicas = chance.choice([1, 2, 2, 3])
    flavor = chance.choice(["mariadb", "mysql"])
    count = 1 if flavor == "mariadb" else chance.randint(1, replicas)
    cluster = Cluster(replicas, flavor, count, chance.choice([0.0, 1e9, 1e9]), fence=True)
    for server in cluster.servers[1:]:
        server.acks = cluster.timeout_s > 0 and chance.random() > 0.15
        server.delayed = chance.random() < 0.1
    return cluster


def goes_on(cluster: Cluster, chance: random.Random) -> None:
    for _ in range(chance.randint(0, 6)):
        index = chance.randrange(1, len(cluster.servers))
        what = chance.randrange(3)
        if what == 0:
            cluster.write()
        elif what == 1:
            cluster.receive(index)
        else:
            cluster.apply(index)


def holds(cluster: Cluster, seed: int) -> None:
    open_now = [server.index for server in cluster.servers if not server.read_only]
    assert len(open_now) <= 1, f"seed {seed}: {open_now} take writes"
    if cluster.timeout_s:
        for entry, _ in cluster.acknowledged:
            copies = sum(entry in server.knows() for server in cluster.servers[1:])
            assert copies >= (1 if cluster.source.read_only else cluster.count), (
                f"seed {seed}: {entry} was acknowledged, and {copies} replicas have it"
            )


def run(seed: int) -> tuple[Cluster, str]:
    """One history; and who took over, or why nobody did."""
    chance = random.Random(seed)
    cluster = build(chance)
    goes_on(cluster, chance)
    progress = going(kind="switchover")
    for _ in range(MOST_ROUNDS):
        goes_on(cluster, chance)
        seen = cluster.seen()
        planned = plan(seen, progress, cluster.now)
        if planned.refusal:
            return cluster, f"refused: {planned.refusal}"
        if not planned.steps:
            return cluster, planned.elected or ""
        for step in planned.stage:
            goes_on(cluster, chance)
            if elects(step, progress):
                progress = progress.add_event(make_election(planned, progress, seen))
            if step.action == "read-only":
                progress = progress.add_event(WritesClosing("s0", planned.elected or "", silenced=False))
            progress = progress.add_event(StepBegan(step))
            done = cluster.do(step) if step.action != "semi-sync-replica-on" else True
            holds(cluster, seed)
            progress = progress.add_event(StepDone(step, 0.0) if done else StepFailed(step, "", "it cannot"))
            if step.action != "repoint-early" and (not done or chance.random() < 0.05):
                break  # it is killed, or cannot: the same command goes on
    return cluster, "never ended"


@pytest.mark.parametrize("block", range(10))
def test_nothing_is_lost_and_one_takes_writes(block):
    ends = Counter()
    for seed in range(block, SEEDS, 10):
        cluster, end = run(seed)
        assert end != "never ended", f"seed {seed}"
        if end.startswith("refused"):
            ends["refused"] += 1
            continue
        new = cluster.servers[int(end[1:])]
        missing = [entry for entry, _ in cluster.acknowledged if entry not in new.binlog]
        assert not missing, f"seed {seed}: {missing} were acknowledged and are not on {end}"
        assert not new.read_only and new.follows is None and cluster.source.read_only, f"seed {seed}"
        # Everybody follows it, except those that cannot.
        assert {server.follows for server in cluster.servers if server is not new} <= {new.index}, f"seed {seed}"
        ends["switched"] += 1
    assert ends["switched"] > SEEDS / 20, ends
