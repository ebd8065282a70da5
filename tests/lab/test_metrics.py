"""Metrics count what the devices did, up to the detach, and outlive their volume."""

from __future__ import annotations

import mmap
import os
import random
import time

import pytest
from lab_folders import device_of

from headrace.lab import Lab, LabRefused, metrics
from headrace.lab import stop_lab as lab_down

BLOCK = 16_384


def write(device: str, count: int) -> None:
    """Writes blocks of 16 KiB one by one, past the page cache: the device sees each of them."""
    memory = mmap.mmap(-1, BLOCK)
    descriptor = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        for number in range(count):
            assert os.pwrite(descriptor, memory, number * BLOCK) == BLOCK
    finally:
        os.close(descriptor)
        memory.close()


def counted(lab: Lab, volume: str, resolution: str, member: int | None = None) -> tuple[int, int]:
    """The sums of writes and of written bytes in a volume's rows."""
    frame = metrics.build_frame(lab.metrics(volume, resolution=resolution, member=member))
    return int(frame["writes"].sum()), int(frame["write_bytes"].sum())


@pytest.mark.parametrize("spec", ["gp3:1", "raid0:2xgp3:1"])
def test_a_detach_loses_no_count(lab: Lab, spec: str):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    members = [None] if spec == "gp3:1" else [None, 0, 1]
    volume = lab.create(spec)["id"]
    total = 0
    # Short jobs at any point of a second, and attachments that follow each other within one.
    for _ in range(5):
        count = draw.randrange(1, 800)
        attached = lab.attach(volume, probe=False, unpaced=len(members) == 1)["attachment"]
        assert attached is not None and attached["device"] is not None
        time.sleep(draw.choice([0, draw.random()]))
        write(attached["device"], count)
        lab.detach(volume)
        total += count
        for resolution in ("second", "minute"):
            assert counted(lab, volume, resolution) == (total, total * BLOCK)
    for resolution in ("second", "minute"):
        rows = [metrics.build_frame(lab.metrics(volume, resolution=resolution, member=member)) for member in members]
        assert all(frame["t_s"].is_unique().all() and frame["t_s"].is_sorted() for frame in rows)
        # The members of an array share its writes: chunks are larger than these, none is split.
        assert sum(int(frame["writes"].sum()) for frame in rows[1:]) == (total if len(members) > 1 else 0)


def test_metrics_outlive_their_volume(labs):
    folder = labs.folder()
    with labs.up(folder) as lab:
        volume = lab.create("gp3:1", name="db")["id"]
        write(device_of(lab, volume), 300)
        lab.detach(volume)
        unused = lab.create("gp3:1")["id"]
        for name in (volume, unused):
            lab.delete(name)
        assert counted(lab, volume, "minute") == (300, 300 * BLOCK)
        with pytest.raises(LabRefused):
            lab.metrics(unused)
        lab_down(lab)
    with labs.up(folder) as lab:
        assert counted(lab, volume, "minute") == (300, 300 * BLOCK)
        with pytest.raises(LabRefused, match="neither the id nor the name"):
            lab.describe(volume)
