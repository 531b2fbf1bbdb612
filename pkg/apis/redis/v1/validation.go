// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// busOffset is the distance from Redis' port to its port for the cluster bus.
const busOffset = 10000

const (
	maxReplicasPerMaster = 5
	maxImage             = 1024
	maxPort              = 65535
)

var (
	endsWithPort = regexp.MustCompile(`:[1-9][0-9]{0,4}$`)
	newTLS       = regexp.MustCompile(`(?i)TLSv1[.][23]`)
	imageName    = regexp.MustCompile(`^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9A-Fa-f:]+](:[0-9]+)?/)?` + // registry
		`[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` + // repository
		`(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?` + // tag
		`(@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]+)?$`) // digest
)

// Validate returns the errors of r, or nil. r has defaults. The argument is the object that r replaces: it is not used, because the schema
// has the rules of changes.
//
// Only the schema has most of the rules. Validate has those that a schema cannot have: addr is required, and a schedule has a next time. It
// repeats rules without which the controller cannot compute: of the port of addr, replicasPerMaster, and the store of backups. It also
// repeats two rules that objects from before may break, and that keep the operator from connecting: maxclients and tls-protocols.
func (r *RedisCluster) Validate(_ *RedisCluster) field.ErrorList {
	s, path := &r.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if _, _, ok := s.Ports(); !ok {
		errs = append(errs, field.Invalid(path.Child("addr"), s.Addr, "invalid ip port, ip:port"))
	}
	errs = append(errs, glassback.ValidateRange(path.Child("replicasPerMaster"), s.ReplicasPerMaster, 0, maxReplicasPerMaster)...)
	errs = append(errs, s.validateConfig(path.Child("config"))...)
	if s.Backup != nil {
		errs = append(errs, validateSchedule(path.Child("backup", "schedule"), s.Backup.Schedule)...)
		errs = append(errs, s.Backup.BackupStore.validate(path.Child("backup"))...)
	}
	if s.RestoreFrom != nil {
		errs = append(errs, s.RestoreFrom.BackupStore.validate(path.Child("restoreFrom"))...)
	}
	return errs
}

// Ports returns the ports of every node: for clients, and for the cluster bus. It returns false if addr does not end with a port. The
// rest of addr may be wrong.
func (s *RedisClusterSpec) Ports() (port, bus int, ok bool) {
	if ok = endsWithPort.MatchString(s.Addr); !ok {
		return 0, 0, false
	}
	port, _ = strconv.Atoi(s.Addr[strings.LastIndex(s.Addr, ":")+1:])
	if bus = port + busOffset; bus > maxPort {
		bus = port - busOffset
	}
	return port, bus, true
}

// IsImage returns whether text is the name of an image, by the rule of spec.image.
func IsImage(text string) bool { return len(text) <= maxImage && imageName.MatchString(text) }

func (s *RedisClusterSpec) validateConfig(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if value, set := s.Config["maxclients"]; set && s.lacksConnections(string(value)) {
		errs = append(errs, field.Invalid(path.Key("maxclients"), string(value),
			"must be at least 100, and at least 32 and 2 for each Pod: the connections between the nodes count, and those of the operator"))
	}
	if value := s.Config["tls-protocols"]; value != "" && !newTLS.MatchString(string(value)) {
		errs = append(errs, field.Invalid(path.Key("tls-protocols"), string(value),
			"must have TLSv1.2 or TLSv1.3: the operator speaks no older version"))
	}
	return errs
}

// lacksConnections returns whether maxclients leaves the operator no connection: Redis counts two for each other node. redis-server reports
// a text that is no number.
func (s *RedisClusterSpec) lacksConnections(maxclients string) bool {
	most, err := strconv.ParseUint(maxclients, 10, 32)
	return err == nil && len(maxclients) <= 9 && int64(most) < max(100, 32+2*int64(*s.Size)) //nolint:gosec // It has 32 bits.
}

func validateSchedule(path *field.Path, expression string) field.ErrorList {
	if expression == "" {
		return nil
	}
	schedule, err := ParseBackupSchedule(expression)
	if err != nil {
		return field.ErrorList{field.Invalid(path, expression, err.Error())}
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return field.ErrorList{field.Invalid(path, expression, "never comes: none of its months has such a day")}
	}
	return nil
}

func (s *BackupStore) validate(path *field.Path) field.ErrorList {
	if (s.PersistentVolumeClaim == nil) == (s.S3 == nil) {
		return field.ErrorList{field.Invalid(path, "", "must have either persistentVolumeClaim or s3")}
	}
	return nil
}
