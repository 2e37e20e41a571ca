//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestClientsTypeScript builds clients/typescript as its script "prepare" does, and runs
// its tests, which have daemons of this program.
func TestClientsTypeScript(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	testenv.Require(t, "tsclient")
	ctx, done := context.WithTimeout(t.Context(), 10*time.Minute)
	defer done()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join("..", "..")
	folder := filepath.Join(root, "clients", "typescript")
	err = errors.Join(
		copySources(folder, filepath.Join(source, "clients", "typescript")),
		copySources(filepath.Join(root, "clients", "vectors"), filepath.Join(source, "clients", "vectors")),
		os.MkdirAll(filepath.Join(root, "docs"), 0o700),
		os.Symlink(testenv.TSClientModules(), filepath.Join(folder, "node_modules")),
	)
	for _, name := range []string{"clients/VERSION", "docs/openapi.json"} {
		data, read := os.ReadFile(filepath.Join(source, filepath.FromSlash(name)))
		err = errors.Join(err, read, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("sandbox")
	if err != nil {
		t.Fatal(err)
	}
	images := ""
	node := func(args ...string) string {
		t.Helper()
		cmd := testenv.TSClient(ctx, t, args...)
		cmd.Dir = folder
		cmd.Env = append(cmd.Env, "SANDBOX_BINARY="+program, "SANDBOX_GUEST="+testenv.Guest(t), "SANDBOX_SERVER=", "SANDBOX_TOKEN=", "SANDBOX_CONFIG=", "SANDBOX_TEST_IMAGES="+images, "NO_COLOR=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	node(filepath.Join("scripts", "build.mjs"))
	node(filepath.Join("node_modules", "typescript", "bin", "tsc"), "-p", "test")
	files, err := filepath.Glob(filepath.Join(folder, ".test", "*.test.js"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%v %v", files, err)
	}
	out := node(append([]string{"--test", "--test-concurrency=2", "--test-reporter=tap"}, files...)...)
	passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindStringSubmatch(out)
	if passed == nil {
		t.Fatalf("nothing was run:\n%s", out)
	}
	if n, err := strconv.Atoi(passed[1]); err != nil || n < 300 {
		t.Errorf("only %d tests have passed:\n%s", n, out)
	}
	t.Run("code and browser", func(t *testing.T) {
		testenv.Require(t, "code")
		testenv.Require(t, "browser")
		images = "code,browser"
		out := node("--test", "--test-reporter=tap", "--test-name-pattern=code in a kernel|a browser", filepath.Join(folder, ".test", "more.test.js"))
		if !strings.Contains(out, "# pass 2\n") {
			t.Error(out)
		}
	})
}

// copySources copies the files of a folder, without what was built or installed there.
func copySources(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(d.Name(), ".") && name != "."
		switch {
		case d.IsDir() && (hidden || d.Name() == "node_modules" || d.Name() == "dist"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case hidden || !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, name), data, 0o600))
	})
}
