"""The answer of a plan as plain values. Nothing here computes; `to_dict` gives what JSON can
hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from headrace.base.checks import Shown
from headrace.base.encoding import Document
from headrace.planner.goals import Goal
from headrace.simulation.services import BreakEven, Fact


@dataclass(frozen=True)
class Replayed(Document):
    """A choice of a plan for demand in the per-I/O form of the simulation: the worst minutes of the
    recording, request by request, under the demand grown by `headroom_percent`.

    `metrics`: latencies that are goals, ms, the worst of some seeds. `requests`: simulated of each
    seed. `misses`: goals that are not met there, in words; a candidate with one is not recommended.
    `cap`: the limit that requests waited for longest, or None. `unlucky`: of a candidate near a
    cap, the same metrics in the unluckiest of the 64 runs that the interval form follows, ms; where
    they miss a goal, nothing is simulated request by request and `metrics` is {}.
    """

    metrics: dict
    requests: int
    headroom_percent: float
    misses: tuple[str, ...]
    cap: str | None = None
    unlucky: dict = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Choice(Shown, Document):
    """An instance or none, the volumes of the data and where the log lies, with all that speaks for
    and against it.

    `storage`, `log_storage`: notation; `log_storage` None: the log lies with the data. `service`:
    what runs the server. `instance`: None: volumes alone. `family`: type and layout of the data
    volumes. `members`: their number. `usable_gib`: GiB the layout leaves for data; `log_gib`: those
    of a log volume of its own. `items`: the monthly bill, each with `part` ("instance", "data",
    "log", "snapshots"), `item`, `quantity`, `unit`, `unit_price_usd`, `usd`, `source`, `as_of`.
    `metrics`: every metric a goal can name, in the unit of its name; None where not known.
    `meets_goals`, `misses`: goals that are not met, in words. `binds`: the limit that is the
    bottleneck, or comes nearest to being it: `cap`, `words`, `short` (for a table), and of a plan
    for demand `throttled_s`, `utilisation` (peak demand over that limit, 1 is full), `at_s`.
    `asks`: of a demand that no server would send, since far more requests would wait than clients
    can be: `ratio` (asked over allowed), `asked`, `allowed`, `unit`, `never` (it never catches up)
    and `words`; None where the queue is one that clients can make.
    `headroom_percent`: growth of demand, data aside, before a goal fails; 0 while anything is
    throttled; None when a goal fails already. `runs_dry`: when credits or the instance's burst
    bucket are gone (`at_s`, `words`), or None. `durability_afr_percent`: chance of losing the data
    in a year, percent, the upper published figure carried through the layout; `durability`,
    `consistency`: the same in words. `persistent`: False when the data is gone with the instance.
    `first_day`: the first day with full credits, where the settled day differs from it.
    `migration`: what it takes to get there from today's storage, in words; None where today is not
    known. `replayed`: of the recommendation of a plan for demand, and of its cheapest. `changes`:
    settings that differ from today's and that the figures count on, in words.

    `vcpus`, `memory_gib`: of the instance. For a plan for a database also: `engine`; `cache_gib`
    (buffer pool or block cache); `tps_low`, `tps_high`: 80 % interval of the sustained tps;
    `probability`: that every goal on performance holds, 0..1; `goal_probabilities`: of each goal
    alone; `per_transaction`: `reads`, `ios` (256 KiB units), `mib`; `regret_expected_usd`,
    `regret_worst_usd`: see database.Regret. `far_from_runs`: what lies beyond twice the cache or
    processors of the runs, in words.
    """

    storage: str
    log_storage: str | None
    service: str
    instance: str | None
    family: str
    volume_type: str
    layout: str
    members: int
    usable_gib: float
    log_gib: float
    items: tuple[dict, ...]
    cost_usd_month: float
    metrics: dict
    meets_goals: bool
    misses: tuple[str, ...]
    binds: dict
    headroom_percent: float | None
    runs_dry: dict | None
    durability_afr_percent: float | None
    durability: str
    consistency: str
    persistent: bool
    caveats: tuple[str, ...]
    asks: dict | None = None
    first_day: dict | None = None
    migration: str | None = None
    changes: tuple[str, ...] = ()
    replayed: Replayed | None = None
    engine: str | None = None
    vcpus: int | None = None
    memory_gib: float | None = None
    cache_gib: float | None = None
    tps_low: float | None = None
    tps_high: float | None = None
    probability: float | None = None
    goal_probabilities: dict | None = None
    per_transaction: dict | None = None
    regret_expected_usd: float | None = None
    regret_worst_usd: float | None = None
    far_from_runs: tuple[str, ...] = ()

    def describe_briefly(self) -> str:
        """Says where it is, what it costs and whether it meets the goals; see `Shown`."""
        meets = "meets every goal" if self.meets_goals else "; ".join(self.misses)
        return f"{self.place}, {self.cost_usd_month:,.2f} USD a month: {meets}"

    def sum_usd(self, part: str) -> float:
        """Returns the USD a month of the "instance", the "data", the "log" or the "snapshots"."""
        return sum(item["usd"] for item in self.items if item["part"] == part)

    @property
    def place(self) -> str:
        """Instance, data and log in words."""
        if self.service != "ec2":
            on = "" if self.volume_type == "aurora" else f" with {self.storage}"
            return f"{self.service} on {self.instance}{on}" if self.instance else f"{self.service}{on}"
        words = self.storage if self.log_storage is None else f"{self.storage}, log on {self.log_storage}"
        return f"{self.instance} with {words}" if self.instance else words

    @property
    def volumes(self) -> int:
        """Volumes in all that somebody has to look after: those of a service are its own."""
        if self.service != "ec2":
            return 1
        return self.members + (self.log_storage is not None)

    @property
    def key(self) -> tuple:
        """Identity of the candidate: two choices with equal keys are the same candidate."""
        return (self.service, self.instance, self.storage, self.log_storage)


# Beginnings of the reasons of a type that was not on sale, or has another name, on the day.
NOT_SOLD, SAME_AS_IO2 = "does not exist", "has the same limits as io2"


@dataclass(frozen=True)
class FamilyVerdict(Document):
    """Verdict on one family of data volumes.

    `outcome`: "wins", "costs the same", "costs more", "fails", "no price", "impossible" or
    "excluded". `why`: in words, with numbers. `best`: its cheapest choice that meets the goals, or
    what comes closest; None where there is none. `cost_ratio`: over the cheapest choice's cost.
    `overload`: demand over what it can sustain, where that bound alone decided.
    """

    family: str
    outcome: str
    why: str
    best: Choice | None = None
    cost_ratio: float | None = None
    overload: float | None = None

    @property
    def exists(self) -> bool:
        """False for a type that was not on sale on the day, or is another one by then."""
        return not self.why.startswith((NOT_SOLD, SAME_AS_IO2))


@dataclass(frozen=True)
class Saving(Document):
    """Saving of a choice over today's storage, USD a month (negative: it costs more).

    `as_planned`: today's bill less the choice's. `equal_space`: the same with the smaller of the
    two enlarged to hold what the other holds (`gib`), so that free space given up is not called a
    saving. None where a price is not known or it cannot be enlarged.
    """

    as_planned: float
    equal_space: float | None
    gib: float


@dataclass(frozen=True)
class ServiceAnswer(Document):
    """Answer for one deployment. `best`: its cheapest choice that meets every goal, else what comes
    nearest; None: `why` says why there is none. `failover_s`, `lost_s`: low and high end of a
    failover, and what is lost with the instance and with its zone, each with `value`, `source`,
    `as_of`, `confirmed`, `note`. `cannot`: limitations of the deployment. `rules`: rules of its
    storage, in words with sources. `growth`: growth of the storage with the data, in words; None:
    without growth. `confidence`: the basis of the answer, in words. `readers`: readers of an Aurora
    cluster, in its bill."""

    deployment: str
    best: Choice | None
    why: str
    failover_s: tuple[Fact, Fact]
    lost_s: tuple[Fact, Fact]
    cannot: tuple[dict, ...]
    rules: tuple[str, ...]
    growth: str | None
    confidence: str
    readers: int = 0


@dataclass(frozen=True)
class ServicesPart(Document):
    """The part of a plan about services. `answers`: a row a deployment; `break_even`: from where
    Aurora's I/O-Optimized pays, on the class of its cheapest Standard; `million_ios`: what is
    billed there a month; `billed_tps`: at what rate; `comparison`: of the whitepaper, then and
    now."""

    answers: tuple[ServiceAnswer, ...]
    break_even: BreakEven | None
    million_ios: float | None
    billed_tps: float | None
    comparison: tuple[dict, ...]


# The schema of a plan in JSON, and its version.
PLAN_SCHEMA, VERSION = "headrace-plan/", 3


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of a plan besides the recommended one.

    `why_recommended`: why the recommendation is not the cheapest; "" where it is. `why_nothing`:
    why nothing even comes close, where nothing does; else "". `winners`: the
    cheapest choice of each family and instance that meets every goal, cheapest first; empty when
    nothing does. `closest`: filled then, nearest first. `in_place`: the cheapest that today's
    volumes can be modified into without moving data. `compared`, `saving`: today's, and what the
    recommendation saves against it. `least_regret`: of a database, the choice whose expected regret
    over the scenarios is least. `families`: why each won or lost. `frontier`: frame of cost and
    performance along the best of each family, for charts. `explain`: the arithmetic, line by line.
    """

    why_recommended: str
    winners: list[Choice]
    closest: list[Choice]
    in_place: Choice | None
    compared: Choice | None
    saving: Saving | None
    least_regret: Choice | None
    families: list[FamilyVerdict]
    frontier: pl.DataFrame
    explain: list[str]
    why_nothing: str = ""


@dataclass(frozen=True)
class PlannedLoad:
    """The load that a plan is for. `size_gib`: of its data; `needed_gib`: that volumes must hold
    for them, `free_percent` of it free. `data_growth`, `demand_growth`: factors that are in it,
    growth over `months` among them. `cycle`: credits are judged in the "settled" or the "first"
    day. Fields of a database, else None: `log_gib` that volumes must hold for redo and binary logs;
    `threads` (clients) or `arrivals_tps`; `start`: the cache is "cold" or "warm"; `hours` that are
    looked at."""

    size_gib: float
    free_percent: float
    needed_gib: float
    data_growth: float
    demand_growth: float
    months: float
    cycle: str
    log_gib: int | None
    threads: int | None
    arrivals_tps: float | None
    start: str | None
    hours: float | None


@dataclass(frozen=True)
class MarketSearch:
    """The search for a plan. `service`: one, or several with commas; `as_of`: the day of limits and
    prices; `prices`: what was paid for, in words. Candidates `considered` = `simulated` + `bounded`
    (cannot meet the goals, known without simulating) + `invalid` (not possible on that day).
    `stepped_up`: candidates that the interval form passed and the replay did not, so that the
    search went on above them. `instances`: number of types; `skipped_instances`: those left out,
    with the reason."""

    service: str
    region: str
    as_of: str
    prices: str
    considered: int
    simulated: int
    bounded: int
    invalid: int
    stepped_up: list[str]
    instances: int
    skipped_instances: list[tuple[str, str]]


@dataclass(frozen=True)
class PlanDoubts:
    """The doubts about a plan. `warnings`: what must be known before the answer is believed: limits
    the recording met. `checks`: recorded latency and the model's, on today's storage. Fields of a
    database, else None: `confidence` (0..1) from which a goal counts as met; `draws` from the
    calibration; `undecided`: share (0..1) of these in which no candidate meets the goals."""

    warnings: list[str]
    caveats: list[str]
    checks: list[dict]
    confidence: float | None
    draws: int | None
    undecided: float | None


@dataclass(frozen=True)
class NextSteps:
    """The steps after a plan. `actions`: what to do next; `in_place_actions`: what to do for the
    choice in place instead; `alarms`: what to watch."""

    actions: list[dict]
    in_place_actions: list[dict]
    alarms: list[dict]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown, Document, schema=f"{PLAN_SCHEMA}{VERSION}"):
    """The answer of `plan`, in parts.

    `subject`: "demand" or "database". `workload`: figures of the demand, growth included, or of the
    database. `recommended`: what a DBA would sign (see docs/guide/planning.md), or None.
    `services`: what each deployment of `--on` comes to; None for EC2 alone.

    Two plans are equal when they are one object.
    """

    subject: str
    workload: dict
    goals: tuple[Goal, ...]
    recommended: Choice | None
    choices: Choices
    load: PlannedLoad
    search: MarketSearch
    doubts: PlanDoubts
    steps: NextSteps
    services: ServicesPart | None

    def describe_briefly(self) -> str:
        """Returns the name, and what is recommended; see `Shown`."""
        best = self.recommended
        cost = "nothing meets every goal" if best is None else f"{best.place}, {best.cost_usd_month:,.2f} USD a month"
        return f"{self.name}: {cost}"

    @property
    def winner(self) -> Choice | None:
        """The cheapest that meets every goal, or None."""
        return next(iter(self.choices.winners), None)

    @property
    def nearest(self) -> Choice | None:
        """The recommended choice, else the closest to the goals, if any."""
        return self.recommended or next(iter(self.choices.closest), None)

    @property
    def name(self) -> str:
        """The workload's name."""
        return str(self.workload.get("name", ""))

    @property
    def engine(self) -> str | None:
        """The engine of a database."""
        return self.workload.get("engine")


@dataclass(frozen=True, repr=False)
class EngineComparison(Shown, Document):
    """Comparison of two databases under the same goals. `plans`: in the order given. `winner`:
    index of the cheaper one; None if neither meets the goals. `words`: the answer in a sentence."""

    plans: tuple[Plan, Plan]
    winner: int | None
    words: str

    def describe_briefly(self) -> str:
        """Returns the answer; see `Shown`."""
        return self.words.partition(". ")[0]
