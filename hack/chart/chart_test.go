// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// chartDir is the chart.
var chartDir = filepath.Join(artifacts, "chart")

// object is an object as an API server would receive it.
type object map[string]any

func (o object) field(path ...string) any {
	var value any = map[string]any(o)
	for _, key := range path {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

func (o object) text(path ...string) string {
	s, _ := o.field(path...).(string)
	return s
}

// name is how the tests call an object. Its namespace is left out where it is the release's.
func (o object) name() string {
	name := o.text("kind") + "/" + o.text("metadata", "name")
	if ns := o.text("metadata", "namespace"); ns != "" && ns != namespace {
		name += " in " + ns
	}
	return name
}

// objects are those of a release, by their names.
type objects map[string]object

func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	succeed(t, err)
	return c
}

// install renders the chart like "helm install", without a cluster, for the oldest Kubernetes that the chart supports.
func install(t *testing.T, values string) (*release.Release, error) {
	t.Helper()
	return installOn(t, "v1.32.0", values)
}

func installOn(t *testing.T, version, values string) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = "glassback", namespace
	kube, err := common.ParseKubeVersion(version)
	succeed(t, err)
	install.KubeVersion = kube
	parsed := map[string]any{}
	succeed(t, yaml.Unmarshal([]byte(values), &parsed))
	got, err := install.Run(load(t), parsed)
	r, _ := got.(*release.Release)
	return r, err
}

// render returns the objects of a release. It fails the test if one is not valid for its kind.
func render(t *testing.T, values string) objects {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	for _, hook := range r.Hooks { // No uninstall deletes them; "helm test" runs this one, and deletes its Pod.
		if hook.Name != testPod {
			t.Errorf("there is the hook %s, which no uninstall deletes", hook.Name)
		}
	}
	return parse(t, r.Manifest)
}

// parse reads objects.
func parse(t *testing.T, manifests string) objects {
	t.Helper()
	all := objects{}
	for _, text := range releaseutil.SplitManifests(manifests) {
		o := decode(t, text)
		if _, twice := all[o.name()]; twice {
			t.Errorf("%s is there twice", o.name())
		}
		all[o.name()] = o
	}
	return all
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, monitoringv1.AddToScheme, cmv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	return s
}()

// decoded has the JSON of each manifest that decode has read: most releases have the same ones.
var decoded sync.Map

// decode reads an object strictly, by way of its Go type, so that it is written in one way only.
func decode(t *testing.T, text string) object {
	t.Helper()
	data, ok := decoded.Load(text)
	if !ok {
		decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
		typed, _, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if data, err = json.Marshal(typed); err != nil {
			t.Fatal(err)
		}
		decoded.Store(text, data)
	}
	o := object{}
	succeed(t, json.Unmarshal(data.([]byte), &o))
	delete(o, "status") // Go types write one of zeros.
	return o
}

func TestHelmHasNothingToSayAgainstTheChart(t *testing.T) {
	for name, values := range map[string]string{
		"as it is":          "",
		"all that there is": everything,
		"nothing besides":   minimalValues,
	} {
		t.Run(name, func(t *testing.T) {
			parsed := map[string]any{}
			succeed(t, yaml.Unmarshal([]byte(values), &parsed))
			kube := &common.KubeVersion{Version: "v1.32.0", Major: "1", Minor: "32"}
			for _, message := range lint.RunAll(chartDir, parsed, namespace, lint.WithKubeVersion(kube)).Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestTheChartIsForEveryKubernetesThatItSaysAndNoOther(t *testing.T) {
	for version, fine := range map[string]bool{
		"v1.30.14": false, "v1.31.0": true, "v1.37.0": true, "v1.33.5-eks-ba24e9c": true, "v1.32.9-gke.1207000": true,
	} {
		if _, err := installOn(t, version, ""); (err == nil) != fine {
			t.Errorf("on Kubernetes %s: %v", version, err)
		}
	}
}

// succeed fails the test, and ends it, if there is an error.
func succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// uninstalled returns the names of the objects that an uninstall deletes, in the order of their deletion.
func uninstalled(t *testing.T, values string) []string {
	t.Helper()
	r, err := install(t, values)
	succeed(t, err)
	_, manifests, err := releaseutil.SortManifests(releaseutil.SplitManifests(r.Manifest), nil, releaseutil.UninstallOrder)
	succeed(t, err)
	var names []string
	for _, m := range manifests {
		if m.Head.Metadata.Annotations["helm.sh/resource-policy"] != "keep" {
			names = append(names, decode(t, m.Content).name())
		}
	}
	return names
}

func TestAnUninstallKeepsOnlyTheDefinitions(t *testing.T) {
	deleted := uninstalled(t, "")
	for name := range render(t, "") {
		if kept := !slices.Contains(deleted, name); kept != strings.HasPrefix(name, "CustomResourceDefinition/") {
			t.Errorf("%s is kept: %t", name, kept)
		}
	}
	if len(uninstalled(t, "crds: {keep: false}")) != len(render(t, "")) {
		t.Error("with crds.keep=false, an uninstall keeps objects")
	}
}

// An uninstall deletes the webhook configurations before the operator, so that the API server calls no webhook that does not answer. It
// deletes the RoleBindings before the Secret and the Lease. Otherwise the operator, which still runs, could create these objects again.
func TestTheOrderOfAnUninstall(t *testing.T) {
	order := uninstalled(t, "")
	for _, pair := range [][2]string{
		{"ValidatingWebhookConfiguration/glassback", "Deployment/glassback-manager"},
		{"MutatingWebhookConfiguration/glassback", "Deployment/glassback-manager"},
		{"Deployment/glassback-manager", "RoleBinding/glassback-webhook"},
		{"RoleBinding/glassback-webhook", "Secret/glassback-webhook-ca"}, {"RoleBinding/glassback-webhook", "ConfigMap/glassback-ca"},
		{"RoleBinding/glassback-leader-election", "Lease/glassback"},
	} {
		first, second := slices.Index(order, pair[0]), slices.Index(order, pair[1])
		if first < 0 || second < 0 || first > second {
			t.Errorf("%s is deleted at position %d, %s at %d; want the first one before the second one", pair[0], first, pair[1], second)
		}
	}
}

// No version of the chart contains the fields that the operator writes, so no upgrade removes them.
func TestTheChartLeavesOutTheFieldsOfTheOperator(t *testing.T) {
	all := render(t, "")
	for _, kind := range []string{"Mutating", "Validating"} {
		webhooks, _ := all[kind+"WebhookConfiguration/glassback"].field("webhooks").([]any)
		if len(webhooks) == 0 {
			t.Errorf("the chart has no %sWebhookConfiguration with webhooks", kind)
		}
		for _, w := range webhooks {
			if bundle, exists := object(w.(map[string]any)).field("clientConfig").(map[string]any)["caBundle"]; exists {
				t.Errorf("a %s webhook has the caBundle %v", kind, bundle)
			}
		}
	}
	if data := all["Secret/glassback-webhook-ca"].field("data"); data != nil {
		t.Errorf("the Secret has the data %v", data)
	}
	if spec, _ := all["Lease/glassback"].field("spec").(map[string]any); len(spec) > 0 {
		t.Errorf("the Lease has the spec %v", spec)
	}
}

// Helm stores each release in a Secret. A Secret can have 1 MiB.
func TestTheReleaseFitsIntoASecret(t *testing.T) {
	r, err := install(t, everything)
	succeed(t, err)
	data, err := json.Marshal(r)
	succeed(t, err)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	succeed(t, w.Close())
	if size := base64.StdEncoding.EncodedLen(zipped.Len()); size > 512<<10 {
		t.Errorf("a release has %d bytes, want %d at most", size, 512<<10)
	}
}

func TestTheNotesWarnOfDisabledParts(t *testing.T) {
	for values, want := range map[string][]string{
		"": nil,
		"{crds: {keep: false}, metrics: {secure: false}, replicas: 0}": {"crds.keep is false", "metrics.secure is false", "replicas is 0"},
		minimalValues: {"crds.install is false", "webhooks.enabled is false"},
	} {
		r, err := install(t, values)
		succeed(t, err)
		notes := r.Info.Notes
		if got := strings.Count(notes, "WARNING: "); got != len(want) {
			t.Errorf("with %q there are %d warnings:\n%s", values, got, notes)
		}
		for _, warning := range want {
			if !strings.Contains(notes, "WARNING: "+warning) {
				t.Errorf("with %q, no warning says that %s:\n%s", values, warning, notes)
			}
		}
		if !strings.Contains(notes, "/glassback check") || strings.Contains(notes, "<no value>") {
			t.Errorf("with %q the notes are\n%s", values, notes)
		}
	}
}
