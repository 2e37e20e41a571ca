package world

import (
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Still reports whether the host answers everything that w has been told of
// it as it did then, so that a plan that was made from w holds.
func Still(w plan.World, h plan.Host) bool {
	for path, was := range w.Kinds {
		if now, err := h.Kind(path); err != nil || now != was {
			return false
		}
	}
	for path, was := range w.Links {
		if now, err := h.Link(path); err != nil || now != was {
			return false
		}
	}
	for path, was := range w.Names {
		if now, err := h.Names(path); err != nil || !slices.Equal(now, was) {
			return false
		}
	}
	return true
}

// Unmoved refuses a view whose source leads elsewhere than when it was judged:
// a link was put in its way. One that has gone is the planner's business.
func Unmoved(views []plan.View) error {
	for _, v := range views {
		if direct(v.Source) {
			continue
		}
		real, err := hostpath.Canonical(v.Source)
		if err != nil {
			return err
		}
		if real != v.Source {
			return &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "plan", Resource: v.Source, Hint: "name the folder itself",
				Message: "it leads to " + real + " now: a link was put in its way after it was resolved",
			}
		}
	}
	return nil
}
