//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// pythonPackage is the folder of the SDK for Python.
var pythonPackage = filepath.Join("..", "..", "clients", "python")

// TestClientsPython runs the tests of clients/python, which have daemons of this program,
// checks its types, and holds that what is generated is fresh.
func TestClientsPython(t *testing.T) {
	t.Parallel()
	python := testenv.PyClient(t)
	site := sitePackages(t, python)
	folder := t.TempDir()
	installed := installPython(t, python, filepath.Join(folder, "venv"), site)
	run := func(t *testing.T, env []string, args ...string) {
		t.Helper()
		ctx, done := context.WithTimeout(t.Context(), 10*time.Minute)
		defer done()
		cmd := exec.CommandContext(ctx, installed, args...)
		cmd.Dir = pythonPackage
		cmd.Env = append(os.Environ(), "HOME="+folder, "SANDBOX_GUEST="+testenv.Guest(t), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Env = append(cmd.Env, env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	t.Run("generated code is fresh", func(t *testing.T) {
		run(t, nil, filepath.Join("scripts", "generate.py"), "--check")
	})
	t.Run("types", func(t *testing.T) {
		cmd := testenv.Pyright(t.Context(), t, "--project", pythonPackage, "--pythonpath", python)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("tests", func(t *testing.T) {
		testenv.Require(t, "local")
		run(t, nil, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300")
	})
	t.Run("code and browser", func(t *testing.T) {
		testenv.Require(t, "code")
		testenv.Require(t, "browser")
		run(t, []string{"SANDBOX_TEST_DOCKER=1", "SANDBOX_VECTORS_PROVIDER=docker", "SANDBOX_TEST_CODE=1"},
			"-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300", "tests/test_parts.py", "tests/test_vectors.py", "-k", "code or browser")
	})
}

// sitePackages returns the folder of the packages of a Python.
func sitePackages(t *testing.T, python string) string {
	t.Helper()
	out, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// installPython installs the SDK into a Python environment of its own, as pip does from
// a clone, and returns its Python. What it needs is that of the folder site, so that
// nothing is fetched.
func installPython(t *testing.T, python, folder, site string) string {
	t.Helper()
	if out, err := exec.Command(python, "-m", "venv", "--without-pip", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	installed := filepath.Join(folder, "bin", "python")
	if err := os.WriteFile(filepath.Join(sitePackages(t, installed), "needs.pth"), []byte(site+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-build-isolation", pythonPackage).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return installed
}

// TestClientVersions holds that the clients have the one version of clients/VERSION.
func TestClientVersions(t *testing.T) {
	t.Parallel()
	read := func(parts ...string) string {
		data, err := os.ReadFile(filepath.Join(append([]string{"..", "..", "clients"}, parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want := strings.TrimSpace(read("VERSION"))
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(want) {
		t.Fatalf("clients/VERSION has %q", want)
	}
	for file, has := range map[string]string{
		"pyproject.toml": read("python", "pyproject.toml"),
		"__init__.py":    read("python", "src", "bulkhead_sandbox", "__init__.py"),
	} {
		m := regexp.MustCompile(`(?m)^(?:version|__version__) = "(.*)"$`).FindStringSubmatch(has)
		if m == nil || m[1] != want {
			t.Errorf("%s has the version %q, want %s", file, m, want)
		}
	}
	if _, err := os.Stat(filepath.Join("..", "..", "clients", "typescript", "package.json")); err != nil {
		return // there is no such client
	}
	var manifest struct{ Version string }
	if err := json.Unmarshal([]byte(read("typescript", "package.json")), &manifest); err != nil || manifest.Version != want {
		t.Errorf("package.json has the version %q, want %s: %v", manifest.Version, want, err)
	}
}
