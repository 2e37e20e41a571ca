//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// BenchmarkTelemetry runs commands in local sandboxes over three daemons, blocks of
// commands in turn, so that the machine is the same for all: one exports nothing, one
// exports but samples no trace, and one traces every command. It reports the processor
// time of each daemon for a command, and what that comes to at 1,000 commands a second,
// of which tracesPerSecond are traced unless the environment names a sampler, in
// percent of the processor time of a daemon that exports nothing.
//
//	go test -run '^$' -bench 'Telemetry$' -benchtime 20000x ./cmd/sandbox
func BenchmarkTelemetry(b *testing.B) {
	testenv.Require(b, "local")
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer c.Close()
	at := "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL
	ways := []*telemetryWay{newTelemetryWay(b), newTelemetryWay(b, at, "OTEL_TRACES_SAMPLER=always_off"), newTelemetryWay(b, at, "OTEL_TRACES_SAMPLER=always_on")}
	for _, w := range ways {
		w.run(b, 100)
	}
	const block = 50
	var cpu, wall [3]time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; done += block {
		for k := range ways {
			i := (k + done/block) % len(ways) // none is always the first
			before, began := ways[i].cpu(b), time.Now()
			ways[i].run(b, block)
			wall[i] += time.Since(began)
			cpu[i] += ways[i].cpu(b) - before
		}
	}
	b.StopTimer()
	blocks := (b.N + block - 1) / block * block
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(blocks) / 1000 }
	for i, name := range []string{"off", "unsampled", "traced"} {
		b.ReportMetric(per(cpu[i]), "µs-processor-"+name)
		b.ReportMetric(per(wall[i]), "µs-"+name)
	}
	const traced = tracesPerSecond / 1000.
	b.ReportMetric((traced*per(cpu[2]-cpu[0])+(1-traced)*per(cpu[1]-cpu[0]))/per(cpu[0])*100, "%-at-1000/s")
}

// A telemetryWay is a daemon with a sandbox.
type telemetryWay struct {
	pid  int
	me   *party
	path string
}

func newTelemetryWay(b *testing.B, env ...string) *telemetryWay {
	b.Helper()
	dir := b.TempDir()
	settings, socket := filepath.Join(dir, "settings.json"), filepath.Join(dir, "d.sock")
	if err := os.WriteFile(settings, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("sandbox", "serve", "--listen", "unix:"+socket)
	cmd.Path = daemonProgram
	cmd.Env = append(os.Environ(), "SANDBOX_GUEST="+testenv.Guest(b), "SANDBOX_STATE_DIR="+filepath.Join(dir, "state"), "SANDBOX_CONFIG="+settings)
	cmd.Env = append(cmd.Env, env...)
	log := newReportedLines()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	if _, ok := log.next("listening at", time.Minute); !ok {
		b.Fatal(log.all())
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	w := &telemetryWay{pid: cmd.Process.Pid, me: &party{&http.Client{Transport: &http.Transport{DialContext: dial}}, "http://sandbox", map[string]string{api.HeaderTenant: "acme"}}}
	box, _, err := asked[api.Sandbox](w.me, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	w.path = "/v1/sandboxes/" + box.Name + "/exec"
	return w
}

func (w *telemetryWay) run(b *testing.B, n int) {
	for range n {
		if r, _, err := asked[api.ExecResult](w.me, "POST", w.path, api.Exec{Args: []string{"/bin/true"}}); err != nil || r.ExitCode != 0 {
			b.Fatal(err, r)
		}
	}
}

// cpu returns the processor time of the daemon, without that of sandboxes.
func (w *telemetryWay) cpu(b *testing.B) time.Duration {
	var t unix.Timespec
	const scheduler = 2 // CPUCLOCK_SCHED, see clock_getcpuclockid(3)
	if err := unix.ClockGettime(int32(^w.pid<<3|scheduler), &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkTelemetrySpans makes the spans of one command and has them exported to a
// collector of this process, whose part is not measured apart.
func BenchmarkTelemetrySpans(b *testing.B) {
	c := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer c.Close()
	for _, one := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none", "OTEL_BSP_MAX_QUEUE_SIZE=100000", "OTEL_TRACES_SAMPLER=always_on"} {
		name, value, _ := strings.Cut(one, "=")
		b.Setenv(name, value)
	}
	figures, log := prometheus.NewRegistry(), logrus.New()
	e, err := newTelemetry(log, "test", figures, figures)
	if err != nil {
		b.Fatal(err)
	}
	defer e.close(log)
	b.ReportAllocs()
	for b.Loop() {
		root, _ := e.tracer.Root("POST", "", "")
		ctx := sandbox.WithSpan(b.Context(), root)
		for _, name := range []string{"sandbox.judge", "sandbox.ensure", "sandbox.exec"} {
			in, s := sandbox.StartSpan(ctx, name)
			for _, key := range []string{"sandbox.name", "sandbox.tenant", "sandbox.agent", "sandbox.session", "sandbox.provider"} {
				s.String(key, "a-value-of-usual-length")
			}
			if name == "sandbox.exec" {
				_, p := sandbox.StartSpan(in, "sandbox.process")
				p.Event("first output")
				p.String("process.executable.name", "true")
				p.Int("process.exit.code", 0)
				p.End()
			}
			s.End()
		}
		root.String("http.request.method", "POST")
		root.String("http.route", "/v1/sandboxes/{name}/exec")
		root.Int("http.response.status_code", 200)
		root.End()
	}
}
