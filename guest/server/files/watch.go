//go:build linux

package files

import (
	"encoding/binary"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// watched are the changes that the kernel is asked for. What is done to a
	// file that has lost its last name is left out.
	watchedChanges = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	// watchBuffer takes what the kernel has queued, in bytes.
	watchBuffer = 64 << 10
	// watchHalf is how long the second half of a renaming is waited for: the
	// kernel queues both within one system call.
	watchHalf = 10 * time.Millisecond
	// maxWatchQueue bounds the changes that are read to find such a half.
	maxWatchQueue = 4 << 10
	// maxWatchRecords is how much one Report makes, in bytes, but for one change.
	// A scan of what has come to be reports no more than that.
	maxWatchRecords = 4 << 20
	// scanPause is how many entries are looked at between two pauses.
	scanPause = 512
)

// A Watch reports what changes in a folder, and below it if it is recursive, as
// records of [wire.FileChange]. It does not follow links, and it does not watch
// other names of one folder twice.
//
// A folder that comes to be is watched from then on. What lies in it by then is
// reported as created. When the kernel drops changes, the Watch says so and
// looks for the folders anew. Its methods are for one goroutine, but for Close,
// Wake and Moved.
type Watch struct {
	root      *Root
	rel       string   // the watched folder; it is not held open, because its removal would not be reported then
	in        *os.File // of inotify
	recursive bool
	pause     func() error
	top       *watchedDir
	of        map[int32]*watchedDir // by watch descriptor
	fresh     map[*watchedDir]map[string]bool
	queue     []notice // read and not reported
	buf       []byte
	out       []byte // records
	scanned   int
	entries   uint64
	begun     bool // what comes is reported
	gone      bool
	woken     atomic.Bool
	next      atomic.Pointer[Root] // the mount after Moved, until Report goes there
}

// A watchedDir is a folder that is watched. Its path is that of the folders above
// it, so that a renamed folder takes along what is below.
type watchedDir struct {
	up   *watchedDir
	name string
	wd   int32
	subs map[string]*watchedDir
}

// A notice is a change as the kernel reports it.
type notice struct {
	wd     int32
	mask   uint32
	cookie uint32
	name   string
}

// Watch begins to watch the folder that rel leads to. While it looks for the
// folders below it calls pause again and again; an error of pause ends it. More
// folders than a watch or the kernel takes in are ErrWatchedFolders.
func (r *Root) Watch(rel string, recursive bool, pause func() error) (*Watch, error) {
	if r.single != "" {
		return nil, unix.ENOTDIR
	}
	if !r.k.Proc {
		return nil, unix.EOPNOTSUPP
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == unix.EMFILE {
		err = ErrWatches
	}
	if err != nil {
		return nil, err
	}
	w := &Watch{root: r, rel: rel, in: os.NewFile(uintptr(fd), "inotify"), recursive: recursive, pause: pause, buf: make([]byte, watchBuffer)}
	if err := w.look(); err != nil {
		w.Close()
		if err == unix.ENOSPC {
			err = ErrWatchedFolders
		}
		return nil, err
	}
	w.begun = true
	w.out = append(wire.AppendFileChange(nil, wire.FileChange{Kind: wire.ChangeReady, Name: ".", Info: wire.FileInfo{Size: w.entries}}), w.out...)
	return w, nil
}

// Watches reports whether the kernel has inotify, and /proc by which folders are
// named to it.
func (k Kernel) Watches() bool {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		unix.Close(fd)
	}
	return k.Proc && err != unix.ENOSYS
}

// Close ends the watch. It waits for nothing.
func (w *Watch) Close() {
	w.in.Close()
}

// Wake makes a Wait that is under way, and every later one, return.
func (w *Watch) Wake() {
	w.woken.Store(true)
	_ = w.in.SetReadDeadline(time.Unix(1, 0))
}

// Moved says that another file system lies at the mount: root, or nil where there
// is none. The Watch reports that changes were dropped and looks for its folders
// there, or that its folder has gone.
func (w *Watch) Moved(root *Root) {
	if root == nil {
		root = &Root{fd: -1}
	}
	w.next.Store(root)
	_ = w.in.SetReadDeadline(time.Unix(1, 0))
}

// move goes on in another file system.
func (w *Watch) move(root *Root) error {
	_ = w.in.SetReadDeadline(time.Time{})
	if w.woken.Load() || w.next.Load() != nil { // their deadline may be gone
		_ = w.in.SetReadDeadline(time.Unix(1, 0))
	}
	w.queue = nil
	view, err := root, error(nil)
	if root.fd < 0 {
		err = ErrNoRoot
	} else if w.root.plain {
		view, err = root.WithoutLinks()
	}
	if err == nil {
		w.root = view
		w.emit(wire.FileChange{Kind: wire.ChangeOverflow, Name: "."})
		err = w.look()
	}
	switch err {
	case nil:
		return nil
	case unix.ENOSPC:
		return ErrWatchedFolders
	case ErrNoRoot, ErrLink, ErrEscape, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES:
		w.out = nil
		w.emit(wire.FileChange{Kind: wire.ChangeGone, Name: "."})
		w.gone = true
		return nil
	}
	return err
}

// Records returns what was found and not returned before, and whether the watch
// has ended because the folder has gone.
func (w *Watch) Records() (records []byte, ended bool) {
	records, w.out = w.out, nil
	return records, w.gone
}

// Wait waits until the kernel reports changes, and reads them.
func (w *Watch) Wait() error {
	if len(w.queue) > 0 || w.next.Load() != nil {
		return nil // Report has left some, or has to move
	}
	if err := w.read(); err != nil {
		if w.next.Load() != nil && !w.woken.Load() {
			return nil
		}
		return err
	}
	if !w.half() {
		return nil
	}
	_ = w.in.SetReadDeadline(time.Now().Add(watchHalf))
	for w.half() && len(w.queue) < maxWatchQueue && w.read() == nil {
	}
	_ = w.in.SetReadDeadline(time.Time{})
	if w.woken.Load() { // its deadline is gone; a later Wake sets another
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (w *Watch) read() error {
	n, err := w.in.Read(w.buf)
	if err != nil {
		return err
	}
	for b := w.buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:size]), "\x00")
		w.queue = append(w.queue, notice{wd: int32(binary.NativeEndian.Uint32(b)), mask: binary.NativeEndian.Uint32(b[4:]), cookie: binary.NativeEndian.Uint32(b[8:]), name: name})
		b = b[size:]
	}
	return nil
}

// half reports whether the first half of a renaming is in the queue without the
// second.
func (w *Watch) half() bool {
	open := map[uint32]bool{}
	for _, n := range w.queue {
		switch {
		case n.mask&unix.IN_MOVED_FROM != 0:
			open[n.cookie] = true
		case n.mask&unix.IN_MOVED_TO != 0:
			delete(open, n.cookie)
		}
	}
	return len(open) > 0
}

// Report turns what was read into records.
func (w *Watch) Report() error {
	if root := w.next.Swap(nil); root != nil {
		return w.move(root)
	}
	queue := w.queue
	w.queue = nil
	for i, n := range queue {
		if len(w.out) > maxWatchRecords {
			w.queue = queue[i:]
			return nil
		}
		if n.cookie != 0 && n.mask&unix.IN_MOVED_TO != 0 && n.wd == 0 {
			continue // it was reported with its first half
		}
		if err := w.report(n, queue[i+1:]); err != nil {
			return err
		}
		if w.gone {
			return nil
		}
	}
	if !w.queued() {
		w.fresh = nil
	}
	return nil
}

// queued reports whether the kernel has more.
func (w *Watch) queued() bool {
	more := true
	if c, err := w.in.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) {
			n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
			more = err != nil || n > 0
		})
	}
	return more
}

func (w *Watch) report(n notice, later []notice) error {
	if n.mask&unix.IN_Q_OVERFLOW != 0 {
		w.emit(wire.FileChange{Kind: wire.ChangeOverflow, Name: "."})
		return w.look()
	}
	dir := w.of[n.wd]
	switch {
	case dir == nil:
		return nil
	case n.mask&unix.IN_IGNORED != 0:
		w.forget(dir)
		return nil
	case dir == w.top && n.mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
		w.emit(wire.FileChange{Kind: wire.ChangeGone, Name: "."})
		w.gone = true
		return nil
	case n.name == "":
		if dir == w.top && n.mask&unix.IN_ATTRIB != 0 {
			w.change(wire.ChangeMode, dir, "")
		}
		return nil
	}
	return w.entry(n, dir, later)
}

// entry reports what has happened to one name.
func (w *Watch) entry(n notice, dir *watchedDir, later []notice) error {
	folder := n.mask&unix.IN_ISDIR != 0
	staged, replaced := w.root.staging.find(n.name)
	switch {
	case n.mask&unix.IN_MOVED_FROM != 0:
		return w.moved(n, dir, later, staged, replaced)
	case staged: // content on its way to its file
		return nil
	case n.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		if w.fresh[dir][n.name] {
			delete(w.fresh[dir], n.name) // the scan has reported it
			return nil
		}
		w.change(wire.ChangeCreate, dir, n.name)
		if folder && w.recursive {
			return w.enter(dir, n.name, true)
		}
	case n.mask&unix.IN_DELETE != 0:
		delete(w.fresh[dir], n.name)
		if sub := dir.subs[n.name]; folder && sub != nil {
			w.leave(sub)
		}
		w.emit(wire.FileChange{Kind: wire.ChangeRemove, Name: dir.path(n.name)})
	case n.mask&unix.IN_MODIFY != 0:
		w.change(wire.ChangeWrite, dir, n.name)
	case n.mask&unix.IN_ATTRIB != 0:
		c := wire.FileChange{Kind: wire.ChangeMode, Name: dir.path(n.name), Info: w.about(dir, n.name)}
		if strings.HasPrefix(n.name, "#") && c.Info == (wire.FileInfo{}) {
			return nil // a file without name (O_TMPFILE), which the kernel calls so
		}
		w.emit(c)
	}
	return nil
}

// moved reports a renaming. Its second half is taken out of later.
func (w *Watch) moved(n notice, dir *watchedDir, later []notice, staged, replaced bool) error {
	delete(w.fresh[dir], n.name)
	sub := dir.subs[n.name]
	for i, m := range later {
		if m.mask&unix.IN_MOVED_TO == 0 || m.cookie != n.cookie || w.of[m.wd] == nil {
			continue
		}
		goal := w.of[m.wd]
		later[i].wd = 0
		if staged {
			kind := wire.ChangeCreate
			if replaced || w.fresh[goal][m.name] {
				kind = wire.ChangeWrite
			}
			w.change(kind, goal, m.name)
			return nil
		}
		delete(w.fresh[goal], m.name)
		if old := goal.subs[m.name]; old != nil && old != sub {
			w.leave(old)
		}
		c := wire.FileChange{Kind: wire.ChangeRename, Name: dir.path(n.name), To: goal.path(m.name)}
		if sub != nil {
			delete(dir.subs, n.name)
			sub.up, sub.name = goal, m.name
			goal.add(sub)
		}
		c.Info = w.about(goal, m.name)
		w.emit(c)
		if sub == nil && n.mask&unix.IN_ISDIR != 0 && w.recursive {
			return w.enter(goal, m.name, true)
		}
		return nil
	}
	if sub != nil {
		w.leave(sub)
	}
	if !staged {
		w.emit(wire.FileChange{Kind: wire.ChangeRename, Name: dir.path(n.name)})
	}
	return nil
}

// change reports a change of an entry that is there; an empty name is the folder.
func (w *Watch) change(kind wire.ChangeKind, dir *watchedDir, name string) {
	w.emit(wire.FileChange{Kind: kind, Name: dir.path(name), Info: w.about(dir, name)})
}

// emit appends a record. A path that is too long for one is reported at the
// folder above, so that it is not lost in silence.
func (w *Watch) emit(c wire.FileChange) {
	const most = (wire.MaxFileChange - 64) / 2
	if len(c.Name) > most || len(c.To) > most {
		c = wire.FileChange{Kind: wire.ChangeUnwatched, Name: ".", Info: wire.FileInfo{Size: uint64(unix.ENAMETOOLONG)}}
	}
	w.out = wire.AppendFileChange(w.out, c)
}

// about describes an entry, as far as it is there.
func (w *Watch) about(dir *watchedDir, name string) wire.FileInfo {
	fd, err := w.open(dir)
	if err != nil {
		return wire.FileInfo{}
	}
	defer unix.Close(fd)
	if name == "" {
		name = "."
	}
	st, err := lstat(fd, name)
	if err != nil {
		return wire.FileInfo{}
	}
	return info(&st)
}

// open opens a watched folder by its path. No link below the watched one is
// followed.
func (w *Watch) open(dir *watchedDir) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_DIRECTORY
	top, err := w.root.open(w.rel, unix.O_DIRECTORY)
	if err != nil || dir.up == nil {
		return top, err
	}
	rel := dir.path("")
	fd, err := w.root.k.openat2(top, rel, flags, beneath|unix.RESOLVE_NO_SYMLINKS)
	if err != unix.ENOSYS {
		unix.Close(top)
		return fd, err
	}
	fd, err = top, nil
	for _, name := range elements(rel) {
		next, err := openat(fd, name, flags)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// look finds the folders to watch anew. The kernel gives a folder that is
// watched already the descriptor that it has.
func (w *Watch) look() error {
	before := w.of
	w.of, w.fresh, w.entries = map[int32]*watchedDir{}, nil, 1
	w.top = &watchedDir{}
	if err := w.watch(w.top, false); err != nil {
		return err
	}
	for wd := range before {
		if w.of[wd] == nil {
			w.drop(wd)
		}
	}
	return nil
}

// drop ends the kernel's watch of one folder; that it is gone is no error.
func (w *Watch) drop(wd int32) {
	if c, err := w.in.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) })
	}
}

// enter begins to watch the new folder name in dir; report says that what is in
// it is reported. What keeps it from that is reported, and ends nothing.
func (w *Watch) enter(dir *watchedDir, name string, report bool) error {
	sub := &watchedDir{up: dir, name: name}
	err := w.watch(sub, report)
	if err == unix.ENOSPC && !w.begun {
		return err
	}
	switch err {
	case nil, unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // it has gone, or is another thing by now, of which a notice comes
		return nil
	case unix.EACCES, unix.EPERM, unix.ENOSPC, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENAMETOOLONG, unix.EXDEV, unix.EIO, unix.ESTALE:
		w.emit(wire.FileChange{Kind: wire.ChangeUnwatched, Name: sub.path(""), Info: wire.FileInfo{Size: uint64(err.(unix.Errno))}})
		return nil
	}
	return err
}

// watch places the watch of dir first, and then looks at what is in it, so that
// nothing comes to be unseen in between.
func (w *Watch) watch(dir *watchedDir, report bool) error {
	if len(w.of) >= wire.MaxWatchedFolders {
		return unix.ENOSPC
	}
	fd, err := w.open(dir)
	if err != nil {
		return err
	}
	folders, err := w.place(dir, fd, report)
	unix.Close(fd) // before the folders below are opened
	for _, name := range folders {
		if err == nil {
			err = w.enter(dir, name, report)
		}
	}
	return err
}

// place watches the open folder dir and returns the folders in it.
func (w *Watch) place(dir *watchedDir, fd int, report bool) (folders []string, err error) {
	c, err := w.in.SyscallConn()
	if err != nil {
		return nil, err
	}
	wd := 0
	if e := c.Control(func(in uintptr) { wd, err = unix.InotifyAddWatch(int(in), procFD(fd), watchedChanges) }); e != nil || err != nil {
		if err == nil {
			err = e
		}
		return nil, err
	}
	if w.of[int32(wd)] != nil {
		return nil, nil // another name of it; a renaming that is to be reported puts it right
	}
	dir.wd = int32(wd)
	w.of[dir.wd] = dir
	if dir.up != nil {
		dir.up.add(dir)
	}
	return w.scan(fd, dir, report)
}

// scan goes through the entries of a folder and returns the folders in it.
func (w *Watch) scan(fd int, dir *watchedDir, report bool) (folders []string, err error) {
	var s scan
	for {
		name, kind, err := s.next(fd)
		if err != nil || name == "" {
			return folders, err
		}
		if w.scanned++; w.scanned%scanPause == 0 {
			if err := w.pause(); err != nil {
				return nil, err
			}
		}
		w.entries++
		if staged, _ := w.root.staging.find(name); staged {
			continue
		}
		if kind == unix.DT_UNKNOWN {
			if st, err := lstat(fd, name); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				kind = unix.DT_DIR
			}
		}
		if report && len(w.out) > maxWatchRecords {
			report = false
			w.emit(wire.FileChange{Kind: wire.ChangeOverflow, Name: "."})
		}
		if report {
			st, err := lstat(fd, name)
			if err != nil {
				continue // it has gone, of which a notice comes
			}
			w.emit(wire.FileChange{Kind: wire.ChangeCreate, Name: dir.path(name), Info: info(&st)})
			w.remember(dir, name)
		}
		if kind == unix.DT_DIR && w.recursive {
			if len(folders) >= wire.MaxWatchedFolders {
				return nil, unix.ENOSPC
			}
			folders = append(folders, name)
		}
	}
}

// remember notes that a scan has reported a name, whose own notice may come yet.
func (w *Watch) remember(dir *watchedDir, name string) {
	if w.fresh == nil {
		w.fresh = map[*watchedDir]map[string]bool{}
	}
	if w.fresh[dir] == nil {
		w.fresh[dir] = map[string]bool{}
	}
	w.fresh[dir][name] = true
}

// leave stops watching a folder and those below it.
func (w *Watch) leave(dir *watchedDir) {
	for _, sub := range dir.subs {
		w.leave(sub)
	}
	w.forget(dir)
	w.drop(dir.wd)
}

// forget removes a folder from the tree.
func (w *Watch) forget(dir *watchedDir) {
	delete(w.of, dir.wd)
	delete(w.fresh, dir)
	if dir.up != nil && dir.up.subs[dir.name] == dir {
		delete(dir.up.subs, dir.name)
	}
}

func (d *watchedDir) add(sub *watchedDir) {
	if d.subs == nil {
		d.subs = map[string]*watchedDir{}
	}
	d.subs[sub.name] = sub
}

// path returns the path of name in the folder, or of the folder itself, relative
// to the one that is watched.
func (d *watchedDir) path(name string) string {
	var names []string
	if name != "" {
		names = append(names, name)
	}
	for ; d.up != nil; d = d.up {
		names = append(names, d.name)
	}
	if len(names) == 0 {
		return "."
	}
	for i, j := 0, len(names)-1; i < j; i, j = i+1, j-1 {
		names[i], names[j] = names[j], names[i]
	}
	return strings.Join(names, "/")
}
