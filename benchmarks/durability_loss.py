"""Loss by a crash under each setting of durability, measured: a real server on a volume of the lab,
clients that commit, a crash, recovery, and a count of what is gone.

    python benchmarks/durability_loss.py [--servers mariadb,mysql,myrocks] [--settings 1/1,2/0,0/none] [--crashes N] [--seconds S] [--raw FILE.json]
    python benchmarks/durability_loss.py --tables FILE.json...        the tables of runs there have been

Prints the tables of docs/reference/durability.md. Needs root and what `headrace lab doctor` looks
at; about seven seconds a crash.

Two crashes: `kill -9` of the server, whose machine goes on; a power cut, in which the volume fails
at an instant and what it was not told to flush is kept, dropped or torn at random, and what was in
the page cache is gone. Seeds are in the raw file. A client is one thread of this program: the
commits a second are no benchmark of the server.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from headrace import HeadraceError, servers
from headrace import lab as labs
from headrace.lab import Lab
from headrace.servers import connect
from ledger import Ledger

STORAGE = "gp3:20:6000:250"
CLIENTS = 8  # a guess: enough for group commit
SERVERS = {"mariadb": ("mariadb", "innodb"), "mysql": ("mysql", "innodb"), "myrocks": ("mariadb", "myrocks")}
FLUSH = {"innodb": "innodb_flush_log_at_trx_commit", "myrocks": "rocksdb_flush_log_at_trx_commit"}
# (flush the engine's log at commit, sync_binlog; None: no binary log)
CASES = ((1, 1), (1, 0), (2, 1), (2, 0), (0, 0), (1, None), (2, None), (0, None))
CRASHES = ("power cut", "kill -9")
# The volume must be told of a power cut before, and from then on notes what was not flushed: longer
# than any log is left unflushed by the engines (1 s), with room.
CUT_AFTER_S = 2.5
# After the cut: until the server has noticed (its flusher runs once a second), or is known to hang.
NOTICE_S = 1.5


@dataclass(frozen=True)
class Crash:
    """One crash. `tps`: commits a second before it; `binlog_ahead`: transactions in the binary log
    beyond those in the tables, negative where it has fewer, None without one."""

    server: str
    version: str
    flush: int
    sync_binlog: int | None
    how: str
    seed: int | None
    tps: float
    acknowledged: int
    lost: int
    lost_s: float
    torn: tuple[str, ...]
    binlog_ahead: int | None
    recovery_s: float


def settings_of(engine: str, flush: int, sync_binlog: int | None) -> dict[str, str]:
    binlog = {"log_bin": "OFF"} if sync_binlog is None else {"log_bin": "ON", "sync_binlog": str(sync_binlog)}
    return {FLUSH[engine]: str(flush), "innodb_buffer_pool_size": "256M"} | binlog


def rows(server: servers.Server, *statements: str) -> tuple:
    with connect(server.make_address(), 120) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def transactions_in_binlog(server: servers.Server) -> int:
    """Counts the transactions of the binary log that ended with a commit."""
    names = [row[0] for row in rows(server, "SHOW BINARY LOGS")]
    return sum(1 for name in names for row in rows(server, f"SHOW BINLOG EVENTS IN '{name}'") if row[2] == "Xid")


def begin_binlog_anew(server: servers.Server) -> None:
    rows(server, "RESET BINARY LOGS AND GTIDS" if server.flavor == "mysql" else "RESET MASTER")


def crash_once(
    lab: Lab, server: servers.Server, ledger: Ledger, case: tuple, how: str, seconds: float, chance: random.Random
) -> tuple[servers.Server, Crash]:
    before, began = ledger.acknowledged, time.time()
    ledger.start()
    time.sleep(seconds * chance.uniform(0.75, 1.25) - (CUT_AFTER_S if how == "power cut" else 0))
    seed = None
    if how == "power cut":
        assert server.volumes.data is not None
        fault = lab.fault(server.volumes.data, "power-cut", in_s=CUT_AFTER_S)
        assert fault["starts_at"] is not None
        seed, at = fault["seed"], datetime.fromisoformat(fault["starts_at"]).timestamp()
        time.sleep(max(0.0, at - time.time()) + NOTICE_S)
    else:
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        at = time.time()
    since = time.monotonic()
    server = servers.bring_up(lab, name=server.name)
    recovery_s = time.monotonic() - since
    ledger.stop()
    # Every acknowledgement of a killed server counts; a machine without power sends none.
    loss = ledger.check(at if how == "power cut" else None)
    flush, sync_binlog = case
    ahead = None if sync_binlog is None else transactions_in_binlog(server) - (loss.there - before)
    tps = (loss.acknowledged - before) / (at - began)
    name = "myrocks" if server.engine == "myrocks" else server.flavor
    return server, Crash(
        name,
        server.version_text.split("-")[0],
        flush,
        sync_binlog,
        how,
        seed,
        tps,
        loss.acknowledged - before,
        loss.lost,
        loss.lost_s,
        loss.torn,
        ahead,
        recovery_s,
    )


def measure(lab: Lab, name: str, cases: list[tuple], crashes: int, seconds: float, seed: int) -> list[Crash]:
    flavor, engine = SERVERS[name]
    result = []
    for case in cases:
        server = servers.bring_up(
            lab, name=name, flavor=flavor, engine=engine, storage=STORAGE, settings=settings_of(engine, *case)
        )
        try:
            ledger = Ledger(server.make_address(), CLIENTS)
            ledger.create()
            for how in CRASHES:
                for repeat in range(crashes):
                    chance = random.Random(f"{seed}/{case}/{how}/{repeat}")
                    if case[1] is not None:
                        begin_binlog_anew(server)
                    server, crash = crash_once(lab, server, ledger, case, how, seconds, chance)
                    result.append(crash)
                    ledger.go_on()
                    print(
                        f"{name} flush={case[0]} sync_binlog={case[1]} {how}: {crash.acknowledged} "
                        f"acknowledged, {crash.lost} lost, "
                        f"binary log ahead by {crash.binlog_ahead}, recovered in {crash.recovery_s:.1f} s "
                        f"{crash.torn or ''}",
                        file=sys.stderr,
                    )
        finally:
            servers.destroy(servers.find(lab, name))
    return result


def table(name: str, crashes: list[Crash]) -> list[str]:
    """Returns a table in Markdown: a row for each setting and crash; median and, in parentheses,
    the extreme."""
    flavor, engine = SERVERS[name]
    label = f"{'MySQL' if flavor == 'mysql' else 'MariaDB'} {crashes[0].version}, {'MyRocks' if engine == 'myrocks' else 'InnoDB'}"
    head = (
        f"`{FLUSH[engine]}`",
        "`sync_binlog`",
        "crash",
        "n",
        "commits/s",
        "crashes that lost commits",
        "commits lost",
        "seconds lost, most",
        "binary log ahead (+) or behind (-)",
        "torn",
    )
    lines = [f"### {label}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for flush, sync_binlog in CASES:
        for how in CRASHES:
            these = [
                crash for crash in crashes if (crash.flush, crash.sync_binlog, crash.how) == (flush, sync_binlog, how)
            ]
            if not these:
                continue
            lost = [entry.lost for entry in these]
            ahead = [entry.binlog_ahead for entry in these if entry.binlog_ahead is not None]
            cells = (
                flush,
                "no binary log" if sync_binlog is None else sync_binlog,
                how,
                len(these),
                f"{statistics.median(entry.tps for entry in these):,.0f}",
                (f"{sum(count > 0 for count in lost)} of {len(these)}"),
                spread(lost),
                f"{max(entry.lost_s for entry in these):.2f}",
                spread(ahead, "+") if ahead else "-",
                sum(len(entry.torn) for entry in these),
            )
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return [*lines, ""]


def spread(values: list[int], sign: str = "") -> str:
    """Median, and in parentheses what is furthest from nothing. `sign` "+": with a sign."""
    form = f"{sign},.0f"
    return "0" if not any(values) else f"{statistics.median(values):{form}} ({max(values, key=abs):{form}})"


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory_gib:.0f} GiB, Linux {platform.release()}"


def cases_of(text: str | None) -> list[tuple]:
    """Reads `1/1,2/none` as pairs of CASES."""
    if text is None:
        return list(CASES)
    named = {f"{flush}/{'none' if sync is None else sync}": (flush, sync) for flush, sync in CASES}
    unknown = [word for word in text.split(",") if word not in named]
    if unknown:
        sys.exit(f"error: --settings {unknown[0]}: there are {', '.join(named)}")
    return [named[word] for word in text.split(",")]


def measured(chosen: argparse.Namespace) -> dict:
    """Measures everything, and returns what --raw writes: facts of the run, and every crash."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-durability-"))
    result: list[Crash] = []
    lab = labs.start_lab(folder / "lab", settings=labs.Settings(metrics_port=0, api_port=0))
    try:
        for name in chosen.servers.split(","):
            result += measure(lab, name, cases_of(chosen.settings), chosen.crashes, chosen.seconds, chosen.seed)
    finally:
        for server in servers.list_servers(lab):
            servers.destroy(server)
        labs.stop_lab(lab, force=True)
        shutil.rmtree(folder, ignore_errors=True)
    about = (
        f"{datetime.now(UTC):%Y-%m-%d} on {machine()}; storage {STORAGE}, one volume; {CLIENTS} clients; "
        f"{chosen.seconds:g} s of commits before a crash, give or take a quarter"
    )
    return {"about": about, "seed": chosen.seed, "crashes": [asdict(entry) for entry in result]}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--servers", default=",".join(SERVERS))
    options.add_argument("--settings", help="flush/sync_binlog, with commas; default: all")
    options.add_argument("--crashes", type=int, default=5, help="of each kind, a setting")
    options.add_argument("--seconds", type=float, default=5.0, help="of commits before a crash, give or take a quarter")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--raw", type=Path, help="every crash, as JSON")
    options.add_argument(
        "--tables", type=Path, nargs="+", metavar="FILE", help="measure nothing: the tables of these files"
    )
    chosen = options.parse_args()
    try:
        results = [json.loads(path.read_text()) for path in chosen.tables] if chosen.tables else [measured(chosen)]
    except HeadraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if chosen.raw:
        chosen.raw.write_text(json.dumps(results[0], indent=1) + "\n")
    for about in dict.fromkeys(result["about"] for result in results):
        print(f"Measured {about}; seed {', '.join(sorted({str(result['seed']) for result in results}))}.")
    crashes = [Crash(**crash) for result in results for crash in result["crashes"]]
    for name in SERVERS:
        these = [crash for crash in crashes if crash.server == name]
        if these:
            print("\n".join(["", *table(name, these)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
