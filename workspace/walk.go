package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// Bounds of a walk over what a sandbox has made.
const (
	maxEntries = 1_000_000
	maxDepth   = 256
	readBatch  = 1024
)

// walk calls fn for everything below root, parents before children, without
// following links and with memory bounded by the breadth of one level of
// folders. It reports whether it saw everything; it stops at its bounds, at
// an error of fn and at the end of ctx. What vanishes meanwhile is skipped.
func walk(ctx context.Context, root *os.Root, fn func(rel string, fi fs.FileInfo) error) (complete bool, err error) {
	type dir struct {
		rel   string
		depth int
	}
	complete = true
	left := maxEntries
	for stack := []dir{{".", 0}}; len(stack) > 0; {
		d := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		err := readDir(ctx, root, d.rel, func(fi fs.FileInfo) error {
			if left--; left < 0 {
				complete = false
				return io.EOF
			}
			rel := path.Join(d.rel, fi.Name())
			if err := fn(rel, fi); err != nil {
				return err
			}
			if fi.IsDir() {
				if d.depth+1 >= maxDepth {
					complete = false
				} else {
					stack = append(stack, dir{rel, d.depth + 1})
				}
			}
			return nil
		})
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return complete, err
		}
	}
	return complete, nil
}

// readDir calls fn for the entries of one folder. A folder that has become
// something else, or is gone, has none.
func readDir(ctx context.Context, root *os.Root, rel string, fn func(fs.FileInfo) error) error {
	sub, err := Dir(root, rel)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrChanged) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		return err
	}
	defer sub.Close()
	f, err := sub.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := f.ReadDir(readBatch)
		for _, e := range entries {
			fi, err := sub.Lstat(e.Name())
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return err
			}
			if err := fn(fi); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Usage is what a workspace takes up.
type Usage struct {
	Bytes    int64 // on disk; a file with several names counts once
	Files    int64 // entries, folders included
	Complete bool  // false: there was more than a walk may see, so the numbers are lower bounds
}

// DiskUsage measures the folder at path, and further ones together with it, by
// walks of at most a million entries each, following no link.
func DiskUsage(ctx context.Context, path string, more ...string) (Usage, error) {
	u := Usage{Complete: true}
	seen := map[inode]bool{}
	for _, p := range append([]string{path}, more...) {
		if err := u.add(ctx, p, seen); err != nil {
			return Usage{}, err
		}
	}
	return u, nil
}

type inode struct{ dev, ino uint64 }

func (u *Usage) add(ctx context.Context, path string, seen map[inode]bool) error {
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "measure workspace", Resource: path, Message: "there is no " + path, Err: err}
	}
	if err != nil {
		return statedir.Unavailable("measure workspace", path, err)
	}
	defer root.Close()
	complete, err := walk(ctx, root, func(_ string, fi fs.FileInfo) error {
		u.Files++
		blocks, dev, ino, links := statOf(fi)
		if links > 1 && !fi.IsDir() {
			if seen[inode{dev, ino}] {
				return nil
			}
			seen[inode{dev, ino}] = true
		}
		u.Bytes += blocks * 512
		return nil
	})
	u.Complete = u.Complete && complete
	return statedir.Unavailable("measure workspace", path, err)
}
