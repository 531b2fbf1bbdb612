// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"cmp"
	"slices"
)

// changed returns the run function of an action that changes one instance. decide returns an error if ECS rejects the change, else the
// func that applies it. For a dry run, ECS decides and applies nothing.
func changed(decide func(*exchange, *machine) (func(), *problem)) func(*exchange) (object, *problem) {
	return func(x *exchange) (object, *problem) {
		m, p := x.findChangeable()
		if p != nil {
			return nil, p
		}
		apply, p := decide(x, m)
		switch {
		case p != nil:
			return nil, p
		case x.params.is("DryRun"):
			return nil, dryRun
		}
		apply()
		return object{}, nil
	}
}

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

// atRest returns whether the machine is Running or Stopped.
func (m *machine) atRest() bool { return m.State == running || m.State == stopped }

func startInstance(x *exchange, m *machine) (func(), *problem) {
	switch {
	case m.locked("financial"):
		return nil, inArrears
	case m.State != stopped:
		return nil, wrongState
	}
	return func() {
		m.StoppedMode = ""
		m.setState(starting, x.now, x.s.delays)
	}, nil
}

// allocatePublicIPAddress gives an instance its only public IP, which CreateInstance does not. The IP has an effect once the instance
// starts. https://www.alibabacloud.com/help/en/elastic-compute-service/latest/allocatepublicipaddress
func allocatePublicIPAddress(x *exchange) (object, *problem) {
	m, p := x.findChangeable()
	switch {
	case p != nil:
		return nil, p
	case m.PublicIP != "":
		return nil, allocatedAlready
	case !m.atRest() || m.bandwidth == 0:
		return nil, wrongState
	}
	m.PublicIP = x.s.public.allocate()
	return object{"IpAddress": m.PublicIP}, nil
}

func stopInstance(x *exchange, m *machine) (func(), *problem) {
	mode := x.params.get("StoppedMode")
	switch {
	case !slices.Contains([]string{"", "StopCharging", "KeepCharging"}, mode):
		return nil, invalid("StoppedMode")
	case m.State != running:
		return nil, wrongState
	}
	return func() {
		m.StoppedMode = mode
		m.setState(stopping, x.now, x.s.delays)
	}, nil
}

func deleteInstance(x *exchange, m *machine) (func(), *problem) {
	switch {
	case m.State == pending:
		return nil, initializing
	case m.DeletionProtection:
		return nil, protected
	case m.ChargeType == prePaid && x.now.Before(m.Expires):
		return nil, chargeType
	case m.State != stopped && (m.State != running || !x.params.is("Force")):
		return nil, wrongState
	}
	return func() { m.release(x.now, x.s.delays) }, nil
}

func modifyInstanceAttribute(x *exchange, m *machine) (func(), *problem) {
	groups := x.securityGroups()
	if len(groups) > 0 && !m.atRest() {
		return nil, wrongState
	}
	if p := firstOf(x.checkName, x.checkUserData, func() *problem { return checkGroups(groups) }); p != nil {
		return nil, p
	}
	if x.userData != "" && m.State != stopped {
		return nil, wrongState
	}
	return func() {
		m.setAttributes(x)
		if len(groups) > 0 {
			m.SecurityGroupIDs = groups
		}
	}, nil
}

// firstOf returns the problem of the first check that finds one, or nil.
func firstOf(checks ...func() *problem) *problem {
	for _, check := range checks {
		if p := check(); p != nil {
			return p
		}
	}
	return nil
}

// setAttributes copies the parameters that are not empty into the machine.
func (m *machine) setAttributes(x *exchange) {
	m.Name = cmp.Or(x.params.get("InstanceName"), m.Name)
	m.UserData = cmp.Or(x.userData, m.UserData)
	if x.params.get("DeletionProtection") != "" {
		m.DeletionProtection = x.params.is("DeletionProtection")
	}
}

func modifyInstanceSpec(x *exchange, m *machine) (func(), *problem) {
	wanted := x.params.get("InstanceType")
	if wanted == "" && x.params.get("InternetMaxBandwidthOut") == "" {
		return nil, missing("InstanceType")
	}
	wanted = cmp.Or(wanted, m.Type)
	if p := checkType(wanted); p != nil && wanted != m.Type {
		return nil, p
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
	return func() { m.Type, m.bandwidth = wanted, bandwidth }, nil
}
