package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// TestShellLeaves runs lines after which the shell does not tell its state,
// since they leave it as it was: what is kept is its state all the same.
func TestShellLeaves(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, _ *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		for i := range 14 {
			line(t, s, fmt.Sprintf("x=%d; cd /; umask 0%d", i, 10+i%8))
			for range i % 7 {
				for text, want := range map[string]string{":": "", "echo a; echo b": "a\nb\n", "/bin/echo c": "c\n", "echo d | cat": "d\n", "echo 'e\nf'\n": "e\nf\n"} {
					if got := line(t, s, text); got.stdout != want || got.stderr != "" || got.exit.Code != 0 || got.exit.Restarted {
						t.Errorf("%s: got %+v", text, got)
					}
				}
			}
			if got := line(t, s, "kill -9 $$"); !got.exit.Restarted {
				t.Fatalf("got %+v", got)
			}
			if got, want := line(t, s, "echo $x $PWD $(umask)"), fmt.Sprintf("%d / 00%d\n", i, 10+i%8); got.stdout != want {
				t.Fatalf("got %+v, want %q", got, want)
			}
		}
	})
}

// TestShellUnusual makes the words of lines mean something else, in every way
// that there is: what such a line does to its shell is kept.
func TestShellUnusual(t *testing.T) {
	t.Parallel()
	const usual = "trap - DEBUG ERR CHLD; unalias -a; unset -f echo; set +x"
	for name, first := range map[string]string{
		"a function":         "echo() { x=$((x+1)); }",
		"an alias":           "alias echo='x=$((x+1)); builtin echo'",
		"a trap":             "trap 'x=$((x+1))' DEBUG",
		"a trace":            "PS4='$((x++)) '; set -x",
		"a function, posix":  "set -o posix; echo() { x=$((x+1)); }",
		"a function, quiet":  "shopt -s nocasematch; echo() { x=$((x+1)); }",
		"a trap on an error": "trap 'x=$((x+1))' ERR; echo() { false; }",
		"a trap on children": "trap 'x=$((x+1))' CHLD",
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleShell(t)
			s.calm()
			line(t, s, "x=0")
			line(t, s, first)
			for range 4 {
				line(t, s, "echo a")
				line(t, s, "/bin/true && echo a")
			}
			was := atoi(line(t, s, usual+"; echo $x").stdout)
			if was < 4 {
				t.Fatalf("%d after four lines", was)
			}
			line(t, s, first)
			for range 6 {
				line(t, s, "echo a; /bin/true")
			}
			line(t, s, "builtin kill -9 $$")
			line(t, s, usual)
			if got := atoi(line(t, s, "echo $x").stdout); got < was+6 { // each line is one at least
				t.Errorf("%d after six lines more, it was %d before", got, was)
			}
		})
	}
}

// TestShellUnusualByNow makes a shell unusual with a line whose state is not
// written yet when the next one comes.
func TestShellUnusualByNow(t *testing.T) {
	t.Parallel()
	s := newIdleShell(t)
	s.says("big="+strings.Repeat("b", 300_000), "")
	for i := range 5 {
		line(t, s, "x=0") // in a shell that no line has reported as a new one
		for range 6 {
			s.says("echo a", "a\n")
		}
		s.says("echo() { x=$((x+1)); }", "")
		s.says("echo", "")
		line(t, s, "kill -9 $$")
		if got := line(t, s, "unset -f echo; echo $x").stdout; got != "1\n" {
			t.Fatalf("round %d: got %q", i, got)
		}
	}
}

func atoi(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// TestShellPrints holds what lines that only write must do as all others do,
// though they are read as they are, and nothing is opened or closed for them.
func TestShellPrints(t *testing.T) {
	t.Parallel()
	s := newIdleShell(t)
	for _, tt := range []struct {
		text, out, err string
		code           int
	}{
		{"echo a", "a\n", "", 0},
		{"echo a >&2", "", "a\n", 0},
		{"echo a; echo b >&2; echo c", "a\nc\n", "b\n", 0},
		{"false", "", "", 1},
		{"false || echo a && false", "a\n", "", 1},
		{"echo 'a\n}'\necho \"b\\n\";", "a\n}\nb\\n\n", "", 0},
		{"printf '%s,%d\\n' a 7", "a,7\n", "", 0},
		{"printf %d x", "0", "printf: x: invalid number\n", 1},
		{"echo }", "}\n", "", 0},
		{"echo a >/dev/stdin", "", "", 0},
		{"echo 'echo b' >>/proc/self/fd/0", "", "", 0},
	} {
		s.calm()
		got := line(t, s, tt.text)
		if got.stdout != tt.out || !strings.HasSuffix(got.stderr, tt.err) || (tt.err == "") != (got.stderr == "") || int(got.exit.Code) != tt.code || got.exit.Restarted {
			t.Errorf("%s: got %+v", tt.text, got)
		}
		s.says("echo $?", fmt.Sprintln(tt.code))
	}
	t.Run("one writer for both", func(t *testing.T) {
		s.calm()
		var both strings.Builder
		lineWith(t, s, "echo a; echo b >&2; echo c", sandbox.Command{Stdout: &both, Stderr: &both})
		if both.String() != "a\nb\nc\n" {
			t.Errorf("got %q", both.String())
		}
	})
	t.Run("the client has detached", func(t *testing.T) {
		s.calm()
		for _, c := range []sandbox.Command{{}, {Stdout: &strings.Builder{}}, {Stderr: &strings.Builder{}}, {Stdin: strings.NewReader("x")}} {
			p, err := s.Run(t.Context(), "echo a; echo b >&2; false", c)
			must(t, err)
			if exit, err := p.Wait(); err != nil || exit.Code != 1 || exit.Restarted {
				t.Errorf("got %+v, %v", exit, err)
			}
		}
	})
	t.Run("an error that has bash forget its line", func(t *testing.T) {
		s.calm()
		s.says("shopt -s failglob", "")
		for range 5 {
			if got := line(t, s, "echo nosuch*; echo a"); got.stdout != "" || got.exit.Code != 1 || got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
		}
		s.says("shopt -u failglob", "")
	})
	t.Run("errexit of an earlier line", func(t *testing.T) {
		s.calm()
		s.says("set -e; y=5", "")
		s.says("true && echo a", "a\n")
		if got := line(t, s, "false"); got.exit.Code != 1 || got.exit.Restarted {
			t.Errorf("got %+v", got)
		}
		s.says("echo $y; set +e", "5\n")
	})
	t.Run("a program in the place of a builtin", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		must(t, os.Chmod(dir, 0o755))
		must(t, os.WriteFile(dir+"/echo", []byte("#!/bin/sh\ncat\nprintf 'mine %s\\n' \"$*\"\n"), 0o755))
		c := startGuest(t).client(client.Options{})
		s := openShell(t, c, sandbox.ShellOptions{})
		for range 10 {
			line(t, s, ":")
		}
		line(t, s, "PATH="+dir+":$PATH; enable -n echo")
		for range 10 {
			line(t, s, ":")
			if got := line(t, s, "echo a"); got.stdout != "mine a\n" || got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
		}
	})
}
