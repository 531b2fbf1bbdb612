// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	celenv "k8s.io/apiserver/pkg/cel/environment"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

// An API server takes new rules only if the version before it knows them too, to which it could be set back.
func TestTheOldestServerIsTheOldestThatTakesTheRules(t *testing.T) {
	oldest := utilversion.MustParseGeneric(oldestServer)
	before := func(v *utilversion.Version) *utilversion.Version {
		return utilversion.MajorMinor(v.Major(), v.Minor()-1)
	}
	if errs := ruleErrors(t, before(oldest)); len(errs) > 0 {
		t.Errorf("v%s refuses rules: %v", oldestServer, errs[0])
	}
	if errs := ruleErrors(t, before(before(oldest))); len(errs) == 0 {
		t.Errorf("v%s takes all rules too", before(oldest))
	}
}

// ruleErrors are what keeps the rules of the CRDs from being compiled with what a version knows.
func ruleErrors(t *testing.T, known *utilversion.Version) []error {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	definitions, err := crd.All()
	must.Succeed(t, err)
	var errs []error
	for _, definition := range definitions {
		props := &apiextensions.JSONSchemaProps{}
		must.Succeed(t, scheme.Convert(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil))
		structural, err := schema.NewStructural(props)
		must.Succeed(t, err)
		errs = append(errs, compile(structural, true, celenv.MustBaseEnvSet(known))...)
	}
	return errs
}

func compile(s *schema.Structural, root bool, env *celenv.EnvSet) []error {
	var errs []error
	if len(s.XValidations) > 0 {
		results, err := cel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
		if err != nil {
			errs = append(errs, err)
		}
		for _, result := range results {
			if result.Error != nil {
				errs = append(errs, result.Error)
			}
		}
	}
	for _, property := range s.Properties {
		errs = append(errs, compile(&property, property.XEmbeddedResource, env)...)
	}
	if s.Items != nil {
		errs = append(errs, compile(s.Items, false, env)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		errs = append(errs, compile(s.AdditionalProperties.Structural, false, env)...)
	}
	return errs
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]State{
		"v1.31.0": OK, "v1.37.2": OK, "v1.33.1+k3s1": OK, "v1.32.0-eks-5ca49cb": OK, "v2.0.0": OK,
		"v1.30.14": Failed, "v1.9.0": Failed, "": Warning, "master": Warning,
	} {
		if got := supported(version); got.State != want {
			t.Errorf("%q: %+v, want %s", version, got, want)
		}
	}
}

func TestClocks(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		0: "", 90 * time.Second: "the API server's is 1m30s ahead", -time.Hour: "the API server's is 1h0m0s behind",
	} {
		if got := agree(ahead); !strings.HasPrefix(got.Reason, want) || (got.State == OK) != (ahead == 0) {
			t.Errorf("%s: %+v, want %q", ahead, got, want)
		}
	}
}

// server is an API server of a few paths.
func server(t *testing.T, answers map[string]func(http.ResponseWriter)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "glassback-check/") {
			t.Errorf("%s was asked for by %q, which an audit log does not tell from the operator", r.URL.Path, r.UserAgent())
		}
		w.Header().Set("Content-Type", "application/json")
		if answer := answers[r.URL.Path]; answer != nil {
			answer(w)
			return
		}
		status(http.StatusNotFound, metav1.StatusReasonNotFound, "not found")(w)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func status(code int32, reason metav1.StatusReason, message string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(int(code))
		json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
		})
	}
}

func text(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func whoami(name string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{
			TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectReview", APIVersion: "authentication.k8s.io/v1"},
			Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: name}},
		})
	}
}

func TestTheWayToTheAPIServer(t *testing.T) {
	const who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	version, well, me := text(200, `{"gitVersion":"v1.37.2"}`), text(200, "ok"), whoami("me")
	for name, test := range map[string]struct {
		answers map[string]func(http.ResponseWriter)
		states  string
		reason  string // of the first that is not ok
	}{
		"all is well": {map[string]func(http.ResponseWriter){"/version": version, who: me, "/readyz": well}, "ok ok ok ok ok ok", ""},
		"credentials that are not accepted": {
			map[string]func(http.ResponseWriter){
				"/version": status(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
				who:        status(401, metav1.StatusReasonUnauthorized, "Unauthorized"),
			},
			"ok ok failed skipped skipped ok", "does not accept them",
		},
		"credentials that the API server does not know": {
			map[string]func(http.ResponseWriter){
				"/version": version, who: status(403, metav1.StatusReasonForbidden, `User "system:anonymous" cannot create`),
			},
			"ok ok failed skipped skipped ok", "there are none: the API server takes this for system:anonymous",
		},
		"a server that is not ready": {
			map[string]func(http.ResponseWriter){
				"/version": version,
				who:        me,
				"/readyz":  text(500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]informer-sync failed: x\nreadyz check failed"),
			},
			"ok ok ok failed ok ok", "it says that these are not well: etcd, informer-sync",
		},
		"an account that may not ask whether it is ready": {
			map[string]func(http.ResponseWriter){"/version": version, who: me, "/readyz": status(403, metav1.StatusReasonForbidden, "forbidden")},
			"ok ok ok ok ok ok", "",
		},
		"a server that is too old": {
			map[string]func(http.ResponseWriter){"/version": text(200, `{"gitVersion":"v1.24.0"}`), who: me, "/readyz": well},
			"ok ok ok ok failed ok", "it is v1.24.0, which does not know what the rules of the CRDs say",
		},
		"some other server": {
			map[string]func(http.ResponseWriter){}, "ok failed skipped skipped skipped skipped", "there is no API server of Kubernetes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := parseCheck(t, "--master", server(t, test.answers))
			c := &checker{options: o}
			report := Runner{Limit: 10 * time.Second}.Run(t.Context(), []Section{{Checks: c.clusterChecks()}})
			var states []string
			reason := ""
			for _, outcome := range report.Outcomes() {
				states = append(states, string(outcome.State))
				if outcome.State != OK && reason == "" {
					reason = outcome.Reason
				}
			}
			if got := strings.Join(states, " "); got != test.states || !strings.Contains(reason, test.reason) {
				t.Errorf("got %s, %q, want %s, %q", got, reason, test.states, test.reason)
			}
		})
	}
}

func TestWithoutFlagsTheClusterIsThatOfKubectl(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	c := &checker{options: parseCheck(t)}
	if got := c.checkConfiguration(t.Context()); got.State != Failed || got.Reason != "this is not a Pod, and kubectl has no cluster either" {
		t.Errorf("without a kubeconfig: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	must.Succeed(t, os.WriteFile(file, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1"}}],`+
		`"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`), 0o600))
	if got := c.checkConfiguration(t.Context()); got.State != OK || got.Reason != "https://192.0.2.1" || c.inside {
		t.Errorf("with a kubeconfig: %+v, inside %t", got, c.inside)
	}
}

func parseCheck(t *testing.T, args ...string) *settings {
	t.Helper()
	o, err := parse(args, &strings.Builder{})
	must.Succeed(t, err)
	return o
}

func TestACheckEndsWithItsContext(t *testing.T) {
	hanging := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer s.Close()
	defer close(hanging)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	var out, errs strings.Builder
	code := Run(ctx, []string{"--master", s.URL}, &out, &errs)
	if code != command.Failed || !strings.Contains(out.String(), "interrupted") || errs.Len() > 0 {
		t.Errorf("exit code %d, on stderr %q, and:\n%s", code, errs.String(), out.String())
	}
}
