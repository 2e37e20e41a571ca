package sdk_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

func TestFilesOfADaemon(t *testing.T) {
	onBoth(t, func(r *rig) {
		w, err := r.c.WriteFileWith(r.ctx, r.box, "dir/a", strings.NewReader("0123456789"), sdk.WriteOptions{Mode: 0o600, Exclusive: true})
		r.ok(err)
		f, err := r.c.StatFile(r.ctx, r.box, "dir/a")
		if err != nil || f.Path != "/workspace/dir/a" || f.Size != 10 || f.Mode != "0600" || f.Type != "file" {
			r.Errorf("%+v, %v", f, err)
		}
		_, err = r.c.WriteFile(r.ctx, r.box, "dir/a", strings.NewReader("x"), true)
		r.code("one that is there", err, sandbox.CodeBusy)
		_, err = r.c.WriteFileWith(r.ctx, r.box, "dir/a", strings.NewReader("x"), sdk.WriteOptions{ETag: `"sha256-other"`})
		r.code("one with another content", err, sandbox.CodeBusy)
		if _, err := r.c.WriteFileWith(r.ctx, r.box, "dir/a", strings.NewReader("abcdefghij"), sdk.WriteOptions{ETag: w.ETag}); err != nil {
			r.Errorf("one with this content: %v", err)
		}
		for _, tt := range []struct {
			offset, length int64
			want           string
		}{{0, 3, "abc"}, {4, 2, "ef"}, {7, 0, "hij"}, {8, 100, "ij"}} {
			part, err := r.c.ReadPart(r.ctx, r.box, "dir/a", tt.offset, tt.length)
			r.ok(err)
			b, err := io.ReadAll(part)
			part.Close()
			if err != nil || string(b) != tt.want {
				r.Errorf("%d bytes from %d are %q, %v", tt.length, tt.offset, b, err)
			}
		}
		_, err = r.c.ReadPart(r.ctx, r.box, "dir/a", 100, 1)
		r.code("a part behind the end", err, sandbox.CodeValidation)
		r.Rig.Run("acme", "s1", "ln -s a /workspace/dir/link")
		link, err := r.c.StatFile(r.ctx, r.box, "dir/link")
		if err != nil || link.Type != "symlink" || link.Target != "a" {
			r.Errorf("%+v, %v", link, err)
		}
		if f, err := r.c.FollowFile(r.ctx, r.box, "dir/link"); err != nil || f.Type != "file" || f.Size != 10 {
			r.Errorf("followed %+v, %v", f, err)
		}
	})
}

func TestArchives(t *testing.T) {
	onMemory(t, func(r *rig) {
		var in bytes.Buffer
		tw := tar.NewWriter(&in)
		content := strings.Repeat("content ", 64<<10)
		r.ok(tw.WriteHeader(&tar.Header{Name: "sub/a", Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}))
		_, err := tw.Write([]byte(content))
		r.ok(err)
		r.ok(tw.WriteHeader(&tar.Header{Name: "out", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}))
		r.ok(tw.Close())
		u, err := r.c.UnpackArchive(r.ctx, r.box, "copy", &in)
		if err != nil || u.Files != 1 || u.Bytes != int64(len(content)) || len(u.Left) != 1 || u.Path != "/workspace/copy" {
			r.Errorf("%+v, %v", u, err)
		}
		out, err := r.c.PackArchive(r.ctx, r.box, "copy")
		r.ok(err)
		defer out.Close()
		tr, found := tar.NewReader(out), false
		for {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			r.ok(err)
			if h.Name == "sub/a" {
				b, err := io.ReadAll(tr)
				found = err == nil && string(b) == content
			}
		}
		if !found {
			r.Error("the archive has not what went in")
		}
		_, err = r.c.PackArchive(r.ctx, r.box, "none")
		r.code("nothing there", err, sandbox.CodeNotFound)
		_, err = r.c.UnpackArchive(r.ctx, r.box, "copy", strings.NewReader(strings.Repeat("no archive ", 100)))
		r.code("no archive", err, sandbox.CodeValidation)
		_, err = r.as("evil").PackArchive(r.ctx, r.box, "copy")
		r.code("another tenant's", err, sandbox.CodeNotFound)
	})
}

func TestWatches(t *testing.T) {
	onBoth(t, func(r *rig) {
		kinds := []string{}
		for e, err := range r.c.WatchFiles(r.ctx, r.box, sdk.Watch{}) {
			r.ok(err)
			switch {
			case e.Ready != nil && e.Ready.Polls: // the note follows
			case e.Ready != nil, e.Note != nil && e.Note.Code == string(sandbox.CodeUnsupported):
				r.Rig.Run("acme", "s1", "echo x > seen")
			case e.Change != nil && e.Change.Name == "seen" && e.Change.Path == "/workspace/seen":
				kinds = append(kinds, e.Change.Kind)
				if e.Change.Kind == "create" {
					r.Rig.Run("acme", "s1", "rm seen")
				}
			}
			if len(kinds) > 0 && kinds[len(kinds)-1] == "remove" {
				break
			}
		}
		if kinds[0] != "create" {
			r.Error(kinds)
		}
		for _, err := range r.c.WatchFiles(r.ctx, r.box, sdk.Watch{Path: "none"}) {
			r.code("nothing there", err, sandbox.CodeNotFound)
		}
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		var last error
		for e, err := range r.c.WatchFiles(ctx, r.box, sdk.Watch{Flat: true}) {
			if last = err; e.Ready != nil {
				cancel()
			}
		}
		r.code("the end of the context", last, sandbox.CodeTimeout)
	})
}

func TestCommandsAsTheyGo(t *testing.T) {
	onMemory(t, func(r *rig) {
		var out, errOut bytes.Buffer
		exit, err := r.c.ExecStream(r.ctx, r.box, api.Exec{Line: `printf 'one\377'; echo two >&2; exit 3`}, sdk.Sinks{Stdout: &out, Stderr: &errOut})
		if err != nil || exit.ExitCode != 3 || out.String() != "one\xff" || errOut.String() != "two\n" {
			r.Errorf("%+v, %v, %q, %q", exit, err, out.String(), errOut.String())
		}
		exit, err = r.c.ExecStream(r.ctx, r.box, api.Exec{Args: []string{"no-such-program"}}, sdk.Sinks{})
		if err != nil || exit.ExitCode != 127 {
			r.Errorf("no such program: %+v, %v", exit, err)
		}
		_, err = r.c.ExecStream(r.ctx, r.box, api.Exec{Line: "echo x; sleep 1000"}, sdk.Sinks{Stdout: full{}})
		r.code("a writer that fails", err, sandbox.CodeExecution)
		sh, err := r.c.OpenShell(r.ctx, r.box, api.OpenShell{})
		r.ok(err)
		out.Reset()
		_, err = r.c.RunLineStream(r.ctx, r.box, sh.ID, api.RunLine{Line: "X=kept"}, sdk.Sinks{})
		r.ok(err)
		if _, err := r.c.RunLineStream(r.ctx, r.box, sh.ID, api.RunLine{Line: "echo $X"}, sdk.Sinks{Stdout: &out}); err != nil || out.String() != "kept\n" {
			r.Errorf("%v, %q", err, out.String())
		}
		a, err := r.c.UseTool(r.ctx, r.box, sdk.ToolCall{Tool: "exec", Input: map[string]any{"command": "echo from the tool"}})
		if err != nil || a.Failed || !strings.Contains(a.Text, "from the tool") {
			r.Errorf("%+v, %v", a, err)
		}
		_, err = r.c.UseTool(r.ctx, r.box, sdk.ToolCall{Tool: "none"})
		r.code("no such tool", err, sandbox.CodeDenyTool)
	})
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestTerminals(t *testing.T) {
	r := newRig(t, "docker")
	var out bytes.Buffer
	p, err := r.c.OpenTerminal(r.ctx, r.box, sandbox.Command{Args: []string{"sh", "-c", "tty >/dev/null && stty size"}, TTY: &sandbox.TTY{Rows: 31, Cols: 97}, Stdout: &out})
	r.ok(err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || out.String() != "31 97\r\n" {
		r.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	ctx, leave := context.WithCancel(r.ctx)
	defer leave()
	p, id, err := r.c.KeepTerminal(ctx, r.box, sandbox.Command{TTY: &sandbox.TTY{Rows: 10, Cols: 20}})
	r.ok(err)
	leave()
	_, _ = p.Wait() // of the connection
	l, err := r.c.Terminals(r.ctx, r.box)
	if err != nil || len(l.Items) != 1 || l.Items[0].ID != id || l.Items[0].State != "running" {
		r.Fatalf("%+v, %v, want %q", l, err, id)
	}
	out.Reset()
	p, err = r.c.JoinTerminal(r.ctx, r.box, id, sandbox.Command{Stdin: strings.NewReader("exit 4\n"), Stdout: &out})
	r.ok(err)
	if exit, err := p.Wait(); err != nil || exit.Code != 4 {
		r.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	_, id, err = r.c.KeepTerminal(r.ctx, r.box, sandbox.Command{})
	r.ok(err)
	r.ok(r.c.EndTerminal(r.ctx, r.box, id))
	_, err = r.as("evil").Terminals(r.ctx, r.box)
	r.code("another tenant's", err, sandbox.CodeNotFound)
}

// TestPages holds that everything that is asked of a page arrives, and comes
// back.
func TestPages(t *testing.T) {
	r := newRig(t, "")
	p := r.c.Page(r.box)
	at, err := p.Navigate(r.ctx, "https://one.test/")
	if err != nil || at.Status != 200 || at.URL != "https://one.test/" {
		t.Errorf("%+v, %v", at, err)
	}
	shot := browser.Shot{Selector: "#a", Full: true, Width: 640, Height: 480, JPEG: 50}
	if pic, err := p.Screenshot(r.ctx, shot); err != nil || string(pic.Data) != "picture" || pic.MIME != "image/jpeg" || pic.Width != 3 || pic.Height != 2 {
		t.Errorf("%+v, %v", pic, err)
	}
	want := browser.Extraction{Text: true, Links: true, Tree: true, Selector: "p", MaxText: 7, MaxLinks: 8, MaxNodes: 9}
	if c, err := p.Extract(r.ctx, want); err != nil || c.Text != "text" || len(c.Links) != 1 || !c.Truncated {
		t.Errorf("%+v, %v", c, err)
	}
	if pdf, err := p.PDF(r.ctx); err != nil || string(pdf) != "%PDF" {
		t.Errorf("%q, %v", pdf, err)
	}
	gone := browser.Condition{Gone: "#b", Timeout: 1500 * time.Millisecond}
	r.ok(p.Wait(r.ctx, gone))
	r.code("what never comes", p.Wait(r.ctx, browser.Condition{Text: "never"}), sandbox.CodeTimeout)
	r.code("two conditions", p.Wait(r.ctx, browser.Condition{Gone: "a", Visible: "b"}), sandbox.CodeValidation)
	r.ok(p.Click(r.ctx, "#c"))
	r.ok(p.Type(r.ctx, "#d", "words"))
	r.ok(p.Upload(r.ctx, "#e", []string{"a", "b"}))
	if d, err := p.Download(r.ctx, "#f", "folder"); err != nil || d.Path != "folder/f" || d.Size != 4 || !bytes.Equal(d.Sum, []byte{1, 2}) {
		t.Errorf("%+v, %v", d, err)
	}
	r.ok(p.Close())
	if r.fakeManager.closed != 1 {
		t.Errorf("%d pages are closed", r.fakeManager.closed)
	}
	gone.Timeout = 2 * time.Second
	reported := []any{"https://one.test/", shot, want, gone, browser.Condition{Text: "never"}, "#c", "#d", "words", "#e", 2, "#f", "folder"}
	if !reflect.DeepEqual(r.fakeManager.done, reported) {
		t.Errorf("the browser was asked for %v, want %v", r.fakeManager.done, reported)
	}
	b, err := r.c.StartBrowser(r.ctx, r.box, api.StartBrowser{Watch: true, CDP: true})
	if err != nil || b.Name != "sbx-browser-x" || b.WatchURL == "" || b.CDPURL == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if l, err := r.c.Browsers(r.ctx, r.box); err != nil || len(l.Items) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	conn, password, err := r.c.ViewBrowser(r.ctx, r.box)
	r.ok(err)
	greeting := make([]byte, 12)
	if _, err := io.ReadFull(conn, greeting); err != nil || string(greeting) != "RFB 003.008\n" || password != "p4ssw0rd" {
		t.Errorf("the display: %q, %v", greeting, err)
	}
	if n, err := conn.Read(greeting); err == nil {
		t.Errorf("the display goes on after its end: %d bytes", n)
	}
	conn.Close()
	r.ok(r.c.StopBrowser(r.ctx, r.box, true))
	if n := len(r.fakeManager.done); r.fakeManager.done[n-2] != "stop" || r.fakeManager.done[n-1] != true {
		t.Errorf("%v", r.fakeManager.done)
	}
	r.code("another tenant's", r.as("evil").Page(r.box).Click(r.ctx, "#a"), sandbox.CodeNotFound)
}

func TestGrants(t *testing.T) {
	onMemory(t, func(r *rig) {
		now := time.Now()
		all := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSWrite, Path: "/workspace"}}
		g := grant.Grant{
			ID: "g-1", Tenant: "acme", Subject: "user-17", Agent: "main", Session: "s1", Tool: "reporter", Call: "call-1", Capabilities: all,
			DecisionKey: "key-1", Issued: now.Add(-time.Minute), Expires: now.Add(10 * time.Minute),
			Budget:  grant.Budget{Calls: 10, BytesIn: 1 << 20, BytesOut: 1 << 20, CPUMs: 10_000, Files: 5, WallMs: 600_000},
			Consent: &grant.Consent{By: "user-17", At: now.Add(-time.Minute), Expires: now.Add(10 * time.Minute)},
		}
		m := grant.Manifest{Tool: "reporter", Version: "1.2.0", Safety: grant.SafetyLow, Capabilities: all, SideEffects: []grant.SideEffect{grant.EffectWrite}}
		checked, err := r.c.CheckGrant(r.ctx, api.CheckGrant{Grant: g, Manifest: m})
		if err != nil || checked.Hash == "" || !json.Valid(checked.Profile) {
			r.Errorf("%+v, %v", checked, err)
		}
		o := api.Operate{Grant: g, Manifest: m, Operation: grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Overwrite: true}, Data: []byte("text")}
		done, err := r.c.Operate(r.ctx, o)
		if err != nil || !done.OK {
			r.Fatalf("%+v, %v", done, err)
		}
		if out := r.Rig.Run("acme", "s1", "cat a"); out != "text" {
			r.Errorf("inside there is %q", out)
		}
		less, err := r.c.DeriveGrant(r.ctx, api.DeriveGrant{Grant: g, Call: "call-2", DecisionKey: "key-2", Capabilities: all[:1]})
		if err != nil || len(less.Grant.Capabilities) != 1 || len(less.Line) != 1 {
			r.Errorf("%+v, %v", less, err)
		}
		r.ok(r.c.RevokeGrant(r.ctx, g.ID, g.Expires))
		done, err = r.c.Operate(r.ctx, o)
		if err != nil || done.OK || done.Code == "" {
			r.Errorf("under a grant that was taken back: %+v, %v", done, err)
		}
		_, err = r.as("evil").Operate(r.ctx, o)
		r.code("another tenant's grant", err, sandbox.CodePermissionDeny)
		_, err = r.as("acme-s1").CheckGrant(r.ctx, api.CheckGrant{Grant: g, Manifest: m})
		r.code("an agent", err, sandbox.CodePermissionDeny)
	})
}

// TestTheDaemonItself holds what a client asks of the process.
func TestTheDaemonItself(t *testing.T) {
	r := newRig(t, "")
	if h, err := r.c.Health(r.ctx); err != nil || h.Status != "ok" {
		t.Errorf("%+v, %v", h, err)
	}
	if s, err := r.c.Readiness(r.ctx); err != nil || !s.Ready || len(s.Checks) == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if d, err := r.c.Document(r.ctx); err != nil || !strings.Contains(string(d), `"openapi"`) {
		t.Errorf("%d bytes, %v", len(d), err)
	}
	u, err := r.c.Usages(r.ctx)
	if err != nil || len(u.Items) != 1 || u.Items[0].Name != r.box {
		t.Errorf("%+v, %v", u, err)
	}
	page, err := r.as("").ListSandboxes(r.ctx, sdk.ListOptions{All: true, Kind: sandbox.KindSandbox})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	page, err = r.c.ListSandboxes(r.ctx, sdk.ListOptions{Kind: sandbox.KindBrowser})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}
