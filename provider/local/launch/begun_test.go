//go:build linux

package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// known is what of o is known before it is planned.
func known(o launch.Order) launch.Order {
	early := launch.Order{Bwrap: o.Bwrap, Guest: o.Guest, Limits: o.Limits, Filters: make([][]byte, len(o.Filters))}
	if o.Config != nil {
		early.Config = []byte{}
	}
	if o.Down != nil {
		early.Down = &launch.Down{UID: o.Down.UID, GID: o.Down.GID}
	}
	return early
}

// children are the processes that this one has started and that are there.
func children(t *testing.T) []string {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // of a thread that has ended
		}
		out = append(out, strings.Fields(string(text))...)
	}
	return out
}

func TestBegunSandboxIsFinished(t *testing.T) {
	o := plain(t)
	b, err := launch.Begin(known(o))
	if err != nil {
		t.Fatal(err)
	}
	if !b.Fits(o) {
		t.Error("it does not fit what it was begun for")
	}
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	w, err := b.Finish(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Kill()
	if got := output(t, connect(t, w), "id", "-u"); got != "471100" {
		t.Errorf("got %q", got)
	}
	if !w.Kill() {
		t.Error("it does not end")
	}
}

func TestBegunSandboxIsDropped(t *testing.T) {
	before := children(t)
	for range 20 {
		b, err := launch.Begin(known(plain(t)))
		if err != nil {
			t.Fatal(err)
		}
		b.Drop()
	}
	if after := children(t); !slices.Equal(before, after) {
		t.Errorf("processes are left: %q, before %q", after, before)
	}
}

// TestBegunSandboxThatCannotBeFinished holds that nothing is left of an instance that
// was begun, whatever fails.
func TestBegunSandboxThatCannotBeFinished(t *testing.T) {
	before := children(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		change func(*launch.Order)
		root   bool
		says   string
	}{
		{name: "the caller gives up", ctx: ended, says: context.Canceled.Error()},
		{name: "a source has gone", root: true, says: missing, change: func(o *launch.Order) { o.Down.Sources = append(o.Down.Sources, missing) }},
		{name: "a source to show has gone", says: missing, change: func(o *launch.Order) { o.Args = append(o.Args, "--ro-bind", missing, "/x") }},
		{name: "no such program", says: missing, change: func(o *launch.Order) { o.Bwrap = missing }},
		{name: "a program that ends", says: "/bin/true", change: func(o *launch.Order) { o.Bwrap = "/bin/true" }},
		{name: "more than a pipe holds, which nobody reads", says: "/bin/true", change: func(o *launch.Order) {
			o.Bwrap = "/bin/true"
			for i := range 1 << 14 {
				o.Args = append(o.Args, "--setenv", "A"+strconv.Itoa(i), "value")
			}
		}},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		o := plain(t)
		if c.change != nil {
			c.change(&o)
		}
		b, err := launch.Begin(known(o))
		if err != nil {
			t.Fatal(err)
		}
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		ctx, done := context.WithTimeout(c.ctx, 20*time.Second)
		w, err := b.Finish(ctx, o)
		if err == nil { // the guest was found missing later
			_, err = w.Connect(ctx, client.Options{})
			w.Kill()
		}
		done()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if after := children(t); !slices.Equal(before, after) {
		t.Errorf("processes are left: %q, before %q", after, before)
	}
}

func TestBegunSandboxFits(t *testing.T) {
	o := plain(t)
	o.Filters, o.Config = [][]byte{{0}}, []byte("x")
	b, err := launch.Begin(known(o))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Drop()
	if !b.Fits(o) {
		t.Error("the one it was begun for does not fit")
	}
	for name, change := range map[string]func(*launch.Order){
		"another program":      func(o *launch.Order) { o.Bwrap += "x" },
		"another guest":        func(o *launch.Order) { o.Guest += "x" },
		"no filter":            func(o *launch.Order) { o.Filters = nil },
		"more filters":         func(o *launch.Order) { o.Filters = append(o.Filters, nil) },
		"no configuration":     func(o *launch.Order) { o.Config = nil },
		"other limits":         func(o *launch.Order) { o.Limits = []launch.Limit{{Resource: 7, Soft: 1, Hard: 1}} },
		"another way down":     func(o *launch.Order) { o.Down = otherWay(o.Down) },
		"another user's group": func(o *launch.Order) { o.Down = &launch.Down{UID: 471100, GID: 471101} },
	} {
		other := o
		change(&other)
		if b.Fits(other) {
			t.Errorf("%s fits", name)
		}
	}
}

// otherWay is none for some, and some for none.
func otherWay(d *launch.Down) *launch.Down {
	if d == nil {
		return &launch.Down{UID: 1, GID: 1}
	}
	return nil
}

// TestUnreachableIsReported holds that who finishes an instance can tell that a source
// has gone from all else that fails.
func TestUnreachableIsReported(t *testing.T) {
	testenv.Require(t, "root")
	o := plain(t)
	b, err := launch.Begin(known(o))
	if err != nil {
		t.Fatal(err)
	}
	o.Down.Sources = append(o.Down.Sources, filepath.Join(t.TempDir(), "missing"))
	_, err = b.Finish(t.Context(), o)
	var unreachable *launch.Unreachable
	if !errors.As(err, &unreachable) {
		t.Errorf("got %v", err)
	}
}
