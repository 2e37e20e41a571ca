package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"go.uber.org/goleak"
)

// TestShellGuestKilledAnywhere kills guests at random times while their shell
// runs lines that change a state of half a megabyte, which takes about as long
// to be written as a line takes. What is left is always one whole state: that
// after the last line whose end was reported or, where it says that it is
// stale, the one before.
func TestShellGuestKilledAnywhere(t *testing.T) {
	t.Parallel()
	long(t)
	guests := testenv.Rounds(3, 5, 50)
	heir := startSandbox(t, client.Options{})
	stale := 0
	for i := range guests {
		w := startSandbox(t, client.Options{})
		s := keptShell(t, w, sandbox.ShellOptions{}, nil)
		line(t, s, "n=0; pad=$(head -c 500000 /dev/zero | tr '\\0' x); a=0$pad b=0$pad")
		stateNow(t, s)
		after := time.Duration(rand.Int64N(int64(60 * time.Millisecond)))
		killer := time.AfterFunc(after, func() { _ = w.cmd.Process.Signal(syscall.SIGKILL) })
		reported := linesUntilEnd(t, s)
		killer.Stop()
		state := stateNow(t, s)
		want := reported
		if state.Stale() {
			stale++
			want--
		}
		next := keptShell(t, heir, sandbox.ShellOptions{}, state)
		got := line(t, next, `echo $n ${#pad}; [[ "$a" == "$n$pad" && "$b" == "$a" ]]`)
		if got.stdout != fmt.Sprintln(want, 500_000) || got.exit.Code != 0 || !got.exit.Restarted {
			t.Errorf("guest %d, killed after %v: told the end of %d lines, stale %v: got %+v", i, after, reported, state.Stale(), got)
		}
		must(t, next.Close())
		must(t, s.Close())
	}
	t.Logf("%d of %d were killed between the end of a line and its state", stale, guests)
}

// linesUntilEnd runs lines until the guest is gone, and returns how many have
// come to their end.
func linesUntilEnd(t *testing.T, s sandbox.Shell) (reported int) {
	t.Helper()
	for {
		p, err := s.Run(context.Background(), "n=$((n + 1)); a=$n$pad b=$n$pad", sandbox.Command{})
		if err != nil {
			return reported
		}
		if exit, err := p.Wait(); err != nil {
			return reported
		} else if exit.Restarted || exit.Code != 0 {
			t.Fatalf("got %+v", exit)
		}
		reported++
	}
}

// TestShellSandboxesLeaveNothing has shells move from guest to guest, and looks
// for descriptors, memory and goroutines that stay in the client.
func TestShellSandboxesLeaveNothing(t *testing.T) {
	long(t)
	move := func() {
		w := startSandbox(t, client.Options{})
		a, b := keptShell(t, w, sandbox.ShellOptions{}, nil), keptShell(t, w, sandbox.ShellOptions{}, nil)
		line(t, a, "BIG=$(head -c 3000000 /dev/zero | tr '\\0' x)")
		line(t, b, "x=1")
		must(t, b.Close())
		stateNow(t, a) // so that it has been kept
		w.fall()
		state := stateNow(t, a)
		eventually(t, 10*time.Second, "the memory of the guest goes with it", func() bool { return memoryFiles(t, syscall.Getpid()) == 0 })
		next := startSandbox(t, client.Options{})
		s := keptShell(t, next, sandbox.ShellOptions{}, state)
		if got := line(t, s, "echo ${#BIG}"); got.stdout != "3000000\n" {
			t.Fatalf("got %+v", got)
		}
		must(t, a.Close())
		must(t, next.c.Close())
		_ = next.cmd.Wait()
		must(t, s.Close())
	}
	known := goleak.IgnoreCurrent()
	move()
	open := descriptors(t, syscall.Getpid())
	for range testenv.Rounds(1, 3, 10) {
		move()
	}
	eventually(t, 10*time.Second, "descriptors are closed", func() bool { return descriptors(t, syscall.Getpid()) <= open })
	testenv.None(t, known)
}

// TestShellKeptThousand opens shells from states, and ends them in several
// ways, in one guest, and looks for what stays open there and here.
func TestShellKeptThousand(t *testing.T) {
	long(t)
	shells := testenv.Rounds(20, 40, 300)
	w := startSandbox(t, client.Options{})
	first := keptShell(t, w, sandbox.ShellOptions{}, nil)
	line(t, first, "x="+strings.Repeat("x", 1000))
	state := stateNow(t, first)
	run := func(i int) {
		switch i % 4 {
		case 0:
			s := keptShell(t, w, sandbox.ShellOptions{}, state)
			line(t, s, "y=1")
			must(t, s.Close())
		case 1:
			s := keptShell(t, w, sandbox.ShellOptions{}, nil)
			line(t, s, "exit")
			stateNow(t, s)
			must(t, s.Close())
		case 2:
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*time.Millisecond/4)
			defer cancel()
			if s, err := w.c.OpenShellFrom(ctx, sandbox.ShellOptions{}, sandbox.Limits{}, state); err == nil {
				must(t, s.Close())
			}
		case 3:
			_, err := w.c.OpenShellFrom(context.Background(), sandbox.ShellOptions{Dir: "/"}, sandbox.Limits{OpenFiles: 4}, state)
			if err == nil {
				t.Error("a shell without descriptors was opened")
			}
		}
	}
	for i := range 20 {
		run(i)
	}
	ours, theirs := descriptors(t, syscall.Getpid()), descriptors(t, w.pid())
	for i := range shells {
		run(i)
	}
	eventually(t, 10*time.Second, "descriptors are given back", func() bool {
		return descriptors(t, syscall.Getpid()) <= ours+4 && descriptors(t, w.pid()) <= theirs+8
	})
	if got := line(t, first, "echo ${#x}"); got.stdout != "1000\n" {
		t.Errorf("got %+v", got)
	}
}
