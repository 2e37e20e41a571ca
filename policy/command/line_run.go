package command

import (
	"path"
	"slices"
	"strings"
)

// run takes the wrappers off a simple command until none is left, and records
// what then runs.
func (w *walker) run(inv *invocation, s *scope) {
	for {
		name, known := w.program(inv)
		if !known {
			w.emit(inv, s)
			return
		}
		if inv.shell {
			if b := builtinFor(name); b != nil {
				b(w, inv, s)
				return
			}
		}
		if special := specialFor(name); special != nil {
			special(w, inv, s)
			return
		}
		if w.subcommand(name, inv, s) {
			return
		}
		if opaque(name) && len(inv.Words) > 1 {
			w.stuck(inv, name+" runs what its words say, in a way that is not read", s)
			return
		}
		g, ok := wrapperFor(name)
		if !ok || !inv.shell && (name == "exec" || name == "builtin" || name == "command") {
			w.emit(inv, s)
			return
		}
		if !w.unwrap(name, &g, inv, s) {
			return
		}
	}
}

// program returns the name under which inv's program may be in the tables. It
// reports false when there is none, after noting why if that is for a lack of
// knowledge.
func (w *walker) program(inv *invocation) (string, bool) {
	prog := inv.Words[0]
	if !fixed(prog) {
		w.job.unknown(prog.Span, "the name of the program, "+prog.Raw+", is not known from the text")
		return "", false
	}
	if !strings.Contains(prog.Value, "/") {
		return prog.Value, prog.Value != ""
	}
	inv.shell = false
	dir, base := path.Split(prog.Value)
	switch path.Clean(dir) {
	case "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin":
		return base, true
	}
	if _, sub := subcommands[base]; !sub && isWrapper(base) {
		w.job.unknown(prog.Span, prog.Raw+" may be a "+base+" that runs what its words say, or another program")
	}
	return "", false
}

// unwrap takes one wrapper off and reports whether a command is left; if not,
// it has recorded what there is.
func (w *walker) unwrap(name string, g *lineGrammar, inv *invocation, s *scope) bool {
	p := g.parse(inv.Words)
	switch {
	case p.why != "":
		return w.stuck(inv, p.why, s)
	case p.any(g.query):
		w.emit(inv, s)
		return false
	case p.any(g.unclear):
		return w.stuck(inv, "with these options "+name+" starts a shell", s)
	}
	if o, ok := p.has("o", "output"); ok && name == "strace" && (!o.arg.Static || strings.ContainsAny(o.arg.Value[:min(1, len(o.arg.Value))], "|!")) {
		return w.stuck(inv, "strace gives what it sees to a program", s)
	}
	if o, ok := p.has("S", "split-string"); ok && name == "env" {
		return w.splitEnv(inv, p, o, s)
	}
	rest, why := skip(p.rest, g.operands)
	if why != "" {
		return w.stuck(inv, why, s)
	}
	if g.assigns {
		if rest, why = w.takeAssigns(rest, inv); why != "" {
			return w.stuck(inv, why, s)
		}
	}
	if len(rest) == 0 {
		if g.bare == bareShell {
			return w.stuck(inv, name+" starts a shell", s)
		}
		w.emit(inv, s)
		return false
	}
	w.moved(name, p, inv, s)
	if name == "exec" {
		s.gone = true
	}
	w.take(name, rest, inv)
	return true
}

// take makes rest the words of inv, with one more wrapper off.
func (w *walker) take(name string, rest []lineWord, inv *invocation) {
	if len(inv.Wrappers) >= maxWrappers {
		panic(lineRefusal{refuse(inv.Span, "wrappers are nested too deeply", "write it in several steps")})
	}
	inv.Wrappers = append(slices.Clip(inv.Wrappers), name)
	inv.Words = rest
	if name != "command" && name != "builtin" {
		inv.shell = false
	}
}

// stuck records inv as it is, and that the text does not tell what it runs.
func (w *walker) stuck(inv *invocation, why string, s *scope) bool {
	w.job.unknown(inv.Words[0].Span, why)
	w.emit(inv, s)
	return false
}

// takeAssigns takes NAME=VALUE words off.
func (w *walker) takeAssigns(words []lineWord, inv *invocation) ([]lineWord, string) {
	for len(words) > 0 {
		v := words[0]
		name, value, ok := strings.Cut(v.Prefix, "=")
		if !ok {
			break
		}
		if !v.single || v.Glob {
			return nil, "what " + v.Raw + " stands for decides what runs"
		}
		a := lineAssign{Name: name, Scope: scopeCommand, Span: v.Span, Value: v}
		a.Value.Value, a.Value.Prefix = value, value
		w.meaning(name, a.Value, v.Span)
		inv.Assigns = append(inv.Assigns, a)
		w.out.Assigns = append(w.out.Assigns, a)
		words = words[1:]
	}
	return words, ""
}

// moved notes where the command behind a wrapper runs.
func (w *walker) moved(name string, p parsed, inv *invocation, s *scope) {
	if o, ok := p.has(chdirs[name]...); ok {
		base := inv.Dir
		if base == "" {
			base = s.dir
		}
		if inv.Dir = lineBelow(base, o.arg); inv.Dir == "" {
			inv.Dir = nowhere
		}
	}
	if _, ok := p.has(roots[name]...); ok || name == "chroot" || name == "nsenter" {
		inv.Dir = nowhere
	}
}

// below returns the directory that target names from base; empty is unknown.
func lineBelow(base string, target lineWord) string {
	switch {
	case !fixed(target) || target.Value == "" && base == "":
		return ""
	case strings.Contains(target.Value, "..") && strings.Contains(base+"/"+target.Value, "/proc/"):
		return "" // links of a process lead anywhere, so that its parent is not the one that the name says
	case strings.HasPrefix(target.Value, "/"):
		return path.Clean(target.Value)
	case base == "" || base == nowhere:
		return ""
	}
	return path.Join(base, target.Value)
}

// splitEnv handles env -S, whose text is split into words with rules of its
// own. Only text without quotes, backslashes and variables is.
func (w *walker) splitEnv(inv *invocation, p parsed, o lineOption, s *scope) bool {
	if len(p.options) > 1 || !o.arg.Static && o.arg.Value == "" || !o.arg.Static {
		return w.stuck(inv, "env -S with more than plain text is not read", s)
	}
	if strings.ContainsAny(o.arg.Value, "\\'\"$#\n") {
		return w.stuck(inv, "env -S with more than plain text is not read", s)
	}
	words := []lineWord{inv.Words[0]}
	for _, f := range strings.Fields(o.arg.Value) {
		words = append(words, lineWord{Value: f, Prefix: f, Static: true, single: true, Raw: o.arg.Raw, Span: o.arg.Span})
	}
	inv.Words = append(words, p.rest...)
	return true
}
