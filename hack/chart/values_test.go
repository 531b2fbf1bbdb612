// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
)

// everything sets every value to something else than it is by default, as far as they go together.
const everything = `
crds: {install: true, keep: false}
watchNamespaces: [team-a, team-b]
controllers: [ecsinstance, rediscluster]
workers: 4
informerQueue: RealFIFO
ecsEndpoint: http://ecs.example.com:8080
ecsOwnCredentials: {namespaces: ["*"], allow: [prepaid, metadata]}
replicas: 3
leaderElection: {enabled: true, leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 5s}
image:
  repository: registry.example.com/glassback
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  pullPolicy: Always
  pullSecrets: [registry]
webhooks: {enabled: true, certManager: {enabled: true}}
metrics:
  enabled: true
  secure: false
  objects: 100
  serviceMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
inspect: {enabled: true}
userRoles: {create: true, aggregate: false}
serviceAccount: {create: true, name: other, annotations: {example.com/role: arn}}
networkPolicy: {enabled: true, metricsFrom: []}
podDisruptionBudget: {enabled: true, maxUnavailable: 50%}
logging: {format: json, verbosity: 4}
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: "2", memory: 2Gi}}
terminationGracePeriodSeconds: 90
nodeSelector: {pool: system}
tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
  {weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]
priorityClassName: system-cluster-critical
podAnnotations: {example.com/a: "1"}
podLabels: {example.com/b: "2"}
podSecurityContext: {fsGroup: 1000}
securityContext: {runAsUser: 1000}
extraArgs: [--profiling, "--vmodule=loop=6"]
extraEnv: [{name: HTTPS_PROXY, value: "http://proxy.example.com:3128"}, {name: KEY, valueFrom: {secretKeyRef: {name: a, key: b}}}]
extraVolumes: [{name: record, emptyDir: {}}]
extraVolumeMounts: [{name: record, mountPath: /var/record}]
commonLabels: {example.com/team: c}
global: {anything: goes}
`

// minimalValues switch off all optional parts.
const minimalValues = `
crds: {install: false}
replicas: 1
leaderElection: {enabled: false}
webhooks: {enabled: false}
metrics: {enabled: false}
userRoles: {create: false}
serviceAccount: {create: false}
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
`

// Each value, and all that it changes.
func TestAValueChangesWhatItSaysAndNothingElse(t *testing.T) {
	const deployment = "~ Deployment/glassback-manager "
	const pod = deployment + "spec.template.spec."
	const main = pod + "containers[manager]."
	const policy = "~ NetworkPolicy/glassback-manager spec.ingress"
	const configurations = "[mutatingwebhookconfigurations validatingwebhookconfigurations]"
	const port = main + "ports[%[1]s]: map[containerPort:%[2]d name:%[1]s protocol:TCP]"
	noMetrics := []string{
		fmt.Sprintf(port, "metrics", 8443) + " → none", policy + "[8443].from[0].namespaceSelector.matchLabels.metrics: enabled → none",
		policy + "[8443].ports[8443]: map[port:8443 protocol:TCP] → none",
	}
	image := "--backup-image=glassback/glassback:" + appVersion(t)
	args := main + "args: [" + image + " --leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443] → [" + image + " "
	crds := []string{
		"CustomResourceDefinition/apiexampleas.groupa.k8s.zhuang.com", "CustomResourceDefinition/applications.app.aiops.org",
		"CustomResourceDefinition/ecsinstances.alibabacloud.zhouzhengxi.com", "CustomResourceDefinition/mycronjobs.batch.wzj.kubebuilder.io",
		"CustomResourceDefinition/redisclusters.bytewang123-redis.wzj.kubebuilder.io",
	}
	byDefault := render(t, "")
	kinds := []string{"apiexamplea", "application", "ecsinstance", "mycronjob", "rediscluster"}
	aggregated := []string{"apiexamplea", "application", "mycronjob", "rediscluster"} // ECSInstances cost money
	for name, test := range map[string]struct {
		values string
		want   []string
	}{
		"nothing": {"", nil},
		"others install the definitions": {
			"crds: {install: false}", each(crds, "- %s"),
		},
		"definitions are deleted with the release": {
			"crds: {keep: false}", each(crds, "~ %s metadata.annotations.helm.sh/resource-policy: keep → none"),
		},
		"some controllers": {
			"controllers: ['*', -ecsinstance]", []string{
				args + "--leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443 --controllers=*,-ecsinstance]",
				withoutRule("alibabacloud.zhouzhengxi.com", "ecsinstances", "list patch watch"),
				withoutRule("alibabacloud.zhouzhengxi.com", "ecsinstances/status", "update"), withoutRule("", "secrets", "get"),
			},
		},
		"values that are flags": {
			"{workers: 1000, informerQueue: RealFIFO, ecsEndpoint: 'http://ecs:8080', logging: {format: json, verbosity: 4}, " +
				"leaderElection: {leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 5s}, metrics: {objects: 9}, " +
				"extraArgs: ['--profiling=true', '--logging-x={}: #']}",
			[]string{args + "--leader-elect --leader-elect-lease-duration=60s --leader-elect-renew-deadline=40s --leader-elect-retry-period=5s " +
				"--health-probe-bind-address=:8081 --metrics-bind-address=:8443 --metrics-objects=9 --workers=1000 --informer-queue=RealFIFO " +
				"--ecs-endpoint=http://ecs:8080 --logging-format=json -v=4 --profiling=true --logging-x={}: #]"},
		},
		"values that are fields": {
			"{replicas: 0, image: {pullPolicy: Always, pullSecrets: [a]}, resources: {limits: {cpu: 1, memory: null}}, nodeSelector: {pool: a}, " +
				"terminationGracePeriodSeconds: 90, tolerations: [{key: b, operator: Exists}], priorityClassName: c, " +
				"affinity: {podAntiAffinity: {}}, podAnnotations: {a: b}, podLabels: {c: d}, podSecurityContext: {runAsUser: 7}, " +
				"securityContext: {runAsGroup: 8}, extraEnv: [{name: A, value: b}], extraVolumes: [{name: v, emptyDir: {medium: Memory}}], " +
				"extraVolumeMounts: [{name: v, mountPath: /v}], serviceAccount: {annotations: {a/b: c}}, " +
				"networkPolicy: {metricsFrom: [{ipBlock: {cidr: 10.0.0.0/8}}]}, podDisruptionBudget: {maxUnavailable: 50%}}", []string{
				deployment + "spec.replicas: 2 → 0", main + "imagePullPolicy: IfNotPresent → Always", pod + "imagePullSecrets[a]: none → map[name:a]",
				main + "resources.limits.cpu: none → 1", main + "resources.limits.memory: 256Mi → none", pod + "nodeSelector.pool: none → a",
				pod + "terminationGracePeriodSeconds: 60 → 90", pod + "tolerations[0]: none → map[key:b operator:Exists]",
				pod + "priorityClassName: none → c", pod + "affinity.podAntiAffinity: none → {}",
				deployment + "spec.template.metadata.annotations.a: none → b", deployment + "spec.template.metadata.labels.c: none → d",
				pod + "securityContext.runAsUser: none → 7", main + "securityContext.runAsGroup: none → 8", main + "env[A]: none → map[name:A value:b]",
				pod + "volumes[v].emptyDir.medium: none → Memory", pod + "volumes[v].name: none → v",
				main + "volumeMounts[v]: none → map[mountPath:/v name:v]",
				"~ ServiceAccount/glassback metadata.annotations.a/b: none → c",
				policy + "[8443].from[0].ipBlock.cidr: none → 10.0.0.0/8",
				policy + "[8443].from[0].namespaceSelector.matchLabels.metrics: enabled → none",
				"~ PodDisruptionBudget/glassback-manager spec.maxUnavailable: 1 → 50%",
			},
		},
		"no policy, and no budget": {
			"{networkPolicy: {enabled: false}, podDisruptionBudget: {enabled: false}}", []string{
				"- NetworkPolicy/glassback-manager", "- PodDisruptionBudget/glassback-manager"},
		},
		"no election": {
			"{replicas: 1, leaderElection: {enabled: false}}", []string{
				"- Lease/glassback", "- Role/glassback-leader-election", "- RoleBinding/glassback-leader-election",
				deployment + "spec.replicas: 2 → 1",
				deployment + "spec.strategy.rollingUpdate.maxSurge: 1 → none",
				deployment + "spec.strategy.rollingUpdate.maxUnavailable: 0 → none",
				deployment + "spec.strategy.type: RollingUpdate → Recreate",
				args + "--health-probe-bind-address=:8081 --metrics-bind-address=:8443]",
			},
		},
		"an image by its digest": {
			"image: {digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}", []string{
				main + "image: glassback/glassback:" + appVersion(t) +
					" → glassback/glassback@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
				strings.TrimSuffix(args, image+" ") +
					"--backup-image=glassback/glassback@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef " +
					"--leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443]",
			},
		},
		"no webhooks": {
			"webhooks: {enabled: false}", []string{
				withoutRule("bytewang123-redis.wzj.kubebuilder.io", "redisclusters", "get"),
				"- MutatingWebhookConfiguration/glassback", "- Service/glassback-webhook", "- ValidatingWebhookConfiguration/glassback",
				args + "--leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443 --webhooks=false]",
				fmt.Sprintf(port, "webhook", 9443) + " → none", policy + "[9443].ports[9443]: map[port:9443 protocol:TCP] → none",
				"~ ClusterRole/glassback-manager rules[[admissionregistration.k8s.io] " + configurations + " [list patch watch]]: " +
					"map[apiGroups:[admissionregistration.k8s.io] resourceNames:[glassback] resources:" + configurations +
					" verbs:[list patch watch]] → none",
			},
		},
		"no metrics": {
			"metrics: {enabled: false}", slices.Concat(noMetrics, []string{
				"- ClusterRole/glassback-metrics-auth", "- ClusterRole/glassback-metrics-reader", "- ClusterRole/glassback-profile-reader",
				"- ClusterRole/glassback-verbosity-writer", "- ClusterRoleBinding/glassback-metrics-auth",
				"- Service/glassback-metrics", args + "--leader-elect --health-probe-bind-address=:8081]",
			}),
		},
		"metrics for everybody": {
			"metrics: {secure: false}", []string{
				"- ClusterRole/glassback-metrics-auth", "- ClusterRole/glassback-metrics-reader", "- ClusterRole/glassback-profile-reader",
				"- ClusterRole/glassback-verbosity-writer", "- ClusterRoleBinding/glassback-metrics-auth",
				args + "--leader-elect --health-probe-bind-address=:8081 --metrics-bind-address=:8443 --metrics-secure=false]",
			},
		},
		"the page, and no metrics": {
			"{inspect: {enabled: true}, metrics: {enabled: false}}", slices.Concat(noMetrics, []string{
				"+ ClusterRole/glassback-inspector", "+ ClusterRoleBinding/glassback-inspector", "+ Role/glassback-inspector",
				"+ Service/glassback-inspect", "+ ServiceAccount/glassback-inspector",
				"- ClusterRole/glassback-metrics-reader", "- ClusterRole/glassback-profile-reader",
				"- ClusterRole/glassback-verbosity-writer", "- Service/glassback-metrics",
				args + "--leader-elect --health-probe-bind-address=:8081 --inspect-bind-address=:8444]",
				main + "ports[inspect]: none → map[containerPort:8444 name:inspect protocol:TCP]",
			}),
		},
		"no roles for people": {
			"userRoles: {create: false}", slices.Concat(
				each(kinds, "- ClusterRole/glassback-%s-admin"), each(kinds, "- ClusterRole/glassback-%s-editor"),
				each(kinds, "- ClusterRole/glassback-%s-viewer")),
		},
		"roles for people to be bound": {
			"userRoles: {aggregate: false}", slices.Concat(
				each(aggregated, "~ ClusterRole/glassback-%s-admin metadata.labels.rbac.authorization.k8s.io/aggregate-to-admin: true → none"),
				each(aggregated, "~ ClusterRole/glassback-%s-editor metadata.labels.rbac.authorization.k8s.io/aggregate-to-edit: true → none"),
				each(kinds, "~ ClusterRole/glassback-%s-viewer metadata.labels.rbac.authorization.k8s.io/aggregate-to-view: true → none")),
		},
		"an account that others made": {
			"serviceAccount: {create: false, name: theirs}", slices.Concat([]string{
				"- ServiceAccount/glassback", pod + "serviceAccountName: glassback → theirs"},
				each(bindings, "~ %s subjects[glassback]: map[kind:ServiceAccount name:glassback namespace:glassback-system] → none"),
				each(bindings, "~ %s subjects[theirs]: none → map[kind:ServiceAccount name:theirs namespace:glassback-system]")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(byDefault, render(t, test.values))
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("it changes\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

// withoutRule returns how the ClusterRole changes that loses a rule.
func withoutRule(group, resource, verbs string) string {
	const format = "~ ClusterRole/glassback-manager rules[[%[1]s] [%[2]s] [%[3]s]]: " +
		"map[apiGroups:[%[1]s] resources:[%[2]s] verbs:[%[3]s]] → none"
	return fmt.Sprintf(format, group, resource, verbs)
}

// each returns a line for each name.
func each(names []string, format string) []string {
	lines := make([]string, 0, len(names))
	for _, name := range names {
		lines = append(lines, fmt.Sprintf(format, name))
	}
	return lines
}

// bindings are the values that bind the operator's roles.
var bindings = []string{
	"ClusterRoleBinding/glassback-manager", "ClusterRoleBinding/glassback-metrics-auth",
	"RoleBinding/glassback-leader-election", "RoleBinding/glassback-webhook",
}

func appVersion(t *testing.T) string { return load(t).Metadata.AppVersion }

// Values for every object together, and those that depend on each other.
func TestEverythingAtOnceIsWhereItBelongs(t *testing.T) {
	all := render(t, everything)
	for name, o := range all {
		if team := o.text("metadata", "labels", "example.com/team"); team != "c" {
			t.Errorf("%s has not the labels of all", name)
		}
	}
	for name, want := range map[string]string{
		"ServiceMonitor/glassback": "prometheus", "PrometheusRule/glassback": "prometheus", "Service/glassback-metrics": "",
	} {
		if got := all[name].text("metadata", "labels", "release"); got != want {
			t.Errorf("%s has release=%q, want %q", name, got, want)
		}
	}
	if endpoints := fmt.Sprint(all["ServiceMonitor/glassback"].field("spec", "endpoints")); !strings.Contains(endpoints, "interval:15s ") {
		t.Errorf("ServiceMonitor/glassback has %s", endpoints)
	}
	flat := map[string]string{}
	flatten(flat, "", map[string]any(all["Deployment/glassback-manager"]))
	flatten(flat, "", map[string]any(all["Certificate/glassback-webhook"]))
	const pod = "spec.template.spec."
	image := "registry.example.com/glassback@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for path, want := range map[string]string{
		pod + "containers[manager].image": image,
		pod + "containers[manager].args": "[--backup-image=" + image + " --leader-elect --leader-elect-lease-duration=30s " +
			"--leader-elect-renew-deadline=20s --leader-elect-retry-period=5s --health-probe-bind-address=:8081 --metrics-bind-address=:8443 " +
			"--metrics-secure=false --metrics-objects=100 --inspect-bind-address=:8444 --namespace=team-a,team-b " +
			"--controllers=ecsinstance,rediscluster --workers=4 --informer-queue=RealFIFO --ecs-endpoint=http://ecs.example.com:8080 " +
			"--ecs-own-credentials-namespaces=* --ecs-own-credentials-allow=prepaid,metadata " +
			"--webhook-cert-path=/tmp/k8s-webhook-server/serving-certs --logging-format=json -v=4 --profiling --vmodule=loop=6]",
		pod + "containers[manager].volumeMounts[webhook-certificate]": "map[mountPath:/tmp/k8s-webhook-server/serving-certs " +
			"name:webhook-certificate readOnly:true]",
		pod + "containers[manager].volumeMounts[record]":                 "map[mountPath:/var/record name:record]",
		pod + "volumes[record].emptyDir":                                 "{}",
		pod + "volumes[webhook-certificate].secret.secretName":           "glassback-webhook-tls",
		pod + "containers[manager].env[KEY].valueFrom.secretKeyRef.name": "a",
		pod + "topologySpreadConstraints[0].labelSelector.matchLabels.a": "b",
		"spec.dnsNames": "[glassback-webhook.glassback-system.svc]", // metrics need none
	} {
		if flat[path] != want {
			t.Errorf("%s is %q, want %q", path, flat[path], want)
		}
	}
}

// How Prometheus can tell that it is the operator that it talks to.
func TestPrometheusChecksTheCertificateThatIsServed(t *testing.T) {
	for values, want := range map[string]string{
		"": "map[ca:map[configMap:map[key:ca.crt name:glassback-ca]] serverName:glassback-metrics.glassback-system.svc]",
		"webhooks: {certManager: {enabled: true}}": "map[ca:map[secret:map[key:ca.crt name:glassback-webhook-tls]] " +
			"serverName:glassback-metrics.glassback-system.svc]",
		"webhooks: {enabled: false}": "map[ca:map[configMap:map[key:ca.crt name:glassback-ca]] " +
			"serverName:glassback-metrics.glassback-system.svc]",
	} {
		monitor := render(t, values+"\nmetrics: {serviceMonitor: {enabled: true}}")["ServiceMonitor/glassback"]
		endpoints, _ := monitor.field("spec", "endpoints").([]any)
		got := object(endpoints[0].(map[string]any)).field("tlsConfig").(map[string]any)
		delete(got, "cert")
		delete(got, "keySecret")
		if ca, _ := got["ca"].(map[string]any); len(ca) == 0 {
			delete(got, "ca")
		}
		if fmt.Sprint(got) != want {
			t.Errorf("with %q: %v, want %v", values, got, want)
		}
	}
}

// In some namespaces, the operator has rights in these, and in the cluster none but those without which nothing would work.
func TestInSomeNamespacesThereAreNoRightsInOthers(t *testing.T) {
	scrape := []string{"metrics-auth", "metrics-reader", "profile-reader", "verbosity-writer"}
	for values, want := range map[string][]string{
		"watchNamespaces: [a, b]": append([]string{"manager"}, scrape...),
		"{watchNamespaces: [a, b], webhooks: {certManager: {enabled: true}}}":             scrape,
		"{watchNamespaces: [a, b], webhooks: {enabled: false}}":                           each(scrape, "%s-glassback-system"),
		"{watchNamespaces: [a, b], webhooks: {enabled: false}, metrics: {secure: false}}": nil,
		"{watchNamespaces: [a, b], webhooks: {enabled: false}, metrics: {enabled: false}, inspect: {enabled: true}}": {
			"inspector-glassback-system", "metrics-auth-glassback-system"},
	} {
		all := render(t, values)
		var got []string
		for name := range all {
			role, is := strings.CutPrefix(name, "ClusterRole/glassback-")
			if is && !regexp.MustCompile("-(admin|editor|viewer)$").MatchString(role) {
				got = append(got, role)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with %s: %q, want %q", values, got, want)
		}
		for _, ns := range []string{"a", "b"} {
			if all["Role/glassback-manager in "+ns] == nil || all["RoleBinding/glassback-manager in "+ns] == nil {
				t.Errorf("with %s: no rights in %s", values, ns)
			}
		}
	}
}

// A release that registers no webhooks and works in some namespaces can have another one beside it: they have no object in common.
func TestReleasesBesideEachOtherHaveNoObjectInCommon(t *testing.T) {
	second := render(t, "{watchNamespaces: [b], webhooks: {enabled: false}, crds: {install: false}, userRoles: {create: false}}")
	first := render(t, "watchNamespaces: [a]")
	for name, o := range second {
		if first[name] != nil && o.text("metadata", "namespace") != namespace {
			t.Errorf("both have %s", name)
		}
	}
}

func TestImpossibleValuesAreRefusedInWordsThatSayWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		want   []string
	}{
		"two leaders at once": {
			"leaderElection: {enabled: false}", []string{"replicas is 2 and leaderElection.enabled is false", "or have 1 replica"},
		},
		"a certificate for nothing": {
			"webhooks: {enabled: false, certManager: {enabled: true}}", []string{"there is nothing to make a certificate for"},
		},
		"nothing to scrape, and nothing to alert on": {
			"metrics: {enabled: false, serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}",
			[]string{"- metrics.serviceMonitor.enabled is true and", "- metrics.prometheusRule.enabled is true and"},
		},
		"no controller": {
			"controllers: [-mycronjob]", []string{`controllers is [-mycronjob]: that leaves none to run; ["*"] is all of them`},
		},
		"flags that other values stand for": {
			"extraArgs: [--workers=3, -n=a, -nc, --namespace=b, -v=3, --webhook-port=1, --inspect-bind-address=:9]", []string{
				"- extraArgs has --inspect-bind-address=:9: that is what the value inspect is for",
				"- extraArgs has --workers=3: that is what the value workers is for",
				"- extraArgs has -n=a: that is what the value watchNamespaces is for",
				"- extraArgs has -nc: that is what the value watchNamespaces is for",
				"- extraArgs has --namespace=b: that is what the value watchNamespaces is for",
				"- extraArgs has -v=3: that is what the value logging is for", "- extraArgs has --webhook-port=1: the chart depends on how it is"},
		},
		"environment variables of the chart": {"extraEnv: [{name: POD_NAME, value: a}]", []string{"extraEnv has POD_NAME: the chart sets it"}},
		"labels of the chart": {
			"{commonLabels: {app.kubernetes.io/name: a}, podLabels: {app.kubernetes.io/component: a}}",
			[]string{
				"- commonLabels has app.kubernetes.io/name: the chart sets it", "- podLabels has app.kubernetes.io/component: the chart sets it",
			},
		},
		"two images": {
			"image: {tag: v1, digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}",
			[]string{"image.tag and image.digest are both set: leave one of them out"},
		},
		"values of parts that are off": {
			"{controllers: [mycronjob], crds: {install: false, keep: false}, ecsEndpoint: 'http://a', replicas: 1, " +
				"leaderElection: {enabled: false, retryPeriod: 3s}, metrics: {enabled: false, secure: false, objects: 3, " +
				"serviceMonitor: {interval: 1m}, prometheusRule: {labels: {a: b}}}, ecsOwnCredentials: {allow: [adopt]}, " +
				"userRoles: {create: false, aggregate: false}, serviceAccount: {create: false, annotations: {a: b}}, " +
				"networkPolicy: {enabled: false, metricsFrom: []}, podDisruptionBudget: {enabled: false, maxUnavailable: 2}}",
			[]string{
				"- crds.keep is set and crds.install is false: it has no effect, leave it out",
				"- ecsEndpoint is set and the controller ecsinstance does not run", "- ecsOwnCredentials.allow is set and",
				"- leaderElection.retryPeriod is set and", "- metrics.secure is set and", "- metrics.objects is set and",
				"- metrics.serviceMonitor.interval is set and", "- metrics.prometheusRule.labels is set and", "- userRoles.aggregate is set and",
				"- serviceAccount.annotations is set and", "- networkPolicy.metricsFrom is set and",
				"- podDisruptionBudget.maxUnavailable is set and",
			},
		},
		"a volume of the chart": {
			"extraVolumes: [{name: webhook-certificate}]", []string{"extraVolumes has webhook-certificate: the chart sets it"},
		},
		"a value that there is not": {"replicaCount: 3", []string{"additional properties 'replicaCount' not allowed"}},
		"a value further in that there is not": {
			"webhooks: {certmanager: {enabled: true}}", []string{"at '/webhooks': additional properties 'certmanager' not allowed"},
		},
		"a namespace that cannot be":     {"watchNamespaces: [Team_A]", []string{"at '/watchNamespaces/0': 'Team_A' does not match pattern"}},
		"a controller that there is not": {"controllers: [cronjob]", []string{"at '/controllers/0': value must be one of '*', 'apiexamplea'"}},
		"a digest that is none":          {"image: {digest: v1}", []string{"at '/image/digest': 'v1' does not match pattern"}},
		"a quantity that is none":        {"resources: {limits: {memory: 1 GB}}", []string{"at '/resources/limits/memory'"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := install(t, test.values)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says\n%v\nand not %q", err, want)
				}
			}
		})
	}
}

// "key: null" takes a default away.
func TestAValueThatIsTakenAwayIsAsEmptyOrRefused(t *testing.T) {
	for key := range load(t).Values {
		r, err := install(t, key+": null")
		if err != nil && !strings.Contains(err.Error(), "missing property '"+key+"'") {
			t.Errorf("without %s: %v", key, err)
		}
		if err == nil {
			parse(t, r.Manifest)
		}
	}
}

// The schema has exactly the values of values.yaml, and each has a description.
func TestEveryValueIsInTheSchemaAndExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	succeed(t, err)
	var values yamlv3.Node
	succeed(t, yamlv3.Unmarshal(text, &values))
	schema := map[string]any{}
	succeed(t, json.Unmarshal(load(t).Schema, &schema))
	compare(t, "", values.Content[0], schema)
}

// compare descends as long as the schema names the fields, but not into fields of a Pod.
func compare(t *testing.T, path string, values *yamlv3.Node, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	missing := maps.Clone(properties)
	delete(missing, "global") // Helm's own
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		property, known := properties[key.Value].(map[string]any)
		if !known {
			t.Errorf("values.yaml has %s.%s, and the schema does not know it", path, key.Value)
		}
		if comment := key.HeadComment; !strings.HasPrefix(comment, "# ") ||
			!strings.HasSuffix(comment, ".") && !strings.HasSuffix(comment, "metrics=enabled") {
			t.Errorf("values.yaml explains %s.%s with %q", path, key.Value, comment)
		}
		delete(missing, key.Value)
		if path == "" && (key.Value == "resources" || key.Value == "affinity") {
			continue
		}
		if property["additionalProperties"] == false {
			compare(t, path+"."+key.Value, value, property)
		} else if property["type"] == "object" && property["properties"] != nil {
			t.Errorf("the schema allows any key in %s.%s", path, key.Value)
		}
	}
	for key := range missing {
		t.Errorf("the schema knows %s.%s, and values.yaml does not", path, key)
	}
}

// The operator has all flags that the chart sets, and all flags that the chart refuses in extraArgs.
func TestTheOperatorHasTheFlagsOfTheChart(t *testing.T) {
	known := map[string]bool{"v": true, "n": true} // short
	flags, err := os.ReadFile("../../docs/flags.md")
	succeed(t, err)
	for _, name := range regexp.MustCompile("(?m)^\\| `.*?--([\\w-]+)").FindAllStringSubmatch(string(flags), -1) {
		known[name[1]] = true
	}
	check, err := os.ReadFile(filepath.Join(chartDir, "templates", "_check.tpl"))
	succeed(t, err)
	_, refused, _ := strings.Cut(string(check), "$flags := dict ")
	refused, _, _ = strings.Cut(refused, " -}}")
	list := strings.Fields(strings.ReplaceAll(refused, `"`, "|"))
	for i := 0; i < len(list); i += 2 {
		if name := strings.Trim(list[i], "|"); !known[name] {
			t.Errorf("the chart refuses --%s, which there is not", name)
		}
	}
	for _, values := range []string{"", everything, "{webhooks: {enabled: false}, metrics: {enabled: false}}"} {
		args, _ := container(render(t, values), "Deployment/glassback-manager")["args"].([]any)
		for _, arg := range args {
			name, _, _ := strings.Cut(strings.TrimLeft(fmt.Sprint(arg), "-"), "=")
			if !known[name] && !strings.Contains(values, fmt.Sprint(arg)) {
				t.Errorf("the operator has no --%s", name)
			}
			if !strings.Contains(refused, `"`+name+`"`) && !strings.Contains(values, fmt.Sprint(arg)) {
				t.Errorf("extraArgs may say --%s, which the chart says already", name)
			}
		}
	}
}
