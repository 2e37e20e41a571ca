package command

import (
	"strings"
)

// builtinFor returns the handler of a builtin of bash that runs things,
// changes what names mean, or evaluates names; nil for every other name.
func builtinFor(name string) handler {
	switch name {
	case "cd":
		return (*walker).cd
	case "pushd", "popd", "dirs":
		return (*walker).pushd
	case "eval":
		return (*walker).eval
	case "trap":
		return (*walker).trap
	case "source", ".":
		return (*walker).source
	case "alias":
		return unlessQuery("names mean other commands behind it", "-p")
	case "enable":
		return unlessQuery("it changes which builtins there are", "-a", "-p", "-s", "-n", "-pn", "-an")
	case "hash":
		return unlessOption("p", "it decides which program a name means")
	case "bind", "complete", "compopt":
		return unlessQuery("it can run text on behalf of the reader's keys", "-p", "-l", "-P", "-v", "-V", "-s", "-S")
	case "compgen":
		return unlessQuery("it can evaluate text", "-b", "-c", "-d", "-e", "-f", "-k", "-v", "-a", "-g", "-j", "-s", "-u")
	case "fc":
		return unlessQuery("it runs commands of the history again", "-l", "-ln", "-nl")
	case "history":
		return unlessQuery("it expands or changes the history", "-a", "-c", "-r", "-w", "-n")
	case "jobs":
		return unlessQuery("with -x it runs a command", "-l", "-n", "-p", "-r", "-s")
	case "set":
		return (*walker).set
	case "shopt":
		return (*walker).shopt
	case "shift":
		return (*walker).shift
	case "exit", "return", "logout":
		return (*walker).leave
	case "declare", "typeset", "local", "export", "readonly":
		return (*walker).declareWords
	case "read", "mapfile", "readarray", "getopts", "unset", "wait", "printf":
		return (*walker).naming
	case "let":
		return (*walker).let
	case "test", "[":
		return (*walker).bracket
	}
	return nil
}

// unclear returns a handler that records the command and why it is not known
// what it runs.
func unclear(why string) handler {
	return func(w *walker, inv *invocation, s *scope) {
		s.bound = nil
		w.cds++
		w.stuck(inv, why, s)
		s.adrift()
	}
}

// unlessQuery is unclear, but not for the options given and no arguments.
func unlessQuery(why string, queries ...string) handler {
	return func(w *walker, inv *invocation, s *scope) {
		for _, v := range inv.Words[1:] {
			ok := false
			for _, q := range queries {
				ok = ok || fixed(v) && v.Value == q
			}
			if !ok {
				unclear(why)(w, inv, s)
				return
			}
		}
		w.emit(inv, s)
	}
}

// unlessOption is unclear where one of the options may have been given.
func unlessOption(letters, why string) handler {
	return func(w *walker, inv *invocation, s *scope) {
		for _, v := range inv.Words[1:] {
			if !operand(v) && !fixed(v) || strings.HasPrefix(v.Value, "-") && strings.ContainsAny(v.Value, letters) {
				unclear(why)(w, inv, s)
				return
			}
		}
		w.emit(inv, s)
	}
}

// eval walks the text that its arguments make.
func (w *walker) eval(inv *invocation, s *scope) {
	words := inv.Words[1:]
	if len(words) > 0 && fixed(words[0]) && words[0].Value == "--" {
		words = words[1:]
	}
	text := make([]string, len(words))
	for i, v := range words {
		if !fixed(v) {
			w.stuck(inv, "the text for eval, "+v.Raw+", is not known", s)
			s.bound = nil
			s.adrift()
			w.cds++
			return
		}
		text[i] = v.Value
	}
	if len(words) == 0 {
		w.emit(inv, s)
		return
	}
	w.evaluated(strings.Join(text, " "), words[0], inv, s, s)
}

// evaluated walks text that this shell itself runs, in the scope inner, which
// s goes on with.
func (w *walker) evaluated(text string, holder lineWord, inv *invocation, inner, s *scope) {
	c := inner.within(nestedEval)
	c.around = inv.Redirects
	n := len(w.out.Commands)
	name := inv.Words[0].Value
	w.nested(text, holder.Span, c, nil)
	for i := n; i < len(w.out.Commands); i++ {
		cmd := &w.out.Commands[i]
		cmd.Wrappers = append(append(append([]string{}, inv.Wrappers...), name), cmd.Wrappers...)
	}
	if len(w.out.Commands) == n {
		w.emit(inv, s)
	}
	inner.inner(c)
}

// trap walks the text that runs on a signal: at any time from now on.
func (w *walker) trap(inv *invocation, s *scope) {
	words := inv.Words[1:]
	if len(words) > 0 && fixed(words[0]) && words[0].Value == "--" {
		words = words[1:]
	} else if len(words) > 0 && fixed(words[0]) && (words[0].Value == "-l" || words[0].Value == "-p") {
		w.emit(inv, s)
		return
	}
	for _, v := range words {
		if !fixed(v) {
			w.stuck(inv, "the text for trap, "+v.Raw+", is not known", s)
			return
		}
	}
	w.emit(inv, s)
	if len(words) < 2 || words[0].Value == "-" || words[0].Value == "" || decimal(words[0].Value) {
		return
	}
	inner := *s
	inner.adrift()
	inner.bound = nil
	cds := w.cds
	w.evaluated(words[0].Value, words[0], inv, &inner, &inner)
	if w.cds != cds {
		s.adrift()
	}
}

// leave records exit and return.
func (w *walker) leave(inv *invocation, s *scope) {
	w.emit(inv, s)
	s.gone = true
}

// shift and set -- change the positional parameters.
func (w *walker) shift(inv *invocation, s *scope) {
	w.emit(inv, s)
	w.positional()
}

func (w *walker) positional() {
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		w.assigned(n, lineWord{})
		w.assigned(n, lineWord{})
	}
}

// set records set, of which only options are let pass that leave the
// language as it is.
func (w *walker) set(inv *invocation, s *scope) {
	words := inv.Words[1:]
	for i := 0; i < len(words); i++ {
		v := words[i]
		switch {
		case fixed(v) && (v.Value == "--" || v.Value == "-") || operand(v) && !strings.HasPrefix(v.Prefix, "+"):
			w.positional()
			w.emit(inv, s)
			return
		case !fixed(v) || len(v.Value) < 2 || strings.Trim(v.Value[1:], "abefhmnuvxCETPo") != "":
			unclear("it may change how bash reads its text")(w, inv, s)
			return
		case strings.HasSuffix(v.Value, "o") && i+1 < len(words):
			if i++; !harmlessSet(words[i]) {
				unclear("it may change how bash reads its text")(w, inv, s)
				return
			}
		}
	}
	w.emit(inv, s)
}

// harmlessSet reports whether set -o v leaves the language as it is.
func harmlessSet(v lineWord) bool {
	if !fixed(v) {
		return false
	}
	switch v.Value {
	case "allexport", "errexit", "errtrace", "functrace", "hashall", "monitor", "noclobber", "noexec", "noglob",
		"notify", "nounset", "pipefail", "verbose", "xtrace", "emacs", "vi", "ignoreeof":
		return true
	}
	return false
}

// shopt records shopt, of which only options are let pass that leave the
// language as it is.
func (w *walker) shopt(inv *invocation, s *scope) {
	for _, v := range inv.Words[1:] {
		ok := fixed(v)
		switch v.Value {
		case "-s", "-u", "-q", "-p", "-sq", "-uq",
			"nullglob", "failglob", "dotglob", "globstar", "nocaseglob", "globasciiranges", "globskipdots", "inherit_errexit",
			"checkwinsize", "cmdhist", "histappend", "histverify", "lithist", "extglob", "xpg_echo", "huponexit", "checkjobs",
			"nocasematch", "lastpipe", "direxpand", "progcomp", "gnu_errfmt", "mailwarn", "no_empty_cmd_completion", "promptvars":
		default:
			ok = false
		}
		if !ok {
			unclear("it may change how bash reads its text")(w, inv, s)
			return
		}
	}
	w.emit(inv, s)
}

// source records a file whose text this shell runs. That of a virtual
// environment of Python, below the working directory, sets PATH and a prompt;
// the file is a part of the work as a program there is.
func (w *walker) source(inv *invocation, s *scope) {
	if len(inv.Words) == 2 && inv.shell && activatesEnvironment(inv.Words[1]) {
		w.emit(inv, s)
		return
	}
	unclear("it runs the file's text in this shell")(w, inv, s)
}

// ActivatesEnvironment reports whether v names the activate script of a virtual
// environment below the working directory: .venv/bin/activate, also behind
// "$PWD"/.
func activatesEnvironment(v lineWord) bool {
	name := v.Value
	if !v.Static || v.Glob {
		name = strings.ReplaceAll(v.Raw, `"`, "")
		rest, ok := strings.CutPrefix(name, "$PWD/")
		if !ok {
			rest, ok = strings.CutPrefix(name, "${PWD}/")
		}
		if name = rest; !ok || !plainPath(name) {
			return false
		}
	}
	if strings.HasPrefix(name, "/") || !strings.HasSuffix(name, "/bin/activate") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return false
		}
	}
	return true
}

// plainPath reports whether s is a path without a sign of the shell.
func plainPath(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !tame(r) })
}

// ExtendsPath reports whether the value of PATH, as written, keeps
// what PATH was and puts folders of the work, of the home or of the system
// before or behind it.
func extendsPath(v lineWord) bool {
	kept, raw := false, strings.TrimPrefix(strings.ReplaceAll(v.Raw, `"`, ""), "PATH=")
	for part := range strings.SplitSeq(raw, ":") {
		if part == "$PATH" || part == "${PATH}" {
			kept = true
			continue
		}
		ok := false
		for _, lead := range []string{"$PWD/", "${PWD}/", "$(pwd)/", "./", "$HOME/", "${HOME}/", "~/", "/usr/", "/opt/"} {
			if rest, found := strings.CutPrefix(part, lead); found && plainPath(rest) && !strings.Contains("/"+rest+"/", "/../") {
				ok = true
			}
		}
		if !ok {
			return false
		}
	}
	return kept
}
