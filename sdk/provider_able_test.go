package sdk

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestAble holds that a sandbox has by type what the daemon says of it, and
// nothing else.
func TestAble(t *testing.T) {
	for n := range 8 {
		want := can{dial: n&1 != 0, listen: n&2 != 0, files: n&4 != 0}
		sb := (&handle{can: want}).able()
		var got can
		_, got.dial = sb.(sandbox.Dialer)
		_, got.listen = sb.(sandbox.Listener)
		_, got.files = sb.(sandbox.FileServer)
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
