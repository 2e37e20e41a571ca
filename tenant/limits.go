// Package tenant bounds what a tenant, and a token below it, may use at one
// time (sandboxes, running commands, memory, processors, disk) and how many
// requests it may send in a second. It is pure except for a keeper of current
// usage, in memory: the usage ends with the program that accounts for it, or
// the program determines it again.
package tenant

import (
	"fmt"
	"math"

	"github.com/bulkhead-dev/sandbox"
)

// Unlimited means that there is no limit.
const Unlimited int64 = -1

// A Kind is one of the things that are limited.
type Kind int

// The kinds. All but the last two are held until they are given back.
const (
	Sandboxes Kind = iota
	Commands
	Memory   // bytes
	NanoCPUs // 1e9 is one processor
	Disk     // bytes
	RequestsPerSecond
	RequestBurst

	// NumKinds is how many kinds there are: a Kind is less.
	NumKinds
)

// numHeld is how many of the kinds, the first ones, are held.
const numHeld = RequestsPerSecond

// String returns the name that the kind has in JSON and in errors.
func (k Kind) String() string {
	switch k {
	case Sandboxes:
		return "sandboxes"
	case Commands:
		return "commands"
	case Memory:
		return "memory"
	case NanoCPUs:
		return "nanoCpus"
	case Disk:
		return "disk"
	case RequestsPerSecond:
		return "requestsPerSecond"
	case RequestBurst:
		return "requestBurst"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Limits are the most of everything. 0 is nothing of it and [Unlimited] no
// bound, so the zero value allows nothing. A RequestBurst of 0 is as many as
// RequestsPerSecond; it counts only where that is a number.
type Limits struct {
	Sandboxes         int64 `json:"sandboxes"`
	Commands          int64 `json:"commands"` // that run at one time
	Memory            int64 `json:"memory"`   // bytes
	NanoCPUs          int64 `json:"nanoCpus"` // 1e9 is one processor
	Disk              int64 `json:"disk"`     // bytes
	RequestsPerSecond int64 `json:"requestsPerSecond"`
	RequestBurst      int64 `json:"requestBurst"` // requests at once after a rest
}

// NoLimits allow everything.
func NoLimits() Limits {
	var v [NumKinds]int64
	for k := range v {
		v[k] = Unlimited
	}
	return fromValues(v)
}

func (l Limits) values() [NumKinds]int64 {
	return [NumKinds]int64{
		Sandboxes: l.Sandboxes, Commands: l.Commands, Memory: l.Memory, NanoCPUs: l.NanoCPUs, Disk: l.Disk,
		RequestsPerSecond: l.RequestsPerSecond, RequestBurst: l.RequestBurst,
	}
}

func fromValues(v [NumKinds]int64) Limits {
	return Limits{
		Sandboxes: v[Sandboxes], Commands: v[Commands], Memory: v[Memory], NanoCPUs: v[NanoCPUs], Disk: v[Disk],
		RequestsPerSecond: v[RequestsPerSecond], RequestBurst: v[RequestBurst],
	}
}

// Of returns the limit of kind k.
func (l Limits) Of(k Kind) int64 { return l.values()[k] }

// With returns the limits with n as that of kind k. A rate brings a burst with
// it where there was no limit of that.
func (l Limits) With(k Kind, n int64) Limits {
	v := l.values()
	v[k] = n
	if k == RequestsPerSecond && v[RequestBurst] == Unlimited {
		v[RequestBurst] = n
	}
	return fromValues(v)
}

// normal returns the limits with the burst that is meant.
func (l Limits) normal() Limits {
	if l.RequestsPerSecond <= 0 || l.RequestBurst == 0 {
		l.RequestBurst = l.RequestsPerSecond
	}
	return l
}

// Within reports whether l allows nothing that most does not; when it does, k
// is the first kind of which it allows more.
func (l Limits) Within(most Limits) (k Kind, ok bool) {
	v, bound := l.normal().values(), most.normal().values()
	for k := range NumKinds {
		if bound[k] >= 0 && (v[k] < 0 || v[k] > bound[k]) {
			return k, false
		}
	}
	return 0, true
}

// Check refuses what cannot be limits: negative numbers that are not
// [Unlimited], and an unlimited burst of a limited rate.
func (l Limits) Check() error {
	for k, n := range l.values() {
		if n < Unlimited {
			return invalid(Kind(k), "%d is no limit", n)
		}
	}
	if l.RequestsPerSecond > 0 && l.RequestBurst == Unlimited {
		return invalid(RequestBurst, "an unlimited burst leaves nothing of the limit of %s", RequestsPerSecond)
	}
	return nil
}

// A Want is what a caller is about to use. The requests are drawn; everything
// else is held until it is given back.
type Want struct {
	Sandboxes int64
	Commands  int64
	Memory    int64 // bytes
	NanoCPUs  int64
	Disk      int64 // bytes
	Requests  int64
}

func (w Want) held() [numHeld]int64 {
	return [numHeld]int64{Sandboxes: w.Sandboxes, Commands: w.Commands, Memory: w.Memory, NanoCPUs: w.NanoCPUs, Disk: w.Disk}
}

func wantOf(v [numHeld]int64) Want {
	return Want{Sandboxes: v[Sandboxes], Commands: v[Commands], Memory: v[Memory], NanoCPUs: v[NanoCPUs], Disk: v[Disk]}
}

// check refuses negative numbers, which would credit the caller.
func (w Want) check() error {
	for k, n := range w.held() {
		if n < 0 {
			return invalid(Kind(k), "%d cannot be wanted", n)
		}
	}
	if w.Requests < 0 {
		return invalid(RequestsPerSecond, "%d cannot be wanted", w.Requests)
	}
	return nil
}

func invalid(k Kind, format string, args ...any) error {
	e := sandbox.Errorf(sandbox.CodeValidation, op, format, args...)
	e.Field = "quota." + k.String()
	return e
}

// room is how much more may be held. It is negative when more is held than the
// limit, which was lowered in the meantime.
func room(limit, held int64) int64 {
	if limit < 0 {
		limit = math.MaxInt64
	}
	return limit - held
}
