"""The part of a plan's report with sliders, whose answers the reader's browser computes with the
model of `crates/wasm`, which is in the page. It uses no network; without scripts, or without
WebAssembly, the page reads and prints as any other.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from headrace.base.options import describe
from headrace.errors import Refusals
from headrace.planner.settings import PlanSettings
from headrace.report.page_files import MODEL, read_live_file, shorten
from headrace.report.words import describe_goal
from headrace.workload import OpenWorkload

if TYPE_CHECKING:
    from headrace.planner import Choice, Plan
    from headrace.workload import TransactionWorkload

refuse = Refusals("docs/guide/planning.md, A report that still answers")
SCRIPTS = ("model.js", "figures.js", "scales.js", "charts.js", "live.js")
# Script and worker of this page alone, and nothing from anywhere.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
MOST_CHOICES = 40  # a table that a reader still looks through
# Ends of a slider: the plan's value times this, and divided by it.
REACH = 4.0
IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)


@dataclass(frozen=True)
class Slider:
    """A slider for an option of a plan. `value`: that of the plan, between `least` and `most`, in
    `unit`; `log`: whether it moves by factors."""

    name: str
    label: str
    help: str
    unit: str
    least: float
    most: float
    value: float
    log: bool = True


@dataclass(frozen=True)
class LiveChoice:
    """A choice of the report with its role and the parts of its bill, USD a month: `volumes_usd`,
    and `rest_usd` for what no slider changes."""

    role: str
    storage: str
    log: str | None
    instance: str | None
    cache_gib: float | None
    volumes_usd: float
    rest_usd: float
    metrics: dict[str, float]


@dataclass(frozen=True)
class WhatIf:
    """The question that a report asks again when a slider moves. `question`: as `crates/whatif`
    reads it, without what sliders set. `controls`: the sliders. `clock`: whether the demand has a
    clock."""

    subject: str
    question: dict[str, object]
    choices: Sequence[LiveChoice]
    goals: Sequence[dict[str, object]]
    controls: Sequence[Slider]
    data_growth: float
    clock: bool


def build_what_if(plan: Plan, workload: OpenWorkload | TransactionWorkload, settings: PlanSettings) -> WhatIf:
    """Returns the question that the report of a plan asks again. Raises InputError for a plan whose
    bill the page cannot compute."""
    if settings.price_file is not None:
        hint = "Leave --live out, or plan with the list prices."
        raise refuse.input(str(settings.price_file), "a page that recomputes has the list prices alone", hint)
    choices = _list_choices(plan)
    if not choices:
        hint = "Leave --live out: RDS and Aurora cannot be recomputed in a page, nor a plan without a choice."
        raise refuse.input("--live", "needs a choice on EC2", hint)
    shared: dict[str, object] = {"as_of": plan.search.as_of, "region": plan.search.region}
    grown = plan.load.data_growth
    if isinstance(workload, OpenWorkload):
        load = {name: value for name, value in workload.uncensor().to_core().items() if name != "kind"}
        started = settings.start_balance
        question = shared | {"ask": "demand", "load": load, "instance": None, "start_balance_percent": started}
        controls = [_make_slider("demand_growth", plan.load.demand_growth), _make_slider("data_growth", grown)]
        clock = workload.source.get("clock_start") is not None
    else:
        question = shared | {
            "ask": "database",
            "database": workload.database,
            "settings": None,
            "clients": plan.load.threads,
            "arrivals_tps": plan.load.arrivals_tps,
            "start": plan.load.start,
            "settled": True,
        }
        controls = [_make_slider("data_growth", grown), _make_cache_slider()]
        if plan.load.threads is not None:
            controls.insert(0, _make_slider("threads", plan.load.threads, "clients"))
        clock = False
    goals = [
        {"metric": goal.metric, "sign": goal.sign, "limit": goal.limit, "words": describe_goal(goal)}
        for goal in plan.goals
    ]
    return WhatIf(plan.subject, question, choices, goals, controls, grown, clock)


def _list_choices(plan: Plan) -> list[LiveChoice]:
    """Returns the choices on EC2 that the report names, each once, the recommended first."""
    named: list[tuple[str, Choice | None]] = [
        ("recommended", plan.recommended),
        ("today", plan.choices.compared),
        ("in place", plan.choices.in_place),
    ]
    named += [("alternative", choice) for choice in (*plan.choices.winners, *plan.choices.closest)]
    named += [("alternative", verdict.best) for verdict in plan.choices.families]
    choices: dict[object, LiveChoice] = {}
    for role, choice in named:
        if choice is not None and choice.service == "ec2" and choice.persistent:
            choices.setdefault(choice.key, _make_live_choice(role, choice))
    return list(choices.values())[:MOST_CHOICES]


def _make_live_choice(role: str, choice: Choice) -> LiveChoice:
    """Returns a choice with its role, and its bill in USD a month divided into volumes and the
    rest."""
    volumes_usd = sum(item["usd"] for item in choice.items if item["part"] in ("data", "log"))
    return LiveChoice(
        role=role,
        storage=choice.storage,
        log=choice.log_storage,
        instance=choice.instance,
        cache_gib=choice.cache_gib,
        volumes_usd=volumes_usd,
        rest_usd=choice.cost_usd_month - volumes_usd,
        metrics={name: value for name, value in choice.metrics.items() if _is_number(value)},
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _make_slider(name: str, value: float, unit: str = "times") -> Slider:
    """Returns the slider of an option of a plan, from a quarter to four times where it stands;
    `value` is in `unit`."""
    [option] = [row for row in describe(PlanSettings) if row["name"] == name]
    least = max(value / REACH, option["least"] or 0.0)
    most = max(min(value * REACH, option["most"] or math.inf), least * 1.01)
    label = name.replace("_", " ") if name != "threads" else "clients"
    return Slider(name, label, option["help"], unit, least, most, value)


def _make_cache_slider() -> Slider:
    """Returns the slider of the cache: a factor on the cache of every choice."""
    return Slider("cache", "cache", "Factor on the cache of every choice.", "times", 0.25, 2.0, 1.0)


def build_live_parts(live: WhatIf) -> tuple[str, str]:
    """Returns what the sliders need in the head of a page, style and policy, and in its body, the
    question, the model and the script. Raises CouldNotRun where this installation has no model."""
    from headrace.base.encoding import to_plain

    folder = resources.files("headrace.report").joinpath("live")
    packed = read_live_file(MODEL)
    if packed is None:
        hint = "Run `make model`, which needs the target wasm32-unknown-unknown of Rust, or install a released wheel."
        raise refuse.run("--live", "this installation does not carry the model for browsers", hint)
    # mtime 0: the same plan gives the same page.
    question = gzip.compress(json.dumps(to_plain(live), separators=(",", ":")).encode(), mtime=0)
    script = join_scripts(shorten(folder.joinpath(name).read_bytes()).decode() for name in SCRIPTS)
    style = folder.joinpath("live.css").read_text(encoding="utf-8")
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<style>{style}</style>'
    body = (
        '<section id="whatif" class="live"><noscript><p>With script, this page recomputes the plan.</p></noscript></section>\n'
        f'<script type="text/plain" id="whatif-question">{encode_letters(question)}</script>\n'
        f'<script type="text/plain" id="whatif-model">{encode_letters(packed)}</script>\n'
        f'<script type="module">{script}</script>'
    )
    return head, body


def encode_letters(packed: bytes) -> str:
    """Returns bytes as letters that a script element holds: five for four bytes, where base64 has
    five and a third. ":" stands for "<", which could end the element (`unpack` of model.js)."""
    return base64.b85encode(packed).decode().replace("<", ":")


def join_scripts(scripts: Iterable[str]) -> str:
    """Returns modules as one script, without their imports and exports."""
    return "\n".join(EXPORT.sub("", IMPORT.sub("", script)) for script in scripts)
