package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// restoreCases are states that stand in the way of the driver when bash takes
// them up again: what the lines in set have made must be the same for look in
// a shell that was started anew.
var restoreCases = []struct {
	name string
	set  []string
	look string
}{
	{"read-only variables of the driver's names", []string{"readonly o=1 a=2 IFS=,", "set -f; shopt -s nullglob"}, "echo $-; shopt nullglob"},
	{"functions named like builtins", []string{"local() { exit; }; return() { exit; }; readonly() { exit; }; case_() { :; }", "set -f"}, "echo $-"},
	{"function named like a special builtin, in posix mode", []string{"unset() { echo mine; }; set() { :; }", "builtin set -o posix; builtin set -f"}, "echo $- $POSIXLY_CORRECT"},
	{"function with a name that posix mode refuses", []string{"x-y() { echo xy; }; set -o posix; set -f"}, "echo $-; set +o posix; x-y"},
	{"pattern that the options of now refuse", []string{"shopt -s extglob\nf() { case b in @(a|b)) echo yes;; esac; }", "shopt -u extglob; z() { echo z; }; set -f"}, "shopt -s extglob; f; z; echo $-"},
	{"no PWD", []string{"cd /usr; unset PWD OLDPWD"}, "pwd"},
	{"another PWD", []string{"cd /usr; PWD=secret"}, "pwd -P; echo $PWD"},
	{"nothing may be unset", []string{"unset PWD OLDPWD PATH HOME; set -u"}, "echo $-"},
	{"inherited locals", []string{"shopt -s localvar_inherit localvar_unset; o=5; REPLY=1; set -f"}, "echo $- $o $REPLY"},
	{"everything is exported and traced", []string{"set -a; set -T; set -E; set -f"}, "echo $-"},
	{"trap on return", []string{"trap 'echo ret >&2' RETURN; set -T; set -f"}, "echo $-"},
	{"trap on errors", []string{"trap 'echo err >&2' ERR; set -E; set -f"}, "echo $-"},
	{"invalid text under a locale", []string{`LC_ALL=C; x=$'a\xff\xc3'`, `LC_ALL=C.UTF-8; y=$'\xe2\x82'; declare -A m=([$'\001\xff']=$'\x7f')`}, `printf %s "$x$y${!m[@]}" | tr -c 'a-z' .; echo ${#m[@]}`},
	{"bodies with here-documents", []string{"f() { cat <<E\nhi $1\nE\n}; g() { x=$(cat <<E\nin\nE\n); echo $x; }", "h() { if cat <<E; then echo y; fi\nbody\nE\n}; set -f"}, "f a; g; h; echo $-"},
	{"strange prompts", []string{"PROMPT_COMMAND='exit 3'; PS1='$(exit)'; PS4='$(exit)'; TMOUT=1; set -f"}, "echo $-"},
	{"aliases of everything", []string{"alias builtin=exit set=exit shopt=exit if=exit case=exit while=exit unset=exit declare=exit; set -f"}, `\echo $-`},
}

func TestShellRestores(t *testing.T) {
	t.Parallel()
	c := startGuest(t).client(client.Options{})
	for _, tt := range restoreCases {
		t.Run(tt.name, func(t *testing.T) {
			s := openShell(t, c, sandbox.ShellOptions{})
			for _, text := range tt.set {
				if got := line(t, s, text); got.exit.Restarted || got.exit.Code != 0 {
					t.Fatalf("%q: got %+v", text, got)
				}
			}
			want := line(t, s, tt.look)
			for round := range 2 {
				if got := line(t, s, "kill -9 $$"); !got.exit.Restarted || got.exit.Code != 137 {
					t.Fatalf("the end: got %+v", got)
				}
				if got := line(t, s, tt.look); got != want {
					t.Errorf("after restart %d: got %+v, want %+v", round+1, got, want)
				}
			}
		})
	}
}

// TestShellNoEval holds that a bash that cannot evaluate lines any more is
// replaced, and not asked for ever.
func TestShellNoEval(t *testing.T) {
	t.Parallel()
	s := openShell(t, startGuest(t).client(client.Options{}), sandbox.ShellOptions{})
	line(t, s, "kept=1")
	if got := line(t, s, "enable -n eval"); !got.exit.Restarted {
		t.Errorf("got %+v", got)
	}
	if got := line(t, s, "echo $kept"); got.stdout != "1\n" || got.exit.Restarted {
		t.Errorf("got %+v", got)
	}
}

// TestShellStateOutOfReach holds that nothing in a shell can change, or add
// to, the files in which the guest keeps state: neither its restart nor the
// memory of the sandbox is then in the hands of what ran in it.
func TestShellStateOutOfReach(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	s := openShell(t, g.client(client.Options{}), sandbox.ShellOptions{})
	line(t, s, "kept=1")
	line(t, s, "exit")
	line(t, s, "true") // from here on there is a shell that has taken up a state
	got := line(t, s, `for f in /proc/[0-9]*/fd/*; do case $(readlink $f) in
*memfd*) { echo 'kept=forged'; head -c 100000000 /dev/zero; } >$f && echo reached;;
esac; done 2>/dev/null; exit`)
	if !strings.HasPrefix(got.stdout, "reached\n") {
		t.Errorf("there was nothing to write to: got %+v", got)
	}
	eventually(t, 5*time.Second, "the memory goes with the shell", func() bool { return memoryFiles(t, g.pid()) < 1<<20 })
	if got := line(t, s, "echo $kept"); got.stdout != "1\n" {
		t.Errorf("got %+v", got)
	}
}

// TestShellTextGoes is the same for the file that long lines are read from,
// and a shell that ends between two lines.
func TestShellTextGoes(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	s := openShell(t, g.client(client.Options{}), sandbox.ShellOptions{})
	now := filepath.Join(openDir(t), "now")
	line(t, s, `(until [ -e `+now+` ]; do sleep 0.01; done; for f in /proc/[0-9]*/fd/7; do case $(readlink $f) in
*memfd*) head -c 100000000 /dev/zero >$f;;
esac; done 2>/dev/null; kill -9 $$) & : '`+strings.Repeat("long", 100)+"'")
	must(t, os.WriteFile(now, nil, 0o644)) // not before the line has ended
	eventually(t, patience, "the shell ends", func() bool { return len(g.inside()) == 0 })
	eventually(t, 5*time.Second, "the memory goes with the shell", func() bool { return memoryFiles(t, g.pid()) < 1<<20 })
	if got := line(t, s, "echo a"); got.stdout != "a\n" || !got.exit.Restarted {
		t.Errorf("got %+v", got)
	}
}

// memoryFiles adds up the sizes of the files without a name of a process.
func memoryFiles(t *testing.T, pid int) (size int64) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, l := range links {
		if name, err := os.Readlink(l); err == nil && strings.Contains(name, "memfd:") {
			if fi, err := os.Stat(l); err == nil {
				size += fi.Size()
			}
		}
	}
	return size
}
