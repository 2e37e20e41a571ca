package grant_test

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// sound holds what is true of every answer of a guard.
func sound(t *testing.T, v grant.Vetted, err error) bool {
	t.Helper()
	switch code := sandbox.CodeOf(err); code {
	case "":
	case noGrant, noTool, isBlocked, malformed:
		if public := grant.Public(err); public.Code != code {
			t.Errorf("%v is shown as %q", err, public.Code)
		}
		return false
	default:
		t.Errorf("refused with %v", err)
		return false
	}
	if v.Capability == "" || strings.ContainsAny(v.Capability, "\n\r\x00\x1b") {
		t.Errorf("used is %q", v.Capability)
	}
	return true
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/workspace/a", "/workspace//out/./b", "/workspace/../etc", "/tmp/call/x", "/workspace/a/", "/workspace/\x00", "\u202e/", "/workspace/secret/"} {
		f.Add(p, []byte("x"))
	}
	guard := guarded(f, aGrant(), aManifest(), aPolicy())
	f.Fuzz(func(t *testing.T, p string, data []byte) {
		for _, op := range []grant.Operation{
			{Kind: grant.OpFsRead, Path: p}, {Kind: grant.OpFsList, Path: p}, {Kind: grant.OpFsWrite, Path: p, Data: data},
			{Kind: grant.OpBrowserDownload, Selector: "a", Path: p},
		} {
			v, err := guard.Check(op, now())
			if !sound(t, v, err) {
				continue
			}
			in := strings.HasPrefix(v.Path+"/", "/workspace/") || strings.HasPrefix(v.Path+"/", "/tmp/call/")
			if !in || path.Clean(v.Path) != v.Path || strings.HasPrefix(v.Path+"/", "/workspace/secret/") || !utf8.ValidString(v.Path) {
				t.Errorf("%q passes as %q", p, v.Path)
			}
			if again, err := guard.Check(v.Operation, now()); err != nil || again.Path != v.Path {
				t.Errorf("%q passes as %q, and that as %q, %v", p, v.Path, again.Path, err)
			}
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, u := range []string{
		"https://api.example.com/a?b", "http://x.cdn.example.com:8080", "https://api.example.com@evil.test", `https://api.example.com\.evil.test`, "//x", "./a.html",
		"https://[::ffff:10.0.0.1]/", "http://0x7f.1/", "about:blank", "http://bad.cdn.example.com./",
	} {
		f.Add("GET", u, "Accept", "text/html")
	}
	f.Add("GET", "0 /", "", "")
	guard := guarded(f, aGrant(), aManifest(), aPolicy())
	f.Fuzz(func(t *testing.T, method, address, name, value string) {
		op := request(method, address)
		op.Header = map[string]string{name: value}
		for _, op := range []grant.Operation{op, request("GET", address), {Kind: grant.OpBrowserNav, URL: address}} {
			v, err := guard.Check(op, now())
			if !sound(t, v, err) {
				continue
			}
			if again, err := guard.Check(v.Operation, now()); err != nil || again.URL != v.URL {
				t.Errorf("%q passes as %q, and that as %q, %v", address, v.URL, again.URL, err)
			}
			if strings.HasPrefix(v.URL, "workspace:") && op.Kind == grant.OpBrowserNav {
				continue // a path as it is, which is no URL
			}
			u, err := url.Parse(v.URL)
			if err != nil {
				t.Fatalf("%q passes as %q: %v", address, v.URL, err)
			}
			host := u.Hostname()
			ok := host == "api.example.com" && u.Scheme == "https" || strings.HasSuffix(host, ".cdn.example.com") && host != "bad.cdn.example.com"
			if page := op.Kind == grant.OpBrowserNav && v.URL == "about:blank"; !ok && !page {
				t.Errorf("%q passes as %q", address, v.URL)
			}
			if strings.ContainsAny(name+value, "\r\n\x00") && len(op.Header) > 0 {
				t.Errorf("header %q: %q passes", name, value)
			}
		}
	})
}

func FuzzArguments(f *testing.F) {
	f.Add("git", "log", "-n10", "src")
	f.Add("git", "log\n", "-n1;", "-f")
	f.Add("/bin/sh", "-c", "x", "\xff")
	guard := guarded(f, aGrant(), aManifest(), aPolicy())
	f.Fuzz(func(t *testing.T, tool, a, b, c string) {
		v, err := guard.Check(grant.Operation{Kind: grant.OpProcExec, Tool: tool, Args: []string{a, b, c}}, now())
		if !sound(t, v, err) {
			return
		}
		rest := strings.Trim(c, "abcdefghijklmnopqrstuvwxyz/") == "" && c != ""
		if tool != "git" || a != "log" && a != "status" || !rest {
			t.Errorf("%q %q %q %q passes", tool, a, b, c)
		}
	})
}

// FuzzBuild checks that what others hand in is judged and never trips the builder.
func FuzzBuild(f *testing.F) {
	f.Add("/workspace", "*.x.test", "https", 0, "GET", "git", "a+b", "text/*", int64(1))
	f.Add("", "10.0.0.0/8", "", 22, "*", "-x", `\Q`, "*/*", int64(-1))
	f.Add("/a", "x.test", "", 0, "GET", "git", "(\x00", "text/*", int64(1))
	f.Fuzz(func(t *testing.T, p, host, scheme string, port int, method, tool, pattern, mime string, bytes int64) {
		g, m, o := aGrant(), aManifest(), aPolicy()
		m.Capabilities = []grant.Capability{
			{Kind: grant.FSRead, Path: p}, {Kind: grant.NetHTTP, Host: host, Scheme: scheme, Port: port, Methods: []string{method}},
			{Kind: grant.Process, Tool: tool}, {Kind: grant.Temp, Bytes: bytes},
		}
		g.Capabilities = m.Capabilities
		m.Commands = []grant.Template{{Tool: tool, Args: []grant.Argument{{Pattern: pattern}}}}
		o.Capabilities, o.Lists.MIME, o.Lists.Domains, o.Lists.Paths = m.Capabilities, []string{mime}, []string{host}, []string{p}
		profile, err := grant.Build(g, m, o, noon())
		if err != nil {
			if sandbox.CodeOf(err) != malformed || strings.ContainsAny(err.Error(), "\x00\n\x1b") {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if _, err := grant.Compile(profile); err != nil {
			t.Errorf("a profile that was built cannot be used: %v", err)
		}
		if again := normal(t, profile.Capabilities); written(t, again) != written(t, profile.Capabilities) {
			t.Errorf("not in normal form: %+v", profile.Capabilities)
		}
	})
}

// FuzzOperation checks that whatever an agent sends as an operation is judged.
func FuzzOperation(f *testing.F) {
	for _, text := range []string{
		`{"kind":"FsRead","path":"/workspace/a","length":5}`, `{"kind":"ProcExec","tool":"git","args":["log"],"timeout":1}`, `{"kind":"TmpAlloc","bytes":9}`,
		`{"kind":"NetHttp","method":"GET","url":"https://api.example.com","header":{"a":"b"}}`, `{"kind":"BrowserType","selector":"a","text":"b"}`, `{"kind":"FsRead","bytes":-1}`,
	} {
		f.Add([]byte(text))
	}
	guard := guarded(f, aGrant(), aManifest(), aPolicy())
	f.Fuzz(func(t *testing.T, text []byte) {
		var op grant.Operation
		if json.Unmarshal(text, &op) != nil {
			return
		}
		v, err := guard.Check(op, now())
		if sound(t, v, err) {
			again, err := guard.Check(v.Operation, now())
			if err != nil || written(t, again) != written(t, v) {
				t.Errorf("%s is %s, and that is %s, %v", text, written(t, v), written(t, again), err)
			}
		}
	})
}
