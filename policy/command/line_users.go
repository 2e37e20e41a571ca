package command

import "strings"

// switchUser is how su and runuser read their words.
var switchUser = lineGrammar{flags: "lmpPThV", args: "cgGswu", dash: true, permute: true,
	long:  "login preserve-environment pty no-pty help version command= session-command= group= supp-group= shell= whitelist-environment= user=",
	query: "h V help version"}

// su handles su and runuser: text for the shell of another user, or a command.
func (w *walker) su(inv *invocation, s *scope) {
	p := switchUser.parse(inv.Words)
	text, ok := p.has("c", "command", "session-command")
	_, user := p.has("u", "user")
	if _, login := p.has("-", "l", "login"); login {
		inv.Dir = nowhere
	}
	switch {
	case p.why != "":
		w.stuck(inv, p.why, s)
	case p.any(switchUser.query):
		w.emit(inv, s)
	case user && !ok:
		w.runUser(inv, s)
	case !ok || len(p.rest) > 1 || !fixed(text.arg) || p.any("s shell"):
		w.stuck(inv, "what the other user's shell runs is not known", s)
	default:
		w.shText(text.arg.Value, inv, text.arg.Span, true, s, nil, "sh")
	}
}

// runUser takes runuser -u off, whose command follows at once.
func (w *walker) runUser(inv *invocation, s *scope) {
	g := switchUser
	g.permute = false
	p := g.parse(inv.Words)
	if p.why != "" || len(p.rest) == 0 {
		w.stuck(inv, "what the other user runs is not known", s)
		return
	}
	w.take("runuser", p.rest, inv)
	w.run(inv, s)
}

// script handles script -c, which has sh run a text.
func (w *walker) script(inv *invocation, s *scope) {
	g := lineGrammar{flags: "aefqhV", args: "BcEIOTmo", attached: "t", permute: true, query: "h V help version",
		long: "append command= echo= return flush force log-io= log-in= log-out= logging-format= log-timing= output-limit= quiet timing? help version"}
	p := g.parse(inv.Words)
	text, ok := p.has("c", "command")
	switch {
	case p.why != "":
		w.stuck(inv, p.why, s)
	case p.any(g.query):
		w.emit(inv, s)
	case !ok || !fixed(text.arg):
		w.stuck(inv, "script starts a shell", s)
	default:
		w.shText(text.arg.Value, inv, text.arg.Span, true, s, nil, "sh")
	}
}

// watch handles watch, which joins its arguments to a text for sh.
func (w *walker) watch(inv *invocation, s *scope) {
	g := lineGrammar{flags: "bcegprtvwxCh", args: "nq", attached: "d", query: "h v help version",
		long: "beep color no-color differences? errexit chgexit equexit= exec interval= precise no-rerun no-title no-wrap help version"}
	p := g.parse(inv.Words)
	switch {
	case p.why != "":
		w.stuck(inv, p.why, s)
	case p.any(g.query) || len(p.rest) == 0:
		w.emit(inv, s)
	case p.any("x exec"):
		w.take("watch", p.rest, inv)
		w.run(inv, s)
	default:
		w.joined(p.rest, inv, s)
	}
}

// joined walks the text that words make when joined by blanks, for sh.
func (w *walker) joined(words []lineWord, inv *invocation, s *scope) {
	text := make([]string, len(words))
	for i, v := range words {
		if !fixed(v) {
			w.stuck(inv, "the text for the shell, "+v.Raw+", is not known", s)
			return
		}
		text[i] = v.Value
	}
	w.shText(strings.Join(text, " "), inv, words[0].Span, true, s, nil, "sh")
}

// flock handles flock, which runs a command or has a shell run a text while
// it holds a lock.
func (w *walker) flock(inv *invocation, s *scope) {
	g := lineGrammar{flags: "sexnouFvhV", args: "wE", query: "h V help version",
		long: "shared exclusive nonblock nb unlock close no-fork verbose timeout= wait= conflict-exit-code= help version"}
	p := g.parse(inv.Words)
	rest, why := skip(p.rest, 1)
	switch {
	case p.why != "" || why != "":
		w.stuck(inv, p.why+why, s)
	case p.any(g.query) || len(rest) == 0:
		w.emit(inv, s)
	case rest[0].Value == "-c" || rest[0].Value == "--command":
		if len(rest) != 2 || !fixed(rest[0]) || !fixed(rest[1]) {
			w.stuck(inv, "the text for the shell is not known", s)
			return
		}
		w.shText(rest[1].Value, inv, rest[1].Span, true, s, nil, "sh")
	default:
		w.take("flock", rest, inv)
		w.run(inv, s)
	}
}
