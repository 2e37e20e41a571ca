package plan

import (
	"iter"
	"path"
	"strings"
)

// under reports whether p is dir or lies below it.
func under(p, dir string) bool {
	return p == dir || dir == "/" || len(p) > len(dir) && p[len(dir)] == '/' && strings.HasPrefix(p, dir)
}

// moved returns p, which lies under from, with from replaced by to.
func moved(p, from, to string) string {
	rest := strings.TrimPrefix(p[len(strings.TrimSuffix(from, "/")):], "/")
	if rest == "" {
		return to
	}
	return strings.TrimSuffix(to, "/") + "/" + rest
}

// up yields p and every folder above it, "/" last.
func up(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for ; ; p = path.Dir(p) {
			if !yield(p) || p == "/" {
				return
			}
		}
	}
}

// down returns the paths from just below dir to p, p included; none if p is dir
// or not under it.
func down(dir, p string) []string {
	var list []string
	if !under(p, dir) {
		return nil
	}
	for q := p; q != dir; q = path.Dir(q) {
		list = append(list, q)
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// depth is the number of names in p.
func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

// clean reports whether p is absolute, clean and without NUL bytes.
func clean(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p && strings.IndexByte(p, 0) < 0
}
