package tenant

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const op = "take from quota"

// heldRetry is when to try again where a command has to end first, at an
// unpredictable time.
const heldRetry = time.Second

// An Exceeded says which quota has stopped a caller. It is the cause of an
// error with the code [sandbox.CodeBudgetExceeded]; [errors.As] finds it.
type Exceeded struct {
	Account string
	Quota   string // the name of a [Kind], or of another bound
	Limit   int64
	Used    int64 // of what is held; 0 for requests
	Want    int64

	// RetryAfter is when the same may be possible, at the soonest: exact for
	// requests, a guess for commands. 0 means that waiting is of no use: it is
	// more than the whole quota, or something has to be given up first.
	RetryAfter time.Duration
}

// full reports whether there would be room after giving up resources that stay
// until they are removed explicitly.
func (e *Exceeded) full() bool { return e.RetryAfter <= 0 && e.Used > 0 && e.Want <= e.Limit }

// Error implements error.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("%s: the limit is %d, %d in use, %d wanted", e.Quota, e.Limit, e.Used, e.Want)
}

// Wrap returns e as an error of the code [sandbox.CodeBudgetExceeded], which is
// retryable where e says when.
func (e *Exceeded) Wrap(op string) error {
	out := &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: op, Field: "quota." + e.Quota, Resource: e.Account, Err: e,
		Message: "that is more than the whole quota", Hint: "ask for less, or have the quota raised",
	}
	switch {
	case e.full():
		out.Message, out.Hint = "the quota is used up", "remove sandboxes that are not needed any more, or have the quota raised"
	case e.RetryAfter > 0:
		out.Message, out.Retryable = "the quota is used up", true
		out.Hint = fmt.Sprintf("try again in %v", roundUp(e.RetryAfter))
	}
	return out
}

// RetryAfter returns when a caller who got err may try again. It reports false
// for errors that have no quota as a cause, and where trying again is of no
// use.
func RetryAfter(err error) (time.Duration, bool) {
	var e *Exceeded
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		return 0, false
	}
	return e.RetryAfter, true
}

// RetrySeconds returns the number of seconds after which a caller who got err
// by HTTP should try again: the time of [RetryAfter], and one second where
// something else becomes free by itself at an unpredictable time. 0 means that
// waiting is of no use.
func RetrySeconds(err error) int64 {
	if d, ok := RetryAfter(err); ok {
		return int64(math.Ceil(d.Seconds()))
	}
	e, ok := errors.AsType[*sandbox.Error](err)
	if ok && e.Retryable && (e.Code == sandbox.CodeUnavailable || e.Code == sandbox.CodeBudgetExceeded) {
		return 1
	}
	return 0
}

// roundUp makes a time short to read without making it too early.
func roundUp(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d > time.Second {
		unit = time.Second
	}
	if short := d.Truncate(unit); short < d {
		return short + unit
	}
	return d
}
