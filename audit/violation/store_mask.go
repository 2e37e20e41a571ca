package violation

import "strings"

// masked stands for a value that is not kept.
const masked = "***"

// mask returns a part of a command line with the value of each assignment
// replaced, at most about most bytes of it. An assignment stands before a
// command, after env, export and the like, or is an option's argument
// NAME=VALUE with a name in capitals. Values are often secrets. mask does not
// parse the text, because it may be malformed: it treats a word that looks like
// an assignment as one, and one without an end extends to the end of the text.
func mask(s string, most int) string {
	var b strings.Builder
	start := true // a word begins here
	for i := 0; i < len(s) && b.Len() < most; {
		if start && isAssignment(s[i:]) {
			eq := strings.IndexByte(s[i:], '=')
			b.WriteString(s[i:i+eq+1] + masked)
			i += eq + 1
			i += valueLength(s[i:])
			start = false
			continue
		}
		start = strings.IndexByte(" \t\n;&|(){}'\"`", s[i]) >= 0
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

// isAssignment reports whether s begins with NAME= or NAME+=. A name in lower
// case counts too, except those of dd, whose values are relevant.
func isAssignment(s string) bool {
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n == 0 || s[:n] == "of" || s[:n] == "if" {
		return false
	}
	rest := strings.TrimPrefix(s[n:], "+")
	return strings.HasPrefix(rest, "=")
}

// valueLength returns how long the value of an assignment is: up to the first
// blank or separator outside of quotes and brackets.
func valueLength(s string) int {
	var quote byte
	depth := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"' || c == '`':
			quote = c
		case c == '(' || c == '{':
			depth++
		case (c == ')' || c == '}') && depth > 0:
			depth--
		case depth == 0 && strings.IndexByte(" \t\n;&|()", c) >= 0:
			return i
		}
	}
	return len(s)
}
