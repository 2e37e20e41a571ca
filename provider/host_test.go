//go:build linux

package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func open(t *testing.T) (sandbox.Sandbox, string) {
	t.Helper()
	dir := t.TempDir()
	p := provider.NewHost([]string{"PATH=" + os.Getenv("PATH"), "HOME=/home/me", "SECRET=1", "LC_ALL=C"})
	sb, err := p.Open(context.Background(), sandbox.Spec{
		Name: "out", Workdir: "/workspace", Guest: sandbox.GuestRef{Dir: filepath.Dir(testenv.Guest(t))},
		Env:    map[string]string{"HOME": sandbox.HomeDir, "MINE": "2"},
		Mounts: []sandbox.Mount{{Source: dir, Target: "/workspace", Role: sandbox.RoleWorkspace}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb, dir
}

func run(t *testing.T, ctx context.Context, sb sandbox.Sandbox, c sandbox.Command) (string, sandbox.Exit) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	p, err := sb.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit
}

// TestRunsOnTheHost holds that a command is the user that we are, in the
// workspace, with its own environment and nothing of ours that it must not see.
func TestRunsOnTheHost(t *testing.T) {
	sb, dir := open(t)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, exit := run(t, t.Context(), sb, sandbox.Command{Dir: "/workspace/sub", Args: []string{"sh", "-c", `pwd; id -u; echo "$HOME $SECRET $MINE $LC_ALL"; exit 3`}})
	want := filepath.Join(dir, "sub") + "\n" + strconv.Itoa(os.Geteuid()) + "\n/home/me  2 C\n"
	if out != want || exit.Code != 3 {
		t.Errorf("%q with status %d, want %q", out, exit.Code, want)
	}
	out, _ = run(t, t.Context(), sb, sandbox.Command{Dir: "/", Args: []string{"pwd"}})
	if out != "/\n" {
		t.Errorf("in %q", out)
	}
}

// TestTreesEnd holds that neither the end of a call nor that of the handle
// leaves a process behind, escapees included.
func TestTreesEnd(t *testing.T) {
	const escape = `setsid sh -c 'setsid sleep 300 & echo $! >> pids; sleep 300' & while ! test -s pids; do :; done; sleep 300`
	for _, end := range []string{"call", "handle"} {
		t.Run(end, func(t *testing.T) {
			sb, dir := open(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", escape}})
			if err != nil {
				t.Fatal(err)
			}
			pid := waitForPID(t, filepath.Join(dir, "pids"))
			if end == "call" {
				cancel()
				p.Wait()
			} else {
				sb.Close()
			}
			testenv.Until(t, "the escapee ends", func() bool { return unix.Kill(pid, 0) != nil })
		})
	}
}

func waitForPID(t *testing.T, file string) (pid int) {
	t.Helper()
	testenv.Success(t, func() error {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		line, whole := strings.CutSuffix(string(b), "\n")
		if pid, err = strconv.Atoi(line); err != nil || !whole {
			return fmt.Errorf("no process was started: %q", b)
		}
		return nil
	})
	return pid
}

// TestWithoutWorkspace holds that nothing runs somewhere else instead.
func TestWithoutWorkspace(t *testing.T) {
	sb, err := provider.NewHost(nil).Open(t.Context(), sandbox.Spec{Name: "out", Workdir: "/workspace", Guest: sandbox.GuestRef{Dir: filepath.Dir(testenv.Guest(t))}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if _, err := sb.Start(t.Context(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("got %v", err)
	}
	if _, err := provider.NewHost(nil).Open(t.Context(), sandbox.Spec{Guest: sandbox.GuestRef{Dir: t.TempDir()}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("without a guest: %v", err)
	}
}

// TestBareAndMetered checks that a bare command inherits nothing of our
// environment either, and that the usage of a command is reported.
func TestBareAndMetered(t *testing.T) {
	sb, _ := open(t)
	ctx := context.Background()
	if out, _ := run(t, ctx, sb, sandbox.Command{Args: []string{"env"}, Bare: true, Env: map[string]string{"ONLY": "1"}}); out != "ONLY=1\n" {
		t.Errorf("a bare command has %q", out)
	}
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", "while :; do :; done"}})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		u, err := p.(sandbox.Metered).Used(ctx)
		if err != nil && sandbox.CodeOf(err) != sandbox.CodeUnavailable { // it has a second
			t.Fatal(err)
		}
		if u.User+u.System > 50*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has used %+v", u)
		}
	}
	if err := p.Kill(ctx); err != nil {
		t.Fatal(err)
	}
}
