package attack_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// suggestions are file names in the header of a response, and the resulting
// names.
var suggestions = map[string]struct{ header, want string }{
	"plain":            {`attachment; filename="plain.txt"`, "plain.txt"},
	"out of here":      {`attachment; filename="../../out.txt"`, ""},
	"out by escapes":   {`attachment; filename*=UTF-8''..%2F..%2Fout.txt`, ""},
	"backstrokes":      {`attachment; filename="..\\..\\out.txt"`, ""},
	"absolute":         {`attachment; filename="/etc/passwd"`, ""},
	"hidden":           {`attachment; filename=".bashrc"`, ""},
	"dots":             {`attachment; filename=".."`, ""},
	"control":          {"attachment; filename*=UTF-8''a%1B%5B2Jb%0A.txt", ""},
	"other direction":  {"attachment; filename*=UTF-8''a%E2%80%AEtxt.exe", ""},
	"much too long":    {`attachment; filename="` + strings.Repeat("a", 400) + `.txt"`, ""},
	"option":           {`attachment; filename="--help"`, ""},
	"git's folder":     {`attachment; filename=".git/hooks/post-checkout"`, ""},
	"same as a link":   {`attachment; filename="linked.txt"`, "linked (1).txt"},
	"same as a folder": {`attachment; filename="folder"`, "folder (1)"},
}

// downloaded is what a download holds, a text that the browser has no use for:
// its preferences have the names of settings.
const downloaded = "body-of-a-download-0717"

// offering is a host with links to downloads.
func offering() http.Handler {
	m := http.NewServeMux()
	send := func(header string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			if header != "" {
				w.Header().Set("Content-Disposition", header)
			}
			fmt.Fprint(w, downloaded)
		}
	}
	body := `<title>evil</title>evil <a id=binary href="/binary">x</a> <a id=named href="/page" download="named.html">x</a>
		<a id=blob download="blob.txt">x</a> <a id=large href="/large">x</a><script>document.getElementById('blob').href = URL.createObjectURL(new Blob(['` + downloaded + `']))</script>`
	n := 0
	for name, s := range suggestions {
		n++
		m.HandleFunc("/file"+itoa(n), send(s.header))
		body += ` <a data-name="` + name + `" href="/file` + itoa(n) + `">x</a>`
	}
	m.HandleFunc("/", html(body))
	m.HandleFunc("/page", html("a page"))
	m.HandleFunc("/binary", send(""))
	m.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment; filename=large")
		chunk := make([]byte, 64<<10)
		for range 64 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	return m
}

// TestDownloadsRefused checks that nothing is downloaded if settings do not
// allow it, by any client. The control is [TestDownloadsAllowed].
func TestDownloadsRefused(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	r.net.Handle(evil, offering())
	req := r.of("a", evil)
	s := r.session(t, req, true)
	dir := r.workspace(t, req)
	_, err := s.Navigate(patient(t), r.net.URL("http", evil, "/"))
	must(t, err)
	in := r.inside(t, req)
	nothing := func(t *testing.T) {
		t.Helper()
		// Chromium creates a file before it asks for permission.
		var left string
		defer func() {
			if t.Failed() {
				t.Logf("left inside: %q", left)
			}
		}()
		await(t, "nothing is left inside", func() bool {
			left = sh(t, in, `grep -rl `+downloaded+` /tmp /home/sandbox /run 2>/dev/null | grep -vi -e cache -e session || true`)
			return left == ""
		})
		if got := files(t, dir); len(got) > 0 {
			t.Errorf("it is in the workspace: %q", got)
		}
	}
	for _, link := range []string{"#binary", "#named", "#blob", `[data-name="plain"]`} {
		t.Run("session/"+link, func(t *testing.T) {
			if _, err := s.Download(patient(t), link, ""); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Error(err)
			}
			must(t, s.Click(patient(t), link))
			nothing(t)
		})
	}
	t.Run("session/opens it", func(t *testing.T) {
		if p, err := s.Navigate(patient(t), r.net.URL("http", evil, "/binary")); err == nil {
			t.Errorf("%+v", p)
		}
		nothing(t)
	})
	clicks := func(t *testing.T, c *client, method, behaviour string) {
		target, page := c.page(r.net.URL("http", evil, "/"))
		defer c.closePage(target)
		c.shows(page, "evil")
		params := object{"behavior": behaviour, "downloadPath": "/tmp/there"}
		switch {
		case strings.HasPrefix(method, "Browser."):
			c.must("", method, params, nil)
		case method != "":
			c.must(page, method, params, nil)
		}
		for _, id := range []string{"binary", "named", "blob"} {
			if _, ok := c.eval(page, "document.getElementById('"+id+"').click()"); !ok {
				t.Error("no click")
			}
		}
		_ = c.call(page, "Page.navigate", object{"url": r.net.URL("http", evil, "/file1")}, nil)
	}
	c := r.client(t, req)
	t.Run("client/as it is", func(t *testing.T) {
		clicks(t, c, "", "")
		nothing(t)
	})
	// The protocol can overrule the browser's policy, but only within the
	// container: the files end with it, and the workspace is not in it.
	for _, method := range []string{"Browser.setDownloadBehavior", "Page.setDownloadBehavior"} {
		for _, behaviour := range []string{"allow", "default"} {
			t.Run("client/"+method+"/"+behaviour, func(t *testing.T) {
				clicks(t, c, method, behaviour)
				if got := files(t, dir); len(got) > 0 {
					t.Errorf("it is in the workspace: %q", got)
				}
			})
		}
	}
	t.Run("client/into the workspace", func(t *testing.T) {
		if got := sh(t, in, "ls -d "+sandbox.WorkspaceDir+" "+dir+" 2>&1 | grep -v 'No such file' || true"); got != "" {
			t.Errorf("there is a way to it: %s", got)
		}
	})
}

// TestDownloadsAllowed checks that downloads get safe names, as new files, in
// folders of the workspace.
func TestDownloadsAllowed(t *testing.T) {
	t.Parallel()
	r := on(t, `"allowDownloads":true,"limits":{"transferBytes":"1m","navigation":"1m"}`, "")
	r.net.Handle(evil, offering())
	req := r.of("a", evil)
	s := r.session(t, req, true)
	dir := r.workspace(t, req)
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.Mkdir(outside, 0o777))
	must(t, os.WriteFile(filepath.Join(outside, "file"), []byte("untouched"), 0o666))
	must(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(dir, "linked.txt")))
	must(t, os.Symlink(outside, filepath.Join(dir, "out")))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	_, err := s.Navigate(patient(t), r.net.URL("http", evil, "/"))
	must(t, err)
	for name, want := range suggestions {
		t.Run(name, func(t *testing.T) {
			d, err := s.Download(patient(t), `[data-name="`+name+`"]`, "")
			must(t, err)
			if want.want != "" && d.Path != want.want || filepath.Base(d.Path) != d.Path || len(d.Path) > 255 || strings.HasPrefix(d.Path, ".") || strings.HasPrefix(d.Path, "-") {
				t.Errorf("it is called %q, want %q", d.Path, want.want)
			}
			if strings.ContainsAny(d.Path, "\x1b\n\u202e/\\") {
				t.Errorf("the name %q holds more than a name", d.Path)
			}
			info, err := os.Lstat(filepath.Join(dir, d.Path))
			must(t, err)
			if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 != 0 || info.Size() != int64(len(downloaded)) {
				t.Errorf("it is %v of %d bytes", info.Mode(), info.Size())
			}
		})
	}
	for name, folder := range map[string]string{"folder that is a link": "out", "folder outside": "../x", "absolute folder": "/etc", "link on the way": "out/deeper"} {
		t.Run(name, func(t *testing.T) {
			if d, err := s.Download(patient(t), "#binary", folder); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		before := len(files(t, dir))
		if _, err := s.Download(patient(t), "#large", ""); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
			t.Error(err)
		}
		if got := files(t, dir); len(got) != before {
			t.Errorf("something is left of it: %q", got)
		}
	})
	t.Run("without the right to write", func(t *testing.T) { refusesWriting(t, r.session(t, req, false)) })
	b, err := os.ReadFile(filepath.Join(outside, "file"))
	must(t, err)
	if string(b) != "untouched" || len(files(t, outside)) != 1 {
		t.Errorf("outside lies %q with %q", files(t, outside), b)
	}
}

// refusesWriting checks what a session without the right to write refuses.
func refusesWriting(t *testing.T, s browser.Session) {
	t.Helper()
	ctx := patient(t)
	_, err := s.Navigate(ctx, "about:blank")
	must(t, err)
	_, download := s.Download(ctx, "body", "")
	for name, err := range map[string]error{
		"click": s.Click(ctx, "body"), "type": s.Type(ctx, "body", "x"), "upload": s.Upload(ctx, "body", []string{"x"}), "download": download,
	} {
		t.Run(name, func(t *testing.T) {
			if sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
				t.Error(err)
			}
		})
	}
}

// files returns the names of all that lies below a folder but folders.
func files(t testing.TB, dir string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	}))
	return out
}
