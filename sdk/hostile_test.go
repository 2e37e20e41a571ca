package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// TestPagesWithoutEnd holds that a daemon whose pages never end keeps no caller waiting.
func TestPagesWithoutEnd(t *testing.T) {
	for name, page := range map[string]func(int) api.SandboxPage{
		"the same one":  func(int) api.SandboxPage { return api.SandboxPage{Items: make([]api.Sandbox, 1), Next: "x"} },
		"with nothing":  func(n int) api.SandboxPage { return api.SandboxPage{Next: fmt.Sprint(n)} },
		"nothing again": func(int) api.SandboxPage { return api.SandboxPage{Next: "x"} },
	} {
		asked := 0
		c := against(t, sdk.APIOptions{}, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked > 10 {
				t.Errorf("%s: it is asked for ever", name)
				w.WriteHeader(http.StatusTeapot)
				return
			}
			_ = json.NewEncoder(w).Encode(page(asked)) // who has gone does not want it
		})
		var last error
		for _, err := range c.Sandboxes(t.Context(), sdk.ListOptions{}) {
			last = err
		}
		if sandbox.CodeOf(last) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", name, last)
		}
	}
}

// TestSilence holds that a daemon that takes a request and says nothing keeps
// no caller, also where what follows may take for ever.
func TestSilence(t *testing.T) {
	c := against(t, sdk.APIOptions{Timeout: 10 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
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
		c := against(t, sdk.APIOptions{}, do)
		_, err := c.Sandbox(t.Context(), "a")
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	c := against(t, sdk.APIOptions{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		fmt.Fprintf(w, `{"code":"SANDBOX.BUSY","detail":"\u001b]0;x\u0007\n[ok]","hint":"\u202e%s","resource":"\r"}`, long[:64<<10])
	})
	_, err := c.Sandbox(t.Context(), "a")
	if sandbox.CodeOf(err) != sandbox.CodeBusy || strings.ContainsAny(err.Error(), "\x1b\a\n\r\u202e") || len(err.Error()) > 64<<10 {
		t.Errorf("%.300v", err)
	}
}

// events answers with text as a stream, and goes or stays.
func events(stay bool, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, text)
		_ = http.NewResponseController(w).Flush() // who has gone does not want it
		if stay {
			<-r.Context().Done()
		}
	}
}

// TestStreamsOfDaemons holds what counts as the end of a stream, and that no
// daemon keeps or fills a client with one.
func TestStreamsOfDaemons(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	endless := func(piece string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for {
				if _, err := fmt.Fprint(w, piece); err != nil {
					return
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		do   http.HandlerFunc
		code sandbox.Code
		out  string
	}{
		{"as it should be", events(true, ": begin\n\nevent: stdout\ndata: {\"text\":\"a\"}\n\nevent: news\ndata: 1\n\nevent: exit\ndata: {\"exitCode\":3}\n\n"), "", "a"},
		{"lines of another machine", events(true, "event:stdout\r\ndata:{\"text\":\"a\"}\r\n\r\nevent:exit\r\ndata:{\r\ndata:\"exitCode\":3}\r\n\r\n"), "", "a"},
		{"no last event", events(false, "event: stdout\ndata: {\"text\":\"a\"}\n\n"), sandbox.CodeUnavailable, "a"},
		{"nothing", events(false, ""), sandbox.CodeUnavailable, ""},
		{"half of the last event", events(false, "event: exit\ndata: {\"exitCode\":0}\n"), sandbox.CodeUnavailable, ""},
		{"silence", events(true, ": begin\n\n"), sandbox.CodeUnavailable, ""},
		{"no events", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"exitCode":0}`) }, sandbox.CodeUnavailable, ""},
		{"an exit that is none", events(true, "event: exit\ndata: [\n\n"), sandbox.CodeUnavailable, ""},
		{"an exit without data", events(false, "event: exit\n\n"), sandbox.CodeUnavailable, ""},
		{"an error", events(true, "event: error\ndata: {\"code\":\"SANDBOX.BUSY\",\"detail\":\"\\u001b[2J\"}\n\n"), sandbox.CodeBusy, ""},
		{"an error that is none", events(true, "event: error\ndata: \n\n"), sandbox.CodeUnavailable, ""},
		{"a line without end", endless(long), sandbox.CodeUnavailable, ""},
		{"an event without end", endless("data: " + long + "\n"), sandbox.CodeUnavailable, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// Only what is silent has to wait for it.
			silence := time.Minute
			if tt.name == "silence" {
				silence = 50 * time.Millisecond
			}
			c := against(t, sdk.APIOptions{Silence: silence}, tt.do)
			var out strings.Builder
			exit, err := c.ExecStream(t.Context(), "a", api.Exec{Line: "x"}, sdk.Sinks{Stdout: &out})
			switch {
			case tt.code == "" && (err != nil || exit.ExitCode != 3):
				t.Errorf("%+v, %v", exit, err)
			case tt.code != "" && (sandbox.CodeOf(err) != tt.code || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 64<<10):
				t.Errorf("%.300v, want %s", err, tt.code)
			}
			if out.String() != tt.out {
				t.Errorf("%q was written, want %q", out.String(), tt.out)
			}
		})
	}
}

// TestAnswersThatSayNothing holds that an answer without what was asked for is no
// success.
func TestAnswersThatSayNothing(t *testing.T) {
	c := against(t, sdk.APIOptions{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[{},{}]}`) })
	p := c.Page("a")
	for name, do := range map[string]func() error{
		"navigate":   func() error { _, err := p.Navigate(t.Context(), "x"); return err },
		"screenshot": func() error { _, err := p.Screenshot(t.Context(), browser.Shot{}); return err },
		"extract":    func() error { _, err := p.Extract(t.Context(), browser.Extraction{}); return err },
		"pdf":        func() error { _, err := p.PDF(t.Context()); return err },
		"download":   func() error { _, err := p.Download(t.Context(), "x", ""); return err },
		"stat":       func() error { _, err := c.StatFile(t.Context(), "a", "x"); return err },
		"a part":     func() error { _, err := c.ReadPart(t.Context(), "a", "x", 1, 1); return err },
	} {
		if err := do(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
