"""What a database asks of its storage: the values, their files, and the tools they are imported from.

    model      OpenWorkload, ClosedWorkload and the limits they keep
    describe   figures and words
    daily      from what a DBA knows
    files      load and save
    observed   what a recording says beside its rates; censored finds where they are a limit, not a demand
    demo       the recorded hour and the day made from it

>>> from headrace.workload import new_constant
>>> round(new_constant(700, 300).summary()["mean_iops"])
1000
"""

from headrace.workload.daily import (
    SHAPES,
    Question,
    from_answers,
    from_constant_answers,
    new_constant,
    new_daily,
    questions,
)
from headrace.workload.demo import demo_day, recorded_hour
from headrace.workload.files import load, save
from headrace.workload.model import ClosedWorkload, OpenWorkload, Workload, make_points
from headrace.workload.observed import CensoredWindow
from headrace.workload.transactions import TransactionWorkload

__all__ = [
    "SHAPES",
    "CensoredWindow",
    "ClosedWorkload",
    "OpenWorkload",
    "Question",
    "TransactionWorkload",
    "Workload",
    "demo_day",
    "from_answers",
    "from_constant_answers",
    "load",
    "make_points",
    "new_constant",
    "new_daily",
    "questions",
    "recorded_hour",
    "save",
]
