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

// testHook returns the Pod that "helm test" runs, from the only hook of a release.
func testHook(t *testing.T, values string) object {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	if len(r.Hooks) != 1 {
		t.Fatalf("there are %d hooks", len(r.Hooks))
	}
	return decode(t, r.Hooks[0].Manifest)
}

// podSpecs returns the specs of all Pods that artifacts and the chart install, by a name.
func podSpecs(t *testing.T) map[string]object {
	t.Helper()
	specs := map[string]object{}
	add := func(from string, all objects) {
		for name, o := range all {
			if spec, ok := o.field("spec", "template", "spec").(map[string]any); ok {
				specs[from+" "+name] = spec
			}
		}
	}
	for _, dir := range []string{"default", "default-certmanager", "default-inspect", "namespaced"} {
		add(dir, kustomize(t, dir))
	}
	for name, values := range map[string]string{"the chart": "", "with the page": "inspect: {enabled: true}", "with little": least} {
		add(name, render(t, values))
		specs[name+" "+testPod], _ = testHook(t, values).field("spec").(map[string]any)
	}
	if len(specs) != 10 {
		t.Fatalf("there are %d specs of Pods", len(specs))
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

// The test Pod may not read the operator's Deployment, so it passes the operator's flags to the check.
func TestTheTestPodChecksTheOperatorOfTheRelease(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"as it is":          {"", "[check]"},
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
					t.Errorf("%s is %s, and that of the operator is %s", field, got, want)
				}
			}
			if pod.text("metadata", "name") != testPod || pod.text("metadata", "labels", "app.kubernetes.io/component") == "manager" {
				t.Errorf("the Services and the policies of the operator select it: %v", pod["metadata"])
			}
		})
	}
}

func TestArtifactHubKnowsEveryDefinitionAndTheVersion(t *testing.T) {
	metadata := load(t).Metadata
	var listed []struct{ Kind, Version, Name, DisplayName, Description string }
	var images []struct{ Image string }
	for key, into := range map[string]any{"crds": &listed, "images": &images} {
		succeed(t, yaml.Unmarshal([]byte(metadata.Annotations["artifacthub.io/"+key]), into))
	}
	var got, want []string
	for _, crd := range listed {
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
