package client_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A idleShell is bash in a sandbox of its own, in which is seen what it opens, that
// has run builtins.
type idleShell struct {
	sandbox.Shell
	t   *testing.T
	pid int
}

func newIdleShell(t *testing.T) *idleShell {
	t.Helper()
	w := observing().start(t)
	s := &idleShell{Shell: openShell(t, w.Client, sandbox.ShellOptions{}), t: t}
	children := readFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.cmd.Process.Pid))
	guest, err := strconv.Atoi(strings.TrimSpace(children))
	must(t, err)
	s.pid = pidIn(t, guest, "bash\x00--norc")
	s.says(":", "")
	return s
}

// says runs a line and holds what it writes.
func (s *idleShell) says(text, want string) {
	s.t.Helper()
	if got := line(s.t, s, text); got.stdout != want || got.stderr != "" || got.exit.Restarted {
		s.t.Errorf("%s: got %+v, want %q", text, got, want)
	}
}

// calm runs builtins until the shell has its outputs.
func (s *idleShell) calm() {
	s.t.Helper()
	for range 200 { // the guest may make a process of its own at any time
		if s.says("echo calm; echo calm", "calm\ncalm\n"); s.has() {
			return
		}
	}
	s.t.Fatal("the shell does not take its outputs")
}

// has reports whether the shell has its outputs.
func (s *idleShell) has() bool { return s.fd(250) && s.fd(251) }

func (s *idleShell) fd(n int) bool {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", s.pid, n))
	return err == nil && strings.HasPrefix(to, "pipe:")
}

// TestShellOwnOutputs holds what must not change when a shell keeps its outputs
// from line to line: a line gets its own output, and no other.
func TestShellOwnOutputs(t *testing.T) {
	t.Parallel()
	s := newIdleShell(t)
	t.Run("apart and exact", func(t *testing.T) {
		s.calm()
		got := line(t, s, `printf 'a\000\377\nno newline'; printf 'e\r\000' >&2; set -- ${x=1}; (exit 3)`)
		if got.stdout != "a\x00\xff\nno newline" || got.stderr != "e\r\x00" || got.exit.Code != 3 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("much", func(t *testing.T) {
		s.calm()
		s.says(`printf '%300000s' x; builtin printf '%70000s' y`, strings.Repeat(" ", 299_999)+"x"+strings.Repeat(" ", 69_999)+"y")
		if !s.has() {
			t.Log("a process was made by somebody meanwhile")
		}
	})
	t.Run("one writer for both, and none", func(t *testing.T) {
		s.calm()
		var both strings.Builder
		lineWith(t, s, "for i in 1 2 3; do echo o$i; echo e$i >&2; done", sandbox.Command{Stdout: &both, Stderr: &both})
		if both.String() != "o1\ne1\no2\ne2\no3\ne3\n" {
			t.Errorf("got %q", both.String())
		}
		p, err := s.Run(t.Context(), "echo a; echo b >&2; false", sandbox.Command{})
		must(t, err)
		if exit, err := p.Wait(); err != nil || exit.Code != 1 {
			t.Errorf("got %+v, %v", exit, err)
		}
		s.says("echo $?", "1\n")
	})
	t.Run("input", func(t *testing.T) {
		s.calm()
		if got := lineWith(t, s, "read a; read b; echo $b$a", sandbox.Command{Stdin: strings.NewReader("1\n2\n3\n")}); got.stdout != "21\n" {
			t.Errorf("got %+v", got)
		}
		s.says("read a || echo none", "none\n")
	})
	t.Run("outputs of its own", func(t *testing.T) {
		s.calm()
		s.says("exec >/dev/null 2>&1; echo a", "")
		s.says("echo b", "b\n")
	})
	t.Run("programs do not get them", func(t *testing.T) {
		s.calm()
		s.says("exec ls /proc/self/fd 2>&1 | { read a; read b; read c; read d; echo $a $b $c; }", "0 1 2\n")
		s.says("ls /proc/self/fd | { read a; read b; read c; read d; echo $a $b $c; }", "0 1 2\n") // dropped by now
		if s.fd(250) || s.fd(251) {
			t.Error("the shell keeps what others may have too")
		}
	})
	t.Run("a status outlasts them", func(t *testing.T) {
		s.calm()
		line(t, s, "sleep 0; (exit 7)")
		s.says("echo $?", "7\n")
	})
	t.Run("what is left running", func(t *testing.T) {
		for range 20 {
			s.calm()
			line(t, s, "{ sleep 0.001; echo late; echo late >&2; } &")
			for range 5 {
				s.says("echo own", "own\n")
			}
		}
		s.calm()
		line(t, s, "(trap '' PIPE; while :; do echo noise; done) & x=$!")
		s.says("echo own", "own\n")
		s.calm()
		s.says("kill -9 $x; wait $x 2>&-; echo $?", "137\n")
	})
	t.Run("errors that end a line", func(t *testing.T) {
		for _, text := range []string{`: $((1/0))`, `echo $(`, `)`, `readonly r=1; r=2`, `break 2 3`} {
			s.calm()
			if got := line(t, s, text); got.exit.Restarted {
				t.Errorf("%s: %+v", text, got)
			}
			s.says("echo fine", "fine\n")
		}
	})
}

// TestShellOwnNumbers holds what becomes of a shell that cannot have its
// outputs, or loses them.
func TestShellOwnNumbers(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]string{"a number is somebody's": "250>mine", "both numbers are somebody's": "250>mine 251>too"} {
		t.Run(name, func(t *testing.T) {
			s := newIdleShell(t)
			s.says("exec "+open, "")
			for range 20 {
				s.says("echo a", "a\n")
			}
			s.says("echo text >&250; exec 250>&- 251>&-; read x <mine; echo $x", "text\n")
			if s.fd(250) || s.fd(251) {
				t.Error("the shell has taken its outputs")
			}
		})
	}
	t.Run("a shell that cannot let go", func(t *testing.T) {
		s := newIdleShell(t)
		s.calm()
		s.says("command() { :; }", "")
		s.says("sleep 0", "")
		for range 20 {
			s.says("echo a", "a\n")
		}
	})
	t.Run("few numbers", func(t *testing.T) {
		s := newIdleShell(t)
		s.says("ulimit -n 64", "")
		for i := range 20 {
			s.says(fmt.Sprint("echo ", i), fmt.Sprintln(i))
		}
	})
	t.Run("fewer than before", func(t *testing.T) {
		s := newIdleShell(t)
		s.calm()
		s.says("ulimit -n 64; echo a", "a\n")
		for i := range 20 {
			s.says(fmt.Sprint("echo ", i), fmt.Sprintln(i))
		}
		s.says("ls /proc/self/fd | { read a; read b; read c; read d; echo $a $b $c; }", "0 1 2\n")
	})
	t.Run("a line that closes everything", func(t *testing.T) {
		s := newIdleShell(t)
		s.calm()
		got := line(t, s, "for ((i = 3; i < 255; i++)); do eval \"exec $i>&-\"; done; echo a; x=1")
		if got.stdout != "a\n" {
			t.Errorf("got %+v", got)
		}
		for i := range 5 {
			if got := line(t, s, fmt.Sprint("echo ", i)); got.stdout != fmt.Sprintln(i) {
				t.Errorf("got %+v", got)
			}
		}
	})
	for name, first := range map[string]string{
		"errexit": "set -e", "nounset": "set -u", "posix": "set -o posix", "noclobber": "set -C", "noglob": "set -f", "xtrace": "set -x",
		"nocasematch": "shopt -s nocasematch", "nocasematch and traps": "shopt -s nocasematch; set -T", "separators": "IFS=0123456789",
		"words of ours": "set -- 2 drop own+ take begin", "few calls": "FUNCNEST=2", "descriptors": "exec 3>&2 4>&1; exec 3>/dev/null 4>/dev/null",
		"functions":  "exec() { echo exec; }; command() { echo command; }; eval() { echo eval; }",
		"no builtin": "enable -n exec command", "a trap": "trap 'echo trap >/dev/null' DEBUG; set -T", "an alias": "alias exec=false command=false builtin=false",
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdleShell(t)
			line(t, s, first)
			for i := range 8 {
				if got := line(t, s, fmt.Sprint("echo ", i)); got.stdout != fmt.Sprintln(i) || got.exit != (sandbox.Exit{Usage: got.exit.Usage}) {
					t.Errorf("got %+v", got)
				}
			}
			if got := line(t, s, "(echo b)"); got.stdout != "b\n" || got.exit.Code != 0 {
				t.Errorf("got %+v", got)
			}
			if got := line(t, s, "echo c"); got.stdout != "c\n" || got.exit.Code != 0 || got.exit.Restarted {
				t.Errorf("got %+v", got)
			}
		})
	}
}
