"""The cheapest replica that keeps up: `headrace plan --replica-lag-s`.

search   candidates of volume, cache, workers and relay log, judged by the lag they come to
"""

from headrace.planner.replicas.search import ReplicaChoice, ReplicaPlan, plan_replica

__all__ = ["ReplicaChoice", "ReplicaPlan", "plan_replica"]
