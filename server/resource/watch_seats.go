package resource

import (
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// watchSeats bound how many things of one kind, such as watches, may be open at
// one sandbox at a time.
type watchSeats struct {
	most           int
	op, what, hint string // for the error

	mu    sync.Mutex
	taken map[string]int
}

// newSeats returns so many seats for each sandbox. what names in the plural that
// which takes them, with the preposition, such as "watches of".
func newSeats(most int, op, what, hint string) *watchSeats {
	return &watchSeats{most: most, op: op, what: what, hint: hint, taken: map[string]int{}}
}

// Take takes a seat at a sandbox, which leave releases; leave may be called more
// than once. Where none is free the error is [sandbox.CodeBudgetExceeded].
func (s *watchSeats) Take(name string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[name] >= s.most {
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: s.op, Resource: name, Retryable: true,
			Message: "there are " + strconv.Itoa(s.most) + " " + s.what + " this sandbox already", Hint: s.hint}
	}
	s.taken[name]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.taken[name]--; s.taken[name] == 0 {
			delete(s.taken, name)
		}
	}), nil
}
