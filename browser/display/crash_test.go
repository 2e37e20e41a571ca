package display_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// inside finds the processes of a container, as the host sees them.
func inside(t testing.TB, name string) (belongs func(pid int) bool) {
	t.Helper()
	out, err := exec.Command("docker", "inspect", "--format", "{{.Id}}", name).Output()
	must(t, err)
	return testenv.Container(strings.TrimSpace(string(out)))
}

// processes returns the processes of a container whose command line contains
// the text, oldest first.
func processes(t testing.TB, name, text string) (found []int) {
	t.Helper()
	belongs := inside(t, name)
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !belongs(pid) {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			found = append(found, pid)
		}
	}
	return found
}

// until polls until is returns true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// kill ends the first process of a container that has the text in its command
// line, as a crash would.
func kill(t testing.TB, name, text string) {
	t.Helper()
	var pids []int // a browser may answer before all its parts run
	until(t, "a process of "+name+" has "+text, func() bool {
		pids = processes(t, name, text)
		return len(pids) > 0
	})
	p, err := os.FindProcess(pids[0])
	must(t, err)
	must(t, p.Kill())
}

// workspacePage puts a page into the workspace of a request.
func (r *rig) workspacePage(req display.Request, name, text string) {
	r.t.Helper()
	ctx := patient(r.t)
	w, err := r.m.BrowserWorkspace(ctx, req.Who, req.Flags)
	must(r.t, err)
	path := w.Dir + "/" + name
	must(r.t, os.WriteFile(path, []byte(text), 0o644))
	must(r.t, os.Chown(path, w.UID, w.GID))
}

// version returns the WebSocket URL of a proxy's browser, which is different
// after each start.
func version(ctx context.Context, t testing.TB, s display.Served) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.HTTPURL+"json/version", nil)
	must(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	var said struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	must(t, json.NewDecoder(resp.Body).Decode(&said))
	return said.URL
}

// The parts of a browser with a display, by their command lines.
const (
	chromiumPart   = "/usr/lib/chromium/chromium --user-data-dir="
	rendererPart   = "--type=renderer"
	supervisorPart = "/sandbox-browser"
)

// TestPartsThatDie kills each part of a browser: all others end with it, and
// the next use of any kind has a browser again in the same container. That each part
// takes the others along, TestImageEndsWithEveryPart holds of the image; here those
// of the display are one in make test.
func TestPartsThatDie(t *testing.T) {
	t.Parallel()
	r := on(t, `"headless":false,"enableNoVnc":true`, "")
	ctx := patient(t)
	r.workspacePage(of("a"), "page.html", "<title>Here</title>")
	first, err := r.Start(ctx, of("a"))
	must(t, err)
	served, err := r.Serve(ctx, of("a"))
	must(t, err)
	defer served.Close()
	uses := []struct {
		name string
		use  func(t *testing.T)
	}{
		{"start", func(t *testing.T) {
			again, err := r.Start(ctx, of("a"))
			must(t, err)
			if again.Created || again.Name != first.Name {
				t.Errorf("started %+v", again)
			}
		}},
		{"client", func(t *testing.T) { version(ctx, t, served) }},
		{"session", func(t *testing.T) {
			s, err := r.Session(ctx, of("a"), browser.Rights{})
			must(t, err)
			defer s.Close()
			p, err := s.Navigate(ctx, "page.html")
			must(t, err)
			if p.Title != "Here" {
				t.Errorf("page %+v", p)
			}
		}},
	}
	killed := []string{chromiumPart, "x11vnc", supervisorPart}
	if testenv.All() {
		killed = append(killed, "Xvfb", "websockify")
	}
	for i, part := range killed {
		t.Run(strings.Trim(strings.Fields(part)[0], "/"), func(t *testing.T) {
			before := version(ctx, t, served)
			kill(t, first.Name, part)
			until(t, "all parts end", func() bool {
				for _, other := range []string{chromiumPart, "Xvfb", "x11vnc", "websockify", supervisorPart} {
					if len(processes(t, first.Name, other)) > 0 {
						return false
					}
				}
				return true
			})
			u := uses[i%len(uses)]
			t.Run(u.name, u.use)
			if after := version(ctx, t, served); after == before {
				t.Errorf("it is still %s", after)
			}
			// A process that is being started has its parent's command line.
			until(t, "there is one browser", func() bool { return len(processes(t, first.Name, chromiumPart)) == 1 })
		})
	}
	select {
	case <-served.Done():
		t.Errorf("the bridge ended: %v", served.Err())
	default:
	}
}

// TestTabThatCrashes checks that a session reports the crash of its page, in a
// retryable error, and continues with a new page, and that the page of another
// session is not affected.
func TestTabThatCrashes(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	r.workspacePage(of("a"), "page.html", "<title>Here</title>")
	s, err := r.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	defer s.Close()
	open := func() {
		t.Helper()
		p, err := s.Navigate(ctx, "page.html")
		must(t, err)
		if p.Title != "Here" {
			t.Errorf("page %+v", p)
		}
	}
	started, err := r.Start(ctx, of("a"))
	must(t, err)
	for _, wait := range []time.Duration{0, time.Second} { // the browser has noticed the crash by the second
		open()
		for _, pid := range processes(t, started.Name, rendererPart) {
			p, err := os.FindProcess(pid)
			must(t, err)
			if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) { // one of those that come and go
				must(t, err)
			}
		}
		time.Sleep(wait)
		_, err = s.Screenshot(ctx, browser.Shot{})
		if e, ok := err.(*sandbox.Error); !ok || !e.Retryable {
			t.Errorf("after the crash, and %v: %v", wait, err)
		}
		open()
		if _, err := s.Screenshot(ctx, browser.Shot{}); err != nil {
			t.Error(err)
		}
	}
	// The browser itself, in the middle of a session.
	kill(t, started.Name, chromiumPart)
	until(t, "the browser ends", func() bool { return len(processes(t, started.Name, chromiumPart)) == 0 })
	_, err = s.Screenshot(ctx, browser.Shot{})
	if e, ok := err.(*sandbox.Error); !ok || !e.Retryable {
		t.Errorf("after the end of the browser: %v", err)
	}
	next, err := r.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	defer next.Close()
	if p, err := next.Navigate(ctx, "page.html"); err != nil || p.Title != "Here" {
		t.Errorf("page %+v, %v", p, err)
	}
}
