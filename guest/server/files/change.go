//go:build linux

package files

import "golang.org/x/sys/unix"

// Mkdir makes one folder with exactly the permission bits perm.
func (r *Root) Mkdir(rel string, perm uint32) error {
	p, err := r.change(rel, unix.EEXIST)
	if err != nil {
		return err
	}
	defer p.close()
	return r.k.mkdir(p.dir, p.base, perm)
}

// mkdir makes a folder in dir. Where the umask took some bits they are set
// afterwards: if user code puts another folder in the place of the new one,
// that changes the mode of that, as it could itself.
func (k Kernel) mkdir(dir int, name string, perm uint32) error {
	taken := perm & k.Umask
	first := perm
	if taken != 0 {
		first |= unix.S_IRUSR // to be opened again
	}
	if err := unix.Mkdirat(dir, name, first); err != nil || taken == 0 {
		return err
	}
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, perm)
}

// change finds the place of a name that is going to change. A mount, or a
// path that ends with "..", is none; that is wrong.
func (r *Root) change(rel string, wrong error) (place, error) {
	p, err := r.parent(rel, false)
	if err == nil && (p.base == "." || r.single != "") {
		p.close()
		return place{}, wrong
	}
	return p, err
}

// Symlink makes a link to target at rel, which must not exist.
func (r *Root) Symlink(target, rel string) error {
	p, err := r.change(rel, unix.EEXIST)
	if err != nil {
		return err
	}
	defer p.close()
	return unix.Symlinkat(target, p.dir, p.base)
}

// Rename renames from to to as rename(2) does, links themselves included.
func (r *Root) Rename(from, to string) error {
	p, err := r.change(from, unix.EBUSY)
	if err != nil {
		return err
	}
	defer p.close()
	q, err := r.change(to, unix.EBUSY)
	if err != nil {
		return err
	}
	defer q.close()
	return unix.Renameat(p.dir, p.base, q.dir, q.base)
}

// Remove removes a file, a link itself or an empty folder.
func (r *Root) Remove(rel string) error {
	p, err := r.change(rel, unix.EBUSY)
	if err != nil {
		return err
	}
	defer p.close()
	return unlink(p.dir, p.base, unix.DT_UNKNOWN)
}

// unlink removes a name whose kind may be known. What is not empty is
// ENOTEMPTY.
func unlink(dir int, name string, kind byte) error {
	for range maxTries {
		err := error(unix.EISDIR)
		if kind != unix.DT_DIR {
			err = unix.Unlinkat(dir, name, 0)
		}
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		switch err {
		case unix.EINTR:
		case unix.ENOTDIR: // it has just become something else
			kind = unix.DT_UNKNOWN
		case unix.EEXIST:
			return unix.ENOTEMPTY
		default:
			return err
		}
	}
	return unix.EAGAIN
}
