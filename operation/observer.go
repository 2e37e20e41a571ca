package operation

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// An Observer is told of everything that is decided and done, for metrics. It
// is safe for concurrent use, does not block, and cannot fail.
type Observer interface {
	// Built tells that a profile was built, or was not to be, and how long
	// that took.
	Built(d time.Duration)

	// Validated tells that a guard has judged, and how long that took.
	Validated(d time.Duration)

	// Ended tells how an operation has ended, one that was refused too.
	Ended(e Ended)
}

// An Ended is an operation that has ended. Its words may be those of whoever
// called, where it was refused before anybody looked at them.
type Ended struct {
	Tenant  string
	Tool    string       // whose call it was
	Domain  grant.Domain // empty for a kind that there is not
	Safety  grant.SafetyClass
	Effects []grant.SideEffect

	// Denied says that the operation was refused before anything was done.
	Denied    bool
	Code      sandbox.Code // empty where it was carried out
	Retryable bool         // of the error

	Used     grant.Budget
	Duration time.Duration // of all of it, the decision too
}
