package fsbridge

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Limits of Linux, in bytes.
const (
	mountpathMaxPath = 4095
	maxElement       = 255
)

// Locate finds the place of name, which is a path inside, a path on the
// host, or relative to the workspace. The longest match over both kinds of
// path counts; of equally long ones, the path inside.
//
// A path outside every root is [sandbox.CodeCapabilityBlocked], a malformed
// one [sandbox.CodeValidation]. Nothing in a path is expanded: "~", "@" and
// a leading dash are ordinary characters.
func (t *MountTable) Locate(name string) (Place, error) { return t.find(name, true) }

// Inside is like Locate for paths that are known to be inside, such as the
// Path of a Place; paths on the host are not recognised.
func (t *MountTable) Inside(name string) (Place, error) { return t.find(name, false) }

func (t *MountTable) find(name string, host bool) (Place, error) {
	elements, err := split(name)
	if err != nil {
		return Place{}, err
	}
	var best entry
	rest, length := []string(nil), -1
	try := func(e entry, prefix string) {
		if below, ok := cut(elements, prefix); ok && len(prefix) > length {
			best, rest, length = e, below, len(prefix)
		}
	}
	for _, e := range t.entries {
		try(e, e.Target)
	}
	if host && path.IsAbs(name) {
		for _, e := range t.entries {
			if path.IsAbs(e.Source) {
				try(e, path.Clean(e.Source))
			}
			if path.IsAbs(e.base) {
				try(e, path.Clean(e.base))
			}
		}
	}
	if length < 0 || best.hidden {
		return Place{}, t.blocked(name, "is outside every mount")
	}
	if climbs(rest) {
		return Place{}, t.blocked(name, "leads out of "+best.Target)
	}
	return Place{Root: best.mountpathRoot, Rel: strings.Join(rest, "/")}, nil
}

// split checks name and returns its elements from the root of the sandbox,
// without empty and "." ones.
func split(name string) ([]string, error) {
	switch {
	case name == "":
		return nil, malformed(name, "the path is empty")
	case len(name) > mountpathMaxPath:
		return nil, malformed(name, "the path has more than "+strconv.Itoa(mountpathMaxPath)+" bytes")
	case strings.IndexByte(name, 0) >= 0:
		return nil, malformed(name, "the path has a NUL byte")
	case isWindows(name):
		return nil, malformed(name, "this is a Windows path")
	}
	full := name
	if !path.IsAbs(name) {
		full = sandbox.WorkspaceDir + "/" + name
	}
	var elements []string
	for e := range strings.SplitSeq(full, "/") {
		if len(e) > maxElement {
			return nil, malformed(name, "a name in the path has more than "+strconv.Itoa(maxElement)+" bytes")
		}
		if e != "" && e != "." {
			elements = append(elements, e)
		}
	}
	return elements, nil
}

// isWindows reports whether name starts with a drive ("C:\", "C:/") or is a
// UNC or device path ("\\server\share", "\\?\C:").
func isWindows(name string) bool {
	if strings.HasPrefix(name, `\\`) {
		return true
	}
	letter := name[0] | 0x20
	return 'a' <= letter && letter <= 'z' && len(name) > 1 && name[1] == ':' &&
		(len(name) == 2 || name[2] == '\\' || name[2] == '/')
}

// cut removes the elements of the absolute path prefix from the front.
func cut(elements []string, prefix string) ([]string, bool) {
	var want []string
	if prefix != "/" {
		want = strings.Split(prefix[1:], "/")
	}
	if len(elements) < len(want) || !slices.Equal(elements[:len(want)], want) {
		return nil, false
	}
	return elements[len(want):], true
}

// climbs reports whether the ".." elements lead above the start at any point.
func climbs(elements []string) bool {
	depth := 0
	for _, e := range elements {
		if e != ".." {
			depth++
		} else if depth--; depth < 0 {
			return true
		}
	}
	return false
}

func (t *MountTable) blocked(name, why string) error {
	var roots []string
	for _, r := range t.Roots() {
		roots = append(roots, r.Target)
	}
	slices.Sort(roots)
	hint := "no mount of this sandbox serves files"
	if len(roots) > 0 {
		hint = "use a path under " + strings.Join(roots, ", ")
	}
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "path", Field: "path", Resource: termsafe.Line(name),
		Message: "path " + termsafe.Line(name) + " " + why, Hint: hint, Err: fs.ErrPermission,
	}
}

func malformed(name, message string) error {
	if len(name) > maxElement {
		name = name[:maxElement] + "..."
	}
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "path", Field: "path", Resource: termsafe.Line(name),
		Message: message, Hint: "give a path inside the sandbox, or one relative to " + sandbox.WorkspaceDir, Err: fs.ErrInvalid,
	}
}
