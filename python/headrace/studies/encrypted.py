"""Encrypted and not: what the whitepaper says of an encrypted io1 volume. The model has nothing to add, since encryption of a volume costs it nothing; it runs on the lab alone."""

from __future__ import annotations

from headrace.studies.base import Study
from headrace.studies.whitepaper_2017 import PAPER

STUDY = Study(
    "encrypted-vs-not",
    "An encrypted store and a plain one, sysbench, 2017",
    "Does encryption cost throughput? Published: an encrypted volume does not. Measured: InnoDB's own encryption of its tablespaces and redo, since the lab does not encrypt volumes.",
    (PAPER,),
)
