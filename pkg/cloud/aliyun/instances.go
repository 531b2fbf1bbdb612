/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
)

const (
	// pageSize is the most that DescribeInstances gives, and takes IDs of, at once.
	pageSize = 100
	// maxPages bounds a Find: an answer of ten thousand instances is no answer.
	maxPages = 100
	// minutes is the layout of CreationTime.
	minutes = "2006-01-02T15:04Z"
)

// Create makes an instance, which goes from Pending to Stopped, and returns its ID. The same
// request twice has the same parameters, as ClientToken needs it:
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

// integer returns "" for 0: what is empty is not sent.
func integer(n int) requests.Integer {
	if n == 0 {
		return ""
	}
	return requests.Integer(strconv.Itoa(n))
}

// Describe returns those of at most 100 instances that are there: what it does not return
// is not there, or not yet.
func (r *Region) Describe(ctx context.Context, ids []string) ([]Instance, error) {
	switch {
	case len(ids) == 0: // To ECS, no ID means all instances.
		return nil, nil
	case len(ids) > pageSize:
		return nil, &Error{
			Action:  "DescribeInstances",
			Class:   Rejected,
			Message: fmt.Sprintf("%d instances are more than the %d that may be asked for at once", len(ids), pageSize),
		}
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, &Error{Action: "DescribeInstances", Class: Rejected, Message: "the IDs are no JSON"}
	}
	instances, err := r.describe(ctx, func(request *ecs.DescribeInstancesRequest) { request.InstanceIds = string(list) })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(instances, func(i Instance) bool { return !slices.Contains(ids, i.ID) }), nil
}

// Find returns all instances that have all of the tags, of which there must be some. That
// there are none is only said if the access key may ask for them: so with Describe.
func (r *Region) Find(ctx context.Context, tags map[string]string) ([]Instance, error) {
	if len(tags) == 0 {
		return nil, &Error{Action: "DescribeInstances", Class: Rejected, Message: "without a tag to find them by, all instances would be found"}
	}
	filter := []ecs.DescribeInstancesTag{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filter = append(filter, ecs.DescribeInstancesTag{Key: key, Value: tags[key]})
	}
	return r.describe(ctx, func(request *ecs.DescribeInstancesRequest) { request.Tag = &filter })
}

// proofLasts is how long it is taken for granted that one may ask. Whoever concludes from two
// answers that are further apart than that concludes nothing wrong.
const proofLasts = 10 * time.Second

// proven returns nil if an answer that shows nothing means that there is nothing. ECS has long
// answered those who may not ask with an empty list:
// https://www.alibabacloud.com/help/en/ecs/announcement-of-changes-to-the-authentication-mechanism-for-alibaba-cloud-ecs-query-type-apis
// A dry run says whether one may.
func (r *Region) proven(ctx context.Context) error {
	key, fail := r.credentials(ctx)
	if fail != nil {
		return fail.of("DescribeInstances")
	}
	if r.cloud.mayAsk(key.ID, r.name) {
		return nil
	}
	response := ecs.CreateDescribeInstancesResponse()
	asked := r.cloud.clock.Now()
	err := r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateDescribeInstancesRequest()
		request.DryRun = requests.NewBoolean(true)
		return request
	}, response)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "DryRunOperation" {
		r.cloud.mayAskSince(key.ID, r.name, asked)
		return nil
	}
	if err == nil {
		return incomplete("DescribeInstances", response.RequestId, "a word of whether one may ask, which was all that was asked")
	}
	return err
}

// describe reads all pages of an answer. TotalCount has no meaning when pages are asked for
// by token: only the token tells that there is more.
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
		if response.Instances.Instance == nil { // An answer without a list does not say that there are none.
			return nil, incomplete("DescribeInstances", response.RequestId, "a list of instances")
		}
		for i := range response.Instances.Instance {
			instance := instanceOf(&response.Instances.Instance[i])
			if instance.ID == "" {
				return nil, incomplete("DescribeInstances", response.RequestId, "the ID of every instance")
			}
			if !seen[instance.ID] { // One may come twice when others go meanwhile.
				seen[instance.ID] = true
				found = append(found, instance)
			}
		}
		if response.NextToken == "" && len(found) == 0 {
			return found, r.proven(ctx)
		}
		if response.NextToken == "" {
			return found, nil
		}
		if response.NextToken == token {
			return nil, incomplete("DescribeInstances", response.RequestId, "an end: the next page is the same page")
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
	if created, err := time.Parse(minutes, is.CreationTime); err == nil {
		instance.CreationTime = created
	}
	return instance
}

// Start starts an instance that is Stopped.
func (r *Region) Start(ctx context.Context, id string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateStartInstanceRequest()
		request.InstanceId = id
		return request
	}, ecs.CreateStartInstanceResponse())
}

// Stop shuts down an instance that is Running, as by its power button.
func (r *Region) Stop(ctx context.Context, id string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateStopInstanceRequest()
		request.InstanceId = id
		return request
	}, ecs.CreateStopInstanceResponse())
}

// Delete releases an instance that is Stopped or, by force, one that is Running, too.
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

// SetType gives an instance that is Stopped, and PostPaid, another instance type.
func (r *Region) SetType(ctx context.Context, id, instanceType string) error {
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateModifyInstanceSpecRequest()
		request.InstanceId = id
		request.InstanceType = instanceType
		return request
	}, ecs.CreateModifyInstanceSpecResponse())
}

// Modify changes what can be changed of an instance in every state. An empty Change is
// none, and neither are an empty name and an empty list of security groups.
func (r *Region) Modify(ctx context.Context, id string, change Change) error {
	name := change.Name != nil && *change.Name != ""
	if !name && len(change.SecurityGroupIDs) == 0 {
		return nil
	}
	return r.call(ctx, func() requests.AcsRequest {
		request := ecs.CreateModifyInstanceAttributeRequest()
		request.InstanceId = id
		if name {
			request.InstanceName = *change.Name
		}
		if len(change.SecurityGroupIDs) > 0 {
			request.SecurityGroupIds = &change.SecurityGroupIDs
		}
		return request
	}, ecs.CreateModifyInstanceAttributeResponse())
}

// Tag sets tags of an instance. Others that it has stay.
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

// Untag takes tags of an instance away. Those that it has not got are no error.
func (r *Region) Untag(ctx context.Context, id string, keys []string) error {
	if len(keys) == 0 { // Not even to ask: with All, ECS would take away every tag.
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
