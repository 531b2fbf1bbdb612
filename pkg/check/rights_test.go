// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/glassback/glassback/pkg/command"
	"github.com/glassback/glassback/pkg/must"
)

// The roles in artifacts/rbac grant what permissions.Wants returns: TestTheRolesGrantWhatIsNeededAndNothingElse compares the two.
func TestRightsAreThoseThatThePartsOfTheOperatorNeed(t *testing.T) {
	const secrets = "secrets in all namespaces: create,get,list,watch"
	for name, test := range map[string]struct {
		args        []string
		has, hasNot []string
	}{
		"all controllers": {nil, []string{
			secrets, "leases.coordination.k8s.io glassback in namespace glassback-system: get,list,update,watch",
			"customresourcedefinitions.apiextensions.k8s.io in the cluster: get",
			"tokenreviews.authentication.k8s.io in the cluster: create",
			"secrets glassback-webhook-ca in namespace glassback-system: delete,get,list,update,watch",
		}, nil},
		"MyCronJobs alone": {
			[]string{"--controllers=mycronjob"}, []string{"jobs.batch in all namespaces: create,delete,get,list,watch"}, []string{secrets},
		},
		"one namespace":          {[]string{"--namespace=a"}, []string{"secrets in namespace a: create,get,list,watch"}, []string{secrets}},
		"without webhooks":       {[]string{"--webhooks=false"}, nil, []string{"secrets in namespace glassback-system: create"}},
		"in another namespace":   {[]string{"--operator-namespace=x"}, []string{"leases.coordination.k8s.io in namespace x: create"}, nil},
		"webhooks out of it all": {[]string{"--webhook-url=https://a:1"}, nil, []string{"secrets in namespace glassback-system: create"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append([]string{"--pre", "--rights"}, test.args...), io.Discard)
			must.Succeed(t, err)
			var lines []string
			for _, r := range o.rights() {
				lines = append(lines, r.Resource+" "+r.Where+": "+strings.Join(r.Verbs, ","))
				if len(r.By) == 0 {
					t.Errorf("no part needs %s", r.Resource)
				}
			}
			for _, want := range test.has {
				if !slices.Contains(lines, want) {
					t.Errorf("missing: %s, in\n%s", want, strings.Join(lines, "\n"))
				}
			}
			for _, unwanted := range test.hasNot {
				if slices.Contains(lines, unwanted) {
					t.Errorf("not needed: %s", unwanted)
				}
			}
		})
	}
}

func TestRightsNeedNoCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", "/none")
	for name, test := range map[string]struct {
		args   []string
		code   int
		stdout string
	}{
		"a table":     {[]string{"--pre", "--rights"}, command.OK, "RESOURCE "},
		"a document":  {[]string{"--pre", "--rights", "-o", "json"}, command.OK, "{\n  \"schema\": \"glassback.dev/rights/v1\","},
		"without pre": {[]string{"--rights"}, command.Usage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout strings.Builder
			if code := Run(t.Context(), test.args, &stdout, io.Discard); code != test.code || !strings.HasPrefix(stdout.String(), test.stdout) {
				t.Errorf("exit code %d, %q", code, stdout.String())
			}
		})
	}
}
