package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// An ineffective entry is about one setting. It holds for each provider but
// those of except, separated by spaces, or, where only is set, for that one alone. Where system is set, the
// exception is for that operating system alone, as runtime.GOOS names it.
type ineffective struct{ path, why, except, only, system string }

// holds reports whether the entry is about a sandbox of provider on the
// operating system goos.
func (e ineffective) holds(goos, provider string) bool {
	if e.only != "" {
		return e.only == provider
	}
	return !slices.Contains(strings.Fields(e.except), provider) || e.system != "" && e.system != goos
}

// A conditional notice is one that a provider may make wrong.
type conditional struct {
	Notice
	entry ineffective
}

// allowBeyond says what an allow does where mounts alone decide what is seen.
const allowBeyond = "it opens nothing of the host beyond the mounts, only what a path of denyRead closes inside them; docker.binds shows more"

// withoutEffect is the one table of settings that are accepted and checked
// while the feature behind them does not exist. A path stands for all below it.
//
// One that opens something opens nothing; one that tightens something does not
// tighten it yet, and the notice is there to say so.
func withoutEffect() []ineffective {
	return []ineffective{
		{"filesystem.tempPrefixes", "it holds for what command lines and file tools name; the temporary folders are the sandbox's own, and what a program writes there by itself is not looked at", "", "", ""},
		{"filesystem.allowUnixSockets", "only the local and landlock providers connect commands to sockets of the host", "local landlock", "", ""},
		{"filesystem.allowRead", allowBeyond, "local landlock", "", ""},
		{"filesystem.allowWrite", allowBeyond, "local landlock", "", ""},
		{"filesystem", "path rules beyond the mounts are applied to what command lines name, and enforced for programs by the docker, local and landlock providers alone", "docker local landlock", "", ""},
		{"network.allowLocalBinding", "a sandbox has a loopback interface of its own, where its programs may listen anyway and which programs of the host do not share; only the local provider on macOS needs it", "local", "", "darwin"},
		{"pool", "only sandboxes of the docker and kubernetes providers can be kept ready", "docker kubernetes", "", ""},
		{"idle", "only sandboxes of the docker provider can be frozen", "docker", "", ""},
		{"docker.image", "a local sandbox runs the programs of this host and has no image", "", "local", ""},
		{"docker.image", "a sandbox of the landlock provider runs the programs of this host and has no image", "", "landlock", ""},
	}
}

// NoEffectWith is NoEffect of a sandbox on the operating system goos, as
// runtime.GOOS names it, whose provider turned out to be this one, where the
// settings leave the choice open. A provider that the table does
// not know may hold some of the settings in it all the same: these are left out.
func (r Resolved) NoEffectWith(goos, provider string, held ...string) []Notice {
	var out []Notice
	for _, n := range r.noEffect {
		if n.entry.holds(goos, provider) && !(n.entry.except != "" && slices.Contains(held, n.entry.path)) {
			out = append(out, n.Notice)
		}
	}
	return out
}

// noEffect lists the values that are set in a file, by a flag or through a
// preset and have no effect with any provider.
func noEffect(r Resolved, m merged) []conditional {
	var out []conditional
	table, named := withoutEffect(), r.Origin("preset") != "default"
	if !r.sandboxed() {
		table = append(table, unsandboxed(r.Docker.Network)...)
	}
	if r.Private() {
		table = append(private(), table...)
	}
	if len(r.Cache.Tools) > 0 && !r.Private() {
		table = append([]ineffective{{"pool", "cache.tools names caches, which belong to a workspace, so no sandbox that has them is kept ready", "", "", ""}}, table...)
	}
	if n := r.BrowserNetwork(); r.Browser.Enabled && n != "none" {
		out = append(out, always(Notice{Path: r.field("browser.network"), Value: quoted(n), Why: "pages reach whatever that network lets, services of this host and private addresses among it: the rules of network hold for what the browser is asked to open, and not for what pages do"})...)
	}
	for _, path := range sortedKeys(r.Origins) {
		origin := r.Origins[path]
		if origin == "default" || strings.HasPrefix(origin, "preset ") && !named || isElement(path) {
			continue
		}
		for _, e := range table {
			if path == e.path || strings.HasPrefix(path, e.path+".") {
				out = append(out, conditional{Notice{Path: r.field(path), Value: valueAt(&m.settings, path), Why: e.why}, e})
				break // the entry about the setting itself stands before that about what holds it
			}
		}
	}
	return out
}

// private returns the settings that do nothing for a sandbox with a private
// workspace.
func private() []ineffective {
	return []ineffective{
		{"workspaceQuota", "it bounds scratch workspaces; workspaceAccess is private, and a view, which no quota bounds, is refused", "", "", ""},
		{"pool", "workspaceAccess is private, and a private view is made for its session, so no sandbox of it is kept ready", "", "", ""},
	}
}

// always makes notices hold for every provider.
func always(notices ...Notice) []conditional {
	out := make([]conditional, len(notices))
	for i, n := range notices {
		out[i] = conditional{Notice: n}
	}
	return out
}

// unsandboxed returns the network settings that isolate nothing beside a
// network of the engine. The lists of rules are refused there.
func unsandboxed(network string) []ineffective {
	var out []ineffective
	for _, name := range []string{"allowPrivate", "allowPublic", "ask", "limits"} {
		out = append(out, ineffective{
			"network." + name, "it holds for programs that use the proxy; docker.network is " + quoted(network) + ", with which they need not", "", "", "",
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
