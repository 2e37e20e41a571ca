package grant_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

func request(method, url string) grant.Operation {
	return grant.Operation{Kind: grant.OpNetHTTP, Method: method, URL: url}
}

func TestGuardRequests(t *testing.T) {
	with := func(name, value string) grant.Operation {
		op := request("GET", "https://api.example.com/")
		op.Header = map[string]string{name: value}
		return op
	}
	body := request("POST", "https://api.example.com/")
	body.Data = make([]byte, 4097)
	judged(t, []judgement{
		{"get", request("GET", "https://api.example.com/a?b#c"), "", ""},
		{"spelled otherwise", request("GET", "HTTPS://API.Example.com.:443"), "", ""},
		{"wildcard", request("GET", "https://x.cdn.example.com/"), "", ""},
		{"wildcard in plain", request("GET", "http://x.cdn.example.com/"), "", ""},
		{"what a wildcard is below", request("GET", "https://cdn.example.com/"), noGrant, "grant.capabilities"},
		{"another host", request("GET", "https://example.com/"), noGrant, "grant.capabilities"},
		{"host that ends alike", request("GET", "https://notapi.example.com/"), noGrant, "grant.capabilities"},
		{"another scheme", request("GET", "http://api.example.com/"), noGrant, "grant.capabilities"},
		{"another port", request("GET", "https://api.example.com:8443/"), noGrant, "grant.capabilities"},
		{"unusual port", request("GET", "https://x.cdn.example.com:22/"), noGrant, "grant.capabilities"},
		{"another method", request("DELETE", "https://api.example.com/"), noGrant, "grant.capabilities"},
		{"small method", request("get", "https://api.example.com/"), malformed, "op.method"},
		{"tunnel", request("CONNECT", "https://api.example.com/"), malformed, "op.method"},
		{"no method", request("", "https://api.example.com/"), malformed, "op.method"},
		{"denied", request("GET", "https://bad.cdn.example.com/"), isBlocked, "policy.denied.domains"},
		{"user name", request("GET", "https://api.example.com@evil.test/"), malformed, "op.url"},
		{"backslash", request("GET", `https://api.example.com\@evil.test/`), malformed, "op.url"},
		{"no host", request("GET", "https:///a"), malformed, "op.url"},
		{"no scheme", request("GET", "api.example.com/a"), malformed, "op.url"},
		{"other scheme", request("GET", "ftp://api.example.com/a"), isBlocked, "op.url"},
		{"file", request("GET", "file:///etc/passwd"), isBlocked, "op.url"},
		{"blank page", request("GET", "about:blank"), malformed, "op.url"},
		{"workspace as host", request("GET", "http://workspace.invalid/a"), malformed, "op.url"},
		{"metadata", request("GET", "http://169.254.169.254/latest"), noGrant, "grant.capabilities"},
		{"metadata in disguise", request("GET", "http://0xa9fea9fe/latest"), noGrant, "grant.capabilities"},
		{"line end", request("GET", "https://api.example.com/a\r\nHost: evil"), malformed, "op.url"},
		{"no port", request("GET", "https://api.example.com:0/"), malformed, "op.url"},
		{"header", with("X-Thing", "a\tb"), "", ""},
		{"header with line end", with("X-Thing", "a\r\nHost: evil"), malformed, "op.header"},
		{"header without name", with("", "a"), malformed, "op.header"},
		{"header with colon", with("a: b", "a"), malformed, "op.header"},
		{"long header", with("X-Thing", strings.Repeat("a", 33<<10)), malformed, "op.header"},
		{"another host by header", with("hoST", "evil"), isBlocked, "op.header"},
		{"length by header", with("Content-Length", "1"), isBlocked, "op.header"},
		{"proxy by header", with("Proxy-Authorization", "x"), isBlocked, "op.header"},
		{"too much", body, isBlocked, "profile.limits.maxBytesOut"},
		{"alien field", grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://api.example.com/", Path: "/a"}, malformed, "op.path"},
	})
}

// TestVetted checks that what is handed on is spelled in one way.
func TestVetted(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	tests := []struct {
		op                    grant.Operation
		path, url, capability string
	}{
		{grant.Operation{Kind: grant.OpFsList, Path: "/workspace//a/./"}, "/workspace/a", "", "fs.list:/workspace/a"},
		{request("GET", "HTTPS://API.example.com.:443"), "", "https://api.example.com/", "net.http:GET:https://api.example.com"},
		{grant.Operation{Kind: grant.OpBrowserNav, URL: "https://x.CDN.example.com/a"}, "", "https://x.cdn.example.com/a", "browser:open:x.cdn.example.com:443"},
		{grant.Operation{Kind: grant.OpBrowserNav, URL: "./a/b.html"}, "", "workspace:a/b.html", "browser:open:/workspace/a/b.html"},
		{grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace/out/"}, "/workspace/out", "", "browser:download:/workspace/out"},
		{grant.Operation{Kind: grant.OpProcExec, Tool: "make"}, "", "", "proc:make"},
		{grant.Operation{Kind: grant.OpTmpAlloc, Bytes: 7}, "", "", "tmp:7"},
	}
	for _, tt := range tests {
		v, err := guard.Check(tt.op, now())
		if err != nil {
			t.Errorf("%+v: %v", tt.op, err)
		}
		if v.Path != tt.path || v.URL != tt.url || v.Capability != tt.capability {
			t.Errorf("%+v is %q %q %q", tt.op, v.Path, v.URL, v.Capability)
		}
	}
	v, err := guard.Check(request("GET", "http://x.cdn.example.com:8080/"), now())
	if err != nil || v.Host.String() != "x.cdn.example.com" || v.Port != 8080 || !slices.Equal(v.Effects, []grant.SideEffect{grant.EffectNetwork}) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestGuardBrowser(t *testing.T) {
	nav := func(url string) grant.Operation { return grant.Operation{Kind: grant.OpBrowserNav, URL: url} }
	judged(t, []judgement{
		{"open", nav("https://api.example.com/"), "", ""},
		{"open another", nav("https://evil.test/"), noGrant, "grant.capabilities"},
		{"open what is denied", nav("https://bad.cdn.example.com/"), isBlocked, "policy.denied.domains"},
		{"open nothing", nav("about:blank"), "", ""},
		{"open data", nav("data:text/html,x"), isBlocked, "op.url"},
		{"open script", nav("javascript:alert(1)"), isBlocked, "op.url"},
		{"open a file", nav("./a.html"), "", ""},
		{"open a denied file", nav("./secret/a.html"), isBlocked, "policy.denied.paths[0]"},
		{"open a file outside", nav("../a.html"), isBlocked, "op.url"},
		{"look", grant.Operation{Kind: grant.OpBrowserScreenshot, FullPage: true}, "", ""},
		{"extract", grant.Operation{Kind: grant.OpBrowserExtract, Selector: "main"}, "", ""},
		{"click", grant.Operation{Kind: grant.OpBrowserClick, Selector: "a"}, "", ""},
		{"click nowhere", grant.Operation{Kind: grant.OpBrowserClick}, malformed, "op.selector"},
		{"selector", grant.Operation{Kind: grant.OpBrowserClick, Selector: "a\x00"}, malformed, "op.selector"},
		{"type", grant.Operation{Kind: grant.OpBrowserType, Selector: "a", Text: "x\ny"}, "", ""},
		{"type too much", grant.Operation{Kind: grant.OpBrowserType, Selector: "a", Text: strings.Repeat("a", 4097)}, isBlocked, "profile.limits.maxBytesOut"},
		{"type NUL", grant.Operation{Kind: grant.OpBrowserType, Selector: "a", Text: "\x00"}, malformed, "op.text"},
		{"text to click", grant.Operation{Kind: grant.OpBrowserClick, Selector: "a", Text: "x"}, malformed, "op.text"},
		{"download", grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace/out"}, "", ""},
		{"download elsewhere", grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace"}, noGrant, "grant.capabilities"},
		{"download nowhere", grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a"}, malformed, "op.path"},
	})
	// A browser opens no host that the grant does not name, whatever else it may do.
	g := aGrant()
	g.Capabilities = []grant.Capability{{Kind: grant.Browser, Actions: []string{"open"}}}
	guard := guarded(t, g, aManifest(), aPolicy())
	refused(t, guard.Validate(nav("https://api.example.com/"), now()), noGrant, "grant.capabilities")
	refused(t, guard.Validate(nav("./a.html"), now()), noGrant, "grant.capabilities")
	refused(t, guard.Validate(grant.Operation{Kind: grant.OpBrowserScreenshot}, now()), noGrant, "grant.capabilities")
}

func TestHops(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	tests := []struct {
		name  string
		op    grant.Operation
		hop   int
		code  sandbox.Code
		field string
	}{
		{"allowed", request("GET", "https://x.cdn.example.com/"), 1, "", ""},
		{"tenth", request("GET", "https://x.cdn.example.com/"), 10, "", ""},
		{"eleventh", request("GET", "https://x.cdn.example.com/"), 11, isBlocked, "redirect"},
		{"uncounted", request("GET", "https://x.cdn.example.com/"), 0, isBlocked, "redirect"},
		{"to another host", request("GET", "https://evil.test/"), 1, noGrant, "grant.capabilities"},
		{"to plain text", request("GET", "http://api.example.com/"), 1, noGrant, "grant.capabilities"},
		{"inside", request("GET", "http://127.0.0.1/"), 1, noGrant, "grant.capabilities"},
		{"with a body", request("POST", "https://x.cdn.example.com/"), 1, noGrant, "grant.capabilities"},
		{"to a file", request("GET", "file:///etc/passwd"), 1, isBlocked, "op.url"},
		{"relative", request("GET", "/a"), 1, malformed, "op.url"},
		{"page", grant.Operation{Kind: grant.OpBrowserNav, URL: "https://api.example.com/"}, 1, "", ""},
		{"of a file", grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}, 1, malformed, "op.kind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := now()
			s.Running = 2 // the request that was redirected is among them
			_, err := guard.ValidateHop(tt.op, tt.hop, s)
			refused(t, err, tt.code, tt.field)
		})
	}
	s := now()
	s.Revoked = true
	_, err := guard.ValidateHop(request("GET", "https://x.cdn.example.com/"), 1, s)
	refused(t, err, noGrant, "grant.revoked")
}

func TestTypes(t *testing.T) {
	guard := guarded(t, aGrant(), aManifest(), aPolicy())
	for _, ok := range []string{"text/html", "TEXT/Plain; charset=utf-8", "application/json"} {
		refused(t, guard.ValidateMIME(ok), "", "")
	}
	for _, bad := range []string{"", "text", "application/jsonx", "application/octet-stream", "text/html, application/zip", "textual/html", "application/*"} {
		refused(t, guard.ValidateMIME(bad), isBlocked, "policy.lists.mime")
	}
	p := aPolicy()
	p.Lists.MIME = nil
	refused(t, guarded(t, aGrant(), aManifest(), p).ValidateMIME("x"), "", "")
	p.Lists.MIME = []string{}
	refused(t, guarded(t, aGrant(), aManifest(), p).ValidateMIME("text/html"), isBlocked, "policy.lists.mime")
}
