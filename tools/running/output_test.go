package running_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// TestOutputIsBounded holds that a flood keeps its end, says what is missing,
// and that a tenant's share of memory ends the growth of rings and nothing else.
func TestOutputIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name         string
		keep, memory int64
	}{{"by the ring", 64 << 10, 0}, {"by the share", 1 << 20, 32 << 10}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, plain, func(o *running.Options) { o.Keep, o.MemoryPerTenant = tt.keep, tt.memory })
			s := r.start("s", "sh", "-c", "seq 1 200000; echo end >&2")
			for p := range polls(t, r, s.ID) {
				if p.State != running.StateRunning {
					break
				}
			}
			p, err := r.Poll(deadline(t), someone("s"), s.ID, running.PollOptions{})
			must(t, err)
			out := string(p.Text(running.Stdout))
			if !strings.HasSuffix(out, "199999\n200000\n") || string(p.Text(running.Stderr)) != "end\n" || int64(len(out)) > tt.keep {
				t.Errorf("%d bytes, ending %q", len(out), out[max(0, len(out)-20):])
			}
			if p.Dropped+int64(len(out))+4 != p.Status.Bytes || p.Next != p.Status.Bytes || p.Status.Lines != 200001 {
				t.Errorf("%d dropped, %d returned, %d written, next %d, %d lines", p.Dropped, len(out)+4, p.Status.Bytes, p.Next, p.Status.Lines)
			}
			if held, _, _ := r.Held(); held > max(tt.memory, 2*tt.keep) || held < int64(len(out)) {
				t.Errorf("%d bytes are held for %d", held, len(out))
			}
		})
	}
}

// polls yields the states of a command, each as soon as Poll returns.
func polls(t *testing.T, r *rig, id string) func(func(running.Status) bool) {
	return func(yield func(running.Status) bool) {
		for from := int64(0); ; {
			p, err := r.Poll(deadline(t), someone("s"), id, running.PollOptions{From: from, Wait: 1e10})
			must(t, err)
			if from = p.Next; !yield(p.Status) {
				return
			}
		}
	}
}

// slowly is a reader that takes its time by reading in small pieces, and can
// be held up.
type slowly struct {
	bytes.Buffer
	gate chan struct{}
	came chan struct{} // closed when something has come
	once sync.Once
}

func (s *slowly) Write(p []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	if s.came != nil {
		s.once.Do(func() { close(s.came) })
	}
	return s.Buffer.Write(p)
}

// TestAttachLosesNothing checks that a command waits for an attached client.
func TestAttachLosesNothing(t *testing.T) {
	r := newRig(t, plain, func(o *running.Options) { o.Keep = 8 << 10 })
	s := r.start("s", "sh", "-c", "echo up; read x; seq 1 50000")
	w := &slowly{gate: make(chan struct{}), came: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- r.Attach(deadline(t), someone("s"), s.ID, w) }()
	go func() {
		for range 1 << 20 {
			select {
			case w.gate <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	select { // what was written before anybody was attached may be dropped
	case <-w.came:
	case err := <-done:
		t.Fatal(err)
	}
	must(t, r.Write(deadline(t), someone("s"), s.ID, []byte("\n"), false))
	must(t, <-done)
	var want strings.Builder
	want.WriteString("up\n")
	for i := range 50000 {
		fmt.Fprintln(&want, i+1)
	}
	if got := w.String(); got != want.String() {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
}

func TestAttachEnds(t *testing.T) {
	r := newRig(t, plain)
	s := r.start("s", "sh", "-c", "echo hello; read x")
	broken := errors.New("nobody is there")
	err := r.Attach(deadline(t), someone("s"), s.ID, failing{broken})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, done := context.WithCancelCause(context.Background())
	done(broken)
	if err := r.Attach(ctx, someone("s"), s.ID, new(bytes.Buffer)); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestTerminal(t *testing.T) {
	r := newRig(t, plain)
	req := request("s", "sh", "-c", "echo hi >&2; read x; echo $x")
	req.Command.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	s, err := r.Start(deadline(t), req, running.StartOptions{Stdin: []byte("in\n")})
	must(t, err)
	if !s.TTY {
		t.Error("it is not told that there is a terminal")
	}
	p := r.until("s", s.ID, nil)
	if got := string(p.Text(running.Stdout)); !strings.Contains(got, "hi") || !strings.Contains(got, "in") || len(p.Text(running.Stderr)) != 0 {
		t.Errorf("%q", got)
	}
	codeIs(t, r.Resize(deadline(t), someone("s"), s.ID, sandbox.TTY{Rows: 1, Cols: 1}), sandbox.CodeNotFound)
	s = r.start("s", "cat")
	if err := r.Resize(deadline(t), someone("s"), s.ID, sandbox.TTY{Rows: 1, Cols: 1}); err == nil {
		t.Error("what has no terminal was resized")
	}
}
