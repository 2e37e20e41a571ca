//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/compat/e2b"
)

// codeAllowed are settings of a daemon with which requests may name the image of the
// code interpreter, and a preset.
const codeAllowed = `, "daemon": {"create": {"images": ["sandbox-code:bookworm-slim"], "presets": ["strict"]}}`

// TestClientsE2BDocs runs the programs of docs/clients.md as they stand there.
func TestClientsE2BDocs(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "e2b")
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
			folder := t.TempDir()
			cmd := testenv.E2B(t.Context(), t, pageProgram(t, folder, testenv.E2BModules(), c.language, c.imports))
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

// pageProgram writes a program of docs/clients.md or docs/clients-exec.md to a file, as it stands there, and
// returns the file: the first in a language with these words. Node looks for packages
// beside the program, so it gets a link to the folder modules.
func pageProgram(t *testing.T, folder, modules, language, words string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err == nil {
		var more []byte
		more, err = os.ReadFile(filepath.Join("..", "..", "docs", "clients-exec.md"))
		page = append(page, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "program."+map[string]string{"js": "mjs", "python": "py"}[language])
	for block := range strings.SplitSeq(string(page), "```"+language+"\n") {
		text, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(text, words) {
			continue
		}
		if n := strings.Count(text, "\n"); n > 10 {
			t.Errorf("the program has %d lines, 10 at most", n)
		}
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Symlink(modules, filepath.Join(folder, "node_modules"))); err != nil {
			t.Fatal(err)
		}
		return file
	}
	t.Fatal("the page has no such program")
	return ""
}

// TestClientsE2B drives a daemon with E2B's own clients, of which only the address and the
// key are set.
func TestClientsE2B(t *testing.T) {
	t.Parallel()
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
