// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	v1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
)

// OwnCredentials says which ECSInstances may use the operator's own credentials, and for what. Many people can write ECSInstances, and the
// operator's account is not theirs. So by default none may.
type OwnCredentials struct {
	Namespaces []string // AllNamespaces for all
	Allowed    []string // of the values of --ecs-own-credentials-allow
}

// AllNamespaces stands for all namespaces in OwnCredentials.
const AllNamespaces = "*"

// The values of --ecs-own-credentials-allow. Without them, the operator's own credentials only create and change PostPaid instances, of
// public images and empty disks, and are never the role of the machine.
const (
	allowAdopt    = "adopt"    // adoptInstanceID
	allowPrePaid  = "prepaid"  // instanceChargeType: PrePaid
	allowSnapshot = "snapshot" // disks.data[].snapshotID, and custom images, which are made from snapshots
	allowMetadata = "metadata" // the RAM role of the machine, from its metadata service
)

// customImages begins the ID of each image that is not public.
const customImages = "m-"

var allowValues = []string{allowAdopt, allowPrePaid, allowSnapshot, allowMetadata}

// The flags that set OwnCredentials.
const (
	NamespacesFlag = "ecs-own-credentials-namespaces"
	AllowFlag      = "ecs-own-credentials-allow"
)

// AddFlags adds the flags that set c.
func (c *OwnCredentials) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.Namespaces, NamespacesFlag, nil,
		"namespaces whose ECSInstances may use the operator's own credentials; * for all (default: none)")
	flags.StringSliceVar(&c.Allowed, AllowFlag, nil,
		"what these ECSInstances may do beyond PostPaid instances of public images: "+allowAdopt+" instances, buy "+allowPrePaid+" ones, read a "+
			allowSnapshot+" or custom image; and "+allowMetadata+": use the RAM role of the operator's machine (default: none of these)")
}

// Validate returns an error that says which flag to correct.
func (c *OwnCredentials) Validate() error {
	for _, value := range c.Allowed {
		if !slices.Contains(allowValues, value) {
			return fmt.Errorf("--%s must be some of %s, not %q", AllowFlag, strings.Join(allowValues, ", "), value)
		}
	}
	if len(c.Allowed) > 0 && len(c.Namespaces) == 0 {
		return fmt.Errorf("--%s does nothing without --%s", AllowFlag, NamespacesFlag)
	}
	return nil
}

// Metadata returns whether the operator's own credentials may be the RAM role of its machine.
func (c *OwnCredentials) Metadata() bool { return slices.Contains(c.Allowed, allowMetadata) }

// Refusal returns why an ECSInstance may not use the operator's own credentials, and what to do about that; why is "" if it may, or does
// not.
func (c *OwnCredentials) Refusal(ecs *v1alpha1.ECSInstance) (why, remedy string) {
	spec := &ecs.Spec
	if spec.CredentialsSecretRef != nil {
		return "", ""
	}
	remedy = "set credentialsSecretRef, or start the operator with --%s=%s"
	if !slices.Contains(c.Namespaces, ecs.Namespace) && !slices.Contains(c.Namespaces, AllNamespaces) {
		return fmt.Sprintf("ECSInstances in namespace %s may not use the operator's own credentials", ecs.Namespace),
			fmt.Sprintf(remedy, NamespacesFlag, strings.Join(append(slices.Clone(c.Namespaces), ecs.Namespace), ","))
	}
	if ecs.DeletionTimestamp != nil || ecs.Status.Adopted || spec.AdoptInstanceID == "" && ecs.Status.InstanceID != "" {
		return "", "" // What is left to do needs no more than that.
	}
	var needed []string
	if spec.AdoptInstanceID != "" {
		needed = []string{allowAdopt}
	} else {
		snapshot := func(d v1alpha1.DataDisk) bool { return d.SnapshotID != "" }
		if spec.InstanceChargeType == v1alpha1.PrePaid {
			needed = append(needed, allowPrePaid)
		}
		if strings.HasPrefix(spec.ImageID, customImages) || spec.Disks != nil && slices.ContainsFunc(spec.Disks.Data, snapshot) {
			needed = append(needed, allowSnapshot)
		}
	}
	for _, allow := range needed {
		if !slices.Contains(c.Allowed, allow) {
			return fmt.Sprintf("The operator's own credentials may not be used for this (%s)", allow),
				fmt.Sprintf(remedy, AllowFlag, strings.Join(append(slices.Clone(c.Allowed), allow), ","))
		}
	}
	return "", ""
}
