package resource

import (
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// watchSeats bound how many watches of one sandbox may run at a time.
type watchSeats struct {
	most int

	mu    sync.Mutex
	taken map[string]int
}

// newSeats returns seats for so many watches of each sandbox.
func newSeats(most int) *watchSeats { return &watchSeats{most: most, taken: map[string]int{}} }

// Take takes a seat at a sandbox, which leave releases; leave may be called more
// than once. Where none is free the error is [sandbox.CodeBudgetExceeded].
func (s *watchSeats) Take(name string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[name] >= s.most {
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "watch", Resource: name, Retryable: true,
			Message: "there are " + strconv.Itoa(s.most) + " watches of this sandbox already", Hint: "end one of them, or watch a folder that holds both"}
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
