package server

import (
	"bytes"
	"compress/gzip"
	"strings"
)

func long(n int) string { return strings.Repeat("a", n) }

// headers returns attempts to pass for another caller, or to make a proxy and
// the daemon read one request differently.
func headers() []attempt {
	const box = "/v1/sandboxes/{box}"
	raw := func(name, text string, want ...int) attempt {
		return attempt{name: name, ask: ask{as: "a", raw: text}, want: want, right: ask{as: "b", path: box}}
	}
	head := func(line string) string { return "GET " + box + " HTTP/1.1\r\n" + line + "\r\n" }
	const host, a, b = "Host: {host}\r\n", "Authorization: Bearer {token of a}\r\n", "Connection: close\r\n"
	with := func(name string, want int, header ...string) attempt {
		return attempt{name: name, ask: ask{as: "a", path: box, header: header}, want: []int{want}, right: ask{as: "b", header: []string{}}}
	}
	speak := func(name string, want int, header ...string) attempt {
		return attempt{name: name, ask: ask{as: "a", method: "POST", path: "/v1/sandboxes/{mine}/exec", body: `{"line":"true"}`, header: header}, want: []int{want}, right: ask{as: "a", header: []string{}}}
	}
	return []attempt{
		with("speak for B", 403, "Sandbox-Tenant", victim),
		with("speak for B in capitals", 403, "Sandbox-Tenant", strings.ToUpper(victim)),
		with("speak for both", 422, "Sandbox-Tenant", hostile, "Sandbox-Tenant", victim),
		with("speak for B behind a comma", 422, "Sandbox-Tenant", hostile+", "+victim),
		with("speak for everybody", 422, "Sandbox-Tenant", "*"),
		with("speak for a name that is none", 422, "Sandbox-Tenant", "."+victim),
		with("speak for B as a proxy would", 404, "X-Forwarded-User", victim, "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Host", "localhost", "Forwarded", "for=127.0.0.1", "X-Real-Ip", "127.0.0.1"),
		with("ask for another path as a proxy would", 404, "X-Original-Url", box, "X-Rewrite-Url", box),
		with("with another method than it says", 404, "X-Http-Method-Override", "DELETE", "X-Method-Override", "DELETE"),
		with("from a page", 403, "Origin", "https://evil.example"),
		with("from no page", 403, "Origin", "null"),
		with("from a page of another site", 403, "Sec-Fetch-Site", "cross-site"),
		with("for another host", 403, "Host", "evil.example"),
		{name: "a session that is not the token's", ask: ask{as: "a-session", path: "/v1/sandboxes", header: []string{"Sandbox-Session", sessionB}}, want: []int{403}, right: ask{as: "a-session", header: []string{"Sandbox-Session", "mine"}}},
		{name: "an agent that is not the token's", ask: ask{as: "a-agent", path: "/v1/sandboxes", header: []string{"Sandbox-Agent", "main"}}, want: []int{403}, right: ask{as: "a-agent", header: []string{"Sandbox-Agent", "helper"}}},
		speak("a session that cannot be seen", 422, "Sandbox-Session", sessionB+"\u200b"),
		speak("an agent with a path in it", 422, "Sandbox-Agent", "../"+victim),
		raw("two hosts", head(host+"Host: evil.example\r\n"+a+b), 400),
		raw("no host", head(a+b), 400),
		raw("two tokens", head(host+a+"Authorization: Bearer none\r\n"+b), 401),
		raw("a token on two lines", head(host+"Authorization: Bearer\r\n {token of a}\r\n"+b), 400, 401, 404),
		raw("a length and pieces", "POST "+box+"/exec HTTP/1.1\r\n"+host+a+"Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET "+box+" HTTP/1.1\r\n\r\n", 400, 404, 422),
		raw("two lengths", "POST "+box+"/exec HTTP/1.1\r\n"+host+a+"Content-Length: 4\r\nContent-Length: 5\r\n\r\n{}{}{", 400),
		raw("pieces of another kind", "POST "+box+"/exec HTTP/1.1\r\n"+host+a+"Transfer-Encoding: xchunked\r\n\r\n{}", 400, 501),
		raw("a header with a space before the colon", head(host+"Sandbox-Tenant : "+victim+"\r\n"+a+b), 400),
		raw("a header with a bare return", head(host+"X-A: b\rSandbox-Tenant: "+victim+"\r\n"+a+b), 400, 404),
		raw("a header with a zero", head(host+"X-A: b\x00c\r\n"+a+b), 400),
		raw("a header that is too long", head(host+"X-A: "+long(64<<10)+"\r\n"+a+b), 431),
		raw("more headers than there may be", head(host+strings.Repeat("X-A: "+long(100)+"\r\n", 600)+a+b), 431),
		raw("a path that is another machine's", "GET http://evil.example"+box+" HTTP/1.1\r\n"+host+a+b+"\r\n", 403),
		raw("a path with a space", "GET "+box+" x HTTP/1.1\r\n"+host+a+b+"\r\n", 400),
		raw("another protocol", "GET "+box+" HTTP/3.0\r\n"+host+a+b+"\r\n", 400, 505),
	}
}

// credentials returns attempts with invalid tokens, or with tokens in places
// where none may be.
func credentials() []attempt {
	const box = "/v1/sandboxes/{box}"
	token := func(name, header string) attempt {
		return attempt{name: name, ask: ask{as: "none", path: box, header: []string{"Authorization", header}}, want: []int{401}, right: ask{as: "b", header: []string{}}}
	}
	plain := func(name, as, path string, header ...string) attempt {
		return attempt{name: name, ask: ask{as: as, path: path, header: header}, want: []int{401}, right: ask{as: "b", path: box, header: []string{}}}
	}
	return []attempt{
		plain("no token", "none", box),
		plain("a token that has expired", "b-expired", box),
		plain("a token that was taken back", "b-revoked", box),
		token("another scheme", "Basic {token of b}"),
		token("no scheme", "{token of b}"),
		token("a token and more", "Bearer {token of b} x"),
		token("half a token", "Bearer sbx_aaaaaaaa"),
		token("a token in other letters", "Bearer {token of b}A"),
		token("an empty token", "Bearer "),
		plain("a token in the query", "none", box+"?access_token={token of b}"),
		plain("a token in the query beside one", "a", box+"?token={token of b}"),
		plain("a token in a cookie", "none", box, "Cookie", "token={token of b}"),
		plain("a token in the path", "none", "/v1/sandboxes/{token of b}"),
		plain("a token in another header", "none", box, "X-Api-Key", "{token of b}", "Proxy-Authorization", "Bearer {token of b}"),
		plain("no token for the tools of agents", "none", "/mcp"),
		plain("no token for a port", "none", box+"/ports/80"),
		plain("no token for what nobody serves", "none", "/v1/else"),
		{name: "settings of a call", ask: ask{as: "a", path: "/v1/sandboxes/{mine}", header: []string{"Sandbox-Settings", `{"workspace":"/"}`}}, want: []int{403}, right: ask{as: "a", header: []string{}}},
	}
}

// bodies returns attempts with bodies that are too large, or that two readers
// read differently. They are sent to the attacker's own sandbox, which accepts
// correct ones.
func bodies() []attempt {
	body := func(name, text string, want int, header ...string) attempt {
		return attempt{
			name: name, ask: ask{as: "a", method: "POST", path: "/v1/sandboxes/{mine}/exec", body: text, header: header}, want: []int{want},
			right: ask{as: "a", body: `{"line":"true"}`, header: []string{}},
		}
	}
	whose := func(name, text string, want int) attempt {
		return attempt{name: name, ask: ask{as: "a-session", method: "POST", path: "/v1/sandboxes", body: text}, want: []int{want}, right: ask{as: "a-session", body: `{"session":"mine"}`}}
	}
	return []attempt{
		body("one byte too many", fill(`{"line":"true"}`, 8<<20+1), 413),
		body("nothing but depth", strings.Repeat(`{"env":`, 100_000), 422),
		body("a field twice", `{"line":"true","line":"false"}`, 422),
		body("a field in other letters", `{"line":"true","LINE":"false"}`, 422),
		body("a field that there is not", `{"line":"true","tenant":"`+victim+`"}`, 422),
		body("a second body", `{"line":"true"}{"line":"false"}`, 422),
		body("half a body", `{"line":"tr`, 422),
		body("no text", "{\"line\":\"\xff\xfe\"}", 422),
		body("another content", `line=true`, 415, "Content-Type", "application/x-www-form-urlencoded"),
		body("no content type", `{"line":"true"}`, 415, "Content-Type", ""),
		body("a small body that unpacks to a large one", zipped(64<<20), 415, "Content-Encoding", "gzip"),
		body("a name of a variable with a zero in it", `{"line":"true","env":{"A\u0000B":"x"}}`, 422),
		body("a folder above", `{"line":"true","dir":"/workspace/\u0000/etc"}`, 422),
		whose("another session in the body", `{"session":"`+sessionB+`"}`, 403),
		whose("another session in the body than in the header", `{"session":"other"}`, 403),
		whose("a session with what cannot be seen", `{"session":"mine\u202e"}`, 422),
		whose("an agent that is a path", `{"session":"mine","agent":"../main"}`, 422),
		{name: "a key of B's in a header and another in the body", ask: ask{as: "a", method: "POST", path: "/v1/sandboxes", body: `{"session":"mine","idempotencyKey":"x"}`, header: []string{"Idempotency-Key", "{key}"}}, want: []int{422}, right: ask{as: "b", body: `{"session":"` + sessionB + `"}`}},
		{name: "a cursor that is none", ask: ask{as: "a", path: "/v1/sandboxes?cursor={box}"}, want: []int{422}, right: ask{as: "b", path: "/v1/sandboxes?cursor={cursor}"}},
	}
}

// fill returns a body of n bytes.
func fill(text string, n int) string { return text + strings.Repeat(" ", n-len(text)) }

// zipped returns a body that unpacks to n bytes.
func zipped(n int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(bytes.Repeat([]byte(" "), n))
	_ = z.Close()
	return b.String()
}
