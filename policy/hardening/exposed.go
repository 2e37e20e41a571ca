package hardening

import (
	"fmt"
	"path"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Exposed returns the sources among mounts that code inside can write.
func Exposed(mounts []sandbox.Mount) []string {
	var out []string
	for _, m := range mounts {
		if !m.ReadOnly && m.Source != "" {
			out = append(out, m.Source)
		}
	}
	return out
}

// exchangeable refuses source when one of the places that lead to it lies
// strictly below a folder that code in a sandbox can write, or in another
// sandbox's workspace. An engine looks a source up at each start, as root: a
// link that was put there meanwhile would mount any folder of the host. No
// switch opens this, because it is not known what would be opened.
//
// The writable folder itself may be mounted again: its name lies in a folder
// that the sandbox cannot write.
func exchangeable(field, source string, places []string, role sandbox.Role, w World) error {
	switch role {
	case sandbox.RoleGuest, sandbox.RoleSocket, sandbox.RoleIdentity, sandbox.RoleTrust, sandbox.RoleHome, sandbox.RoleSettings, sandbox.RoleCache:
		return nil
	}
	if w.Via != nil {
		via, err := w.Via(source)
		if err != nil {
			return refuse(field, source, "what leads to it is not known: "+err.Error(), "make every folder above it readable")
		}
		places = append(places, via...)
	}
	for _, p := range places {
		if why := anothers(p, role, w); why != "" {
			return refuse(field, source, fmt.Sprintf("it is reached through %q, and %s", p, why), "name the folder itself")
		}
		for _, dir := range w.Exposed {
			if below(p, dir) {
				return refuse(field, source,
					fmt.Sprintf("%q lies below %q, which a sandbox can write: code inside could put a link to any folder of the host in its place", p, dir),
					"move it out of that folder, or mount the whole folder only")
			}
		}
	}
	return nil
}

// WritableSource refuses a source that must not be writable, judged by its
// spelling and by the canonical path that w knows for it: where the host's
// programs and jobs lie. It comes on top of [Source]. The break-glass switch
// for sources opens it for binds.
func WritableSource(field, source string, role sandbox.Role, w World, b Switches) error {
	if role != sandbox.RoleBind && role != sandbox.RoleWorkspace || shape(field, source) != nil {
		return nil // shape is reported by Source
	}
	canonical, err := canonicalOf(source, w)
	if err != nil {
		return nil // reported by Source
	}
	spelled := path.Clean(source)
	for _, p := range []string{spelled, canonical} {
		why := program(p)
		if why == "" || role == sandbox.RoleBind && (b.opens(p) || b.opens(canonical)) {
			continue
		}
		if !same(p, spelled) {
			why = fmt.Sprintf("it leads to %q, and %s", p, why)
		}
		hint := "use a folder of its own"
		if role == sandbox.RoleBind {
			hint = fmt.Sprintf("bind it read-only; or list %q in docker.%s", canonical, SwitchBindSources)
		}
		return refuse(field, source, "it would be writable: "+why, hint)
	}
	return nil
}

// program checks p against the places whose content the host runs.
func program(p string) string {
	for _, dir := range sourceTrees() {
		if below(p, dir) {
			return ""
		}
	}
	for _, h := range programPlaces() {
		if within(p, h.path) || within(h.path, p) {
			return h.why
		}
	}
	for _, h := range programParents() {
		if same(p, h.path) {
			return h.why
		}
	}
	return ""
}
