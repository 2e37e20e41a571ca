// The change files apply changes of several files, all of them or none. They
// use [sandbox.Files] and so do not depend on where the files are.
//
// There is no transaction below: files are written one after another, and when
// a later one fails the earlier ones are restored. The error says, for each
// file, what could not be restored. A change that another process makes
// between the check right before a write and that write is lost, which is a
// moment within one call; callers that change files through this package alone
// must take turns. A machine that stops midway leaves the files as they are
// then.

package tools

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// A Content is a file at one moment.
type changeContent struct {
	Data []byte
	Mode fs.FileMode // permissions; 0 is not known, or does not matter
}

// A File is what becomes of one file: from Before to After, where nil is that
// there is none.
type changeFile struct {
	Path   string
	Before *changeContent
	After  *changeContent
}

// putBackWithin bounds the way back, which the end of the caller's context
// does not end.
const putBackWithin = 30 * time.Second

// Load returns the file at path, nil where there is none. More than limit
// bytes are [sandbox.CodeCapabilityBlocked], and so is what is no regular file;
// a link to one is, where the transport can tell.
func loadChange(ctx context.Context, f sandbox.Files, path string, limit int64) (*changeContent, error) {
	if l, ok := f.(linker); ok {
		switch info, err := l.Lstat(ctx, path); {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return nil, blocked(path, "is a link, and what is changed is files", "name the file that it leads to")
		case err != nil && !sandbox.IsNotFound(err) && sandbox.CodeOf(err) != sandbox.CodeUnsupported:
			return nil, err
		}
	}
	info, err := f.Stat(ctx, path)
	switch {
	case sandbox.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, blocked(path, "is a folder, not a file", "")
	case !info.Mode().IsRegular():
		return nil, blocked(path, "is no regular file", "")
	case info.Size() > limit:
		return nil, tooLarge(path, limit)
	}
	data, err := readAll(ctx, f, path, limit)
	if sandbox.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &changeContent{Data: data, Mode: info.Mode().Perm()}, nil
}

// linker is the part of a bridge that tells links from what they lead to.
type linker interface {
	Lstat(ctx context.Context, path string) (fs.FileInfo, error)
}

func readAll(ctx context.Context, f sandbox.Files, path string, limit int64) ([]byte, error) {
	r, err := f.Read(ctx, path, 0, limit+1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(path, limit)
	}
	return data, nil
}

// Apply changes the files: it looks whether each is as Before says, writes
// those that have an After in their order, and then removes the others. Folders
// that are missing are made.
//
// A file that is not as Before says is [sandbox.CodeBusy]: it has changed
// since it was read. After any error the files are put back; the error says
// that they are as they were, or which ones are not and how they are.
func applyChange(ctx context.Context, f sandbox.Files, files []changeFile) error {
	a := &changeApplier{files: f}
	for _, c := range files {
		if err := a.unchanged(ctx, c); err != nil {
			return err // nothing was done
		}
	}
	for _, removing := range []bool{false, true} {
		for _, c := range files {
			if (c.After == nil) != removing || c.same() {
				continue
			}
			a.done = append(a.done, c)
			if err := a.step(ctx, c); err != nil {
				return a.back(ctx, err)
			}
		}
	}
	return nil
}

// same reports whether nothing is to be done.
func (c changeFile) same() bool { return c.Before.equal(c.After) }

// equal compares contents, and permissions where both are known.
func (c *changeContent) equal(d *changeContent) bool {
	if c == nil || d == nil {
		return c == nil && d == nil
	}
	return bytes.Equal(c.Data, d.Data) && (c.Mode == 0 || d.Mode == 0 || c.Mode.Perm() == d.Mode.Perm())
}

// An applier is one call of Apply.
type changeApplier struct {
	files sandbox.Files
	done  []changeFile // begun, in their order; the last one may not have come to anything
	made  []string     // folders, each after the one that it is in
}

// now is the file as it is. What has become larger than both contents is none
// of them.
func (a *changeApplier) now(ctx context.Context, c changeFile) (*changeContent, error) {
	limit := 0
	for _, known := range []*changeContent{c.Before, c.After} {
		if known != nil {
			limit = max(limit, len(known.Data))
		}
	}
	return loadChange(ctx, a.files, c.Path, int64(limit))
}

// unchanged holds that a file is still as Before says.
func (a *changeApplier) unchanged(ctx context.Context, c changeFile) error {
	now, err := a.now(ctx, c)
	if err == nil && now.equal(c.Before) {
		return nil
	}
	if err != nil && sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		return err
	}
	if err != nil && c.Before == nil {
		return err // there is something that is no file
	}
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "change", Resource: termsafe.Line(c.Path), Retryable: true,
		Message: termsafe.Line(c.Path) + " has changed since it was read", Hint: "read it again", Err: err}
}

// step does one change.
func (a *changeApplier) step(ctx context.Context, c changeFile) error {
	if err := a.unchanged(ctx, c); err != nil {
		return err
	}
	switch {
	case c.After == nil:
		return a.files.Remove(ctx, c.Path, false)
	case c.Before == nil:
		if err := a.parents(ctx, c.Path); err != nil {
			return err
		}
		return a.files.Write(ctx, c.Path, bytes.NewReader(c.After.Data), sandbox.WriteOptions{Exclusive: true, Perm: c.After.Mode.Perm()})
	}
	return a.replace(ctx, c.Path, c.Before, c.After)
}

func blocked(path, what, hint string) error {
	safe := termsafe.Line(path)
	return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "change", Field: "path", Resource: safe, Message: safe + " " + what, Hint: hint}
}

func tooLarge(path string, limit int64) error {
	e := sandbox.Errorf(sandbox.CodeCapabilityBlocked, "change", "%s has more than %d bytes, which is the most that can be changed", termsafe.Line(path), limit)
	e.Field, e.Resource = "path", termsafe.Line(path)
	return e
}
