package command

import (
	"errors"
	"fmt"
	"strings"
)

// Quote returns the line that runs args as they are: a shell, and [Parse],
// read it as one simple command of exactly these words. It fails when there
// are no words, when one holds a zero byte, and when the line would be too
// long. Characters that Parse refuses as they are, because a person would not
// see them, are written as $'\x..': the name of a file may hold them.
func Quote(args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("there is no word to quote")
	}
	var b strings.Builder
	for i, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return "", fmt.Errorf("word %d has a zero byte in it, which no program can be given", i+1)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if len(a) <= maxBytes && readable(a) != nil {
			quoteBytes(&b, a)
		} else {
			lineQuote(&b, a, i == 0)
		}
		if b.Len() > maxBytes {
			return "", fmt.Errorf("the line would have more than the %d bytes that are read", maxBytes)
		}
	}
	return b.String(), nil
}

// quoteBytes writes one word with every byte that is not plain ASCII as its
// number.
func quoteBytes(b *strings.Builder, s string) {
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '\'':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
}

// quote writes one word. The first is quoted whenever the shell could read a
// keyword, an assignment or an alias in it.
func lineQuote(b *strings.Builder, s string, first bool) {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !tame(r) }) && !(first && awkward(s)) {
		b.WriteString(s)
		return
	}
	b.WriteByte('\'')
	b.WriteString(strings.ReplaceAll(s, "'", `'\''`))
	b.WriteByte('\'')
}

// tame reports whether r needs no quotes anywhere in a word.
func tame(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./,:@%+=", r)
}

// awkward reports whether s must be quoted in the first place of a line.
func awkward(s string) bool {
	switch s {
	case "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function",
		"select", "time", "coproc", "declare", "typeset", "local", "export", "readonly", "let", "nameref":
		return true
	}
	return strings.Contains(s, "=")
}
