"""Is the volume modelled? What it did yesterday, simulated, against what CloudWatch saw.

Advice rests on a simulation of another storage. Where the simulation of the *present* storage
disagrees with the recording, the inventory, the points or the model are wrong for this volume, and
no advice is given. Bounds of the balance: the specification of this check; the others are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.base import core
from headrace.base.storage import Storage
from headrace.base.units import in_percent
from headrace.operate.evidence.limits import holding
from headrace.operate.fleet.history import GONE_PERCENT, DeviceHistory

MOST_BALANCE_ERROR = 5.0  # points of a percent, median
# Agreement on throttled periods (F1); asked where at least this many periods were flagged.
LEAST_F1, LEAST_FLAGGED = 0.5, 12
# A period counts as throttled where requests waited for more than half of it: what CloudWatch's
# check was found to mean (docs/guide/metrics.md).
WAITED_SHARE = 0.5
# A volume cannot give more than its limits: CloudWatch's sums are whole, and a rested volume has
# saved a second's worth.
MOST_OVER = 1.05
# Without flags for it, requests may wait in at most this share of the periods.
MOST_UNFLAGGED = 0.02
# Simulated over recorded queue, of means, where both are at least this deep.
QUEUE_FACTOR, LEAST_QUEUE = 4.0, 1.0


@dataclass(frozen=True)
class SelfCheck:
    """See `VolumeAnswer`. `why`: why the volume is not modelled; "" where it is."""

    why: str
    balance_error: float | None = None
    throttled_f1: float | None = None
    queue_ratio: float | None = None


def check(history: DeviceHistory, today: Storage, rows: core.Followed | str) -> SelfCheck:
    """Compares. `rows`: of `FleetDemands.follow`."""
    if isinstance(rows, str):
        return SelfCheck(rows)
    simulated = {name: np.frombuffer(rows[name]) for name in ("balance_percent", "throttled_s", "queue")}
    over = _over_limits(history, today)
    balance_error = _balance_error(history, simulated["balance_percent"])
    waited = simulated["throttled_s"] > WAITED_SHARE * history.grain_s
    f1 = _agreement(history, waited)
    ratio = _queue_ratio(history, simulated["queue"])
    found = {"balance_error": balance_error, "throttled_f1": f1, "queue_ratio": ratio}
    if over > MOST_OVER:
        return SelfCheck(f"it delivered {over:.2f} times what {today.text} can give", **found)
    if balance_error is not None and balance_error > MOST_BALANCE_ERROR:
        return SelfCheck(
            f"its simulated credit balance is off by {balance_error:.1f} percentage points in the median", **found
        )
    if f1 is not None and f1 < LEAST_F1:
        why = f"simulated and recorded throttling agree too little: their F1 is {f1:.2f}, and {LEAST_F1:g} is the least"
        return SelfCheck(why, **found)
    if f1 is None and waited.mean() > MOST_UNFLAGGED:
        share = in_percent(float(waited.mean()))
        why = f"simulated, its requests wait for a limit {share} of the time, and CloudWatch's checks do not show it"
        return SelfCheck(why, **found)
    if ratio is not None and not 1 / QUEUE_FACTOR <= ratio <= QUEUE_FACTOR:
        return SelfCheck(f"its simulated queue is {_times(ratio)} times as long as the recorded one", **found)
    return SelfCheck("", **found)


def _times(ratio: float) -> str:
    """A factor with two figures, never as a power of ten."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _over_limits(history: DeviceHistory, today: Storage) -> float:
    """The highest delivered rate over what the storage can give at its best."""
    limits = holding(today.text)
    iops, bytes_s = history.given_iops, history.given_bytes_s
    over = [float(np.max(iops / limits.burst_iops)), float(np.max(bytes_s / limits.burst_bytes_s))]
    with np.errstate(invalid="ignore"):
        gone = history.balance_percent <= GONE_PERCENT
    if gone.sum() >= LEAST_FLAGGED:
        # Without credits there is the baseline and no more; the median, because a period may begin
        # with the last of the credits.
        over.append(float(np.median(iops[gone])) / limits.iops)
    return max(over)


def _balance_error(history: DeviceHistory, simulated: np.ndarray) -> float | None:
    both = ~np.isnan(history.balance_percent) & ~np.isnan(simulated)
    if np.isnan(simulated).all() and (~np.isnan(history.balance_percent)).any():
        return 100.0  # CloudWatch publishes a balance of a storage that has none
    if not both.any():
        return None
    apart = np.abs(history.balance_percent[both] - simulated[both])
    # Hours at 100 % agree by themselves: only where one of the two has moved is there evidence.
    moved = (history.balance_percent[both] < 99.0) | (simulated[both] < 99.0)
    return float(np.median(apart[moved])) if moved.any() else 0.0


def _agreement(history: DeviceHistory, waited: np.ndarray) -> float | None:
    known = ~np.isnan(history.exceeded)
    flagged = history.exceeded[known] > 0
    if flagged.sum() < LEAST_FLAGGED:
        return None
    hits = float((flagged & waited[known]).sum())
    return 2 * hits / float(flagged.sum() + waited[known].sum())


def _queue_ratio(history: DeviceHistory, simulated: np.ndarray) -> float | None:
    known = ~np.isnan(history.queue)
    if not known.any():
        return None
    recorded, made = float(history.queue[known].mean()), float(simulated[known].mean())
    return made / recorded if recorded >= LEAST_QUEUE and made >= LEAST_QUEUE else None
