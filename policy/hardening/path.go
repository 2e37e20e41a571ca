package hardening

import (
	"path"
	"strings"
)

// within reports whether p is dir or lies below it. Case does not count: on a
// file system that ignores it both spellings are one folder, and elsewhere the
// price is one more refusal.
func within(p, dir string) bool {
	p, dir = strings.Trim(path.Clean(p), "/"), strings.Trim(path.Clean(dir), "/")
	if dir == "." {
		return true
	}
	for dir != "" {
		var name, other string
		name, dir, _ = strings.Cut(dir, "/")
		other, p, _ = strings.Cut(p, "/")
		if !strings.EqualFold(name, other) {
			return false
		}
	}
	return true
}

// below reports whether p lies below dir and is not dir itself.
func below(p, dir string) bool { return within(p, dir) && !within(dir, p) }

// same reports whether p and q are one path but for case.
func same(p, q string) bool { return within(p, q) && within(q, p) }

func parts(p string) []string {
	p = strings.Trim(path.Clean(p), "/")
	if p == "" || p == "." {
		return nil
	}
	return strings.Split(p, "/")
}
