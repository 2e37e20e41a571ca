//go:build linux

package launch

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Pass sends a connection, and the channel beside it, to the guest.
func (w *Instance) Pass(stream, side int) error { return w.pass(stream, side) }

// Closes returns how many of the descriptors of sources the tree closes itself.
func (t *Tree) Closes(taken []int, borrowed bool) (n int) {
	p := &program{}
	all := make([]any, len(taken))
	for i, fd := range taken {
		all[i] = fd
	}
	t.grow(p, all, nil, borrowed)
	for _, s := range p.steps {
		if s.nr == unix.SYS_CLOSE && s.from[0] == 0 && slices.Contains(taken, int(s.args[0])) {
			n++
		}
	}
	return n
}

// Sources returns how many descriptors a tree wants.
func (t *Tree) Sources() int { return len(t.sources()) }
