// The volume recipe with aws-sdk-go-v2, as a Go program would write it: configuration, waiters and
// paginators are the SDK's own. It stops at the first thing that is not as the SDK promises it.
//
//	recipe ENDPOINT INSTANCE_ID DEVICE
//
// Credentials and region come from the usual places (AWS_PROFILE, AWS_CONFIG_FILE, ...). What it
// made is printed as one JSON object, which the test holds against the lab.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

const (
	// At which the SDK's waiters ask again (theirs is 15 s, which is AWS's pace and not the lab's).
	poll = 200 * time.Millisecond
	// How long they ask (a guess: a lab on a busy machine takes seconds).
	patience = time.Minute
	volumes  = 6
	// The smallest page that DescribeVolumes allows, so that there are two.
	page = 5
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "recipe ENDPOINT INSTANCE_ID DEVICE")
		os.Exit(2)
	}
	made, err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(made)
}

func run(ctx context.Context, endpoint, instance, device string) (map[string]any, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	compute := ec2.NewFromConfig(settings, func(o *ec2.Options) { o.EndpointResolver = ec2.EndpointResolverFromURL(endpoint) })
	watch := cloudwatch.NewFromConfig(settings, func(o *cloudwatch.Options) {
		o.EndpointResolver = cloudwatch.EndpointResolverFromURL(endpoint)
	})
	ids, err := create(ctx, compute, settings.Region+"a")
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	pages, err := list(ctx, compute, ids)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	snapshot, err := use(ctx, compute, ids[0], instance, device)
	if err != nil {
		return nil, fmt.Errorf("use: %w", err)
	}
	refusals, err := refused(ctx, compute, ids[0])
	if err != nil {
		return nil, fmt.Errorf("refused: %w", err)
	}
	if _, err := watch.ListMetrics(ctx, &cloudwatch.ListMetricsInput{Namespace: aws.String("AWS/EBS")}); err != nil {
		return nil, fmt.Errorf("ListMetrics: %w", err)
	}
	if err := remove(ctx, compute, ids, snapshot); err != nil {
		return nil, fmt.Errorf("remove: %w", err)
	}
	return map[string]any{"volumes": ids, "snapshot": snapshot, "pages": pages, "refused": refusals}, nil
}

// create makes the volumes, each with a client token and tags; the first call is made twice.
func create(ctx context.Context, compute *ec2.Client, zone string) ([]string, error) {
	var ids []string
	for number := 0; number < volumes; number++ {
		input := &ec2.CreateVolumeInput{
			AvailabilityZone: aws.String(zone),
			Size:             aws.Int32(8),
			VolumeType:       types.VolumeTypeGp3,
			Iops:             aws.Int32(4000),
			ClientToken:      aws.String(fmt.Sprintf("go-%d", number)),
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeVolume,
				Tags:         []types.Tag{{Key: aws.String("made-by"), Value: aws.String("go")}},
			}},
		}
		volume, err := compute.CreateVolume(ctx, input)
		if err != nil {
			return nil, err
		}
		ids = append(ids, *volume.VolumeId)
		if number == 0 {
			again, err := compute.CreateVolume(ctx, input)
			if err != nil {
				return nil, err
			}
			if *again.VolumeId != ids[0] {
				return nil, fmt.Errorf("the same token made %s and %s", ids[0], *again.VolumeId)
			}
		}
	}
	waiter := ec2.NewVolumeAvailableWaiter(compute, func(o *ec2.VolumeAvailableWaiterOptions) { o.MinDelay, o.MaxDelay = poll, poll })
	return ids, waiter.Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience)
}

// list finds them by their tag, a page at a time.
func list(ctx context.Context, compute *ec2.Client, ids []string) ([]int, error) {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	var pages []int
	paginator := ec2.NewDescribeVolumesPaginator(compute, &ec2.DescribeVolumesInput{
		Filters:    []types.Filter{{Name: aws.String("tag:made-by"), Values: []string{"g?"}}},
		MaxResults: aws.Int32(page),
	})
	for paginator.HasMorePages() {
		one, err := paginator.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		pages = append(pages, len(one.Volumes))
		for _, volume := range one.Volumes {
			if *volume.Size != 8 || *volume.Iops != 4000 || volume.VolumeType != types.VolumeTypeGp3 {
				return nil, fmt.Errorf("%s is not as it was ordered", *volume.VolumeId)
			}
			delete(wanted, *volume.VolumeId)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("not listed: %v", wanted)
	}
	return pages, nil
}

// use attaches a volume, changes it, takes a snapshot of it and detaches it.
func use(ctx context.Context, compute *ec2.Client, id, instance, device string) (string, error) {
	ids := []string{id}
	_, err := compute.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &id, InstanceId: &instance, Device: &device})
	if err != nil {
		return "", err
	}
	inUse := ec2.NewVolumeInUseWaiter(compute, func(o *ec2.VolumeInUseWaiterOptions) { o.MinDelay, o.MaxDelay = poll, poll })
	if err := inUse.Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience); err != nil {
		return "", err
	}
	changed, err := compute.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(9)})
	if err != nil {
		return "", err
	}
	if *changed.VolumeModification.TargetSize != 9 || *changed.VolumeModification.OriginalSize != 8 {
		return "", fmt.Errorf("the modification is from %d to %d", *changed.VolumeModification.OriginalSize, *changed.VolumeModification.TargetSize)
	}
	snapshot, err := compute.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{VolumeId: &id, Description: aws.String("by Go")})
	if err != nil {
		return "", err
	}
	completed := ec2.NewSnapshotCompletedWaiter(compute, func(o *ec2.SnapshotCompletedWaiterOptions) { o.MinDelay, o.MaxDelay = poll, poll })
	if err := completed.Wait(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{*snapshot.SnapshotId}}, patience); err != nil {
		return "", err
	}
	if _, err := compute.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &id, InstanceId: &instance, Device: &device}); err != nil {
		return "", err
	}
	available := ec2.NewVolumeAvailableWaiter(compute, func(o *ec2.VolumeAvailableWaiterOptions) { o.MinDelay, o.MaxDelay = poll, poll })
	return *snapshot.SnapshotId, available.Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: ids}, patience)
}

// refused makes calls that AWS refuses, and gives the codes that the SDK read.
func refused(ctx context.Context, compute *ec2.Client, id string) (map[string]string, error) {
	codes := map[string]string{}
	note := func(what string, err error) error {
		var refusal smithy.APIError
		if !errors.As(err, &refusal) {
			return fmt.Errorf("%s: %v is no refusal", what, err)
		}
		codes[what] = refusal.ErrorCode()
		return nil
	}
	none := "vol-0" + strings.Repeat("f", 16)
	_, err := compute.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{none}})
	if err := note("a volume that is not", err); err != nil {
		return nil, err
	}
	_, err = compute.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id, DryRun: aws.Bool(true)})
	if err := note("a dry run", err); err != nil {
		return nil, err
	}
	_, err = compute.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &id, Size: aws.Int32(1)})
	return codes, note("a smaller size", err)
}

// remove deletes all of it and waits until it is gone.
func remove(ctx context.Context, compute *ec2.Client, ids []string, snapshot string) error {
	if _, err := compute.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &snapshot}); err != nil {
		return err
	}
	gone := ec2.NewVolumeDeletedWaiter(compute, func(o *ec2.VolumeDeletedWaiterOptions) { o.MinDelay, o.MaxDelay = poll, poll })
	for _, id := range ids {
		if _, err := compute.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(id)}); err != nil {
			return err
		}
		if err := gone.Wait(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}}, patience); err != nil {
			return err
		}
	}
	return nil
}
