"""Ctrl-C, as a real SIGINT, in the middle of a command of a lab: nothing is left half-made, and the same
command finishes it."""

from __future__ import annotations

import os
import signal

import pytest
from lab_folders import Command, device_of
from waiting import patience, wait_until

from headrace.lab import Lab

INTERRUPTED = 130
# Bytes of a block of a snapshot.
BLOCK = 512 * 1024


@pytest.mark.parametrize("at", ["created", "attached", "measured"])
def test_an_interrupted_verify_leaves_no_volume(lab: Lab, headrace: Command, at):
    running = headrace.begun("lab", "verify", "--quick")

    def reached() -> bool:
        volumes = lab.volumes()
        if at == "created":
            return bool(volumes)
        if at == "attached":
            return any(volume["attachment"] for volume in volumes)
        return any(volume["attachment"] and any(lab.metrics(volume["id"], last=5)["rows"]) for volume in volumes)

    wait_until(reached, f"a volume that is {at}", pause_s=0.01)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=patience(60))
    assert running.returncode == INTERRUPTED and "nterrupted" in stderr and "Traceback" not in stderr, stderr
    assert lab.volumes() == [], "nothing is left of it"


def test_an_interrupted_initialize_goes_on_where_it_was(lab: Lab, headrace: Command):
    lab.create("gp3:1", name="source")
    with open(device_of(lab, "source"), "r+b", buffering=0) as file:
        for number in range(600):
            os.pwrite(file.fileno(), os.urandom(BLOCK), number * BLOCK)
        os.fsync(file.fileno())
    snapshot = lab.create_snapshot("source")["id"]
    wait_until(lambda: lab.describe_snapshot(snapshot)["state"] == "completed", "a snapshot", 60)
    lab.create(name="db", snapshot=snapshot, volume_type="gp3", size_gib=1)
    lab.attach("db", probe=False)
    before = lab.cold_blocks("db", limit=1)["remaining"]
    running = headrace.begun("volume", "initialize", "db", "--threads", "1")
    wait_until(lambda: lab.cold_blocks("db", limit=1)["remaining"] < before, "the first blocks", pause_s=0.01)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=patience(60))
    rest = lab.cold_blocks("db", limit=1)["remaining"]
    assert running.returncode == INTERRUPTED and 0 < rest < before, (running.returncode, rest, stderr)
    assert "goes on" in stderr, stderr
    assert f"{rest} blocks" in headrace("volume", "initialize", "db").stderr
    assert "0 blocks" in headrace("volume", "initialize", "db").stderr
