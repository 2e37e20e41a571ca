package syntax

import "strings"

func isName(c byte, first bool) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || !first && c >= '0' && c <= '9'
}

// nameLength returns how many bytes at the start of s are a variable's name.
func nameLength(s string) int {
	n := 0
	for n < len(s) && isName(s[n], n == 0) {
		n++
	}
	return n
}

func isMeta(c byte) bool { return strings.IndexByte(" \t\n;&|<>()", c) >= 0 }

// A wordParser gathers the parts of one word.
type wordParser struct {
	*Parser
	parts Word
	seen  bool // something was there, if only empty quotes
}

func (w *wordParser) literal(text string, quoted bool) {
	w.seen = true
	if n := len(w.parts); n > 0 && w.parts[n-1].Kind == Literal && w.parts[n-1].Quoted == quoted {
		w.parts[n-1].Text += text
		return
	}
	w.parts = append(w.parts, Part{Kind: Literal, Text: text, Quoted: quoted})
}

// word reads a word, or returns nil where there is none.
func (p *Parser) word() Word {
	w := &wordParser{Parser: p}
	for p.more() && !isMeta(p.src[p.pos]) {
		w.piece(false)
	}
	if !w.seen {
		return nil
	}
	return w.parts
}

// until reads to the closing byte, which is taken, with quotes as in a word.
// Inside double quotes single ones have no meaning.
func (p *Parser) until(end byte, quoted bool) Word {
	defer func(d int) { p.depth = d }(p.depth)
	p.enter()
	w := &wordParser{Parser: p, parts: Word{}}
	for {
		if !p.more() {
			p.fail("unexpected end while looking for %q", string(end))
		}
		if p.src[p.pos] == end {
			p.pos++
			return w.parts
		}
		w.piece(quoted)
	}
}

// piece reads one character or construct.
func (w *wordParser) piece(quoted bool) {
	c := w.src[w.pos]
	switch {
	case c == '\\':
		w.escape(quoted)
	case c == '$':
		w.dollar(quoted)
	case c == '`':
		w.backquote(quoted)
	case c == '\'' && !quoted:
		end := strings.IndexByte(w.src[w.pos+1:], '\'')
		if end < 0 {
			w.fail("unexpected end while looking for \"'\"")
		}
		w.literal(w.src[w.pos+1:w.pos+1+end], true)
		w.pos += end + 2
	case c == '"' && !quoted:
		w.pos++
		inner := w.until('"', true)
		if w.seen = true; len(inner) == 0 {
			w.literal("", true)
		}
		w.parts = append(w.parts, inner...)
	default:
		w.literal(string(c), quoted)
		w.pos++
	}
}

// escape reads a backslash and what it quotes.
func (w *wordParser) escape(quoted bool) {
	if w.pos+1 == len(w.src) {
		w.literal(`\`, true)
		w.pos++
		return
	}
	next := w.src[w.pos+1]
	w.pos += 2
	switch {
	case next == '\n':
		w.seen = w.seen || quoted
	case quoted && strings.IndexByte("$`\"\\", next) < 0:
		w.literal(`\`+string(next), true)
	default:
		w.literal(string(next), true)
	}
}

func (w *wordParser) dollar(quoted bool) {
	rest := w.src[w.pos+1:]
	part := Part{Kind: Param, Quoted: quoted}
	switch n := nameLength(rest); {
	case strings.HasPrefix(rest, "(("):
		w.pos += 3
		part.Kind, part.Arg = Arithmetic, w.arithmetic()
	case strings.HasPrefix(rest, "("):
		w.pos += 2
		part.Kind, part.Body = Output, w.nested(")")
		w.pos++
	case strings.HasPrefix(rest, "{"):
		w.pos += 2
		w.braces(&part)
	case n > 0:
		part.Text = rest[:n]
		w.pos += 1 + n
	case rest != "" && strings.IndexByte("@*#?-$!0123456789", rest[0]) >= 0:
		part.Text = rest[:1]
		w.pos += 2
	default:
		w.literal("$", quoted)
		w.pos++
		return
	}
	w.seen = true
	w.parts = append(w.parts, part)
}

// braces reads what follows "${".
func (w *wordParser) braces(part *Part) {
	rest := w.src[w.pos:]
	if len(rest) > 1 && rest[0] == '#' && rest[1] != '}' {
		part.Op = "len"
		rest = rest[1:]
		w.pos++
	}
	n := nameLength(rest)
	if n == 0 && rest != "" {
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		if n == 0 && strings.IndexByte("@*#?-$!", rest[0]) >= 0 {
			n = 1
		}
	}
	if n == 0 {
		w.fail("bad substitution")
	}
	part.Text = rest[:n]
	w.pos += n
	if w.more() && w.src[w.pos] == '}' {
		w.pos++
		return
	}
	for _, op := range []string{":-", ":=", ":+", ":?", "##", "%%", "-", "=", "+", "?", "#", "%"} {
		if part.Op == "" && strings.HasPrefix(w.src[w.pos:], op) {
			w.pos += len(op)
			part.Op, part.Arg = op, w.until('}', part.Quoted && op[0] != '#' && op[0] != '%')
			return
		}
	}
	w.fail("bad substitution")
}

// arithmetic reads to "))".
func (w *wordParser) arithmetic() Word {
	inner := &wordParser{Parser: w.Parser, parts: Word{}}
	for depth := 0; ; {
		switch {
		case !w.more():
			w.fail("unexpected end in arithmetic")
		case depth == 0 && strings.HasPrefix(w.src[w.pos:], "))"):
			w.pos += 2
			return inner.parts
		case w.src[w.pos] == '(':
			depth++
		case w.src[w.pos] == ')':
			depth--
		}
		inner.piece(true)
	}
}

// backquote reads `…`, in which \, ` and $ are escaped.
func (w *wordParser) backquote(quoted bool) {
	var b strings.Builder
	for i := w.pos + 1; i < len(w.src); i++ {
		switch c := w.src[i]; {
		case c == '`':
			body := w.sub(b.String()).whole()
			w.seen = true
			w.parts = append(w.parts, Part{Kind: Output, Quoted: quoted, Body: body})
			w.pos = i + 1
			return
		case c == '\\' && i+1 < len(w.src) && strings.IndexByte("\\`$", w.src[i+1]) >= 0:
			i++
			b.WriteByte(w.src[i])
		default:
			b.WriteByte(c)
		}
	}
	w.fail("unexpected end while looking for \"`\"")
}
