package client_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellAtProcessLimit has another session take every process there is.
// A shell that lives runs its builtins, also from a long line; one that has
// to be started again fails with an error as often as it is tried, and finds
// its state when there is room again.
func TestShellAtProcessLimit(t *testing.T) {
	group := pidsCgroup(t, 128)
	g := startGuest(t, inCgroup(group))
	c := g.client(client.Options{})
	s := openShell(t, c, sandbox.ShellOptions{})
	lives := openShell(t, c, sandbox.ShellOptions{})
	line(t, s, "kept=1")
	bomb, err := g.client(client.Options{}).Start(context.Background(), filler)
	must(t, err)
	eventually(t, time.Minute, "the limit is reached", group.limitReached)
	line(t, s, "exit")
	eventually(t, time.Minute, "the room that was made is taken", func() bool {
		holders := strings.Count(strings.Join(g.inside(), "\n"), "sandbox-guest hold keep")
		return holders == 1 && strings.TrimSpace(readFile(group.dirs[0]+"/pids.current")) == "128"
	})
	for range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if p, err := s.Run(ctx, "echo $kept", sandbox.Command{}); err == nil {
			exit, err := p.Wait()
			t.Errorf("it ran: %+v, %v", exit, err)
		} else {
			codeIs(t, err, sandbox.CodeExecution)
		}
		cancel()
		var out bytes.Buffer
		if got := lineWith(t, lives, "echo a", sandbox.Command{Stdout: &out}); got.exit.Code != 0 || out.String() != "a\n" {
			t.Errorf("a builtin: %+v, %q", got, out.String())
		}
		if got := line(t, lives, "echo b # "+strings.Repeat("long ", 100)); got.exit.Code != 0 || got.stdout != "b\n" {
			t.Errorf("a builtin in a long line: %+v", got)
		}
	}
	must(t, bomb.Kill(context.Background()))
	if got := line(t, s, "echo $kept"); got.stdout != "1\n" {
		t.Errorf("afterwards: got %+v", got)
	}
}

// TestShellFewProcesses leaves room for some processes, but perhaps not for all
// that a shell and its descriptor store need to start. Whatever fails, the
// state is not lost by it, and no call waits long.
func TestShellFewProcesses(t *testing.T) {
	long(t)
	group := pidsCgroup(t, 512)
	dir := group.dirs[0]
	g := startGuest(t, inCgroup(group))
	c := g.client(client.Options{})
	limit := func(n int) { must(t, os.WriteFile(dir+"/pids.max", []byte(strconv.Itoa(n)), 0)) }
	for room := range 16 {
		s := openShell(t, c, sandbox.ShellOptions{})
		line(t, s, "kept=1")
		line(t, s, "exit")
		taken, err := strconv.Atoi(strings.TrimSpace(readFile(dir + "/pids.current")))
		must(t, err)
		limit(taken + room)
		begin := time.Now()
		ran := 0
		for range 4 {
			p, err := s.Run(context.Background(), "true", sandbox.Command{})
			if err == nil {
				_, err = p.Wait()
				ran++
			}
			if err != nil {
				codeIs(t, err, sandbox.CodeExecution)
				var e *sandbox.Error
				if !errors.As(err, &e) || !e.Retryable {
					t.Errorf("room for %d: %v", room, err)
				}
			}
		}
		took := time.Since(begin)
		limit(512)
		t.Logf("room for %d: %d of 4 lines ran in %v", room, ran, took)
		if took > 20*time.Second {
			t.Errorf("room for %d: took %v", room, took)
		}
		if got := line(t, s, "echo $kept"); got.stdout != "1\n" {
			t.Errorf("room for %d: the state is lost: got %+v", room, got)
		}
		must(t, s.Close())
	}
	g.empty(5 * time.Second)
}
