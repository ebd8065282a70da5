"""Evidence made by hand for the doctor's tests: a volume, a server and a host that are well, and
what is to be wrong with them."""

from __future__ import annotations

from datetime import datetime, timedelta

from headrace.observe.evidence.limits import get_holding_limits
from headrace.observe.evidence.model import (
    Evidence,
    SeenChannel,
    SeenServer,
    SeenVolume,
    SourceFacts,
    Tick,
    collect_evidence,
)
from headrace.operate.doctor.judging import judge_signals
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.signals import compute_signals
from headrace.operate.doctor.thresholds import Thresholds

START = 1_790_000_000.0  # a Unix time
QUIET_VOLUME = {
    "read_iops": 400.0, "write_iops": 100.0, "charged_iops": 500.0, "read_mib_s": 6.25, "write_mib_s": 1.5625,
    "queue": 0.4, "read_ms": 0.6, "write_ms": 0.8, "read_p50_ms": 0.5, "read_p99_ms": 1.0, "write_p50_ms": 0.7,
    "over_volume_iops": 0.0, "over_volume_throughput": 0.0, "over_instance_iops": 0.0, "over_instance_throughput": 0.0,
}  # fmt: skip
QUIET_SERVER = {
    "tps": 100.0, "questions_per_s": 2_000.0, "pool_reads_per_s": 400.0, "data_read_bytes_per_s": 400 * 16_384.0,
    "log_bytes_per_s": 100_000.0, "pages_flushed_per_s": 60.0, "log_waits_per_s": 0.0, "free_waits_per_s": 0.0,
    "threads_running": 4.0, "threads_connected": 8.0, "lock_waiters": 0.0, "lock_waiting": 0.0, "checkpoint_share": 0.3,
    "checkpoint_age_bytes": 3e7, "free_share": 0.01, "uptime_s": 86_400.0, "server_cpus": 1.0,
}  # fmt: skip
QUIET_HOST = {"user_cpus": 1.0, "nice_cpus": 0.0, "system_cpus": 0.3, "steal_cpus": 0.0, "psi_cpu_share": 0.05}
# 25 MiB of 16 KiB pages: 1,600.
VARIABLES = {
    "innodb_buffer_pool_size": "26214400",
    "innodb_page_size": "16384",
    "innodb_flush_log_at_trx_commit": "1",
    "log_bin": "OFF",
    "innodb_log_file_size": "100663296",
}


def evidence(
    volume: dict | None = None,
    server: dict | None = None,
    host: dict | None = None,
    *,
    storage: str | None = "gp3:500",
    instance: str | None = None,
    seconds: int = 10,
    grain_s: float = 1.0,
    state: str = "",
    replica: dict | None = None,
    with_server: bool = True,
    with_volume: bool = True,
    variables: dict | None = None,
    members: dict[str, dict] | None = None,
    exact: bool = True,
    vcpus: int = 4,
    flavor: str = "mariadb",
    follows: bool = False,
    channels: tuple[SeenChannel, ...] = (),
    loading_known: bool = True,
    each=lambda index, tick: tick,
) -> Evidence:
    """A healthy server with these figures in place of its own. A value may be a function of the
    tick's index."""

    def row(quiet: dict, changed: dict | None, index: int) -> dict:
        columns = quiet | (changed or {})
        return {
            name: value(index) if callable(value) else value for name, value in columns.items() if value is not None
        }

    limits = None if storage is None else get_holding_limits(storage, instance)
    data = SeenVolume("data", storage, "/dev/nvme1n1", limits, state, loading_known=loading_known)
    facts = [data] if with_volume else []
    facts += [SeenVolume(f"data/{name}", "gp3:500", None, None, role="member") for name in (members or {})]
    ticks = []
    for index in range(seconds):
        volumes = {"data": row(QUIET_VOLUME, volume, index)} if with_volume else {}
        volumes |= {f"data/{name}": row(QUIET_VOLUME, values, index) for name, values in (members or {}).items()}
        tick = Tick(
            START + index * grain_s, grain_s, volumes,
            row(QUIET_SERVER, server, index) if with_server else {}, row(QUIET_HOST, host, index), dict(replica or {}),
        )  # fmt: skip
        ticks.append(each(index, tick))
    version = "10.11.19-MariaDB" if flavor == "mariadb" else "9.7.0"
    seen = SeenServer("mysql://db1", version, flavor, VARIABLES | (variables or {}), False, follows, channels)
    source_server = seen if with_server else None
    source = SourceFacts("test", "live", grain_s, "UTC", tuple(facts), source_server, vcpus, instance, None, exact)
    return collect_evidence(source, [tick for tick in ticks if tick is not None])


def findings(seen: Evidence, **changed: float) -> list[Finding]:
    """Returns the findings of some evidence."""
    thresholds = Thresholds(**changed)
    return judge_signals(compute_signals(seen, thresholds), thresholds)


def headline(seen: Evidence, **changed: float) -> tuple[str, str]:
    """Verdict and subject of the headline."""
    first = findings(seen, **changed)[0]
    return first.verdict, first.subject


HEAD = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
    "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz  aqu-sz  %util"
)
CPU = (
    "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00    1.00    0.00   92.00\n"
)


def iostat(path, rows, start=datetime(2026, 11, 20, 9, 58)):
    """A file of iostat -xt 1: (reads a second, KiB of each, await ms) by second."""
    text = "Linux 6.1.0 (db1) \t11/20/2026 \t_x86_64_\t(4 CPU)\n\n"
    for second, (reads, kib, await_ms) in enumerate([(50.0, 16.0, 0.6), *rows]):
        at = start + timedelta(seconds=second)
        queue, util = reads * await_ms / 1e3, min(100.0, reads * 0.05 * await_ms)
        zeros = "0.00 " * 10
        text += f"{at:%m/%d/%Y %H:%M:%S}\n{CPU}\n{HEAD}\n"
        text += f"nvme1n1 {reads:.2f} {reads * kib:.2f} 0.00 0.00 {await_ms:.2f} {kib:.2f} {zeros}0.00 0.00 {queue:.2f} {util:.2f}\n\n"
    path.write_text(text)
    return path
