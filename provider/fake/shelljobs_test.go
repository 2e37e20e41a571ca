package fake_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// say runs a line and holds what it writes and how it ends.
func say(t *testing.T, sh sandbox.Shell, line string, status int, want string) {
	t.Helper()
	var out bytes.Buffer
	p, err := sh.Run(t.Context(), line, sandbox.Command{Stdout: &out, Stdin: strings.NewReader("input\n")})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != status || out.String() != want {
		t.Errorf("%q: %+v, %v, stdout %q; want %d, %q", line, exit, err, out.String(), status, want)
	}
}

// TestShellJobs holds that what runs in the background is a process: it can be
// waited for and killed, alone, from any line.
func TestShellJobs(t *testing.T) {
	_, sb := box(t, fake.Options{})
	sh, err := sb.OpenShell(t.Context(), sandbox.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	say(t, sh, "(while :; do sleep 0.01; done) & a=$!; while :; do :; done & b=$!; [ $a -lt $b ] && echo two", 0, "two\n")
	say(t, sh, "kill -9 $a; wait $a; echo $?; kill -0 $b && echo runs", 0, "137\nruns\n")
	say(t, sh, "kill -TERM $b; wait $b; echo $?; kill -0 $b 2>/dev/null || echo gone", 0, "143\ngone\n")
	say(t, sh, "{ sleep 0.01; exit 5; } & wait $!; echo $?; wait 99999; echo $?", 0, "5\n127\n")
	// Again and again, because nothing tells when the shell has begun to wait.
	say(t, sh, "trap '[ $x ] || echo hup; x=1' HUP; (while :; do sleep 1; kill -HUP $$; done) & a=$!; sleep 1000 & wait $!; echo $? $x; kill $! $a; wait $a; true", 0, "hup\n129 1\n")
	say(t, sh, "cat | (read -r x; echo $x; cat) & wait; cat", 0, "\ninput\n")
	say(t, sh, "false | true; echo $?; set -o pipefail; (exit 3) | true | :; echo $?; set +o pipefail; false | :; echo $?", 0, "0\n3\n0\n")
	say(t, sh, "set -eo pipefail; false || (exit 4) | : || echo failed; set +eo pipefail", 0, "failed\n")
	say(t, sh, "yes | head -n 1; x=$(yes | head -n 2 | wc -l); echo $x", 0, "y\n2\n")
	say(t, sh, "echo $(echo a; (sleep 0.02; echo b) &)", 0, "a b\n") // every process that can write is waited for
}

// TestFunctionsOutliveTheShell holds that what a shell keeps works in the next
// run of it, also what is made of processes.
func TestFunctionsOutliveTheShell(t *testing.T) {
	_, sb := box(t, fake.Options{})
	sh, err := sb.OpenShell(t.Context(), sandbox.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	say(t, sh, `f() { (echo "$1"; echo b) | sort | head -n 1; echo "$(g)" & wait $!; }; g() { echo "g $x"; }; x=kept; umask 077`, 0, "")
	for range 3 {
		say(t, sh, "x=lost; exit 3", 3, "")
		say(t, sh, "f c; umask", 0, "b\ng kept\n0077\n")
		say(t, sh, "[ $$ = $(sh -c 'echo $$') ] || kill -0 $$ && echo alive", 0, "alive\n")
	}
}

// TestShellLeaksNothing runs a thousand lines with everything that takes
// descriptors, and counts these.
func TestShellLeaksNothing(t *testing.T) {
	_, sb := box(t, fake.Options{})
	sh, err := sb.OpenShell(t.Context(), sandbox.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	lines := func(n int) {
		for range n {
			say(t, sh, "cat <<E | cat >f; cat <f; read -r x <f; echo $(cat f)\nhere\nE\n(cat) & yes | head -n 1; wait", 0, "here\nhere\ny\n")
			say(t, sh, "exec <f; cat; exec >/dev/null; echo unheard", 0, "here\n")
		}
	}
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	lines(10)
	before := open()
	lines(200)
	testenv.Success(t, func() error {
		if n := open(); n > before {
			return fmt.Errorf("%d descriptors are open, %d were", n, before)
		}
		return nil
	})
}
