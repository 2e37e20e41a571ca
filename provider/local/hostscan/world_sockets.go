package hostscan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

const socketField = "filesystem.allowUnixSockets"

// maxSocketPath is the maximum length in bytes of a Unix socket's path.
const maxSocketPath = 107

// listedSockets returns the host sockets that settings open, sorted.
func listedSockets(f sandbox.FilesystemRules) ([]string, error) {
	var out []string
	for _, s := range f.AllowUnixSockets {
		if !path.IsAbs(s) || path.Clean(s) != s || isGlob(s) || path.Dir(s) == "/" || len(s) > maxSocketPath {
			return nil, &sandbox.Error{
				Code: sandbox.CodeValidation, Op: "plan", Field: socketField, Resource: s,
				Message: fmt.Sprintf("a socket is named by an absolute, clean path of at most %d bytes, in a folder and without patterns", maxSocketPath),
			}
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// place decides how commands reach the listed sockets. A socket in a folder
// that a view shows is shown as it is; for every other one the guest listens at
// its path.
func (p *Picture) place(listed []string) {
	for _, s := range listed {
		if _, shown := top(p.World, path.Dir(s)); !shown {
			p.Sockets = append(p.Sockets, s)
			continue
		}
		// Connecting does not require write access to the mount.
		p.World.Views = append(slices.Clip(p.World.Views), plan.View{Source: s, Target: s, Socket: true, Optional: true, Why: socketField + ": " + s})
	}
}

// ShowSockets returns w with a folder in memory for each of the sockets, in
// which the guest can listen at the socket's host path.
//
// It returns an error for a socket in a folder that a git view shows, because
// there is no room for the folder, and for one that a rule closes.
func ShowSockets(w plan.World, sockets []string) (plan.World, error) {
	w.Tmpfs = slices.Clone(w.Tmpfs)
	for _, s := range sockets {
		dir := path.Dir(s)
		target, view := top(w, dir)
		if view {
			return w, &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "plan", Field: socketField, Resource: s,
				Message: "the socket lies in a folder that the sandbox shows: " + target,
				Hint:    "have the service listen in a folder of its own, which the sandbox does not show",
			}
		}
		for _, d := range w.Denies {
			if under(s, d.Path) {
				return w, &sandbox.Error{
					Code: sandbox.CodePermissionDeny, Op: "plan", Field: socketField, Resource: s,
					Message: "a rule closes the socket, and a deny beats every allow: " + d.Rule, Hint: "take one of the two out of the settings",
				}
			}
		}
		if target != dir {
			w.Tmpfs = append(w.Tmpfs, sandbox.Tmpfs{Target: dir, Size: coverSize, Mode: 0o755, Owned: true})
		}
	}
	return w, nil
}

// top returns the target of the view, tmpfs or link at the inside path p, and
// whether it is a view.
func top(w plan.World, p string) (target string, view bool) {
	longest := func(t string, isView bool) {
		if under(p, t) && (len(t) > len(target) || len(t) == len(target) && isView) {
			target, view = t, isView
		}
	}
	for _, t := range w.Tmpfs {
		longest(t.Target, false)
	}
	for _, v := range w.Views {
		longest(v.Target, true)
	}
	for _, l := range w.Symlinks { // /bin, which is a link to usr/bin
		longest(l.Target, true)
	}
	return target, view
}

// SocketRoots returns the folders among views that belong to the system and in
// which services might listen: /etc and /opt. They are searched only for
// sockets: patterns of users do not apply to the files of the system.
func SocketRoots(views []plan.View) []string {
	var out []string
	for _, v := range views {
		if v.Source == v.Target && (v.Source == "/etc" || v.Source == "/opt" || strings.HasPrefix(v.Source, "/opt/")) {
			out = append(out, v.Source)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
