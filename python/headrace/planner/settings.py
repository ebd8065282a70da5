"""The settings of a plan, each with the option that says what it is (`headrace.base.options`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from headrace.base.options import UNSET, AsOf, Growth, Option, Region, StartBalance, list_given
from headrace.errors import InputError
from headrace.simulation.settings import SYNC_RELAY_LOG, WITH_SERVICES, BusyPercent, Readers, ReplicaMode

if TYPE_CHECKING:
    from headrace.planner.candidates import Host
    from headrace.planner.goals import Goal

# Conditions under which some settings have a meaning.
FOR_DATABASES, WITH_REPLICAS = "Database", "With --replica-lag-s"
SYNC_OF_PLANNED = replace(SYNC_RELAY_LOG, scope=WITH_REPLICAS)
MAX_VOLUMES = 128  # the most EBS attachments of any instance type (crates/catalog)
# A file system, binlogs, temporary tables and an ALTER that copies a table need room next to the
# data.
FREE_PERCENT = 25.0
DRAWS = 32  # databases drawn from the calibration
# Binary logs that are kept on the server: a day, so that a replica that was away or a restore of
# last night's backup finds them (a judgement; MySQL's own default of 30 days fills most volumes).
BINLOG_DAYS = 1.0


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """The settings of `headrace.plan`, before they are checked. `progress` is called with the share
    that is done."""

    goals: Annotated[
        Sequence[str | Goal] | str,
        Option("Goal, such as p99_ms<=20. A database needs at least one on performance.", value="GOAL", name="goal"),
    ] = ()
    default_goals: Annotated[bool, Option("Add the default goals for metrics without a goal.")] = True
    size_gib: Annotated[float | None, Option("Data to hold.", unit="GiB", usual="the workload's, times the growth")] = (
        None
    )
    free_percent: Annotated[
        float,
        Option(
            "Free space: share of the volumes for binlogs, temporary tables, ALTER.", unit="percent", least=0, most=90
        ),
    ] = FREE_PERCENT
    on: Annotated[
        Sequence[str] | str,
        Option(
            "Services to plan on: ec2, rds, aurora, or one deployment such as rds:multi-az.",
            value="SERVICES",
            usual="ec2",
            commas=True,
        ),
    ] = ("ec2",)
    readers: Readers = 1
    busy_percent: BusyPercent = 100.0
    gib_per_day: Annotated[
        float,
        Option(
            "Growth of the data a day; shows what RDS's autoscaling does.",
            unit="GiB a day",
            value="GIB_PER_DAY",
            least=0,
            most=1e6,
            scope=WITH_SERVICES,
        ),
    ] = 0.0
    region: Region = "us-east-1"
    as_of: AsOf = None
    growth: Growth = 1.0
    demand_growth: Annotated[
        float | None, Option("Growth of the demand alone: factor.", value="FACTOR", least=0.001, most=1_000)
    ] = None
    data_growth: Annotated[
        float | None, Option("Factor on the data alone.", value="FACTOR", least=0.001, most=1_000)
    ] = None
    months: Annotated[
        float, Option("Months ahead: the workload's growth a year is added for this time.", least=0, most=120)
    ] = 0.0
    instances: Annotated[
        Sequence[str] | str | None,
        Option(
            "EC2 types to combine with, by name or pattern: 'm6i.*,r6i.xlarge'; none: volumes alone.",
            value="LIST",
            usual="volumes alone; for a database current families m, r, c, i and today's",
            completed="instance",
            commas=True,
        ),
    ] = None
    max_volumes: Annotated[int, Option("Most volumes of an array; 1: no arrays.", least=1, most=MAX_VOLUMES)] = 8
    allow_instance_store: Annotated[
        bool, Option("Consider local disks too: all data are gone when the instance stops.")
    ] = False
    exclude: Annotated[
        Sequence[str] | str,
        Option("Volume types or layouts not to use: st1,sc1,raid10.", value="LIST", completed="type", commas=True),
    ] = ()
    compare: Annotated[
        str | None,
        Option(
            "Today's storage, compared with the answer.",
            value="[INSTANCE/]STORAGE[,log=STORAGE]",
            completed="storage",
        ),
    ] = None
    cycle: Annotated[
        Literal["settled", "first"],
        Option(
            "Credits of the repeated recording (settled), or of its first day.",
            usual="settled; first with a start balance",
        ),
    ] = UNSET
    start_balance: StartBalance = None
    discount_percent: Annotated[float, Option("Discount on all list prices.", unit="percent")] = 0.0
    price_file: Annotated[str | Path | None, Option("Prices of your own: docs/reference/prices.md.", value="FILE")] = (
        None
    )
    commitment: Annotated[
        str,
        Option("Instances: on-demand, reserved-1y, reserved-3y, savings-1y or savings-3y.", value="KIND"),
    ] = "on-demand"
    nodes: Annotated[int, Option("Servers that are paid for: 2 for a pair.", least=1, most=100)] = 1
    snapshot_days: Annotated[int, Option("Daily snapshots that are retained, on the bill.", least=0, most=3_650)] = 0
    daily_change_percent: Annotated[
        float, Option("Share of the data that changes a day (snapshots).", unit="percent", least=0, most=100)
    ] = 5.0
    top: Annotated[int, Option("Choices to show.", least=1, most=1_000)] = 10
    threads: Annotated[
        int | None, Option("Clients.", least=1, most=65_536, usual="the workload's", scope=FOR_DATABASES)
    ] = None
    arrivals_tps: Annotated[
        float | None,
        Option(
            "Transactions that arrive a second, instead of clients that wait.",
            unit="tps",
            least=0.01,
            most=1e6,
            scope=FOR_DATABASES,
        ),
    ] = None
    start: Annotated[Literal["cold", "warm"], Option("Cache at the start.", otherwise="warm", scope=FOR_DATABASES)] = (
        UNSET
    )
    hours: Annotated[
        float,
        Option(
            "Simulated time, of which the worst hour counts.",
            unit="h",
            least=0.1,
            most=24.0 * 31,
            otherwise=24.0,
            scope=FOR_DATABASES,
        ),
    ] = UNSET
    binlog_days: Annotated[
        float,
        Option(
            "Days of binary logs that stay on the server.",
            unit="days",
            least=0,
            most=3_650,
            otherwise=BINLOG_DAYS,
            scope=FOR_DATABASES,
        ),
    ] = UNSET
    cache_share: Annotated[
        float | None,
        Option(
            "Share of an instance's memory for the cache.",
            value="SHARE",
            usual="what `headrace advise` sets",
            scope=FOR_DATABASES,
        ),
    ] = None
    confidence: Annotated[
        float,
        Option(
            "Probability from which a goal counts as met.",
            value="SHARE",
            least=0.5,
            most=0.99,
            otherwise=0.8,
            scope=FOR_DATABASES,
        ),
    ] = UNSET
    draws: Annotated[
        int, Option("Random draws from the calibration.", least=1, most=1_000, otherwise=DRAWS, scope=FOR_DATABASES)
    ] = UNSET
    seed: Annotated[
        int, Option("Seed of the random draws.", least=0, most=2**63 - 1, otherwise=1, scope=FOR_DATABASES)
    ] = UNSET
    progress: Callable[[float], None] | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicaGoal:
    """The lag that a planned replica keeps, and what it is; what is left out is as its version or
    its source has it."""

    replica_lag_s: Annotated[
        float | None,
        Option(
            "Plan a replica of it with at most this lag. --compare: its source.",
            unit="s",
            least=0.001,
            most=86_400,
            scope=FOR_DATABASES,
        ),
    ] = None
    replica_version: Annotated[
        str | None,
        Option(
            "Mysql-8.0.36, or a series such as mysql-9.7: its newest.",
            value="FLAVOR-VERSION",
            usual="the source's",
            scope=WITH_REPLICAS,
        ),
    ] = None
    replica_mode: Annotated[
        ReplicaMode | None, Option("Rule for transactions that may be applied in parallel.", scope=WITH_REPLICAS)
    ] = None
    replica_binlog: Annotated[bool | None, Option("The replica writes a binary log.", scope=WITH_REPLICAS)] = None
    sync_relay_log: Annotated[int | None, SYNC_OF_PLANNED] = None


@dataclass(frozen=True, kw_only=True)
class ReplicaPlanSettings(PlanSettings, ReplicaGoal):
    """The settings of `headrace.plan_replica`. `compare`: where the source runs. `hosts`: the
    instances to look at, with caches and prices of their own."""

    hosts: Sequence[Host] | None = None


def refuse_without_services(settings: PlanSettings) -> None:
    """Raises InputError for a setting of `on` in a plan on EC2 alone."""
    on = [settings.on] if isinstance(settings.on, str) else settings.on
    if [name.strip().lower() for name in on] != ["ec2"]:
        return
    if (setting := next(list_given(settings, WITH_SERVICES), None)) is not None:
        hint = "Add --on ec2,rds,aurora, or leave it out."
        raise InputError(setting.flag, "is an option of --on", "headrace plan --help", hint)
