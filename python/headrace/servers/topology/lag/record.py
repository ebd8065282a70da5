"""Records lag with its causes, a row for each moment and channel: every clock, backlog, applier,
processor of the replica's server, its device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

import polars as pl

from headrace.base.processes import read_cpu_seconds
from headrace.errors import HeadraceError
from headrace.lab.metrics import convert_volume_rows
from headrace.servers.server import Server
from headrace.servers.topology.lag.watch import LagReading, LagWatch

# s. Between two rows: one each for the lab's seconds, and one between.
EVERY_S = 0.5
MOST_ROWS = 200_000  # some hours of a few replicas: a guess at what nobody watches any longer

SCHEMA = {
    "t_s": pl.Float64, "at_unix": pl.Float64, "replica": pl.String, "channel": pl.String, "lag_s": pl.Float64, "exact": pl.Boolean,
    "gtid_s": pl.Float64, "heartbeat_s": pl.Float64, "server_s": pl.Float64, "commit_s": pl.Float64, "estimate_s": pl.Float64, "backlog": pl.Float64,
    "unapplied": pl.Float64, "applied_tps": pl.Float64, "source_tps": pl.Float64, "cpu_cores": pl.Float64, "read_iops": pl.Float64,
    "write_iops": pl.Float64, "read_ms": pl.Float64, "write_ms": pl.Float64, "balance_percent": pl.Float64, "problem": pl.String,
}  # fmt: skip


@dataclass
class LagRecord:
    """Collects rows of lag. `servers`: the watched servers that are of the lab, by name; `rows`:
    the last MOST_ROWS, with the columns of SCHEMA; `began_s`: monotonic time of `t_s` 0."""

    watch: LagWatch
    servers: dict[str, Server] = field(default_factory=dict)
    rows: list[dict[str, object]] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    _ticks: dict[str, tuple[float, float]] = field(default_factory=dict)

    def run(self, seconds: float | None, each: Callable[[list[LagReading]], None] = lambda readings: None) -> None:
        """Adds a row of every channel each EVERY_S seconds, and calls `each` with the readings, for
        this number of seconds; None for ever."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            began = time.monotonic()
            readings = self.watch.read()
            self.add(readings)
            each(readings)
            time.sleep(max(0.0, began + EVERY_S - time.monotonic()))

    def add(self, readings: list[LagReading]) -> None:
        """Adds a row for each reading."""
        now, machines = time.monotonic() - self.began_s, {}
        for reading in readings:
            if reading.replica not in machines:
                machines[reading.replica] = self._read_machine(reading.replica)
            values = {name: getattr(reading, name) for name in SCHEMA if hasattr(reading, name)}
            self.rows.append({"t_s": now} | values | asdict(reading.clocks) | machines[reading.replica])
        del self.rows[: max(0, len(self.rows) - MOST_ROWS)]

    def build_frame(self) -> pl.DataFrame:
        """Returns the rows as a frame, with every column of SCHEMA."""
        return pl.DataFrame(self.rows, schema=SCHEMA, infer_schema_length=None)

    def _read_machine(self, name: str) -> dict[str, object]:
        """Returns the columns of the processor and the data volume of a server; those that cannot
        be read are missing, and all of a server outside of the lab."""
        server = self.servers.get(name)
        if server is None:
            return {}
        figures: dict[str, object] = {"cpu_cores": self._measure_cores(server)}
        with contextlib.suppress(HeadraceError):
            if server.volumes.data is not None:
                for row in convert_volume_rows(server.lab.metrics(server.volumes.data, "second", last=1)).values():
                    figures |= {name: row[name] for name in ("read_iops", "write_iops", "balance_percent")}
                    figures |= {"read_ms": row["read_p50_ms"], "write_ms": row["write_p50_ms"]}
        return figures

    def _measure_cores(self, server: Server) -> float | None:
        """Returns the processor time of its process since the last call, in cores; None at the
        first call, or if it does not run."""
        used = read_cpu_seconds(server.pid)
        if used is None:
            return None
        now = time.monotonic()
        before = self._ticks.get(server.name)
        self._ticks[server.name] = (now, used)
        return None if before is None or now <= before[0] else (used - before[1]) / (now - before[0])
