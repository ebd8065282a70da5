"""Keys by `headrace lab key`, copies of encrypted snapshots between two labs, and the events of keys
and snapshots as `headrace lab events` prints them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from lab_folders import MARK, SECTOR, CommandHere, device_of, read_mark, write_mark
from waiting import wait_until

from headrace.errors import HeadraceError
from headrace.lab import Lab, LabRefused
from headrace.lab import stop_lab as lab_down

PATIENCE_S = 60.0


def until(look: Callable[[], Any]) -> Any:
    return wait_until(look, "the state of a key or snapshot", PATIENCE_S)


def ended(lab: Lab, snapshot: str) -> dict[str, Any]:
    until(lambda: lab.describe_snapshot(snapshot)["state"] != "pending")
    return dict(lab.describe_snapshot(snapshot))


def printed(headrace: CommandHere, *words: str) -> Any:
    return json.loads(headrace(*words, "--output", "json").stdout)


def test_keys_on_the_command_line(lab, headrace):
    result = printed(headrace, "lab", "key", "create", "--alias", "mysql", "--description", "of the database")
    assert result["state"] == "Enabled" and result["aliases"] == ["alias/mysql"]
    headrace("volume", "create", "gp3:1", "--name", "db", "--encrypted", "--kms-key", "alias/mysql")
    assert lab.describe("db")["kms_key"] == result["arn"]
    assert result["arn"] in headrace("volume", "list", "db").stdout
    # Nothing is left of a key whose name is taken.
    assert "alias/mysql" in headrace("lab", "key", "create", "--alias", "mysql", code=2).stderr
    [row] = printed(headrace, "lab", "key", "list")
    assert row["id"] == result["id"]
    assert "alias/mysql" in headrace("lab", "key", "list").stdout

    headrace("lab", "key", "state", "alias/mysql", "disabled")
    refused = headrace("volume", "attach", "db", code=2).stderr
    assert result["id"] in refused and "disabled" in refused
    headrace("lab", "key", "state", result["id"], "enabled")
    headrace("volume", "attach", "db")

    stderr = headrace("lab", "key", "state", "alias/mysql", "pending-deletion", code=2).stderr
    assert "--yes" in stderr and lab.describe_key(result["id"])["state"] == "Enabled"
    headrace("lab", "key", "state", result["arn"], "pending-deletion", "--days", "6", "--yes", code=2)
    # At this lab's scale 30 days pass in three seconds.
    message = headrace("lab", "key", "state", result["arn"], "pending-deletion", "--days", "30", "--yes").stderr
    assert "PendingDeletion" in message
    until(lambda: lab.keys()["keys"] == [])
    assert "lab key list" in headrace("lab", "key", "state", result["id"], "enabled", code=2).stderr


def test_a_key_is_kept_and_becomes_the_default(labs):
    with labs.up() as lab:
        headrace = CommandHere(lab.place.data_dir)
        first, second = (printed(headrace, "lab", "key", "create")["id"] for _ in range(2))
        headrace("lab", "key", "alias", "main", first)
        headrace("lab", "key", "alias", "main", second)
        assert lab.describe_key("alias/main")["id"] == second
        headrace("lab", "key", "state", "alias/main", "pending-deletion", "--yes")
        headrace("lab", "key", "state", "alias/main", "disabled")
        assert lab.describe_key(second)["state"] == "Disabled"
        headrace("lab", "key", "state", "alias/main", "enabled")
        headrace("lab", "key", "default", "alias/main", "--encrypt-all")
        headrace("volume", "create", "gp3:1", "--name", "db")
        assert lab.describe("db")["kms_key"] == lab.describe_key(second)["arn"]
        headrace("lab", "key", "default", "--encrypt-asked")
        assert lab.describe_key(second)["arn"] in headrace("lab", "key", "default").stderr
        assert not lab.create("gp3:1", name="plain")["encrypted"]
        headrace("lab", "key", "alias", "main", "--remove")
        assert lab.describe_key(second)["aliases"] == []


@pytest.fixture
def source(labs):
    """A lab with an encrypted volume and a snapshot of it: lab, key, snapshot."""
    with labs.up() as lab:
        key = lab.create_key(description="of the first lab")
        lab.create("gp3:1", name="db", encrypted=True, kms_key=key["id"])
        write_mark(device_of(lab, "db"))
        snapshot = lab.create_snapshot("db")["id"]
        assert ended(lab, snapshot)["state"] == "completed"
        yield lab, key, snapshot


def test_an_encrypted_snapshot_is_copied_to_another_lab(labs, source):
    first, _, snapshot = source
    folder = first.place.data_dir
    with labs.up() as second:
        headrace = CommandHere(second.place.data_dir)
        mine = second.create_key(description="of the second lab")
        headrace(
            "snapshot", "copy", snapshot, "--from-lab", str(folder), "--kms-key", mine["id"], "--encrypted", "--wait"
        )
        [copy] = second.call("snapshot.list")["snapshots"]
        assert copy["encrypted"] and copy["kms_key"] == mine["arn"] and copy["state"] == "completed"
        headrace("snapshot", "region", "eu-west-1", f"lab://{folder}")
        other = second.copy_snapshot(snapshot, region="eu-west-1")["id"]
        assert ended(second, other)["state"] == "completed", "under the key that EBS makes for itself"
        # Neither the first lab nor its store is needed any more.
        lab_down(first, force=True)
        shutil.rmtree(folder)
        for number, result in enumerate((copy["id"], other)):
            second.create(volume_type="gp3", size_gib=1, name=f"back{number}", snapshot=result)
            assert read_mark(device_of(second, f"back{number}")) == SECTOR
        store = second.place.data_dir / "snapshots"
        assert not any(MARK in path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_a_copy_whose_key_cannot_be_used_fails_as_at_aws(labs, source):
    first, key, snapshot = source
    folder = first.place.data_dir
    with labs.up() as second:

        def failed(store: str) -> str:
            copy = ended(second, second.copy_snapshot(snapshot, store=store)["id"])
            assert copy["state"] == "error"
            return copy["error"]

        words = "Given key ID is not accessible: "
        # The store alone has no key that opens it.
        assert failed(f"file://{folder}/snapshots").startswith(f"{words}{snapshot}")
        first.disable_key(key["id"])
        assert failed(f"lab://{folder}") == f"{words}{key['id']}: is a key that is disabled"
        with pytest.raises(LabRefused) as refused:
            second.copy_snapshot("snap-0123456789abcdef0", store=f"lab://{folder}")
        assert refused.value.code == "InvalidSnapshot.NotFound"
        before = len(second.call("snapshot.list")["snapshots"])
        with pytest.raises(HeadraceError, match="/nowhere: is the directory of a lab that does not answer"):
            second.copy_snapshot(snapshot, store="lab:///nowhere")
        assert len(second.call("snapshot.list")["snapshots"]) == before, "nothing half-made"
        first.enable_key(key["id"])
        snapshot_id = second.copy_snapshot(snapshot, store=f"lab://{folder}")["id"]
        assert ended(second, snapshot_id)["state"] == "completed"
    # In one lab, too.
    first.disable_key(key["id"])
    copy = ended(first, first.copy_snapshot(snapshot)["id"])
    assert copy["state"] == "error" and copy["error"].startswith("Given key ID is not accessible: ")


def test_snapshots_of_a_lost_lab_are_opened_by_who_has_the_key(labs, tmp_path):
    """The wrapped data key lies with the snapshot: store and KMS key are enough, and both are needed."""
    store, file = tmp_path / "store", tmp_path / "db.key"
    lost = labs.folder()
    with labs.up(lost, snapshot_store=f"file://{store}") as lab:
        run = CommandHere(lost)
        key = lab.create_key(description="of the lost lab")
        lab.create("gp3:1", name="db", encrypted=True, kms_key=key["id"])
        write_mark(device_of(lab, "db"))
        of_volume = lab.create_snapshot("db")["id"]
        assert ended(lab, of_volume)["state"] == "completed"
        # Under another key, which nobody takes along: that of EBS.
        copy = lab.copy_snapshot(of_volume)["id"]
        assert ended(lab, copy)["state"] == "completed"
        stderr = run("lab", "key", "export", key["id"], str(file)).stderr
        material = json.loads(file.read_text())["material"]
        assert (file.stat().st_mode & 0o777, material in stderr) == (0o600, False)
        log = "".join(path.read_text(errors="replace") for path in lost.glob("*.log"))
        assert material not in log
        lab_down(lab, force=True)
    shutil.rmtree(lost)
    wrapped = json.loads((store / "keys" / of_volume).read_text())
    assert (wrapped["kms_key"], wrapped["algorithm"]) == (key["arn"], "AES_256_GCM")
    with labs.up() as lab:
        run = CommandHere(lab.place.data_dir)

        def copied(snapshot: str) -> dict[str, Any]:
            return ended(lab, lab.copy_snapshot(snapshot, store=f"file://{store}")["id"])

        missing = copied(of_volume)
        assert missing["state"] == "error"
        assert f"is encrypted under the key {key['arn']}, which this lab does not have" in missing["error"]
        details = printed(run, "lab", "key", "create", "--from", str(file), "--alias", "back")
        assert (details["id"], details["description"], details["aliases"]) == (
            key["id"],
            "of the lost lab",
            ["alias/back"],
        )
        result = copied(of_volume)
        assert result["state"] == "completed" and result["kms_key"] != lab.describe_key(key["id"])["arn"]
        lab.create(volume_type="gp3", size_gib=1, name="back", snapshot=result["id"])
        assert read_mark(device_of(lab, "back")) == SECTOR
        assert "which this lab does not have" in copied(copy)["error"], "another key opens nothing"
        # A key that is disabled here opens nothing, as at AWS.
        lab.disable_key(key["id"])
        assert "disabled" in copied(of_volume)["error"]
        lab.enable_key(key["id"])
        copied_again = copied(of_volume)
        # Damage is told from a missing key.
        (store / "keys" / of_volume).write_text("{")
        with pytest.raises(HeadraceError, match=f"keys/{of_volume}"):
            copied(of_volume)
        # A snapshot that is deleted leaves no key behind.
        gone = copied_again["id"]
        assert (lab.place.data_dir / "snapshots" / "keys" / gone).exists()
        lab.delete_snapshot(gone)
        until(lambda: not (lab.place.data_dir / "snapshots" / "keys" / gone).exists())


def test_mistakes_with_the_file_of_a_key(labs, tmp_path):
    file = tmp_path / "a.key"
    with labs.up() as lab:
        run = CommandHere(lab.place.data_dir)
        key = lab.create_key(description="one")["id"]
        run("lab", "key", "export", key, str(file))
        assert "exists already" in run("lab", "key", "export", key, str(file), code=2).stderr
        assert "folder" in run("lab", "key", "export", key, str(tmp_path / "no" / "a.key"), code=2).stderr
        assert "is a key of this lab already" in run("lab", "key", "create", "--from", str(file), code=2).stderr
        lab.disable_key(key)
        assert "disabled" in run("lab", "key", "export", key, str(tmp_path / "b.key"), code=2).stderr
        assert not (tmp_path / "b.key").exists()
    text = file.read_text()
    with labs.up() as lab:
        run = CommandHere(lab.place.data_dir)
        damaged = tmp_path / "damaged.key"
        other = text.replace('"description": "one"', '"description": "two"')
        for content in (
            text[:-20],
            "",
            "[]",
            "\0" * 100,
            "x" * 100_000,
            other,
            text.replace('"version": 1', '"version": 2'),
        ):
            damaged.write_text(content)
            stderr = run("lab", "key", "create", "--from", str(damaged), code=2).stderr
            assert json.loads(text)["material"] not in stderr
        assert lab.keys()["keys"] == [], "nothing half-made"
        lab.create_key()
        lab.set_key_alias("alias/taken", lab.keys()["keys"][0]["id"])
        assert "alias" in run("lab", "key", "create", "--from", str(file), "--alias", "taken", code=2).stderr
        assert len(lab.keys()["keys"]) == 1
        file.chmod(0o644)
        assert "chmod 600" in run("lab", "key", "create", "--from", str(file)).stderr
        lab.schedule_key_deletion(key, 7)


def test_events_of_snapshots_and_keys(lab, headrace):
    """Shapes: EBS user guide, "Amazon EventBridge events for Amazon EBS"; KMS developer guide,
    "Monitor KMS keys with Amazon EventBridge".
    """
    key = lab.create_key(description="short-lived")
    volume = lab.create("gp3:1", name="db", encrypted=True, kms_key=key["id"])["id"]
    taken = lab.create_snapshot("db")["id"]
    ended(lab, taken)
    copy = lab.copy_snapshot(taken, kms_key=key["id"])["id"]
    ended(lab, copy)
    zone = lab.set_fast_restore([copy], True)["fast_restores"][0]["zone"]
    until(lambda: lab.fast_restores()[0]["state"] == "enabled")
    lab.disable_key(key["id"])
    broken = lab.copy_snapshot(taken)["id"]
    ended(lab, broken)
    lab.schedule_key_deletion(key["id"], 7)
    until(lambda: all(row["id"] != key["id"] for row in lab.keys()["keys"]))
    lines = headrace("lab", "events", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    region = events[0]["region"]

    def events_of(kind: str) -> list[dict[str, Any]]:
        return [event for event in events if event["detail-type"] == kind]

    def arn(name: str) -> str:
        return f"arn:aws:ec2::{region}:{name}"

    result, copied, failed = events_of("EBS Snapshot Notification")
    for event, snapshot in ((result, taken), (copied, copy), (failed, broken)):
        assert event["source"] == "aws.ec2" and event["version"] == "0" and event["account"] == "000000000000"
        assert event["resources"][0].endswith(f"snapshot/{snapshot}")
        assert event["detail"]["snapshot_id"] == arn(f"snapshot/{snapshot}")
        assert event["detail"]["startTime"] <= event["detail"]["endTime"]
    assert {name: result["detail"][name] for name in ("event", "result", "source", "cause")} == {
        "event": "createSnapshot",
        "result": "succeeded",
        "source": arn(f"volume/{volume}"),
        "cause": "",
    }
    assert copied["detail"]["event"] == failed["detail"]["event"] == "copySnapshot"
    assert copied["detail"]["source"] == failed["detail"]["source"] == arn(f"snapshot/{taken}")
    assert (copied["detail"]["result"], failed["detail"]["result"]) == ("succeeded", "failed")
    assert failed["detail"]["cause"].startswith("Given key ID is not accessible: ")

    fast = events_of("EBS Fast Snapshot Restore State-change Notification")
    assert [event["detail"]["state"] for event in fast] == ["enabling", "optimizing", "enabled"]
    assert all(event["detail"]["snapshot-id"] == copy and event["detail"]["zone"] == zone for event in fast)
    assert fast[0]["detail"]["message"] == "Client.UserInitiated"

    [gone] = events_of("KMS CMK Deletion")
    assert gone["source"] == "aws.kms" and gone["detail"] == {"key-id": key["id"]}
    assert gone["resources"] == [key["arn"]]
    stdout = headrace("lab", "events").stdout
    for words in (f"{copy}  copySnapshot succeeded", f"{broken}  copySnapshot failed", f"{copy}  enabled {zone}"):
        assert words in stdout
    assert f"{key['id']}  PendingDeletion" in stdout.replace("key/", "")
