//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// pyAdaptersAllowed are settings of a daemon with which the tests of the adapters may ask
// for an image and variables.
const pyAdaptersAllowed = `, "daemon": {"create": {"images": ["sandbox:bookworm-slim", "sandbox-code:bookworm-slim"], "env": ["*"]}}`

// TestClientsPythonAdapters runs the tests of the adapters of clients/python, in which the
// runners of the frameworks use a daemon. The package is installed as its users
// install it.
func TestClientsPythonAdapters(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "pyadapters")
	testenv.Require(t, "code")
	folder := installedPython(t)
	tests, err := filepath.Abs(filepath.Join("..", "..", "clients", "python"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		tcp  bool
		args []string
	}{
		{"inspect", false, []string{"test_inspect.py"}},
		{"inspect checks", false, []string{"test_inspect_self_check.py", "test_transcript.py::test_through_inspect"}},
		{"deepagents", false, []string{"test_deepagents.py", "test_transcript.py::test_through_deepagents"}},
		{"agents", false, []string{"test_openai_agents.py"}},
		{"agents over TCP", true, []string{"test_openai_agents.py::test_files_and_terminals_pass"}},
		{"smolagents", false, []string{"test_smolagents.py"}},
		{"programs of ADAPTERS.md", false, []string{"test_docs.py"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.settings("", pyAdaptersAllowed)
			socket := filepath.Join(t.TempDir(), "d.sock")
			d := s.server(socket, tcp)
			ctx, done := context.WithTimeout(t.Context(), 10*time.Minute)
			defer done()
			args := []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", "-o", "asyncio_mode=auto"}
			for _, file := range c.args {
				args = append(args, filepath.Join("tests", "adapters", file))
			}
			cmd := testenv.PyAdapters(ctx, t, folder, args...)
			cmd.Dir = tests
			at := "SANDBOX_SERVER=unix:" + socket
			if c.tcp {
				at = "SANDBOX_SERVER=" + d.guest("").base
				cmd.Env = append(cmd.Env, "SANDBOX_TOKEN="+s.token("acme"))
			}
			// The SDK of OpenAI would send what it traces to its maker.
			cmd.Env = append(cmd.Env, at, "OPENAI_AGENTS_DISABLE_TRACING=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			d.quiet()
		})
	}
}

// installedPython installs clients/python into a folder, for PYTHONPATH.
func installedPython(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	cmd := testenv.PyAdapters(t.Context(), t, "", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--no-build-isolation", "--target", folder, filepath.Join("..", "..", "clients", "python"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}
