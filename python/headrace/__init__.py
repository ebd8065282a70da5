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

`simulate` returns a Simulation (rows as a polars frame, summary as a dict), `plan` a Plan of Choices and FamilyVerdicts. Everything that is
refused is a HeadraceError with `value`, `rule`, `source` and `hint`. Units stand in the names: `_ms`, `_mib_s`, `_percent`, `_s`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it as true; importing `typing` costs a third of the time before Ctrl-C can be caught
if TYPE_CHECKING:
    from headrace.calibrating import calibrate, sysbench_oltp, sysbench_tpcc
    from headrace.catalog import instances, prices, sources, volumes
    from headrace.errors import CouldNotRun, HeadraceError, InputError
    from headrace.planner import Choice, FamilyVerdict, Goal, Plan, plan, plan_against
    from headrace.prediction import Prediction, predict
    from headrace.prices import PriceList
    from headrace.scoring import Comparison, compare_run, leave_out
    from headrace.simulation import Simulation, simulate
    from headrace.studies import StudyResult, list_studies
    from headrace.studies import run as run_study
    from headrace.workload import (
        ClosedWorkload,
        OpenWorkload,
        TransactionWorkload,
        demo_day,
        import_file,
        load,
        new_constant,
        new_daily,
        recorded_hour,
        save,
    )

    __version__: str

# Where each public name lives. Nothing is imported before it is used: `import headrace.errors` must not load the planner.
_MODULES = {
    "calibrating": ("calibrate", "sysbench_oltp", "sysbench_tpcc"),
    "catalog": ("instances", "prices", "sources", "volumes"),
    "errors": ("CouldNotRun", "HeadraceError", "InputError"),
    "planner": ("Choice", "FamilyVerdict", "Goal", "Plan", "plan", "plan_against"),
    "prices": ("PriceList",),
    "prediction": ("Prediction", "predict"),
    "scoring": ("Comparison", "compare_run", "leave_out"),
    "simulation": ("Simulation", "simulate"),
    "studies": ("StudyResult", "list_studies", "run_study"),
    "workload": (
        "ClosedWorkload",
        "OpenWorkload",
        "TransactionWorkload",
        "demo_day",
        "import_file",
        "load",
        "new_constant",
        "new_daily",
        "recorded_hour",
        "save",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
_OTHER_NAME = {"run_study": "run"}

__all__ = [
    "Choice",
    "ClosedWorkload",
    "Comparison",
    "CouldNotRun",
    "FamilyVerdict",
    "Goal",
    "HeadraceError",
    "InputError",
    "OpenWorkload",
    "Plan",
    "Prediction",
    "PriceList",
    "Simulation",
    "StudyResult",
    "TransactionWorkload",
    "calibrate",
    "compare_run",
    "demo_day",
    "import_file",
    "instances",
    "leave_out",
    "list_studies",
    "load",
    "new_constant",
    "new_daily",
    "plan",
    "plan_against",
    "predict",
    "prices",
    "recorded_hour",
    "run_study",
    "save",
    "simulate",
    "sources",
    "sysbench_oltp",
    "sysbench_tpcc",
    "volumes",
]


if not TYPE_CHECKING:  # a type checker would take every name for an object, `headrace._core` included

    def __getattr__(name: str) -> object:
        """Imports the module a public name lives in at its first use (PEP 562)."""
        from importlib import import_module

        if name == "__version__":
            value = import_module("importlib.metadata").version("headrace")
        elif name in _HOME:
            value = getattr(import_module(f"headrace.{_HOME[name]}"), _OTHER_NAME.get(name, name))
        else:
            raise AttributeError(f"module 'headrace' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
