package operation

import (
	"net/url"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// FuzzFollow checks that no address makes a request that another origin could
// learn something by, or that is more than the one before.
func FuzzFollow(f *testing.F) {
	for _, s := range []string{
		"/a", "//other.test/", "https://files.test:8443/", "HTTPS://FILES.test/", "http://files.test/", "?q", "#f", "..", "https:a", "javascript:x",
		"https://u:p@files.test/", "\\\\evil.test", "https:///evil.test", "%2f%2fevil.test", "/\u202e", "https://[::1]/",
	} {
		for _, status := range []int{301, 303, 307, 200} {
			f.Add(status, s)
		}
	}
	f.Fuzz(func(t *testing.T, status int, location string) {
		v := grant.Vetted{Operation: grant.Operation{
			Kind: grant.OpNetHTTP, Method: "PUT", URL: "https://files.test/x/y?q", Data: []byte("body"),
			Header: map[string]string{"Authorization": "secret", "cOOkie": "secret", "Accept": "a", "Content-Type": "c"},
		}}
		next, ok, err := follow(&v, status, []string{location})
		if err != nil {
			if ok || sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("%v, %v", ok, err)
			}
			return
		}
		if len(v.Header) != 4 {
			t.Errorf("the request before was changed: %v", v.Header)
		}
		if !ok {
			if status >= 301 && status <= 303 && location != "" {
				t.Errorf("%d to %q is not followed", status, location)
			}
			return
		}
		u, err := url.Parse(next.URL)
		if err != nil {
			return // the guard refuses what cannot be read
		}
		same := u.Scheme == "https" && strings.EqualFold(u.Host, "files.test")
		keeps := status >= 307
		if (len(next.Data) > 0) != keeps || (next.Method == "PUT") != keeps {
			t.Errorf("%d: %s with %d bytes", status, next.Method, len(next.Data))
		}
		if _, reported := next.Header["Authorization"]; reported && !same {
			t.Errorf("%q is told of Authorization", next.URL)
		}
		if _, reported := next.Header["cOOkie"]; reported != same {
			t.Errorf("%q: cookie %v", next.URL, reported)
		}
		if u.Fragment != "" || next.Kind != grant.OpNetHTTP {
			t.Errorf("%+v", next)
		}
	})
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain é": "plain é", "\x1b[2J": `\x1b[2J`, "a\tb": `a\tb`, "\xff": `\xff`, "\u202e": `\u202e`, "": "",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
