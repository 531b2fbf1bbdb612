// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
)

// busOffset is the distance from Redis' port to its port for the cluster bus.
const busOffset = 10000

const (
	maxSize              = 500
	maxReplicasPerMaster = 5
	maxImage             = 1024
	maxName              = 52
	maxDirectives        = 64
	maxDirectiveValue    = 1024
	maxMetadata          = 64
	maxPullSecrets       = 16
	maxContainers        = 16
	maxVolumes           = 32
	maxEnv               = 100
	maxPort              = 65535
)

var (
	address      = regexp.MustCompile(`^([0-9.]+|[[][0-9A-Fa-f:.]+[]]):[1-9][0-9]{0,4}$`)
	endsWithPort = regexp.MustCompile(`:[1-9][0-9]{0,4}$`)
	directive    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)
	newTLS       = regexp.MustCompile(`(?i)TLSv1[.][23]`)
	control      = regexp.MustCompile(`[\x00-\x1f\x7f]`)
)

// ownDirectives are the directives of redis.conf that the operator sets to form the cluster,
// or that another field of spec sets. Directives with ownDirectivePrefix belong to them.
var ownDirectives = []string{
	"aclfile", "appenddirname", "appendfilename", "appendonly", "bind", "bind-source-addr", "cluster-allow-replica-migration",
	"cluster-config-file", "cluster-enabled", "cluster-port", "cluster-replica-no-failover", "cluster-slave-no-failover",
	"daemonize", "dbfilename", "dir", "include", "loadmodule", "logfile", "masterauth", "masteruser", "pidfile", "port",
	"protected-mode", "rename-command", "replicaof", "requirepass", "slaveof", "supervised",
	"syslog-enabled", "tls-cluster", "tls-port", "tls-replication", "unixsocket", "user",
}

const ownDirectivePrefix = "cluster-announce-"

// Validate returns the errors of r, or nil. old is the object that r replaces; nil if r is
// new. Both have defaults.
//
// It has the same rules as the schema, and one more: addr is required. It also names the key
// of a map that is invalid. Only the schema checks how a quantity is written.
func (r *RedisCluster) Validate(old *RedisCluster) field.ErrorList {
	var errs field.ErrorList
	if len(r.Name) > maxName || len(validation.IsDNS1035Label(r.Name)) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), r.Name,
			`must be a DNS label of no more than 52 characters that begins with a letter, like "sessions": `+
				`its Service and its Pods are named after it`))
	}
	path := field.NewPath("spec")
	errs = append(errs, r.Spec.validate(path)...)
	if old != nil {
		errs = append(errs, validateStorageChange(path.Child("storage"), r.Spec.Storage, old.Spec.Storage)...)
		errs = append(errs, validateRestoreChange(path.Child("restoreFrom"), r.Spec.RestoreFrom, old.Spec.RestoreFrom)...)
	}
	return errs
}

func (s *RedisClusterSpec) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !isAddr(s.Addr) { // A long addr has no other error, so that kubectl prints only this line.
		errs = append(errs, field.Invalid(path.Child("addr"), s.Addr, "invalid ip port, ip:port"))
	}
	errs = append(errs, glassback.ValidateRange(path.Child("size"), s.Size, s.LeastSize(), maxSize)...)
	errs = append(errs, glassback.ValidateRange(path.Child("replicasPerMaster"), s.ReplicasPerMaster, 0, maxReplicasPerMaster)...)
	errs = append(errs, glassback.ValidateText(path.Child("image"), s.Image, maxImage, glassback.ImageName.MatchString,
		`must be the name of an image, like "redis:7" or "ghcr.io/owner/redis:7": without spaces, and in lower case but for the tag`)...)
	if s.Storage != nil {
		errs = append(errs, s.Storage.validate(path.Child("storage"))...)
	}
	errs = append(errs, glassback.ValidateResources(path.Child("resources"), s.Resources)...)
	errs = append(errs, s.validateConfig(path.Child("config"))...)
	if s.AuthSecretRef != nil {
		errs = append(errs, s.AuthSecretRef.validate(path.Child("authSecretRef"))...)
	}
	errs = append(errs, s.validateUsers(path)...)
	errs = append(errs, s.validateTLS(path)...)
	errs = append(errs, s.validateAccess(path)...)
	errs = append(errs, s.PodTemplate.validate(path.Child("podTemplate"))...)
	errs = append(errs, s.Backup.validate(path.Child("backup"))...)
	errs = append(errs, s.RestoreFrom.validate(path.Child("restoreFrom"))...)
	return append(errs, s.NetworkPolicy.validate(path.Child("networkPolicy"))...)
}

// Ports returns the ports of every node: for clients, and for the cluster bus. It returns false if addr does not end with a port. As in the
// schema, the rest of addr may be wrong.
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
func IsImage(text string) bool { return len(text) <= maxImage && glassback.ImageName.MatchString(text) }

// isAddr reports whether text is "ip:port" by the rule of the schema: no zone, no IPv4 in
// IPv6, no leading zeros.
func isAddr(text string) bool {
	parsed, err := netip.ParseAddrPort(text)
	return err == nil && address.MatchString(text) && !parsed.Addr().Is4In6()
}

func (s *Storage) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if size := s.Size; size.Sign() <= 0 { // A copy: String writes into it.
		errs = append(errs, field.Invalid(path.Child("size"), size.String(), "must be more than 0"))
	}
	if s.StorageClassName != nil {
		errs = append(errs, glassback.ValidateObjectName(path.Child("storageClassName"), *s.StorageClassName, "a StorageClass", "standard")...)
	}
	return errs
}

func validateStorageChange(path *field.Path, now, old *Storage) field.ErrorList {
	if (now == nil) != (old == nil) {
		return field.ErrorList{field.Forbidden(path, "cannot be added to a cluster or taken from it: its nodes would lose what they hold")}
	}
	if now == nil {
		return nil
	}
	var errs field.ErrorList
	if size := now.Size; size.Cmp(old.Size) < 0 { // A copy: Cmp and String write into it.
		errs = append(errs, field.Invalid(path.Child("size"), size.String(), "cannot be less than it was: volumes do not shrink"))
	}
	if !ptr.Equal(now.StorageClassName, old.StorageClassName) {
		errs = append(errs, field.Forbidden(path.Child("storageClassName"), "cannot be changed: the volumes are of that class"))
	}
	return errs
}

func (s *RedisClusterSpec) validateConfig(path *field.Path) field.ErrorList {
	config := s.Config
	if len(config) > maxDirectives {
		return field.ErrorList{field.TooMany(path, len(config), maxDirectives)}
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(config)) {
		switch {
		case !directive.MatchString(key):
			errs = append(errs, field.Invalid(path, key,
				`every key must be the name of a directive of redis.conf, like "maxmemory-policy": no more than 64 lower case letters, digits and "-"`))
		case slices.Contains(ownDirectives, key) || strings.HasPrefix(key, ownDirectivePrefix):
			errs = append(errs, field.Forbidden(path.Key(key), "the operator sets it, or another field of spec does"))
		case key == "maxclients" && s.lacksConnections(string(config[key])):
			errs = append(errs, field.Invalid(path.Key(key), string(config[key]),
				"must be at least 100, and at least 32 and 2 for each Pod: the connections between the nodes count, and those of the operator"))
		case key == "tls-protocols" && config[key] != "" && !newTLS.MatchString(string(config[key])):
			errs = append(errs, field.Invalid(path.Key(key), string(config[key]),
				"must have TLSv1.2 or TLSv1.3: the operator speaks no older version"))
		}
		errs = append(errs, glassback.ValidateText(path.Key(key), string(config[key]), maxDirectiveValue,
			func(value string) bool { return !control.MatchString(value) }, "must be one line")...)
	}
	return errs
}

// lacksConnections returns whether maxclients leaves the operator no connection: Redis counts two for each other node. redis-server reports
// a text that is no number.
func (s *RedisClusterSpec) lacksConnections(maxclients string) bool {
	most, err := strconv.ParseUint(maxclients, 10, 32)
	return err == nil && len(maxclients) <= 9 && int64(most) < max(100, 32+2*int64(*s.Size)) //nolint:gosec // It has 32 bits.
}

func (r *SecretKeyReference) validate(path *field.Path) field.ErrorList {
	return append(glassback.ValidateObjectName(path.Child("name"), r.Name, "a Secret", "redis-password"),
		glassback.ValidateSecretKey(path.Child("key"), r.Key, "password")...)
}
