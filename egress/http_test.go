package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/egress"
)

func TestGet(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" || r.Header.Get("X-Hop") != "" || r.Header.Get("Proxy-Connection") != "" {
			t.Errorf("fields of the hop got out: %v", r.Header)
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.RequestURI)
	})
	w := open(t, allow(port, "web.test:"+port))
	c := w.session.Caller("cmd-1")
	proxy, err := url.Parse(c.Env()["HTTP_PROXY"])
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("GET", "http://web.test:"+port+"/a%7eb?x=%zz", nil)
	req.Header.Set("Connection", "X-Hop")
	req.Header.Set("X-Hop", "1")
	resp, err := w.client(proxy.User).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := "GET web.test:" + port + " /a%7eb?x=%zz"; string(b) != want {
		t.Errorf("the server saw %q, want %q", b, want)
	}
	e := w.wait(1, ends)[0]
	d := w.wait(1, decisions)[0]
	if d.ID != e.ID || d.Caller != "cmd-1" || d.Host != "web.test" || d.Path != "/a%7eb" || !d.Addr.IsValid() || e.Status != 200 || e.BytesIn == 0 || e.BytesOut == 0 {
		t.Errorf("decision %+v, end %+v", d, e)
	}
}

func TestRefusal(t *testing.T) {
	w := open(t, allow("1", "web.test:1"))
	c := w.session.Caller("cmd-1")
	proxy, _ := url.Parse(c.Env()["http_proxy"])
	resp, err := w.client(proxy.User).Get("http://other.test/x")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 403 || !strings.HasPrefix(resp.Status, "403 Blocked by sandbox: network.allowedDomains") || resp.Header.Get("X-Sandbox-Rule") != "network.allowedDomains" || strings.Count(string(b), "\n") != 3 {
		t.Errorf("%s %v %q", resp.Status, resp.Header, b)
	}
	if w.names.count("other.test") != 0 {
		t.Error("a name was looked up that is not allowed")
	}
	if got := c.Refused(); len(got) != 1 || got[0].Host != "other.test" || got[0].Caller != "cmd-1" {
		t.Errorf("refused %+v", got)
	}
}

func TestConnect(t *testing.T) {
	port, roots := secure(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "inside "+r.Host) })
	w := open(t, allow(port, "example.com:"+port))
	w.names.addrs["example.com"] = []string{"127.0.0.1"}
	c := w.client(nil)
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	resp, err := c.Get("https://example.com:" + port)
	if err != nil {
		t.Fatalf("%v %+v", err, w.wait(1, ends))
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "inside example.com:"+port {
		t.Errorf("%q", b)
	}
	c.CloseIdleConnections()
	if e := w.wait(1, ends)[0]; e.Protocol != egress.ProtocolConnect || e.BytesIn == 0 || e.BytesOut == 0 {
		t.Errorf("%+v", e)
	}

	conn := w.dial()
	fmt.Fprintf(conn, "CONNECT example.com:%s HTTP/1.1\r\nHost: example.com\r\n\r\n", port)
	br := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if err := tls.Client(conn, &tls.Config{ServerName: "other.com", RootCAs: roots}).Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("another name passed: %v", err)
	}
	if e := w.wait(1, refusals)[0]; e.Rule != "sni" {
		t.Errorf("%+v", e)
	}
}
