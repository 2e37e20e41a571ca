package hardening

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// maxPath is PATH_MAX of Linux, in bytes.
const maxPath = 4096

// Source refuses a mount source that must not appear in a sandbox, judged by
// its spelling and by the canonical path that w knows for it.
//
// A bind is refused at, below and above every reserved place. A workspace or
// an agent's folder is judged alike, except that it may lie below /root, where
// a root orchestrator keeps its projects, and that the sandbox's own workspace
// lies below one of w.Workspaces. Nothing may lie where code in a sandbox
// could exchange it, nor be reached through such a place. Our own guest,
// socket and identity mounts may lie anywhere.
func Source(field, source string, role sandbox.Role, w World, b Switches) error {
	if err := shape(field, source); err != nil {
		return err
	}
	canonical, err := canonicalOf(source, w)
	if err != nil {
		return refuse(field, source, "what it leads to is not known: "+err.Error(), "make every folder above it readable")
	}
	spelled := path.Clean(source)
	for _, p := range []string{spelled, canonical} {
		why, absolute := forbidden(p, role, w)
		if why == "" {
			continue
		}
		if !absolute && role == sandbox.RoleBind && (b.opens(p) || b.opens(canonical)) {
			continue
		}
		if !same(p, spelled) {
			why = fmt.Sprintf("it leads to %q, and %s", p, why)
		}
		hint := "bind a folder that holds nothing but what the sandbox needs"
		if !absolute && role == sandbox.RoleBind {
			hint += fmt.Sprintf("; or list %q in docker.%s", canonical, SwitchBindSources)
		}
		return refuse(field, source, why, hint)
	}
	return exchangeable(field, source, []string{spelled, canonical}, role, w)
}

// canonicalOf asks w for the canonical path; without an answer in w the
// spelling counts.
func canonicalOf(source string, w World) (string, error) {
	if w.Canonical == nil {
		return path.Clean(source), nil
	}
	return w.Canonical(source)
}

// shape refuses sources that are not plain absolute Unix paths.
func shape(field, s string) error {
	no := func(reason string) error {
		return refuse(field, s, reason, "use the absolute path of a folder or file")
	}
	switch {
	case s == "":
		return no("it is empty")
	case len(s) > maxPath:
		return no("it is longer than a path can be")
	case !utf8.ValidString(s):
		return no("it is not valid UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return no("it contains a NUL byte")
	case strings.ContainsFunc(s, unprintable):
		return no("it contains a control or invisible character")
	case onWindowsDrive(s) && !strings.HasPrefix(s, "/"):
		return no("it is a path on a Windows drive")
	case strings.HasPrefix(s, `\\`), strings.HasPrefix(s, "//"):
		return no("it is a UNC path, which can name another host")
	case strings.Contains(s, `\`):
		return no("it contains a backslash")
	case strings.HasPrefix(s, "~"):
		return no("it names a home that was not expanded")
	case isVolumeName(s):
		return no("it is the name of a volume, whose place on the host cannot be checked")
	case !strings.HasPrefix(s, "/"):
		return no("it is relative")
	case strings.Contains(s, ":"):
		return no("it contains a colon, which separates the parts of a bind")
	case slices.Contains(strings.Split(s, "/"), ".."):
		return no("it contains ..")
	}
	return nil
}

// unprintable reports control characters and those that hide or reorder text.
func unprintable(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
