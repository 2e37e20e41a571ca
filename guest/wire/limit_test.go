package wire_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestExitOfOtherVersions checks that an exit is read that was written by a
// version without limits, and one with a limit of a later version.
func TestExitOfOtherVersions(t *testing.T) {
	plain := wire.Exit{Code: 3, User: 1, System: 2, MaxRSS: 4}
	restarted := plain
	restarted.Restarted = true
	later := append(restarted.Encode(), 99, 1, 2, 3)
	for name, tt := range map[string]struct {
		payload []byte
		want    wire.Exit
	}{
		"without anything more": {plain.Encode(), plain},
		"of a line":             {restarted.Encode(), restarted},
		"with a later limit":    {later, restarted},
	} {
		if got, err := wire.DecodeExit(tt.payload); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	both := restarted
	both.Limit = &wire.LimitHit{Kind: wire.LimitTreeProcesses, Current: 65, Bound: 64}
	if got, err := wire.DecodeExit(both.Encode()); err != nil || !reflect.DeepEqual(got, both) {
		t.Errorf("%+v, %v", got, err)
	}
	// LimitCore, which no command can reach, is ignored.
	both.Limit.Kind = wire.LimitCore
	if got, err := wire.DecodeExit(both.Encode()); err != nil || got.Limit != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzDecodeExit holds that what a guest says of an end is within its bounds,
// and is read back as it was understood.
func FuzzDecodeExit(f *testing.F) {
	f.Add(wire.Exit{Code: 1}.Encode())
	f.Add(wire.Exit{Signal: 9, Restarted: true}.Encode())
	f.Add(wire.Exit{Limit: &wire.LimitHit{Kind: wire.LimitTreeMemory, Current: 2, Bound: 1}}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := wire.DecodeExit(p)
		if err != nil {
			return
		}
		if h := m.Limit; h != nil && (h.Current > math.MaxInt64 || h.Bound > math.MaxInt64 || h.Kind == 0) {
			t.Fatalf("%+v", h)
		}
		if again, err := wire.DecodeExit(m.Encode()); err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
