// This file gives operations temporary space: folders inside the sandbox, each
// with a bound in bytes, which are removed at the end of their call.
//
// The usage of a folder is determined by looking at it, through files that
// follow no link, and counts by its names: the size that each file reports, in
// blocks of 4 KiB, and 1 KiB for the name itself, so that a million empty files
// have a bound as well. A folder that cannot be examined counts as too large.
// Looking does not show content that is held open without a name; for that the
// size of the mount is the bound.
//
// Code inside the sandbox may change the folders in any way. This file does not
// rely on their contents: such code can only lose its own space.

package operation

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

const (
	// maxFolders bounds the folders of one call.
	maxFolders = 16
	// prefix begins the names of folders; 16 hex digits follow.
	prefix = "sbx-"
	digits = 16
)

// Spaces are the temporary space of one call: they carry out its TmpAlloc, and
// are its [operation.Space]. They are safe for concurrent use. [Spaces.Release]
// must be called when the call has ended.
type Spaces struct {
	files sandbox.Files
	root  string

	mu       sync.Mutex
	folders  []*folder
	released bool
	watch    watch
}

// A folder is one allotment.
type folder struct {
	path    string // inside
	bound   int64  // bytes
	claimed int64  // bytes of writes that are under way; guarded by Spaces.mu
	gone    bool   // it and its mark were removed; guarded by Spaces.mu
}

var (
	_ Executor = (*Spaces)(nil)
	_ Space    = (*Spaces)(nil)
)

// NewSpaceExecutor returns the space of a call, with nothing in it yet. Folders
// are made in root, the folder inside that the profile maps temporary space to,
// through f, which must follow no link (see [sandbox.LinkRefuser]).
func NewSpaceExecutor(f sandbox.Files, root string) *Spaces {
	return &Spaces{files: f, root: path.Clean(root)}
}

// Execute carries out TmpAlloc: it makes a folder with mode 0700 and an
// unpredictable name. All folders of a call together have at most the number of
// bytes that the profile gives to a temporary space.
func (s *Spaces) Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	if v.Kind != grant.OpTmpAlloc {
		return Output{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "allot", Field: "op.kind", Message: "this is no operation on temporary space"}
	}
	p := c.Guard.Profile()
	f, err := s.reserve(v.Bytes, spaceMost(p))
	if err != nil {
		return Output{}, err
	}
	if err := s.allot(ctx, f, p.Expires); err != nil {
		return Output{}, Stopped(ctx, err)
	}
	c.Effect(evidence.Effect{Kind: grant.EffectFilesystem, Path: f.path})
	return Output{Path: f.path, Digest: evidence.DigestOf(nil)}, nil
}

// spaceMost is how many bytes all folders of a call may have: the strictest of
// what the limits say, and the widest capability.
func spaceMost(p grant.Profile) int64 {
	widest := int64(0)
	for _, c := range p.Capabilities {
		switch {
		case c.Kind != grant.Temp:
		case c.Bytes == 0:
			return p.Limits.MaxTmpBytes
		default:
			widest = max(widest, c.Bytes)
		}
	}
	return min(widest, p.Limits.MaxTmpBytes)
}

// Folders returns the paths of all folders of the call, which it may use.
func (s *Spaces) Folders() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, f := range s.folders {
		if !f.gone && !s.released {
			out = append(out, f.path)
		}
	}
	return out
}

// reserve notes a folder that is going to be made. It is known before it is
// there, so that it is removed whatever becomes of it.
func (s *Spaces) reserve(bytes, most int64) (*folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(0)
	for _, f := range s.folders {
		total += f.bound
	}
	switch {
	case s.released:
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "allot", Message: "the call of the temporary space has ended"}
	case len(s.folders) >= maxFolders:
		return nil, &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "allot", Field: "space",
			Message: "a call may have at most " + strconv.Itoa(maxFolders) + " temporary folders", Hint: "use one of them for more",
		}
	case bytes <= 0 || bytes > most-total:
		return nil, &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "allot", Field: "profile.limits.maxTmpBytes",
			Message: "the temporary folders of a call may have at most " + strconv.FormatInt(most, 10) + " bytes together", Hint: "ask for less",
		}
	}
	f := &folder{path: s.root + "/" + prefix + random(), bound: bytes}
	s.folders = append(s.folders, f)
	return f, nil
}

// allot makes a folder that was reserved, or leaves nothing of it.
func (s *Spaces) allot(ctx context.Context, f *folder, expires time.Time) error {
	err := s.enter(ctx, f, expires)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
	defer cancel()
	left := discard(undo, s.files, f.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.gone = left == nil; f.gone {
		s.folders = slices.DeleteFunc(s.folders, func(x *folder) bool { return x == f })
	}
	return err
}

// enter writes the mark of a folder next to it, and then makes the folder.
func (s *Spaces) enter(ctx context.Context, f *folder, expires time.Time) error {
	content := strings.NewReader(mark{expires}.encode())
	if err := s.files.Write(ctx, markOf(f.path), content, sandbox.WriteOptions{Perm: 0o600, Exclusive: true}); err != nil {
		return failed("allot", f.path, err)
	}
	if err := s.files.Mkdir(ctx, f.path, 0o700); err != nil {
		return failed("allot", f.path, err)
	}
	// Release may have looked for it before it was there.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "allot", Message: "the call of the temporary space has ended"}
	}
	return nil
}

// random returns an unpredictable string.
func random() string {
	var b [digits / 2]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}

// isFolder reports whether a name is that of a temporary folder, of this call
// or another.
func isFolder(name string) bool {
	id, ok := strings.CutPrefix(name, prefix)
	return ok && len(id) == digits && strings.Trim(id, "0123456789abcdef") == ""
}

// failed converts an error of files to the terms of operations: a full disk is
// not a budget of a call.
func failed(op, name string, err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: op, Resource: name, Message: "the temporary folder cannot be used", Err: err}
	}
	reported := *e
	if reported.Op = op; e.Code == sandbox.CodeBudgetExceeded || e.Code == sandbox.CodeInternal || errors.Is(err, fs.ErrExist) {
		reported.Code = sandbox.CodeExecution
	}
	return &reported
}
