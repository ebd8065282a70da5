"""Cost of a capture for a server: throughput of sysbench with and without one, in turn, and the
processor time of a sample.

    python benchmarks/capture_overhead.py [--pairs N] [--seconds S]

The worst case for it: all data in the buffer pool, so processors bind, with as many clients as
processors; server, sysbench and capture share the machine. Pairs go with-without, without-with, so
that a drift of the machine cancels. The interval is Student's of the pairs' relative differences.
Goal: under 1 %.

A machine's own noise is some percent, the cost of one statement a second some hundredths. So the
second series samples fifty times as often (five samplers at ten a second), and its loss is divided
by fifty: the cost goes with the statements.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from headrace import HeadraceError
from headrace.observe.live.record import VARIABLES
from headrace.observe.live.sampler import Sampler, _build_statement
from headrace.servers import connect, parse_address

NEEDED = ("mariadbd", "mariadb-install-db", "sysbench")
TABLES, ROWS = 4, 20_000  # small enough to lie in memory (a guess)
# Imports and the first questions of a capture take a second; both arms wait as long.
SETTLE_S = 3.0
SAMPLES = 300  # of the median of a statement (a guess)
# Samplers beside each other and their interval, s: as often as 50 captures.
SAMPLERS, OFTEN_S = 5, 0.1
AMPLIFIED = SAMPLERS / OFTEN_S


class Server:
    """A MariaDB in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, folder / "s"
        own = ["--user=mysql"] if os.geteuid() == 0 else []
        if own:
            folder.chmod(0o755)
            shutil.chown(folder, "mysql")
        make = [
            "mariadb-install-db",
            "--no-defaults",
            *own,
            f"--datadir={folder}/data",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]
        subprocess.run(make, check=True, capture_output=True)
        words = [
            "mariadbd",
            "--no-defaults",
            *own,
            f"--datadir={folder}/data",
            f"--socket={self.socket}",
            "--skip-networking",
            f"--pid-file={folder}/pid",
            "--innodb-buffer-pool-size=512M",
            "--innodb-log-file-size=512M",
            "--innodb-flush-log-at-trx-commit=0",
        ]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        self.address = parse_address(f"mysql://root@/?socket={self.socket}")
        for _ in range(300):
            try:
                with connect(self.address) as connection, connection.cursor() as cursor:
                    cursor.execute("SELECT VERSION()")
                    self.version = cursor.fetchone()[0]
                    cursor.execute("CREATE DATABASE sb")
                return
            except HeadraceError:
                time.sleep(0.1)
        self.close()
        raise SystemExit(f"mariadbd did not start: {(folder / 'log').read_text()[-500:]}")

    def sysbench(self, *words: str) -> str:
        base = [
            "sysbench",
            "oltp_read_write",
            f"--mysql-socket={self.socket}",
            "--mysql-user=root",
            "--mysql-db=sb",
            f"--tables={TABLES}",
            f"--table-size={ROWS}",
        ]
        return subprocess.run([*base, *words], check=True, capture_output=True, text=True).stdout

    def tps(self, seconds: int, seed: int) -> float:
        """Transactions a second of one run."""
        text = self.sysbench(f"--threads={os.cpu_count()}", f"--time={seconds}", f"--rand-seed={seed}", "run")
        rate = re.search(r"transactions: .*\(([\d.]+) per sec", text)
        assert rate is not None, text
        return float(rate[1])

    def cpu_s(self) -> float:
        """Returns the processor time of the server so far, s."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Beside:
    """A process beside the run, from before it until after it."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def stop(self) -> None:
        self.process.terminate()
        _, stderr = self.process.communicate()
        if self.process.returncode != 130:
            raise SystemExit(f"what sampled ended with {self.process.returncode}: {stderr}")


def capturing(server: Server, folder: Path) -> Beside:
    """A capture as a user starts it."""
    words = [
        "-m",
        "headrace",
        "workload",
        "capture",
        server.address.label,
        "--seconds",
        "3600",
        "--storage",
        "gp3:100",
        "-o",
        str(folder),
        "--force",
    ]
    return Beside(*words)


def sampling_often(server: Server) -> Beside:
    """Fifty samples a second, with what a capture asks for."""
    return Beside(__file__, "--often", server.address.label)


def sample_often(label: str) -> None:
    """Samples a server until SIGTERM ends it: the work of each process of `sampling_often`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        for _ in range(SAMPLERS):
            stack.enter_context(Sampler(parse_address(label), (), OFTEN_S, variables=VARIABLES))
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait(86_400)  # without a limit polars lets no Ctrl-C through
    sys.exit(130)


def pairs(server: Server, count: int, seconds: int, begin: Callable[[], Beside]) -> list[dict]:
    """`count` pairs of tps, each arm first as often as second."""
    rows = []
    for pair in range(count):
        row: dict[str, float] = {"pair": pair + 1}
        for arm in ("with", "without") if pair % 2 == 0 else ("without", "with"):
            beside = begin() if arm == "with" else None
            time.sleep(SETTLE_S)
            row[arm] = server.tps(seconds, 100 + pair)
            if beside is not None:
                beside.stop()
        rows.append(row)
    return rows


def cost_of_a_sample(server: Server) -> dict[str, float]:
    """Processor time of one SHOW GLOBAL STATUS as a capture asks it, ms: of the server and of who
    asks."""
    statement = _build_statement(VARIABLES)
    with connect(server.address) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        before, own = server.cpu_s(), time.process_time()
        for _ in range(SAMPLES):
            cursor.execute(statement)
            cursor.fetchall()
        return {
            "server_ms": (server.cpu_s() - before) / SAMPLES * 1e3,
            "capture_ms": (time.process_time() - own) / SAMPLES * 1e3,
        }


def summary(rows: list[dict], amplified: float = 1.0) -> dict[str, float]:
    """Mean loss of throughput in % with its 95 % interval, over `amplified`; negative: faster with
    a capture. By logarithms, so that a slow arm counts alike on either side."""
    losses = [100.0 * math.log(row["without"] / row["with"]) / amplified for row in rows]
    mean, spread = statistics.mean(losses), statistics.stdev(losses)
    half = float(student.ppf(0.975, len(losses) - 1)) * spread / len(losses) ** 0.5
    return {
        "loss_percent": mean,
        "low_percent": mean - half,
        "high_percent": mean + half,
        "sd_percent": spread,
        "pairs": len(losses),
    }


def measure(count: int = 8, seconds: int = 8) -> dict:
    """All of it: configuration, pairs, their summary, and what a sample costs. Ends what it
    starts."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        raise SystemExit(f"needs {', '.join(lacking)}: apt-get install mariadb-server sysbench")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="headrace-overhead-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "db").mkdir()
        server = Server(folder / "db")
        try:
            server.sysbench("prepare")
            server.tps(seconds, 1)  # warms pool and caches; not counted
            rows = pairs(server, count, seconds, lambda: capturing(server, folder / "capture"))
            often = pairs(server, count, seconds, lambda: sampling_often(server))
            cost = cost_of_a_sample(server)
        finally:
            server.close()
    about = {
        "server": server.version,
        "sysbench": "oltp_read_write",
        "threads": os.cpu_count(),
        "seconds": seconds,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "host": socket.gethostname(),
        "load_before": load,
    }
    return {
        "configuration": about,
        "pairs": rows,
        "often": often,
        "throughput": summary(rows),
        "throughput_by_often": summary(often, AMPLIFIED),
        "sample": cost,
    }


def show(result: dict) -> None:
    """Prints the pairs and what follows."""
    console = Console()
    for key, what in (("pairs", "one capture"), ("often", f"{AMPLIFIED:.0f} samples a second")):
        table = Table(title=f"tps with and without {what}")
        for column in ("pair", "without", "with", "loss"):
            table.add_column(column, justify="right")
        for row in result[key]:
            table.add_row(
                str(row["pair"]),
                f"{row['without']:,.1f}",
                f"{row['with']:,.1f}",
                f"{100 * (1 - row['with'] / row['without']):+.2f} %",
            )
        console.print(table)
    for key, what in (("throughput", "as it is"), ("throughput_by_often", f"by {AMPLIFIED:.0f} times as many samples")):
        answer = result[key]
        console.print(
            f"loss {what}: {answer['loss_percent']:+.3f} % (95 % interval {answer['low_percent']:+.3f} to "
            f"{answer['high_percent']:+.3f} %, {answer['pairs']} pairs)"
        )
    cost, cores = result["sample"], result["configuration"]["cores"]
    share = (cost["server_ms"] + cost["capture_ms"]) / 1e3 / cores
    console.print(
        f"a sample takes {cost['server_ms']:.2f} ms of processor in the server and {cost['capture_ms']:.2f} ms "
        f"in the capture: {share:.3%} of {cores} processors"
    )
    console.print(f"[dim]{json.dumps(result['configuration'])}[/dim]")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--often", metavar="ADDRESS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.often:
        sample_often(arguments.often)
    if arguments.pairs < 2 or arguments.seconds < 2:
        parser.error("--pairs and --seconds must be at least 2")
    result = measure(arguments.pairs, arguments.seconds)
    show(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
