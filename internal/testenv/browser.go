package testenv

import (
	"bufio"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// browserMissing and codeMissing make their images once a process.
var (
	browserMissing = sync.OnceValue(func() string { return imageMissing(about.BrowserImage, "browser") })
	codeMissing    = sync.OnceValue(func() string { return imageMissing(about.CodeImage, "code") })
)

// imageMissing asks whether an engine answers, and makes an image of that kind
// unless it is there and of the recipe of this tree. It takes minutes then. Of many
// test programs one makes it and the others wait.
func imageMissing(image, kind string) string {
	if why := engineMissing(); why != "" {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	lock := filepath.Join(os.TempDir(), "sandbox-"+kind+"-image.lock")
	script, program := filepath.Join(root(), "scripts", "image.sh"), filepath.Join(root(), "bin", "sandbox")
	if out, err := exec.CommandContext(ctx, "flock", lock, script, program, "--"+kind).CombinedOutput(); err != nil {
		return "the image " + image + " could not be made: " + err.Error() + ": " + strings.TrimSpace(string(out))
	}
	return ""
}

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
func playwrightModules() string { return filepath.Join(root(), "bin", "playwright", "node_modules") }

// Chromium starts the one of the image of browsers, with the network of this machine,
// and returns the address of its DevTools. It ends with the test.
func Chromium(t testing.TB) string {
	t.Helper()
	Require(t, "browser")
	name := "sandbox-test-chromium-" + strings.ToLower(rand.Text()[:12])
	cmd := exec.Command("docker", "run", "--rm", "--init", "--name", name, "--network", "host", "--entrypoint", "/usr/bin/chromium", about.BrowserImage,
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=/tmp/profile", "--remote-debugging-port=0", "about:blank")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("docker", "kill", name).Run() // or it has ended
		_ = cmd.Wait()
	})
	said, found := "", make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
				found <- at
			}
			said += lines.Text() + "\n"
		}
	}()
	select {
	case at, ok := <-found:
		if !ok {
			t.Fatalf("Chromium has ended:\n%s", said)
		}
		go func() {
			for range found { // until it ends
			}
		}()
		return at
	case <-time.After(time.Minute):
		t.Fatal("Chromium does not start")
		return ""
	}
}

// root is the folder of the module: a test runs in the folder of its package.
// The names in a binary that was built with -trimpath would not say.
func root() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return "."
}
