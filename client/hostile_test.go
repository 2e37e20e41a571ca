package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/client"
	"github.com/bulkhead-dev/sandbox/daemon/api"
)

// TestPagesWithoutEnd holds that a daemon whose pages never end keeps nobody.
func TestPagesWithoutEnd(t *testing.T) {
	for name, page := range map[string]func(int) api.SandboxPage{
		"the same one":  func(int) api.SandboxPage { return api.SandboxPage{Items: make([]api.Sandbox, 1), Next: "x"} },
		"with nothing":  func(n int) api.SandboxPage { return api.SandboxPage{Next: fmt.Sprint(n)} },
		"nothing again": func(int) api.SandboxPage { return api.SandboxPage{Next: "x"} },
	} {
		asked := 0
		c := served(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked > 10 {
				t.Errorf("%s: it is asked for ever", name)
				w.WriteHeader(http.StatusTeapot)
				return
			}
			_ = json.NewEncoder(w).Encode(page(asked)) // who has gone does not want it
		})
		var last error
		for _, err := range c.Sandboxes(t.Context(), client.ListOptions{}) {
			last = err
		}
		if sandbox.CodeOf(last) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// TestSilence holds that a daemon that takes a request and says nothing keeps
// nobody, also where what follows may take for ever.
func TestSilence(t *testing.T) {
	c := served(t, client.Options{Timeout: 10 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	if _, err := c.ReadFile(ctx, "a", "x"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a file: %v", err)
	}
	if _, err := c.Attach(ctx, "a", sandbox.Command{Args: []string{"true"}}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("a command: %v", err)
	}
}

// TestWhatDaemonsMayNotDo holds that answers of a hostile daemon are refused, are
// bounded, and tell nothing that a terminal would obey.
func TestWhatDaemonsMayNotDo(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, do := range map[string]http.HandlerFunc{
		"an answer without end": func(w http.ResponseWriter, _ *http.Request) {
			for piece := []byte(`"` + long); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		},
		"a header without end": func(w http.ResponseWriter, _ *http.Request) {
			for i := range 12 {
				w.Header().Set(fmt.Sprint("X-", i), long)
			}
		},
		"a list":                  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) },
		"a name that is a number": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"name":7}`) },
		"deep":                    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("[", 1<<20)) },
		"an error that is no error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"code":"\u001b[2J"}`)
		},
		"an error in disguise": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); fmt.Fprint(w, `{"code":7}`) },
	} {
		c := served(t, client.Options{}, do)
		_, err := c.Sandbox(t.Context(), "a")
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	c := served(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		fmt.Fprintf(w, `{"code":"SANDBOX.BUSY","detail":"\u001b]0;x\u0007\n[ok]","hint":"\u202e%s","resource":"\r"}`, long[:64<<10])
	})
	_, err := c.Sandbox(t.Context(), "a")
	if sandbox.CodeOf(err) != sandbox.CodeBusy || strings.ContainsAny(err.Error(), "\x1b\a\n\r\u202e") || len(err.Error()) > 64<<10 {
		t.Errorf("%.300v", err)
	}
}
