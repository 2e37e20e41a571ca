//go:build linux

package enter

import (
	"errors"
	"runtime"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestKeysAreLeftBehind(t *testing.T) {
	type result struct {
		before, after int
		err           error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and the thread ends with the goroutine
		var r result
		// The first call makes one where there is none.
		if r.before, r.err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); r.err == nil {
			if r.err = leaveKeys(); r.err == nil {
				r.after, r.err = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			}
		}
		done <- r
	}()
	r := <-done
	if errors.Is(r.err, unix.ENOSYS) || errors.Is(r.err, unix.EPERM) {
		testenv.Lack(t, "keyring", r.err)
	}
	if r.err != nil || r.before == r.after {
		t.Errorf("%+v", r)
	}
}
