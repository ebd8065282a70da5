"""Derives the 95th percentile of response times over their mean.

TPC-C's depends on the pages a transaction reads: a stock level reads 190 pages and a delivery to a
warehouse that has left the cache as many, a payment three: the colder the cache, the more
transactions are slow, until one of them is the 95th percentile. A cold start passes through that,
and so shows what a smaller cache does once it is full.

Reads are the storage's part of the response time. The other part are statements, of which the
kinds have different numbers: where clients hold a run, its spread is theirs. A transaction of many
statements has many reads, so the distances of both parts from their means add. So in MyRocks; what
is known of InnoDB below a run's reads is the spread of both together, and stays that.

InnoDB's page cleaner looks at pages from the end of the list by age in a row and writes the dirty
ones at once (`Burst` of the core): as many with any number of clients, so that the fewer these are,
the further their 95th percentile lies above the mean. The curve is that without this wait, whose
distance is taken from the measured ones as squares. A full redo log makes the server write pages
at innodb_io_capacity's pace instead.

Transactions of a sysbench script are all alike. Once its cache evicts, some wait behind a burst of
page writes, which takes the device as long with any mean: the fewer clients there are, the fewer
meet one. The spread of those that only read and this wait are independent, so that their distances
from the mean add as squares (`Burst` and `ResponseSpread::behind_burst` of the core). While the
cache fills there are no bursts: a cold start tells the two apart.
"""

from __future__ import annotations

import numpy as np

from headrace.base import core
from headrace.calibration.observations import Observation
from headrace.calibration.stops import stops_clients

# Ratio of the pages read per transaction from one point to the next, and least rows of one.
# Guesses: the curve is steep within a factor of two, and the median of 30 rows is good to
# 1.25 sd / sqrt(30), a tenth where a second's percentile scatters by half of itself.
STEP, LEAST_ROWS = 1.25, 30
# sysbench-tpcc on InnoDB at fewer pages than the runs read: fitted to the published cold starts on
# c5 of 2018. Stock levels are 4.3 % of its transactions, so the 95th percentile jumps where 0.7 %
# of them are deliveries to a warehouse that has left the cache. Only its form is taken, in
# proportion to where the runs end. Those with full caches (the first two) are less what 72 clients
# wait behind SCANNED_PAGES: half of these are 0.3 of the mean.
STANDARD = ((16.0, 2.26), (18.0, 3.18), (22.0, 4.4), (30.0, 4.6), (42.0, 4.1))
# Default of `innodb_lru_scan_depth`, which runs do not describe. Those whose evicted pages are
# nearly all dirty (sysbench OLTP of 2021) tell bursts of 1,250 to 1,400 pages.
SCANNED_PAGES = 1024.0
# A curve that stays within this share of its end is replaced by one figure.
FLAT = 0.1
# Statements of sysbench-tpcc's transactions (`tpcc_run.lua`): of 23, a delivery has 72 and ten new
# orders have 4 for each of 5 to 15 lines and 7 besides, so that the 95th percentile is a new order
# of 15 lines: 67 where the mean is 28.5. With those of a lonely client on RDS 2020 (docs/semantics)
# 0.79 ms each, and 2.75 ms of every transaction alike, that is 2.2 times the mean.
STATEMENTS_P95 = (2.75 + 0.79 * 67.0) / (2.75 + 0.79 * 28.5)
# Before a run the statements' spread is known to 0.1 of the mean and the storage's to 0.5
# (guesses): the ratio of the two. A run tells little of the storage's part if that is small.
STATEMENTS_OVER_STORAGE = 0.2


def derive_response_curve(database: dict, observations: list[Observation]) -> dict:
    """Returns keys of the core's shape: `response`, points of pages read per transaction (modelled)
    and the 95th percentile of response times over their mean. The logarithms of several runs are
    averaged where they overlap.

    Under sysbench-tpcc InnoDB's curve excludes the wait behind `burst_pages` and is continued below
    the runs like the standard's; MyRocks' is that of the storage's part of the time, and
    `statements_p95` is the ratio of the other part. Empty if no run has percentiles, and outside
    sysbench-tpcc if no curve departs from its end by more than FLAT.
    """
    tpcc = bool(observations) and observations[0].run.benchmark.name == "sysbench-tpcc"
    by_part = tpcc and observations[0].run.engine == "myrocks"
    with_rows = [each for each in observations if each.run.p95_ms is None]
    burst_pages = _count_burst_pages(database, with_rows) if tpcc and not by_part else 0.0
    curves = [_measure_curve(database, each, by_part, burst_pages) for each in with_rows]
    curves = [curve for curve in curves if len(curve)]
    if not curves:
        return {}
    places = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    points = [[float(reads), _average_at(curves, reads)] for reads in places]
    if by_part:
        return {"response": points, "statements_p95": STATEMENTS_P95}
    if tpcc:
        return {"response": _extend_below_runs(points), "burst_pages": burst_pages}
    flat = all(abs(ratio / points[0][1] - 1.0) <= FLAT for _, ratio in points)
    return {} if flat else {"response": points}


# Share of the cache in use from which it counts as full: it never quite reaches 1 (a guess).
FULL_CACHE_SHARE = 0.999
# Least seconds for the median of a percentile (a guess).
LEAST_SECONDS = 5
# Distance of the 95th percentile from the mean, over the mean, of sysbench's transactions that only
# read, where a cold start does not tell it: MySQL's page cleaner from 8.4 writes in rounds of a
# second while the cache fills too. The calibrations of MariaDB 10.11.19 on the lab (2026-11-28 and
# 29, oltp_read_write) tell 0.43 with zipfian and 0.55 with pareto accesses.
READ_SPREAD = 0.5
# A burst of one page, which all clients meet where each writes one: its wait tells how long the
# devices take for a page.
PROBE_PAGES = 1.0


def derive_burst(database: dict, observations: list[Observation]) -> dict:
    """Returns keys of the core's shape for a sysbench script on InnoDB, means over the runs:
    `response`, the spread of transactions that only read (one point), and `burst_pages`, the pages
    that are written at once. Empty for other benchmarks, and if no run has seconds in which the
    cache filled (not needed if `writes_while_filling`) and slower ones in which it was full.
    """
    first = observations[0].run if observations else None
    if first is None or (first.engine, first.benchmark.name) != ("innodb", "sysbench-oltp"):
        return {}
    splits = [split for each in observations if each.run.p95_ms is None and (split := _split_response(database, each))]
    if not splits:
        return {}
    reads, spread, pages = np.mean(np.array(splits), axis=0)
    return {"response": [[float(reads), 1.0 + float(spread)]], "burst_pages": float(pages)}


def writes_while_filling(database: dict) -> bool:
    """Returns whether the page cleaner of a core database writes by the share of dirty pages, in
    rounds, so that it writes while the cache fills too."""
    cleaner = database.get("cleaner")
    return cleaner is not None and not cleaner["holds_age"]


def _split_response(database: dict, observation: Observation) -> tuple[float, float, float] | None:
    """Splits the distance of the 95th percentile of response times from their mean in the second
    half of a run into the spread of transactions that only read and the wait behind a burst of page
    writes, whose squares add.

    Returns the pages that a transaction reads there, the spread as a share of the mean, and the
    pages of a burst. None if the run does not separate the two.
    """
    probe = database | {"shape": database["shape"] | {"response": [[1.0, 1.0]], "burst_pages": PROBE_PAGES}}
    columns = core.mysql_runs(probe, [observation.core_run])[0]
    seconds_per_point = len(observation.seconds_tps) // len(observation.tps)
    full = np.repeat(np.array(columns["cached_share"]) >= FULL_CACHE_SHARE, seconds_per_point)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_ms = observation.run.threads * 1e3 / observation.seconds_tps
        ratio = observation.seconds_p95_ms / mean_ms
    usable = np.isfinite(ratio) & (ratio > 0)
    in_second_half = np.arange(len(ratio)) >= len(ratio) // 2
    filling, settled = usable & ~full & ~in_second_half, usable & full & in_second_half
    in_rounds = writes_while_filling(database)
    shortest = settled if in_rounds else filling
    if min(np.count_nonzero(shortest), np.count_nonzero(settled)) < LEAST_SECONDS:
        return None
    distance = max(0.0, float(np.median(ratio[settled])) - 1.0)
    read_distance = READ_SPREAD if in_rounds else float(np.median(ratio[filling])) - 1.0
    spread = float(np.clip(read_distance, 0.0, distance))
    burst_ms = float(np.sqrt(distance**2 - spread**2) * np.median(mean_ms[settled]))
    half = slice(len(columns["tps"]) // 2, None)
    tps, p95_ms, written = (np.array(columns[name])[half] for name in ("tps", "p95_ms", "written_per_tx"))
    running = observation.run.threads
    running_pages = float(np.median(written)) * running  # written by all clients' transactions
    # Without a spread the probe's percentile is the mean and the wait behind its page.
    page_wait_ms = float(np.median(p95_ms - running * 1e3 / np.maximum(tps, 1e-9)))
    if running_pages < PROBE_PAGES or page_wait_ms <= 0.0 or burst_ms <= 0.0:
        return None
    # A longer wait than any burst's belongs to the spread.
    pages, wait_ms = core.pages_of_burst(burst_ms, page_wait_ms, running_pages)
    spread = float(np.sqrt(max(0.0, distance**2 - (wait_ms / np.median(mean_ms[settled])) ** 2)))
    return float(np.median(np.array(columns["reads_per_tx"])[half])), spread, pages


def _count_burst_pages(database: dict, observations: list[Observation]) -> float:
    """Returns the number of dirty pages among SCANNED_PAGES, the mean over the runs: each page read
    evicts another, and the share of dirty ones is that of pages written over pages read. 0 if the
    server writes them by the age of the redo log."""
    if stops_clients(database) or not observations:
        return 0.0
    shares = []
    for columns in core.mysql_runs(database, [observation.core_run for observation in observations]):
        half = slice(len(columns["tps"]) // 2, None)
        read, written = (float(np.median(columns[name][half])) for name in ("reads_per_tx", "written_per_tx"))
        shares.append(min(1.0, written / max(read, 1e-9)))
    return SCANNED_PAGES * float(np.mean(shares))


def _extend_below_runs(points: list[list[float]]) -> list[list[float]]:
    """Returns the points of a response curve with those of STANDARD below the first added, in
    proportion to it: a run from a cold start never reads fewer pages than at its end."""
    reads, ratio = points[0]
    by = ratio / float(np.interp(reads, *np.array(STANDARD).T))
    return [*([less, max(1.0, usual * by)] for less, usual in STANDARD if less < reads), *points]


def _average_at(curves: list[np.ndarray], reads: float) -> float:
    """Returns the geometric mean, at least 1, of the curves that cover `reads` pages per
    transaction."""
    covering = [curve for curve in curves if curve[0, 0] <= reads <= curve[-1, 0]]
    logarithms = [np.interp(np.log(reads), np.log(curve[:, 0]), np.log(curve[:, 1])) for curve in covering]
    return max(1.0, float(np.exp(np.mean(logarithms))))


def _measure_curve(database: dict, observation: Observation, by_part: bool, burst_pages: float) -> np.ndarray:
    """Returns the response curve of a run, rows of pages read per transaction and ratio of the 95th
    percentile to the mean, ascending: the medians of its second half, the same half a step further,
    and each further step with enough rows. With `by_part` the ratio is that of the storage's part
    of the time, otherwise that of transactions that do not wait behind `burst_pages`."""
    rows_per_window = len(observation.seconds_tps) // len(observation.tps)
    # A spread that is none in the storage's part and twice the mean in the other shows that part;
    # one that is none at all shows the wait behind pages that are written at once.
    spread = {"statements_p95": 2.0} if by_part else {"burst_pages": burst_pages}
    probe = database | {"shape": database["shape"] | {"response": [[1.0, 1.0]]} | spread}
    columns = core.mysql_runs(probe, [observation.core_run])[0]
    mean_ms = observation.run.threads * 1e3 / np.maximum(columns["tps"], 1e-9)
    modelled_distance = np.array(columns["p95_ms"]) / mean_ms - 1.0
    reads = np.repeat(np.array(columns["reads_per_tx"]), rows_per_window)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = observation.seconds_p95_ms * observation.seconds_tps / (observation.run.threads * 1e3)
    usable = np.isfinite(ratio) & (ratio > 0) & (reads > 0)
    if by_part:
        own_share = np.repeat(np.clip(modelled_distance, 0.0, 1.0), rows_per_window)
        part = 1.0 - own_share
        # The most likely spread: the weight would be 1 / part without other knowledge.
        weight = part / (part**2 + (STATEMENTS_OVER_STORAGE * own_share) ** 2)
        ratio = np.maximum(1.0, STATEMENTS_P95 + weight * (ratio - STATEMENTS_P95))
    else:
        ratio = 1.0 + np.sqrt(
            np.maximum(np.maximum(ratio - 1.0, 0.0) ** 2 - np.repeat(modelled_distance, rows_per_window) ** 2, 0.0)
        )
    second_half = usable & (np.arange(len(ratio)) >= len(ratio) // 2)
    if np.count_nonzero(second_half) < LEAST_ROWS:
        return np.empty((0, 2))
    end, settled = float(np.median(reads[second_half])), float(np.median(ratio[second_half]))
    points = [[end, settled], [end * STEP**0.5, settled]]
    steps = np.round(np.log(np.maximum(reads, end) / end) / np.log(STEP))
    for step in range(1, int(steps[usable].max()) + 1):
        in_step = usable & ~second_half & (steps == step)
        if np.count_nonzero(in_step) >= LEAST_ROWS:
            points.append([float(np.median(reads[in_step])), float(np.median(ratio[in_step]))])
    return np.array(points)
