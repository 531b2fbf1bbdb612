// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// testPod is the Pod that "helm test" runs.
const testPod = "glassback-test"

// testHook returns the Pod that "helm test" runs. It fails the test if a release has another hook.
func testHook(t *testing.T, values string) object {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	if len(r.Hooks) != 1 {
		t.Fatalf("there are %d hooks, want 1", len(r.Hooks))
	}
	return decode(t, r.Hooks[0].Manifest)
}

// podSpecs returns the spec of each Pod that artifacts and the chart install. A key has the directory or the values, and the object.
func podSpecs(t *testing.T) map[string]object {
	t.Helper()
	specs := map[string]object{}
	add := func(source string, installed objects) {
		for name, o := range installed {
			if spec, ok := o.field("spec", "template", "spec").(map[string]any); ok {
				specs[source+" "+name] = spec
			}
		}
	}
	for _, dir := range []string{"default", "default-certmanager", "default-inspect", "namespaced"} {
		add(dir, kustomize(t, dir))
	}
	for source, values := range map[string]string{
		"the chart": "", "the chart with the page": "inspect: {enabled: true}", "the chart with minimal values": minimalValues,
	} {
		add(source, render(t, values))
		specs[source+" "+testPod], _ = testHook(t, values).field("spec").(map[string]any)
	}
	if len(specs) != 10 {
		t.Fatalf("there are %d specs of Pods, want 10", len(specs))
	}
	return specs
}

// containers returns all containers of a Pod.
func (o object) containers() (all []object) {
	for _, field := range []string{"initContainers", "containers"} {
		list, _ := o.field(field).([]any)
		for _, c := range list {
			all = append(all, c.(map[string]any))
		}
	}
	return all
}

func TestNoContainerHasACapability(t *testing.T) {
	for name, spec := range podSpecs(t) {
		for _, c := range spec.containers() {
			got := c.field("securityContext", "capabilities")
			if fmt.Sprint(got) != "map[drop:[ALL]]" || c.field("securityContext", "allowPrivilegeEscalation") != false ||
				c.field("securityContext", "privileged") != nil {
				t.Errorf("%s: %v", name, c.field("securityContext"))
			}
		}
	}
}

func TestEveryPodHasASeccompProfile(t *testing.T) {
	for name, spec := range podSpecs(t) {
		if got := spec.text("securityContext", "seccompProfile", "type"); got != "RuntimeDefault" {
			t.Errorf("%s has the seccomp profile %q", name, got)
		}
		for _, c := range spec.containers() {
			if got := c.field("securityContext", "seccompProfile"); got != nil {
				t.Errorf("a container of %s has the seccomp profile %v", name, got)
			}
		}
	}
}

func TestRootFileSystemsAreReadOnly(t *testing.T) {
	for name, spec := range podSpecs(t) {
		for _, c := range spec.containers() {
			if c.field("securityContext", "readOnlyRootFilesystem") != true {
				t.Errorf("%s: %v", name, c.field("securityContext"))
			}
		}
	}
}

func TestNoPodRunsAsRootOrSharesItsNode(t *testing.T) {
	for name, spec := range podSpecs(t) {
		if spec.field("securityContext", "runAsNonRoot") != true {
			t.Errorf("%s may run as root", name)
		}
		for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
			if spec.field(field) != nil {
				t.Errorf("%s has %s", name, field)
			}
		}
		volumes, _ := spec.field("volumes").([]any)
		for _, v := range volumes {
			if volume := v.(map[string]any); volume["hostPath"] != nil {
				t.Errorf("%s has the volume %v", name, volume)
			}
		}
	}
}

// TestTheTestPodChecksTheOperatorOfTheRelease compares the arguments of the test Pod with the values. The test Pod has no permission
// to read the operator's flags from its Deployment, so the chart passes these flags to the check.
func TestTheTestPodChecksTheOperatorOfTheRelease(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"default values":    {"", "[check]"},
		"one controller":    {"controllers: [mycronjob]", "[check --controllers=mycronjob]"},
		"some namespaces":   {"watchNamespaces: [a, b]", "[check --namespace=a,b]"},
		"a simulated ECS":   {"ecsEndpoint: http://ecs:80", "[check --ecs-endpoint=http://ecs:80]"},
		"no webhooks":       {"webhooks: {enabled: false}", "[check --webhooks=false]"},
		"with cert-manager": {"webhooks: {certManager: {enabled: true}}", "[check --webhooks=false]"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testHook(t, test.values)
			spec := object(pod.field("spec").(map[string]any))
			if got := fmt.Sprint(spec.containers()[0]["args"]); got != test.want {
				t.Errorf("it runs %s, want %s", got, test.want)
			}
			manager := render(t, test.values)["Deployment/glassback-manager"]
			for _, field := range []string{"serviceAccountName", "securityContext", "nodeSelector"} {
				if got, want := fmt.Sprint(spec[field]), fmt.Sprint(manager.field("spec", "template", "spec", field)); got != want {
					t.Errorf("%s of the test Pod is %s, want that of the operator: %s", field, got, want)
				}
			}
			if pod.text("metadata", "name") != testPod || pod.text("metadata", "labels", "app.kubernetes.io/component") == "manager" {
				t.Errorf("the Services and the policies of the operator select it: %v", pod["metadata"])
			}
		})
	}
}

func TestArtifactHubListsEveryCRDAndTheVersion(t *testing.T) {
	metadata := load(t).Metadata
	var crds []struct{ Kind, Version, Name, DisplayName, Description string }
	var images []struct{ Image string }
	for key, list := range map[string]any{"crds": &crds, "images": &images} {
		succeed(t, yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/"+key]), list))
	}
	var got, want []string
	for _, crd := range crds {
		got = append(got, crd.Kind+" "+crd.Version+" "+crd.Name)
	}
	for _, o := range kustomize(t, "crd") {
		versions, _ := o.field("spec", "versions").([]any)
		version := object(versions[0].(map[string]any))
		want = append(want, o.text("spec", "names", "kind")+" "+version.text("name")+" "+o.text("metadata", "name"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s lists %q, want %q", filepath.Join(chartDir, "Chart.yaml"), got, want)
	}
	if len(images) != 1 || images[0].Image != "ghcr.io/glassback/glassback:"+metadata.AppVersion ||
		metadata.AppVersion != "v"+metadata.Version {
		t.Errorf("images %v, version %s, appVersion %s", images, metadata.Version, metadata.AppVersion)
	}
}
