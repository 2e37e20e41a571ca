package client_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestShellStreams(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		t.Run("apart and exact", func(t *testing.T) {
			got := line(t, s, `printf 'a\000\377\n\nno newline'; printf 'e\r\000' >&2`)
			if got.stdout != "a\x00\xff\n\nno newline" || got.stderr != "e\r\x00" {
				t.Errorf("got %+v", got)
			}
		})
		t.Run("invalid text in the line", func(t *testing.T) {
			if got := line(t, s, "printf %s 'a\xff\xfe\xc3\x28\x01\x7f'"); got.stdout != "a\xff\xfe\xc3\x28\x01\x7f" {
				t.Errorf("got %+v", got)
			}
		})
		t.Run("one writer for both", func(t *testing.T) {
			var both strings.Builder
			lineWith(t, s, "for i in 1 2 3; do echo o$i; echo e$i >&2; done", sandbox.Command{Stdout: &both, Stderr: &both})
			if both.String() != "o1\ne1\no2\ne2\no3\ne3\n" {
				t.Errorf("got %q", both.String())
			}
		})
		t.Run("the client has detached", func(t *testing.T) {
			p, err := s.Run(context.Background(), "echo a; echo b >&2; exit 7", sandbox.Command{})
			must(t, err)
			if exit, err := p.Wait(); err != nil || exit.Code != 7 {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
		t.Run("input", func(t *testing.T) {
			in := strings.Repeat("0123456789\x00\xff", 100_000)
			if got := lineWith(t, s, "read first; echo $first; cat", sandbox.Command{Stdin: strings.NewReader("one\n" + in)}); got.stdout != "one\n"+in {
				t.Errorf("%d bytes came back", len(got.stdout))
			}
			if got := lineWith(t, s, "head -c 1", sandbox.Command{Stdin: strings.NewReader(in)}); got.stdout != "0" {
				t.Errorf("got %+v", got)
			}
			if got := line(t, s, "cat"); got.stdout != "" {
				t.Errorf("the rest came with the next line: %.100q", got.stdout)
			}
		})
		t.Run("much output", func(t *testing.T) {
			if !k.bash() {
				testenv.Exhaustive(t, "what the guest does for every shell")
			}
			const size = 64 << 20 // four times what the guest may grow by
			before := rssOf(t, g.pid())
			n := &counter{}
			lineWith(t, s, fmt.Sprintf("head -c %d /dev/zero", size), sandbox.Command{Stdout: n})
			if grown := rssOf(t, g.pid()) - before; n.n != size || grown > 16<<20 {
				t.Errorf("%d bytes, the guest grew by %d", n.n, grown)
			}
		})
		t.Run("writer that fails", func(t *testing.T) {
			if got := lineWith(t, s, "head -c 1000000 /dev/zero; echo $? >&2", sandbox.Command{Stdout: failing{}}); got.stderr != "0\n" {
				t.Errorf("got %+v", got)
			}
		})
		if got := line(t, s, "echo fine"); got.stdout != "fine\n" {
			t.Errorf("afterwards: got %+v", got)
		}
	})
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestShellBackground checks that what a line leaves running delays no other
// line, lives on, is not ended by a pipe that is gone, and says nothing in a
// later line.
func TestShellBackground(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		dir := t.TempDir()
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		must(t, os.Chmod(dir, 0o777))
		s := openShell(t, c, sandbox.ShellOptions{Dir: dir})
		start := time.Now()
		got := line(t, s, "(while [ ! -e stop ]; do echo noise; echo noise >&2; sleep 0.01; done; touch stopped) & echo first")
		if !strings.Contains(got.stdout, "first\n") || time.Since(start) > patience {
			t.Errorf("got %+v", got)
		}
		got = line(t, s, "yes & echo flood")
		if !strings.Contains(got.stdout, "flood\n") {
			t.Errorf("got %d bytes, %+v", len(got.stdout), got.exit)
		}
		children := testenv.Rounds(10, 10, 50)
		for i := range children {
			if got := line(t, s, fmt.Sprint("sleep 0.01; sleep 1000 & echo ", i)); got.stdout != fmt.Sprintln(i) || got.stderr != "" {
				t.Fatalf("got %.200q, %.200q", got.stdout, got.stderr)
			}
		}
		line(t, s, "touch stop")
		eventually(t, 10*time.Second, "the first child was not ended by its pipe", func() bool {
			_, err := os.Stat(filepath.Join(dir, "stopped"))
			return err == nil
		})
		// The last one may not have become what it is yet.
		eventually(t, 10*time.Second, "all children live", func() bool {
			return strings.Count(strings.Join(g.inside(), "\n"), "sleep 1000") == children
		})
		must(t, s.Close())
		g.empty(5 * time.Second)
		line(t, openShell(t, c, sandbox.ShellOptions{}), "true")
	})
}

// TestShellNeverTwice holds that a line which ends its shell at once is not
// run again.
func TestShellNeverTwice(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		dir := t.TempDir()
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		must(t, os.Chmod(dir, 0o777))
		s := openShell(t, c, sandbox.ShellOptions{Dir: dir})
		lines := testenv.Rounds(10, 15, 100)
		for i := range lines {
			if got := line(t, s, "echo >>ran; exit 9"); got.exit.Code != 9 || !got.exit.Restarted {
				t.Fatalf("%d: got %+v", i, got)
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "ran"))
		if err != nil || len(b) != lines {
			t.Errorf("it ran %d times, %v", len(b), err)
		}
	})
}
