"""Forecasts that were made, and how often they held.

Each forecast is kept as the figures it promised: a quantity, a moment, and the interval in which it
should lie with 80 %. Once a recording reaches that moment, the promise is held against it.
"""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np

from headrace.base import settings
from headrace.base.files import explain_unwritable, get_reason
from headrace.errors import CouldNotRun
from headrace.observe.evidence.limits import get_holding_limits
from headrace.observe.formats.cloudwatch import VOLUME_ID
from headrace.operate.forecast.balances import extract_own_balances
from headrace.operate.forecast.credits import CreditForecast
from headrace.operate.forecast.growth import GrowthForecast
from headrace.operate.forecast.history import DemandHistory, refuse
from headrace.operate.forecast.space import MARKS_DAYS, SpaceForecast, SpaceHistory
from headrace.simulation.demand import simulate
from headrace.workload import OpenWorkload

BALANCE, SPACE, BUSY = "credit balance (%)", "used space (GiB)", "busy rate (x the limit)"
# Some thousand forecasts of twenty lines of 200 bytes. Ours.
MOST_BYTES = 64 * 1024 * 1024
# Beginning of each line of the ledger, by which a damaged line is told from a line of another file.
LINE_BEGINS = b'{"of":"'
# A promise about a moment is held against a figure at most this far from it.
NEAREST = timedelta(minutes=5)


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"made_at": "made"}):
    """One figure of a forecast. `of` and `storage`: the workload's name and where it runs.
    `made_at`, `due`: clock times of the recording, ISO without a zone. `low`, `middle`, `high`:
    10th, 50th and 90th percentile."""

    of: str
    storage: str
    quantity: str
    made_at: str
    due: str
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Score:
    """The outcome of promises about one quantity, so far ahead. `hits`: how many of `count` lay in
    their 80 % interval; `median_error`: of the middle, in the quantity's unit."""

    quantity: str
    ahead: timedelta
    count: int
    hits: int
    median_error: float


def promises(
    of: str,
    storage: str,
    made_at: datetime,
    credits: CreditForecast | None,
    growth: Sequence[GrowthForecast],
    space: SpaceForecast | None,
) -> list[Promise]:
    """Returns the promises of a forecast of `of` on `storage`; none of trends over too few days."""
    promised = []

    def add(quantity: str, from_moment: datetime, ahead: timedelta, figures: Iterable[float]) -> None:
        low, middle, high = figures
        promised.append(
            Promise(
                of, storage, quantity, from_moment.isoformat(), (from_moment + ahead).isoformat(), low, middle, high
            )
        )

    for mark in credits.marks if credits is not None else ():
        add(BALANCE, made_at, timedelta(hours=mark.hours), (mark.low, mark.middle, mark.high))
    today = made_at.replace(hour=0, minute=0, second=0)
    for forecast in growth:
        for days in MARKS_DAYS if forecast.trend.enough else ():
            figures = [math.exp(value) / forecast.limit for value in forecast.trend.forecast_figure(days)]
            add(f"{BUSY}: {forecast.cap}", today - timedelta(days=1), timedelta(days=days), figures)
    if space is not None and space.trend.enough:
        for days in MARKS_DAYS:
            add(SPACE, space.last, timedelta(days=days), space.trend.forecast_figure(days))
    return promised


def choose_name(workload: OpenWorkload) -> str:
    """Returns the name of a forecast in the ledger: the volume's id where the recording has it,
    else the recording's name."""
    device = workload.source.get("device")
    return device if isinstance(device, str) and VOLUME_ID.fullmatch(device) else workload.name


def get_default_ledger() -> Path:
    """Returns $HEADRACE_FORECASTS, else forecasts.jsonl in the data folder of this user."""
    return settings.get_folder("HEADRACE_FORECASTS")


def keep(promises: Sequence[Promise], path: Path) -> None:
    """Appends the promises to the ledger, unless it has the same one already. A promise with a
    figure that is not finite is left out: no measurement can contradict it.

    A last line that a crash cut off is taken out first. Raises InputError where the file is no
    ledger, else CouldNotRun.
    """
    promises = [promise for promise in promises if math.isfinite(promise.low + promise.middle + promise.high)]
    if not promises:
        return
    with explain_unwritable(path, "Name another file with HEADRACE_FORECASTS, or give --no-keep.", "operating system"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read(MOST_BYTES + 1)
            recorded = set(_decode_promises(path, content, []))
            new = [promise for promise in promises if promise not in recorded]
            whole = content.rfind(b"\n") + 1
            # The last line may be whole and lack its end only.
            begin = b"\n" if _decode_promise(content[whole:]) is not None else b""
            if not begin:
                file.truncate(whole)
            file.seek(0, os.SEEK_END)
            file.write(begin + b"".join(msgspec.json.encode(promise) + b"\n" for promise in new))
            file.flush()
            os.fsync(file.fileno())


def load(path: Path, notes: list[str] | None = None) -> list[Promise]:
    """Returns the promises of a ledger; none without a file. `notes` gets a sentence
    on damaged lines, which are passed over. Raises InputError where the file is not a ledger, or
    CouldNotRun."""
    try:
        with path.open("rb") as file:
            return _decode_promises(path, file.read(MOST_BYTES + 1), [] if notes is None else notes)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CouldNotRun(str(path), f"cannot be read: {get_reason(error)}", "operating system") from None


def _decode_promises(path: Path, content: bytes, notes: list[str]) -> list[Promise]:
    """Returns the promises in the content of a ledger; `notes` gets a sentence on damaged lines.
    Raises InputError if it is too long or no ledger."""
    if len(content) > MOST_BYTES:
        rule = f"at most {MOST_BYTES >> 20} MiB are read"
        raise refuse.input(str(path), rule, "Move the file away: a new one is begun.")
    lines = content.split(b"\n")
    decoded = [_decode_promise(line) for line in lines]
    promises = [promise for promise in decoded if promise is not None]
    # Bytes after the last line end were cut off by a crash; no warning is needed.
    damaged = [number for number, promise in enumerate(decoded[:-1], 1) if promise is None]
    foreign = [
        number
        for number, line in enumerate(lines, 1)
        if not line.startswith(LINE_BEGINS) and not (number == len(lines) and LINE_BEGINS.startswith(line))
    ]
    if foreign and not promises:
        rule = "is not a forecast that was kept, and no other line of the file is one"
        raise refuse.input(f"{path}, line {foreign[0]}", rule, "Move the file away, or name another one.")
    if damaged:
        what = f"line {damaged[0]} is" if len(damaged) == 1 else f"{len(damaged)} lines, the first {damaged[0]}, are"
        notes.append(f"{path}: {what} damaged and passed over.")
    return promises


def _decode_promise(line: bytes) -> Promise | None:
    """Decodes the promise of a line; None for a damaged line."""
    try:
        return msgspec.json.decode(line, type=Promise)
    except msgspec.DecodeError:
        return None


def score_promises(
    of: str,
    storage: str,
    promised: Sequence[Promise],
    workload: OpenWorkload,
    history: DemandHistory,
    growth: Sequence[GrowthForecast],
    space: SpaceHistory | None,
    *,
    instance: str | None = None,
    as_of: str | None = None,
) -> list[Score]:
    """Scores the promises about `of` on `storage` due in this recording, by quantity and distance.

    The balance is the recorded one of the volumes; where none was recorded, or they have none, it
    is that of the recorded demand simulated on the storage.
    """
    balances = _compute_balances(workload, storage, instance, as_of)
    busy = _list_busy_days(history, growth)
    errors: dict[tuple[str, timedelta], list[tuple[bool, float]]] = {}
    for promise in promised:
        made_at, due = datetime.fromisoformat(promise.made_at), datetime.fromisoformat(promise.due)
        if (promise.of, promise.storage) != (of, storage) or made_at >= history.end:
            continue
        if promise.quantity == BALANCE:
            outcome = _find_balance(balances, history, due)
        elif promise.quantity == SPACE:
            outcome = None if space is None else _find_figure(space.first, space.used_gib, due)
        else:
            first, figures = busy.get(promise.quantity, (due, np.empty(0)))
            outcome = _find_figure(first, figures, due)
        if outcome is not None:
            hit = promise.low <= outcome <= promise.high
            errors.setdefault((promise.quantity, due - made_at), []).append((hit, abs(outcome - promise.middle)))
    return [
        Score(
            quantity,
            ahead,
            len(outcomes),
            sum(hit for hit, _ in outcomes),
            float(np.median([error for _, error in outcomes])),
        )
        for (quantity, ahead), outcomes in sorted(errors.items())
    ]


def _compute_balances(
    workload: OpenWorkload, storage: str, instance: str | None, as_of: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the seconds from the recording's begin, and the credit balance there, percent: as
    recorded, else simulated."""
    points = workload.points
    if "balance_percent" in points.columns and get_holding_limits(storage, instance, as_of).credits is not None:
        recorded = points.filter(points["balance_percent"].fill_null(math.nan).is_not_nan())
        return (recorded["t_s"] + recorded["duration_s"]).to_numpy(), recorded["balance_percent"].to_numpy()
    run = simulate(workload.uncensor(1.0), storage, form="interval", instance=instance, as_of=as_of)
    return (run.rows["t_s"] + run.rows["duration_s"]).to_numpy(), extract_own_balances(run.rows)


def _find_balance(balances: tuple[np.ndarray, np.ndarray], history: DemandHistory, due: datetime) -> float | None:
    """Returns the balance, percent, nearest to `due`; None if nothing is known within NEAREST of
    it. `balances`: seconds since the recording began, and percent."""
    at_s, percent = balances
    due_s = (due - history.recorded_from).total_seconds()
    if not len(at_s) or np.isnan(percent).all():
        return None
    index = int(np.argmin(np.abs(at_s - due_s)))
    return float(percent[index]) if abs(at_s[index] - due_s) <= NEAREST.total_seconds() else None


def _find_figure(first: datetime, figures: np.ndarray, due: datetime) -> float | None:
    """Returns the figure of the day `due`, of figures by day from `first` on; None outside of
    them."""
    index = due.toordinal() - first.toordinal()
    return float(figures[index]) if 0 <= index < len(figures) else None


def _list_busy_days(history: DemandHistory, growth: Sequence[GrowthForecast]) -> dict[str, tuple[datetime, np.ndarray]]:
    first, _ = history.list_whole_days()
    return {f"{BUSY}: {forecast.cap}": (first, forecast.busy / forecast.limit) for forecast in growth}
