//go:build linux

package server

import (
	"os"
	"testing"
	"time"
)

// TestAuditorIsNotWoken holds that a command which comes wakes the auditor only
// where that would sleep past its first look.
func TestAuditorIsNotWoken(t *testing.T) {
	for name, tt := range map[string]struct {
		sleeps time.Duration
		woken  bool
	}{"it looks before that": {time.Millisecond, false}, "it looks later": {time.Minute, true}} {
		t.Run(name, func(t *testing.T) {
			o := newAuditor()
			o.running, o.awake = true, time.Now().Add(tt.sleeps)
			m := &command{shim: &shimProc{pid: os.Getpid()}}
			o.watch(m, &audit{bounds: meterBounds{Memory: 1 << 30}}, true)
			if woken := len(o.soon) > 0; woken != tt.woken {
				t.Errorf("woken %v", woken)
			}
			if o.watched[m] == nil {
				t.Error("it is not looked at")
			}
		})
	}
}
