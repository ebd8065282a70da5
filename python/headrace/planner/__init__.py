"""The cheapest storage that meets the goals, what a DBA would sign, and why the others lose.

    >>> import headrace
    >>> from headrace.workload.daily import new_constant
    >>> steady = new_constant(1500, 1000, size_gib=500, write_kib=16, seconds=86_400)
    >>> headrace.plan(steady, goals=["p99_ms<=20", "throttled_min<=0"]).recommended.storage
    'gp3:670:3200'

One engine for demand in I/Os and for databases in transactions:

    question    what the plan is for, checked
    goals       what must hold, and the one way to be met
    candidates  what can be chosen: families, hosts, shapes, spaces
    demand      the judge of I/Os;  database  the judge of transactions, and how sure it is
    widths      how far a candidate lies from the runs
    search      the least of every space, proved, and the search of families
    choice      one candidate with all that speaks for it
    reasons     why not the others, what to recommend, the arithmetic
    actions     lines to paste, alarms
    result      the answer
    engine      candidates, judge, search, choice and reasons in their order
    settings    what can be asked, each setting with its option
    planning    `headrace.plan` and `headrace.plan_against`

The model is the interval form of `headrace.simulate` and `headrace.predict`; what it leaves out
(docs/semantics.md) a plan leaves out too.
"""

import lazy_loader

# Names and modules stand in __init__.pyi; nothing is imported before it is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
