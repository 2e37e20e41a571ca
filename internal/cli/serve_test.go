package cli

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"context"
)

func TestServe(t *testing.T) {
	f := &fake{}
	r := call(t, f, "serve", "--listen", "unix:/run/s.sock", "--listen", "tcp:127.0.0.1:8421", "--state-dir", "/s")
	if r.status != 0 || !slices.Equal(f.serving.Listen, []string{"unix:/run/s.sock", "tcp:127.0.0.1:8421"}) || f.options.StateDir != "/s" || f.serving.Hangups == nil || f.serving.Until != nil {
		t.Errorf("status %d, %+v", r.status, f.serving)
	}
	if !strings.Contains(r.stderr, "sandbox: listening at unix:/run/s.sock\n") || r.stdout != "" {
		t.Errorf("it says %q, %q", r.stdout, r.stderr)
	}
	if f := (&fake{}); call(t, f, "serve", "--embedded").status != 0 || f.serving.Until == nil {
		t.Error("an embedded daemon is not bound to standard input")
	}
	for _, wrong := range [][]string{{"serve", "more"}, {"serve", "--listen", ""}} {
		if r := call(t, &fake{}, wrong...); r.status != 2 {
			t.Errorf("%v: status %d", wrong, r.status)
		}
	}
}

// A signal that is diverted ends nothing, is heard once, and ends again what runs
// when it was given back.
func TestDivertedSignal(t *testing.T) {
	ctx, in := watchInterrupts(context.Background(), func(int) { t.Error("the process was ended") })
	defer in.stop()
	heard, back := in.divert(syscall.SIGHUP)
	for range 3 {
		in.ch <- syscall.SIGHUP
	}
	select {
	case <-heard:
	case <-time.After(time.Minute):
		t.Fatal("nothing was heard")
	}
	if ctx.Err() != nil {
		t.Error("a lent signal has ended the call")
	}
	back()
	in.ch <- syscall.SIGHUP
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Error("a signal that was given back ends nothing")
	}
}
