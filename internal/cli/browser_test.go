package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

const secretToken = "tok-0123456789"

// withBrowser is a backend with a browser that serves and shows itself for as
// long as life goes on.
func withBrowser(life *fakeLife) *fake {
	f := &fake{}
	f.display.started = display.Started{Name: "sbx-browser-a", Version: "Chromium 156" + hostile, Created: true, Ready: 480 * time.Millisecond, Sandbox: true, Headless: true, Network: "none"}
	f.display.served = display.Served{Life: life, Name: "sbx-browser-a", HTTPURL: "http://127.0.0.1:4711/" + secretToken + "/", WebSocketDebuggerURL: "ws://127.0.0.1:4711/" + secretToken + "/devtools/browser/x", Token: secretToken}
	f.display.watched = display.Watched{Life: life, Name: "sbx-browser-a", URL: "http://127.0.0.1:4712/open/once", Password: "p4ssw0rd", ViewOnly: true, Expires: time.Date(2026, 11, 21, 19, 0, 0, 0, time.Local)}
	f.display.removed = "sbx-browser-a"
	return f
}

func TestBrowserOutput(t *testing.T) {
	bare := func(f *fake) {
		f.display.started.Created, f.display.started.Sandbox, f.display.started.Headless = false, false, false
	}
	host := func(f *fake) { f.display.started = display.Started{Version: "Chrome 156", NotIsolated: true} }
	for _, tt := range []struct {
		name, args string
		change     func(*fake)
	}{
		{"start", "browser start", func(*fake) {}},
		{"start_bare", "browser start --headed", bare},
		{"start_host", "browser start", host},
		{"serve", "browser start --serve --for 1ms", func(*fake) {}},
		{"open", "browser open --for 1ms", func(*fake) {}},
		{"open_control", "browser open --for 1ms --control", func(f *fake) { f.display.watched.ViewOnly = false }},
		{"stop", "browser stop", func(*fake) {}},
		{"stop_none", "browser stop --force", func(f *fake) { f.display.removed = "" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := withBrowser(newFakeLife())
			tt.change(f)
			r := call(t, f, strings.Fields(tt.args)...)
			if r.status != 0 || r.stderr != "" {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			if !f.display.released {
				t.Error("the desk was not let go of")
			}
			golden(t, "browser_"+tt.name, r.stdout)
		})
	}
}

func TestBrowserJSONKeys(t *testing.T) {
	for _, tt := range []struct{ args, keys string }{
		{"browser start", "name version created readyMs chromiumSandbox isolated headless network"},
		{"browser start --serve --for 1ms", "name url webSocketDebuggerUrl token isolated pid"},
		{"browser open --for 1ms", "name url password viewOnly expires pid"},
		{"browser stop", "removed"},
		{"browser list", "containers browsers"},
	} {
		r := call(t, withBrowser(newFakeLife()), strings.Fields(tt.args+" -o json")...)
		if r.status != 0 {
			t.Fatalf("%s: status %d: %s", tt.args, r.status, r.stderr)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			t.Fatalf("%s: %v", tt.args, err)
		}
		for _, k := range strings.Fields(tt.keys) {
			if v, ok := got[k]; !ok || string(v) == "null" {
				t.Errorf("%s: %s is %s", tt.args, k, v)
			}
			delete(got, k)
		}
		if len(got) > 0 {
			t.Errorf("%s: there is more: %v", tt.args, got)
		}
	}
}

// TestNothingIsSaidOfABrowserOfTheHost checks that no isolation is claimed for
// a browser of the host.
func TestNothingIsSaidOfABrowserOfTheHost(t *testing.T) {
	f := withBrowser(newFakeLife())
	f.display.started = display.Started{Version: "Chrome 156", NotIsolated: true, Network: "none", Sandbox: true}
	r := call(t, f, "browser", "start", "-o", "json")
	var got startedView
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Isolated || got.ChromiumSandbox != nil || got.Headless != nil || got.Network != nil {
		t.Errorf("it says %s", r.stdout)
	}
}

// TestBrowserFlagsAreSettings holds that flags of a call become its layer of
// settings, and that start --headed and open mean the same browser.
func TestBrowserFlagsAreSettings(t *testing.T) {
	headed := &config.BrowserSettings{Headless: new(false), EnableNoVNC: new(true)}
	docker := &config.DockerSettings{}
	for _, tt := range []struct {
		args string
		want *config.SandboxSettings
	}{
		{"browser start", nil},
		{"browser stop", nil},
		{"browser start --headed", &config.SandboxSettings{Browser: headed}},
		{"browser open --for 1ms", &config.SandboxSettings{Browser: headed}},
		{"browser start --allow-domain a.example --allow-domain *.b.example --workspace /srv/ws",
			&config.SandboxSettings{Workspace: new("/srv/ws"), Docker: docker, Network: &config.NetworkSettings{AllowedDomains: []string{"a.example", "*.b.example"}}}},
		{"browser open --for 1ms --allow-domain a.example", &config.SandboxSettings{Browser: headed, Docker: docker, Network: &config.NetworkSettings{AllowedDomains: []string{"a.example"}}}},
		{"browser screenshot x.html -o - --provider docker", &config.SandboxSettings{Provider: new("docker"), Docker: docker}},
	} {
		f := withBrowser(newFakeLife())
		f.display.session.picture.Data = []byte("picture")
		if r := call(t, f, strings.Fields(tt.args+" --session s --agent a --tenant acme")...); r.status != 0 {
			t.Fatalf("%s: status %d: %s", tt.args, r.status, r.stderr)
		}
		if d := cmp.Diff(tt.want, f.display.request.Flags); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, d)
		}
		if who := (config.Who{Tenant: "acme", Agent: "a", Session: "s"}); f.display.request.Who != who {
			t.Errorf("%s: for %+v", tt.args, f.display.request.Who)
		}
	}
}

// TestServeAndOpenStay holds how they end, that the first line is out before
// they wait, and that a token is nowhere but in it.
func TestServeAndOpenStay(t *testing.T) {
	gone := &sandbox.Error{Code: sandbox.CodeNotFound, Op: "serve", Message: "the browser was removed"}
	for _, tt := range []struct {
		name   string
		args   string
		then   func(*fakeLife)
		status int
		says   string
	}{
		{"served until interrupted", "browser start --serve", func(*fakeLife) { syscall.Kill(os.Getpid(), syscall.SIGINT) }, 0, ""},
		{"served until terminated", "browser start --serve --for 1h", func(*fakeLife) { syscall.Kill(os.Getpid(), syscall.SIGTERM) }, 0, ""},
		{"served until hung up", "browser start --serve", func(*fakeLife) { syscall.Kill(os.Getpid(), syscall.SIGHUP) }, 129, ""},
		{"served until removed", "browser start --serve", func(l *fakeLife) { l.end(gone) }, 125, `"detail":"the browser was removed","code":"SANDBOX.NOT_FOUND","op":"serve"`},
		{"served until it has gone", "browser start --serve", func(l *fakeLife) { l.end(errors.New("lost")) }, 125, `"detail":"the browser has gone: lost","code":"PROVIDER.UNAVAILABLE","op":"browser"`},
		{"watched until interrupted", "browser open", func(*fakeLife) { syscall.Kill(os.Getpid(), syscall.SIGINT) }, 0, ""},
		{"watched until removed", "browser open", func(l *fakeLife) { l.end(gone) }, 125, "SANDBOX.NOT_FOUND"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			life := newFakeLife()
			f := withBrowser(life)
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			waits := make(chan struct{})
			life.began = func() { close(waits) }
			line := make(chan string, 1)
			go func() {
				s, _ := bufio.NewReader(out).ReadString('\n')
				line <- s
				<-waits
				tt.then(life)
			}()
			errs, stderr := collect(t)
			p := Program{Args: append([]string{"sandbox", "-o", "json"}, strings.Fields(tt.args)...), Stdin: in, Stdout: in, Stderr: errs, Backend: f, Exit: func(int) { t.Error("ended at once") }}
			status := p.Run(context.Background())
			in.Close()
			said := stderr()
			if status != tt.status || !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("status %d, want %d; it says %q, want %q", status, tt.status, said, tt.says)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(<-line), &got); err != nil || got["pid"] != float64(os.Getpid()) {
				t.Errorf("the line holds %v: %v", got, err)
			}
			if strings.Contains(said, secretToken) || strings.Contains(said, "p4ssw0rd") {
				t.Errorf("a secret is told: %q", said)
			}
			if !life.closed || !f.display.released {
				t.Errorf("closed %v, released %v", life.closed, f.display.released)
			}
		})
	}
}

// TestServeEndsWhenNobodyReads holds that nothing stays open behind an output
// that is closed.
func TestServeEndsWhenNobodyReads(t *testing.T) {
	life := newFakeLife()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	defer in.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p := Program{Args: []string{"sandbox", "browser", "start", "--serve"}, Stdin: in, Stdout: in, Stderr: null, Backend: withBrowser(life)}
	if status := p.Run(context.Background()); status != 141 || !life.closed {
		t.Errorf("status %d, closed %v", status, life.closed)
	}
}

func TestBrowserFailures(t *testing.T) {
	busy := &sandbox.Error{Code: sandbox.CodeBusy, Op: "stop", Message: "in use", Hint: "wait, or add --force"}
	for _, args := range []string{"start", "start --serve", "open", "stop", "screenshot x.html -o -"} {
		f := withBrowser(newFakeLife())
		f.display.err = busy
		r := call(t, f, strings.Fields("browser "+args)...)
		if r.status != 125 || r.stdout != "" || r.stderr != "sandbox: SANDBOX.BUSY: stop: in use\nsandbox: hint: wait, or add --force\n" {
			t.Errorf("%s: status %d, %q, %q", args, r.status, r.stdout, r.stderr)
		}
	}
	f := withBrowser(newFakeLife())
	if call(t, f, "browser", "stop", "--force"); !f.display.force {
		t.Error("--force is lost")
	}
	if call(t, f, "browser", "open", "--control", "--for", "1ms"); !f.display.control || f.display.request.For <= time.Millisecond || f.display.request.For > time.Hour {
		t.Errorf("control %v, for %v", f.display.control, f.display.request.For)
	}
	if r := call(t, f, "browser", "open", "--help"); !strings.Contains(r.stdout, "(default: 1h)") {
		t.Errorf("the help does not say how long a display is shown:\n%s", r.stdout)
	}
}

// TestBrowserListIsListBrowser holds that both say the same.
func TestBrowserListIsListBrowser(t *testing.T) {
	for _, flags := range []string{"", " --all", " --foreign -o json"} {
		a, b := call(t, filled(), strings.Fields("list --browser"+flags)...), call(t, filled(), strings.Fields("browser list"+flags)...)
		if a != b || a.status != 0 || !strings.Contains(a.stdout, "sbx-browser-c") || strings.Contains(a.stdout, "sbx-default") {
			t.Errorf("%s: %+v and %+v", flags, a, b)
		}
	}
}

// TestBrowsersAreKeptLikeSandboxes holds that browsers are recreated, pruned
// and counted by the commands for sandboxes.
func TestBrowsersAreKeptLikeSandboxes(t *testing.T) {
	const name = "sbx-browser-c"
	f := &fake{
		rows:      []manager.Row{{Name: name, Kind: sandbox.KindBrowser}},
		recreated: manager.Recreated{Removed: []manager.Removed{{Name: name}}},
		pruned:    manager.Pruned{Removed: []manager.Removed{{Name: name, Reason: "idle for 2d"}}},
		stats:     []manager.Stat{{Name: name, Status: sandbox.StatusRunning}},
	}
	for _, args := range []string{"recreate --browser --session s --force", "prune", "stats"} {
		if r := call(t, f, strings.Fields(args)...); r.status != 0 || !strings.Contains(r.stdout, name) {
			t.Errorf("%s: status %d, %q, %q", args, r.status, r.stdout, r.stderr)
		}
	}
	if !f.browsers || f.selected != (manager.Selector{Session: "s"}) {
		t.Errorf("selected %+v, browsers %v", f.selected, f.browsers)
	}
	if call(t, f, "recreate", "--all", "--force"); f.browsers {
		t.Error("without --browser, browsers are selected")
	}
}

// TestExplainTellsHowABrowserIsIsolated holds the words for it.
func TestExplainTellsHowABrowserIsIsolated(t *testing.T) {
	for _, tt := range []struct {
		name string
		plan manager.BrowserPlan
		want string
	}{
		{"none", manager.BrowserPlan{Uses: "nothing", Isolated: true, Settings: []manager.Setting{{Path: "browser.enabled", Value: "false", Layer: "default"}}}, "Browser\n  browser.enabled  default  false\n"},
		{"both sandboxes", manager.BrowserPlan{Enabled: true, Uses: "container", Isolated: true, Sandbox: true}, "by its container, and by Chromium's own sandbox in it\n"},
		{"one sandbox", manager.BrowserPlan{Enabled: true, Uses: "container", Isolated: true}, "Chromium's own sandbox is OFF\n"},
		{"no sandbox", manager.BrowserPlan{Enabled: true, Uses: "host"}, "NO: it is a browser of this host\n"},
		{"not known", manager.BrowserPlan{Enabled: true, Uses: "container", Isolated: true, Problems: []string{"no engine"}}, "problem      -  no engine\n"},
	} {
		f := filled()
		f.explained.Browser = tt.plan
		if r := call(t, f, "explain", "--all"); !strings.Contains(r.stdout, tt.want) {
			t.Errorf("%s: it says\n%s\nwant %q", tt.name, r.stdout, tt.want)
		}
	}
}
