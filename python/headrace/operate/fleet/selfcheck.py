"""Checks whether the model holds for a volume: its recorded demand, simulated on its storage,
against CloudWatch's points.

Advice rests on a simulation of another storage. If the simulation of the *present* storage
disagrees with the recording, the inventory, the points or the model are wrong for this volume, and
no advice is given. Bounds of the balance: the specification of this check; the others are ours.

If clients waited at a limit, the recording is compared with a closed load of as many (`closed`):
the queue of an open simulation grows without end there. Points that were not published count
neither for nor against.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.base import core
from headrace.base.storage import Storage
from headrace.base.units import KIB, format_percent
from headrace.observe.evidence.limits import MOST_OVER, get_holding_limits
from headrace.operate.fleet.closed import WaitingClients
from headrace.operate.fleet.history import DeviceHistory

MOST_BALANCE_ERROR = 5.0  # points of a percent, median
# Least agreement on throttled periods (F1), computed if at least this many periods were flagged.
LEAST_F1, LEAST_FLAGGED = 0.5, 12
# A period counts as throttled where requests waited for more than half of it: what CloudWatch's
# check was found to mean (docs/guide/metrics.md).
WAITED_SHARE = 0.5
# Least share of its baseline that a volume without credits delivers in the median. At less, a gp2
# of 100 GiB earns 60 credits a second: 1 % of 5.4 million within a quarter of an hour
# (EBS user guide, gp2 volumes: I/O credits).
LEAST_WITHOUT_CREDITS = 0.8
# Without flags for it, requests may wait in at most this share of the periods.
MOST_UNFLAGGED = 0.02
# Simulated over recorded queue, of means, where both are at least this deep.
QUEUE_FACTOR, LEAST_QUEUE = 4.0, 1.0
# A closed load of as many clients may get this many times what was recorded: the limit may have
# been met for a part of each period only. Below 1.5, since the next steps of IOPS that are bought
# are often that far; ours.
CLOSED_FACTOR = 1.25
# A balance above this is full: CloudWatch rounds. Volumes whose baseline is as high as their burst
# spend no credits, and are published as 100 % or not at all (EBS user guide, gp2 volumes).
FULL_PERCENT = 99.0


@dataclass(frozen=True)
class SelfCheck:
    """Figures of the check, as of `VolumeAnswer`. `why`: why the volume is not modelled; "" if it
    is."""

    why: str
    balance_error: float | None = None
    throttled_f1: float | None = None
    queue_ratio: float | None = None


def check(
    history: DeviceHistory,
    today: Storage,
    rows: core.Followed | str,
    clients: WaitingClients | None = None,
    *,
    as_of: str | None,
) -> SelfCheck:
    """Compares simulation and recording. `rows`: the simulation, of `FleetDemands.follow` (a text:
    why there is none); `clients`: those that waited at a limit; `as_of`: the day of the storage's
    limits, None: the newest."""
    if isinstance(rows, str):
        return SelfCheck(rows)
    simulated = {name: np.frombuffer(rows[name]) for name in ("balance_percent", "throttled_s", "queue")}
    balance_error = _compute_balance_error(history, simulated["balance_percent"])
    waited = simulated["throttled_s"] > WAITED_SHARE * history.grain_s
    if clients is not None:
        waited = waited | clients.waits
    f1 = _compute_agreement(history, waited)
    ratio = _compute_queue_ratio(history, simulated["queue"], waited)
    figures = {"balance_error": balance_error, "throttled_f1": f1, "queue_ratio": ratio}
    why = (
        _describe_excess(history, today, as_of)
        or _describe_shortfall(history, today, as_of)
        or _describe_balance_gap(balance_error)
        or _describe_throttling_gap(history, waited, f1)
        or _describe_clients_gap(clients)
        or _describe_queue_gap(ratio)
    )
    return SelfCheck(why, **figures)


def _describe_balance_gap(error: float | None) -> str:
    if error is None or error <= MOST_BALANCE_ERROR:
        return ""
    return f"its simulated credit balance is off by {error:.1f} percentage points in the median"


def _describe_throttling_gap(history: DeviceHistory, waited: np.ndarray, f1: float | None) -> str:
    """Returns in words that simulation and recording disagree on when the volume was throttled, or
    that no metric was recorded that would tell; "" where they agree."""
    if f1 is not None:
        agreement = f"their F1 is {f1:.2f}, and {LEAST_F1:g} is the least"
        return f"simulation and CloudWatch disagree on when it was throttled: {agreement}" if f1 < LEAST_F1 else ""
    # The checks tell of the limits of the volume, and not of those of the instance.
    open_waits = waited if history.at_instance is None else waited & ~history.at_instance
    checked = ~np.isnan(history.exceeded)
    contradicted = open_waits & checked
    if contradicted.mean() > MOST_UNFLAGGED:
        share = format_percent(float(contradicted.mean()))
        return f"simulated, its requests wait for a limit {share} of the time, and CloudWatch's checks do not show it"
    silent = open_waits & ~checked & ~history.censored & np.isnan(history.queue)
    if silent.mean() > MOST_UNFLAGGED:
        share = format_percent(float(silent.mean()))
        return (
            f"simulated, its requests wait for a limit {share} of the time, and nothing that was recorded says whether they "
            "did: import VolumeQueueLength or VolumeIOPSExceededCheck too"
        )
    return ""


def _describe_clients_gap(clients: WaitingClients | None) -> str:
    """Returns in words that as many clients would get more IOPS than they got, so that the limit
    was another one; "" where they would not."""
    if clients is None or clients.given_iops * CLOSED_FACTOR >= clients.iops[0]:
        return ""
    return (
        f"with {clients.queue:,.0f} I/Os outstanding it gave {clients.given_iops:,.0f} IOPS, and simulated as many get "
        f"{clients.iops[0]:,.0f}"
    )


def _describe_queue_gap(ratio: float | None) -> str:
    if ratio is None or 1 / QUEUE_FACTOR <= ratio <= QUEUE_FACTOR:
        return ""
    return f"its simulated queue is {_format_factor(ratio)} times as long as the recorded one"


def _format_factor(ratio: float) -> str:
    """Returns a factor with two figures, never as a power of ten."""
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _describe_excess(history: DeviceHistory, today: Storage, as_of: str | None) -> str:
    """Returns in words that it delivered more than the storage can give; "" where it did not."""
    limits = get_holding_limits(today.text, as_of=as_of)
    iops, bytes_s = history.given_iops, history.given_bytes_s
    over = [limits.find_nearest_limit(float(np.max(iops)), float(np.max(bytes_s))).times]
    gone = history.without_credits
    if gone.sum() >= LEAST_FLAGGED:
        # Without credits there is the baseline and no more; the median, because a period may begin
        # with the last of the credits.
        over.append(float(np.median(iops[gone])) / limits.iops)
    return f"it delivered {max(over):.2f} times what {today.text} can give" if max(over) > MOST_OVER else ""


def _describe_shortfall(history: DeviceHistory, today: Storage, as_of: str | None) -> str:
    """Returns in words that it delivered less than its baseline while its credits were gone, though
    they would have come back; "" where it did not, and for arrays: a stripe has the rate of its
    slowest member."""
    limits = get_holding_limits(today.text, as_of=as_of)
    gone = history.without_credits
    if len(today.members) > 1 or limits.credit_unit != "ios" or gone.sum() < LEAST_FLAGGED:
        return ""
    charged = np.maximum(history.given_iops, history.given_bytes_s / (limits.io_kib * KIB))[gone]
    share = float(np.median(charged)) / limits.iops
    if share >= LEAST_WITHOUT_CREDITS:
        return ""
    return f"its credits are gone, and it delivered {share:.2f} times what {today.text} gives without credits"


def _compute_balance_error(history: DeviceHistory, simulated: np.ndarray) -> float | None:
    """Returns by how many percentage points the simulated credit balance is off in the median; 100
    if CloudWatch says credits were spent and the storage has none; None where they cannot be
    compared."""
    both = ~np.isnan(history.balance_percent) & ~np.isnan(simulated)
    if np.isnan(simulated).all():
        with np.errstate(invalid="ignore"):
            spent = (history.balance_percent < FULL_PERCENT).any()
        return 100.0 if spent else None  # CloudWatch says that a storage without credits spent some
    if not both.any():
        return None
    apart = np.abs(history.balance_percent[both] - simulated[both])
    # Hours at 100 % always agree: only where one of the two has informative is there evidence.
    informative = (history.balance_percent[both] < FULL_PERCENT) | (simulated[both] < FULL_PERCENT)
    return float(np.median(apart[informative])) if informative.any() else 0.0


def _compute_agreement(history: DeviceHistory, waited: np.ndarray) -> float | None:
    """Returns the F1 of the periods in which it was throttled, as simulated and as recorded: by the
    checks, or where none was published by credits that were gone and rates at a limit."""
    comparable = ~np.isnan(history.exceeded) | history.throttled
    flagged = history.throttled & (np.isnan(history.exceeded) | (history.exceeded > 0))
    if flagged.sum() < LEAST_FLAGGED:
        return None
    hits = float((flagged & waited & comparable).sum())
    return 2 * hits / float(flagged.sum() + (waited & comparable).sum())


def _compute_queue_ratio(history: DeviceHistory, simulated: np.ndarray, waited: np.ndarray) -> float | None:
    """Returns the mean simulated queue divided by the recorded one, of periods without waits for a
    limit; None where too few are comparable, or a queue is short."""
    comparable = ~np.isnan(history.queue) & ~waited & ~history.censored
    if comparable.sum() < LEAST_FLAGGED:
        return None
    recorded, modelled = float(history.queue[comparable].mean()), float(simulated[comparable].mean())
    return modelled / recorded if recorded >= LEAST_QUEUE and modelled >= LEAST_QUEUE else None
