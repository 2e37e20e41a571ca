// This file replaces the home sign and variables in paths of settings.
//
// It is pure: the home folder and the variables are arguments, so that packages
// that must not read the environment can use it too.

package hostpath

import (
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// Expand replaces a leading "~" or "~/" by home and every $NAME and ${NAME}
// by its value in env; "$$" stands for one dollar sign. What is put in is not
// expanded again.
//
// Anything that would leave a different path than the writer had in mind is
// an error with [sandbox.CodeValidation]: a variable that is unknown or
// empty, "~user", an unclosed brace, a dollar sign without a name.
func ExpandVariables(path, home string, env map[string]string) (string, error) {
	var b strings.Builder
	rest := path
	if strings.HasPrefix(rest, "~") {
		if rest != "~" && !strings.HasPrefix(rest, "~/") {
			return "", invalid(path, "names another user's home; only ~ and ~/ are understood")
		}
		if home == "" {
			return "", invalid(path, "needs the home folder, which is not known")
		}
		b.WriteString(home)
		rest = rest[1:]
	}
	for {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			return b.String(), nil
		}
		b.WriteString(rest[:i])
		name, after, ok := variable(rest[i+1:])
		if !ok {
			return "", invalid(path, "has a $ that starts no variable; write $$ for a dollar sign")
		}
		rest = after
		if name == "$" {
			b.WriteByte('$')
			continue
		}
		value := env[name]
		if value == "" {
			return "", invalid(path, "uses the variable "+name+", which is not set")
		}
		b.WriteString(value)
	}
}

// variable reads what follows a dollar sign and returns the name and the rest.
func variable(s string) (name, rest string, ok bool) {
	if strings.HasPrefix(s, "$") {
		return "$", s[1:], true
	}
	braced := strings.HasPrefix(s, "{")
	if braced {
		s = s[1:]
	}
	n := 0
	for n < len(s) && isNameByte(s[n], n == 0) {
		n++
	}
	if n == 0 {
		return "", "", false
	}
	name, rest = s[:n], s[n:]
	if !braced {
		return name, rest, true
	}
	if !strings.HasPrefix(rest, "}") {
		return "", "", false
	}
	return name, rest[1:], true
}

func isNameByte(c byte, first bool) bool {
	switch {
	case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		return true
	}
	return !first && '0' <= c && c <= '9'
}

func invalid(path, why string) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "expand path", "%q %s", path, why)
	e.Resource = path
	e.Hint = "write the path out in full"
	return e
}
