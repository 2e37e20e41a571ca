package client_test

import (
	"strings"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// What a step expects of Exit.Restarted.
const (
	stays = iota
	restarts
	either // shells differ
)

// A step is one line of a case. An output of "*" is not looked at, nor is a
// code of -1.
type step struct {
	line      string
	out       string
	code      int
	restarted int
}

// shellCases are lines that wedge, kill, deceive or confuse shells which are
// driven over their standard input. Each begins in a new shell with kept=1.
var shellCases = []struct {
	name  string
	only  string // a shell
	steps []step
}{
	{name: "unclosed quote", steps: []step{{"echo 'a", "*", -1, either}}},
	{name: "unclosed double quote", steps: []step{{`echo "a`, "*", -1, either}}},
	{name: "open here-document", steps: []step{{"cat <<E\nbody\n", "body\n", 0, stays}}},
	{name: "open here-document without body", steps: []step{{"cat <<E", "", 0, stays}}},
	// bash 5.2 corrupts its memory there and may fall with the line after it.
	{name: "open substitution", steps: []step{{"echo $(", "*", -1, either}, {"true", "*", -1, either}}},
	{name: "open group", steps: []step{{"{ echo a", "*", -1, either}}},
	{name: "syntax error", steps: []step{{"echo a; fi", "*", 2, either}}},
	{name: "exec to null", steps: []step{{"exec >/dev/null; echo gone", "", 0, stays}, {"echo back", "back\n", 0, stays}}},
	{name: "exec closes all", steps: []step{{"exec 0<&- 1>&- 2>&-", "", 0, stays}, {"echo back", "back\n", 0, stays}}},
	{name: "exec closes the script", only: "bash", steps: []step{{"exec 10>&- 11>&- 12>&- 13>&- 255>&-", "*", -1, either}}},
	{name: "set -n", steps: []step{{"set -n", "", 137, restarts}}},
	{name: "set -t", only: "bash", steps: []step{{"set -t", "", -1, restarts}}},
	{name: "redefined echo", steps: []step{{"echo() { :; }", "", 0, stays}, {"echo a", "", 0, stays}, {"unset -f echo", "", 0, stays}}},
	{name: "redefined printf", steps: []step{{"printf() { :; }", "", 0, stays}, {"printf a", "", 0, stays}}},
	{name: "redefined read", steps: []step{{"read() { :; }", "", 0, stays}}},
	{name: "redefined eval", steps: []step{{"eval() { echo mine; }", "*", -1, either}}},
	{name: "redefined declare and trap", steps: []step{{"declare() { echo mine; }; alias() { echo mine; }; shopt() { exit 1; }", "*", -1, either}}},
	{name: "redefined builtin", only: "bash", steps: []step{{"builtin() { echo mine; }", "", 137, restarts}}},
	{name: "redefined builtin and unset", only: "bash", steps: []step{
		{"unset() { :; }; builtin() { command builtin \"$@\"; }", "*", -1, either}, {"exit", "", 0, restarts}, {"type -t builtin", "builtin\n", 0, stays},
	}},
	{name: "redefined command", steps: []step{{"command() { :; }", "*", -1, either}}},
	{name: "redefined driver", steps: []step{{"__sandbox() { :; }; __Sandbox() { :; }; __sandbox_state() { :; }", "*", -1, either}}},
	{name: "aliased driver", steps: []step{{"alias builtin=: command=: eval=: __sandbox=: printf=:", "", 0, stays}, {"unalias -a", "", 0, stays}}},
	{name: "disabled builtins", only: "bash", steps: []step{{"enable -n printf declare", "", -1, restarts}}},
	{name: "cat", steps: []step{{"cat", "", 0, stays}}},
	{name: "read", steps: []step{{"read x; echo $?", "1\n", 0, stays}}},
	{name: "exit", steps: []step{{"exit 3", "", 3, restarts}}},
	{name: "exit trap speaks", only: "bash", steps: []step{{"trap 'echo bye' EXIT; exit 4", "bye\n", 4, restarts}}},
	{name: "set -e", steps: []step{{"set -e; false", "", 1, restarts}}},
	{name: "set -e is of its line", steps: []step{{"set -e", "", 0, stays}, {"false", "", 1, stays}, {"case $- in *e*) echo on;; *) echo off;; esac", "off\n", 0, stays}}},
	{name: "set -e ends its line", steps: []step{{"set -e; false || x=1; (exit 3); x=2", "", 3, restarts}, {"echo $x", "\n", 0, stays}}},
	{name: "set -e and a list", steps: []step{{"set -e; x=1; false && x=2", "", 1, stays}, {"echo $x", "1\n", 0, stays}}},
	{name: "set -u", steps: []step{{"set -u; echo $none", "*", -1, either}}},
	{name: "set -u is of its line", steps: []step{{"set -u", "", 0, stays}, {"echo a$none", "a\n", 0, stays}}},
	{name: "exec of a command", steps: []step{{"exec env echo=x sh -c 'echo other; exit 5'", "*", -1, restarts}}},
	{name: "exec of true", steps: []step{{"exec true", "", 0, restarts}}},
	{name: "kill itself", steps: []step{{"kill -9 $$", "", 137, restarts}}},
	{name: "terminate itself", steps: []step{{"kill $$", "", 143, restarts}}},
	{name: "false end mark", steps: []step{{`printf '\0000123456789abcdef 7\n'; echo 0; echo __sandbox 0`, "\x000123456789abcdef 7\n0\n__sandbox 0\n", 0, stays}}},
	{name: "trailing backslash", steps: []step{{`echo a \`, "*", 0, stays}}},
	{name: "trailing backslash and newline", steps: []step{{"echo a \\\n", "a\n", 0, stays}}},
	{name: "debug trap", only: "bash", steps: []step{{"trap 'echo dbg' DEBUG", "", 0, stays}, {"true", "dbg\n", 0, stays}, {"trap - DEBUG", "*", 0, stays}}},
	{name: "debug trap everywhere", only: "bash", steps: []step{
		{"set -T; trap 'echo \"dbg\"; echo rm -rf / >&2' DEBUG", "", 0, stays}, {"true", "dbg\n", 0, stays}, {"kill -9 $$", "*", 137, restarts}, {"trap - DEBUG", "*", 0, stays},
	}},
	{name: "debug trap that skips", only: "bash", steps: []step{{"shopt -s extdebug; trap false DEBUG", "", -1, either}}},
	{name: "debug trap that says more than a pipe holds", only: "bash", steps: []step{
		{"trap 'printf %0080000d 0' DEBUG", "", 0, stays}, {"x=1", "*", 0, stays}, {"trap - DEBUG", "*", 0, stays}, {"kill -9 $$", "", 137, restarts}, {"echo $x", "1\n", 0, stays},
	}},
	{name: "debug trap that takes the output away", only: "bash", steps: []step{{"trap 'exec >/dev/null' DEBUG", "", -1, either}, {"true", "*", -1, either}}},
	{name: "error trap", only: "bash", steps: []step{{"set -E; trap 'echo err' ERR", "", 0, stays}, {"false", "err\n", 1, stays}, {"trap - ERR", "", 0, stays}}},
	{name: "set -x", steps: []step{{"set -x", "", 0, stays}, {"echo a", "a\n", 0, stays}, {"set +x", "", 0, stays}}},
	{name: "set -v", steps: []step{{"set -v", "", 0, stays}, {"echo a", "a\n", 0, stays}}},
	{name: "trace into any descriptor", only: "bash", steps: []step{{"BASH_XTRACEFD=1; set -x", "", 0, stays}, {"set +x; unset BASH_XTRACEFD", "*", -1, either}}},
	{name: "no file may grow", steps: []step{{"ulimit -f 0", "", 0, stays}, {"echo a", "a\n", 0, stays}}},
	{name: "no descriptors", steps: []step{{"ulimit -n 3", "", -1, restarts}}},
	{name: "few descriptors", steps: []step{{"ulimit -n 12", "", -1, either}}},
	{name: "no glob, no clobber", steps: []step{{"set -f; set -C", "", 0, stays}, {"echo *", "*\n", 0, stays}}},
	{name: "strange separators", steps: []step{{"IFS=0123456789abcdef/", "", 0, stays}, {"false", "", 1, stays}}},
	{name: "posix mode", only: "bash", steps: []step{{"set -o posix", "", 0, stays}, {"kill -9 $$", "", 137, restarts}, {"echo $POSIXLY_CORRECT", "y\n", 0, stays}}},
	{name: "restricted mode", only: "bash", steps: []step{{"set -r", "", -1, restarts}}},
	{name: "status is kept", steps: []step{{"(exit 42)", "", 42, stays}, {"echo $?", "42\n", 0, stays}}},
	{name: "status of a signal", steps: []step{{"sh -c 'kill -15 $$' 2>/dev/null || (kill -15 $$)", "*", -1, either}}},
	{name: "empty line", steps: []step{{"", "", 0, stays}, {"\n\n", "", 0, stays}, {"# comment", "", 0, stays}}},
	{name: "return", steps: []step{{"return 3", "*", -1, either}}},
	{name: "many commands", steps: []step{{"a=1\nb=2\nfor i in 1 2; do\necho $i\ndone\necho $a$b", "1\n2\n12\n", 0, stays}}},
	{name: "quotes", steps: []step{{`echo "it's" 'a "b"' it\'s`, "it's a \"b\" it's\n", 0, stays}}},
	{name: "read-only variables", steps: []step{{"readonly ro=1", "", 0, stays}, {"kill -9 $$", "", 137, restarts}, {"echo $ro", "1\n", 0, stays}}},
	{name: "holder killed", steps: []step{{"for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q 'hold keep' && kill -9 ${p#/proc/}; done; sleep 0.5", "*", 137, restarts}}},
	{name: "everything killed", steps: []step{{"kill -9 -1; sleep 0.5", "*", 137, restarts}}},
	{name: "own group killed", steps: []step{{"kill -9 0", "", 137, restarts}}},
	{name: "128 and more", steps: []step{{"sleep 100 & kill -9 $!; wait $!", "*", 137, stays}, {"exit 200", "", 200, restarts}}},
	{name: "long line", steps: []step{{"x='" + strings.Repeat("long ", 40000) + "'", "", 0, stays}, {"echo ${#x}", "200000\n", 0, stays}}},
}

func TestShellCases(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		for _, tt := range shellCases {
			if tt.only != "" && tt.only != k.name {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				s := openShell(t, c, sandbox.ShellOptions{})
				line(t, s, "kept=1")
				for _, st := range tt.steps {
					got := line(t, s, st.line)
					if st.out != "*" && got.stdout != st.out || st.code >= 0 && got.exit.Code != st.code ||
						st.restarted != either && got.exit.Restarted != (st.restarted == restarts) {
						t.Errorf("%.100q: got %+v", st.line, got)
					}
				}
				if got := line(t, s, "echo alive; echo \"kept=$kept\""); got.stdout != "alive\nkept=1\n" {
					t.Errorf("afterwards: got %+v", got)
				}
			})
		}
		g.empty(5 * time.Second)
	})
}
