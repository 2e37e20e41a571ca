//go:build !sandbox_front && !sandbox_engine

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// answersWithin is how long a request may take after its sandbox was changed
// from outside: what has to be made anew is made anew in that time.
const answersWithin = 45 * time.Second

// docker runs the engine's own program, which knows nothing of us.
func docker(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
		t.Fatalf("docker %s: %v\n%s", args, err, out)
	}
}

// The next request repairs what other programs did to a sandbox behind the
// daemon's back, or says what is wrong; commands that were running are not
// reported as a success; and nothing hangs.
func TestServeOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.settings(`, "evidence": {"commands": true}`, "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"))
	in := d.own("acme")
	in.http.Timeout = answersWithin
	tests := map[string]struct {
		do   func(t *testing.T, id string)
		cuts bool // what runs
		anew bool // another container has to be made
	}{
		"stop":    {func(t *testing.T, id string) { docker(t, "stop", "-t", "1", id) }, true, false},
		"kill":    {func(t *testing.T, id string) { docker(t, "kill", id) }, true, false},
		"restart": {func(t *testing.T, id string) { docker(t, "restart", "-t", "1", id) }, true, false},
		"remove":  {func(t *testing.T, id string) { docker(t, "rm", "-f", id) }, true, true},
		"pause":   {func(t *testing.T, id string) { docker(t, "pause", id) }, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			box := must[api.Sandbox](t, in, "POST", "/v1/sandboxes", api.CreateSandbox{Session: name})
			defer must[struct{}](t, in, "DELETE", "/v1/sandboxes/"+box.Name+"?force=true&workspace=true", nil)
			if err := in.run(box.Name, "", "echo kept > kept", false); err != nil {
				t.Fatal(err)
			}
			must[api.ExecResult](t, in, "POST", "/v1/sandboxes/"+box.Name+"/shells/main/run", api.RunLine{Line: "cd /tmp"})
			nap := "600" // longer than it can take to cut it off
			if !tt.cuts {
				nap = "2"
			}
			ended := make(chan error, 2)
			for i := range 2 {
				d := d.stream(box.Name, "echo begun; sleep "+nap+"; exit 0", "Sandbox-Tenant", "acme", "Sandbox-Session", name)
				if !until(d, "begun") {
					t.Fatal("a command does not begin")
				}
				go func() {
					_, err := readEvents(d)
					if err != nil {
						err = fmt.Errorf("command %d: %w", i, err)
					}
					ended <- err
				}()
			}
			tt.do(t, box.ID)
			healed(t, in, box, tt.anew)
			for range 2 {
				if err := <-ended; tt.cuts && err == nil {
					t.Error("a command that was cut off is told as a success")
				} else if !tt.cuts && err != nil {
					t.Errorf("a command that was not cut off: %v", err)
				}
			}
		})
	}
	d.quiet()
}

// healed holds that the next requests find the sandbox in order, all at once.
func healed(t *testing.T, p *party, box api.Sandbox, anew bool) {
	t.Helper()
	path := "/v1/sandboxes/" + box.Name
	asks := map[string]func() error{
		"exec": func() error {
			out, err := p.output(box.Name, "", "cat kept", false)
			if err == nil && out != "kept\n" {
				err = errors.New("it says " + out)
			}
			return err
		},
		"stream": func() error { return p.run(box.Name, "", "cat kept", true) },
		"shell": func() error {
			r, _, err := asked[api.ExecResult](p, "POST", path+"/shells/main/run", api.RunLine{Line: "cat /workspace/kept"})
			if err == nil && r.Stdout != "kept\n" {
				err = fmt.Errorf("it says %+v", r)
			}
			return err
		},
		"tool": func() error {
			a, _, err := asked[api.ToolAnswer](p, "POST", path+"/tools/read", map[string]any{"path": "/workspace/kept"})
			if err == nil && !strings.Contains(a.Text, "kept") {
				err = errors.New("it says " + a.Text)
			}
			return err
		},
		"file": func() error {
			res, err := p.ask("GET", path+"/files/workspace/kept", nil)
			if err == nil {
				err = res.Body.Close()
			}
			return err
		},
	}
	type said struct {
		what string
		err  error
		took time.Duration
	}
	all := make(chan said, len(asks))
	for what, ask := range asks {
		go func() {
			start := time.Now()
			err := ask()
			all <- said{what, err, time.Since(start)}
		}()
	}
	for range asks {
		got := <-all
		var r *refusal
		switch {
		case got.err == nil:
		case anew && errors.As(got.err, &r) && r.status == http.StatusNotFound && strings.Contains(r.text, "there is no sandbox for this session"):
			// What needs one that is there says so; a command makes it.
		case errors.As(got.err, &r) && r.status > http.StatusInternalServerError && strings.Contains(r.text, `"retryable":true`):
		default:
			t.Errorf("%s, after %v: %v", got.what, got.took, got.err)
		}
	}
	for what, ask := range asks {
		if err := ask(); err != nil {
			t.Errorf("%s, when it was asked again: %v", what, err)
		}
	}
	now := must[api.Sandbox](t, p, "GET", path, nil)
	if now.Status != "running" || (now.ID != box.ID) != anew {
		t.Errorf("it is %s as %s, and was %s", now.Status, now.ID, box.ID)
	}
}
