package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
)

func fresh(t testing.TB, o MetricsOptions) (*metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m, err := NewMetrics(reg, o)
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

func ok() operation.Ended {
	return operation.Ended{
		Tenant: "acme", Tool: "builder", Domain: grant.DomainFS, Resource: operation.ResourceFile, Safety: grant.SafetyLow,
		Effects: []grant.SideEffect{grant.EffectFilesystem, grant.EffectWrite},
		Used:    grant.Budget{BytesIn: 100, BytesOut: 20, CPUMs: 7, GPUMs: 3}, Duration: 3 * time.Millisecond,
	}
}

func shows(t *testing.T, reg prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestEnded(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{})
	m.Ended(ok())
	m.Ended(ok())
	failed := ok()
	failed.Code, failed.Retryable, failed.Domain, failed.Resource, failed.Effects = sandbox.CodeUnavailable, true, grant.DomainNet, operation.ResourceHost, []grant.SideEffect{grant.EffectNetwork}
	failed.Used = grant.Budget{BytesIn: 1, CPUMs: grant.Unlimited}
	m.Ended(failed)
	m.Ended(operation.Ended{Domain: grant.DomainProc, Resource: operation.ResourceCommand, Effects: []grant.SideEffect{grant.EffectProcess}}) // a plain command
	refused := ok()
	refused.Denied, refused.Code, refused.Tenant = true, sandbox.CodePermissionDeny, "nobody"
	m.Ended(refused)
	shows(t, reg, `
# HELP sandbox_exec_total Commands, uses of files and operations under grants that were begun.
# TYPE sandbox_exec_total counter
sandbox_exec_total{domain="fs",resource="file",safety="low",side_effect="write",tenant="acme",tool="builder"} 2
sandbox_exec_total{domain="net.http",resource="host",safety="low",side_effect="network",tenant="acme",tool="builder"} 1
sandbox_exec_total{domain="proc",resource="command",safety="other",side_effect="process",tenant="none",tool="none"} 1
# HELP sandbox_denied_total Operations that were refused before anything was done.
# TYPE sandbox_denied_total counter
sandbox_denied_total{code="SANDBOX.PERMISSION_DENY",retryable="false"} 1
# HELP sandbox_errors_total Operations that were begun and not carried out, or stopped.
# TYPE sandbox_errors_total counter
sandbox_errors_total{code="PROVIDER.UNAVAILABLE",retryable="true"} 1
# HELP sandbox_budget_used_bytes Bytes that operations have used of their budgets, by direction.
# TYPE sandbox_budget_used_bytes counter
sandbox_budget_used_bytes{direction="in"} 201
sandbox_budget_used_bytes{direction="out"} 40
# HELP sandbox_cpu_ms Processor time that operations have used, in milliseconds.
# TYPE sandbox_cpu_ms counter
sandbox_cpu_ms 14
# HELP sandbox_gpu_ms Time of GPUs that operations have used, in milliseconds.
# TYPE sandbox_gpu_ms counter
sandbox_gpu_ms 6
`, "sandbox_exec_total", "sandbox_denied_total", "sandbox_errors_total", "sandbox_budget_used_bytes", "sandbox_cpu_ms", "sandbox_gpu_ms")
	if n, err := testutil.GatherAndCount(reg, "sandbox_latency_ms"); err != nil || n != 3 {
		t.Errorf("%d domains have times, %v", n, err)
	}
}

// TestTimes holds that the promised 20 µs and 100 µs can be read off.
func TestTimes(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{})
	m.Built(99 * time.Microsecond)
	m.Built(101 * time.Microsecond)
	m.Validated(19 * time.Microsecond)
	m.Validated(-time.Second)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		bound float64
		n     uint64
	}{"sandbox_profile_build_ms": {0.1, 1}, "sandbox_guard_validate_ms": {0.02, 2}}
	found := 0
	for _, family := range all {
		w, ok := want[family.GetName()]
		if !ok {
			continue
		}
		h := family.GetMetric()[0].GetHistogram()
		for _, b := range h.GetBucket() {
			if b.GetUpperBound() == w.bound {
				if found++; b.GetCumulativeCount() != w.n || h.GetSampleCount() != 2 {
					t.Errorf("%s: %d up to %v", family.GetName(), b.GetCumulativeCount(), w.bound)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 bounds are there", found)
	}
}

// TestNamesAreBounded has a hundred thousand tenants and tools come, of which
// the first ones keep their names.
func TestNamesAreBounded(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{MaxTenants: 20, MaxTools: 10})
	e := ok()
	for n := range 100_000 {
		e.Tenant, e.Tool = fmt.Sprintf("tenant-%d", n), fmt.Sprintf("tool-%d", n)
		m.Ended(e)
	}
	e.Tenant, e.Tool = "tenant-3", "tool-3"
	m.Ended(e)
	if n, err := testutil.GatherAndCount(reg, "sandbox_exec_total"); err != nil || n != 21 {
		t.Errorf("%d series, %v", n, err)
	}
	got := values(t, reg)
	if got["tenant=tenant-3 tool=tool-3"] != 2 || got["tenant=tenant-15 tool=other"] != 1 || got["tenant=other tool=other"] != 100_000-20 {
		t.Errorf("%v", got)
	}
}

// values are the counts of executions by tenant and tool.
func values(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range all {
		if family.GetName() != "sandbox_exec_total" {
			continue
		}
		for _, one := range family.GetMetric() {
			l := map[string]string{}
			for _, pair := range one.GetLabel() {
				l[pair.GetName()] = pair.GetValue()
			}
			out["tenant="+l["tenant"]+" tool="+l["tool"]] += one.GetCounter().GetValue()
		}
	}
	return out
}

// TestSeriesAreBounded holds the product of all labels too, and that what is
// counted adds up all the same.
func TestSeriesAreBounded(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{MaxSeries: 100})
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			e := ok()
			for n := range 2500 {
				e.Tenant, e.Tool = fmt.Sprint("tenant-", n%150), fmt.Sprint("tool-", (n+part)%150)
				e.Domain, e.Safety = grant.Domain(fmt.Sprint("domain-", n)), grant.SafetyClass(fmt.Sprint("safety-", n))
				e.Effects = []grant.SideEffect{grant.SideEffect(fmt.Sprint("effect-", n))}
				e.Resource = operation.Resource(fmt.Sprint("resource-", n)) // a name, which is no label
				m.Ended(e)
			}
		})
	}
	all.Wait()
	if n, err := testutil.GatherAndCount(reg, "sandbox_exec_total"); err != nil || n != 101 {
		t.Errorf("%d series, %v", n, err)
	}
	sum := 0.0
	for _, n := range values(t, reg) {
		sum += n
	}
	if sum != 10_000 {
		t.Errorf("%v are counted", sum)
	}
}

// TestRefusedTakesNoName checks that refused requests use no names up.
func TestRefusedTakesNoName(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{MaxTenants: 2})
	e := ok()
	e.Denied, e.Code = true, sandbox.Code("MADE.UP")
	for n := range 1000 {
		e.Tenant, e.Code = fmt.Sprint("tenant-", n), sandbox.Code(fmt.Sprint("MADE.UP", n))
		m.Ended(e)
	}
	m.Ended(ok())
	if got := values(t, reg); len(got) != 1 || got["tenant=acme tool=builder"] != 1 {
		t.Errorf("%v", got)
	}
	if n, err := testutil.GatherAndCount(reg, "sandbox_denied_total"); err != nil || n != 1 {
		t.Errorf("%d codes, %v", n, err)
	}
}

// TestNamesAreHarmless holds that a label is short and of harmless characters,
// and that names which differ have labels that do.
func TestNamesAreHarmless(t *testing.T) {
	long := strings.Repeat("a", 10_000)
	names := []string{
		"acme", "ACME", "", "other", "none", "a b", "a_b", "a\tb", "a\nb", `a"b`, `a{b="c"}`, "\xff\xfe", "ä", "日本", long, long + "b", "a~b",
		strings.Repeat("ä", 60), "\x1b[31mred", "org/team:1",
	}
	m, reg := fresh(t, MetricsOptions{})
	for _, name := range names {
		e := ok()
		e.Tenant, e.Tool = name, "t"
		m.Ended(e)
	}
	got := values(t, reg)
	if len(got) != len(names) {
		t.Errorf("%d names have %d labels", len(names), len(got))
	}
	for pair := range got {
		label := strings.TrimSuffix(strings.TrimPrefix(pair, "tenant="), " tool=t")
		if len(label) > 64 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/@+~") != "" {
			t.Errorf("%q", label)
		}
	}
}

// TestEffects holds that a set of side effects counts as its strongest.
func TestEffects(t *testing.T) {
	for want, effects := range map[string][]grant.SideEffect{
		"none": nil, "read": {grant.EffectRead}, "process": {grant.EffectRead, grant.EffectProcess}, "write": {grant.EffectFilesystem, grant.EffectWrite},
		"network": {grant.EffectBrowser, grant.EffectNetwork}, "other": {"made up"},
	} {
		m, reg := fresh(t, MetricsOptions{})
		e := ok()
		e.Effects = effects
		m.Ended(e)
		shows(t, reg, `
# HELP sandbox_exec_total Commands, uses of files and operations under grants that were begun.
# TYPE sandbox_exec_total counter
sandbox_exec_total{domain="fs",resource="file",safety="low",side_effect="`+want+`",tenant="acme",tool="builder"} 1
`, "sandbox_exec_total")
	}
}

// TestLint holds that what the linter of Prometheus has against the metrics is
// their names alone, which others rely on: milliseconds, and counters that are
// not called a total.
func TestLint(t *testing.T) {
	m, reg := fresh(t, MetricsOptions{})
	m.Ended(ok())
	e := ok()
	e.Code = sandbox.CodeTimeout
	m.Ended(e)
	e.Denied = true
	m.Ended(e)
	m.Built(time.Microsecond)
	m.Validated(time.Microsecond)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Metric+": "+p.Text)
	}
	slices.Sort(got)
	const total, short = `counter metrics should have "_total" suffix`, "metric names should not contain abbreviated units"
	want := []string{
		"sandbox_budget_used_bytes: " + total, "sandbox_cpu_ms: " + total, "sandbox_cpu_ms: " + short, "sandbox_gpu_ms: " + total, "sandbox_gpu_ms: " + short,
		"sandbox_guard_validate_ms: " + short, "sandbox_latency_ms: " + short, "sandbox_profile_build_ms: " + short,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRegisteredOnce holds that nothing is left of metrics that cannot all be
// registered.
func TestRegisteredOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	taken := prometheus.NewCounter(prometheus.CounterOpts{Name: "sandbox_gpu_ms", Help: "Time of GPUs that operations have used, in milliseconds."})
	if err := reg.Register(taken); err != nil {
		t.Fatal(err)
	}
	_, err := NewMetrics(reg, MetricsOptions{})
	if sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Error(err)
	}
	reg.Unregister(taken)
	if _, err := NewMetrics(reg, MetricsOptions{}); err != nil {
		t.Error(err)
	}
}

func BenchmarkEnded(b *testing.B) {
	for name, tenants := range map[string]int{"one tenant": 1, "more tenants than names": 1000} {
		b.Run(name, func(b *testing.B) {
			m, _ := fresh(b, MetricsOptions{})
			all := make([]operation.Ended, tenants)
			for i := range all {
				all[i] = ok()
				all[i].Tenant = fmt.Sprint("tenant-", i)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for n := 0; pb.Next(); n++ {
					m.Ended(all[n%tenants])
				}
			})
		})
	}
}

// TestRequests holds that requests make no more series than the table has
// routes, whatever callers send.
func TestRequests(t *testing.T) {
	reg := prometheus.NewRegistry()
	m, err := NewRequests(reg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		m.Served(fmt.Sprint("M", i), "", i, time.Millisecond)
		m.Served("GET", "/v1/x/{name}", 200+i%2*204, time.Millisecond)
	}
	m.Panicked()
	n, err := testutil.GatherAndCount(reg, "sandbox_http_requests_total")
	if err != nil || n > 9 {
		t.Errorf("%d series, %v", n, err)
	}
	if _, err := NewRequests(reg); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("registered twice: %v", err)
	}
}
