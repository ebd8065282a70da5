"""Figures of a target at one moment: of its volumes, its instance, its server and replicas.

Plain values, which the screen shows, `--output jsonl` prints, exports write and alarms judge. A
missing figure is None, and a note says why; it is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from rich.cells import cell_len

from headrace.base.credits import CreditsLeft
from headrace.observe.live.nvme import NvmePage

SCHEMA = "headrace-watch/1"
# Credits come with these names (CloudWatch: BurstBalance, EBSIOBalance%, EBSByteBalance%).
CREDITS = ("volume", "ios", "bytes")


@dataclass(frozen=True)
class IoNow:
    """Reads or writes of a volume over the last interval: I/Os a second, MiB/s, and percentiles of
    their latency, ms."""

    iops: float | None = None
    mib_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True)
class VolumeNow:
    """A volume; its queue is that of the last interval, as `reads` and `writes` are.

    `exceeded`: share of the time, 0-1, in which requests waited for each of the four limits (names
    of `caps.COUNTED`). `used`: rate over limit, of those that are known. `limits`: I/Os or bytes a
    second by name. `bursts`: its type has credits. `balance`: 0-1. `page`: counters since the
    volume was attached.
    """

    id: str
    name: str | None = None
    spec: str | None = None
    device: str | None = None
    reads: IoNow = IoNow()
    writes: IoNow = IoNow()
    queue: float | None = None
    exceeded: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    bursts: bool = False
    balance: float | None = None
    time_to_empty: CreditsLeft | None = None
    page: NvmePage | None = None
    gone: str | None = None

    @property
    def label(self) -> str:
        """The name, or the id of a volume without a name."""
        return self.name or self.id

    @property
    def iops(self) -> float | None:
        """Reads and writes together, I/Os a second."""
        return _sum(self.reads.iops, self.writes.iops)

    @property
    def mib_s(self) -> float | None:
        """Reads and writes together, MiB/s."""
        return _sum(self.reads.mib_s, self.writes.mib_s)

    @property
    def io_kib(self) -> float | None:
        """Mean size of a request; None without any."""
        return 1024 * self.mib_s / self.iops if self.iops and self.mib_s is not None else None

    @property
    def headroom(self) -> float | None:
        """The unused share of the limit that is used most, 0 to 1; None without limits."""
        return max(0.0, 1.0 - max(self.used.values())) if self.used else None


@dataclass(frozen=True)
class InstanceNow:
    """The instance in front of the volumes: `balances` (0-1) and `time_to_empty` by `ios` and
    `bytes`."""

    type: str | None
    limits: Mapping[str, float] = field(default_factory=dict)
    balances: Mapping[str, float] = field(default_factory=dict)
    time_to_empty: Mapping[str, CreditsLeft] = field(default_factory=dict)


@dataclass(frozen=True)
class ReplicaNow:
    """A channel on which the server applies what a source wrote."""

    channel: str
    lag_s: float | None
    applies: bool
    receives: bool
    error: str = ""


@dataclass(frozen=True)
class ServerNow:
    """The database: rates a second. `waits`: share of the clients' time by class of wait, 0-1;
    `io_wait`: those for files of the database together. `totals`: counters since the server began,
    by the names of the exports' table.
    """

    label: str
    version: str | None = None
    up: bool = True
    tps: float | None = None
    reads_s: float | None = None
    flushed_s: float | None = None
    checkpoint_age: float | None = None
    log_waits_s: float | None = None
    free_waits_s: float | None = None
    dirty: float | None = None
    running: float | None = None
    waits: Mapping[str, float] = field(default_factory=dict)
    io_wait: float | None = None
    totals: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class LiveVerdict:
    """`word` as doctor's verdicts have them; `limit` by its name in `caps.WORDS`, None where it is
    not a limit; `where`: the volume, server or instance; `text`: a sentence with its numbers;
    `brief`: the same for a line that is too short."""

    word: str
    limit: str | None
    where: str
    text: str
    brief: str = ""

    def build_headline(self, width: int) -> str:
        """Returns one line: the brief text where the other is too long."""
        whole = f"{self.word}: {self.text}"
        return whole if cell_len(whole) <= width or not self.brief else f"{self.word}: {self.brief}"


@dataclass(frozen=True)
class Moment:
    """A reading of a target at `t_unix`. `grain_s`: how long the interval of its rates is.
    `findings`: all verdicts, the worst first."""

    target: str
    t_unix: float
    grain_s: float
    findings: tuple[LiveVerdict, ...]
    volumes: tuple[VolumeNow, ...] = ()
    instance: InstanceNow | None = None
    server: ServerNow | None = None
    replicas: tuple[ReplicaNow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> LiveVerdict:
        """The most severe finding."""
        return self.findings[0]

    @property
    def empty_first(self) -> tuple[str, CreditsLeft] | None:
        """The name of the volume or instance whose credits are empty first, and its time to
        empty."""
        return next(iter(self.emptying), None)

    @property
    def emptying(self) -> list[tuple[str, CreditsLeft]]:
        """Names of volumes and instance with their times to empty, the shortest first."""
        times = [(volume.label, volume.time_to_empty) for volume in self.volumes if volume.time_to_empty is not None]
        if self.instance is not None:
            times += [
                (f"instance {unit}", time_to_empty) for unit, time_to_empty in self.instance.time_to_empty.items()
            ]
        return sorted(times, key=lambda entry: entry[1].seconds)

    def to_document(self) -> dict[str, object]:
        """Returns a line of `--output jsonl`; infinite numbers are null, with `never` true."""
        document: dict[str, object] = {"schema": SCHEMA, **asdict(self), "verdict": asdict(self.verdict)}
        document["volumes"] = [_build_volume_document(volume) for volume in self.volumes]
        if self.instance is not None:
            instance = _with_left(asdict(self.instance))
            instance["left"] = {
                unit: build_empty_document(value) for unit, value in self.instance.time_to_empty.items()
            }
            document["instance"] = instance
        return document


def _build_volume_document(volume: VolumeNow) -> dict[str, object]:
    """Returns a volume as JSON has it: without the page, with its head-room, and with figures of
    reads and writes by names of their own."""
    document = _with_left(asdict(replace(volume, page=None)))
    document |= {"left": build_empty_document(volume.time_to_empty), "headroom": volume.headroom}
    for kind, figures in (("read", volume.reads), ("write", volume.writes)):
        document |= {f"{kind}_{name}": figure for name, figure in asdict(figures).items()}
    for name in ("page", "reads", "writes"):
        del document[name]
    return document


def _with_left(document: dict[str, object]) -> dict[str, object]:
    """Renames `time_to_empty` to `left`, its name in JSON."""
    return {"left" if name == "time_to_empty" else name: value for name, value in document.items()}


def build_empty_document(time_to_empty: CreditsLeft | None) -> dict[str, object] | None:
    """Returns a time to empty as JSON has it; None for None."""
    if time_to_empty is None:
        return None
    figures = asdict(time_to_empty).items()
    finite = {name: None if value is None or math.isinf(value) else value for name, value in figures}
    return {"never": math.isinf(time_to_empty.seconds), **finite}


def _sum(*parts: float | None) -> float | None:
    figures = [part for part in parts if part is not None]
    return sum(figures) if figures else None
