// Package budget counts what operations may use and have used: calls, bytes,
// files and times. The arithmetic of amounts and of chains of accounts is pure.
// The accounts themselves are in package ledger, and a [Meter] counts while an
// operation runs.
//
// An amount is reserved before it is used and settled afterwards: the unused
// part is returned. So nothing is granted twice, and a process that dies in
// between leaves its reservation charged as used.
package budget

import (
	"fmt"
	"math"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// An Amount is a number of everything that is counted. As a bound a number may
// be [Unlimited]; as something that was used or is wanted it is never negative.
type Amount = grant.Budget

// Unlimited means that there is no bound.
const Unlimited = grant.Unlimited

// A Kind is one of the things that are counted.
type Kind int

// The kinds. Bytes in come from outside to the tool, bytes out leave it; times
// are in milliseconds.
const (
	Calls Kind = iota
	BytesIn
	BytesOut
	CPUMs
	GPUMs
	Files
	WallMs

	// NumKinds is how many kinds there are: a Kind is less.
	NumKinds
)

// String returns the name that the kind has in settings, in JSON and in errors.
func (k Kind) String() string {
	switch k {
	case Calls:
		return "calls"
	case BytesIn:
		return "bytesIn"
	case BytesOut:
		return "bytesOut"
	case CPUMs:
		return "cpuMs"
	case GPUMs:
		return "gpuMs"
	case Files:
		return "files"
	case WallMs:
		return "wallMs"
	}
	return fmt.Sprintf("kind %d", int(k))
}

// Values returns the numbers of a, by kind.
func Values(a Amount) [NumKinds]int64 {
	return [NumKinds]int64{
		Calls: a.Calls, BytesIn: a.BytesIn, BytesOut: a.BytesOut,
		CPUMs: a.CPUMs, GPUMs: a.GPUMs, Files: a.Files, WallMs: a.WallMs,
	}
}

// FromValues is the inverse of [Values].
func FromValues(v [NumKinds]int64) Amount {
	return Amount{
		Calls: v[Calls], BytesIn: v[BytesIn], BytesOut: v[BytesOut],
		CPUMs: v[CPUMs], GPUMs: v[GPUMs], Files: v[Files], WallMs: v[WallMs],
	}
}

// Of returns the number that a has of kind k.
func Of(a Amount, k Kind) int64 { return Values(a)[k] }

// One is n of kind k and nothing else.
func One(k Kind, n int64) Amount {
	var v [NumKinds]int64
	v[k] = n
	return FromValues(v)
}

// NoBound is a bound that allows everything.
func NoBound() Amount {
	var v [NumKinds]int64
	for k := range v {
		v[k] = Unlimited
	}
	return FromValues(v)
}

// Add returns the sum of a and b. A sum that exceeds an int64 stays at the
// largest number, so that usage is never lost; Unlimited plus anything is
// Unlimited.
func Add(a, b Amount) Amount {
	return each(a, b, func(x, y int64) int64 {
		switch {
		case x < 0 || y < 0:
			return Unlimited
		case x > math.MaxInt64-y:
			return math.MaxInt64
		}
		return x + y
	})
}

// Sub returns what is left of a when b is taken away, never less than nothing.
// Unlimited without anything stays Unlimited; without the Unlimited nothing is
// left of a number.
func Sub(a, b Amount) Amount {
	return each(a, b, func(x, y int64) int64 {
		switch {
		case x < 0:
			return Unlimited
		case y < 0 || y >= x:
			return 0
		}
		return x - y
	})
}

// Min returns the stricter of two bounds, kind by kind.
func Min(a, b Amount) Amount {
	return each(a, b, func(x, y int64) int64 {
		switch {
		case x < 0:
			return y
		case y < 0:
			return x
		}
		return min(x, y)
	})
}

func each(a, b Amount, f func(x, y int64) int64) Amount {
	va, vb := Values(a), Values(b)
	for k := range va {
		va[k] = f(va[k], vb[k])
	}
	return FromValues(va)
}

// Within reports whether a is at most b in every kind; when not, k is the first
// kind in which it is more. Unlimited is within Unlimited only.
func Within(a, b Amount) (k Kind, ok bool) {
	va, vb := Values(a), Values(b)
	for k := range NumKinds {
		if vb[k] >= 0 && (va[k] < 0 || va[k] > vb[k]) {
			return k, false
		}
	}
	return 0, true
}

// CheckBound refuses what cannot be a bound: a negative number that is not
// [Unlimited].
func CheckBound(a Amount) error { return check(a, "is no bound", Unlimited) }

// CheckDraw refuses what cannot be used or wanted: a negative number.
func CheckDraw(a Amount) error { return check(a, "cannot be drawn", 0) }

func check(a Amount, what string, least int64) error {
	for k, n := range Values(a) {
		if n < least {
			return &sandbox.Error{
				Code: sandbox.CodeValidation, Op: "check budget", Field: field(Kind(k)),
				Message: fmt.Sprintf("%d %s", n, what),
			}
		}
	}
	return nil
}

// CheckMetered refuses a bound that cannot be enforced: one on a kind that is
// not among those that can be metered where the operation runs. A bound of zero
// on a kind, or no bound on it, needs no metering. The code is
// [sandbox.CodeUnsupported].
func CheckMetered(bound Amount, metered ...Kind) error {
	var can [NumKinds]bool
	for _, k := range metered {
		can[k] = true
	}
	for k, n := range Values(bound) {
		if n > 0 && !can[k] {
			return Unmetered(Kind(k))
		}
	}
	return nil
}

// Unmetered is the error about a kind that cannot be metered here.
func Unmetered(k Kind) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "meter budget", Field: field(k),
		Message: k.String() + " cannot be metered here, so a bound on it could not be held",
		Hint:    fmt.Sprintf("grant 0 of it, or %d where no bound is meant", Unlimited),
	}
}

func field(k Kind) string { return "budget." + k.String() }
