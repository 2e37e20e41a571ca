package cli

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/manager"
)

// explainNetwork says what a session reaches: how hosts are judged, the rules
// with the layer of each, the limits and the secrets.
func explainNetwork(n manager.NetworkPlan) *table {
	t := &table{}
	if n.Mode == "" {
		return t
	}
	t.add("mode", n.Mode, reachText(n))
	for _, r := range n.Rules {
		t.add(r.Does, r.Layer, r.Rule)
	}
	if n.Mode == "none" {
		return t // nothing is there to be bounded
	}
	for _, l := range n.Limits {
		t.add(l.Path, l.Layer, l.Value)
	}
	for _, s := range n.Secrets {
		t.add("secret "+s.Name, s.Layer, strings.Join(s.Hosts, ", ")+", from "+s.From)
	}
	return t
}

func reachText(n manager.NetworkPlan) string {
	text := map[string]string{
		"none":        "nothing can be reached",
		"allow-list":  "only what the rules allow",
		"ask":         "what no rule names is asked about, or refused where no approval can be asked for",
		"open-public": "any public host, by TLS and plain HTTP",
	}[n.Mode]
	if !n.Only {
		text = "docker.network decides: programs can leave the proxy aside"
	}
	return text
}
