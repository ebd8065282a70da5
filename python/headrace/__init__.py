"""Headrace: plan, simulate and prove storage for MySQL on Amazon EBS.

The command line in Python:

    >>> import headrace
    >>> day = headrace.demo_day()                       # or headrace.load("mysql.toml"), headrace.import_file("iostat.txt")
    >>> best = headrace.plan(day, goals=["p99_ms<=20"]).recommended
    >>> run = headrace.simulate(day, best.storage)
    >>> round(run.summary["throttled_s"])
    0

A database in transactions:

    >>> shop = headrace.sysbench_tpcc(warehouses=1000, cache_gib=25, threads=16)     # or headrace.calibrate(["run.toml"])
    >>> headrace.predict(shop, "gp2:1200", seconds=60, start="warm").rows.height
    60

`simulate` returns a Simulation (rows as a polars frame, summary as a dict), `plan` a Plan of
Choices and FamilyVerdicts. A notebook shows each result as a table and a chart; `write_report`
writes it as a page. Everything that is refused is a HeadraceError with `value`, `rule`, `source`
and `hint`. Units stand in the names: `_ms`, `_mib_s`, `_percent`, `_s`.
"""

import lazy_loader

# The public names and where they live stand in __init__.pyi. Nothing is imported before it is used
# (PEP 562).
_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import the module of a public name.

    Raises CouldNotRun, which names the extra to install, where the module needs an optional package
    that is missing; AttributeError for a name that does not exist.
    """
    from headrace.base.extras import import_optional

    with import_optional():
        return _import_name(name)
