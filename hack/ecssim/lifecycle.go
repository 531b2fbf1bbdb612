/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package ecssim

import (
	"net/http"
	"slices"
)

// findChangeable returns the instance of the call. It returns an error if ECS rejects all
// changes of the instance: for a security lock, or because it is being released.
func (x *exchange) findChangeable() (*machine, *problem) {
	m, p := x.find(x.params.get("InstanceId"))
	switch {
	case p != nil:
		return nil, p
	case m.locked("security"):
		return nil, lockedSecurity
	case m.releasing:
		return nil, wrongState
	}
	return m, nil
}

// findAtRest returns the instance of the call as findChangeable does, and only if it is Running
// or Stopped.
func (x *exchange) findAtRest() (*machine, *problem) {
	m, p := x.findChangeable()
	if p == nil && m.State != running && m.State != stopped {
		return nil, wrongState
	}
	return m, p
}

// applyUnlessDryRun calls apply and returns an answer that holds only the request ID. The
// caller has validated the call. For a dry run it returns the dryRun problem, as ECS does.
func (x *exchange) applyUnlessDryRun(apply func()) (any, *problem) {
	if x.params.is("DryRun") {
		return nil, dryRun
	}
	apply()
	return x.simple(), nil
}

func (x *exchange) startInstance() (any, *problem) {
	m, p := x.findChangeable()
	switch {
	case p != nil:
		return nil, p
	case m.locked("financial"):
		return nil, inArrears
	case m.State != stopped:
		return nil, wrongState
	}
	return x.applyUnlessDryRun(func() {
		m.StoppedMode = ""
		m.setState(starting, x.now, x.s.delays)
	})
}

func (x *exchange) stopInstance() (any, *problem) {
	mode := x.params.get("StoppedMode")
	if !slices.Contains([]string{"", "StopCharging", "KeepCharging"}, mode) {
		return nil, invalid("StoppedMode")
	}
	m, p := x.findChangeable()
	switch {
	case p != nil:
		return nil, p
	case m.State != running:
		return nil, wrongState
	}
	return x.applyUnlessDryRun(func() {
		m.StoppedMode = mode
		m.setState(stopping, x.now, x.s.delays)
	})
}

func (x *exchange) deleteInstance() (any, *problem) {
	m, p := x.findChangeable()
	switch {
	case p != nil:
		return nil, p
	case m.State == pending:
		return nil, initializing
	case m.DeletionProtection:
		return nil, protected
	case m.ChargeType == prePaid && x.now.Before(m.Expires):
		return nil, chargeType
	case m.State != stopped && (m.State != running || !x.params.is("Force")):
		return nil, wrongState
	}
	return x.applyUnlessDryRun(func() { m.release(x.now, x.s.delays) })
}

func (x *exchange) modifyInstanceAttribute() (any, *problem) {
	groups := x.securityGroups()
	find := x.findChangeable
	if len(groups) > 0 {
		find = x.findAtRest
	}
	m, p := find()
	for _, check := range []func() *problem{x.checkName, x.checkUserData, func() *problem { return checkGroups(groups) }} {
		if p == nil {
			p = check()
		}
	}
	switch {
	case p != nil:
		return nil, p
	case x.userData != "" && m.State != stopped:
		return nil, wrongState
	}
	x.setAttributes(m)
	if len(groups) > 0 {
		m.SecurityGroupIDs = groups
	}
	return x.simple(), nil
}

// setAttributes copies the parameters that are not empty into the machine.
func (x *exchange) setAttributes(m *machine) {
	for name, field := range map[string]*string{"InstanceName": &m.Name, "Description": &m.Description, "HostName": &m.HostName} {
		if value := x.params.get(name); value != "" {
			*field = value
		}
	}
	if x.userData != "" {
		m.UserData = x.userData
	}
	if x.params.get("DeletionProtection") != "" {
		m.DeletionProtection = x.params.is("DeletionProtection")
	}
}

func (x *exchange) modifyInstanceSpec() (any, *problem) {
	m, p := x.findChangeable()
	if p != nil {
		return nil, p
	}
	wanted := x.params.get("InstanceType")
	if wanted == "" && x.params.get("InternetMaxBandwidthOut") == "" {
		return nil, missing("InstanceType")
	}
	if wanted != "" {
		if p := checkType(wanted); p != nil {
			return nil, p
		}
	}
	bandwidth := x.params.number("InternetMaxBandwidthOut", m.bandwidth)
	switch {
	case bandwidth < 0 || bandwidth > 100:
		return nil, invalid("InternetMaxBandwidthOut")
	case m.ChargeType != postPaid:
		return nil, chargeType
	case m.State != stopped:
		return nil, wrongState
	}
	return x.applyUnlessDryRun(func() {
		if wanted != "" {
			m.Type = wanted
		}
		m.bandwidth = bandwidth
	})
}

func (x *exchange) joinSecurityGroup() (any, *problem) {
	m, p := x.findAtRest()
	if p != nil {
		return nil, p
	}
	id := x.params.get("SecurityGroupId")
	if slices.Contains(m.SecurityGroupIDs, id) {
		return nil, &problem{http.StatusForbidden, "InvalidInstanceId.AlreadyExists",
			"The specified instance already exists in the specified security group."}
	}
	groups := append(slices.Clone(m.SecurityGroupIDs), id)
	if p := checkGroups(groups); p != nil {
		return nil, p
	}
	slices.Sort(groups)
	m.SecurityGroupIDs = groups
	return x.simple(), nil
}

func (x *exchange) leaveSecurityGroup() (any, *problem) {
	m, p := x.findAtRest()
	if p != nil {
		return nil, p
	}
	i := slices.Index(m.SecurityGroupIDs, x.params.get("SecurityGroupId"))
	switch {
	case i < 0:
		return nil, &problem{http.StatusForbidden, "InstanceNotInSecurityGroup", "The instance not in the group."}
	case len(m.SecurityGroupIDs) == 1:
		return nil, &problem{http.StatusForbidden, "InstanceLastSecurityGroup",
			"The specified security group is the last security group for the instance."}
	}
	m.SecurityGroupIDs = slices.Delete(m.SecurityGroupIDs, i, i+1)
	return x.simple(), nil
}
