"""A fleet made from a seed, whose demand is known: inventory, and points as CloudWatch would show.

Each volume has an office, evening, flat, batch or bursty demand, mostly far below what was bought,
some above it. Delivered I/Os, credits, queue and exceeded checks come from the model's interval
form: such a fleet judges the method that reads them, not the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from headrace.base import core
from headrace.operate.fleet.inventory import FleetDevice, FleetInventory, parse_inventory
from headrace.workload import daily
from headrace.workload.model import MAX_OUTSTANDING

BEGIN = 1_772_409_600.0  # 2026-03-02 00:00 UTC, a Monday
BATCH = np.array([0.05] * 2 + [1.0] * 2 + [0.05] * 20)
SHAPES = {name: np.array(shape) for name, shape in daily.SHAPES.items()} | {"batch": BATCH}


@dataclass(frozen=True)
class SeededFleet:
    """`described`: the volumes as describe-volumes shows them. `demand`: of each volume the five
    columns of a `FleetDemands`, what was asked and not what was given."""

    described: list[dict]
    inventory: FleetInventory
    points: dict[str, pl.DataFrame]
    demand: dict[str, list[np.ndarray]]

    @property
    def devices(self) -> list[FleetDevice]:
        return self.inventory.list_devices()


def seeded_fleet(volumes: int, seed: int, days: int = 14, grain_s: float = 300.0, first: int = 0) -> SeededFleet:
    """`volumes` volumes of gp2, gp3, io1 and io2 with `days` of points, numbered from `first`."""
    draw = np.random.default_rng(seed)
    described, demand, points = [], {}, {}
    for number in range(first, first + volumes):
        name = f"vol-{number:017x}"
        volume, request = _volume(draw, days, grain_s)
        described.append(
            {"VolumeId": name, "AvailabilityZone": "us-east-1a", "State": "in-use", "Attachments": [], **volume}
        )
        demand[name] = request
    inventory = parse_inventory(described)
    for begin in range(0, volumes, 250):
        some = inventory.volumes[begin : begin + 250]
        followed = joined([demand[entry.id] for entry in some]).follow(
            list(range(len(some))), [entry.notation for entry in some], [None] * len(some), [None] * len(some)
        )
        for member, rows in zip(some, followed, strict=True):
            assert not isinstance(rows, str), rows
            points[member.id] = _points(member.id, member.type, demand[member.id], rows, grain_s)
    return SeededFleet(described, inventory, points, demand)


def joined(demands: Iterable[list[np.ndarray]]) -> core.FleetDemands:
    """Demands of volumes, each in five columns, as the core takes them."""
    columns = list(zip(*demands, strict=True))
    duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes = (np.concatenate(column) for column in columns)
    lengths = [len(rows) for rows in columns[0]]
    return core.FleetDemands(
        duration_s, reads_per_s, writes_per_s, read_bytes, write_bytes, lengths, max_outstanding=MAX_OUTSTANDING
    )


def _volume(draw: np.random.Generator, days: int, grain_s: float) -> tuple[dict, list[np.ndarray]]:
    kind = draw.choice(["gp2", "gp3", "io1", "io2"], p=[0.45, 0.3, 0.15, 0.1])
    size = int(draw.choice([50, 100, 200, 334, 500, 1_000, 2_000, 4_000]))
    bought = {"gp2": max(100, 3 * size), "gp3": int(draw.choice([3_000, 3_000, 6_000, 12_000]))}
    iops = int(bought.get(kind, min(50 * size, int(draw.choice([2_000, 5_000, 10_000, 16_000])))))
    volume: dict = {"VolumeType": str(kind), "Size": size, "Iops": min(iops, 16_000) if kind != "io2" else iops}
    if kind == "gp3":
        volume["Iops"] = min(iops, max(3_000, 500 * size))
        volume["Throughput"] = int(draw.choice([125, 125, 250, 500]))
        volume["Throughput"] = min(volume["Throughput"], volume["Iops"] // 4)
    ceiling = max(volume["Iops"], 3_000) if kind in ("gp2", "gp3") else volume["Iops"]
    # Most volumes use a small part of what they have; one in twelve asks for more than that.
    use = float(np.exp(draw.normal(np.log(0.15), 0.9)))
    peak = min(1.6, use) * ceiling
    per_day = round(86_400 / grain_s)
    shape = SHAPES[str(draw.choice(list(SHAPES)))]
    hours = np.interp(np.arange(per_day) * grain_s / 3_600, np.arange(25), [*shape, shape[0]])
    level = np.exp(draw.normal(0, 0.1, days))
    weekend = np.where(np.arange(days) % 7 >= 5, draw.uniform(0.3, 1.0), 1.0)
    rates = peak * (level * weekend)[:, None] * hours[None, :] * np.exp(draw.normal(0, 0.08, (days, per_day)))
    if draw.random() < 0.2:  # bursts of a few periods, which averages of a day do not show
        for _ in range(int(draw.integers(1, 6))):
            day, at = int(draw.integers(0, days)), int(draw.integers(0, per_day - 4))
            rates[day, at : at + int(draw.integers(1, 4))] *= draw.uniform(2, 5)
    flat, share = rates.ravel(), draw.uniform(0.3, 0.9)
    read_bytes, write_bytes = float(draw.choice([8, 16, 32, 64])) * 1_024, float(draw.choice([16, 24, 48])) * 1_024
    count = len(flat)
    request = [
        np.full(count, grain_s),
        flat * share,
        flat * (1 - share),
        np.full(count, read_bytes),
        np.full(count, write_bytes),
    ]
    return volume, request


def _points(name: str, kind: str, ndarrays: list[np.ndarray], rows: core.Followed, grain_s: float) -> pl.DataFrame:
    """Returns the points that CloudWatch would show: what was delivered, not what was asked."""
    balance, throttled, queue = (
        np.frombuffer(column) for column in (rows["balance_percent"], rows["throttled_s"], rows["queue"])
    )
    total = ndarrays[1] + ndarrays[2]
    # Delivered in a period: what was asked in it, and what waits less at its end than at its start.
    delivered = total * grain_s - np.diff(queue, prepend=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.clip(np.nan_to_num(delivered / (total * grain_s), nan=1.0), 0.0, None)
    reads, writes = np.round(ndarrays[1] * grain_s * share), np.round(ndarrays[2] * grain_s * share)
    count = len(total)
    return pl.DataFrame(
        {
            "volume": [name] * count,
            "t_unix": BEGIN + np.arange(count) * grain_s,
            "period_s": np.full(count, grain_s),
            "read_ops": reads,
            "write_ops": writes,
            "read_bytes": np.round(reads * ndarrays[3]),
            "write_bytes": np.round(writes * ndarrays[4]),
            "queue": queue,
            "balance_percent": np.round(balance) if kind in ("gp2", "st1", "sc1") else np.full(count, np.nan),
            "iops_exceeded": (throttled > grain_s / 2).astype(float),
            "throughput_exceeded": np.zeros(count),
            "account": [""] * count,
        }
    )
