package grant

import "strings"

// The forms here are matched by hand: patterns would be compiled whenever a
// program starts that links this package, and these two took 0.4 ms of it.

// isVersion reports whether s is a version as manifests have it: SemVer, with
// bounded parts.
func isVersion(s string) bool {
	s, build, built := strings.Cut(s, "+")
	core, pre, preliminary := strings.Cut(s, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != 3 || built && !isVersionLabel(build) || preliminary && !isVersionLabel(pre) {
		return false
	}
	for _, n := range numbers {
		if n == "" || len(n) > 9 || n[0] == '0' && n != "0" || strings.Trim(n, "0123456789") != "" {
			return false
		}
	}
	return true
}

func isVersionLabel(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return !isLetter(r) && (r < '0' || r > '9') && r != '.' && r != '-'
	})
}

// isStructural reports whether s names a field of the caller's input, by known
// field names and by positions in lists.
func isStructural(s string) bool {
	parts := strings.Split(s, ".")
	first, _, _ := strings.Cut(parts[0], "[")
	switch first {
	case "grant", "manifest", "op", "wish", "line":
	default:
		return false
	}
	if len(parts) > 5 {
		return false
	}
	for _, part := range parts {
		name, place, placed := strings.Cut(part, "[")
		if name == "" || len(name) > 32 || strings.ContainsFunc(name, func(r rune) bool { return !isLetter(r) }) {
			return false
		}
		n, closed := strings.CutSuffix(place, "]")
		if placed && (!closed || n == "" || len(n) > 5 || strings.Trim(n, "0123456789") != "") {
			return false
		}
	}
	return true
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
