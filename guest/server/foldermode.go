//go:build linux

package server

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A folderMode is the mode that a folder in memory is to have.
type folderMode struct {
	folder string
	mode   uint32
}

// parseFolderMode reads MODE:FOLDER.
func parseFolderMode(s string) (folderMode, error) {
	octal, folder, _ := strings.Cut(s, ":")
	mode, err := strconv.ParseUint(octal, 8, 32)
	switch {
	case err != nil || mode > 0o1777:
		return folderMode{}, errors.New("not an octal mode up to 1777")
	case !path.IsAbs(folder):
		return folderMode{}, errors.New("not an absolute folder")
	}
	return folderMode{folder: folder, mode: uint32(mode)}, nil
}

// setModes sets the modes, and returns a sentence for each that could not be
// set. A runtime that gives such folders to another user is one reason.
func setModes(modes []folderMode) (unset []string) {
	for _, m := range modes {
		if err := unix.Chmod(m.folder, m.mode); err != nil {
			unset = append(unset, m.folder+" does not have the mode "+strconv.FormatUint(uint64(m.mode), 8)+": "+err.Error())
		}
	}
	return unset
}
