//go:build linux || darwin

package sandboxexec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// standIn is in the place of sandbox-exec: it enforces nothing, keeps each
// profile, and logs what the file "refuse" says as refused by it, in the words of
// the kernel. It has the file "hole" let a trial find what is open, and "broken"
// refuse every profile; "deaf" has it refuse profiles of lines alone. A profile that
// does not show the path in the file "closed" has each command fail at that path.
const standIn = `#!/bin/sh
dir='%s'
[ "$1" = -p ] || exit 64
if [ -e "$dir/broken" ]; then echo 'sandbox-exec: profile is broken' >&2; exit 65; fi
tag=$(printf %%s "$2" | sed -n 's/^(deny default (with message "\(.*\)"))$/\1/p')
printf '%%s' "$2" >"$dir/profiles/$tag"
if [ "$tag" = trial ] && ! [ -e "$dir/hole" ]; then echo tried; exit 0; fi
if [ -e "$dir/deaf" ] && [ "$tag" != trial ]; then rm "$dir/deaf"; exit 71; fi
if [ -e "$dir/refuse" ]; then
  while read -r what; do
    printf '{"eventMessage":"Sandbox: %%s\\n%%s","timestamp":"2026-03-04 05:06:07.1+0100","processID":0}\n' "$what" "$tag" >>"$dir/log"
  done <"$dir/refuse"
fi
if [ -e "$dir/closed" ] && [ "$tag" != trial ] && ! printf '%%s' "$2" | grep -qF "(subpath \"$(cat "$dir/closed")\")"; then
  case $* in *"$(cat "$dir/closed")"*) echo "cat: $(cat "$dir/closed"): Operation not permitted" >&2; exit 1 ;; esac
fi
shift 2
exec "$@"
`

// logStandIn is in the place of log(1).
const logStandIn = `#!/bin/sh
printf '%%s\n' "$@" >'%[1]s/logargs'
if [ -e '%[1]s/user' ]; then echo "log: Must be admin to run 'stream' command" >&2; exit 64; fi
echo 'Filtering the log data using "x"'
exec tail -n +1 -f '%[1]s/log'
`

type rig struct {
	*testing.T
	dir, home, state, workspaces string
	p                            *Provider

	mu     sync.Mutex
	warned []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	base, err := hostpath.Canonical(t.TempDir())
	must(t, err)
	r := &rig{T: t, dir: filepath.Join(base, "standin"), home: filepath.Join(base, "home"), state: filepath.Join(base, "state")}
	r.workspaces = filepath.Join(r.state, "workspaces")
	for _, d := range []string{filepath.Join(r.dir, "profiles"), r.home, r.workspaces} {
		must(t, os.MkdirAll(d, 0o700))
	}
	for name, text := range map[string]string{"sandbox-exec": standIn, "log-stand-in": logStandIn} {
		must(t, os.WriteFile(filepath.Join(r.dir, name), []byte(fmt.Sprintf(text, r.dir)), 0o700))
	}
	r.file("log", "")
	r.p = r.provider()
	return r
}

func (r *rig) provider() *Provider {
	p := New(Options{
		State: r.state, Exec: filepath.Join(r.dir, "sandbox-exec"), Log: filepath.Join(r.dir, "log-stand-in"), Now: time.Now,
		World: func() hardening.World {
			return hardening.World{Canonical: hostpath.Canonical, Sensitive: []string{r.state}, Workspaces: []string{r.workspaces}, Home: r.home}
		},
		Outside: func(w hardening.World) []string { return w.Sensitive },
		Refuse:  func(sandbox.Spec) error { return nil },
		Warn: func(_, text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.warned = append(r.warned, text)
		},
	})
	r.Cleanup(func() { p.Close() })
	return p
}

func (r *rig) warnings() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.warned, "\n")
}

// file makes a file that the stand-ins look at.
func (r *rig) file(name, text string) {
	r.Helper()
	must(r, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

func (r *rig) spec(name string) sandbox.Spec {
	ws := filepath.Join(r.workspaces, name)
	must(r, os.MkdirAll(ws, 0o700))
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: "local",
		Owner:   sandbox.Owner{Instance: "i", Tenant: "t", Agent: "main", Session: name, Scope: sandbox.ScopeSession, ScopeKey: name},
		Workdir: sandbox.WorkspaceDir, UID: 1000, GID: 1000, Env: map[string]string{"FROM_SPEC": "spec", "HOME": sandbox.HomeDir},
		Mounts:       []sandbox.Mount{{Source: ws, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		ReadOnlyRoot: true, Network: "none", Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{PIDs: 512},
	}
}

// open makes the sandbox and opens it.
func (r *rig) open(s sandbox.Spec) *handle {
	r.Helper()
	_, err := r.p.Create(r.Context(), s)
	must(r, err)
	return r.reopen(s)
}

func (r *rig) reopen(s sandbox.Spec) *handle {
	r.Helper()
	sb, err := r.p.Open(r.Context(), s)
	must(r, err)
	r.Cleanup(func() { sb.Close() })
	return sb.(*handle)
}

func (r *rig) shell(h *handle, o sandbox.ShellOptions) *shell {
	r.Helper()
	s, err := h.OpenShell(r.Context(), o)
	must(r, err)
	r.Cleanup(func() { s.Close() })
	return s.(*shell)
}

type result struct {
	out, err string
	exit     sandbox.Exit
	p        sandbox.Process
}

func (r *rig) run(h *handle, args ...string) result {
	r.Helper()
	var out, said bytes.Buffer
	p, err := h.Start(r.Context(), sandbox.Command{Args: args, Stdout: &out, Stderr: &said})
	must(r, err)
	return r.wait(p, &out, &said)
}

func (r *rig) wait(p sandbox.Process, out, said *bytes.Buffer) result {
	r.Helper()
	exit, err := p.Wait()
	must(r, err)
	return result{out.String(), said.String(), exit, p}
}

func (r *rig) line(s sandbox.Shell, text string) result {
	r.Helper()
	var out, said bytes.Buffer
	p, err := s.Run(r.Context(), text, sandbox.Command{Stdout: &out, Stderr: &said})
	must(r, err)
	return r.wait(p, &out, &said)
}

// says holds what a line writes, and that it succeeds in a shell that has stayed.
func (r *rig) says(s sandbox.Shell, text, want string) {
	r.Helper()
	got := r.line(s, text)
	if got.out != want || got.err != "" || got.exit.Code != 0 || got.exit.Restarted {
		r.Errorf("%s: %+v with %q and %q, want %q", text, got.exit, got.out, got.err, want)
	}
}

// alive reports whether the process is there and no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

func (r *rig) pidIn(file string) (pid int) {
	r.Helper()
	testenv.Success(r, func() error {
		b, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err
	})
	return pid
}

// profile returns the profile of the last command.
func (r *rig) profile() string {
	r.Helper()
	list, err := os.ReadDir(filepath.Join(r.dir, "profiles"))
	must(r, err)
	var last os.FileInfo
	for _, e := range list {
		st, err := e.Info()
		must(r, err)
		if e.Name() != "trial" && (last == nil || st.ModTime().After(last.ModTime())) {
			last = st
		}
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "profiles", last.Name()))
	must(r, err)
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
