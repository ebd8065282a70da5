"""Cost of `headrace watch` for a server: throughput of one run of sysbench while a watch goes on
and while it is stopped, in short windows that alternate.

    python benchmarks/watch_cost.py [--seconds S] [--watches N]

The worst case for it, as in capture_overhead.py: all data in the buffer pool, so processors bind, with as many clients
as processors; server, sysbench and the watch with its terminal share the machine.

A machine's speed drifts by percents within minutes, and the bar is 0.5 %. So there is one run, its
rate is not fixed, and the watch is stopped and continued (SIGSTOP, SIGCONT) every few seconds in
the order on-off-off-on: a drift that is straight over the four windows cancels. A pair is two
neighbours; the figure is the median of the pairs' ratios with a bootstrap interval. A watch that is
continued looks at once and then each second, a little oftener than in real life. With several
watches beside each other the loss is divided by their number, which makes the interval as much
narrower. If processors bind, a watch takes as much of the throughput as of the processors: that is
printed beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pty
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from capture_overhead import NEEDED, ROWS, TABLES, Server, cost_of_a_sample

WINDOW_S = 3  # of one window: seconds as sysbench reports them (ours)
ORDER = (True, False, False, True)  # on, off, off, on
WARM_S = 10  # of the run, before anything counts (a guess)
RESAMPLES = 10_000
SCREEN = 500  # bytes that a screen has at least (ours)
SHARE = 95.0  # of the interval, %
BAR_PERCENT = 0.5  # O8
REPORT = re.compile(r"^\[ (\d+)s \] .*?tps: ([\d.]+)")


class Watch:
    """A watch on a terminal of its own, whose screen is read and thrown away."""

    def __init__(self, label: str) -> None:
        self.controller, reference = pty.openpty()
        termios.tcsetwinsize(reference, (24, 80))
        environment = os.environ | {"TERM": "xterm-256color"}
        words = [sys.executable, "-m", "headrace", "watch", label]
        self.process = subprocess.Popen(
            words, stdin=reference, stdout=reference, stderr=reference, env=environment, start_new_session=True
        )
        os.close(reference)
        self.seen = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while text := os.read(self.controller, 65_536):
                self.seen += len(text)

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def cpu_s(self) -> float:
        """Returns the processor time of all its threads, s."""
        folder = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in folder.iterdir()) / 1e9

    def close(self) -> None:
        self.send(signal.SIGCONT)
        self.send(signal.SIGINT)
        if self.process.wait(30) != 130:
            raise SystemExit(f"the watch ended with {self.process.returncode}")
        os.close(self.controller)


def windows(server: Server, watches: list[Watch], count: int) -> tuple[list[dict], float]:
    """`count` windows of one run, each with its mean tps; and processor time of the watches a second of `on`."""
    words = ["sysbench", "oltp_read_write", f"--mysql-socket={server.socket}", "--mysql-user=root", "--mysql-db=sb"]
    words += [f"--tables={TABLES}", f"--table-size={ROWS}", f"--threads={os.cpu_count()}", "--rand-seed=7"]
    words += [f"--time={WARM_S + WINDOW_S * count + 5}", "--report-interval=1", "run"]
    run = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, bufsize=1)
    result: list[dict] = []
    cpu_s, on_s = 0.0, 0.0
    assert run.stdout is not None
    try:
        for line in run.stdout:
            report = REPORT.match(line)
            if not report or int(report[1]) < WARM_S:
                continue
            if result:
                result[-1]["tps"].append(float(report[2]))
                if len(result[-1]["tps"]) < WINDOW_S:
                    continue
                if result[-1]["on"]:
                    cpu_s += sum(watch.cpu_s() for watch in watches) - result[-1].pop("cpu_s")
                    on_s += WINDOW_S
            if len(result) == count:
                break
            on = ORDER[len(result) % len(ORDER)]
            for watch in watches:
                watch.send(signal.SIGCONT if on else signal.SIGSTOP)
            result.append({"on": on, "tps": []} | ({"cpu_s": sum(watch.cpu_s() for watch in watches)} if on else {}))
    finally:
        run.terminate()
        run.wait()
    if len(result) < count:
        raise SystemExit(f"sysbench ended early: {len(result)} of {count} windows")
    return [{"on": row["on"], "tps": statistics.mean(row["tps"])} for row in result], cpu_s / on_s


def losses(result: list[dict], watches: int) -> list[float]:
    """Returns the throughput that one watch took, %, for each pair of neighbouring windows;
    negative: faster with it."""
    pairs = zip(result[::2], result[1::2], strict=True)
    return [100.0 / watches * math.log(two["tps"] / row["tps"]) * (1 if row["on"] else -1) for row, two in pairs]


def interval(values: list[float]) -> tuple[float, float, float]:
    """Returns the median and its bootstrap interval."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    low, high = (medians[int(share * (RESAMPLES - 1))] for share in ((1 - SHARE / 100) / 2, (1 + SHARE / 100) / 2))
    return statistics.median(values), low, high


def measure(seconds: int, watches: int) -> dict:
    """All of it. Ends what it starts."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        raise SystemExit(f"needs {', '.join(lacking)}: apt-get install mariadb-server sysbench")
    count = max(len(ORDER), seconds // WINDOW_S // len(ORDER) * len(ORDER))
    with tempfile.TemporaryDirectory(prefix="headrace-watch-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "db").mkdir()
        server = Server(folder / "db")
        result: list[Watch] = []
        try:
            server.sysbench("prepare")
            result += [Watch(server.address.label) for _ in range(watches)]
            while any(entry.seen < SCREEN for entry in result):
                if any(entry.process.poll() is not None for entry in result):
                    raise SystemExit("a watch did not start")
                time.sleep(0.2)
            details, busy = windows(server, result, count)
            asked_ms = cost_of_a_sample(server)["server_ms"]
        finally:
            for row in result:
                row.close()
            server.close()
    answer = losses(details, watches)
    median, low, high = interval(answer)
    return {
        "server": server.version,
        "cores": os.cpu_count(),
        "watches": watches,
        "pairs": len(answer),
        "tps": statistics.mean(entry["tps"] for entry in details if not entry["on"]),
        "loss_percent": median,
        "low_percent": low,
        "high_percent": high,
        "sd_percent": statistics.stdev(answer) if len(answer) > 1 else 0.0,
        "cpu_percent_of_a_core": 100 * busy / watches,
        "server_ms_a_second": asked_ms,
        "windows": details,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=240, help="of windows (240)")
    parser.add_argument("--watches", type=int, default=1, help="beside each other; the loss is that of one (1)")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    if arguments.seconds < 2 * WINDOW_S * len(ORDER) or arguments.watches < 1:
        parser.error(f"--seconds must be at least {2 * WINDOW_S * len(ORDER)}, --watches at least 1")
    result = measure(arguments.seconds, arguments.watches)
    print(
        f"loss by one watch: {result['loss_percent']:+.3f} % of {result['tps']:,.0f} tps ({SHARE:.0f} % interval "
        f"{result['low_percent']:+.3f} to {result['high_percent']:+.3f} %, median of {result['pairs']} pairs with "
        f"{result['watches']} watches, a pair differs by {result['sd_percent']:.2f} %); bar {BAR_PERCENT} %"
    )
    core, server = result["cpu_percent_of_a_core"], result["server_ms_a_second"] / 10  # ms in a second: % of a core
    print(
        f"processor time: {core:.2f} % of a core for a watch and {server:.2f} % in the server for its statement a second, "
        f"{(core + server) / result['cores']:.2f} % of {result['cores']} cores; {result['server']}"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
