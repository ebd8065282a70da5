"""Exports of `headrace._core`, the Rust crates as Python sees them: crates/py/src. Dates are ISO texts; errors are CoreError with value, rule, source and hint as `args`.

The answers' types stand for annotations only: at run time they are plain dicts, lists and numbers. tests/unit/house/test_core_stub.py holds names, parameters and answers against the module.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict, final

class CoreError(Exception):
    args: tuple[str, str, str, str]

# --- storage and its limits ---------------------------------------------------------------------------------------------

class VolumeSpec(TypedDict):
    volume_type: str
    size_gib: int
    iops: int | None
    throughput_mib_s: int | None

class ParsedStorage(TypedDict):
    raid: str | None
    members: list[VolumeSpec]
    chunk_kib: int
    text: str
    usable_gib: int

class IoBurst(TypedDict):
    iops: int
    capacity_ios: int
    initial_ios: int

class ByteBurst(TypedDict):
    baseline_bytes_s: int
    capacity_bytes: int
    initial_bytes: int

class Consistency(TypedDict):
    at_least_percent: float
    of_time_percent: float

class Caveat(TypedDict):
    field: str
    text: str
    source: str

class ReadLimits(TypedDict):
    iops: int
    throughput_bytes_s: int

class VolumeLimits(TypedDict):
    spec: VolumeSpec
    as_of: str
    era_from: str
    iops: int
    io_burst: IoBurst | None
    throughput_bytes_s: int
    byte_burst: ByteBurst | None
    reads: ReadLimits | None
    io_unit_bytes: int
    random_charges_full_unit: bool
    consistency: Consistency | None
    durability_afr_percent: Sequence[float] | None
    persistent: bool
    caveats: list[Caveat]

# One figure with its sources: `value`, `source`, `confirmed`, and where known `note` and `from`.
Param = dict[str, Any]

class SizeRange(TypedDict):
    min: Param
    max: Param

# Keys that are Python's own words can only be written so.
Era = TypedDict(
    "Era",
    {
        "volume_type": str,
        "from": str,
        "until": str | None,
        "evidence": Param,
        "size_gib": SizeRange,
        "iops": dict[str, Any],
        "throughput": dict[str, Any],
        "io_unit_bytes": Param,
        "random_charges_full_unit": bool,
        "persistent": bool,
        "consistency": NotRequired[Param],
        "durability_afr_percent": NotRequired[Param],
        "facts": dict[str, Param],
    },
)

class StorageCost(TypedDict):
    members: int
    data_members: float
    copies: float
    ios_per_read: float
    ios_per_write: float
    reads_per_write: float
    chunk_kib: float | None
    unit_kib: float
    hdd_unit_kib: float
    hdd_merge_kib: float

class CreditBucket(TypedDict):
    unit: str
    capacity: int
    refill: int

class CreditBuckets(TypedDict):
    members: list[CreditBucket | None]
    instance_ios: CreditBucket | None
    instance_bytes: CreditBucket | None

def credit_buckets(storage: str, as_of: str | None = None, instance: str | None = None) -> CreditBuckets: ...
def seconds_to_empty(level: float, demand: float, refill: float) -> float: ...
def parse_storage(storage: str) -> ParsedStorage: ...
def storage_limits(storage: str, as_of: str | None = None, instance: str | None = None) -> list[VolumeLimits]: ...
def sustained_iops(storage: str, as_of: str | None = None) -> float | None: ...
def storage_cost(storage: str) -> StorageCost: ...
def volume_eras(as_of: str | None = None, all_eras: bool = False) -> list[Era]: ...
def newest_date() -> str: ...

# --- instances, prices, sources -----------------------------------------------------------------------------------------

class Instance(TypedDict):
    instance_type: str
    as_of: str
    vcpus: int
    threads_per_core: int
    core_speed: float | None
    memory_mib: int
    nitro: bool
    current_generation: bool
    baseline_bytes_s: int | None
    max_bytes_s: int | None
    baseline_iops: int | None
    max_iops: int | None
    burst_seconds: int
    instance_store_gb: int
    instance_store_devices: int
    arch: str
    limits_source: str
    limits_as_of: str
    max_ebs_attachments: int | None
    attachments_shared: bool
    attachments_source: str
    exists_since: str | None
    caveats: list[Caveat]

class InstancePrice(TypedDict):
    usd: float
    ebs_optimized_surcharge_usd: float | None
    source: str
    as_of: str
    note: str | None

class PriceItem(TypedDict):
    product: str
    component: str
    from_quantity: int
    usd: float
    unit: str
    source: str
    as_of: str
    confirmed: bool
    note: str

class RegionPrices(TypedDict):
    region: str
    location: str
    as_of: str
    items: list[PriceItem]

class PricesSeen(TypedDict):
    volumes: Sequence[str] | None
    instances: Sequence[str] | None

class CostItem(TypedDict):
    item: str
    quantity: float
    unit: str
    unit_price_usd: float
    usd: float
    source: str
    as_of: str

class Source(TypedDict):
    id: str
    citation: str
    as_of: str
    confidence: str
    note: str

Commitment = TypedDict(
    "Commitment",
    {"commitment": str, "family": str, "factor": float, "from": str, "source": str, "confirmed": bool, "note": str},
)

class ModificationRules(TypedDict):
    available: bool
    max_per_24_hours: int | None
    wait_hours: int | None
    optimizing_s: float
    can_exceed_hours: int | None
    source: str | None

def modification_rules(as_of: str, used_gib: int) -> ModificationRules: ...
def check_attachments(storages: Sequence[str], instance: str, as_of: str | None = None) -> None: ...
def commitment(commitment: str, instance_type: str, as_of: str | None = None) -> Commitment: ...
def instance(name: str, as_of: str | None = None) -> Instance: ...
def instances(as_of: str | None = None) -> list[Instance]: ...
def instance_price(name: str, region: str, as_of: str | None = None) -> InstancePrice | None: ...
def volume_prices(region: str, as_of: str | None = None) -> RegionPrices: ...
def prices_seen(region: str, as_of: str | None = None) -> PricesSeen: ...
def billed_as(volume_type: str) -> tuple[str, list[str]] | None: ...
def region_code(region: str) -> str: ...
def regions() -> list[str]: ...
def sources() -> list[Source]: ...
def monthly_cost(
    storage: str,
    region: str,
    as_of: str | None = None,
    million_ios_per_month: float = 0.0,
    prices: RegionPrices | None = None,
) -> list[CostItem]: ...
def monthly_totals(
    storages: Sequence[str],
    region: str,
    as_of: str | None = None,
    million_ios_per_month: float = 0.0,
    prices: RegionPrices | None = None,
) -> list[float]: ...

# --- latency ------------------------------------------------------------------------------------------------------------

LatencyProfile = TypedDict(
    "LatencyProfile",
    {
        "volume_type": str,
        "op": str,
        "from": str,
        "base_us": float,
        "body_median_us": float,
        "body_sigma": float,
        "tail_weight": float,
        "tail_median_us": float,
        "tail_sigma": float,
        "size_us_per_kib": float,
        "small_us_per_kib": float,
        "stall_per_io": float,
        "stall_median_ms": float,
        "confidence": str,
        "source": str,
    },
)

def latency_quantiles(
    volume_type: str,
    op: Literal["read", "write"],
    quantiles: Sequence[float],
    *,
    bytes: int = 16384,
    as_of: str | None = None,
) -> list[float]: ...
def latency_profiles() -> list[LatencyProfile]: ...

# --- demand on a storage ------------------------------------------------------------------------------------------------

class Rows(TypedDict):
    t_s: list[float]
    duration_s: list[float]
    asked_iops: list[float]
    asked_mib_s: list[float]
    iops: list[float]
    mib_s: list[float]
    queue: list[float]
    balance_percent: list[float | None]
    instance_io_balance_percent: list[float | None]
    instance_byte_balance_percent: list[float | None]
    cap: list[str]
    throttled_s: list[float]
    mean_ms: list[float | None]
    p50_ms: list[float | None]
    p95_ms: list[float | None]
    p99_ms: list[float | None]
    p999_ms: list[float | None]

class UnluckyRun(TypedDict):
    worst_mean_ms: float
    worst_p50_ms: float
    worst_p95_ms: float
    worst_p99_ms: float
    worst_p999_ms: float

class Summary(TypedDict):
    seconds: float
    asked_ios: float
    delivered_ios: float
    delivered_bytes: float
    failed_ios: float
    lost_at_s: float | None
    throttled_s: float
    throttled_by_s: list[Any]
    peak_queue: float
    peak_queue_at_s: float | None
    longest_wait_s: float
    recovered_at_s: float | None
    queue_at_end: float
    lowest_balance_percent: float | None
    lowest_balance_at_s: float | None
    credits_empty_at_s: float | None
    credits_empty_s: float
    lowest_instance_balance_percent: float | None
    instance_empty_at_s: float | None
    instance_empty_s: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    worst_mean_ms: float | None
    worst_p50_ms: float | None
    worst_p95_ms: float | None
    worst_p99_ms: float | None
    worst_p999_ms: float | None
    worst_at_s: float | None
    unlucky: UnluckyRun | None

class Repeated(TypedDict):
    settled: bool
    loses_percent_per_cycle: float | None
    dry_after_s: float | None
    first: Summary

class SimulationAnswer(TypedDict):
    rows: Rows
    summary: Summary
    repeated: Repeated | None

class VolumeDemand(TypedDict):
    t_s: list[float]
    duration_s: list[float]
    iops: list[float]
    mib_s: list[float]
    hdd_mib_s: list[float]

@final
class DemandLoad:
    """Demand over time that many storages are asked about: it is read once, and what was found of
    it is kept."""

    def __init__(self, load: Mapping[str, Any]) -> None: ...
    def times(self, factor: float) -> DemandLoad: ...

def simulate(
    storage: str,
    load: Mapping[str, Any] | DemandLoad,
    *,
    form: str,
    interval_s: float,
    seconds: float | None = None,
    instance: str | None = None,
    as_of: str | None = None,
    seed: int = 1,
    start_balance_percent: float | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[float], object] | None = None,
    cycle: str = "first",
) -> SimulationAnswer: ...
def evaluate(
    load: Mapping[str, Any] | DemandLoad,
    storages: Sequence[str],
    instance_index: Sequence[int | None],
    instances: Sequence[str],
    *,
    as_of: str | None = None,
    start_balance_percent: float | None = None,
    prune_above: float = 1.0,
    progress: Callable[[float], object] | None = None,
    cycle: str = "first",
) -> dict[str, list[Any]]: ...
def demand_on_volumes(load: Mapping[str, Any], storage: str) -> VolumeDemand: ...

# --- many volumes at once -------------------------------------------------------------------------

class Followed(TypedDict):
    balance_percent: bytes
    throttled_s: bytes
    queue: bytes

@final
class FleetDemands:
    """Columns are buffers of f64 (numpy arrays), one volume after the other."""

    def __init__(
        self,
        duration_s: Any,
        reads_per_s: Any,
        writes_per_s: Any,
        read_bytes: Any,
        write_bytes: Any,
        lengths: Sequence[int],
        max_outstanding: int,
    ) -> None: ...
    def evaluate(
        self,
        volumes: Sequence[int],
        storages: Sequence[str],
        instances: Sequence[str | None],
        factors: Sequence[float],
        *,
        as_of: str | None = None,
        prune_above: float = 1.0,
        cycle: str = "settled",
    ) -> dict[str, list[Any]]: ...
    def meets(
        self,
        volumes: Sequence[int],
        storages: Sequence[str],
        instances: Sequence[str | None],
        factors: Sequence[float],
        p99_ms: Sequence[float],
        throttled_s: float,
        *,
        as_of: str | None = None,
    ) -> list[bool]: ...
    def missing_draws(
        self,
        volumes: Sequence[int],
        storages: Sequence[str],
        instances: Sequence[str | None],
        p99_ms: Sequence[float],
        throttled_s: float,
        days: Sequence[Sequence[int]],
        levels: Sequence[Sequence[float]],
        per_day: Sequence[int],
        days_each: int,
        *,
        as_of: str | None = None,
    ) -> list[int]: ...
    def follow(
        self,
        volumes: Sequence[int],
        storages: Sequence[str],
        instances: Sequence[str | None],
        starts: Sequence[float | None],
        *,
        as_of: str | None = None,
    ) -> list[Followed | str]: ...

# --- databases in transactions ------------------------------------------------------------------------------------------

class PopularityClass(TypedDict):
    pages: float
    touches_per_tx: float

class PageWrites(TypedDict):
    flush_per_tx: float
    flush_ramp_tx: float
    first_dirty: float
    later_dirty: float
    dirty_slope: float
    background_per_s: float
    flush_limit_per_s: float
    doublewrite: bool

class Log(TypedDict):
    redo_bytes_per_tx: float
    binlog_bytes_per_tx: float
    syncs_per_commit: float
    commits_per_tx: float
    redo_capacity_bytes: float | None

class Dirtying(TypedDict):
    changed: list[float]
    window_tx: float
    flush_per_tx: float
    revisit_tx: NotRequired[float | None]
    undo_pages: NotRequired[float]

class Compaction(TypedDict):
    period_tx: float
    first_tx: float
    read_bytes_per_tx: float
    write_bytes_per_tx: float
    rate_bytes_s: float
    profile: list[float]

class Clients(TypedDict):
    base_ms: float
    cpu_ms: float
    sharpness: float
    p95_over_mean: float
    serial_share: float
    core_speed: float | None
    threads_per_core: int | None
    alone_faster: NotRequired[float]
    handover_share: float
    background_share: float
    io_ms: float
    io_device_ms: NotRequired[float]
    wake_ms: NotRequired[float]

class Noise(TypedDict):
    fano: float
    cv: float

class Shape(TypedDict):
    filling: list[Any]
    full: list[Any]
    response: NotRequired[list[Any]]
    burst_pages: NotRequired[float]
    statements_p95: NotRequired[float]

class CheckpointLaw(TypedDict):
    ceiling_share: float
    limit_share: float
    wait_share: float
    stop_s: float

class PageCleaner(TypedDict):
    io_capacity: float
    io_capacity_max: float
    most_dirty: float
    low_water: float
    redo_low_water: float
    holds_age: bool

class HotRows(TypedDict):
    rows: float
    at_work: float
    at_commit: float

class LastOrders(TypedDict):
    share: float
    rows_per_page: float
    touches_per_tx: float
    window_tx: float

class Database(TypedDict):
    engine: str
    read_bytes: float
    cached_bytes: float
    popularity: list[PopularityClass]
    usable_share: float
    old_share: float
    ordered_while_filling: bool
    read_ahead_share: float
    writes: PageWrites
    dirtying: Dirtying | None
    cleaner: PageCleaner | None
    log: Log
    checkpoint: CheckpointLaw | None
    compaction: Compaction | None
    clients: Clients
    hot_rows: NotRequired[list[HotRows]]
    noise: Noise
    shape: Shape
    local_disk: float | None
    local_disk_reads: float | None
    last_orders: LastOrders | None
    local_disk_read_ms: float | None

class DatabaseRun(TypedDict):
    storage: str
    log_storage: str | None
    instance: str | None
    vcpus: int | None
    as_of: str | None
    cache_bytes: float
    clients: int | None
    arrivals: list[float] | None
    start: str | float
    seconds: int
    step_s: float
    seed: int | None
    start_balance_percent: float | None
    follow: list[float] | None

class DatabaseRows(TypedDict):
    t_s: list[float]
    tps: list[float]
    p50_ms: list[float]
    p95_ms: list[float]
    p99_ms: list[float]
    iops: list[float]
    mib_s: list[float]
    balance_percent: list[float | None]
    instance_balance_percent: list[float | None]
    cached_share: list[float]
    dirty_share: list[float]
    reads_per_tx: list[float]
    written_per_tx: list[float]
    backlog: list[float]
    compacting: list[bool]
    stopped_share: list[float]
    cap: list[str]

class ClientsAnswer(DatabaseRows):
    summary: dict[str, Any]

class WarmUp(TypedDict):
    tx: list[float]
    reads: list[float]
    evicted_dirty: list[float]
    flushed: list[float]
    turned: list[float]
    cached_share: list[float]
    dirty_share: list[float]
    shape: list[float]
    full: list[float]
    full_at_tx: float | None

class SysbenchAnswer(TypedDict):
    size_gib: float
    database: Database
    changed: list[float]
    spreads: dict[str, float]

class LocalDisk(TypedDict):
    writes: float
    reads: float
    read_ms: float
    page_writes_per_s: float
    spread: float

class TproccAnswer(TypedDict):
    database: Database
    changed: list[float]

class ApplierSpread(TypedDict):
    parameter: str
    words: str
    relative_sd: float
    least: float
    most: float

class ReplicaDefaults(TypedDict):
    applier: dict[str, Any]
    spreads: list[ApplierSpread]

class ReplicaSettings(TypedDict):
    mode: str
    workers: int
    preserve_order: bool
    log_bin: bool
    flush_log_at_trx_commit: int
    sync_binlog: int
    sync_relay_log: int
    rollback_segments: int
    purge_batch: int
    dirty_low_water: float
    io_capacity: float
    coordinator_cores: float

class SemiSync(TypedDict):
    round_trips_ms: list[float]
    acknowledgements: int
    timeout_ms: float
    wait_point: str
    groups_merge: bool

# A replica as the core takes it, but for its `applier`.
class Pauses(TypedDict):
    lost_share: float
    spread: float

class ReplicaRun(TypedDict):
    storage: str
    log_storage: str | None
    relay_storage: str | None
    instance: str | None
    cache_bytes: float
    start: str
    start_balance_percent: float | None
    reads_per_tx: float
    settings: ReplicaSettings
    semi_sync: SemiSync | None
    large: list[tuple[float, float, float]]
    drain_s: int
    source_tps: list[float] | None
    received: bool

class SemiSyncPrice(TypedDict):
    added_ms: float
    relay_ms: float
    most_tps: float
    times_out: bool
    in_turn: bool
    in_step: bool

class ReplicaFigures(TypedDict):
    source_tps: float
    applier_tps: float
    load_s: float
    onset_s: float | None
    lag_at_load_end_s: float
    backlog_at_load_end: float
    peak_lag_s: float
    peak_at_s: float
    catch_up_s: float | None
    binding: str
    usual_binding: str
    dependency_lever: float
    worker_lever: float
    width: float
    grouped: float
    semi_sync: SemiSyncPrice | None

class ReplicaSummary(ReplicaFigures):
    shares: list[tuple[str, float]]
    if_halved: list[tuple[str, float]]

class ReplicaRows(TypedDict):
    t_s: list[float]
    source_tps: list[float]
    applied_tps: list[float]
    possible_tps: list[float]
    backlog: list[float]
    lag_s: list[float]
    reads_per_tx: list[float]
    iops: list[float]
    mib_s: list[float]
    balance_percent: list[float | None]
    binding: list[str]
    summary: ReplicaSummary

# A `Database` as it is read from a file or put together is a plain dict of the same keys; the core checks it.
def mysql_runs(database: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[DatabaseRows]: ...
def mysql_clients(
    database: Mapping[str, Any], run: Mapping[str, Any], progress: Callable[[float], object] | None = None
) -> ClientsAnswer: ...
def mysql_check(database: Mapping[str, Any]) -> None: ...
def mysql_warm_up(database: Mapping[str, Any], cache_bytes: float) -> WarmUp: ...
def mysql_grown(database: Mapping[str, Any], factor: float) -> Database: ...
def mysql_on_flavor(database: Mapping[str, Any], from_flavor: str, flavor: str, version: str) -> Database: ...
def checkpoint_law(flavor: str, version: str) -> CheckpointLaw: ...
def page_cleaner(flavor: str, version: str) -> PageCleaner: ...
def database_under(database: Mapping[str, Any], settings: Mapping[str, Any]) -> Database: ...
def cache_after(
    database: Mapping[str, Any], cache_bytes: float, other_bytes: float, changed: Sequence[float] | None = None
) -> Database: ...
def purged_at(
    database: Mapping[str, Any], of_run: tuple[float, float], target: tuple[float, float], changed: Sequence[float]
) -> Database: ...
def pool_pauses(pool_gib: float, tps: float, calibrated_tps: float, seconds: float) -> Pauses: ...
def noise_of_mean(noise: Mapping[str, float], tps: float, seconds: float) -> float: ...
def replica_applier(database: Mapping[str, Any], changed: Sequence[float] | None = None) -> ReplicaDefaults: ...
def replica_settings(flavor: str, version: str) -> ReplicaSettings: ...
def replica_run(database: Mapping[str, Any], source: Mapping[str, Any], replica: Mapping[str, Any]) -> ReplicaRows: ...
def replica_summaries(
    databases: Sequence[Mapping[str, object]],
    source: Mapping[str, object],
    replicas: Sequence[tuple[int, Mapping[str, object]]],
) -> list[ReplicaSummary]: ...
def page_write_cost(page_bytes: float = 16384.0, doublewrite: bool = True) -> tuple[float, float]: ...
def clients_at_speed(clients: Mapping[str, Any], core_speed: float | None) -> Clients: ...
def processors_tps(clients: Mapping[str, Any], instance: Mapping[str, Any]) -> float: ...
def least_responses(clients: Mapping[str, Any]) -> dict[str, float]: ...
def p95_behind_bursts(
    database: Mapping[str, Any],
    mean_ms: Sequence[float],
    reads_per_tx: Sequence[float],
    full: Sequence[bool],
    page_ms: float,
    running_pages: Sequence[float],
) -> list[float]: ...
def pages_of_burst(wait_ms: float, page_wait_ms: float, running_pages: float) -> tuple[float, float]: ...
def core_ms(clients: Mapping[str, Any]) -> float: ...
def cpu_ms_among(clients: Mapping[str, Any], count: float, ios: float, vcpus: int, threads_per_core: int) -> float: ...
def processor_ms(
    busy_ms: float,
    busy_share: float,
    threads_per_core: int,
    own_vcpus: int | None = None,
    alone_faster: float | None = None,
) -> float: ...
def core_speed(processor: str, clock_ghz: float) -> float: ...
def alone_faster(processor: str, clock_ghz: float) -> float: ...
def mysql_local_disk(
    database: Mapping[str, Any],
    cache_bytes: float,
    kind: str | None,
    size_gb: float,
    known_writes: tuple[float, float] | None,
    as_of: str | None,
) -> LocalDisk: ...
def mysql_tpcc(
    engine: str, warehouses: float, client_host: str | None = None, cache_bytes: float | None = None
) -> Database: ...
def mysql_tprocc(options: Mapping[str, Any]) -> TproccAnswer: ...
def mysql_sysbench(options: Mapping[str, Any]) -> SysbenchAnswer: ...

CACHE_SHARE: Final[float]

def cache_gib_for(memory_gib: float, share: float | None = None) -> float: ...
def innodb_free_pages(flavor: str, version: str, pool_bytes: float, vcpus: int) -> float: ...
def innodb_pool_bytes(flavor: str, version: str, asked_bytes: float, vcpus: int) -> float: ...

@final
class WhatIf:
    def __new__(cls) -> WhatIf: ...
    def answer(self, question: str) -> bytes: ...

@final
class TransactionCandidates:
    def __new__(cls, database: Mapping[str, Any]) -> TransactionCandidates: ...

def transaction_candidates(
    databases: Sequence[TransactionCandidates],
    search: Mapping[str, Any],
    data: Sequence[int],
    log: Sequence[int | None],
    instance: Sequence[int | None],
    cache: Sequence[int],
    *,
    load_by: Sequence[float],
    names: Sequence[str] | None = None,
    progress: Callable[[float], object] | None = None,
) -> list[dict[str, list[Any]]]: ...

# --- managed services ---------------------------------------------------------------------------------------------------

ServiceClass = TypedDict(
    "ServiceClass", {"class": str, "limits": Instance, "network_bytes_s": float | None, "mysql": str, "source": str}
)

class RdsStorage(TypedDict):
    array: str
    iops: int | None
    throughput_mib_s: int | None
    size_gib: int
    volume_type: str
    source: str
    as_of: str

class RdsRange(TypedDict):
    from_gib: int
    to_gib: int
    figures: dict[str, float]

class ServiceBill(TypedDict):
    items: list[CostItem]
    missing: list[str]
    total_usd: float | None

class ManagedRule(TypedDict):
    service: str
    option: str
    key: str
    value: str
    unit: str
    first_seen: str
    source: str
    confirmed: bool
    note: str

class ServiceLimit(TypedDict):
    service: str
    option: str
    what: str
    detail: str
    source: str
    confirmed: bool

class Comparison(TypedDict):
    question: str
    whitepaper_2017: str
    ec2: str
    rds: str
    aurora: str
    source: str
    confirmed: bool

PublishedRun = TypedDict(
    "PublishedRun",
    {
        "family": str,
        "service": str,
        "benchmark": str,
        "class": str,
        "clients": int | None,
        "data_gb": float | None,
        "metric": str,
        "value": float,
        "unit": str,
        "as_of": str,
        "source": str,
        "note": str,
    },
)

class Quorum(TypedDict):
    copies: Sequence[int]
    needed: int
    zone_rtt_ms: float
    node_ms: float
    node_sigma: float
    slow_share: float
    slow_ms: float

class AuroraParameters(TypedDict):
    read_ms: float
    reads_per_vcpu_s: float
    batch_s: float
    stream_ms: float
    lag_ms_per_mb_s: float
    apply_ms_per_mb: float
    quorum: Quorum

class QuorumLatency(TypedDict):
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p999_ms: float

class ReaderLag(TypedDict):
    mean_ms: float | None
    highest_ms: float | None
    cpu_share: float

class BilledIo(TypedDict):
    reads: float
    writes: float

def deployments(names: Sequence[str]) -> list[str]: ...
def service_class(deployment: str, instance: str, as_of: str | None = None) -> ServiceClass: ...
def rds_storage(storage: str, as_of: str | None = None) -> RdsStorage: ...
def rds_ranges(volume_type: str, as_of: str | None = None) -> list[RdsRange]: ...
def service_bill(
    deployment: str,
    instance: str,
    storage: str,
    region: str,
    as_of: str | None = None,
    readers: int = 0,
    data_gib: float = 0.0,
    million_ios: float = 0.0,
) -> ServiceBill: ...
def managed_rule(
    deployment: str, key: str, as_of: str | None = None, option: str | None = None
) -> ManagedRule | None: ...
def service_limits(deployment: str) -> list[ServiceLimit]: ...
def service_comparison() -> list[Comparison]: ...
def published_services() -> list[PublishedRun]: ...
def aurora_parameters() -> AuroraParameters: ...
def aurora_quorum(aurora: Mapping[str, Any] | None = None) -> QuorumLatency: ...
def aurora_reader(
    redo_bytes_s: float, cached_share: float, vcpus: int, aurora: Mapping[str, Any] | None = None
) -> ReaderLag: ...
def aurora_billed(
    database: Mapping[str, Any], reads: float, tps: float, aurora: Mapping[str, Any] | None = None
) -> BilledIo: ...
def service_runs(database: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[DatabaseRows]: ...

# --- records ------------------------------------------------------------------------------------------------------------

class Difference(TypedDict):
    request: int
    arrival: str
    recorded: str
    replayed: str

class Lateness(TypedDict):
    answers: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p99_9_ns: int
    max_ns: int
    histogram: list[Sequence[int]]

class Replayed(TypedDict):
    requests: int
    changes: int
    equal: int
    first_difference: Difference | None
    lateness: Lateness
    span: int
    cut_tail: bool

def replay_record(path: str | os.PathLike[str], progress: Callable[[float], object] | None = None) -> Replayed: ...
