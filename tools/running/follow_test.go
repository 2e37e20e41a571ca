package running_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A heard is what one client has received.
type heard struct {
	text    strings.Builder
	next    int64
	dropped int64
}

func (r *rig) follow(ctx context.Context, session, ref string, from int64, until func(*heard) bool) (*heard, running.Status, error) {
	r.t.Helper()
	h := &heard{next: max(from, 0)}
	enough := errors.New("enough")
	s, err := r.Follow(ctx, someone(session), ref, from, func(p running.Piece) error {
		if p.Next != h.next+p.Dropped+int64(len(p.Data)) && from >= 0 {
			r.t.Errorf("a piece at %d of %d bytes after %d dropped follows %d", p.Next, len(p.Data), p.Dropped, h.next)
		}
		h.text.Write(p.Data)
		h.next, h.dropped = p.Next, h.dropped+p.Dropped
		if until != nil && until(h) {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return h, s, err
}

func has(text string) func(*heard) bool {
	return func(h *heard) bool { return strings.Contains(h.text.String(), text) }
}

func TestFollowAfterAGap(t *testing.T) {
	r := newRig(t, plain)
	ctx := deadline(t)
	s, err := r.Start(ctx, request("s", "sh", "-c", "echo one; read x; echo two $x; read x; echo three $x; exit 5"), running.StartOptions{Tag: "build ü"})
	must(t, err)
	if s.PID <= 0 || s.Tag != "build ü" || len(s.Args) != 3 || s.Args[0] != "sh" {
		t.Fatalf("%+v", s)
	}
	first, _, err := r.follow(ctx, "s", s.ID, 0, has("one\n"))
	must(t, err)
	must(t, r.Write(ctx, someone("s"), "build ü", []byte("a\n"), false)) // nothing follows it now
	second, _, err := r.follow(ctx, "s", strconv.Itoa(s.PID), first.next, has("two a\n"))
	must(t, err)
	if got := second.text.String(); got != "two a\n" || second.dropped != 0 {
		t.Errorf("%q, %d dropped", got, second.dropped)
	}
	must(t, r.Write(ctx, someone("s"), s.ID, []byte("b\n"), true))
	third, end, err := r.follow(ctx, "s", "build ü", second.next, nil)
	must(t, err)
	if third.text.String() != "three b\n" || end.Outcome == nil || end.Outcome.Exit.Code != 5 {
		t.Errorf("%q %+v", third.text.String(), end)
	}
	again, end, err := r.follow(ctx, "s", s.ID, 0, nil) // of one that has ended
	must(t, err)
	if again.text.String() != "one\ntwo a\nthree b\n" || end.Outcome == nil || end.Outcome.Exit.Code != 5 || end.Ended.IsZero() {
		t.Errorf("%q %+v", again.text.String(), end)
	}
	for _, from := range []int64{-2, end.Bytes + 1, 1 << 62, -1 << 63} {
		_, _, err := r.follow(ctx, "s", s.ID, from, nil)
		codeIs(t, err, sandbox.CodeValidation)
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Field != "from" {
			t.Errorf("%d: %v", from, err)
		}
	}
	_, _, err = r.follow(ctx, "another", s.ID, 0, nil)
	codeIs(t, err, sandbox.CodeNotFound)
	_, _, err = r.follow(ctx, "s", "0", 0, nil)
	codeIs(t, err, sandbox.CodeNotFound)
	_, _, err = r.follow(ctx, "s", "", 0, nil)
	codeIs(t, err, sandbox.CodeNotFound)
}

func TestFollowSaysWhatWasDropped(t *testing.T) {
	r := newRig(t, plain, func(o *running.Options) { o.Keep = 8 << 10 })
	ctx := deadline(t)
	s := r.start("s", "sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; echo end; read x")
	r.until("s", s.ID, func(p running.Poll) bool { return strings.HasSuffix(string(p.Text(0)), "end\n") })
	h, _, err := r.follow(ctx, "s", s.ID, 0, has("end\n"))
	must(t, err)
	if h.dropped == 0 || h.text.Len() > 8<<10 || h.dropped+int64(h.text.Len()) != h.next {
		t.Errorf("%d bytes, %d dropped, the end is %d", h.text.Len(), h.dropped, h.next)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	more, _, err := r.follow(short, "s", s.ID, h.next, nil)
	if !errors.Is(err, context.DeadlineExceeded) || more.text.Len() > 0 {
		t.Errorf("%q: %v", more.text.String(), err)
	}
}

func TestFollowersAtOnce(t *testing.T) {
	r := newRig(t, plain)
	ctx := deadline(t)
	s := r.start("s", "cat")
	type result struct {
		h   *heard
		end running.Status
		err error
	}
	results := make(chan result, 2)
	for _, from := range []int64{0, running.FromNow} {
		go func() {
			h, end, err := r.follow(ctx, "s", s.ID, from, nil)
			results <- result{h, end, err}
		}()
	}
	testenv.Until(t, "two clients follow", func() bool { return r.Following(someone("s"), s.ID) == 2 })
	must(t, r.Write(ctx, someone("s"), s.ID, []byte("both\n"), false))
	_, err := r.Poll(ctx, someone("s"), s.ID, running.PollOptions{From: 0, Wait: 10 * time.Second})
	must(t, err)
	must(t, r.Write(ctx, someone("s"), s.ID, nil, true))
	for range 2 {
		g := <-results
		must(t, g.err)
		if g.h.text.String() != "both\n" || g.end.Outcome == nil {
			t.Errorf("%q %+v", g.h.text.String(), g.end)
		}
	}
}

func TestTags(t *testing.T) {
	r := newRig(t, plain)
	ctx := deadline(t)
	for _, tag := range []string{"123", "a\nb", "\xff", strings.Repeat("x", 129), "\x1b[2J"} {
		_, err := r.Start(ctx, request("s", "cat"), running.StartOptions{Tag: tag})
		codeIs(t, err, sandbox.CodeValidation)
	}
	first, err := r.Start(ctx, request("s", "cat"), running.StartOptions{Tag: "a"})
	must(t, err)
	_, err = r.Start(ctx, request("s", "cat"), running.StartOptions{Tag: "a"})
	codeIs(t, err, sandbox.CodeBusy)
	_, err = r.Start(ctx, request("other", "cat"), running.StartOptions{Tag: "a"})
	must(t, err)
	_, err = r.Kill(ctx, someone("s"), "a")
	must(t, err)
	second, err := r.Start(ctx, request("s", "cat"), running.StartOptions{Tag: "a"})
	must(t, err)
	found, err := r.Find(someone("s"), "a")
	must(t, err)
	if found.ID != second.ID || first.ID == second.ID {
		t.Errorf("%+v", found)
	}
}

// A command that was not meant to stay ends when no client has followed it for a
// while, and not before.
func TestUnattended(t *testing.T) {
	r := newRig(t, plain)
	ctx := deadline(t)
	var ended atomic.Int32
	o := running.StartOptions{Unattended: 300 * time.Millisecond, Ended: func() { ended.Add(1) }}
	s, err := r.Start(ctx, request("s", "cat"), o)
	must(t, err)
	short, cancel := context.WithTimeout(ctx, 900*time.Millisecond)
	defer cancel()
	_, _, err = r.follow(short, "s", s.ID, 0, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it has ended while it was followed: %v", err)
	}
	p := r.until("s", s.ID, nil) // a poll is no client that stays
	if p.Status.State != running.StateFailed || p.Status.Err == nil || !strings.Contains(p.Status.Err.Message, "client") {
		t.Errorf("%+v", p.Status)
	}
	if ended.Load() != 1 {
		t.Errorf("its end was reported %d times", ended.Load())
	}
	s, err = r.Start(ctx, request("s", "no-such-program"), o)
	if err != nil || s.Outcome == nil || s.Outcome.Exit.Code != 127 || ended.Load() != 2 {
		t.Errorf("%+v, %v, %d", s, err, ended.Load())
	}
	o.Tag = "1"
	_, err = r.Start(ctx, request("s", "cat"), o)
	if err == nil || ended.Load() != 3 {
		t.Errorf("%v, %d", err, ended.Load())
	}
}

func TestUserOfACommand(t *testing.T) {
	r := newRig(t, plain)
	for user, want := range map[string]sandbox.Code{
		"": "", "user": "", "sandbox": "", "root": sandbox.CodeCapabilityBlocked, "0": sandbox.CodeCapabilityBlocked, "000": sandbox.CodeCapabilityBlocked, "0:1000": sandbox.CodeCapabilityBlocked,
		"1000:0": sandbox.CodeCapabilityBlocked, "root:root": sandbox.CodeCapabilityBlocked, "nobody": sandbox.CodeValidation, "-1": sandbox.CodeValidation, "+1": sandbox.CodeValidation, "64999": sandbox.CodeValidation,
		"usér": sandbox.CodeValidation, "user\n": sandbox.CodeValidation, " user": sandbox.CodeValidation, "1000:": sandbox.CodeValidation, "99999999999999999999": sandbox.CodeValidation,
	} {
		req := request("s", "true")
		req.User = user
		_, err := r.Start(deadline(t), req, running.StartOptions{})
		codeIs(t, err, want)
		if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Field != "user" {
			t.Errorf("%q: %+v", user, e)
		}
	}
}

// A twice is a manager that runs each command again, with a permission.
type twice struct{ running.Manager }

// Run implements [running.Manager].
func (twice) Run(_ context.Context, req manager.Request) (manager.Outcome, error) {
	req.Started(number(7))
	io.WriteString(req.Command.Stdout, "refused\n")
	io.ReadFull(req.Command.Stdin, make([]byte, 1))
	req.Again()
	req.Started(number(8))
	io.WriteString(req.Command.Stdout, "allowed\n")
	io.ReadAll(req.Command.Stdin)
	return manager.Outcome{}, nil
}

// A number is a process of that number.
type number int

func (n number) PID() int                                { return int(n) }
func (number) Wait() (sandbox.Exit, error)               { return sandbox.Exit{}, nil }
func (number) Signal(context.Context, string) error      { return nil }
func (number) Resize(context.Context, sandbox.TTY) error { return nil }
func (number) Kill(context.Context) error                { return nil }

// What a command has written before it began anew is void, for who followed it
// then and for who follows it later.
func TestFollowOfACommandThatBeginsAnew(t *testing.T) {
	h := running.New(running.Options{Manager: twice{}})
	defer h.Close(deadline(t))
	ctx, who := deadline(t), someone("s")
	s, err := h.Start(ctx, request("s", "x"), running.StartOptions{})
	must(t, err)
	var log strings.Builder
	wrote := false
	note := func(p running.Piece) error {
		if p.Again {
			log.WriteString("again;")
		}
		log.Write(p.Data)
		if string(p.Data) == "refused\n" && !wrote {
			wrote = true
			return h.Write(ctx, who, "7", []byte("y"), true)
		}
		return nil
	}
	end, err := h.Follow(ctx, who, s.ID, 0, note)
	must(t, err)
	if log.String() != "refused\nagain;allowed\n" || end.PID != 8 || end.StdoutBytes != int64(len("allowed\n")) || end.Bytes != 16 {
		t.Errorf("%q %+v", log.String(), end)
	}
	log.Reset()
	_, err = h.Follow(ctx, who, "8", 0, note)
	must(t, err)
	if log.String() != "again;allowed\n" {
		t.Errorf("later: %q", log.String())
	}
	log.Reset()
	_, err = h.Follow(ctx, who, "8", 12, note)
	must(t, err)
	if log.String() != "wed\n" {
		t.Errorf("behind it: %q", log.String())
	}
}

// A lateHost is a manager whose kernel host never ends code.
type lateHost struct {
	running.Manager
	killed chan struct{}
}

// Run implements [running.Manager].
func (l lateHost) Run(_ context.Context, req manager.Request) (manager.Outcome, error) {
	if req.Command.Args[1] == "serve" {
		req.Started(host{killed: l.killed})
		<-l.killed
		return manager.Outcome{Exit: sandbox.Exit{Code: 137}}, nil
	}
	io.WriteString(req.Command.Stdout, `{"type":"count","executionCount":1}`+"\n")
	if req.Timeout < time.Hour {
		return manager.Outcome{TimedOut: true, Duration: req.Timeout}, nil
	}
	return manager.Outcome{TimedOut: true, Duration: time.Minute}, nil
}

// A host is a process that a channel ends.
type host struct {
	number
	killed chan struct{}
}

func (h host) Kill(context.Context) error { close(h.killed); return nil }

// TestLateKernelHost holds that a kernel host that does not end code at its time limit
// is ended, and that this is reported; one whose command another limit has ended stays.
func TestLateKernelHost(t *testing.T) {
	m := lateHost{killed: make(chan struct{})}
	h := running.New(running.Options{Manager: m})
	ctx := deadline(t)
	for _, tt := range []struct {
		limit time.Duration
		want  string
	}{{time.Hour, "count"}, {time.Second, "count error KernelDied"}} {
		var got []string
		out, err := h.RunCode(ctx, request("s"), running.Code{Text: "x", Timeout: tt.limit}, func(e sandbox.CodeEvent) error {
			got = append(got, e.Type)
			if e.Error != nil {
				got = append(got, e.Error.Name)
			}
			return nil
		})
		if err != nil || !out.TimedOut || strings.Join(got, " ") != tt.want {
			t.Errorf("with a limit of %v: %q, %+v, %v", tt.limit, got, out, err)
		}
		select {
		case <-m.killed:
			if tt.limit == time.Hour {
				t.Error("the host was ended by a limit that is not its own")
			}
		default:
			if tt.limit == time.Second {
				t.Error("the host runs on")
			}
		}
	}
	must(t, h.Close(ctx))
}
