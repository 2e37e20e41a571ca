//go:build linux && !cgo

package server

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// BenchmarkTrue is a command on a shim that waits for it, without guest
// and client around it.
func BenchmarkTrue(b *testing.B) {
	r := newRig(b, wire.Start{})
	for b.Loop() {
		r.send(wire.Start{Args: []string{"/bin/true"}}, r.null)
		if got := r.report(); got.Kind != shimStarted {
			b.Fatalf("%+v", got)
		}
		if got := r.report(); got.Kind != shimExited || !got.Empty {
			b.Fatalf("%+v", got)
		}
	}
}

// BenchmarkFork is what it costs to make a shim and to let it go.
func BenchmarkFork(b *testing.B) {
	for b.Loop() {
		newRig(b, wire.Start{}).end()
	}
}
