package manager_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

const reaching = `{"agents":{"defaults":{"sandbox":{"provider":"local","network":{
	"allowedDomains":["https://api.example","GET http://files.example/pub","db.example:5432","tcp://git.example:22"],
	"deniedDomains":["x.api.example"],"limits":{"bytesOut":"10m"},
	"secrets":{"TOKEN":{"hosts":["api.example"]},"KEY":{"hosts":["db.example:5432"],"from":{"command":["pass","hunter2"]}}}}}}}}`

func TestExplainTellsTheNetwork(t *testing.T) {
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
	m := newMachine(t).manager(reaching, "")
	tests := []struct {
		host, method string
		want         string // operation verdict rule, by protocol
		says         string
	}{
		{"api.example", "", "tls allow network.allowedDomains[0]: https://api.example, http deny protocol, raw deny protocol", "TOKEN is put"},
		{"https://api.example", "", "tls allow network.allowedDomains[0]: https://api.example", "looked up"},
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
