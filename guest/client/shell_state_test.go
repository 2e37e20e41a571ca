package client_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// stateCases set something in one line and look for it in another one, and
// again in a shell that was started anew between them.
var stateCases = []struct {
	name, only string
	set, look  string
	want       string
	lostInSh   bool // by a new sh: it cannot list its functions
}{
	{name: "directory", set: "mkdir -p '/tmp/a b'; cd '/tmp/a b'", look: "pwd; readlink /proc/self/cwd", want: "/tmp/a b\n/tmp/a b\n"},
	{name: "old directory", set: "cd /usr; cd /tmp", look: `echo "$OLDPWD"`, want: "/usr\n"},
	{name: "variable", set: "x='a  b'", look: `echo "$x"; env | grep -c '^x='`, want: "a  b\n0\n"},
	{name: "exported variable", set: "export x='a\nb'", look: `env | grep -A1 '^x='`, want: "x=a\nb\n"},
	{name: "bytes", set: "x=$(printf '\\001\\377\\303\\050\\047\\134\\n.')", look: `printf %s "$x"`, want: "\x01\xff\xc3('\\\n."},
	{name: "unset of the environment", set: "unset FROM_ENV", look: "echo ${FROM_ENV-none}", want: "none\n"},
	{name: "alias", set: `alias q="echo it\\'s"`, look: "q", want: "it's\n"},
	{name: "alias of two lines", set: "alias two='echo 1\necho 2'", look: "two", want: "1\n2\n"},
	{name: "umask", set: "umask 077", look: "umask", want: "0077\n"},
	{name: "trap", set: "trap 'echo caught' USR1", look: "kill -USR1 $$", want: "caught\n"},
	{name: "trap on commands", only: "bash", set: `trap 'd="it'\''s"' DEBUG`, look: `trap -p DEBUG; echo "$d"`, want: "trap -- 'd=\"it'\\''s\"' DEBUG\nit's\n"},
	{name: "trap on commands that prints", only: "bash", set: "trap 'echo dbg\necho dbg >&2' DEBUG", look: "trap -p DEBUG 2>/dev/null", want: "dbg\ntrap -- 'echo dbg\necho dbg >&2' DEBUG\n"},
	{name: "trap on errors", only: "bash", set: "trap 'echo failed' ERR", look: "false; true", want: "failed\n"},
	{name: "trap on errors, posix", only: "bash", set: "set -o posix; trap 'echo failed' ERR", look: "false; true", want: "failed\n"},
	{name: "trap on errors, inherited", only: "bash", set: "set -ET; trap 'echo failed' ERR", look: "f() { false; true; }; f", want: "failed\n"},
	{name: "trap on returns", only: "bash", set: "eval 'trap \"echo returned\" RETURN'", look: "trap -p RETURN", want: "trap -- 'echo returned' RETURN\n"},
	{name: "traps under functions of their names", only: "bash", set: "trap 'echo failed' ERR; trap() { echo mine; }; alias trap='echo alias'", look: "'trap'; builtin trap -p ERR", want: "mine\ntrap -- 'echo failed' ERR\n"},
	{name: "no trap", only: "bash", set: "trap : DEBUG ERR RETURN; trap - DEBUG ERR RETURN", look: "trap; declare -F | grep -c _traps; true", want: "0\n"},
	{name: "option", set: "set -f", look: "echo *", want: "*\n"},
	{name: "read-only", set: "readonly r=1", look: "(r=2) 2>/dev/null; echo $r", want: "1\n"},
	{name: "function", set: "f() { echo \"f $1\"; }", look: "f x", want: "f x\n", lostInSh: true},
	{name: "exported function", only: "bash", set: "f() { echo f; }; export -f f", look: "env bash -c f", want: "f\n"},
	{name: "function with patterns", only: "bash", set: "shopt -s extglob\nf() { case $1 in @(a|b)) echo yes;; esac; }", look: "f b; shopt extglob", want: "yes\nextglob        \ton\n"},
	{name: "function like an alias", only: "bash", set: "f() { l; }; l() { echo l; }; alias l='echo alias'", look: "f; l", want: "l\nalias\n"},
	{name: "function that shadows", only: "bash", set: "cd() { builtin cd \"$@\" && echo \"in $PWD\"; }; set() { echo set; }; declare() { echo no; }", look: "cd /usr; set", want: "in /usr\nset\n"},
	{name: "function named like ours", only: "bash", set: "__sandbox_state() { echo mine; }", look: "__sandbox_state", want: "mine\n"},
	{name: "function of another case", only: "bash", set: "shopt -s nocasematch; __SANDBOX() { echo mine; }", look: "__SANDBOX", want: "mine\n"},
	{name: "function without compgen", only: "bash", set: "enable -n compgen; f() { echo f; }", look: "f", want: "f\n"},
	{name: "function that is compgen", only: "bash", set: "compgen() { return 1; }; f() { echo f; }", look: "f; compgen; echo $?", want: "f\n1\n"},
	{name: "function of a traced shell", only: "bash", set: "set -eETu; trap : DEBUG ERR RETURN; f() { echo f; }", look: "f", want: "f\n"},
	{name: "no function", only: "bash", set: "f() { :; }; unset -f f", look: "declare -F | grep -vic __sandbox; true", want: "0\n"},
	{name: "array", only: "bash", set: "a=(1 'two words' $'x\\ny')", look: `printf '<%s>' "${a[@]}"`, want: "<1><two words><x\ny>"},
	{name: "map", only: "bash", set: "declare -A m; m[k]=v; m['a b']=c", look: `echo "${m[k]} ${m[a b]}"`, want: "v c\n"},
	{name: "integer and reference", only: "bash", set: "declare -i n=5; declare -n ref=n", look: "echo $((ref + 2))", want: "7\n"},
	{name: "shell option", only: "bash", set: "shopt -s nullglob dotglob; shopt -u expand_aliases", look: "shopt -q nullglob && shopt -q dotglob && ! shopt -q expand_aliases; echo $?", want: "0\n"},
	{name: "pipefail", only: "bash", set: "set -o pipefail -o allexport", look: "false | true; echo $?; y=1; env | grep -c '^y='", want: "1\n1\n"},
	{name: "variable named like ours", set: "o=1; token=2", look: "echo $o$token", want: "12\n"},
}

func TestShellState(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		for _, tt := range stateCases {
			if tt.only != "" && tt.only != k.name {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				s := openShell(t, c, sandbox.ShellOptions{Env: map[string]string{"FROM_ENV": "x"}})
				if got := line(t, s, tt.set); got.exit.Code != 0 || got.stdout+got.stderr != "" {
					t.Fatalf("set: got %+v", got)
				}
				if got := line(t, s, tt.look); got.stdout != tt.want || got.exit.Restarted {
					t.Errorf("in the next line: got %+v", got)
				}
				if got := line(t, s, "kill -9 $$"); !got.exit.Restarted || got.exit.Code != 137 {
					t.Errorf("the end: got %+v", got)
				}
				if got := line(t, s, tt.look); (got.stdout != tt.want) != (tt.lostInSh && !k.bash()) || got.exit.Restarted {
					t.Errorf("after a restart: got %+v", got)
				}
				line(t, s, "exit") // and what was restored is kept again
				if got := line(t, s, tt.look); got.exit.Restarted || tt.name != "function that shadows" && (got.stdout != tt.want) != (tt.lostInSh && !k.bash()) {
					t.Errorf("after a second one: got %+v", got)
				}
			})
		}
	})
}

// TestShellBegins holds what a new shell starts from.
func TestShellBegins(t *testing.T) {
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{ID: "mine", Dir: "/usr", Env: map[string]string{"A": "1"}})
		if s.ID() != "mine" || s.Program() != k.program {
			t.Errorf("%s, %s", s.ID(), s.Program())
		}
		got := line(t, s, "pwd; echo $A; umask; echo $-; ls -l /proc/self/fd | wc -l; echo \"$0\"")
		if f := strings.Split(got.stdout, "\n"); f[0] != "/usr" || f[1] != "1" || f[2] != "0022" || strings.ContainsAny(f[3], "iemnux") || f[5] != k.program {
			t.Errorf("got %+v", got)
		}
		if got := line(t, s, "for f in /proc/$$/fd/*; do [ ${f##*/} -gt 2 ] && readlink $f; done; true"); strings.Contains(got.stdout, "socket") || strings.Contains(got.stdout, "memfd") {
			t.Errorf("open in the shell: %q", got.stdout)
		}
		if other := openShell(t, c, sandbox.ShellOptions{}); len(other.ID()) != 16 {
			t.Errorf("id %q", other.ID())
		}
	})
}

func TestShellDirectoryDeleted(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		dir, err := os.MkdirTemp("", "gone")
		must(t, err)
		must(t, os.Chmod(dir, 0o777))
		defer os.RemoveAll(dir)
		s := openShell(t, c, sandbox.ShellOptions{Dir: dir})
		line(t, s, "mkdir d && cd d && rmdir ../d; kept=1")
		if got := line(t, s, "echo a; cd .. 2>/dev/null; true"); got.stdout != "a\n" || got.exit.Restarted {
			t.Errorf("got %+v", got)
		}
		line(t, s, "cd "+dir+"; mkdir e; cd e; rmdir ../e")
		must(t, os.RemoveAll(dir))
		line(t, s, "exit 1")
		if got := line(t, s, "echo $kept; cd /usr && pwd"); got.stdout != "1\n/usr\n" {
			t.Errorf("after a restart: got %+v", got)
		}
	})
}

// TestShellLargeState keeps what is large, and says nothing false of what
// is too large.
func TestShellLargeState(t *testing.T) {
	t.Parallel()
	long(t)
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		s := openShell(t, c, sandbox.ShellOptions{})
		line(t, s, "export BIG=$(head -c 3000000 /dev/zero | tr '\\0' x)")
		if got := line(t, s, "env; echo $?"); !strings.HasPrefix(got.stdout, "126") && !strings.HasPrefix(got.stdout, "127") && k.name != "busybox" {
			t.Errorf("a command under an environment that is too large: %.200s, %+v", got.stdout, got.exit)
		}
		if k.bash() {
			var b strings.Builder
			for i := range 300 {
				fmt.Fprintf(&b, "f%d() { local x=%d; if true; then echo \"$x\"; fi; }\n", i, i)
			}
			line(t, s, b.String())
			line(t, s, "a=(); for ((i = 0; i < 20000; i++)); do a+=(\"element $i\"); done")
		}
		line(t, s, "exit")
		if got := line(t, s, "echo ${#BIG}"); got.stdout != "3000000\n" {
			t.Errorf("got %+v", got)
		}
		if k.bash() {
			if got := line(t, s, "f299; f0; echo ${#a[@]} ${a[19999]}"); got.stdout != "299\n0\n20000 element 19999\n" {
				t.Errorf("got %+v", got)
			}
		}
		if !k.bash() && !testenv.All() {
			return // TestShellStateSizes holds the rest of this shell
		}
		line(t, s, "small=1")
		line(t, s, "HUGE=$BIG$BIG$BIG; HUGE=$HUGE$HUGE; small=2")
		if got := line(t, s, "echo $small ${#HUGE}; exit"); got.stdout != "2 18000000\n" {
			t.Errorf("while it lives: got %+v", got)
		}
		if got := line(t, s, "echo $small ${#HUGE}"); got.stdout != "1 0\n" {
			t.Errorf("the state before it grew too large: got %+v", got)
		}
	})
}
