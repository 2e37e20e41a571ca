package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellQuick runs lines that end before their output is carried, at the
// moment at which that begins, and after it, with as much output as is sent
// with the end of a line and more. Nothing may be lost, doubled, or put on
// the wrong side.
func TestShellQuick(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		for _, size := range []int{0, 1, 8 << 10, 8<<10 + 1, 16 << 10, 16<<10 + 1, 60 << 10, 200 << 10} {
			for _, wait := range []string{"0", "0.001", "0.003"} {
				text := fmt.Sprintf("head -c %d /dev/zero | tr '\\0' o; head -c %d /dev/zero | tr '\\0' e >&2; sleep %s; echo end; echo end >&2", size, size/2, wait)
				got := line(t, s, text)
				if got.exit.Code != 0 || got.stdout != strings.Repeat("o", size)+"end\n" || got.stderr != strings.Repeat("e", size/2)+"end\n" {
					t.Fatalf("%d bytes, %s s: status %d, %d and %d bytes", size, wait, got.exit.Code, len(got.stdout), len(got.stderr))
				}
			}
		}
		for i := range 150 { // without programs: all of it is quick
			if got, want := line(t, s, fmt.Sprintf("echo o%d; echo e%d >&2", i, i)), fmt.Sprintf("o%d\ne%d\n", i, i); got.stdout+got.stderr != want {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

// TestShellQuickLeaves has a quick line leave a program that writes to its
// output. That is none of the next line's.
func TestShellQuickLeaves(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		for range 20 {
			line(t, s, "{ sleep 0.001; echo late; } &")
			for range 5 {
				if got := line(t, s, "echo own"); got.stdout != "own\n" || got.stderr != "" {
					t.Fatalf("got %+v", got)
				}
			}
		}
	})
}

// TestShellStarts checks that a line which goes on is reported to run.
func TestShellStarts(t *testing.T) {
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p, err := s.Run(ctx, "sleep 1000", sandbox.Command{})
		must(t, err) // and before the line has ended
		must(t, p.Kill(context.Background()))
	})
}
