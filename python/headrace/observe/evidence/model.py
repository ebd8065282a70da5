"""Evidence of a server and its volumes over a stretch of time, as values of the same form from
every source.

A `Tick` is one interval (a second live, a report of a file); `Evidence` is many of them as frames.
Every figure may be missing: then it is None in a tick and null in a frame, and a column that no
tick has is not there. `missing` names in words what no source gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from headrace.base.caps import OVER
from headrace.observe.evidence.limits import HoldingLimits

if TYPE_CHECKING:
    from headrace.workload import OpenWorkload

Row = dict[str, float | None]

# A volume's columns. Rates are means of the interval; `charged_iops` as EBS counts (256 KiB an
# I/O); `read_ms`, `write_ms` means of requests and `*_p50_ms`, `*_p99_ms` of a histogram; `over_*`
# the share of the interval (0 to 1) during which requests waited for that limit, `flagged` where
# the source says only yes or no for a minute; balances in percent, at the end.
VOLUME_COLUMNS = (
    "read_iops", "write_iops", "charged_iops", "read_mib_s", "write_mib_s", "queue", "queue_max", "idle_share",
    "read_ms", "write_ms", "read_p50_ms", "read_p99_ms", "write_p50_ms", "write_p99_ms", *OVER.values(),
    "balance_percent", "instance_io_balance_percent", "instance_byte_balance_percent", "flush_iops", "errors_per_s",
    "stalled",
)  # fmt: skip
# Columns of a server. `*_per_s` are rates; `threads_running` without the reader itself;
# `lock_waiters`, `data_waiters`, `log_waiters`, `binlog_waiters` are threads' worth of waiting
# (seconds a second); `server_cpus` processors' worth of its process; `logged_per_s` transactions
# that wrote to the binary log, `writing_per_s` an upper bound of them from the statements;
# `reading_s` the time over which the rates are, if it is not the interval's; shares 0 to 1.
SERVER_COLUMNS = (
    "tps", "questions_per_s", "pool_reads_per_s", "pool_requests_per_s", "data_reads_per_s", "data_read_bytes_per_s", "data_writes_per_s",
    "fsyncs_per_s", "log_fsyncs_per_s", "log_bytes_per_s", "pages_flushed_per_s", "log_waits_per_s",
    "free_waits_per_s", "checkpoint_age_bytes", "checkpoint_share", "dirty_share", "free_share", "threads_running",
    "threads_connected", "lock_waiters", "lock_waiting", "data_waiters", "log_waiters", "binlog_waiters",
    "pending_reads", "pending_writes", "pending_fsyncs", "sent_bytes_per_s", "uptime_s", "server_cpus",
    "binlog_bytes_per_s", "logged_per_s", "writing_per_s", "reading_s",
)  # fmt: skip
# Columns of the host: processors' worth (`nice_cpus`: the part of `user_cpus` that yields to all
# other processes), and the shares of time in which something waited for processors or for I/O
# (PSI).
HOST_COLUMNS = (
    "user_cpus", "nice_cpus", "system_cpus", "idle_cpus", "iowait_cpus", "steal_cpus", "load1",
    "memory_available_bytes", "psi_cpu_share", "psi_io_share", "psi_io_full_share",
)  # fmt: skip
# A replica's columns: `sql_running` and `io_running` 0 or 1.
REPLICA_COLUMNS = ("lag_s", "delay_s", "relay_log_bytes", "sql_running", "io_running")


@dataclass(frozen=True)
class Tick:
    """One interval of `duration_s`. `t_unix`: its beginning, seconds since 1970 (of a file without
    a clock: seconds since its beginning). `volumes`: by name, figures of VOLUME_COLUMNS; `server`,
    `host`, `replica` alike. Units stand in the names and above; decision 0018 says which source
    gives what.
    """

    t_unix: float
    duration_s: float
    volumes: Mapping[str, Row] = field(default_factory=dict)
    server: Row = field(default_factory=dict)
    host: Row = field(default_factory=dict)
    replica: Row = field(default_factory=dict)

    def to_document(self) -> dict[str, object]:
        """Returns the tick as JSON has it, without what is missing."""

        def without_missing(row: Row) -> Row:
            return {name: value for name, value in row.items() if value is not None}

        document: dict[str, object] = {"t_unix": self.t_unix, "duration_s": self.duration_s}
        document["volumes"] = {name: without_missing(row) for name, row in self.volumes.items()}
        parts = {"server": self.server, "host": self.host, "replica": self.replica}
        return document | {name: without_missing(row) for name, row in parts.items() if row}


@dataclass(frozen=True)
class SeenVolume:
    """The facts of a volume. `storage`: its notation, None where it is not known. `limits`: those
    that hold. `state`: `optimizing`, `modifying` or `initializing` while it is, else `""`.
    `members_slow`: members of an array that have failed or are rebuilt. `role`: `data` or `log`,
    what the server keeps on it, or `member` of an array. `id`: of EBS or the lab, where `name` is
    another. `loading_known`: whether the source shows that blocks still lie in a snapshot
    (`initializing`)."""

    name: str
    storage: str | None = None
    device: str | None = None
    limits: HoldingLimits | None = None
    state: str = ""
    next_change: str | None = None
    members_slow: tuple[str, ...] = ()
    role: str = "data"
    id: str | None = None
    loading_known: bool = False


@dataclass(frozen=True)
class SeenChannel:
    """A replication channel as it was seen last. `name`: "" for the default one. `receive` and
    `apply`: its threads, on, connecting or off, as mysql.state has them. `error`: number and words
    of the last error of a thread that is not on, "" without one."""

    name: str
    receive: str
    apply: str
    error: str = ""

    @property
    def works(self) -> bool:
        """True if both threads are on."""
        return self.receive == self.apply == "on"

    @property
    def is_stopped(self) -> bool:
        """True if one of its threads is off."""
        return "off" in (self.receive, self.apply)


@dataclass(frozen=True)
class SeenServer:
    """The facts of the server: `variables` are its global ones, by name. `waits_timed`: whether
    performance_schema times file waits. `replica`: whether it follows a source, over `channels`."""

    label: str
    version: str = ""
    flavor: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    waits_timed: bool = False
    replica: bool = False
    channels: tuple[SeenChannel, ...] = ()


@dataclass(frozen=True)
class SourceFacts:
    """The facts of a source, known before the first tick.

    `kind`: `live`, or the file's: `capture`, `iostat`, `sar`, `vmstat`, `cloudwatch`, `recording`.
    `grain_s`: seconds of a tick. `clock`: whose times they are. `vcpus`: of the host. `exact`:
    whether time over limits is counted (`over_*`), not inferred. `missing`: what it cannot give, in
    words. `clocks_apart_s`: between the host's clock and the server's, where both are known.
    """

    target: str
    kind: str
    grain_s: float
    clock: str
    volumes: tuple[SeenVolume, ...] = ()
    server: SeenServer | None = None
    vcpus: int | None = None
    instance: str | None = None
    as_of: str | None = None
    exact: bool = False
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    clocks_apart_s: float | None = None


@dataclass(frozen=True)
class VolumeEvidence:
    """A volume and its rows: `t_unix`, `duration_s`, and what is known of VOLUME_COLUMNS."""

    facts: SeenVolume
    rows: pl.DataFrame


@dataclass(frozen=True)
class Evidence:
    """Evidence of a stretch of time. `server`, `host`, `replica`: a row for each tick that has
    figures, with `t_unix`, `duration_s` and the columns that are known; without rows where nothing
    is. `demand`: of a recording of one device, its figures as a workload."""

    facts: SourceFacts
    volumes: tuple[VolumeEvidence, ...]
    server: pl.DataFrame
    host: pl.DataFrame
    replica: pl.DataFrame
    notes: tuple[str, ...] = ()
    demand: OpenWorkload | None = None

    @property
    def span_s(self) -> float:
        """Returns the seconds that the longest series covers."""
        frames = [volume.rows for volume in self.volumes] + [self.server, self.host]
        return max((float(frame["duration_s"].sum()) for frame in frames if frame.height), default=0.0)

    @property
    def ends_unix(self) -> float | None:
        """Returns the end of the last tick, seconds since 1970; None without any."""
        frames = [volume.rows for volume in self.volumes] + [self.server, self.host]
        return max(
            (float(frame["t_unix"][-1] + frame["duration_s"][-1]) for frame in frames if frame.height), default=None
        )

    @property
    def begins_unix(self) -> float | None:
        """Returns the beginning of the first tick, seconds since 1970; None without any."""
        frames = [volume.rows for volume in self.volumes] + [self.server, self.host]
        return min((float(frame["t_unix"][0]) for frame in frames if frame.height), default=None)

    def select_span(self, from_unix: float, to_unix: float) -> Evidence:
        """Returns the evidence of the ticks that begin at `from_unix` or later and before
        `to_unix`, in seconds since 1970."""

        def select_rows(frame: pl.DataFrame) -> pl.DataFrame:
            if not frame.height:
                return frame
            return frame.filter((pl.col("t_unix") >= from_unix) & (pl.col("t_unix") < to_unix))

        volumes = tuple(replace(volume, rows=select_rows(volume.rows)) for volume in self.volumes)
        parts = {name: select_rows(getattr(self, name)) for name in ("server", "host", "replica")}
        return replace(self, volumes=volumes, **parts)

    def list_ticks(self) -> list[Tick]:
        """Returns the rows as ticks again, in order."""
        by_time: dict[tuple[float, float], dict[str, Any]] = {}

        def put(frame: pl.DataFrame, part: str, volume: str | None = None) -> None:
            """Adds the rows of a frame to the ticks of their times, as `part`, or as the row of
            `volume`."""
            for row in frame.iter_rows(named=True):
                key = (row.pop("t_unix"), row.pop("duration_s"))
                tick = by_time.setdefault(key, {"volumes": {}, "server": {}, "host": {}, "replica": {}})
                if volume is None:
                    tick[part] = row
                else:
                    tick["volumes"][volume] = row

        for volume in self.volumes:
            put(volume.rows, "volumes", volume.facts.name)
        for name in ("server", "host", "replica"):
            put(getattr(self, name), name)
        return [Tick(t_unix, duration_s, **parts) for (t_unix, duration_s), parts in sorted(by_time.items())]


def collect_evidence(facts: SourceFacts, ticks: Iterable[Tick], notes: Iterable[str] = ()) -> Evidence:
    """Returns the evidence of ticks, sorted by time; the first of several with one begin counts."""
    ordered: dict[float, Tick] = {}
    for tick in ticks:
        ordered.setdefault(tick.t_unix, tick)
    in_order = [ordered[at] for at in sorted(ordered)]
    volumes = tuple(
        VolumeEvidence(described, _build_frame(in_order, [tick.volumes.get(described.name) for tick in in_order]))
        for described in facts.volumes
    )
    return Evidence(
        facts,
        volumes,
        _build_frame(in_order, [tick.server or None for tick in in_order]),
        _build_frame(in_order, [tick.host or None for tick in in_order]),
        _build_frame(in_order, [tick.replica or None for tick in in_order]),
        tuple(dict.fromkeys(notes)),
    )


def _build_frame(ticks: list[Tick], rows: list[Row | None]) -> pl.DataFrame:
    """Returns a frame of the rows that are not None, with begin (seconds since 1970) and length (s)
    of their ticks. A column without a figure in any row is left out."""
    pairs = [(tick, row) for tick, row in zip(ticks, rows, strict=True) if row is not None]
    names = list(dict.fromkeys(name for _, row in pairs for name, value in row.items() if value is not None))
    columns: dict[str, list[float | None]] = {
        "t_unix": [tick.t_unix for tick, _ in pairs],
        "duration_s": [tick.duration_s for tick, _ in pairs],
    }
    columns |= {name: [row.get(name) for _, row in pairs] for name in names}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Float64)).fill_nan(None)
