package manager_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

const reaching = `{"agents":{"defaults":{"sandbox":{"provider":"local","network":{
	"allowedDomains":["https://api.example","GET http://files.example/pub","db.example:5432","tcp://git.example:22"],
	"deniedDomains":["x.api.example"],"limits":{"bytesOut":"10m"},
	"secrets":{"TOKEN":{"hosts":["api.example"]},"KEY":{"hosts":["db.example:5432"],"from":{"command":["pass","hunter2"]}}}}}}}}`

func TestExplainTellsTheNetwork(t *testing.T) {
	t.Parallel()
	e, err := newMachine(t).manager(reaching, "").Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{})
	must(t, err)
	n := e.Network
	want := []manager.NetworkRule{
		{Does: "allow", Rule: "https://api.example", Layer: "agents.defaults"}, {Does: "allow", Rule: "GET http://files.example/pub", Layer: "agents.defaults"},
		{Does: "allow", Rule: "db.example:5432", Layer: "agents.defaults"}, {Does: "allow", Rule: "tcp://git.example:22", Layer: "agents.defaults"},
		{Does: "deny", Rule: "x.api.example", Layer: "agents.defaults"},
	}
	if n.Mode != "allow-list" || !n.Only || !cmp.Equal(n.Rules, want) {
		t.Errorf("%+v", n)
	}
	secrets := []manager.BoundName{
		{Name: "KEY", Hosts: []string{"db.example:5432"}, From: "command pass", Layer: "agents.defaults"},
		{Name: "TOKEN", Hosts: []string{"api.example"}, From: "env TOKEN", Layer: "agents.defaults"},
	}
	if !cmp.Equal(n.Secrets, secrets) {
		t.Errorf("%+v", n.Secrets)
	}
	for path, value := range map[string]string{"connections": "1024", "bytesOut": "10m", "bytesIn": "unbounded", "idle": "5m"} {
		if !hasSetting(n.Limits, path, value) {
			t.Errorf("%s is not %s: %+v", path, value, n.Limits)
		}
	}
}

func hasSetting(list []manager.Setting, path, value string) bool {
	for _, s := range list {
		if s.Path == path {
			return s.Value == value
		}
	}
	return false
}

func TestExplainTellsOfHosts(t *testing.T) {
	t.Parallel()
	m := newMachine(t).manager(reaching, "")
	tests := []struct {
		host, method string
		want         string // operation verdict rule, by protocol
		says         string
	}{
		{"api.example", "", "tls allow network.allowedDomains[0]: https://api.example, http deny protocol, raw deny protocol", "TOKEN is put"},
		{"https://api.example", "", "tls allow network.allowedDomains[0]: https://api.example", "it was not looked up here"},
		{"https://api.example/v1", "POST", "tls allow network.allowedDomains[0]: https://api.example", "TOKEN is put"},
		{"https://other.example/v1", "", "tls deny network.allowedDomains", "cannot be seen"},
		{"http://files.example/pub/a", "", "http allow network.allowedDomains[1]: GET http://files.example/pub", "GET"},
		{"http://files.example/pub/a", "POST", "http deny request", "POST"},
		{"http://files.example/pub/%2e%2e/a", "", "http deny request", "differently"},
		{"http://files.example?q", "", "http deny request", "GET"},
		{"db.example:5432", "", "tls allow network.allowedDomains[2]: db.example:5432, http allow network.allowedDomains[2]: db.example:5432, raw deny protocol", "KEY is put"},
		{"tcp://git.example:22", "", "raw allow network.allowedDomains[3]: tcp://git.example:22", ""},
		{"git.example:443", "", "tls deny network.allowedDomains, http deny network.allowedDomains, raw deny network.allowedDomains", "instead"},
		{"x.api.example", "", "tls deny network.deniedDomains[0]: x.api.example, http deny network.deniedDomains[0]: x.api.example, raw deny network.deniedDomains[0]: x.api.example", "settings"},
		{"127.0.0.1:80", "", "tls deny address, http deny address, raw deny address", "loopback"},
		{"ftp://a", "", " deny ", "none of http"}, {"tcp://a", "", " deny ", "needs a port"}, {"a b", "", " deny ", "no host has"},
		{"a.example", "GET", " deny ", "needs a URL"}, {"http://user@a/", "", " deny ", "user name"},
	}
	for _, tt := range tests {
		var got, reasons []string
		e, err := m.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Host: tt.host, Method: tt.method})
		must(t, err)
		for _, v := range e.Verdicts {
			if v.Kind != "host" || v.Subject == "" {
				t.Errorf("%s: %+v", tt.host, v)
			}
			got, reasons = append(got, v.Operation+" "+v.Verdict+" "+v.Rule), append(reasons, v.Subject+": "+v.Reason)
		}
		if strings.Join(got, ", ") != tt.want || !strings.Contains(strings.Join(reasons, "\n"), tt.says) {
			t.Errorf("%s %s: %s\n%s\nwant %s with %q", tt.method, tt.host, strings.Join(got, ", "), strings.Join(reasons, "\n"), tt.want, tt.says)
		}
	}
}

// TestExplainLooksUp holds that explain judges the addresses of a name that the rules
// let pass, names the rule that is missing, looks no other name up, and says so where
// it could not.
func TestExplainLooksUp(t *testing.T) {
	t.Parallel()
	settings := `{"agents": {"defaults": {"sandbox": {"provider": "local", "network": {"allowedDomains": ["*.example", "192.0.2.0/24"]}}}}}`
	var asked []string
	c := newMachine(t)
	c.lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		asked = append(asked, name)
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
			t.Error("the lookup has no bound")
		}
		switch name {
		case "public.example":
			return []netip.Addr{netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("93.184.216.34")}, nil
		case "inside.example":
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
		case "meta.example":
			return []netip.Addr{netip.MustParseAddr("::ffff:169.254.169.254")}, nil
		case "empty.example":
			return nil, nil
		}
		return nil, errors.New("no such host")
	}
	m := c.manager(settings, "")
	for _, tt := range []struct{ host, verdict, rule, says string }{
		{"https://public.example", "allow", "network.allowedDomains[0]: *.example", "may dial 93.184.216.34"},
		{"https://inside.example", "deny", "address", "instead: have network.allowedDomains name the address, 10.1.2.3:443, or its range"},
		{"https://meta.example", "deny", "address", "169.254.169.254"},
		{"https://empty.example", "allow", "network.allowedDomains[0]: *.example", "it has no address"},
		{"https://gone.example", "allow", "network.allowedDomains[0]: *.example", "could not be looked up (no such host)"},
		{"https://192.0.2.7", "allow", "network.allowedDomains[1]: 192.0.2.0/24", ""},
		{"https://other.test", "deny", "network.allowedDomains", ""},
	} {
		e, err := m.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Host: tt.host})
		must(t, err)
		if v := e.Verdicts; len(v) != 1 || v[0].Verdict != tt.verdict || v[0].Rule != tt.rule || !strings.Contains(v[0].Reason, tt.says) {
			t.Errorf("%s: %+v", tt.host, v)
		}
	}
	e, err := m.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Host: "inside.example"})
	must(t, err)
	for _, v := range e.Verdicts { // by each protocol
		if strings.Count(v.Reason, "the rules let the name pass") > 1 {
			t.Errorf("%+v", v)
		}
	}
	if _, err := m.Explain(t.Context(), config.Who{Agent: "main", Session: "s"}, nil, manager.Questions{Host: "public.example"}); err != nil || strings.Join(asked, " ") != "public.example inside.example meta.example empty.example gone.example inside.example public.example" {
		t.Errorf("%v: looked up %q", err, asked)
	}
}
