package plan

import (
	"fmt"
	"maps"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A Host answers questions about the file system of the machine. It does not
// follow a link in the last component of a path. It reports a stub of this
// program ([Plan.Placeholders]) as [Missing], so that the plan of a sandbox does not
// change while the stub exists.
type Host interface {
	Kind(path string) (Kind, error)
	Names(dir string) ([]string, error)
	Link(path string) (Target, error)
}

// Draw asks h for the facts that [Make] needs, and for nothing else. It returns
// w with these facts, and the plan that Make computes from them. It does not
// ask for Kinds, Names and Links that are already in w. It returns the errors
// of h and of Make.
func Draw(w World, h Host) (World, Plan, error) {
	w.Kinds, w.Names, w.Links = copied(w.Kinds), copied(w.Names), copied(w.Links)
	b, err := build(w, recorder{h, known{&w}})
	if err != nil {
		return w, Plan{}, err
	}
	return w, b.plan, nil
}

// Still reports whether h still answers as it did when w was drawn, so that the
// plan of w is up to date. It costs less than a new plan. An error of h counts
// as a change.
func Still(w World, h Host) bool {
	for p, kind := range w.Kinds {
		if now, err := h.Kind(p); err != nil || now != kind {
			return false
		}
	}
	for p, target := range w.Links {
		if now, err := h.Link(p); err != nil || now != target {
			return false
		}
	}
	for p, names := range w.Names {
		now, err := h.Names(p)
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(names))) {
			return false
		}
	}
	return true
}

func copied[V any](m map[string]V) map[string]V {
	c := maps.Clone(m)
	if c == nil {
		c = map[string]V{}
	}
	return c
}

// known is a Host that answers from a World.
type known struct{ w *World }

func (k known) Kind(p string) (Kind, error) { return lookup(k.w.Kinds, p, "what there is at") }

func (k known) Names(p string) ([]string, error) { return lookup(k.w.Names, p, "the names in") }

func (k known) Link(p string) (Target, error) { return lookup(k.w.Links, p, "where the link leads at") }

func lookup[V any](m map[string]V, p, what string) (V, error) {
	v, ok := m[p]
	if !ok {
		return v, sandbox.Errorf(sandbox.CodeInternal, op, "the plan lacks %s %s", what, p)
	}
	return v, nil
}

// recorder is a Host that asks another one and records the answers.
type recorder struct {
	host Host
	known
}

func (r recorder) Kind(p string) (Kind, error) {
	return record(r.w.Kinds, p, r.host.Kind)
}

func (r recorder) Names(p string) ([]string, error) {
	return record(r.w.Names, p, r.host.Names)
}

func (r recorder) Link(p string) (Target, error) {
	return record(r.w.Links, p, r.host.Link)
}

func record[V any](m map[string]V, p string, ask func(string) (V, error)) (V, error) {
	if v, ok := m[p]; ok {
		return v, nil
	}
	v, err := ask(p)
	if err != nil {
		return v, fmt.Errorf("look at %s: %w", p, err)
	}
	m[p] = v
	return v, nil
}
