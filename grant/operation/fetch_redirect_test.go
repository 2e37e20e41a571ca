package operation

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// to is the address of a redirect to another one.
func (w *world) to(scheme string, code int, target string) string {
	return w.net.URL(scheme, testenv.Redirect, "/?code="+strconv.Itoa(code)+"&to="+url.QueryEscape(target))
}

// TestRedirect checks what is asked for after each kind of redirect.
func TestRedirect(t *testing.T) {
	tests := []struct {
		code   int
		method string
		want   string // request line and body at the end
	}{
		{301, "GET", "GET"}, {302, "POST", "GET"}, {303, "PUT", "GET"}, {303, "HEAD", "HEAD"}, {302, "HEAD", "HEAD"},
		{307, "POST", "POST"}, {308, "PUT", "PUT"}, {307, "GET", "GET"},
	}
	w := newWorld(t, rules{})
	for _, tt := range tests {
		t.Run(tt.method+strconv.Itoa(tt.code), func(t *testing.T) {
			var data []byte
			if tt.method == "POST" || tt.method == "PUT" {
				data = []byte("the body")
			}
			var got *http.Request
			w.net.Handle("end.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { got = r.Clone(r.Context()) }))
			d := w.do(wish{method: tt.method, url: w.to("https", tt.code, w.net.URL("https", "end.test", "/a b")), data: data, header: map[string]string{"Content-Type": "text/x"}})
			w.wants(d, "", "")
			keeps := tt.code >= 307 && data != nil
			if got.Method != tt.want || (got.ContentLength > 0) != keeps || got.Header.Get("Content-Type") != map[bool]string{true: "text/x"}[tt.code >= 307] {
				t.Errorf("asked for %s with %d bytes and %v", got.Method, got.ContentLength, got.Header)
			}
			if d.Response.URL != w.net.URL("https", "end.test", "/a%20b") || d.Response.Hops != 1 {
				t.Errorf("%+v", d.Response)
			}
			wantStatuses(t, d, tt.code, 200)
			if want := int64(len(data)) * map[bool]int64{true: 2, false: 1}[keeps]; d.used.BytesOut != want {
				t.Errorf("%d bytes were counted, want %d", d.used.BytesOut, want)
			}
		})
	}
}

// TestNoRedirect checks that other answers are final.
func TestNoRedirect(t *testing.T) {
	w := newWorld(t, rules{})
	for _, code := range []int{300, 304, 305, 306} {
		d := w.do(wish{url: w.to("https", code, w.net.URL("https", testenv.Files, "/greeting.txt"))})
		w.wants(d, "", "")
		if d.Response.Status != code || d.Response.Hops != 0 || d.Response.Header["Location"] == nil {
			t.Errorf("%+v", d.Response)
		}
	}
}

// TestFieldsOfRedirects checks that fields meant for one host are not sent to
// another, nor to the same one at another port or by another scheme, nor again
// after a redirect back.
func TestFieldsOfRedirects(t *testing.T) {
	w := newWorld(t, rules{})
	private := map[string]string{
		"authorization": "Bearer t", "Cookie": "c=1", "X-Api-Key": "k", "Referer": "https://intern.test/", "Range": "bytes=0-1", "If-None-Match": "e",
		"Accept": "text/plain", "Accept-Language": "de", "User-Agent": "mine",
	}
	harmless := []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}
	at := func(scheme string) string { return w.net.URL(scheme, testenv.Echo, "/x") }
	for name, q := range map[string]struct {
		start string
		all   bool
	}{
		"same origin":    {at("https") + "?again", true},
		"other host":     {w.to("https", 302, at("https")), false},
		"there and back": {at("https") + "?away", false},
		"other scheme":   {at("https") + "?plain", false},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var fields []string
			w.net.Handle(testenv.Echo, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.RawQuery {
				case "again":
					http.Redirect(rw, r, "/y", http.StatusFound)
				case "away":
					http.Redirect(rw, r, w.to("https", 302, at("https")), http.StatusFound)
				case "plain":
					http.Redirect(rw, r, at("http"), http.StatusFound)
				default:
					mu.Lock()
					defer mu.Unlock()
					for name := range r.Header {
						if name != "Connection" {
							fields = append(fields, name)
						}
					}
				}
			}))
			w.wants(w.do(wish{url: q.start, header: private}), "", "")
			slices.Sort(fields)
			if len(fields) != len(harmless) && !q.all || q.all && len(fields) != len(private)+1 {
				t.Errorf("the host was told %v", fields)
			}
			for _, name := range harmless {
				if !slices.Contains(fields, name) {
					t.Errorf("%s is missing", name)
				}
			}
		})
	}
}

// TestLongChains checks that a loop ends, and that all of it is on record.
func TestLongChains(t *testing.T) {
	w := newWorld(t, rules{})
	w.net.Handle("loop.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, r.URL.Path, http.StatusFound) }))
	d := w.do(wish{url: w.net.URL("https", "loop.test", "/")})
	w.wants(d, isBlocked, "redirect")
	if w.net.Hits("loop.test") != 11 || len(d.effects) != 11 || d.Response.Hops != 10 {
		t.Errorf("%d requests, %d effects", w.net.Hits("loop.test"), len(d.effects))
	}
	w.net.Handle("chain.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.RawQuery)
		if n < 10 {
			http.Redirect(rw, r, "/?"+strconv.Itoa(n+1), http.StatusTemporaryRedirect)
		}
	}))
	d = w.do(wish{url: w.net.URL("https", "chain.test", "/?0")})
	w.wants(d, "", "")
	if d.Response.Hops != 10 || len(d.effects) != 11 {
		t.Errorf("%+v", d.Response)
	}
}

// TestBadTargets checks that a redirect to a malformed address is not followed,
// and that it does not count as malformed input: the caller has not written it.
func TestBadTargets(t *testing.T) {
	w := newWorld(t, rules{})
	for _, target := range []string{
		"file:///etc/passwd", "ftp://files.test/", "javascript:alert(1)", "data:text/plain,x", "http://workspace.invalid/x", "about:blank",
		"https://user:pass@files.test/", "https://files.test:0/", "https://files.test:99999/", "https:///x", "http://fi les.test/", "https://[::1", "%zz://x",
		`https:\\files.test\x`, "https://" + strings.Repeat("a.", 200) + "test/", "https://files.test/" + strings.Repeat("a", 20<<10),
	} {
		w.net.Handle("odd.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Location", target)
			rw.WriteHeader(302)
		}))
		d := w.do(wish{url: w.net.URL("https", "odd.test", "/")})
		if code := grant.Public(d.err).Code; code != isBlocked && code != noGrant || grant.Public(d.err).Field != "" {
			t.Errorf("%.60q: %v", target, d.err)
		}
		wantStatuses(t, d, 302)
	}
	if n := w.net.Hits(testenv.Files); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestRebinding checks that a name which was vetted at one hop is vetted again at
// the next: the address that it has by then is refused by the proxy.
func TestRebinding(t *testing.T) {
	for _, address := range []string{"169.254.169.254", "10.0.0.1", "::1", "fd00::1"} {
		w := newWorld(t, rules{})
		trap := testenv.NewTrap(t, "127.0.0.1")
		good, bad := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr(address)
		w.net.Handle("rebind.test", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Connection", "close") // the proxy would ask the host again over the connection to the vetted address
			http.Redirect(rw, r, "/again", http.StatusFound)
		}))
		for _, scheme := range []string{"http", "https"} {
			w.net.Names.Set("rebind.test", testenv.Reply{Addrs: []netip.Addr{good}}, testenv.Reply{Addrs: []netip.Addr{bad}})
			d := w.do(wish{url: w.net.URL(scheme, "rebind.test", "/")})
			w.wants(d, isBlocked, "address")
			wantStatuses(t, d, 302)
		}
		if trap.Hits() != 0 || w.net.Hits("rebind.test") != 2 {
			t.Errorf("%s: %d requests", address, w.net.Hits("rebind.test"))
		}
	}
}

// TestRevokedBetweenHops checks that the guard learns at each hop how the call
// stands.
func TestRevokedBetweenHops(t *testing.T) {
	w := newWorld(t, rules{})
	d := w.do(wish{url: w.to("https", 302, w.net.URL("https", testenv.Files, "/")), revoked: true})
	w.wants(d, noGrant, "grant.revoked")
	wantStatuses(t, d, 302)
}
