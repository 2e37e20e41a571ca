package sdk_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

func TestAddresses(t *testing.T) {
	const secret = "sbt_secret"
	for _, tt := range []struct {
		host, token string
		ok          bool
	}{
		{"unix:/run/sandbox.sock", "", true}, {"unix:///run/sandbox.sock", secret, true},
		{"tcp:127.0.0.1:8080", secret, true}, {"tcp://localhost:8080", secret, true}, {"http://[::1]:80", secret, true},
		{"https://example.com", secret, true}, {"https://example.com:8443/", secret, true}, {"http://example.com", "", true},
		{"http://example.com", secret, false}, {"tcp:10.0.0.1:80", secret, false}, {"tcp:localhost.example.com:80", secret, false},
		{"", "", false}, {"unix:", "", false}, {"unix:relative", "", false}, {"tcp:host", "", false}, {"ssh://host", "", false},
		{"example.com:80", "", false}, {"https://user:" + secret + "@example.com", "", false}, {"https://example.com?token=" + secret, "", false},
		{"https://example.com/path", "", false}, {"http://", "", false}, {"unix:/run/s", "two\r\nlines", false},
	} {
		c, err := sdk.NewAPI(tt.host, sdk.APIOptions{Token: tt.token})
		if (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.host, err)
		}
		if err != nil && (sandbox.CodeOf(err) != sandbox.CodeValidation || strings.Contains(err.Error(), secret)) {
			t.Errorf("%q: %v", tt.host, err)
		}
		if c != nil {
			c.Close()
		}
	}
}

// against is a client of a server that does do.
func against(t *testing.T, o sdk.APIOptions, do http.HandlerFunc) *sdk.API {
	t.Helper()
	s := httptest.NewServer(do)
	t.Cleanup(s.Close)
	c, err := sdk.NewAPI(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRetries holds that only what may be asked again is, and only when the
// daemon says so.
func TestRetries(t *testing.T) {
	busy := &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Message: "slow down", Retryable: true}
	for _, tt := range []struct {
		name  string
		err   error
		after string
		do    func(context.Context, *sdk.API) error
		asked int64
	}{
		{"a question", busy, "0", get, 3},
		{"without Retry-After", busy, "", get, 1},
		{"with one that is far away", busy, "3600", get, 1},
		{"with a date", busy, "Fri, 31 Dec 1999 23:59:59 GMT", get, 1},
		{"one that was refused", &sandbox.Error{Code: sandbox.CodePermissionDeny}, "0", get, 1},
		{"a command", busy, "0", func(ctx context.Context, c *sdk.API) error {
			_, err := c.Exec(ctx, "a", api.Exec{Args: []string{"true"}})
			return err
		}, 1},
		{"a create without a key", busy, "0", func(ctx context.Context, c *sdk.API) error {
			_, err := c.CreateSandbox(ctx, api.CreateSandbox{})
			return err
		}, 1},
		{"a create with a key", busy, "0", func(ctx context.Context, c *sdk.API) error {
			_, err := c.CreateSandbox(ctx, api.CreateSandbox{IdempotencyKey: "k"})
			return err
		}, 3},
		{"a body that is gone", busy, "0", func(ctx context.Context, c *sdk.API) error {
			_, err := c.WriteFile(ctx, "a", "f", strings.NewReader("x"), false)
			return err
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int64
			c := against(t, sdk.APIOptions{}, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				if tt.after != "" {
					w.Header().Set("Retry-After", tt.after)
				}
				api.Write(w, tt.err)
			})
			if err := tt.do(t.Context(), c); sandbox.CodeOf(err) != sandbox.CodeOf(tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			if asked.Load() != tt.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), tt.asked)
			}
		})
	}
}

func get(ctx context.Context, c *sdk.API) error {
	_, err := c.Sandbox(ctx, "a")
	return err
}

// TestWhatIsSent holds headers and addresses.
func TestWhatIsSent(t *testing.T) {
	c := against(t, sdk.APIOptions{Token: "tok", Tenant: "acme", Agent: "main", Session: "s1"}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tok" || r.Header.Get(api.HeaderTenant) != "acme" || r.Header.Get(api.HeaderSession) != "s1" || strings.Contains(r.RequestURI, "tok") {
			t.Errorf("%s came with %v", r.RequestURI, r.Header)
		}
		if got := r.URL.EscapedPath(); got != "/v1/sandboxes/a%2Fb/files/workspace/dir/x%3Fy%23%25%20z" {
			t.Errorf("the path came as %s", got)
		}
	})
	a, err := c.ReadFile(t.Context(), "a/b", "dir/x?y#% z")
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
}

// TestNoAnswer holds that no answer is never one, and that a token goes to
// no other caller.
func TestNoAnswer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the client was sent elsewhere") }))
	defer elsewhere.Close()
	for name, do := range map[string]http.HandlerFunc{
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no JSON": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"not found": func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"name":"a"`)
		},
	} {
		c := against(t, sdk.APIOptions{Token: "tok"}, do)
		if _, err := c.Sandbox(t.Context(), "a"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v, want %s", name, err, sandbox.CodeUnavailable)
		}
	}
	gone, err := sdk.NewAPI("unix:"+t.TempDir()+"/none.sock", sdk.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Ready(t.Context()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("nobody there: %v", err)
	}
	c := against(t, sdk.APIOptions{Timeout: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if err := c.Ready(t.Context()); sandbox.CodeOf(err) != sandbox.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer in time: %v", err)
	}
}
