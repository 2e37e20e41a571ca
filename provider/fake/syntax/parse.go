package syntax

import (
	"fmt"
	"strings"
)

// An Error is text that is no command.
type Error struct{ Message string }

func (e *Error) Error() string { return "syntax error: " + e.Message }

// maxDepth bounds how deep constructs may nest.
const maxDepth = 200

// A Parser reads commands from a text.
type Parser struct {
	src   string
	pos   int
	depth int
	alias func(string) (string, bool)
	used  []usedAlias
	here  []*hereDoc // whose text follows the next newline
	fresh bool       // the next word may be an alias after one that ended with a blank
}

type hereDoc struct {
	into   *Word
	end    string
	raw    bool // nothing in it is expanded
	indent bool // leading tabs go away
}

// New returns a parser of src. Names that alias knows are replaced where a
// command is expected; alias may be nil.
func New(src string, alias func(string) (string, bool)) *Parser {
	if alias == nil {
		alias = func(string) (string, bool) { return "", false }
	}
	return &Parser{src: src, alias: alias}
}

// Next returns the next complete command, or nil at the end of the text. The
// error is an *[Error]; there is no going on after one.
func (p *Parser) Next() (list *List, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			list, err = nil, e
		default:
			panic(e)
		}
	}()
	p.newlines()
	if !p.more() {
		return nil, nil
	}
	list = p.list(true)
	if p.more() && !p.newline() {
		p.fail("unexpected %q", p.token())
	}
	return list, nil
}

// whole parses all of the text.
func (p *Parser) whole() *List {
	list := p.list(false)
	if p.more() {
		p.fail("unexpected %q", p.token())
	}
	return list
}

// sub returns a parser of another text at the same depth.
func (p *Parser) sub(src string) *Parser {
	q := &Parser{src: src, alias: p.alias, depth: p.depth}
	q.enter()
	return q
}

func (p *Parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deeply")
	}
}

func (p *Parser) fail(format string, args ...any) {
	panic(&Error{fmt.Sprintf(format, args...)})
}

func (p *Parser) more() bool { return p.pos < len(p.src) }

// blanks skips blanks, comments and continued lines.
func (p *Parser) blanks() {
	for p.more() {
		switch {
		case p.src[p.pos] == ' ' || p.src[p.pos] == '\t':
			p.pos++
		case strings.HasPrefix(p.src[p.pos:], "\\\n"):
			p.pos += 2
		case p.src[p.pos] == '#':
			for p.more() && p.src[p.pos] != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

// newline takes one newline and the here-documents after it.
func (p *Parser) newline() bool {
	p.blanks()
	if !p.more() || p.src[p.pos] != '\n' {
		return false
	}
	p.pos++
	p.hereTexts()
	return true
}

func (p *Parser) newlines() {
	for p.newline() {
	}
}

// token is what stands here, for people.
func (p *Parser) token() string {
	rest := p.src[p.pos:]
	if n := strings.IndexAny(rest, " \t\n"); n > 0 {
		rest = rest[:n]
	}
	return rest[:min(len(rest), 20)]
}

// op takes the operator s when it stands here and is not part of a longer one.
func (p *Parser) op(s string) bool {
	p.blanks()
	rest := p.src[p.pos:]
	if !strings.HasPrefix(rest, s) || len(s) == 1 && strings.HasPrefix(rest, s+s) && s != "(" && s != ")" {
		return false
	}
	p.pos += len(s)
	return true
}

// keyword reports whether one of the reserved words stands here, without
// taking it.
func (p *Parser) keyword(words ...string) string {
	p.blanks()
	for _, w := range words {
		rest, ok := strings.CutPrefix(p.src[p.pos:], w)
		if ok && (rest == "" || isMeta(rest[0])) {
			return w
		}
	}
	return ""
}

// take takes a reserved word that must stand here.
func (p *Parser) take(word string) {
	if p.keyword(word) == "" {
		p.fail("expected %q, found %q", word, p.token())
	}
	p.pos += len(word)
}

// list parses commands. A line ends at a newline; otherwise a list goes on
// until something that cannot start a command.
func (p *Parser) list(line bool) *List {
	defer func(d int) { p.depth = d }(p.depth)
	p.enter()
	l := &List{}
	for {
		if !line {
			p.newlines()
		}
		p.blanks()
		if !p.more() || p.src[p.pos] == '\n' || p.ends() {
			return l
		}
		item := Item{Cmd: p.andOr()}
		separated := false
		switch {
		case p.op("&"):
			item.Background, separated = true, true
		case p.op(";"):
			separated = true
		case !line && p.newline():
			separated = true
		}
		l.Items = append(l.Items, item)
		if !separated {
			return l
		}
	}
}

// ends reports whether something stands here that closes a list.
func (p *Parser) ends() bool {
	return p.src[p.pos] == ')' || strings.HasPrefix(p.src[p.pos:], ";;") ||
		p.keyword("then", "else", "elif", "fi", "do", "done", "esac", "}") != ""
}

// nested parses a list that ends before the operator or word end.
func (p *Parser) nested(end string) *List {
	l := p.list(false)
	p.blanks()
	if !strings.HasPrefix(p.src[p.pos:], end) {
		p.fail("expected %q, found %q", end, p.token())
	}
	return l
}

// body parses a list that must have a command.
func (p *Parser) body() *List {
	l := p.list(false)
	if len(l.Items) == 0 {
		p.fail("expected a command, found %q", p.token())
	}
	return l
}

func (p *Parser) andOr() Node {
	a := &AndOr{First: p.pipeline()}
	for {
		and := p.op("&&")
		if !and && !p.op("||") {
			break
		}
		p.newlines()
		a.Rest = append(a.Rest, Link{And: and, Cmd: p.pipeline()})
	}
	if len(a.Rest) == 0 {
		return a.First
	}
	return a
}

func (p *Parser) pipeline() Node {
	pl := &Pipeline{}
	for p.keyword("!") != "" {
		p.take("!")
		pl.Not = !pl.Not
	}
	pl.Cmds = append(pl.Cmds, p.command())
	for p.op("|") {
		p.newlines()
		pl.Cmds = append(pl.Cmds, p.command())
	}
	if len(pl.Cmds) == 1 && !pl.Not {
		return pl.Cmds[0]
	}
	return pl
}
