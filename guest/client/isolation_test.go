package client_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// probe is the command that runs a probe inside.
func probe(name string, args ...string) sandbox.Command {
	return sandbox.Command{Args: append([]string{"/.sandbox/probe"}, args...), Env: map[string]string{probeEnv: name, "GORACE": os.Getenv("GORACE")}}
}

// findings returns what a probe reported.
func findings(t testing.TB, out string) map[string]syscall.Errno {
	t.Helper()
	all := map[string]syscall.Errno{}
	for line := range strings.Lines(out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[f.What] = syscall.Errno(f.Errno)
	}
	return all
}

func TestSandboxRefusesCalls(t *testing.T) {
	w := observing().start(t)
	r := run(t, w.Client, probe("calls"))
	got := findings(t, r.stdout)
	want := map[string]syscall.Errno{}
	for name := range refusedCalls() {
		want[name] = unix.EPERM
	}
	for name := range absentCalls() {
		want[name] = unix.ENOSYS
	}
	for name, errno := range got {
		if want[name] == 0 {
			want[name] = unix.EPERM // by its arguments
		}
		if errno != want[name] {
			t.Errorf("%s: %v, want %v", name, errno, want[name])
		}
	}
	if len(got) != len(refusedCalls())+len(absentCalls())+12 {
		t.Errorf("%d calls were made: %v\n%s", len(got), slices.Sorted(maps.Keys(got)), r.stderr)
	}
}

func TestSandboxRefusesSockets(t *testing.T) {
	for name, sockets := range map[string]bool{"closed": false, "Unix sockets allowed": true} {
		t.Run(name, func(t *testing.T) {
			p := observing()
			p.sockets = sockets
			w := p.start(t)
			for what, errno := range findings(t, run(t, w.Client, probe("sockets")).stdout) {
				var want syscall.Errno
				family, _, _ := strings.Cut(what, ",")
				switch family {
				case "inet", "inet6", "netlink", "stream pair", "packet pair":
				case "unix", "datagram pair", "raw pair":
					if !sockets {
						want = unix.EPERM
					}
				default:
					want = unix.EAFNOSUPPORT
				}
				if errno != want {
					t.Errorf("%s: %v, want %v", what, errno, want)
				}
			}
		})
	}
}

// TestLandlockIsSecond holds that what mounts would allow is not to be had
// where Landlock does not allow it too.
func TestLandlockIsSecond(t *testing.T) {
	for name, held := range map[string]bool{"with Landlock": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			p := observing()
			p.config.Landlock = held
			p.config.Readable = []string{"/usr"}
			w := p.start(t)
			for what, script := range map[string]string{
				"write":   "echo x > /private/file",
				"make":    "mkdir /private/dir",
				"read":    "cat /etc/ld.so.cache > /dev/null",
				"execute": "/.sandbox/probe -test.list=none",
			} {
				if r := run(t, w.Client, sh(script)); (r.exit.Code != 0) != held {
					t.Errorf("%s: exit %d, %q", what, r.exit.Code, r.stderr)
				}
			}
			for _, script := range []string{
				"echo x > /workspace/new && rm /workspace/new", "echo x > /tmp/new && mv /tmp/new /tmp/new2", "ls / /workspace /usr > /dev/null",
				"mkdir /workspace/d && mv /workspace/file /workspace/d/ && mv /workspace/d/file /workspace", "ls -l /proc/self/fd > /dev/null",
				"echo 900 > /proc/self/oom_score_adj", "echo x > /dev/shm/x && rm /dev/shm/x", "echo x > /dev/null", "head -c1 /dev/urandom > /dev/zero",
			} {
				if r := run(t, w.Client, sh(script)); r.exit.Code != 0 {
					t.Errorf("%s: exit %d, %q", script, r.exit.Code, r.stderr)
				}
			}
			if r := runTTY(t, w, "echo x > /dev/tty && stty size"); !strings.Contains(r, "x") || !strings.Contains(r, "24 80") {
				t.Errorf("the terminal said %q", r)
			}
		})
	}
}

func runTTY(t *testing.T, w *fixture, script string) string {
	t.Helper()
	cmd := sh(script)
	cmd.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	return run(t, w.Client, cmd).stdout
}

// TestShellInSandbox holds that a persistent shell lives with all of it.
func TestShellInSandbox(t *testing.T) {
	w := observing().start(t)
	if !w.Hello().Has(wire.FeatureObserve) {
		t.Errorf("features: %v", w.Hello().Features)
	}
	s, err := w.OpenShell(t.Context(), sandbox.ShellOptions{}, sandbox.Limits{})
	must(t, err)
	defer s.Close()
	for _, tt := range []struct{ line, want string }{
		{"x=1; cd sub", ""},
		{"echo y > /usr/from-shell; echo z > here", "/usr/from-shell"},
		{"echo $x; cat here", ""},
		{"(echo z > /workspace/closed/new) 2>/dev/null & wait", "/workspace/closed/new"},
	} {
		var out strings.Builder
		p, err := s.Run(t.Context(), tt.line, sandbox.Command{Stdout: &out, Stderr: &out})
		must(t, err)
		_, err = p.Wait()
		must(t, err)
		if got := pathsOf(p); strings.Join(got, " ") != tt.want {
			t.Errorf("%s: attempts %q, want %q; %s", tt.line, got, tt.want, out.String())
		}
	}
}
