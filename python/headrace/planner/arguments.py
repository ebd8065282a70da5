"""The keyword arguments of `headrace.plan`, for completion and type checks: the fields of
`PlanSettings`, each of which may be left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict

from headrace.base.units import Day
from headrace.planner.goals import Goal


class PlanArguments(TypedDict, total=False):
    """Settings of a plan; `headrace.plan` says what each means."""

    default_goals: bool
    size_gib: float | None
    free_percent: float
    region: str
    as_of: Day
    growth: float
    demand_growth: float | None
    data_growth: float | None
    months: float
    on: Sequence[str] | str
    readers: int
    busy_percent: float
    gib_per_day: float
    instances: Sequence[str] | str | None
    max_volumes: int
    allow_instance_store: bool
    exclude: Sequence[str] | str
    compare: str | None
    start_balance: float | None
    cycle: str | None
    discount_percent: float
    price_file: str | Path | None
    commitment: str
    nodes: int
    snapshot_days: int
    daily_change_percent: float
    top: int
    threads: int | None
    arrivals_tps: float | None
    start: str | None
    hours: float | None
    binlog_days: float | None
    cache_share: float | None
    confidence: float | None
    draws: int | None
    seed: int | None


class PlanAgainstArguments(PlanArguments, total=False):
    """The same of `headrace.plan_against`, which hands goals and progress on."""

    goals: Sequence[str | Goal] | str
    progress: Callable[[float], None] | None
