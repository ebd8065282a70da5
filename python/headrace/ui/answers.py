"""What the page asks and is answered: values in, values out, no HTTP. Each answer comes from the
same function as the command line's, and names the line that gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec
import polars as pl

from headrace import planner, studies
from headrace.base import core
from headrace.base.encoding import to_plain
from headrace.base.options import SettingRow, describe
from headrace.errors import InputError
from headrace.planner.goals import SUBJECTS
from headrace.planner.settings import PlanSettings, refuse_without_services
from headrace.report import databases
from headrace.report import plan as plan_report
from headrace.report import study as study_report
from headrace.report.view import Block, Chart, Fold, Heading, View
from headrace.report.words import glued, storage_words
from headrace.simulation.database import predict
from headrace.simulation.demand import row_length
from headrace.simulation.settings import PredictionSettings
from headrace.ui.examples import EXAMPLES
from headrace.ui.spelling import SOURCE, read_settings, spell_command, spell_settings
from headrace.ui.workloads import AnyWorkload, Workloads
from headrace.version import __version__
from headrace.workload import OpenWorkload, TransactionWorkload, questions

# Questions to the model at once: more lines in a chart cannot be told apart.
MOST_QUESTIONS = 4
RUN_COLUMNS = ("t_s", "tps", "p95_ms", "iops", "balance_percent", "cached_share", "dirty_share", "cap")

_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Settings = Annotated[dict[str, object], msgspec.Meta(max_length=100)]


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """A question about a workload."""

    workload: _Text
    settings: _Settings = {}


class AskLoad(msgspec.Struct, forbid_unknown_fields=True):
    """A question for a demand as the model takes it."""

    workload: _Text


class AskModel(AskLoad, kw_only=True):
    """Questions of `crates/whatif` about a demand, which stands in none of them: the model of a
    browser answers the same, byte by byte."""

    questions: Annotated[list[_Settings], msgspec.Meta(min_length=1, max_length=MOST_QUESTIONS)]


class AskRun(Ask, kw_only=True):
    """A question about a database on a storage."""

    storage: _Text


class AskUpload(msgspec.Struct, forbid_unknown_fields=True):
    """A file that was dropped into the page."""

    name: _Text
    text: str


class AskStudy(msgspec.Struct, forbid_unknown_fields=True):
    """A question for a published experiment, repeated on the model."""

    name: _Text


def start() -> dict[str, object]:
    """Returns what the page is built from: the options of each question, the examples, the
    questions about a day, the metrics of goals."""
    prompts = [
        {"name": q.name, "prompt": q.prompt, "unit": q.unit, "default": q.default, "required": q.required}
        for q in questions()
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
    }


def describe_page(group: type) -> list[SettingRow]:
    """Returns the options that a browser may set: all but files."""
    return [row for row in describe(group) if row["kind"] != "file"]


def upload(memory: Workloads, ask: AskUpload) -> dict[str, object]:
    """Reads a file and returns the text that names its workload. Raises InputError."""
    text = memory.add(ask.name, ask.text.encode())
    return {"workload": text} | describe_workload(memory.find(text))


def describe_workload(load: AnyWorkload) -> dict[str, object]:
    """Returns a workload's name and kind, and what it is in a few lines."""
    if isinstance(load, TransactionWorkload):
        return {"name": load.name, "kind": "database", "lines": databases.workload_in_words(load)}
    return {"name": load.name, "kind": "demand", "lines": load.describe().splitlines()}


def plan(memory: Workloads, ask: Ask, progress: Callable[[float], None]) -> dict[str, object]:
    """Plans, and returns the plan as the command line prints it, with its view. Raises
    InputError."""
    load = memory.find(ask.workload)
    values = read_settings(PlanSettings, ask.settings)
    refuse_without_services(PlanSettings(**values))  # pyright: ignore[reportArgumentType]
    answer = planner.plan(load, **values, progress=progress)  # pyright: ignore[reportArgumentType, reportCallIssue]
    before, named = memory.spell(ask.workload)
    return {
        "workload": describe_workload(load),
        "result": answer.to_dict(),
        "view": plain_view(plan_report.view_of(answer, charts=False)),
        "commands": [*before, spell_command(["plan", named, *spell_settings(PlanSettings, values)])],
    }


def describe_load(memory: Workloads, ask: AskLoad) -> dict[str, object]:
    """Returns a demand as the model takes it, not cut by the limits of its recording, with the
    length of a row as `headrace simulate` has it and the clock of its start. Raises InputError."""
    load = _demand_of(memory, ask.workload)
    return {
        "load": _columns_of_load(load),
        "row_s": row_length(load),
        "clock_start": load.source.get("clock_start"),
    }


def ask_model(memory: Workloads, ask: AskModel) -> dict[str, object]:
    """Answers questions about a demand as the model in a browser does; a refusal is an answer too.
    Raises InputError."""
    load: object = _columns_of_load(_demand_of(memory, ask.workload))
    model = core.WhatIf()
    answers = []
    for question in ask.questions:
        text = model.answer(msgspec.json.encode(question | {"load": load}).decode())
        answers.append(msgspec.Raw(text.encode()))
        load = None  # the model remembers it
    return {"answers": answers}


def _demand_of(memory: Workloads, text: str) -> OpenWorkload:
    load = memory.find(text)
    if isinstance(load, OpenWorkload):
        return load.uncensored()
    if isinstance(load, TransactionWorkload):
        hint = "The Database view runs it on a storage."
        raise InputError(load.name, "is a database in transactions, not demand in I/Os", SOURCE, hint)
    raise InputError(load.name, "asks for all that a volume gives, so it has no day", SOURCE)


def _columns_of_load(load: OpenWorkload) -> dict[str, object]:
    return {name: value for name, value in load.to_core().items() if name != "kind"}


def run(memory: Workloads, ask: AskRun) -> dict[str, object]:
    """Predicts a database on a storage, and returns its rows by column. Raises InputError."""
    load = memory.find(ask.workload)
    if not isinstance(load, TransactionWorkload):
        hint = "The Plan view simulates it."
        raise InputError(load.name, "is demand in I/Os, not a database in transactions", SOURCE, hint)
    values = read_settings(PredictionSettings, ask.settings)
    answer = predict(load, ask.storage, **values)  # pyright: ignore[reportArgumentType, reportCallIssue]
    answer = answer.with_warnings(databases.log_warnings(answer, load))
    document = databases.document(answer, load)
    document.pop("rows")
    before, named = memory.spell(ask.workload)
    words = ["predict", named, "--storage", ask.storage, *spell_settings(PredictionSettings, values)]
    return {
        "workload": describe_workload(load),
        "words": storage_words(ask.storage),
        "result": to_plain(document),
        "view": plain_view(databases.view_of(answer, load)),
        "columns": columns_of(answer.rows, RUN_COLUMNS),
        "commands": [*before, spell_command(words)],
    }


def study(ask: AskStudy, progress: Callable[[float], None]) -> dict[str, object]:
    """Runs a study on the model, and returns its view with the data of its charts. Raises
    InputError."""
    result = studies.run_study(ask.name, progress)
    return {
        "name": ask.name,
        "view": plain_view(study_report.view_of(result)),
        "charts": to_plain(result.charts),
        "commands": [spell_command(["study", ask.name])],
    }


def columns_of(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, object]:
    """Returns columns of a frame by name, as JSON can hold them; what is missing in every row is
    left out."""
    chosen = [rows[name] for name in names if name in rows.columns and rows[name].null_count() < rows.height]
    return {column.name: to_plain(column.to_list()) for column in chosen}


def plain_view(view: View) -> dict[str, object]:
    """Returns a view as JSON can hold it, without its charts: the page draws its own."""
    cards = [{"label": c.label, "figure": c.figure, "meaning": glued(c.meaning), "mark": c.mark} for c in view.cards]
    blocks = [plain_block(block) for block in without_charts(list(view.at("page")))]
    return {"title": glued(view.title), "subtitle": view.subtitle, "cards": cards, "blocks": blocks}


def without_charts(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yields the blocks without the charts; the heading of charts alone goes with them."""
    for index, block in enumerate(blocks):
        following = blocks[index + 1] if index + 1 < len(blocks) else None
        if not isinstance(block, Chart) and not (isinstance(block, Heading) and isinstance(following, Chart)):
            yield block


def plain_block(block: Block) -> dict[str, object]:
    """Returns a block with its kind."""
    if isinstance(block, Fold):
        inner = [plain_block(part) for part in without_charts(block.blocks)]
        return {"block": "Fold", "title": block.title, "count": block.count, "blocks": inner}
    fields = to_plain(block)
    assert isinstance(fields, dict)
    return {"block": type(block).__name__, **fields}
