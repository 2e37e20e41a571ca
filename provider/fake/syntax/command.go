package syntax

import (
	"slices"
	"strings"
)

// command parses a simple or compound command, or a function.
func (p *Parser) command() Node {
	p.blanks()
	if !p.more() || p.src[p.pos] == '\n' {
		p.fail("unexpected end of the command")
	}
	defer func(d int) { p.depth = d }(p.depth)
	p.enter()
	n := p.compound()
	if n == nil {
		return p.simple()
	}
	if list := p.redirects(nil); len(list) > 0 {
		return &Redirected{n, list}
	}
	return n
}

// compound returns nil where none starts.
func (p *Parser) compound() Node {
	if p.src[p.pos] == '(' {
		p.pos++
		body := p.body()
		if !p.op(")") {
			p.fail("expected \")\", found %q", p.token())
		}
		return &Group{Sub: true, Body: body}
	}
	switch word := p.keyword("{", "if", "while", "until", "for", "case"); word {
	case "{":
		p.take("{")
		body := p.body()
		p.take("}")
		return &Group{Body: body}
	case "if":
		return p.ifs()
	case "while", "until":
		p.take(word)
		l := &Loop{Until: word == "until"}
		l.Cond = p.body()
		l.Body = p.doGroup()
		return l
	case "for":
		return p.fors()
	case "case":
		return p.cases()
	}
	if p.ends() {
		p.fail("unexpected %q", p.token())
	}
	return nil
}

func (p *Parser) ifs() Node {
	n := &If{}
	p.take("if")
	for {
		c := Clause{Cond: p.body()}
		p.take("then")
		c.Body = p.body()
		n.Clauses = append(n.Clauses, c)
		switch p.keyword("elif", "else", "fi") {
		case "elif":
			p.take("elif")
			continue
		case "else":
			p.take("else")
			n.Else = p.body()
		}
		p.take("fi")
		return n
	}
}

func (p *Parser) doGroup() *List {
	p.take("do")
	body := p.body()
	p.take("done")
	return body
}

func (p *Parser) fors() Node {
	p.take("for")
	p.blanks()
	n := nameLength(p.src[p.pos:])
	if n == 0 {
		p.fail("expected a name, found %q", p.token())
	}
	f := &For{Name: p.src[p.pos : p.pos+n]}
	p.pos += n
	p.newlines()
	if p.keyword("in") != "" {
		p.take("in")
		f.In = true
		for p.blanks(); p.more() && !isMeta(p.src[p.pos]); p.blanks() {
			f.Words = append(f.Words, p.word())
		}
	}
	if !p.op(";") {
		p.newline()
	}
	p.newlines()
	f.Body = p.doGroup()
	return f
}

func (p *Parser) cases() Node {
	p.take("case")
	p.blanks()
	c := &Case{Word: p.word()}
	if c.Word == nil {
		p.fail("expected a word, found %q", p.token())
	}
	p.newlines()
	p.take("in")
	p.newlines()
	for p.keyword("esac") == "" {
		p.op("(")
		var arm Arm
		for {
			p.blanks()
			w := p.word()
			if w == nil {
				p.fail("expected a pattern, found %q", p.token())
			}
			arm.Patterns = append(arm.Patterns, w)
			if !p.op("|") {
				break
			}
		}
		if !p.op(")") {
			p.fail("expected \")\", found %q", p.token())
		}
		arm.Body = p.list(false)
		c.Arms = append(c.Arms, arm)
		if !p.op(";;") {
			p.newlines()
			break
		}
		p.newlines()
	}
	p.take("esac")
	return c
}

// simple parses a simple command or the definition of a function.
func (p *Parser) simple() Node {
	s := &Simple{}
	for {
		p.expandAlias(len(s.Words) == 0)
		if r, ok := p.redirect(); ok {
			s.Redirects = append(s.Redirects, r)
			continue
		}
		w := p.word()
		if w == nil {
			break
		}
		if name, value, ok := assignment(w); ok && len(s.Words) == 0 {
			s.Assigns = append(s.Assigns, Assign{name, value})
			continue
		}
		s.Words = append(s.Words, w)
		if name, ok := w.Plain(); ok && len(s.Words) == 1 && len(s.Assigns)+len(s.Redirects) == 0 && p.op("(") {
			if !p.op(")") {
				p.fail("expected \")\", found %q", p.token())
			}
			p.newlines()
			return &Func{name, p.command()}
		}
	}
	if len(s.Words)+len(s.Assigns)+len(s.Redirects) == 0 {
		p.fail("unexpected %q", p.token())
	}
	p.hereDocs(s.Redirects)
	return s
}

// assignment takes NAME=value apart.
func assignment(w Word) (string, Word, bool) {
	if w[0].Kind != Literal || w[0].Quoted {
		return "", nil, false
	}
	n := nameLength(w[0].Text)
	if n == 0 || n == len(w[0].Text) || w[0].Text[n] != '=' {
		return "", nil, false
	}
	value := append(Word{}, w...)
	value[0].Text = w[0].Text[n+1:]
	return w[0].Text[:n], value, true
}

// expandAlias replaces the word that stands here when it is an alias, and
// goes on with what it became. An alias is not replaced in its own text.
func (p *Parser) expandAlias(first bool) {
	first, p.fresh = first || p.fresh, false
	for {
		p.blanks()
		for n := len(p.used); n > 0 && len(p.src)-p.pos <= p.used[n-1].rest; n-- {
			p.used = p.used[:n-1]
		}
		if !first {
			return
		}
		n := p.pos
		for n < len(p.src) && !isMeta(p.src[n]) && strings.IndexByte("'\"\\$`=", p.src[n]) < 0 {
			n++
		}
		name, rest := p.src[p.pos:n], p.src[n:]
		if name == "" || rest != "" && !isMeta(rest[0]) {
			return
		}
		if slices.ContainsFunc(p.used, func(u usedAlias) bool { return u.name == name }) {
			return
		}
		text, ok := p.alias(name)
		if !ok {
			return
		}
		p.used = append(p.used, usedAlias{name, len(rest)})
		p.fresh = strings.HasSuffix(text, " ")
		p.src = p.src[:p.pos] + text + rest
	}
}

// A usedAlias is one whose text is being read, with the bytes that follow it.
type usedAlias struct {
	name string
	rest int
}
