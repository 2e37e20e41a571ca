package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestShellManyWriters leaves more writers running than the shell may have
// open files: each holds a pipe of a line that is over, and those are not the
// shell's to hold.
func TestShellManyWriters(t *testing.T) {
	s, err := startGuest(t).client(client.Options{}).OpenShell(context.Background(), sandbox.ShellOptions{}, sandbox.Limits{OpenFiles: 32, CPUSeconds: 50})
	must(t, err)
	defer s.Close()
	start := time.Now()
	for i := range 100 {
		if got := line(t, s, "n=$((n + 1)); sleep 1000 & echo $n"); got.stdout != fmt.Sprintln(i+1) || got.exit.Restarted {
			t.Fatalf("line %d, after %v: got %+v", i, time.Since(start), got)
		}
	}
	if got := line(t, s, "ulimit -n; ulimit -Hn; ulimit -t; ulimit -Ht"); got.stdout != "32\n32\n50\n51\n" {
		t.Errorf("got %+v", got)
	}
}

// TestShellCloseWhileWaiting closes a shell for whose turn others wait.
func TestShellCloseWhileWaiting(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	for range 50 {
		s := openShell(t, c, sandbox.ShellOptions{})
		begin(t, context.Background(), s, "echo ready; sleep 1000", sandbox.Command{})
		failed := make(chan error)
		for range 4 {
			go func() {
				_, err := s.Run(context.Background(), "sleep 1000", sandbox.Command{})
				failed <- err
			}()
		}
		must(t, s.Close())
		for range 4 {
			select {
			case err := <-failed:
				codeIs(t, err, sandbox.CodeNotFound)
			case <-time.After(patience):
				t.Fatal("it waits for a shell that is closed")
			}
		}
	}
}

// TestShellStuckScript fills the pipe that a shell reads its lines from and
// stops the shell. The next line waits until it is given up, and the one
// after it finds a new shell.
func TestShellStuckScript(t *testing.T) {
	long(t)
	t.Parallel() // it waits for most of its time
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		t.Parallel()
		dir := t.TempDir()
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		s := openShell(t, c, sandbox.ShellOptions{Dir: dir})
		line(t, s, "kept=1")
		line(t, s, `(until [ -e now ]; do sleep 0.01; done; kill -STOP $$; while :; do echo :; done >/proc/$$/fd/0) & :`)
		shell := pidOf(t, g, k.program+"\x00-")
		eventually(t, 10*time.Second, "the shell waits for a line", func() bool { return atRest(shell) })
		must(t, os.WriteFile(filepath.Join(dir, "now"), nil, 0o644))
		eventually(t, 10*time.Second, "the shell is stopped", func() bool { return stateOf(shell) == "T" })
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		p, err := s.Run(ctx, "echo never", sandbox.Command{})
		if err == nil {
			_, err = p.Wait()
			must(t, err)
		} else {
			codeIs(t, err, sandbox.CodeTimeout)
		}
		if got := line(t, s, "echo $kept"); got.stdout != "1\n" {
			t.Errorf("got %+v", got)
		}
		must(t, s.Close())
		g.empty(5 * time.Second)
	})
}

// stateOf returns the letter of the state that a process is in.
func stateOf(pid int) string {
	for _, l := range strings.Split(readFile(fmt.Sprintf("/proc/%d/status", pid)), "\n") {
		if v, ok := strings.CutPrefix(l, "State:\t"); ok {
			return v[:1]
		}
	}
	return ""
}

func readFile(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// TestShellCloseAtOnce closes a shell while a line is on its way to it: the
// line ends with the shell, or there is no shell any more.
func TestShellCloseAtOnce(t *testing.T) {
	long(t)
	c := startGuest(t).client(client.Options{})
	for i := range testenv.Rounds(30, 80, 300) {
		s := openShell(t, c, sandbox.ShellOptions{})
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		for range i % 3 {
			runtime.Gosched()
		}
		p, err := s.Run(context.Background(), "echo a", sandbox.Command{})
		if err != nil {
			codeIs(t, err, sandbox.CodeNotFound)
		} else {
			_, err = p.Wait()
			must(t, err)
		}
		must(t, <-closed)
	}
}
