package statedir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// AgentSettings makes the folder key of settings files, which a sandbox is shown,
// hold these files and nothing else, and returns its path. The files are named by
// their path in it. A file that has its content already is left as it is, and
// others are replaced as a whole, so that a sandbox which has the folder reads the
// old or the new. Everybody may read them; the folders above are private.
func (d *Dir) AgentSettings(key string, files map[string][]byte) (string, error) {
	above, err := MakePrivate(filepath.Join(d.path, "agents"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(above, key)
	if err := MakeShown(dir); err != nil {
		return "", err
	}
	fail := func(err error) (string, error) { return "", Unavailable("write agent settings", dir, err) }
	wanted := map[string]bool{}
	for name, data := range files {
		if !filepath.IsLocal(name) || filepath.Clean(name) != name {
			return "", &sandbox.Error{Code: sandbox.CodeInternal, Op: "write agent settings", Resource: name, Message: "the name of a settings file leads out of its folder"}
		}
		for folder := filepath.Dir(name); folder != "."; folder = filepath.Dir(folder) {
			wanted[folder] = true
		}
		wanted[name] = true
		if err := putShown(dir, name, data); err != nil {
			return fail(err)
		}
	}
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir || wanted[strings.TrimPrefix(p, dir+"/")] {
			return err
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return dir, nil
}

// putShown writes one file below dir, with the folders on its way.
func putShown(dir, name string, data []byte) error {
	at := dir
	parts := strings.Split(filepath.Dir(name), "/")
	for _, part := range parts {
		if part == "." {
			continue
		}
		at = filepath.Join(at, part)
		if fi, err := os.Lstat(at); err == nil && !fi.IsDir() {
			if err := os.Remove(at); err != nil {
				return err
			}
		}
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Chmod(at, 0o755); err != nil { // whatever the umask is
			return err
		}
	}
	p := filepath.Join(dir, name)
	if fi, err := os.Lstat(p); err == nil {
		switch {
		case fi.IsDir():
			if err := os.RemoveAll(p); err != nil {
				return err
			}
		case fi.Mode() == 0o644:
			if had, err := os.ReadFile(p); err == nil && bytes.Equal(had, data) {
				return nil
			}
		}
	}
	f, err := os.CreateTemp(at, ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone once it is renamed
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), p)
}
