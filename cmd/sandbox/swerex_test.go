//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestClientsSWERex drives a daemon with the client of SWE-ReX, of which only the address and
// the token are set.
func TestClientsSWERex(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "swerex")
	s := newSite(t)
	s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	cmd := testenv.SWERex(ctx, t, filepath.Join("testdata", "swerex", "client.py"))
	cmd.Env = append(cmd.Env, "SWEREX_HOST="+d.guest("").base+"/swerex/chat-42", "SWEREX_TOKEN="+s.token("acme"), "OTHER_TOKEN="+s.token("globex"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "FAIL") {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "\nok "); n < 16 {
		t.Errorf("only %d steps were run:\n%s", n, out)
	}
	d.quiet()
}

// TestClientsSWERexDocs runs the program of docs/clients.md for SWE-ReX.
func TestClientsSWERexDocs(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "swerex")
	s := newSite(t)
	s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	cmd := testenv.SWERex(t.Context(), t, pageProgram(t, t.TempDir(), t.TempDir(), "python", "swerex.deployment"))
	cmd.Env = append(cmd.Env, "SANDBOX_URL="+d.guest("").base, "SANDBOX_TOKEN="+s.token("acme"))
	// The client logs to its output too.
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "\n42\n 0\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSWERexRules holds how requests without a token are answered, what the protocol
// claims at the root, and that a setting turns it off.
func TestSWERexRules(t *testing.T) {
	s := newSite(t)
	file := s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	p := d.guest("")
	secret := s.token("acme")
	send := func(method, path, key, body string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, p.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			q.Header.Set("X-API-Key", key)
		}
		r, err := p.http.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		answer, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(answer)
	}
	for _, tt := range []struct {
		method, path, key, body string
		status                  int
		words                   string
	}{
		{"GET", "/swerex/s/is_alive", secret, "", 200, `"is_alive":true`},
		{"GET", "/is_alive", secret, "", 200, `"is_alive":true`},
		{"GET", "/is_alive", "", "", 401, "no token was sent"}, // of this server
		{"GET", "/", secret, "", 200, "hello"},
		{"GET", "/swerex/s/", secret, "", 200, "hello"},
		{"GET", "/swerex/s/is_alive", "", "", 401, `"detail":`},
		{"GET", "/swerex/s/is_alive", "sbx_x", "", 401, `"detail":`},
		{"POST", "/swerex/s/execute", "sbx_x", `{"command":["true"]}`, 401, `"detail":`},
		{"GET", "/swerex", secret, "", 404, "/swerex/SESSION"},
		{"GET", "/swerex/s/execute", secret, "", 405, "no method GET"},
		{"POST", "/swerex/s/nothing", secret, "", 404, "no such path"},
		{"POST", "/swerex/s/execute", secret, `[]`, 422, `"detail":`},
		{"POST", "/swerex/s/execute", secret, `{"command":["true"],"timeout":-1}`, 422, "timeout"},
		{"POST", "/swerex/s/execute", secret, `{"command":[]}`, 511, "builtins.ValueError"},
		{"POST", "/swerex/s/create_session", secret, `{"session_type":"zsh"}`, 422, "session_type"},
		{"POST", "/swerex/s/run_in_session", secret, `{"command":"true","check":"maybe"}`, 422, "check"},
		{"POST", "/swerex/s/upload", secret, `x`, 422, "multipart"},
		{"POST", "/swerex/s/read_file", secret, `{"path":"a\u0000b"}`, 511, "null byte"},
		{"POST", "/swerex/s/read_file", secret, `{"path":"../../etc/passwd"}`, 511, "PermissionError"},
	} {
		if status, answer := send(tt.method, tt.path, tt.key, tt.body); status != tt.status || !strings.Contains(answer, tt.words) {
			t.Errorf("%s %s %s: %d %s, want %d and %q", tt.method, tt.path, tt.body, status, answer, tt.status, tt.words)
		}
	}
	writeSettings(t, file, "", `, "daemon": {"compat": {"swerex": false}}`)
	testenv.Until(t, "the protocol is turned off", func() bool {
		status, answer := send("GET", "/is_alive", secret, "")
		return status == 401 && strings.Contains(answer, "no token was sent")
	})
	d.quiet()
}
