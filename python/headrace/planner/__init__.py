"""The cheapest storage that meets the goals, what a DBA would sign, and why the others lose.

    >>> import headrace
    >>> from headrace.workload.daily import new_constant
    >>> steady = new_constant(1500, 1000, size_gib=500, write_kib=16, seconds=86_400)
    >>> headrace.plan(steady, goals=["p99_ms<=20", "throttled_min<=0"]).recommended.storage
    'gp3:670:3200'

The model is the interval form of `headrace.simulate` and `headrace.predict`; what it leaves out
(docs/semantics.md) a plan leaves out too.
"""

import lazy_loader

# Names and modules stand in __init__.pyi; nothing is imported before it is used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
