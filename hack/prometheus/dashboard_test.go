// Copyright The Glassback Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard has the fields of artifacts/prometheus/dashboard.json that the tests check.
type dashboard struct {
	ID         *int    `json:"id"` // must be null: otherwise an import replaces the dashboard with that ID
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []target `json:"targets"`
}

type target struct {
	RefID        string     `json:"refId"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	Datasource   datasource `json:"datasource"`
}

type variable struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Multi      bool            `json:"multi"`
	Definition string          `json:"definition"`
	Query      json.RawMessage `json:"query"`
	Datasource datasource      `json:"datasource"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// chosen is the data source that the user chooses.
var chosen = datasource{"prometheus", "${datasource}"}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "artifacts", "prometheus", "dashboard.json"))
	succeed(t, err)
	var d dashboard
	succeed(t, json.Unmarshal(data, &d))
	return d
}

// labelValues is the only query that variables have.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// fill returns an expression as Grafana asks it: with values for its variables. All that are not known stay, and are no PromQL.
func fill(expr string, values map[string][]string) string {
	expr = strings.NewReplacer("$__rate_interval", "2m", "$__range", "10m").Replace(expr)
	for name, of := range values {
		expr = strings.ReplaceAll(expr, "$"+name, strings.Join(of, "|"))
	}
	return expr
}

func TestTheDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	if d.ID != nil || d.UID == "" || d.Title == "" {
		t.Errorf("id %v, uid %q, title %q", d.ID, d.UID, d.Title)
	}
	values := map[string][]string{}
	for _, v := range d.Templating.List {
		values[v.Name] = []string{"x"}
		if v.Type == "datasource" {
			continue
		}
		var query struct {
			Query string `json:"query"`
		}
		if err := json.Unmarshal(v.Query, &query); err != nil || query.Query != v.Definition || !labelValues.MatchString(query.Query) ||
			v.Datasource != chosen {
			t.Errorf("variable %s asks %q, and says %q, of %v: %v", v.Name, query.Query, v.Definition, v.Datasource, err)
		}
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: the id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is at %+v, and there are 24 columns", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%s covers %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.Datasource != chosen || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q: description %q, data source %v, %d queries", p.ID, p.Title, p.Description, p.Datasource, len(p.Targets))
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.LegendFormat == "" || q.Datasource != chosen {
				t.Errorf("%s: query %q, legend %q, data source %v", p.Title, q.RefID, q.LegendFormat, q.Datasource)
			}
			refs[q.RefID] = true
			selectors(t, fill(q.Expr, values)) // It can be parsed.
		}
	}
}
