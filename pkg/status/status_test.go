// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	ecsv1alpha1 "github.com/glassback/glassback/pkg/apis/alibabacloud/v1alpha1"
	appv1 "github.com/glassback/glassback/pkg/apis/app/v1"
	mcjv1 "github.com/glassback/glassback/pkg/apis/batch/v1"
	groupav1 "github.com/glassback/glassback/pkg/apis/groupa/v1"
	redisv1 "github.com/glassback/glassback/pkg/apis/redis/v1"
	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/generated/clientset/versioned/fake"
	"github.com/glassback/glassback/pkg/must"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func named(namespace, name string, age time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
}

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: "Progressing", Status: "False"}, {Type: "Ready", Status: status, Reason: reason, Message: message}}
}

// objects are one of each kind.
func objects() []runtime.Object {
	paused := named("b", "paused", time.Hour)
	paused.Annotations = map[string]string{"glassback.dev/paused": "true"}
	return []runtime.Object{
		&groupav1.ApiExampleA{ObjectMeta: named("a", "new", time.Second)},
		&appv1.Application{ObjectMeta: named("a", "web", 48*time.Hour),
			Status: appv1.ApplicationStatus{Conditions: ready("True", "Available", "2 of 2")}},
		&mcjv1.MyCronJob{ObjectMeta: paused, Status: mcjv1.MyCronJobStatus{Conditions: ready("True", "Scheduled", "")}},
		&redisv1.RedisCluster{ObjectMeta: named("b", "cache", 5*time.Minute),
			Status: redisv1.RedisClusterStatus{Conditions: ready("False", "SlotsMissing", "no\x1b[2J master")}},
		&ecsv1alpha1.ECSInstance{ObjectMeta: named("a", "vm", time.Minute),
			Status: ecsv1alpha1.ECSInstanceStatus{Conditions: ready("False", "Creating", "")}},
	}
}

func TestObjectsThatAreNotReadyComeFirst(t *testing.T) {
	for name, test := range map[string]struct {
		settings  settings
		namespace string
		want      string
	}{
		"one namespace": {settings{}, "a", `
OBJECT    READY     REASON      AGE
ecs/vm    False     Creating    60s
aea/new   Unknown   <none>      1s
app/web   True      Available   2d
`},
		"all namespaces": {settings{allNamespaces: true}, "", `
NAMESPACE   OBJECT       READY     REASON               AGE
a           ecs/vm       False     Creating             60s
b           rdc/cache    False     SlotsMissing         5m
a           aea/new      Unknown   <none>               1s
a           app/web      True      Available            2d
b           mcj/paused   True      Scheduled (paused)   60m
`},
		"with messages": {settings{output: "wide"}, "b", `
OBJECT       READY   REASON               AGE   MESSAGE
rdc/cache    False   SlotsMissing         5m    no [2J master
mcj/paused   True    Scheduled (paused)   60m   <none>
`},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := list(t.Context(), fake.NewClientset(objects()...), test.namespace)
			must.Succeed(t, err)
			var out strings.Builder
			if err := test.settings.print(&out, found, now); err != nil || "\n"+out.String() != test.want {
				t.Errorf("error %v, table\n%swant%s", err, out.String(), test.want)
			}
		})
	}
}

func TestAKindThatIsNotInstalledHasNoObjects(t *testing.T) {
	resource := schema.GroupResource{Group: "app.aiops.org", Resource: "applications"}
	for name, test := range map[string]struct {
		err  error
		want int
		fail string
	}{
		"no CustomResourceDefinition": {apierrors.NewNotFound(resource, ""), 4, ""},
		"no right":                    {apierrors.NewForbidden(resource, "", errors.New("no")), 0, "list objects of the kind Application: "},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(objects()...)
			client.PrependReactor("list", "applications", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			found, err := list(t.Context(), client, "")
			if len(found) != test.want || (err == nil) != (test.fail == "") || (err != nil && !strings.HasPrefix(err.Error(), test.fail)) {
				t.Errorf("%d objects, error %v", len(found), err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"as kubectl":            {[]string{"-A", "-o", "wide", "--context", "c", "--kubeconfig", "k"}, ""},
		"an unknown output":     {[]string{"-o", "name"}, `invalid argument "name" for "-o, --output" flag: must be one of text, wide,`},
		"no namespace":          {[]string{"-n", "A"}, "--namespace \"A\" is not the name of a namespace"},
		"no operator namespace": {[]string{"--operator-namespace", "A"}, "--operator-namespace \"A\" is not the name of a namespace"},
		"no name of a Lease":    {[]string{"--leader-elect-resource-name", "A"}, "--leader-elect-resource-name \"A\" is not the name of a Lease"},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			err := errors.Join(c.ParseFlags(test.args), c.PreRunE(c, nil))
			if (err == nil) != (test.err == "") || (err != nil && !strings.HasPrefix(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

// TestRun asks a server for the namespace of the context that --context names. The server has a Lease that is held, and one that is not.
func TestRun(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		if namespace, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, leases), "/leases/"); ok {
			serveLease(w, namespace, name)
			return
		}
		if !strings.HasSuffix(r.URL.Path, "/mycronjobs") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"kind":"MyCronJobList","apiVersion":"batch.wzj.kubebuilder.io/v1",
			"items":[{"metadata":{"name":"tick","namespace":"shop"}}]}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "config")
	config := `{"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}],"current-context":"x","contexts":[
		{"name":"x","context":{"cluster":"none"}},{"name":"y","context":{"cluster":"c","namespace":"shop"}}]}`
	must.Succeed(t, os.WriteFile(file, []byte(config), 0o600))
	for name, test := range map[string]struct {
		args           []string
		path           string
		stdout, stderr string
	}{
		"of the context": {
			nil, "/namespaces/shop/mycronjobs", "OBJECT     READY     REASON   AGE\nmcj/tick   Unknown   <none>   <unknown>\n", "",
		},
		"of all": {[]string{"-A"}, "/v1/mycronjobs", "NAMESPACE   OBJECT     READY     REASON   AGE\nshop        mcj/tick ", ""},
		"as JSON": {[]string{"-o", "json"}, "/namespaces/shop/mycronjobs",
			"{\n  \"schema\": \"glassback.dev/status/v1\",\n  \"objects\": [\n    {\n      \"kind\": \"MyCronJob\",", ""},
		"without a leader": {[]string{"--operator-namespace", "idle"}, "/namespaces/shop/mycronjobs", "OBJECT ",
			"No operator process holds the Lease idle/glassback: the last leader has released it. Unless an operator runs without " +
				"--leader-elect, the states can be old: start an operator, see glassback check.\n"},
		"another Lease": {[]string{"--leader-elect-resource-name", "old"}, "/namespaces/shop/mycronjobs", "OBJECT ",
			"No operator process holds the Lease glassback-system/old: there is no Lease. Unless an operator runs without " +
				"--leader-elect, the states can be old: name the namespace of the operator with --operator-namespace, " +
				"or start an operator, see glassback check.\n"},
		"a Lease that it may not read": {[]string{"--operator-namespace", "secret"}, "/namespaces/shop/mycronjobs", "OBJECT ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			var stdout, stderr strings.Builder
			code := command.Execute(t.Context(), New(), append([]string{"--kubeconfig", file, "--context", "y"}, test.args...), &stdout, &stderr)
			if code != command.OK || !strings.HasPrefix(stdout.String(), test.stdout) || stderr.String() != test.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
			if !strings.Contains(strings.Join(asked, " ")+" ", test.path+" ") {
				t.Errorf("asked for %v", asked)
			}
		})
	}
}

const leases = "/apis/coordination.k8s.io/v1/namespaces/"

// serveLease answers a request for a Lease: glassback is held in glassback-system, released in idle, and forbidden elsewhere.
func serveLease(w http.ResponseWriter, namespace, name string) {
	switch {
	case name != "glassback":
		w.WriteHeader(http.StatusNotFound)
	case namespace == "idle":
		fmt.Fprint(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":""}}`)
	case namespace == "glassback-system":
		fmt.Fprintf(w, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":
			{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`, time.Now().Format(metav1.RFC3339Micro))
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}
