"""The database of a server as its counters describe it: enough to simulate the same load on another
storage, when no calibration is there.

The reads, flushes and logged bytes of a transaction are counted; the rest of its time is what the
clients do not spend waiting for storage. The window does not tell how the cache would go on, so
this holds for the cache and the load of the window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import MIB
from headrace.operate.doctor.signals import ServerSignals, Signals, count_syncs

# More pages than a cache of CACHE_BYTES holds by far: every touch is a read.
PAGES = 1e9
CACHE_BYTES = 16.0 * MIB
# Exponent of the transition from one limit to the next (low: gradual): the mean of calibrations,
# and the ends of its interval (calibration/prior: 8 on average, a spread of 20 % of its logarithm).
SHARPNESS = (8.0, 4.0, 16.0)
# Factors on the time without I/O, which a minute of samples gives within a third either way (a
# guess): middle, low, high.
BASE_SPREAD = (1.0, 0.67, 1.5)
SECONDS = 60  # of a simulated run: long enough that it has settled
LEAST_MS = 0.01


@dataclass(frozen=True)
class OwnDatabase:
    """`database`: the core's parameters; `variants`: the same with the ends of BASE_SPREAD and
    SHARPNESS. `clients`: of the closed load. `cpu_tps`: transactions a second that the processors
    allow."""

    database: Mapping[str, object]
    variants: tuple[Mapping[str, object], ...]
    clients: int
    tps: float
    cpu_tps: float | None


def infer_own_database(signals: Signals) -> OwnDatabase | None:
    """Returns the database that the window's counters describe; None where too little is known."""
    server = signals.server
    if server is None or server.tps <= 0 or server.felt is None:
        return None
    reads = (server.get("pool_reads_per_s") or 0.0) / server.tps
    other_reads = _compute_other_reads(signals, server)
    flushed = _compute_flushed_pages(signals, server) / server.tps
    clients = max(1, round(max(server.running, min(server.connected, 10 * max(server.running, 1.0)))))
    response_ms = clients / server.tps * 1e3
    # The part of the response that clients wait for I/O; only statements that run can wait.
    waits_ms = server.felt * server.running / server.tps * 1e3
    base_ms = max(LEAST_MS, response_ms - waits_ms)
    cpu = server.get("server_cpus")
    cpu_ms = max(LEAST_MS, (cpu or 0.0) / server.tps * 1e3)
    databases = [
        _build_database(server, reads + other_reads, flushed, max(cpu_ms, base_ms * factor), cpu_ms, sharpness)
        for factor, sharpness in [(BASE_SPREAD[0], SHARPNESS[0])]
        + [(factor, sharpness) for factor in BASE_SPREAD[1:] for sharpness in SHARPNESS[1:]]
    ]
    vcpus = signals.host.vcpus
    cpu_tps = vcpus / cpu_ms * 1e3 if cpu and vcpus else None
    try:
        with translate_core_errors():
            for database in databases:
                core.mysql_check(database)
    except Exception:  # figures of a window that no database has: no simulation, and none is claimed
        return None
    return OwnDatabase(databases[0], tuple(databases[1:]), clients, server.tps, cpu_tps)


def _compute_other_reads(signals: Signals, server: ServerSignals) -> float:
    """Returns reads per transaction besides misses of the pool: read-ahead, other files."""
    volume = sum(volume_signals.read_iops for volume_signals in signals.volumes)
    return max(0.0, volume - (server.get("pool_reads_per_s") or 0.0)) / server.tps


def _compute_flushed_pages(signals: Signals, server: ServerSignals) -> float:
    """Returns pages a second whose writing, with the doublewrite area, makes the volume's writes,
    less those of the log."""
    flushed = server.get("pages_flushed_per_s")
    writes = sum(volume.write_iops for volume in signals.volumes)
    ios, _ = core.page_write_cost(_get_page_bytes(server), _uses_doublewrite(server))
    most = writes / ios
    return min(flushed, most) if flushed is not None else most


def _get_page_bytes(server: ServerSignals) -> float:
    """Returns innodb_page_size, bytes; 16 KiB where it is not known, its default."""
    text = server.facts.variables.get("innodb_page_size", "")
    return float(text) if text.isdigit() else 16_384.0


def _uses_doublewrite(server: ServerSignals) -> bool:
    """Returns whether pages are written to the doublewrite area first; True where it is not
    known."""
    return server.facts.variables.get("innodb_doublewrite", "ON").upper() not in ("OFF", "0", "DETECT_ONLY")


def _build_database(
    server: ServerSignals, reads: float, flushed: float, base_ms: float, cpu_ms: float, sharpness: float
) -> Mapping[str, object]:
    """Returns the core's parameters of a database. `reads`: I/Os a transaction; `flushed`: pages a
    transaction; `base_ms`: its time without I/O, `cpu_ms`: that of processors; `sharpness`:
    exponent of the transition from one limit to the next."""
    log_bytes = (server.get("log_bytes_per_s") or 0.0) / server.tps
    syncs = float(count_syncs(server.facts)) if server.felt_commit else 0.0
    return {
        "engine": "innodb",
        "read_bytes": _get_page_bytes(server),
        "cached_bytes": _get_page_bytes(server),
        "popularity": [{"pages": PAGES, "touches_per_tx": max(reads, 1e-9) / PAGES}],
        "usable_share": 1.0,
        "old_share": 0.375,
        "ordered_while_filling": False,
        "read_ahead_share": 0.0,
        "writes": {
            "flush_per_tx": flushed,
            "flush_ramp_tx": 1.0,
            "first_dirty": 0.0,
            "later_dirty": 0.0,
            "dirty_slope": 0.0,
            "background_per_s": 0.0,
            "flush_limit_per_s": 1e9,
            "doublewrite": _uses_doublewrite(server),
        },
        "log": {
            "redo_bytes_per_tx": log_bytes,
            "binlog_bytes_per_tx": (server.get("binlog_bytes_per_s") or 0.0) / server.tps,
            "syncs_per_commit": syncs,
            "commits_per_tx": 1.0 if syncs else 0.0,
        },
        "compaction": None,
        "clients": {"base_ms": base_ms, "cpu_ms": cpu_ms, "sharpness": sharpness, "p95_over_mean": 2.0},
        "noise": {"fano": 0.0, "cv": 0.0},
        "shape": {"filling": [], "full": []},
    }


def predict_tps(
    database: Mapping[str, object],
    clients: int,
    storage: str,
    instance: str | None,
    as_of: str | None,
    balance: float | None,
) -> tuple[float, str]:
    """Returns settled transactions a second on a storage, and the bottleneck. `balance`: credits at
    the start, percent; None: as AWS starts them. Raises InputError."""
    run = {
        "storage": storage,
        "instance": instance,
        "as_of": as_of,
        "cache_bytes": CACHE_BYTES,
        "clients": clients,
        "start": "warm",
        "seconds": SECONDS,
        "step_s": 1.0,
        "start_balance_percent": balance,
    }
    with translate_core_errors():
        rows = core.mysql_runs(database, [run])[0]
    half = rows["tps"][len(rows["tps"]) // 2 :]
    return sum(half) / len(half), str(rows["cap"][-1])
