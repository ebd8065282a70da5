"""The settings of simulations and predictions, each with its option (`headrace.base.options`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from headrace.base.options import SEED, UNSET, AsOf, Growth, InstanceType, Option, Seed, StartBalance

Form = Literal["auto", "events", "interval"]
Repetition = Literal["first", "settled"]
ReplicaMode = Literal[
    "single", "database", "logical-clock", "writeset", "minimal", "conservative", "optimistic", "aggressive"
]
MOST_SECONDS = 366 * 86_400  # a leap year
MAX_SECONDS = 7 * 86_400  # of a database, a row a second: a week; a guess at what anybody reads
DATABASE_SECONDS = 3_600  # an hour: a cold cache has filled on most storages
EVENTS_SECONDS = 60  # every I/O of every client: about as long as such a run takes
MOST_VCPUS = 2_048  # as in a run's description
MOST_TPS = 1e9  # beyond every server: a guess
# Databases drawn from the calibration for the 80 % interval: a guess between time and steadiness.
DRAWS = 24
# Largest sync_binlog and sync_relay_log of both flavors (their manuals, read 2026-11).
MOST_SYNC = 2**32 - 1
SYNC_RELAY_LOG = Option("Events per flush of the relay log; 1 makes semi-sync durable.", least=0, most=MOST_SYNC)
MOST_READERS = 15  # of an Aurora cluster (data/managed/rules.csv: read_replicas)
WITH_SERVICES = "With --on"  # the only case in which settings of services have a meaning
Readers = Annotated[
    int,
    Option("Readers of an Aurora cluster, its writer not counted.", least=0, most=MOST_READERS, scope=WITH_SERVICES),
]
BusyPercent = Annotated[
    float,
    Option(
        "Share of the month that the load runs, for what is billed by use.",
        unit="percent",
        least=0,
        most=100,
        scope=WITH_SERVICES,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SimulationSettings:
    """The settings of `headrace.simulate`, before they are checked. `options`: parts of the model
    (`merge`, `saved_second`, `holds`, `latency`, `rate_per_mille`, `snapshot`, `degradations`,
    `modify`, `failed_members`). `progress` is called with the share that is done."""

    instance: InstanceType = None
    as_of: AsOf = None
    seconds: Annotated[
        float | None,
        Option(
            "Length of a closed load, or where to cut a demand over time.",
            unit="s",
            least=0.001,
            most=MOST_SECONDS,
            usual="60 of a closed load, the whole of a demand over time",
        ),
    ] = None
    interval_s: Annotated[
        float | None,
        Option(
            "Length of a row.",
            unit="s",
            least=0,
            most=MOST_SECONDS,
            usual="a second up to an hour, then a minute",
            name="interval",
        ),
    ] = None
    seed: Seed = 1
    start_balance: StartBalance = None
    form: Annotated[Form, Option("Simulate every request (events), or whole intervals.")] = "auto"
    growth: Growth = 1.0
    options: dict[str, Any] | None = None
    progress: Callable[[float], None] | None = None
    cycle: Annotated[
        Repetition,
        Option("Run the load once (first), or repeat it until balances end where they began (settled)."),
    ] = "first"


@dataclass(frozen=True, kw_only=True)
class PredictionSettings:
    """The settings of `headrace.predict`, before they are checked. `start` may also be the
    transactions since a cold start; `arrivals_tps` one figure, or one per second; a `seed` of None
    gives means without scatter. `draws`: databases drawn from the calibration for the interval; 0
    leaves it out. `release`: flavor and release of the server, such as mysql-8.4, None: that of the
    runs; another one widens the interval. `progress` is called with the share that is done."""

    log_storage: Annotated[
        str | None, Option("Separate volume for redo log and binary log.", value="SPEC", completed="storage")
    ] = None
    instance: InstanceType = None
    vcpus: Annotated[
        int | None,
        Option(
            "Virtual CPUs the server may use.",
            least=1,
            most=MOST_VCPUS,
            usual="the instance's; without one, those of the runs",
        ),
    ] = None
    as_of: AsOf = None
    cache_gib: Annotated[
        float | None,
        Option("Buffer pool or block cache.", unit="GiB", value="GIB", least=0.001, most=65_536, usual="as measured"),
    ] = None
    threads: Annotated[int | None, Option("Clients.", least=1, most=65_536, usual="as measured")] = None
    arrivals_tps: Annotated[
        float | Iterable[float] | None,
        Option("Transactions that arrive a second, instead of clients that wait.", unit="tps", least=0, most=MOST_TPS),
    ] = None
    start: Annotated[
        Literal["cold", "warm"] | str | float,
        Option("Cache at the start: empty, or as full as it gets.", usual="cold; warm with --on"),
    ] = UNSET
    seconds: Annotated[
        int,
        Option(
            "Length of the run.",
            unit="s",
            least=1,
            most=MAX_SECONDS,
            usual="3,600; 60 with --form events; 600 with --replica",
        ),
    ] = UNSET
    seed: Annotated[int | None, SEED] = 1
    start_balance_percent: StartBalance = None
    growth: Growth = 1.0
    form: Annotated[
        Literal["interval", "events"], Option("Simulate whole seconds, or every I/O of every client (events).")
    ] = "interval"
    draws: int = DRAWS
    release: str | None = None
    progress: Callable[[float], None] | None = None
