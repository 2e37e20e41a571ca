//go:build linux

package manager_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// An outward rig is a manager whose sandboxes may reach the hosts of the
// test, with everything that is recorded of that.
type outward struct {
	burst int // of the evidence; 0 is the usual
	*manager.Manager
	t          *testing.T
	net        *testenv.Internet
	state      *statedir.Dir
	evidence   *evidence.Store
	violations *violation.Store
	recorder   *egress.Recorder
	plane      *egress.Plane
	who        config.Who
	upstream   *egress.Upstream // the proxy behind ours, or nil
	dial       func(context.Context, netip.AddrPort) (net.Conn, error)
	log        logBuffer // of the recorder

	mu     sync.Mutex
	answer sandbox.Permission
	asked  []sandbox.PermissionRequest
}

// onProviders runs a test on both kinds of sandboxes.
func onProviders(t *testing.T, test func(*outward)) {
	t.Run("docker", func(t *testing.T) {
		o := &outward{t: t, net: testenv.NewInternet(t), who: who("s")}
		r := newRig(t)
		r.change = func(opts *manager.Options) { o.open(opts, r.state) }
		o.Manager = r.manager("")
		test(o)
	})
	t.Run("local", func(t *testing.T) {
		o := &outward{t: t, net: testenv.NewInternet(t), who: config.Who{Agent: "main", Session: "s"}}
		o.Manager = newSandboxed(t, o.open).Manager
		test(o)
	})
}

// open makes what the sandboxes of the rig reach hosts through.
func (o *outward) open(opts *manager.Options, state *statedir.Dir) {
	t := o.t // of the whole rig: o.t may be a part of the test when something is made
	var err error
	o.state = state
	o.evidence, err = evidence.Open(state.Evidence(), evidence.Options{Burst: o.burst})
	must(o.t, err)
	o.violations, err = violation.Open(state.Violations(), violation.Options{})
	must(o.t, err)
	log := logrus.New()
	log.SetOutput(&o.log)
	o.recorder, err = egress.NewRecorder(egress.RecorderOptions{Evidence: o.evidence, Violations: o.violations, Log: log})
	must(o.t, err)
	o.plane = egress.New(egress.Options{
		Dialer: egress.NewDialer(egress.DialerOptions{Resolver: o.net.Names, Upstream: o.upstream, Dial: o.dial}),
		Record: o.recorder.Record, Decide: o.recorder.Decide, Roots: o.net.Authority.Pool,
	})
	o.t.Cleanup(func() {
		o.plane.Close()
		o.recorder.Close()
		o.evidence.Close()
		o.violations.Close()
	})
	opts.Control = sync.OnceValues(func() (*manager.Control, error) {
		c, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{State: state, Log: log, Sinks: []recorder.Sink{recorder.NewFile("evidence", o.evidence)}})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		return &c.Control, nil
	})
	issuer := sync.OnceValues(func() (*egress.Authority, error) { return egress.Open(state.Egress()) })
	opts.Violations, opts.Approver = o.violations, o
	opts.Out = func() (proxy.Server, error) {
		return &egress.Server{
			Plane: o.plane, Recorder: o.recorder, Authority: issuer,
			LookupEnv: func(name string) (string, bool) { return secretValue, name == "OUTER_TOKEN" },
		}, nil
	}
	opts.Host.Trust = state.Trust
}

// Approve implements sandbox.Approver.
func (o *outward) Approve(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, r)
	return o.answer, nil
}

// questions returns how many were asked so far.
func (o *outward) questions() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

// allowing are settings of a call that let the names be reached.
func (o *outward) allowing(names ...string) *config.SandboxSettings {
	return &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: o.net.Allowed(names...)}}
}

// try runs a shell line.
func (o *outward) try(flags *config.SandboxSettings, line string, change ...func(*manager.Request)) (sandbox.Result, error) {
	o.t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	req := manager.Request{Who: o.who, Flags: flags, Command: sandbox.Command{Args: []string{"sh", "-c", line}}}
	for _, c := range change {
		c(&req)
	}
	return o.Capture(ctx, req)
}

// get is a shell line that fetches a URL and prints the whole answer.
func (o *outward) get(name, path string) string {
	return "curl -sS -i --max-time 60 '" + o.net.URL("http", name, path) + "'"
}

// fetch runs get, and returns the answer.
func (o *outward) fetch(flags *config.SandboxSettings, name, path string, change ...func(*manager.Request)) string {
	o.t.Helper()
	r, err := o.try(flags, o.get(name, path), change...)
	must(o.t, err)
	if r.ExitCode != 0 {
		o.t.Fatalf("status %d: %s", r.ExitCode, r.Stderr)
	}
	return string(r.Stdout)
}

// decisions returns what is on record, as "verdict host rule", in the order
// of time.
func (o *outward) decisions() []string {
	o.t.Helper()
	must(o.t, o.recorder.Flush(context.Background()))
	var out []string
	for r, err := range o.evidence.Query(context.Background(), evidence.Filter{}) {
		must(o.t, err)
		e := decoded(o.t, r.Data)
		if e.Phase == egress.PhaseDecision {
			out = append(out, string(e.Verdict)+" "+e.Host+":"+strconv.Itoa(int(e.Port))+" "+e.Rule)
		}
	}
	return out
}

// grep returns the files of the state folder that hold the text.
func (o *outward) grep(text string) (found []string) {
	must(o.t, filepath.Walk(o.state.Path(), func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), text) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}

// secretsPutIn names the secrets of all that was recorded.
func (o *outward) secretsPutIn() (names []string) {
	for r, err := range o.evidence.Query(context.Background(), evidence.Filter{}) {
		must(o.t, err)
		names = append(names, decoded(o.t, r.Data).Secrets...)
	}
	return names
}
