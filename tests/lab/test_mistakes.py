"""Ordinary mistakes with the commands of a lab: what is refused is refused with the reason and changes
nothing; what cannot be taken back is asked for.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lab_folders import Command, device_of

from headrace.cli import main as cli
from headrace.lab import Lab

# A command, the words that its refusal has, in the order in which one user makes these mistakes:
# lines without words succeed, and set the next mistake up. `{snapshot}` is the first snapshot.
MISTAKES = (
    ("volume create gp3:1 --name db --tag a=1", ""),
    ("volume create gp3:1 --name db", "has that name, and names are unique"),
    ("volume create gp3:99999999", "65536 GiB"),
    ("volume create gp3:1 --kms-key alias/k", "not encrypted"),
    ("volume create raid0:2xgp3:1 --name array", ""),
    ("volume copy db --name db", "has that name"),
    ("volume copy nothing", "There are: "),
    ("volume detach db", "not attached"),
    ("volume attach db --no-probe", ""),
    ("volume attach db --no-probe", "already attached"),
    ("volume attach array --name sdf", "is the attach name of db"),
    ("volume attach nothing", "neither the id nor the name"),
    ("volume delete db --yes", "only a volume that is available"),
    ("volume delete array", "--yes"),
    ("volume modify db", "a modification changes something"),
    ("volume modify db --type io9", "not a volume type"),
    ("volume modify db --size-gib 2", ""),
    ("volume modify db --size-gib 3", "every earlier modification must be completed"),
    ("volume fault db power-cut --in 1000", ""),
    ("volume fault db power-cut --in 1000", "has a power cut coming"),
    ("volume fault db error --member 3", "whole device"),
    ("volume clear-fault db nothing", "not a fault"),
    ("volume member array fail 7", "members 0 to 1"),
    ("volume member array replace 0", "no redundancy"),
    ("volume balance db --set 50%", "no credit balance"),
    ("volume record db stop", "none is being written"),
    ("snapshot create db db", "named twice"),
    ("snapshot create nothing", "neither the id nor the name"),
    ("snapshot create array --wait", ""),
    ("snapshot delete {snapshot}", "--yes"),
    ("snapshot lock {snapshot} --days 1", ""),
    ("snapshot delete {snapshot} --yes", "locked"),
    ("snapshot unlock {snapshot}", ""),
    ("snapshot unlock {snapshot}", "not locked"),
    ("snapshot recover {snapshot}", "Recycle Bin"),
    ("snapshot fast-restore {snapshot} --disable", "not enabled"),
    ("snapshot copy snap-0123456789abcdef0", "does not exist"),
    ("snapshot copy snap-0123456789abcdef0 --store file:///nowhere/at/all", "no such folder"),
    ("snapshot copy snap-0123456789abcdef0 --store {store}", "has no snapshot snap-0123456789abcdef0"),
    ("snapshot copy snap-0123456789abcdef0 --store ftp://x", "not the URL of an object store"),
    ("snapshot copy snap-0123456789abcdef0 --region mars-1", "not a region"),
    ("snapshot region mars-1", "not a region"),
    ("snapshot schedule nightly --every 1d", "names the tags"),
    ("snapshot schedule nightly --every 0s --tag a=1", "60 to"),
    ("snapshot schedule nightly --remove", "does not exist"),
    ("snapshot rule nothing --remove", "not a retention rule"),
    ("snapshot delete {snapshot} --yes", ""),
    ("snapshot delete {snapshot} --yes", "does not exist"),
    ("lab key disable alias/nothing", "not a key of this lab"),
    ("lab key create --alias k", ""),
    ("lab key create --alias k", "alias of another key"),
    ("lab key schedule-deletion alias/k", "--yes"),
    ("lab key schedule-deletion alias/k --yes --days 7", ""),
    ("lab key schedule-deletion alias/k --yes --days 7", "will be deleted"),
    ("lab key enable alias/k", "Cancel its deletion"),
    ("lab key default alias/k", "will be deleted"),
    ("lab key cancel-deletion alias/k", ""),
    ("lab key cancel-deletion alias/k", "nothing to cancel"),
    ("lab key export alias/k never.key", "disabled"),
    ("volume create gp3:1 --encrypted --kms-key alias/k", "disabled"),
    ("lab key alias nothing --remove", "not a key of this lab"),
    ("lab user remove nobody-there", "not a user"),
    ("lab up --metrics-port 0 --api-port 0", "already answers"),
    ("volume detach db", ""),
    ("volume detach db", "not attached"),
    ("volume delete db --yes", ""),
    ("volume delete db --yes", "neither the id nor the name"),
)


def call(line: str) -> tuple[int, str]:
    """The exit code of a command, and all that it says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main(line.split())
    return code, out.getvalue()


@pytest.fixture
def real_lab(labs, monkeypatch, tmp_path):
    """A lab whose modifications take their time, for commands of this process that ask nobody."""
    with labs.up(time_scale=1) as lab, open("/dev/null") as nobody:
        monkeypatch.setenv("HEADRACE_LAB", str(lab.place.data_dir))
        monkeypatch.setattr(sys, "stdin", nobody)
        monkeypatch.chdir(tmp_path)
        yield lab


def test_mistakes_are_refused_with_the_reason(real_lab: Lab):
    names: dict[str, str] = {"store": f"file://{real_lab.place.data_dir}/snapshots"}
    for line, words in MISTAKES:
        if "{snapshot}" in line and "snapshot" not in names:
            names["snapshot"] = real_lab.snapshots()["snapshots"][0]["id"]
        code, said = call(line.format(**names))
        if not words:
            assert code == 0, (line, said)
        else:
            assert code in (2, 3) and words in said, (line, code, said)
            assert "error: " in said and "bug in headrace" not in said, said
    assert not Path("/nowhere").exists(), "a mistyped store makes no folder"
    assert not Path("never.key").exists()


def test_what_is_in_use_is_not_taken_away(real_lab: Lab, tmp_path):
    real_lab.create("gp3:1", name="db")
    device = device_of(real_lab, "db")
    place = tmp_path / "mounted"
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
    subprocess.run(["mount", device, str(place)], check=True)
    try:
        (place / "file").write_text("kept")
        for line in ("volume detach db", "volume delete db --yes", "lab down"):
            code, said = call(line)
            assert code == 2 and ("mounted" in said or "only a volume that is available" in said), (line, said)
        assert (place / "file").read_text() == "kept"
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert call("volume detach db")[0] == 0


def test_the_volume_of_a_server_is_not_deleted_beside_it(real_lab: Lab):
    from headrace.servers.record import data_dir_of, servers_of
    from headrace.servers.volumes import TAG

    volume = real_lab.create("gp3:1", name="shop-data", tags={TAG: "shop"})["id"]
    folder = servers_of(data_dir_of(real_lab)) / "shop"
    folder.mkdir(parents=True)
    code, said = call(f"volume delete {volume} --yes")
    assert code == 2 and "is a volume of the server shop" in said and "headrace mysql destroy shop" in said
    # Of a server that is gone it is a volume like any other.
    shutil.rmtree(folder)
    assert call(f"volume delete {volume} --yes")[0] == 0


def test_keys_say_what_is_lost_with_them(real_lab: Lab):
    key = real_lab.create_key()["id"]
    real_lab.create("gp3:1", name="db", encrypted=True, kms_key=key)
    assert "nothing opens 1 volume" in call(f"lab key disable {key}")[1]
    said = call(f"lab key schedule-deletion {key} --yes")[1]
    assert "nobody can read 1 volume then" in said and "cancel-deletion" in said


def test_ctrl_c_ends_the_waiting_and_not_the_snapshot(real_lab: Lab):
    real_lab.create("gp3:1", name="db")
    device = device_of(real_lab, "db")
    with open(device, "r+b", buffering=0) as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    run = Command(Path(str(real_lab.place.data_dir)))
    waiting = subprocess.Popen(
        run.words("snapshot", "create", "db", "--wait"),
        env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not real_lab.snapshots()["snapshots"] and time.monotonic() < end:
        time.sleep(0.01)
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    [taken] = real_lab.snapshots()["snapshots"]
    # It may have been stored before the signal came.
    assert waiting.returncode == 130 or taken["state"] == "completed"
    while (state := real_lab.describe_snapshot(taken["id"])["state"]) == "pending":
        assert time.monotonic() < end, "it went on"
        time.sleep(0.05)
    assert state == "completed"
