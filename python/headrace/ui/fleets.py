"""The answers for a fleet, as `headrace fleet report` shows them, and scripts for the changes that
the user chooses among them, which are shown and not run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import msgspec

from headrace.base.encoding import to_plain
from headrace.operate.fleet import MOST_RISK_PERCENT
from headrace.operate.fleet.advised import list_advised_changes
from headrace.operate.fleet.answer import VolumeAnswer
from headrace.operate.fleet.applying.scripts import build_patch_scripts
from headrace.operate.fleet.inventory import read_inventory
from headrace.report.fleet import words
from headrace.ui.answers import make_plain_view
from headrace.ui.opening import OpenedFile, OpenedFiles
from headrace.ui.spelling import spell_command

COLUMNS = (
    "key", "name", "account", "region", "instance", "verdict", "today", "proposed", "usd_today", "usd_proposed", "saves_usd",
    "risk", "today_p99_ms", "proposed_p99_ms", "durability", "why",
)  # fmt: skip
# Stands in a command for the file whose JSON was dropped.
PLANNED = "answers.parquet"
_Key = Annotated[str, msgspec.Meta(max_length=2_000)]


class AskFleet(msgspec.Struct, forbid_unknown_fields=True):
    """A question for the answers in an opened file."""

    file: _Key


class AskPatch(AskFleet, kw_only=True):
    """A question for the scripts that make changes. `inventories`: opened files of the AWS CLI.
    `keys`: the devices that are chosen; None: all."""

    inventories: Annotated[list[_Key], msgspec.Meta(min_length=1, max_length=16)]
    keys: list[str] | None = None
    max_risk_percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = MOST_RISK_PERCENT
    with_growth: bool = False
    lower_durability: bool = False


def show_fleet(files: OpenedFiles, ask: AskFleet) -> dict[str, object]:
    """Returns the view of a fleet, and its answers by column, a row for each device. Raises
    InputError."""
    opened = files.find(ask.file, "fleet")
    answers = _get_answers(opened)
    return {
        "name": opened.name,
        "view": make_plain_view(words.build_view(answers, words.describe_prices(answers))),
        "columns": {name: to_plain([getattr(answer, name) for answer in answers]) for name in COLUMNS},
        "commands": [spell_command(["fleet", "report", _choose_file_name(opened)])],
    }


def write_patch(files: OpenedFiles, ask: AskPatch) -> dict[str, object]:
    """Returns the scripts that change the chosen devices, lines that sum them up, and the command
    that writes the scripts of all devices. Raises InputError."""
    opened = files.find(ask.file, "fleet")
    answers = _get_answers(opened)
    chosen = answers if ask.keys is None else _choose(answers, set(ask.keys))
    inventories = [files.find(key, "inventory") for key in ask.inventories]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{at}.json") for at in range(len(inventories))]
        for path, inventory in zip(paths, inventories, strict=True):
            path.write_bytes(cast(bytes, inventory.value))
        fleet_inventory = read_inventory(paths)
    advised = list_advised_changes(
        chosen,
        fleet_inventory,
        most_risk=ask.max_risk_percent / 100,
        grow=ask.with_growth,
        lower_durability=ask.lower_durability,
    )
    scripts = [
        {"account": script.account, "patch": script.patch, "rollback": script.rollback}
        for script in build_patch_scripts(advised.changes)
    ]
    return {
        "scripts": scripts,
        "lines": advised.describe(),
        "whole": ask.keys is None,
        "commands": [spell_command(_list_command_arguments(opened, inventories, ask))],
    }


def _get_answers(opened: OpenedFile) -> list[VolumeAnswer]:
    return cast("list[VolumeAnswer]", opened.value)


def _choose(answers: Sequence[VolumeAnswer], keys: set[str]) -> list[VolumeAnswer]:
    return [answer for answer in answers if answer.key in keys]


def _choose_file_name(opened: OpenedFile) -> str:
    """Returns the name of the answers' file for a command: that of an opened Parquet file, PLANNED
    for JSON, which was printed from a file that the page does not have."""
    return opened.name if opened.name.endswith(".parquet") else PLANNED


def _list_command_arguments(opened: OpenedFile, inventories: Sequence[OpenedFile], ask: AskPatch) -> list[str]:
    """Returns the arguments of the command that gives the same scripts."""
    arguments = ["fleet", "report", _choose_file_name(opened)]
    arguments += [word for inventory in inventories for word in ("--inventory", inventory.name)]
    arguments += ["--patch", "changes"]
    if ask.max_risk_percent != MOST_RISK_PERCENT:
        arguments += ["--max-risk-percent", f"{ask.max_risk_percent:g}"]
    return arguments + ["--with-growth"] * ask.with_growth + ["--lower-durability"] * ask.lower_durability
