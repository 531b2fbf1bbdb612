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
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"k8s.io/utils/ptr"
)

const (
	// MaxIDs is the largest number of IDs in a DescribeInstances request, and of instances in its response.
	MaxIDs = 100
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
	if err := r.call(ctx, newRequest("CreateInstance", create.params()), response); err != nil {
		return "", err
	}
	if response.InstanceId == "" {
		return "", incomplete("CreateInstance", response.RequestId, "an InstanceId")
	}
	return response.InstanceId, nil
}

func (c *CreateRequest) params() params {
	p := params{
		"ClientToken":             c.ClientToken,
		"InstanceName":            c.Name,
		"InstanceType":            c.Type,
		"ImageId":                 c.ImageID,
		"InstanceChargeType":      c.ChargeType,
		"Period":                  integer(c.Period),
		"PeriodUnit":              c.PeriodUnit,
		"ZoneId":                  c.ZoneID,
		"VSwitchId":               c.VSwitchID,
		"SecurityGroupId":         c.SecurityGroupID,
		"KeyPairName":             c.KeyPairName,
		"InternetMaxBandwidthOut": integer(c.InternetMaxBandwidthOut),
		"UserData":                base64.StdEncoding.EncodeToString(c.UserData),
	}
	if c.SystemDisk != nil {
		p.disk("SystemDisk", *c.SystemDisk)
	}
	for i, disk := range c.DataDisks {
		p.disk(fmt.Sprintf("DataDisk.%d", i+1), disk)
	}
	return p.tags(c.Tags)
}

// params are the parameters of a call. Those that are "" are not sent.
type params map[string]string

// list adds values as ECS numbers them, and returns p.
func (p params) list(name string, values []string) params {
	for i, value := range values {
		p[fmt.Sprintf("%s.%d", name, i+1)] = value
	}
	return p
}

// tags adds tags in the order of their keys, and returns p.
func (p params) tags(tags map[string]string) params {
	for i, key := range slices.Sorted(maps.Keys(tags)) {
		p[fmt.Sprintf("Tag.%d.Key", i+1)], p[fmt.Sprintf("Tag.%d.Value", i+1)] = key, tags[key]
	}
	return p
}

func (p params) disk(name string, disk Disk) {
	p[name+".Category"] = disk.Category
	p[name+".PerformanceLevel"] = disk.PerformanceLevel
	p[name+".Size"] = integer(disk.SizeGiB)
	p[name+".SnapshotId"] = disk.SnapshotID
	if disk.Encrypted {
		p[name+".Encrypted"] = "true"
	}
	if disk.KeepOnRelease {
		p[name+".DeleteWithInstance"] = "false"
	}
}

// integer returns "" for 0.
func integer(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// newRequest returns a request to ECS. The request types of the SDK do the same by reflection.
func newRequest(action string, p params) *requests.RpcRequest {
	request := &requests.RpcRequest{}
	request.InitWithApiInfo("Ecs", "2014-05-26", action, "ecs", "openAPI")
	for name, value := range p {
		if value != "" {
			request.QueryParams[name] = value
		}
	}
	return request
}

// Describe returns the instances with these IDs, at most MaxIDs. An instance that it omits does not exist, or ECS does not show it yet.
func (r *Region) Describe(ctx context.Context, ids []string) ([]Instance, error) {
	if len(ids) == 0 { // To ECS, no ID means all instances.
		return nil, nil
	}
	list, _ := json.Marshal(ids) // It cannot fail for strings.
	instances, err := r.describe(ctx, params{"InstanceIds": string(list)})
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
	return r.describe(ctx, params{}.tags(tags))
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
	if at, ok := shown.(time.Time); ok && time.Since(at) < listAccessTTL {
		return nil
	}
	response := ecs.CreateDescribeInstancesResponse()
	start := time.Now()
	err := r.call(ctx, newRequest("DescribeInstances", params{"DryRun": "true"}), response)
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
func (r *Region) describe(ctx context.Context, filter params) ([]Instance, error) {
	found := []Instance{}
	seen := map[string]bool{}
	filter["MaxResults"] = strconv.Itoa(MaxIDs)
	for range maxPages {
		response := ecs.CreateDescribeInstancesResponse()
		if err := r.call(ctx, newRequest("DescribeInstances", filter), response); err != nil {
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
		case response.NextToken == filter["NextToken"]:
			return nil, incomplete("DescribeInstances", response.RequestId, "an end: its NextToken leads to the same page")
		}
		filter["NextToken"] = response.NextToken
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

// change makes a call whose answer has nothing but the ID of the request.
func (r *Region) change(ctx context.Context, action string, p params) error {
	return r.call(ctx, newRequest(action, p), &responses.BaseResponse{})
}

// Start starts a Stopped instance.
func (r *Region) Start(ctx context.Context, id string) error {
	return r.change(ctx, "StartInstance", params{"InstanceId": id})
}

// AllocateAddress gives an instance its public IP, unless it has one. The instance must be Running or Stopped. The IP has an effect once
// the instance starts: https://www.alibabacloud.com/help/en/elastic-compute-service/latest/allocatepublicipaddress
func (r *Region) AllocateAddress(ctx context.Context, id string) error {
	err := r.change(ctx, "AllocatePublicIpAddress", params{"InstanceId": id})
	if e, ok := errors.AsType[*Error](err); ok && e.Code == "AllocatedAlready" {
		return nil
	}
	return err
}

// Stop shuts down a Running instance, like its power button.
func (r *Region) Stop(ctx context.Context, id string) error {
	return r.change(ctx, "StopInstance", params{"InstanceId": id})
}

// Delete releases a Stopped instance. With force, it also releases a Running one.
func (r *Region) Delete(ctx context.Context, id string, force bool) error {
	p := params{"InstanceId": id}
	if force {
		p["Force"] = "true"
	}
	return r.change(ctx, "DeleteInstance", p)
}

// SetType changes the instance type of a Stopped PostPaid instance.
func (r *Region) SetType(ctx context.Context, id, instanceType string) error {
	return r.change(ctx, "ModifyInstanceSpec", params{"InstanceId": id, "InstanceType": instanceType})
}

// Modify changes the name and the security groups of an instance, in any state. It leaves the
// name alone if the change has none or "", and the groups if the change lists none.
func (r *Region) Modify(ctx context.Context, id string, change Change) error {
	p := params{"InstanceId": id, "InstanceName": ptr.Deref(change.Name, "")}
	return r.change(ctx, "ModifyInstanceAttribute", p.list("SecurityGroupIds", change.SecurityGroupIDs))
}

// Tag sets tags of an instance. The other tags stay.
func (r *Region) Tag(ctx context.Context, id string, tags map[string]string) error {
	p := params{"ResourceType": "instance", "ResourceId.1": id}
	return r.change(ctx, "TagResources", p.tags(tags))
}

// Untag removes tags from an instance. It ignores tags that the instance does not have.
func (r *Region) Untag(ctx context.Context, id string, keys []string) error {
	p := params{"ResourceType": "instance", "ResourceId.1": id}
	return r.change(ctx, "UntagResources", p.list("TagKey", keys))
}
