//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	traceOfTest = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanOfTest  = "00f067aa0ba902b7"
	traceparent = "00-" + traceOfTest + "-" + spanOfTest + "-01"
	traceOfMCP  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	traceOfDoor = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// secretsOf are texts that must not be exported, whatever a caller puts them into.
func secretsOf() map[string]string {
	out := map[string]string{}
	for _, place := range []string{"argument", "variable", "input", "content", "query", "header", "path", "bound", "agent-line", "output", "program"} {
		out[place] = "hush-" + place + "-7391"
	}
	return out
}

// header adds headers to every request.
type header struct {
	http.RoundTripper
	values http.Header
}

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, v := range h.values {
		r.Header[name] = v
	}
	return h.RoundTripper.RoundTrip(r)
}

// TestTelemetry has a daemon export everything while requests go through each step,
// and holds that one trace joins them, with its parents and times right, that
// metrics and logs arrive too, and that nothing secret is in any of it.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"docker", "local"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, provider)
			exportsEverything(t, provider)
		})
	}
}

func exportsEverything(t *testing.T, provider string) {
	s, c, hush := newSite(t), newCollector(t), secretsOf()
	c.Start()
	host, closed := newNearby(t), newNearby(t)
	settings := filepath.Join(t.TempDir(), "settings.json")
	text := fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"provider": %q, "network": {"allowedDomains": [%q], "secrets": {"API_TOKEN": {"hosts": [%q]}}}}}, "list": [{"id": "careful", "sandbox": {"commands": {"autoAllowIfSandboxed": false}}}]}}`, provider, host.at, host.at)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "SANDBOX_CONFIG="+settings, "API_TOKEN="+hush["bound"],
		"OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20to-collector", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_SERVICE_NAME=sandbox-of-test", "OTEL_METRIC_EXPORT_INTERVAL=200",
		"KUBECONFIG="+filepath.Join(t.TempDir(), "none"),
	)
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	me := d.own("acme")
	me.headers["Traceparent"] = traceparent
	box := must[api.Sandbox](t, me, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "trace me"})

	// A command with secrets in every place, which reaches hosts.
	line := fmt.Sprintf(`: %s; cat >/dev/null; echo %s; curl -sS -H "X-Test: %s" -H "Authorization: Bearer $API_TOKEN" "http://%s/%s?q=%s"; curl -sS --max-time 20 http://%s/; true`,
		hush["argument"], hush["output"], hush["header"], host.at, hush["path"], hush["query"], closed.at)
	res := must[api.ExecResult](t, me, "POST", "/v1/sandboxes/"+box.Name+"/exec", api.Exec{Line: line, Env: map[string]string{"HUSH": hush["variable"]}, Stdin: hush["input"]})
	if !strings.Contains(res.Stdout, "hello from nearby") || host.hits.Load() != 1 || closed.hits.Load() != 0 {
		t.Fatalf("%+v", res)
	}
	// A command that waits for an approval.
	careful := must[api.Sandbox](t, me, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "trace me", Agent: "careful"})
	ran := make(chan api.ExecResult, 1)
	go func() {
		r, _, err := asked[api.ExecResult](me, "POST", "/v1/sandboxes/"+careful.Name+"/exec", api.Exec{Line: "echo $(id)", Ask: true})
		if err != nil {
			t.Error(err)
		}
		ran <- r
	}()
	answers := d.own("acme")
	list := must[api.ApprovalList](t, answers, "GET", "/v1/approvals?waitSeconds=50", nil)
	if len(list.Items) != 1 {
		t.Fatalf("%+v", list)
	}
	must[any](t, answers, "POST", "/v1/approvals/"+list.Items[0].ID, api.AnswerApproval{Permission: "allow_once"})
	if r := <-ran; r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
	// Files, a refusal, and what the server cannot do, which it logs.
	put, err := me.ask("PUT", "/v1/sandboxes/"+box.Name+"/files/workspace/"+hush["path"], strings.NewReader(hush["content"]), "Content-Type", "application/octet-stream")
	if err != nil {
		t.Fatal(err)
	}
	put.Body.Close()
	if _, err := me.ask("POST", "/v1/sandboxes/"+box.Name+"/exec", strings.NewReader(`{"line":"rm -rf / # `+hush["argument"]+`"}`)); err == nil {
		t.Error("the policy lets / be removed")
	}
	if r := must[api.ExecResult](t, me, "POST", "/v1/sandboxes/"+box.Name+"/exec", api.Exec{Args: []string{"/nowhere/" + hush["program"]}}); r.ExitCode != 127 {
		t.Errorf("%+v", r)
	}
	if _, err := me.ask("POST", "/v1/sandboxes", strings.NewReader(`{"session":"other"}`), api.HeaderSettings, `{"settings":{"provider":"kubernetes"}}`); err == nil || !strings.Contains(err.Error(), "PROVIDER.UNAVAILABLE") {
		t.Errorf("a cluster that is not there: %v", err)
	}
	callsTool(t, d, hush)
	opensDoor(t, s, d)
	if provider == "local" {
		res := d.get("/metrics")
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		holdDeployed(t, string(data))
	}

	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := d.ended(); err != nil { // it sends what waits
		t.Error(err)
	}
	c.mu.Lock()
	all := c.raw.String()
	if len(c.headers) == 0 || c.headers[0].Get("Authorization") != "Bearer to-collector" {
		t.Errorf("%d requests to the collector", len(c.headers))
	}
	if c.resource["service.name"] != "sandbox-of-test" || c.resource["deployment.environment.name"] != "test" || c.resource["service.version"] == "" {
		t.Errorf("the resource is %v", c.resource)
	}
	for _, name := range []string{"sandbox_exec_total", "sandbox_http_requests_total", "sandbox_latency_ms", "sandbox_telemetry_exported_total", "go_goroutines"} {
		if !c.metrics[name] && !c.metrics[strings.TrimSuffix(name, "_total")] {
			t.Errorf("the metric %s is not exported", name)
		}
	}
	joined := 0
	for _, l := range c.logs {
		if fmt.Sprintf("%x", l.TraceId) == traceOfTest {
			joined++
		}
	}
	if len(c.logs) == 0 || joined == 0 {
		t.Errorf("%d log records, %d of the trace", len(c.logs), joined)
	}
	c.mu.Unlock()
	for place, text := range hush {
		if strings.Contains(all, text) || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte(text))) {
			t.Errorf("the secret of the %s is exported", place)
		}
	}
	looksAtTrace(t, c, provider, box.Name)
}

// looksAtTrace holds what the trace of the requests has.
func looksAtTrace(t *testing.T, c *collector, provider, box string) {
	spans := c.trace(traceOfTest)
	got := tree(t, spans, spanOfTest)
	const exec = "POST /v1/sandboxes/{name}/exec"
	want := []string{
		"POST /v1/sandboxes", "POST /v1/sandboxes > sandbox.judge", "POST /v1/sandboxes > sandbox.ensure", "POST /v1/sandboxes > sandbox.ensure > sandbox.create", "POST /v1/sandboxes > sandbox.ensure > sandbox.open",
		exec, exec + " > sandbox.judge", exec + " > sandbox.ensure", exec + " > sandbox.exec", exec + " > sandbox.exec > sandbox.process",
		exec + " > sandbox.exec > sandbox.egress", exec + " > sandbox.exec > sandbox.egress > sandbox.secret", exec + " > sandbox.approval",
		"PUT /v1/sandboxes/{name}/files/{path...}", "PUT /v1/sandboxes/{name}/files/{path...} > sandbox.file",
	}
	for _, path := range want {
		if !slices.Contains(got, path) {
			t.Errorf("the trace has no %s", path)
		}
	}
	if t.Failed() {
		t.Logf("the trace:\n%s", strings.Join(got, "\n"))
	}
	seen := map[string]bool{}
	for _, s := range spans {
		for key, value := range s.attrs {
			seen[s.Name+" "+key+"="+value] = true
			if len(value) > 256 {
				t.Errorf("%s of %s has %d bytes", key, s.Name, len(value))
			}
		}
		for _, e := range s.Events {
			seen[s.Name+" event "+e.Name] = true
			if e.TimeUnixNano < s.StartTimeUnixNano || e.TimeUnixNano > s.EndTimeUnixNano {
				t.Errorf("the event %s is not within %s", e.Name, s.Name)
			}
		}
	}
	for _, fact := range []string{
		"POST /v1/sandboxes sandbox.tenant=acme", exec + " http.response.status_code=200", exec + " http.response.status_code=403", exec + " sandbox.code=POLICY.DENY_TOOL",
		"sandbox.judge sandbox.verdict=allow", "sandbox.judge sandbox.verdict=deny", "sandbox.judge error.type=POLICY.DENY_TOOL",
		"sandbox.ensure sandbox.created=true", "sandbox.ensure sandbox.created=false", "sandbox.ensure sandbox.provider=" + provider, "sandbox.exec sandbox.name=" + box,
		"sandbox.exec sandbox.session=trace me", "sandbox.exec process.exit.code=0", "sandbox.process process.executable.name=sh", "sandbox.process process.exit.code=0", "sandbox.process event first output",
		"sandbox.egress sandbox.verdict=allow", "sandbox.egress sandbox.verdict=deny", "sandbox.egress server.address=127.0.0.2", "sandbox.egress http.response.status_code=200",
		"sandbox.secret sandbox.secret.names=API_TOKEN", "sandbox.approval sandbox.approval.answer=allow_once", "sandbox.file sandbox.file.operation=write",
	} {
		if !seen[fact] {
			t.Errorf("no span has %s", fact)
		}
	}
	if t.Failed() {
		t.Logf("%q", slices.Sorted(maps.Keys(seen)))
	}
	if got := tree(t, c.trace(traceOfMCP), spanOfTest); !slices.Contains(got, "POST /mcp > tools/call exec > sandbox.exec > sandbox.process") {
		t.Errorf("the trace of an agent:\n%s", strings.Join(got, "\n"))
	}
	if got := tree(t, c.trace(traceOfDoor), spanOfTest); len(got) < 3 || !slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, "> sandbox.exec > sandbox.process") }) {
		t.Errorf("the trace of another protocol:\n%s", strings.Join(got, "\n"))
	}
}

// callsTool calls a tool as an agent does, in a trace of its own: the request of
// the call has another span than the one that began the session.
func callsTool(t *testing.T, d *server, hush map[string]string) {
	h := http.Header{"Traceparent": {"00-" + traceOfMCP + "-" + spanOfTest + "-01"}, "Sandbox-Tenant": {"acme"}, "Sandbox-Session": {"agent"}}
	client := &http.Client{Transport: header{d.Transport, h}}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: client}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := &agent{c, t, nil}
	if got := a.call("exec", `{"command":"echo hello `+hush["agent-line"]+`"}`); !strings.HasPrefix(got, "hello") {
		t.Errorf("%q", got)
	}
}

// opensDoor sends a request of another protocol, which the daemon makes into requests
// of its own.
func opensDoor(t *testing.T, s *site, d *server) {
	p := d.guest("")
	p.headers = map[string]string{"X-API-Key": s.token("acme"), "Traceparent": "00-" + traceOfDoor + "-" + spanOfTest + "-01"}
	res, err := p.ask("POST", "/swerex/door/execute", strings.NewReader(`{"command":"echo door","shell":true}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if at := res.Header.Get("Traceparent"); !strings.Contains(at, traceOfDoor) {
		t.Errorf("the answer is of the trace %q", at)
	}
}
