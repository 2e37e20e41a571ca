package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// TestDeepFolders has a tenant nest folders deeper than the search for denied
// paths goes. That locks the tenant's own sandbox; the error says what is wrong
// and where in the sandbox, not where on the host, and the tenant can repair it
// without help.
func TestDeepFolders(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	state := filepath.Join(t.TempDir(), "state")
	h := startAttack(t, strings.Replace(alone, `{"provider": "local"}`, `{"provider": "local", "filesystem": {"denyRead": ["**/.env"]}}`, 1), state)
	mine := h.mint("", api.CreateToken{Role: "tenant", Tenant: victim}).Secret
	made := func() string {
		t.Helper()
		return is[api.Sandbox](t, h.send(mine, "POST", "/v1/sandboxes", `{"session":"deep"}`), 201).Name
	}
	box := made()
	if got := h.exec(mine, box, `i=0; while [ $i -le 257 ]; do mkdir deep && cd deep || exit; i=$((i+1)); done`); got.ExitCode != 0 {
		t.Fatalf("control: %+v", got)
	}
	got := h.send(mine, "POST", "/v1/sandboxes/"+box+"/exec", `{"line":"true"}`)
	says := string(got.body)
	for _, part := range []string{"256", `deep/deep`, "workspace=true"} {
		if got.status < 400 || !strings.Contains(says, part) {
			t.Errorf("it is not told of %s: %d %s", part, got.status, says)
		}
	}
	if strings.Contains(says, state) {
		t.Errorf("it is told where its folder is on the host: %s", says)
	}
	h.send(mine, "DELETE", "/v1/sandboxes/"+box+"?workspace=true", "")
	if got := h.exec(mine, made(), "ls -A"); got.ExitCode != 0 || got.Stdout != "" {
		t.Errorf("it has not got out: %+v", got)
	}
}
