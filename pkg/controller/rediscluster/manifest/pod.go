// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/glassback/glassback/pkg/apis/redis/v1"
)

// Pod returns the Pod of one node.
func Pod(rdc *v1.RedisCluster, ordinal int) *corev1.Pod {
	name := PodName(rdc, ordinal)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: rdc.Namespace, Labels: labels(rdc),
			Annotations:     map[string]string{AnnotationRevision: Revision(rdc)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rdc, Kind)},
		},
		Spec: corev1.PodSpec{
			Hostname: name, Subdomain: rdc.Name,
			Containers:    []corev1.Container{container(rdc)},
			Volumes:       volumes(rdc, ordinal),
			Affinity:      antiAffinity(rdc),
			RestartPolicy: corev1.RestartPolicyAlways,
			// Redis waits up to 10 s until its replicas have all data, and then writes the rest to the disk, which may be
			// slow.
			TerminationGracePeriodSeconds: ptr.To[int64](60),
			// Redis neither calls the API server nor reads environment variables with Services.
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			SecurityContext:              podSecurity(userID),
		},
	}
	if len(rdc.Spec.Users) > 0 {
		p.Annotations[AnnotationUser] = v1.UserOperator
	}
	if name := rdc.Spec.HostnameOf(name); name != "" {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: EnvHostname, Value: name})
	}
	AddTLS(p, rdc)
	if t := rdc.Spec.PodTemplate; t != nil {
		t.AddTo(&p.ObjectMeta, &p.Spec, Selector(rdc))
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, t.DeepCopy().Env...)
	}
	if port, _ := Ports(rdc); port < 1024 {
		allowLowPorts(p.Spec.SecurityContext)
	}
	return p
}

// container returns the container of a Pod. It runs start.sh instead of the image's entrypoint, and not as root.
func container(rdc *v1.RedisCluster) corev1.Container {
	port, bus := Ports(rdc)
	c := corev1.Container{
		Name: ContainerName, Image: rdc.Spec.Image,
		Command: []string{"sh", dirConfig + "/start.sh"},
		Ports: []corev1.ContainerPort{
			{Name: PortRedis, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP},
			{Name: PortBus, ContainerPort: int32(bus), Protocol: corev1.ProtocolTCP},
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
		// The script is inline, and not in the ConfigMap: so Pods that are created from the ConfigMap of an earlier version have it too.
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Exec: &corev1.ExecAction{Command: []string{"sh", "-c", asOperator(rdc, withAddress(rdc, stopCommand))}},
		}},
		// No startup probe is needed, since Redis answers that it is loading. During a slow command it answers BUSY; so a
		// minute without any answer means that it hangs.
		LivenessProbe: probe("live.sh", 20, 3),
		// A probe takes some 100 ms of CPU: the script, and the container runtime that starts it. So six nodes take less than a
		// tenth of a core. Half of the periods would take twice that, and make a cluster Ready up to 5 s sooner once.
		ReadinessProbe: probe("ready.sh", 10, 2),
		// So the Pod's status has the reason why start.sh refuses to start Redis.
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
	if len(rdc.Spec.Users) > 0 {
		c.Command = []string{"sh", dirConfig + "/users.sh"}
		c.Env = append(c.Env, corev1.EnvVar{Name: envUser, Value: v1.UserOperator})
	}
	if passwordRef(rdc) != nil {
		// The scripts read the password from this file, and require one if this variable is set.
		c.Env = append(c.Env, corev1.EnvVar{Name: "GLASSBACK_AUTH", Value: DirAuth + "/" + FileAuth})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: VolumeAuth, MountPath: DirAuth, ReadOnly: true})
	}
	return c
}

// probe returns a probe that runs a script. The script itself gives up before the timeout.
func probe(script string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", dirConfig + "/" + script}}},
		PeriodSeconds: period, TimeoutSeconds: 5, FailureThreshold: failures,
	}
}

func volumes(rdc *v1.RedisCluster, ordinal int) []corev1.Volume {
	// An emptyDir outlives the container, so that a master that crashes does not come back empty.
	data := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	if rdc.Spec.Storage != nil {
		data = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ClaimName(rdc, ordinal)}}
	}
	all := []corev1.Volume{
		{Name: "data", VolumeSource: data},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigurationName(rdc)},
			DefaultMode:          ptr.To[int32](0o555),
		}}},
		// Only shells and redis-server write here. redis-server writes its users. An old bash writes the input of redis-server, with the
		// password, to a file. So the volume is in memory, and not on a disk.
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
		}}},
	}
	if ref := passwordRef(rdc); ref != nil {
		all = append(all, corev1.Volume{Name: VolumeAuth, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: ref.Name, Items: []corev1.KeyToPath{{Key: ref.Key, Path: FileAuth}},
			DefaultMode: ptr.To[int32](0o440), // The group of the file is fsGroup.
		}}})
	}
	return all
}

// podSecurity returns the security context that the Pod Security Standard "restricted" requires, for a user and a group with the same ID
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func podSecurity(id int64) *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), RunAsUser: &id, RunAsGroup: &id,
		FSGroup: &id, FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// allowLowPorts lets a user other than root listen on a port below 1024. Some container runtimes do not allow this by default.
func allowLowPorts(security *corev1.PodSecurityContext) {
	const name = "net.ipv4.ip_unprivileged_port_start"
	if !slices.ContainsFunc(security.Sysctls, func(s corev1.Sysctl) bool { return s.Name == name }) {
		security.Sysctls = append(security.Sysctls, corev1.Sysctl{Name: name, Value: "0"})
	}
}

// antiAffinity makes the scheduler spread the Pods over machines, and then over zones, if possible: a cluster of six can
// run on a single machine too.
func antiAffinity(rdc *v1.RedisCluster) *corev1.Affinity {
	term := func(weight int32, topology string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector: &metav1.LabelSelector{MatchLabels: Selector(rdc)}, TopologyKey: topology,
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			term(100, corev1.LabelHostname), term(50, corev1.LabelTopologyZone),
		},
	}}
}
