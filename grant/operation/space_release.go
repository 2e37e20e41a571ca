package operation

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

const (
	// releaseWithin bounds the removal of all folders.
	releaseWithin = 15 * time.Second
	// undoWithin bounds that of one which could not be made.
	undoWithin = 2 * time.Second
	// firstPause and lastPause bound the time between two attempts to remove a
	// folder that a program keeps filling.
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// Release removes all folders of the call with their contents, and nothing
// else; later allocations fail. Processes that keep writing, closed permissions
// of folders, branches of any depth and the end of ctx, which may be why the
// call has ended, do not prevent it. It takes at most 15 seconds. It returns an
// error when something is left; the next Release tries again, and after the
// program's end [Sweep] does.
func (s *Spaces) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	s.mu.Lock()
	s.released = true
	folders := append([]*folder(nil), s.folders...)
	s.mu.Unlock()
	var all []error
	for _, f := range folders {
		if err := s.retry(ctx, f); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// retry removes a folder, and tries again what may pass: not with a sandbox that
// is not there any more.
func (s *Spaces) retry(ctx context.Context, f *folder) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.remove(ctx, f)
		if err == nil || sandbox.CodeOf(err) == sandbox.CodeUnavailable {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// remove removes a folder and then its mark. Missing ones are no error.
func (s *Spaces) remove(ctx context.Context, f *folder) error {
	s.mu.Lock()
	gone := f.gone
	s.mu.Unlock()
	if gone {
		return nil
	}
	if err := discard(ctx, s.files, f.path); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.gone = true
	return nil
}

// discard removes the folder at path, and its mark when it is gone for certain.
func discard(ctx context.Context, files sandbox.Files, path string) error {
	if err := clearTree(ctx, files, path); err != nil && !sandbox.IsNotFound(err) {
		return failed("release temporary space", path, err)
	}
	if err := clearTree(ctx, files, markOf(path)); err != nil && !sandbox.IsNotFound(err) {
		return failed("release temporary space", path, err)
	}
	return nil
}

// clearTree removes a tree, closed folders included where files can do that.
func clearTree(ctx context.Context, files sandbox.Files, path string) error {
	if c, ok := files.(sandbox.Clearer); ok {
		if err := c.Clear(ctx, path); sandbox.CodeOf(err) != sandbox.CodeUnsupported {
			return err
		}
	}
	return files.Remove(ctx, path, true)
}
