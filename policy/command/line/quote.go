package line

import (
	"errors"
	"fmt"
	"strings"
)

// Quote returns the line that runs args as they are: a shell, and [Parse],
// read it as one simple command of exactly these words. It fails when there
// are no words, when one holds a character that Parse refuses, and when the
// line would be too long.
func Quote(args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("there is no word to quote")
	}
	var b strings.Builder
	for i, a := range args {
		if r := readable(a); r != nil {
			return "", fmt.Errorf("word %d cannot be written in a line: %s", i+1, r.Message)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		quote(&b, a, i == 0)
	}
	if b.Len() > MaxBytes {
		return "", fmt.Errorf("the line would have %d bytes; at most %d are read", b.Len(), MaxBytes)
	}
	return b.String(), nil
}

// quote writes one word. The first is quoted whenever the shell could read a
// keyword, an assignment or an alias in it.
func quote(b *strings.Builder, s string, first bool) {
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
