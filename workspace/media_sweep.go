package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// Bounds of a sweep over what a sandbox may have filled.
const (
	maxSwept   = 100_000
	sweepBatch = 512
	tmpLength  = len(tmpPrefix) + 26 // characters of a temporary name
)

// Sweep removes what calls left under temporary names when their program was
// killed: regular files of the form that Stage uses, last written longer ago
// than twice the timeout of a call, so that no call can still want them. It
// returns how many there were. A workspace without a folder for media has
// none. It looks at no more than 100,000 entries.
func (s *mediaStager) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	work, err := openWorkspace(s.o.Workspace)
	if err != nil {
		return 0, err
	}
	defer work.Close()
	dir, err := Descend(work, path.Join(mediaDir, inboundDir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, inside(InboundDir, err)
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return 0, inside(InboundDir, err)
	}
	defer f.Close()
	old := now.Add(-2 * s.o.Timeout)
	for seen := 0; seen < maxSwept; {
		if err := ctx.Err(); err != nil {
			return removed, timeout(ctx, InboundDir, err)
		}
		entries, err := f.ReadDir(sweepBatch)
		for _, e := range entries {
			if leftOver(dir, e.Name(), old) && dir.Remove(e.Name()) == nil {
				removed++
			}
		}
		seen += len(entries)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return removed, inside(InboundDir, err)
		}
	}
	return removed, nil
}

// leftOver reports whether name is a temporary file that has not been written
// to since old.
func leftOver(dir *os.Root, name string, old time.Time) bool {
	if !strings.HasPrefix(name, tmpPrefix) || len(name) != tmpLength {
		return false
	}
	fi, err := dir.Lstat(name)
	return err == nil && fi.Mode().IsRegular() && fi.ModTime().Before(old)
}
