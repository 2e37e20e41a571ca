package hardening

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// forbidden returns why the clean path p may not be mounted with role, or "".
// absolute says that no break-glass switch opens it.
func forbidden(p string, role sandbox.Role, w World) (why string, absolute bool) {
	if len(parts(p)) == 0 {
		return "it is the root of the host's file system", true
	}
	if why := engineSocket(p); why != "" {
		return why, true
	}
	switch role {
	case sandbox.RoleGuest, sandbox.RoleSocket, sandbox.RoleIdentity, sandbox.RoleTrust, sandbox.RoleHome, sandbox.RoleSettings, sandbox.RoleCache:
		return "", false
	}
	for _, dir := range engineSocketFolders() {
		if within(dir, p) {
			return fmt.Sprintf("%s lies in it, with the sockets of the host's services, the engine's among them", dir), true
		}
	}
	if why := anothers(p, role, w); why != "" {
		return why, true
	}
	if why, absolute = sensitive(p, role, w); why != "" || ours(p, role, w) {
		return why, absolute
	}
	for _, check := range []string{credential(p), homes(p, w), hostPlace(p, role)} {
		if check != "" {
			return check, false
		}
	}
	return "", false
}

// engineSocket checks p for the name of an engine's socket.
func engineSocket(p string) string {
	for _, c := range parts(p) {
		if slices.ContainsFunc(engineSockets(), func(s string) bool { return strings.EqualFold(s, c) }) {
			return "it is the socket of a container engine, which gives root on the host"
		}
	}
	return ""
}

// isWorkspace reports the roles whose folders settings name and we own.
func isWorkspace(r sandbox.Role) bool {
	return r == sandbox.RoleWorkspace || r == sandbox.RoleAgent
}

// ours reports whether p is the workspace of the sandbox that is judged, or its
// private view, in a folder that we keep workspaces in.
func ours(p string, role sandbox.Role, w World) bool {
	return role == sandbox.RoleWorkspace && w.Name != "" && slices.ContainsFunc(w.Workspaces, func(dir string) bool {
		return same(p, path.Join(dir, w.Name)) || same(p, path.Join(dir, PrivateName(w.Name)))
	})
}

// isView reports whether p is the private view of the sandbox that is judged.
func isView(p string, role sandbox.Role, w World) bool {
	return ours(p, role, w) && path.Base(p) == PrivateName(w.Name)
}

// anothers checks p against the folders that hold workspaces. A path there
// that is not our own belongs to another sandbox, for every caller and every
// role.
func anothers(p string, role sandbox.Role, w World) string {
	for _, dir := range w.Workspaces {
		if below(p, dir) && !ours(p, role, w) {
			return fmt.Sprintf("%q holds the workspaces of other sandboxes", dir)
		}
	}
	return ""
}

// sensitive checks p against the places that w names. A sensitive socket is an
// engine's and has no switch.
func sensitive(p string, role sandbox.Role, w World) (why string, absolute bool) {
	if why := listening(p, w); why != "" {
		return why, true
	}
	for _, s := range w.Sensitive {
		socket := strings.HasSuffix(strings.ToLower(s), ".sock")
		switch {
		case below(s, p):
			return fmt.Sprintf("%q lies in it, which is part of what runs the sandboxes", s), socket
		case within(p, s) && !ours(p, role, w):
			return fmt.Sprintf("%q is part of what runs the sandboxes", s), socket
		}
	}
	for _, dir := range w.Workspaces {
		if within(dir, p) {
			return fmt.Sprintf("%q holds the workspaces of other sandboxes", dir), true
		}
	}
	return "", false
}

// listening checks p against the sockets at which daemons listen.
func listening(p string, w World) string {
	for _, s := range w.Listening {
		if within(p, s) || below(s, p) {
			return fmt.Sprintf("the daemon listens at %q, where code in a sandbox must not connect", s)
		}
	}
	return ""
}

// credential checks p against the places where programs keep keys.
func credential(p string) string {
	ps := parts(p)
	for _, c := range credentials() {
		for i := range ps {
			if within(strings.Join(ps[i:], "/"), c) {
				return fmt.Sprintf("~/%s holds credentials", c)
			}
		}
	}
	return ""
}

// homes refuses homes as a whole and what lies between a home and credentials.
func homes(p string, w World) string {
	known := []string{"/root"}
	if w.Home != "" && w.Home != "/" {
		known = append(known, w.Home)
	}
	for _, dir := range homeParents() {
		if within(dir, p) || within(p, dir) && len(parts(p)) == len(parts(dir))+1 {
			return "it contains a whole home, with the credentials in it"
		}
		if within(p, dir) {
			known = append(known, "/"+strings.Join(parts(p)[:len(parts(dir))+1], "/"))
		}
	}
	for _, home := range known {
		if within(home, p) {
			return "it contains a whole home, with the credentials in it"
		}
		for _, c := range credentials() {
			if below(home+"/"+c, p) {
				return fmt.Sprintf("~/%s lies in it, which holds credentials", c)
			}
		}
	}
	return ""
}

// hostPlace checks p against the places that every host has.
func hostPlace(p string, role sandbox.Role) string {
	for _, h := range hostPlaces() {
		if isWorkspace(role) && h.path == "/root" && below(p, h.path) {
			continue
		}
		if within(p, h.path) {
			return h.why
		}
		if within(h.path, p) {
			return fmt.Sprintf("%s lies in it: %s", h.path, h.why)
		}
	}
	for _, h := range hostDetails() {
		if within(p, h.path) {
			return h.why
		}
	}
	return ""
}
