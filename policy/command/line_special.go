package command

import (
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A handler records a simple command whose words need more than a grammar.
type handler func(*walker, *invocation, *scope)

// specialFor returns the handler for a program that runs others by rules of
// its own, nil when name is none.
func specialFor(name string) handler {
	switch name {
	case "bash", "rbash", "sh", "dash", "ash":
		return (*walker).shell
	case "zsh", "ksh", "mksh", "ksh93", "rzsh", "rksh", "lksh", "pdksh", "fish", "yash", "csh", "tcsh":
		return (*walker).foreignShell
	case "gdb":
		return (*walker).debugger
	case "busybox", "toybox":
		return (*walker).busybox
	case "su", "runuser":
		return (*walker).su
	case "script":
		return (*walker).script
	case "watch":
		return (*walker).watch
	case "flock":
		return (*walker).flock
	case "xargs":
		return (*walker).xargs
	case "find":
		return (*walker).find
	case "parallel":
		return (*walker).parallel
	}
	if trimmed := strings.TrimRight(strings.TrimSuffix(name, "-static"), "0123456789.-"); trimmed != name && lineIsShell(trimmed) {
		return (*walker).foreignShell // bash5.2, zsh-5.9: of an unknown age
	}
	return nil
}

// isShell reports whether name is that of a shell.
func lineIsShell(name string) bool {
	switch name {
	case "bash", "rbash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "fish", "yash", "csh", "tcsh":
		return true
	}
	return false
}

// via returns s for what inv runs by k.
func lineVia(s *scope, inv *invocation, k lineKind) *scope {
	c := s.within(k)
	if inv.Dir == nowhere {
		c.adrift()
	} else if inv.Dir != "" {
		c.dir = inv.Dir
	}
	c.unsure = c.unsure || inv.Unsure
	c.around = inv.Redirects
	return c
}

// fresh forgets the variables, which another process does not share.
func (s *scope) fresh() *scope {
	s.bound, s.prev, s.stack, s.failed = nil, "", nil, nil
	return s
}

// shText walks text that a shell run by inv reads. posix says that it may be
// another shell than bash. by is what inv starts for that.
func (w *walker) shText(text string, inv *invocation, holder policy.Span, posix bool, s *scope, args []lineWord, by ...string) {
	inner := lineVia(s, inv, nestedShell).fresh()
	for i, a := range args {
		if fixed(a) && i <= 9 {
			inner.bind(string(rune('0'+i)), lineWord{Value: a.Value, Static: true, single: true})
		}
	}
	n := len(w.out.Commands)
	name := inv.Words[0].Value
	w.nested(text, holder, inner, func(in *walker) { in.posix = in.posix || posix })
	if len(w.out.Commands) == n {
		w.emit(inv, s)
		return
	}
	wrap := append(append(slices.Clip(inv.Wrappers), name[strings.LastIndexByte(name, '/')+1:]), by...)
	for i := n; i < len(w.out.Commands); i++ {
		c := &w.out.Commands[i]
		c.Wrappers = append(slices.Clip(wrap), c.Wrappers...)
		c.Assigns = append(slices.Clip(inv.Assigns), c.Assigns...)
	}
}

// shells is how bash reads its options. Of the others it knows what they share.
var lineShells = lineGrammar{flags: "abefhkmnptuvxBCDEHPTrilcs", args: "oO", endDash: true,
	long:    "norc noprofile posix login verbose version help restricted debugger dump-strings dump-po-strings noediting pretty-print rcfile= init-file=",
	query:   "version help n D dump-strings dump-po-strings",
	unclear: "i k B H O rcfile init-file posix debugger t p"}

// shell handles bash and sh with text of their own.
func (w *walker) shell(inv *invocation, s *scope) {
	posix := !strings.HasSuffix(inv.Words[0].Value, "bash")
	words := slices.Clone(inv.Words)
	for i := 1; i < len(words) && fixed(words[i]) && strings.HasPrefix(words[i].Value, "+"); i++ {
		// +e and its like take options back; +o and +O have an argument.
		switch v := words[i].Value; {
		case v == "+o" && i+1 < len(words) && harmlessSet(words[i+1]):
			i++
		case strings.Trim(v[1:], "abefhmuvxCEPT") == "" && len(v) > 1:
		default:
			w.stuck(inv, "the option "+words[i].Raw+" is not known", s)
			return
		}
		words = append(words[:1:1], words[i+1:]...)
		i = 0
	}
	p := lineShells.parse(words)
	if o, ok := p.has("o"); p.why == "" && ok && !harmlessSet(o.arg) {
		p.why = "the option " + o.arg.Raw + " changes how bash reads its text"
	}
	_, text := p.has("c")
	switch {
	case p.why != "":
		w.stuck(inv, p.why, s)
	case p.any("version help"):
		w.emit(inv, s)
	case p.any(lineShells.unclear):
		w.stuck(inv, "with these options the shell reads more than its text", s)
	case text && len(p.rest) > 0:
		w.textOf(p.rest, inv, posix, s)
	case text:
		w.stuck(inv, "the option -c lacks its text", s)
	case p.any("s") || len(p.rest) == 0:
		w.stdin(inv, posix, s, p.rest)
	case !fixed(p.rest[0]) || strings.HasPrefix(p.rest[0].Value, "/dev/") || strings.HasPrefix(p.rest[0].Value, "/proc/"):
		w.stuck(inv, "the shell runs what it reads from "+p.rest[0].Raw+", which the text does not tell", s)
	default: // a script, which is a program like any other
		w.emit(inv, s)
	}
}

// textOf walks the text of -c, the first of rest; the others are $0, $1 and so on.
func (w *walker) textOf(rest []lineWord, inv *invocation, posix bool, s *scope) {
	if !fixed(rest[0]) {
		w.stuck(inv, "the text for the shell, "+rest[0].Raw+", is not known", s)
		return
	}
	if inv.Open && len(rest) < 2 {
		// What is appended becomes $0 and so on, which the text may use.
		rest = rest[:1]
	}
	w.shText(rest[0].Value, inv, rest[0].Span, posix, s, rest[1:])
}

// stdin walks what a shell reads from its standard input.
func (w *walker) stdin(inv *invocation, posix bool, s *scope, args []lineWord) {
	if inv.body == nil || inv.Open || len(args) > 0 {
		w.stuck(inv, "the shell runs what it reads, which the text does not tell", s)
		return
	}
	span := inv.stdin.Span
	w.shText(*inv.body, inv, span, posix, s, nil)
}

// foreignShell handles shells whose language is another: only text that means
// the same everywhere is read.
func (w *walker) foreignShell(inv *invocation, s *scope) {
	if len(inv.Words) == 3 && inv.Words[1].Value == "-c" && fixed(inv.Words[1]) && fixed(inv.Words[2]) && everyShell(inv.Words[2].Value) {
		w.shText(inv.Words[2].Value, inv, inv.Words[2].Span, true, s, nil)
		return
	}
	w.stuck(inv, "what this shell runs is not read, as its language is not that of bash", s)
}

// everyShell reports whether text is plain words, joined by operators that every
// shell knows, none of them special to zsh or csh.
func everyShell(text string) bool {
	for _, f := range strings.Fields(text) {
		switch f {
		case "repeat", "noglob", "nocorrect", "foreach", "-", "end", "begin", "and", "or", "not", "function", "if", "for", "while", "until", "select", "case", "time", "coproc", "switch":
			return false
		}
		if strings.ContainsAny(f[:1], "=%@^:!") {
			return false
		}
	}
	for i := range len(text) {
		if c := text[i]; !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(" _./:@%+,-&|;", c) >= 0) {
			return false
		}
	}
	return true
}

// busybox takes busybox off its applet.
func (w *walker) busybox(inv *invocation, s *scope) {
	if len(inv.Words) < 2 {
		w.emit(inv, s)
		return
	}
	applet := inv.Words[1]
	if fixed(applet) && strings.HasPrefix(applet.Value, "-") {
		w.emit(inv, s)
		return
	}
	w.take("busybox", inv.Words[1:], inv)
	if fixed(applet) && strings.Contains(applet.Value, "/") {
		w.stuck(inv, "busybox looks for an applet by the end of this path", s)
		return
	}
	if fixed(applet) && (applet.Value == "bash" || applet.Value == "hush") {
		w.stuck(inv, "this shell of busybox is not bash", s)
		return
	}
	w.run(inv, s)
}
