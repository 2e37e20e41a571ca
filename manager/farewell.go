package manager

import "time"

// A cutter is a handle that can be let go of without a word to its guest, which
// ends what was begun through the handle when it finds the connection gone.
type cutter interface{ Cut() }

// frozenLook is between two looks at whether a guest that is waited for was
// frozen meanwhile: nothing keeps others from doing that to a sandbox that
// nobody uses.
const frozenLook = 100 * time.Millisecond

// frozen reports whether the sandbox behind h is noted as frozen. Its guest
// gives no answer then, and nothing in it runs.
func (m *Manager) frozen(h *handle) bool {
	rec, err := m.records.Get(h.Info().Kind, h.name)
	return err == nil && rec.Frozen
}

// farewell does end, which waits for a guest, beside the caller, and returns
// what it has returned. Where frozen reports true before that, it returns nil
// at once; done is closed when end has come to its end all the same.
func farewell(frozen func() bool, end func() error) (done <-chan struct{}, err error) {
	over := make(chan struct{})
	var result error
	go func() {
		defer close(over)
		result = end()
	}()
	for !frozen() {
		select {
		case <-over:
			return over, result
		case <-time.After(frozenLook):
		}
	}
	return over, nil
}

// end closes the ways out, then the handle. A frozen guest is not waited for:
// it ends what there is when it is thawed.
func (h *handles) end(n *handle) {
	h.mu.Lock()
	delete(h.all, n)
	h.mu.Unlock()
	done, _ := farewell(func() bool { return h.frozen(n) }, func() error {
		n.ways.close()
		return n.Close()
	})
	if c, ok := n.Sandbox.(cutter); ok && h.frozen(n) {
		c.Cut()
	}
	<-done
}
