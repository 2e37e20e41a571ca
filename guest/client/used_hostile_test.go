package client_test

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A teller is a guest whose answers about use are tell's: what is to be sent
// for the question of that number.
type teller struct {
	features []string
	tell     func(number uint32) []wire.Frame
}

func (g teller) connect(t *testing.T) *client.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	go func() {
		w, r := wire.NewWriter(theirs), wire.NewReader(theirs, wire.MaxRequest)
		for {
			f, err := r.Next()
			if err != nil {
				return
			}
			switch f.Type {
			case wire.TypeHello:
				_ = w.Write(wire.Frame{Type: wire.TypeHello, Payload: wire.Hello{Version: wire.Version, Features: g.features}.Encode()})
			case wire.TypeStart:
				_ = w.Write(wire.Frame{Type: wire.TypeStarted, Stream: f.Stream, Payload: wire.Started{PID: 7}.Encode()})
			case wire.TypeUse:
				q, err := wire.DecodeUse(f.Payload)
				if err != nil {
					t.Error(err)
				}
				for _, a := range g.tell(q.Number) {
					a.Stream = f.Stream
					_ = w.Write(a)
				}
			}
		}
	}()
	c, err := client.New(t.Context(), ours, client.Options{Name: "box"})
	must(t, err)
	t.Cleanup(func() {
		theirs.Close()
		c.Close()
	})
	return c
}

func (g teller) start(t *testing.T) sandbox.Process {
	t.Helper()
	p, err := g.connect(t).Start(context.Background(), sandbox.Command{Args: []string{"x"}})
	must(t, err)
	return p
}

func usedFrame(number uint32, user, system, rss uint64) wire.Frame {
	return wire.Frame{Type: wire.TypeUsed, Payload: wire.Used{Number: number, User: user, System: system, MaxRSS: rss}.Encode()}
}

// TestUsedOfLiars holds that figures do not go back whatever a guest says, and
// that one which breaks the rules loses its connection.
func TestUsedOfLiars(t *testing.T) {
	features := []string{wire.FeatureUse}
	t.Run("going back", func(t *testing.T) {
		p := teller{features, func(n uint32) []wire.Frame {
			return []wire.Frame{usedFrame(n, uint64(100-n), 5, uint64(50-n))}
		}}.start(t)
		for range 10 {
			if u := used(t, p); cpuOf(u) != 104 || u.MaxRSS != 49 {
				t.Fatalf("%+v", u)
			}
		}
	})
	t.Run("the exit is less", func(t *testing.T) {
		p := teller{features, func(n uint32) []wire.Frame {
			exit := wire.Frame{Type: wire.TypeExit, Payload: wire.Exit{User: 7}.Encode()}
			return []wire.Frame{usedFrame(n, 100, 0, 0), exit}
		}}.start(t)
		used(t, p)
		_, err := p.Wait()
		must(t, err)
		if u := used(t, p); cpuOf(u) != 100 {
			t.Errorf("%+v", u)
		}
	})
	for name, say := range map[string]func(n uint32) []wire.Frame{
		"a number without a question": func(n uint32) []wire.Frame { return []wire.Frame{usedFrame(n+1, 1, 1, 1)} },
		"an answer twice":             func(n uint32) []wire.Frame { return []wire.Frame{usedFrame(n, 1, 1, 1), usedFrame(n, 2, 2, 2)} },
		"no number":                   func(n uint32) []wire.Frame { return []wire.Frame{usedFrame(0, 1, 1, 1)} },
		"a negative time":             func(n uint32) []wire.Frame { return []wire.Frame{usedFrame(n, math.MaxUint64, 1, 1)} },
		"times too large to add":      func(n uint32) []wire.Frame { return []wire.Frame{usedFrame(n, math.MaxInt64, math.MaxInt64, 1)} },
		"cut":                         func(n uint32) []wire.Frame { return []wire.Frame{{Type: wire.TypeUsed, Payload: []byte{1, 0}}} },
	} {
		t.Run(name, func(t *testing.T) {
			p := teller{features, say}.start(t)
			_, _ = p.(sandbox.Metered).Used(context.Background()) // may come before the violation
			_, err := p.Wait()
			codeIs(t, err, sandbox.CodeUnavailable)
			_, err = p.(sandbox.Metered).Used(context.Background())
			codeIs(t, err, sandbox.CodeUnavailable)
		})
	}
}

// TestUsedOfTheSilent checks that no caller waits longer than 15 seconds, that
// the next question is a new one, and that a late answer harms nothing.
func TestUsedOfTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := teller{[]string{wire.FeatureUse}, func(n uint32) []wire.Frame {
			switch n {
			case 1:
				return nil
			case 2:
				return []wire.Frame{usedFrame(1, 10, 0, 0), usedFrame(2, 20, 0, 0)}
			}
			return []wire.Frame{usedFrame(n, 5, 0, 0)}
		}}.start(t)
		begin := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := p.(sandbox.Metered).Used(t.Context())
				codeIs(t, err, sandbox.CodeUnavailable)
			})
		}
		wg.Wait()
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("waited %v", took)
		}
		for range 3 {
			if u := used(t, p); cpuOf(u) != 20 {
				t.Errorf("%+v", u)
			}
		}
	})
}

// TestUsedUntilContextEnds holds that a caller may give up, alone.
func TestUsedUntilContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := teller{[]string{wire.FeatureUse}, func(uint32) []wire.Frame { return nil }}.start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := p.(sandbox.Metered).Used(ctx)
		codeIs(t, err, sandbox.CodeTimeout)
		if took := time.Since(begin); took != 100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestOlderGuests holds that a guest which does not know what is wanted is not
// asked for it.
func TestOlderGuests(t *testing.T) {
	g := teller{nil, func(uint32) []wire.Frame { t.Error("it was asked"); return nil }}
	_, err := g.start(t).(sandbox.Metered).Used(context.Background())
	codeIs(t, err, sandbox.CodeUnsupported)
	_, err = g.connect(t).Start(context.Background(), sandbox.Command{Args: []string{"x"}, Bare: true})
	codeIs(t, err, sandbox.CodeUnsupported)
}

// TestBare holds that a bare command has its own environment and no other, not
// even where the client and the guest have one, and is found all the same.
func TestBare(t *testing.T) {
	c := startGuest(t).client(client.Options{Env: map[string]string{"OF_CLIENT": "x"}})
	got := run(t, c, sandbox.Command{Args: []string{"env"}, Bare: true, Env: map[string]string{"A": "1", "B": ""}})
	if got.stdout != "A=1\nB=\n" {
		t.Errorf("%q", got.stdout)
	}
	if got := run(t, c, sandbox.Command{Args: []string{"env"}, Bare: true}); got.stdout != "" {
		t.Errorf("%q", got.stdout)
	}
	_, err := c.Start(context.Background(), sandbox.Command{Args: []string{"env"}, Bare: true, Env: map[string]string{"PATH": "/nowhere"}})
	codeIs(t, err, sandbox.CodeExecution)
}
