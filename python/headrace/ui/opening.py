"""Result files that were dropped into the page, whose kind follows from their content: the answers
for a fleet, its inventory, a proof, a plan."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from headrace.base.extras import import_optional
from headrace.errors import InputError
from headrace.operate.fleet.advised import read_answers
from headrace.operate.fleet.answer import VolumeAnswer, rank_answers
from headrace.operate.fleet.inventory import read_inventory
from headrace.planner.planning import restore_plan
from headrace.planner.result import PLAN_SCHEMA, Plan
from headrace.report import plan as plan_report
from headrace.ui.answers import make_plain_view
from headrace.ui.remembered import RememberedFiles
from headrace.ui.spelling import refuse, spell_command
from headrace.ui.workloads import clean_name

FileKind = Literal["fleet", "inventory", "proof", "plan"]
WORDS: dict[FileKind, str] = {
    "fleet": "the answers for a fleet",
    "inventory": "an inventory",
    "proof": "a proof",
    "plan": "a plan",
}
PARQUET = b"PAR1"  # the first bytes of a Parquet file (its format's specification)
# Keys of the AWS CLI's documents that make an inventory.
INVENTORY_KEYS = ("Volumes", "Reservations", "VolumesModifications")
PROOF_SCHEMA = "headrace-proof/"
KNOWN = (
    "Known are answers of `headrace fleet plan` (Parquet, or JSON of --output json), the JSON of aws ec2 describe-volumes, "
    "a proof.json, and the JSON of `headrace plan --output json`."
)
R = TypeVar("R")
# Results that are remembered: a fleet of 100,000 volumes takes some hundred MiB. Ours.
MOST_RESULTS = 12


class AskOpen(msgspec.Struct, forbid_unknown_fields=True):
    """A result file that was dropped into the page. `content`: its bytes in base64."""

    name: str
    content: str


@dataclass(frozen=True)
class OpenedFile:
    """A result file: the name it was dropped with, its kind, and what was read from it."""

    name: str
    kind: FileKind
    value: object


class OpenedFiles:
    """The result files that the page was given."""

    def __init__(self) -> None:
        self._files = RememberedFiles[OpenedFile](MOST_RESULTS)

    def open(self, ask: AskOpen) -> dict[str, object]:
        """Reads and remembers a file, and returns its kind, its name, and the key by which
        questions name it. Raises InputError."""
        try:
            content = base64.b64decode(ask.content, validate=True)
        except binascii.Error:
            raise refuse.input("the request", "must have its file in base64") from None
        name = clean_name(ask.name)
        kind, value = read_result(name, content)
        return {"kind": kind, "name": name, "file": self._files.add(content, OpenedFile(name, kind, value))}

    def find(self, key: str, kind: FileKind) -> OpenedFile:
        """Returns an opened file of this kind. Raises InputError."""
        file = self._files.find(key)
        if file.kind != kind:
            raise refuse.input(file.name, f"is {WORDS[file.kind]}, and not {WORDS[kind]}", KNOWN)
        return file


class AskFile(msgspec.Struct, forbid_unknown_fields=True):
    """A question for an opened file."""

    file: str


def show_plan(files: OpenedFiles, ask: AskFile) -> dict[str, object]:
    """Returns the answer of an opened plan, as of a new one, but with the command of its proof,
    since that of the plan is not known. Raises InputError."""
    file = files.find(ask.file, "plan")
    plan = file.value
    assert isinstance(plan, Plan)
    proof = [spell_command(["prove", file.name])] if plan.subject == "database" else []
    return {
        "workload": {"name": plan.name, "kind": plan.subject, "lines": []},
        "name": file.name,
        "result": plan.to_dict(),
        "view": make_plain_view(plan_report.build_plan_view(plan, charts=False)),
        "commands": proof,
    }


def read_result(name: str, content: bytes) -> tuple[FileKind, object]:
    """Returns the kind of a result file and what is in it. Raises InputError."""
    if content[:4] == PARQUET:
        return "fleet", as_file(name, content, read_answers)
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse.input(name, f"is not JSON: {str(error)[:100]}", KNOWN) from None
    rows = document.get("answers") if isinstance(document, dict) else document
    if isinstance(rows, list):
        return "fleet", read_answer_rows(name, rows)
    schema = str(document.get("schema", "")) if isinstance(document, dict) else ""
    if schema.startswith(PROOF_SCHEMA):
        return "proof", as_file(name, content, _read_proof)
    if schema.startswith(PLAN_SCHEMA):
        return "plan", restore_plan(document, name)
    if isinstance(document, dict) and any(key in document for key in INVENTORY_KEYS):
        as_file(name, content, lambda path: read_inventory([path]))  # refused here, and not later
        return "inventory", content
    raise refuse.input(name, "is not a result that the page shows", KNOWN)


def read_answer_rows(name: str, rows: list[object]) -> list[VolumeAnswer]:
    """Returns the answers in the JSON of `headrace fleet`, those worth most first. Raises
    InputError."""
    try:
        return rank_answers(msgspec.convert(rows, list[VolumeAnswer]))
    except msgspec.ValidationError as error:
        hint = "headrace fleet plan POINTS --output json writes them."
        raise refuse.input(name, f"has no answers for a fleet: {error}", hint) from None


def as_file(name: str, content: bytes, read: Callable[[Path], R]) -> R:
    """Reads bytes by a function that takes a file; errors name the file as it was dropped. Raises
    HeadraceError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(content)
        try:
            return read(file)
        except InputError as error:
            raise error.amend(value=error.value.replace(f"{folder}/", "")) from None


def _read_proof(path: Path) -> object:
    """Reads a proof. Raises InputError for another file, CouldNotRun if a package is missing."""
    with import_optional():
        from headrace.experiment.proof import read

    return read(path)
