package network

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"
)

// FuzzJudge holds what is true of every address that is let be opened.
func FuzzJudge(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/x?y#z", "HTTP://EXAMPLE.com:80", "./a/b.html", "workspace:x", "/workspace/../x", "data:,x", "about:blank",
		"http://a@example.com", `http:\\example.com`, "example.com", "file:///x", "http://workspace.invalid/%2e%2e/x", "http://[::1]/", "x.html",
	} {
		f.Add(seed)
	}
	r := usualRules(f)
	f.Fuzz(func(t *testing.T, address string) {
		if a, err := r.Judge(address); err == nil {
			holds(t, address, a)
			// The URL that the browser opens is itself allowed, unchanged.
			again, err := r.Hop(a.URL)
			if err != nil || again != a {
				t.Errorf("%q is %+v, and then %+v, %v", address, a, again, err)
			}
		} else if a != (Address{}) {
			t.Errorf("%q is refused and %+v", address, a)
		}
		if a, err := r.Hop(address); err == nil {
			holds(t, address, a)
		}
	})
}

func holds(t *testing.T, address string, a Address) {
	t.Helper()
	u, err := url.Parse(a.URL)
	if err != nil || u.User != nil || strings.ContainsAny(a.URL, "\t\r\n\x00") {
		t.Fatalf("%q is opened as %q, %v", address, a.URL, err)
	}
	switch a.Kind {
	case Web:
		host := u.Hostname()
		if u.Scheme != "http" && u.Scheme != "https" || a.File != "" ||
			host != "example.com" && !strings.HasSuffix(host, ".example.org") && host != "plain.test" && host != "tls.test" && host != "192.0.2.7" {
			t.Errorf("%q is opened as %+v", address, a)
		}
	case Workspace:
		if !fs.ValidPath(a.File) || a.File == "." || u.Host != WorkspaceHost || u.Scheme != "http" || strings.TrimPrefix(u.Path, "/") != a.File {
			t.Errorf("%q is opened as %+v", address, a)
		}
	case Blank:
		if u.Scheme != "about" {
			t.Errorf("%q is opened as %+v", address, a)
		}
	default:
		t.Errorf("%q is opened as %+v", address, a)
	}
}
