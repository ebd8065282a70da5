"""xfs on a volume: made, mounted without access times, taken down."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from headrace.errors import CouldNotRun
from headrace.lab.doctor import Machine, mounts

KIND = "xfs"
# A volume of 100 IOPS that writes its log back takes a while; a paused one much longer.
TIMEOUT_S = 300.0
BUSY_S = 20.0
LOOK_EVERY_S = 0.02


def tool(name: str, package: str) -> str:
    """Where a program is, sbin included. Raises CouldNotRun."""
    found = Machine().program(name)
    if found is None:
        raise CouldNotRun(name, "is not installed", "", f"apt-get install {package}")
    return found


def make(device: str) -> None:
    """An empty filesystem. `-K`: a fresh volume is empty, so nothing need be discarded."""
    _run([tool("mkfs.xfs", "xfsprogs"), "-q", "-f", "-K", device], f"mkfs.xfs on {device}")


def mount(device: str, place: Path) -> None:
    """Mounts it, without access times: they would be writes of their own. A log left by a crash is played back first. Raises CouldNotRun."""
    place.mkdir(parents=True, exist_ok=True)
    _run([tool("mount", "mount"), "-t", KIND, "-o", "noatime", device, str(place)], f"mounting {device} on {place}")


def grow(place: Path) -> None:
    """As large as its volume is by now; one that is so already stays. Raises CouldNotRun."""
    _run([tool("xfs_growfs", "xfsprogs"), "-d", str(place)], f"growing the filesystem on {place}")


def unmount(place: Path, lazily: bool = False) -> None:
    """Takes down what is mounted there, all of it, nothing being fine. `lazily`: also what stays busy. Raises CouldNotRun.

    A process that has ended may hold files a moment longer: the kernel closes those of io_uring behind it.
    """
    until = time.monotonic() + BUSY_S
    while (device := mounted_device(place)) is not None:
        try:
            _run([tool("umount", "mount"), str(place)], f"unmounting {place}", f"See who uses it: fuser -vm {place}")
        except CouldNotRun as error:
            if "busy" in error.rule and time.monotonic() < until:
                time.sleep(LOOK_EVERY_S)
                continue
            if not lazily:
                raise
            _run([tool("umount", "mount"), "-l", str(place)], f"unmounting {place}")
        _wait_gone(device)


def _wait_gone(device: str) -> None:
    """Until the kernel has let the filesystem go: while it lives, another device with it (that of the same volume, attached anew) is refused as a duplicate."""
    alive = Path("/sys/fs/xfs") / Path(device).name
    until = time.monotonic() + BUSY_S
    while alive.exists() and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)


def mounted_device(place: Path) -> str | None:
    """The device that is mounted there, the uppermost, by the kernel's list: looking at the place itself could wait for a broken device."""
    found = [entry.source for entry in mounts(Machine()) if entry.place == str(place)]
    return found[-1] if found else None


def free_bytes(place: Path) -> int:
    """Room for files there."""
    room = os.statvfs(place)
    return room.f_bavail * room.f_frsize


def _run(words: list[str], what: str, hint: str = "Look at the volume: headrace volume show, headrace volume faults.") -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise CouldNotRun(what, f"did not end within {TIMEOUT_S:g} s", words[0], hint) from None
    except OSError as error:
        raise CouldNotRun(what, f"could not be run: {error.strerror}", words[0], "") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[-300:] or f"exit code {done.returncode}"
        raise CouldNotRun(what, f"failed: {said}", words[0], hint)
