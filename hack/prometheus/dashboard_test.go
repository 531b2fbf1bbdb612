// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard has the fields of artifacts/prometheus/dashboard.json that the tests check.
type dashboard struct {
	ID         *int    `json:"id"` // must be null: otherwise an import replaces the dashboard with that ID
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string          `json:"name"`
			Type       string          `json:"type"`
			Definition string          `json:"definition"`
			Query      json.RawMessage `json:"query"`
			Datasource datasource      `json:"datasource"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID         int        `json:"id"`
	Type       string     `json:"type"`
	Title      string     `json:"title"`
	Datasource datasource `json:"datasource"`
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct {
		RefID      string     `json:"refId"`
		Expr       string     `json:"expr"`
		Datasource datasource `json:"datasource"`
	} `json:"targets"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// chosen is the data source that the user chooses.
var chosen = datasource{"prometheus", "${datasource}"}

// labelValues is the only query that variables have.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// queries returns the queries of the dashboard as Grafana asks them, with x for the values of its variables, by the panel or the variable.
// It fails the test if the dashboard is not well-formed.
func queries(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "artifacts", "prometheus", "dashboard.json"))
	succeed(t, err)
	var d dashboard
	succeed(t, json.Unmarshal(data, &d))
	if d.ID != nil || d.UID == "" {
		t.Errorf("id %v, uid %q", d.ID, d.UID)
	}
	all, fill := map[string]string{}, []string{"$__rate_interval", "2m", "$__range", "10m"}
	for _, v := range d.Templating.List {
		fill = append(fill, "$"+v.Name, "x")
		if v.Type == "datasource" {
			continue
		}
		var query struct{ Query string }
		asked := labelValues.FindStringSubmatch(v.Definition)
		if err := json.Unmarshal(v.Query, &query); err != nil || query.Query != v.Definition || asked == nil || v.Datasource != chosen {
			t.Fatalf("variable %s asks %q, and says %q, of %v: %v", v.Name, query.Query, v.Definition, v.Datasource, err)
		}
		all["the variable "+v.Name] = asked[1]
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.GridPos.W < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: the id %d is taken, or it is not in the 24 columns: %+v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%s covers %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type != "row" && (p.Datasource != chosen || len(p.Targets) == 0) {
			t.Errorf("%s: data source %v, %d queries", p.Title, p.Datasource, len(p.Targets))
		}
		for _, q := range p.Targets {
			name := fmt.Sprintf("panel %d, %s, query %s", p.ID, p.Title, q.RefID)
			if all[name] != "" || q.Datasource != chosen {
				t.Errorf("%s: it is there twice, or has the data source %v", name, q.Datasource)
			}
			all[name] = q.Expr
		}
	}
	for name, expr := range all {
		all[name] = strings.NewReplacer(fill...).Replace(expr) // A variable that is not known stays, and is no PromQL.
	}
	return all
}

// documented returns the metrics in docs/metrics.md. It fails the test if an alert is not there.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	succeed(t, err)
	names := regexp.MustCompile("`((?:glassback|controller_runtime|certwatcher|workqueue|rest_client|leader_election|process)_[a-z_]+)`")
	var all []string
	for _, name := range names.FindAllStringSubmatch(string(text), -1) {
		all = append(all, name[1])
	}
	for alert := range alerts(t) {
		if !strings.Contains(string(text), "| `"+alert+"`") {
			t.Errorf("docs/metrics.md does not have the alert %s", alert)
		}
	}
	return all
}

// source returns the code of a package.
func source(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	succeed(t, err)
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		succeed(t, err)
		if !strings.HasSuffix(file, "_test.go") {
			all.Write(data)
		}
	}
	return all.String()
}

// TestTheDocumentHasTheMetricsOfTheCode compares the operator's own metrics, and not those of libraries. Names that end with _ in the code
// are the beginnings of several ones.
func TestTheDocumentHasTheMetricsOfTheCode(t *testing.T) {
	own := regexp.MustCompile(`"((?:glassback|controller_runtime|certwatcher)_[a-z_]+)"`)
	code, known := source(t, "pkg/metrics"), documented(t)
	made := own.FindAllStringSubmatch(code, -1)
	if len(made) < 20 {
		t.Fatalf("the code has the metrics %q", made)
	}
	is := func(name, made string) bool {
		rest, begins := strings.CutPrefix(name, made)
		return name == made || begins && strings.HasSuffix(made, "_") && strings.Contains(code, `"`+rest+`"`)
	}
	for _, m := range made {
		if !slices.ContainsFunc(known, func(name string) bool { return is(name, m[1]) }) {
			t.Errorf("docs/metrics.md does not have %s", m[1])
		}
	}
	for _, name := range known {
		if own.MatchString(`"`+name+`"`) && !slices.ContainsFunc(made, func(m []string) bool { return is(name, m[1]) }) {
			t.Errorf("docs/metrics.md has %s, which the code does not make", name)
		}
	}
}

// An alert or a panel without a result may have a wrong name.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	known := append(documented(t), "up", "ALERTS", "process_cpu_seconds_total", // which Prometheus adds, or every Go program has
		"apiserver_admission_webhook_rejection") // It is one of API servers, and a counter although it ends with _count.
	suffix := regexp.MustCompile(`_(bucket|sum|count)$`)
	var results []string
	outcome := regexp.MustCompile(`\b(?:Class|Result) += "(\w+)"`)
	for _, found := range outcome.FindAllStringSubmatch(source(t, "pkg/cloud/aliyun")+source(t, "pkg/redisnode"), -1) {
		results = append(results, found[1])
	}
	exprs := queries(t)
	for name, rule := range alerts(t) {
		exprs["alert "+name] = rule.Expr
	}
	for name, expr := range exprs {
		for _, selector := range selectors(t, expr) {
			if metric := suffix.ReplaceAllString(selector.Name, ""); !slices.Contains(known, metric) {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
			for _, by := range selector.LabelMatchers {
				for value := range strings.SplitSeq(by.Value, "|") {
					if by.Name == "result" && !slices.Contains(results, value) {
						t.Errorf("%s: no call has the result %s: there are %s", name, value, results)
					}
				}
			}
		}
	}
}
