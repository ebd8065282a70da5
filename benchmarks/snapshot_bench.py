"""Snapshots and encryption of the lab, in one run: what they cost, with a plain copy of the same
bytes next to them.

    make bench                                (needs root, /dev/fuse, loop devices and fio)
    .venv/bin/python benchmarks/snapshot_bench.py [--gib 2] [--records 10000]

- Throughput: a full snapshot of a volume filled with random bytes, and `cp` of the volume's file to
  the folder where the snapshots lie, with everything on the disk at the end of both.
- Foreground: p99 of a load that the volume holds easily, before and during a snapshot.
- First read of a volume that was just restored, by size: until it can be used, then 16 KiB that
  nobody has touched.
- Incremental: time and stored bytes after a share of the blocks was written again.
- Many: a call with few and with thousands of volumes and snapshots on record.
- Encryption: 16 KiB reads and writes without pacing, encrypted and plain in turns.

Each figure is the median of REPETITIONS, with its range. The page cache of the files is dropped
before what reads the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

import lab_bench
from headrace import HeadraceError
from headrace import lab as labs
from headrace.bench import FioLoad, FioResult, fio_once
from headrace.lab import Lab
from headrace.lab.calls import Snapshot
from headrace.servers.volumes import get_device

GIB = 2  # that are copied (a guess: more than a second of any disk, little enough for ten minutes)
RECORDS = 10_000  # volumes and snapshots on record, as the project's bar says
REPETITIONS = 3  # a guess
BLOCK = 512 << 10  # of a snapshot
# Shares of the blocks that are written again before an incremental snapshot.
CHANGED = (0.01, 0.1)
# Up to the largest gp3, less one GiB: the largest file of ext4 is a little smaller than 16 TiB.
RESTORED_GIB = (1, 64, 1024, 16_383)
# Depth 2 stays below what the smallest gp3 may do, so that the model does not queue by itself; shorter
# than a snapshot takes.
FOREGROUND = FioLoad("randrw", 16, 2, 3.0, ramp_s=0.5)
ENCRYPTED_S = 4.0  # of each run (a guess)
DONE_S = 600.0  # for a snapshot (a guess: 2 GiB take seconds)
# The project's own bars.
COPY_SHARE, P99_TIMES, FIRST_READ_MS, ENCRYPTION_SHARE = 0.7, 1.5, 100.0, 0.9


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


@contextlib.contextmanager
def volume(lab: Lab, spec: str, unpaced: bool = False, **more) -> Iterator[tuple[str, str]]:
    """A volume that is attached: its id and its device."""
    result = lab.call("volume.create", spec=spec, **more)["id"]
    try:
        yield result, get_device(lab.attach(result, unpaced=unpaced))
    finally:
        with contextlib.suppress(HeadraceError):
            lab.detach(result, force=True)
        lab.delete(result)


def fill(device: str, gib: float) -> None:
    """Writes random bytes, which look to a disk as those of a database do."""
    words = ["dd", "if=/dev/urandom", f"of={device}", "bs=1M", f"count={int(gib * 1024)}", "oflag=direct"]
    subprocess.run(words, check=True, capture_output=True)


def snapshot(lab: Lab, text: str) -> tuple[float, Snapshot]:
    """Seconds until it is completed, and its record."""
    begun = time.perf_counter()
    request = lab.create_snapshot(text)["id"]
    while time.perf_counter() - begun < DONE_S:
        now = lab.describe_snapshot(request)
        if now["state"] != "pending":
            if now["state"] == "error":
                raise RuntimeError(f"the snapshot failed: {now['error']}")
            return time.perf_counter() - begun, now
        time.sleep(0.01)
    raise TimeoutError("the snapshot does not end")


def copied(source: Path, folder: Path) -> float:
    """Seconds of a copy that is on the disk at the end."""
    target = folder / "copy"
    begun = time.perf_counter()
    subprocess.run(["cp", "--sparse=never", "--reflink=never", str(source), str(target)], check=True)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    taken = time.perf_counter() - begun
    target.unlink()
    return taken


def throughput(lab: Lab, folder: Path, gib: float) -> dict:
    """MiB/s of a snapshot and of a copy, in turns. Every snapshot is of a volume of its own: the
    second of one volume would be incremental.
    """
    snapshots, copies = [], []
    for _ in range(REPETITIONS):
        with volume(lab, f"gp3:{int(gib) + 1}", unpaced=True) as (result, device):
            fill(device, gib)
            bare = folder / "lab" / "volumes" / result / "data"
            drop_caches()
            copies.append(gib * 1024 / copied(bare, folder))
            drop_caches()
            seconds, record = snapshot(lab, result)
            snapshots.append(gib * 1024 / seconds)
            lab.delete_snapshot(record["id"])
    return {"gib": gib, "snapshot_mib_s": snapshots, "copy_mib_s": copies}


def foreground(lab: Lab, gib: float) -> dict:
    """p99 of the load before and during: the snapshot begins with the load, and must outlast it or
    what is left of it counts for both.
    """
    before, during, shares = [], [], []
    for _ in range(REPETITIONS):
        with volume(lab, f"gp3:{int(gib) + 1}") as (sample, device):
            unpaced_fill(lab, sample, gib)
            device = get_device(lab.describe(sample))
            before.append(fio_once(FOREGROUND, device).p99_ms)
            taken: list[float] = []
            worker = threading.Thread(
                target=lambda result=sample, taken=taken: taken.append(snapshot_again(lab, result))
            )
            worker.start()
            result: FioResult = fio_once(FOREGROUND, device)
            worker.join()
            during.append(result.p99_ms)
            shares.append(min(1.0, taken[0] / FOREGROUND.seconds))
    return {"before_ms": before, "during_ms": during, "share_with_snapshot": shares}


def unpaced_fill(lab: Lab, text: str, gib: float) -> None:
    lab.detach(text)
    fill(get_device(lab.attach(text, unpaced=True)), gib)
    lab.detach(text)
    lab.attach(text)


def snapshot_again(lab: Lab, text: str) -> float:
    """On a connection of its own: fio is in the other thread."""
    with Lab(lab.place.data_dir) as mine:
        return snapshot(mine, text)[0]


def first_reads(lab: Lab) -> list[dict]:
    """A restored volume of each size: ms until it is attached, and of its first 16 KiB reads at
    places that nobody has read.
    """
    rows = []
    with volume(lab, "gp3:1", unpaced=True) as (result, device):
        fill(device, 0.25)
        source = snapshot(lab, result)[1]["id"]
    for gib in RESTORED_GIB:
        usable, reads = [], []
        for _ in range(REPETITIONS):
            begun = time.perf_counter()
            with volume(lab, f"gp3:{gib}", snapshot=source) as (_, device):
                usable.append(1e3 * (time.perf_counter() - begun))
                reads += [1e3 * seconds for seconds in cold_reads(device)]
        rows.append({"gib": gib, "usable_ms": usable, "first_read_ms": reads})
    lab.delete_snapshot(source)
    return rows


def cold_reads(device: str) -> Iterator[float]:
    """Seconds of reads past the page cache, each in a block of its own."""
    import mmap

    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    room = mmap.mmap(-1, 16 << 10)
    try:
        for number in range(8):
            begun = time.perf_counter()
            os.preadv(descriptor, [room], (10 + 37 * number) * BLOCK)
            yield time.perf_counter() - begun
    finally:
        os.close(descriptor)


def incremental(lab: Lab, gib: float) -> list[dict]:
    """Measures a second snapshot, which stores only the blocks written since the first."""
    rows = []
    blocks = int(gib * (1 << 30)) // BLOCK
    with volume(lab, f"gp3:{int(gib) + 1}", unpaced=True) as (result, device):
        fill(device, gib)
        full_s, full = snapshot(lab, result)
        rows.append({"changed": blocks, "seconds": full_s, "stored_bytes": full["blocks"]["stored_bytes"]})
        for share in CHANGED:
            count = max(1, int(blocks * share))
            descriptor = os.open(device, os.O_WRONLY)
            for number in range(count):
                os.pwrite(descriptor, os.urandom(4096), number * (blocks // count) * BLOCK)
            os.fsync(descriptor)
            os.close(descriptor)
            seconds, record = snapshot(lab, result)
            rows.append({"changed": count, "seconds": seconds, "stored_bytes": record["blocks"]["stored_bytes"]})
    return rows


def timed(work: Callable[[], object], repetitions: int = 50) -> list[float]:
    """Milliseconds of a call."""
    moments = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        work()
        moments.append(1e3 * (time.perf_counter() - begun))
    return moments


def many(lab: Lab, records: int) -> dict:
    """Calls with ten on record and with thousands: single ones must not be slower."""
    result = [lab.create("gp3:1")["id"] for _ in range(10)]
    taken = [lab.create_snapshot(result[0])["id"]]
    details = {10: calls(lab, result[0], taken[0])}
    while len(result) < records:
        result.append(lab.create("gp3:1")["id"])
    while len(taken) < records:
        # One after the other of a volume each: five of one volume may be pending at once.
        taken.append(lab.create_snapshot(result[len(taken) % len(result)])["id"])
    details[records] = calls(lab, result[0], taken[0])
    return details


def calls(lab: Lab, text: str, shot: str) -> dict:
    return {
        "volume.describe": timed(lambda: lab.describe(text)),
        "snapshot.describe": timed(lambda: lab.describe_snapshot(shot)),
        "volume.tag": timed(lambda: lab.tag(text, {"bench": "yes"})),
        "volume.create and delete": timed(lambda: lab.delete(lab.create("gp3:1")["id"])),
    }


def encryption(lab: Lab) -> dict:
    """16 KiB reads and writes, depth 32, without pacing: encrypted and plain in turns."""
    result: dict[str, list[float]] = {}
    for _ in range(REPETITIONS):
        for name, more in (("plain", {}), ("encrypted", {"encrypted": True})):
            with volume(lab, "gp3:8", unpaced=True, **more) as (_, device):
                fill(device, 1)
                for rw in ("randread", "randwrite"):
                    load = FioLoad(rw, 16, 32, ENCRYPTED_S, size_gib=1, ramp_s=1.0)
                    result.setdefault(f"{name} {rw}", []).append(fio_once(load, device).iops)
    return result


def run(gib: float = GIB, records: int = RECORDS) -> dict:
    """Returns all figures, or the reason why there are none."""
    why = lab_bench.missing()
    if why:
        return {"missing": why}
    with tempfile.TemporaryDirectory(prefix="snapshot-bench-") as name:
        folder = Path(name)
        with labs.start_lab(folder / "lab", None, labs.Settings(metrics_port=0, api_port=0)) as lab:
            try:
                parts: dict[str, Callable[[], object]] = {
                    "throughput": lambda: throughput(lab, folder, gib),
                    "foreground": lambda: foreground(lab, gib),
                    "encryption": lambda: encryption(lab),
                    "first_reads": lambda: first_reads(lab),
                    "incremental": lambda: incremental(lab, gib),
                    "many": lambda: many(lab, records),
                }
                result: dict = {}
                for name, measure in parts.items():
                    result[name] = measure()
                    # Minutes pass between the parts: what is known is said.
                    print(f"{name}: {result[name]}", file=sys.stderr)
                return result
            finally:
                labs.stop_lab(lab, True)


def show(console: Console, result: dict) -> None:
    """Shows the tables, each bar next to what was seen."""
    if "missing" in result:
        console.print(result["missing"])
        return
    spread = lab_bench.spread
    table = Table("what", "seen: median (range)", "bar", title="Snapshots and encryption")
    rate = result["throughput"]
    share = statistics.median(rate["snapshot_mib_s"]) / statistics.median(rate["copy_mib_s"])
    table.add_row(f"plain copy of {rate['gib']} GiB, MiB/s", spread(rate["copy_mib_s"]), "")
    table.add_row(
        "full snapshot of the same, MiB/s", spread(rate["snapshot_mib_s"]), f"{COPY_SHARE:.0%}; here {share:.0%}"
    )
    load = result["foreground"]
    times = statistics.median(load["during_ms"]) / statistics.median(load["before_ms"])
    table.add_row("16 KiB, depth 2, before: p99 ms", spread(load["before_ms"]), "")
    table.add_row("the same during a snapshot: p99 ms", spread(load["during_ms"]), f"{P99_TIMES} x; here {times:.2f} x")
    table.add_row("share of that time with a snapshot under way", spread(load["share_with_snapshot"], 2), "")
    for row in result["first_reads"]:
        table.add_row(f"restored to {row['gib']:,} GiB: usable after, ms", spread(row["usable_ms"]), "")
        bar = f"{FIRST_READ_MS:.0f} ms, the slowest"
        table.add_row("its first reads of 16 KiB, ms", spread(row["first_read_ms"]), bar)
    for row in result["incremental"]:
        text = f"{row['seconds']:.2f} s, {row['stored_bytes'] / BLOCK:,.0f} blocks' worth of bytes"
        table.add_row(f"snapshot after {row['changed']:,} blocks were written", text, f"{row['changed']:,} blocks")
    for rw in ("randread", "randwrite"):
        plain, sealed = result["encryption"][f"plain {rw}"], result["encryption"][f"encrypted {rw}"]
        table.add_row(f"16 KiB {rw}, plain: IOPS", spread(plain), "")
        share = statistics.median(sealed) / statistics.median(plain)
        table.add_row(f"16 KiB {rw}, encrypted: IOPS", spread(sealed), f"{ENCRYPTION_SHARE:.0%}; here {share:.0%}")
    few, all_of = (result["many"][number] for number in sorted(result["many"]))
    for call, values in few.items():
        times = statistics.median(all_of[call]) / statistics.median(values)
        table.add_row(f"{call}, few on record: ms", spread(values), "")
        table.add_row(
            f"the same with {max(result['many']):,}: ms", spread(all_of[call]), f"no slowdown; here {times:.2f} x"
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=GIB)
    parser.add_argument("--records", type=int, default=RECORDS)
    given = parser.parse_args()
    result = run(given.gib, given.records)
    show(Console(width=160), result)
    return 3 if "missing" in result else 0


if __name__ == "__main__":
    sys.exit(main())
