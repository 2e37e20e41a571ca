package command

import (
	"slices"
	"strings"
)

// xargsGrammar is how xargs of GNU reads its words.
var xargsGrammar = lineGrammar{flags: "0rtpxoh", args: "InPLsEda", attached: "iel", query: "help version",
	long: "null no-run-if-empty verbose interactive exit open-tty eof? replace? max-lines? max-args= max-procs= max-chars= delimiter= arg-file= show-limits process-slot-var= help version"}

// xargs handles xargs, whose command gets further arguments or has them put
// in place of a mark.
func (w *walker) xargs(inv *invocation, s *scope) {
	p := xargsGrammar.parse(inv.Words)
	if p.why != "" {
		w.stuck(inv, p.why, s)
		return
	}
	if p.any(xargsGrammar.query) {
		w.emit(inv, s)
		return
	}
	if o, ok := p.has("a", "arg-file"); ok {
		w.out.Redirects = append(w.out.Redirects, lineRedirect{Op: "<", Read: true, Target: o.arg, Dir: s.dir, Span: o.arg.Span})
	}
	if o, ok := p.has("process-slot-var"); ok {
		w.meaning(o.arg.Value, lineWord{}, inv.Words[0].Span)
	}
	rest := p.rest
	if len(rest) == 0 {
		v := lineWord{Value: "echo", Prefix: "echo", Static: true, single: true, Raw: inv.Words[0].Raw, Span: inv.Words[0].Span}
		rest = []lineWord{v}
	}
	mark, open := "", true
	if o, ok := p.has("I", "i", "replace"); ok {
		if mark, open = o.arg.Value, false; mark == "" {
			mark = "{}"
		}
		if o.arg.Raw != "" && !fixed(o.arg) {
			w.stuck(inv, "the mark of xargs is not known", s)
			return
		}
	}
	inv.stdin, inv.body = nil, nil
	w.filled("xargs", rest, mark, open, inv, s)
}

// filled runs a command in which mark is replaced by text that is not known,
// and to which, when open, further words are appended.
func (w *walker) filled(name string, words []lineWord, mark string, open bool, inv *invocation, s *scope) {
	c := *inv
	c.Via = append(slices.Clip(inv.Via), nestedArguments)
	c.Assigns = slices.Clip(inv.Assigns)
	if mark != "" {
		words = slices.Clone(words)
	}
	for i, v := range words {
		if mark == "" {
			break
		}
		if at := strings.Index(v.Value, mark); at >= 0 {
			words[i].Static, words[i].Prefix, words[i].Value = false, v.Value[:at], v.Value[:at]
			words[i].single, words[i].Glob = true, false
			words[i].Pieces = nil
			if rest := v.Value[at+len(mark):]; rest != "" {
				words[i].Pieces = []linePiece{{Text: rest, Open: !v.Static || strings.Contains(rest, mark)}}
			}
		}
	}
	c.Open = open
	w.take(name, words, &c)
	if open {
		w.opened(&c, s)
		return
	}
	w.run(&c, s)
}

// opened runs a command to whose words others are appended that are not
// known. Where those could decide what runs, a word that stands for them says so.
func (w *walker) opened(c *invocation, s *scope) {
	name, ok := w.program(c)
	if !ok {
		w.emit(c, s)
		return
	}
	if !isWrapper(name) {
		w.emit(c, s)
		return
	}
	last := c.Words[len(c.Words)-1]
	c.Words = append(slices.Clip(c.Words), lineWord{Raw: last.Raw, Span: last.Span})
	n := len(w.out.Commands)
	w.run(c, s)
	for i := n; i < len(w.out.Commands); i++ {
		// Where the word is still the last one, it was an argument of a command.
		cmd := &w.out.Commands[i]
		if k := len(cmd.Words) - 1; k > 0 && !cmd.Words[k].Static && cmd.Words[k].Raw == last.Raw && cmd.Words[k].Prefix == "" {
			cmd.Words, cmd.Open = cmd.Words[:k:k], true
		}
	}
}

// parallel handles GNU parallel, which makes a text for a shell of its
// arguments and what it reads.
func (w *walker) parallel(inv *invocation, s *scope) {
	g := lineGrammar{flags: "0kqtuv", args: "jnNPL", permute: false,
		long: "jobs= keep-order null halt= dry-run bar progress no-notice will-cite group ungroup line-buffer verbose max-args= max-procs= joblog= retries= timeout= tag"}
	p := g.parse(inv.Words)
	words := p.rest
	for i, v := range words {
		if strings.HasPrefix(v.Value, ":::") {
			words = words[:i]
			break
		}
	}
	text := make([]string, 0, len(words))
	for _, v := range words {
		if !fixed(v) || strings.Contains(v.Value, "{") {
			p.why = "the text for the shell, " + v.Raw + ", is not known"
		}
		text = append(text, v.Value)
	}
	if p.why != "" || len(words) == 0 || !everyShell(strings.Join(text, " ")) {
		if p.why == "" {
			p.why = "parallel runs what it reads"
		}
		w.stuck(inv, p.why, s)
		return
	}
	n := len(w.out.Commands)
	w.shText(strings.Join(text, " "), inv, words[0].Span, true, s, nil, "sh")
	for i := n; i < len(w.out.Commands); i++ {
		c := &w.out.Commands[i]
		c.Open = true
		if name, ok := w.program(&invocation{lineCommand: *c}); !ok || isWrapper(name) {
			w.job.unknown(c.Span, "what parallel appends decides what runs")
		}
	}
}

// isWrapper reports whether a program runs others.
func isWrapper(name string) bool {
	_, ok := wrapperFor(name)
	_, sub := subcommands[name]
	return ok || sub || opaque(name) || specialFor(name) != nil
}
