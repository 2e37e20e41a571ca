package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// An ineffective entry is about one setting.
type ineffective struct{ path, why, except string }

// withoutEffect is the one table of settings that are accepted and checked
// while the feature behind them does not exist. A path stands for all below it;
// except names a provider with which it has an effect.
//
// One that opens something opens nothing; one that tightens something does not
// tighten it yet, and the notice is there to say so.
func withoutEffect() []ineffective {
	return []ineffective{
		{"filesystem", "path rules beyond the mounts are applied to what command lines name, and enforced by the local provider alone", "local"},
		{"network.allowLocalBinding", "on Linux a sandbox has a loopback interface of its own, where programs may listen anyway and nobody else reaches them; it is for macOS", ""},
		{"pool", "only sandboxes of the docker provider can be kept ready", "docker"},
		{"idle", "only sandboxes of the docker provider can be frozen", "docker"},
	}
}

// noEffect lists the values that somebody set, in a file, by a flag or by
// naming a preset, and that do nothing.
func noEffect(r Resolved, m merged) []Notice {
	var out []Notice
	table, named := withoutEffect(), r.Origin("preset") != "default"
	if !r.walled() {
		table = append(table, withoutWall(r.Docker.Network)...)
	}
	if n := r.BrowserNetwork(); r.Browser.Enabled && n != "none" {
		out = append(out, Notice{Path: r.field("browser.network"), Value: quoted(n), Why: "pages reach whatever that network lets, services of this host and private addresses among it: the rules of network hold for what the browser is told to open, and not for what pages do"})
	}
	for _, path := range sortedKeys(r.Origins) {
		origin := r.Origins[path]
		if origin == "default" || strings.HasPrefix(origin, "preset ") && !named || isElement(path) {
			continue
		}
		for _, e := range table {
			if e.except == r.Provider && e.except != "" {
				continue
			}
			if path == e.path || strings.HasPrefix(path, e.path+".") {
				out = append(out, Notice{Path: r.field(path), Value: valueAt(&m.settings, path), Why: e.why})
			}
		}
	}
	return out
}

// withoutWall is what of the network settings is no wall beside a network of
// the engine. The lists of rules are refused there.
func withoutWall(network string) []ineffective {
	var out []ineffective
	for _, name := range []string{"allowPrivate", "allowPublic", "ask", "limits"} {
		out = append(out, ineffective{
			"network." + name, "it holds for programs that use the proxy; docker.network is " + quoted(network) + ", with which they need not", "",
		})
	}
	return out
}

// valueAt writes the value at a path of settings as JSON. Of maps it gives the
// keys only, because the values of variables may be secrets.
func valueAt(s *SandboxSettings, path string) string {
	v := reflect.ValueOf(s).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		i := 0
		for i < v.NumField() && pathName(v.Type().Field(i)) != name {
			i++
		}
		if i == v.NumField() {
			return ""
		}
		v = v.Field(i)
	}
	x := v.Interface()
	if v.Kind() == reflect.Map {
		keys := map[string]bool{}
		for _, k := range v.MapKeys() {
			keys[k.String()] = true
		}
		x = sortedKeys(keys)
	}
	b, err := json.Marshal(x)
	if err != nil {
		return ""
	}
	return string(b)
}
