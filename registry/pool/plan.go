package pool

import (
	"cmp"
	"slices"
	"time"
)

// State is what a slot is doing.
type State string

// The states of slots.
const (
	Starting State = "starting" // being made
	Ready    State = "ready"    // started, guest connected, no claim
	Claimed  State = "claimed"  // claimed by a session; its code has run in it
	Broken   State = "broken"   // did not start, or has stopped or lost its guest
	Retiring State = "retiring" // being removed
)

// A Slot is one sandbox of the pool, as it was found.
type Slot struct {
	Name  string
	Shape string // see the function Shape
	State State
	Since time.Time // when it was created
}

// A Claim says, in the registry, that a slot belongs to a session.
type Claim struct {
	Slot string
	By   string // the sandbox name of the scope that claimed it
}

// A Want is how many slots of a shape are to be ready.
type Want struct {
	Shape string
	Size  int
}

// A Rate bounds how fast slots are started: Starts in every span of Per. The
// zero Rate starts nothing.
type Rate struct {
	Starts int
	Per    time.Duration
}

// A View is all that a plan is made from.
type View struct {
	Now        time.Time
	Wants      []Want
	Slots      []Slot
	Claims     []Claim
	Hold       map[string]bool // shapes of which no sandbox is started until the back-off after a failed start has passed
	Rate       Rate
	Started    []time.Time   // when slots were started lately, at least over Rate.Per, failed ones too
	StartLimit time.Duration // a slot that has not become ready for so long is broken; 0 is never
}

// Kind says what is to be done.
type Kind string

// The kinds of actions.
const (
	Start  Kind = "start"  // make one slot of Shape
	Remove Kind = "remove" // remove Slot, unless it was claimed meanwhile
	Adopt  Kind = "adopt"  // count Slot as claimed: its claim is there, whatever it looked like
)

// An Action is one thing to do. Why is for the log.
type Action struct {
	Kind  Kind
	Slot  string // of Remove and Adopt
	Shape string
	Why   string
}

// Plan returns what is to be done, in a fixed order: adoptions, removals,
// starts.
//
// Plan never removes a slot that has a claim, whatever the state of the slot,
// also when two claims name it. It removes a slot that was claimed and has no
// claim any more, and never uses it again, because code of a session has run in
// it. Starts are such that the slots without claim, including those that are
// still to be removed, never become more than the wanted sizes.
func Plan(v View) []Action {
	claimed := map[string]bool{}
	for _, c := range v.Claims {
		claimed[c.Slot] = true
	}
	var adopt, remove, start []Action
	free := map[string][]Slot{} // by shape: ready or starting, without claim
	held := map[string]int{}    // by shape: without claim, and still there
	for _, s := range v.Slots {
		if claimed[s.Name] {
			if s.State != Claimed {
				adopt = append(adopt, Action{Adopt, s.Name, s.Shape, "its claim is in the registry"})
			}
			continue
		}
		held[s.Shape]++
		if why := v.unfit(s); why != "" {
			remove = append(remove, Action{Remove, s.Name, s.Shape, why})
			continue
		}
		free[s.Shape] = append(free[s.Shape], s)
	}
	size := map[string]int{}
	for _, w := range v.Wants {
		size[w.Shape] = max(size[w.Shape], w.Size)
	}
	for shape, list := range free {
		slices.SortFunc(list, older)
		for _, s := range list[min(len(list), size[shape]):] {
			remove = append(remove, Action{Remove, s.Name, shape, "more than are wanted of its shape"})
		}
	}
	left := v.allowance()
	for _, w := range v.Wants {
		for ; !v.Hold[w.Shape] && left > 0 && held[w.Shape] < size[w.Shape]; left-- {
			held[w.Shape]++
			start = append(start, Action{Start, "", w.Shape, "fewer than are wanted"})
		}
	}
	byName := func(a, b Action) int { return cmp.Compare(a.Slot, b.Slot) }
	slices.SortFunc(adopt, byName)
	slices.SortFunc(remove, byName)
	return slices.Concat(adopt, remove, start)
}

// unfit returns why the slot s, which has no claim, can no longer be given to a
// session.
func (v View) unfit(s Slot) string {
	switch {
	case s.State == Claimed:
		return "its claim has ended, and a session's code has run in it"
	case s.State == Retiring:
		return "its removal was not finished"
	case s.State == Starting && v.StartLimit > 0 && v.Now.Sub(s.Since) > v.StartLimit:
		return "it has not become ready in time"
	case s.State != Ready && s.State != Starting: // Broken, and states that are unknown
		return "it is broken"
	}
	return ""
}

// allowance returns how many slots may be started now.
func (v View) allowance() int {
	if v.Rate.Per <= 0 {
		return 0
	}
	left := v.Rate.Starts
	for _, at := range v.Started {
		if v.Now.Sub(at) < v.Rate.Per { // one from the future counts too: clocks are set back
			left--
		}
	}
	return max(left, 0)
}

// older orders slots by worth: ready before starting, and the older ones
// first, so that claims and removals agree on which goes next.
func older(a, b Slot) int {
	rank := func(s Slot) int {
		if s.State == Ready {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
}
