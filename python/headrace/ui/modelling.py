"""Serves the inputs of the browser's model, and runs the same model on the server: questions of
`crates/whatif` about a demand or a database, answered byte by byte alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated

import msgspec

from headrace.base import core
from headrace.simulation.database import find_vcpus
from headrace.simulation.demand import choose_row_length
from headrace.simulation.replica import DRAIN_S, Replica
from headrace.simulation.settings import DATABASE_SECONDS, PredictionSettings
from headrace.ui.spelling import refuse
from headrace.ui.workloads import Workloads
from headrace.workload import OpenWorkload, TransactionWorkload

# Questions to the model at once: more lines in a chart cannot be told apart.
MOST_QUESTIONS = 4
# The subjects of `crates/whatif`, and the part of a question that holds each.
DEMAND, DATABASE = "load", "database"
# A run begins with an empty cache, and one with a replica takes 600 s, as on the command line.
START, REPLICA_SECONDS = "cold", 600
PART_OF = {"demand": DEMAND, "run": DATABASE, "replica": DATABASE}
# Offset of the head of an answer, bytes, and the first bytes of a refusal's head
# (crates/whatif/src/columns.rs).
HEAD_AT, REFUSED = 8, b'{"refused":'

_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Question = Annotated[dict[str, object], msgspec.Meta(max_length=100)]


class AskLoad(msgspec.Struct, forbid_unknown_fields=True):
    """A question for a workload as the model takes it."""

    workload: _Text


class AskModel(AskLoad, kw_only=True):
    """Questions of `crates/whatif` about a workload, which stands in none of them: the model of a
    browser answers the same, byte by byte."""

    questions: Annotated[list[_Question], msgspec.Meta(min_length=1, max_length=MOST_QUESTIONS)]


class ServerModel:
    """The model of this server, for browsers without one of their own."""

    def __init__(self, memory: Workloads) -> None:
        self._memory = memory
        self._model = core.WhatIf()  # what it remembers changes no answer
        self._given: dict[str, str] = {}  # the workload that it has of each subject
        self._lock = threading.Lock()

    def answer(self, ask: AskModel) -> bytes:
        """Answers questions about a workload, one after another in the bytes that
        `crates/whatif/src/columns.rs` describes; a refusal is an answer too. A workload that the
        model has from the question before is not read again. Raises InputError."""
        subject, answers = _find_subject(ask), []
        with self._lock:  # questions of two windows do not mix: a later one leaves its workload out
            is_new = self._given.get(subject) != ask.workload
            content = TABLES[subject](self._memory, ask.workload) if is_new else None
            for question in ask.questions:
                text = msgspec.json.encode(question | {subject: content}).decode()
                answers.append(self._model.answer(text))
                content = None
            self._given[subject] = ask.workload
            if any(answer.startswith(REFUSED, HEAD_AT) for answer in answers):
                del self._given[subject]  # it may be the workload that was refused
        return b"".join(answers)


def describe_load(memory: Workloads, ask: AskLoad) -> dict[str, object]:
    """Returns a demand as the model takes it, not cut by the limits of its recording, with the
    length of a row as `headrace simulate` has it and the clock of its start. Raises InputError."""
    load = _get_demand(memory, ask.workload)
    return {
        DEMAND: _make_columns(load),
        "row_s": choose_row_length(load),
        "clock_start": load.source.get("clock_start"),
    }


def describe_database(memory: Workloads, ask: AskLoad) -> dict[str, object]:
    """Returns a database as the model takes it, and the settings of a run and of a replica where
    none is given, by the names of their options. Raises InputError."""
    load = _get_database(memory, ask.workload)
    usual = PredictionSettings()
    replica = Replica("").as_behind(load)
    names = ("log_storage", "instance", "vcpus", "as_of", "arrivals_tps", "seed", "start_balance_percent", "growth")
    run = {name: getattr(usual, name) for name in names} | {
        "vcpus_of_runs": find_vcpus(load, None, None),
        "cache_gib": load.cache_gib,
        "threads": load.threads,
        "start": START,
        "seconds": DATABASE_SECONDS,
    }
    return {
        DATABASE: load.database,
        "name": load.name,
        "run": run,
        "replica_run": run | {"seconds": REPLICA_SECONDS},
        "replica": {
            "workers": None,
            "settings": replica.make_settings(),
            "identified": {} if load.replica is None else load.replica.to_core(),
            "drain_s": DRAIN_S,
        },
    }


def _find_subject(ask: AskModel) -> str:
    """Returns the part of the questions that holds the workload."""
    subjects = {PART_OF.get(str(question.get("ask")), "") for question in ask.questions}
    if len(subjects) == 1 and "" not in subjects:
        return subjects.pop()
    raise refuse.input("the questions", "are not of one kind that the page asks", "Reload the page.")


def _get_demand(memory: Workloads, text: str) -> OpenWorkload:
    """Returns the demand of a workload that the browser opened, with censored points raised. Raises
    InputError for a database or a closed load."""
    load = memory.find(text)
    if isinstance(load, OpenWorkload):
        return load.uncensor()
    if isinstance(load, TransactionWorkload):
        hint = "The Database view runs it on a storage."
        raise refuse.input(load.name, "is a database in transactions, not demand in I/Os", hint)
    raise refuse.input(load.name, "asks for all that a volume gives, so it has no day")


def _get_database(memory: Workloads, text: str) -> TransactionWorkload:
    """Returns the database of a workload that the browser opened. Raises InputError for demand in
    I/Os."""
    load = memory.find(text)
    if isinstance(load, TransactionWorkload):
        return load
    raise refuse.input(load.name, "is demand in I/Os, not a database in transactions", "The Plan view plans it.")


def _make_columns(load: OpenWorkload) -> dict[str, object]:
    return {name: value for name, value in load.to_core().items() if name != "kind"}


# A workload as each subject of the model takes it, by the text that names it.
TABLES: dict[str, Callable[[Workloads, str], object]] = {
    DEMAND: lambda memory, text: _make_columns(_get_demand(memory, text)),
    DATABASE: lambda memory, text: _get_database(memory, text).database,
}
