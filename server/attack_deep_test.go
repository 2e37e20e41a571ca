package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// TestDeepFolders has a tenant nest folders deeper than the search for denied
// paths goes. What lies deeper is closed to the tenant, and nothing else changes.
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
	const nest = `i=0; while [ $i -lt 256 ]; do mkdir -p deep && cd deep || exit; i=$((i+1)); done; `
	if got := h.exec(mine, box, nest+`mkdir -p deep/deep && echo secret >deep/secret && cat deep/secret`); got.ExitCode != 0 || got.Stdout != "secret\n" {
		t.Fatalf("control: %+v", got)
	}
	if got := h.exec(mine, box, nest+`cat deep/secret; ls -A deep; test -w . && echo made >file && cat file`); got.Stdout != "made\n" {
		t.Errorf("the next command: %+v", got)
	}
	h.send(mine, "DELETE", "/v1/sandboxes/"+box+"?workspace=true", "")
	if got := h.exec(mine, made(), "ls -A"); got.ExitCode != 0 || got.Stdout != "" {
		t.Errorf("after the workspace was removed: %+v", got)
	}
}
