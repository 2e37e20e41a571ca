package manager_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// TestSocketOfTheDaemonIsInNoMount holds that a sandbox gets no folder in which a
// daemon of the state folder listens, by whatever setting and whatever way leads
// there, and that the folder is given again when nothing listens there any more.
func TestSocketOfTheDaemonIsInNoMount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	top, err := hostpath.Canonical(t.TempDir())
	must(t, err)
	for dir := top; dir != filepath.Dir(os.TempDir()) && strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	dir := filepath.Join(top, "project")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chown(dir, 1234, 1234))
	must(t, os.Symlink(dir, filepath.Join(top, "link")))
	socket := filepath.Join(dir, "x.socket")
	l, err := net.Listen("unix", socket)
	must(t, err)
	must(t, r.state.SetListening([]string{socket}))
	agent := func(access string) string {
		return fmt.Sprintf(`{"agents":{"list":[{"id":"main","workspace":%q,"sandbox":{"workspaceAccess":%q}}]}}`, dir, access)
	}
	for what, text := range map[string]string{
		"a bind":                        settings(fmt.Sprintf(`"docker":{"binds":["%s:/data:ro"]}`, dir)),
		"a bind that is opened":         settings(fmt.Sprintf(`"docker":{"binds":["%s:/data:ro"],"dangerouslyAllowBindSources":[%q]}`, dir, dir)),
		"a bind of a folder above":      settings(fmt.Sprintf(`"docker":{"binds":["%s:/data:ro"]}`, top)),
		"a bind of the socket":          settings(fmt.Sprintf(`"docker":{"binds":["%s:/x.sock"]}`, socket)),
		"a bind by a link":              settings(fmt.Sprintf(`"docker":{"binds":["%s/link:/data:ro"]}`, top)),
		"the workspace":                 agent("rw"),
		"the agent's folder":            agent("ro"),
		"a socket that is allowed":      settings(fmt.Sprintf(`"filesystem":{"allowUnixSockets":[%q]}`, socket)),
		"one that is allowed by a link": settings(fmt.Sprintf(`"filesystem":{"allowUnixSockets":["%s/link/x.socket"]}`, top)),
	} {
		_, _, err := run(r.manager(text), "s", "true")
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "daemon listens") {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.Close()
	if _, _, err := run(r.manager(agent("rw")), "s", "true"); err != nil {
		t.Errorf("nothing listens there any more: %v", err)
	}
	m := r.manager("")
	for path, want := range map[string]sandbox.Code{
		socket: sandbox.CodeCapabilityBlocked, filepath.Join(dir, "deep", "y"): sandbox.CodeCapabilityBlocked, filepath.Join(top, "x"): "", filepath.Join(r.dir, "daemon.sock"): "",
		filepath.Join(r.state.Workspaces(), "s", "x"): sandbox.CodeCapabilityBlocked,
	} {
		if err := m.CheckListen(t.Context(), path); sandbox.CodeOf(err) != want {
			t.Errorf("listening at %s: %v", path, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(r.dir, "listening.json"), []byte("{"), 0o600))
	if _, _, err := run(m, "s", "true"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("with a damaged record: %v", err)
	}
	must(t, r.state.SetListening(nil))
	if got, err := r.state.Listening(); len(got) != 0 || err != nil {
		t.Errorf("without a record: %v, %v", got, err)
	}
}
