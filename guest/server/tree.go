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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxTreeLeft bounds how many of the things that are left out are named.
const maxTreeLeft = 100

// Tree is the mode by which a command of the sandbox packs a folder, or makes it
// what an archive holds, and returns the exit code of the process. It has the rights
// of any command, and works where the image has no program for that.
//
//	tree pack FOLDER     write FOLDER as a tar archive to standard output
//	tree unpack FOLDER   make FOLDER what the archive on standard input holds
//
// What is packed: names, whatever bytes they have, content, links of both kinds,
// pipes, modes without set-id bits, and times of change. Sockets, devices and other
// mounts below FOLDER are not; standard error names them, one a line. Owners are
// not kept, because all belongs to the user of the sandbox.
//
// Unpacking first removes all that is in FOLDER, so that it needs no more room than
// what it makes, but for other mounts, and goes through no link.
func Tree(args []string) int {
	if len(args) != 2 || !path.IsAbs(args[1]) {
		return complain(errors.New("usage: tree pack|unpack FOLDER"))
	}
	root, err := os.OpenRoot(args[1])
	if err != nil {
		return complain(err)
	}
	defer root.Close()
	t := &treeWork{root: root}
	top, err := root.Lstat(".")
	if err != nil {
		return complain(err)
	}
	t.dev = statOf(top).Dev
	switch args[0] {
	case "pack":
		err = t.pack(os.Stdout)
	case "unpack":
		err = t.unpack(os.Stdin)
	default:
		err = errors.New("unknown mode " + args[0])
	}
	if err != nil {
		return complain(err)
	}
	return 0
}

// A treeWork is one folder that is packed or made.
type treeWork struct {
	root *os.Root
	dev  uint64 // of its file system
	left int

	out   *treeWriter
	links map[[2]uint64]string // names of files with several names, by device and inode

	folders []*tar.Header // whose mode and time are set last
}

func statOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// leave says that something is left out.
func (t *treeWork) leave(name, why string) {
	if t.left++; t.left <= maxTreeLeft {
		_, _ = os.Stderr.WriteString("left " + strconv.Quote(name) + ": " + why + "\n")
	}
}

func (t *treeWork) pack(w io.Writer) error {
	t.out, t.links = &treeWriter{w: w}, map[[2]uint64]string{}
	if err := t.packDir("."); err != nil {
		return err
	}
	return t.out.close()
}

// packDir packs a folder and what is in it.
func (t *treeWork) packDir(dir string) error {
	info, err := t.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return t.gone(err)
	}
	if err := t.out.header(treeHeader(dir+"/", info, tar.TypeDir)); err != nil {
		return err
	}
	restore := t.open(dir, info, 0o500)
	defer restore()
	names, err := t.names(dir)
	if err != nil {
		return t.gone(err)
	}
	for _, name := range names {
		if err := t.packOne(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// gone returns err unless it says that something was removed meanwhile.
func (t *treeWork) gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// open gives a file or folder that its user has closed to itself the mode bits that
// are needed, until restore is called.
func (t *treeWork) open(name string, info fs.FileInfo, need fs.FileMode) (restore func()) {
	if info.Mode()&need == need {
		return func() {}
	}
	if t.root.Chmod(name, treeMode(info.Mode())|need) != nil {
		return func() {} // what needs it says why
	}
	return func() { _ = t.root.Chmod(name, treeMode(info.Mode())) }
}

// treeMode is the mode as chmod takes it, without set-id bits.
func treeMode(m fs.FileMode) fs.FileMode { return m & (fs.ModePerm | fs.ModeSticky) }

// names lists a folder, sorted.
func (t *treeWork) names(dir string) ([]string, error) {
	f, err := t.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func treeHeader(name string, info fs.FileInfo, kind byte) *tar.Header {
	mode := int64(info.Mode().Perm())
	if info.Mode()&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, ModTime: info.ModTime()}
}

// A treeWriter writes an archive in the form of POSIX (pax). The Writer of package
// tar, which chooses between forms, would make the guest larger by 70 KiB.
type treeWriter struct{ w io.Writer }

// treeBlock is what an archive consists of, in bytes.
const treeBlock = 512

// header writes the header of an entry. What has not enough room in its fields, and
// the whole time, goes before it in a header of its own.
func (w *treeWriter) header(h *tar.Header) error {
	records := treeRecord("path", h.Name) + treeRecord("mtime", treeTime(h.ModTime))
	if h.Linkname != "" {
		records += treeRecord("linkpath", h.Linkname)
	}
	size := h.Size
	if size >= 1<<33 {
		records += treeRecord("size", strconv.FormatInt(size, 10))
		size = 0
	}
	if err := w.block('x', int64(len(records)), 0o600); err != nil {
		return err
	}
	if _, err := io.WriteString(w.w, records); err != nil {
		return err
	}
	if err := w.pad(int64(len(records))); err != nil {
		return err
	}
	return w.block(h.Typeflag, size, h.Mode)
}

// block writes one block that is a header.
func (w *treeWriter) block(kind byte, size, mode int64) error {
	var b [treeBlock]byte
	octal := func(at, length int, n int64) {
		digits := strconv.FormatInt(n, 8)
		copy(b[at:], strings.Repeat("0", length-1-len(digits))+digits)
	}
	copy(b[:], "entry")
	octal(100, 8, mode)
	octal(108, 8, 0)
	octal(116, 8, 0)
	octal(124, 12, size)
	octal(136, 12, 0)
	copy(b[148:], "        ") // of the sum, while it is made
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	sum := int64(0)
	for _, c := range b {
		sum += int64(c)
	}
	octal(148, 7, sum)
	b[154] = 0
	_, err := w.w.Write(b[:])
	return err
}

// pad fills the last block of content of that length.
func (w *treeWriter) pad(length int64) error {
	var b [treeBlock]byte
	_, err := w.w.Write(b[:-length&(treeBlock-1)])
	return err
}

// close ends the archive.
func (w *treeWriter) close() error {
	var b [2 * treeBlock]byte
	_, err := w.w.Write(b[:])
	return err
}

// treeRecord is "LENGTH key=value LF", of which the length is all of it.
func treeRecord(key, value string) string {
	rest := " " + key + "=" + value + "\n"
	length := strconv.Itoa(len(rest))
	length = strconv.Itoa(len(rest) + len(length))
	return strconv.Itoa(len(rest)+len(length)) + rest
}

// treeTime is a time in seconds since 1970, with a fraction.
func treeTime(at time.Time) string {
	sec, nano, sign := at.Unix(), at.Nanosecond(), ""
	if sec < 0 {
		sign, sec = "-", -sec
		if nano > 0 {
			sec, nano = sec-1, 1e9-nano
		}
	}
	fraction := strconv.Itoa(nano)
	return sign + strconv.FormatInt(sec, 10) + "." + strings.Repeat("0", 9-len(fraction)) + fraction
}

func (t *treeWork) packOne(name string) error {
	info, err := t.root.Lstat(name)
	if err != nil {
		return t.gone(err)
	}
	st := statOf(info)
	if st.Dev != t.dev {
		t.leave(name, "another file system is mounted there")
		return nil
	}
	if info.IsDir() {
		return t.packDir(name)
	}
	key := [2]uint64{st.Dev, st.Ino}
	if first, ok := t.links[key]; ok {
		h := treeHeader(name, info, tar.TypeLink)
		h.Linkname = first
		return t.out.header(h)
	}
	switch info.Mode().Type() {
	case 0:
		err = t.packFile(name, info)
	case fs.ModeSymlink:
		h := treeHeader(name, info, tar.TypeSymlink)
		if h.Linkname, err = t.root.Readlink(name); err == nil {
			err = t.out.header(h)
		}
	case fs.ModeNamedPipe:
		err = t.out.header(treeHeader(name, info, tar.TypeFifo))
	default:
		t.leave(name, "it is a socket or a device")
		return nil
	}
	if err == nil && st.Nlink > 1 {
		t.links[key] = name
	}
	return t.gone(err)
}

// packFile packs a file at the size that it has now: what it grows by is left out,
// and where it becomes shorter there are zeros.
func (t *treeWork) packFile(name string, info fs.FileInfo) error {
	restore := t.open(name, info, 0o400)
	f, err := t.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	restore()
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !now.Mode().IsRegular() {
		return nil // it was replaced meanwhile
	}
	h := treeHeader(name, info, tar.TypeReg)
	h.Size = now.Size()
	if err := t.out.header(h); err != nil {
		return err
	}
	n, err := io.CopyN(t.out.w, f, h.Size)
	if err == io.EOF {
		_, err = io.CopyN(t.out.w, zeros{}, h.Size-n)
	}
	if err == nil {
		err = t.out.pad(h.Size)
	}
	return err
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (t *treeWork) unpack(r io.Reader) error {
	in := tar.NewReader(r)
	h, err := in.Next()
	if err != nil {
		return err
	}
	if path.Clean(h.Name) != "." || h.Typeflag != tar.TypeDir {
		return errors.New("this is no archive of a folder")
	}
	t.folders = append(t.folders, h)
	if err := t.empty("."); err != nil {
		return err
	}
	for {
		if h, err = in.Next(); err == io.EOF {
			break
		}
		if err == nil {
			err = t.unpackOne(h, in)
		}
		if err != nil {
			return err
		}
	}
	for _, h := range slices.Backward(t.folders) { // what is in a folder changes its time
		name := path.Clean(h.Name)
		err := t.root.Chmod(name, treeMode(h.FileInfo().Mode()))
		if err == nil {
			err = t.root.Chtimes(name, time.Time{}, h.ModTime)
		}
		if err != nil && name != "." { // the folder itself may be another user's
			return err
		}
	}
	return nil
}

// empty removes what is in a folder, but for other mounts and what these lie in.
func (t *treeWork) empty(dir string) error {
	names, err := t.names(dir)
	if err != nil {
		return t.gone(err)
	}
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := t.root.Lstat(name)
		if err != nil {
			if err = t.gone(err); err != nil {
				return err
			}
			continue
		}
		if statOf(info).Dev != t.dev {
			continue
		}
		if info.IsDir() {
			t.open(name, info, 0o700)
			if err := t.empty(name); err != nil {
				return err
			}
		}
		err = t.root.Remove(name)
		if info.IsDir() && (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EBUSY)) {
			continue
		}
		if err = t.gone(err); err != nil {
			return err
		}
	}
	return nil
}

func (t *treeWork) unpackOne(h *tar.Header, in io.Reader) error {
	name := path.Clean(h.Name)
	if name == "." || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return errors.New("the archive has an entry named " + strconv.Quote(h.Name))
	}
	switch h.Typeflag {
	case tar.TypeDir:
		t.folders = append(t.folders, h)
		err := t.root.Mkdir(name, 0o700)
		if errors.Is(err, fs.ErrExist) { // it has a mount in it
			err = nil
		}
		return err
	case tar.TypeReg:
		return t.unpackFile(name, h, in)
	case tar.TypeLink:
		return t.root.Link(path.Clean(h.Linkname), name)
	case tar.TypeSymlink:
		if err := t.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return t.setTime(name, h.ModTime)
	case tar.TypeFifo:
		return t.unpackPipe(name, h)
	}
	return errors.New("the archive has an entry of an unknown kind at " + strconv.Quote(h.Name))
}

func (t *treeWork) unpackFile(name string, h *tar.Header, in io.Reader) error {
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(&holes{f: f}, in)
	if err == nil {
		err = f.Truncate(h.Size) // where it ends with a hole
	}
	if err == nil {
		err = f.Chmod(treeMode(h.FileInfo().Mode()))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.root.Chtimes(name, time.Time{}, h.ModTime)
}

// holes writes a file and leaves out zeros.
type holes struct{ f *os.File }

func (w *holes) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != 0 {
			return w.f.Write(b)
		}
	}
	_, err := w.f.Seek(int64(len(b)), io.SeekCurrent)
	return len(b), err
}

func (t *treeWork) unpackPipe(name string, h *tar.Header) error {
	dir, err := t.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Mknodat(int(dir.Fd()), path.Base(name), unix.S_IFIFO|uint32(h.Mode)&0o777, 0); err != nil {
		return &os.PathError{Op: "mkfifo", Path: name, Err: err}
	}
	if err := t.root.Chmod(name, treeMode(h.FileInfo().Mode())); err != nil {
		return err
	}
	return t.setTime(name, h.ModTime)
}

// setTime sets the time of change of what is at name, also of a link.
func (t *treeWork) setTime(name string, at time.Time) error {
	dir, err := t.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at.Unix(), Nsec: int64(at.Nanosecond())}}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(int(dir.Fd()), path.Base(name), times, unix.AT_SYMLINK_NOFOLLOW))
}
