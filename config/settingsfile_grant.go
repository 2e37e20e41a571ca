package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// lockPatience is how long another process may take for its own edit.
const lockPatience = 2 * time.Second

// AllowPermanent adds g to the settings file that [Load] reads for flag, as
// [Edit] does. A file that does not exist is made, for us alone.
//
// The file is replaced atomically and keeps its permissions. AllowPermanent
// leaves it alone when another user owns it ([sandbox.CodePermissionDeny]),
// when another process changes it at the same time ([sandbox.CodeBusy]), and
// when the result would not be a valid settings file. The settings may name
// the given providers beside the built-in ones.
func AllowPermanent(flag, agent string, g sandbox.Grant, providers ...string) error {
	path, _, err := locateSettingsfile(flag, systemFile)
	if err != nil {
		return err
	}
	f, err := readSettingsfile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dangling(path) {
			return refuse(sandbox.CodeValidation, path, "the settings file is a link to nothing", "make it, or remove the link", err)
		}
		if f.Path, err = filepath.Abs(path); err != nil {
			return refuse(sandbox.CodeUnavailable, path, "the settings file cannot be found", "check the path", err)
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return refuse(sandbox.CodeUnavailable, path, "the folder of the settings file cannot be made", "", err)
		}
	case err != nil:
		return err
	}
	unlock, err := lock(filepath.Dir(f.Path))
	if err != nil {
		return err
	}
	defer unlock()
	// What was read before the lock may be old.
	if now, err := readSettingsfile(f.Path); err == nil {
		f = now
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	edited, err := editSettingsfile(f.Data, agent, g, providers...)
	if err != nil || bytes.Equal(edited, f.Data) {
		return err
	}
	return replace(f, edited)
}

// replace puts data in the place of the file f, unless that is another one by
// now.
func replace(f settingsfileFile, data []byte) error {
	if err := checkFolder(f.Path); err != nil {
		return err
	}
	if err := ours(f); err != nil {
		return err
	}
	dir := filepath.Dir(f.Path)
	p, err := renameio.NewPendingFile(f.Path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600), renameio.WithExistingPermissions())
	if err != nil {
		return refuse(sandbox.CodeUnavailable, f.Path, "the settings file cannot be written", "make its folder writable for the user that runs sandbox", err)
	}
	defer p.Cleanup()
	if _, err := p.Write(data); err != nil {
		return refuse(sandbox.CodeUnavailable, f.Path, "the settings file cannot be written", "", err)
	}
	if err := p.Sync(); err != nil {
		return refuse(sandbox.CodeUnavailable, f.Path, "the settings file cannot be written", "", err)
	}
	if err := unchanged(f); err != nil {
		return err
	}
	if err := p.CloseAtomicallyReplace(); err != nil {
		return refuse(sandbox.CodeUnavailable, f.Path, "the settings file cannot be replaced", "", err)
	}
	return nil
}

// unchanged refuses when the file is not what was read.
func unchanged(f settingsfileFile) error {
	now, err := readSettingsfile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		now, err = settingsfileFile{Path: f.Path}, nil
	}
	if err != nil {
		return err
	}
	if now.Path != f.Path || !bytes.Equal(now.Data, f.Data) {
		e := refuse(sandbox.CodeBusy, f.Path, "the settings file was changed meanwhile, so it was left alone", "try again", nil)
		e.(*sandbox.Error).Retryable = true
		return e
	}
	return nil
}

// ours refuses a file of another user, and one with further hard links: after
// a replacement those would still name the old content.
func ours(f settingsfileFile) error {
	var st unix.Stat_t
	if err := unix.Lstat(f.Path, &st); err != nil {
		if errors.Is(err, unix.ENOENT) && f.Data == nil {
			return nil
		}
		return refuse(sandbox.CodeUnavailable, f.Path, "the settings file cannot be examined", "", err)
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return refuse(sandbox.CodePermissionDeny, f.Path, fmt.Sprintf("the settings file belongs to uid %d and is not changed by others", st.Uid), "add the rule by hand", nil)
	case st.Nlink > 1:
		return refuse(sandbox.CodeUnsupported, f.Path, "the settings file has several names, of which only one would change", "add the rule by hand", nil)
	}
	return nil
}

// lock keeps other processes of ours from editing a file of dir. The folder
// itself is locked, so no lock file is left in it.
func lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, refuse(sandbox.CodeUnavailable, dir, "the folder of the settings file cannot be opened", "", err)
	}
	for end := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() {
				// A process that is being started holds the descriptor too until it
				// executes its program, and with it the lock.
				_ = unix.Flock(int(d.Fd()), unix.LOCK_UN)
				d.Close()
			}, nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			d.Close()
			return nil, refuse(sandbox.CodeUnavailable, dir, "the folder of the settings file cannot be locked", "", err)
		case time.Now().After(end):
			d.Close()
			return nil, refuse(sandbox.CodeBusy, dir, "another program changes the settings file", "try again", err)
		}
	}
}
