package client_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// openShell opens a shell; an empty path means bash where there is one.
func openShell(t testing.TB, c *client.Client, o sandbox.ShellOptions) sandbox.Shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := c.OpenShell(ctx, o, sandbox.Limits{})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// line runs one line of a shell.
func line(t testing.TB, s sandbox.Shell, text string) result {
	t.Helper()
	return lineWith(t, s, text, sandbox.Command{})
}

func lineWith(t testing.TB, s sandbox.Shell, text string, cmd sandbox.Command) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errOut
	}
	p, err := s.Run(ctx, text, cmd)
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return result{exit: exit, stdout: out.String(), stderr: errOut.String()}
}

func TestShellSmoke(t *testing.T) {
	c := startGuest(t).client(client.Options{})
	s := openShell(t, c, sandbox.ShellOptions{})
	for _, l := range []string{"echo hi; cd /usr", "pwd; false", "echo $?; echo e >&2", "exit 3", "pwd", "x=1", "set -n", "echo $x"} {
		start := time.Now()
		got := line(t, s, l)
		t.Logf("%q: %+v in %v", l, got, time.Since(start))
	}
}

func BenchmarkShellBuiltin(b *testing.B) {
	c := startGuest(b).client(client.Options{})
	s := openShell(b, c, sandbox.ShellOptions{})
	ctx := context.Background()
	for b.Loop() {
		p, err := s.Run(ctx, ":", sandbox.Command{})
		must(b, err)
		_, err = p.Wait()
		must(b, err)
	}
}
