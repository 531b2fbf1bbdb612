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

// TestRolesFollowTheControllersValue renders the chart with different values of "controllers". Each role must have exactly the rules that
// the enabled controllers need. TestTheChartGrantsWhatTheControllersThatRunNeed in pkg/app tests the rules themselves.
func TestRolesFollowTheControllersValue(t *testing.T) {
	all := []string{"apiexamplea", "application", "ecsinstance", "mycronjob", "rediscluster"}
	cases := map[string][]string{
		"['*']":                                      all,
		"[rediscluster, mycronjob]":                  {"mycronjob", "rediscluster"},
		"[-ecsinstance, '*']":                        {"apiexamplea", "application", "mycronjob", "rediscluster"},
		"[mycronjob, -mycronjob, application]":       {"application"}, // The last value for a controller counts, as in --controllers.
		"['*', -mycronjob, mycronjob]":               all,
		"['*', mycronjob, -mycronjob, -ecsinstance]": {"apiexamplea", "application", "rediscluster"},
	}
	for _, name := range all {
		cases["["+name+"]"] = []string{name}
	}
	for controllers, running := range cases {
		for _, webhooks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s webhooks %t", controllers, webhooks), func(t *testing.T) {
				values := fmt.Sprintf("{crds: {install: false}, controllers: %s, webhooks: {enabled: %t}", controllers, webhooks)
				clusterWide := render(t, values+"}")
				inputs := map[string]any{"cluster": true, "namespaced": true, "injection": webhooks, "webhooks": webhooks, "controllers": running}
				checkRules(t, clusterWide["ClusterRole/glassback-manager"], inputs)

				namespaced := render(t, values+", watchNamespaces: [a, b]}")
				inputs = map[string]any{"namespaced": true, "webhooks": webhooks, "controllers": running}
				for _, ns := range []string{"a", "b"} {
					checkRules(t, namespaced["Role/glassback-manager in "+ns], inputs)
				}
				if role := namespaced["ClusterRole/glassback-manager"]; webhooks {
					checkRules(t, role, map[string]any{"injection": true})
				} else if role != nil {
					t.Errorf("got a ClusterRole with the rules %v, want none", role["rules"])
				}
			})
		}
	}
}

// checkRules renders the template of the rules with these values. It fails the test unless the role has exactly these rules.
func checkRules(t *testing.T, role object, inputs map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chartDir, "templates", "rbac", "_rules.tpl"))
	succeed(t, err)
	rendered := &bytes.Buffer{}
	parsed, err := template.New("").Funcs(template.FuncMap{"has": func(name string, names []string) bool {
		return slices.Contains(names, name)
	}}).Parse(string(text))
	if err == nil {
		err = parsed.ExecuteTemplate(rendered, "glassback.rules", inputs)
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
