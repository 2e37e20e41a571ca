//go:build linux

package files

import (
	"encoding/binary"
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// info translates a description.
func info(st *unix.Stat_t) wire.FileInfo {
	return wire.FileInfo{Mode: st.Mode, Size: uint64(max(st.Size, 0)), Seconds: int64(st.Mtim.Sec), Nanos: uint32(st.Mtim.Nsec)}
}

// Stat describes what rel leads to.
func (r *Root) Stat(rel string) (wire.FileInfo, error) {
	if r.single == "" {
		fd, err := r.k.openat2(r.fd, orDot(rel), unix.O_PATH, r.resolve())
		if err == nil {
			defer unix.Close(fd)
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			return info(&st), err
		}
		if !unsure(err) {
			return wire.FileInfo{}, err
		}
	}
	for range maxTries {
		p, err := r.follow(rel, false)
		if err != nil {
			return wire.FileInfo{}, err
		}
		st, err := lstat(p.dir, p.base)
		p.close()
		if err != nil || kind(&st) != unix.S_IFLNK {
			return info(&st), err
		}
	}
	return wire.FileInfo{}, unix.EAGAIN
}

// orDot is rel, or "." for the root.
func orDot(rel string) string {
	if rel == "" {
		return "."
	}
	return rel
}

// Lstat describes what is at rel itself.
func (r *Root) Lstat(rel string) (wire.FileInfo, error) {
	p, err := r.parent(rel, false)
	if err != nil {
		return wire.FileInfo{}, err
	}
	defer p.close()
	st, err := lstat(p.dir, p.base)
	return info(&st), err
}

// ReadLink returns where the link at rel points to.
func (r *Root) ReadLink(rel string) (string, error) {
	p, err := r.parent(rel, false)
	if err != nil {
		return "", err
	}
	defer p.close()
	return readlink(p.dir, p.base)
}

// open opens what rel leads to, without waiting for anybody.
func (r *Root) open(rel string, flags int) (int, error) {
	flags |= unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if r.single == "" {
		fd, err := r.k.openat2(r.fd, orDot(rel), uint64(flags), r.resolve())
		if err == nil || !unsure(err) {
			return fd, err
		}
	}
	for range maxTries {
		p, err := r.follow(rel, false)
		if err != nil {
			return -1, err
		}
		fd, err := openat(p.dir, p.base, flags)
		p.close()
		if err != unix.ELOOP {
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

// Open opens the regular file that rel leads to for reading.
func (r *Root) Open(rel string) (fd int, m wire.FileInfo, err error) {
	fd, err = r.open(rel, 0)
	if err == unix.ENXIO || err == unix.ENODEV {
		return -1, m, ErrIrregular // a socket, or a device without driver
	}
	if err != nil {
		return -1, m, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case kind(&st) == unix.S_IFDIR:
		err = unix.EISDIR
	case kind(&st) != unix.S_IFREG:
		err = ErrIrregular
	default:
		return fd, info(&st), nil
	}
	unix.Close(fd)
	return -1, m, err
}

// ReadAt fills b from the file fd at offset, and returns less only at the
// end of the file.
func ReadAt(fd int, b []byte, offset int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(fd, b[done:], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

// A Dir is an open folder that is being listed.
type Dir struct {
	fd   int
	Info wire.FileInfo
	scan scan
}

// OpenDir opens the folder that rel leads to.
func (r *Root) OpenDir(rel string) (*Dir, error) {
	if r.single != "" {
		return nil, unix.ENOTDIR
	}
	fd, err := r.open(rel, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Dir{fd: fd, Info: info(&st)}, nil
}

// Close closes the folder.
func (d *Dir) Close() { unix.Close(d.fd) }

// Append appends entries to b in their wire form as long as they certainly
// fit into most bytes. Entries that vanish meanwhile are left out. More is
// false when there are no further ones.
func (d *Dir) Append(b []byte, most int) (out []byte, more bool, err error) {
	for len(b)+wire.MaxFileEntry <= most {
		name, _, err := d.scan.next(d.fd)
		if err != nil || name == "" {
			return b, false, err
		}
		st, err := lstat(d.fd, name)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return b, false, err
		}
		b = wire.AppendFileEntry(b, wire.FileEntry{Info: info(&st), Name: name})
	}
	return b, true, nil
}

// A scan goes through the names in a folder.
type scan struct {
	buf []byte // as getdents64 filled it
	at  int    // where the next record begins
}

// scanSize is the buffer for getdents64 in bytes.
const scanSize = 8 << 10

// The layout of struct linux_dirent64.
const (
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// next returns the next name in the folder fd and its kind, as far as the
// file system tells it; "" after the last one. "." and ".." are left out.
func (s *scan) next(fd int) (name string, kind byte, err error) {
	for {
		if s.at >= len(s.buf) {
			if s.buf == nil {
				s.buf = make([]byte, scanSize)
			}
			n, err := unix.Getdents(fd, s.buf[:cap(s.buf)])
			if err == unix.EINTR {
				continue
			}
			if err != nil || n <= 0 {
				return "", 0, err
			}
			s.buf, s.at = s.buf[:n], 0
		}
		rest := s.buf[s.at:]
		size := int(binary.LittleEndian.Uint16(rest[direntLen:]))
		raw := string(rest[direntName:size])
		s.at += size
		if end := strings.IndexByte(raw, 0); end >= 0 {
			raw = raw[:end]
		}
		if raw != "" && raw != "." && raw != ".." {
			return raw, rest[direntType], nil
		}
	}
}
