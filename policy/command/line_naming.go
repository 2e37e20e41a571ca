package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// declaration walks declare, export and their like.
func (w *walker) declaration(d *syntax.DeclClause, redirs []lineRedirect, s *scope) {
	scope, variant := scopeShell, d.Variant.Value
	if variant == "export" {
		scope = scopeExport
	}
	if variant != "export" && variant != "readonly" && variant != "local" {
		w.bashOnly(d)
	}
	inv := invocation{shell: true}
	inv.Words = []lineWord{{Value: variant, Prefix: variant, Static: true, single: true, Raw: w.raw(d.Variant), Span: w.span(d.Variant)}}
	inv.Span, inv.Redirects = w.span(d), redirs
	if len(s.around) > 0 {
		inv.Redirects = append(slices.Clip(s.around), redirs...)
	}
	twisted := false
	for _, a := range d.Args {
		if a.Naked && a.Name == nil {
			w.visit(a.Value, s)
			n := len(inv.Words)
			inv.Words = w.appendWords(inv.Words, a.Value, s)
			for _, v := range inv.Words[n:] {
				scope, twisted = w.declared(v, variant, scope, twisted, s)
			}
			continue
		}
		if a.Naked {
			inv.Words = append(inv.Words, w.mention(a, variant))
			if a.Index != nil {
				w.subscript(a.Index, s)
			}
			continue
		}
		as := w.assignTwisted(a, scope, twisted, s)
		v := lineWord{Value: as.Name + "=" + as.Value.Value, Static: as.Value.Static, single: true, Raw: w.raw(a), Span: as.Span}
		v.Prefix = v.Value
		inv.Words = append(inv.Words, v)
		inv.Assigns = append(inv.Assigns, as)
	}
	w.emit(&inv, s)
}

// assignTwisted is assign; where the declaration changes the value, as -u
// does, nothing is known of it.
func (w *walker) assignTwisted(a *syntax.Assign, scope lineScope, twisted bool, s *scope) lineAssign {
	as := w.assign(a, scope, s)
	if twisted {
		w.assigned(as.Name, lineWord{})
		w.assigned(as.Name, lineWord{})
		as.Value.Static, as.Value.Prefix = false, ""
	}
	return as
}

// mention notes a name without a value in a declaration.
func (w *walker) mention(a *syntax.Assign, variant string) lineWord {
	name := a.Name.Value
	if variant != "export" {
		w.sets(name, lineWord{}, w.span(a))
	}
	return lineWord{Value: w.raw(a), Prefix: w.raw(a), Static: true, single: true, Raw: w.raw(a), Span: w.span(a)}
}

// declared looks at a word of a declaration that is no plain assignment: an
// option, or a word whose value bash reads as one.
func (w *walker) declared(v lineWord, variant string, scope lineScope, twisted bool, s *scope) (lineScope, bool) {
	switch {
	case fixed(v) && len(v.Value) > 1 && (v.Value[0] == '-' || v.Value[0] == '+'):
		letters := v.Value[1:]
		if strings.ContainsAny(letters, "in") && variant != "export" || variant == "export" && strings.Contains(letters, "f") ||
			variant == "local" && strings.Contains(letters, "f") {
			w.job.unknown(v.Span, "with "+v.Raw+" values are evaluated, or functions given on")
		}
		if strings.Contains(letters, "x") {
			scope = scopeExport
		}
		return scope, twisted || strings.ContainsAny(letters, "luc")
	case fixed(v) && v.Value == "-":
	case fixed(v) || strings.Contains(v.Prefix, "=") && v.single:
		w.named(v, scope)
	default:
		w.job.unknown(v.Span, "the name of the variable, "+v.Raw+", is not known")
	}
	return scope, twisted
}

// named notes a word that bash reads as NAME or NAME=VALUE.
func (w *walker) named(v lineWord, scope lineScope) {
	name, value, set := strings.Cut(v.Prefix, "=")
	name = strings.TrimSuffix(name, "+")
	sub := v
	sub.Value, sub.Prefix, sub.Static = name, name, true
	if !w.names(sub) {
		w.job.unknown(v.Span, "the subscript in "+v.Raw+" is evaluated, which can run commands")
	}
	to := lineWord{}
	if set {
		to = lineWord{Value: value, Prefix: value, Static: v.Static, single: true, Raw: v.Raw, Span: v.Span}
		w.out.Assigns = append(w.out.Assigns, lineAssign{Name: name, Value: to, Scope: scope, Span: v.Span})
	}
	// Such values are not followed.
	w.assigned(name, lineWord{})
	w.sets(name, to, v.Span)
}

// declareWords handles a declaration whose name is quoted or behind command
// or builtin, so that bash reads its arguments as ordinary words.
func (w *walker) declareWords(inv *invocation, s *scope) {
	scope, twisted := scopeShell, false
	if inv.Words[0].Value == "export" {
		scope = scopeExport
	}
	for _, v := range inv.Words[1:] {
		if inv.Words[0].Value == "export" && fixed(v) && identifier(v.Value) {
			continue
		}
		scope, twisted = w.declared(v, inv.Words[0].Value, scope, twisted, s)
	}
	w.emit(inv, s)
}

// naming handles builtins whose arguments name variables.
func (w *walker) naming(inv *invocation, s *scope) {
	w.emit(inv, s)
	words := inv.Words[1:]
	switch inv.Words[0].Value {
	case "printf":
		if len(words) == 0 || operand(words[0]) || fixed(words[0]) && !strings.HasPrefix(words[0].Value, "-v") {
			return
		}
		if fixed(words[0]) && words[0].Value != "-v" {
			words = []lineWord{{Value: words[0].Value[2:], Prefix: words[0].Value[2:], Static: true, single: true, Raw: words[0].Raw, Span: words[0].Span}}
		} else if fixed(words[0]) {
			words = words[1:min(2, len(words))]
		}
	case "mapfile", "readarray":
		for _, v := range words {
			if !fixed(v) || strings.HasPrefix(v.Value, "-C") || strings.HasPrefix(v.Value, "-c") {
				w.job.unknown(v.Span, "with -C it runs text for every line")
			}
		}
	}
	numbers := inv.Words[0].Value == "wait" || inv.Words[0].Value == "unset"
	for _, v := range words {
		w.nameWord(v, numbers, s)
	}
	if inv.Words[0].Value == "getopts" {
		w.sets("OPTARG", lineWord{}, inv.Span)
	}
	w.assigned("REPLY", lineWord{})
}

// nameWord looks at one argument that may be the name of a variable.
func (w *walker) nameWord(v lineWord, numbers bool, s *scope) {
	switch {
	case numbers && (v.number || v.Raw == "$!" || v.Raw == `"$!"`):
	case !fixed(v) && !(v.Static && w.names(v)):
		w.job.unknown(v.Span, "the name of the variable, "+v.Raw+", is not known")
	case strings.Contains(v.Value, "[") && !w.names(v) && strings.ContainsAny(v.Value, "$`abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"):
		if name, _, _ := strings.Cut(v.Value, "["); identifier(strings.TrimLeft(name, "-apnrtuidsefN0123456789 ")) || identifier(name) {
			w.job.unknown(v.Span, "the subscript in "+v.Raw+" is evaluated, which can run commands")
		}
	case identifier(v.Value):
		w.sets(v.Value, lineWord{}, v.Span)
	default:
		// -aNAME and the like.
		if name := strings.TrimLeft(v.Value, "-apnrsed"); len(name) < len(v.Value) && identifier(name) {
			w.sets(name, lineWord{}, v.Span)
		}
	}
}

// let handles let behind a wrapper or in quotes, whose words are evaluated.
func (w *walker) let(inv *invocation, s *scope) {
	w.emit(inv, s)
	for _, v := range inv.Words[1:] {
		w.job.unknown(v.Span, "what "+v.Raw+" says is evaluated as arithmetic, which can run commands")
	}
}

// bracket handles test and [. Only -v and -R evaluate anything: the subscript
// of the word behind them.
func (w *walker) bracket(inv *invocation, s *scope) {
	w.emit(inv, s)
	words := inv.Words[1:]
	for i, v := range words {
		if !v.single && !fixed(v) || v.Glob && !v.Static {
			w.job.unknown(v.Span, v.Raw+" may become several words, -v with a subscript among them")
			return
		}
		may := !fixed(v) && !v.number && strings.HasPrefix("-v", v.Prefix) || v.Value == "-v" || v.Value == "-R"
		if may && i+1 < len(words) {
			if next := words[i+1]; !w.names(next) && (!next.Static && !next.number || strings.Contains(next.Value, "[") && next.Value != "[") {
				w.job.unknown(next.Span, "the subscript in "+next.Raw+" is evaluated, which can run commands")
			}
		}
	}
}
