package wire_test

import (
	"math"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// FuzzDecodeUsed holds that what a guest says of use is a number of something,
// and is read back as it was understood.
func FuzzDecodeUsed(f *testing.F) {
	f.Add(wire.Used{Number: 1, User: 2, System: 3, MaxRSS: 4}.Encode())
	f.Add(wire.Used{Number: math.MaxUint32, User: math.MaxUint64}.Encode())
	f.Add(wire.Used{}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := wire.DecodeUsed(p)
		if err != nil {
			return
		}
		if sum := int64(m.User + m.System); m.Number == 0 || sum < 0 || int64(m.User) < 0 || int64(m.System) < 0 || int64(m.MaxRSS) < 0 {
			t.Fatalf("%+v", m)
		}
		if again, err := wire.DecodeUsed(m.Encode()); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

// FuzzDecodeUse holds the same of questions.
func FuzzDecodeUse(f *testing.F) {
	f.Add(wire.Use{Number: 1}.Encode())
	f.Add(wire.Use{}.Encode())
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := wire.DecodeUse(p)
		if err != nil {
			return
		}
		if again, err := wire.DecodeUse(m.Encode()); err != nil || again != m || m.Number == 0 {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
