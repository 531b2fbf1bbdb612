// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/hack/devcluster/cluster"
	batchv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	"github.com/glassback/glassback/pkg/apis/glassback"
)

// TestExamples applies all good examples and one bad one of each kind with kubectl. For a bad example, kubectl prints the error that the
// example quotes: TestTheBadExamplesFail shows this for all of them, without kubectl. The objects that the operator creates for the good
// examples are in testdata/examples.yaml.
func TestExamples(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{Components: []string{cluster.Etcd, cluster.APIServer}})
	w.operate(t, "--install-crds")
	if out, err := w.kubectl(t, "apply", "--dry-run=server", "-f", examplesDir); err != nil {
		t.Errorf("the good examples: %v\n%s", err, out)
	}
	for _, kind := range []string{"apiexamplea", "application", "ecsinstance", "mycronjob", "rediscluster"} {
		files, err := filepath.Glob(examplesDir + "bad/" + kind + "*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("no bad examples of the kind %s: %v", kind, err)
		}
		data, err := os.ReadFile(files[0])
		w.must(t, err)
		first, _, _ := strings.Cut(string(data), "\n")
		want, ok := strings.CutPrefix(first, "# want: ")
		if out, err := w.kubectl(t, "apply", "-f", files[0]); !ok || err == nil || !strings.Contains(printed(out), printed(want)) {
			t.Errorf("for %s, kubectl printed\n%s(%v), want\n%s", files[0], out, err, first)
		}
	}
	testExamplesAreWrittenAsBefore(t, w)
	testPolicies(t, w)
}

// policyRows are specs that the policies for administrators refuse, in addition to those of examples, by kind and the beginning of the
// message.
var policyRows = map[string]map[string][]string{
	"application": {
		"annotations of": {`service: {annotations: {a: b}}`, `ingress: {host: a.b, annotations: {a: b}}`},
		"only Secrets": {
			`env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]`, `env: [{name: A, valueFrom: {configMapKeyRef: {name: x, key: k}}}]`,
			`envFrom: [{secretRef: {name: x}}]`, `envFrom: [{configMapRef: {name: x}}]`, `imagePullSecrets: [{name: x}]`,
			`ingress: {host: a.b, tls: {secretName: x}}`, `podTemplate: {imagePullSecrets: [{name: x}]}`,
		},
		"probes must not":   {`probes: {liveness: {httpGet: {port: 80, host: a.b}}}`, `probes: {startup: {tcpSocket: {port: 80, host: a.b}}}`},
		"security contexts": {`securityContext: {privileged: true}`, `podTemplate: {securityContext: {runAsUser: 1}}`},
		"spec.podTemplate": {
			`podTemplate: {serviceAccountName: x}`, `podTemplate: {automountServiceAccountToken: true}`,
			`podTemplate: {volumes: [{name: v, emptyDir: {}}]}`, `podTemplate: {containers: [{name: c, image: i}]}`,
			`podTemplate: {initContainers: [{name: c, image: i}]}`,
			`podTemplate: {labels: {a: b}}`, `podTemplate: {annotations: {a: b}}`, `podTemplate: {tolerations: [{operator: Exists}]}`,
			`podTemplate: {priorityClassName: x}`,
		},
		"spec.service.type": {`service: {type: NodePort}`, `service: {type: LoadBalancer}`},
	},
	"rediscluster": {
		"annotations of": {`access: {service: {annotations: {a: b}}}`},
		"only Secrets": {
			`authSecretRef: {name: x, key: k}`, `tls: {secretRef: {name: x}}`, `podTemplate: {imagePullSecrets: [{name: x}]}`,
			`users: [{name: default, rules: "off"}, {name: u, rules: "+@all", passwordSecretRef: {name: x, key: k}}]`,
			`backup: {persistentVolumeClaim: {claimName: x}}`, `restoreFrom: {persistentVolumeClaim: {claimName: x}}`,
			`backup: {s3: {endpoint: "https://a.b", bucket: bbb, credentialsSecretRef: {name: x}}}`,
		},
		"spec.access.external": {`access: {external: {type: NodePort}}`}, "spec.networkPolicy": {`networkPolicy: {}`},
		"spec.podTemplate": {
			`podTemplate: {serviceAccountName: x}`, `podTemplate: {env: [{name: A, value: b}]}`, `podTemplate: {securityContext: {runAsUser: 1}}`,
			`podTemplate: {volumes: [{name: v, emptyDir: {}}]}`, `podTemplate: {containers: [{name: c, image: i}]}`,
			`podTemplate: {initContainers: [{name: c, image: i}]}`,
			`podTemplate: {labels: {a: b}}`, `podTemplate: {annotations: {a: b}}`, `podTemplate: {tolerations: [{operator: Exists}]}`,
			`podTemplate: {priorityClassName: x}`,
		},
	},
	"ecsinstance": {"only Secrets": {`userDataSecretRef: {name: x, key: k}`, `credentialsSecretRef: {name: x}`}},
}

// testPolicies applies the policies for administrators. They accept the seeds' samples, and refuse them with any of the rows. What exists
// stays, and its metadata can change: the operator removes finalizers.
func testPolicies(t *testing.T, w *world) {
	ns := w.bareNamespace(t)
	w.mustKubectl(t, "apply", "--namespace", ns, "-f", examplesDir+"application-nodeport.yaml")
	file := filepath.Join(t.TempDir(), "object.yaml")
	for kind, rows := range policyRows {
		w.mustKubectl(t, "apply", "-f", filepath.Join(root, "artifacts", "policies", kind+"s.yaml"))
		sample := examplesDir + kind + ".yaml"
		data, err := os.ReadFile(sample)
		w.must(t, err)
		data, _, _ = bytes.Cut(data, []byte("  service:")) // The rows have their own.
		for want, specs := range rows {
			for _, spec := range specs {
				w.must(t, os.WriteFile(file, append(data, "  "+spec+"\n"...), 0o600))
				await(t, func(context.Context) error { // The API server uses a policy only after a moment.
					out, err := w.kubectl(t, "create", "--namespace", ns, "--dry-run=server", "-f", file)
					if err == nil || !strings.Contains(out, "denied request: "+want) {
						return fmt.Errorf("for %s with %s, kubectl printed\n%s(%v), want\n%s", kind, spec, out, err, want)
					}
					return nil
				})
			}
		}
		w.mustKubectl(t, "create", "--namespace", ns, "--dry-run=server", "-f", sample)
	}
	w.mustKubectl(t, "label", "--namespace", ns, "-f", examplesDir+"application-nodeport.yaml", "a=b")
	patch := []string{"--type=merge", "-p", `{"spec":{"port":81}}`, "-f", examplesDir + "application-nodeport.yaml"}
	out, err := w.kubectl(t, append([]string{"patch", "--namespace", ns}, patch...)...)
	if err == nil || !strings.Contains(out, "spec.service.type must be ClusterIP") {
		t.Errorf("a change of the spec: %v, %s", err, out)
	}
}

var update = flag.Bool("update", false, "write the golden file of examples")

const (
	goldenFile   = "testdata/examples.yaml"
	goldenHeader = `# The children of the examples, as a real API server stores them.
# It was written at commit 0908c11. See pkg/controller/golden/doc.go, before you accept a change.
# go test ./e2e -run Examples -update writes it, after make build devcluster ecssim.
`
)

// goldenKinds are the kinds of the children. The status of an example changes with time: pkg/controller/golden shows it.
const goldenKinds = "configmaps,persistentvolumeclaims,pods,services,deployments,horizontalpodautoscalers,jobs,ingresses,networkpolicies," +
	"poddisruptionbudgets"

// testExamplesAreWrittenAsBefore creates the examples. The cluster has no kubelet and no other controllers, so that the operator has
// written all objects. Every MyCronJob is suspended, and creates one Job by run-now.
func testExamplesAreWrittenAsBefore(t *testing.T, w *world) {
	ns, dir := w.bareNamespace(t), t.TempDir()
	w.mustKubectl(t, "create", "--namespace", ns, "serviceaccount", "default")
	for _, kind := range []string{"apiexamplea", "application", "mycronjob", "rediscluster"} {
		files, err := filepath.Glob(examplesDir + kind + "*.yaml")
		w.must(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			w.must(t, err)
			if kind == "mycronjob" {
				object := &unstructured.Unstructured{}
				w.must(t, yaml.Unmarshal(data, &object.Object))
				object.SetAnnotations(map[string]string{batchv1.AnnotationRunNow: "golden"})
				w.must(t, unstructured.SetNestedField(object.Object, true, "spec", "suspend"))
				data, err = yaml.Marshal(object.Object)
				w.must(t, err)
			}
			w.must(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600))
		}
	}
	w.mustKubectl(t, "create", "--namespace", ns, "-f", dir)
	if *update {
		time.Sleep(time.Minute) // By then, the operator has written all objects.
		w.must(t, os.WriteFile(goldenFile, w.asStored(t, ns), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	w.must(t, err)
	stored := func() []byte { return w.asStored(t, ns) }
	if otherVersion { // It stores other defaults.
		want = names(want)
		stored = func() []byte { return names(w.asStored(t, ns)) }
	}
	await(t, func(context.Context) error { return differ(want, stored()) })
}

// names returns the lines with the kinds and names of objects.
func names(objects []byte) []byte {
	return bytes.Join(regexp.MustCompile(`(?m)^(kind|  name|# [A-Z][A-Za-z]+ [a-z0-9-]+$).*`).FindAll(objects, -1), []byte("\n"))
}

// asStored returns the objects of a namespace as text, without random values.
func (w *world) asStored(t *testing.T, ns string) []byte {
	t.Helper()
	var list unstructured.UnstructuredList
	w.must(t, list.UnmarshalJSON([]byte(w.mustKubectl(t, "get", goldenKinds, "--namespace", ns, "--output=json", "--show-managed-fields"))))
	all := bytes.NewBufferString(goldenHeader)
	for _, object := range list.Items { // They are sorted by kind and name.
		var own []metav1.ManagedFieldsEntry
		for _, entry := range object.GetManagedFields() {
			if entry.Time = nil; entry.Manager == glassback.Name {
				own = append(own, entry)
			}
		}
		if own == nil {
			continue // An example has created it.
		}
		// Pods and claims differ only in their ordinals. pkg/controller/golden shows them.
		if numbered := regexp.MustCompile(`-[1-9]\d*$`); numbered.MatchString(object.GetName()) {
			fmt.Fprintf(all, "---\n# %s %s\n", object.GetKind(), object.GetName())
			continue
		}
		object.SetManagedFields(own)
		text, err := yaml.Marshal(cleaned(object.Object))
		w.must(t, err)
		all.WriteString("---\n")
		all.Write(uuidText.ReplaceAll(bytes.ReplaceAll(text, []byte(ns), []byte("(namespace)")), []byte("(uid)")))
	}
	return all.Bytes()
}

var (
	randomKeys = regexp.MustCompile(`^(uid|resourceVersion|creationTimestamp|clusterIP|clusterIPs|nodePort|healthCheckNodePort|` +
		`batch\.kubernetes\.io/controller-uid|controller-uid)$`)
	uuidText = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	timeText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
)

// cleaned replaces random values in the fields of an object.
func cleaned(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if randomKeys.MatchString(key) {
				value[key] = "(random)"
				continue
			}
			value[key] = cleaned(field)
		}
	case []any:
		for i, item := range value {
			value[i] = cleaned(item)
		}
	case string:
		if strings.HasPrefix(value, "#!") {
			return "(script: see pkg/controller/golden)"
		}
		return timeText.ReplaceAllString(value, "(time)")
	}
	return value
}

// differ returns an error with the first lines that differ in two texts, or nil.
func differ(want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	at := 0
	for at < min(len(was), len(is)) && was[at] == is[at] {
		at++
	}
	was, is = was[at:min(at+8, len(was))], is[at:min(at+8, len(is))]
	return fmt.Errorf("line %d of %s and the following are\n%s\nand the objects have\n%s", at+1, goldenFile, strings.Join(was, "\n"),
		strings.Join(is, "\n"))
}
