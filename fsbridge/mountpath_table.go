// The mountpath files decide which mount of a sandbox a path belongs to.
//
// Callers name files by the path inside (/workspace/a.txt), by the path on
// the host that is mounted there (<workspaces>/x/a.txt), or relative to the
// workspace (a.txt). A [Table] turns each into one [Place]: a mount and a
// path below it. A path that lies in no mount is refused.
//
// The package is pure: it looks at no file. It therefore cleans a path only
// where that cannot change its meaning: empty and "." elements go away,
// ".." elements stay for the kernel, because "link/.." is not the folder
// that holds link. A path whose ".." elements alone lead above its mount is
// refused here; the transport refuses what leads out through links.

package fsbridge

import (
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Root is a folder, or a single file, of the sandbox in which file
// operations are allowed.
type mountpathRoot struct {
	Target   string // absolute path inside
	Source   string // absolute path on the host; empty for a tmpfs
	ReadOnly bool
}

// A Table knows the roots of one sandbox. It is immutable and safe for
// concurrent use.
type MountTable struct {
	entries []entry
}

type entry struct {
	mountpathRoot
	base   string // host folder that the mount is a private view of, or empty
	hidden bool   // our own mounts: paths in them are refused
}

// New returns the table of a sandbox with the given mounts. Of two entries
// with the same target the later counts, and a mount counts over a tmpfs.
// The mounts of the guest, of identity files and of certificates are ours and
// not served.
//
// It returns an error with [sandbox.CodeValidation] when a target is not
// absolute and clean, is "/", has control characters, or when one of the
// guest's folders lies inside a served one, where a link could reach it.
func NewMountTable(mounts []sandbox.Mount, tmpfs []sandbox.Tmpfs) (*MountTable, error) {
	t := &MountTable{}
	for _, m := range tmpfs {
		if err := t.add(entry{mountpathRoot: mountpathRoot{Target: m.Target}}); err != nil {
			return nil, err
		}
	}
	for _, m := range mounts {
		e := entry{mountpathRoot: mountpathRoot{Target: m.Target, Source: m.Source, ReadOnly: m.ReadOnly}, base: m.Base, hidden: hidden(m.Role)}
		if err := t.add(e); err != nil {
			return nil, err
		}
	}
	if err := t.checkGuest(mounts); err != nil {
		return nil, err
	}
	return t, nil
}

func hidden(r sandbox.Role) bool {
	switch r {
	case sandbox.RoleWorkspace, sandbox.RoleAgent, sandbox.RoleBind:
		return false
	}
	return true
}

func (t *MountTable) add(e entry) error {
	switch {
	case !path.IsAbs(e.Target) || path.Clean(e.Target) != e.Target || e.Target == "/":
		return badMount(e.Target, "the target must be an absolute, clean path below /")
	case strings.ContainsFunc(e.Target, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return badMount(e.Target, "the target has control characters")
	}
	for i := range t.entries {
		if t.entries[i].Target == e.Target {
			t.entries[i] = e
			return nil
		}
	}
	t.entries = append(t.entries, e)
	return nil
}

// checkGuest refuses a served root around the guest's own folders.
func (t *MountTable) checkGuest(mounts []sandbox.Mount) error {
	for _, m := range mounts {
		if m.Role != sandbox.RoleGuest && m.Role != sandbox.RoleSocket && m.Role != sandbox.RoleTrust && m.Role != sandbox.RoleSettings {
			continue
		}
		for _, e := range t.entries {
			if !e.hidden && strings.HasPrefix(m.Target, e.Target+"/") {
				return badMount(e.Target, "the folder holds the guest's own "+termsafe.Line(m.Target))
			}
		}
	}
	return nil
}

func badMount(target, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeValidation, Op: "open files", Field: "mounts",
		Resource: termsafe.Line(target), Message: "mount " + termsafe.Line(target) + ": " + message,
	}
}

// Roots returns the folders in which file operations are allowed.
func (t *MountTable) Roots() []mountpathRoot {
	var roots []mountpathRoot
	for _, e := range t.entries {
		if !e.hidden {
			roots = append(roots, e.mountpathRoot)
		}
	}
	return roots
}

// A Place is a path that belongs to a root. The zero Place is none.
type Place struct {
	Root mountpathRoot
	Rel  string // below Root, "" for the root itself; may have ".." elements, never leading out
}

// Path is the absolute path inside.
func (p Place) Path() string {
	if p.Rel == "" {
		return p.Root.Target
	}
	return p.Root.Target + "/" + p.Rel
}

// Split returns the path of the parent folder below the root and the last
// element. The element is "." where the path names a folder through the root
// itself or through a trailing "..", so that it cannot be removed or replaced.
func (p Place) Split() (dir, base string) {
	i := strings.LastIndexByte(p.Rel, '/')
	base = p.Rel[i+1:]
	if base == "" || base == ".." {
		return p.Rel, "."
	}
	return p.Rel[:max(i, 0)], base
}
