"""Clients that wait for a volume at its limit: as many as were recorded, as a closed load.

The threads of a database wait for their answers. At a limit they do not pile up: the queue is as
long as there are threads, and says nothing of how much more was asked. So such periods are compared
with a closed load of as many requests outstanding, on the same storage (`simulate`), and not with
the queue of an open one, which grows without end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headrace.base.storage import Storage
from headrace.base.units import KIB
from headrace.errors import HeadraceError
from headrace.operate.fleet.history import DeviceHistory
from headrace.simulation.demand import simulate
from headrace.workload import ClosedWorkload

# An I/O that takes this many times its own time waits for as long as it is served, or longer; ours.
WAITS_FACTOR = 2.0
# Requests outstanding in the mean of a period, before anything is read from their number; ours.
LEAST_QUEUE = 1.0
# Periods that must show it: an hour of five minutes, as for the checks (`selfcheck`); ours.
LEAST_PERIODS = 12
# Factor on the demand at a limit, whose excess is not recorded: the margin that the planner takes
# for points at a limit (`OpenWorkload.uncensor`), a guess there as here.
MARGIN = 1.25
SIMULATED_S = 300.0  # a period of CloudWatch
# The best of the periods at a limit gives the limit: the others met it for a part of the time.
BEST_PERCENTILE = 90.0
# I/O sizes are rounded to this many steps an octave, so that like volumes are simulated once; ours.
SIZES = 8
# More requests than this in the queue are not those of waiting clients. Such a queue grows without
# end, and its growth shows the demand. Servers have fewer threads than that; ours.
MOST_CLIENTS = 4_096


@dataclass(frozen=True)
class WaitingClients:
    """Requests that waited for a volume at its limit.

    `waits`: the points in which they did. `queue`: how many were outstanding, the median.
    `given_iops`: IOPS of the best of these points; `iops`: those of a closed load of as many
    requests, the lower and the higher of without and with credits. `today_ms`: time of an I/O."""

    waits: np.ndarray
    queue: float
    given_iops: float
    iops: tuple[float, float]
    today_ms: float
    read_share: float
    io_kib: float

    def estimate_ms(self, storage: str, instance: str | None, as_of: str | None) -> float | None:
        """Returns the time of an I/O, ms, on another storage with as many outstanding and no
        credits; None where the core refuses it."""
        outcome = _estimate_closed_load(storage, instance, as_of, self.queue, self.io_kib, self.read_share, 0.0)
        return None if outcome is None else outcome[1]


def find_waiting_clients(
    history: DeviceHistory, today: Storage, instance: str | None, as_of: str | None
) -> WaitingClients | None:
    """Returns the requests that waited at a limit; None where none did, for less than an hour of
    points, where no queue was recorded, or where it is too long to be one of clients."""
    with np.errstate(invalid="ignore"):
        seen = history.censored & (history.queue >= LEAST_QUEUE) & (history.given_iops > 0)
    if seen.sum() < LEAST_PERIODS:
        return None
    reads, writes = (float(history.columns[f"{op}_per_s"][seen].sum()) for op in ("reads", "writes"))
    io_kib = float(history.given_bytes_s[seen].sum() / history.given_iops[seen].sum()) / KIB
    share = reads / (reads + writes) if reads + writes > 0 else 0.5
    alone = _estimate_closed_load(today.text, instance, as_of, 1.0, io_kib, share, 100.0)
    if alone is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = seen & (1e3 * history.queue / history.given_iops >= WAITS_FACTOR * alone[1])
    if waits.sum() < LEAST_PERIODS:
        return None
    queue = float(np.median(history.queue[waits]))
    if queue > MOST_CLIENTS:
        return None
    spent, full = (
        _estimate_closed_load(today.text, instance, as_of, queue, io_kib, share, balance) for balance in (0.0, 100.0)
    )
    if spent is None or full is None:
        return None
    given = float(np.percentile(history.given_iops[waits], BEST_PERCENTILE))
    iops = (min(spent[0], full[0]), max(spent[0], full[0]))
    return WaitingClients(waits, queue, given, iops, 1e3 * queue / given, share, io_kib)


def raise_demand(history: DeviceHistory, clients: WaitingClients | None) -> dict[str, np.ndarray]:
    """Returns the columns of the demand to plan for: with MARGIN where clients waited."""
    if clients is None:
        return history.columns
    factor = np.where(clients.waits, MARGIN, 1.0)
    return history.columns | {name: history.columns[name] * factor for name in ("reads_per_s", "writes_per_s")}


def _estimate_closed_load(
    storage: str, instance: str | None, as_of: str | None, queue: float, io_kib: float, share: float, balance: float
) -> tuple[float, float] | None:
    """Returns IOPS and ms of an I/O of a closed load, from a balance in percent; None where the
    core refuses it. Size and mix are rounded to some per cent."""
    rounded = 2.0 ** (round(SIZES * np.log2(max(io_kib, 0.5))) / SIZES)
    return _simulate_closed_load(
        storage, instance, as_of, max(1, round(queue)), max(0.5, rounded), round(100 * share), balance
    )


@lru_cache(maxsize=4_096)  # of a fleet's volumes at a limit; a guess
def _simulate_closed_load(
    storage: str, instance: str | None, as_of: str | None, depth: int, io_kib: float, reads: int, balance: float
) -> tuple[float, float] | None:
    """Simulates a closed load of `depth` requests outstanding for SIMULATED_S seconds, and returns
    its IOPS and the mean ms of an I/O; None where the core refuses it. `reads`: percent of the
    I/Os; `balance`: credits at the start, percent."""
    load = ClosedWorkload(
        name="waiting", rw="randrw", bs_kib=round(2 * io_kib) / 2, iodepth=depth, numjobs=1, rwmixread=reads
    )
    settings = {"instance": instance, "as_of": as_of, "start_balance": balance}
    try:
        run = simulate(load, storage, seconds=SIMULATED_S, form="interval", **settings)
    except HeadraceError:
        return None
    mean_ms = run.summary["mean_ms"]
    return None if mean_ms is None else (run.summary["delivered_ios"] / SIMULATED_S, mean_ms)
