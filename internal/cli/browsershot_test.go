package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
)

// picturing is a backend whose browser shows a page of the workspace ws.
func picturing(t *testing.T) (f *fake, ws string) {
	t.Helper()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f = &fake{}
	f.display.folders = display.Folders{Workspace: ws, Exposed: []string{ws}}
	f.display.session.page = browser.Page{URL: "http://workspace.invalid/x.html", Status: 200, Title: "A page" + hostile}
	f.display.session.picture = browser.Picture{Data: []byte("picture\x00\xff"), Width: 1280, Height: 800}
	return f, ws
}

func TestScreenshotWritesThePicture(t *testing.T) {
	t.Chdir(t.TempDir())
	f, _ := picturing(t)
	if err := os.WriteFile("page.png", []byte("an older and longer picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t, f, "browser", "screenshot", "x.html", "-o", "page.png", "--format", "json")
	if r.status != 0 || r.stderr != "" {
		t.Fatalf("status %d: %s", r.status, r.stderr)
	}
	at, err := filepath.Abs("page.png")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"file": at, "width": 1280.0, "height": 800.0, "bytes": 9.0, "url": "http://workspace.invalid/x.html", "status": 200.0, "title": "A page" + hostile}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if b, err := os.ReadFile("page.png"); err != nil || !bytes.Equal(b, f.display.session.picture.Data) {
		t.Errorf("the file holds %q: %v", b, err)
	}
	if left, _ := os.ReadDir("."); len(left) != 1 {
		t.Errorf("there is %v", left)
	}
	if f.display.session.closed != 1 || f.display.rights.Write || !f.display.released {
		t.Errorf("closed %d times, rights %+v, released %v", f.display.session.closed, f.display.rights, f.display.released)
	}
}

func TestScreenshotText(t *testing.T) {
	t.Chdir(t.TempDir())
	f, _ := picturing(t)
	r := call(t, f, "browser", "screenshot", "https://a.example/", "-o", "page.png")
	if want := `page.png: 1280×800 pixels, 9B, of http://workspace.invalid/x.html (200): A pagex\x1b[2J\u009b31m\u202e\n` + "\n"; r.stdout != want {
		t.Errorf("it says %q, want %q", r.stdout, want)
	}
	f.display.session.page = browser.Page{URL: "about:blank"}
	r = call(t, f, "browser", "screenshot", "about:blank", "-o", "page.png")
	if want := "page.png: 1280×800 pixels, 9B, of about:blank\n"; r.stdout != want {
		t.Errorf("it says %q, want %q", r.stdout, want)
	}
}

// TestScreenshotFlags holds that flags may stand anywhere and what they ask for.
func TestScreenshotFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args string
		want browser.Shot
	}{
		{"x.html -o a.png", browser.Shot{}},
		{"-o a.PNG x.html", browser.Shot{}},
		{"x.html --output a.jpg", browser.Shot{JPEG: 90}},
		{"--full x.html -o a.jpeg", browser.Shot{JPEG: 90, Full: true}},
		{"x.html --selector #top>h1 -o a.png", browser.Shot{Selector: "#top>h1"}},
		{"--width 400 x.html --height=300 -o a.png", browser.Shot{Width: 400, Height: 300}},
	} {
		f, _ := picturing(t)
		if r := call(t, f, append([]string{"browser", "screenshot"}, strings.Fields(tt.args)...)...); r.status != 0 {
			t.Fatalf("%s: status %d: %s", tt.args, r.status, r.stderr)
		}
		if f.display.session.shot != tt.want || f.display.session.opened != "x.html" {
			t.Errorf("%s: %+v of %q", tt.args, f.display.session.shot, f.display.session.opened)
		}
	}
}

func TestScreenshotToStandardOutputIsOnlyThePicture(t *testing.T) {
	f, _ := picturing(t)
	r := call(t, f, "browser", "screenshot", "x.html", "-o", "-")
	if r.status != 0 || r.stdout != string(f.display.session.picture.Data) || r.stderr != "" {
		t.Errorf("status %d, %q, %q", r.status, r.stdout, r.stderr)
	}
}

// TestScreenshotTargets holds what the browser is asked to open.
func TestScreenshotTargets(t *testing.T) {
	f, ws := picturing(t)
	outside := t.TempDir()
	for from, to := range map[string]string{outside + "/there": ws, ws + "/loop": ws, ws + "/out": outside} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, target, want string }{
		{"an address", "https://a.example/x?y#z", "https://a.example/x?y#z"},
		{"a relative file", "report/index.html", "report/index.html"},
		{"a file inside", "/workspace/report/index.html", "/workspace/report/index.html"},
		{"a file of the host folder", ws + "/report/index.html", "/workspace/report/index.html"},
		{"a spelling of it", ws + "/report/.././x.html", "/workspace/x.html"},
		{"through the caller's link", outside + "/there/x.html", "/workspace/x.html"},
		{"through a link of the workspace", ws + "/loop/x.html", "/workspace/loop/x.html"},
		{"a link that leads out stays one of the workspace", ws + "/out/x.html", "/workspace/out/x.html"},
		{"outside", outside + "/x.html", ""},
		{"out by dots", ws + "/../x.html", ""},
		{"the folder itself", ws, ""},
		{"beside a name that begins alike", "/workspace2/x.html", ""},
		{"a file of the system", "/etc/passwd", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.display.session.opened = ""
			r := call(t, f, "browser", "screenshot", "-o", "-", "--", tt.target)
			if f.display.session.opened != tt.want {
				t.Errorf("it opens %q, want %q", f.display.session.opened, tt.want)
			}
			if refused := tt.want == ""; refused != (r.status == 125 && strings.Contains(r.stderr, "CAPABILITY_BLOCKED") && strings.Contains(r.stderr, ws)) {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
		})
	}
}

// TestScreenshotIsNotWrittenThroughAWorkspace holds that code inside cannot
// have the picture written somewhere else.
func TestScreenshotIsNotWrittenThroughAWorkspace(t *testing.T) {
	f, ws := picturing(t)
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim.png")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"folder": outside, "file.png": victim} {
		if err := os.Symlink(to, filepath.Join(ws, from)); err != nil {
			t.Fatal(err)
		}
	}
	r := call(t, f, "browser", "screenshot", "x.html", "-o", ws+"/folder/victim.png")
	if r.status != 125 || !strings.Contains(r.stderr, "CAPABILITY_BLOCKED") || f.display.session.opened != "" {
		t.Errorf("status %d, opened %q: %s", r.status, f.display.session.opened, r.stderr)
	}
	if r := call(t, f, "browser", "screenshot", "x.html", "-o", ws+"/file.png"); r.status != 0 {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	if fi, err := os.Lstat(ws + "/file.png"); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("the link is %v: %v", fi, err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("the other file holds %q: %v", b, err)
	}
}

// TestScreenshotFails holds that nothing is written then, and the session is
// closed.
func TestScreenshotFails(t *testing.T) {
	t.Chdir(t.TempDir())
	refused := &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "navigate", Message: "no rule allows a.example:443", Hint: "have network.allowedDomains name the host"}
	for _, tt := range []struct {
		name   string
		change func(*fake)
		output string
		says   string
	}{
		{"a refused page", func(f *fake) { f.display.session.err = refused }, "a.png", "hint: have network.allowedDomains"},
		{"no picture", func(f *fake) { f.display.session.picture.Data = nil }, "a.png", "TOOL.EXECUTION_FAILED"},
		{"no folder", func(*fake) {}, "none/a.png", "SANDBOX.NOT_FOUND: browser screenshot: the picture cannot be written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, _ := picturing(t)
			tt.change(f)
			r := call(t, f, "browser", "screenshot", "https://a.example/", "-o", tt.output)
			if r.status != 125 || r.stdout != "" || !strings.Contains(r.stderr, tt.says) || !strings.HasPrefix(r.stderr, "sandbox: ") {
				t.Errorf("status %d, %q, %q", r.status, r.stdout, r.stderr)
			}
			if left, _ := os.ReadDir("."); len(left) > 0 {
				t.Errorf("there is %v", left)
			}
			if s := &f.display.session; s.opened != "" && s.closed != 1 {
				t.Errorf("closed %d times", s.closed)
			}
		})
	}
}

// TestScreenshotHasAnOutputOfItsOwn holds that -o before the command's name is
// the format, as everywhere, and behind it the picture.
func TestScreenshotHasAnOutputOfItsOwn(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range []string{
		"-o json browser screenshot x.html -o a.png", "browser -o json screenshot -o a.png x.html", "browser screenshot x.html --format=json -o a.png",
	} {
		f, _ := picturing(t)
		r := call(t, f, strings.Fields(args)...)
		if r.status != 0 || !json.Valid([]byte(r.stdout)) || f.display.session.opened != "x.html" {
			t.Errorf("%s: status %d, opened %q, %q, %q", args, r.status, f.display.session.opened, r.stdout, r.stderr)
		}
		if _, err := os.Stat("a.png"); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		os.Remove("a.png")
	}
}

// TestScreenshotThroughADaemon holds that no path of this machine is taken for
// one of the daemon's workspace, and that a picture goes where no link leads.
func TestScreenshotThroughADaemon(t *testing.T) {
	t.Setenv("SANDBOX_HOST", "unix:/run/daemon.sock")
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("real", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", "link"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		target, output string
		status         int
	}{
		{"x.html", "a.png", 0}, {"/workspace/x.html", "real/b.png", 0}, {"https://one.test/", "c.png", 0},
		{dir + "/x.html", "d.png", 125}, {"/etc/passwd", "e.png", 125}, {"x.html", "none/f.png", 125},
	} {
		f := &fake{}
		f.display.folders = display.Folders{Exposed: []string{"/"}}
		f.display.session.picture.Data = []byte("picture")
		r := call(t, f, "browser", "screenshot", tt.target, "-o", tt.output)
		_, err := os.Stat(tt.output)
		if r.status != tt.status || (err == nil) != (tt.status == 0) || tt.status == 0 && !f.options.Host.Remote() {
			t.Errorf("%+v: status %d: %s, %v", tt, r.status, r.stderr, err)
		}
	}
	for _, args := range []string{"browser open", "browser start --serve", "browser start --serve --for 1m"} {
		f := &fake{}
		r := call(t, f, strings.Fields(args)...)
		if r.status != 125 || !strings.Contains(r.stderr, "SANDBOX.UNSUPPORTED") || !strings.Contains(r.stderr, "daemon's machine alone") || f.display.request.Who.Session != "" {
			t.Errorf("%s: status %d: %s", args, r.status, r.stderr)
		}
	}
}
