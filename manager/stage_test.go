package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A mailbox is a machine with a media folder for each of the tenants a and b,
// and one for who has none.
type mailbox struct {
	*guarded
	*manager.Manager
	in string // the folder of folders
}

// newMailbox starts a manager; settings are members of media beside the
// folders, agents those of agents.
func newMailbox(t *testing.T, settings, agents string) *mailbox {
	t.Helper()
	testenv.Require(t, "root")
	in, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	m := &mailbox{guarded: newGuarded(t, sandbox.Deny), in: in}
	for _, folder := range []string{"a", "b", "own"} {
		m.receive(folder+"/note.txt", "for "+folder)
	}
	if agents == "" {
		agents = `{"defaults": {"sandbox": {"provider": "local"}}}`
	}
	m.Manager = m.manager(fmt.Sprintf(`{"agents": %s, "media": {"folders": [%q, %q]%s}}`, agents, in+"/{tenant}", in+"/own", settings))
	return m
}

// receive puts a file where a message with it was received.
func (m *mailbox) receive(name, content string) string {
	m.t.Helper()
	path := filepath.Join(m.in, name)
	must(m.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(m.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func (m *mailbox) stage(tenant string, refs ...string) ([]workspace.Staged, error) {
	for i, ref := range refs {
		if !strings.Contains(ref, "://") && !filepath.IsAbs(ref) {
			refs[i] = m.in + "/" + ref // not cleaned
		}
	}
	return m.Stage(m.t.Context(), config.Who{Tenant: tenant, Agent: "main", Session: "s"}, refs)
}

// workspace is the folder of the session's workspace.
func (m *mailbox) workspace(tenant string) string {
	m.t.Helper()
	name, err := m.Name(config.Who{Tenant: tenant, Agent: "main", Session: "s"}, nil)
	must(m.t, err)
	return filepath.Join(m.state.Workspaces(), name)
}

// staged lists what lies in a workspace's folder of media.
func staged(t *testing.T, workspace string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(workspace, "media/inbound"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestStageBringsUpTheWorkspaceAlone(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, "", "")
	got, err := m.stage("a", "a/note.txt")
	must(t, err)
	if len(got) != 1 || got[0].Original != "note.txt" || got[0].Size != 5 || !strings.HasPrefix(got[0].Path, "/workspace/media/inbound/") {
		t.Fatalf("staged %+v", got)
	}
	file := filepath.Join(m.workspace("a"), strings.TrimPrefix(got[0].Path, "/workspace/"))
	content, err := os.ReadFile(file)
	must(t, err)
	st, err := os.Stat(m.workspace("a"))
	must(t, err)
	fi, err := os.Stat(file)
	must(t, err)
	owner, own := st.Sys().(*syscall.Stat_t).Uid, fi.Sys().(*syscall.Stat_t).Uid
	if string(content) != "for a" || own != owner || own == 0 {
		t.Errorf("it holds %q and is user %d's, in a workspace of %d", content, own, owner)
	}
	l, err := m.List(t.Context(), manager.ListOptions{All: true})
	must(t, err)
	if len(l.Containers) != 0 {
		t.Errorf("a sandbox was made for it: %+v", l.Containers)
	}
	// The sandbox that comes later has that workspace.
	p, err := m.Ready(t.Context(), manager.Request{Who: config.Who{Tenant: "a", Agent: "main", Session: "s"}})
	must(t, err)
	if p.Workspace != m.workspace("a") {
		t.Errorf("the sandbox has the workspace %s", p.Workspace)
	}
	if _, err := m.stage("a", "a/note.txt"); err != nil {
		t.Errorf("once more while it stands: %v", err)
	}
	if got := staged(t, m.workspace("a")); len(got) != 2 {
		t.Errorf("there are %q", got)
	}
}

func TestStageTakesOnlyFromFoldersOfTheTenant(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, "", "")
	must(t, os.Symlink(m.in+"/b/note.txt", m.in+"/a/link"))
	must(t, os.Link(m.receive("b/other", "b's"), m.in+"/a/second-name"))
	must(t, os.Mkdir(m.in+"/a/folder", 0o700))
	for name, tt := range map[string]struct {
		tenant, ref string
		code        sandbox.Code
	}{
		"another tenant's":            {"a", "b/note.txt", sandbox.CodeCapabilityBlocked},
		"that of nobody":              {"a", "own/note.txt", sandbox.CodeCapabilityBlocked},
		"a tenant's for nobody":       {"", "a/note.txt", sandbox.CodeCapabilityBlocked},
		"up and down again":           {"a", "a/../b/note.txt", sandbox.CodeCapabilityBlocked},
		"link to another's":           {"a", "a/link", sandbox.CodeCapabilityBlocked},
		"second name of another's":    {"a", "a/second-name", sandbox.CodeCapabilityBlocked},
		"folder":                      {"a", "a/folder", sandbox.CodeCapabilityBlocked},
		"file of the host":            {"a", "/etc/passwd", sandbox.CodeCapabilityBlocked},
		"tenant without a folder":     {"c", "a/note.txt", sandbox.CodeCapabilityBlocked},
		"nothing there":               {"a", "a/nothing", sandbox.CodeNotFound},
		"machine that is not known":   {"a", "scp://elsewhere/srv/x", sandbox.CodeCapabilityBlocked},
		"machine without a path":      {"a", "scp://elsewhere", sandbox.CodeValidation},
		"machine with a port":         {"a", "scp://elsewhere:22/srv/x", sandbox.CodeValidation},
		"another scheme is no path":   {"a", "https://example.com/x", sandbox.CodeValidation},
		"the literal word for tenant": {"a", "{tenant}/note.txt", sandbox.CodeCapabilityBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := m.stage(tt.tenant, "a/note.txt", tt.ref)
			if tt.tenant != "a" {
				got, err = m.stage(tt.tenant, tt.ref)
			}
			if sandbox.CodeOf(err) != tt.code || got != nil {
				t.Errorf("got %+v and %v, want %s", got, err, tt.code)
			}
			if left := staged(t, m.workspace(tt.tenant)); len(left) > 0 {
				t.Errorf("there is %q although the call failed", left)
			}
		})
	}
	for tenant, ref := range map[string]string{"a": "a/note.txt", "b": "b/note.txt", "": "own/note.txt"} {
		if _, err := m.stage(tenant, ref); err != nil {
			t.Errorf("control of %q: %v", tenant, err)
		}
	}
}

func TestStageFromFoldersThatSandboxesWrite(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	m := newMailbox(t, "", fmt.Sprintf(`{"defaults": {"sandbox": {"provider": "local"}},
		"list": [{"id": "other", "workspace": %q, "sandbox": {"workspaceAccess": "rw"}}]}`, home))
	inside := filepath.Join(home, "a")
	must(t, os.Mkdir(inside, 0o700))
	must(t, os.WriteFile(inside+"/x", []byte("x"), 0o600))
	for name, folder := range map[string]string{"an agent's folder": home, "below it": home + "/{tenant}", "above it": filepath.Dir(home), "our workspaces": m.state.Workspaces(), "our state": m.state.Path()} {
		t.Run(name, func(t *testing.T) {
			s, err := config.Parse("test", fmt.Appendf(nil, `{"agents": {"defaults": {"sandbox": {"provider": "local"}},
				"list": [{"id": "other", "workspace": %q, "sandbox": {"workspaceAccess": "rw"}}]}, "media": {"folders": [%q]}}`, home, folder))
			must(t, err)
			m.Reload(s)
			tenant := ""
			if strings.Contains(folder, "{") {
				tenant = "a"
			}
			got, err := m.stage(tenant, inside+"/x")
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || got != nil {
				t.Errorf("got %+v and %v, want it refused", got, err)
			}
			if strings.Contains(fmt.Sprint(err), m.state.Path()) {
				t.Errorf("the error tells of folders of the host: %v", err)
			}
		})
	}
}

func TestStageBounds(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, `, "maxFile": 8, "maxTotal": 12, "maxFiles": 3`, "")
	m.receive("a/large", "123456789")
	m.receive("a/eight", "12345678")
	for name, refs := range map[string][]string{
		"one that is too large": {"a/large"}, "together too large": {"a/eight", "a/eight"},
		"too many": {"a/note.txt", "a/note.txt", "a/note.txt", "a/note.txt"},
	} {
		if got, err := m.stage("a", refs...); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || got != nil {
			t.Errorf("%s: got %+v and %v", name, got, err)
		}
	}
	if _, err := m.stage("a", "a/eight"); err != nil {
		t.Errorf("control: %v", err)
	}
}

func TestStageOutsideOfSandboxes(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, "", `{"defaults": {"sandbox": {"provider": "local", "mode": "off"}}}`)
	if got, err := m.stage("a", "a/note.txt"); err == nil || got != nil {
		t.Errorf("got %+v and %v for a session that nothing may run in", got, err)
	}
	s, err := config.Parse("test", fmt.Appendf(nil, `{"agents": {"defaults": {"sandbox": {"provider": "local", "requireEvidence": true}}}, "media": {"folders": [%q]}}`, m.in+"/{tenant}"))
	must(t, err)
	m.Reload(s)
	if got, err := m.stage("a", "a/note.txt"); sandbox.CodeOf(err) != sandbox.CodeUnavailable || got != nil {
		t.Errorf("got %+v and %v where it could not be put on record", got, err)
	}
	if left := staged(t, m.workspace("a")); len(left) > 0 {
		t.Errorf("there is %q", left)
	}
}

// A machine that does not answer is another matter than one that is not known.
func TestStageFromAMachineThatIsDown(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, nil, 0o600))
	m := newMailbox(t, fmt.Sprintf(`, "remote": [{"host": "node", "address": "127.0.0.1", "port": 1, "user": "media", "keyFile": %q, "knownHosts": %q, "folders": ["/srv/{tenant}"]}]`, key, key), "")
	if _, err := m.stage("a", "scp://node/srv/a/x"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("got %v, want that it cannot be reached", err)
	}
	for _, ref := range []string{"scp://node/srv/b/x", "scp://node/srv/a/../b/x", "scp://node/etc/passwd", "scp://media@node/srv/a/x", "scp://-oProxyCommand=id/srv/a/x", "scp:///srv/a/x"} {
		if _, err := m.stage("a", ref); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked && sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: got %v, want it refused", ref, err)
		}
	}
	if _, err := m.stage("a", "a/note.txt"); err != nil {
		t.Errorf("files of this machine: %v", err)
	}
}

func TestSweepMedia(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, "", "")
	_, err := m.stage("a", "a/note.txt")
	must(t, err)
	inbound := filepath.Join(m.workspace("a"), "media/inbound")
	old := time.Now().Add(-time.Hour)
	for name, when := range map[string]time.Time{
		".sandbox-media-" + strings.Repeat("A", 26): old, ".sandbox-media-" + strings.Repeat("B", 26): time.Now(), ".sandbox-media-short": old, "mine": old,
	} {
		must(t, os.WriteFile(filepath.Join(inbound, name), nil, 0o600))
		must(t, os.Chtimes(filepath.Join(inbound, name), when, when))
	}
	if n, err := m.SweepMedia(t.Context()); err != nil || n != 1 {
		t.Errorf("removed %d, %v; want 1", n, err)
	}
	if left := staged(t, m.workspace("a")); len(left) != 4 {
		t.Errorf("there are %q", left)
	}
}

func TestExplainShowsWhatTheTenantMayHaveAndStage(t *testing.T) {
	t.Parallel()
	m := newMailbox(t, `, "maxFile": "1m"`, "")
	s, err := config.Parse("test", []byte(`{"tenants": {"closed": true, "defaults": {"sandboxes": 3}}, "media": {"folders": ["/srv/{tenant}"],
		"remote": [{"host": "node", "user": "u", "keyFile": "/k", "knownHosts": "/h", "folders": ["/m/{tenant}"]}]}}`))
	must(t, err)
	m.Reload(s)
	e, err := m.Explain(t.Context(), config.Who{Tenant: "a", Agent: "main", Session: "s"}, nil, manager.Questions{})
	must(t, err)
	if e.TenantLimits.Limits.Sandboxes != 3 || !e.TenantLimits.Refused || e.TenantLimits.Limits.Memory != -1 {
		t.Errorf("limits %+v", e.TenantLimits)
	}
	if got := strings.Join(e.Media.From, " "); got != "/srv/a scp://node/m/a" || e.Media.MaxFile != workspace.DefaultMaxFile {
		t.Errorf("media %+v", e.Media)
	}
}
