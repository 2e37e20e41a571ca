//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// A guardRig is an instance with a closed file, and what its provider warns of.
type guardRig struct {
	*rig
	spec sandbox.Spec
	env  string // on the host
	p    *local.Provider
	sb   sandbox.Sandbox

	mu       sync.Mutex
	warnings []string
}

func newGuardRig(t testing.TB, change func(*rig, *sandbox.Spec)) *guardRig {
	t.Helper()
	g := &guardRig{rig: newRig(t)}
	g.spec = g.rig.spec("a")
	g.env = filepath.Join(workspaceOf(g.spec), ".env")
	give(t, g.spec, g.env, "secret")
	if change != nil {
		change(g.rig, &g.spec)
	}
	g.p = local.New(local.Options{State: g.state.Path(), World: g.world, Warn: func(_, warning string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.warnings = append(g.warnings, warning)
	}})
	t.Cleanup(func() { g.p.Close() })
	g.sb = g.open(g.p, g.spec)
	return g
}

// warned returns what has been warned of so far.
func (g *guardRig) warned() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.warnings, "\n")
}

// start starts a script that says "ready", and returns once it has.
func (g *guardRig) start(t testing.TB, script string, detach bool) sandbox.Process {
	t.Helper()
	out := &until{want: "ready", seen: make(chan struct{})}
	p, err := g.sb.Start(context.Background(), sandbox.Command{Args: []string{"sh", "-c", script}, Stdout: out, Detach: detach})
	must(t, err)
	select {
	case <-out.seen:
	case <-time.After(testenv.Patience):
		t.Fatal("it does not start")
	}
	return p
}

// An until closes seen when want was written.
type until struct {
	mu   sync.Mutex
	got  bytes.Buffer
	want string
	seen chan struct{}
	once sync.Once
}

func (u *until) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got.Write(b)
	if strings.Contains(u.got.String(), u.want) {
		u.once.Do(func() { close(u.seen) })
	}
	return len(b), nil
}

// ends are what a host does that takes a mask away.
var ends = []struct {
	name string
	do   func(t testing.TB, g *guardRig)
}{
	{"replaced", func(t testing.TB, g *guardRig) {
		give(t, g.spec, g.env+".new", "new secret")
		must(t, os.Rename(g.env+".new", g.env))
	}},
	{"removed", func(t testing.TB, g *guardRig) { must(t, os.Remove(g.env)) }},
	{"renamed", func(t testing.TB, g *guardRig) {
		must(t, os.Rename(g.env, g.env+"~"))
		give(t, g.spec, g.env, "new secret")
	}},
}

// TestSandboxEndsWithAMask holds that what runs in an instance ends when the host takes
// a mask from it, gets the reason, and that the next command has a new instance.
func TestSandboxEndsWithAMask(t *testing.T) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			g := newGuardRig(t, nil)
			first := g.sb.Info().PID
			p := g.start(t, "echo ready; sleep 1000", false)
			began := time.Now()
			e.do(t, g)
			_, err := p.Wait()
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), g.env) || !strings.Contains(err.Error(), "on the host") {
				t.Errorf("the command is told %v", err)
			}
			t.Logf("it took %v", time.Since(began))
			testenv.Until(t, "somebody is warned", func() bool { return strings.Contains(g.warned(), g.env) })
			if out, code := sh(t, g.sb, "cat .env || echo closed"); e.name != "removed" && (code != 0 || !strings.HasSuffix(out, "closed")) {
				t.Errorf("the next command reads %d %q", code, out)
			}
			if g.sb.Info().PID == first {
				t.Error("the sandbox is the same")
			}
		})
	}
}

// TestDetachedCommandEndsWithAMask holds that nothing goes on for which no caller
// waits, and that a caller who goes on gets the reason.
func TestDetachedCommandEndsWithAMask(t *testing.T) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			g := newGuardRig(t, nil)
			g.start(t, "echo ready; exec sleep 100", true)
			e.do(t, g)
			testenv.Until(t, "the sandbox ends", func() bool { return len(g.processes(t)) == 0 })
			testenv.Until(t, "somebody is warned", func() bool { return strings.Contains(g.warned(), g.env) })
			if _, err := g.sb.Start(context.Background(), sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), g.env) {
				t.Errorf("who had left it there is told %v", err)
			}
			if out, code := sh(t, g.reopen(g.p, g.spec), "cat .env"); code == 0 {
				t.Errorf("it reads %q", out)
			}
		})
	}
}

// TestShellEndsWithAMask holds that what a shell has left running ends, and
// that the shell goes on in a new instance and says so.
func TestShellEndsWithAMask(t *testing.T) {
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			g := newGuardRig(t, nil)
			shell, err := g.sb.OpenShell(context.Background(), sandbox.ShellOptions{})
			must(t, err)
			defer shell.Close()
			line(t, shell, "x=kept; sleep 1000 &")
			line(t, shell, "true") // which begins when the state after the one before is kept
			e.do(t, g)
			testenv.Until(t, "the sandbox ends", func() bool { return len(g.processes(t)) == 0 })
			out, exit := line(t, shell, "echo $x; jobs; cat .env 2>&-")
			if out != "kept" || !exit.Restarted {
				t.Errorf("the next line says %q, %+v", out, exit)
			}
		})
	}
}

// TestIdleSandboxEndsInSilence holds that there is no report of a sandbox in which
// nothing ran, and that the next command does not notice.
func TestIdleSandboxEndsInSilence(t *testing.T) {
	g := newGuardRig(t, nil)
	sh(t, g.sb, "true")
	ends[0].do(t, g)
	testenv.Until(t, "the sandbox ends", func() bool { return len(g.processes(t)) == 0 })
	if out, code := sh(t, g.sb, "cat .env"); code == 0 {
		t.Errorf("it reads %q", out)
	}
	if got := g.warned(); got != "" {
		t.Errorf("warned of %q", got)
	}
}

// TestHarmlessMountsEndNothing holds that an instance outlives changes of its mounts
// that open nothing: here a folder goes that could be written to.
func TestHarmlessMountsEndNothing(t *testing.T) {
	var open string
	g := newGuardRig(t, func(r *rig, s *sandbox.Spec) {
		open = filepath.Join(r.home, "lib", "open")
		must(t, os.MkdirAll(open, 0o755))
		must(t, os.Chown(open, s.UID, s.GID))
		s.Filesystem.AllowRead = []string{filepath.Dir(open)}
		s.Filesystem.AllowWrite = []string{open}
	})
	p := g.start(t, "echo x >"+open+"/x && rm "+open+"/x && echo ready; sleep 0.5; until test -e go; do sleep 0.01; done", false)
	mounts := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", g.sb.Info().PID))
		must(t, err)
		return string(text)
	}
	if !strings.Contains(mounts(), open) {
		t.Fatal("it is no mount, so this shows nothing")
	}
	must(t, os.Remove(open))
	if strings.Contains(mounts(), open) {
		t.Fatal("the mount is still there, so this shows nothing")
	}
	give(t, g.spec, filepath.Join(workspaceOf(g.spec), "go"), "")
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("the command: %+v, %v", exit, err)
	}
	if got := g.warned(); got != "" {
		t.Errorf("warned of %q", got)
	}
}

// TestGuardLeavesNothing holds that no descriptor is left of a guard, however
// its instance has ended. Goroutines are looked for when all tests have run.
func TestGuardLeavesNothing(t *testing.T) {
	watching := func() (n int) {
		fds, err := filepath.Glob("/proc/self/fd/*")
		must(t, err)
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasSuffix(to, "/mountinfo") || strings.Contains(to, "inotify") {
				n++
			}
		}
		return n
	}
	before := watching()
	for range 3 {
		g := newGuardRig(t, nil)
		g.start(t, "echo ready; exec sleep 100", false)
		testenv.Until(t, "there is a guard", func() bool { return watching() >= before+3 })
		ends[0].do(t, g)
		testenv.Until(t, "the guard has let go", func() bool { return watching() == before })
		g.start(t, "echo ready; exec sleep 100", true)
		testenv.Until(t, "there is another one", func() bool { return watching() >= before+3 })
		must(t, g.sb.Close())
		must(t, g.p.Close())
		if n := watching(); n != before {
			t.Errorf("%d descriptors, before %d", n, before)
		}
	}
}

// TestPublicFileReplacedEndsNothing holds that a file of the system which every
// user may read, such as /etc/passwd, can be replaced on the host under what
// the instance shows in its place, and that one which is closed to others cannot.
func TestPublicFileReplacedEndsNothing(t *testing.T) {
	for _, e := range []struct{ name string }{{"replaced"}, {"removed"}} {
		for mode, ended := range map[os.FileMode]bool{0o644: e.name == "removed", 0o600: true} {
			t.Run(fmt.Sprintf("%s %v", e.name, mode), func(t *testing.T) {
				var file string
				g := newGuardRig(t, func(r *rig, s *sandbox.Spec) {
					dir := filepath.Join(r.home, "system")
					must(t, os.Mkdir(dir, 0o755))
					file = filepath.Join(dir, "passwd")
					must(t, os.WriteFile(file, []byte("host"), mode))
					ours := filepath.Join(r.home, "ours")
					must(t, os.WriteFile(ours, []byte("ours"), 0o644))
					s.Filesystem.AllowRead = []string{dir}
					s.Mounts = append(s.Mounts, sandbox.Mount{Source: ours, Target: file, ReadOnly: true, Role: sandbox.RoleBind})
				})
				p := g.start(t, "cat "+file+" >seen; echo ready; until test -e go; do sleep 0.01; done", false)
				first := g.sb.Info().PID
				testenv.Until(t, "there is a guard", func() bool { return guards() > 0 })
				switch e.name {
				case "replaced":
					must(t, os.WriteFile(file+".new", []byte("new"), mode))
					must(t, os.Chmod(file+".new", mode))
					must(t, os.Rename(file+".new", file))
				default:
					must(t, os.Remove(file))
				}
				if ended {
					if _, err := p.Wait(); sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), file) {
						t.Errorf("the command: %v", err)
					}
					return
				}
				give(t, g.spec, filepath.Join(workspaceOf(g.spec), "go"), "")
				if exit, err := p.Wait(); err != nil || exit.Code != 0 || g.warned() != "" {
					t.Errorf("the command: %+v, %v; warned of %q", exit, err, g.warned())
				}
				if out, code := sh(t, g.sb, "cat seen "+file); code != 0 || out != "oursours" || g.sb.Info().PID == first {
					t.Errorf("the next command sees %d %q", code, out)
				}
			})
		}
	}
}

// guards counts the watches that this process has of renames.
func guards() (n int) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}
