/*
Copyright The Glassback Authors.
SPDX-License-Identifier: Apache-2.0
*/

package rediscluster

import (
	"crypto/sha256"
	_ "embed" // The scripts.
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/glassback/glassback/pkg/apis/glassback"
	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/child"
)

// The builders below make the children of a RedisCluster that is valid and has its
// defaults. They are pure: the same spec makes the same children.

var kind = v1.SchemeGroupVersion.WithKind("RedisCluster")

// AnnotationRevision is on every Pod, and holds the revision that it was made from.
const AnnotationRevision = v1.GroupName + "/revision"

// podRevision counts how often Pods had to be replaced since the operator, and not
// the spec, had changed. Raise it with a change of pod, of redisConf or of the scripts
// that running Pods must have. Each of the clusters then replaces its Pods, one by one,
// once the operator is upgraded. What is changed without raising it, new Pods have, and
// those made with the next change of the spec. The ConfigMap of a revision that is there
// already stays as it is.
const podRevision = 1

const (
	containerName = "redis"
	portRedis     = "redis"
	portBus       = "bus"

	// busOffset is what Redis adds to its port for the bus of the cluster.
	busOffset = 10000
	maxPort   = 65535
	// userID is that of the user redis, and of its group, in Docker's images of Debian.
	// Those of Alpine, where it is 999 and 1000, do as well: no file there is theirs.
	userID = 999

	dirData   = "/data"
	dirConfig = "/etc/glassback"
	dirAuth   = "/etc/glassback-auth"
	fileAuth  = "password"
)

var (
	//go:embed scripts/start.sh
	startScript string
	//go:embed scripts/live.sh
	liveScript string
	//go:embed scripts/ready.sh
	readyScript string
)

func podName(rdc *v1.RedisCluster, ordinal int) string { return rdc.Name + "-" + strconv.Itoa(ordinal) }

func claimName(rdc *v1.RedisCluster, ordinal int) string { return "data-" + podName(rdc, ordinal) }

func configurationName(rdc *v1.RedisCluster) string { return rdc.Name + "-" + revision(rdc) }

// ports are those on which every node listens: for clients, and for the other nodes.
func ports(rdc *v1.RedisCluster) (port, bus int) {
	addr, _ := netip.ParseAddrPort(rdc.Spec.Addr) // It is valid.
	port = int(addr.Port())
	if bus = port + busOffset; bus > maxPort {
		bus = port - busOffset
	}
	return port, bus
}

// revision names all that a Pod is made from. A Pod of another one is to be replaced.
//
// It is made from the spec and from podRevision, and not from what they come to:
// otherwise every upgrade of the operator that changes a script would restart every
// cluster. What does not change a Pod that is there is left out: sizes, and the IP of
// addr, which is only published.
func revision(rdc *v1.RedisCluster) string {
	s := &rdc.Spec
	port, _ := ports(rdc)
	var made strings.Builder
	add := func(what string, value ...any) {
		fmt.Fprintf(&made, "%s", what)
		for _, v := range value {
			fmt.Fprintf(&made, " %q", fmt.Sprint(v)) // Quoted: no two lists come to the same text.
		}
		fmt.Fprintln(&made)
	}
	add("pod", podRevision)
	add("image", s.Image)
	add("port", port)
	add("storage", s.Storage != nil)
	if r := s.Resources; r != nil {
		for _, list := range []struct {
			name string
			of   corev1.ResourceList
		}{{"limit", r.Limits}, {"request", r.Requests}} {
			for _, name := range slices.Sorted(maps.Keys(list.of)) {
				quantity := list.of[name] // A copy: String writes into it.
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
	sum := sha256.Sum256([]byte(made.String()))
	return hex.EncodeToString(sum[:])[:10]
}

// service gives each Pod a name, <pod>.<name>, by which clients find a first node. They
// have the others from it, by IP.
func service(rdc *v1.RedisCluster) *corev1ac.ServiceApplyConfiguration {
	port, bus := ports(rdc)
	servicePort := func(name string, number int) *corev1ac.ServicePortApplyConfiguration {
		return corev1ac.ServicePort().WithName(name).WithProtocol(corev1.ProtocolTCP).
			WithPort(int32(number)).WithTargetPort(intstr.FromString(name))
	}
	return corev1ac.Service(rdc.Name, rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, kind)).
		WithSpec(corev1ac.ServiceSpec().WithClusterIP(corev1.ClusterIPNone).WithSelector(selector(rdc)).
			// A Redis Cluster is its own judge of who is there. And no node is ready before
			// the cluster is formed, nor after a shard is lost, when it is looked for most.
			WithPublishNotReadyAddresses(true).
			WithPorts(servicePort(portRedis, port), servicePort(portBus, bus)))
}

// budget allows one eviction at a time, while all Pods are ready: two could take a master
// with its replica. pods is how many there are, and are to be made.
//
// It is a number, and not maxUnavailable: for that, Kubernetes takes spec.size for how
// many there are to be, and so allows more while Pods are being added or removed. It
// leaves unhealthyPodEvictionPolicy at its default, by which a Pod that is not ready can be
// evicted if all others are ready. AlwaysAllow would let a drain evict all Pods of a
// machine while they load their data, or while the loss of one shard has no Pod be ready.
func budget(rdc *v1.RedisCluster, pods int) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(rdc.Name, rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, kind)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().WithMinAvailable(intstr.FromInt32(int32(max(0, pods-1)))).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(rdc))))
}

// configuration holds redis.conf and the scripts. Every revision has one of its own, so
// that a container that starts again has the configuration that its Pod was made with.
// It is immutable. So it is to be created, and never to be applied to one that is there:
// another version of the operator may have made it, with other scripts.
func configuration(rdc *v1.RedisCluster) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(configurationName(rdc), rdc.Namespace).
		WithLabels(labels(rdc)).WithOwnerReferences(child.Reference(rdc, kind)).
		WithImmutable(true).
		WithData(map[string]string{
			"redis.conf": redisConf(rdc),
			"start.sh":   startScript, "live.sh": liveScript, "ready.sh": readyScript,
		})
}

// redisConf is what all nodes have in common. start.sh adds what only the Pod knows.
//
// Of a directive that is there twice, the later counts: config overrides what comes
// before it, and nothing overrides what comes after it, even if config came past
// validation.
func redisConf(rdc *v1.RedisCluster) string {
	port, bus := ports(rdc)
	lines := []string{
		// At most a second of writes is lost when a machine goes down. A replica that lags
		// loses more at a failover: fsync with every write would cost a lot for little.
		"appendfsync everysec",
		// The append-only file has it all. To write everything a second time costs a fork.
		`save ""`,
		// A master that fails is replaced in about 7 s, and not in 20.
		"cluster-node-timeout 5000",
		// A master has few replicas, and they seldom come together: to wait 5 s for another
		// makes each formation and each restart that much longer.
		"repl-diskless-sync-delay 0",
	}
	for _, key := range slices.Sorted(maps.Keys(rdc.Spec.Config)) {
		value := string(rdc.Spec.Config[key])
		if strings.TrimSpace(value) == "" {
			value = `""`
		}
		lines = append(lines, key+" "+value)
	}
	lines = append(lines,
		"port "+strconv.Itoa(port),
		"cluster-enabled yes",
		// The operator says which replica is whose. Two that move them would fight: a master
		// that has given its last slot away would become a replica by itself.
		"cluster-allow-replica-migration no",
		// It is beside the data, since it is to be kept and lost with it.
		"cluster-config-file nodes.conf",
		"dir "+dirData,
		// Without it, a master that restarts before it is missed is an empty master, and
		// its replicas follow: the shard is wiped, and the state is ok.
		"appendonly yes",
		// It would refuse everybody but localhost while there is no password. Who may
		// connect to a Pod is for NetworkPolicies to say.
		"protected-mode no",
	)
	if bus != port+busOffset {
		lines = append(lines, "cluster-port "+strconv.Itoa(bus))
	}
	return strings.Join(lines, "\n") + "\n"
}

// pod is one node.
func pod(rdc *v1.RedisCluster, ordinal int) *corev1.Pod {
	name := podName(rdc, ordinal)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: rdc.Namespace, Labels: labels(rdc),
			Annotations:     map[string]string{AnnotationRevision: revision(rdc)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, kind)},
		},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: rdc.Name,
			Containers:    []corev1.Container{container(rdc)},
			Volumes:       volumes(rdc, ordinal),
			Affinity:      apart(rdc),
			RestartPolicy: corev1.RestartPolicyAlways,
			// Redis waits up to 10 s for its replicas to have everything, and then writes
			// what is left to the disk, which may be slow.
			TerminationGracePeriodSeconds: ptr.To[int64](60),
			// Redis asks nothing of the API server, and reads no addresses of Services.
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			SecurityContext:              podSecurity(rdc),
		},
	}
}

// container is what runs in a Pod. The image's own entrypoint is not asked: start.sh is
// all that is to happen, and nobody is root.
func container(rdc *v1.RedisCluster) corev1.Container {
	port, bus := ports(rdc)
	c := corev1.Container{
		Name: containerName, Image: rdc.Spec.Image,
		Command: []string{"sh", dirConfig + "/start.sh"},
		Ports: []corev1.ContainerPort{
			{Name: portRedis, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP},
			{Name: portBus, ContainerPort: int32(bus), Protocol: corev1.ProtocolTCP},
		},
		Env: []corev1.EnvVar{
			{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}}},
			{Name: "PORT", Value: strconv.Itoa(port)},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: dirData},
			{Name: "config", MountPath: dirConfig, ReadOnly: true},
			{Name: "tmp", MountPath: "/tmp"},
		},
		// Redis says that it is loading, so that no startup probe is needed. A minute
		// without any answer is more than a slow command takes: those are answered BUSY.
		LivenessProbe: probe("live.sh", 10, 6),
		// Each takes about 15 ms of a CPU, and what the container runtime needs to start it.
		// With six nodes on one small machine, every 5 s is 2% of a core; every 2 s would be 5%
		// for as long as the cluster lives, to be Ready 3 s sooner once.
		ReadinessProbe: probe("ready.sh", 5, 2),
		// Why start.sh refuses is then in the status of the Pod.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
	if r := rdc.Spec.Resources; r != nil {
		c.Resources = *r.DeepCopy()
	}
	if rdc.Spec.AuthSecretRef != nil {
		// The scripts take the password from this file, and want one if this is set.
		c.Env = append(c.Env, corev1.EnvVar{Name: "GLASSBACK_AUTH", Value: dirAuth + "/" + fileAuth})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "auth", MountPath: dirAuth, ReadOnly: true})
	}
	return c
}

// probe runs a script, which itself gives up before its time is over.
func probe(script string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", dirConfig + "/" + script}}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

func volumes(rdc *v1.RedisCluster, ordinal int) []corev1.Volume {
	// Without storage, it outlives the container, which is what keeps a master that
	// crashes from coming back empty.
	data := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if rdc.Spec.Storage != nil {
		data = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(rdc, ordinal)}}
	}
	all := []corev1.Volume{
		{Name: "data", VolumeSource: data},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configurationName(rdc)},
			DefaultMode:          ptr.To[int32](0o555),
		}}},
		// Nothing but a shell writes there: an old bash puts what it gives to redis-server
		// into a file, which has the password in it. So it is not on a disk.
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
		}}},
	}
	if ref := rdc.Spec.AuthSecretRef; ref != nil {
		all = append(all, corev1.Volume{Name: "auth", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: ref.Name, Items: []corev1.KeyToPath{{Key: ref.Key, Path: fileAuth}},
			DefaultMode: ptr.To[int32](0o440), // Its group is fsGroup.
		}}})
	}
	return all
}

// podSecurity is what the standard "restricted" wants
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func podSecurity(rdc *v1.RedisCluster) *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](userID), RunAsGroup: ptr.To[int64](userID),
		FSGroup: ptr.To[int64](userID), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if port, _ := ports(rdc); port < 1024 {
		// Not every runtime lets a user who is not root listen there.
		s.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"}}
	}
	return s
}

// apart has the scheduler place the nodes apart from each other, on machines first. It
// is a wish: a cluster of six runs on a single machine too.
func apart(rdc *v1.RedisCluster) *corev1.Affinity {
	term := func(weight int32, topology string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector(rdc)}, TopologyKey: topology,
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			term(100, corev1.LabelHostname), term(50, corev1.LabelTopologyZone),
		},
	}}
}

// claim is where a node keeps its data; nil without storage. It has no owner: it outlives
// the RedisCluster, so that what was deleted by mistake is found again by a RedisCluster
// of the same name.
func claim(rdc *v1.RedisCluster, ordinal int) *corev1.PersistentVolumeClaim {
	storage := rdc.Spec.Storage.DeepCopy()
	if storage == nil {
		return nil
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName(rdc, ordinal), Namespace: rdc.Namespace, Labels: labels(rdc)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: storage.StorageClassName,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size}},
		},
	}
}

// selector finds the Pods.
func selector(rdc *v1.RedisCluster) map[string]string {
	return map[string]string{v1.LabelApp: v1.AppRedis, v1.LabelRedisCluster: rdc.Name}
}

func labels(rdc *v1.RedisCluster) map[string]string {
	all := selector(rdc)
	all["app.kubernetes.io/name"] = "redis"
	all["app.kubernetes.io/instance"] = rdc.Name
	all["app.kubernetes.io/managed-by"] = glassback.Name
	return all
}
