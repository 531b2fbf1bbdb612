// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/glassback/glassback/hack/devcluster/cluster"
)

// auditPolicy is the audit policy of API servers. It leaves out requests of the cluster's own components, and keeps the bodies of objects
// that may have owners. For levels and stages see https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/.
const auditPolicy = `{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
  "omitStages": ["RequestReceived"],
  "omitManagedFields": true,
  "rules": [
    {"level": "None", "users": [
      "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "devcluster:kwok", "devcluster:coredns"
    ]},
    {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
    {"level": "Request", "verbs": ["create", "patch"], "resources": [
      {"group": "", "resources": ["configmaps", "persistentvolumeclaims", "pods", "services"]},
      {"group": "apps", "resources": ["deployments"]},
      {"group": "autoscaling", "resources": ["horizontalpodautoscalers"]},
      {"group": "batch", "resources": ["jobs"]},
      {"group": "networking.k8s.io", "resources": ["ingresses", "networkpolicies"]},
      {"group": "policy", "resources": ["poddisruptionbudgets"]}
    ]},
    {"level": "Metadata"}
  ]
}`

// audited makes the API server of a cluster write an audit log. Call the returned function after the cluster has stopped, or failed to
// start: it passes the operator's requests to verbs, and removes the log.
func audited(config cluster.Config) (cluster.Config, func() error, error) {
	dir, err := os.MkdirTemp("", "devcluster-")
	if err != nil {
		return config, nil, err
	}
	config.Dir = dir // A real node can read this directory.
	policy := filepath.Join(dir, "audit.json")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return config, nil, errors.Join(err, os.RemoveAll(dir))
	}
	config.ExtraArgs = maps.Clone(config.ExtraArgs)
	if config.ExtraArgs == nil {
		config.ExtraArgs = map[string][]string{}
	}
	config.ExtraArgs[cluster.APIServer] = append(slices.Clone(config.ExtraArgs[cluster.APIServer]),
		"--audit-policy-file="+policy, "--audit-log-path="+filepath.Join(dir, "audit.log"))
	return config, func() error { return errors.Join(verbs.read(dir), os.RemoveAll(dir)) }, nil
}

// asked is one kind of request to an API server.
type asked struct {
	verb, group string
	resource    string // with its subresource; for other requests, the path
	name        string // set if a role restricts the request to this name
	dryRun      bool
}

func (a asked) String() string {
	s := a.verb + " " + a.resource
	if a.group != "" {
		resource, subresource, sub := strings.Cut(a.resource, "/")
		s = a.verb + " " + resource + "." + a.group
		if sub {
			s += "/" + subresource
		}
	}
	if a.name != "" {
		s += " " + a.name
	}
	if a.dryRun {
		s += " (dry run)"
	}
	return s
}

// auditEvent has the fields of an event of audit.k8s.io/v1 that these tests use.
type auditEvent struct {
	Verb       string `json:"verb"`
	UserAgent  string `json:"userAgent"`
	RequestURI string `json:"requestURI"`
	ObjectRef  *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage   `json:"requestObject"`
	Annotations   map[string]string `json:"annotations"`
}

// reader reads audit logs.
type reader struct {
	names  sets.Set[asked]           // the resources and names in roles, without a verb
	owners map[metav1.TypeMeta]asked // the resources of the kinds that can be owners
	into   func(asked)               // gets each allowed request of the operator
}

// read reads an audit log. It leaves out an incomplete last line: a killed API server can leave one.
func (r reader) read(log io.Reader) error {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an audit log: %w", err)
		}
		var event auditEvent
		if json.Unmarshal(line, &event) == nil {
			r.event(&event)
		}
	}
}

func (r reader) event(e *auditEvent) {
	// The status does not say whether RBAC allowed the request: admission can forbid an allowed request.
	if !strings.HasPrefix(e.UserAgent, "glassback/") || e.Annotations["authorization.k8s.io/decision"] != "allow" {
		return
	}
	uri, err := url.ParseRequestURI(e.RequestURI)
	if err != nil {
		return
	}
	a := asked{verb: e.Verb, resource: uri.Path}
	if e.ObjectRef == nil {
		if strings.HasPrefix(a.resource, "/apis/") {
			a.resource = "/apis/*" // The role for discovery has this path.
		}
		r.into(a)
		return
	}
	a.group, a.resource, a.dryRun = e.ObjectRef.APIGroup, e.ObjectRef.Resource, uri.Query().Has("dryRun")
	if e.ObjectRef.Subresource != "" {
		a.resource += "/" + e.ObjectRef.Subresource
	}
	named := asked{group: a.group, resource: a.resource, name: e.ObjectRef.Name}
	if e.Verb != "create" && r.names.Has(named) { // RBAC checks the permission to create without the name.
		a.name = e.ObjectRef.Name
	}
	r.into(a)
	if e.ResponseStatus.Code != http.StatusCreated {
		return
	}
	a.verb, a.name = "create", "" // An apply can create an object: that needs the permission to create, and not only to patch.
	r.into(a)
	for _, owner := range r.held(e.RequestObject) {
		owner.dryRun = a.dryRun
		r.into(owner)
	}
}

// held returns the permissions that the admission plugin OwnerReferencesPermissionEnforcement requires for a new object with
// blockOwnerDeletion.
func (r reader) held(object []byte) []asked {
	var dependent metav1.PartialObjectMetadata
	if json.Unmarshal(object, &dependent) != nil {
		return nil // The audit log has no object.
	}
	var all []asked
	for _, ref := range dependent.OwnerReferences {
		owner, known := r.owners[metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}]
		if known && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			owner.verb, owner.resource = "update", owner.resource+"/finalizers"
			all = append(all, owner)
		}
	}
	return all
}

func TestReadAuditLog(t *testing.T) {
	const (
		allowed   = `"userAgent":"glassback/v1.0.0","annotations":{"authorization.k8s.io/decision":"allow"}`
		ownerless = `"requestObject":{"metadata":{"name":"a"}}`
		owned     = `"requestObject":{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"g.io/v1","kind":"Thing","name":"a",` +
			`"blockOwnerDeletion":true}]}}`
		unblocked = `"requestObject":{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"g.io/v1","kind":"Thing","name":"a"}]}}`
	)
	for name, test := range map[string]struct {
		log  string
		want []string
	}{
		"no request": {"", nil},
		"a resource": {
			`{` + allowed + `,"verb":"list","requestURI":"/apis/apps/v1/deployments?limit=5",` +
				`"objectRef":{"apiGroup":"apps","resource":"deployments"}}`,
			[]string{"list deployments.apps"},
		},
		"a subresource": {
			`{` + allowed + `,"verb":"update","requestURI":"/apis/g.io/v1/namespaces/n/things/a/status",` +
				`"objectRef":{"apiGroup":"g.io","resource":"things","subresource":"status","name":"a"}}`,
			[]string{"update things.g.io/status"},
		},
		"a path":    {`{` + allowed + `,"verb":"get","requestURI":"/version?timeout=5s"}`, []string{"get /version"}},
		"discovery": {`{` + allowed + `,"verb":"get","requestURI":"/apis/g.io/v1"}`, []string{"get /apis/*"}},
		"a name in a role, and another name": {
			`{` + allowed + `,"verb":"get","requestURI":"/x","objectRef":{"resource":"secrets","name":"ours"}}
			 {` + allowed + `,"verb":"get","requestURI":"/x","objectRef":{"resource":"secrets","name":"another"}}
			 {` + allowed + `,"verb":"get","requestURI":"/x","objectRef":{"resource":"pods","name":"ours"}}`,
			[]string{"get pods", "get secrets", "get secrets ours"},
		},
		"a create counts without the name": {
			`{` + allowed + `,"verb":"create","requestURI":"/x","objectRef":{"resource":"secrets","name":"ours"},"responseStatus":{"code":201}}`,
			[]string{"create secrets"},
		},
		"an apply that creates an object": {
			`{` + allowed + `,"verb":"patch","requestURI":"/x","objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":201},` +
				ownerless + `}`,
			[]string{"create pods", "patch pods"},
		},
		"an apply to an existing object": {
			`{` + allowed + `,"verb":"patch","requestURI":"/x","objectRef":{"resource":"pods","name":"a"},` +
				`"responseStatus":{"code":200},` + owned + `}`,
			[]string{"patch pods"},
		},
		"an object with blockOwnerDeletion": {
			`{` + allowed + `,"verb":"create","requestURI":"/x","objectRef":{"resource":"pods","name":"a"},` +
				`"responseStatus":{"code":201},` + owned + `}`,
			[]string{"create pods", "update things.g.io/finalizers"},
		},
		"an object with an owner, without blockOwnerDeletion": {
			`{` + allowed + `,"verb":"create","requestURI":"/x","objectRef":{"resource":"pods","name":"a"},"responseStatus":{"code":201},` +
				unblocked + `}`,
			[]string{"create pods"},
		},
		"a dry run": {
			`{` + allowed + `,"verb":"create","requestURI":"/x?dryRun=All","objectRef":{"resource":"pods"},"responseStatus":{"code":201}}`,
			[]string{"create pods (dry run)"},
		},
		"a request that admission forbids was allowed by RBAC": {
			`{` + allowed + `,"verb":"create","requestURI":"/x","objectRef":{"resource":"pods"},"responseStatus":{"code":403}}`,
			[]string{"create pods"},
		},
		"a request that RBAC forbids": {
			`{"userAgent":"glassback/v1.0.0","annotations":{"authorization.k8s.io/decision":"forbid"},"verb":"list","requestURI":"/x",` +
				`"objectRef":{"resource":"pods"},"responseStatus":{"code":403}}`, nil,
		},
		"a request without a known user": {
			`{"userAgent":"glassback/v1.0.0","verb":"list","requestURI":"/x","objectRef":{"resource":"pods"},"responseStatus":{"code":401}}`, nil,
		},
		"another user": {
			`{"userAgent":"kubectl/v1.37.0","annotations":{"authorization.k8s.io/decision":"allow"},"verb":"list","requestURI":"/x",` +
				`"objectRef":{"resource":"pods"}}`, nil,
		},
		"an API server that was killed in the middle of a line": {
			`{` + allowed + `,"verb":"get","requestURI":"/ver{` + allowed + `,"verb":"get","requestURI":"/healthz"}
			 {` + allowed + `,"verb":"get","requestURI":"/readyz"}
			 {` + allowed[:5],
			[]string{"get /readyz"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := sets.New[string]()
			r := reader{
				names:  sets.New(asked{resource: "secrets", name: "ours"}),
				owners: map[metav1.TypeMeta]asked{{APIVersion: "g.io/v1", Kind: "Thing"}: {group: "g.io", resource: "things"}},
				into:   func(a asked) { got.Insert(a.String()) },
			}
			log := test.log
			if !strings.Contains(name, "in the middle of a line") {
				log += "\n"
			}
			if err := r.read(strings.NewReader(log)); err != nil || !slices.Equal(sets.List(got), test.want) && len(got)+len(test.want) > 0 {
				t.Errorf("the requests are %q, want %q; error %v", sets.List(got), test.want, err)
			}
		})
	}
}
