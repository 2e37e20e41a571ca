package docker_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// shellLine runs one line of a shell and returns its outputs and its end.
func shellLine(t testing.TB, s sandbox.Shell, text string) (out, errOut string, exit sandbox.Exit) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	return shellContext(t, ctx, s, text)
}

func shellContext(t testing.TB, ctx context.Context, s sandbox.Shell, text string) (string, string, sandbox.Exit) {
	t.Helper()
	var out, errOut bytes.Buffer
	p, err := s.Run(ctx, text, sandbox.Command{Stdout: &out, Stderr: &errOut})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return out.String(), errOut.String(), exit
}

// withoutSocket is s opened where sockets do not cross the boundary.
func withoutSocket(s sandbox.Spec) sandbox.Spec {
	s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
	return s
}

// TestShell runs persistent shells in a real container over both
// transports, bash and the image's sh.
func TestShell(t *testing.T) {
	t.Parallel()
	w := dockertest.New(t)
	spec := w.Spec("shell")
	spec.Limits.OpenFiles = 100
	socket := w.Create(spec)
	relay := w.Reopen(withoutSocket(spec))
	// A PATH without bash, in which sh is still to be found.
	if out, code := sh(t, socket, "mkdir /tmp/sh && ln -s /bin/sh /bin/cat /bin/sleep /bin/setsid /bin/env /tmp/sh"); code != 0 {
		t.Fatal(out)
	}
	for name, sb := range map[string]sandbox.Sandbox{"socket": socket, "relay": relay} {
		for _, program := range []string{"bash", "sh"} {
			t.Run(name+" "+program, func(t *testing.T) {
				o := sandbox.ShellOptions{Env: map[string]string{"EXTRA": "e"}}
				if program == "sh" {
					o.Env["PATH"] = "/tmp/sh"
				}
				s, err := sb.OpenShell(context.Background(), o)
				must(t, err)
				defer s.Close()
				if s.Program() != program || len(s.ID()) != 16 {
					t.Errorf("%s, %s", s.Program(), s.ID())
				}
				shellInContainer(t, s)
			})
		}
	}
	eventuallyEmpty(t, socket)
}

func shellInContainer(t *testing.T, s sandbox.Shell) {
	for _, tt := range []struct {
		line, out string
		code      int
		restarted bool
	}{
		{`echo "$PWD $LANG $HOME $EXTRA"; ulimit -n`, "/workspace C.UTF-8 /home/sandbox e\n100\n", 0, false},
		{"cd /tmp; x=1; export y=2; alias a='echo alias'; umask 027; set -f", "", 0, false},
		{"a; env | while read -r l; do case $l in y=*) echo $l; esac; done; umask; echo * $x; pwd", "alias\ny=2\n0027\n* 1\n/tmp\n", 0, false},
		{"exit 3", "", 3, true},
		{"a; umask; echo * $x $y; pwd; ulimit -n", "alias\n0027\n* 1 2\n/tmp\n100\n", 0, false},
		{"set -n", "", 137, true},
		{"echo $x", "1\n", 0, false},
		{"kill -9 $$", "", 137, true},
		{"exec env sh -c 'exit 4'", "", 4, true},
		{"cat; exec >/dev/null", "", 0, false},
		{"x='" + strings.Repeat("y", 100_000) + "'", "", 0, false},
		{"echo ${#x}", "100000\n", 0, false},
	} {
		out, errOut, exit := shellLine(t, s, tt.line)
		if out != tt.out || errOut != "" || exit.Code != tt.code || exit.Restarted != tt.restarted {
			t.Errorf("%.80q: got %.200q, %.200q, %+v", tt.line, out, errOut, exit)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := s.Run(ctx, "echo begun; setsid sleep 1000 & trap '' TERM; sleep 1000; echo went on", sandbox.Command{Stdout: heard(cancel)})
	must(t, err)
	start := time.Now() // or a little later than it is given up
	exit, err := p.Wait()
	must(t, err)
	if exit.Code != 137 || !exit.Restarted || time.Since(start) > patience {
		t.Errorf("given up: got %+v after %v", exit, time.Since(start))
	}
	if out, _, exit := shellLine(t, s, "echo ${#x}; sleep 1000 &"); out != "100000\n" || exit.Restarted {
		t.Errorf("after the timeout: got %q, %+v", out, exit)
	}
}

// heard is called when something is written.
type heard func()

func (h heard) Write(b []byte) (int, error) {
	h()
	return len(b), nil
}

// eventuallyEmpty waits until only the guest and its stages are left.
func eventuallyEmpty(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	var out string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if out, _ = sh(t, sb, `ps -eo args= | grep -v -e 'sandbox-guest init' -e 'sandbox-guest stage' -e 'sandbox-guest relay' -e '^ps ' -e '^grep ' -e '^sh -c'`); out == "" {
			return
		}
	}
	t.Errorf("processes are left:\n%s", out)
}

// BenchmarkShellBuiltin runs a builtin of a shell over both transports, back
// to back, and reports the medians in microseconds.
func BenchmarkShellBuiltin(b *testing.B) {
	w := dockertest.New(b)
	spec := w.Spec("bench-shell")
	sandboxes := map[string]sandbox.Sandbox{"socket": w.Create(spec)}
	sandboxes["relay"] = w.Reopen(withoutSocket(spec))
	took := map[string][]time.Duration{}
	shells := map[string]sandbox.Shell{}
	for name, sb := range sandboxes {
		s, err := sb.OpenShell(context.Background(), sandbox.ShellOptions{})
		must(b, err)
		defer s.Close()
		shells[name] = s
	}
	for b.Loop() {
		for name, s := range shells {
			start := time.Now()
			p, err := s.Run(context.Background(), ":", sandbox.Command{})
			must(b, err)
			_, err = p.Wait()
			must(b, err)
			took[name] = append(took[name], time.Since(start))
		}
	}
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1000, name+"-µs")
	}
}
