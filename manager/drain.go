package manager

import "time"

// A cutter is a handle that can be let go of without a word to its guest, which
// ends what was begun through the handle when it finds the connection gone.
type cutter interface{ Cut() }

// A guest that runs reports at once that it has ended what it was to end, and
// the Manager need not check whether the sandbox is frozen. The Manager checks
// a sandbox that has not reported soon, and repeatedly, because another program
// can freeze a sandbox that is not in use at any time.
const (
	firstLook  = 20 * time.Millisecond
	frozenLook = 100 * time.Millisecond // between two looks
)

// frozen reports whether the sandbox behind h is noted as frozen. Its guest
// gives no answer then, and nothing in it runs.
func (z *freezer) frozen(h *handle) bool {
	rec, err := z.m.records.Of(h.Info().Provider).Look(h.Info().Kind, h.name)
	return err == nil && rec.Frozen
}

// drainAndClose does end, which waits for a guest, beside the caller, and returns
// what it has returned. Where frozen reports true before that, it returns nil
// at once; done is closed when end has come to its end all the same.
func drainAndClose(frozen func() bool, end func() error) (done <-chan struct{}, err error) {
	over := make(chan struct{})
	var result error
	go func() {
		defer close(over)
		result = end()
	}()
	look := time.NewTimer(firstLook)
	defer look.Stop()
	for {
		select {
		case <-over:
			return over, result
		case <-look.C:
		}
		if frozen() {
			return over, nil
		}
		look.Reset(frozenLook)
	}
}

// end closes the egress sessions, then the handle. A frozen guest is not waited for:
// it ends what there is when it is thawed.
func (h *handles) end(n *handle) {
	h.mu.Lock()
	delete(h.all, n)
	h.mu.Unlock()
	done, _ := drainAndClose(func() bool { return h.frozen(n) }, func() error {
		n.egressSessions.close()
		return n.Close()
	})
	select {
	case <-done:
		return
	default: // it is frozen
	}
	if c, ok := n.Sandbox.(cutter); ok {
		c.Cut()
	}
	<-done
}
