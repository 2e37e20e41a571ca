package copy

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Unpack makes what the tar archive r holds below the folder dir, which is
// made when missing. Files replace files. Permission bits are kept, set-id
// and sticky bits, owners and times are not. A hard link becomes a copy of
// the entry it names, which must come before it. Symbolic links are made
// last, so that no entry of the archive goes through one.
//
// An entry that breaks a rule (see the package comment) is
// [sandbox.CodeCapabilityBlocked], one over a limit
// [sandbox.CodeBudgetExceeded], and a malformed archive
// [sandbox.CodeValidation]. Entries before it are there then.
func UnpackTree(ctx context.Context, f sandbox.Files, dir string, r io.Reader, limits Limits) error {
	if err := fsbridge.MkdirAll(ctx, f, dir, 0o755); err != nil {
		return err
	}
	u := &unpacker{
		ctx: ctx, files: f, dir: dir, count: count{limits: limits.orDefaults()},
		links: map[string]string{}, made: map[string]fs.FileMode{},
	}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return u.makeLinks()
		}
		if err != nil {
			return tarstreamMalformed(err)
		}
		if err := u.entry(h, in); err != nil {
			return err
		}
	}
}

func tarstreamMalformed(err error) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "unpack", Field: "archive", Message: "the archive is malformed", Err: err}
}

type unpacker struct {
	ctx   context.Context // of the one Unpack that it belongs to
	files sandbox.Files
	dir   string
	count count
	order []string               // names of symbolic links, as they came
	links map[string]string      // their targets
	made  map[string]fs.FileMode // regular files so far
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	size := int64(0)
	if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
		size = h.Size
	}
	if err := u.count.add("unpack", name, size); err != nil {
		return err
	}
	if err := u.count.hold("unpack", name, h.Linkname); err != nil {
		return err
	}
	for p := path.Dir(name); p != "."; p = path.Dir(p) {
		if _, ok := u.links[p]; ok {
			return refused(name, "goes through a link of the archive")
		}
	}
	if _, ok := u.links[name]; ok && h.Typeflag != tar.TypeSymlink {
		return refused(name, "has the name of a link of the archive")
	}
	mode := fs.FileMode(h.Mode) & 0o777
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name, mode)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, mode, content)
	case tar.TypeLink:
		return u.hardLink(name, h.Linkname)
	case tar.TypeSymlink:
		return u.symlink(name, h.Linkname)
	}
	return refused(name, "is neither a file, a folder nor a link")
}

func (u *unpacker) at(name string) string {
	if name == "." {
		return u.dir
	}
	return strings.TrimSuffix(u.dir, "/") + "/" + name
}

// folder makes a folder that we can at least fill.
func (u *unpacker) folder(name string, mode fs.FileMode) error {
	return fsbridge.MkdirAll(u.ctx, u.files, u.at(name), mode|0o700)
}

func (u *unpacker) file(name string, mode fs.FileMode, content io.Reader) error {
	if name == "." {
		return refused(name, "is a file with the name of the destination")
	}
	if mode == 0 {
		mode = 0o600
	}
	in := &source{r: content}
	err := u.files.Write(u.ctx, u.at(name), in, sandbox.WriteOptions{Perm: mode})
	if cause := in.failure(); cause != nil {
		return tarstreamMalformed(cause)
	}
	if err == nil {
		u.made[name] = mode
	}
	return err
}

// A source remembers a malformed archive, which is not the sandbox's fault.
type source struct {
	r io.Reader

	mu  sync.Mutex
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (u *unpacker) hardLink(name, target string) error {
	from, err := cleanName(target)
	if err != nil {
		return err
	}
	mode, ok := u.made[from]
	if !ok || name == "." {
		return refused(name, "is a hard link to "+termsafe.Line(target)+", which is no earlier file of the archive")
	}
	if from == name {
		return nil
	}
	info, err := u.files.Stat(u.ctx, u.at(from))
	if err != nil {
		return err
	}
	if err := u.count.add("unpack", name, info.Size()); err != nil {
		return err
	}
	if err := fsbridge.Copy(u.ctx, u.files, u.at(from), u.at(name)); err != nil {
		return err
	}
	u.made[name] = mode
	return nil
}

func (u *unpacker) symlink(name, target string) error {
	if name == "." {
		return refused(name, "is a link with the name of the destination")
	}
	if err := checkTarget(name, target); err != nil {
		return err
	}
	if _, ok := u.links[name]; !ok {
		u.order = append(u.order, name)
	}
	u.links[name] = target
	return nil
}

// makeLinks makes the symbolic links. One replaces a file or link of its
// name; a folder in its place is an error.
func (u *unpacker) makeLinks() error {
	if len(u.order) == 0 {
		return nil
	}
	l, ok := u.files.(fsbridge.Linker)
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "unpack", Message: "the archive has links, and this sandbox's file transport cannot make them"}
	}
	for _, name := range u.order {
		if parent := path.Dir(name); parent != "." {
			if err := fsbridge.MkdirAll(u.ctx, u.files, u.at(parent), 0o755); err != nil {
				return err
			}
		}
		if err := u.staysReal(l, name); err != nil {
			return err
		}
		full := u.at(name)
		err := l.Symlink(u.ctx, u.links[name], full)
		if errors.Is(err, fs.ErrExist) {
			info, statErr := l.Lstat(u.ctx, full)
			if statErr != nil || info.IsDir() {
				return errors.Join(err, statErr)
			}
			if err = u.files.Remove(u.ctx, full, false); err == nil {
				err = l.Symlink(u.ctx, u.links[name], full)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// staysReal refuses a link whose target climbs out of something that is a
// folder in the archive and a link in the destination, where an earlier
// archive may have put it: from there ".." leads elsewhere than the names say.
func (u *unpacker) staysReal(l fsbridge.Linker, name string) error {
	ups, _ := climbs(u.links[name])
	for p := path.Dir(name); ups > 0 && p != "."; p = path.Dir(p) {
		info, err := l.Lstat(u.ctx, u.at(p))
		if sandbox.IsNotFound(err) {
			return nil // it was left out, so no link can be made in it
		}
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return refused(name, "is a link that climbs out of "+termsafe.Line(p)+", which is a link in the destination")
		}
		ups--
	}
	return nil
}
