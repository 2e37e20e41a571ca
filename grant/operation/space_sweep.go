package operation

import (
	"context"
	"errors"
	"io"
	"path"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// slack is how long after its end a call may still be releasing its space.
const slack = time.Minute

// Sweep removes the folders in root that calls of dead programs have left:
// those whose marks say that their call cannot last any more at the time now. A
// folder without a mark has no known owner and stays. Sweep returns the number
// of folders removed, and the errors. Code inside could have written a mark;
// with it the code keeps or loses only what it may keep or remove anyway.
func Sweep(ctx context.Context, f sandbox.Files, root string, now time.Time) (removed int, err error) {
	list, err := f.ReadDir(ctx, root)
	if sandbox.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, failed("sweep temporary space", root, err)
	}
	var all []error
	for _, d := range list {
		name, ok := folderOf(d.Name())
		if !ok || !d.Type().IsRegular() || !expired(ctx, f, path.Join(root, d.Name()), now) {
			continue
		}
		if err := discard(ctx, f, path.Join(root, name)); err != nil {
			all = append(all, err)
			continue
		}
		removed++
	}
	return removed, errors.Join(all...)
}

// expired reports whether a mark says for certain that its call is over.
func expired(ctx context.Context, f sandbox.Files, name string, now time.Time) bool {
	content, err := f.Read(ctx, name, 0, maxMark)
	if err != nil {
		return false
	}
	defer content.Close()
	text, err := io.ReadAll(io.LimitReader(content, maxMark))
	m, ok := parseMark(string(text))
	return err == nil && ok && m.expires.Add(slack).Before(now)
}
