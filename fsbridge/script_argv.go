package fsbridge

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// argv is the command that runs a script. Engines carry arguments as JSON,
// which has only valid UTF-8 and would turn other bytes of a name into
// another name without a word. Where an argument is not valid UTF-8, all of
// them travel in the escapes of printf %b, and the script begins by undoing
// that.
func argv(script string, args []string) []string {
	prefix := preludeScript
	if !slices.ContainsFunc(args, func(a string) bool { return !utf8.ValidString(a) }) {
		return append([]string{"sh", "-c", prefix + script, "sandbox-fs"}, args...)
	}
	out := []string{"sh", "-c", prefix + decodeScript + script, "sandbox-fs"}
	for _, a := range args {
		out = append(out, escapeBytes(a))
	}
	return out
}

// escapeBytes writes backslashes and all bytes beyond ASCII as \0ooo.
func escapeBytes(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c == '\\' {
			fmt.Fprintf(&b, `\0%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
