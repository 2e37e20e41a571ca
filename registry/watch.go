package registry

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// lookEvery is how often it is looked for attempts where the kernel tells of
// none.
const lookEvery = time.Second

// WatchAttempts calls changed after each claim and each attempt that any program
// records, until ctx ends, which is no error. It is called at most once for
// several that come together, and once at the beginning.
func (s *Store) WatchAttempts(ctx context.Context, changed func()) error {
	claims := filepath.Join(s.root, slotClaimsDir)
	if err := os.MkdirAll(claims, 0o700); err != nil {
		return statedir.Unavailable("watch claims", claims, err)
	}
	if err := watch(ctx, []string{claims, s.root}, changed); err == nil || ctx.Err() != nil {
		return nil
	}
	return s.look(ctx, changed)
}

// look is WatchAttempts by looking from time to time.
func (s *Store) look(ctx context.Context, changed func()) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last [2]time.Time
	for first := true; ; first = false {
		var now [2]time.Time
		for i, p := range []string{slotClaimsDir, attemptsFile} {
			if fi, err := os.Stat(filepath.Join(s.root, p)); err == nil {
				now[i] = fi.ModTime()
			}
		}
		if first || now != last {
			last = now
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
