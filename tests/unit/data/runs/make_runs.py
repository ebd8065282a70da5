"""Writes the sample run beside this file: one cold run of 180 s, as sysbench, iostat, vmstat and mysqladmin would have printed it.

    python tests/unit/data/runs/make_runs.py

Layouts follow the tools' own output: sysbench 1.0.20 and 0.5, sysstat 12.6 (-xt 5), procps 4.0 (vmstat 1), mysqladmin 8.0 (extended-status -i5).
The run: 8 clients on gp2:1000 (3,000 IOPS), about 3,000 I/Os a second, from 20 I/Os a transaction down to 10 as the cache fills.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

HERE = Path(__file__).parent
SECONDS, STEP, THREADS, IOPS = 180, 5, 8, 3_000
START = datetime(2018, 8, 15, 10, 0, 0)
PAGES, FIRST_UPTIME = 262_144, 40_000  # 4 GiB of 16 KiB
WRITES_PER_TRANSACTION = 3


def tps_of(second: int, seconds: int = SECONDS) -> float:
    """Transactions in second 0, 1, ...: rising from 150 to 300, with noise that is the same every time."""
    noise = random.Random(second).gauss(0, 0.03)
    return round(IOPS / (10 + 10 * (1 - second / seconds) ** 2) * (1 + noise), 2)


def p95_of(tps: float) -> float:
    return round(2_000 * THREADS / tps, 2)  # twice the mean, as in published runs


def sysbench_10(seconds: int = SECONDS, threads: int = THREADS, percent: int = 95, stamp: bool = False) -> str:
    lines = [
        "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)",
        "",
        "Running the test with following options:",
        f"Number of threads: {threads}",
    ]
    lines += [
        "Report intermediate results every 1 second(s)",
        "Initializing random number generator from current time",
        "",
        "",
    ]
    lines += ["Initializing worker threads...", "", "Threads started!", ""]
    total = 0.0
    for second in range(seconds):
        tps = tps_of(second, seconds)
        total += tps
        before = f"{START + timedelta(seconds=second + 1):%Y-%m-%d %H:%M:%S} " if stamp else ""
        lines.append(
            f"{before}[ {second + 1}s ] thds: {threads} tps: {tps:.2f} qps: {20 * tps:.2f} (r/w/o: {14 * tps:.2f}/{4 * tps:.2f}/{2 * tps:.2f}) "
            f"lat (ms,{percent}%): {p95_of(tps):.2f} err/s: 0.00 reconn/s: 0.00"
        )
    if not stamp:
        lines += [
            "SQL statistics:",
            f"    transactions:                        {total:.0f} ({total / seconds:.2f} per sec.)",
        ]
    return "\n".join(lines) + "\n"


def sysbench_05(seconds: int = SECONDS) -> str:
    lines = ["sysbench 0.5:  multi-threaded system evaluation benchmark", "", "Threads started!", ""]
    for second in range(seconds):
        tps = tps_of(second, seconds)
        lines.append(
            f"[{second + 1:4d}s] threads: {THREADS}, tps: {tps:.2f}, reads: {14 * tps:.2f}, writes: {4 * tps:.2f}, "
            f"response time: {p95_of(tps):.2f}ms (95%), errors: 0.00, reconnects:  0.00"
        )
    return "\n".join(lines) + "\n"


def csv_text(seconds: int = SECONDS, threads: int = THREADS) -> str:
    rows = [f"{s + 1},{threads},{tps_of(s)},{round(20 * tps_of(s), 2)},{p95_of(tps_of(s))}" for s in range(seconds)]
    return "\n".join(["t_s,threads,tps,qps,lat_p95_ms", *rows]) + "\n"


def ios(second: int) -> tuple[float, float]:
    """Reads and writes of one second."""
    tps = tps_of(second)
    return (7 + 10 * (1 - second / SECONDS) ** 2) * tps, WRITES_PER_TRANSACTION * tps


def iostat(late_s: int = 0, step: int = STEP) -> str:
    head = (
        "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
        "  aqu-sz  %util\n"
    )
    cpu = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           4.10    0.00    5.20   71.30    0.00   19.40\n\n"
    text = "Linux 4.14.62 (db1) \t08/15/2018 \t_x86_64_\t(8 CPU)\n\n"
    for report in range(SECONDS // step + 1):
        seconds = range((report - 1) * step, report * step)
        pairs = [ios(second) for second in seconds] if report else [(40.0, 90.0)]
        reads, writes = (sum(pair[i] for pair in pairs) / len(pairs) for i in (0, 1))
        text += f"{START + timedelta(seconds=report * step + late_s):%m/%d/%Y %H:%M:%S}\n{cpu}{head}"
        for device, r, w in (("nvme0n1", 1.0, 2.0), ("nvme1n1", reads, writes)):
            text += (
                f"{device:<13}{r:8.2f} {r * 16:9.2f} {0:8.2f} {0:6.2f} {0.51:7.2f} {16:8.2f} "
                f"{w:7.2f} {w * 24:9.2f} {12:8.2f} {1.2:6.2f} {0.72:7.2f} {24:8.2f} {1.8:7.2f} {88.4:6.2f}\n"
            )
        text += "\n"
    return text


def vmstat(shift: int = 0, seconds: int = SECONDS) -> str:
    """`shift`: seconds by which vmstat was started later than the benchmark."""
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    text = head
    for line in range(seconds + 1 - max(shift, 0)):
        if line and line % 20 == 0:
            text += head
        reads, writes = ios(line - 1 + shift) if line else (40.0, 90.0)
        text += f" 0 14      0 311508   3004 29021104    0    0 {reads * 16:.0f} {writes * 24:.0f} 16294 30020  5  5 47 44  0\n"
    return text


def status_samples(step: int = STEP, engine: str = "innodb") -> list[dict[str, int | str]]:
    """Counters at 0, 5, ... s, cumulative."""
    samples, done, reads, writes = [], 0.0, 0.0, 0.0
    for second in range(SECONDS + 1):
        if second % step == 0:
            sample = {
                "Com_commit": 1_000 + round(done),
                "Innodb_buffer_pool_pages_dirty": min(20_000, round(done)),
                "Innodb_buffer_pool_pages_free": max(1_024, PAGES - 1_500 - round(reads)),
                "Innodb_buffer_pool_pages_total": PAGES,
                "Innodb_buffer_pool_reads": 5_000 + round(reads),
                "Innodb_checkpoint_age": round(done * 6_000),
                "Innodb_dblwr_writes": 10 + round(writes / 60),
                "Innodb_os_log_written": 512 * round(done * 12),
                "Innodb_page_size": 16_384,
                "Innodb_pages_created": 7 + round(done / 4),
                "Innodb_pages_written": 70 + round(writes),
                "Innodb_version": "5.7.22",
                "Uptime": FIRST_UPTIME + second,
            }
            if engine == "myrocks":
                sample |= {
                    "rocksdb_flush_write_bytes": round(done * 3_300),
                    "rocksdb_compact_write_bytes": round(done * 9_000),
                }
            samples.append(sample)
        if second < SECONDS:
            done += tps_of(second)
            reads, writes = reads + ios(second)[0], writes + ios(second)[1]
    return samples


def status_table(samples: list[dict]) -> str:
    """Writes samples as `mysqladmin extended-status -i5` does."""
    border = "+--------------------------------+--------------+\n"
    text = ""
    for sample in samples:
        rows = "".join(f"| {name:<30} | {value!s:<12} |\n" for name, value in sample.items())
        text += border + "| Variable_name                  | Value        |\n" + border + rows + border + "\n"
    return text


def differences(samples: list[dict]) -> list[dict]:
    """Returns the samples that `mysqladmin -r` shows: the first sample whole, then differences;
    text counts as 0."""
    rows = [samples[0]]
    for before, after in zip(samples, samples[1:], strict=False):
        rows.append({name: value - before[name] if isinstance(value, int) else 0 for name, value in after.items()})
    return rows


def status_tab(samples: list[dict], times: bool = False) -> str:
    """Writes samples as `mysql -B -e 'SHOW GLOBAL STATUS'` in a loop does, `times` with `date -Is`
    before each."""
    text = ""
    for index, sample in enumerate(samples):
        if times:
            text += f"{START + timedelta(seconds=index * STEP):%Y-%m-%dT%H:%M:%S}+00:00\n"
        text += "Variable_name\tValue\n" + "".join(f"{name}\t{value}\n" for name, value in sample.items())
    return text


def status_csv(samples: list[dict]) -> str:
    names = list(samples[0])
    rows = [
        ",".join([str(STEP * index), *(str(sample[name]) for name in names)]) for index, sample in enumerate(samples)
    ]
    return "\n".join([",".join(["t_s", *names]), *rows]) + "\n"


RUN_TOML = """\
format = "headrace-run"
version = 1
name = "sample"
engine = "innodb"
engine_version = "5.7.22"
flavor = "percona"
storage = "gp2:1000"
as_of = 2018-08-15
instance = "m5.2xlarge"
cache_gib = 4
threads = 8
start = "cold"
seconds = 180

[benchmark]
name = "sysbench-oltp"
script = "oltp_read_write"
distribution = "special"
tables = 10
scale = 1000000
data_gb = 26

[settings]
io_capacity = 200
io_capacity_max = 500
doublewrite = true
redo_gib = 2

[files]
sysbench = "sysbench.txt"
iostat = "iostat.txt"
device = "nvme1n1"
status = "status.txt"
clock_start = 2018-08-15T10:00:00
"""

FILES = {
    "run.toml": lambda: RUN_TOML,
    "sysbench.txt": sysbench_10,
    "iostat.txt": iostat,
    "vmstat.txt": vmstat,
    "status.txt": lambda: status_table(status_samples()),
}


def main() -> None:
    for name, text in FILES.items():
        (HERE / name).write_text(text())


if __name__ == "__main__":
    main()
