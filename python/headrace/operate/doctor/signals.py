"""From evidence to the few figures that verdicts rest on: means over the window, shares of time,
what the model's own latency is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from headrace.base import core
from headrace.base.caps import OVER
from headrace.base.core import translate_core_errors
from headrace.base.storage import Storage
from headrace.base.units import KIB, MIB
from headrace.errors import InputError
from headrace.observe.evidence.limits import HoldingLimits
from headrace.observe.evidence.model import Evidence, SeenServer, SeenVolume, VolumeEvidence
from headrace.operate.doctor.levels import compute_bytes_per_s
from headrace.operate.doctor.thresholds import Thresholds

DEFAULT_IO_KIB = 16.0  # of an I/O whose size is not known: a page of InnoDB


@dataclass(frozen=True)
class ModelLatency:
    """The model's latency without waiting, ms, at the mix and sizes of the window."""

    read_p50: float
    read_p99: float
    write_p50: float
    write_p99: float


@dataclass(frozen=True)
class LimitUse:
    """The use of a volume's limits, by their names, as shares from 0 on. `over`: of the time over
    the limit (None: not counted); `ticks_over`: of the ticks with any such time; `rates`: mean rate
    divided by the limit; `ticks_near`: of the ticks at `inferred_use` of the limit and more."""

    over: dict[str, float | None]
    ticks_over: dict[str, float]
    rates: dict[str, float | None]
    ticks_near: dict[str, float]


@dataclass(frozen=True)
class CreditLevels:
    """Credit balances, percent; None: not known, or no credits. The volume's at the end of the
    window (`last`) and at its begin (`first`), and the lower of the instance's two at the end."""

    last: float | None
    first: float | None
    instance: float | None


@dataclass
class VolumeSignals:
    """Signals of a volume: means over the window. Latencies, ms: of the median tick, medians of its
    I/Os where a histogram gives them, else means. `member_ms`: of each member of an array."""

    facts: SeenVolume
    seconds: float
    charged_iops: float
    bytes_s: float
    read_iops: float
    write_iops: float
    read_kib: float
    write_kib: float
    queue: float | None
    read_ms: float | None
    write_ms: float | None
    read_p99_ms: float | None
    use: LimitUse
    credits: CreditLevels
    model: ModelLatency | None
    stalled: bool = False
    member_ms: dict[str, float] = field(default_factory=dict)
    read_mean_ms: float | None = None  # of all reads of the window
    busy_share: float | None = None  # of the time, with a request under way; None: not counted
    most_bytes_s: float = 0.0  # of the tick with the most bytes

    @property
    def iops(self) -> float:
        """Reads and writes a second."""
        return self.read_iops + self.write_iops

    @property
    def use_while_busy(self) -> float | None:
        """The rate divided by the nearest limit, over the time with a request under way."""
        uses = [use for name, use in self.use.rates.items() if use is not None and name != "volume-credits"]
        return max(uses) / self.busy_share if uses and self.busy_share else None

    @property
    def limits(self) -> HoldingLimits | None:
        """The limits of the volume and of its instance; None where they are not known."""
        return self.facts.limits

    @property
    def slow_times(self) -> float | None:
        """The latency divided by the model's own median, of reads or writes, whichever are more."""
        if self.model is None:
            return None
        reads = self.read_iops >= self.write_iops
        seen = self.read_ms if reads else self.write_ms
        own = self.model.read_p50 if reads else self.model.write_p50
        return None if seen is None or own <= 0 else seen / own


@dataclass
class ServerSignals:
    """Signals of the server: means over the window. `felt_read`, `felt_commit`, `locks`: share of
    the clients' time in waits for reads, commits and row locks; `late_read_clients`,
    `late_commit_clients`: how many clients wait beyond the volume's own latency, on average."""

    facts: SeenServer
    seconds: float
    tps: float
    running: float
    connected: float
    felt_read: float | None
    felt_commit: float | None
    late_read_clients: float | None
    late_commit_clients: float | None
    locks: float | None
    values: dict[str, float | None]
    filled: float = 0.0  # share of the buffer pool that was filled within the window

    @property
    def running_share(self) -> float:
        """The share of the connections that have a statement under way, on average: 0 to 1."""
        return min(1.0, self.running / max(self.connected, 1.0))

    @property
    def kept_share(self) -> float:
        """The share of the pages read that took a free place in the buffer pool."""
        variables = self.facts.variables
        size, page = variables.get("innodb_buffer_pool_size", ""), variables.get("innodb_page_size", "16384")
        read = (self.get("pool_reads_per_s") or 0.0) * self.seconds
        if not size.isdigit() or not page.isdigit() or read <= 0:
            return 0.0
        return self.filled * int(size) / int(page) / read

    @property
    def unused_share(self) -> float | None:
        """The share of the buffer pool that is free and not kept free: the page cleaner frees up to
        innodb_lru_scan_depth pages of each instance (MariaDB and MySQL, system variables)."""
        variables, free = self.facts.variables, self.get("free_share")
        names = ("innodb_buffer_pool_size", "innodb_page_size", "innodb_lru_scan_depth")
        size, page, depth = (variables.get(name, "") for name in names)
        if free is None or not (size.isdigit() and page.isdigit() and depth.isdigit()):
            return free
        instances = variables.get("innodb_buffer_pool_instances", "1")
        kept_free = int(depth) * (int(instances) if instances.isdigit() else 1) * int(page) / int(size)
        return max(0.0, free - kept_free)

    def get(self, name: str) -> float | None:
        """Returns the mean of a column; None where nobody had it."""
        return self.values.get(name)

    @property
    def commits_unknown(self) -> bool:
        """True of a replica: its clients' commits cannot be told from its appliers'."""
        return self.facts.replica and self.felt_commit is None

    @property
    def felt(self) -> float | None:
        """The share of the clients' time in I/O waits, of reads and commits together."""
        return add_waits(self.felt_read, self.felt_commit, 1.0)


def add_waits(reads: float | None, commits: float | None, most: float) -> float | None:
    """Returns the sum of the waits for reads and for commits that are known, at most `most`; None
    where neither is known."""
    parts = [part for part in (reads, commits) if part is not None]
    return min(most, sum(parts)) if parts else None


@dataclass
class HostSignals:
    """Shares of all processors, 0 to 1; None where not known. `busy`: at work, `steal`: taken by
    other virtual machines, `server`: used by the server, `pressure`: of the time in which a task
    waited for a processor."""

    busy: float | None
    steal: float | None
    server: float | None
    pressure: float | None
    vcpus: int | None


@dataclass
class Signals:
    """Everything that is judged."""

    volumes: list[VolumeSignals]
    server: ServerSignals | None
    host: HostSignals
    grain_s: float
    exact: bool
    replica: dict[str, float | None] = field(default_factory=dict)


def compute_signals(evidence: Evidence, thresholds: Thresholds, whole: bool = False) -> Signals:
    """Returns the signals of the newest window, or with `whole` of all the evidence."""
    part = evidence if whole else select_newest(evidence, thresholds.window_s)
    rows = [volume for volume in part.volumes if volume.rows.height and volume.facts.role != "member"]
    volumes = [_compute_volume_signals(volume, part.facts.as_of, thresholds) for volume in rows]
    for signals in volumes:
        signals.member_ms = _measure_members(part, signals.facts.name)
    return Signals(
        volumes,
        _compute_server_signals(part, volumes, thresholds.little_running),
        _compute_host_signals(part),
        evidence.facts.grain_s,
        evidence.facts.exact,
        {name: mean(part.replica, name) for name in part.replica.columns if name not in ("t_unix", "duration_s")},
    )


def select_newest(evidence: Evidence, window_s: float) -> Evidence:
    """Returns the newest `window_s` seconds of the evidence, at least two ticks."""
    end = evidence.ends_unix
    return (
        evidence if end is None else evidence.select_span(end - compute_stretch_s(evidence, window_s) - 1e-6, end + 1.0)
    )


def compute_stretch_s(evidence: Evidence, window_s: float) -> float:
    """Returns how long a stretch is judged as one, s: `window_s`, and two ticks at least."""
    return max(window_s, 2 * evidence.facts.grain_s)


def mean(frame: pl.DataFrame, name: str) -> float | None:
    """Returns the mean of a column weighted by time; None where it is not known."""
    if name not in frame.columns or not frame.height:
        return None
    measured = frame.filter(pl.col(name).is_not_null())
    if not measured.height:
        return None
    seconds = float(measured["duration_s"].sum())
    return float((measured[name] * measured["duration_s"]).sum()) / seconds if seconds > 0 else None


def median(frame: pl.DataFrame, *names: str) -> float | None:
    """Returns the median over ticks of the first of these columns that is known, in its own unit;
    None without any."""
    for name in names:
        if name in frame.columns and (column := frame[name].drop_nulls()).len():
            return float(column.median())  # type: ignore[arg-type]
    return None


def _compute_volume_signals(volume: VolumeEvidence, as_of: str | None, thresholds: Thresholds) -> VolumeSignals:
    """Returns the signals of a volume: means of its rates over the rows, and latencies in ms."""
    rows, limits = volume.rows, volume.facts.limits

    def compute_rate(name: str) -> float:
        return mean(rows, name) or 0.0

    reads, writes = compute_rate("read_iops"), compute_rate("write_iops")
    read_mib_s, write_mib_s = compute_rate("read_mib_s"), compute_rate("write_mib_s")
    read_kib = read_mib_s * MIB / KIB / reads if reads else DEFAULT_IO_KIB
    write_kib = write_mib_s * MIB / KIB / writes if writes else DEFAULT_IO_KIB
    over, ticks_over = {}, {}
    for name, column in OVER.items():
        over[name] = mean(rows, column)
        ticks_over[name] = _compute_share(rows, pl.col(column) > 0) if column in rows.columns else 0.0
    column = "balance_percent"
    levels = rows[column].drop_nulls().cast(pl.Float64).to_list() if column in rows.columns else []
    instance = [
        float(balance[-1])
        for name in ("instance_io_balance_percent", "instance_byte_balance_percent")
        if name in rows.columns and (balance := rows[name].drop_nulls()).len()
    ]
    return VolumeSignals(
        facts=volume.facts,
        seconds=float(rows["duration_s"].sum()),
        charged_iops=compute_rate("charged_iops") or reads + writes,
        bytes_s=(read_mib_s + write_mib_s) * MIB,
        read_iops=reads,
        write_iops=writes,
        read_kib=read_kib,
        write_kib=write_kib,
        queue=mean(rows, "queue"),
        read_ms=median(rows, "read_p50_ms", "read_ms"),
        write_ms=median(rows, "write_p50_ms", "write_ms"),
        read_p99_ms=median(rows, "read_p99_ms"),
        use=LimitUse(over, ticks_over, *_compute_use(rows, limits, thresholds)),
        credits=CreditLevels(*((levels[-1], levels[0]) if levels else (None, None)), min(instance, default=None)),
        model=find_model_latency(volume.facts, read_kib, write_kib, as_of),
        stalled=bool((mean(rows, "stalled") or 0.0) > 0),
        read_mean_ms=_compute_request_ms(rows, "read"),
        busy_share=None if (idle := mean(rows, "idle_share")) is None else 1.0 - idle,
        most_bytes_s=compute_most_bytes_s(rows),
    )


def compute_most_bytes_s(rows: pl.DataFrame) -> float:
    """Returns bytes a second of the row with the most; 0 without rows."""
    return float(rows.select(compute_bytes_per_s(rows).max()).item() or 0.0) if rows.height else 0.0


def _compute_share(rows: pl.DataFrame, what: pl.Expr) -> float:
    """Returns the share of the rows for which an expression is true; 0 without rows."""
    return float(rows.select(what.fill_null(False).mean()).item() or 0.0) if rows.height else 0.0


def _compute_use(
    rows: pl.DataFrame, limits: HoldingLimits | None, thresholds: Thresholds
) -> tuple[dict[str, float | None], dict[str, float]]:
    """Returns the mean rate divided by each limit, and the share of ticks near it, both by the
    limit's name; empty where no limits are known."""
    use: dict[str, float | None] = {}
    near: dict[str, float] = {}
    if limits is None:
        return use, near
    zero = pl.lit(0.0)
    columns = {
        name: pl.col(name).fill_null(0.0) if name in rows.columns else zero
        for name in ("charged_iops", "read_mib_s", "write_mib_s")
    }
    ios = columns["charged_iops"]
    bytes_s = (columns["read_mib_s"] * limits.per_read + columns["write_mib_s"] * limits.per_write) * MIB
    demands = {"volume-iops": ios, "volume-throughput": bytes_s, "instance-iops": ios, "instance-throughput": bytes_s}
    credits = bytes_s if limits.credit_unit == "bytes" else ios
    demands["volume-credits"] = credits
    for name, demand in demands.items():
        allowed = limits.find_rate(name)
        if not allowed or (name == "volume-credits" and limits.credits is None):
            continue
        shares = rows.select((demand / allowed).alias("use"), pl.col("duration_s"))
        use[name] = mean(shares, "use")
        if name == "volume-credits":
            low, high = 1 - thresholds.credits_near_baseline, 1 + thresholds.credits_near_baseline
            near[name] = _compute_share(shares, pl.col("use").is_between(low, high))
        else:
            near[name] = _compute_share(shares, pl.col("use") >= thresholds.inferred_use)
    return use, near


def find_model_latency(facts: SeenVolume, read_kib: float, write_kib: float, as_of: str | None) -> ModelLatency | None:
    """Returns the model's latency of a volume's type at these sizes; None for an unnamed storage,
    or one that was not sold on that day."""
    if facts.storage is None:
        return None
    kind = Storage.parse(facts.storage).volume_type
    day = facts.limits.as_of if facts.limits else as_of
    try:
        with translate_core_errors():
            sizes = [max(512, int(kib * KIB)) for kib in (read_kib, write_kib)]  # a sector at least
            quantiles = [
                core.latency_quantiles(kind, "read", [0.5, 0.99], bytes=sizes[0], as_of=day),
                core.latency_quantiles(kind, "write", [0.5, 0.99], bytes=sizes[1], as_of=day),
            ]
    except InputError:
        return None
    (read_p50, read_p99), (write_p50, write_p99) = ([value / 1e3 for value in pair] for pair in quantiles)
    return ModelLatency(read_p50, read_p99, write_p50, write_p99)


# Type whose latency stands in for that of a volume whose storage is not named: most volumes are
# gp3.
UNNAMED = "gp3:500"


def find_rows_latency(facts: SeenVolume, rows: pl.DataFrame, as_of: str | None) -> ModelLatency | None:
    """Returns the latency of a volume's type at the mean sizes of these rows; of a gp3 volume where
    the storage is not named."""
    read_kib, write_kib = (_compute_io_kib(rows, way) for way in ("read", "write"))
    return find_model_latency(facts if facts.storage else replace(facts, storage=UNNAMED), read_kib, write_kib, as_of)


def _compute_io_kib(rows: pl.DataFrame, way: str) -> float:
    """Returns the mean size of reads or writes (`way`), KiB; DEFAULT_IO_KIB where it is not
    known."""
    if not {f"{way}_iops", f"{way}_mib_s"} <= set(rows.columns):
        return DEFAULT_IO_KIB
    ios, mib = float(rows[f"{way}_iops"].sum() or 0.0), float(rows[f"{way}_mib_s"].sum() or 0.0)
    return MIB / KIB * mib / ios if ios and mib else DEFAULT_IO_KIB


def _measure_members(evidence: Evidence, name: str) -> dict[str, float]:
    """Returns the latency of each member of an array by name, ms: the median over ticks of its
    slower way."""
    latencies = {}
    for volume in evidence.volumes:
        if volume.facts.role == "member" and volume.facts.name.startswith(f"{name}/"):
            ways = [median(volume.rows, f"{way}_p50_ms", f"{way}_ms") for way in ("read", "write")]
            measured = [value for value in ways if value is not None]
            if measured:
                latencies[volume.facts.name] = max(measured)
    return latencies


def _compute_server_signals(
    evidence: Evidence, volumes: Sequence[VolumeSignals], little: float
) -> ServerSignals | None:
    """Returns the signals of the server; None if no server was seen. `little`: running threads on
    average, below which reads of a replica are taken for its appliers'."""
    rows = evidence.server
    if evidence.facts.server is None or not rows.height:
        return None
    values = {name: mean(rows, name) for name in rows.columns if name not in ("t_unix", "duration_s")}
    facts, running = evidence.facts.server, values.get("threads_running") or 0.0
    data = next((volume for volume in volumes if volume.facts.role == "data"), None)
    log = next((volume for volume in volumes if volume.facts.role == "log"), data)
    # A sample of running threads a second is coarse: a client that waits for a lock was running.
    clients = max(running, values.get("lock_waiters") or 0.0, 1e-9)
    reads = _compute_waits(values.get("pool_reads_per_s"), _compute_read_ms(evidence, data), clients)
    if facts.replica and clients < little:
        reads = _Waits(None, None)  # they are its appliers'
    pages_s = count_page_writes(facts) * (values.get("pages_flushed_per_s") or 0.0)
    commits = _compute_waits(_estimate_commit_waits(facts, values), _estimate_sync_ms(evidence, log, pages_s), clients)
    locks = values.get("lock_waiters")
    waiting = values.get("lock_waiting")
    if locks is not None or waiting is not None:
        # Time is counted when a wait ends; who still waits is counted by the gauge.
        locks = min(1.0, max(locks or 0.0, waiting or 0.0) / clients)
    return ServerSignals(
        facts=facts,
        seconds=float(rows["duration_s"].sum()),
        tps=values.get("tps") or 0.0,
        running=running,
        connected=values.get("threads_connected") or 0.0,
        felt_read=reads.felt,
        felt_commit=commits.felt,
        late_read_clients=reads.late_clients,
        late_commit_clients=commits.late_clients,
        locks=locks,
        values=values,
        filled=_compute_filled_share(rows),
    )


def _compute_filled_share(rows: pl.DataFrame) -> float:
    free = rows["free_share"].drop_nulls() if "free_share" in rows.columns else pl.Series([], dtype=pl.Float64)
    return float(free[0] - free[-1]) if free.len() else 0.0


@dataclass(frozen=True)
class _Latency:
    """The time that a client's request takes, ms, and how much of it is the volume's own."""

    ms: float
    own_ms: float


def _compute_read_ms(evidence: Evidence, volume: VolumeSignals | None) -> _Latency | None:
    """Returns the mean time of a read from the volume, and how much of it is the volume's own; None
    where it is not known."""
    mean_ms = _compute_mean_ms(evidence, volume, "read")
    if volume is None or mean_ms is None:
        return None
    return _Latency(mean_ms, 0.0 if volume.model is None else min(mean_ms, volume.model.read_p50))


def _estimate_sync_ms(evidence: Evidence, volume: VolumeSignals | None, pages_s: float) -> _Latency | None:
    """Returns how long a commit's sync takes; None where it is not known. Pages are written in
    bursts that wait for each other. A commit comes at any time, and meets a burst in the share of
    the time in which there is one. `pages_s`: writes a second of pages; the others are commits
    themselves, as all on a volume of the log's own are."""
    mean_ms = _compute_mean_ms(evidence, volume, "write")
    if volume is None or mean_ms is None:
        return None
    own_ms = 0.0 if volume.model is None else min(mean_ms, volume.model.write_p50)
    busy = 1.0 if volume.busy_share is None or volume.model is None else volume.busy_share
    pages = 0.0 if volume.facts.role == "log" else min(1.0, pages_s / max(volume.write_iops, 1e-9))
    return _Latency(own_ms + (mean_ms - own_ms) * (1.0 - pages * (1.0 - busy)), own_ms)


def _compute_mean_ms(evidence: Evidence, volume: VolumeSignals | None, way: str) -> float | None:
    """Returns the mean latency of a volume's reads or writes (`way`), ms; None where it is not
    known."""
    if volume is None:
        return None
    rows = next(entry.rows for entry in evidence.volumes if entry.facts.name == volume.facts.name)
    return _compute_request_ms(rows, way)


def _compute_request_ms(rows: pl.DataFrame, way: str) -> float | None:
    """Returns the mean latency of reads or writes (`way`), ms, weighted by requests; None without
    any."""
    name = f"{way}_ms"
    if name not in rows.columns:
        return None
    measured = rows.filter(pl.col(name).is_not_null() & (pl.col(f"{way}_iops") > 0))
    weight = float((measured[f"{way}_iops"] * measured["duration_s"]).sum())
    total = float((measured[name] * measured[f"{way}_iops"] * measured["duration_s"]).sum())
    return total / weight if weight > 0 else None


def _estimate_commit_waits(facts: SeenServer, values: dict[str, float | None]) -> float | None:
    """Returns how many waits for a sync there are a second, at most: one for the redo log and one
    for the binlog, of each transaction that logs something. The binlog counts these; without it all
    that may have written count, or none. None for a replica: its commits are its appliers'."""
    if facts.replica:
        return None
    syncs, logged = count_syncs(facts), values.get("logged_per_s")
    if logged is not None and logs_to_binlog(facts):
        return logged * syncs
    log, writing = values.get("log_bytes_per_s"), values.get("writing_per_s")
    writing = values.get("tps") if writing is None else writing
    if log is None or not writing or log / writing < LEAST_LOG_BYTES:
        return 0.0 if log is not None else None
    return writing * syncs


# A transaction that changes a row logs more than this; one that only reads logs nothing, and the
# server's own work a little (a guess).
LEAST_LOG_BYTES = 100.0


def count_page_writes(facts: SeenServer) -> float:
    """Returns the most I/Os that a flushed page takes, 1.0 or 2.0: MariaDB doublewrites many pages
    with one I/O."""
    off = facts.variables.get("innodb_doublewrite", "ON").upper() in ("OFF", "0", "DETECT_ONLY")
    return 1.0 if off or facts.flavor == "mariadb" else 2.0


def count_syncs(facts: SeenServer) -> int:
    """Returns how many syncs a commit waits for, one after the other: of the redo log, and of the
    binlog where it is synced too (MySQL manual, sync_binlog, innodb_flush_log_at_trx_commit)."""
    redo = facts.variables.get("innodb_flush_log_at_trx_commit", "1") == "1"
    binlog = logs_to_binlog(facts) and facts.variables.get("sync_binlog", "0") == "1"
    return int(redo) + int(binlog)


def logs_to_binlog(facts: SeenServer) -> bool:
    """Returns whether the server has a binary log."""
    return facts.variables.get("log_bin", "OFF").upper() in ("ON", "1")


@dataclass(frozen=True)
class _Waits:
    """Share of the clients' time, and how many clients on average wait for more than the volume's
    own latency. None where it is not known."""

    felt: float | None
    late_clients: float | None


def _compute_waits(waits_per_s: float | None, each: _Latency | None, clients: float) -> _Waits:
    """Returns the share of clients' time in waits, of which there are `waits_per_s` a second, and
    the clients that wait for more than the volume's own latency. `clients`: running on average."""
    if waits_per_s is None:
        return _Waits(None, None)
    if waits_per_s <= 0:
        return _Waits(0.0, 0.0)
    if each is None:
        return _Waits(None, None)
    late_clients = waits_per_s * (each.ms - each.own_ms) / 1e3
    return _Waits(min(1.0, waits_per_s * each.ms / 1e3 / clients), late_clients)


def _compute_host_signals(evidence: Evidence) -> HostSignals:
    """Returns the shares of the processors at work, processes with a nice value left out; None
    where not known."""
    vcpus, rows = evidence.facts.vcpus, evidence.host

    def compute_share(value: float | None) -> float | None:
        return None if value is None or not vcpus else value / vcpus

    user, nice, system = (mean(rows, name) for name in ("user_cpus", "nice_cpus", "system_cpus"))
    # Processes with a nice value yield to the server, so they are not counted.
    busy = None if user is None or system is None else max(0.0, user - (nice or 0.0)) + system
    server = mean(evidence.server, "server_cpus") if evidence.server.height else None
    return HostSignals(
        compute_share(busy),
        compute_share(mean(rows, "steal_cpus")),
        compute_share(server),
        mean(rows, "psi_cpu_share"),
        vcpus,
    )
