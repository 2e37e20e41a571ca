package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy"
)

// A remover is one entry of the table of the removal check: a program that
// takes away what its operands name.
type remover struct {
	programs  string
	recursive string // options with which it takes folders along; "always" when it does anyway
	last      bool   // the last operand is not removed, as of mv
	what      string // what it does, in a sentence: "removes"
}

func removers() []remover {
	return []remover{
		{programs: "rm grm", recursive: "-r -R --recursive", what: "removes"},
		{programs: "rmdir unlink srm wipe trash trash-put", what: "removes"},
		{programs: "shred", what: "overwrites"},
		{programs: "truncate", what: "empties"},
		{programs: "mv", last: true, recursive: "always", what: "moves away"},
		{programs: "rimraf del-cli", recursive: "always", what: "removes"},
	}
}

// removersByName returns the table by program.
func removersByName() map[string]*remover {
	m := map[string]*remover{}
	for _, r := range removers() {
		for name := range strings.FieldsSeq(r.programs) {
			m[name] = &r
		}
	}
	return m
}

// checkRemoval looks at what would be removed: critical folders are denied,
// and targets that the text does not tell are asked about.
func checkRemoval(s *subject) {
	at := places{mapOfPlaces: s.tables.places, start: s.in.Dir, home: s.home}
	for i := range s.calls {
		k := &s.calls[i]
		s.passedOn(k, at)
		if r := s.tables.removers[k.program]; r != nil {
			s.removes(k, r, at)
		}
		switch k.program {
		case "find", "gfind", "fd", "fdfind":
			s.findRemoves(k, at)
		case "git":
			s.gitRemoves(k)
		case "rsync":
			if o, ok := k.given("--delete --delete-after --delete-before --delete-during --delete-excluded --remove-source-files"); ok {
				s.removal(k, "rsync-delete", policy.Medium, never, o.span, "rsync removes what is missing on the other side", "leave --delete out")
			}
		}
	}
}

// removes judges one call of a program that removes its operands.
func (s *subject) removes(k *call, r *remover, at places) {
	if o, ok := k.given("--no-preserve-root"); ok && hasWord("rm grm", k.program) {
		s.removal(k, "no-preserve-root", policy.Critical, deny, o.span, k.program+" is asked not to spare the root folder", "leave --no-preserve-root out, and name what is to go")
	}
	recursive := r.recursive == "always"
	if r.recursive != "" && !recursive {
		_, recursive = k.given(r.recursive)
	}
	targets := k.operands
	if _, into := k.given("-t --target-directory"); r.last && !into && len(targets) > 0 {
		targets = targets[:len(targets)-1]
	}
	for _, w := range targets {
		s.target(k, r, w, recursive, at)
	}
	if k.open {
		severity := policy.Medium
		if recursive && !r.last {
			severity = policy.High
		}
		s.removal(k, "unseen-target", severity, never, lineWord{Span: k.Span},
			fmt.Sprintf("%s %s what the text does not name", k.program, r.what), "list the files first, then name them")
	}
}

// target judges one thing that would be removed.
func (s *subject) target(k *call, r *remover, w lineWord, recursive bool, at places) {
	if !w.Static {
		s.unsureTarget(k, r, w, recursive, at)
		return
	}
	worst := harmless
	for _, dir := range s.dirs(k.lineCommand) {
		worst = max(worst, at.of(resolvePath(dir, w.Value), w.Glob))
	}
	if r.last && strings.HasSuffix(k.program, "mv") && worst < critical {
		if worst == system {
			s.removal(k, "system-path", policy.High, never, w, s.says(k, r, w, "which belongs to the machine"), "leave the machine's files alone")
		}
		return
	}
	if recursive && !r.last && worst < system && base(strings.TrimRight(w.Value, "/")) == ".git" {
		s.removal(k, "history", policy.High, never, w, s.says(k, r, w, "which holds the whole history of the work"), "leave .git alone")
	}
	switch worst {
	case critical:
		s.removal(k, "critical-path", policy.Critical, deny, w, s.says(k, r, w, "without which the machine, a home or the work is lost"), "name the files or folders below the workspace that are to go")
	case system:
		s.removal(k, "system-path", policy.High, never, w, s.says(k, r, w, "which belongs to the machine"), "leave the machine's files alone")
	case all:
		if recursive {
			s.removal(k, "everything-here", policy.High, never, w, s.says(k, r, w, "which is everything in the working directory"), "name the files or folders that are to go")
		}
	}
}

// unsureTarget judges a target of which the text tells the beginning at most.
// Were the rest empty, the beginning is what goes.
func (s *subject) unsureTarget(k *call, r *remover, w lineWord, recursive bool, at places) {
	start := w.Prefix
	if !r.last && r.recursive != "" && strings.HasPrefix(w.Raw, "$") {
		recursive = true // the shell cuts the value at its blanks, and a part of it may be an option
	}
	lost := start == "" && !strings.Contains(w.Raw, ":?")
	for _, dir := range s.dirs(k.lineCommand) {
		d := at.of(resolvePath(dir, start), false)
		lost = lost || start != "" && d == critical && strings.HasSuffix(start, "/") && !strings.HasPrefix(start, "/tmp/")
		if d == system {
			s.removal(k, "system-path", policy.High, never, w, s.says(k, r, w, "which belongs to the machine"), "leave the machine's files alone")
		}
	}
	switch {
	case isUnknownHome(w.Raw):
		s.removal(k, "critical-path", policy.Critical, deny, w, s.says(k, r, w, "which is a home"), "name the files that are to go")
	case strings.HasPrefix(w.Raw, "~"):
		s.removal(k, "critical-path", policy.High, never, w, s.says(k, r, w, "which lies in a home"), "name the files that are to go")
	case lost && (recursive && !r.last || strings.Contains(w.Raw, "/")):
		s.removal(k, "variable-target", policy.High, never, w, s.says(k, r, w, "which may be anything, for the variable may be empty"), "write the path out, or use ${x:?} so that an empty one stops the command")
	case recursive && !r.last:
		s.removal(k, "variable-target", policy.Medium, plain, w, s.says(k, r, w, "which the text tells in part only"), "write the path out")
	}
}

// isUnknownHome reports whether a word is the home, or everything in it,
// wherever that may be.
func isUnknownHome(raw string) bool {
	raw = strings.ReplaceAll(raw, `"`, "")
	for _, home := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok := strings.CutPrefix(raw, home); ok && (rest == "" || rest[0] == '/') && strings.Trim(rest, "/.*") == "" {
			return true
		}
	}
	return false
}

func (s *subject) says(k *call, r *remover, w lineWord, why string) string {
	return fmt.Sprintf("%s %s %s, %s", k.program, r.what, quote(w.Raw), why)
}

func (s *subject) removal(k *call, rule string, severity policy.Severity, m mark, w lineWord, message, hint string) {
	span := w.Span
	if span == (policy.Span{}) {
		span = k.Span
	}
	s.report(finding{check: "removal", rule: rule, severity: severity, mark: m, message: message, hint: hint, span: span})
}

// findRemoves judges find -delete and find -exec rm by where they start.
func (s *subject) findRemoves(k *call, at places) {
	deletes := slices.ContainsFunc(k.all, func(w lineWord) bool { return w.Static && w.Value == "-delete" })
	removes := deletes
	for i, w := range k.all {
		if w.Static && hasWord("-exec -execdir -ok -okdir -x -X --exec --exec-batch", w.Value) && i+1 < len(k.all) {
			removes = removes || k.all[i+1].Static && hasWord("rm shred unlink rmdir srm truncate", base(k.all[i+1].Value))
		}
	}
	if !removes {
		return
	}
	s.removal(k, "find-delete", policy.Medium, never, lineWord{}, k.program+" removes what it finds", "list the files first, then name them")
	for _, w := range starts(k) {
		for _, dir := range s.dirs(k.lineCommand) {
			v := w.Value
			if !w.Static {
				v = w.Prefix
			}
			d := at.of(resolvePath(dir, v), w.Glob)
			if !w.Static && v == "" {
				s.removal(k, "variable-target", policy.High, never, w, fmt.Sprintf("%s removes below %s, which may be anything", k.program, quote(w.Raw)), "write the path out")
			} else if d == critical && resolvePath(dir, v) != s.in.Dir {
				s.removal(k, "critical-path", policy.Critical, deny, w, fmt.Sprintf("%s removes below %s", k.program, quote(w.Raw)), "start below the workspace")
			} else if d == system {
				s.removal(k, "system-path", policy.High, never, w, fmt.Sprintf("%s removes below %s, which belongs to the machine", k.program, quote(w.Raw)), "start below the workspace")
			}
		}
	}
}

// starts returns where find begins to look: the operands before its first
// test.
func starts(k *call) []lineWord {
	for i, w := range k.all {
		if w.Static && (strings.HasPrefix(w.Value, "-") && !hasWord("-H -L -P", w.Value) || w.Value == "(" || w.Value == "!") {
			return k.all[:i]
		}
	}
	return k.all
}

// gitRemoves reports what git throws away for good.
func (s *subject) gitRemoves(k *call) {
	if len(k.operands) == 0 || k.operands[0].Value != "clean" {
		return
	}
	rest := grammar{}.parse(k.operands[1:], k.Open)
	if _, dry := rest.given("-n --dry-run"); dry {
		return
	}
	if _, force := rest.given("-f --force"); force {
		s.removal(k, "git-clean", policy.Medium, plain, lineWord{}, "git clean removes files that git does not know", "look with git clean -n first")
	}
}
