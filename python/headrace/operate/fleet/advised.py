"""Computes the savings and changes of a fleet's answers: bills at the prices that are paid, and the
modifications to carry out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import polars as pl

from headrace.base.storage import Storage
from headrace.errors import HeadraceError, Refusals
from headrace.operate.fleet.answer import SCHEMA, VolumeAnswer, make_answers, rank_answers
from headrace.operate.fleet.applying.changes import RefusedChange, VolumeChange, check_changes, list_changes
from headrace.operate.fleet.applying.changes import rank_changes as ranked_changes
from headrace.operate.fleet.cost import FleetPrices
from headrace.operate.fleet.inventory import FleetDevice, FleetInventory
from headrace.operate.fleet.points import scan_table

refuse = Refusals("docs/guide/fleet-changes.md")


@dataclass(frozen=True)
class AdvisedChanges:
    """`changes`: in the order in which they are made. `refused`: advised, but EC2 or the inventory
    forbids them. `risky`, `less_durable`: how many devices were left out for their risk, and
    because their data would be less sure."""

    changes: tuple[VolumeChange, ...]
    refused: tuple[RefusedChange, ...]
    risky: int
    less_durable: int = 0

    def describe(self) -> list[str]:
        """Returns lines on the number of changes, their savings, and what is left out."""
        usd = -sum(change.usd_month for change in self.changes)
        count = len(self.changes)
        lines = [f"{count:,} volumes to modify, saving {usd:,.2f} USD a month." if count else "Nothing to modify."]
        if self.risky:
            lines.append(f"{self.risky:,} devices are left out for their risk (--max-risk-percent).")
        if self.less_durable:
            why = "because their data would be less sure (--lower-durability)"
            lines.append(f"{self.less_durable:,} devices are left out {why}.")
        return [*lines, *(f"{refusal.change.volume_id} is left out: {refusal.why}." for refusal in self.refused)]


def read_answers(path: Path) -> list[VolumeAnswer]:
    """Reads the answers of `headrace fleet plan`, those worth most first. Raises InputError."""
    frame = scan_table(path, tuple(SCHEMA), "headrace fleet plan").collect()
    return rank_answers(make_answers(frame.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())))


def reprice(answers: Sequence[VolumeAnswer], prices: FleetPrices) -> list[VolumeAnswer]:
    """Returns all answers with their bills, USD a month, at these prices, those worth most first.
    The answer to a change that no longer saves becomes `keep`, without what was proposed."""
    groups: dict[tuple[str, str], list[VolumeAnswer]] = {}
    for answer in answers:
        groups.setdefault((answer.region, answer.account), []).append(answer)
    at_prices = []
    for (region, account), own in groups.items():
        judged = [answer for answer in own if answer.usd_today is not None]
        texts = sorted({text for answer in judged for text in (answer.today, answer.proposed) if text})
        usd_of = (
            dict(zip(texts, prices.compute_totals(texts, region, account), strict=True)) if region and texts else {}
        )
        at_prices += [_reprice_answer(answer, usd_of) for answer in own]
    source = prices.source
    return rank_answers([msgspec.structs.replace(answer, prices=source) for answer in at_prices])


def _reprice_answer(answer: VolumeAnswer, usd_of: dict[str, float]) -> VolumeAnswer:
    """Returns an answer with its bills taken from `usd_of` (USD a month by storage, NaN: no price).
    A change that saves nothing at these prices becomes `keep`."""
    if answer.usd_today is None:  # the volume was not judged
        return answer
    usd_today, usd_proposed = usd_of.get(answer.today, math.nan), usd_of.get(answer.proposed, math.nan)
    priced = msgspec.structs.replace(
        answer,
        usd_today=None if math.isnan(usd_today) else usd_today,
        usd_proposed=None if math.isnan(usd_proposed) else usd_proposed,
    )
    if answer.verdict == "change" and not priced.saves_usd > 0.0:
        why = "what it could be changed into costs as much at the prices that are paid"
        return msgspec.structs.replace(priced, verdict="keep", why=why, proposed="", usd_proposed=None, risk=None)
    return priced


def list_advised_changes(
    answers: Sequence[VolumeAnswer],
    inventory: FleetInventory,
    *,
    most_risk: float = 1.0,
    grow: bool = False,
    lower_durability: bool = False,
    as_of: str | None = None,
    now: datetime | None = None,
) -> AdvisedChanges:
    """Returns the changes of what saves, and with `grow` of what needs more, largest saving first.

    `most_risk`: no change whose share of failing fortnights is above this, or not known where it is
    below 1. `lower_durability`: those too that make the data less sure. `now`: the end of the
    hours in which EC2 counts modifications (None: now).
    """
    devices = {device.key: device for device in inventory.list_devices()}
    volumes = {volume.id: volume for volume in inventory.volumes}
    changes: list[VolumeChange] = []
    risky = less_durable = 0
    for answer in answers:
        if not answer.proposed or answer.verdict not in (("change", "grow") if grow else ("change",)):
            continue
        if answer.verdict == "change" and not (1.0 if answer.risk is None else answer.risk) <= most_risk:
            risky += 1
        elif answer.durability and not lower_durability:
            less_durable += 1
        else:
            changes += _list_changes(answer, devices.get(answer.key))
    allowed, refused = check_changes(ranked_changes(changes), volumes, now or datetime.now(UTC), as_of)
    return AdvisedChanges(tuple(allowed), tuple(refused), risky, less_durable)


def _list_changes(answer: VolumeAnswer, device: FleetDevice | None) -> list[VolumeChange]:
    """Returns the changes of a device's volumes. Raises InputError where the inventory is not the
    one that the answer was computed from."""
    hint = "Give the inventory that the plan was made with, or plan again."
    if device is None:
        raise refuse.input(answer.key, "is in the answers and not in the inventory", hint)
    try:
        present = device.make_storage().text
    except HeadraceError:
        present = "unknown"
    if present != answer.today:
        raise refuse.input(f"{answer.key}: {answer.today}", f"is {present} in the inventory", hint)
    return list_changes(device, Storage.parse(answer.proposed), -answer.saves_usd, _make_note(answer))


def _make_note(answer: VolumeAnswer) -> str:
    """Returns what a reader of the script should know of a change."""
    facts = [answer.name] if answer.name else []
    if answer.durability:
        facts.append(f"durability {answer.durability} a year")
    if answer.today_p99_ms is not None and answer.proposed_p99_ms is not None:
        facts.append(f"I/O p99 {answer.today_p99_ms:.3g} -> {answer.proposed_p99_ms:.3g} ms")
    return "; ".join(facts)
