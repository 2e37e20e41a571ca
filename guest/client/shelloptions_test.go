package client_test

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// shellOptions are lines whose options, traps and descriptors could end the
// shell in a later line.
var shellOptions = []struct{ name, only, line string }{
	{"errexit", "", "set -e; echo start"},
	{"errexit by name", "", "set -o errexit"},
	{"errexit and more", "bash", "set -euo pipefail 2>/dev/null; set -eu; cd /"},
	{"errexit, last is false", "", "set -e; test -f /none && echo found"},
	{"errexit in a function", "", "f() { set -e; true; }; f"},
	{"errexit in functions", "bash", "set -eE; shopt -s inherit_errexit"},
	{"errexit by eval", "", `eval "set -e"`},
	{"nounset", "", "set -u"},
	{"pipefail", "bash", "set -e; set -o pipefail"},
	{"posix", "bash", "set -o posix; set -e"},
	{"keyword", "bash", "set -k; set -e"},
	{"trace", "", "set -eux"},
	{"noclobber", "", "set -eC"},
	{"separators", "", "set -e; IFS=eval"},
	{"path", "", "set -e; PATH=/none"},
	{"read-only", "", "set -e; readonly IFS"},
	{"standard error closed", "", "set -e; exec 2>&-"},
	{"all closed", "", "exec 0<&- 1>&- 2>&-; set -u"},
	{"output elsewhere", "", "exec >/dev/null 2>&1; set -e"},
	{"trap on errors", "bash", "trap 'exit 7' ERR"},
	{"trap on errors, inherited", "bash", "set -E; trap 'exit 7' ERR"},
	{"trap on errors by a function", "bash", `die() { echo "$1"; exit 7; }; trap 'die $LINENO' ERR`},
	{"trap on errors, aliased", "bash", "trap 'echo failed; builtin kill -9 $$' ERR"},
	{"trap on commands", "bash", `n=0; trap '[ $((n++)) -gt 60 ] && exit 7' DEBUG`},
	{"trap on returns", "bash", "trap 'exit 7' RETURN"},
	{"trap that sets", "bash", "trap 'set -e' ERR"},
	{"trap on the end", "", "set -e; trap 'echo bye; exit 7' EXIT"},
	{"functions", "", "set -e; false() { return 1; }; test() { return 1; }"},
}

// TestShellOptionsAreOfTheirLine holds that what a line sets ends neither the
// shell nor what it has left running in the lines after it.
func TestShellOptionsAreOfTheirLine(t *testing.T) {
	t.Parallel()
	eachShell(t, func(t *testing.T, g *guest, c *client.Client, k kind) {
		for _, tt := range shellOptions {
			if tt.only != "" && tt.only != k.name {
				continue
			}
			t.Run(tt.name, func(t *testing.T) {
				s := openShell(t, c, sandbox.ShellOptions{})
				before := line(t, s, "sleep 4400 & server=$!; echo $$ $server")
				if before.exit.Restarted || len(strings.Fields(before.stdout)) != 2 {
					t.Fatalf("at first: %+v", before)
				}
				if got := line(t, s, tt.line); got.exit.Restarted {
					t.Errorf("%q has ended the shell: %+v", tt.line, got)
				}
				f := func(text string, code int, out string) {
					t.Helper()
					got := line(t, s, text)
					if got.exit.Restarted || got.exit.Code != code || got.stdout != out {
						t.Errorf("%q: %+v, want %d and %q", text, got, code, out)
					}
				}
				f("command false; echo after", 0, "after\n")
				f("command false", 1, "")
				f("(exit 3)", 3, "")
				if tt.name != "posix" {
					f("echo $?", 0, "3\n")
				}
				f(`echo "$none"`, 0, "\n")
				f("f() { command false; return 4; }; f", 4, "")
				f("command false | cat 2>/dev/null; echo after", 0, "after\n")
				f("{ echo on error >&2; }", 0, "")
				got := line(t, s, "kill -0 $server; echo $? $$ $server")
				if want := "0 " + before.stdout; got.stdout != want {
					t.Errorf("afterwards: %+v, want %q", got, want)
				}
			})
		}
	})
}
