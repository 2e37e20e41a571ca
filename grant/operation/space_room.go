package operation

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

const (
	// nameCost is what a name counts whatever is in it, in bytes.
	nameCost = 1 << 10
	// block is what sizes are rounded up to, in bytes.
	block = 4 << 10
)

// cost is what a file of size bytes counts.
func cost(size int64) int64 {
	if size > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return nameCost + (max(size, 0)+block-1)/block*block
}

// Room implements [operation.Space]. It returns the room for a file at path and
// the missing folders on the way to it, never a negative number. A path in the
// temporary space of another call is [sandbox.CodeCapabilityBlocked].
func (s *Spaces) Room(ctx context.Context, path string) (bytes int64, within bool, err error) {
	f, rel, err := s.find(path)
	if f == nil || err != nil {
		return 0, false, err
	}
	bytes, err = s.room(ctx, f, rel, 0)
	return max(bytes, 0), true, err
}

// Claim reserves room for a file of so many bytes at path until release is
// called, so that concurrent callers do not get the same room; the caller calls
// release when the file is there. When the returned room is less than bytes,
// nothing was reserved. Outside the space room has no bound.
func (s *Spaces) Claim(ctx context.Context, path string, bytes int64) (release func(), room int64, err error) {
	f, rel, err := s.find(path)
	if err != nil {
		return nil, 0, err
	}
	if f == nil {
		return func() {}, math.MaxInt64, nil
	}
	// Taken before it is looked, so that of two at once none misses the other.
	most := cost(bytes) + wayCost(rel)
	s.mu.Lock()
	f.claimed += most
	s.mu.Unlock()
	release = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f.claimed -= most
	})
	room, err = s.room(ctx, f, rel, most)
	if err != nil || room < bytes {
		release()
	}
	return release, max(room, 0), err
}

// wayCost is the cost of the folders on the path to rel.
func wayCost(rel string) int64 { return int64(strings.Count(rel, "/")) * cost(block) }

// find returns the folder that contains path, or nil, and the path relative to
// it.
func (s *Spaces) find(path string) (f *folder, rel string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.folders {
		if rest, ok := strings.CutPrefix(path, f.path); ok && !f.gone && (rest == "" || rest[0] == '/') {
			return f, strings.TrimPrefix(rest, "/"), nil
		}
	}
	if rest, ok := strings.CutPrefix(path, s.root+"/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		_, marks := folderOf(name)
		if marks || isFolder(name) {
			return nil, "", &sandbox.Error{
				Code: sandbox.CodeCapabilityBlocked, Op: "write", Field: "path", Resource: path,
				Message: "the path lies in the temporary space of another call", Hint: "use space that was allotted to this one",
			}
		}
	}
	return nil, "", nil
}

// room returns how many bytes a file at rel may have for a caller that owns own
// bytes of those that were claimed.
func (s *Spaces) room(ctx context.Context, f *folder, rel string, own int64) (int64, error) {
	used, err := s.measure(ctx, f)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	left := f.bound - used - (f.claimed - own)
	s.mu.Unlock()
	left -= wayCost(rel) + nameCost
	return left / block * block, nil
}

// measure returns what is in a folder. It stops where that is more than the
// bound, and so is bounded itself: no name counts nothing.
func (s *Spaces) measure(ctx context.Context, f *folder) (int64, error) {
	m := &measurement{files: s.files, bound: f.bound}
	err := m.walk(ctx, f.path)
	switch {
	case err == nil || sandbox.IsNotFound(err):
		return m.used, nil
	case errors.Is(err, errFull):
		return m.used, nil
	case hidden(err):
		return 0, exceeded(f, "the temporary folder has a part that cannot be looked at", err)
	}
	return 0, failed("measure temporary space", f.path, err)
}

// exceeded is the error of a folder with more than its bound.
func exceeded(f *folder, message string, err error) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "watch temporary space", Field: "space", Resource: f.path,
		Message: message + ": its bound is " + strconv.FormatInt(f.bound, 10) + " bytes", Hint: "write less, or ask for more", Err: err,
	}
}

// errFull ends a measurement.
var errFull = errors.New("there is more than the bound")

// A measurement is one look at a folder and all below it.
type measurement struct {
	files sandbox.Files
	bound int64
	used  int64
}

func (m *measurement) walk(ctx context.Context, dir string) error {
	list, err := m.files.ReadDir(ctx, dir)
	if err != nil {
		return err
	}
	var folders []string
	for _, d := range list {
		info, err := d.Info()
		switch {
		case sandbox.IsNotFound(err):
			continue
		case err != nil:
			return err
		}
		if m.used += cost(info.Size()); m.used > m.bound {
			return errFull
		}
		if d.IsDir() {
			folders = append(folders, d.Name())
		}
	}
	for _, name := range folders {
		if err := m.walk(ctx, dir+"/"+name); err != nil && !swapped(err) {
			return err
		}
	}
	return nil
}

// swapped reports whether err says that a folder, or one on the way to it, is
// none any more but a file or a link: its name has been counted, and nothing is
// below it. One that may not be looked into is no such thing.
func swapped(err error) bool {
	var errno syscall.Errno
	link := sandbox.CodeOf(err) == sandbox.CodeCapabilityBlocked && !errors.As(err, &errno)
	return link || sandbox.IsNotFound(err) || errors.Is(err, syscall.ENOTDIR)
}

// hidden reports whether err says that code inside keeps something from being
// looked at: it is closed, too deep, too large, or a link now.
func hidden(err error) bool {
	switch sandbox.CodeOf(err) {
	case sandbox.CodeCapabilityBlocked, sandbox.CodeValidation:
		return true
	case sandbox.CodeBudgetExceeded: // a listing without end; not a lack for the moment
		var e *sandbox.Error
		return errors.As(err, &e) && !e.Retryable
	}
	return false
}

// isExceeded reports whether err says that a folder is too full, or may be.
func isExceeded(err error) bool { return sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded }
