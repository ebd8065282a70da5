"""A lab with its AWS endpoint, as the tools of its users find it: by a profile in files of its own."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from lab_folders import Command, Labs
from waiting import wait_until

from headrace.lab import Lab
from headrace.lab import stop_lab as lab_down

PROFILE = "headrace"
# A lab's modifications, pending snapshots and the like take lab time; at this scale an hour is a blink.
FAST = 1_000_000
# For a state that changes within moments. A guess for a busy machine.
PATIENCE_S = 60.0
# One attempt: what fails must be seen, not tried again.
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30)
# The botocore waiters' own pace is 15 s, which is AWS's.
PACE = {"Delay": 0.1, "MaxAttempts": 600}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class AwsLab:
    """A lab in a folder, up, with an endpoint and the profile of its root user. `store`: the URL of
    the object store of its snapshots; else a folder of the lab.
    """

    def __init__(self, labs: Labs, store: str | None = None, **settings: Any) -> None:
        self.labs, self.settings = labs, {"time_scale": FAST, "api_port": free_port()} | settings
        if store is not None:
            self.settings["snapshot_store"] = store
        self.folder = labs.folder()
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | {
            "AWS_CONFIG_FILE": str(self.folder / "aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.folder / "aws-credentials"),
            "AWS_PROFILE": PROFILE,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HEADRACE_LAB": str(self.folder),
            "COLUMNS": "200",
        }
        self.headrace = Command(self.folder)
        self.headrace.environment = self.environment
        self.lab: Lab = self.up()
        self.headrace("lab", "init", "--api-port", str(self.settings["api_port"]))

    def up(self) -> Lab:
        """Starts it, again or for the first time."""
        self.lab = self.labs.up(self.folder, **self.settings)
        return self.lab

    def down(self) -> None:
        lab_down(self.lab, force=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.settings['api_port']}"

    @property
    def region(self) -> str:
        return self._profile("AWS_CONFIG_FILE")[f"profile {PROFILE}"]["region"]

    @property
    def zone(self) -> str:
        return f"{self.region}a"

    @property
    def instance(self) -> str:
        reservations = self.client("ec2").describe_instances()["Reservations"]
        [instance] = [instance for reservation in reservations for instance in reservation["Instances"]]
        return instance["InstanceId"]

    def _profile(self, variable: str) -> configparser.ConfigParser:
        parser = configparser.ConfigParser()
        parser.read(self.environment[variable])
        return parser

    def client(self, service: str, key: tuple[str, str] | None = None) -> Any:
        """A boto3 client that does not try again. `key`: another user's id and secret."""
        root = self._profile("AWS_SHARED_CREDENTIALS_FILE")[PROFILE]
        access, secret = key or (root["aws_access_key_id"], root["aws_secret_access_key"])
        # The default session keeps the profiles of the test that made it.
        return boto3.Session().client(
            service,
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            config=ONCE,
        )

    def user(self, name: str, policy: dict) -> tuple[str, str]:
        """Makes a user; its access key id and secret."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(policy))
        stdout = self.headrace("lab", "user", name, "--policy", str(path)).stdout
        words = dict(line.split(" = ") for line in stdout.splitlines() if " = " in line)
        return words["aws_access_key_id"], words["aws_secret_access_key"]

    def run(self, *words: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess:
        """A program with this lab's profile."""
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=300, env=self.environment, stdin=subprocess.DEVNULL, **more
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def aws(self, *words: str, code: int = 0) -> Any:
        """The aws cli, and what its JSON says; the error's text where it must fail."""
        program = Path(sys.executable).with_name("aws")
        done = self.run(str(program), *words, "--output", "json", code=code)
        if code:
            return done.stderr.strip()
        return json.loads(done.stdout) if done.stdout.strip() else None

    def device(self, volume: str) -> str:
        """The block device of an attached volume."""
        attachment = self.lab.describe(volume)["attachment"]
        assert attachment is not None and attachment["device"] is not None
        return attachment["device"]


def until(look, expected, what: str = "") -> Any:
    """Ask until the answer is as wanted, and return it."""
    answers: list[Any] = [None]

    def is_so() -> bool:
        answers[0] = look()
        return expected(answers[0])

    try:
        wait_until(is_so, what or "the answer", PATIENCE_S)
    except AssertionError as late:
        raise AssertionError(f"{late}; the answer is {answers[0]!r}") from None
    return answers[0]


@contextlib.contextmanager
def mounted(device: str, folder: Path, *options: str):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-o", ",".join(("noatime", *options)), device, str(folder)], check=True, timeout=60)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=False, timeout=60)
