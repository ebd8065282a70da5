"""EC2 by boto3 on one lab: filters against a naive reference, paging while volumes go, errors as AWS words them, users with
policies. Each test makes volumes of its own.
"""

from __future__ import annotations

import fnmatch
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aws_labs import AwsLab
from botocore.exceptions import ClientError
from lab_folders import Labs
from waiting import wait_until

GONE = "vol-0123456789abcdef0"
OTHER = "vol-0123456789abcdef1"


@pytest.fixture(scope="module")
def lab():
    labs = Labs()
    try:
        yield AwsLab(labs, instance_type="m5.2xlarge")
    finally:
        labs.close()


@pytest.fixture(scope="module")
def ec2(lab):
    return lab.client("ec2")


def volume(ec2, lab: AwsLab, tags: dict[str, str] | None = None, **more: Any) -> str:
    given = {"Size": 1, "VolumeType": "gp3", "AvailabilityZone": lab.zone} | more
    if tags:
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        given["TagSpecifications"] = [{"ResourceType": "volume", "Tags": listed}]
    return ec2.create_volume(**given)["VolumeId"]


def refused(call, code: str, text: str = "", **params: Any) -> str:
    """Calls, and expects to be refused with this code."""
    with pytest.raises(ClientError) as raised:
        call(**params)
    error = raised.value.response["Error"]
    assert error["Code"] == code and text in error["Message"], error
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] < 500
    return error["Message"]


def test_a_volume_is_shown_as_it_was_asked_for(ec2, lab):
    request = {
        "Size": 10, "VolumeType": "gp3", "Iops": 4000, "Throughput": 250, "AvailabilityZoneId": "use1-az1",
        "MultiAttachEnabled": False, "Encrypted": False,
    }  # fmt: skip
    tags = [{"Key": "Name", "Value": 'a <b> & "c"'}, {"Key": "empty", "Value": ""}]
    volume = ec2.create_volume(**request, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}])
    (details,) = ec2.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    assert {key: details[key] for key in request} == request
    assert details["Tags"] == tags and details["Attachments"] == [] and details["AvailabilityZone"] == lab.zone
    assert details["State"] == "available" and details["SnapshotId"] == "" and details["CreateTime"].tzinfo is not None
    plain = ec2.create_volume(Size=1, AvailabilityZone=lab.zone)
    assert (plain["VolumeType"], plain["Iops"]) == ("gp2", 100) and "Throughput" not in plain


def naive(volumes: list[dict], filters: list[dict]) -> list[str]:
    """Returns the volumes that filters match, looked at one by one as EC2 shows them."""

    def has(row: dict, name: str) -> list[str]:
        tags = {tag["Key"]: tag["Value"] for tag in row["Tags"]} if "Tags" in row else {}
        if name == "tag-key":
            return list(tags)
        if name.startswith("tag:"):
            return [tags[name[4:]]] if name[4:] in tags else []
        plain = {"volume-type": "VolumeType", "size": "Size", "volume-id": "VolumeId", "status": "State"}
        plain |= {"availability-zone": "AvailabilityZone", "encrypted": "Encrypted", "snapshot-id": "SnapshotId"}
        value = row[plain[name]]
        return [str(value).lower() if isinstance(value, bool) else str(value)]

    def meets(entry: dict, given: dict) -> bool:
        return any(
            fnmatch.fnmatchcase(value, expected) for value in has(entry, given["Name"]) for expected in given["Values"]
        )

    return sorted(volume["VolumeId"] for volume in volumes if all(meets(volume, given) for given in filters))


def test_filters_are_those_of_a_naive_reference(ec2, lab):
    chance = random.Random(4)
    for number in range(24):
        tags = {
            key: chance.choice(["ann", "bob", "anna", ""]) for key in ("owner", "team", "o") if chance.random() < 0.6
        }
        kind = chance.choice(["gp2", "gp3", "standard"])
        volume(ec2, lab, {"Name": f"f{number}", **tags}, VolumeType=kind, Size=chance.randint(1, 12))
    everything = ec2.describe_volumes()["Volumes"]
    ids = [volume["VolumeId"] for volume in everything]
    values = {
        "tag:owner": ["ann", "a*", "?nn", "", "b?b", "*"],
        "tag:team": ["bob", "*nn*", "x"],
        "tag-key": ["o", "o*", "team", "Name"],
        "size": ["1", "1*", "5", "?"],
        "volume-type": ["gp2", "gp?", "standard", "io1"],
        "status": ["available", "in-use", "*"],
        "volume-id": [*chance.sample(ids, 3), "vol-0*", GONE],
        "availability-zone": [lab.zone, "eu*"],
        "encrypted": ["true", "false"],
        "snapshot-id": ["", "snap-0"],
    }
    met = 0
    for _ in range(150):
        names = chance.sample(list(values), chance.randint(1, 3))
        filters = [{"Name": name, "Values": chance.sample(values[name], chance.randint(1, 2))} for name in names]
        volume_ids = [volume["VolumeId"] for volume in ec2.describe_volumes(Filters=filters)["Volumes"]]
        assert volume_ids == naive(everything, filters), filters
        met += bool(volume_ids)
    assert 30 < met < 140, "filters that match and such that do not"
    some = chance.sample(ids, 8)
    both = ec2.describe_volumes(VolumeIds=some, Filters=[{"Name": "volume-type", "Values": ["gp2"]}])["Volumes"]
    expected = naive(
        [volume for volume in everything if volume["VolumeId"] in some], [{"Name": "volume-type", "Values": ["gp2"]}]
    )
    assert sorted(volume["VolumeId"] for volume in both) == expected


def test_wrong_filters_are_refused(ec2):
    call = ec2.describe_volumes
    refused(call, "InvalidParameterValue", "The filter 'sise' is invalid", Filters=[{"Name": "sise", "Values": ["1"]}])
    refused(call, "InvalidParameterValue", "at least one value", Filters=[{"Name": "size", "Values": []}])
    refused(call, "MissingParameter", "Filter.Name", Filters=[{"Values": ["1"]}])
    many = [{"Name": "size", "Values": [str(number) for number in range(201)]}]
    refused(call, "FilterLimitExceeded", "200", Filters=many)
    assert call(Filters=[{"Name": "operator.principal", "Values": ["*"]}])["Volumes"] == [], (
        "AWS has it, the lab has none"
    )
    refused(ec2.describe_tags, "InvalidParameterValue", Filters=[{"Name": "size", "Values": ["1"]}])
    refused(ec2.describe_regions, "InvalidParameterValue", Filters=[{"Name": "size", "Values": ["1"]}])


def test_paging_survives_that_volumes_go(ec2, lab):
    mine = [{"Name": "tag:paging", "Values": ["yes"]}]
    ids = sorted(volume(ec2, lab, {"paging": "yes"}) for _ in range(17))
    seen, token, pages = [], None, 0
    while pages == 0 or token:
        more = {"NextToken": token} if token else {}
        page = ec2.describe_volumes(Filters=mine, MaxResults=5, **more)
        volume_ids = [volume["VolumeId"] for volume in page["Volumes"]]
        seen += volume_ids
        token, pages = page.get("NextToken"), pages + 1
        # The last of this page, which the token names, and the first of the next one go.
        at = ids.index(volume_ids[-1])
        for gone in ids[at : at + 2] if pages == 1 else ():
            ec2.delete_volume(VolumeId=gone)
    first_of_next = ids[5]
    assert pages == 4 and seen == [entry for entry in ids if entry != first_of_next]
    refused(ec2.describe_volumes, "InvalidParameterValue", "token", NextToken="x", MaxResults=5)
    other = ec2.describe_tags(MaxResults=5)["NextToken"]
    refused(ec2.describe_volumes, "InvalidParameterValue", "token", NextToken=other, MaxResults=5)
    refused(ec2.describe_volumes, "InvalidParameterValue", "maxResults", MaxResults=4)
    refused(ec2.describe_volumes, "InvalidParameterCombination", "maxResults", MaxResults=5, VolumeIds=[ids[0]])
    names = [page["Tags"] for page in ec2.get_paginator("describe_tags").paginate(PaginationConfig={"PageSize": 7})]
    assert [tag for page in names for tag in page] == ec2.describe_tags()["Tags"]


def test_every_list_has_pages(ec2, lab):
    """Five on a page, which is the least; together they are the whole list, each once."""

    def pages(call, items: str, name: str, size: int = 5) -> list[str]:
        result, answer = [], call(MaxResults=size)
        while True:
            assert len(answer[items]) <= size
            result += [entry[name] for entry in answer[items]]
            if not answer.get("NextToken"):
                return result
            answer = call(MaxResults=size, NextToken=answer["NextToken"])

    volumes = sorted(volume(ec2, lab, {"pages": "yes"}) for _ in range(7))
    for member in volumes:
        ec2.modify_volume(VolumeId=member, Size=2)
    status = pages(ec2.describe_volume_status, "VolumeStatuses", "VolumeId")
    assert set(volumes) <= set(status) and status == sorted(set(status))
    changes = pages(ec2.describe_volumes_modifications, "VolumesModifications", "VolumeId")
    assert set(volumes) <= set(changes) and len(changes) == len(set(changes))
    # There are some thousand types: 100 on a page is the most.
    types = pages(ec2.describe_instance_types, "InstanceTypes", "InstanceType", size=100)
    assert types == sorted(set(types)) and "m5.2xlarge" in types and len(types) > 100
    assert "NextToken" not in ec2.describe_instances(MaxResults=5)
    assert "NextToken" not in ec2.describe_instance_status(MaxResults=5)
    for call in (ec2.describe_instances, ec2.describe_instance_status, ec2.describe_volume_status):
        refused(call, "InvalidParameterValue", NextToken="bm90IG91cnM=", MaxResults=5)
    where = {"AvailabilityZone": lab.zone, "Size": 1}
    refused(ec2.create_volume, "InvalidParameterValue", VolumeInitializationRate=200, **where)


def test_mistakes_have_ec2s_codes(ec2, lab):
    """Each call refuses mistakes that no other test is about. None of them changes anything."""
    entry, gone = volume(ec2, lab), "snap-0123456789abcdef0"
    before = ec2.describe_volumes(VolumeIds=[entry])["Volumes"]
    refused(ec2.describe_volume_status, "InvalidParameterCombination", VolumeIds=[entry], MaxResults=5)
    refused(ec2.modify_volume_attribute, "MissingParameter", VolumeId=entry)
    refused(ec2.describe_instance_types, "InvalidParameterCombination", InstanceTypes=["m5.large"], MaxResults=5)
    refused(ec2.describe_instance_types, "InvalidInstanceType", InstanceTypes=["m5.enormous"])
    refused(ec2.describe_instance_status, "InvalidInstanceID.Malformed", InstanceIds=["i-1"])
    refused(ec2.describe_instance_status, "InvalidInstanceID.NotFound", InstanceIds=["i-0123456789abcdef0"])
    refused(ec2.describe_instance_status, "InvalidParameterCombination", InstanceIds=[lab.instance], MaxResults=5)
    attribute = {"Attribute": "instanceType"}
    refused(ec2.describe_instance_attribute, "InvalidInstanceID.Malformed", InstanceId="i-1", **attribute)
    refused(
        ec2.describe_instance_attribute, "InvalidInstanceID.NotFound", InstanceId="i-0123456789abcdef0", **attribute
    )
    refused(ec2.describe_snapshots, "InvalidParameterCombination", SnapshotIds=[gone], MaxResults=5)
    refused(ec2.describe_snapshots, "InvalidParameterValue", SnapshotIds=["vol-0123456789abcdef0"])
    zone, named = {"AvailabilityZones": [lab.zone]}, {"SourceSnapshotIds": [gone]}
    both = named | zone | {"AvailabilityZoneIds": ["use1-az1"]}
    refused(ec2.enable_fast_snapshot_restores, "InvalidParameterCombination", **both)
    refused(ec2.disable_fast_snapshot_restores, "InvalidParameterCombination", **both)
    refused(ec2.enable_fast_snapshot_restores, "MissingParameter", **named)
    refused(ec2.disable_fast_snapshot_restores, "MissingParameter", **named)
    refused(ec2.describe_fast_snapshot_restores, "InvalidParameterValue", Filters=[{"Name": "colour", "Values": ["x"]}])
    refused(ec2.describe_locked_snapshots, "InvalidParameterValue", SnapshotIds=["vol-0123456789abcdef0"])
    refused(ec2.describe_snapshot_tier_status, "InvalidParameterValue", NextToken="bm90IG91cnM=")
    refused(ec2.list_snapshots_in_recycle_bin, "InvalidParameterValue", SnapshotIds=["vol-0123456789abcdef0"])
    refused(ec2.delete_tags, "InvalidID", Resources=["colour"], Tags=[{"Key": "a"}])
    refused(ec2.delete_tags, "InvalidParameterValue", Resources=[entry] * 1001, Tags=[{"Key": "a"}])
    refused(ec2.delete_tags, "MissingParameter", Resources=[])
    instance = {"InstanceSpecification": {"InstanceId": lab.instance}}
    refused(ec2.create_snapshots, "UnsupportedOperation", Location="local", **instance)
    refused(ec2.copy_snapshot, "InvalidSnapshot.NotFound", SourceSnapshotId=gone, SourceRegion=lab.region)
    refused(
        ec2.copy_snapshot, "InvalidParameterValue", SourceSnapshotId="vol-0123456789abcdef0", SourceRegion=lab.region
    )
    codes = {"SnapshotId": gone, "Attribute": "productCodes"}
    refused(ec2.describe_snapshot_attribute, "InvalidSnapshot.NotFound", **codes)
    refused(ec2.modify_snapshot_attribute, "InvalidParameterValue", **codes)
    refused(ec2.reset_snapshot_attribute, "InvalidParameterValue", **codes)
    colour = {"SnapshotId": gone, "Attribute": "colour"}
    refused(ec2.describe_snapshot_attribute, "InvalidParameterValue", **colour)
    missing = f"arn:aws:kms:{lab.region}:000000000000:key/00000000-0000-0000-0000-000000000000"
    refused(ec2.modify_ebs_default_kms_key_id, "InvalidKMSKey.NotFound", KmsKeyId=missing)
    assert ec2.describe_volumes(VolumeIds=[entry])["Volumes"] == before


def test_volumes_that_are_not_there(ec2, lab):
    there = volume(ec2, lab)
    message = refused(ec2.describe_volumes, "InvalidVolume.NotFound", VolumeIds=[GONE, there, OTHER])
    assert GONE in message and OTHER in message and there not in message, (
        "the CSI driver takes the missing ids out of the text"
    )
    for call, more in (
        (ec2.delete_volume, {}),
        (ec2.modify_volume, {"Size": 5}),
        (ec2.attach_volume, {"Device": "/dev/sdf", "InstanceId": lab.instance}),
        (ec2.detach_volume, {}),
        (ec2.describe_volume_attribute, {"Attribute": "autoEnableIO"}),
        (ec2.modify_volume_attribute, {"AutoEnableIO": {"Value": True}}),
        (ec2.enable_volume_io, {}),
    ):
        refused(call, "InvalidVolume.NotFound", GONE, VolumeId=GONE, **more)
        refused(call, "InvalidParameterValue", "vol-...", VolumeId="data", **more)
    refused(ec2.describe_volume_status, "InvalidVolume.NotFound", GONE, VolumeIds=[GONE])
    refused(ec2.describe_volumes_modifications, "InvalidVolume.NotFound", GONE, VolumeIds=[GONE])
    refused(ec2.describe_volumes_modifications, "InvalidVolumeModification.NotFound", there, VolumeIds=[there])
    refused(ec2.create_tags, "InvalidVolume.NotFound", GONE, Resources=[there, GONE], Tags=[{"Key": "a", "Value": "b"}])
    assert "Tags" not in ec2.describe_volumes(VolumeIds=[there])["Volumes"][0], "of all, or of none"


def test_a_lab_knows_volumes_by_names_and_ec2_does_not(ec2, lab):
    lab.lab.create("gp3:1", name="shop")
    refused(ec2.delete_volume, "InvalidParameterValue", "shop", VolumeId="shop")
    refused(ec2.create_tags, "InvalidID", "shop", Resources=["shop"], Tags=[{"Key": "a", "Value": "b"}])


def test_dry_runs_are_decided_and_not_done(ec2, lab):
    new_volume = volume(ec2, lab)
    before = ec2.describe_volumes()["Volumes"]
    for call, params in (
        (ec2.create_volume, {"Size": 1, "AvailabilityZone": lab.zone}),
        (ec2.delete_volume, {"VolumeId": new_volume}),
        (ec2.modify_volume, {"VolumeId": new_volume, "Size": 5}),
        (ec2.attach_volume, {"VolumeId": new_volume, "Device": "/dev/sdf", "InstanceId": lab.instance}),
        (ec2.create_tags, {"Resources": [new_volume], "Tags": [{"Key": "a", "Value": "b"}]}),
        (ec2.modify_volume_attribute, {"VolumeId": new_volume, "AutoEnableIO": {"Value": True}}),
        (ec2.enable_volume_io, {"VolumeId": new_volume}),
        (ec2.delete_tags, {"Resources": [new_volume], "Tags": [{"Key": "a"}]}),
        (ec2.describe_volumes, {}),
        (ec2.describe_volume_status, {}),
        (ec2.describe_volume_attribute, {"VolumeId": new_volume, "Attribute": "autoEnableIO"}),
        (ec2.describe_volumes_modifications, {}),
        (ec2.describe_tags, {}),
        (ec2.describe_instances, {}),
        (ec2.describe_instance_status, {}),
        (ec2.describe_instance_types, {}),
        (ec2.describe_instance_attribute, {"InstanceId": lab.instance, "Attribute": "instanceType"}),
        (ec2.describe_availability_zones, {}),
        (ec2.describe_regions, {}),
    ):
        refused(call, "DryRunOperation", "Request would have succeeded", **params, DryRun=True)
    assert ec2.describe_volumes()["Volumes"] == before
    # A mistake is named before the dry run is, so that limits can be found by dry runs.
    wrong = {"Size": 4, "Iops": 2147483647, "AvailabilityZone": lab.zone, "DryRun": True}
    refused(ec2.create_volume, "InvalidParameterValue", "iops of 2147483647 is too high", **wrong, VolumeType="gp3")
    refused(ec2.detach_volume, "IncorrectState", "'available'", VolumeId=new_volume, DryRun=True)


def test_one_token_makes_one_volume(ec2, lab):
    given = {"Size": 3, "AvailabilityZone": lab.zone, "ClientToken": "terraform-1"}
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: lab.client("ec2").create_volume(**given)["VolumeId"], range(16)))
    assert len(set(ids)) == 1
    refused(ec2.create_volume, "IdempotentParameterMismatch", **{**given, "Size": 4})
    assert ec2.create_volume(**{**given, "ClientToken": "terraform-2"})["VolumeId"] != ids[0]


def test_tags_are_added_and_removed_by_key_and_by_value(ec2, lab):
    entry, two = volume(ec2, lab, {"a": "1", "b": "2", "c": ""}), volume(ec2, lab, {"a": "x"})

    def tags(which: str) -> dict[str, str]:
        rows = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [which]}])["Tags"]
        assert all(row["ResourceType"] == "volume" and row["ResourceId"] == which for row in rows)
        return {row["Key"]: row["Value"] for row in rows}

    ec2.create_tags(Resources=[entry, two], Tags=[{"Key": "a", "Value": "9"}, {"Key": "d", "Value": "4"}])
    assert tags(entry) == {"a": "9", "b": "2", "c": "", "d": "4"} and tags(two) == {"a": "9", "d": "4"}
    ec2.delete_tags(
        Resources=[entry, two], Tags=[{"Key": "a", "Value": "other"}, {"Key": "d"}, {"Key": "b", "Value": "2"}]
    )
    assert tags(entry) == {"a": "9", "c": ""} and tags(two) == {"a": "9"}
    ec2.delete_tags(Resources=[entry])
    assert tags(entry) == {} and tags(two) == {"a": "9"}
    pair = {"Key": "a", "Value": "b"}
    refused(ec2.create_tags, "InvalidParameterValue", "Duplicate", Resources=[entry], Tags=[pair, pair])
    refused(ec2.create_tags, "MissingParameter", Resources=[entry], Tags=[])
    refused(ec2.create_tags, "InvalidParameterValue", Resources=[entry], Tags=[{"Key": "aws:x", "Value": "b"}])
    many = [{"Key": f"k{number}", "Value": ""} for number in range(51)]
    refused(ec2.create_tags, "TagLimitExceeded", "50", Resources=[entry], Tags=many)
    wrong = [{"ResourceType": "snapshot", "Tags": [pair]}]
    given = {"Size": 1, "AvailabilityZone": lab.zone}
    refused(ec2.create_volume, "InvalidParameterValue", "'snapshot'", **given, TagSpecifications=wrong)


def test_zones_regions_and_the_one_instance(ec2, lab):
    (zone,) = ec2.describe_availability_zones(ZoneNames=[lab.zone], AllAvailabilityZones=True)["AvailabilityZones"]
    assert ec2.describe_availability_zones(ZoneIds=[zone["ZoneId"]])["AvailabilityZones"] == [zone]
    refused(ec2.describe_availability_zones, "InvalidParameterValue", ZoneNames=["eu-west-9z"])
    refused(ec2.create_volume, "InvalidZone.NotFound", Size=1, AvailabilityZone="eu-west-9z")
    refused(ec2.create_volume, "MissingParameter", Size=1)
    assert [region["RegionName"] for region in ec2.describe_regions(AllRegions=False)["Regions"]] == [lab.region]
    refused(ec2.describe_regions, "InvalidParameterValue", RegionNames=["eu-west-9"])
    by_state = [{"Name": "instance-state-name", "Values": ["running"]}]
    (instance,) = ec2.describe_instances(InstanceIds=[lab.instance], Filters=by_state)["Reservations"][0]["Instances"]
    assert instance["InstanceType"] == "m5.2xlarge" and instance["State"]["Name"] == "running"
    assert ec2.describe_instances(Filters=[{"Name": "vpc-id", "Values": ["*"]}], MaxResults=5)["Reservations"] == []
    refused(ec2.describe_instances, "InvalidInstanceID.NotFound", InstanceIds=["i-0123456789abcdef0"])
    refused(ec2.describe_instances, "InvalidInstanceID.Malformed", InstanceIds=["here"])
    refused(ec2.describe_instances, "InvalidParameterCombination", InstanceIds=[lab.instance], MaxResults=5)
    (status,) = ec2.describe_instance_status(InstanceIds=[lab.instance], IncludeAllInstances=True)["InstanceStatuses"]
    assert status["InstanceStatus"]["Status"] == "ok"
    attribute = ec2.describe_instance_attribute(InstanceId=lab.instance, Attribute="instanceType")
    assert attribute["InstanceType"]["Value"] == "m5.2xlarge"
    refused(ec2.describe_instance_attribute, "UnsupportedOperation", InstanceId=lab.instance, Attribute="userData")
    (kind,) = ec2.describe_instance_types(InstanceTypes=["m5.2xlarge"])["InstanceTypes"]
    # AWS's own figures of m5.2xlarge: 2,300 to 4,750 Mbit/s, 12,000 to 18,750 IOPS.
    ebs_optimized_info = kind["EbsInfo"]["EbsOptimizedInfo"]
    assert (ebs_optimized_info["BaselineBandwidthInMbps"], ebs_optimized_info["MaximumBandwidthInMbps"]) == (2300, 4750)
    assert (ebs_optimized_info["BaselineIops"], ebs_optimized_info["MaximumIops"]) == (12_000, 18_750)
    refused(ec2.describe_instance_types, "InvalidInstanceType", "m9.huge", InstanceTypes=["m9.huge"])
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": ["m5.*"]}]
    )
    names = [instance_type["InstanceType"] for page in pages for instance_type in page["InstanceTypes"]]
    assert "m5.large" in names and names == sorted(set(names))
    refused(ec2.describe_instance_types, "UnsupportedOperation", IncludeUnsupportedInRegion=True)
    refused(ec2.run_instances, "UnsupportedOperation", "starts no others", ImageId="ami-1", MinCount=1, MaxCount=1)
    refused(ec2.stop_instances, "UnsupportedOperation", "does not stop it", InstanceIds=[lab.instance])
    refused(ec2.describe_vpcs, "UnsupportedOperation")


def test_attach_status_attribute_detach(ec2, lab):
    data, other, instance = volume(ec2, lab), volume(ec2, lab), lab.instance
    place = {"InstanceId": instance, "Device": "/dev/sdk"}
    refused(ec2.detach_volume, "IncorrectState", "'available'", VolumeId=data)
    refused(
        ec2.attach_volume,
        "InvalidInstanceID.NotFound",
        VolumeId=data,
        InstanceId="i-0123456789abcdef0",
        Device="/dev/sdk",
    )
    refused(ec2.attach_volume, "InvalidParameterValue", "device", VolumeId=data, InstanceId=instance, Device="x")
    refused(ec2.attach_volume, "InvalidParameterValue", "card", VolumeId=data, **place, EbsCardIndex=1)
    assert ec2.attach_volume(VolumeId=data, **place)["State"] in ("attaching", "attached")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[data], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    refused(ec2.attach_volume, "InvalidParameterValue", "is already in use", VolumeId=other, **place)
    refused(ec2.attach_volume, "VolumeInUse", "already attached", VolumeId=data, InstanceId=instance, Device="/dev/sdl")
    refused(ec2.delete_volume, "VolumeInUse", VolumeId=data)
    filters = [
        {"Name": "attachment.instance-id", "Values": [instance]},
        {"Name": "attachment.device", "Values": ["/dev/sdk"]},
    ]
    (description,) = ec2.describe_volumes(VolumeIds=[data], Filters=filters)["Volumes"]
    assert description["State"] == "in-use" and description["Attachments"][0]["Device"] == "/dev/sdk"
    assert ec2.describe_volumes(VolumeIds=[other], Filters=filters)["Volumes"] == []
    (status,) = ec2.describe_volume_status(VolumeIds=[data])["VolumeStatuses"]
    details = {detail["Name"]: detail["Status"] for detail in status["VolumeStatus"]["Details"]}
    assert details == {"io-enabled": "passed", "io-performance": "normal", "initialization-state": "completed"}
    ok = [{"Name": "volume-status.status", "Values": ["ok"]}]
    assert any(
        volume_statuse["VolumeId"] == data
        for volume_statuse in ec2.describe_volume_status(Filters=ok)["VolumeStatuses"]
    )
    ec2.modify_volume_attribute(VolumeId=data, AutoEnableIO={"Value": True})
    assert ec2.describe_volume_attribute(VolumeId=data, Attribute="autoEnableIO")["AutoEnableIO"] == {"Value": True}
    assert ec2.describe_volume_attribute(VolumeId=data, Attribute="productCodes")["ProductCodes"] == []
    ec2.enable_volume_io(VolumeId=data)
    refused(ec2.detach_volume, "InvalidAttachment.NotFound", VolumeId=data, InstanceId=instance, Device="/dev/sdm")
    assert ec2.detach_volume(VolumeId=data, InstanceId=instance, Device="/dev/sdk", Force=False)["VolumeId"] == data
    ec2.get_waiter("volume_available").wait(VolumeIds=[data], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    ec2.delete_volume(VolumeId=data)
    ec2.get_waiter("volume_deleted").wait(VolumeIds=[data], WaiterConfig={"Delay": 1, "MaxAttempts": 60})


def test_modifications_go_on_record(ec2, lab):
    data = volume(ec2, lab, Size=10)
    refused(ec2.modify_volume, "InvalidParameterValue", "smaller", VolumeId=data, Size=9)
    refused(ec2.modify_volume, "UnknownVolumeType", "gp9", VolumeId=data, VolumeType="gp9")
    refused(ec2.modify_volume, "UnsupportedOperation", "Multi-Attach", VolumeId=data, MultiAttachEnabled=True)
    changed = ec2.modify_volume(VolumeId=data, Size=12, Iops=3500, Throughput=200)["VolumeModification"]
    assert (changed["OriginalSize"], changed["TargetSize"], changed["TargetIops"]) == (10, 12, 3500)
    paginator = ec2.get_paginator("describe_volumes_modifications")
    rows = [
        volumes_modification
        for page in paginator.paginate(PaginationConfig={"PageSize": 1})
        for volumes_modification in page["VolumesModifications"]
    ]
    assert [row["VolumeId"] for row in rows if row["VolumeId"] == data] == [data]
    filters = [{"Name": "target-size", "Values": ["12"]}, {"Name": "volume-id", "Values": [data]}]
    (entry,) = ec2.describe_volumes_modifications(Filters=filters, VolumeIds=[data])["VolumesModifications"]
    assert entry["ModificationState"] in ("modifying", "optimizing", "completed") and entry["TargetThroughput"] == 200


def allow(action: str | list[str], **more: Any) -> dict:
    return {"Effect": "Allow", "Action": action, "Resource": "*", **more}


def test_users_may_do_what_their_policies_say(ec2, lab):
    mine = {"StringEquals": {"aws:ResourceTag/owner": "${aws:username}"}}
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            allow(["ec2:DescribeVolumes", "ec2:DescribeTags"]),
            allow("ec2:CreateVolume", Condition={"NumericLessThanEquals": {"ec2:VolumeSize": "5"}}),
            allow("ec2:CreateTags", Condition={"StringEquals": {"ec2:CreateAction": "CreateVolume"}}),
            allow(["ec2:DeleteVolume", "ec2:ModifyVolume"], Condition=mine),
            {
                "Effect": "Deny",
                "Action": "ec2:*",
                "Resource": "*",
                "Condition": {"StringEquals": {"ec2:VolumeType": "io2"}},
            },
        ],
    }
    ann = lab.client("ec2", lab.user("ann", policy))
    tagged = [{"ResourceType": "volume", "Tags": [{"Key": "owner", "Value": "ann"}]}]
    _eventually(ann.describe_volumes)
    volume_id = ann.create_volume(Size=5, AvailabilityZone=lab.zone, TagSpecifications=tagged)["VolumeId"]
    other = volume(ec2, lab, {"owner": "bob"})
    message = refused(ann.delete_volume, "UnauthorizedOperation", "ec2:DeleteVolume", VolumeId=other)
    assert f"volume/{other}" in message and "user/ann" in message
    refused(ann.delete_volume, "UnauthorizedOperation", VolumeId=GONE)
    refused(ann.create_volume, "UnauthorizedOperation", Size=6, AvailabilityZone=lab.zone)
    refused(
        ann.create_volume,
        "UnauthorizedOperation",
        "explicit deny",
        Size=4,
        VolumeType="io2",
        Iops=100,
        AvailabilityZone=lab.zone,
    )
    refused(ann.create_volume, "UnauthorizedOperation", Size=6, AvailabilityZone=lab.zone, DryRun=True)
    refused(ann.create_tags, "UnauthorizedOperation", Resources=[other], Tags=[{"Key": "owner", "Value": "ann"}])
    refused(ann.describe_instances, "UnauthorizedOperation")
    refused(ann.attach_volume, "UnauthorizedOperation", VolumeId=volume_id, InstanceId=lab.instance, Device="/dev/sdz")
    ann.delete_volume(VolumeId=volume_id)
    sts = lab.client("sts", (ann._request_signer._credentials.access_key, ann._request_signer._credentials.secret_key))
    assert sts.get_caller_identity()["Arn"].endswith(":user/ann")
    lab.headrace("lab", "user", "ann", "--remove", "--yes")
    _eventually(lambda: refused(ann.describe_volumes, "AuthFailure"))


def _eventually(call) -> None:
    """The endpoint takes changed keys within a second; what a busy machine adds."""

    def is_so() -> bool:
        try:
            call()
        except (ClientError, pytest.fail.Exception):
            return False
        return True

    wait_until(is_so, "keys that the endpoint has read again")


def test_requests_that_are_not_signed_well_are_refused(lab):
    stranger = lab.client("ec2", ("LABKZZZZZZZZZZZZZZZZ", "secret"))
    refused(stranger.describe_volumes, "AuthFailure")
    root = lab._profile("AWS_SHARED_CREDENTIALS_FILE")["headrace"]["aws_access_key_id"]
    refused(lab.client("ec2", (root, "wrong")).describe_volumes, "SignatureDoesNotMatch")
    refused(lab.client("sts", (root, "wrong")).get_caller_identity, "SignatureDoesNotMatch")
    refused(lab.client("kms", (root, "wrong")).list_keys, "InvalidSignatureException")


def test_what_a_lab_has_none_of(ec2):
    assert ec2.describe_images(Owners=["self"], MaxResults=5)["Images"] == []
    by_tag = [{"Name": "tag:Name", "Values": ["*"]}, {"Name": "block-device-mapping.snapshot-id", "Values": ["snap-*"]}]
    assert ec2.describe_images(Filters=by_tag)["Images"] == []
    refused(ec2.describe_images, "InvalidParameterValue", Filters=[{"Name": "nonsense", "Values": ["1"]}])
    refused(ec2.describe_images, "InvalidParameterValue", MaxResults=5, NextToken="bm90IG91cnM=")
    refused(ec2.describe_images, "InvalidAMIID.NotFound", ImageIds=["ami-0123456789abcdef0"])
    refused(ec2.describe_images, "InvalidAMIID.Malformed", ImageIds=["image"])
    refused(ec2.describe_images, "DryRunOperation", DryRun=True)
    (account_attribute,) = ec2.describe_account_attributes(AttributeNames=["default-vpc"])["AccountAttributes"]
    assert account_attribute["AttributeValues"] == [{"AttributeValue": "none"}]
    assert len(ec2.describe_account_attributes()["AccountAttributes"]) == 6
    refused(ec2.describe_account_attributes, "InvalidParameterValue", AttributeNames=["max-wishes"])
    refused(ec2.describe_account_attributes, "DryRunOperation", DryRun=True)


def test_a_tag_specification_without_tags_is_refused(lab: AwsLab):
    """boto3 sends an empty list as nothing: the specification arrives with its resource type alone."""
    ec2, sent = lab.client("ec2"), []
    ec2.meta.events.register("before-send.ec2.CreateVolume", lambda request, **_: sent.append(request.body))
    empty = [{"ResourceType": "volume", "Tags": []}]
    words = "at least one tag"
    refused(
        ec2.create_volume, "InvalidParameterValue", words, Size=1, AvailabilityZone=lab.zone, TagSpecifications=empty
    )
    [body] = sent
    text = body.decode() if isinstance(body, bytes) else body
    assert "TagSpecification.1.ResourceType=volume" in text and "TagSpecification.1.Tag" not in text, text
