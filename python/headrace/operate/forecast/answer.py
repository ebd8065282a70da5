"""All forecasts of one volume together: what runs out, when, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from headrace.base import core
from headrace.base.checks import check_number, check_whole
from headrace.errors import InputError
from headrace.operate.forecast.credits import (
    MOST_HOURS,
    RUNS,
    CreditForecast,
    check_balance,
    forecast_credits,
    has_credits,
)
from headrace.operate.forecast.growth import GrowthForecast, forecast_limits
from headrace.operate.forecast.history import DemandHistory, build_history, refuse
from headrace.operate.forecast.ledger import Promise, choose_name, promises
from headrace.operate.forecast.space import SpaceForecast, SpaceHistory, forecast_space
from headrace.workload import OpenWorkload

# A finding: credits run out in at least half of the futures, a limit or a full volume is nearer
# than two months with the median (ours: a quarter's purchase takes about as long), or it is there.
LIKELY = 0.5
NEAR_DAYS = 60.0


@dataclass(frozen=True)
class Forecast:
    """`credits`, `growth` and `space` are None or empty where they could not be forecast; `missing`
    then says why. `made_at`: the end of the recording, on its own clock; `dated`: whether that
    clock has a date."""

    of: str
    storage: str
    instance: str | None
    made_at: datetime
    dated: bool
    credits: CreditForecast | None
    growth: tuple[GrowthForecast, ...]
    space: SpaceForecast | None
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def has_findings(self) -> bool:
        """Returns whether anything runs out soon, or is at its end now, whatever the trend."""
        return self.is_empty_soon() or self.is_full_soon() or any(map(self.is_met_soon, self.growth))

    def is_empty_soon(self) -> bool:
        """Returns whether credits run out in at least half of the futures."""
        return self.credits is not None and self.credits.share_empty >= LIKELY

    def is_full_soon(self) -> bool:
        """Returns whether the volume is full, or will be within two months by its trend."""
        space = self.space
        return space is not None and (space.full or (space.trend.claimed and space.days[1] <= NEAR_DAYS))

    def is_met_soon(self, growth: GrowthForecast) -> bool:
        """Returns whether a limit is met, or will be within two months with the median."""
        return growth.at_limit or growth.days[1] <= NEAR_DAYS

    def promises(self) -> list[Promise]:
        """Returns the promises to be scored later; none where the recording has no date."""
        if not self.dated:
            return []
        return promises(self.of, self.storage, self.made_at, self.credits, self.growth, self.space)


def _check_state(
    space: SpaceHistory | None, balance_percent: float | None, limit_gib: float | None, free_inside_gib: float
) -> None:
    """Raises InputError for a balance, percent, or sizes, GiB, out of range, and for sizes without
    used space."""
    check_number("--free-inside-gib", free_inside_gib, 0.0, 1e6, "GiB")
    if balance_percent is not None:
        check_number("--balance", balance_percent, 0, 100, "percent")
    if limit_gib is not None:
        check_number("--full-at-gib", limit_gib, 0.001, 1e6, "GiB")
    unused = [("--full-at-gib", limit_gib), ("--free-inside-gib", free_inside_gib or None)]
    for name, value in unused:
        if space is None and value is not None:
            hint = "Add --space FILE (used space by day), or leave it out."
            raise refuse.input(f"{name} {value:g}", "says nothing without used space", hint)


def forecast(
    workload: OpenWorkload,
    storage: str,
    *,
    instance: str | None = None,
    as_of: str | None = None,
    hours: int = 72,
    balance_percent: float | None = None,
    space: SpaceHistory | None = None,
    limit_gib: float | None = None,
    free_inside_gib: float = 0.0,
    runs: int = RUNS,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Forecast:
    """Forecasts what will run out on `storage`, if demand goes on as in the recording `workload`.

    `hours`: how far the credits are followed (1 to 336). `balance_percent`: today's credits; None:
    as recorded, else simulated. `space`: used space by day, `limit_gib`: where it is full (None:
    the storage's usable size). Raises InputError where nothing can be forecast, and for what
    would change nothing: a balance of storage without credits, a limit without used space.
    """
    check_whole("hours", hours, 1, MOST_HOURS)
    check_whole("seed", seed, 0, 2**63 - 1)
    _check_state(space, balance_percent, limit_gib, free_inside_gib)
    history = build_history(workload)
    missing: list[str] = []
    refused: InputError | None = None
    credits, growth, full = None, (), None
    if balance_percent is not None:
        check_balance(balance_percent, storage, instance, as_of)
    if has_credits(storage, instance, as_of):
        try:
            credits = forecast_credits(
                workload,
                history,
                storage,
                instance=instance,
                as_of=as_of,
                hours=hours,
                balance_percent=balance_percent,
                runs=runs,
                seed=seed,
                progress=progress,
            )
        except InputError as error:
            missing.append(f"credits ({error.value}: {error.rule})")
            refused = refused or error
    else:
        missing.append(
            f"credits ({storage}{'' if instance is None else f' on {instance}'} has none that could run out)"
        )
    try:
        growth = forecast_limits(history, storage, seed=seed, instance=instance, as_of=as_of)
    except InputError as error:
        missing.append(f"growth ({error.value}: {error.rule})")
        refused = refused or error
    if space is None:
        missing.append("when the volume is full (it needs used space by day: --space FILE)")
    else:
        usable = core.parse_storage(storage)["usable_gib"]
        full = forecast_space(
            space, usable if limit_gib is None else limit_gib, free_inside_gib=free_inside_gib, seed=seed
        )
    if credits is None and not growth and full is None and refused is not None:
        raise refused
    notes = _collect_notes(workload, history)
    return Forecast(
        choose_name(workload),
        storage,
        instance,
        history.end,
        history.dated,
        credits,
        growth,
        full,
        tuple(missing),
        notes,
    )


def _collect_notes(workload: OpenWorkload, history: DemandHistory) -> tuple[str, ...]:
    """Returns the workload's notes, and what a recording without a clock or a date leaves
    unknown."""
    notes: Sequence[str] = workload.list_notes()
    if not history.clocked:
        notes = (*notes, "The recording has no clock: its days are counted from its start, and weekdays are not known.")
    elif not history.dated:
        notes = (*notes, "The recording has no date: weekdays are not known, and the forecast is not kept.")
    return tuple(notes)
