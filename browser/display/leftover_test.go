package display_test

import (
	"errors"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// ended waits for the end of a life, and returns the reason.
func ended(t testing.TB, l display.Life) error {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("it lives on")
	}
	return l.Err()
}

// checkShut checks that no server listens at the address of a CDP proxy or
// display.
func checkShut(t testing.TB, address string) {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	if c, err := net.Dial("tcp", u.Host); err == nil {
		c.Close()
		t.Errorf("somebody still listens at %s", u.Host)
	}
}

// checkNothing checks that neither engine nor state folder has anything of a
// browser, except locks.
func (r *rig) checkNothing(name string) {
	r.t.Helper()
	out, err := exec.Command("docker", "ps", "--all", "--format", "{{.Names}}", "--filter", "name="+name).CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		r.t.Errorf("the engine has %s, %v", out, err)
	}
	out, err = exec.Command("docker", "network", "ls", "--format", "{{.Name}}").CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		r.t.Errorf("the engine has the networks %s, %v", out, err)
	}
	for _, pattern := range []string{"run/*", "registry/*/" + name + "*", "workspaces/" + name + "*", "setup/*"} {
		if found, err := filepath.Glob(filepath.Join(r.state, pattern)); err != nil || len(found) > 0 {
			r.t.Errorf("the state folder has %q, %v", found, err)
		}
	}
}

// TestForceTakesAll checks that a forced stop ends every use of a browser, and
// leaves nothing: no container, no network of its own, no record, no listener.
func TestForceTakesAll(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"none", "own"} {
		t.Run(network, func(t *testing.T) {
			if network == "none" {
				testenv.Exhaustive(t, "the same without a network, which is to go too")
			}
			r := on(t, `"headless":false,"enableNoVnc":true,"network":"`+network+`"`, "")
			ctx := patient(t)
			r.workspacePage(of("a"), "page.html", "<title>Here</title>")
			served, err := r.Serve(ctx, of("a"))
			must(t, err)
			watched, err := r.Watch(ctx, of("a"), false)
			must(t, err)
			s, err := r.Session(ctx, of("a"), browser.Rights{})
			must(t, err)
			defer s.Close()
			if _, err := s.Navigate(ctx, "page.html"); err != nil {
				t.Error(err)
			}
			other := newDisplays(t, r.m)
			if _, _, err := other.Stop(ctx, of("a"), false); sandbox.CodeOf(err) != sandbox.CodeBusy {
				t.Errorf("stopped while in use: %v", err)
			}
			if removed, _, err := other.Stop(ctx, of("a"), true); err != nil || !removed {
				t.Errorf("stopped %v, %v", removed, err)
			}
			for _, l := range []display.Life{served, watched} {
				if err := ended(t, l); !sandbox.IsNotFound(err) {
					t.Errorf("it ended with %v", err)
				}
			}
			checkShut(t, served.HTTPURL)
			checkShut(t, watched.URL)
			if _, err := s.Screenshot(ctx, browser.Shot{}); err == nil {
				t.Error("the session still has a page")
			}
			r.checkNothing(served.Name)
		})
	}
}

// TestRemovedBehindOurBack checks that a CDP proxy ends and reports the reason
// if the container is removed with the engine's own tools, that list reports
// it, and that the next use creates another one.
func TestRemovedBehindOurBack(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	served, err := r.Serve(ctx, of("a"))
	must(t, err)
	if out, err := exec.Command("docker", "rm", "--force", served.Name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := ended(t, served); !sandbox.IsNotFound(err) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("it ended with %v", err)
	}
	checkShut(t, served.HTTPURL)
	l, err := r.m.List(ctx, manager.ListOptions{})
	must(t, err)
	if len(l.Browsers) != 1 || l.Browsers[0].Name != served.Name || l.Browsers[0].Status != sandbox.StatusMissing {
		t.Errorf("listed %+v", l.Browsers)
	}
	again, err := r.Start(ctx, of("a"))
	must(t, err)
	if !again.Created || again.Name != served.Name {
		t.Errorf("started %+v", again)
	}
	if _, _, err := r.Stop(ctx, of("a"), false); err != nil {
		t.Error(err)
	}
	r.checkNothing(served.Name)
}

// TestNoRoomForASupervisor checks that a container without room for another
// process is not mistaken for one of another image.
func TestNoRoomForASupervisor(t *testing.T) { // alone: the guest has few threads then, so that it has room
	r := on(t, "", `"docker":{"pidsLimit":24}`)
	_, err := r.Start(patient(t), of("a"))
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "limits") || strings.Contains(err.Error(), "image") {
		t.Errorf("got %v", err)
	}
}

// TestBrowserThatCannotStart checks that the end of a browser before it
// answers, and a browser that never answers, are reported with the last lines
// of its log and in time, and leave no container.
func TestBrowserThatCannotStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, docker string
		timeout      time.Duration
		code         sandbox.Code
		says, log    string
	}{
		{"ends", `"pidsLimit":50`, 2 * time.Minute, sandbox.CodeUnavailable, "Chromium has ended by itself", "pthread_create: Resource temporarily unavailable"},
		{"never answers", `"cpus":0.05`, time.Second, sandbox.CodeTimeout, "did not answer", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := on(t, "", `"docker":{`+c.docker+`}`)
			req := of("a")
			req.Flags = &config.SandboxSettings{Browser: &config.BrowserSettings{AutoStartTimeout: new(config.Duration(c.timeout))}}
			begin := time.Now()
			_, err := r.Start(patient(t), req)
			took := time.Since(begin)
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.says) || !strings.Contains(e.Message, c.log) || e.Hint == "" {
				t.Fatalf("got %v", err)
			}
			t.Logf("after %v: %v", took.Round(time.Millisecond), err)
			// Creating and removing the container takes time beside that for
			// the browser.
			if took > c.timeout+2*time.Minute {
				t.Errorf("it took %v", took)
			}
			r.checkNothing(e.Resource)
		})
	}
}
