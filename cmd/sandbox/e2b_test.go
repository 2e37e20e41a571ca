//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/compat/e2b"
)

// codeAllowed are settings of a daemon with which requests may name the image of the
// code interpreter.
const codeAllowed = `, "daemon": {"create": {"images": ["sandbox-code:bookworm-slim"]}}`

// TestE2BDocs runs the programs of docs/clients.md as they stand there.
func TestE2BDocs(t *testing.T) {
	testenv.Require(t, "e2b")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.settings("", codeAllowed)
	at := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp).guest("").base
	for _, c := range []struct{ language, imports, file, want string }{
		{"js", "'e2b'", "doc.mjs", "42\n0 true\n"},
		{"python", "from e2b import", "doc.py", "42\n0 True\n"},
		{"js", "'@e2b/code-interpreter'", "code.mjs", "39 bar [ 3, 9, 27 ]\nIndexError\n"},
		{"python", "from e2b_code_interpreter import", "code.py", "39 bar [3, 9, 27]\nIndexError\n"},
	} {
		t.Run(c.file, func(t *testing.T) {
			if strings.HasPrefix(c.file, "code.") {
				testenv.Require(t, "code")
			}
			text := ""
			for block := range strings.SplitSeq(string(page), "```"+c.language+"\n") {
				if before, _, closed := strings.Cut(block, "```"); closed && strings.Contains(before, c.imports) && text == "" {
					text = before
				}
			}
			if text == "" {
				t.Fatal("the page has no such program")
			}
			folder := t.TempDir()
			script := filepath.Join(folder, c.file)
			cmd := testenv.E2B(t.Context(), t, script)
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			// Node looks for packages beside the program.
			if err := os.Symlink(testenv.E2BModules(), filepath.Join(folder, "node_modules")); err != nil {
				t.Fatal(err)
			}
			cmd.Dir = folder
			cmd.Env = append(cmd.Env, "E2B_API_URL="+at, "E2B_SANDBOX_URL="+at, "E2B_API_KEY="+s.token("acme"))
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != c.want {
				t.Errorf("%v\n%s", err, out)
			}
			if strings.HasPrefix(c.file, "code.") {
				if data, err := os.ReadFile(filepath.Join(folder, "sales.png")); err != nil || !strings.HasPrefix(string(data), "\x89PNG") {
					t.Errorf("the picture: %v", err)
				}
			}
		})
	}
}

// TestE2B drives a daemon with E2B's own clients, of which only the address and the
// key are set.
func TestE2B(t *testing.T) {
	testenv.Require(t, "e2b")
	for _, c := range []struct {
		name, script, sdk string
		key               func(token string) string
	}{
		{"JavaScript", "client.mjs", "e2b", func(token string) string { return token }},
		{"JavaScript of before /v2", "client.mjs", "e2b-2.45", e2b.Key},
		{"Python", "client.py", "", e2b.Key},
		{"code interpreter JavaScript", "code.mjs", "", func(token string) string { return token }},
		{"code interpreter Python", "code.py", "", e2b.Key},
	} {
		t.Run(c.name, func(t *testing.T) {
			more := ""
			if strings.HasPrefix(c.script, "code.") {
				testenv.Require(t, "code")
				more = codeAllowed
			}
			s := newSite(t)
			s.settings("", more)
			d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
			at := d.guest("").base
			ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
			defer done()
			cmd := testenv.E2B(ctx, t, filepath.Join("testdata", "e2b", c.script))
			cmd.Env = append(cmd.Env, "E2B_SDK="+c.sdk, "E2B_API_URL="+at, "E2B_SANDBOX_URL="+at,
				"E2B_API_KEY="+c.key(s.token("acme")), "OTHER_KEY="+c.key(s.token("globex")))
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(string(out), "FAIL") {
				t.Errorf("%v\n%s", err, out)
			}
			d.quiet()
		})
	}
}
