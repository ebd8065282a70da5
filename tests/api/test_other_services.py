"""Answers to clients that ask a lab for a service it does not have, and answers of a lab without an
instance type. Clients and policies are the real ones: boto3, the aws cli, and requests that Cloud
Custodian sends.
"""

from __future__ import annotations

import pytest
from aws_labs import AwsLab
from botocore.exceptions import ClientError

# A call of each protocol: query, rest-json, rest-xml (S3 and another), json 1.0 and 1.1, rpc-v2-cbor
# or json as botocore chooses.
CALLS = [
    ("iam", "list_users", {}),
    ("autoscaling", "describe_auto_scaling_groups", {}),
    ("dlm", "get_lifecycle_policies", {}),
    ("lambda", "list_functions", {}),
    ("s3", "list_buckets", {}),
    ("s3", "get_object", {"Bucket": "backups", "Key": "a/b"}),
    ("s3", "put_object", {"Bucket": "backups", "Key": "a/b", "Body": b"data"}),
    ("route53", "list_hosted_zones", {}),
    ("dynamodb", "list_tables", {}),
    ("resourcegroupstaggingapi", "get_resources", {}),
    ("logs", "describe_log_groups", {}),
    ("sqs", "list_queues", {}),
]


@pytest.mark.parametrize(("service", "call", "parameters"), CALLS)
def test_another_service_is_told_what_the_lab_serves(shared: AwsLab, service: str, call: str, parameters: dict):
    with pytest.raises(ClientError) as raised:
        getattr(shared.client(service), call)(**parameters)
    error = raised.value.response["Error"]
    assert error["Code"] == "UnsupportedOperation"
    assert "The lab serves ec2, monitoring (CloudWatch), kms, sts and ebs" in error["Message"]
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400, "SDKs try statuses of 5xx again"


def test_the_aws_cli_says_it_too(shared: AwsLab):
    for words in (("iam", "list-users"), ("s3api", "list-buckets"), ("dlm", "get-lifecycle-policies")):
        message = shared.aws(*words, code=255)
        assert "The lab serves ec2" in message and "SignatureDoesNotMatch" not in message


def test_an_instance_always_has_a_type_that_exists(shared: AwsLab):
    """Cloud Custodian's filter `modifyable` reads `InstanceType` of every instance."""
    ec2 = shared.client("ec2")
    [reservation] = ec2.describe_instances()["Reservations"]
    [instance] = reservation["Instances"]
    [instance_type] = ec2.describe_instance_types(InstanceTypes=[instance["InstanceType"]])["InstanceTypes"]
    assert instance_type["Hypervisor"] == "nitro" and instance_type["ProcessorInfo"]["SupportedArchitectures"] == [
        "x86_64"
    ]
    attribute = ec2.describe_instance_attribute(InstanceId=shared.instance, Attribute="instanceType")
    assert attribute["InstanceType"]["Value"] == instance["InstanceType"]
    # The instance's limits are not imposed: the lab has none.
    assert shared.lab.status()["instance_type"] is None


def test_what_custodian_asks_before_it_modifies_and_cleans(shared: AwsLab):
    """Cloud Custodian 0.9, c7n/resources/ebs.py: `modify` of volumes, `delete` of snapshots with
    `skip-ami-snapshots`.
    """
    ec2 = shared.client("ec2")
    volume = ec2.create_volume(AvailabilityZone=shared.zone, Size=1, VolumeType="gp2")["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume], WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
    attached = ec2.attach_volume(VolumeId=volume, InstanceId=shared.instance, Device="/dev/sdf")
    assert attached["State"] == "attaching"
    [details] = ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
    instances = [attachment["InstanceId"] for attachment in details["Attachments"] if attachment["State"] == "attached"]
    [reservation] = ec2.describe_instances(InstanceIds=instances)["Reservations"]
    assert all("InstanceType" in instance for instance in reservation["Instances"])
    modified = ec2.modify_volume(VolumeId=volume, VolumeType="gp3")["VolumeModification"]
    assert modified["TargetVolumeType"] == "gp3"
    snapshot = ec2.create_snapshot(VolumeId=volume)["SnapshotId"]
    ec2.get_waiter("snapshot_completed").wait(SnapshotIds=[snapshot], WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
    images = ec2.describe_images(Owners=["self"])["Images"]
    used = {
        block_device_mapping["Ebs"]["SnapshotId"]
        for image in images
        for block_device_mapping in image["BlockDeviceMappings"]
        if "Ebs" in block_device_mapping
    }
    assert snapshot not in used
    ec2.delete_snapshot(SnapshotId=snapshot)
    ec2.detach_volume(VolumeId=volume)


@pytest.fixture(scope="module")
def shared():
    from lab_folders import Labs

    labs = Labs()
    try:
        yield AwsLab(labs)
    finally:
        labs.close()
