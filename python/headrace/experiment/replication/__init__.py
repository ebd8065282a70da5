"""Replicas measured on the lab, compared with what the model says of them.

>>> from headrace.experiment import DataSet, ExperimentLab                         # doctest: +SKIP
>>> from headrace.experiment.replication import ReplicaCell, ReplicationLab        # doctest: +SKIP
>>> with ExperimentLab() as lab, ReplicationLab(lab) as cells:                     # doctest: +SKIP
...     cells.drain(ReplicaCell("one thread", load, "gp3:20:3000", cache_mib=64)).tps
108.3
"""

from headrace.experiment.replication.cell import ReplicaCell, ReplicaLoad
from headrace.experiment.replication.dynamics import Course, measure_course, open_live_replica
from headrace.experiment.replication.run import Drained, ReplicationLab, WrittenSource
from headrace.experiment.replication.score import calibrate_workload, compute_errors, make_replica, score, score_course

__all__ = [
    "Course",
    "Drained",
    "ReplicaCell",
    "ReplicaLoad",
    "ReplicationLab",
    "WrittenSource",
    "calibrate_workload",
    "measure_course",
    "compute_errors",
    "open_live_replica",
    "make_replica",
    "score",
    "score_course",
]
