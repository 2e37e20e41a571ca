package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Inspector returns a command of the official inspector of the Model Context
// Protocol, as scripts/inspector.sh installs it, with these arguments. Its own
// settings lie in a folder of the test's.
func Inspector(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, "inspector")
	program, node := inspectorFiles()
	cmd := exec.CommandContext(ctx, node, append([]string{program, "--cli"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "MCP_AUTO_OPEN_ENABLED=false")
	return cmd
}

// inspectorMissing asks once a process for what the script installs.
var inspectorMissing = sync.OnceValue(func() string {
	program, node := inspectorFiles()
	for _, file := range []string{program, node} {
		if _, err := os.Stat(file); err != nil {
			return "the inspector is not installed, which `make inspector` does: " + err.Error()
		}
	}
	return ""
})

// inspectorFiles lie in the bin folder of the tree that this file is of.
func inspectorFiles() (program, node string) {
	_, here, _, _ := runtime.Caller(0)
	modules := filepath.Join(filepath.Dir(here), "..", "..", "bin", "inspector", "node_modules")
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	return filepath.Join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
		filepath.Join(modules, "node-linux-"+machine, "bin", "node")
}
