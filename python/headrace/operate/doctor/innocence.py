"""What acquits storage: locks, processors, the network, a cold cache, somebody else's reads. Looked
at before anything else."""

from __future__ import annotations

from dataclasses import replace

from headrace.base.units import KIB, MIB, in_percent, span_in_words
from headrace.operate.doctor.model import Finding, FindingFigure, Remedy
from headrace.operate.doctor.signals import Signals, VolumeSignals
from headrace.operate.doctor.thresholds import Thresholds

# Reads this many times as large as a page of InnoDB (up to 64 KiB) are not its own (a guess).
LARGER_THAN_A_PAGE = 1.25


# Words on processors, alone and with storage that waits.
KEEPS_UP = "Storage keeps up."
NEARLY_SPENT = "Storage waits too, and the processors are nearly spent: they may bind as soon as its limit is lifted."


def figure(name: str, value: float | None, unit: str, words: str) -> FindingFigure:
    """Returns a number with its words."""
    return FindingFigure(name, value, unit, words)


def innocent(signals: Signals, thresholds: Thresholds, storage_waits: bool = False) -> list[Finding]:
    """Returns every other explanation that holds, the one that takes most of the clients' time
    first. `storage_waits`: a limit binds as well, or a volume is degraded, so that storage does not
    keep up."""
    looked = (_locks, _foreign, _cold, _processors, _away, _idle)
    excuses = [excuse for look in looked if (excuse := look(signals, thresholds)) is not None]
    if storage_waits:
        excuses = [replace(excuse, words=excuse.words.replace(KEEPS_UP, NEARLY_SPENT)) for excuse in excuses]
    return sorted(excuses, key=lambda excuse: -excuse.weight)


def _locks(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames row locks, where those who hold them do not wait for storage themselves."""
    server = signals.server
    if server is None or server.locks is None or server.locks < t.lock_share or server.running < t.little_running:
        return None
    # Time of those who do not wait for a lock: where it goes to storage, locks are how it is felt.
    free = max(1e-9, 1.0 - server.locks)
    of_holders = min(1.0, (server.felt or 0.0) / free)
    waits = server.locks * server.running
    figures = (
        figure("lock_share", server.locks, "share", f"{in_percent(server.locks)} of the clients' time in row locks"),
        figure(
            "lock_waiters", waits, "clients", f"{waits:.1f} of {server.running:.1f} running clients wait for a lock"
        ),
        figure("felt", server.felt, "share", _felt_words(server.felt)),
    )
    words = f"Clients wait for each other's row locks ({in_percent(server.locks)} of their time), not for storage."
    what = "Find the statement that holds the locks, and make its transaction shorter"
    remedy = Remedy(what, ("SELECT * FROM sys.innodb_lock_waits;    -- MariaDB: information_schema.INNODB_LOCK_WAITS",))
    weight = server.locks * (1.0 - of_holders * _at_limit(signals, t))
    return Finding(
        "not storage",
        "locks",
        words,
        basis="server",
        felt=server.felt,
        weight=weight,
        figures=figures,
        remedies=(remedy,),
    )


def _at_limit(signals: Signals, t: Thresholds) -> float:
    """Returns the share of the time that a volume is over a limit, 0 where that is too little to be
    seen."""
    shares = [share for volume in signals.volumes for share in volume.use.over.values() if share is not None]
    worst = max(shares, default=0.0)
    return worst if worst >= t.seen_share else 0.0


def _foreign(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames reads that are not the server's: a backup, a copy, a check of files."""
    if signals.server is None or len(signals.volumes) == 0:
        return None
    own = signals.server.get("data_read_bytes_per_s")
    volume = max(signals.volumes, key=lambda candidate: candidate.read_iops * candidate.read_kib)
    read = volume.read_iops * volume.read_kib * KIB
    page = signals.server.facts.variables.get("innodb_page_size", "")
    least_kib = max(t.foreign_kib, LARGER_THAN_A_PAGE * int(page) / KIB if page.isdigit() else 0.0)
    if own is None or read < t.foreign_least_mib_s * MIB or volume.read_kib < least_kib:
        return None
    share = max(0.0, read - own) / read
    if share < t.foreign_share:
        return None
    figures = (
        figure("foreign_share", share, "share", f"{in_percent(share)} of the bytes read are not the server's"),
        figure("read_mib_s", read / MIB, "MiB/s", f"{read / MIB:,.1f} MiB/s read, {own / MIB:,.1f} by the server"),
        figure("read_kib", volume.read_kib, "KiB", f"{volume.read_kib:,.0f} KiB a read: no pages of InnoDB"),
    )
    words = (
        f"Another process reads {(read - own) / MIB:,.1f} MiB/s from {volume.facts.name} in reads of "
        f"{volume.read_kib:,.0f} KiB: a backup or a copy. It is what the volume is busy with, not the database."
    )
    remedy = Remedy(
        "Let it run slower, or at another hour, or take snapshots instead; buy nothing for it",
        ("mariabackup --backup --throttle=N    # N times 10 MiB a second",),
    )
    return Finding(
        "not storage",
        "backup",
        words,
        volume.facts.name,
        "server",
        signals.server.felt,
        0.9 * share,
        figures,
        remedies=(remedy,),
    )


def _cold(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames a buffer pool that still fills."""
    server = signals.server
    if server is None:
        return None
    free, unused, uptime = server.get("free_share"), server.unused_share, server.get("uptime_s")
    reads = server.get("pool_reads_per_s") or 0.0
    if (
        free is None
        or unused is None
        or uptime is None
        or unused < t.cold_free_share
        or uptime > t.cold_uptime_s
        or server.kept_share < t.cold_kept_share
    ):
        return None
    ios = sum(volume.iops for volume in signals.volumes)
    if signals.volumes and reads < t.cold_read_share * ios:
        return None
    left_s = free / (server.filled / server.seconds) if server.seconds else 0.0
    figures = (
        figure("free_share", free, "share", f"{in_percent(free)} of the buffer pool was never used"),
        figure("uptime_s", uptime, "s", f"the server was started {span_in_words(round(uptime))} ago"),
        figure("pool_reads_per_s", reads, "pages/s", f"{reads:,.0f} pages a second are read for the first time"),
        figure(
            "full_in_s",
            left_s,
            "s",
            f"the buffer pool is full in about {span_in_words(max(1, round(left_s)))} at this pace",
        ),
    )
    words = (
        f"The cache is cold: {in_percent(1 - free)} of the buffer pool is filled, {span_in_words(round(uptime))} after the start. "
        "Reads fall by themselves as it fills; nothing of the storage can be judged by them."
    )
    remedy = Remedy(
        "Wait until it is full; innodb_buffer_pool_dump_at_shutdown and _load_at_startup shorten it the next time",
        ("innodb_buffer_pool_load_at_startup = ON",),
    )
    # What its reads take of all the time that clients have.
    weight = (server.felt_read or 0.0) * min(1.0, server.running / max(server.connected, 1.0))
    return Finding("not storage", "cold-cache", words, None, "server", server.felt, weight, figures, remedies=(remedy,))


def _processors(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames the host's processors, where clients do not wait for storage more."""
    server, host = signals.server, signals.host
    steal = host.steal or 0.0
    by_server = host.server or 0.0
    busy = host.busy or 0.0
    if server is not None and server.running < t.little_running:
        return None
    felt = server.felt if server else None
    # What clients spend neither in I/O nor in locks.
    rest = max(0.0, 1.0 - (felt or 0.0) - ((server.locks or 0.0) if server else 0.0))
    queued = _queued(signals, rest, t)
    enough = busy >= t.processor_share or by_server >= t.server_processor_share or steal >= t.steal_share
    if host.vcpus is None or not (enough or queued):
        return None
    figures = (
        figure("busy_share", host.busy, "share", f"{in_percent(busy)} of {host.vcpus} processors at work"),
        figure("server_share", host.server, "share", f"{in_percent(by_server)} of the processors used by the server"),
        figure(
            "steal_share", host.steal, "share", f"{in_percent(steal)} of the processors taken by other guests (steal)"
        ),
        figure("felt", felt, "share", _felt_words(felt)),
    )
    if steal >= t.steal_share:
        words = (
            f"Other guests take {in_percent(steal)} of the processors (steal): the host is what is slow, not storage."
        )
        remedy = Remedy("Move to another host (stop and start the instance), or to a type without burstable processors")
    else:
        words = f"The processors are the bottleneck: {in_percent(max(busy, by_server))} of {host.vcpus} at work, {in_percent(by_server)} by the server. {KEEPS_UP}"
        remedy = Remedy(
            "Take the statements that use most processor time first, then more processors",
            ("SELECT * FROM sys.statement_analysis LIMIT 10;",),
        )
    return Finding(
        "not storage",
        "processors",
        words,
        None,
        "server",
        felt,
        rest * max(busy, by_server, steal, 1.0 if queued else 0.0),
        figures,
        remedies=(remedy,),
    )


def _queued(signals: Signals, rest: float, t: Thresholds) -> bool:
    """True when more statements are under way than processors, and wait for nothing but these
    (PSI). A server that hardly computes waits for something else, and the pressure is that of
    others."""
    server, host = signals.server, signals.host
    if server is None or host.vcpus is None or host.pressure is None or (host.server or 0.0) < t.queued_server_share:
        return False
    return server.running >= host.vcpus and host.pressure >= t.pressure_share and rest >= t.queued_rest_share


def _away(signals: Signals, t: Thresholds) -> Finding | None:
    """Blames connections that mostly have nothing under way, while work is done: the time goes into
    the clients or the network."""
    server = signals.server
    # The transactions of a replica are its appliers': of its clients only the questions are known.
    work = None if server is None else server.get("questions_per_s") if server.facts.replica else server.tps
    if server is None or server.connected < t.away_least_connections or (work or 0.0) < t.idle_tps:
        return None
    share = server.running / server.connected
    if share > t.away_share:
        return None
    if ((server.felt or 0.0) >= t.felt_share or server.commits_unknown) and _at_limit(signals, t):
        return None  # a pool of idle connections excuses nothing of what those at work wait for
    figures = (
        figure(
            "running",
            server.running,
            "threads",
            f"{server.running:.1f} of {server.connected:.0f} connections run a statement on average",
        ),
        figure("tps", server.tps, "1/s", f"{server.tps:,.0f} transactions a second"),
        figure("felt", server.felt, "share", _felt_words(server.felt)),
    )
    words = (
        f"The server waits for its clients: {server.running:.1f} of {server.connected:.0f} connections have a statement "
        "under way on average. The time goes into the clients or the network between."
    )
    remedy = Remedy(
        "Measure the round trip from a client, and how many statements a transaction sends",
        ("mysqladmin ping, from the client's host",),
    )
    return Finding(
        "not storage", "network", words, None, "server", server.felt, (1.0 - share) * 0.7, figures, remedies=(remedy,)
    )


def _idle(signals: Signals, t: Thresholds) -> Finding | None:
    """Returns a finding where nothing is asked."""
    if not signals.volumes and signals.server is None:
        return None
    if any(volume.iops >= t.idle_iops for volume in signals.volumes):
        return None
    if signals.server is not None and (signals.server.tps >= t.idle_tps or signals.server.running >= 1.0):
        return None
    words = "Nothing is asked: " + " and ".join(
        text
        for text in (
            f"{sum(volume.iops for volume in signals.volumes):.1f} I/Os a second" if signals.volumes else "",
            f"{signals.server.tps:.1f} transactions a second" if signals.server else "",
        )
        if text
    )
    return Finding("fine", "idle", words + ".", None, "server", 0.0, 0.0)


def _felt_words(felt: float | None) -> str:
    return (
        "how long clients wait for I/O is not known"
        if felt is None
        else f"{in_percent(felt)} of the clients' time in I/O waits"
    )


def is_busy(volume: VolumeSignals, t: Thresholds) -> bool:
    """True when anything is asked of the volume."""
    return volume.iops >= t.idle_iops
