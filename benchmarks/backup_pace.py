"""Speed of backups over the limit that binds them, and of the load that runs next to them at a
pace.

    python benchmarks/backup_pace.py [--rows N] [--seconds S] [--only speed,load,credits] [--results FILE]

speed    physical copies without load: from a gp3, and onto an st1, against the volume's MiB/s
load     clients of a fixed rate on a gp3, first alone, then beside a copy with `--latency-ratio
         1.2`, and beside one without: p95 of a transaction, and the copy's MiB/s
credits  a gp2 volume 2 % above the floor: the lowest balance while it is copied

The bars: within 10 % of what binds, p95 at most 1.2 times that alone, the floor never crossed.
Needs what the tests with servers need: root, FUSE, MariaDB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from headrace import lab as labs
from headrace import servers
from headrace.base.units import MIB
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab import Lab, Settings
from headrace.mysql import connect
from headrace.servers import Server, volumes
from headrace.servers.backup.forecast import estimate_volume_seconds
from headrace.servers.backup.manifest import read_backups
from headrace.servers.backup.targets import open_target
from headrace.servers.copies.source import count_physical_bytes

# Rows of 1,000 bytes in each of four tables; a cache that holds a tenth of them.
TABLES, ROW_BYTES = 4, 1000
SETTINGS = {"innodb_buffer_pool_size": "64M", "log_bin": "ON", "innodb_log_file_size": "128M"}
# The load: clients, and how many transactions a second all of them begin: below half of what a gp3
# of 3,000 IOPS gives them, so that there is room for a copy.
CLIENTS, RATE = 8, 100.0
FLOOR, START = 10.0, 12.0  # percent


class Clients:
    """Transactions at a fixed rate: two rows read, one changed. `latencies_s`: from when each was
    due, so that one that waits for another counts."""

    def __init__(self, server: Server, rows: int) -> None:
        self.server, self.rows = server, rows
        self.done: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Clients:
        self._from = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def p95_ms(self, begin: float, end: float) -> float:
        """Returns the 95th percentile of the transactions that were due between two moments
        (monotonic, s), ms."""
        durations = [took for due, took in self.done if begin <= due < end]
        return 1000 * statistics.quantiles(durations, n=20)[18]

    def _run(self, number: int) -> None:
        chance, each = random.Random(number), CLIENTS / RATE
        due = self._from + number / RATE
        with connect(self.server.make_address()) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                time.sleep(max(0.0, due - time.monotonic()))
                table, keys = chance.randrange(TABLES), [chance.randrange(1, self.rows) for _ in range(3)]
                cursor.execute(f"SELECT v FROM p.t{table} WHERE n IN ({keys[0]}, {keys[1]})")
                cursor.execute(f"UPDATE p.t{table} SET c = c + 1 WHERE n = {keys[2]}")
                self.done.append((due, time.monotonic() - due))
                due += each


def make_server(lab: Lab, name: str, storage: str, rows: int) -> Server:
    """A server with data, on a volume that is paced from now on."""
    server = servers.bring_up(lab, name=name, storage=storage, settings=SETTINGS, unpaced=True)
    with connect(server.make_address(), 600) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE p")
        cursor.execute("USE p")
        for table in range(TABLES):
            cursor.execute(f"CREATE TABLE p.t{table} (n INT PRIMARY KEY, c INT, v VARCHAR({ROW_BYTES}))")
            text = "REPEAT(MD5(seq), 31)"  # packs to about a third
            cursor.execute(f"INSERT INTO p.t{table} SELECT seq, 0, {text} FROM seq_1_to_{rows}")
    servers.stop(server)
    return servers.bring_up(lab, name=name)


@contextlib.contextmanager
def st1(lab: Lab, place: Path) -> Iterator[Path]:
    """A folder on an st1 volume of 500 GiB: 125 MiB/s while it has credits."""
    volume = lab.create("st1:500", name="archive")
    device = volumes.attach_fresh(lab, volume["id"])
    volumes.make_filesystem(device)
    volumes.mount(device, place)
    try:
        yield place
    finally:
        volumes.unmount(place)
        volumes.remove(lab, volume["id"])


def copied(server: Server, target: Path, *options: str) -> tuple[float, float]:
    """Takes a physical copy by the command, so that the clients of this process do not wait for its
    Python: MiB of the server's files, and seconds."""
    words = ["backup", "run", server.name, "--to", str(target), "--data-dir", str(server.lab.place.data_dir)]
    done = subprocess.run([sys.executable, "-m", "headrace", *words, *options], capture_output=True, text=True)
    if done.returncode:
        raise CouldNotRun("headrace backup run", done.stderr.strip()[-300:])
    print(done.stderr.strip(), f"load average {os.getloadavg()[0]:.1f}", sep="\n", file=sys.stderr)
    manifest = read_backups(open_target(target))[0][-1].manifest
    return count_physical_bytes(server) / MIB, manifest.ended_unix - manifest.began_unix


def speed(lab: Lab, server: Server, folder: Path) -> dict[str, float]:
    """Measures the MiB/s of copies without load, over the MiB/s of the limit that binds them."""
    bounds: dict[str, float] = {}
    for pack in ("none", "zstd"):
        size, took = copied(server, folder / pack, "--pack", pack)
        bound = estimate_volume_seconds("gp3:50", int(size * MIB), False, None)
        bounds[f"gp3_{pack}"] = round(bound / took, 3)
    with st1(lab, folder / "st1") as place:
        size, took = copied(server, place / "b", "--pack", "none")
        bound = max(bound, estimate_volume_seconds("st1:500", int(size * MIB), True, 100.0))
        bounds["st1"] = round(bound / took, 3)
    return bounds | {"mib": round(size)}


def load(server: Server, folder: Path, rows: int, seconds: float) -> dict[str, float]:
    """Measures the p95 of the load alone, next to a paced copy, and next to a copy without a pace,
    ms."""
    p95_ms: dict[str, float] = {}
    with Clients(server, rows) as clients:
        for name, options in (
            ("alone", None),
            ("paced", ("--latency-ratio", "1.2")),
            ("alone_again", None),
            ("unpaced", ()),
        ):
            time.sleep(3.0)
            began = time.monotonic()
            if options is None:
                time.sleep(seconds)
            else:
                size, took = copied(server, folder / name, "--pack", "none", *options)
                p95_ms[f"{name}_mib_s"] = round(size / took, 1)
            p95_ms[f"{name}_p95_ms"] = round(clients.p95_ms(began, time.monotonic()), 2)
            print(p95_ms, file=sys.stderr)  # a paced copy may take long: what is known so far
    alone = statistics.mean((p95_ms["alone_p95_ms"], p95_ms["alone_again_p95_ms"]))
    return p95_ms | {f"{name}_ratio": round(p95_ms[f"{name}_p95_ms"] / alone, 2) for name in ("paced", "unpaced")}


def credits(lab: Lab, server: Server, folder: Path) -> dict[str, float]:
    """Measures the lowest balance of a gp2 volume that begins little above the floor; the run ends
    after 20 s."""
    assert server.volumes.data is not None
    volume, lowest = server.volumes.data, 100.0
    lab.set_balance(volume, START)
    done = threading.Thread(target=copied, args=(server, folder / "gp2", "--credit-floor", str(FLOOR)))
    done.start()
    until = time.monotonic() + 20.0
    while done.is_alive() and time.monotonic() < until:
        balance = lab.balance(volume)["members"][0]
        lowest = min(lowest, balance["percent"] if balance is not None else 100.0)
        time.sleep(0.05)
    lab.set_balance(volume, 100.0)
    done.join()
    return {"lowest_percent": round(lowest, 3), "floor_percent": FLOOR}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="of each of four tables, 1,000 bytes each")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the load alone")
    parser.add_argument("--only", default="speed,load,credits")
    parser.add_argument("--results", type=Path)
    arguments = parser.parse_args()
    only, console = arguments.only.split(","), Console(stderr=True)
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="backup-pace-") as text:
        folder = Path(text)
        lab = labs.start_lab(folder / "lab", settings=Settings(metrics_port=0, api_port=0))
        try:
            server = make_server(lab, "paced", "gp3:50", arguments.rows)
            try:
                if "speed" in only:
                    console.print(result.setdefault("speed", speed(lab, server, folder / "speed")))
                if "load" in only:
                    console.print(
                        result.setdefault("load", load(server, folder / "load", arguments.rows, arguments.seconds))
                    )
            finally:
                servers.destroy(server)
            if "credits" in only:
                server = make_server(lab, "burst", "gp2:10", arguments.rows // 4)
                try:
                    console.print(result.setdefault("credits", credits(lab, server, folder / "credits")))
                finally:
                    servers.destroy(server)
        except HeadraceError as error:
            console.print(f"error: {error}")
            return 3
        finally:
            labs.stop_lab(lab, force=True)
    print(json.dumps(result, indent=1))
    if arguments.results:
        arguments.results.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
