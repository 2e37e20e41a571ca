package fake

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// image returns the files that a sandbox of s starts with outside its mounts.
func (e *Engine) image(s sandbox.Spec) *memfsVolume {
	root := e.disk.Tree(0, 0o755, 0)
	files := newFS(root, 0, false)
	system := files.Free()
	for _, dir := range []string{"/bin", "/usr", "/usr/bin", "/etc", "/dev", "/home", "/var"} {
		must(system.Mkdir(dir, 0o755))
	}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		must(system.Mkdir(dir, 0o777))
		must(system.Chmod(dir, 0o777|fs.ModeSticky))
	}
	for _, dir := range []string{sandbox.WorkspaceDir, sandbox.HomeDir} {
		must(system.Mkdir(dir, 0o755))
		must(files.Chown(dir, s.UID))
	}
	for _, name := range slices.Sorted(maps.Keys(e.programs)) {
		for _, dir := range []string{"/bin/", "/usr/bin/"} {
			must(put(system, dir+name, 0o755, "a program of the fake\n"))
		}
	}
	must(put(system, "/etc/passwd", 0o644, "root:x:0:0::/:/bin/sh\nsandbox:x:1000:1000::"+sandbox.HomeDir+":/bin/sh\n"))
	for _, device := range []string{deviceNull, deviceZero} {
		must(files.Device("/dev/"+device, device))
	}
	return root
}

func put(v memfsView, name string, perm fs.FileMode, content string) error {
	h, err := v.Open(name, memfsWrite|memfsCreate, perm)
	if err != nil {
		return err
	}
	if _, err := h.Write([]byte(content)); err != nil {
		return err
	}
	return h.Close()
}

// must panics on an error of an operation that cannot fail because no other
// code knows the files yet.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// mountAll puts a sandbox's file system together for one run. What lies on a
// tmpfs is new each time; the root and folders of the host stay.
func (e *Engine) mountAll(b *box) (*memfsFS, error) {
	s := b.spec
	f := newFS(b.root, s.UID, s.ReadOnlyRoot)
	mount := func(target string, v *memfsVolume, readOnly bool) error {
		err := f.Mount(target, v, readOnly)
		if err == nil {
			return nil
		}
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "start", Resource: s.Name, Field: "mounts",
			Message: "nothing can be mounted at " + target, Err: err,
		}
	}
	for _, t := range s.Tmpfs {
		owner := 0
		if t.Owned {
			owner = s.UID
		}
		mode := fs.FileMode(t.Mode).Perm()
		if t.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if err := mount(t.Target, e.disk.Tree(owner, mode, t.Size), false); err != nil {
			return nil, err
		}
	}
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleIdentity {
			continue // the image's own will do
		}
		if err := mount(m.Target, e.folderLocked(m.Source, s.UID), m.ReadOnly); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// folderLocked returns what lies at source on the host. The first caller owns
// a folder that does not exist yet.
func (e *Engine) folderLocked(source string, uid int) *memfsVolume {
	v := e.folders[source]
	if v == nil {
		v = e.disk.Tree(uid, 0o755, 0)
		e.folders[source] = v
	}
	return v
}

// A Folder is a folder of the host, as its owner sees it.
type Folder struct{ view memfsView }

// Folder returns the folder that mounts of the given source show, made for the
// user uid if it is not there yet. Sandboxes whose mounts name one source
// share it, and it outlives them.
func (e *Engine) Folder(source string, uid int) Folder {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Folder{newFS(e.folderLocked(source, uid), uid, false).Free()}
}

// Write makes or replaces the file name, which is relative to the folder, and
// its missing parents.
func (f Folder) Write(name string, perm fs.FileMode, content string) error {
	full := path.Join("/", name)
	for i := 1; i < len(full); i++ {
		if full[i] == '/' {
			if _, err := f.view.Stat(full[:i]); err != nil {
				if err := f.view.Mkdir(full[:i], 0o755); err != nil {
					return &fs.PathError{Op: "mkdir", Path: full[:i], Err: err}
				}
			}
		}
	}
	if err := put(f.view, full, perm, content); err != nil {
		return &fs.PathError{Op: "write", Path: full, Err: err}
	}
	return nil
}

// Read returns the content of the file name.
func (f Folder) Read(name string) (string, error) {
	full := path.Join("/", name)
	h, err := f.view.Open(full, 0, 0)
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: full, Err: err}
	}
	defer h.Close()
	var b strings.Builder
	buf := make([]byte, chunkSize)
	for {
		n, err := h.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String(), nil // the end: the content of a file has no other error
		}
	}
}
