//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"sigs.k8s.io/yaml"
)

// deployed are the rules of deploy/prometheus/rules.yml and the panels of
// deploy/grafana/sandbox.json, as far as the tests read them.
type deployedRules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

type deployedDashboard struct {
	Panels []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct {
			H, W, X, Y int
		} `json:"gridPos"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// deployedExpressions returns the expressions of both files by where they stand, and
// fails where a file is not as Prometheus and Grafana take it.
func deployedExpressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var rules deployedRules
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &rules); err != nil {
		t.Fatal(err)
	}
	duration := regexp.MustCompile(`^([0-9]+[smhd])?$`)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || out[r.Alert] != "" || r.Expr == "" || !duration.MatchString(r.For) || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || len(r.Annotations["runbook"]) < 60 {
				t.Errorf("the rule %q is not whole", r.Alert)
			}
			out[r.Alert] = r.Expr
		}
	}
	var board deployedDashboard
	if data, err = os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "sandbox.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]bool{}, map[[2]int]bool{}
	for _, p := range board.Panels {
		at := [2]int{p.GridPos.X, p.GridPos.Y}
		if p.Title == "" || ids[p.ID] || places[at] || p.GridPos.X+p.GridPos.W > 24 || p.Type == "timeseries" && len(p.Targets) == 0 {
			t.Errorf("the panel %q has no title, no target, or the id or place of another", p.Title)
		}
		ids[p.ID], places[at] = true, true
		for _, target := range p.Targets {
			out[p.Title+": "+target.Expr] = strings.NewReplacer("$__rate_interval", "5m").Replace(target.Expr)
		}
	}
	if len(out) < 30 {
		t.Errorf("only %d expressions are there", len(out))
	}
	return out
}

// holdDeployed holds that the expressions parse, and that every metric that they name
// is in an answer of /metrics, with the labels by which they choose. The parser is
// that of MetricsQL, which takes all of PromQL; Prometheus' own would bring the whole
// server along.
func holdDeployed(t *testing.T, metrics string) {
	t.Helper()
	labels := map[string][]string{} // of every series, by its name
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, "{")
		if !ok {
			name, _, _ = strings.Cut(line, " ")
		}
		if labels[name] == nil {
			labels[name] = []string{"instance", "job"}
		}
		for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(rest, -1) {
			labels[name] = append(labels[name], m[1])
		}
	}
	for where, text := range deployedExpressions(t) {
		e, err := metricsql.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		var names, by []string
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.MetricExpr:
				for _, filters := range e.LabelFilterss {
					name := filters[0].Value
					names = append(names, name)
					for _, f := range filters[1:] {
						if !slices.Contains(labels[name], f.Label) {
							t.Errorf("%s: %s has no label %s, but %q", where, name, f.Label, labels[name])
						}
					}
				}
			case *metricsql.AggrFuncExpr:
				by = append(by, e.Modifier.Args...)
			}
		})
		if len(names) == 0 {
			t.Errorf("%s names no metric", where)
		}
		for _, name := range names {
			if labels[name] == nil {
				t.Errorf("%s: the daemon has no metric %s", where, name)
			}
		}
		for _, label := range by {
			if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(labels[name], label) }) {
				t.Errorf("%s: none of %q has the label %s", where, names, label)
			}
		}
	}
}
