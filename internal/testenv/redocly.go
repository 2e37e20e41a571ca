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

// Redocly returns a command of the linter of OpenAPI documents, as
// scripts/redocly.sh installs it, with these arguments.
func Redocly(ctx context.Context, t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	Require(t, "redocly")
	program, node := redoclyFiles()
	cmd := exec.CommandContext(ctx, node, append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1")
	return cmd
}

// redoclyMissing asks once a process for what the script installs.
var redoclyMissing = sync.OnceValue(func() string {
	program, node := redoclyFiles()
	for _, file := range []string{program, node} {
		if _, err := os.Stat(file); err != nil {
			return "the linter is not installed, which `make redocly` does: " + err.Error()
		}
	}
	return ""
})

// redoclyFiles lie in the bin folder of the tree that this file is of.
func redoclyFiles() (program, node string) {
	_, here, _, _ := runtime.Caller(0)
	modules := filepath.Join(filepath.Dir(here), "..", "..", "bin", "redocly", "node_modules")
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	return filepath.Join(modules, "@redocly/cli/bin/cli.js"), filepath.Join(modules, "node-linux-"+machine, "bin", "node")
}
