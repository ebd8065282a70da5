"""Demand of a database on its storage: the values, their files, and the tools they are imported
from.

>>> from headrace.workload import new_constant
>>> round(new_constant(700, 300).summarize()["mean_iops"])
1000
"""

from headrace.workload.daily import (
    SHAPES,
    Question,
    from_answers,
    from_constant_answers,
    list_questions,
    new_constant,
    new_daily,
)
from headrace.workload.demo import demo_day, recorded_hour
from headrace.workload.files import load, load_database, load_demand, parse, save
from headrace.workload.model import ClosedWorkload, OpenWorkload, Workload
from headrace.workload.observed import CensoredWindow
from headrace.workload.points import make_points
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
    "load_database",
    "load_demand",
    "make_points",
    "new_constant",
    "new_daily",
    "parse",
    "list_questions",
    "recorded_hour",
    "save",
]
