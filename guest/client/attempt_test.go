package client_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"golang.org/x/sys/unix"
)

func attemptsOf(p sandbox.Process) []client.Attempt { return p.(client.Observed).Attempts() }

// pathsOf are the paths that were tried, in order.
func pathsOf(p sandbox.Process) []string {
	var list []string
	for _, a := range attemptsOf(p) {
		list = append(list, a.Path)
	}
	slices.Sort(list)
	return list
}

// observed runs a command to its end and returns what it tried.
func observed(t testing.TB, w *fixture, cmd sandbox.Command) (attempts []client.Attempt, r result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	p, err := w.Start(ctx, cmd)
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return attemptsOf(p), result{exit: exit, stdout: out.String(), stderr: errOut.String()}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	w := observing().start(t)
	for _, tt := range []struct {
		name, script string
		want         []string
	}{
		{"absolute", "echo x > /usr/new", []string{"/usr/new"}},
		{"existing", "echo x > /usr/bin/env", []string{"/usr/bin/env"}},
		{"relative", "cd /usr/lib; echo x > ../share/new", []string{"/usr/share/new"}},
		{"dots", "echo x > /workspace/../usr/./new", []string{"/usr/new"}},
		{"linked parent", "echo x > /workspace/tousr/new", []string{"/usr/new"}},
		{"linked parent, dots", "echo x > /workspace/tousr/bin/../new", []string{"/usr/new"}},
		{"system link", "echo x > /bin/new", []string{"/usr/bin/new"}},
		{"dangling link", "echo x > /workspace/toair", []string{"/usr/dangling"}},
		{"closed folder", "echo x > closed/file", []string{"/workspace/closed/file"}},
		{"closed folder through a link", "echo x > toclosed/new", []string{"/workspace/closed/new"}},
		{"closed file", "echo x >> key", []string{"/workspace/key"}},
		{"closed file removed", "rm -f key", []string{"/workspace/key"}},
		{"closed file replaced", "mv file key", []string{"/workspace/key"}},
		{"pinned folder renamed", "mv pinned elsewhere", []string{"/workspace/pinned"}},
		{"masked folder", "echo x > hidden/file", []string{"/workspace/hidden/file"}},
		{"hidden folder", "echo x > /home/user/file", []string{"/home/user/file"}},
		{"root", "mkdir /new", []string{"/new"}},
		{"several", "mkdir /usr/a; rm /usr/bin/env; touch /usr/b; touch /usr/b", []string{"/usr/a", "/usr/b", "/usr/bin/env"}},
		{"a child's child", "sh -c 'sh -c \"echo x > /usr/deep\"'", []string{"/usr/deep"}},
		{"what mounts allow and Landlock does not", "echo x > /private/x", []string{"/private/x"}},

		{"nothing outside", "echo x > new; rm new; mkdir -p a/b; mv a/b a/c; rm -r a; ln -s file l; rm l; chmod 600 file; touch file", nil},
		{"in the temporary folder", "echo x > /tmp/new; rm /tmp/new", nil},
		{"pinned folder written", "echo x > pinned/new; rm pinned/new", nil},
		{"link inside", "echo x > tosub/new; rm sub/new", nil},
		{"devices", "echo x > /dev/null; echo x > /dev/stderr; echo 1 > /proc/self/oom_score_adj", nil},
		{"reading", "cat /usr/bin/env /workspace/closed/file > /dev/null; ls -l /usr", nil},
		{"there already", "mkdir /usr /usr/bin", nil},
		{"not there", "rm -f /usr/nothing; rmdir /usr/nothing; mv /usr/nothing /usr/other", nil},
		{"refused by itself", "chmod 000 file; cat file; chmod 644 file; chown 0 file", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempts, r := observed(t, w, sh(tt.script))
			var got []string
			for _, a := range attempts {
				got = append(got, a.Path)
				if a.PID < 2 || a.Program == "" || a.Operation != sandbox.OpWrite || time.Since(a.Time) > time.Minute {
					t.Errorf("%+v", a)
				}
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Errorf("attempts %q, want %q; %s", got, tt.want, r.stderr)
			}
			if len(tt.want) > 0 && r.exit.Code == 0 && tt.name != "a child's child" {
				t.Errorf("the command ended well")
			}
		})
	}
}

// TestAttemptsByEveryCall tries each call that changes files on a file that
// is closed, and each that makes one in a closed folder.
func TestAttemptsByEveryCall(t *testing.T) {
	t.Parallel()
	w := observing().start(t)
	for _, tt := range []struct {
		path string
		more []string
	}{{"/workspace/closed/file", nil}, {"/workspace/closed/new", []string{"make"}}} {
		_, r := observed(t, w, probe("ways", append([]string{tt.path, "list"}, tt.more...)...))
		names := findings(t, r.stdout)
		if len(names) < 5 {
			t.Fatalf("%v, %s", names, r.stderr)
		}
		for name := range names {
			attempts, r := observed(t, w, probe("ways", append([]string{tt.path, name}, tt.more...)...))
			errno := findings(t, r.stdout)[name]
			if errno == unix.ENOSYS && (name == "setxattrat" || name == "fchmodat2") {
				continue // the kernel has none
			}
			if len(attempts) != 1 || attempts[0].Path != tt.path || attempts[0].Program != "probe" {
				t.Errorf("%s: attempts %+v", name, attempts)
			}
			switch errno {
			case unix.EROFS, unix.EACCES, unix.EXDEV, unix.EPERM, unix.EBUSY:
			default:
				t.Errorf("%s: %v", name, errno)
			}
		}
	}
}

// TestAttemptsOfAThread holds that a thread is seen as itself.
func TestAttemptsOfAThread(t *testing.T) {
	w := observing().start(t)
	attempts, r := observed(t, w, probe("threads"))
	got := findings(t, r.stdout)
	if len(attempts) != 1 || attempts[0].Path != "/usr/by-thread" || attempts[0].Program != "own name" || syscall.Errno(attempts[0].PID) != got["tid"] {
		t.Errorf("%+v, %+v, %s", attempts, got, r.stderr)
	}
}

// TestAttemptsOfAStaticProgram holds that no library has to help.
func TestAttemptsOfAStaticProgram(t *testing.T) {
	w := observing().start(t)
	attempts, r := observed(t, w, sandbox.Command{Args: []string{"/.sandbox/bin/sandbox-guest", "probe", "write-system"}})
	var seen []string
	for _, a := range attempts {
		if a.Program != "sandbox-guest" {
			t.Errorf("%+v", a)
		}
		seen = append(seen, a.Path)
	}
	if !slices.Contains(seen, "/usr/bin/env") || !strings.Contains(r.stdout, "contained") {
		t.Errorf("%q, %s%s", seen, r.stdout, r.stderr)
	}
}

// TestAttemptsAreBounded tries more paths than are reported.
func TestAttemptsAreBounded(t *testing.T) {
	w := observing().start(t)
	attempts, _ := observed(t, w, sh("for i in $(seq 1 200); do echo > /usr/new$i; echo > /usr/new$i; done"))
	if len(attempts) != 64 {
		t.Errorf("%d attempts", len(attempts))
	}
}

// TestManyTrappedCalls holds that ordinary writing is bearable.
func TestManyTrappedCalls(t *testing.T) {
	p := observing()
	w := p.start(t)
	attempts, r := observed(t, w, probe("many", "2000"))
	with := findings(t, r.stdout)["nanoseconds"]
	p.config.Observe = false
	_, r = observed(t, p.start(t), probe("many", "2000"))
	without := findings(t, r.stdout)["nanoseconds"]
	t.Logf("opening a file for writing takes %d ns, unobserved %d ns", with, without)
	if len(attempts) != 0 || with == 0 || time.Duration(with) > 2*time.Millisecond {
		t.Errorf("%v each, attempts %+v", time.Duration(with), attempts)
	}
}

// TestKilledInTheMiddle ends commands that have calls under way.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	w := observing().start(t)
	for range 30 {
		ready := make(chan struct{})
		cmd := probe("endless")
		cmd.Stdout = &onFirstWrite{done: ready}
		p, err := w.Start(t.Context(), cmd)
		must(t, err)
		<-ready
		must(t, p.Kill(t.Context()))
		if exit, err := p.Wait(); err != nil || exit.Signal != "KILL" {
			t.Fatalf("%+v, %v", exit, err)
		}
		for _, path := range pathsOf(p) {
			if path != "/usr/endless" {
				t.Errorf("an attempt at %s", path)
			}
		}
	}
	if attempts, _ := observed(t, w, sh("echo x > /usr/after")); len(attempts) != 1 {
		t.Errorf("afterwards: %+v", attempts)
	}
}

type onFirstWrite struct {
	done chan struct{}
	said bool
}

func (w *onFirstWrite) Write(b []byte) (int, error) {
	if !w.said {
		w.said = true
		close(w.done)
	}
	return len(b), nil
}

// TestPathThatChanges checks that a program which changes a path while it is
// read falsifies the report and nothing else.
func TestPathThatChanges(t *testing.T) {
	w := observing().start(t)
	attempts, r := observed(t, w, probe("flip"))
	if got, reported := findings(t, r.stdout)["opened"]; got != 0 || !reported {
		t.Errorf("%d forbidden files were opened; %s", got, r.stderr)
	}
	for _, a := range attempts {
		if !strings.HasPrefix(a.Path, "/workspace/") {
			t.Errorf("%+v", a)
		}
	}
}

// TestDetachedAttempts holds that a client that has its answer hears no more.
func TestDetachedAttempts(t *testing.T) {
	w := observing().start(t)
	cmd := sh("(until [ -e go ]; do sleep 0.01; done; echo x > /usr/late; echo x > done) & echo x > /usr/early")
	cmd.Detach = true
	attempts, _ := observed(t, w, cmd)
	if len(attempts) != 1 || attempts[0].Path != "/usr/early" {
		t.Errorf("%+v", attempts)
	}
	if r := run(t, w.Client, sh("touch go")); r.exit.Code != 0 {
		t.Fatal(r)
	}
	eventually(t, patience, "the descendant lives on", func() bool {
		return run(t, w.Client, sh("test -e done")).exit.Code == 0
	})
}
