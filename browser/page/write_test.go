package page

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

func TestRights(t *testing.T) {
	p := newPlace(t, nil)
	p.settings.Downloads = true
	p.file(t, "x.html", `<button id=b onclick="document.body.append('clicked')">b</button><input id=i><input type=file id=f>`)
	p.file(t, "u.txt", "u")
	s := p.openAs(t, browser.Rights{}, Options{})
	visited(t, s, "x.html")
	want(t, s.Click(t.Context(), "#b"), sandbox.CodePermissionDeny, "")
	want(t, s.Type(t.Context(), "#i", "x"), sandbox.CodePermissionDeny, "")
	want(t, s.Upload(t.Context(), "#f", []string{"u.txt"}), sandbox.CodePermissionDeny, "")
	_, err := s.Download(t.Context(), "#b", "")
	want(t, err, sandbox.CodePermissionDeny, "")
	if got := text(t, s); strings.Contains(got, "clicked") {
		t.Error(got)
	}
}

func TestClick(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<p id=out></p><div style="height: 5000px"></div>
		<button id=b onclick="out.append('clicked:' + event.isTrusted)">b</button><button id=hidden style="display:none">h</button>
		<div style="position: relative"><button id=under>u</button><div style="position:absolute; inset: 0; background: red"></div></div>
		<a id=go href=y.html>go</a><button id=dialog onclick="alert(1); out.append('after')">d</button>`)
	p.file(t, "y.html", "arrived")
	s := p.open(t)
	visited(t, s, "x.html")
	if err := s.Click(t.Context(), "#b"); err != nil {
		t.Fatal(err)
	}
	if got := text(t, s); !strings.HasPrefix(got, "clicked:true") {
		t.Errorf("%q", got)
	}
	want(t, s.Click(t.Context(), "#hidden"), sandbox.CodeExecution, "not shown")
	want(t, s.Click(t.Context(), "#under"), sandbox.CodeExecution, "covers")
	want(t, s.Click(t.Context(), "#missing"), sandbox.CodeNotFound, "")
	want(t, s.Click(t.Context(), "]["), sandbox.CodeValidation, "")
	if err := s.Click(t.Context(), "#dialog"); err != nil {
		t.Error(err)
	}
	if err := s.Wait(t.Context(), browser.Condition{Text: "after"}); err != nil {
		t.Error(err)
	}
	if err := s.Click(t.Context(), "#go"); err != nil {
		t.Error(err)
	}
	if err := s.Wait(t.Context(), browser.Condition{Text: "arrived"}); err != nil {
		t.Error(err)
	}
}

func TestType(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<input id=i value=old><textarea id=a></textarea><div id=e contenteditable>old</div><input id=r readonly><input id=c type=checkbox>
		<form name=f onsubmit="return false"><input name=focus id=n><input name=select></form>`)
	s := p.open(t)
	visited(t, s, "x.html")
	value := func(sel string) string {
		t.Helper()
		var v string
		if err := s.tab.ask(t.Context(), &v, "sel", "const el = find(sel); return el.value === undefined ? el.textContent : el.value", sel); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct{ sel, text string }{{"#i", "new é 漢"}, {"#a", "two\nlines"}, {"#e", "new"}, {"#i", ""}, {"#e", ""}, {"#n", "x"}} {
		if err := s.Type(t.Context(), tt.sel, tt.text); err != nil {
			t.Errorf("%s: %v", tt.sel, err)
		}
		if got := value(tt.sel); got != tt.text {
			t.Errorf("%s is %q, want %q", tt.sel, got, tt.text)
		}
	}
	want(t, s.Type(t.Context(), "#r", "x"), sandbox.CodeExecution, "")
	want(t, s.Type(t.Context(), "#c", "x"), sandbox.CodeExecution, "")
	want(t, s.Type(t.Context(), "#missing", "x"), sandbox.CodeNotFound, "")
}

func TestUpload(t *testing.T) {
	var mu sync.Mutex
	var got []string
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			m, err := r.MultipartReader()
			for err == nil {
				part, next := m.NextPart()
				if err = next; err == nil {
					data, _ := io.ReadAll(part)
					mu.Lock()
					got = append(got, part.FileName()+"="+string(data))
					mu.Unlock()
				}
			}
			html("sent")(w, r)
			return
		}
		html(`<form method=post enctype=multipart/form-data><input type=file name=f id=f multiple><input type=file id=one><input id=no><button id=b>send</button></form>`)(w, r)
	}})
	p.file(t, "a/x.txt", "first")
	p.file(t, "b/x.txt", "second")
	p.file(t, "large.bin", strings.Repeat("x", int(p.settings.Limits.TransferBytes)+1))
	for link, to := range map[string]string{"link.txt": "a/x.txt", "dir": "a", "out": "/etc/passwd"} {
		if err := os.Symlink(to, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(p.dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := p.open(t)
	visited(t, s, "http://site.test/")
	for file, code := range map[string]sandbox.Code{
		"link.txt": sandbox.CodeCapabilityBlocked, "dir/x.txt": sandbox.CodeCapabilityBlocked, "out": sandbox.CodeCapabilityBlocked,
		"../x": sandbox.CodeCapabilityBlocked, "/etc/passwd": sandbox.CodeCapabilityBlocked, "pipe": sandbox.CodeCapabilityBlocked,
		"a": sandbox.CodeCapabilityBlocked, "none": sandbox.CodeNotFound, "large.bin": sandbox.CodeBudgetExceeded,
	} {
		want(t, s.Upload(t.Context(), "#f", []string{file}), code, "")
	}
	want(t, s.Upload(t.Context(), "#no", []string{"a/x.txt"}), sandbox.CodeExecution, "")
	want(t, s.Upload(t.Context(), "#one", []string{"a/x.txt", "b/x.txt"}), sandbox.CodeValidation, "")
	if err := s.Upload(t.Context(), "#f", []string{"a/x.txt", "/workspace/b/x.txt"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Click(t.Context(), "#b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), browser.Condition{Text: "sent"}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != "[x.txt=first x.txt=second]" {
		t.Errorf("%q", got)
	}
	if left := p.inside(t, "ls", "-A", "/tmp"); !strings.Contains(left, ".sandbox-page-") {
		t.Errorf("nothing in %q", left)
	}
	s.Close()
	if left := p.inside(t, "ls", "-A", "/tmp"); strings.Contains(left, ".sandbox-page-") {
		t.Errorf("left: %q", left)
	}
}

func TestDownload(t *testing.T) {
	file := func(name, content string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
			fmt.Fprint(w, content)
		}
	}
	p := newPlace(t, map[string]http.HandlerFunc{
		"site.test": html(`<a id=a href="http://file.test/">a</a><a id=l href="http://large.test/">l</a><p id=n>n</p>
			<button id=two onclick="a.click(); l.click()">two</button><a id=e href="http://evil.test/">e</a>`),
		"file.test": file("report.txt", "content"), "large.test": file("large.bin", strings.Repeat("x", 5<<20)),
		"evil.test": file("..%2F..%2F.bashrc", "evil"),
	})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	_, err := s.Download(t.Context(), "#a", "")
	want(t, err, sandbox.CodeCapabilityBlocked, "allowDownloads")
	s.Close()

	p.settings.Downloads = true
	p.file(t, "in/report.txt", "old")
	if err := os.Symlink(t.TempDir(), filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	p.refusal = &sandbox.Error{Code: sandbox.CodeDenyTool, Message: "workspaceAccess is ro"}
	s = p.open(t)
	visited(t, s, "http://site.test/")
	_, err = s.Download(t.Context(), "#a", "in")
	want(t, err, sandbox.CodeDenyTool, "workspaceAccess is ro")
	p.refusal = nil
	for _, path := range []string{"in/report (1).txt", "in/report (2).txt"} {
		d, err := s.Download(t.Context(), "#a", "in")
		if err != nil || d.Path != path || d.Size != 7 || d.URL != "http://file.test/" {
			t.Fatalf("%+v, %v", d, err)
		}
		info, err := os.Stat(filepath.Join(p.dir, path))
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != p.Spec.UID {
			t.Errorf("%v %v", info, err)
		}
	}
	if d, err := s.Download(t.Context(), "#e", "new/deep"); err != nil || !strings.HasPrefix(d.Path, "new/deep/") || strings.Count(d.Path, "/") != 2 || strings.Contains(d.Path, "/.") {
		t.Errorf("%+v, %v", d, err)
	}
	for folder, code := range map[string]sandbox.Code{"link": sandbox.CodeCapabilityBlocked, "../x": sandbox.CodeCapabilityBlocked, "/etc": sandbox.CodeCapabilityBlocked} {
		_, err := s.Download(t.Context(), "#a", folder)
		want(t, err, code, "")
	}
	_, err = s.Download(t.Context(), "#l", "")
	want(t, err, sandbox.CodeBudgetExceeded, "transferBytes")
	s.settings.Limits.Navigation = 2 * time.Second // which none begins within
	_, err = s.Download(t.Context(), "#n", "")
	want(t, err, sandbox.CodeExecution, "no download")
	if data, err := os.ReadFile(filepath.Join(p.dir, "in/report.txt")); string(data) != "old" {
		t.Errorf("%q, %v", data, err)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
	if left := p.inside(t, "ls", "-A", "/tmp"); strings.Contains(left, ".sandbox-page-") {
		t.Errorf("left: %q", left)
	}
}
