package client_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// openShell opens a shell.
func openShell(t testing.TB, c *client.Client, o sandbox.ShellOptions) sandbox.Shell {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	return lineContext(t, ctx, s, text, cmd)
}

func lineContext(t testing.TB, ctx context.Context, s sandbox.Shell, text string, cmd sandbox.Command) result {
	t.Helper()
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

// A kind is a shell that the tests run with.
type kind struct {
	name    string
	program string // as Program says
	path    string // a folder with the tools that lines use, and this shell
}

func (k kind) bash() bool { return k.program == "bash" }

// shellKinds returns the shells that there are here: bash and dash always,
// busybox where it is installed.
func shellKinds(t testing.TB) []kind {
	t.Helper()
	var kinds []kind
	for _, k := range []struct{ name, program, from string }{
		{"bash", "bash", "bash"}, {"dash", "sh", "dash"}, {"busybox", "sh", "busybox"},
	} {
		from, err := exec.LookPath(k.from)
		if err != nil {
			if k.name == "busybox" {
				continue
			}
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("", "tools")
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		must(t, os.Chmod(dir, 0o755))
		must(t, os.Symlink(from, filepath.Join(dir, k.program)))
		for _, tool := range []string{
			"cat", "sleep", "head", "seq", "tr", "true", "false", "setsid", "rm", "rmdir", "mkdir", "mktemp", "env",
			"yes", "wc", "nohup", "ls", "readlink", "touch", "ps", "grep", "awk", "id", "sed",
		} {
			path, err := exec.LookPath(tool)
			must(t, err)
			must(t, os.Symlink(path, filepath.Join(dir, tool)))
		}
		kinds = append(kinds, kind{k.name, k.program, dir})
	}
	return kinds
}

// skip skips all shells but bash and dash, for which there are different drivers,
// and with the flag -short all but bash. busybox is driven as dash is, and comes
// with "make test-all".
func (k kind) skip(t *testing.T) {
	t.Helper()
	switch k.name {
	case "busybox":
		testenv.Exhaustive(t, "a second shell of its kind")
	case "dash":
		if testing.Short() {
			t.Skip("one shell")
		}
	}
}

// eachShell runs a test with the shells that [kind.skip] leaves, each with a
// guest of its own.
func eachShell(t *testing.T, test func(t *testing.T, g *guest, c *client.Client, k kind)) {
	for _, k := range shellKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			k.skip(t)
			g := startGuest(t)
			test(t, g, g.client(client.Options{Env: map[string]string{"PATH": k.path}, Dir: "/tmp"}), k)
		})
	}
}
