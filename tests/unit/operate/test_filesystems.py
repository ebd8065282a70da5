"""Filesystems and volumes that a server's files are on, in made-up /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import CouldNotRun, InputError
from headrace.operate.snapshots.freezing.filesystems import (
    find_disks,
    find_filesystems,
    find_volume_id,
    get_mount,
    list_mounts,
)


class Machine:
    """A folder with the files of /proc and /sys that are read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: list[str] = []
        (root / "proc/self").mkdir(parents=True)
        (root / "sys/class/block").mkdir(parents=True)
        (root / "sys/dev/block").mkdir(parents=True)
        self.numbers = 0
        self.mount("259:1", "/", "ext4", "/dev/nvme0n1p1")

    def mount(self, number: str, place: str, kind: str, source: str, options: str = "rw", inside: str = "/") -> None:
        place = place.replace("\\", "\\134").replace(" ", "\\040").replace("\n", "\\012")
        self.lines.append(f"1 2 {number} {inside} {place} rw,noatime shared:1 - {kind} {source} {options}")
        (self.root / "proc/self/mountinfo").write_text("\n".join(self.lines) + "\n")

    def disk(
        self, name: str, number: str = "", serial: str = "", inside: str = "", slaves: tuple[str, ...] = ()
    ) -> None:
        folder = self.root / "sys/devices" / inside / name
        (folder / "slaves").mkdir(parents=True)
        (self.root / "sys/class/block" / name).symlink_to(folder)
        if number:
            (self.root / "sys/dev/block" / number).symlink_to(folder)
        if serial:
            (folder / "device").mkdir()
            (folder / "device/serial").write_text(f"{serial}   \n")
        if inside:
            (folder / "partition").write_text("1\n")
        for slave in slaves:
            (folder / "slaves" / slave).mkdir()

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_a_partition_of_an_ebs_volume(machine):
    machine.disk("nvme1n1", "259:2", "vol0123456789abcdef0")
    machine.disk("nvme1n1p1", "259:3", inside="nvme1n1")
    machine.mount("259:3", "/var/lib/mysql", "xfs", "/dev/nvme1n1p1")
    [filesystem] = find_filesystems(["/var/lib/mysql/shop", "/var/lib/mysql"], machine.root)
    assert (filesystem.device, filesystem.place, filesystem.kind, filesystem.read_only) == (
        "nvme1n1p1",
        "/var/lib/mysql",
        "xfs",
        False,
    )
    result = find_disks("nvme1n1p1", machine.root)
    assert result.disks == ("nvme1n1",) and result.layout == ()
    assert find_volume_id("nvme1n1", machine.root) == "vol-0123456789abcdef0"


def test_raid_0_of_four_volumes_in_the_order_of_its_slots(machine):
    names = [f"nvme{number}n1" for number in range(1, 5)]
    slots = {"nvme1n1": 2, "nvme2n1": 0, "nvme3n1": 3, "nvme4n1": 1}
    for number, name in enumerate(names):
        machine.disk(name, serial=f"vol0000000000000000{number}")
    machine.disk("md0", "9:0", slaves=tuple(names))
    for name, text in (("level", "raid0"), ("raid_disks", "4"), ("chunk_size", "262144"), ("uuid", "6d-75")):
        machine.file(f"sys/devices/md0/md/{name}", f"{text}\n")
    for name, slot in slots.items():
        machine.file(f"sys/devices/md0/md/dev-{name}/slot", f"{slot}\n")
    result = find_disks("md0", machine.root)
    assert result.disks == ("nvme2n1", "nvme4n1", "nvme1n1", "nvme3n1")
    assert result.layout == ({"md": "md0", "level": "raid0", "members": "4", "chunk_bytes": "262144", "uuid": "6d-75"},)


def test_an_old_kernel_has_the_level_in_mdstat(machine):
    machine.disk("nvme1n1")
    machine.disk("md127", slaves=("nvme1n1",))
    machine.file("sys/devices/md127/md/raid_disks", "1\n")
    machine.file("proc/mdstat", "Personalities : [raid0]\nmd127 : active raid0 nvme1n1[0]\n      8 blocks\n")
    assert find_disks("md127", machine.root).layout[0]["level"] == "raid0"


def test_lvm_takes_every_disk_of_the_group(machine):
    """A snapshot of the disks of one logical volume alone would not come back as a group."""
    group, other = "g" * 32, "h" * 32
    for number in range(1, 5):
        machine.disk(f"nvme{number}n1")
    machine.disk("dm-0", "253:0", slaves=("nvme1n1", "nvme2n1"))
    machine.disk("dm-1", "253:1", slaves=("nvme3n1",))
    machine.disk("dm-2", "253:2", slaves=("nvme4n1",))
    for name, owner in (("dm-0", group), ("dm-1", group), ("dm-2", other)):
        machine.file(f"sys/devices/{name}/dm/uuid", f"LVM-{owner}{name.ljust(32, 'x')}\n")
        machine.file(f"sys/devices/{name}/dm/name", f"vg-{name}\n")
    result = find_disks("dm-0", machine.root)
    assert result.disks == ("nvme1n1", "nvme2n1", "nvme3n1")
    assert result.layout[0]["dm"] == "vg-dm-0"


def test_lvm_on_encrypted_devices_takes_every_disk_of_the_group(machine):
    """A group that was extended: a plain volume, and others under dm-crypt, of which dm-0 uses only
    the first; dm-3 is a part of a thin pool, and no device of its own."""
    group = "g" * 32
    for number in range(1, 4):
        machine.disk(f"nvme{number}n1")
    machine.disk("dm-1", slaves=("nvme2n1",))
    machine.disk("dm-2", slaves=("nvme3n1",))
    machine.disk("dm-3", slaves=("nvme1n1", "dm-1"))
    machine.disk("dm-0", slaves=("dm-3",))
    machine.disk("dm-4", slaves=("dm-2",))
    for name in ("dm-1", "dm-2"):
        machine.file(f"sys/devices/{name}/dm/uuid", f"CRYPT-LUKS2-{name.ljust(32, 'c')}-{name}\n")
    for name in ("dm-0", "dm-3", "dm-4"):
        machine.file(f"sys/devices/{name}/dm/uuid", f"LVM-{group}{name.ljust(32, 'x')}\n")
    assert sorted(find_disks("dm-0", machine.root).disks) == ["nvme1n1", "nvme2n1", "nvme3n1"]
    # Every device of the group is encrypted, and dm-4 uses one of them.
    (machine.root / "sys/devices/dm-3/slaves/nvme1n1").rmdir()
    assert sorted(find_disks("dm-4", machine.root).disks) == ["nvme2n1", "nvme3n1"]


def test_the_root_filesystem_and_a_bind_mount_of_it(machine):
    machine.disk("nvme0n1p1", "259:1")
    with pytest.raises(InputError, match="root filesystem"):
        find_filesystems(["/var/lib/mysql"], machine.root)
    machine.mount("259:1", "/srv/data", "ext4", "/dev/nvme0n1p1", inside="/old/data")
    with pytest.raises(InputError, match=r"bind mount at /srv/data"):
        find_filesystems(["/srv/data/mysql"], machine.root)


def test_bind_mounts_of_one_filesystem_are_one(machine):
    machine.disk("nvme1n1", "259:2")
    machine.mount("259:2", "/data", "xfs", "/dev/nvme1n1")
    machine.mount("259:2", "/var/lib/mysql", "xfs", "/dev/nvme1n1", inside="/mysql")
    assert len(find_filesystems(["/var/lib/mysql", "/data/log"], machine.root)) == 1


def test_names_with_spaces_quotes_newlines(machine):
    place = '/a "b"\\ c\nd'
    machine.disk("nvme1n1", "259:2")
    machine.mount("259:2", place, "xfs", "/dev/nvme1n1")
    [filesystem] = find_filesystems([f"{place}/mysql"], machine.root)
    assert filesystem.place == place


def test_read_only_for_everyone_and_not_frozen(machine):
    machine.disk("nvme1n1", "259:2")
    machine.mount("259:2", "/data", "xfs", "/dev/nvme1n1", options="ro,attr2")
    assert find_filesystems(["/data"], machine.root)[0].read_only


@pytest.mark.parametrize("kind", ["btrfs", "overlay", "tmpfs", "nfs4", "zfs"])
def test_what_cannot_be_frozen(machine, kind):
    machine.mount("0:45", "/data", kind, "something")
    with pytest.raises(InputError, match=f"is on {kind} "):
        find_filesystems(["/data"], machine.root)


def test_the_mount_on_top_and_a_name_that_only_begins_alike(machine):
    machine.mount("259:2", "/data", "xfs", "/dev/a")
    machine.mount("259:3", "/data", "xfs", "/dev/b")
    result = list_mounts(machine.root)
    assert get_mount("/data/x", result).number == "259:3"
    assert get_mount("/database", result).number == "259:1"
    with pytest.raises(CouldNotRun, match="on no filesystem"):
        get_mount("/data", [])


def test_a_name_of_udev(machine):
    machine.disk("loop3")
    folder = machine.root / "dev/disk/by-id"
    folder.mkdir(parents=True)
    (folder / "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0").symlink_to("/dev/loop3")
    (folder / "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1").symlink_to("/dev/loop4")
    assert find_volume_id("loop3", machine.root) == "vol-0123456789abcdef0"
    assert find_volume_id("loop4", machine.root) is None
    assert find_volume_id("loop5", machine.root) is None
