package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

const maxRef = 4096 // bytes, as PATH_MAX

// Folders is the [Source] of files that lie in media folders of the host. A
// ref is the absolute path of a file below one of them, as the program that
// received the file wrote it there.
//
// Folders opens only regular files, and only those with one name: a second name
// (a hard link) may lead to a file that lies elsewhere and that the maker of the
// link may not read. No part of the path below the folder may be a
// link, and none may be "..".
type Folders struct {
	roots []folder
}

// A folder is one root of Folders.
type folder struct {
	given, canonical string // the same unless the given path leads over links
}

var _ Source = (*Folders)(nil)

// NewFolders returns the source of what lies below roots: absolute paths of
// folders that exist, none of them the root of the host. A root that is
// reached over links counts as what it leads to now, and refs may name it
// either way.
func NewFolders(roots ...string) (*Folders, error) {
	f := &Folders{}
	for i, r := range roots {
		field := fmt.Sprintf("roots[%d]", i)
		if !filepath.IsAbs(r) || strings.ContainsRune(r, 0) {
			return nil, invalid(field, "%q is no absolute path", r)
		}
		canonical, err := filepath.EvalSymlinks(r)
		if err != nil {
			return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: opStage, Field: field, Resource: r, Message: fmt.Sprintf("there is no media folder %q", r), Err: cause(err)}
		}
		if fi, err := os.Stat(canonical); err != nil || !fi.IsDir() || canonical == "/" {
			return nil, invalid(field, "%q is no folder that media can be taken from", r)
		}
		f.roots = append(f.roots, folder{filepath.Clean(r), canonical})
	}
	if len(f.roots) == 0 {
		return nil, invalid("roots", "no media folder is named, so that nothing could be staged")
	}
	return f, nil
}

// Open implements [Source].
func (f *Folders) Open(_ context.Context, ref string) (io.ReadCloser, Info, error) {
	root, rel, err := f.find(ref)
	if err != nil {
		return nil, Info{}, err
	}
	top, err := openCanonical(root)
	if err != nil {
		return nil, Info{}, fileError(ref, err)
	}
	defer top.Close()
	dir, err := Descend(top, path.Dir(rel))
	if err != nil {
		return nil, Info{}, fileError(ref, err)
	}
	defer dir.Close()
	file, fi, err := File(dir, path.Base(rel))
	if err != nil {
		return nil, Info{}, fileError(ref, err)
	}
	// Looked at through the descriptor: the file that was opened had as many
	// names as this when it was, whatever became of them since.
	if mediaNames(fi) != 1 {
		file.Close()
		return nil, Info{}, refused(ref, "%q has more than one name (hard links), so that it may be a file from elsewhere", ref)
	}
	return file, Info{Name: path.Base(rel), Size: fi.Size()}, nil
}

// find returns the media folder that ref lies below and the path from there.
func (f *Folders) find(ref string) (root, rel string, err error) {
	switch {
	case ref == "" || len(ref) > maxRef:
		return "", "", refError(ref, "it has no or more than 4096 bytes")
	case strings.ContainsRune(ref, 0):
		return "", "", refError(ref, "it holds a NUL")
	case !filepath.IsAbs(ref):
		return "", "", refError(ref, "it is no absolute path")
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == ".." {
			return "", "", refused(ref, `%q holds "..", which media paths may not`, ref)
		}
	}
	clean := path.Clean(ref)
	deepest := 0
	for _, r := range f.roots {
		for _, prefix := range []string{r.given, r.canonical} {
			if rest, ok := strings.CutPrefix(clean, prefix+"/"); ok && len(prefix) > deepest {
				deepest, root, rel = len(prefix), r.canonical, rest
			}
		}
	}
	if root == "" {
		return "", "", refused(ref, "%q does not lie below a media folder", ref)
	}
	return root, rel, nil
}

func refError(ref, why string) error {
	if len(ref) > 128 {
		ref = strings.ToValidUTF8(ref[:128], "") + "…"
	}
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: opStage, Field: "ref", Resource: ref, Message: fmt.Sprintf("%q is no media path: %s", ref, why)}
}

// fileError says why a file of a media folder cannot be had.
func fileError(ref string, err error) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: opStage, Resource: ref, Message: fmt.Sprintf("cannot open %q", ref), Err: cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Code, e.Message = sandbox.CodeNotFound, fmt.Sprintf("there is no %q", ref)
	case errors.Is(err, ErrChanged), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Message = sandbox.CodeCapabilityBlocked, fmt.Sprintf("%q is no regular file, or is reached over a link", ref)
	}
	return e
}

// names returns how many names a file has, and none where the system does
// not tell, which is refused like many.
func mediaNames(fi fs.FileInfo) uint64 {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(st.Nlink)
}
