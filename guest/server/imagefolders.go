//go:build linux

package server

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// imageArchive is the file in the folder of the socket that holds what the image
// has in folders in memory. The host has put it there; code inside could put
// another one there before the folder was closed to it, by which it would reach
// no more than by itself.
const imageArchive = "image.tar"

// fillFolders puts into folders in memory what an archive holds, and returns a
// sentence where that fails. No archive is nothing to do.
func fillFolders(archive string) (unset []string) {
	f, err := os.OpenFile(archive, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer f.Close()
		err = unpack(tar.NewReader(f))
	}
	if err != nil {
		unset = append(unset, "not all that the image has in folders in memory is there: "+err.Error())
	}
	return unset
}

// homeDir is where the home lies inside, as in package sandbox.
const homeDir = "/home/sandbox"

// keeps reports whether the folder dir lies on a disk and holds something: it
// was filled when the sandbox was started first, and is left as it is now.
func keeps(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type == unix.TMPFS_MAGIC {
		return false
	}
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) > 0
}

// unpack makes the entries of an archive, whose names are whole paths without
// the first slash.
func unpack(in *tar.Reader) error {
	var folders []*tar.Header
	kept := keeps(homeDir)
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)
		if kept && strings.HasPrefix(name, homeDir+"/") {
			continue
		}
		switch h.Typeflag {
		case tar.TypeDir:
			if err = os.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
				err = nil
			}
			folders = append(folders, h)
		case tar.TypeReg:
			err = unpackFile(name, h, in)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		case tar.TypeLink:
			err = os.Link(path.Clean("/"+h.Linkname), name)
		}
		if err != nil {
			return err
		}
	}
	for _, h := range slices.Backward(folders) { // what is in a folder was made before its mode
		name := path.Clean("/" + h.Name)
		if err := unix.Chmod(name, uint32(h.Mode)&0o1777|0o700); err != nil {
			return &os.PathError{Op: "chmod", Path: name, Err: err}
		}
		_ = os.Chtimes(name, h.ModTime, h.ModTime)
	}
	return nil
}

func unpackFile(name string, h *tar.Header, in io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if chmod := unix.Fchmod(int(f.Fd()), uint32(h.Mode)&0o1777); chmod != nil && err == nil {
		err = &os.PathError{Op: "chmod", Path: name, Err: chmod}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Chtimes(name, h.ModTime, h.ModTime)
}
