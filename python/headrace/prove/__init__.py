"""Proving a plan: predicted, built on the lab, measured, compared.

    configuration  a storage with cache and clients
    request        what is to be proved: from a plan, or from a workload and storages
    standin        the load that stands for the database
    scale, timing  how large, how long
    measuring      one configuration on the lab
    counting       its I/Os as the lab's volumes counted them
    predicting     predictions, stored before anything is run
    running        all of it, in order
    result         what it came to
    keeping        proofs on disk
    needs          what a machine lacks
    demo           two minutes of it

>>> from headrace.prove import from_workload, prove                                                                     # doctest: +SKIP
>>> prove(from_workload(workload, ["gp3:500:6000", "io1:500:3000"], "shop"), minutes=10).verdict                        # doctest: +SKIP
'The prediction holds: 2 of 2 configurations within 10 % of its tps and 20 % of its p95; median error of tps 2.1 %.'
"""

from headrace.prove.configuration import Configuration
from headrace.prove.demo import demo_request
from headrace.prove.keeping import default_folder, read
from headrace.prove.measuring import Data, load, measure
from headrace.prove.needs import missing
from headrace.prove.request import Request, from_plan, from_workload
from headrace.prove.result import Measured, Predicted, Proof, Step
from headrace.prove.running import Broken, Interrupted, prove
from headrace.prove.scale import Scale, read_scale

__all__ = [
    "Broken",
    "Configuration",
    "Data",
    "Interrupted",
    "Measured",
    "Predicted",
    "Proof",
    "Request",
    "Scale",
    "Step",
    "default_folder",
    "demo_request",
    "from_plan",
    "from_workload",
    "load",
    "measure",
    "missing",
    "prove",
    "read",
    "read_scale",
]
