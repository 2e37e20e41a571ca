package attack_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// TestLinksOutOfTheWorkspace checks that only files of the workspace are read,
// for pages that are opened, pictures taken and uploads made.
func TestLinksOutOfTheWorkspace(t *testing.T) {
	t.Parallel()
	r := on(t, `"limits":{"pageBytes":"1m","transferBytes":"1m","navigations":1000000}`, "")
	r.net.Handle(evil, http.HandlerFunc(html(`<title>evil</title>evil <input type=file id=f><p id=out></p>`)))
	req, other := r.of("a", evil), r.of("b", evil)
	s := r.session(t, req, true)
	dir, theirs := r.workspace(t, req), r.workspace(t, other)
	outside := t.TempDir()
	write := func(path, text string) {
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(filepath.Join(dir, "plain.html"), "plain")
	write(filepath.Join(dir, "sub", "plain.html"), "plain")
	write(filepath.Join(theirs, "secret.html"), "secret")
	write(filepath.Join(outside, "secret.html"), "secret")
	write(filepath.Join(dir, "huge.html"), strings.Repeat("x", 2<<20))
	for link, to := range map[string]string{
		"passwd.html": "/etc/passwd", "out.html": filepath.Join(outside, "secret.html"), "within.html": "plain.html", "folder": outside, "sublink": "sub",
		"theirs.html": filepath.Join(theirs, "secret.html"), "dots.html": "../../../../../../etc/passwd", "proc.html": "/proc/self/environ", "dangling.html": "/nowhere", "loop.html": "loop.html",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.html"), 0o644))
	must(t, syscall.Mknod(filepath.Join(dir, "device.html"), syscall.S_IFCHR|0o644, 1<<8|5)) // zeros without end
	blocked, missing, large := sandbox.CodeCapabilityBlocked, sandbox.CodeNotFound, sandbox.CodeBudgetExceeded
	cases := map[string]struct {
		file string
		want sandbox.Code
	}{
		"link to a file of the host":    {"./passwd.html", blocked},
		"link out":                      {"./out.html", blocked},
		"link within":                   {"./within.html", blocked},
		"link to nothing":               {"./dangling.html", blocked},
		"link to itself":                {"./loop.html", blocked},
		"link up":                       {"./dots.html", blocked},
		"link to our own process":       {"./proc.html", blocked},
		"link to another's workspace":   {"./theirs.html", blocked},
		"link as folder":                {"./folder/secret.html", blocked},
		"link as folder, within":        {"./sublink/plain.html", blocked},
		"dots":                          {"./../../etc/passwd", blocked},
		"dots within":                   {"./sub/../plain.html", blocked},
		"dots below the workspace":      {"/workspace/../etc/passwd", blocked},
		"dots with the scheme":          {"workspace:../secret.html", blocked},
		"escaped dots":                  {"./%2e%2e/%2e%2e/etc/passwd", missing},
		"absolute":                      {"workspace:/etc/passwd", blocked},
		"backstrokes":                   {`./..\..\etc\passwd`, blocked},
		"pipe":                          {"./pipe.html", blocked},
		"device":                        {"./device.html", blocked},
		"folder":                        {"./sub", blocked},
		"huge file":                     {"./huge.html", large},
		"file of another scope":         {"./secret.html", missing},
		"address of the workspace":      {"http://workspace.invalid/plain.html", blocked},
		"address of it, by TLS":         {"https://workspace.invalid/plain.html", blocked},
		"address of it, with a port":    {"http://workspace.invalid:9222/plain.html", blocked},
		"address of it, in other case":  {"http://WORKSPACE.invalid/plain.html", blocked},
		"address of it, dot at the end": {"http://workspace.invalid./plain.html", blocked},
		"address below it":              {"http://a.workspace.invalid/plain.html", blocked},
	}
	for name, tt := range cases {
		t.Run("opened/"+name, func(t *testing.T) {
			if p, err := s.Navigate(patient(t), tt.file); sandbox.CodeOf(err) != tt.want {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	must(t, visit(t, s, "./plain.html"))
	must(t, visit(t, s, "./sub/plain.html"))
	must(t, visit(t, s, r.net.URL("http", evil, "/")))
	for name, tt := range cases {
		if strings.HasPrefix(tt.file, "http") {
			continue
		}
		t.Run("uploaded/"+name, func(t *testing.T) {
			if err := s.Upload(patient(t), "#f", []string{tt.file}); sandbox.CodeOf(err) != tt.want {
				t.Error(err)
			}
		})
	}
	t.Run("control/upload", func(t *testing.T) { must(t, s.Upload(patient(t), "#f", []string{"./plain.html"})) })
	t.Run("race", func(t *testing.T) { race(t, s, dir, filepath.Join(outside, "secret.html")) })
	t.Run("without the right to write", func(t *testing.T) { refusesWriting(t, r.session(t, req, false)) })
}

// race opens a file that is continually exchanged with a link, until it was
// read: a busy machine can take many rounds for that, because the same file
// has to be there at four checks.
func race(t *testing.T, s browser.Session, dir, secret string) {
	name := filepath.Join(dir, "swapped.html")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if n%2 == 0 {
				_ = os.Symlink(secret, name+".next")
			} else {
				_ = os.WriteFile(name+".next", []byte("plain"), 0o644)
			}
			_ = os.Rename(name+".next", name)
		}
	}()
	defer func() { close(stop); <-done }()
	plain, end := 0, time.Now().Add(patience)
	var refused error
	for n := 0; n < 25 || plain == 0 && time.Now().Before(end); n++ {
		_, err := s.Navigate(patient(t), "./swapped.html")
		if err != nil {
			refused = err
			continue
		}
		c, err := s.Extract(patient(t), browser.Extraction{Text: true})
		must(t, err)
		switch {
		case strings.Contains(c.Text, "secret"):
			t.Fatal("the file outside was read")
		case strings.Contains(c.Text, "plain"):
			plain++
		}
	}
	if plain == 0 {
		t.Error("the control: the file was never read; the last refusal:", refused)
	}
}

func visit(t testing.TB, s browser.Session, address string) error {
	_, err := s.Navigate(patient(t), address)
	return err
}
