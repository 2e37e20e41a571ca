package local

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// An overProcess has ended.
type overProcess struct{ sandbox.Process }

func (overProcess) Wait() (sandbox.Exit, error) { return sandbox.Exit{Code: 3}, nil }

// TestNothingRunsAfterWait holds that a command whose end was reported counts no more
// as one that runs in its instance, whose end would be reported then too.
func TestNothingRunsAfterWait(t *testing.T) {
	s := &seat{h: &handle{}, instance: &instance{Instance: new(launch.Instance)}, using: 1}
	s.instance.inUse.Store(1)
	p := newProcess(overProcess{}, s)
	for range 2 {
		if exit, err := p.Wait(); exit.Code != 3 || err != nil {
			t.Errorf("%+v, %v", exit, err)
		}
		if n := s.instance.inUse.Load(); n != 0 || s.using != 0 {
			t.Errorf("%d in use in the sandbox, %d by the session", n, s.using)
		}
	}
}
