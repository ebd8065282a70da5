"""Reads the NVMe statistics page of a volume, as the tools that read it from a device do."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from headrace.errors import InputError

# First bytes of a page of EBS, and its size (data/nvme_log_page_d0.csv).
MAGIC = 0x3C23B510
PAGE_BYTES = 4096
# The counters behind the magic number, each a u64 from byte 8 on (data/nvme_log_page_d0.csv).
COUNTERS = (
    "total_read_ops",
    "total_write_ops",
    "total_read_bytes",
    "total_write_bytes",
    "total_read_time",
    "total_write_time",
    "ebs_volume_performance_exceeded_iops",
    "ebs_volume_performance_exceeded_tp",
    "ec2_instance_ebs_performance_exceeded_iops",
    "ec2_instance_ebs_performance_exceeded_tp",
    "volume_queue_length",
)
# Where the histograms begin, and how many bins each has room for (data/nvme_log_page_d0.csv).
HISTOGRAMS = {"read_io_latency_histogram": 512, "write_io_latency_histogram": 2056}
MOST_BINS = 64


def read_page(page: bytes) -> dict[str, Any]:
    """The counters by name; of a histogram its bins with a count: from, until (us), count."""
    if len(page) != PAGE_BYTES or struct.unpack_from("<I", page)[0] != MAGIC:
        raise InputError(
            f"a page of {len(page)} bytes",
            f"is not a statistics page of EBS: {PAGE_BYTES} bytes that begin with {MAGIC:#x}",
            "data/nvme_log_page_d0.csv",
            "Take it from `headrace volume nvme-statistics --binary`.",
        )
    found: dict[str, Any] = dict(zip(COUNTERS, struct.unpack_from(f"<{len(COUNTERS)}Q", page, 8), strict=True))
    for name, offset in HISTOGRAMS.items():
        (bins,) = struct.unpack_from("<Q", page, offset)
        bounds = struct.iter_unpack("<QQII", page[offset + 8 : offset + 8 + 24 * min(bins, MOST_BINS)])
        found[name] = [(lower, upper, count) for lower, upper, count, _ in bounds if count]
    return found


def rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Counters and bins as rows: field, from_us, until_us, value."""
    listed = [{"field": name, "from_us": None, "until_us": None, "value": found[name]} for name in COUNTERS]
    for name in HISTOGRAMS:
        listed += [
            {"field": name, "from_us": low, "until_us": high, "value": count} for low, high, count in found[name]
        ]
    return listed
