"""Cost of applying a transaction on a replica: the `[replica]` table of a workload file.

    parameters   names, bounds and calibrated values, as a file keeps them
    applying     with defaults from the source's run: what the core takes

A calibration of a replica writes what it identified with `measured_replica(workload, values,
spread, origin)`. The names are those of `core.replica_applier(database)["spreads"]`:

    cpu_ms, commit_cpu_share, events_per_tx, flush_factor, relay_flush_factor, forced_writes,
    group_share, spin_ms, service_cv, commit_order_width, writeset_width, schemas, conflicts

and `written`, one share for each page class. A parameter that is left out is derived from the
source.
"""

from headrace.workload.replica.applying import applier_of, measured_replica, replica_spread
from headrace.workload.replica.parameters import ReplicaParameters, replica_names

__all__ = ["ReplicaParameters", "applier_of", "measured_replica", "replica_names", "replica_spread"]
