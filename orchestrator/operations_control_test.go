package orchestrator_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server"
)

// TestDocument holds that the Go code of the document is that of the examples,
// which run. The settings that it shows are those that they run with.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("operations_example_test.go")
	check(err)
	code := plain(string(text))
	for nth := range 4 {
		for shown := range strings.SplitSeq(block("go", nth), "\n\n") {
			if !strings.Contains(code, plain(shown)) {
				t.Errorf("this of %s is in no example:\n%s", page, shown)
			}
		}
	}
}

// plain is code without white space.
func plain(code string) string { return strings.Join(strings.Fields(code), "") }

// operate carries out one operation of the worked example under g.
func (h *fixture) operate(t *testing.T, g grant.Grant, line []grant.Grant, do grant.Operation) manager.Performed {
	t.Helper()
	manifest, _ := granted(time.Now())
	done, err := h.Operate(t.Context(), manager.Operation{Grant: g, Line: line, Manifest: manifest, Do: do})
	if (err == nil) != done.OK || sandbox.CodeOf(err) != done.Code {
		t.Errorf("%+v, %v", done, err)
	}
	return done
}

func fetching(path string) grant.Operation {
	return grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://reports.example" + path}
}

// TestDerive holds that a grant that was derived has less, falls with the one
// that it comes from before anything was done with it, and that one which has
// ended has none.
func TestDerive(t *testing.T) {
	h := newOrchestrator(nil)
	defer h.close()
	_, g := granted(time.Now())
	wish := grant.Wish{ID: "g-child", Call: "call-10", DecisionKey: "d-10", Capabilities: g.Capabilities[:1], Budget: &grant.Budget{Calls: 1, BytesIn: 1 << 20, BytesOut: 4 << 10, WallMs: 60_000}}
	child, err := h.ctl.Derive(g, wish)
	if err != nil {
		t.Fatal(err)
	}
	if done := h.operate(t, child, []grant.Grant{g}, fetching("/q3.csv")); !done.OK {
		t.Errorf("the child may not fetch: %+v", done)
	}
	if done := h.operate(t, child, []grant.Grant{g}, fetching("/q3.csv")); done.Code != sandbox.CodeBudgetExceeded {
		t.Errorf("a second call of one: %+v", done)
	}
	more := wish
	more.ID, more.Call, more.DecisionKey, more.Budget = "g-more", "call-11", "d-11", &grant.Budget{Calls: 11}
	if _, err := h.ctl.Derive(g, more); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("a child with more: %v", err)
	}
	unused := wish
	unused.ID, unused.Call, unused.DecisionKey = "g-unused", "call-12", "d-12"
	if _, err := h.ctl.Derive(g, unused); err != nil {
		t.Fatal(err)
	}
	check(h.ctl.Revoke(g))
	if revoked, err := h.ctl.Revoked.Revoked(store.Name(g.Tenant, "g-unused")); !revoked || err != nil {
		t.Errorf("a child that did nothing yet stands: %v, %v", revoked, err)
	}
	late := wish
	late.ID, late.Call, late.DecisionKey = "g-late", "call-13", "d-13"
	if _, err := h.ctl.Derive(g, late); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("a child of a grant that was revoked: %v", err)
	}
}

// TestMetrics holds that what a registry shows adds up to what was done
// through a manager.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counted, err := server.NewMetrics(registry, server.MetricsOptions{})
	check(err)
	h := newOrchestrator(counted)
	defer h.close()
	_, g := granted(time.Now())
	var in, out float64
	for _, path := range []string{"/a.csv", "/b.csv", "/moved.csv"} {
		done := h.operate(t, g, nil, fetching(path))
		in, out = in+float64(done.Used.BytesIn), out+float64(done.Used.BytesOut)
	}
	write := grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/reports/a.csv", Data: []byte("text")}
	done := h.operate(t, g, nil, write)
	in, out = in+float64(done.Used.BytesIn), out+float64(done.Used.BytesOut)
	write.Path = "/workspace/notes.txt"
	h.operate(t, g, nil, write)
	post := fetching("/a.csv")
	post.Method = "POST"
	h.operate(t, g, nil, post)

	for _, tt := range []struct {
		name, labels string
		want         float64
	}{
		{"sandbox_exec_total", `domain="net.http"`, 3},
		{"sandbox_exec_total", `domain="fs"`, 1},
		{"sandbox_exec_total", `tenant="acme"`, 4},
		{"sandbox_exec_total", `tool="reporter"`, 4},
		{"sandbox_exec_total", `safety="medium"`, 4},
		{"sandbox_errors_total", `code="SANDBOX.PERMISSION_DENY"`, 1},
		{"sandbox_denied_total", `code="POLICY.DENY_TOOL"`, 1},
		{"sandbox_denied_total", `code="SANDBOX.PERMISSION_DENY"`, 1},
		{"sandbox_denied_total", ``, 2},
		{"sandbox_budget_used_bytes", `direction="in"`, in},
		{"sandbox_budget_used_bytes", `direction="out"`, out},
		{"sandbox_gpu_ms", ``, 0},
		{"sandbox_latency_ms", `domain="net.http"`, 3},
		{"sandbox_latency_ms", `domain="fs"`, 1},
		{"sandbox_profile_build_ms", ``, 1},
		{"sandbox_guard_validate_ms", ``, 6},
	} {
		if got := shown(t, registry, tt.name, tt.labels); got != tt.want {
			t.Errorf("%s{%s} is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
	if in == 0 || out == 0 {
		t.Errorf("%v bytes in, %v out", in, out)
	}
}

// shown adds up the series with a label, of counters their values and of
// histograms the number of their samples.
func shown(t *testing.T, g prometheus.Gatherer, name, label string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	check(err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			if label == "" || slices.Contains(labels, label) {
				sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
	t.Errorf("there is no %s", name)
	return 0
}

// TestBuiltIsReported holds that a profile that was not to be built is measured,
// too: whoever asks for such ones has a cost.
func TestBuiltIsReported(t *testing.T) {
	registry := prometheus.NewRegistry()
	counted, err := server.NewMetrics(registry, server.MetricsOptions{})
	check(err)
	h := newOrchestrator(counted)
	defer h.close()
	_, g := granted(time.Now())
	g.Consent = nil
	if done := h.operate(t, g, nil, fetching("/q3.csv")); done.Code != sandbox.CodePermissionDeny {
		t.Errorf("without consent: %+v", done)
	}
	if got := shown(t, registry, "sandbox_profile_build_ms", ""); got != 1 {
		t.Errorf("%v profiles were tried", got)
	}
}

// TestSweep holds that nothing that still counts is forgotten.
func TestSweep(t *testing.T) {
	h := newOrchestrator(nil)
	defer h.close()
	_, g := granted(time.Now())
	write := grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/reports/a.csv", Data: []byte("text")}
	if done := h.operate(t, g, nil, write); !done.OK {
		t.Fatalf("%+v", done)
	}
	check(h.ctl.Sweep(t.Context()))
	write.Path = "/workspace/reports/b.csv"
	if done := h.operate(t, g, nil, write); done.Code != sandbox.CodeBudgetExceeded {
		t.Errorf("a second file after a sweep: %+v", done)
	}
	check(h.ctl.Revoke(g))
	check(h.ctl.Sweep(t.Context()))
	if revoked, err := h.ctl.Revoked.Revoked(store.Name(g.Tenant, g.ID)); !revoked || err != nil {
		t.Errorf("a revocation was forgotten: %v, %v", revoked, err)
	}
}
