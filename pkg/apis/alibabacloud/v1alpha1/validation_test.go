// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// valid returns the seed's ECSInstance, which is valid, after mutate has been at its spec.
// Without defaults what mutate sets goes by them.
func valid(mutate func(s *ECSInstanceSpec)) *ECSInstance {
	e := &ECSInstance{ObjectMeta: metav1.ObjectMeta{Name: "ecsinstance-sample"}}
	e.Spec = ECSInstanceSpec{
		ImageID: "centos_7_8_x64_20G_alibase_20200519.vhd", InstanceType: "ecs.g6.large", RegionID: "cn-beijing", InstanceName: "ins-0702",
	}
	mutate(&e.Spec)
	e.Default()
	return e
}

// verdict is a case: an object, and how the one error about it begins; "" for none.
type verdict struct {
	object *ECSInstance
	want   string
}

func (v verdict) run(t *testing.T) {
	v.over(t, nil)
}

// over is run for an object in the place of an older one.
func (v verdict) over(t *testing.T, old *ECSInstance) {
	errs := v.object.Validate(old)
	switch {
	case v.want == "" && len(errs) > 0:
		t.Errorf("got %v, want none", errs.ToAggregate())
	case v.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), v.want)):
		t.Errorf("got %v, want %s", errs.ToAggregate(), v.want)
	}
}

func TestValidate(t *testing.T) {
	const id = "must be what ECS calls it: no spaces, and nothing but ASCII"
	for name, test := range map[string]verdict{
		"the seed is valid": {valid(func(*ECSInstanceSpec) {}), ""},
		"no region": {valid(func(s *ECSInstanceSpec) { s.RegionID = "" }),
			`spec.regionID: Invalid value: "": must be the ID of a region, like "cn-beijing": lower case letters, digits and "-"`},
		"a region that would be another host": {
			valid(func(s *ECSInstanceSpec) { s.RegionID = "evil.example.com/" }), `spec.regionID: Invalid value: "evil.example.com/": must be`,
		},
		"a region longer than a part of a host": {
			valid(func(s *ECSInstanceSpec) { s.RegionID = strings.Repeat("x", 64) }), "spec.regionID: Too long: ",
		},
		"no type": {
			valid(func(s *ECSInstanceSpec) { s.InstanceType = "" }),
			`spec.instanceType: Invalid value: "": must be an instance type, like "ecs.g6.large"`,
		},
		"a type that is too long": {
			valid(func(s *ECSInstanceSpec) { s.InstanceType = strings.Repeat("x", 129) }), "spec.instanceType: Too long: ",
		},
		"no image": {valid(func(s *ECSInstanceSpec) { s.ImageID = "" }), "spec.imageID: Required value: say what the system disk is made from"},
		"a zone with a space": {
			valid(func(s *ECSInstanceSpec) { s.ZoneID = "cn-beijing h" }), `spec.zoneID: Invalid value: "cn-beijing h": ` + id,
		},
		"a switch with a space":             {valid(func(s *ECSInstanceSpec) { s.VSwitchID = " " }), `spec.vSwitchID: Invalid value: " ": ` + id},
		"no name is valid":                  {valid(func(s *ECSInstanceSpec) { s.InstanceName = "" }), ""},
		"a name of 128 characters is valid": {valid(func(s *ECSInstanceSpec) { s.InstanceName = strings.Repeat("实", 128) }), ""},
		"a name of 129 characters": {
			valid(func(s *ECSInstanceSpec) { s.InstanceName = strings.Repeat("x", 129) }), "spec.instanceName: Too long: ",
		},
		"a name that begins with a digit": {
			valid(func(s *ECSInstanceSpec) { s.InstanceName = "0702" }), `spec.instanceName: Invalid value: "0702": must be 2 to 128 characters`,
		},
		"a name that is a URL": {
			valid(func(s *ECSInstanceSpec) { s.InstanceName = "https://a" }), `spec.instanceName: Invalid value: "https://a": must be 2 to 128`,
		},
		"a key pair with a space": {
			valid(func(s *ECSInstanceSpec) { s.KeyPairName = "my key" }),
			`spec.keyPairName: Invalid value: "my key": must be the name of a key pair`,
		},
		"a power state that there is not": {
			valid(func(s *ECSInstanceSpec) { s.PowerState = "Off" }),
			`spec.powerState: Unsupported value: "Off": supported values: "Running", "Stopped"`,
		},
		"a deletion policy that there is not": {
			valid(func(s *ECSInstanceSpec) { s.DeletionPolicy = "Orphan" }), `spec.deletionPolicy: Unsupported value: "Orphan"`,
		},
		"a recreate policy that there is not": {
			valid(func(s *ECSInstanceSpec) { s.RecreatePolicy = "Once" }), `spec.recreatePolicy: Unsupported value: "Once"`,
		},
		"a policy of types that there is not": {
			valid(func(s *ECSInstanceSpec) { s.InstanceTypeChangePolicy = "Now" }), `spec.instanceTypeChangePolicy: Unsupported value: "Now"`,
		},
		"a bandwidth below nothing": {
			valid(func(s *ECSInstanceSpec) { s.InternetMaxBandwidthOut = ptr.To[int32](-1) }),
			"spec.internetMaxBandwidthOut: Invalid value: -1: must be from 0 to 100",
		},
		"security groups are valid": {valid(func(s *ECSInstanceSpec) { s.SecurityGroupIDs = []string{"sg-1", "sg-2"} }), ""},
		"a security group twice": {
			valid(func(s *ECSInstanceSpec) { s.SecurityGroupIDs = []string{"sg-1", "sg-1"} }), `spec.securityGroupIDs[1]: Duplicate value: "sg-1"`,
		},
		"a security group without an ID": {
			valid(func(s *ECSInstanceSpec) { s.SecurityGroupIDs = []string{""} }), `spec.securityGroupIDs[0]: Invalid value: "": ` + id,
		},
		"too many security groups": {
			valid(func(s *ECSInstanceSpec) { s.SecurityGroupIDs = make([]string, 17) }),
			"spec.securityGroupIDs: Too many: 17: must have at most 16 items",
		},
		"Secrets are valid": {valid(secrets("ecs-credentials", "script", "a.B_c-1")), ""},
		"credentials in a Secret without a name": {
			valid(secrets("", "script", "a")), `spec.credentialsSecretRef.name: Invalid value: "": must be the name of a Secret`,
		},
		"user data in a Secret that there cannot be": {
			valid(secrets("a", "my_script", "a")), `spec.userDataSecretRef.name: Invalid value: "my_script": must be the name of a Secret`,
		},
		"user data in a key that there cannot be": {
			valid(secrets("a", "script", "my script")), `spec.userDataSecretRef.key: Invalid value: "my script": must be a key of a Secret`,
		},
	} {
		t.Run(name, test.run)
	}
}

// secrets sets both references.
func secrets(credentials, userData, key string) func(*ECSInstanceSpec) {
	return func(s *ECSInstanceSpec) {
		s.CredentialsSecretRef = &SecretReference{Name: credentials}
		s.UserDataSecretRef = &SecretKeyReference{Name: userData, Key: key}
	}
}

func TestValidatePayment(t *testing.T) {
	paid := func(period int32, unit PeriodUnit) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) { s.InstanceChargeType, s.Period, s.PeriodUnit = PrePaid, &period, unit })
	}
	const must = "must be 1 to 4 weeks, or 1 to 9, 12, 24, 36, 48 or 60 months"
	for name, test := range map[string]verdict{
		"a month is valid":     {paid(1, Month), ""},
		"five years are valid": {paid(60, ""), ""},
		"four weeks are valid": {paid(4, Week), ""},
		"five weeks":           {paid(5, Week), "spec.period: Invalid value: 5: " + must},
		"ten months":           {paid(10, Month), "spec.period: Invalid value: 10: " + must},
		"nothing":              {paid(0, Month), "spec.period: Invalid value: 0: " + must},
		"a year":               {paid(1, "Year"), `spec.periodUnit: Unsupported value: "Year": supported values: "Week", "Month"`},
		"PrePaid without a period": {
			valid(func(s *ECSInstanceSpec) { s.InstanceChargeType = PrePaid }),
			"spec.period: Required value: say for how long a PrePaid instance is paid for",
		},
		"a period of PostPaid": {
			valid(func(s *ECSInstanceSpec) { s.Period = ptr.To[int32](1) }),
			"spec.period: Forbidden: can only be set with instanceChargeType: PrePaid",
		},
		"a unit of PostPaid": {
			valid(func(s *ECSInstanceSpec) { s.PeriodUnit = Month }), "spec.periodUnit: Forbidden: can only be set with instanceChargeType: PrePaid",
		},
		"an unknown way of paying": {
			valid(func(s *ECSInstanceSpec) { s.InstanceChargeType = "Free" }), `spec.instanceChargeType: Unsupported value: "Free"`,
		},
		"an adopted one without one": {valid(func(s *ECSInstanceSpec) { s.InstanceChargeType, s.AdoptInstanceID = PrePaid, "i-1" }), ""},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateAdoption(t *testing.T) {
	adopted := func(mutate func(s *ECSInstanceSpec)) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) {
			s.AdoptInstanceID = "i-1"
			mutate(s)
		})
	}
	const made = "Forbidden: cannot be set with adoptInstanceID: it only matters when an instance is made"
	for name, test := range map[string]verdict{
		"with an image is valid":    {adopted(func(*ECSInstanceSpec) {}), ""},
		"without an image is valid": {adopted(func(s *ECSInstanceSpec) { s.ImageID = "" }), ""},
		"with what it is, and is to be, is valid": {adopted(func(s *ECSInstanceSpec) {
			s.ZoneID, s.VSwitchID, s.KeyPairName, s.SecurityGroupIDs, s.Tags = "a", "b", "c", []string{"d"}, map[string]string{"e": "f"}
			s.PowerState, s.DeletionPolicy = PowerStopped, DeletionDelete
		}), ""},
		"with a space": {
			adopted(func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i 1" }), `spec.adoptInstanceID: Invalid value: "i 1": must be what ECS calls it`,
		},
		"with a period": {
			adopted(func(s *ECSInstanceSpec) { s.InstanceChargeType, s.Period = PrePaid, ptr.To[int32](1) }), "spec.period: " + made,
		},
		"with a unit": {adopted(func(s *ECSInstanceSpec) { s.PeriodUnit = Week }), "spec.periodUnit: " + made},
		"with disks":  {adopted(func(s *ECSInstanceSpec) { s.Disks = &Disks{} }), "spec.disks: " + made},
		"with user data": {
			adopted(func(s *ECSInstanceSpec) { s.UserDataSecretRef = &SecretKeyReference{Name: "a"} }), "spec.userDataSecretRef: " + made,
		},
		"with a bandwidth": {
			adopted(func(s *ECSInstanceSpec) { s.InternetMaxBandwidthOut = new(int32) }), "spec.internetMaxBandwidthOut: " + made,
		},
		"with others to be": {
			adopted(func(s *ECSInstanceSpec) { s.RecreatePolicy = RecreateAlways }),
			"spec.recreatePolicy: Forbidden: cannot be Always with adoptInstanceID: nothing is made then",
		},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateDisks(t *testing.T) {
	data := func(disks ...DataDisk) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) { s.Disks = &Disks{Data: disks} })
	}
	system := func(disk SystemDisk) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) { s.Disks = &Disks{System: &disk} })
	}
	size := ptr.To[int32](20)
	for name, test := range map[string]verdict{
		"none are valid":         {data(), ""},
		"a system disk is valid": {system(SystemDisk{Category: "cloud_essd", PerformanceLevel: "PL0", SizeGiB: size}), ""},
		"a system disk that is too small": {
			system(SystemDisk{SizeGiB: ptr.To[int32](19)}), "spec.disks.system.sizeGiB: Invalid value: 19: must be from 20 to 2048",
		},
		"a level of no category": {
			system(SystemDisk{PerformanceLevel: "PL0"}), "spec.disks.system.performanceLevel: Forbidden: can only be set with category: cloud_essd",
		},
		"a level that there is not": {
			system(SystemDisk{Category: "cloud_essd", PerformanceLevel: "PL4"}), `spec.disks.system.performanceLevel: Unsupported value: "PL4"`,
		},
		"a category with a space": {system(SystemDisk{Category: "cloud essd"}), `spec.disks.system.category: Invalid value: "cloud essd"`},
		"data disks are valid":    {data(DataDisk{SizeGiB: size}, DataDisk{SnapshotID: "s-1", Encrypted: true, KeepOnRelease: true}), ""},
		"the second is of no size": {
			data(DataDisk{SizeGiB: size}, DataDisk{}),
			"spec.disks.data[1].sizeGiB: Required value: say how large the disk is, or which snapshotID it is made from",
		},
		"a data disk that is too large": {
			data(DataDisk{SizeGiB: ptr.To[int32](65537)}), "spec.disks.data[0].sizeGiB: Invalid value: 65537: must be from 1 to 65536",
		},
		"a snapshot with a space": {
			data(DataDisk{SnapshotID: "s 1"}), `spec.disks.data[0].snapshotID: Invalid value: "s 1": must be what ECS calls it`,
		},
		"a level of another category": {
			data(DataDisk{SizeGiB: size, Category: "cloud_ssd", PerformanceLevel: "PL1"}), "spec.disks.data[0].performanceLevel: Forbidden: ",
		},
		"more than an instance can have":   {data(make([]DataDisk, 17)...), "spec.disks.data: Too many: 17: must have at most 16 items"},
		"as many as an instance can have":  {data(slices.Repeat([]DataDisk{{SizeGiB: size}}, 16)...), ""},
		"a category that is too long":      {system(SystemDisk{Category: strings.Repeat("x", 65)}), "spec.disks.system.category: Too long: "},
		"a snapshot's ID that is too long": {data(DataDisk{SnapshotID: strings.Repeat("x", 129)}), "spec.disks.data[0].snapshotID: Too long: "},
		"a data disk smaller than anything": {
			data(DataDisk{SizeGiB: new(int32)}), "spec.disks.data[0].sizeGiB: Invalid value: 0: must be from 1 to 65536",
		},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateTags(t *testing.T) {
	tag := func(key, value string) *ECSInstance {
		return valid(func(s *ECSInstanceSpec) { s.Tags = map[string]string{key: value} })
	}
	many := map[string]string{}
	for i := range 18 {
		many[fmt.Sprint("t", i)] = ""
	}
	const (
		every = `every key must have 1 to 128 characters, and neither "http://" nor "https://" in it`
		no    = `no key may begin with "aliyun" or "acs:", which are ECS' own, or with "glassback.dev/", which is the operator's`
	)
	for name, test := range map[string]verdict{
		"a tag is valid":                {tag("cost center", "4711"), ""},
		"one without a value is valid":  {tag("team", ""), ""},
		"the longest is valid":          {tag(strings.Repeat("团", 128), strings.Repeat("网", 128)), ""},
		"one without a key":             {tag("", "a"), `spec.tags: Invalid value: "": ` + every},
		"a key that is too long":        {tag(strings.Repeat("x", 129), ""), `spec.tags: Invalid value: "xxx`},
		"a key with a URL":              {tag("a http://b", ""), `spec.tags: Invalid value: "a http://b": ` + every},
		"a key of ECS":                  {tag("aliyun-a", ""), `spec.tags: Invalid value: "aliyun-a": ` + no},
		"a key of ACS":                  {tag("acs:rm", ""), `spec.tags: Invalid value: "acs:rm": ` + no},
		"the key that says whose it is": {tag(TagUID, "a"), `spec.tags: Invalid value: "glassback.dev/uid": ` + no},
		"a value that is too long":      {tag("a", strings.Repeat("x", 129)), "spec.tags[a]: Too long: "},
		"a value with a URL": {
			tag("a", "https://b"), `spec.tags[a]: Invalid value: "https://b": must have neither "http://" nor "https://" in it`,
		},
		"more than ECS leaves the operator": {
			valid(func(s *ECSInstanceSpec) { s.Tags = many }), "spec.tags: Too many: 18: must have at most 17 items",
		},
	} {
		t.Run(name, test.run)
	}
}

func TestValidateChange(t *testing.T) {
	const fixed = "Forbidden: cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
	disks := func(size int32) *Disks { return &Disks{Data: []DataDisk{{SizeGiB: &size}}} }
	for name, test := range map[string]struct {
		old, now func(s *ECSInstanceSpec)
		want     string // the fields that cannot be changed
	}{
		"nothing":    {nil, nil, ""},
		"the region": {nil, func(s *ECSInstanceSpec) { s.RegionID = "cn-hangzhou" }, "regionID"},
		"the image":  {nil, func(s *ECSInstanceSpec) { s.ImageID = "m-1" }, "imageID"},
		"the way of paying": {
			nil, func(s *ECSInstanceSpec) { s.InstanceChargeType, s.Period = PrePaid, ptr.To[int32](1) }, "instanceChargeType period",
		},
		"the unit":                 {func(s *ECSInstanceSpec) { pay(s, Month) }, func(s *ECSInstanceSpec) { pay(s, Week) }, "periodUnit"},
		"the unit, said as it was": {func(s *ECSInstanceSpec) { pay(s, "") }, func(s *ECSInstanceSpec) { pay(s, Month) }, ""},
		"the zone":                 {nil, func(s *ECSInstanceSpec) { s.ZoneID = "a" }, "zoneID"},
		"the switch":               {nil, func(s *ECSInstanceSpec) { s.VSwitchID = "a" }, "vSwitchID"},
		"the bandwidth":            {nil, func(s *ECSInstanceSpec) { s.InternetMaxBandwidthOut = ptr.To[int32](1) }, "internetMaxBandwidthOut"},
		"a bandwidth of nothing":   {nil, func(s *ECSInstanceSpec) { s.InternetMaxBandwidthOut = new(int32) }, ""},
		"disks":                    {nil, func(s *ECSInstanceSpec) { s.Disks = disks(20) }, "disks"},
		"a disk's size":            {func(s *ECSInstanceSpec) { s.Disks = disks(20) }, func(s *ECSInstanceSpec) { s.Disks = disks(21) }, "disks"},
		"disks as they were":       {func(s *ECSInstanceSpec) { s.Disks = disks(20) }, func(s *ECSInstanceSpec) { s.Disks = disks(20) }, ""},
		"the key pair":             {nil, func(s *ECSInstanceSpec) { s.KeyPairName = "a" }, "keyPairName"},
		"the user data":            {nil, func(s *ECSInstanceSpec) { s.UserDataSecretRef = &SecretKeyReference{Name: "a"} }, "userDataSecretRef"},
		"which instance it is":     {nil, func(s *ECSInstanceSpec) { s.AdoptInstanceID = "i-1" }, "adoptInstanceID"},
		"all that may be": {nil, func(s *ECSInstanceSpec) {
			s.InstanceType, s.InstanceTypeChangePolicy = "ecs.g7.large", TypeChangeRestart
			s.InstanceName, s.SecurityGroupIDs = "other", []string{"sg-1"}
			s.Tags, s.PowerState, s.DeletionPolicy, s.RecreatePolicy = map[string]string{"a": "b"}, PowerStopped, DeletionRetain, RecreateAlways
			s.CredentialsSecretRef = &SecretReference{Name: "a"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			unchanged := func(*ECSInstanceSpec) {}
			if test.old == nil {
				test.old = unchanged
			}
			if test.now == nil {
				test.now = unchanged
			}
			old, now := valid(test.old), valid(test.now)
			verdict{now, ""}.over(t, old)                                // There is no instance yet.
			if asked := old.DeepCopy(); test.want == "adoptInstanceID" { // Nor here; but there may be.
				asked.Status.Create = &Create{}
				verdict{now, "spec.adoptInstanceID: " + fixed}.over(t, asked)
			}
			old.Status.InstanceID = "i-1"
			var got []string
			for _, err := range now.Validate(old) {
				name := strings.TrimPrefix(err.Field, "spec.")
				got = append(got, name)
				if want := "spec." + name + ": " + fixed; err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("cannot be changed: %q, want %q", got, test.want)
			}
		})
	}
}

func pay(s *ECSInstanceSpec, unit PeriodUnit) {
	s.InstanceChargeType, s.Period, s.PeriodUnit = PrePaid, ptr.To[int32](1), unit
}

// FuzzValidate reads objects as clients send them.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"spec":{"imageID":"a.vhd","instanceType":"ecs.g6.large","regionID":"cn-beijing","instanceName":"ins-0702"}}`,
		`{"spec":{"imageID":"a b","instanceType":"","regionID":"a.b/","instanceName":"http://a","instanceChargeType":"PrePaid","period":10}}`,
		`{"spec":{"regionID":"a","instanceType":"b","adoptInstanceID":"i-1","recreatePolicy":"Always","disks":{},"period":1,` +
			`"periodUnit":"Week"}}`,
		`{"spec":{"regionID":"a","instanceType":"b","imageID":"c","disks":{"system":{"sizeGiB":1},"data":[{},{"performanceLevel":"PL1"}]}}}`,
		`{"spec":{"regionID":"a","instanceType":"b","imageID":"c","tags":{"":"","acs:":"http://","glassback.dev/uid":"x","a":"b"},` +
			`"securityGroupIDs":["","a","a"]}}`,
		`{"spec":{"regionID":"a","instanceType":"b","imageID":"c","userDataSecretRef":{},"credentialsSecretRef":{"name":"A"},` +
			`"internetMaxBandwidthOut":101}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &ECSInstance{}
		if json.Unmarshal(data, e) != nil {
			return
		}
		old := valid(func(s *ECSInstanceSpec) { s.Disks = &Disks{System: &SystemDisk{SizeGiB: ptr.To[int32](40)}} })
		old.Status.InstanceID = "i-1"
		e.Default()
		again := e.DeepCopy()
		again.Default()
		errs := again.Validate(nil)
		oldAsWas := old.DeepCopy()
		changeErrs := again.Validate(old)
		if !reflect.DeepEqual(e, again) {
			t.Errorf("Default or Validate changed an object with defaults: %+v became %+v", e, again)
		}
		if !reflect.DeepEqual(old, oldAsWas) {
			t.Errorf("Validate changed the older object: %+v became %+v", oldAsWas, old)
		}
		if second := again.Validate(nil); !reflect.DeepEqual(errs, second) {
			t.Errorf("Validate says %v, and then %v", errs.ToAggregate(), second.ToAggregate())
		}
		for _, err := range slices.Concat(errs, changeErrs) {
			if err.Field == "" {
				t.Errorf("names no field: %v", err)
			}
		}
		if len(changeErrs) < len(errs) {
			t.Errorf("valid in the place of another: %v", errs.ToAggregate())
		}
		if len(errs) == 0 {
			wantUsable(t, e)
		}
	})
}

// wantUsable fails the test unless what is valid can be worked with.
func wantUsable(t *testing.T, e *ECSInstance) {
	t.Helper()
	for _, warning := range e.Warnings() {
		if !strings.HasPrefix(warning, "spec.") {
			t.Errorf("names no field: %s", warning)
		}
	}
	s := &e.Spec
	if s.RegionID == "" || strings.ContainsAny(s.RegionID, "./:@?#% \n") {
		t.Errorf("valid with %q in the name of a host", s.RegionID)
	}
	if s.InstanceType == "" || s.ImageID == "" && s.AdoptInstanceID == "" {
		t.Errorf("valid with nothing to make or to adopt: %+v", s)
	}
	if (s.InstanceChargeType == PrePaid && s.AdoptInstanceID == "") != (s.Period != nil && s.PeriodUnit != "") {
		t.Errorf("valid with a period of %v %s, and %s", s.Period, s.PeriodUnit, s.InstanceChargeType)
	}
	for key := range s.Tags {
		if strings.HasPrefix(key, TagPrefix) {
			t.Errorf("valid with a tag of the operator: %s", key)
		}
	}
}
