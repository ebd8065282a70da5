"""What is proved: a storage with a cache and clients, as it is run on the lab."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import core_errors
from headrace.errors import InputError

DOC = "docs/guide/prove.md"
LEAST_CACHE_GIB = 0.005  # innodb_buffer_pool_size is at least 5 MiB
MOST_THREADS = 4_096


@dataclass(frozen=True)
class Configuration:
    """`name`: what it is called in tables. `storage`, `log_storage`: notation. `cache_gib`: buffer pool or block cache. `threads`: clients of the closed load.

    `balance_percent`: credits at the start; None: as AWS starts them. Raises InputError for what cannot be.
    """

    name: str
    storage: str
    cache_gib: float
    threads: int
    log_storage: str | None = None
    balance_percent: float | None = None

    def __post_init__(self) -> None:
        with core_errors():
            for spec in filter(None, (self.storage, self.log_storage)):
                core.parse_storage(spec)
        if not self.cache_gib >= LEAST_CACHE_GIB:
            raise InputError(f"{self.name}: a cache of {self.cache_gib:g} GiB", f"must be at least {LEAST_CACHE_GIB:g} GiB", DOC)
        if not 1 <= self.threads <= MOST_THREADS:
            raise InputError(f"{self.name}: {self.threads} clients", f"must be 1 to {MOST_THREADS:,}", DOC)

    @property
    def place(self) -> str:
        """Storage in words."""
        return self.storage if self.log_storage is None else f"{self.storage}, log on {self.log_storage}"

    @property
    def usable_gib(self) -> float:
        """What the data volumes hold, GiB."""
        return float(core.parse_storage(self.storage)["usable_gib"])
