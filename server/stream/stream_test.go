package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

func TestStreamsAndExit(t *testing.T) {
	r := newRig(t)
	var out, errOut bytes.Buffer
	in := bytes.Repeat([]byte("every byte \x00\xff\n"), 200_000) // many windows
	c := sh("cat; echo oops >&2; exit 3")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), &out, &errOut
	exit, err := r.wait(r.open(r.ctx, c))
	if err != nil || exit.Code != 3 {
		t.Fatalf("%+v, %v; want status 3", exit, err)
	}
	if !bytes.Equal(out.Bytes(), in) || errOut.String() != "oops\n" {
		t.Errorf("%d of %d bytes came back, stderr %q", out.Len(), len(in), errOut.String())
	}
	if err := r.awaitServed(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestRequestArrives(t *testing.T) {
	r := newRig(t)
	var out bytes.Buffer
	c := sandbox.Command{
		Args: []string{"echo", "\xff\xfe", "日本", ""}, Env: map[string]string{"A": "b\xff"}, Dir: "/tmp", Grace: 1500 * time.Millisecond,
		Limits: sandbox.Limits{OpenFiles: 77}, Stdout: &out,
	}
	var got sandbox.Command
	r.start = func(ctx context.Context, _ stream.Request, c sandbox.Command) (sandbox.Process, error) {
		got = c
		c.Dir = ""
		return r.sb.Start(ctx, c)
	}
	if exit, err := r.wait(r.open(r.ctx, c)); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	if out.String() != "\xff\xfe 日本 \n" {
		t.Errorf("out %q", out.String())
	}
	if got.Env["A"] != "b\xff" || got.Dir != "/tmp" || got.Grace != c.Grace || got.Limits != c.Limits || got.Stdin != nil || got.Stderr != nil {
		t.Errorf("the server was asked for %+v", got)
	}
}

func TestStartRefused(t *testing.T) {
	r := newRig(t)
	refusal := &sandbox.Error{
		Code: sandbox.CodeDenyTool, Op: "run", Field: "args", Resource: "rm", Message: "not that", Hint: "ask", Retryable: true,
	}
	r.start = func(context.Context, stream.Request, sandbox.Command) (sandbox.Process, error) { return nil, refusal }
	_, err := stream.Open(r.ctx, r.dial(), r.o, stream.Request{Args: stream.Texts([]string{"rm"})}, sandbox.Command{})
	got, ok := errors.AsType[*sandbox.Error](err)
	if !ok || *got != *refusal {
		t.Errorf("got %#v, want %#v", err, refusal)
	}
	if err := r.awaitServed(); err != error(refusal) {
		t.Errorf("Serve: %v", err)
	}
}

func TestControls(t *testing.T) {
	r := newRig(t)
	p := r.open(r.ctx, sh("sleep 1000"))
	if err := p.Signal(r.ctx, "NOSUCH"); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("an unknown signal: %v", err)
	}
	if err := p.Resize(r.ctx, sandbox.TTY{Rows: 1, Cols: 1}); sandbox.CodeOf(err) != sandbox.CodeUnsupported && sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a size without a terminal: %v", err)
	}
	if _, err := p.Used(r.ctx); err != nil {
		t.Errorf("Used: %v", err)
	}
	if err := p.Kill(r.ctx); err != nil {
		t.Errorf("Kill: %v", err)
	}
	exit, err := r.wait(p)
	if err != nil || exit.Signal != "KILL" || exit.Code != 137 {
		t.Errorf("%+v, %v; want it killed", exit, err)
	}
	if err := p.Kill(r.ctx); err != nil {
		t.Errorf("Kill after the end: %v", err)
	}
	if err := p.Signal(r.ctx, "TERM"); err != nil {
		t.Errorf("Signal after the end: %v", err)
	}
	if _, err := p.Used(r.ctx); err != nil {
		t.Errorf("Used after the end: %v", err)
	}
}

func TestCancelEndsCommand(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx)
	p := r.open(ctx, sh("sleep 1000"))
	r.awaitRunning(2)
	cancel()
	exit, err := r.wait(p)
	if err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v; want it killed", exit, err)
	}
	r.awaitRunning(0)
}

func TestLostClientEndsCommand(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	q := stream.Request{Args: stream.Texts([]string{"sleep", "1000"})}
	p, err := stream.Open(r.ctx, conn, r.o, q, sandbox.Command{})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitRunning(1)
	conn.CloseNow()
	r.awaitRunning(0)
	if exit, err := r.wait(p); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("%+v, %v; an end that nobody told must be %s", exit, err, sandbox.CodeUnavailable)
	}
	_ = r.awaitServed()
}

func TestDetachedOutlivesClient(t *testing.T) {
	r := newRig(t)
	conn := r.dial()
	q := stream.Request{Args: stream.Texts([]string{"sleep", "1000"}), Detach: true}
	if _, err := stream.Open(r.ctx, conn, r.o, q, sandbox.Command{}); err != nil {
		t.Fatal(err)
	}
	r.awaitRunning(1)
	conn.CloseNow()
	if err := r.awaitServed(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if n := len(r.engine.Processes(r.name)); n != 1 {
		t.Errorf("%d processes run, want the detached one", n)
	}
}

// A counter counts the bytes written to it, and blocks while it is shut.
type counter struct {
	n    atomic.Int64
	open chan struct{}
}

func (c *counter) Write(p []byte) (int, error) {
	if c.open != nil {
		<-c.open
	}
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// TestReaderThatWaits holds that a reader that does not read makes the program
// wait, and only on that channel: the program cannot have written more than the
// windows hold.
func TestReaderThatWaits(t *testing.T) {
	r := newRig(t)
	var written atomic.Int64
	start := r.start
	r.start = func(ctx context.Context, q stream.Request, c sandbox.Command) (sandbox.Process, error) {
		c.Stdout = &tap{c.Stdout, &written}
		return start(ctx, q, c)
	}
	shut := &counter{open: make(chan struct{})}
	const total = 8 << 20
	c := sh("echo first >&2; head -c 8388608 /dev/zero; echo last >&2")
	var errOut lines
	c.Stdout, c.Stderr = shut, &errOut
	p := r.open(r.ctx, c)
	errOut.await(t, "first")
	still(t, &written)
	if n := written.Load(); n > 1<<20 {
		t.Errorf("%d bytes were written although nobody reads", n)
	}
	if err := p.Signal(r.ctx, "WINCH"); err != nil {
		t.Errorf("while the output waits a signal does not come through: %v", err)
	}
	close(shut.open)
	exit, err := r.wait(p)
	if err != nil || exit.Code != 0 || shut.n.Load() != total {
		t.Errorf("%+v, %v, %d of %d bytes", exit, err, shut.n.Load(), total)
	}
	errOut.await(t, "last")
}

// still waits until n no longer changes.
func still(t *testing.T, n *atomic.Int64) {
	t.Helper()
	last, same := n.Load(), 0
	testenv.Until(t, "it comes to rest", func() bool {
		if now := n.Load(); now != last || now == 0 {
			last, same = now, 0
		} else {
			same++
		}
		return same == 10
	})
}

type tap struct {
	io.Writer
	n *atomic.Int64
}

func (w *tap) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n.Add(int64(n))
	return n, err
}

// TestInputNobodyReads holds that endless input is not buffered anywhere.
func TestInputNobodyReads(t *testing.T) {
	r := newRig(t)
	var read atomic.Int64
	c := sh("sleep 1000")
	c.Stdin = readerFunc(func(p []byte) (int, error) { read.Add(int64(len(p))); return len(p), nil })
	p := r.open(r.ctx, c)
	still(t, &read)
	if n := read.Load(); n > 1<<20 {
		t.Errorf("%d bytes of input were taken for a program that reads none", n)
	}
	if err := p.Kill(r.ctx); err != nil {
		t.Fatal(err)
	}
	if exit, err := r.wait(p); err != nil || exit.Signal != "KILL" {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestInputCrossesTheEnd holds that input which is under way when a command ends
// is no error: the client still receives the exit.
func TestInputCrossesTheEnd(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		c := sh("exit 3")
		c.Stdin = readerFunc(func(p []byte) (int, error) { return min(len(p), 100), nil })
		p := r.open(r.ctx, c)
		if exit, err := r.wait(p); err != nil || exit.Code != 3 {
			t.Fatalf("round %d: %+v, %v", i, exit, err)
		}
		if err := r.awaitServed(); err != nil {
			t.Fatalf("round %d: served: %v", i, err)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestOutcomeTravels(t *testing.T) {
	r := newRig(t)
	start := r.start
	r.start = func(ctx context.Context, q stream.Request, c sandbox.Command) (sandbox.Process, error) {
		p, err := start(ctx, q, c)
		return withOutcome{p}, err
	}
	p := r.open(r.ctx, sandbox.Command{Args: []string{"true"}})
	if _, err := r.wait(p); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(p.Outcome())); got != `{"timedOut":true}` {
		t.Errorf("the outcome is %s", got)
	}
}

type withOutcome struct{ sandbox.Process }

func (withOutcome) Outcome() any { return map[string]bool{"timedOut": true} }
