package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// Files are the file operations of a sandbox. Paths are those inside. A
// path outside every mount is [CodeCapabilityBlocked]; read-only mounts are
// read-only here too. Walking, globbing and copying are functions over this
// interface.
type Files interface {
	// Read returns the content from offset on; limit < 0 means all of it.
	Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error)

	// Write replaces the file as one step: a reader sees the old or the
	// new content. Missing parents are made; an existing mode is kept.
	Write(ctx context.Context, path string, r io.Reader, o WriteOptions) error

	// Mkdir makes one folder, whose parent must exist.
	Mkdir(ctx context.Context, path string, perm fs.FileMode) error

	// Remove removes a file, a link itself, an empty folder, or with recursive
	// a whole tree. It returns [CodeNotFound] if there is nothing at path.
	Remove(ctx context.Context, path string, recursive bool) error

	// Rename replaces what is at to, as rename(2) does.
	Rename(ctx context.Context, from, to string) error

	// Stat follows links, as long as they stay in their mount.
	Stat(ctx context.Context, path string) (fs.FileInfo, error)

	// ReadDir returns the entries sorted by name.
	ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error)
}

// StatOf describes the file that a reader of [Files.Read] reads, if the reader
// has a Stat method, as [fs.File] does: size and times are those at the moment
// at which the file was opened. It returns [errors.ErrUnsupported] if the
// reader has none.
func StatOf(r io.Reader) (fs.FileInfo, error) {
	if s, ok := r.(interface{ Stat() (fs.FileInfo, error) }); ok {
		return s.Stat()
	}
	return nil, errors.ErrUnsupported
}

// A LinkRefuser is a [Files] that can refuse links. A caller that has judged a
// path by its name needs that, because a link along the path would make it
// another path.
type LinkRefuser interface {
	// WithoutLinks returns a view that follows no link below a mount, neither
	// on the way nor at the end of a path, nor one by which the mount itself is
	// reached; a link there is [CodeCapabilityBlocked]. What acts on a name
	// (Remove, Rename) acts on a link itself. The view takes paths inside
	// alone. WithoutLinks returns [CodeUnsupported] if the transport cannot
	// guarantee that.
	WithoutLinks() (Files, error)
}

// A Clearer is a [Files] that can remove trees with inaccessible folders.
type Clearer interface {
	// Clear removes path and all below it, as Remove with recursive does, and
	// opens folders that their owner, the sandbox's user, has made inaccessible
	// to itself. It returns [CodeUnsupported] if the sandbox cannot do that.
	Clear(ctx context.Context, path string) error
}

// WriteOptions are the optional settings of a write.
type WriteOptions struct {
	Perm      fs.FileMode // for a new file; zero is 0644
	Exclusive bool        // fail when the file exists
}
