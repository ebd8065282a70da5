"""States and paths that no call of the lab makes: spent credits of an instance, a slow network."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# crates/daemon/src/journal/mod.rs: a header of 24 bytes; records of length, CRC-32C, sequence, synced
# and payload, the first four in 24 bytes.
HEADER_BYTES = 24
# Second part of a limit of the instance, in the journal: bursts live on it.
RESERVE = re.compile(rb'\},\{"level":\{"whole":(\d+),"billionths":\d+\}')


def empty_buckets(journal: Path) -> None:
    """Empties the instance's buckets in the journal of a lab that is down: to use them up takes
    half an hour. A number keeps its length, so that only the checksum changes."""
    data, at, emptied = bytearray(journal.read_bytes()), HEADER_BYTES, 0
    while at + HEADER_BYTES <= len(data) and (length := int.from_bytes(data[at : at + 4], "little")):
        ends = at + HEADER_BYTES + length
        record = data[at:ends]
        for match in RESERVE.finditer(bytes(record)):
            first, last = match.span(1)
            record[first:last] = b"0".rjust(last - first)
            emptied += 1
        record[4:8] = crc32c(bytes(record[:4] + record[8:])).to_bytes(4, "little")
        data[at:ends] = record
        at = ends
    assert emptied, "no balance of an instance in the journal"
    journal.write_bytes(data)


def crc32c(data: bytes) -> int:
    """Castagnoli's, as RFC 3720 has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@contextmanager
def delayed(path: str, delay_s: float) -> Iterator[str]:
    """A socket in front of another, whose bytes come later."""
    front = f"/tmp/d{random.randrange(10**9)}.sock"
    loop = asyncio.new_event_loop()

    async def forward(reader, writer) -> None:
        with contextlib.suppress(Exception):
            while data := await reader.read(65_536):
                await asyncio.sleep(delay_s)
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(Exception):
            writer.close()

    async def relay(reader, writer) -> None:
        there, back = await asyncio.open_unix_connection(path)
        await asyncio.gather(forward(reader, back), forward(there, writer))

    async def serve() -> None:
        await asyncio.start_unix_server(relay, front)

    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        for task in asyncio.all_tasks(loop):
            loop.call_soon_threadsafe(task.cancel)
        time.sleep(0.1)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        Path(front).unlink(missing_ok=True)
