//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestGarbage sends every route of the whole daemon what makes no sense, as a
// tenant: nothing of it is an internal error, and every answer is as the
// document says.
func TestGarbage(t *testing.T) {
	testenv.Require(t, "local")
	t.Setenv("SANDBOX_GUEST", testenv.Guest(t))
	log := logrus.New()
	log.SetOutput(io.Discard)
	testenv.UnmountBelow(t, filepath.Dir(t.TempDir()))
	d, err := newDaemon(cli.Options{StateDir: filepath.Join(t.TempDir(), "state"), ConfigFile: settingsFile(t, "local"), Log: log}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	document, err := d.server.Document()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(d.server)
	t.Cleanup(srv.Close)
	secret, _, err := d.tokens.Create(token.Claims{Role: token.Tenant, Tenant: "a"})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: served.NewAPICheck(t, document).Wrap(srv.Client().Transport)}
	within := time.Minute // for the first request, which makes a sandbox; then for streams that go on
	ask := func(method, path, body string, header ...string) (int, []byte) {
		ctx, done := context.WithTimeout(t.Context(), within)
		defer done()
		r, err := http.NewRequestWithContext(ctx, method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(r)
		if err != nil {
			if ctx.Err() != nil { // a stream that goes on
				return 200, nil
			}
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer res.Body.Close()
		if strings.HasPrefix(res.Header.Get("Content-Type"), api.ContentEvents) {
			return res.StatusCode, nil
		}
		data, _ := io.ReadAll(res.Body)
		return res.StatusCode, data
	}
	var made api.Sandbox
	if status, data := ask("POST", "/v1/sandboxes", `{"session":"s"}`, "Content-Type", "application/json"); status != 201 || json.Unmarshal(data, &made) != nil {
		t.Fatalf("%d %s", status, data)
	}
	within = 10 * time.Second
	rnd := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[rnd.IntN(len(of))] }
	routes := d.server.Routes()
	counts := map[int]int{}
	for i := range 4 * len(routes) {
		r := routes[i%len(routes)]
		path := strings.NewReplacer(
			"{name}", pick(made.Name, made.Name, made.Name, "none"), "{id}", pick("none", "0123456789abcdef0123456789abcdef", "main"), "{tool}", pick("exec", "read"), "{action}", pick("navigate", "none"),
			"{path...}", pick("workspace/a.txt", "etc/passwd", "..%2f..%2fetc", "%00", "workspace", "a%5cb", "proc/self/environ"),
		).Replace(r.Path)
		query := []string{}
		for _, p := range r.Query {
			if p.Required || rnd.IntN(6) == 0 {
				query = append(query, p.Name+"="+pick("1", "0", "true", "x", "%2e%2e/etc", "", "99999999999999999999", "/workspace"))
			}
		}
		if len(query) > 0 {
			path += "?" + strings.Join(query, "&")
		}
		body, content := pick("", "{}", "{}", "[]", "null", `{"args":["true"]}`, `{"line":"true","path":"../x","from":"/a","to":"/b","pattern":"[","refs":["/etc/passwd"],"role":"admin"}`, "\xff"), pick("application/json", "application/json", "application/octet-stream", "application/x-tar")
		if r.Socket {
			body = ""
		}
		status, data := ask(r.Method, path, body, "Content-Type", content, "Range", pick("bytes=0-1", "bytes=9-1", "lines=1"))
		if counts[status]++; status >= 500 && status != 501 {
			t.Errorf("%s %s %q: %d %s", r.Method, path, body, status, data)
		}
	}
	t.Logf("statuses %v", counts)
}
