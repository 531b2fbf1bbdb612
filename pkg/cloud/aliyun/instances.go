// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"k8s.io/utils/ptr"
)

const (
	// pageSize is the largest number of IDs in a DescribeInstances request, and of instances in its response.
	pageSize = 100
	// maxPages limits Find to 10,000 instances.
	maxPages = 100
	// creationTimeLayout is the layout of CreationTime.
	creationTimeLayout = "2006-01-02T15:04Z"
	// listAccessTTL is how long a check of the right to list instances is valid. Two answers that are further apart have a check each.
	listAccessTTL = 10 * time.Second
)

// Create creates an instance, which goes from Pending to Stopped, and returns its ID. Equal
// CreateRequests lead to equal parameters. ECS requires this for calls with the same ClientToken:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-createinstance
func (r *Region) Create(ctx context.Context, create CreateRequest) (string, error) {
	response := ecs.CreateCreateInstanceResponse()
	err := r.call(ctx, func() requests.AcsRequest { return createRequest(create) }, response)
	if err != nil {
		return "", err
	}
	if response.InstanceId == "" {
		return "", incomplete("CreateInstance", response.RequestId, "an InstanceId")
	}
	return response.InstanceId, nil
}

func createRequest(create CreateRequest) *ecs.CreateInstanceRequest {
	request := ecs.CreateCreateInstanceRequest()
	request.ClientToken = create.ClientToken
	request.InstanceName = create.Name
	request.InstanceType = create.Type
	request.ImageId = create.ImageID
	request.InstanceChargeType = create.ChargeType
	request.Period = integer(create.Period)
	request.PeriodUnit = create.PeriodUnit
	request.ZoneId = create.ZoneID
	request.VSwitchId = create.VSwitchID
	request.SecurityGroupId = create.SecurityGroupID
	request.KeyPairName = create.KeyPairName
	request.InternetMaxBandwidthOut = integer(create.InternetMaxBandwidthOut)
	if disk := create.SystemDisk; disk != nil {
		request.SystemDiskCategory = disk.Category
		request.SystemDiskPerformanceLevel = disk.PerformanceLevel
		request.SystemDiskSize = integer(disk.SizeGiB)
	}
	if len(create.DataDisks) > 0 {
		request.DataDisk = dataDisks(create.DataDisks)
	}
	if len(create.UserData) > 0 {
		request.UserData = base64.StdEncoding.EncodeToString(create.UserData)
	}
	tags := []ecs.CreateInstanceTag{}
	for _, key := range slices.Sorted(maps.Keys(create.Tags)) {
		tags = append(tags, ecs.CreateInstanceTag{Key: key, Value: create.Tags[key]})
	}
	request.Tag = &tags
	return request
}

func dataDisks(disks []Disk) *[]ecs.CreateInstanceDataDisk {
	wanted := []ecs.CreateInstanceDataDisk{}
	for _, disk := range disks {
		want := ecs.CreateInstanceDataDisk{
			Category:         disk.Category,
			PerformanceLevel: disk.PerformanceLevel,
			Size:             string(integer(disk.SizeGiB)),
			SnapshotId:       disk.SnapshotID,
		}
		if disk.Encrypted {
			want.Encrypted = "true"
		}
		if disk.KeepOnRelease {
			want.DeleteWithInstance = "false"
		}
		wanted = append(wanted, want)
	}
	return &wanted
}

// integer returns "" for 0: the SDK does not send empty parameters.
func integer(n int) requests.Integer {
	if n == 0 {
		return ""
	}
	return requests.Integer(strconv.Itoa(n))
}

// Describe returns the instances with these IDs, at most 100. An instance that it omits does not exist, or ECS does not show it yet.
func (r *Region) Describe(ctx context.Context, ids []string) ([]Instance, error) {
	switch {
	case len(ids) == 0: // To ECS, no ID means all instances.
		return nil, nil
	case len(ids) > pageSize:
		return nil, &Error{
			Action:  "DescribeInstances",
			Class:   Rejected,
			Message: fmt.Sprintf("a request takes %d IDs at most, got %d", pageSize, len(ids)),
		}
	}
	list, _ := json.Marshal(ids) // It cannot fail for strings.
	instances, err := r.describe(ctx, func(request *ecs.DescribeInstancesRequest) { request.InstanceIds = string(list) })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(instances, func(i Instance) bool { return !slices.Contains(ids, i.ID) }), nil
}

// Find returns all instances that have all of the tags. It returns an error if there are no tags.
func (r *Region) Find(ctx context.Context, tags map[string]string) ([]Instance, error) {
	if len(tags) == 0 {
		return nil, &Error{Action: "DescribeInstances", Class: Rejected, Message: "a search without tags would find all instances"}
	}
	filter := []ecs.DescribeInstancesTag{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filter = append(filter, ecs.DescribeInstancesTag{Key: key, Value: tags[key]})
	}
	return r.describe(ctx, func(request *ecs.DescribeInstancesRequest) { request.Tag = &filter })
}

// checkListAccess returns an error unless a dry run shows that the access key may list instances. A success is valid for listAccessTTL. ECS
// can answer a key without this right with an empty list:
// https://www.alibabacloud.com/help/en/ecs/announcement-of-changes-to-the-authentication-mechanism-for-alibaba-cloud-ecs-query-type-apis
func (r *Region) checkListAccess(ctx context.Context) error {
	key, fail := r.credentials(ctx)
	if fail != nil {
		return fail.during("DescribeInstances")
	}
	id := keyInRegion{key.identity(), r.name}
	shown, _ := r.cloud.listAccess.Get(id)
	if at, ok := shown.(time.Time); ok && r.cloud.clock.Since(at) < listAccessTTL {
		return nil
	}
	response := ecs.CreateDescribeInstancesResponse()
	start := r.cloud.clock.Now()
	err := r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateDescribeInstancesRequest()
		request.DryRun = requests.NewBoolean(true)
		return request
	}, response)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "DryRunOperation" {
		r.cloud.listAccess.Add(id, start)
		return nil
	}
	if err == nil {
		return incomplete("DescribeInstances", response.RequestId, "the code DryRunOperation")
	}
	return err
}

// describe reads all pages. Only NextToken shows that there is another page: TotalCount has no
// meaning when pages are requested by token. An empty result means that no instance matches.
func (r *Region) describe(ctx context.Context, filter func(*ecs.DescribeInstancesRequest)) ([]Instance, error) {
	found := []Instance{}
	seen := map[string]bool{}
	token := ""
	for range maxPages {
		response := ecs.CreateDescribeInstancesResponse()
		err := r.call(ctx, func() requests.AcsRequest {
			request := ecs.CreateDescribeInstancesRequest()
			request.MaxResults = requests.NewInteger(pageSize)
			request.NextToken = token
			filter(request)
			return request
		}, response)
		if err != nil {
			return nil, err
		}
		if response.Instances.Instance == nil { // A missing list does not mean that there are no instances.
			return nil, incomplete("DescribeInstances", response.RequestId, "a list of instances")
		}
		for i := range response.Instances.Instance {
			instance := instanceOf(&response.Instances.Instance[i])
			if instance.ID == "" {
				return nil, incomplete("DescribeInstances", response.RequestId, "the ID of an instance")
			}
			if !seen[instance.ID] { // If instances are deleted meanwhile, another can be on two pages.
				seen[instance.ID] = true
				found = append(found, instance)
			}
		}
		switch {
		case response.NextToken == "" && len(found) == 0:
			return found, r.checkListAccess(ctx)
		case response.NextToken == "":
			return found, nil
		case response.NextToken == token:
			return nil, incomplete("DescribeInstances", response.RequestId, "an end: its NextToken leads to the same page")
		}
		token = response.NextToken
	}
	return nil, &Error{Action: "DescribeInstances", Class: Transient, Message: fmt.Sprintf("the answer has more than %d pages", maxPages)}
}

func instanceOf(is *ecs.Instance) Instance {
	instance := Instance{
		ID:                 is.InstanceId,
		Name:               is.InstanceName,
		State:              State(is.Status),
		Type:               is.InstanceType,
		ImageID:            is.ImageId,
		ChargeType:         is.InstanceChargeType,
		ZoneID:             is.ZoneId,
		VSwitchID:          is.VpcAttributes.VSwitchId,
		KeyPairName:        is.KeyPairName,
		SecurityGroupIDs:   slices.Sorted(slices.Values(is.SecurityGroupIds.SecurityGroupId)),
		PrivateIPs:         slices.Concat(is.VpcAttributes.PrivateIpAddress.IpAddress, is.InnerIpAddress.IpAddress),
		PublicIPs:          slices.Clone(is.PublicIpAddress.IpAddress),
		Bandwidth:          is.InternetMaxBandwidthOut,
		Tags:               make(map[string]string, len(is.Tags.Tag)),
		DeletionProtection: is.DeletionProtection,
	}
	if is.EipAddress.IpAddress != "" {
		instance.PublicIPs = append(instance.PublicIPs, is.EipAddress.IpAddress)
	}
	for _, tag := range is.Tags.Tag {
		instance.Tags[tag.TagKey] = tag.TagValue
	}
	for _, lock := range is.OperationLocks.LockReason {
		instance.Locks = append(instance.Locks, lock.LockReason)
	}
	if created, err := time.Parse(creationTimeLayout, is.CreationTime); err == nil {
		instance.CreationTime = created
	}
	return instance
}

// Start starts a Stopped instance.
func (r *Region) Start(ctx context.Context, id string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateStartInstanceRequest()
		request.InstanceId = id
		return request
	}, ecs.CreateStartInstanceResponse())
}

// AllocateAddress gives an instance its public IP, unless it has one. The instance must be Running or Stopped. The IP has an effect once
// the instance starts: https://www.alibabacloud.com/help/en/elastic-compute-service/latest/allocatepublicipaddress
func (r *Region) AllocateAddress(ctx context.Context, id string) error {
	err := r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateAllocatePublicIpAddressRequest()
		request.InstanceId = id
		return request
	}, ecs.CreateAllocatePublicIpAddressResponse())
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "AllocatedAlready" {
		return nil
	}
	return err
}

// Stop shuts down a Running instance, like its power button.
func (r *Region) Stop(ctx context.Context, id string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateStopInstanceRequest()
		request.InstanceId = id
		return request
	}, ecs.CreateStopInstanceResponse())
}

// Delete releases a Stopped instance. With force, it also releases a Running one.
func (r *Region) Delete(ctx context.Context, id string, force bool) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateDeleteInstanceRequest()
		request.InstanceId = id
		if force {
			request.Force = requests.NewBoolean(true)
		}
		return request
	}, ecs.CreateDeleteInstanceResponse())
}

// SetType changes the instance type of a Stopped PostPaid instance.
func (r *Region) SetType(ctx context.Context, id, instanceType string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateModifyInstanceSpecRequest()
		request.InstanceId = id
		request.InstanceType = instanceType
		return request
	}, ecs.CreateModifyInstanceSpecResponse())
}

// Modify changes the name and the security groups of an instance, in any state. It leaves the
// name alone if the change has none or "", and the groups if the change lists none.
func (r *Region) Modify(ctx context.Context, id string, change Change) error {
	name := ptr.Deref(change.Name, "")
	if name == "" && len(change.SecurityGroupIDs) == 0 {
		return nil
	}
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateModifyInstanceAttributeRequest()
		request.InstanceId = id
		request.InstanceName = name
		request.SecurityGroupIds = &change.SecurityGroupIDs
		return request
	}, ecs.CreateModifyInstanceAttributeResponse())
}

// Tag sets tags of an instance. The other tags stay.
func (r *Region) Tag(ctx context.Context, id string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateTagResourcesRequest()
		request.ResourceType = "instance"
		request.ResourceId = &[]string{id}
		list := []ecs.TagResourcesTag{}
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			list = append(list, ecs.TagResourcesTag{Key: key, Value: tags[key]})
		}
		request.Tag = &list
		return request
	}, ecs.CreateTagResourcesResponse())
}

// Untag removes tags from an instance. It ignores tags that the instance does not have.
func (r *Region) Untag(ctx context.Context, id string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateUntagResourcesRequest()
		request.ResourceType = "instance"
		request.ResourceId = &[]string{id}
		request.TagKey = &keys
		return request
	}, ecs.CreateUntagResourcesResponse())
}
