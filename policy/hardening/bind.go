package hardening

import "strings"

// A Bind is the setting "SOURCE:TARGET[:MODE]" in its parts.
type Bind struct {
	Source   string // as written, not expanded
	Target   string
	ReadOnly bool
}

// ParseBind reads a bind as settings write it. The mode is "ro" or "rw" and
// "ro" when left out: what is to be writable has to be named. Every other
// option of an engine (propagation, relabelling, copying) is refused.
//
// Only the form is checked; see [Source] and [Target] for the rest.
func ParseBind(field, s string) (Bind, error) {
	const hint = "write SOURCE:TARGET, SOURCE:TARGET:ro or SOURCE:TARGET:rw"
	if onWindowsDrive(s) {
		return Bind{}, refuse(field, s, "it is a path on a Windows drive", "use the absolute path of a folder or file")
	}
	p := strings.Split(s, ":")
	switch {
	case len(p) == 1:
		return Bind{}, refuse(field, s, "it has no target, which an engine takes for an anonymous volume", hint)
	case len(p) > 3:
		return Bind{}, refuse(field, s, "it has too many colons, so its parts are ambiguous", hint)
	case p[0] == "" || p[1] == "":
		return Bind{}, refuse(field, s, "its source or target is empty", hint)
	}
	b := Bind{Source: p[0], Target: p[1], ReadOnly: true}
	if len(p) == 3 {
		switch p[2] {
		case "ro":
		case "rw":
			b.ReadOnly = false
		default:
			return Bind{}, refuse(field, s, "its mode is neither ro nor rw", hint)
		}
	}
	return b, nil
}
