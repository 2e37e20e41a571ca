package client_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellNeverReady has a shell be started again as a program that is no
// shell and never answers, put into its PATH by what ran in it. Who gives up
// the line does not wait for that, others on the connection do not notice,
// and the state is not lost by it.
func TestShellNeverReady(t *testing.T) {
	g := startGuest(t)
	c := g.client(client.Options{})
	other, err := c.Start(context.Background(), sandbox.Command{Args: []string{"sleep", "1000"}})
	must(t, err)
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o777))
	s := openShell(t, c, sandbox.ShellOptions{Dir: dir, Env: map[string]string{"PATH": dir + ":/usr/bin:/bin"}})
	line(t, s, "kept=1")
	line(t, s, `printf '#!/bin/sh\nexec sleep 1000\n' >bash; chmod +x bash; exit`)
	for range 3 { // more often than a state may fail by itself
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		begin := time.Now()
		_, err := s.Run(ctx, "true", sandbox.Command{})
		cancel()
		codeIs(t, err, sandbox.CodeTimeout)
		must(t, c.Ping(context.Background()))
		if took := time.Since(begin); took > patience { // what waits for the program does so for longer
			t.Errorf("giving up took %v", took)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "bash")))
	begin := time.Now()
	if got := line(t, s, "echo $kept"); got.stdout != "1\n" {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("the line after it took %v", took)
	}
	must(t, other.Signal(context.Background(), "TERM"))
	if exit, err := other.Wait(); err != nil || exit.Signal != "TERM" {
		t.Errorf("the other command: %+v, %v", exit, err)
	}
}
