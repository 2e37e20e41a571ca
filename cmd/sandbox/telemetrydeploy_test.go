//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
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

// renderedChart returns the daemon's container, its volumes and its network policy as
// the chart renders them with these values.
func renderedChart(t *testing.T, values ...string) (core.PodSpec, networking.NetworkPolicySpec) {
	t.Helper()
	chart := filepath.Join("..", "..", "deploy", "helm", "sandbox")
	args := []string{"template", "sandbox", chart, "--namespace", "somewhere", "--kube-version", "1.34.4", "--values", filepath.Join(chart, "..", "manifests.yaml")}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	out, err := testenv.Helm(t.Context(), t, args...).Output()
	if err != nil {
		exit, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	var d apps.Deployment
	var n networking.NetworkPolicy
	for doc := range bytes.SplitSeq(out, []byte("\n---\n")) {
		var kind struct {
			Kind     string `json:"kind"`
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		switch {
		case kind.Kind == "Deployment":
			err = yaml.UnmarshalStrict(doc, &d)
		case kind.Kind == "NetworkPolicy" && kind.Metadata.Name == "sandbox":
			err = yaml.UnmarshalStrict(doc, &n)
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
	}
	return d.Spec.Template.Spec, n.Spec
}

// TestChartExports holds that the values of the chart become variables with which the
// daemon exports what they say, to a collector that the network policy lets it reach,
// and that the chart without them exports nothing.
func TestChartExports(t *testing.T) {
	t.Parallel()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	certificate := testAuthority(t)
	if err := os.WriteFile(ca, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		values  []string
		signals string
		port    int32 // opened beside those of the daemon
		want    map[string]string
	}{
		{"nothing", nil, "", 0, map[string]string{"OTEL_SERVICE_NAME": ""}},
		{"an endpoint", []string{"otel.endpoint=http://collector.observability:4318"}, "tml", 4318, map[string]string{
			"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_SERVICE_NAME": "sandbox",
			"OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=<metadata.namespace>,k8s.pod.name=<metadata.name>,k8s.node.name=<spec.nodeName>",
		}},
		{"everything", []string{
			"otel.endpoint=https://collector.observability:4317", "otel.protocol=grpc", "otel.headers.secret=collector", "otel.ca.secret=authority", "otel.signals={traces,logs}",
			"otel.sampler=parentbased_traceidratio", "otel.samplerArg=0.25", "otel.serviceName=boxes", "otel.attributes.deployment\\.environment\\.name=test",
			"env[0].name=OTEL_PROPAGATORS", "env[0].value=tracecontext", "env[1].name=HTTPS_PROXY", "env[1].valueFrom.secretKeyRef.name=proxy", "env[1].valueFrom.secretKeyRef.key=url",
		}, "tl", 4317, map[string]string{
			"OTEL_EXPORTER_OTLP_HEADERS": "secret collector headers", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_SERVICE_NAME": "boxes", "OTEL_PROPAGATORS": "tracecontext", "HTTPS_PROXY": "secret proxy url",
			"OTEL_RESOURCE_ATTRIBUTES": "k8s.namespace.name=<metadata.namespace>,k8s.pod.name=<metadata.name>,k8s.node.name=<spec.nodeName>,deployment.environment.name=test",
		}},
		{"the port of the scheme", []string{"otel.endpoint=https://collector.example/otlp"}, "tml", 0, nil},
		{"a port that is open already", []string{"otel.endpoint=http://collector:6443"}, "tml", 0, nil},
		{"one signal", []string{"otel.endpoint=http://collector", "otel.signals={metrics}"}, "m", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod, policy := renderedChart(t, tt.values...)
			env := map[string]string{}
			for _, v := range pod.Containers[0].Env {
				value := v.Value
				switch from := v.ValueFrom; {
				case from == nil:
				case from.FieldRef != nil:
					value = "<" + from.FieldRef.FieldPath + ">"
				default:
					value = "secret " + from.SecretKeyRef.Name + " " + from.SecretKeyRef.Key
				}
				for name, earlier := range env { // as the kubelet does
					value = strings.ReplaceAll(value, "$("+name+")", earlier)
				}
				if _, again := env[v.Name]; again {
					t.Errorf("%s is there twice", v.Name)
				}
				env[v.Name] = value
			}
			for name, want := range tt.want {
				if env[name] != want {
					t.Errorf("%s is %q, want %q", name, env[name], want)
				}
			}
			if path := env["OTEL_EXPORTER_OTLP_CERTIFICATE"]; path != "" {
				at := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == filepath.Dir(path) && m.ReadOnly })
				if at < 0 || !slices.ContainsFunc(pod.Volumes, func(v core.Volume) bool {
					return v.Name == pod.Containers[0].VolumeMounts[at].Name && v.Secret != nil && v.Secret.SecretName == "authority"
				}) {
					t.Errorf("the Secret with the authority is not at %s", path)
				}
				env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = ca
			} else if tt.name == "everything" {
				t.Error("the authority is not named")
			}
			if env["OTEL_EXPORTER_OTLP_HEADERS"] != "" {
				env["OTEL_EXPORTER_OTLP_HEADERS"] = "authorization=x"
			}
			got, err := telemetryFrom(func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, s := range []struct {
				letter string
				on     bool
			}{{"t", got.traces}, {"m", got.metrics}, {"l", got.logs}} {
				if s.on {
					text += s.letter
				}
			}
			if text != tt.signals {
				t.Errorf("exported are %q, want %q", text, tt.signals)
			}
			ports := []int32{443, 6443, 80}
			if tt.port != 0 {
				ports = append(ports, tt.port)
			}
			var open []int32
			for _, p := range policy.Egress[0].Ports {
				open = append(open, p.Port.IntVal)
			}
			if !slices.Equal(open, ports) {
				t.Errorf("the ports %v are open, want %v", open, ports)
			}
		})
	}
}

// testAuthority returns the certificate of an authority as a PEM file.
func testAuthority(t *testing.T) []byte {
	t.Helper()
	with := httptest.NewTLSServer(http.NotFoundHandler())
	defer with.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: with.Certificate().Raw})
}
