package hardening

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Target refuses a bind target that is not a plain absolute path, or that
// would lie over or hide something that belongs to the sandbox itself.
func Target(field, target string, b Switches) error {
	if err := targetShape(field, target); err != nil {
		return err
	}
	for _, p := range insidePlaces() {
		if !within(target, p.path) && !within(p.path, target) {
			continue
		}
		reason := p.why
		if !within(target, p.path) {
			reason = fmt.Sprintf("it would hide %s: %s", p.path, p.why)
		}
		fixed := p.fixed || len(parts(target)) == 0
		if fixed {
			return refuse(field, target, reason, "use a path of its own, such as /data")
		}
		if !b.ReservedTargets {
			return refuse(field, target, reason, "use a path of its own, such as /data, or set docker."+SwitchReservedTargets)
		}
	}
	return nil
}

// TmpfsTarget refuses a tmpfs where it would hide something of the sandbox
// itself. The home and folders for temporary files are fine.
func TmpfsTarget(field, target string) error {
	if err := targetShape(field, target); err != nil {
		return err
	}
	for _, p := range insidePlaces() {
		if p.path != "/home/sandbox" && (within(target, p.path) || within(p.path, target)) {
			return refuse(field, target, "a tmpfs there would hide what the sandbox needs: "+p.why, "use a path of its own, such as /var/cache")
		}
	}
	return nil
}

func targetShape(field, t string) error {
	no := func(reason string) error {
		return refuse(field, t, reason, "use an absolute path inside the sandbox, such as /data")
	}
	switch {
	case t == "":
		return no("it is empty")
	case len(t) > maxPath:
		return no("it is longer than a path can be")
	case !utf8.ValidString(t), strings.ContainsFunc(t, unprintable):
		return no("it contains a control or invisible character")
	case onWindowsDrive(t), strings.Contains(t, `\`):
		return no("it is a Windows path")
	case !strings.HasPrefix(t, "/"):
		return no("it is relative")
	case strings.Contains(t, ":"):
		return no("it contains a colon, which separates the parts of a bind")
	case slices.Contains(strings.Split(t, "/"), ".."):
		return no("it contains ..")
	case t != "/" && path.Clean(t) != strings.TrimRight(t, "/"):
		return no("it contains double slashes or dots")
	}
	return nil
}
