// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package aliyun

import "time"

// State is an instance's state, the field Status of ECS.
type State string

// The states of an instance (https://www.alibabacloud.com/help/en/ecs/user-guide/instance-lifecycle).
// CreateInstance leads from Pending to Stopped.
const (
	StatePending  State = "Pending"
	StateStarting State = "Starting"
	StateRunning  State = "Running"
	StateStopping State = "Stopping"
	StateStopped  State = "Stopped"
)

// Instance is an instance as DescribeInstances returns it.
type Instance struct {
	ID                 string
	Name               string
	State              State
	Type               string
	ImageID            string
	ChargeType         string // PostPaid or PrePaid
	ZoneID             string
	VSwitchID          string
	KeyPairName        string
	SecurityGroupIDs   []string // sorted
	PrivateIPs         []string
	PublicIPs          []string // including an elastic IP
	Bandwidth          int      // to the internet, in Mbit/s
	Tags               map[string]string
	Locks              []string // why operations are locked, such as "financial" or "security"
	DeletionProtection bool
	CreationTime       time.Time // to the minute, zero if it cannot be read
}

// Disk is a disk of an instance to create. An empty or zero field means ECS's default.
type Disk struct {
	Category         string // such as "cloud_essd"
	PerformanceLevel string // PL0 to PL3, of a cloud_essd
	SizeGiB          int
	SnapshotID       string // of a data disk
	Encrypted        bool   // of a data disk
	KeepOnRelease    bool   // a data disk outlives its instance
}

// CreateRequest is an instance to create. An empty or zero field means ECS's default.
type CreateRequest struct {
	// ClientToken makes a create idempotent: ECS creates one instance for all requests with the same token and parameters, as long as it
	// remembers the token. It has at most 64 ASCII characters.
	ClientToken             string
	Name                    string
	Type                    string
	ImageID                 string
	ChargeType              string
	Period                  int    // of PrePaid, in PeriodUnits
	PeriodUnit              string // Week or Month
	ZoneID                  string
	VSwitchID               string
	SecurityGroupID         string
	KeyPairName             string
	InternetMaxBandwidthOut int // Mbit/s; 0 for no public IP
	SystemDisk              *Disk
	DataDisks               []Disk
	UserData                []byte // not encoded
	Tags                    map[string]string
}

// Change holds the fields of an instance to change. A field that is nil stays unchanged.
type Change struct {
	Name             *string
	SecurityGroupIDs []string // all groups of the instance after the change
}
