"""Experiments on the lab: cells that are predicted, run on real servers, and compared.

    cell       storage, server and load of one run; progress
    data       a temporary lab; data loaded once, a copy for each server
    run        cells measured, kept in the run store, resumed
    simulate   the same cells simulated beforehand
    machine    what this machine lacks, and what of it decides a measurement

A study (`headrace.studies`) is cells from a table, with verdicts. A proof is cells from a plan,
with one verdict:

    request    what is proved: configurations from a plan, or from a workload and storages
    standin    the load that stands for the database
    scale      how large, how long
    predict    predictions, stored before anything is run
    proof      the result, and where it is kept
    proving    all of it, in order

>>> from headrace.experiment import from_workload, prove                           # doctest: +SKIP
>>> request = from_workload(workload, ["gp3:500:6000", "io1:500:3000"], "shop")    # doctest: +SKIP
>>> prove(request, minutes=10).verdict                                             # doctest: +SKIP
'The prediction holds: 2 of 2 configurations within 10 % of its tps and 20 % of its p95; ...'
"""

from headrace.experiment.cell import Cell, DataSet, OnFiles, OnServer
from headrace.experiment.data import ExperimentLab
from headrace.experiment.machine import list_missing
from headrace.experiment.predict import make_measured_result, predict_result, write_lab_counts
from headrace.experiment.proof import MeasuredResult, PredictedResult, Proof, Step, get_default_folder, read
from headrace.experiment.proving import BrokenProof, InterruptedProof, make_cell, make_data_set, prove
from headrace.experiment.request import Configuration, Request, from_plan, from_workload
from headrace.experiment.run import MeasuredCell, measure
from headrace.experiment.scale import Scale, read_scale
from headrace.experiment.standin import ROW_BYTES, compute_changed

__all__ = [
    "ROW_BYTES",
    "BrokenProof",
    "Cell",
    "Configuration",
    "DataSet",
    "ExperimentLab",
    "InterruptedProof",
    "MeasuredCell",
    "MeasuredResult",
    "OnFiles",
    "OnServer",
    "PredictedResult",
    "Proof",
    "Request",
    "Scale",
    "Step",
    "make_cell",
    "compute_changed",
    "make_data_set",
    "get_default_folder",
    "from_plan",
    "from_workload",
    "write_lab_counts",
    "measure",
    "make_measured_result",
    "list_missing",
    "predict_result",
    "prove",
    "read",
    "read_scale",
]
