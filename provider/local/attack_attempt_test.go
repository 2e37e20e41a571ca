//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// An attempt is one way out.
type attempt struct {
	name   string // stable, lower case
	script string // of bash; see [stage.plan] for its variables

	before func(*fixture) // what the host does first
	// during is what the host does when the script has said "ready". The
	// script then waits for the file "go" in its folder.
	during func(*fixture)
	then   []string // further scripts, each a command of its own
	tty    bool

	control place
	why     string // there is no control
	// within names an attempt before this one in the group, the script of which has
	// this one's: inside they are one command, and this is its control.
	within string
}

// A place is where an attempt has to succeed.
type place int

const (
	onHost        place = iota // run by the sandbox's user without a sandbox
	asRoot                     // run by root without a sandbox
	withRoot                   // as onHost, where root has prepared it
	inNamespaces               // run as root of new namespaces without a sandbox
	inOpenSandbox              // in a sandbox without denies
	nowhere                    // see attempt.why
)

// A group is attempts on one kind of stage.
type group struct {
	name     string
	layouts  []layout
	fresh    bool // each attempt has a stage of its own
	attempts []attempt
}

// TestAttacks makes every attempt, and then its control.
func TestAttacks(t *testing.T) {
	k := newKit(t)
	names := map[string]bool{}
	for _, g := range groups() {
		for _, a := range g.attempts {
			if names[a.name] {
				t.Errorf("two attempts are called %s", a.name)
			}
			names[a.name] = true
		}
		t.Run(g.name, func(t *testing.T) {
			if testing.Short() && g.name != "read" {
				t.Skip("long")
			}
			g.run(t, k)
		})
	}
	if len(names) < 60 {
		t.Errorf("only %d attempts", len(names))
	}
	t.Logf("%d attempts", len(names))
}

// run makes the attempts of a group in one sandbox, as long as it holds.
func (g group) run(t *testing.T, k *kit) {
	var s *fixture
	controls := 0
	for i, a := range g.attempts {
		if a.within != "" {
			controls++
			if !slices.ContainsFunc(g.attempts[:i], func(b attempt) bool { return b.name == a.within && strings.Contains(b.script, a.script) }) {
				t.Errorf("%s does not make %s", a.within, a.name)
			}
			t.Run(a.name+"/control", func(sub *testing.T) { a.succeeds(sub, k, g.layouts) })
			continue
		}
		if s == nil {
			s = newFixture(t, k, g.layouts...)
			s.up()
		}
		ok := t.Run(a.name, func(t *testing.T) { a.inside(t, s) })
		if !ok || g.fresh {
			s = nil // who knows what it has left
		}
		if a.control != nowhere {
			controls++
			t.Run(a.name+"/control", func(sub *testing.T) { a.succeeds(sub, k, g.layouts) })
		} else if a.why == "" {
			t.Errorf("%s has no control and no reason", a.name)
		}
	}
	if controls == 0 {
		t.Error("no attempt has a control")
	}
}

// inside makes the attempt in the sandbox of s and looks whether all is well.
func (a attempt) inside(t *testing.T, s *fixture) {
	outer := s.TB
	s.TB = t
	defer func() { s.TB = outer }()
	if a.before != nil {
		a.before(s)
		s.own()
		s.remember()
	}
	out := a.start(t, s, s.sandboxed)
	for _, what := range s.damage(out) {
		t.Errorf("%s\noutput: %.2000q", what, out)
	}
	if slices.Contains(s.spec.Filesystem.AllowRead, "/") {
		return // its script says it: each command looks at all of the host's files
	}
	if got := s.inSandboxQuiet("echo alive"); got != "alive" {
		t.Errorf("the sandbox answers %q", got)
	}
}

// succeeds makes the attempt where it has to have an effect.
func (a attempt) succeeds(t *testing.T, k *kit, layouts []layout) {
	if (a.control == asRoot || a.control == withRoot) && os.Geteuid() != 0 {
		t.Skip("shown by root's run")
	}
	s := newFixture(t, k, layouts...)
	run := s.onHost
	switch a.control {
	case inOpenSandbox:
		s.spec.Filesystem.DenyRead, s.spec.Filesystem.DenyWrite = nil, nil
		s.up()
		run = s.sandboxed
	case asRoot:
		run = s.onHostAsRoot
	case inNamespaces:
		run = s.inNamespaces
	}
	if a.before != nil {
		a.before(s)
		s.own()
		s.remember()
	}
	out := a.start(t, s, run)
	if len(s.damage(out)) == 0 {
		t.Errorf("without a sandbox it has no effect either, so it shows nothing\noutput: %.2000q", out)
	}
}

// start runs the script by run, with what the host does meanwhile.
func (a attempt) start(t *testing.T, s *fixture, run runner) string {
	out := &watched{}
	if a.during != nil {
		out.want, out.seen = "ready\n", make(chan struct{})
		done := make(chan struct{})
		defer func() { <-done }()
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			defer close(done)
			select {
			case <-out.seen:
				a.during(s)
				s.give(s.agent + "/go")
			case <-stop:
			}
		}()
		defer os.Remove(s.agent + "/go")
	}
	run(t, a, out)
	for _, script := range a.then {
		run(t, attempt{script: script}, out)
	}
	return out.String()
}

// give makes an empty file of the sandbox's user.
func (s *fixture) give(path string) {
	f, err := os.Create(path)
	if err == nil {
		_ = f.Chown(s.kit.uid, s.kit.uid)
		f.Close()
	}
}

// A runner runs a script to its end.
type runner func(t testing.TB, a attempt, out *watched)

// patience bounds one script.
const patience = time.Minute

func (s *fixture) sandboxed(t testing.TB, a attempt, out *watched) {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	env := map[string]string{"WS": sandbox.WorkspaceDir, "P": sandbox.GuestDir + "/bin/sandbox-guest probe", "DENIED": s.denied()}
	for _, e := range s.envs {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	c := sandbox.Command{Args: []string{"bash", "-c", a.script}, Env: env, Stdout: out, Stderr: out}
	if a.tty {
		c.TTY = &sandbox.TTY{Rows: 24, Cols: 80}
	}
	p, err := s.sb.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Errorf("the sandbox did not outlive it: %v", err)
	}
}

// inSandboxQuiet returns what a script says, trimmed, and what went wrong.
func (s *fixture) inSandboxQuiet(script string) string {
	out := &watched{}
	s.sandboxed(s.TB, attempt{script: script}, out)
	return strings.TrimSpace(out.String())
}

func (s *fixture) onHost(t testing.TB, a attempt, out *watched) {
	s.bash(out, a, []string{"bash", "-c", a.script}, s.kit.uid)
}

func (s *fixture) onHostAsRoot(t testing.TB, a attempt, out *watched) {
	s.bash(out, a, []string{"bash", "-c", a.script}, os.Geteuid())
}

func (s *fixture) inNamespaces(t testing.TB, a attempt, out *watched) {
	s.bash(out, a, []string{"unshare", "-Urm", "bash", "-c", a.script}, s.kit.uid)
}

// bash runs a script on the host in the agent's folder.
func (s *fixture) bash(out *watched, a attempt, args []string, uid int) {
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.agent, out, out
	cmd.WaitDelay = patience
	cmd.Env = append(slices.Clone(s.envs), "PATH="+os.Getenv("PATH"), "HOME="+s.home, "LANG=C.UTF-8", "GORACE="+os.Getenv("GORACE"),
		"WS="+s.agent, "P="+s.kit.guest+" probe", "DENIED="+s.denied())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	_ = cmd.Run() // what it did is looked at
}

// A watched is an output in which something is waited for. It keeps the first
// MiB.
type watched struct {
	mu   sync.Mutex
	b    bytes.Buffer
	want string
	seen chan struct{}
	once sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.b.Len() < 1<<20 {
		w.b.Write(p)
	}
	if w.want != "" && strings.Contains(w.b.String(), w.want) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
