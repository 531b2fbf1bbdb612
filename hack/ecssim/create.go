// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package ecssim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The key and the value of a remembered ClientToken.
type (
	tokenKey struct{ accountID, regionID, token string }
	memory   struct {
		fingerprint fingerprint
		id          string
		inFlight    time.Time // the end of the simulated execution of the call
		poisoned    bool
	}
)

// tradePrice is the price of each instance.
const tradePrice = 0.1

func createInstance(x *exchange) (object, *problem) {
	id, p := x.create()
	if p != nil {
		return nil, p
	}
	x.made = id
	order := strconv.Itoa(200000000000000 + x.s.byID[id].seq)
	return object{"InstanceId": id, "OrderId": order, "TradePrice": tradePrice}, nil
}

// create creates the requested instance, or returns that of an earlier call with the same token.
func (x *exchange) create() (string, *problem) {
	if p := x.checkCreate(); p != nil {
		return "", p
	}
	if x.params.is("DryRun") {
		return "", dryRun
	}
	key := tokenKey{x.account.ID, x.region, x.params.get("ClientToken")}
	if key.token != "" {
		if known, found := x.s.tokens.get(key, x.now); found {
			return x.again(known)
		}
	}
	made := &memory{fingerprint: x.fingerprint, poisoned: x.fault.PoisonToken, inFlight: x.now.Add(x.fault.InFlight)}
	if !made.poisoned {
		made.id = x.make().ID
	}
	if key.token != "" {
		x.s.tokens.put(key, made, x.now)
	}
	if made.poisoned {
		return "", internal
	}
	return made.id, nil
}

// again returns the result of the earlier call with the same token.
func (x *exchange) again(known *memory) (string, *problem) {
	switch {
	case known.poisoned:
		return "", forbidden("IdempotentFailed", "The previous idempotent request failed: use another ClientToken.")
	case known.fingerprint != x.fingerprint:
		return "", badRequest("IdempotentParameterMismatch",
			"The request uses the same client token as a previous, but non-identical request. Do not reuse a client token with different requests.")
	case x.now.Before(known.inFlight):
		return "", forbidden("IdempotentProcessing", "The previous idempotent request(s) is still processing.")
	}
	return known.id, nil
}

// make creates an instance. The parameters are checked already.
func (x *exchange) make() *machine {
	p := x.params
	m := &machine{
		Instance: Instance{
			ID: x.s.newInstanceID(), AccountID: x.account.ID, RegionID: x.region, ZoneID: p.get("ZoneId"),
			Name: p.get("InstanceName"),
			Type: p.get("InstanceType"), ImageID: p.get("ImageId"), ChargeType: p.get("InstanceChargeType"),
			KeyPairName: p.get("KeyPairName"), VSwitchID: p.get("VSwitchId"),
			PrivateIP: x.s.private.allocate(), Tags: map[string]string{}, SecurityGroupIDs: x.securityGroups(),
			DeletionProtection: p.is("DeletionProtection"), Token: p.get("ClientToken"), UserData: x.userData, Created: x.now,
		},
		seq: len(x.s.machines) + 1, visibleFrom: x.now.Add(x.fault.Invisible), bandwidth: p.number("InternetMaxBandwidthOut", 0),
	}
	for _, t := range p.tags() {
		m.Tags[t.TagKey] = t.TagValue
	}
	x.fillIn(m)
	m.setState(pending, x.now, x.s.delays)
	if x.fault.Vanish > 0 {
		m.steps = []step{{x.now.Add(x.fault.Vanish), gone}}
	} else if strings.Contains(m.ImageID, "vanishing") {
		m.steps = []step{{x.now.Add(x.s.delays.vanishing), gone}}
	}
	x.s.machines = append(x.s.machines, m)
	x.s.live = append(x.s.live, m)
	x.s.byID[m.ID] = m
	return m
}

// fillIn sets the defaults of a machine.
func (x *exchange) fillIn(m *machine) {
	for field, otherwise := range map[*string]string{
		&m.ZoneID: firstZone(x.region), &m.Name: m.ID, &m.ChargeType: postPaid, &m.VSwitchID: "vsw-default-" + x.region,
	} {
		*field = cmp.Or(*field, otherwise)
	}
	if len(m.SecurityGroupIDs) == 0 {
		m.SecurityGroupIDs = []string{"sg-default-" + x.region}
	}
	if m.ChargeType == prePaid {
		n := x.params.number("Period", 1)
		if x.params.get("PeriodUnit") == "Week" {
			m.Expires = x.now.AddDate(0, 0, 7*n)
		} else {
			m.Expires = x.now.AddDate(0, n, 0)
		}
	}
}

// securityGroups returns the security groups in the parameters without duplicates.
func (x *exchange) securityGroups() []string {
	groups := x.params.list("SecurityGroupIds")
	if id := x.params.get("SecurityGroupId"); id != "" {
		groups = append(groups, id)
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// checkCreate returns the first problem of a create's parameters.
func (x *exchange) checkCreate() *problem {
	p := x.params
	switch token := p.get("ClientToken"); {
	case len(token) > 64 || strings.ContainsFunc(token, func(r rune) bool { return r > '~' || r < ' ' }):
		return badRequest("InvalidClientToken.Malformed", "The specified ClientToken is longer than 64 characters, or not ASCII.")
	case p.get("ImageId") == "":
		return missing("ImageId")
	case p.number("InternetMaxBandwidthOut", 0) < 0 || p.number("InternetMaxBandwidthOut", 0) > 100:
		return invalid("InternetMaxBandwidthOut")
	}
	return firstOf(x.checkName, x.checkTags, x.checkCharge, x.checkUserData, x.checkDisks, x.checkReferences,
		func() *problem { return checkType(p.get("InstanceType")) })
}

func (x *exchange) checkCharge() *problem {
	switch x.params.get("InstanceChargeType") {
	case "", postPaid:
		return nil
	case prePaid:
	default:
		return badRequest("InvalidInstanceChargeType.ValueNotSupported", "The specified InstanceChargeType is not valid.")
	}
	unit, period := x.params.get("PeriodUnit"), x.params.number("Period", 0)
	switch {
	case x.params.get("Period") == "":
		return missing("Period")
	case unit != "" && unit != "Week" && unit != "Month":
		return badRequest("InvalidPeriodUnit.ValueNotSupported", "The specified parameter PeriodUnit is not valid.")
	case period < 1 || period > 60:
		return badRequest("InvalidPeriod.ValueNotSupported", "The specified parameter Period is not valid.")
	}
	return nil
}

// checkTags returns the first problem of the parameters Tag.N.
func (x *exchange) checkTags() *problem {
	keys := map[string]bool{}
	for _, t := range x.params.tags() {
		switch {
		case !validTag(t.TagKey) || t.TagKey == "":
			return badRequest("InvalidTagKey.Malformed", "The specified Tag.n.Key is not valid.")
		case !validTag(t.TagValue):
			return badRequest("InvalidTagValue.Malformed", "The specified Tag.n.Value is not valid.")
		case keys[t.TagKey]:
			return badRequest("Duplicate.TagKey", "The Tag.N.Key contain duplicate key.")
		}
		keys[t.TagKey] = true
	}
	return nil
}

// validTag returns whether the text can be a tag's key or value.
func validTag(text string) bool {
	return len([]rune(text)) <= 128 && !strings.HasPrefix(text, "aliyun") && !strings.HasPrefix(text, "acs:") &&
		!strings.Contains(text, "http://") && !strings.Contains(text, "https://")
}

// tagList returns tags in the format of ECS, sorted by key.
func tagList(tags map[string]string) []tag {
	list := make([]tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, tag{key, tags[key]})
	}
	return list
}
