"""The inventory from the AWS CLI's JSON: pages and regions put together, what is missing or strange said."""

from __future__ import annotations

import itertools
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, InputError
from headrace.operate.fleet.inventory import find_region, parse_inventory, read_inventory


def volume(name: str, **more: Any) -> dict[str, Any]:
    given = {"VolumeId": name, "VolumeType": "gp3", "Size": 500, "Iops": 3000, "Throughput": 125}
    return (
        given | {"AvailabilityZone": "us-east-1a", "State": "in-use", "CreateTime": "2026-01-02T03:04:05.678Z"} | more
    )


def attached(*instances: str, device: str = "/dev/sdf") -> dict[str, Any]:
    return {"Attachments": [{"InstanceId": instance, "Device": device, "State": "attached"} for instance in instances]}


def tagged(**tags: str) -> dict[str, Any]:
    return {"Tags": [{"Key": key.replace("__", ":"), "Value": value} for key, value in tags.items()]}


def reservation(name: str, kind: str = "m5.large", owner: str = "111111111111") -> dict[str, Any]:
    place = {"Placement": {"AvailabilityZone": "us-east-1a"}, "RootDeviceName": "/dev/xvda"}
    return {
        "OwnerId": owner,
        "Instances": [{"InstanceId": name, "InstanceType": kind, "State": {"Name": "running"}, **place}],
    }


def write(folder: Path, name: str, *documents: Any) -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(document) for document in documents))
    return path


def test_what_aws_says_of_a_volume(tmp_path):
    new_volume = volume(
        "vol-1", Encrypted=True, SnapshotId="", **attached("i-1", device="/dev/xvda"), **tagged(Name="db", team="a b")
    )
    changed = {
        "VolumeId": "vol-1",
        "ModificationState": "optimizing",
        "StartTime": "2026-11-20T01:00:00+01:00",
        "Progress": 3,
    }
    files = [
        write(tmp_path, "m.json", {"VolumesModifications": [changed]}),
        write(tmp_path, "i.json", {"Reservations": [reservation("i-1")]}),
        write(tmp_path, "v.json", {"Volumes": [new_volume]}),
    ]
    [entry] = read_inventory(files).volumes
    assert (entry.id, entry.name, entry.notation, entry.region, entry.account) == (
        "vol-1",
        "db",
        "gp3:500:3000:125",
        "us-east-1",
        "111111111111",
    )
    assert (entry.instance_id, entry.instance_type, entry.root, entry.modifying) == (
        "i-1",
        "m5.large",
        True,
        "optimizing",
    )
    assert entry.list_modifications(datetime(2026, 11, 19, 23, 59, tzinfo=UTC)) == (datetime(2026, 11, 20, tzinfo=UTC),)
    assert entry.list_modifications(datetime(2026, 11, 20, 0, 0, tzinfo=UTC)) == () and entry.remarks == ()


def test_any_order_and_cut_of_pages_is_one_inventory(tmp_path):
    """Against a naive reference: the volumes sorted by id, whatever the pages and files."""
    for seed in range(20):
        chance = random.Random(seed)
        volumes = [volume(f"vol-{number:03d}", Size=chance.randint(1, 900)) for number in chance.sample(range(999), 30)]
        cuts = sorted(chance.sample(range(1, 30), 4))
        parts = [volumes[start:end] for start, end in zip([0, *cuts], [*cuts, 30], strict=True)]
        pages = [{"Volumes": part} | ({"NextToken": f"t{at}"} if at < 4 else {}) for at, part in enumerate(parts)]
        files = [
            write(tmp_path, f"{seed}-{at}.json", *some) for at, some in enumerate((pages[:2], pages[2:3], pages[3:]))
        ]
        chance.shuffle(files)
        inventory = read_inventory([*files, files[0]])  # a file given twice is once
        assert [(volume.id, volume.size_gib) for volume in inventory.volumes] == sorted(
            (volume["VolumeId"], volume["Size"]) for volume in volumes
        )
        assert (
            all(inventory.find_volume(volume["VolumeId"]) is not None for volume in volumes)
            and inventory.find_volume("vol-x") is None
        )


def test_members_of_an_array_are_one_device():
    details = [
        volume("vol-3", **attached("i-1"), **tagged(mdadm="db1:0", headrace__level="raid1")),
        volume("vol-1", **attached("i-1"), **tagged(mdadm="db1:0", headrace__level="raid1")),
        volume("vol-2", **attached("i-2"), **tagged(headrace__array="db1:0")),
        volume("vol-4", **attached("i-1")),
    ]
    inventory = parse_inventory(details)
    assert {
        device.key: ([member.id for member in device.members], device.make_storage().text)
        for device in inventory.list_devices()
    } == {
        "i-1/db1:0": (["vol-1", "vol-3"], "raid1:2xgp3:500:3000:125"),
        "i-2/db1:0": (["vol-2"], "gp3:500:3000:125"),
        "vol-4": (["vol-4"], "gp3:500:3000:125"),
    }
    assert [volume.id for volume in inventory.list_attached("i-1")] == ["vol-1", "vol-3", "vol-4"]


STRANGE = {
    "gp2 whose Iops are the burst": (volume("vol-1", VolumeType="gp2", Size=100, Iops=3000, Throughput=None), "are the burst: the baseline of 100 GiB is 300"),
    "gp2 with other Iops": (volume("vol-1", VolumeType="gp2", Size=100, Iops=400, Throughput=None), "are not the baseline"),
    "a type of tomorrow": (volume("vol-1", VolumeType="gp9"), "the catalog refuses"),
    "io2 over limits": (volume("vol-1", VolumeType="io2", Iops=999_999, Throughput=None), "the catalog refuses"),
    "a size beyond": (volume("vol-1", Size=9_000_000), "the catalog refuses"),
    "Multi-Attach": (volume("vol-1", MultiAttachEnabled=True, **attached("i-1", "i-2")), "attached to 2 instances"),
    "an unknown instance": (volume("vol-1", **attached("i-9")), "i-9 is not in the inventory"),
    "an unknown zone": (volume("vol-1", AvailabilityZone="here"), "of no region"),
}  # fmt: skip


@pytest.mark.parametrize("case", STRANGE)
def test_what_is_strange_is_a_remark(case):
    details, message = STRANGE[case]
    inventory = parse_inventory([volume("vol-0"), details], [reservation("i-1"), reservation("i-2")])
    assert inventory.volumes[0].remarks == () and any(message in words for words in inventory.volumes[1].remarks)


def test_gp2_iops_are_the_baseline():
    [entry] = parse_inventory([volume("vol-1", VolumeType="gp2", Size=100, Iops=300, Throughput=None)]).volumes
    assert entry.remarks == () and entry.notation == "gp2:100"


REFUSED: dict[str, tuple[list[Any], str]] = {
    "the page that follows is missing": ([{"Volumes": [volume("vol-1")], "NextToken": "t"}], "NextToken"),
    "metrics of RDS or anything": ([{"MetricDataResults": []}], "has none of"),
    "databases": ([{"DBInstances": [{}]}], "has none of"),
    "instances alone": ([{"Reservations": [reservation("i-1")]}], "has no volumes"),
    "no object": ([[volume("vol-1")]], "an object is expected"),
    "a volume twice with other figures": ([{"Volumes": [volume("vol-1"), volume("vol-1", Size=7)]}], "with other figures"),
    "no id": ([{"Volumes": [{"Size": 1}]}], "VolumeId"),
    "a size in words": ([{"Volumes": [volume("vol-1", Size="big")]}], "Expected `int`"),
    "a size below 1": ([{"Volumes": [volume("vol-1", Size=0)]}], "1 GiB or more"),
    "Iops below 0": ([{"Volumes": [volume("vol-1", Iops=-1)]}], "cannot be negative"),
    "a time that is none": ([{"Volumes": [volume("vol-1", CreateTime="yesterday")]}], "must be a time"),
    "not a list": ([{"Volumes": {}}], "must be a list"),
    "an event that is none": ([{"Volumes": [volume("vol-1")]}, {"Events": [{"EventName": "ModifyVolume", "CloudTrailEvent": "x"}]}], "not an event"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_aws_cannot_have_written_is_refused(tmp_path, case):
    documents, rule = REFUSED[case]
    with pytest.raises(HeadraceError) as refused:
        read_inventory([write(tmp_path, "given.json", *documents)])
    assert rule in f"{refused.value.rule} {refused.value.value}"


def test_rds_is_named_and_files_that_are_cut(tmp_path):
    with pytest.raises(InputError, match="RDS does not list its volumes"):
        read_inventory([write(tmp_path, "rds.json", {"DBInstances": []})])
    (tmp_path / "cut.json").write_text(json.dumps({"Volumes": [volume("vol-1")]})[:-30])
    with pytest.raises(InputError, match="ends too early"):
        read_inventory([tmp_path / "cut.json"])


def test_changes_that_cloudtrail_kept_are_counted_once(tmp_path):
    def event(moment: str, **more: Any) -> dict[str, Any]:
        request = {"eventTime": moment, "requestParameters": {"ModifyVolumeRequest": {"VolumeId": "vol-1"}}} | more
        return {"EventName": "ModifyVolume", "CloudTrailEvent": json.dumps(request)}

    changed = {"VolumeId": "vol-1", "ModificationState": "completed", "StartTime": "2026-11-20T01:00:02Z"}
    events = [
        event("2026-11-20T01:00:00Z"),
        event("2026-11-20T09:00:00Z"),
        event("2026-11-20T09:30:00Z", errorCode="Client.X"),
    ]
    documents = {"VolumesModifications": [changed]}, {"Events": [*events, {"EventName": "CreateVolume"}]}
    [entry] = read_inventory([write(tmp_path, "all.json", {"Volumes": [volume("vol-1")]}, *documents)]).volumes
    assert [modification.started.hour for modification in entry.modifications] == [1, 9] and entry.modifying == ""


def test_regions_of_zones():
    zones = (
        "us-east-1a",
        "us-west-2-lax-1a",
        "us-gov-west-1b",
        "us-east-1-wl1-bos-wlz-1",
        "ap-southeast-2",
        "here",
        "",
    )
    assert [find_region(zone) for zone in zones] == [
        "us-east-1",
        "us-west-2",
        "us-gov-west-1",
        "us-east-1",
        "ap-southeast-2",
        "",
        "",
    ]


def test_cloudtrails_call_and_ec2s_modification_are_one_in_any_order(tmp_path):
    """The call is two seconds later in the one than in the other, and the volume is optimizing still."""
    request = {"requestParameters": {"ModifyVolumeRequest": {"VolumeId": "vol-1"}}, "eventTime": "2026-11-22T20:00:02Z"}
    parts = {
        "volumes": {
            "Volumes": [{"VolumeId": "vol-1", "VolumeType": "gp2", "Size": 100, "AvailabilityZone": "us-east-1a"}]
        },
        "state": {
            "VolumesModifications": [
                {"VolumeId": "vol-1", "ModificationState": "optimizing", "StartTime": "2026-11-22T20:00:00Z"}
            ]
        },
        "events": {"Events": [{"EventName": "ModifyVolume", "CloudTrailEvent": json.dumps(request)}]},
    }
    for order in itertools.permutations(parts):
        for name in order:
            (tmp_path / f"{name}.json").write_text(json.dumps(parts[name]))
        (volume,) = read_inventory([tmp_path / f"{name}.json" for name in order]).volumes
        assert volume.modifying == "optimizing" and len(volume.modifications) == 1, order
