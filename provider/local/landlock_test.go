//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// newLandlock is [newRig] without what bubblewrap needs.
func newLandlock(t testing.TB) *rig {
	t.Helper()
	testenv.Require(t, "landlock")
	base := t.TempDir()
	st, err := statedir.Open(filepath.Join(base, "state"))
	must(t, err)
	g, err := st.InstallGuest(testenv.Guest(t))
	must(t, err)
	home := filepath.Join(base, "home")
	must(t, os.Mkdir(home, 0o755))
	return &rig{TB: t, state: st, guest: g, home: home, specs: map[string]sandbox.Spec{}}
}

func (r *rig) landlock(t testing.TB) *local.Provider {
	t.Helper()
	p := local.NewLandlock(local.Options{State: r.state.Path(), World: r.world, Warn: func(string, string) {}})
	t.Cleanup(func() { p.Close() })
	return p
}

// landlockSpec is the Spec for key of a sandbox without namespaces. Commands start in
// the workspace by its own path.
func (r *rig) landlockSpec(key string) sandbox.Spec {
	r.Helper()
	s := r.spec(key)
	s.Provider = "landlock"
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace {
			s.Workdir = m.Source
		}
	}
	s.Filesystem = sandbox.FilesystemRules{DenyRead: []string{filepath.Join(r.home, ".ssh"), "/etc/shadow"}, DenyWrite: []string{filepath.Join(r.home, ".ssh"), "/etc/shadow"}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs[s.Name] = s
	return s
}

// noMount is why others cannot.
const noMount = "nothing can be mounted"

// noTmp is why some checks of the suite cannot pass.
const noTmp = "the check keeps its notes in /tmp, which is the host's and closed"

// TestLandlockConformance runs the suite of all instances.
func TestLandlockConformance(t *testing.T) {
	// Bounds of the kernel for a user count what runs beside the test as the same user.
	testenv.Exhaustive(t, "the conformance suite once more, on a machine that does nothing else")
	r := newLandlock(t)
	h := r.harness()
	h.New = func(t testing.TB) sandbox.Provider { return r.landlock(t) }
	h.Spec = func(_ testing.TB, key string) sandbox.Spec { return r.landlockSpec(key) }
	h.Behind = providertest.Behind{
		Stop: func(t testing.TB, p sandbox.Provider, name string) { r.kill(t, p, name) },
		Restart: func(t testing.TB, p sandbox.Provider, name string) {
			r.kill(t, p, name)
			r.reopenBy(t, r.landlock(t), name)
		},
		Pause: func(t testing.TB, _ sandbox.Provider, name string) {
			must(t, r.landlock(t).Pause(context.Background(), name))
		},
		Destroy: func(t testing.TB, _ sandbox.Provider, name string) {
			must(t, r.landlock(t).Remove(context.Background(), name))
		},
	}
	h.Down = func(t testing.TB) sandbox.Provider {
		state := filepath.Join(t.TempDir(), "state")
		must(t, os.WriteFile(state, nil, 0o600))
		return local.NewLandlock(local.Options{State: state, World: r.world})
	}
	h.Exchange, h.InPlace = nil, true
	h.Leaks = r.leaksOfLandlock
	h.Without = map[string]string{
		"an engine that hangs times out":                                "no program is asked",
		"a file beyond its size is not written and reported":            noTmp,
		"a write that fails leaves the old file and nothing else":       "nothing bounds a folder of the host",
		"the bound of processes holds for those that live for a moment": "the command ends by a signal, and the limit is not named: a fault that is known",
		"onStart lines run again after a restart":                       "temporary files outlive a restart",
		"files and commands see the same":                               noTmp,
		"remount puts another file system at the workspace":             noMount,
		"remount ends no command":                                       noMount,
		"without a way out nothing is reached":                          "the interfaces of the host can be seen, see TestLandlockHolds for what is reached",
		"the inside is neither the host nor another sandbox":            "the loopback interface is one for all, see TestLandlockReaches",
	}
	providertest.Run(t, h)
}

// leaksOfLandlock holds that no process and no file of the rig's sandboxes is left.
func (r *rig) leaksOfLandlock(t testing.TB) {
	t.Helper()
	for _, dir := range []string{"sandboxes", "scratch"} {
		left, err := os.ReadDir(filepath.Join(r.state.Path(), "landlock", dir))
		if err == nil && len(left) > 0 {
			t.Errorf("%s are left: %v", dir, left)
		}
	}
	testenv.Success(t, func() error {
		if of := r.processes(t); len(of) > 0 {
			return fmt.Errorf("processes are left: %q", of)
		}
		return nil
	})
}

// TestLandlockHolds tries what commands must not do, and what they must be able to do.
func TestLandlockHolds(t *testing.T) {
	r := newLandlock(t)
	s := r.landlockSpec("holds")
	secret := filepath.Join(r.home, "secret")
	must(t, os.WriteFile(secret, []byte("hush"), 0o644))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	neighbour := exec.Command("sleep", "600")
	neighbour.Env = []string{"TOKEN=hush"}
	must(t, neighbour.Start())
	defer func() { neighbour.Process.Kill(); neighbour.Wait() }()
	pid := strconv.Itoa(neighbour.Process.Pid)
	sb := r.open(r.landlock(t), s)
	for _, tt := range []struct {
		name, line string
		fails      bool
		want       string
	}{
		{"write the workspace", "echo x >file && cat file", false, "x"},
		{"write the home", `echo x >"$HOME/file" && cat "$HOME/file"`, false, "x"},
		{"temporary files", `f=$(mktemp) && echo x >"$f" && cat "$f"`, false, "x"},
		{"modes", "echo x >m && chmod 640 m && stat -c %a m", false, "640"},
		{"times", "touch -d @1000 m && stat -c %Y m", false, "1000"},
		{"rename between folders", "mkdir from to && touch from/f && python3 -c 'import os; os.rename(\"from/f\", \"to/f\"); os.link(\"to/f\", \"from/g\")' && ls to", false, "f"},
		{"links", "ln -s m l && cat l && ln m h && cat h", false, "x\nx"},
		{"read what is outside", "cat " + secret, true, "Permission denied"},
		{"write what is outside", "echo x >>" + secret, true, "Permission denied"},
		{"mode of what is outside", "chmod 777 " + secret, true, "not permitted"},
		{"mode of what is outside by a link", "ln -s " + secret + " away && chmod 777 away", true, "not permitted"},
		{"times of what is outside", "touch -c " + secret, true, "not permitted"},
		{"truncate what is outside", "truncate -s 0 " + secret, true, "Permission denied"},
		{"link what is outside", "ln " + secret + " hard", true, ""},
		{"write the system", "echo x >/etc/x", true, ""},
		{"list the home", "ls " + r.home, true, "Permission denied"},
		{"signal the host", "kill -0 " + pid, true, "not permitted"},
		{"environment of the host", "cat /proc/" + pid + "/environ", true, ""},
		{"memory of the parent", "cat /proc/$PPID/mem", true, ""},
		{"root of the host", "ls /proc/" + pid + "/root/", true, ""},
		{"connect to the host", "exec 3<>/dev/tcp/127.0.0.1/" + port, true, "refused"},
		{"connect to the network", "exec 3<>/dev/tcp/192.0.2.1/80", true, "unreachable"},
		{"capabilities", "grep -c 'Cap[EPIA].*0000000000000000' /proc/self/status", false, "4"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status | tr -d '\\t'", false, "NoNewPrivs:1"},
	} {
		out, code := bash(t, sb, tt.line)
		if (code != 0) != tt.fails || !strings.Contains(out, tt.want) {
			t.Errorf("%s: code %d, %q; want fails=%v, %q", tt.name, code, out, tt.fails, tt.want)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "hush" {
		t.Errorf("the file outside is %q, %v", b, err)
	}
	if st, err := os.Stat(secret); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("the mode outside is %v, %v", st.Mode(), err)
	}
}

func bash(t testing.TB, sb sandbox.Sandbox, line string) (string, int) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"bash", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String()), exit.Code
}

// TestLandlockReaches holds that commands reach the listeners that were made for them,
// and each other's, and that the host reaches theirs.
func TestLandlockReaches(t *testing.T) {
	r := newLandlock(t)
	s := r.landlockSpec("reaches")
	sb := r.open(r.landlock(t), s)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	l, err := sb.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "from the proxy\n")
			c.Close()
		}
	}()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if out, code := bash(t, sb, "exec 3<>/dev/tcp/127.0.0.1/"+port+" && cat <&3"); code != 0 || out != "from the proxy" {
		t.Errorf("the listener of the host: code %d, %q", code, out)
	}
	const server = `import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 0)); s.listen(4)
print(s.getsockname()[0], s.getsockname()[1], flush=True)
while True:
    c, _ = s.accept(); c.sendall(b"from inside\n"); c.close()
`
	out, lines := io.Pipe()
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"python3", "-c", server}, Stdout: lines, Stderr: lines})
	must(t, err)
	defer p.Kill(ctx)
	var addr, at string
	if _, err := fmt.Fscan(out, &addr, &at); err != nil || addr != "127.0.0.1" {
		t.Fatalf("the server inside is at %q, %q, %v", addr, at, err)
	}
	if out, code := bash(t, sb, "exec 3<>/dev/tcp/127.0.0.1/"+at+" && cat <&3"); code != 0 || out != "from inside" {
		t.Errorf("the server inside: code %d, %q", code, out)
	}
	c, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", "127.0.0.1:"+at)
	must(t, err)
	b, err := io.ReadAll(c)
	if string(b) != "from inside\n" {
		t.Errorf("from the host: %q, %v", b, err)
	}
	c.Close()
	own, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer own.Close()
	if c, err := sb.(sandbox.Dialer).Dial(ctx, "tcp", own.Addr().String()); err == nil {
		c.Close()
		t.Error("a listener of the host was taken for one of the sandbox")
	}
}

// TestLandlockSweeps holds that nothing that commands have started is left when the
// guest is killed, however it has left its parents.
func TestLandlockSweeps(t *testing.T) {
	r := newLandlock(t)
	s := r.landlockSpec("sweeps")
	p := r.landlock(t)
	sb := r.open(p, s)
	marker := "7" + strconv.Itoa(os.Getpid())
	line := "for i in 1 2 3; do setsid sh -c 'sleep " + marker + " & sleep " + marker + "' >/dev/null 2>&1 & done; sleep " + marker
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	_, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}})
	must(t, err)
	testenv.Success(t, func() error {
		if n := sleepers(t, marker); n < 7 {
			return fmt.Errorf("%d of 7 processes run", n)
		}
		return nil
	})
	info, err := p.Inspect(ctx, s.Name)
	must(t, err)
	id, err := launch.Of(info.PID)
	must(t, err)
	must(t, id.Kill(ctx))
	testenv.Success(t, func() error {
		if n := sleepers(t, marker); n > 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		return nil
	})
}

// sleepers counts the processes that sleep for that time.
func sleepers(t testing.TB, marker string) (n int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, l := range lines {
		if b, err := os.ReadFile(l); err == nil && string(b) == "sleep\x00"+marker+"\x00" {
			n++
		}
	}
	return n
}
