"""What the answers mean in money and in changes: the bills at what is paid, and the changes that
are carried out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl

from headrace.base.files import refuse_folder
from headrace.base.storage import Storage
from headrace.errors import HeadraceError, InputError
from headrace.operate.fleet.answer import SCHEMA, VolumeAnswer, answers_of, ranked
from headrace.operate.fleet.applying.changes import RefusedChange, VolumeChange, changes_of, checked
from headrace.operate.fleet.applying.changes import ranked as ranked_changes
from headrace.operate.fleet.cost import FleetPrices
from headrace.operate.fleet.inventory import FleetDevice, FleetInventory

DOC = "docs/guide/fleet-changes.md"


@dataclass(frozen=True)
class AdvisedChanges:
    """`changes`: in the order in which they are made. `refused`: advised, but EC2 or the inventory
    forbids them. `risky`: how many devices were left out for their risk; `less_durable`: how many
    because their data would be less sure."""

    changes: tuple[VolumeChange, ...]
    refused: tuple[RefusedChange, ...]
    risky: int
    less_durable: int = 0


def read_answers(path: Path) -> list[VolumeAnswer]:
    """The answers that `headrace fleet plan` wrote, those worth most first. Raises InputError."""
    refuse_folder(path)
    try:
        frame = pl.read_parquet(path)
    except FileNotFoundError:
        raise InputError(str(path), "no such file", "", "Check the name and the folder you are in.") from None
    except Exception as error:  # polars has an error of its own for each thing a file may not be
        rule = f"is not a Parquet file: {str(error).splitlines()[0][:100]}"
        raise InputError(str(path), rule, DOC, "Make it with headrace fleet plan.") from None
    lacking = [name for name in SCHEMA if name not in frame.columns]
    if lacking:
        hint = "Make it with headrace fleet plan."
        raise InputError(str(path), f"has no answers: it lacks {lacking[0]}", DOC, hint)
    return ranked(answers_of(frame.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())))


def repriced(answers: Sequence[VolumeAnswer], prices: FleetPrices) -> list[VolumeAnswer]:
    """The answers with bills at these prices, those worth most first. What no longer saves stays as
    it is."""
    groups: dict[tuple[str, str], list[VolumeAnswer]] = {}
    for one in answers:
        groups.setdefault((one.region, one.account), []).append(one)
    found = []
    for (region, account), own in groups.items():
        judged = [one for one in own if one.usd_today is not None]
        texts = sorted({text for one in judged for text in (one.today, one.wanted) if text})
        known = dict(zip(texts, prices.totals(texts, region, account), strict=True)) if region and texts else {}
        found += [_repriced(one, known) for one in own]
    source = prices.source
    return ranked([msgspec.structs.replace(one, prices=source) for one in found])


def _repriced(one: VolumeAnswer, known: dict[str, float]) -> VolumeAnswer:
    if one.usd_today is None:  # it was not judged
        return one
    today, wanted = known.get(one.today, math.nan), known.get(one.wanted, math.nan)
    made = msgspec.structs.replace(
        one,
        usd_today=None if math.isnan(today) else today,
        usd_wanted=None if math.isnan(wanted) else wanted,
    )
    if one.verdict == "change" and not made.saves_usd > 0.0:
        why = "what it could be changed into costs as much at the prices that are paid"
        return msgspec.structs.replace(made, verdict="keep", why=why, wanted="", usd_wanted=None, risk=None)
    return made


def advised_changes(
    answers: Sequence[VolumeAnswer],
    inventory: FleetInventory,
    *,
    most_risk: float = 1.0,
    grow: bool = False,
    lower_durability: bool = False,
    as_of: str | None = None,
    now: datetime | None = None,
) -> AdvisedChanges:
    """The changes of what saves, and with `grow` of what needs more, largest saving first.

    `most_risk`: no change whose share of failing fortnights is above this, or not known where it is
    below 1. `lower_durability`: those too that make the data less sure. `now`: when the
    inventory's modifications are looked back from (None: now).
    """
    devices = {device.key: device for device in inventory.devices()}
    volumes = {volume.id: volume for volume in inventory.volumes}
    changes: list[VolumeChange] = []
    risky = less_durable = 0
    for one in answers:
        if not one.wanted or one.verdict not in (("change", "grow") if grow else ("change",)):
            continue
        if one.verdict == "change" and not (1.0 if one.risk is None else one.risk) <= most_risk:
            risky += 1
        elif one.durability and not lower_durability:
            less_durable += 1
        else:
            changes += _of(one, devices.get(one.key))
    kept, refused = checked(ranked_changes(changes), volumes, now or datetime.now(UTC), as_of)
    return AdvisedChanges(tuple(kept), tuple(refused), risky, less_durable)


def _of(one: VolumeAnswer, device: FleetDevice | None) -> list[VolumeChange]:
    """The changes of a device. Raises InputError where the inventory is another."""
    hint = "Give the inventory that the plan was made with, or plan again."
    if device is None:
        raise InputError(one.key, "is in the answers and not in the inventory", DOC, hint)
    try:
        now = device.storage().text
    except HeadraceError:
        now = "unknown"
    if now != one.today:
        raise InputError(f"{one.key}: {one.today}", f"is {now} in the inventory", DOC, hint)
    return changes_of(device, Storage.parse(one.wanted), -one.saves_usd, _note(one))


def _note(one: VolumeAnswer) -> str:
    """What a reader of the script should know of a change."""
    told = [one.name] if one.name else []
    if one.durability:
        told.append(f"durability {one.durability} a year")
    if one.today_p99_ms is not None and one.wanted_p99_ms is not None:
        told.append(f"I/O p99 {one.today_p99_ms:.3g} -> {one.wanted_p99_ms:.3g} ms")
    return "; ".join(told)
