package server_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestTenantsLeaveConnections holds that one tenant cannot have so many requests
// under way that there are no connections for others.
func TestTenantsLeaveConnections(t *testing.T) {
	h := open(t, plan{daemon: func(o *server.Options, _ *fixture) { o.AtOnce = 3 }})
	a, b := h.mint(token.Claims{Role: token.Tenant, Tenant: "acme"}), h.mint(token.Claims{Role: token.Tenant, Tenant: "bob"})
	box, other := h.made(a, "s"), h.made(b, "s")
	var ends []func()
	for range 3 {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ends = append(ends, end)
		q, err := http.NewRequestWithContext(ctx, "POST", "http://"+h.addr+"/v1/sandboxes/"+box.Name+"/exec", bytes.NewReader([]byte(`{"args":["sleep","1000"]}`)))
		must(t, err)
		q.Header = http.Header{"Authorization": {"Bearer " + a}, "Content-Type": {api.ContentJSON}, "Accept": {api.ContentEvents}}
		res, err := h.tcp.Do(q)
		must(t, err)
		defer res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("control: %d", res.StatusCode)
		}
	}
	got := h.send(a, "GET", "/v1/sandboxes/"+box.Name, nil)
	if got.StatusCode != 429 || got.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", got.StatusCode, got.Header)
	}
	if got := h.send(b, "GET", "/v1/sandboxes/"+other.Name, nil); got.StatusCode != 200 {
		t.Errorf("another tenant: %d", got.StatusCode)
	}
	if got := h.send("", "GET", "/v1/sandboxes?all", nil); got.StatusCode != 200 {
		t.Errorf("an admin: %d", got.StatusCode)
	}
	ends[0]()
	testenv.Until(t, "what has ended counts no more", func() bool {
		return h.send(a, "GET", "/v1/sandboxes/"+box.Name, nil).StatusCode == 200
	})
}
