package hostpath

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fileWatches are the watches on files, whose content counts.
type fileWatches struct {
	of   map[string]int   // by path
	at   map[int][]string // the paths of each watch: more than one for a file with several names
	gone map[int]bool     // watches that were given up, whose last events are still to come
}

func newFileWatches() fileWatches {
	return fileWatches{of: map[string]int{}, at: map[int][]string{}, gone: map[int]bool{}}
}

// File is [DirWatch.Path] for a path whose content counts too, where it is a
// regular file. A change through a shared mapping of the file alone has no
// event.
func (w *DirWatch) File(p string) (fresh bool, err error) {
	fresh, err = w.Path(p)
	if err != nil {
		return false, err
	}
	if _, ok := w.files.of[p]; ok {
		return fresh, nil
	}
	fd, err := unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if Gone(err) {
		return fresh, nil // the missing name itself is watched
	}
	if err != nil {
		return false, errors.Join(ErrCannot, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, errors.Join(ErrCannot, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fresh, nil // the name tells when something takes its place
	}
	if w.full() || !tells(fd) {
		return false, ErrCannot
	}
	wd, err := unix.InotifyAddWatch(w.events, Self(fd), unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	if err != nil {
		return false, errors.Join(ErrCannot, err)
	}
	w.files.of[p] = wd
	w.files.at[wd] = append(w.files.at[wd], p)
	return true, nil
}

// ofFile reports whether the event is one of a file, and reports the paths of
// the file as changed.
func (w *DirWatch) ofFile(wd int, mask uint32) bool {
	if w.files.gone[wd] {
		if mask&unix.IN_IGNORED != 0 {
			delete(w.files.gone, wd)
		}
		return true
	}
	at, ok := w.files.at[wd]
	if !ok {
		return false
	}
	if mask&unix.IN_IGNORED != 0 { // the kernel has removed the watch
		w.dropFile(wd)
	}
	for _, p := range at {
		if mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 {
			w.forgetFile(p)
		}
		if w.changed != nil {
			w.changed(p)
		}
	}
	return true
}

// forgetFile gives up the watch on the file at p, which may be another file now.
func (w *DirWatch) forgetFile(p string) {
	wd, ok := w.files.of[p]
	if !ok {
		return
	}
	w.dropFile(wd)
	w.files.gone[wd] = true
	if _, err := unix.InotifyRmWatch(w.events, uint32(wd)); err != nil {
		// The kernel has removed it and has queued the last event of it.
		return
	}
}

// dropFile forgets the watch wd for all its paths.
func (w *DirWatch) dropFile(wd int) {
	for _, p := range w.files.at[wd] {
		delete(w.files.of, p)
	}
	delete(w.files.at, wd)
}
