"""Consumption of a transaction of the standard workloads, counted on real servers: on servers of
its own, in memory.

    python benchmarks/standards/measure.py --results FILE.csv [--servers mariadb mysql myrocks] [--cases NAME ...] [--events 4000]

A row is a figure of one transaction (or of a table's row, where its name ends with `_per_row`): processor time in ms from
/proc/PID/stat (user and system, the server's whole process, purge included), what of it threads spend that serve no client, logical
read requests, pages read and written, redo, binary log and WAL in bytes, syncs. Every case does a fixed number of events, so that nothing depends on how busy this machine is; no wall time is
used. `derive.py` makes data/mysql/standards.csv from the rows.

The processors of a virtual machine slow down while the host gives the other threads of their cores to somebody else: measure a few times, on
a machine with nothing else to do.

Data lie in memory (/dev/shm): a sync costs no device time, and the processor time of requests to a device is not in the figures.
Needs sysbench, MariaDB with MyRocks, MySQL (headrace mysql install). Takes some ten minutes of two processors.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.base.machine import find_executable
from headrace.bench.drivers import tpcc
from headrace.errors import CouldNotRun
from headrace.mysql import Address, connect
from headrace.mysql.statements import ask, ask_pairs, ask_value, run
from headrace.servers import find_program
from headrace.servers.flavors import ServerProgram

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
THREADS = 4
WAREHOUSES = 2
# The longest wait for a start and for an answer, s.
PATIENCE_S = 300.0
SERVERS = {"mariadb": ("mariadb", "innodb"), "mysql": ("mysql", "innodb"), "myrocks": ("mariadb", "rocksdb")}
# A pool of so many MiB holds a fifth of a table of PAGED_ROWS.
PAGED_MIB, PAGED_ROWS = 24, 400_000
# Rows of the table on which every case is measured, and others that show what the depth of the tree does.
ROWS, OTHER_ROWS = 100_000, (10_000, 400_000)
NO_RANGES = ("--range_selects=off",)
NO_WRITES = ("--index_updates=0", "--non_index_updates=0", "--delete_inserts=0")

AGED = (*NO_WRITES[1:], "--index_updates=11", "--rand-type=uniform")


@dataclass(frozen=True)
class Case:
    """A script of sysbench with options; `events` as a multiple of the usual number; `tcp`: over the loopback address, not the socket."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    events: float = 1.0
    every_size: bool = False
    tcp: bool = False


def ranges(size: int) -> tuple[str, ...]:
    """Options of a transaction of four ranges of `size` rows and nothing else."""
    return ("--point_selects=0", "--skip_trx=on", f"--range_size={size}")


CASES = (
    Case("point_select", "oltp_point_select", events=5, every_size=True),
    Case("point_select_tcp", "oltp_point_select", events=5, tcp=True),
    Case("point_select_bracketed", "oltp_read_only", ("--point_selects=1", *NO_RANGES), events=3),
    Case("ranges_of_1", "oltp_read_only", ranges(1)),
    Case("ranges_of_100", "oltp_read_only", ranges(100), every_size=True),
    Case("read_only", "oltp_read_only", events=0.5),
    Case("random_points", "select_random_points"),
    Case("random_ranges", "select_random_ranges"),
    Case("update_non_index", "oltp_update_non_index", every_size=True),
    Case("update_index", "oltp_update_index", every_size=True),
    Case("eleven_updates_index", "oltp_write_only", AGED, events=0.25),
    Case("delete_insert_bracketed", "oltp_write_only", NO_WRITES[:2]),
    Case("write_only", "oltp_write_only", events=0.5),
    Case("read_write", "oltp_read_write", events=0.5),
    Case("read_write_pareto", "oltp_read_write", ("--rand-type=pareto",), events=0.5),
    Case("insert", "oltp_insert"),
    Case("delete", "oltp_delete"),
)


def free_port() -> int:
    """Returns a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Scratch:
    """A server of its own, in a folder of its own."""

    def __init__(self, folder: Path, program: ServerProgram, engine: str, pool_mib: int) -> None:
        self.folder, self.program, self.engine = folder, program, engine
        # Processor time of each thread that serves clients, ms, when it was last looked at.
        self.client_threads: dict[int, float] = {}
        self.socket = folder / "socket"
        # Errors, and statements as rows; all else by default: redo, doublewrite and binary log synced.
        options = ["user=root", f"datadir={folder}/data", f"socket={self.socket}", f"log-error={folder}/errors"]
        options += [
            "log-bin=binlog",
            "server-id=1",
            "binlog-format=ROW",
            "sync-binlog=1",
            "innodb-flush-log-at-trx-commit=1",
        ]
        options += [f"innodb-buffer-pool-size={pool_mib}M", f"pid-file={folder}/pid", "max-connections=64"]
        self.port = free_port()
        options += ["bind-address=127.0.0.1", f"port={self.port}"]
        if program.flavor == "mysql":
            options += ["mysqlx=OFF", f"secure-file-priv={folder}", "innodb-redo-log-capacity=2G"]
            # Clients of a short flush would spin until it is done, as long as the server has less than half of the processors
            # (innodb_log_spin_cpu_pct_hwm): a wait, and no work.
            options.append("innodb-log-wait-for-flush-spin-hwm=0")
        else:
            options += ["innodb-log-file-size=2G"]
        if program.plugin_dir is not None:
            options.append(f"plugin-dir={program.plugin_dir}")
        if program.share_dir is not None:
            options.append(f"lc-messages-dir={program.share_dir}")
        if engine == "rocksdb":
            options += [
                "plugin-load-add=ha_rocksdb",
                f"rocksdb-block-cache-size={pool_mib}M",
                "rocksdb-flush-log-at-trx-commit=1",
            ]
        config = folder / "my.cnf"
        config.write_text("[mysqld]\n" + "\n".join(options) + "\n")
        self._create(config)
        self.process = subprocess.Popen(
            [*program.command, f"--defaults-file={config}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.connection = connect(Address(socket=str(self.socket), user="root"), timeout_s=PATIENCE_S)
                break
            except CouldNotRun:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    log = folder / "errors"
                    raise CouldNotRun(
                        program.label, log.read_text()[-500:] if log.exists() else "did not start", "its log", ""
                    ) from None
                time.sleep(0.2)
        account = [
            "CREATE USER tcp@'127.0.0.1'",
            "GRANT ALL ON sbtest.* TO tcp@'127.0.0.1'",
            "CREATE USER tcp@localhost",
            "GRANT ALL ON sbtest.* TO tcp@localhost",
        ]
        run(self.connection, ["CREATE DATABASE sbtest", *account])

    def _create(self, config: Path) -> None:
        program = self.program
        words = [*program.command, f"--defaults-file={config}", "--initialize-insecure", "--skip-log-bin"]
        if program.flavor == "mariadb":
            script = program.find_companion("mariadb-install-db", "mysql_install_db")
            words = [
                str(script),
                f"--defaults-file={config}",
                "--skip-test-db",
                "--auth-root-authentication-method=socket",
            ]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def processor_ms(self) -> float:
        """Returns the processor time of the server so far, user and system, ms."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return 1e3 * (int(fields[11]) + int(fields[12])) / TICKS

    def note_client_threads(self) -> None:
        """Remembers which threads serve clients now; a server keeps them for later clients."""
        question = "SELECT thread_os_id FROM performance_schema.threads WHERE type = 'FOREGROUND' AND thread_os_id > 0"
        if self.program.flavor == "mariadb":
            question = "SELECT tid FROM information_schema.processlist WHERE tid > 0 AND user <> 'system user'"
        for thread in {int(row[0]) for row in ask(self.connection, question)} | self.client_threads.keys():
            with suppress(OSError):  # it has ended
                spent = Path(f"/proc/{self.process.pid}/task/{thread}/schedstat").read_text().split()[0]
                self.client_threads[thread] = float(spent) / 1e6

    def background_ms(self) -> float:
        """Returns the processor time so far of threads that serve no client, ms: those that have
        ended, as MariaDB's of purge do when they have nothing to do, are in the process' time alone."""
        self.note_client_threads()
        return self.processor_ms() - sum(self.client_threads.values())

    def counters(self) -> dict[str, float]:
        """Counters that a case's figures are differences of."""
        status = {name.lower(): value for name, value in ask_pairs(self.connection, "SHOW GLOBAL STATUS").items()}
        names = {
            "read_requests": "innodb_buffer_pool_read_requests",
            "pages_read": "innodb_pages_read",
            "pages_written": "innodb_pages_written",
            "redo_bytes": "innodb_redo_log_current_lsn" if self.program.flavor == "mysql" else "innodb_lsn_current",
            "redo_written_bytes": "innodb_os_log_written",
            "wal_bytes": "rocksdb_wal_bytes",
            "put_bytes": "rocksdb_bytes_written",
            "statements": "questions",
        }
        counts = {figure: float(status[name]) for figure, name in names.items() if name in status}
        counts["binlog_bytes"] = float(sum(int(row[1]) for row in ask(self.connection, "SHOW BINARY LOGS")))
        counts["cpu_ms"], counts["background_ms"] = self.processor_ms(), self.background_ms()
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)  # every sysbench so far, the server not being over
        counts["client_cpu_ms"] = 1e3 * (spent.ru_utime + spent.ru_stime)
        return counts

    def settle(self) -> None:
        """Waits until purge has caught up: what a transaction leaves to it belongs to the transaction."""
        question = "SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'"
        if self.program.flavor == "mariadb":
            question = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'innodb_history_list_length'"
        last, same = -1.0, 0
        # MySQL keeps some history for its next round of truncation: purge has caught up when the length stays.
        while self.engine == "innodb" and same < 4:
            length = float(ask_value(self.connection, question))
            last, same = length, same + 1 if length == last else 0
            time.sleep(0.5)


def sysbench(
    server: Scratch, script: str, *words: str, command: str = "run", threads: int = THREADS, tcp: bool = False
) -> None:
    """Runs a script of sysbench on a server."""
    account = ["--mysql-host=127.0.0.1", f"--mysql-port={server.port}", "--mysql-user=tcp", "--mysql-db=sbtest"]
    if not tcp:
        account = [f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sbtest"]
    engine = [f"--mysql_storage_engine={server.engine}"] if "tprocc" not in script else []
    client = subprocess.Popen(
        ["sysbench", script, *account, *engine, f"--threads={threads}", "--rand-seed=1", *words, command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while True:
        try:
            output, _ = client.communicate(timeout=0.3)
            break
        except subprocess.TimeoutExpired:
            server.note_client_threads()
    if client.returncode != 0:
        raise CouldNotRun(f"sysbench {script} {command}", output[-600:], "sysbench", "")


def measure(server: Scratch, script: str, words: tuple[str, ...], events: int, tcp: bool = False) -> dict[str, float]:
    """Figures of a transaction: differences of counters over so many events."""
    sysbench(server, script, *words, f"--events={max(200, events // 10)}", "--time=0", tcp=tcp)
    server.settle()
    before = server.counters()
    sysbench(server, script, *words, f"--events={events}", "--time=0", tcp=tcp)
    server.settle()
    after = server.counters()
    return {name: (after[name] - before[name]) / events for name in after}


def layout(server: Scratch, rows: int) -> dict[str, float]:
    """Bytes of a row of sbtest1 and of its entry in the secondary index, on disk."""
    if server.engine == "rocksdb":
        run(
            server.connection,
            ["SET GLOBAL rocksdb_force_flush_memtable_now = 1", "SET GLOBAL rocksdb_compact_cf = 'default'"],
        )
        question = "SELECT data_length, index_length FROM information_schema.tables WHERE table_schema = 'sbtest' AND table_name = 'sbtest1'"
        data, index = (float(value) for value in ask(server.connection, question)[0])
        return {"table_bytes_per_row": data / rows, "index_bytes_per_row": index / rows}
    ask(server.connection, "ANALYZE TABLE sbtest.sbtest1")
    question = "SELECT index_name, stat_value FROM mysql.innodb_index_stats WHERE table_name = 'sbtest1' AND stat_name = 'n_leaf_pages'"
    pages = {name: float(value) for name, value in ask(server.connection, question)}
    return {"table_bytes_per_row": pages["PRIMARY"] * 16384 / rows, "index_bytes_per_row": pages["k_1"] * 16384 / rows}


Figures = Iterator[tuple[str, int, dict[str, float]]]


def oltp(server: Scratch, events: int, chosen: list[str]) -> Figures:
    """Measures the scripts of sysbench, the usual size last and whole."""
    chosen_cases = [case for case in CASES if not chosen or case.name in chosen]
    for rows in (*(OTHER_ROWS if any(case.every_size for case in chosen_cases) else ()), ROWS):
        table = ("--tables=1", f"--table_size={rows}")
        sysbench(server, "oltp_read_write", *table, command="prepare", threads=1)
        server.settle()
        yield "layout", rows, layout(server, rows)
        # Freshly made index pages are full and split: let every one see some hundred entries come and go before anything is counted.
        sysbench(server, "oltp_write_only", *table, *AGED, f"--events={rows // 20}", "--time=0")
        server.settle()
        for case in chosen_cases:
            if rows == ROWS or case.every_size:
                usual = () if any(word.startswith("--rand-type") for word in case.options) else ("--rand-type=uniform",)
                words = (*table, *usual, *case.options)
                yield case.name, rows, measure(server, case.script, words, int(events * case.events), case.tcp)
        yield "layout_used", rows, layout(server, rows)
        sysbench(server, "oltp_read_write", *table, command="cleanup", threads=1)


def paged(server: Scratch, events: int) -> Figures:
    """Measures what reading and writing pages adds: a pool that holds a part of its table."""
    table = ("--tables=1", f"--table_size={PAGED_ROWS}", "--rand-type=uniform")
    sysbench(server, "oltp_read_write", *table, command="prepare", threads=1)
    server.settle()
    yield "point_select_paged", PAGED_ROWS, measure(server, "oltp_point_select", table, 5 * events)
    yield "update_non_index_paged", PAGED_ROWS, measure(server, "oltp_update_non_index", table, events)


def tprocc(server: Scratch, events: int) -> Figures:
    """Measures TPROC-C by stored procedures, and sysbench's own script of TPC-C statement by statement."""
    script = str(Path(tpcc.__file__).parent / "lua" / tpcc.SCRIPT)
    size = f"--warehouses={WAREHOUSES}"
    for command, threads in (("create", 1), ("load", WAREHOUSES), ("index", 1)):
        sysbench(server, script, size, command=command, threads=threads)
    run(server.connection, ["USE sbtest", *(HERE / "tprocc.sql").read_text().split("\n//\n")])
    server.settle()
    yield "tprocc", WAREHOUSES, measure(server, str(HERE / "tprocc.lua"), (size,), 2 * events)
    yield "tpcc_statements", WAREHOUSES, measure(server, script, (size,), events)


@contextmanager
def scratch(name: str, pool_mib: int) -> Iterator[Scratch]:
    """Yields a server of this name, and removes it."""
    flavor, engine = SERVERS[name]
    folder = Path(tempfile.mkdtemp(prefix="headrace-standards-", dir="/dev/shm"))
    server = None
    try:
        server = Scratch(folder, find_program(flavor), engine, pool_mib)
        yield server
    finally:
        if server is not None:
            server.end()
        shutil.rmtree(folder, ignore_errors=True)


def processor() -> str:
    """Returns the name of this machine's processor, its model number and clock."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
    return f"{fields.get('model name', 'unknown')}, model {fields.get('model', '?')}, {fields.get('cpu MHz', '?')} MHz"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Measure the consumption of a transaction of the standard workloads on real servers."
    )
    parser.add_argument("--results", type=Path, required=True, help="file that rows are added to")
    parser.add_argument("--servers", nargs="+", choices=[*SERVERS], default=[*SERVERS], help="which servers (all)")
    parser.add_argument("--cases", nargs="+", default=[], help="which cases of sysbench (all)")
    parser.add_argument("--events", type=int, default=4000, help="transactions of a usual case (4000)")
    parser.add_argument(
        "--without", nargs="+", choices=["oltp", "tprocc", "paged"], default=[], help="what is left out (nothing)"
    )
    given = parser.parse_args()
    if find_executable("sysbench") is None:
        print("sysbench is not here: apt-get install sysbench", file=sys.stderr)
        return 3
    about = {"date": datetime.date.today().isoformat(), "processor": processor()}
    with given.results.open("a", newline="") as file:
        writer = csv.DictWriter(
            file, ["server", "version", "case", "scale", "figure", "value", *about], lineterminator="\n"
        )
        if file.tell() == 0:
            writer.writeheader()

        def write(server: Scratch, parts: list[Figures]) -> None:
            for case, scale, figures in (row for part in parts for row in part):
                row = {"server": name, "version": server.program.label, "case": case, "scale": scale} | about
                writer.writerows(row | {"figure": figure, "value": f"{value:.6g}"} for figure, value in figures.items())
                file.flush()
                figures_in_words = ", ".join(f"{key} {value:.5g}" for key, value in figures.items())
                print(f"{name} {case} {scale}: {figures_in_words}", flush=True)

        for name in given.servers:
            with scratch(name, 1024) as server:
                parts = [] if "oltp" in given.without else [oltp(server, given.events, given.cases)]
                parts += [] if "tprocc" in given.without or name == "myrocks" else [tprocc(server, given.events)]
                write(server, parts)
            if "paged" not in given.without and name != "myrocks":
                with scratch(name, PAGED_MIB) as server:
                    write(server, [paged(server, given.events)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
