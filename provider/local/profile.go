//go:build linux || darwin

package local

import (
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/protect"
	"github.com/bulkhead-dev/sandbox/provider/local/seatbelt"
	"github.com/bulkhead-dev/sandbox/provider/local/world"
)

// A profiled wall is what sandbox-exec is to hold: there are no mounts on
// macOS, so everything is at its own path of the host.
type profiled struct {
	rules   seatbelt.Rules
	workdir string // where commands start: the workspace's own place
}

// profile says what a wall of macOS allows. tmp is a folder of the sandbox's
// own, which is home and place for temporary files.
func profile(s sandbox.Spec, pic world.Picture, protected protect.Rules, tmp string) (profiled, error) {
	p := profiled{rules: seatbelt.Rules{Tag: "sandbox." + s.Name, Tmp: []string{tmp}, Sockets: s.Filesystem.AllowUnixSockets}}
	for _, m := range s.Mounts {
		switch {
		case m.Role == sandbox.RoleBind && m.Source != m.Target:
			return p, &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "plan", Field: "docker.binds", Resource: m.Target,
				Message: "nothing can be shown at another place than its own on macOS", Hint: "bind " + m.Source + " at the same path, or use filesystem.allowRead and allowWrite",
			}
		case m.Role == sandbox.RoleTrust:
			return p, &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "plan", Field: "network.secrets", Resource: m.Target,
				Message: "secrets cannot be bound to hosts on macOS: programs could not be shown what to trust", Hint: "use the provider docker",
			}
		case m.Role == sandbox.RoleWorkspace:
			p.workdir = m.Source
		case m.Role == sandbox.RoleGuest, m.Role == sandbox.RoleIdentity, m.Role == sandbox.RoleSocket:
			continue // there is no guest, and nobody is given another name
		}
		p.show(m.Source, !m.ReadOnly)
	}
	for _, v := range slices.Concat(pic.World.Views, protected.Views) {
		if v.Source == v.Target && v.Why != "mount: "+v.Target {
			p.show(v.Source, v.Write)
		}
	}
	for _, d := range slices.Concat(pic.World.Denies, protected.Denies) {
		if p.workdir == d.Path || strings.HasPrefix(p.workdir, strings.TrimSuffix(d.Path, "/")+"/") {
			return p, &sandbox.Error{Code: sandbox.CodeValidation, Op: "plan", Resource: d.Path, Message: "the workspace lies in what " + d.Rule + " closes"}
		}
		p.rules.Denies = append(p.rules.Denies, seatbelt.Deny{Path: d.Path, Read: d.Read})
	}
	if len(pic.World.Tmpfs) > len(s.Tmpfs) {
		// On Linux memory is laid over it.
		return p, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan", Field: "filesystem.allowRead", Resource: pic.World.Tmpfs[len(s.Tmpfs)].Target,
			Message: "it would show our own state folder, which cannot be covered on macOS", Hint: "allow folders beside it"}
	}
	for _, g := range pic.Scan.Globs {
		p.rules.Globs = append(p.rules.Globs, seatbelt.Glob{Pattern: g.Pattern, Read: g.Read})
	}
	return p, nil
}

func (p *profiled) show(path string, write bool) {
	if write {
		p.rules.Writable = append(p.rules.Writable, path)
	} else {
		p.rules.Readable = append(p.rules.Readable, path)
	}
}
