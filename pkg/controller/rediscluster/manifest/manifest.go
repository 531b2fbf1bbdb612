// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest builds the objects of a RedisCluster: Pods with their scripts and redis.conf, claims, Services, the ConfigMap of a
// revision, the PodDisruptionBudget, the NetworkPolicy, and Jobs. It also reads from these objects what it has put there.
//
// Its functions are pure: the same valid spec, with its defaults, builds the same objects. What Pods are created from is in their revision,
// so a change of this package must not change the objects of an existing RedisCluster: see podRevision.
package manifest

import (
	"crypto/sha256"
	_ "embed" // The scripts.
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
	"github.com/glassback/glassback/pkg/redisnode"
)

// Kind is the kind of the owner of all objects.
var Kind = v1.SchemeGroupVersion.WithKind("RedisCluster")

// AnnotationRevision on a Pod holds the revision that the Pod was created from.
const AnnotationRevision = v1.GroupName + "/revision"

// podRevision counts the versions of the operator that had to replace all Pods. Raise it if running Pods must get a change of pod, of
// redisConf or of the scripts: after the upgrade, each cluster then replaces its Pods, one by one. Otherwise the change reaches only new
// Pods, and all Pods with the next change of the spec. The existing ConfigMap of a revision never changes.
const podRevision = 1

const (
	// ContainerName is the container of a Pod with the redis-server.
	ContainerName = "redis"
	// PortRedis is the name of the port of Pods and Services for clients without TLS.
	PortRedis = "redis"
	// PortBus is that of the port for the cluster bus.
	PortBus = "bus"

	// busOffset is the distance from Redis' port to its port for the cluster bus.
	busOffset = 10000
	// userID is the ID of the user redis, and of its group, in Docker's Debian images. It works in Docker's Alpine
	// images too, where the IDs are 999 and 1000: no file there belongs to them.
	userID = 999

	dirData   = "/data"
	dirConfig = "/etc/glassback"
	// DirAuth is where VolumeAuth is mounted.
	DirAuth = "/etc/glassback-auth"
	// FileAuth is the file in DirAuth with the password.
	FileAuth = "password"
	// fileUsers is in a volume that outlives the container, but not the Pod: a new Pod begins with the operator's user alone.
	fileUsers = "/tmp/users.acl"
	// envUser has the name of the operator's user, for the scripts.
	envUser = "GLASSBACK_USER"
	// VolumeAuth is the volume with the password of a Pod.
	VolumeAuth = "auth"
)

var (
	//go:embed scripts/start.sh
	startScript string
	//go:embed scripts/live.sh
	liveScript string
	//go:embed scripts/ready.sh
	readyScript string
	//go:embed scripts/timeout.sh
	timeoutScript string
	//go:embed scripts/stop.sh
	stopScript string
	//go:embed scripts/users.sh
	usersScript string
)

// stopCommand is stop.sh without its comments.
var stopCommand = strings.Join(slices.DeleteFunc(strings.SplitAfter(stopScript, "\n"), func(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "#") || line == "\n"
}), "")

// PodName returns the name of the Pod with this ordinal.
func PodName(rdc *v1.RedisCluster, ordinal int) string { return rdc.Name + "-" + strconv.Itoa(ordinal) }

// ClaimName returns the name of the claim of the Pod with this ordinal.
func ClaimName(rdc *v1.RedisCluster, ordinal int) string { return "data-" + PodName(rdc, ordinal) }

// ConfigurationName returns the name of the ConfigMap of the revision of a RedisCluster.
func ConfigurationName(rdc *v1.RedisCluster) string { return rdc.Name + "-" + Revision(rdc) }

// Ports returns the ports on which every node listens: for clients, and for the cluster bus.
func Ports(rdc *v1.RedisCluster) (port, bus int) {
	port, bus, _ = rdc.Spec.Ports() // Its addr is valid.
	return port, bus
}

// Revision returns a hash of everything that a Pod is created from. A Pod with another revision has to be replaced.
//
// Its inputs are the spec and podRevision, and not the Pod that is built from them: otherwise every upgrade of the
// operator that changes a script would restart every cluster. It leaves out what does not change a Pod: sizes, and
// the IP in addr, which is only published.
func Revision(rdc *v1.RedisCluster) string {
	s := &rdc.Spec
	port, _ := Ports(rdc)
	var inputs strings.Builder
	add := func(name string, values ...any) {
		fmt.Fprintf(&inputs, "%s", name)
		for _, v := range values {
			fmt.Fprintf(&inputs, " %q", fmt.Sprint(v)) // Quoted, so that two different lists never give the same text.
		}
		fmt.Fprintln(&inputs)
	}
	add("pod", podRevision)
	add("image", s.Image)
	add("port", port)
	add("storage", s.Storage != nil)
	if r := s.Resources; r != nil {
		for _, list := range []struct {
			name      string
			resources corev1.ResourceList
		}{{"limit", r.Limits}, {"request", r.Requests}} {
			for _, name := range slices.Sorted(maps.Keys(list.resources)) {
				quantity := list.resources[name] // A copy: String caches its result in it.
				add(list.name, name, quantity.String())
			}
		}
		for _, c := range r.Claims {
			add("claim", c.Name, c.Request)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Config)) {
		add("config", key, s.Config[key])
	}
	if ref := s.AuthSecretRef; ref != nil {
		add("auth", ref.Name, ref.Key)
	}
	if len(s.Users) > 0 {
		add("users", true) // Users are set while nodes run.
	}
	if s.TLS != nil {
		add("tls", s.TLS.SecretRef.Name, s.TLS.Port) // The mode is switched while nodes run.
	}
	if t := s.PodTemplate.DeepCopy(); t != nil {
		for _, name := range []**string{&t.PriorityClassName, &t.ServiceAccountName} {
			if ptr.Deref(*name, "") == "" {
				*name = nil // An empty name is none, also in hashes of Pods that exist.
			}
		}
		if !equality.Semantic.DeepEqual(t, &v1.PodTemplate{}) {
			text, _ := json.Marshal(t) // It cannot fail: the type has no interfaces, and quantities are valid.
			add("podTemplate", string(text))
		}
	}
	sum := sha256.Sum256([]byte(inputs.String()))
	return hex.EncodeToString(sum[:])[:10]
}

// Service returns the Service that gives each Pod the DNS name <pod>.<name>. Clients find a first node by it, and learn
// the IPs of the others from that node.
func Service(rdc *v1.RedisCluster, closed bool) *corev1ac.ServiceApplyConfiguration {
	port, bus := Ports(rdc)
	servicePorts := []*corev1ac.ServicePortApplyConfiguration{servicePort(PortRedis, port), servicePort(PortBus, bus)}
	if tls := rdc.Spec.TLS; tls != nil {
		servicePorts = append(servicePorts, servicePort(PortTLS, int(tls.Port)))
	}
	return corev1ac.Service(rdc.Name, rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, Kind)).
		WithSpec(corev1ac.ServiceSpec().WithClusterIP(corev1.ClusterIPNone).WithSelector(SelectorForClients(rdc, closed)).
			// A Redis Cluster tracks its nodes itself. No node is ready before the cluster is formed, or after a shard is lost.
			WithPublishNotReadyAddresses(true).
			WithPorts(servicePorts...))
}

// Budget returns the PodDisruptionBudget. It allows one eviction at a time, while all Pods are ready: two evictions could
// hit a master and its replica. pods is the number of Pods that exist or will be created.
//
// It sets minAvailable, and not maxUnavailable: with the latter, Kubernetes expects spec.size Pods, and so allows more
// evictions while Pods are added or removed. unhealthyPodEvictionPolicy keeps its default: a Pod that is not ready
// can be evicted if all others are ready. AlwaysAllow would let a drain evict all Pods of a machine while they load
// their data, or while no Pod is ready because one shard is lost.
func Budget(rdc *v1.RedisCluster, pods int) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(rdc.Name, rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, Kind)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().WithMinAvailable(intstr.FromInt32(int32(max(0, pods-1)))).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(rdc))))
}

// Configuration returns the ConfigMap with redis.conf and the scripts. Every revision has its own, so that a container that restarts has
// the configuration that its Pod was created with. The ConfigMap is immutable. The operator creates it, and never changes an existing one:
// another version of the operator may have created that with other scripts.
func Configuration(rdc *v1.RedisCluster) *corev1ac.ConfigMapApplyConfiguration {
	data := map[string]string{
		"redis.conf": redisConf(rdc),
		"start.sh":   startScript, "live.sh": withTLS(rdc, liveScript, probeWithTLS),
		"ready.sh": withTLS(rdc, readyOf(rdc), probeWithTLS), "timeout.sh": timeoutScript,
	}
	if len(rdc.Spec.Config) > 0 {
		config, _ := json.Marshal(rdc.Spec.Config) // Marshal cannot fail: the map has only texts.
		data[keyConfig] = string(config)
	}
	if rdc.Spec.TLS != nil {
		data["tls.sh"] = TLSScript
	}
	if len(rdc.Spec.Users) > 0 {
		data["users.sh"] = usersScript
	}
	return corev1ac.ConfigMap(ConfigurationName(rdc), rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, Kind)).
		WithImmutable(true).
		WithData(data)
}

// Preferences are the first lines of redis.conf.
var Preferences = []string{
	// A machine that goes down loses one second of writes at most. A failover to a replica that lags loses more,
	// so an fsync for every write would cost a lot and gain little.
	"appendfsync everysec",
	// The append-only file has all data. A snapshot would need a fork.
	`save ""`,
	// A failed master is replaced within about 7 s, instead of 20.
	"cluster-node-timeout 5000",
	// A master has few replicas, and they seldom connect at the same time: waiting 5 s for another one would make
	// each formation and each restart 5 s longer.
	"repl-diskless-sync-delay 0",
}

// takesWords are the directives that take several words in redis.conf. Redis 7.0.0 does not take them as one word; later versions do. Each
// other directive with several words, such as tls-protocols, must be one word.
var takesWords = map[string]bool{
	"client-output-buffer-limit": true, "latency-tracking-info-percentiles": true, "oom-score-adj-values": true, "save": true,
	"shutdown-on-sigint": true, "shutdown-on-sigterm": true,
}

// redisConf returns the configuration that all nodes share. start.sh adds what differs for each Pod.
//
// If a directive occurs twice, the later one counts: spec.config overrides what stands before it. It cannot override
// what stands after it, even if it passed validation by mistake.
func redisConf(rdc *v1.RedisCluster) string {
	port, bus := Ports(rdc)
	lines := slices.Clone(Preferences)
	for _, key := range slices.Sorted(maps.Keys(rdc.Spec.Config)) {
		value := string(rdc.Spec.Config[key])
		if !takesWords[key] || strings.TrimSpace(value) == "" {
			value = redisnode.Quoted(redisnode.Value(value)) // One word, as CONFIG SET takes it.
		}
		lines = append(lines, key+" "+value)
	}
	lines = append(lines,
		"port "+strconv.Itoa(port),
		"cluster-enabled yes",
		// The operator alone decides which master a replica has. Otherwise a master that has given its last slot away
		// would become a replica by itself.
		"cluster-allow-replica-migration no",
		// The file is beside the data, so that both are kept or lost together.
		"cluster-config-file nodes.conf",
		"dir "+dirData,
		// Without it, a master that restarts before the others notice comes back empty, and its replicas delete their data too: the shard
		// is lost, although the cluster state is ok.
		"appendonly yes",
		// Protected mode would refuse all connections but those from localhost while there is no password.
		// NetworkPolicies can restrict access to a Pod.
		"protected-mode no",
	)
	if len(rdc.Spec.Users) > 0 {
		lines = append(lines, "masteruser "+v1.UserOperator, "aclfile "+fileUsers)
	}
	if rdc.Spec.TLS != nil {
		lines = append(lines, tlsDirectives(rdc)...)
	} else if bus != port+busOffset {
		lines = append(lines, "cluster-port "+strconv.Itoa(bus))
	}
	return strings.Join(lines, "\n") + "\n"
}

// keyConfig is the key of a ConfigMap with spec.config as it was, in JSON, if it has any.
const keyConfig = "config.json"

// ConfigIn returns the spec.config that a ConfigMap was made of. It returns false if it is not known.
func ConfigIn(data map[string]string) (map[string]v1.ConfigValue, bool) {
	text, ok := data[keyConfig]
	if !ok {
		return parseRedisConf(data["redis.conf"])
	}
	config := map[string]v1.ConfigValue{}
	err := json.Unmarshal([]byte(text), &config)
	return config, err == nil && config != nil
}

// parseRedisConf returns the spec.config of a redis.conf that has none, or is from before there was a keyConfig: it had the values as they
// were. It returns false for another text. An empty value is returned as `""`.
func parseRedisConf(text string) (map[string]v1.ConfigValue, bool) {
	lines := strings.Split(text, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "port ") }) // No spec.config has a port.
	if end < len(Preferences) || !slices.Equal(lines[:len(Preferences)], Preferences) {
		return nil, false
	}
	config := map[string]v1.ConfigValue{}
	for _, line := range lines[len(Preferences):end] {
		key, value, ok := strings.Cut(line, " ")
		if !ok {
			return nil, false
		}
		config[key] = v1.ConfigValue(value)
	}
	return config, true
}

// Claim returns the PersistentVolumeClaim for a node's data; nil without storage. It has no owner, so that it outlives
// the RedisCluster: after a deletion by mistake, a new RedisCluster with the same name finds the data again.
func Claim(rdc *v1.RedisCluster, ordinal int) *corev1.PersistentVolumeClaim {
	storage := rdc.Spec.Storage.DeepCopy()
	if storage == nil {
		return nil
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(rdc, ordinal), Namespace: rdc.Namespace, Labels: labels(rdc)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: storage.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size}},
		},
	}
}

// Selector returns the labels that select the Pods.
func Selector(rdc *v1.RedisCluster) map[string]string {
	return map[string]string{v1.LabelApp: v1.AppRedis, v1.LabelRedisCluster: rdc.Name}
}

// labelRestored is a label that no Pod has.
const labelRestored = v1.GroupName + "/restored"

// SelectorForClients returns the selector of the Services for clients. It selects no Pod if the cluster is closed.
func SelectorForClients(rdc *v1.RedisCluster, closed bool) map[string]string {
	selected := Selector(rdc)
	if closed {
		selected[labelRestored] = "true"
	}
	return selected
}

// IsClosed returns whether no Service selects a Pod, from the start until a restore is complete: a client would read what is not all there
// yet, and what it deletes would come back with the next try. A cluster is closed when its first Service is made, and never later: clients
// may use it by then, for example if a restore is refused, or was begun by an earlier version of the operator.
func IsClosed(rdc *v1.RedisCluster, service *corev1.Service) bool {
	return ToBeRestored(rdc) && (rdc.Status.Restore != nil || rdc.Status.SlotsAssigned == 0) &&
		(service == nil || service.Spec.Selector[labelRestored] != "")
}

// ToBeRestored returns whether the keys of spec.restoreFrom are not all in the cluster yet.
func ToBeRestored(rdc *v1.RedisCluster) bool {
	return rdc.Spec.RestoreFrom != nil && (rdc.Status.Restore == nil || rdc.Status.Restore.CompletedAt == nil)
}

func labels(rdc *v1.RedisCluster) map[string]string {
	all := Selector(rdc)
	all["app.kubernetes.io/name"] = "redis"
	all["app.kubernetes.io/instance"] = rdc.Name
	all["app.kubernetes.io/managed-by"] = glassback.Name
	return all
}
