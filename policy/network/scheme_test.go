package network_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

func TestParseRuleWithScheme(t *testing.T) {
	for _, good := range []string{
		"https://a.b", "https://a.b/", "https://a.b:8443", "https://*.a.b", "https://10.0.0.0/8", "https://10.0.0.0/8:8443", "https://[fd00::/8]:80-90", "https://*",
		"http://a.b", "http://a.b/", "http://a.b:8080/x", "http://a.b:8000-8100/x/y/", "http://*.a.b/x", "http://*/x", "http://[fd00::/8]:80/x", "http://[10.0.0.0/8]/x", "http://10.0.0.1/x", "http://10.0.0.1:80/8",
		"http://a/8", "http://a.b/a%20b", "http://a.b/%C3%A9", "GET http://a.b", "GET,HEAD,M-SEARCH http://a.b/x", "http://[::1]", "http://[::1]:8080/x",
		"tcp://a.b:22", "tcp://*.a.b:1-2", "tcp://10.0.0.0/8:22", "tcp://[::1]:22", "tcp://[fd00::/8]:22",
	} {
		if r, err := network.ParseRule(good); err != nil || r.String() != good {
			t.Errorf("%q: %v %v", good, r, err)
		}
	}
	for bad, says := range map[string]string{
		"ftp://a": "none of http", "ws://a": "none of http", "HTTP://a": "none of http", "://a": "none of http", "https:///x": "path", "http://": "empty", "http:///x": "empty", "tcp://": "no port",
		"https://a/x": "cannot be seen", "https://a/8x": "cannot be seen", "https://a.b//": "cannot be seen", "https://user@a": "user name", "https://a?x": "URL or path", "https://a:x": "no port or range",
		"tcp://a": "no port", "tcp://a/x": "no port", "tcp://a:22/x": "no port or range", "tcp://*": "no port",
		"GET a": "no http://", "GET https://a": "plain HTTP only", "GET tcp://a:1": "plain HTTP only", "get http://a": "upper case", "GET, http://a": "upper case", ",GET http://a": "upper case", "GET,CONNECT http://a": "CONNECT",
		"GE7 http://a": "upper case", "GET  http://a": "plain HTTP only", " http://a": "upper case", "GET\thttp://a": "scheme", "a b": "no host has", strings.Repeat("A", 33) + " http://a": "upper case",
		"http://10.0.0.0/8": "range of addresses or a path", "http://127.1/8": "range of addresses or a path", "http://fd00::/8": "range of addresses or a path", "http://10.0.0.0/8:80": "range of addresses or a path",
		"http://a/x?y": "query", "http://a/x#y": "differently", "http://a/../x": "differently", "http://a//x": "differently", "http://a/%2e%2e/x": "differently", "http://a/x;y": "differently", "http://a/x y": "no port or range",
		`http://a/x\y`: "differently", "http://a/%zz": "differently", "http://a/é": "differently", "http://a/%2f": "differently", "http://a/%00": "differently", "http://[fd00::/8/x": "range", "http://a/" + strings.Repeat("x", 1100): "longer",
		"http://a:0/x": "no port or range", "http://a:1-0": "no port or range", "https://[a]": "brackets",
	} {
		_, err := network.ParseRule(bad)
		if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", bad, err, says)
		}
	}
	for _, wide := range []string{"tcp://*:22", "https://*", "GET http://*/x", "https://0.0.0.0/0", "tcp://[::/0]:22"} {
		if err := network.CheckAllowed(wide, false); err == nil {
			t.Errorf("%s is allowed", wide)
		}
	}
	for denied, ok := range map[string]bool{
		"http://*": true, "https://*": true, "POST http://*": true, "tcp://*:1": true, "tcp://10.0.0.0/8:1": true, "10.0.0.0/8": true, "http://a/x": true, "10.0.0.1:80": true, "0.0.0.0/0": true,
		"http://10.0.0.1": false, "https://10.0.0.0/8": false, "POST http://[10.0.0.0/8]/x": false, "http://[::1]/x": false, "a b": false,
	} {
		if err := network.CheckDenied(denied); (err == nil) != ok {
			t.Errorf("%s: %v", denied, err)
		}
	}
}

// readings are the paths as which servers and what stands before them may
// serve a request: decoded once or twice, with parameters of segments taken
// off, backslashes as slashes, and then made clean or left alone.
func readings(sent string) []string {
	sent, _, _ = strings.Cut(sent, "?")
	sent, _, _ = strings.Cut(sent, "#")
	if sent == "" {
		sent = "/"
	}
	forms := []string{sent}
	for range 2 {
		if u, err := url.PathUnescape(forms[len(forms)-1]); err == nil {
			forms = append(forms, u)
		}
	}
	var out []string
	for _, f := range forms {
		bare := segments(f, func(s string) string { s, _, _ = strings.Cut(s, ";"); return s })
		windows := segments(strings.ReplaceAll(f, `\`, "/"), func(s string) string { return strings.TrimRight(s, ". ") })
		query, _, _ := strings.Cut(f, "?")
		for _, v := range []string{f, bare, strings.ReplaceAll(f, `\`, "/"), windows, query, strings.TrimRight(f, "\x00")} {
			out = append(out, v, path.Clean("/"+v))
		}
	}
	return out
}

func segments(p string, change func(string) string) string {
	parts := strings.Split(p, "/")
	for i, s := range parts {
		if s != "." && s != ".." {
			parts[i] = change(s)
		}
	}
	return strings.Join(parts, "/")
}

func under(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

// FuzzPath holds that a path which a prefix allows lies below it for every
// reading, and that one which lies below it for any reading is denied by it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"/pub", "/pub/x", "/pub/../x", "/pub/%2e%2e/x", "/pub/%252e%252e/x", "//pub", `/pub\..\x`, "/pub;x/../y", "/pub?q", "", "*", "/public", "/PUB", "/%70ub", "/pub/..;/x", "/pub/%C3%A9", "/x/..;/pub",
		"/x/%2e%2e/pub", "/pub.", "/pub%20/x", "/pub%3fx", "/pub%00", "/%2570ub", "/pub::$DATA", "/%c0%ae%c0%ae/pub", "pub", "/pub#x", "/x%2f..%2fpub",
	} {
		f.Add(s)
	}
	allowing := compiled(f, network.Options{Allowed: []string{"http://a.test/pub"}})
	denying := compiled(f, network.Options{Allowed: []string{"a.test"}, Denied: []string{"http://a.test/pub"}})
	h, err := network.Canonical("a.test")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		r := network.Request{Host: h, Port: 80, Protocol: network.HTTP, Method: "GET", Path: sent}
		allowed, denied := allowing.JudgeRequest(r), denying.JudgeRequest(r)
		if explained(allowed)+explained(denied) != "" {
			t.Fatalf("%q: %+v %+v", sent, allowed, denied)
		}
		all, some := true, false
		for _, p := range readings(sent) {
			all = all && under(p, "/pub")
			some = some || under(strings.ToLower(p), "/pub")
		}
		if allowed.Verdict == allow && !all {
			t.Errorf("%q is allowed and may be %q", sent, readings(sent))
		}
		if denied.Verdict == allow && some {
			t.Errorf("%q is not denied and may be %q", sent, readings(sent))
		}
		if allowed.Verdict == allow && denied.Verdict == allow {
			t.Errorf("%q is allowed by the prefix and not denied by it", sent)
		}
	})
}

// FuzzParseRule holds that what is read as a rule is read in one way, and that
// its errors can be shown.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"a.b:1-2", "https://a", "GET,HEAD http://a/b", "tcp://[::1]:22", "http://[fd00::/8]:80/x", "*.a", "10.0.0.0/8", "http://10.0.0.0/8", "https://a/", "GET a", "tcp://a", "http://0/@", strings.Repeat("\x94", 100) + " http://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := network.ParseRule(text)
		if err != nil {
			if sandbox.CodeOf(err) != sandbox.CodeValidation || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x00\r\n\x1b") {
				t.Errorf("%.80q: %q", text, err)
			}
			return
		}
		if again, err := network.ParseRule(r.String()); err != nil || again != r {
			t.Errorf("%q is read again as %+v %v", text, again, err)
		}
		host, _, _ := strings.Cut(strings.Replace(text, "://", " ", 1), "/")
		if strings.ContainsAny(text, "\\#?\x00\r\n\t") || strings.Contains(host, "@") || len(text) > 1024 {
			t.Errorf("%q is a rule", text)
		}
		if p, err := network.New(network.Options{Allowed: []string{text}, AllowPublic: true}); err == nil && !p.Open() {
			t.Errorf("%q: closed", text)
		}
	})
}
