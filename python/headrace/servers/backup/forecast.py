"""Forecasts how long a copy takes, and which limit binds, before it begins.

The slowest of these decides: the throughput of the source's volume that its load does not use, the
instance, the target's volume with its credits, and the packer. Volumes are simulated.
"""

from __future__ import annotations

import functools
import os
import time
import zlib
from dataclasses import dataclass

from headrace.base import core
from headrace.base.mounts import find_mount, read_mount_table
from headrace.base.units import MIB, describe_span
from headrace.errors import HeadraceError
from headrace.lab import Lab
from headrace.servers.backup.targets.folder import FolderTarget, find_nearest
from headrace.servers.backup.targets.target import BackupTarget, format_size
from headrace.servers.copies.pipeline import Flow, make_packer
from headrace.servers.copies.source import CopySource

# Rows of the volume's metrics, one a second, from which the load's throughput is taken.
LOAD_ROWS = 10
# More than any volume takes (the largest gp3 of the catalog: 2,000 MiB/s): the volume is the limit.
OFFERED_MIB_S = 10_000.0
MOST_OUTSTANDING = 65_536  # the simulator's bound
SAMPLE_BYTES = 32 * MIB  # packed to measure the packer's speed: takes a fraction of a second


@dataclass(frozen=True)
class CopyForecast:
    """The duration of a copy, `seconds`. `binds`: the limit that decides. `seconds_by`: the
    duration under each limit alone, s, by the name of the limit."""

    seconds: float
    binds: str
    seconds_by: dict[str, float]

    def describe_duration(self, size: int) -> str:
        """Returns the duration for `size` bytes and the limit that decides, in words."""
        how_long = f"about {describe_span(round(self.seconds))}" if self.seconds >= 1.0 else "under 1 s"
        limit = self.binds if self.binds == "compression" else f"the {self.binds}"
        return f"{how_long} for {format_size(size)}; limited by {limit}"


def estimate_volume_seconds(
    storage: str, size: int, write: bool, start_percent: float | None, taken_mib_s: float = 0.0
) -> float:
    """Returns how long a volume takes to read (or `write`) `size` sequential bytes, s. `storage`:
    the volume's notation; `start_percent`: its credits, None for full or no credits; `taken_mib_s`:
    the throughput that its load takes meanwhile."""
    size_mib = max(1.0, size / MIB)
    offered = size_mib / OFFERED_MIB_S
    rest = size_mib * 2  # long enough for 1 MiB/s, the slowest volume
    rates = (OFFERED_MIB_S, 0.0)
    load = {
        "kind": "open",
        "duration_s": [offered, rest],
        "reads_per_s": [0.0, 0.0] if write else list(rates),
        "writes_per_s": list(rates) if write else [0.0, 0.0],
        "read_bytes": [0.0, 0.0] if write else [float(MIB)] * 2,
        "write_bytes": [float(MIB)] * 2 if write else [0.0, 0.0],
        "sequential_read_share": 1.0,
        "sequential_write_share": 1.0,
        "arrivals": "even",
        "max_outstanding": MOST_OUTSTANDING,
        "span_bytes": 0,
    }
    answer = core.simulate(storage, load, form="interval", interval_s=rest, start_balance_percent=start_percent)
    alone = answer["summary"]["recovered_at_s"] or offered
    rate = size_mib / alone
    return size_mib / max(rate - taken_mib_s, 0.01 * rate)


def forecast(
    source: CopySource,
    target: BackupTarget,
    size: int,
    pack: str,
    packed_share: float = 0.5,
    most_mib_s: float | None = None,
) -> CopyForecast:
    """Returns how long a copy of `size` bytes takes, and the limit that decides. `packed_share`:
    share of the bytes that remains after packing (a guess before the first backup); `most_mib_s`:
    the user's limit of the pace, None for none."""
    seconds_by: dict[str, float] = {}
    server = source.server
    if server is not None and server.volumes.data is not None:
        volume = server.lab.describe(server.volumes.data)
        start = volume["balance_percent"]
        seconds_by["source volume"] = estimate_volume_seconds(
            volume["spec"], size, False, start, _measure_load_mib_s(server.lab, volume["id"])
        )
        target_id = find_target_volume(server.lab, target)
        # The bytes pass the instance's limit twice if the target is one of its volumes.
        seconds_by |= _estimate_instance(server.lab, size, 1.0 if target_id is None else 2.0)
        if target_id is not None:
            volume = server.lab.describe(target_id)
            stored = int(size * packed_share) if pack != "none" else size
            seconds_by["target volume"] = estimate_volume_seconds(
                volume["spec"], stored, True, volume["balance_percent"]
            )
    if pack != "none":
        seconds_by["compression"] = size / MIB / measure_packer_mib_s(pack)
    if most_mib_s is not None:
        seconds_by["pace"] = size / MIB / most_mib_s
    binds = max(seconds_by, key=lambda name: seconds_by[name], default="nothing known")
    return CopyForecast(seconds_by.get(binds, 0.0), binds, seconds_by)


def _measure_load_mib_s(lab: Lab, volume: str) -> float:
    """Returns the throughput of a volume's load in the last LOAD_ROWS seconds, MiB/s."""
    metrics = lab.metrics(volume, resolution="second", last=LOAD_ROWS)
    columns = {name: index for index, name in enumerate(metrics["columns"])}
    rows = metrics["rows"]
    total = sum(float(row[columns[name]] or 0) for row in rows for name in ("read_bytes", "write_bytes"))
    return total / MIB / max(1, len(rows))


def _estimate_instance(lab: Lab, size: int, shares: float) -> dict[str, float]:
    """Returns the seconds, by "instance", in which the lab's instance transfers `size` bytes
    `shares` times; empty for a lab without an instance type or limit."""
    instance_type = lab.status()["instance_type"]
    if instance_type is None:
        return {}
    limits = core.instance(instance_type)
    bytes_s = limits["baseline_bytes_s"] or limits["max_bytes_s"]
    return {"instance": size * shares / bytes_s} if bytes_s else {}


def find_target_volume(lab: Lab, target: BackupTarget) -> str | None:
    """Returns the id of the lab's volume with a target's folder; None for another target."""
    if not isinstance(target, FolderTarget):
        return None
    mount = find_mount(os.path.realpath(find_nearest(target.folder) or "/"), read_mount_table())
    for volume in lab.volumes():
        if mount is not None and (volume.get("attachment") or {}).get("device") == mount.source:
            return volume["id"]
    return None


@functools.cache
def measure_packer_mib_s(pack: str) -> float:
    """Measures how fast this machine packs, MiB/s, with bytes that pack to about a half. It is
    measured once per program (`pack`); a program that fails counts as no limit."""
    noise = os.urandom(MIB)
    sample = b"".join(zlib.compress(noise[: 1 << 19], 0) + bytes(1 << 19) for _ in range(SAMPLE_BYTES // MIB))
    began = time.monotonic()
    try:
        with Flow(make_packer(pack)) as flow:
            flow.pass_through(sample)
    except HeadraceError:
        return OFFERED_MIB_S
    return len(sample) / MIB / max(1e-3, time.monotonic() - began)
