"""Follows a target tick by tick: each tick with what the seconds before it say becomes a moment."""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from headrace.base import core
from headrace.base.caps import OVER
from headrace.base.credits import CreditsLeft, Emptying
from headrace.base.units import MIB, US_PER_MS, US_PER_S
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import Row, SeenVolume, SourceFacts, Tick
from headrace.observe.live.nvme import NvmePage
from headrace.operate.watching.judging import Judge
from headrace.operate.watching.moment import InstanceNow, IoNow, Moment, ReplicaNow, ServerNow, VolumeNow

# Columns of a tick with the balances of an instance, by what they are counted in.
INSTANCE = {"ios": "instance_io_balance_percent", "bytes": "instance_byte_balance_percent"}
WAITS = {
    "data files": "data_waiters",
    "redo log": "log_waiters",
    "binlog": "binlog_waiters",
    "row locks": "lock_waiters",
}
IO_WAITS = ("data files", "redo log", "binlog")
MS_PER_S = US_PER_S / US_PER_MS
# Volumes and servers without figures for this long do not answer, s: they are asked each second.
SILENT_S = 3.5
# A replica says its channel only with several; the evidence has one.
DEFAULT_CHANNEL = ""


class TickFollower:
    """Makes a moment of each tick of a source, with what earlier ticks said."""

    def __init__(self) -> None:
        self._emptying: dict[str, tuple[tuple[float, float], Emptying]] = {}
        self._judge = Judge()
        self._totals: dict[str, float] = {}
        self._seen: dict[str, tuple[float, VolumeNow]] = {}
        self._answered: tuple[float | None, Row] = (None, {})

    def see(
        self,
        facts: SourceFacts,
        tick: Tick,
        notes: tuple[str, ...] = (),
        pages: Mapping[str, NvmePage] | None = None,
    ) -> Moment:
        """Takes the next tick, and returns its moment. `pages`: statistics pages by volume's
        name."""
        volumes = tuple(
            self._follow_volume(volume, tick, facts, (pages or {}).get(volume.name)) for volume in facts.volumes
        )
        server = self._follow_server(facts, tick)
        instance = self._follow_instance(facts, tick)
        replicas = _list_replicas(tick.replica)
        bare = Moment(facts.target, tick.t_unix, tick.duration_s, (Judge.UNKNOWN,), volumes, instance, server, replicas)
        findings = self._judge.see(bare)
        remarks = [*notes, *facts.notes, *(f"not known: {text}" for text in facts.missing)]
        return replace(bare, findings=findings, notes=tuple(dict.fromkeys(remarks)))

    def _follow_volume(self, volume: SeenVolume, tick: Tick, facts: SourceFacts, page: NvmePage | None) -> VolumeNow:
        """Returns a volume in this tick. Without a row: the last figures, for SILENT_S seconds,
        then a volume that is `gone`, with the reason."""
        row = tick.volumes.get(volume.name)
        if row is None:
            last = self._seen.get(volume.name)
            silent_s = math.inf if last is None else tick.t_unix - last[0]
            if last is not None and 0 <= silent_s <= SILENT_S and volume.device is not None:
                return last[1]
            self._emptying.pop(volume.name, None)
            words = "no figures yet" if last is None else f"no figures for {silent_s:.0f} s"
            gone = "is detached" if volume.device is None and facts.kind == "live" else words
            return VolumeNow(
                volume.id or volume.name, volume.name, spec=volume.storage, device=volume.device, gone=gone
            )
        current = self._make_volume(volume, row, tick, page)
        self._seen[volume.name] = (tick.t_unix, current)
        return current

    def _make_volume(self, volume: SeenVolume, row: Row, tick: Tick, page: NvmePage | None) -> VolumeNow:
        """Returns a volume with the figures of its row: rates, shares, limits (I/Os and bytes a
        second), balance (0 to 1), and when credits are empty."""
        balance = _compute_share(row.get("balance_percent"))
        limits = volume.limits
        time_to_empty = None
        if limits is not None and limits.credits and balance is not None:
            refill = limits.find_rate("volume-credits") or 0.0
            time_to_empty = self._estimate_time_to_empty(volume.name, (limits.credits, refill), tick, balance)
        return VolumeNow(
            volume.id or volume.name,
            volume.name,
            spec=volume.storage,
            device=volume.device,
            reads=_make_io(row, "read"),
            writes=_make_io(row, "write"),
            queue=row.get("queue"),
            exceeded={limit: share for limit, column in OVER.items() if (share := row.get(column)) is not None},
            used=_compute_use(row, limits, balance),
            limits=_list_limits(limits),
            bursts=limits is not None and limits.credits is not None,
            balance=balance if limits is None or limits.credits else None,
            time_to_empty=time_to_empty,
            page=page,
        )

    def _estimate_time_to_empty(
        self, name: str, bucket: tuple[float, float], tick: Tick, share: float
    ) -> CreditsLeft | None:
        """Returns when a bucket (capacity and refill a second, in tokens) is empty; None where it
        is not known yet. `share`: its balance, 0 to 1."""
        bucket_and_emptying = self._emptying.get(name)
        if bucket_and_emptying is None or bucket_and_emptying[0] != bucket:
            bucket_and_emptying = self._emptying[name] = (bucket, Emptying(*bucket))
        bucket_and_emptying[1].add(tick.t_unix + tick.duration_s, share * bucket[0])
        return bucket_and_emptying[1].estimate()

    def _follow_instance(self, facts: SourceFacts, tick: Tick) -> InstanceNow | None:
        """Returns the instance with its limits (I/Os and bytes a second) and balances (0 to 1);
        None where no instance is known."""
        limits = next((volume.limits for volume in facts.volumes if volume.limits and volume.limits.instance), None)
        if limits is None:
            return None
        buckets = core.credit_buckets(limits.storage, facts.as_of, limits.instance)
        balances, times_to_empty = {}, {}
        for unit, column in INSTANCE.items():
            bucket = buckets["instance_ios" if unit == "ios" else "instance_bytes"]
            shares = (row.get(column) for row in tick.volumes.values())
            share = _compute_share(next((value for value in shares if value is not None), None))
            if bucket is None or share is None:
                continue
            balances[unit] = share
            time_to_empty = self._estimate_time_to_empty(
                f"instance {unit}", (float(bucket["capacity"]), float(bucket["refill"])), tick, share
            )
            if time_to_empty is not None:
                times_to_empty[unit] = time_to_empty
        rates = {name: limits.find_rate(name) for name in ("instance-iops", "instance-throughput")}
        return InstanceNow(
            limits.instance, {name: rate for name, rate in rates.items() if rate is not None}, balances, times_to_empty
        )

    def _follow_server(self, facts: SourceFacts, tick: Tick) -> ServerNow | None:
        """Returns the server in this tick; None where no server is watched or none has answered
        yet. In a tick without a row, what it said before holds for SILENT_S seconds; after that it
        is not up."""
        if facts.server is None:
            return None
        row, label = tick.server, facts.server.label
        # Rates are over the time between two readings; what is repeated below counts nothing.
        counted_s = row.get("reading_s") or tick.duration_s if row else 0.0
        # Without what Debian and others put behind it.
        version = f"{facts.server.flavor} {facts.server.version.partition('-')[0]}".strip()
        if not row:
            # In seconds in which the server is asked about replication, the row before them holds.
            was, row = self._answered
            if was is None:
                return None
            if tick.t_unix - was > SILENT_S:
                return ServerNow(label, version, up=False, totals=dict(self._totals))
        else:
            self._answered = (tick.t_unix, row)
        running = row.get("threads_running")
        waits = {}
        if running:
            values = ((name, row.get(column)) for name, column in WAITS.items())
            waits = {name: min(1.0, value / running) for name, value in values if value is not None}
        io_wait = min(1.0, sum(waits[name] for name in IO_WAITS if name in waits)) if waits else None
        if running == 0:
            io_wait = 0.0
        elif running and not any(name in waits for name in IO_WAITS):
            io_wait = _estimate_io_wait(row, tick, running)
        return ServerNow(
            label,
            version,
            True,
            row.get("tps"),
            row.get("pool_reads_per_s"),
            row.get("pages_flushed_per_s"),
            row.get("checkpoint_share"),
            row.get("log_waits_per_s"),
            row.get("free_waits_per_s"),
            row.get("dirty_share"),
            running,
            waits,
            io_wait,
            self._count_totals(row, counted_s),
        )

    def _count_totals(self, row: Row, duration_s: float) -> dict[str, float]:
        """Adds the rates of `duration_s` seconds to the counters, and returns these; they never go
        back, even when the server's do."""
        for name, column in TOTALS.items():
            if (rate := row.get(column)) is not None:
                self._totals[name] = self._totals.get(name, 0.0) + rate * duration_s
        return dict(self._totals)


TOTALS = {
    "headrace_transactions_total": "tps",
    "headrace_buffer_pool_reads_total": "pool_reads_per_s",
    "headrace_pages_flushed_total": "pages_flushed_per_s",
    "headrace_log_waits_total": "log_waits_per_s",
    "headrace_free_page_waits_total": "free_waits_per_s",
}


def _estimate_io_wait(row: Row, tick: Tick, running: float) -> float | None:
    """Estimates the clients' share of time in I/O where the server does not time its waits: its
    reads and flushes a second, times the volumes' highest latency, divided by the running clients.
    None where either is not known."""
    reads, syncs = row.get("data_reads_per_s"), row.get("log_fsyncs_per_s")
    times = {
        way: max(
            (value for figures in tick.volumes.values() if (value := figures.get(f"{way}_ms")) is not None),
            default=None,
        )
        for way in ("read", "write")
    }
    parts = [
        rate * ms / MS_PER_S
        for rate, ms in ((reads, times["read"]), (syncs, times["write"]))
        if rate is not None and ms is not None
    ]
    return min(1.0, sum(parts) / running) if parts else None


def _list_replicas(row: Row) -> tuple[ReplicaNow, ...]:
    """Returns the channel in a row on replication, with its lag in seconds; none without a row."""
    if not row:
        return ()
    applies, receives = row.get("sql_running") == 1.0, row.get("io_running") == 1.0
    return (
        ReplicaNow(DEFAULT_CHANNEL, row.get("lag_s"), applies, receives, "" if applies and receives else "stopped"),
    )


def _list_limits(limits: HoldingLimits | None) -> dict[str, float]:
    """Returns the volume's limits by name, I/Os or bytes a second, with the baseline where it has
    credits."""
    if limits is None:
        return {}
    by_name = {"volume-iops": limits.burst_iops, "volume-throughput": limits.burst_bytes_s}
    if limits.credits:
        by_name |= (
            {"baseline-iops": limits.iops} if limits.credit_unit == "ios" else {"baseline-throughput": limits.bytes_s}
        )
    return by_name


def _compute_use(row: Row, limits: HoldingLimits | None, balance: float | None) -> dict[str, float]:
    """Returns the rates divided by what the volume gives now, by limit: its burst, or its baseline
    once credits are empty. `balance`: 0 to 1, None: not known."""
    if limits is None:
        return {}
    empty = balance is not None and balance <= 0
    charged = row.get("charged_iops")
    rates_bytes_s = [value * MIB for value in (row.get("read_mib_s"), row.get("write_mib_s")) if value is not None]
    iops = limits.iops if empty and limits.credit_unit == "ios" else limits.burst_iops
    bytes_s = limits.bytes_s if empty and limits.credit_unit == "bytes" else limits.burst_bytes_s
    used = {}
    if charged is not None and iops:
        used["volume-iops"] = charged / iops
    if rates_bytes_s and bytes_s:
        used["volume-throughput"] = sum(rates_bytes_s) / bytes_s
    return used


def _make_io(row: Row, kind: str) -> IoNow:
    """Returns the figures of `read` or `write`; the median is the mean where no other is known."""
    iops, mib_s, median, mean, p99_ms = (
        row.get(f"{kind}_{name}") for name in ("iops", "mib_s", "p50_ms", "ms", "p99_ms")
    )
    return IoNow(iops, mib_s, mean if median is None else median, p99_ms)


def _compute_share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100.0


# --- the last hour --------------------------------------------------------------------------------


# Time span that the arrows cover, s.
REACH_S = 3_600.0


class History:
    """Keeps the moments of the last hour, oldest first, compressed."""

    def __init__(self) -> None:
        self._packed: deque[tuple[float, bytes]] = deque()
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Moment)

    def __len__(self) -> int:
        return len(self._packed)

    def add(self, moment: Moment) -> None:
        """Adds a moment after all others; a moment from before them (the clock was set back) clears
        the history."""
        if self._packed and moment.t_unix <= self._packed[-1][0]:
            self._packed.clear()
        bare = replace(moment, volumes=tuple(replace(volume, page=None) for volume in moment.volumes))
        # Level 1: what more costs in time is not worth the space (measured: 9 % at level 6).
        self._packed.append((moment.t_unix, zlib.compress(self._encoder.encode(bare), 1)))
        while self._packed[0][0] < moment.t_unix - REACH_S:
            self._packed.popleft()

    @property
    def reaches_s(self) -> float:
        """The seconds from the oldest moment to the newest."""
        return self._packed[-1][0] - self._packed[0][0] if self._packed else 0.0

    def find_moment(self, t_unix: float) -> Moment | None:
        """Returns the moment nearest to a time; None where nothing is known."""
        if not self._packed:
            return None
        place = bisect_left(self._packed, t_unix, key=lambda entry: entry[0])
        near = [index for index in (place - 1, place) if 0 <= index < len(self._packed)]
        best = min(near, key=lambda index: abs(self._packed[index][0] - t_unix))
        return self._decoder.decode(zlib.decompress(self._packed[best][1]))
