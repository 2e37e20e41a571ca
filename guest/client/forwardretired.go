package client

import "slices"

// maxRetired bounds how many listeners that have ended are remembered.
const maxRetired = 64

// A retired remembers the listeners that have ended last. A guest from before
// it was held to tell of a connection before the end of its listener may do so
// a moment after it, when the goroutine that tells it got its turn late. That
// is no lie, for which everything else of the connection would end. The zero
// retired is empty. It is used with delivering held.
type retired struct {
	all []retiree // at most maxRetired, oldest first
}

// A retiree is a listener that stood and has ended.
type retiree struct {
	id uint32 // of its stream
	g  *listener
}

// add remembers a listener, and forgets the oldest one where there are too
// many.
func (r *retired) add(id uint32, g *listener) {
	if len(r.all) == maxRetired {
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, retiree{id, g})
}

// find returns the listener whose stream was id, or nil.
func (r *retired) find(id uint32) *listener {
	for _, one := range r.all {
		if one.id == id {
			return one.g
		}
	}
	return nil
}
