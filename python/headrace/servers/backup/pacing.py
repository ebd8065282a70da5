"""Paces a copy: a share of the volume's cap, never below a floor of credits, and no faster than
the load's latency and a replica's lag allow.

Only the reading of the source is paced, before anything is packed. While the copy blocks the
server's commits (mariabackup's last lock), it is not paced.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headrace.base.units import MIB
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.mysql.state import observe
from headrace.servers.backup.targets.target import refuse
from headrace.servers.copies.copy import Pace
from headrace.servers.copies.source import CopySource

# Seconds between two looks at credits, lag and latency. A gp2 volume of 100 GiB at its full burst
# loses 0.05 % of its credits in a second (5.4 million I/Os, 3,000 a second): this is early.
LOOK_S = 0.5
# Above the floor the pace is reduced in proportion within this many percent: a guess. The last
# percent before it is not used, because requests under way are still charged.
MARGIN_PERCENT, GUARD_PERCENT = 5.0, 0.5
# Steps of the pace (guesses): as TCP does, down at once and up slowly; slower still near the pace
# that was too much, so that the load is above its limit for a small part of the time only.
DOWN, UP_SHARE = 0.7, 0.05
NEAR, PROBE_SHARE = 0.85, 0.0025
# Time after which the effect of a step down shows in the volume's metrics, rows of a second, s.
SETTLE_S = 2.5
# The slowest pace that is not a stop: one piece a second.
LEAST_MIB_S = 1.0
# Largest burst of reads, s of the pace: the smaller, the smoother for the load. A volume holds 1/64
# s of its cap ready (crates/model/src/bucket.rs): more makes the load wait.
BURST_S = 0.015
# Latency before the copy, from this many seconds of the volume's metrics, and while it goes on.
BASELINE_ROWS, RECENT_ROWS = 30, 3
FEWEST_ROWS = 5
LATENCIES = ("write_p99_us", "read_p50_us")


@dataclass(frozen=True)
class PaceLimits:
    """The limits of a copy's pace; None for no limit. `share`: of the volume's throughput, 0 to 1;
    `mib_s`: MiB/s. `credit_floor_percent`: lowest percent of every balance that the copy draws on.
    `lag_s`: largest lag of the server as a replica. `latency_ratio`: largest latency of the volume
    divided by that before the copy."""

    share: float | None = None
    mib_s: float | None = None
    credit_floor_percent: float | None = 10.0
    lag_s: float | None = None
    latency_ratio: float | None = None

    def __post_init__(self) -> None:
        """Raises InputError for a limit that is not finite or outside of its range."""
        for name, value, low, high in (
            ("share", self.share, 0.0, 1.0),
            ("mib-s", self.mib_s, 0.0, 1e6),
            ("credit-floor", self.credit_floor_percent, -1e-9, 99.0),
            ("lag-s", self.lag_s, 0.0, 1e9),
            ("latency-ratio", self.latency_ratio, 1.0, 1e6),
        ):
            if value is not None and not (math.isfinite(value) and low < value <= high):
                rule = f"is above {max(low, 0):g} and at most {high:g}"
                raise refuse.input(f"--{name} {value:g}", rule, "Leave it out for no such limit.")


@dataclass(frozen=True)
class PaceSignals:
    """The latest measurements that decide a pace; None: unknown, or not limited. `credit_percent`:
    the lowest balance that the copy draws on. `latency_ratio`: latency divided by that before."""

    credit_percent: float | None = None
    lag_s: float | None = None
    latency_ratio: float | None = None


def choose_rate(
    rate: float, most: float, limits: PaceLimits, seen: PaceSignals, ceiling: float = math.inf
) -> tuple[float, str]:
    """Returns the next pace, MiB/s, and what decides it (cap, credits, lag, latency or rising); a
    pace of 0 stops the copy. `rate`: the present pace; `most`: the largest one; `ceiling`: one at
    which lag or latency was above its limit; all in MiB/s."""
    allowed, why = most, "cap"
    floor = limits.credit_floor_percent
    if floor is not None and seen.credit_percent is not None:
        spare_percent = seen.credit_percent - floor - GUARD_PERCENT
        if spare_percent <= 0.0:
            return 0.0, "credits"
        if spare_percent < MARGIN_PERCENT:
            allowed, why = most * spare_percent / MARGIN_PERCENT, "credits"
    over = []
    if limits.lag_s is not None and seen.lag_s is not None and seen.lag_s > limits.lag_s:
        over.append("lag")
    most_ratio, ratio = limits.latency_ratio, seen.latency_ratio
    if most_ratio is not None and ratio is not None and ratio > most_ratio:
        over.append("latency")
    quick = rate + UP_SHARE * most
    near = rate < ceiling < quick / NEAR
    next_mib_s = max(LEAST_MIB_S, rate * DOWN) if over else rate + PROBE_SHARE * ceiling if near else quick
    if next_mib_s < allowed:
        return next_mib_s, over[0] if over else "rising"
    return allowed, why


@dataclass
class PaceReport:
    """The report of a pace. `held_s`: how long it has delayed the copy, s, by reason;
    `slowest_mib_s`: the slowest pace; `lowest_credit_percent`: the lowest balance."""

    held_s: dict[str, float] = field(default_factory=dict)
    slowest_mib_s: float | None = None
    lowest_credit_percent: float | None = None


class Pacer(Pace):
    """Delays a copy to a pace, from when it is entered. `look` returns the signals; the pacer's
    thread calls it every LOOK_S seconds, so a slow answer does not delay the copy."""

    def __init__(self, limits: PaceLimits, most_mib_s: float, look: Callable[[], PaceSignals]) -> None:
        """Takes the volume's throughput (`most_mib_s`, MiB/s), which the limits may lower. With a
        limit of lag or latency the pace begins at a fifth of it."""
        self.limits, self.look = limits, look
        shares = [most_mib_s * limits.share] if limits.share is not None else []
        shares += [limits.mib_s] if limits.mib_s is not None else []
        self.most = min([most_mib_s, *shares])
        # With a limit of latency or lag it begins slowly: its effect on them is unknown.
        careful = limits.latency_ratio is not None or limits.lag_s is not None
        # At the volume's own cap the volume delays the copy; waiting here too would only lose time.
        self._capped = bool(shares)
        self.gentle = self._capped or careful
        self._ceiling, self._lowered = math.inf, -math.inf
        self.rate = self.most * (0.2 if careful else 1.0)
        self.why, self.report = "cap", PaceReport()
        self._free = threading.Event()
        self._ended = threading.Event()
        self._allowance, self._at = 0.0, time.monotonic()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Pacer:
        self._adjust()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._free.set()
        self._thread.join(2 * LOOK_S + 5.0)

    def free(self) -> None:
        """Ends the pace for good, because the copy blocks the server's commits."""
        self._free.set()

    def keep_pace(self, count: int) -> None:
        """Waits as long as the pace demands, after `count` bytes were read."""
        self._allowance -= count / MIB
        while not self._free.is_set():
            now = time.monotonic()
            with self._lock:
                rate, why = self.rate, self.why
            if why == "cap" and not self._capped:
                self._allowance, self._at = 0.0, now
                return
            earned = (now - self._at) * rate
            self._allowance = min(self._allowance + earned, max(1.0, rate * BURST_S))
            self._at = now
            if self._allowance >= 0.0:
                return
            wait = min(LOOK_S, -self._allowance / rate) if rate > 0 else LOOK_S
            self._free.wait(wait)
            self.report.held_s[why] = self.report.held_s.get(why, 0.0) + time.monotonic() - now

    def _watch(self) -> None:
        """Adjusts the pace every LOOK_S seconds, until the copy has ended."""
        while not self._ended.wait(LOOK_S):
            self._adjust()

    def _adjust(self, at: float | None = None) -> None:
        """Reads the signals, sets the next pace from them, and adds it to the report; signals that
        cannot be read change nothing. `at`: monotonic time, s, None for now."""
        try:
            seen = self.look()
        except HeadraceError:
            return  # the copy itself will say what is wrong
        now = time.monotonic() if at is None else at
        rate, why = choose_rate(self.rate, self.most, self.limits, seen, self._ceiling)
        if why in ("lag", "latency"):
            if now - self._lowered < SETTLE_S:
                return
            self._ceiling, self._lowered = self.rate, now
        elif rate > self._ceiling:
            self._ceiling = math.inf
        with self._lock:
            self.rate, self.why = rate, why
        slowest, lowest = self.report.slowest_mib_s, self.report.lowest_credit_percent
        self.report.slowest_mib_s = rate if slowest is None else min(slowest, rate)
        if seen.credit_percent is not None:
            self.report.lowest_credit_percent = min(seen.credit_percent, lowest if lowest is not None else 100.0)


# --- signals of the lab ---------------------------------------------------------------------------


class LabSignals:
    """Reads credits of the volumes, lag of the server, and latency of its volume."""

    def __init__(self, source: CopySource, limits: PaceLimits, target_volume: str | None = None) -> None:
        """Measures the latency before the copy (`before_ms`) if it is limited; None with too little
        load. `target_volume`: the volume that the copy is written to, else None. Raises InputError
        for a server outside of the lab."""
        server = source.server
        if server is None or server.volumes.data is None:
            rule = "is not a server of the lab, so the credits and latency of its volume cannot be seen"
            raise refuse.input(source.address.label, rule, "Pace it by --mib-s.")
        self.lab: Lab = server.lab
        self.source, self.limits = source, limits
        self.volume: str = server.volumes.data
        self.volumes = [volume for volume in (server.volumes.data, server.volumes.log, target_volume) if volume]
        self._latency_column: str | None = None
        self.before_ms = self._measure_latency(BASELINE_ROWS) if limits.latency_ratio is not None else None

    def __call__(self) -> PaceSignals:
        """Reads the signals that have a limit; the others are None."""
        ratio = None
        if self.limits.latency_ratio is not None and self.before_ms:
            now = self._measure_latency(RECENT_ROWS)
            ratio = None if now is None else now / self.before_ms
        lag = self._read_lag() if self.limits.lag_s is not None else None
        credit = self.read_credit_percent() if self.limits.credit_floor_percent is not None else None
        return PaceSignals(credit, lag, ratio)

    def read_credit_percent(self) -> float | None:
        """Returns the lowest balance that the copy draws on, percent; None without credits."""
        balances: list[float] = []
        for volume in self.volumes:
            balance = self.lab.balance(volume)
            balances += [member["percent"] for member in balance["members"] if member is not None]
            instance = balance["instance"]
            if instance is not None:
                both = (instance["iops_percent"], instance["bytes_percent"])
                balances += [percent for percent in both if percent is not None]
        return min(balances, default=None)

    def _measure_latency(self, seconds: int) -> float | None:
        """Returns the p99 of the volume's writes, ms: the median of the last `seconds`. The copy
        only reads, so the writes are the load's, and wait in the same queue. If the load writes
        nothing, it is the p50 of reads: most of them are the load's. None with too few of both. The
        first call that has enough chooses between the two for all later ones."""
        metrics = self.lab.metrics(self.volume, resolution="second", last=seconds)
        columns = {name: index for index, name in enumerate(metrics["columns"])}
        present = {name: [row[columns[name]] for row in metrics["rows"]] for name in LATENCIES}
        present = {name: [value for value in values if value is not None] for name, values in present.items()}
        if self._latency_column is None:
            self._latency_column = next((name for name in LATENCIES if len(present[name]) >= FEWEST_ROWS), None)
        if self._latency_column is None:
            return None
        values = present[self._latency_column]
        return statistics.median(map(float, values)) / 1000 if values else None

    def _read_lag(self) -> float | None:
        """Returns the largest lag of the server's channels, s (`find_largest_lag_s`)."""
        with self.source.connect(10.0) as connection:
            return find_largest_lag_s([channel.seconds_behind for channel in observe(connection).channels])


def find_largest_lag_s(behind_s: Sequence[int | None]) -> float | None:
    """Returns the largest of these lags of channels, s: infinite if one of them is unknown (None),
    as that channel is stopped or broken and falls behind unseen; None without channels."""
    return max((math.inf if lag_s is None else float(lag_s) for lag_s in behind_s), default=None)


def make_lab_pacer(source: CopySource, limits: PaceLimits, target_volume: str | None = None) -> Pacer:
    """Returns a pacer for a server of the lab. Raises InputError for a server elsewhere,
    CouldNotRun if its latency is limited and its load was too small to measure that."""
    signals = LabSignals(source, limits, target_volume)
    cap = signals.lab.describe(signals.volume)["throughput_mib_s"]
    if limits.latency_ratio is not None and signals.before_ms is None:
        rule = f"had too little load in the last {BASELINE_ROWS} s to know its latency by"
        raise refuse.run(source.name, rule, "Leave --latency-ratio out, or begin while the load runs.")
    return Pacer(limits, float(cap), signals)
