//go:build linux

package main

import "fmt"

// each is by how much the daemon has grown for one sandbox, never less than
// nothing: a heap that was collected meanwhile is no gain of a sandbox.
func (i *reportIdle) each() int64 {
	if i.Sandboxes == 0 {
		return 0
	}
	return max(0, i.RSS-i.Before) / int64(i.Sandboxes)
}

// text is one paragraph about it.
func (i *reportIdle) text() string {
	s := fmt.Sprintf("A daemon with %d idle sandboxes (of %d wanted, made in %.0f s; %d sockets more than before): RSS %s MiB, %s MiB before them, %s KiB for each; %s ms of processor time in %.0f s that begin %.0f s after the last was used.",
		i.Sandboxes, i.Wanted, i.Making.Seconds(), i.Sockets, digits(mib(i.RSS)), digits(mib(i.Before)), digits(float64(i.each())/(1<<10)), digits(milliseconds(i.CPU)), i.Rest.Seconds(), i.Settled.Seconds())
	if i.Sandboxes < 500 {
		s += " What the budget says of 500 is calculated from these."
	}
	return s + "\n"
}
