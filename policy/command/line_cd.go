package command

import (
	"path"
	"slices"
	"strings"
)

// cd follows the shell to another directory.
func (w *walker) cd(inv *invocation, s *scope) {
	w.emit(inv, s)
	before := *s
	before.failed = nil
	words := inv.Words[1:]
	for len(words) > 0 && fixed(words[0]) && len(words[0].Value) > 1 && strings.Trim(words[0].Value, "LPe@") == "-" {
		words = words[1:]
	}
	if len(words) > 0 && fixed(words[0]) && words[0].Value == "--" {
		words = words[1:]
	}
	dir := ""
	switch {
	case len(words) == 0:
		if w.rely("HOME", false) {
			dir = w.home
		}
	case len(words) > 1:
	case fixed(words[0]) && words[0].Value == "-":
		if w.rely("OLDPWD", false) {
			dir = s.prev
		}
	default:
		dir = w.destination(words[0], s)
	}
	w.enter(dir, &before, s)
}

// destination returns the directory that cd goes to for v.
func (w *walker) destination(v lineWord, s *scope) string {
	if !fixed(v) || v.Value == "" {
		return ""
	}
	first, _, _ := strings.Cut(v.Value, "/")
	if first != "" && first != "." && first != ".." && !w.rely("CDPATH", false) {
		return ""
	}
	return lineBelow(s.dir, v)
}

// enter makes dir the working directory, unless that fails.
func (w *walker) enter(dir string, before, s *scope) {
	w.cds++
	s.prev, s.dir = s.dir, dir
	if dir != "" && path.IsAbs(dir) && before.unsure {
		s.unsure = false // but for this cd itself
	}
	s.failed = before
	if dir == before.dir && dir != "" {
		s.failed = nil
	}
}

// pushd follows the stack of directories in its plain forms.
func (w *walker) pushd(inv *invocation, s *scope) {
	w.emit(inv, s)
	if inv.Words[0].Value == "dirs" {
		return
	}
	before := *s
	before.failed = nil
	words := inv.Words[1:]
	switch {
	case inv.Words[0].Value == "popd" && len(words) == 0 && len(s.stack) > 0:
		dir := s.stack[len(s.stack)-1]
		s.stack = slices.Clip(s.stack[:len(s.stack)-1])
		w.enter(dir, &before, s)
	case inv.Words[0].Value == "pushd" && len(words) == 1 && operand(words[0]) && !strings.HasPrefix(words[0].Prefix, "+"):
		s.stack = append(slices.Clip(s.stack), s.dir)
		w.enter(w.destination(words[0], s), &before, s)
	default:
		s.stack = nil
		w.enter("", &before, s)
	}
}
