package config

import "strings"

// A form is what a word must look like: as a pattern, in the syntax that Go
// and JSON Schema share, for people and for the schema; and as a function,
// which costs nothing before it is called. Compiling the patterns took a
// fifth of a start of the program. A test holds that the two agree.
type form struct {
	pattern string
	matches func(string) bool
}

// formOf returns the form that a tag names.
func formOf(name string) (form, bool) {
	switch name {
	case "name":
		return form{`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`, isName}, true
	case "image":
		return form{`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}$`, isImage}, true
	case "prefix":
		return form{`^[a-z0-9][a-z0-9-]{0,13}$`, isNamePrefix}, true
	case "hostRule":
		return form{`^([A-Z,-]{1,128} )?[!-~]{1,896}$`, isHostRule}, true
	case "hostTarget":
		return form{`^[A-Za-z0-9._:\[\]-]{1,272}$`, isHostTarget}, true
	case "capability":
		return form{`^[A-Za-z_]{1,64}$`, isCapability}, true
	case "gpus":
		return form{`^(all|[0-9]{1,3}|device=[A-Za-z0-9,._-]{1,200})$`, isGPUs}, true
	case "variable":
		return form{`^[A-Za-z_][A-Za-z0-9_]{0,255}$`, isVariable}, true
	case "hostName":
		return form{`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`, isHostName}, true
	case "login":
		return form{`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`, isLogin}, true
	}
	return form{}, false
}

func isName(s string) bool {
	return sized(s, 64) && (alphanumeric(s[0]) || s[0] == '_') && made(s[1:], "._-")
}

func isImage(s string) bool { return sized(s, 255) && alphanumeric(s[0]) && made(s[1:], "._:/@-") }

func isNamePrefix(s string) bool {
	return sized(s, 14) && s[0] != '-' && made(s, "-") && strings.ToLower(s) == s
}

// isHostRule looks at the characters; package network reads the rule.
func isHostRule(s string) bool {
	if methods, rest, ok := strings.Cut(s, " "); ok {
		if !sized(methods, 128) || strings.Trim(methods, "ABCDEFGHIJKLMNOPQRSTUVWXYZ,-") != "" {
			return false
		}
		s = rest
	}
	return sized(s, 896) && !strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' })
}

// isHostTarget looks at the characters of a host with or without a port.
func isHostTarget(s string) bool { return sized(s, 272) && made(s, "._:[]-") }

func isCapability(s string) bool {
	return sized(s, 64) && made(s, "_") && !strings.ContainsAny(s, digits)
}

func isGPUs(s string) bool {
	if list, ok := strings.CutPrefix(s, "device="); ok {
		return sized(list, 200) && made(list, ",._-")
	}
	return s == "all" || sized(s, 3) && strings.Trim(s, digits) == ""
}

func isVariable(s string) bool {
	return sized(s, 256) && made(s, "_") && !strings.Contains(digits, s[:1])
}

func isHostName(s string) bool {
	return sized(s, 253) && alphanumeric(s[0]) && alphanumeric(s[len(s)-1]) && made(s, ".-")
}

func isLogin(s string) bool {
	return sized(s, 32) && (alphanumeric(s[0]) || s[0] == '_') && !strings.Contains(digits, s[:1]) && made(s[1:], "_.-")
}

const digits = "0123456789"

// sized reports whether s has 1 to most bytes.
func sized(s string, most int) bool { return s != "" && len(s) <= most }

// made reports whether s consists of letters, digits and the bytes of marks.
func made(s, marks string) bool {
	for i := range len(s) {
		if !alphanumeric(s[i]) && strings.IndexByte(marks, s[i]) < 0 {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
