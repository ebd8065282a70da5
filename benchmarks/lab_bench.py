"""The lab beside its peers on this machine, in one run: the ceiling of the path, added latency,
caps, depletion, CPU and memory.

    make bench            (needs root, /dev/fuse and loop devices; says so where they are missing)

Peers, where they are installed: a loop device straight on the file, QEMU's storage daemon (FUSE
export + loop, throttle group), nbdkit + nbdfuse + loop, the kernel's blkio throttle. Every path has
the same file system, file size and fio loads. Each figure is the median of REPETITIONS runs, with
its range.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headrace import HeadraceError
from headrace import lab as labs
from headrace.bench import FioLoad, fio_once
from headrace.lab import Lab
from headrace.servers.volumes import get_device

REPETITIONS = 3  # a guess: what ten minutes allow
SECONDS = 4.0  # of each run (a guess)
SIZE_GIB = 1  # of each file (a guess)
# The least of gp3, its most of 2020, and near what two processors hold.
CAPS_IOPS = (3_000, 16_000, 30_000)
CAPS_MIB_S = (125, 500, 1_000)  # the least of gp3, a middle, its most of 2020
MANY = 64  # volumes (a guess: more than an instance has)
BLKIO = Path("/sys/fs/cgroup/blkio")


def sh(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def appears(path: Path, seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists() or path.stat().st_size == 0:
        if time.monotonic() > until:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.02)


@contextlib.contextmanager
def loop_on(file: Path) -> Iterator[str]:
    device = sh("losetup", "-f", "--show", "--direct-io=on", str(file))
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=False)


def image(folder: Path) -> Path:
    """A file full of bytes: holes would be faster."""
    path = folder / "image"
    if not path.exists():
        with path.open("wb") as out:
            for _ in range(SIZE_GIB * 1024):
                out.write(os.urandom(1 << 20))
    return path


@contextlib.contextmanager
def raw_loop(folder: Path, limit: int | None = None) -> Iterator[str]:
    with loop_on(image(folder)) as device:
        yield device


@contextlib.contextmanager
def qemu(folder: Path, limit: int | None = None) -> Iterator[str]:
    """qemu-storage-daemon, its file on FUSE; `limit`: a throttle group of so many IOPS."""
    point = folder / "qemu"
    point.touch()
    words = ["qemu-storage-daemon"]
    words += ["--blockdev", f"driver=file,node-name=f,filename={image(folder)},cache.direct=off,aio=threads"]
    node = "f"
    if limit:
        words += [
            "--object",
            f"throttle-group,id=g,limits.iops-total={limit}",
            "--blockdev",
            "driver=throttle,node-name=t,throttle-group=g,file=f",
        ]
        node = "t"
    words += ["--export", f"type=fuse,id=e,node-name={node},mountpoint={point},writable=on"]
    daemon = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        appears(point)
        with loop_on(point) as device:
            yield device
    finally:
        daemon.terminate()
        daemon.wait()


@contextlib.contextmanager
def nbdkit(folder: Path, limit: int | None = None) -> Iterator[str]:
    point = folder / "nbd"
    point.mkdir(exist_ok=True)
    words = ["nbdfuse", str(point / "nbd"), "[", "nbdkit", "--exit-with-parent", "file", str(image(folder)), "]"]
    daemon = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        appears(point / "nbd")
        with loop_on(point / "nbd") as device:
            yield device
    finally:
        subprocess.run(["fusermount3", "-u", str(point)], check=False)
        daemon.wait()


PEERS = {
    "raw loop": (raw_loop, "losetup"),
    "QEMU storage daemon": (qemu, "qemu-storage-daemon"),
    "nbdkit + nbdfuse": (nbdkit, "nbdfuse"),
}


@contextlib.contextmanager
def volume(lab: Lab, spec: str, unpaced: bool = False) -> Iterator[str]:
    volume_id = lab.create(spec)["id"]
    try:
        yield get_device(lab.attach(volume_id, unpaced=unpaced))
    finally:
        lab.detach(volume_id, force=True)
        lab.delete(volume_id)


def fill(device: str) -> None:
    """Written once, as the peers' image is."""
    subprocess.run(
        ["dd", "if=/dev/urandom", f"of={device}", "bs=1M", f"count={SIZE_GIB * 1024}", "oflag=direct"],
        check=True,
        capture_output=True,
    )


def load(rw: str, bs: int, depth: int, seconds: float = SECONDS, ramp_s: float = 1.0) -> FioLoad:
    return FioLoad(rw, bs, depth, seconds, size_gib=SIZE_GIB, ramp_s=ramp_s)


def several(device: str, what: FioLoad, figure: str) -> list[float]:
    return [getattr(fio_once(what, device), figure) for _ in range(REPETITIONS)]


def path_figures(device: str) -> dict[str, list[float]]:
    return {
        "read_iops_16k_qd32": several(device, load("randread", 16, 32), "iops"),
        "write_iops_16k_qd32": several(device, load("randwrite", 16, 32), "iops"),
        "read_us_4k_qd1": [1e3 * ms for ms in several(device, load("randread", 4, 1), "mean_ms")],
    }


def ceilings(lab: Lab, folder: Path) -> dict[str, dict]:
    results = {}
    with volume(lab, "gp3:8", unpaced=True) as device:
        fill(device)
        before = cpu_s(lab.get_pid())
        figures = path_figures(device)
        used = cpu_s(lab.get_pid()) - before
        requests = sum(sum(values) for name, values in figures.items() if "iops" in name) * (SECONDS + 1.0)
        results["headrace, unpaced"] = figures | {"cpu_us_per_io": [1e6 * used / requests]}
    for name, (peer, program) in PEERS.items():
        if shutil.which(program) is None:
            results[name] = {"missing": program}
            continue
        try:
            with peer(folder) as device:
                results[name] = path_figures(device)
        except (OSError, TimeoutError, subprocess.CalledProcessError, HeadraceError) as error:
            results[name] = {"missing": f"{program}: {error}"}
    return results


def caps(lab: Lab, folder: Path) -> list[dict]:
    rows = []
    for iops in CAPS_IOPS:
        with volume(lab, f"gp3:100:{iops}:{min(1_000, iops // 4)}") as device:
            fill(device)
            runs = [fio_once(load("randread", 16, 16, ramp_s=ramp_of(iops)), device) for _ in range(REPETITIONS)]
        rows.append(cap_row("headrace", f"{iops} IOPS", iops, [run.iops for run in runs], runs))
        if shutil.which("qemu-storage-daemon"):
            with qemu(folder, iops) as device:
                runs = [fio_once(load("randread", 16, 16, ramp_s=ramp_of(iops)), device) for _ in range(REPETITIONS)]
            rows.append(cap_row("QEMU throttle group", f"{iops} IOPS", iops, [run.iops for run in runs], runs))
    for mib_s in CAPS_MIB_S:
        with volume(lab, f"gp3:100:16000:{mib_s}") as device:
            fill(device)
            runs = [fio_once(load("randread", 256, 16, ramp_s=3.0), device) for _ in range(REPETITIONS)]
        rows.append(cap_row("headrace", f"{mib_s} MiB/s", mib_s, [run.mib_s for run in runs], runs))
    with raw_loop(folder) as device, blkio(device, CAPS_IOPS[0]) as limited:
        if limited:
            runs = [fio_once(load("randread", 16, 16, ramp_s=3.0), device) for _ in range(REPETITIONS)]
            rows.append(
                cap_row("kernel blkio throttle", f"{CAPS_IOPS[0]} IOPS", CAPS_IOPS[0], [run.iops for run in runs], runs)
            )
    return rows


def ramp_of(iops: int) -> float:
    """Longer than a saved second of I/Os lasts: two cores take perhaps 2,000 a second more than the
    highest cap."""
    return 3.0 if iops < 30_000 else 20.0


def cap_row(who: str, cap: str, limit: float, values: list[float], runs: list) -> dict:
    return {
        "who": who,
        "cap": cap,
        "error_percent": [100.0 * (value / limit - 1.0) for value in values],
        "cv": [run.sd_ms / run.mean_ms for run in runs],
        "p99_ms": [run.p99_ms for run in runs],
    }


@contextlib.contextmanager
def blkio(device: str, iops: int) -> Iterator[bool]:
    """This process and its children under the kernel's throttle, where cgroup v1 has one."""
    group = BLKIO / "headrace-bench"
    try:
        group.mkdir(exist_ok=True)
        number = os.stat(device).st_rdev
        (group / "blkio.throttle.read_iops_device").write_text(f"{os.major(number)}:{os.minor(number)} {iops}\n")
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        (BLKIO / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def depletion(lab: Lab) -> dict:
    """A gp2 of 100 GiB with 0.2 % of its credits: I/Os in 8 s beside the closed formula."""
    rows = []
    for _ in range(REPETITIONS):
        volume_id = lab.create("gp2:100")["id"]
        device = get_device(lab.attach(volume_id))
        fio_once(load("randread", 16, 16, 2.0), device)
        lab.set_balance(volume_id, 0.2)
        before = credits_of(lab, volume_id)
        begun = time.monotonic()
        done = fio_once(FioLoad("randread", 16, 16, 8.0, size_gib=SIZE_GIB), device)
        after = credits_of(lab, volume_id)
        # Credits at the start, what was earned between the two looks at them, less what is left.
        rows.append({"ios": done.ios, "formula": before + 300 * (time.monotonic() - begun) - after})
        lab.detach(volume_id, force=True)
        lab.delete(volume_id)
    return {"error_percent": [100.0 * (row["ios"] / row["formula"] - 1.0) for row in rows]}


def credits_of(lab: Lab, volume_id: str) -> int:
    """Credits of a single volume of a type that has them."""
    member = lab.balance(volume_id)["members"][0]
    assert member is not None
    return member["credits"]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def many(lab: Lab) -> dict:
    """64 volumes at once: memory, and the sum of what 1, 4 and 16 busy ones do."""
    alone = resident_mib(lab.get_pid())
    ids = [lab.create("gp3:8")["id"] for _ in range(MANY)]
    try:
        devices = [get_device(lab.attach(volume_id, unpaced=True)) for volume_id in ids]
        resident = resident_mib(lab.get_pid())
        scaling = {}
        for busy in (1, 4, 16):
            # One queue of 32 over all of them.
            what = FioLoad("randread", 16, 32, SECONDS, size_gib=SIZE_GIB, ramp_s=1.0)
            scaling[busy] = several(":".join(devices[:busy]), what, "iops")
    finally:
        for volume_id in ids:
            lab.detach(volume_id, force=True)
            lab.delete(volume_id)
    return {"volumes": MANY, "mib_per_volume": (resident - alone) / MANY, "iops_by_busy_volumes": scaling}


def missing() -> str | None:
    if os.geteuid() != 0:
        return "the lab's figures need root"
    for path in ("/dev/fuse", "/dev/loop-control"):
        if not Path(path).exists():
            return f"the lab's figures need {path}"
    return None if shutil.which("fio") else "the lab's figures need fio"


def run() -> dict:
    """Returns all figures, or the reason why there are none."""
    why = missing()
    if why:
        return {"missing": why}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        with labs.start_lab(folder / "lab", None, labs.Settings(metrics_port=0, api_port=0)) as lab:
            try:
                return {
                    "many": many(lab),
                    "ceilings": ceilings(lab, folder),
                    "caps": caps(lab, folder),
                    "depletion": depletion(lab),
                }
            finally:
                labs.stop_lab(lab, True)


def spread(values: list[float], digits: int = 4) -> str:
    return f"{statistics.median(values):,.{digits}g} ({min(values):,.{digits}g} to {max(values):,.{digits}g}, n={len(values)})"


def show(console: Console, results: dict) -> None:
    """Shows the tables."""
    if "missing" in results:
        console.print(results["missing"])
        return
    paths = Table(
        "path",
        "16 KiB reads a second, depth 32",
        "16 KiB writes a second, depth 32",
        "4 KiB read, depth 1, us",
        title="The path alone",
    )
    for name, figures in results["ceilings"].items():
        if "missing" in figures:
            paths.add_row(name, f"not here: {figures['missing']}")
            continue
        paths.add_row(
            name, *(spread(figures[key]) for key in ("read_iops_16k_qd32", "write_iops_16k_qd32", "read_us_4k_qd1"))
        )
    console.print(paths)
    console.print(f"CPU of the daemon: {results['ceilings']['headrace, unpaced']['cpu_us_per_io'][0]:.1f} us a request")
    limits = Table("who", "cap", "error of the mean, %", "CV of latency", "p99, ms", title="At the cap, depth 16")
    for row in results["caps"]:
        limits.add_row(
            row["who"], row["cap"], spread(row["error_percent"], 2), spread(row["cv"], 2), spread(row["p99_ms"])
        )
    console.print(limits)
    console.print(f"gp2 that runs dry: I/Os beside the formula {spread(results['depletion']['error_percent'], 3)} %")
    all_of = results["many"]
    console.print(
        f"{all_of['volumes']} volumes attached: {all_of['mib_per_volume']:.2f} MiB each; reads a second by busy "
        f"volumes: {all_of['iops_by_busy_volumes']}"
    )


if __name__ == "__main__":
    results = run()
    show(Console(width=180), results)
    sys.exit(0 if "missing" not in results else 3)
