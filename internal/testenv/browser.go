package testenv

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// browserMissing asks once a process whether an engine answers and has the
// image of browsers. Tests do not make it: that takes minutes.
var browserMissing = sync.OnceValue(func() string {
	if why := engineMissing(); why != "" {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", about.BrowserImage).CombinedOutput()
	if err != nil {
		return "there is no image " + about.BrowserImage + ", which `make image` makes: " + strings.TrimSpace(string(out))
	}
	return ""
})

// Playwright is the folder of node modules with the client of browsers that
// scripts/playwright.sh installs, for NODE_PATH.
func Playwright(t testing.TB) string {
	t.Helper()
	Require(t, "playwright")
	return playwrightModules()
}

// playwrightMissing asks once a process for node and the client.
var playwrightMissing = sync.OnceValue(func() string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not installed"
	}
	if _, err := os.Stat(filepath.Join(playwrightModules(), "playwright-core", "package.json")); err != nil {
		return "playwright-core is not installed, which `scripts/playwright.sh` does: " + err.Error()
	}
	return ""
})

// playwrightModules lies in the bin folder of the tree that this file is of.
func playwrightModules() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "bin", "playwright", "node_modules")
}
