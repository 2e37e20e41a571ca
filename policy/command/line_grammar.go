package command

import (
	"strings"
)

// A grammar says how a program reads the words before the command that it
// runs. It follows getopt: options end at the first other word and at "--",
// letters may stand together, and an argument may be attached. Long names
// must be written out.
type lineGrammar struct {
	flags    string // letters without argument
	args     string // letters with an argument
	attached string // letters whose argument, if any, is attached
	long     string // long names, by blanks; "name=" needs an argument, "name?" may have one by =
	numbers  bool   // -5 is an option, as of nice
	dash     bool   // a lone - is an option, as of env
	endDash  bool   // a lone - ends the options like --, as of shells
	loose    bool   // other long names are options as well, their arguments by = if they have any
	operands int    // words between the options and the command
	assigns  bool   // NAME=VALUE may stand before the command
	permute  bool   // options may stand behind other words
	query    string // options, by blanks, with which it runs no command
	unclear  string // options, by blanks, with which the text does not tell what runs
	bare     bare   // what it does without a command
}

// A bare says what a wrapper does when no command is given.
type bare int

const (
	bareItself bare = iota // it does something of its own
	bareShell              // it starts a shell
)

// An option is one option as given.
type lineOption struct {
	name string // "C" or "chdir"
	arg  lineWord
}

// A parsed holds the words of a wrapper, split by their role.
type parsed struct {
	options []lineOption
	rest    []lineWord // the first word that is no option, and those behind it
	why     string     // why the text does not determine the words; empty if it does
}

// has returns the last of the options that is called one of names.
func (p *parsed) has(names ...string) (lineOption, bool) {
	for i := len(p.options) - 1; i >= 0; i-- {
		for _, n := range names {
			if p.options[i].name == n {
				return p.options[i], true
			}
		}
	}
	return lineOption{}, false
}

// any reports whether one of the options in list was given.
func (p *parsed) any(list string) bool {
	if list == "" {
		return false
	}
	_, ok := p.has(strings.Fields(list)...)
	return ok
}

// fixed reports whether the text tells a word wholly.
func fixed(v lineWord) bool { return v.Static && !v.Glob }

// operand reports whether v surely is one word that is no option.
func operand(v lineWord) bool {
	return v.number || (fixed(v) || v.single && !v.Glob) && v.Prefix != "" && v.Prefix[0] != '-'
}

// parse tells options and other words apart; words[0] is the program.
func (g *lineGrammar) parse(words []lineWord) parsed {
	var p parsed
	i := 1
	for ; i < len(words); i++ {
		v := words[i]
		switch {
		case v.number && v.Prefix == "" && !v.Static:
			if !g.permute {
				p.rest = append(p.rest, words[i:]...)
				return p
			}
			p.rest = append(p.rest, v)
			continue
		case !fixed(v) && !operand(v):
			p.why = "what " + v.Raw + " stands for decides what runs"
			return p
		case fixed(v) && (v.Value == "--" || v.Value == "-" && g.endDash):
			p.rest = append(p.rest, words[i+1:]...)
			return p
		case fixed(v) && v.Value == "-" && g.dash:
			p.options = append(p.options, lineOption{name: "-"})
			continue
		case operand(v) || v.Value == "-" || v.Value == "":
			if !g.permute {
				p.rest = words[i:]
				return p
			}
			p.rest = append(p.rest, v)
			continue
		}
		var used int
		if strings.HasPrefix(v.Value, "--") {
			used = g.name(&p, words[i:])
		} else {
			used = g.letters(&p, words[i:])
		}
		if p.why != "" {
			return p
		}
		i += used
	}
	return p
}

// name reads the long option words[0] and returns how many words its argument took.
func (g *lineGrammar) name(p *parsed, words []lineWord) int {
	name, value, attached := strings.Cut(words[0].Value[2:], "=")
	arg := words[0]
	arg.Value = value
	for _, known := range strings.Fields(g.long) {
		switch {
		case known == name && !attached:
			p.options = append(p.options, lineOption{name: name})
			return 0
		case known == name+"?", known == name+"=" && attached:
			p.options = append(p.options, lineOption{name: name, arg: arg})
			return 0
		case known == name+"=":
			return g.next(p, name, words)
		}
	}
	if !g.loose {
		p.why = "the option " + words[0].Raw + " is not known"
	}
	return 0
}

// letters reads the short options in words[0] and returns how many words the
// argument of the last took.
func (g *lineGrammar) letters(p *parsed, words []lineWord) int {
	s := words[0].Value[1:]
	if g.numbers && decimal(s) {
		p.options = append(p.options, lineOption{name: "number"})
		return 0
	}
	for i := range len(s) {
		letter, arg := s[i:i+1], words[0]
		arg.Value = s[i+1:]
		switch {
		case strings.Contains(g.flags, letter):
			p.options = append(p.options, lineOption{name: letter})
		case strings.Contains(g.attached, letter), strings.Contains(g.args, letter) && arg.Value != "":
			p.options = append(p.options, lineOption{name: letter, arg: arg})
			return 0
		case strings.Contains(g.args, letter):
			return g.next(p, letter, words)
		default:
			p.why = "the option -" + letter + " of " + words[0].Raw + " is not known"
			return 0
		}
	}
	return 0
}

// next takes words[1] as the argument of an option.
func (g *lineGrammar) next(p *parsed, name string, words []lineWord) int {
	if len(words) < 2 {
		p.why = "the option " + words[0].Raw + " lacks its argument"
		return 0
	}
	if !words[1].single && !fixed(words[1]) {
		p.why = "what " + words[1].Raw + " stands for decides what runs"
		return 0
	}
	p.options = append(p.options, lineOption{name: name, arg: words[1]})
	return 1
}

// skip takes n operands off, each surely one word.
func skip(words []lineWord, n int) ([]lineWord, string) {
	for _, v := range words[:min(n, len(words))] {
		if !v.single || v.Glob {
			return nil, "what " + v.Raw + " stands for decides what runs"
		}
	}
	return words[min(n, len(words)):], ""
}
