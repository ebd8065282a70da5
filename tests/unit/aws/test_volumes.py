"""EBS volumes in the notation of storages, and back."""

from __future__ import annotations

import pytest

from headrace.aws.volumes import parse_order, write_notation


@pytest.mark.parametrize(
    ("volume", "notation"),
    [
        (("gp3", 500, 6_000, 250), "gp3:500:6000:250"),
        (("gp3", 500, 6_000, None), "gp3:500:6000"),
        (("gp3", 500, None, 250), "gp3:500"),  # 250 would be IOPS there
        (("gp2", 100, 300, None), "gp2:100"),
        (("io1", 100, 4_000, None), "io1:100:4000"),
        (("st1", 500, None, 20), "st1:500"),
    ],
)
def test_a_volume_is_written_as_it_would_be_ordered(volume: tuple, notation: str):
    assert write_notation(*volume) == notation
    kind, size_gib, iops, _ = volume
    order = parse_order(notation)
    assert (order["VolumeType"], order["Size"]) == (kind, size_gib)
    assert order.get("Iops") == (iops if kind in ("gp3", "io1") else None)
