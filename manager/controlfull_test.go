//go:build linux

package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestFullDisk has no room for what is on record: nothing runs while there is
// none, what has begun before has its end later, and the chain verifies.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	onControlled(t, `, "requireEvidence": true`, func(c *controlled) {
		op := c.operation(grant.Operation{Kind: grant.OpFsList, Path: "/workspace"})
		op.Grant.Budget.Calls = 1000
		must(c.t, second(c.operate(op)))
		fill := filepath.Join(disk, "fill")
		for range 2 {
			f, err := os.Create(fill)
			must(c.t, err)
			for n := 4096; n > 0; {
				if _, err := f.Write(make([]byte, n)); err != nil {
					n /= 2
				}
			}
			f.Close()
			passed := 0
			for ; passed < 100; passed++ { // a page may have room for some
				done, err := c.operate(op)
				if done.OK {
					continue
				}
				var e *sandbox.Error
				if done.Code != sandbox.CodeUnavailable || !errors.As(err, &e) || e.Field != "requireEvidence" || e.Hint == "" {
					c.t.Errorf("without room: %+v, %v", done, err)
				}
				break
			}
			if passed == 100 {
				c.t.Fatal("the disk does not fill")
			}
			c.t.Logf("%d operations found room", passed)
			must(c.t, os.Remove(fill))
			must(c.t, second(c.operate(op)))
		}
		must(c.t, c.ctl.Recorder.Close())
		for id, how := range c.ended() {
			if len(how) != 1 {
				c.t.Errorf("operation %s has %d ends", id, len(how))
			}
		}
		c.verified()
	}, func(c *controlled, o *manager.Options, state *statedir.Dir) {
		must(c.t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"))
		c.t.Cleanup(func() { must(t, unix.Unmount(disk, unix.MNT_DETACH)) })
		store, err := evidence.Open(filepath.Join(disk, "evidence"), evidence.Options{})
		must(c.t, err)
		must(c.t, c.ctl.Close())
		c.evidence = store
		c.t.Cleanup(func() { store.Close() })
		c.control(o, state)
	})
}
