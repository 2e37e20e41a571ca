package command

import "strings"

// awkActs reports whether a program of awk runs commands or reads or writes
// files by itself, or whether the text does not determine the program.
func awkActs(k *call) bool {
	for _, w := range k.scripts("", "-f --file -E --exec") {
		if w.Static && awkProgramActs(w.Value) {
			return true
		}
	}
	for _, o := range k.options {
		if o.given && hasWord("-e --source", o.name) && o.value.Static && awkProgramActs(o.value.Value) {
			return true
		}
	}
	return false
}

// awkProgramActs reads a program lightly: strings and regular expressions are
// skipped, and of the rest system, getline, pipes, and > behind print count.
// A > that compares does not.
func awkProgramActs(program string) bool {
	r := awkReader{rest: program}
	for r.rest != "" {
		if r.step() {
			return true
		}
	}
	return false
}

// An awkReader is a program that is being read.
type awkReader struct {
	rest     string
	printing bool // in a print statement
	depth    int  // of parentheses since then
	operand  bool // the last thing was a value, so that a slash divides
}

// step reads one token and reports whether it acts.
func (r *awkReader) step() bool {
	c := r.rest[0]
	switch {
	case isName(c):
		return r.name()
	case c == '"':
		r.quoted('"')
		r.operand = true
		return false
	case c == '/' && !r.operand:
		r.quoted('/')
		r.operand = true
		return false
	case c == '#':
		i := strings.IndexByte(r.rest+"\n", '\n')
		r.rest = r.rest[min(i, len(r.rest)):]
		return false
	case strings.HasPrefix(r.rest, "||"):
		r.take(2)
		return false
	case c == '|', c == '@':
		return true
	case c == '>' && r.printing && r.depth == 0:
		return true
	}
	r.punctuation(c)
	return false
}

func (r *awkReader) take(n int) { r.rest, r.operand = r.rest[n:], false }

func (r *awkReader) punctuation(c byte) {
	switch c {
	case ';', '\n', '{', '}':
		r.printing, r.depth = false, 0
	case '(', '[':
		r.depth++
	case ')', ']':
		r.depth--
	}
	blank, operand := c == ' ' || c == '\t', r.operand
	r.take(1)
	r.operand = c == ')' || c == ']' || c == '$' || blank && operand
}

// name reads a name or a number.
func (r *awkReader) name() bool {
	n := 0
	for n < len(r.rest) && isName(r.rest[n]) {
		n++
	}
	word := r.rest[:n]
	r.take(n)
	switch word {
	case "system", "getline":
		return true
	case "print", "printf":
		r.printing, r.depth = true, 0
		return false
	case "in", "return", "if", "while", "for", "do", "else", "delete", "case":
		return false
	}
	r.operand = true
	return false
}

// quoted skips to behind the closing mark, or to the end.
func (r *awkReader) quoted(mark byte) {
	for i := 1; i < len(r.rest); i++ {
		switch r.rest[i] {
		case '\\':
			i++
		case mark:
			r.rest = r.rest[i+1:]
			return
		}
	}
	r.rest = ""
}

func isName(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
