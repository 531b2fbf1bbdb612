/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

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
	PublicIPs          []string // with an elastic one, if there is one
	Tags               map[string]string
	Locks              []string // why operations are locked, such as "financial" or "security"
	DeletionProtection bool
	CreationTime       time.Time // to the minute, zero if it cannot be read
}

// Disk is a disk of an instance that is to be made. What is empty or 0 is ECS's default.
type Disk struct {
	Category         string // such as "cloud_essd"
	PerformanceLevel string // PL0 to PL3, of a cloud_essd
	SizeGiB          int
	SnapshotID       string // of a data disk
	Encrypted        bool   // of a data disk
	KeepOnRelease    bool   // a data disk outlives its instance
}

// CreateRequest is an instance that is to be made. What is empty or 0 is ECS's default.
type CreateRequest struct {
	// ClientToken makes of two requests with the same token and the same parameters one, for
	// as long as ECS remembers the token. At most 64 ASCII characters.
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
	UserData                []byte // as it is: it is encoded on the way
	Tags                    map[string]string
}

// Change holds the fields of an instance to change. A field that is nil stays unchanged.
type Change struct {
	Name             *string
	SecurityGroupIDs []string // all groups of the instance after the change
}
