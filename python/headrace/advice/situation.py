"""The input of the rules (storage in sustained rates, memory, processors, workload), and their
answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.advice.buffers import MostMemory
from headrace.advice.model import DURABILITIES, ENGINES, ServerVersion, refuse
from headrace.advice.values import as_bytes
from headrace.base import core
from headrace.base.checks import check_choice, check_number, check_text, check_whole
from headrace.base.core import translate_core_errors
from headrace.base.instances import check_fits_memory, check_fits_vcpus
from headrace.base.units import MIB
from headrace.errors import InputError
from headrace.workload import TransactionWorkload

PAGE_BYTES = 16_384.0  # innodb_page_size, default
# Volume types on rotating disks: a request costs a seek, and not its share of 256 KiB.
DISKS = ("st1", "sc1", "standard")


@dataclass(frozen=True)
class StorageRates:
    """The rates a storage sustains without burst credits, all members together.

    `iops`: I/Os a second; `bytes_s`: bytes a second; `write_cost`: the I/Os a write takes (RAID).
    """

    text: str
    types: tuple[str, ...]
    members: int
    layout: str | None
    iops: float
    burst_iops: float
    bytes_s: float
    write_cost: float
    usable_gib: float
    local: bool

    @property
    def on_disks(self) -> bool:
        """True if a member is a rotating disk."""
        return any(kind in DISKS for kind in self.types)

    @property
    def mib_s(self) -> float:
        return self.bytes_s / MIB

    @property
    def pages_s(self) -> float:
        """InnoDB pages that can be written back a second, with doublewrite, without any reads."""
        ios, page_bytes = core.page_write_cost()
        return min(self.iops / ios, self.bytes_s / page_bytes) / self.write_cost

    @property
    def words(self) -> str:
        """`gp3:500:6000 (6,000 IOPS, 125 MiB/s)`, with the burst if it has one."""
        burst = f" without credits, {self.burst_iops:,.0f} with" if self.burst_iops > self.iops else ""
        return f"{self.text} ({self.iops:,.0f} IOPS{burst}, {self.mib_s:,.0f} MiB/s)"


def compute_storage_rates(text: object, as_of: str | None = None, instance: str | None = None) -> StorageRates:
    """Returns the rates that a storage sustains, IOPS and bytes a second, on an instance. Raises
    InputError."""
    text = check_text("storage", text, "For example gp3:500:6000:250.", refuse)
    with translate_core_errors():
        parsed = core.parse_storage(text)
        limits = core.storage_limits(text, as_of, instance)
        host = None if instance is None else core.instance(instance, as_of)
        cost = core.storage_cost(text)["ios_per_write"]
    iops = float(sum(member["iops"] for member in limits))
    burst = float(sum((member["io_burst"] or {}).get("iops", member["iops"]) for member in limits))
    rate = float(
        sum((member["byte_burst"] or {}).get("baseline_bytes_s", member["throughput_bytes_s"]) for member in limits)
    )
    types = tuple(dict.fromkeys(member["spec"]["volume_type"] for member in limits))
    local = "instance-store" in types
    if host is not None and not local:
        if cap := host["baseline_iops"]:
            iops, burst = min(iops, cap), min(burst, host["max_iops"] or cap)
        if cap := host["baseline_bytes_s"]:
            rate = min(rate, cap)
    return StorageRates(
        text, types, len(limits), parsed["raid"], iops, burst, rate, cost, float(parsed["usable_gib"]), local
    )


@dataclass(frozen=True)
class WorkloadDemand:
    """The demand of a workload on this storage, with a warm cache as large as the memory allows.

    `tps`; redo, binlog and compaction in bytes a second; pages flushed a second. `hot_gib`: the
    smallest cache within 1 % of the throughput of the largest cache that was simulated, which has
    `largest_cache_gib`; None: only the largest reaches it. `data_gib`: the size of the data, where
    it is known.
    """

    tps: float
    redo_bytes_s: float
    binlog_bytes_s: float
    compaction_bytes_s: float
    flushed_pages_s: float
    hot_gib: float | None
    largest_cache_gib: float
    data_gib: float | None


@dataclass(frozen=True)
class Situation:
    """Everything that a rule may look at.

    `current`: today's values by parameter; `compared`: whether they were given at all. `demand`:
    None without a workload. `default_redo_bytes`: the redo log of a server when nobody sets it.
    `chosen`: the values of the rules that ran before, by parameter. `most_memory`: what today's
    settings let the server take next to its pool; None where they are not known.
    """

    server: ServerVersion
    engine: str
    storage: StorageRates
    log_storage: StorageRates | None
    memory_gib: float
    vcpus: int | None
    instance: core.Instance | None
    workload: TransactionWorkload | None
    durability: str
    replica: bool
    as_of: str | None
    log_dir: str | None
    tmp_dir: str | None
    current: dict[str, str] = field(default_factory=dict)
    compared: bool = False
    default_redo_bytes: float | None = None
    demand: WorkloadDemand | None = None
    chosen: dict[str, str] = field(default_factory=dict)
    most_memory: MostMemory | None = None

    @property
    def instance_type(self) -> str | None:
        return None if self.instance is None else self.instance["instance_type"]

    @property
    def cache_limit_gib(self) -> float:
        """The part of the memory that may cache data (docs/decisions/0006)."""
        return core.cache_gib_for(self.memory_gib)

    @property
    def vcpus_words(self) -> str:
        """The number of processors in words, for a reason."""
        return "virtual CPUs not given" if self.vcpus is None else f"{self.vcpus} virtual CPUs"

    def get_chosen_bytes(self, parameter: str) -> float:
        """Returns the value that an earlier rule chose for a parameter, bytes."""
        return as_bytes(self.chosen[parameter]) or 0.0

    def check(self) -> None:
        """Raises InputError for values that cannot be, or do not fit together."""
        check_choice("engine", self.engine, ENGINES)
        check_choice("durability", self.durability, DURABILITIES)
        check_number("memory", self.memory_gib, 0.25, 65_536, "GiB")
        if self.vcpus is not None:
            check_whole("vcpus", self.vcpus, 1, 4_096)
        self._check_against_instance()
        if not isinstance(self.replica, bool):
            raise refuse.input(f"replica = {self.replica!r}", "must be True or False")
        self._check_workload()
        if self.engine == "myrocks":
            self._check_myrocks()
        _check_folder("--log-dir", self.log_dir)
        _check_folder("--tmp-dir", self.tmp_dir)

    def _check_against_instance(self) -> None:
        """Raises InputError for more memory or virtual CPUs than the instance has; a server may use
        less."""
        if self.instance is None:
            return
        name, hint = self.instance["instance_type"], "Leave --{} out ({} in Python), or name a larger instance."
        memory = f"memory of {self.memory_gib:,.10g} GiB"
        hint_of_memory = hint.format("memory-gib", "memory_gib")
        check_fits_memory(memory, self.memory_gib, name, self.instance["memory_mib"], hint_of_memory)
        if self.vcpus is not None:
            hint_of_vcpus = hint.format("vcpus", "vcpus")
            check_fits_vcpus(f"vcpus = {self.vcpus}", self.vcpus, name, self.instance["vcpus"], hint_of_vcpus)

    def _check_workload(self) -> None:
        """Raises InputError for a workload that is not a database, or of another engine."""
        if self.workload is None:
            return
        if not isinstance(self.workload, TransactionWorkload):
            hint = "`headrace calibrate` or `headrace workload capture` makes one."
            raise refuse.input("workload", "must be a database in transactions", hint)
        if self.workload.engine != self.engine:
            rule = f"was measured with {self.workload.engine}, and the advice is for {self.engine}"
            hint = f"Say --engine {self.workload.engine}, or leave the workload out."
            raise refuse.input(f"workload {self.workload.name}", rule, hint)

    def _check_myrocks(self) -> None:
        """Raises InputError for a server that has no stable MyRocks."""
        what = f"{self.server.label} with MyRocks"
        if self.server.flavor == "mysql":
            raise InputError(what, "Oracle's MySQL has no MyRocks", "MySQL manual", "It is in mariadb and percona.")
        if self.server.flavor == "mariadb" and self.server.version < (10, 2, 16):
            rule = "MyRocks is stable from MariaDB 10.2.16 on"
            raise InputError(what, rule, "MariaDB knowledge base", "Use a later release.")


def _check_folder(what: str, folder: object) -> None:
    """Raises InputError for a path that an option file would read as something else."""
    if folder is None:
        return
    text = folder if isinstance(folder, str) else ""
    plain = text.startswith("/") and text.isprintable() and len(text) <= 400
    if not plain or any(character in text for character in "\"'\\#;"):
        rule = "must be an absolute path without quotes, backslashes, # and ;"
        raise refuse.input(f"{what} {folder!r:.80}", rule, "For example /var/lib/mysql-log.")


@dataclass(frozen=True)
class RuleValue:
    """The answer of a rule: a value and why.

    `risk`: where it differs from the table's. `settable` False: it is a comment in the option file.
    `effect`: in words, if the rule computes it.
    """

    value: str
    why: str
    risk: str | None = None
    settable: bool = True
    effect: str | None = None


# None: the parameter does not matter in this situation.
Rule = Callable[[Situation], RuleValue | None]
