"""Cells of replicas: volume, cache, workers and durability of a replica, and the load it applies.

A source writes a load once, without the limits of its volume, and then stops. Every replica begins
with the same data, receives the whole load, and only then applies it, so that its rate is that of
the applier alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.base.checks import check_choice
from headrace.base.storage import Storage
from headrace.bench import Benchmark
from headrace.errors import Refusals
from headrace.experiment.cell import DataSet

refuse = Refusals("docs/guide/calibrate-a-replica.md, Measured on the lab")
# Ways in which a replica's workers may overlap, by flavor; `serial`: one thread, no workers.
MODES = {
    "mariadb": ("serial", "conservative", "optimistic", "aggressive", "minimal"),
    "mysql": ("serial", "ordered", "unordered"),
}
MOST_WORKERS = 1024  # replica_parallel_workers of MySQL; MariaDB takes 16,383
SMALLEST_CACHE_MIB = 5  # innodb_buffer_pool_size of both


@dataclass(frozen=True)
class ReplicaLoad:
    """The load that the source writes before replicas apply it: `benchmark` on `data` by `clients`,
    for `seconds`, with `source_settings` of the source's server."""

    name: str
    data: DataSet
    benchmark: Benchmark
    clients: int
    seconds: int
    seed: int = 1
    source_settings: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def flavor(self) -> str:
        return self.data.flavor


@dataclass(frozen=True)
class ReplicaCell:
    """One replica. `words` name it, and are unique in an experiment.

    `mode` is one of MODES, `workers` 0: one thread. `flush_log`: innodb_flush_log_at_trx_commit;
    `sync_binlog` as the server has it; `binlog` False: the replica writes no binary log.
    `sync_relay_log`: events between flushes of the relay log. `balance_percent`: credits when it
    begins to apply.
    `warmup_s` of applying are not counted, `seconds` at most are. Raises InputError.
    """

    words: str
    load: ReplicaLoad
    storage: str
    cache_mib: int
    workers: int = 0
    mode: str = "serial"
    flush_log: int = 1
    sync_binlog: int = 1
    binlog: bool = True
    log_storage: str | None = None
    sync_relay_log: int = 10_000
    balance_percent: float | None = None
    warmup_s: float = 5.0
    seconds: float = 15.0
    settings: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks storages, mode, workers, flushes and cache. Raises InputError."""
        Storage.parse(self.storage)
        if self.log_storage is not None:
            Storage.parse(self.log_storage)
        check_choice("mode", self.mode, MODES[self.load.flavor], refuse)
        if not 0 <= self.workers <= MOST_WORKERS or (self.workers == 0) != (self.mode == "serial"):
            rule = f"are 0 with the mode serial, and 1 to {MOST_WORKERS:,} with every other"
            raise refuse.input(f"{self.workers} workers, {self.mode}", rule)
        if self.flush_log not in (0, 1, 2):
            raise refuse.input(f"flush_log {self.flush_log}", "must be 0, 1 or 2")
        if self.sync_binlog < 0 or self.sync_relay_log < 0:
            raise refuse.input(f"{self.words}: flushes", "must not be negative")
        if self.cache_mib < SMALLEST_CACHE_MIB:
            raise refuse.input(f"cache of {self.cache_mib} MiB", f"must be {SMALLEST_CACHE_MIB} MiB or more")

    def with_(self, **changed: object) -> ReplicaCell:
        """Returns the cell with changed fields, which are checked. Raises InputError."""
        return replace(self, **changed)

    @property
    def durable(self) -> bool:
        """Returns whether every commit is flushed to the volume."""
        return self.flush_log == 1 and (self.sync_binlog == 1 or not self.binlog)

    @property
    def server_settings(self) -> dict[str, str | None]:
        """Returns the options of the replica's server."""
        flavor = self.load.flavor
        options: dict[str, str | None] = {
            "server-id": "2",
            "innodb-buffer-pool-size": f"{self.cache_mib}M",
            "innodb-flush-log-at-trx-commit": str(self.flush_log),
            "sync-relay-log": str(self.sync_relay_log),
        }
        if self.binlog:
            options |= {"log-bin": "ON", "sync-binlog": str(self.sync_binlog)}
        else:
            options["skip-log-bin"] = None
        if flavor == "mariadb":
            options |= {
                "log-slave-updates": "ON" if self.binlog else "OFF",
                "skip-slave-start": "ON",
                "slave-parallel-threads": str(self.workers),
                "slave-parallel-mode": "conservative" if self.mode == "serial" else self.mode,
                # A replica of Headrace follows by GTID, and refuses what would break its order.
                "gtid-strict-mode": "ON" if self.binlog else "OFF",
                "innodb-buffer-pool-dump-at-shutdown": "OFF",
            }
        else:
            options |= {
                "log-replica-updates": "ON" if self.binlog else "OFF",
                "skip-replica-start": "ON",
                "replica-parallel-workers": str(max(self.workers, 1)),
                "replica-preserve-commit-order": "OFF" if self.mode == "unordered" else "ON",
                "gtid-mode": "ON",
                "enforce-gtid-consistency": "ON",
                "innodb-buffer-pool-dump-at-shutdown": "OFF",
            }
        return options | dict(self.settings)


SOURCE_SETTINGS: dict[str, dict[str, str | None]] = {
    "mariadb": {"log-bin": "ON", "gtid-strict-mode": "ON", "binlog-format": "ROW"},
    "mysql": {"log-bin": "ON", "gtid-mode": "ON", "enforce-gtid-consistency": "ON"},
}


def build_source_settings(load: ReplicaLoad) -> dict[str, str | None]:
    """Returns options of the source: durable, with a binary log of rows, and its data in memory."""
    cache_mib = max(64, round(1.5 * 1024 * load.data.gib))
    durable = {"sync-binlog": "1", "innodb-flush-log-at-trx-commit": "1"}
    return (
        {"server-id": "1", "innodb-buffer-pool-size": f"{cache_mib}M"}
        | SOURCE_SETTINGS[load.flavor]
        | durable
        | dict(load.source_settings)
    )
