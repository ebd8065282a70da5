"""A fleet made from a seed, served by closed clients: a fixed number of them each wait for an
answer, think, and ask again, as the threads of a database do. The right answer for each volume
follows from its construction.

    python benchmarks/closed_fleet.py FOLDER [SEED [SHARE]]      300 volumes x SHARE

writes what `headrace fleet import` and `headrace fleet plan` read (volumes.json, instances.json and
pages of get-metric-data) and truth.json. The queue simulation here is our own and shares no code with
Headrace: steps of ten seconds, clients that wait at a limit instead of piling up, credits as a bucket.
So it judges the model and the method together. Limits are those that AWS publishes: EBS user guide,
"Amazon EBS volume types" (gp2, gp3, io1, io2, st1) and "Amazon EBS-optimized instances" (m5.large:
3,600 IOPS).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)  # a Monday
STEP_S, PERIOD_S, DAY_S = 10, 300, 86_400
STEPS = PERIOD_S // STEP_S  # in a point of CloudWatch
STEPS_A_MINUTE = 60 // STEP_S
MIB, KIB = 1024.0**2, 1024.0
# s: an I/O on an idle gp volume, io1 and io2, and st1; published are single-digit ms, below 1 ms,
# and no figure for st1.
SERVICE_S = {"gp2": 0.0008, "gp3": 0.0008, "io1": 0.0005, "io2": 0.0003, "st1": 0.008}
GP2_BURST_IOPS, GP2_CREDITS = 3_000.0, 5_400_000.0
M5_LARGE_IOPS = 3_600.0
PAGES = 4


@dataclass
class Made:
    """A volume. `right`: the verdicts that are right. `words`: parts of the answer's reason that must be
    there. `clients`: how many at the busiest; `think_s`: what each does between two I/Os. `shape`: flat,
    or office hours. `lacks`: metrics that CloudWatch did not publish of it."""

    group: str
    kind: str
    gib: int
    right: tuple[str, ...]
    clients: float
    think_s: float
    iops: int | None = None
    mib_s: int | None = None
    shape: str = "office"
    words: str = ""
    io_kib: float = 16.0
    read_share: float = 0.7
    lacks: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    instance: str = ""
    attached: bool = True
    multi_attach: bool = False
    days: int | None = None
    listed_iops: int | None = None  # what the inventory says, where that is wrong
    most_iops: float = np.inf  # of the instance, for this volume alone
    id: str = ""


CHECKS = ("VolumeIOPSExceededCheck", "VolumeThroughputExceededCheck")


def fleet_of(seed: int, share: float = 1.0) -> list[Made]:
    """Draws the volumes, 300 x `share` of them; each group has two at least."""
    draw = np.random.default_rng(seed)
    result: list[Made] = []

    def some(count: int, make: Callable[[int], Made]) -> None:
        result.extend(make(number) for number in range(max(2, round(count * share))))

    def near(value: float, spread: float = 0.25) -> float:
        return float(value * np.exp(draw.normal(0.0, spread)))

    def asking(iops: float, kind: str) -> dict:
        """Clients that ask for so many IOPS where nothing makes them wait."""
        think = near(0.02)
        return {"clients": iops * (think + SERVICE_S[kind]), "think_s": think}

    def saturated(at: int) -> Made:
        """Every fourth at noon only; some without checks, some without their queue."""
        lacks = (CHECKS, (), (*CHECKS, "VolumeQueueLength"), ())[at % 4]
        load, shape = ((60, near(0.012, 0.1)), "office") if at % 4 == 3 else ((48, near(0.002)), "flat")
        return Made("saturated gp3", "gp3", 200, ("grow", "change"), *load, 3000, 125, shape, lacks=lacks)

    checked = ("VolumeThroughputExceededCheck",)
    grow = ("grow", "change")
    some(20, saturated)
    some(20, lambda _: Made("saturated gp2", "gp2", 100, grow, 48, near(0.01), shape="flat", lacks=CHECKS))
    some(20, lambda _: Made("idle", "gp2", 500, ("unused",), 0, 1.0))
    some(10, lambda _: Made("unattached", "gp3", 500, ("unused",), 0, 1.0, 3000, 125, attached=False))
    some(20, lambda _: Made("over gp2", "gp2", 1000, ("change",), **asking(near(700), "gp2")))
    some(20, lambda at: Made("over gp3", "gp3", 500, ("change",), iops=12000, mib_s=500, lacks=(CHECKS, (), ("VolumeQueueLength",))[at % 3], **asking(near(900), "gp3")))  # fmt: skip
    some(60, lambda at: Made("io1", "io1", 400, ("change",), iops=8000, lacks=checked if at % 3 else (), **asking(near(2200, 0.4), "io1")))  # fmt: skip
    some(20, lambda _: Made("big gp2", "gp2", 4000, ("change",), **asking(near(4500, 0.15), "gp2")))
    for number in range(max(2, round(10 * share))):
        load, tags = asking(near(300), "gp2"), {"headrace:array": f"md{number}"}
        result += [Made("array", "gp2", 334, ("change",), tags=tags, instance=f"array{number}", **load) for _ in "ab"]
    some(20, lambda _: Made("right", "gp3", 300, ("keep",), iops=3000, mib_s=125, **asking(near(1000), "gp3")))
    some(20, lambda _: Made("st1", "st1", 2000, ("keep",), near(1.0), 0.02, io_kib=1024.0))
    some(10, lambda _: Made("wrong inventory", "gp3", 500, ("withheld",), iops=9000, mib_s=500, listed_iops=3000, **asking(near(6500, 0.1), "gp3")))  # fmt: skip
    some(10, lambda _: Made("short", "gp2", 800, ("withheld",), days=3, words="at least 7", **asking(near(500), "gp2")))
    some(3, lambda _: Made("multi-attach", "io2", 300, ("withheld",), iops=4000, multi_attach=True, words="several instances", **asking(900, "io2")))  # fmt: skip
    some(7, lambda at: Made("instance-bound", "gp3", 500, ("keep",), 48, near(0.002), 10000, 500, "flat", "m5.large gives 3,600 IOPS", instance=f"small{at}", most_iops=M5_LARGE_IOPS))  # fmt: skip
    some(10, lambda _: Made("lacks a metric", "gp2", 700, ("withheld",), lacks=("VolumeWriteBytes",), words="VolumeWriteBytes", **asking(near(500), "gp2")))  # fmt: skip
    some(10, lambda _: Made("io2", "io2", 500, ("change",), iops=8000, words="99.999 %", **asking(near(2000), "io2")))
    for number, entry in enumerate(result):
        entry.id = f"vol-{0x0ABC000000000000 + number:017x}"
        entry.instance = entry.instance or f"host{number // 4}"
    return result


# --- the queue ------------------------------------------------------------------------------------


def limits_of(kind: str, gib: int, iops: int | None, mib_s: int | None) -> tuple[float, float]:
    """Returns the IOPS and bytes a second that a volume gives: of gp2 the baseline, of st1 the
    burst."""
    if kind == "gp2":
        return min(16_000.0, max(100.0, 3.0 * gib)), (128 if gib <= 170 else 250) * MIB
    if kind == "gp3":
        return float(iops or 3_000), (mib_s or 125) * MIB
    if kind == "st1":
        most = min(500.0, 250.0 * gib / 1024.0) * MIB
        return most / MIB, most
    return float(iops or 100), min((iops or 100) * 256 * KIB, 1_000 * MIB)


def served(entry: Made, days: int, seed: int, storage: tuple[str, int, int | None, int | None] | None = None) -> dict:
    """Serves the clients of a volume from `storage` (None: the volume as it is), and returns arrays
    by steps: `iops`, `queue`, `balance` (%), and `waits` (true where they wait for a limit). Equal
    seeds give equal clients."""
    kind, gib, iops, mib_s = storage or (entry.kind, entry.gib, entry.iops, entry.mib_s)
    draw = np.random.default_rng(seed)
    count = days * DAY_S // STEP_S
    hour = (np.arange(count) * STEP_S % DAY_S) / 3_600.0
    shape = np.ones(count)
    if entry.shape == "office":
        weekend = (np.arange(count) * STEP_S // DAY_S) % 7 >= 5
        shape = (0.25 + 0.75 * np.clip(np.sin((hour - 6.0) / 12.0 * np.pi), 0.0, 1.0)) * np.where(weekend, 0.6, 1.0)
        # Minutes wander, and ten-second steps scatter as requests do.
        shape *= np.repeat(np.exp(draw.normal(0.0, 0.06, count // 6)), 6) * np.exp(draw.normal(0.0, 0.03, count))
    clients = entry.clients * shape
    service = SERVICE_S[kind] * (1.0 + 0.03 * draw.normal(size=count))
    cap, bytes_s = limits_of(kind, gib, iops, mib_s)
    most = min(entry.most_iops, bytes_s / (entry.io_kib * KIB))
    expected = clients / (entry.think_s + service)
    balance = np.full(count, np.nan)
    if kind == "gp2" and cap < GP2_BURST_IOPS:
        got, level = np.empty(count), 0.0 if entry.group == "saturated gp2" else GP2_CREDITS
        for at in range(count):
            request = min(float(expected[at]), GP2_BURST_IOPS, most)
            got[at] = min(request, cap + level / STEP_S)
            level = min(GP2_CREDITS, max(0.0, level + (cap - got[at]) * STEP_S))
            balance[at] = 100.0 * level / GP2_CREDITS
    else:
        got = np.minimum(expected, min(cap, most))
        if kind in ("gp2", "st1"):
            balance[:] = 100.0
    # Little's law: who does not think is at the volume.
    queue = np.maximum(clients - got * entry.think_s, got * service)
    waits = expected > got * 1.001
    return {"iops": got, "queue": queue, "balance": balance, "waits": waits & (got < entry.most_iops * 0.999)}


def metrics_of(entry: Made, days: int, seed: int) -> dict[str, np.ndarray]:
    """Returns the metrics of a volume as CloudWatch shows them, a figure each five minutes."""
    run = served(entry, days, seed)
    draw = np.random.default_rng(seed + 1)

    def mean(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, STEPS).mean(axis=1)

    ops = mean(run["iops"]) * PERIOD_S
    reads = np.round(ops * entry.read_share * (1.0 + 0.002 * draw.normal(size=len(ops))))
    writes = np.maximum(np.round(ops - reads), 0.0)
    # Bytes are whole sectors; the mean size of an I/O wanders by some per cent.
    wander = 1.0 + 0.02 * draw.normal(size=len(ops))
    minute = run["waits"].reshape(-1, STEPS // STEPS_A_MINUTE, STEPS_A_MINUTE)
    bytes_bind = (
        limits_of(entry.kind, entry.gib, entry.iops, entry.mib_s)[1] / (entry.io_kib * KIB) < run["iops"].max() * 1.01
    )
    flags = minute.all(axis=2).any(axis=1).astype(float)
    columns = {
        "VolumeReadOps": reads,
        "VolumeWriteOps": writes,
        "VolumeReadBytes": np.round(reads * entry.io_kib * KIB * wander / 512.0) * 512.0,
        "VolumeWriteBytes": np.round(writes * entry.io_kib * KIB * wander / 512.0) * 512.0,
        "VolumeQueueLength": np.round(mean(run["queue"]), 4),
        "VolumeIOPSExceededCheck": np.zeros_like(flags) if bytes_bind else flags,
        "VolumeThroughputExceededCheck": flags if bytes_bind else np.zeros_like(flags),
    }
    if entry.kind in ("gp2", "st1") and not np.isnan(run["balance"]).any():
        columns["BurstBalance"] = np.round(mean(run["balance"]))
    if not entry.clients:
        columns = {
            metric: np.zeros(len(ops)) for metric in columns if "Check" not in metric and metric != "BurstBalance"
        }
    return {metric: values for metric, values in columns.items() if metric not in entry.lacks}


# --- files ----------------------------------------------------------------------------------------


def described(entry: Made) -> dict:
    """Returns the volume as describe-volumes shows it."""
    iops = entry.listed_iops or entry.iops
    more: dict = {"Iops": int(limits_of("gp2", entry.gib, None, None)[0])} if entry.kind == "gp2" else {}
    more |= {"Iops": iops} if iops else {}
    more |= {"Throughput": 125 if entry.listed_iops else entry.mib_s} if entry.mib_s else {}
    at = {"InstanceId": f"i-{entry.instance}", "Device": "/dev/sdf", "State": "attached"}
    tags = {"Name": f"{entry.group.replace(' ', '-')}-{entry.id[-3:]}"} | entry.tags
    return {
        "VolumeId": entry.id, "VolumeType": entry.kind, "Size": entry.gib, **more, "AvailabilityZone": "us-east-1a",
        "State": "in-use" if entry.attached else "available", "Attachments": [at] if entry.attached else [],
        "MultiAttachEnabled": entry.multi_attach, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }  # fmt: skip


def write_fleet(folder: Path, seed: int, share: float = 1.0, days: int = 8) -> list[Made]:
    """Writes the files into `folder`; the volumes."""
    result = fleet_of(seed, share)
    (folder / "volumes.json").write_text(json.dumps({"Volumes": [described(entry) for entry in result]}))
    instances = [
        {"InstanceId": f"i-{name}", "InstanceType": "m5.large" if name.startswith("small") else "m5.24xlarge", "State": {"Name": "running"}}
        for name in sorted({entry.instance for entry in result if entry.attached})
    ]  # fmt: skip
    (folder / "instances.json").write_text(
        json.dumps({"Reservations": [{"OwnerId": "123456789012", "Instances": instances}]})
    )
    watched = [(at, entry) for at, entry in enumerate(result) if entry.attached]
    for page in range(PAGES):
        results = []
        for at, member in watched[page::PAGES]:
            length = (member.days or days) * DAY_S // PERIOD_S
            skipped = days * DAY_S // PERIOD_S - length
            times = [
                f"{BEGIN + timedelta(seconds=PERIOD_S * (skipped + slot)):%Y-%m-%dT%H:%M:%SZ}" for slot in range(length)
            ]
            for metric, values in metrics_of(member, member.days or days, seed * 10_007 + at).items():
                label = f"{member.id} {metric}"
                results.append(
                    {
                        "Id": f"m{len(results)}",
                        "Label": label,
                        "Timestamps": times,
                        "Values": values.tolist(),
                        "StatusCode": "Complete",
                    }
                )
        with gzip.open(folder / f"metrics-{page + 1}.json.gz", "wt", compresslevel=1) as file:
            json.dump({"MetricDataResults": results}, file)
    truth = {entry.id: {"group": entry.group, "right": entry.right, "words": entry.words} for entry in result}
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    return result


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    volumes = write_fleet(
        place, int(sys.argv[2]) if len(sys.argv) > 2 else 1, float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    )
    print(f"{len(volumes)} volumes written to {place}")
