package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestShellInnocentLine holds that a line which meets a shell that was
// damaged by the line before it runs all the same: bash 5.2 ends some time
// after a command substitution that was not closed.
func TestShellInnocentLine(t *testing.T) {
	t.Parallel()
	long(t)
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		tries := 1
		if k.bash() {
			tries = 2
		}
		for _, bad := range []string{
			"echo $(", "x=$(", "cat <(", "echo $(case a in", "echo $(<<E", "f() { echo $(", "alias q='echo $('\nq", "echo \"$(", "eval 'echo $('", "(echo $(",
		} {
			for range tries {
				s := openShell(t, c, sandbox.ShellOptions{})
				line(t, s, "kept=1")
				first := line(t, s, bad)
				got := line(t, s, "echo a; kept=$kept.")
				if got.exit.Code != 0 || got.stdout != "a\n" {
					t.Errorf("after %q: got %+v", bad, got)
				}
				if first.exit.Restarted && got.exit.Restarted {
					t.Errorf("after %q: one end was told twice", bad)
				}
				if got = lineWith(t, s, "cat; echo $kept", sandbox.Command{Stdin: strings.NewReader("in\n")}); got.stdout != "in\n1.\n" || got.exit.Restarted {
					t.Errorf("the line after that: got %+v", got)
				}
				must(t, s.Close())
			}
		}
	})
}

// TestShellDamagedBeforeInput holds that a line which is given to a second
// process of its shell has lost nothing of its input.
func TestShellDamagedBeforeInput(t *testing.T) {
	t.Parallel()
	c := startGuest(t).client(client.Options{})
	in := strings.Repeat("0123456789", 30_000)
	for range 8 {
		s := openShell(t, c, sandbox.ShellOptions{})
		line(t, s, "echo $(")
		if got := lineWith(t, s, "cat", sandbox.Command{Stdin: strings.NewReader(in)}); got.stdout != in || got.exit.Code != 0 {
			t.Fatalf("%d bytes came back, %+v, %q", len(got.stdout), got.exit, got.stderr)
		}
		must(t, s.Close())
	}
}

// TestShellDiesAtRest has what a line has left running kill the shell, its
// descriptor store or both, at about the time of the next line. That line runs
// once, or, when the end met it in the middle, at most once; never twice, and
// never not at all when it is said to have run.
func TestShellDiesAtRest(t *testing.T) {
	t.Parallel()
	long(t)
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		dir := t.TempDir()
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		must(t, os.Chmod(dir, 0o777))
		s := openShell(t, c, sandbox.ShellOptions{Dir: dir})
		victims := 0
		lines := testenv.Rounds(10, 20, 150)
		for i := range lines { // with each shell
			line(t, s, "(kill -9 $$) &")
			ran := fmt.Sprint("ran", i)
			got := line(t, s, "echo >>"+ran)
			b, _ := os.ReadFile(filepath.Join(dir, ran))
			switch {
			case len(b) > 1, got.exit.Code == 0 && len(b) != 1:
				t.Fatalf("it ran %d times: got %+v", len(b), got)
			case len(b) == 0:
				victims++
			}
		}
		t.Logf("%d of %d lines were met before they had done anything", victims, lines)
	})
}

// TestShellKillAtTheEnd kills lines at about the time at which they end by
// themselves. No later line may be ended by that.
func TestShellKillAtTheEnd(t *testing.T) {
	t.Parallel()
	c := startGuest(t).client(client.Options{})
	s := openShell(t, c, sandbox.ShellOptions{})
	for i := range testenv.Rounds(40, 80, 300) {
		ctx, cancel := context.WithCancel(context.Background())
		p, err := s.Run(ctx, ":", sandbox.Command{})
		must(t, err)
		var wg sync.WaitGroup
		wg.Go(cancel)
		wg.Go(func() { _ = p.Signal(context.Background(), "KILL") })
		_, err = p.Wait()
		must(t, err)
		if got := line(t, s, "echo a"); got.exit.Code != 0 || got.stdout != "a\n" {
			t.Fatalf("round %d: the next line: got %+v", i, got)
		}
		wg.Wait()
		cancel()
	}
}

// TestShellLateKill kills a line that has ended, and whose output is on its
// way. What comes of that, after the grace period, may not meet a later line.
func TestShellLateKill(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	s := openShell(t, g.client(client.Options{}), sandbox.ShellOptions{})
	line(t, s, "trap '' TERM")
	shell := pidOf(t, g, "bash\x00--norc")
	ctx, cancel := context.WithCancel(context.Background())
	out := &lateWriter{open: make(chan struct{})}
	p, err := s.Run(ctx, fmt.Sprintf("head -c %d /dev/zero", wire.Window+30_000), sandbox.Command{Stdout: out, Grace: 300 * time.Millisecond})
	must(t, err)
	eventually(t, 10*time.Second, "the shell waits for its next line", func() bool {
		return out.began.Load() && atRest(shell)
	})
	cancel()
	time.Sleep(100 * time.Millisecond) // for the word of it to be sent; it leaves no trace where all is well
	close(out.open)
	exit, err := p.Wait()
	must(t, err)
	if got := line(t, s, "sleep 0.6; echo a"); exit.Code == 0 && (got.exit.Code != 0 || got.stdout != "a\n") {
		t.Errorf("got %+v after %+v", got, exit)
	}
}

// atRest reports whether a process reads its standard input, as a shell does
// between two lines.
func atRest(pid int) bool {
	return strings.HasPrefix(readFile(fmt.Sprintf("/proc/%d/syscall", pid)), "0 0x0 ")
}

// pidOf returns the process inside whose command line begins so.
func pidOf(t *testing.T, g *guest, begin string) int {
	t.Helper()
	return pidIn(t, g.pid(), begin)
}

// pidIn is pidOf for the processes that one of them is among. Of several it is
// the one that the others descend from.
func pidIn(t *testing.T, one int, begin string) int {
	t.Helper()
	belongs, err := testenv.Namespace(one)
	must(t, err)
	entries, err := os.ReadDir("/proc")
	must(t, err)
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !belongs(pid) {
			continue
		}
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(b), begin) {
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		var state string
		var parent int
		_, rest, _ := strings.Cut(readFile(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
		if n, _ := fmt.Sscan(rest, &state, &parent); n == 2 && !slices.Contains(found, parent) {
			return pid
		}
	}
	t.Fatalf("there is no %q", begin)
	return 0
}

// A lateWriter takes nothing before it is open.
type lateWriter struct {
	began atomic.Bool
	open  chan struct{}
}

func (w *lateWriter) Write(p []byte) (int, error) {
	w.began.Store(true)
	<-w.open
	return len(p), nil
}
