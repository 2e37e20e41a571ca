//go:build linux

package local_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// A stage is a small host: the folder of an agent, folders that settings
// open, and a good deal that no code inside may reach, all of it owned by the
// sandbox's own user, so that nothing but the sandbox stands between.
type fixture struct {
	testing.TB
	kit  *kit
	base string

	agent   string // the agent's own folder, writable, at /workspace too
	home    string // of the person; no part of it is shown
	read    string // filesystem.allowRead
	write   string // filesystem.allowWrite
	outside string // not shown
	state   string

	token    string // in everything that must not be read
	before   string // what the guarded files looked like
	contacts atomic.Int32
	ears     []func() bool   // each returns when its contacts until now were counted, or false
	extra    []string        // further files that hold the token
	lax      bool            // what lies outside is shown, and holds no secret
	startup  bool            // the home is open, its start-up files are looked at alone
	traps    []func() string // further looks, each says what is wrong or ""

	provider *local.Provider
	spec     sandbox.Spec
	sb       sandbox.Sandbox
	envs     []string // for scripts
}

// A layout makes changes to a stage before anybody sees it.
type layout func(*fixture)

func newFixture(t testing.TB, k *kit, layouts ...layout) *fixture {
	t.Helper()
	base, err := os.MkdirTemp(k.dir, "s")
	must(t, err)
	must(t, os.Chmod(base, 0o755))
	s := &fixture{TB: t, kit: k, base: base, token: "TOKEN-" + randomText()}
	for name, at := range map[string]*string{"agent": &s.agent, "home": &s.home, "read": &s.read, "write": &s.write, "outside": &s.outside} {
		*at = filepath.Join(base, "host", name)
	}
	s.state = k.state
	for _, f := range s.secrets() {
		s.file(f, s.token+"\n")
	}
	for _, f := range []string{
		s.agent + "/frozen/file", s.agent + "/deploy/file", s.agent + "/shared/file", s.agent + "/readme", s.read + "/note", s.write + "/note", s.write + "/locked",
		s.write + "/.claude/settings.json", s.write + "/.mcp.json", s.write + "/.vscode/tasks.json",
		s.home + "/.bashrc", s.home + "/.profile", s.home + "/notes/note",
	} {
		s.file(f, "plain\n")
	}
	s.file(s.read+"/private/"+s.token, "a name that tells\n")
	s.plan()
	for _, l := range layouts {
		l(s)
	}
	s.own()
	s.remember()
	t.Cleanup(s.close)
	return s
}

func randomText() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// secrets are the files with the token.
func (s *fixture) secrets() []string {
	return append([]string{
		s.agent + "/secret.txt", s.agent + "/vault/inner/key", s.agent + "/.env", s.agent + "/sub/.env", s.agent + "/new\nline/.env",
		s.agent + "/caf\u00e9/.env", s.agent + "/frozen/.env", s.agent + "/deploy/.env", s.write + "/deploy/sub/.env",
		s.read + "/private/key", s.read + "/.env", s.write + "/private/key", s.write + "/deep/er/.env",
		s.home + "/.ssh/id", s.outside + "/file",
	}, s.extra...)
}

func (s *fixture) file(path, content string) {
	s.Helper()
	must(s, os.MkdirAll(filepath.Dir(path), 0o755))
	must(s, os.WriteFile(path, []byte(content), 0o644))
}

// own gives everything but the state to the sandbox's user.
func (s *fixture) own() {
	s.Helper()
	if os.Geteuid() != 0 {
		return
	}
	must(s, filepath.WalkDir(filepath.Dir(s.agent), func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = s.ownOne(p)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a sandbox that runs takes its stubs away
		}
		return err
	}))
}

// ownOne leaves alone what is his: to give it once more would take capabilities
// away.
func (s *fixture) ownOne(p string) error {
	st, err := os.Lstat(p)
	if err != nil || int(st.Sys().(*syscall.Stat_t).Uid) == s.kit.uid {
		return err
	}
	return os.Lchown(p, s.kit.uid, s.kit.uid)
}

// ownState is the layout of a stage whose state is attacked: it lies in the stage,
// and no other stage has it. It comes before the layouts that change the Spec.
func ownState(s *fixture) {
	s.state = filepath.Join(s.base, "state")
	s.plan()
}

// plan writes the Spec of the stage's sandbox.
func (s *fixture) plan() {
	s.Helper()
	st, err := statedir.Open(s.state)
	must(s, err)
	guest, err := st.InstallGuest(s.kit.guest)
	must(s, err)
	passwd, group, err := st.Identity(s.kit.uid, s.kit.uid)
	must(s, err)
	closed := []string{s.agent + "/secret.txt", s.agent + "/vault/inner/key", s.read + "/private", s.write + "/private", s.home + "/.ssh", "**/.env"}
	s.spec = sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-t-" + randomText(), Kind: sandbox.KindSandbox, Provider: "local",
		Owner:   sandbox.Owner{Instance: st.Instance(), Tenant: "t", Agent: "main", Session: "s", Scope: sandbox.ScopeSession, ScopeKey: "s"},
		Workdir: sandbox.WorkspaceDir, UID: s.kit.uid, GID: s.kit.uid,
		Env: map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{
			{Source: guest.Dir, Target: sandbox.GuestDir + "/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: passwd, Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: group, Target: "/etc/group", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: s.agent, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 16 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 8 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/var/tmp", Size: 8 << 20, Mode: 0o1777},
			{Target: "/run", Size: 4 << 20, Mode: 0o755, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{PIDs: 256, ShmSize: 4 << 20},
		Guest:     guest,
		Filesystem: sandbox.FilesystemRules{
			AllowRead: []string{s.read, s.kit.tool}, AllowWrite: []string{s.write},
			DenyRead: closed, DenyWrite: append([]string{s.agent + "/frozen", s.write + "/locked", "**/deploy/**"}, closed...),
		},
	}
	s.envs = []string{
		"AGENT=" + s.agent, "HOMEDIR=" + s.home, "READ=" + s.read, "WRITE=" + s.write, "OUT=" + s.outside, "TOOL=" + s.kit.tool,
		"GORACE=" + os.Getenv("GORACE"), // of the tool, which is this binary
	}
}

// world is what the provider is given of the host.
func (s *fixture) world() hardening.World {
	return hardening.World{Canonical: hostpath.Canonical, Sensitive: []string{s.state}, Workspaces: []string{filepath.Join(s.state, "workspaces")}, Home: s.home}
}

// newProvider returns another provider on the same state.
func (s *fixture) newProvider() *local.Provider {
	p := local.New(local.Options{State: s.state, World: s.world})
	s.Cleanup(func() { p.Close() })
	return p
}

// up puts up the sandbox.
func (s *fixture) up() {
	s.Helper()
	if s.sb != nil {
		return
	}
	// A sandbox that is shown the whole host has its plan made of all of the host's files.
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	defer done()
	s.provider = s.newProvider()
	_, err := s.provider.Create(ctx, s.spec)
	must(s, err)
	sb, err := s.provider.Open(ctx, s.spec)
	must(s, err) // before it is kept: close would close a handle that is not there
	s.sb = sb
}

// close takes everything down.
func (s *fixture) close() {
	if s.sb != nil {
		s.sb.Close()
	}
	if s.provider != nil {
		s.provider.Close()
		must(s, s.newProvider().Remove(context.Background(), s.spec.Name))
	}
	must(s, os.RemoveAll(s.base))
}

// denied lists what scripts try, as code inside may call it.
func (s *fixture) denied() string {
	var all []string
	for _, f := range s.secrets() {
		if strings.ContainsAny(f, "\n ") {
			continue
		}
		all = append(all, f)
		if rest, ok := strings.CutPrefix(f, s.agent+"/"); ok {
			all = append(all, rest)
		}
	}
	return strings.Join(all, " ")
}
