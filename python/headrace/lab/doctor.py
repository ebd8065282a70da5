"""Checks what a machine lacks for a lab, without changing it. fusermount is not needed: the daemon
mounts as root.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from headrace.base import settings
from headrace.base.mounts import Mount, parse_mounts
from headrace.base.processes import is_killed
from headrace.base.units import GIB
from headrace.errors import CouldNotRun, HeadraceError
from headrace.lab.client import Lab
from headrace.lab.launch import find_headraced
from headrace.lab.place import Place, find_place

# LOOP_CONFIGURE with direct I/O and a block size in one call: Linux 5.8, commit 3448914e8cc5 (May
# 2020).
OLDEST_KERNEL = (5, 8)
CAP_SYS_ADMIN = 21  # linux/capability.h
# A journal (compacted past 16 MiB, so twice that for a moment) and the metrics of a few volumes.
# Data of volumes comes on top.
FREE_NEEDED_BYTES = 256 << 20
# A guess: below it a data set that shows anything does not fit.
FREE_USEFUL_BYTES = 10 << 30
MOUNT_SOURCE = "headrace"  # by this name the daemon mounts
LOCK_NAME = "lock"
OK, MISSING, NOTE = "ok", "missing", "note"


@dataclass(frozen=True)
class Check:
    """The result of a check. `state`: ok, missing (a lab cannot run without it), note (it can).
    `finding`: what the machine has. `do`: what to do next, "" when ok.
    """

    what: str
    state: str
    finding: str
    do: str = ""


@dataclass
class Machine:
    """The machine to check: its root is `/`, or a tree that a test makes up."""

    root: Path = Path("/")
    user_id: int = field(default_factory=lambda: os.geteuid())
    path: str | None = None  # PATH; None: the environment's

    def read_proc_file(self, name: str) -> str:
        """Returns the content of a file of /proc or /sys; "" when it does not exist."""
        try:
            return (self.root / name).read_text(errors="replace")
        except OSError:
            return ""

    def locate_program(self, name: str) -> str | None:
        """Returns the path of a program, None if it is missing; sbin counts even when it is not in
        PATH, since the daemon's user is root."""
        path = self.path if self.path is not None else os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/sbin"
        return shutil.which(name, path=path)


def examine(
    data_dir: str | Path | None = None, socket: str | Path | None = None, machine: Machine | None = None
) -> list[Check]:
    """Returns the results of all checks, in the order in which a lab needs them. Raises InputError
    for an impossible path."""
    where, machine = find_place(data_dir, socket), machine or Machine()
    folder = where.data_dir
    return [
        *(check(machine) for check in (check_kernel, check_root, check_fuse, check_loop_control, check_loop_devices)),
        check_daemon_binary(),
        *([] if folder is None else [check_space(folder)]),
        *(check_program(machine, *tool) for tool in TOOLS),
        check_running(where),
        *find_leftovers(machine, where),
        *(Check(name, OK, f"{value}: {meaning}") for name, value, meaning in settings.describe_variables()),
    ]


def lacks(checks: list[Check]) -> bool:
    """Returns whether something is missing that a lab needs."""
    return any(check.state == MISSING for check in checks)


def check_kernel(machine: Machine) -> Check:
    """Checks for a Linux that has LOOP_CONFIGURE."""
    release = machine.read_proc_file("proc/sys/kernel/osrelease").strip()
    match = re.match(r"(\d+)\.(\d+)", release)
    needed = "Linux {}.{} or newer".format(*OLDEST_KERNEL)
    if match is None:
        return Check("kernel", MISSING, "no Linux", f"Use {needed}, in a virtual machine for example.")
    if (int(match[1]), int(match[2])) < OLDEST_KERNEL:
        return Check("kernel", MISSING, f"Linux {release}", f"Use {needed}: loop devices are made with LOOP_CONFIGURE.")
    return Check("kernel", OK, f"Linux {release}")


def check_root(machine: Machine) -> Check:
    """Checks for root with CAP_SYS_ADMIN, which mounts and loop devices need."""
    if machine.user_id != 0:
        return Check(
            "root", MISSING, f"user id {machine.user_id}", "Run the lab as root: sudo $(command -v headrace) lab up."
        )
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", machine.read_proc_file("proc/self/status"), re.MULTILINE)
    if match and not int(match[1], 16) >> CAP_SYS_ADMIN & 1:
        return Check(
            "root",
            MISSING,
            "root without CAP_SYS_ADMIN",
            "Start the container with --privileged, or --cap-add SYS_ADMIN.",
        )
    return Check("root", OK, "root")


def _check_device(machine: Machine, what: str, name: str, module: str) -> Check:
    """Checks that /dev/`name` can be opened. `what`: name of the check; `module`: the kernel's
    module that makes the device."""
    path = machine.root / "dev" / name
    if not os.path.exists(path):
        do = f"Load the module: modprobe {module}. In a container: --device /dev/{name}."
        return Check(what, MISSING, f"no /dev/{name}", do)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        do = f"Become root; in a container also allow the device: --device /dev/{name}."
        return Check(what, MISSING, f"/dev/{name} cannot be opened: {error.strerror}", do)
    return Check(what, OK, f"/dev/{name}")


def check_fuse(machine: Machine) -> Check:
    """Checks that /dev/fuse can be opened, and that the kernel has the filesystem."""
    return _check_device(machine, "FUSE", "fuse", "fuse")


def check_loop_control(machine: Machine) -> Check:
    """Checks that /dev/loop-control can be opened."""
    return _check_device(machine, "loop", "loop-control", "loop")


def check_loop_devices(machine: Machine) -> Check:
    """Checks for loop devices that are free or can be made, and show up in /dev."""
    devices = sorted(machine.root.glob("sys/block/loop[0-9]*"))
    busy = [device for device in devices if (device / "loop/backing_file").exists()]
    free = [device.name for device in devices if device not in busy]
    shown = [name for name in free if (machine.root / "dev" / name).exists()]
    usage = f"{len(busy)} of {len(devices)} in use"
    # A /dev that the kernel fills shows new devices by itself; a container's does not.
    if _grows(machine) or shown:
        return Check(
            "loop devices",
            OK,
            f"{usage}, more are made as needed" if _grows(machine) else f"{usage}, {len(shown)} free in /dev",
        )
    lack = f"{usage}, none free in /dev, and /dev is not the kernel's own (devtmpfs)"
    nodes = "Make nodes: for n in $(seq 0 63); do mknod -m 660 /dev/loop$n b 7 $n; done."
    return Check("loop devices", MISSING, lack, f"{nodes} In a container: --privileged -v /dev:/dev.")


def _grows(machine: Machine) -> bool:
    return any(entry.place == "/dev" and entry.kind == "devtmpfs" for entry in list_mounts(machine))


def check_daemon_binary() -> Check:
    """Checks that headraced is installed."""
    try:
        return Check("headraced", OK, str(find_headraced()))
    except HeadraceError as error:
        return Check("headraced", MISSING, f"{error.value}: {error.rule}", error.hint)


def check_space(folder: Path) -> Check:
    """Checks the free space for the data directory: volumes are sparse and grow as they are
    written."""
    existing = folder
    while not os.path.exists(existing) and existing != existing.parent:
        existing = existing.parent
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        return Check("space", MISSING, f"{existing}: {error.strerror}", "Choose another directory with --lab.")
    if not os.access(existing, os.W_OK):
        return Check(
            "space",
            MISSING,
            f"{existing} cannot be written to",
            "Become root, or choose another directory with --lab.",
        )
    room = f"{free / GIB:,.1f} GiB free for {folder}"
    if free < FREE_NEEDED_BYTES:
        return Check("space", MISSING, room, f"Free some: {FREE_NEEDED_BYTES >> 20} MiB are needed without any data.")
    if free < FREE_USEFUL_BYTES:
        return Check(
            "space",
            NOTE,
            room,
            "Volumes take what is written to them: choose a larger disk with --lab, or write less.",
        )
    return Check("space", OK, room)


# Program, what it is for, Debian package. A lab runs without them.
TOOLS = (("mkfs.xfs", "filesystems on volumes", "xfsprogs"), ("fio", "headrace lab verify and the examples", "fio"))


def check_program(machine: Machine, name: str, purpose: str, package: str) -> Check:
    """Checks for a program that most users want next to the lab."""
    path = machine.locate_program(name)
    if path is None:
        return Check(
            name,
            NOTE,
            "not found",
            f"For {purpose}: apt-get install {package} (or your system's package of that name).",
        )
    return Check(name, OK, path)


def check_running(where: Place) -> Check:
    """Checks whether a lab answers there now."""
    try:
        with Lab(where.data_dir, where.socket, timeout_s=5) as lab:
            return Check("lab", OK, f"runs as process {lab.get_pid()} at {where.socket}")
    except CouldNotRun as error:
        if not os.path.exists(where.socket):
            return Check("lab", OK, "not started")
        return Check("lab", NOTE, f"{where.socket}: {error.rule}", error.hint)


def list_mounts(machine: Machine) -> list[Mount]:
    """Returns the mounts of this process."""
    return parse_mounts(machine.read_proc_file("proc/self/mountinfo"))


def find_leftovers(machine: Machine, where: Place) -> list[Check]:
    """Returns a check for each mount and loop device of a lab whose daemon is gone or was killed;
    `lab up` on the same directory releases them."""
    checks = []
    folders = {
        Path(entry.place).parent
        for entry in list_mounts(machine)
        if entry.kind.startswith("fuse") and entry.source == MOUNT_SOURCE
    }
    daemons = {folder: find_daemon(machine, folder) for folder in sorted(folders) if can_tell(folder)}
    dead = {folder for folder, pid in daemons.items() if pid is None}
    for folder, pid in daemons.items():
        if pid is not None and is_killed(pid):
            finding = f"process {pid} was killed and has not ended: whatever looks at {folder / 'mnt'} waits for it"
            checks.append(Check("left over", NOTE, finding, f"headrace lab up --lab {folder} ends it and takes over."))
    for folder in sorted(dead):
        do = f"headrace lab up --lab {folder} takes it over; umount -l {folder / 'mnt'} only ends it."
        checks.append(Check("left over", NOTE, f"{folder / 'mnt'} is mounted, and its daemon is gone", do))
    if where.data_dir is not None and can_tell(where.data_dir) and not find_daemon(machine, where.data_dir):
        dead.add(where.data_dir)
    for device in sorted(machine.root.glob("sys/block/loop[0-9]*")):
        backing = (
            machine.read_proc_file(f"sys/block/{device.name}/loop/backing_file").strip().removesuffix(" (deleted)")
        )
        if any(backing.startswith(f"{folder}/mnt/") for folder in dead):
            do = f"Unmount what is on it (findmnt /dev/{device.name}), then losetup -d /dev/{device.name}; or start that lab again."
            checks.append(Check("left over", NOTE, f"/dev/{device.name} is on {backing}, whose daemon is gone", do))
    return checks


def can_tell(folder: Path) -> bool:
    """Returns whether this user may enter a data directory."""
    return os.access(folder, os.X_OK)


def find_daemon(machine: Machine, folder: Path) -> int | None:
    """Returns the id of the process that holds the lock of a data directory, None without one, from
    /proc/locks, since access to the mount could wait for a daemon that hangs."""
    try:
        lock = os.stat(folder / LOCK_NAME)
    except OSError:
        return None
    here = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    for line in machine.read_proc_file("proc/locks").splitlines():
        # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == here:
            return int(fields[4])
    return None
