"""patch.sh and rollback.sh run for real, on a stand-in for the AWS CLI; tests/api runs them on a lab with the CLI itself."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.operate.fleet.applying.changes import VolumeChange, VolumeSetting, get_modification_limit, rank_changes
from headrace.operate.fleet.applying.scripts import build_patch_scripts

MINE = "111111111111"
GP2 = VolumeSetting("gp2", 500, None, None)
GP3 = VolumeSetting("gp3", 500, 3000, 125)
FAST = VolumeSetting("gp3", 500, 6000, 250)
IO1 = VolumeSetting("io1", 500, 9000, None)


def change(volume: str, before: VolumeSetting = GP2, after: VolumeSetting = GP3, **more) -> VolumeChange:
    given = {"device": volume, "usd_month": -10.0} | more
    return VolumeChange(volume, "", "us-east-1", MINE, before=before, after=after, **given)


class Fleet:
    """Volumes of the stand-in, and the scripts beside them."""

    def __init__(self, folder: Path, changes: list[VolumeChange], **settings) -> None:
        self.folder, self.changes = folder, changes
        self.file = folder / "aws.json"
        volumes = {change.volume_id: row(change.before) for change in changes}
        self.set({"volumes": volumes, "modifications": {}, "calls": [], "account": MINE})
        [scripts] = build_patch_scripts(changes, **settings)
        for name, text in (("patch", scripts.patch), ("rollback", scripts.rollback)):
            (folder / f"{name}.sh").write_text(text)
        stub = folder / "aws"
        stub.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -E {Path(__file__).with_name("aws_stub.py")} "$@"\n'
        )
        stub.chmod(0o755)
        self.environment = os.environ | {"AWS": str(stub), "AWS_STUB": str(self.file), "POLL_S": "0", "SETTLE_S": "5"}

    @property
    def state(self) -> dict:
        return json.loads(self.file.read_text())

    def set(self, state: dict) -> None:
        self.file.write_text(json.dumps(state))

    def update(self, **parts) -> None:
        self.set(self.state | parts)

    def words(self, name: str, *options: str) -> list[str]:
        return ["bash", str(self.folder / f"{name}.sh"), *options]

    def run(self, name: str = "patch", *options: str, code: int = 0) -> str:
        words = self.words(name, *options)
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def list_volumes(self) -> dict[str, list]:
        return {key: volume[:4] for key, volume in self.state["volumes"].items()}


def row(setting: VolumeSetting) -> list:
    """Returns a volume as EC2 shows it: of gp2 the baseline too."""
    return [setting.type, setting.size_gib, setting.iops or 1500, setting.mib_s, "in-use"]


def test_the_scripts_are_valid_bash(tmp_path):
    fleet = Fleet(tmp_path, [change("vol-1")])
    for name in ("patch", "rollback"):
        subprocess.run(["bash", "-n", str(tmp_path / f"{name}.sh")], check=True, timeout=20)
    if checker := shutil.which("shellcheck"):
        subprocess.run([checker, "-S", "warning", str(tmp_path / "patch.sh")], check=True, timeout=60)
    assert "Usage" in fleet.run("patch", "--help") and not fleet.state["calls"]
    for wrong in (["--fast"], ["--max-per-hour", "0"], ["--max-per-hour"], ["--until", "soon"]):
        assert "error:" in fleet.run("patch", *wrong, code=2)


def test_a_modification_that_ec2_shows_later_is_waited_for(tmp_path):
    """EC2's answers are eventually consistent: straight after the call there may be none."""
    fleet = Fleet(tmp_path, [change("vol-1")])
    fleet.update(late=3)
    assert "1 changed" in fleet.run() and fleet.list_volumes() == {"vol-1": ["gp3", 500, 3000, 125]}
    (tmp_path / "never").mkdir()
    never = Fleet(tmp_path / "never", [change("vol-1")])
    never.update(late=10**9)
    never.environment["SETTLE_S"] = "1"
    assert "is in state none" in never.run(code=3)


def test_as_planned_once_and_back(tmp_path):
    changes = [
        change("vol-1", usd_month=-5),
        change("vol-2", FAST, GP3, usd_month=-50),
        change("vol-3", IO1, replace(FAST, size_gib=600), usd_month=-20),
    ]
    fleet = Fleet(tmp_path, rank_changes(changes))
    assert "Nothing was changed" in fleet.run("patch", "--dry-run") and not fleet.state["calls"]
    assert not (tmp_path / "patch.log").exists()
    fleet.run()
    assert [call[2] for call in fleet.state["calls"]] == ["vol-2", "vol-3", "vol-1"]
    assert fleet.list_volumes() == {
        "vol-1": ["gp3", 500, 3000, 125],
        "vol-2": ["gp3", 500, 3000, 125],
        "vol-3": ["gp3", 600, 6000, 250],
    }
    assert "0 changed, 3 as planned already" in fleet.run() and len(fleet.state["calls"]) == 3
    fleet.run("rollback")
    assert [entry[0] for entry in fleet.list_volumes().values()].count("gp3") == 1
    assert fleet.list_volumes()["vol-2"] == ["gp3", 500, 6000, 250] and fleet.list_volumes()["vol-3"] == [
        "io1",
        600,
        9000,
        None,
    ]
    assert fleet.list_volumes()["vol-1"][:2] == ["gp2", 500]
    assert "0 changed, 3 as planned already" in fleet.run("rollback")


def test_a_dry_run_prints_commands_that_can_be_pasted(tmp_path):
    fleet = Fleet(tmp_path, [change("vol-$(touch x); rm -rf '", FAST, GP3)])
    line = next(line for line in fleet.run("patch", "--dry-run").splitlines() if line.startswith("aws ec2"))
    assert shlex.split(line)[:6] == [
        "aws",
        "ec2",
        "modify-volume",
        "--volume-id",
        "vol-$(touch x); rm -rf '",
        "--volume-type",
    ]
    fleet.run()
    assert fleet.list_volumes()["vol-$(touch x); rm -rf '"] == ["gp3", 500, 3000, 125] and not (tmp_path / "x").exists()


def starts(*hours: float) -> tuple[datetime, ...]:
    return tuple(datetime.now(UTC) - timedelta(hours=hour) for hour in hours)


# Troubles of vol-1 when the script runs, and the message; vol-2 is changed all the same.
REFUSED = {
    "optimizing another change": ({"modifications": {"vol-1": {"state": "optimizing", "start": "2026-11-20T00:00:00Z", "target": ["io1", 500, 9000, None], "stuck": 1}}}, "it is optimizing another change: io1 500 GiB 9000 IOPS"),
    "changed since": ({"volumes": {"vol-1": ["gp3", 500, 4000, 125, "in-use"], "vol-2": row(GP2)}}, "it is gp3 500 GiB 4000 IOPS 125 MiB/s now, and the plan was made for gp2 500 GiB"),
    "gone": ({"volumes": {"vol-2": row(GP2)}}, "it is in state gone"),
    "being deleted": ({"volumes": {"vol-1": [*row(GP2)[:4], "deleting"], "vol-2": row(GP2)}}, "it is in state deleting"),
    "EC2 says too often": ({"fail": {"vol-1": "VolumeModificationRateExceeded"}}, "EC2 takes no modification of it now"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_the_others(tmp_path, case):
    parts, message = REFUSED[case]
    fleet = Fleet(tmp_path, [change("vol-1"), change("vol-2")])
    fleet.update(**parts)
    result = fleet.run(code=1)
    assert f"vol-1: REFUSED, {message}" in result and "1 changed, 0 as planned already, 1 refused, of 2" in result
    assert fleet.list_volumes()["vol-2"] == ["gp3", 500, 3000, 125]


@pytest.mark.parametrize("hours", [(1, 2, 3, 23), (1, 2, 3, 25), (30, 40, 50, 60)])
def test_the_fifth_modification_within_24_hours(tmp_path, hours):
    """The plan knows four starts; those within 24 hours count, and four are what EC2 takes."""
    assert get_modification_limit(None) == (4, 24) and get_modification_limit("2024-01-01") == (1, 6)
    fleet = Fleet(tmp_path, [change("vol-1", modification_starts=starts(*hours))])
    within = sum(hour < 24 for hour in hours)
    result = fleet.run(code=int(within >= 4))
    assert ("REFUSED, it was modified 4 times within 24 hours" in result) == (within >= 4)
    assert len(fleet.state["calls"]) == int(within < 4)


def test_starts_of_plan_log_and_ec2_count_together_and_once(tmp_path):
    """Back and forth four times; the fifth is refused, also where EC2 tells no start, from the log alone."""
    fleet = Fleet(tmp_path, [change("vol-1", FAST, GP3, modification_starts=starts(20))])
    shared = ["--log", str(tmp_path / "both.log")]
    for name, moment in zip(("patch", "rollback", "patch"), starts(20, 10, 5), strict=True):
        fleet.update(now=moment.isoformat(timespec="seconds"))
        fleet.run(name, *shared)
    fleet.update(now=starts(3)[0].isoformat(timespec="seconds"))
    fleet.run("rollback", *shared)
    assert "REFUSED, it was modified 4 times" in fleet.run("patch", *shared, code=1)
    fleet.update(modifications={})
    assert "REFUSED, it was modified 4 times" in fleet.run("patch", *shared, code=1)
    assert len(fleet.state["calls"]) == 4


FAILS = {
    "no permission": {"fail": {"vol-2": "UnauthorizedOperation"}},
    "the modification fails": {"breaks": ["vol-2"]},
    "another account": {"account": "999999999999"},
}


@pytest.mark.parametrize("case", FAILS)
def test_the_first_failure_stops_it(tmp_path, case):
    fleet = Fleet(tmp_path, [change(f"vol-{number}") for number in (1, 2, 3)])
    fleet.update(**FAILS[case])
    assert "Nothing after it was tried" in fleet.run(code=3)
    assert fleet.list_volumes()["vol-3"][0] == "gp2"
    assert fleet.list_volumes()["vol-1"][0] == ("gp2" if case == "another account" else "gp3")
    fleet.update(fail={}, breaks=[], account=MINE)
    fleet.run()
    assert {entry[0] for entry in fleet.list_volumes().values()} == {"gp3"}


@pytest.mark.parametrize("before", ["none", "of yesterday", "to the same"])
def test_ec2_may_show_a_change_late(tmp_path, before):
    """EC2's API is eventually consistent: straight after modify-volume it may show none, or the one
    before."""
    fleet = Fleet(tmp_path, [change("vol-1"), change("vol-2")])
    target = ["gp3", 500, 3000, 125] if before == "to the same" else ["io1", 500, 9000, None]
    older = {"state": "completed", "start": starts(30)[0].isoformat(), "target": target}
    fleet.update(late=3, modifications={} if before == "none" else {"vol-1": older})
    assert "2 changed, 0 as planned already, 0 refused, of 2" in fleet.run()
    assert {entry[0] for entry in fleet.list_volumes().values()} == {"gp3"} and len(fleet.state["calls"]) == 2


def test_a_pace_is_kept_over_runs(tmp_path):
    """Two an hour: of five, two are begun and the script waits; stopped and started again it waits on, until the hour of its log
    is over."""
    fleet = Fleet(tmp_path, [change(f"vol-{number}") for number in range(5)])
    log = tmp_path / "patch.log"
    for begun, hour_is_over in ((2, False), (2, True), (4, True)):
        process = subprocess.Popen(
            fleet.words("patch", "--max-per-hour", "2"), env=fleet.environment, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        assert any(line.startswith("Waiting: 2 changes were begun") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert "Run it again to go on" in process.communicate(timeout=30)[1] and process.returncode == 130
        assert len(fleet.state["calls"]) == begun
        if hour_is_over:
            lines = [line.split("\t", 1) for line in log.read_text().splitlines()]
            log.write_text("".join(f"{int(at) - 3601}\t{rest}\n" for at, rest in lines))
    assert "1 changed, 4 as planned already" in fleet.run("patch", "--max-per-hour", "2")


def test_killed_anywhere_it_ends_as_planned(tmp_path):
    """kill -9 at random moments and started again, until it is through: no volume is modified twice."""
    chance = random.Random(5)
    fleet = Fleet(tmp_path, [change(f"vol-{number}") for number in range(4)])
    for _ in range(int(os.environ.get("PATCH_KILLS", "6"))):
        process = subprocess.Popen(
            fleet.words("patch"), env=fleet.environment, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(chance.uniform(0.05, 0.5))
        process.kill()
        process.wait()
        # The one call that was under way ends; the stand-in writes its file whole or not.
        time.sleep(0.1)
    fleet.run()
    assert fleet.list_volumes() == {f"vol-{number}": ["gp3", 500, 3000, 125] for number in range(4)}
    assert sorted(call[2] for call in fleet.state["calls"]) == [f"vol-{number}" for number in range(4)]


def test_two_at_once_are_one(tmp_path):
    fleet = Fleet(tmp_path, [change("vol-1")])
    (tmp_path / "patch.log.pid").write_text(str(os.getpid()))
    assert "works on these changes already" in fleet.run(code=3)
    (tmp_path / "patch.log.pid").write_text("999999999")  # of a run that was killed
    fleet.run()


def test_accounts_have_scripts_of_their_own():
    other = replace(change("vol-2"), account="222222222222")
    scripts = build_patch_scripts([change("vol-1"), other])
    assert [script.account for script in scripts] == [MINE, "222222222222"]
    assert "vol-2" not in scripts[0].patch and "vol-1" not in scripts[1].rollback
