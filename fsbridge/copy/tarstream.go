// The tarstream files copy trees into and out of a sandbox as tar archives.
//
// Archives stream: only the current entry is held. Content from a sandbox or a
// user is not trusted. While unpacking, every name is relative and stays below
// the destination, links point below it, only folders, regular files and links
// are created, and counts and sizes are bounded. In addition the files'
// transport confines every operation to its mount. While packing, a file that
// grows or shrinks meanwhile is cut or refused, and never makes a malformed
// archive.

package copy

import (
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Limits bound one archive. Zero values are the defaults.
type Limits struct {
	Entries int64 // at most that many; 200,000
	File    int64 // bytes of one file; 4 GiB
	Total   int64 // bytes of all files; 16 GiB
	Names   int64 // bytes of all names and targets, most of which are held until the end; 64 MiB
}

func (l Limits) orDefaults() Limits {
	if l.Entries <= 0 {
		l.Entries = 200_000
	}
	if l.File <= 0 {
		l.File = 4 << 30
	}
	if l.Total <= 0 {
		l.Total = 16 << 30
	}
	if l.Names <= 0 {
		l.Names = 64 << 20
	}
	return l
}

// A count is what has passed so far.
type count struct {
	limits         Limits
	entries, total int64
	names          int64
}

// hold counts the name and the target of one entry and says no when they are
// too much to be held.
func (c *count) hold(op, name, target string) error {
	if c.names += int64(len(name) + len(target)); c.names > c.limits.Names {
		return tooMuch(op, name, "the names in the archive are too long for their number")
	}
	return nil
}

// add counts one entry of size bytes and says no when it is one too many.
func (c *count) add(op, name string, size int64) error {
	c.entries++
	switch {
	case c.entries > c.limits.Entries:
		return tooMuch(op, name, "the archive has too many entries")
	case size > c.limits.File:
		return tooMuch(op, name, termsafe.Line(name)+" is too large")
	case size > c.limits.Total-c.total:
		return tooMuch(op, name, "the archive is too large")
	}
	c.total += size
	return nil
}

func tooMuch(op, name, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: op, Resource: termsafe.Line(name),
		Message: message, Hint: "move fewer or smaller files at once, or raise the limits",
	}
}

func refused(name, message string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: "unpack", Field: "archive", Resource: termsafe.Line(name),
		Message: "entry " + termsafe.Line(name) + " " + message,
	}
}

// MaxPath is the length in bytes of the longest path that Linux takes. A tree
// may be deeper.
const maxPath = 4095

// cleanName checks the name of an entry and returns it clean, "." for the
// destination itself.
func cleanName(name string) (string, error) {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0 || len(name) > maxPath:
		return "", refused(name, "has no usable name")
	case path.IsAbs(name), strings.HasPrefix(name, `\`), len(name) > 1 && name[1] == ':' && strings.ContainsAny(name, `\`):
		return "", refused(name, "has an absolute name")
	}
	for e := range strings.SplitSeq(name, "/") {
		if e == ".." {
			return "", refused(name, `has ".." in its name`)
		}
		if len(e) > 255 {
			return "", refused(name, "has too long a name")
		}
	}
	return path.Clean(name), nil
}

// checkTarget says whether a symbolic link called name (clean) may point to
// target: relative, and never above the destination. ".." may only come
// first, where it leaves folders that are known to be such: behind a name that
// is a link itself it leads to wherever that link does.
func checkTarget(name, target string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 || len(target) > 4095 {
		return refused(name, "is a link to nothing usable")
	}
	if path.IsAbs(target) {
		return refused(name, "is a link to an absolute path")
	}
	ups, later := climbs(target)
	if later || ups > strings.Count(name, "/") {
		return refused(name, "is a link that leads out of the destination")
	}
	return nil
}

// climbs counts the ".." that a link's target begins with, and reports
// whether there is another one behind a name.
func climbs(target string) (ups int, later bool) {
	named := false
	for e := range strings.SplitSeq(target, "/") {
		switch {
		case e == "" || e == ".":
		case e != "..":
			named = true
		case named:
			later = true
		default:
			ups++
		}
	}
	return ups, later
}
