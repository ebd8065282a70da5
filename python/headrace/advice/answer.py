"""`headrace advise` from question to answer: which server, what it has today, the advice, what is wrong already."""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.advice.advising import advise
from headrace.advice.current import Current, findings, todays
from headrace.advice.model import DOC, NOT_ESTIMATED, SAFE, Advice, Finding, Server
from headrace.advice.output import as_cnf, as_diff
from headrace.advice.situation import storage_of
from headrace.advice.table import GROUPS, parameters
from headrace.advice.values import same
from headrace.connect import Address
from headrace.errors import InputError
from headrace.workload import TransactionWorkload

# What is to be done with a setting, first things first.
CHANGES = ("set", "decide", "")


@dataclass(frozen=True)
class Answer:
    """The advice for one server. `situation`: storage, memory and processors in a line; `notes`: what was assumed; `known`: whether today's settings were read."""

    server: Server
    current: Current
    known: bool
    situation: str
    advice: tuple[Advice, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Whether nothing would change: no active setting differs, and nothing is wrong today."""
        return not self.findings and not any(item.differs and item.active for item in self.advice)

    def cnf(self) -> str:
        """The advice as an option file."""
        return as_cnf(
            self.advice, self.server, self.situation, loads_myrocks=any(name.startswith("rocksdb_") for name in self.current.values)
        )

    def diff(self) -> str:
        """The advice as a change to the option file. Raises InputError where none was given."""
        return as_diff(self.advice, self.current)

    def to_dict(self) -> dict:
        """For JSON."""
        from headrace.advice.output import record

        return {
            "schema": "headrace-advice/1", "flavor": self.server.flavor, "version": ".".join(str(part) for part in self.server.version[: 3 if self.server.patch_known else 2]),
            "current": self.current.label if self.known else None, "situation": self.situation, "notes": list(self.notes),
            "findings": [{"parameter": item.parameter, "text": item.text, "source": item.source} for item in self.findings],
            "advice": [record(item) for item in self.advice],
        }  # fmt: skip

    def tables(self, narrow: bool = False) -> list[tuple[str, tuple[str, ...], list[tuple]]]:
        """Title, columns and rows, a table a chapter: what would be set first, then what needs a decision; at the end, in one row, what is so already. `narrow`: risk and effect in
        one column with the reason, where there is something to say; no sources."""
        made = []
        # What the other value would bring is worth a row all the same.
        stays = [item for item in self.advice if self._is_so(item) and not _simulated(item)]
        for group in GROUPS:
            items = [item for item in self.advice if item.group == group and item not in stays]
            if items:
                ordered = sorted(items, key=lambda item: CHANGES.index(self._change(item)))
                made.append((group, self._columns(narrow), [self._row(item, narrow) for item in ordered]))
        if stays:
            title = "As advised already" if self.known else "As advised by default"
            made.append((title, ("change", "settings"), [("none", ", ".join(f"{item.parameter}={item.value}" for item in stays))]))
        return made

    def _change(self, item: Advice) -> str:
        return "" if self._is_so(item) else CHANGES[0] if item.active else CHANGES[1]

    def _is_so(self, item: Advice) -> bool:
        """Whether nothing is to be done: today's value, or the default where today's is not known, is the one advised."""
        if item.differs is not None:
            return not item.differs
        return bool(item.settable and item.default) and same(parameters()[item.id].kind, item.default, item.value)

    def _columns(self, narrow: bool) -> tuple[str, ...]:
        today = ("today",) if self.known else ()
        head = ("change", "parameter", "value", *today)
        return (*head, "why") if narrow else (*head, "risk", "why", "effect", "source")

    def _row(self, item: Advice, narrow: bool) -> tuple:
        value = item.value if item.active else f"({item.value})"
        today = (self._today(item),) if self.known else ()
        head = (self._change(item), item.parameter, value, *today)
        why = item.why if item.applies_to == "server" else f"{item.applies_to}: {item.why}"
        effect = item.effect or ""
        if not narrow:
            return (*head, item.risk, why, effect, ", ".join(parameters()[item.id].source))
        risk = "" if item.risk == SAFE else f" ({item.risk})"
        return (*head, f"{why}{risk}" + (f"; {effect}" if effect and not effect.startswith(NOT_ESTIMATED) else ""))

    def _today(self, item: Advice) -> str:
        """The value today."""
        return item.current or (f"{item.default} (default)" if item.default else "")


def _simulated(item: Advice) -> bool:
    """Whether an effect in transactions a second is known."""
    return " tps, " in (item.effect or "")


def answer(
    *,
    address: Address | None = None,
    config: str | os.PathLike | None = None,
    flavor: str | None = None,
    version: str | None = None,
    storage: str,
    workload: TransactionWorkload | None = None,
    engine: str | None = None,
    **question: object,
) -> Answer:
    """Everything `headrace advise` says. `engine` None: the workload's, else InnoDB; the other arguments as for `advise`. Raises InputError, CouldNotRun."""
    current, notes, known = todays(address, config, flavor, version)
    engine = engine or (workload.engine if workload is not None else "innodb")
    server = current.server
    patch = server.version if server.patch_known else server.version[:2]
    found = advise(
        storage=storage, flavor=server.flavor, version=patch, engine=engine, workload=workload, current=current.values if known else None, **question
    )  # fmt: skip
    return Answer(
        server,
        current,
        known,
        _in_a_line(storage, engine, workload, question),
        tuple(found),
        tuple(findings(current)),
        tuple(notes + _notes(workload, question)),
    )


def _in_a_line(storage: str, engine: str, workload: TransactionWorkload | None, question: dict) -> str:
    kept = storage_of(storage, question.get("as_of"), question.get("instance"))
    parts = [{"innodb": "InnoDB", "myrocks": "MyRocks"}[engine], f"data on {kept.words}"]
    if question.get("log_storage"):
        parts.append(f"logs on {question['log_storage']}")
    parts += [f"{question['memory_gib']:g} GiB of memory"] if question.get("memory_gib") is not None else []
    parts += [f"{question['vcpus']} virtual CPUs"] if question.get("vcpus") is not None else []
    parts += [str(question["instance"])] if question.get("instance") else []
    parts += [f"workload {workload.name}"] if workload is not None else []
    return ", ".join(part.replace("\n", " ") for part in parts)


def _notes(workload: TransactionWorkload | None, question: dict) -> list[str]:
    notes = []
    if workload is None:
        notes.append("no --workload: redo and I/O capacities follow rules of thumb, and no effect is simulated")
    elif workload.caveats:
        notes += [f"workload: {text}" for text in workload.caveats]
    if question.get("vcpus") is None and question.get("instance") is None:
        notes.append("no --vcpus: thread and worker counts are the least that is sensible")
    return notes


def check_output(output: str, config: object) -> None:
    """Refuses a diff with nothing to change, before anything is asked of a server. Raises InputError."""
    if output == "diff" and config is None:
        raise InputError("--output diff", "needs an option file to change", DOC, "Name it with --config; --output cnf makes a new one.")
