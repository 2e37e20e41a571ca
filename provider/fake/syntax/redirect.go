package syntax

import (
	"slices"
	"strconv"
	"strings"
)

// redirect parses a redirection when one stands here.
func (p *Parser) redirect() (Redirect, bool) {
	p.blanks()
	digits := 0
	for p.pos+digits < len(p.src) && p.src[p.pos+digits] >= '0' && p.src[p.pos+digits] <= '9' {
		digits++
	}
	rest := p.src[p.pos+digits:]
	for _, op := range []string{"<<-", "<<", "<&", "<", ">>", ">&", ">|", ">"} {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		r := Redirect{Op: op}
		if op[0] == '>' {
			r.FD = 1
		}
		if digits > 0 {
			fd, err := strconv.Atoi(p.src[p.pos : p.pos+digits])
			if err != nil || fd > 9 {
				p.fail("descriptor %q", p.src[p.pos:p.pos+digits])
			}
			r.FD = fd
		}
		p.pos += digits + len(op)
		p.blanks()
		if r.Target = p.word(); r.Target == nil {
			p.fail("expected a word after %q", op)
		}
		return r, true
	}
	return Redirect{}, false
}

// redirects parses all that stand here into list.
func (p *Parser) redirects(list []Redirect) []Redirect {
	for {
		r, ok := p.redirect()
		if !ok {
			break
		}
		list = append(list, r)
	}
	p.hereDocs(list)
	return list
}

// hereDocs notes the here-documents among list, whose place in memory is final.
func (p *Parser) hereDocs(list []Redirect) {
	for i := range list {
		r := &list[i]
		if r.Op != "<<" && r.Op != "<<-" {
			continue
		}
		doc := &hereDoc{into: &r.Target, indent: r.Op == "<<-"}
		for _, part := range r.Target {
			doc.end += part.Text
			doc.raw = doc.raw || part.Quoted
		}
		r.Op = "<<"
		r.Target = nil
		p.here = append(p.here, doc)
	}
}

// hereTexts reads the texts that begin at this line. One whose end does not
// come reaches to the end of everything.
func (p *Parser) hereTexts() {
	for _, doc := range p.here {
		var text strings.Builder
		for p.more() {
			line, _, found := strings.Cut(p.src[p.pos:], "\n")
			p.pos = min(p.pos+len(line)+1, len(p.src))
			if doc.indent {
				line = strings.TrimLeft(line, "\t")
			}
			if line == doc.end {
				break
			}
			text.WriteString(line)
			if found {
				text.WriteByte('\n')
			}
		}
		if doc.raw {
			*doc.into = Word{{Kind: Literal, Text: text.String(), Quoted: true}}
			continue
		}
		*doc.into = p.sub(text.String()).text()
	}
	p.here = nil
}

// text parses all as if in double quotes, where " itself has no meaning.
func (p *Parser) text() Word {
	w := &wordParser{Parser: p, parts: Word{}}
	for p.more() {
		w.piece(true)
	}
	return slices.Clip(w.parts)
}
