//go:build linux || darwin

package sandboxexec

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A profiled sandbox is what sandbox-exec has to enforce.
type profiled struct {
	rules   plan.Rules
	workdir string          // where commands start: the workspace's own place
	mounts  []sandbox.Mount // that have another name inside elsewhere
}

// profile says what a sandbox of macOS allows. tmp is a folder of the sandbox's
// own, which is home and place for temporary files.
func profile(s sandbox.Spec, pic hostscan.Picture, protected hostscan.Rules, tmp string) (profiled, error) {
	p := profiled{rules: plan.Rules{Tmp: []string{tmp}, Sockets: s.Filesystem.AllowUnixSockets, Listen: s.Egress.AllowLocalBinding}}
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
		case m.Role == sandbox.RoleCache:
			return p, &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "plan", Field: "cache.tools", Resource: m.Target,
				Message: "caches cannot be shown at another place than their own on macOS", Hint: "use the provider docker",
			}
		case m.Role == sandbox.RoleSettings:
			return p, &sandbox.Error{
				Code: sandbox.CodeUnsupported, Op: "plan", Resource: m.Target,
				Message: "settings files of a coding agent cannot be shown at another place than their own on macOS", Hint: "use the provider docker",
			}
		case m.Role == sandbox.RoleWorkspace:
			p.workdir = m.Source
			p.mounts = append(p.mounts, m)
		case m.Role == sandbox.RoleAgent:
			p.mounts = append(p.mounts, m)
		case m.Role == sandbox.RoleGuest, m.Role == sandbox.RoleIdentity, m.Role == sandbox.RoleSocket:
			continue // there is no guest, and every process runs as our own user
		}
		p.show(m.Source, !m.ReadOnly)
	}
	for _, v := range slices.Concat(pic.World.Views, protected.Views) {
		if v.Source == v.Target && v.Why != "mount: "+v.Target {
			p.show(v.Source, v.Write)
		}
	}
	firm := map[string]bool{} // paths that a deny closes for reading which does not yield
	for _, d := range slices.Concat(pic.World.Denies, protected.Denies) {
		if hostpath.Within(p.workdir, d.Path) {
			return p, &sandbox.Error{Code: sandbox.CodeValidation, Op: "plan", Resource: d.Path, Message: "the workspace lies in what " + d.Rule + " closes"}
		}
		c := plan.SeatbeltDeny{Path: d.Path, Read: d.Read, Rule: d.Rule}
		if d.Rule == hostscan.RuleOurs && hostpath.Within(tmp, d.Path) {
			c.Except = []string{tmp}
		}
		p.rules.Denies = append(p.rules.Denies, c)
		if d.Read && d.Yields {
			p.rules.Yields = append(p.rules.Yields, d.Path)
		} else if d.Read {
			firm[d.Path] = true
		}
	}
	p.rules.Yields = slices.DeleteFunc(p.rules.Yields, func(path string) bool { return firm[path] })
	p.rules.Opens = append(p.rules.Opens, pic.World.Opens...)
	if len(pic.World.Tmpfs) > len(s.Tmpfs) {
		// On Linux memory is laid over it.
		return p, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan", Field: "filesystem.allowRead", Resource: pic.World.Tmpfs[len(s.Tmpfs)].Target,
			Message: "it would show our own state folder, which cannot be covered on macOS", Hint: "allow folders beside it"}
	}
	for _, g := range pic.Scan.Globs {
		p.rules.Globs = append(p.rules.Globs, plan.Glob{Pattern: g.Pattern, Read: g.Read, Rule: g.Rule})
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

// tagged returns the rules for one command: refusals are logged with the tag,
// and the ports can be connected to.
func (p profiled) tagged(tag string, ports ...int) plan.Rules {
	r := p.rules
	r.Tag, r.Ports = tag, ports
	return r
}

// place returns where the folder that is called name inside elsewhere is: what
// lies in the workspace or the agent's folder is at its own path of the host.
func (p profiled) place(name string) string {
	for _, m := range p.mounts {
		if hostpath.Within(name, m.Target) {
			return path.Join(m.Source, strings.TrimPrefix(name, m.Target))
		}
	}
	return name
}

// tried returns closed files and folders that are there: some that must not be
// read, and files that must not be written to.
func (p profiled) tried() (read, write []string) {
	for _, d := range p.rules.Denies {
		st, err := os.Lstat(d.Path)
		switch {
		case err != nil || !st.Mode().IsRegular() && !st.IsDir():
		case d.Read && len(read) < maxTried:
			read = append(read, d.Path)
		case !d.Read && st.Mode().IsRegular() && len(write) < maxTried:
			write = append(write, d.Path)
		}
	}
	return read, write
}
