//go:build linux

package server

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the guest's socket in its mounted folder.
const SocketName = "guest.sock"

const (
	// rebindPause is the shortest time between two looks at the folder, so
	// that user code cannot keep the guest busy with it.
	rebindPause = 50 * time.Millisecond
	// lookEvery is how often the folder is looked at where there is no
	// inotify to be had.
	lookEvery = time.Second
)

// A socketDir keeps our socket in a folder in which user code may remove,
// rename and create what it likes. The folder itself is a mount point and
// stays.
type socketDir struct {
	path  string
	admit func(*os.File)
	ok    func(fd int) bool

	current *listener
	bound   unix.Stat_t // the socket's inode
}

// keep binds the socket and binds it again when it is gone, for ever. It
// returns at once when the folder does not exist.
func (d *socketDir) keep(ready chan<- struct{}) {
	var st unix.Stat_t
	if unix.Stat(d.path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		close(ready)
		return
	}
	events := d.watch() // before the first look, so that nothing is missed
	d.look()
	close(ready)
	for {
		d.wait(events)
		d.look()
		time.Sleep(rebindPause)
	}
}

// watch returns an inotify file for the folder, or nil.
func (d *socketDir) watch() *os.File {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	mask := uint32(unix.IN_DELETE | unix.IN_MOVE | unix.IN_CREATE | unix.IN_ATTRIB | unix.IN_ONLYDIR)
	if _, err := unix.InotifyAddWatch(fd, d.path, mask); err != nil {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "inotify")
}

// wait waits for a change in the folder. What changed does not matter.
func (d *socketDir) wait(events *os.File) {
	if events == nil || d.current == nil {
		time.Sleep(lookEvery) // no events here, or a failed bind to try again
		return
	}
	var b [4096]byte
	if _, err := events.Read(b[:]); err != nil {
		time.Sleep(lookEvery)
	}
}

// look binds the socket unless it is in place.
func (d *socketDir) look() {
	if d.current != nil && d.inPlace() {
		return
	}
	l, err := d.bind()
	if err != nil {
		return // tried again; connections through relays still work
	}
	if d.current != nil {
		d.current.close()
	}
	d.current = l
	go l.serve(d.ok, d.admit)
}

func (d *socketDir) inPlace() bool {
	var st unix.Stat_t
	return unix.Lstat(d.path+"/"+SocketName, &st) == nil && st.Ino == d.bound.Ino && st.Dev == d.bound.Dev
}

// bind makes the socket under a random name and renames it into place,
// which replaces whatever file, link or pipe is there without following or
// opening it. A folder is moved aside first, because rename(2) does not
// replace it and emptying it could take for ever.
func (d *socketDir) bind() (*listener, error) {
	// We and user code are the same user: it may have closed the folder.
	_ = unix.Chmod(d.path, 0o700)
	tmp := d.path + "/." + randomHex(8)
	l, err := listenUnix(tmp)
	if err != nil {
		return nil, err
	}
	target := d.path + "/" + SocketName
	err = unix.Lstat(tmp, &d.bound)
	if err == nil {
		err = unix.Rename(tmp, target)
	}
	if err == unix.EISDIR || err == unix.ENOTEMPTY || err == unix.EEXIST {
		_ = unix.Rename(target, d.path+"/."+randomHex(8))
		err = unix.Rename(tmp, target)
	}
	if err != nil {
		_ = unix.Unlink(tmp)
		l.close()
		return nil, err
	}
	return l, nil
}
