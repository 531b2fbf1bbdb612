// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
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

func TestThePackageHoldsWhatHelmReadsAndNothingElse(t *testing.T) {
	c := load(t)
	for _, file := range c.Files {
		if file.Name != "README.md" && file.Name != ".helmignore" {
			t.Errorf("%s is of no use in it", file.Name)
		}
	}
	for _, template := range c.Templates {
		if base := filepath.Base(template.Name); strings.HasPrefix(base, "_") != strings.HasSuffix(base, ".tpl") {
			t.Errorf("%s: what renders nothing begins with _ and ends with .tpl", template.Name)
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
