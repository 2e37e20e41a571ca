package network

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func rules(t testing.TB, schemes []string, direct bool, o Options) *Rules {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRules(RuleOptions{Schemes: schemes, Policy: p, Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// usual allows what most tests ask for.
func usualRules(t testing.TB) *Rules {
	return rules(t, []string{"http", "https"}, false, Options{
		Allowed: []string{"example.com", "*.example.org", "http://plain.test/pub", "https://tls.test", "192.0.2.7"},
		Denied:  []string{"bad.example.org"},
	})
}

func TestOpened(t *testing.T) {
	tests := []struct {
		name, address string
		want          Address
	}{
		{"host alone", "https://example.com", Address{Kind: Web, URL: "https://example.com/"}},
		{"mixed case", "HTTPS://Example.COM/Path?Q#F", Address{Kind: Web, URL: "https://example.com/Path?Q#F"}},
		{"usual port", "http://example.com:80/x", Address{Kind: Web, URL: "http://example.com/x"}},
		{"other port", "https://example.com:8443/x", Address{Kind: Web, URL: "https://example.com:8443/x"}},
		{"trailing dot", "https://example.com./", Address{Kind: Web, URL: "https://example.com/"}},
		{"below a name", "https://a.example.org/", Address{Kind: Web, URL: "https://a.example.org/"}},
		{"path of a rule", "http://plain.test/pub/x", Address{Kind: Web, URL: "http://plain.test/pub/x"}},
		{"address", "http://192.0.2.7/", Address{Kind: Web, URL: "http://192.0.2.7/"}},
		{"address in hexadecimal", "http://0xC0000207/", Address{Kind: Web, URL: "http://192.0.2.7/"}},
		{"not ASCII in the path", "https://example.com/é", Address{Kind: Web, URL: "https://example.com/%C3%A9"}},
		{"at sign in the path", "https://example.com/@x?a@b", Address{Kind: Web, URL: "https://example.com/@x?a@b"}},
		{"blank", "about:blank", Address{Kind: Blank, URL: "about:blank"}},
		{"file with dot", "./a/x.html", Address{Kind: Workspace, URL: "http://workspace.invalid/a/x.html", File: "a/x.html"}},
		{"file by its mount", "/workspace/x.html", Address{Kind: Workspace, URL: "http://workspace.invalid/x.html", File: "x.html"}},
		{"file with scheme", "workspace:x.html", Address{Kind: Workspace, URL: "http://workspace.invalid/x.html", File: "x.html"}},
		{"bare file", "report/index.html", Address{Kind: Workspace, URL: "http://workspace.invalid/report/index.html", File: "report/index.html"}},
		{"bare page", "index.html", Address{Kind: Workspace, URL: "http://workspace.invalid/index.html", File: "index.html"}},
		{"file with everything", "./a b%2e#?é.html", Address{Kind: Workspace, URL: "http://workspace.invalid/a%20b%252e%23%3F%C3%A9.html", File: "a b%2e#?é.html"}},
		{"file like a host", "./example.com", Address{Kind: Workspace, URL: "http://workspace.invalid/example.com", File: "example.com"}},
		{"file with empty parts", ".//a/./b.html", Address{}},
	}
	r := usualRules(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Judge(tt.address)
			if tt.want == (Address{}) {
				if err == nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v", got, err)
			}
			if hop, err := r.Hop(got.URL); err != nil || hop != got {
				t.Errorf("as a hop: %+v, %v", hop, err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	const (
		blocked = sandbox.CodeCapabilityBlocked
		bad     = sandbox.CodeValidation
	)
	tests := []struct {
		name, address string
		code          sandbox.Code
		says          string
	}{
		{"empty", "", bad, "empty"},
		{"file", "file:///etc/passwd", blocked, "file:"},
		{"file, mixed case", "FiLe:///etc/passwd", blocked, "file:"},
		{"file of a host", "file://host/x", blocked, "file:"},
		{"settings", "chrome://settings", blocked, "chrome"},
		{"untrusted settings", "chrome-untrusted://x", blocked, "chrome-untrusted"},
		{"source", "view-source:https://example.com/", blocked, "view-source"},
		{"source of a file", "view-source:file:///etc/passwd", blocked, "view-source"},
		{"tools", "devtools://devtools/x", blocked, "devtools"},
		{"script", "javascript:alert(1)", blocked, "javascript"},
		{"script, mixed case", "JaVaScRiPt:alert(1)", blocked, "javascript"},
		{"script, broken", "java\tscript:alert(1)", bad, "control"},
		{"data", "data:text/html,x", blocked, "data:"},
		{"data, upper case", "DATA:text/html,x", blocked, "data:"},
		{"blob", "blob:https://example.com/1", blocked, "blob"},
		{"file system", "filesystem:https://example.com/temporary/x", blocked, "filesystem"},
		{"ftp", "ftp://example.com/", blocked, "ftp"},
		{"ws", "ws://example.com/", blocked, "ws"},
		{"about", "about:version", blocked, "about"},
		{"about blank with query", "about:blank?x", blocked, "about"},
		{"about source", "about:srcdoc", blocked, "about"},
		{"extension", "chrome-extension://abc/x", blocked, "chrome-extension"},
		{"mail", "mailto:a@example.com", blocked, "mailto"},
		{"host without scheme", "example.com", bad, "https://example.com"},
		{"host with path", "example.com/x.html", bad, "https://example.com/x.html"},
		{"host with port", "example.com:8080/x", bad, "https://"},
		{"localhost with port", "localhost:8080/x", bad, "https://"},
		{"address with port", "[::1]:80", bad, ""},
		{"name alone", "page", bad, "./page"},
		{"no host", "http:///x", bad, "host"},
		{"one slash", "http:/example.com/", bad, "host"},
		{"no slash", "http:example.com", bad, "host"},
		{"backslashes", `http:\\example.com`, bad, "host"},
		{"backslash behind slashes", `http://\example.com`, bad, ""},
		{"backslash before at", `http://other.test\@example.com/`, bad, "backslash"},
		{"user", "http://user@example.com/", bad, "user name"},
		{"user and password", "http://a:b@example.com/", bad, "user name"},
		{"empty user", "http://@example.com/", bad, "user name"},
		{"host as user", "https://example.com@other.test/", bad, "user name"},
		{"blank before", " https://example.com/", bad, "blanks"},
		{"line break behind", "https://example.com/\n", bad, ""},
		{"line break within", "https://exa\nmple.com/", bad, "control"},
		{"zero", "https://example.com\x00.other.test/", bad, "control"},
		{"right to left", "https://example.com/\u202etxt", bad, "control"},
		{"zero width", "https://exam\u200bple.com/", bad, "control"},
		{"no UTF-8", "https://example.com/\xff", bad, "UTF-8"},
		{"escape in the host", "https://example%2ecom/", bad, "host"},
		{"wide letters in the host", "https://ｅxample.com/", bad, "host"},
		{"blank in the host", "https://example.com .other.test/", bad, "host"},
		{"port 0", "https://example.com:0/", bad, "port"},
		{"port beyond", "https://example.com:65536/", bad, "port"},
		{"port signed", "https://example.com:+80/", bad, ""},
		{"too long", "https://example.com/" + strings.Repeat("x", maxAddress), bad, "longer"},
		{"the workspace's host", "http://workspace.invalid/x.html", blocked, "workspace"},
		{"the workspace's host, otherwise", "HTTP://WORKSPACE.INVALID./x", blocked, "workspace"},
		{"host not allowed", "https://other.test/x", blocked, "other.test:443"},
		{"host denied", "https://bad.example.org/", blocked, "deniedDomains"},
		{"name above", "https://example.org/", blocked, "allowedDomains"},
		{"loopback", "http://127.0.0.1:9222/json", blocked, "127.0.0.1"},
		{"loopback, short", "http://127.1/", blocked, "127.0.0.1"},
		{"loopback, number", "http://2130706433/", blocked, "127.0.0.1"},
		{"loopback, IPv6", "http://[::ffff:127.0.0.1]/", blocked, ""},
		{"metadata", "http://169.254.169.254/latest", blocked, "169.254"},
		{"TLS rule for plain", "http://tls.test/", blocked, "tls.test"},
		{"path beside a rule", "http://plain.test/private", blocked, "plain.test"},
		{"path around a rule", "http://plain.test/pub/..%2fprivate", blocked, "plain.test"},
		{"folder above", "../x.html", blocked, "leads out"},
		{"folder above, within", "./a/../../x.html", blocked, "leads out"},
		{"folder above, by the mount", "/workspace/../etc/passwd", blocked, "leads out"},
		{"absolute path", "/etc/passwd", blocked, "workspace"},
		{"absolute path in the workspace's scheme", "workspace:/etc/passwd", blocked, "below"},
		{"two slashes", "//example.com/x", blocked, "workspace"},
		{"backslash path", `./a\x.html`, blocked, "below"},
		{"no file", "./", bad, "no file"},
		{"dot", "workspace:.", bad, "no file"},
	}
	r := usualRules(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Judge(tt.address)
			if sandbox.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%+v, %v; want %s with %q", got, err, tt.code, tt.says)
			}
			if got != (Address{}) {
				t.Errorf("a refusal gives %+v", got)
			}
		})
	}
}

func TestHops(t *testing.T) {
	r := usualRules(t)
	for _, address := range []string{
		"x.html", "./x.html", "/x", "http://workspace.invalid/..%2fx", "http://workspace.invalid/a%5cb", "http://workspace.invalid/%00",
		"http://workspace.invalid/", "http://workspace.invalid/a//b", "http://workspace.invalid/%2e%2e/x", "http://workspace.invalid:81/x",
		"https://workspace.invalid/x", "blob:http://workspace.invalid/x", "chrome-error://chromewebdata/",
	} {
		if got, err := r.Hop(address); err == nil {
			t.Errorf("%s is %+v", address, got)
		}
	}
	if got, err := r.Hop("http://workspace.invalid/a%20b/x.html?q#f"); err != nil || got.File != "a b/x.html" || got.Kind != Workspace {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.Hop("about:srcdoc"); err != nil || got.Kind != Blank {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSettings(t *testing.T) {
	if _, err := NewRules(RuleOptions{Schemes: []string{"file"}}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Error(err)
	}
	data := rules(t, []string{"https", "data"}, false, Options{})
	if got, err := data.Judge("data:text/html,<p>a b"); err != nil || got.Kind != Data || got.URL != "data:text/html,<p>a b" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := data.Judge("http://example.com/"); !strings.Contains(err.Error(), "http addresses are not allowed") {
		t.Error(err)
	}
	nobody, err := NewRules(RuleOptions{Schemes: []string{"https"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Judge("https://example.com/"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Error(err)
	}
	direct := rules(t, []string{"https"}, true, Options{Denied: []string{"bad.test"}})
	if _, err := direct.Judge("https://any.test/"); err != nil {
		t.Error(err)
	}
	for _, inner := range []string{"https://169.254.169.254/", "https://10.0.0.1/", "https://127.0.0.1/", "https://[::1]/", "https://[fd00::1]/", "https://0x7f.1/"} {
		if _, err := direct.Judge(inner); err == nil {
			t.Errorf("%s is opened", inner)
		}
	}
	if _, err := direct.Judge("https://bad.test/"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Error(err)
	}
	ask := rules(t, []string{"https"}, false, Options{Ask: true})
	if _, err := ask.Judge("https://any.test/"); err != nil {
		t.Errorf("the way out asks, not this: %v", err)
	}
}

func TestFile(t *testing.T) {
	for path, file := range map[string]string{"a.txt": "a.txt", "./a/b": "a/b", "/workspace/a": "a", "workspace:a": "a", "a%2fb": "a%2fb"} {
		if got, err := File(path); err != nil || got != file {
			t.Errorf("%s is %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"", "/", "/etc/x", "../x", "a/../../b", "a\x00b", `a\b`, ".", "/workspace", "/workspace/"} {
		if got, err := File(path); err == nil {
			t.Errorf("%q is %q", path, got)
		}
	}
}
