//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestClientsTypeScriptAdapters runs the tests of the adapters of clients/typescript: agents of
// the frameworks themselves, with models that follow a script, against a daemon.
func TestClientsTypeScriptAdapters(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "adapters")
	ctx, done := context.WithTimeout(t.Context(), 10*time.Minute)
	defer done()
	tests, source := adapterTests(t, ctx)

	t.Run("types", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(tests, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := testenv.Adapters(ctx, t, compiler(), "--strict", "--noEmit", "--skipLibCheck", "--target", "es2023", "--module", "nodenext", "--lib", "es2023,esnext.disposable,dom", "types.ts")
		cmd.Dir = tests
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("frameworks", func(t *testing.T) {
		s := newSite(t)
		s.settings("", `, "daemon": {"create": {"allowedDomains": ["a.example"]}}`)
		socket := filepath.Join(t.TempDir(), "d.sock")
		d := s.server(socket, tcp)
		files, err := filepath.Glob(filepath.Join(tests, "*.test.mjs"))
		if err != nil || len(files) < 7 {
			t.Fatalf("%v %v", files, err)
		}
		// That of OpenClaw takes longest.
		slices.Reverse(files)
		cmd := testenv.Adapters(ctx, t, append([]string{"--test", "--test-concurrency=2", "--test-reporter=tap"}, files...)...)
		address := d.guest("").base
		cmd.Env = append(cmd.Env, "ADAPTERS_PAGE="+filepath.Join(source, "ADAPTERS.md"),
			"TRANSCRIPT="+filepath.Join(source, "..", "transcript", "session.json"), "SANDBOX_SOCKET=unix:"+socket, "SANDBOX_SERVER=tcp:"+address[len("http://"):],
			"SANDBOX_TOKEN="+s.token("acme"), "SANDBOX_OTHER_TOKEN="+s.token("globex"),
			// The SDK would send what it traces to its maker.
			"OPENAI_AGENTS_DISABLE_TRACING=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		passed := regexp.MustCompile(`(?m)^# pass (\d+)$`).FindSubmatch(out)
		if passed == nil {
			t.Fatalf("nothing was run:\n%s", out)
		}
		if n, err := strconv.Atoi(string(passed[1])); err != nil || n < 47 {
			t.Errorf("only %d tests have passed:\n%s", n, out)
		}
		d.quiet()
	})
}

// adapterTests lays the tests beside the SDK, which it builds, and the frameworks, and
// returns the folder of the tests and that of the SDK's sources.
func adapterTests(t *testing.T, ctx context.Context) (tests, source string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", "clients", "typescript"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests = filepath.Join(folder, "tests")
	sdk := filepath.Join(tests, "node_modules", "@bulkhead", "sandbox")
	err = errors.Join(
		os.CopyFS(tests, os.DirFS(filepath.Join(source, "test", "adapters"))),
		os.CopyFS(filepath.Join(sdk, "src"), os.DirFS(filepath.Join(source, "src"))),
		os.Symlink(testenv.AdaptersModules(), filepath.Join(folder, "node_modules")),
	)
	for _, name := range []string{"package.json", "tsconfig.json", "openclaw.plugin.json"} {
		data, read := os.ReadFile(filepath.Join(source, name))
		err = errors.Join(err, read, os.WriteFile(filepath.Join(sdk, name), data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Adapters(ctx, t, compiler(), "-p", sdk)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tests, source
}

// compiler returns the compiler of TypeScript.
func compiler() string {
	return filepath.Join(testenv.AdaptersModules(), "typescript", "bin", "tsc")
}
