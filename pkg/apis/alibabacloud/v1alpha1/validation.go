// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

const (
	maxRegionID       = 63 // A region is a label in a host name.
	maxText           = 128
	maxCategory       = 64
	maxSecurityGroups = 16
	maxDataDisks      = 16
	maxTags           = 17

	categoryESSD = "cloud_essd" // the category with performance levels

)

var (
	region       = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	word         = regexp.MustCompile(`^[!-~]+$`)
	instanceName = regexp.MustCompile(`^\p{L}[^\x00-\x1f\x7f]+$`)
	keyPairName  = regexp.MustCompile(`^[^\x00-\x20\x7f]+$`)
)

// periods are the periods for which ECS accepts payment
// (https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-createinstance).
var periods = map[PeriodUnit][]int32{
	Week:  {1, 2, 3, 4},
	Month: {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 24, 36, 48, 60},
}

// Messages that several fields share.
const (
	mustBeID      = `must be what ECS calls it: no spaces, and nothing but ASCII`
	fixed         = "cannot be changed while there is an instance: make another ECSInstance, or delete this one first"
	onlyWhenMade  = "cannot be set with adoptInstanceID: it only matters when an instance is made"
	onlyOfPrePaid = "can only be set with instanceChargeType: PrePaid"
	onlyOfESSD    = "can only be set with category: cloud_essd"
)

// Validate returns the errors of e, or nil. old is the object that e replaces; nil if e is
// new. Both have defaults.
//
// It has the same rules as the schema, and also names the entry of a map or list that is
// invalid.
func (e *ECSInstance) Validate(old *ECSInstance) field.ErrorList {
	path := field.NewPath("spec")
	errs := e.Spec.validate(path)
	if old != nil && old.Status.InstanceID != "" {
		errs = append(errs, validateChange(path, &e.Spec, &old.Spec)...)
	}
	if old != nil && (old.Status.InstanceID != "" || old.Status.Create != nil) { // An instance may exist.
		errs = append(errs, forbidden(path.Child("adoptInstanceID"), e.Spec.AdoptInstanceID != old.Spec.AdoptInstanceID, fixed)...)
	}
	return errs
}

func (s *ECSInstanceSpec) validate(path *field.Path) field.ErrorList {
	errs := s.validateTexts(path)
	if s.ImageID == "" && s.AdoptInstanceID == "" {
		errs = append(errs, field.Required(path.Child("imageID"),
			`say what the system disk is made from, like "aliyun_3_x64_20G_alibase_20240528.vhd"`))
	}
	errs = append(errs, s.validateChoices(path)...)
	errs = append(errs, s.validatePeriod(path)...)
	errs = append(errs, s.validateAdoption(path)...)
	errs = append(errs, validateSecurityGroups(path.Child("securityGroupIDs"), s.SecurityGroupIDs)...)
	errs = append(errs, glassback.ValidateRange(path.Child("internetMaxBandwidthOut"), s.InternetMaxBandwidthOut, 0, 100)...)
	if s.Disks != nil {
		errs = append(errs, s.Disks.validate(path.Child("disks"))...)
	}
	errs = append(errs, validateTags(path.Child("tags"), s.Tags)...)
	if ref := s.UserDataSecretRef; ref != nil {
		errs = append(errs, validateSecretName(path.Child("userDataSecretRef", "name"), ref.Name)...)
		errs = append(errs, glassback.ValidateSecretKey(path.Child("userDataSecretRef", "key"), ref.Key, "userData")...)
	}
	if ref := s.CredentialsSecretRef; ref != nil {
		errs = append(errs, validateSecretName(path.Child("credentialsSecretRef", "name"), ref.Name)...)
	}
	return errs
}

func (s *ECSInstanceSpec) validateTexts(path *field.Path) field.ErrorList {
	errs := glassback.ValidateText(path.Child("regionID"), s.RegionID, maxRegionID, region.MatchString,
		`must be the ID of a region, like "cn-beijing": lower case letters, digits and "-"`)
	errs = append(errs, glassback.ValidateText(path.Child("instanceType"), s.InstanceType, maxText, word.MatchString,
		`must be an instance type, like "ecs.g6.large": no spaces, and nothing but ASCII`)...)
	errs = append(errs, validateOptional(path.Child("instanceName"), s.InstanceName, maxText, isInstanceName,
		`must be 2 to 128 characters on one line that begin with a letter, and not with "http://" or "https://"`)...)
	errs = append(errs, validateOptional(path.Child("keyPairName"), s.KeyPairName, maxText, keyPairName.MatchString,
		"must be the name of a key pair: no spaces")...)
	for _, id := range []struct{ name, value string }{
		{"imageID", s.ImageID}, {"zoneID", s.ZoneID}, {"vSwitchID", s.VSwitchID}, {"adoptInstanceID", s.AdoptInstanceID},
	} {
		errs = append(errs, validateOptional(path.Child(id.name), id.value, maxText, word.MatchString, mustBeID)...)
	}
	return errs
}

// isInstanceName returns whether text may be the name of an instance. ECS may reject it nevertheless.
func isInstanceName(text string) bool {
	return instanceName.MatchString(text) && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://")
}

func (s *ECSInstanceSpec) validateChoices(path *field.Path) field.ErrorList {
	return slices.Concat(
		oneOf(path.Child("instanceTypeChangePolicy"), s.InstanceTypeChangePolicy, TypeChangeNever, TypeChangeWhenStopped, TypeChangeRestart),
		oneOf(path.Child("instanceChargeType"), s.InstanceChargeType, PostPaid, PrePaid),
		oneOf(path.Child("powerState"), s.PowerState, PowerRunning, PowerStopped),
		oneOf(path.Child("deletionPolicy"), s.DeletionPolicy, DeletionDelete, DeletionRetain),
		oneOf(path.Child("recreatePolicy"), s.RecreatePolicy, RecreateNever, RecreateAlways),
		oneOf(path.Child("periodUnit"), s.PeriodUnit, "", Week, Month),
	)
}

func (s *ECSInstanceSpec) validatePeriod(path *field.Path) field.ErrorList {
	switch {
	case s.AdoptInstanceID != "":
		return nil // See validateAdoption.
	case s.InstanceChargeType != PrePaid:
		return slices.Concat(
			forbidden(path.Child("period"), s.Period != nil, onlyOfPrePaid),
			forbidden(path.Child("periodUnit"), s.PeriodUnit != "", onlyOfPrePaid))
	case s.Period == nil:
		return field.ErrorList{field.Required(path.Child("period"), "say for how long a PrePaid instance is paid for")}
	case s.PeriodUnit != Week && s.PeriodUnit != Month:
		return nil // See validateChoices.
	case !slices.Contains(periods[s.PeriodUnit], *s.Period):
		return field.ErrorList{field.Invalid(path.Child("period"), *s.Period, "must be 1 to 4 weeks, or 1 to 9, 12, 24, 36, 48 or 60 months")}
	}
	return nil
}

// validateAdoption rejects the fields that only matter when an instance is created. The
// operator cannot compare them with an existing instance.
func (s *ECSInstanceSpec) validateAdoption(path *field.Path) field.ErrorList {
	if s.AdoptInstanceID == "" {
		return nil
	}
	return slices.Concat(
		forbidden(path.Child("period"), s.Period != nil, onlyWhenMade),
		forbidden(path.Child("periodUnit"), s.PeriodUnit != "", onlyWhenMade),
		forbidden(path.Child("internetMaxBandwidthOut"), s.InternetMaxBandwidthOut != nil, onlyWhenMade),
		forbidden(path.Child("disks"), s.Disks != nil, onlyWhenMade),
		forbidden(path.Child("userDataSecretRef"), s.UserDataSecretRef != nil, onlyWhenMade),
		forbidden(path.Child("recreatePolicy"), s.RecreatePolicy == RecreateAlways,
			"cannot be Always with adoptInstanceID: nothing is made then"),
	)
}

func validateSecurityGroups(path *field.Path, ids []string) field.ErrorList {
	if len(ids) > maxSecurityGroups {
		return field.ErrorList{field.TooMany(path, len(ids), maxSecurityGroups)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, id := range ids {
		if seen[id] {
			errs = append(errs, field.Duplicate(path.Index(i), id))
		}
		seen[id] = true
		errs = append(errs, glassback.ValidateText(path.Index(i), id, maxText, word.MatchString, mustBeID)...)
	}
	return errs
}

func (d *Disks) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d.System != nil {
		at := path.Child("system")
		errs = append(errs, validateDisk(at, d.System.Category, d.System.PerformanceLevel)...)
		errs = append(errs, glassback.ValidateRange(at.Child("sizeGiB"), d.System.SizeGiB, 20, 2048)...)
	}
	at := path.Child("data")
	if len(d.Data) > maxDataDisks {
		return append(errs, field.TooMany(at, len(d.Data), maxDataDisks))
	}
	for i := range d.Data {
		errs = append(errs, d.Data[i].validate(at.Index(i))...)
	}
	return errs
}

func (d *DataDisk) validate(path *field.Path) field.ErrorList {
	errs := validateDisk(path, d.Category, d.PerformanceLevel)
	errs = append(errs, glassback.ValidateRange(path.Child("sizeGiB"), d.SizeGiB, 1, 65536)...)
	errs = append(errs, validateOptional(path.Child("snapshotID"), d.SnapshotID, maxText, word.MatchString, mustBeID)...)
	if d.SizeGiB == nil && d.SnapshotID == "" {
		errs = append(errs, field.Required(path.Child("sizeGiB"), "say how large the disk is, or which snapshotID it is made from"))
	}
	return errs
}

func validateDisk(path *field.Path, category, level string) field.ErrorList {
	return slices.Concat(
		validateOptional(path.Child("category"), category, maxCategory, word.MatchString, mustBeID),
		oneOf(path.Child("performanceLevel"), level, "", "PL0", "PL1", "PL2", "PL3"),
		forbidden(path.Child("performanceLevel"), level != "" && category != categoryESSD, onlyOfESSD),
	)
}

// validateTags has the rules of ECS, and stricter ones for prefixes and the number of tags:
// the operator sets tags of its own.
func validateTags(path *field.Path, tags map[string]string) field.ErrorList {
	if len(tags) > maxTags {
		return field.ErrorList{field.TooMany(path, len(tags), maxTags)}
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxText || hasURL(key):
			errs = append(errs, field.Invalid(path, key, `every key must have 1 to 128 characters, and neither "http://" nor "https://" in it`))
		case strings.HasPrefix(key, "aliyun") || strings.HasPrefix(key, "acs:") || strings.HasPrefix(key, TagPrefix):
			errs = append(errs, field.Invalid(path, key,
				`no key may begin with "aliyun" or "acs:", which are ECS' own, or with "glassback.dev/", which is the operator's`))
		}
		errs = append(errs, glassback.ValidateText(path.Key(key), tags[key], maxText, func(value string) bool { return !hasURL(value) },
			`must have neither "http://" nor "https://" in it`)...)
	}
	return errs
}

func hasURL(text string) bool {
	return strings.Contains(text, "http://") || strings.Contains(text, "https://")
}

// validateChange rejects a change of the fields that ECS cannot change in an instance, and of
// the fields by which the operator finds the instance.
func validateChange(path *field.Path, now, old *ECSInstanceSpec) field.ErrorList {
	var errs field.ErrorList
	for _, part := range []struct {
		name string
		same bool
	}{
		{"regionID", now.RegionID == old.RegionID},
		{"imageID", now.ImageID == old.ImageID},
		{"instanceChargeType", now.InstanceChargeType == old.InstanceChargeType},
		{"period", ptr.Equal(now.Period, old.Period)},
		{"periodUnit", cmp.Or(now.PeriodUnit, Month) == cmp.Or(old.PeriodUnit, Month)},
		{"zoneID", now.ZoneID == old.ZoneID},
		{"vSwitchID", now.VSwitchID == old.VSwitchID},
		{"internetMaxBandwidthOut", ptr.Deref(now.InternetMaxBandwidthOut, 0) == ptr.Deref(old.InternetMaxBandwidthOut, 0)},
		{"disks", equality.Semantic.DeepEqual(now.Disks, old.Disks)},
		{"keyPairName", now.KeyPairName == old.KeyPairName},
		{"userDataSecretRef", ptr.Equal(now.UserDataSecretRef, old.UserDataSecretRef)},
	} {
		errs = append(errs, forbidden(path.Child(part.name), !part.same, fixed)...)
	}
	return errs
}

func validateSecretName(path *field.Path, name string) field.ErrorList {
	return glassback.ValidateObjectName(path, name, "a Secret", "ecs-credentials")
}

// validateOptional is validateText for a text that may be empty.
func validateOptional(path *field.Path, text string, maxLength int, ok func(string) bool, must string) field.ErrorList {
	if text == "" {
		return nil
	}
	return glassback.ValidateText(path, text, maxLength, ok, must)
}

func oneOf[T ~string](path *field.Path, value T, choices ...T) field.ErrorList {
	if slices.Contains(choices, value) {
		return nil
	}
	return field.ErrorList{
		field.NotSupported(path, value, slices.DeleteFunc(slices.Clone(choices), func(choice T) bool { return choice == "" })),
	}
}

func forbidden(path *field.Path, is bool, detail string) field.ErrorList {
	if !is {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, detail)}
}
