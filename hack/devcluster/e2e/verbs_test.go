// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/glassback/glassback/artifacts/crd"
	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// All tests together show whether the roles in artifacts/rbac grant exactly the requests of the operator. Every API server writes an audit
// log. After the whole suite has passed on a real node, TestMain compares the logs with the roles.

// verbsEnv names an environment variable with the name of a file. The process writes the operator's requests in all tests to the file.
const verbsEnv = "GLASSBACK_E2E_VERBS"

// roleFiles contain the operator's permissions. The files in namespaced/ grant the same permissions, divided into more roles.
var roleFiles = []string{"role.yaml", "webhook_role.yaml", "leader_election_role.yaml", "metrics_auth_role.yaml", "webhook_url_role.yaml"}

const crdGroup = "apiextensions.k8s.io"

// ofUsers is the reason for requests that every logged-in user may make.
const ofUsers = "Kubernetes grants it to every authenticated user"

// beyond has the requests of the operator that no role grants, with the reasons.
var beyond = map[asked]string{
	{verb: "get", resource: "/readyz"}:  "Kubernetes grants it to every client",
	{verb: "get", resource: "/version"}: "Kubernetes grants it to every client",

	{verb: "get", resource: "/apis/*"}:                                                    ofUsers,
	{verb: "create", group: "authorization.k8s.io", resource: "selfsubjectaccessreviews"}: ofUsers,
	{verb: "create", group: crdGroup, resource: "customresourcedefinitions"}:              "--install-crds, for administrators only",
	{verb: "patch", group: crdGroup, resource: "customresourcedefinitions"}:               "--install-crds, for administrators only",
}

// idle has granted permissions for requests that no test can cause, with the reasons.
var idle = map[asked]string{
	{verb: "patch", resource: "persistentvolumeclaims"}: "the volumes of the real node cannot grow: " +
		"see the tests of pkg/controller/rediscluster",
}

// grant is a verb that a role grants.
type grant struct {
	asked

	file string
}

// collector collects the operator's requests in all clusters of this process.
type collector struct {
	mu  sync.Mutex
	all sets.Set[asked]
}

var verbs = collector{all: sets.New[asked]()}

// read reads the audit logs in the directory of a cluster.
func (c *collector) read(dir string) error {
	grants, err := granted()
	if err != nil {
		return err
	}
	owners, err := owners()
	if err != nil {
		return err
	}
	r := reader{names: sets.New[asked](), owners: owners, into: func(a asked) { c.all.Insert(a) }}
	for _, g := range grants {
		r.names.Insert(asked{group: g.group, resource: g.resource, name: g.name})
	}
	logs, err := filepath.Glob(filepath.Join(dir, "audit*.log")) // A large log continues in another file.
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range logs {
		if err := readFile(r, name); err != nil {
			return err
		}
	}
	return nil
}

func readFile(r reader, name string) error {
	log, err := os.Open(name)
	if err != nil {
		return err
	}
	defer log.Close()
	return r.read(log)
}

// check compares requests and roles if the whole suite has passed. The error says what to do.
func (c *collector) check(passed bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if file := os.Getenv(verbsEnv); file != "" {
		var lines []string
		for a := range c.all {
			lines = append(lines, a.String()+"\n")
		}
		slices.Sort(lines)
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644); err != nil {
			return err
		}
	}
	if !passed || !ranAll() {
		return nil
	}
	grants, err := granted()
	if err != nil {
		return err
	}
	if wrong := compare(c.all, grants, beyond, idle); len(wrong) > 0 {
		return fmt.Errorf("the roles in artifacts/rbac differ from the operator's requests in these tests:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}

// ranAll reports whether this process ran all tests.
func ranAll() bool {
	for name, all := range map[string]string{"test.run": "", "test.skip": "", "test.list": "", "test.short": "false"} {
		if f := flag.Lookup(name); f == nil || f.Value.String() != all {
			return false
		}
	}
	return os.Getenv(nodeEnv) != cluster.NodeSimulated && cluster.RealNodeMissing() == nil
}

// compare returns requests that no role grants, and permissions that no request used.
func compare(used sets.Set[asked], grants []grant, beyond, idle map[asked]string) []string {
	var wrong []string
	tell := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	ungranted, busy := sets.New[asked](), sets.New[grant]()
	for a := range used {
		by := narrowest(grants, a)
		if len(by) == 0 {
			ungranted.Insert(a)
		}
		if !a.dryRun { // Only the command check makes dry runs.
			busy.Insert(by...)
		}
	}
	for a := range ungranted {
		if beyond[a] == "" {
			tell("the operator used %q, which no role grants: grant it there and add it to the needs in pkg/app, "+
				"or give a reason in beyond (verbs_test.go)", a)
		}
	}
	idling := sets.New[asked]()
	for _, g := range grants {
		if busy.Has(g) {
			continue
		}
		idling.Insert(g.asked)
		if idle[g.asked] == "" {
			tell("%s grants %q, which was not used: if the code never uses it, remove it there and from the needs in pkg/app; "+
				"otherwise test it, or give a reason in idle (verbs_test.go)", g.file, g.asked)
		}
	}
	for a := range beyond {
		if !ungranted.Has(a) {
			tell("beyond (verbs_test.go) has %q, which was not used, or which a role grants: remove it there", a)
		}
	}
	for a := range idle {
		if !idling.Has(a) {
			tell("idle (verbs_test.go) has %q, which was used, or which no role grants: remove it there", a)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// narrowest returns the grants that allow a request. If some of them are for its name only, it returns only these.
func narrowest(grants []grant, a asked) []grant {
	var named, open []grant
	for _, g := range grants {
		switch {
		case g.verb != a.verb || g.group != a.group || g.resource != a.resource:
		case g.name == "":
			open = append(open, g)
		case g.name == a.name:
			named = append(named, g)
		}
	}
	if len(named) > 0 {
		return named
	}
	return open
}

// granted returns the permissions in the roles.
var granted = sync.OnceValues(func() ([]grant, error) {
	all := sets.New[grant]() // This is a set, since two rules can grant the same.
	for _, file := range roleFiles {
		data, err := os.ReadFile(filepath.Join("../../../artifacts/rbac", file))
		if err != nil {
			return nil, err
		}
		role := &rbacv1.ClusterRole{} // This type has all fields of a Role.
		if err := yaml.UnmarshalStrict(data, role); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		for _, rule := range role.Rules {
			all.Insert(grantsOf(file, rule)...)
		}
	}
	return all.UnsortedList(), nil
})

func grantsOf(file string, rule rbacv1.PolicyRule) []grant {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []grant
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			all = append(all, grant{asked{verb: verb, resource: path}, file})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, grant{asked{verb: verb, group: group, resource: resource, name: name}, file})
				}
			}
		}
	}
	return all
}

// owners returns the resources of objects that can be owners: the operator's own kinds.
func owners() (map[metav1.TypeMeta]asked, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	all := map[metav1.TypeMeta]asked{}
	for _, d := range definitions {
		for _, version := range d.Spec.Versions {
			kind := metav1.TypeMeta{APIVersion: d.Spec.Group + "/" + version.Name, Kind: d.Spec.Names.Kind}
			all[kind] = asked{group: d.Spec.Group, resource: d.Spec.Names.Plural}
		}
	}
	return all, nil
}

// noStreams makes an API server work as before Kubernetes 1.34: it does not stream lists in a watch, so that informers LIST first.
const noStreams = "--feature-gates=WatchList=false"

// TestTheRoleIsEnoughForAStricterServer runs the operator with its shipped permissions on an API server that needs more permissions: it
// does not stream lists, and runs OwnerReferencesPermissionEnforcement.
func TestTheRoleIsEnoughForAStricterServer(t *testing.T) {
	light.parallel(t)
	w := start(t, cluster.Config{
		Components: []string{cluster.Etcd, cluster.APIServer},
		ExtraArgs: map[string][]string{
			cluster.APIServer: {noStreams, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		},
	})
	account := w.shippedAccount(t)
	w.createNamespace(t, operatorNamespace)
	h := w.launchHooked(t, freeURL(t), "--leader-elect", "--leader-elect-resource-namespace="+operatorNamespace)
	h.waitFor(leading)
	h.stop() // This operator runs as an administrator. It must not do the work of the operator under test.
	w.unregister(t, h.name)
	launch(t, "--kubeconfig", account, "-v=2", "--ecs-endpoint=http://"+freeAddress(t)).waitFor("Started controller")
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := w.kubectl(t, args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	kubectl("apply", "-f", sampleFiles(examplesDir))
	kubectl("patch", "ecs/ecsinstance-sample", "--type=merge", "-p", `{"spec":{"credentialsSecretRef":{"name":"aliyun"}}}`)
	// The plugin learns of new definitions within half a minute.
	eventually(t, 2*time.Minute, func(context.Context) error {
		made := kubectl("get", "configmaps,deployments,ingresses,jobs,poddisruptionbudgets,services", "-o",
			`jsonpath={range .items[*]}{.kind} of {.metadata.ownerReferences[?(@.blockOwnerDeletion)].kind}{"\n"}{end}`)
		for _, want := range []string{
			"ConfigMap of ApiExampleA", "Deployment of Application", "Service of Application", "Ingress of Application", "Job of MyCronJob",
			"ConfigMap of RedisCluster", "Service of RedisCluster", "PodDisruptionBudget of RedisCluster",
		} {
			if !strings.Contains(made, want+"\n") {
				return fmt.Errorf("the children lack %s; they are:\n%s", want, made)
			}
		}
		return nil
	})

	// The API server really enforces the permission.
	kubectl("create", "clusterrole", "maker", "--verb=create", "--resource=configmaps")
	kubectl("create", "clusterrolebinding", "maker", "--clusterrole=maker", "--user=maker")
	uid := kubectl("get", "aea/apiexamplea-sample", "-o", "jsonpath={.metadata.uid}")
	file := filepath.Join(t.TempDir(), "held.yaml")
	w.must(t, os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "ownerReferences": [
		{"apiVersion": "groupa.k8s.zhuang.com/v1", "kind": "ApiExampleA", "name": "apiexamplea-sample", "uid": %q,
		"blockOwnerDeletion": true}]}}`, uid), 0o600))
	eventually(t, soon, func(context.Context) error { // The API server applies a new binding after a moment.
		out, err := w.kubectl(t, "create", "--as=maker", "-f", file)
		if err == nil || !strings.Contains(out, "cannot set blockOwnerDeletion") {
			return fmt.Errorf("a user without permission for finalizers can set blockOwnerDeletion: %v\n%s", err, out)
		}
		return nil
	})
}

// spoilsCA damages the Secret of the CA as a user could. The operator can correct the first damage, but must replace the Secret after the
// second one.
func (n *node) spoilsCA(t *testing.T) {
	t.Helper()
	for _, immutable := range []bool{false, true} {
		before := n.trusted(t)
		spoilt := before.DeepCopy()
		spoilt.Immutable = &immutable
		for key := range spoilt.Data {
			spoilt.Data[key] = []byte("garbage")
		}
		_, err := n.kube.CoreV1().Secrets(n.ns).Update(t.Context(), spoilt, metav1.UpdateOptions{})
		n.must(t, err)
		eventually(t, patience, func(ctx context.Context) error {
			now, err := n.kube.CoreV1().Secrets(n.ns).Get(ctx, before.Name, metav1.GetOptions{})
			if err == nil && string(now.Data["tls.crt"]) == "garbage" {
				err = errors.New("the Secret is not repaired")
			}
			return err
		})
		if after := n.trusted(t); (after.UID != before.UID) != immutable {
			t.Errorf("immutable %t: the operator replaced the Secret: %t", immutable, after.UID != before.UID)
		}
	}
}

func TestCompareRolesWithRequests(t *testing.T) {
	var (
		get     = asked{verb: "get", resource: "pods"}
		list    = asked{verb: "list", resource: "pods"}
		dry     = asked{verb: "get", resource: "pods", dryRun: true}
		getOurs = asked{verb: "get", resource: "pods", name: "ours"}
		version = asked{verb: "get", resource: "/version"}
		role    = grant{get, "role.yaml"}
		another = grant{get, "another_role.yaml"}
		lists   = grant{list, "role.yaml"}
		named   = grant{getOurs, "own_role.yaml"}
		reasons = func(of asked) map[asked]string { return map[asked]string{of: "for a reason"} }
	)
	for name, test := range map[string]struct {
		used         []asked
		granted      []grant
		beyond, idle map[asked]string
		want         []string // a text of each line, in order
	}{
		"all requests are granted, and all grants are used": {used: []asked{get, list}, granted: []grant{role, lists}},
		"a request is not granted": {
			used: []asked{get, list}, granted: []grant{role}, want: []string{`the operator used "list pods", which no role grants`},
		},
		"a grant is not used": {
			used: []asked{get}, granted: []grant{role, lists}, want: []string{`role.yaml grants "list pods", which was not used`},
		},
		"two roles grant the same": {used: []asked{get}, granted: []grant{role, another}},
		"two roles grant the same, and no request uses it": {
			granted: []grant{role, another}, want: []string{"another_role.yaml grants", "role.yaml grants"},
		},
		"a path": {used: []asked{version}, granted: []grant{{version, "role.yaml"}}},
		"with a role for the name, the role for all names is not used": {
			used: []asked{getOurs}, granted: []grant{role, named}, want: []string{`role.yaml grants "get pods", which was not used`},
		},
		"a role for all names grants a request for one name": {used: []asked{getOurs}, granted: []grant{role}},
		"a role for a name grants no request for other names": {
			used: []asked{getOurs, get}, granted: []grant{named}, want: []string{`the operator used "get pods"`},
		},
		"a dry run needs the same permission": {used: []asked{dry}, want: []string{`the operator used "get pods (dry run)"`}},
		"a dry run alone does not justify a grant": {
			used: []asked{dry}, granted: []grant{role}, want: []string{`role.yaml grants "get pods", which was not used`},
		},
		"a request is not granted, with a reason": {used: []asked{get}, beyond: reasons(get)},
		"a reason in beyond for a granted request": {
			used: []asked{get}, granted: []grant{role}, beyond: reasons(get), want: []string{`beyond (verbs_test.go) has "get pods"`},
		},
		"a reason in beyond for an unused permission": {beyond: reasons(get), want: []string{`beyond (verbs_test.go) has "get pods"`}},
		"a grant is not used, with a reason":          {granted: []grant{role}, idle: reasons(get)},
		"a reason in idle for a used grant": {
			used: []asked{get}, granted: []grant{role}, idle: reasons(get), want: []string{`idle (verbs_test.go) has "get pods"`},
		},
		"a reason in idle for a permission that no role grants": {idle: reasons(get), want: []string{`idle (verbs_test.go) has "get pods"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare(sets.New(test.used...), test.granted, test.beyond, test.idle)
			if len(got) != len(test.want) {
				t.Fatalf("the differences are:\n%s\nwant %q", strings.Join(got, "\n"), test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("the difference is %q, want %q", got[i], want)
				}
			}
		})
	}
}
