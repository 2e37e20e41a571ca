package images

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// lock takes the lock for key across processes and returns its release. The
// lock file is never unlinked: another process may hold it open. It vanishes
// with the process, however that ends.
func (s *Store) lock(ctx context.Context, key string, say func(Phase, string)) (func(), error) {
	if s.cfg.LockDir == "" {
		return func() {}, nil
	}
	fail := func(err error) error {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "lock image", Resource: key,
			Message: "cannot lock in " + printable(s.cfg.LockDir), Hint: "make the folder writable", Err: err}
	}
	if err := os.MkdirAll(s.cfg.LockDir, 0o700); err != nil {
		return nil, fail(err)
	}
	l := flock.New(filepath.Join(s.cfg.LockDir, "image-"+digest(key)[:16]+".lock"), flock.SetPermissions(0o600))
	got, err := l.TryLock()
	if err != nil {
		return nil, fail(err)
	}
	if !got {
		say(PhaseWait, "another process is making it")
		if _, err = l.TryLockContext(ctx, 100*time.Millisecond); err != nil {
			if ctx.Err() != nil {
				return nil, engineError(ctx, "lock image", key, ctx.Err())
			}
			return nil, fail(err)
		}
	}
	return func() { _ = l.Unlock() }, nil
}
