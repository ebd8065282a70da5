// The volume recipe with the AWS SDK for JavaScript v3, as a program would write it: configuration, waiters and
// paginators are the SDK's own. It stops at the first thing that is not as the SDK promises it.
//
//     node recipe.mjs INSTANCE_ID DEVICE
//
// Endpoint, credentials and region come from the usual places (AWS_PROFILE, AWS_CONFIG_FILE, ...). What it made is
// printed as one JSON object, which the test holds against the lab.

import assert from "node:assert/strict";
import { CloudWatchClient, ListMetricsCommand } from "@aws-sdk/client-cloudwatch";
import {
  AttachVolumeCommand,
  CreateSnapshotCommand,
  CreateVolumeCommand,
  DeleteSnapshotCommand,
  DeleteVolumeCommand,
  DescribeVolumesCommand,
  DetachVolumeCommand,
  EC2Client,
  ModifyVolumeCommand,
  paginateDescribeVolumes,
  waitUntilSnapshotCompleted,
  waitUntilVolumeAvailable,
  waitUntilVolumeDeleted,
  waitUntilVolumeInUse,
} from "@aws-sdk/client-ec2";

const VOLUMES = 6;
const PAGE = 5; // the smallest that DescribeVolumes allows, so that there are two pages
const [instance, device] = process.argv.slice(2);
const ec2 = new EC2Client({});
// Seconds. The SDK's own pace is 15 s, which is AWS's and not the lab's; a minute is a guess for a busy machine.
const waiting = { client: ec2, minDelay: 1, maxDelay: 1, maxWaitTime: 60 };

async function create(zone) {
  const ids = [];
  for (let number = 0; number < VOLUMES; number++) {
    const order = {
      AvailabilityZone: zone,
      Size: 8,
      VolumeType: "gp3",
      Iops: 4000,
      ClientToken: `js-${number}`,
      TagSpecifications: [{ ResourceType: "volume", Tags: [{ Key: "made-by", Value: "js" }] }],
    };
    const { VolumeId } = await ec2.send(new CreateVolumeCommand(order));
    ids.push(VolumeId);
    if (number === 0) {
      const again = await ec2.send(new CreateVolumeCommand(order));
      assert.equal(again.VolumeId, VolumeId, "the same token makes the same volume");
    }
  }
  await waitUntilVolumeAvailable(waiting, { VolumeIds: ids });
  return ids;
}

async function list(ids) {
  const pages = [];
  const found = new Set();
  const query = { Filters: [{ Name: "tag:made-by", Values: ["j?"] }] };
  for await (const page of paginateDescribeVolumes({ client: ec2, pageSize: PAGE }, query)) {
    pages.push(page.Volumes.length);
    for (const volume of page.Volumes) {
      assert.deepEqual([volume.Size, volume.Iops, volume.VolumeType], [8, 4000, "gp3"]);
      assert.ok(volume.CreateTime instanceof Date);
      found.add(volume.VolumeId);
    }
  }
  assert.deepEqual([...found].sort(), [...ids].sort());
  return pages;
}

async function use(id) {
  const one = { VolumeIds: [id] };
  await ec2.send(new AttachVolumeCommand({ VolumeId: id, InstanceId: instance, Device: device }));
  await waitUntilVolumeInUse(waiting, one);
  const { VolumeModification: change } = await ec2.send(new ModifyVolumeCommand({ VolumeId: id, Size: 9 }));
  assert.deepEqual([change.OriginalSize, change.TargetSize], [8, 9]);
  const { SnapshotId } = await ec2.send(new CreateSnapshotCommand({ VolumeId: id, Description: "by JavaScript" }));
  await waitUntilSnapshotCompleted(waiting, { SnapshotIds: [SnapshotId] });
  await ec2.send(new DetachVolumeCommand({ VolumeId: id, InstanceId: instance, Device: device }));
  await waitUntilVolumeAvailable(waiting, one);
  return SnapshotId;
}

async function refused(id) {
  const code = async (command) => {
    try {
      await ec2.send(command);
    } catch (error) {
      return error.name;
    }
    return assert.fail("this should have been refused");
  };
  return {
    "a volume that is not": await code(new DescribeVolumesCommand({ VolumeIds: [`vol-0${"f".repeat(16)}`] })),
    "a dry run": await code(new DeleteVolumeCommand({ VolumeId: id, DryRun: true })),
    "a smaller size": await code(new ModifyVolumeCommand({ VolumeId: id, Size: 1 })),
  };
}

async function remove(ids, snapshot) {
  await ec2.send(new DeleteSnapshotCommand({ SnapshotId: snapshot }));
  for (const id of ids) {
    await ec2.send(new DeleteVolumeCommand({ VolumeId: id }));
  }
  await Promise.all(ids.map((id) => waitUntilVolumeDeleted(waiting, { VolumeIds: [id] })));
}

const volumes = await create(`${await ec2.config.region()}a`);
const pages = await list(volumes);
const snapshot = await use(volumes[0]);
const codes = await refused(volumes[0]);
await new CloudWatchClient({}).send(new ListMetricsCommand({ Namespace: "AWS/EBS" }));
await remove(volumes, snapshot);
console.log(JSON.stringify({ volumes, snapshot, pages, refused: codes }));
