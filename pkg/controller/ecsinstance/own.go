// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecsinstance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

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

// The values of --ecs-own-credentials-allow. Without them, the operator's own credentials only create, change and delete PostPaid
// instances of public images, and are never the role of the machine.
const (
	allowAdopt    = "adopt"    // adoptInstanceID
	allowPrePaid  = "prepaid"  // instanceChargeType: PrePaid
	allowRetain   = "retain"   // instances and disks that stay after their object, and are paid for ever: deletionPolicy, keepOnRelease
	allowSnapshot = "snapshot" // disks.data[].snapshotID, and images that are not public, which are made from snapshots
	allowMetadata = "metadata" // the RAM role of the machine, from its metadata service
)

// publicImages ends the ID of each public image. The IDs of other images begin with "m-".
const publicImages = ".vhd"

var allowValues = []string{allowAdopt, allowPrePaid, allowRetain, allowSnapshot, allowMetadata}

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
		"what these ECSInstances may do beyond PostPaid instances of public images: "+allowAdopt+" instances, buy "+allowPrePaid+" ones, "+
			allowRetain+" instances and disks, read a "+allowSnapshot+" or an image that is not public; and "+allowMetadata+
			": use the RAM role of the operator's machine (default: none of these)")
}

// Validate returns an error that says which flag to correct.
func (c *OwnCredentials) Validate() error {
	for _, namespace := range c.Namespaces {
		if namespace != AllNamespaces && len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("--%s must be names of namespaces, or * for all, not %q", NamespacesFlag, namespace)
		}
	}
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
	const instead = "set credentialsSecretRef, or add %s to the operator's --%s"
	if ecs.Spec.CredentialsSecretRef != nil {
		return "", ""
	}
	if !slices.Contains(c.Namespaces, ecs.Namespace) && !slices.Contains(c.Namespaces, AllNamespaces) {
		return fmt.Sprintf("ECSInstances in namespace %s may not use the operator's own credentials", ecs.Namespace),
			fmt.Sprintf(instead, ecs.Namespace, NamespacesFlag)
	}
	for _, allow := range neededValues(ecs) {
		if !slices.Contains(c.Allowed, allow) {
			return fmt.Sprintf("The operator's own credentials may not be used for this (%s)", allow), fmt.Sprintf(instead, allow, AllowFlag)
		}
	}
	return "", ""
}

// neededValues returns the values of --ecs-own-credentials-allow that the next steps for an ECSInstance need.
func neededValues(ecs *v1alpha1.ECSInstance) (values []string) {
	spec, deleting := &ecs.Spec, ecs.DeletionTimestamp != nil
	need := func(allow string, needed bool) {
		if needed {
			values = append(values, allow)
		}
	}
	retained := spec.DeletionPolicy == v1alpha1.DeletionRetain
	if spec.AdoptInstanceID != "" || ecs.Status.Adopted {
		deletes := ecs.Status.Adopted && spec.DeletionPolicy == v1alpha1.DeletionDelete
		need(allowAdopt, !deleting || deletes)
		return values
	}
	exists := ecs.Status.InstanceID != ""
	need(allowRetain, retained && (deleting || !exists))
	if deleting || exists {
		return values
	}
	need(allowPrePaid, spec.InstanceChargeType == v1alpha1.PrePaid)
	need(allowSnapshot, spec.ImageID != "" && !strings.HasSuffix(spec.ImageID, publicImages))
	if spec.Disks != nil {
		need(allowRetain, slices.ContainsFunc(spec.Disks.Data, func(d v1alpha1.DataDisk) bool { return d.KeepOnRelease }))
		need(allowSnapshot, slices.ContainsFunc(spec.Disks.Data, func(d v1alpha1.DataDisk) bool { return d.SnapshotID != "" }))
	}
	return values
}
