package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A gather puts the value of one word together.
type gather struct {
	w       *walker
	s       *scope
	buf     []byte
	known   int // how much of buf was known before the first unknown part; -1 while all is
	glob    bool
	bracket bool // a [ was seen
	many    bool // it may become no word or several
	number  bool // its only part is a number
	quoted  bool // it has quotes, so that it becomes a word even when empty
	assign  bool // it is the value of an assignment
	tail    int  // where in buf the last part that was not known stands
	pieces  []linePiece
}

// word tells what x stands for. It does not look for what x runs; [walker.visit] does.
func (w *walker) word(x *syntax.Word, s *scope) lineWord {
	return w.evaluate(x, s, false)
}

// value is word for the value of an assignment, which is neither split nor globbed.
func (w *walker) value(x *syntax.Word, s *scope) lineWord {
	if x == nil {
		return lineWord{Static: true, single: true}
	}
	v := w.evaluate(x, s, true)
	v.Glob, v.single = false, true
	return v
}

func (w *walker) evaluate(x *syntax.Word, s *scope, assign bool) lineWord {
	out := lineWord{Span: w.span(x), Raw: w.raw(x)}
	if len(x.Parts) == 1 {
		if lit, ok := x.Parts[0].(*syntax.Lit); ok && linePlain(lit.Value) {
			out.Value, out.Static, out.single = lit.Value, true, true
			out.Prefix = out.Value
			return out
		}
	}
	g := gather{w: w, s: s, known: -1, assign: assign}
	for i, part := range x.Parts {
		g.part(part, i, x.Parts)
	}
	out.Static = g.known < 0
	out.Glob = g.glob
	if out.Static {
		out.Value = string(g.buf)
		out.Prefix = out.Value
		out.single = g.quoted || len(g.buf) > 0
		out.Static = out.single || assign
		return out
	}
	if out.Pieces = g.pieces; g.tail < len(g.buf) {
		out.Pieces = append(out.Pieces, linePiece{Text: string(g.buf[g.tail:])})
	}
	out.Prefix = string(g.buf[:g.known])
	out.Value = out.Prefix
	out.single = !g.many
	out.number = g.number && len(x.Parts) == 1
	return out
}

// plain reports whether unquoted text stands for itself whatever follows.
func linePlain(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case '\\', '*', '?', '[', '~', '{':
			return false
		}
	}
	return s != ""
}

// unknown notes that from here on the value is not known.
func (g *gather) unknown() {
	if g.known < 0 {
		g.known = len(g.buf)
	} else if g.tail < len(g.buf) {
		g.pieces = append(g.pieces, linePiece{Text: string(g.buf[g.tail:]), Open: true})
	}
	g.tail = len(g.buf)
}

func (g *gather) part(part syntax.WordPart, i int, all []syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		g.literal(p.Value, i, len(all))
	case *syntax.SglQuoted:
		g.quoted = true
		if !p.Dollar {
			g.buf = append(g.buf, p.Value...)
			return
		}
		text, ok := ansi(p.Value)
		if !ok {
			g.unknown()
			return
		}
		g.buf = append(g.buf, text...)
	case *syntax.DblQuoted:
		g.quoted = true
		g.double(p)
	case *syntax.ParamExp:
		g.parameter(p, false, len(all) == 1)
	case *syntax.ArithmExp:
		g.number = true
		g.unknown()
		g.w.rely("IFS", false)
		g.many = g.many || g.w.blocked[claim{name: "IFS"}]
	case *syntax.ProcSubst:
		g.buf = append(g.buf, "/dev/fd/"...)
		g.unknown()
	default: // substitutions, braces that are left
		g.unknown()
		g.many = true
	}
}

// literal adds unquoted text, the i-th of n parts.
func (g *gather) literal(s string, i, n int) {
	start := 0
	if i == 0 && strings.HasPrefix(s, "~") {
		start = g.tilde(s, n)
	}
	for j := start; j < len(s); j++ {
		switch c := s[j]; c {
		case '\\':
			j++
			if j < len(s) && s[j] != '\n' {
				g.buf = append(g.buf, s[j])
			}
			g.quoted = true
			continue
		case '*', '?':
			g.glob = true
		case '[':
			g.bracket = true
		case ']':
			g.glob = g.glob || g.bracket
		case '~':
			// After = or : bash may expand it to a user's home folder.
			if j > 0 && (s[j-1] == '=' || s[j-1] == ':') {
				if i == 0 && !g.assign && s[j-1] == '=' && identifier(s[:j-1]) && g.homeAt(s[j:], n) {
					continue
				}
				g.unknown()
			}
		}
		g.buf = append(g.buf, s[j])
	}
	if i > 0 && g.assign && strings.HasPrefix(s, "~") {
		g.unknown()
	}
}

// tilde adds what a ~ at the beginning of s stands for, and returns how many
// bytes of s it took. Only ~ and ~/… are known; n is the number of parts of
// the word.
func (g *gather) tilde(s string, n int) int {
	switch {
	case g.w.home != "" && (s == "~" && n == 1 || strings.HasPrefix(s, "~/")) && g.w.rely("HOME", false):
		g.buf = append(g.buf, g.w.home...)
		g.quoted = true
		if g.w.home == "/" && len(s) > 1 {
			g.buf = g.buf[:0]
		}
		return 1
	default:
		g.unknown()
		return 0
	}
}

// homeAt adds the home folder for the ~ at the beginning of s, which stands
// behind NAME= in an argument, and reports whether bash surely does so too.
func (g *gather) homeAt(s string, n int) bool {
	if g.w.posix || g.w.home == "" || !(s == "~" && n == 1 || strings.HasPrefix(s, "~/")) || !g.w.rely("HOME", false) {
		return false
	}
	if g.w.home != "/" || len(s) == 1 {
		g.buf = append(g.buf, g.w.home...)
	}
	return true
}

// double adds what stands in double quotes.
func (g *gather) double(q *syntax.DblQuoted) {
	if q.Dollar {
		g.unknown()
	}
	for _, part := range q.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			g.escaped(p.Value)
		case *syntax.ParamExp:
			g.parameter(p, true, false)
		default:
			g.unknown()
		}
	}
}

// escaped adds text in double quotes or a here-document.
func (g *gather) escaped(s string) {
	for j := 0; j < len(s); j++ {
		if s[j] == '\\' && j+1 < len(s) {
			switch s[j+1] {
			case '\n':
				j++
				continue
			case '$', '`', '"', '\\':
				j++
			}
		}
		g.buf = append(g.buf, s[j])
	}
}

// parameter adds what $x or ${x…} stands for.
func (g *gather) parameter(p *syntax.ParamExp, quoted, alone bool) {
	if p.Param != nil && (p.Param.Value == "@" || p.Param.Value == "*" && !quoted || p.Index != nil) {
		g.unknown()
		g.many = true
		return
	}
	if len(g.buf) > maxWord {
		g.unknown()
	}
	value, ok := "", false
	if g.known < 0 {
		value, ok = g.w.known(p, g.s)
	}
	switch {
	case ok && (quoted || g.assign):
		g.buf = append(g.buf, value...)
	case ok && value != "" && !strings.ContainsAny(value, " \t\n*?[\\") && g.w.rely("IFS", false):
		g.buf = append(g.buf, value...)
		g.quoted = true
	case g.w.numeric(p, g.s):
		g.number = alone
		g.unknown()
		g.many = g.many || !quoted && !g.w.rely("IFS", false)
	default:
		g.unknown()
		// ${!x@} and ${a[@]} make several words even in quotes.
		g.many = g.many || !quoted || p.Names != 0 || p.Excl
	}
}

// simple reports whether p is $x or ${x} and nothing more.
func simple(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil &&
		p.Repl == nil && p.Names == 0 && p.Exp == nil && p.Flags == nil && p.NestedParam == nil
}

// known returns the value of p if it is certain.
func (w *walker) known(p *syntax.ParamExp, s *scope) (string, bool) {
	if !simple(p) {
		return w.orElse(p, s)
	}
	name := p.Param.Value
	if name == "HOME" {
		return w.home, w.home != "" && w.rely("HOME", false)
	}
	if b := s.lookup(name); b != nil && b.static && w.rely(name, false) {
		return b.value, true
	}
	return "", false
}

// orElse returns the value of ${x:?…}, ${x:-…} and their like when x is
// certain and not empty, so that the rest does not matter.
func (w *walker) orElse(p *syntax.ParamExp, s *scope) (string, bool) {
	if p.Exp == nil {
		return "", false
	}
	switch p.Exp.Op {
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
	default:
		return "", false
	}
	plain := *p
	plain.Exp = nil
	if !simple(&plain) {
		return "", false
	}
	value, ok := w.known(&plain, s)
	return value, ok && value != ""
}

// numeric reports whether p surely is a decimal number.
func (w *walker) numeric(p *syntax.ParamExp, s *scope) bool {
	if p.Length {
		return true
	}
	if !simple(p) {
		return false
	}
	switch p.Param.Value {
	case "#", "?", "$", "UID", "EUID", "PPID":
		return true
	}
	return w.number(p.Param.Value, s)
}

// number reports whether the variable surely holds a decimal number.
func (w *walker) number(name string, s *scope) bool {
	b := s.lookup(name)
	return b != nil && b.number && w.rely(name, true)
}
