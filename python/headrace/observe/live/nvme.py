"""The NVMe statistics page of a volume (log page 0xD0): its bytes, and reading it from a device.

EBS keeps the page on instances of the Nitro System, and so do its instance stores; the lab keeps
one for each attached volume. It has counters since the volume was attached, among them the time
over each of four limits, and histograms of latency. Reading it from a device takes root, or the
capability CAP_SYS_ADMIN, which the kernel asks of vendor-specific log pages.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.errors import CouldNotRun, HeadraceError, InputError, Refusals

refuse_layout = Refusals("data/nvme_log_page_d0.csv")
refuse = Refusals("docs/guide/exports.md")
# First bytes of a page of EBS and of an instance store, and the size of both
# (data/nvme_log_page_d0.csv).
MAGICS = {0x3C23B510: "ebs", 0xEC2C0D7E: "instance-store"}
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
# Offsets of the histograms in the page, and the most bins of each (data/nvme_log_page_d0.csv).
HISTOGRAMS = {"read_io_latency_histogram": 512, "write_io_latency_histogram": 2056}
MOST_BINS = 64

# Get Log Page, and the page's number (data/nvme_log_page_d0.csv; NVMe base specification, figure
# "Opcodes for Admin Commands").
GET_LOG_PAGE, LOG_PAGE = 0x02, 0xD0
# NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h: _IOWR('N', 0x41, struct nvme_passthru_cmd).
ADMIN_COMMAND = 0xC0484E41
# struct nvme_passthru_cmd of linux/nvme_ioctl.h: opcode, flags, rsvd1, nsid, cdw2, cdw3, metadata,
# addr, metadata_len, data_len, cdw10 to cdw15, timeout_ms, result.
COMMAND = struct.Struct("<BBHIIIQQII6III")
NAMESPACE = 1  # EBS has one namespace a controller (nvme-ebs-volumes of the EBS user guide)
TIMEOUT_MS = 1_000  # ours: the page is asked for once a second
CAPABILITY = "root or CAP_SYS_ADMIN (Linux, drivers/nvme/host/ioctl.c), and the right to read the device"


@dataclass(frozen=True)
class NvmePage:
    """A statistics page. `device`: `ebs` or `instance-store`; counters by name, times in us; the
    bins of each histogram: from, until (us), count.
    """

    device: str
    counters: Mapping[str, int]
    histograms: Mapping[str, tuple[tuple[int, int, int], ...]]

    def to_document(self) -> dict[str, object]:
        """Returns the counters, and of histograms the bins with a count, by name."""
        counted = {name: [bin_ for bin_ in bins if bin_[2]] for name, bins in self.histograms.items()}
        return {"device": self.device, **self.counters, **counted}

    def list_rows(self) -> list[dict[str, str | int | None]]:
        """Returns the counters, and bins with a count, as rows: field, from_us, until_us, value."""
        listed = [
            {"field": name, "from_us": None, "until_us": None, "value": value} for name, value in self.counters.items()
        ]
        for name, bins in self.histograms.items():
            listed += [
                {"field": name, "from_us": low, "until_us": high, "value": count} for low, high, count in bins if count
            ]
        return listed


def read_page(page: bytes) -> NvmePage:
    """Returns the statistics page in these bytes. Raises InputError for other bytes."""
    hint = "Take it from a device, or from `headrace volume metrics VOL --nvme --binary`."
    if len(page) != PAGE_BYTES:
        rule = f"is not a statistics page: a page has {PAGE_BYTES:,} bytes"
        raise refuse_layout.input(f"a page of {len(page):,} bytes", rule, hint)
    (magic,) = struct.unpack_from("<I", page)
    if magic not in MAGICS:
        magics = " or ".join(f"{number:#010x} ({name})" for number, name in MAGICS.items())
        rule = f"a statistics page begins with {magics}"
        raise refuse_layout.input(f"a page that begins with {magic:#010x}", rule, hint)
    values = struct.unpack_from(f"<{len(COUNTERS)}Q", page, 8)
    return NvmePage(
        MAGICS[magic],
        dict(zip(COUNTERS, values, strict=True)),
        {name: _read_bins(page, name, offset) for name, offset in HISTOGRAMS.items()},
    )


def _read_bins(page: bytes, name: str, offset: int) -> tuple[tuple[int, int, int], ...]:
    """Returns the bins of a histogram of the page: from and until in microseconds, and the count
    of I/Os. Raises InputError if it claims more bins than exist."""
    (count,) = struct.unpack_from("<Q", page, offset)
    if count > MOST_BINS:
        hint = "The page is damaged, or of a newer layout: report it with the page."
        raise refuse_layout.input(f"{name} of {count:,} bins", f"a histogram has at most {MOST_BINS} bins", hint)
    bounds = struct.iter_unpack("<QQII", page[offset + 8 : offset + 8 + 24 * count])
    return tuple((lower, upper, ios) for lower, upper, ios, _ in bounds)


def read_device(device: str, ioctl: Callable[[int, int, bytearray], int] = fcntl.ioctl) -> NvmePage:
    """Reads the page of a device such as /dev/nvme1n1, with one admin command, and returns it. More
    than once a second, the volume answers late. Raises CouldNotRun, and InputError for a device
    without the page.
    """
    data = ctypes.create_string_buffer(PAGE_BYTES)
    command = build_command(ctypes.addressof(data))
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = ioctl(descriptor, ADMIN_COMMAND, command)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _make_page_error(device, error) from None
    if status:
        rule = f"has no statistics page: the device answers with NVMe status {status:#x}"
        hint = "EBS keeps it on instances of the Nitro System. Elsewhere the counters of the kernel are used."
        raise refuse_layout.input(device, rule, hint)
    try:
        return read_page(data.raw)
    except InputError as error:
        raise error.amend(
            value=f"{device}: {error.value}", hint="Is it a volume of EBS or an instance store?"
        ) from None


def build_command(address: int) -> bytearray:
    """Returns the admin command that reads the page into memory at `address`."""
    # cdw10: the number of the page, and above it the length in words of four bytes, less one.
    cdw10 = LOG_PAGE | (PAGE_BYTES // 4 - 1) << 16
    return bytearray(
        COMMAND.pack(
            GET_LOG_PAGE, 0, 0, NAMESPACE, 0, 0, 0, address, 0, PAGE_BYTES, cdw10, 0, 0, 0, 0, 0, TIMEOUT_MS, 0
        )
    )


def _make_page_error(device: str, error: OSError) -> HeadraceError:
    """Returns the error for a page that could not be read: InputError if the device has none, else
    CouldNotRun."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return refuse.run(device, f"the statistics page takes {CAPABILITY}", "Run as root, or do without the page.")
    if error.errno in (errno.ENOTTY, errno.EINVAL):
        hint = "Volumes of the lab have it: headrace volume metrics VOL --nvme."
        return InputError(device, "is not an NVMe device", "linux/nvme_ioctl.h", hint)
    return CouldNotRun(device, f"cannot be read: {error.strerror}", "operating system", "Is the volume still attached?")
