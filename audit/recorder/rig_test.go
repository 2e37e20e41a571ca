package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		fmt.Fprintln(os.Stderr, helper(what))
		os.Exit(1)
	}
	testenv.Main(m)
}

// A rig is a Recorder over a folder of records, beside a memory.
type rig struct {
	*Recorder
	dir    string
	store  *evidence.Store
	file   *shaky
	memory *Memory
	log    *logBook
}

// newRig opens a Recorder over the folder dir, which may hold what others left.
func newRig(t testing.TB, dir string, o Options, more ...Sink) *rig {
	t.Helper()
	g := &rig{dir: dir, log: &logBook{}, store: openStore(t, dir)}
	g.file = &shaky{Keeper: NewFile("file", g.store), in: make(chan int, 1<<16)}
	var err error
	if g.memory, err = NewMemory("memory", 0); err != nil {
		t.Fatal(err)
	}
	if o.Wait == 0 {
		o.Wait = testenv.Patience // what is written is there when the call returns, however busy the machine
	}
	o.Sinks = append([]Sink{g.file, g.memory}, more...)
	o.Writers, o.Log = filepath.Join(dir, "writers"), g.log.logger()
	if g.Recorder, err = Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.file.set(nil, nil)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// nextRig opens the next Recorder over the folder dir and recovers all that others
// left, however busy the machine: [Open] leaves what takes long to the next one.
func nextRig(t testing.TB, dir string) *rig {
	t.Helper()
	g := newRig(t, dir, Options{})
	if _, err := g.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func openStore(t testing.TB, dir string) *evidence.Store {
	t.Helper()
	s, err := evidence.Open(filepath.Join(dir, "evidence"), evidence.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin begins an operation of the tenant acme.
func (g *rig) begin(t testing.TB, require bool) *Entry {
	t.Helper()
	e, err := g.Begin(t.Context(), write("acme"), require)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func end(t testing.TB, e *Entry, how evidence.End) {
	t.Helper()
	if err := e.End(t.Context(), how); err != nil {
		t.Fatal(err)
	}
}

// write is an operation.
func write(tenant string) evidence.Begin {
	return evidence.Begin{
		Tenant: tenant, Subject: "user:1", Agent: "main", Session: "chat-42", Tool: "write", Call: "call-1", Grant: "g1", Sandbox: "sbx-1",
		Kind: "fs.write", Capability: "fs.write:/workspace/a", Request: evidence.Request{Path: "/workspace/a", Bytes: 2}, Inputs: evidence.DigestOf([]byte("hi")),
		ProfileHash: "p1", PolicyVersion: "v1", ManifestVersion: "1.0.0",
	}
}

// wrote is how it ends well.
func wrote() evidence.End {
	return evidence.End{
		Status: evidence.OK, Outputs: evidence.DigestOf(nil), Used: grant.Budget{Calls: 1, BytesOut: 2},
		Effects: []evidence.Effect{{Kind: "filesystem", Path: "/workspace/a", BytesOut: 2}},
	}
}

// records returns what is kept of the tenant, the oldest first.
func records(t testing.TB, s *evidence.Store, tenant string) []evidence.Record {
	t.Helper()
	var out []evidence.Record
	for r, err := range s.Query(context.Background(), evidence.Filter{Tenant: tenant}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == evidence.TypeBegin || r.Type == evidence.TypeEnd {
			out = append([]evidence.Record{r}, out...)
		}
	}
	return out
}

// operations returns what is kept of the tenant, by id, and fails when one
// record is kept twice.
func operations(t testing.TB, s *evidence.Store, tenant string) map[string]evidence.Item {
	t.Helper()
	out := map[string]evidence.Item{}
	for o, err := range evidence.Newest(s.Query(context.Background(), evidence.Filter{Tenant: tenant})) {
		if err != nil {
			t.Fatal(err)
		}
		if !o.Operation() {
			continue
		}
		id := o.First().Command
		if _, twice := out[id]; twice {
			t.Errorf("%s is on record twice", id)
		}
		out[id] = o
	}
	return out
}

// wantStatus holds that the operation is on record, whole, and how it ended.
func wantStatus(t testing.TB, all map[string]evidence.Item, id string, want evidence.Status) {
	t.Helper()
	switch o, ok := all[id]; {
	case !ok || o.Begin == nil:
		t.Errorf("the begin of %s is not on record", id)
	case o.End == nil && want != "", o.End != nil && o.End.Status != want:
		t.Errorf("%s ended %+v, want %q", id, o.End, want)
	}
}

func wantRefused(t testing.TB, err error, message string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Field != "requireEvidence" || e.Hint == "" || !strings.Contains(e.Error(), message) {
		t.Fatalf("error %v, want one of requireEvidence with %q", err, message)
	}
}

// sinkCount returns the counters of one sink.
func (g *rig) sinkCount(t testing.TB, name string) SinkCounters {
	t.Helper()
	for _, c := range g.Counters().Sinks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no sink %s", name)
	return SinkCounters{}
}

// A shaky Keeper fails or waits when the test says so.
type shaky struct {
	Keeper

	mu   sync.Mutex
	err  error
	gate chan struct{} // not nil: writing waits until it is closed
	in   chan int      // receives the number of records of each write that begins
}

func (s *shaky) Write(ctx context.Context, rs ...evidence.Record) error {
	s.mu.Lock()
	err, gate := s.err, s.gate
	s.mu.Unlock()
	select {
	case s.in <- len(rs):
	default:
	}
	if gate != nil {
		<-gate
	}
	if err != nil {
		return err
	}
	return s.Keeper.Write(ctx, rs...)
}

func (s *shaky) set(err error, gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.gate = err, gate
}

var errNoDisk = errors.New("no space left")

// A logBook keeps what is logged.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) logger() *logrus.Logger {
	out := logrus.New()
	out.SetOutput(io.Discard)
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

func (l *logBook) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		n += strings.Count(line, part)
	}
	return n
}
