package container_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
)

func networkPlan() container.NetworkPlan {
	s := fullSpec()
	s.Owner.Instance = "0123456789abcdef"
	return container.NewNetworkPlan(s, "hash-of-it", time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), netip.MustParsePrefix("10.213.0.8/29"))
}

// TestCreateNetworkAsks holds what the engine is asked for.
func TestCreateNetworkAsks(t *testing.T) {
	var got struct {
		Name, Driver                                  string
		EnableIPv6                                    *bool
		Internal, Attachable, Ingress, CheckDuplicate bool
		Options, Labels                               map[string]string
		IPAM                                          struct{ Config []map[string]string }
	}
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		reply(201, `{"Id":"n1"}`)(w, r)
	}, container.Deadlines{})
	id, err := e.CreateNetwork(context.Background(), networkPlan())
	if err != nil || id != "n1" {
		t.Fatalf("%q, %v", id, err)
	}
	if got.Name != fullSpec().Name || got.Driver != "bridge" || got.EnableIPv6 == nil || *got.EnableIPv6 || got.Internal || got.Attachable || got.Ingress || !got.CheckDuplicate {
		t.Errorf("asked for %+v", got)
	}
	if len(got.Options) != 1 || got.Options["com.docker.network.bridge.enable_icc"] != "false" {
		t.Errorf("options %v", got.Options)
	}
	if len(got.IPAM.Config) != 1 || got.IPAM.Config[0]["Subnet"] != "10.213.0.8/29" {
		t.Errorf("ranges %v", got.IPAM.Config)
	}
	for label, want := range map[string]string{"instance": "0123456789abcdef", "tenant": "acme", "kind": "sandbox", "scope": "session", "scope-key": "chat-42", "format": "1", "config-hash": "hash-of-it"} {
		if have := got.Labels["dev.bulkhead.sandbox."+label]; have != want {
			t.Errorf("label %s is %q, want %q", label, have, want)
		}
	}
}

func TestCreateNetworkFailures(t *testing.T) {
	const overlap = `{"message":"Pool overlaps with other one on this address space"}`
	tests := map[string]struct {
		status int
		body   string
		code   sandbox.Code
		says   string
	}{
		"range is taken, older engine": {403, overlap, sandbox.CodeBusy, "10.213.0.8/29 taken"},
		"range is taken, newer engine": {400, `{"message":"invalid pool request: Pool overlaps with other one on this address space"}`, sandbox.CodeBusy, "10.213.0.8/29 taken"},
		"bridge of another network":    {403, `{"message":"conflicts with network x (br-x): networks have overlapping IPv4"}`, sandbox.CodeBusy, "10.213.0.8/29 taken"},
		"name is taken":                {409, `{"message":"network with name x already exists"}`, sandbox.CodeBusy, "already exists"},
		"engine refuses":               {403, `{"message":"not here"}`, sandbox.CodePermissionDeny, "not here"},
		"engine fails":                 {500, `{"message":"iptables failed"}`, sandbox.CodeUnavailable, "iptables failed"},
		"garbage":                      {201, `<html>`, sandbox.CodeUnavailable, ""},
		"an answer without id":         {201, `{}`, sandbox.CodeUnavailable, "incomplete"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, reply(tt.status, tt.body), container.Deadlines{})
			_, err := e.CreateNetwork(context.Background(), networkPlan())
			if sandbox.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

func TestRemoveNetwork(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		code   sandbox.Code
	}{
		"removed":           {204, ``, ""},
		"gone already":      {404, `{"message":"network n1 not found"}`, ""},
		"in use":            {403, `{"message":"error while removing network: network a id n1 has active endpoints"}`, sandbox.CodeBusy},
		"one of the engine": {403, `{"message":"bridge is a pre-defined network and cannot be removed"}`, sandbox.CodePermissionDeny},
		"engine fails":      {500, `{"message":"boom"}`, sandbox.CodeUnavailable},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, reply(tt.status, tt.body), container.Deadlines{})
			if err := e.RemoveNetwork(context.Background(), "n1"); sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %v, want %q", err, tt.code)
			}
		})
	}
}

// TestNetworksReads holds what is taken for ours, and for set up as planned.
func TestNetworksReads(t *testing.T) {
	const labels = `{"dev.bulkhead.sandbox.format":"1","dev.bulkhead.sandbox.instance":"0123456789abcdef","dev.bulkhead.sandbox.tenant":"t","dev.bulkhead.sandbox.kind":"browser",
		"dev.bulkhead.sandbox.scope":"session","dev.bulkhead.sandbox.scope-key":"k","dev.bulkhead.sandbox.config-hash":"h","dev.bulkhead.sandbox.created-at":"2026-11-21T00:00:00Z"}`
	const icc, subnet = `"Options":{"com.docker.network.bridge.enable_icc":"false"}`, `"IPAM":{"Config":[{"Subnet":"10.213.0.8/29"}]}`
	tests := map[string]struct {
		row             string
		ours, asPlanned bool
	}{
		"ours":                 {`"Driver":"bridge","Labels":` + labels + `,` + icc + `,` + subnet, true, true},
		"part of our labels":   {`"Driver":"bridge","Labels":{"dev.bulkhead.sandbox.format":"1"},` + icc + `,` + subnet, false, true},
		"neighbours may talk":  {`"Driver":"bridge","Labels":` + labels + `,` + subnet, true, false},
		"an option more":       {`"Driver":"bridge","Labels":` + labels + `,"Options":{"com.docker.network.bridge.enable_icc":"false","com.docker.network.bridge.name":"docker0"},` + subnet, true, false},
		"IPv6":                 {`"Driver":"bridge","EnableIPv6":true,"Labels":` + labels + `,` + icc + `,` + subnet, true, false},
		"another driver":       {`"Driver":"macvlan","Labels":` + labels + `,` + icc + `,` + subnet, true, false},
		"another range":        {`"Driver":"bridge","Labels":` + labels + `,` + icc + `,"IPAM":{"Config":[{"Subnet":"10.0.0.0/8"}]}`, true, false},
		"a range more":         {`"Driver":"bridge","Labels":` + labels + `,` + icc + `,"IPAM":{"Config":[{"Subnet":"10.213.0.8/29"},{"Subnet":"10.0.0.0/8"}]}`, true, false},
		"a range of no form":   {`"Driver":"bridge","Labels":` + labels + `,` + icc + `,"IPAM":{"Config":[{"Subnet":"ten"}]}`, true, false},
		"of the engine itself": {`"Driver":"host"`, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, reply(200, fmt.Sprintf(`[{"Id":"n1","Name":"sbx-a",%s}]`, tt.row)), container.Deadlines{})
			all, err := e.Networks(context.Background())
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			n := all[0]
			if ours := n.Labels.Format != ""; ours != tt.ours || n.AsPlanned != tt.asPlanned || n.ID != "n1" || n.Name != "sbx-a" {
				t.Errorf("got %+v", n)
			}
			if tt.ours && (n.Labels.Name != "sbx-a" || n.Labels.Owner.ScopeKey != "k" || n.Labels.Kind != sandbox.KindBrowser) {
				t.Errorf("labels say %+v", n.Labels)
			}
		})
	}
}

func TestNetworkAnswersThatAreNone(t *testing.T) {
	e := engineAt(t, reply(200, `{}`), container.Deadlines{})
	if _, err := e.NetworkOf(context.Background(), "x"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("network of a container: %v", err)
	}
	if _, err := e.Attached(context.Background(), "x"); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("attached: %v", err)
	}
}

// TestOwnNetworkIsNoName holds that a container is never put on a network that
// happens to be called as the setting is.
func TestOwnNetworkIsNoName(t *testing.T) {
	asked := false
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		asked = true
		reply(201, `{"Id":"c1"}`)(w, r)
	}, container.Deadlines{})
	s := fullSpec()
	s.Network = sandbox.NetworkOwn
	p, err := container.NewPlan(s, "h", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Create(context.Background(), p); sandbox.CodeOf(err) != sandbox.CodeInternal || asked {
		t.Errorf("got %v; the engine was asked: %v", err, asked)
	}
	if on := p.On("n1"); on.Host.NetworkMode != "n1" || p.Host.NetworkMode != sandbox.NetworkOwn {
		t.Errorf("on %q, and the plan itself %q", on.Host.NetworkMode, p.Host.NetworkMode)
	}
}

// TestHostRoutes holds that the addresses of this host itself are among them.
func TestHostRoutes(t *testing.T) {
	routes, err := container.HostRoutes()
	if err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	for _, r := range routes {
		if r.Contains(loopback) && r.Bits() >= 8 {
			return
		}
	}
	t.Errorf("no route to the loopback among %v", routes)
}
