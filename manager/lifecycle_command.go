package manager

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-dev/sandbox"
)

// RecreateCommand returns the shell command that recreates the sandbox of o
// and touches as few others as the command line allows: a session's by
// --session, with --agent where that is not the default one, an agent's by
// --agent. The shared sandbox of a tenant has no
// selector of its own and is reached by --all. flags are the global flags with
// which the command line was called, names and values in turn. Values are
// quoted for a POSIX shell; control characters, which no valid key holds, are
// written as escapes and never reach a terminal.
func recreateCommand(flags []string, o sandbox.Owner, kind sandbox.Kind) string {
	var b strings.Builder
	b.WriteString("sandbox")
	for i := 0; i+1 < len(flags); i += 2 {
		b.WriteString(option(" "+flags[i], flags[i+1]))
	}
	if o.Tenant != "" {
		b.WriteString(option(" --tenant", o.Tenant))
	}
	b.WriteString(" recreate")
	switch o.Scope {
	case sandbox.ScopeAgent:
		b.WriteString(option(" --agent", strings.TrimPrefix(o.ScopeKey, "agent:")))
	case sandbox.ScopeShared:
		b.WriteString(" --all")
	default:
		agent, session := sandbox.SplitSessionKey(o.ScopeKey)
		if agent != sandbox.DefaultAgent {
			b.WriteString(option(" --agent", agent))
		}
		b.WriteString(option(" --session", session))
	}
	if kind == sandbox.KindBrowser {
		b.WriteString(" --browser")
	}
	return b.String()
}

// option joins name and value so that the value cannot be taken for another
// option.
func option(name, value string) string {
	if strings.HasPrefix(value, "-") {
		return name + "=" + quote(value)
	}
	return name + " " + quote(value)
}

// quote makes s one word of a shell.
func quote(s string) string {
	plain, printable := s != "", utf8.ValidString(s)
	for _, r := range s {
		if !unicode.IsPrint(r) {
			printable = false
		}
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,", r) {
			plain = false
		}
	}
	switch {
	case plain:
		return s
	case printable:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
