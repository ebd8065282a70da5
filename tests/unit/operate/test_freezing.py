"""The watchdog as a program, without rights to freeze: what it says and when it ends. And the order
in which blocks are loaded."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.operate.snapshots import restore, sets, warming
from headrace.operate.snapshots.freezing import watchdog
from headrace.operate.snapshots.sets import StoredSnapshot

PATIENCE_S = 30.0


class Started:
    """The watchdog on files that cannot be frozen."""

    def __init__(self, files: list[int], deadline_s: float = 20.0) -> None:
        own, self.commands = os.pipe()
        self.answers, reference = os.pipe()
        words = [sys.executable, "-I", "-S", watchdog.__file__, str(deadline_s), str(own), str(reference)]
        self.process = subprocess.Popen([*words, *map(str, files)], pass_fds=(own, reference, *files))
        os.close(own)
        os.close(reference)

    def line(self) -> str:
        text = b""
        while not text.endswith(b"\n"):
            assert select.select([self.answers], [], [], PATIENCE_S)[0], text
            part = os.read(self.answers, 1)
            if not part:
                return ""
            text += part
        return text.decode().strip()

    def end(self) -> int:
        os.close(self.commands)
        code = self.process.wait(PATIENCE_S)
        os.close(self.answers)
        return code


@pytest.fixture
def pipe():
    pair = os.pipe()
    yield pair[0]
    for entry in pair:
        os.close(entry)


def test_it_ends_when_its_parent_does(pipe):
    started = Started([pipe])
    assert started.line() == "ready"
    assert started.end() == 0


def test_it_ignores_signals(pipe):
    started = Started([pipe])
    assert started.line() == "ready"
    for entry in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE):
        started.process.send_signal(entry)
    time.sleep(0.05)
    assert started.process.poll() is None
    assert started.end() == 0


def test_what_cannot_be_frozen_is_said(pipe):
    started = Started([pipe])
    assert started.line() == "ready"
    os.write(started.commands, b"freeze\n")
    number = int(started.line().removeprefix("refused 0 "))
    # A pipe is on no filesystem that can be frozen; without rights the kernel says so first.
    assert number in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM, errno.EINVAL)
    os.write(started.commands, b"thaw\n")
    assert started.line() == "done"
    assert started.end() == 0


def test_nothing_to_freeze():
    started = Started([])
    assert started.line() == "ready"
    os.write(started.commands, b"freeze\n")
    assert started.line() == "all"
    os.write(started.commands, b"thaw\n")
    assert started.line() == "done"
    assert started.end() == 0


def test_the_deadline(pipe):
    started = Started([pipe], deadline_s=0.05)
    assert started.line() == "ready"
    os.write(started.commands, b"freeze\n")
    lines = [started.line() for _ in range(3)]
    assert lines[0].startswith("refused") and lines[1:] == ["late", "done"]
    assert started.end() == 0


def test_order_of_need(tmp_path):
    """Logs and system first, then what was cached, then the rest; every block once."""
    data = tmp_path / "data"
    for name, blocks, space in (("ibdata1", 2, None), ("mysql/a.ibd", 1, 3), ("shop/big.ibd", 6, 7), ("shop/a.txt", 1, None)):  # fmt: skip
        path = data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = bytes(34) + (space or 0).to_bytes(4, "big")
        path.write_bytes(head.ljust(blocks * warming.BLOCK_BYTES, b"x"))
    (data / "tmp").mkdir()
    (data / "tmp/x").write_bytes(b"x")
    # Page 160 of 16 KiB is in block 5, pages 0 to 31 in block 0.
    order = list(warming.order_parts([data], "7,160\n7,161\n7,3\n9,1\nnonsense\n"))
    names = [(entry.path.name, entry.offset // warming.BLOCK_BYTES) for entry in order]
    assert names[:3] == [("ibdata1", 0), ("ibdata1", 1), ("a.ibd", 0)]
    assert names[3:5] == [("big.ibd", 5), ("big.ibd", 0)]
    assert sorted(names[5:]) == [("a.txt", 0), *[("big.ibd", block) for block in (1, 2, 3, 4)]]
    assert warming.warm(order, 1) == sum(entry.length for entry in order)


def test_a_file_that_is_gone_is_left_out(tmp_path):
    assert warming.warm([warming.FilePart(tmp_path / "gone", 0, 10)], 10) == 0


@pytest.mark.parametrize(("kind", "options"), [("xfs", "noatime,nouuid"), ("ext4", "noatime"), ("", "noatime")])
def test_next_steps_of_an_array_and_a_group(kind, options):
    layout = ({"md": "md0", "level": "raid0", "uuid": "a:b"}, {"dm": "vg-lv"})
    tags = {sets.SET: "set-a", sets.VOLUMES: "vol-0,vol-1", sets.FINISHED: "x"}
    tags |= sets.make_long_tags(sets.MEMBER, sets.as_json({"place": "/data's", "kind": kind, "layout": layout}))
    [chosen] = sets.build_sets(
        StoredSnapshot(f"snap-{number}", f"vol-{number}", 1, "completed", "2026-11-22T12:00:00+00:00", tags)
        for number in range(2)
    )
    service: Any = SimpleNamespace(create_volume=lambda snapshot, spec, name, tags: name)
    lines = restore.list_next_steps(restore.restore_volumes(service, chosen, "back"))
    assert lines == [
        "mdadm --assemble --uuid=a:b /dev/md0",
        "vgchange --activate y",
        f"mount -o {options} DEVICE '/data'\"'\"'s'",
    ]
