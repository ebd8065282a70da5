"""A process that hangs as a killed daemon of a lab can: it holds the lock, the socket and the mount of
a data directory, and a thread of it waits for its own mount.

    python hung_daemon.py DATA_DIR

It prints "waits" once that thread waits. `kill -9` cannot end it then: the request is with a thread
that no longer runs, and /dev/fuse is closed only when all threads have ended
(fs/fuse/dev.c of Linux, request_wait_answer).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from pathlib import Path

# linux/fuse.h: the headers of a request and of an answer, and the answer to FUSE_INIT.
IN_HEADER, OUT_HEADER, INIT_OUT = "<IIQQIIII", "<IiQ", "<IIIIHHIIHHI28x"
FUSE_INIT = 26
VERSION = (7, 31)
LARGEST_BYTES = 1 << 17
MOUNT_FLAGS = 2 | 4 | 8  # MS_NOSUID, MS_NODEV, MS_NOEXEC of linux/mount.h


def mount(folder: Path) -> int:
    """Mounts on a folder; the descriptor of /dev/fuse that its requests come from."""
    channel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={channel},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"headrace", os.fsencode(folder), b"fuse", MOUNT_FLAGS, options):
        raise OSError(ctypes.get_errno(), "mount")
    return channel


def take_requests(channel: int) -> None:
    """Answers FUSE_INIT alone; says when a request after it waits."""
    while True:
        request = os.read(channel, LARGEST_BYTES + 4096)
        _, code, unique, *_ = struct.unpack_from(IN_HEADER, request)
        if code == FUSE_INIT:
            body = struct.pack(INIT_OUT, *VERSION, 0, 0, 16, 12, LARGEST_BYTES, 1, 0, 0, 0)
            os.write(channel, struct.pack(OUT_HEADER, 16 + len(body), 0, unique) + body)
        else:
            print("waits", flush=True)


def main(folder: Path) -> None:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.write(lock, f"{os.getpid()}\n".encode())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "lab.sock"))
    listener.listen()
    place = folder / "mnt"
    place.mkdir()
    threading.Thread(target=take_requests, args=(mount(place),), daemon=True).start()
    os.stat(place / "volume")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
