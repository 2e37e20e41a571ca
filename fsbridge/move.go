package fsbridge

import (
	"context"
	"path"

	"github.com/bulkhead-dev/sandbox"
)

// Move renames from to to and makes missing folders above to, as Write and
// [Copy] do. Both names must be in one mount. An error that something does not
// exist names from, because that is then what is missing.
func Move(ctx context.Context, f sandbox.Files, from, to string) error {
	err := f.Rename(ctx, from, to)
	if !sandbox.IsNotFound(err) {
		return err
	}
	if _, err := lstat(ctx, f, from); err != nil {
		return err
	}
	if err := MkdirAll(ctx, f, path.Dir(to), 0); err != nil {
		return err
	}
	return f.Rename(ctx, from, to)
}
