package pool

import (
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A Reason says in one word why a sandbox was made although a pool is kept.
// Versions add words and never change one.
type Reason string

// The reasons.
const (
	Empty        Reason = "empty"         // there is no slot of this kind: all have been claimed, or none was made yet
	BeingMade    Reason = "starting"      // slots of this kind are being made
	Taken        Reason = "taken"         // another call has claimed it first
	Unresponsive Reason = "unresponsive"  // the slots there are do not run or do not answer
	Differs      Reason = "differs"       // slots are made from other settings: see Fields
	ImageChanged Reason = "image-changed" // slots are made from what the image was before
	DamagedClaim Reason = "damaged-claim" // a claim on a slot cannot be read, so the slot is left alone
	CannotMake   Reason = "failing"       // making slots has failed, and is tried again later
	Draining     Reason = "draining"      // the program ends
	Returning    Reason = "returning"     // the sandbox was there before, and what is its own waits for it
	Permitted    Reason = "permitted"     // something was permitted to this command alone
	NoSlots      Reason = "provider"      // the provider keeps no slots
)

// Reasons lists them all.
func Reasons() []Reason {
	return []Reason{Empty, BeingMade, Taken, Unresponsive, Differs, ImageChanged, DamagedClaim, CannotMake, Draining, Returning, Permitted, NoSlots}
}

// Wanted reports whether one slot more would have been claimed.
func (r Reason) Wanted() bool {
	switch r {
	case Empty, BeingMade, Taken, Unresponsive, DamagedClaim, CannotMake:
		return true
	}
	return false
}

// A Miss says why a sandbox was not taken from the pool, and how long making it
// took instead.
type Miss struct {
	Reason Reason   `json:"reason" enum:"empty,starting,taken,unresponsive,differs,image-changed,damaged-claim,failing,draining,returning,permitted,provider" doc:"Why no sandbox that was ready was taken, in a word that stays"`
	Fields []string `json:"fields,omitempty" doc:"The settings in which the sandboxes that are ready differ, without values"`
	Detail string   `json:"detail" doc:"The reason for people"`
	MadeMS int64    `json:"madeMs" doc:"How long making the sandbox took, in milliseconds"`
}

// NewMiss returns the Miss for a reason. detail may be empty, which is what the
// reason says by itself.
func NewMiss(r Reason, detail string, fields ...string) Miss {
	if detail == "" {
		detail = r.text(fields)
	}
	return Miss{Reason: r, Fields: fields, Detail: detail}
}

func (r Reason) text(fields []string) string {
	switch r {
	case Empty:
		return "none is ready"
	case BeingMade:
		return "none is ready: one is being made"
	case Taken:
		return "another call has claimed it first"
	case Unresponsive:
		return "none that is there answers"
	case Differs:
		return "those there are differ in " + strings.Join(fields, ", ")
	case ImageChanged:
		return "those there are were made from the image as it was before: they differ in " + strings.Join(fields, ", ")
	case DamagedClaim:
		return "a claim on one is damaged, and it is left alone"
	case CannotMake:
		return "none is ready: making one has failed"
	case Draining:
		return "this program is ending"
	case Returning:
		return "the sandbox was there before, and what is its own waits for it"
	case Permitted:
		return "something was permitted to this command alone"
	case NoSlots:
		return "the provider keeps none"
	}
	return string(r)
}

// Took returns m with how long making the sandbox took.
func (m Miss) Took(d time.Duration) Miss {
	m.MadeMS = max(0, d.Milliseconds())
	return m
}

// String returns the miss for people.
func (m Miss) String() string { return m.Detail }

// imageField is how the difference between two images is named.
const imageField = "docker.image"

// Differ says why a slot made from pooled cannot become what wanted describes,
// as [CanBindLate] does. ok is false where it can.
func Differ(pooled, wanted sandbox.Spec) (m Miss, ok bool) {
	can, why := CanBindLate(pooled, wanted)
	if can {
		return Miss{}, false
	}
	seen := map[string]bool{}
	var fields []string
	for _, f := range why {
		if !seen[f] {
			seen[f] = true
			fields = append(fields, f)
		}
	}
	if len(fields) == 1 && fields[0] == imageField && pooled.Image == wanted.Image {
		return NewMiss(ImageChanged, "", fields...), true
	}
	return NewMiss(Differs, "", fields...), true
}
