"""The endpoint's processes: without rights, started again, ended with the daemon, and nothing half started."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from aws_labs import AwsLab, free_port, until
from lab_folders import Command


def processes(folder: Path) -> dict[int, str]:
    """The endpoint's processes of a lab: number -> user id."""
    matches = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"headrace.api.server.supervisor" in words and str(folder).encode() in words:
                status = (process / "status").read_text()
                matches[int(process.name)] = re.findall(r"^Uid:\s+(\d+)", status, re.MULTILINE)[0]
        except OSError:
            continue
    return matches


def roles(folder: Path) -> tuple[int, int]:
    """(supervisor, worker)."""
    nobody = str(pwd.getpwnam("nobody").pw_uid)

    def both() -> tuple[list[int], list[int]]:
        now = processes(folder)
        return [pid for pid, user in now.items() if user == "0"], [pid for pid, user in now.items() if user == nobody]

    supervisors, workers = until(both, lambda result: len(result[0]) == len(result[1]) == 1, "one of each")
    return supervisors[0], workers[0]


def answers(lab: AwsLab) -> bool:
    try:
        urllib.request.urlopen(lab.endpoint, timeout=5)
    except urllib.error.HTTPError as error:
        return error.code == 403  # unsigned: an answer all the same
    except OSError:
        return False
    return False


def test_the_worker_has_no_rights_and_no_secrets_of_others(aws_lab):
    supervisor, worker = roles(aws_lab.folder)
    status = (Path("/proc") / str(worker) / "status").read_text()
    for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert re.search(rf"^{kind}:\s+0+$", status, re.MULTILINE), kind
    assert re.search(r"^Groups:\s*$", status, re.MULTILINE)
    limits = (Path("/proc") / str(worker) / "limits").read_text()
    assert re.search(r"^Max core file size\s+0\s+0\s", limits, re.MULTILINE)
    # Root's files are owned by root: what is dumpable would belong to nobody.
    assert (Path("/proc") / str(worker) / "mem").stat().st_uid == 0
    listening = {line.split()[3] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"}
    assert listening and answers(aws_lab)
    port = int(aws_lab.endpoint.rpartition(":")[2])
    addresses = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    ]
    assert addresses == [f"0100007F:{port:04X}"], "the loopback alone"


def test_a_worker_that_dies_is_started_again(aws_lab):
    ec2 = aws_lab.client("ec2")
    ec2.create_volume(Size=1, AvailabilityZone=aws_lab.zone)
    supervisor, worker = roles(aws_lab.folder)
    for _ in range(2):
        os.kill(worker, signal.SIGKILL)
        until(lambda: answers(aws_lab), bool, "the endpoint")
        before, (again, worker) = worker, roles(aws_lab.folder)
        assert again == supervisor and worker != before
    assert len(aws_lab.client("ec2").describe_volumes()["Volumes"]) == 1
    assert "its worker ended and is started again" in (aws_lab.folder / "headraced.log").read_text()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_supervisor_that_ends_takes_its_worker_along_and_lab_up_starts_both_again(aws_lab, end):
    device = aws_lab.lab.attach(aws_lab.lab.create("gp3:1", name="db")["id"], probe=False)["attachment"]
    supervisor, _ = roles(aws_lab.folder)
    assert json.loads(aws_lab.headrace("lab", "status", "--output", "json").stdout)["api_url"] == aws_lab.endpoint
    os.kill(supervisor, end)
    until(lambda: processes(aws_lab.folder), lambda result: not result, "the worker outlived its supervisor")
    status = aws_lab.headrace("lab", "status")
    assert "the AWS endpoint at" in status.stderr and "has ended: headrace lab up" in status.stderr
    daemon = aws_lab.lab.get_pid()
    assert "is started again" in aws_lab.headrace("lab", "up").stderr
    assert answers(aws_lab), "at its former port"
    again, _ = roles(aws_lab.folder)
    assert again != supervisor and aws_lab.lab.get_pid() == daemon
    assert aws_lab.lab.describe("db")["attachment"] == device, "what is attached stays"
    assert len(aws_lab.client("ec2").describe_volumes()["Volumes"]) == 1
    # A lab that lacks nothing is not started twice.
    assert "already answers" in aws_lab.headrace("lab", "up", code=2).stderr
    # Nor does a port that somebody else has make anything end.
    os.kill(again, signal.SIGKILL)
    until(lambda: processes(aws_lab.folder), lambda result: not result, "the worker outlived its supervisor")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        stderr = aws_lab.headrace("lab", "up", "--api-port", str(taken.getsockname()[1]), code=3).stderr
        assert "--api-port" in stderr and aws_lab.lab.get_pid() == daemon


@pytest.mark.parametrize("how", ["down", "kill"])
def test_it_ends_with_the_daemon(aws_lab, how):
    roles(aws_lab.folder)
    if how == "down":
        aws_lab.down()
    else:
        os.kill(aws_lab.lab.get_pid(), signal.SIGKILL)
    until(lambda: processes(aws_lab.folder), lambda result: not result, "it outlived its lab")
    assert not answers(aws_lab) and not (aws_lab.folder / "api.json").exists()
    # The port is free again at once.
    aws_lab.up()
    assert answers(aws_lab)


def test_a_port_in_use_is_said_and_nothing_is_started(labs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        folder, port = labs.folder(), taken.getsockname()[1]
        stderr = Command(folder)("lab", "up", "--metrics-port", "0", "--api-port", str(port), code=3).stderr
        assert f"api at 127.0.0.1:{port}" in stderr and "--api-port" in stderr
    assert not (folder / "lab.sock").exists() and not processes(folder)


def test_a_wrong_key_file_is_said_with_its_line_and_nothing_is_started(labs):
    folder = labs.folder()
    (folder / "access").mkdir()
    (folder / "access/keys.toml").write_text('[[key]]\nuser = "root"\n')
    stderr = Command(folder)("lab", "up", "--metrics-port", "0", "--api-port", str(free_port()), code=3).stderr
    assert "keys.toml:1:1" in stderr and "access_key_id" in stderr
    Command(folder)("lab", "status", code=3)
    assert not processes(folder)


def test_a_key_file_that_becomes_wrong_leaves_the_keys_as_they_were(aws_lab):
    path = aws_lab.folder / "access/keys.toml"
    good = path.read_text()
    path.write_text("[[key]\n")
    log = aws_lab.folder / "headraced.log"
    until(log.read_text, lambda text: "keys stay as they were" in text, "the log")
    assert "keys.toml:1:" in log.read_text()
    secret = good.split('secret_access_key = "')[1].split('"')[0]
    assert aws_lab.client("sts").get_caller_identity()["Account"] == "000000000000"
    assert secret not in log.read_text()


def test_a_second_profile_is_not_overwritten(labs, aws_lab):
    folder = labs.folder()
    other = Command(folder)
    other.environment = aws_lab.environment | {"HEADRACE_LAB": str(folder)}
    before = Path(aws_lab.environment["AWS_CONFIG_FILE"]).read_text()
    stderr = other("lab", "init", "--api-port", "1", code=2).stderr
    assert "--force" in stderr and "profile headrace" in stderr
    assert Path(aws_lab.environment["AWS_CONFIG_FILE"]).read_text() == before
    stdout = other("lab", "init", "--no-profile", "--api-port", "1").stdout
    assert "endpoint_url = http://127.0.0.1:1" in stdout and "aws_secret_access_key = " in stdout


def test_the_package_loads_none_of_it():
    code = "import sys, headrace; print([m for m in ('cbor2', 'httptools', 'botocore', 'headrace.api') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
