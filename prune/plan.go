// Package prune removes sandboxes that are no longer needed.
//
// A sweep has two halves. [Plan] decides, as a pure function of what is
// recorded and what is there. [Apply] carries a plan out, and since time has
// passed it looks again, under the exclusive lease, before it removes
// anything. A sandbox in which something runs is never removed.
//
// Why there are orphans at all: a process that is killed between making a
// container and writing its record leaves a container that no record names,
// and a state folder that is restored from a backup has lost its newest
// records. Both are found by the instance label. Why records are missing
// their containers: people run "docker rm", and engines lose their data.
package prune

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
)

// OrphanGrace is the minimum age of an unrecorded or unstarted sandbox that
// counts as a leftover: a younger one may still be in the making. Apply makes
// sure of that by the ensure lock; the grace keeps such sandboxes out of plans
// that are only shown.
const OrphanGrace = time.Minute

// A Reason says why a sandbox goes.
type Reason string

// The reasons.
const (
	Idle         Reason = "idle"          // not used for too long
	TooOld       Reason = "max-age"       // made too long ago
	Expired      Reason = "expired"       // its recorded expiry has passed
	Orphan       Reason = "orphan"        // ours by its label, and not recorded
	Missing      Reason = "missing"       // recorded, and gone: only the record is removed
	Remnant      Reason = "remnant"       // recorded, and its container is gone, but not all that belongs to it
	NeverStarted Reason = "never-started" // made, and its start did not happen
	Surplus      Reason = "surplus"       // a pool slot without claim that is not wanted any more; see package pool
)

// Rules say what is too long.
type Rules struct {
	Idle   time.Duration // since last use; 0 switches the rule off
	MaxAge time.Duration // since creation; 0 switches the rule off
	Grace  time.Duration // for orphans and what never started; 0 is OrphanGrace, negative is none
}

// Input is what a plan is made from. It concerns one provider: with several,
// a plan is made for each, so that one that is down spoils no other's.
//
// Records must have been read before Live was: a sandbox made in between is
// then seen as an orphan, which its age protects, and never as missing.
type Input struct {
	Instance string // our own instance id
	Provider string // records of other providers are left out; empty: none are

	// Known says that the provider answered. If not, nothing is planned,
	// since everything would look missing.
	Known   bool
	Live    []sandbox.Info
	Records []registry.Record

	Rules  Rules
	Leased func(name string) bool // nil: nothing is
	Now    time.Time
}

// A Removal is one sandbox that has to go.
type Removal struct {
	Name   string
	Kind   sandbox.Kind
	Reason Reason
	Detail string // for people: "not used for 25h0m0s"

	// Record is what was recorded when the plan was made, nil for nothing.
	// Apply removes only what is still recorded so.
	Record *registry.Record
}

// Plan returns what has to be removed, ordered by name. It leaves out sandboxes
// of other instances, those that a newer version has made, and live ones whose age is
// unknown.
func Plan(in Input) []Removal {
	if !in.Known || in.Instance == "" {
		return nil
	}
	switch {
	case in.Rules.Grace == 0:
		in.Rules.Grace = OrphanGrace
	case in.Rules.Grace < 0:
		in.Rules.Grace = 0
	}
	live := make(map[string]*sandbox.Info, len(in.Live))
	for i := range in.Live {
		live[in.Live[i].Name] = &in.Live[i]
	}
	var plan []Removal
	recorded := make(map[string]bool, len(in.Records))
	for i := range in.Records {
		r := &in.Records[i]
		recorded[r.Name] = true
		if in.Provider != "" && r.Provider != in.Provider {
			continue
		}
		if reason, detail := in.judge(r, live[r.Name]); reason != "" {
			plan = append(plan, Removal{Name: r.Name, Kind: r.Kind, Reason: reason, Detail: detail, Record: r})
		}
	}
	for _, info := range live {
		if recorded[info.Name] || info.Owner.Instance != in.Instance {
			continue
		}
		if reason, detail := in.judgeOrphan(info); reason != "" {
			plan = append(plan, Removal{Name: info.Name, Kind: info.Kind, Reason: reason, Detail: detail})
		}
	}
	plan = slices.DeleteFunc(plan, func(r Removal) bool { return in.Leased != nil && in.Leased(r.Name) })
	slices.SortFunc(plan, func(a, b Removal) int { return cmp.Compare(a.Name, b.Name) })
	return plan
}

// judge returns why a recorded sandbox has to go, or no reason. info is nil
// when the provider does not know it.
func (in *Input) judge(r *registry.Record, info *sandbox.Info) (Reason, string) {
	if info == nil {
		return Missing, "the container is gone"
	}
	if _, err := info.CheckFormat("prune"); err != nil {
		return "", "" // what a newer version has made, that version prunes
	}
	if info.Owner.Instance != in.Instance {
		return "", "" // another owner's sandbox under our name
	}
	if info.Status == sandbox.StatusMissing {
		return Remnant, "the container is gone, and its network is left"
	}
	created := r.CreatedAt
	if !info.CreatedAt.IsZero() {
		created = info.CreatedAt // labels are the truth; a record may be older than its container
	}
	used := r.LastUsedAt
	if used.Before(created) {
		used = created
	}
	if used.IsZero() {
		return "", ""
	}
	idle, age := in.Now.Sub(used), in.Now.Sub(created)
	switch {
	case info.Status == sandbox.StatusStopped && info.StartedAt.IsZero() && idle > in.Rules.Grace:
		return NeverStarted, fmt.Sprintf("made %s ago and never started", age.Truncate(time.Second))
	case !r.ExpiresAt.IsZero() && r.OnTimeout != "pause" && !in.Now.Before(r.ExpiresAt):
		return Expired, fmt.Sprintf("it was to be kept until %s", r.ExpiresAt.UTC().Format(time.RFC3339))
	case r.ExpiresAt.IsZero() && in.Rules.Idle > 0 && idle > in.Rules.Idle:
		return Idle, fmt.Sprintf("not used for %s", idle.Truncate(time.Second))
	case in.Rules.MaxAge > 0 && !created.IsZero() && age > in.Rules.MaxAge:
		return TooOld, fmt.Sprintf("made %s ago", age.Truncate(time.Second))
	}
	return "", ""
}

// judgeOrphan returns why an unrecorded sandbox of ours has to go.
func (in *Input) judgeOrphan(info *sandbox.Info) (Reason, string) {
	if _, err := info.CheckFormat("prune"); err != nil || info.CreatedAt.IsZero() {
		return "", ""
	}
	age := in.Now.Sub(info.CreatedAt)
	if age <= in.Rules.Grace {
		return "", ""
	}
	return Orphan, fmt.Sprintf("made %s ago and not recorded", age.Truncate(time.Second))
}
