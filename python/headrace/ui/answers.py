"""Answers the page's questions: values in, values out, no HTTP. Each answer comes from the same
function as the command line's, and names the line that gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from headrace import planner, studies
from headrace.base import caps, core
from headrace.base.encoding import to_plain
from headrace.base.options import SettingRow, describe
from headrace.planner.goals import SUBJECTS
from headrace.planner.settings import PlanSettings, refuse_without_services
from headrace.report import databases
from headrace.report import plan as plan_report
from headrace.report import study as study_report
from headrace.report.replication import replicas
from headrace.report.view import Block, Fold, View, without_charts
from headrace.report.words import UNIT, glue_units
from headrace.simulation.database import predict
from headrace.simulation.settings import PredictionSettings
from headrace.ui.asks import Ask, AskRun, AskStudy, AskUpload
from headrace.ui.examples import EXAMPLES
from headrace.ui.spelling import read_settings, refuse, spell_command, spell_settings
from headrace.ui.workloads import AnyWorkload, Workloads
from headrace.version import __version__
from headrace.workload import TransactionWorkload, list_questions

RUN_COLUMNS = ("t_s", "tps", "p95_ms", "iops", "balance_percent", "cached_share", "dirty_share", "cap")


def start(abilities: Mapping[str, object], _: object) -> dict[str, object]:
    """Returns the values from which the page is built: options of plans and predictions, examples,
    questions about a day, studies, metrics of goals, words of results that change with a slider,
    and the server's `abilities`."""
    prompts = [
        {"name": q.name, "prompt": q.prompt, "unit": q.unit, "default": q.default, "required": q.required}
        for q in list_questions()
    ]
    return {
        "version": __version__,
        "catalog": core.newest_date(),
        "options": {
            "plan": describe_page(PlanSettings),
            "predict": describe_page(PredictionSettings),
        },
        "examples": to_plain(EXAMPLES),
        "questions": prompts,
        "studies": [{"name": s.name, "title": s.title, "question": s.question} for s in studies.list_studies()],
        "metrics": to_plain(SUBJECTS),
        "caps": {name: caps.describe_cap(name) for limit in caps.WORDS for name in (limit, caps.LOG + limit)},
        "words": {
            "unit": UNIT.pattern,
            "run": {
                "title": databases.HEADLINE,
                "cards": to_plain((databases.RATE, databases.RESPONSE, databases.LIMIT)),
            },
            "replica": {
                "keeps_up": replicas.KEEPS_UP,
                "falls_behind": replicas.FALLS_BEHIND,
                "cards": to_plain((replicas.RATE, replicas.LAG)),
                "not_applied": to_plain(replicas.NOT_APPLIED),
            },
        },
        **abilities,
    }


def describe_page(group: type) -> list[SettingRow]:
    """Returns the options that a browser may set: all but files."""
    return [row for row in describe(group) if row["kind"] != "file"]


def upload(memory: Workloads, ask: AskUpload) -> dict[str, object]:
    """Reads a file and returns the text that names its workload. Raises InputError."""
    text = memory.add(ask.name, ask.text.encode())
    return {"workload": text} | describe_workload(memory.find(text))


def describe_workload(load: AnyWorkload) -> dict[str, object]:
    """Returns a workload's name, its kind (database or demand), and a few lines of description."""
    if isinstance(load, TransactionWorkload):
        return {"name": load.name, "kind": "database", "lines": databases.describe_database(load)}
    return {"name": load.name, "kind": "demand", "lines": load.describe().splitlines()}


def plan(memory: Workloads, ask: Ask, progress: Callable[[float], None]) -> dict[str, object]:
    """Plans, and returns the plan as the command line prints it, with its view. Raises
    InputError."""
    load = memory.find(ask.workload)
    values = read_settings(PlanSettings, ask.settings)
    refuse_without_services(PlanSettings(**values))  # pyright: ignore[reportArgumentType]
    answer = planner.plan(load, **values, progress=progress)  # pyright: ignore[reportArgumentType, reportCallIssue]
    commands, workload_argument = memory.spell(ask.workload)
    return {
        "workload": describe_workload(load),
        "result": answer.to_dict(),
        "view": make_plain_view(plan_report.build_plan_view(answer, charts=False)),
        "commands": [*commands, spell_command(["plan", workload_argument, *spell_settings(PlanSettings, values)])],
    }


def run(memory: Workloads, ask: AskRun) -> dict[str, object]:
    """Predicts a database on a storage, and returns its rows by column. Raises InputError."""
    load = memory.find(ask.workload)
    if not isinstance(load, TransactionWorkload):
        hint = "The Plan view simulates it."
        raise refuse.input(load.name, "is demand in I/Os, not a database in transactions", hint)
    values = read_settings(PredictionSettings, ask.settings)
    answer = predict(load, ask.storage, **values)  # pyright: ignore[reportArgumentType, reportCallIssue]
    answer = answer.with_warnings(databases.list_log_warnings(answer, load))
    document = databases.build_document(answer, load)
    document.pop("rows")
    commands, workload_argument = memory.spell(ask.workload)
    arguments = ["predict", workload_argument, "--storage", ask.storage, *spell_settings(PredictionSettings, values)]
    return {
        "workload": describe_workload(load),
        "result": to_plain(document),
        "view": make_plain_view(databases.build_view(answer, load)),
        "columns": pick_columns(answer.rows, RUN_COLUMNS),
        "usual": {"threads": load.threads, "cache_gib": load.cache_gib},
        "commands": [*commands, spell_command(arguments)],
    }


def study(ask: AskStudy, progress: Callable[[float], None]) -> dict[str, object]:
    """Runs a study on the model, and returns its view with the data of its charts. Raises
    InputError."""
    result = studies.run_study(ask.name, progress)
    return {
        "name": ask.name,
        "view": make_plain_view(study_report.build_view(result)),
        "charts": to_plain(result.charts),
        "commands": [spell_command(["study", ask.name])],
    }


def pick_columns(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, object]:
    """Returns columns of a frame by name as values of JSON, without those that are null in every
    row."""
    chosen = [rows[name] for name in names if name in rows.columns and rows[name].null_count() < rows.height]
    return {column.name: to_plain(column.to_list()) for column in chosen}


def make_plain_view(view: View) -> dict[str, object]:
    """Returns a view as values of JSON, without its charts, since the page draws its own."""
    cards = [
        {"label": c.label, "figure": c.figure, "meaning": glue_units(c.meaning), "mark": c.mark} for c in view.cards
    ]
    blocks = [make_plain_block(block) for block in without_charts(list(view.list_blocks("page")))]
    return {"title": glue_units(view.title), "subtitle": view.subtitle, "cards": cards, "blocks": blocks}


def make_plain_block(block: Block) -> dict[str, object]:
    """Returns a block of a view as values of JSON, with its kind."""
    if isinstance(block, Fold):
        inner = [make_plain_block(part) for part in without_charts(block.blocks)]
        return {"block": "Fold", "title": block.title, "count": block.count, "blocks": inner}
    fields = to_plain(block)
    assert isinstance(fields, dict)
    return {"block": type(block).__name__, **fields}
