package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy"
)

// sbx is the sandbox of most tests.
const sbx = "sbx-chat-42-0123456789abcdef"

// A rig is a Recorder over real stores.
type recordRig struct {
	*Recorder
	evidence   *evidence.Store
	violations *violation.Store
	dirs       [2]string
	log        *logBook
}

func recordNewRig(t testing.TB, o RecorderOptions, eo evidence.Options) *recordRig {
	t.Helper()
	g := &recordRig{dirs: [2]string{t.TempDir(), t.TempDir()}, log: &logBook{}}
	var err error
	if g.evidence, err = evidence.Open(g.dirs[0], eo); err != nil {
		t.Fatal(err)
	}
	if g.violations, err = violation.Open(g.dirs[1], violation.Options{}); err != nil {
		t.Fatal(err)
	}
	if o.Evidence == nil {
		o.Evidence = g.evidence
	}
	if o.Violations == nil {
		o.Violations = g.violations
	}
	if o.Wait == 0 {
		o.Wait = testenv.Patience // nothing is lost because the machine is busy
	}
	if o.Within == 0 {
		o.Within = testenv.Patience
	}
	if o.Log == nil {
		o.Log = g.log.logger()
	}
	if g.Recorder, err = NewRecorder(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	g.Sandbox(sbx, recordWho{Tenant: "acme", Agent: "main", Session: "chat-42"})
	g.Command(sbx, "run-1", recordWho{Tenant: "acme", Agent: "main", Session: "chat-42", Program: "curl", Line: "curl https://example.com"})
	return g
}

// flush waits until everything is written.
func (g *recordRig) flush(t testing.TB) {
	t.Helper()
	if err := g.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// proven returns the evidence, the newest first.
func (g *recordRig) proven(t testing.TB) []evidence.Record {
	t.Helper()
	return all(t, g.evidence, evidence.Filter{AllTenants: true})
}

func all(t testing.TB, s *evidence.Store, f evidence.Filter) []evidence.Record {
	t.Helper()
	var out []evidence.Record
	for r, err := range s.Query(context.Background(), f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// listed returns the violations, the newest first.
func (g *recordRig) listed(t testing.TB) []violation.Record {
	t.Helper()
	var out []violation.Record
	for r, err := range g.violations.Query(context.Background(), violation.Filter{AllTenants: true}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func eventOf(t testing.TB, r evidence.Record) Event {
	t.Helper()
	var e Event
	if err := json.Unmarshal(r.Data, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// allowed and refused are decisions about example.com and evil.example.
func allowed() Event {
	return Event{
		ID: 7, Phase: PhaseDecision, Time: time.Now(), Sandbox: sbx, Caller: "run-1", Protocol: ProtocolConnect, Method: "CONNECT",
		Host: "example.com", Port: 443, Verdict: policy.Allow, Rule: "network.allowedDomains[0]: example.com", Message: "example.com:443 is allowed",
	}
}

func recordRefused() Event {
	e := allowed()
	e.Host, e.Verdict, e.Rule, e.Message = "evil.example", policy.Deny, "network.allowedDomains", "no rule allows evil.example:443"
	return e
}

// A shaky store fails or blocks on demand.
type shaky struct {
	recordEvidence

	mu   sync.Mutex
	err  error
	gate chan struct{} // not nil: writing waits until it is closed
	in   chan struct{} // receives a value for each write that begins
}

func (s *shaky) Append(ctx context.Context, rs ...evidence.Record) error {
	s.mu.Lock()
	err, gate := s.err, s.gate
	s.mu.Unlock()
	select {
	case s.in <- struct{}{}:
	default:
	}
	if gate != nil {
		<-gate
	}
	if err != nil {
		return err
	}
	return s.recordEvidence.Append(ctx, rs...)
}

func (s *shaky) set(err error, gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.gate = err, gate
}

var errNoDisk = errors.New("no space left")

// newShaky returns a rig over a store that can be made to fail.
func newShaky(t testing.TB, o RecorderOptions) (*recordRig, *shaky) {
	t.Helper()
	e, err := evidence.Open(t.TempDir(), evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &shaky{recordEvidence: e, in: make(chan struct{}, 1)}
	o.Evidence = s
	g := recordNewRig(t, o, evidence.Options{})
	g.evidence = e
	return g, s
}

// A logBook keeps what is logged.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) logger() *logrus.Logger {
	out := logrus.New()
	out.SetOutput(io.Discard)
	out.SetLevel(logrus.DebugLevel)
	out.AddHook(l)
	return out
}

// Levels implements logrus.Hook.
func (l *logBook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (l *logBook) Fire(e *logrus.Entry) error {
	text, err := e.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, text)
	return err
}

func (l *logBook) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
