"""Ordinary mistakes with the commands of a lab: what is refused is refused with the reason and changes
nothing; what cannot be taken back is asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench_runs import keep, store_in
from lab_folders import Command, call, call_as_nobody, device_of
from places import ROOT
from reachable import make_reachable
from waiting import wait_until

from headrace.lab import Lab

# A command, the words that its refusal has, in the order in which one user makes these mistakes:
# lines without words succeed, and set the next mistake up. `{snapshot}` is the first snapshot.
MISTAKES = (
    ("volume create gp3:1 --name db --tag a=1", ""),
    ("volume create gp3:1 --name db", "has that name, and names are unique"),
    ("volume create gp3:99999999", "65536 GiB"),
    ("volume create gp3:1 --kms-key alias/k", "not encrypted"),
    ("volume create raid0:2xgp3:1 --name array", ""),
    ("volume create --copy-of db --name db", "has that name"),
    ("volume create --copy-of nothing", "There are: "),
    ("volume detach db", "not attached"),
    ("volume attach db --no-probe", ""),
    ("volume attach db --no-probe", "already attached"),
    ("volume attach array --name sdf", "is the attach name of db"),
    ("volume attach nothing", "neither the id nor the name"),
    ("volume delete db --yes", "only a volume that is available"),
    ("volume delete array", "--yes"),
    ("volume modify db --type io9", "not a volume type"),
    ("volume modify db --size-gib 2", ""),
    ("volume modify db --size-gib 3", "every earlier modification must be completed"),
    ("volume fault db power-cut --in 1000", ""),
    ("volume fault db power-cut --in 1000", "has a power cut coming"),
    ("volume fault db error --member 3", "whole device"),
    ("volume fault db --clear nothing", "not a fault"),
    ("volume fault array fail --member 7", "members 0 to 1"),
    ("volume fault array replace --member 0", "no redundancy"),
    ("volume balance db --set 50%", "no credit balance"),
    ("volume record db stop", "none is being written"),
    ("snapshot create db db", "named twice"),
    ("snapshot create nothing", "neither the id nor the name"),
    ("snapshot create array --wait", ""),
    ("snapshot delete {snapshot}", "--yes"),
    ("snapshot modify {snapshot} --lock-days 1", ""),
    ("snapshot delete {snapshot} --yes", "locked"),
    ("snapshot modify {snapshot} --unlock", ""),
    ("snapshot modify {snapshot} --unlock", "not locked"),
    ("snapshot recover {snapshot}", "Recycle Bin"),
    ("snapshot modify {snapshot} --no-fast-restore", "not enabled"),
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
    ("lab key state alias/nothing disabled", "not a key of this lab"),
    ("lab key create --alias k", ""),
    ("lab key create --alias k", "alias of another key"),
    ("lab key state alias/k pending-deletion", "--yes"),
    ("lab key state alias/k pending-deletion --yes --days 7", ""),
    ("lab key state alias/k pending-deletion --yes --days 7", "will be deleted"),
    ("lab key state alias/k enabled", "Cancel its deletion"),
    ("lab key default alias/k", "will be deleted"),
    ("lab key state alias/k disabled", ""),
    ("lab key export alias/k never.key", "disabled"),
    ("volume create gp3:1 --encrypted --kms-key alias/k", "disabled"),
    ("lab key alias nothing --remove", "not a key of this lab"),
    ("lab user nobody-there --remove", "not a user"),
    ("lab up --metrics-port 0 --api-port 0", "already answers"),
    ("volume detach db", ""),
    ("volume detach db", "not attached"),
    ("volume delete db --yes", ""),
    ("volume delete db --yes", "neither the id nor the name"),
    ("volume create gp3:1 --name db", ""),
    ("volume modify db --tag a", "a tag is KEY=VALUE"),
    ("volume modify db --tag a=1", ""),
    ("volume modify db --remove-tag b", "is not a tag of this volume"),
    ("volume modify db --tag c=2 --remove-tag a --remove-tag b", "is not a tag of this volume"),
    ("volume modify db --remove-tag a", ""),
    ("volume modify db --remove-tag a", "It has no tags"),
    ("volume modify nothing --tag a=1", "neither the id nor the name"),
    ("volume initialize db", "is not attached"),
    ("volume initialize nothing", "neither the id nor the name"),
    ("volume balance db --load /nowhere", "cannot be read"),
    ("volume balance nothing --set 50%", "neither the id nor the name"),
    ("volume modify array --size-gib 1", "a volume never shrinks"),
    ("volume modify nothing --size-gib 9", "neither the id nor the name"),
    ("volume detach nothing", "neither the id nor the name"),
    ("volume delete nothing --yes", "neither the id nor the name"),
    ("volume fault nothing power-cut --in 9", "neither the id nor the name"),
    ("volume fault db power-cut --in 9", "is not attached"),
    ("volume fault nothing --clear all", "neither the id nor the name"),
    ("volume create raid1:2xgp3:1 --name mirror", ""),
    ("volume fault mirror fail --member 0", ""),
    ("volume fault mirror fail --member 1", "has the last copy of data that was on member 0 too"),
    ("volume fault mirror fail --member 1 --yes", ""),
    ("volume fault nothing fail --member 0", "neither the id nor the name"),
    ("volume record nothing stop", "neither the id nor the name"),
    ("volume attach db --no-probe", ""),
    ("volume record db start --to db.rec", ""),
    ("volume record db start --to other.rec", "a record is being written"),
    ("volume record db stop", ""),
    ("volume detach db", ""),
    ("snapshot delete snap-0123456789abcdef0 --yes", "does not exist"),
    ("snapshot modify snap-0123456789abcdef0 --lock-days 1", "does not exist"),
    ("snapshot modify snap-0123456789abcdef0 --unlock", "does not exist"),
    ("snapshot modify snap-0123456789abcdef0 --fast-restore", "does not exist"),
    ("snapshot take nobody", "is not a server of this lab"),
    ("snapshot restore set-none --name x", "is not a snapshot set here"),
    ("snapshot restore latest --name x", "there is no whole set"),
    ("snapshot prune", "was not said"),
    ("snapshot prune --keep 1 --server nobody --yes", "has no snapshot sets"),
    ("snapshot take db --every 1s", "every 60 s at most"),
    ("snapshot take ../x --every 1h", "a schedule's name has"),
    ("snapshot take db --every 1h --into /nowhere", "is not a folder"),
    ("snapshot take db --every 1h --into .", ""),
    ("snapshot take db --every 1h --into .", "exists already"),
    ("snapshot rule r --days 7 --tag a=1", ""),
    ("snapshot rule r --remove", ""),
    ("snapshot rule r --remove", "not a retention rule"),
    ("snapshot schedule n --every 1d --keep 2 --tag a=1", ""),
    ("snapshot schedule n --remove", ""),
    ("snapshot schedule n --remove", "does not exist"),
    ("snapshot region us-west-2", "There is nothing to forget"),
    ("snapshot region us-west-2 ftp://x", "is not the URL of an object store"),
    ("mysql up x", "no storage was named for it"),
    ("mysql up x --storage gp3:1 --from /nowhere", "holds no saved data directory"),
    ("mysql up g --group 3", "which MySQL alone has"),
    ("mysql up g --group 1 --flavor mysql --storage gp3:2", "a group has 3 to 9 members"),
    ("mysql up g --group 3 --flavor mysql", "no storage was named for it"),
    ("mysql down nobody", "is not a server of this lab"),
    ("mysql down nobody --mount", "is not a server of this lab"),
    ("mysql destroy nobody --yes", "is not a server of this lab"),
    ("mysql down nobody --save saved", "is not a server of this lab"),
    ("mysql install oracle", "is not one of"),
    ("backup run nobody --to t", "is not a server of this lab"),
    ("backup stream nobody --to t", "is not a server of this lab"),
    ("backup restore latest --in mistyped --as x", "there is no such folder"),
    ("backup prove latest --in mistyped --storage gp3:1", "there is no such folder"),
    ("backup prune --in mistyped --keep 1 --yes", "there is no such folder"),
    ("replica up r --of nobody", "is not a server of this lab"),
    ("mysql down nobody --channel x", "is not a server of this lab"),
    ("failover run nobody --yes", "is not a server of this lab"),
    ("failover switchover nobody --yes", "is not a server of this lab"),
    ("failover watch nobody", "is not a server of this lab"),
    ("failover status --acknowledge nobody", "is not a server of this lab"),
    ("lab user bob --policy /nowhere", "cannot be read"),
    ("lab user bob --policy {policy}", ""),
    ("lab user bob --policy {policy}", "bob"),
    ("lab user bob --remove", "Add --yes"),
    ("lab user bob --remove --yes", ""),
    ("lab user bob --remove --yes", "is not a user of this lab"),
    ("lab key create --alias aws/ebs", "begin with alias/aws/"),
    ("lab key create --from /nowhere", "no such file"),
    ("lab key default nothing", "is not a key of this lab"),
    ("lab key state nothing enabled", "is not a key of this lab"),
    ("lab key export nothing never.key", "is not a key of this lab"),
    ("lab key state nothing pending-deletion --yes", "is not a key of this lab"),
    ("lab key alias k3 nothing", "is not a key of this lab"),
)

# Given twice: both succeed, the second says this and changes nothing.
TWICE = (
    ("lab init --no-profile", "kept the key pair"),
    ("lab key state alias/k disabled", "Disabled"),
    ("lab key state alias/k enabled", "Enabled"),
    ("lab key alias other alias/k", "alias/other"),
    ("lab key default alias/k", "key"),
    ("volume modify db --tag a=1", "tagged"),
    ("volume initialize db", "0 blocks"),
    ("volume fault db --clear all", "0 faults cleared"),
    ("volume fault array fail --member 0", "failed"),
    ("snapshot rule r --days 7 --tag a=1", "keeps deleted snapshots for 7 days"),
    ("snapshot schedule n --every 1d --keep 2 --tag a=1", "n"),
    ("snapshot region us-west-2 {store}", "us-west-2"),
    ("snapshot prune --keep 1 --yes", "set"),
)

# The socket of a lab belongs to root and to its --group: for anybody else, each of these is refused
# before anything is asked of the lab. The first ends it.
LAB_COMMANDS = (
    "lab down",
    "lab init --no-profile",
    "lab user bob --remove",
    "lab key create",
    "lab key export k f",
    "lab key state k enabled",
    "lab key state k disabled",
    "lab key state k pending-deletion --yes",
    "lab key state k disabled",
    "lab key alias a k",
    "lab key default k",
    "volume create gp3:1",
    "volume create --copy-of db",
    "volume attach db",
    "volume detach db",
    "volume delete db --yes",
    "volume modify db --size-gib 2",
    "volume modify db --tag a=1",
    "volume initialize db",
    "volume balance db --set 50%",
    "volume record db stop",
    "volume fault db power-cut --in 9",
    "volume fault db --clear all",
    "volume fault db fail --member 0",
    "snapshot take db",
    "snapshot restore latest --name x",
    "snapshot prune --keep 1 --yes",
    "snapshot create db",
    "snapshot delete snap-0123456789abcdef0 --yes",
    "snapshot copy snap-0123456789abcdef0",
    "snapshot modify snap-0123456789abcdef0 --lock-days 1",
    "snapshot modify snap-0123456789abcdef0 --unlock",
    "snapshot modify snap-0123456789abcdef0 --fast-restore",
    "snapshot recover snap-0123456789abcdef0",
    "snapshot rule r --days 7 --tag a=1",
    "snapshot region us-west-2",
    "snapshot schedule n --every 1d --keep 2 --tag a=1",
    "mysql up x",
    "mysql status g",
    "mysql down x",
    "mysql down x --mount",
    "mysql destroy x --yes",
    "mysql down x --save saved",
    "replica up r --of x",
    "mysql down r --channel x",
    "backup run x --to t",
    "backup stream x --to t",
    "backup prune --in . --keep 1 --yes",
    "backup restore latest --in . --as x --storage gp3:1",
    "backup prove latest --in . --storage gp3:1",
    "failover run x --yes",
    "failover switchover x --yes",
    "failover watch x",
    "failover status --acknowledge x",
    "failover rejoin x --yes",
)


DENIED = re.compile("may not use this lab|takes root|only root may|run it with sudo|Permission denied", re.IGNORECASE)


@pytest.fixture
def real_lab(labs, monkeypatch, tmp_path):
    """A lab whose modifications take their time, for commands of this process that ask nobody."""
    with labs.up(time_scale=1) as lab, open("/dev/null") as nobody:
        monkeypatch.setenv("HEADRACE_LAB", str(lab.place.data_dir))
        monkeypatch.setattr(sys, "stdin", nobody)
        monkeypatch.chdir(tmp_path)
        yield lab


def test_mistakes_are_refused_with_the_reason(real_lab: Lab):
    names: dict[str, str] = {
        "store": f"file://{real_lab.place.data_dir}/snapshots",
        "policy": str(sorted((ROOT / "examples/policies").glob("*.json"))[0]),
    }
    for line, words in MISTAKES:
        if "{snapshot}" in line and "snapshot" not in names:
            names["snapshot"] = real_lab.snapshots()["snapshots"][0]["id"]
        code, message = call(line.format(**names))
        if not words:
            assert code == 0, (line, message)
        else:
            assert code in (2, 3) and words in message, (line, code, message)
            assert "error: " in message and "bug in headrace" not in message, message
    assert not Path("/nowhere").exists(), "a mistyped store makes no folder"
    assert not Path("never.key").exists()


def test_what_is_given_twice_changes_nothing(real_lab: Lab, tmp_path):
    (tmp_path / "store").mkdir()
    real_lab.create("gp3:1", name="db")
    real_lab.create("raid10:4xgp3:1", name="array")
    real_lab.set_key_alias("alias/k", real_lab.create_key()["id"])
    assert call("volume attach db --no-probe")[0] == call("volume attach array --no-probe")[0] == 0
    for line, words in TWICE:
        typed = line.format(store=f"file://{tmp_path}/store")
        assert call(typed)[0] == 0, typed
        before = state(real_lab)
        code, message = call(typed)
        assert code == 0 and words in message, (typed, code, message)
        assert state(real_lab) == before, typed


def state(lab: Lab) -> list[object]:
    """Returns everything that the commands of TWICE could change: keys, volumes with tags and
    members, snapshots."""
    volumes = [
        (volume["id"], volume["state"], volume["tags"], [each["state"] for each in volume["members"]])
        for volume in lab.volumes()
    ]
    return [lab.keys()["keys"], volumes, lab.snapshots()["snapshots"]]


def test_without_the_privilege_every_command_of_a_lab_says_so(real_lab: Lab, tmp_path):
    """The commands run as the user `nobody`, in a child of this process. He may reach the folder
    that he works in, as after a test that made its own folder readable, and not list it."""
    make_reachable(tmp_path.parent)
    # The commands run as root first, and their answers do not matter: their modules are loaded,
    # which `nobody` may not be able to read.
    for line in LAB_COMMANDS[1:]:
        call(line)
    before = state(real_lab)
    wrong = [
        f"{line}: {code}: {message}"
        for line, code, message in call_as_nobody(LAB_COMMANDS)
        if code not in (2, 3) or not DENIED.search(message)
    ]
    assert not wrong, "\n".join(wrong)
    assert state(real_lab) == before


def test_a_run_of_another_user_is_not_removed(tmp_path, monkeypatch):
    """The store can be read by everybody, and written by its owner alone."""
    make_reachable(tmp_path)
    store = store_in(tmp_path)
    record = keep(store)
    monkeypatch.setenv("HEADRACE_RUNS", str(store.folder))
    call("bench list")
    [(_, code, message)] = call_as_nobody([f"bench remove {record.id} --yes"])
    assert code == 3 and "cannot be removed: Permission denied" in message, message
    assert (
        store.list_ids() == [record.id] and store.list_unfinished() == [] and store.open(record.id).read_series().height
    )


def test_a_proof_without_root_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_PROOFS", str(tmp_path / "proofs"))
    (tmp_path / "proofs").mkdir(mode=0o777)
    line = "prove sysbench-tpcc:warehouses=10,cache_gib=1,threads=4 --storage gp3:100 --minutes 2"
    call(line.replace("gp3:100", "gp9:1"))
    [(_, code, message)] = call_as_nobody([line])
    assert code == 3 and "this machine lacks" in message and "user id 65534" in message, message
    assert list((tmp_path / "proofs").iterdir()) == []


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
            code, message = call(line)
            assert code == 2 and ("mounted" in message or "only a volume that is available" in message), (line, message)
        assert (place / "file").read_text() == "kept"
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert call("volume detach db")[0] == 0


def test_the_volume_of_a_server_is_not_deleted_beside_it(real_lab: Lab):
    from headrace.servers.record import find_data_dir, get_servers_folder
    from headrace.servers.volumes import TAG

    volume = real_lab.create("gp3:1", name="shop-data", tags={TAG: "shop"})["id"]
    folder = get_servers_folder(find_data_dir(real_lab)) / "shop"
    folder.mkdir(parents=True)
    code, message = call(f"volume delete {volume} --yes")
    assert code == 2 and "is a volume of the server shop" in message and "headrace mysql destroy shop" in message
    # A volume of a server that is gone is a volume like any other.
    shutil.rmtree(folder)
    assert call(f"volume delete {volume} --yes")[0] == 0


def test_keys_say_what_is_lost_with_them(real_lab: Lab):
    key = real_lab.create_key()["id"]
    real_lab.create("gp3:1", name="db", encrypted=True, kms_key=key)
    assert "nothing opens 1 volume" in call(f"lab key state {key} disabled")[1]
    message = call(f"lab key state {key} pending-deletion --yes")[1]
    assert "nobody can read 1 volume then" in message and "disabled keeps it" in message


@pytest.mark.parametrize("wait_s", [0.1, 0.3, 0.5, 0.7])  # of the second that it takes
def test_an_interrupted_lab_up_is_given_again(labs, wait_s):
    folder = labs.folder()
    run = Command(folder)
    up = ("lab", "up", "--metrics-port", "0", "--api-port", "0")
    starting = subprocess.Popen(
        run.words(*up), env=run.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(wait_s)
    starting.send_signal(signal.SIGINT)
    _, stderr = starting.communicate(timeout=60)
    again = subprocess.run(run.words(*up), env=run.environment, capture_output=True, text=True, timeout=60)
    try:
        # The first may have come to its end, or the daemon that it started be the lab.
        assert again.returncode == 0 or "already answers" in again.stderr, (starting.returncode, stderr, again.stderr)
        run("lab", "status")
    finally:
        run("lab", "down")


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
    wait_until(lambda: real_lab.snapshots()["snapshots"], "the snapshot that is taken", pause_s=0.01)
    waiting.send_signal(signal.SIGINT)
    waiting.communicate(timeout=60)
    [taken] = real_lab.snapshots()["snapshots"]
    # It may have been stored before the signal came.
    assert waiting.returncode == 130 or taken["state"] == "completed"
    wait_until(lambda: real_lab.describe_snapshot(taken["id"])["state"] != "pending", "the snapshot that goes on", 60)
    assert real_lab.describe_snapshot(taken["id"])["state"] == "completed"


def test_a_load_does_not_overwrite_a_device_that_something_holds(lab: Lab, headrace: Command):
    lab.create("gp3:1", name="db")
    device = str(lab.attach("db")["attachment"]["device"])
    load = ("bench", "run", "fio", "--folder", device, "--storage", "gp3:1", "--rw", "randwrite", "--overwrite")
    # An array, a volume group, swap and a mounted partition hold it in this way.
    holder = os.open(device, os.O_RDWR | os.O_EXCL)
    try:
        assert "is in use" in headrace(*load, code=2).stderr
    finally:
        os.close(holder)
    with open(device, "rb") as file:
        assert not any(file.read(1 << 20)), "nothing was written"
