"""Finds causes other than storage: locks, processors, the network, a cold cache, reads by other
programs. They are judged before anything else."""

from __future__ import annotations

from dataclasses import replace

from headrace.base.units import KIB, MIB
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.signals import Signals, VolumeSignals
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import read_verdicts

# Reads this many times as large as a page of InnoDB (up to 64 KiB) are not its own (a guess).
LARGER_THAN_A_PAGE = 1.25


# Words on processors, alone and with storage that waits.
KEEPS_UP = "Storage keeps up."
NEARLY_SPENT = "Storage waits too, and the processors are nearly spent: they may bind as soon as its limit is lifted."


def find_excuses(signals: Signals, thresholds: Thresholds, storage_waits: bool = False) -> list[Finding]:
    """Returns a finding for each cause other than storage, the one that takes most of the clients'
    time first. `storage_waits`: a limit binds as well, or a volume is degraded, so that storage
    does not keep up."""
    checks = (_blame_locks, _blame_foreign_reads, _blame_cold_pool, _blame_processors, _blame_clients, _blame_idleness)
    excuses = [excuse for check_cause in checks if (excuse := check_cause(signals, thresholds)) is not None]
    if storage_waits:
        excuses = [replace(excuse, words=excuse.words.replace(KEEPS_UP, NEARLY_SPENT)) for excuse in excuses]
    return sorted(excuses, key=lambda excuse: -excuse.weight)


def _blame_locks(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames row locks, where those who hold them do not wait for storage themselves."""
    server, row = signals.server, read_verdicts()["locks"]
    if server is None or not row.holds(t, lock_share=server.locks, running=server.running):
        return None
    locks = server.locks or 0.0
    # The time of those who hold the locks: if it goes to storage, the locks only pass its waits on.
    free = max(1e-9, 1.0 - locks)
    of_holders = min(1.0, (server.felt or 0.0) / free)
    return row.make_finding(
        felt=server.felt,
        weight=locks * (1.0 - of_holders * _compute_limit_share(signals, t)),
        lock_share=locks,
        lock_waiters=locks * server.running,
        running=server.running,
    )


def _compute_limit_share(signals: Signals, t: Thresholds) -> float:
    """Returns the largest share of the time that a volume is over a limit; 0 below `seen_share`."""
    shares = [share for volume in signals.volumes for share in volume.use.over.values() if share is not None]
    worst = max(shares, default=0.0)
    return worst if worst >= t.seen_share else 0.0


def _blame_foreign_reads(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames reads that are not the server's: a backup, a copy, a check of files."""
    if signals.server is None or len(signals.volumes) == 0:
        return None
    own = signals.server.get("data_read_bytes_per_s")
    volume = max(signals.volumes, key=lambda candidate: candidate.read_iops * candidate.read_kib)
    read = volume.read_iops * volume.read_kib * KIB
    page = signals.server.facts.variables.get("innodb_page_size", "")
    least_kib = max(t.foreign_kib, LARGER_THAN_A_PAGE * int(page) / KIB if page.isdigit() else 0.0)
    if own is None or not read or volume.read_kib < least_kib:
        return None
    share, row = max(0.0, read - own) / read, read_verdicts()["backup"]
    if not row.holds(t, read_mib_s=read / MIB, foreign_share=share):
        return None
    return row.make_finding(
        volume.facts.name,
        signals.server.felt,
        0.9 * share,
        foreign_share=share,
        read_mib_s=read / MIB,
        own_mib_s=own / MIB,
        others_mib_s=(read - own) / MIB,
        read_kib=volume.read_kib,
    )


def _blame_cold_pool(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames a buffer pool that still fills."""
    server = signals.server
    if server is None:
        return None
    free, uptime, row = server.get("free_share"), server.get("uptime_s"), read_verdicts()["cold-cache"]
    reads, ios = server.get("pool_reads_per_s") or 0.0, sum(volume.iops for volume in signals.volumes)
    figures = {
        "unused_share": server.unused_share,
        "uptime_s": uptime,
        "kept_share": server.kept_share,
        # Without I/Os all waits may be those of a cold cache.
        "read_share": reads / ios if ios else 1.0,
    }
    if free is None or uptime is None or not row.holds(t, **figures):
        return None
    left_s = free / (server.filled / server.seconds) if server.seconds else 0.0
    # Share of the clients' time that reads take.
    weight = (server.felt_read or 0.0) * server.running_share
    return row.make_finding(
        felt=server.felt,
        weight=weight,
        free_share=free,
        filled_share=1 - free,
        uptime_s=uptime,
        pool_reads_per_s=reads,
        full_in_s=left_s,
    )


def _blame_processors(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames the host's processors, where clients do not wait for storage more."""
    server, host = signals.server, signals.host
    steal = host.steal or 0.0
    by_server = host.server or 0.0
    busy = host.busy or 0.0
    if server is not None and server.running < t.little_running:
        return None
    felt = server.felt if server else None
    # Share of the clients' time that is neither I/O nor locks.
    rest = max(0.0, 1.0 - (felt or 0.0) - ((server.locks or 0.0) if server else 0.0))
    queued = _has_processor_queue(signals, rest, t)
    enough = busy >= t.processor_share or by_server >= t.server_processor_share or steal >= t.steal_share
    if host.vcpus is None or not (enough or queued):
        return None
    return read_verdicts()["steal" if steal >= t.steal_share else "processors"].make_finding(
        felt=felt,
        weight=rest * max(busy, by_server, steal, 1.0 if queued else 0.0) * _compute_share_under_way(signals, t),
        busy=busy,
        by_server=by_server,
        steal=steal,
        used=max(busy, by_server),
        vcpus=host.vcpus,
        storage=KEEPS_UP,
        busy_share=host.busy,
        server_share=host.server,
        steal_share=host.steal,
    )


def _compute_share_under_way(signals: Signals, t: Thresholds) -> float:
    """Returns the share of the connections' time that the processors can explain: all of it where
    the server computes, for its clients may do so on the same host; where it hardly does, others
    took the processors, and only statements under way wait for these."""
    server, by_server = signals.server, signals.host.server
    if server is None or by_server is None or by_server >= t.queued_server_share:
        return 1.0
    return server.running_share


def _has_processor_queue(signals: Signals, rest: float, t: Thresholds) -> bool:
    """Returns whether more statements are under way than processors, and wait for nothing but these
    (PSI). A server that hardly computes waits for something else, and the pressure is that of
    others."""
    server, host = signals.server, signals.host
    if server is None or host.vcpus is None or host.pressure is None or (host.server or 0.0) < t.queued_server_share:
        return False
    return server.running >= host.vcpus and host.pressure >= t.pressure_share and rest >= t.queued_rest_share


def _blame_clients(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames connections that mostly have nothing under way, while work is done: the time goes into
    the clients or the network."""
    server = signals.server
    # The transactions of a replica are its appliers': of its clients only the questions are known.
    work = None if server is None else server.get("questions_per_s") if server.facts.replica else server.tps
    if server is None or not server.connected:
        return None
    share, row = server.running_share, read_verdicts()["network"]
    if not row.holds(t, connected=server.connected, work_per_s=work, running_share=share):
        return None
    if ((server.felt or 0.0) >= t.felt_share or server.commits_unknown) and _compute_limit_share(signals, t):
        return None  # a pool of idle connections excuses nothing of what those at work wait for
    return row.make_finding(
        felt=server.felt,
        weight=(1.0 - share) * 0.7,
        running=server.running,
        connected=server.connected,
        tps=server.tps,
    )


def _blame_idleness(signals: Signals, t: Thresholds) -> Finding | None:
    """Returns the finding that hardly any I/O or transaction is requested; None where some are."""
    if not signals.volumes and signals.server is None:
        return None
    if any(volume.iops >= t.idle_iops for volume in signals.volumes):
        return None
    if signals.server is not None and (signals.server.tps >= t.idle_tps or signals.server.running >= 1.0):
        return None
    rates = (
        f"{sum(volume.iops for volume in signals.volumes):.1f} I/Os a second" if signals.volumes else "",
        f"{signals.server.tps:.1f} transactions a second" if signals.server else "",
    )
    return read_verdicts()["idle"].make_finding(felt=0.0, rates=" and ".join(text for text in rates if text))


def is_busy(volume: VolumeSignals, t: Thresholds) -> bool:
    """Returns whether the volume does at least `idle_iops` I/Os a second."""
    return volume.iops >= t.idle_iops
