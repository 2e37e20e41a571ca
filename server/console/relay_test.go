package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// TestAttackRelay holds that a relay, whose socket makes every caller an admin, passes
// that right on to nothing.
func TestAttackRelay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	relay, err := NewRelay(t.Context(), 0, r.Dial)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Serve(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	at := relay.Address()
	// ask sends a request as it is written and returns the status and the answer.
	ask := func(method, target, host, body string, header ...string) (int, string) {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", method, target, host, len(body))
		for i := 0; i+1 < len(header); i += 2 {
			fmt.Fprintf(c, "%s: %s\r\n", header[i], header[i+1])
		}
		fmt.Fprintf(c, "\r\n%s", body)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(data) + res.Header.Get("Set-Cookie")
	}
	local, _ := strings.CutPrefix(at, "127.0.0.1")
	for name, a := range map[string][]string{
		"no login":                    {"GET", "/v1/sandboxes?all=true", at, ""},
		"a command":                   {"POST", r.box + "/exec", at, `{"line":"id"}`, "Content-Type", "application/json", "Origin", "http://" + at},
		"a link":                      {"POST", "/v1/console/links", at, `{}`, "Content-Type", "application/json", "Origin", "http://" + at},
		"a token":                     {"GET", "/v1/sandboxes", at, "", "Authorization", "Bearer " + r.Secret("root")},
		"the mark taken away":         {"GET", "/v1/sandboxes?all=true", at, "", "Connection", "X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto"},
		"the mark set empty":          {"GET", "/v1/sandboxes?all=true", at, "", "X-Forwarded-For", "", "Connection", "X-Forwarded-For"},
		"another host":                {"GET", "/ui/", "evil.example", ""},
		"another host with our port":  {"GET", "/ui/", "evil.example" + local, ""},
		"a name below ours":           {"GET", "/v1/sandboxes", "x.localhost" + local, ""},
		"a link to a port, guessed":   {"GET", "/", "8000-aaaaaaaaaaaaaaaaaaaa.localhost" + local, ""},
		"the console at such a host":  {"GET", "/ui/", "8000-aaaaaaaaaaaaaaaaaaaa.localhost" + local, ""},
		"the API at such a host":      {"GET", "/v1/sandboxes", "8000-aaaaaaaaaaaaaaaaaaaa.localhost" + local, "", "Authorization", "Bearer " + r.Secret("root")},
		"our host without the port":   {"GET", "/ui/", "127.0.0.1", ""},
		"another address of loopback": {"GET", "/ui/", "127.0.0.2" + local, ""},
		"an absolute address":         {"GET", "http://evil.example/ui/", "evil.example", ""},
		"an absolute address of ours": {"GET", "http://" + at + "/v1/sandboxes", at, ""},
		"a foreign origin":            {"POST", "/ui/login", at, `{"secret":"x"}`, "Origin", "http://evil.example", "Content-Type", "application/json"},
		"an opaque origin":            {"POST", "/ui/login", at, `{"secret":"x"}`, "Origin", "null", "Content-Type", "application/json"},
		"no origin":                   {"POST", "/ui/login", at, `{"secret":"x"}`, "Content-Type", "application/json"},
		"two origins":                 {"POST", "/ui/login", at, `{"secret":"x"}`, "Origin", "http://" + at, "Origin", "http://" + at, "Content-Type", "application/json"},
		"the other name's origin":     {"POST", "/ui/login", at, `{"secret":"x"}`, "Origin", "http://localhost" + local, "Content-Type", "application/json"},
		"a forged site":               {"POST", "/ui/login", at, `{"secret":"x"}`, "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"},
		"the metrics":                 {"GET", "/metrics", at, ""},
		"the tools":                   {"POST", "/mcp", at, "{}"},
		"two slashes":                 {"GET", "//v1/sandboxes", at, ""},
		"above":                       {"GET", "/ui/../metrics", at, ""},
		"above, escaped":              {"GET", "/ui/%2e%2e/metrics", at, ""},
		"CONNECT":                     {"CONNECT", "127.0.0.1:22", at, ""},
	} {
		status, body := ask(a[0], a[1], a[2], a[3], a[4:]...)
		if status < 400 || status >= 500 || strings.Contains(body, "sbx-") {
			t.Errorf("%s: %d %.300s", name, status, body)
		}
	}
	if status, body := ask("GET", "/ui/", at, ""); status != 200 || !strings.Contains(body, "<title>sandbox</title>") {
		t.Errorf("control: the page: %d %s", status, body)
	}
	secret := r.secret("", false) // of the user of the socket
	status, body := ask("POST", "/ui/login", at, `{"secret":"`+secret+`"}`, "Origin", "http://"+at, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json")
	if status != 200 {
		t.Fatalf("control: the login: %d %s", status, body)
	}
	_, rest, _ := strings.Cut(body, `{"key":"`)
	key, rest, _ := strings.Cut(rest, `"`)
	_, cookie, _ := strings.Cut(rest, "\n")
	cookie, _, _ = strings.Cut(cookie, ";")
	if status, body := ask("GET", "/v1/sandboxes?all=true", at, "", "Cookie", cookie, api.HeaderConsole, key); status != 200 || !strings.Contains(body, "sbx-") {
		t.Errorf("control: the list: %d %s", status, body)
	}
}
