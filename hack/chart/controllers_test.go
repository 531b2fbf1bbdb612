// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestTheRolesAreOfTheControllersThatRun compares the roles of a release with the rules for the controllers that run.
// What those rules have to be, a test in pkg/app says: TestTheChartGrantsWhatTheControllersThatRunNeed.
func TestTheRolesAreOfTheControllersThatRun(t *testing.T) {
	all := []string{"apiexamplea", "application", "ecsinstance", "mycronjob", "rediscluster"}
	cases := map[string][]string{
		"['*']":                                      all,
		"[mycronjob, rediscluster]":                  {"mycronjob", "rediscluster"},
		"[rediscluster, mycronjob]":                  {"mycronjob", "rediscluster"},
		"['*', -ecsinstance, -rediscluster]":         {"apiexamplea", "application", "mycronjob"},
		"[-ecsinstance, '*']":                        {"apiexamplea", "application", "mycronjob", "rediscluster"},
		"[mycronjob, '*']":                           all,
		"[-mycronjob, application]":                  {"application"},
		"[mycronjob, -mycronjob, application]":       {"application"}, // As for the flag, the last value counts.
		"['*', -mycronjob, mycronjob]":               all,
		"['*', mycronjob, -mycronjob, -ecsinstance]": {"apiexamplea", "application", "rediscluster"},
	}
	for i, name := range all {
		cases["["+name+"]"] = []string{name}
		cases["['*', -"+name+"]"] = slices.Delete(slices.Clone(all), i, i+1)
	}
	for controllers, running := range cases {
		for _, webhooks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s webhooks %t", controllers, webhooks), func(t *testing.T) {
				values := fmt.Sprintf("{crds: {install: false}, controllers: %s, webhooks: {enabled: %t}", controllers, webhooks)
				cluster := render(t, values+"}")
				want := map[string]any{"cluster": true, "namespaced": true, "injection": webhooks, "webhooks": webhooks, "controllers": running}
				sameRules(t, cluster["ClusterRole/glassback-manager"], want)

				some := render(t, values+", watchNamespaces: [a, b]}")
				for _, ns := range []string{"a", "b"} {
					sameRules(t, some["Role/glassback-manager in "+ns], map[string]any{"namespaced": true, "webhooks": webhooks, "controllers": running})
				}
				if role := some["ClusterRole/glassback-manager"]; webhooks {
					sameRules(t, role, map[string]any{"injection": true})
				} else if role != nil {
					t.Errorf("there is a ClusterRole with %v", role["rules"])
				}
			})
		}
	}
}

// sameRules fails the test unless a role has the rules of the template with these values.
func sameRules(t *testing.T, role object, values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "templates", "rbac", "_rules.tpl"))
	succeed(t, err)
	rendered := &bytes.Buffer{}
	parsed, err := template.New("").Funcs(template.FuncMap{"has": func(name string, names []string) bool {
		return slices.Contains(names, name)
	}}).Parse(string(text))
	if err == nil {
		err = parsed.ExecuteTemplate(rendered, "glassback.rules", values)
	}
	succeed(t, err)
	var rules []rbacv1.PolicyRule
	succeed(t, yaml.UnmarshalStrict(rendered.Bytes(), &rules))
	data, err := json.Marshal(rules)
	succeed(t, err)
	var want any
	succeed(t, json.Unmarshal(data, &want))
	if got := role["rules"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the rules are\n%v\nwant\n%v", got, want)
	}
}
