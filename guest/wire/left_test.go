package wire_test

import (
	"reflect"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestExitTellsAll holds that limits of the sandbox and what was left running
// come through, alone and together.
func TestExitTellsAll(t *testing.T) {
	left := &wire.Left{Count: 3, Names: []string{"sleep (4)", "a\nb (5)"}}
	disk := &wire.LimitHit{Kind: wire.LimitDisk, Current: 7, Bound: 7, Path: "/home/x"}
	for _, m := range []wire.Exit{
		{Code: 1, Left: left}, {Code: 1, Limit: disk}, {Code: 1, Limit: disk, Left: left}, {Restarted: true, Left: left},
		{Signal: 9, Limit: &wire.LimitHit{Kind: wire.LimitSandboxMemory, Current: 5, Bound: 5}, Left: left}, {},
	} {
		got, err := wire.DecodeExit(m.Encode())
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v: got %+v, %v", m, got, err)
		}
	}
	for n := range 60 { // of a guest that lies
		b := wire.Exit{Code: 1, Limit: disk, Left: left}.Encode()
		if n < len(b) {
			_, _ = wire.DecodeExit(b[:n])
		}
	}
}
