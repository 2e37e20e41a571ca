package sdk

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// ReadFile returns the content of a file. Relative paths are in the workspace.
func (s *Sandbox) ReadFile(ctx context.Context, name string) ([]byte, error) {
	r, err := s.api.ReadFile(ctx, s.name, name)
	if err != nil {
		return nil, fileError(err)
	}
	defer r.Close()
	return io.ReadAll(r)
}

// WriteFile writes a file in one step: a reader sees the old or the new content.
// Folders that are missing are made, and the mode of a file that exists is kept.
func (s *Sandbox) WriteFile(ctx context.Context, name string, data []byte) error {
	return s.Files().Write(ctx, name, bytes.NewReader(data), sandbox.WriteOptions{})
}

// FS returns the workspace as a file system to read, which also implements
// [fs.StatFS], [fs.ReadDirFS], [fs.ReadFileFS] and [fs.ReadLinkFS]. Every call
// asks the sandbox; nothing is cached. It ends with the client.
func (s *Sandbox) FS() fs.FS { return fsbridge.FS(s.c.life, s.Files()) }

// Files returns the operations on files of the sandbox. Relative paths are in the
// workspace, and absolute ones as they are inside. Names that are no valid UTF-8
// are listed with U+FFFD for what is not, and cannot be opened.
func (s *Sandbox) Files() sandbox.Files { return restFiles{s.api, s.name} }

// restFiles are the files of a sandbox over the HTTP API.
type restFiles struct {
	api  *API
	name string // of the sandbox
}

var (
	_ sandbox.Files   = restFiles{}
	_ fsbridge.Linker = restFiles{}
)

// fileError adds to an error of the daemon the one of package fs that says the
// same, which callers of file operations test for.
func fileError(err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok {
		return err
	}
	var same error
	switch e.Code {
	case sandbox.CodeNotFound:
		same = fs.ErrNotExist
	case sandbox.CodeCapabilityBlocked:
		same = fs.ErrPermission
	default:
		return err
	}
	with := *e
	with.Err = same
	return &with
}

// Read implements sandbox.Files.
func (f restFiles) Read(ctx context.Context, name string, offset, limit int64) (io.ReadCloser, error) {
	if offset <= 0 && limit < 0 {
		r, err := f.api.ReadFile(ctx, f.name, name)
		return r, fileError(err)
	}
	info, err := f.api.FollowFile(ctx, f.name, name)
	if err != nil {
		return nil, fileError(err)
	}
	if info.Type == "dir" {
		return nil, &sandbox.Error{Code: sandbox.CodeValidation, Op: "read file", Resource: name, Message: "it is a folder"}
	}
	if limit == 0 || offset >= info.Size {
		return io.NopCloser(strings.NewReader("")), nil
	}
	r, err := f.api.ReadPart(ctx, f.name, name, max(offset, 0), max(limit, 0))
	return r, fileError(err)
}

// Write implements sandbox.Files.
func (f restFiles) Write(ctx context.Context, name string, r io.Reader, o sandbox.WriteOptions) error {
	if r == nil {
		r = strings.NewReader("")
	}
	from := &source{Reader: r}
	_, err := f.api.WriteFileWith(ctx, f.name, name, from, WriteOptions{Exclusive: o.Exclusive, Mode: o.Perm})
	switch {
	case err == nil:
		return nil
	case from.err != nil:
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "write file", Field: "path", Resource: name, Message: "what is to be written cannot be read", Err: from.err}
	case o.Exclusive && isCode(err, sandbox.CodeBusy):
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "write file", Resource: name, Message: "the file exists already", Err: fs.ErrExist}
	}
	return fileError(err)
}

// Mkdir implements sandbox.Files.
func (f restFiles) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	r := api.MakeFolder{Path: absolute(name)}
	if perm != 0 {
		r.Mode = strconv.FormatUint(uint64(perm.Perm()), 8)
	}
	_, err := f.api.MakeFolder(ctx, f.name, r)
	return fileError(err)
}

// Remove implements sandbox.Files.
func (f restFiles) Remove(ctx context.Context, name string, recursive bool) error {
	return fileError(f.api.RemoveFile(ctx, f.name, name, recursive))
}

// Rename implements sandbox.Files.
func (f restFiles) Rename(ctx context.Context, from, to string) error {
	_, err := f.api.MoveFile(ctx, f.name, api.MoveFile{From: absolute(from), To: absolute(to), Overwrite: true})
	return fileError(err)
}

// Stat implements sandbox.Files.
func (f restFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := f.api.FollowFile(ctx, f.name, name)
	if err != nil {
		return nil, fileError(err)
	}
	return entryOf(info)
}

// Lstat implements fsbridge.Linker.
func (f restFiles) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := f.api.StatFile(ctx, f.name, name)
	if err != nil {
		return nil, fileError(err)
	}
	return entryOf(info)
}

// ReadLink implements fsbridge.Linker.
func (f restFiles) ReadLink(ctx context.Context, name string) (string, error) {
	info, err := f.api.StatFile(ctx, f.name, name)
	if err != nil {
		return "", fileError(err)
	}
	if info.Type != "symlink" {
		return "", &sandbox.Error{Code: sandbox.CodeValidation, Op: "read link", Resource: name, Message: "it is no link", Err: fs.ErrInvalid}
	}
	return info.Target, nil
}

// Symlink implements fsbridge.Linker.
func (f restFiles) Symlink(ctx context.Context, target, name string) error {
	_, err := f.api.MakeLink(ctx, f.name, api.MakeLink{Target: target, Path: absolute(name)})
	if isCode(err, sandbox.CodeBusy) {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "make link", Resource: name, Message: "there is something at the path already", Err: fs.ErrExist}
	}
	return fileError(err)
}

// ReadDir implements sandbox.Files.
func (f restFiles) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	out := []fs.DirEntry{}
	for cursor := ""; ; {
		page, err := f.api.ListFiles(ctx, f.name, name, cursor)
		if err != nil {
			return nil, fileError(err)
		}
		for _, one := range page.Items {
			e, err := entryOf(one)
			if err != nil {
				return nil, err
			}
			out = append(out, fs.FileInfoToDirEntry(e))
		}
		if page.Next == "" {
			return out, nil
		}
		if page.Next == cursor || len(page.Items) == 0 {
			return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list files", Message: "the daemon answers with pages without end"}
		}
		cursor = page.Next
	}
}

// absolute returns the path inside that a name means.
func absolute(name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return sandbox.WorkspaceDir + "/" + name
}

// An entry is an fs.FileInfo of an entry that the daemon describes.
type entry struct {
	f    api.File
	mode fs.FileMode
}

func entryOf(f api.File) (entry, error) {
	perm, err := strconv.ParseUint(f.Mode, 8, 16)
	if err != nil || !fsbridge.IsName(f.Name) && path.Clean(f.Path) != "/" {
		return entry{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "list files", Message: "the daemon describes an entry that cannot be"}
	}
	mode := fs.FileMode(perm) & fs.ModePerm
	switch f.Type {
	case "dir":
		mode |= fs.ModeDir
	case "symlink":
		mode |= fs.ModeSymlink
	case "other":
		mode |= fs.ModeIrregular
	}
	return entry{f, mode}, nil
}

func (e entry) Name() string       { return e.f.Name }
func (e entry) Size() int64        { return e.f.Size }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return e.f.ModifiedAt }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return nil }
