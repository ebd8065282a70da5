"""The NVMe statistics page: golden bytes of both devices, refusals, and the command that asks for it."""

from __future__ import annotations

import csv
import errno
import os
import random
import struct

import pytest
from places import ROOT

from headrace.errors import CouldNotRun, InputError
from headrace.observe.live import nvme
from headrace.observe.live.nvme import read_device, read_page

EBS, STORE = 0x3C23B510, 0xEC2C0D7E


def layout() -> dict[str, tuple[int, int]]:
    """Offset and bytes of every field, from the table of facts."""
    with open(ROOT / "data/nvme_log_page_d0.csv", newline="") as file:
        return {row["field"]: (int(row["offset"]), int(row["bytes"])) for row in csv.DictReader(file)}


def page(magic: int, counters: list[int], reads: list[tuple], writes: list[tuple]) -> bytes:
    """A page written by the table of facts: independent of the reader's own offsets."""
    out, places = bytearray(4096), layout()
    struct.pack_into("<I", out, 0, magic)
    for name, value in zip(nvme.COUNTERS, counters, strict=True):
        struct.pack_into("<Q", out, places[name][0], value)
    for name, bins in (("read_io_latency_histogram", reads), ("write_io_latency_histogram", writes)):
        at = places[name][0]
        struct.pack_into("<Q", out, at, len(bins))
        for nth, (lower, upper, count) in enumerate(bins):
            struct.pack_into("<QQII", out, at + 8 + 24 * nth, lower, upper, count, 0)
    return bytes(out)


@pytest.mark.parametrize(("magic", "device"), [(EBS, "ebs"), (STORE, "instance-store")])
def test_golden_bytes(magic, device):
    bytes_ = bytearray(4096)
    # Little endian, by hand: 0x3C23B510 is 10 B5 23 3C, 0xEC2C0D7E is 7E 0D 2C EC.
    bytes_[:4] = bytes.fromhex("10b5233c" if device == "ebs" else "7e0d2cec")
    bytes_[8:16] = bytes.fromhex("0102000000000000")  # 0x0201 = 513 reads
    bytes_[56:64] = bytes.fromhex("40420f0000000000")  # 0xF4240 = 1,000,000 us over the volume's IOPS
    bytes_[88:96] = bytes.fromhex("2000000000000000")  # 32 requests wait
    bytes_[512:520] = bytes.fromhex("0200000000000000")  # 2 bins
    bytes_[520:544] = bytes.fromhex("000100000000000080010000000000000700000000000000")  # 256-384 us: 7
    bytes_[544:568] = bytes.fromhex("8001000000000000ffffffffffffffffffffffff00000000")  # 384 us-: 2^32-1
    page = read_page(bytes(bytes_))
    assert page.device == device
    assert page.counters["total_read_ops"] == 513 and page.counters["volume_queue_length"] == 32
    assert page.counters["ebs_volume_performance_exceeded_iops"] == 1_000_000
    assert page.histograms["read_io_latency_histogram"] == ((256, 384, 7), (384, 2**64 - 1, 2**32 - 1))
    assert page.histograms["write_io_latency_histogram"] == ()
    assert {"field": "read_io_latency_histogram", "from_us": 256, "until_us": 384, "value": 7} in page.list_rows()


def test_random_pages_come_back():
    draw = random.Random(1)
    for _ in range(50):
        counters = [draw.randrange(2**64) for _ in nvme.COUNTERS]
        bins = [[(n * 10, n * 10 + 10, draw.randrange(1, 2**32)) for n in range(draw.randrange(65))] for _ in range(2)]
        result = read_page(page(draw.choice([EBS, STORE]), counters, *bins))
        assert list(result.counters.values()) == counters
        assert [list(histogram) for histogram in result.histograms.values()] == bins


def test_the_reader_has_the_fields_of_the_table():
    places = layout()
    assert [places[name] for name in nvme.COUNTERS] == [(8 + 8 * nth, 8) for nth in range(len(nvme.COUNTERS))]
    for name, offset in nvme.HISTOGRAMS.items():
        assert places[name] == (offset, 8 + 24 * nvme.MOST_BINS)


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (b"", "a page of 0 bytes"),
        (page(EBS, [0] * 11, [], [])[:-1], "a page of 4,095 bytes"),
        (page(EBS, [0] * 11, [], []) + b"\0", "a page of 4,097 bytes"),
        (bytes(4096), "begins with 0x00000000"),
        (page(0x10B5233C, [0] * 11, [], []), "begins with 0x10b5233c"),  # big endian
    ],
)
def test_what_is_no_page_is_refused(bytes_, words):
    with pytest.raises(InputError) as refused:
        read_page(bytes_)
    assert words in refused.value.value and refused.value.source and refused.value.hint


def test_a_histogram_of_too_many_bins_is_refused():
    damaged = bytearray(page(EBS, [0] * 11, [], []))
    struct.pack_into("<Q", damaged, 2056, 65)
    with pytest.raises(InputError, match="write_io_latency_histogram of 65 bins"):
        read_page(bytes(damaged))


def answering(bytes_: bytes, seen: list, status: int = 0):
    """A driver that answers with these bytes at the address it is given."""
    import ctypes

    def ioctl(_descriptor: int, request: int, command: bytearray) -> int:
        seen.append((request, bytes(command)))
        ctypes.memmove(struct.unpack_from("<Q", command, 24)[0], bytes_, len(bytes_))
        return status

    return ioctl


def test_the_command_is_that_of_the_kernel():
    seen: list = []
    result = read_device(os.devnull, answering(page(EBS, list(range(11)), [(1, 2, 3)], []), seen))
    assert result.counters["volume_queue_length"] == 10
    ((request, command),) = seen
    # struct nvme_passthru_cmd has 72 bytes (0x48, also in the number of the request); opcode at 0,
    # nsid at 4, data_len at 36, cdw10 at 40: 1,024 words less one above page 0xD0.
    assert request == 0xC0484E41 and len(command) == request >> 16 & 0x3FFF == 72
    assert (command[0], struct.unpack_from("<I", command, 4)[0]) == (0x02, 1)
    assert struct.unpack_from("<II", command, 36) == (4096, 0x03FF00D0)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EACCES, CouldNotRun, "CAP_SYS_ADMIN"),
        (errno.EPERM, CouldNotRun, "CAP_SYS_ADMIN"),
        (errno.ENOTTY, InputError, "is not an NVMe device"),
        (errno.ENODEV, CouldNotRun, "No such device"),
    ],
)
def test_refusals_of_the_driver_have_words(number, kind, words):
    def ioctl(*_):
        raise OSError(number, os.strerror(number))

    with pytest.raises(kind) as refused:
        read_device(os.devnull, ioctl)
    assert words in refused.value.rule and refused.value.hint


def test_a_device_without_the_page_is_refused():
    with pytest.raises(InputError, match="NVMe status 0x2109"):
        read_device(os.devnull, answering(b"", [], 0x2109))
    with pytest.raises(InputError, match="begins with 0x00000000"):
        read_device(os.devnull, answering(bytes(4096), []))
    with pytest.raises(CouldNotRun, match="No such file"):
        read_device("/dev/nvme-that-is-not-there")
    # The real ioctl on a device that is no NVMe device.
    with pytest.raises(InputError, match="is not an NVMe device"):
        read_device(os.devnull)
