"""Failovers of random topologies, with random faults between any two steps, on a naive model of
relay logs: where the plan says that nothing acknowledged is missing, nothing is; and once a new
source takes writes, the old one acknowledges none.

Equal seeds give equal runs; the failing seed is in the assertion. FAILOVER_SEEDS=100000 for the
soak.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from relay_logs import Cluster, going

from headrace.servers.failover.planning.dry_run import elects, make_election
from headrace.servers.failover.planning.members import FailoverPlan
from headrace.servers.failover.planning.planner import plan
from headrace.servers.failover.planning.progress import Fenced, Proved, StepBegan, StepDone

SEEDS = int(os.environ.get("FAILOVER_SEEDS", "400"))
# More stages than a plan has, so that one that never ends shows.
MOST_ROUNDS = 40


def build(chance: random.Random) -> Cluster:
    replicas = chance.choice([1, 2, 2, 3])
    flavor = chance.choice(["mariadb", "mysql"])
    count = 1 if flavor == "mariadb" else chance.randint(1, replicas)
    timeout_s = chance.choice([0.0, 5.0, 1e9, 1e9, 1e9])  # 0: no semi-sync
    cluster = Cluster(replicas, flavor, count, timeout_s, fence=chance.random() < 0.6)
    for replica in cluster.servers[1:]:
        replica.sync_relay_log = chance.choice([1, 10_000])
        replica.delayed = chance.random() < 0.1
        replica.logs_updates = chance.random() > 0.05
        replica.acks = timeout_s > 0 and chance.random() > 0.15
        replica.by_position = flavor == "mariadb" and chance.random() < 0.1
    return cluster


def happens(cluster: Cluster, chance: random.Random, faults: bool) -> None:
    """One thing that may happen at any moment."""
    index = chance.randrange(1, len(cluster.servers))
    server = cluster.servers[index]
    what = chance.random()
    if what < 0.35:
        cluster.write()
    elif what < 0.60:
        cluster.receive(index)
    elif what < 0.80:
        cluster.apply(index)
    elif what < 0.86:
        cluster.pass_time(chance.choice([0.1, 1.0, 6.0]))
    elif not faults:
        return
    elif what < 0.88:
        cluster.restart(index, power=chance.random() < 0.5)
    elif what < 0.91:
        cluster.stop_threads(server, receive=chance.random() < 0.5, apply=chance.random() < 0.7)
    elif what < 0.95 and server.follows is not None:
        cluster.start_threads(server, receive=chance.random() < 0.8, apply=chance.random() < 0.8)
    elif what < 0.97:
        pair = chance.choice([(0, index), (-1, index), (-1, 0)])
        cluster.cut ^= {pair}
    elif what < 0.975:
        server.apply_error = chance.choice(["", "1062: Duplicate entry"])
        if server.apply_error:
            server.applier = 0


def strike(cluster: Cluster, chance: random.Random) -> None:
    """Kills the source, or cuts it off, so that a failover is necessary."""
    if chance.random() < 0.5:
        cluster.kill_source()
    else:
        cluster.cut |= {(-1, 0)}
        cluster.cut |= {(0, server.index) for server in cluster.servers[1:] if chance.random() < 0.7}


def run(seed: int) -> tuple[Cluster, FailoverPlan, FailoverPlan | None, int | None]:
    """One history: the cluster, the last plan, the plan by which one was promoted, and how many
    were acknowledged by the old source at that moment."""
    chance = random.Random(seed)
    cluster = build(chance)
    for _ in range(chance.randint(5, 60)):
        happens(cluster, chance, faults=chance.random() < 0.5)
        if chance.random() < 0.25:
            cluster.look()
    strike(cluster, chance)
    accept = chance.random() < 0.3
    opened, acknowledged, made_plan, progress = None, None, FailoverPlan(), going(accept_loss=accept)
    for _ in range(MOST_ROUNDS):
        for _ in range(chance.randint(0, 3)):
            happens(cluster, chance, faults=chance.random() < 0.3)
        seen = cluster.look()
        if cluster.proof is not None or progress.decision is None:
            progress = progress.add_event(Proved(cluster.proof))
        made_plan = plan(seen, progress, cluster.now)
        if not made_plan.steps:
            break
        for step in made_plan.stage:
            if chance.random() < 0.3:
                happens(cluster, chance, faults=chance.random() < 0.3)
            if elects(step, progress):
                progress = progress.add_event(make_election(made_plan, progress, seen))
            progress = progress.add_event(StepBegan(step))
            if chance.random() < 0.05 or not cluster.do(step):
                break  # the executor is killed, or cannot: it looks again
            if step.action == "fence":
                progress = progress.add_event(Fenced("s0", "", cluster.now))
            progress = progress.add_event(StepDone(step, 0.0))
            if step.action == "writable" and opened is None:
                opened, acknowledged = made_plan, len(cluster.acknowledged)
    return cluster, made_plan, opened, acknowledged


@pytest.mark.parametrize("block", range(10))
def test_nothing_acknowledged_is_missing_where_the_plan_says_so(block):
    ends = Counter()
    for seed in range(block, SEEDS, 10):
        cluster, last, opened, acknowledged = run(seed)
        if opened is None:
            assert last.refusal or last.steps, f"seed {seed}: neither promoted nor refused"
            ends["refused" if last.refusal else "unfinished"] += 1
            continue
        new = cluster.servers[int((opened.elected or "s0")[1:])]
        lost = [entry for entry, _ in cluster.acknowledged[:acknowledged] if entry not in new.binlog]
        assert not (opened.lossless and lost), f"seed {seed}: said to be kept, and lost {lost}"
        late = cluster.acknowledged[acknowledged:]
        assert not late, f"seed {seed}: the old source acknowledged {late} after the promotion"
        open_now = [
            server.index for server in cluster.servers if server.up and not server.read_only and server.index != 0
        ]
        assert open_now == [new.index], f"seed {seed}: {open_now} take writes"
        ends["kept" if opened.lossless else "lost" if lost else "uncertain"] += 1
    # A test that refuses everything, or never loses anything, would prove nothing.
    assert ends["kept"] > SEEDS / 100 and ends["refused"] > SEEDS / 100, ends
    assert ends["unfinished"] < SEEDS / 100, ends
    print(dict(ends))
