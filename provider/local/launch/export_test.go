//go:build linux

package launch

// Pass sends a connection, and the channel beside it, to the guest.
func (w *Wall) Pass(stream, side int) error { return w.pass(stream, side) }
