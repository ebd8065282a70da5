"""What the rules know: storage in sustained rates, memory, processors, the workload and what it asks a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from headrace.advice.model import DOC, DURABILITIES, ENGINES, Server
from headrace.base import core
from headrace.base.checks import check_choice, check_number, check_whole
from headrace.base.core import core_errors
from headrace.errors import InputError
from headrace.workload import TransactionWorkload

MIB, GIB = 1024.0**2, 1024.0**3
# Volume types on turning disks: a request is charged by distance, not by its 256 KiB.
DISKS = ("st1", "sc1", "standard")


@dataclass(frozen=True)
class Storage:
    """A storage in rates it sustains without burst credits, all members together: I/Os a second and bytes a second; what a write costs in them."""

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
        """Whether a member turns."""
        return any(kind in DISKS for kind in self.types)

    @property
    def mib_s(self) -> float:
        return self.bytes_s / MIB

    @property
    def pages_s(self) -> float:
        """InnoDB pages it can write back a second, with doublewrite, if nobody reads."""
        ios, page_bytes = core.page_write_cost()
        return min(self.iops / ios, self.bytes_s / page_bytes) / self.write_cost

    @property
    def words(self) -> str:
        """`gp3:500:6000 (6,000 IOPS, 125 MiB/s)`, with the burst where there is one."""
        burst = f" without credits, {self.burst_iops:,.0f} with" if self.burst_iops > self.iops else ""
        return f"{self.text} ({self.iops:,.0f} IOPS{burst}, {self.mib_s:,.0f} MiB/s)"


def storage_of(text: object, as_of: str | None = None, instance: str | None = None) -> Storage:
    """The sustained rates of a storage in the catalog's notation, held to the limits of the instance. Raises InputError."""
    if not isinstance(text, str):
        raise InputError(f"storage = {text!r}", "must be text such as gp3:500:6000:250", DOC)
    with core_errors():
        parsed = core.parse_storage(text)
        limits = core.storage_limits(text, as_of, instance)
        host = None if instance is None else core.instance(instance, as_of)
    iops = float(sum(member["iops"] for member in limits))
    burst = float(sum((member["io_burst"] or {}).get("iops", member["iops"]) for member in limits))
    rate = float(sum((member["byte_burst"] or {}).get("baseline_bytes_s", member["throughput_bytes_s"]) for member in limits))
    types = tuple(dict.fromkeys(member["spec"]["volume_type"] for member in limits))
    local = "instance-store" in types
    if host is not None and not local:
        for name in ("baseline_iops", "baseline_bytes_s"):
            cap = host[name]
            if cap and name == "baseline_iops":
                iops, burst = min(iops, cap), min(burst, host["max_iops"] or cap)
            elif cap:
                rate = min(rate, cap)
    layout, count = parsed["raid"], len(limits)
    with core_errors():
        cost = core.storage_cost(text)["ios_per_write"]
    return Storage(text, types, count, layout, iops, burst, rate, cost, float(parsed["usable_gib"]), local)


@dataclass(frozen=True)
class Situation:
    """Everything a rule may look at. `chosen`: values of the rules that ran before, by parameter. `current`: today's, by parameter. `default_redo_bytes`: what
    the server has when nobody sets it. `compared`: whether today's values were given at all."""

    server: Server
    engine: str
    storage: Storage
    log_storage: Storage | None
    memory_gib: float
    vcpus: int | None
    instance: dict | None
    workload: TransactionWorkload | None
    durability: str
    replica: bool
    as_of: str | None
    log_dir: str | None
    tmp_dir: str | None
    current: dict[str, str] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    default_redo_bytes: float | None = None
    compared: bool = False

    @property
    def instance_type(self) -> str | None:
        return None if self.instance is None else self.instance["instance_type"]

    @property
    def cache_limit_gib(self) -> float:
        """What the memory has room for: docs/decisions/0006."""
        return core.cache_gib_for(self.memory_gib)

    @cached_property
    def demand(self):
        """What the workload asks on this storage, None without one; see effects.Demand."""
        from headrace.advice.effects import demand_of

        return None if self.workload is None else demand_of(self)


def check(*, engine: object, memory_gib: object, vcpus: object, durability: object, workload: object, replica: object) -> None:
    """Refuses what cannot be. Raises InputError."""
    check_choice("engine", engine, ENGINES)
    check_choice("durability", durability, DURABILITIES)
    check_number("memory", memory_gib, 0.25, 65_536, "GiB")
    if vcpus is not None:
        check_whole("vcpus", vcpus, 1, 4_096)
    if not isinstance(replica, bool):
        raise InputError(f"replica = {replica!r}", "must be True or False", DOC)
    if workload is not None and not isinstance(workload, TransactionWorkload):
        raise InputError(
            "workload", "must be a database in transactions", DOC, "`headrace calibrate` or `headrace workload capture` makes one."
        )
    if workload is not None and workload.engine != engine:
        raise InputError(f"workload {workload.name}", f"was measured with {workload.engine}, and the advice is for {engine}", DOC,
                         f"Say --engine {workload.engine}, or leave the workload out.")  # fmt: skip


def check_server(server: Server, engine: str) -> None:
    """Refuses MyRocks where there is none. Raises InputError."""
    if engine != "myrocks":
        return
    if server.flavor == "mysql":
        raise InputError(f"{server.label} with MyRocks", "Oracle's MySQL has no MyRocks", "mysql-manual", "It is in mariadb and percona.")
    if server.flavor == "mariadb" and server.version < (10, 2, 16):
        raise InputError(
            f"{server.label} with MyRocks", "MyRocks is stable from MariaDB 10.2.16 on", "MariaDB knowledge base", "Use a later release."
        )
