"""Writes checksummed blocks with sequence numbers into a file and says on stdout, after each
fdatasync, up to which number all are safe. Run: FILE BLOCKS SEED [START].

With START, numbers go on after it, and each line has the moment too (ns of CLOCK_MONOTONIC).
"""

import hashlib
import os
import random
import sys
import time

BLOCK = 4096
GROUP = 24  # blocks between two flushes, at most (a guess: a few pages of a small transaction)


def block(number: int) -> bytes:
    head = number.to_bytes(8, "little")
    body = head * ((BLOCK - 32) // 8)
    return body + hashlib.sha256(body).digest()


def number_of(data: bytes) -> int | None:
    """The sequence number of a whole block; 0 for zeros (never written), None for a damaged one."""
    if data == bytes(BLOCK):
        return 0
    body, checksum = data[:-32], data[-32:]
    return int.from_bytes(body[:8], "little") if hashlib.sha256(body).digest() == checksum else None


def main() -> None:
    path, blocks, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    start = sys.argv[4:5]
    chance, number = random.Random(seed), int(start[0]) if start else 0
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    while True:
        for _ in range(chance.randint(1, GROUP)):
            number += 1
            os.pwrite(file, block(number), number % blocks * BLOCK)
        os.fdatasync(file)
        print(*([number, time.monotonic_ns()] if start else [number]), flush=True)


if __name__ == "__main__":
    main()
