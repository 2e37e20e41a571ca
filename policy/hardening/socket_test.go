package hardening

import (
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
)

func TestUnixSocket(t *testing.T) {
	w := World{
		Sensitive: []string{"/srv/state", "/opt/engine.sock"}, Workspaces: []string{"/srv/ws"},
		Canonical: func(p string) (string, error) {
			switch p {
			case "/home/me/link.sock":
				return "/run/docker.sock", nil
			case "/var/run/db.sock":
				return "/run/db.sock", nil
			}
			return p, nil
		},
	}
	for _, c := range []struct{ name, path, why string }{
		{"a service's", "/run/db.sock", ""},
		{"below a home", "/home/me/.cache/agent.sock", ""},
		{"the engine's", "/run/docker.sock", "container engine"},
		{"the engine's in capitals", "/RUN/Docker.Sock", "container engine"},
		{"the engine's elsewhere", "/home/me/podman.sock", "container engine"},
		{"what is below a folder of that name", "/run/docker.sock/x", "container engine"},
		{"the engine's by a link", "/home/me/link.sock", "container engine"},
		{"the engine's by its place", "/opt/engine.sock", "runs the sandboxes"},
		{"our own", "/srv/state/run/0a/guest", "runs the sandboxes"},
		{"another's", "/srv/ws/sbx-1/s", "workspaces"},
		{"by a link", "/var/run/db.sock", "by a link"},
		{"the root", "/", "root"},
		{"relative", "db.sock", "absolute"},
	} {
		err := UnixSocket("filesystem.allowUnixSockets[0]", c.path, w)
		if c.why == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s := sandbox.Spec{Network: "none", ReadOnlyRoot: true, UID: 7, GID: 7}
	s.Security.NoNewPrivileges = true
	s.Security.CapDrop = []string{"ALL"}
	s.Filesystem.AllowUnixSockets = []string{"/run/db.sock", "/run/docker.sock"}
	if err := Check(s, w); err == nil || !strings.Contains(err.Error(), "container engine") {
		t.Errorf("a Spec with the engine's socket: %v", err)
	}
}
