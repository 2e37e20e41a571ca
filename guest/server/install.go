//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Install prepares the volumes of a sandbox that an orchestrator mounts: it copies
// this program and makes folders that belong to the user of this process. It
// returns the exit code of the process.
//
//	install [--to=FOLDER]      copy this program to FOLDER/sandbox-guest, mode 0555
//	install --dir=MODE:FOLDER  make FOLDER with that octal mode
//
// It may be repeated: an orchestrator runs it again when it restarts a sandbox.
func Install(args []string) int {
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "--to":
			err = copySelf(value)
		case "--dir":
			var m folderMode
			if m, err = parseFolderMode(value); err == nil {
				err = makeFolder(m)
			}
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			return complain(errors.New(a + ": " + err.Error()))
		}
	}
	return 0
}

// makeFolder makes a folder, or sets the mode of the one that is there.
func makeFolder(m folderMode) error {
	if err := os.Mkdir(m.folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return unix.Chmod(m.folder, m.mode) // of os.Mkdir the umask takes a part
}

// copySelf copies the program of this process to dir. The copy appears whole or
// not at all.
func copySelf(dir string) error {
	from, err := os.Open(selfExe)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, ".sandbox-guest-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(to.Name(), 0o555)
	}
	if err == nil {
		err = os.Rename(to.Name(), filepath.Join(dir, "sandbox-guest"))
	}
	if err != nil {
		_ = os.Remove(to.Name())
	}
	return err
}
