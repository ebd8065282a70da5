"""Data keys that are wrapped in KMS elsewhere: by another lab's endpoint, and by moto's where it is
installed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_labs import ONCE, PROFILE, AwsLab, free_port, until
from lab_folders import SECTOR, device_of, kill, read_mark, write_mark

from headrace.lab import LabRefused


def create_key(aws_lab: AwsLab, endpoint: str, key: str, **more: str) -> dict[str, Any]:
    words = [word for name, value in more.items() for word in (f"--{name}", value)]
    result = aws_lab.headrace(
        *("lab", "key", "create", "--alias", "there", "--kms-endpoint", endpoint, "--kms-key", key),
        *(*words, "--output", "json"),
    )
    return json.loads(result.stdout)


@pytest.fixture
def elsewhere(labs, monkeypatch) -> AwsLab:
    """A lab whose KMS is used by another one, by the profile in this process's environment."""
    lab = AwsLab(labs)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", lab.environment["AWS_SHARED_CREDENTIALS_FILE"])
    return lab


def test_keys_of_another_labs_kms(labs, elsewhere):
    kms = elsewhere.client("kms")
    there = kms.create_key(Description="elsewhere")["KeyMetadata"]["Arn"]
    mine = AwsLab(labs)
    key = create_key(mine, elsewhere.endpoint, there, **{"kms-profile": PROFILE})
    assert key["elsewhere"] == f"{there} at {elsewhere.endpoint}"
    lab, ec2 = mine.lab, mine.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=mine.zone, Size=1, Encrypted=True, KmsKeyId="alias/there")
    assert volume["KmsKeyId"] == key["arn"]
    write_mark(device_of(lab, volume["VolumeId"]))
    snapshot = lab.create_snapshot(volume["VolumeId"])["id"]
    until(lambda: lab.describe_snapshot(snapshot)["state"], lambda state: state == "completed")

    # KMS elsewhere decides: a key that is disabled there opens nothing here.
    kms.disable_key(KeyId=there)
    lab.detach(volume["VolumeId"])
    with pytest.raises(LabRefused) as refused:
        lab.attach(volume["VolumeId"], probe=False)
    assert refused.value.code == "InvalidKMSKey.InvalidState" and there in str(refused.value)
    with pytest.raises(LabRefused):
        lab.create("gp3:1", name="other", encrypted=True, kms_key="alias/there")
    kms.enable_key(KeyId=there)

    # After a kill the key is fetched again; what is not there any more is not guessed.
    kill(mine.folder)
    until(lambda: (mine.folder / "api.json").exists(), lambda there: not there, "the endpoint's end")
    lab = mine.up()
    assert read_mark(device_of(lab, volume["VolumeId"])) == SECTOR
    lab.create(volume_type="gp3", size_gib=1, name="again", snapshot=snapshot)
    assert read_mark(device_of(lab, "again")) == SECTOR
    # Neither the keys nor the credentials of the other one are in this lab's folder.
    secret = elsewhere._profile("AWS_SHARED_CREDENTIALS_FILE")[PROFILE]["aws_secret_access_key"].encode()
    for path in (mine.folder / "keys" / key["id"], mine.folder / "headraced.log"):
        assert secret not in path.read_bytes()
    assert not (Path("/proc") / str(lab.get_pid()) / "cmdline").read_bytes().count(secret)


def test_a_key_that_cannot_be_used_is_not_made(labs, elsewhere):
    mine = AwsLab(labs)

    def refused(endpoint: str, key: str, code: int) -> str:
        words = ("lab", "key", "create", "--kms-endpoint", endpoint, "--kms-key", key, "--kms-profile", PROFILE)
        stderr = mine.headrace(*words, code=code).stderr
        assert mine.lab.keys()["keys"] == [] and list((mine.folder / "keys").iterdir()) == []
        return stderr

    assert "NotFoundException" in refused(elsewhere.endpoint, "alias/nothing", 2)
    assert "cannot be used" in refused(f"http://127.0.0.1:{free_port()}", "alias/x", 3)
    assert "http:// is for a server on this machine" in refused("http://192.0.2.1", "alias/x", 3)
    assert "--kms-endpoint" in mine.headrace("lab", "key", "create", "--kms-key", "alias/x", code=2).stderr


def test_keys_of_moto(labs, tmp_path, monkeypatch):
    server = shutil.which("moto_server")
    if server is None:
        pytest.skip("moto's server is not installed: pip install 'moto[server]'")
    port = free_port()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LABKTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        kms = boto3.client("kms", endpoint_url=endpoint, region_name="eu-west-1", config=ONCE)

        def key() -> str:
            try:
                return kms.create_key()["KeyMetadata"]["Arn"]
            except OSError:
                return ""
            except Exception as error:
                assert "Could not connect" in str(error), error
                return ""

        there = until(key, bool, "moto")
        with labs.up() as lab:
            mine = lab.create_key("of moto", kms_endpoint=endpoint, kms_key=there)
            lab.create("gp3:1", name="db", encrypted=True, kms_key=mine["id"])
            write_mark(device_of(lab, "db"))
            lab.detach("db")
            assert read_mark(device_of(lab, "db")) == SECTOR
    finally:
        process.terminate()
        process.wait(30)
